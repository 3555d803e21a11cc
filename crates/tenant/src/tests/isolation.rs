//! What each isolation level sees, and what it refuses.

use std::cell::Cell;

use super::*;
use crate::catalog::IndexColumn;
use crate::ddl::{Behavior, NewIndex};

fn one_row() -> (Fixture, Oid) {
    let mut fixture = Fixture::new();
    let t = fixture.create("t", &[("id", PgType::Int4), ("v", PgType::Int4)], 1);
    fixture.insert(t, vec![int(1), int(0)]).unwrap();
    (fixture, t)
}

fn value(view: &mut View<'_>, t: Oid, id: i32) -> Result<Datum, Interrupt> {
    let table = view.table(t)?;
    let key = primary_key(&table, &[int(id)]);
    Ok(match view.get(&table, &key)? {
        Some(row) => row.column(1)?,
        None => Datum::Null,
    })
}

#[test]
fn read_committed_sees_each_commit_and_a_snapshot_does_not() {
    let (mut fixture, t) = one_row();
    let mut committed = fixture.begin(1, Isolation::ReadCommitted);
    let mut repeatable = fixture.begin(2, Isolation::RepeatableRead);
    for txn in [&mut committed, &mut repeatable] {
        assert_eq!(fixture.run(txn, |view| value(view, t, 1)).unwrap(), int(0));
    }
    fixture.auto(|view| update(view, t, &[int(1)], vec![int(1), int(5)])).unwrap();
    assert_eq!(fixture.run(&mut committed, |view| value(view, t, 1)).unwrap(), int(5));
    assert_eq!(fixture.run(&mut repeatable, |view| value(view, t, 1)).unwrap(), int(0));
    let late = fixture.run(&mut repeatable, |view| update(view, t, &[int(1)], vec![int(1), int(6)]));
    assert_eq!(error_of(late).message(), "could not serialize access due to concurrent update");
    fixture.tenant.abort(repeatable);
    fixture.tenant.abort(committed);
}

#[test]
fn a_waiting_update_sees_the_row_as_the_other_left_it() {
    let (mut fixture, t) = one_row();
    let add = |view: &mut View<'_>| {
        let Datum::Int4(v) = value(view, t, 1)? else { panic!("the row is there") };
        update(view, t, &[int(1)], vec![int(1), int(v + 1)])
    };
    let mut first = fixture.begin(1, Isolation::ReadCommitted);
    let mut second = fixture.begin(2, Isolation::ReadCommitted);
    fixture.run(&mut first, add).unwrap();
    let wait = wait_of(fixture.run(&mut second, add));
    assert!(!wait.is_over());
    fixture.commit(first).unwrap();
    assert!(wait.is_over());
    fixture.run(&mut second, add).unwrap();
    fixture.commit(second).unwrap();
    assert_eq!(fixture.rows(t), vec![vec![int(1), int(2)]]);
}

#[test]
fn serializable_refuses_write_skew_and_phantoms() {
    let (mut fixture, t) = one_row();
    fixture.insert(t, vec![int(2), int(0)]).unwrap();
    let mut first = fixture.begin(1, Isolation::Serializable);
    let mut second = fixture.begin(2, Isolation::Serializable);
    fixture.run(&mut first, |view| value(view, t, 2)).unwrap();
    fixture.run(&mut second, |view| all_rows(view, t)).unwrap();
    fixture.run(&mut first, |view| update(view, t, &[int(1)], vec![int(1), int(1)])).unwrap();
    fixture
        .run(&mut second, |view| {
            let table = view.table(t)?;
            view.insert(&table, &[int(3), int(2)])
        })
        .unwrap();
    fixture.commit(first).unwrap();
    assert_eq!(fixture.commit(second).unwrap_err().state().as_str(), "40001");

    let mut reader = fixture.begin(1, Isolation::Serializable);
    fixture.run(&mut reader, |view| all_rows(view, t)).unwrap();
    fixture.insert(t, vec![int(9), int(9)]).unwrap();
    fixture.commit(reader).unwrap();
}

#[test]
fn an_analytic_read_of_a_table_that_was_dropped_since_is_one_of_its_rows() {
    let (mut fixture, t) = one_row();
    let gone = fixture.create("gone", &[("id", PgType::Int4)], 1);
    fixture.insert(gone, vec![int(1)]).unwrap();
    let mut txn = fixture.begin(1, Isolation::Serializable);
    fixture.run(&mut txn, |view| value(view, t, 1)).unwrap();
    fixture.ddl(|ddl| ddl.drop_relations(&[gone], Behavior::Restrict).map(drop)).unwrap();
    fixture.tenant.note_tables_read(&mut txn, [gone]);
    fixture.run(&mut txn, |view| update(view, t, &[int(1)], vec![int(1), int(1)])).unwrap();
    assert_eq!(fixture.commit(txn).unwrap_err().state().as_str(), "40001");
}

