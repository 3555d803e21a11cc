//! At the end of each metering interval: a tenant's row, and why it missed what it missed.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::{Nanos, TenantId};

use super::tally::Totals;
use super::{CpuMeters, CpuTerms, InForce, MilliCoreNanos, TenantMeter, milli_core_nanos};
use crate::meter::{Cause, LedgerRow, OwnLimit, Resource, end_of_interval};
use crate::promise::MilliCores;

const ONE_CORE: MilliCores = MilliCores(1000);

/// Makes the rows of processor time. One a server, used by one thread.
pub struct CpuAudit {
    meters: Arc<CpuMeters>,
    version: u64,
    cores: u32,
    /// By tenant.
    records: Vec<Record>,
    /// When was last collected.
    collected_at: Nanos,
    /// When the first interval ends, as far as `version` knows.
    next_end: Option<Nanos>,
    demand: Arc<Demand>,
}

/// What one tenant did since its last row.
struct Record {
    tenant: TenantId,
    meter: Arc<TenantMeter>,
    from: Nanos,
    /// When its interval is over.
    end: Nanos,
    totals: Totals,
    active: u64,
    owed: MilliCoreNanos,
    /// May be below zero for a while: time is taken back after it was told.
    used: i64,
    /// What it had taken beyond its limit when the interval began and not paid for: its limit may stop it for so much.
    ahead: u64,
    /// What of `owed` came since it moved: at its old home it would be wanted too.
    since_move: MilliCoreNanos,
    /// The audit's demand when the interval began.
    demand: Arc<Demand>,
    /// Whether the totals are those of the present collection.
    is_cut: bool,
}

/// What all tenants together wanted since the server's start. Differences over an interval say what was wrong in it.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
struct Demand {
    /// Of all but the internal tenant: of that counts what it used, since most of its work stands in no queue.
    owed: MilliCoreNanos,
    /// By home, at most a core of each tenant.
    owed_at_home: Vec<MilliCoreNanos>,
    /// By worker, what the internal tenant used; wraps around.
    system_used: Vec<u64>,
    /// What it used on threads that are kept to no worker's core; wraps around.
    system_elsewhere: u64,
    /// What it was promised, which is for all workers alike.
    system_promised: MilliCoreNanos,
    /// What the internal tenant used beyond its own promise.
    system_over: u64,
}

impl Demand {
    fn add(&mut self, tenant: TenantId, terms: &CpuTerms, owed: MilliCoreNanos, used: i64, time: Nanos) {
        if tenant != TenantId::SYSTEM {
            self.owed += owed;
        }
        if let Some(home) = terms.home {
            let home = home as usize;
            if home >= self.owed_at_home.len() {
                self.owed_at_home.resize(home + 1, 0);
            }
            self.owed_at_home[home] += owed.min(milli_core_nanos(ONE_CORE, time));
        }
        if tenant == TenantId::SYSTEM {
            let promised = to_nanos(milli_core_nanos(terms.reserved, time));
            self.system_over += u64::try_from(used).unwrap_or(0).saturating_sub(promised);
        }
    }

    /// Why a tenant missed something since `self` was `before`. `old_home`: where it was before it moved, and what it has wanted since then.
    fn cause(
        &self,
        before: &Demand,
        terms: &CpuTerms,
        old_home: Option<(u32, MilliCoreNanos)>,
        cores: u32,
        time: Nanos,
        missed: u64,
    ) -> Cause {
        let core = milli_core_nanos(ONE_CORE, time);
        // The server's own work wants what it used of its promise, an equal part of it on each worker.
        let part = (self.system_promised - before.system_promised) / MilliCoreNanos::from(cores.max(1));
        let of_system = |worker: usize| {
            let used = |demand: &Demand| demand.system_used.get(worker).copied().unwrap_or(0);
            let used = u64::try_from(used(self).wrapping_sub(used(before)) as i64).unwrap_or(0);
            milli_core_nanos(ONE_CORE, Nanos(used)).min(part)
        };
        let wanted_at = |home: u32| {
            let owed = |demand: &Demand| demand.owed_at_home.get(home as usize).copied().unwrap_or(0);
            owed(self) - owed(before) + of_system(home as usize)
        };
        let at_home = terms.home.map_or(0, wanted_at);
        // What it missed before it moved it missed there.
        let at_old_home = old_home.map_or(0, |(home, since)| wanted_at(home) + since);
        let on_workers: MilliCoreNanos = (0..self.system_used.len()).map(of_system).sum();
        // What is kept to no core may have had any of them.
        let elsewhere = Nanos(self.system_elsewhere.wrapping_sub(before.system_elsewhere));
        let promised = self.system_promised - before.system_promised;
        let of_system = (on_workers + milli_core_nanos(ONE_CORE, elsewhere)).min(promised);
        let all = self.owed - before.owed + of_system;
        if all > core * MilliCoreNanos::from(cores) || at_home.max(at_old_home) > core {
            Cause::Overbooked
        } else if self.system_over - before.system_over >= missed {
            Cause::System
        } else {
            Cause::Neighbour
        }
    }
}

