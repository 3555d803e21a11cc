//! The bytes of a segment: its header, group headers and record headers. Tables are in `docs/redo-log.md`.
//!
//! All numbers are little-endian.

use base::{CommitNo, Lsn, TenantId};

/// The format this program writes, and the newest it reads.
pub const FORMAT_VERSION: u32 = 1;

/// Unit of every write: what O_DIRECT needs, and no smaller than a device's own block.
pub(super) const BLOCK_LEN: usize = env::IO_ALIGN;
/// Both copies of a segment's header, a block each; the groups follow.
pub(super) const SEGMENT_HEADER_LEN: u64 = 2 * BLOCK_LEN as u64;
/// Most bytes of a group, its header included.
pub(super) const GROUP_LEN_MAX: usize = 256 << 10;
pub(super) const GROUP_HEADER_LEN: usize = 64;
pub(super) const RECORD_HEADER_LEN: usize = 24;
/// Longest payload one group can take.
pub(super) const PAYLOAD_LEN_MAX: usize = GROUP_LEN_MAX - GROUP_HEADER_LEN - RECORD_HEADER_LEN;
/// Bytes before the part of a record in a fragment: number of the part.
pub(super) const FRAGMENT_HEADER_LEN: usize = 4;
/// Payload of the record that makes fragments a commit: set, number of parts, bytes of all parts.
pub(super) const FRAGMENT_COMMIT_LEN: usize = 20;
const _: () = assert!(GROUP_LEN_MAX.is_multiple_of(BLOCK_LEN) && GROUP_HEADER_LEN < BLOCK_LEN);

const SEGMENT_MAGIC: [u8; 8] = *b"RHREDO\r\n";
/// Where the checksum of a segment's header is.
const SEGMENT_HEADER_CRC: usize = 48;
const GROUP_MAGIC: u32 = u32::from_le_bytes(*b"RHgr");

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}
fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// Whose bytes a segment holds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(super) struct SegmentId {
    /// Random number of the log; 0 marks a segment that is free.
    pub(super) log: u64,
    /// Position of the segment in its log, from 0; its generation, as no two uses of a file share a `SegmentId`.
    pub(super) number: u64,
}

impl SegmentId {
    pub(super) const FREE: SegmentId = SegmentId { log: 0, number: 0 };

    /// Where checksums of the segment's groups begin, so that bytes of an earlier use never look alive.
    fn seed(self) -> u32 {
        crc32c::crc32c_append(crc32c::crc32c(&self.log.to_le_bytes()), &self.number.to_le_bytes())
    }
}

/// What a header says of the segment's present use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SegmentUse {
    pub(super) id: SegmentId,
    /// Sequence of its first group.
    pub(super) first_sequence: u64,
    /// Bytes of the file, headers included; 0 where a build wrote it that did not say.
    pub(super) len: u64,
}

/// What a header block says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SegmentHeader {
    /// Nothing was ever written here.
    Zero,
    Valid(SegmentUse),
    Newer(u32),
    Damaged {
        found: u32,
        expected: u32,
    },
}

pub(super) fn write_segment_header(block: &mut [u8], segment: SegmentUse) {
    block.fill(0);
    block[..8].copy_from_slice(&SEGMENT_MAGIC);
    block[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    block[16..24].copy_from_slice(&segment.id.log.to_le_bytes());
    block[24..32].copy_from_slice(&segment.id.number.to_le_bytes());
    block[32..40].copy_from_slice(&segment.first_sequence.to_le_bytes());
    block[40..48].copy_from_slice(&segment.len.to_le_bytes());
    let crc = crc32c::crc32c(&block[..SEGMENT_HEADER_CRC]);
    block[SEGMENT_HEADER_CRC..SEGMENT_HEADER_CRC + 4].copy_from_slice(&crc.to_le_bytes());
}

pub(super) fn read_segment_header(block: &[u8]) -> SegmentHeader {
    if block.iter().all(|byte| *byte == 0) {
        return SegmentHeader::Zero;
    }
    // The version is judged only under a right checksum, which every version keeps at this place.
    let (found, expected) = (u32_at(block, SEGMENT_HEADER_CRC), crc32c::crc32c(&block[..SEGMENT_HEADER_CRC]));
    if block[..8] != SEGMENT_MAGIC || found != expected {
        return SegmentHeader::Damaged { found, expected };
    }
    match u32_at(block, 8) {
        version if version > FORMAT_VERSION => SegmentHeader::Newer(version),
        _ => {
            let id = SegmentId { log: u64_at(block, 16), number: u64_at(block, 24) };
            SegmentHeader::Valid(SegmentUse { id, first_sequence: u64_at(block, 32), len: u64_at(block, 40) })
        }
    }
}

/// What a group header says besides the identity of its segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct GroupHeader {
    /// Number of the group in its log, dense from 0.
    pub(super) sequence: u64,
    /// Position of its first record.
    pub(super) start: Lsn,
    /// Bytes of its records.
    pub(super) records_len: usize,
}

