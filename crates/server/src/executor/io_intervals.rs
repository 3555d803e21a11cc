//! Where the metering intervals of I/O end: at the same instants for every worker and for who judges what they saw.
//!
//! They end at multiples of the interval from some instant on, so that who knows the two knows all ends. Another interval begins at an instant a
//! little ahead, at which the one under way ends too: by then every worker has come to see it, or is yet to hand over what it saw.

use base::Nanos;

/// How far ahead a change begins. Longer than it takes until another thread sees what was stored.
const AHEAD: Nanos = Nanos::from_millis(10);

/// The ends of intervals, before and after the last change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct IoIntervals {
    before: Grid,
    now: Grid,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Grid {
    since: Nanos,
    interval: Nanos,
}

impl Grid {
    /// The last end at or before `at`, which is not before `since`.
    fn begin_of(&self, at: Nanos) -> Nanos {
        let past = (at - self.since).0;
        self.since + Nanos(past / self.interval.0 * self.interval.0)
    }

    fn end_after(&self, at: Nanos) -> Nanos {
        if at < self.since { self.since } else { self.begin_of(at) + self.interval }
    }
}

impl IoIntervals {
    pub(super) fn new(interval: Nanos) -> IoIntervals {
        let grid = Grid { since: Nanos(0), interval };
        IoIntervals { before: grid, now: grid }
    }

    /// From a little after `now` on another interval.
    pub(super) fn change(&mut self, interval: Nanos, now: Nanos) {
        assert!(interval.0 > 0, "an interval has a length");
        // Of two changes at once the first has not begun: the other takes its place.
        if now >= self.now.since {
            self.before = self.now;
            self.now.since = now + AHEAD;
        }
        self.now.interval = interval;
    }

    pub(crate) fn interval(&self) -> Nanos {
        self.now.interval
    }

    /// The first end after `at`.
    pub(crate) fn end_after(&self, at: Nanos) -> Nanos {
        if at >= self.now.since {
            self.now.end_after(at)
        } else {
            self.before.end_after(at).min(self.now.since)
        }
    }

    /// The last end at or before `at`: where the interval that it lies in begins.
    pub(crate) fn begin_of(&self, at: Nanos) -> Nanos {
        if at >= self.now.since {
            self.now.begin_of(at)
        } else {
            self.before.begin_of(at.max(self.before.since))
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_change_ends_the_interval_under_way_a_little_ahead() {
        let mut intervals = IoIntervals::new(Nanos(1000 * MS));
        assert_eq!(intervals.end_after(Nanos(1500 * MS)), Nanos(2000 * MS));
        assert_eq!(
            intervals.end_after(Nanos(2000 * MS)),
            Nanos(3000 * MS),
            "an end is the next one's beginning"
        );
        intervals.change(Nanos(100 * MS), Nanos(2300 * MS));
        let ends = |intervals: &IoIntervals, from: u64, count: usize| {
            let next = |at: &Nanos| Some(intervals.end_after(*at));
            std::iter::successors(Some(Nanos(from * MS)), next)
                .skip(1)
                .take(count)
                .map(|end| end.0 / MS)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            ends(&intervals, 500, 5),
            [1000, 2000, 2310, 2410, 2510],
            "who is late closes the ones before as they were"
        );
        assert_eq!(intervals.begin_of(Nanos(2305 * MS)), Nanos(2000 * MS));
        assert_eq!(intervals.begin_of(Nanos(2310 * MS)), Nanos(2310 * MS));
        // Another one before it has begun.
        intervals.change(Nanos(5000 * MS), Nanos(2301 * MS));
        assert_eq!(ends(&intervals, 2000, 3), [2310, 7310, 12310]);
        // And a longer one while a short one is under way.
        intervals.change(Nanos(60_000 * MS), Nanos(7400 * MS));
        assert_eq!(ends(&intervals, 2310, 3), [7310, 7410, 67410]);
    }

    proptest! {
        /// Whoever goes from end to end meets the same ones, whenever it heard of changes that had not begun.
        #[test]
        fn everybody_meets_the_same_ends(changes in prop::collection::vec((1..400u64, 1..50u64), 1..8)) {
            let mut intervals = IoIntervals::new(Nanos(1000 * MS));
            let (mut early, mut late, mut now) = (Nanos(0), Nanos(0), Nanos(0));
            for (after, interval) in changes {
                now = now + Nanos(after * 100 * MS);
                // Both come up to the present by what they know; the late one looked only now.
                for at in [&mut early, &mut late] {
                    while intervals.end_after(*at) <= now {
                        *at = intervals.end_after(*at);
                    }
                }
                intervals.change(Nanos(interval * 100 * MS), now);
                while intervals.end_after(early) <= now + AHEAD {
                    early = intervals.end_after(early);
                }
                prop_assert!(intervals.end_after(now) <= now + AHEAD, "the one under way ends");
                prop_assert_eq!(intervals.begin_of(intervals.end_after(now)), intervals.end_after(now));
            }
            while late < early {
                late = intervals.end_after(late);
            }
            prop_assert_eq!(early, late);
        }
    }
}
