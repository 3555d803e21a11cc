//! Processor time against time on the wall.

use crate::promise::MilliCores;

/// Processor time a second, in millionths of a core. Never zero: where nothing is promised there is no rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Rate(u64);

const ONE_CORE: u64 = 1_000_000;

impl Rate {
    /// `None` for zero cores.
    pub(super) fn new(cores: MilliCores) -> Option<Rate> {
        (cores.0 > 0).then(|| Rate(u64::from(cores.0) * (ONE_CORE / 1000)))
    }

    /// The smaller of this and so many whole cores; one at least.
    pub(super) fn at_most(self, cores: u32) -> Rate {
        Rate(self.0.min(u64::from(cores.max(1)) * ONE_CORE))
    }

    /// Whether one core is enough to serve it.
    pub(super) fn fits_one_core(self) -> bool {
        self.0 <= ONE_CORE
    }

    /// In how many nanoseconds a tenant of this rate is due `work` nanoseconds of processor time, to the nearest.
    /// Example: 50 us at half a core are due in 100 us.
    pub(super) fn time_for(self, work: u64) -> u64 {
        divide(work, ONE_CORE, self.0, self.0 / 2)
    }

    /// As [`Rate::time_for`], rounded up.
    pub(super) fn time_for_at_least(self, work: u64) -> u64 {
        divide(work, ONE_CORE, self.0, self.0 - 1)
    }

    /// The processor time due in so many nanoseconds, rounded down.
    pub(super) fn work_in(self, time: u64) -> u64 {
        divide(time, self.0, ONE_CORE, 0)
    }
}

/// `(value × times + extra) / by`, in 64 bits where they suffice: it runs at every poll.
fn divide(value: u64, times: u64, by: u64, extra: u64) -> u64 {
    match value.checked_mul(times).and_then(|product| product.checked_add(extra)) {
        Some(product) => product / by,
        None => {
            let product = u128::from(value) * u128::from(times) + u128::from(extra);
            u64::try_from(product / u128::from(by)).unwrap_or(u64::MAX)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_time_in_proportion_to_the_rate() {
        let half = Rate::new(MilliCores(500)).unwrap();
        assert_eq!((half.time_for(50_000), half.work_in(100_000)), (100_000, 50_000));
        let three = Rate::new(MilliCores(3000)).unwrap();
        assert_eq!((three.time_for(10), three.time_for_at_least(10)), (3, 4));
        assert_eq!(three.at_most(2), Rate::new(MilliCores(2000)).unwrap());
        assert_eq!(Rate::new(MilliCores(0)), None);
        let least = Rate::new(MilliCores(1)).unwrap();
        assert_eq!(least.time_for(u64::MAX / 2), u64::MAX, "saturates");
    }
}
