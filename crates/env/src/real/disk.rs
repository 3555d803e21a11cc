//! The operating system's files.

use std::ffi::CString;
use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::ByteCount;

use super::check;
use crate::disk::{AtPath, Device, DirEntry, DirLock, Disk, File, FileOps, OpenMode};

pub(super) struct SystemDisk;

pub(super) struct SystemFile {
    file: fs::File,
    direct: bool,
}

fn at<T>(path: &Path, result: io::Result<T>) -> io::Result<T> {
    result.map_err(|error| io::Error::new(error.kind(), AtPath { path: path.to_owned(), error }))
}

fn parent(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent.to_path_buf(),
        _ => PathBuf::from("."),
    }
}

fn sync_dir(dir: &Path) -> io::Result<()> {
    fs::File::open(dir)?.sync_all()
}

fn c_path(path: &Path) -> io::Result<CString> {
    Ok(CString::new(path.as_os_str().as_bytes())?)
}

fn stat_file_system(path: &Path) -> io::Result<libc::statvfs> {
    // SAFETY: a `statvfs` of zeros is a valid value of plain integers.
    let mut stat: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: a NUL-terminated path and a place for the answer.
    check(unsafe { libc::statvfs(c_path(path)?.as_ptr(), &mut stat) })?;
    Ok(stat)
}

fn file_system_kind(path: &Path) -> io::Result<String> {
    // SAFETY: a `statfs` of zeros is a valid value of plain integers.
    let mut stat: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: a NUL-terminated path and a place for the answer.
    check(unsafe { libc::statfs(c_path(path)?.as_ptr(), &mut stat) })?;
    // The magic numbers of `statfs(2)`. ext2, ext3 and ext4 share one.
    let name = match stat.f_type as u32 {
        0xef53 => "ext4",
        0x5846_5342 => "xfs",
        0x9123_683e => "btrfs",
        0x2fc1_2fc1 => "zfs",
        0xf2f5_2010 => "f2fs",
        0xca45_1a4e => "bcachefs",
        0x0102_1994 => "tmpfs",
        0x794c_7630 => "overlay",
        0x6969 => "nfs",
        0x6573_5546 => "fuse",
        0x0102_1997 => "9p",
        other => return Ok(format!("{other:#x}")),
    };
    Ok(name.to_owned())
}

/// Where what is to replace a small file is written first.
pub(super) fn replacement_of(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".new");
    path.with_file_name(name)
}

impl SystemFile {
    /// [`Disk::open`].
    pub(super) fn open(path: &Path, mode: OpenMode, direct: bool) -> io::Result<SystemFile> {
        let mut options = fs::OpenOptions::new();
        options.read(true).mode(0o600);
        match mode {
            OpenMode::Read => {}
            OpenMode::ReadWrite => drop(options.write(true)),
            OpenMode::Create => drop(options.write(true).create(true).truncate(false)),
            OpenMode::CreateNew => drop(options.write(true).create_new(true)),
        }
        if direct {
            let mut with_direct = options.clone();
            with_direct.custom_flags(libc::O_DIRECT);
            match with_direct.open(path) {
                // tmpfs and some overlays know no O_DIRECT.
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
                result => {
                    return Ok(SystemFile { file: at(path, result)?, direct: true });
                }
            }
            if mode == OpenMode::CreateNew {
                // The refused open may have made the file already.
                options.create_new(false).create(true);
            }
        }
        Ok(SystemFile { file: at(path, options.open(path))?, direct: false })
    }
}

impl Disk for SystemDisk {
    fn open(&self, path: &Path, mode: OpenMode, direct: bool) -> io::Result<File> {
        Ok(File::new(Arc::new(SystemFile::open(path, mode, direct)?)))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        let mut entries = Vec::new();
        for entry in at(dir, fs::read_dir(dir))? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            let metadata = match entry.metadata() {
                // Removed since the listing began.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                metadata => at(&entry.path(), metadata)?,
            };
            entries.push(DirEntry { name, is_dir: metadata.is_dir(), len: ByteCount(metadata.len()) });
        }
        entries.sort();
        Ok(entries)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        at(path, fs::remove_file(path))
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        at(path, fs::remove_dir_all(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        at(from, fs::rename(from, to))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        if path.is_dir() {
            return Ok(());
        }
        let above = parent(path);
        if above != path {
            self.create_dir_all(&above)?;
        }
        match fs::create_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
            result => at(path, result.and_then(|()| sync_dir(&above))),
        }
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        at(dir, sync_dir(dir))
    }

    fn exists(&self, path: &Path) -> bool {
        path.exists()
    }

    fn free_space(&self, path: &Path) -> io::Result<ByteCount> {
        let stat = at(path, stat_file_system(path))?;
        Ok(ByteCount(stat.f_bavail.saturating_mul(stat.f_frsize)))
    }

    fn device_of(&self, path: &Path) -> io::Result<Device> {
        let number = at(path, fs::metadata(path))?.dev();
        let stat = at(path, stat_file_system(path))?;
        Ok(Device {
            number: format!("{}:{}", libc::major(number), libc::minor(number)),
            file_system: at(path, file_system_kind(path))?,
            file_system_id: stat.f_fsid,
            len: ByteCount(stat.f_blocks.saturating_mul(stat.f_frsize)),
        })
    }

    fn lock_exclusive(&self, path: &Path) -> io::Result<DirLock> {
        let mut options = fs::OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = at(path, options.open(path))?;
        // SAFETY: locks an open descriptor; the lock goes with its last duplicate.
        at(path, check(unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) }))?;
        // For the operator who finds the file; nothing reads it, and a full disk keeps no server from starting.
        let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
        Ok(DirLock::new(Box::new(file)))
    }

    fn write_small_atomic(&self, path: &Path, bytes: &[u8], unix_mode: u32) -> io::Result<()> {
        let temporary = replacement_of(path);
        let write = || {
            // A rest of an interrupted write may have other permissions.
            let _ = fs::remove_file(&temporary);
            let mut options = fs::OpenOptions::new();
            let mut file = options.write(true).create_new(true).mode(unix_mode).open(&temporary)?;
            file.write_all(bytes)?;
            file.sync_all()?;
            fs::rename(&temporary, path)?;
            sync_dir(&parent(path))
        };
        at(path, write())
    }
}

impl FileOps for SystemFile {
    fn raw_fd(&self) -> Option<RawFd> {
        Some(self.file.as_raw_fd())
    }
    fn read_some_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        retry(|| self.file.read_at(buf, offset))
    }
    fn write_some_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        retry(|| self.file.write_at(buf, offset))
    }
    fn will_read(&self, offset: u64, len: u64) {
        let (Ok(offset), Ok(len)) = (i64::try_from(offset), i64::try_from(len)) else { return };
        if !self.direct {
            // SAFETY: advice on an open descriptor. A refusal only means that nothing is read ahead.
            unsafe { libc::posix_fadvise(self.file.as_raw_fd(), offset, len, libc::POSIX_FADV_WILLNEED) };
        }
    }
    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }
    fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        let range = (i64::try_from(offset), i64::try_from(len));
        let (Ok(offset), Ok(len)) = range else { return Err(io::ErrorKind::InvalidInput.into()) };
        loop {
            // SAFETY: a plain system call on an open descriptor.
            match check(unsafe { libc::fallocate(self.file.as_raw_fd(), 0, offset, len) }) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
                    let end = (offset + len) as u64;
                    return if self.len()? < end { self.set_len(end) } else { Ok(()) };
                }
                result => return result.map(drop),
            }
        }
    }
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }
    fn is_direct(&self) -> bool {
        self.direct
    }
}

fn retry(mut call: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}
