//! What is rolled up is what was metered, and comes back from its bytes.

use base::Nanos;
use proptest::prelude::*;

use super::*;
use crate::fixture::Draws;
use crate::meter::{Cause, Delays, OwnLimit};

const SECOND: Nanos = Nanos::from_secs(1);

fn ledger_row(draws: &mut Draws) -> LedgerRow {
    let resource = match draws.between(0, 4) {
        0 => Resource::Cpu,
        1 => Resource::Memory,
        2 => Resource::WorkMemory,
        _ => Resource::Io { volume: draws.between(0, 2) as u32 },
    };
    let from = Nanos(draws.between(0, 1 << 40));
    let missed = [0, draws.between(1, 1 << 30)][draws.between(0, 1) as usize];
    let some_limit = OwnLimit {
        held: draws.between(0, 1 << 30),
        debt: draws.between(0, 1 << 30),
        forgiven: draws.between(0, 1 << 30),
        awaited: draws.between(0, 1 << 30),
    };
    let own_limits = [OwnLimit::default(), OwnLimit::default(), some_limit];
    let delays = Delays {
        mean: Nanos(draws.between(0, 1000)),
        p50: Nanos(draws.between(0, 1000)),
        p95: Nanos(draws.between(0, 1000)),
        p99: Nanos(draws.between(0, 1000)),
        max: Nanos(draws.between(0, 1000)),
    };
    LedgerRow {
        tenant: TenantId(TenantId::FIRST_USER.0 + draws.between(0, 3)),
        resource,
        from,
        to: from + [SECOND, Nanos(draws.between(0, 1 << 34))][draws.between(0, 1) as usize],
        promised: draws.between(0, 1 << 30),
        demanded: draws.between(0, 1 << 30),
        given: draws.between(0, 1 << 30),
        missed,
        by_chance: 0,
        over: draws.between(0, 1 << 20),
        own_limit: own_limits[draws.between(0, 2) as usize],
        active: Nanos(draws.between(0, 1_000_000_000)),
        cause: (missed > 0).then(|| RollUpRow::CAUSES[draws.between(0, 3) as usize]),
        delays: (draws.between(0, 1) == 0).then_some(delays),
        owed_micros: missed * 3,
    }
}

/// Ledger rows with the minute they ended in, and samples.
fn some(seed: u64, count: u64) -> (Vec<(LedgerRow, WallMinute)>, Vec<(TenantId, Sampled, u64, WallMinute)>) {
    let mut draws = Draws(seed);
    let minute = |draws: &mut Draws| WallMinute(29_000_000 + draws.between(0, 150) as u32);
    let rows = (0..count).map(|_| (ledger_row(&mut draws), minute(&mut draws))).collect();
    let sample = |draws: &mut Draws| {
        let sampled = [Sampled::StatementTime, Sampled::WorkMemory][draws.between(0, 1) as usize];
        let tenant = TenantId(TenantId::FIRST_USER.0 + draws.between(0, 3));
        let amount = draws.next() >> draws.between(0, 63);
        (tenant, sampled, amount, minute(draws))
    };
    (rows, (0..count).map(|_| sample(&mut draws)).collect())
}

fn histogram(amounts: &[u64]) -> SparseHistogram {
    let mut histogram = SparseHistogram::default();
    amounts.iter().for_each(|amount| histogram.record(*amount));
    histogram
}

fn rolled_up(rows: &[(LedgerRow, WallMinute)], samples: &[(TenantId, Sampled, u64, WallMinute)]) -> RollUp {
    let mut roll_up = RollUp::default();
    rows.iter().for_each(|(row, minute)| roll_up.add(row, *minute));
    for (tenant, sampled, amount, minute) in samples {
        roll_up.add_samples(*tenant, *sampled, &histogram(&[*amount]), *minute);
    }
    roll_up
}

