//! What is measured on a volume, and for how long.
//!
//! The whole plan is gone through several times, so that what disturbs the device for a moment, or a burst that it allows at
//! first, does not fall on one depth alone. What others do on a device only makes it look slower; so each rate is the one
//! that a quarter of its rounds reached.

use std::fmt;

use base::limits::PAGE_SIZE;
use base::{ByteCount, Nanos};
use serde::Serialize;

/// A page, the unit that data files are read and written in.
pub(super) const PAGE: ByteCount = ByteCount(PAGE_SIZE as u64);
/// The largest request of the plan, whose sequential rate is the bandwidth.
pub(super) const LARGEST: ByteCount = ByteCount::from_kib(256);
/// Times that each point is measured at least: with seven, two may be a burst and four disturbed.
const ROUNDS_MIN: u64 = 7;
/// No stretch of measuring is longer: between two of them the measurement can be interrupted.
const STRETCH_MAX: Nanos = Nanos::from_millis(500);

/// In which order places are visited.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    Sequential,
    Random,
}

/// What is done at each place.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    Read,
    /// Written, and all together synced at the end; that is within the time that is measured.
    Write,
    /// One write that is durable when it ends, as the server's log makes them.
    DurableWrite,
    /// A write and a sync of the file after each.
    WriteAndSync,
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Access::Sequential => "sequential",
            Access::Random => "random",
        })
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::DurableWrite => "durable write",
            Operation::WriteAndSync => "write and sync",
        })
    }
}

/// One kind of request at rising queue depths.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Series {
    pub(super) access: Access,
    pub(super) operation: Operation,
    pub(super) block: ByteCount,
    /// Rising.
    pub(super) depths: Vec<u32>,
    /// Share of each of its points in the plan's time.
    pub(super) weight: u64,
}

/// What is measured; the first two series are the random reads and writes of pages that depth and rates are taken from.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(super) series: Vec<Series>,
    /// Of all stretches together; preparing the scratch file comes before it.
    pub(super) length: Nanos,
}

/// One stretch of measuring.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stretch {
    /// Place in the plan.
    pub(super) series: usize,
    /// Place in the series.
    pub(super) point: usize,
    pub(super) length: Nanos,
}

/// 1, 2, 4, … up to `max`.
fn doublings(max: u32) -> Vec<u32> {
    (0..u32::BITS).map(|shift| 1 << shift).take_while(|depth| *depth <= max).collect()
}

/// 1, 2, 3, 4, 6, 8, 12, … up to `max`.
fn halves(max: u32) -> Vec<u32> {
    let mut depths = doublings(max);
    depths.extend(doublings(max / 3 * 2).iter().skip(1).map(|depth| depth / 2 * 3).collect::<Vec<_>>());
    depths.retain(|depth| *depth <= max);
    depths.sort_unstable();
    depths
}

impl Plan {
    /// Everything: pages at 16 depths, other sizes at 9. `seconds` should be 30 at least.
    pub fn full(seconds: u64) -> Plan {
        let sizes = [4, 8, 16, 64, 256].map(ByteCount::from_kib);
        Plan::of(Nanos::from_secs(seconds), &halves(256), &sizes, &doublings(256))
    }

    /// A look that takes a few seconds: fewer depths and sizes, for less time each.
    pub fn quick() -> Plan {
        Plan::of(Nanos::from_secs(6), &doublings(256), &[PAGE, LARGEST], &[1, 8, 64])
    }

    /// Pages at `page_depths`; the other combinations of order, direction and `sizes` at `depths`.
    pub(super) fn of(length: Nanos, page_depths: &[u32], sizes: &[ByteCount], depths: &[u32]) -> Plan {
        let series = |access, operation, block, depths: &[u32], weight| Series {
            access,
            operation,
            block,
            depths: depths.to_vec(),
            weight,
        };
        // What the server goes by gets most of the time.
        let mut all = vec![
            series(Access::Random, Operation::Read, PAGE, page_depths, 4),
            series(Access::Random, Operation::Write, PAGE, page_depths, 4),
        ];
        for access in [Access::Random, Access::Sequential] {
            for operation in [Operation::Read, Operation::Write] {
                let others = sizes.iter().filter(|size| access == Access::Sequential || **size != PAGE);
                all.extend(others.map(|size| series(access, operation, *size, depths, 1)));
            }
        }
        // Each worker's log has one write in flight.
        for operation in [Operation::DurableWrite, Operation::WriteAndSync] {
            all.push(series(Access::Sequential, operation, PAGE, &[1, 2, 4, 8], 2));
        }
        Plan { series: all, length }
    }

    /// The stretches in the order in which they are measured: rounds over all points.
    pub(super) fn stretches(&self) -> impl Iterator<Item = Stretch> + '_ {
        let weights: u64 = self.series.iter().map(|series| series.weight * series.depths.len() as u64).sum();
        let of_point = move |series: &Series| Nanos(self.length.0 * series.weight / weights);
        let longest = self.series.iter().map(of_point).max().unwrap_or_default();
        let rounds = longest.0.div_ceil(STRETCH_MAX.0).max(ROUNDS_MIN);
        (0..rounds).flat_map(move |_| {
            self.series.iter().enumerate().flat_map(move |(at, series)| {
                let length = Nanos(of_point(series).0 / rounds);
                (0..series.depths.len()).map(move |point| Stretch { series: at, point, length })
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depths_rise_by_halves_and_doublings() {
        assert_eq!(doublings(64), [1, 2, 4, 8, 16, 32, 64]);
        assert_eq!(halves(64), [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64]);
        assert_eq!(halves(256).len(), 16);
    }

    #[test]
    fn a_plan_takes_the_time_it_was_given_and_can_be_interrupted_all_along() {
        for plan in [Plan::quick(), Plan::full(30), Plan::full(60), Plan::full(3600)] {
            let stretches: Vec<Stretch> = plan.stretches().collect();
            let length: u64 = stretches.iter().map(|stretch| stretch.length.0).sum();
            assert!(length <= plan.length.0 && length > plan.length.0 / 100 * 99, "{length}");
            assert!(stretches.iter().all(|stretch| stretch.length <= STRETCH_MAX && stretch.length.0 > 0));
            for (at, series) in plan.series.iter().enumerate() {
                assert!(series.depths.is_sorted() && series.block.0.is_multiple_of(env::IO_ALIGN as u64));
                for point in 0..series.depths.len() {
                    let measured = stretches.iter().filter(|s| s.series == at && s.point == point).count();
                    assert!(measured >= 7, "{series:?}");
                }
            }
        }
    }

    #[test]
    fn pages_at_random_come_first_and_no_series_comes_twice() {
        for plan in [Plan::quick(), Plan::full(60)] {
            let kinds: Vec<_> = plan.series.iter().map(|s| (s.access, s.operation, s.block)).collect();
            assert_eq!(kinds[0], (Access::Random, Operation::Read, PAGE));
            assert_eq!(kinds[1], (Access::Random, Operation::Write, PAGE));
            assert_eq!(plan.series[0].depths, plan.series[1].depths);
            assert!((1..kinds.len()).all(|at| !kinds[..at].contains(&kinds[at])), "{kinds:?}");
            for operation in [Operation::Read, Operation::Write] {
                assert!(kinds.contains(&(Access::Sequential, operation, LARGEST)));
            }
            assert!(kinds.contains(&(Access::Sequential, Operation::DurableWrite, PAGE)));
        }
    }
}
