//! Checking a tenant: every tree's shape, every row's bytes, every index against its table both ways, the catalog against
//! itself, and every page owned by exactly one tree.
//!
//! Reads everything and blocks on disk; for tools and tests.

use std::path::Path;
use std::sync::Arc;

use base::{PageNo, TenantId, TreeId};
use env::Env;
use rustc_hash::FxHashMap;
use storage::{VerifyReport, verify_file};

use crate::catalog::{Catalog, RecordKey, Table};
use crate::passing::Passage;
use crate::repair::tree_name;
use crate::row::keys::{index_entry_of_bytes, row_id_of, table_key};
use crate::row::{RowRef, decode_row};
use crate::snapshot_view::Frozen;
use crate::tenant::{OpenError, Tenant};
use crate::trees::CATALOG_TREE;

/// Defects listed one by one; the check of a tree stops at its first.
const DEFECTS_MAX: usize = 1000;

/// What a check of a tenant found.
#[derive(Clone, Debug, Default)]
pub struct TenantReport {
    /// Each a sentence that names the place.
    pub defects: Vec<String>,
    pub tables: u64,
    pub rows: u64,
    pub index_entries: u64,
    pub pages: u64,
    /// Trees that nothing refers to, to be released when the tenant is next opened. Not a defect.
    pub orphans: u64,
}

/// Checks the data file of a tenant that no server has open: slots and checksums first, then what the pages mean. Redo
/// that the file's root does not cover yet is not looked at. Blocks, and writes nothing.
///
/// `Err` means that the file could not be checked at all.
pub fn verify(
    env: &Env,
    path: &Path,
    id: TenantId,
    on_progress: &mut dyn FnMut(u64, u64),
) -> Result<(VerifyReport, TenantReport), OpenError> {
    let file = verify_file(env, path, on_progress, &mut |_, _| {})?;
    match env::block_on(env, Tenant::read_root(env, path, id)) {
        Ok(mut tenant) => Ok((file, tenant.check())),
        // What keeps it from being opened is among the file's defects.
        Err(_) if !file.is_clean() => Ok((file, TenantReport::default())),
        Err(error) => Err(error),
    }
}

impl Tenant {
    /// Checks the tenant as it is now, transactions under way left out.
    pub fn check(&mut self) -> TenantReport {
        let garbage: Vec<_> = self.garbage.iter().chain(&self.spoiled).copied().collect();
        let frozen = self.freeze();
        let passage = Passage::of(&mut self.pages);
        let mut check = Check {
            frozen: &frozen,
            passage: &passage,
            report: TenantReport::default(),
            owners: FxHashMap::default(),
            whole: true,
        };
        check.catalog();
        let owned = crate::tenant::owned_trees(&frozen.catalog);
        let unowned = frozen.trees.iter().filter(|(tree, _)| !owned.contains(tree)).collect::<Vec<_>>();
        for (tree, state) in unowned.into_iter().chain(garbage) {
            check.report.orphans += 1;
            check.tree(tree, state.root, None, &mut |_, _| Ok(()));
        }
        let tables: Vec<Arc<Table>> = frozen.catalog.tables().cloned().collect();
        for table in &tables {
            check.table(table);
        }
        check.pages();
        check.report
    }
}

struct Check<'a> {
    frozen: &'a Frozen,
    passage: &'a Passage<'a>,
    report: TenantReport,
    /// By page, the tree it was found in.
    owners: FxHashMap<PageNo, TreeId>,
    /// No tree has a page that cannot be read, so each page's owner was seen.
    whole: bool,
}

type OnEntry<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> Result<(), String>;

