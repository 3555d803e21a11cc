//! One worker's gate to the volumes: the governor says which request is issued next, and the meter is told what happened.

use std::cell::RefCell;
use std::rc::Rc;

use base::{ByteCount, IoClass, Nanos, TenantId, VolumeNo};
use env::{GateStep, HeldIo, IoAccount, IoArrival, IoGate, IoTicket};
use governor::{IoCost, IoInterval, IoMeter, IoPlace, IoPromise, IoQueue, LimitDebt, Next, Submitted};

use super::io_governing::IoGoverning;
use super::io_intervals::IoIntervals;
use super::io_permits::{HeldBack, IoAsked};

/// A request on its way to its turn.
struct Waiting {
    what: What,
    payer: Payer,
    cost: IoCost,
    is_upkeep: bool,
}

enum What {
    /// Of this worker.
    Operation(HeldIo),
    /// Of an analytical thread.
    Elsewhere(IoAsked),
}

enum Payer {
    Tenant(TenantId),
    /// Each with its share.
    Group(Box<[(TenantId, IoCost)]>),
}

struct InFlight {
    volume: usize,
    place: IoPlace,
    cost: IoCost,
}

/// The worker's part of each volume, by number.
struct VolumeSeat {
    queue: IoQueue<Waiting>,
    meter: IoMeter,
}

/// Used by its worker's thread alone.
pub(super) struct WorkerIo {
    governing: IoGoverning,
    worker: usize,
    volumes: Vec<VolumeSeat>,
    in_flight: Vec<Option<InFlight>>,
    free: Vec<u32>,
    /// When metering intervals end, as of this change of them, and the present one.
    intervals: IoIntervals,
    intervals_version: u64,
    interval_began: Nanos,
    interval_end: Nanos,
    /// Whether the meters have anything to tell.
    is_open: bool,
    /// I/Os done by blocking the worker.
    blocking: u64,
    /// Dropped tenants of which something is to be told yet.
    to_forget: Vec<TenantId>,
}

impl WorkerIo {
    pub(super) fn new(governing: &IoGoverning, worker: usize, now: Nanos) -> WorkerIo {
        let seat = |volume: &super::io_governing::GovernedVolume| VolumeSeat {
            queue: IoQueue::new(&volume.schedule, worker),
            meter: IoMeter::new(&volume.meter),
        };
        // The number first: what came after it is looked at again.
        let (intervals_version, intervals) = (governing.intervals_version(), governing.intervals());
        WorkerIo {
            volumes: governing.volumes().iter().map(seat).collect(),
            governing: governing.clone(),
            worker,
            in_flight: Vec::new(),
            free: Vec::new(),
            intervals,
            intervals_version,
            interval_began: intervals.begin_of(now),
            interval_end: intervals.end_after(now),
            is_open: false,
            blocking: 0,
            to_forget: Vec::new(),
        }
    }

    /// Forgets a dropped tenant; while something of it is under way or in no row of the ledger yet, its promise alone, which would go on governing the
    /// volumes for all.
    pub(super) fn forget(&mut self, tenant: TenantId, now: Nanos) {
        if !self.try_forget(tenant) {
            self.governing.set_promise(tenant, &IoPromise::default(), 0, now);
            self.to_forget.push(tenant);
        }
    }

    fn try_forget(&mut self, tenant: TenantId) -> bool {
        let forgotten =
            self.volumes.iter_mut().all(|seat| seat.queue.forget(tenant) && seat.meter.forget(tenant));
        if forgotten {
            self.governing.remove(tenant);
        }
        forgotten
    }

    /// Hands over what the meters saw in intervals that have ended. Before anything later is told.
    pub(super) fn keep_time(&mut self, now: Nanos) {
        let version = self.governing.intervals_version();
        if version != self.intervals_version {
            self.intervals_version = version;
            self.intervals = self.governing.intervals();
            // What goes on began before the change did, and ends with it.
            self.interval_end = self.intervals.end_after(self.interval_began);
        }
        if now < self.interval_end {
            return;
        }
        while self.is_open && self.interval_end <= now {
            self.is_open = false;
            for (number, seat) in self.volumes.iter_mut().enumerate() {
                let mut seen = IoInterval::default();
                seat.meter.close(self.interval_end, &mut seen);
                self.is_open |= !seat.meter.is_idle();
                let volume = VolumeNo(number as u32);
                self.governing.hand_over(self.worker, volume, self.interval_end, seen);
            }
            self.governing.note_closed(self.worker, self.interval_end, self.is_open);
            self.interval_end = self.intervals.end_after(self.interval_end);
        }
        self.interval_began = self.intervals.begin_of(now);
        self.interval_end = self.intervals.end_after(now);
        let mut to_forget = std::mem::take(&mut self.to_forget);
        to_forget.retain(|tenant| !self.try_forget(*tenant));
        self.to_forget = to_forget;
    }

