//! Files and directories: blocking calls for tools and analytical threads, asynchronous ones for workers.

use std::fmt;
use std::future::Future;
use std::io;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use base::{ByteCount, IoClass, TenantId};

use crate::IoAccount;
use crate::io_buf::IoBuf;
use crate::reactor::gate::IoPermit;
use crate::reactor::op::{Condition, OpHandle, Request, not_started};
use crate::reactor::{IoCharge, charge_blocking};

/// How a file is opened. All but `Read` give read and write access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpenMode {
    /// Read an existing file.
    Read,
    /// Read and write an existing file.
    ReadWrite,
    /// Read and write; made empty if it does not exist, kept as it is if it does.
    Create,
    /// Made now; `AlreadyExists` if it is there.
    CreateNew,
}

/// One name in a directory.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct DirEntry {
    pub name: String,
    pub is_dir: bool,
    pub len: ByteCount,
}

/// What is behind a path, as far as the system tells: to notice that it is another one than before.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Device {
    /// The device's number, `major:minor`. May be another one after a restart of the machine.
    pub number: String,
    /// The kind of the file system, such as `ext4`; its magic number in hexadecimal where that has no name here.
    pub file_system: String,
    /// The file system's own id; 0 where it has none. Most make it from their UUID, so that it stays.
    pub file_system_id: u64,
    /// The file system's size.
    pub len: ByteCount,
}

/// An exclusive lock on a directory or file, held until dropped or until the process dies.
pub struct DirLock(#[expect(dead_code, reason = "dropping it releases the lock")] Box<dyn Send + Sync>);

impl DirLock {
    pub(crate) fn new(held: Box<dyn Send + Sync>) -> DirLock {
        DirLock(held)
    }
}

/// A file system. Every call blocks; names survive power loss only after [`Disk::sync_dir`] on their directory.
pub trait Disk: Send + Sync {
    /// Opens a file. `direct` bypasses the page cache where the file system can (O_DIRECT): then buffers, offsets and
    /// lengths must be multiples of [`crate::IO_ALIGN`]; where it cannot the file is opened without.
    fn open(&self, path: &Path, mode: OpenMode, direct: bool) -> io::Result<File>;
    /// Entries of a directory, sorted by name.
    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>>;
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Removes a directory with all it holds.
    fn remove_dir_all(&self, path: &Path) -> io::Result<()>;
    /// Moves a name, replacing `to`.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Makes a directory and its parents; succeeds if it is there. On return the new names survive power loss.
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;
    /// After `Ok` every name created, renamed or removed in `dir` so far survives power loss.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    fn exists(&self, path: &Path) -> bool;
    /// Bytes an unprivileged writer may still use on the volume of `path`.
    fn free_space(&self, path: &Path) -> io::Result<ByteCount>;
    /// The device and file system of `path`, which must exist.
    fn device_of(&self, path: &Path) -> io::Result<Device>;
    /// Takes the lock file at `path`, making it if needed. `WouldBlock` if another process (or lock) holds it.
    fn lock_exclusive(&self, path: &Path) -> io::Result<DirLock>;

    /// The whole of a small file.
    fn read_small(&self, path: &Path) -> io::Result<Vec<u8>> {
        let file = self.open(path, OpenMode::Read, false)?;
        let len = usize::try_from(file.len()?).map_err(io::Error::other)?;
        let mut bytes = vec![0; len];
        file.read_at(&mut bytes, 0)?;
        Ok(bytes)
    }

    /// Replaces a small file with `bytes` under permission bits `unix_mode`. After `Ok` the new content survives power
    /// loss; at any failure before, the old one does.
    fn write_small_atomic(&self, path: &Path, bytes: &[u8], unix_mode: u32) -> io::Result<()>;
}

/// What a platform does for one open file; see [`File`].
#[expect(clippy::len_without_is_empty, reason = "a fallible size of something outside the process")]
pub trait FileOps: Send + Sync {
    /// The descriptor, for completion rings; `None` in a simulation.
    fn raw_fd(&self) -> Option<RawFd>;
    /// Reads some bytes; 0 at the end of the file.
    fn read_some_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes some bytes.
    fn write_some_at(&self, buf: &[u8], offset: u64) -> io::Result<usize>;
    /// Writes all of `buf`; after `Ok` these bytes survive power loss.
    fn write_durable_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        let mut done = 0;
        while done < buf.len() {
            match self.write_some_at(&buf[done..], offset + done as u64)? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                n => done += n,
            }
        }
        self.sync_data()
    }
    fn will_read(&self, _offset: u64, _len: u64) {}
    fn sync_data(&self) -> io::Result<()>;
    fn set_len(&self, len: u64) -> io::Result<()>;
    fn allocate(&self, offset: u64, len: u64) -> io::Result<()>;
    fn len(&self) -> io::Result<u64>;
    fn is_direct(&self) -> bool;
}

