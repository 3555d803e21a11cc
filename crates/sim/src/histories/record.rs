//! What the clients of a tenant sent and were told.

use base::{CommitNo, SessionId};
use tenant::Isolation;
use tenant::catalog::PUBLIC_SCHEMA;
use tenant::row::keys::KeyRange;
use types::{Datum, Row};

use super::object::{Object, found_in};
use crate::client::{Book, Values};
use crate::isolation::{Key, Level, Outcome, Transaction, Value};
use crate::{Home, Journal, Stop, require};

/// Keys in use at a time.
pub(crate) const KEYS: Key = 5;
/// Writes after which the oldest key is left and a new one begun.
const WRITES_PER_KEY: i64 = 12;

pub(crate) struct Record<O: Object> {
    pub(crate) history: Vec<Transaction<O::Operation>>,
    journal: Journal<Vec<()>>,
    pub(crate) acknowledged: u64,
    /// Grows with each message.
    ticks: u64,
    values: Value,
}

impl<O: Object> Default for Record<O> {
    fn default() -> Record<O> {
        let (history, journal) = (Vec::new(), Journal::default());
        Record { history, journal, acknowledged: 0, ticks: 0, values: 0 }
    }
}

impl<O: Object> Book for Record<O> {
    type Effect = ();
    fn commit(&mut self, commit: CommitNo, effects: Vec<()>) {
        self.journal.commit(commit, effects);
    }
    fn told(&mut self, commit: CommitNo, by: &'static str) {
        self.journal.told(commit, by);
    }
    fn acknowledged(&mut self) {
        self.acknowledged += 1;
    }
}

impl<O: Object> Record<O> {
    fn tick(&mut self) -> u64 {
        self.ticks += 1;
        self.ticks
    }

    /// A value never written before.
    pub(crate) fn value(&mut self) -> Value {
        self.values += 1;
        self.values
    }

    /// The first of the keys in use.
    pub(crate) fn first_key(&self) -> Key {
        1 + self.values / WRITES_PER_KEY
    }

    /// Begins a transaction, which counts as aborted until more is known; its place in the history.
    pub(crate) fn begin(&mut self) -> usize {
        let began = self.tick();
        self.history.push(Transaction { operations: Vec::new(), outcome: Outcome::Aborted, began, ended: 0 });
        self.history.len() - 1
    }

    pub(crate) fn committed(&mut self, place: usize) {
        self.history[place].ended = self.tick();
        self.history[place].outcome = Outcome::Committed;
    }

    /// Transactions that were acknowledged.
    pub(crate) fn committed_count(&self) -> u64 {
        self.history.iter().filter(|t| t.outcome == Outcome::Committed).count() as u64
    }

    /// Whether the history is one that `level` allows.
    ///
    /// # Errors
    /// A violation with the first anomalies.
    pub(crate) fn judge(&self, level: Level) -> Result<(), Stop> {
        let findings = O::check(&self.history, level);
        let told: Vec<String> = findings.iter().take(5).map(ToString::to_string).collect();
        require!(findings.is_empty(), "{level:?}: {}", told.join("\n"));
        Ok(())
    }

    /// What is there after a recovery counts as the reads of one transaction.
    pub(crate) fn recovered(&mut self, home: &Home) -> Result<(), Stop> {
        self.journal.check(home.turn(|home| home.tenant.committed()))?;
        let (commit, rows) = home.blocking(|| rows(home))?;
        self.journal.recover(commit)?.for_each(drop);
        let place = self.begin();
        let keys = 1..self.first_key() + KEYS;
        self.history[place].operations = found_in::<O>(keys, &rows).map_err(Stop::violation)?;
        self.committed(place);
        Ok(())
    }
}

/// Every object, as a client would get it, and at which commit.
fn rows(home: &Home) -> Result<(CommitNo, Vec<Values>), Stop> {
    let failed = |error: base::SqlError| Stop::failed(home.world(), "reading all objects", error);
    let (commit, view) = home.turn(|home| {
        let mut txn = home.tenant.begin(SessionId(0), Isolation::ReadCommitted, true, true);
        let view = home.tenant.snapshot_view(&mut txn);
        home.tenant.abort(txn);
        (home.tenant.committed(), view)
    });
    let view = view.map_err(failed)?;
    let table = view.catalog().relation_in(PUBLIC_SCHEMA, "object").map(|relation| relation.oid());
    let table = table.and_then(|oid| view.catalog().table(oid)).expect("the table was made");
    let mut rows: Vec<Row> = Vec::new();
    let mut scan = view.scan(table, KeyRange::all());
    while scan
        .next_leaf(&mut |row| {
            rows.push(row.to_row()?);
            Ok(())
        })
        .map_err(failed)?
    {}
    Ok((commit, rows.iter().map(as_told).collect()))
}

fn as_told(row: &Row) -> Values {
    match &row[..] {
        [Datum::Int8(id), Datum::Int8(other), Datum::Text(v)] if id == other => {
            vec![Some(id.to_string()), Some(v.to_string())]
        }
        row => panic!("an object is {row:?}"),
    }
}
