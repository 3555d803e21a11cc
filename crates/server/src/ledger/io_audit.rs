//! The ledger's rows of I/O: what the workers' meters handed over, put together interval by interval.

use base::Nanos;
use governor::{IoCost, IoInterval, IoMeter, IoRow, LimitDebt};

use crate::executor::IoGoverning;
use crate::shared::Shared;

/// How long after an interval's end the workers are asked for what they saw: those that are busy have handed it over by then.
const GRACE: Nanos = Nanos::from_millis(2);

/// How long to wait for a worker that has not.
const RETRY: Nanos = Nanos::from_millis(10);

pub(super) struct IoAudit {
    governing: IoGoverning,
    /// Of each volume: what was done on threads that are no workers.
    elsewhere: Vec<IoMeter>,
    /// Intervals up to here have their rows.
    judged_through: Nanos,
}

impl IoAudit {
    pub(super) fn new(governing: &IoGoverning, now: Nanos) -> IoAudit {
        let elsewhere = governing.volumes().iter().map(|volume| IoMeter::new(&volume.meter)).collect();
        let judged_through = governing.intervals().begin_of(now);
        IoAudit { governing: governing.clone(), elsewhere, judged_through }
    }

    /// Adds the rows of the intervals that have ended and that every worker has told of.
    pub(super) fn collect(&mut self, shared: &Shared, now: Nanos, rows: &mut Vec<IoRow>) {
        let intervals = self.governing.intervals();
        loop {
            let end = intervals.end_after(self.judged_through);
            if end + GRACE > now {
                return;
            }
            let Some(seen) = self.governing.take_through(end) else { return };
            self.charge_elsewhere(shared, end);
            let volumes = self.governing.volumes().iter().zip(&mut self.elsewhere);
            for ((volume, elsewhere), mut seen) in volumes.zip(seen) {
                let mut interval = IoInterval::default();
                elsewhere.close(end, &mut interval);
                seen.merge(&interval);
                rows.extend(seen.judge(&volume.meter, self.judged_through, end));
            }
            self.judged_through = end;
        }
    }

    /// Intervals up to here have their rows.
    pub(super) fn judged_through(&self) -> Nanos {
        self.judged_through
    }

    /// When to collect next.
    pub(super) fn next_end(&self, now: Nanos) -> Nanos {
        let next = self.governing.intervals().end_after(self.judged_through) + GRACE;
        if next > now { next } else { now + RETRY }
    }

    /// Charges what analytical threads did for tenants, which nothing held up: a tenant's next requests wait the longer.
    fn charge_elsewhere(&mut self, shared: &Shared, end: Nanos) {
        for account in shared.io_accounts.list() {
            let (ios, bytes) = account.take_done();
            if ios == 0 {
                continue;
            }
            let (tenant, volume) = (account.tenant(), account.volume().0 as usize);
            let cost = IoCost::of_many(ios, bytes);
            let (debt, schedule) = (LimitDebt::OfOther, &self.governing.volumes()[volume].schedule);
            let forgiven = schedule.charge_done(tenant, cost, debt, end);
            self.elsewhere[volume].done(tenant, cost, debt, forgiven, end);
        }
    }
}
