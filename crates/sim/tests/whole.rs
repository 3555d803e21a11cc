//! Whole servers at the size of a test run; `cargo run --release -p sim -- --whole` runs more.

use sim::Tally;
use sim::whole::{Governed, Kept, Promised, Whole};

#[test]
fn nothing_a_client_was_told_is_lost_by_a_whole_server() {
    let mut total = Tally::default();
    for seed in 1..=200 {
        total.add(&Whole::of(seed).run().unwrap_or_else(|failure| panic!("{failure}")));
    }
    assert!(total.ended_in_recovery > 10 && total.with_faults > 25, "{total}");
    assert!(total.acknowledged > 10_000 && total.tenants_checked > 1000, "{total}");
    assert!(total.moves > 500 && total.bulk > 0, "{total}");
}

/// Whatever its clients are amid: statements, transactions, copies, logins.
#[test]
fn a_whole_server_ends_in_order_amid_the_work_of_its_clients() {
    let mut total = Tally::default();
    for seed in 1..=25 {
        let whole = Whole { stopped_percent: 100, ..Whole::of(seed) };
        total.add(&whole.run().unwrap_or_else(|failure| panic!("{failure}")));
    }
    assert!(total.lives == 75 && total.acknowledged > 50, "{total}");
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

/// Worlds of these seeds keep what they promise.
fn kept(promised: Promised, seeds: impl Iterator<Item = u64>) -> Kept {
    let mut total = Kept::default();
    for seed in seeds {
        let kept = Governed { seed, promised, keeps_nothing: false }.run();
        total.add(&kept.unwrap_or_else(|failure| panic!("{failure}")));
    }
    total
}

/// Of worlds of these seeds in which no promise is kept, those where that is found.
fn found(promised: Promised, seeds: impl Iterator<Item = u64>) -> usize {
    let failures = seeds.filter_map(|seed| Governed { seed, promised, keeps_nothing: true }.run().err());
    failures.filter(|failure| failure.what.contains("missed its promise")).count()
}

#[test]
fn promises_of_processor_time_are_kept_by_a_whole_server_and_the_ledger_says_so() {
    let total = kept(Promised::Processor, 1..=8);
    assert!(total.intervals > 80 && total.full > 15 && total.limited > 5, "{total:?}");
    assert!(found(Promised::Processor, 1..=8) > 0);
}

#[test]
fn who_floods_the_servers_own_tenant_breaks_no_promise() {
    let total = kept(Promised::Flooded, 1..=3);
    assert!(total.intervals > 15 && total.full > 1, "{total:?}");
}

#[test]
fn a_neighbour_that_commits_a_megabyte_at_a_time_breaks_no_promise() {
    let total = kept(Promised::LargeCommits, 1..=3);
    assert!(total.intervals > 15 && total.full > 1, "{total:?}");
}

#[test]
fn promises_of_io_are_kept_by_a_whole_server_and_the_ledger_says_so() {
    let total = kept(Promised::Io, 1..=4);
    assert!(total.intervals > 80 && total.full > 15 && total.limited > 5, "{total:?}");
    assert!(found(Promised::Io, 1..=2) > 0);
}

#[test]
fn promises_of_memory_are_kept_by_a_whole_server_and_the_ledger_says_so() {
    let total = kept(Promised::Memory, 1..=3);
    assert!(total.intervals > 5 && total.full > 5, "{total:?}");
    assert!(found(Promised::Memory, [3, 5].into_iter()) > 0);
}

#[test]
fn what_one_tenants_statements_hold_is_in_nobodys_way() {
    let total = kept(Promised::Room, 1..=4);
    assert!(total.intervals > 400 && total.full > 100, "{total:?}");
    let unshared = (3..=4).map(|seed| Governed { seed, promised: Promised::Room, keeps_nothing: true });
    assert!(unshared.filter_map(|world| world.run().err()).any(|failure| failure.what.contains("took")));
}

#[test]
fn nobodys_upkeep_waits_for_another_ones_limits() {
    // In the fifth one comes to have more changed pages than its memory_max while it reads.
    let total = kept(Promised::Upkeep, [1, 2, 5].into_iter());
    assert!(total.intervals > 30 && total.full > 20 && total.limited > 5, "{total:?}");
}

#[test]
fn altered_limits_hold_what_runs_and_waits_within_a_tenth_of_a_second() {
    let total = kept(Promised::Altered, 1..=3);
    assert!(total.intervals > 15 && total.limited > 8 && total.full > 5, "{total:?}");
    // Where limits are not held, that is found.
    let unheld = (1..=3).map(|seed| Governed { seed, promised: Promised::Altered, keeps_nothing: true });
    assert!(
        unheld
            .filter_map(|world| world.run().err())
            .any(|failure| failure.what.contains("more than a limit"))
    );
}
