//! What the metering intervals that ended since the last look brought of each tenant: for the console, which looks once a second.
//!
//! The ledger's thread adds, whoever looks takes all of it, and holds what it took for as long as nothing newer came. A lock is held for as
//! long as it takes to add the rows of one collection, or to take a map. Nothing is kept where nobody ever looks.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use base::{Nanos, TenantId};
use governor::{Cause, LedgerRow, Resource, SparseHistogram};
use rustc_hash::FxHashMap;

/// Intervals of one resource together; in the resource's unit, so that amounts divided by `time` are rates.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct RecentResource {
    /// How long the intervals were; 0 if none has ended.
    pub(crate) time: Nanos,
    pub(crate) promised: u64,
    pub(crate) demanded: u64,
    pub(crate) given: u64,
    pub(crate) missed: u64,
    /// Of the last one.
    pub(crate) cause: Option<Cause>,
    /// When the last one ended.
    pub(crate) ended: Nanos,
}

impl RecentResource {
    fn add(&mut self, row: &LedgerRow) {
        self.time += row.to - row.from;
        self.promised = self.promised.saturating_add(row.promised);
        self.demanded = self.demanded.saturating_add(row.demanded);
        self.given = self.given.saturating_add(row.given);
        self.missed = self.missed.saturating_add(row.missed);
        self.cause = row.cause;
        self.ended = row.to;
    }
}

/// Of one tenant.
#[derive(Clone, Default, Debug)]
pub(crate) struct Recent {
    pub(crate) cpu: RecentResource,
    /// By volume, of those with anything.
    pub(crate) io: Vec<(u32, RecentResource)>,
    pub(crate) memory: RecentResource,
    pub(crate) work_memory: RecentResource,
    /// How long the statements of the intervals of processor time took.
    pub(crate) statements: SparseHistogram,
}

impl Recent {
    fn of_resource(&mut self, resource: Resource) -> &mut RecentResource {
        match resource {
            Resource::Cpu => &mut self.cpu,
            Resource::Memory => &mut self.memory,
            Resource::WorkMemory => &mut self.work_memory,
            Resource::Io { volume } => {
                let at = self.io.iter().position(|(one, _)| *one == volume).unwrap_or_else(|| {
                    self.io.push((volume, RecentResource::default()));
                    self.io.len() - 1
                });
                &mut self.io[at].1
            }
        }
    }
}

/// Until when all intervals are judged: a tenant that has no row of the last one did nothing in it. Not so of memory, whose intervals go on until there is evidence.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Judged {
    pub(crate) cpu: Nanos,
    pub(crate) io: Nanos,
}

/// What came since the last look.
#[derive(Default)]
pub(crate) struct Heard {
    /// Those that had an interval.
    pub(crate) tenants: FxHashMap<TenantId, Recent>,
    pub(crate) judged: Judged,
}

/// Of all tenants that had an interval.
#[derive(Default)]
pub(crate) struct RecentIntervals {
    is_looked_at: AtomicBool,
    heard: Mutex<Heard>,
}

impl RecentIntervals {
    fn lock(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the rows of one collection, and until when there are all.
    pub(super) fn add(&self, rows: &[LedgerRow], judged: Judged) {
        if !self.is_looked_at.load(Ordering::Relaxed) {
            return;
        }
        let mut heard = self.lock();
        heard.judged = judged;
        for row in rows {
            heard.tenants.entry(row.tenant).or_default().of_resource(row.resource).add(row);
        }
    }

    /// Adds how long statements took in an interval of processor time.
    pub(super) fn add_statements(&self, tenant: TenantId, times: &SparseHistogram) {
        if times.count() > 0 && self.is_looked_at.load(Ordering::Relaxed) {
            self.lock().tenants.entry(tenant).or_default().statements.merge(times);
        }
    }

    /// What came since the call before; nothing at the first call, from which on it is kept.
    pub(crate) fn take(&self) -> Heard {
        self.is_looked_at.store(true, Ordering::Relaxed);
        let mut heard = self.lock();
        let judged = heard.judged;
        Heard { tenants: std::mem::take(&mut heard.tenants), judged }
    }
}

#[cfg(test)]
mod tests {
    use governor::OwnLimit;

    use super::*;

    fn row(resource: Resource, from: u64, to: u64, missed: u64) -> LedgerRow {
        LedgerRow {
            tenant: TenantId(16),
            resource,
            from: Nanos(from),
            to: Nanos(to),
            promised: 10,
            demanded: 9,
            given: 9 - missed,
            missed,
            by_chance: 0,
            over: 0,
            own_limit: OwnLimit::default(),
            active: Nanos(1),
            cause: (missed > 0).then_some(Cause::Neighbour),
            delays: None,
            owed_micros: 0,
        }
    }

    #[test]
    fn intervals_add_up_until_somebody_looks() {
        let recent = RecentIntervals::default();
        let judged = |cpu, io| Judged { cpu: Nanos(cpu), io: Nanos(io) };
        recent.add(&[row(Resource::Cpu, 0, 5, 0)], judged(5, 5));
        assert!(recent.take().tenants.is_empty(), "nobody had looked");
        let io = |volume| Resource::Io { volume };
        recent.add(
            &[row(Resource::Cpu, 5, 15, 4), row(Resource::Cpu, 15, 20, 0), row(io(1), 0, 7, 0)],
            judged(20, 7),
        );
        let later = [row(io(0), 0, 7, 2), row(io(1), 7, 9, 3), row(Resource::Memory, 0, 1, 1)];
        recent.add(&later, judged(20, 9));
        let mut times = SparseHistogram::default();
        times.record(7);
        recent.add_statements(TenantId(16), &times);
        recent.add_statements(TenantId(17), &SparseHistogram::default());
        let taken = recent.take();
        assert_eq!((taken.tenants.len(), taken.judged), (1, judged(20, 9)));
        let of = &taken.tenants[&TenantId(16)];
        let cpu = RecentResource {
            time: Nanos(15),
            promised: 20,
            demanded: 18,
            given: 14,
            missed: 4,
            cause: None,
            ended: Nanos(20),
        };
        assert_eq!(of.cpu, cpu);
        let of_io: Vec<_> = of.io.iter().map(|(volume, io)| (*volume, io.time.0, io.missed)).collect();
        assert_eq!(of_io, [(1, 9, 3), (0, 7, 2)]);
        assert_eq!((of.io[0].1.cause, of.memory.missed), (Some(Cause::Neighbour), 1));
        assert_eq!((of.work_memory.time, of.statements.count()), (Nanos(0), 1));
        recent.add(&[], judged(25, 9));
        let taken = recent.take();
        assert!(taken.tenants.is_empty() && taken.judged == judged(25, 9));
    }
}
