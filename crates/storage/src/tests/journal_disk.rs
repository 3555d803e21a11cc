//! A disk of one file in memory that keeps a journal, from which every legal image after a power cut can be made.
//!
//! Legal after a cut behind event `k`: everything up to the last sync before it, and of the later writes any subset,
//! each whole or any of its 512-byte sectors.

use std::io;
use std::os::fd::RawFd;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use base::ByteCount;
use env::{Device, DirEntry, DirLock, Disk, Env, File, FileOps, OpenMode};
use rand::Rng;

const SECTOR: usize = 512;

#[derive(Clone)]
pub(super) enum Event {
    Write { offset: usize, bytes: Vec<u8> },
    Extend { len: usize },
    Sync,
}

#[derive(Default)]
pub(super) struct Content {
    exists: bool,
    pub(super) bytes: Vec<u8>,
    /// The bytes when the journal began, all durable.
    base: Vec<u8>,
    pub(super) journal: Vec<Event>,
    /// Writes that succeed before the disk is full.
    writes_left: Option<usize>,
    /// Syncs that succeed before the device fails.
    syncs_left: Option<usize>,
}

/// The one file of a [`JournalDisk`].
#[derive(Clone, Default)]
pub(super) struct JournalFile(Arc<Mutex<Content>>);

impl JournalFile {
    pub(super) fn with_bytes(bytes: Vec<u8>) -> JournalFile {
        JournalFile(Arc::new(Mutex::new(Content { exists: true, bytes, ..Content::default() })))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Content> {
        self.0.lock().expect("no test panics under this lock")
    }

    /// An environment whose disk holds just this file, under every name.
    pub(super) fn env(&self) -> Env {
        let mut env = Env::real_on_epoll();
        env.disk = Arc::new(JournalDisk(self.clone()));
        env
    }

    pub(super) fn begin_journal(&self) {
        let mut content = self.lock();
        content.base = content.bytes.clone();
        content.journal.clear();
    }

    pub(super) fn fail_after(&self, writes: Option<usize>) {
        self.lock().writes_left = writes;
    }

    pub(super) fn fail_sync_after(&self, syncs: Option<usize>) {
        self.lock().syncs_left = syncs;
    }

    /// One legal image after a power cut behind `cut` events of the journal.
    pub(super) fn image_after_cut(&self, cut: usize, rng: &mut impl Rng) -> Vec<u8> {
        let content = self.lock();
        let mut image = content.base.clone();
        let synced =
            content.journal[..cut].iter().rposition(|e| matches!(e, Event::Sync)).map_or(0, |i| i + 1);
        let fate = rng.random_range(0..4);
        for (i, event) in content.journal[..cut].iter().enumerate() {
            let keep = i < synced || fate == 0 || (fate > 1 && rng.random());
            match event {
                Event::Write { offset, bytes } if keep => put(&mut image, *offset, bytes),
                Event::Write { offset, bytes } if fate > 1 => {
                    for (sector, bytes) in bytes.chunks(SECTOR).enumerate() {
                        if rng.random() {
                            put(&mut image, offset + sector * SECTOR, bytes);
                        }
                    }
                }
                Event::Extend { len } if keep && image.len() < *len => image.resize(*len, 0),
                _ => {}
            }
        }
        image
    }
}

fn put(image: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    if image.len() < offset + bytes.len() {
        image.resize(offset + bytes.len(), 0);
    }
    image[offset..offset + bytes.len()].copy_from_slice(bytes);
}

impl FileOps for JournalFile {
    fn raw_fd(&self) -> Option<RawFd> {
        None
    }
    fn read_some_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let content = self.lock();
        let rest = content.bytes.get(offset as usize..).unwrap_or_default();
        let len = rest.len().min(buf.len());
        buf[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }
    fn write_some_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        let mut content = self.lock();
        match &mut content.writes_left {
            Some(0) => return Err(io::ErrorKind::StorageFull.into()),
            Some(left) => *left -= 1,
            None => {}
        }
        put(&mut content.bytes, offset as usize, buf);
        content.journal.push(Event::Write { offset: offset as usize, bytes: buf.to_vec() });
        Ok(buf.len())
    }
    fn sync_data(&self) -> io::Result<()> {
        let mut content = self.lock();
        match &mut content.syncs_left {
            Some(0) => return Err(io::Error::other("the device failed")),
            Some(left) => *left -= 1,
            None => {}
        }
        content.journal.push(Event::Sync);
        Ok(())
    }
    fn set_len(&self, _len: u64) -> io::Result<()> {
        unused()
    }
    fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        let mut content = self.lock();
        let len = (offset + len) as usize;
        let longer = content.bytes.len().max(len);
        content.bytes.resize(longer, 0);
        content.journal.push(Event::Extend { len });
        Ok(())
    }
    fn len(&self) -> io::Result<u64> {
        Ok(self.lock().bytes.len() as u64)
    }
    fn is_direct(&self) -> bool {
        true
    }
}

/// What storage has no need to ask of a disk.
fn unused<T>() -> io::Result<T> {
    Err(io::ErrorKind::Unsupported.into())
}

struct JournalDisk(JournalFile);

impl Disk for JournalDisk {
    fn open(&self, _path: &Path, mode: OpenMode, _direct: bool) -> io::Result<File> {
        let mut content = self.0.lock();
        match mode {
            OpenMode::CreateNew if content.exists => return Err(io::ErrorKind::AlreadyExists.into()),
            OpenMode::Read | OpenMode::ReadWrite if !content.exists => {
                return Err(io::ErrorKind::NotFound.into());
            }
            _ => content.exists = true,
        }
        Ok(File::new(Arc::new(self.0.clone())))
    }
    fn sync_dir(&self, _dir: &Path) -> io::Result<()> {
        Ok(())
    }
    fn list(&self, _dir: &Path) -> io::Result<Vec<DirEntry>> {
        unused()
    }
    fn remove(&self, _path: &Path) -> io::Result<()> {
        unused()
    }
    fn remove_dir_all(&self, _path: &Path) -> io::Result<()> {
        unused()
    }
    fn rename(&self, _from: &Path, _to: &Path) -> io::Result<()> {
        unused()
    }
    fn create_dir_all(&self, _path: &Path) -> io::Result<()> {
        unused()
    }
    fn exists(&self, _path: &Path) -> bool {
        self.0.lock().exists
    }
    fn free_space(&self, _path: &Path) -> io::Result<ByteCount> {
        unused()
    }
    fn device_of(&self, _path: &Path) -> io::Result<Device> {
        unused()
    }
    fn lock_exclusive(&self, _path: &Path) -> io::Result<DirLock> {
        unused()
    }
    fn write_small_atomic(&self, _path: &Path, _bytes: &[u8], _unix_mode: u32) -> io::Result<()> {
        unused()
    }
}