impl GroupHeader {
    /// Bytes the group takes in its segment.
    pub(super) fn len_on_disk(&self) -> usize {
        (GROUP_HEADER_LEN + self.records_len).next_multiple_of(BLOCK_LEN)
    }
}

/// Fills in the header of a group whose records are in `group` behind it.
pub(super) fn seal_group(group: &mut [u8], header: GroupHeader, id: SegmentId) {
    let end = GROUP_HEADER_LEN + header.records_len;
    group[end..].fill(0);
    group[..GROUP_HEADER_LEN].fill(0);
    group[..4].copy_from_slice(&GROUP_MAGIC.to_le_bytes());
    group[4..8].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    group[8..16].copy_from_slice(&id.log.to_le_bytes());
    group[16..24].copy_from_slice(&id.number.to_le_bytes());
    group[24..32].copy_from_slice(&header.sequence.to_le_bytes());
    group[32..40].copy_from_slice(&header.start.0.to_le_bytes());
    group[40..44].copy_from_slice(&(header.records_len as u32).to_le_bytes());
    let crc = group_crc(&group[..end], id);
    group[44..48].copy_from_slice(&crc.to_le_bytes());
}

/// Over header and records, the checksum's own field left out.
fn group_crc(group: &[u8], id: SegmentId) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c_append(id.seed(), &group[..44]), &group[48..])
}

/// The group that begins `bytes`, if it is a whole and undamaged one of the segment `id`.
pub(super) fn read_group(bytes: &[u8], id: SegmentId) -> Option<GroupHeader> {
    if bytes.len() < BLOCK_LEN
        || u32_at(bytes, 0) != GROUP_MAGIC
        || u64_at(bytes, 8) != id.log
        || u64_at(bytes, 16) != id.number
    {
        return None;
    }
    let records_len = u32_at(bytes, 40) as usize;
    let header = GroupHeader { sequence: u64_at(bytes, 24), start: Lsn(u64_at(bytes, 32)), records_len };
    let end = GROUP_HEADER_LEN + records_len;
    if end > GROUP_LEN_MAX || header.len_on_disk() > bytes.len() {
        return None;
    }
    (group_crc(&bytes[..end], id) == u32_at(bytes, 44)).then_some(header)
}

/// What a record is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RecordKind {
    /// All of a commit.
    Whole,
    /// A part of a commit too long for one record; its commit number is the number of the fragment set.
    Fragment,
    /// The commit whose bytes are in a set of fragments.
    FragmentCommit,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RecordHeader {
    pub(super) kind: RecordKind,
    pub(super) len: usize,
    pub(super) tenant: TenantId,
    /// Commit number, or number of the fragment set.
    pub(super) number: u64,
}

impl RecordHeader {
    pub(super) fn commit(&self) -> CommitNo {
        CommitNo(self.number)
    }
}

pub(super) fn write_record_header(out: &mut [u8], header: RecordHeader) {
    let kind: u32 = match header.kind {
        RecordKind::Whole => 1,
        RecordKind::Fragment => 2,
        RecordKind::FragmentCommit => 3,
    };
    out[..4].copy_from_slice(&kind.to_le_bytes());
    out[4..8].copy_from_slice(&(header.len as u32).to_le_bytes());
    out[8..16].copy_from_slice(&header.tenant.0.to_le_bytes());
    out[16..24].copy_from_slice(&header.number.to_le_bytes());
}

/// The record that begins `bytes`; `None` if they hold no whole record of a known kind.
pub(super) fn read_record(bytes: &[u8]) -> Option<RecordHeader> {
    if bytes.len() < RECORD_HEADER_LEN {
        return None;
    }
    let kind = match u32_at(bytes, 0) {
        1 => RecordKind::Whole,
        2 => RecordKind::Fragment,
        3 => RecordKind::FragmentCommit,
        _ => return None,
    };
    let len = u32_at(bytes, 4) as usize;
    if RECORD_HEADER_LEN + len > bytes.len() {
        return None;
    }
    Some(RecordHeader { kind, len, tenant: TenantId(u64_at(bytes, 8)), number: u64_at(bytes, 16) })
}

/// Which fragments make up a commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct FragmentCommit {
    pub(super) set: u64,
    pub(super) parts: u32,
    pub(super) len: u64,
}

impl FragmentCommit {
    pub(super) fn to_bytes(self) -> [u8; FRAGMENT_COMMIT_LEN] {
        let mut bytes = [0; FRAGMENT_COMMIT_LEN];
        bytes[..8].copy_from_slice(&self.set.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.parts.to_le_bytes());
        bytes[12..].copy_from_slice(&self.len.to_le_bytes());
        bytes
    }

    pub(super) fn read(bytes: &[u8]) -> Option<FragmentCommit> {
        (bytes.len() == FRAGMENT_COMMIT_LEN).then(|| FragmentCommit {
            set: u64_at(bytes, 0),
            parts: u32_at(bytes, 8),
            len: u64_at(bytes, 12),
        })
    }
}

/// The number of a fragment's part, which begins its payload.
pub(super) fn fragment_part(payload: &[u8]) -> Option<u32> {
    (payload.len() >= FRAGMENT_HEADER_LEN).then(|| u32_at(payload, 0))
}
