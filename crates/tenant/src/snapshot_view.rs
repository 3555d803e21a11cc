//! A frozen state of a tenant for threads that are not its home: a snapshot of the pages, the catalog of that moment and a
//! transaction's changes over them.
//!
//! Shares no lock with the home. Reading a page that is not in memory blocks the thread, so only analytic and tool threads
//! use it.

use std::borrow::Cow;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base::{CommitNo, SqlError, SqlResult, SqlState};
use btree::{Cursor, LeafRun, Seek, Value};
use storage::{PageFault, PinnedPages, ReadAheadWindow, Snapshot};

use crate::catalog::{Catalog, Index, Table};
use crate::interrupt::error_of_fault;
use crate::overlay::{Change, Changes, TreeChanges};
use crate::poured::PouredView;
use crate::row::keys::{Key, KeyRange, table_key_of_entry};
use crate::row::{RowRef, StoredRow};
use crate::space::revoked;
use crate::trees::Trees;

/// A committed state: pages, trees and catalog as of `commit`.
pub(crate) struct Frozen {
    pub(crate) commit: CommitNo,
    pub(crate) pages: Snapshot,
    pub(crate) trees: Trees,
    pub(crate) catalog: Arc<Catalog>,
    /// Its pages are wanted back: who reads it on other threads fails with 72000 and lets go.
    pub(crate) revoked: AtomicBool,
}

impl Frozen {
    /// Errors: 72000 if it was revoked.
    #[inline]
    pub(crate) fn require_kept(&self) -> SqlResult<()> {
        if self.revoked.load(Ordering::Relaxed) { Err(revoked()) } else { Ok(()) }
    }
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
    /// What the transaction has poured over that state; of each key the one in `changes` is newer.
    poured: Option<Arc<PouredView>>,
    changes: Changes,
}

const _: () = {
    const fn is_send_and_sync<T: Send + Sync>() {}
    is_send_and_sync::<SnapshotView>();
};

fn failed(fault: PageFault) -> SqlError {
    error_of_fault(&fault)
}

impl SnapshotView {
    pub(crate) fn new(
        frozen: Arc<Frozen>,
        catalog: Arc<Catalog>,
        poured: Option<Arc<PouredView>>,
        changes: Changes,
    ) -> SnapshotView {
        SnapshotView { frozen, catalog, poured, changes }
    }

    /// Errors: 72000 if the snapshot was revoked.
    #[inline]
    fn require_kept(&self) -> SqlResult<()> {
        self.frozen.require_kept()?;
        self.poured.as_ref().map_or(Ok(()), |poured| poured.require_kept())
    }

    /// What became of a key by what was poured; `None` where that has nothing of it.
    fn poured(&self, tree: base::TreeId, key: &[u8]) -> SqlResult<Option<Change>> {
        self.poured.as_ref().map_or(Ok(None), |poured| poured.get(tree, key))
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
        SnapshotScan {
            view: self.clone(),
            table: Arc::clone(table),
            index,
            tree,
            cursor,
            range,
            done: false,
            window: ReadAheadWindow::default(),
        }
    }

    /// How many entries a secondary index has within `range`, those in a transaction's own changes left out: exact up to `max`, and at least that
    /// where there are as many. Reads no rows. Blocks where pages are not in memory, and calls `look` before each leaf: of many it may take long.
    ///
    /// # Errors
    /// What `look` says, which ends it; 72000 if the snapshot was revoked.
    pub fn entries_within(
        &self,
        index: &Index,
        range: &KeyRange,
        max: u64,
        look: &dyn Fn() -> SqlResult<()>,
    ) -> SqlResult<u64> {
        let mut cursor = Cursor::new(self.frozen.trees.root(index.tree), Seek::Before(&range.from));
        let end = range.to.as_ref().map_or(Bound::Unbounded, |to| Bound::Excluded(&to[..]));
        let (mut entries, window) = (0, ReadAheadWindow::default());
        while entries < max {
            look()?;
            self.require_kept()?;
            // Those of one leaf, so that no more are pinned at a time.
            let pages = self.frozen.pages.pinned_for_scan(&window);
            match cursor.next_leaf(&pages, end).map_err(failed)? {
                Some(run) => entries += run.len() as u64,
                None => break,
            }
        }
        Ok(entries)
    }

