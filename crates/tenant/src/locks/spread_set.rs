//! A set of very many hashes that never grows all at once, nor beyond what it may take.
//!
//! A table of a million entries that doubles moves them all: 30 ms in which its worker serves nobody. Here the entries are spread over small
//! tables by some of their bits, and each doubles by itself. One that would take more than its part of the memory becomes bits: the set then
//! answers for some hashes that are not in it as if they were, never the other way round.

use rustc_hash::FxHashSet;

/// Tables: one of two million entries moves 1,800 at a time, some 50 us.
const PARTS: usize = 1024;

/// Bytes of a part that has become bits, at least.
const BITS_LEN_MIN: usize = 64;

/// Bytes for a hash in a table: itself, and what finds it.
const HASH_LEN: usize = 9;

/// Hashes, of which the low bits must be spread well.
#[derive(Debug)]
pub(super) struct SpreadSet {
    /// None until the first entry, then [`PARTS`].
    parts: Vec<Part>,
    /// Bytes that one of them may take; a power of two.
    part_len_max: usize,
    /// Bytes that all take.
    len: usize,
}

#[derive(Debug)]
enum Part {
    Hashes(FxHashSet<u64>),
    /// The bit of each hash.
    Bits(Box<[u64]>),
}

impl SpreadSet {
    /// An empty set that will take about `len_max` bytes at most.
    pub(super) fn within(len_max: usize) -> SpreadSet {
        let part_len_max = (len_max / PARTS).max(BITS_LEN_MIN);
        SpreadSet { parts: Vec::new(), part_len_max: 1 << part_len_max.ilog2(), len: 0 }
    }

    pub(super) fn insert(&mut self, hash: u64) {
        if self.parts.is_empty() {
            self.parts.resize_with(PARTS, || Part::Hashes(FxHashSet::default()));
            self.len = PARTS * size_of::<Part>();
        }
        let part = &mut self.parts[hash as usize % PARTS];
        let before = part.len();
        part.insert(hash, self.part_len_max);
        self.len += part.len() - before;
    }

    pub(super) fn contains(&self, hash: u64) -> bool {
        self.parts.get(hash as usize % PARTS).is_some_and(|part| part.contains(hash))
    }

    /// Bytes that it takes.
    pub(super) fn len(&self) -> usize {
        self.len
    }
}

impl Part {
    fn insert(&mut self, hash: u64, len_max: usize) {
        if let Part::Hashes(hashes) = self {
            // A full table grows for what it has, too.
            if hashes.contains(&hash) {
                return;
            }
            if hashes.len() < hashes.capacity() || 2 * table_len(hashes.capacity()) <= len_max {
                hashes.insert(hash);
                return;
            }
            let mut bits = vec![0; len_max / size_of::<u64>()].into_boxed_slice();
            hashes.iter().for_each(|hash| set(&mut bits, *hash));
            *self = Part::Bits(bits);
        }
        if let Part::Bits(bits) = self {
            set(bits, hash);
        }
    }

    fn contains(&self, hash: u64) -> bool {
        match self {
            Part::Hashes(hashes) => hashes.contains(&hash),
            Part::Bits(bits) => {
                let (word, bit) = place(bits, hash);
                bits[word] & bit != 0
            }
        }
    }

    fn len(&self) -> usize {
        match self {
            Part::Hashes(hashes) => table_len(hashes.capacity()),
            Part::Bits(bits) => size_of_val(&bits[..]),
        }
    }
}

/// Bytes of a table with room for so many hashes, of which it leaves an eighth of its places empty.
fn table_len(capacity: usize) -> usize {
    if capacity == 0 { 0 } else { (capacity * 8 / 7).next_power_of_two() * HASH_LEN }
}

fn set(bits: &mut [u64], hash: u64) {
    let (word, bit) = place(bits, hash);
    bits[word] |= bit;
}

/// The word of a hash's bit, and the bit in it.
fn place(bits: &[u64], hash: u64) -> (usize, u64) {
    // Hashes of a part have their low bits in common: all others have a say.
    let mixed = (hash >> PARTS.ilog2()).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 32)) as usize;
    (mixed / 64 % bits.len(), 1 << (mixed % 64))
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
        let mut set = SpreadSet::within(usize::MAX);
        let capacity = |set: &SpreadSet, part: usize| match set.parts.get(part) {
            Some(Part::Hashes(hashes)) => hashes.capacity(),
            _ => 0,
        };
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
        let count = count as usize;
        assert!((count * HASH_LEN..3 * count * HASH_LEN).contains(&set.len()), "{}", set.len());
    }

    #[test]
    fn what_is_there_already_takes_no_room() {
        let mut set = SpreadSet::within(128 * PARTS);
        for number in 0..10_000 {
            set.insert(hash_of(number));
            let len = set.len();
            (0..3).for_each(|_| set.insert(hash_of(number)));
            assert_eq!(set.len(), len);
        }
    }

    #[test]
    fn beyond_its_memory_it_has_hashes_too_many_and_none_too_few() {
        const LEN_MAX: usize = 1 << 20;
        let mut set = SpreadSet::within(LEN_MAX);
        let others = |set: &SpreadSet| (1..=100_000).filter(|n| set.contains(hash_of(n << 40))).count();
        for number in 0..1_000_000 {
            set.insert(hash_of(number));
            match number {
                30_000 => assert_eq!(others(&set), 0, "so many have room"),
                400_000 => assert!(others(&set) < 8_000, "{} of 100,000", others(&set)),
                _ => {}
            }
        }
        assert!(set.len() <= LEN_MAX + PARTS * size_of::<Part>(), "{}", set.len());
        assert!((0..1_000_000).all(|number| set.contains(hash_of(number))));
        assert!(others(&set) < 20_000, "{} of 100,000", others(&set));
    }
}
