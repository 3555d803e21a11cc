//! Puts down what is done to files, in the form of [`crate::recording`], so that a power cut can be replayed from it.
//!
//! Names, and lengths that are set, change under the recorder's lock, so that their order in the recording is the true one. Writes and syncs go on
//! beside each other: their beginning is put down before it, and their end after it and before anybody is told.

use std::fs;
use std::io::{self, Write as _};
use std::os::fd::RawFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, absolute};
use std::sync::{Arc, Mutex, MutexGuard};

use base::ByteCount;

use super::disk::{SystemDisk, SystemFile, replacement_of};
use crate::disk::{Device, DirEntry, DirLock, Disk, File, FileOps, OpenMode};
use crate::reactor::op::Request;
use crate::recording::Event;

/// Stands for the descriptor of a small file while it is written.
const SMALL_FILE: u32 = u32::MAX;
/// Tags of operations that block are odd, since those of a ring's are addresses.
const BLOCKING_TAG_FIRST: u64 = 1;

pub(super) struct Recorder(Mutex<Tape>);

struct Tape {
    file: fs::File,
    /// Of one event, kept for its capacity.
    event: Vec<u8>,
    /// Of the next operation that blocks.
    tag: u64,
}

impl Tape {
    /// Appends an event, by one write as a rule.
    fn put(&mut self, event: &Event<'_>) {
        self.event.clear();
        event.append_to(&mut self.event);
        if let Err(error) = self.file.write_all(&self.event) {
            // Every replay of what follows would be wrong.
            eprintln!("rowhouse: the recording of what is written cannot be written itself: {error}");
            std::process::abort();
        }
    }

    fn next_tag(&mut self) -> u64 {
        self.tag += 2;
        self.tag - 2
    }
}

impl Recorder {
    pub(super) fn create(path: &Path) -> io::Result<Recorder> {
        let file = fs::OpenOptions::new().append(true).create_new(true).mode(0o600).open(path)?;
        Ok(Recorder(Mutex::new(Tape { file, event: Vec::new(), tag: BLOCKING_TAG_FIRST })))
    }

    fn tape(&self) -> MutexGuard<'_, Tape> {
        self.0.lock().expect("no panic under this lock")
    }

    /// An operation is about to be handed to a ring, which has no other one of this tag.
    pub(super) fn ring_begins(&self, tag: u64, request: &Request) {
        debug_assert!(tag.is_multiple_of(2), "odd ones are of operations that block");
        match request {
            Request::Write { file, buf, offset, done, durable } => self.tape().put(&Event::WriteBegun {
                tag,
                fd: descriptor(&**file),
                offset: *offset + *done as u64,
                durable: *durable,
                bytes: &buf[*done..],
            }),
            Request::Sync { file } => {
                self.tape().put(&Event::SyncBegun { tag, fd: descriptor(&**file) });
            }
            _ => {}
        }
    }

    /// What a ring says of an operation's end.
    pub(super) fn ring_ended(&self, tag: u64, request: &Request, result: i32) {
        if matches!(request, Request::Write { .. } | Request::Sync { .. }) {
            self.ended(tag, u64::try_from(result).ok());
        }
    }

    /// Puts down a blocking operation's beginning.
    fn begins<'e>(&self, event: impl FnOnce(u64) -> Event<'e>) -> u64 {
        let mut tape = self.tape();
        let tag = tape.next_tag();
        tape.put(&event(tag));
        tag
    }

    fn ended(&self, tag: u64, done: Option<u64>) {
        self.tape().put(&Event::Ended { tag, done });
    }

    /// Does what is one event, with nothing put down meanwhile.
    fn whole<T>(&self, event: &Event<'_>, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let mut tape = self.tape();
        let done = act()?;
        tape.put(event);
        Ok(done)
    }
}

fn descriptor(file: &dyn FileOps) -> u32 {
    let fd = file.raw_fd().expect("a file of the system");
    u32::try_from(fd).expect("an open descriptor is not negative")
}

/// The system's files, with a recorder.
pub(super) struct RecordingDisk(pub(super) Arc<Recorder>);

