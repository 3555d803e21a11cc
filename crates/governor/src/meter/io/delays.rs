//! How late requests were: a histogram of fixed size.

use base::Nanos;

use crate::meter::Delays;

/// Sub-buckets of a doubling: a percentile is at most an eighth too large.
const PER_DOUBLING: u64 = 8;
/// The finest step, as a shift: 1,024 ns.
const STEP_SHIFT: u32 = 10;
/// Covers delays of up to 9 hours; longer ones count as that, but for their maximum.
const BUCKETS: usize = 272;

/// Delays of one tenant's requests in one interval, or any other times of which only percentiles are wanted. Merging is
/// exact.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DelayHistogram {
    buckets: [u32; BUCKETS],
    count: u64,
    sum: Nanos,
    max: Nanos,
}

impl Default for DelayHistogram {
    fn default() -> DelayHistogram {
        DelayHistogram { buckets: [0; BUCKETS], count: 0, sum: Nanos(0), max: Nanos(0) }
    }
}

fn bucket_of(delay: Nanos) -> usize {
    let steps = delay.0 >> STEP_SHIFT;
    if steps < PER_DOUBLING {
        return steps as usize;
    }
    let doubling = u64::from(steps.ilog2()) - 2;
    let within = (steps >> (doubling - 1)) & (PER_DOUBLING - 1);
    ((doubling * PER_DOUBLING + within) as usize).min(BUCKETS - 1)
}

/// The first delay beyond a bucket.
fn end_of(bucket: usize) -> Nanos {
    let (doubling, within) = (bucket as u64 / PER_DOUBLING, bucket as u64 % PER_DOUBLING);
    let steps = if doubling == 0 { within + 1 } else { (PER_DOUBLING + within + 1) << (doubling - 1) };
    Nanos(steps << STEP_SHIFT)
}

impl DelayHistogram {
    /// Counts one delay.
    pub fn record(&mut self, delay: Nanos) {
        self.buckets[bucket_of(delay)] += 1;
        self.count += 1;
        self.sum += delay;
        self.max = self.max.max(delay);
    }

    /// A delay that has lasted so long and goes on; counts for the maximum alone.
    pub(super) fn note_lasting(&mut self, delay: Nanos) {
        self.max = self.max.max(delay);
    }

    /// Counts what another one has counted.
    pub fn merge(&mut self, other: &DelayHistogram) {
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
        self.count += other.count;
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    /// What the ledger shows of it.
    pub fn figures(&self) -> Delays {
        Delays {
            mean: self.mean(),
            p50: self.percentile(0.5),
            p95: self.percentile(0.95),
            p99: self.percentile(0.99),
            max: self.max,
        }
    }

    /// Requests that had a deadline and were issued.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The longest delay, of requests that still wait too.
    pub fn max(&self) -> Nanos {
        self.max
    }

    /// The mean delay of what was issued; zero if nothing was.
    pub fn mean(&self) -> Nanos {
        Nanos(self.sum.0.checked_div(self.count).unwrap_or(0))
    }

    /// The delay that `part` of what was issued had at most; at most an eighth (or 1 us) too large. Example: 0.99.
    pub fn percentile(&self, part: f64) -> Nanos {
        let wanted = (self.count as f64 * part).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            seen += u64::from(*count);
            if seen >= wanted {
                return if bucket == 0 && self.sum == Nanos(0) {
                    Nanos(0)
                } else {
                    end_of(bucket).min(self.max)
                };
            }
        }
        Nanos(0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn percentiles_are_at_most_an_eighth_too_large(mut delays in prop::collection::vec(0..1u64 << 40, 1..300), part in 0.01..1.0f64) {
            let mut histogram = DelayHistogram::default();
            delays.iter().for_each(|delay| histogram.record(Nanos(*delay)));
            delays.sort_unstable();
            let rank = ((delays.len() as f64 * part).ceil() as usize).max(1) - 1;
            let (exact, found) = (delays[rank], histogram.percentile(part).0);
            prop_assert!(found >= exact && found <= exact + exact / 8 + 1024, "{} for {}", found, exact);
            prop_assert_eq!(histogram.max().0, *delays.last().unwrap());
        }

        #[test]
        fn buckets_follow_each_other(delay in 0..1u64 << 44) {
            let bucket = bucket_of(Nanos(delay));
            prop_assert!(delay < end_of(bucket).0);
            prop_assert!(bucket == 0 || delay >= end_of(bucket - 1).0);
        }
    }
}
