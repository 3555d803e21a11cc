//! Token buckets that any number of workers take from without a lock.
//!
//! A bucket is one instant: the moment at which what was taken from it is paid for at its rate (the theoretical arrival
//! time of the generic cell rate algorithm). Taking moves it on, time passing catches up with it. Both are commutative, so
//! it is exact whatever the workers' order; all accesses are relaxed because nothing else is published by it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How often a limit is refilled.
pub(super) const REFILL_PERIOD: u64 = 10_000_000;
/// The longest a tenant is stopped for what it took beyond its limit in one go. What would take longer to pay for is
/// forgiven, and counted.
pub(super) const DEBT_TIME_MAX: u64 = 1_000_000_000;

/// A tenant's limit: refilled every [`REFILL_PERIOD`] to at most one period's worth. It may be taken from while anything is
/// left in it, so it goes into debt by at most one poll a worker.
#[derive(Default)]
pub(super) struct LimitBucket {
    paid_at: AtomicU64,
}

fn period_start(now: u64) -> u64 {
    now - now % REFILL_PERIOD
}

impl LimitBucket {
    /// Whether anything would be left after a further `time` were taken.
    pub(super) fn allows(&self, now: u64, time: u64) -> bool {
        self.paid_at.load(Relaxed).saturating_add(time) < period_start(now) + REFILL_PERIOD
    }

    /// The first refill after which something is left, if nothing is taken meanwhile.
    pub(super) fn allowed_at(&self) -> u64 {
        period_start(self.paid_at.load(Relaxed))
    }

    /// Takes `time`, which is work divided by the limit's rate. The work took `lasted` until now: refills that came meanwhile pay for it, too. The part
    /// of it that is forgiven is given back.
    pub(super) fn take(&self, now: u64, lasted: u64, time: u64) -> u64 {
        let start = period_start(now);
        self.paid_at.fetch_max(start.saturating_sub(period_start(lasted)), Relaxed);
        let paid_at = self.paid_at.fetch_add(time, Relaxed) + time;
        let forgiven = paid_at.saturating_sub(start + REFILL_PERIOD + DEBT_TIME_MAX).min(time);
        if forgiven > 0 {
            self.paid_at.fetch_sub(forgiven, Relaxed);
        }
        forgiven
    }

    /// Gives back what was taken too much.
    pub(super) fn give_back(&self, time: u64) {
        self.change(|paid_at| paid_at.saturating_sub(time));
    }

    /// How long from `now` until the present debt is paid.
    pub(super) fn debt(&self, now: u64) -> u64 {
        self.paid_at.load(Relaxed).saturating_sub(period_start(now) + REFILL_PERIOD)
    }

    /// The rate changes: debt stays the same amount of work, and the part of the bucket that is left stays that part. Gives
    /// back the time that is forgiven.
    pub(super) fn rescale(&self, now: u64, scale: impl Fn(u64) -> u64) -> u64 {
        let end = period_start(now) + REFILL_PERIOD;
        let scaled = |paid_at: u64| paid_at.checked_sub(end).map(&scale);
        let before =
            self.change(|paid_at| scaled(paid_at).map_or(paid_at, |debt| end + debt.min(DEBT_TIME_MAX)));
        scaled(before).map_or(0, |debt| debt.saturating_sub(DEBT_TIME_MAX))
    }

    /// A full bucket: there was no limit before.
    pub(super) fn restart(&self) {
        self.paid_at.store(0, Relaxed);
    }

    /// Nobody is stopped for longer than the bound, even where the clock was set back.
    pub(super) fn clamp(&self, now: u64) {
        self.paid_at.fetch_min(period_start(now) + REFILL_PERIOD + DEBT_TIME_MAX, Relaxed);
    }

    /// Gives back what was there before.
    fn change(&self, change: impl Fn(u64) -> u64) -> u64 {
        self.paid_at
            .fetch_update(Relaxed, Relaxed, |paid_at| Some(change(paid_at)))
            .unwrap_or_else(|same| same)
    }
}

/// A tenant's credit: what it left of its reservation, up to a bound.
#[derive(Default)]
pub(super) struct CreditBucket {
    used_until: AtomicU64,
}

impl CreditBucket {
    /// Whether credit is left.
    pub(super) fn has_credit(&self, now: u64) -> bool {
        self.used_until.load(Relaxed) < now
    }

