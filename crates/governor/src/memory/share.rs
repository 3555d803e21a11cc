//! A tenant's terms of buffer memory, as its home and the pricing share them.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use base::ByteCount;

use super::price::MemoryPrice;

/// What one tenant is promised, and the price of its pages. Single words, each true by itself; from any thread.
pub struct MemoryShare {
    promised: AtomicU64,
    price: AtomicU8,
}

impl Default for MemoryShare {
    fn default() -> MemoryShare {
        let price = AtomicU8::new(MemoryPrice::LEAST.doublings());
        MemoryShare { promised: AtomicU64::new(0), price }
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
}
