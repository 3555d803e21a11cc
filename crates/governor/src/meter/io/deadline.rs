//! The meter's own deadlines: when each request of a tenant should be issued for its promise to be kept.
//!
//! From arrivals and the promise in force alone. The arithmetic is the meter's own too.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use base::{ByteCount, Nanos};

use super::occupancy::Occupancy;
use crate::io::{AwaitedFor, IoCost, LIMIT_DEBT_MAX, LimitDebt};
use crate::promise::{IoPromise, IoPromiseKind};

/// An instant in 64ths of a nanosecond.
pub(super) type Ticks = u64;
const TICKS: u64 = 64;
/// No reservation, no deadline.
pub(super) const NO_DEADLINE: Ticks = u64::MAX;
/// Work charged after the fact moves later deadlines by at most so much.
const DEBT_MAX: Ticks = 1_000_000_000 * TICKS;
/// What a limit lets a tenant make up for that something else held up while it waited.
const CATCH_UP: Ticks = 10_000_000 * TICKS;

pub(super) fn ticks(at: Nanos) -> Ticks {
    at.0.saturating_mul(TICKS)
}

pub(super) fn nanos(at: Ticks) -> Nanos {
    Nanos(at / TICKS)
}

/// The time `amount` takes at `rate` a second, rounded up: in doubt the tenant waits.
fn time_of(amount: u128, rate: u64) -> Ticks {
    let time = (amount * u128::from(ticks(Nanos::from_secs(1)))).div_ceil(u128::from(rate));
    u64::try_from(time).unwrap_or(u64::MAX)
}

fn time_of_ios(cost: IoCost, rate: u64) -> Ticks {
    // A cost counts 65,536ths of an I/O.
    time_of(u128::from(cost.parts), rate.saturating_mul(1 << 16))
}

/// One rate of a promise (0: none) and the instant that its next request reaches by it.
#[derive(Debug, Default)]
struct Pace {
    rate: AtomicU64,
    next: AtomicU64,
}

impl Pace {
    fn rate(&self) -> u64 {
        self.rate.load(Ordering::Relaxed)
    }

    fn next(&self) -> Ticks {
        self.next.load(Ordering::Relaxed)
    }

    fn advance(&self, to: impl Fn(Ticks) -> Ticks) {
        let _ = self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| Some(to(next)));
    }

    /// Work that takes so long was done without having been asked for; it keeps the next request until `end` at most.
    fn charge_done(&self, time: Ticks, now: Ticks, end: Ticks) {
        self.advance(|next| next.max(next.max(now).saturating_add(time).min(end)));
    }
}

impl AsRef<Pace> for Pace {
    fn as_ref(&self) -> &Pace {
        self
    }
}

/// When a limit lets the next request through that was `before` and becomes `after`: what the tenant owes it stays the same in I/Os, for as long as a debt is
/// remembered.
fn limited_anew(next: Ticks, before: u64, after: u64, now: Ticks) -> Ticks {
    let ahead = next.saturating_sub(now);
    if before == 0 || after == 0 || ahead == 0 {
        return next.min(now);
    }
    let time = u128::from(ahead) * u128::from(before) / u128::from(after);
    let time = u64::try_from(time).unwrap_or(u64::MAX);
    now.saturating_add(time.min(ticks(LIMIT_DEBT_MAX).max(ahead)))
}

/// A rate that is reserved: what is issued before it is due leaves later intervals their deadlines.
#[derive(Debug, Default)]
struct Reservation {
    pace: Pace,
    /// The time that the largest request takes that had a deadline, in this interval and in the one before.
    reach: AtomicU64,
    reach_before: AtomicU64,
    /// What was charged after the fact keeps the next request until then.
    debt: AtomicU64,
}

impl AsRef<Pace> for Reservation {
    fn as_ref(&self) -> &Pace {
        &self.pace
    }
}

impl Reservation {
    fn charge_done(&self, time: Ticks, now: Ticks, end: Ticks) {
        self.pace.charge_done(time, now, end);
        let owed = self.debt.load(Ordering::Relaxed).max(now).saturating_add(time).min(end);
        self.debt.fetch_max(owed, Ordering::Relaxed);
    }

