//! A dense image of one snapshot: a data file without free slots, made front to back and checked front to back.
//!
//! The bytes are those of a data file (`docs/data-file.md`), in an order by which each slot is announced, with its
//! checksum, by one before it: superblocks, the map in pre-order with each leaf's pages behind it, the free set. So a
//! stream of them needs no seeking on either side, and damage is met where it lies. [`ImageWriter`] makes the slots,
//! [`ImageReader`] checks them and can make them another tenant's, [`ImageFile`] puts them on a disk.

mod file;
mod reader;
mod writer;

pub use file::ImageFile;
pub use reader::ImageReader;
pub use writer::ImageWriter;

use crate::PageBytes;
use crate::slots::SLOTS_PER_SET_PAGE;
use crate::superblock::SUPERBLOCKS;

/// Bytes of the superblocks, which a reader of an image needs together.
pub const IMAGE_HEAD_LEN: usize = SUPERBLOCKS as usize * base::limits::PAGE_SIZE;

/// Slots of an image whose map has so many nodes and pages, and how many of them are the free set's at its end.
fn extent_of(nodes_and_pages: u64) -> (u64, u64) {
    let others = u64::from(SUPERBLOCKS) + nodes_and_pages;
    // A page of the set describes itself too.
    let set_pages = others.div_ceil(u64::from(SLOTS_PER_SET_PAGE) - 1);
    (others + set_pages, set_pages)
}

/// Page `index` of the free set of a file whose slots are all used.
fn fill_full_set(page: &mut PageBytes, index: u32, slot_count: u32) {
    let first = u64::from(index) * u64::from(SLOTS_PER_SET_PAGE);
    let used = u64::from(slot_count).saturating_sub(first).min(SLOTS_PER_SET_PAGE.into()) as usize;
    page.fill(0);
    page[..used / 8].fill(0xff);
    if !used.is_multiple_of(8) {
        page[used / 8] = (1 << (used % 8)) - 1;
    }
}

#[cfg(test)]
mod tests {
    use base::limits::PAGE_SIZE;

    use super::*;
    use crate::slots::SlotSet;

    #[test]
    fn the_free_set_describes_every_slot_and_no_more() {
        let per_page = u64::from(SLOTS_PER_SET_PAGE);
        for nodes_and_pages in
            [0, 1, 5, per_page - 4, per_page - 3, per_page - 2, per_page, 2 * per_page - 5, 3 * per_page]
        {
            let (slots, set_pages) = extent_of(nodes_and_pages);
            assert_eq!(slots, nodes_and_pages + 2 + set_pages);
            assert_eq!(set_pages, slots.div_ceil(per_page), "{nodes_and_pages}");
        }
    }

    #[test]
    fn a_full_set_is_the_set_of_all_slots() {
        for slot_count in [3, 64, 65, SLOTS_PER_SET_PAGE - 1, SLOTS_PER_SET_PAGE, SLOTS_PER_SET_PAGE + 13] {
            let mut all = SlotSet::default();
            for slot in 0..slot_count {
                all.insert(slot);
            }
            for index in 0..slot_count.div_ceil(SLOTS_PER_SET_PAGE) {
                let (mut ours, mut expected) = ([7; PAGE_SIZE], [0; PAGE_SIZE]);
                fill_full_set(&mut ours, index, slot_count);
                all.encode_page(index as usize, &mut expected);
                assert!(ours == expected, "{slot_count}, page {index}");
            }
        }
    }
}
