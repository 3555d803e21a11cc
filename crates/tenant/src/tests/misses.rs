//! What a statement that misses much does to the turn it runs in.

use std::sync::Arc;

use base::{ByteCount, Oid, PageNo};
use types::PgType;

use super::{Fixture, int, text, update};
use crate::{Interrupt, Isolation, Txn};

/// A tenant within so much memory, with rows of most of a page each, none of them in memory.
fn cold(memory: ByteCount, rows: i32) -> (Fixture, Oid) {
    let mut fixture = Fixture::on_disk_within(72, memory);
    let table = fixture.create("t", &[("id", PgType::Int4), ("v", PgType::Text)], 1);
    for id in 0..rows {
        fixture.insert(table, vec![int(id), text(&"v".repeat(5000))]).unwrap();
    }
    let mut checkpoint = fixture.tenant.begin_checkpoint().unwrap();
    env::block_on(&fixture.world.as_ref().unwrap().env(), checkpoint.run()).unwrap();
    assert!(fixture.tenant.finish_checkpoint(checkpoint));
    fixture.tenant.evict_all();
    (fixture, table)
}

/// Runs a statement that changes all rows once. What it read within its turn, and the page that it missed.
fn change_once(fixture: &mut Fixture, txn: &mut Txn, table: Oid, rows: i32) -> (u64, Option<PageNo>) {
    let before = fixture.tenant.page_tally().reads;
    let outcome = fixture.run(txn, |view| {
        for id in 0..rows {
            assert!(update(view, table, &[int(id)], vec![int(id), text("new")])?);
        }
        Ok(())
    });
    let missed = match outcome {
        Err(Interrupt::Miss(page)) => Some(page),
        outcome => {
            outcome.unwrap();
            None
        }
    };
    (fixture.tenant.page_tally().reads - before, missed)
}

/// Changes all rows in one statement. What each of its runs read within its turn, and how many pages it waited for.
fn change_all(fixture: &mut Fixture, table: Oid, rows: i32) -> (Vec<u64>, u64) {
    let (mut in_turns, mut waited) = (Vec::new(), 0);
    let mut txn = fixture.begin(1, Isolation::ReadCommitted);
    loop {
        let (reads, missed) = change_once(fixture, &mut txn, table, rows);
        in_turns.push(reads);
        let Some(page) = missed else { break };
        let before = fixture.tenant.page_tally().reads;
        fixture.read_page(&txn, page);
        waited += fixture.tenant.page_tally().reads - before;
    }
    fixture.commit(txn).unwrap();
    (in_turns, waited)
}

#[test]
fn a_change_waits_for_all_it_misses_as_far_as_it_may_hold_it() {
    let (mut fixture, table) = cold(ByteCount::from_mib(16), 150);
    let (in_turns, waited) = change_all(&mut fixture, table, 150);
    assert!(in_turns.iter().all(|reads| *reads == 0), "{in_turns:?}");
    assert!(waited >= 150, "{waited}");
}

#[test]
fn a_change_that_may_hold_no_more_gives_its_turn_away_between_reads() {
    // Holds up to 43 of 256 pages.
    let (mut fixture, table) = cold(ByteCount::from_mib(2), 170);
    let (in_turns, waited) = change_all(&mut fixture, table, 170);
    let blocking: Vec<u64> = in_turns.into_iter().filter(|reads| *reads > 0).collect();
    let most: Vec<u64> = (0..blocking.len() as u32).map(|n| 16 << n).collect();
    assert!(
        blocking.len() >= 3 && blocking.iter().zip(&most).all(|(reads, most)| reads <= most),
        "{blocking:?}"
    );
    assert!(waited as usize >= 40 + blocking.len() - 1, "{waited}: one between two turns");
}

#[test]
fn turns_read_nothing_while_more_is_in_memory_than_may_be_until_they_have_waited_often_enough() {
    let (mut fixture, table) = cold(ByteCount::from_mib(2), 170);
    let budget = Arc::clone(fixture.tenant.pages.budget().unwrap());
    let mut txn = fixture.begin(1, Isolation::ReadCommitted);
    let missed = loop {
        let (reads, missed) = change_once(&mut fixture, &mut txn, table, 170);
        if reads > 0 {
            break missed.expect("it reads 16 pages of 170");
        }
        fixture.read_page(&txn, missed.expect("it has read none by itself"));
    };
    fixture.read_page(&txn, missed);

    let mut other = Fixture::new();
    let large = other.create("large", &[("id", PgType::Int4), ("v", PgType::Text)], 1);
    for id in 0..400 {
        other.insert(large, vec![int(id), text(&"v".repeat(5000))]).unwrap();
    }
    other.tenant.charge_to(&budget);
    assert!(budget.resident() > budget.limit());
    for _ in 0..32 {
        let (reads, missed) = change_once(&mut fixture, &mut txn, table, 170);
        assert_eq!(reads, 0);
        let wanted = fixture.tenant.page_requests(&txn, &[missed.expect("it reads none by itself")]).unwrap();
        assert_eq!(wanted.len(), 1, "it waits for room for it");
    }
    assert_eq!(budget.turns_over(), 0);
    let (reads, missed) = change_once(&mut fixture, &mut txn, table, 170);
    assert!((1..=32).contains(&reads), "{reads}: twice what it read before, no more for having waited");
    assert_eq!(budget.turns_over(), 1);

    drop(other);
    fixture.read_page(&txn, missed.expect("there are more"));
    while let (_, Some(page)) = change_once(&mut fixture, &mut txn, table, 170) {
        fixture.read_page(&txn, page);
    }
    fixture.commit(txn).unwrap();
    assert_eq!(budget.turns_over(), 1);
}
