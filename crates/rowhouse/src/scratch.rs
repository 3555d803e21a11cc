//! A file that can be written and stays as it is: what is written goes to a temporary file, and is read from there.
//!
//! For a check that replays the log: as a server's start, it writes roots meanwhile, so that what is replayed need not fit memory. The temporary file is
//! in the system's directory for such (`TMPDIR`), has what was written and no more, and goes with the program.

use std::io;
use std::os::fd::RawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::limits::PAGE_SIZE;
use env::{Env, File, FileOps, OpenMode};

const PAGE: u64 = PAGE_SIZE as u64;

/// The machine with the file at `path` as it is now, which whoever opens it there may write.
///
/// # Errors
/// The file cannot be read, or no temporary one be made.
pub(crate) fn over(env: &Env, path: &Path) -> io::Result<Env> {
    let file = env.disk.open(path, OpenMode::Read, false)?;
    let len = file.len()?;
    let written = Mutex::new(Written { pages: Vec::new(), len });
    let layer = Arc::new(Layer { file, file_len: len, scratch: tempfile::tempfile()?, written });
    // The file has no descriptor, which io_uring would want.
    let mut machine = Env::real_on_epoll();
    machine.disk = env.disk.clone();
    let layered = path.to_owned();
    Ok(machine.opening(move |disk, path, mode, direct| {
        if path == layered && mode != OpenMode::CreateNew {
            return Ok(File::new(layer.clone()));
        }
        disk.open(path, mode, direct)
    }))
}

struct Layer {
    file: File,
    file_len: u64,
    scratch: std::fs::File,
    written: Mutex<Written>,
}

/// What is to be read from the temporary file, at the same places.
struct Written {
    /// A bit a page.
    pages: Vec<u64>,
    /// Of the file as it would be.
    len: u64,
}

impl Written {
    fn has(&self, page: u64) -> bool {
        self.pages.get((page / 64) as usize).is_some_and(|word| word >> (page % 64) & 1 == 1)
    }

    fn note(&mut self, offset: u64, len: u64) {
        for page in offset / PAGE..(offset + len) / PAGE {
            let word = (page / 64) as usize;
            if word >= self.pages.len() {
                self.pages.resize(word + 1, 0);
            }
            self.pages[word] |= 1 << (page % 64);
        }
        self.len = self.len.max(offset + len);
    }

    /// Whether the page at `offset` was written, and how far, up to `end`, what is said of it is true.
    fn run(&self, offset: u64, end: u64) -> (bool, u64) {
        let first = offset / PAGE;
        let is_written = self.has(first);
        let next = (first + 1..).find(|page| page * PAGE >= end || self.has(*page) != is_written);
        (is_written, next.map_or(end, |page| end.min(page * PAGE)))
    }
}

impl Layer {
    fn written(&self) -> MutexGuard<'_, Written> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FileOps for Layer {
    fn raw_fd(&self) -> Option<RawFd> {
        None
    }
    fn read_some_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let (is_written, end) = self.written().run(offset, offset + buf.len() as u64);
        let end = if is_written { end } else { end.min(self.file_len) };
        let len = usize::try_from(end.saturating_sub(offset)).map_err(io::Error::other)?;
        let buf = &mut buf[..len];
        match is_written {
            true => self.scratch.read_exact_at(buf, offset)?,
            false => self.file.read_at(buf, offset)?,
        }
        Ok(len)
    }
    fn write_some_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        let len = buf.len() as u64;
        if !offset.is_multiple_of(PAGE) || !len.is_multiple_of(PAGE) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "whole pages are written"));
        }
        self.scratch.write_all_at(buf, offset)?;
        self.written().note(offset, len);
        Ok(buf.len())
    }
    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.written().len = len;
        Ok(())
    }
    fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        let mut written = self.written();
        written.len = written.len.max(offset + len);
        Ok(())
    }
    fn len(&self) -> io::Result<u64> {
        Ok(self.written().len)
    }
    fn is_direct(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use base::TenantId;
    use tenant::Tenant;

    use super::*;

    #[test]
    fn what_is_written_is_read_back_wherever_it_begins_and_the_file_is_as_it_was() {
        let (env, dir) = (Env::real(), tempfile::tempdir().unwrap());
        let path = dir.path().join("16.rowhouse");
        let before = vec![1; 3 * PAGE_SIZE];
        std::fs::write(&path, &before).unwrap();
        let env = over(&env, &path).unwrap();
        let file = env.disk.open(&path, OpenMode::ReadWrite, true).unwrap();
        file.allocate(3 * PAGE, 2 * PAGE).unwrap();
        for (page, byte) in [(1, 2), (4, 3)] {
            file.write_at(&[byte; PAGE_SIZE], page * PAGE).unwrap();
        }
        assert!(file.write_at(&[9; 100], 0).is_err());
        let again = env.disk.open(&path, OpenMode::Read, true).unwrap();
        assert_eq!(again.len().unwrap(), 5 * PAGE);
        let mut bytes = vec![0; 3 * PAGE_SIZE];
        again.read_at(&mut bytes, 0).unwrap();
        assert!(bytes.chunks(PAGE_SIZE).zip([1, 2, 1]).all(|(page, byte)| page == [byte; PAGE_SIZE]));
        again.read_at(&mut bytes[..PAGE_SIZE], 4 * PAGE).unwrap();
        assert!(bytes[..PAGE_SIZE] == [3; PAGE_SIZE]);
        assert!(again.read_at(&mut bytes[..PAGE_SIZE], 3 * PAGE).is_err(), "nothing was written there");
        assert!(std::fs::read(&path).unwrap() == before);
    }

    #[test]
    fn a_root_that_is_written_over_a_file_is_found_there_alone() {
        let (env, dir) = (Env::real(), tempfile::tempdir().unwrap());
        let (path, id) = (dir.path().join("16.rowhouse"), TenantId(16));
        env::block_on(&env, Tenant::create(&env, &path, id, "owner", None)).unwrap();
        let before = std::fs::read(&path).unwrap();
        let over = over(&env, &path).unwrap();
        env::block_on(&over, async {
            for _ in 0..3 {
                let mut tenant = Tenant::open(&over, &path, id).await.unwrap();
                let mut checkpoint = tenant.begin_checkpoint().unwrap();
                checkpoint.run().await.unwrap();
                assert!(tenant.finish_checkpoint(checkpoint));
            }
        });
        let found = |env: &Env| storage::verify_file(env, &path, &mut |_, _| {}, &mut |_, _| {}).unwrap();
        let (there, here) = (found(&over), found(&env));
        assert!(there.is_clean() && there.generation > here.generation, "{there:?}");
        assert!(std::fs::read(&path).unwrap() == before);
    }
}
