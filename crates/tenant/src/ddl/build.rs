//! Filling trees outside the overlay: an index from its table's rows, a table under a new key. The new tree is live pages
//! that nobody knows of until commit; abort releases them.

use std::sync::Arc;

use base::{SqlError, SqlState};
use btree::{Cursor, Seek};
use smallvec::SmallVec;
use types::Datum;

use crate::catalog::{Catalog, Index, Table};
use crate::cursor::Direction;
use crate::interrupt::{Interrupt, Step};
use crate::row::keys::{Key, KeyRange, index_entry_of_bytes, row_id_key, table_key};
use crate::row::{RowRef, decode_row, read_column};
use crate::tenant::{OpenError, Tenant};
use crate::trees::TreeState;
use crate::txn::{Build, Isolation};
use crate::view::{Access, State};

use super::Ddl;

impl Ddl<'_> {
    /// Fills the tree of `index` from the rows of its table, the transaction's own included.
    ///
    /// Errors: 23505 where two rows have the same key in a unique index.
    pub(super) fn build_index(&mut self, table: &Arc<Table>, index: &Index) -> Step<()> {
        let build = Build::Index { table: table.oid, index: index.oid, tree: index.tree };
        self.fill(build, table, |_, row, entries| {
            let entry = index_entry_of_bytes(table, index, row.bytes(), row.key())?;
            entries.push((entry.key, entry.value.to_vec()));
            Ok(())
        })
        .map_err(|failure| match failure {
            Failure::Step(interrupt) => interrupt,
            Failure::Duplicate(bytes) => duplicate(self, table, index, &bytes).into(),
        })
    }

    /// Fills `table.tree` with the rows of `from`, under the keys the table's definition now says.
    ///
    /// Errors: 23505 for duplicates, 23502 for NULLs in the key.
    pub(super) fn cluster(&mut self, old: &Arc<Table>, table: &Arc<Table>) -> Step<()> {
        let build = Build::Cluster { table: table.oid, from: old.tree, tree: table.tree };
        self.fill(build, old, |count, row, entries| {
            let key = clustered_key(table, row.bytes(), count)?;
            entries.push((key, row.bytes().to_vec()));
            Ok(())
        })
        .map_err(|failure| match failure {
            Failure::Step(interrupt) => interrupt,
            Failure::Duplicate(bytes) => {
                let index = table.primary_index().expect("row ids are unique");
                duplicate(self, table, index, &bytes).into()
            }
        })
    }

    /// Scans `source` and puts what `entry` makes of each row into the build's tree.
    fn fill(
        &mut self,
        build: Build,
        source: &Arc<Table>,
        mut entry: impl FnMut(u64, &RowRef<'_>, &mut SmallVec<[(Key, Vec<u8>); 1]>) -> Step<()>,
    ) -> Result<(), Failure> {
        let tree = build.tree();
        let view = &mut self.view;
        if view.txn.isolation != Isolation::ReadCommitted && view.txn.frozen.is_some() {
            // The live rows are what the tree must hold; a snapshot that lacks some would build a wrong index.
            let snapshot = view.txn.snapshot_commit().expect("just looked");
            let range = KeyRange::all();
            if view.tenant.history.range_changed_since(source.tree, &range, snapshot) {
                return Err(Failure::Step(crate::row_lock::serialization_failure().into()));
            }
        }
        let mut scan =
            view.scan_state(source, Access::Table, KeyRange::all(), Direction::Forward, State::Newest);
        let mut state = TreeState::default();
        let mut entries = SmallVec::new();
        let mut count = 0;
        let result = loop {
            match view.next(&mut scan) {
                Err(interrupt) => break Err(Failure::Step(interrupt)),
                Ok(None) => break Ok(()),
                Ok(Some(row)) => {
                    count += 1;
                    if let Err(interrupt) = entry(count, &row, &mut entries) {
                        break Err(Failure::Step(interrupt));
                    }
                    let bytes = row.bytes().to_vec();
                    let (key, value) = entries.pop().expect("one entry a row");
                    match btree::insert_new(&mut view.tenant.pages, &mut state.root, &key, &value) {
                        Ok(true) => state.entries += 1,
                        Ok(false) => break Err(Failure::Duplicate(bytes)),
                        Err(fault) => break Err(Failure::Step(fault.into())),
                    }
                }
            }
        };
        // Registered whatever the outcome, so that taking the statement back releases its pages.
        state.dirty = true;
        view.tenant.trees.set(tree, state);
        view.tenant.forget_frozen();
        view.txn.built.push(build);
        if state.entries > 0 {
            view.tenant.row_ids.remove(&tree);
        }
        result
    }
}

enum Failure {
    Step(Interrupt),
    /// The row whose key another one has.
    Duplicate(Vec<u8>),
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
    let columns: Vec<usize> = index.column_positions().collect();
    let values: Vec<Datum> =
        columns.iter().map(|c| read_column(table, bytes, *c).unwrap_or(Datum::Null)).collect();
    SqlError::new(SqlState::UNIQUE_VIOLATION, format!("could not create unique index \"{}\"", index.name))
        .with_detail(format!("Key {} is duplicated.", ddl.view.show_key(table, &columns, &values)))
        .with_table(table.name.as_str())
        .with_constraint(index.name.as_str())
}

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
        let table = catalog.table(table).ok_or(BuildFailed::Rows)?;
        let source = from.unwrap_or(table.tree);
        let mut state = TreeState { dirty: true, ..TreeState::default() };
        let mut cursor = Cursor::new(self.trees.root(source), Seek::Start);
        let mut last: Option<Key> = None;
        let mut count = 0;
        loop {
            let row = match cursor.next(&self.pages) {
                Ok(None) => break,
                Ok(Some(entry)) => match entry.value.read(&self.pages) {
                    Ok(bytes) => Ok((Key::from_slice(entry.key), bytes.into_owned())),
                    Err(fault) => Err(fault),
                },
                Err(fault) => Err(fault),
            };
            let (key, bytes) = match row {
                Ok(row) => row,
                Err(fault) => {
                    self.load_fault(fault).await.map_err(BuildFailed::Open)?;
                    // The cursor may have moved past a row whose overflow pages were missing.
                    cursor.seek(last.as_ref().map_or(Seek::Start, |key| Seek::After(key)));
                    continue;
                }
            };
            count += 1;
            let (entry, value) = match build {
                Build::Index { index, .. } => {
                    let index = table.index(*index).ok_or(BuildFailed::Rows)?;
                    let entry = index_entry_of_bytes(table, index, &bytes, &key)?;
                    (entry.key, entry.value.to_vec())
                }
                Build::Cluster { .. } => match clustered_key(table, &bytes, count) {
                    Ok(clustered) => (clustered, bytes),
                    Err(_) => return Err(BuildFailed::Rows),
                },
            };
            loop {
                match btree::insert_new(&mut self.pages, &mut state.root, &entry, &value) {
                    Ok(true) => break,
                    Ok(false) => return Err(BuildFailed::Rows),
                    // New pages, which may have left memory since.
                    Err(fault) => self.load_fault(fault).await.map_err(BuildFailed::Open)?,
                }
            }
            state.entries += 1;
            last = Some(key);
        }
        self.trees.set(build.tree(), state);
        Ok(())
    }
}
