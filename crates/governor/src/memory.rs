//! Which pages leave memory: LRU-2 over what a sweep saw, for all tenants alike.
//!
//! Nobody notes the moment of each access: that would cost the resident fast path a store. Whoever sweeps over the pages
//! finds out at each visit whether a page was used since the visit before, and tells the times of the last two such
//! visits ([`UseTimes`]). A page's *age* is the time since its last use but one; one that was used only once since it was
//! read, as by a scan, has no such use and is older than all others. Time is the server's eviction clock, which advances
//! by one for each page evicted (or given room), so that a quiet server's pages do not age.
//!
//! A sweep meets pages one by one and cannot wait for the oldest of all. So the choice keeps a histogram of the ages it met
//! lately, and takes those that are among the oldest part of it. Pure: no clock, no pages, no locks.

use base::TenantId;

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
        UseTimes((self.0 & !u64::from(TOUCHED)) << 32 | u64::from(kept(now)))
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

    /// Evictions since the last use but one; `None` if there is only one use, or none.
    pub fn age(self, now: EvictionTime) -> Option<u32> {
        let before = (self.0 >> 32) as u32;
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

/// Classes of ages: by doublings, and the pages used once.
const CLASSES: usize = 34;
/// Ages remembered; then each counts half, so that the histogram follows what changes.
const REMEMBERED_MAX: u32 = 8192;
/// The oldest part of the ages met lately that are victims: one in four. A larger part evicts sooner, with less choice.
const VICTIMS_PART: u32 = 4;

/// Decides of each page that a sweep found unused whether it leaves memory.
#[derive(Clone, Debug)]
pub struct VictimChoice {
    /// Pages met lately by the class of their age; the last class is of those used once.
    met: [u32; CLASSES],
    total: u32,
}

impl Default for VictimChoice {
    fn default() -> VictimChoice {
        VictimChoice { met: [0; CLASSES], total: 0 }
    }
}

impl VictimChoice {
    /// Whether the page of `tenant` that was not used since the sweep's last visit leaves memory. All tenants' pages count
    /// alike so far. Of the pages it is asked about it takes at least those of the oldest class met lately, so a sweep
    /// that goes on always finds some.
    pub fn is_victim(&mut self, _tenant: TenantId, uses: UseTimes, now: EvictionTime) -> bool {
        let class = match uses.age(now) {
            None => CLASSES - 1,
            Some(age) => (u32::BITS - age.leading_zeros()) as usize,
        };
        self.met[class] += 1;
        self.total += 1;
        if self.total >= REMEMBERED_MAX {
            self.met.iter_mut().for_each(|count| *count /= 2);
            self.total = self.met.iter().sum();
        }
        let older: u32 = self.met[class + 1..].iter().sum();
        older < self.total.div_ceil(VICTIMS_PART)
    }
}

const _: () = assert!(u32::BITS as usize + 2 == CLASSES);

#[cfg(test)]
mod tests {
    use super::*;

    const TENANT: TenantId = TenantId(16);

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
        assert_eq!(uses(&[u32::MAX, 5]).age(EvictionTime(9)), Some(12), "the clock wraps around");
    }

    #[test]
    fn pages_of_a_scan_leave_before_pages_used_twice() {
        let mut choice = VictimChoice::default();
        let (mut once, mut twice) = (0, 0);
        for i in 0..1000_u32 {
            let now = EvictionTime(1000 + i);
            once += u32::from(choice.is_victim(TENANT, UseTimes::read_at(now), now));
            twice += u32::from(choice.is_victim(TENANT, uses(&[i, i + 500]), now));
        }
        assert_eq!(once, 1000, "half of all pages were used once, and a quarter is wanted");
        assert!(twice < 5, "{twice}");
    }

    #[test]
    fn of_pages_used_twice_the_oldest_leave() {
        let mut choice = VictimChoice::default();
        let now = EvictionTime(100_000);
        let mut left = Vec::new();
        for round in 0..100 {
            for age in [10, 100, 1000, 10_000, 60_000] {
                if choice.is_victim(TENANT, uses(&[now.0 - age, now.0]), now) && round > 0 {
                    left.push(age);
                }
            }
        }
        left.sort_unstable();
        left.dedup();
        assert_eq!(left, [10_000, 60_000]);
    }

    #[test]
    fn there_is_always_a_victim() {
        let mut choice = VictimChoice::default();
        // All pages become young at once, after old ones were met.
        let now = EvictionTime(1 << 20);
        for _ in 0..REMEMBERED_MAX {
            choice.is_victim(TENANT, uses(&[1, 3]), now);
        }
        let asked = (0..10 * REMEMBERED_MAX)
            .position(|_| choice.is_victim(TENANT, uses(&[now.0 - 8, now.0]), now))
            .expect("the histogram forgets");
        assert!(asked < 4 * REMEMBERED_MAX as usize, "{asked}");
    }
}
