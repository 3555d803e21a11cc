//! The pages of one tenant as they were at one moment, readable on any thread.
//!
//! A snapshot is a clone of the map's root: making it costs nothing that grows with the data, and from then on the
//! owner copies a page before changing it for the first time. What a snapshot alone still holds is charged to its map.
//!
//! A snapshot's pages are evicted like any others. So whoever reads them either pins them ([`PinnedPages`], on any thread) or
//! borrows the live map meanwhile ([`FrozenPages`], at home), because only the map's owner evicts.

use std::cell::{Cell, RefCell};
use std::ops::Deref;
use std::sync::Arc;

use base::{Epoch, PageNo};

use crate::file_error::FileError;
use crate::file_reader::{LoadedPage, PageRun};
use crate::map::PageLocation;
use crate::radix::{Entry, Link};
use crate::version::{MapShared, PageVersion, PinnedPage};
use crate::{Ahead, PageBytes, PageFault, PageMap, ReadPages, RoomAsker};

/// A frozen root of a page map. Clones share it; the last one dropped gives its pages back.
#[derive(Clone)]
pub struct Snapshot {
    pub(crate) root: Link,
    pub(crate) height: u32,
    /// The last epoch whose changes are in it.
    pub(crate) epoch: Epoch,
    pub(crate) shared: Arc<MapShared>,
}

impl Snapshot {
    fn entry(&self, no: PageNo) -> Option<&Entry> {
        self.root.find(self.height, no)
    }

    /// Whether it has this version of page `no`.
    pub(crate) fn has_version(&self, no: PageNo, version: &PageVersion) -> bool {
        let here = self.root.find_warm(self.height, no).and_then(|entry| entry.version.as_deref());
        here.is_some_and(|here| std::ptr::eq(here, version))
    }

    fn version(&self, no: PageNo) -> Result<&PageVersion, PageFault> {
        let entry = self.entry(no);
        entry.and_then(|entry| entry.version.as_deref()).ok_or_else(|| fault_of(entry, no))
    }

    /// Reads page `no` into memory, and up to `ahead_max` of those it is followed by with it. Blocks on disk and until the
    /// budget has room.
    fn read_blocking(&self, no: PageNo, ahead: Ahead<'_>, ahead_max: usize) -> Result<(), FileError> {
        let locate = |no| PageLocation::of(no, self.entry(no)).ok().flatten();
        let Some(first) = locate(no) else { return Ok(()) };
        let place_of = |no| self.root.place(self.height, no);
        let run = PageRun::with_ahead(first, (0..ahead_max).map_while(ahead), place_of, locate);
        let reader = self.shared.reader.as_ref().expect("only a map with a file has pages outside memory");
        let asker = RoomAsker::of(&self.shared);
        let read = reader.read_run_blocking(run, asker.as_ref());
        // Whoever has opened the file since knows of no snapshot that needs these slots.
        let read = read.map_err(|error| match self.shared.is_closed() {
            true => FileError::Gone { file: reader.path.clone() },
            false => error,
        });
        read?.into_iter().for_each(LoadedPage::take_in);
        Ok(())
    }

    /// The snapshot as an analytic or tool thread reads it: misses block.
    pub fn pinned(&self) -> PinnedPages<'_> {
        PinnedPages { snapshot: self, pins: RefCell::default(), window: None, expected: RefCell::default() }
    }

    /// As [`Snapshot::pinned`] for a part of a scan that reads ahead, more with each miss; `window` is the scan's own.
    pub fn pinned_for_scan<'s>(&'s self, window: &'s ReadAheadWindow) -> PinnedPages<'s> {
        PinnedPages { window: Some(window), ..self.pinned() }
    }

    /// Calls `visit` with each page's number, in ascending order.
    pub fn for_each_page(&self, mut visit: impl FnMut(PageNo)) {
        self.root.for_each(self.height, 0, &mut |no, _| visit(no));
    }
}

/// How far a scan reads ahead: nothing at its first miss, twice as much with each further one.
#[derive(Default)]
pub struct ReadAheadWindow(Cell<usize>);

impl ReadAheadWindow {
    fn widen(&self, pages_max: usize) -> usize {
        let pages = self.0.get();
        self.0.set((2 * pages + 1).min(pages_max));
        pages
    }
}

/// A snapshot's pages read on any thread, each pinned until this is dropped: make one for a few pages, a leaf's path say.
/// Blocks where a page is not in memory.
pub struct PinnedPages<'s> {
    snapshot: &'s Snapshot,
    pins: RefCell<Vec<PinnedPage<'s>>>,
    window: Option<&'s ReadAheadWindow>,
    /// In the order in which they will be wanted.
    expected: RefCell<Vec<PageNo>>,
}

impl<'s> PinnedPages<'s> {
    /// As [`ReadPages::page`], with the reason why a page cannot be read.
    pub fn read(&self, no: PageNo) -> Result<&PageBytes, FileError> {
        self.keep(self.pin(no, &|_| None)?)
    }

    /// Says which pages will be wanted, one after the other.
    pub fn expect(&self, pages: impl Iterator<Item = PageNo>) {
        let mut expected = self.expected.borrow_mut();
        expected.clear();
        expected.extend(pages);
    }

