//! What a promise of I/O came to, recomputed from counts that the meter has no part in.
//!
//! The definition (SQLVM, section 3.2, the weaker promise): a request is missed in a metering interval if its deadline is in it and
//! it was not issued in it. Deadlines of a tenant that waits are 1/r apart, so of r promised a second and g issued, r - g deadlines
//! came without an issue, but no more than there were requests waiting: `missed = min(max(0, r - g), w)` a second. Here g is the
//! storage layer's count of pages and w the mean number of statements that waited for one (their waiting time a second), both over
//! windows of some seconds, since a wait is only known once it has ended.
//!
//! Example: 80 promised, 30 read a second, 16 clients of which 15 wait at a time: 15 a second are missed, not 50: the demand beyond
//! was never made.

use crate::world::ledger::Row;
use crate::world::sampler::Samples;

/// Seconds of a window.
pub(super) const WINDOW_SECONDS: u64 = 10;

/// A tenant over one window.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Window {
    /// I/Os a second.
    pub(super) issued: f64,
    /// Statements that waited for a page, on average.
    pub(super) waiting: f64,
}

impl Window {
    /// I/Os missed a second with so many promised.
    pub(super) fn missed(self, promised: f64) -> f64 {
        (promised - self.issued).max(0.0).min(self.waiting.max(0.0))
    }
}

/// A tenant's windows between two moments, one after the other, up to the first that one of the samples is missing of.
pub(super) fn windows(
    samples: &Samples,
    waits: &Samples,
    tenant: &str,
    from_us: u64,
    to_us: u64,
) -> Vec<Window> {
    let step = WINDOW_SECONDS * 1_000_000;
    (0..to_us.saturating_sub(from_us) / step)
        .map_while(|number| {
            // A sample more, so that windows meet.
            let (from, to) = (from_us + number * step, from_us + (number + 1) * step + 1_100_000);
            Some(Window {
                issued: samples.tenant_rate(tenant, from, to, |counts| counts.pages_read)?,
                waiting: waits.tenant_rate(tenant, from, to, |counts| counts.page_wait_seconds)?,
            })
        })
        .collect()
}

/// Rows that do not say what the definitions of their own columns say: `demanded` is what was given and missed, up to what was
/// promised; nothing is missed that was not demanded. Amounts are whole I/Os, each rounded by itself.
pub(super) fn contradictions(rows: &[Row]) -> Vec<&Row> {
    let contradicts = |row: &&Row| {
        let demanded = (row.given + row.missed).min(row.promised);
        (row.demanded - demanded).abs() > 1.5 || row.missed > row.demanded + 1.5 || row.missed < 0.0
    };
    rows.iter().filter(|row| row.promised > 0.0).filter(contradicts).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missed_is_bounded_by_the_promise_and_by_who_waits() {
        let window = |issued, waiting| Window { issued, waiting };
        assert_eq!(window(30.0, 15.0).missed(80.0), 15.0);
        assert_eq!(window(70.0, 15.0).missed(80.0), 10.0);
        assert_eq!(window(90.0, 15.0).missed(80.0), 0.0, "more than was promised");
        assert_eq!(window(5.0, 0.01).missed(80.0), 0.01, "little demand");
    }

    #[test]
    fn a_row_that_contradicts_itself_is_found() {
        let row = |given: f64, missed: f64, demanded: f64| Row {
            tenant: "t1".into(),
            began_us: 0,
            ended_us: 1_000_000,
            active: 1.0,
            promised: 80.0,
            demanded,
            given,
            missed,
            cause: String::new(),
        };
        let good =
            [row(30.0, 16.0, 46.0), row(100.0, 0.0, 80.0), row(75.0, 10.0, 80.0), row(30.2, 16.4, 46.0)];
        assert!(contradictions(&good).is_empty());
        for wrong in
            [row(30.0, 16.0, 80.0), row(30.0, 16.0, 30.0), row(0.0, 90.0, 80.0), row(30.0, -5.0, 25.0)]
        {
            assert_eq!(contradictions(std::slice::from_ref(&wrong)).len(), 1, "{wrong:?}");
        }
    }
}
