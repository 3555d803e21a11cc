//! Whole servers at the size of a test run; `cargo run --release -p sim -- --whole` runs more.

use sim::Tally;
use sim::whole::{Governed, Kept, Whole};

#[test]
fn nothing_a_client_was_told_is_lost_by_a_whole_server() {
    let mut total = Tally::default();
    for seed in 1..=200 {
        total.add(&Whole::of(seed).run().unwrap_or_else(|failure| panic!("{failure}")));
    }
    assert!(total.ended_in_recovery > 10 && total.with_faults > 25, "{total}");
    assert!(total.acknowledged > 10_000 && total.tenants_checked > 1000, "{total}");
    assert!(total.moves > 500, "{total}");
}

#[test]
fn a_whole_server_replays_to_the_same_disk() {
    for seed in 1001..=1006 {
        let tally = Whole::of(seed).run().unwrap();
        assert_eq!(Whole::of(seed).run(), Ok(tally));
    }
}

#[test]
fn replies_before_durability_are_found() {
    let seeds = (1..=100).map(|seed| Whole { lying_log: true, ..Whole::of(seed) });
    let mut failures = seeds.filter_map(|whole| whole.run().err());
    // Some leave a log that is refused; in some nothing but the clients' history tells.
    assert!(failures.any(|failure| failure.what.contains("StaleRead")));
}

#[test]
fn promises_of_processor_time_are_kept_by_a_whole_server_and_the_ledger_says_so() {
    let mut total = Kept::default();
    for seed in 1..=8 {
        let kept = Governed { seed, keeps_nothing: false }.run();
        let kept = kept.unwrap_or_else(|failure| panic!("{failure}"));
        total.intervals += kept.intervals;
        total.full += kept.full;
        total.limited += kept.limited;
    }
    assert!(total.intervals > 80 && total.full > 15 && total.limited > 5, "{total:?}");
}

#[test]
fn promises_that_nobody_keeps_are_found() {
    let failures = (1..=8).filter_map(|seed| Governed { seed, keeps_nothing: true }.run().err());
    let missed = failures.filter(|failure| failure.what.contains("missed its promise")).count();
    assert!(missed > 0);
}
