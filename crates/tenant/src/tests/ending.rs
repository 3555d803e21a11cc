//! Ends of large transactions: what is logged ahead of them, when others have their turns, and what a panic leaves.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use base::TreeId;

use super::*;
use crate::Demand;
use crate::catalog::IndexColumn;
use crate::ddl::NewIndex;
use crate::row::keys::Key;
use crate::txn::Build;

fn two_tables() -> (Fixture, Oid, Oid) {
    let mut fixture = Fixture::new();
    let columns = [("id", PgType::Int4), ("s", PgType::Text)];
    let (t, u) = (fixture.create("t", &columns, 1), fixture.create("u", &columns, 0));
    (fixture, t, u)
}

fn fill(fixture: &mut Fixture, txn: &mut Txn, table: Oid, ids: std::ops::Range<i32>) {
    let filled = fixture.run(txn, |view| {
        let table = view.table(table)?;
        let mut ids = ids;
        ids.try_for_each(|id| view.insert(&table, &[int(id), text(&"x".repeat(1000))]).map(drop))
    });
    filled.unwrap();
}

/// A transaction with 1.5 MB of changes.
fn large(fixture: &mut Fixture, t: Oid, u: Oid) -> Txn {
    let mut txn = fixture.begin(1, Isolation::RepeatableRead);
    fill(fixture, &mut txn, t, 0..1000);
    fill(fixture, &mut txn, u, 0..500);
    txn
}

/// How many parts are logged before the commit.
fn parts_ahead(fixture: &mut Fixture, txn: &mut Txn) -> usize {
    let mut parts = 0;
    while fixture.tenant.log_ahead(txn, &mut fixture.log).unwrap().is_some() {
        assert!(fixture.tenant.has_begun_a_record());
        parts += 1;
    }
    parts
}

/// As many as a dump of 10,000 tables leaves: compared with each other they would take minutes.
#[test]
fn trees_that_were_built_and_dropped_are_looked_up_at_the_end() {
    const COUNT: u32 = 20_000;
    let mut fixture = Fixture::new();
    let mut txn = fixture.begin(1, Isolation::ReadCommitted);
    let [built, dropped, changed] = [100_000, 200_000, 300_000].map(|from| move |n: u32| TreeId(from + n));
    for n in 0..COUNT {
        txn.built.push(Build::Index { table: Oid(1), index: Oid(2), tree: built(n) });
        txn.dropped_trees.push(dropped(n));
    }
    // This one was rewritten, and this one is gone in the end.
    let tree = built(COUNT);
    txn.built.push(Build::Cluster { table: Oid(1), from: dropped(7), tree });
    txn.built.push(Build::Cluster { table: Oid(1), from: dropped(8), tree: dropped(9) });
    let mut trees: Vec<TreeId> = (0..300).map(changed).collect();
    for tree in trees.iter().copied().chain([built(5), dropped(7), dropped(8), tree]) {
        txn.overlay.put(tree, Key::from_slice(b"k"), Box::from(&b"v"[..]));
    }
    trees.insert(0, dropped(7));
    assert_eq!(fixture.tenant.trees_before_builds(&txn), trees);
    fixture.tenant.abort(txn);
}

#[test]
fn a_large_record_is_logged_ahead_and_is_one_only_with_its_commit() {
    let (mut fixture, t, u) = two_tables();
    for id in [2000, 2001, 2002] {
        fixture.insert(t, vec![int(id), text("before")]).unwrap();
    }
    let mut txn = large(&mut fixture, t, u);
    // What is built is in no part, and builds on all that is.
    let index = fixture.run(&mut txn, |view| {
        let columns = vec![IndexColumn::ascending(1)];
        let new =
            NewIndex { name: None, columns, unique: false, nulls_not_distinct: false, ..NewIndex::default() };
        view.ddl()?.create_index(t, new)
    });
    let index = index.unwrap();
    fill(&mut fixture, &mut txn, t, 1000..1100);
    fixture.run(&mut txn, |view| delete(view, t, &[int(2001)])).unwrap();
    let before = fixture.log.records.len();
    assert!(parts_ahead(&mut fixture, &mut txn) > 20);
    assert_eq!(fixture.log.records.len(), before, "no record without its commit");
    fixture.commit(txn).unwrap();
    assert_eq!(fixture.log.records.len(), before + 1);
    assert!(!fixture.tenant.has_begun_a_record());

    let (of_t, of_u) = (fixture.rows(t), fixture.rows(u));
    assert_eq!((of_t.len(), of_u.len()), (1102, 500));
    let mut replayed = fixture.replayed();
    assert_eq!((replayed.rows(t), replayed.rows(u)), (of_t, of_u));
    let by_index = |fixture: &mut Fixture| {
        let rows = |view: &mut View<'_>| scan_rows(view, t, Some(index), KeyRange::all(), Direction::Forward);
        fixture.auto(rows).unwrap()
    };
    assert_eq!(by_index(&mut replayed), by_index(&mut fixture));
}

