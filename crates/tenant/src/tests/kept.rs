//! Statements that look at whole tables, in many turns: what they leave behind each time, and what comes out.

use base::SqlState;
use types::FormatContext;

use super::*;
use crate::catalog::IndexColumn;
use crate::ddl::{Behavior, NewIndex};
use crate::interrupt::Step;
use crate::locks::{TableLock, WaitPolicy};

fn many(fixture: &mut Fixture, rows: i32) -> Oid {
    let t = fixture.create("t", &[("id", PgType::Int4), ("v", PgType::Int4), ("s", PgType::Text)], 1);
    let filler = "x".repeat(120);
    for from in (0..rows).step_by(500) {
        let batch = |view: &mut View<'_>| {
            let table = view.table(t)?;
            for id in from..(from + 500).min(rows) {
                // Every value once, in no order.
                let v = (i64::from(id) * 7919 % i64::from(rows)) as i32;
                view.insert(&table, &[int(id), int(v), text(&filler)])?;
            }
            Ok(())
        };
        fixture.auto(batch).unwrap();
    }
    t
}

fn index_on(column: usize, unique: bool) -> NewIndex {
    let columns = vec![IndexColumn::ascending(column)];
    NewIndex { name: None, columns, unique, nulls_not_distinct: false, ..NewIndex::default() }
}

