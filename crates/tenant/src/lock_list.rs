//! Locks of a transaction in the order in which it got them, and what their keys take; and those on tables, by the table.

use base::Oid;
use smallvec::SmallVec;

use crate::locks::LockTag;
use crate::row::keys::heap_len;

/// Locks, each with `M`: the mode it was asked for in, or the modes that were gained.
#[derive(Debug)]
pub(crate) struct LockList<M> {
    locks: Vec<(LockTag, M)>,
    keys_len: usize,
}

impl<M> Default for LockList<M> {
    fn default() -> LockList<M> {
        LockList { locks: Vec::new(), keys_len: 0 }
    }
}

impl<M> LockList<M> {
    pub(crate) fn push(&mut self, lock: (LockTag, M)) {
        self.keys_len += key_len(&lock.0);
        self.locks.push(lock);
    }

    /// Takes out the locks from the `at`th on.
    pub(crate) fn split_off(&mut self, at: usize) -> Vec<(LockTag, M)> {
        // To split off all of them would make room for as many again, at each transaction's end.
        let locks = if at == 0 { std::mem::take(&mut self.locks) } else { self.locks.split_off(at) };
        self.keys_len -= locks.iter().map(|(tag, _)| key_len(tag)).sum::<usize>();
        locks
    }

    /// Takes out these locks, which have no keys.
    pub(crate) fn forget(&mut self, tags: &[LockTag]) {
        self.locks.retain(|(own, _)| !tags.contains(own));
    }

    pub(crate) fn len(&self) -> usize {
        self.locks.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.locks.is_empty()
    }

    /// Bytes of its keys that are too long to be within their tags.
    pub(crate) fn keys_len(&self) -> usize {
        self.keys_len
    }
}

fn key_len(tag: &LockTag) -> usize {
    match tag {
        LockTag::Row(_, key) => heap_len(key),
        _ => 0,
    }
}

/// Modes that a transaction holds on tables, a bit each: what its locks say too, found without hashing. A dump that is loaded in one transaction locks
/// all of its tables.
#[derive(Debug, Default)]
pub(crate) struct TableModes {
    /// By table.
    modes: SmallVec<[(Oid, u8); 6]>,
}

impl TableModes {
    fn place(&self, table: Oid) -> Result<usize, usize> {
        self.modes.binary_search_by_key(&table, |(held, _)| *held)
    }

    /// Those that it holds on this table.
    #[inline]
    pub(crate) fn of(&self, table: Oid) -> u8 {
        self.place(table).map_or(0, |at| self.modes[at].1)
    }

    pub(crate) fn add(&mut self, table: Oid, modes: u8) {
        match self.place(table) {
            Ok(at) => self.modes[at].1 |= modes,
            Err(at) => self.modes.insert(at, (table, modes)),
        }
    }

    pub(crate) fn clear(&mut self) {
        self.modes.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As many as there may be rows whose references are checked in such a transaction, each of which asks twice.
    #[test]
    fn the_modes_of_a_table_are_found_among_those_of_very_many() {
        const COUNT: u32 = 20_000;
        let mut modes = TableModes::default();
        for table in (0..COUNT).rev() {
            modes.add(Oid(table), 1);
            modes.add(Oid(table), 1 << (table % 4));
        }
        assert_eq!(modes.modes.len(), COUNT as usize);
        for _ in 0..10 {
            assert!((0..COUNT).all(|table| modes.of(Oid(table)) == 1 | (1 << (table % 4))));
        }
        assert_eq!(modes.of(Oid(COUNT)), 0);
        modes.clear();
        assert_eq!(modes.of(Oid(0)), 0);
    }
}
