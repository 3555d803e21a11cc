//! Faults below valid checksums: slots shared, lost and given away. Only the check's own accounting can find them.

use std::path::Path;

use base::SlotNo;
use base::limits::PAGE_SIZE;

use super::fixture::*;
use super::journal_disk::JournalFile;
use crate::data_file::choose_superblock;
use crate::node_page::{NodeIdentity, decode_node};
use crate::superblock::Superblock;
use crate::version::Location;
use crate::{PageBytes, verify_file};

/// Where a map node's pointers begin, and the length of one (`docs/data-file.md`).
const POINTERS_AT: usize = 64;
const POINTER_LEN: usize = 24;

/// The file of a tenant with a few pages, below one map node, and free slots.
fn small_file() -> Vec<u8> {
    let mut store = Store::create();
    for value in 0..20 {
        store.allocate(value);
    }
    store.checkpoint();
    let report = store.verify();
    assert_eq!((report.map_nodes, report.pages), (1, 20));
    assert!(report.slots_used < report.slots, "there are free slots");
    store.disk.lock().bytes.clone()
}

fn newest_root(bytes: &[u8]) -> Superblock {
    choose_superblock(Path::new(PATH), &bytes[..2 * PAGE_SIZE], Some(TENANT)).expect("a valid root").newest
}

fn slot_mut(bytes: &mut [u8], slot: SlotNo) -> &mut PageBytes {
    let at = slot.0 as usize * PAGE_SIZE;
    (&mut bytes[at..at + PAGE_SIZE]).try_into().expect("one page")
}

/// Changes the slot that the newest root's pointer picked by `pick` leads to, and every checksum above it to fit.
fn plant(
    clean: &[u8],
    pick: impl FnOnce(&mut Superblock) -> &mut Location,
    change: impl FnOnce(&mut PageBytes),
) -> Vec<u8> {
    let mut bytes = clean.to_vec();
    let mut root = newest_root(&bytes);
    let location = pick(&mut root);
    let page = slot_mut(&mut bytes, location.slot);
    change(page);
    location.checksum = crc32c::crc32c(&page[..]);
    let superblock = root.slot();
    root.encode(slot_mut(&mut bytes, superblock));
    bytes
}

fn map_node(root: &mut Superblock) -> &mut Location {
    root.map_root.as_mut().expect("there are pages")
}

fn free_set_page(root: &mut Superblock) -> &mut Location {
    &mut root.free_set[0]
}

/// The slots that the only map node points to, by the pointer's index.
fn slots_below(bytes: &[u8]) -> Vec<(usize, u64)> {
    let root = newest_root(bytes);
    let at = root.map_root.expect("there are pages").slot.0 as usize * PAGE_SIZE;
    let node: &PageBytes = bytes[at..at + PAGE_SIZE].try_into().expect("one page");
    let identity = NodeIdentity { tenant: TENANT, height: root.map_height, first_page: base::PageNo(0) };
    let pointers = decode_node(node, identity, root.slot_count).expect("a whole node");
    pointers.into_iter().map(|(index, pointer)| (index, u64::from(pointer.location.slot.0))).collect()
}

/// What the check says of these bytes, and of which slots.
fn defects(bytes: Vec<u8>) -> Vec<(&'static str, Option<u64>)> {
    let env = JournalFile::with_bytes(bytes).env();
    let report = verify_file(&env, Path::new(PATH), &mut |_, _| {}, &mut |_, _| {}).expect("can be checked");
    assert_eq!(report.defect_count, report.defects.len() as u64);
    assert_eq!(report.spare_superblock, None, "the planted root is whole");
    report.defects.iter().map(|corrupt| (corrupt.what, corrupt.slot())).collect()
}

const LEAKED: &str = "slot leaked: used in the free set, unreachable";

#[test]
fn the_planted_bytes_are_otherwise_whole() {
    let clean = small_file();
    assert!(defects(plant(&clean, map_node, |_| {})).is_empty());
    assert!(defects(plant(&clean, free_set_page, |_| {})).is_empty());
}

#[test]
fn a_slot_used_by_two_pages_is_found() {
    let clean = small_file();
    let slots = slots_below(&clean);
    let (first, second) = (slots[0], slots[1]);
    let planted = plant(&clean, map_node, |node| {
        let at = |index: usize| POINTERS_AT + index * POINTER_LEN;
        node.copy_within(at(first.0)..at(first.0) + POINTER_LEN, at(second.0));
    });
    assert_eq!(defects(planted), [("slot used twice", Some(first.1)), (LEAKED, Some(second.1))]);
}

#[test]
fn a_slot_used_by_a_page_and_the_free_set_is_found() {
    let clean = small_file();
    let of_set = newest_root(&clean).free_set[0];
    let first = slots_below(&clean)[0];
    // The page's pointer leads to the free set's page, whose checksum is right.
    let planted = plant(&clean, map_node, |node| {
        let at = POINTERS_AT + first.0 * POINTER_LEN;
        node[at..at + 4].copy_from_slice(&of_set.slot.0.to_le_bytes());
        node[at + 4..at + 8].copy_from_slice(&of_set.checksum.to_le_bytes());
    });
    let of_set = u64::from(of_set.slot.0);
    assert_eq!(defects(planted), [("slot used twice", Some(of_set)), (LEAKED, Some(first.1))]);
}

#[test]
fn a_slot_that_nothing_reaches_and_that_is_not_free_is_found() {
    let clean = small_file();
    let first = slots_below(&clean)[0];
    let planted = plant(&clean, map_node, |node| {
        let at = POINTERS_AT + first.0 * POINTER_LEN;
        node[at..at + POINTER_LEN].fill(0);
    });
    assert_eq!(defects(planted), [(LEAKED, Some(first.1))]);
}

#[test]
fn a_slot_in_use_that_would_be_given_out_again_is_found() {
    let clean = small_file();
    let root = newest_root(&clean);
    let node = u64::from(root.map_root.expect("there are pages").slot.0);
    let of_set = u64::from(root.free_set[0].slot.0);
    for slot in [0, 1, slots_below(&clean)[7].1, node, of_set] {
        let planted = plant(&clean, free_set_page, |page| page[slot as usize / 8] &= !(1 << (slot % 8)));
        assert_eq!(defects(planted), [("slot in use is in the free set", Some(slot))]);
    }
}

#[test]
fn a_free_set_that_goes_on_behind_the_file_is_found() {
    let clean = small_file();
    let beyond = u64::from(newest_root(&clean).slot_count);
    let planted = plant(&clean, free_set_page, |page| page[beyond as usize / 8] |= 1 << (beyond % 8));
    assert_eq!(defects(planted), [("free set beyond the file", Some(beyond))]);
}
