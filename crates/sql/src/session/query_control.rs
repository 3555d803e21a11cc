//! What is asked of a query under way, from outside, and what it tells of itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// How often a thread that stands still looks whether it may go on: as often as limits of processor time are refilled.
const HELD_LOOK: Duration = Duration::from_millis(10);

/// Ends a query, or has its thread stand still; and what it has read. Clones are of the same query; from any thread.
#[derive(Clone, Default, Debug)]
pub struct QueryControl {
    cancelled: Arc<AtomicBool>,
    held: Arc<AtomicBool>,
    taken: Arc<Taken>,
}

/// What the query took so far.
#[derive(Default, Debug)]
struct Taken {
    rows: AtomicU64,
    ios: AtomicU64,
}

impl QueryControl {
    /// Ends the query where it looks next, for good.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// True while the query's thread is to stand still where it looks next: its tenant is over its limit of processor time.
    pub fn held(&self) -> &Arc<AtomicBool> {
        &self.held
    }

    /// The query has read so many more rows of tables. To be called for each batch.
    pub fn add_rows_read(&self, rows: u64) {
        self.taken.rows.fetch_add(rows, Ordering::Relaxed);
    }

    /// Rows of tables that the query has read so far.
    pub fn rows_read(&self) -> u64 {
        self.taken.rows.load(Ordering::Relaxed)
    }

    /// The query has done so many more I/Os, as `iops` counts them.
    pub fn add_ios(&self, ios: u64) {
        self.taken.ios.fetch_add(ios, Ordering::Relaxed);
    }

    /// I/Os that the query has done so far, of pages and of temporary files.
    pub fn ios(&self) -> u64 {
        self.taken.ios.load(Ordering::Relaxed)
    }

    /// Where a query can stand still: blocks while it is held, unless it is cancelled. Whoever calls holds no lock that a worker
    /// could wait for.
    pub fn wait_while_held(&self) {
        while self.held.load(Ordering::Relaxed) && !self.is_cancelled() {
            std::thread::park_timeout(HELD_LOOK);
        }
    }
}
