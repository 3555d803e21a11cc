//! A binary heap of accounts that can also be found in it.

/// Not in the heap.
const ABSENT: u32 = u32::MAX;

/// What an account is ordered by: the smallest first, equals first come, first served.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Key {
    pub(super) value: u128,
    pub(super) turn: u64,
}

#[derive(Clone, Copy)]
struct Entry {
    key: Key,
    account: u32,
}

/// Accounts by their number; each at most once. Allocates in [`Heap::reserve`] alone.
#[derive(Default)]
pub(super) struct Heap {
    entries: Vec<Entry>,
    /// Where each account stands, by its number.
    positions: Vec<u32>,
    /// Entries that were looked at to find a place for one.
    #[cfg(test)]
    pub(super) looks: u64,
}

impl Heap {
    /// Makes room for accounts up to number `count - 1`.
    pub(super) fn reserve(&mut self, count: usize) {
        if count > self.positions.len() {
            self.positions.resize(count, ABSENT);
        }
        // Not the exact number: accounts come one by one.
        self.entries.reserve(count.saturating_sub(self.entries.len()));
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.entries.capacity()
    }

    pub(super) fn contains(&self, account: u32) -> bool {
        self.positions[account as usize] != ABSENT
    }

    /// The first account and its key.
    pub(super) fn top(&self) -> Option<(Key, u32)> {
        self.entries.first().map(|entry| (entry.key, entry.account))
    }

    pub(super) fn accounts(&self) -> impl Iterator<Item = u32> {
        self.entries.iter().map(|entry| entry.account)
    }

    /// Puts an account in, or to its new place.
    pub(super) fn put(&mut self, account: u32, key: Key) {
        let position = match self.positions[account as usize] {
            ABSENT => {
                debug_assert!(self.entries.len() < self.entries.capacity(), "room is reserved for all");
                self.entries.push(Entry { key, account });
                self.positions[account as usize] = (self.entries.len() - 1) as u32;
                self.entries.len() - 1
            }
            position => {
                self.entries[position as usize].key = key;
                position as usize
            }
        };
        self.settle(position);
    }

    /// Takes an account out; whether it was in.
    pub(super) fn remove(&mut self, account: u32) -> bool {
        let position = self.positions[account as usize];
        if position == ABSENT {
            return false;
        }
        self.entries.swap_remove(position as usize);
        self.positions[account as usize] = ABSENT;
        if let Some(moved) = self.entries.get(position as usize) {
            self.positions[moved.account as usize] = position;
            self.settle(position as usize);
        }
        true
    }

    /// Gives every account the key `key_of` says.
    pub(super) fn rekey(&mut self, mut key_of: impl FnMut(u32, Key) -> Key) {
        for entry in &mut self.entries {
            entry.key = key_of(entry.account, entry.key);
        }
        for position in (0..self.entries.len() / 2).rev() {
            self.sift_down(position);
        }
    }

    /// Brings one entry whose key is new to its place.
    fn settle(&mut self, position: usize) {
        let entry = self.entries[position];
        if position > 0 && entry.key < self.entries[(position - 1) / 2].key {
            self.sift_up(position);
        } else {
            self.sift_down(position);
        }
    }

    /// An entry is looked at. For tests, which count that.
    fn look(&mut self) {
        #[cfg(test)]
        {
            self.looks += 1;
        }
    }

    fn place(&mut self, position: usize, entry: Entry) {
        self.entries[position] = entry;
        self.positions[entry.account as usize] = position as u32;
    }

    fn sift_up(&mut self, mut position: usize) {
        let entry = self.entries[position];
        while position > 0 {
            self.look();
            let parent = (position - 1) / 2;
            if self.entries[parent].key <= entry.key {
                break;
            }
            self.place(position, self.entries[parent]);
            position = parent;
        }
        self.place(position, entry);
    }

    fn sift_down(&mut self, mut position: usize) {
        let entry = self.entries[position];
        loop {
            self.look();
            let left = 2 * position + 1;
            let Some(mut child) = self.entries.get(left).map(|_| left) else { break };
            if self.entries.get(left + 1).is_some_and(|right| right.key < self.entries[left].key) {
                child = left + 1;
            }
            if entry.key <= self.entries[child].key {
                break;
            }
            self.place(position, self.entries[child]);
            position = child;
        }
        self.place(position, entry);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        #[test]
        fn heap_agrees_with_a_sorted_map(steps in prop::collection::vec((0..16u32, 0..4u8, 0..50u64), 1..200)) {
            let mut heap = Heap::default();
            heap.reserve(16);
            let mut model: BTreeMap<u32, Key> = BTreeMap::new();
            for (turn, (account, kind, value)) in steps.into_iter().enumerate() {
                let key = Key { value: u128::from(value), turn: turn as u64 };
                match kind {
                    0 => prop_assert_eq!(heap.remove(account), model.remove(&account).is_some()),
                    1 => {
                        let negated = |key: Key| Key { value: 100 - key.value.min(100), ..key };
                        heap.rekey(|_, key| negated(key));
                        model.values_mut().for_each(|key| *key = negated(*key));
                    }
                    _ => {
                        heap.put(account, key);
                        model.insert(account, key);
                    }
                }
                let least = model.iter().map(|(account, key)| (*key, *account)).min();
                prop_assert_eq!(heap.top(), least);
                prop_assert_eq!(heap.len(), model.len());
                prop_assert!((0..16).all(|account| heap.contains(account) == model.contains_key(&account)));
            }
        }
    }
}
