//! The layout of one tree node in a page, and reading it.
//!
//! A node is a header, the prefix that all keys of the node share, an array of slots that grows upwards, free bytes,
//! and a heap that grows downwards from the page's end. The prefix is beside the header so that a search finds it in
//! the same cache line. A slot holds the first four bytes of its key behind the
//! prefix (the *head*), so a binary search seldom leaves the slot array; the heap holds the rest of the key and, in
//! a leaf, the value.
//!
//! | offset | bytes | header field |
//! | --- | --- | --- |
//! | 0 | 1 | kind: 1 leaf, 2 inner, 3 overflow |
//! | 1 | 1 | level: 0 for a leaf, its children's level plus one for an inner node |
//! | 2 | 2 | number of slots |
//! | 4 | 2 | offset of the lowest heap byte |
//! | 6 | 2 | heap bytes that no slot refers to any more |
//! | 8 | 2 | length of the prefix |
//! | 10 | 2 | slot of the latest insert |
//! | 12 | 4 | page number of the tree's root, the tree's identity |
//! | 16 | 4 | inner: the child left of the first slot |
//! | 20 | 1 | inserts in a row that each came right behind the one before |
//! | 21 | 11 | zero |
//!
//! | offset | bytes | slot field |
//! | --- | --- | --- |
//! | 0 | 4 | head, big-endian, padded with zeros |
//! | 4 | 4 | inner: child with the keys from this one on; leaf: bytes of the stored value, top bit set if it is a chain |
//! | 8 | 2 | offset of the heap bytes |
//! | 10 | 2 | length of the key behind the prefix |
//!
//! Numbers are little-endian unless said otherwise. Key order is byte order; heads compare as numbers, and keys with
//! equal heads compare by (rest, length), which is the same order.

use std::cmp::Ordering;
use std::hint::select_unpredictable;

use base::limits::PAGE_SIZE;
use base::{PageNo, prefetch};
use storage::{PageBytes, PageFault};

use crate::value::Value;

pub(crate) const HEADER_LEN: usize = 32;
pub(crate) const SLOT_LEN: usize = 12;
pub(crate) const HEAD_LEN: usize = 4;
/// Bytes of a page that slots, heap and prefix share.
pub(crate) const CAPACITY: usize = PAGE_SIZE - HEADER_LEN;
/// Marks a slot's value as the descriptor of an overflow chain.
pub(crate) const CHAIN_BIT: u32 = 1 << 31;

/// Slots of a leaf that were asked for from memory with the header: those of a full one of rows of 300 bytes.
pub(crate) const PREFETCHED_SLOTS: usize = 27;
/// Where a search has come down to so many slots it asks for all of their lines at once, 18 at most, instead of coming by some four one after the other.
const TOGETHER_SLOTS: usize = 96;
/// Slots with one head that are gone past at first.
const TIES_MIN: usize = 8;

pub(crate) const LEAF: u8 = 1;
pub(crate) const INNER: u8 = 2;
pub(crate) const OVERFLOW: u8 = 3;

#[inline]
pub(crate) fn get_u16(page: &PageBytes, at: usize) -> usize {
    usize::from(u16::from_le_bytes([page[at], page[at + 1]]))
}

#[inline]
pub(crate) fn get_u32(page: &PageBytes, at: usize) -> u32 {
    u32::from_le_bytes(page[at..at + 4].try_into().expect("four bytes"))
}

/// The first four bytes of a key behind the prefix, as a number that compares like them.
#[inline]
pub(crate) fn head_of(suffix: &[u8]) -> u32 {
    match suffix.first_chunk::<HEAD_LEN>() {
        Some(head) => u32::from_be_bytes(*head),
        None => {
            let mut head = [0; HEAD_LEN];
            head[..suffix.len()].copy_from_slice(suffix);
            u32::from_be_bytes(head)
        }
    }
}

/// What of a key behind the prefix is kept in the heap.
#[inline]
pub(crate) fn rest_of(suffix: &[u8]) -> &[u8] {
    suffix.get(HEAD_LEN..).unwrap_or(&[])
}

/// Bytes of a key of `suffix_len` behind the prefix that are kept in the heap.
#[inline]
pub(crate) fn rest_len(suffix_len: usize) -> usize {
    suffix_len.saturating_sub(HEAD_LEN)
}

/// Whether `key` starts with `prefix`. Prefixes are a few bytes, for which a call to the library's comparison would be the
/// greater part of the work.
#[inline]
pub(crate) fn starts_with(key: &[u8], prefix: &[u8]) -> bool {
    let len = prefix.len();
    if key.len() < len {
        return false;
    }
    let word =
        |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let half =
        |bytes: &[u8], at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    match len {
        // Two words that may overlap cover all of it.
        8..=16 => word(key, 0) == word(prefix, 0) && word(key, len - 8) == word(prefix, len - 8),
        4..8 => half(key, 0) == half(prefix, 0) && half(key, len - 4) == half(prefix, len - 4),
        0..4 => (0..len).all(|i| key[i] == prefix[i]),
        _ => key[..len] == *prefix,
    }
}

