//! The meter of processor time.
//!
//! A tenant with n tasks running or runnable, on whatever workers, is owed `min(R, n)` cores at that instant; over an
//! interval the integral of that, whatever it used beyond it notwithstanding. Example: R = 0.10, ready for 500 ms of the second:
//! 50 ms are owed; 40 ms given: 10 ms missed. Idle for all of it: nothing is owed. R = 2 with one task all second: 1 s.
//!
//! **A limit** stops a tenant for what it took beyond it, and that it did not get meanwhile is no miss: of what it was not given it is owed that much less as it had more when
//! the interval began than its limit had paid for, which it remembers for a second. It pays for what is used from then on, and saves nothing up for who rests. Example: R and
//! limit 0.5, a query that cannot be stopped takes 0.9 of a second and is stopped for 0.8 s of the next: it has 0.1 of its 0.5, and has missed nothing; 0.05 are 0.05 missed.
//! The row says what was kept, what is not paid for, and what is forgiven since it would take longer than a second ([`OwnLimit`](crate::OwnLimit)).
//!
//! **Several workers.** `min(R, n)` of a sum of tasks is not a sum over workers: a tenant with R = 1 and one task on each of two workers
//! is owed 1 s a second, not 2, and if the tasks take turns, 1 s too. What each worker could integrate by itself says nothing about
//! which of its time overlapped another's. So workers do not integrate: they keep their own number of tasks, and tell its changes to one word of the
//! tenant that has the sum and the instant of its last change. Whoever changes the word owns the time since then, and adds it to the
//! tenant's totals, which only add up. A collector changes nothing in the word but the instant. See [`tally`].
//!
//! What counts as a task is what could use a core of its own: all of a tenant's sessions on its home are one, each analytical
//! thread is one.
//!
//! **What nobody saw come.** A worker that is in a long poll hears of nobody's messages. Whom it finds waiting after it is taken to have come in the middle of it. Example: a
//! neighbour's poll of 400 ms; a tenant of R = 0.5 that has a message then was owed 100 ms of it.

mod audit;
mod tally;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use base::{Nanos, TenantId};
use rustc_hash::FxHashMap;

pub use audit::CpuAudit;
use tally::Tally;

use crate::promise::MilliCores;

/// What the meter holds a tenant's processor time against.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CpuTerms {
    pub reserved: MilliCores,
    /// `None`: no limit.
    pub max: Option<MilliCores>,
    /// Price of a missed core-second, in millionths.
    pub penalty_micros: u64,
    /// The metering interval; `None`: the server's ([`CpuMeters::set_interval`]).
    pub interval: Option<Nanos>,
    /// The worker that the tenant's sessions run on, counted from 0; `None`: not known. Reservations of more than a core
    /// on one worker are overbooked even where others idle.
    pub home: Option<u32>,
}

impl CpuTerms {
    /// The metering interval unless told otherwise.
    pub const INTERVAL_DEFAULT: Nanos = Nanos::from_secs(1);
}

impl Default for CpuTerms {
    fn default() -> CpuTerms {
        CpuTerms { reserved: MilliCores(0), max: None, penalty_micros: 0, interval: None, home: None }
    }
}

/// Thousandths of a core × nanoseconds.
type MilliCoreNanos = u128;

/// The terms, and what they came to in the present interval.
struct InForce {
    terms: CpuTerms,
    /// When the meter was made.
    began: Nanos,
    since: Nanos,
    /// Up to `since`, as is the rest.
    promised: MilliCoreNanos,
    /// That, each part times the price it had then.
    priced: u128,
    allowed: MilliCoreNanos,
    /// Time without a limit.
    unlimited: Nanos,
    /// Time for which the server itself had its tasks stand still.
    held_up: Nanos,
    /// Where its home was before it moved, if it did.
    moved_from: Option<u32>,
    /// The tenant is gone: one last row.
    ended: bool,
}