fn to_nanos(cores: MilliCoreNanos) -> u64 {
    u64::try_from(cores / 1000).unwrap_or(u64::MAX)
}

impl CpuAudit {
    /// An audit of `meters` on a server with so many cores for its workers.
    pub fn new(meters: Arc<CpuMeters>, cores: u32, now: Nanos) -> CpuAudit {
        CpuAudit {
            meters,
            version: 0,
            cores,
            records: Vec::new(),
            collected_at: now,
            next_end: None,
            demand: Arc::default(),
        }
    }

    /// Gives `each` the rows of the intervals that have ended by `now`, of tenants that wanted or used anything. Call it when [`CpuAudit::next_end`] comes; later makes intervals longer. A tenant in the
    /// middle of a change is left for the next call, its interval with it.
    ///
    /// Looks at every tenant, idle or not: intervals of one length end together ([`end_of_interval`]), so that it is done once in an interval.
    pub fn collect(&mut self, now: Nanos, each: impl FnMut(LedgerRow)) {
        self.collect_those(now, false, each);
    }

    /// As [`CpuAudit::collect`], and every interval under way ends now: the server does.
    pub fn finish(&mut self, now: Nanos, each: impl FnMut(LedgerRow)) {
        self.collect_those(now, true, each);
    }

    /// `all`: also of the intervals that have not ended, which do then.
    fn collect_those(&mut self, now: Nanos, all: bool, mut each: impl FnMut(LedgerRow)) {
        self.take_in_changes();
        let time = now - self.collected_at;
        let mut demand = Demand::clone(&self.demand);
        for record in &mut self.records {
            record.cut(&mut demand, time, now);
        }
        demand.system_used =
            self.meters.of_system().iter().map(|used| used.load(Ordering::Relaxed)).collect();
        demand.system_elsewhere = self.meters.system_elsewhere.load(Ordering::Relaxed);
        let system = self.records.iter().find(|record| record.tenant == TenantId::SYSTEM);
        let reserved = system.map_or(MilliCores(0), |system| system.meter.in_force().terms.reserved);
        demand.system_promised += milli_core_nanos(reserved, time);
        self.collected_at = now;
        self.demand = Arc::new(demand);
        let (demand, cores, known, meters) = (&self.demand, self.cores, self.records.len(), &self.meters);
        let limits_held = meters.limits_held.load(Ordering::Relaxed);
        let mut next_end: Option<Nanos> = None;
        self.records.retain_mut(|record| {
            let meter = record.meter.clone();
            let mut in_force = meter.in_force();
            if record.is_cut && (all || now >= record.end || in_force.ended) {
                in_force.advance(now);
                if let Some(row) = record.end_interval(&mut in_force, demand, cores, limits_held, now) {
                    each(row);
                }
                record.end = end_of_interval(record.from, meters.interval_of(&in_force.terms));
                if in_force.ended {
                    return false;
                }
            }
            next_end = Some(next_end.map_or(record.end, |next| next.min(record.end)));
            true
        });
        self.next_end = next_end;
        if self.records.len() < known {
            self.release_ended();
        }
    }

    /// When the first interval ends; `None` if no tenant is known. Looks at every tenant where tenants came or a length changed since the last call.
    pub fn next_end(&mut self) -> Option<Nanos> {
        if self.take_in_changes() {
            self.next_end = self.records.iter().map(|record| record.end).min();
        }
        self.next_end
    }

    /// Takes in new tenants and new lengths; whether there were any.
    fn take_in_changes(&mut self) -> bool {
        if self.meters.version.load(Ordering::Acquire) == self.version {
            return false;
        }
        let meters = self.meters.lock();
        self.version = self.meters.version.load(Ordering::Acquire);
        for record in &mut self.records {
            record.end =
                end_of_interval(record.from, self.meters.interval_of(&record.meter.in_force().terms));
        }
        for (tenant, meter) in meters.iter() {
            if let Err(place) = self.records.binary_search_by_key(tenant, |record| record.tenant) {
                let in_force = meter.in_force();
                let record = Record {
                    tenant: *tenant,
                    meter: meter.clone(),
                    from: in_force.began,
                    end: end_of_interval(in_force.began, self.meters.interval_of(&in_force.terms)),
                    totals: Totals::default(),
                    active: 0,
                    owed: 0,
                    used: 0,
                    ahead: 0,
                    since_move: 0,
                    demand: self.demand.clone(),
                    is_cut: false,
                };
                self.records.insert(place, record);
            }
        }
        true
    }

