//! Getting a tenant back whose indexes are damaged: they are dropped without reading them, the redo log is replayed around
//! them, and their pages are given back.
//!
//! Works on the data file of a tenant that no server has open and ends with a new root; until that is durable, the tenant
//! is what it was. All is replayed in a branch: what memory has no room for is written meanwhile, with roots of the tenant as it was.
//!
//! Rows are in the tables' own trees, so dropping an index loses none; what cannot be dropped (a table,
//! the catalog, the map of pages) comes back from a backup only. A page is given back when no tree that is whole owns it,
//! which is known only if all trees that stay are whole; else those are given back that the dropped tree's whole pages
//! lead to.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use base::{ByteCount, CommitNo, Lsn, Oid, PageNo, SessionId, SqlError, SqlState, TenantId, TreeId};
use env::Env;
use governor::MemoryShare;
use rustc_hash::FxHashSet;
use storage::redo::{RedoError, RedoIndex};
use storage::{FileError, MemoryBudget, PageFault, WritePages};

use crate::catalog::{Catalog, Index, Table};
use crate::ddl::Behavior;
use crate::interrupt::Interrupt;
use crate::memory::RepeatedReads;
use crate::passing::Passage;
use crate::redo_sink::RedoSink;
use crate::tenant::{OpenError, Tenant};
use crate::trees::TreeState;
use crate::txn::Isolation;

/// Bytes of pages in memory while the log is replayed, but for what a batch of its records changes.
const REPLAY_MEMORY: ByteCount = ByteCount::from_mib(if cfg!(test) { 1 } else { 1024 });

/// What a repair did.
#[derive(Clone, Debug, Default)]
pub struct Repaired {
    pub dropped: Vec<DroppedIndex>,
    /// Indexes that were to be dropped and that the redo log drops by itself, by the names that the root before it has.
    pub gone_since: Vec<String>,
    /// Pages given back, of the dropped indexes and of trees that nothing refers to.
    pub pages_released: u64,
    /// What is still damaged, each a sentence that names the place. While there is any, pages that only a damaged page
    /// of a dropped index led to are still taken; another repair gives them back.
    pub defects: Vec<String>,
    /// The last commit in the new root.
    pub commit: CommitNo,
}

/// An index that is gone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DroppedIndex {
    /// With its schema: `public.t_v_idx`.
    pub name: String,
    pub table: String,
    /// It enforced a unique constraint of its name, which is gone too.
    pub constraint: bool,
    /// Foreign keys that needed it and are gone too.
    pub also_dropped: Vec<String>,
}

/// Why a repair failed. It changed nothing, but for [`RepairError::InDoubt`].
#[derive(Debug)]
pub enum RepairError {
    /// The catalog or the way to the pages is damaged, or a table that the redo log changes.
    Open(OpenError),
    Log(RedoError),
    /// No such index, a primary key, or foreign keys need it.
    Refused(SqlError),
    /// The disk failed while the new root was put in place of the old one: the tenant is as it was, or repaired. A check tells which.
    InDoubt(FileError),
}

impl fmt::Display for RepairError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RepairError::Open(error) => error.fmt(f),
            RepairError::Log(error) => error.fmt(f),
            RepairError::Refused(error) => {
                f.write_str(error.message())?;
                error.detail().map_or(Ok(()), |detail| write!(f, ": {}", detail.replace('\n', "; ")))
            }
            RepairError::InDoubt(error) => {
                write!(f, "the tenant is repaired or as it was, `rowhouse verify` tells which: {error}")
            }
        }
    }
}
impl std::error::Error for RepairError {}
impl From<OpenError> for RepairError {
    fn from(error: OpenError) -> RepairError {
        RepairError::Open(error)
    }
}
impl From<RedoError> for RepairError {
    fn from(error: RedoError) -> RepairError {
        RepairError::Log(error)
    }
}
impl From<SqlError> for RepairError {
    fn from(error: SqlError) -> RepairError {
        RepairError::Refused(error)
    }
}

/// The checkpoint at the end makes everything durable.
struct NoLog;

impl RedoSink for NoLog {
    fn append(&mut self, _: TenantId, _: CommitNo, _: &[u8]) -> Lsn {
        Lsn(0)
    }
}