    fn note_open(&mut self) {
        if !self.is_open {
            self.is_open = true;
            self.governing.note_open(self.worker, self.interval_began);
        }
    }

    fn arrive(&mut self, arrival: IoArrival<'_>, op: HeldIo, now: Nanos) -> Option<IoTicket> {
        self.keep_time(now);
        self.note_open();
        let cost = IoCost::of(arrival.len);
        let volume = arrival.account.volume().0 as usize;
        let tenant = arrival.account.tenant();
        let seat = &mut self.volumes[volume];
        let shares = arrival.members.and_then(|members| shares_of(cost, members));
        let Some(shares) = shares else {
            seat.meter.arrived(tenant, cost, now);
            let (what, payer) = (What::Operation(op), Payer::Tenant(tenant));
            let waiting = Waiting { what, payer, cost, is_upkeep: arrival.class == IoClass::Upkeep };
            return match seat.queue.submit(tenant, arrival.class, cost, waiting, now) {
                Submitted::Issue(waiting, place) => Some(self.issue(volume, &waiting, place, now)),
                Submitted::Queued(_) => None,
            };
        };
        for (tenant, share) in &shares {
            seat.meter.arrived(*tenant, *share, now);
        }
        let members = shares.clone();
        let (what, payer) = (What::Operation(op), Payer::Group(shares));
        let waiting = Waiting { what, payer, cost, is_upkeep: false };
        let (waiting, place) = seat.queue.submit_group(members, waiting, now)?;
        Some(self.issue(volume, &waiting, place, now))
    }

    /// An analytical thread asks for leave, which it is given at once or in its turn.
    pub(super) fn ask(&mut self, asked: IoAsked, now: Nanos) {
        self.keep_time(now);
        self.note_open();
        let (cost, tenant, volume) = (IoCost::of(asked.len), asked.tenant, asked.volume.0 as usize);
        let seat = &mut self.volumes[volume];
        seat.meter.arrived(tenant, cost, now);
        let held_back = seat.queue.opens_at(tenant, now).map(|_| asked.held_back());
        let (what, payer) = (What::Elsewhere(asked), Payer::Tenant(tenant));
        let waiting = Waiting { what, payer, cost, is_upkeep: false };
        match seat.queue.submit(tenant, IoClass::Bulk, cost, waiting, now) {
            Submitted::Issue(waiting, place) => {
                let ticket = self.issue(volume, &waiting, place, now);
                if let What::Elsewhere(asked) = waiting.what {
                    asked.grant(ticket);
                }
            }
            Submitted::Queued(_) => held_back.iter().for_each(HeldBack::tell),
        }
    }

    /// When a tenant is below its limits of a volume again; `None` if it is.
    pub(super) fn opens_at(&mut self, tenant: TenantId, volume: VolumeNo, now: Nanos) -> Option<Nanos> {
        self.volumes[volume.0 as usize].queue.opens_at(tenant, now)
    }

    /// Tells the meter that a request is issued.
    fn issue(&mut self, volume: usize, waiting: &Waiting, place: IoPlace, now: Nanos) -> IoTicket {
        let meter = &mut self.volumes[volume].meter;
        match &waiting.payer {
            Payer::Tenant(tenant) => {
                meter.issued(*tenant, waiting.cost, now);
                if waiting.is_upkeep {
                    meter.was_upkeep(*tenant, waiting.cost);
                }
            }
            Payer::Group(shares) => {
                shares.iter().for_each(|(tenant, share)| meter.issued(*tenant, *share, now))
            }
        }
        meter.started(now);
        let in_flight = Some(InFlight { volume, place, cost: waiting.cost });
        match self.free.pop() {
            Some(number) => {
                self.in_flight[number as usize] = in_flight;
                IoTicket(number)
            }
            None => {
                self.in_flight.push(in_flight);
                IoTicket(u32::try_from(self.in_flight.len() - 1).expect("fewer than 2^32 in flight"))
            }
        }
    }

    pub(super) fn completed(&mut self, ticket: IoTicket, now: Nanos) {
        self.keep_time(now);
        let ended = self.in_flight[ticket.0 as usize].take().expect("an operation in flight ends once");
        self.free.push(ticket.0);
        let seat = &mut self.volumes[ended.volume];
        seat.queue.completed(ended.place);
        seat.meter.completed(ended.cost, now);
    }

