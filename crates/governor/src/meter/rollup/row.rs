//! What a stretch of whole minutes comes to: of the ledger's rows, and of samples.

use base::{Nanos, TenantId};

use super::SparseHistogram;
use crate::meter::{Cause, Delays, LedgerRow, OwnLimit, Resource};

/// A minute by the wall's clock, counted from 1970-01-01 UTC.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct WallMinute(pub u32);

impl WallMinute {
    /// The minute of this second since 1970-01-01 UTC. Those after the year 10000 are the last one.
    pub fn of_unix_seconds(seconds: u64) -> WallMinute {
        WallMinute(u32::try_from(seconds / 60).unwrap_or(u32::MAX))
    }
}

/// One tenant, one resource, some minutes: the sums of its ledger rows, the worst of them, and how their rates were distributed.
/// Amounts are in the resource's unit ([`Resource`]).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RollUpRow {
    pub tenant: TenantId,
    pub resource: Resource,
    /// The first minute, and how many follow each other from there. Minutes without any row in them count too.
    pub from: WallMinute,
    pub minutes: u32,
    /// Ledger rows taken in.
    pub intervals: u64,
    /// Those of them whose promise was broken, by cause: in the order of [`RollUpRow::CAUSES`].
    pub broken: [u64; 4],
    /// The length of the intervals together. What is missing to `minutes` is time in which the tenant neither wanted nor got anything,
    /// or nobody metered.
    pub covered: Nanos,
    /// The rest as in [`LedgerRow`], summed.
    pub active: Nanos,
    pub promised: u64,
    pub demanded: u64,
    pub given: u64,
    pub missed: u64,
    pub over: u64,
    /// Of its debts the largest.
    pub own_limit: OwnLimit,
    pub owed_micros: u64,
    /// The most that was missed in one interval.
    pub missed_max: u64,
    /// The worst that each figure was in any interval, each for itself; `None` if no interval had any.
    pub delays_worst: Option<Delays>,
    /// What was given in each interval, by the second.
    pub given_rates: SparseHistogram,
    /// What would have been taken in each interval had nobody been in the way, by the second, as well as it can be known afterwards: of
    /// processor time what was given or the time with a task, the larger, so that a tenant that waits counts as one task that waits; of I/O what was given and what
    /// was due and not given; of memory the baseline, what there would have been with the promise to itself.
    pub wanted_rates: SparseHistogram,
}

/// See [`RollUpRow::wanted_rates`].
fn wanted(row: &LedgerRow) -> u64 {
    match row.resource {
        Resource::Cpu => row.given.max(row.active.0),
        Resource::Io { .. } => row.given.saturating_add(row.missed),
        Resource::Memory | Resource::WorkMemory => row.demanded,
    }
}

/// By the second, rounded down. An interval of no length has no rate.
fn rate(amount: u64, length: Nanos) -> Option<u64> {
    let by_second = (u128::from(amount) * 1_000_000_000).checked_div(u128::from(length.0))?;
    Some(u64::try_from(by_second).unwrap_or(u64::MAX))
}

impl RollUpRow {
    /// The causes, in the order of [`RollUpRow::broken`]. It is written to disk: append only.
    pub const CAUSES: [Cause; 4] = [Cause::Overbooked, Cause::System, Cause::Neighbour, Cause::Device];

    /// A row of one minute without anything in it.
    pub(super) fn empty(tenant: TenantId, resource: Resource, minute: WallMinute) -> RollUpRow {
        RollUpRow {
            tenant,
            resource,
            from: minute,
            minutes: 1,
            intervals: 0,
            broken: [0; 4],
            covered: Nanos(0),
            active: Nanos(0),
            promised: 0,
            demanded: 0,
            given: 0,
            missed: 0,
            over: 0,
            own_limit: OwnLimit::default(),
            owed_micros: 0,
            missed_max: 0,
            delays_worst: None,
            given_rates: SparseHistogram::default(),
            wanted_rates: SparseHistogram::default(),
        }
    }

    /// Takes in a row of the ledger, of the same tenant and resource.
    pub(super) fn add(&mut self, row: &LedgerRow) {
        assert_eq!((self.tenant, self.resource), (row.tenant, row.resource), "a row of somebody else");
        let length = row.to - row.from;
        self.intervals += 1;
        if let Some(cause) = row.cause {
            let at = Self::CAUSES.iter().position(|known| *known == cause).expect("each cause has a place");
            self.broken[at] += 1;
        }
        self.add_sums(length, row.active, [row.promised, row.demanded, row.given, row.missed, row.over]);
        self.own_limit = self.own_limit.and(row.own_limit);
        self.owed_micros = self.owed_micros.saturating_add(row.owed_micros);
        self.missed_max = self.missed_max.max(row.missed);
        self.add_delays(row.delays);
        self.given_rates.record(rate(row.given, length).unwrap_or(0));
        self.wanted_rates.record(rate(wanted(row), length).unwrap_or(0));
    }