#[test]
fn a_minute_has_the_sums_and_the_worst_of_its_intervals() {
    let tenant = TenantId::FIRST_USER;
    let row = |given, missed, delay, to| LedgerRow {
        tenant,
        resource: Resource::Cpu,
        from: Nanos(0),
        to,
        promised: 500,
        demanded: 300,
        given,
        missed,
        by_chance: 0,
        over: 1,
        own_limit: OwnLimit::default(),
        active: Nanos(400),
        cause: (missed > 0).then_some(Cause::Neighbour),
        delays: Some(Delays { p99: Nanos(delay), max: Nanos(10 - delay), ..Delays::default() }),
        owed_micros: 2 * missed,
    };
    let mut roll_up = RollUp::default();
    for row in [row(100, 20, 3, SECOND), row(300, 0, 7, SECOND), row(90, 7, 5, Nanos(500_000_000))] {
        roll_up.add(&row, WallMinute(70));
    }
    let block = roll_up.take_ended(WallMinute(71));
    let [row] = &block.rows[..] else { panic!("{block:?}") };
    assert_eq!((row.tenant, row.from, row.minutes, row.intervals), (tenant, WallMinute(70), 1, 3));
    assert_eq!((row.promised, row.demanded, row.given, row.missed, row.over), (1500, 900, 490, 27, 3));
    assert_eq!((row.covered, row.active), (Nanos(2_500_000_000), Nanos(1200)));
    assert_eq!(
        (row.owed_micros, row.missed_max, row.broken, row.intervals_broken()),
        (54, 20, [0, 0, 2, 0], 2)
    );
    let worst = row.delays_worst.expect("there were delays");
    assert_eq!((worst.p99, worst.max), (Nanos(7), Nanos(7)), "the worst of each figure, for itself");
    // By the second: 100, 300 and twice 90; it had a task for longer than that.
    assert_eq!(row.given_rates, histogram(&[100, 300, 180]));
    assert_eq!(row.wanted_rates, histogram(&[400, 400, 800]));
}

#[test]
fn the_present_minute_stays_and_those_after_it_do_not() {
    let (rows, _) = some(1, 3);
    let minutes = [WallMinute(10), WallMinute(11), WallMinute(12)];
    let mut roll_up = RollUp::default();
    rows.iter().zip(minutes).for_each(|((row, _), minute)| roll_up.add(row, minute));
    let from = |block: RollUpBlock| {
        let mut from: Vec<u32> = block.rows.iter().map(|row| row.from.0).collect();
        from.sort_unstable();
        from
    };
    assert_eq!(
        from(roll_up.take_ended(WallMinute(11))),
        [10, 12],
        "12 is from before the clock was set back"
    );
    assert!(roll_up.take_ended(WallMinute(11)).is_empty());
    assert_eq!(from(roll_up.take_all()), [11]);
}

#[test]
fn a_dropped_tenant_is_forgotten() {
    let (rows, samples) = some(2, 100);
    let tenant = rows[0].0.tenant;
    let mut roll_up = rolled_up(&rows, &samples);
    let mut block = rolled_up(&rows, &samples).take_all();
    roll_up.forget(tenant);
    block.forget(tenant);
    assert!(!block.is_empty() && block.rows.iter().all(|row| row.tenant != tenant));
    assert_eq!(roll_up.take_all(), block);
}

#[test]
fn sizes_are_what_the_format_says() {
    let quiet = |given| LedgerRow {
        tenant: TenantId::FIRST_USER,
        resource: Resource::Cpu,
        from: Nanos(0),
        to: SECOND,
        promised: 500_000_000,
        demanded: 3_000_000,
        given,
        missed: 0,
        by_chance: 0,
        over: 0,
        own_limit: OwnLimit::default(),
        active: Nanos(given),
        cause: None,
        delays: None,
        owed_micros: 0,
    };
    let bytes_of = |givens: &mut dyn Iterator<Item = u64>, apart: u64| {
        let mut roll_up = RollUp::default();
        for given in givens {
            let active = Nanos(given + apart);
            roll_up.add(&LedgerRow { active, ..quiet(given) }, WallMinute(29_000_000));
        }
        roll_up.take_all().encode().len()
    };
    let steady = bytes_of(&mut (0..60).map(|n| 3_000_000 + n * 1000), 0);
    let wild = bytes_of(&mut (1..=60).map(|n| n * n * 250_000), 30_000_000);
    println!("steady {steady}, wild {wild}");
    assert!(steady <= 64, "{steady}");
    assert!(wild <= 350, "{wild}");
}

