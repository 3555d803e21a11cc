//! Little-endian fields at fixed offsets of a page; the layouts are in `docs/data-file.md`.

use crate::PageBytes;

pub(crate) fn get_u32(page: &PageBytes, at: usize) -> u32 {
    u32::from_le_bytes(page[at..at + 4].try_into().expect("four bytes"))
}

pub(crate) fn get_u64(page: &PageBytes, at: usize) -> u64 {
    u64::from_le_bytes(page[at..at + 8].try_into().expect("eight bytes"))
}

pub(crate) fn put_u32(page: &mut PageBytes, at: usize, value: u32) {
    page[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

pub(crate) fn put_u64(page: &mut PageBytes, at: usize, value: u64) {
    page[at..at + 8].copy_from_slice(&value.to_le_bytes());
}
