//! How one tenant stands with one worker's scheduler.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use base::{Nanos, TenantId};

use super::account::CpuAccount;
use super::rate::Rate;
use crate::promise::CpuPromise;

/// Work by which deadlines are set: a tenant with a deficit is due so much by one slice divided by its rate later. What
/// keeps a promise to within a quantum keeps it so for tasks of any length; a smaller slice gives earlier deadlines, a larger one
/// longer runs of one tenant.
pub(super) const SLICE: u64 = 100_000;
/// Of the slice after waking, what the tenant took when it was last awake has a deadline of its own, if that was less than a slice; as does this
/// much in any case. Who takes little at a time is not held to the deadline of work that it will not have.
const FIRST_PART_MIN: u64 = SLICE / 4;
/// The longest poll that is held against its tenant in full; of longer ones the rest counts as spare time.
pub(super) const QUANTUM: u64 = 500_000;
/// How far a tenant's due time may run ahead of its reservation: by the end of a slice and a poll begun just before it.
pub(super) const LEAD_MAX: u64 = SLICE + QUANTUM;

/// Spare time taken: nanoseconds a unit of weight, times 2^16.
pub(super) type SpareTime = u128;
const SPARE_SHIFT: u32 = 16;
/// By which background work shares spare time: the lowest that can be promised.
const BACKGROUND_WEIGHT: u32 = 1;
/// Spare time, in nanoseconds, that a tenant may be behind others when its limit lets it go.
const LIMITED_LAG_MAX: u64 = 100_000_000;

/// A tenant on one worker. Instants are of the scheduler's virtual time.
pub(super) struct Standing {
    pub(super) tenant: TenantId,
    pub(super) shared: Arc<CpuAccount>,
    pub(super) promise: CpuPromise,
    /// Price of a missed core-second.
    pub(super) price: u64,
    /// The reservation that is in force.
    pub(super) reserved: Option<Rate>,
    /// The limit that is in force.
    pub(super) limit: Option<Rate>,
    pub(super) runnable: bool,
    /// What it has to run next others wait for.
    pub(super) is_awaited: bool,
    /// Runnable and over its limit: for how long in all, and since when.
    over: u64,
    over_since: Option<u64>,
    /// Whether the tenant is counted in the account's `workers`.
    pub(super) counted: bool,
    /// The instant at which all it took as its due was due: before the present, and there is a deficit of the time in
    /// between times the rate.
    pub(super) position: u64,
    /// When the slice it is in, or will be in next, is due; while it is in the first part of one after waking, when that is.
    pub(super) deadline: u64,
    /// When all of that slice is due.
    pub(super) slice_end: u64,
    /// When it last became blocked.
    pub(super) slept_at: u64,
    /// What of `charged` was there when it last woke.
    charged_at_waking: u64,
    /// What it took from its last waking until it became blocked; a slice before it first was.
    took_awake: u64,
    /// The account's `due_taken` as far as `position` reflects it.
    pub(super) seen: u64,
    pub(super) spare: SpareTime,
    /// The same of its background work, which has an account of its own: what that took is not held against the rest.
    pub(super) spare_background: SpareTime,
    /// All that it has to run is background work.
    pub(super) background: bool,
    /// Credit taken, as time at the reservation.
    pub(super) credit: u64,
    /// Charged by this worker, and the part of it that was due.
    pub(super) charged: u64,
    pub(super) charged_due: u64,
    /// It was blocked for long before it last woke, and is not expected back at once the next time.
    pub(super) sleeps_long: bool,
}

impl Standing {
    /// Whether it took all that its limit allows it at `now`.
    pub(super) fn is_over_limit(&self, now: u64) -> bool {
        self.limit.is_some() && !self.shared.limit.allows(now, 0)
    }

    /// Whether its limit keeps it from running at `now`.
    pub(super) fn is_held(&self, now: u64) -> bool {
        !self.is_awaited && self.is_over_limit(now)
    }

    /// Notes whether it is runnable and over its limit.
    pub(super) fn note_over(&mut self, is_over: bool, now: u64) {
        match (self.over_since, is_over) {
            (None, true) => self.over_since = Some(now),
            (Some(since), false) => {
                self.over += now.saturating_sub(since);
                self.over_since = None;
            }
            _ => {}
        }
    }

