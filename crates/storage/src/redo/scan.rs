//! Reading all segments of a directory and deciding what they hold.
//!
//! A log is read group by group until one is not whole. If nothing whole follows, in this segment or the next, that is
//! where a crash cut it off: the tail. If something does, bytes in the middle were damaged or lost, and the log is
//! refused: a group is written only when the one before is durable.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{CommitNo, Lsn, TenantId};
use env::{Env, File, OpenMode};
use rustc_hash::FxHashMap;

use super::error::RedoError;
use super::format::{
    BLOCK_LEN, FORMAT_VERSION, FRAGMENT_HEADER_LEN, FragmentCommit, GROUP_HEADER_LEN, GroupHeader,
    RECORD_HEADER_LEN, RecordKind, SEGMENT_HEADER_LEN, SegmentHeader, SegmentId, fragment_part, read_group,
    read_record, read_segment_header,
};
use super::index::{Extent, Found, FoundFile, GroupPlace, Location, RedoIndex};
use super::segment;
use crate::Corrupt;

/// What the logs in `dirs` hold, without changing anything: for offline checks. Blocks; reads everything.
pub fn recover(env: &Env, dirs: &[PathBuf]) -> Result<RedoIndex, RedoError> {
    scan(env, dirs).map(|scanned| scanned.index)
}

pub(super) struct Scanned {
    pub(super) index: RedoIndex,
    pub(super) segments: BTreeMap<SegmentId, ScannedSegment>,
    /// Segments whose headers say they are free, or that were made and never used.
    pub(super) free: Vec<PathBuf>,
    /// Files too short to be a segment: a crash came while they were made.
    pub(super) unfinished: Vec<PathBuf>,
    pub(super) tails: Vec<Tail>,
    /// Number for the name of the next file.
    pub(super) next_file: u64,
}

pub(super) struct ScannedSegment {
    pub(super) path: PathBuf,
    file: File,
    first_sequence: u64,
    /// For each tenant with a commit in it, the newest.
    pub(super) pins: FxHashMap<TenantId, CommitNo>,
}

/// The end of a log: the first byte of its last segment that belongs to no whole group.
pub(super) struct Tail {
    pub(super) path: PathBuf,
    pub(super) offset: u64,
    /// Something was written there that is not a whole group.
    pub(super) torn: bool,
}

pub(super) fn scan(env: &Env, dirs: &[PathBuf]) -> Result<Scanned, RedoError> {
    let mut scanned = Scanned {
        index: RedoIndex(Arc::default()),
        segments: BTreeMap::new(),
        free: Vec::new(),
        unfinished: Vec::new(),
        tails: Vec::new(),
        next_file: 0,
    };
    for dir in dirs {
        for entry in env.disk.list(dir).map_err(RedoError::io(dir, "listing the directory"))? {
            let Some(number) = segment::file_number(&entry.name) else { continue };
            scanned.next_file = scanned.next_file.max(number + 1);
            identify(env, dir.join(&entry.name), &mut scanned)?;
        }
    }
    let mut reader = LogReader::default();
    let mut before: Option<SegmentId> = None;
    for (id, segment) in &mut scanned.segments {
        match before {
            Some(last) if last.log == id.log && last.number + 1 != id.number => {
                return Err(Corrupt::at(
                    &segment.path,
                    0,
                    "segment before this one",
                    last.number,
                    id.number - 1,
                )
                .into());
            }
            Some(last) if last.log != id.log => scanned.tails.extend(reader.finish_log()),
            _ => {}
        }
        reader.read_segment(*id, segment)?;
        before = Some(*id);
    }
    scanned.tails.extend(reader.finish_log());
    for (id, tenant, commit) in reader.pins {
        let segment = scanned.segments.get_mut(&id).expect("the scan read it");
        let pinned = segment.pins.entry(tenant).or_default();
        *pinned = commit.max(*pinned);
    }
    scanned.index = RedoIndex(Arc::new(reader.found));
    Ok(scanned)
}

