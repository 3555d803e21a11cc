//! Map nodes as pages of the data file: 256 pointers, each with the checksum of what it points to.

use base::limits::PAGE_SIZE;
use base::{Epoch, PageNo, SlotNo, TenantId};

use crate::PageBytes;
use crate::bytes::{get_u32, get_u64, put_u32, put_u64};
use crate::radix::{FANOUT, Inner, Leaf, Link, shift_of};
use crate::version::{Location, PageVersion};

const MAGIC: u32 = u32::from_le_bytes(*b"RHMN");
const MAGIC_AT: usize = 0;
const HEIGHT_AT: usize = 4;
const TENANT_AT: usize = 8;
const FIRST_PAGE_AT: usize = 16;
const ENTRIES_AT: usize = 64;
const ENTRY_LEN: usize = 24;
const _: () = assert!(ENTRIES_AT + FANOUT * ENTRY_LEN <= PAGE_SIZE);

/// A pointer of a map node: to a page in a leaf, to a lower node in an inner node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pointer {
    pub(crate) location: Location,
    pub(crate) born: Epoch,
}

/// What a node page says of itself, so that a misplaced one is recognised even where its bytes are intact.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NodeIdentity {
    pub(crate) tenant: TenantId,
    /// Levels above the leaves.
    pub(crate) height: u32,
    /// The lowest page number below it.
    pub(crate) first_page: PageNo,
}

fn encode_node(page: &mut PageBytes, identity: NodeIdentity) {
    page.fill(0);
    put_u32(page, MAGIC_AT, MAGIC);
    put_u32(page, HEIGHT_AT, identity.height);
    put_u64(page, TENANT_AT, identity.tenant.0);
    put_u32(page, FIRST_PAGE_AT, identity.first_page.0);
}

fn put_pointer(page: &mut PageBytes, index: usize, pointer: Pointer) {
    assert!(index < FANOUT);
    let at = ENTRIES_AT + index * ENTRY_LEN;
    put_u32(page, at, pointer.location.slot.0);
    put_u32(page, at + 4, pointer.location.checksum);
    put_u64(page, at + 8, pointer.born.0);
}

/// The page of a leaf; `place` says where the version at an index lies.
pub(crate) fn encode_leaf(
    page: &mut PageBytes,
    identity: NodeIdentity,
    leaf: &Leaf,
    mut place: impl FnMut(usize, &PageVersion) -> Location,
) {
    encode_node(page, identity);
    for (i, entry) in leaf.entries.iter().enumerate() {
        if let Some(version) = &entry.version {
            put_pointer(page, i, Pointer { location: place(i, version), born: entry.born });
        }
    }
}

/// The page of an inner node; `place` says where the node above a lowest page number lies.
pub(crate) fn encode_inner(
    page: &mut PageBytes,
    identity: NodeIdentity,
    inner: &Inner,
    place: impl Fn(u32, &Link) -> Location,
) {
    encode_node(page, identity);
    for (i, kid) in inner.kids.iter().enumerate() {
        let first = identity.first_page.0 + ((i as u32) << shift_of(identity.height));
        let born = match kid {
            Link::Empty => continue,
            Link::Inner(node) => node.stamp.born,
            Link::Leaf(node) => node.stamp.born,
            Link::Cold(node) => node.stamp.born,
        };
        put_pointer(page, i, Pointer { location: place(first, kid), born });
    }
}

/// Makes an intact node page one of another tenant.
pub(crate) fn set_tenant(page: &mut PageBytes, tenant: TenantId) {
    put_u64(page, TENANT_AT, tenant.0);
}

/// Changes the checksum in the pointer at `index`, whose target was written anew in the same slot.
pub(crate) fn set_checksum(page: &mut PageBytes, index: usize, checksum: u32) {
    put_u32(page, ENTRIES_AT + index * ENTRY_LEN + 4, checksum);
}

/// What is wrong with a node page, and where in the page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BadNode {
    pub(crate) at: usize,
    pub(crate) what: &'static str,
    pub(crate) found: u64,
    pub(crate) expected: u64,
}

/// The used pointers of a node with their index.
pub(crate) fn decode_node(
    page: &PageBytes,
    identity: NodeIdentity,
    slot_count: u32,
) -> Result<Vec<(usize, Pointer)>, BadNode> {
    let check = |at, what, found: u64, expected: u64| match found == expected {
        true => Ok(()),
        false => Err(BadNode { at, what, found, expected }),
    };
    check(MAGIC_AT, "not a map node", get_u32(page, MAGIC_AT).into(), MAGIC.into())?;
    check(HEIGHT_AT, "map node of another level", get_u32(page, HEIGHT_AT).into(), identity.height.into())?;
    check(TENANT_AT, "map node of another tenant", get_u64(page, TENANT_AT), identity.tenant.0)?;
    let first = get_u32(page, FIRST_PAGE_AT);
    check(FIRST_PAGE_AT, "map node of other pages", first.into(), identity.first_page.0.into())?;
    let mut pointers = Vec::new();
    for index in 0..FANOUT {
        let at = ENTRIES_AT + index * ENTRY_LEN;
        let slot = get_u32(page, at);
        if slot == 0 {
            continue;
        }
        if slot < crate::superblock::SUPERBLOCKS || slot >= slot_count {
            let what = "map node points outside the file";
            return Err(BadNode { at, what, found: slot.into(), expected: slot_count.into() });
        }
        check(at + 16, "map node points into an unknown file", get_u64(page, at + 16), 0)?;
        let location = Location { slot: SlotNo(slot), checksum: get_u32(page, at + 4) };
        pointers.push((index, Pointer { location, born: Epoch(get_u64(page, at + 8)) }));
    }
    Ok(pointers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_reads_back_as_written_and_only_as_itself() {
        let identity = NodeIdentity { tenant: TenantId(16), height: 1, first_page: PageNo(0x10000) };
        let pointer =
            |n| Pointer { location: Location { slot: SlotNo(n), checksum: !n }, born: Epoch(n.into()) };
        let mut page = [0xff; PAGE_SIZE];
        encode_node(&mut page, identity);
        put_pointer(&mut page, 0, pointer(2));
        put_pointer(&mut page, 255, pointer(99));
        assert_eq!(decode_node(&page, identity, 100), Ok(vec![(0, pointer(2)), (255, pointer(99))]));
        assert!(decode_node(&page, identity, 99).is_err(), "slot 99 lies outside a file of 99 slots");
        assert!(decode_node(&page, NodeIdentity { height: 0, ..identity }, 100).is_err());
        assert!(decode_node(&page, NodeIdentity { tenant: TenantId(17), ..identity }, 100).is_err());
        assert!(decode_node(&page, NodeIdentity { first_page: PageNo(0), ..identity }, 100).is_err());
    }
}
