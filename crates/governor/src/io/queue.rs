//! One worker's requests for one volume, and which of them is issued next.

use std::sync::Arc;

use base::{IoClass, Nanos, TenantId};

use super::account::{LimitDebt, Order, Right};
use super::cost::IoCost;
use super::group::{GROUP, Group};
use super::lanes::{IoToken, Lanes, Turn, Waiting};
use super::post::Urgency;
use super::tag::Stamp;
use super::volume::{IoPlace, IoVolume, Pass};

/// Used by its worker's thread alone. `T` is what the caller needs to start a request; it comes back when the request is to be
/// issued. See [`crate::io`] for the rules.
///
/// In each turn of the worker: [`IoQueue::completed`] for what the ring completed, then [`IoQueue::next`] until it says
/// [`Next::Idle`] or [`Next::WaitUntil`], and the ring waits no longer than that.
pub struct IoQueue<T> {
    volume: Arc<IoVolume>,
    worker: usize,
    lanes: Lanes<T>,
    group: Group<T>,
    epoch: u32,
    is_posted: bool,
}

/// What became of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Submitted<T> {
    /// Issue it now.
    Issue(T, IoPlace),
    /// It will come out of [`IoQueue::next`].
    Queued(IoToken),
}

/// What is to be done next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next<T> {
    /// Issue this request, and ask again.
    Issue(T, IoPlace),
    /// Wake the worker of this number, whose request goes first, and ask again.
    Wake(usize),
    /// Nothing before this instant, unless something is submitted or completed or the worker is woken.
    WaitUntil(Nanos),
    /// Nothing until something is submitted or completed or the worker is woken.
    Idle,
}

impl<T> IoQueue<T> {
    /// The queue of worker number `worker` of the volume's.
    ///
    /// # Panics
    /// If the volume was not made for so many workers.
    pub fn new(volume: &Arc<IoVolume>, worker: usize) -> IoQueue<T> {
        assert!(worker < volume.workers(), "the volume was made for fewer workers");
        IoQueue {
            volume: volume.clone(),
            worker,
            lanes: Lanes::new(),
            group: Group::new(),
            epoch: volume.epoch(),
            is_posted: false,
        }
    }

    /// Hands in a request of `tenant` that arrived now. Where nothing is promised or limited on the volume, nothing waits and a place is
    /// free, it goes at once, uncharged. Allocates for a tenant's first request here, and when more is queued than ever
    /// before; nothing else on the run path does.
    pub fn submit(
        &mut self,
        tenant: TenantId,
        class: IoClass,
        cost: IoCost,
        payload: T,
        now: Nanos,
    ) -> Submitted<T> {
        if self.is_empty()
            && let Some(place) = self.volume.pass_ungoverned()
        {
            return Submitted::Issue(payload, place);
        }
        let lane = self.lanes.lane_of(tenant, &self.volume);
        let arrival = Stamp::at(now);
        let claims_from = arrival.minus(self.volume.lateness(now));
        let request = Waiting { payload, cost, arrival, claims_from };
        Submitted::Queued(self.lanes.push(lane, class, request, &self.volume, now))
    }

    /// Hands in a log group that holds records of `members`, each with its [`IoCost::share`]. It goes with the earliest due time
    /// among them and no limit holds it. It comes out of [`IoQueue::next`] unless it is to be issued at once.
    ///
    /// # Panics
    /// If a group is queued already, or this one has no members.
    pub fn submit_group(
        &mut self,
        members: impl IntoIterator<Item = (TenantId, IoCost)>,
        payload: T,
        now: Nanos,
    ) -> Option<(T, IoPlace)> {
        if self.is_empty()
            && let Some(place) = self.volume.pass_ungoverned()
        {
            return Some((payload, place));
        }
        self.group.begin();
        let mut count = 0;
        for (tenant, share) in members {
            let lane = self.lanes.lane_of(tenant, &self.volume);
            self.group.add(lane, share);
            count += 1;
        }
        assert!(count > 0, "a group has a member");
        self.group.put(payload, &self.lanes, &self.volume, now);
        None
    }

    /// When `tenant` is below its limits again; `None` if it is. A commit of a tenant over its limit waits so long before its
    /// record goes to the log, so that the group it would have been in waits for nobody.
    pub fn opens_at(&mut self, tenant: TenantId, now: Nanos) -> Option<Nanos> {
        if !self.volume.is_governed() {
            return None;
        }
        let lane = self.lanes.lane_of(tenant, &self.volume);
        let lane = self.lanes.lane(lane);
        let opens = lane.account.open_from(&lane.terms);
        (opens > Stamp::at(now)).then(|| opens.nanos())
    }

