//! At the end of each metering interval: whether a tenant's pages took more I/O than in memory of its own.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use base::limits::PAGE_SIZE;
use base::{ByteCount, Nanos, TenantId};
use rustc_hash::FxHashMap;

use super::tally::{CURVE, EVIDENCE_MIN, MemoryCounts, MemoryTally, PageIo};
use crate::meter::{Cause, CpuTerms, LedgerRow, Resource};

/// What the meter holds a tenant's buffer memory against.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryTerms {
    /// 0: nothing is promised, and there are no rows.
    pub promised: ByteCount,
    /// Price of an excess read or write-back, in millionths.
    pub penalty_micros: u64,
    /// The metering interval; `None`: the server's ([`MemoryMeters::set_interval`]).
    pub interval: Option<Nanos>,
}

impl Default for MemoryTerms {
    fn default() -> MemoryTerms {
        MemoryTerms { promised: ByteCount(0), penalty_micros: 0, interval: None }
    }
}

struct Known {
    terms: MemoryTerms,
    tally: Arc<MemoryTally>,
    since: Nanos,
    /// What was counted when the promise became what it is, from where its curve begins; `None` if that could not be read then.
    curve_from: Option<MemoryCounts>,
}

impl Known {
    fn new(terms: MemoryTerms, tally: Arc<MemoryTally>, since: Nanos) -> Known {
        let curve_from = tally.read();
        Known { terms, tally, since, curve_from }
    }
}

/// All tenants' tallies and terms. One a server.
pub struct MemoryMeters {
    known: Mutex<FxHashMap<TenantId, Known>>,
    /// Of tenants whose terms have none, in nanoseconds.
    interval: AtomicU64,
}

impl Default for MemoryMeters {
    fn default() -> MemoryMeters {
        MemoryMeters { known: Mutex::default(), interval: AtomicU64::new(CpuTerms::INTERVAL_DEFAULT.0) }
    }
}

impl MemoryMeters {
    /// Meters of no tenant.
    pub fn new() -> Arc<MemoryMeters> {
        Arc::default()
    }

    fn lock(&self) -> MutexGuard<'_, FxHashMap<TenantId, Known>> {
        self.known.lock().expect("no panic under the meters' lock")
    }

    /// Sets the metering interval of all tenants whose terms have none of their own. An interval under way ends once it has lasted as long.
    pub fn set_interval(&self, interval: Nanos) {
        assert!(interval.0 > 0, "an interval has a length");
        self.interval.store(interval.0, Ordering::Relaxed);
    }

    fn interval_of(&self, terms: &MemoryTerms) -> Nanos {
        terms.interval.unwrap_or(Nanos(self.interval.load(Ordering::Relaxed)))
    }

    /// Makes a tenant known or changes its terms; what was not judged yet is judged by the new ones. Returns what its
    /// [`super::MemoryMeter`] counts into. From any thread; takes a short lock.
    pub fn set_terms(&self, tenant: TenantId, terms: MemoryTerms, now: Nanos) -> Arc<MemoryTally> {
        let mut known = self.lock();
        let known = known.entry(tenant).or_insert_with(|| Known::new(terms, Arc::default(), now));
        if known.terms.promised != terms.promised {
            known.curve_from = known.tally.read();
        }
        known.terms = terms;
        known.tally.clone()
    }

    /// As [`MemoryMeters::set_terms`] for a new tenant whose tally there is already.
    #[cfg(test)]
    pub(super) fn set_tally(&self, tenant: TenantId, terms: MemoryTerms, tally: Arc<MemoryTally>) {
        self.lock().insert(tenant, Known::new(terms, tally, Nanos(0)));
    }

    /// What the meter of a tenant counts into; of one that is not known yet, too.
    pub fn tally(&self, tenant: TenantId) -> Arc<MemoryTally> {
        let fresh = || Known::new(MemoryTerms::default(), Arc::default(), Nanos(0));
        self.lock().entry(tenant).or_insert_with(fresh).tally.clone()
    }

    /// The tenant is gone; what was not judged is not.
    pub fn forget(&self, tenant: TenantId) {
        self.lock().remove(&tenant);
    }

    /// A tenant's cache-size curve: what I/O caches of the sizes of [`CURVE`] would have taken since as much was promised as is now, from small to large. Empty without a
    /// promise, and until 1,000 sampled uses were seen.
    pub fn curve(&self, tenant: TenantId) -> Vec<(ByteCount, PageIo)> {
        let mut known = self.lock();
        let Some(known) = known.get_mut(&tenant) else { return Vec::new() };
        let Some(counts) = known.tally.read() else { return Vec::new() };
        let since = counts.since(known.curve_from.get_or_insert(counts));
        if known.terms.promised.0 == 0 || since.told < EVIDENCE_MIN {
            return Vec::new();
        }
        let size = |quarters: u64| ByteCount(known.terms.promised.0.saturating_mul(quarters) / 4);
        CURVE.iter().map(|quarters| size(*quarters)).zip(since.curve).collect()
    }

    /// How many uses of pages [`MemoryMeters::curve`] is of, as sweeps see them: several between two visits are one. `None` where there is no curve.
    pub fn references_of_curve(&self, tenant: TenantId) -> Option<u64> {
        let mut known = self.lock();
        let known = known.get_mut(&tenant)?;
        let since = known.tally.read()?.since(known.curve_from.as_ref()?);
        (known.terms.promised.0 > 0 && since.told >= EVIDENCE_MIN).then_some(since.references)
    }

    /// Calls `each` for the tenants that are promised memory and whose counts can be read at this moment.
    pub fn for_each(&self, mut each: impl FnMut(TenantId, &MemoryTerms, &MemoryCounts)) {
        for (tenant, known) in self.lock().iter().filter(|(_, known)| known.terms.promised.0 > 0) {
            if let Some(counts) = known.tally.read() {
                each(*tenant, &known.terms, &counts);
            }
        }
    }
}

