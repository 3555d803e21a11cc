//! How long there was something, counted by several workers.

use std::sync::atomic::{AtomicU64, Ordering};

use base::Nanos;

/// Bits for the count; the others hold time in steps of 256 ns, which wraps around after 52 days and is only ever taken as a difference.
const COUNT_BITS: u32 = 20;
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;
const STEP: u64 = 256;

/// A count, and the time for which it was at or above a threshold, in one word: so a crossing and its time are one step.
///
/// The time is kept as a sum to which a crossing upwards adds `-now` and one downwards `now`; sums commute, so workers whose
/// clocks are read a little out of order are a little off and never wrong.
#[derive(Debug, Default)]
pub(super) struct Occupancy(AtomicU64);

impl Occupancy {
    /// One more. Returns the count before.
    pub(super) fn enter(&self, threshold: u64, now: Nanos) -> u64 {
        self.change(
            |count| {
                debug_assert!(count < COUNT_MASK, "fewer than a million requests of a tenant wait");
                (count + 1, count + 1 == threshold, false)
            },
            now,
        )
    }

    /// One less. Returns the count before.
    pub(super) fn leave(&self, threshold: u64, now: Nanos) -> u64 {
        self.change(
            |count| {
                debug_assert!(count > 0, "what leaves has entered");
                (count.saturating_sub(1), false, count == threshold)
            },
            now,
        )
    }

    /// The count now.
    pub(super) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed) & COUNT_MASK
    }

    /// The time from `from`, that of the last call, until `until` for which the count was at the threshold or above. What was told of
    /// a later time is left for the next call.
    pub(super) fn take_time(&self, threshold: u64, from: Nanos, until: Nanos) -> Nanos {
        let (mut taken, most) = (0, (until - from).0.div_ceil(STEP));
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |word| {
            let (count, sum) = (word & COUNT_MASK, word >> COUNT_BITS);
            let until = if count >= threshold { until.0 / STEP } else { 0 };
            taken = sum.wrapping_add(until) & (u64::MAX >> COUNT_BITS);
            let left = if is_negative(taken) { 0 } else { taken.saturating_sub(most) };
            Some(left.wrapping_sub(until) << COUNT_BITS | count)
        });
        // A time that would be negative: the interval was closed a moment before a crossing was told.
        if is_negative(taken) { Nanos(0) } else { Nanos(taken.min(most) * STEP).min(until - from) }
    }

    fn change(&self, step: impl Fn(u64) -> (u64, bool, bool), now: Nanos) -> u64 {
        let now = now.0 / STEP;
        let mut before = self.0.load(Ordering::Relaxed);
        loop {
            let (count, upwards, downwards) = step(before & COUNT_MASK);
            let sum = before >> COUNT_BITS;
            let sum = if upwards { sum.wrapping_sub(now) } else { sum };
            let sum = if downwards { sum.wrapping_add(now) } else { sum };
            let after = sum << COUNT_BITS | count;
            match self.0.compare_exchange_weak(before, after, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return before & COUNT_MASK,
                Err(found) => before = found,
            }
        }
    }
}

fn is_negative(time: u64) -> bool {
    time > u64::MAX >> (COUNT_BITS + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_at_the_threshold_is_taken_once() {
        let occupancy = Occupancy::default();
        let ms = Nanos::from_millis;
        let about = |time: Nanos, wanted: u64| assert!(time.0.abs_diff(ms(wanted).0) <= 2 * STEP, "{time:?}");
        occupancy.enter(2, ms(10));
        about(occupancy.take_time(2, ms(0), ms(20)), 0);
        occupancy.enter(2, ms(30));
        about(occupancy.take_time(2, ms(20), ms(45)), 15);
        occupancy.enter(2, ms(50));
        occupancy.leave(2, ms(60));
        occupancy.leave(2, ms(65));
        about(occupancy.take_time(2, ms(45), ms(100)), 20);
        about(occupancy.take_time(2, ms(100), ms(200)), 0);
    }

    #[test]
    fn an_interval_has_no_more_time_than_it_is_long() {
        let occupancy = Occupancy::default();
        let ms = Nanos::from_millis;
        occupancy.enter(1, ms(0));
        occupancy.leave(1, ms(1066));
        // Asked late: the end came after the interval's.
        assert_eq!(occupancy.take_time(1, ms(0), ms(1000)), ms(1000));
        let next = occupancy.take_time(1, ms(1000), ms(2000));
        assert!(next.0.abs_diff(ms(66).0) <= 2 * STEP, "{next:?}");
    }
}
