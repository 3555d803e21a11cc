//! The ages that sweeps met lately: histograms that all workers' evictors share, so that each compares its tenants' pages with
//! everybody's.
//!
//! Counters only, each exact by itself; what a reader makes of several of them is a matter of statistics.

use std::sync::atomic::{AtomicU32, Ordering};

use super::price::MemoryPrice;

/// Classes of ages: by doublings, and the pages used once.
const CLASSES: usize = 34;
/// What a page that was used once counts as, at the price of everybody: older than all that were used twice.
const ONCE: u64 = (1 << 33) - 1;
/// Pages remembered; then each counts half, so that a histogram follows what changes.
pub(super) const REMEMBERED_MAX: u32 = 8192;

const _: () = assert!(u32::BITS as usize + 2 == CLASSES);
const _: () = assert!(ONCE.leading_zeros() + CLASSES as u32 - 1 == u64::BITS);

/// Where an age belongs to, at a price: a page twice as dear counts as half as old.
fn class_of(age: Option<u32>, price: MemoryPrice) -> usize {
    let age = age.map_or(ONCE, u64::from) >> price.doublings();
    (u64::BITS - age.leading_zeros()) as usize
}

/// Pages met, by class.
struct Ages([AtomicU32; CLASSES]);

impl Ages {
    fn new() -> Ages {
        Ages(std::array::from_fn(|_| AtomicU32::new(0)))
    }

    fn add(&self, class: usize) {
        self.0[class].fetch_add(1, Ordering::Relaxed);
    }

    fn halve(&self) {
        for count in &self.0 {
            count.store(count.load(Ordering::Relaxed) / 2, Ordering::Relaxed);
        }
    }

    /// All, and those of classes older than `class`.
    fn all_and_older(&self, class: usize) -> (u32, u32) {
        let sum =
            |counts: &[AtomicU32]| counts.iter().map(|count| count.load(Ordering::Relaxed)).sum::<u32>();
        let older = sum(&self.0[class + 1..]);
        (sum(&self.0[..=class]) + older, older)
    }

    /// Adds one and says whether it is of the oldest of so many parts.
    fn is_old(&self, class: usize, part: u32) -> bool {
        self.add(class);
        let (all, older) = self.all_and_older(class);
        if all >= REMEMBERED_MAX {
            self.halve();
        }
        older < all.div_ceil(part)
    }
}

/// What the sweeps of a server met.
pub(super) struct AgesMet {
    /// Pages at the least price that were not used since the visit before, and those that were.
    cheap: Ages,
    cheap_used: Ages,
    /// Pages at higher prices, at the ages that those make of theirs.
    dear: Ages,
}

impl AgesMet {
    pub(super) fn new() -> AgesMet {
        let ages = AgesMet { cheap: Ages::new(), cheap_used: Ages::new(), dear: Ages::new() };
        // Until cheap pages were met or dear ones were asked about in vain for long: there may be some.
        ages.cheap_used.add(CLASSES - 1);
        ages
    }

    /// Notes a page that was not used and says whether it is among the oldest of those at the least price.
    pub(super) fn is_old_cheap(&self, age: Option<u32>, part: u32) -> bool {
        let is_old = self.cheap.is_old(class_of(age, MemoryPrice::LEAST), part);
        if self.cheap_used.all_and_older(0).0 >= REMEMBERED_MAX {
            self.cheap_used.halve();
        }
        is_old
    }

    /// Notes a page that was not used and says whether it is among the oldest of the dear ones, and would be among the cheap
    /// ones, those in use with them.
    pub(super) fn is_old_dear(&self, age: Option<u32>, price: MemoryPrice, part: u32) -> bool {
        let class = class_of(age, price);
        let is_old = self.dear.is_old(class, part);
        let (unused, unused_older) = self.cheap.all_and_older(class);
        let (used, used_older) = self.cheap_used.all_and_older(class);
        let is_older = unused + used == 0 || unused_older + used_older < (unused + used).div_ceil(part);
        is_old && is_older
    }

    pub(super) fn add_used_cheap(&self, age: Option<u32>) {
        self.cheap_used.add(class_of(age, MemoryPrice::LEAST));
    }

    /// Others are there now.
    pub(super) fn forget_half(&self) {
        self.dear.halve();
        self.forget_half_of_cheap();
    }

    /// Pages at the least price may be gone.
    pub(super) fn forget_half_of_cheap(&self) {
        self.cheap.halve();
        self.cheap_used.halve();
    }
}

/// The ages of one tenant's pages that its sweeps met lately, for a tenant that is promised memory: what it loses is the oldest of its
/// own, too, however young its neighbours' pages are. Kept beside its pages, by their owner.
pub struct OwnAges(Ages);

impl Default for OwnAges {
    fn default() -> OwnAges {
        OwnAges(Ages::new())
    }
}

impl OwnAges {
    pub(super) fn is_old(&self, age: Option<u32>, part: u32) -> bool {
        self.0.is_old(class_of(age, MemoryPrice::LEAST), part)
    }
}
