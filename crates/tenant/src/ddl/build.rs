//! Filling trees outside the overlay: an index from its table's rows, a table under a new key. The new tree is live pages
//! that nobody knows of until commit; abort releases them.
//!
//! It takes as many turns as it needs ([`crate::kept`]), and others run in between; the sorting is [`super::filling`]'s.

use std::sync::Arc;

use base::{SqlError, SqlState, TreeId};
use btree::{Cursor, Seek};
use storage::{PageFault, yield_now};
use types::Datum;

use crate::catalog::{Catalog, Index, Table};
use crate::cursor::Direction;
use crate::interrupt::{Interrupt, Step};
use crate::kept::{Piece, TURN_STEPS, Work};
use crate::memory::RepeatedReads;
use crate::row::keys::{
    Key, KeyRange, copied, index_entry_of_bytes, row_id_key, table_key, table_key_of_entry,
};
use crate::row::{RowRef, decode_row, read_column};
use crate::tenant::{OpenError, Tenant};
use crate::txn::{Build, Isolation};
use crate::view::{Access, State, View, disagreement};
use crate::watch::Passed;

use super::Ddl;
use super::filling::{Filling, Stuck};

impl Ddl<'_> {
    /// Fills a tree with the entries of `index` from the rows of its table, the transaction's own included, and says which.
    ///
    /// Errors: 23505 where two rows have the same key in a unique index.
    pub(super) fn build_index(&mut self, table: &Arc<Table>, index: &Index) -> Step<TreeId> {
        let build = |tree| Build::Index { table: table.oid, index: index.oid, tree };
        let outcome = self.fill(build, Piece::index(table.oid, index), table, |_, row| {
            let entry = index_entry_of_bytes(table, index, row.bytes(), row.key())?;
            Ok(entry.map(|entry| (entry.key, entry.value.to_vec())))
        });
        outcome.map_err(|failure| self.interrupt_of(failure, table, index))
    }

    /// What a build of an index stopped for.
    pub(super) fn interrupt_of(&mut self, failure: Failure, table: &Table, index: &Index) -> Interrupt {
        match failure {
            Failure::Step(interrupt) => interrupt,
            Failure::Duplicate(key, value) => {
                let Some(of_row) = table_key_of_entry(&key, &value).map(Key::from_slice) else {
                    return disagreement(table, index).into();
                };
                match self
                    .view
                    .read(table.tree, &of_row, State::Newest)
                    .map(|row| row.map(|row| row.into_owned()))
                {
                    Ok(Some(row)) => duplicate(self, table, index, &row).into(),
                    Ok(None) => disagreement(table, index).into(),
                    Err(interrupt) => interrupt,
                }
            }
        }
    }

    /// Fills a tree with the rows of `old`, under the keys that the definition of `table` says, and says which. A replay fills it from the tree
    /// `origin`, which has the same rows.
    ///
    /// Errors: 23505 for duplicates, 23502 for NULLs in the key.
    pub(super) fn cluster(&mut self, old: &Arc<Table>, table: &Table, origin: TreeId) -> Step<TreeId> {
        let build = |tree| Build::Cluster { table: table.oid, from: origin, tree };
        let key = table.primary_index().map(|index| index.column_positions().collect()).unwrap_or_default();
        let piece = Piece::Cluster { table: table.oid, key };
        let outcome = self.fill(build, piece, old, |count, row| {
            Ok(Some((clustered_key(table, row.bytes(), count)?, row.bytes().to_vec())))
        });
        outcome.map_err(|failure| match failure {
            Failure::Step(interrupt) => interrupt,
            Failure::Duplicate(_, row) => {
                let index = table.primary_index().expect("row ids are unique");
                duplicate(self, table, index, &row).into()
            }
        })
    }

    /// Scans `source` and puts what `entry` makes of each row, and of its number from 1, into a tree. Without entries the tree is
    /// like any new one: nothing was built that a replay would have to build again.
    fn fill(
        &mut self,
        build: impl FnOnce(TreeId) -> Build,
        piece: Piece,
        source: &Arc<Table>,
        entry: impl FnMut(u64, &RowRef<'_>) -> Step<Option<(Key, Vec<u8>)>>,
    ) -> Result<TreeId, Failure> {
        let view = &mut self.view;
        let tree = match view.resume(&piece) {
            Some(Work::Filled(tree)) => tree,
            work => {
                if let Some(Work::Beside(lost)) = &work {
                    for tree in lost.trees() {
                        view.tenant.give_up_tree(tree);
                    }
                }
                let mut filler = match work {
                    Some(Work::Filling { filling, after, rows }) => {
                        Filler { filling, after, rows, is_beside: false }
                    }
                    _ => Filler::begin(view, source)?,
                };
                if let Err(failure) = filler.take_turn(view, source, entry) {
                    let Filler { filling, after, rows, .. } = filler;
                    view.keep(piece, Work::Filling { filling, after, rows });
                    return Err(failure);
                }
                filler.filling.finish(&mut view.tenant)
            }
        };
        Ok(view.finish_build(tree, build, piece))
    }
}

