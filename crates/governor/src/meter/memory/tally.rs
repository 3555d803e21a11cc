//! What a tenant's meter has counted, for other threads.

use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Sampled references on which a judgement may be made.
pub(crate) const EVIDENCE_MIN: u64 = 1000;

/// Sizes of the caches of the curve, in quarters of what is promised.
pub const CURVE: [u64; CURVE_LEN] = [1, 2, 4, 8, 16];
pub(super) const CURVE_LEN: usize = 5;
/// Which of them is of the promised size.
pub(super) const PROMISED: usize = 2;
/// Which of half of it.
const HALF: usize = 1;
const _: () = assert!(CURVE[PROMISED] == 4 && CURVE[HALF] == 2);

/// I/O of pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PageIo {
    pub reads: u64,
    pub write_backs: u64,
}

impl PageIo {
    /// Of both kinds.
    pub fn total(self) -> u64 {
        self.reads + self.write_backs
    }

    fn since(self, before: PageIo) -> PageIo {
        PageIo { reads: self.reads - before.reads, write_backs: self.write_backs - before.write_backs }
    }
}

/// Counts since the server's start, scaled to all pages from those of the sample.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MemoryCounts {
    /// Uses of pages as sweeps see them: several between two visits, of the real hand or a ghost's, are one.
    pub references: u64,
    /// Those of the sample that the meter was told of: not scaled.
    pub told: u64,
    pub actual: PageIo,
    /// What caches of the sizes of [`CURVE`] would have taken.
    pub curve: [PageIo; CURVE_LEN],
    /// How many more changed pages than of the promised memory are not written yet: as of now, not since the start.
    pub unwritten: i64,
}

impl MemoryCounts {
    /// What the promised memory would have taken.
    pub fn baseline(&self) -> PageIo {
        self.curve[PROMISED]
    }

    /// What came since `before`, earlier counts of the same tenant.
    pub fn since(&self, before: &MemoryCounts) -> MemoryCounts {
        MemoryCounts {
            references: self.references - before.references,
            told: self.told - before.told,
            actual: self.actual.since(before.actual),
            curve: std::array::from_fn(|i| self.curve[i].since(before.curve[i])),
            unwritten: self.unwritten - before.unwritten,
        }
    }

    /// Actual I/O beyond the baseline; below 0 if it was less. A page that was changed counts as written, so that it does not matter when
    /// the many of a checkpoint are.
    pub fn excess(&self) -> i64 {
        self.actual.total() as i64 - self.baseline().total() as i64 + self.unwritten
    }

    /// What half of the promised memory would have taken beyond the baseline.
    pub(super) fn excess_of_half(&self) -> u64 {
        self.curve[HALF].total().saturating_sub(self.baseline().total())
    }

    fn to_words(self) -> [u64; WORDS] {
        let io = |io: PageIo| [io.reads, io.write_backs];
        let [[a, b], [c, d], [e, f], [g, h], [i, j]] = self.curve.map(io);
        let [reads, write_backs] = io(self.actual);
        let unwritten = self.unwritten.cast_unsigned();
        [self.references, self.told, reads, write_backs, a, b, c, d, e, f, g, h, i, j, unwritten]
    }

    fn of_words(words: [u64; WORDS]) -> MemoryCounts {
        let io = |at: usize| PageIo { reads: words[at], write_backs: words[at + 1] };
        let curve = std::array::from_fn(|i| io(4 + 2 * i));
        let unwritten = words[WORDS - 1].cast_signed();
        MemoryCounts { references: words[0], told: words[1], actual: io(2), curve, unwritten }
    }
}

const WORDS: usize = 5 + 2 * CURVE_LEN;

/// [`MemoryCounts`] of one tenant: written by its home, read by any thread without a lock.
#[derive(Default)]
pub struct MemoryTally {
    /// Odd while the words are being written.
    version: AtomicU64,
    words: [AtomicU64; WORDS],
}

impl MemoryTally {
    /// Another one after each change of the counts.
    pub(super) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// The counts at one moment; `None` if they are being written just now, as they are for some nanoseconds.
    pub fn read(&self) -> Option<MemoryCounts> {
        let version = self.version.load(Ordering::Acquire);
        let counts = self.read_own();
        // The words were read before the version is looked at again.
        fence(Ordering::Acquire);
        let is_whole = version.is_multiple_of(2) && self.version.load(Ordering::Relaxed) == version;
        is_whole.then_some(counts)
    }

    /// As [`MemoryTally::read`], for who writes.
    pub(super) fn read_own(&self) -> MemoryCounts {
        let mut words = [0; WORDS];
        for (word, stored) in words.iter_mut().zip(&self.words) {
            *word = stored.load(Ordering::Relaxed);
        }
        MemoryCounts::of_words(words)
    }

    /// Called by one thread at a time.
    pub(super) fn publish(&self, counts: &MemoryCounts) {
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version + 1, Ordering::Relaxed);
        // The words are written after the version is odd.
        fence(Ordering::Release);
        for (stored, word) in self.words.iter().zip(counts.to_words()) {
            stored.store(word, Ordering::Relaxed);
        }
        self.version.store(version + 2, Ordering::Release);
    }
}
