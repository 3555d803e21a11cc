//! What to promise a tenant, from what it did.
//!
//! [`DemandRecord`] sums the rolled-up ledger of one tenant: how its demand was distributed over the metering intervals in which it had any. [`advise`] proposes a promise that is enough for a part of them
//! (99 % unless told otherwise), picks the smallest of the named sizes that is, and says of each candidate in how many intervals it would have been too little, and by how much in sum ([`Shortfall`]).
//!
//! | resource | what is recorded | what is proposed |
//! | --- | --- | --- |
//! | `cpu` | processor time of each interval: at least what was given, at most what was wanted ([`crate::RollUpRow::wanted_rates`]) | the percentile of what was wanted |
//! | `iops` | I/Os of each interval and volume, likewise | the largest percentile of any volume |
//! | `memory` | I/Os there would have been for each size of the cache, over the time of the curve | the smallest size with at most 5 % more than the largest has |
//! | `work_memory` | what each statement would have held to spill nothing | the percentile |
//!
//! Example: of 10,000 intervals 9,900 wanted at most 0.43 cores: 0.43 is proposed; `small` with 0.25 would have been too little in 700.
//!
//! *What is not known.* Demand that never came because the tenant was slow is not on record; where it waited for a core it counts as one task that waited. A rate is known to a sixteenth, so
//! figures are rounded up to two digits, and shortfalls have two bounds. What happened before it was recorded, and growth to come, are the reader's to judge.
//!
//! *A goal for the 99th percentile of its statements' times* ([`Goal::statement_p99`]) is related to the share of a core that the tenant got while it had something to do ([`latency`]). That is no model of a queue: it only says with which
//! share statements were fast enough, where such minutes are on record, and nothing where they are not.

mod latency;
mod shortfall;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use base::{ByteCount, Nanos, TenantId};

pub use latency::ShareForGoal;
pub use shortfall::Shortfall;

use crate::meter::{Resource, RollUpRow, SampleRow, Sampled, SparseHistogram};
use crate::promise::{MilliCores, Promise};
use latency::Minute;

/// How often a rate occurred, in two versions of what a tenant demanded.
#[derive(Clone, Default, Debug)]
struct Rates {
    given: SparseHistogram,
    wanted: SparseHistogram,
    /// Of all intervals together.
    covered: Nanos,
}

impl Rates {
    fn add(&mut self, row: &RollUpRow) {
        self.given.merge(&row.given_rates);
        self.wanted.merge(&row.wanted_rates);
        self.covered += row.covered;
    }

    fn shortfall(&self, promised: u64) -> Shortfall {
        Shortfall::of(&self.given, &self.wanted, promised, self.covered)
    }
}

/// I/Os that a cache of a size would have had, over the time that the curve is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CachePoint {
    pub memory: ByteCount,
    /// Reads and write-backs.
    pub ios: u64,
}

/// What a tenant did, as far as it is on record.
#[derive(Clone, Debug)]
pub struct DemandRecord {
    tenant: TenantId,
    cpu: Rates,
    io: BTreeMap<u32, Rates>,
    work_memory: SparseHistogram,
    /// By size.
    cache: Vec<CachePoint>,
    minutes: Vec<Minute>,
}

impl DemandRecord {
    /// I/Os more than with the largest cache that a proposed one may cost.
    pub const CACHE_EXCESS_PERCENT: u64 = 5;

    /// Sums rows of one tenant, in any order; those of other tenants are left out. `cache`: its cache-size curve, empty if there is none.
    pub fn new(
        tenant: TenantId,
        rows: &[RollUpRow],
        samples: &[SampleRow],
        cache: &[CachePoint],
    ) -> DemandRecord {
        let mut record = DemandRecord {
            tenant,
            cpu: Rates::default(),
            io: BTreeMap::new(),
            work_memory: SparseHistogram::default(),
            cache: cache.to_vec(),
            minutes: latency::minutes(tenant, rows, samples),
        };
        for row in rows.iter().filter(|row| row.tenant == tenant) {
            match row.resource {
                Resource::Cpu => record.cpu.add(row),
                Resource::Io { volume } => record.io.entry(volume).or_default().add(row),
                // Their baselines are for the promise of then: no demand for another.
                Resource::Memory | Resource::WorkMemory => {}
            }
        }
        let of_work = |row: &&SampleRow| row.tenant == tenant && row.sampled == Sampled::WorkMemory;
        samples.iter().filter(of_work).for_each(|row| record.work_memory.merge(&row.amounts));
        record.cache.sort_by_key(|point| point.memory);
        record
    }

