//! Which keys were written lately, for transactions that read a snapshot.
//!
//! Kept only while such a transaction lives, and bounded: past the bound it is remembered only which trees were written, so that of a row the two
//! states have to be compared, and of a range that was read 40001 comes rather than a missed conflict. The memory is the server's, charged to nobody.

use std::collections::BTreeMap;
use std::ops::Bound;

use base::{CommitNo, TreeId};

use crate::row::keys::{Key, KeyRange, heap_len};

/// Bytes that a tenant remembers keys in: 65,536 short ones.
const LEN_MAX: usize = 4 << 20;
/// Bytes for each key, beside those of a long one.
const KEY_LEN: usize = 64;

/// What is known of a key since a snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Written {
    No,
    Yes,
    /// It is not remembered which keys of its tree were.
    Perhaps,
}

/// The last commit of each key written while a snapshot transaction lived.
#[derive(Debug, Default)]
pub(crate) struct History {
    keys: BTreeMap<TreeId, BTreeMap<Key, CommitNo>>,
    /// Bytes that they take.
    len: usize,
    /// The last commit of each tree of which it is not remembered one by one which keys were written.
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
        let len = KEY_LEN + heap_len(key);
        if self.len + len > LEN_MAX {
            let trees = std::mem::take(&mut self.keys).into_keys();
            self.trees.extend(trees.map(|tree| (tree, commit)));
            self.len = 0;
        }
        if self.keys.entry(tree).or_default().insert(key.clone(), commit).is_none() {
            self.len += len;
        }
    }

    /// Records that `commit` wrote an unknown many keys of a tree.
    pub(crate) fn record_tree(&mut self, tree: TreeId, commit: CommitNo) {
        self.trees.insert(tree, commit);
    }

    fn tree_changed_since(&self, tree: TreeId, snapshot: CommitNo) -> bool {
        snapshot < self.complete_since || self.trees.get(&tree).is_some_and(|commit| *commit > snapshot)
    }

    /// Whether a key was written after `snapshot`.
    pub(crate) fn written_since(&self, tree: TreeId, key: &[u8], snapshot: CommitNo) -> Written {
        let commit = self.keys.get(&tree).and_then(|keys| keys.get(key));
        if commit.is_some_and(|commit| *commit > snapshot) {
            Written::Yes
        } else if self.tree_changed_since(tree, snapshot) {
            Written::Perhaps
        } else {
            Written::No
        }
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
    fn of_too_many_keys_it_is_remembered_in_which_trees_they_are() {
        let (tree, other, unwritten) = (TreeId(20), TreeId(21), TreeId(22));
        let key = |n: u16| Key::from_vec([&n.to_be_bytes()[..], &[7; 1598]].concat());
        let mut history = History::default();
        history.begin(CommitNo(5));
        history.record(other, &key(0), CommitNo(6));
        for n in 0..10_000 {
            history.record(tree, &key(n), CommitNo(7 + u64::from(n)));
            let len: usize =
                history.keys.values().flat_map(BTreeMap::keys).map(|key| KEY_LEN + key.len()).sum();
            assert!(len == history.len && len <= LEN_MAX);
        }
        let is_missed = |n: &u16| history.written_since(tree, &key(*n), CommitNo(5)) == Written::No;
        assert_eq!((0..10_000).find(is_missed), None);
        assert_eq!(history.written_since(tree, &key(0), CommitNo(5)), Written::Perhaps);
        assert!(history.range_changed_since(other, &KeyRange::all(), CommitNo(5)));
        assert!(!history.range_changed_since(unwritten, &KeyRange::all(), CommitNo(5)));
        assert!(!history.range_changed_since(tree, &KeyRange::all(), CommitNo(10_006)));
        history.end();
        assert_eq!(history.len, 0);
    }

    #[test]
    fn a_range_is_changed_only_by_later_commits_within_it() {
        let tree = TreeId(20);
        let key = Key::from_slice(b"m");
        let mut history = History::default();
        history.begin(CommitNo(5));
        history.record(tree, &key, CommitNo(6));
        assert_eq!(history.written_since(tree, b"m", CommitNo(5)), Written::Yes);
        assert_eq!(history.written_since(tree, b"m", CommitNo(6)), Written::No);
        assert!(history.range_changed_since(tree, &KeyRange::prefix(b"m"), CommitNo(5)));
        assert!(!history.range_changed_since(tree, &KeyRange::prefix(b"n"), CommitNo(5)));
        history.end();
        assert!(!history.is_wanted());
        history.begin(CommitNo(9));
        assert_eq!(history.written_since(tree, b"m", CommitNo(9)), Written::No);
        assert_eq!(
            history.written_since(tree, b"m", CommitNo(8)),
            Written::Perhaps,
            "nothing is known of before"
        );
    }
}