/// Opens a file and sorts it by what its headers say.
fn identify(env: &Env, path: PathBuf, scanned: &mut Scanned) -> Result<(), RedoError> {
    let file =
        env.disk.open(&path, OpenMode::Read, false).map_err(RedoError::io(&path, "opening a segment"))?;
    let len = file.len().map_err(RedoError::io(&path, "asking for the length"))?;
    if len < SEGMENT_HEADER_LEN + BLOCK_LEN as u64 {
        scanned.unfinished.push(path);
        return Ok(());
    }
    let mut blocks = vec![0; SEGMENT_HEADER_LEN as usize];
    file.read_at(&mut blocks, 0).map_err(RedoError::io(&path, "reading a segment's header"))?;
    let copies = (read_segment_header(&blocks[..BLOCK_LEN]), read_segment_header(&blocks[BLOCK_LEN..]));
    let (id, first_sequence) = match copies {
        (SegmentHeader::Newer(found), _) | (_, SegmentHeader::Newer(found)) => {
            return Err(RedoError::NewerFormat { file: path, found, supported: FORMAT_VERSION });
        }
        // The second copy follows when the first is durable, and groups follow the second: so the first is the
        // newer one, and while the second is still zeros there is nothing behind it.
        (SegmentHeader::Valid(id, first), _) | (_, SegmentHeader::Valid(id, first)) => (id, first),
        (_, SegmentHeader::Zero) => (SegmentId::FREE, 0),
        (SegmentHeader::Damaged { found, expected }, _) => {
            let what = "checksum of both copies of the segment's header";
            return Err(Corrupt::at(path, 0, what, found.into(), expected.into()).into());
        }
        (SegmentHeader::Zero, SegmentHeader::Damaged { found, expected }) => {
            let what = "checksum of the segment's header, the first copy being lost";
            return Err(Corrupt::at(path, BLOCK_LEN as u64, what, found.into(), expected.into()).into());
        }
    };
    if id.log == SegmentId::FREE.log {
        scanned.free.push(path);
        return Ok(());
    }
    let segment = ScannedSegment { path, file, first_sequence, pins: FxHashMap::default() };
    if let Some(twin) = scanned.segments.insert(id, segment) {
        return Err(Corrupt::at(
            twin.path,
            0,
            "another file claims to be the same segment",
            id.log,
            id.number,
        )
        .into());
    }
    Ok(())
}

/// Reads the segments of one log after the other.
#[derive(Default)]
struct LogReader {
    found: Found,
    /// Of the segment read last: memory once taken serves for all.
    bytes: Vec<u8>,
    /// Sequence that the log's next group must have, and its position where that is known.
    next: Option<(u64, Option<Lsn>)>,
    tail: Option<Tail>,
    /// Parts of commits not seen yet, by fragment set.
    fragments: FxHashMap<u64, Vec<(u32, Extent)>>,
    /// Commits whose parts keep an earlier segment than the one with the commit record.
    pins: Vec<(SegmentId, TenantId, CommitNo)>,
}

impl LogReader {
    /// Ends the current log; fragments without a commit are no commit.
    fn finish_log(&mut self) -> Option<Tail> {
        self.next = None;
        self.fragments.clear();
        self.tail.take()
    }

    fn read_segment(&mut self, id: SegmentId, segment: &mut ScannedSegment) -> Result<(), RedoError> {
        let path = segment.path.clone();
        let mut bytes = std::mem::take(&mut self.bytes);
        read_whole(&segment.file, &path, &mut bytes)?;
        let (file, len) = (segment.file.clone(), bytes.len() as u64);
        self.found.files.push(FoundFile { path: path.clone(), file, len });
        let file = u32::try_from(self.found.files.len() - 1).expect("a directory's files are few");
        if let (Some(tail), Some((sequence, _))) = (self.tail.take(), self.next)
            && sequence != segment.first_sequence
        {
            return Err(hole(&tail.path, tail.offset));
        }
        self.next.get_or_insert((segment.first_sequence, None));
        let mut offset = SEGMENT_HEADER_LEN as usize;
        while let Some(header) = bytes.get(offset..).and_then(|rest| read_group(rest, id)) {
            self.expect_next(&path, offset, header)?;
            let len = header.len_on_disk();
            let place = GroupPlace { file, len: len as u32, offset: offset as u64, id };
            self.read_records(
                &bytes[offset..offset + GROUP_HEADER_LEN + header.records_len],
                place,
                segment,
            )?;
            offset += len;
        }
        let rest = &bytes[offset..];
        let blocks = rest.len() / BLOCK_LEN;
        for block in 1..blocks {
            if read_group(&rest[block * BLOCK_LEN..], id).is_some() {
                return Err(hole(&path, offset as u64));
            }
        }
        let torn = rest.iter().take(BLOCK_LEN).any(|byte| *byte != 0);
        self.tail = Some(Tail { path, offset: offset as u64, torn });
        self.bytes = bytes;
        Ok(())
    }

