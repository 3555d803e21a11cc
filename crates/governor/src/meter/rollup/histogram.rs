//! A histogram of amounts of any size that takes room only for what it holds, so that millions of them can be kept.

/// Sub-buckets of a doubling: a percentile is at most a sixteenth too large.
const PER_DOUBLING: u64 = 16;
const PER_DOUBLING_LOG: u32 = PER_DOUBLING.ilog2();

/// Buckets there are: amounts below 16 have one each, then 16 for each doubling of what fits 64 bits.
pub(super) const BUCKETS: u16 = ((64 - PER_DOUBLING_LOG + 1) as u64 * PER_DOUBLING) as u16;
const _: () = assert!(bucket_of(u64::MAX) == BUCKETS - 1);

/// How often which amounts occurred. Merging is exact, in any order. Not for the run path: a new amount may allocate; of the delays of
/// requests [`crate::DelayHistogram`] keeps count.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct SparseHistogram {
    /// (bucket, count), by bucket, none with a count of 0.
    buckets: Vec<(u16, u64)>,
    max: u64,
}

const fn bucket_of(amount: u64) -> u16 {
    if amount < PER_DOUBLING {
        return amount as u16;
    }
    let shift = amount.ilog2() - PER_DOUBLING_LOG;
    let within = (amount >> shift) & (PER_DOUBLING - 1);
    ((shift as u64 + 1) * PER_DOUBLING + within) as u16
}

/// The smallest and the largest amount of a bucket.
fn bounds_of(bucket: u16) -> (u64, u64) {
    let (doubling, within) = (u64::from(bucket) / PER_DOUBLING, u64::from(bucket) % PER_DOUBLING);
    if doubling == 0 {
        return (within, within);
    }
    let shift = doubling - 1;
    let low = (PER_DOUBLING + within) << shift;
    (low, low + ((1 << shift) - 1))
}

impl SparseHistogram {
    /// One more of this amount.
    pub fn record(&mut self, amount: u64) {
        self.record_many(amount, 1);
    }

    /// So many more of this amount, one at least.
    pub fn record_many(&mut self, amount: u64, count: u64) {
        debug_assert!(count > 0, "no bucket has a count of 0");
        self.add(bucket_of(amount), count);
        self.max = self.max.max(amount);
    }

    fn add(&mut self, bucket: u16, count: u64) {
        match self.buckets.binary_search_by_key(&bucket, |(bucket, _)| *bucket) {
            Ok(at) => self.buckets[at].1 = self.buckets[at].1.saturating_add(count),
            Err(at) => self.buckets.insert(at, (bucket, count)),
        }
    }

    /// Takes in all of another.
    pub fn merge(&mut self, other: &SparseHistogram) {
        other.buckets.iter().for_each(|(bucket, count)| self.add(*bucket, *count));
        self.max = self.max.max(other.max);
    }

    /// Amounts recorded.
    pub fn count(&self) -> u64 {
        self.buckets.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }

    /// The largest amount, exactly; 0 if there is none.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The amount that `part` of all were at most, at most a sixteenth too large; 0 if there is none. Example: 0.99.
    pub fn percentile(&self, part: f64) -> u64 {
        let wanted = (self.count() as f64 * part).ceil().max(1.0) as u64;
        let mut seen: u64 = 0;
        for (_, high, count) in self.ranges() {
            seen = seen.saturating_add(count);
            if seen >= wanted {
                return high;
            }
        }
        self.max
    }

    /// What is held, as (smallest amount, largest amount, count), from small to large. The last one's largest is the largest recorded.
    pub fn ranges(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        self.buckets.iter().map(|(bucket, count)| {
            let (low, high) = bounds_of(*bucket);
            (low, high.min(self.max), *count)
        })
    }

    /// As it is written: buckets with their counts, and the largest amount.
    pub(super) fn parts(&self) -> (&[(u16, u64)], u64) {
        (&self.buckets, self.max)
    }

