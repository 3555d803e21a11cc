//! Work that is to wait for the rest of its tenant's: what a statement that ran away does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether what a task, and the analytical thread that works for it, do is background work: then it stands behind its tenant's other work, and gets
/// spare time last. In force when either is queued the next time. Clones are of the same one.
#[derive(Clone, Default, Debug)]
pub struct Background(Arc<AtomicBool>);

impl Background {
    pub fn set(&self, background: bool) {
        // Relaxed: nothing else is read by it.
        self.0.store(background, Ordering::Relaxed);
    }

    #[inline]
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
