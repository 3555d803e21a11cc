//! Walking a tree in key order, forward and backward.
//!
//! A cursor stands between two entries and remembers that place by key, so it holds no borrow between calls and
//! survives any change of the tree: what is inserted ahead of it will be seen, what is removed will not. The leaf and
//! slot it remembers beside are only a speed-up, looked at before use: if the slot still holds the cursor's key, then
//! the entries next to it are the tree's next ones.

use std::ops::Bound;

use base::PageNo;
use storage::{PageFault, ReadPages};

use crate::leaf_run::LeafRun;
use crate::node::Node;
use crate::path::{self, Direction, Path};
use crate::{TreeRoot, Value};

/// A place between entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seek<'k> {
    /// Before the first entry.
    Start,
    /// Before the first entry whose key is not below this.
    Before(&'k [u8]),
    /// Behind the last entry whose key is not above this.
    After(&'k [u8]),
    /// Behind the last entry.
    End,
}

/// An entry as a cursor shows it: the key until the cursor moves, the value as long as its page. A long value is only
/// named; when reading it misses a page, the cursor has moved already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry<'c, 'p> {
    pub key: &'c [u8],
    pub value: Value<'p>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Start,
    Before,
    After,
    End,
}

/// A place in a tree that moves. Every call is given the pages, which must be those of the same tree, live or of a
/// snapshot; on `Err` the cursor has not moved, so the call can be repeated once the page is there.
#[derive(Clone, Debug)]
pub struct Cursor {
    root: TreeRoot,
    place: Place,
    /// The key that `Place::Before` and `Place::After` mean.
    key: Vec<u8>,
    /// Where an entry with exactly `key` was last seen.
    hint: Option<(PageNo, usize)>,
}

impl Cursor {
    /// A cursor at the place `at`. Touches no page.
    #[inline]
    pub fn new(root: TreeRoot, at: Seek<'_>) -> Cursor {
        let mut cursor = Cursor { root, place: Place::Start, key: Vec::new(), hint: None };
        cursor.seek(at);
        cursor
    }

    /// Moves to the place `at`. Touches no page.
    #[inline]
    pub fn seek(&mut self, at: Seek<'_>) {
        self.hint = None;
        self.key.clear();
        self.place = match at {
            Seek::Start => Place::Start,
            Seek::End => Place::End,
            Seek::Before(key) => {
                self.key.extend_from_slice(key);
                Place::Before
            }
            Seek::After(key) => {
                self.key.extend_from_slice(key);
                Place::After
            }
        };
    }

