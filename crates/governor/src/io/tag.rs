//! Tags: instants that advance by what a request costs at a rate, shared by all workers.
//!
//! Each tag is one atomic word. Reading it decides, and advancing it is a charge that commutes with all others, so workers
//! that race for the same instant may each pass one request too early and nobody waits for anybody; what passed too early
//! is in the tag, and the next one waits the longer.

use std::sync::atomic::{AtomicU64, Ordering};

use base::Nanos;

use super::cost::PARTS;

/// An instant in 64ths of a nanosecond: a promise of 300,000 I/Os a second is exact to 5 in a million, and the clock may
/// run for nine years.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(super) struct Stamp(pub(super) u64);

const PER_NANO: u64 = 64;
const PER_SECOND: u64 = 1_000_000_000 * PER_NANO;

impl Stamp {
    pub(super) const NEVER: Stamp = Stamp(u64::MAX);

    pub(super) const fn at(now: Nanos) -> Stamp {
        Stamp(now.0.saturating_mul(PER_NANO))
    }

    /// The first nanosecond that is not before it.
    pub(super) const fn nanos(self) -> Nanos {
        Nanos(self.0.div_ceil(PER_NANO))
    }

    pub(super) const fn plus(self, time: Stamp) -> Stamp {
        Stamp(self.0.saturating_add(time.0))
    }

    pub(super) const fn minus(self, time: Stamp) -> Stamp {
        Stamp(self.0.saturating_sub(time.0))
    }
}

/// What is promised or allowed a second; 0 stands for none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Rate(pub(super) u64);

impl Rate {
    pub(super) const fn is_some(self) -> bool {
        self.0 != 0
    }

    /// The time that `parts` of I/Os take at this rate, rounded down.
    pub(super) fn time_of_parts(self, parts: u64) -> Stamp {
        Stamp(mul_div(parts, PER_SECOND, self.0.saturating_mul(PARTS)))
    }

    /// The time that `bytes` take at this rate, rounded down.
    pub(super) fn time_of_bytes(self, bytes: u64) -> Stamp {
        Stamp(mul_div(bytes, PER_SECOND, self.0))
    }
}

/// `a * b / c`, rounded down; the largest number if it is larger.
pub(super) fn mul_div(a: u64, b: u64, c: u64) -> u64 {
    debug_assert!(c > 0, "no price without a rate");
    match a.checked_mul(b) {
        Some(product) => product / c,
        None => u64::try_from(u128::from(a) * u128::from(b) / u128::from(c)).unwrap_or(u64::MAX),
    }
}

/// One shared tag: the instant at which the tenant's next request is due (or allowed).
#[derive(Debug, Default)]
pub(super) struct Tag(AtomicU64);

impl Tag {
    pub(super) fn get(&self) -> Stamp {
        Stamp(self.0.load(Ordering::Relaxed))
    }

    /// Replaces the tag by what `next` makes of it, and returns what it was. Lock-free: `next` may run several times.
    pub(super) fn advance(&self, next: impl Fn(Stamp) -> Stamp) -> Stamp {
        let mut before = self.0.load(Ordering::Relaxed);
        loop {
            let after = next(Stamp(before)).0;
            match self.0.compare_exchange_weak(before, after, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Stamp(before),
                Err(found) => before = found,
            }
        }
    }

    pub(super) fn raise_to(&self, floor: Stamp) {
        if self.get() < floor {
            self.0.fetch_max(floor.0, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_exact_to_a_64th_of_a_nanosecond() {
        assert_eq!(Rate(100).time_of_parts(PARTS), Stamp::at(Nanos::from_millis(10)));
        assert_eq!(Rate(3).time_of_parts(3 * PARTS), Stamp::at(Nanos::from_secs(1)));
        assert_eq!(Rate(1_000_000_000).time_of_parts(PARTS), Stamp(64));
        assert_eq!(Rate(1 << 20).time_of_bytes(1 << 20), Stamp::at(Nanos::from_secs(1)));
        assert_eq!(Rate(1).time_of_bytes(1 << 60), Stamp::NEVER, "saturates");
        assert_eq!(Stamp(65).nanos(), Nanos(2));
    }
}
