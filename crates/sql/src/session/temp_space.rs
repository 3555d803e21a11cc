//! A tenant's temporary files: what operators of the analytical path put aside when their memory does not do, and rows that sessions keep.
//!
//! One for each tenant, shared by its queries on all threads; the count is what all their files hold. It is charged before
//! bytes are written and refunded when a file is dropped. Over the limit, or on a full disk, the statement that wanted to
//! write fails with 53100, and nobody else notices. Files have no names that outlive the server: the directory is emptied
//! at start.
//!
//! They bypass the page cache where the file system can, so that what is charged is what the device does, and none of it is memory
//! beside the server's own: a file is written in pieces of [`WRITE_LEN`], its last one filled up with zeros to whole blocks, and
//! read in whole blocks.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use base::{ByteCount, SqlError, SqlResult, SqlState};
use env::{Disk, Env, File, IO_ALIGN, IoBuf, OpenMode, Threads};

/// No limit, as the counter has it.
const NO_LIMIT: u64 = u64::MAX;

/// Where a tenant's temporary files are, and how many bytes they have.
pub struct TempSpace {
    disk: Arc<dyn Disk>,
    threads: Arc<dyn Threads>,
    /// Names of files begin with it.
    prefix: PathBuf,
    max: AtomicU64,
    used: AtomicU64,
    next_file: AtomicU64,
}

impl TempSpace {
    /// Files are made as `PREFIX.N`, in a directory that exists. No limit at first.
    pub fn new(env: Env, prefix: PathBuf) -> TempSpace {
        let (max, used, next_file) = (AtomicU64::new(NO_LIMIT), AtomicU64::new(0), AtomicU64::new(0));
        TempSpace { disk: env.disk, threads: env.threads, prefix, max, used, next_file }
    }

    /// Sets the limit, for all that is written from here on; `None` for none.
    pub fn set_max(&self, max: Option<ByteCount>) {
        self.max.store(max.map_or(NO_LIMIT, |max| max.0), Ordering::Relaxed);
    }

    /// Bytes in the files there are now.
    pub fn used(&self) -> ByteCount {
        ByteCount(self.used.load(Ordering::Relaxed))
    }

    fn charge(&self, len: u64) -> SqlResult<()> {
        let max = self.max.load(Ordering::Relaxed);
        let within = |used: u64| used.checked_add(len).filter(|after| *after <= max);
        match self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, within) {
            Ok(_) => Ok(()),
            Err(used) => Err(SqlError::new(
                SqlState::DISK_FULL,
                format!("temporary files would pass the tenant's temp_max of {}", ByteCount(max)),
            )
            .with_detail(format!(
                "They have {}, and {} more are wanted.",
                ByteCount(used),
                ByteCount(len)
            ))),
        }
    }

    /// A new file, empty. Blocks.
    ///
    /// # Errors
    /// 53100 or 58030, naming the file.
    pub fn create(self: &Arc<TempSpace>) -> SqlResult<TempFile> {
        let number = self.next_file.fetch_add(1, Ordering::Relaxed);
        let mut path = self.prefix.clone().into_os_string();
        path.push(format!(".{number}"));
        let path = PathBuf::from(path);
        let file = self.disk.open(&path, OpenMode::CreateNew, true);
        let file = file.map_err(|error| failed(&path, "creating", &error))?;
        Ok(TempFile {
            space: Arc::clone(self),
            path,
            file: Some(file),
            len: AtomicU64::new(0),
            readable: AtomicU64::new(0),
            unwritten: Mutex::new(Some(Unwritten::default())),
            removed_aside: false,
        })
    }
}

/// Bytes of a file that may be given back to the file system on a worker: some 0.1 ms.
const REMOVED_AT_ONCE_MAX: u64 = 4 << 20;

/// Bytes that are written at once, in memory until then: four I/Os.
const WRITE_LEN: usize = 256 << 10;
const _: () = assert!(WRITE_LEN.is_multiple_of(IO_ALIGN));

