//! What a statement executes against, within one turn of the home: reads and locks. Writes are in `write`.

use std::borrow::Cow;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use base::{Lsn, Oid, SqlError, SqlResult, SqlState, TreeId};
use storage::PageFault;
use types::FormatContext;

use crate::catalog::{Catalog, Index, Table};
use crate::interrupt::{Interrupt, Step};
use crate::overlay::Change;
use crate::poured::Poured;
use crate::redo_sink::RedoSink;
use crate::row::RowRef;
use crate::row::keys::{Key, KeyRange, table_key_of_entry};
use crate::tenant::Tenant;
use crate::trees::Pages;
use crate::txn::{Before, Isolation, Txn};

/// A tenant as a transaction sees it, for one turn. Made by [`Tenant::view`].
pub struct View<'a> {
    pub(crate) tenant: Seat<'a>,
    pub(crate) txn: &'a mut Txn,
    pub(crate) redo: &'a mut dyn RedoSink,
    pub(crate) session: Option<InSession<'a>>,
    /// Steps left until the session is asked again, of so many.
    pub(crate) unasked: u32,
    pub(crate) unasked_of: u32,
    /// What was read last of the pages that the transaction works on: what is locked or changed was mostly read just before.
    pub(crate) near: Option<(TreeId, btree::Found)>,
}

/// The tenant, at the side of it that the transaction works on: the live pages, or its branch until this is dropped.
pub(crate) struct Seat<'a> {
    tenant: &'a mut Tenant,
    turns_back: bool,
}

impl<'a> Seat<'a> {
    pub(crate) fn of(tenant: &'a mut Tenant, txn: &Txn) -> Seat<'a> {
        if txn.branched {
            tenant.turn(true);
        }
        Seat { tenant, turns_back: txn.branched }
    }
}

impl Deref for Seat<'_> {
    type Target = Tenant;

    #[inline]
    fn deref(&self) -> &Tenant {
        self.tenant
    }
}

impl DerefMut for Seat<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Tenant {
        self.tenant
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        // A panic may have come while the sides were exchanged.
        if self.turns_back && self.tenant.pages.is_in_branch() {
            self.tenant.turn(false);
        }
    }
}

/// What a view has of the session it works for.
#[derive(Clone, Copy)]
pub(crate) struct InSession<'a> {
    pub(crate) format: &'a FormatContext,
    asked_to_end: &'a dyn Fn(u32) -> bool,
}

/// Rows and other small steps between two looks at whether the statement is to end: at 0.2 us a row, every 50 us.
pub(crate) const STEPS_UNASKED: u32 = 256;

/// The same while each step may read some pages, which the tenant then has to make room for: at 3 pages a step, half a MiB.
pub(crate) const STEPS_UNASKED_IN_TURN: u32 = 21;

/// Through what a table is scanned.
#[derive(Clone, Copy, Debug)]
pub enum Access<'i> {
    /// The table's own tree: by primary key, or by row id.
    Table,
    /// An index; the primary key's is the table's own tree.
    Index(&'i Index),
}

/// Which state is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// What the transaction's isolation says.
    Statement,
    /// The newest committed state with the transaction's changes, for constraints.
    Newest,
}

impl<'a> View<'a> {
    /// The same for a session: values in error details have its forms (else those of the defaults), and long work ends
    /// with [`Interrupt::Asked`] soon after `asked_to_end`, told how many steps were taken since it was asked last, answers true.
    #[must_use]
    pub fn in_session(self, format: &'a FormatContext, asked_to_end: &'a dyn Fn(u32) -> bool) -> View<'a> {
        View { session: Some(InSession { format, asked_to_end }), ..self }
    }

    /// One step of a loop that may be long; each row of a scan is one already.
    ///
    /// Errors: [`Interrupt::Asked`].
    #[inline]
    pub fn step(&mut self) -> Step<()> {
        self.unasked -= 1;
        if self.unasked == 0 { self.ask() } else { Ok(()) }
    }

    /// As [`View::step`], before work that takes as long as many steps do.
    ///
    /// Errors: [`Interrupt::Asked`].
    pub fn look(&mut self) -> Step<()> {
        self.ask()
    }

    /// Ends a turn of a statement that goes on in another one; the session is told of the steps since it was last asked.
    pub(crate) fn end_turn(&mut self) -> Interrupt {
        let steps = self.unasked_of - self.unasked;
        if let Some(session) = self.session {
            (session.asked_to_end)(steps);
        }
        Interrupt::Asked
    }

    #[cold]
    fn ask(&mut self) -> Step<()> {
        let steps = self.unasked_of - self.unasked;
        self.unasked_of = if self.tenant.in_turn { STEPS_UNASKED_IN_TURN } else { STEPS_UNASKED };
        self.unasked = self.unasked_of;
        self.tenant.shed_in_turn();
        match self.session {
            Some(session) if (session.asked_to_end)(steps) => Err(Interrupt::Asked),
            _ => Ok(()),
        }
    }
}

