//! Runs one future on the calling thread, for tools and tests.

use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use crate::Env;
use crate::reactor::{Reactor, RemoteWaker};

struct WakeReactor(RemoteWaker);

impl Wake for WakeReactor {
    fn wake(self: Arc<Self>) {
        self.0.wake();
    }
    fn wake_by_ref(self: &Arc<Self>) {
        self.0.wake();
    }
}

/// Runs `future` to its end on a reactor of its own, blocking the thread. In a simulation virtual time advances while
/// the future waits.
///
/// # Panics
/// If the reactor cannot be made or fails, or if a simulated future waits for something that can never happen.
pub fn block_on<F: Future>(env: &Env, future: F) -> F::Output {
    let reactor = Reactor::new(env).expect("a completion backend is available");
    let mut future = std::pin::pin!(future);
    let waker = Waker::from(Arc::new(WakeReactor(reactor.remote_waker())));
    let mut cx = Context::from_waker(&waker);
    reactor.enter(|| {
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
                return output;
            }
            // The waker above marks the reactor notified, so a future that woke itself does not wait here.
            reactor.turn(None).expect("the reactor turns");
        }
    })
}