impl View<'_> {
    /// A tree was filled; the tree that has its entries.
    pub(super) fn finish_build(
        &mut self,
        mut tree: TreeId,
        build: impl FnOnce(TreeId) -> Build,
        piece: Piece,
    ) -> TreeId {
        self.tenant.forget_frozen();
        self.tenant.row_ids.remove(&tree);
        let state = self.tenant.trees.get(tree);
        if state.entries > 0 {
            self.txn.built.push(build(tree));
        } else if state.root.0.is_some() {
            // All of its rows were deleted meanwhile.
            self.tenant.give_up_tree(tree);
            tree = self.tenant.next_tree();
        } else {
            self.tenant.trees.remove(tree);
        }
        self.note_done(piece, Work::Filled(tree));
        tree
    }
}

/// A tree that is being filled with the rows of another one.
#[derive(Debug)]
pub(super) struct Filler {
    filling: Box<Filling>,
    /// The last row that was taken in, and how many were.
    after: Option<Key>,
    rows: u64,
    /// Others change rows meanwhile, and note it.
    is_beside: bool,
}

impl Filler {
    fn begin(view: &mut View<'_>, source: &Table) -> Step<Filler> {
        if view.txn.isolation != Isolation::ReadCommitted && view.txn.frozen.is_some() {
            // The live rows are what the tree must hold; a snapshot that lacks some would build a wrong index. From here on the table is locked.
            let snapshot = view.txn.snapshot_commit().expect("just looked");
            if view.tenant.history.range_changed_since(source.tree, &KeyRange::all(), snapshot) {
                return Err(crate::row_lock::serialization_failure().into());
            }
        }
        let filling = Box::new(Filling::new(view.tenant.next_tree()));
        Ok(Filler { filling, after: None, rows: 0, is_beside: false })
    }

    /// As [`Filler::begin`], of a table whose rows others change, which is noted.
    pub(super) fn begin_beside(view: &mut View<'_>, source: &Table) -> Step<Filler> {
        Ok(Filler { is_beside: true, ..Filler::begin(view, source)? })
    }

    pub(super) fn trees(&self) -> impl Iterator<Item = TreeId> {
        self.filling.trees()
    }

    /// The rows that were taken in.
    pub(super) fn passed(&self) -> Passed {
        if self.filling.is_whole() { Passed::All } else { Passed::UpTo(self.after.as_ref().map(copied)) }
    }

    /// The tree, which is filled.
    pub(super) fn finish(&mut self, view: &mut View<'_>) -> TreeId {
        let nothing = Box::new(Filling::new(TreeId(0)));
        std::mem::replace(&mut self.filling, nothing).finish(&mut view.tenant)
    }

    /// Whether the row that was taken in with this entry was changed since.
    fn is_noted(&self, view: &View<'_>, key: &[u8], value: &[u8]) -> Step<bool> {
        match table_key_of_entry(key, value).filter(|_| self.is_beside) {
            Some(row) => Ok(view.tenant.is_noted(view.txn.id, row)?),
            None => Ok(false),
        }
    }

    /// Whether the row that has the place of an entry was changed since it was taken in, so that another one may have come to have it.
    fn is_overtaken(&self, view: &View<'_>, key: &[u8]) -> Step<bool> {
        match self.filling.value_of(&view.tenant, key)? {
            Some(value) => self.is_noted(view, key, &value),
            None => Ok(false),
        }
    }