    pub fn tenant(&self) -> TenantId {
        self.tenant
    }

    /// Intervals in which there was demand for processor time, or any was given.
    pub fn intervals(&self) -> u64 {
        self.cpu.given.count()
    }

    /// Minutes of which it is known how long statements took and which share of a core the tenant had.
    pub fn minutes_with_statements(&self) -> usize {
        self.minutes.len()
    }

    /// Cores that this part of the intervals wanted at most, a sixteenth too large at most.
    pub fn cpu_wanted(&self, part: f64) -> MilliCores {
        milli_cores(self.cpu.wanted.percentile(part))
    }

    /// I/Os a second that this part of the intervals wanted at most, of the volume that wanted most.
    pub fn iops_wanted(&self, part: f64) -> u64 {
        self.io.values().map(|rates| rates.wanted.percentile(part)).max().unwrap_or(0)
    }

    fn work_memory_wanted(&self, part: f64) -> ByteCount {
        ByteCount(self.work_memory.percentile(part))
    }

    /// The smallest cache that is almost as good as the largest; `None` without a curve.
    fn cache_wanted(&self) -> Option<ByteCount> {
        let fewest = self.cache.iter().map(|point| point.ios).min()?;
        let allowed = u128::from(fewest) * u128::from(100 + DemandRecord::CACHE_EXCESS_PERCENT) / 100;
        let enough = self.cache.iter().find(|point| u128::from(point.ios) <= allowed);
        enough.map(|point| point.memory)
    }

    /// I/Os that a cache of this size would have had more than the largest of the curve: of the largest size on it that is not larger; `None` where the
    /// curve begins above it.
    fn cache_excess(&self, memory: ByteCount) -> Option<u64> {
        let fewest = self.cache.iter().map(|point| point.ios).min()?;
        let known = self.cache.iter().rev().find(|point| point.memory <= memory)?;
        Some(known.ios - fewest)
    }
}

/// From processor time a second.
fn milli_cores(rate: u64) -> MilliCores {
    MilliCores(u32::try_from(rate.div_ceil(1_000_000)).unwrap_or(u32::MAX))
}

/// What the tenant is to have.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Goal {
    /// The part of the intervals, and of the statements that need working memory, for which the promise is to be enough. Default 0.99.
    pub part: f64,
    /// 99 of 100 statements are to take no longer; `None`: no matter.
    pub statement_p99: Option<Nanos>,
}

impl Default for Goal {
    fn default() -> Goal {
        Goal { part: 0.99, statement_p99: None }
    }
}

/// What a promise would have been too little for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Assessment {
    /// In core-nanoseconds.
    pub cpu: Shortfall,
    /// In I/Os, by volume.
    pub io: Vec<(u32, Shortfall)>,
    /// I/Os more than with the largest cache on record; `None` where that is not known.
    pub cache_excess: Option<u64>,
    /// Statements that would have needed more working memory, and those that needed any.
    pub work_memory: (u64, u64),
    /// Whether the share of a core was enough for the goal; `None` without one, or where that is not known.
    pub keeps_goal: Option<bool>,
    /// What of it is not enough for the part that was asked for, in this order. What is not known does not count against it.
    pub too_little: Vec<TooLittle>,
}

impl Assessment {
    /// Whether it is enough in all of it.
    pub fn is_enough(&self) -> bool {
        self.too_little.is_empty()
    }
}

/// What of a promise is too little.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TooLittle {
    Cpu,
    Iops,
    Memory,
    WorkMemory,
    /// The share of a core, for the goal.
    StatementP99,
}

/// What is advised.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Advice {
    /// Only what is reserved is set; limits, weights and the rest are the default. Of which memory nothing is on record, it is as much as at
    /// present.
    pub promise: Promise,
    pub assessment: Assessment,
    /// Of what is promised at present.
    pub present: Assessment,
    /// Of each named size, in the order they were given.
    pub sizes: Vec<Assessment>,
    /// The index of the smallest size that is enough: the least processor time, then I/O, then memory.
    pub size: Option<usize>,
    /// How the goal was reached, if there was one.
    pub share_for_goal: Option<ShareForGoal>,
}

