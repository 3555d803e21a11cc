//! What is advised is enough for what is on record, and says of it no more than is there.

use proptest::prelude::*;

use super::*;
use crate::fixture::{Draws, tenant_id};
use crate::meter::{LedgerRow, OwnLimit, RollUp, WallMinute};

const SECOND: Nanos = Nanos::from_secs(1);
const MILLI: u64 = 1_000_000;

fn row(resource: Resource, given: u64, missed: u64, active: u64) -> LedgerRow {
    LedgerRow {
        tenant: tenant_id(0),
        resource,
        from: Nanos(0),
        to: SECOND,
        promised: 0,
        demanded: 0,
        given,
        missed,
        by_chance: 0,
        over: 0,
        own_limit: OwnLimit::default(),
        active: Nanos(active),
        cause: None,
        delays: None,
        owed_micros: 0,
    }
}

/// An interval of processor time: thousandths of a core given, and with a task.
fn cpu(given: u64, active: u64) -> LedgerRow {
    row(Resource::Cpu, given * MILLI, 0, active * MILLI)
}

/// 60 ledger rows a minute.
fn roll_up(rows: &[LedgerRow]) -> Vec<RollUpRow> {
    let mut roll_up = RollUp::default();
    rows.iter().zip(0u32..).for_each(|(row, n)| roll_up.add(row, WallMinute(n / 60)));
    roll_up.take_all().rows
}

fn samples(sampled: Sampled, amounts: &[(u32, u64)]) -> Vec<SampleRow> {
    let mut roll_up = RollUp::default();
    for (minute, amount) in amounts {
        let mut one = SparseHistogram::default();
        one.record(*amount);
        roll_up.add_samples(tenant_id(0), sampled, &one, WallMinute(*minute));
    }
    roll_up.take_all().samples
}

fn record(rows: &[LedgerRow], samples: &[SampleRow], cache: &[CachePoint]) -> DemandRecord {
    DemandRecord::new(tenant_id(0), &roll_up(rows), samples, cache)
}

fn advised(record: &DemandRecord, goal: Goal, sizes: &[Promise]) -> Advice {
    advise(record, &goal, &Promise::default(), sizes).expect("something is on record")
}

fn size(cores: u32, iops: u64) -> Promise {
    let mut promise = Promise::default();
    promise.cpu.reserved = MilliCores(cores);
    promise.io.iops = iops;
    promise
}

#[test]
fn nothing_is_advised_from_nothing() {
    assert_eq!(advise(&record(&[], &[], &[]), &Goal::default(), &Promise::default(), &[]), None);
    let others = roll_up(&[cpu(500, 500)]);
    let record = DemandRecord::new(tenant_id(1), &others, &[], &[]);
    assert_eq!(
        advise(&record, &Goal::default(), &Promise::default(), &[]),
        None,
        "another tenant's rows are not its own"
    );
}

#[test]
fn the_percentile_of_what_was_wanted_is_proposed() {
    // 99 intervals of at most 0.43 cores, once a whole one.
    let mut rows = vec![cpu(100, 100); 49];
    rows.extend([cpu(431, 431); 50]);
    rows.push(cpu(1000, 1000));
    rows.extend([row(Resource::Io { volume: 0 }, 10, 0, 1), row(Resource::Io { volume: 1 }, 150, 60, 1)]);
    let record = record(&rows, &[], &[]);
    let advice = advised(&record, Goal::default(), &[]);
    assert_eq!(record.intervals(), 100);
    let cores = advice.promise.cpu.reserved.0;
    assert!((431..=431 * 17 / 16 + 10).contains(&cores) && cores.is_multiple_of(10), "{cores}");
    assert!(
        (210..=230).contains(&advice.promise.io.iops),
        "of the volume that wanted most, {}",
        advice.promise.io.iops
    );
    assert!(advice.assessment.is_enough());
    let all = advised(&record, Goal { part: 1.0, ..Goal::default() }, &[]);
    assert_eq!(all.promise.cpu.reserved, MilliCores(1000));
    let short = advice.assessment.cpu;
    assert_eq!((short.intervals_min, short.intervals_max, short.of), (1, 1, 100));
    assert!(short.missing_max <= 600 * MILLI && short.missing_min >= 400 * MILLI, "{short:?}");
}

#[test]
fn a_tenant_that_waited_wanted_more_than_it_got() {
    let advice = advised(&record(&[cpu(100, 800); 50], &[], &[]), Goal::default(), &[size(400, 0)]);
    assert!(advice.promise.cpu.reserved >= MilliCores(800), "{:?}", advice.promise.cpu.reserved);
    let small = &advice.sizes[0];
    assert_eq!(
        (small.cpu.intervals_min, small.cpu.intervals_max),
        (0, 50),
        "at least by what it got, at most by what it wanted"
    );
    assert!(!small.is_enough());
}

