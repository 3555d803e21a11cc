//! Faults that pages with valid checksums and sound trees can still have: an index beside its table, counts that are not
//! true, pages with two owners or none.

use std::path::Path;

use base::TreeId;
use storage::WritePages;

use super::*;
use crate::catalog::IndexColumn;
use crate::ddl::NewIndex;
use crate::row::encode_row;
use crate::row::keys::{Entry, index_entry};
use crate::trees::TreeState;
use crate::verify::verify;

const ROWS: i32 = 100;

/// A table with a plain and a unique index of its second column.
struct Indexed {
    fixture: Fixture,
    t: Oid,
    plain: Oid,
    unique: Oid,
}

fn row_of(id: i32) -> [Datum; 2] {
    [int(id), int(1000 + id)]
}

impl Indexed {
    fn new() -> Indexed {
        Indexed::of(Fixture::new())
    }

    fn of(mut fixture: Fixture) -> Indexed {
        let t = fixture.create("t", &[("id", PgType::Int4), ("v", PgType::Int4)], 1);
        let index = |name: &str, unique| NewIndex {
            name: Some(name.to_owned()),
            columns: vec![IndexColumn::ascending(1)],
            unique,
            nulls_not_distinct: false,
            ..NewIndex::default()
        };
        let plain = fixture.ddl(|ddl| ddl.create_index(t, index("plain", false))).unwrap();
        let unique = fixture.ddl(|ddl| ddl.create_index(t, index("single", true))).unwrap();
        let filled = fixture.auto(|view| {
            let table = view.table(t)?;
            (0..ROWS).try_for_each(|id| view.insert(&table, &row_of(id)).map(drop))
        });
        filled.unwrap();
        let report = fixture.tenant.check();
        assert_eq!(report.defects, Vec::<String>::new());
        assert_eq!((report.rows, report.index_entries), (100, 200));
        Indexed { fixture, t, plain, unique }
    }

    fn tree(&self, index: Oid) -> TreeId {
        self.fixture.table(self.t).index(index).expect("made with the table").tree
    }

    /// The entry of row `id` in an index.
    fn entry(&self, index: Oid, id: i32) -> Entry {
        let table = self.fixture.table(self.t);
        let index = table.index(index).expect("made with the table");
        let entry = index_entry(index, &row_of(id), &primary_key(&table, &[int(id)]));
        entry.expect("a short key").expect("an entry for each row")
    }

    fn defects(&mut self) -> Vec<String> {
        self.fixture.tenant.check().defects
    }
}

#[test]
fn a_row_that_an_index_lacks_is_found() {
    for unique in [false, true] {
        let mut indexed = Indexed::new();
        let (index, name) = if unique { (indexed.unique, "single") } else { (indexed.plain, "plain") };
        let (tree, entry) = (indexed.tree(index), indexed.entry(index, 7));
        indexed.fixture.tenant.remove_now(tree, &entry.key);
        assert_eq!(indexed.defects(), [format!("index {name}: a row of table t is not in it")]);
        // Another entry in its place keeps the counts equal.
        let other = indexed.entry(index, ROWS);
        indexed.fixture.tenant.put_now(tree, &other.key, &other.value);
        assert_eq!(indexed.defects(), [format!("index {name}: a row of table t is not in it")]);
    }
}

#[test]
fn an_entry_that_leads_to_another_row_is_found() {
    let mut indexed = Indexed::new();
    let (tree, entry) = (indexed.tree(indexed.unique), indexed.entry(indexed.unique, 7));
    let other = indexed.entry(indexed.unique, 8);
    indexed.fixture.tenant.put_now(tree, &entry.key, &other.value);
    assert_eq!(indexed.defects(), ["index single: a row of table t is not in it"]);
}

#[test]
fn an_entry_without_a_row_is_found() {
    let mut indexed = Indexed::new();
    let (tree, entry) = (indexed.tree(indexed.plain), indexed.entry(indexed.plain, ROWS));
    indexed.fixture.tenant.put_now(tree, &entry.key, &entry.value);
    assert_eq!(indexed.defects(), ["index plain has 101 entries, its table t 100 rows"]);
    // A row without its entries comes to the same.
    let mut indexed = Indexed::new();
    let table = indexed.fixture.table(indexed.t);
    indexed.fixture.tenant.remove_now(table.tree, &primary_key(&table, &[int(7)]));
    let expected =
        ["plain", "single"].map(|index| format!("index {index} has 100 entries, its table t 99 rows"));
    assert_eq!(indexed.defects(), expected);
}

