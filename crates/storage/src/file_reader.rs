//! Reading slots of a data file, each checked against the checksum in the pointer that led to it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use base::limits::PAGE_SIZE;
use base::{IoClass, PageNo, SlotNo, TenantId};
use env::{File, IoBuf};

use crate::file_error::FileError;
use crate::frame::Frame;
use crate::map::PageLocation;
use crate::memory_budget::lock;
use crate::version::{Location, PageVersion};
use crate::{Corrupt, PageBytes, Room, RoomAsker};

/// Where a slot begins, in bytes from the start of the file.
pub(crate) fn offset_of(slot: SlotNo) -> u64 {
    u64::from(slot.0) * PAGE_SIZE as u64
}

/// A page read from the file and checked, on its way into the map.
pub struct LoadedPage {
    from: PageLocation,
    frame: Frame,
    /// Nobody has asked for it yet.
    is_ahead: bool,
    /// What was kept free for it, until it is in the map.
    room: Option<Room>,
}

impl LoadedPage {
    /// The page and its version, if somebody asked for it.
    pub(crate) fn asked_for(&self) -> Option<(PageNo, Arc<PageVersion>)> {
        (!self.is_ahead).then(|| (self.from.page, Arc::clone(&self.from.version)))
    }

    /// Gives the bytes to their version, unless another reader was first.
    pub(crate) fn take_in(self) {
        let LoadedPage { from, frame, is_ahead, room } = self;
        from.version.load(frame, is_ahead);
        drop(room);
    }
}

/// A page to be read, and others that lie behind it in the file and are read along with it.
pub struct PageRun {
    first: PageLocation,
    ahead: Vec<PageLocation>,
    class: IoClass,
}

impl PageRun {
    /// The page `first` alone.
    pub fn new(first: PageLocation) -> PageRun {
        PageRun { first, ahead: Vec::new(), class: IoClass::default() }
    }

    /// With the page `first` those of `ahead` that lie next to it in the file one after the other, up to one that is in memory: `place_of` says where a
    /// page lies, and `locate` is asked about those that lie there.
    pub(crate) fn with_ahead(
        first: PageLocation,
        ahead: impl IntoIterator<Item = PageNo>,
        place_of: impl Fn(PageNo) -> Option<Location>,
        locate: impl Fn(PageNo) -> Option<PageLocation>,
    ) -> PageRun {
        let mut run = PageRun::new(first);
        for no in ahead {
            let next = run.first.location.slot.0 + run.ahead.len() as u32 + 1;
            if place_of(no).is_some_and(|place| place.slot.0 == next) {
                let Some(location) = locate(no) else { break };
                run.ahead.push(location);
            }
        }
        run
    }

    /// As one that upkeep waits for, and no statement.
    #[must_use]
    pub fn for_upkeep(self) -> PageRun {
        PageRun { class: IoClass::Upkeep, ..self }
    }

    /// Keeps only so many of the pages that are read along.
    pub fn truncate_ahead(&mut self, pages: usize) {
        self.ahead.truncate(pages);
    }

    /// Pages that are read along.
    pub fn ahead(&self) -> usize {
        self.ahead.len()
    }

    /// The slot of the page that is to be read.
    pub fn slot(&self) -> SlotNo {
        self.first.location.slot
    }

    fn len(&self) -> usize {
        (1 + self.ahead.len()) * PAGE_SIZE
    }
}

/// Reads a tenant's pages from its data file. Shared by the map, its snapshots and the checkpoint.
pub struct FileReader {
    pub(crate) file: File,
    pub(crate) path: PathBuf,
    pub(crate) tenant: TenantId,
}