#[test]
fn the_smallest_size_that_is_enough_is_picked() {
    let mut rows = vec![cpu(300, 300); 100];
    rows.extend([row(Resource::Io { volume: 0 }, 100, 0, 1); 100]);
    let sizes = [size(4000, 1000), size(250, 1000), size(1000, 50), size(500, 120), size(500, 500)];
    let advice = advised(&record(&rows, &[], &[]), Goal::default(), &sizes);
    assert_eq!(advice.size, Some(3));
    assert_eq!(
        advice.sizes.iter().map(|size| size.is_enough()).collect::<Vec<_>>(),
        [true, false, false, true, true]
    );
    assert_eq!(advice.sizes[1].cpu.intervals_min, 100);
    assert_eq!(advice.sizes[2].io[0].1.intervals_min, 100);
    assert_eq!(advised(&record(&rows, &[], &[]), Goal::default(), &sizes[1..3]).size, None);
}

#[test]
fn what_is_too_little_is_named_and_memory_not_on_record_stays_as_it_is() {
    let mut rows = vec![cpu(300, 300); 100];
    rows.extend([row(Resource::Io { volume: 0 }, 100, 0, 1); 100]);
    let mut present = size(200, 50);
    present.memory.memory = ByteCount::from_mib(64);
    present.memory.work_memory = ByteCount::from_mib(8);
    let advice = advise(&record(&rows, &[], &[]), &Goal::default(), &present, &[size(300, 50)]).unwrap();
    assert_eq!(advice.present.too_little, [TooLittle::Cpu, TooLittle::Iops]);
    assert_eq!(advice.sizes[0].too_little, [TooLittle::Iops]);
    assert_eq!(advice.promise.memory, present.memory);
    assert!(advice.assessment.is_enough());
    let used = samples(Sampled::WorkMemory, &[(0, 9 << 20)]);
    let point = |mib, ios| CachePoint { memory: ByteCount::from_mib(mib), ios };
    let cache = [point(64, 9_000), point(128, 10)];
    let advice = advise(&record(&rows, &used, &cache), &Goal::default(), &present, &[]).unwrap();
    use TooLittle::*;
    assert_eq!(advice.present.too_little, [Cpu, Iops, Memory, WorkMemory]);
    assert_eq!(advice.promise.memory.memory, ByteCount::from_mib(128));
    assert!(advice.promise.memory.work_memory >= ByteCount::from_mib(9));
}

#[test]
fn the_smallest_cache_near_the_largest_is_proposed() {
    let point = |mib, ios| CachePoint { memory: ByteCount::from_mib(mib), ios };
    let cache = [point(512, 1000), point(64, 90_000), point(256, 1050), point(128, 1051)];
    let record = record(&[cpu(1, 1)], &[], &cache);
    let mut small = size(1000, 0);
    small.memory.memory = ByteCount::from_mib(200);
    let advice = advised(&record, Goal::default(), &[small, size(1000, 0)]);
    assert_eq!(advice.promise.memory.memory, ByteCount::from_mib(256));
    assert_eq!(advice.assessment.cache_excess, Some(50));
    assert_eq!((advice.sizes[0].cache_excess, advice.sizes[0].is_enough()), (Some(51), false));
    assert_eq!((advice.sizes[1].cache_excess, advice.sizes[1].is_enough()), (None, false), "below the curve");
}

#[test]
fn working_memory_is_enough_for_the_part_of_the_statements() {
    let amounts: Vec<_> = (1..=100).map(|n| (0, n << 20)).collect();
    let record = record(&[cpu(1, 1)], &samples(Sampled::WorkMemory, &amounts), &[]);
    let mut small = size(1000, 0);
    small.memory.work_memory = ByteCount::from_mib(50);
    let advice = advised(&record, Goal { part: 0.9, ..Goal::default() }, &[small]);
    let proposed = advice.promise.memory.work_memory;
    assert!((ByteCount::from_mib(90)..=ByteCount::from_mib(106)).contains(&proposed), "{proposed}");
    let (over, of) = advice.sizes[0].work_memory;
    assert!((50..=53).contains(&over) && of == 100, "{over}");
    assert!(!advice.sizes[0].is_enough() && advice.assessment.is_enough());
}

/// A tenant with so many minutes of each (share in thousandths, milliseconds of its statements).
fn with_shares(of: &[(u64, u64, u32)]) -> DemandRecord {
    let (mut rows, mut times, mut minute) = (RollUp::default(), Vec::new(), 0);
    for (share, ms, minutes) in of {
        for _ in 0..*minutes {
            rows.add(&cpu(*share / 10, 100), WallMinute(minute));
            times.extend([(minute, ms * MILLI), (minute, ms * MILLI / 2)]);
            minute += 1;
        }
    }
    DemandRecord::new(tenant_id(0), &rows.take_all().rows, &samples(Sampled::StatementTime, &times), &[])
}

