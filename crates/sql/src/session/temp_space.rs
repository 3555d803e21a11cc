//! A tenant's temporary files: what operators of the analytical path put aside when their memory does not do.
//!
//! One for each tenant, shared by its queries on all threads; the count is what all their files hold. It is charged before
//! bytes are written and refunded when a file is dropped. Over the limit, or on a full disk, the statement that wanted to
//! write fails with 53100, and nobody else notices. Files have no names that outlive the server: the directory is emptied
//! at start.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base::{ByteCount, SqlError, SqlResult, SqlState};
use env::{Disk, File, OpenMode};

/// No limit, as the counter has it.
const NO_LIMIT: u64 = u64::MAX;

/// Where a tenant's temporary files are, and how many bytes they have.
pub struct TempSpace {
    disk: Arc<dyn Disk>,
    /// Names of files begin with it.
    prefix: PathBuf,
    max: AtomicU64,
    used: AtomicU64,
    next_file: AtomicU64,
}

impl TempSpace {
    /// Files are made as `PREFIX.N`, in a directory that exists. No limit at first.
    pub fn new(disk: Arc<dyn Disk>, prefix: PathBuf) -> TempSpace {
        let (max, used, next_file) = (AtomicU64::new(NO_LIMIT), AtomicU64::new(0), AtomicU64::new(0));
        TempSpace { disk, prefix, max, used, next_file }
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
        Ok(TempFile { space: Arc::clone(self), path, file, len: AtomicU64::new(0) })
    }
}

/// A temporary file, written at its end and read from its beginning. It is gone when dropped.
pub struct TempFile {
    space: Arc<TempSpace>,
    path: PathBuf,
    file: File,
    len: AtomicU64,
}

impl TempFile {
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
        if let Err(error) = self.file.write_at(bytes, at) {
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
        self.file.read_at(buf, offset).map_err(|error| failed(&self.path, "reading", &error))
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        // What cannot be removed now is removed at the next start.
        let _ = self.space.disk.remove(&self.path);
        self.space.used.fetch_sub(self.len(), Ordering::Relaxed);
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
        let disk = world.env().disk;
        disk.create_dir_all("/tmp".as_ref()).unwrap();
        Arc::new(TempSpace::new(disk, "/tmp/7".into()))
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
