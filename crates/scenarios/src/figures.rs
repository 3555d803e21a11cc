//! What clients did: counted by those who work, read by those who watch.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use workloads::report::Latencies;

use crate::crew::Counted;

/// What the clients of a tenant, or of all of a group's tenants, did.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub struct Figures {
    /// Transactions since they began.
    pub transactions: u64,
    /// Transactions a second, of late.
    pub per_second: f64,
    /// Latencies of late; `None` without a transaction.
    pub p50_ms: Option<f64>,
    pub p95_ms: Option<f64>,
    pub p99_ms: Option<f64>,
}

impl Figures {
    fn new(transactions: u64, since: u64, passed: Duration, latencies: &Latencies) -> Figures {
        let quantile = |of| (latencies.count() > 0).then(|| latencies.quantile_ms(of));
        Figures {
            transactions,
            per_second: (transactions - since) as f64 / passed.as_secs_f64(),
            p50_ms: quantile(0.50),
            p95_ms: quantile(0.95),
            p99_ms: quantile(0.99),
        }
    }
}

/// The counters of a group's tenants, in order, each with what it was at when it was last read.
#[derive(Debug, Default)]
pub(crate) struct Counters(Vec<(Arc<Counted>, u64)>);

impl Counters {
    /// Has counters for so many tenants; those of others are forgotten.
    pub(crate) fn resize(&mut self, tenants: usize) {
        self.0.resize_with(tenants, || (Counted::new(), 0));
    }

    pub(crate) fn of(&self, tenant: usize) -> Arc<Counted> {
        self.0[tenant].0.clone()
    }

    /// What one of the clients that fail at the moment fails by.
    pub(crate) fn error(&self) -> Option<String> {
        self.0.iter().find_map(|(counted, _)| counted.error())
    }

    /// Brings the counts of transactions up to date, and leaves what is of late as it is.
    pub(crate) fn count(&self, figures: &mut Vec<Figures>) {
        figures.resize(self.0.len(), Figures::default());
        for (figures, (counted, _)) in figures.iter_mut().zip(&self.0) {
            figures.transactions = counted.live.transactions.load(Ordering::Relaxed);
        }
    }

    /// Of all together and of each, since they were last read, which is so long ago.
    pub(crate) fn read(&mut self, passed: Duration) -> (Figures, Vec<Figures>) {
        let (mut all, mut now, mut since) = (Latencies::coarse(), 0, 0);
        let mut read = |(counted, before): &mut (Arc<Counted>, u64)| {
            let transactions = counted.live.transactions.load(Ordering::Relaxed);
            let latencies = counted.live.take_latencies();
            all.add(&latencies);
            (now, since) = (now + transactions, since + *before);
            Figures::new(transactions, std::mem::replace(before, transactions), passed, &latencies)
        };
        let each = self.0.iter_mut().map(&mut read).collect();
        (Figures::new(now, since, passed, &all), each)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_the_sum_of_each_and_what_was_read_is_not_read_again() {
        let second = Duration::from_secs(1);
        let mut counters = Counters::default();
        counters.resize(2);
        for (tenant, count, ms) in [(0, 10, 1), (1, 30, 5)] {
            for _ in 0..count {
                counters.of(tenant).live.record(Duration::from_millis(ms));
            }
        }
        let (all, each) = counters.read(2 * second);
        assert_eq!((all.transactions, all.per_second), (40, 20.0));
        assert_eq!(
            each.iter().map(|of| (of.transactions, of.per_second)).collect::<Vec<_>>(),
            [(10, 5.0), (30, 15.0)]
        );
        let about = |ms: Option<f64>, is: f64| ms.is_some_and(|ms| (ms / is - 1.0).abs() < 0.01);
        assert!(
            about(each[0].p99_ms, 1.0) && about(all.p50_ms, 5.0) && about(all.p99_ms, 5.0),
            "{all:?} {each:?}"
        );
        let (all, _) = counters.read(second);
        assert_eq!((all.transactions, all.per_second, all.p99_ms), (40, 0.0, None));
        counters.of(1).live.record(Duration::from_millis(1));
        let mut figures = each;
        counters.count(&mut figures);
        assert_eq!((figures[1].transactions, figures[1].per_second), (31, 15.0));
        // A tenant that went takes its count with it.
        counters.resize(1);
        assert_eq!(counters.read(second).0.transactions, 10);
    }
}
