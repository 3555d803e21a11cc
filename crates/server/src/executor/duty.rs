//! What a worker does for all its tenants and in nobody's turn: the flush of their log.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use base::TenantId;
use env::RemoteWaker;

use super::handle::supervise;
use super::worker::current_serial;

/// A future that stands in no queue: its worker polls it first in a turn, and again before it looks at the ring.
pub(super) struct Duty {
    /// `None` once it has ended.
    future: Option<Pin<Box<dyn Future<Output = ()>>>>,
    /// Told between the polls of a turn and the look at the ring.
    end_turn: Box<dyn FnMut()>,
    woken: Arc<Woken>,
    waker: Waker,
}

struct Woken {
    flag: AtomicBool,
    /// The worker whose duty it is.
    serial: u64,
    remote: RemoteWaker,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.flag.store(true, Ordering::Release);
        // Its own thread looks at the flag before it sleeps.
        if current_serial() != Some(self.serial) {
            self.remote.wake();
        }
    }
}

impl Duty {
    pub(super) fn new(
        serial: u64,
        remote: RemoteWaker,
        end_turn: impl FnMut() + 'static,
        future: impl Future<Output = ()> + 'static,
    ) -> Duty {
        let woken = Arc::new(Woken { flag: AtomicBool::new(true), serial, remote });
        let waker = Waker::from(woken.clone());
        Duty { future: Some(Box::pin(future)), end_turn: Box::new(end_turn), woken, waker }
    }

    /// Whether it wants to be polled.
    pub(super) fn is_woken(&self) -> bool {
        self.woken.flag.load(Ordering::Acquire)
    }

    pub(super) fn end_turn(&mut self) {
        (self.end_turn)();
    }

    pub(super) fn poll(&mut self) {
        self.woken.flag.store(false, Ordering::Release);
        let Some(future) = &mut self.future else { return };
        let poll = || future.as_mut().poll(&mut Context::from_waker(&self.waker));
        if let Poll::Ready(ended) = supervise(TenantId::SYSTEM, poll) {
            // Whoever commits waits for it.
            assert!(ended.is_some(), "a worker cannot go on without its flusher");
            self.future = None;
        }
    }
}
