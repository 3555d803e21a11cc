//! Who reads all tenants' counts again and again, and wants those that are others than before.

use std::sync::Arc;

use base::{Nanos, TenantId};

use super::meters::{MemoryMeters, MemoryTerms};
use super::tally::{MemoryCounts, MemoryTally};

/// What a reader finds of one tenant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryReading {
    pub tenant: TenantId,
    pub terms: MemoryTerms,
    /// When the tenant became known.
    pub since: Nanos,
    /// Since the server's start.
    pub counts: MemoryCounts,
}

/// One reader of [`MemoryMeters`]. A tenant whose counts and terms are as they were costs it one word to read; it looks at terms where any were set. Used by one thread.
pub struct MemoryReader {
    meters: Arc<MemoryMeters>,
    version: Option<u64>,
    /// By tenant.
    followed: Vec<Followed>,
    /// Taken over since the last call of [`MemoryReader::read`].
    are_others: bool,
    interval_min: Option<Nanos>,
}

struct Followed {
    tenant: TenantId,
    tally: Arc<MemoryTally>,
    /// The tally's version that was read; `None` if the terms were set since.
    read: Option<u64>,
    terms: MemoryTerms,
    settings: u64,
    since: Nanos,
}

impl MemoryReader {
    /// A reader that has read nothing yet.
    pub fn new(meters: Arc<MemoryMeters>) -> MemoryReader {
        MemoryReader { meters, version: None, followed: Vec::new(), are_others: false, interval_min: None }
    }

    /// Gives `each`, in order, the tenants whose counts are others than at the last call, whose terms were set since, to whatever, or that are new. One whose counts are being written
    /// just now comes with the next call. Whether terms were set or tenants came or went: ask [`MemoryReader::knows`] for these.
    pub fn read(&mut self, mut each: impl FnMut(MemoryReading)) -> bool {
        self.follow();
        for followed in &mut self.followed {
            let version = followed.tally.version();
            if followed.read == Some(version) {
                continue;
            }
            // Where they are written between the two words, what is read is newer than its version: it is read once more.
            let Some(counts) = followed.tally.read() else { continue };
            followed.read = Some(version);
            let (tenant, terms, since) = (followed.tenant, followed.terms, followed.since);
            each(MemoryReading { tenant, terms, since, counts });
        }
        std::mem::take(&mut self.are_others)
    }

    /// Whether there was such a tenant at the last call of [`MemoryReader::read`].
    pub fn knows(&self, tenant: TenantId) -> bool {
        self.followed.binary_search_by_key(&tenant, |followed| followed.tenant).is_ok()
    }

    /// The terms of all tenants as they were then.
    pub fn terms(&self) -> impl Iterator<Item = &MemoryTerms> {
        self.followed.iter().map(|followed| &followed.terms)
    }

    pub(super) fn interval_of(&self, terms: &MemoryTerms) -> Nanos {
        self.meters.interval_of(terms)
    }

    /// The shortest metering interval of those that are promised memory; `None` if nobody is.
    pub(super) fn interval_min(&mut self) -> Option<Nanos> {
        self.follow();
        self.interval_min
    }

    /// Takes over who there is and the terms, if any changed.
    fn follow(&mut self) {
        if self.version == Some(self.meters.version()) {
            return;
        }
        let known = self.meters.lock();
        self.version = Some(self.meters.version());
        let before = std::mem::take(&mut self.followed);
        let read = |tenant: TenantId, tally: &Arc<MemoryTally>, settings: u64| {
            let place = before.binary_search_by_key(&tenant, |followed| followed.tenant).ok()?;
            let same = Arc::ptr_eq(&before[place].tally, tally) && before[place].settings == settings;
            before[place].read.filter(|_| same)
        };
        self.followed = known
            .iter()
            .map(|(tenant, known)| Followed {
                tenant: *tenant,
                tally: known.tally.clone(),
                read: read(*tenant, &known.tally, known.settings),
                terms: known.terms,
                settings: known.settings,
                since: known.since,
            })
            .collect();
        drop(known);
        self.followed.sort_unstable_by_key(|followed| followed.tenant);
        let promised = self.terms().filter(|terms| terms.promised.0 > 0);
        self.interval_min = promised.map(|terms| self.meters.interval_of(terms)).min();
        self.are_others = true;
    }
}

#[cfg(test)]
mod tests {
    use base::ByteCount;

    use super::*;

    fn id(n: u64) -> TenantId {
        TenantId(TenantId::FIRST_USER.0 + n)
    }

    fn terms(promised: u64) -> MemoryTerms {
        MemoryTerms { promised: ByteCount(promised), ..MemoryTerms::default() }
    }

    fn read(reader: &mut MemoryReader) -> (Vec<(u64, u64)>, bool) {
        let mut found = Vec::new();
        let are_others =
            reader.read(|read| found.push((read.tenant.0 - TenantId::FIRST_USER.0, read.counts.told)));
        (found, are_others)
    }

    #[test]
    fn those_that_changed_are_read() {
        let meters = MemoryMeters::new();
        let tallies: Vec<_> = (0..3).map(|n| meters.set_terms(id(n), terms(8), Nanos(0))).collect();
        let mut reader = MemoryReader::new(meters.clone());
        assert_eq!(read(&mut reader), (vec![(0, 0), (1, 0), (2, 0)], true));
        assert_eq!(read(&mut reader), (vec![], false));
        let told = |told| MemoryCounts { told, ..MemoryCounts::default() };
        tallies[1].publish(&told(5));
        assert_eq!(read(&mut reader), (vec![(1, 5)], false));
        // Another promise and back is one that was set.
        meters.set_terms(id(2), terms(0), Nanos(1));
        meters.set_terms(id(2), terms(8), Nanos(1));
        assert_eq!(read(&mut reader), (vec![(2, 0)], true));
        meters.forget(id(1));
        assert!(
            reader.interval_min().is_some(),
            "which takes over that one went, and does not keep it to itself"
        );
        assert_eq!(read(&mut reader), (vec![], true));
        assert!(reader.knows(id(0)) && !reader.knows(id(1)));
        // One of the same name is another.
        meters.tally(id(1)).publish(&told(7));
        assert_eq!(read(&mut reader), (vec![(1, 7)], true));
        assert_eq!(read(&mut reader), (vec![], false));
    }

    #[test]
    fn the_shortest_interval_is_that_of_whom_something_is_promised() {
        let meters = MemoryMeters::new();
        let mut reader = MemoryReader::new(meters.clone());
        let of = |promised, seconds: u64| MemoryTerms {
            interval: Some(Nanos::from_secs(seconds)),
            ..terms(promised)
        };
        meters.set_terms(id(0), of(0, 1), Nanos(0));
        assert_eq!(reader.interval_min(), None);
        meters.set_terms(id(1), of(8, 3), Nanos(0));
        meters.set_terms(id(2), terms(8), Nanos(0));
        assert_eq!(reader.interval_min(), Some(CPU_INTERVAL));
        meters.set_interval(Nanos::from_secs(5));
        assert_eq!(reader.interval_min(), Some(Nanos::from_secs(3)));
    }

    const CPU_INTERVAL: Nanos = crate::meter::CpuTerms::INTERVAL_DEFAULT;
}
