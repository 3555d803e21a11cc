//! What one task took: processor time on its worker, I/Os.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use base::Nanos;

use super::worker::{blocking_ios, poll_use};

/// Totals of a task since its first poll. Written by the thread that polls it and read in its polls: between two of them it may have gone to another
/// worker, which takes over what the one before wrote.
#[derive(Default)]
pub(crate) struct TaskUse {
    /// Of polls that have ended, and what was added besides.
    cpu: AtomicU64,
    ios: AtomicU64,
    /// I/Os that had blocked the worker when the present poll began.
    blocked_before: AtomicU64,
}

impl TaskUse {
    // A plain load and store: there is one writer at a time.
    fn add_to(total: &AtomicU64, amount: u64) {
        total.store(total.load(Ordering::Relaxed) + amount, Ordering::Relaxed);
    }

    /// Counts what was done for the task on another thread, or what it waits for. In one of its polls.
    pub(crate) fn add(&self, cpu: Nanos, ios: u64) {
        TaskUse::add_to(&self.cpu, cpu.0);
        TaskUse::add_to(&self.ios, ios);
    }

    /// Totals up to now. In one of the task's polls.
    pub(crate) fn taken(&self) -> (Nanos, u64) {
        let (cpu, blocked) = poll_use();
        let blocked = blocked.saturating_sub(self.blocked_before.load(Ordering::Relaxed));
        (Nanos(self.cpu.load(Ordering::Relaxed)) + cpu, self.ios.load(Ordering::Relaxed) + blocked)
    }

    pub(super) fn poll_begins(&self) {
        self.blocked_before.store(blocking_ios(), Ordering::Relaxed);
    }

    pub(super) fn poll_ends(&self) {
        let (cpu, ios) = self.taken();
        self.cpu.store(cpu.0, Ordering::Relaxed);
        self.ios.store(ios, Ordering::Relaxed);
    }
}

/// A future that notes what its polls take. The outermost of its task: the worker's time of a poll counts from the poll's beginning.
pub(crate) struct Noted<F> {
    future: F,
    used: Arc<TaskUse>,
}

impl<F> Noted<F> {
    pub(crate) fn new(used: &Arc<TaskUse>, future: F) -> Noted<F> {
        Noted { future, used: used.clone() }
    }
}

impl<F: Future> Future for Noted<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: structural pinning of `future` alone: it is never moved out, and `Noted` has neither `Drop` nor `Unpin` of its own. What was
        // used is not pinned.
        let this = unsafe { self.get_unchecked_mut() };
        this.used.poll_begins();
        // SAFETY: as above.
        let poll = unsafe { Pin::new_unchecked(&mut this.future) }.poll(cx);
        this.used.poll_ends();
        poll
    }
}
