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
    polls: AtomicU64,
}

impl TenantAccount {
    pub(super) fn new(tenant: TenantId, worker: Arc<Shared>, queue: usize) -> TenantAccount {
        TenantAccount { tenant, worker, queue, used: AtomicU64::new(0), polls: AtomicU64::new(0) }
    }

    /// Whose it is.
    pub fn tenant(&self) -> TenantId {
        self.tenant
    }

    /// Processor time charged so far: polls, proxies, and its share of the worker's own work.
    pub fn used(&self) -> Nanos {
        Nanos(self.used.load(Ordering::Relaxed))
    }

    /// Polls so far.
    pub fn polls(&self) -> u64 {
        self.polls.load(Ordering::Relaxed)
    }

    // A plain load and store: there is one writer, and an atomic add would cost a locked instruction each poll.
    pub(super) fn add_poll(&self, used: Nanos) {
        self.polls.store(self.polls.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        self.add(used);
    }

    pub(super) fn add(&self, used: Nanos) {
        self.used.store(self.used.load(Ordering::Relaxed) + used.0, Ordering::Relaxed);
    }

    pub(super) fn take_back(&self, unused: Nanos) {
        self.used.store(self.used.load(Ordering::Relaxed).saturating_sub(unused.0), Ordering::Relaxed);
    }
}
