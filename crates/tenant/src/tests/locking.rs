//! Waits, deadlocks, NOWAIT and SKIP LOCKED, advisory locks.

use super::*;
use crate::RowLocked;
use crate::locks::{AdvisoryKey, LockTag, RowLock, TableLock, WaitPolicy};

fn two_rows() -> (Fixture, Oid) {
    let mut fixture = Fixture::new();
    let t = fixture.create("t", &[("id", PgType::Int4), ("v", PgType::Int4)], 1);
    fixture.insert(t, vec![int(1), int(0)]).unwrap();
    fixture.insert(t, vec![int(2), int(0)]).unwrap();
    (fixture, t)
}

fn lock(
    view: &mut View<'_>,
    t: Oid,
    id: i32,
    mode: RowLock,
    policy: WaitPolicy,
) -> Result<RowLocked, Interrupt> {
    let table = view.table(t)?;
    let key = primary_key(&table, &[int(id)]);
    view.lock_row(&table, &key, mode, policy)
}

#[test]
fn a_circle_of_waits_fails_the_one_that_closes_it() {
    let (mut fixture, t) = two_rows();
    let mut first = fixture.begin(1, Isolation::ReadCommitted);
    let mut second = fixture.begin(2, Isolation::ReadCommitted);
    fixture.run(&mut first, |view| lock(view, t, 1, RowLock::Update, WaitPolicy::Wait)).unwrap();
    fixture.run(&mut second, |view| lock(view, t, 2, RowLock::Update, WaitPolicy::Wait)).unwrap();
    let wait = wait_of(fixture.run(&mut first, |view| lock(view, t, 2, RowLock::Update, WaitPolicy::Wait)));
    assert_eq!(fixture.tenant.locks.blocking(SessionId(1)), [SessionId(2)]);
    let error =
        error_of(fixture.run(&mut second, |view| lock(view, t, 1, RowLock::Update, WaitPolicy::Wait)));
    assert_eq!(error.state().as_str(), "40P01");
    assert_eq!(error.message(), "deadlock detected");
    assert!(error.detail().unwrap().starts_with("Process 2 waits for ShareLock on transaction"));
    fixture.tenant.abort(second);
    assert!(wait.is_over());
    fixture.run(&mut first, |view| lock(view, t, 2, RowLock::Update, WaitPolicy::Wait)).unwrap();
    fixture.tenant.abort(first);
    assert!(fixture.tenant.lock_records().is_empty());
}

#[test]
fn a_key_that_is_there_is_a_violation_at_once_unless_somebody_takes_it_away() {
    let (mut fixture, t) = two_rows();
    let insert = |view: &mut View<'_>| {
        let table = view.table(t)?;
        view.insert(&table, &[int(1), int(7)]).map(drop)
    };
    let mut first = fixture.begin(1, Isolation::ReadCommitted);
    let mut second = fixture.begin(2, Isolation::ReadCommitted);
    for mode in [RowLock::KeyShare, RowLock::Share, RowLock::NoKeyUpdate, RowLock::Update] {
        fixture.run(&mut first, |view| lock(view, t, 1, mode, WaitPolicy::Wait)).unwrap();
        assert_eq!(error_of(fixture.run(&mut second, insert)).state().as_str(), "23505");
        let moved = fixture.run(&mut second, |view| update(view, t, &[int(2)], vec![int(1), int(0)]));
        assert_eq!(error_of(moved).state().as_str(), "23505");
    }
    fixture.run(&mut first, |view| delete(view, t, &[int(1)])).unwrap();
    let wait = wait_of(fixture.run(&mut second, insert));
    fixture.commit(first).unwrap();
    assert!(wait.is_over());
    fixture.run(&mut second, insert).unwrap();
    fixture.commit(second).unwrap();
    assert_eq!(fixture.rows(t), vec![vec![int(1), int(7)], vec![int(2), int(0)]]);
    assert!(fixture.tenant.lock_records().is_empty());
}

