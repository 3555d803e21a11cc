//! Reading all segments of a directory and deciding what they hold.
//!
//! A log is read group by group until one is not whole. If nothing whole follows, in this segment or the next, that is
//! where a crash cut it off: the tail. If something does, bytes in the middle were damaged or lost, and the log is
//! refused: a group is written only when the one before is durable.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};

use base::{ByteCount, CommitNo, Lsn, TenantId};
use env::{Env, File, OpenMode};
use rustc_hash::FxHashMap;

use super::error::RedoError;
use super::format::{
    BLOCK_LEN, FORMAT_VERSION, FRAGMENT_HEADER_LEN, FragmentCommit, GROUP_HEADER_LEN, GROUP_LEN_MAX,
    GroupHeader, RECORD_HEADER_LEN, RecordKind, SEGMENT_HEADER_LEN, SegmentHeader, SegmentId, SegmentUse,
    fragment_part, read_group, read_record, read_segment_header,
};
use super::index::{Extent, Found, FoundFile, GroupPlace, Location, Parts, RedoIndex};
use super::segment;
use crate::Corrupt;

/// What the logs in `dirs` hold, without changing anything: for offline checks. Blocks; reads everything.
pub fn recover(env: &Env, dirs: &[PathBuf]) -> Result<RedoIndex, RedoError> {
    let index = RedoIndex::default();
    scan(env, dirs, &index).map(|_| index)
}

pub(super) struct Scanned {
    pub(super) segments: BTreeMap<SegmentId, ScannedSegment>,
    /// Segments whose headers say they are free, or that were made and never used; and whether both copies say the same.
    pub(super) free: Vec<(PathBuf, bool)>,
    /// Files that a crash came to while they were made, and free ones that were cut.
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
    /// The last whole group of the segment: where it begins. `None` if there is none.
    pub(super) last_group: Option<u64>,
}

/// Reads all logs in `dirs` into `index`.
pub(super) fn scan(env: &Env, dirs: &[PathBuf], index: &RedoIndex) -> Result<Scanned, RedoError> {
    /// Whoever waits for the index is told of the end, whichever it is.
    struct Ending<'a>(&'a RedoIndex, bool);
    impl Drop for Ending<'_> {
        fn drop(&mut self) {
            self.0.end_scan(self.1);
        }
    }
    let mut ending = Ending(index, false);
    let scanned = read_logs(env, dirs, index)?;
    ending.1 = true;
    Ok(scanned)
}

fn read_logs(env: &Env, dirs: &[PathBuf], index: &RedoIndex) -> Result<Scanned, RedoError> {
    let mut scanned = Scanned {
        segments: BTreeMap::new(),
        free: Vec::new(),
        unfinished: Vec::new(),
        tails: Vec::new(),
        next_file: 0,
    };
    for dir in dirs {
        for entry in env.disk.list(dir).map_err(RedoError::io(dir, "listing the directory"))? {
            let unfinished = segment::unfinished_number(&entry.name);
            let Some(number) = segment::file_number(&entry.name).or(unfinished) else { continue };
            scanned.next_file = scanned.next_file.max(number + 1);
            match unfinished {
                Some(_) => scanned.unfinished.push(dir.join(&entry.name)),
                None => identify(env, dir.join(&entry.name), &mut scanned)?,
            }
        }
    }
    let mut reader = LogReader::default();
    let mut before: Option<SegmentId> = None;
    let mut ahead = scanned.segments.values().map(|segment| segment.file.clone()).collect::<VecDeque<_>>();
    for (id, segment) in &mut scanned.segments {
        ahead.pop_front();
        if let Some(next) = ahead.front() {
            next.will_read(0, next.len().unwrap_or(0));
        }
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
        reader.read_segment(*id, segment, index)?;
        index.note_grown();
        before = Some(*id);
    }
    scanned.tails.extend(reader.finish_log());
    for (id, tenant, commit) in reader.pins {
        let segment = scanned.segments.get_mut(&id).expect("the scan read it");
        let pinned = segment.pins.entry(tenant).or_default();
        *pinned = commit.max(*pinned);
    }
    Ok(scanned)
}