    fn pin(&self, no: PageNo, ahead: Ahead<'_>) -> Result<PinnedPage<'s>, FileError> {
        let version = self.snapshot.version(no).map_err(|fault| match fault {
            PageFault::Corrupt(corrupt) => FileError::Corrupt(*corrupt),
            fault => unreachable!("a version is there or is not: {fault}"),
        })?;
        let mut was_read = false;
        loop {
            if let Some(page) = version.pin() {
                // The read was the use; a page of a scan is not to look as if it was used twice.
                let was_ahead = !was_read && version.touch();
                self.snapshot.shared.metered.post_use(no, version, was_read || was_ahead);
                return Ok(page);
            }
            let depth = self.snapshot.shared.budget().map_or(0, |budget| budget.read_ahead());
            let ahead_max = self.window.map_or(0, |window| window.widen(depth));
            self.snapshot.read_blocking(no, ahead, ahead_max)?;
            was_read = true;
        }
    }

    fn keep(&self, page: PinnedPage<'s>) -> Result<&PageBytes, FileError> {
        let bytes: *const PageBytes = page.deref();
        self.pins.borrow_mut().push(page);
        // SAFETY: the pin keeps the bytes where they are, wherever the pin itself is moved to; it is dropped with `self`, which
        // outlives the borrow that is returned, and nothing else takes pins out of the list.
        Ok(unsafe { &*bytes })
    }
}

/// The disk failed; there is no page to wait for, so it ends a query as damage does.
pub(crate) fn unreadable(no: PageNo, error: FileError) -> PageFault {
    match error {
        FileError::Corrupt(corrupt) => PageFault::Corrupt(Box::new(corrupt)),
        error => PageFault::Unreadable(Box::new((no, error.to_string()))),
    }
}

impl ReadPages for PinnedPages<'_> {
    fn page(&self, no: PageNo) -> Result<&PageBytes, PageFault> {
        self.read(no).map_err(|error| unreadable(no, error))
    }

    fn page_of_scan(&self, no: PageNo, ahead: Ahead<'_>) -> Result<&PageBytes, PageFault> {
        self.pin(no, ahead).and_then(|page| self.keep(page)).map_err(|error| unreadable(no, error))
    }

    fn with_page<R>(&self, no: PageNo, read: impl FnOnce(&PageBytes) -> R) -> Result<R, PageFault> {
        let page = {
            let expected = self.expected.borrow();
            let at = expected.iter().position(|page| *page == no);
            let ahead = |i: usize| expected.get(at? + 1 + i).copied();
            self.pin(no, &ahead).map_err(|error| unreadable(no, error))?
        };
        Ok(read(&page))
    }
}

/// A snapshot's pages in a turn of its home: nothing is pinned, for nothing is evicted while the live map is borrowed.
#[repr(transparent)]
pub struct FrozenPages(Snapshot);

impl PageMap {
    /// The pages of one of this map's own snapshots.
    ///
    /// # Panics
    /// If it is another map's.
    #[inline]
    pub fn frozen<'a>(&'a self, snapshot: &'a Snapshot) -> &'a FrozenPages {
        assert!(self.is_origin_of(snapshot), "a snapshot is read at its own home");
        // SAFETY: `FrozenPages` is a `Snapshot`, by `repr(transparent)`. The result lives no longer than the borrow of the map,
        // which `FrozenPages::page` relies on; the type cannot be had otherwise.
        unsafe { &*std::ptr::from_ref(snapshot).cast::<FrozenPages>() }
    }
}

impl ReadPages for FrozenPages {
    #[inline]
    fn page(&self, no: PageNo) -> Result<&PageBytes, PageFault> {
        let version = self.0.version(no)?;
        match version.data() {
            Some(data) => {
                let was_ahead = version.touch();
                self.0.shared.metered.post_use(no, version, was_ahead);
                // SAFETY: `self` lives within a borrow of the live map (`PageMap::frozen`), whose owner alone evicts and needs
                // it exclusively to do so. The bytes are not written: a snapshot reaches them.
                Ok(unsafe { data.as_ref() })
            }
            None if self.0.shared.take_turn_read() => {
                version.load_blocking(no, &self.0.shared).map_err(|error| unreadable(no, error))?;
                self.0.shared.metered.post_use(no, version, true);
                self.page(no)
            }
            None => Err(PageFault::Miss(no)),
        }
    }
}

impl PageVersion {
    /// Reads the page from the file, blocking the thread.
    #[cold]
    pub(crate) fn load_blocking(&self, no: PageNo, shared: &MapShared) -> Result<(), FileError> {
        let location = self.location().expect("a page is in memory or in the file");
        let reader = shared.reader.as_ref().expect("only a map with a file has pages outside memory");
        let mut frame = crate::frame::Frame::zeroed();
        reader.read_slot_blocking(location, Some(no), &mut frame)?;
        self.load(frame, false);
        Ok(())
    }
}

#[cold]
pub(crate) fn fault_of(entry: Option<&Entry>, no: PageNo) -> PageFault {
    match entry {
        Some(entry) if entry.version.is_some() => PageFault::Miss(no),
        _ => PageFault::corrupt(no, "the map holds no such page", 0, 1),
    }
}
