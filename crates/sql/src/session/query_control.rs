//! What is asked of a query under way, from outside.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often a thread that stands still looks whether it may go on: as often as limits of processor time are refilled.
const HELD_LOOK: Duration = Duration::from_millis(10);

/// Ends a query, or has its thread stand still. Clones are of the same query; from any thread.
#[derive(Clone, Default, Debug)]
pub struct QueryControl {
    cancelled: Arc<AtomicBool>,
    held: Arc<AtomicBool>,
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

    /// Where a query can stand still: blocks while it is held, unless it is cancelled. Whoever calls holds no lock that a worker
    /// could wait for.
    pub fn wait_while_held(&self) {
        while self.held.load(Ordering::Relaxed) && !self.is_cancelled() {
            std::thread::park_timeout(HELD_LOOK);
        }
    }
}