    /// For how long it was runnable and over its limit, until now.
    pub(super) fn over(&self, now: u64) -> Nanos {
        Nanos(self.over + self.over_since.map_or(0, |since| now.saturating_sub(since)))
    }

    pub(super) fn new(tenant: TenantId, shared: Arc<CpuAccount>) -> Standing {
        Standing {
            tenant,
            shared,
            promise: CpuPromise::default(),
            price: 0,
            reserved: None,
            limit: None,
            runnable: false,
            is_awaited: false,
            over: 0,
            over_since: None,
            counted: false,
            position: 0,
            deadline: 0,
            slice_end: 0,
            slept_at: 0,
            charged_at_waking: 0,
            took_awake: SLICE,
            seen: 0,
            spare: 0,
            spare_background: 0,
            background: false,
            credit: 0,
            charged: 0,
            charged_due: 0,
            sleeps_long: false,
        }
    }

    /// The rate at which the tenant's due grows now: its reservation, but one core for each worker that has tasks of it.
    pub(super) fn rate(&self) -> Option<Rate> {
        let reserved = self.reserved?;
        Some(if reserved.fits_one_core() {
            reserved
        } else {
            reserved.at_most(self.shared.workers.load(Relaxed))
        })
    }

    /// Keeps the count of workers that have tasks of the tenant. Only who reserved more than a core needs it.
    pub(super) fn count_worker(&mut self) {
        let count = self.runnable && self.reserved.is_some_and(|rate| !rate.fits_one_core());
        if count != self.counted {
            self.counted = count;
            match count {
                true => self.shared.workers.fetch_add(1, Relaxed),
                false => self.shared.workers.fetch_sub(1, Relaxed),
            };
        }
    }

    /// Takes in what other workers gave the tenant as its due since it was last looked at; whether that was anything.
    pub(super) fn fold(&mut self) -> bool {
        let Some(rate) = self.rate() else { return false };
        let taken = self.shared.due_taken.load(Relaxed);
        if taken <= self.seen {
            return false;
        }
        self.position = self.position.saturating_add(rate.time_for(taken - self.seen));
        self.seen = taken;
        true
    }

    /// Begins a slice where due time stands.
    pub(super) fn begin_slice(&mut self, rate: Rate) {
        self.slice_end = self.position.saturating_add(rate.time_for(SLICE));
        self.deadline = self.slice_end;
    }

    /// Due time has come to the deadline: goes on to the rest of the slice, or begins the next one. Whether it began one.
    pub(super) fn pass_deadline(&mut self, rate: Rate) -> bool {
        let is_over = self.position >= self.slice_end;
        match is_over {
            true => self.begin_slice(rate),
            false => self.deadline = self.slice_end,
        }
        is_over
    }

    /// The tenant wakes. It has waited for nothing yet: time it was idle is not owed. What it was still owed when it blocked
    /// stays owed, up to a slice; so does what it took ahead.
    pub(super) fn wake(&mut self, rate: Rate, now: u64) {
        self.fold();
        let owed = self.slept_at.saturating_sub(self.position).min(rate.time_for(SLICE));
        self.position = self.position.max(now.saturating_sub(owed));
        self.begin_slice(rate);
        let first_part = self.took_awake.clamp(FIRST_PART_MIN, SLICE);
        // Nothing was due before it woke. What it was owed when it blocked is up to a slice, and may be more than the first part.
        self.deadline = self.position.saturating_add(rate.time_for(first_part)).max(now);
        self.charged_at_waking = self.charged;
    }

    /// The tenant has become blocked.
    pub(super) fn sleep(&mut self, now: u64) {
        self.slept_at = now;
        self.took_awake = self.charged.saturating_sub(self.charged_at_waking);
    }