/// Opens a file and sorts it by what its headers say.
fn identify(env: &Env, path: PathBuf, scanned: &mut Scanned) -> Result<(), RedoError> {
    let file = match env.disk.open(&path, OpenMode::Read, false) {
        // A free one that the logs' owner, at work meanwhile, has removed since it was listed.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        opened => opened.map_err(RedoError::io(&path, "opening a segment"))?,
    };
    let len = file.len().map_err(RedoError::io(&path, "asking for the length"))?;
    let cut_short = |expected| {
        RedoError::from(Corrupt::at(&path, len, "the segment is shorter than it was made", len, expected))
    };
    let len_min = SEGMENT_HEADER_LEN + BLOCK_LEN as u64;
    if len < len_min {
        return Err(cut_short(len_min));
    }
    let copies = read_headers(&file).map_err(RedoError::io(&path, "reading a segment's header"))?;
    let segment = match copies {
        (SegmentHeader::Newer(found), _) | (_, SegmentHeader::Newer(found)) => {
            return Err(RedoError::NewerFormat { file: path, found, supported: FORMAT_VERSION });
        }
        // The second copy follows when the first is durable, and groups follow the second: so the first is the
        // newer one, and while the second is still zeros there is nothing behind it.
        (SegmentHeader::Valid(segment), _) | (_, SegmentHeader::Valid(segment)) => segment,
        (_, SegmentHeader::Zero) => SegmentUse { id: SegmentId::FREE, first_sequence: 0, len },
        (SegmentHeader::Damaged { found, expected }, _) => {
            let what = "checksum of both copies of the segment's header";
            return Err(Corrupt::at(path, 0, what, found.into(), expected.into()).into());
        }
        (SegmentHeader::Zero, SegmentHeader::Damaged { found, expected }) => {
            let what = "checksum of the segment's header, the first copy being lost";
            return Err(Corrupt::at(path, BLOCK_LEN as u64, what, found.into(), expected.into()).into());
        }
    };
    let SegmentUse { id, first_sequence, .. } = segment;
    if id.log == SegmentId::FREE.log {
        // One that was cut holds nothing, but has less room than groups need.
        if len < segment.len {
            scanned.unfinished.push(path);
        } else {
            let says_so_twice = copies.0 == copies.1;
            scanned.free.push((path, says_so_twice));
        }
        return Ok(());
    }
    if len < segment.len {
        return Err(cut_short(segment.len));
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

/// Both copies of a segment's header. One that the disk cannot read is as good as damaged.
fn read_headers(file: &File) -> io::Result<(SegmentHeader, SegmentHeader)> {
    let mut blocks = vec![0; SEGMENT_HEADER_LEN as usize];
    if file.read_at(&mut blocks, 0).is_ok() {
        let (first, second) = blocks.split_at(BLOCK_LEN);
        return Ok((read_segment_header(first), read_segment_header(second)));
    }
    let mut copy = |number| {
        let block = &mut blocks[..BLOCK_LEN];
        file.read_at(block, number * BLOCK_LEN as u64).map(|()| read_segment_header(block))
    };
    let unreadable = SegmentHeader::Damaged { found: 0, expected: 0 };
    match (copy(0), copy(1)) {
        (Ok(first), Ok(second)) => Ok((first, second)),
        // The second copy is written behind the first: this one was never used.
        (Ok(SegmentHeader::Zero), Err(_)) => Ok((unreadable, SegmentHeader::Zero)),
        (Ok(first), Err(_)) => Ok((first, unreadable)),
        (Err(_), Ok(second)) => Ok((unreadable, second)),
        (Err(error), Err(_)) => Err(error),
    }
}

/// Reads the segments of one log after the other.
#[derive(Default)]
struct LogReader {
    /// Memory of the segment read last, which serves for all.
    window: Vec<u8>,
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

    fn read_segment(
        &mut self,
        id: SegmentId,
        segment: &mut ScannedSegment,
        index: &RedoIndex,
    ) -> Result<(), RedoError> {
        let (path, file) = (segment.path.clone(), segment.file.clone());
        let len = file.len().map_err(RedoError::io(&path, "asking for the length"))?;
        if let (Some(tail), Some((sequence, _))) = (self.tail.take(), self.next)
            && sequence != segment.first_sequence
        {
            return Err(hole(&tail.path, tail.offset));
        }
        self.next.get_or_insert((segment.first_sequence, None));
        let mut bytes = SegmentBytes { file: &file, path: &path, len, window: Default::default(), start: 0 };
        bytes.window = std::mem::take(&mut self.window);
        bytes.window.clear();
        let number = {
            let files = &mut index.add().files;
            // Paid for as it is read here. Whoever replays it reads the system's copy of that, once for each tenant.
            files.push(FoundFile { path: path.clone(), file: Some(file.uncharged()), len });
            u32::try_from(files.len() - 1).expect("a directory's files are few")
        };
        let (mut offset, mut last_group) = (SEGMENT_HEADER_LEN, None);
        loop {
            'groups: loop {
                // Read before the index is borrowed: others read it meanwhile.
                bytes.at(offset)?;
                let mut found = index.add();
                loop {
                    let Some(here) = bytes.in_memory(offset) else { break };
                    let Some(header) = read_group(here, id) else { break 'groups };
                    self.expect_next(&path, offset, header)?;
                    let len = header.len_on_disk();
                    let place = GroupPlace { file: number, len: len as u32, offset, id };
                    let group = &here[..GROUP_HEADER_LEN + header.records_len];
                    self.read_records(group, place, segment, &mut found)?;
                    last_group = Some(offset);
                    offset += len as u64;
                }
            }
            if !bytes.has_group_behind(offset, id)? {
                break;
            }
            // A log that is being written may have passed the reader. Then the group here is whole by now.
            bytes.forget();
            if read_group(bytes.at(offset)?, id).is_none() {
                return Err(hole(&path, offset));
            }
        }
        let torn = bytes.at(offset)?.iter().take(BLOCK_LEN).any(|byte| *byte != 0);
        self.window = bytes.window;
        self.tail = Some(Tail { path, offset, torn, last_group });
        Ok(())
    }

    /// Groups of a log are dense over its segments.
    fn expect_next(&mut self, path: &Path, offset: u64, header: GroupHeader) -> Result<(), RedoError> {
        let (sequence, start) = self.next.expect("set at the segment's start");
        let start = start.unwrap_or(header.start);
        if header.sequence != sequence {
            return Err(hole(path, offset));
        }
        if header.start != start {
            let what = "position of the group";
            return Err(Corrupt::at(path, offset, what, header.start.0, start.0).into());
        }
        self.next = Some((sequence + 1, Some(Lsn(start.0 + header.records_len as u64))));
        Ok(())
    }

    fn read_records(
        &mut self,
        group: &[u8],
        place: GroupPlace,
        segment: &mut ScannedSegment,
        found: &mut Found,
    ) -> Result<(), RedoError> {
        let number = u32::try_from(found.groups.len()).expect("groups are whole blocks");
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
                    self.assemble(commit, extent, header.tenant, header.commit(), found)
                }
            };
            let of_tenant = found.tenants.entry(header.tenant).or_default();
            of_tenant.len += ByteCount(location.len());
            if !of_tenant.commits.insert(header.commit(), location) {
                return Err(damaged("commit is in the logs twice"));
            }
            let pinned = segment.pins.entry(header.tenant).or_default();
            *pinned = header.commit().max(*pinned);
            at = start + header.len;
        }
        found.groups.push(place);
        Ok(())
    }

    /// Where the parts of a commit are, each pinning its segment for the commit.
    fn assemble(
        &mut self,
        commit: FragmentCommit,
        record: Extent,
        tenant: TenantId,
        number: CommitNo,
        found: &Found,
    ) -> Location {
        let parts = self.fragments.remove(&commit.set).unwrap_or_default();
        // A group in the making has no place yet: its segment is pinned by the commit record itself.
        let earlier = parts.iter().filter_map(|(_, part)| found.groups.get(part.group as usize));
        self.pins.extend(earlier.map(|group| (group.id, tenant, number)));
        let dense = parts.iter().map(|(part, _)| *part).eq(0..commit.parts);
        let len: u64 = parts.iter().map(|(_, part)| u64::from(part.len)).sum();
        if dense && len == commit.len {
            let parts = parts.into_iter().map(|(_, part)| part).collect();
            Location::Parts(Box::new(Parts { parts, record }))
        } else {
            Location::PartsFreed(record)
        }
    }
}

