//! Rows in and out, statements taken back, sequences.

use super::*;
use crate::ddl::Behavior;
use crate::row::keys::ColumnRange;

#[test]
fn rows_are_read_back_in_key_order_both_ways() {
    let mut fixture = Fixture::new();
    let t = fixture.create("t", &[("id", PgType::Int4), ("name", PgType::Text)], 1);
    for id in [3, -1, 2] {
        fixture.insert(t, vec![int(id), text("x")]).unwrap();
    }
    let ids: Vec<Datum> = fixture.rows(t).into_iter().map(|mut row| row.swap_remove(0)).collect();
    assert_eq!(ids, vec![int(-1), int(2), int(3)]);
    let back = fixture.auto(|view| scan_rows(view, t, None, KeyRange::all(), Direction::Backward)).unwrap();
    assert_eq!(
        back.into_iter().map(|mut r| r.swap_remove(0)).collect::<Vec<_>>(),
        vec![int(3), int(2), int(-1)]
    );
    assert_eq!(fixture.tenant.row_count(&fixture.table(t)), 3);
}

#[test]
fn own_changes_are_merged_into_scans_in_both_directions() {
    let mut fixture = Fixture::new();
    let t = fixture.create("t", &[("id", PgType::Int4), ("v", PgType::Int4)], 1);
    for id in [1, 3, 5, 7] {
        fixture.insert(t, vec![int(id), int(0)]).unwrap();
    }
    let mut txn = fixture.begin(1, Isolation::ReadCommitted);
    fixture
        .run(&mut txn, |view| {
            let table = view.table(t)?;
            view.insert(&table, &[int(4), int(1)])?;
            view.insert(&table, &[int(8), int(1)])?;
            update(view, t, &[int(5)], vec![int(5), int(1)])?;
            delete(view, t, &[int(1)])?;
            delete(view, t, &[int(7)])
        })
        .unwrap();
    let expected =
        vec![vec![int(3), int(0)], vec![int(4), int(1)], vec![int(5), int(1)], vec![int(8), int(1)]];
    let forward = fixture.run(&mut txn, |view| all_rows(view, t)).unwrap();
    assert_eq!(forward, expected);
    let backward =
        fixture.run(&mut txn, |view| scan_rows(view, t, None, KeyRange::all(), Direction::Backward)).unwrap();
    assert_eq!(backward, expected.iter().rev().cloned().collect::<Vec<_>>());
    assert_eq!(fixture.rows(t).len(), 4, "nobody else sees them");
    fixture.commit(txn).unwrap();
    assert_eq!(fixture.rows(t), expected);
}

#[test]
fn a_failed_statement_leaves_no_trace_and_savepoints_go_back() {
    let mut fixture = Fixture::new();
    let t = fixture.create("t", &[("id", PgType::Int4)], 1);
    let mut txn = fixture.begin(1, Isolation::ReadCommitted);
    let insert = |id: i32| {
        move |view: &mut View<'_>| {
            let table = view.table(t)?;
            view.insert(&table, &[int(id)]).map(drop)
        }
    };
    fixture.run(&mut txn, insert(1)).unwrap();
    let savepoint = txn.savepoint();
    fixture.run(&mut txn, insert(2)).unwrap();
    let failed = fixture.run(&mut txn, |view| {
        insert(3)(view)?;
        insert(1)(view)
    });
    assert_eq!(error_of(failed).state().as_str(), "23505");
    assert_eq!(fixture.run(&mut txn, |view| all_rows(view, t)).unwrap().len(), 2);
    fixture.tenant.rollback_to(&mut txn, &savepoint);
    fixture.run(&mut txn, insert(4)).unwrap();
    fixture.commit(txn).unwrap();
    assert_eq!(fixture.rows(t), vec![vec![int(1)], vec![int(4)]]);
}

#[test]
fn tables_without_primary_key_keep_equal_rows_apart() {
    let mut fixture = Fixture::new();
    let t = fixture.create("t", &[("v", PgType::Int4)], 0);
    for _ in 0..3 {
        fixture.insert(t, vec![int(7)]).unwrap();
    }
    assert_eq!(fixture.rows(t).len(), 3);
    fixture
        .auto(|view| {
            let table = view.table(t)?;
            let mut scan = view.scan(&table, Access::Table, KeyRange::all(), Direction::Forward);
            let key = view.next(&mut scan)?.expect("three rows").key().to_vec();
            view.delete(&table, &key)
        })
        .unwrap();
    assert_eq!(fixture.rows(t).len(), 2);
}

