//! Branches of transactions that also change the catalog: a restore in one transaction, a TRUNCATE and a load.

use super::*;
use crate::catalog::IndexColumn;
use crate::ddl::NewIndex;

const COLUMNS: &[(&str, PgType)] = &[("id", PgType::Int4), ("v", PgType::Int4), ("s", PgType::Text)];

fn index_on(column: usize, unique: bool) -> NewIndex {
    let columns = vec![IndexColumn::ascending(column)];
    NewIndex { name: None, columns, unique, nulls_not_distinct: false, ..NewIndex::default() }
}

/// Inserts rows as a COPY does, poured some at a time; `between` runs between two parts.
fn load(
    fixture: &mut Fixture,
    txn: &mut Txn,
    t: Oid,
    ids: std::ops::Range<i32>,
    between: &mut dyn FnMut(&mut Fixture),
) {
    let filler = "x".repeat(200);
    let ids: Vec<i32> = ids.collect();
    fixture.tenant.begin_branch(txn).unwrap();
    for part in ids.chunks(200) {
        fixture
            .run_reading(txn, |view| {
                let table = view.table(t)?;
                part.iter()
                    .try_for_each(|id| view.insert(&table, &[int(*id), int(-id), text(&filler)]).map(drop))
            })
            .unwrap();
        assert!(txn.can_branch());
        fixture.tenant.pour(txn, &mut fixture.log).unwrap();
        assert_eq!(txn.changed_bytes(), 0, "nothing stays in memory");
        between(fixture);
    }
}

fn ids(rows: &[Row]) -> Vec<i32> {
    rows.iter().map(|row| if let Datum::Int4(n) = row[0] { n } else { panic!("an integer") }).collect()
}

/// The rows by the first secondary index, newest first.
fn by_index(fixture: &mut Fixture, t: Oid) -> Vec<i32> {
    let index = fixture.table(t).secondary_indexes().next().expect("it has one").oid;
    let mut txn = fixture.begin(77, Isolation::ReadCommitted);
    let rows = fixture
        .run_reading(&mut txn, |view| scan_rows(view, t, Some(index), KeyRange::all(), Direction::Backward));
    let rows = ids(&rows.unwrap());
    fixture.commit(txn).unwrap();
    rows
}

/// The tenant, one that replayed its log, and one that lost power now are sound and have these rows.
fn check(fixture: &mut Fixture, t: Oid, wanted: &[i32]) {
    while fixture.tenant.reclaim(64).unwrap() {}
    let mut copy = fixture.replayed();
    for tenant in [&mut copy, fixture] {
        assert_eq!(ids(&tenant.rows(t)), wanted);
        assert_eq!(by_index(tenant, t), wanted);
        assert_eq!(tenant.tenant.check().defects, Vec::<String>::new());
    }
}

#[test]
fn a_table_made_in_the_same_transaction_is_filled_through_a_branch_and_its_index_built_behind() {
    let mut fixture = Fixture::new();
    let other = fixture.create("other", COLUMNS, 1);
    let mut txn = fixture.begin(1, Isolation::ReadCommitted);
    let t = fixture.run(&mut txn, |view| create(&mut view.ddl()?, "t", COLUMNS, 1)).unwrap();
    let mut passes = 0;
    load(&mut fixture, &mut txn, t, 0..3000, &mut |fixture| {
        passes += 1;
        fixture.insert(other, vec![int(passes), int(-passes), text("others go on")]).unwrap();
    });
    fixture.run(&mut txn, |view| view.ddl()?.create_index(t, index_on(1, true))).unwrap();
    // Behind the index, whose entries a replay builds again: what is poured into it is in no part.
    load(&mut fixture, &mut txn, t, 3000..4000, &mut |_| ());
    let twice = fixture.run(&mut txn, |view| {
        let table = view.table(t)?;
        view.insert(&table, &[int(9999), int(-3500), text("")]).map(drop)
    });
    assert_eq!(error_of(twice).state().as_str(), "23505", "the index is kept");
    assert!(fixture.tenant.catalog().table(t).is_none(), "nobody else knows of it");
    fixture.commit(txn).unwrap();
    check(&mut fixture, t, &(0..4000).collect::<Vec<_>>());
    assert_eq!(fixture.rows(other).len() as i32, passes);
}

#[test]
fn an_index_made_before_the_load_is_filled_with_it() {
    let mut fixture = Fixture::new();
    let mut txn = fixture.begin(1, Isolation::ReadCommitted);
    let t = fixture.run(&mut txn, |view| create(&mut view.ddl()?, "t", COLUMNS, 1)).unwrap();
    fixture.run(&mut txn, |view| view.ddl()?.create_index(t, index_on(1, true))).unwrap();
    load(&mut fixture, &mut txn, t, 0..2000, &mut |_| ());
    fixture.commit(txn).unwrap();
    check(&mut fixture, t, &(0..2000).collect::<Vec<_>>());
}

