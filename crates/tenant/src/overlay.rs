//! The changes of one transaction that nobody else sees: for each tree, keys with their new value or deletion, in key order.
//!
//! An undo journal records what each change replaced, so a statement or savepoint can be taken back. It is not written
//! while the overlay was empty at the last mark: then taking back means forgetting everything.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use base::TreeId;
use rustc_hash::FxHashMap;

use crate::row::keys::{Key, KeyRange, copied};

/// What becomes of a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    Put(Box<[u8]>),
    Delete,
}

/// The changes of one tree.
pub(crate) type TreeChanges = BTreeMap<Key, Change>;

/// Changes by tree. Clones share them until either side changes.
#[derive(Clone, Default, Debug)]
pub(crate) struct Changes {
    trees: FxHashMap<TreeId, Arc<TreeChanges>>,
}

/// A transaction's changes and how to take them back.
#[derive(Default, Debug)]
pub(crate) struct Overlay {
    changes: Changes,
    journal: Vec<Undo>,
    /// Whether some mark needs the journal.
    journaling: bool,
    bytes: usize,
    /// Changes in all trees.
    count: usize,
    /// Bytes of keys and values in the journal.
    journal_bytes: usize,
}

/// Memory of one change beside its key and value: its place in a tree three quarters full, and the value's allocation.
const CHANGE_LEN: usize = 96;

#[derive(Debug)]
struct Undo {
    tree: TreeId,
    key: Key,
    previous: Option<Change>,
}

/// A place in the overlay's life to go back to: the journal's length, or `None` where there was no change yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct OverlayMark(Option<usize>);

impl Changes {
    pub(crate) fn is_empty(&self) -> bool {
        self.trees.is_empty()
    }

    /// The changes of one tree; `None` if it has none.
    #[inline]
    pub(crate) fn of(&self, tree: TreeId) -> Option<&TreeChanges> {
        if self.trees.is_empty() {
            return None;
        }
        self.trees.get(&tree).map(|changes| &**changes)
    }

    #[inline]
    pub(crate) fn get(&self, tree: TreeId, key: &[u8]) -> Option<&Change> {
        self.of(tree)?.get(key)
    }

    /// Trees with changes, by id.
    pub(crate) fn trees(&self) -> Vec<(TreeId, &TreeChanges)> {
        let mut all: Vec<_> = self.trees.iter().map(|(tree, changes)| (*tree, &**changes)).collect();
        all.sort_unstable_by_key(|(tree, _)| *tree);
        all
    }
}

/// The first change within `range`.
pub(crate) fn first_in<'c>(changes: &'c TreeChanges, range: &KeyRange) -> Option<(&'c Key, &'c Change)> {
    in_bounds(changes, Bound::Included(&range.from), range.to.as_ref()).next()
}

/// The last change within `range`.
pub(crate) fn last_in<'c>(changes: &'c TreeChanges, range: &KeyRange) -> Option<(&'c Key, &'c Change)> {
    in_bounds(changes, Bound::Included(&range.from), range.to.as_ref()).next_back()
}

fn in_bounds<'c>(
    changes: &'c TreeChanges,
    from: Bound<&Key>,
    to: Option<&Key>,
) -> std::collections::btree_map::Range<'c, Key, Change> {
    let empty = match (from, to) {
        (Bound::Included(from), Some(to)) | (Bound::Excluded(from), Some(to)) => from >= to,
        _ => false,
    };
    if empty {
        // `BTreeMap::range` panics on a range whose ends are the wrong way round.
        return changes.range::<Key, _>((Bound::Included(Key::new()), Bound::Excluded(Key::new())));
    }
    changes.range::<Key, _>((from, to.map_or(Bound::Unbounded, Bound::Excluded)))
}