impl FileReader {
    /// The data file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the pages of a run through the calling thread's reactor. Room for them is asked for when the read has its turn, of `asker`, if the
    /// map has a budget: for the first page it waits where there is none, the others it leaves out then. Returns only bytes that match
    /// their pointers' checksums, the first page at least; hand them to [`crate::PageMap::load`].
    ///
    /// # Errors
    /// [`FileError::Gone`] where the pages are of an opening that is over, and not to be had any more.
    pub async fn read_run(
        &self,
        run: PageRun,
        asker: Option<&RoomAsker>,
    ) -> Result<Vec<LoadedPage>, FileError> {
        let version = Arc::clone(&run.first.version);
        self.read_pages(run, asker).await.map_err(|error| match version.is_of_the_past() {
            true => FileError::Gone { file: self.path.clone() },
            false => error,
        })
    }

    async fn read_pages(
        &self,
        mut run: PageRun,
        asker: Option<&RoomAsker>,
    ) -> Result<Vec<LoadedPage>, FileError> {
        let at = offset_of(run.slot());
        let Some(asker) = asker else {
            let (result, buf) =
                self.file.read_exact_at(IoBuf::recycled(run.len()), at).of_class(run.class).await;
            return self.arrived(run, result, &buf, Vec::new()).await;
        };
        run.truncate_ahead(asker.rooms_beside_one(run.ahead()));
        let taken = Arc::new(Mutex::new(Vec::new()));
        let read = {
            let (taken, asker, pages) = (taken.clone(), asker.clone(), 1 + run.ahead());
            let take = move || {
                let rooms = asker.rooms_now(pages);
                let has_some = !rooms.is_empty();
                *lock(&taken) = rooms;
                has_some
            };
            self.file.read_exact_at(IoBuf::recycled(run.len()), at).of_class(run.class).starting_if(take)
        };
        let (result, buf) = read.await;
        let rooms = std::mem::take(&mut *lock(&taken));
        if !rooms.is_empty() {
            run.truncate_ahead(rooms.len() - 1);
            return self.arrived(run, result, &buf, rooms).await;
        }
        // It had its turn and is paid for. It goes on without another one when there is room, so that nobody waits with room for a turn.
        drop(buf);
        run.truncate_ahead(0);
        let rooms = vec![asker.room().await];
        let (result, buf) = self.file.uncharged().read_exact_at(IoBuf::recycled(run.len()), at).await;
        self.arrived(run, result, &buf, rooms).await
    }

    /// What was read of a run, its first `run.len()` bytes.
    async fn arrived(
        &self,
        run: PageRun,
        result: io::Result<()>,
        buf: &IoBuf,
        rooms: Vec<Room>,
    ) -> Result<Vec<LoadedPage>, FileError> {
        if result.is_err() && buf.len() > PAGE_SIZE {
            // The failure may lie in what nobody asked for.
            let first = PageRun { ahead: Vec::new(), ..run };
            let at = offset_of(first.slot());
            let read = self.file.read_exact_at(IoBuf::recycled(first.len()), at);
            let (result, buf) = read.of_class(first.class).await;
            self.read_result(result, first.first.location, Some(first.first.page))?;
            return self.loaded(first, &buf, rooms);
        }
        self.read_result(result, run.first.location, Some(run.first.page))?;
        self.loaded(run, buf, rooms)
    }

    /// As [`FileReader::read_run`], blocking the thread. What was read is looked at, and copied, when its wait is over.
    pub(crate) fn read_run_blocking(
        &self,
        mut run: PageRun,
        asker: Option<&RoomAsker>,
    ) -> Result<Vec<LoadedPage>, FileError> {
        let (result, buf, rooms) = env::blocked(|| {
            if let Some(asker) = asker {
                run.truncate_ahead(asker.rooms_beside_one(run.ahead()));
            }
            let mut leave = self.file.charge(run.len());
            let mut rooms = Vec::new();
            if let Some(asker) = asker {
                rooms = asker.rooms_now(1 + run.ahead());
                if rooms.is_empty() {
                    // Its place at the device is for others meanwhile.
                    drop(leave.take());
                    rooms.push(asker.room_blocking());
                }
                run.truncate_ahead(rooms.len() - 1);
            }
            let file = self.file.uncharged();
            let mut buf = IoBuf::recycled(run.len());
            let mut result = file.read_at(&mut buf, offset_of(run.slot()));
            if result.is_err() && run.ahead() > 0 {
                // The failure may lie in what nobody asked for.
                run.truncate_ahead(0);
                buf = IoBuf::recycled(run.len());
                result = file.read_at(&mut buf, offset_of(run.slot()));
            }
            drop(leave);
            (result, buf, rooms)
        });
        self.read_result(result, run.first.location, Some(run.first.page))?;
        self.loaded(run, &buf, rooms)
    }

