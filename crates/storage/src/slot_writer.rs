//! Writes pages to free slots, neighbours together, several writes in flight.

use std::task::Poll;

use base::limits::PAGE_SIZE;
use base::{ByteCount, IoClass, Nanos, SlotNo};
use env::{FileFuture, IoBuf};
use futures::stream::{FuturesUnordered, StreamExt};

use crate::PageBytes;
use crate::checkpoint::Hurry;
use crate::file_error::{FileError, is_full_disk};
use crate::file_reader::{FileReader, offset_of};
use crate::slots::{FileFull, Slots};
use crate::version::{Location, MapShared};
use crate::yield_now::yield_now;

/// Pages of one write at most, and pages between two yields: 256 KiB, about 60 microseconds of copying and checksums.
const BATCH_PAGES: usize = 32;

/// Pages in flight: 2 MiB of buffers at most.
const IN_FLIGHT_MAX: usize = 256;

/// Writes in flight: where free slots lie apart each is of one page, and the disk wants several of them.
const WRITES_MAX: usize = 64;

/// Collects pages for consecutive slots into one write. Nothing written is durable before the file is synced.
pub(crate) struct SlotWriter<'a> {
    reader: &'a FileReader,
    pub(crate) slots: &'a mut Slots,
    /// Whose pages they are.
    of: &'a MapShared,
    batch: IoBuf,
    batch_first: SlotNo,
    batch_pages: usize,
    writes: FuturesUnordered<FileFuture>,
    /// Pages in `writes`.
    in_flight: usize,
    /// Pages taken since others had their turn.
    since_yield: usize,
    pub(crate) pages_written: u64,
    /// Pause after each [`BATCH_PAGES`], in nanoseconds a byte of them.
    pause_a_byte: u64,
    /// Asked for, there are no pauses.
    hurry: Hurry,
}

