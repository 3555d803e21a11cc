//! Whether each tenant got the I/O it was promised, found out without asking the scheduler.
//!
//! The executor tells what happened: a request arrived, it was issued, it is complete. The meter has deadlines of its own,
//! from arrivals and the promise in force, `D = max(D' + 1/r, arrival)`, and compares. It never reads a tag of the scheduler's, so a
//! scheduler that forgets a tenant, delays it or charges it twice is found out here.
//!
//! *Strong*: the delay of each request, `issue - D`, is zero within a tick. *Weak*: no request's D falls into an interval, a
//! tick before its end at the latest, without its being issued in it. Each interval is judged for itself: what was missed
//! in it is on its row, and the deadlines of what still waits begin anew at its end. So a tenant promised 80 and given 40 misses 40 in every
//! interval, and after a stall of the device its promise is kept again as soon as the rate is. The other way round, what was issued before it
//! was due moves later deadlines within its interval only: a tenant given 300 of 80 for a minute and 40 from then on misses 40 in every interval.
//!
//! Deadlines belong to the tenant, not to a request: which of its requests goes first is its own affair, so the k-th I/O that a
//! worker issues meets the k-th deadline given out there, whatever the sizes of the requests they are parts of.
//!
//! A tenant's own limit is no fault of the server's: no deadline is earlier than the limit, by what was issued, lets the request
//! through.
//!
//! Nor is a poll of the tenant's own: while it lasts its worker looks at no volume, and what of a delay it took is none. A neighbour's poll is one.
//!
//! *Several workers.* What a deadline needs of a tenant, and whether it has anything pending, are single words shared by all
//! ([`IoMeterVolume`]), advanced by compare-and-swap; so is the count in flight. All else, histograms above all, each worker has for itself
//! ([`IoMeter`]) and hands over at the interval's end ([`IoInterval::merge`]): shared histograms would cost contended cache lines for
//! each request, and counters read while they move do not agree with each other. A worker that closes late delays the row, not its
//! numbers.

mod deadline;
mod delays;
mod interval;
mod occupancy;
mod volume;

use std::sync::Arc;

use base::{Nanos, TenantId};
use rustc_hash::FxHashMap;

use crate::io::pool::{List, Pool};
use crate::io::{IoCost, LimitDebt};
use deadline::{NO_DEADLINE, Standing, Ticks, nanos, ticks};
pub use delays::DelayHistogram;
pub use interval::{IoInterval, IoRow, IoUsage};
pub use volume::{IoCapacity, IoMeterVolume};

/// What is pending of a request, as they arrived.
struct Pending {
    deadline: Ticks,
    arrival: Ticks,
    cost: IoCost,
}

struct Lane {
    standing: Arc<Standing>,
    pending: List,
    /// Requests that are pending.
    requests: u32,
    /// How much later than given out the pending deadlines are (what earlier intervals missed began anew), or earlier (what was issued
    /// before it was due).
    shift: i64,
    /// The promise's changes that the pending deadlines have followed.
    changes: u32,
    /// Place of the lane's usage among the open ones.
    usage: Option<u32>,
    /// From when to when the tenant's own task last kept the worker from its volumes.
    own_poll: (Ticks, Ticks),
}

impl Lane {
    /// An instant from which something of the tenant's was late, without what of the time since then its own poll took.
    fn without_own_poll(&self, late_from: Ticks) -> Ticks {
        let (from, to) = self.own_poll;
        if late_from < to { late_from.saturating_add(to - late_from.max(from)) } else { late_from }
    }
}

/// One worker's meter of one volume. Used by its worker's thread alone.
///
/// Instants told must not fall. Allocates for a tenant's first request, and when more is pending, or more tenants are active
/// in an interval, than ever before.
pub struct IoMeter {
    volume: Arc<IoMeterVolume>,
    lanes: Vec<Lane>,
    free: Vec<u32>,
    by_tenant: FxHashMap<TenantId, u32>,
    pending: Pool<Pending>,
    /// Usages of this interval by the lanes that have one; the rest of `usages` is spare.
    open: Vec<(u32, TenantId)>,
    usages: Vec<IoUsage>,
    completed_at_depth: u64,
}

