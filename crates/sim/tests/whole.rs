//! Whole servers at the size of a test run; `cargo run --release -p sim -- --whole` runs more.

use sim::Tally;
use sim::whole::Whole;

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
