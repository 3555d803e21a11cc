//! Changing one node in its page: writing slots and heap bytes. What spans nodes is in `insert`, `split` and `remove`.

use base::PageNo;
use base::limits::PAGE_SIZE;
use storage::PageBytes;

use crate::node::{CAPACITY, HEADER_LEN, INNER, LEAF, Node, SLOT_LEN, Slot, head_of, rest_len, rest_of};

/// What a leaf keeps behind a key: the value's bytes or a chain's descriptor, with the slot's `aux` that says which;
/// of an inner node only `aux`, the child.
#[derive(Clone, Copy)]
pub(crate) struct Payload<'a> {
    pub(crate) aux: u32,
    pub(crate) stored: &'a [u8],
}

impl Payload<'static> {
    #[inline]
    pub(crate) fn child(no: PageNo) -> Payload<'static> {
        Payload { aux: no.0, stored: &[] }
    }
}

/// What makes a node besides its entries.
#[derive(Clone, Copy)]
pub(crate) struct Frame {
    pub(crate) level: u8,
    pub(crate) tree: PageNo,
    /// Child left of the first slot; 0 in a leaf.
    pub(crate) leftmost: PageNo,
}

/// Changes one node.
pub(crate) struct NodeMut<'p>(pub(crate) &'p mut PageBytes);

impl NodeMut<'_> {
    #[inline]
    pub(crate) fn as_node(&self) -> Node<'_> {
        Node(self.0)
    }

    #[inline]
    fn put_u16(&mut self, at: usize, value: usize) {
        let value = u16::try_from(value).expect("an offset within a page");
        self.0[at..at + 2].copy_from_slice(&value.to_le_bytes());
    }
    #[inline]
    fn put_u32(&mut self, at: usize, value: u32) {
        self.0[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }

    /// Makes the page a node without entries whose keys will all start with `prefix`.
    pub(crate) fn init(&mut self, frame: Frame, prefix: &[u8]) {
        self.0[..HEADER_LEN].fill(0);
        self.0[0] = if frame.level == 0 { LEAF } else { INNER };
        self.0[1] = frame.level;
        self.put_u16(4, PAGE_SIZE);
        self.put_u16(8, prefix.len());
        self.put_u32(12, frame.tree.0);
        self.put_u32(16, frame.leftmost.0);
        self.0[HEADER_LEN..HEADER_LEN + prefix.len()].copy_from_slice(prefix);
    }

    #[inline]
    pub(crate) fn set_leftmost(&mut self, child: PageNo) {
        self.put_u32(16, child.0);
    }

    #[inline]
    pub(crate) fn set_insert_pattern(&mut self, last_insert: usize, run: u8) {
        self.put_u16(10, last_insert);
        self.0[20] = run;
    }

    /// Remembers that an insert took slot `at`, to recognise ascending keys when the node fills up.
    #[inline]
    pub(crate) fn note_insert(&mut self, at: usize) {
        let node = self.as_node();
        let run = if at == node.last_insert() + 1 { node.ascending_run().saturating_add(1) } else { 0 };
        self.set_insert_pattern(at, run);
    }

    #[inline]
    fn write_slot(&mut self, i: usize, slot: Slot) {
        let at = self.as_node().slot_at(i);
        let bytes: &mut [u8; SLOT_LEN] =
            (&mut self.0[at..at + SLOT_LEN]).try_into().expect("a slot's length");
        bytes[..4].copy_from_slice(&slot.head.to_le_bytes());
        bytes[4..8].copy_from_slice(&slot.aux.to_le_bytes());
        bytes[8..10].copy_from_slice(&(slot.offset as u16).to_le_bytes());
        bytes[10..].copy_from_slice(&(slot.suffix_len as u16).to_le_bytes());
    }

    /// Puts an entry at slot `i`. The gap must hold it: `SLOT_LEN`, the key's rest and the stored bytes.
    #[inline]
    pub(crate) fn insert(&mut self, i: usize, suffix: &[u8], payload: Payload<'_>) {
        let node = self.as_node();
        let (count, rest) = (node.count(), rest_of(suffix));
        let len = rest.len() + payload.stored.len();
        assert!(i <= count && SLOT_LEN + len <= node.gap(), "entry does not fit its node");
        let offset = node.heap_start() - len;
        self.0[offset..offset + rest.len()].copy_from_slice(rest);
        self.0[offset + rest.len()..offset + len].copy_from_slice(payload.stored);
        let (at, end) = (self.as_node().slot_at(i), self.as_node().slot_at(count));
        self.0.copy_within(at..end, at + SLOT_LEN);
        self.put_u16(2, count + 1);
        self.put_u16(4, offset);
        self.write_slot(
            i,
            Slot { head: head_of(suffix), aux: payload.aux, offset, suffix_len: suffix.len() },
        );
    }

    /// Takes the entry at slot `i` out; its heap bytes are dead until the next rebuild.
    #[inline]
    pub(crate) fn remove(&mut self, i: usize) {
        let node = self.as_node();
        let (count, slot) = (node.count(), node.slot(i));
        let stored = if node.is_leaf() { slot.stored_len() } else { 0 };
        let dead = node.heap_dead() + rest_len(slot.suffix_len) + stored;
        let (at, end) = (self.as_node().slot_at(i), self.as_node().slot_at(count));
        self.0.copy_within(at + SLOT_LEN..end, at);
        self.put_u16(2, count - 1);
        self.put_u16(6, dead);
        if count == 1 {
            // Nothing is live: the whole heap is free again.
            self.put_u16(4, PAGE_SIZE);
            self.put_u16(6, 0);
        }
    }

    /// Overwrites the value at slot `i` of a leaf if the new one is not longer; says whether it did.
    #[inline]
    pub(crate) fn overwrite_if_not_longer(&mut self, i: usize, payload: Payload<'_>) -> bool {
        let node = self.as_node();
        let (slot, dead) = (node.slot(i), node.heap_dead());
        let (old, new) = (slot.stored_len(), payload.stored.len());
        if new > old {
            return false;
        }
        let start = slot.offset + rest_len(slot.suffix_len);
        self.0[start..start + new].copy_from_slice(payload.stored);
        if payload.aux != slot.aux {
            self.put_u16(6, dead + old - new);
            self.write_slot(i, Slot { aux: payload.aux, ..slot });
        }
        true
    }
}

/// Fills a page with entries in key order.
pub(crate) struct NodeBuilder<'p> {
    node: NodeMut<'p>,
    prefix_len: usize,
}

impl<'p> NodeBuilder<'p> {
    #[inline]
    pub(crate) fn new(page: &'p mut PageBytes, frame: Frame, prefix: &[u8]) -> NodeBuilder<'p> {
        assert!(prefix.len() <= CAPACITY);
        let mut node = NodeMut(page);
        node.init(frame, prefix);
        NodeBuilder { node, prefix_len: prefix.len() }
    }

    /// Appends an entry; its key starts with the prefix.
    #[inline]
    pub(crate) fn push(&mut self, key: &[u8], payload: Payload<'_>) {
        let count = self.node.as_node().count();
        self.node.insert(count, &key[self.prefix_len..], payload);
    }

    #[inline]
    pub(crate) fn finish(self) -> NodeMut<'p> {
        self.node
    }
}
