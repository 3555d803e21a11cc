//! What a request counts for: I/Os in parts of 2^-16, and bytes.

use std::iter::Sum;
use std::ops::{Add, AddAssign};

use base::ByteCount;
use base::limits::IO_UNIT;

/// Parts of one I/O, so that the members of a log group can share one.
pub(crate) const PARTS: u64 = 1 << 16;

/// The cost of a request, or of a tenant's share in one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct IoCost {
    /// I/Os, in parts of 2^-16.
    pub(crate) parts: u64,
    pub(crate) bytes: u64,
}

impl IoCost {
    /// One I/O for each started 64 KiB; one for a request without bytes (a sync). Example: 8 KiB cost 1 I/O, 256 KiB 4,
    /// 256 KiB and a byte 5.
    pub const fn of(bytes: ByteCount) -> IoCost {
        let units = bytes.0.div_ceil(IO_UNIT.0);
        IoCost { parts: if units == 0 { PARTS } else { units * PARTS }, bytes: bytes.0 }
    }

    /// So many I/Os of so many bytes together.
    pub const fn of_many(ios: u64, bytes: ByteCount) -> IoCost {
        IoCost { parts: ios * PARTS, bytes: bytes.0 }
    }

    /// I/Os, with the fraction that a share in a group has.
    pub fn ios(self) -> f64 {
        self.parts as f64 / PARTS as f64
    }

    /// Bytes.
    pub const fn bytes(self) -> ByteCount {
        ByteCount(self.bytes)
    }

    /// What is left of it without `other`; nothing less than nothing.
    pub(crate) const fn less(self, other: IoCost) -> IoCost {
        IoCost {
            parts: self.parts.saturating_sub(other.parts),
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }

    /// The share of whoever has the bytes from `from` to `to` of the `total` that a group's records take; what the group has
    /// beyond them (its header, its padding) goes along in proportion. Consecutive shares of `0..total` add up to the
    /// whole exactly. Example: of a block of 4 KiB with records of 300 and 100 bytes the first pays 3/4 of an I/O, the
    /// second 1/4.
    ///
    /// # Panics
    /// If `from ≤ to ≤ total` does not hold or `total` is zero.
    #[must_use]
    pub fn share(self, from: ByteCount, to: ByteCount, total: ByteCount) -> IoCost {
        assert!(from <= to && to <= total && total.0 > 0, "a share lies within its group");
        let through = |whole: u64, at: u64| {
            u64::try_from(u128::from(whole) * u128::from(at) / u128::from(total.0))
                .expect("at most the whole")
        };
        IoCost {
            parts: through(self.parts, to.0) - through(self.parts, from.0),
            bytes: through(self.bytes, to.0) - through(self.bytes, from.0),
        }
    }
}

impl Add for IoCost {
    type Output = IoCost;
    fn add(self, other: IoCost) -> IoCost {
        IoCost { parts: self.parts + other.parts, bytes: self.bytes + other.bytes }
    }
}

impl AddAssign for IoCost {
    fn add_assign(&mut self, other: IoCost) {
        *self = *self + other;
    }
}

impl Sum for IoCost {
    fn sum<I: Iterator<Item = IoCost>>(costs: I) -> IoCost {
        costs.fold(IoCost::default(), Add::add)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_started_64_kib_is_one() {
        for (bytes, ios) in [(0, 1), (1, 1), (8192, 1), (65536, 1), (65537, 2), (262_144, 4)] {
            assert_eq!(IoCost::of(ByteCount(bytes)).parts, ios * PARTS, "{bytes}");
        }
    }

    proptest! {
        #[test]
        fn shares_add_up_to_the_whole(lens in prop::collection::vec(0..100_000u64, 1..20), padding in 0..5000u64) {
            let total = lens.iter().sum::<u64>();
            prop_assume!(total > 0);
            let whole = IoCost::of(ByteCount(total + padding));
            let mut at = 0;
            let shares = lens.iter().map(|len| {
                at += len;
                whole.share(ByteCount(at - len), ByteCount(at), ByteCount(total))
            });
            prop_assert_eq!(shares.sum::<IoCost>(), whole);
        }
    }
}
