//! Seeds of storage and tenants at the size of a test run; `cargo run --release -p sim` runs longer ones.

use sim::{Acknowledge, Campaign, Failure, Tally, plan};

fn run(seed: u64, acknowledge: Acknowledge) -> Result<Tally, Failure> {
    plan::run(Campaign { acknowledge, ..plan::campaign(seed) })
}

#[test]
fn nothing_a_client_knows_is_lost() {
    let mut total = Tally::default();
    for seed in 1..=200 {
        total.add(&run(seed, Acknowledge::WhenDurable).unwrap_or_else(|failure| panic!("{failure}")));
    }
    assert!(total.ended_in_recovery > 20 && total.with_faults > 50 && total.rot > 30, "{total}");
    assert!(total.acknowledged > 3000 && total.checkpoints > 200 && total.replayed > 2000, "{total}");
    assert!(total.evictions > 5000, "{total}");
}

#[test]
fn a_seed_replays_to_the_same_disk() {
    for seed in 1001..=1008 {
        let tally = run(seed, Acknowledge::WhenDurable).unwrap();
        assert_eq!(run(seed, Acknowledge::WhenDurable), Ok(tally));
        assert_ne!(run(seed + 8, Acknowledge::WhenDurable).unwrap().disk_hash, tally.disk_hash);
    }
}

/// Asserts that one of a hundred seeds of a server that breaks its promise finds the breach named `breach`. Which seed does, and what others find before it, changes
/// with every change of what storage writes.
fn assert_caught(acknowledge: Acknowledge, breach: &str) {
    let mut others = Vec::new();
    for failure in (1..=100).filter_map(|seed| run(seed, acknowledge).err()) {
        if failure.what.contains(breach) {
            return;
        }
        others.push(failure.what);
    }
    panic!("no seed of a hundred finds it: {others:?}");
}

#[test]
fn commits_acknowledged_before_their_sync_are_found() {
    assert_caught(Acknowledge::CommitsAtOnce, "a commit's reply told a client");
}

#[test]
fn reads_told_before_they_are_durable_are_found() {
    assert_caught(Acknowledge::ReadsAtOnce, "a read's reply told a client");
}

/// Of debug builds only: others cannot be made to do it.
#[cfg(debug_assertions)]
#[test]
fn evicted_pages_that_were_never_written_are_found() {
    let small = (1..=100).map(plan::campaign).filter(|campaign| campaign.memory.is_some());
    let failed = |campaign: Campaign| plan::run(Campaign { drops_unwritten: true, ..campaign }).err();
    assert!(small.filter_map(failed).next().is_some());
}
