//! A set of very many hashes that never grows all at once.
//!
//! A table of a million entries that doubles moves them all: 30 ms in which its worker serves nobody. Here the entries are spread over small
//! tables by some of their bits, and each doubles by itself.

use rustc_hash::FxHashSet;

/// Tables: one of two million entries moves 1,800 at a time, some 50 us.
const PARTS: usize = 1024;

/// Hashes, of which the low bits must be spread well.
#[derive(Debug, Default)]
pub(super) struct SpreadSet {
    /// None until the first entry, then [`PARTS`].
    parts: Vec<FxHashSet<u64>>,
}

impl SpreadSet {
    pub(super) fn insert(&mut self, hash: u64) {
        if self.parts.is_empty() {
            self.parts.resize_with(PARTS, FxHashSet::default);
        }
        self.parts[hash as usize % PARTS].insert(hash);
    }

    pub(super) fn contains(&self, hash: u64) -> bool {
        self.parts.get(hash as usize % PARTS).is_some_and(|part| part.contains(&hash))
    }
}

#[cfg(test)]
mod tests {
    use std::hash::{Hash, Hasher};

    use super::*;

    fn hash_of(number: u64) -> u64 {
        let mut hasher = rustc_hash::FxHasher::default();
        number.to_be_bytes().hash(&mut hasher);
        hasher.finish()
    }

    #[test]
    fn no_insert_moves_more_than_a_small_part() {
        let mut set = SpreadSet::default();
        let capacity = |set: &SpreadSet, part: usize| set.parts.get(part).map_or(0, FxHashSet::capacity);
        let (count, mut moved_max) = (500_000, 0);
        for number in 0..count {
            let hash = hash_of(number);
            let part = hash as usize % PARTS;
            let before = capacity(&set, part);
            set.insert(hash);
            if capacity(&set, part) != before {
                moved_max = moved_max.max(before);
            }
        }
        assert!(moved_max < 1_000, "{moved_max} entries were moved at once");
        assert!((0..count).all(|number| set.contains(hash_of(number))));
        assert!((count..2 * count).all(|number| !set.contains(hash_of(number))));
    }
}
