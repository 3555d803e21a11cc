//! Leave for the blocking I/O of analytical threads, given by their tenant's home worker in its turn.
//!
//! Where nothing is promised, limited or bounded on the volume the thread goes on at once and its account counts. Else it
//! tells the worker and stands still, out of the run queue, until the worker's gate lets it through.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base::{ByteCount, TenantId, VolumeNo};
use env::{IoAccount, IoPermit, IoPermits, IoTicket, ThreadWaker};
use sql::session::QueryControl;

use super::handle::{Account, Message, WorkerHandle};
use super::io_governing::IoGoverning;
use super::proxy::{Proxy, ProxyState};

/// No answer yet; none before its tenant is below its own limit; the worker is gone; else a ticket.
const WAITING: u64 = u64::MAX;
const HELD: u64 = u64::MAX - 1;
const REFUSED: u64 = u64::MAX - 2;

struct Answer {
    ticket: AtomicU64,
    thread: ThreadWaker,
}

impl Answer {
    fn give(&self, answer: u64) {
        let if_open = |known: u64| (known >= HELD).then_some(answer);
        if self.ticket.fetch_update(Ordering::AcqRel, Ordering::Relaxed, if_open).is_ok() {
            self.thread.unpark();
        }
    }
}

/// Tells a thread that asks, and is queued, that its tenant's own limit holds it.
pub(super) struct HeldBack(Arc<Answer>);

impl HeldBack {
    pub(super) fn tell(&self) {
        let ticket = &self.0.ticket;
        if ticket.compare_exchange(WAITING, HELD, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            self.0.thread.unpark();
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

    /// For once it is queued.
    pub(super) fn held_back(&self) -> HeldBack {
        HeldBack(self.answer.clone())
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

/// Is told of what a query waits for because of its tenant's own limits, of I/O by the query's thread, which may take locks that workers take, and of
/// processor time by its worker. The two may be at a time.
pub(crate) trait LimitWaits: Send + Sync {
    /// Such a wait has begun.
    fn begin(&self);
    /// One has ended: if there is no other, the query goes on at once.
    fn end(&self);
}

/// A query, its place in the run queue, and who is told of its waits.
struct WorksFor {
    query: QueryControl,
    proxy: Arc<ProxyState>,
    waits: Option<Arc<dyn LimitWaits>>,
}

/// Permits of one thread, from its worker.
pub(crate) struct WorkerPermits {
    worker: WorkerHandle,
    governing: IoGoverning,
    /// What the thread works for now.
    works_for: RefCell<Option<WorksFor>>,
}

impl WorkerPermits {
    pub(crate) fn new(worker: WorkerHandle, governing: IoGoverning) -> WorkerPermits {
        WorkerPermits { worker, governing, works_for: RefCell::default() }
    }

    /// Counts the thread's I/Os for this query from now on, in whose name it stands in the run queue, and tells `waits` of its waits.
    pub(crate) fn work_for(&self, query: &QueryControl, proxy: &Proxy, waits: Option<Arc<dyn LimitWaits>>) {
        let (query, proxy) = (query.clone(), proxy.state().clone());
        self.works_for.replace(Some(WorksFor { query, proxy, waits }));
    }

    /// The thread works for no query any more.
    pub(crate) fn rest(&self) {
        self.works_for.replace(None);
    }
}

impl IoPermits for WorkerPermits {
    fn wait(&self, account: &IoAccount, len: ByteCount) -> Option<IoPermit> {
        let volume = account.volume();
        let (proxy, waits) = match self.works_for.borrow().as_ref() {
            Some(WorksFor { query, proxy, waits }) => {
                query.add_ios(IoAccount::ios_of(len));
                (Some(proxy.clone()), waits.clone())
            }
            None => (None, None),
        };
        if self.governing.volumes()[volume.0 as usize].schedule.is_open() {
            account.note_done(len);
            return None;
        }
        let answer = Arc::new(Answer { ticket: AtomicU64::new(WAITING), thread: env::thread_waker() });
        let asked =
            IoAsked { tenant: account.tenant(), volume, len, answer: answer.clone(), proxy: proxy.clone() };
        let ask = || {
            self.worker.0.send(Message::AskIo(asked));
            let mut is_held = false;
            let given = loop {
                match answer.ticket.load(Ordering::Acquire) {
                    WAITING => env::park(None),
                    HELD => {
                        if !std::mem::replace(&mut is_held, true) {
                            waits.iter().for_each(|waits| waits.begin());
                        }
                        env::park(None);
                    }
                    given => break given,
                }
            };
            if is_held {
                waits.iter().for_each(|waits| waits.end());
            }
            given
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
