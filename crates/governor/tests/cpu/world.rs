//! Workers and tenants in virtual time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::num::NonZeroU32;
use std::sync::Arc;

use base::{Nanos, TenantId};
use governor::{
    CpuAccounts, CpuAudit, CpuFeed, CpuMeters, CpuPromise, CpuScheduler, CpuTerms, LedgerRow, MilliCores,
    Pick, Policy,
};

pub(crate) const US: u64 = 1_000;
pub(crate) const MS: u64 = 1_000_000;
pub(crate) const SECOND: u64 = 1_000_000_000;
/// How often a limit is refilled.
pub(crate) const REFILL: u64 = 10 * MS;

/// A cheap sequence without visible order.
#[derive(Clone)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        low + (z ^ (z >> 31)) % (high - low + 1)
    }
}

/// What a tenant's tasks on one worker do.
#[derive(Clone, Debug)]
pub(crate) enum Load {
    /// Always have something to do.
    Busy,
    /// Work for so long, then sleep for so long; each drawn from a range.
    Bursts { work: (u64, u64), sleep: (u64, u64) },
    /// Are there from one instant to another.
    Between { from: u64, to: u64 },
}

#[derive(Clone, Debug)]
pub(crate) struct Tenant {
    pub(crate) promise: CpuPromise,
    pub(crate) price: u64,
    /// Which workers it has tasks on, and what they do.
    pub(crate) loads: Vec<(usize, Load)>,
    pub(crate) poll: (u64, u64),
}

impl Tenant {
    pub(crate) fn new(reserved: u32, worker: usize, load: Load, poll: (u64, u64)) -> Tenant {
        let promise = CpuPromise { reserved: MilliCores(reserved), ..CpuPromise::default() };
        Tenant { promise, price: 0, loads: vec![(worker, load)], poll }
    }

    pub(crate) fn busy(reserved: u32) -> Tenant {
        Tenant::new(reserved, 0, Load::Busy, (100 * US, 100 * US))
    }

    pub(crate) fn polling(mut self, low: u64, high: u64) -> Tenant {
        self.poll = (low, high);
        self
    }

    pub(crate) fn also_on(mut self, worker: usize, load: Load) -> Tenant {
        self.loads.push((worker, load));
        self
    }

    pub(crate) fn at_most(mut self, max: u32) -> Tenant {
        self.promise.max = Some(MilliCores(max));
        self
    }

    pub(crate) fn weighing(mut self, weight: u32) -> Tenant {
        self.promise.weight = NonZeroU32::new(weight).unwrap();
        self
    }

    pub(crate) fn priced(mut self, price: u64) -> Tenant {
        self.price = price;
        self
    }

    pub(crate) fn reserved(&self) -> u64 {
        u64::from(self.promise.reserved.0)
    }
}

/// What is wrong with the scheduler, for one tenant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// It never hears that the tenant has tasks.
    Ignored(usize),
    /// It hears so much later.
    Delayed(usize, u64),
    /// It is charged twice.
    ChargedTwice(usize),
}

/// One tenant's tasks on one worker.
struct Tasks {
    tenant: usize,
    load: Load,
    runnable: bool,
    /// Work left before they sleep.
    left: u64,
}

struct Worker {
    scheduler: CpuScheduler,
    feed: CpuFeed,
    now: u64,
    tasks: Vec<Tasks>,
    /// (when, index of tasks, whether only the scheduler does not know yet)
    wakes: BinaryHeap<Reverse<(u64, usize, bool)>>,
    /// Whose task is being polled, and for how long; `now` is when that ends.
    polling: Option<(usize, u64)>,
    idle: u64,
}

/// Tokens as the limit is defined, kept apart from the scheduler.
#[derive(Default)]
struct Tokens {
    milli_nanos: i128,
    period: u64,
}

