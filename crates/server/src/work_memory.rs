//! The server's working memory, which analytical queries sort and hash in, and the meter beside it.

use std::sync::Arc;

use base::{ByteCount, Nanos, TenantId};
use governor::{
    MemoryPromise, Promise, StatementWorkMeter, TenantWorkMemory, WorkMemory, WorkMemoryMeter, WorkMemoryRow,
    WorkMemoryTerms,
};

/// What a tenant has while it has operators, whatever it is promised, up to its limit: without it none of them could work through what it put aside. Not audited.
const WORK_MEMORY_MIN: ByteCount = ByteCount::from_mib(16);

/// One a server.
pub(crate) struct ServerWorkMemory {
    memory: Arc<WorkMemory>,
    meter: Arc<WorkMemoryMeter>,
    capacity: ByteCount,
}

impl ServerWorkMemory {
    pub(crate) fn new(capacity: ByteCount) -> ServerWorkMemory {
        ServerWorkMemory { memory: WorkMemory::new(Some(capacity)), meter: WorkMemoryMeter::new(), capacity }
    }

    /// What all tenants together have.
    pub(crate) fn capacity(&self) -> ByteCount {
        self.capacity
    }

    /// A tenant's part, which is promised nothing yet.
    pub(crate) fn tenant(&self, tenant: TenantId) -> Arc<TenantWorkMemory> {
        self.memory.tenant(tenant, &granted(&MemoryPromise::default()))
    }

    /// Puts a promise in force, for the pool at once, for the meter from the next statement on.
    pub(crate) fn set_promise(&self, tenant: TenantId, part: &TenantWorkMemory, promise: &Promise) {
        part.set_promise(&granted(&promise.memory));
        let (promised, penalty_micros) = (promise.memory.work_memory, promise.penalty_micros);
        self.meter.set_terms(tenant, WorkMemoryTerms { promised, penalty_micros });
    }

    pub(crate) fn forget(&self, tenant: TenantId) {
        self.meter.forget(tenant);
    }

    /// The meter of a statement that begins. Takes a short lock.
    pub(crate) fn statement(&self, tenant: TenantId, now: Nanos) -> Arc<StatementWorkMeter> {
        self.meter.statement(tenant, now)
    }
}

/// What comes of a promise: no less than everybody has.
pub(crate) fn granted(promise: &MemoryPromise) -> MemoryPromise {
    MemoryPromise { work_memory: promise.work_memory.max(WORK_MEMORY_MIN), ..*promise }
}

/// Makes rows of what the meter heard, an interval after the other.
pub(crate) struct WorkMemoryAudit {
    began: Nanos,
}

impl WorkMemoryAudit {
    pub(crate) fn new(now: Nanos) -> WorkMemoryAudit {
        WorkMemoryAudit { began: now }
    }

    /// When the interval ends, if it is to be that long.
    pub(crate) fn next_end(&self, interval: Nanos) -> Nanos {
        self.began + interval
    }

    /// The rows of the interval, if it has lasted that long.
    pub(crate) fn collect(
        &mut self,
        of: &ServerWorkMemory,
        interval: Nanos,
        now: Nanos,
    ) -> Vec<WorkMemoryRow> {
        if now < self.next_end(interval) {
            return Vec::new();
        }
        let from = std::mem::replace(&mut self.began, now);
        of.meter.close(from, now, Some(of.capacity))
    }
}
