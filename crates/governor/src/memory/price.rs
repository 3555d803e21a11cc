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

use std::sync::Arc;

use base::{ByteCount, TenantId};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::meter::{EVIDENCE_MIN, MemoryCounts, MemoryMeters, MemoryReader, MemoryReading};
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

#[derive(Clone, Copy)]
struct Standing {
    price: MemoryPrice,
    promised: ByteCount,
    /// Price of an excess I/O, in millionths.
    penalty_micros: u64,
    /// As read last.
    counts: MemoryCounts,
    /// At the end of the last epoch.
    seen: MemoryCounts,
    /// At the last judgement.
    judged: MemoryCounts,
    is_idle: bool,
}

impl Standing {
    fn new(reading: &MemoryReading) -> Standing {
        Standing {
            price: MemoryPrice::MOST,
            promised: reading.terms.promised,
            penalty_micros: reading.terms.penalty_micros,
            counts: reading.counts,
            seen: reading.counts,
            judged: reading.counts,
            is_idle: false,
        }
    }

    fn end_epoch(&mut self) {
        let counts = self.counts;
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

    /// Its price stays as it is until something is counted.
    fn is_settled(&self) -> bool {
        self.is_idle && self.price == MemoryPrice::LEAST
    }
}

/// Sets the prices anew at the end of each epoch, a second. One a server; used by one thread.
pub struct MemoryPricing {
    reader: MemoryReader,
    /// Of who is promised memory.
    tenants: FxHashMap<TenantId, Standing>,
    /// Whose price may change: those that are not settled.
    unsettled: FxHashSet<TenantId>,
    /// Those there are, each once, in order.
    penalties: Vec<u64>,
}

impl MemoryPricing {
    /// Prices by what `meters` count.
    pub fn new(meters: Arc<MemoryMeters>) -> MemoryPricing {
        MemoryPricing {
            reader: MemoryReader::new(meters),
            tenants: FxHashMap::default(),
            unsettled: FxHashSet::default(),
            penalties: Vec::new(),
        }
    }

    /// Ends an epoch: gives `set` the price of each tenant that is promised memory, but of those that have done nothing for so long that theirs is the least since. Where those that use
    /// it are promised more than `promisable` together, `policy` says whose pages stay: `spread`, all are as dear as each
    /// other; `least_penalty`, the lower a tenant's penalty in the order of all, the lower its price, but above everybody's.
    pub fn end_epoch(
        &mut self,
        policy: Policy,
        promisable: ByteCount,
        mut set: impl FnMut(TenantId, MemoryPrice),
    ) {
        self.read();
        let mut demanded = 0u64;
        for tenant in &self.unsettled {
            let standing = self.tenants.get_mut(tenant).expect("whoever is unsettled has a standing");
            standing.end_epoch();
            demanded = demanded.saturating_add(if standing.is_idle { 0 } else { standing.promised.0 });
        }
        let dial = if demanded > promisable.0 { policy.overbooking() } else { Overbooking::SPREAD };
        let (tenants, penalties) = (&self.tenants, &self.penalties);
        self.unsettled.retain(|tenant| {
            let standing = &tenants[tenant];
            let dearer = penalties.len() - penalties.partition_point(|p| *p <= standing.penalty_micros);
            let ceiling = ceiling(dial, dearer, penalties.len());
            let price = if policy.reserves() { standing.price.min(ceiling) } else { MemoryPrice::LEAST };
            set(*tenant, price);
            !standing.is_settled()
        });
    }

