//! Ends another thread's wait, with a system call only if it really sleeps.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// Interrupts the backend's wait.
pub(crate) trait Notify: Send + Sync {
    fn notify(&self);
}

const AWAKE: u8 = 0;
const SLEEPING: u8 = 1;
const NOTIFIED: u8 = 2;

/// Wakes a reactor's thread: its running or next `turn` does not wait. Cheap when the thread is awake. What was written
/// before `wake` is visible to the woken thread after its `turn`.
#[derive(Clone)]
pub struct RemoteWaker(Arc<State>);

struct State {
    /// Written by the reactor's thread (`AWAKE`, `SLEEPING`) and by wakers (`NOTIFIED`).
    sleep: AtomicU8,
    notify: Arc<dyn Notify>,
}

impl RemoteWaker {
    pub(crate) fn new(notify: Arc<dyn Notify>) -> RemoteWaker {
        RemoteWaker(Arc::new(State { sleep: AtomicU8::new(AWAKE), notify }))
    }

    /// See the type's description. Callable from any thread, never blocks.
    pub fn wake(&self) {
        // SeqCst: the waker's earlier push must be ordered before this swap against the sleeper's swap and later look.
        if self.0.sleep.swap(NOTIFIED, Ordering::SeqCst) == SLEEPING {
            self.0.notify.notify();
        }
    }

    /// Announces a wait; false if a wake-up came since the last turn, which then must not wait.
    pub(crate) fn fall_asleep(&self) -> bool {
        self.0.sleep.compare_exchange(AWAKE, SLEEPING, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Ends a wait and consumes the wake-up: the caller looks at its queues next.
    pub(crate) fn stay_awake(&self) {
        self.0.sleep.swap(AWAKE, Ordering::SeqCst);
    }
}
