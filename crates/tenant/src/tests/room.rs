//! Waiting for memory before more is changed.

use base::{ByteCount, Oid};
use types::PgType;

use super::{Fixture, int, text, wait_of};
use crate::ddl::Behavior;
use crate::{CommitWait, Interrupt, Isolation, Txn, WriterWait};

/// A tenant whose changed pages take more than they may.
fn short_of_memory() -> (Fixture, Oid) {
    let mut fixture = Fixture::on_disk_within(71, ByteCount::from_kib(256));
    let table = fixture.create("t", &[("id", PgType::Int4), ("v", PgType::Text)], 1);
    for id in 0.. {
        if fixture.tenant.memory_wait() == Some(WriterWait::Checkpoint) {
            break;
        }
        insert(&mut fixture, table, id);
    }
    (fixture, table)
}

/// A row of most of a page.
fn insert(fixture: &mut Fixture, table: Oid, id: i32) {
    fixture.insert(table, vec![int(id), text(&"v".repeat(5000))]).unwrap();
}

fn inserted(fixture: &mut Fixture, table: Oid, implicit: bool) -> Txn {
    let mut txn = fixture.tenant.begin(base::SessionId(1), Isolation::ReadCommitted, false, implicit);
    fixture
        .run_reading(&mut txn, |view| {
            let table = view.table(table)?;
            view.insert(&table, &[int(-1), text("new")]).map(drop)
        })
        .unwrap();
    txn
}

fn wait(fixture: &mut Fixture, txn: &mut Txn) -> Option<WriterWait> {
    match fixture.tenant.commit_wait(txn).unwrap() {
        None => None,
        Some(CommitWait::Memory(wait)) => Some(wait),
        Some(CommitWait::Pages(_)) => panic!("nothing has left memory"),
    }
}

#[test]
fn a_commit_waits_until_changed_pages_are_written_and_then_for_room() {
    let (mut fixture, table) = short_of_memory();
    let mut txn = inserted(&mut fixture, table, false);
    assert_eq!(wait(&mut fixture, &mut txn), Some(WriterWait::Checkpoint));
    let mut checkpoint = fixture.tenant.begin_checkpoint().unwrap();
    env::block_on(&fixture.world.as_ref().unwrap().env(), checkpoint.run()).unwrap();
    assert!(fixture.tenant.finish_checkpoint(checkpoint));
    for id in 10_000.. {
        if fixture.tenant.memory_wait().is_some() {
            break;
        }
        insert(&mut fixture, table, id);
    }
    assert_eq!(wait(&mut fixture, &mut txn), Some(WriterWait::Room));
    fixture.tenant.evict_all();
    assert!(fixture.tenant.memory_wait().is_none());
    fixture.commit(txn).unwrap();
}

#[test]
fn a_commit_for_which_nobody_makes_room_goes_on() {
    let (mut fixture, table) = short_of_memory();
    let mut txn = inserted(&mut fixture, table, false);
    let waits = std::iter::from_fn(|| wait(&mut fixture, &mut txn)).count();
    assert_eq!(waits, 32);
    let commit = fixture.tenant.commit(txn, &mut fixture.log).unwrap().commit;
    assert!(commit.is_some() && fixture.tenant.memory_wait().is_some());
}

#[test]
fn a_transaction_that_changed_nothing_ends_at_once() {
    let (mut fixture, table) = short_of_memory();
    let mut txn = fixture.begin(1, Isolation::ReadCommitted);
    fixture.run_reading(&mut txn, |view| super::all_rows(view, table)).unwrap();
    assert_eq!(wait(&mut fixture, &mut txn), None);
    fixture.commit(txn).unwrap();
}

#[test]
fn what_a_commit_that_waits_has_locked_is_locked() {
    let (mut fixture, table) = short_of_memory();
    let mut txn = inserted(&mut fixture, table, true);
    assert!(wait(&mut fixture, &mut txn).is_some());
    let mut other = fixture.begin(2, Isolation::ReadCommitted);
    let _lock = wait_of(fixture.run(&mut other, |view| {
        let table = view.table(table)?;
        view.insert(&table, &[int(-1), text("other")])
    }));
    fixture.commit(txn).unwrap();
    fixture.tenant.abort(other);
}

#[test]
fn values_longer_than_the_memory_are_given_back() {
    let mut fixture = Fixture::on_disk_within(72, ByteCount::from_kib(256));
    let empty = fixture.tenant.pages.page_count();
    let table = fixture.create("t", &[("id", PgType::Int4), ("v", PgType::Text)], 1);
    for id in 0..3 {
        fixture.insert(table, vec![int(id), text(&"v".repeat(200_000))]).unwrap();
    }
    let env = fixture.world.as_ref().unwrap().env();
    let mut checkpoint = fixture.tenant.begin_checkpoint().unwrap();
    env::block_on(&env, checkpoint.run()).unwrap();
    assert!(fixture.tenant.finish_checkpoint(checkpoint));
    fixture.tenant.evict_all();
    fixture.ddl(|ddl| ddl.drop_relations(&[table], Behavior::Restrict).map(drop)).unwrap();
    let mut steps = 0;
    loop {
        steps += 1;
        assert!(steps < 1000, "it comes to an end");
        match fixture.tenant.reclaim(256) {
            Ok(true) => {}
            Ok(false) => break,
            Err(Interrupt::Miss(page)) => {
                let request = fixture.tenant.page_to_reclaim(page).unwrap().expect("it is on disk");
                let loaded = env::block_on(&env, request.read()).unwrap();
                fixture.tenant.page_loaded(loaded);
                fixture.tenant.shed();
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(fixture.tenant.pages.page_count(), empty);
}
