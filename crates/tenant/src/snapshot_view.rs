//! A frozen state of a tenant for threads that are not its home: a snapshot of the pages, the catalog of that moment and a
//! transaction's changes over them.
//!
//! Shares no lock with the home. Reading a page that is not in memory blocks the thread, so only analytic and tool threads
//! use it.

use std::borrow::Cow;
use std::ops::Bound;
use std::sync::Arc;

use base::{CommitNo, PageNo, SqlError, SqlResult, SqlState};
use btree::{Cursor, LeafRun, Seek, Value};
use storage::{FileError, PageBytes, PageFault, ReadPages, Snapshot};

use crate::catalog::{Catalog, Index, Table};
use crate::interrupt::error_of_fault;
use crate::overlay::{Change, Changes, TreeChanges};
use crate::row::RowRef;
use crate::row::keys::{Key, KeyRange, table_key_of_entry};
use crate::trees::Trees;

/// A committed state: pages, trees and catalog as of `commit`.
#[derive(Clone)]
pub(crate) struct Frozen {
    pub(crate) commit: CommitNo,
    pub(crate) pages: Snapshot,
    pub(crate) trees: Trees,
    pub(crate) catalog: Arc<Catalog>,
}

impl std::fmt::Debug for Frozen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Frozen").field("commit", &self.commit).finish_non_exhaustive()
    }
}

/// What an analytic query reads. `Send + Sync`, cheap to clone; the pages it holds are copied by the home before it
/// changes them, until the last clone is dropped.
#[derive(Clone, Debug)]
pub struct SnapshotView {
    frozen: Arc<Frozen>,
    catalog: Arc<Catalog>,
    changes: Changes,
}

const _: () = {
    const fn is_send_and_sync<T: Send + Sync>() {}
    is_send_and_sync::<SnapshotView>();
};

/// Reads pages, blocking on disk where one is not in memory.
pub(crate) struct Blocking<'a>(pub(crate) &'a Snapshot);

impl ReadPages for Blocking<'_> {
    #[inline]
    fn page(&self, no: PageNo) -> Result<&PageBytes, PageFault> {
        match self.0.page(no) {
            Err(PageFault::Miss(_)) => self.0.read_blocking(no).map_err(|error| match error {
                FileError::Corrupt(corrupt) => PageFault::Corrupt(Box::new(corrupt)),
                // The only other failure is the disk's; there is no page to wait for, so it ends the query too.
                error => PageFault::Unreadable(no, error.to_string().into()),
            }),
            result => result,
        }
    }
}

fn failed(fault: PageFault) -> SqlError {
    error_of_fault(&fault)
}

impl SnapshotView {
    pub(crate) fn new(frozen: Arc<Frozen>, catalog: Arc<Catalog>, changes: Changes) -> SnapshotView {
        SnapshotView { frozen, catalog, changes }
    }

    /// The catalog the statement was planned with, the transaction's own DDL included.
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// The last commit in the snapshot.
    pub fn commit(&self) -> CommitNo {
        self.frozen.commit
    }

    /// Rows of a table in the snapshot, the transaction's own changes left out: exact but for those.
    pub fn row_count(&self, table: &Table) -> u64 {
        self.frozen.trees.get(table.tree).entries
    }

    /// A scan of the rows of `table` whose key is within `range`, in key order.
    pub fn scan(&self, table: &Arc<Table>, range: KeyRange) -> SnapshotScan {
        self.open(table, None, range)
    }

    /// A scan of the rows whose entry in a secondary index is within `range`, in the index's order. The primary key's
    /// index is the table itself.
    pub fn index_scan(&self, table: &Arc<Table>, index: &Index, range: KeyRange) -> SnapshotScan {
        if table.is_primary(index) {
            return self.open(table, None, range);
        }
        self.open(table, Some(index.tree), range)
    }

    fn open(&self, table: &Arc<Table>, index: Option<base::TreeId>, range: KeyRange) -> SnapshotScan {
        let tree = index.unwrap_or(table.tree);
        let cursor = Cursor::new(self.frozen.trees.root(tree), Seek::Before(&range.from));
        SnapshotScan { view: self.clone(), table: Arc::clone(table), index, tree, cursor, range, done: false }
    }

    /// The row with this key of the table's tree.
    pub fn get<'v>(&'v self, table: &'v Table, key: &[u8]) -> SqlResult<Option<RowRef<'v>>> {
        let key = Cow::Owned(key.to_vec());
        match self.changes.get(table.tree, &key) {
            Some(Change::Put(row)) => return Ok(Some(RowRef::new(table, key, Cow::Borrowed(row)))),
            Some(Change::Delete) => return Ok(None),
            None => {}
        }
        let pages = Blocking(&self.frozen.pages);
        match btree::get(&pages, self.frozen.trees.root(table.tree), &key).map_err(failed)? {
            None => Ok(None),
            Some(value) => {
                let bytes = value.read(&pages).map_err(failed)?.into_owned();
                Ok(Some(RowRef::new(table, key, Cow::Owned(bytes))))
            }
        }
    }
}