/// What failed at a path.
#[derive(Debug)]
pub(crate) struct AtPath {
    pub(crate) path: PathBuf,
    pub(crate) error: io::Error,
}

impl fmt::Display for AtPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.error)
    }
}

impl std::error::Error for AtPath {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

/// Whether a file could not be opened because the process, or the system, has as many open as it may: that passes.
pub fn is_short_of_descriptors(error: &io::Error) -> bool {
    let below = || error.get_ref()?.downcast_ref::<AtPath>()?.error.raw_os_error();
    matches!(error.raw_os_error().or_else(below), Some(libc::EMFILE | libc::ENFILE))
}

/// An open file. Clones share it; the last one closes it.
#[derive(Clone)]
pub struct File {
    ops: Arc<dyn FileOps>,
    account: Option<Arc<IoAccount>>,
}

impl File {
    /// Wraps a platform's file.
    pub fn new(ops: Arc<dyn FileOps>) -> File {
        File { ops, account: None }
    }

    /// The same file, charged to `account`: what waits for nothing once it is done, the rest before it starts.
    #[must_use]
    pub fn charged_to(self, account: &Arc<IoAccount>) -> File {
        File { account: Some(account.clone()), ..self }
    }

    /// The same file, charged to nobody: for what was charged already.
    #[must_use]
    pub fn uncharged(&self) -> File {
        File { account: None, ..self.clone() }
    }

    /// Charges an operation of `len` bytes that blocks, and waits for leave where the thread has to. For an operation that has to do more
    /// before it starts than wait for that: do it then, on [`File::uncharged`], and drop what is returned at its end.
    pub fn charge(&self, len: usize) -> Option<IoPermit> {
        charge_blocking(self.account.as_ref()?, ByteCount(len as u64))
    }

    fn start(&self, request: Request) -> FileFuture {
        let charge = |account: &Arc<IoAccount>| IoCharge {
            account: account.clone(),
            class: IoClass::default(),
            members: None,
        };
        FileFuture {
            request: Some(request),
            charge: self.account.as_ref().map(charge),
            condition: None,
            op: None,
        }
    }

    /// Fills `buf` from `offset`, blocking. `UnexpectedEof` if the file ends first.
    pub fn read_at(&self, mut buf: &mut [u8], mut offset: u64) -> io::Result<()> {
        let _permit = self.charge(buf.len());
        while !buf.is_empty() {
            match self.ops.read_some_at(buf, offset)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                n => {
                    buf = &mut buf[n..];
                    offset += n as u64;
                }
            }
        }
        Ok(())
    }

    /// Tells the system that a range will be read soon, so that it may begin to fetch it. Changes nothing else, and does not wait.
    pub fn will_read(&self, offset: u64, len: u64) {
        self.ops.will_read(offset, len);
    }

