//! Going through all pages of a tenant without keeping them, so that one larger than memory can be checked.

use std::cell::{Cell, RefCell};

use base::{ByteCount, PageNo};
use storage::{PageBytes, PageFault, PageMap, ReadPages, Snapshot};

/// Bytes of pages that are kept while others are read: for the upper levels of indexes in which rows are looked up.
const KEPT_MAX: ByteCount = ByteCount::from_mib(if cfg!(test) { 1 } else { 256 });

/// Pages on their way through memory. Nobody else evicts any: there is no budget where a tenant is checked.
pub(crate) struct Passage<'m> {
    map: RefCell<&'m mut PageMap>,
    /// What is resident when pages are let go of next.
    evict_at: Cell<ByteCount>,
}

impl<'m> Passage<'m> {
    pub(crate) fn of(map: &'m mut PageMap) -> Passage<'m> {
        let evict_at = Cell::new(map.resident_bytes() + KEPT_MAX);
        Passage { map: RefCell::new(map), evict_at }
    }

    /// The pages of one of the map's snapshots. A page is kept for as long as [`ReadPages::with_page`] takes, and others until the
    /// result is dropped.
    pub(crate) fn pages<'p>(&'p self, snapshot: &'p Snapshot) -> PassingPages<'p, 'm> {
        PassingPages { passage: self, snapshot, pinned: snapshot.pinned() }
    }

    fn let_go(&self) {
        let mut map = self.map.borrow_mut();
        if map.resident_bytes() > self.evict_at.get() {
            map.evict_all();
            // Changed pages stay, however many they are.
            self.evict_at.set(map.resident_bytes() + KEPT_MAX);
        }
    }
}

/// See [`Passage::pages`].
pub(crate) struct PassingPages<'p, 'm> {
    passage: &'p Passage<'m>,
    snapshot: &'p Snapshot,
    pinned: storage::PinnedPages<'p>,
}

impl ReadPages for PassingPages<'_, '_> {
    fn page(&self, no: PageNo) -> Result<&PageBytes, PageFault> {
        self.passage.let_go();
        self.pinned.page(no)
    }

    fn with_page<R>(&self, no: PageNo, read: impl FnOnce(&PageBytes) -> R) -> Result<R, PageFault> {
        self.passage.let_go();
        self.snapshot.pinned().with_page(no, read)
    }
}
