//! Transactions that read a snapshot and whose changes go to a branch: what they see, what they are refused, what they leave.

use std::collections::BTreeMap;

use super::*;
use crate::SnapshotView;
use crate::catalog::{Index, IndexColumn};
use crate::ddl::NewIndex;

/// A table with an index of its second column, and rows from 0 on with the value 0.
fn indexed(fixture: &mut Fixture, rows: i32) -> Oid {
    let t = fixture.create("t", &[("id", PgType::Int4), ("v", PgType::Int4)], 1);
    let columns = vec![IndexColumn::ascending(1)];
    let new =
        NewIndex { name: None, columns, unique: false, nulls_not_distinct: false, ..NewIndex::default() };
    fixture.ddl(|ddl| ddl.create_index(t, new)).unwrap();
    fixture.auto(|view| insert_all(view, t, 0..rows, 0)).unwrap();
    t
}

fn insert_all(view: &mut View<'_>, t: Oid, mut ids: std::ops::Range<i32>, v: i32) -> Result<(), Interrupt> {
    let table = view.table(t)?;
    ids.try_for_each(|id| view.insert(&table, &[int(id), int(v)]).map(drop))
}

fn set_all(view: &mut View<'_>, t: Oid, mut ids: std::ops::Range<i32>, v: i32) -> Result<(), Interrupt> {
    ids.try_for_each(|id| update(view, t, &[int(id)], vec![int(id), int(v)]).map(drop))
}

fn delete_all(view: &mut View<'_>, t: Oid, mut ids: std::ops::Range<i32>) -> Result<(), Interrupt> {
    ids.try_for_each(|id| delete(view, t, &[int(id)]).map(drop))
}

fn pour(fixture: &mut Fixture, txn: &mut Txn) {
    fixture.tenant.begin_branch(txn).unwrap();
    fixture.catch_up(txn);
    fixture.tenant.pour(txn, &mut fixture.log).unwrap();
}

fn pairs(rows: &[Row]) -> Vec<(i32, i32)> {
    let pair = |row: &Row| match (&row[0], &row[1]) {
        (Datum::Int4(id), Datum::Int4(v)) => (*id, *v),
        other => panic!("{other:?} are no integers"),
    };
    rows.iter().map(pair).collect()
}

/// What a query on another thread finds.
fn found(view: &SnapshotView, table: &Arc<Table>, index: Option<&Index>) -> Vec<(i32, i32)> {
    let open = || match index {
        Some(index) => view.index_scan(table, index, KeyRange::all()),
        None => view.scan(table, KeyRange::all()),
    };
    let (mut rows, mut scan) = (Vec::new(), open());
    while scan
        .next_leaf(&mut |row| {
            rows.push(row.to_row()?);
            Ok(())
        })
        .unwrap()
    {}
    let (mut count, mut scan) = (0, open());
    while let Some(len) = scan.next_leaf_len().unwrap() {
        count += len;
    }
    assert_eq!(count, rows.len());
    pairs(&rows)
}

fn row_of(view: &mut View<'_>, t: Oid, id: i32) -> Result<Option<Row>, Interrupt> {
    let table = view.table(t)?;
    let key = primary_key(&table, &[int(id)]);
    let row = view.get(&table, &key)?.map(|row| row.to_row()).transpose()?;
    Ok(row)
}

/// All rows that the transaction sees, however it looks for them.
fn seen(fixture: &mut Fixture, txn: &mut Txn, t: Oid) -> Vec<(i32, i32)> {
    let table = fixture.table(t);
    let index = &table.indexes[1];
    let scan = |view: &mut View<'_>, index, direction| scan_rows(view, t, index, KeyRange::all(), direction);
    let (forward, backward, by_value) = fixture
        .run_reading(txn, |view| {
            let forward = scan(view, None, Direction::Forward)?;
            let backward = scan(view, None, Direction::Backward)?;
            Ok((forward, backward, scan(view, Some(index.oid), Direction::Forward)?))
        })
        .unwrap();
    let rows = pairs(&forward);
    assert!(pairs(&backward).into_iter().rev().eq(rows.iter().copied()), "backward");
    let mut sorted = rows.clone();
    sorted.sort_by_key(|(id, v)| (*v, *id));
    assert_eq!(pairs(&by_value), sorted);
    let view = fixture.tenant.snapshot_view(txn).unwrap();
    assert_eq!(found(&view, &table, None), rows);
    assert_eq!(found(&view, &table, Some(index)), sorted);
    for id in [0, 10, 150, 1001, 1002, 3001, 5000] {
        let key = primary_key(&table, &[int(id)]);
        let expected = rows.iter().find(|row| row.0 == id).copied();
        let there = view.get(&table, &key).unwrap().map(|row| row.to_row().unwrap());
        assert_eq!(there.map(|row| pairs(&[row])[0]), expected, "{id}");
        let here = fixture.run_reading(txn, |view| row_of(view, t, id)).unwrap();
        assert_eq!(here.map(|row| pairs(&[row])[0]), expected, "{id}");
    }
    rows
}