    fn loaded(&self, run: PageRun, buf: &IoBuf, rooms: Vec<Room>) -> Result<Vec<LoadedPage>, FileError> {
        let mut rooms = rooms.into_iter();
        let mut pages = Vec::with_capacity(1 + run.ahead.len());
        for (i, from) in std::iter::once(run.first).chain(run.ahead).enumerate() {
            let bytes: &PageBytes = buf[i * PAGE_SIZE..(i + 1) * PAGE_SIZE].try_into().expect("one page");
            let is_ahead = i > 0;
            match self.check(from.location, Some(from.page), bytes) {
                // Who comes to want it will be told.
                Err(_) if is_ahead => break,
                checked => checked?,
            }
            pages.push(LoadedPage { from, frame: Frame::copy_of(bytes), is_ahead, room: rooms.next() });
        }
        Ok(pages)
    }

    pub(crate) async fn read_slot(
        &self,
        from: Location,
        page: Option<PageNo>,
        class: IoClass,
    ) -> Result<IoBuf, FileError> {
        let read = self.file.read_exact_at(IoBuf::recycled(PAGE_SIZE), offset_of(from.slot));
        let (result, buf) = read.of_class(class).await;
        self.read_result(result, from, page)?;
        self.check(from, page, page_of(&buf))?;
        Ok(buf)
    }

    pub(crate) fn read_slot_blocking(
        &self,
        from: Location,
        page: Option<PageNo>,
        into: &mut PageBytes,
    ) -> Result<(), FileError> {
        let result = self.file.read_at(into, offset_of(from.slot));
        self.read_result(result, from, page)?;
        self.check(from, page, into)
    }

    /// A file that ends before a slot a root points to has lost data; any other failure is the disk's.
    fn read_result(
        &self,
        result: io::Result<()>,
        from: Location,
        page: Option<PageNo>,
    ) -> Result<(), FileError> {
        match result {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(self.damage(from, page, "the file ends before this slot", 0, PAGE_SIZE as u64))
            }
            result => result.map_err(|error| self.io_error_at(offset_of(from.slot), "reading a page", error)),
        }
    }

    fn check(&self, from: Location, page: Option<PageNo>, bytes: &PageBytes) -> Result<(), FileError> {
        let found = crc32c::crc32c(bytes);
        if found == from.checksum {
            return Ok(());
        }
        Err(self.damage(from, page, "checksum mismatch", found.into(), from.checksum.into()))
    }

    fn damage(
        &self,
        from: Location,
        page: Option<PageNo>,
        what: &'static str,
        found: u64,
        expected: u64,
    ) -> FileError {
        FileError::Corrupt(Corrupt {
            page,
            ..Corrupt::at(&self.path, offset_of(from.slot), what, found, expected)
        })
    }

    pub(crate) fn io_error_at(&self, offset: u64, doing: &'static str, error: io::Error) -> FileError {
        FileError::IoAt { file: self.path.clone(), offset, doing, error }
    }

    pub(crate) fn io_error(&self, doing: &'static str, error: io::Error) -> FileError {
        FileError::Io { file: self.path.clone(), doing, error }
    }
}

/// What the disk says of a slot that it cannot read, as damage.
pub(crate) fn unreadable_slot(file: &Path, offset: u64, error: &io::Error) -> Corrupt {
    let number = error.raw_os_error().unwrap_or(0) as u64;
    Corrupt::at(file, offset, "the disk cannot read this slot, by the number of its error", number, 0)
}

/// A buffer of one page as a page.
pub(crate) fn page_of(buf: &IoBuf) -> &PageBytes {
    buf[..].try_into().expect("a buffer of one page")
}
