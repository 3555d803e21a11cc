//! The meter of working memory.
//!
//! The promise is no more spill than with the granted bytes: the baseline of an operator is what it would have spilled with its tenant's `work_memory` to itself ([`Ghost`]). What its statement spilled beyond the baselines of its operators
//! is missed, in I/Os of 64 KiB written (what is written is read again: that is not counted twice). Example: 64 MiB promised, a sort of 100 MiB: it may
//! spill 100 MiB, and does if it had no more; a sort of 40 MiB that spilled 40 missed 640 I/Os.
//!
//! The meter hears what operators ask, get, give back and write, not why: it shares nothing with the pool that decides ([`crate::WorkMemory`]). A statement's figures count where it ends: only then is the
//! baseline known. Since each operator is held against all of `work_memory`, a tenant with several operators at a time may miss something by its own doing: the cause is then
//! [`Cause::Overbooked`], if all operators together were promised more than there is.
//!
//! What the baseline leaves out: a merge of so many runs that it takes several passes writes more than once.

mod ghost;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};

use base::limits::IO_UNIT;
use base::{ByteCount, Nanos, TenantId};
use rustc_hash::FxHashMap;

use crate::meter::{Cause, LedgerRow, OwnLimit, Resource, SparseHistogram};
use ghost::Ghost;

/// Bytes of a promise that an operator demands at most: a tenant is granted no more, and the sum of many fits 64 bits.
const DEMANDED_MAX: u64 = 1 << 40;

/// What a tenant's working memory is held against.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct WorkMemoryTerms {
    /// `work_memory`; 0: nothing is promised, so nothing is missed.
    pub promised: ByteCount,
    /// Price of an I/O too many, in millionths.
    pub penalty_micros: u64,
}

/// What the statements that ended in an interval come to, in bytes.
#[derive(Clone, Default)]
struct Ended {
    baseline: u64,
    spilled: u64,
    excess: u64,
    /// That, each part times the price that its statement began at.
    priced: u128,
    needs: SparseHistogram,
}

#[derive(Default)]
struct Kept {
    terms: WorkMemoryTerms,
    is_gone: bool,
    /// Statements under way, and since when there are any, or since the interval began.
    open: u32,
    since: Nanos,
    active: Nanos,
    ended: Ended,
}

/// A tenant's row, and what its statements would have held to spill nothing, for [`crate::RollUp::add_samples`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WorkMemoryRow {
    pub ledger: LedgerRow,
    pub needs: SparseHistogram,
}

/// All tenants' meters. One a server.
#[derive(Default)]
pub struct WorkMemoryMeter {
    /// Taken where a statement that has operators begins and ends, and at the end of an interval.
    by_tenant: Mutex<FxHashMap<TenantId, Kept>>,
    /// What operators under way were promised together, and the most it was in the interval.
    demanded: AtomicU64,
    demanded_max: AtomicU64,
}

impl WorkMemoryMeter {
    /// A meter of no tenant.
    pub fn new() -> Arc<WorkMemoryMeter> {
        Arc::default()
    }

    fn lock(&self) -> MutexGuard<'_, FxHashMap<TenantId, Kept>> {
        self.by_tenant.lock().expect("no panic under the meter's lock")
    }

    /// Changes a tenant's terms, for statements that begin from now on.
    pub fn set_terms(&self, tenant: TenantId, terms: WorkMemoryTerms) {
        let mut tenants = self.lock();
        let kept = tenants.entry(tenant).or_default();
        (kept.terms, kept.is_gone) = (terms, false);
    }

    /// The tenant is gone. Its last row comes with the end of the interval.
    pub fn forget(&self, tenant: TenantId) {
        if let Some(kept) = self.lock().get_mut(&tenant) {
            kept.is_gone = true;
        }
    }

    /// A statement that may have operators; one that has none is no sample. Takes a short lock and allocates. Of a tenant that has no terms, or is gone,
    /// nothing is kept beyond the interval in which the last one ends.
    pub fn statement(self: &Arc<Self>, tenant: TenantId, now: Nanos) -> Arc<StatementWorkMeter> {
        let mut tenants = self.lock();
        let kept = tenants.entry(tenant).or_insert_with(|| Kept { is_gone: true, ..Kept::default() });
        if kept.open == 0 {
            kept.since = now;
        }
        kept.open += 1;
        let terms = kept.terms;
        drop(tenants);
        Arc::new(StatementWorkMeter {
            meter: self.clone(),
            tenant,
            promised: terms.promised,
            penalty_micros: terms.penalty_micros,
            baseline: AtomicU64::new(0),
            spilled: AtomicU64::new(0),
            need: AtomicU64::new(0),
            had_operators: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
        })
    }

    /// Ends the interval from `from` to `to`: its rows, by tenant, of those that had operators. `capacity`: what there was of working memory; `None`: any
    /// amount.
    pub fn close(&self, from: Nanos, to: Nanos, capacity: Option<ByteCount>) -> Vec<WorkMemoryRow> {
        let demanded = self.demanded_max.swap(self.demanded.load(Relaxed), Relaxed);
        let is_overbooked = capacity.is_some_and(|capacity| demanded > capacity.0);
        let cause = if is_overbooked { Cause::Overbooked } else { Cause::Neighbour };
        let mut rows = Vec::new();
        self.lock().retain(|tenant, kept| {
            if kept.open > 0 {
                kept.active += to - kept.since;
                kept.since = to;
            }
            let active = std::mem::take(&mut kept.active);
            let ended = std::mem::take(&mut kept.ended);
            if active > Nanos(0) || ended.needs.count() > 0 {
                rows.push(ended.row(*tenant, active, cause, (from, to)));
            }
            !kept.is_gone || kept.open > 0
        });
        rows.sort_by_key(|row| row.ledger.tenant);
        rows
    }
}