#[test]
fn an_index_of_a_filled_table_is_built_before_the_branch_and_goes_with_it() {
    let mut fixture = Fixture::new();
    let t = fixture.create("t", COLUMNS, 1);
    for id in 0..500 {
        fixture.insert(t, vec![int(id), int(-id), text("committed")]).unwrap();
    }
    let pages = fixture.tenant.pages.page_count();
    let begun = |fixture: &mut Fixture| {
        let mut txn = fixture.begin(1, Isolation::ReadCommitted);
        fixture.run(&mut txn, |view| view.ddl()?.create_index(t, index_on(1, true))).unwrap();
        load(fixture, &mut txn, t, 500..2500, &mut |_| ());
        txn
    };
    let txn = begun(&mut fixture);
    fixture.tenant.abort(txn);
    while fixture.tenant.reclaim(1000).unwrap() {}
    assert_eq!(fixture.tenant.pages.page_count(), pages, "both sides give the index back");
    assert_eq!(fixture.tenant.check().defects, Vec::<String>::new());
    let txn = begun(&mut fixture);
    fixture.commit(txn).unwrap();
    check(&mut fixture, t, &(0..2500).collect::<Vec<_>>());
}

#[test]
fn a_truncated_table_is_filled_anew_and_its_old_rows_are_gone_with_the_commit() {
    let mut fixture = Fixture::new();
    let t = fixture.create("t", COLUMNS, 1);
    fixture.ddl(|ddl| ddl.create_index(t, index_on(1, false))).unwrap();
    for id in 0..500 {
        fixture.insert(t, vec![int(id), int(-id), text("old")]).unwrap();
    }
    let mut txn = fixture.begin(1, Isolation::ReadCommitted);
    fixture.run(&mut txn, |view| view.ddl()?.truncate(&[t], false)).unwrap();
    load(&mut fixture, &mut txn, t, 100..1500, &mut |_| ());
    assert_eq!(ids(&fixture.run(&mut txn, |view| all_rows(view, t)).unwrap()).len(), 1400);
    fixture.commit(txn).unwrap();
    check(&mut fixture, t, &(100..1500).collect::<Vec<_>>());
}

#[test]
fn nothing_is_poured_behind_a_table_rewritten_under_another_key() {
    let mut fixture = Fixture::new();
    let t = fixture.create("t", COLUMNS, 0);
    for id in 0..500 {
        fixture.insert(t, vec![int(id), int(-id), text("old")]).unwrap();
    }
    fixture.ddl(|ddl| ddl.create_index(t, index_on(1, false))).unwrap();
    let mut txn = fixture.begin(1, Isolation::ReadCommitted);
    load(&mut fixture, &mut txn, t, 500..1000, &mut |_| ());
    let key = NewUnique { name: None, columns: vec![0], nulls_not_distinct: false };
    fixture.run(&mut txn, |view| view.ddl()?.add_primary_key(t, key).map(drop)).unwrap();
    assert!(!txn.can_branch());
    fixture
        .run(&mut txn, |view| {
            let table = view.table(t)?;
            view.insert(&table, &[int(1000), int(-1000), text("behind")]).map(drop)
        })
        .unwrap();
    fixture.commit(txn).unwrap();
    check(&mut fixture, t, &(0..=1000).collect::<Vec<_>>());
}

#[test]
fn an_aborted_load_of_a_new_table_leaves_nothing() {
    let mut fixture = Fixture::on_disk(5);
    let other = fixture.create("other", COLUMNS, 1);
    fixture.insert(other, vec![int(1), int(-1), text("here")]).unwrap();
    let pages = fixture.tenant.pages.page_count();
    let mut txn = fixture.begin(1, Isolation::ReadCommitted);
    let t = fixture.run(&mut txn, |view| create(&mut view.ddl()?, "t", COLUMNS, 1)).unwrap();
    fixture.run(&mut txn, |view| view.ddl()?.create_index(t, index_on(1, true))).unwrap();
    load(&mut fixture, &mut txn, t, 0..1000, &mut |_| ());
    fixture.tenant.abort(txn);
    while fixture.tenant.reclaim(1000).unwrap() {}
    assert_eq!(fixture.tenant.pages.page_count(), pages);
    assert!(fixture.tenant.lock_records().is_empty());
    fixture.reopen();
    assert!(fixture.tenant.catalog().table(t).is_none());
    assert_eq!(fixture.rows(other).len(), 1);
    assert_eq!(fixture.tenant.check().defects, Vec::<String>::new());
}