#[test]
fn a_long_value_is_logged_ahead_in_pieces() {
    let (mut fixture, t, u) = two_tables();
    let long = "x".repeat(2_000_000);
    for (id, hasty) in [(1, false), (2, true)] {
        let mut txn = fixture.begin(1, Isolation::ReadCommitted);
        let inserted = fixture.run(&mut txn, |view| {
            let table = view.table(t)?;
            view.insert(&table, &[int(id), text(&long)]).map(drop)
        });
        inserted.unwrap();
        if !hasty {
            fill(&mut fixture, &mut txn, u, 0..100);
        }
        let before = fixture.log.records.len();
        if hasty {
            // It does not wait for the others.
            fixture.tenant.log_ahead(&mut txn, &mut fixture.log).unwrap().expect("it has much");
        } else {
            assert!(parts_ahead(&mut fixture, &mut txn) > 25);
        }
        assert_eq!(fixture.log.records.len(), before, "no record without its commit");
        fixture.commit(txn).unwrap();
    }
    let (of_t, of_u) = (fixture.rows(t), fixture.rows(u));
    assert_eq!((of_t.len(), of_u.len()), (2, 100));
    let mut replayed = fixture.replayed();
    assert_eq!((replayed.rows(t), replayed.rows(u)), (of_t, of_u));
}

#[test]
fn what_is_logged_ahead_of_a_transaction_that_ends_otherwise_is_no_record() {
    let (mut fixture, t, u) = two_tables();
    let mut given_up = large(&mut fixture, t, u);
    fixture.tenant.log_ahead(&mut given_up, &mut fixture.log).unwrap().expect("it has much");
    fixture.tenant.abort(given_up);
    assert!(!fixture.tenant.has_begun_a_record());

    // One that goes on at once logs the rest with its commit.
    let mut hasty = large(&mut fixture, t, u);
    fixture.tenant.log_ahead(&mut hasty, &mut fixture.log).unwrap().expect("it has much");
    fixture.tenant.commit(hasty, &mut fixture.log).unwrap();
    let mut small = fixture.begin(1, Isolation::RepeatableRead);
    fill(&mut fixture, &mut small, t, 5000..5010);
    assert_eq!(parts_ahead(&mut fixture, &mut small), 0);
    fixture.commit(small).unwrap();

    // 40001, when all of it is there.
    let mut late = fixture.begin(1, Isolation::Serializable);
    fixture.run(&mut late, |view| all_rows(view, u)).unwrap();
    fill(&mut fixture, &mut late, t, 6000..7000);
    assert!(parts_ahead(&mut fixture, &mut late) > 10);
    fixture.insert(u, vec![int(9), text("y")]).unwrap();
    assert_eq!(fixture.commit(late).unwrap_err().state().as_str(), "40001");
    assert!(!fixture.tenant.has_begun_a_record());

    let rows = fixture.rows(t);
    assert_eq!(rows.len(), 1010);
    assert_eq!(fixture.replayed().rows(t), rows);
}