/// One charge of the trace.
#[derive(Clone, Copy)]
pub(crate) struct Charge {
    pub(crate) tenant: usize,
    pub(crate) end: u64,
    pub(crate) used: u64,
}

pub(crate) struct World {
    pub(crate) tenants: Vec<Tenant>,
    workers: Vec<Worker>,
    pub(crate) accounts: Arc<CpuAccounts>,
    pub(crate) meters: Arc<CpuMeters>,
    audit: CpuAudit,
    pub(crate) rows: Vec<LedgerRow>,
    /// (when, tenant, change of its number of tasks), in the order of events.
    pub(crate) task_changes: Vec<(u64, usize, i64)>,
    pub(crate) charges: Vec<Charge>,
    interval: u64,
    fault: Option<Fault>,
    random: Random,
    tokens: Vec<Tokens>,
    limits_in_force: bool,
    /// How long tasks that woke waited for their first turn.
    pub(crate) wake_delays: BTreeMap<usize, Vec<u64>>,
    woken_at: BTreeMap<(usize, usize), u64>,
    collected_at: u64,
    max_changes: Vec<u64>,
}

pub(crate) fn id(tenant: usize) -> TenantId {
    TenantId(tenant as u64 + 100)
}

impl World {
    pub(crate) fn new(workers: usize, tenants: Vec<Tenant>, seed: u64) -> World {
        let accounts = Arc::new(CpuAccounts::default());
        let meters = CpuMeters::new();
        let worker = |_| Worker {
            scheduler: CpuScheduler::sharing(accounts.clone()),
            feed: CpuFeed::new(meters.clone()),
            now: 0,
            tasks: Vec::new(),
            wakes: BinaryHeap::new(),
            polling: None,
            idle: 0,
        };
        let mut world = World {
            workers: (0..workers).map(worker).collect(),
            audit: CpuAudit::new(meters.clone(), workers as u32, Nanos(0)),
            accounts: accounts.clone(),
            meters,
            rows: Vec::new(),
            task_changes: Vec::new(),
            charges: Vec::new(),
            interval: SECOND,
            fault: None,
            random: Random(seed),
            tokens: tenants.iter().map(|_| Tokens::default()).collect(),
            limits_in_force: true,
            wake_delays: BTreeMap::new(),
            woken_at: BTreeMap::new(),
            collected_at: 0,
            max_changes: vec![0; tenants.len()],
            tenants: Vec::new(),
        };
        for (index, tenant) in tenants.into_iter().enumerate() {
            for (worker, load) in &tenant.loads {
                let place = world.workers[*worker].tasks.len();
                let from = if let Load::Between { from, .. } = load { *from } else { 0 };
                world.workers[*worker].tasks.push(Tasks {
                    tenant: index,
                    load: load.clone(),
                    runnable: false,
                    left: 0,
                });
                world.workers[*worker].wakes.push(Reverse((from, place, false)));
            }
            world.tenants.push(tenant);
            world.promise(index);
        }
        world
    }

    pub(crate) fn with_fault(mut self, fault: Fault) -> World {
        self.fault = Some(fault);
        self
    }

    /// Another metering interval than a second.
    pub(crate) fn with_interval(mut self, interval: u64) -> World {
        self.interval = interval;
        (0..self.tenants.len()).for_each(|tenant| self.promise(tenant));
        self
    }

    pub(crate) fn with_policy(mut self, policy: Policy) -> World {
        self.set_policy(policy);
        self
    }

    pub(crate) fn set_policy(&mut self, policy: Policy) {
        self.limits_in_force = policy != Policy::BestEffort;
        let now = Nanos(self.collected_at);
        self.workers.iter_mut().for_each(|worker| worker.scheduler.set_policy(policy, now));
    }

