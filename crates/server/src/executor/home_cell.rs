//! State that belongs to one worker, reachable by type from anywhere and by use from its home alone.

use std::cell::{Cell, UnsafeCell};

use super::handle::WorkerHandle;
use super::worker::current_serial;

/// A value only its home worker may touch. `Send + Sync`, so that it can be shared with tasks and other threads; the
/// check is one thread-local load. Dropped wherever the last owner drops it.
pub struct HomeCell<T> {
    /// Serial number of the home worker, unique in the process.
    home: u64,
    /// Only the home's thread reads or writes it.
    borrowed: Cell<bool>,
    value: UnsafeCell<T>,
}

// SAFETY: the value moves between threads only with the cell, and `T: Send` allows that.
unsafe impl<T: Send> Send for HomeCell<T> {}
// SAFETY: a shared cell gives access to the value and to `borrowed` only in `with`, which first asserts that it runs on
// the home worker. A serial belongs to one `Worker`, which never leaves its thread, so all accesses are on one thread; `borrowed` excludes a second one inside the first.
unsafe impl<T: Send> Sync for HomeCell<T> {}

/// Ends the borrow also when the body panics.
struct Release<'a>(&'a Cell<bool>);

impl Drop for Release<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

impl<T> HomeCell<T> {
    /// A cell at home on `home`. Callable on any thread.
    pub fn new(home: &WorkerHandle, value: T) -> HomeCell<T> {
        HomeCell { home: home.0.serial, borrowed: Cell::new(false), value: UnsafeCell::new(value) }
    }

    /// Whether the caller runs on the home worker.
    pub fn is_home(&self) -> bool {
        current_serial() == Some(self.home)
    }

    /// Runs `body` with the value. `body` cannot await, so no other task sees a half-done change.
    ///
    /// # Panics
    /// On another thread than the home worker's, and inside another `with` of the same cell.
    pub fn with<R>(&self, body: impl FnOnce(&mut T) -> R) -> R {
        assert!(self.is_home(), "a worker's state was used away from it");
        assert!(!self.borrowed.replace(true), "a home cell was used inside its own use");
        let _release = Release(&self.borrowed);
        // SAFETY: this is the home's thread and no other `with` is on its stack: both were just asserted.
        body(unsafe { &mut *self.value.get() })
    }

    /// The value, if the cell is no longer shared.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}
