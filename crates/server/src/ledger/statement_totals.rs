//! How long a tenant's statements took since the server's start, in few buckets.

use std::ops::Add;

use base::Nanos;
use governor::SparseHistogram;

/// Upper bounds of the buckets.
pub(crate) const BOUNDS: [Nanos; 9] = [
    Nanos::from_micros(250),
    Nanos::from_millis(1),
    Nanos::from_micros(2_500),
    Nanos::from_millis(5),
    Nanos::from_millis(10),
    Nanos::from_millis(25),
    Nanos::from_millis(100),
    Nanos::from_millis(500),
    Nanos::from_millis(2_500),
];

/// Counts by bucket, those beyond the last bound at the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct StatementTotals {
    pub(crate) counts: [u64; BOUNDS.len() + 1],
    pub(crate) time: Nanos,
}

impl StatementTotals {
    /// Takes in statements that together took `time`. One that took up to a sixteenth less than a bound may count beyond it.
    pub(super) fn count(&mut self, times: &SparseHistogram, time: Nanos) {
        for (_, longest, statements) in times.ranges() {
            let bucket = BOUNDS.partition_point(|bound| bound.0 < longest);
            self.counts[bucket] += statements;
        }
        self.time += time;
    }
}

impl Add for StatementTotals {
    type Output = StatementTotals;

    fn add(self, other: StatementTotals) -> StatementTotals {
        let counts = std::array::from_fn(|bucket| self.counts[bucket] + other.counts[bucket]);
        StatementTotals { counts, time: self.time + other.time }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_count_within_the_next_bound() {
        let (mut totals, mut times) = (StatementTotals::default(), SparseHistogram::default());
        for micros in [0, 200, 900, 3_000, 90_000, 10_000_000] {
            times.record(Nanos::from_micros(micros).0);
        }
        totals.count(&times, Nanos(7));
        assert_eq!(totals.counts, [2, 1, 0, 1, 0, 0, 1, 0, 0, 1]);
        let twice = totals + totals;
        assert_eq!((twice.counts[0], twice.time), (4, Nanos(14)));
        assert!(BOUNDS.is_sorted());
    }
}
