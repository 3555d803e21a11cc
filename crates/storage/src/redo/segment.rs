//! The file of one segment.

use std::io;
use std::path::{Path, PathBuf};

use base::IoClass;
use env::{Env, File, IoBuf, OpenMode};

use super::error::RedoError;
use super::format::{BLOCK_LEN, SegmentId, SegmentUse, write_segment_header};

const SUFFIX: &str = ".redo";
/// Follows the name of a file that has not got its whole length yet.
const UNFINISHED: &str = ".new";
/// Bytes of zeros written at a time while a new segment is filled: as many as a checkpoint writes at once. On a volume with a limit all
/// others wait for as many I/Os as the largest request has.
const ZERO_LEN: usize = 256 << 10;

/// An open segment.
#[derive(Clone)]
pub(super) struct SegmentFile {
    pub(super) path: PathBuf,
    pub(super) file: File,
    pub(super) len: u64,
}

pub(super) fn file_name(number: u64) -> String {
    format!("{number:08}{SUFFIX}")
}

/// The number in a segment's file name; `None` for other files.
pub(super) fn file_number(name: &str) -> Option<u64> {
    name.strip_suffix(SUFFIX)?.parse().ok()
}

/// The number in the name of a file whose making was cut off.
pub(super) fn unfinished_number(name: &str) -> Option<u64> {
    file_number(name.strip_suffix(UNFINISHED)?)
}

impl SegmentFile {
    /// Makes a file of `len` bytes that read as zeros, its name durable. Blocks. It has its name only when its length is
    /// durable, so a segment that is shorter was cut.
    pub(super) fn create(env: &Env, dir: &Path, number: u64, len: u64) -> Result<SegmentFile, RedoError> {
        let path = dir.join(file_name(number));
        let unfinished = dir.join(file_name(number) + UNFINISHED);
        let file = env
            .disk
            .open(&unfinished, OpenMode::CreateNew, true)
            .map_err(RedoError::io(&unfinished, "creating a segment"))?;
        // Space is taken now: a group that finds none would end the log.
        let sized = file.allocate(0, len).and_then(|()| file.sync_data_blocking());
        if let Err(error) = sized.and_then(|()| env.disk.rename(&unfinished, &path)) {
            // It would stay in the way of the space it was made for.
            drop(env.disk.remove(&unfinished));
            return Err(RedoError::io(&path, "allocating a segment")(error));
        }
        if let Err(error) = env.disk.sync_dir(dir) {
            drop(env.disk.remove(&path));
            return Err(RedoError::io(dir, "syncing the directory")(error));
        }
        Ok(SegmentFile { path, file, len })
    }

    /// Opens an existing segment to write to it. Blocks.
    pub(super) fn open(env: &Env, path: &Path) -> Result<SegmentFile, RedoError> {
        let file = env
            .disk
            .open(path, OpenMode::ReadWrite, true)
            .map_err(RedoError::io(path, "opening a segment"))?;
        let len = file.len().map_err(RedoError::io(path, "asking for the length"))?;
        Ok(SegmentFile { path: path.to_owned(), file, len })
    }

    /// Removes a segment that no log uses.
    pub(super) fn remove(&self, env: &Env) -> Result<(), RedoError> {
        env.disk.remove(&self.path).map_err(RedoError::io(&self.path, "removing a segment"))
    }

    /// Writes zeros over all of it, so that later writes change no metadata of the file.
    pub(super) async fn fill_with_zeros(&self) -> io::Result<()> {
        let mut zeros = IoBuf::zeroed(ZERO_LEN);
        let mut offset = 0;
        while offset < self.len {
            zeros.set_len(ZERO_LEN.min((self.len - offset) as usize));
            let (result, back) = self.file.write_all_at(zeros, offset).of_class(IoClass::Bulk).await;
            result?;
            zeros = back;
            offset += zeros.len() as u64;
        }
        self.file.sync_data().await
    }

    /// Makes it the segment `id`, whose first group will have the sequence `first_sequence`. The second copy is written when the first is durable, so that one of them is whole
    /// at any moment; nothing may be written behind them before this has ended.
    pub(super) async fn write_headers(&self, id: SegmentId, first_sequence: u64) -> io::Result<()> {
        for copy in 0..2 {
            let block = self.header(id, first_sequence);
            self.file.write_all_at_durable(block, copy * BLOCK_LEN as u64).await.0?;
        }
        Ok(())
    }

    /// As [`SegmentFile::write_headers`]. Blocks.
    pub(super) fn write_headers_blocking(&self, id: SegmentId, first_sequence: u64) -> io::Result<()> {
        for copy in 0..2 {
            self.file.write_at(&self.header(id, first_sequence), copy * BLOCK_LEN as u64)?;
            self.file.sync_data_blocking()?;
        }
        Ok(())
    }

    fn header(&self, id: SegmentId, first_sequence: u64) -> IoBuf {
        let mut block = IoBuf::recycled(BLOCK_LEN);
        write_segment_header(&mut block, SegmentUse { id, first_sequence, len: self.len });
        block
    }
}
