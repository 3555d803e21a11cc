//! The page numbers that are free below a map's limit: a stack of runs, of which all but the newest are in chunks that the two
//! states of a map share. So a branch takes over the numbers of millions of pages in some microseconds, and their memory is charged.

use std::sync::Arc;

use base::PageNo;

use crate::version::MapShared;

/// Page numbers from the first on, below the second.
pub(crate) type Run = (u32, u32);

/// The numbers of a map's pages, as they are met in ascending order.
pub(crate) struct PageNumbers {
    /// All are below.
    pub(crate) limit: u32,
    pub(crate) pages: u64,
    /// Those between.
    pub(crate) free: Vec<Run>,
}

impl PageNumbers {
    pub(crate) fn new() -> PageNumbers {
        PageNumbers { limit: 1, pages: 0, free: Vec::new() }
    }

    pub(crate) fn note(&mut self, no: PageNo) {
        if self.limit < no.0 {
            self.free.push((self.limit, no.0));
        }
        self.limit = no.0 + 1;
        self.pages += 1;
    }
}

/// Runs of a chunk, 8 KiB.
const CHUNK_RUNS: usize = 1024;

/// Numbers of one state of the pages. The newest is given out first, of a run the lowest.
pub(crate) struct FreePages {
    top: Vec<Run>,
    chunks: Vec<Arc<Chunk>>,
    shared: Arc<MapShared>,
}

struct Chunk {
    runs: Box<[Run]>,
    shared: Arc<MapShared>,
}

impl Chunk {
    fn new(runs: &[Run], shared: &Arc<MapShared>) -> Arc<Chunk> {
        shared.charge(size_of_val(runs));
        Arc::new(Chunk { runs: runs.into(), shared: Arc::clone(shared) })
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        self.shared.refund(size_of_val(&*self.runs));
    }
}

impl FreePages {
    pub(crate) fn new(shared: &Arc<MapShared>) -> FreePages {
        FreePages { top: Vec::new(), chunks: Vec::new(), shared: Arc::clone(shared) }
    }

    /// A number, which is free no more.
    pub(crate) fn pop(&mut self) -> Option<PageNo> {
        if self.top.is_empty() {
            let chunk = self.chunks.pop()?;
            self.top.extend_from_slice(&chunk.runs);
        }
        let (first, end) = self.top.last_mut().expect("chunks are not empty");
        let no = PageNo(*first);
        *first += 1;
        if *first == *end {
            self.top.pop();
        }
        Some(no)
    }

    /// Adds a number that is free now.
    pub(crate) fn push(&mut self, no: PageNo) {
        match self.top.last_mut() {
            Some((first, _)) if *first == no.0 + 1 => *first = no.0,
            Some((_, end)) if *end == no.0 => *end += 1,
            _ => self.push_run((no.0, no.0 + 1)),
        }
    }

    /// Adds the numbers from `first` on, below `end`.
    pub(crate) fn push_run(&mut self, run: Run) {
        if run.0 == run.1 {
            return;
        }
        if self.top.len() == 2 * CHUNK_RUNS {
            let older = self.top.drain(..CHUNK_RUNS);
            self.chunks.push(Chunk::new(older.as_slice(), &self.shared));
        }
        self.top.push(run);
    }

    /// The same numbers for another state of the pages: a reference a chunk.
    pub(crate) fn share(&self) -> FreePages {
        FreePages { top: self.top.clone(), chunks: self.chunks.clone(), shared: Arc::clone(&self.shared) }
    }

    #[cfg(test)]
    pub(crate) fn clear(&mut self) {
        self.top.clear();
        self.chunks.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn all(mut pages: FreePages) -> Vec<u32> {
        std::iter::from_fn(|| pages.pop()).map(|no| no.0).collect()
    }

    #[test]
    fn numbers_are_given_out_once_in_each_state() {
        let shared = MapShared::new(None);
        let mut pages = FreePages::new(&shared);
        // Every second number, so that each is a run of its own.
        (0..10_000).for_each(|i| pages.push(PageNo(1 + 2 * i)));
        let charged = shared.resident_bytes();
        assert!((8 * 7_000..8 * 10_000).contains(&charged), "{charged} bytes");
        let other = pages.share();
        assert_eq!(shared.resident_bytes(), charged, "they are shared");
        let taken: BTreeSet<u32> = (0..5_000).filter_map(|_| pages.pop()).map(|no| no.0).collect();
        assert_eq!(taken.len(), 5_000);
        taken.iter().take(100).for_each(|no| pages.push(PageNo(*no)));
        let (mine, theirs) = (all(pages), all(other));
        assert_eq!((mine.len(), theirs.len()), (5_100, 10_000));
        assert_eq!(theirs.into_iter().collect::<BTreeSet<_>>().len(), 10_000);
        assert_eq!(shared.resident_bytes(), 0);
    }

    #[test]
    fn neighbours_are_one_run_and_the_lowest_goes_first() {
        let mut pages = FreePages::new(&MapShared::new(None));
        (1..=100_000).rev().for_each(|no| pages.push(PageNo(no)));
        pages.push_run((200_001, 300_001));
        pages.push_run((5, 5));
        assert_eq!(pages.top.len(), 2);
        assert_eq!(pages.pop(), Some(PageNo(200_001)));
        assert_eq!(all(pages).len(), 199_999);
    }
}