impl IoMeter {
    /// A meter for one worker.
    pub fn new(volume: &Arc<IoMeterVolume>) -> IoMeter {
        IoMeter {
            volume: volume.clone(),
            lanes: Vec::new(),
            free: Vec::new(),
            by_tenant: FxHashMap::default(),
            pending: Pool::new(),
            open: Vec::new(),
            usages: Vec::new(),
            completed_at_depth: 0,
        }
    }

    /// A request of `tenant` arrived, or its share of a log group.
    pub fn arrived(&mut self, tenant: TenantId, cost: IoCost, now: Nanos) {
        let index = self.lane(tenant);
        self.follow_promise(index);
        self.open_usage(index, tenant, now);
        let lane = &mut self.lanes[index];
        if lane.pending.is_empty() {
            lane.shift = 0;
        }
        let deadline = lane.standing.next_deadline(cost, ticks(now));
        // The shared deadlines are shifted too.
        let deadline = unshifted(deadline, lane.shift);
        self.pending.push(&mut lane.pending, Pending { deadline, arrival: ticks(now), cost });
        lane.requests += 1;
        lane.standing.pending.enter(1, now);
    }

    /// A request of `tenant` was issued, on this worker, where it arrived.
    ///
    /// # Panics
    /// If none of its requests is pending here.
    pub fn issued(&mut self, tenant: TenantId, cost: IoCost, now: Nanos) {
        let index = self.lane(tenant);
        self.follow_promise(index);
        let usage = self.open_usage(index, tenant, now);
        let met = self.meet_deadlines(index, cost);
        let lane = &mut self.lanes[index];
        assert!(lane.requests > 0, "what is issued has arrived");
        lane.requests -= 1;
        lane.standing.pending.leave(1, now);
        let usage = &mut self.usages[usage];
        usage.given += cost;
        usage.requests += 1;
        if let Some((deadline, _)) = met.filter(|(deadline, _)| *deadline != NO_DEADLINE) {
            let deadline =
                deadline.saturating_add_signed(lane.shift).max(self.volume.opening_of(&lane.standing).at());
            let late_from = lane.without_own_poll(deadline);
            usage.delays.record(nanos(ticks(now).saturating_sub(late_from)));
        }
        let arrival = met.map_or(ticks(now), |(_, arrival)| arrival);
        lane.standing.count_issued(cost, arrival, now);
    }

    /// What was just issued for `tenant` was a request of its upkeep: if others wait for that, no limit of the tenant's held it.
    pub fn was_upkeep(&mut self, tenant: TenantId, cost: IoCost) {
        let lane = self.by_tenant.get(&tenant).map(|index| &self.lanes[*index as usize]);
        let lane = lane.filter(|lane| lane.standing.is_awaited());
        if let Some(usage) = lane.and_then(|lane| lane.usage) {
            self.usages[usage as usize].awaited += cost;
        }
    }

    /// Takes so many I/Os off the front of what is pending and returns the deadline of the first of them and when it arrived.
    fn meet_deadlines(&mut self, index: usize, cost: IoCost) -> Option<(Ticks, Ticks)> {
        let lane = &mut self.lanes[index];
        let mut left = cost;
        let mut first = None;
        while let Some(front) = self.pending.first(&lane.pending) {
            first.get_or_insert((front.deadline, front.arrival));
            if front.cost.parts > left.parts {
                break;
            }
            left = left.less(front.cost);
            self.pending.pop_first(&mut lane.pending);
        }
        if left.parts > 0 {
            let standing = &lane.standing;
            self.pending.iter_mut(&lane.pending, |front| {
                front.cost = front.cost.less(left);
                front.deadline = front.deadline.saturating_add(standing.time_of(left));
                false
            });
        }
        first
    }

