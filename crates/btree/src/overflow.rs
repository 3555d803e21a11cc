//! Chains of overflow pages, for values too long for a leaf.
//!
//! | offset | bytes | field |
//! | --- | --- | --- |
//! | 0 | 1 | kind: 3 |
//! | 1 | 3 | zero |
//! | 4 | 4 | next page of the chain, 0 in the last |
//! | 8 | 4 | bytes of the value in this page |
//! | 12 | 4 | page number of the tree's root |
//! | 16 | | the bytes |

use base::PageNo;
use base::limits::PAGE_SIZE;
use storage::{PageBytes, PageFault, ReadPages, WritePages};

use crate::node::{OVERFLOW, get_u32};
use crate::place;
use crate::value::Chain;

const HEADER_LEN: usize = 16;
pub(crate) const PAYLOAD_LEN: usize = PAGE_SIZE - HEADER_LEN;

struct Link<'p> {
    next: PageNo,
    bytes: &'p [u8],
}

fn link(page: &PageBytes, no: PageNo, tree: PageNo) -> Result<Link<'_>, PageFault> {
    let len = get_u32(page, 8) as usize;
    if page[0] != OVERFLOW || get_u32(page, 12) != tree.0 || len > PAYLOAD_LEN {
        return Err(PageFault::corrupt(
            no,
            "not an overflow page of this tree",
            u64::from(page[0]),
            OVERFLOW.into(),
        ));
    }
    Ok(Link { next: PageNo(get_u32(page, 4)), bytes: &page[HEADER_LEN..HEADER_LEN + len] })
}

/// The bytes in the chain's first page, and the chain behind it. The chain must end exactly at its length.
fn split_first(page: &PageBytes, chain: Chain) -> Result<(&[u8], Chain), PageFault> {
    let (no, left) = (chain.first, chain.len as usize);
    let link = link(page, no, chain.tree)?;
    if link.bytes.is_empty() || link.bytes.len() > left {
        let what = "length of an overflow page";
        return Err(PageFault::corrupt(no, what, link.bytes.len() as u64, left as u64));
    }
    let len = chain.len - link.bytes.len() as u32;
    if (len == 0) != (link.next == PageNo(0)) {
        let what = "overflow chain ends at the wrong page";
        return Err(PageFault::corrupt(no, what, link.next.0.into(), 0));
    }
    Ok((link.bytes, Chain { len, first: link.next, ..chain }))
}

/// Calls `each` with every page of the chain and its bytes, one page after the other. The chain is what is left then: nothing, or after `Err` that page and
/// those behind it.
fn walk<P: ReadPages>(
    pages: &P,
    chain: &mut Chain,
    mut each: impl FnMut(PageNo, &[u8]),
) -> Result<(), PageFault> {
    while chain.len > 0 {
        let left = *chain;
        *chain = pages.with_page(left.first, |page| {
            split_first(page, left).map(|(bytes, behind)| {
                each(left.first, bytes);
                behind
            })
        })??;
    }
    Ok(())
}

/// The chain without its first page.
pub(crate) fn behind_first<P: ReadPages>(pages: &P, chain: Chain) -> Result<Chain, PageFault> {
    split_first(pages.page(chain.first)?, chain).map(|(_, behind)| behind)
}

/// The bytes of the chain.
pub(crate) fn read<P: ReadPages>(pages: &P, mut chain: Chain) -> Result<Vec<u8>, PageFault> {
    // A damaged length may not make us reserve what the chain does not hold.
    let mut bytes = Vec::with_capacity((chain.len as usize).min(PAYLOAD_LEN * 128));
    read_on(pages, &mut chain, &mut bytes)?;
    Ok(bytes)
}

/// Appends the bytes of the chain to `out`, as far as its pages are in memory; the chain is what is left.
pub(crate) fn read_on<P: ReadPages>(
    pages: &P,
    chain: &mut Chain,
    out: &mut Vec<u8>,
) -> Result<(), PageFault> {
    walk(pages, chain, |_, part| out.extend_from_slice(part))
}

/// The pages of the chain, in order.
pub(crate) fn pages_of<P: ReadPages>(pages: &P, mut chain: Chain) -> Result<Vec<PageNo>, PageFault> {
    let mut numbers = Vec::new();
    walk(pages, &mut chain, |no, _| numbers.push(no))?;
    Ok(numbers)
}

/// Writes `value` to new pages, for leaf `leaf`, which the caller has made its own. Cannot fail: every page it touches is new.
pub(crate) fn write<P: WritePages>(pages: &mut P, tree: PageNo, leaf: PageNo, value: &[u8]) -> Chain {
    let beside = place::of_value(pages, tree, leaf, value.len());
    let len = u32::try_from(value.len()).expect("a value's length is bounded by ROW_LEN_MAX");
    let mut next = PageNo(0);
    for part in value.chunks(PAYLOAD_LEN).rev() {
        let no = pages.allocate(beside);
        let page = pages.page_mut(no).expect("a new page is in memory");
        page[0] = OVERFLOW;
        page[4..8].copy_from_slice(&next.0.to_le_bytes());
        page[8..12].copy_from_slice(&(part.len() as u32).to_le_bytes());
        page[12..16].copy_from_slice(&tree.0.to_le_bytes());
        page[HEADER_LEN..HEADER_LEN + part.len()].copy_from_slice(part);
        next = no;
    }
    Chain { len, first: next, tree }
}
