//! At the end of each metering interval: whether a tenant's pages took more I/O than in memory of its own.

use std::sync::Arc;

use base::limits::PAGE_SIZE;
use base::{ByteCount, Nanos, TenantId};
use rustc_hash::{FxHashMap, FxHashSet};

use super::evidence::{Evidence, Found, Terms};
use super::meters::{MemoryMeters, MemoryTerms};
use super::reader::MemoryReader;
use super::tally::{EVIDENCE_MIN, MemoryCounts};
use crate::meter::{Cause, LedgerRow, OwnLimit, Resource, end_of_interval};

/// A row of the ledger, and what of it only memory has. The row is in I/Os that memory *spared*: a use of a page that is in memory spares a read,
/// a change of one that was not written since the one before spares a write-back. `promised` and `demanded` are those that the
/// promised memory would have spared, `given` those that were, `missed` the excess I/O that is found with this interval: beyond what chance explains, and
/// of the intervals before, too, that left it open.
///
/// Example: 10,000 uses, of which 500 would have been read in the promised memory and 620 were: demanded 9,500, given 9,380,
/// missed 120, of which 100 may be chance. With 580 read nothing is missed yet; if it is 580 again in the next interval, 160 are missed then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryRow {
    pub ledger: LedgerRow,
    /// Of the row's time, scaled to all pages.
    pub counts: MemoryCounts,
}

/// Makes the rows of buffer memory. One a server, used by one thread. It knows what was counted and nothing of the choice of
/// victims.
pub struct MemoryAudit {
    reader: MemoryReader,
    /// What all tenants together can be promised.
    promisable: ByteCount,
    records: FxHashMap<TenantId, Record>,
    /// Whose records are evidence enough and wait for their interval's end.
    open: FxHashSet<TenantId>,
    now: Nanos,
    /// When those who used their memory were last promised more than there is together.
    overbooked_at: Nanos,
}

struct Record {
    terms: MemoryTerms,
    from: Nanos,
    /// When the interval began.
    counts: MemoryCounts,
    /// At the last collection that found others than the one before.
    seen: MemoryCounts,
    /// Nothing was seen since the interval began: it begins anew with each collection.
    is_quiet: bool,
    /// Of the intervals before.
    evidence: Evidence,
}

impl Record {
    /// The next interval begins.
    fn begin(&mut self, now: Nanos) {
        (self.from, self.counts, self.is_quiet) = (now, self.seen, true);
    }

    fn since_begin(&self) -> MemoryCounts {
        self.seen.since(&self.counts)
    }
}

impl MemoryAudit {
    /// An audit of `meters` on a server with so many bytes to promise.
    pub fn new(meters: Arc<MemoryMeters>, promisable: ByteCount, now: Nanos) -> MemoryAudit {
        MemoryAudit {
            reader: MemoryReader::new(meters),
            promisable,
            records: FxHashMap::default(),
            open: FxHashSet::default(),
            now,
            overbooked_at: Nanos(0),
        }
    }

    /// Gives `each` the rows of the intervals that have ended by `now`. Call it when [`MemoryAudit::next_end`] comes. An interval goes on until 1,000 sampled references
    /// were seen in it, for less is no evidence; it begins anew while there are none. `system_over` is what the internal tenant
    /// holds beyond its own promise. Tenants of whom nothing was counted since the last call cost a word to read.
    pub fn collect(&mut self, now: Nanos, system_over: ByteCount, each: impl FnMut(MemoryRow)) {
        self.collect_those(now, system_over, false, each);
    }

    /// As [`MemoryAudit::collect`], and every interval that has evidence enough ends now: the server does.
    pub fn finish(&mut self, now: Nanos, system_over: ByteCount, each: impl FnMut(MemoryRow)) {
        self.collect_those(now, system_over, true, each);
    }