/// How two byte strings compare. Rests of keys are a few bytes, for which a call to the library's comparison would be the greater part of the work.
#[inline]
fn compare_short(a: &[u8], b: &[u8]) -> Ordering {
    match (word_of(a), word_of(b)) {
        // Zeros behind the shorter one: if the words are the same it is the beginning of the other.
        (Some(x), Some(y)) => x.cmp(&y).then(a.len().cmp(&b.len())),
        _ => a.cmp(b),
    }
}

/// Up to eight bytes as a number that compares like them, padded with zeros; `None` for more.
#[inline]
fn word_of(bytes: &[u8]) -> Option<u64> {
    let len = bytes.len();
    let byte = |i: usize| u64::from(bytes[i]) << (56 - 8 * i);
    let half = |at: usize| u64::from(u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes")));
    match len {
        0 => Some(0),
        1..4 => Some(byte(0) | byte(len / 2) | byte(len - 1)),
        // Two halves that may overlap cover all of it.
        4..=8 => Some((half(0) << 32) | (half(len - 4) << (8 * (8 - len)))),
        _ => None,
    }
}

/// Length of the longest common prefix.
#[inline]
pub(crate) fn common_len(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(x, y)| x == y).count()
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    pub(crate) head: u32,
    /// Child of an inner node; stored length and `CHAIN_BIT` in a leaf.
    pub(crate) aux: u32,
    pub(crate) offset: usize,
    /// Length of the key behind the prefix.
    pub(crate) suffix_len: usize,
}

impl Slot {
    /// Bytes of the value as stored in a leaf's heap.
    #[inline]
    pub(crate) fn stored_len(self) -> usize {
        (self.aux & !CHAIN_BIT) as usize
    }
}

/// Reads one node.
#[derive(Clone, Copy)]
pub(crate) struct Node<'p>(pub(crate) &'p PageBytes);

impl<'p> Node<'p> {
    /// The node in `page`, after a look that it is one of the tree rooted at `tree`.
    #[inline]
    pub(crate) fn open(page: &'p PageBytes, no: PageNo, tree: PageNo) -> Result<Node<'p>, PageFault> {
        let node = Node(page);
        if (page[0] != LEAF && page[0] != INNER) || node.tree() != tree {
            return Err(PageFault::corrupt(
                no,
                "not a node of this tree",
                u64::from(page[0]),
                u64::from(LEAF),
            ));
        }
        Ok(node)
    }

    #[inline]
    pub(crate) fn is_leaf(self) -> bool {
        self.0[0] == LEAF
    }
    #[inline]
    pub(crate) fn level(self) -> u8 {
        self.0[1]
    }
    #[inline]
    pub(crate) fn count(self) -> usize {
        get_u16(self.0, 2)
    }
    #[inline]
    pub(crate) fn heap_start(self) -> usize {
        get_u16(self.0, 4)
    }
    #[inline]
    pub(crate) fn heap_dead(self) -> usize {
        get_u16(self.0, 6)
    }
    #[inline]
    pub(crate) fn prefix_len(self) -> usize {
        get_u16(self.0, 8)
    }
    #[inline]
    pub(crate) fn last_insert(self) -> usize {
        get_u16(self.0, 10)
    }
    #[inline]
    pub(crate) fn tree(self) -> PageNo {
        PageNo(get_u32(self.0, 12))
    }
    #[inline]
    pub(crate) fn leftmost(self) -> PageNo {
        PageNo(get_u32(self.0, 16))
    }
    #[inline]
    pub(crate) fn ascending_run(self) -> u8 {
        self.0[20]
    }
    #[inline]
    pub(crate) fn prefix(self) -> &'p [u8] {
        &self.0[HEADER_LEN..HEADER_LEN + self.prefix_len()]
    }
    /// Offset of slot `i`.
    #[inline]
    pub(crate) fn slot_at(self, i: usize) -> usize {
        HEADER_LEN + self.prefix_len() + SLOT_LEN * i
    }

    /// Bytes between the slots and the heap.
    #[inline]
    pub(crate) fn gap(self) -> usize {
        self.heap_start() - self.slot_at(self.count())
    }

    /// Bytes a rebuild with the same prefix would leave free.
    #[inline]
    pub(crate) fn free(self) -> usize {
        self.gap() + self.heap_dead()
    }

    #[inline]
    fn head(self, i: usize) -> u32 {
        get_u32(self.0, self.slot_at(i))
    }

