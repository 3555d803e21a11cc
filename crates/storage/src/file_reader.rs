//! Reading slots of a data file, each checked against the checksum in the pointer that led to it.

use std::io;
use std::path::{Path, PathBuf};

use base::limits::PAGE_SIZE;
use base::{PageNo, SlotNo, TenantId};
use env::{File, IoBuf};

use crate::file_error::FileError;
use crate::frame::Frame;
use crate::map::PageLocation;
use crate::version::Location;
use crate::{Corrupt, PageBytes, Room};

/// Where a slot begins, in bytes from the start of the file.
pub(crate) fn offset_of(slot: SlotNo) -> u64 {
    u64::from(slot.0) * PAGE_SIZE as u64
}

/// A page read from the file and checked, on its way into the map.
pub struct LoadedPage {
    pub(crate) from: PageLocation,
    pub(crate) frame: Frame,
    /// What was kept free for it, until it is in the map.
    pub(crate) room: Option<Room>,
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

    /// Reads the page that a map located, through the calling thread's reactor, into `room` if its map has a budget.
    /// Returns only bytes that match the pointer's checksum; hand them to [`crate::PageMap::load`].
    pub async fn read_page(&self, from: PageLocation, room: Option<Room>) -> Result<LoadedPage, FileError> {
        let buf = self.read_slot(from.location, Some(from.page)).await?;
        Ok(LoadedPage { from, frame: Frame::copy_of(page_of(&buf)), room })
    }

    pub(crate) async fn read_slot(&self, from: Location, page: Option<PageNo>) -> Result<IoBuf, FileError> {
        let (result, buf) = self.file.read_exact_at(IoBuf::recycled(PAGE_SIZE), offset_of(from.slot)).await;
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

/// A buffer of one page as a page.
pub(crate) fn page_of(buf: &IoBuf) -> &PageBytes {
    buf[..].try_into().expect("a buffer of one page")
}