    /// Groups of a log are dense over its segments.
    fn expect_next(&mut self, path: &Path, offset: usize, header: GroupHeader) -> Result<(), RedoError> {
        let (sequence, start) = self.next.expect("set at the segment's start");
        let start = start.unwrap_or(header.start);
        if header.sequence != sequence {
            return Err(hole(path, offset as u64));
        }
        if header.start != start {
            let what = "position of the group";
            return Err(Corrupt::at(path, offset as u64, what, header.start.0, start.0).into());
        }
        self.next = Some((sequence + 1, Some(Lsn(start.0 + header.records_len as u64))));
        Ok(())
    }

    fn read_records(
        &mut self,
        group: &[u8],
        place: GroupPlace,
        segment: &mut ScannedSegment,
    ) -> Result<(), RedoError> {
        let number = u32::try_from(self.found.groups.len()).expect("groups are whole blocks");
        let mut at = GROUP_HEADER_LEN;
        while at < group.len() {
            let damaged = |what| {
                RedoError::from(Corrupt::at(&segment.path, place.offset + at as u64, what, at as u64, 0))
            };
            let Some(header) = read_record(&group[at..]) else { return Err(damaged("record header")) };
            let start = at + RECORD_HEADER_LEN;
            let payload = &group[start..start + header.len];
            let extent = Extent { group: number, at: start as u32, len: header.len as u32 };
            let location = match header.kind {
                RecordKind::Whole => Location::Whole(extent),
                RecordKind::Fragment => {
                    let Some(part) = fragment_part(payload) else {
                        return Err(damaged("length of a fragment"));
                    };
                    let skipped = FRAGMENT_HEADER_LEN as u32;
                    let bytes = Extent { at: extent.at + skipped, len: extent.len - skipped, ..extent };
                    self.fragments.entry(header.number).or_default().push((part, bytes));
                    at = start + header.len;
                    continue;
                }
                RecordKind::FragmentCommit => {
                    let Some(commit) = FragmentCommit::read(payload) else {
                        return Err(damaged("fragment commit"));
                    };
                    self.assemble(commit, extent, header.tenant, header.commit())
                }
            };
            let commits = self.found.tenants.entry(header.tenant).or_default();
            if commits.insert(header.commit(), location).is_some() {
                return Err(damaged("commit is in the logs twice"));
            }
            let pinned = segment.pins.entry(header.tenant).or_default();
            *pinned = header.commit().max(*pinned);
            at = start + header.len;
        }
        self.found.groups.push(place);
        Ok(())
    }

    /// Where the parts of a commit are, each pinning its segment for the commit.
    fn assemble(
        &mut self,
        commit: FragmentCommit,
        record: Extent,
        tenant: TenantId,
        number: CommitNo,
    ) -> Location {
        let parts = self.fragments.remove(&commit.set).unwrap_or_default();
        // A group in the making has no place yet: its segment is pinned by the commit record itself.
        let earlier = parts.iter().filter_map(|(_, part)| self.found.groups.get(part.group as usize));
        self.pins.extend(earlier.map(|group| (group.id, tenant, number)));
        let dense = parts.iter().map(|(part, _)| *part).eq(0..commit.parts);
        let len: u64 = parts.iter().map(|(_, part)| u64::from(part.len)).sum();
        if dense && len == commit.len {
            Location::Parts(parts.into_iter().map(|(_, part)| part).collect(), record)
        } else {
            Location::PartsFreed(record)
        }
    }
}

fn hole(path: &Path, offset: u64) -> RedoError {
    Corrupt::at(path, offset, "group is damaged or lost although later ones are whole", 0, 1).into()
}

fn read_whole(file: &File, path: &Path, bytes: &mut Vec<u8>) -> Result<(), RedoError> {
    let len = file.len().map_err(RedoError::io(path, "asking for the length"))?;
    bytes.resize(len as usize, 0);
    file.read_at(bytes, 0).map_err(RedoError::io(path, "reading a segment"))
}
