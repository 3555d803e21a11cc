//! What a statement that misses much does to the turn it runs in.

use base::{ByteCount, Oid};
use types::PgType;

use super::{Fixture, int, text, update};
use crate::{Interrupt, Isolation};

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

/// Changes all rows in one statement. What each of its runs read within its turn, and how many pages it waited for.
fn change_all(fixture: &mut Fixture, table: Oid, rows: i32) -> (Vec<u64>, u64) {
    let (mut in_turns, mut waited) = (Vec::new(), 0);
    let mut txn = fixture.begin(1, Isolation::ReadCommitted);
    loop {
        let before = fixture.tenant.page_tally().reads;
        let outcome = fixture.run(&mut txn, |view| {
            for id in 0..rows {
                assert!(update(view, table, &[int(id)], vec![int(id), text("new")])?);
            }
            Ok(())
        });
        in_turns.push(fixture.tenant.page_tally().reads - before);
        match outcome {
            Err(Interrupt::Miss(page)) => {
                let before = fixture.tenant.page_tally().reads;
                fixture.read_page(&txn, page);
                waited += fixture.tenant.page_tally().reads - before;
            }
            outcome => break outcome.unwrap(),
        }
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