    /// Tells everybody a tenant's promise.
    fn promise(&mut self, index: usize) {
        let (tenant, now) = (&self.tenants[index], Nanos(self.collected_at));
        for worker in &mut self.workers {
            worker.scheduler.set_promise(id(index), &tenant.promise, now);
            worker.scheduler.set_price(id(index), tenant.price);
        }
        let terms = CpuTerms {
            reserved: tenant.promise.reserved,
            max: tenant.promise.max,
            penalty_micros: tenant.price,
            interval: Some(Nanos(self.interval)),
            home: Some(tenant.loads[0].0 as u32),
        };
        self.meters.set_terms(id(index), terms, now);
    }

    /// Changes a tenant's promise between two runs.
    pub(crate) fn set_promise(&mut self, index: usize, promise: CpuPromise) {
        self.refill(index, self.collected_at);
        let tokens = &mut self.tokens[index];
        match (self.tenants[index].promise.max, promise.max) {
            // What is left of the bucket stays that part of it, debt stays the same work.
            (Some(before), Some(after)) if tokens.milli_nanos > 0 => {
                tokens.milli_nanos = tokens.milli_nanos * i128::from(after.0) / i128::from(before.0);
            }
            (None, Some(_)) => *tokens = Tokens::default(),
            _ => {}
        }
        self.tenants[index].promise = promise;
        self.max_changes[index] = self.collected_at;
        self.promise(index);
    }

    pub(crate) fn used(&self, tenant: usize) -> u64 {
        self.charges.iter().filter(|charge| charge.tenant == tenant).map(|charge| charge.used).sum()
    }

    pub(crate) fn used_between(&self, tenant: usize, from: u64, to: u64) -> u64 {
        let inside = |charge: &&Charge| charge.tenant == tenant && charge.end > from && charge.end <= to;
        self.charges.iter().filter(inside).map(|charge| charge.used).sum()
    }

    /// How often a tenant's tasks woke.
    pub(crate) fn wakes_between(&self, tenant: usize, from: u64, to: u64) -> u64 {
        let inside = |change: &&(u64, usize, i64)| {
            change.1 == tenant && change.2 > 0 && change.0 > from && change.0 <= to
        };
        self.task_changes.iter().filter(inside).count() as u64
    }

    pub(crate) fn idle(&self, worker: usize) -> u64 {
        self.workers[worker].idle
    }

    /// Lets every worker run until `end`, and collects at the end of each interval.
    pub(crate) fn run_until(&mut self, end: u64) {
        while self.collected_at < end {
            let next = (self.collected_at + self.interval).min(end);
            while let Some(worker) = (0..self.workers.len())
                .filter(|w| self.workers[*w].now < next)
                .min_by_key(|w| self.workers[*w].now)
            {
                self.step(worker, next);
            }
            let rows = &mut self.rows;
            self.audit.collect(Nanos(next), |row| rows.push(row));
            self.collected_at = next;
        }
    }

    /// All clocks jump ahead while nobody runs.
    pub(crate) fn jump(&mut self, time: u64) {
        for worker in &mut self.workers {
            worker.now += time;
            worker.wakes = worker
                .wakes
                .drain()
                .map(|Reverse((at, place, late))| Reverse((at + time, place, late)))
                .collect();
        }
    }

