//! The two faces of a set of pages: reading, and changing them as their owner.
//!
//! Trees are written against these traits, so that one tree code runs over the live map, a snapshot and tests.

use std::fmt;

use base::PageNo;
use base::limits::PAGE_SIZE;

use crate::Corrupt;

/// The bytes of one page.
pub type PageBytes = [u8; PAGE_SIZE];

/// Why a page's bytes cannot be had at once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PageFault {
    /// The page is on disk only: undo what was begun, have it read, and try again.
    Miss(PageNo),
    /// The page, or the way to it, is damaged.
    Corrupt(Box<Corrupt>),
    /// The disk refuses to read the page; the text has file and offset.
    Unreadable(PageNo, Box<str>),
}

impl PageFault {
    /// The bytes of page `page` are not what their reader must find there.
    #[cold]
    pub fn corrupt(page: PageNo, what: &'static str, found: u64, expected: u64) -> PageFault {
        PageFault::Corrupt(Box::new(Corrupt::in_page(page, what, found, expected)))
    }
}

impl From<Corrupt> for PageFault {
    fn from(corrupt: Corrupt) -> PageFault {
        PageFault::Corrupt(Box::new(corrupt))
    }
}

impl fmt::Display for PageFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PageFault::Miss(page) => write!(f, "page {page} is not in memory"),
            PageFault::Corrupt(corrupt) => corrupt.fmt(f),
            PageFault::Unreadable(page, why) => write!(f, "page {page}: {why}"),
        }
    }
}
impl std::error::Error for PageFault {}

/// Pages that can be read.
pub trait ReadPages {
    /// The bytes of page `no`. A number that no page has is a fault of kind `Corrupt`: only a damaged page names one.
    fn page(&self, no: PageNo) -> Result<&PageBytes, PageFault>;

    /// Calls `read` with the bytes of page `no`, which need not stay in memory afterwards: for going through many pages one
    /// after the other.
    fn with_page<R>(&self, no: PageNo, read: impl FnOnce(&PageBytes) -> R) -> Result<R, PageFault>
    where
        Self: Sized,
    {
        self.page(no).map(read)
    }
}

/// Pages that their owner changes in place.
pub trait WritePages: ReadPages {
    /// The bytes of page `no` to change. Copies the page first when a snapshot still shares it. `Err` changed
    /// nothing; after `Ok` further calls for this page succeed until the caller next waits.
    fn page_mut(&mut self, no: PageNo) -> Result<&mut PageBytes, PageFault>;

    /// A new page of zeros, in memory. Never `PageNo(0)`, so that 0 can stand for "none" inside pages. The number
    /// may be one that was released before.
    fn allocate(&mut self) -> PageNo;

    /// Gives page `no` up; snapshots that hold it keep it. Panics if `no` is not a page of this map.
    fn release(&mut self, no: PageNo);
}

impl<P: ReadPages + ?Sized> ReadPages for &P {
    fn page(&self, no: PageNo) -> Result<&PageBytes, PageFault> {
        (**self).page(no)
    }
}
