//! A point where a task lets others run.

use std::future::poll_fn;
use std::task::Poll;

/// Returns to the executor once and asks to be polled again.
pub async fn yield_now() {
    let mut yielded = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Small steps of work between two yields, tens of microseconds together.
const STEPS: usize = 512;

/// Yields in each step whose number is a multiple of [`STEPS`].
pub(crate) async fn yield_every(step: usize) {
    if step % STEPS == STEPS - 1 {
        yield_now().await;
    }
}
