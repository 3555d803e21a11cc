//! How many pages the statements of each tenant may hold while they wait for further ones.
//!
//! What a statement holds stays in memory, so all of it together is bounded, and a tenant's part of that by two things. *Assured*: of
//! three quarters of the whole, the part that its promised memory is of all that can be promised (or of what was promised to those that are
//! open, if that is more). Nobody else ever has it. *Of the spare*, which is what nobody is assured of: at most [`SPARE_FACTOR`] times
//! as much as is left of it, the dynamic threshold that Choudhury and Hahne give queues of a shared buffer (IEEE/ACM Transactions on
//! Networking 6(2), 1998). So a tenant alone has two thirds of it, two have two fifths each, and there is always some left for one that
//! comes, however many are idle; nobody needs to know how many share.
//!
//! Example: the whole is 1,000 pages and 7 GiB can be promised. A was promised 3.5 GiB: 375 pages are assured, and 625 are spare. B, promised
//! nothing, holds 417 alone. If C comes then, it holds 139, and A whatever it wants of its 375.
//!
//! One tenant's holds are counted by one thread at a time; the pool by any. Words of atomics, no lock.

use std::sync::atomic::{AtomicU64, Ordering};

use base::ByteCount;

/// How many times what is left of the spare a tenant may have of it.
const SPARE_FACTOR: u64 = 2;
/// The part of the whole that may be assured: so many of [`PARTS`].
const ASSURED_PARTS: u64 = 3;
const PARTS: u64 = 4;
/// Bytes of a promise that count: more than there is, and the sum of those of a million tenants fits 64 bits.
const PROMISED_MAX: u64 = 1 << 44;

/// What statements hold, of all tenants. In pages.
#[derive(Debug)]
pub struct HoldPool {
    whole: u64,
    promisable: u64,
    /// Bytes, of the tenants that are open.
    promised: AtomicU64,
    /// Pages held of the spare.
    spare_held: AtomicU64,
    #[cfg(debug_assertions)]
    shares_nothing: std::sync::atomic::AtomicBool,
}

/// What the statements of one tenant hold.
#[derive(Default, Debug)]
pub struct TenantHolds {
    promised: AtomicU64,
    assured_held: AtomicU64,
    spare_held: AtomicU64,
}

impl TenantHolds {
    /// Pages held.
    pub fn held(&self) -> u64 {
        self.assured_held.load(Ordering::Relaxed) + self.spare_held.load(Ordering::Relaxed)
    }
}

impl HoldPool {
    /// For `whole` pages, where `promisable` bytes of memory can be promised together.
    pub fn new(whole: u64, promisable: ByteCount) -> HoldPool {
        HoldPool {
            whole,
            promisable: promisable.0.max(1),
            promised: AtomicU64::new(0),
            spare_held: AtomicU64::new(0),
            #[cfg(debug_assertions)]
            shares_nothing: Default::default(),
        }
    }

    /// A mistake for simulations to find, in debug builds alone: from here on whoever comes first holds all there is.
    #[cfg(debug_assertions)]
    pub fn share_nothing(&self) {
        self.shares_nothing.store(true, Ordering::Relaxed);
    }

    #[cfg(debug_assertions)]
    fn shares_nothing(&self) -> bool {
        self.shares_nothing.load(Ordering::Relaxed)
    }

    #[cfg(not(debug_assertions))]
    fn shares_nothing(&self) -> bool {
        false
    }

    /// Has a tenant be promised so much memory from here on; nothing once it is closed. What it holds it goes on to hold.
    pub fn set_promised(&self, tenant: &TenantHolds, promised: ByteCount) {
        let promised = promised.0.min(PROMISED_MAX);
        let before = tenant.promised.swap(promised, Ordering::Relaxed);
        // Modulo 2^64: the sum of all changes is the sum of what is in force.
        self.promised.fetch_add(promised.wrapping_sub(before), Ordering::Relaxed);
    }

    /// Pages that so many promised bytes assure.
    fn assured_of(&self, promised: u64) -> u64 {
        let all = self.promised.load(Ordering::Relaxed).max(self.promisable).max(promised);
        let most = self.whole * ASSURED_PARTS / PARTS;
        (u128::from(promised) * u128::from(most) / u128::from(all)) as u64
    }

    /// Pages that nobody is assured of.
    fn spare(&self) -> u64 {
        if self.shares_nothing() {
            return self.whole;
        }
        self.whole - self.assured_of(self.promised.load(Ordering::Relaxed))
    }

    /// Whether the tenant may hold one more page that it is assured of; else whether it may have one of the spare.
    fn may(&self, tenant: &TenantHolds) -> Option<Kind> {
        if self.shares_nothing() {
            return (self.spare_held.load(Ordering::SeqCst) < self.whole).then_some(Kind::Spare);
        }
        let assured = self.assured_of(tenant.promised.load(Ordering::Relaxed));
        if tenant.assured_held.load(Ordering::Relaxed) < assured {
            return Some(Kind::Assured);
        }
        let left = self.spare().saturating_sub(self.spare_held.load(Ordering::SeqCst));
        (tenant.spare_held.load(Ordering::Relaxed) < SPARE_FACTOR * left).then_some(Kind::Spare)
    }

    /// Whether the tenant may hold one more page.
    pub fn may_hold(&self, tenant: &TenantHolds) -> bool {
        self.may(tenant).is_some()
    }