    /// Counts `time` of the reservation as used, which is work divided by it; at most `depth` of time had gathered.
    pub(super) fn use_up(&self, now: u64, depth: u64, time: u64) {
        self.used_until.fetch_max(now.saturating_sub(depth), Relaxed);
        self.used_until.fetch_add(time, Relaxed);
    }

    /// Takes `time` from what was left of the reservation; gives back the part that was not covered by that.
    pub(super) fn take(&self, now: u64, depth: u64, time: u64) -> u64 {
        self.used_until.fetch_max(now.saturating_sub(depth), Relaxed);
        let until = self.used_until.fetch_add(time, Relaxed) + time;
        let uncovered = until.saturating_sub(now).min(time);
        if uncovered > 0 {
            self.used_until.fetch_sub(uncovered, Relaxed);
        }
        uncovered
    }

    /// No credit from before `now`.
    pub(super) fn restart(&self, now: u64) {
        self.used_until.store(now, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn limit_stops_at_an_empty_bucket_until_the_refill_that_pays_the_debt() {
        let bucket = LimitBucket::default();
        let now = 100 * MS;
        assert!(bucket.allows(now, 0));
        assert_eq!(bucket.take(now, 0, 9 * MS), 0);
        assert!(bucket.allows(now, MS - 1) && !bucket.allows(now, MS));
        assert_eq!(bucket.take(now, 0, 16 * MS), 0);
        assert!(!bucket.allows(now, 0));
        assert_eq!((bucket.debt(now), bucket.allowed_at()), (15 * MS, 120 * MS));
        assert!(!bucket.allows(119 * MS, 0));
        assert!(bucket.allows(120 * MS, 0));
    }

    #[test]
    fn idle_limit_gathers_one_period_at_most() {
        let bucket = LimitBucket::default();
        bucket.take(1000 * MS, 0, 10 * MS);
        assert!(!bucket.allows(1009 * MS, 0));
        assert!(bucket.allows(1010 * MS, 10 * MS - 1));
    }

    #[test]
    fn debt_stays_the_same_work_when_the_rate_changes() {
        let bucket = LimitBucket::default();
        bucket.take(0, 0, 4 * MS);
        assert_eq!(bucket.rescale(0, |time| 100 * time), 0);
        assert!(
            bucket.allows(0, 6 * MS - 1) && !bucket.allows(0, 6 * MS),
            "what is left of the bucket stays that part"
        );
        bucket.take(0, 0, 10 * MS);
        assert_eq!(bucket.rescale(0, |time| 100 * time), 0);
        assert_eq!(bucket.debt(0), 400 * MS);
        assert_eq!(bucket.rescale(0, |time| 3 * time), 200 * MS);
        assert_eq!(bucket.debt(0), DEBT_TIME_MAX);
        bucket.restart();
        assert!(bucket.allows(0, 10 * MS - 1));
    }

    #[test]
    fn debt_beyond_the_bound_is_forgiven() {
        let bucket = LimitBucket::default();
        let forgiven = bucket.take(0, 0, 5_000 * MS);
        assert_eq!(forgiven, 5_000 * MS - REFILL_PERIOD - DEBT_TIME_MAX);
        assert_eq!(bucket.debt(0), DEBT_TIME_MAX);
    }

    #[test]
    fn workers_that_take_at_once_take_the_sum() {
        let bucket = LimitBucket::default();
        let now = 50 * MS;
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1000).for_each(|_| assert_eq!(bucket.take(now, 0, 50_000), 0)));
            }
        });
        assert_eq!(bucket.debt(now), 200 * MS - REFILL_PERIOD);
    }

    #[test]
    fn clock_set_back_stops_nobody_for_longer_than_the_bound() {
        let bucket = LimitBucket::default();
        bucket.take(3_600_000 * MS, 0, MS);
        bucket.clamp(0);
        assert!(bucket.allows(REFILL_PERIOD + DEBT_TIME_MAX, 0));
    }

    #[test]
    fn credit_is_bounded_and_never_owed() {
        let bucket = CreditBucket::default();
        let now = 1000 * MS;
        assert!(bucket.has_credit(now));
        assert_eq!(bucket.take(now, 10 * MS, 4 * MS), 0);
        assert_eq!(bucket.take(now, 10 * MS, 7 * MS), MS);
        assert!(!bucket.has_credit(now) && bucket.has_credit(now + 1));
        bucket.use_up(now, 10 * MS, 2 * MS);
        assert!(!bucket.has_credit(now + 2 * MS) && bucket.has_credit(now + 2 * MS + 1));
    }
}
