//! Commits that are visible but not yet durable, so that a reply waits for exactly what it could have read.
//!
//! Only a filter: hashes may collide, and then a reply waits for a commit it did not read, at most one flush longer.

use std::collections::VecDeque;
use std::hash::{Hash, Hasher};

use base::{Lsn, TreeId};
use rustc_hash::{FxHashMap, FxHasher};

/// What was written by commits that are not durable yet.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    /// By hash of tree and key, the newest such commit's position.
    keys: FxHashMap<u64, Lsn>,
    /// By tree, likewise: for scans, which also see what is not there.
    trees: FxHashMap<TreeId, Lsn>,
    /// The newest commit that wrote too much to be remembered by key.
    everything: Lsn,
    /// The newest one that changed definitions.
    definitions: Lsn,
    commits: VecDeque<Commit>,
}

#[derive(Debug)]
struct Commit {
    lsn: Lsn,
    keys: Box<[u64]>,
    trees: Box<[TreeId]>,
}

/// The hash under which a key is remembered.
#[inline]
pub(crate) fn hash_of(tree: TreeId, key: &[u8]) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write_u32(tree.0);
    hasher.write(key);
    hasher.finish()
}

impl Pending {
    /// Whether everything visible is durable; one compare.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.commits.is_empty()
    }

    /// Remembers a commit whose record ends at `lsn`.
    pub(crate) fn add(&mut self, lsn: Lsn, keys: Vec<u64>, trees: Vec<TreeId>) {
        for key in &keys {
            self.keys.insert(*key, lsn);
        }
        for tree in &trees {
            self.trees.insert(*tree, lsn);
        }
        self.commits.push_back(Commit { lsn, keys: keys.into(), trees: trees.into() });
    }

    /// Remembers a commit of which every read may have seen something.
    pub(crate) fn add_everything(&mut self, lsn: Lsn) {
        self.everything = lsn;
        self.commits.push_back(Commit { lsn, keys: Box::default(), trees: Box::default() });
    }

    /// Remembers a commit that changed definitions: by them every read may have seen something of it, and so has who is told what there is without one.
    pub(crate) fn add_definitions(&mut self, lsn: Lsn) {
        self.definitions = lsn;
        self.add_everything(lsn);
    }

    /// Forgets the commits that are durable now that the log is durable through `lsn`.
    pub(crate) fn durable(&mut self, lsn: Lsn) {
        while self.commits.front().is_some_and(|commit| commit.lsn <= lsn) {
            let commit = self.commits.pop_front().expect("looked at above");
            for key in &commit.keys {
                if self.keys.get(key) == Some(&commit.lsn) {
                    self.keys.remove(key);
                }
            }
            for tree in &commit.trees {
                if self.trees.get(tree) == Some(&commit.lsn) {
                    self.trees.remove(tree);
                }
            }
        }
        if self.everything <= lsn {
            self.everything = Lsn(0);
        }
        if self.definitions <= lsn {
            self.definitions = Lsn(0);
        }
        give_room_back(&mut self.keys);
        give_room_back(&mut self.trees);
    }

    /// The newest commit that wrote this key; `Lsn(0)` if all of its writes are durable.
    #[inline]
    pub(crate) fn of_key(&self, tree: TreeId, key: &[u8]) -> Lsn {
        if self.is_empty() {
            return Lsn(0);
        }
        self.keys.get(&hash_of(tree, key)).copied().unwrap_or_default().max(self.everything)
    }

    /// The newest commit that wrote into this tree.
    #[inline]
    pub(crate) fn of_tree(&self, tree: TreeId) -> Lsn {
        if self.is_empty() {
            return Lsn(0);
        }
        self.trees.get(&tree).copied().unwrap_or_default().max(self.everything)
    }

    /// The newest commit that changed definitions.
    #[inline]
    pub(crate) fn of_definitions(&self) -> Lsn {
        self.definitions
    }

    /// The newest commit of all.
    pub(crate) fn newest(&self) -> Lsn {
        self.commits.back().map_or(Lsn(0), |commit| commit.lsn)
    }
}

/// Entries for which room is kept.
const ROOM_KEPT: usize = 1 << 12;

/// Keeps no room for what a large commit wrote, also where there is always a commit that waits.
fn give_room_back<K: Eq + Hash>(of: &mut FxHashMap<K, Lsn>) {
    if of.capacity() > ROOM_KEPT && of.len() < of.capacity() / 16 {
        of.shrink_to(2 * of.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_pending_until_its_newest_commit_is_durable() {
        let tree = TreeId(20);
        let mut pending = Pending::default();
        pending.add(Lsn(10), vec![hash_of(tree, b"a"), hash_of(tree, b"b")], vec![tree]);
        pending.add(Lsn(20), vec![hash_of(tree, b"a")], vec![tree]);
        assert_eq!(pending.of_key(tree, b"b"), Lsn(10));
        pending.durable(Lsn(10));
        assert_eq!(pending.of_key(tree, b"b"), Lsn(0));
        assert_eq!(pending.of_key(tree, b"a"), Lsn(20));
        assert_eq!(pending.of_tree(tree), Lsn(20));
        pending.durable(Lsn(20));
        assert!(pending.is_empty());
        assert!(pending.keys.is_empty() && pending.trees.is_empty());
    }

    #[test]
    fn definitions_are_pending_until_their_commit_is_durable_and_everything_with_them() {
        let tree = TreeId(20);
        let mut pending = Pending::default();
        pending.add_definitions(Lsn(10));
        pending.add(Lsn(20), vec![hash_of(tree, b"a")], vec![tree]);
        assert_eq!((pending.of_definitions(), pending.of_key(tree, b"b")), (Lsn(10), Lsn(10)));
        pending.durable(Lsn(10));
        assert_eq!((pending.of_definitions(), pending.of_key(tree, b"b")), (Lsn(0), Lsn(0)));
        assert_eq!(pending.newest(), Lsn(20));
    }

    #[test]
    fn a_large_commit_leaves_no_room_behind_while_others_wait() {
        let tree = TreeId(20);
        let mut pending = Pending::default();
        let keys = |from: u64, to: u64| (from..to).map(|n| hash_of(tree, &n.to_be_bytes())).collect();
        pending.add(Lsn(10), keys(0, 100_000), vec![tree]);
        pending.add(Lsn(20), keys(100_000, 100_010), vec![tree]);
        pending.durable(Lsn(10));
        assert_eq!(pending.keys.len(), 10);
        assert!(pending.keys.capacity() <= ROOM_KEPT, "{}", pending.keys.capacity());
        assert_eq!(pending.of_key(tree, &100_005_u64.to_be_bytes()), Lsn(20));
    }
}
