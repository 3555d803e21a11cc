//! One state of a tenant's pages: the radix tree, and what is known of it without looking.

use base::{Epoch, PageNo};

use crate::page_numbers::PageNumbers;
use crate::radix::{Entry, Link};

/// A [`crate::PageMap`] has one, and with a branch a second.
pub(crate) struct Side {
    /// The pages: the truth of which all else here is derived.
    pub(crate) root: Link,
    /// Levels of inner nodes above the leaves.
    pub(crate) height: u32,
    /// What is changed now is of this epoch.
    pub(crate) epoch: Epoch,
    pub(crate) numbers: PageNumbers,
    /// Pages made or changed since the last checkpoint began, or since the branch was made.
    pub(crate) changed: u64,
}

impl Side {
    /// What stands at page `no`, if there is a leaf for it.
    #[inline]
    pub(crate) fn entry(&self, no: PageNo) -> Option<&Entry> {
        self.root.find(self.height, no)
    }

    /// As [`Side::entry`], if somebody has looked at the page's leaf since it was cold.
    pub(crate) fn warm_entry(&self, no: PageNo) -> Option<&Entry> {
        self.root.find_warm(self.height, no)
    }
}
