//! Partial indexes: entries of the rows alone of which a predicate is true, whoever writes them. And keys that a function makes of a column.

use super::constraints::reference;
use super::*;
use crate::catalog::{Blanks, Comparison, IndexColumn, KeyFunction, ReferentialAction, RowTest};
use crate::ddl::{Behavior, NewForeignKey, NewIndex};
use crate::row::keys::index_entry;
use crate::{Arbiter, Inserted};

const COLUMNS: &[(&str, PgType)] =
    &[("id", PgType::Int4), ("v", PgType::Int4), ("live", PgType::Bool), ("of", PgType::Int4)];

fn index_of(column: usize, unique: bool) -> NewIndex {
    let columns = vec![IndexColumn::ascending(column)];
    NewIndex { name: None, columns, unique, nulls_not_distinct: false, ..NewIndex::default() }
}

/// A table with an index of `v` where `live`.
fn partly_indexed(unique: bool) -> (Fixture, Oid, Oid) {
    let mut fixture = Fixture::new();
    let t = fixture.create("t", COLUMNS, 1);
    let predicate = Some(Arc::new(RowTest::True(2)));
    let index =
        fixture.ddl(|ddl| ddl.create_index(t, NewIndex { predicate, ..index_of(1, unique) })).unwrap();
    (fixture, t, index)
}

fn row(id: i32, v: i32, live: Option<bool>) -> Row {
    vec![int(id), int(v), live.map_or(Datum::Null, Datum::Bool), Datum::Null]
}

fn put(fixture: &mut Fixture, t: Oid, row: Row) -> Result<(), String> {
    let written = fixture.auto(|view| {
        if !update(view, t, &row[..1], row.clone())? {
            let table = view.table(t)?;
            view.insert(&table, &row)?;
        }
        Ok(())
    });
    written.map_err(|error| error.state().as_str().to_owned())
}

fn by_index(fixture: &mut Fixture, t: Oid, index: Oid) -> Vec<i32> {
    let mut txn = fixture.begin(78, Isolation::ReadCommitted);
    let scan = |view: &mut View<'_>| scan_rows(view, t, Some(index), KeyRange::all(), Direction::Forward);
    let rows = fixture.run_reading(&mut txn, scan).unwrap();
    fixture.commit(txn).unwrap();
    rows.iter().map(|row| if let Datum::Int4(n) = row[0] { n } else { panic!("an integer") }).collect()
}

/// The tenant, and one that has replayed its log, are sound and find these rows by the index.
fn check(fixture: &mut Fixture, t: Oid, index: Oid, wanted: &[i32]) {
    while fixture.tenant.reclaim(64).unwrap() {}
    let mut copy = fixture.replayed();
    for fixture in [&mut copy, fixture] {
        assert_eq!(by_index(fixture, t, index), wanted);
        assert_eq!(fixture.tenant.check().defects, Vec::<String>::new());
    }
}

#[test]
fn a_row_has_an_entry_while_the_predicate_is_true_of_it() {
    let (mut fixture, t, index) = partly_indexed(false);
    for (id, live) in [(1, Some(true)), (2, Some(false)), (3, None), (4, Some(true))] {
        put(&mut fixture, t, row(id, 10 - id, live)).unwrap();
    }
    check(&mut fixture, t, index, &[4, 1]);
    // It comes in, goes out, moves within, and stays without.
    for (id, v, live) in [(2, 0, Some(true)), (4, 6, None), (1, 20, Some(true)), (3, 3, Some(false))] {
        put(&mut fixture, t, row(id, v, live)).unwrap();
    }
    check(&mut fixture, t, index, &[2, 1]);
    for id in [1, 3] {
        fixture.auto(|view| delete(view, t, &[int(id)])).unwrap();
    }
    check(&mut fixture, t, index, &[2]);
}

#[test]
fn values_are_unique_among_the_rows_of_the_predicate_alone() {
    let (mut fixture, t, index) = partly_indexed(true);
    assert_eq!(put(&mut fixture, t, row(1, 7, Some(true))), Ok(()));
    assert_eq!(put(&mut fixture, t, row(2, 7, Some(false))), Ok(()));
    assert_eq!(put(&mut fixture, t, row(3, 7, None)), Ok(()));
    assert_eq!(put(&mut fixture, t, row(4, 7, Some(true))), Err("23505".to_owned()));
    assert_eq!(put(&mut fixture, t, row(2, 7, Some(true))), Err("23505".to_owned()));
    // The place is free once the first is out.
    assert_eq!(put(&mut fixture, t, row(1, 7, Some(false))), Ok(()));
    assert_eq!(put(&mut fixture, t, row(2, 7, Some(true))), Ok(()));
    check(&mut fixture, t, index, &[2]);

    let mut offered = |row: Row| {
        let offer = |view: &mut View<'_>| {
            let table = view.table(t)?;
            view.insert_or_conflict(&table, &row, Arbiter::Index(index))
        };
        matches!(fixture.auto(offer).unwrap(), Inserted::Row(_))
    };
    assert!(!offered(row(5, 7, Some(true))));
    assert!(offered(row(6, 7, Some(false))), "it conflicts with nothing");
    assert!(offered(row(7, 8, Some(true))));
    check(&mut fixture, t, index, &[2, 7]);
}