    /// Another reservation is in force. What is owed or was taken ahead stays the same amount of work.
    pub(super) fn set_reserved(&mut self, reserved: Option<Rate>, now: u64) {
        let before = self.rate();
        if before.is_some() {
            self.fold();
        }
        self.reserved = reserved;
        self.count_worker();
        let Some(rate) = self.rate() else { return };
        if let Some(before) = before {
            let scaled = |time| rate.time_for(before.work_in(time));
            let reference = if self.runnable { now } else { self.slept_at };
            self.position = match self.position.checked_sub(reference) {
                Some(ahead) => reference.saturating_add(scaled(ahead)),
                None => reference.saturating_sub(scaled(reference - self.position)),
            };
        } else {
            self.seen = self.shared.due_taken.load(Relaxed);
            self.position = now;
            self.slept_at = now;
        }
        self.begin_slice(rate);
    }

    /// Counts time as due. What would run ahead too far is not counted and given back.
    pub(super) fn take_due(&mut self, rate: Rate, due: u64, now: u64) -> u64 {
        self.position = self.position.saturating_add(rate.time_for(due));
        let latest = now.saturating_add(rate.time_for(LEAD_MAX));
        let excess = rate.work_in(self.position.saturating_sub(latest)).min(due);
        self.position = self.position.min(latest);
        self.shared.due_taken.fetch_add(due - excess, Relaxed);
        self.seen += due - excess;
        self.charged_due += due - excess;
        excess
    }

    /// Counts time as spare: against the tenant's credit first, then by its weight.
    pub(super) fn take_spare(&mut self, spare: u64, now: u64) {
        let mut spare = spare;
        if let (Some(rate), true) = (self.reserved, self.promise.burst.0 > 0) {
            let time = rate.time_for(spare);
            let uncovered = self.shared.credit.take(now, rate.time_for(self.promise.burst.0), time);
            self.credit = self.credit.saturating_add(time - uncovered);
            spare = rate.work_in(uncovered).min(spare);
        }
        let (taken, weight) = self.spare_account();
        *taken += spare_time(spare, weight);
    }

    /// The account of spare time for work like what it has to run, and the weight by which that shares it.
    fn spare_account(&mut self) -> (&mut SpareTime, u32) {
        match self.background {
            true => (&mut self.spare_background, BACKGROUND_WEIGHT),
            false => (&mut self.spare, self.promise.weight.get()),
        }
    }

    /// Spare time taken by work like what it has to run.
    pub(super) fn spare_taken(&self) -> SpareTime {
        if self.background { self.spare_background } else { self.spare }
    }

    /// Work that was not there has waited for nothing: spare time is shared from here on.
    pub(super) fn join_spare(&mut self, floor: SpareTime) {
        let (taken, _) = self.spare_account();
        *taken = (*taken).max(floor);
    }

    /// Its limit holds it no more. It goes before others until it has what it may have, but what the limit has kept from it for longer than
    /// [`LIMITED_LAG_MAX`] of its own time nobody makes up for.
    pub(super) fn come_from_limit(&mut self, floor: SpareTime) {
        let (_, weight) = self.spare_account();
        self.join_spare(floor.saturating_sub(spare_time(LIMITED_LAG_MAX, weight)));
    }

    /// Takes back the tenant's share of what was charged and not used, from due and spare in the proportion they were
    /// charged in.
    pub(super) fn give_back(&mut self, unused: u64) {
        let unused = unused.min(self.charged);
        if unused == 0 {
            return;
        }
        let due = (u128::from(unused) * u128::from(self.charged_due) / u128::from(self.charged)) as u64;
        if let Some(limit) = self.limit {
            self.shared.limit.give_back(limit.time_for(unused));
        }
        if let Some(rate) = self.rate() {
            self.position = self.position.saturating_sub(rate.time_for(due));
            self.shared.due_taken.fetch_sub(due, Relaxed);
            self.seen = self.seen.saturating_sub(due);
        }
        self.charged -= unused;
        self.charged_due -= due;
        self.shared.used.fetch_sub(unused, Relaxed);
        let (taken, weight) = self.spare_account();
        *taken = taken.saturating_sub(spare_time(unused - due, weight));
    }
}

