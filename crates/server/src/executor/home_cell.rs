//! State that belongs to one worker, reachable by type from anywhere and by use from its home alone.

use std::cell::{Cell, UnsafeCell};
use std::sync::Arc;

use super::residence::Residence;

/// A value only its home worker may touch, whichever that is at the moment. `Send + Sync`, so that it can be shared with tasks and other threads; the
/// check is one thread-local load. Dropped wherever the last owner drops it.
pub struct HomeCell<T> {
    residence: Arc<Residence>,
    /// Only the home's thread reads or writes it.
    borrowed: Cell<bool>,
    value: UnsafeCell<T>,
}

// SAFETY: the value moves between threads only with the cell, and `T: Send` allows that.
unsafe impl<T: Send> Send for HomeCell<T> {}
// SAFETY: a shared cell gives access to the value and to `borrowed` only in `with`, which first asserts that it runs on
// the home worker. A serial belongs to one `Worker`, which never leaves its thread; the home changes by that thread alone, while no `with` of the residence is on its stack
// (`Held::move_to` asserts it), by a release that the next home's thread acquires in `is_here`. So all accesses are ordered, one thread's after the other's; `borrowed` excludes a second one
// inside the first.
unsafe impl<T: Send> Sync for HomeCell<T> {}

/// Ends the borrow also when the body panics.
struct Release<'a>(&'a Cell<bool>);

impl Drop for Release<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

impl<T> HomeCell<T> {
    /// A cell at home where `residence` says. Callable on any thread.
    pub fn new(residence: &Arc<Residence>, value: T) -> HomeCell<T> {
        HomeCell { residence: residence.clone(), borrowed: Cell::new(false), value: UnsafeCell::new(value) }
    }

    /// Whether the caller runs on the home worker.
    pub fn is_home(&self) -> bool {
        self.residence.is_here()
    }

    /// Runs `body` with the value. `body` cannot await, so no other task sees a half-done change.
    ///
    /// # Panics
    /// On another thread than the home worker's, and inside another `with` of the same cell.
    pub fn with<R>(&self, body: impl FnOnce(&mut T) -> R) -> R {
        let _in_use = self.residence.enter();
        assert!(!self.borrowed.replace(true), "a home cell was used inside its own use");
        let _release = Release(&self.borrowed);
        // SAFETY: this is the home's thread, as `enter` asserts and sees to while `_in_use` lives, and no other `with` of the cell is on its stack, as was
        // just asserted.
        body(unsafe { &mut *self.value.get() })
    }

    /// The value, if the cell is no longer shared.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}
