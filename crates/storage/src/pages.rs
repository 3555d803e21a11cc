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
    Unreadable(Box<(PageNo, String)>),
}

// A page or a fault is returned in registers.
const _: () = assert!(size_of::<PageFault>() <= 16 && size_of::<Result<&PageBytes, PageFault>>() <= 16);

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
            PageFault::Unreadable(unreadable) => write!(f, "page {}: {}", unreadable.0, unreadable.1),
        }
    }
}
impl std::error::Error for PageFault {}

/// The pages a scan will want next, by how far ahead they are; `None` behind the last that is known.
pub type Ahead<'a> = &'a dyn Fn(usize) -> Option<PageNo>;

/// Pages that can be read.
pub trait ReadPages {
    /// The bytes of page `no`. A number that no page has is a fault of kind `Corrupt`: only a damaged page names one.
    fn page(&self, no: PageNo) -> Result<&PageBytes, PageFault>;

    /// As [`ReadPages::page`] for a scan that will want the pages `ahead(0)`, `ahead(1)` and so on next: who has to read page
    /// `no` from disk may read some of them with it.
    fn page_of_scan(&self, no: PageNo, ahead: Ahead<'_>) -> Result<&PageBytes, PageFault> {
        let _ = ahead;
        self.page(no)
    }

    /// Calls `read` with the bytes of page `no`, which need not stay in memory afterwards: for going through many pages one
    /// after the other.
    fn with_page<R>(&self, no: PageNo, read: impl FnOnce(&PageBytes) -> R) -> Result<R, PageFault>
    where
        Self: Sized,
    {
        self.page(no).map(read)
    }
}

/// Which pages a new page's number should lie among: those that are used when it is, and are not when it is not. Without it, those of small trees and inner nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Beside {
    /// The page by which a large tree is known: its root.
    pub tree: PageNo,
    /// One of its pages that is like the new one.
    pub page: PageNo,
}

/// Pages that their owner changes in place.
pub trait WritePages: ReadPages {
    /// The bytes of page `no` to change. Copies the page first when a snapshot still shares it. `Err` changed
    /// nothing; after `Ok` further calls for this page succeed until the caller next waits.
    fn page_mut(&mut self, no: PageNo) -> Result<&mut PageBytes, PageFault>;

    /// A new page of zeros, in memory. Never `PageNo(0)`, so that 0 can stand for "none" inside pages. The number
    /// may be one that was released before, and is one `beside` others where that is said.
    fn allocate(&mut self, beside: Option<Beside>) -> PageNo;

    /// Gives page `no` up; snapshots that hold it keep it. Panics if `no` is not a page of this map.
    fn release(&mut self, no: PageNo);
}

impl<P: ReadPages + ?Sized> ReadPages for &P {
    fn page(&self, no: PageNo) -> Result<&PageBytes, PageFault> {
        (**self).page(no)
    }

    fn page_of_scan(&self, no: PageNo, ahead: Ahead<'_>) -> Result<&PageBytes, PageFault> {
        (**self).page_of_scan(no, ahead)
    }
}
