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