#[test]
fn what_a_transaction_with_a_branch_has_not_poured_is_logged_ahead_too() {
    let (mut fixture, t, u) = two_tables();
    for commits in [false, true] {
        let mut txn = fixture.begin(1, Isolation::ReadCommitted);
        fixture.tenant.begin_branch(&mut txn).unwrap();
        fill(&mut fixture, &mut txn, t, 0..10);
        fixture.tenant.pour(&mut txn, &mut fixture.log).unwrap();
        // Nothing is poured behind a savepoint.
        let _savepoint = txn.savepoint();
        fill(&mut fixture, &mut txn, t, 10..1000);
        fill(&mut fixture, &mut txn, u, 0..500);
        let before = fixture.log.records.len();
        assert!(parts_ahead(&mut fixture, &mut txn) > 20);
        assert_eq!(fixture.log.records.len(), before, "no record without its commit");
        fixture.insert(u, vec![int(9), text("y")]).unwrap();
        if commits {
            fixture.catch_up(&mut txn);
            fixture.commit(txn).unwrap();
        } else {
            fixture.tenant.abort(txn);
        }
        assert!(!fixture.tenant.has_begun_a_record());
    }
    let (of_t, of_u) = (fixture.rows(t), fixture.rows(u));
    assert_eq!((of_t.len(), of_u.len()), (1000, 502));
    let mut replayed = fixture.replayed();
    assert_eq!((replayed.rows(t), replayed.rows(u)), (of_t, of_u));
}

#[test]
fn much_that_is_poured_at_once_is_logged_before_and_gives_way() {
    let (mut fixture, t, u) = two_tables();
    let mut txn = fixture.begin(1, Isolation::ReadCommitted);
    // Gathered by one statement, before it has a branch.
    fill(&mut fixture, &mut txn, t, 0..1000);
    fixture.tenant.begin_branch(&mut txn).unwrap();
    let ways = Cell::new(0);
    let give_way = || ways.set(ways.get() + 1);
    assert!(parts_ahead(&mut fixture, &mut txn) > 12);
    fixture.tenant.pour_giving_way(&mut txn, &mut fixture.log, &give_way).unwrap();
    assert!(ways.take() >= 14, "each row is a change to apply and to free");
    assert_eq!(parts_ahead(&mut fixture, &mut txn), 0, "nothing is left of it");
    fill(&mut fixture, &mut txn, u, 0..10);
    fixture.tenant.pour(&mut txn, &mut fixture.log).unwrap();
    // One that is poured at once logs the rest with that.
    fill(&mut fixture, &mut txn, t, 2000..2500);
    fixture.tenant.log_ahead(&mut txn, &mut fixture.log).unwrap().expect("it has much");
    fixture.tenant.pour(&mut txn, &mut fixture.log).unwrap();
    fixture.commit(txn).unwrap();
    let (of_t, of_u) = (fixture.rows(t), fixture.rows(u));
    assert_eq!((of_t.len(), of_u.len()), (1500, 10));
    let mut replayed = fixture.replayed();
    assert_eq!((replayed.rows(t), replayed.rows(u)), (of_t, of_u));
}

#[test]
fn ends_of_large_transactions_give_way_and_those_of_small_ones_do_not() {
    let (mut fixture, t, u) = two_tables();
    let ways = Cell::new(0);
    let give_way = || ways.set(ways.get() + 1);
    let small = fixture.begin(1, Isolation::ReadCommitted);
    fixture.tenant.commit_giving_way(small, &mut fixture.log, &give_way).unwrap();
    assert_eq!(ways.get(), 0);
    // Each row is a change to apply and to free, and most are a lock.
    let txn = large(&mut fixture, t, u);
    fixture.tenant.commit_giving_way(txn, &mut fixture.log, &give_way).unwrap();
    assert!(ways.take() >= 30);
    // And so does that of a part of it.
    let mut txn = fixture.begin(1, Isolation::RepeatableRead);
    fill(&mut fixture, &mut txn, t, 2000..2010);
    let savepoint = txn.savepoint();
    fill(&mut fixture, &mut txn, t, 3000..4000);
    fixture.tenant.rollback_to_giving_way(&mut txn, &savepoint, &give_way);
    assert!(ways.take() >= 14);
    let mark = txn.mark();
    fill(&mut fixture, &mut txn, t, 3000..4000);
    fixture.tenant.rollback_statement_giving_way(&mut txn, &mark, &give_way);
    assert!(ways.take() >= 7);
    fixture.tenant.abort_giving_way(txn, &give_way);
    assert!(ways.take() >= 7, "its locks are left");
    assert!(!fixture.tenant.is_cut_short() && fixture.tenant.lock_records().is_empty());
    assert_eq!(fixture.rows(t).len(), 1000);
}

