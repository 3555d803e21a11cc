//! Page frames made ahead of need, on a thread that may wait.
//!
//! The first touch of fresh memory is the kernel's work of finding and zeroing it: 2 MiB take a millisecond on a virtual
//! machine, half of what a tenant's growth costs in all. Without a stock the worker pays it in the middle of a statement.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{self, Thread};

use crate::frame::stock_frames;

/// Free frames at which the stock is filled up: 4 MiB.
pub(crate) const LOW: usize = 512;
/// What it is filled up to: 8 MiB, twice as much each time it was used up before it was full, at most 128 MiB.
const FULL_MIN: usize = 1024;
const FULL_MAX: usize = 16_384;

static KEEPER: OnceLock<Thread> = OnceLock::new();
/// Chunks that others made because there was no free frame.
static EMPTY: AtomicU32 = AtomicU32::new(0);

/// Tells the keeper, if there is one, that the stock is low. Takes no lock.
#[cold]
pub(crate) fn wake() {
    if let Some(keeper) = KEEPER.get() {
        keeper.unpark();
    }
}

/// Notes that a frame was wanted and none was free.
pub(crate) fn note_empty() {
    EMPTY.fetch_add(1, Ordering::Relaxed);
    wake();
}

/// Makes the calling thread the process's keeper of the stock: it sleeps, and makes frames when few are left. Never
/// returns; blocks no one. Between 4 and 128 MiB are free in consequence, by how fast they are taken.
///
/// # Panics
/// If there is a keeper already.
pub fn keep_frames_in_stock() -> ! {
    assert!(KEEPER.set(thread::current()).is_ok(), "one keeper of the stock in a process");
    let mut full = FULL_MIN;
    loop {
        thread::park();
        full = match EMPTY.swap(0, Ordering::Relaxed) {
            0 => (full / 2).max(FULL_MIN),
            _ => (full * 2).min(FULL_MAX),
        };
        stock_frames(full);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Frame, frame_memory};

    #[test]
    fn who_takes_frames_finds_them_made() {
        thread::spawn(|| keep_frames_in_stock());
        while KEEPER.get().is_none() {
            thread::yield_now();
        }
        let mut taken = Vec::new();
        for _ in 0..3 {
            // Goes past the mark in any case: others take and return frames meanwhile.
            taken.extend((0..LOW + 10).map(|_| Frame::zeroed()));
            wake();
            while frame_memory().1.0 < (LOW * base::limits::PAGE_SIZE) as u64 {
                thread::yield_now();
            }
        }
    }
}