    /// A request that had arrived will not be issued: nobody waits for it any more.
    pub fn withdrawn(&mut self, tenant: TenantId, cost: IoCost, now: Nanos) {
        let index = self.lane(tenant);
        let lane = &mut self.lanes[index];
        assert!(lane.requests > 0, "what is withdrawn has arrived");
        lane.requests -= 1;
        lane.standing.pending.leave(1, now);
        let mut left = cost;
        while let Some(last) = self.pending.pop_last(&mut lane.pending) {
            if last.cost.parts > left.parts {
                let cost = last.cost.less(left);
                self.pending.push(&mut lane.pending, Pending { cost, ..last });
                break;
            }
            left = left.less(last.cost);
            if left.parts == 0 {
                break;
            }
        }
    }

    /// The device was given a request (once for a group).
    pub fn started(&mut self, now: Nanos) {
        self.volume.in_flight.enter(self.volume.depth(), now);
    }

    /// The device completed a request that was [`IoMeter::started`], on this worker or another.
    pub fn completed(&mut self, cost: IoCost, now: Nanos) {
        let depth = self.volume.depth();
        if self.volume.in_flight.leave(depth, now) >= depth {
            self.completed_at_depth += cost.parts;
        }
    }

    /// Work that was done for `tenant` and could not be delayed: given at once, and its next deadlines are the later.
    /// `forgiven` is what the scheduler did not charge, `debt` how long it has limits remember it.
    pub fn done(&mut self, tenant: TenantId, cost: IoCost, debt: LimitDebt, forgiven: IoCost, now: Nanos) {
        let index = self.lane(tenant);
        let usage = self.open_usage(index, tenant, now);
        self.lanes[index].standing.charge_done(cost, debt, now);
        let usage = &mut self.usages[usage];
        usage.given += cost;
        usage.requests += 1;
        usage.forgiven += forgiven;
    }

    /// A task of the tenant's own kept the worker from its volumes from `from` to `to`: what was due by then was held up by nobody else.
    pub fn held_by_itself(&mut self, tenant: TenantId, from: Nanos, to: Nanos) {
        if let Some(&index) = self.by_tenant.get(&tenant) {
            self.lanes[index as usize].own_poll = (ticks(from), ticks(to));
        }
    }

    /// Ends the interval at `end`, before anything later is told, and adds what this worker saw in it to `interval`. Costs as much as there
    /// are tenants active in it and requests missed.
    pub fn close(&mut self, end: Nanos, interval: &mut IoInterval) {
        for at in 0..self.open.len() {
            self.follow_promise(self.open[at].0 as usize);
        }
        let tick = ticks(self.volume.tick());
        let mut kept = 0;
        for at in 0..self.open.len() {
            let (index, tenant) = self.open[at];
            let lane = &mut self.lanes[index as usize];
            let usage = &mut self.usages[at];
            let mut opening = self.volume.opening_of(&lane.standing);
            let (mut first_due, mut first_missed, mut first_later) = (None, None, None);
            self.pending.iter_mut(&lane.pending, |pending| {
                let due = pending.deadline.saturating_add_signed(lane.shift);
                if due.saturating_add(tick) >= ticks(end) {
                    first_later = Some(due).filter(|_| pending.deadline != NO_DEADLINE);
                    return false;
                }
                first_due.get_or_insert(due);
                let deadline = lane.without_own_poll(due.max(opening.at()));
                if deadline.saturating_add(tick) >= ticks(end) {
                    return false;
                }
                opening.pass(pending.cost, deadline);
                first_missed.get_or_insert(deadline);
                usage.missed += pending.cost;
                true
            });
            if let Some(missed) = first_missed {
                usage.delays.note_lasting(nanos(ticks(end) - missed));
            }
            // What waits on other workers has its place among these deadlines.
            let is_alone = lane.standing.pending.count() == u64::from(lane.requests);
            let by = match (first_due, first_later.filter(|_| is_alone)) {
                (Some(due), _) => (ticks(end) - due).cast_signed(),
                (None, Some(due)) => -lane.standing.lead(due, ticks(end)).cast_signed(),
                (None, None) => 0,
            };
            if by != 0 {
                lane.shift += by;
                lane.standing.shift(by, end);
            }
            lane.standing.note_end(end);
            interval.add(tenant, usage);
            *usage = IoUsage::default();
            lane.usage = None;
            if lane.requests > 0 {
                lane.usage = Some(kept);
                self.open[kept as usize] = (index, tenant);
                kept += 1;
            } else {
                lane.standing.end_interval();
            }
        }
        self.open.truncate(kept as usize);
        interval.add_completed_at_depth(std::mem::take(&mut self.completed_at_depth));
    }