#[test]
fn ends_of_transactions_with_long_rows_give_way_by_the_bytes_of_these() {
    let (mut fixture, t, _) = two_tables();
    let ways = Cell::new(0);
    let give_way = || ways.set(ways.get() + 1);
    for pours in [false, true] {
        let mut txn = fixture.begin(1, Isolation::ReadCommitted);
        if pours {
            fixture.tenant.begin_branch(&mut txn).unwrap();
        }
        let filled = fixture.run(&mut txn, |view| {
            let table = view.table(t)?;
            let mut ids = if pours { 10..20 } else { 0..10 };
            ids.try_for_each(|id| view.insert(&table, &[int(id), text(&"x".repeat(300_000))]).map(drop))
        });
        filled.unwrap();
        if pours {
            fixture.tenant.pour_giving_way(&mut txn, &mut fixture.log, &give_way).unwrap();
            fixture.commit(txn).unwrap();
        } else {
            fixture.tenant.commit_giving_way(txn, &mut fixture.log, &give_way).unwrap();
        }
        assert!(ways.take() >= 10, "each takes as long as hundreds of short ones");
    }
    assert_eq!(fixture.rows(t).len(), 20);
}

#[test]
fn commits_of_long_definitions_give_way_by_the_bytes_of_these() {
    let (mut fixture, t, u) = two_tables();
    let long = "x".repeat(300_000);
    let mut txn = fixture.begin(1, Isolation::ReadCommitted);
    let commented = fixture.run(&mut txn, |view| {
        let mut ddl = view.ddl()?;
        ddl.set_comment(t, None, Some(&long));
        ddl.set_comment(u, None, Some(&long));
        Ok(())
    });
    commented.unwrap();
    let ways = Cell::new(0);
    let give_way = || ways.set(ways.get() + 1);
    fixture.tenant.commit_giving_way(txn, &mut fixture.log, &give_way).unwrap();
    assert!(ways.get() >= 2, "each takes as long as hundreds of short ones");
    for fixture in [&fixture, &fixture.replayed()] {
        assert_eq!(fixture.tenant.catalog().comment(u, None), Some(&long[..]));
    }
}

#[test]
fn the_look_for_pages_that_a_large_commit_misses_gives_way() {
    let mut fixture = Fixture::on_disk(31);
    let t = fixture.create("t", &[("id", PgType::Int4), ("s", PgType::Text)], 1);
    let mut txn = fixture.begin(1, Isolation::ReadCommitted);
    fill(&mut fixture, &mut txn, t, 0..100);
    fixture.commit(txn).unwrap();
    let env = fixture.world.as_ref().unwrap().env();
    let mut checkpoint = fixture.tenant.begin_checkpoint().unwrap();
    env::block_on(&env, checkpoint.run()).unwrap();
    assert!(fixture.tenant.finish_checkpoint(checkpoint));
    let mut txn = fixture.begin(1, Isolation::RepeatableRead);
    fill(&mut fixture, &mut txn, t, 1000..2000);
    assert!(fixture.tenant.evict_all() > 0);
    let ways = Cell::new(0);
    let wait = fixture.tenant.commit_wait_giving_way(&mut txn, &|| ways.set(ways.get() + 1)).unwrap();
    let Some(CommitWait::Pages(requests)) = wait else { panic!("its pages have left memory") };
    assert!(ways.get() >= 7, "{}", ways.get());
    for request in requests {
        fixture.tenant.page_loaded(env::block_on(&env, request.read()).unwrap());
    }
    fixture.commit(txn).unwrap();
    assert_eq!(fixture.rows(t).len(), 1100);
}

/// A log that panics when it is asked whether it takes a record.
struct Panicking;

impl RedoSink for Panicking {
    fn admit(&self, _: usize, _: Demand) -> Result<(), SqlError> {
        panic!("the log panics")
    }
    fn append(&mut self, _: TenantId, _: CommitNo, _: &[u8]) -> Lsn {
        unreachable!("nothing is admitted")
    }
}

#[test]
fn a_tenant_tells_of_a_panic_that_left_a_transactions_locks_to_nobody() {
    let (mut fixture, t, _) = two_tables();
    let mut txn = fixture.begin(1, Isolation::ReadCommitted);
    fill(&mut fixture, &mut txn, t, 0..1);
    let ended = catch_unwind(AssertUnwindSafe(|| fixture.tenant.commit(txn, &mut Panicking)));
    assert!(ended.is_err() && fixture.tenant.is_cut_short());
    assert!(!fixture.tenant.lock_records().is_empty(), "so it is of no use");
}
