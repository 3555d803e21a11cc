//! What a recording of a program's changes of files consists of: an event for each, appended to one file when it happens.
//!
//! `real::recorder` writes it, `sim::Replay` reads it. A write is told of when it begins and when it has ended, and so is a sync: what had ended
//! before the sync began is durable once that has ended well. An event counts when it is there whole, and what ended is told of before whoever
//! waits for it goes on: who was answered and looks then how long the recording is may rely on all before that place.
//!
//! | bytes of an event | what |
//! | --- | --- |
//! | 0 | its kind |
//! | 1 | 1 if the file was made, the write is a durable one, the end a good one |
//! | 2..4 | [`MARK`] |
//! | 4..8 | a file's descriptor |
//! | 8..16 | an operation's tag: no other one under way has it |
//! | 16..24 | an offset, a length, or how many bytes were written |
//! | 24..28 | how many bytes follow |
//! | 28.. | these: what is written, or a path, or two with a zero between them |
//!
//! Numbers are little-endian. Paths are absolute.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// In each event, to find out that what is read is none.
const MARK: [u8; 2] = *b"RH";
const HEAD_LEN: usize = 28;
const BETWEEN_PATHS: &[u8] = &[0];

const OPENED: u8 = 1;
const CLOSED: u8 = 2;
const WRITE_BEGUN: u8 = 3;
const SYNC_BEGUN: u8 = 4;
const ENDED: u8 = 5;
const LEN_SET: u8 = 6;
const ALLOCATED: u8 = 7;
const REMOVED: u8 = 8;
const DIR_REMOVED: u8 = 9;
const DIRS_MADE: u8 = 10;
const DIR_SYNCED: u8 = 11;
const RENAMED: u8 = 12;

/// One change, or its beginning or end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Event<'a> {
    Opened {
        fd: u32,
        made: bool,
        path: &'a Path,
    },
    Closed {
        fd: u32,
    },
    WriteBegun {
        tag: u64,
        fd: u32,
        offset: u64,
        durable: bool,
        bytes: &'a [u8],
    },
    SyncBegun {
        tag: u64,
        fd: u32,
    },
    /// Of a write or a sync: how many bytes it wrote, `None` if it failed.
    Ended {
        tag: u64,
        done: Option<u64>,
    },
    LenSet {
        fd: u32,
        len: u64,
    },
    /// The file is at least as long now.
    Allocated {
        fd: u32,
        end: u64,
    },
    Removed {
        path: &'a Path,
    },
    /// With all that it held.
    DirRemoved {
        path: &'a Path,
    },
    /// With those above it, all of them durable.
    DirsMade {
        path: &'a Path,
    },
    DirSynced {
        path: &'a Path,
    },
    Renamed {
        from: &'a Path,
        to: &'a Path,
    },
}

#[derive(Clone, Copy, Default)]
struct Head {
    kind: u8,
    flag: bool,
    fd: u32,
    tag: u64,
    number: u64,
    /// Of what follows.
    len: u32,
}

impl Head {
    /// Bytes of the event.
    fn event_len(&self) -> u64 {
        HEAD_LEN as u64 + u64::from(self.len)
    }

    fn append_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[self.kind, u8::from(self.flag)]);
        out.extend_from_slice(&MARK);
        out.extend_from_slice(&self.fd.to_le_bytes());
        out.extend_from_slice(&self.tag.to_le_bytes());
        out.extend_from_slice(&self.number.to_le_bytes());
        out.extend_from_slice(&self.len.to_le_bytes());
    }

    fn of(bytes: &[u8; HEAD_LEN]) -> Option<Head> {
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|n| bytes[at + n]));
        let long = |at: usize| u64::from_le_bytes(std::array::from_fn(|n| bytes[at + n]));
        let head = Head {
            kind: bytes[0],
            flag: bytes[1] == 1,
            fd: word(4),
            tag: long(8),
            number: long(16),
            len: word(24),
        };
        (bytes[2..4] == MARK).then_some(head)
    }
}