    fn step(&mut self, w: usize, end: u64) {
        if let Some((place, used)) = self.workers[w].polling.take() {
            return self.end_poll(w, place, used);
        }
        self.wake(w);
        let now = self.workers[w].now;
        let pick = self.workers[w].scheduler.pick(Nanos(now));
        let Pick::Run(tenant) = pick else {
            self.check_nobody_may_run(w, now);
            let worker = &mut self.workers[w];
            let woken = worker.wakes.peek().map_or(u64::MAX, |Reverse((at, ..))| *at);
            let until = match pick {
                Pick::NotBefore(at) => {
                    assert!(at.0 > now, "an instant that has come is none to wait for");
                    at.0
                }
                _ => u64::MAX,
            };
            // A worker that could steal work of others' limits looks again at the end.
            worker.now = until.min(woken).min(end).max(now + 1);
            worker.idle += worker.now - now;
            return;
        };
        let tenant = (tenant.0 - 100) as usize;
        let (low, high) = self.tenants[tenant].poll;
        let poll = self.random.between(low, high);
        let place = self.workers[w].tasks.iter().position(|tasks| tasks.tenant == tenant).unwrap();
        assert!(self.workers[w].tasks[place].runnable, "picked without a task");
        assert!(!self.is_out_of_tokens(tenant, now), "picked over its limit");
        if let Some(woken) = self.woken_at.remove(&(w, tenant)) {
            self.wake_delays.entry(tenant).or_default().push(now.saturating_sub(woken));
        }
        let worker = &mut self.workers[w];
        let used = poll.min(worker.tasks[place].left).max(1);
        worker.polling = Some((place, used));
        worker.now = now + used;
    }

    /// Ends a poll. Not in one step with its beginning: what other workers do meanwhile comes before it.
    fn end_poll(&mut self, w: usize, place: usize, used: u64) {
        let now = self.workers[w].now;
        self.charge(w, self.workers[w].tasks[place].tenant, used, now);
        let tasks = &mut self.workers[w].tasks[place];
        tasks.left -= used;
        let is_over = matches!(tasks.load, Load::Between { to, .. } if to <= now);
        if tasks.left == 0 || is_over {
            self.sleep(w, place, now);
        }
    }

    fn charge(&mut self, w: usize, tenant: usize, used: u64, end: u64) {
        let worker = &mut self.workers[w];
        worker.scheduler.charge(id(tenant), Nanos(used), Nanos(end));
        if self.fault == Some(Fault::ChargedTwice(tenant)) {
            worker.scheduler.charge(id(tenant), Nanos(used), Nanos(end));
        }
        worker.feed.used(id(tenant), Nanos(used), Nanos(end));
        self.charges.push(Charge { tenant, end, used });
        if self.limits_in_force && self.tenants[tenant].promise.max.is_some() {
            // What came while the poll went on pays for it.
            self.refill(tenant, end - used / REFILL * REFILL);
            self.tokens[tenant].milli_nanos -= i128::from(used) * 1000;
        }
    }

    fn refill(&mut self, tenant: usize, now: u64) {
        let Some(max) = self.tenants[tenant].promise.max else { return };
        let per_period = i128::from(max.0) * i128::from(REFILL);
        let tokens = &mut self.tokens[tenant];
        let period = now / REFILL + 1;
        let periods = period.saturating_sub(tokens.period);
        tokens.period = tokens.period.max(period);
        tokens.milli_nanos = (tokens.milli_nanos + per_period * i128::from(periods)).min(per_period);
    }

    fn is_out_of_tokens(&mut self, tenant: usize, now: u64) -> bool {
        if !self.limits_in_force || self.tenants[tenant].promise.max.is_none() {
            return false;
        }
        self.refill(tenant, now);
        // Charges are rounded up to a nanosecond of time at the limit's rate.
        let max = i128::from(self.tenants[tenant].promise.max.unwrap().0);
        let rounding = max * self.charges.len() as i128;
        self.tokens[tenant].milli_nanos < -rounding
    }

    /// Work conserving: whoever is runnable here is over its limit, as far as the tokens tell.
    fn check_nobody_may_run(&mut self, w: usize, now: u64) {
        if let Some(Fault::Ignored(_) | Fault::Delayed(..) | Fault::ChargedTwice(_)) = self.fault {
            return;
        }
        let runnable: Vec<usize> =
            self.workers[w].tasks.iter().filter(|tasks| tasks.runnable).map(|tasks| tasks.tenant).collect();
        for tenant in runnable {
            let max =
                self.tenants[tenant].promise.max.unwrap_or_else(|| panic!("{tenant} has no limit and waits"));
            self.refill(tenant, now);
            let rounding = i128::from(max.0) * (self.charges.len() as i128 + 1);
            assert!(self.tokens[tenant].milli_nanos <= rounding, "idle while {tenant} is below its limit");
        }
    }