    /// The latest deadline with which an interval that begins at `from` may begin: what was issued before it was due leaves later
    /// intervals theirs.
    fn latest_at(&self, from: Ticks) -> Ticks {
        let reach = self.reach.load(Ordering::Relaxed).max(self.reach_before.load(Ordering::Relaxed));
        from.saturating_add(reach).max(self.debt.load(Ordering::Relaxed))
    }
}

/// A second's I/Os and bytes of a promise; 0: none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Rates {
    pub(super) iops: u64,
    pub(super) bandwidth: ByteCount,
}

/// A tenant as the meters of all workers share it.
#[derive(Debug, Default)]
pub(super) struct Standing {
    iops: Reservation,
    bandwidth: Reservation,
    iops_max: Pace,
    bandwidth_max: Pace,
    is_average: AtomicU32,
    /// Price of a missed I/O, in millionths.
    penalty_micros: AtomicU64,
    /// What it was before it last changed, and when that was.
    penalty_before: AtomicU64,
    priced_at: AtomicU64,
    /// Requests pending, and for how long there were any.
    pub(super) pending: Occupancy,
    /// When the promise last changed, and how often it has.
    changed_at: AtomicU64,
    changes: AtomicU32,
    /// What was reserved before that.
    iops_before: AtomicU64,
    bandwidth_before: AtomicU64,
    /// The ends of the intervals that last made its deadlines later, and earlier.
    shifted_at: [AtomicU64; 2],
    /// The end of the last interval.
    ended_at: AtomicU64,
    /// Workers on which it did something in the interval that they are in.
    active_on: AtomicU32,
    /// A bit for each [`AwaitedFor`] that others wait for its upkeep for.
    awaited_for: AtomicU8,
}

impl Standing {
    pub(super) fn set_awaited(&self, awaited_for: AwaitedFor, is_awaited: bool) {
        let bit = 1 << awaited_for as u8;
        match is_awaited {
            true => self.awaited_for.fetch_or(bit, Ordering::Relaxed),
            false => self.awaited_for.fetch_and(!bit, Ordering::Relaxed),
        };
    }

    /// Whether others wait for its upkeep, so that no limit of its own holds that.
    pub(super) fn is_awaited(&self) -> bool {
        self.awaited_for.load(Ordering::Relaxed) != 0
    }

    /// Puts a promise in force from `now` on: deadlines that have not come begin anew. What a limit remembers it remembers under another one too.
    pub(super) fn set_promise(&self, promise: &IoPromise, penalty_micros: u64, now: Nanos) {
        let price_before = self.penalty_micros.swap(penalty_micros, Ordering::Relaxed);
        if price_before != penalty_micros {
            self.penalty_before.store(price_before, Ordering::Relaxed);
            self.priced_at.store(now.0, Ordering::Relaxed);
        }
        let reservations = [(&self.iops.pace, promise.iops), (&self.bandwidth.pace, promise.bandwidth.0)];
        let limits = [
            (&self.iops_max, promise.iops_max.unwrap_or(0)),
            (&self.bandwidth_max, promise.bandwidth_max.map_or(0, |max| max.0)),
        ];
        self.is_average.store(u32::from(promise.kind == IoPromiseKind::Average), Ordering::Relaxed);
        if reservations.iter().chain(&limits).all(|(pace, rate)| pace.rate() == *rate) {
            return;
        }
        let before = self.reserved();
        self.iops_before.store(before.iops, Ordering::Relaxed);
        self.bandwidth_before.store(before.bandwidth.0, Ordering::Relaxed);
        for (pace, rate) in reservations {
            pace.rate.store(rate, Ordering::Relaxed);
            pace.advance(|next| next.min(ticks(now)));
        }
        for (pace, rate) in limits {
            let before = pace.rate.swap(rate, Ordering::Relaxed);
            if before != rate {
                pace.advance(|next| limited_anew(next, before, rate, ticks(now)));
            }
        }
        self.changed_at.store(now.0, Ordering::Relaxed);
        self.changes.fetch_add(1, Ordering::Release);
    }

    pub(super) fn kind(&self) -> IoPromiseKind {
        if self.is_average.load(Ordering::Relaxed) == 1 {
            IoPromiseKind::Average
        } else {
            IoPromiseKind::Each
        }
    }

    /// What is reserved.
    pub(super) fn reserved(&self) -> Rates {
        Rates { iops: self.iops.pace.rate(), bandwidth: ByteCount(self.bandwidth.pace.rate()) }
    }