/// Drops `indexes` (`schema.index`, spelled exactly) of the tenant in the data file at `path`, gives back pages that no
/// tree owns, and writes a new root that also holds all of `redo`. Blocks. After `Ok` it survives power loss; after `Err`
/// the tenant is as it was, but for [`RepairError::InDoubt`].
///
/// An index is called by the name that the file's root has, as [`crate::verify`] does: the redo log may have renamed or dropped it since. One that
/// was made since has the name that the log gives it.
///
/// An index that enforces a unique constraint takes the constraint with it. Foreign keys that need it are an error, or go
/// too with [`Behavior::Cascade`].
pub fn repair(
    env: &Env,
    path: &Path,
    id: TenantId,
    redo: &RedoIndex,
    indexes: &[String],
    behavior: Behavior,
) -> Result<Repaired, RepairError> {
    let budget = no_limit();
    env::block_on(env, Box::pin(repair_file(env, path, id, redo, indexes, behavior, &budget)))
}

/// A budget that counts: nobody is there to make room for who would wait for some, so what a replay keeps to is the tenant's own limit.
pub(crate) fn no_limit() -> Arc<MemoryBudget> {
    MemoryBudget::new(ByteCount(1 << 60), 0, 1)
}

/// As [`repair`]; its pages are charged to `budget`, which has no limit.
pub(crate) async fn repair_file(
    env: &Env,
    path: &Path,
    id: TenantId,
    redo: &RedoIndex,
    indexes: &[String],
    behavior: Behavior,
    budget: &Arc<MemoryBudget>,
) -> Result<Repaired, RepairError> {
    let mut tenant = Tenant::open_root(env, path, id).await?;
    let share = Arc::<MemoryShare>::default();
    share.set_max(Some(REPLAY_MEMORY));
    tenant.charge_to(budget);
    tenant.set_memory_terms(&share, &Arc::default());
    tenant.collect_orphans();
    // Without the changes of an index that is given up, which the catalog has until the end, it may be no root.
    tenant.keep_replay_branch();
    let mut gone: Vec<TreeState> = Vec::new();
    // By its oid: its name may be another one's by the end of the log.
    let mut of_root: Vec<Option<Oid>> = Vec::with_capacity(indexes.len());
    for name in indexes {
        // An index made since the root is in no page yet.
        let found = find(&tenant.catalog, name).ok();
        if let Some((table, index)) = &found {
            refuse_primary(name, table, index)?;
            tenant.given_up.insert(index.tree);
            gone.extend(tenant.trees.remove(index.tree));
        }
        of_root.push(found.map(|(_, index)| index.oid));
    }
    tenant.replay(redo).await?;
    tenant.leave_replay_branch().await;
    share.set_max(None);
    let mut repaired = Repaired::default();
    for (name, of_root) in indexes.iter().zip(of_root) {
        let found = match of_root {
            Some(oid) => find_by_oid(&tenant.catalog, oid),
            None => Some(find(&tenant.catalog, name)?),
        };
        let Some((table, index)) = found else {
            repaired.gone_since.push(name.clone());
            continue;
        };
        refuse_primary(name, &table, &index)?;
        let also_dropped = tenant.drop_damaged(&table, &index, behavior).await?;
        repaired.dropped.push(DroppedIndex {
            name: qualified(&tenant.catalog, table.schema, &index.name),
            table: qualified(&tenant.catalog, table.schema, &table.name),
            constraint: index.constraint.is_some(),
            also_dropped,
        });
    }
    tenant.release_unowned(&gone, &mut repaired);
    let mut checkpoint = tenant.begin_checkpoint()?;
    let written = match checkpoint.write().await {
        Ok(()) => checkpoint.publish().await.map(drop).map_err(RepairError::InDoubt),
        Err(error) => Err(OpenError::from(error).into()),
    };
    tenant.finish_checkpoint(checkpoint);
    written?;
    repaired.commit = tenant.committed();
    Ok(repaired)
}

/// A relation's name as an operator types it.
pub(crate) fn qualified(catalog: &Catalog, schema: Oid, name: &str) -> String {
    format!("{}.{name}", catalog.schema_name(schema))
}

