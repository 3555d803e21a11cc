//! The meter of buffer memory: what I/O a tenant's pages took, and what they would have taken if the memory it was promised
//! were its alone.
//!
//! The baseline is a *ghost*: a simulation of that cache that holds page numbers only, fed with the tenant's own uses of pages.
//! It is a miniature (Waldspurger et al., "Cache Modeling and Optimization using Miniature Simulations", USENIX ATC 2017): of the pages one in
//! 2^s is looked at, chosen by a hash of its number, in a cache of a 2^s-th of the size. What actually happened is counted
//! on the same pages, so that which of them are popular is no error of the comparison. Ghosts of a quarter, half, twice and four times
//! the size go along: the curve of misses by size.
//!
//! A ghost has its own replacement, LRU-2 over the visits of a hand as the real one ([`cache`]), and shares nothing with the
//! choice it audits. What it needs to know of a page at a visit is whether it was used since the visit before, as the
//! real sweep does; so the owner of the pages tells the first use of a page after a ghost has *forgotten* its uses, and no
//! other: the resident fast path of an access is not on the way, and nothing is lost by it.
//!
//! The meter belongs to the tenant's home. It allocates when it is made, never when it is told of something.

mod audit;
mod cache;
mod evidence;
mod index;
mod meters;
mod reader;
mod sample;
mod tally;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use base::limits::PAGE_SIZE;
use base::{ByteCount, PageNo};

pub use audit::{MemoryAudit, MemoryRow};
use cache::GhostCache;
pub use meters::{MemoryMeters, MemoryTerms};
pub use reader::{MemoryReader, MemoryReading};
pub use sample::PageSample;
pub(crate) use tally::EVIDENCE_MIN;
pub use tally::{CURVE, MemoryCounts, MemoryTally, PageIo};
use tally::{CURVE_LEN, PROMISED};

/// How a page was used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PageUse {
    /// It was in memory.
    Found,
    /// It was read from the file for somebody who will use it.
    Read,
    /// It was read from the file, and that was all the use there was so far, as by a scan.
    ReadOnce,
    /// It is new.
    Made,
}

/// Pages that a tenant can have: a promise of more is one of all of them.
const PAGES_MAX: u64 = 1 << u32::BITS;

/// Why a checkpoint writes changed pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriteCause {
    /// To make room in memory: what a dedicated cache would not have needed to write now.
    Room,
    /// For the log's sake, or to close: as it would be with any cache.
    Log,
}

/// One tenant's meter. Told by the owner of its pages what happens to them; only pages of [`MemoryMeter::sample`] count.
pub struct MemoryMeter {
    sample: PageSample,
    caches: [GhostCache; CURVE_LEN],
    counts: MemoryCounts,
    /// Pages changed since the last checkpoint, to be written by the next.
    changed: u64,
    tally: Arc<MemoryTally>,
}

impl MemoryMeter {
    /// A meter for a promise of `promised` bytes, which goes on with what `tally` has. It takes 24 bytes for each page that a ghost may have, 96 KiB at most.
    /// `None` for a promise of less than eight pages: nothing is metered.
    pub fn new(promised: ByteCount, tally: Arc<MemoryTally>) -> Option<MemoryMeter> {
        let pages = (promised.0 / PAGE_SIZE as u64).min(PAGES_MAX);
        if pages < cache::CAPACITY_MIN as u64 {
            return None;
        }
        let sample = PageSample::for_cache(pages);
        let caches = CURVE.map(|quarters| GhostCache::new(sample.part_of(pages * quarters / 4)));
        let counts = tally.read_own();
        Some(MemoryMeter { sample, caches, counts, changed: 0, tally })
    }

    /// Which pages it is to be told of.
    pub fn sample(&self) -> PageSample {
        self.sample
    }

    /// What it has counted.
    pub fn tally(&self) -> &Arc<MemoryTally> {
        &self.tally
    }

    /// Bytes it takes.
    pub fn memory(&self) -> ByteCount {
        ByteCount(self.caches.iter().map(GhostCache::len_bytes).sum())
    }

    /// Page `no` was used, for the first time since it was named to a `forget`, or is read from the file. Names to `forget` each page whose
    /// next use the meter wants to be told. Up to some microseconds.
    pub fn used(&mut self, no: PageNo, how: PageUse, mut forget: impl FnMut(PageNo)) {
        assert!(self.sample.has(no), "{no:?} is not of the sample");
        let unit = self.sample.unit();
        let is_read = matches!(how, PageUse::Read | PageUse::ReadOnce);
        for (i, cache) in self.caches.iter_mut().enumerate() {
            let before = cache.reference(no, how != PageUse::ReadOnce, &mut forget);
            self.counts.curve[i].write_backs += u64::from(before.written) * unit;
            // Until a ghost has evicted something, what it does not have and memory has was there before the ghost.
            if !before.had && how != PageUse::Made && (is_read || cache.has_evicted()) {
                self.counts.curve[i].reads += unit;
            }
        }
        if how != PageUse::Made {
            self.counts.references += unit;
            self.counts.told += 1;
        }
        self.counts.actual.reads += if is_read { unit } else { 0 };
        self.publish();
    }

    fn publish(&mut self) {
        let of_promised = u64::from(self.caches[PROMISED].changed());
        self.counts.unwritten = (self.changed as i64 - of_promised as i64) * self.sample.unit() as i64;
        self.tally.publish(&self.counts);
    }

    /// Page `no`, which was used before, is changed for the first time since the last checkpoint began.
    pub fn changed(&mut self, no: PageNo) {
        assert!(self.sample.has(no), "{no:?} is not of the sample");
        self.changed += 1;
        for cache in &mut self.caches {
            cache.change(no);
        }
    }

    /// Page `no` is given up; `was_changed` if it was [`MemoryMeter::changed`] since the last checkpoint began.
    pub fn released(&mut self, no: PageNo, was_changed: bool) {
        assert!(self.sample.has(no), "{no:?} is not of the sample");
        if was_changed {
            self.changed = self.changed.saturating_sub(1);
        }
        for cache in &mut self.caches {
            cache.remove(no);
        }
    }

    /// A checkpoint begins to write the changed pages.
    pub fn checkpointed(&mut self, cause: WriteCause) {
        let unit = self.sample.unit();
        self.counts.actual.write_backs += std::mem::take(&mut self.changed) * unit;
        if cause == WriteCause::Log {
            for (cache, io) in self.caches.iter_mut().zip(&mut self.counts.curve) {
                io.write_backs += u64::from(cache.write_all()) * unit;
            }
        }
        self.publish();
    }

    /// All pages were evicted on somebody's demand: the ghosts begin anew too, and what is read again is nobody's fault.
    pub fn emptied(&mut self) {
        for cache in &mut self.caches {
            cache.empty();
        }
    }
}
