//! Reading a tenant's records from the logs, in commit order and many at a time.
//!
//! Neighbouring groups are read together, and a record of hundreds of megabytes comes in the parts that it was logged in, so
//! that memory once taken serves for all of it.

use base::{CommitNo, TenantId};

use super::error::RedoError;
use super::format::{GROUP_LEN_MAX, SEGMENT_HEADER_LEN, read_group};
use super::index::{Extent, GroupPlace, Location, RedoIndex};
use crate::Corrupt;

/// Bytes read at once where a tenant's groups follow each other.
const WINDOW_LEN: usize = 1 << 20;
const _: () = assert!(WINDOW_LEN >= GROUP_LEN_MAX);

/// Records of one tenant, one behind the other. The last one may end in what is added next.
#[derive(Default)]
pub struct RecordBatch {
    bytes: Vec<u8>,
    ends: Vec<(CommitNo, usize)>,
}

impl RecordBatch {
    /// Adds bytes to the record of `commit`, the last ones of it if it `ends` with them.
    pub fn push(&mut self, commit: CommitNo, bytes: &[u8], ends: bool) {
        self.bytes.extend_from_slice(bytes);
        if ends {
            self.ends.push((commit, self.bytes.len()));
        }
    }

    /// The bytes of all records.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The commits whose records end in the batch, and where.
    pub fn ends(&self) -> &[(CommitNo, usize)] {
        &self.ends
    }

    /// Forgets the first `len` bytes.
    ///
    /// # Panics
    /// If a record ends behind them.
    pub fn consume(&mut self, len: usize) {
        assert!(self.ends.last().is_none_or(|(_, end)| *end <= len), "a whole record is left over");
        self.ends.clear();
        if len > 0 {
            self.bytes.drain(..len);
        }
    }
}

/// A tenant's records in commit order.
pub struct TenantRecords {
    index: RedoIndex,
    tenant: TenantId,
    next: CommitNo,
    /// Parts of the next commit's record that were read.
    parts_done: usize,
    window: Window,
}

impl TenantRecords {
    pub(super) fn new(index: RedoIndex, tenant: TenantId, next: CommitNo) -> TenantRecords {
        TenantRecords { index, tenant, next, parts_done: 0, window: Window::default() }
    }

    /// Adds what comes next to `batch` until that has `len_max` bytes or more, something in any case; false once all was
    /// added. Blocks while it reads.
    pub fn read_into(&mut self, batch: &mut RecordBatch, len_max: usize) -> Result<bool, RedoError> {
        let index = self.index.clone();
        let Some(commits) = index.0.tenants.get(&self.tenant) else { return Ok(false) };
        let len_max = len_max.max(batch.bytes.len() + 1);
        for (commit, location) in commits.range(self.next..) {
            assert_eq!(*commit, self.next, "a gap was refused before");
            let parts = match location {
                Location::Whole(extent) => std::slice::from_ref(extent),
                Location::Parts(parts, _) => parts,
                Location::PartsFreed(_) => unreachable!("records_after refuses it"),
            };
            loop {
                if batch.bytes.len() >= len_max {
                    return Ok(true);
                }
                let ends = self.parts_done + 1 >= parts.len();
                let part = parts.get(self.parts_done).map(|part| self.window.bytes(&index, *part));
                batch.push(*commit, part.transpose()?.unwrap_or(&[]), ends);
                self.parts_done += 1;
                if ends {
                    break;
                }
            }
            self.parts_done = 0;
            self.next = self.next.next();
        }
        Ok(false)
    }
}

/// What was read last of a segment.
#[derive(Default)]
struct Window {
    bytes: Vec<u8>,
    file: u32,
    offset: u64,
    len: usize,
    /// The group in it whose checksum was found right last.
    checked: Option<u32>,
}

impl Window {
    fn bytes(&mut self, index: &RedoIndex, extent: Extent) -> Result<&[u8], RedoError> {
        let place = &index.0.groups[extent.group as usize];
        let (within, len) = (self.offset..self.offset + self.len as u64, u64::from(place.len));
        if place.file != self.file || place.offset < within.start || place.offset + len > within.end {
            self.read(index, place)?;
        }
        let start = (place.offset - self.offset) as usize;
        let group = &self.bytes[start..start + place.len as usize];
        if self.checked != Some(extent.group) {
            if read_group(group, place.id).is_none() {
                // It was whole when the directory was opened.
                let path = &index.0.files[place.file as usize].path;
                return Err(
                    Corrupt::at(path, place.offset, "group changed since it was scanned", 0, 1).into()
                );
            }
            self.checked = Some(extent.group);
        }
        Ok(&group[extent.at as usize..(extent.at + extent.len) as usize])
    }

    /// Reads a group, and what follows it if the group follows what was read before.
    fn read(&mut self, index: &RedoIndex, place: &GroupPlace) -> Result<(), RedoError> {
        let file = &index.0.files[place.file as usize];
        let wanted = place.len as usize;
        let read = self.offset..=self.offset + self.len as u64;
        let follows =
            place.file == self.file && read.contains(&place.offset) || place.offset == SEGMENT_HEADER_LEN;
        let len = match follows {
            true => (file.len.saturating_sub(place.offset)).min(WINDOW_LEN as u64) as usize,
            false => wanted,
        };
        let len = len.max(wanted);
        self.len = 0;
        self.checked = None;
        if self.bytes.len() < len {
            self.bytes.resize(len, 0);
        }
        let mut read = file.file.read_at(&mut self.bytes[..len], place.offset).map(|()| len);
        if read.is_err() && len > wanted {
            // What cannot be read may be what nobody asked for.
            read = file.file.read_at(&mut self.bytes[..wanted], place.offset).map(|()| wanted);
        }
        self.len = read.map_err(RedoError::io(&file.path, "reading a group"))?;
        (self.file, self.offset) = (place.file, place.offset);
        Ok(())
    }
}
