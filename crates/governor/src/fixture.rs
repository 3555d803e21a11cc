//! A volume in virtual time, for tests: workers with queues and meters, tenants that ask, a device that serves.
//!
//! Everything that happens is on a trace, from which tests recompute what the scheduler and the meter say.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::num::NonZeroU32;
use std::sync::Arc;

use base::{ByteCount, Nanos, TenantId};

use crate::io::{IoCost, IoPlace, IoQueue, IoVolume, LimitDebt, Next, Submitted};
use crate::meter::{IoCapacity, IoInterval, IoMeter, IoMeterVolume, IoRow};
use crate::promise::IoPromise;
use base::IoClass;

pub(crate) const TICK: Nanos = Nanos::from_micros(250);
/// How long a woken worker takes to come.
pub(crate) const WAKE: Nanos = Nanos::from_micros(20);

/// A cheap sequence without visible order.
pub(crate) struct Draws(pub(crate) u64);

impl Draws {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }
}

/// How a tenant asks.
#[derive(Clone, Debug)]
pub(crate) enum Arrivals {
    /// So many clients, each asking anew some time after its last request was completed.
    Closed { clients: u32, think: Nanos },
    /// One request after the other, whether the last is complete or not: at random around this distance.
    Open { every: Nanos },
    /// So many at once, ever so often.
    Burst { count: u32, every: Nanos },
}

#[derive(Clone, Debug)]
pub(crate) struct TenantPlan {
    pub(crate) promise: IoPromise,
    pub(crate) penalty: u64,
    pub(crate) arrivals: Arrivals,
    /// When it begins, and when it ends.
    pub(crate) active: (Nanos, Nanos),
    /// Bytes of a request at most.
    pub(crate) bytes_max: u64,
    /// Its worker; all of them in turn if there is none.
    pub(crate) worker: Option<usize>,
}

/// What a broken scheduler does to a tenant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    Ignores,
    Delays(Nanos),
    ChargesTwice,
}

#[derive(Clone, Debug)]
pub(crate) struct DevicePlan {
    pub(crate) depth: u32,
    /// Time one I/O takes of one place; a request of several takes so many times that.
    pub(crate) service: Nanos,
    pub(crate) jitter_percent: u64,
    /// Nothing completes in this time.
    pub(crate) stall: Option<(Nanos, Nanos)>,
    /// Takes so many times as long as it was calibrated to.
    pub(crate) slower: u64,
}

impl DevicePlan {
    pub(crate) fn steady(depth: u32, iops: u64) -> DevicePlan {
        let service = Nanos(1_000_000_000 * u64::from(depth) / iops);
        DevicePlan { depth, service, jitter_percent: 0, stall: None, slower: 1 }
    }

