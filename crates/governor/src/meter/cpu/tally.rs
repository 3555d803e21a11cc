//! What all workers together tell of one tenant.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use base::Nanos;

use crate::promise::MilliCores;

/// Changes that took the word and have not added their time yet: 8 bits.
const PENDING_ONE: u64 = 1 << 56;
/// Tasks: 12 bits.
const TASKS_SHIFT: u32 = 44;
const TASKS_MAX: u64 = (1 << 12) - 1;
/// Nanoseconds, wrapping around: 44 bits, 4.9 hours. Intervals are told from each other if none is longer than half
/// of that, and a collector cuts them each metering interval.
const TIME_MASK: u64 = (1 << TASKS_SHIFT) - 1;
const TIME_HALF: u64 = 1 << (TASKS_SHIFT - 1);
/// The part of a long poll at its end in which tasks may have come unseen.
const UNSEEN_MAX: Nanos = Nanos::from_secs(1);
/// A step back of less than this is two threads' clocks read in the other order.
const STEP_BACK_MIN: u64 = 100_000_000;
/// So often a cut looks again while a change is under way.
const CUT_TRIES: usize = 100;
/// How long a limit stops a tenant at most for what it took beyond it: more is forgiven. With the part of its bucket that it could take besides.
const LIMIT_DEBT_MAX: Nanos = Nanos::from_millis(1_010);

/// The word, taken apart.
#[derive(Clone, Copy)]
struct State(u64);

impl State {
    fn tasks(self) -> u64 {
        (self.0 >> TASKS_SHIFT) & TASKS_MAX
    }

    fn is_pending(self) -> bool {
        self.0 >= PENDING_ONE
    }

    /// The state from `now` on, with the same tasks, and the time until then in which there were tasks.
    fn at(self, now: Nanos) -> (State, u64) {
        let since = self.0 & TIME_MASK;
        let time = now.0.wrapping_sub(since) & TIME_MASK;
        let (since, time) = match time {
            // Time up to `since` has been counted, if there were tasks in it.
            back if TIME_MASK - back < STEP_BACK_MIN => (since, 0),
            // Whatever was before, nobody was there to count it for.
            _ if self.tasks() == 0 => (now.0 & TIME_MASK, 0),
            time if time < TIME_HALF => (now.0 & TIME_MASK, time),
            _ => (now.0 & TIME_MASK, 0),
        };
        (State(self.0 & !TIME_MASK | since), time)
    }
}

/// One tenant's number of tasks, and what that came to so far. On a cache line of its own.
///
/// The word `state` orders the changes of all workers: each takes over the time since the one before, adds it to the
/// totals, and only then is no longer pending. So who finds nothing pending finds the totals whole.
#[derive(Default)]
#[repr(align(64))]
pub(super) struct Tally {
    state: AtomicU64,
    reserved: AtomicU32,
    /// The limit, in thousandths of a core; 0: none.
    max: AtomicU32,
    /// When the limit has paid for what was used. It pays for nothing before that is used.
    paid_at: AtomicU64,
    /// Nanoseconds with a task.
    active: AtomicU64,
    /// When the present row began.
    row_from: AtomicU64,
    /// Thousandths of a core × nanoseconds. Wraps around; differences over an interval count.
    owed: AtomicU64,
    used: AtomicU64,
    /// What was used before there was anybody to miss anything, since it was last taken.
    past: AtomicU64,
}

/// The totals at an instant; they wrap around.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Totals {
    pub(super) active: u64,
    pub(super) owed: u64,
    pub(super) used: u64,
}

impl Tally {
    /// As many tasks of one tenant are told apart on one worker: those of 273 workers fit the word.
    pub(super) const WORKER_TASKS_MAX: u32 = 15;

    /// A worker's tasks change in number.
    pub(super) fn change(&self, before: u32, after: u32, now: Nanos) {
        self.update(now, |tasks| {
            let tasks = tasks + u64::from(after);
            debug_assert!(tasks >= u64::from(before), "a worker takes back what it told");
            (tasks.saturating_sub(u64::from(before))).min(TASKS_MAX)
        });
    }

    /// The reservation changes; until `now` it was the old one.
    pub(super) fn set_reserved(&self, reserved: MilliCores, now: Nanos) {
        self.update(now, |tasks| tasks);
        self.reserved.store(reserved.0, Ordering::Relaxed);
    }

    /// Whether no worker has tasks.
    pub(super) fn is_idle(&self) -> bool {
        State(self.state.load(Ordering::Relaxed)).tasks() == 0
    }

    /// The next row is of the time from `now` on.
    pub(super) fn begin_row(&self, now: Nanos) {
        self.row_from.store(now.0, Ordering::Relaxed);
    }

