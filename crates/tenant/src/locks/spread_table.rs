//! The locks by their names, in a table that never grows all at once.
//!
//! As with a [`super::spread_set`]: a table of a million entries that doubles moves them all, 100 MB in one turn of the worker. Beyond some thousands
//! they are spread over small tables by their hashes, and each of these grows by itself.

use std::collections::hash_map;
use std::ops::Index;

use rustc_hash::FxHashMap;

use super::LockTag;
use super::table::{Entry, hash_of};

/// Entries that are in one table: to spread them takes 200 us.
const TOGETHER_MAX: usize = 1 << 12;

/// Tables for more of them: one of four million entries moves 3,600 at a time.
const PARTS: usize = 1024;

/// Entries for which room is kept: some 100 bytes each.
pub(super) const ROOM_KEPT: usize = 1 << 12;

/// Locks, each with who holds and who wants it.
#[derive(Debug, Default)]
pub(super) struct SpreadTable {
    /// None until the first entry, then one or [`PARTS`].
    parts: Vec<FxHashMap<LockTag, Entry>>,
    len: usize,
}

impl SpreadTable {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    fn place(&self, tag: &LockTag) -> usize {
        if self.parts.len() <= 1 {
            return 0;
        }
        // Entries of a part must not have the low bits of their hashes in common, by which it finds them.
        let mixed = hash_of(tag).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> (u64::BITS - PARTS.ilog2())) as usize
    }

    #[inline]
    pub(super) fn get(&self, tag: &LockTag) -> Option<&Entry> {
        self.parts.get(self.place(tag))?.get(tag)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, tag: &LockTag) -> Option<&mut Entry> {
        let place = self.place(tag);
        self.parts.get_mut(place)?.get_mut(tag)
    }

    pub(super) fn get_key_value(&self, tag: &LockTag) -> Option<(&LockTag, &Entry)> {
        self.parts.get(self.place(tag))?.get_key_value(tag)
    }

    pub(super) fn contains_key(&self, tag: &LockTag) -> bool {
        self.get(tag).is_some()
    }

    /// All of them, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&LockTag, &Entry)> {
        self.parts.iter().flatten()
    }

    /// The entry of a lock; or `None`, and it has this one now. To look for it and then put it in would hash its name twice.
    pub(super) fn get_or_insert(
        &mut self,
        tag: &LockTag,
        first: impl FnOnce() -> Entry,
    ) -> Option<&mut Entry> {
        self.make_room();
        let place = self.place(tag);
        match self.parts[place].entry(tag.clone()) {
            hash_map::Entry::Occupied(entry) => Some(entry.into_mut()),
            hash_map::Entry::Vacant(vacant) => {
                vacant.insert(first());
                self.len += 1;
                None
            }
        }
    }

    /// Sees to it that there is a table for one more.
    fn make_room(&mut self) {
        match self.parts.len() {
            0 => self.parts.push(FxHashMap::default()),
            1 if self.len == TOGETHER_MAX => self.spread(),
            _ => {}
        }
    }

    /// Puts in an entry that is not there.
    pub(super) fn insert(&mut self, tag: LockTag, entry: Entry) {
        self.make_room();
        let place = self.place(&tag);
        let before = self.parts[place].insert(tag, entry);
        assert!(before.is_none(), "the lock has an entry already");
        self.len += 1;
    }

    /// Takes an entry out, if it is there.
    pub(super) fn remove(&mut self, tag: &LockTag) {
        self.remove_if(tag, |_| true);
    }

    /// Takes an entry out if `is_over` says so once it has changed it; whether it did, or `None` where there is none. Keeps no room for what a large
    /// transaction had: nobody pays for it any more.
    pub(super) fn remove_if(
        &mut self,
        tag: &LockTag,
        is_over: impl FnOnce(&mut Entry) -> bool,
    ) -> Option<bool> {
        let place = self.place(tag);
        let part = self.parts.get_mut(place)?;
        let hash_map::Entry::Occupied(mut entry) = part.entry(tag.clone()) else { return None };
        if !is_over(entry.get_mut()) {
            return Some(false);
        }
        entry.remove();
        self.len -= 1;
        let parts = self.parts.len();
        if parts > 1 && self.len < TOGETHER_MAX / 16 {
            self.gather();
            return Some(true);
        }
        let part = &mut self.parts[place];
        if part.capacity() > ROOM_KEPT / parts && part.len() < part.capacity() / 16 {
            part.shrink_to(2 * part.len());
        }
        Some(true)
    }

    #[cold]
    fn spread(&mut self) {
        let together = std::mem::take(&mut self.parts);
        self.parts.resize_with(PARTS, FxHashMap::default);
        for (tag, entry) in together.into_iter().flatten() {
            let place = self.place(&tag);
            self.parts[place].insert(tag, entry);
        }
    }

    #[cold]
    fn gather(&mut self) {
        let parts = std::mem::take(&mut self.parts);
        self.parts.push(parts.into_iter().flatten().collect());
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Entries for which there is room.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.parts.iter().map(|part| part.capacity()).sum()
    }
}

/// Of a lock that has an entry.
impl Index<&LockTag> for SpreadTable {
    type Output = Entry;

    fn index(&self, tag: &LockTag) -> &Entry {
        self.get(tag).expect("who holds or awaits a lock is in its entry")
    }
}

#[cfg(test)]
mod tests {
    use base::TreeId;

    use super::*;
    use crate::row::keys::Key;

    fn row(number: u32) -> LockTag {
        LockTag::Row(TreeId(20), Key::from_slice(&number.to_be_bytes()))
    }

    #[test]
    fn no_insert_moves_more_than_a_small_part() {
        const COUNT: u32 = 300_000;
        let mut table = SpreadTable::default();
        let room = |table: &SpreadTable, tag: &LockTag| {
            table.parts.get(table.place(tag)).map_or(0, |part| part.capacity())
        };
        let mut moved_max = 0;
        for number in 0..COUNT {
            let tag = row(number);
            let (parts, before) = (table.parts.len(), room(&table, &tag));
            table.insert(tag.clone(), Entry::default());
            if table.parts.len() == parts && room(&table, &tag) != before {
                moved_max = moved_max.max(before);
            }
        }
        assert!(moved_max <= TOGETHER_MAX, "{moved_max} entries were moved at once");
        let fullest = table.parts.iter().map(|part| part.len()).max();
        assert!(fullest.is_some_and(|len| len < 3 * COUNT as usize / PARTS), "{fullest:?} in one part");
        assert!((0..COUNT).all(|number| table.contains_key(&row(number))));
        assert!(!table.contains_key(&row(COUNT)) && table.iter().count() == table.len());
        (0..COUNT).for_each(|number| table.remove(&row(number)));
        table.remove(&row(0));
        assert!(table.is_empty() && table.iter().next().is_none());
        assert!(table.capacity() <= ROOM_KEPT, "{}", table.capacity());
        table.insert(row(7), Entry::default());
        assert!(table.contains_key(&row(7)) && !table.contains_key(&row(8)));
    }
}