    /// The request to be issued now. O(log active tenants); see [`Next`].
    pub fn next(&mut self, now: Nanos) -> Next<T> {
        if self.is_empty() {
            return self.rest(Next::Idle, now);
        }
        let epoch = self.volume.epoch();
        if self.epoch != epoch {
            self.epoch = epoch;
            self.lanes.reread(&self.volume, now);
            self.group.weigh(&self.lanes, &self.volume);
        }
        loop {
            let order = self.volume.order();
            let lanes_turn = self.lanes.turn(order, now);
            let Some(turn) = self.group.turn(lanes_turn, order, now) else {
                let opens = self.lanes.opens_at().expect("a lane that has no turn is held");
                return self.rest(Next::WaitUntil(opens.nanos()), now);
            };
            let urgency = self.urgency();
            match self.volume.pass(self.worker, urgency, now) {
                Pass::Go(place) => return Next::Issue(self.take(turn, now), place),
                Pass::Wake(worker) => return Next::Wake(worker),
                Pass::Until(at) => {
                    self.volume.put_post(self.worker, &mut self.is_posted, urgency);
                    return Next::WaitUntil(at);
                }
                Pass::Full => {
                    if !self.volume.put_post(self.worker, &mut self.is_posted, urgency) {
                        return Next::Idle;
                    }
                }
            }
        }
    }

    /// A request that had `place` is complete, on whatever worker it was issued. Call [`IoQueue::next`] after it: the place may be
    /// another worker's.
    pub fn completed(&self, place: IoPlace) {
        self.volume.give_back(place);
    }

    /// Takes back a request that nobody waits for any more; `None` if it was issued already.
    pub fn cancel(&mut self, token: IoToken, now: Nanos) -> Option<T> {
        self.lanes.remove(token, now)
    }

    /// Takes back the log group that is queued, if one is.
    pub fn cancel_group(&mut self) -> Option<T> {
        self.group.cancel()
    }

    /// Charges `tenant` for work that was done for it and could not be delayed: a flush that several share and that did not
    /// go through [`IoQueue::submit_group`], an eviction's write under pressure, recovery. It counts against its
    /// reservation, limit and weight: its next requests wait the longer, by the reservation a second at most and by the limit
    /// as long as `debt` says; all of the volume wait by the volume's limit, a second at most. Returns what of the cost exceeds the tenant's limit
    /// and is forgiven, for the ledger.
    pub fn charge_done(&mut self, tenant: TenantId, cost: IoCost, debt: LimitDebt, now: Nanos) -> IoCost {
        let lane = self.lanes.lane_of(tenant, &self.volume);
        let lane = self.lanes.lane(lane);
        self.volume.charge_limit_done(cost, now);
        lane.account.charge_done(&lane.terms, cost, debt, self.volume.floor(), now)
    }

    /// Forgets a tenant, before [`IoVolume::remove`]; false, and nothing happens, if it has requests queued.
    pub fn forget(&mut self, tenant: TenantId) -> bool {
        !self.group.is_queued() && self.lanes.forget(tenant)
    }

    /// Requests queued, a group counted as one.
    pub fn len(&self) -> usize {
        self.lanes.queued() + usize::from(self.group.is_queued())
    }

    /// Whether nothing is queued.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What its decisions have cost: entries that were looked at.
    #[cfg(test)]
    pub(super) fn looks(&mut self) -> u64 {
        self.lanes.looks()
    }

    fn take(&mut self, turn: Turn, now: Nanos) -> T {
        if turn.lane == GROUP {
            return self.group.take(turn, &self.lanes, &self.volume, now);
        }
        let is_due = |order: &Order| self.lanes.due_at(*order) <= order.horizon(Stamp::at(now));
        debug_assert!(turn.right != Right::Spare || !Order::Spread.then_other().iter().any(is_due));
        self.lanes.take(turn, &self.volume, now).payload
    }

    fn urgency(&self) -> Urgency {
        let due = |order| self.lanes.due_at(order).min(self.group.due_at(order));
        Urgency {
            due: [due(Order::Spread), due(Order::Price)],
            spare: self.lanes.spare_at().min(self.group.spare_at()),
        }
    }

    /// Nothing to issue here: a place that is free may be for somebody else.
    fn rest(&mut self, otherwise: Next<T>, now: Nanos) -> Next<T> {
        self.volume.clear_post(self.worker, &mut self.is_posted);
        self.volume.who_to_wake(self.worker, now).map_or(otherwise, Next::Wake)
    }
}

impl<T> Drop for IoQueue<T> {
    fn drop(&mut self) {
        self.volume.clear_post(self.worker, &mut self.is_posted);
    }
}
