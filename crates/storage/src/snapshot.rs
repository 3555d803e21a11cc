//! The pages of one tenant as they were at one moment, readable on any thread.
//!
//! A snapshot is a clone of the map's root: making it costs nothing that grows with the data, and from then on the
//! owner copies a page before changing it for the first time. What a snapshot alone still holds is charged to its map.

use std::sync::Arc;

use base::{Epoch, PageNo};

use crate::file_error::FileError;
use crate::frame::Frame;
use crate::radix::Link;
use crate::version::MapShared;
use crate::{PageBytes, PageFault, ReadPages};

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
    /// The bytes of page `no`, read from the data file first if they are not in memory. Blocks on disk, so only for
    /// analytic and tool threads.
    pub fn read_blocking(&self, no: PageNo) -> Result<&PageBytes, FileError> {
        loop {
            match self.page(no) {
                Ok(bytes) => return Ok(bytes),
                Err(PageFault::Corrupt(corrupt)) => return Err(FileError::Corrupt(*corrupt)),
                Err(_) => self.load_blocking(no)?,
            }
        }
    }

    /// Calls `visit` with each page's number, in ascending order.
    pub fn for_each_page(&self, mut visit: impl FnMut(PageNo)) {
        self.root.for_each(self.height, 0, &mut |no, _| visit(no));
    }

    #[cold]
    fn load_blocking(&self, no: PageNo) -> Result<(), FileError> {
        let entry = self.root.find(self.height, no).expect("a missing page has an entry");
        let version = entry.version.as_ref().expect("a missing page has a version");
        let location = version.location().expect("a page is in memory or in the file");
        let reader = self.shared.reader.as_ref().expect("only a map with a file has pages outside memory");
        let mut frame = Frame::zeroed();
        reader.read_slot_blocking(location, Some(no), &mut frame)?;
        version.load(frame);
        Ok(())
    }
}

impl ReadPages for Snapshot {
    #[inline]
    fn page(&self, no: PageNo) -> Result<&PageBytes, PageFault> {
        match self.root.find(self.height, no) {
            Some(entry) if let Some(bytes) = entry.bytes() => Ok(bytes),
            entry => Err(fault_of(entry, no)),
        }
    }
}

#[cold]
pub(crate) fn fault_of(entry: Option<&crate::radix::Entry>, no: PageNo) -> PageFault {
    match entry {
        Some(entry) if entry.version.is_some() => PageFault::Miss(no),
        _ => PageFault::corrupt(no, "the map holds no such page", 0, 1),
    }
}