#[test]
fn conditions_on_columns_select_their_range_of_an_index() {
    use std::ops::Bound::{Excluded, Included, Unbounded};
    let mut fixture = Fixture::new();
    let t = fixture.create("t", &[("id", PgType::Int4), ("a", PgType::Int4), ("b", PgType::Int4)], 1);
    let columns = vec![
        crate::catalog::IndexColumn::ascending(1),
        crate::catalog::IndexColumn { column: 2, function: None, descending: true, nulls_first: true },
    ];
    let new = crate::ddl::NewIndex {
        name: None,
        columns: columns.clone(),
        unique: false,
        nulls_not_distinct: false,
        ..crate::ddl::NewIndex::default()
    };
    let index = fixture.ddl(|ddl| ddl.create_index(t, new)).unwrap();
    for (id, a, b) in [(1, 1, Some(10)), (2, 1, Some(20)), (3, 1, None), (4, 2, Some(5)), (5, 1, Some(30))] {
        fixture.insert(t, vec![int(id), int(a), b.map_or(Datum::Null, int)]).unwrap();
    }
    let (one, twenty, thirty) = (int(1), int(20), int(30));
    let mut ids = |equal: &[Datum], from, to| -> Vec<i32> {
        let range = ColumnRange { equal, from, to }.key_range(&columns);
        let rows = fixture.auto(|view| scan_rows(view, t, Some(index), range, Direction::Forward)).unwrap();
        rows.into_iter().map(|row| if let Datum::Int4(id) = row[0] { id } else { 0 }).collect()
    };
    assert_eq!(ids(&[int(1)], Unbounded, Unbounded), [3, 5, 2, 1]);
    assert_eq!(ids(&[int(1)], Included(&twenty), Unbounded), [5, 2]);
    assert_eq!(ids(&[int(1)], Excluded(&twenty), Unbounded), [5]);
    assert_eq!(ids(&[int(1)], Unbounded, Excluded(&thirty)), [2, 1]);
    assert_eq!(ids(&[int(1), Datum::Null], Unbounded, Unbounded), [3]);
    assert_eq!(ids(&[], Excluded(&one), Unbounded), [4]);
}

#[test]
fn sequences_skip_at_most_what_was_logged_ahead_and_never_repeat() {
    let mut fixture = Fixture::new();
    let s = fixture.sequence(100);
    let before = fixture.log.records.len();
    let mut txn = fixture.begin(1, Isolation::ReadCommitted);
    for expected in 1..=10 {
        assert_eq!(fixture.run(&mut txn, |view| view.nextval(s)).unwrap(), expected);
    }
    fixture.tenant.abort(txn);
    assert_eq!(fixture.log.records.len(), before + 1, "ten values, one record");
    let mut copy = fixture.replayed();
    let next = copy.auto(|view| view.nextval(s)).unwrap();
    assert!(next > 10 && next <= 10 + 33, "{next}");
    fixture.auto(|view| view.setval(s, 99, true)).unwrap();
    assert_eq!(fixture.auto(|view| view.nextval(s)).unwrap(), 100);
    let error = fixture.auto(|view| view.nextval(s)).unwrap_err();
    assert_eq!(error.message(), "nextval: reached maximum value of sequence \"s\" (100)");
}

#[test]
fn sequences_whose_step_changes_do_not_repeat() {
    let mut fixture = Fixture::new();
    let s = fixture.sequence(10_000);
    assert_eq!(fixture.auto(|view| view.nextval(s)).unwrap(), 1);
    fixture
        .ddl(|ddl| {
            let mut sequence = (**ddl.catalog().sequence(s).expect("it was just made")).clone();
            sequence.increment = 10;
            ddl.alter_sequence(sequence);
            Ok(())
        })
        .unwrap();
    let given = (0..30).map(|_| fixture.auto(|view| view.nextval(s)).unwrap()).max();
    let next = fixture.replayed().auto(|view| view.nextval(s)).unwrap();
    assert!(Some(next) > given, "{next} behind {given:?}");
}

