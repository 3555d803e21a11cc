//! A redo log whose disk fails: nothing is acknowledged that is not durable, nobody is left waiting, and the next start has
//! all that was acknowledged.

mod support;

use std::io;
use std::os::fd::RawFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use base::{ByteCount, SqlState};
use env::{DirEntry, DirLock, Disk, Env, File, FileOps, OpenMode};
use support::{Client, TestServer};

/// Linux's numbers of the errors.
const EIO: i32 = 5;
const ENOSPC: i32 = 28;

/// The machine's disk, but for writes to log segments while an error is set.
#[derive(Clone)]
struct FailingDisk {
    disk: Arc<dyn Disk>,
    /// The error of every write to a segment; 0 for none.
    errno: Arc<AtomicI32>,
}

struct FailingFile {
    file: File,
    errno: Option<Arc<AtomicI32>>,
}

impl FailingDisk {
    fn env() -> (Env, FailingDisk) {
        let mut env = Env::real_on_epoll();
        let disk = FailingDisk { disk: env.disk.clone(), errno: Arc::default() };
        env.disk = Arc::new(disk.clone());
        (env, disk)
    }

    fn fail(&self, errno: i32) {
        self.errno.store(errno, Ordering::SeqCst);
    }
}

impl Disk for FailingDisk {
    fn open(&self, path: &Path, mode: OpenMode, _: bool) -> io::Result<File> {
        let file = self.disk.open(path, mode, false)?;
        let is_segment = path.extension().is_some_and(|extension| extension == "redo");
        let errno = is_segment.then(|| self.errno.clone());
        Ok(File::new(Arc::new(FailingFile { file, errno })))
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
    fn lock_exclusive(&self, path: &Path) -> io::Result<DirLock> {
        self.disk.lock_exclusive(path)
    }
    fn write_small_atomic(&self, path: &Path, bytes: &[u8], unix_mode: u32) -> io::Result<()> {
        self.disk.write_small_atomic(path, bytes, unix_mode)
    }
}

impl FileOps for FailingFile {
    fn raw_fd(&self) -> Option<RawFd> {
        None
    }
    fn read_some_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let left = usize::try_from(self.file.len()?.saturating_sub(offset)).map_err(io::Error::other)?;
        let len = left.min(buf.len());
        self.file.read_at(&mut buf[..len], offset)?;
        Ok(len)
    }
    fn write_some_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        match self.errno.as_ref().map_or(0, |errno| errno.load(Ordering::SeqCst)) {
            0 => self.file.write_at(buf, offset).map(|()| buf.len()),
            errno => Err(io::Error::from_raw_os_error(errno)),
        }
    }
    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data_blocking()
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }
    fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        self.file.allocate(offset, len)
    }
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
    fn is_direct(&self) -> bool {
        false
    }
}

fn one(value: &str) -> Vec<Vec<Option<String>>> {
    vec![vec![Some(value.to_owned())]]
}

/// A session is told that what it did or read is not durable, and ends.
fn ends_with(client: &mut Client, sql: &str, state: SqlState) {
    let answer = client.query(sql);
    assert_eq!((answer.tags, answer.rows), (Vec::new(), Vec::new()), "{sql} was answered");
    let error = answer.error.unwrap_or_else(|| panic!("{sql} did not fail"));
    assert_eq!((error.state, error.severity.as_str()), (state, "FATAL"), "{sql}: {}", error.message);
    assert_eq!(client.message(), None, "the session ends");
}

fn a_failed_flush_is_never_acknowledged(errno: i32, state: SqlState) {
    let (env, disk) = FailingDisk::env();
    let server = TestServer::in_env(&env, |config| config.workers = Some(1));
    for tenant in ["acme", "other"] {
        server.create_tenant(tenant);
        let mut owner = server.connect(tenant, tenant, "pw").unwrap();
        owner.ok("CREATE TABLE t (id int PRIMARY KEY, v int)");
        owner.ok("CREATE TABLE untouched (v text)");
        owner.ok("INSERT INTO untouched VALUES ('kept')");
    }
    let connect = |tenant: &str| server.connect(tenant, tenant, "pw").unwrap();
    let (mut writer, mut reader, mut other) = (connect("acme"), connect("acme"), connect("other"));
    let (mut late_writer, mut idle) = (connect("acme"), connect("acme"));
    for id in 0..100 {
        writer.ok(&format!("INSERT INTO t VALUES ({id}, 0)"));
    }
    idle.ok("BEGIN");
    idle.ok("UPDATE t SET v = 7 WHERE id = 7");

    disk.fail(errno);
    ends_with(&mut writer, "UPDATE t SET v = 1 WHERE id = 1", state);
    // Reading goes on, but for what nobody may know of.
    assert_eq!(reader.ok("SELECT v FROM t WHERE id = 2"), one("0"));
    assert_eq!(reader.ok("SELECT v FROM untouched"), one("kept"));
    assert_eq!(other.ok("SELECT v FROM untouched"), one("kept"));
    assert_eq!(connect("other").ok("SELECT v FROM untouched"), one("kept"));
    ends_with(&mut reader, "SELECT v FROM t WHERE id = 1", state);
    // Nothing is written any more, whether or not the disk has come back.
    for again in [errno, 0] {
        disk.fail(again);
        for refused in [&mut late_writer, &mut other] {
            assert_eq!(refused.fails("INSERT INTO t VALUES (1000, 0)"), state);
            assert_eq!(refused.ok("SELECT v FROM untouched"), one("kept"));
        }
    }
    assert_eq!(idle.fails("COMMIT"), state);
    assert_eq!(idle.ok("SELECT v FROM t WHERE id = 7"), one("0"), "it was rolled back");

    let server = server.restart();
    let mut owner = server.connect("acme", "acme", "pw").unwrap();
    assert_eq!(owner.ok("SELECT count(*) FROM t WHERE id < 100"), one("100"));
    assert_eq!(owner.ok("SELECT count(*) FROM t WHERE id >= 100 OR (v <> 0 AND id <> 1)"), one("0"));
    owner.ok("INSERT INTO t VALUES (1000, 0)");
    server.connect("other", "other", "pw").unwrap().ok("INSERT INTO t VALUES (1000, 0)");
}

#[test]
fn after_a_disks_error_nothing_is_acknowledged_and_reading_goes_on() {
    a_failed_flush_is_never_acknowledged(EIO, SqlState::IO_ERROR);
}

#[test]
fn a_volume_that_breaks_its_promise_of_space_is_a_full_disk() {
    a_failed_flush_is_never_acknowledged(ENOSPC, SqlState::DISK_FULL);
}