    /// What was reserved from `from` to `to`, and for how long each, as far as the last change goes.
    pub(super) fn reserved_over(&self, from: Nanos, to: Nanos) -> [(Rates, Nanos); 2] {
        let changed_at = Nanos(self.changed_at.load(Ordering::Relaxed)).max(from).min(to);
        let before = Rates {
            iops: self.iops_before.load(Ordering::Relaxed),
            bandwidth: ByteCount(self.bandwidth_before.load(Ordering::Relaxed)),
        };
        [(before, changed_at - from), (self.reserved(), to - changed_at)]
    }

    /// What is the most; 0: no limit.
    pub(super) fn limits_in_force(&self) -> Rates {
        Rates { iops: self.iops_max.rate(), bandwidth: ByteCount(self.bandwidth_max.rate()) }
    }

    /// The price from `from` to `to`: of two each counts for what `reserved` says was reserved in the time that it was in force, as far as the last change goes.
    pub(super) fn price_over(
        &self,
        (from, to): (Nanos, Nanos),
        reserved: impl Fn((Nanos, Nanos)) -> f64,
    ) -> u64 {
        let price = self.penalty_micros.load(Ordering::Relaxed);
        let before = self.penalty_before.load(Ordering::Relaxed);
        let priced_at = Nanos(self.priced_at.load(Ordering::Relaxed)).min(to);
        if priced_at <= from {
            return price;
        }
        let (at_that, at_this) = (reserved((from, priced_at)), reserved((priced_at, to)));
        let all = at_that + at_this;
        if all == 0.0 {
            return price;
        }
        ((before as f64 * at_that + price as f64 * at_this) / all).round() as u64
    }

    pub(super) fn changes(&self) -> u32 {
        self.changes.load(Ordering::Acquire)
    }

    pub(super) fn changed_at(&self) -> Ticks {
        ticks(Nanos(self.changed_at.load(Ordering::Relaxed)))
    }

    /// The deadline of a request that arrives at `arrival`: `max(D' + 1/r, arrival)`; of two reservations the earlier one's.
    pub(super) fn next_deadline(&self, cost: IoCost, arrival: Ticks) -> Ticks {
        let deadlines = self.reservations(cost).map(|(reserved, _)| reserved.pace.next().max(arrival));
        let deadline = deadlines.min().unwrap_or(NO_DEADLINE);
        for (reserved, time) in self.reservations(cost) {
            reserved.pace.advance(|next| next.max(arrival).min(deadline).saturating_add(time));
            reserved.reach.fetch_max(time, Ordering::Relaxed);
        }
        deadline
    }

    /// The time a part of a request takes of the tenant's reservations; of two the shorter.
    pub(super) fn time_of(&self, cost: IoCost) -> Ticks {
        self.reservations(cost).map(|(_, time)| time).min().unwrap_or(0)
    }

    /// Counts what was issued towards the tenant's own limits. It had waited since `arrival`: time without a request is not made up for.
    pub(super) fn count_issued(&self, cost: IoCost, arrival: Ticks, now: Nanos) {
        let floor = ticks(now).saturating_sub(CATCH_UP).max(arrival);
        for (pace, time) in self.limits(cost) {
            // What no limit held takes a second of the future at most, unless it is longer by itself.
            let end = ticks(now).saturating_add(DEBT_MAX).max(floor.saturating_add(time));
            pace.advance(|next| next.max(next.max(floor).saturating_add(time).min(end)));
        }
    }

    /// From when on the tenant's own limits let its next requests through, as it stands.
    pub(super) fn opening(&self) -> Opening {
        Opening {
            iops: (self.iops_max.rate(), self.iops_max.next()),
            bandwidth: (self.bandwidth_max.rate(), self.bandwidth_max.next()),
        }
    }

    /// Work done for the tenant without having been asked for: its next deadlines are the later for it.
    pub(super) fn charge_done(&self, cost: IoCost, debt: LimitDebt, now: Nanos) {
        let (now, end) = (ticks(now), ticks(now).saturating_add(DEBT_MAX));
        self.reservations(cost).for_each(|(reserved, time)| reserved.charge_done(time, now, end));
        let end = now.saturating_add(ticks(debt.max()));
        self.limits(cost).for_each(|(pace, time)| pace.charge_done(time, now, end));
    }

