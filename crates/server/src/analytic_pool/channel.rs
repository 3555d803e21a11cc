//! What a query's thread says, on its way to the session's task, and what the query takes.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use base::{Nanos, SqlError, SqlState};
use env::{Condition, ThreadControl};
use futures::task::AtomicWaker;
use sql::session::{AnalyticEvent, QueryControl, StatementCounts, Taken};

use super::lock;
use super::place::Place;
use crate::executor::Proxy;

/// Events on their way to a session.
const EVENTS_MAX: usize = 8;

/// A client did not read while more queries than may wait for theirs did so, and others wanted a thread.
fn not_read() -> SqlError {
    SqlError::new(
        SqlState::CONFIGURATION_LIMIT_EXCEEDED,
        "canceling statement because its client does not read the result and others wait for a thread",
    )
}

/// A bounded queue of events from one thread to one task.
#[derive(Default)]
pub(super) struct Channel {
    state: Mutex<ChannelState>,
    room: Condition,
    waker: AtomicWaker,
    /// Cancelled by the session, when nobody wants the result any more.
    pub(super) control: QueryControl,
    thread: Mutex<QueryThread>,
}

/// Waiting for a thread, or for a place for it again.
#[derive(Clone, Copy, Default)]
struct ThreadWait {
    /// Of waits that have ended.
    waited: Nanos,
    /// Since when it waits for its first one.
    since: Option<Nanos>,
}

/// The thread that a query runs on, as far as its processor time goes.
#[derive(Default)]
struct QueryThread {
    /// With its clock when the query began.
    runs: Option<(ThreadControl, Nanos)>,
    /// What an ended query took.
    took: Nanos,
    /// The session has counted so much of what the query takes, and the rest is to be counted here.
    given_up: Option<(QueryTaken, Option<Arc<StatementCounts>>)>,
    wait: ThreadWait,
}

impl QueryThread {
    fn begin(&mut self, thread: ThreadControl) {
        let began = thread.cpu_time().unwrap_or_default();
        self.runs = Some((thread, began));
    }

    fn took(&self) -> Nanos {
        match &self.runs {
            Some((thread, began)) => thread.cpu_time().map_or(self.took, |cpu| cpu - *began),
            None => self.took,
        }
    }

    fn end(&mut self) {
        self.took = self.took();
        self.runs = None;
    }
}

#[derive(Default)]
struct ChannelState {
    events: VecDeque<AnalyticEvent>,
    done: bool,
    producer_gone: bool,
    consumer_gone: bool,
}

impl Channel {
    /// Waits from `now` on for a thread.
    pub(super) fn begin_wait(&self, now: Nanos) {
        lock(&self.thread).wait.since = Some(now);
    }

    /// A wait for a thread, or for a place for it, has ended that took so long.
    pub(super) fn end_wait(&self, took: Nanos) {
        let wait = &mut lock(&self.thread).wait;
        wait.since = None;
        wait.waited += took;
    }

    pub(super) fn begin_thread(&self, thread: ThreadControl) {
        lock(&self.thread).begin(thread);
    }

    /// Whether nobody wants the result any more.
    pub(super) fn is_given_up(&self) -> bool {
        lock(&self.state).consumer_gone
    }

    /// Hands an event to the session, in whose channel there must be room first: others have the thread's place meanwhile. False if
    /// nobody wants the result, or it took too long while others waited for a thread.
    pub(super) fn send(&self, event: AnalyticEvent, proxy: &Proxy, place: &Place<'_>) -> bool {
        // The session's worker takes the same locks.
        let event = match proxy.sharing_locks(|| self.push_if_room(event)) {
            Ok(is_wanted) => return is_wanted,
            Err(event) => event,
        };
        // Out of the run queue.
        let is_room = proxy.blocked_sharing_locks(|| place.while_client_reads(self));
        // One producer: the room that was found stays.
        proxy.sharing_locks(|| match is_room {
            true => self.push(event),
            false => {
                self.push(AnalyticEvent::Done(Err(not_read())));
                false
            }
        })
    }

    /// Gives the event back if there is no room for it.
    fn push_if_room(&self, event: AnalyticEvent) -> Result<bool, AnalyticEvent> {
        let is_full = self.is_full(&lock(&self.state));
        if is_full { Err(event) } else { Ok(self.push(event)) }
    }