fn find(catalog: &Catalog, name: &str) -> Result<(Arc<Table>, Index), SqlError> {
    let all = catalog.tables().flat_map(|table| table.indexes.iter().map(move |index| (table, index)));
    let mut alike = all.filter(|(table, index)| qualified(catalog, table.schema, &index.name) == name);
    match (alike.next(), alike.next()) {
        (Some((table, index)), None) => Ok((Arc::clone(table), index.clone())),
        (None, _) => {
            let what = format!("there is no index \"{name}\"; write SCHEMA.INDEX, spelled exactly");
            Err(SqlError::new(SqlState::UNDEFINED_OBJECT, what))
        }
        (Some(_), Some(_)) => {
            let what = format!("\"{name}\" means more than one index");
            Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, what))
        }
    }
}

fn find_by_oid(catalog: &Catalog, oid: Oid) -> Option<(Arc<Table>, Index)> {
    catalog.tables().find_map(|table| Some((Arc::clone(table), table.index(oid)?.clone())))
}

fn refuse_primary(name: &str, table: &Table, index: &Index) -> Result<(), SqlError> {
    if !table.is_primary(index) {
        return Ok(());
    }
    let what = format!(
        "{name} is the primary key of table {}, whose rows are in it: it cannot be dropped, only restored from a backup",
        table.name
    );
    Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, what))
}

impl Tenant {
    /// Drops an index whose tree is not touched; the foreign keys that went with it.
    async fn drop_damaged(
        &mut self,
        table: &Table,
        index: &Index,
        behavior: Behavior,
    ) -> Result<Vec<String>, RepairError> {
        let mut reads = RepeatedReads::default();
        loop {
            let mut txn = self.begin(SessionId(0), Isolation::ReadCommitted, false, true);
            let mut redo = NoLog;
            let step = self.view(&mut txn, &mut redo).ddl().and_then(|mut ddl| match index.constraint {
                Some(_) => ddl.drop_constraint(table.oid, &index.name, behavior),
                None => ddl.drop_index(index.oid, behavior),
            });
            match step {
                Ok(dropped) => {
                    self.commit(txn, &mut NoLog)?;
                    return Ok(dropped.cascaded);
                }
                Err(interrupt) => {
                    self.abort(txn);
                    match interrupt {
                        Interrupt::Miss(page) => {
                            self.load_fault(PageFault::Miss(page), &mut reads).await?;
                        }
                        Interrupt::Error(error) => return Err(error.into()),
                        Interrupt::Wait(_) | Interrupt::Asked => unreachable!("nobody else is there"),
                    }
                }
            }
        }
    }

    /// Gives back the pages of `gone` trees and of trees that nothing refers to, as far as it is known which they are.
    fn release_unowned(&mut self, gone: &[TreeState], repaired: &mut Repaired) {
        let snapshot = self.pages.snapshot();
        let passage = Passage::of(&mut self.pages);
        let pages = passage.pages(&snapshot);
        let mut owned: FxHashSet<PageNo> = FxHashSet::default();
        for (tree, state) in self.trees.iter() {
            let reach = btree::reach(&pages, state.root);
            owned.extend(&reach.pages);
            if let Some(fault) = reach.damage {
                repaired.defects.push(format!("{}: {fault}", tree_name(&self.catalog, tree)));
            }
        }
        let mut released: Vec<PageNo> = Vec::new();
        if repaired.defects.is_empty() {
            snapshot.for_each_page(|page| released.push(page));
        } else {
            let trees = self.garbage.iter().chain(&self.spoiled).map(|(_, state)| state).chain(gone);
            trees.for_each(|state| released.append(&mut btree::reach(&pages, state.root).pages));
        }
        released.retain(|page| !owned.contains(page));
        released.sort_unstable();
        released.dedup();
        drop(pages);
        for page in &released {
            self.pages.release(*page);
        }
        repaired.pages_released = released.len() as u64;
        let cleared = std::mem::take(&mut self.garbage).into_iter().chain(std::mem::take(&mut self.spoiled));
        self.gone_trees.extend(cleared.map(|(tree, _)| tree));
    }
}

/// A tree as an operator knows it.
pub(crate) fn tree_name(catalog: &Catalog, tree: TreeId) -> String {
    if tree == crate::trees::CATALOG_TREE {
        return "the catalog".to_owned();
    }
    for table in catalog.tables() {
        let table_name = qualified(catalog, table.schema, &table.name);
        if table.tree == tree {
            return format!("table {table_name}");
        }
        if let Some(index) = table.indexes.iter().find(|index| index.tree == tree) {
            return format!("index {} of table {table_name}", qualified(catalog, table.schema, &index.name));
        }
    }
    format!("dropped tree {tree}")
}