/// A temporary file, written from its beginning to its end, sealed, and then read. It is gone when dropped, which blocks
/// unless [`TempFile::remove_aside`] was said.
pub struct TempFile {
    space: Arc<TempSpace>,
    path: PathBuf,
    /// Until it is dropped.
    file: Option<File>,
    /// Bytes appended, which are charged.
    len: AtomicU64,
    /// The same once it is sealed, 0 before.
    readable: AtomicU64,
    /// What was appended and is not in the file yet; `None` once it is sealed, or a write has failed. One lock covers the bytes and
    /// their write, so that they stay in order.
    unwritten: Mutex<Option<Unwritten>>,
    removed_aside: bool,
}

/// The end of a file that is being written.
#[derive(Default)]
struct Unwritten {
    /// Of [`WRITE_LEN`], once there is anything.
    piece: IoBuf,
    filled: usize,
    /// Where in the file it belongs: a multiple of [`WRITE_LEN`].
    at: u64,
}

impl Unwritten {
    /// Takes in as much of `bytes` as the piece has room for, and returns the rest.
    fn take<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        if self.piece.is_empty() {
            self.piece = IoBuf::recycled(WRITE_LEN);
        }
        let (taken, rest) = bytes.split_at(bytes.len().min(WRITE_LEN - self.filled));
        self.piece[self.filled..self.filled + taken.len()].copy_from_slice(taken);
        self.filled += taken.len();
        rest
    }

    /// Writes what there is, filled up with zeros to whole blocks. Blocks.
    fn write(&mut self, file: &File) -> std::io::Result<()> {
        let end = self.filled.next_multiple_of(IO_ALIGN);
        self.piece[self.filled..end].fill(0);
        env::blocked(|| file.write_at(&self.piece[..end], self.at))?;
        self.at += end as u64;
        self.filled = 0;
        Ok(())
    }
}

/// Bytes of a temporary file as they were read: in the whole blocks that hold them.
#[derive(Debug)]
pub struct TempBytes {
    blocks: IoBuf,
    from: usize,
    len: usize,
}

impl AsRef<[u8]> for TempBytes {
    fn as_ref(&self) -> &[u8] {
        &self.blocks[self.from..self.from + self.len]
    }
}

impl TempFile {
    /// Has a thread of its own remove the file, if it is large, when it is dropped: for one that is dropped by who may not block.
    pub fn remove_aside(&mut self) {
        self.removed_aside = true;
    }

    fn file(&self) -> &File {
        self.file.as_ref().expect("it is there until the drop")
    }