    /// `all`: also of the intervals that have not ended, which do then.
    fn collect_those(
        &mut self,
        now: Nanos,
        system_over: ByteCount,
        all: bool,
        mut each: impl FnMut(MemoryRow),
    ) {
        let last = std::mem::replace(&mut self.now, now);
        let (records, open) = (&mut self.records, &mut self.open);
        let mut ended = Vec::new();
        let mut demanded = 0u64;
        let are_others = self.reader.read(|read| {
            let fresh = || Record {
                terms: read.terms,
                from: read.since,
                counts: MemoryCounts::default(),
                seen: MemoryCounts::default(),
                is_quiet: true,
                evidence: Evidence::default(),
            };
            let record = records.entry(read.tenant).or_insert_with(fresh);
            let before = std::mem::replace(&mut record.terms, read.terms);
            if before.promised.0 == 0 {
                record.evidence = Evidence::default();
            }
            if read.counts.told > record.seen.told {
                demanded = demanded.saturating_add(read.terms.promised.0);
            }
            record.seen = read.counts;
            if record.is_quiet {
                record.from = record.from.max(last);
            }
            let since = record.since_begin();
            if since == MemoryCounts::default() || read.terms.promised.0 == 0 {
                // A promise that was taken back is held against what there was until then.
                if before.promised.0 > 0 && since.told >= EVIDENCE_MIN {
                    ended.push((read.tenant, before, record.from, since));
                }
                record.begin(now);
            } else if before.promised.0 > 0
                && before.penalty_micros != read.terms.penalty_micros
                && since.told >= EVIDENCE_MIN
            {
                // So is what was counted at another price.
                ended.push((read.tenant, before, record.from, since));
                record.begin(now);
            } else {
                record.is_quiet = false;
                if since.told >= EVIDENCE_MIN {
                    open.insert(read.tenant);
                }
            }
        });
        if are_others {
            records.retain(|tenant, _| self.reader.knows(*tenant));
        }
        if demanded > self.promisable.0 {
            self.overbooked_at = now;
        }
        let reader = &self.reader;
        open.retain(|tenant| {
            let Some(record) = records.get_mut(tenant).filter(|record| !record.is_quiet) else {
                return false;
            };
            if !all && now < end_of_interval(record.from, reader.interval_of(&record.terms)) {
                return true;
            }
            ended.push((*tenant, record.terms, record.from, record.since_begin()));
            record.begin(now);
            false
        });
        ended.sort_unstable_by_key(|(tenant, ..)| *tenant);
        for (tenant, terms, from, counts) in ended {
            let Some(record) = records.get_mut(&tenant) else { continue };
            let terms = Terms { promised: terms.promised, penalty_micros: terms.penalty_micros };
            let found = record.evidence.add(from, &counts, terms);
            let cause = |found: &Found| {
                if self.overbooked_at > found.since {
                    Cause::Overbooked
                } else if system_over.0 / PAGE_SIZE as u64 >= found.excess {
                    Cause::System
                } else {
                    Cause::Neighbour
                }
            };
            each(row_of(tenant, (from, now), counts, found, cause));
        }
    }

    /// When to collect next: at the end of the shortest interval of a tenant that is promised memory. `None` if there is no such tenant. With too little evidence a row comes later.
    pub fn next_end(&mut self) -> Option<Nanos> {
        Some(end_of_interval(self.now, self.reader.interval_min()?))
    }
}

/// A tenant's row. `cause`: why, of what is found.
fn row_of(
    tenant: TenantId,
    (from, to): (Nanos, Nanos),
    counts: MemoryCounts,
    found: Option<Found>,
    cause: impl FnOnce(&Found) -> Cause,
) -> MemoryRow {
    let (actual, baseline) = (counts.actual, counts.baseline());
    let wanted = counts.references + actual.write_backs.max(baseline.write_backs);
    let (demanded, given) = (wanted - baseline.total(), wanted - actual.total());
    let ledger = LedgerRow {
        tenant,
        resource: Resource::Memory,
        from,
        to,
        promised: demanded,
        demanded,
        given,
        missed: found.map_or(0, |found| found.excess),
        by_chance: found.map_or(0, |found| found.by_chance),
        over: 0,
        own_limit: OwnLimit::default(),
        active: to - from,
        cause: found.as_ref().map(cause),
        delays: None,
        owed_micros: found.map_or(0, |found| found.owed_micros),
    };
    MemoryRow { ledger, counts }
}