impl Overlay {
    pub(crate) fn changes(&self) -> &Changes {
        &self.changes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Bytes of keys and values.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Changes in all trees.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Bytes of memory that it takes, about.
    #[inline]
    pub(crate) fn footprint(&self) -> u64 {
        let journal = self.journal.len() * size_of::<Undo>() + self.journal_bytes;
        (self.bytes + self.count * CHANGE_LEN + journal) as u64
    }

    /// Empties it, and calls `each` after each change that it frees; there is nothing to go back to any more.
    pub(crate) fn free(&mut self, mut each: impl FnMut()) {
        let Overlay { changes, journal, .. } = std::mem::take(self);
        for undo in journal {
            drop(undo);
            each();
        }
        // Those of which a query has a clone are its to free.
        for of_tree in changes.trees.into_values().filter_map(Arc::into_inner) {
            for change in of_tree {
                drop(change);
                each();
            }
        }
    }

    pub(crate) fn put(&mut self, tree: TreeId, key: Key, value: Box<[u8]>) {
        self.change(tree, key, Change::Put(value));
    }

    pub(crate) fn delete(&mut self, tree: TreeId, key: Key) {
        self.change(tree, key, Change::Delete);
    }

    fn change(&mut self, tree: TreeId, key: Key, change: Change) {
        self.bytes += key.len() + change.len();
        let changes = Arc::make_mut(self.changes.trees.entry(tree).or_default());
        let key_len = key.len();
        let undo_key = self.journaling.then(|| copied(&key));
        let previous = changes.insert(key, change);
        self.bytes -= previous.as_ref().map_or(0, |p| key_len + p.len());
        self.count += usize::from(previous.is_none());
        if let Some(key) = undo_key {
            self.journal_bytes += key_len + previous.as_ref().map_or(0, Change::len);
            self.journal.push(Undo { tree, key, previous });
        }
    }

    /// The place to go back to with [`Overlay::undo_to`].
    pub(crate) fn mark(&mut self) -> OverlayMark {
        if self.is_empty() {
            return OverlayMark(None);
        }
        self.journaling = true;
        OverlayMark(Some(self.journal.len()))
    }

    /// Takes back every change since `mark`, and calls `each` after each.
    pub(crate) fn undo_to(&mut self, mark: OverlayMark, mut each: impl FnMut()) {
        let Some(len) = mark.0 else {
            let journaling = self.journaling;
            self.free(each);
            self.journaling = journaling;
            return;
        };
        while self.journal.len() > len {
            each();
            let undo = self.journal.pop().expect("longer than the mark");
            self.journal_bytes -= undo.key.len() + undo.previous.as_ref().map_or(0, Change::len);
            let Some(changes) = self.changes.trees.get_mut(&undo.tree) else { continue };
            let changes = Arc::make_mut(changes);
            let gone = match undo.previous {
                Some(previous) => {
                    self.bytes += undo.key.len() + previous.len();
                    let len = undo.key.len();
                    changes.insert(undo.key, previous).map(|change| len + change.len())
                }
                None => {
                    self.count -= 1;
                    changes.remove(&undo.key).map(|change| undo.key.len() + change.len())
                }
            };
            self.bytes -= gone.unwrap_or(0);
            if changes.is_empty() {
                self.changes.trees.remove(&undo.tree);
            }
        }
    }
}

impl Change {
    pub(crate) fn len(&self) -> usize {
        match self {
            Change::Put(value) => value.len(),
            Change::Delete => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: TreeId = TreeId(20);

    fn key(n: u8) -> Key {
        Key::from_slice(&[n])
    }

    fn value(overlay: &Overlay, n: u8) -> Option<u8> {
        match overlay.changes().get(TREE, &[n])? {
            Change::Put(value) => Some(value[0]),
            Change::Delete => Some(0),
        }
    }

    #[test]
    fn going_back_to_a_mark_restores_exactly_what_was_there() {
        let mut overlay = Overlay::default();
        let start = overlay.mark();
        overlay.put(TREE, key(1), [10].into());
        let first = overlay.mark();
        overlay.put(TREE, key(1), [11].into());
        overlay.delete(TREE, key(2));
        let second = overlay.mark();
        overlay.delete(TREE, key(1));
        overlay.undo_to(second, || {});
        assert_eq!((value(&overlay, 1), value(&overlay, 2)), (Some(11), Some(0)));
        overlay.undo_to(first, || {});
        assert_eq!((value(&overlay, 1), value(&overlay, 2)), (Some(10), None));
        assert_eq!(overlay.bytes(), 2);
        overlay.undo_to(start, || {});
        assert!(overlay.is_empty());
    }

    #[test]
    fn the_first_statement_is_taken_back_without_a_journal() {
        let mut overlay = Overlay::default();
        let start = overlay.mark();
        overlay.put(TREE, key(1), [10].into());
        overlay.undo_to(start, || {});
        assert!(overlay.is_empty());
        assert_eq!(overlay.bytes(), 0);
    }

    #[test]
    fn clones_do_not_see_later_changes() {
        let mut overlay = Overlay::default();
        overlay.put(TREE, key(1), [10].into());
        let frozen = overlay.changes().clone();
        overlay.put(TREE, key(1), [11].into());
        assert_eq!(frozen.get(TREE, &[1]), Some(&Change::Put([10].into())));
        assert_eq!(value(&overlay, 1), Some(11));
    }
}