/// A scan over a snapshot, a leaf at a time. Owns what it needs, so it can live in a stream.
pub struct SnapshotScan {
    view: SnapshotView,
    table: Arc<Table>,
    index: Option<base::TreeId>,
    tree: base::TreeId,
    cursor: Cursor,
    /// What is still to be scanned: `from` moves on.
    range: KeyRange,
    done: bool,
}

impl SnapshotScan {
    /// Calls `each` with every row of the next leaf (none, for a leaf whose rows the transaction deleted); false when the
    /// scan is over. An error of `each` ends the scan. Blocks where pages are not in memory.
    pub fn next_leaf(&mut self, each: &mut dyn FnMut(&RowRef<'_>) -> SqlResult<()>) -> SqlResult<bool> {
        if self.done || self.range.is_empty() {
            return Ok(false);
        }
        let frozen = Arc::clone(&self.view.frozen);
        let pages = Blocking(&frozen.pages);
        let end = self.range.to.clone();
        let end = end.as_ref().map_or(Bound::Unbounded, |to| Bound::Excluded(&to[..]));
        let run = self.cursor.next_leaf(&pages, end).map_err(failed)?;
        let part = KeyRange { from: self.range.from.clone(), to: self.range.to.clone() };
        match run {
            None => {
                self.done = true;
                self.merge(&pages, None, &part, each)?;
            }
            Some(run) => {
                let mut last = Vec::new();
                run.key_into(run.len() - 1, &mut last);
                let mut next = Key::from_slice(&last);
                next.push(0);
                self.range.from = next.clone();
                self.merge(&pages, Some(run), &KeyRange { to: Some(next), ..part }, each)?;
            }
        }
        Ok(true)
    }

    fn merge(
        &self,
        pages: &Blocking<'_>,
        run: Option<LeafRun<'_>>,
        part: &KeyRange,
        each: &mut dyn FnMut(&RowRef<'_>) -> SqlResult<()>,
    ) -> SqlResult<()> {
        let none = TreeChanges::new();
        let changes = self.view.changes.of(self.tree).unwrap_or(&none);
        let to = part.to.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let mut changes = changes.range::<Key, _>((Bound::Included(&part.from), to)).peekable();
        let mut key = Vec::new();
        for i in 0..run.map_or(0, |run| run.len()) {
            let run = run.expect("has entries");
            run.key_into(i, &mut key);
            while let Some((changed, change)) = changes.next_if(|(changed, _)| changed[..] < key[..]) {
                self.emit_change(changed, change, each)?;
            }
            match changes.next_if(|(changed, _)| changed[..] == key[..]) {
                Some((changed, change)) => self.emit_change(changed, change, each)?,
                None => self.emit(pages, &key, run.value(i), each)?,
            }
        }
        changes.try_for_each(|(changed, change)| self.emit_change(changed, change, each))
    }

    fn emit(
        &self,
        pages: &Blocking<'_>,
        key: &[u8],
        value: Value<'_>,
        each: &mut dyn FnMut(&RowRef<'_>) -> SqlResult<()>,
    ) -> SqlResult<()> {
        let value = value.read(pages).map_err(failed)?;
        self.emit_bytes(key, &value, each)
    }

    fn emit_change(
        &self,
        key: &Key,
        change: &Change,
        each: &mut dyn FnMut(&RowRef<'_>) -> SqlResult<()>,
    ) -> SqlResult<()> {
        match change {
            Change::Put(value) => self.emit_bytes(key, value, each),
            Change::Delete => Ok(()),
        }
    }

    fn emit_bytes(
        &self,
        key: &[u8],
        value: &[u8],
        each: &mut dyn FnMut(&RowRef<'_>) -> SqlResult<()>,
    ) -> SqlResult<()> {
        if self.index.is_none() {
            return each(&RowRef::new(&self.table, Cow::Borrowed(key), Cow::Borrowed(value)));
        }
        let damaged = || {
            SqlError::new(
                SqlState::INDEX_CORRUPTED,
                format!("an index of table \"{}\" does not agree with it", self.table.name),
            )
        };
        let table_key = table_key_of_entry(key, value).ok_or_else(damaged)?;
        let row = self.view.get(&self.table, table_key)?.ok_or_else(damaged)?;
        each(&row)
    }
}
