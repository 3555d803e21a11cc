//! A tenant's terms of buffer memory, as its home and the pricing share them.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use base::ByteCount;

use super::price::MemoryPrice;

/// What one tenant is promised, what it may have, and the price of its pages. Single words, each true by itself; from any thread.
pub struct MemoryShare {
    promised: AtomicU64,
    price: AtomicU8,
    /// [`NO_LIMIT`] for none.
    max: AtomicU64,
}

const NO_LIMIT: u64 = u64::MAX;

impl Default for MemoryShare {
    fn default() -> MemoryShare {
        let price = AtomicU8::new(MemoryPrice::LEAST.doublings());
        MemoryShare { promised: AtomicU64::new(0), price, max: AtomicU64::new(NO_LIMIT) }
    }
}

impl MemoryShare {
    /// Changes the promise; true if it is another. A tenant that is promised memory from now on has the highest price until it
    /// is set.
    pub fn set_promised(&self, promised: ByteCount) -> bool {
        let before = self.promised.swap(promised.0, Ordering::Relaxed);
        if before == 0 && promised.0 > 0 {
            self.set_price(MemoryPrice::MOST);
        }
        before != promised.0
    }

    /// Sets the price of the promised pages.
    pub fn set_price(&self, price: MemoryPrice) {
        self.price.store(price.doublings(), Ordering::Relaxed);
    }

    /// Changes the limit.
    pub fn set_max(&self, max: Option<ByteCount>) {
        self.max.store(max.map_or(NO_LIMIT, |max| max.0), Ordering::Relaxed);
    }

    /// `None`: no limit.
    pub fn max(&self) -> Option<ByteCount> {
        let max = self.max.load(Ordering::Relaxed);
        (max != NO_LIMIT).then_some(ByteCount(max))
    }

    /// Whether `resident` bytes of pages are more than the limit.
    pub fn is_over(&self, resident: ByteCount) -> bool {
        resident.0 > self.max.load(Ordering::Relaxed)
    }

    /// Bytes of pages that are to leave once there were more than the limit: those above fifteen sixteenths of it, so that they leave some at a time, and never those
    /// that are promised.
    pub fn excess(&self, resident: ByteCount) -> ByteCount {
        let left = self.max().map_or(NO_LIMIT, |max| (max.0 - max.0 / 16).max(self.promised().0.min(max.0)));
        ByteCount(resident.0.saturating_sub(left))
    }

    pub fn promised(&self) -> ByteCount {
        ByteCount(self.promised.load(Ordering::Relaxed))
    }

    /// The price of its pages while `resident` bytes of them are in memory: the least for a tenant that is promised nothing.
    pub fn price_at(&self, resident: ByteCount) -> MemoryPrice {
        let promised = self.promised();
        if promised.0 == 0 {
            return MemoryPrice::LEAST;
        }
        MemoryPrice::of_doublings(self.price.load(Ordering::Relaxed)).at(resident, promised)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_price_falls_over_an_eighth_of_the_promise() {
        let share = MemoryShare::default();
        let at = |mib| share.price_at(ByteCount::from_mib(mib));
        assert_eq!(at(0), MemoryPrice::LEAST);
        assert!(share.set_promised(ByteCount::from_mib(80)) && !share.set_promised(ByteCount::from_mib(80)));
        assert_eq!((at(0), at(80)), (MemoryPrice::MOST, MemoryPrice::MOST));
        assert_eq!([at(85), at(89), at(90), at(1000)].map(MemoryPrice::doublings), [5, 1, 0, 0]);
        share.set_price(MemoryPrice::of_doublings(4));
        assert_eq!([at(80), at(85)].map(MemoryPrice::doublings), [4, 2]);
        // Nothing is given back by changing a promise.
        assert!(share.set_promised(ByteCount::from_mib(160)));
        assert_eq!(at(160).doublings(), 4);
    }

    #[test]
    fn a_limit_is_kept_by_a_sixteenth() {
        let share = MemoryShare::default();
        let mib = ByteCount::from_mib;
        assert!(!share.is_over(ByteCount(u64::MAX)) && share.excess(ByteCount(u64::MAX)) == ByteCount(0));
        share.set_promised(mib(32));
        share.set_max(Some(mib(32)));
        assert!(!share.is_over(mib(32)) && share.is_over(ByteCount(mib(32).0 + 1)));
        assert_eq!(
            (share.excess(mib(30)), share.excess(mib(33))),
            (mib(0), mib(1)),
            "what is promised stays"
        );
        share.set_promised(mib(10));
        assert_eq!((share.excess(mib(30)), share.excess(mib(33))), (mib(0), mib(3)));
        share.set_max(None);
        assert_eq!(share.max(), None);
    }
}