    /// Tasks that nobody saw come since `unseen` have waited since the middle of the time until `now`: of a second of it at most, and as far as the present row has it.
    pub(super) fn add_unseen(&self, unseen: Nanos, now: Nanos, tasks: u32) {
        let waited = (now - unseen).min(UNSEEN_MAX).0 / 2;
        let of_row = now - Nanos(self.row_from.load(Ordering::Relaxed));
        self.add(waited.min(of_row.0), u64::from(tasks));
    }

    /// A task that nobody told of has waited since then, as far as the present row has it.
    pub(super) fn add_waited(&self, since: Nanos, now: Nanos) {
        let of_row = now - Nanos(self.row_from.load(Ordering::Relaxed));
        self.add((now - since).min(of_row).0, 1);
    }

    fn update(&self, now: Nanos, tasks_of: impl Fn(u64) -> u64) {
        let mut old = self.state.load(Ordering::Relaxed);
        let (time, tasks) = loop {
            let (state, time) = State(old).at(now);
            let new = state.0 & !(TASKS_MAX << TASKS_SHIFT) | tasks_of(state.tasks()) << TASKS_SHIFT;
            let next = new + PENDING_ONE;
            match self.state.compare_exchange_weak(old, next, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => break (time, state.tasks()),
                Err(found) => old = found,
            }
        };
        self.add(time, tasks);
        self.state.fetch_sub(PENDING_ONE, Ordering::Release);
    }

    fn add(&self, time: u64, tasks: u64) {
        if time > 0 && tasks > 0 {
            self.active.fetch_add(time, Ordering::Relaxed);
            let cores = u64::from(self.reserved.load(Ordering::Relaxed)).min(tasks * 1000);
            if cores > 0 {
                self.owed.fetch_add(time.wrapping_mul(cores), Ordering::Relaxed);
            }
        }
    }

    /// The limit changes. What it has not paid for stays the same work; gives back what of that it will never be paid for, since the tenant would be stopped
    /// for too long.
    pub(super) fn set_max(&self, max: Option<MilliCores>, now: Nanos) -> Nanos {
        let max = max.map_or(0, |max| max.0);
        let before = self.max.swap(max, Ordering::Relaxed);
        if before == max {
            return Nanos(0);
        }
        let rescaled = |paid_at: u64| {
            let ahead = paid_at.checked_sub(now.0).filter(|_| before > 0 && max > 0)?;
            let time = u128::from(ahead) * u128::from(before) / u128::from(max);
            Some(u64::try_from(time).unwrap_or(u64::MAX))
        };
        let paid_at = self.pay(|paid_at| match rescaled(paid_at) {
            Some(time) => now.0 + time.min(LIMIT_DEBT_MAX.0),
            None => paid_at.min(now.0),
        });
        self.work_in(rescaled(paid_at).map_or(0, |time| time.saturating_sub(LIMIT_DEBT_MAX.0)))
    }