#[test]
fn nowait_fails_and_skip_locked_leaves_out() {
    let (mut fixture, t) = two_rows();
    let mut first = fixture.begin(1, Isolation::ReadCommitted);
    let mut second = fixture.begin(2, Isolation::ReadCommitted);
    fixture.run(&mut first, |view| lock(view, t, 1, RowLock::NoKeyUpdate, WaitPolicy::Wait)).unwrap();
    let taken =
        fixture.run(&mut second, |view| lock(view, t, 1, RowLock::KeyShare, WaitPolicy::NoWait)).unwrap();
    assert_eq!(taken, RowLocked::Locked, "a key share does not mind an update that leaves the key");
    let skipped =
        fixture.run(&mut second, |view| lock(view, t, 1, RowLock::Share, WaitPolicy::SkipLocked)).unwrap();
    assert_eq!(skipped, RowLocked::Skipped);
    let error =
        error_of(fixture.run(&mut second, |view| lock(view, t, 1, RowLock::Update, WaitPolicy::NoWait)));
    assert_eq!(error.message(), "could not obtain lock on row in relation \"t\"");
    assert_eq!(error.state().as_str(), "55P03");
    fixture.tenant.abort(first);
    fixture.tenant.abort(second);
}

#[test]
fn a_given_up_wait_lets_those_behind_it_through() {
    let (mut fixture, t) = two_rows();
    let mut sessions: Vec<Txn> = (1..=3).map(|s| fixture.begin(s, Isolation::ReadCommitted)).collect();
    let share = |view: &mut View<'_>| view.lock_table(t, TableLock::Share, WaitPolicy::Wait);
    fixture.run(&mut sessions[0], share).unwrap();
    let exclusive = |view: &mut View<'_>| view.lock_table(t, TableLock::AccessExclusive, WaitPolicy::Wait);
    let _given_up = wait_of(fixture.run(&mut sessions[1], exclusive));
    let behind = wait_of(fixture.run(&mut sessions[2], share));
    assert!(!behind.is_over());
    fixture.tenant.cancel_wait(&mut sessions[1]);
    assert!(behind.is_over());
    fixture.run(&mut sessions[2], share).unwrap();
    sessions.into_iter().for_each(|txn| fixture.tenant.abort(txn));
    assert!(fixture.tenant.lock_records().is_empty());
}

#[test]
fn a_single_statement_takes_its_locks_only_when_it_has_to_wait() {
    let (mut fixture, t) = two_rows();
    let mut single = fixture.tenant.begin(SessionId(1), Isolation::ReadCommitted, false, true);
    let step = |view: &mut View<'_>| {
        update(view, t, &[int(1)], vec![int(1), int(1)])?;
        update(view, t, &[int(2)], vec![int(2), int(1)])
    };
    fixture.run(&mut single, step).unwrap();
    assert!(fixture.tenant.lock_records().is_empty());
    fixture.commit(single).unwrap();

    let mut holder = fixture.begin(2, Isolation::ReadCommitted);
    fixture.run(&mut holder, |view| update(view, t, &[int(2)], vec![int(2), int(7)])).unwrap();
    let mut single = fixture.tenant.begin(SessionId(1), Isolation::ReadCommitted, false, true);
    let wait = wait_of(fixture.run(&mut single, step));
    let mut third = fixture.begin(3, Isolation::ReadCommitted);
    let blocked =
        fixture.run(&mut third, |view| lock(view, t, 1, RowLock::Update, WaitPolicy::SkipLocked)).unwrap();
    assert_eq!(blocked, RowLocked::Skipped, "the lock on the first row was kept");
    fixture.tenant.abort(third);
    fixture.commit(holder).unwrap();
    assert!(wait.is_over());
    fixture.run(&mut single, step).unwrap();
    fixture.commit(single).unwrap();
    assert_eq!(fixture.rows(t), vec![vec![int(1), int(1)], vec![int(2), int(1)]]);
    assert!(fixture.tenant.lock_records().is_empty());
}

#[test]
fn a_single_statement_puts_off_so_many_locks_and_no_more() {
    let (mut fixture, t) = two_rows();
    let mut single = fixture.tenant.begin(SessionId(1), Isolation::ReadCommitted, false, true);
    let ids = 10..12_010;
    fixture
        .run(&mut single, |view| {
            let table = view.table(t)?;
            ids.clone().try_for_each(|id| view.insert(&table, &[int(id), int(0)]).map(drop))
        })
        .unwrap();
    assert_eq!((single.deferred.len(), single.held.len()), (4096, ids.len() - 4096));
    // Those that were put off are found to be its own.
    fixture.run(&mut single, |view| update(view, t, &[int(10)], vec![int(10), int(1)])).unwrap();
    fixture.tenant.keep_locks(&mut single);
    assert!(single.deferred.is_empty());
    let mut other = fixture.begin(2, Isolation::ReadCommitted);
    for id in [10, 4_000, 12_009] {
        let taken =
            fixture.run(&mut other, |view| lock(view, t, id, RowLock::KeyShare, WaitPolicy::SkipLocked));
        assert_eq!(taken.unwrap(), RowLocked::Skipped);
    }
    fixture.tenant.abort(other);
    fixture.commit(single).unwrap();
    assert!(fixture.tenant.lock_records().is_empty());
    assert_eq!(fixture.rows(t).len(), 12_002);
}