impl Disk for RecordingDisk {
    fn open(&self, path: &Path, mode: OpenMode, direct: bool) -> io::Result<File> {
        let full = absolute(path)?;
        let mut tape = self.0.tape();
        let made = !SystemDisk.exists(path);
        let file = SystemFile::open(path, mode, direct)?;
        tape.put(&Event::Opened { fd: descriptor(&file), made, path: &full });
        drop(tape);
        Ok(File::new(Arc::new(RecordedFile { file, recorder: self.0.clone() })))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        SystemDisk.list(dir)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.0.whole(&Event::Removed { path: &absolute(path)? }, || SystemDisk.remove(path))
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        self.0.whole(&Event::DirRemoved { path: &absolute(path)? }, || SystemDisk.remove_dir_all(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (full_from, full_to) = (absolute(from)?, absolute(to)?);
        let event = Event::Renamed { from: &full_from, to: &full_to };
        self.0.whole(&event, || SystemDisk.rename(from, to))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.0.whole(&Event::DirsMade { path: &absolute(path)? }, || SystemDisk.create_dir_all(path))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.0.whole(&Event::DirSynced { path: &absolute(dir)? }, || SystemDisk.sync_dir(dir))
    }

    fn exists(&self, path: &Path) -> bool {
        SystemDisk.exists(path)
    }

    fn free_space(&self, path: &Path) -> io::Result<ByteCount> {
        SystemDisk.free_space(path)
    }

    fn device_of(&self, path: &Path) -> io::Result<Device> {
        SystemDisk.device_of(path)
    }

    /// Nothing of a lock's file has to survive.
    fn lock_exclusive(&self, path: &Path) -> io::Result<DirLock> {
        SystemDisk.lock_exclusive(path)
    }

    /// Put down step by step, so that the power may fail at each.
    fn write_small_atomic(&self, path: &Path, bytes: &[u8], unix_mode: u32) -> io::Result<()> {
        let to = absolute(path)?;
        let from = replacement_of(&to);
        let dir = to.parent().unwrap_or(&to);
        let mut tape = self.0.tape();
        let had_rest = SystemDisk.exists(&from);
        SystemDisk.write_small_atomic(path, bytes, unix_mode)?;
        let (fd, tag) = (SMALL_FILE, tape.next_tag());
        if had_rest {
            tape.put(&Event::Removed { path: &from });
        }
        for event in [
            Event::Opened { fd, made: true, path: &from },
            Event::WriteBegun { tag, fd, offset: 0, durable: false, bytes },
            Event::Ended { tag, done: Some(bytes.len() as u64) },
            Event::SyncBegun { tag, fd },
            Event::Ended { tag, done: Some(0) },
            Event::Closed { fd },
            Event::Renamed { from: &from, to: &to },
            Event::DirSynced { path: dir },
        ] {
            tape.put(&event);
        }
        Ok(())
    }
}

struct RecordedFile {
    file: SystemFile,
    recorder: Arc<Recorder>,
}

impl RecordedFile {
    fn fd(&self) -> u32 {
        descriptor(&self.file)
    }

    fn write_begins(&self, bytes: &[u8], offset: u64, durable: bool) -> u64 {
        let fd = self.fd();
        self.recorder.begins(|tag| Event::WriteBegun { tag, fd, offset, durable, bytes })
    }
}

impl FileOps for RecordedFile {
    fn raw_fd(&self) -> Option<RawFd> {
        self.file.raw_fd()
    }
    fn read_some_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_some_at(buf, offset)
    }
    fn write_some_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        let tag = self.write_begins(buf, offset, false);
        let written = self.file.write_some_at(buf, offset);
        self.recorder.ended(tag, written.as_ref().ok().map(|len| *len as u64));
        written
    }
    fn write_durable_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        let tag = self.write_begins(buf, offset, true);
        let written = self.file.write_durable_at(buf, offset);
        self.recorder.ended(tag, written.as_ref().ok().map(|()| buf.len() as u64));
        written
    }
    fn will_read(&self, offset: u64, len: u64) {
        self.file.will_read(offset, len);
    }
    fn sync_data(&self) -> io::Result<()> {
        let fd = self.fd();
        let tag = self.recorder.begins(|tag| Event::SyncBegun { tag, fd });
        let synced = self.file.sync_data();
        self.recorder.ended(tag, synced.as_ref().ok().map(|()| 0));
        synced
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.recorder.whole(&Event::LenSet { fd: self.fd(), len }, || self.file.set_len(len))
    }
    fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        let event = Event::Allocated { fd: self.fd(), end: offset + len };
        self.recorder.whole(&event, || self.file.allocate(offset, len))
    }
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
    fn is_direct(&self) -> bool {
        self.file.is_direct()
    }
}

impl Drop for RecordedFile {
    /// Before the descriptor is another file's.
    fn drop(&mut self) {
        self.recorder.tape().put(&Event::Closed { fd: self.fd() });
    }
}