impl View<'_> {
    /// The catalog the transaction sees: its own DDL, its snapshot's, or the newest.
    pub fn catalog(&self) -> &Arc<Catalog> {
        self.txn.catalog.as_ref().unwrap_or_else(|| match &self.txn.frozen {
            Some(frozen) => &frozen.catalog,
            None => &self.tenant.catalog,
        })
    }

    pub fn txn(&self) -> &Txn {
        self.txn
    }

    /// A view for a shorter time, to hand to a function that takes one by value.
    pub fn reborrow(&mut self) -> View<'_> {
        View {
            tenant: Seat { tenant: self.tenant.tenant, turns_back: false },
            txn: self.txn,
            redo: self.redo,
            session: self.session,
            unasked: self.unasked,
            unasked_of: self.unasked_of,
            near: self.near,
        }
    }

    /// The newest commit the transaction may have read that is not durable; see [`Txn::observed`].
    pub fn observed(&self) -> Lsn {
        self.txn.observed
    }

    /// Committed rows of a table; an estimate for planning, blind to the transaction's own changes.
    pub fn row_count(&self, table: &Table) -> u64 {
        self.tenant.row_count(table)
    }

    /// The row with this key of the table's tree ([`crate::row::keys::primary_key`], [`RowRef::key`]).
    pub fn get<'v>(&'v mut self, table: &'v Table, key: &'v [u8]) -> Step<Option<RowRef<'v>>> {
        self.note_point_read(table.tree, key);
        let found = self.read(table.tree, key, State::Statement)?;
        Ok(found.map(|bytes| RowRef::new(table, Cow::Borrowed(key), bytes)))
    }

    /// Asks for the rows with these keys of the table's tree from memory together, before they are looked up one after the other. Only a speed-up.
    pub fn ask_for_rows(&self, table: &Table, keys: &[Key]) {
        let Ok((pages, root)) = source(&self.tenant, self.txn, table.tree, State::Statement) else { return };
        let mut found = Vec::with_capacity(keys.len());
        // A page that is not there is told of when its row is looked up.
        let _ = btree::get_many(&pages, root, keys, &mut found);
    }

    /// The row with this value in a unique index (or the primary key), which has one value for each column and none NULL.
    pub fn get_unique<'v>(
        &'v mut self,
        table: &'v Table,
        index: &Index,
        values: &[types::Datum],
    ) -> Step<Option<RowRef<'v>>> {
        assert!(index.unique && values.len() == index.columns.len(), "all columns of a unique index");
        let key = crate::row::keys::ColumnRange::equal(values).key_range(&index.columns).from;
        if table.is_primary(index) {
            self.note_point_read(table.tree, &key);
            let found = self.read(table.tree, &key, State::Statement)?;
            return Ok(found.map(|bytes| RowRef::new(table, Cow::Owned(key.to_vec()), bytes)));
        }
        self.note_point_read(index.tree, &key);
        let Some(table_key) = self.unique_owner(index, &key, State::Statement)? else { return Ok(None) };
        self.note_point_read(table.tree, &table_key);
        match self.read(table.tree, &table_key, State::Statement)? {
            Some(bytes) => Ok(Some(RowRef::new(table, Cow::Owned(table_key.to_vec()), bytes))),
            None => Err(disagreement(table, index).into()),
        }
    }

    /// The key of the row that has this key in a unique index.
    pub(crate) fn unique_owner(&mut self, index: &Index, key: &[u8], state: State) -> Step<Option<Key>> {
        let Some(entry) = self.read(index.tree, key, state)? else { return Ok(None) };
        match table_key_of_entry(key, &entry) {
            Some(table_key) => Ok(Some(Key::from_slice(table_key))),
            None => Err(SqlError::new(
                SqlState::INDEX_CORRUPTED,
                format!("an entry of index \"{}\" cannot be read", index.name),
            )
            .into()),
        }
    }

    /// SERIALIZABLE remembers what it read.
    #[inline]
    pub(crate) fn note_read(&mut self, tree: TreeId, range: impl FnOnce() -> KeyRange) {
        if self.txn.isolation == Isolation::Serializable {
            self.txn.reads.note(tree, range());
            // Where there is no memory for it, it has become little.
            let _ = self.count_changes();
        }
    }

    #[inline]
    pub(crate) fn note_point_read(&mut self, tree: TreeId, key: &[u8]) {
        self.note_read(tree, || {
            let mut to = Key::from_slice(key);
            to.push(0);
            KeyRange { from: Key::from_slice(key), to: Some(to) }
        });
    }

    /// The bytes under a key: the transaction's own, or those of the state it reads.
    #[inline]
    pub(crate) fn read(&mut self, tree: TreeId, key: &[u8], state: State) -> Step<Option<Cow<'_, [u8]>>> {
        let lsn = self.tenant.pending.of_key(tree, key);
        if lsn > self.txn.observed {
            self.txn.observed = lsn;
        }
        match self.txn.changes(state).get(tree, key) {
            Some(Change::Put(value)) => return Ok(Some(Cow::Borrowed(value))),
            Some(Change::Delete) => return Ok(None),
            None => {}
        }
        // Two arms rather than one over `Pages`: the live one is the hot path of every point read.
        match self.tenant.snapshot_of(self.txn)? {
            Some(frozen) if state == State::Statement && !self.txn.is_built_behind(tree) => {
                if let Some(poured) = self.tenant.poured_of(self.txn, tree)
                    && poured.has(key)?
                {
                    return Ok(poured.value(key)?);
                }
                let pages = self.tenant.pages.frozen(&frozen.pages);
                match btree::get(pages, frozen.trees.root(tree), key)? {
                    Some(value) => Ok(Some(value.read(pages)?)),
                    None => Ok(None),
                }
            }
            _ => {
                // A statement's own reads are mostly of other rows each time.
                let mut near = match self.near {
                    Some((of, found)) if of == tree && state == State::Newest => Some(found),
                    _ => None,
                };
                let root = self.tenant.trees.root(tree);
                let found = btree::get_near(&self.tenant.pages, root, key, &mut near)?;
                self.near = near.map(|found| (tree, found));
                match found {
                    Some(value) => Ok(Some(value.read(&self.tenant.pages)?)),
                    None => Ok(None),
                }
            }
        }
    }

    /// What the statement reads from now on leaves out what it changes from now on, until [`View::take_in_changes`] or until it is
    /// taken back: for one whose parts all see the state in which it began. Constraints, and what is changed, still are of the newest state.
    ///
    /// Errors: 53200 where the changes so far cannot be had a second time.
    pub fn leave_out_changes(&mut self) -> SqlResult<()> {
        let footprint = self.txn.overlay.footprint();
        self.txn.before = Some(Before { changes: self.txn.overlay.changes().clone(), footprint });
        self.count_changes()
    }

    /// The statement reads its own changes again.
    pub fn take_in_changes(&mut self) {
        self.txn.before = None;
        self.tenant.recount_changes(self.txn);
    }

    /// Brings the page of a key into memory, so that commit finds it there, and a pour what it notes of it.
    pub(crate) fn touch(&self, tree: TreeId, key: &[u8]) -> Result<(), PageFault> {
        btree::contains(&self.tenant.pages, self.tenant.trees.root(tree), key)?;
        self.touch_notes(tree, key)
    }

    /// Errors: 25006 in a read-only transaction; `command` is the statement's tag or the function's name.
    pub fn require_writable(&self, command: &str) -> SqlResult<()> {
        if self.txn.read_only {
            return Err(SqlError::new(
                SqlState::READ_ONLY_SQL_TRANSACTION,
                format!("cannot execute {command} in a read-only transaction"),
            ));
        }
        Ok(())
    }

    /// The table as it is now in the transaction's catalog. Errors: 42P01.
    pub fn table(&self, oid: Oid) -> SqlResult<Arc<Table>> {
        self.catalog().table(oid).cloned().ok_or_else(|| {
            SqlError::new(SqlState::UNDEFINED_TABLE, format!("relation with OID {oid} does not exist"))
        })
    }
}

