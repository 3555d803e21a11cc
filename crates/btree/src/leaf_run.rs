//! A run of neighbouring entries within one leaf, for scans that take a leaf at a time.

use crate::Value;
use crate::node::Node;

/// Entries of one leaf in key order. Holds the page's borrow and nothing else.
#[derive(Clone, Copy)]
pub struct LeafRun<'p> {
    leaf: Node<'p>,
    start: usize,
    end: usize,
}

impl<'p> LeafRun<'p> {
    #[inline]
    pub(crate) fn new(leaf: Node<'p>, start: usize, end: usize) -> LeafRun<'p> {
        LeafRun { leaf, start, end }
    }

    /// Number of entries.
    #[inline]
    pub fn len(&self) -> usize {
        self.end - self.start
    }

    /// Whether the run has no entry; a cursor never returns such a run.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// The first `len` entries, at least one. Panics if it has fewer.
    #[inline]
    pub fn first(self, len: usize) -> LeafRun<'p> {
        assert!((1..=self.len()).contains(&len));
        LeafRun { end: self.start + len, ..self }
    }

    /// Asks for the values of the whole leaf from memory, for one who is about to go through them.
    #[inline]
    pub fn prefetch(&self) {
        self.leaf.prefetch_heap();
    }

    /// The value of entry `i` of the run. Panics if `i` is not below `len`.
    #[inline]
    pub fn value(&self, i: usize) -> Value<'p> {
        assert!(i < self.len());
        self.leaf.value(self.start + i)
    }

    /// Replaces `out` by the key of entry `i` of the run. Panics if `i` is not below `len`.
    #[inline]
    pub fn key_into(&self, i: usize, out: &mut Vec<u8>) {
        assert!(i < self.len());
        self.leaf.key_into(self.start + i, out);
    }

    /// Calls `each` with every key and value, in order. The key lives in `scratch`.
    #[inline]
    pub fn for_each(&self, scratch: &mut Vec<u8>, mut each: impl FnMut(&[u8], Value<'p>)) {
        let prefix = self.leaf.prefix();
        scratch.clear();
        scratch.extend_from_slice(prefix);
        for i in self.start..self.end {
            scratch.truncate(prefix.len());
            self.leaf.push_suffix(i, scratch);
            each(scratch, self.leaf.value(i));
        }
    }
}
