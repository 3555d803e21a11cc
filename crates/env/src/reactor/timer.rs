//! Timers of one reactor: a heap by deadline. A dropped timer is only marked and leaves the heap when it comes up or
//! when the dead could be half of it.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use base::Nanos;

use super::with_current;

#[derive(Default)]
enum TimerState {
    #[default]
    Unpolled,
    Waiting(Waker),
    Fired,
    Dropped,
}

#[derive(Default)]
struct Timer(Mutex<TimerState>);

impl Timer {
    fn lock(&self) -> MutexGuard<'_, TimerState> {
        self.0.lock().expect("no panic under a timer's lock")
    }
}

struct Entry {
    deadline: Nanos,
    /// Order of registration, so that equal deadlines fire first come, first served.
    number: u64,
    timer: Arc<Timer>,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        self.cmp(other).is_eq()
    }
}
impl Eq for Entry {}
impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Entry {
    fn cmp(&self, other: &Entry) -> Ordering {
        (self.deadline, self.number).cmp(&(other.deadline, other.number))
    }
}

/// Below this many entries the dead are not worth a sweep.
const SWEEP_LEN_MIN: usize = 256;

#[derive(Default)]
pub(super) struct Timers {
    heap: BinaryHeap<Reverse<Entry>>,
    registered: u64,
    sweep_at: usize,
}

impl Timers {
    pub(super) fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    fn register(&mut self, deadline: Nanos, timer: Arc<Timer>) {
        if self.heap.len() >= self.sweep_at.max(SWEEP_LEN_MIN) {
            self.heap.retain(|Reverse(entry)| !matches!(*entry.timer.lock(), TimerState::Dropped));
            self.sweep_at = self.heap.len() * 2;
        }
        self.registered += 1;
        self.heap.push(Reverse(Entry { deadline, number: self.registered, timer }));
    }

    /// The next live timer's deadline.
    pub(super) fn next_deadline(&mut self) -> Option<Nanos> {
        loop {
            let Reverse(first) = self.heap.peek()?;
            if !matches!(*first.timer.lock(), TimerState::Dropped) {
                return Some(first.deadline);
            }
            self.heap.pop();
        }
    }

    pub(super) fn fire(&mut self, now: Nanos, woken: &mut Vec<Waker>) -> usize {
        let mut fired = 0;
        while self.next_deadline().is_some_and(|deadline| deadline <= now) {
            let Reverse(entry) = self.heap.pop().expect("a next deadline has its entry");
            let before = std::mem::replace(&mut *entry.timer.lock(), TimerState::Fired);
            if let TimerState::Waiting(waker) = before {
                woken.push(waker);
            }
            fired += 1;
        }
        fired
    }
}

/// Completes at an instant of the monotonic clock. Registered at the first poll with that thread's reactor; dropping it
/// forgets the timer.
#[must_use = "a timer starts when it is awaited"]
pub struct Sleep {
    deadline: Nanos,
    timer: Option<Arc<Timer>>,
}

/// Completes when [`super::now`] has reached `deadline`.
pub fn sleep_until(deadline: Nanos) -> Sleep {
    Sleep { deadline, timer: None }
}

/// Completes `duration` after the first poll.
pub async fn sleep(duration: Nanos) {
    sleep_until(super::now() + duration).await;
}

impl Sleep {
    /// When it completes.
    pub fn deadline(&self) -> Nanos {
        self.deadline
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let deadline = self.deadline;
        let timer = match &self.timer {
            Some(timer) => timer,
            None => {
                let timer = Arc::new(Timer::default());
                let due = with_current(|inner| {
                    let due = inner.clock.now() >= deadline;
                    if !due {
                        inner.timers.borrow_mut().register(deadline, timer.clone());
                    }
                    due
                });
                if due {
                    return Poll::Ready(());
                }
                self.timer.insert(timer)
            }
        };
        let mut state = timer.lock();
        match &mut *state {
            TimerState::Fired => Poll::Ready(()),
            TimerState::Waiting(waker) => {
                waker.clone_from(cx.waker());
                Poll::Pending
            }
            _ => {
                *state = TimerState::Waiting(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(timer) = &self.timer {
            let before = std::mem::replace(&mut *timer.lock(), TimerState::Dropped);
            drop(before);
        }
    }
}

/// The deadline passed first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Elapsed;

impl std::fmt::Display for Elapsed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the deadline passed")
    }
}
impl std::error::Error for Elapsed {}

/// Runs `future` until `deadline` (`None`: without bound); at the deadline it is dropped.
pub async fn timeout_at<F: Future>(deadline: Option<Nanos>, future: F) -> Result<F::Output, Elapsed> {
    let Some(deadline) = deadline else { return Ok(future.await) };
    let mut future = std::pin::pin!(future);
    let mut sleep = std::pin::pin!(sleep_until(deadline));
    std::future::poll_fn(|cx| {
        if let Poll::Ready(output) = future.as_mut().poll(cx) {
            return Poll::Ready(Ok(output));
        }
        sleep.as_mut().poll(cx).map(|()| Err(Elapsed))
    })
    .await
}
