//! The live map of one tenant's pages.

use base::PageNo;
use base::limits::PAGE_SIZE;

use crate::{PageBytes, PageFault, ReadPages, WritePages};

/// The live pages of one tenant. Belongs to its home thread; may be sent to another.
#[derive(Default)]
pub struct PageMap {
    pages: Vec<Option<Box<PageBytes>>>,
}

impl PageMap {
    /// A map without pages that lives in memory only.
    pub fn new_empty() -> PageMap {
        PageMap::default()
    }
}

impl ReadPages for PageMap {
    fn page(&self, no: PageNo) -> Result<&PageBytes, PageFault> {
        match self.pages.get(no.0 as usize) {
            Some(Some(page)) => Ok(page),
            _ => Err(PageFault::corrupt(no, "the map holds no such page", 0, 1)),
        }
    }
}

impl WritePages for PageMap {
    fn page_mut(&mut self, no: PageNo) -> Result<&mut PageBytes, PageFault> {
        match self.pages.get_mut(no.0 as usize) {
            Some(Some(page)) => Ok(page),
            _ => Err(PageFault::corrupt(no, "the map holds no such page", 0, 1)),
        }
    }

    fn allocate(&mut self) -> PageNo {
        let free = (1..self.pages.len()).find(|&i| self.pages[i].is_none());
        let no = free.unwrap_or(self.pages.len().max(1));
        self.pages.resize_with(self.pages.len().max(no + 1), || None);
        self.pages[no] = Some(Box::new([0; PAGE_SIZE]));
        PageNo(no as u32)
    }

    fn release(&mut self, no: PageNo) {
        assert!(self.pages[no.0 as usize].take().is_some(), "{no:?} released twice");
    }
}