#[test]
fn who_takes_a_row_out_of_a_unique_index_is_waited_for_by_who_wants_its_place() {
    let (mut fixture, t, _) = partly_indexed(true);
    put(&mut fixture, t, row(1, 7, Some(true))).unwrap();
    let mut first = fixture.begin(1, Isolation::ReadCommitted);
    fixture.run(&mut first, |view| update(view, t, &[int(1)], row(1, 7, Some(false)))).unwrap();
    let mut second = fixture.begin(2, Isolation::ReadCommitted);
    let insert = |view: &mut View<'_>| {
        let table = view.table(t)?;
        view.insert(&table, &row(2, 7, Some(true))).map(drop)
    };
    let wait = wait_of(fixture.run(&mut second, insert));
    fixture.commit(first).unwrap();
    assert!(wait.is_over());
    fixture.run(&mut second, insert).unwrap();
    fixture.commit(second).unwrap();
}

#[test]
fn it_is_built_of_the_rows_of_its_predicate_and_by_a_replay_again() {
    let mut fixture = Fixture::new();
    let t = fixture.create("t", COLUMNS, 1);
    for id in 0..500 {
        put(&mut fixture, t, row(id, id % 50, Some(id >= 450))).unwrap();
    }
    let live = Some(Arc::new(RowTest::True(2)));
    let index =
        fixture.ddl(|ddl| ddl.create_index(t, NewIndex { predicate: live, ..index_of(1, true) })).unwrap();
    check(&mut fixture, t, index, &(450..500).collect::<Vec<_>>());
    let few = RowTest::Compare {
        column: 0,
        comparison: Comparison::Less,
        blanks: Blanks::Count,
        constant: Datum::Int8(100),
    };
    let twice = fixture
        .ddl(|ddl| ddl.create_index(t, NewIndex { predicate: Some(Arc::new(few)), ..index_of(1, true) }))
        .unwrap_err();
    assert_eq!(twice.state().as_str(), "23505");
    // Of none of the rows there are.
    let none = Some(Arc::new(RowTest::IsNull { column: 3, negated: true }));
    let empty =
        fixture.ddl(|ddl| ddl.create_index(t, NewIndex { predicate: none, ..index_of(1, false) })).unwrap();
    check(&mut fixture, t, empty, &[]);
    let mut filled = row(7, 7, None);
    filled[3] = int(1);
    put(&mut fixture, t, filled).unwrap();
    check(&mut fixture, t, empty, &[7]);
}

#[test]
fn a_long_load_fills_it_too() {
    let (mut fixture, t, index) = partly_indexed(true);
    let mut txn = fixture.begin(1, Isolation::ReadCommitted);
    fixture.tenant.begin_branch(&mut txn).unwrap();
    for part in (0..2000).collect::<Vec<i32>>().chunks(200) {
        let insert = |view: &mut View<'_>| {
            let table = view.table(t)?;
            part.iter()
                .try_for_each(|id| view.insert(&table, &row(*id, id % 1000, Some(*id < 1000))).map(drop))
        };
        fixture.run_reading(&mut txn, insert).unwrap();
        fixture.tenant.pour(&mut txn, &mut fixture.log).unwrap();
    }
    fixture.commit(txn).unwrap();
    check(&mut fixture, t, index, &(0..1000).collect::<Vec<_>>());
}

#[test]
fn a_foreign_key_that_sets_null_takes_its_rows_out_and_looks_by_no_index_that_lacks_some() {
    let mut fixture = Fixture::new();
    let parent = fixture.create("parent", &[("id", PgType::Int4)], 1);
    let t = fixture.create("t", COLUMNS, 1);
    let key = NewForeignKey { columns: vec![3], ..reference(parent, ReferentialAction::SetNull) };
    fixture.ddl(|ddl| ddl.add_foreign_key(t, key)).unwrap();
    // The first has none of the rows that are not live.
    let live = Some(Arc::new(RowTest::True(2)));
    fixture.ddl(|ddl| ddl.create_index(t, NewIndex { predicate: live, ..index_of(3, false) })).unwrap();
    let child = |id: i32| vec![int(id), int(id), Datum::Bool(id == 1), int(9)];
    fixture.insert(parent, vec![int(9)]).unwrap();
    (1..4).for_each(|id| fixture.insert(t, child(id)).unwrap());
    let of_some = Some(Arc::new(RowTest::IsNull { column: 3, negated: true }));
    let referencing = fixture
        .ddl(|ddl| ddl.create_index(t, NewIndex { predicate: of_some, ..index_of(3, false) }))
        .unwrap();
    check(&mut fixture, t, referencing, &[1, 2, 3]);
    fixture.auto(|view| delete(view, parent, &[int(9)])).unwrap();
    assert!(fixture.rows(t).iter().all(|row| row[3].is_null()), "each of them was found");
    check(&mut fixture, t, referencing, &[]);
}

