//! Space set aside on a volume, so that its end is met by those who make it fuller and not by those who make it emptier.
//!
//! A file that takes its space from the start. When a checkpoint or the log finds the volume full, the file is cut to
//! nothing: checkpoints, DELETE, TRUNCATE and DROP go on in what that gives. Until the file has all its space again, which
//! is tried every second, whatever may need more is refused with 53100. Other programs may take the space in between;
//! nothing keeps them from it. A volume that is full for long, or time and again, is told of at growing intervals.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::{ByteCount, Nanos, SqlError, SqlState};
use env::{Disk, OpenMode};

use crate::complaint::Complaint;

/// Name of the file in a volume's directory.
pub(crate) const RESERVE_FILE: &str = "reserve";

/// A volume runs short where it has less free than so many times what is set aside.
const LITTLE_PARTS: u64 = 16;

/// The reserve of one volume.
pub(crate) struct SpaceReserve {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    len: ByteCount,
    spent: AtomicBool,
    /// Of its being given out.
    complaint: Mutex<Complaint>,
}

impl SpaceReserve {
    /// Sets `len` bytes aside in `dir`, if there is space for them. Blocks.
    pub(crate) fn new(disk: &Arc<dyn Disk>, dir: &Path, len: ByteCount) -> Arc<SpaceReserve> {
        let reserve = SpaceReserve {
            disk: disk.clone(),
            path: dir.join(RESERVE_FILE),
            len,
            spent: AtomicBool::new(true),
            complaint: Mutex::default(),
        };
        reserve.set_aside();
        if reserve.is_spent() {
            tracing::warn!(file = %reserve.path.display(), "no space can be set aside: the volume counts as full");
        }
        Arc::new(reserve)
    }

    /// Those of volumes in these directories, by volume: volumes in one directory have one together. Blocks.
    pub(crate) fn of_volumes<'a>(
        disk: &Arc<dyn Disk>,
        dirs: impl IntoIterator<Item = &'a PathBuf>,
        len: ByteCount,
    ) -> Vec<Arc<SpaceReserve>> {
        let mut reserves: Vec<Arc<SpaceReserve>> = Vec::new();
        for dir in dirs {
            let path = dir.join(RESERVE_FILE);
            let there = reserves.iter().find(|reserve| reserve.path == path).cloned();
            reserves.push(there.unwrap_or_else(|| SpaceReserve::new(disk, dir, len)));
        }
        reserves
    }

    /// Whether the volume is full and what was set aside is given out.
    pub(crate) fn is_spent(&self) -> bool {
        self.spent.load(Ordering::Relaxed)
    }

    /// Whether the volume is full, or has so little left that it soon may be: what can be made again had better go. Blocks.
    pub(crate) fn is_running_short(&self) -> bool {
        let is_little = |free: ByteCount| free.0 < LITTLE_PARTS * self.len.0;
        self.is_spent() || self.disk.free_space(&self.path).is_ok_and(is_little)
    }

    /// Gives the space out; true if there was any. Blocks.
    pub(crate) fn release(&self, now: Nanos) -> bool {
        if self.len == ByteCount(0) || self.spent.swap(true, Ordering::Relaxed) {
            return false;
        }
        let told = self.complaint().met(now);
        self.tell_full(told);
        let cut = self.disk.open(&self.path, OpenMode::Create, false).and_then(|file| file.set_len(0));
        cut.is_ok()
    }

    /// Sets the space aside again, if it was given out and there is twice as much: what was given out is not taken away from
    /// those it was meant for. Blocks.
    pub(crate) fn restore(&self, now: Nanos) {
        if self.is_spent() && self.disk.free_space(&self.path).is_ok_and(|free| free.0 >= 2 * self.len.0) {
            self.set_aside();
        }
        if self.is_spent() {
            let told = self.complaint().lasts(now);
            self.tell_full(told);
            return;
        }
        let over = self.complaint().is_over(now);
        if let Some(times) = over {
            tracing::info!(file = %self.path.display(), times, "the volume is not full any more");
        }
    }

    fn complaint(&self) -> MutexGuard<'_, Complaint> {
        self.complaint.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells that the volume was found full so often, if that is to be told.
    fn tell_full(&self, times: Option<u64>) {
        if let Some(times) = times {
            tracing::error!(
                file = %self.path.display(), reserve = self.len.0, times,
                "the volume is full: only what makes room is taken until it is not"
            );
        }
    }

    fn set_aside(&self) {
        let file = self.disk.open(&self.path, OpenMode::Create, false);
        let taken = file.and_then(|file| {
            // An earlier start may have set more aside than is wanted now.
            if file.len()? > self.len.0 {
                file.set_len(self.len.0)?;
            }
            match self.len {
                ByteCount(0) => Ok(()),
                len => file.allocate(0, len.0).inspect_err(|_| drop(file.set_len(0))),
            }
        });
        if taken.is_ok() {
            self.spent.store(false, Ordering::Relaxed);
        }
    }

    /// 53100: what may need more space has to wait.
    pub(crate) fn refusal(&self) -> SqlError {
        let dir = self.path.parent().unwrap_or(&self.path).display();
        SqlError::new(SqlState::DISK_FULL, format!("the volume of {dir} is full")).with_hint(
            "Free space there: writing goes on by itself. DELETE, TRUNCATE and DROP go on meanwhile.",
        )
    }
}