fn hole(path: &Path, offset: u64) -> RedoError {
    Corrupt::at(path, offset, "group is damaged or lost although later ones are whole", 0, 1).into()
}

/// Bytes read of a segment at a time: few enough to stay in the processor's cache until they have been looked at.
const WINDOW_LEN: usize = 1 << 20;
const _: () = assert!(WINDOW_LEN > GROUP_LEN_MAX);

/// A segment that is read from its beginning to its end.
struct SegmentBytes<'s> {
    file: &'s File,
    path: &'s Path,
    len: u64,
    window: Vec<u8>,
    /// Where in the segment the window begins.
    start: u64,
}

impl SegmentBytes<'_> {
    /// What is in memory from `offset` on, if a group that begins there is.
    fn in_memory(&self, offset: u64) -> Option<&[u8]> {
        let within = usize::try_from(offset.checked_sub(self.start)?).ok()?;
        let bytes = self.window.get(within..)?;
        let wanted = (self.len - offset).min(GROUP_LEN_MAX as u64);
        (bytes.len() as u64 >= wanted).then_some(bytes)
    }

    /// Whether a whole group begins in a block behind the one at `offset`.
    fn has_group_behind(&mut self, offset: u64, id: SegmentId) -> Result<bool, RedoError> {
        for block in 1..(self.len - offset) / BLOCK_LEN as u64 {
            if read_group(self.at(offset + block * BLOCK_LEN as u64)?, id).is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Has what is read next come from the file.
    fn forget(&mut self) {
        self.window.clear();
    }

    /// The bytes from `offset` on: a group's, or as many as the segment has.
    fn at(&mut self, offset: u64) -> Result<&[u8], RedoError> {
        if self.in_memory(offset).is_none() {
            let end = self.start + self.window.len() as u64;
            // What is there already moves to the front.
            let kept = if (self.start..end).contains(&offset) { (end - offset) as usize } else { 0 };
            let all = self.window.len();
            self.window.copy_within(all - kept.., 0);
            let len = (self.len - offset).min(WINDOW_LEN as u64) as usize;
            self.window.resize(len, 0);
            self.start = offset;
            let read = self.file.read_at(&mut self.window[kept..], offset + kept as u64);
            read.map_err(RedoError::io(self.path, "reading a segment"))?;
        }
        Ok(self.in_memory(offset).expect("just read"))
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::RawFd;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use env::FileOps;

    use super::super::format::{PAYLOAD_LEN_MAX, RecordHeader, seal_group, write_record_header};
    use super::*;

    /// A segment of which the first read finds the beginning written, and each later one all of it.
    struct Growing {
        bytes: Vec<u8>,
        written: AtomicUsize,
    }

    impl FileOps for Growing {
        fn raw_fd(&self) -> Option<RawFd> {
            None
        }
        fn read_some_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
            let written = self.written.swap(self.bytes.len(), Ordering::Relaxed);
            buf.fill(0);
            let there = self.bytes[..written].get(offset as usize..).unwrap_or_default();
            let len = there.len().min(buf.len());
            buf[..len].copy_from_slice(&there[..len]);
            Ok(buf.len().min(self.bytes.len() - offset as usize))
        }
        fn write_some_at(&self, _: &[u8], _: u64) -> io::Result<usize> {
            Err(io::ErrorKind::Unsupported.into())
        }
        fn sync_data(&self) -> io::Result<()> {
            Ok(())
        }
        fn set_len(&self, _: u64) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }
        fn allocate(&self, _: u64, _: u64) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }
        fn len(&self) -> io::Result<u64> {
            Ok(self.bytes.len() as u64)
        }
        fn is_direct(&self) -> bool {
            false
        }
    }

    #[test]
    fn a_log_that_is_written_while_it_is_read_has_no_hole() {
        const GROUPS: u64 = 8;
        let id = SegmentId { log: 7, number: 0 };
        let mut bytes = vec![0; SEGMENT_HEADER_LEN as usize];
        for sequence in 0..GROUPS {
            let mut group = vec![0; GROUP_LEN_MAX];
            let (kind, tenant) = (RecordKind::Whole, TenantId(1));
            let record = RecordHeader { kind, len: PAYLOAD_LEN_MAX, tenant, number: sequence + 1 };
            write_record_header(&mut group[GROUP_HEADER_LEN..], record);
            let records_len = GROUP_LEN_MAX - GROUP_HEADER_LEN;
            let header = GroupHeader { sequence, start: Lsn(sequence * records_len as u64), records_len };
            seal_group(&mut group, header, id);
            bytes.extend(group);
        }
        bytes.resize(bytes.len() + WINDOW_LEN, 0);
        let part_of_the_fourth = SEGMENT_HEADER_LEN as usize + 3 * GROUP_LEN_MAX + 5 * BLOCK_LEN;
        let file = File::new(Arc::new(Growing { bytes, written: AtomicUsize::new(part_of_the_fourth) }));
        let path = PathBuf::from("00000000.redo");
        let mut segment = ScannedSegment { path, file, first_sequence: 0, pins: FxHashMap::default() };
        let index = RedoIndex::default();
        LogReader::default().read_segment(id, &mut segment, &index).expect("all of it is whole");
        assert_eq!(index.last_commit(TenantId(1)), Some(CommitNo(GROUPS)));
        assert_eq!(segment.pins[&TenantId(1)], CommitNo(GROUPS));
    }
}