    #[inline]
    pub(crate) fn slot(self, i: usize) -> Slot {
        debug_assert!(i < self.count());
        let at = self.slot_at(i);
        let bytes: &[u8; SLOT_LEN] = self.0[at..at + SLOT_LEN].try_into().expect("a slot's length");
        Slot {
            head: u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]),
            aux: u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
            offset: usize::from(u16::from_le_bytes([bytes[8], bytes[9]])),
            suffix_len: usize::from(u16::from_le_bytes([bytes[10], bytes[11]])),
        }
    }

    /// The heap's part of key `i`.
    #[inline]
    pub(crate) fn rest(self, slot: Slot) -> &'p [u8] {
        &self.0[slot.offset..slot.offset + rest_len(slot.suffix_len)]
    }

    /// The value of slot `i` of a leaf as it is stored: itself, or a chain's descriptor.
    #[inline]
    pub(crate) fn stored(self, slot: Slot) -> &'p [u8] {
        let start = slot.offset + rest_len(slot.suffix_len);
        &self.0[start..start + slot.stored_len()]
    }

    #[inline]
    pub(crate) fn value(self, i: usize) -> Value<'p> {
        let slot = self.slot(i);
        Value::from_stored(self.stored(slot), slot.aux, self.tree())
    }

    /// Asks for all rests and values from memory, for one who is about to go through them.
    #[inline]
    pub(crate) fn prefetch_heap(self) {
        prefetch(&self.0[self.heap_start()..]);
    }

    /// Length of the whole key `i`.
    #[inline]
    pub(crate) fn key_len(self, i: usize) -> usize {
        self.prefix_len() + self.slot(i).suffix_len
    }

    /// Replaces `out` by the whole key `i`.
    #[inline]
    pub(crate) fn key_into(self, i: usize, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(self.prefix());
        self.push_suffix(i, out);
    }

    /// Appends what of key `i` follows the prefix.
    #[inline]
    pub(crate) fn push_suffix(self, i: usize, out: &mut Vec<u8>) {
        let slot = self.slot(i);
        out.extend_from_slice(&slot.head.to_be_bytes()[..slot.suffix_len.min(HEAD_LEN)]);
        out.extend_from_slice(self.rest(slot));
    }

    pub(crate) fn key(self, i: usize) -> Vec<u8> {
        let mut key = Vec::with_capacity(self.key_len(i));
        self.key_into(i, &mut key);
        key
    }

    /// The page of child `index`, counted from the leftmost, which is 0.
    #[inline]
    pub(crate) fn child(self, index: usize) -> PageNo {
        debug_assert!(!self.is_leaf());
        if index == 0 { self.leftmost() } else { PageNo(self.slot(index - 1).aux) }
    }

    /// How key `i` compares with a key whose part behind the prefix is `suffix`, heads being equal.
    #[inline]
    fn compare_rest(self, i: usize, suffix: &[u8]) -> Ordering {
        let slot = self.slot(i);
        if slot.suffix_len.min(suffix.len()) <= HEAD_LEN {
            // One rest is empty: the heap need not be touched.
            return slot.suffix_len.cmp(&suffix.len());
        }
        compare_short(self.rest(slot), rest_of(suffix))
    }

    /// Whether key `i` is `key`.
    #[inline]
    pub(crate) fn key_is(self, i: usize, key: &[u8]) -> bool {
        let prefix = self.prefix();
        let slot = self.slot(i);
        key.len() == prefix.len() + slot.suffix_len
            && starts_with(key, prefix)
            && slot.head == head_of(&key[prefix.len()..])
            && (slot.suffix_len <= HEAD_LEN
                || compare_short(self.rest(slot), rest_of(&key[prefix.len()..])).is_eq())
    }

    /// Where `key` is (`Ok`), or the slot it would take (`Err`).
    #[inline]
    pub(crate) fn search(self, key: &[u8]) -> Result<usize, usize> {
        let prefix = self.prefix();
        if !starts_with(key, prefix) {
            // All keys start with the prefix, so the key is before or behind all of them.
            return Err(if key < prefix { 0 } else { self.count() });
        }
        let suffix = &key[prefix.len()..];
        let head = head_of(suffix);
        let first = self.first_with_head(head);
        let count = self.count();
        if first == count || self.head(first) != head {
            return Err(first);
        }
        match self.compare_rest(first, suffix) {
            Ordering::Equal => Ok(first),
            Ordering::Greater => Err(first),
            Ordering::Less => self.search_ties(first + 1, head, suffix),
        }
    }

    /// The first slot whose head is not below `head`. The loops have no branch but their counters'.
    #[inline]
    fn first_with_head(self, head: u32) -> usize {
        let count = self.count();
        // In whole slots, so that a head is one load behind one look at the bound.
        let (slots, _) = self.0[self.slot_at(0)..self.slot_at(count)].as_chunks::<SLOT_LEN>();
        let head_at = |i: usize| {
            let [a, b, c, d, ..] = slots[i];
            u32::from_le_bytes([a, b, c, d])
        };
        if count == 0 {
            return 0;
        }
        let (mut base, mut len) = (0, count);
        let narrow = |base: usize, len: usize| {
            let half = len / 2;
            // Nobody can foretell it: a compiler that knows how often which side was taken would make it a jump, wrong every other time.
            let is_behind = head_at(base + half - 1) < head;
            (select_unpredictable(is_behind, base + half, base), len - half)
        };
        while len > TOGETHER_SLOTS {
            (base, len) = narrow(base, len);
        }
        let (asked, end) = (if self.is_leaf() { PREFETCHED_SLOTS } else { 0 }, base + len);
        prefetch(slots[base.max(asked).min(end)..end].as_flattened());
        while len > 1 {
            (base, len) = narrow(base, len);
        }
        base + usize::from(head_at(base) < head)
    }

    /// Searches the slots from `low` on, of which the first few may have the key's head: none of them has a lower one.
    #[inline(never)]
    fn search_ties(self, mut low: usize, head: u32, suffix: &[u8]) -> Result<usize, usize> {
        // Heads alone say where those with another one begin; what is kept in the heap of each that is compared is a line of its own.
        let (count, mut high, mut step) = (self.count(), low, TIES_MIN);
        while high < count && self.head(high) == head {
            high = count.min(high + step);
            step *= 2;
        }
        while low < high {
            let middle = low + (high - low) / 2;
            let order = self.head(middle).cmp(&head).then_with(|| self.compare_rest(middle, suffix));
            match order {
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
                Ordering::Equal => return Ok(middle),
            }
        }
        Err(low)
    }

    /// Index of the child that holds `key`.
    #[inline]
    pub(crate) fn child_index(self, key: &[u8]) -> usize {
        match self.search(key) {
            Ok(slot) => slot + 1,
            Err(slot) => slot,
        }
    }

    /// Whether every offset and length stays within the page and the bytes add up; what is wrong otherwise. Everything
    /// else here may panic on a page for which this does not hold.
    pub(crate) fn validate(self) -> Result<(), &'static str> {
        let is_leaf = match self.0[0] {
            LEAF => true,
            INNER => false,
            _ => return Err("not a tree node"),
        };
        if is_leaf != (self.level() == 0) {
            return Err("level does not fit the kind of node");
        }
        if self.prefix_len() > CAPACITY || self.heap_start() > PAGE_SIZE {
            return Err("prefix or heap outside the page");
        }
        if self.slot_at(self.count()) > self.heap_start() {
            return Err("slots and heap overlap");
        }
        let mut live = 0;
        for i in 0..self.count() {
            let slot = self.slot(i);
            let len = rest_len(slot.suffix_len) + if is_leaf { slot.stored_len() } else { 0 };
            if slot.offset < self.heap_start() || slot.offset + len > PAGE_SIZE {
                return Err("slot points outside the heap");
            }
            live += len;
        }
        if self.heap_start() + live + self.heap_dead() != PAGE_SIZE {
            return Err("heap bytes do not add up");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edit::{Frame, NodeBuilder, Payload};

    #[test]
    fn keys_are_found_among_any_number_of_equal_heads() {
        for ties in [1u8, 2, 8, 9, 10, 30, 100] {
            let with_head = |head: u8| (0..ties).map(move |rest| [head, 0, 0, 0, rest, 1]);
            let keys: Vec<[u8; 6]> = (0..3).flat_map(with_head).collect();
            let mut page = [0; PAGE_SIZE];
            let frame = Frame { level: 0, tree: PageNo(1), leftmost: PageNo(0) };
            let mut builder = NodeBuilder::new(&mut page, frame, &[]);
            keys.iter().for_each(|key| builder.push(key, Payload { aux: 0, stored: &[] }));
            builder.finish();
            for (i, key) in keys.iter().enumerate() {
                assert_eq!(Node(&page).search(key), Ok(i));
                let [head, .., rest, _] = *key;
                assert_eq!(Node(&page).search(&[head, 0, 0, 0, rest, 0]), Err(i), "just before it");
            }
            assert_eq!(Node(&page).search(&[9; 6]), Err(keys.len()));
        }
    }

    #[test]
    fn short_strings_compare_as_the_library_has_it() {
        let mut strings = Vec::new();
        for len in 0..11 {
            // Each byte in turn is another one, so that any of them may decide.
            for at in 0..=len {
                for other in [0, 1, 0x7f, 0xff] {
                    let mut bytes = vec![1; len];
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte = other;
                    }
                    strings.push(bytes);
                }
            }
        }
        for a in &strings {
            for b in &strings {
                assert_eq!(compare_short(a, b), a.cmp(b), "{a:?} {b:?}");
            }
        }
    }
}