impl InForce {
    fn new(terms: CpuTerms, since: Nanos) -> InForce {
        InForce {
            terms,
            began: since,
            since,
            promised: 0,
            priced: 0,
            allowed: 0,
            unlimited: Nanos(0),
            held_up: Nanos(0),
            moved_from: None,
            ended: false,
        }
    }

    /// Counts the time until `now`.
    fn advance(&mut self, now: Nanos) {
        let time = now - self.since;
        self.since = now;
        let promised = milli_core_nanos(self.terms.reserved, time);
        self.promised += promised;
        self.priced += promised * u128::from(self.terms.penalty_micros);
        match self.terms.max {
            Some(max) => self.allowed += milli_core_nanos(max, time),
            None => self.unlimited += time,
        }
    }
}

fn milli_core_nanos(cores: MilliCores, time: Nanos) -> MilliCoreNanos {
    MilliCoreNanos::from(cores.0) * MilliCoreNanos::from(time.0)
}

struct TenantMeter {
    tally: Tally,
    /// What was used beyond the limit and will not be paid for, in nanoseconds, since the last row.
    forgiven: AtomicU64,
    /// What of its use others waited for, in nanoseconds, since the last row.
    awaited: AtomicU64,
    /// Taken by who changes the terms, by who moves the tenant and by the collector, never by a worker's run path.
    in_force: Mutex<InForce>,
}

impl TenantMeter {
    fn in_force(&self) -> MutexGuard<'_, InForce> {
        self.in_force.lock().expect("no panic under a meter's lock")
    }

    fn add_used(&self, used: Nanos, now: Nanos) {
        self.add_forgiven(self.tally.add_used(used, now));
    }

    fn add_forgiven(&self, forgiven: Nanos) {
        // Most often it is nothing, and this cache line is left alone.
        if forgiven > Nanos(0) {
            self.forgiven.fetch_add(forgiven.0, Ordering::Relaxed);
        }
    }
}

/// All tenants' meters. One a server.
pub struct CpuMeters {
    by_tenant: Mutex<FxHashMap<TenantId, Arc<TenantMeter>>>,
    /// Changes with the set of tenants and with the length of an interval.
    version: AtomicU64,
    /// Of tenants whose terms have none, in nanoseconds.
    interval: AtomicU64,
    /// What the internal tenant used on each worker, in nanoseconds; wraps around.
    of_system: Mutex<Vec<Arc<AtomicU64>>>,
    /// What it used on threads that are kept to no worker's core; wraps around.
    system_elsewhere: AtomicU64,
    /// Whether limits stop anybody.
    limits_held: AtomicBool,
}

impl Default for CpuMeters {
    fn default() -> CpuMeters {
        CpuMeters {
            by_tenant: Mutex::default(),
            of_system: Mutex::default(),
            system_elsewhere: AtomicU64::new(0),
            version: AtomicU64::new(0),
            interval: AtomicU64::new(CpuTerms::INTERVAL_DEFAULT.0),
            limits_held: AtomicBool::new(true),
        }
    }
}

impl CpuMeters {
    /// Meters of no tenant.
    pub fn new() -> Arc<CpuMeters> {
        Arc::default()
    }

    /// Sets the metering interval of all tenants whose terms have none of their own. An interval under way ends at the next multiple of it.
    pub fn set_interval(&self, interval: Nanos) {
        assert!(interval.0 > 0, "an interval has a length");
        if self.interval.swap(interval.0, Ordering::Relaxed) != interval.0 {
            self.version.fetch_add(1, Ordering::Release);
        }
    }

    /// Whether tenants' limits are held, as they are unless this says otherwise: one that is not stops nobody, and is no excuse for what a tenant misses.
    pub fn set_limits_held(&self, are_held: bool) {
        self.limits_held.store(are_held, Ordering::Relaxed);
    }