#[test]
fn a_sequence_is_within_its_new_bounds_after_a_replay() {
    let mut fixture = Fixture::new();
    let s = fixture.sequence(1000);
    for _ in 0..5 {
        fixture.auto(|view| view.nextval(s)).unwrap();
    }
    fixture
        .ddl(|ddl| {
            let sequence = (**ddl.catalog().sequence(s).expect("it was just made")).clone();
            ddl.alter_sequence(Sequence { max: 10, ..sequence });
            Ok(())
        })
        .unwrap();
    assert_eq!(fixture.replayed().auto(|view| view.nextval(s)).unwrap(), 6);
    assert_eq!(fixture.auto(|view| view.nextval(s)).unwrap(), 6);
}

#[test]
fn sequences_stand_still_in_a_read_only_transaction() {
    let mut fixture = Fixture::new();
    let s = fixture.sequence(100);
    let mut txn = fixture.tenant.begin(SessionId(1), Isolation::ReadCommitted, true, false);
    let error = error_of(fixture.run(&mut txn, |view| view.nextval(s)));
    assert_eq!(error.state().as_str(), "25006");
    assert_eq!(error.message(), "cannot execute nextval() in a read-only transaction");
    let error = error_of(fixture.run(&mut txn, |view| view.setval(s, 7, true)));
    assert_eq!(error.message(), "cannot execute setval() in a read-only transaction");
    assert!(!fixture.run(&mut txn, |view| view.sequence_value(s)).unwrap().is_called);
    fixture.commit(txn).unwrap();
}

#[test]
fn long_rows_and_snapshots_go_through_overflow_pages() {
    let mut fixture = Fixture::new();
    let t = fixture.create("t", &[("id", PgType::Int4), ("v", PgType::Text)], 1);
    let long = "abc".repeat(20_000);
    fixture.insert(t, vec![int(1), text(&long)]).unwrap();
    let mut txn = fixture.begin(1, Isolation::RepeatableRead);
    assert_eq!(fixture.run(&mut txn, |view| all_rows(view, t)).unwrap()[0][1], text(&long));
    fixture.auto(|view| update(view, t, &[int(1)], vec![int(1), text("short")])).unwrap();
    assert_eq!(fixture.run(&mut txn, |view| all_rows(view, t)).unwrap()[0][1], text(&long));
    assert_eq!(fixture.rows(t)[0][1], text("short"));
}

#[test]
fn what_a_new_sequence_gave_out_is_given_out_once_whatever_is_rolled_back() {
    let mut fixture = Fixture::new();
    let mut txn = fixture.begin(1, Isolation::ReadCommitted);
    let made = fixture.run(&mut txn, |view| Ok(view.ddl()?.create_sequence(sequence_to(1000))?));
    let s = made.unwrap();
    let next = |fixture: &mut Fixture, txn: &mut Txn| fixture.run(txn, |view| view.nextval(s)).unwrap();
    assert_eq!(next(&mut fixture, &mut txn), 1);
    let savepoint = txn.savepoint();
    assert_eq!(next(&mut fixture, &mut txn), 2);
    error_of(fixture.run(&mut txn, |view| {
        assert_eq!(view.nextval(s)?, 3);
        Err::<(), _>(SqlError::internal("it fails").into())
    }));
    fixture.tenant.rollback_to(&mut txn, &savepoint);
    assert_eq!(next(&mut fixture, &mut txn), 4);
    // What is rolled back of a sequence itself takes its values along.
    let restart = |view: &mut View<'_>| {
        view.ddl()?.restart_sequence(s, 50);
        Ok(())
    };
    fixture.run(&mut txn, restart).unwrap();
    assert_eq!(next(&mut fixture, &mut txn), 50);
    fixture.tenant.rollback_to(&mut txn, &savepoint);
    assert_eq!(next(&mut fixture, &mut txn), 5);
    let drop = |view: &mut View<'_>| view.ddl()?.drop_relations(&[s], Behavior::Restrict);
    fixture.run(&mut txn, drop).unwrap();
    fixture.tenant.rollback_to(&mut txn, &savepoint);
    // A run that was taken back has told nobody.
    let mut runs = 0;
    let mut twice = |view: &mut View<'_>| {
        runs += 1;
        let next = view.nextval(s)?;
        if runs == 1 { Err(Interrupt::Asked) } else { Ok(next) }
    };
    assert!(fixture.run(&mut txn, &mut twice).is_err());
    assert_eq!(fixture.run(&mut txn, &mut twice).unwrap(), 6);
    fixture.commit(txn).unwrap();
    assert_eq!(fixture.auto(|view| view.nextval(s)).unwrap(), 7);
}

