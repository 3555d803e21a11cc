//! Leave for the blocking I/O of analytical threads, given by their tenant's home worker in its turn.
//!
//! Where nothing is promised, limited or bounded on the volume the thread goes on at once and its account counts. Else it
//! tells the worker and stands still, out of the run queue, until the worker's gate lets it through.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::Thread;

use base::{ByteCount, TenantId, VolumeNo};
use env::{IoAccount, IoPermit, IoPermits, IoTicket};
use sql::session::QueryControl;

use super::handle::{Account, Message, WorkerHandle};
use super::io_governing::IoGoverning;
use super::proxy::{Proxy, ProxyState};

/// No answer yet; the worker is gone; else a ticket.
const WAITING: u64 = u64::MAX;
const REFUSED: u64 = u64::MAX - 1;

struct Answer {
    ticket: AtomicU64,
    thread: Thread,
}

impl Answer {
    fn give(&self, answer: u64) {
        if self.ticket.compare_exchange(WAITING, answer, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            self.thread.unpark();
        }
    }
}

/// A thread that asks. Dropped unanswered, as by a worker that ends, it goes on without leave.
pub(super) struct IoAsked {
    pub(super) tenant: TenantId,
    pub(super) volume: VolumeNo,
    pub(super) len: ByteCount,
    answer: Arc<Answer>,
    proxy: Option<Arc<ProxyState>>,
}

impl IoAsked {
    /// Whose query it is of, if it is of one.
    pub(super) fn account(&self) -> Option<Account> {
        self.proxy.as_ref().map(|proxy| proxy.account.clone())
    }

    /// Lets the thread go on, at once. It hands the ticket back by [`Message::IoEnded`].
    pub(super) fn grant(self, ticket: IoTicket) {
        if let Some(proxy) = &self.proxy {
            proxy.begin_io();
        }
        self.answer.give(u64::from(ticket.0));
    }
}

impl Drop for IoAsked {
    fn drop(&mut self) {
        self.answer.give(REFUSED);
    }
}

/// Permits of one thread, from its worker.
pub(crate) struct WorkerPermits {
    worker: WorkerHandle,
    governing: IoGoverning,
    /// The query that the thread works for now, and its place in the run queue.
    works_for: RefCell<Option<(QueryControl, Arc<ProxyState>)>>,
}

impl WorkerPermits {
    pub(crate) fn new(worker: WorkerHandle, governing: IoGoverning) -> WorkerPermits {
        WorkerPermits { worker, governing, works_for: RefCell::default() }
    }

    /// Counts the thread's I/Os for this query from now on, in whose name it stands in the run queue.
    pub(crate) fn work_for(&self, query: &QueryControl, proxy: &Proxy) {
        self.works_for.replace(Some((query.clone(), proxy.state().clone())));
    }

    /// The thread works for no query any more.
    pub(crate) fn rest(&self) {
        self.works_for.replace(None);
    }
}

impl IoPermits for WorkerPermits {
    fn wait(&self, account: &IoAccount, len: ByteCount) -> Option<IoPermit> {
        let volume = account.volume();
        let proxy = self.works_for.borrow().as_ref().map(|(query, proxy)| {
            query.add_ios(IoAccount::ios_of(len));
            proxy.clone()
        });
        if self.governing.volumes()[volume.0 as usize].schedule.is_open() {
            account.note_done(len);
            return None;
        }
        let answer = Arc::new(Answer { ticket: AtomicU64::new(WAITING), thread: std::thread::current() });
        let asked =
            IoAsked { tenant: account.tenant(), volume, len, answer: answer.clone(), proxy: proxy.clone() };
        let ask = || {
            self.worker.0.send(Message::AskIo(asked));
            loop {
                match answer.ticket.load(Ordering::Acquire) {
                    WAITING => std::thread::park(),
                    given => return given,
                }
            }
        };
        // Until the answer: the worker changes what is known of the thread when it gives it.
        let given = env::blocked(|| match &proxy {
            Some(proxy) => proxy.sharing_locks(ask),
            None => ask(),
        });
        let ticket = IoTicket(u32::try_from(given).ok()?);
        let worker = self.worker.clone();
        Some(IoPermit::new(move || {
            let account = proxy.as_ref().map(|proxy| proxy.account.clone());
            worker.0.send(Message::IoEnded(ticket, account));
            if let Some(proxy) = proxy {
                proxy.end_io();
            }
        }))
    }
}