/// A row of the ledger, and what of it only memory has. The row is in I/Os that memory *spared*: a use of a page that is in memory spares a read,
/// a change of one that was not written since the one before spares a write-back. `promised` and `demanded` are those that the
/// promised memory would have spared, `given` those that were, `missed` the excess I/O.
///
/// Example: 10,000 uses, of which 500 would have been read in the promised memory and 620 were: demanded 9,500, given 9,380,
/// missed 120.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryRow {
    pub ledger: LedgerRow,
    /// Of the row's time, scaled to all pages.
    pub counts: MemoryCounts,
}

/// Makes the rows of buffer memory. One a server, used by one thread. It knows what was counted and nothing of the choice of
/// victims.
pub struct MemoryAudit {
    meters: Arc<MemoryMeters>,
    /// What all tenants together can be promised.
    promisable: ByteCount,
    records: FxHashMap<TenantId, Record>,
    now: Nanos,
}

struct Record {
    from: Nanos,
    counts: MemoryCounts,
    /// At the last collection.
    seen: MemoryCounts,
}

impl MemoryAudit {
    /// An audit of `meters` on a server with so many bytes to promise.
    pub fn new(meters: Arc<MemoryMeters>, promisable: ByteCount, now: Nanos) -> MemoryAudit {
        MemoryAudit { meters, promisable, records: FxHashMap::default(), now }
    }

    /// Gives `each` the rows of the intervals that have ended by `now`. An interval goes on until 1,000 sampled references
    /// were seen in it, for less is no evidence; it begins anew while there are none. `system_over` is what the internal tenant
    /// holds beyond its own promise.
    pub fn collect(&mut self, now: Nanos, system_over: ByteCount, mut each: impl FnMut(MemoryRow)) {
        let mut demanded = 0;
        let mut ended = Vec::new();
        let records = &mut self.records;
        let meters = self.meters.lock();
        records.retain(|tenant, _| meters.contains_key(tenant));
        for (tenant, known) in meters.iter() {
            let Some(counts) = known.tally.read() else { continue };
            let fresh = || Record {
                from: known.since.max(self.now),
                counts: MemoryCounts::default(),
                seen: MemoryCounts::default(),
            };
            let record = records.entry(*tenant).or_insert_with(fresh);
            if counts.told > record.seen.told {
                demanded += known.terms.promised.0;
            }
            record.seen = counts;
            let since = counts.since(&record.counts);
            if since == MemoryCounts::default() || known.terms.promised.0 == 0 {
                (record.from, record.counts) = (now, counts);
            } else if now >= record.from + self.meters.interval_of(&known.terms) && since.told >= EVIDENCE_MIN
            {
                ended.push((*tenant, known.terms, record.from, since));
                (record.from, record.counts) = (now, counts);
            }
        }
        drop(meters);
        self.now = now;
        ended.sort_unstable_by_key(|(tenant, ..)| *tenant);
        for (tenant, terms, from, counts) in ended {
            let cause = |missed: u64| {
                if demanded > self.promisable.0 {
                    Cause::Overbooked
                } else if system_over.0 / PAGE_SIZE as u64 >= missed {
                    Cause::System
                } else {
                    Cause::Neighbour
                }
            };
            each(judge(tenant, &terms, (from, now), counts, cause));
        }
    }

    /// When the first interval ends; `None` if no tenant is known. With too little evidence a row comes later.
    pub fn next_end(&self) -> Option<Nanos> {
        let meters = self.meters.lock();
        let end = |(tenant, known): (&TenantId, &Known)| {
            let from = self.records.get(tenant).map_or(known.since, |record| record.from);
            let interval = self.meters.interval_of(&known.terms);
            (from + interval).max(self.now + interval)
        };
        meters.iter().filter(|(_, known)| known.terms.promised.0 > 0).map(end).min()
    }
}

fn judge(
    tenant: TenantId,
    terms: &MemoryTerms,
    (from, to): (Nanos, Nanos),
    counts: MemoryCounts,
    cause: impl FnOnce(u64) -> Cause,
) -> MemoryRow {
    let (actual, baseline) = (counts.actual, counts.baseline());
    let wanted = counts.references + actual.write_backs.max(baseline.write_backs);
    let (demanded, given) = (wanted - baseline.total(), wanted - actual.total());
    let missed = demanded.saturating_sub(given);
    let ledger = LedgerRow {
        tenant,
        resource: Resource::Memory,
        from,
        to,
        promised: demanded,
        demanded,
        given,
        missed,
        over: 0,
        active: to - from,
        cause: (missed > 0).then(|| cause(missed)),
        delays: None,
        owed_micros: LedgerRow::price(Resource::Memory, missed, terms.penalty_micros),
    };
    MemoryRow { ledger, counts }
}
