//! Histories of concurrent transactions through power cuts, held against each isolation level.

use sim::histories::{Histories, Lists, Registers};
use sim::isolation::Level;
use sim::{Acknowledge, Campaign, Failure, Tally, plan};

const LEVELS: [Level; 3] = [Level::ReadCommitted, Level::RepeatableRead, Level::Serializable];

/// Even seeds work on lists, odd ones on registers.
fn run(seed: u64, level: Level, promised: Level, acknowledge: Acknowledge) -> Result<Tally, Failure> {
    let campaign = Campaign { tenants: 1, acknowledge, ..plan::campaign(seed) };
    match seed % 2 {
        0 => campaign.run(Histories::<Lists>::promised(level, promised)),
        _ => campaign.run(Histories::<Registers>::promised(level, promised)),
    }
}

#[test]
fn no_level_shows_an_anomaly_that_it_excludes() {
    let mut total = Tally::default();
    for seed in 1..=72 {
        let level = LEVELS[(seed / 2 % 3) as usize];
        let tally =
            run(seed, level, level, Acknowledge::WhenDurable).unwrap_or_else(|f| panic!("{level:?}: {f}"));
        total.add(&tally);
    }
    assert!(total.acknowledged > 3000, "{total}");
}

/// Runs histories of a server that gives less than it promises until one is caught, for lists and for registers.
fn caught(level: Level, promised: Level, acknowledge: Acknowledge) -> [String; 2] {
    [0, 1].map(|kind| {
        let seeds = (1..=50).map(|n| 2 * n + kind);
        let mut failures = seeds.filter_map(|seed| run(seed, level, promised, acknowledge).err());
        failures.next().expect("the broken promise is found").what
    })
}

#[test]
fn serializable_without_validation_is_found() {
    // A SERIALIZABLE transaction whose reads are not validated is a REPEATABLE READ one.
    for what in caught(Level::RepeatableRead, Level::Serializable, Acknowledge::WhenDurable) {
        assert!(what.contains("G2Item"), "{what}");
    }
}

#[test]
fn repeatable_read_without_a_snapshot_is_found() {
    for what in caught(Level::ReadCommitted, Level::RepeatableRead, Acknowledge::WhenDurable) {
        assert!(what.contains("GSingle") || what.contains("Internal"), "{what}");
    }
}