    /// A worker's interval has something of the tenant from `from` on. If none else's has and nothing waits, what was issued
    /// before it was due, in intervals before, is not held against the tenant.
    pub(super) fn begin_interval(&self, from: Ticks) {
        if self.active_on.fetch_add(1, Ordering::Relaxed) > 0 || self.pending.count() > 0 {
            return;
        }
        for reserved in [&self.iops, &self.bandwidth] {
            reserved.pace.advance(|next| next.min(reserved.latest_at(from)));
        }
    }

    /// An interval in which the tenant did something ends at `end`, on one worker of several. After [`Standing::shift`].
    pub(super) fn note_end(&self, end: Nanos) {
        if self.ended_at.swap(end.0, Ordering::Relaxed) != end.0 {
            for reserved in [&self.iops, &self.bandwidth] {
                reserved.reach_before.store(reserved.reach.swap(0, Ordering::Relaxed), Ordering::Relaxed);
            }
        }
    }

    /// The worker's interval has ended, and nothing of the tenant is left on it.
    pub(super) fn end_interval(&self) {
        self.active_on.fetch_sub(1, Ordering::Relaxed);
    }

    /// How much too late `due`, the first deadline of what waits at an interval's end, is for the next one.
    pub(super) fn lead(&self, due: Ticks, end: Ticks) -> Ticks {
        let in_force = [&self.iops, &self.bandwidth].into_iter().filter(|reserved| reserved.pace.rate() > 0);
        let latest = in_force.map(|reserved| reserved.latest_at(end)).min();
        latest.map_or(0, |latest| due.saturating_sub(latest))
    }

    /// The next deadlines are so much later after the interval that ends at `end`, because those missed in it begin anew, or earlier, because of
    /// what was issued before it was due. Of several workers that find them too early, or too late, one says by how much.
    pub(super) fn shift(&self, by: i64, end: Nanos) {
        if self.shifted_at[usize::from(by < 0)].swap(end.0, Ordering::Relaxed) == end.0 {
            return;
        }
        for reserved in [&self.iops, &self.bandwidth] {
            reserved.pace.advance(|next| next.saturating_add_signed(by));
        }
    }

    fn reservations(&self, cost: IoCost) -> impl Iterator<Item = (&Reservation, Ticks)> {
        priced(&self.iops, &self.bandwidth, cost)
    }

    fn limits(&self, cost: IoCost) -> impl Iterator<Item = (&Pace, Ticks)> {
        priced(&self.iops_max, &self.bandwidth_max, cost)
    }
}

/// Those of two paces that are in force, each with the time the cost takes at it.
fn priced<'a, P: AsRef<Pace>>(
    ios: &'a P,
    bytes: &'a P,
    cost: IoCost,
) -> impl Iterator<Item = (&'a P, Ticks)> {
    let in_force = |pace: &P| Some(pace.as_ref().rate()).filter(|rate| *rate > 0);
    let (by_ios, by_bytes) = (in_force(ios), in_force(bytes));
    let by_ios = by_ios.map(|rate| (ios, time_of_ios(cost, rate)));
    by_ios.into_iter().chain(by_bytes.map(|rate| (bytes, time_of(u128::from(cost.bytes), rate))))
}

/// A tenant's own limits, walked through by its pending requests one after the other.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Opening {
    iops: (u64, Ticks),
    bandwidth: (u64, Ticks),
}

impl Opening {
    /// When the next request is let through.
    pub(super) fn at(&self) -> Ticks {
        let of = |(rate, next): (u64, Ticks)| if rate > 0 { next } else { 0 };
        of(self.iops).max(of(self.bandwidth))
    }

    /// The next request goes through, at `at` or later.
    pub(super) fn pass(&mut self, cost: IoCost, at: Ticks) {
        let (iops, bandwidth) = (&mut self.iops, &mut self.bandwidth);
        if iops.0 > 0 {
            iops.1 = iops.1.max(at).saturating_add(time_of_ios(cost, iops.0));
        }
        if bandwidth.0 > 0 {
            let time = time_of(u128::from(cost.bytes), bandwidth.0);
            bandwidth.1 = bandwidth.1.max(at).saturating_add(time);
        }
    }
}