fn spare_time(time: u64, weight: u32) -> SpareTime {
    // In 64 bits where they suffice: this runs at every poll.
    match time.checked_mul(1 << SPARE_SHIFT) {
        Some(scaled) => SpareTime::from(scaled / u64::from(weight)),
        None => (SpareTime::from(time) << SPARE_SHIFT) / SpareTime::from(weight),
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        self.runnable = false;
        self.count_worker();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::promise::MilliCores;

    const MS: u64 = 1_000_000;

    /// Half a core reserved, at `now` and owed nothing.
    fn half_a_core(now: u64) -> (Standing, Rate) {
        let mut standing = Standing::new(TenantId(1), Arc::default());
        standing.set_reserved(Rate::new(MilliCores(500)), now);
        let rate = standing.rate().unwrap();
        (standing, rate)
    }

    #[test]
    fn what_was_owed_at_sleep_is_owed_at_waking_up_to_a_slice() {
        let (mut standing, rate) = half_a_core(10 * MS);
        standing.take_due(rate, MS, 13 * MS);
        assert_eq!(standing.position, 12 * MS);
        standing.slept_at = 12 * MS + 60_000;
        standing.wake(rate, 20 * MS);
        assert_eq!((standing.position, standing.deadline), (20 * MS - 60_000, 20 * MS - 60_000 + 2 * SLICE));
        standing.slept_at = 25 * MS;
        standing.wake(rate, 30 * MS);
        assert_eq!(standing.position, 30 * MS - 2 * SLICE);
        // Taken ahead is taken ahead, however short the sleep.
        standing.take_due(rate, 2 * SLICE, 30 * MS);
        standing.slept_at = 30 * MS;
        standing.wake(rate, 30 * MS + 10);
        assert_eq!(standing.position, 30 * MS + 2 * SLICE);
    }

    #[test]
    fn what_was_taken_when_last_awake_has_a_deadline_of_its_own_after_waking() {
        let (mut standing, rate) = half_a_core(0);
        standing.wake(rate, 0);
        assert_eq!(standing.deadline, 2 * SLICE, "nothing is known of it");
        for (took, first_part) in [(40_000, 40_000), (10_000, FIRST_PART_MIN), (5 * MS, SLICE)] {
            standing.charged += took;
            standing.sleep(100 * MS);
            standing.position = 100 * MS;
            standing.wake(rate, 200 * MS);
            assert_eq!((standing.position, standing.deadline), (200 * MS, 200 * MS + 2 * first_part));
            // The rest of the slice is due when it would be without that, and the next slice is a whole one.
            standing.position = 200 * MS + 2 * SLICE - 1;
            assert!(!standing.pass_deadline(rate));
            assert_eq!(standing.deadline, 200 * MS + 2 * SLICE);
            standing.position += 1;
            assert!(standing.pass_deadline(rate));
            assert_eq!(standing.deadline, 200 * MS + 4 * SLICE);
        }
        // Who was owed a slice when it blocked is due when it wakes, however little it took.
        standing.charged += 10_000;
        standing.sleep(100 * MS);
        standing.position = 99 * MS;
        standing.wake(rate, 200 * MS);
        assert_eq!((standing.position, standing.deadline), (200 * MS - 2 * SLICE, 200 * MS));
        assert_eq!(standing.slice_end, 200 * MS);
    }

    #[test]
    fn refund_is_of_due_and_spare_as_they_were_charged() {
        let (mut standing, rate) = half_a_core(0);
        standing.shared.used.store(1000, Relaxed);
        standing.charged = 1000;
        assert_eq!(standing.take_due(rate, 300, 0), 0);
        standing.take_spare(700, 0);
        let spare = standing.spare;
        standing.give_back(100);
        assert_eq!((standing.position, standing.shared.due_taken.load(Relaxed)), (540, 270));
        assert_eq!(standing.spare, spare - spare / 10);
        assert_eq!((standing.shared.used.load(Relaxed), standing.seen), (900, 270));
        standing.give_back(u64::MAX);
        assert_eq!((standing.shared.used.load(Relaxed), standing.position), (0, 0));
    }

    #[test]
    fn due_time_runs_ahead_by_a_slice_and_a_quantum_at_most() {
        let (mut standing, rate) = half_a_core(0);
        assert_eq!(standing.take_due(rate, 10 * MS, 10 * MS), 10 * MS - 5 * MS - LEAD_MAX);
        assert_eq!(standing.position, 10 * MS + 2 * LEAD_MAX);
    }
}