    fn is_full(&self, state: &ChannelState) -> bool {
        state.events.len() >= EVENTS_MAX && !state.consumer_gone
    }

    /// Waits until the session has taken an event, or is gone; with `at_most` so long at most, or shorter. Whether it has.
    pub(super) fn await_room(&self, at_most: Option<Nanos>) -> bool {
        let mut state = lock(&self.state);
        while self.is_full(&state) {
            state = self.room.wait(&self.state, state, at_most);
            if at_most.is_some() {
                break;
            }
        }
        !self.is_full(&state)
    }

    fn push(&self, event: AnalyticEvent) -> bool {
        let mut state = lock(&self.state);
        if state.consumer_gone || state.done {
            return false;
        }
        state.done |= matches!(event, AnalyticEvent::Done(_));
        state.events.push_back(event);
        drop(state);
        self.waker.wake();
        true
    }

    fn taken(&self, thread: &QueryThread) -> QueryTaken {
        QueryTaken { cpu: thread.took(), rows: self.control.rows_read(), io: self.control.ios() }
    }

    /// The thread has done all for the query.
    pub(super) fn end_thread(&self) {
        let mut thread = lock(&self.thread);
        thread.end();
        if let Some((counted, Some(counts))) = thread.given_up.take() {
            let taken = self.taken(&thread);
            let ios = taken.io.saturating_sub(counted.io);
            counts.add_taken(Taken { cpu: taken.cpu - counted.cpu, ios });
        }
    }

    /// The query gets no thread.
    pub(super) fn refuse(&self, error: SqlError) {
        self.push(AnalyticEvent::Done(Err(error)));
        self.close_producer();
    }

    pub(super) fn close_producer(&self) {
        lock(&self.state).producer_gone = true;
        self.waker.wake();
    }
}

/// What a query has taken so far.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct QueryTaken {
    pub(crate) cpu: Nanos,
    pub(crate) rows: u64,
    pub(crate) io: u64,
}

/// Tells what a query takes, from any thread.
#[derive(Clone)]
pub(crate) struct QueryMeter(Arc<Channel>);

impl QueryMeter {
    pub(crate) fn taken(&self) -> QueryTaken {
        self.0.taken(&lock(&self.0.thread))
    }
}

/// The listening end of a query. Dropping it tells the query to stop.
pub(crate) struct Events(pub(super) Arc<Channel>);

impl Events {
    pub(crate) fn meter(&self) -> QueryMeter {
        QueryMeter(self.0.clone())
    }

    /// How long it has waited for a thread by `now`.
    pub(crate) fn waited_for_thread(&self, now: Nanos) -> Nanos {
        let wait = lock(&self.0.thread).wait;
        wait.waited + wait.since.map_or(Nanos(0), |since| now - since)
    }

    /// What the query took so far. What its thread takes after this goes to `counts`: a query may have told its end before its thread has, or
    /// go on for a while after it was cancelled.
    pub(crate) fn give_up(&self, counts: Option<Arc<StatementCounts>>) -> QueryTaken {
        let mut thread = lock(&self.0.thread);
        let taken = self.0.taken(&thread);
        thread.given_up = Some((taken, counts));
        taken
    }

    /// The next event; [`AnalyticEvent::Done`] is the last.
    pub(crate) async fn next(&self) -> AnalyticEvent {
        std::future::poll_fn(|cx| {
            self.0.waker.register(cx.waker());
            let mut state = lock(&self.0.state);
            if let Some(event) = state.events.pop_front() {
                drop(state);
                self.0.room.notify_one();
                return Poll::Ready(event);
            }
            if state.producer_gone {
                assert!(!state.done, "nothing is awaited after the end");
                let error = SqlError::internal("the analytical query ended without a result");
                return Poll::Ready(AnalyticEvent::Done(Err(error)));
            }
            Poll::Pending
        })
        .await
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.0.control.cancel();
        let mut state = lock(&self.0.state);
        state.consumer_gone = true;
        state.events.clear();
        drop(state);
        self.0.room.notify_one();
    }
}
