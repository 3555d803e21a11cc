//! A tenant's temporary files: what operators of the analytical path put aside when their memory does not do, and rows that sessions keep.
//!
//! One for each tenant, shared by its queries on all threads; the count is what all their files hold. It is charged before
//! bytes are written and refunded when a file is dropped. Over the limit, or on a full disk, the statement that wanted to
//! write fails with 53100, and nobody else notices. Files have no names that outlive the server: the directory is emptied
//! at start.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base::{ByteCount, SqlError, SqlResult, SqlState};
use env::{Disk, Env, File, IoBuf, OpenMode, Threads};

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
        let file = self.disk.open(&path, OpenMode::CreateNew, false);
        let file = file.map_err(|error| failed(&path, "creating", &error))?;
        let (space, len) = (Arc::clone(self), AtomicU64::new(0));
        Ok(TempFile { space, path, file: Some(file), len, removed_aside: false })
    }
}

/// Bytes of a file that may be given back to the file system on a worker: some 0.1 ms.
const REMOVED_AT_ONCE_MAX: u64 = 4 << 20;

/// A temporary file, written at its end and read from its beginning. It is gone when dropped, which blocks unless
/// [`TempFile::remove_aside`] was said.
pub struct TempFile {
    space: Arc<TempSpace>,
    path: PathBuf,
    /// Until it is dropped.
    file: Option<File>,
    len: AtomicU64,
    removed_aside: bool,
}

impl TempFile {
    /// Has a thread of its own remove the file, if it is large, when it is dropped: for one that is dropped by who may not block.
    pub fn remove_aside(&mut self) {
        self.removed_aside = true;
    }

    fn file(&self) -> &File {
        self.file.as_ref().expect("it is there until the drop")
    }

    /// Bytes written so far.
    pub fn len(&self) -> u64 {
        self.len.load(Ordering::Relaxed)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes at the end; one writer at a time. Blocks.
    ///
    /// # Errors
    /// 53100 over the tenant's limit or on a full disk, else 58030; the bytes count as not written.
    pub fn append(&self, bytes: &[u8]) -> SqlResult<()> {
        self.space.charge(bytes.len() as u64)?;
        let at = self.len();
        if let Err(error) = self.file().write_at(bytes, at) {
            self.space.used.fetch_sub(bytes.len() as u64, Ordering::Relaxed);
            return Err(failed(&self.path, "writing", &error));
        }
        self.len.store(at + bytes.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Fills `buf` from `offset`, all of which was written. Blocks.
    ///
    /// # Errors
    /// 58030, naming the file.
    pub fn read(&self, buf: &mut [u8], offset: u64) -> SqlResult<()> {
        self.file().read_at(buf, offset).map_err(|error| failed(&self.path, "reading", &error))
    }

    /// The `len` bytes from `offset` on, all of which were written, read through the calling thread's reactor. Does not block.
    ///
    /// # Errors
    /// 58030, naming the file.
    pub async fn fetch(&self, offset: u64, len: usize) -> SqlResult<IoBuf> {
        let (result, bytes) = self.file().read_exact_at(IoBuf::recycled(len), offset).await;
        result.map_err(|error| failed(&self.path, "reading", &error))?;
        Ok(bytes)
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
        let mut read = [0; 500];
        b.read(&mut read, 400).unwrap();
        assert_eq!(read, [3; 500]);
        space.set_max(Some(ByteCount(100)));
        assert!(b.append(&[1]).is_err(), "a limit below what is there stops writing");
        drop(b);
        assert_eq!(space.used(), ByteCount(0));
        assert!(world.env().disk.list("/tmp".as_ref()).unwrap().is_empty());
    }

    #[test]
    fn a_full_disk_is_an_error_and_costs_nothing() {
        let world = World::new(2);
        let space = space(&world);
        let file = space.create().unwrap();
        world.set_disk_capacity(ByteCount(4096));
        assert_eq!(file.append(&[0; 100_000]).unwrap_err().state(), SqlState::DISK_FULL);
        assert_eq!(space.used(), ByteCount(0));
    }
}