    /// The row with this key of the table's tree.
    pub fn get<'v>(&'v self, table: &'v Table, key: &[u8]) -> SqlResult<Option<RowRef<'v>>> {
        self.require_kept()?;
        let key = Cow::Owned(key.to_vec());
        match self.changes.get(table.tree, &key) {
            Some(Change::Put(row)) => return Ok(Some(RowRef::new(table, key, Cow::Borrowed(row)))),
            Some(Change::Delete) => return Ok(None),
            None => {}
        }
        match self.poured(table.tree, &key)? {
            Some(Change::Put(row)) => return Ok(Some(RowRef::new(table, key, Cow::Owned(row.into_vec())))),
            Some(Change::Delete) => return Ok(None),
            None => {}
        }
        let pages = self.frozen.pages.pinned();
        match btree::get(&pages, self.frozen.trees.root(table.tree), &key).map_err(failed)? {
            None => Ok(None),
            Some(value) => {
                let bytes = value.read(&pages).map_err(failed)?.into_owned();
                Ok(Some(RowRef::new(table, key, Cow::Owned(bytes))))
            }
        }
    }
}

/// The rows of a leaf as a scan gives them.
enum LeafRows<'r> {
    /// They are the leaf's own, without their keys.
    Plain(LeafRun<'r>),
    /// With their keys: asked for so, found by an index, or changed by the transaction in part.
    Merged(Vec<Keyed<'r>>),
}

/// A row's key and its bytes.
type Keyed<'r> = (Cow<'r, [u8]>, Cow<'r, [u8]>);

/// Bytes of long values that a scan reads at a time, if it is not one alone.
const LONG_VALUES_LEN_MAX: usize = 1 << 20;

/// What is left to the long values that are read together.
struct Room(usize);

impl Room {
    fn new() -> Room {
        Room(LONG_VALUES_LEN_MAX)
    }

    /// Whether one more is read with those before it.
    fn has_room_for(&mut self, value: &Value<'_>) -> bool {
        let Value::Chain(_) = value else { return true };
        let is_first = self.0 == LONG_VALUES_LEN_MAX;
        let left = self.0.checked_sub(value.len());
        self.0 = left.unwrap_or(0);
        left.is_some() || is_first
    }
}

/// The first entries of a leaf, as many as are read together.
fn read_together(run: LeafRun<'_>) -> LeafRun<'_> {
    let mut room = Room::new();
    let len = (0..run.len()).find(|i| !room.has_room_for(&run.value(*i))).unwrap_or(run.len());
    run.first(len)
}

/// The entries of a leaf whose keys are below `end`; `None` if it has none.
fn below<'r>(run: LeafRun<'r>, end: &[u8]) -> Option<LeafRun<'r>> {
    let mut key = Vec::new();
    let mut is_below = |i: usize| {
        run.key_into(i, &mut key);
        key[..] < *end
    };
    let len = (0..run.len()).find(|i| !is_below(*i)).unwrap_or(run.len());
    (len > 0).then(|| run.first(len))
}

/// Entries of a leaf, and the values of those that are chains, in order.
struct Leaf<'r> {
    run: LeafRun<'r>,
    chains: Vec<Vec<u8>>,
}

impl<'r> Leaf<'r> {
    fn read(run: LeafRun<'r>, pages: &PinnedPages<'_>) -> SqlResult<Leaf<'r>> {
        let mut chains = Vec::new();
        for i in 0..run.len() {
            if let value @ Value::Chain(_) = run.value(i) {
                chains.push(value.read(pages).map_err(failed)?.into_owned());
            }
        }
        Ok(Leaf { run, chains })
    }

    fn values(&self) -> impl Iterator<Item = &[u8]> {
        let mut chains = self.chains.iter();
        (0..self.run.len()).map(move |i| match self.run.value(i) {
            Value::Inline(bytes) => bytes,
            Value::Chain(_) => chains.next().expect("each was read"),
        })
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
    window: ReadAheadWindow,
}