impl<'a> SlotWriter<'a> {
    /// Writes at most `rate` bytes a second until there is `hurry`; `None` for as fast as the disk.
    pub(crate) fn new(
        reader: &'a FileReader,
        slots: &'a mut Slots,
        of: &'a MapShared,
        rate: Option<ByteCount>,
        hurry: Hurry,
    ) -> SlotWriter<'a> {
        let pause_a_byte = rate.map_or(0, |rate| Nanos::from_secs(1).0 / rate.0.max(1));
        SlotWriter {
            reader,
            slots,
            of,
            batch: IoBuf::empty(),
            batch_first: SlotNo(0),
            batch_pages: 0,
            writes: FuturesUnordered::new(),
            in_flight: 0,
            since_yield: 0,
            pages_written: 0,
            pause_a_byte,
            hurry,
        }
    }

    /// Writes one page, whose bytes `fill` sets, to a free slot.
    pub(crate) async fn write(&mut self, fill: impl FnOnce(&mut PageBytes)) -> Result<Location, FileError> {
        let slot = self.slots.allocate().map_err(|FileFull| self.full())?;
        self.write_to(slot, fill).await
    }

    /// As [`SlotWriter::write`], for a page that only a snapshot in memory reaches.
    pub(crate) async fn write_for_snapshot(
        &mut self,
        fill: impl FnOnce(&mut PageBytes),
    ) -> Result<Location, FileError> {
        let slot = self.slots.allocate_for_snapshot().map_err(|FileFull| self.full())?;
        self.write_to(slot, fill).await
    }

    /// Writes one page to a slot that was allocated for it.
    pub(crate) async fn write_to(
        &mut self,
        slot: SlotNo,
        fill: impl FnOnce(&mut PageBytes),
    ) -> Result<Location, FileError> {
        let continues = slot.0 == self.batch_first.0 + self.batch_pages as u32;
        if self.batch_pages > 0 && (!continues || self.batch.len() == self.batch_pages * PAGE_SIZE) {
            self.submit().await?;
        }
        if self.since_yield == BATCH_PAGES {
            if self.of.is_closed() {
                // No root will have what is written, and whoever opens the file anew waits for the end.
                return Err(FileError::Gone { file: self.reader.path.clone() });
            }
            self.breathe().await;
        }
        if self.batch_pages == 0 {
            let pages = 1 + self.slots.free_after(slot, BATCH_PAGES as u32 - 1) as usize;
            self.batch = IoBuf::recycled(pages * PAGE_SIZE);
            self.batch_first = slot;
        }
        let at = self.batch_pages * PAGE_SIZE;
        let page: &mut PageBytes = (&mut self.batch[at..at + PAGE_SIZE]).try_into().expect("one page");
        fill(page);
        // The checksum is of the copy that goes to the disk, not of the bytes it was made from.
        let checksum = crc32c::crc32c(page);
        self.batch_pages += 1;
        self.since_yield += 1;
        self.pages_written += 1;
        Ok(Location { slot, checksum })
    }

    /// Starts the write of the batch, waiting first if too many are in flight.
    async fn submit(&mut self) -> Result<(), FileError> {
        let mut batch = std::mem::take(&mut self.batch);
        let pages = std::mem::take(&mut self.batch_pages);
        batch.set_len(pages * PAGE_SIZE);
        self.grow_file()?;
        while self.writes.len() >= WRITES_MAX || self.in_flight + pages > IN_FLIGHT_MAX {
            self.wait_one().await?;
        }
        self.in_flight += pages;
        let write = self.reader.file.write_all_at(batch, offset_of(self.batch_first));
        self.writes.push(write.of_class(IoClass::Upkeep));
        // An operation starts when it is first polled.
        if let Poll::Ready(Some(written)) = futures::poll!(self.writes.next()) {
            self.note_written(written)?;
        }
        Ok(())
    }

    /// Lets others have their turn, and waits as long as the rate asks for.
    async fn breathe(&mut self) {
        let len = std::mem::take(&mut self.since_yield) * PAGE_SIZE;
        match self.pause_a_byte {
            0 => yield_now().await,
            _ if self.hurry.is_asked() => yield_now().await,
            pause => env::sleep(Nanos(pause * len as u64)).await,
        }
    }

    fn note_written(&mut self, (result, batch): (std::io::Result<()>, IoBuf)) -> Result<(), FileError> {
        self.in_flight -= batch.len() / PAGE_SIZE;
        result.map_err(|error| self.reader.io_error("writing pages", error))
    }

    /// Makes room for all slots. Blocks for a metadata operation, once for each step of growth. Where the disk has less than that, each
    /// write takes what it needs.
    fn grow_file(&mut self) -> Result<(), FileError> {
        let (from, to) = (self.slots.extent, self.slots.count());
        if from < to {
            let (file, len) = (&self.reader.file, offset_of(SlotNo(to - from)));
            let grown = match file.allocate(offset_of(SlotNo(from)), len) {
                Err(error) if is_full_disk(&error) => file.set_len(offset_of(SlotNo(to))),
                grown => grown,
            };
            grown.map_err(|error| self.reader.io_error("growing the file", error))?;
            self.slots.extent = to;
        }
        Ok(())
    }

    async fn wait_one(&mut self) -> Result<(), FileError> {
        match self.writes.next().await {
            Some(written) => self.note_written(written),
            None => Ok(()),
        }
    }

    /// Writes what is left; on return nothing is in flight and the file reaches to its last slot.
    pub(crate) async fn finish(&mut self) -> Result<(), FileError> {
        self.grow_file()?;
        if self.batch_pages > 0 {
            self.submit().await?;
        }
        self.breathe().await;
        while !self.writes.is_empty() {
            self.wait_one().await?;
        }
        Ok(())
    }

    /// Waits until nothing is in flight, after a failure: only then may the slots be given to others.
    pub(crate) async fn quiesce(&mut self) {
        while self.writes.next().await.is_some() {}
    }

    fn full(&self) -> FileError {
        FileError::Full { file: self.reader.path.clone() }
    }
}
