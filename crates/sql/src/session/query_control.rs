//! What is asked of a query under way, from outside, and what it tells of itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use base::Nanos;

/// How often a thread that stands still looks whether it may go on: as often as limits of processor time are refilled.
const HELD_LOOK: Nanos = Nanos::from_millis(10);

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
    /// Of this run, and of the longest one before it.
    rows: AtomicU64,
    rows_before: AtomicU64,
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

    /// Rows of tables that the query has read so far; of one that is run again, the longest run.
    pub fn rows_read(&self) -> u64 {
        self.taken.rows.load(Ordering::Relaxed).max(self.taken.rows_before.load(Ordering::Relaxed))
    }

    /// The query is run again from its beginning: what it reads anew counts once. What it takes of the processor and the disk it takes twice.
    pub fn run_again(&self) {
        let rows = self.taken.rows.load(Ordering::Relaxed);
        // First, so that nobody sees less than before.
        self.taken.rows_before.fetch_max(rows, Ordering::Relaxed);
        self.taken.rows.store(0, Ordering::Relaxed);
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
    /// could wait for. In a simulation it is a step, beside which others have their turns.
    pub fn wait_while_held(&self) {
        env::take_step();
        while self.held.load(Ordering::Relaxed) && !self.is_cancelled() {
            env::park(Some(HELD_LOOK));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_run_again_counts_once() {
        let control = QueryControl::default();
        control.add_rows_read(700);
        control.run_again();
        control.add_rows_read(300);
        assert_eq!(control.rows_read(), 700, "no amount falls");
        control.add_rows_read(500);
        assert_eq!(control.clone().rows_read(), 800);
        control.run_again();
        control.add_rows_read(1);
        assert_eq!(control.rows_read(), 800);
    }
}