    /// Bytes appended so far.
    pub fn len(&self) -> u64 {
        self.len.load(Ordering::Relaxed)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds `bytes` at the end; one writer at a time. Blocks where they fill a piece of the file, which is then written.
    ///
    /// # Errors
    /// 53100 over the tenant's limit: the bytes are not there, and count for nothing. 53100 on a full disk, else 58030: the file is of no
    /// use any more; what it was given counts until it is dropped.
    pub fn append(&self, bytes: &[u8]) -> SqlResult<()> {
        self.space.charge(bytes.len() as u64)?;
        self.len.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        let mut rest = bytes;
        self.write_with(|unwritten, file| {
            while !rest.is_empty() {
                rest = unwritten.take(rest);
                if unwritten.filled == WRITE_LEN {
                    unwritten.write(file)?;
                }
            }
            Ok(())
        })
    }

    /// Writes what is not in the file yet. From then on it can be read, and nothing is appended. Blocks.
    ///
    /// # Errors
    /// As [`TempFile::append`] on the disk.
    pub fn seal(&self) -> SqlResult<()> {
        self.write_with(|unwritten, file| if unwritten.filled > 0 { unwritten.write(file) } else { Ok(()) })?;
        *self.unwritten.lock().expect("no panic while a piece is written") = None;
        self.readable.store(self.len(), Ordering::Relaxed);
        Ok(())
    }

    /// Has `write` see to what is unwritten. After an error nothing is written any more: what is in the file is not known.
    fn write_with(&self, write: impl FnOnce(&mut Unwritten, &File) -> std::io::Result<()>) -> SqlResult<()> {
        let mut unwritten = self.unwritten.lock().expect("no panic while a piece is written");
        let result = match &mut *unwritten {
            Some(unwritten) => write(unwritten, self.file()),
            None => Err(std::io::Error::other("it is sealed, or an earlier write failed")),
        };
        result.map_err(|error| {
            *unwritten = None;
            failed(&self.path, "writing", &error)
        })
    }

    /// A buffer for the whole blocks that hold the `len` bytes from `offset` on, and where in the file they begin.
    ///
    /// # Panics
    /// The file is not sealed, or ends before.
    fn blocks_of(&self, offset: u64, len: usize) -> (TempBytes, u64) {
        let end = offset + len as u64;
        assert!(
            end <= self.readable.load(Ordering::Relaxed),
            "what is read was written, and the file sealed"
        );
        let from = (offset % IO_ALIGN as u64) as usize;
        let blocks = IoBuf::recycled((from + len).next_multiple_of(IO_ALIGN));
        (TempBytes { blocks, from, len }, offset - from as u64)
    }

    /// The `len` bytes from `offset` on of a sealed file, all of which were written. Blocks.
    ///
    /// # Errors
    /// 58030, naming the file.
    pub fn read(&self, offset: u64, len: usize) -> SqlResult<TempBytes> {
        let (mut bytes, at) = self.blocks_of(offset, len);
        let read = env::blocked(|| self.file().read_at(&mut bytes.blocks, at));
        read.map_err(|error| failed(&self.path, "reading", &error))?;
        Ok(bytes)
    }

    /// As [`TempFile::read`], through the calling thread's reactor. Does not block.
    ///
    /// # Errors
    /// 58030, naming the file.
    pub async fn fetch(&self, offset: u64, len: usize) -> SqlResult<TempBytes> {
        let (bytes, at) = self.blocks_of(offset, len);
        let (result, blocks) = self.file().read_exact_at(bytes.blocks, at).await;
        result.map_err(|error| failed(&self.path, "reading", &error))?;
        Ok(TempBytes { blocks, ..bytes })
    }

    /// 58030, for bytes that are not what was written.
    #[cold]
    pub(super) fn malformed(&self) -> SqlError {
        let error =
            std::io::Error::new(std::io::ErrorKind::InvalidData, "it has other bytes than were written");
        failed(&self.path, "reading", &error)
    }
}

impl std::fmt::Debug for TempFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TempFile({}, {})", self.path.display(), ByteCount(self.len()))
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        self.space.used.fetch_sub(self.len(), Ordering::Relaxed);
        let (disk, path, file) =
            (Arc::clone(&self.space.disk), std::mem::take(&mut self.path), self.file.take());
        // What cannot be removed now is removed at the next start. Its blocks are free once it is closed, too.
        let remove = move || {
            let _ = disk.remove(&path);
            drop(file);
        };
        if self.removed_aside && self.len() > REMOVED_AT_ONCE_MAX {
            let remove = Box::new(remove);
            // Where no thread can be had the file is closed here, and removed at the next start.
            let _ = self.space.threads.spawn("temp-remove", None, remove);
        } else {
            remove();
        }
    }
}