/// The pages and tree root that a transaction's scan of `tree` reads.
///
/// Errors: 72000 if its snapshot was revoked.
pub(crate) fn source<'v>(
    tenant: &'v Tenant,
    txn: &'v Txn,
    tree: TreeId,
    state: State,
) -> SqlResult<(Pages<'v>, btree::TreeRoot)> {
    Ok(match tenant.snapshot_of(txn)? {
        Some(frozen) if state == State::Statement && !txn.is_built_behind(tree) => {
            (Pages::Frozen(tenant.pages.frozen(&frozen.pages)), frozen.trees.root(tree))
        }
        _ => (Pages::Live(&tenant.pages), tenant.trees.root(tree)),
    })
}

/// What a transaction has poured of `tree`, where a scan of it has that over a snapshot.
#[inline]
pub(crate) fn poured_over<'v>(
    tenant: &'v Tenant,
    txn: &Txn,
    tree: TreeId,
    state: State,
) -> Option<Poured<'v>> {
    match state {
        State::Statement if txn.branched && !txn.is_built_behind(tree) => tenant.poured_of(txn, tree),
        _ => None,
    }
}

impl Txn {
    /// Whether this transaction's DDL filled the tree after it had taken the snapshot that it reads, so that only the live pages have it.
    /// The snapshot of a statement on a branch is younger.
    #[inline]
    fn is_built_behind(&self, tree: TreeId) -> bool {
        self.frozen.is_some() && self.is_built(tree)
    }

    /// Whether this transaction's DDL filled the tree.
    #[inline]
    pub(crate) fn is_built(&self, tree: TreeId) -> bool {
        !self.built.is_empty() && self.built.iter().any(|build| build.tree() == tree)
    }
}

/// An index has an entry for a row that is not there.
#[cold]
pub(crate) fn disagreement(table: &Table, index: &Index) -> SqlError {
    SqlError::new(
        SqlState::INDEX_CORRUPTED,
        format!("index \"{}\" does not agree with table \"{}\"", index.name, table.name),
    )
}
