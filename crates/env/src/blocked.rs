//! Telling whoever schedules a thread that it is about to block.
//!
//! Code that may block does not know on whose thread it runs: a tool's, where nobody cares, or one that holds a place in a run
//! queue and should give it up meanwhile. The thread's owner says what to do around a wait. In a simulation such a wait takes time.

use std::cell::RefCell;
use std::rc::Rc;

use crate::sim;

/// What to do around a wait: calls its argument once.
pub type AroundWait = Rc<dyn Fn(&mut dyn FnMut())>;

thread_local! {
    static AROUND: RefCell<Option<AroundWait>> = const { RefCell::new(None) };
}

/// Until it is dropped, waits of this thread go through what was given to [`around_waits`].
pub struct AroundWaits(());

impl Drop for AroundWaits {
    fn drop(&mut self) {
        AROUND.set(None);
    }
}

/// Has `around` called for each [`blocked`] of the calling thread.
pub fn around_waits(around: AroundWait) -> AroundWaits {
    AROUND.set(Some(around));
    AroundWaits(())
}

/// Runs `wait`, which may block the thread. A wait within a wait is part of it.
pub fn blocked<R>(wait: impl FnOnce() -> R) -> R {
    let Some(around) = AROUND.take() else { return wait() };
    let around = PutBack(around);
    let (mut wait, mut result) = (Some(wait), None);
    (around.0)(&mut || {
        sim::take_time_of_wait();
        result = wait.take().map(|wait| wait());
    });
    result.expect("what is done around a wait lets it happen once")
}

/// Puts back what is done around waits.
struct PutBack(AroundWait);

impl Drop for PutBack {
    fn drop(&mut self) {
        AROUND.set(Some(self.0.clone()));
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn waits_go_through_what_the_thread_was_given() {
        let waits = Rc::new(Cell::new(0));
        let count = Rc::clone(&waits);
        let around = around_waits(Rc::new(move |wait| {
            count.set(count.get() + 1);
            wait();
        }));
        assert_eq!((blocked(|| 7), waits.get()), (7, 1));
        assert_eq!((blocked(|| blocked(|| 6)), waits.get()), (6, 2));
        drop(around);
        assert_eq!((blocked(|| 8), waits.get()), (8, 2));
    }
}
