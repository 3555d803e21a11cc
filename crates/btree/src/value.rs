//! A value as a reader gets it: bytes within its leaf, or the name of a chain of overflow pages.

use std::borrow::Cow;

use base::PageNo;
use storage::{PageFault, ReadPages};

use crate::node::CHAIN_BIT;
use crate::overflow;

/// Bytes of a chain's descriptor in a leaf: length and first page.
pub(crate) const DESCRIPTOR_LEN: usize = 8;

/// The value of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Value<'p> {
    /// The bytes, within the leaf.
    Inline(&'p [u8]),
    /// Longer than [`base::limits::INLINE_VALUE_LEN_MAX`]: in pages of its own.
    Chain(Chain),
}

/// A value in overflow pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chain {
    pub(crate) len: u32,
    pub(crate) first: PageNo,
    pub(crate) tree: PageNo,
}

impl Chain {
    /// The page in which the value begins.
    #[inline]
    pub fn first_page(self) -> PageNo {
        self.first
    }

    #[inline]
    pub(crate) fn descriptor(self) -> [u8; DESCRIPTOR_LEN] {
        let mut bytes = [0; DESCRIPTOR_LEN];
        bytes[..4].copy_from_slice(&self.len.to_le_bytes());
        bytes[4..].copy_from_slice(&self.first.0.to_le_bytes());
        bytes
    }
}

impl<'p> Value<'p> {
    #[inline]
    pub(crate) fn from_stored(stored: &'p [u8], aux: u32, tree: PageNo) -> Value<'p> {
        if aux & CHAIN_BIT == 0 {
            return Value::Inline(stored);
        }
        let (len, first) = stored.split_first_chunk::<4>().expect("a descriptor's length");
        let first = first.first_chunk::<4>().expect("a descriptor's length");
        Value::Chain(Chain { len: u32::from_le_bytes(*len), first: PageNo(u32::from_le_bytes(*first)), tree })
    }

    /// Bytes of the value; needs no page.
    #[inline]
    pub fn len(&self) -> usize {
        match self {
            Value::Inline(bytes) => bytes.len(),
            Value::Chain(chain) => chain.len as usize,
        }
    }

    /// Whether the value has no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes: borrowed from the leaf, or gathered from the chain's pages, any of which may be a `Miss`.
    #[inline]
    pub fn read<P: ReadPages>(self, pages: &'p P) -> Result<Cow<'p, [u8]>, PageFault> {
        match self {
            Value::Inline(bytes) => Ok(Cow::Borrowed(bytes)),
            Value::Chain(chain) => overflow::read(pages, chain).map(Cow::Owned),
        }
    }

    /// As [`Value::read`], for a caller whose pages live shorter than the leaf's bytes. Appends to `out`, which on
    /// `Err` holds what it held.
    #[inline]
    pub fn append_to<P: ReadPages>(self, pages: &P, out: &mut Vec<u8>) -> Result<(), PageFault> {
        match self {
            Value::Inline(bytes) => out.extend_from_slice(bytes),
            Value::Chain(chain) => out.extend_from_slice(&overflow::read(pages, chain)?),
        }
        Ok(())
    }
}

/// A value as far as it was read. Who has to wait for a page of a long one goes on at that page, and not at the first again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReadSoFar {
    bytes: Vec<u8>,
    /// What is left of a long one.
    rest: Option<Chain>,
}

impl Value<'_> {
    /// Begins to read the value: what is within its leaf.
    pub fn begin(self) -> ReadSoFar {
        match self {
            Value::Inline(bytes) => ReadSoFar { bytes: bytes.to_vec(), rest: None },
            Value::Chain(chain) => ReadSoFar { bytes: Vec::new(), rest: Some(chain) },
        }
    }
}

impl ReadSoFar {
    /// Reads on to the value's end; to be called again when the page of a `Miss` is in memory. The tree is not to be changed meanwhile.
    pub fn read_on<P: ReadPages>(&mut self, pages: &P) -> Result<(), PageFault> {
        match &mut self.rest {
            Some(chain) => overflow::read_on(pages, chain, &mut self.bytes),
            None => Ok(()),
        }
    }

    /// What was read.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::collections::BTreeSet;

    use storage::{PageBytes, PageMap};

    use super::*;
    use crate::TreeRoot;

    /// Pages of which each is missing at the first look.
    struct Late<'p> {
        pages: &'p PageMap,
        read: RefCell<BTreeSet<PageNo>>,
        looks: Cell<usize>,
    }

    impl ReadPages for Late<'_> {
        fn page(&self, no: PageNo) -> Result<&PageBytes, PageFault> {
            self.looks.set(self.looks.get() + 1);
            if self.read.borrow_mut().insert(no) { Err(PageFault::Miss(no)) } else { self.pages.page(no) }
        }
    }

    #[test]
    fn a_long_value_is_read_on_where_a_page_was_missing() {
        let (mut pages, mut root) = (PageMap::new_empty(), TreeRoot::default());
        let value: Vec<u8> = (0..300_000_u32).map(|i| (i % 251) as u8).collect();
        crate::put(&mut pages, &mut root, b"key", &value).expect("in memory");
        let found = crate::get(&pages, root, b"key").expect("in memory").expect("just put");
        let late = Late { pages: &pages, read: RefCell::default(), looks: Cell::new(0) };
        let (mut so_far, mut misses) = (found.begin(), 0);
        while let Err(fault) = so_far.read_on(&late) {
            assert!(matches!(fault, PageFault::Miss(_)));
            misses += 1;
        }
        assert_eq!(so_far.into_bytes(), value);
        let count = value.len().div_ceil(overflow::PAYLOAD_LEN);
        assert_eq!((misses, late.looks.get()), (count, 2 * count));
        assert_eq!(Value::Inline(b"short").begin().into_bytes(), b"short");
    }
}