impl SnapshotScan {
    /// Calls `each` with every row of the next leaf (none, for a leaf whose rows the transaction deleted), or of as much of it as has
    /// some MiB of long rows; false when the scan is over. An error of `each` ends the scan. Blocks where pages are not in memory.
    pub fn next_leaf(&mut self, each: &mut dyn FnMut(&RowRef<'_>) -> SqlResult<()>) -> SqlResult<bool> {
        let table = Arc::clone(&self.table);
        self.visit_leaf(true, &mut |rows, _| match rows {
            LeafRows::Plain(_) => unreachable!("rows with keys were asked for"),
            LeafRows::Merged(rows) => {
                rows.into_iter().try_for_each(|(key, row)| each(&RowRef::new(&table, key, row)))
            }
        })
    }

    /// As [`SnapshotScan::next_leaf`], with the rows of the leaf all at once, for [`crate::row::for_each_field`]: the cheapest
    /// way through many rows.
    pub fn next_leaf_stored(
        &mut self,
        each: &mut dyn FnMut(&[StoredRow<'_>]) -> SqlResult<()>,
    ) -> SqlResult<bool> {
        let table = Arc::clone(&self.table);
        self.visit_leaf(false, &mut |rows, pages| {
            let open = |row| StoredRow::open(&table, row);
            match &rows {
                LeafRows::Plain(run) => {
                    run.prefetch();
                    let leaf = Leaf::read(*run, pages)?;
                    each(&leaf.values().map(open).collect::<SqlResult<Vec<_>>>()?)
                }
                LeafRows::Merged(rows) => {
                    each(&rows.iter().map(|(_, row)| open(row)).collect::<SqlResult<Vec<_>>>()?)
                }
            }
        })
    }

    /// As [`SnapshotScan::next_leaf`], for one who only counts: how many rows the next leaf has; `None` when the scan is over.
    pub fn next_leaf_len(&mut self) -> SqlResult<Option<usize>> {
        let mut len = 0;
        let more = self.visit_leaf(false, &mut |rows, _| {
            len = match rows {
                LeafRows::Plain(run) => run.len(),
                LeafRows::Merged(rows) => rows.len(),
            };
            Ok(())
        })?;
        Ok(more.then_some(len))
    }

    fn visit_leaf(
        &mut self,
        keyed: bool,
        visit: &mut dyn FnMut(LeafRows<'_>, &PinnedPages<'_>) -> SqlResult<()>,
    ) -> SqlResult<bool> {
        if self.done || self.range.is_empty() {
            return Ok(false);
        }
        self.view.require_kept()?;
        let frozen = Arc::clone(&self.view.frozen);
        let pages = frozen.pages.pinned_for_scan(&self.window);
        let end = self.range.to.clone();
        let end = end.as_ref().map_or(Bound::Unbounded, |to| Bound::Excluded(&to[..]));
        let run = self.cursor.next_leaf(&pages, end).map_err(failed)?;
        let mut part = KeyRange { from: self.range.from.clone(), to: self.range.to.clone() };
        let all = run.map_or(0, |run| run.len());
        let mut run = run.map(read_together);
        match run {
            None => self.done = true,
            Some(run) => {
                let mut last = Vec::new();
                run.key_into(run.len() - 1, &mut last);
                if run.len() < all {
                    self.cursor.seek(Seek::After(&last));
                }
                let mut next = Key::from_slice(&last);
                next.push(0);
                self.range.from = next.clone();
                part.to = Some(next);
                pages.expect((0..run.len()).filter_map(|i| match run.value(i) {
                    Value::Chain(chain) => Some(chain.first_page()),
                    Value::Inline(_) => None,
                }));
            }
        }
        let (poured, rest) = self.poured_within(&part)?;
        if let Some(rest) = rest {
            // What comes from there on is for the next call.
            run = run.and_then(|run| below(run, &rest));
            self.cursor.seek(Seek::Before(&rest));
            self.done = false;
            self.range.from = rest.clone();
            part.to = Some(rest);
        }
        let (rows, read_to) = match (run, self.changes_within(&part).next()) {
            (Some(run), None) if !keyed && self.index.is_none() && poured.is_empty() => {
                (LeafRows::Plain(run), None)
            }
            _ => {
                let (rows, read_to) = self.merge(&pages, run, &part, &poured)?;
                (LeafRows::Merged(rows), read_to)
            }
        };
        visit(rows, &pages)?;
        if let Some(mut key) = read_to {
            self.done = false;
            self.cursor.seek(Seek::After(&key));
            key.push(0);
            self.range.from = key;
        }
        Ok(true)
    }

    /// The transaction's own changes to the scanned tree within `part`, in key order.
    fn changes_within<'s>(&'s self, part: &KeyRange) -> impl Iterator<Item = (&'s Key, &'s Change)> {
        let to = part.to.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let range = (Bound::Included(&part.from), to);
        self.view.changes.of(self.tree).into_iter().flat_map(move |changes| changes.range::<Key, _>(range))
    }

    /// What was poured into the scanned tree within `part`, with the transaction's changes since over it, and from where on that is more than is taken
    /// together. Nothing where nothing was poured.
    fn poured_within(&self, part: &KeyRange) -> SqlResult<(TreeChanges, Option<Key>)> {
        let Some(poured) = &self.view.poured else { return Ok((TreeChanges::new(), None)) };
        let (mut changes, rest) = poured.first_within(self.tree, part)?;
        if !changes.is_empty() {
            let part = KeyRange { from: part.from.clone(), to: rest.clone().or_else(|| part.to.clone()) };
            let since = self.changes_within(&part);
            changes.extend(since.map(|(key, change)| (key.clone(), change.clone())));
        }
        Ok((changes, rest))
    }

    /// The rows of `run` with the transaction's changes within `part` over them, or the first ones; of these the last key, in the tree that is scanned.
    fn merge<'r>(
        &'r self,
        pages: &'r PinnedPages<'_>,
        run: Option<LeafRun<'r>>,
        part: &KeyRange,
        poured: &'r TreeChanges,
    ) -> SqlResult<(Vec<Keyed<'r>>, Option<Key>)> {
        // What was poured has the others over it.
        let others = poured.is_empty().then(|| self.changes_within(part));
        let mut changes = others.into_iter().flatten().chain(poured).peekable();
        let mut entries = Vec::with_capacity(run.map_or(0, |run| run.len()));
        let mut key = Vec::new();
        for i in 0..run.map_or(0, |run| run.len()) {
            let run = run.expect("has entries");
            run.key_into(i, &mut key);
            while let Some((changed, change)) = changes.next_if(|(changed, _)| changed[..] < key[..]) {
                push_change(changed, change, &mut entries);
            }
            match changes.next_if(|(changed, _)| changed[..] == key[..]) {
                Some((changed, change)) => push_change(changed, change, &mut entries),
                None => {
                    let value = run.value(i).read(pages).map_err(failed)?;
                    entries.push((Cow::Owned(key.clone()), value));
                }
            }
        }
        for (changed, change) in changes {
            push_change(changed, change, &mut entries);
        }
        if self.index.is_some() { self.rows_of(pages, entries) } else { Ok((entries, None)) }
    }

    /// The rows that entries of an index stand for, or the first ones, and the last entry of these.
    fn rows_of<'r>(
        &'r self,
        pages: &'r PinnedPages<'_>,
        entries: Vec<Keyed<'r>>,
    ) -> SqlResult<(Vec<Keyed<'r>>, Option<Key>)> {
        let damaged = || {
            SqlError::new(
                SqlState::INDEX_CORRUPTED,
                format!("an index of table \"{}\" does not agree with it", self.table.name),
            )
        };
        let keys: Option<Vec<&[u8]>> =
            entries.iter().map(|(key, value)| table_key_of_entry(key, value)).collect();
        let keys = keys.ok_or_else(damaged)?;
        let mut stored = Vec::with_capacity(keys.len());
        let root = self.view.frozen.trees.root(self.table.tree);
        btree::get_many(pages, root, &keys, &mut stored).map_err(failed)?;
        let (mut rows, mut room) = (Vec::with_capacity(keys.len()), Room::new());
        let mut poured_len = 0;
        for (key, stored) in keys.into_iter().zip(stored) {
            let own = match self.view.changes.get(self.table.tree, key) {
                Some(change) => Some(Cow::Borrowed(change)),
                None => self.view.poured(self.table.tree, key)?.map(Cow::Owned),
            };
            let row = match own {
                Some(Cow::Borrowed(Change::Put(row))) => Cow::Borrowed(&row[..]),
                Some(Cow::Owned(Change::Put(row))) => {
                    poured_len += row.len();
                    if poured_len > LONG_VALUES_LEN_MAX && !rows.is_empty() {
                        let last = Key::from_slice(&entries[rows.len() - 1].0);
                        return Ok((rows, Some(last)));
                    }
                    Cow::Owned(row.into_vec())
                }
                Some(_) => return Err(damaged()),
                None => {
                    let stored = stored.ok_or_else(damaged)?;
                    if !room.has_room_for(&stored) {
                        let last = Key::from_slice(&entries[rows.len() - 1].0);
                        return Ok((rows, Some(last)));
                    }
                    stored.read(pages).map_err(failed)?
                }
            };
            rows.push((Cow::Owned(key.to_vec()), row));
        }
        Ok((rows, None))
    }
}

fn push_change<'r>(key: &'r Key, change: &'r Change, entries: &mut Vec<Keyed<'r>>) {
    if let Change::Put(value) = change {
        entries.push((Cow::Borrowed(key), Cow::Borrowed(value)));
    }
}