/// Runs a statement as a session does: again after each turn and each miss, `between` in between. How often it ran.
fn in_turns<T>(
    fixture: &mut Fixture,
    txn: &mut Txn,
    mut statement: impl FnMut(&mut View<'_>) -> Step<T>,
    between: &mut dyn FnMut(&mut Fixture),
) -> (Result<T, Interrupt>, u32) {
    let format = FormatContext::default();
    for runs in 1.. {
        assert!(runs < 100_000, "it gets nowhere");
        fixture.catch_up(txn);
        let mark = txn.mark();
        let result = {
            let mut view = fixture.tenant.view(txn, &mut fixture.log).in_session(&format, &|_| false);
            statement(&mut view).and_then(|value| view.finish_statement().map(|()| value))
        };
        fixture.end_run(txn, &mark, &result);
        match result {
            Err(Interrupt::Miss(page)) => fixture.read_page(txn, page),
            Err(Interrupt::Asked) => {}
            result => return (result, runs),
        }
        between(fixture);
    }
    unreachable!("it ends or gets nowhere")
}

/// All values of the indexed column in the index's order.
fn by_index(fixture: &mut Fixture, t: Oid, at: usize) -> Vec<Row> {
    let mut txn = fixture.begin(77, Isolation::ReadCommitted);
    let found = fixture.run_reading(&mut txn, |view| {
        let table = view.table(t)?;
        let mut scan =
            view.scan(&table, Access::Index(&table.indexes[at]), KeyRange::all(), Direction::Forward);
        let mut rows = Vec::new();
        while let Some(row) = view.next(&mut scan)? {
            rows.push(row.to_row()?);
        }
        Ok(rows)
    });
    fixture.commit(txn).unwrap();
    found.unwrap()
}

fn ascending(rows: &[Row], column: usize) -> bool {
    let value = |row: &Row| if let Datum::Int4(n) = row[column] { n } else { panic!("an integer") };
    rows.windows(2).all(|pair| value(&pair[0]) < value(&pair[1]))
}

#[test]
fn an_index_is_built_in_turns_while_others_read_evict_and_write_elsewhere() {
    let mut fixture = Fixture::on_disk(1);
    let t = many(&mut fixture, 6000);
    let other = fixture.create("other", &[("id", PgType::Int4)], 1);
    fixture.tenant.evict_all();
    let mut txn = fixture.begin(1, Isolation::ReadCommitted);
    let mut turns = 0;
    let (made, runs) = in_turns(
        &mut fixture,
        &mut txn,
        |view| view.ddl()?.create_index(t, index_on(1, true)),
        &mut |fixture| {
            turns += 1;
            if turns % 7 == 0 {
                fixture.tenant.evict_all();
            }
            if turns % 3 == 0 {
                let mut txn = fixture.begin(2, Isolation::ReadCommitted);
                let inserted = fixture.run_reading(&mut txn, |view| {
                    let table = view.table(other)?;
                    view.insert(&table, &[int(turns)]).map(drop)
                });
                inserted.unwrap();
                fixture.commit(txn).unwrap();
            }
            if turns % 20 == 0 {
                let env = fixture.world.as_ref().expect("it has a file").env();
                let mut checkpoint = fixture.tenant.begin_checkpoint().unwrap();
                env::block_on(&env, checkpoint.run()).unwrap();
                assert!(fixture.tenant.finish_checkpoint(checkpoint));
            }
            if turns % 50 == 0 {
                assert_eq!(by_index(fixture, t, 0).len(), 6000, "readers do not wait");
            }
        },
    );
    made.unwrap();
    assert!(runs > 6000 / crate::kept::TURN_STEPS, "{runs} turns");
    fixture.commit(txn).unwrap();
    let rows = by_index(&mut fixture, t, 1);
    assert!(rows.len() == 6000 && ascending(&rows, 1));
    // From the log the same.
    fixture.reopen();
    let rows = by_index(&mut fixture, t, 1);
    assert!(rows.len() == 6000 && ascending(&rows, 1));
    assert_eq!(fixture.rows(other).len(), turns as usize / 3);
}

#[test]
fn a_table_gets_another_key_and_its_indexes_in_turns() {
    let mut fixture = Fixture::on_disk(2);
    let t = many(&mut fixture, 3000);
    fixture.ddl(|ddl| ddl.create_index(t, index_on(0, false))).unwrap();
    let mut txn = fixture.begin(1, Isolation::ReadCommitted);
    let key = fixture.table(t).indexes[0].name.to_string();
    let (dropped, _) = in_turns(
        &mut fixture,
        &mut txn,
        |view| view.ddl()?.drop_constraint(t, &key, Behavior::Restrict),
        &mut |fixture| _ = fixture.tenant.evict_all(),
    );
    dropped.unwrap();
    fixture.commit(txn).unwrap();
    assert_eq!(fixture.rows(t).len(), 3000);
    let mut txn = fixture.begin(1, Isolation::ReadCommitted);
    let primary = NewUnique { name: None, columns: vec![1], nulls_not_distinct: false };
    let (added, runs) = in_turns(
        &mut fixture,
        &mut txn,
        |view| view.ddl()?.add_primary_key(t, primary.clone()),
        &mut |fixture| _ = fixture.tenant.evict_all(),
    );
    added.unwrap();
    assert!(runs > 2 * 3000 / crate::kept::TURN_STEPS, "{runs} turns");
    fixture.commit(txn).unwrap();
    assert!(ascending(&fixture.rows(t), 1), "clustered on the other column");
    assert!(ascending(&by_index(&mut fixture, t, 0), 0));
    fixture.reopen();
    assert!(ascending(&fixture.rows(t), 1));
}

#[test]
fn a_duplicate_is_found_wherever_it_lies_and_nothing_is_left() {
    let mut fixture = Fixture::on_disk(3);
    let t = many(&mut fixture, 4000);
    fixture.insert(t, vec![int(900_000), int(17), text("again")]).unwrap();
    let pages = fixture.tenant.memory().pages;
    let mut txn = fixture.begin(1, Isolation::ReadCommitted);
    let (made, _) =
        in_turns(&mut fixture, &mut txn, |view| view.ddl()?.create_index(t, index_on(1, true)), &mut |_| {});
    let error = made.unwrap_err().into_error().expect("not an interrupt");
    assert_eq!(error.state(), SqlState::UNIQUE_VIOLATION);
    assert!(error.to_string().contains("could not create unique index"), "{error}");
    fixture.tenant.abort(txn);
    while fixture.tenant.reclaim(1000).unwrap() {}
    assert!(fixture.tenant.memory().pages.0 <= pages.0 + (64 << 10), "its trees are gone");
    assert_eq!(fixture.table(t).indexes.len(), 1);
}

#[test]
fn a_build_that_is_given_up_beside_anothers_branch_leaves_nothing() {
    let mut fixture = Fixture::new();
    let t = many(&mut fixture, 6000);
    let other = fixture.create("other", &[("id", PgType::Int4), ("v", PgType::Int4)], 1);
    let used = fixture.tenant.space_used().data;
    let mut long = fixture.begin(1, Isolation::ReadCommitted);
    let read = |view: &mut View<'_>| view.lock_table(other, TableLock::AccessShare, WaitPolicy::Wait);
    fixture.run(&mut long, read).unwrap();
    let mut alters = fixture.begin(2, Isolation::ReadCommitted);
    let alter = |view: &mut View<'_>| {
        let mut ddl = view.ddl()?;
        ddl.create_index(t, index_on(1, true))?;
        ddl.view().lock_table(other, TableLock::AccessExclusive, WaitPolicy::Wait)
    };
    let wait = wait_of(fixture.run(&mut alters, alter));
    assert!(alters.keeps_work());
    // It gives back the right to change the catalog, and not what it has built.
    fixture.tenant.begin_branch(&mut long).unwrap();
    assert!(wait.is_over());
    fixture.tenant.cancel_wait(&mut alters);
    fixture.tenant.abort(alters);
    let insert = |view: &mut View<'_>| {
        let table = view.table(other)?;
        view.insert(&table, &[int(1), int(1)]).map(drop)
    };
    fixture.run(&mut long, insert).unwrap();
    fixture.commit(long).unwrap();
    while fixture.tenant.reclaim(64).unwrap() {}
    let report = fixture.tenant.check();
    assert_eq!((report.defects, report.orphans), (Vec::new(), 0));
    assert!(fixture.tenant.space_used().data.0 <= used.0 + (32 << 10), "the index took more");
}