#[test]
fn replies_wait_for_exactly_the_commits_they_could_have_read() {
    let (mut fixture, t) = one_row();
    fixture.insert(t, vec![int(2), int(0)]).unwrap();
    fixture.tenant.durable(Lsn(fixture.log.records.len() as u64));
    let before = Lsn(fixture.log.records.len() as u64);
    fixture.auto(|view| update(view, t, &[int(1)], vec![int(1), int(5)])).unwrap();
    let observed = |fixture: &mut Fixture, id: i32| {
        let mut txn = fixture.begin(5, Isolation::ReadCommitted);
        fixture.run(&mut txn, |view| value(view, t, id)).unwrap();
        let observed = txn.observed();
        fixture.tenant.abort(txn);
        observed
    };
    assert_eq!(observed(&mut fixture, 2), Lsn(0));
    assert_eq!(observed(&mut fixture, 1), Lsn(before.0 + 1));
    fixture.tenant.durable(Lsn(before.0 + 1));
    assert_eq!(observed(&mut fixture, 1), Lsn(0));
}

#[test]
fn an_analytic_view_is_frozen_and_has_the_transactions_own_changes() {
    let (mut fixture, t) = one_row();
    for id in 2..500 {
        fixture.insert(t, vec![int(id), int(id)]).unwrap();
    }
    let mut txn = fixture.begin(1, Isolation::ReadCommitted);
    fixture
        .run(&mut txn, |view| {
            let table = view.table(t)?;
            view.insert(&table, &[int(-5), int(1)])?;
            view.insert(&table, &[int(1000), int(1)])?;
            delete(view, t, &[int(100)])
        })
        .unwrap();
    let own = fixture.run(&mut txn, |view| all_rows(view, t)).unwrap();
    let frozen = fixture.tenant.snapshot_view(&mut txn).unwrap();
    fixture.auto(|view| delete(view, t, &[int(200)])).unwrap();
    let table = fixture.table(t);
    let rows = std::thread::spawn(move || {
        let mut rows = Vec::new();
        let mut scan = frozen.scan(&table, KeyRange::all());
        while scan
            .next_leaf(&mut |row| {
                rows.push(row.to_row()?);
                Ok(())
            })
            .unwrap()
        {}
        rows
    })
    .join()
    .unwrap();
    assert_eq!(rows, own);
    fixture.commit(txn).unwrap();
}

#[test]
fn who_counts_the_entries_of_an_index_looks_up_before_each_leaf_and_may_end_there() {
    let (mut fixture, t) = one_row();
    let fill = |view: &mut View<'_>| -> Result<(), Interrupt> {
        let table = view.table(t)?;
        for id in 2..=3000 {
            view.insert(&table, &[int(id), int(id % 2)])?;
        }
        Ok(())
    };
    fixture.auto(fill).unwrap();
    let columns = vec![IndexColumn::ascending(1)];
    let index =
        NewIndex { name: None, columns, unique: false, nulls_not_distinct: false, ..NewIndex::default() };
    fixture.ddl(|ddl| ddl.create_index(t, index)).unwrap();
    let table = fixture.table(t);
    let mut txn = fixture.begin(1, Isolation::ReadCommitted);
    let view = fixture.tenant.snapshot_view(&mut txn).unwrap();
    let looks = Cell::new(0);
    let entries = |looks_max: u32| {
        looks.set(0);
        view.entries_within(&table.indexes[1], &KeyRange::all(), 10_000, &|| {
            looks.set(looks.get() + 1);
            if looks.get() > looks_max { Err(SqlError::internal("nobody wants to know")) } else { Ok(()) }
        })
    };
    assert_eq!(entries(u32::MAX).unwrap(), 3000);
    assert!(looks.get() > 2, "{} looks", looks.get());
    assert_eq!(entries(1).unwrap_err().message(), "nobody wants to know");
    assert_eq!(looks.get(), 2);
    fixture.tenant.abort(txn);
}