impl Check<'_> {
    fn defect(&mut self, what: impl Into<String>) {
        if self.report.defects.len() < DEFECTS_MAX {
            self.report.defects.push(what.into());
        }
    }

    /// Checks one tree's shape and shows its entries, up to the first that has a defect; false if not all were shown, for that
    /// or because a page of it cannot be read.
    fn tree(
        &mut self,
        tree: TreeId,
        root: btree::TreeRoot,
        entries: Option<u64>,
        on_entry: OnEntry<'_>,
    ) -> bool {
        let pages = self.passage.pages(&self.frozen.pages);
        let mut defect = None;
        let result = btree::check_each(&pages, root, |key, value| {
            let value = value.read(&pages)?;
            if defect.is_none()
                && let Err(what) = on_entry(key, &value)
            {
                defect = Some(what);
            }
            Ok(())
        });
        let all_shown = defect.is_none();
        if let Some(what) = defect {
            self.defect(what);
        }
        let name = tree_name(&self.frozen.catalog, tree);
        match result {
            Err(fault) => {
                self.whole = false;
                self.defect(format!("{name}: {fault}"));
                false
            }
            Ok(report) => {
                if let Some(counted) = entries.filter(|counted| *counted != report.entries) {
                    self.defect(format!(
                        "{name} has {} entries, not the {counted} it counts",
                        report.entries
                    ));
                }
                for page in report.pages {
                    if let Some(other) = self.owners.insert(page, tree) {
                        let other = tree_name(&self.frozen.catalog, other);
                        self.defect(format!("page {page} is in {other} and in {name}"));
                    }
                }
                all_shown
            }
        }
    }

    fn catalog(&mut self) {
        let state = self.frozen.trees.get(CATALOG_TREE);
        let mut stored = Catalog::default();
        self.tree(CATALOG_TREE, state.root, None, &mut |key, value| {
            let malformed = |what: crate::catalog::Malformed| format!("catalog record: {}", what.0);
            let key = RecordKey::from_bytes(key).map_err(malformed)?;
            stored.apply_record(key, Some(value)).map_err(malformed)
        });
        let catalog = Arc::clone(&self.frozen.catalog);
        // A record's bytes are the same for the same object, so equal catalogs have equal records.
        if stored_form(&stored) != stored_form(&catalog) {
            self.defect("the catalog's records differ from the catalog in memory");
        }
        for relation in catalog.relations() {
            let named = catalog.relation_in(relation.schema(), relation.name());
            if named.is_none_or(|named| named.oid() != relation.oid()) {
                self.defect(format!("{} {} is not found by its name", relation.kind(), relation.name()));
            }
        }
        for table in catalog.tables() {
            for key in &table.foreign_keys {
                let other_side = catalog.table(key.referenced_table).is_some_and(|other| {
                    other.referenced_by.iter().any(|by| by.table == table.oid && by.constraint == key.oid)
                        && other.index(key.referenced_index).is_some()
                });
                if !other_side {
                    self.defect(format!(
                        "foreign key {} of table {} has no other side",
                        key.name, table.name
                    ));
                }
            }
            for by in &table.referenced_by {
                if catalog.table(by.table).is_none_or(|other| other.foreign_key(by.constraint).is_none()) {
                    self.defect(format!("table {} is referenced by a foreign key that is gone", table.name));
                }
            }
            if catalog.schema(table.schema).is_none() {
                self.defect(format!("table {} is in a schema that is gone", table.name));
            }
        }
    }

    fn table(&mut self, table: &Table) {
        self.report.tables += 1;
        let (frozen, passage) = (self.frozen, self.passage);
        let state = frozen.trees.get(table.tree);
        let mut rows = 0;
        let mut of_index = vec![0; table.secondary_indexes().count()];
        let whole = self.tree(table.tree, state.root, Some(state.entries), &mut |key, bytes| {
            rows += 1;
            check_row(table, key, bytes)?;
            for (index, counted) in table.secondary_indexes().zip(&mut of_index) {
                let entry = index_entry_of_bytes(table, index, bytes, key).map_err(|e| e.to_string())?;
                let Some(entry) = entry else { continue };
                *counted += 1;
                let pages = passage.pages(&frozen.pages);
                let found = btree::get(&pages, frozen.trees.root(index.tree), &entry.key);
                // A page of the index that cannot be read is told when its own tree is checked.
                let Ok(found) = found.and_then(|value| value.map(|value| value.read(&pages)).transpose())
                else {
                    continue;
                };
                if found.as_deref() != Some(&entry.value[..]) {
                    return Err(format!("index {}: a row of table {} is not in it", index.name, table.name));
                }
            }
            Ok(())
        });
        self.report.rows += rows;
        for (index, rows) in table.secondary_indexes().zip(of_index) {
            // Every row that is to have one has its entry, and entries of two rows differ; so an equal count leaves no entry without a row.
            let state = frozen.trees.get(index.tree);
            let mut entries = 0;
            let index_whole = self.tree(index.tree, state.root, Some(state.entries), &mut |_, _| {
                entries += 1;
                Ok(())
            });
            self.report.index_entries += entries;
            if whole && index_whole && entries != rows {
                let (name, table) = (&index.name, &table.name);
                let of = if index.predicate.is_some() { " of its predicate" } else { "" };
                self.defect(format!("index {name} has {entries} entries, its table {table} {rows} rows{of}"));
            }
        }
    }

    fn pages(&mut self) {
        let mut unowned = Vec::new();
        self.frozen.pages.for_each_page(|page| {
            self.report.pages += 1;
            if !self.owners.contains_key(&page) {
                unowned.push(page);
            }
        });
        for page in unowned.into_iter().filter(|_| self.whole).collect::<Vec<_>>() {
            self.defect(format!("page {page} is in no tree"));
        }
    }
}

fn check_row(table: &Table, key: &[u8], bytes: &[u8]) -> Result<(), String> {
    let row = decode_row(table, bytes).map_err(|e| e.to_string())?;
    let expected = table_key(table, &row).map_err(|e| e.to_string())?;
    let agrees = match expected {
        Some(expected) => expected[..] == *key,
        None => row_id_of(key).is_some(),
    };
    if !agrees {
        return Err(format!("table {}: a row is under another key than its own", table.name));
    }
    let shown = RowRef::new(table, key.into(), bytes.into());
    let missing =
        table.live_columns().find(|(i, c)| c.not_null && shown.column(*i).is_ok_and(|v| v.is_null()));
    match missing {
        Some((_, column)) => Err(format!("table {}: NULL in column {}", table.name, column.name)),
        None => Ok(()),
    }
}

fn stored_form(catalog: &Catalog) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    let records = Catalog::default().changes_to(catalog);
    records.into_iter().map(|(key, value)| (key.to_bytes(), value)).collect()
}
