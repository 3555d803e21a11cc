//! What each tenant's rows must be.

use std::collections::{BTreeMap, BTreeSet};

use base::{CommitNo, SessionId};
use tenant::catalog::{Catalog, PUBLIC_SCHEMA, Table};
use tenant::row::keys::KeyRange;
use tenant::{Isolation, SnapshotView};
use types::{Datum, Row};

use crate::{Home, Journal, Stop, require};

/// A table of the scenario.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Kind {
    /// id, balance, note.
    Account,
    /// id, account, price, amount.
    Offer,
    /// token, account, change; no key.
    Receipt,
    /// id, bytes.
    Blob,
    /// Stands for the scratch tables' names.
    Scratch,
    /// id, number: rows of scratch table n.
    ScratchRow(u8),
}

/// Scratch tables that DDL makes and drops.
pub(super) const SCRATCHES: u8 = 3;

impl Kind {
    pub(super) fn name(self) -> String {
        match self {
            Kind::Account => "account".into(),
            Kind::Offer => "offer".into(),
            Kind::Receipt => "receipt".into(),
            Kind::Blob => "blob".into(),
            Kind::Scratch => "scratch".into(),
            Kind::ScratchRow(n) => format!("scratch_{n}"),
        }
    }
}

/// A row's table and first column.
pub(super) type Id = (Kind, i64);
pub(super) type State = BTreeMap<Id, Row>;
/// Rows put and deleted, in order.
pub(super) type Changes = Vec<(Id, Option<Row>)>;

/// A tenant's model.
#[derive(Default)]
pub(super) struct Model {
    /// At the last recovery.
    base: State,
    /// The newest state, durable or not.
    pub(super) head: State,
    /// The commit that last put or deleted each row since the last recovery.
    versions: BTreeMap<Id, CommitNo>,
    pub(super) journal: Journal<Changes>,
    /// The values of the sequence that clients were told.
    pub(super) sequence_told: BTreeSet<i64>,
    pub(super) acknowledged: u64,
    tokens: i64,
}

pub(super) fn apply(state: &mut State, changes: &Changes) {
    for (id, row) in changes {
        match row {
            Some(row) => state.insert(*id, row.clone()),
            None => state.remove(id),
        };
    }
}

pub(super) fn table_named<'c>(catalog: &'c Catalog, name: &str) -> Option<&'c std::sync::Arc<Table>> {
    let oid = catalog.relation_in(PUBLIC_SCHEMA, name)?.oid();
    catalog.table(oid)
}

pub(super) fn id_of(kind: Kind, row: &Row) -> Id {
    match row[0] {
        Datum::Int8(id) => (kind, id),
        ref other => panic!("{kind:?} begins with {other:?}"),
    }
}

impl Model {
    /// A number never used before.
    pub(super) fn token(&mut self) -> i64 {
        self.tokens += 1;
        self.tokens
    }

    pub(super) fn commit(&mut self, commit: CommitNo, changes: Changes) {
        apply(&mut self.head, &changes);
        for (id, _) in &changes {
            self.versions.insert(*id, commit);
        }
        self.journal.commit(commit, changes);
    }

    /// The newest commit that changed one of these rows.
    pub(super) fn version_of(&self, ids: impl IntoIterator<Item = Id>) -> CommitNo {
        ids.into_iter().filter_map(|id| self.versions.get(&id)).copied().max().unwrap_or_default()
    }

    /// The newest commit that changed a row of a table, those it deleted included.
    pub(super) fn version_of_table(&self, kind: Kind) -> CommitNo {
        self.version_of(self.versions.keys().filter(|(of, _)| *of == kind).copied())
    }

    pub(super) fn recovered(&mut self, home: &Home) -> Result<(), Stop> {
        let (recovered, view) = snapshot(home)?;
        let found = read_all(home, &view)?;
        let durable = self.journal.recover(recovered)?;
        let mut expected = std::mem::take(&mut self.base);
        durable.for_each(|changes| apply(&mut expected, &changes));
        for (id, row) in &expected {
            let there = found.get(id);
            require!(there == Some(row), "at commit {recovered}: {id:?} should be {row:?}, is {there:?}");
        }
        let surplus = found.keys().find(|id| !expected.contains_key(id));
        require!(surplus.is_none(), "at commit {recovered}: {surplus:?} should not be there");
        self.head.clone_from(&expected);
        self.base = expected;
        self.versions.clear();
        Ok(())
    }
}

/// The newest state, held for as long as it is wanted.
pub(super) fn snapshot(home: &Home) -> Result<(CommitNo, SnapshotView), Stop> {
    let (commit, view) = home.turn(|home| {
        let mut txn = home.tenant.begin(SessionId(0), Isolation::ReadCommitted, true, true);
        let view = home.tenant.snapshot_view(&mut txn);
        home.tenant.abort(txn);
        (home.tenant.committed(), view)
    });
    Ok((commit, view.map_err(|error| Stop::failed(home.world(), "taking a snapshot", error))?))
}

/// Every row of a snapshot.
pub(super) fn read_all(home: &Home, view: &SnapshotView) -> Result<State, Stop> {
    home.blocking(|| read_tables(home, view))
}

fn read_tables(home: &Home, view: &SnapshotView) -> Result<State, Stop> {
    let mut state = State::new();
    let scratch = (0..SCRATCHES).map(Kind::ScratchRow);
    for kind in [Kind::Account, Kind::Offer, Kind::Receipt, Kind::Blob].into_iter().chain(scratch) {
        let Some(table) = table_named(view.catalog(), &kind.name()) else { continue };
        if let Kind::ScratchRow(n) = kind {
            state.insert((Kind::Scratch, n.into()), Row::new());
        }
        let mut scan = view.scan(table, KeyRange::all());
        let mut rows: Vec<Row> = Vec::new();
        let mut more = true;
        while more {
            more = scan
                .next_leaf(&mut |row| {
                    rows.push(row.to_row()?);
                    Ok(())
                })
                .map_err(|error| Stop::failed(home.world(), "reading a snapshot", error))?;
        }
        for row in rows {
            let twice = state.insert(id_of(kind, &row), row.clone());
            require!(twice.is_none(), "{kind:?} has a row twice: {row:?}");
        }
    }
    Ok(state)
}