    fn read(&mut self) {
        let (tenants, unsettled) = (&mut self.tenants, &mut self.unsettled);
        let are_others = self.reader.read(|reading| {
            if reading.terms.promised.0 == 0 {
                tenants.remove(&reading.tenant);
                unsettled.remove(&reading.tenant);
                return;
            }
            let standing = tenants.entry(reading.tenant).or_insert_with(|| Standing::new(&reading));
            standing.promised = reading.terms.promised;
            standing.penalty_micros = reading.terms.penalty_micros;
            standing.counts = reading.counts;
            unsettled.insert(reading.tenant);
        });
        if are_others {
            tenants.retain(|tenant, _| self.reader.knows(*tenant));
            unsettled.retain(|tenant| tenants.contains_key(tenant));
            let promised = self.reader.terms().filter(|terms| terms.promised.0 > 0);
            self.penalties = promised.map(|terms| terms.penalty_micros).collect();
            self.penalties.sort_unstable();
            self.penalties.dedup();
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

#[cfg(test)]
mod tests {
    use base::limits::PAGE_SIZE;
    use base::{Nanos, PageNo};

    use super::*;
    use crate::meter::{MemoryMeter, MemoryTerms, PageUse};

    const TENANT: TenantId = TenantId(16);

    fn epoch(pricing: &mut MemoryPricing) -> Vec<(TenantId, u8)> {
        let mut told = Vec::new();
        let policy = Policy::Reservations(Overbooking::SPREAD);
        pricing.end_epoch(policy, ByteCount::from_mib(1), |tenant, price| {
            told.push((tenant, price.doublings()));
        });
        told
    }

    #[test]
    fn promises_whose_sum_passes_64_bits_do_not_fit() {
        let meters = MemoryMeters::new();
        let of_tenant = |n: u64| {
            let (promised, penalty_micros) = (ByteCount(1 << 60), n);
            let terms = MemoryTerms { promised, penalty_micros, ..MemoryTerms::default() };
            let tally = meters.set_terms(TenantId(TENANT.0 + n), terms, Nanos(0));
            MemoryMeter::new(promised, tally).expect("eight pages at least")
        };
        let mut tenants: Vec<MemoryMeter> = (0..16).map(of_tenant).collect();
        let mut pricing = MemoryPricing::new(meters.clone());
        epoch(&mut pricing);
        for meter in &mut tenants {
            let no = meter.sample().pages_below(u32::MAX).next().expect("there are some");
            meter.used(no, PageUse::Found, |_| {});
        }
        let mut told = Vec::new();
        let policy = Policy::Reservations(Overbooking::LEAST_PENALTY);
        pricing.end_epoch(policy, ByteCount::from_mib(1), |tenant, price| {
            told.push((tenant, price.doublings()))
        });
        told.sort_unstable();
        let prices: Vec<u8> = told.iter().map(|(_, price)| *price).collect();
        assert!(prices.is_sorted() && prices[0] < prices[15], "{prices:?}");
    }

    #[test]
    fn who_does_nothing_is_told_no_price_once_it_is_the_least() {
        let (meters, promised) = (MemoryMeters::new(), ByteCount(16 * PAGE_SIZE as u64));
        let terms = |promised| MemoryTerms { promised, ..MemoryTerms::default() };
        let tally = meters.set_terms(TENANT, terms(promised), Nanos(0));
        let mut meter = MemoryMeter::new(promised, tally).expect("eight pages at least");
        let mut pricing = MemoryPricing::new(meters.clone());
        let settle = |pricing: &mut MemoryPricing| {
            for doublings in (0..MemoryPrice::DOUBLINGS_MAX).rev() {
                assert_eq!(epoch(pricing), [(TENANT, doublings)]);
            }
            assert_eq!(epoch(pricing), []);
        };
        settle(&mut pricing);
        for no in (1..=8).cycle().take(1000) {
            meter.used(PageNo(no), PageUse::Found, |_| {});
        }
        assert_eq!(epoch(&mut pricing), [(TENANT, MemoryPrice::DOUBLINGS_MAX)]);
        settle(&mut pricing);
        // Whoever made the promise anew gave its pages a price of their own.
        meters.set_terms(TENANT, terms(ByteCount(0)), Nanos(1));
        meters.set_terms(TENANT, terms(promised), Nanos(1));
        assert_eq!((epoch(&mut pricing), epoch(&mut pricing)), (vec![(TENANT, 0)], vec![]));
        meters.set_terms(TENANT, terms(ByteCount(0)), Nanos(2));
        assert_eq!(epoch(&mut pricing), []);
        meters.set_terms(TENANT, terms(promised), Nanos(3));
        settle(&mut pricing);
    }
}