#[test]
fn advisory_locks_of_a_session_outlive_its_transactions_and_are_counted() {
    let (mut fixture, _) = two_rows();
    let key = AdvisoryKey::Big(42);
    let take = |view: &mut View<'_>| view.lock_advisory_for_session(key, false, WaitPolicy::NoWait);
    for _ in 0..2 {
        let mut txn = fixture.begin(1, Isolation::ReadCommitted);
        assert!(fixture.run(&mut txn, take).unwrap());
        fixture.commit(txn).unwrap();
    }
    let mut other = fixture.begin(2, Isolation::ReadCommitted);
    assert!(!fixture.run(&mut other, take).unwrap());
    let mut txn = fixture.begin(1, Isolation::ReadCommitted);
    assert!(fixture.run(&mut txn, |view| Ok(view.unlock_advisory(key, false))).unwrap());
    assert!(!fixture.run(&mut other, take).unwrap());
    assert!(fixture.run(&mut txn, |view| Ok(view.unlock_advisory(key, false))).unwrap());
    assert!(!fixture.run(&mut txn, |view| Ok(view.unlock_advisory(key, false))).unwrap());
    assert!(fixture.run(&mut other, take).unwrap());
    fixture.commit(txn).unwrap();
    fixture.commit(other).unwrap();
    fixture.tenant.end_session(SessionId(2));
    assert!(fixture.tenant.lock_records().is_empty());
}

const KEYS: [AdvisoryKey; 2] = [AdvisoryKey::Big(1), AdvisoryKey::Big(2)];

fn lock_for_session(view: &mut View<'_>, key: AdvisoryKey) -> Result<(), Interrupt> {
    view.lock_advisory_for_session(key, false, WaitPolicy::Wait).map(|held| assert!(held))
}

/// How often `session` has to unlock a key until it has it no more.
fn unlocks(fixture: &mut Fixture, session: u32, key: AdvisoryKey) -> u32 {
    let mut txn = fixture.begin(session, Isolation::ReadCommitted);
    let mut times = 0;
    while fixture.run(&mut txn, |view| Ok(view.unlock_advisory(key, false))).unwrap() {
        times += 1;
    }
    fixture.commit(txn).unwrap();
    times
}