#[test]
fn a_snapshot_transaction_reads_what_it_poured_over_its_snapshot_and_nobody_elses_changes() {
    let mut fixture = Fixture::new();
    let t = indexed(&mut fixture, 2000);
    let mut expected: BTreeMap<i32, i32> = (0..2000).map(|id| (id, 0)).collect();
    let mut txn = fixture.begin(1, Isolation::RepeatableRead);
    fixture.run(&mut txn, |view| set_all(view, t, 0..1, 1)).unwrap();
    expected.insert(0, 1);
    fixture.auto(|view| set_all(view, t, 10..11, 5)).unwrap();
    fixture.auto(|view| insert_all(view, t, 5000..5001, 5)).unwrap();
    pour(&mut fixture, &mut txn);
    assert_eq!(seen(&mut fixture, &mut txn, t), expected.clone().into_iter().collect::<Vec<_>>());

    for from in (100..1100).step_by(100) {
        fixture.run(&mut txn, |view| set_all(view, t, from..from + 100, 2)).unwrap();
        pour(&mut fixture, &mut txn);
        fixture.auto(|view| insert_all(view, t, 5000 + from..5001 + from, 5)).unwrap();
    }
    expected.extend((100..1100).map(|id| (id, 2)));
    // More of each than a query on another thread takes together.
    fixture.run(&mut txn, |view| delete_all(view, t, 1000..1500)).unwrap();
    pour(&mut fixture, &mut txn);
    expected.retain(|id, _| !(1000..1500).contains(id));
    fixture.run(&mut txn, |view| insert_all(view, t, 3000..3600, 3)).unwrap();
    pour(&mut fixture, &mut txn);
    expected.extend((3000..3600).map(|id| (id, 3)));
    assert_eq!(seen(&mut fixture, &mut txn, t), expected.clone().into_iter().collect::<Vec<_>>());

    // And what is not poured yet over all that.
    let more = |view: &mut View<'_>| {
        set_all(view, t, 150..151, 4)?;
        insert_all(view, t, 1001..1002, 6)?;
        delete_all(view, t, 3001..3002)
    };
    fixture.run(&mut txn, more).unwrap();
    expected.extend([(150, 4), (1001, 6)]);
    expected.remove(&3001);
    assert_eq!(seen(&mut fixture, &mut txn, t), expected.clone().into_iter().collect::<Vec<_>>());

    let late = fixture.run(&mut txn, |view| set_all(view, t, 10..11, 9));
    assert_eq!(error_of(late).state().as_str(), "40001");
    let taken = fixture.run(&mut txn, |view| insert_all(view, t, 5000..5001, 9));
    assert_eq!(error_of(taken).state().as_str(), "23505");
    fixture.commit(txn).unwrap();

    expected.extend([(10, 5), (5000, 5)]);
    expected.extend((100..1100).step_by(100).map(|id| (5000 + id, 5)));
    let expected: Vec<_> = expected.into_iter().collect();
    assert_eq!(pairs(&fixture.rows(t)), expected);
    assert!(fixture.tenant.lock_records().is_empty());
    assert_eq!(fixture.tenant.check().defects, Vec::<String>::new());
    assert!(fixture.tenant.check().orphans > 0, "what it knew of its changes goes bit by bit");
    fixture.reclaim();
    let report = fixture.tenant.check();
    assert_eq!((report.defects, report.orphans), (Vec::new(), 0));
    let mut copy = fixture.replayed();
    assert_eq!(pairs(&copy.rows(t)), expected);
    assert_eq!(copy.tenant.check().defects, Vec::<String>::new());
}