#[test]
fn no_foreign_key_references_it() {
    let (mut fixture, t, _) = partly_indexed(true);
    let child = fixture.create("child", &[("id", PgType::Int4), ("v", PgType::Int4)], 1);
    let key = NewForeignKey {
        referenced_columns: Some(vec![1]),
        on_update: ReferentialAction::NoAction,
        ..reference(t, ReferentialAction::NoAction)
    };
    let refused = fixture.ddl(|ddl| ddl.add_foreign_key(child, key)).unwrap_err();
    assert_eq!(refused.state().as_str(), "42830");
}

#[test]
fn it_goes_with_a_column_of_its_predicate() {
    let (mut fixture, t, index) = partly_indexed(false);
    put(&mut fixture, t, row(1, 1, Some(true))).unwrap();
    fixture.ddl(|ddl| ddl.drop_column(t, "of", Behavior::Restrict)).unwrap();
    assert!(fixture.table(t).index(index).is_some());
    fixture.ddl(|ddl| ddl.drop_column(t, "live", Behavior::Restrict)).unwrap();
    assert!(fixture.table(t).index(index).is_none());
    assert_eq!(fixture.tenant.check().defects, Vec::<String>::new());
}

#[test]
fn keys_may_be_what_a_function_makes_of_a_column() {
    let mut fixture = Fixture::new();
    let t = fixture.create("t", &[("id", PgType::Int4), ("email", PgType::Text)], 1);
    for (id, email) in [(1, "Bob@x"), (2, "alice@X")] {
        fixture.insert(t, vec![int(id), text(email)]).unwrap();
    }
    let lower = IndexColumn { function: Some(KeyFunction::Lower), ..IndexColumn::ascending(1) };
    let new = |unique| NewIndex {
        name: None,
        columns: vec![lower],
        unique,
        nulls_not_distinct: false,
        ..NewIndex::default()
    };
    let index = fixture.ddl(|ddl| ddl.create_index(t, new(true))).unwrap();
    assert_eq!(fixture.table(t).index(index).expect("just made").name, "t_lower_idx");
    check(&mut fixture, t, index, &[2, 1]);
    let error = fixture.insert(t, vec![int(3), text("BOB@X")]).unwrap_err();
    assert_eq!(error.detail(), Some("Key (lower(email))=(bob@x) already exists."));
    fixture.insert(t, vec![int(3), Datum::Null]).unwrap();
    assert_eq!(put(&mut fixture, t, vec![int(1), text("bob@X")]), Ok(()), "its own key");
    assert_eq!(put(&mut fixture, t, vec![int(2), text("Carl")]), Ok(()));
    check(&mut fixture, t, index, &[1, 2, 3]);
    let child = fixture.create("child", &[("id", PgType::Int4), ("email", PgType::Text)], 1);
    let key = NewForeignKey {
        referenced_columns: Some(vec![1]),
        on_update: ReferentialAction::NoAction,
        ..reference(t, ReferentialAction::NoAction)
    };
    let refused = fixture.ddl(|ddl| ddl.add_foreign_key(child, key)).unwrap_err();
    assert_eq!(refused.state().as_str(), "42830", "lower(email) is unique, and not email");

    fixture.ddl(|ddl| ddl.drop_index(index, Behavior::Restrict)).unwrap();
    fixture.insert(t, vec![int(4), text("CARL")]).unwrap();
    let error = fixture.ddl(|ddl| ddl.create_index(t, new(true))).unwrap_err();
    assert_eq!(error.detail(), Some("Key (lower(email))=(carl) is duplicated."));
    let index = fixture.ddl(|ddl| ddl.create_index(t, new(false))).unwrap();
    check(&mut fixture, t, index, &[1, 2, 4, 3]);
}

#[test]
fn an_entry_of_a_row_that_is_to_have_none_is_found() {
    let (mut fixture, t, index) = partly_indexed(false);
    put(&mut fixture, t, row(1, 1, Some(true))).unwrap();
    put(&mut fixture, t, row(2, 2, Some(false))).unwrap();
    let table = fixture.table(t);
    let mut whole = table.index(index).expect("just made").clone();
    let tree = whole.tree;
    whole.predicate = None;
    let entry = index_entry(&whole, &row(2, 2, Some(false)), &primary_key(&table, &[int(2)]));
    let entry = entry.unwrap().expect("an entry of every row");
    fixture.tenant.put_now(tree, &entry.key, &entry.value);
    let defects = fixture.tenant.check().defects;
    assert_eq!(defects, ["index t_v_idx has 2 entries, its table t 1 rows of its predicate"]);
}