fn ios(bytes: u64) -> u64 {
    bytes.div_ceil(IO_UNIT.0)
}

impl Ended {
    fn row(self, tenant: TenantId, active: Nanos, cause: Cause, (from, to): (Nanos, Nanos)) -> WorkMemoryRow {
        let missed = ios(self.excess);
        // Of several prices each counts for what was missed at it.
        let price = self.priced.checked_div(u128::from(self.excess)).unwrap_or(0);
        let price = u64::try_from(price).unwrap_or(u64::MAX);
        let ledger = LedgerRow {
            tenant,
            resource: Resource::WorkMemory,
            from,
            to,
            promised: ios(self.baseline),
            demanded: ios(self.baseline),
            given: ios(self.spilled),
            missed,
            by_chance: 0,
            over: 0,
            own_limit: OwnLimit::default(),
            active,
            cause: (missed > 0).then_some(cause),
            delays: None,
            owed_micros: LedgerRow::price(Resource::WorkMemory, missed, price),
        };
        WorkMemoryRow { ledger, needs: self.needs }
    }
}

/// One statement. Its methods but [`StatementWorkMeter::end`] can be called by several threads and never block.
pub struct StatementWorkMeter {
    meter: Arc<WorkMemoryMeter>,
    tenant: TenantId,
    promised: ByteCount,
    penalty_micros: u64,
    baseline: AtomicU64,
    spilled: AtomicU64,
    need: AtomicU64,
    had_operators: AtomicBool,
    has_ended: AtomicBool,
}

impl StatementWorkMeter {
    /// An operator of it that begins; it has ended when it is dropped, which is to be before [`StatementWorkMeter::end`].
    pub fn operator(self: &Arc<Self>) -> OperatorWorkMeter {
        let demands = self.demands();
        let demanded = self.meter.demanded.fetch_add(demands, Relaxed) + demands;
        self.meter.demanded_max.fetch_max(demanded, Relaxed);
        self.had_operators.store(true, Relaxed);
        OperatorWorkMeter { statement: self.clone(), ghost: Mutex::new(Ghost::new(self.promised)) }
    }

    /// What each of its operators demands.
    fn demands(&self) -> u64 {
        self.promised.0.min(DEMANDED_MAX)
    }

    /// An operator of it wrote so many bytes to a temporary file.
    pub fn spilled(&self, bytes: ByteCount) {
        self.spilled.fetch_add(bytes.0, Relaxed);
    }

    /// It has ended, its operators before it. Takes a short lock.
    ///
    /// # Panics
    ///
    /// If it had ended before.
    pub fn end(&self, now: Nanos) {
        assert!(!self.has_ended.swap(true, Relaxed), "a statement ends once");
        let (baseline, spilled) = (self.baseline.load(Relaxed), self.spilled.load(Relaxed));
        let mut tenants = self.meter.lock();
        let kept = tenants.get_mut(&self.tenant).expect("a tenant stays while it has statements");
        kept.open -= 1;
        if kept.open == 0 {
            kept.active += now - kept.since;
        }
        let ended = &mut kept.ended;
        ended.spilled += spilled;
        if self.had_operators.load(Relaxed) {
            ended.needs.record(self.need.load(Relaxed));
        }
        if self.promised.0 > 0 {
            ended.baseline += baseline;
            let excess = spilled.saturating_sub(baseline);
            ended.excess += excess;
            ended.priced += u128::from(excess) * u128::from(self.penalty_micros);
        }
    }
}

/// One operator. Its calls are those that it makes of the pool; a lock of its own orders them.
pub struct OperatorWorkMeter {
    statement: Arc<StatementWorkMeter>,
    ghost: Mutex<Ghost>,
}

impl OperatorWorkMeter {
    fn ghost(&self) -> MutexGuard<'_, Ghost> {
        self.ghost.lock().expect("no panic under an operator's lock")
    }

    /// It got more bytes.
    pub fn grew(&self, bytes: ByteCount) {
        self.ghost().grew(bytes.0);
    }

    /// It was refused more. What it gives back before it gets any it has spilled.
    pub fn refused(&self) {
        self.ghost().refused();
    }

    /// It gave bytes back.
    pub fn shrank(&self, bytes: ByteCount) {
        self.ghost().shrank(bytes.0);
    }
}

impl Drop for OperatorWorkMeter {
    fn drop(&mut self) {
        let statement = &self.statement;
        let ghost = self.ghost();
        statement.baseline.fetch_add(ghost.spilled_in_all(), Relaxed);
        statement.need.fetch_add(ghost.need(), Relaxed);
        statement.meter.demanded.fetch_sub(statement.demands(), Relaxed);
    }
}