#[test]
fn nobody_else_has_changed_a_key_that_a_snapshot_transaction_poured_whatever_is_remembered() {
    let mut fixture = Fixture::new();
    let t = indexed(&mut fixture, 100);
    let mut txn = fixture.begin(1, Isolation::RepeatableRead);
    fixture.run(&mut txn, |view| all_rows(view, t)).unwrap();
    // Of a long change it is remembered in which trees it was.
    let mut long = fixture.begin(2, Isolation::ReadCommitted);
    fixture.run(&mut long, |view| set_all(view, t, 1..2, 5)).unwrap();
    pour(&mut fixture, &mut long);
    fixture.commit(long).unwrap();

    let first = |view: &mut View<'_>| {
        set_all(view, t, 2..3, 1)?;
        delete_all(view, t, 3..4)
    };
    fixture.run(&mut txn, first).unwrap();
    pour(&mut fixture, &mut txn);
    let second = |view: &mut View<'_>| {
        set_all(view, t, 2..3, 2)?;
        insert_all(view, t, 3..4, 2)
    };
    fixture.run(&mut txn, second).unwrap();
    let late = fixture.run(&mut txn, |view| set_all(view, t, 1..2, 9));
    assert_eq!(error_of(late).state().as_str(), "40001");
    fixture.commit(txn).unwrap();
    assert_eq!(pairs(&fixture.rows(t))[..5], [(0, 0), (1, 5), (2, 2), (3, 2), (4, 0)]);
    assert_eq!(fixture.tenant.check().defects, Vec::<String>::new());
}

/// It goes through an index in which the rows that it changes come again further on.
#[test]
fn a_statement_in_slices_over_a_snapshot_changes_each_row_once_as_it_was_when_it_began() {
    let mut fixture = Fixture::new();
    let t = indexed(&mut fixture, 1000);
    let mut txn = fixture.begin(1, Isolation::RepeatableRead);
    fixture.run(&mut txn, |view| set_all(view, t, 100..200, 3)).unwrap();
    fixture.auto(|view| insert_all(view, t, 2000..2001, 1)).unwrap();
    pour(&mut fixture, &mut txn);
    fixture.tenant.begin_statement(&txn);
    let (mut range, mut slices) = (KeyRange::all(), 0);
    loop {
        let next = fixture
            .run_reading(&mut txn, |view| {
                let table = view.table(t)?;
                let access = Access::Index(&table.indexes[1]);
                let mut scan = view.scan(&table, access, range.clone(), Direction::Forward);
                let mut rows = Vec::new();
                while rows.len() < 50 {
                    let Some(row) = view.next(&mut scan)? else { break };
                    rows.push((row.key().to_vec(), row.to_row()?));
                }
                for (key, row) in &rows {
                    assert!(view.is_as_found(&table, key)?);
                    let new = [row[0].clone(), int(pairs(std::slice::from_ref(row))[0].1 + 1)];
                    view.update(&table, key, &new)?;
                }
                Ok((rows.len() == 50).then(|| scan.passed().to_vec()))
            })
            .unwrap();
        fixture.tenant.pour(&mut txn, &mut fixture.log).unwrap();
        let Some(last) = next else { break };
        range.from = last.into();
        range.from.push(0);
        slices += 1;
        fixture.auto(|view| insert_all(view, t, 3000 + slices..3001 + slices, 1)).unwrap();
    }
    fixture.tenant.end_statement(&txn);
    assert_eq!(slices, 20);
    let of = |id: i32| (id, if (100..200).contains(&id) { 4 } else { 1 });
    assert_eq!(seen(&mut fixture, &mut txn, t), (0..1000).map(of).collect::<Vec<_>>());
    fixture.commit(txn).unwrap();
    assert_eq!(fixture.rows(t).len(), 1021);
    assert_eq!(fixture.tenant.check().defects, Vec::<String>::new());
    assert_eq!(fixture.replayed().rows(t).len(), 1021);
}