    /// Gives back what it was before.
    fn pay(&self, change: impl Fn(u64) -> u64) -> u64 {
        self.paid_at
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |paid_at| Some(change(paid_at)))
            .unwrap_or_else(|same| same)
    }

    /// In how much time the limit pays for so much; 0 without one.
    fn time_to_pay(&self, used: Nanos) -> u64 {
        let max = u64::from(self.max.load(Ordering::Relaxed));
        used.0.saturating_mul(1000).checked_div(max).unwrap_or(0)
    }

    /// For how much the limit pays in that time.
    fn work_in(&self, time: u64) -> Nanos {
        let work = u128::from(time) * u128::from(self.max.load(Ordering::Relaxed)) / 1000;
        Nanos(u64::try_from(work).unwrap_or(u64::MAX))
    }

    /// Processor time was used until `now`. Gives back what of it the limit will never be paid for, since the tenant would be stopped for too long.
    pub(super) fn add_used(&self, used: Nanos, now: Nanos) -> Nanos {
        self.used.fetch_add(used.0, Ordering::Relaxed);
        let time = self.time_to_pay(used);
        if time == 0 {
            return Nanos(0);
        }
        let (began, latest) = ((now - used).0, now.0 + LIMIT_DEBT_MAX.0);
        let owed = |paid_at: u64| paid_at.max(began).saturating_add(time);
        let paid_at = self.pay(|paid_at| owed(paid_at).min(latest));
        self.work_in(owed(paid_at).saturating_sub(latest).min(time))
    }

    pub(super) fn take_back(&self, unused: Nanos) {
        self.used.fetch_sub(unused.0, Ordering::Relaxed);
        let time = self.time_to_pay(unused);
        if time > 0 {
            self.pay(|paid_at| paid_at.saturating_sub(time));
        }
    }

    /// What was used beyond the limit and is not paid for at `now`: for so much the limit may stop the tenant.
    pub(super) fn ahead(&self, now: Nanos) -> u64 {
        self.work_in(self.paid_at.load(Ordering::Relaxed).saturating_sub(now.0)).0
    }

    /// Nobody holds the limit: nothing is to be paid for.
    pub(super) fn forgive(&self) {
        self.paid_at.store(0, Ordering::Relaxed);
    }

    /// The totals at `now`. `None` while a worker is in the middle of a change (it was preempted there): ask again. One
    /// collector at a time.
    pub(super) fn cut(&self, now: Nanos) -> Option<Totals> {
        for _ in 0..CUT_TRIES {
            let old = self.state.load(Ordering::Acquire);
            if State(old).is_pending() {
                std::hint::spin_loop();
                continue;
            }
            if State(old).tasks() == 0 {
                return Some(self.totals());
            }
            let (state, time) = State(old).at(now);
            if self.state.compare_exchange(old, state.0, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                self.add(time, state.tasks());
                return Some(self.totals());
            }
        }
        None
    }

    fn totals(&self) -> Totals {
        Totals {
            active: self.active.load(Ordering::Relaxed),
            owed: self.owed.load(Ordering::Relaxed),
            used: self.used.load(Ordering::Relaxed),
        }
    }

    pub(super) fn add_past(&self, used: Nanos) {
        self.past.fetch_add(used.0, Ordering::Relaxed);
    }

    pub(super) fn take_past(&self) -> u64 {
        self.past.swap(0, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut_waits_for_a_change_that_has_not_added_its_time() {
        let tally = Tally::default();
        tally.set_reserved(MilliCores(500), Nanos(0));
        tally.change(0, 1, Nanos(1000));
        tally.state.fetch_add(PENDING_ONE, Ordering::Relaxed);
        assert_eq!(tally.cut(Nanos(3000)), None);
        tally.state.fetch_sub(PENDING_ONE, Ordering::Relaxed);
        assert_eq!(tally.cut(Nanos(3000)), Some(Totals { active: 2000, owed: 1_000_000, used: 0 }));
        assert_eq!(
            tally.cut(Nanos(3000)),
            tally.cut(Nanos(2900)),
            "no time has passed, nor is any taken back"
        );
    }

    #[test]
    fn a_wake_told_late_counts_no_time_twice() {
        let tally = Tally::default();
        tally.change(0, 1, Nanos(1000));
        tally.change(1, 0, Nanos(5000));
        // Another thread's clock, read before that.
        tally.change(0, 1, Nanos(4000));
        tally.change(1, 0, Nanos(6000));
        assert_eq!(tally.cut(Nanos(6000)).unwrap().active, 5000);
    }

    #[test]
    fn what_a_limit_has_not_paid_for_stays_the_same_work() {
        let (ms, tally) = (Nanos::from_millis, Tally::default());
        tally.set_max(Some(MilliCores(500)), ms(0));
        tally.add_used(ms(200), ms(1000));
        assert_eq!(tally.ahead(ms(1000)), ms(100).0);
        tally.set_max(Some(MilliCores(250)), ms(1000));
        assert_eq!((tally.ahead(ms(1000)), tally.ahead(ms(1200))), (ms(100).0, ms(50).0));
        tally.take_back(ms(25));
        assert_eq!(tally.ahead(ms(1000)), ms(75).0);
        tally.set_max(None, ms(1000));
        tally.set_max(Some(MilliCores(500)), ms(1100));
        assert_eq!(tally.ahead(ms(1100)), 0, "there was none");
        assert_eq!(
            tally.add_used(ms(5000), ms(9000)),
            ms(1995),
            "what is neither paid for in that time nor owed"
        );
        assert_eq!(tally.ahead(ms(9000)), ms(505).0, "a second, and what a bucket holds");
        assert_eq!(tally.set_max(Some(MilliCores(100)), ms(9000)), ms(404));
        assert_eq!(tally.ahead(ms(9000)), ms(101).0, "a second of the new one");
        tally.forgive();
        assert_eq!(tally.ahead(ms(9000)), 0);
    }

    #[test]
    fn word_wraps_around_after_hours() {
        let tally = Tally::default();
        // Not so short before the wrap that it looks like a step back from the beginning.
        let (before, after) = (TIME_MASK - 2 * STEP_BACK_MIN, TIME_MASK + 600);
        tally.change(0, 2, Nanos(before));
        tally.change(2, 1, Nanos(after));
        assert_eq!(tally.cut(Nanos(after)).unwrap().active, after - before);
        tally.change(1, 0, Nanos(after));
        tally.change(0, 1, Nanos(after + 3 * TIME_HALF));
        let active = tally.cut(Nanos(after + 3 * TIME_HALF + 5)).unwrap().active;
        assert_eq!(active, after - before + 5, "time without tasks is none, however long");
    }
}
