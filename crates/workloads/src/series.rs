//! How a run went over time: raw counts of each interval, for plots and for tests of promises.

use std::time::Duration;

use serde::Serialize;

/// Measured transactions by the interval in which they ended. The sum over all intervals is the count of the run.
#[derive(Clone, Debug, Serialize)]
pub struct Series {
    pub interval_seconds: f64,
    /// `counts[tenant][kind][interval]`: tenants in the order of the run's databases, kinds in that of the report's, the
    /// first interval beginning where the warm-up ends. The last may be cut short by the end of the run.
    pub counts: Vec<Vec<Vec<u64>>>,
}

impl Series {
    /// A series without transactions.
    ///
    /// # Panics
    /// When the interval is no time.
    pub(crate) fn new(tenants: usize, kinds: usize, interval: Duration) -> Series {
        assert!(!interval.is_zero(), "an interval takes time");
        Series { interval_seconds: interval.as_secs_f64(), counts: vec![vec![Vec::new(); kinds]; tenants] }
    }

    /// Counts a transaction that ended `after` the warm-up.
    pub(crate) fn record(&mut self, tenant: usize, kind: usize, after: Duration) {
        let interval = (after.as_secs_f64() / self.interval_seconds) as usize;
        let counts = &mut self.counts[tenant][kind];
        if counts.len() <= interval {
            counts.resize(interval + 1, 0);
        }
        counts[interval] += 1;
    }

    /// Ends the series after `run`: intervals in which nothing ended are zeros, and all kinds have as many.
    pub(crate) fn finish(&mut self, run: Duration) {
        let intervals = (run.as_secs_f64() / self.interval_seconds).ceil() as usize;
        for counts in self.counts.iter_mut().flatten() {
            // What ends exactly with the run belongs to its last interval.
            let late: u64 = counts.drain(intervals.min(counts.len())..).sum();
            counts.resize(intervals, 0);
            if let Some(last) = counts.last_mut() {
                *last += late;
            }
        }
    }

    /// Transactions of each interval by kind, of all tenants together.
    pub(crate) fn by_kind(&self) -> Vec<Vec<u64>> {
        let kinds = self.counts.first().map_or(0, Vec::len);
        let sum = |kind: usize| {
            let of_tenants = self.counts.iter().map(|tenant| &tenant[kind]);
            of_tenants.fold(Vec::new(), |mut sums: Vec<u64>, counts| {
                sums.resize(counts.len(), 0);
                sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
                sums
            })
        };
        (0..kinds).map(sum).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_counts_where_it_ends() {
        let mut series = Series::new(2, 2, Duration::from_millis(500));
        for (tenant, kind, ms) in [(0, 0, 0), (0, 0, 499), (0, 1, 500), (1, 0, 1999), (1, 0, 2000)] {
            series.record(tenant, kind, Duration::from_millis(ms));
        }
        series.finish(Duration::from_secs(2));
        assert_eq!(
            series.counts,
            [[vec![2, 0, 0, 0], vec![0, 1, 0, 0]], [vec![0, 0, 0, 2], vec![0, 0, 0, 0]]],
            "the end of the run belongs to its last interval"
        );
        assert_eq!(series.by_kind(), [[2, 0, 0, 2], [0, 1, 0, 0]]);
    }

    #[test]
    fn a_last_interval_may_be_short() {
        let mut series = Series::new(1, 1, Duration::from_secs(1));
        series.record(0, 0, Duration::from_millis(2200));
        series.finish(Duration::from_millis(2500));
        assert_eq!(series.counts, [[[0, 0, 1]]]);
    }
}
