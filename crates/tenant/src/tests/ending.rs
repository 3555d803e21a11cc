//! Ends of large transactions: when others have their turns, and what a panic leaves.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;
use crate::Demand;

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