    /// The place, to seek another cursor to it.
    #[inline]
    pub fn position(&self) -> Seek<'_> {
        match self.place {
            Place::Start => Seek::Start,
            Place::Before => Seek::Before(&self.key),
            Place::After => Seek::After(&self.key),
            Place::End => Seek::End,
        }
    }

    /// The tree's root may have appeared since the cursor was made: tells the cursor of it. Keeps the place.
    #[inline]
    pub fn set_root(&mut self, root: TreeRoot) {
        self.root = root;
    }

    /// The entry behind the cursor, which moves behind it; `None` at the end.
    #[inline]
    pub fn next<'c, 'p, P: ReadPages>(
        &'c mut self,
        pages: &'p P,
    ) -> Result<Option<Entry<'c, 'p>>, PageFault> {
        if let Some((leaf, slot)) = self.hinted(pages) {
            let slot = if self.place == Place::After { slot + 1 } else { slot };
            if slot < leaf.count() {
                self.hint = self.hint.map(|(no, _)| (no, slot));
                return Ok(Some(self.arrive(leaf, slot, Place::After)));
            }
        }
        let Some((path, leaf, slot)) = self.locate(pages, Direction::Forward)? else { return Ok(None) };
        self.hint = Some((path.leaf, slot));
        Ok(Some(self.arrive(leaf, slot, Place::After)))
    }

    /// The entry before the cursor, which moves before it; `None` at the start.
    #[inline]
    pub fn prev<'c, 'p, P: ReadPages>(
        &'c mut self,
        pages: &'p P,
    ) -> Result<Option<Entry<'c, 'p>>, PageFault> {
        if let Some((leaf, slot)) = self.hinted(pages) {
            let end = if self.place == Place::After { slot + 1 } else { slot };
            if end > 0 {
                self.hint = self.hint.map(|(no, _)| (no, end - 1));
                return Ok(Some(self.arrive(leaf, end - 1, Place::Before)));
            }
        }
        let Some((path, leaf, slot)) = self.locate(pages, Direction::Backward)? else { return Ok(None) };
        self.hint = Some((path.leaf, slot));
        Ok(Some(self.arrive(leaf, slot, Place::Before)))
    }

    /// All entries from the cursor to the end of the leaf it is in (of the next one that has any) whose keys lie
    /// within `end`; the cursor moves behind them. `None` when there are none left. The cheapest way through many
    /// entries: one look at the tree a leaf.
    #[inline]
    pub fn next_leaf<'p, P: ReadPages>(
        &mut self,
        pages: &'p P,
        end: Bound<&[u8]>,
    ) -> Result<Option<LeafRun<'p>>, PageFault> {
        let Some((path, leaf, slot)) = self.locate(pages, Direction::Forward)? else { return Ok(None) };
        let stop = match end {
            Bound::Unbounded => leaf.count(),
            Bound::Included(key) => leaf.search(key).map_or_else(|slot| slot, |slot| slot + 1),
            Bound::Excluded(key) => leaf.search(key).unwrap_or_else(|slot| slot),
        };
        if stop <= slot {
            return Ok(None);
        }
        leaf.key_into(stop - 1, &mut self.key);
        self.place = Place::After;
        self.hint = Some((path.leaf, stop - 1));
        Ok(Some(LeafRun::new(leaf, slot, stop)))
    }

    #[inline]
    fn arrive<'c, 'p>(&'c mut self, leaf: Node<'p>, slot: usize, place: Place) -> Entry<'c, 'p> {
        leaf.key_into(slot, &mut self.key);
        self.place = place;
        Entry { key: &self.key, value: leaf.value(slot) }
    }

    /// The remembered leaf and slot, if that is still a leaf of this tree with the cursor's key there.
    #[inline]
    fn hinted<'p, P: ReadPages>(&self, pages: &'p P) -> Option<(Node<'p>, usize)> {
        let (no, slot) = self.hint?;
        let leaf = Node::open(pages.page(no).ok()?, no, self.root.0?).ok()?;
        (leaf.is_leaf() && slot < leaf.count() && leaf.key_is(slot, &self.key)).then_some((leaf, slot))
    }

    /// Finds the neighbouring entry from the root down.
    #[inline]
    fn locate<'p, P: ReadPages>(
        &self,
        pages: &'p P,
        direction: Direction,
    ) -> Result<Option<(Path, Node<'p>, usize)>, PageFault> {
        let Some(root) = self.root.0 else { return Ok(None) };
        let key = &self.key;
        let (mut path, mut leaf) = path::descend_scan(pages, root, direction, |node| match self.place {
            Place::Start => 0,
            Place::End => node.count(),
            Place::Before | Place::After => node.child_index(key),
        })?;
        // The cursor stands before slot `at`.
        let mut at = match self.place {
            Place::Start => 0,
            Place::End => leaf.count(),
            Place::Before => leaf.search(key).unwrap_or_else(|slot| slot),
            Place::After => leaf.search(key).map_or_else(|slot| slot, |slot| slot + 1),
        };
        loop {
            match direction {
                Direction::Forward if at < leaf.count() => return Ok(Some((path, leaf, at))),
                Direction::Backward if at > 0 => return Ok(Some((path, leaf, at - 1))),
                _ => {}
            }
            let Some(next) = path::step(pages, root, &mut path, direction)? else { return Ok(None) };
            leaf = next;
            at = if direction == Direction::Forward { 0 } else { leaf.count() };
        }
    }
}