#[test]
fn a_long_change_stands_in_the_way_of_a_snapshots_writes_where_it_changed_something() {
    let (mut fixture, t) = one_row();
    for id in 2..10 {
        fixture.insert(t, vec![int(id), int(0)]).unwrap();
    }
    let mut older = fixture.begin(1, Isolation::RepeatableRead);
    fixture.run(&mut older, |view| value(view, t, 1)).unwrap();
    let mut long = fixture.begin(2, Isolation::ReadCommitted);
    fixture.tenant.begin_branch(&mut long).unwrap();
    fixture
        .run(&mut long, |view| {
            update(view, t, &[int(2)], vec![int(2), int(5)])?;
            // As it is already.
            update(view, t, &[int(4)], vec![int(4), int(0)])?;
            delete(view, t, &[int(3)])
        })
        .unwrap();
    fixture.tenant.pour(&mut long, &mut fixture.log).unwrap();
    fixture.commit(long).unwrap();

    for id in [1, 4] {
        fixture.run(&mut older, |view| update(view, t, &[int(id)], vec![int(id), int(9)])).unwrap();
    }
    let again = |view: &mut View<'_>| {
        delete(view, t, &[int(5)])?;
        let table = view.table(t)?;
        view.insert(&table, &[int(5), int(9)])
    };
    fixture.run(&mut older, again).unwrap();
    for id in [2, 3] {
        let late = fixture.run(&mut older, |view| update(view, t, &[int(id)], vec![int(id), int(9)]));
        assert_eq!(error_of(late).state().as_str(), "40001");
    }
    let unseen = fixture.run(&mut older, |view| {
        let table = view.table(t)?;
        view.insert(&table, &[int(3), int(9)])
    });
    assert_eq!(error_of(unseen).state().as_str(), "40001", "its snapshot has that row");
    fixture.commit(older).unwrap();
    let values: Vec<Row> = fixture.rows(t);
    let expected = [(1, 9), (2, 5), (4, 9), (5, 9), (6, 0), (7, 0), (8, 0), (9, 0)];
    assert_eq!(values, expected.map(|(id, v)| vec![int(id), int(v)]));
}

#[test]
fn the_newest_rows_are_not_read_by_the_definition_of_a_snapshot() {
    let (mut fixture, t) = one_row();
    let count = |view: &mut View<'_>| -> Result<i32, Interrupt> {
        let table = view.table(t)?;
        let mut scan = view.scan_newest(&table, Access::Table, KeyRange::all(), Direction::Forward)?;
        let mut rows = 0;
        while let Some(row) = view.next(&mut scan)? {
            row.to_row()?;
            rows += 1;
        }
        Ok(rows)
    };
    let mut older = fixture.begin(1, Isolation::RepeatableRead);
    assert_eq!(fixture.run(&mut older, count).unwrap(), 1);
    fixture.insert(t, vec![int(2), int(0)]).unwrap();
    assert_eq!(fixture.run(&mut older, count).unwrap(), 2);
    let column = Column::new("w", PgType::Int4, TypeMod::NONE);
    fixture.ddl(|ddl| ddl.add_column(t, column).map(drop)).unwrap();
    fixture.insert(t, vec![int(3), int(0), int(7)]).unwrap();
    assert_eq!(error_of(fixture.run(&mut older, count)).state().as_str(), "40001");
    fixture.tenant.abort(older);
    let mut newer = fixture.begin(1, Isolation::RepeatableRead);
    assert_eq!(fixture.run(&mut newer, count).unwrap(), 3);
    fixture.tenant.abort(newer);
}

#[test]
fn both_paths_read_an_imported_snapshot_which_is_let_go_with_its_last_reader() {
    let (mut fixture, t) = one_row();
    let mut exporter = fixture.begin(1, Isolation::ReadCommitted);
    let id = fixture.run(&mut exporter, |view| Ok(view.export_snapshot()?)).unwrap();
    let again = fixture.run(&mut exporter, |view| Ok(view.export_snapshot()?)).unwrap();
    assert_eq!(id, again, "nothing was committed between the two");
    fixture.auto(|view| update(view, t, &[int(1)], vec![int(1), int(5)])).unwrap();
    fixture.insert(t, vec![int(2), int(0)]).unwrap();

    let mut importer = fixture.begin(2, Isolation::RepeatableRead);
    fixture.tenant.import_snapshot(&mut importer, &id).unwrap();
    fixture.tenant.abort(exporter);
    assert_eq!(fixture.run(&mut importer, |view| value(view, t, 1)).unwrap(), int(0));
    let frozen = fixture.tenant.snapshot_view(&mut importer).unwrap();
    let table = fixture.table(t);
    assert_eq!(frozen.row_count(&table), 1);
    drop(frozen);
    let late = fixture.run(&mut importer, |view| update(view, t, &[int(1)], vec![int(1), int(6)]));
    assert_eq!(error_of(late).message(), "could not serialize access due to concurrent update");

    let mut second = fixture.begin(3, Isolation::RepeatableRead);
    let gone = fixture.tenant.import_snapshot(&mut second, &id).unwrap_err();
    assert_eq!(gone.state().as_str(), "22023");
    fixture.tenant.abort(second);
    fixture.tenant.abort(importer);
    assert_eq!(fixture.tenant.space_used().retained.0, 0);
}