    fn interval_of(&self, terms: &CpuTerms) -> Nanos {
        terms.interval.unwrap_or(Nanos(self.interval.load(Ordering::Relaxed)))
    }

    /// Makes a tenant known or changes its terms from `now` on; what it was owed before stays owed. From any thread; takes
    /// a short lock.
    pub fn set_terms(&self, tenant: TenantId, terms: CpuTerms, now: Nanos) {
        let meter = self.meter(tenant, now);
        let mut in_force = meter.in_force();
        in_force.advance(now);
        meter.tally.set_reserved(terms.reserved, now);
        meter.add_forgiven(meter.tally.set_max(terms.max, now));
        let before = std::mem::replace(&mut in_force.terms, terms);
        if before.home != terms.home && in_force.moved_from.is_none() {
            in_force.moved_from = before.home;
        }
        if before.interval != terms.interval {
            self.version.fetch_add(1, Ordering::Release);
        }
    }

    /// The tenant is gone. Its last row comes with the next collection.
    pub fn forget(&self, tenant: TenantId) {
        if let Some(meter) = self.lock().get(&tenant) {
            meter.in_force().ended = true;
        }
    }

    fn of_system(&self) -> MutexGuard<'_, Vec<Arc<AtomicU64>>> {
        self.of_system.lock().expect("no panic under this lock")
    }

    fn of_system_on(&self, worker: usize) -> Arc<AtomicU64> {
        let mut of_system = self.of_system();
        if worker >= of_system.len() {
            of_system.resize_with(worker + 1, Arc::default);
        }
        of_system[worker].clone()
    }

    fn lock(&self) -> MutexGuard<'_, FxHashMap<TenantId, Arc<TenantMeter>>> {
        self.by_tenant.lock().expect("no panic under the meters' lock")
    }

    fn meter(&self, tenant: TenantId, now: Nanos) -> Arc<TenantMeter> {
        let mut meters = self.lock();
        let fresh = || {
            self.version.fetch_add(1, Ordering::Release);
            let in_force = Mutex::new(InForce::new(CpuTerms::default(), now));
            let (forgiven, awaited) = (AtomicU64::new(0), AtomicU64::new(0));
            Arc::new(TenantMeter { tally: Tally::default(), forgiven, awaited, in_force })
        };
        meters.entry(tenant).or_insert_with(fresh).clone()
    }
}

/// One worker's end of the meters: its executor tells here what happens. Used by the worker's thread only. Takes a lock where a
/// tenant is named for the first time, else only adds to the tenant's word and totals.
pub struct CpuFeed {
    meters: Arc<CpuMeters>,
    fed: FxHashMap<TenantId, Fed>,
    /// What the internal tenant used here.
    of_system: Arc<AtomicU64>,
}

struct Fed {
    meter: Arc<TenantMeter>,
    tasks: u32,
    /// When they last changed in number.
    since: Nanos,
}

impl CpuFeed {
    /// The only worker's end of `meters`.
    pub fn new(meters: Arc<CpuMeters>) -> CpuFeed {
        CpuFeed::of_worker(meters, 0)
    }

    /// A worker's end of `meters`; they are counted from 0.
    pub fn of_worker(meters: Arc<CpuMeters>, worker: usize) -> CpuFeed {
        let of_system = meters.of_system_on(worker);
        CpuFeed { meters, fed: FxHashMap::default(), of_system }
    }

    /// From `now` on `tasks` of the tenant are running or runnable on this worker. More than 15 count as 15. Call it
    /// at every change; a call that changes nothing costs a look-up.
    pub fn tasks(&mut self, tenant: TenantId, tasks: u32, now: Nanos) {
        let fed = self.fed(tenant, now);
        let tasks = tasks.min(Tally::WORKER_TASKS_MAX);
        if tasks != fed.tasks {
            fed.meter.tally.change(fed.tasks, tasks, now);
            (fed.tasks, fed.since) = (tasks, now);
        }
    }