#[test]
fn a_serializable_transaction_that_poured_is_refused_for_what_it_read_and_for_nothing_else() {
    let mut fixture = Fixture::new();
    let t = indexed(&mut fixture, 100);
    let mut reader = fixture.begin(1, Isolation::Serializable);
    fixture.run(&mut reader, |view| all_rows(view, t)).unwrap();
    fixture.run(&mut reader, |view| set_all(view, t, 1..20, 1)).unwrap();
    pour(&mut fixture, &mut reader);
    fixture.auto(|view| set_all(view, t, 50..51, 5)).unwrap();
    assert_eq!(fixture.commit(reader).unwrap_err().state().as_str(), "40001");
    while fixture.tenant.reclaim(64).unwrap() {}
    assert!(fixture.tenant.lock_records().is_empty());
    assert!(pairs(&fixture.rows(t)).iter().all(|(id, v)| *v == if *id == 50 { 5 } else { 0 }));
    assert_eq!(fixture.tenant.check().defects, Vec::<String>::new());

    let mut writer = fixture.begin(1, Isolation::Serializable);
    let some = |view: &mut View<'_>| {
        let table = view.table(t)?;
        view.get(&table, &primary_key(&table, &[int(7)]))?.expect("it is there");
        set_all(view, t, 1..20, 1)
    };
    fixture.run(&mut writer, some).unwrap();
    pour(&mut fixture, &mut writer);
    fixture.run(&mut writer, |view| all_rows_below(view, t, 20)).unwrap();
    fixture.auto(|view| set_all(view, t, 50..51, 6)).unwrap();
    fixture.commit(writer).unwrap();
    let of = |id: i32| (id, if id == 50 { 6 } else { i32::from((1..20).contains(&id)) });
    assert_eq!(pairs(&fixture.rows(t)), (0..100).map(of).collect::<Vec<_>>());
}

/// Reads the rows with ids below `end`.
fn all_rows_below(view: &mut View<'_>, t: Oid, end: i32) -> Result<(), Interrupt> {
    use std::ops::Bound::{Excluded, Unbounded};
    let table = view.table(t)?;
    let end = int(end);
    let range = crate::row::keys::ColumnRange { equal: &[], from: Unbounded, to: Excluded(&end) };
    let range = range.key_range(&table.indexes[0].columns);
    assert_eq!(scan_rows(view, t, None, range, Direction::Forward)?.len(), 20);
    Ok(())
}

#[test]
fn pages_in_which_a_pour_notes_keys_are_brought_in_before() {
    let mut fixture = Fixture::on_disk(6);
    let env = fixture.world.as_ref().expect("on disk").env();
    let t = indexed(&mut fixture, 3000);
    let mut txn = fixture.begin(1, Isolation::RepeatableRead);
    for id in [1, 2, 3] {
        let before = fixture.tenant.page_tally().reads;
        fixture.run_reading(&mut txn, |view| set_all(view, t, id..id + 1, 7)).unwrap();
        let changed = fixture.tenant.page_tally().reads;
        pour(&mut fixture, &mut txn);
        assert_eq!(fixture.tenant.page_tally().reads, changed, "row {id}");
        assert_eq!(changed > before, id > 1, "nothing was in memory but at first");
        fixture.tenant.release_pages(&txn);
        let mut checkpoint = fixture.tenant.begin_checkpoint().unwrap();
        env::block_on(&env, checkpoint.run()).unwrap();
        assert!(fixture.tenant.finish_checkpoint(checkpoint));
        fixture.tenant.evict_all();
    }
    // Between statements what it brought in may have gone by the time it pours.
    fixture.run_reading(&mut txn, |view| set_all(view, t, 2..3, 8)).unwrap();
    fixture.tenant.release_pages(&txn);
    fixture.tenant.evict_all();
    loop {
        let requests = fixture.tenant.pour_requests(&mut txn, &|| {}).unwrap();
        if requests.is_empty() {
            break;
        }
        requests.into_iter().for_each(|request| fixture.read(request));
    }
    let before = fixture.tenant.page_tally().reads;
    pour(&mut fixture, &mut txn);
    assert_eq!(fixture.tenant.page_tally().reads, before);
    fixture.commit(txn).unwrap();
    let changed = pairs(&fixture.rows(t)).into_iter().filter(|(_, v)| *v > 0);
    assert_eq!(changed.collect::<Vec<_>>(), [(1, 7), (2, 8), (3, 7)]);
}