#[test]
fn a_stretch_grows_to_have_both() {
    let (rows, _) = some(3, 1);
    let of_minute = |minute| {
        let mut roll_up = RollUp::default();
        roll_up.add(&rows[0].0, WallMinute(minute));
        roll_up.take_all().rows.remove(0)
    };
    for (first, second) in [(5, 3), (3, 5)] {
        let mut row = of_minute(first);
        row.merge(&of_minute(second));
        assert_eq!((row.from, row.minutes, row.intervals), (WallMinute(3), 3, 2));
    }
}

#[test]
fn blocks_without_own_limits_are_of_the_version_before() {
    let (mut rows, _) = some(3, 2);
    let block_of = |rows: &[(LedgerRow, WallMinute)]| rolled_up(rows, &[]).take_all();
    rows.iter_mut().for_each(|(row, _)| row.own_limit = OwnLimit::default());
    let plain = block_of(&rows).encode();
    assert_eq!(plain[0], 1);
    rows[0].0.own_limit = OwnLimit { held: 1, debt: 2, forgiven: 3, awaited: 4 };
    let block = block_of(&rows);
    let bytes = block.encode();
    assert_eq!(bytes[0], 2);
    assert_eq!(RollUpBlock::decode(&bytes), Ok(block));
    let [one, other] = [7, 1].map(|held| OwnLimit { held, debt: 9 - held, ..OwnLimit::default() });
    assert_eq!(one.and(other), OwnLimit { held: 8, debt: 8, ..OwnLimit::default() }, "the larger debt");
}

#[test]
fn other_versions_are_told_from_damage() {
    assert_eq!(RollUpBlock::decode(&[3, 0, 0]), Err(RollUpError::Version { found: 3 }));
    assert_eq!(
        RollUpBlock::decode(&[2, 0, 0]),
        Err(RollUpError::Damaged { offset: 3 }),
        "nothing is told of a limit"
    );
    assert_eq!(RollUpBlock::decode(&[]), Err(RollUpError::Damaged { offset: 0 }));
    assert_eq!(RollUpBlock::decode(&[1, 0, 0]), Ok(RollUpBlock::default()));
    assert_eq!(RollUpBlock::decode(&[1, 0, 0, 0]), Err(RollUpError::Damaged { offset: 3 }));
    assert_eq!(
        RollUpBlock::decode(&[1, 0x80, 0, 0]),
        Err(RollUpError::Damaged { offset: 3 }),
        "a number has one form"
    );
}