    /// As [`CpuFeed::tasks`] at the end of a time since `unseen` in which the worker did not look who had come: the first ones of a tenant are taken to have
    /// come in the middle of it, of a second of it at most.
    pub fn came_unseen(&mut self, tenant: TenantId, tasks: u32, unseen: Nanos, now: Nanos) {
        let fed = self.fed(tenant, now);
        let are_first = fed.tasks == 0 && fed.since <= unseen && fed.meter.tally.is_idle();
        let meter = fed.meter.clone();
        self.tasks(tenant, tasks, now);
        if are_first {
            meter.tally.add_unseen(unseen, now, tasks.min(Tally::WORKER_TASKS_MAX));
        }
    }

    /// The tenant used processor time until `now`.
    pub fn used(&mut self, tenant: TenantId, used: Nanos, now: Nanos) {
        self.fed(tenant, now).meter.add_used(used, now);
        if tenant == TenantId::SYSTEM {
            self.of_system.fetch_add(used.0, Ordering::Relaxed);
        }
    }

    /// So much of what was [`CpuFeed::used`] others waited for: the tenant's limit does not hold that.
    pub fn was_awaited(&mut self, tenant: TenantId, used: Nanos, now: Nanos) {
        self.fed(tenant, now).meter.awaited.fetch_add(used.0, Ordering::Relaxed);
    }

    /// As [`CpuFeed::used`] on a thread that is kept to no worker's core.
    pub fn used_elsewhere(&mut self, tenant: TenantId, used: Nanos, now: Nanos) {
        self.fed(tenant, now).meter.add_used(used, now);
        if tenant == TenantId::SYSTEM {
            self.meters.system_elsewhere.fetch_add(used.0, Ordering::Relaxed);
        }
    }

    /// The tenant used processor time before its home was there, on other threads. Its row has it, and nothing that it misses is made up for by it.
    pub fn used_before(&mut self, tenant: TenantId, used: Nanos, now: Nanos) {
        self.fed(tenant, now).meter.tally.add_past(used);
    }

    /// Takes back time that was told and not used.
    pub fn take_back(&mut self, tenant: TenantId, unused: Nanos, now: Nanos) {
        self.fed(tenant, now).meter.tally.take_back(unused);
        if tenant == TenantId::SYSTEM {
            self.of_system.fetch_sub(unused.0, Ordering::Relaxed);
        }
    }

    /// The server had the tenant's tasks stand still for `time`, until `now`, to move it: what it misses for that is the server's doing. Takes a short
    /// lock.
    pub fn held_up(&mut self, tenant: TenantId, time: Nanos, now: Nanos) {
        self.fed(tenant, now).meter.in_force().held_up += time;
    }

    /// A task of the tenant was on its way to this worker from `since` to `now`, and stood in no queue: what the tenant misses for that is the server's doing.
    /// Not of a tenant that had tasks elsewhere. Takes a short lock.
    pub fn was_on_its_way(&mut self, tenant: TenantId, since: Nanos, now: Nanos) {
        let fed = self.fed(tenant, now);
        if fed.meter.tally.is_idle() {
            fed.meter.tally.add_waited(since, now);
            fed.meter.in_force().held_up += now - since;
            // What is told next did not come unseen.
            fed.since = now;
        }
    }

    /// The tenant will have nothing more to do with this worker.
    pub fn remove(&mut self, tenant: TenantId, now: Nanos) {
        if self.fed.contains_key(&tenant) {
            self.tasks(tenant, 0, now);
            self.fed.remove(&tenant);
        }
    }

    fn fed(&mut self, tenant: TenantId, now: Nanos) -> &mut Fed {
        let meters = &self.meters;
        let fresh = || Fed { meter: meters.meter(tenant, now), tasks: 0, since: Nanos(0) };
        self.fed.entry(tenant).or_insert_with(fresh)
    }
}
