//! The superblock: the one page that is written in place, two copies in turn. Everything else hangs from it.

use base::limits::PAGE_SIZE;
use base::{CommitNo, Epoch, SlotNo, TenantId};

use crate::PageBytes;
use crate::bytes::{get_u32, get_u64, put_u32, put_u64};
use crate::radix::INNER_LEVELS_MAX;
use crate::version::Location;

/// Version of the data file's format that this build writes and the newest it reads.
pub const FORMAT_VERSION: u32 = 1;

/// Longest payload of a root in bytes.
pub const ROOT_PAYLOAD_LEN_MAX: usize = 2048;

const MAGIC: u64 = u64::from_le_bytes(*b"ROWHOUSE");
const MAGIC_AT: usize = 0;
const FORMAT_AT: usize = 8;
const PAGE_SIZE_AT: usize = 12;
const TENANT_AT: usize = 16;
const GENERATION_AT: usize = 24;
const EPOCH_AT: usize = 32;
const COMMIT_AT: usize = 40;
const SLOT_COUNT_AT: usize = 48;
const MAP_HEIGHT_AT: usize = 52;
const MAP_ROOT_AT: usize = 56;
const FREE_SET_LEN_AT: usize = 64;
const PAYLOAD_LEN_AT: usize = 68;
const PAYLOAD_AT: usize = 80;
const FREE_SET_AT: usize = PAYLOAD_AT + ROOT_PAYLOAD_LEN_MAX;
const CHECKSUM_AT: usize = PAGE_SIZE - 4;

/// Pages of the free set that fit: 757, for files of up to 757 x 65,536 slots, that is 378 GiB.
pub(crate) const FREE_SET_PAGES_MAX: usize = (CHECKSUM_AT - FREE_SET_AT) / 8;
const _: () = assert!(FREE_SET_PAGES_MAX == 757 || PAGE_SIZE != 8192);

/// Superblocks take the first two slots; generation `g` is written to slot `g % 2`.
pub(crate) const SUPERBLOCKS: u32 = 2;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Superblock {
    pub(crate) tenant: TenantId,
    pub(crate) generation: u64,
    pub(crate) epoch: Epoch,
    pub(crate) commit: CommitNo,
    pub(crate) slot_count: u32,
    pub(crate) map_height: u32,
    pub(crate) map_root: Option<Location>,
    pub(crate) free_set: Vec<Location>,
    pub(crate) payload: Vec<u8>,
}

/// Why a page is no superblock this build can use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum NotASuperblock {
    Checksum { found: u32, expected: u32 },
    NewerFormat { found: u32 },
    Field { at: usize, what: &'static str, found: u64, expected: u64 },
}

fn put_location(page: &mut PageBytes, at: usize, location: Option<Location>) {
    put_u32(page, at, location.map_or(0, |l| l.slot.0));
    put_u32(page, at + 4, location.map_or(0, |l| l.checksum));
}

fn get_location(page: &PageBytes, at: usize) -> Option<Location> {
    let slot = SlotNo(get_u32(page, at));
    (slot.0 != 0).then(|| Location { slot, checksum: get_u32(page, at + 4) })
}

impl Superblock {
    pub(crate) fn slot(&self) -> SlotNo {
        SlotNo((self.generation % u64::from(SUPERBLOCKS)) as u32)
    }

    /// Whether both name the same root: they differ in their generation only.
    pub(crate) fn is_same_root(&self, other: &Superblock) -> bool {
        let other = Superblock { generation: self.generation, ..other.clone() };
        *self == other
    }

    pub(crate) fn encode(&self, page: &mut PageBytes) {
        assert!(self.payload.len() <= ROOT_PAYLOAD_LEN_MAX && self.free_set.len() <= FREE_SET_PAGES_MAX);
        page.fill(0);
        put_u64(page, MAGIC_AT, MAGIC);
        put_u32(page, FORMAT_AT, FORMAT_VERSION);
        put_u32(page, PAGE_SIZE_AT, PAGE_SIZE as u32);
        put_u64(page, TENANT_AT, self.tenant.0);
        put_u64(page, GENERATION_AT, self.generation);
        put_u64(page, EPOCH_AT, self.epoch.0);
        put_u64(page, COMMIT_AT, self.commit.0);
        put_u32(page, SLOT_COUNT_AT, self.slot_count);
        put_u32(page, MAP_HEIGHT_AT, self.map_height);
        put_location(page, MAP_ROOT_AT, self.map_root);
        put_u32(page, FREE_SET_LEN_AT, self.free_set.len() as u32);
        put_u32(page, PAYLOAD_LEN_AT, self.payload.len() as u32);
        page[PAYLOAD_AT..PAYLOAD_AT + self.payload.len()].copy_from_slice(&self.payload);
        for (i, location) in self.free_set.iter().enumerate() {
            put_location(page, FREE_SET_AT + 8 * i, Some(*location));
        }
        let checksum = crc32c::crc32c(&page[..CHECKSUM_AT]);
        put_u32(page, CHECKSUM_AT, checksum);
    }

