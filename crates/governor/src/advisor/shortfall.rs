//! In how many intervals a rate was exceeded, and by how much.

use base::Nanos;

use crate::meter::SparseHistogram;

/// What a promise would have been too little for, between two bounds: the lower by what was given, the upper by what was wanted, each with what a bucket of the record leaves open.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Shortfall {
    /// Intervals in which it was too little, and those on record.
    pub intervals_min: u64,
    pub intervals_max: u64,
    pub of: u64,
    /// What was missing in them together, in the resource's unit, intervals taken to be equally long.
    pub missing_min: u64,
    pub missing_max: u64,
}

impl Shortfall {
    /// Of a promise of so much a second, over intervals that last so long together.
    pub(super) fn of(
        given: &SparseHistogram,
        wanted: &SparseHistogram,
        promised: u64,
        covered: Nanos,
    ) -> Shortfall {
        let intervals = given.count();
        let (mut short, mut missing_min, mut missing_max) =
            (Shortfall { of: intervals, ..Shortfall::default() }, 0u128, 0u128);
        for (low, _, count) in given.ranges().filter(|(low, ..)| *low > promised) {
            short.intervals_min += count;
            missing_min += u128::from(low - promised) * u128::from(count);
        }
        for (_, high, count) in wanted.ranges().filter(|(_, high, _)| *high > promised) {
            short.intervals_max += count;
            missing_max += u128::from(high - promised) * u128::from(count);
        }
        // Sums of rates become amounts by the length of an interval.
        let by_time = |rates: u128| {
            let amount = rates * u128::from(covered.0) / u128::from(intervals.max(1)) / 1_000_000_000;
            u64::try_from(amount).unwrap_or(u64::MAX)
        };
        (short.missing_min, short.missing_max) = (by_time(missing_min), by_time(missing_max));
        short
    }
}
