//! Campaigns of power cuts at the size of a test run; `cargo run --release -p sim` runs longer ones.

use sim::exchange::Exchange;
use sim::tpcc::Tpcc;
use sim::{Acknowledge, Campaign, Failure, Tally};

/// Even seeds run TPC-C, odd ones the exchange, as the program does.
fn run(seed: u64, cuts: u64, acknowledge: Acknowledge) -> Result<Tally, Failure> {
    let campaign = Campaign { seed, cuts, tenants: 2 + seed % 2, acknowledge };
    if seed.is_multiple_of(2) { campaign.run(Tpcc::default()) } else { campaign.run(Exchange::default()) }
}

#[test]
fn nothing_a_client_knows_is_lost() {
    let mut total = Tally::default();
    for seed in 1..=22 {
        let tally = run(seed, 10, Acknowledge::WhenDurable).unwrap_or_else(|failure| panic!("{failure}"));
        total.add(&tally);
    }
    assert!(
        total.cuts_in_recovery > 5 && total.acknowledged > 2000 && total.tenants_checked > 200,
        "{total}"
    );
    assert!(total.checkpoints > 100 && total.replayed > 1000, "{total}");
}

#[test]
fn a_seed_replays_to_the_same_disk() {
    let [exchange, tpcc] = [101, 102].map(|seed| run(seed, 6, Acknowledge::WhenDurable).unwrap());
    assert_eq!(exchange, run(101, 6, Acknowledge::WhenDurable).unwrap());
    assert_eq!(tpcc, run(102, 6, Acknowledge::WhenDurable).unwrap());
    assert_ne!(exchange.disk_hash, tpcc.disk_hash);
}

/// Runs campaigns of a server that breaks its promise until one is caught.
fn caught(acknowledge: Acknowledge) -> String {
    let mut failures = (1..=10).filter_map(|seed| run(seed, 10, acknowledge).err());
    failures.next().expect("the broken promise is found").what
}

#[test]
fn commits_acknowledged_before_their_sync_are_found() {
    let what = caught(Acknowledge::CommitsAtOnce);
    assert!(what.contains("a commit's reply told a client"), "{what}");
}

#[test]
fn reads_told_before_they_are_durable_are_found() {
    let what = caught(Acknowledge::ReadsAtOnce);
    assert!(what.contains("a read's reply told a client"), "{what}");
}