    /// The checksum comes first: only then can the other fields be believed, the format version among them.
    pub(crate) fn decode(page: &PageBytes) -> Result<Superblock, NotASuperblock> {
        let field = |at, what, found, expected| Err(NotASuperblock::Field { at, what, found, expected });
        let (found, expected) = (crc32c::crc32c(&page[..CHECKSUM_AT]), get_u32(page, CHECKSUM_AT));
        if found != expected {
            return Err(NotASuperblock::Checksum { found, expected });
        }
        if get_u64(page, MAGIC_AT) != MAGIC {
            return field(MAGIC_AT, "not a superblock", get_u64(page, MAGIC_AT), MAGIC);
        }
        let format = get_u32(page, FORMAT_AT);
        if format > FORMAT_VERSION {
            return Err(NotASuperblock::NewerFormat { found: format });
        }
        if format != FORMAT_VERSION {
            return field(FORMAT_AT, "unknown format version", format.into(), FORMAT_VERSION.into());
        }
        if get_u32(page, PAGE_SIZE_AT) != PAGE_SIZE as u32 {
            return field(PAGE_SIZE_AT, "page size", get_u32(page, PAGE_SIZE_AT).into(), PAGE_SIZE as u64);
        }
        let free_set_len = get_u32(page, FREE_SET_LEN_AT) as usize;
        if free_set_len > FREE_SET_PAGES_MAX {
            return field(
                FREE_SET_LEN_AT,
                "free set too long",
                free_set_len as u64,
                FREE_SET_PAGES_MAX as u64,
            );
        }
        let payload_len = get_u32(page, PAYLOAD_LEN_AT) as usize;
        if payload_len > ROOT_PAYLOAD_LEN_MAX {
            return field(
                PAYLOAD_LEN_AT,
                "payload too long",
                payload_len as u64,
                ROOT_PAYLOAD_LEN_MAX as u64,
            );
        }
        let map_height = get_u32(page, MAP_HEIGHT_AT);
        if map_height > INNER_LEVELS_MAX {
            return field(MAP_HEIGHT_AT, "map too high", map_height.into(), INNER_LEVELS_MAX.into());
        }
        let free_set: Vec<Location> =
            (0..free_set_len).map_while(|i| get_location(page, FREE_SET_AT + 8 * i)).collect();
        if free_set.len() != free_set_len {
            return field(
                FREE_SET_AT,
                "free set page without a slot",
                free_set.len() as u64,
                free_set_len as u64,
            );
        }
        Ok(Superblock {
            tenant: TenantId(get_u64(page, TENANT_AT)),
            generation: get_u64(page, GENERATION_AT),
            epoch: Epoch(get_u64(page, EPOCH_AT)),
            commit: CommitNo(get_u64(page, COMMIT_AT)),
            slot_count: get_u32(page, SLOT_COUNT_AT),
            map_height,
            map_root: get_location(page, MAP_ROOT_AT),
            free_set,
            payload: page[PAYLOAD_AT..PAYLOAD_AT + payload_len].to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Superblock {
        let location = |n| Location { slot: SlotNo(n), checksum: n * 77 };
        Superblock {
            tenant: TenantId(16),
            generation: 9,
            epoch: Epoch(12),
            commit: CommitNo(4711),
            slot_count: 70_000,
            map_height: 1,
            map_root: Some(location(5)),
            free_set: vec![location(6), location(7)],
            payload: b"next ids and such".to_vec(),
        }
    }

    #[test]
    fn a_superblock_reads_back_as_written() {
        let mut page = [0; PAGE_SIZE];
        example().encode(&mut page);
        assert_eq!(Superblock::decode(&page), Ok(example()));
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let mut page = [0; PAGE_SIZE];
        example().encode(&mut page);
        for bit in (0..PAGE_SIZE * 8).step_by(7) {
            page[bit / 8] ^= 1 << (bit % 8);
            assert!(matches!(Superblock::decode(&page), Err(NotASuperblock::Checksum { .. })));
            page[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn a_newer_format_is_told_from_damage() {
        let mut page = [0; PAGE_SIZE];
        example().encode(&mut page);
        put_u32(&mut page, FORMAT_AT, FORMAT_VERSION + 1);
        let checksum = crc32c::crc32c(&page[..CHECKSUM_AT]);
        put_u32(&mut page, CHECKSUM_AT, checksum);
        assert_eq!(Superblock::decode(&page), Err(NotASuperblock::NewerFormat { found: FORMAT_VERSION + 1 }));
    }
}