    /// Goes on until the tree is filled, the turn is over, or something stands in the way.
    pub(super) fn take_turn(
        &mut self,
        view: &mut View<'_>,
        source: &Arc<Table>,
        mut entry: impl FnMut(u64, &RowRef<'_>) -> Step<Option<(Key, Vec<u8>)>>,
    ) -> Result<(), Failure> {
        let mut left = if view.takes_turns() { TURN_STEPS } else { u32::MAX };
        let range = KeyRange::behind(self.after.as_ref());
        let mut scan = view.scan_state(source, Access::Table, range, Direction::Forward, State::Newest);
        loop {
            if self.filling.is_full() || self.filling.is_whole() {
                match self.filling.settle(&mut view.tenant, &mut left) {
                    Ok(true) => {}
                    Ok(false) => return Err(Failure::Step(view.end_turn())),
                    Err(Stuck::Duplicate(key, value)) => {
                        if self.is_overtaken(view, &key)? {
                            self.filling.put_over(&mut view.tenant)?;
                        } else if self.is_noted(view, &key, &value)? {
                            self.filling.leave_out();
                        } else {
                            return Err(Failure::Duplicate(key, value));
                        }
                        continue;
                    }
                    Err(Stuck::Fault(fault)) => return Err(fault.into()),
                }
                if self.filling.is_whole() {
                    return Ok(());
                }
            }
            if left == 0 {
                return Err(Failure::Step(view.end_turn()));
            }
            left -= 1;
            let Some(row) = view.next(&mut scan)? else {
                self.filling.end();
                continue;
            };
            let at = Key::from_slice(row.key());
            if let Some((key, value)) = entry(self.rows + 1, &row)?
                && let Err((key, value)) = self.filling.add(key, value)
            {
                if !self.is_overtaken(view, &key)? {
                    return Err(Failure::Duplicate(key, value));
                }
                self.filling.replace(key, value);
            }
            self.after = Some(at);
            self.rows += 1;
        }
    }
}

pub(super) enum Failure {
    Step(Interrupt),
    /// An entry whose key another one has.
    Duplicate(Key, Vec<u8>),
}

impl From<Interrupt> for Failure {
    fn from(interrupt: Interrupt) -> Failure {
        Failure::Step(interrupt)
    }
}

impl From<PageFault> for Failure {
    fn from(fault: PageFault) -> Failure {
        Failure::Step(fault.into())
    }
}

impl From<SqlError> for Failure {
    fn from(error: SqlError) -> Failure {
        Failure::Step(error.into())
    }
}

/// The key of a row in a table that is being rewritten; `count` counts its rows from 1.
fn clustered_key(table: &Table, bytes: &[u8], count: u64) -> Step<Key> {
    let row = decode_row(table, bytes)?;
    if let Some(index) = table.primary_index()
        && let Some(column) = index.column_positions().find(|c| row[*c].is_null())
    {
        return Err(contains_nulls(table, column).into());
    }
    Ok(table_key(table, &row)?.unwrap_or_else(|| row_id_key(count)))
}

/// 23502 for a column that is to be NOT NULL and has NULLs.
pub(super) fn contains_nulls(table: &Table, column: usize) -> SqlError {
    let name = &table.columns[column].name;
    SqlError::new(
        SqlState::NOT_NULL_VIOLATION,
        format!("column \"{name}\" of relation \"{}\" contains null values", table.name),
    )
    .with_table(table.name.as_str())
    .with_column(name.as_str())
}

fn duplicate(ddl: &Ddl<'_>, table: &Table, index: &Index, bytes: &[u8]) -> SqlError {
    let value = |column| read_column(table, bytes, column).unwrap_or(Datum::Null);
    let key = ddl.view.show_index_key(table, index, value);
    SqlError::new(SqlState::UNIQUE_VIOLATION, format!("could not create unique index \"{}\"", index.name))
        .with_detail(format!("Key {key} is duplicated."))
        .with_table(table.name.as_str())
        .with_constraint(index.name.as_str())
}

/// Bytes of rows that a build for a replay gathers in one turn, but for the last row.
const TURN_BYTES: usize = 1 << 20;

/// Why a build could not be done again.
pub(crate) enum BuildFailed {
    /// A page cannot be read.
    Open(OpenError),
    /// The rows are not such that the build could have been committed.
    Rows,
}

impl From<SqlError> for BuildFailed {
    fn from(_: SqlError) -> BuildFailed {
        BuildFailed::Rows
    }
}

impl Tenant {
    /// Does a build again for a replay: from live rows alone, which at this point of the record are all there are.
    pub(crate) async fn build(&mut self, build: &Build) -> Result<(), BuildFailed> {
        let (table, from) = match build {
            Build::Index { table, .. } => (*table, None),
            Build::Cluster { table, from, .. } => (*table, Some(*from)),
        };
        let catalog: Arc<Catalog> = Arc::clone(&self.catalog);
        let table = catalog.table(table);
        if from.is_some() && table.is_none_or(|table| table.tree != build.tree()) {
            // The same commit gave the tree up. Records have such builds no more, but had them.
            return Ok(());
        }
        let table = table.ok_or(BuildFailed::Rows)?;
        let source = from.unwrap_or(table.tree);
        let mut filling = Filling::new(self.next_tree());
        let mut cursor = Cursor::new(self.trees.root(source), Seek::Start);
        let (mut count, mut gathered, mut reads) = (0, 0, RepeatedReads::default());
        while !filling.is_whole() {
            let row = match cursor.next(&self.pages) {
                Ok(None) => {
                    filling.end();
                    self.settle_filling(&mut filling).await?;
                    continue;
                }
                Ok(Some(entry)) => Ok((Key::from_slice(entry.key), entry.value.begin())),
                Err(fault) => Err(fault),
            };
            let (key, mut row) = match row {
                Ok(row) => row,
                Err(fault) => {
                    self.load_fault(fault, &mut reads).await.map_err(BuildFailed::Open)?;
                    continue;
                }
            };
            reads = RepeatedReads::default();
            // A long row is gone through once, and not from its first page again at each that is missing.
            while let Err(fault) = row.read_on(&self.pages) {
                self.load_fault(fault, &mut reads).await.map_err(BuildFailed::Open)?;
                reads = RepeatedReads::default();
            }
            let bytes = row.into_bytes();
            count += 1;
            gathered += bytes.len();
            let entry = match build {
                Build::Index { index, .. } => {
                    let index = table.index(*index).ok_or(BuildFailed::Rows)?;
                    let entry = index_entry_of_bytes(table, index, &bytes, &key)?;
                    entry.map(|entry| (entry.key, entry.value.to_vec()))
                }
                Build::Cluster { .. } => match clustered_key(table, &bytes, count) {
                    Ok(clustered) => Some((clustered, bytes)),
                    Err(_) => return Err(BuildFailed::Rows),
                },
            };
            if let Some((entry, value)) = entry {
                filling.add(entry, value).map_err(|_| BuildFailed::Rows)?;
            }
            if filling.is_full() {
                self.settle_filling(&mut filling).await?;
            } else if count % u64::from(TURN_STEPS) == 0 || gathered >= TURN_BYTES {
                gathered = 0;
                self.shed();
                yield_now().await;
            }
        }
        let filled = filling.finish(self);
        self.rename_tree(filled, build.tree());
        Ok(())
    }

    /// Moves all that was gathered to where it is to go next.
    async fn settle_filling(&mut self, filling: &mut Filling) -> Result<(), BuildFailed> {
        let mut reads = RepeatedReads::default();
        loop {
            match filling.settle(self, &mut { TURN_STEPS }) {
                Ok(true) => return Ok(()),
                Ok(false) => {
                    reads = RepeatedReads::default();
                    // New pages, and room for more of them.
                    self.relieve().await.map_err(BuildFailed::Open)?;
                    self.shed();
                    yield_now().await;
                }
                Err(Stuck::Fault(fault)) => {
                    self.load_fault(fault, &mut reads).await.map_err(BuildFailed::Open)?;
                }
                Err(Stuck::Duplicate(..)) => return Err(BuildFailed::Rows),
            }
        }
    }
}
