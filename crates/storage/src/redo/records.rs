//! Reading a tenant's records from the logs, in commit order and many at a time.
//!
//! Neighbouring groups are read together, and a record of hundreds of megabytes comes in the parts that it was logged in, so
//! that memory once taken serves for all of it.

use base::{CommitNo, TenantId};

use super::error::RedoError;
use super::format::{GROUP_LEN_MAX, SEGMENT_HEADER_LEN, read_group};
use super::index::{Extent, FoundFile, GroupPlace, Location, RedoIndex};
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

    /// Moves what is behind the first `len` bytes into `rest`, an empty batch.
    ///
    /// # Panics
    /// If a record ends there.
    pub fn split_off(&mut self, len: usize, rest: &mut RecordBatch) {
        assert!(self.ends.last().is_none_or(|(_, end)| *end <= len), "a whole record is left over");
        assert!(rest.bytes.is_empty() && rest.ends.is_empty(), "the rest begins a batch");
        if len == 0 {
            // A change that is longer than batches is passed on many times.
            std::mem::swap(&mut self.bytes, &mut rest.bytes);
            return;
        }
        rest.bytes.extend_from_slice(&self.bytes[len..]);
        self.bytes.truncate(len);
    }

    /// Forgets everything, and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Takes over everything of `beginning`, in which no record ends, behind which this batch goes on.
    ///
    /// # Panics
    /// If this batch is not empty, or a record ends.
    pub fn begin_with(&mut self, beginning: &mut RecordBatch) {
        assert!(self.bytes.is_empty() && self.ends.is_empty() && beginning.ends.is_empty());
        std::mem::swap(&mut self.bytes, &mut beginning.bytes);
    }
}

/// A part of a record, and where it is.
struct Piece {
    commit: CommitNo,
    extent: Extent,
    place: GroupPlace,
    /// The record ends with it.
    ends: bool,
}

/// A tenant's records in commit order.
pub struct TenantRecords {
    index: RedoIndex,
    tenant: TenantId,
    next: CommitNo,
    /// Parts of the next commit's record that were read.
    parts_done: usize,
    files: Vec<FoundFile>,
    pieces: Vec<Piece>,
    window: Window,
}

impl TenantRecords {
    pub(super) fn new(index: RedoIndex, tenant: TenantId, next: CommitNo) -> TenantRecords {
        TenantRecords {
            index,
            tenant,
            next,
            parts_done: 0,
            files: Vec::new(),
            pieces: Vec::new(),
            window: Window::default(),
        }
    }

    /// Adds what comes next to `batch` until that has `len_max` bytes or more, something in any case; false if there was nothing
    /// to add. Blocks while it reads.
    pub fn read_into(&mut self, batch: &mut RecordBatch, len_max: usize) -> Result<bool, RedoError> {
        self.find_pieces(len_max.saturating_sub(batch.bytes.len()).max(1));
        let pieces = std::mem::take(&mut self.pieces);
        for piece in &pieces {
            let file = &self.files[piece.place.file as usize];
            batch.push(piece.commit, self.window.bytes(file, piece)?, piece.ends);
        }
        let any = !pieces.is_empty();
        self.pieces = pieces;
        Ok(any)
    }

    /// Waits for more of a log that is being read; false if there will be none.
    pub async fn wait_for_more(&self) -> bool {
        self.index.wait_for_commit(self.tenant, self.next).await
    }

    /// Notes the pieces of the next `len_max` bytes, as far as one commit follows the other.
    fn find_pieces(&mut self, len_max: usize) {
        self.pieces.clear();
        let found = self.index.found();
        let known = self.files.len();
        self.files.extend_from_slice(&found.files[known..]);
        let Some(of) = found.tenants.get(&self.tenant) else { return };
        let mut len = 0;
        for (commit, location) in of.commits.since(self.next) {
            let parts = match location {
                Location::Whole(extent) => std::slice::from_ref(extent),
                Location::Parts(of) => &of.parts[..],
                Location::PartsFreed(_) => return,
            };
            if commit != self.next {
                return;
            }
            for (i, extent) in parts.iter().enumerate().skip(self.parts_done) {
                if len >= len_max {
                    return;
                }
                len += extent.len as usize;
                let (ends, place) = (i + 1 == parts.len(), found.groups[extent.group as usize]);
                self.pieces.push(Piece { commit, extent: *extent, place, ends });
                self.parts_done += 1;
            }
            self.parts_done = 0;
            self.next = self.next.next();
        }
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
    fn bytes(&mut self, file: &FoundFile, piece: &Piece) -> Result<&[u8], RedoError> {
        let Piece { extent, place, .. } = piece;
        let (within, len) = (self.offset..self.offset + self.len as u64, u64::from(place.len));
        if place.file != self.file || place.offset < within.start || place.offset + len > within.end {
            self.read(file, place)?;
        }
        let start = (place.offset - self.offset) as usize;
        let group = &self.bytes[start..start + place.len as usize];
        if self.checked != Some(extent.group) {
            if read_group(group, place.id).is_none() {
                // It was whole when the directory was opened.
                let what = "group changed since it was scanned";
                return Err(Corrupt::at(&file.path, place.offset, what, 0, 1).into());
            }
            self.checked = Some(extent.group);
        }
        Ok(&group[extent.at as usize..(extent.at + extent.len) as usize])
    }

    /// Reads a group, and what follows it if the group follows what was read before.
    fn read(&mut self, file: &FoundFile, place: &GroupPlace) -> Result<(), RedoError> {
        let wanted = place.len as usize;
        let before = self.offset..=self.offset + self.len as u64;
        let follows =
            place.file == self.file && before.contains(&place.offset) || place.offset == SEGMENT_HEADER_LEN;
        let rest = file.len.saturating_sub(place.offset).min(WINDOW_LEN as u64) as usize;
        let len = if follows { rest.max(wanted) } else { wanted };
        (self.len, self.checked) = (0, None);
        let Some(of_segment) = &file.file else {
            // Nobody is to want it any more.
            return Err(Corrupt::at(&file.path, place.offset, "the segment was let go of", 0, 1).into());
        };
        if self.bytes.len() < len {
            self.bytes.resize(len, 0);
        }
        let mut read = of_segment.read_at(&mut self.bytes[..len], place.offset).map(|()| len);
        if read.is_err() && len > wanted {
            // What cannot be read may be what nobody asked for.
            read = of_segment.read_at(&mut self.bytes[..wanted], place.offset).map(|()| wanted);
        }
        self.len = read.map_err(RedoError::io(&file.path, "reading a group"))?;
        (self.file, self.offset) = (place.file, place.offset);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_longer_than_batches_is_not_copied_from_one_to_the_next() {
        let (mut batch, mut rest) = (RecordBatch::default(), RecordBatch::default());
        batch.push(CommitNo(1), &[7; 1000], false);
        let bytes = batch.bytes().as_ptr();
        for _ in 0..3 {
            batch.split_off(0, &mut rest);
            assert!(batch.bytes().is_empty());
            batch.begin_with(&mut rest);
            assert!(rest.bytes().is_empty());
            assert_eq!((batch.bytes().as_ptr(), batch.bytes().len()), (bytes, 1000));
        }
        batch.push(CommitNo(1), &[8; 10], true);
        batch.split_off(1010, &mut rest);
        assert_eq!((batch.bytes().len(), rest.bytes().len()), (1010, 0));
    }
}
