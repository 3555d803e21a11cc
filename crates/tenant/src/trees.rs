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

/// Trees whose numbers follow each other, kept together: a table's and its indexes' mostly are.
const TOGETHER: u32 = 16;

/// By the number of a tree within those that are kept together.
type Together = [Option<TreeState>; TOGETHER as usize];

/// The group of the first trees that users make.
const NEAR: u32 = FIRST_USER_TREE.0 / TOGETHER;

/// All trees of a tenant. Clones are frozen: snapshots hold one. They share what did not change, so that one of very many trees costs little, and
/// little is copied by the first change behind it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trees {
    /// Those of [`NEAR`], which are all of most tenants: looked up at each read, and with many tenants each pointer on the way is a line to fetch.
    near: Together,
    far: Arc<FxHashMap<u32, Arc<Together>>>,
}

/// Where a tree is.
fn place(tree: TreeId) -> (u32, usize) {
    (tree.0 / TOGETHER, (tree.0 % TOGETHER) as usize)
}

impl Trees {
    /// A tree that has never been written to is empty.
    #[inline]
    pub(crate) fn get(&self, tree: TreeId) -> TreeState {
        self.find(tree).unwrap_or_default()
    }

    pub(crate) fn contains(&self, tree: TreeId) -> bool {
        self.find(tree).is_some()
    }

    #[inline]
    fn find(&self, tree: TreeId) -> Option<TreeState> {
        match place(tree) {
            (NEAR, at) => self.near[at],
            (group, at) => self.far.get(&group).and_then(|together| together[at]),
        }
    }

    #[inline]
    pub(crate) fn root(&self, tree: TreeId) -> TreeRoot {
        self.get(tree).root
    }

    pub(crate) fn set(&mut self, tree: TreeId, state: TreeState) {
        let (group, at) = place(tree);
        if group == NEAR {
            self.near[at] = Some(state);
            return;
        }
        let together = Arc::make_mut(&mut self.far).entry(group).or_default();
        Arc::make_mut(together)[at] = Some(state);
    }

    pub(crate) fn remove(&mut self, tree: TreeId) -> Option<TreeState> {
        let removed = self.find(tree)?;
        let (group, at) = place(tree);
        if group == NEAR {
            self.near[at] = None;
            return Some(removed);
        }
        let all = Arc::make_mut(&mut self.far);
        let together = Arc::make_mut(all.get_mut(&group).expect("found above"));
        together[at] = None;
        if together.iter().all(Option::is_none) {
            all.remove(&group);
        }
        Some(removed)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (TreeId, TreeState)> + '_ {
        let far = self.far.iter().map(|(group, together)| (*group, &**together));
        far.chain([(NEAR, &self.near)]).flat_map(|(group, together)| {
            let states = (0..).zip(together.iter());
            states.filter_map(move |(at, state)| Some((TreeId(group * TOGETHER + at), (*state)?)))
        })
    }

    /// The trees that changed since they were last said to be clean.
    pub(crate) fn dirty(&self) -> Vec<(TreeId, TreeState)> {
        let mut dirty: Vec<_> = self.iter().filter(|(_, state)| state.dirty).collect();
        dirty.sort_unstable_by_key(|(tree, _)| *tree);
        dirty
    }

    /// The catalog has all of them as they are.
    pub(crate) fn set_clean(&mut self) {
        for (tree, state) in self.dirty() {
            self.set(tree, TreeState { dirty: false, ..state });
        }
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn state(n: u64) -> TreeState {
        TreeState { root: TreeRoot(None), entries: n, dirty: n.is_multiple_of(2) }
    }

    fn all(trees: &Trees) -> BTreeMap<TreeId, TreeState> {
        trees.iter().collect()
    }

    #[test]
    fn clones_stay_as_they_were_and_share_what_did_not_change() {
        let (mut trees, mut model) = (Trees::default(), BTreeMap::new());
        let mut clones = Vec::new();
        let mut at = 1u64;
        for n in 0..4000 {
            at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let tree = TreeId((at >> 33) as u32 % 500);
            if n % 3 == 0 {
                assert_eq!(trees.remove(tree), model.remove(&tree));
            } else {
                trees.set(tree, state(n));
                model.insert(tree, state(n));
            }
            assert_eq!(trees.get(tree), model.get(&tree).copied().unwrap_or_default());
            assert_eq!(trees.contains(tree), model.contains_key(&tree));
            if n % 400 == 0 {
                clones.push((trees.clone(), model.clone()));
            }
        }
        for (clone, model) in &clones {
            assert_eq!(all(clone), *model);
        }
        let dirty: Vec<_> = model.iter().filter(|(_, state)| state.dirty).map(|(t, s)| (*t, *s)).collect();
        assert_eq!(trees.dirty(), dirty);
        let before = trees.clone();
        trees.set_clean();
        assert!(trees.dirty().is_empty() && before.dirty() == dirty);

        let before = trees.clone();
        trees.set(TreeId(7), state(1));
        let (now, before) = (&trees.far, &before.far);
        let shared = now.iter().filter(|(group, own)| before.get(group).is_some_and(|b| Arc::ptr_eq(b, own)));
        assert_eq!(shared.count(), now.len() - 1);
        for tree in model.keys() {
            trees.remove(*tree);
        }
        trees.remove(TreeId(7));
        assert!(trees.far.is_empty() && trees.iter().next().is_none(), "what is gone takes nothing");
    }
}
