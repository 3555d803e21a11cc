//! The trees of a tenant and where their pages are read from.
//!
//! Roots and entry counts live in memory and change with commits; a checkpoint writes those that changed into the catalog
//! tree. They are never logged: page numbers mean nothing to a replay, which allocates its own.

use std::sync::Arc;

use base::{PageNo, TreeId};
use btree::TreeRoot;
use rustc_hash::FxHashMap;
use storage::{Ahead, FrozenPages, PageBytes, PageFault, PageMap, ReadPages};

/// The tree of catalog records.
pub(crate) const CATALOG_TREE: TreeId = TreeId(1);

/// The first tree id given to a table or index.
pub(crate) const FIRST_USER_TREE: TreeId = TreeId(16);

/// A tree as it is now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct TreeState {
    pub(crate) root: TreeRoot,
    /// Entries, kept exact by every change.
    pub(crate) entries: u64,
    /// Changed since the last checkpoint began.
    pub(crate) dirty: bool,
}

/// All trees of a tenant. Clones are frozen: snapshots hold one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trees(Arc<FxHashMap<TreeId, TreeState>>);

impl Trees {
    /// A tree that has never been written to is empty.
    #[inline]
    pub(crate) fn get(&self, tree: TreeId) -> TreeState {
        self.0.get(&tree).copied().unwrap_or_default()
    }

    pub(crate) fn contains(&self, tree: TreeId) -> bool {
        self.0.contains_key(&tree)
    }

    #[inline]
    pub(crate) fn root(&self, tree: TreeId) -> TreeRoot {
        self.get(tree).root
    }

    pub(crate) fn set(&mut self, tree: TreeId, state: TreeState) {
        Arc::make_mut(&mut self.0).insert(tree, state);
    }

    pub(crate) fn remove(&mut self, tree: TreeId) -> Option<TreeState> {
        Arc::make_mut(&mut self.0).remove(&tree)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (TreeId, TreeState)> + '_ {
        self.0.iter().map(|(tree, state)| (*tree, *state))
    }

    /// The trees that changed since they were last said to be clean.
    pub(crate) fn dirty(&self) -> Vec<(TreeId, TreeState)> {
        let mut dirty: Vec<_> = self.iter().filter(|(_, state)| state.dirty).collect();
        dirty.sort_unstable_by_key(|(tree, _)| *tree);
        dirty
    }

    /// The catalog has all of them as they are.
    pub(crate) fn set_clean(&mut self) {
        Arc::make_mut(&mut self.0).values_mut().for_each(|state| state.dirty = false);
    }
}

/// Pages to read: the live ones or a snapshot's.
#[derive(Clone, Copy)]
pub(crate) enum Pages<'a> {
    Live(&'a PageMap),
    Frozen(&'a FrozenPages),
}

impl ReadPages for Pages<'_> {
    #[inline]
    fn page(&self, no: PageNo) -> Result<&PageBytes, PageFault> {
        match self {
            Pages::Live(pages) => pages.page(no),
            Pages::Frozen(pages) => pages.page(no),
        }
    }

    #[inline]
    fn page_of_scan(&self, no: PageNo, ahead: Ahead<'_>) -> Result<&PageBytes, PageFault> {
        match self {
            Pages::Live(pages) => pages.page_of_scan(no, ahead),
            Pages::Frozen(pages) => pages.page_of_scan(no, ahead),
        }
    }
}