#[test]
fn a_restart_that_is_rolled_back_leaves_the_sequence_where_it_was() {
    let mut fixture = Fixture::new();
    let s = fixture.sequence(1000);
    assert_eq!(fixture.auto(|view| view.nextval(s)).unwrap(), 1);
    let mut txn = fixture.begin(1, Isolation::ReadCommitted);
    let savepoint = txn.savepoint();
    let restarted = fixture.run(&mut txn, |view| {
        view.ddl()?.restart_sequence(s, 50);
        view.nextval(s)
    });
    assert_eq!(restarted.unwrap(), 50);
    fixture.tenant.rollback_to(&mut txn, &savepoint);
    assert_eq!(fixture.run(&mut txn, |view| view.nextval(s)).unwrap(), 2);
    fixture.commit(txn).unwrap();
    assert_eq!(fixture.auto(|view| view.nextval(s)).unwrap(), 3);
}

#[test]
fn a_snapshot_has_no_values_of_a_sequence_that_is_gone_or_another_one_now() {
    let mut fixture = Fixture::new();
    let t = fixture.create("t", &[("id", PgType::Int4)], 1);
    let s = fixture.sequence(100);
    let mut older = fixture.begin(1, Isolation::RepeatableRead);
    fixture.run(&mut older, |view| all_rows(view, t)).unwrap();
    assert_eq!(fixture.run(&mut older, |view| view.nextval(s)).unwrap(), 1);
    fixture
        .ddl(|ddl| {
            let sequence = (**ddl.catalog().sequence(s).expect("it was just made")).clone();
            ddl.alter_sequence(Sequence { increment: 10, ..sequence });
            Ok(())
        })
        .unwrap();
    assert_eq!(fixture.run(&mut older, |view| view.nextval(s)).unwrap(), 11);
    fixture.ddl(|ddl| ddl.drop_relations(&[s], crate::ddl::Behavior::Restrict).map(drop)).unwrap();
    let commits = fixture.log.records.len();
    let gone = |result: Result<i64, Interrupt>| assert_eq!(error_of(result).state().as_str(), "42P01");
    gone(fixture.run(&mut older, |view| view.nextval(s)));
    gone(fixture.run(&mut older, |view| view.setval(s, 5, true).map(|()| 5)));
    assert_eq!(fixture.log.records.len(), commits, "nothing is written of it");
    fixture.tenant.abort(older);
}

#[test]
fn what_a_run_that_was_taken_back_did_with_a_sequence_is_the_next_runs() {
    let mut fixture = Fixture::new();
    let (s, other) = (fixture.sequence(1000), 900);
    let mut txn = fixture.begin(1, Isolation::ReadCommitted);
    let mut runs = 0;
    let mut statement = |view: &mut View<'_>| {
        runs += 1;
        let mut drawn = vec![view.nextval(s)?, view.nextval(s)?];
        if runs == 2 {
            return Err(Interrupt::Asked);
        }
        view.setval(s, 50, true)?;
        drawn.push(view.nextval(s)?);
        if runs < 4 { Err(Interrupt::Asked) } else { Ok(drawn) }
    };
    for behind in [52, 53, 54] {
        assert!(matches!(fixture.run(&mut txn, &mut statement), Err(Interrupt::Asked)));
        assert_eq!(fixture.auto(|view| view.nextval(s)).unwrap(), behind, "others go on behind it");
    }
    assert_eq!(fixture.run(&mut txn, &mut statement).unwrap(), [1, 2, 51]);
    // Another statement draws and sets anew, and so does a run that goes another way.
    let mut runs = 0;
    let mut changed = |view: &mut View<'_>| {
        runs += 1;
        let drawn = view.nextval(s)?;
        view.setval(s, other + runs, true)?;
        let drawn = [drawn, view.nextval(s)?];
        if runs == 1 { Err(Interrupt::Asked) } else { Ok(drawn) }
    };
    assert!(fixture.run(&mut txn, &mut changed).is_err());
    assert_eq!(fixture.run(&mut txn, &mut changed).unwrap(), [55, 903]);
    // What failed has told nobody, and keeps what it drew.
    error_of(fixture.run(&mut txn, |view| {
        assert_eq!(view.nextval(s)?, 904);
        Err::<(), _>(SqlError::internal("it fails").into())
    }));
    assert_eq!(fixture.run(&mut txn, |view| view.nextval(s)).unwrap(), 905);
    fixture.commit(txn).unwrap();
}