    fn done(&mut self, account: &IoAccount, len: ByteCount, now: Nanos) {
        self.keep_time(now);
        self.note_open();
        let cost = IoCost::of(len);
        self.blocking += IoAccount::ios_of(len);
        let seat = &mut self.volumes[account.volume().0 as usize];
        // Above all pages that a turn missed.
        let debt = LimitDebt::OfTurn;
        let forgiven = seat.queue.charge_done(account.tenant(), cost, debt, now);
        seat.meter.done(account.tenant(), cost, debt, forgiven, now);
    }

    /// A task of the tenant's own kept the worker from its volumes meanwhile.
    pub(super) fn held_by_itself(&mut self, tenant: TenantId, from: Nanos, to: Nanos) {
        self.volumes.iter_mut().for_each(|seat| seat.meter.held_by_itself(tenant, from, to));
    }

    /// I/Os that blocked the worker so far.
    pub(super) fn blocking(&self) -> u64 {
        self.blocking
    }

    fn step(&mut self, now: Nanos) -> GateStep {
        self.keep_time(now);
        let mut wait: Option<Nanos> = None;
        for volume in 0..self.volumes.len() {
            loop {
                match self.volumes[volume].queue.next(now) {
                    Next::Issue(waiting, place) => {
                        let ticket = self.issue(volume, &waiting, place, now);
                        match waiting.what {
                            What::Operation(op) => return GateStep::Start(op, ticket),
                            What::Elsewhere(asked) => asked.grant(ticket),
                        }
                    }
                    Next::Wake(worker) => self.governing.wake(worker),
                    Next::WaitUntil(until) => {
                        wait = Some(wait.map_or(until, |wait| wait.min(until)));
                        break;
                    }
                    Next::Idle => break,
                }
            }
        }
        GateStep::Wait(wait)
    }
}

/// What each member of a group pays; `None` if none has a byte in it.
fn shares_of(cost: IoCost, members: &[(TenantId, ByteCount)]) -> Option<Box<[(TenantId, IoCost)]>> {
    let total = ByteCount(members.iter().map(|(_, len)| len.0).sum());
    if total.0 == 0 {
        return None;
    }
    let mut from = ByteCount(0);
    let share = |(tenant, len): &(TenantId, ByteCount)| {
        let to = ByteCount(from.0 + len.0);
        let share = cost.share(from, to, total);
        from = to;
        (*tenant, share)
    };
    Some(members.iter().map(share).collect())
}

/// The reactor's handle on its worker's [`WorkerIo`].
pub(super) struct Gate(pub(super) Rc<RefCell<WorkerIo>>);

impl IoGate for Gate {
    fn arrive(&mut self, arrival: IoArrival<'_>, op: HeldIo, now: Nanos) -> Option<IoTicket> {
        self.0.borrow_mut().arrive(arrival, op, now)
    }
    fn completed(&mut self, ticket: IoTicket, now: Nanos) {
        self.0.borrow_mut().completed(ticket, now);
    }
    fn done(&mut self, account: &IoAccount, len: ByteCount, now: Nanos) {
        self.0.borrow_mut().done(account, len, now);
    }
    fn step(&mut self, now: Nanos) -> GateStep {
        self.0.borrow_mut().step(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_tenants_promise_ends_at_once_and_the_rest_when_it_is_told() {
        let (ms, tenant) = (Nanos::from_millis, TenantId(16));
        let governing = IoGoverning::new(2, 1);
        let is_open = || governing.volumes().iter().all(|volume| volume.schedule.is_open());
        let mut io = WorkerIo::new(&governing, 0, ms(0));
        let promise = IoPromise { iops: 100, ..IoPromise::default() };
        governing.set_promise(tenant, &promise, 0, ms(0));
        io.done(&IoAccount::new(tenant, VolumeNo(0)), ByteCount(8192), ms(10));
        assert!(!is_open());
        io.forget(tenant, ms(20));
        assert!(is_open(), "what it did in this interval is not told yet");
        io.keep_time(ms(999));
        assert_eq!(io.to_forget, [tenant]);
        io.keep_time(ms(1001));
        assert!(io.to_forget.is_empty() && is_open());
        let told = governing.take_through(ms(1000)).expect("it is handed over");
        let rows = told.into_iter().zip(governing.volumes());
        let count = rows.map(|(seen, volume)| seen.judge(&volume.meter, ms(0), ms(1000)).len());
        assert_eq!(count.sum::<usize>(), 1);
    }
}
