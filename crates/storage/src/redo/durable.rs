//! Waiting for a position of a log to become durable.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use base::Lsn;

use super::error::LogFailed;
use super::writer::LogWriter;

/// Those who wait, by position and then by arrival.
#[derive(Default)]
pub(super) struct Waiters {
    by_lsn: BTreeMap<(Lsn, u64), Waker>,
    arrived: u64,
}

impl Waiters {
    fn register(&mut self, lsn: Lsn, ticket: &mut Option<u64>, waker: &Waker) {
        let ticket = *ticket.get_or_insert_with(|| {
            self.arrived += 1;
            self.arrived
        });
        match self.by_lsn.entry((lsn, ticket)) {
            std::collections::btree_map::Entry::Occupied(mut entry) => entry.get_mut().clone_from(waker),
            std::collections::btree_map::Entry::Vacant(entry) => drop(entry.insert(waker.clone())),
        }
    }

    /// Takes out those whose position is durable now.
    pub(super) fn take_through(&mut self, durable: Lsn) -> impl Iterator<Item = Waker> + use<> {
        let later = self.by_lsn.split_off(&(Lsn(durable.0 + 1), 0));
        std::mem::replace(&mut self.by_lsn, later).into_values()
    }

    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Waker> + use<> {
        std::mem::take(&mut self.by_lsn).into_values()
    }
}

/// Ends when the log is durable through a position, or has failed. Dropping it only stops waiting.
#[must_use = "waits when awaited"]
pub struct WaitDurable {
    log: LogWriter,
    lsn: Lsn,
    ticket: Option<u64>,
}

impl WaitDurable {
    pub(super) fn new(log: LogWriter, lsn: Lsn) -> WaitDurable {
        WaitDurable { log, lsn, ticket: None }
    }
}

impl Future for WaitDurable {
    type Output = Result<(), LogFailed>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        // What is durable first: a log that goes on says what it lost before it says that positions are durable again.
        let is_durable = this.log.durable() >= this.lsn;
        if let Some(failed) = this.log.lost(this.lsn) {
            return Poll::Ready(Err(failed));
        }
        if is_durable {
            return Poll::Ready(Ok(()));
        }
        let mut state = this.log.state();
        // One lock covers check and registration: the flusher moves `durable`, goes on after a failure, and takes waiters under it.
        if let Some(failed) = state.lost(this.lsn) {
            return Poll::Ready(Err(failed));
        }
        if this.log.durable() >= this.lsn {
            return Poll::Ready(Ok(()));
        }
        if let Some(failed) = &state.failed {
            return Poll::Ready(Err(failed.clone()));
        }
        state.waiters.register(this.lsn, &mut this.ticket, cx.waker());
        Poll::Pending
    }
}

impl Drop for WaitDurable {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.log.state().waiters.by_lsn.remove(&(self.lsn, ticket));
        }
    }
}
