//! All tenants' counts of what their pages took, and what these are held against.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use base::{ByteCount, Nanos, TenantId};
use rustc_hash::FxHashMap;

use super::tally::{CURVE, EVIDENCE_MIN, MemoryCounts, MemoryTally, PageIo};
use crate::meter::CpuTerms;

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

pub(super) struct Known {
    pub(super) terms: MemoryTerms,
    /// How often the terms were set, to whatever they were.
    pub(super) settings: u64,
    pub(super) tally: Arc<MemoryTally>,
    pub(super) since: Nanos,
    /// What was counted when the promise became what it is, from where its curve begins; `None` if that could not be read then.
    curve_from: Option<MemoryCounts>,
}

impl Known {
    fn new(terms: MemoryTerms, tally: Arc<MemoryTally>, since: Nanos) -> Known {
        let curve_from = tally.read();
        Known { terms, settings: 0, tally, since, curve_from }
    }
}

/// All tenants' tallies and terms. One a server.
pub struct MemoryMeters {
    known: Mutex<FxHashMap<TenantId, Known>>,
    /// Changes with the set of tenants, their terms and the interval.
    version: AtomicU64,
    /// Of tenants whose terms have none, in nanoseconds.
    interval: AtomicU64,
}

impl Default for MemoryMeters {
    fn default() -> MemoryMeters {
        MemoryMeters {
            known: Mutex::default(),
            version: AtomicU64::new(0),
            interval: AtomicU64::new(CpuTerms::INTERVAL_DEFAULT.0),
        }
    }
}

impl MemoryMeters {
    /// Meters of no tenant.
    pub fn new() -> Arc<MemoryMeters> {
        Arc::default()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, FxHashMap<TenantId, Known>> {
        self.known.lock().expect("no panic under the meters' lock")
    }

    /// Another one after each change of the set of tenants, their terms and the interval.
    pub(super) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    fn note_change(&self) {
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Sets the metering interval of all tenants whose terms have none of their own. An interval under way ends at the next multiple of it.
    pub fn set_interval(&self, interval: Nanos) {
        assert!(interval.0 > 0, "an interval has a length");
        self.interval.store(interval.0, Ordering::Relaxed);
        self.note_change();
    }

    pub(super) fn interval_of(&self, terms: &MemoryTerms) -> Nanos {
        terms.interval.unwrap_or(Nanos(self.interval.load(Ordering::Relaxed)))
    }

    /// Makes a tenant known or changes its terms; what was not judged yet is judged by the new ones, or, where it is evidence enough, by those
    /// before where nothing is promised any more or the price is another. Returns what its [`super::MemoryMeter`] counts into. From any thread; takes a short lock.
    pub fn set_terms(&self, tenant: TenantId, terms: MemoryTerms, now: Nanos) -> Arc<MemoryTally> {
        let mut known = self.lock();
        let known = known.entry(tenant).or_insert_with(|| Known::new(terms, Arc::default(), now));
        if known.terms.promised != terms.promised {
            known.curve_from = known.tally.read();
        }
        known.terms = terms;
        known.settings += 1;
        self.note_change();
        known.tally.clone()
    }

    /// As [`MemoryMeters::set_terms`] for a new tenant whose tally there is already.
    #[cfg(test)]
    pub(super) fn set_tally(&self, tenant: TenantId, terms: MemoryTerms, tally: Arc<MemoryTally>) {
        self.lock().insert(tenant, Known::new(terms, tally, Nanos(0)));
        self.note_change();
    }

    /// What the meter of a tenant counts into; of one that is not known yet, too.
    pub fn tally(&self, tenant: TenantId) -> Arc<MemoryTally> {
        let fresh = || {
            self.note_change();
            Known::new(MemoryTerms::default(), Arc::default(), Nanos(0))
        };
        self.lock().entry(tenant).or_insert_with(fresh).tally.clone()
    }

    /// The tenant is gone; what was not judged is not.
    pub fn forget(&self, tenant: TenantId) {
        self.lock().remove(&tenant);
        self.note_change();
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
}
