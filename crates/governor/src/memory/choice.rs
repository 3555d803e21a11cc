//! LRU-2 over what a sweep saw, with prices.
//!
//! A sweep meets pages one by one and cannot wait for the oldest of all. So the choice keeps a histogram of the ages it met
//! lately, and takes those that are among the oldest part of it.

use std::sync::Arc;

use super::ages::{AgesMet, OwnAges, REMEMBERED_MAX};
use super::price::MemoryPrice;
use super::uses::{EvictionTime, UseTimes};

/// The oldest part of the ages met lately that are victims: one in four. A larger part evicts sooner, with less choice.
const VICTIMS_PART: u32 = 4;

/// Decides of each page that a sweep found unused whether it leaves memory. A clone compares with the same pages: a server has
/// one for each worker, all clones of one.
#[derive(Clone)]
pub struct VictimChoice {
    ages: Arc<AgesMet>,
    /// Pages in a row that were not taken.
    spared: u32,
}

impl Default for VictimChoice {
    fn default() -> VictimChoice {
        VictimChoice { ages: Arc::new(AgesMet::new()), spared: 0 }
    }
}

impl VictimChoice {
    /// Whether a page that was not used since the sweep's last visit leaves memory; `price` is its tenant's at this moment. An age
    /// is divided by the price; at equal prices the choice is that without prices. Example: at prices 1 and 4, a page of 4,000
    /// evictions' age of the dearer tenant is as old as one of 1,000 of the other.
    ///
    /// Of the pages it is asked about it takes at least those of the oldest class met lately, so a sweep that goes on always finds
    /// some. A page with a price also has to be as old as those that leave of pages at the least price, in use or not; that is
    /// forgotten by half where 8,192 in a row were spared.
    pub fn is_victim(&mut self, price: MemoryPrice, uses: UseTimes, now: EvictionTime) -> bool {
        let age = uses.age(now);
        let is_victim = if price == MemoryPrice::LEAST {
            self.ages.is_old_cheap(age, VICTIMS_PART)
        } else {
            self.ages.is_old_dear(age, price, VICTIMS_PART)
        };
        self.spared = if is_victim { 0 } else { self.spared + 1 };
        if self.spared == REMEMBERED_MAX {
            self.spared = 0;
            self.ages.forget_half_of_cheap();
        }
        is_victim
    }

    /// A sweep over all pages there are took none: what was met before says little of them. Of few pages that would be noticed after many
    /// sweeps only.
    pub fn note_none_taken(&mut self) {
        self.ages.forget_half();
    }

    /// As [`VictimChoice::is_victim`] for a page of a tenant that is promised memory, which is also to be among the oldest of its own:
    /// all its pages may be older than its neighbours', and it is not to lose them in the order of the sweep.
    pub fn is_victim_of(
        &mut self,
        own: &OwnAges,
        price: MemoryPrice,
        uses: UseTimes,
        now: EvictionTime,
    ) -> bool {
        let is_old = own.is_old(uses.age(now), VICTIMS_PART);
        self.is_victim(price, uses, now) && is_old
    }

