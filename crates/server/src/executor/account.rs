//! One tenant's standing on one worker: who it is, where its queue is, and what it has used.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base::{Nanos, TenantId};

use super::handle::Shared;

/// Shared by all tasks of one tenant on one worker.
pub struct TenantAccount {
    pub(super) tenant: TenantId,
    pub(super) worker: Arc<Shared>,
    /// Index of the tenant's queue among the worker's.
    pub(super) queue: usize,
    /// Written by the worker's thread alone, read by any.
    used: AtomicU64,
    /// The part of it that analytical threads took.
    of_queries: AtomicU64,
    polls: AtomicU64,
    /// The most that [`TenantAccount::counted`] has told.
    told: AtomicU64,
    waits: [WaitTotals; Wait::ALL.len()],
}

/// What a task of a tenant waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// Its turn on the worker, others running.
    Runnable,
    /// The end of what the tenant is over its limit: of processor time, or of log writes at a commit.
    OwnCap,
    /// Pages to be read.
    PageRead,
    /// Its commit, or one that it has seen, to be durable.
    LogFlush,
    /// A lock, of a row or a table.
    Lock,
    /// Room for pages.
    Memory,
    /// The client's next message.
    Client,
    /// A thread for an analytical query, or a place for it again after its client has read.
    Thread,
}

impl Wait {
    /// All of them, in order.
    pub const ALL: [Wait; 8] = [
        Wait::Runnable,
        Wait::OwnCap,
        Wait::PageRead,
        Wait::LogFlush,
        Wait::Lock,
        Wait::Memory,
        Wait::Client,
        Wait::Thread,
    ];

    /// As `rowhouse.tenant_waits` says it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Wait::Runnable => "runnable",
            Wait::OwnCap => "own cap",
            Wait::PageRead => "page read",
            Wait::LogFlush => "log flush",
            Wait::Lock => "lock",
            Wait::Memory => "memory",
            Wait::Client => "client",
            Wait::Thread => "thread",
        }
    }
}

/// How tasks spent their time since the server's start: for how long, and how often.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Spent {
    pub running: (Nanos, u64),
    /// By [`Wait`].
    pub waits: [(Nanos, u64); Wait::ALL.len()],
}

impl Spent {
    /// As `rowhouse.tenant_waits` names it: `running`, then the waits.
    pub fn named(&self) -> [(&'static str, (Nanos, u64)); 1 + Wait::ALL.len()] {
        std::array::from_fn(|at| match at {
            0 => ("running", self.running),
            wait => (Wait::ALL[wait - 1].as_str(), self.waits[wait - 1]),
        })
    }
}

/// Written by the worker's thread alone, read by any.
#[derive(Default)]
struct WaitTotals {
    time: AtomicU64,
    count: AtomicU64,
}

impl TenantAccount {
    pub(super) fn new(tenant: TenantId, worker: Arc<Shared>, queue: usize) -> TenantAccount {
        TenantAccount {
            tenant,
            worker,
            queue,
            used: AtomicU64::new(0),
            of_queries: AtomicU64::new(0),
            polls: AtomicU64::new(0),
            told: AtomicU64::new(0),
            waits: Default::default(),
        }
    }

    /// Whose it is.
    pub fn tenant(&self) -> TenantId {
        self.tenant
    }

    /// Processor time charged so far: polls, proxies, and its share of the worker's own work.
    pub fn used(&self) -> Nanos {
        Nanos(self.used.load(Ordering::Relaxed))
    }

    /// The part of [`TenantAccount::used`] that analytical threads took.
    pub(crate) fn used_by_queries(&self) -> Nanos {
        Nanos(self.of_queries.load(Ordering::Relaxed))
    }

    /// As [`TenantAccount::used`], but never less than it told before, though time is taken back where the worker was preempted: for whoever takes a sum that falls for one that begins
    /// anew. From any thread.
    pub fn counted(&self) -> Nanos {
        let used = self.used.load(Ordering::Relaxed);
        Nanos(self.told.fetch_max(used, Ordering::Relaxed).max(used))
    }

    /// Polls so far.
    pub fn polls(&self) -> u64 {
        self.polls.load(Ordering::Relaxed)
    }

    /// For how long and how often its tasks waited so far, each task counted; waits that have ended.
    pub fn waited(&self, wait: Wait) -> (Nanos, u64) {
        let totals = &self.waits[wait as usize];
        (Nanos(totals.time.load(Ordering::Relaxed)), totals.count.load(Ordering::Relaxed))
    }

    /// Counts a wait that has ended. On the worker's thread.
    pub(crate) fn add_wait(&self, wait: Wait, time: Nanos) {
        let totals = &self.waits[wait as usize];
        totals.time.store(totals.time.load(Ordering::Relaxed) + time.0, Ordering::Relaxed);
        totals.count.store(totals.count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    // A plain load and store: there is one writer, and an atomic add would cost a locked instruction each poll.
    pub(super) fn add_poll(&self, used: Nanos) {
        self.polls.store(self.polls.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        self.add(used);
    }

    pub(super) fn add(&self, used: Nanos) {
        self.used.store(self.used.load(Ordering::Relaxed) + used.0, Ordering::Relaxed);
        self.worker.count_charged(used);
    }

    /// Counts that what was added was an analytical thread's.
    pub(super) fn count_of_query(&self, used: Nanos) {
        self.of_queries.store(self.of_queries.load(Ordering::Relaxed) + used.0, Ordering::Relaxed);
        self.worker.count_charged_to_proxy(used);
    }

    pub(super) fn take_back(&self, unused: Nanos) {
        self.used.store(self.used.load(Ordering::Relaxed).saturating_sub(unused.0), Ordering::Relaxed);
    }
}
