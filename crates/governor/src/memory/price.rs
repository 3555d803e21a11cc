//! What memory costs a tenant's neighbours: the price at which its pages age.
//!
//! A tenant that is promised memory has a price while its pages are within what it is promised; whatever else is in memory has
//! the least price, 1. Over the eighth of its promise above it the price falls to 1 ([`MemoryPrice::at`]), so that under pressure it is
//! left with the pages that its own LRU-2 keeps: at a sudden fall all its pages could be older than its neighbours'
//! and would leave in the order of the hand.
//!
//! The price is the slope of the tenant's penalty at its degradation D, actual less baseline I/O, of a penalty that is convex: the most
//! where D is not below zero, half as much with each judgement that finds D at a tenth below, and half as much with each epoch
//! without a use: memory that is not used is lent. It is back at the most with the first uses, since waiting for evidence would take
//! longer than reading the pages again does. Prices are powers of two.

use base::{ByteCount, TenantId};
use rustc_hash::FxHashMap;

use crate::meter::{EVIDENCE_MIN, MemoryCounts};
use crate::policy::{Overbooking, Policy};

/// A tenant's price, 1 to 1,024: how many times as many evictions as others' its pages take to age.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct MemoryPrice(u8);

impl MemoryPrice {
    /// 1: that of everything that was promised to nobody.
    pub const LEAST: MemoryPrice = MemoryPrice(0);
    pub const MOST: MemoryPrice = MemoryPrice(MemoryPrice::DOUBLINGS_MAX);
    pub(super) const DOUBLINGS_MAX: u8 = 10;

    /// 2 to the power of `doublings`, 1,024 at most.
    pub const fn of_doublings(doublings: u8) -> MemoryPrice {
        if doublings < MemoryPrice::DOUBLINGS_MAX { MemoryPrice(doublings) } else { MemoryPrice::MOST }
    }

    /// Of 1, how many make the price.
    pub const fn doublings(self) -> u8 {
        self.0
    }

    /// The price of a tenant that has `resident` bytes of pages where `self` is that of the `promised` ones. Example: 1,024
    /// up to a promise of 80 MiB, 32 at 85 MiB, 1 from 90 MiB on.
    #[must_use]
    pub fn at(self, resident: ByteCount, promised: ByteCount) -> MemoryPrice {
        let beyond = resident.0.saturating_sub(promised.0);
        if beyond == 0 {
            return self;
        }
        let range = promised.0 / FALL_PART;
        let left = u128::from(range.saturating_sub(beyond)) * u128::from(self.0) / u128::from(range.max(1));
        MemoryPrice(u8::try_from(left).expect("a part of the price"))
    }

    fn halved(self) -> MemoryPrice {
        MemoryPrice(self.0.saturating_sub(1))
    }
}

/// The price falls over so large a part of the promise.
const FALL_PART: u64 = 8;

/// A judgement lowers the price where the actual I/O is so much of the baseline's at most.
const SLACK_PERCENT: u64 = 90;

/// What the prices of an epoch are made of, for each tenant that is promised memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryDemand {
    pub tenant: TenantId,
    pub promised: ByteCount,
    /// Price of an excess I/O, in millionths.
    pub penalty_micros: u64,
    /// Since the server's start.
    pub counts: MemoryCounts,
}

#[derive(Clone, Copy)]
struct Standing {
    price: MemoryPrice,
    /// At the end of the last epoch.
    seen: MemoryCounts,
    /// At the last judgement.
    judged: MemoryCounts,
    is_idle: bool,
    epoch: u64,
}

impl Standing {
    fn new(counts: MemoryCounts) -> Standing {
        Standing { price: MemoryPrice::MOST, seen: counts, judged: counts, is_idle: false, epoch: 0 }
    }

    fn end_epoch(&mut self, counts: MemoryCounts) {
        let was_idle = std::mem::replace(&mut self.is_idle, counts.told == self.seen.told);
        self.seen = counts;
        if self.is_idle {
            self.price = self.price.halved();
            return;
        }
        if was_idle {
            self.price = MemoryPrice::MOST;
        }
        let since = counts.since(&self.judged);
        if since.told >= EVIDENCE_MIN {
            self.judged = counts;
            let has_slack = since.actual.total() * 100 < since.baseline().total() * SLACK_PERCENT;
            self.price = if has_slack { self.price.halved() } else { MemoryPrice::MOST };
        }
    }
}

/// Sets the prices anew at the end of each epoch, a second. One a server; used by one thread.
#[derive(Default)]
pub struct MemoryPricing {
    tenants: FxHashMap<TenantId, Standing>,
    epoch: u64,
}

impl MemoryPricing {
    /// Ends an epoch: gives `set` the price of each tenant in `demands`, which are all that are promised memory. Where those that use
    /// it are promised more than `promisable` together, `policy` says whose pages stay: `spread`, all are as dear as each
    /// other; `least_penalty`, the lower a tenant's penalty in the order of all, the lower its price, but above everybody's.
    pub fn end_epoch(
        &mut self,
        policy: Policy,
        promisable: ByteCount,
        demands: &[MemoryDemand],
        mut set: impl FnMut(TenantId, MemoryPrice),
    ) {
        self.epoch += 1;
        let mut demanded = 0;
        for demand in demands {
            let standing = self.tenants.entry(demand.tenant).or_insert_with(|| Standing::new(demand.counts));
            standing.end_epoch(demand.counts);
            standing.epoch = self.epoch;
            demanded += if standing.is_idle { 0 } else { demand.promised.0 };
        }
        let epoch = self.epoch;
        self.tenants.retain(|_, standing| standing.epoch == epoch);
        let dial = if demanded > promisable.0 { policy.overbooking() } else { Overbooking::SPREAD };
        let mut penalties: Vec<u64> = demands.iter().map(|demand| demand.penalty_micros).collect();
        penalties.sort_unstable();
        penalties.dedup();
        for demand in demands {
            let price = self.tenants[&demand.tenant].price;
            let dearer = penalties.len() - 1 - penalties.partition_point(|p| *p < demand.penalty_micros);
            let ceiling = ceiling(dial, dearer, penalties.len());
            set(demand.tenant, if policy.reserves() { price.min(ceiling) } else { MemoryPrice::LEAST });
        }
    }
}

/// The most that a tenant's price may be: `dearer` of `penalties` different ones are above its own.
fn ceiling(dial: Overbooking, dearer: usize, penalties: usize) -> MemoryPrice {
    let range = u64::from(MemoryPrice::DOUBLINGS_MAX - 1);
    let down = range * u64::from(dial.permille()) * dearer as u64
        / (u64::from(Overbooking::LEAST_PENALTY.permille()) * (penalties as u64 - 1).max(1));
    MemoryPrice(MemoryPrice::DOUBLINGS_MAX - u8::try_from(down).expect("at most the range"))
}
