//! Which keys were written lately, for transactions that read a snapshot.
//!
//! Kept only while such a transaction lives, and bounded: past the bound everything before now counts as changed, so a
//! snapshot older than that fails with 40001 rather than miss a conflict.

use std::collections::BTreeMap;
use std::ops::Bound;

use base::{CommitNo, TreeId};

use crate::row::keys::{Key, KeyRange};

/// Keys remembered at most; about 64 bytes each.
const KEYS_MAX: usize = 1 << 18;

/// The last commit of each key written while a snapshot transaction lived.
#[derive(Debug, Default)]
pub(crate) struct History {
    keys: BTreeMap<TreeId, BTreeMap<Key, CommitNo>>,
    len: usize,
    /// The last commit of each tree that wrote too many of its keys to be remembered one by one.
    trees: BTreeMap<TreeId, CommitNo>,
    /// Snapshots before this commit cannot be judged any more.
    complete_since: CommitNo,
    /// Living transactions that read a snapshot.
    readers: usize,
}

impl History {
    /// A snapshot of `commit` is going to be read.
    pub(crate) fn begin(&mut self, commit: CommitNo) {
        if self.readers == 0 {
            self.complete_since = commit;
        }
        self.readers += 1;
    }

    /// A reader is done.
    pub(crate) fn end(&mut self) {
        self.readers -= 1;
        if self.readers == 0 {
            self.keys.clear();
            self.trees.clear();
            self.len = 0;
        }
    }

    /// Whether commits have to be recorded.
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        self.readers > 0
    }

    /// Records that `commit` wrote a key.
    pub(crate) fn record(&mut self, tree: TreeId, key: &Key, commit: CommitNo) {
        if self.len == KEYS_MAX {
            self.keys.clear();
            self.len = 0;
            self.complete_since = commit;
        }
        if self.keys.entry(tree).or_default().insert(key.clone(), commit).is_none() {
            self.len += 1;
        }
    }

    /// Records that `commit` wrote an unknown many keys of a tree.
    pub(crate) fn record_tree(&mut self, tree: TreeId, commit: CommitNo) {
        self.trees.insert(tree, commit);
    }

    fn tree_changed_since(&self, tree: TreeId, snapshot: CommitNo) -> bool {
        snapshot < self.complete_since || self.trees.get(&tree).is_some_and(|commit| *commit > snapshot)
    }

    /// Whether a key was, or may have been, written after `snapshot`.
    pub(crate) fn changed_since(&self, tree: TreeId, key: &[u8], snapshot: CommitNo) -> bool {
        self.tree_changed_since(tree, snapshot)
            || self.keys.get(&tree).and_then(|keys| keys.get(key)).is_some_and(|commit| *commit > snapshot)
    }

    /// Whether any key of a range was, or may have been, written after `snapshot`.
    pub(crate) fn range_changed_since(&self, tree: TreeId, range: &KeyRange, snapshot: CommitNo) -> bool {
        if self.tree_changed_since(tree, snapshot) {
            return true;
        }
        let Some(keys) = self.keys.get(&tree) else { return false };
        if range.is_empty() {
            return false;
        }
        let to = range.to.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        keys.range::<Key, _>((Bound::Included(&range.from), to)).any(|(_, commit)| *commit > snapshot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_changed_only_by_later_commits_within_it() {
        let tree = TreeId(20);
        let key = Key::from_slice(b"m");
        let mut history = History::default();
        history.begin(CommitNo(5));
        history.record(tree, &key, CommitNo(6));
        assert!(history.changed_since(tree, b"m", CommitNo(5)));
        assert!(!history.changed_since(tree, b"m", CommitNo(6)));
        assert!(history.range_changed_since(tree, &KeyRange::prefix(b"m"), CommitNo(5)));
        assert!(!history.range_changed_since(tree, &KeyRange::prefix(b"n"), CommitNo(5)));
        history.end();
        assert!(!history.is_wanted());
        history.begin(CommitNo(9));
        assert!(!history.changed_since(tree, b"m", CommitNo(9)));
        assert!(history.changed_since(tree, b"m", CommitNo(8)), "nothing is known of before");
    }
}