fn failed(path: &std::path::Path, doing: &str, error: &std::io::Error) -> SqlError {
    let full = [std::io::ErrorKind::StorageFull, std::io::ErrorKind::QuotaExceeded];
    let state = if full.contains(&error.kind()) { SqlState::DISK_FULL } else { SqlState::IO_ERROR };
    SqlError::new(state, format!("{}: {doing} a temporary file: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use env::sim::World;

    use super::*;

    fn space(world: &World) -> Arc<TempSpace> {
        let env = world.env();
        env.disk.create_dir_all("/tmp".as_ref()).unwrap();
        Arc::new(TempSpace::new(env, "/tmp/7".into()))
    }

    #[test]
    fn files_are_counted_limited_and_given_back() {
        let world = World::new(1);
        let space = space(&world);
        space.set_max(Some(ByteCount(1000)));
        let (a, b) = (space.create().unwrap(), space.create().unwrap());
        a.append(&[1; 600]).unwrap();
        let error = b.append(&[2; 401]).unwrap_err();
        assert_eq!(error.state(), SqlState::DISK_FULL);
        b.append(&[2; 400]).unwrap();
        assert_eq!((space.used(), b.len()), (ByteCount(1000), 400));
        drop(a);
        b.append(&[3; 500]).unwrap();
        space.set_max(Some(ByteCount(100)));
        assert!(b.append(&[1]).is_err(), "a limit below what is there stops writing");
        b.seal().unwrap();
        assert_eq!(b.read(400, 500).unwrap().as_ref(), [3; 500]);
        drop(b);
        assert_eq!(space.used(), ByteCount(0));
        assert!(world.env().disk.list("/tmp".as_ref()).unwrap().is_empty());
    }

    #[test]
    fn a_full_disk_is_an_error_and_costs_nothing() {
        let world = World::new(2);
        let space = space(&world);
        world.set_disk_capacity(ByteCount(4096));
        let file = space.create().unwrap();
        file.append(&[0; 100_000]).unwrap();
        assert_eq!(file.seal().unwrap_err().state(), SqlState::DISK_FULL);
        assert!(file.append(&[0; 10]).is_err() && file.seal().is_err(), "what it holds is not known");
        drop(file);
        let file = space.create().unwrap();
        assert_eq!(file.append(&[0; WRITE_LEN]).unwrap_err().state(), SqlState::DISK_FULL);
        drop(file);
        assert_eq!(space.used(), ByteCount(0));
    }

    /// The simulated disk refuses direct I/O that is not of whole blocks.
    #[test]
    fn files_bypass_the_page_cache_in_whole_blocks() {
        let world = World::new(3);
        let space = space(&world);
        let file = space.create().unwrap();
        assert!(file.file().is_direct());
        let bytes: Vec<u8> = (0..2 * WRITE_LEN + 5000).map(|i| (i % 251) as u8).collect();
        let mut rest = &bytes[..];
        for len in [1, 4095, 10_000, WRITE_LEN + 3, 0, 77].into_iter().cycle() {
            let (piece, behind) = rest.split_at(len.min(rest.len()));
            file.append(piece).unwrap();
            rest = behind;
            if rest.is_empty() {
                break;
            }
        }
        file.seal().unwrap();
        assert_eq!(file.len(), bytes.len() as u64);
        let on_disk = world.env().disk.list("/tmp".as_ref()).unwrap()[0].len;
        assert_eq!(on_disk, ByteCount((2 * WRITE_LEN + 8192) as u64), "the last piece is of whole blocks");
        let end = bytes.len();
        for (offset, len) in
            [(0, end), (0, 1), (4095, 2), (4096, 4096), (WRITE_LEN - 1, 2), (end - 1, 1), (end, 0), (7, 0)]
        {
            let read = file.read(offset as u64, len).unwrap();
            assert_eq!(read.as_ref(), &bytes[offset..offset + len], "{len} bytes from {offset}");
            let fetched = env::block_on(&world.env(), file.fetch(offset as u64, len)).unwrap();
            assert_eq!(fetched.as_ref(), read.as_ref());
        }
    }

    #[test]
    fn who_waits_for_the_disk_leaves_its_place_to_others_meanwhile() {
        let world = World::new(5);
        let space = space(&world);
        let file = space.create().unwrap();
        let waits = Rc::new(Cell::new(0));
        let count = Rc::clone(&waits);
        let _around = env::around_waits(Rc::new(move |wait| {
            count.set(count.get() + 1);
            wait();
        }));
        file.append(&[1; WRITE_LEN - 1]).unwrap();
        assert_eq!(waits.get(), 0, "it is in memory");
        file.append(&[2; 2]).unwrap();
        assert_eq!(waits.get(), 1);
        file.seal().unwrap();
        assert_eq!(waits.get(), 2);
        file.read(0, 10).unwrap();
        assert_eq!(waits.get(), 3);
    }

    #[test]
    fn a_file_that_cannot_bypass_the_page_cache_works_all_the_same() {
        let world = World::new(4);
        world.refuse_direct();
        let space = space(&world);
        let file = space.create().unwrap();
        assert!(!file.file().is_direct());
        file.append(b"some").unwrap();
        file.seal().unwrap();
        assert_eq!(file.read(1, 2).unwrap().as_ref(), b"om");
        let empty = space.create().unwrap();
        empty.seal().unwrap();
        assert!(empty.is_empty() && empty.read(0, 0).unwrap().as_ref().is_empty());
    }
}
