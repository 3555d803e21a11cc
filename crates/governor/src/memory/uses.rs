//! When pages were used, as far as sweeps saw it.
//!
//! A page's *age* is the time since its last use but one; one that was used only once since it was read, as by a scan, has no
//! such use and is older than all others. Time is the server's eviction clock, which advances by one for each page evicted, so
//! that a quiet server's pages do not age.

/// Pages evicted by the server since its start: the clock by which pages age.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct EvictionTime(pub u32);

impl EvictionTime {
    /// The time `pages` evictions later. The clock wraps around after 2^32 of them (32 TiB); ages are differences.
    #[must_use]
    pub fn after(self, pages: u32) -> EvictionTime {
        EvictionTime(self.0.wrapping_add(pages))
    }
}

/// When a page in memory was last used and when before that, as far as sweeps saw it; fits a word beside the page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct UseTimes(u64);

/// 0 in a half of [`UseTimes`] means "never", so times are kept with this bit set.
const KNOWN: u32 = 1;
/// In the later half: the page was used since, by a reader that said so.
const TOUCHED: u32 = 2;
/// In the earlier half: the meter was told of a use.
const TOLD: u64 = 2 << 32;

/// Times as they are kept, exact to four evictions.
fn kept(at: EvictionTime) -> u32 {
    at.0 & !TOUCHED | KNOWN
}

impl UseTimes {
    /// A page that was just read, for its first use.
    pub fn read_at(now: EvictionTime) -> UseTimes {
        UseTimes(0).used_at(now)
    }

    /// The same page after a sweep found it used since the visit before.
    #[must_use]
    pub fn used_at(self, now: EvictionTime) -> UseTimes {
        UseTimes((self.0 & !u64::from(TOUCHED)) << 32 | self.0 & TOLD | u64::from(kept(now)))
    }

    /// The same page after a reader used it that leaves no other trace for the sweep.
    #[must_use]
    pub fn touched(self) -> UseTimes {
        UseTimes(self.0 | u64::from(TOUCHED))
    }

    /// Whether it was touched since [`UseTimes::used_at`].
    pub fn is_touched(self) -> bool {
        self.0 & u64::from(TOUCHED) != 0
    }

    /// The same page after the meter was told of a use, by a reader that has no entry of the map to leave a trace in.
    #[must_use]
    pub fn told(self) -> UseTimes {
        UseTimes(self.0 | TOLD)
    }

    /// The same page once the meter wants to be told again.
    #[must_use]
    pub fn untold(self) -> UseTimes {
        UseTimes(self.0 & !TOLD)
    }

    /// Whether the meter was told since [`UseTimes::untold`].
    pub fn is_told(self) -> bool {
        self.0 & TOLD != 0
    }

    /// Evictions since the last use but one; `None` if there is only one use, or none.
    pub fn age(self, now: EvictionTime) -> Option<u32> {
        let before = ((self.0 & !TOLD) >> 32) as u32;
        (before != 0).then(|| kept(now).wrapping_sub(before))
    }

    /// As a word, to be kept beside the page.
    pub fn to_bits(self) -> u64 {
        self.0
    }

    /// What [`UseTimes::to_bits`] gave.
    pub fn from_bits(bits: u64) -> UseTimes {
        UseTimes(bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uses(times: &[u32]) -> UseTimes {
        times.iter().fold(UseTimes::default(), |uses, at| uses.used_at(EvictionTime(*at)))
    }

    #[test]
    fn the_age_is_that_of_the_last_use_but_one() {
        let now = EvictionTime(101);
        assert_eq!(uses(&[]).age(now), None);
        assert_eq!(UseTimes::read_at(EvictionTime(7)).age(now), None);
        assert_eq!(uses(&[1, 49, 91]).age(now), Some(52));
        assert_eq!(UseTimes::from_bits(uses(&[1, 49]).to_bits()).age(now), Some(100));
        assert_eq!(uses(&[1]).touched().used_at(EvictionTime(49)).age(now), Some(100));
        assert!(uses(&[1]).touched().is_touched() && !uses(&[1]).touched().used_at(now).is_touched());
        let told = uses(&[1]).told();
        assert!(told.is_told() && told.age(now).is_none() && told.used_at(EvictionTime(49)).is_told());
        assert_eq!(told.used_at(EvictionTime(49)).age(now), Some(100));
        assert_eq!(uses(&[1, 49]).told().untold(), uses(&[1, 49]));
        assert_eq!(uses(&[u32::MAX, 5]).age(EvictionTime(9)), Some(12), "the clock wraps around");
    }
}