/// Advises a promise and one of the named sizes, to a tenant that is promised `present` now. `None` if nothing is on record. The same record gives the
/// same advice.
///
/// # Panics
///
/// If the goal's part is not above 0 and at most 1.
pub fn advise(record: &DemandRecord, goal: &Goal, present: &Promise, sizes: &[Promise]) -> Option<Advice> {
    assert!(goal.part > 0.0 && goal.part <= 1.0, "{goal:?}");
    if record.intervals() == 0 && record.io.is_empty() {
        return None;
    }
    let share_for_goal = goal.statement_p99.map(|p99| latency::share_for(&record.minutes, p99));
    let share = share_for_goal.and_then(ShareForGoal::share).unwrap_or(MilliCores(0));
    let mut promise = Promise::default();
    let cores = two_digits(u64::from(record.cpu_wanted(goal.part).max(share).0));
    promise.cpu.reserved = MilliCores((cores as u32).min(MilliCores::MAX.0));
    promise.io.iops = two_digits(record.iops_wanted(goal.part));
    promise.memory.memory = record.cache_wanted().unwrap_or(present.memory.memory);
    promise.memory.work_memory = match record.work_memory.count() {
        0 => present.memory.work_memory,
        _ => whole_kib(two_digits(record.work_memory_wanted(goal.part).0)),
    };
    let assess = |promise: &Promise| assess(record, goal, share_for_goal, promise);
    let assessed: Vec<Assessment> = sizes.iter().map(assess).collect();
    let enough = sizes.iter().enumerate().filter(|(index, _)| assessed[*index].is_enough());
    let smallest = enough.min_by_key(|(_, size)| (size.cpu.reserved, size.io.iops, size.memory.memory));
    let size = smallest.map(|(index, _)| index);
    Some(Advice {
        assessment: assess(&promise),
        present: assess(present),
        sizes: assessed,
        size,
        share_for_goal,
        promise,
    })
}

/// What a promise would have been too little for.
fn assess(
    record: &DemandRecord,
    goal: &Goal,
    share_for_goal: Option<ShareForGoal>,
    promise: &Promise,
) -> Assessment {
    let cpu = record.cpu.shortfall(u64::from(promise.cpu.reserved.0) * 1_000_000);
    let io = record.io.iter().map(|(volume, rates)| (*volume, rates.shortfall(promise.io.iops)));
    let io: Vec<(u32, Shortfall)> = io.collect();
    let cache_excess = record.cache_excess(promise.memory.memory);
    let work = &record.work_memory;
    let over = work.ranges().filter(|(_, high, _)| *high > promise.memory.work_memory.0);
    let work_memory = (over.map(|(.., count)| count).sum(), work.count());
    let keeps_goal = share_for_goal.and_then(|share| share.is_kept_by(promise.cpu.reserved));
    // As percentiles count.
    let is_part = |short: u64, all: u64| (all - short) as f64 >= (all as f64 * goal.part).ceil();
    let cache_is_enough = record.cache_wanted().is_none_or(|wanted| promise.memory.memory >= wanted);
    let checks = [
        (TooLittle::Cpu, is_part(cpu.intervals_max, cpu.of)),
        (TooLittle::Iops, io.iter().all(|(_, short)| is_part(short.intervals_max, short.of))),
        (TooLittle::Memory, cache_is_enough),
        (TooLittle::WorkMemory, is_part(work_memory.0, work_memory.1)),
        (TooLittle::StatementP99, keeps_goal != Some(false)),
    ];
    let too_little = checks.into_iter().filter(|(_, is_enough)| !is_enough).map(|(what, _)| what).collect();
    Assessment { cpu, io, cache_excess, work_memory, keeps_goal, too_little }
}

/// Rounded up to two digits: no figure here is better than that.
fn two_digits(number: u64) -> u64 {
    let places = number.checked_ilog10().unwrap_or(0).saturating_sub(1);
    let step = 10u64.pow(places);
    number.checked_next_multiple_of(step).unwrap_or(u64::MAX)
}

fn whole_kib(bytes: u64) -> ByteCount {
    ByteCount(bytes.checked_next_multiple_of(1024).unwrap_or(u64::MAX))
}
