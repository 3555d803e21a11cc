//! Making a log durable, a group at a time.

use base::{ByteCount, Nanos};
use env::IoBuf;

use super::error::{LogFailed, RedoError};
use super::format::{BLOCK_LEN, GROUP_HEADER_LEN, GroupHeader, SEGMENT_HEADER_LEN, SegmentId, seal_group};
use super::segment::SegmentFile;
use super::writer::LogWriter;

/// How long a log waits before it looks for space on a full disk again, or for a file descriptor.
const SPACE_RETRY: Nanos = Nanos::from_millis(200);

/// What a [`LogFlusher::flush_once`] did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flushed {
    /// Nothing had been appended.
    Nothing,
    /// One group is durable now; it took this many bytes on disk.
    Group(ByteCount),
}

/// Writes one worker's log. There is one for each log, so one flush is in flight while the next group gathers.
pub struct LogFlusher {
    log: LogWriter,
    id: SegmentId,
    /// The segment being written, and where its next group goes.
    segment: Option<(SegmentFile, u64)>,
    next_sequence: u64,
    /// Set while a write is under way: still set at the next call, the flush was dropped half-way.
    in_flight: bool,
    /// Where a failed write may have left a whole group that nobody was told of.
    doubt: Option<(SegmentFile, u64)>,
}

impl LogFlusher {
    pub(super) fn new(log: LogWriter, log_id: u64) -> LogFlusher {
        let id = SegmentId { log: log_id, number: 0 };
        LogFlusher { log, id, segment: None, next_sequence: 0, in_flight: false, doubt: None }
    }

    /// Writes what has gathered, up to 256 KiB, through the thread's reactor. After `Ok` it survives power loss and those
    /// who waited for it are woken. An error closes the log for good, as does dropping the future before its end.
    pub async fn flush_once(&mut self) -> Result<Flushed, LogFailed> {
        if self.in_flight {
            let dropped = std::io::Error::other("a flush was given up before its end");
            return Err(self.fail(dropped));
        }
        let Some(mut group) = self.log.take_group()? else {
            self.log.dir().note_given_up(self.id, &self.log.take_given_up());
            return Ok(Flushed::Nothing);
        };
        self.in_flight = true;
        let header = GroupHeader {
            sequence: self.next_sequence,
            start: group.start,
            records_len: group.used - GROUP_HEADER_LEN,
        };
        let len = header.len_on_disk();
        let (segment, offset) = match self.segment_with_room(len).await {
            Ok(place) => place,
            Err(failed) => {
                self.in_flight = false;
                return Err(failed);
            }
        };
        group.buf.set_len(len);
        seal_group(&mut group.buf, header, self.id);
        let (end, members, pins) = (group.end(), group.take_members(), std::mem::take(&mut group.pins));
        let write = segment.file.write_all_at_durable(group.buf, offset).shared_by(|| members);
        let (written, _buf) = write.await;
        let next = offset + len as u64;
        let room = segment.len.saturating_sub(next);
        self.log.note_room(room);
        self.segment = Some((segment.clone(), next));
        if let Err(error) = written {
            self.in_flight = false;
            self.log.dir().spoil(self.id);
            self.doubt = Some((segment, offset));
            return Err(self.fail(error));
        }
        // Lost commits are to keep nothing. Before they are told to be durable: roots let go of what is kept for them.
        self.log.dir().note_written(self.id, &pins, room);
        self.next_sequence += 1;
        self.in_flight = false;
        self.log.publish_durable(end);
        Ok(Flushed::Group(ByteCount(len as u64)))
    }

    /// Ends when there is something to flush or to let go of, or at once if the log has failed.
    pub async fn gathered(&self) {
        self.log.gathered().await;
    }

    /// After a failure, sees to it that nothing beyond the log's durable end ever counts: overwrites the head of the group that
    /// failed, durably. `Err` while the disk still fails; try again later.
    ///
    /// After `Ok` a scan of the directory finds what is durable, and [`LogFlusher::resume`] may follow.
    pub async fn seal(&mut self) -> Result<(), RedoError> {
        if self.in_flight {
            let dropped = std::io::Error::other("a flush was given up before its end");
            return Err(RedoError::io(self.log.dir().path(), "sealing a log")(dropped));
        }
        if let Some((segment, offset)) = &self.doubt {
            let written = segment.file.write_all_at_durable(IoBuf::zeroed(BLOCK_LEN), *offset).await.0;
            written.map_err(RedoError::io(&segment.path, "sealing a log"))?;
            self.doubt = None;
        }
        Ok(())
    }

    /// Goes on, after [`LogFlusher::seal`], as a log of another number. Whoever appended to it knows by now that what was
    /// not durable is lost, and has forgotten it: positions go on behind it, and waiting for a lost one is an error for ever.
    ///
    /// # Panics
    /// If the log has not failed, or is not sealed.
    pub fn resume(&mut self) {
        assert!(self.doubt.is_none() && !self.in_flight, "sealed first");
        self.log.dir().close_segments(self.id.log);
        self.id = SegmentId { log: self.log.dir().new_log_id(), number: 0 };
        self.segment = None;
        self.next_sequence = 0;
        self.log.note_room(0);
        self.log.resume();
    }

    /// The log's current segment, or its next one if the group does not fit. Waits while the disk has no room for that one.
    async fn segment_with_room(&mut self, len: usize) -> Result<(SegmentFile, u64), LogFailed> {
        if let Some((segment, offset)) = self.segment.take() {
            if offset + len as u64 <= segment.len {
                return Ok((segment, offset));
            }
            self.id.number += 1;
        }
        let opened = loop {
            match self.log.dir().open_segment(self.id, self.next_sequence).await {
                Err(error) if error.want().is_some() && self.log.dir().waits_for_space() => {
                    self.log.note_room(0);
                    env::sleep(SPACE_RETRY).await;
                }
                opened => break opened,
            }
        };
        match opened {
            Ok(segment) => {
                self.log.note_room(segment.len - SEGMENT_HEADER_LEN);
                Ok((segment, SEGMENT_HEADER_LEN))
            }
            Err(RedoError::Io { file, doing, error }) => {
                let failed = LogFailed::new(&file, doing, error);
                self.log.latch(failed.clone());
                Err(failed)
            }
            Err(other) => Err(self.fail(std::io::Error::other(other))),
        }
    }

    fn fail(&self, error: std::io::Error) -> LogFailed {
        let path = self.segment.as_ref().map(|(segment, _)| segment.path.clone()).unwrap_or_default();
        let failed = LogFailed::new(&path, "writing a group", error);
        self.log.latch(failed.clone());
        failed
    }
}

impl Drop for LogFlusher {
    fn drop(&mut self) {
        // Whoever still waits must not wait for ever.
        let gone = std::io::Error::other("the log's flusher has ended");
        self.log.latch(LogFailed::new(std::path::Path::new(""), "flushing", gone));
        self.log.dir().close_log(self.id.log);
    }
}