    fn wake(&mut self, w: usize) {
        loop {
            let worker = &mut self.workers[w];
            let Some(Reverse((at, place, late))) = worker.wakes.peek().copied() else { return };
            if at > worker.now {
                return;
            }
            worker.wakes.pop();
            let tasks = &mut worker.tasks[place];
            let tenant = tasks.tenant;
            if late {
                worker.scheduler.runnable(id(tenant), Nanos(at));
                continue;
            }
            tasks.runnable = true;
            tasks.left = match tasks.load {
                Load::Bursts { work, .. } => self.random.between(work.0, work.1),
                Load::Busy | Load::Between { .. } => u64::MAX,
            };
            worker.feed.tasks(id(tenant), 1, Nanos(at));
            self.task_changes.push((at, tenant, 1));
            self.woken_at.insert((w, tenant), at);
            match self.fault {
                Some(Fault::Ignored(ignored)) if ignored == tenant => {}
                Some(Fault::Delayed(delayed, by)) if delayed == tenant => {
                    worker.wakes.push(Reverse((at + by, place, true)));
                }
                _ => worker.scheduler.runnable(id(tenant), Nanos(at)),
            }
        }
    }

    fn sleep(&mut self, w: usize, place: usize, now: u64) {
        let worker = &mut self.workers[w];
        let tasks = &mut worker.tasks[place];
        tasks.runnable = false;
        worker.scheduler.blocked(id(tasks.tenant), Nanos(now));
        worker.feed.tasks(id(tasks.tenant), 0, Nanos(now));
        self.task_changes.push((now, tasks.tenant, -1));
        if let Load::Bursts { sleep, .. } = tasks.load {
            let at = now + self.random.between(sleep.0, sleep.1);
            worker.wakes.push(Reverse((at, place, false)));
        }
    }

    /// The limit in force held over every stretch of time since it was set, but for a bucket's worth, a refill's worth
    /// (a stretch may begin just before one) and `debt`.
    pub(crate) fn check_limit(&self, tenant: usize, debt: u64) {
        let Some(max) = self.tenants[tenant].promise.max.map(|max| i128::from(max.0)) else { return };
        let since = self.max_changes[tenant];
        let mut charges: Vec<Charge> = self
            .charges
            .iter()
            .filter(|charge| charge.tenant == tenant && charge.end > since)
            .copied()
            .collect();
        charges.sort_by_key(|charge| charge.end);
        let (mut used, mut least) = (0, i128::MAX);
        for charge in charges {
            let due = max * i128::from(charge.end - since);
            least = least.min(used - due);
            used += i128::from(charge.used) * 1000;
            let over = used - due - least;
            let allowed = 2 * max * i128::from(REFILL) + i128::from(debt) * 1000;
            assert!(
                over <= allowed,
                "{tenant} went over its limit by {} ns, {} allowed",
                over / 1000,
                allowed / 1000
            );
        }
    }

    /// What a tenant was owed from `from` to `to`, from the trace: thousandths of a core × nanoseconds.
    pub(crate) fn owed_between(&self, tenant: usize, from: u64, to: u64) -> u64 {
        let (mut owed, mut tasks, mut at) = (0, 0, from);
        let mut changes: Vec<(u64, i64)> = self
            .task_changes
            .iter()
            .filter(|change| change.1 == tenant)
            .map(|change| (change.0, change.2))
            .collect();
        changes.sort_by_key(|change| change.0);
        for (when, change) in changes.into_iter().chain([(to, 0)]) {
            let until = when.clamp(from, to);
            owed += (until - at) * self.tenants[tenant].reserved().min(tasks as u64 * 1000);
            at = until;
            tasks += change;
        }
        owed
    }
}