    /// From what [`SparseHistogram::parts`] gave. `None` if that cannot have been it.
    pub(super) fn from_parts(buckets: Vec<(u16, u64)>, max: u64) -> Option<SparseHistogram> {
        let ordered = buckets.is_sorted_by(|a, b| a.0 < b.0);
        let counted = buckets.iter().all(|(_, count)| *count > 0);
        let largest_fits = match buckets.last() {
            Some((bucket, _)) => bucket_of(max) == *bucket,
            None => max == 0,
        };
        (ordered && counted && largest_fits).then_some(SparseHistogram { buckets, max })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(amounts: &[u64]) -> SparseHistogram {
        let mut histogram = SparseHistogram::default();
        amounts.iter().for_each(|amount| histogram.record(*amount));
        histogram
    }

    #[test]
    fn small_amounts_are_exact() {
        let histogram = of(&[0, 0, 3, 15]);
        assert_eq!(histogram.ranges().collect::<Vec<_>>(), [(0, 0, 2), (3, 3, 1), (15, 15, 1)]);
        assert_eq!((histogram.percentile(0.5), histogram.percentile(0.75), histogram.max()), (0, 3, 15));
        assert_eq!((of(&[]).percentile(0.99), of(&[]).count()), (0, 0));
    }

    #[test]
    fn many_of_an_amount_are_as_that_many_times_one() {
        let mut many = of(&[5]);
        many.record_many(70, 3);
        assert_eq!(many, of(&[5, 70, 70, 70]));
    }

    #[test]
    fn the_largest_amount_is_exact() {
        let histogram = of(&[5, 1000]);
        assert_eq!(histogram.ranges().last(), Some((992, 1000, 1)));
        assert_eq!(histogram.percentile(1.0), 1000);
    }

    #[test]
    fn parts_that_cannot_be_are_refused() {
        let parts = |buckets: &[(u16, u64)], max| SparseHistogram::from_parts(buckets.to_vec(), max);
        assert_eq!(parts(&[(3, 1), (5, 2)], 5), Some(of(&[3, 5, 5])));
        assert_eq!(parts(&[(3, 1), (5, 2)], 6), None, "6 has a bucket of its own");
        assert_eq!(parts(&[], 6), None);
        assert_eq!(parts(&[(5, 1), (3, 2)], 3), None);
        assert_eq!(parts(&[(5, 1), (5, 2)], 5), None);
        assert_eq!(parts(&[(3, 0), (5, 2)], 5), None);
    }

    #[test]
    fn buckets_follow_each_other_to_the_largest_amount() {
        assert_eq!(bounds_of(0).0, 0);
        for bucket in 1..BUCKETS {
            let (low, high) = bounds_of(bucket);
            assert_eq!(low, bounds_of(bucket - 1).1 + 1);
            assert_eq!((bucket_of(low), bucket_of(high)), (bucket, bucket));
            assert!(high - low <= low / PER_DOUBLING);
        }
        assert_eq!(bounds_of(BUCKETS - 1).1, u64::MAX);
    }

    proptest! {
        #[test]
        fn percentiles_are_at_most_a_sixteenth_too_large(shifts in prop::collection::vec((any::<u64>(), 0..64u32), 1..200), part in 0.01..1.0f64) {
            let mut amounts: Vec<u64> = shifts.iter().map(|(amount, shift)| amount >> shift).collect();
            let histogram = of(&amounts);
            amounts.sort_unstable();
            let rank = ((amounts.len() as f64 * part).ceil() as usize).max(1) - 1;
            let (exact, found) = (amounts[rank], histogram.percentile(part));
            prop_assert!(found >= exact && found - exact <= exact / 16, "{} for {}", found, exact);
            prop_assert_eq!(histogram.max(), *amounts.last().unwrap());
        }

        #[test]
        fn merging_is_as_recording_all(a in prop::collection::vec(any::<u64>(), 0..50), b in prop::collection::vec(0..100u64, 0..50)) {
            let (mut merged, mut other) = (of(&a), of(&b));
            merged.merge(&of(&b));
            other.merge(&of(&a));
            prop_assert_eq!(&merged, &of(&[a, b].concat()));
            prop_assert_eq!(&merged, &other);
            let (buckets, max) = merged.parts();
            prop_assert_eq!(SparseHistogram::from_parts(buckets.to_vec(), max), Some(merged.clone()));
        }
    }
}
