//! Puts the slots of an image on a disk as a tenant's data file, superblocks last.

use std::path::Path;

use base::{ByteCount, IoClass, SlotNo, TenantId};
use env::{Env, FileFuture, IoBuf, OpenMode};
use futures::stream::{FuturesUnordered, StreamExt};

use super::IMAGE_HEAD_LEN;
use crate::file_error::FileError;
use crate::file_reader::{FileReader, offset_of};

/// Writes in flight.
const WRITES_MAX: usize = 8;

/// A data file that is being made. Until [`ImageFile::finish`] it has no superblock, so it is none; whoever gives it up
/// removes it.
pub struct ImageFile {
    reader: FileReader,
    len: ByteCount,
    /// Bytes appended so far; the superblocks, which come last, counted as there.
    at: u64,
    writes: FuturesUnordered<FileFuture>,
}

impl ImageFile {
    /// Makes the file at `path`, which must not exist, with room for all its `len` bytes. Blocks.
    ///
    /// # Errors
    /// No space or no permission; a file may have been left.
    pub fn create(env: &Env, path: &Path, tenant: TenantId, len: ByteCount) -> Result<ImageFile, FileError> {
        let failed = |doing| move |error| FileError::Io { file: path.to_path_buf(), doing, error };
        let file =
            env.disk.open(path, OpenMode::CreateNew, true).map_err(failed("creating the data file"))?;
        file.allocate(0, len.0).map_err(failed("making room for the data file"))?;
        let reader = FileReader { file, path: path.to_path_buf(), tenant };
        Ok(ImageFile { reader, len, at: IMAGE_HEAD_LEN as u64, writes: FuturesUnordered::new() })
    }

    /// Writes whole slots behind what was appended before, beginning with the first one after the superblocks. Waits
    /// while too many writes are in flight. Nothing is durable yet.
    ///
    /// # Errors
    /// The disk refuses.
    pub async fn append(&mut self, slots: IoBuf) -> Result<(), FileError> {
        let (from, len) = (self.at, slots.len() as u64);
        assert!(from + len <= self.len.0, "more than the file was made for");
        self.at += len;
        self.write(slots, from).await
    }

    /// Writes one slot anew.
    ///
    /// # Errors
    /// The disk refuses.
    pub async fn rewrite(&mut self, slot: SlotNo, bytes: IoBuf) -> Result<(), FileError> {
        assert!(offset_of(slot) < self.at, "rewritten before it was written");
        // Two writes of one place may land in either order.
        self.quiesce().await?;
        self.write(bytes, offset_of(slot)).await
    }

    async fn write(&mut self, bytes: IoBuf, at: u64) -> Result<(), FileError> {
        if bytes.is_empty() {
            return Ok(());
        }
        while self.writes.len() >= WRITES_MAX {
            self.wait_one().await?;
        }
        self.writes.push(self.reader.file.write_all_at(bytes, at).of_class(IoClass::Bulk));
        // An operation starts when it is first polled.
        match futures::poll!(self.writes.next()) {
            std::task::Poll::Ready(Some((result, _))) => self.written(result),
            _ => Ok(()),
        }
    }

    /// Syncs the slots, then writes the superblocks. After `Ok` the data file and its name survive power loss; after a
    /// crash before that, opening it says [`FileError::NotADataFile`], or it is whole.
    ///
    /// # Errors
    /// The disk refuses.
    ///
    /// # Panics
    /// If not every slot was appended.
    pub async fn finish(mut self, env: &Env, head: IoBuf) -> Result<(), FileError> {
        assert!(self.at == self.len.0 && head.len() == IMAGE_HEAD_LEN, "{} of {}", self.at, self.len.0);
        self.quiesce().await?;
        let synced = self.reader.file.sync_data().await;
        synced.map_err(|error| self.reader.io_error("syncing pages", error))?;
        let (result, _) = self.reader.file.write_all_at_durable(head, 0).await;
        result.map_err(|error| self.reader.io_error("writing the superblocks", error))?;
        if let Some(dir) = self.reader.path.parent() {
            let synced = env.disk.sync_dir(dir);
            synced.map_err(|error| self.reader.io_error("syncing the directory", error))?;
        }
        Ok(())
    }

    /// Waits until nothing is in flight, also after a failure: only then is the file to be removed.
    ///
    /// # Errors
    /// A write failed.
    pub async fn quiesce(&mut self) -> Result<(), FileError> {
        let mut outcome = Ok(());
        while !self.writes.is_empty() {
            outcome = outcome.and(self.wait_one().await);
        }
        outcome
    }

    async fn wait_one(&mut self) -> Result<(), FileError> {
        match self.writes.next().await {
            Some((result, _)) => self.written(result),
            None => Ok(()),
        }
    }

    fn written(&self, result: std::io::Result<()>) -> Result<(), FileError> {
        result.map_err(|error| self.reader.io_error("writing pages", error))
    }
}