    /// Counts one more page that the tenant holds; false if it may not.
    pub fn try_hold(&self, tenant: &TenantHolds) -> bool {
        match self.may(tenant) {
            None => false,
            Some(Kind::Assured) => {
                tenant.assured_held.fetch_add(1, Ordering::Relaxed);
                true
            }
            Some(Kind::Spare) => {
                // Others may have taken the last of it since.
                let spare = self.spare();
                let within = |held: u64| (held < spare).then_some(held + 1);
                let has = self.spare_held.fetch_update(Ordering::SeqCst, Ordering::SeqCst, within).is_ok();
                tenant.spare_held.fetch_add(u64::from(has), Ordering::Relaxed);
                has
            }
        }
    }

    /// The tenant holds so many pages less: those of the spare are given back first.
    ///
    /// # Panics
    /// If it does not hold as many.
    pub fn end(&self, tenant: &TenantHolds, pages: u64) {
        let of_spare = pages.min(tenant.spare_held.load(Ordering::Relaxed));
        let of_assured = pages - of_spare;
        let held = tenant.assured_held.load(Ordering::Relaxed);
        assert!(of_assured <= held, "{of_assured} pages are let go of {held}");
        tenant.spare_held.fetch_sub(of_spare, Ordering::Relaxed);
        tenant.assured_held.fetch_sub(of_assured, Ordering::Relaxed);
        self.spare_held.fetch_sub(of_spare, Ordering::SeqCst);
    }
}

enum Kind {
    Assured,
    Spare,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GIB: u64 = 1 << 30;

    fn pool() -> HoldPool {
        HoldPool::new(1_000, ByteCount(7 * GIB))
    }

    /// Holds all that it may; how many pages more.
    fn hold_all(pool: &HoldPool, tenant: &TenantHolds) -> u64 {
        std::iter::from_fn(|| pool.try_hold(tenant).then_some(())).count() as u64
    }

    #[test]
    fn a_tenant_holds_what_it_is_assured_of_whatever_others_hold() {
        let (pool, a, b, c) =
            (pool(), TenantHolds::default(), TenantHolds::default(), TenantHolds::default());
        pool.set_promised(&a, ByteCount(7 * GIB / 2));
        assert_eq!((hold_all(&pool, &b), hold_all(&pool, &c)), (417, 139));
        assert_eq!(hold_all(&pool, &a), 375 + 46, "and its part of what is left");
        assert!(pool.may_hold(&TenantHolds::default()), "there is some for who comes");
        pool.end(&b, 417);
        assert_eq!(c.held() + hold_all(&pool, &c), 386, "two thirds of the spare that A leaves");
        pool.end(&c, c.held());
        pool.end(&a, a.held());
        pool.set_promised(&a, ByteCount(0));
        assert_eq!(hold_all(&pool, &a), 667, "alone: two thirds of the whole");
    }

    #[test]
    fn promises_of_more_than_any_machine_has_are_assured_in_proportion_too() {
        let (pool, tenants) = (pool(), [(); 16].map(|()| TenantHolds::default()));
        tenants.iter().for_each(|tenant| pool.set_promised(tenant, ByteCount(1 << 60)));
        let held: u64 = tenants.iter().map(|tenant| hold_all(&pool, tenant)).sum();
        assert!((750..=1_000).contains(&held), "{held} of 1,000 pages");
        tenants.iter().for_each(|tenant| pool.set_promised(tenant, ByteCount(0)));
        assert_eq!(pool.promised.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn more_than_can_be_promised_is_assured_in_proportion() {
        let (pool, tenants) = (pool(), [(); 4].map(|()| TenantHolds::default()));
        tenants.iter().for_each(|tenant| pool.set_promised(tenant, ByteCount(7 * GIB)));
        let newcomer = TenantHolds::default();
        let first = hold_all(&pool, &newcomer);
        assert_eq!(first, 167, "a quarter is always spare");
        let held: Vec<u64> = tenants.iter().map(|tenant| hold_all(&pool, tenant)).collect();
        assert!(held.iter().all(|held| *held >= 187), "{held:?}");
    }

    #[test]
    fn the_least_pool_has_a_page_for_each_of_several() {
        let pool = HoldPool::new(4, ByteCount(1));
        let tenants = [(); 4].map(|()| TenantHolds::default());
        assert_eq!(tenants.each_ref().map(|tenant| hold_all(&pool, tenant)), [3, 1, 0, 0]);
        pool.end(&tenants[0], 3);
        assert!(pool.try_hold(&tenants[2]) && pool.try_hold(&tenants[3]));
    }

    proptest! {
        /// What is held is what was taken, each tenant has what it is assured of, and all together have no more than there is.
        #[test]
        fn holds_add_up(
            promised in prop::collection::vec(0..GIB, 5),
            steps in prop::collection::vec((0..5usize, any::<bool>(), 1..300u64), 1..200),
        ) {
            let (pool, tenants) = (pool(), [(); 5].map(|()| TenantHolds::default()));
            for (tenant, promised) in tenants.iter().zip(&promised) {
                pool.set_promised(tenant, ByteCount(*promised));
            }
            let mut held = [0; 5];
            for (who, takes, pages) in steps {
                let tenant = &tenants[who];
                if takes {
                    let took = (0..pages).filter(|_| pool.try_hold(tenant)).count() as u64;
                    held[who] += took;
                    let assured = promised[who] * 750 / (7 * GIB);
                    prop_assert!(took == pages || held[who] >= assured);
                } else {
                    let pages = pages.min(held[who]);
                    pool.end(tenant, pages);
                    held[who] -= pages;
                }
                prop_assert_eq!(tenant.held(), held[who]);
                prop_assert!(held.iter().sum::<u64>() <= 1_000);
            }
            tenants.iter().zip(held).for_each(|(tenant, held)| pool.end(tenant, held));
            prop_assert_eq!(pool.spare_held.load(Ordering::Relaxed), 0);
        }
    }
}