    /// Whether the next [`IoMeter::close`] would have nothing to tell.
    pub fn is_idle(&self) -> bool {
        self.open.is_empty()
    }

    /// Forgets a tenant; false, and nothing happens, if it has something pending or to tell.
    pub fn forget(&mut self, tenant: TenantId) -> bool {
        let Some(&index) = self.by_tenant.get(&tenant) else { return true };
        if self.lanes[index as usize].usage.is_some() {
            return false;
        }
        self.by_tenant.remove(&tenant);
        self.free.push(index);
        true
    }

    /// Forgets the tenants that do not stay, but for those that have something pending or to tell. Looks at all it knows.
    pub fn retain(&mut self, mut stays: impl FnMut(TenantId) -> bool) {
        let gone: Vec<TenantId> = self.by_tenant.keys().copied().filter(|tenant| !stays(*tenant)).collect();
        for tenant in gone {
            self.forget(tenant);
        }
    }

    /// Tenants it knows.
    pub fn known(&self) -> usize {
        self.by_tenant.len()
    }

    fn lane(&mut self, tenant: TenantId) -> usize {
        if let Some(&index) = self.by_tenant.get(&tenant) {
            return index as usize;
        }
        let standing = self.volume.standing(tenant);
        let changes = standing.changes();
        let fresh = Lane {
            standing,
            pending: List::default(),
            requests: 0,
            shift: 0,
            changes,
            usage: None,
            own_poll: (0, 0),
        };
        let index = match self.free.pop() {
            Some(index) => {
                self.lanes[index as usize] = fresh;
                index
            }
            None => {
                self.lanes.push(fresh);
                u32::try_from(self.lanes.len() - 1).expect("fewer than 2^32 tenants on a worker")
            }
        };
        self.by_tenant.insert(tenant, index);
        index as usize
    }

    fn open_usage(&mut self, index: usize, tenant: TenantId, now: Nanos) -> usize {
        let lane = &self.lanes[index];
        if let Some(usage) = lane.usage {
            return usage as usize;
        }
        lane.standing.begin_interval(ticks(now));
        let usage = self.open.len();
        self.open.push((index as u32, tenant));
        if usage == self.usages.len() {
            self.usages.push(IoUsage::default());
        }
        self.lanes[index].usage = Some(usage as u32);
        usage
    }

    /// Where the promise has changed, what waits and was not due by then is due anew by the new one.
    fn follow_promise(&mut self, index: usize) {
        let lane = &mut self.lanes[index];
        let changes = lane.standing.changes();
        if lane.changes == changes {
            return;
        }
        lane.changes = changes;
        let changed_at = lane.standing.changed_at();
        let shift = lane.shift;
        self.pending.iter_mut(&lane.pending, |pending| {
            if pending.deadline == NO_DEADLINE || pending.deadline.saturating_add_signed(shift) > changed_at {
                let deadline = lane.standing.next_deadline(pending.cost, changed_at);
                pending.deadline = unshifted(deadline, shift);
            }
            true
        });
    }
}

/// A deadline as it would have been given out without the shift.
fn unshifted(deadline: Ticks, shift: i64) -> Ticks {
    if deadline == NO_DEADLINE { deadline } else { deadline.saturating_add_signed(-shift) }
}

#[cfg(test)]
mod tests;