/// The sums of a block by tenant and resource, and of samples by tenant and kind.
fn totals(block: RollUpBlock) -> RollUpBlock {
    RollUpBlock::merged([block], u32::MAX)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Sums are those of the ledger's rows, recomputed another way; nothing is counted twice or lost, however it is cut into minutes.
    #[test]
    fn sums_are_those_of_the_ledger(seed in any::<u64>(), count in 0..150u64) {
        let (rows, samples) = some(seed, count);
        let block = rolled_up(&rows, &samples).take_all();
        prop_assert_eq!(block.rows.iter().map(|row| row.intervals).sum::<u64>(), count);
        for row in &block.rows {
            let of_row: Vec<&LedgerRow> = rows
                .iter()
                .filter(|(other, minute)| (other.tenant, other.resource, *minute) == (row.tenant, row.resource, row.from))
                .map(|(other, _)| other)
                .collect();
            let sum = |of: fn(&LedgerRow) -> u64| of_row.iter().map(|row| of(row)).sum::<u64>();
            prop_assert_eq!(row.promised, sum(|row| row.promised));
            prop_assert_eq!(row.demanded, sum(|row| row.demanded));
            prop_assert_eq!(row.given, sum(|row| row.given));
            prop_assert_eq!(row.missed, sum(|row| row.missed));
            prop_assert_eq!(row.over, sum(|row| row.over));
            prop_assert_eq!(row.owed_micros, sum(|row| row.owed_micros));
            prop_assert_eq!(row.active.0, sum(|row| row.active.0));
            prop_assert_eq!(row.covered.0, sum(|row| (row.to - row.from).0));
            prop_assert_eq!(row.missed_max, of_row.iter().map(|row| row.missed).max().unwrap());
            for (place, cause) in RollUpRow::CAUSES.iter().enumerate() {
                let broken = of_row.iter().filter(|row| row.cause == Some(*cause)).count();
                prop_assert_eq!(row.broken[place], broken as u64);
            }
            prop_assert!(row.is_consistent());
        }
        prop_assert_eq!(block.samples.iter().map(|row| row.amounts.count()).sum::<u64>(), count);
    }

    /// However the rows come, in however many blocks, and whether hours are made of minutes or at once: the same.
    #[test]
    fn merging_is_exact_in_any_order(seed in any::<u64>(), cut in 0..100usize, turn in 0..100usize) {
        let (mut rows, mut samples) = some(seed, 100);
        let whole = rolled_up(&rows, &samples).take_all();
        rows.rotate_left(turn);
        samples.rotate_left(turn);
        let parts = [
            rolled_up(&rows[cut..], &samples[..cut]).take_all(),
            rolled_up(&rows[..cut], &samples[cut..]).take_all(),
        ];
        prop_assert_eq!(&RollUpBlock::merged(parts.clone(), 1), &whole);
        let by_hour = RollUpBlock::merged([whole.clone()], 60);
        prop_assert_eq!(&RollUpBlock::merged(parts.map(|part| RollUpBlock::merged([part], 60)), 60), &by_hour);
        prop_assert!(by_hour.rows.iter().all(|row| row.from.0 % 60 == 0 && row.minutes == 60));
        prop_assert!(by_hour.samples.iter().all(|row| row.from.0 % 60 == 0 && row.minutes == 60));
        prop_assert_eq!(totals(by_hour), totals(whole));
    }

    #[test]
    fn blocks_come_back_from_their_bytes(seed in any::<u64>(), count in 0..60u64, minutes in 1..200u32) {
        let (rows, samples) = some(seed, count);
        let block = RollUpBlock::merged([rolled_up(&rows, &samples).take_all()], minutes);
        prop_assert_eq!(RollUpBlock::decode(&block.encode()), Ok(block));
    }

    /// Damage is refused, or is another block, whole in itself: whoever stores it has a checksum. It never panics.
    #[test]
    fn damaged_bytes_are_refused_or_another_block(seed in any::<u64>(), at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<bool>()) {
        let (rows, samples) = some(seed, 10);
        let mut bytes = rolled_up(&rows, &samples).take_all().encode();
        let at = at.index(bytes.len());
        if cut {
            bytes.truncate(at);
            prop_assert!(RollUpBlock::decode(&bytes).is_err());
        } else {
            bytes[at] = byte;
            if let Ok(block) = RollUpBlock::decode(&bytes) {
                prop_assert_eq!(block.encode(), bytes, "bytes have one form");
            }
        }
    }

    #[test]
    fn any_bytes_are_refused_or_a_block(mut bytes in prop::collection::vec(any::<u8>(), 0..200), version in 1..=2u8) {
        bytes.insert(0, version);
        if let Ok(block) = RollUpBlock::decode(&bytes) {
            prop_assert_eq!(block.encode(), bytes);
        }
    }

    #[test]
    fn sums_stay_at_the_largest_there_is(seed in any::<u64>()) {
        let (rows, _) = some(seed, 1);
        let huge = LedgerRow { given: u64::MAX, owed_micros: u64::MAX, missed: u64::MAX, active: Nanos(u64::MAX), ..rows[0].0 };
        let mut roll_up = RollUp::default();
        (0..3).for_each(|_| roll_up.add(&huge, WallMinute(0)));
        let mut block = roll_up.take_all();
        let again = block.rows[0].clone();
        block.rows[0].merge(&again);
        prop_assert_eq!((block.rows[0].given, block.rows[0].owed_micros, block.rows[0].intervals), (u64::MAX, u64::MAX, 6));
        prop_assert_eq!(RollUpBlock::decode(&block.encode()), Ok(block));
    }
}