    pub(crate) fn iops(&self) -> u64 {
        1_000_000_000 * u64::from(self.depth) / self.service.0
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum What {
    Arrived,
    Issued,
    Completed,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Trace {
    pub(crate) at: Nanos,
    pub(crate) what: What,
    pub(crate) tenant: TenantId,
    pub(crate) cost: IoCost,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Request {
    tenant: usize,
    cost: IoCost,
    arrived: Nanos,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Event {
    Arrive(usize),
    Submit(usize, Request),
    Complete(usize, Request, IoPlace),
    Wake(usize),
}

struct Worker {
    queue: IoQueue<Request>,
    meter: IoMeter,
    /// When it will look again by itself.
    alarm: Option<Nanos>,
    queued: VecDeque<Request>,
}

pub(crate) struct World {
    pub(crate) now: Nanos,
    pub(crate) volume: Arc<IoVolume>,
    pub(crate) meter: Arc<IoMeterVolume>,
    pub(crate) device: DevicePlan,
    pub(crate) plans: Vec<TenantPlan>,
    pub(crate) fault: Option<(usize, Fault)>,
    pub(crate) trace: Vec<Trace>,
    pub(crate) rows: Vec<Vec<IoRow>>,
    /// What was found wrong on the way.
    pub(crate) wrong: Vec<String>,
    workers: Vec<Worker>,
    events: BinaryHeap<Reverse<(Nanos, u64)>>,
    bodies: BTreeMap<u64, Event>,
    serial: u64,
    draws: Draws,
    interval_end: Nanos,
    interval: Nanos,
    in_flight: u32,
    /// Since when a place was empty that somebody waited for.
    idle_since: Option<Nanos>,
    /// By tenant: what its limit lets it have by issue times alone, without any catching up.
    strict: Vec<f64>,
}

pub(crate) fn tenant_id(index: usize) -> TenantId {
    TenantId(TenantId::FIRST_USER.0 + index as u64)
}

impl World {
    pub(crate) fn new(seed: u64, workers: usize, device: DevicePlan, plans: Vec<TenantPlan>) -> World {
        let volume = IoVolume::new(workers);
        volume.set_depth(NonZeroU32::new(device.depth));
        let meter = IoMeterVolume::new(0, TICK);
        meter.set_capacity(IoCapacity { iops: device.iops(), depth: device.depth, iops_limit: None });
        let mut world = World {
            now: Nanos(0),
            workers: (0..workers)
                .map(|worker| Worker {
                    queue: IoQueue::new(&volume, worker),
                    meter: IoMeter::new(&meter),
                    alarm: None,
                    queued: VecDeque::new(),
                })
                .collect(),
            volume,
            meter,
            device,
            strict: vec![0.0; plans.len()],
            plans: Vec::new(),
            fault: None,
            trace: Vec::new(),
            rows: Vec::new(),
            wrong: Vec::new(),
            events: BinaryHeap::new(),
            bodies: BTreeMap::new(),
            serial: 0,
            draws: Draws(seed),
            interval_end: Nanos::from_secs(1),
            interval: Nanos::from_secs(1),
            in_flight: 0,
            idle_since: None,
        };
        for (index, plan) in plans.into_iter().enumerate() {
            let first = plan.active.0;
            let count = match plan.arrivals {
                Arrivals::Closed { clients, .. } => clients,
                _ => 1,
            };
            (0..count).for_each(|_| world.at(first, Event::Arrive(index)));
            let promise = plan.promise;
            world.plans.push(plan);
            world.set_promise(index, promise);
        }
        world
    }

    pub(crate) fn set_promise(&mut self, tenant: usize, promise: IoPromise) {
        let penalty = self.plans[tenant].penalty;
        // What a tenant is ahead it stays ahead, in I/Os.
        if let (Some(before), Some(after)) = (self.plans[tenant].promise.iops_max, promise.iops_max) {
            let (now, strict) = (self.now.as_secs_f64(), &mut self.strict[tenant]);
            *strict = now + (*strict - now).max(0.0) * before as f64 / after as f64;
        }
        self.plans[tenant].promise = promise;
        self.volume.set_promise(tenant_id(tenant), &promise, penalty, self.now);
        self.meter.set_promise(tenant_id(tenant), &promise, penalty, self.now);
        self.wake_all();
    }

    pub(crate) fn wake_all(&mut self) {
        (0..self.workers.len()).for_each(|worker| self.at(self.now, Event::Wake(worker)));
    }

    fn at(&mut self, at: Nanos, event: Event) {
        self.serial += 1;
        self.events.push(Reverse((at, self.serial)));
        self.bodies.insert(self.serial, event);
    }

    /// Lets everything happen through `end`, closing each interval at its end.
    pub(crate) fn run_until(&mut self, end: Nanos) {
        while let Some(Reverse((at, serial))) = self.events.peek().copied() {
            if at > end {
                break;
            }
            while at >= self.interval_end {
                self.close_interval();
            }
            self.events.pop();
            let event = self.bodies.remove(&serial).expect("each event has a body");
            self.now = at;
            self.step(event);
            // What happens at the same instant happens at once.
            if self.events.peek().is_none_or(|Reverse((next, _))| *next > at) {
                self.check_not_idle();
            }
        }
        while end >= self.interval_end {
            self.close_interval();
        }
        self.now = end;
    }

    fn close_interval(&mut self) {
        let end = self.interval_end;
        let mut interval = IoInterval::default();
        for worker in &mut self.workers {
            let mut own = IoInterval::default();
            worker.meter.close(end, &mut own);
            interval.merge(&own);
        }
        self.rows.push(interval.judge(&self.meter, end - self.interval, end));
        self.interval_end = end + self.interval;
    }

    fn step(&mut self, event: Event) {
        match event {
            Event::Arrive(tenant) => self.arrive(tenant),
            Event::Submit(worker, request) => self.submit(worker, request),
            Event::Complete(worker, request, place) => {
                self.in_flight -= 1;
                self.note(What::Completed, request);
                self.workers[worker].queue.completed(place);
                self.workers[worker].meter.completed(request.cost, self.now);
                if let Arrivals::Closed { think, .. } = self.plans[request.tenant].arrivals {
                    let think = Nanos(think.0 / 2 + self.draws.between(0, think.0));
                    self.at(self.now + think, Event::Arrive(request.tenant));
                }
                self.look(worker);
            }
            Event::Wake(worker) => {
                if self.workers[worker].alarm.is_some_and(|alarm| alarm <= self.now) {
                    self.workers[worker].alarm = None;
                }
                self.look(worker);
            }
        }
    }

    fn note(&mut self, what: What, request: Request) {
        let (at, tenant) = (self.now, tenant_id(request.tenant));
        self.trace.push(Trace { at, what, tenant, cost: request.cost });
    }

    fn arrive(&mut self, tenant: usize) {
        let plan = self.plans[tenant].clone();
        if self.now >= plan.active.1 {
            return;
        }
        let (count, next) = match plan.arrivals {
            Arrivals::Closed { .. } => (1, None),
            Arrivals::Open { every } => (1, Some(Nanos(self.draws.between(1, 2 * every.0)))),
            Arrivals::Burst { count, every } => (count, Some(every)),
        };
        for _ in 0..count {
            let bytes = if plan.bytes_max <= 8192 { 8192 } else { self.draws.between(4096, plan.bytes_max) };
            let cost = IoCost::of(ByteCount(bytes));
            let request = Request { tenant, cost, arrived: self.now };
            let workers = self.workers.len() as u64;
            let worker = plan.worker.unwrap_or_else(|| self.draws.between(0, workers - 1) as usize);
            self.note(What::Arrived, request);
            self.workers[worker].meter.arrived(tenant_id(tenant), cost, self.now);
            match self.fault {
                Some((whom, Fault::Ignores)) if whom == tenant => {}
                Some((whom, Fault::Delays(by))) if whom == tenant => {
                    self.at(self.now + by, Event::Submit(worker, request));
                }
                _ => self.submit(worker, request),
            }
        }
        if let Some(next) = next {
            self.at(self.now + next, Event::Arrive(tenant));
        }
    }

    fn submit(&mut self, worker: usize, request: Request) {
        let class = if self.draws.between(0, 3) == 0 { IoClass::Bulk } else { IoClass::Short };
        let tenant = tenant_id(request.tenant);
        match self.workers[worker].queue.submit(tenant, class, request.cost, request, self.now) {
            Submitted::Issue(request, place) => self.issue(worker, request, place),
            Submitted::Queued(_) => self.workers[worker].queued.push_back(request),
        }
        self.look(worker);
    }

    fn look(&mut self, worker: usize) {
        loop {
            match self.workers[worker].queue.next(self.now) {
                Next::Issue(request, place) => {
                    let queued = &mut self.workers[worker].queued;
                    let at = queued.iter().position(|other| *other == request);
                    queued.remove(at.expect("what is issued was queued"));
                    self.issue(worker, request, place);
                }
                Next::Wake(other) => {
                    self.at(self.now + WAKE, Event::Wake(other));
                }
                Next::WaitUntil(at) => {
                    assert!(at > self.now, "a wait ends later than it begins");
                    if self.workers[worker].alarm.is_none_or(|alarm| at < alarm) {
                        self.workers[worker].alarm = Some(at);
                        self.at(at, Event::Wake(worker));
                    }
                    break;
                }
                Next::Idle => break,
            }
        }
    }

    /// A place is free, a request waits on one of these workers, and its tenant is below its limit. Says nothing of a
    /// scheduler that was broken on purpose.
    fn who_waits(&self, workers: std::ops::Range<usize>) -> Option<usize> {
        if self.in_flight >= self.device.depth || self.fault.is_some() {
            return None;
        }
        let now = self.now.as_secs_f64();
        let mut queued = self.workers[workers].iter().flat_map(|worker| &worker.queued);
        let waits = queued.find(|request| {
            let promise = &self.plans[request.tenant].promise;
            let limited = promise.iops_max.is_some() || promise.bandwidth_max.is_some();
            !limited || self.strict[request.tenant] <= now
        });
        waits.map(|request| request.tenant)
    }

    /// Alone a worker leaves no place empty; of several one may have to be woken for it, or given up.
    fn check_not_idle(&mut self) {
        let Some(tenant) = self.who_waits(0..self.workers.len()) else {
            self.idle_since = None;
            return;
        };
        let since = *self.idle_since.get_or_insert(self.now);
        let allowed = if self.workers.len() == 1 { Nanos(0) } else { Nanos::from_micros(1100) };
        if self.workers.len() == 1 || self.now - since > allowed {
            self.wrong.push(format!("idle since {since:?} while tenant {tenant} waits"));
        }
    }

    fn issue(&mut self, worker: usize, request: Request, place: IoPlace) {
        let (now, cost) = (self.now, request.cost);
        let tenant = tenant_id(request.tenant);
        self.note(What::Issued, request);
        self.in_flight += 1;
        if self.in_flight > self.device.depth {
            self.wrong.push(format!("{} in flight at {now:?}", self.in_flight));
        }
        let promise = &self.plans[request.tenant].promise;
        let by_ios = promise.iops_max.map_or(0.0, |max| cost.ios() / max as f64);
        let by_bytes = promise.bandwidth_max.map_or(0.0, |max| cost.bytes().0 as f64 / max.0 as f64);
        // Nine decimals of seconds are what instants have.
        self.strict[request.tenant] =
            self.strict[request.tenant].max(now.as_secs_f64()) + by_ios + by_bytes + 2e-9;
        self.workers[worker].meter.issued(tenant, cost, now);
        self.workers[worker].meter.started(now);
        if self.fault == Some((request.tenant, Fault::ChargesTwice)) {
            self.workers[worker].queue.charge_done(tenant, cost, LimitDebt::OfOther, now);
        }
        let device = &self.device;
        let mut service = (device.service.0 as f64 * cost.ios()) as u64 * device.slower;
        if device.jitter_percent > 0 {
            let spread = service * device.jitter_percent / 100;
            service = service - spread + self.draws.between(0, spread);
        }
        let mut done = now + Nanos(service);
        if let Some((from, to)) = self.device.stall
            && done > from
            && now < to
        {
            done = done.max(to);
        }
        self.at(done, Event::Complete(worker, request, place));
    }
}

/// I/Os issued for a tenant between two instants.
pub(crate) fn issued(trace: &[Trace], tenant: usize, from: Nanos, to: Nanos) -> f64 {
    let of_it = |event: &&Trace| {
        event.what == What::Issued && event.tenant == tenant_id(tenant) && event.at >= from && event.at < to
    };
    trace.iter().filter(of_it).map(|event| event.cost.ios()).sum()
}