    fn release_ended(&mut self) {
        let records = &self.records;
        self.meters.lock().retain(|tenant, meter| {
            let known = records.binary_search_by_key(tenant, |record| record.tenant).is_ok();
            known || !meter.in_force().ended
        });
    }
}

impl Record {
    /// Takes in what the workers told until `now`.
    fn cut(&mut self, demand: &mut Demand, time: Nanos, now: Nanos) {
        let totals = self.meter.tally.cut(now);
        self.is_cut = totals.is_some();
        let Some(totals) = totals else { return };
        let before = std::mem::replace(&mut self.totals, totals);
        if totals == before {
            return;
        }
        let owed = MilliCoreNanos::from(totals.owed.wrapping_sub(before.owed));
        let used = totals.used.wrapping_sub(before.used) as i64;
        self.active += totals.active.wrapping_sub(before.active);
        self.owed += owed;
        self.used += used;
        let in_force = self.meter.in_force();
        if in_force.moved_from.is_some() {
            self.since_move += owed.min(milli_core_nanos(ONE_CORE, time));
        }
        demand.add(self.tenant, &in_force.terms, owed, used, time);
    }

    fn end_interval(
        &mut self,
        in_force: &mut InForce,
        demand: &Arc<Demand>,
        cores: u32,
        limits_held: bool,
        now: Nanos,
    ) -> Option<LedgerRow> {
        // Another thread's clock may be ahead where a tenant goes as soon as it came.
        let from = std::mem::replace(&mut self.from, now).min(now);
        let before = std::mem::replace(&mut self.demand, demand.clone());
        self.meter.tally.begin_row(now);
        let promised = std::mem::take(&mut in_force.promised);
        // Of several prices each counts for what was promised at it.
        let price = std::mem::take(&mut in_force.priced).checked_div(promised).unwrap_or(0);
        let price = u64::try_from(price).unwrap_or(u64::MAX);
        let promised = to_nanos(promised);
        let allowed = to_nanos(std::mem::take(&mut in_force.allowed));
        let unlimited = std::mem::take(&mut in_force.unlimited);
        let held_up = std::mem::take(&mut in_force.held_up);
        let since_move = std::mem::take(&mut self.since_move);
        let moved_from = in_force.moved_from.take().filter(|home| Some(*home) != in_force.terms.home);
        let old_home = moved_from.map(|home| (home, since_move));
        let active = Nanos(std::mem::take(&mut self.active));
        let owed = to_nanos(self.owed);
        // What is less than a nanosecond waits for the next row.
        self.owed %= 1000;
        let given = u64::try_from(self.used).unwrap_or(0);
        self.used = self.used.min(0);
        let past = self.meter.tally.take_past();
        let ahead = self.ahead;
        let debt = match limits_held {
            true => self.meter.tally.ahead(now),
            false => {
                self.meter.tally.forgive();
                self.meter.forgiven.store(0, Ordering::Relaxed);
                0
            }
        };
        self.ahead = debt;
        if active == Nanos(0) && given == 0 && past == 0 {
            return None;
        }
        // What was forgiven while the tenant rested, by a lower limit, is told in this row.
        let forgiven = self.meter.forgiven.swap(0, Ordering::Relaxed);
        // Of polls in which the worker's thread stood still a part was taken back.
        let awaited = self.meter.awaited.swap(0, Ordering::Relaxed).min(given + past);
        // What its own limit may have kept from it, for what it had before, is no fault of the server's.
        let held = owed.saturating_sub(given).min(ahead);
        let demanded = owed - held;
        let missed = demanded.saturating_sub(given);
        // At most a core of it is for tasks at home, and those alone stood still.
        let owed_while_held = to_nanos(milli_core_nanos(in_force.terms.reserved.min(ONE_CORE), held_up));
        let over = if unlimited == Nanos(0) { given.saturating_sub(allowed) } else { 0 };
        let terms = &in_force.terms;
        Some(LedgerRow {
            tenant: self.tenant,
            resource: Resource::Cpu,
            from,
            to: now,
            promised,
            demanded,
            given: given + past,
            missed,
            by_chance: 0,
            over,
            own_limit: OwnLimit { held, debt, forgiven, awaited },
            active,
            cause: match missed {
                0 => None,
                missed if owed_while_held >= missed => Some(Cause::System),
                missed => Some(demand.cause(&before, terms, old_home, cores, now - from, missed)),
            },
            delays: None,
            owed_micros: LedgerRow::price(Resource::Cpu, missed, price),
        })
    }
}