#[cfg(test)]
mod tests {
    use env::sim::World;

    use super::*;

    #[test]
    fn volumes_in_one_directory_are_full_together() {
        let world = World::new(2);
        let disk = world.env().disk;
        let dirs = ["/data", "/fast", "/data/", "/log"].map(PathBuf::from);
        dirs.iter().for_each(|dir| disk.create_dir_all(dir).unwrap());
        let reserves = SpaceReserve::of_volumes(&disk, &dirs, ByteCount(256 << 10));
        assert!(reserves[2].release(Nanos(0)));
        assert_eq!(reserves.iter().map(|one| one.is_spent()).collect::<Vec<_>>(), [true, false, true, false]);
    }

    #[test]
    fn a_start_that_sets_less_aside_gives_the_rest_back() {
        let world = World::new(3);
        let disk = world.env().disk;
        disk.create_dir_all("/data".as_ref()).unwrap();
        for mib in [4, 1, 0] {
            assert!(!SpaceReserve::new(&disk, Path::new("/data"), ByteCount::from_mib(mib)).is_spent());
            let file = disk.open("/data/reserve".as_ref(), OpenMode::Read, false).unwrap();
            assert_eq!(file.len().unwrap(), mib << 20);
        }
    }

    #[test]
    fn what_was_set_aside_is_there_when_the_disk_is_full_and_taken_back_afterwards() {
        let world = World::new(1);
        let disk = world.env().disk;
        disk.create_dir_all("/data".as_ref()).unwrap();
        world.set_disk_capacity(ByteCount(1 << 20));
        let reserve = SpaceReserve::new(&disk, Path::new("/data"), ByteCount(256 << 10));
        let len = || disk.open("/data/reserve".as_ref(), OpenMode::Read, false).unwrap().len().unwrap();
        assert_eq!((reserve.is_spent(), len()), (false, 256 << 10));
        assert!(reserve.is_running_short());
        world.set_disk_capacity(ByteCount(8 << 20));
        assert!(!reserve.is_running_short());
        world.set_disk_capacity(ByteCount(1 << 20));
        let other = disk.open("/data/other".as_ref(), OpenMode::Create, false).unwrap();
        other.write_at(&vec![1; 700 << 10], 0).unwrap();
        assert!(reserve.release(Nanos(0)));
        assert_eq!((reserve.is_spent(), len()), (true, 0));
        assert!(!reserve.release(Nanos(0)), "once");
        reserve.restore(Nanos(0));
        assert!(reserve.is_spent(), "what was given out is meant for others");
        // The simulated disk keeps what a power cut might bring back, so the volume grows instead of being emptied.
        world.set_disk_capacity(ByteCount(2 << 20));
        reserve.restore(Nanos(0));
        assert_eq!((reserve.is_spent(), len()), (false, 256 << 10));
        world.set_disk_capacity(ByteCount(1 << 10));
        assert!(SpaceReserve::new(&disk, Path::new("/"), ByteCount(256 << 10)).is_spent(), "a full volume");
    }
}