#[test]
fn a_build_that_was_begun_is_not_gone_on_with_after_changes_or_a_savepoint() {
    let mut fixture = Fixture::new();
    let t = many(&mut fixture, 3000);
    let format = FormatContext::default();
    let mut txn = fixture.begin(1, Isolation::ReadCommitted);
    let first_turn = |fixture: &mut Fixture, txn: &mut Txn| {
        let mark = txn.mark();
        let mut view = fixture.tenant.view(txn, &mut fixture.log).in_session(&format, &|_| false);
        let made = view.ddl().and_then(|mut ddl| ddl.create_index(t, index_on(1, true)));
        drop(view);
        assert!(matches!(made, Err(Interrupt::Asked)), "{made:?}");
        fixture.tenant.rewind_statement(txn, &mark);
    };
    first_turn(&mut fixture, &mut txn);
    // Its statement was given up, and another one changes a row that it had seen.
    let changed = fixture.run(&mut txn, |view| {
        let table = view.table(t)?;
        view.insert(&table, &[int(-1), int(-1), text("")]).map(drop)
    });
    changed.unwrap();
    let (made, _) =
        in_turns(&mut fixture, &mut txn, |view| view.ddl()?.create_index(t, index_on(1, true)), &mut |_| {});
    made.unwrap();
    fixture.commit(txn).unwrap();
    assert_eq!(by_index(&mut fixture, t, 1).len(), 3001);
    // Going back to a savepoint gives it up.
    let mut txn = fixture.begin(1, Isolation::ReadCommitted);
    let savepoint = txn.savepoint();
    first_turn(&mut fixture, &mut txn);
    fixture.tenant.rollback_to(&mut txn, &savepoint);
    fixture.commit(txn).unwrap();
    while fixture.tenant.reclaim(1000).unwrap() {}
    assert_eq!(fixture.table(t).indexes.len(), 2);
}

#[test]
fn long_rows_get_another_key_whatever_leaves_memory_meanwhile() {
    let mut fixture = Fixture::on_disk_within(4, base::ByteCount::from_mib(64));
    let t = fixture.create("t", &[("id", PgType::Int4), ("s", PgType::Text)], 0);
    const ROWS: i32 = 300;
    let row =
        |id: i32| vec![int(id), text(&format!("{id} {}", "x".repeat(if id % 5 == 0 { 10 } else { 17_000 })))];
    for id in 0..ROWS {
        fixture.insert(t, row(id * 7 % ROWS)).unwrap();
    }
    let checkpoint = |fixture: &mut Fixture| {
        let mut checkpoint = fixture.tenant.begin_checkpoint().unwrap();
        env::block_on(&fixture.world.as_ref().expect("on disk").env(), checkpoint.run()).unwrap();
        assert!(fixture.tenant.finish_checkpoint(checkpoint));
        fixture.tenant.evict_all();
    };
    checkpoint(&mut fixture);
    let mut txn = fixture.begin(1, Isolation::ReadCommitted);
    let primary = NewUnique { name: None, columns: vec![0], nulls_not_distinct: false };
    let mut turns = 0;
    let (added, runs) = in_turns(
        &mut fixture,
        &mut txn,
        |view| view.ddl()?.add_primary_key(t, primary.clone()),
        &mut |fixture| {
            turns += 1;
            if turns % 100 == 0 {
                checkpoint(fixture);
            }
        },
    );
    added.unwrap();
    assert!(runs > 300, "{runs} turns and misses");
    fixture.commit(txn).unwrap();
    assert!(fixture.rows(t) == (0..ROWS).map(row).collect::<Vec<_>>());
    while fixture.tenant.reclaim(1000).unwrap() {}
    assert_eq!(fixture.tenant.check().defects, Vec::<String>::new());
    fixture.reopen();
    assert!(fixture.rows(t) == (0..ROWS).map(row).collect::<Vec<_>>());
}

#[test]
fn a_replay_gives_a_table_of_long_rows_another_key_within_memory() {
    let mut fixture = Fixture::on_disk_within(5, base::ByteCount::from_mib(64));
    let t = fixture.create("t", &[("id", PgType::Int4), ("s", PgType::Text)], 0);
    for id in 0..40 {
        fixture.insert(t, vec![int(id * 7 % 40), text(&"x".repeat(300_000))]).unwrap();
    }
    let mut checkpoint = fixture.tenant.begin_checkpoint().unwrap();
    env::block_on(&fixture.world.as_ref().expect("on disk").env(), checkpoint.run()).unwrap();
    assert!(fixture.tenant.finish_checkpoint(checkpoint));
    let primary = NewUnique { name: None, columns: vec![0], nulls_not_distinct: false };
    fixture.ddl(|ddl| ddl.add_primary_key(t, primary)).unwrap();
    fixture.reopen();
    let budget = fixture.tenant.pages.budget().expect("it was opened within memory");
    let (peak, limit) = (budget.peak().0, budget.limit().0);
    assert!(peak <= limit / 2 * 3, "{peak} bytes of {limit} for 12 MB that are written twice");
    assert_eq!(fixture.tenant.trees.get(fixture.table(t).tree).entries, 40);
}