    /// Notes a page that was used since the sweep's last visit, at the use times it had before.
    pub fn note_used(&mut self, price: MemoryPrice, uses: UseTimes, now: EvictionTime) {
        if price == MemoryPrice::LEAST {
            self.ages.add_used_cheap(uses.age(now));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRICE: MemoryPrice = MemoryPrice::LEAST;

    fn uses(times: &[u32]) -> UseTimes {
        times.iter().fold(UseTimes::default(), |uses, at| uses.used_at(EvictionTime(*at)))
    }

    #[test]
    fn pages_of_a_scan_leave_before_pages_used_twice() {
        let mut choice = VictimChoice::default();
        let (mut once, mut twice) = (0, 0);
        for i in 0..1000_u32 {
            let now = EvictionTime(1000 + i);
            once += u32::from(choice.is_victim(PRICE, UseTimes::read_at(now), now));
            twice += u32::from(choice.is_victim(PRICE, uses(&[i, i + 500]), now));
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
                if choice.is_victim(PRICE, uses(&[now.0 - age, now.0]), now) && round > 0 {
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
        for price in [PRICE, MemoryPrice::MOST] {
            let mut choice = VictimChoice::default();
            // All pages become young at once, after old ones were met.
            let now = EvictionTime(1 << 20);
            for _ in 0..REMEMBERED_MAX {
                choice.is_victim(price, uses(&[1, 3]), now);
                choice.note_used(PRICE, uses(&[1, 3]), now);
            }
            let asked = (0..20 * REMEMBERED_MAX)
                .position(|_| choice.is_victim(price, uses(&[now.0 - 8, now.0]), now))
                .expect("the histogram forgets");
            let most = if price == PRICE { 4 } else { 16 };
            assert!(asked < most * REMEMBERED_MAX as usize, "{asked}");
        }
    }

    #[test]
    fn of_few_pages_some_leave_after_some_sweeps() {
        for (price, most) in [(PRICE, 12), (MemoryPrice::MOST, 16)] {
            let mut choice = VictimChoice::default();
            let now = EvictionTime(1 << 20);
            for _ in 0..REMEMBERED_MAX {
                choice.is_victim(price, UseTimes::read_at(now), now);
                choice.note_used(PRICE, UseTimes::read_at(now), now);
            }
            let mut sweep = || {
                let taken =
                    (0..10).any(|page| choice.is_victim(price, uses(&[now.0 - 8 - page, now.0]), now));
                choice.note_none_taken();
                taken
            };
            let sweeps = (1..=100).find(|_| sweep()).expect("some leave");
            assert!(sweeps <= most, "{sweeps} sweeps over ten pages");
        }
    }

    #[test]
    fn equal_prices_choose_as_none_do() {
        for doublings in 1..=MemoryPrice::DOUBLINGS_MAX {
            let dear = MemoryPrice::of_doublings(doublings);
            let (mut plain, mut priced) = (VictimChoice::default(), VictimChoice::default());
            let mut state = u64::from(doublings);
            // Until it is known that nothing is cheaper.
            for _ in 0..REMEMBERED_MAX {
                assert!(!priced.is_victim(dear, uses(&[1, 3]), EvictionTime(4)));
                plain.is_victim(PRICE, uses(&[1, 3]), EvictionTime(4));
            }
            let mut taken = 0;
            for now in (1 << 20)..(1 << 20) + 30_000_u32 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                // Ages that a price does not make less than one.
                let age = 2048 + (state >> 40) as u32 % (1 << 18);
                let uses = match state >> 62 {
                    0 => UseTimes::read_at(EvictionTime(now)),
                    _ => uses(&[now - age, now]),
                };
                let victim = plain.is_victim(PRICE, uses, EvictionTime(now));
                assert_eq!(priced.is_victim(dear, uses, EvictionTime(now)), victim, "at {now}");
                taken += u32::from(victim);
            }
            assert!((3_000..20_000).contains(&taken), "{taken} of 30,000");
        }
    }

    #[test]
    fn dear_pages_stay_though_they_are_most_of_what_is_met_and_others_are_in_use() {
        let mut choice = VictimChoice::default();
        let mut left = (0, 0);
        for now in (1 << 20)..(1 << 20) + 4000_u32 {
            let at = EvictionTime(now);
            // Nine in ten are dear and old; of the others half is used.
            let dear = uses(&[now - 50_000, now - 40_000]);
            match now % 20 {
                0 => left.1 += u32::from(choice.is_victim(PRICE, uses(&[now - 1000, now]), at)),
                1 => choice.note_used(PRICE, uses(&[now - 900, now]), at),
                _ => left.0 += u32::from(choice.is_victim(MemoryPrice::MOST, dear, at)),
            }
        }
        assert_eq!(left, (0, 200));
    }

    #[test]
    fn two_workers_compare_with_each_others_pages() {
        let mut one = VictimChoice::default();
        let mut other = one.clone();
        let now = EvictionTime(1 << 20);
        for _ in 0..100 {
            assert!(one.is_victim(PRICE, uses(&[1, 3]), now));
            assert!(!other.is_victim(PRICE, uses(&[now.0 - 8, now.0]), now));
        }
    }
}