/// Runs a statement in three runs, of which the first two are taken back.
fn run_thrice(
    fixture: &mut Fixture,
    txn: &mut Txn,
    statement: &mut dyn FnMut(&mut View<'_>) -> Result<(), Interrupt>,
) {
    for run in 0..3 {
        let outcome = fixture.run(txn, |view| {
            statement(view)?;
            if run < 2 { Err(Interrupt::Asked) } else { Ok(()) }
        });
        assert_eq!(outcome.is_ok(), run == 2);
    }
}

#[test]
fn a_statement_that_is_run_again_locks_and_unlocks_for_its_session_once() {
    let (mut fixture, _) = two_rows();
    let [one, two] = KEYS;
    let mut txn = fixture.begin(1, Isolation::ReadCommitted);
    run_thrice(&mut fixture, &mut txn, &mut |view| {
        lock_for_session(view, one)?;
        lock_for_session(view, two)?;
        lock_for_session(view, two)
    });
    // Each statement counts anew.
    run_thrice(&mut fixture, &mut txn, &mut |view| lock_for_session(view, two));
    run_thrice(&mut fixture, &mut txn, &mut |view| {
        assert!(view.unlock_advisory(two, false));
        Ok(())
    });
    run_thrice(&mut fixture, &mut txn, &mut |view| {
        lock_for_session(view, one)?;
        assert!(view.unlock_advisory(one, false));
        Ok(())
    });
    fixture.commit(txn).unwrap();
    assert_eq!(KEYS.map(|key| unlocks(&mut fixture, 1, key)), [1, 2]);
    let mut txn = fixture.begin(1, Isolation::ReadCommitted);
    run_thrice(&mut fixture, &mut txn, &mut |view| {
        lock_for_session(view, one)?;
        view.unlock_advisory_all();
        lock_for_session(view, two)
    });
    fixture.commit(txn).unwrap();
    assert_eq!(KEYS.map(|key| unlocks(&mut fixture, 1, key)), [0, 1]);
    assert!(fixture.tenant.lock_records().is_empty());
}

#[test]
fn a_lock_that_a_session_waited_for_counts_once() {
    let (mut fixture, _) = two_rows();
    let [one, two] = KEYS;
    let mut holder = fixture.begin(2, Isolation::ReadCommitted);
    fixture.run(&mut holder, |view| lock_for_session(view, two)).unwrap();
    fixture.commit(holder).unwrap();
    let mut txn = fixture.begin(1, Isolation::ReadCommitted);
    let both = |view: &mut View<'_>| KEYS.iter().try_for_each(|key| lock_for_session(view, *key));
    let wait = wait_of(fixture.run(&mut txn, both));
    assert_eq!(unlocks(&mut fixture, 2, two), 1);
    assert!(wait.is_over());
    fixture.run(&mut txn, both).unwrap();
    fixture.commit(txn).unwrap();
    assert_eq!([one, two].map(|key| unlocks(&mut fixture, 1, key)), [1, 1]);
}

#[test]
fn a_session_keeps_what_a_failed_statement_locked_and_not_what_none_needed() {
    let (mut fixture, _) = two_rows();
    let [one, two] = KEYS;
    let mut txn = fixture.begin(1, Isolation::ReadCommitted);
    // The row that locked the second one is gone when the statement is run again.
    let first = fixture.run(&mut txn, |view| {
        KEYS.iter().try_for_each(|key| lock_for_session(view, *key))?;
        Err::<(), _>(Interrupt::Asked)
    });
    assert!(matches!(first, Err(Interrupt::Asked)));
    fixture.run(&mut txn, |view| lock_for_session(view, one)).unwrap();
    let failed = fixture.run(&mut txn, |view| {
        lock_for_session(view, one)?;
        Err::<(), _>(SqlError::internal("it fails").into())
    });
    error_of(failed);
    fixture.tenant.abort(txn);
    assert_eq!([one, two].map(|key| unlocks(&mut fixture, 1, key)), [2, 0]);
    // Nor what it was granted too late.
    let mut holder = fixture.begin(2, Isolation::ReadCommitted);
    fixture.run(&mut holder, |view| lock_for_session(view, two)).unwrap();
    let mut txn = fixture.begin(1, Isolation::ReadCommitted);
    wait_of(fixture.run(&mut txn, |view| lock_for_session(view, two)));
    assert!(fixture.run(&mut holder, |view| Ok(view.unlock_advisory(two, false))).unwrap());
    fixture.tenant.cancel_wait(&mut txn);
    fixture.tenant.abort(txn);
    fixture.tenant.abort(holder);
    assert!(fixture.tenant.lock_records().is_empty());
}

#[test]
fn advisory_locks_take_so_much_memory_and_no_more() {
    let mut fixture = Fixture::on_disk_within(5, ByteCount::from_mib(64));
    let keys = |count: i64| (0..count).map(AdvisoryKey::Big);
    let mut txn = fixture.begin(1, Isolation::ReadCommitted);
    let locked = fixture.run(&mut txn, |view| keys(1 << 14).try_for_each(|key| lock_for_session(view, key)));
    locked.unwrap();
    let error = error_of(fixture.run(&mut txn, |view| lock_for_session(view, AdvisoryKey::Pair(0, 0))));
    assert_eq!((error.state().as_str(), error.message()), ("53200", "out of shared memory"));
    fixture.run(&mut txn, |view| lock_for_session(view, AdvisoryKey::Big(7))).unwrap();
    fixture.run(&mut txn, |view| Ok(view.unlock_advisory(AdvisoryKey::Big(8), false))).unwrap();
    fixture.run(&mut txn, |view| lock_for_session(view, AdvisoryKey::Pair(0, 0))).unwrap();
    fixture.commit(txn).unwrap();
    fixture.tenant.end_session(SessionId(1));
    for implicit in [false, true] {
        let mut txn = fixture.tenant.begin(SessionId(1), Isolation::ReadCommitted, false, implicit);
        let error = error_of(fixture.run(&mut txn, |view| {
            keys(1 << 20).try_for_each(|key| view.lock_advisory(key, false, WaitPolicy::Wait).map(drop))
        }));
        assert_eq!(error.state().as_str(), "53200");
        let held = fixture.tenant.lock_records().len();
        assert!((30_000..50_000).contains(&held), "{held} of 8 MiB");
        fixture.tenant.abort(txn);
        assert!(fixture.tenant.lock_records().is_empty());
    }
}

#[test]
fn who_waits_to_change_the_catalog_fails_rather_than_the_long_change_that_it_waits_for() {
    let (mut fixture, t) = two_rows();
    let mut long = fixture.begin(1, Isolation::ReadCommitted);
    let mut second = fixture.begin(2, Isolation::ReadCommitted);
    fixture.tenant.begin_branch(&mut long).unwrap();
    let row = |view: &mut View<'_>| lock(view, t, 1, RowLock::Update, WaitPolicy::Wait);
    fixture.run(&mut second, row).unwrap();
    let for_ddl = wait_of(fixture.run(&mut second, |view| view.ddl().map(drop)));
    let for_row = wait_of(fixture.run(&mut long, row));
    assert!(for_ddl.is_over() && !for_row.is_over());
    let failed = error_of(fixture.run(&mut second, |view| view.ddl().map(drop)));
    assert_eq!(failed.state().as_str(), "40P01");
    fixture.tenant.abort(second);
    assert!(for_row.is_over());
    fixture.run(&mut long, row).unwrap();
    fixture.commit(long).unwrap();
    assert!(fixture.tenant.lock_records().is_empty());
}

#[test]
fn of_very_many_row_locks_some_are_shown_and_those_that_are_waited_for() {
    let (mut fixture, t) = two_rows();
    let mut txn = fixture.begin(1, Isolation::ReadCommitted);
    fixture
        .run(&mut txn, |view| {
            let table = view.table(t)?;
            (10..30_000).try_for_each(|id| view.insert(&table, &[int(id), int(0)]).map(drop))
        })
        .unwrap();
    let mut waiting = fixture.begin(2, Isolation::ReadCommitted);
    let wait = wait_of(fixture.run(&mut waiting, |view| {
        let table = view.table(t)?;
        view.insert(&table, &[int(29_999), int(0)])
    }));
    let records = fixture.tenant.lock_records();
    let rows = records.iter().filter(|record| matches!(record.tag, LockTag::Row(..)));
    assert!((16_000..17_000).contains(&rows.count()), "{}", records.len());
    assert!(records.iter().any(|record| !record.granted && record.blocked_by == [SessionId(1)]));
    fixture.tenant.abort(txn);
    assert!(wait.is_over());
    fixture.tenant.abort(waiting);
}

#[test]
fn nobody_waits_for_a_lock_of_a_tenant_that_is_gone() {
    let (mut fixture, t) = two_rows();
    let mut first = fixture.begin(1, Isolation::ReadCommitted);
    let mut second = fixture.begin(2, Isolation::ReadCommitted);
    let row = |view: &mut View<'_>| lock(view, t, 1, RowLock::Update, WaitPolicy::Wait);
    fixture.run(&mut first, row).unwrap();
    let wait = wait_of(fixture.run(&mut second, row));
    assert!(!wait.is_over());
    drop(fixture.tenant.free());
    assert!(wait.is_over());
}

#[test]
fn who_waits_for_a_branch_goes_on_without_rather_than_have_the_one_that_has_it_fail() {
    let (mut fixture, t) = two_rows();
    let mut long = fixture.begin(1, Isolation::ReadCommitted);
    let mut second = fixture.begin(2, Isolation::ReadCommitted);
    let mut ddl = fixture.begin(3, Isolation::ReadCommitted);
    fixture.tenant.begin_branch(&mut long).unwrap();
    let row = |view: &mut View<'_>| lock(view, t, 1, RowLock::Update, WaitPolicy::Wait);
    fixture.run(&mut second, row).unwrap();
    let for_branch = wait_of(fixture.tenant.begin_branch(&mut second));
    let for_ddl = wait_of(fixture.run(&mut ddl, |view| view.ddl().map(drop)));
    let for_row = wait_of(fixture.run(&mut long, row));
    assert!(for_branch.is_over() && !for_ddl.is_over() && !for_row.is_over());
    assert_eq!(error_of(fixture.tenant.begin_branch(&mut second)).state().as_str(), "40P01");
    fixture.run(&mut second, |view| update(view, t, &[int(2)], vec![int(2), int(7)])).unwrap();
    fixture.commit(second).unwrap();
    assert!(for_row.is_over());
    fixture.run(&mut long, row).unwrap();
    fixture.commit(long).unwrap();
    assert!(for_ddl.is_over());
    fixture.tenant.abort(ddl);
    assert!(fixture.tenant.lock_records().is_empty());
}

#[test]
fn who_waits_for_a_table_gives_back_the_right_to_change_the_catalog_once() {
    let (mut fixture, t) = two_rows();
    let u = fixture.create("u", &[("id", PgType::Int4)], 1);
    let read = |view: &mut View<'_>| view.lock_table(t, TableLock::AccessShare, WaitPolicy::Wait);
    let alter = |view: &mut View<'_>| view.ddl()?.rename_column(t, "v", "w");
    let mut reader = fixture.begin(1, Isolation::ReadCommitted);
    let mut other = fixture.begin(2, Isolation::ReadCommitted);
    fixture.run(&mut reader, read).unwrap();
    let for_table = wait_of(fixture.run(&mut other, alter));
    // It has changed nothing: it begins anew later.
    fixture.run(&mut reader, |view| create(&mut view.ddl()?, "made", &[("id", PgType::Int4)], 0)).unwrap();
    assert!(for_table.is_over());
    let again = wait_of(fixture.run(&mut other, alter));
    fixture.commit(reader).unwrap();
    assert!(again.is_over());
    fixture.run(&mut other, alter).unwrap();
    fixture.tenant.abort(other);
    assert!(fixture.tenant.lock_records().is_empty());

    // Two that need each other's tables are in each other's way whoever gives back.
    let mut first = fixture.begin(1, Isolation::ReadCommitted);
    let mut second = fixture.begin(2, Isolation::ReadCommitted);
    fixture.run(&mut first, read).unwrap();
    fixture.run(&mut second, |view| view.lock_table(u, TableLock::AccessShare, WaitPolicy::Wait)).unwrap();
    let alter_u = |view: &mut View<'_>| view.ddl()?.rename_column(u, "id", "no");
    let mut failed = 0;
    for _ in 0..4 {
        for (txn, alters_t) in [(&mut first, false), (&mut second, true)] {
            let ran = if alters_t { fixture.run(txn, alter) } else { fixture.run(txn, alter_u) };
            failed +=
                usize::from(matches!(ran, Err(Interrupt::Error(error)) if error.state().as_str() == "40P01"));
        }
        if failed > 0 {
            break;
        }
    }
    assert_eq!(failed, 1);
    fixture.tenant.abort(first);
    fixture.tenant.abort(second);
    assert!(fixture.tenant.lock_records().is_empty());
}

#[test]
fn a_right_to_change_the_catalog_that_was_used_is_not_given_back() {
    let (mut fixture, t) = two_rows();
    let mut reader = fixture.begin(1, Isolation::ReadCommitted);
    let mut other = fixture.begin(2, Isolation::ReadCommitted);
    fixture.run(&mut reader, |view| view.lock_table(t, TableLock::AccessShare, WaitPolicy::Wait)).unwrap();
    fixture.run(&mut other, |view| create(&mut view.ddl()?, "u", &[("id", PgType::Int4)], 0)).unwrap();
    let wait = wait_of(fixture.run(&mut other, |view| view.ddl()?.rename_column(t, "v", "w")));
    let failed = error_of(fixture.run(&mut reader, |view| view.ddl().map(drop)));
    assert_eq!(failed.state().as_str(), "40P01");
    fixture.tenant.abort(reader);
    assert!(wait.is_over());
    fixture.run(&mut other, |view| view.ddl()?.rename_column(t, "v", "w")).unwrap();
    fixture.commit(other).unwrap();
    assert_eq!(fixture.table(t).columns[1].name, "w");

    // As the checks at a transaction's end wait: nothing is taken back.
    let mut reader = fixture.begin(1, Isolation::ReadCommitted);
    let mut other = fixture.begin(2, Isolation::ReadCommitted);
    fixture.run(&mut reader, |view| lock(view, t, 1, RowLock::Update, WaitPolicy::Wait)).unwrap();
    fixture.run(&mut other, |view| create(&mut view.ddl()?, "x", &[("id", PgType::Int4)], 0)).unwrap();
    let locked = {
        let mut view = fixture.tenant.view(&mut other, &mut fixture.log);
        lock(&mut view, t, 1, RowLock::KeyShare, WaitPolicy::Wait)
    };
    let wait = wait_of(locked);
    let failed = error_of(fixture.run(&mut reader, |view| view.ddl().map(drop)));
    assert_eq!(failed.state().as_str(), "40P01");
    fixture.tenant.abort(reader);
    assert!(wait.is_over());
    fixture.commit(other).unwrap();
    assert!(fixture.tenant.catalog().relation_in(PUBLIC_SCHEMA, "x").is_some());
}