fn bytes_of(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

fn path_of(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

impl<'a> Event<'a> {
    pub(crate) fn append_to(&self, out: &mut Vec<u8>) {
        let begun = out.len();
        let of_kind = |kind| Head { kind, ..Head::default() };
        let of_file = |kind, fd| Head { fd, ..of_kind(kind) };
        let nothing: &[u8] = &[];
        let (mut head, parts) = match *self {
            Event::Opened { fd, made, path } => {
                (Head { flag: made, ..of_file(OPENED, fd) }, [bytes_of(path), nothing, nothing])
            }
            Event::Closed { fd } => (of_file(CLOSED, fd), [nothing; 3]),
            Event::WriteBegun { tag, fd, offset, durable, bytes } => {
                let head = Head { flag: durable, tag, number: offset, ..of_file(WRITE_BEGUN, fd) };
                (head, [bytes, nothing, nothing])
            }
            Event::SyncBegun { tag, fd } => (Head { tag, ..of_file(SYNC_BEGUN, fd) }, [nothing; 3]),
            Event::Ended { tag, done } => {
                let (flag, number) = (done.is_some(), done.unwrap_or(0));
                (Head { flag, tag, number, ..of_kind(ENDED) }, [nothing; 3])
            }
            Event::LenSet { fd, len } => (Head { number: len, ..of_file(LEN_SET, fd) }, [nothing; 3]),
            Event::Allocated { fd, end } => (Head { number: end, ..of_file(ALLOCATED, fd) }, [nothing; 3]),
            Event::Removed { path } => (of_kind(REMOVED), [bytes_of(path), nothing, nothing]),
            Event::DirRemoved { path } => (of_kind(DIR_REMOVED), [bytes_of(path), nothing, nothing]),
            Event::DirsMade { path } => (of_kind(DIRS_MADE), [bytes_of(path), nothing, nothing]),
            Event::DirSynced { path } => (of_kind(DIR_SYNCED), [bytes_of(path), nothing, nothing]),
            Event::Renamed { from, to } => (of_kind(RENAMED), [bytes_of(from), BETWEEN_PATHS, bytes_of(to)]),
        };
        let len = parts.iter().map(|part| part.len()).sum::<usize>();
        head.len = u32::try_from(len).expect("no write is of 4 GiB");
        head.append_to(out);
        parts.iter().for_each(|part| out.extend_from_slice(part));
        debug_assert_eq!((out.len() - begun) as u64, head.event_len());
    }

    fn of(head: &Head, bytes: &'a [u8]) -> Option<Event<'a>> {
        let Head { kind, flag, fd, tag, number, .. } = *head;
        let path = path_of(bytes);
        Some(match kind {
            OPENED => Event::Opened { fd, made: flag, path },
            CLOSED => Event::Closed { fd },
            WRITE_BEGUN => Event::WriteBegun { tag, fd, offset: number, durable: flag, bytes },
            SYNC_BEGUN => Event::SyncBegun { tag, fd },
            ENDED => Event::Ended { tag, done: flag.then_some(number) },
            LEN_SET => Event::LenSet { fd, len: number },
            ALLOCATED => Event::Allocated { fd, end: number },
            REMOVED => Event::Removed { path },
            DIR_REMOVED => Event::DirRemoved { path },
            DIRS_MADE => Event::DirsMade { path },
            DIR_SYNCED => Event::DirSynced { path },
            RENAMED => {
                let between = bytes.iter().position(|byte| *byte == 0)?;
                Event::Renamed { from: path_of(&bytes[..between]), to: path_of(&bytes[between + 1..]) }
            }
            _ => return None,
        })
    }
}

/// A recording that is read, from any place at which an event begins.
pub(crate) struct Recording {
    file: fs::File,
    len: u64,
}

impl Recording {
    pub(crate) fn open(path: &Path) -> io::Result<Recording> {
        let file = fs::File::open(path)?;
        let len = file.metadata()?.len();
        Ok(Recording { file, len })
    }

    /// The event at `at`, which is read into `bytes`, and where the next one begins; `None` where there is none, or not the whole of it.
    pub(crate) fn event<'b>(&self, at: u64, bytes: &'b mut Vec<u8>) -> io::Result<Option<(Event<'b>, u64)>> {
        let Some(head) = self.head(at)? else { return Ok(None) };
        bytes.resize(head.len as usize, 0);
        self.file.read_exact_at(bytes, at + HEAD_LEN as u64)?;
        let event = Event::of(&head, bytes).ok_or_else(|| no_event(at))?;
        Ok(Some((event, at + head.event_len())))
    }

    /// Of each sync that ended well: where it begins, and the place behind its end.
    pub(crate) fn syncs(&self) -> io::Result<BTreeMap<u64, u64>> {
        let (mut under_way, mut ended, mut at) = (BTreeMap::new(), BTreeMap::new(), 0);
        while let Some(head) = self.head(at)? {
            let next = at + head.event_len();
            if head.kind == SYNC_BEGUN {
                under_way.insert(head.tag, at);
            } else if head.kind == ENDED
                && let Some(begun) = under_way.remove(&head.tag)
                && head.flag
            {
                ended.insert(begun, next);
            }
            at = next;
        }
        Ok(ended)
    }

    fn head(&self, at: u64) -> io::Result<Option<Head>> {
        if at + HEAD_LEN as u64 > self.len {
            return Ok(None);
        }
        let mut bytes = [0; HEAD_LEN];
        self.file.read_exact_at(&mut bytes, at)?;
        let head = Head::of(&bytes).ok_or_else(|| no_event(at))?;
        Ok(Some(head).filter(|head| at + head.event_len() <= self.len))
    }
}

fn no_event(at: u64) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("offset {at} of the recording begins no event"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_event_is_read_as_it_was_written_and_none_that_is_cut() {
        let (path, to) = (Path::new("/d/a file"), Path::new("/d/other"));
        let events = [
            Event::Opened { fd: 7, made: true, path },
            Event::WriteBegun { tag: 8, fd: 7, offset: 1 << 40, durable: true, bytes: b"written" },
            Event::SyncBegun { tag: 1, fd: 7 },
            Event::Ended { tag: 8, done: Some(7) },
            Event::Ended { tag: 1, done: None },
            Event::LenSet { fd: 7, len: 5 },
            Event::Allocated { fd: 7, end: 1 << 24 },
            Event::Closed { fd: 7 },
            Event::Renamed { from: path, to },
            Event::DirSynced { path: to },
            Event::DirsMade { path },
            Event::Removed { path: to },
            Event::DirRemoved { path },
        ];
        let mut bytes = Vec::new();
        events.iter().for_each(|event| event.append_to(&mut bytes));
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), &bytes[..bytes.len() - 1]).unwrap();
        let recording = Recording::open(file.path()).unwrap();
        let (mut at, mut read) = (0, Vec::new());
        for event in &events[..events.len() - 1] {
            let (found, next) = recording.event(at, &mut read).unwrap().expect("it is there");
            assert_eq!(found, *event);
            at = next;
        }
        assert!(recording.event(at, &mut read).unwrap().is_none(), "its last byte is not there");
        assert!(recording.event(at - 1, &mut read).is_err());
    }

    #[test]
    fn a_sync_counts_from_where_its_good_end_is_told_of() {
        let events = [
            Event::SyncBegun { tag: 8, fd: 3 },
            Event::SyncBegun { tag: 16, fd: 3 },
            Event::Ended { tag: 16, done: None },
            Event::Ended { tag: 8, done: Some(0) },
            Event::SyncBegun { tag: 8, fd: 3 },
        ];
        let mut bytes = Vec::new();
        events.iter().for_each(|event| event.append_to(&mut bytes));
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), &bytes).unwrap();
        let syncs = Recording::open(file.path()).unwrap().syncs().unwrap();
        assert_eq!(syncs, BTreeMap::from([(0, 4 * HEAD_LEN as u64)]));
    }
}
