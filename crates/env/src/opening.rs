//! A machine on which files are opened in another way, and everything else is as it was.

use std::io;
use std::path::Path;
use std::sync::Arc;

use base::ByteCount;

use crate::{Device, DirEntry, DirLock, Disk, Env, File, OpenMode};

impl Env {
    /// The same machine, on which `open` opens each file from now on. It is told the disk as it was, and what [`Disk::open`] was.
    ///
    /// Where it answers with a file without a descriptor, the machine must be one that has use for such: see [`Env::real_on_epoll`].
    #[must_use]
    pub fn opening(
        &self,
        open: impl Fn(&dyn Disk, &Path, OpenMode, bool) -> io::Result<File> + Send + Sync + 'static,
    ) -> Env {
        Env { disk: Arc::new(OpeningDisk { disk: self.disk.clone(), open }), ..self.clone() }
    }
}

struct OpeningDisk<F> {
    disk: Arc<dyn Disk>,
    open: F,
}

impl<F> Disk for OpeningDisk<F>
where
    F: Fn(&dyn Disk, &Path, OpenMode, bool) -> io::Result<File> + Send + Sync,
{
    fn open(&self, path: &Path, mode: OpenMode, direct: bool) -> io::Result<File> {
        (self.open)(&*self.disk, path, mode, direct)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.disk.list(dir)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }
    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        self.disk.remove_dir_all(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.disk.create_dir_all(path)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk.sync_dir(dir)
    }
    fn exists(&self, path: &Path) -> bool {
        self.disk.exists(path)
    }
    fn free_space(&self, path: &Path) -> io::Result<ByteCount> {
        self.disk.free_space(path)
    }
    fn device_of(&self, path: &Path) -> io::Result<Device> {
        self.disk.device_of(path)
    }
    fn lock_exclusive(&self, path: &Path) -> io::Result<DirLock> {
        self.disk.lock_exclusive(path)
    }
    fn write_small_atomic(&self, path: &Path, bytes: &[u8], unix_mode: u32) -> io::Result<()> {
        self.disk.write_small_atomic(path, bytes, unix_mode)
    }
}