    fn add_sums(&mut self, covered: Nanos, active: Nanos, amounts: [u64; 5]) {
        self.covered = Nanos(self.covered.0.saturating_add(covered.0));
        self.active = Nanos(self.active.0.saturating_add(active.0));
        let sums =
            [&mut self.promised, &mut self.demanded, &mut self.given, &mut self.missed, &mut self.over];
        for (sum, amount) in sums.into_iter().zip(amounts) {
            *sum = sum.saturating_add(amount);
        }
    }

    fn add_delays(&mut self, delays: Option<Delays>) {
        let Some(delays) = delays else { return };
        let worst = self.delays_worst.get_or_insert_default();
        worst.mean = worst.mean.max(delays.mean);
        worst.p50 = worst.p50.max(delays.p50);
        worst.p95 = worst.p95.max(delays.p95);
        worst.p99 = worst.p99.max(delays.p99);
        worst.max = worst.max.max(delays.max);
    }

    /// Takes in another row of the same tenant and resource; the stretch grows to have both. Exact, in any order: rows of one minute
    /// from several sources, or minutes into hours.
    ///
    /// # Panics
    ///
    /// If it is another tenant's or resource's.
    pub fn merge(&mut self, other: &RollUpRow) {
        assert_eq!((self.tenant, self.resource), (other.tenant, other.resource), "a row of somebody else");
        (self.from, self.minutes) = joined((self.from, self.minutes), (other.from, other.minutes));
        self.intervals = self.intervals.saturating_add(other.intervals);
        for (mine, theirs) in self.broken.iter_mut().zip(other.broken) {
            *mine = mine.saturating_add(theirs);
        }
        let amounts = [other.promised, other.demanded, other.given, other.missed, other.over];
        self.add_sums(other.covered, other.active, amounts);
        self.own_limit = self.own_limit.and(other.own_limit);
        self.owed_micros = self.owed_micros.saturating_add(other.owed_micros);
        self.missed_max = self.missed_max.max(other.missed_max);
        self.add_delays(other.delays_worst);
        self.given_rates.merge(&other.given_rates);
        self.wanted_rates.merge(&other.wanted_rates);
    }

    /// What holds of every row, however it came about.
    pub(super) fn is_consistent(&self) -> bool {
        self.minutes > 0
            && self.given_rates.count() == self.intervals
            && self.wanted_rates.count() == self.intervals
            && self.intervals_broken() <= self.intervals
            && self.missed_max <= self.missed
    }

    /// Intervals in which the promise was broken, whatever the cause.
    pub fn intervals_broken(&self) -> u64 {
        self.broken.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }
}

/// The stretch from the first to the last minute of two.
fn joined(a: (WallMinute, u32), b: (WallMinute, u32)) -> (WallMinute, u32) {
    let end = |(from, minutes): (WallMinute, u32)| u64::from(from.0) + u64::from(minutes);
    let from = a.0.min(b.0);
    let minutes = end(a).max(end(b)) - u64::from(from.0);
    (from, u32::try_from(minutes).unwrap_or(u32::MAX))
}

/// What else is sampled of a tenant, beside the ledger.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Sampled {
    /// How long its statements took, in nanoseconds, each one.
    StatementTime,
    /// Working memory that its operators would have held to spill nothing, in bytes, each statement that has any.
    WorkMemory,
}

/// One tenant, one kind of sample, some minutes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SampleRow {
    pub tenant: TenantId,
    pub sampled: Sampled,
    /// As in [`RollUpRow`].
    pub from: WallMinute,
    pub minutes: u32,
    pub amounts: SparseHistogram,
}

impl SampleRow {
    /// Takes in another row of the same tenant and kind, as [`RollUpRow::merge`].
    ///
    /// # Panics
    ///
    /// If it is another tenant's or of another kind.
    pub fn merge(&mut self, other: &SampleRow) {
        assert_eq!((self.tenant, self.sampled), (other.tenant, other.sampled), "samples of something else");
        (self.from, self.minutes) = joined((self.from, self.minutes), (other.from, other.minutes));
        self.amounts.merge(&other.amounts);
    }
}