    /// Writes all of `buf` at `offset`, blocking. Not durable before [`File::sync_data`].
    pub fn write_at(&self, mut buf: &[u8], mut offset: u64) -> io::Result<()> {
        let _permit = self.charge(buf.len());
        while !buf.is_empty() {
            match self.ops.write_some_at(buf, offset)? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                n => {
                    buf = &buf[n..];
                    offset += n as u64;
                }
            }
        }
        Ok(())
    }

    /// After `Ok` every write completed before the call, and the file's length, survives power loss. After an error
    /// nothing is known about them: treat the file as failed. Blocks.
    pub fn sync_data_blocking(&self) -> io::Result<()> {
        let _permit = self.charge(0);
        self.ops.sync_data()
    }

    /// Cuts or extends (with zeros) the file. Blocks.
    pub fn set_len(&self, len: u64) -> io::Result<()> {
        self.ops.set_len(len)
    }

    /// Reserves space for a range and extends the file over it, so that later writes there need no new blocks. Blocks.
    pub fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        self.ops.allocate(offset, len)
    }

    /// Bytes in the file.
    #[expect(clippy::len_without_is_empty, reason = "a fallible size of something outside the process")]
    pub fn len(&self) -> io::Result<u64> {
        self.ops.len()
    }

    /// Whether the page cache is bypassed, so that alignment is required.
    pub fn is_direct(&self) -> bool {
        self.ops.is_direct()
    }

    /// Fills all of `buf` from `offset` through the thread's reactor. `UnexpectedEof` if the file ends first.
    pub fn read_exact_at(&self, buf: IoBuf, offset: u64) -> FileFuture {
        self.start(Request::Read { file: self.ops.clone(), buf, offset, done: 0 })
    }

    /// Writes all of `buf` at `offset` through the thread's reactor. Not durable before a sync.
    pub fn write_all_at(&self, buf: IoBuf, offset: u64) -> FileFuture {
        self.start(Request::Write { file: self.ops.clone(), buf, offset, done: 0, durable: false })
    }

    /// Writes all of `buf` at `offset`; after `Ok` these bytes (and a length they extended) survive power loss. Says
    /// nothing about other writes.
    pub fn write_all_at_durable(&self, buf: IoBuf, offset: u64) -> FileFuture {
        self.start(Request::Write { file: self.ops.clone(), buf, offset, done: 0, durable: true })
    }

    /// [`File::sync_data_blocking`] through the thread's reactor.
    pub fn sync_data(&self) -> impl Future<Output = io::Result<()>> + Send + 'static + use<> {
        let operation = self.start(Request::Sync { file: self.ops.clone() }).of_class(IoClass::Upkeep);
        async move { operation.await.0 }
    }
}

/// An operation on a file. It starts at the first poll, on the reactor of the thread that polls. Dropped while in
/// flight, it goes on to its end with the buffer kept alive, and its outcome is lost.
#[must_use = "an operation starts when it is awaited"]
pub struct FileFuture {
    request: Option<Request>,
    /// `None` if nobody pays.
    charge: Option<IoCharge>,
    condition: Option<Condition>,
    op: Option<OpHandle>,
}

impl FileFuture {
    /// In the order of its class, of its own tenant's operations; without, of those that a short statement waits for.
    pub fn of_class(mut self, class: IoClass) -> FileFuture {
        if let Some(charge) = &mut self.charge {
            charge.class = class;
        }
        self
    }

    /// Started only if `condition` holds when it is its turn: asked once, on the reactor's thread, after the gate has let it through; it must
    /// neither wait nor start operations. If it does not hold, the outcome is an error of kind `ResourceBusy`; the operation stays charged,
    /// and its place at the device is free.
    pub fn starting_if(mut self, condition: impl FnOnce() -> bool + Send + 'static) -> FileFuture {
        self.condition = Some(Box::new(condition));
        self
    }

    /// Charged to these, by their bytes of it, instead of the file's account alone. Nobody's limit holds it up.
    pub fn shared_by(mut self, members: impl FnOnce() -> Box<[(TenantId, ByteCount)]>) -> FileFuture {
        if let Some(charge) = &mut self.charge {
            charge.members = Some(members());
        }
        self
    }
}

impl Future for FileFuture {
    type Output = (io::Result<()>, IoBuf);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(request) = self.request.take() {
            let condition = self.condition.take();
            self.op = Some(match self.charge.take() {
                Some(charge) => OpHandle::start_charged(request, &charge, condition, cx.waker()),
                None if condition.is_none_or(|condition| condition()) => OpHandle::start(request, cx.waker()),
                None => return Poll::Ready((Err(not_started()), IoBuf::empty())),
            });
        }
        let op = self.op.as_ref().expect("a finished operation is not polled again");
        let Some((result, request)) = op.poll(cx.waker()) else { return Poll::Pending };
        self.op.take().expect("checked above").recycle();
        let (result, buf) = match request {
            Request::Read { buf, .. } => {
                let len = buf.len();
                (complete(result, len, io::ErrorKind::UnexpectedEof), buf)
            }
            Request::Write { buf, .. } => {
                let len = buf.len();
                (complete(result, len, io::ErrorKind::WriteZero), buf)
            }
            _ => (result.map(drop), IoBuf::empty()),
        };
        Poll::Ready((result, buf))
    }
}

fn complete(result: io::Result<usize>, wanted: usize, short: io::ErrorKind) -> io::Result<()> {
    if result? < wanted { Err(short.into()) } else { Ok(()) }
}
