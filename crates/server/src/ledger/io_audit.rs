//! The ledger's rows of I/O: what the workers' meters handed over, put together interval by interval.

use base::{Nanos, TenantId};
use governor::{IoCost, IoInterval, IoMeter, IoRow, IoVolume, LimitDebt};

use crate::executor::IoGoverning;
use crate::io_accounts::IoAccounts;

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
    /// What `accounts` have so far, the start's reading of the log, is in the first rows and holds nobody up.
    pub(super) fn new(governing: &IoGoverning, accounts: &IoAccounts, now: Nanos) -> IoAudit {
        let elsewhere = governing.volumes().iter().map(|volume| IoMeter::new(&volume.meter)).collect();
        let judged_through = governing.intervals().begin_of(now);
        let mut audit = IoAudit { governing: governing.clone(), elsewhere, judged_through };
        audit.take_elsewhere(accounts, now, |_, _, cost| cost);
        audit
    }

    /// Adds the rows of the intervals that have ended and that every worker has told of.
    pub(super) fn collect(&mut self, accounts: &IoAccounts, now: Nanos, rows: &mut Vec<IoRow>) {
        let intervals = self.governing.intervals();
        loop {
            let end = intervals.end_after(self.judged_through);
            if end + GRACE > now {
                return;
            }
            let Some(seen) = self.governing.take_through(end) else { return };
            // What analytical threads did for tenants, which nothing held up: a tenant's next requests wait the longer.
            self.take_elsewhere(accounts, end, |schedule, tenant, cost| {
                schedule.charge_done(tenant, cost, LimitDebt::OfOther, end)
            });
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

    /// Has the intervals under way end a moment after `now`, for good: the server does. Returns when; [`IoAudit::collect`] has their rows then.
    pub(super) fn end_intervals(&self, now: Nanos) -> Nanos {
        // Another length begins with an interval of its own; how long that is is of no matter any more.
        let interval = self.governing.intervals().interval();
        self.governing.set_interval(interval + Nanos(1), now);
        self.governing.intervals().end_after(now)
    }

    /// Forgets the tenants that are not there any more. Looks at all there were.
    pub(super) fn forget_gone(&mut self, is_there: impl Fn(TenantId) -> bool) {
        self.elsewhere.iter_mut().for_each(|meter| meter.retain(&is_there));
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

    /// Has the meters told of what was done on threads that are no workers, once `charge` has charged it and said what of it is forgiven.
    fn take_elsewhere(
        &mut self,
        accounts: &IoAccounts,
        at: Nanos,
        charge: impl Fn(&IoVolume, TenantId, IoCost) -> IoCost,
    ) {
        for account in accounts.list() {
            let (ios, bytes) = account.take_done();
            if ios == 0 {
                continue;
            }
            let (tenant, volume) = (account.tenant(), account.volume().0 as usize);
            let cost = IoCost::of_many(ios, bytes);
            let forgiven = charge(&self.governing.volumes()[volume].schedule, tenant, cost);
            self.elsewhere[volume].done(tenant, cost, LimitDebt::OfOther, forgiven, at);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use base::{ByteCount, IoClass, VolumeNo};
    use governor::{IoQueue, Next};

    use super::*;

    #[test]
    fn what_was_read_before_the_start_is_in_the_ledger_and_delays_nobody() {
        let ms = Nanos::from_millis;
        let governing = IoGoverning::new(1, 1);
        let schedule = &governing.volumes()[0].schedule;
        schedule.set_iops_limit(NonZeroU64::new(10), ms(0));
        let accounts = IoAccounts::default();
        let account = accounts.of(TenantId::SYSTEM, VolumeNo(0));
        account.note_done(ByteCount::from_mib(100));
        let mut audit = IoAudit::new(&governing, &accounts, ms(100));
        let mut queue = IoQueue::new(schedule, 0);
        let mut given = |now: Nanos| {
            let mut rows = Vec::new();
            audit.collect(&accounts, now, &mut rows);
            rows.iter().map(|row| row.ledger.given).sum::<u64>()
        };
        assert_eq!(given(ms(1100)), 1600);
        let one = IoCost::of(ByteCount(8192));
        queue.submit(TenantId::SYSTEM, IoClass::Short, one, 0, ms(1100));
        assert!(matches!(queue.next(ms(1100)), Next::Issue(0, _)));
        // What comes later is charged, a second of it.
        account.note_done(ByteCount::from_mib(100));
        assert_eq!(given(ms(2100)), 1600);
        queue.submit(TenantId::SYSTEM, IoClass::Short, one, 1, ms(2100));
        assert_eq!(queue.next(ms(2100)), Next::WaitUntil(ms(3000)));
    }

    #[test]
    fn nothing_is_kept_of_tenants_that_are_gone() {
        let ms = Nanos::from_millis;
        let governing = IoGoverning::new(1, 1);
        let accounts = IoAccounts::default();
        let mut audit = IoAudit::new(&governing, &accounts, ms(100));
        let mut rows = Vec::new();
        for (second, tenant) in (1..).zip([16, 17, 18].map(TenantId)) {
            accounts.of(tenant, VolumeNo(0)).note_done(ByteCount(8192));
            audit.collect(&accounts, ms(1000 * second + 100), &mut rows);
            accounts.forget(tenant);
            audit.forget_gone(|there| there == TenantId(18));
        }
        assert_eq!((rows.len(), audit.elsewhere[0].known()), (3, 1));
    }
}