#[test]
fn a_goal_is_reached_with_the_smallest_share_that_was_enough() {
    let share = |of: &[(u64, u64, u32)], ms| {
        let goal = Goal { statement_p99: Some(Nanos(ms * MILLI)), ..Goal::default() };
        advised(&with_shares(of), goal, &[size(250, 0), size(650, 0)])
    };
    let three = [(300, 11, 30), (900, 4, 30), (600, 5, 30)];
    let advice = share(&three, 6);
    assert_eq!(advice.share_for_goal, Some(ShareForGoal::Enough(MilliCores(600))));
    assert_eq!(advice.promise.cpu.reserved, MilliCores(600), "more than its demand of 0.1 cores");
    assert_eq!(
        advice.sizes.iter().map(|size| size.keeps_goal).collect::<Vec<_>>(),
        [Some(false), Some(true)]
    );
    assert_eq!(advice.size, Some(1));
    let advice = share(&three, 12);
    assert_eq!(advice.share_for_goal, Some(ShareForGoal::AllEnough(MilliCores(300))));
    assert_eq!(advice.sizes.iter().map(|size| size.keeps_goal).collect::<Vec<_>>(), [None, Some(true)]);
    assert_eq!(advice.size, Some(0), "what is not known does not count against a size");
    let advice = share(&three, 3);
    assert_eq!(advice.share_for_goal, Some(ShareForGoal::NotForWantOfCpu));
    assert_eq!((advice.promise.cpu.reserved, advice.size), (MilliCores(100), None), "of no use to the goal");
    let advice = share(&[(900, 4, 29)], 3);
    assert_eq!(advice.share_for_goal, Some(ShareForGoal::TooLittleOnRecord));
    assert_eq!(advice.assessment.keeps_goal, None);
}

#[test]
fn hours_say_nothing_of_shares() {
    let rows = with_shares(&[(900, 4, 60)]);
    assert_eq!(rows.minutes.len(), 60);
    let mut hour = roll_up(&[cpu(90, 100)]);
    hour[0].minutes = 60;
    let times = samples(Sampled::StatementTime, &[(0, MILLI)]);
    assert!(DemandRecord::new(tenant_id(0), &hour, &times, &[]).minutes.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The promise that is advised is enough by its own assessment, whatever is on record and for whatever part.
    #[test]
    fn what_is_advised_is_enough(seed in any::<u64>(), count in 1..200usize, part in 0.01..=1.0f64) {
        let mut draws = Draws(seed);
        let rows: Vec<LedgerRow> = (0..count).map(|_| {
            let given = draws.between(0, 4_000);
            match draws.between(0, 2) {
                0 => cpu(given, draws.between(0, 1000)),
                volume => row(Resource::Io { volume: volume as u32 }, given, draws.between(0, 50), 1),
            }
        }).collect();
        let amounts: Vec<_> = (0..count).map(|_| (0, draws.next() >> draws.between(20, 60))).collect();
        let record = record(&rows, &samples(Sampled::WorkMemory, &amounts), &[CachePoint { memory: ByteCount(draws.between(1, 1 << 40)), ios: draws.between(0, 9) }]);
        let goal = Goal { part, ..Goal::default() };
        if let Some(advice) = advise(&record, &goal, &Promise::default(), &[]) {
            prop_assert!(advice.assessment.is_enough(), "{:?}", advice);
            // And it reads as a promise.
            let mut again = Promise::default();
            for key in crate::PromiseKey::ALL {
                again.set(key.as_str(), &advice.promise.get(*key)).unwrap();
            }
            prop_assert_eq!(again, advice.promise);
        }
    }

    /// Shortfalls hold what the ledger's rows say themselves between their bounds, which are a sixteenth apart where nobody waited.
    #[test]
    fn shortfalls_have_the_truth_between_them(seed in any::<u64>(), count in 1..200usize, promised in 0..1200u64) {
        let mut draws = Draws(seed);
        let rows: Vec<LedgerRow> = (0..count).map(|_| {
            let given = draws.between(0, 1000);
            cpu(given, given.max(draws.between(0, 1) * draws.between(0, 1000)))
        }).collect();
        let short = advised(&record(&rows, &[], &[]), Goal::default(), &[size(promised as u32, 0)]).sizes[0].cpu;
        let promised = promised * MILLI;
        let exceeded = |of: &dyn Fn(&LedgerRow) -> u64| {
            let over: Vec<u64> = rows.iter().map(of).filter(|rate| *rate > promised).collect();
            (over.len() as u64, over.iter().map(|rate| rate - promised).sum::<u64>())
        };
        let (given, wanted) = (exceeded(&|row| row.given), exceeded(&|row| row.given.max(row.active.0)));
        prop_assert!(short.intervals_min <= given.0 && wanted.0 <= short.intervals_max);
        prop_assert!(short.missing_min <= given.1 && wanted.1 <= short.missing_max);
        let (less, more) = (exceeded(&|row| row.given - row.given / 16), exceeded(&|row| row.given.max(row.active.0) / 16 * 17 + 16));
        prop_assert!(short.intervals_min >= less.0 && short.intervals_max <= more.0);
        prop_assert!(short.missing_min >= less.1.saturating_sub(count as u64) && short.missing_max <= more.1);
        prop_assert_eq!(short.of, count as u64);
    }
}
