//! The handle a session waits on for a lock.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use base::Nanos;

/// Resolves when the lock is granted, the wait is given up, or the tenant is dropped. Hold it beside the transaction; to give up (a timeout, a
/// cancel), call [`crate::Tenant::cancel_wait`].
#[derive(Debug)]
pub struct LockWait {
    state: Arc<Mutex<State>>,
    /// What is locked ([`super::LockTag::kind`]).
    pub kind: &'static str,
    /// How long to wait for it before the statement is run again, as if it were granted. `None`: as long as it takes.
    pub at_most: Option<Nanos>,
}

#[derive(Debug, Default)]
struct State {
    over: bool,
    waker: Option<Waker>,
}

/// The side of a wait that ends it, when it is dropped too: nobody waits for a lock of a table that is gone.
#[derive(Debug)]
pub(crate) struct WaitEnd(Arc<Mutex<State>>);

impl LockWait {
    pub(crate) fn new(kind: &'static str, at_most: Option<Nanos>) -> (LockWait, WaitEnd) {
        let state = Arc::new(Mutex::new(State::default()));
        (LockWait { state: Arc::clone(&state), kind, at_most }, WaitEnd(state))
    }

    /// Whether the wait is over already.
    pub fn is_over(&self) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).over
    }
}

impl WaitEnd {
    /// Wakes the waiter.
    pub(crate) fn end(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.over = true;
        if let Some(waker) = state.waker.take() {
            drop(state);
            waker.wake();
        }
    }
}

impl Drop for WaitEnd {
    fn drop(&mut self) {
        self.end();
    }
}

impl Future for LockWait {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.over {
            return Poll::Ready(());
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }
}
