//! Whole servers with analytical queries beside everything else; `cargo run --release -p sim -- --whole --analytic` runs more.
#![cfg(feature = "analytic")]

use sim::Tally;
use sim::whole::Whole;

fn world(seed: u64) -> Whole {
    Whole::with_queries(seed, analytic::run_controlled)
}

#[test]
fn analytical_queries_see_one_state_with_all_that_was_told_of() {
    let mut total = Tally::default();
    for seed in 1..=8 {
        total.add(&world(seed).run().unwrap_or_else(|failure| panic!("{failure}")));
    }
    assert!(total.queries > 40 && total.spills > 0 && total.with_faults > 0, "{total}");
}

/// The engine is one task on one partition, on a thread of the world's, and the hash tables of its operators have fixed seeds.
#[test]
fn a_whole_server_with_analytical_queries_replays_to_the_same_bytes() {
    for seed in 1001..=1002 {
        let tally = world(seed).run().unwrap_or_else(|failure| panic!("{failure}"));
        assert_eq!(world(seed).run(), Ok(tally));
    }
}

/// A canary: replies leave before what they tell of is durable, and the first sum after a power cut lacks it.
#[test]
fn sums_without_what_was_told_of_are_found() {
    let seeds = (1..=20).map(|seed| Whole { lying_log: true, ..world(seed) });
    let mut failures = seeds.filter_map(|whole| whole.run().err());
    assert!(failures.any(|failure| failure.what.contains("transfers are in the sum")));
}