#[test]
fn a_row_under_the_key_of_another_is_found() {
    let mut indexed = Indexed::new();
    let table = indexed.fixture.table(indexed.t);
    let mut bytes = Vec::new();
    encode_row(&table, &row_of(7), &mut bytes).unwrap();
    indexed.fixture.tenant.put_now(table.tree, &primary_key(&table, &[int(ROWS)]), &bytes);
    assert_eq!(indexed.defects(), ["table t: a row is under another key than its own"]);
}

#[test]
fn a_count_that_is_not_true_is_found() {
    let mut indexed = Indexed::new();
    let of_table = indexed.fixture.table(indexed.t).tree;
    for (tree, name) in
        [(of_table, "table public.t"), (indexed.tree(indexed.plain), "index public.plain of table public.t")]
    {
        let state = indexed.fixture.tenant.trees.get(tree);
        indexed.fixture.tenant.trees.set(tree, TreeState { entries: state.entries + 1, ..state });
        assert_eq!(indexed.defects(), [format!("{name} has 100 entries, not the 101 it counts")]);
        indexed.fixture.tenant.trees.set(tree, state);
    }
    assert_eq!(indexed.defects(), Vec::<String>::new());
}

#[test]
fn a_page_in_no_tree_is_found() {
    let mut indexed = Indexed::new();
    let lost = indexed.fixture.tenant.pages.allocate(None);
    assert_eq!(indexed.defects(), [format!("page {lost} is in no tree")]);
}

#[test]
fn a_page_in_two_trees_is_found() {
    let mut indexed = Indexed::new();
    // A tree that was given up and is still to be released, with a page that an index has in use.
    let state = indexed.fixture.tenant.trees.get(indexed.tree(indexed.plain));
    let page = state.root.0.expect("an index with entries");
    indexed.fixture.tenant.garbage.push((TreeId(999), state));
    let expected = format!("page {page} is in dropped tree 999 and in index public.plain of table public.t");
    assert_eq!(indexed.defects(), [expected]);
}

#[test]
fn two_tables_with_the_same_pages_are_found() {
    let mut indexed = Indexed::new();
    let [own, other] =
        [indexed.t, indexed.fixture.create("u", &[("id", PgType::Int4), ("v", PgType::Int4)], 1)]
            .map(|oid| indexed.fixture.table(oid).tree);
    let state = indexed.fixture.tenant.trees.get(own);
    indexed.fixture.tenant.trees.set(other, state);
    let page = state.root.0.expect("a table with rows");
    let defects = indexed.defects();
    assert!(!defects.is_empty() && defects.iter().all(|defect| defect.starts_with("page ")), "{defects:?}");
    assert!(defects.iter().any(|defect| defect.starts_with(&format!("page {page} is in table public."))));
}

#[test]
fn the_check_of_a_file_finds_them_too() {
    let indexed = Indexed::of(Fixture::on_disk(5));
    let (tree, entry) = (indexed.tree(indexed.plain), indexed.entry(indexed.plain, 7));
    let mut fixture = indexed.fixture;
    fixture.tenant.remove_now(tree, &entry.key);
    let lost = fixture.tenant.pages.allocate(None);
    let env = fixture.world.as_ref().expect("on disk").env();
    let mut checkpoint = fixture.tenant.begin_checkpoint().unwrap();
    env::block_on(&env, checkpoint.run()).unwrap();
    assert!(fixture.tenant.finish_checkpoint(checkpoint));
    drop(fixture.tenant);
    let (file, tenant) = verify(&env, Path::new("/tenant"), TENANT, &mut |_, _| {}).unwrap();
    assert!(file.is_clean(), "{:?}", file.defects);
    let expected =
        ["index plain: a row of table t is not in it".to_owned(), format!("page {lost} is in no tree")];
    assert_eq!(tenant.defects, expected);
    assert_eq!((tenant.tables, tenant.index_entries, tenant.orphans), (1, 199, 0));
}
