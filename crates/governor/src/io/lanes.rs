//! A worker's tenants on one volume: what each has queued, and in what order they come.
//!
//! A lane that has something queued stands in the heaps: `held` by the instant its limit opens; else `spare` by virtual time,
//! and, if it has a reservation, for each order of due requests, `later` by its due time or, once that has come, `due` by its rank. The keys are copies of shared tags, which
//! other workers advance; a tag only grows while an epoch lasts, so a key is never too large, and what comes up first is
//! placed again before it is believed. Lanes without requests stand nowhere and cost nothing.

use std::sync::Arc;

use base::{IoClass, Nanos, TenantId};
use rustc_hash::FxHashMap;

use super::account::{Account, Issue, Order, Right, Terms};
use super::cost::IoCost;
use super::heap::LaneHeap;
use super::pool::{List, PlaceNo, Pool};
use super::tag::Stamp;
use super::volume::IoVolume;
use crate::policy::Policy;

/// While a tenant has short requests and others queued, one of so many is of the others: they go last, and go on.
const BULK_EVERY: u32 = 8;

/// A request that is queued.
pub(super) struct Waiting<T> {
    pub(super) payload: T,
    pub(super) cost: IoCost,
    pub(super) arrival: Stamp,
    /// From when on it claims its turn: earlier than its arrival by how late the volume is.
    pub(super) claims_from: Stamp,
}

/// A request in its queue, to be taken back by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IoToken {
    lane: u32,
    class: IoClass,
    place: PlaceNo,
}

pub(super) struct Lane {
    pub(super) account: Arc<Account>,
    pub(super) terms: Terms,
    short: List,
    bulk: List,
    upkeep: List,
    /// The end of the last time for which its limit held it.
    held_until: Stamp,
    /// Short requests that went before another one.
    passed: u32,
    epoch: u32,
    /// Place among the active lanes, while it is one.
    active_at: u32,
}

impl Lane {
    fn is_empty(&self) -> bool {
        self.short.is_empty() && self.bulk.is_empty() && self.upkeep.is_empty()
    }

    fn list(&mut self, class: IoClass) -> &mut List {
        match class {
            IoClass::Short => &mut self.short,
            IoClass::Bulk => &mut self.bulk,
            IoClass::Upkeep => &mut self.upkeep,
        }
    }

    /// Whether its next request is one that no limit of the tenant's holds.
    fn is_urgent(&self) -> bool {
        self.terms.is_awaited && !self.upkeep.is_empty()
    }
}

/// Whose turn it is, and by what right.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    pub(super) lane: u32,
    pub(super) right: Right,
    /// Rank among what is due, or virtual time.
    pub(super) key: Stamp,
}

pub(super) struct Lanes<T> {
    lanes: Vec<Lane>,
    free: Vec<u32>,
    by_tenant: FxHashMap<TenantId, u32>,
    pool: Pool<Waiting<T>>,
    held: LaneHeap,
    spare: LaneHeap,
    /// By order, as `due`.
    later: [LaneHeap; 2],
    due: [LaneHeap; 2],
    /// Lanes with something queued, in no order, and where each stands there.
    active: Vec<u32>,
    queued: usize,
}

impl<T> Lanes<T> {
    pub(super) fn new() -> Lanes<T> {
        Lanes {
            lanes: Vec::new(),
            free: Vec::new(),
            by_tenant: FxHashMap::default(),
            pool: Pool::new(),
            held: LaneHeap::default(),
            spare: LaneHeap::default(),
            later: Default::default(),
            due: Default::default(),
            active: Vec::new(),
            queued: 0,
        }
    }

    /// Requests queued.
    pub(super) fn queued(&self) -> usize {
        self.queued
    }

    /// The tenant's lane, with its terms as they are now. Made at the tenant's first request here; that allocates.
    pub(super) fn lane_of(&mut self, tenant: TenantId, volume: &IoVolume) -> u32 {
        let lane = match self.by_tenant.get(&tenant) {
            Some(lane) => *lane,
            None => self.make(tenant, volume),
        };
        let epoch = volume.epoch();
        if self.lanes[lane as usize].epoch != epoch {
            self.lanes[lane as usize].read_terms(volume.policy(), epoch);
        }
        lane
    }

    fn make(&mut self, tenant: TenantId, volume: &IoVolume) -> u32 {
        let account = volume.account(tenant);
        let fresh = Lane {
            terms: account.terms(volume.policy()),
            account,
            short: List::default(),
            bulk: List::default(),
            upkeep: List::default(),
            held_until: Stamp(0),
            passed: 0,
            epoch: volume.epoch(),
            active_at: 0,
        };
        let lane = match self.free.pop() {
            Some(lane) => {
                self.lanes[lane as usize] = fresh;
                lane
            }
            None => {
                self.lanes.push(fresh);
                let count = self.lanes.len();
                self.heaps().for_each(|heap| heap.know(count));
                self.active.reserve(count - self.active.len());
                u32::try_from(count - 1).expect("fewer than 2^32 tenants on a worker")
            }
        };
        self.by_tenant.insert(tenant, lane);
        lane
    }

    pub(super) fn lane(&self, lane: u32) -> &Lane {
        &self.lanes[lane as usize]
    }

    pub(super) fn push(
        &mut self,
        lane: u32,
        class: IoClass,
        request: Waiting<T>,
        volume: &IoVolume,
        now: Nanos,
    ) -> IoToken {
        let state = &mut self.lanes[lane as usize];
        let was_empty = state.is_empty();
        let place = self.pool.push(state.list(class), request);
        self.queued += 1;
        if was_empty {
            state.account.wake(volume.floor());
            state.active_at = self.active.len() as u32;
            self.active.push(lane);
        }
        if was_empty || state.is_urgent() {
            self.place(lane, now);
        }
        IoToken { lane, class, place }
    }

    /// Takes a request back; `None` if it is not queued any more.
    pub(super) fn remove(&mut self, token: IoToken, now: Nanos) -> Option<T> {
        let state = &mut self.lanes[token.lane as usize];
        self.pool.get(token.place)?;
        let request = self.pool.remove(state.list(token.class), token.place)?;
        self.queued -= 1;
        self.settle(token.lane, now);
        Some(request.payload)
    }

    /// Which of the lane's requests goes next.
    fn next_class(&self, lane: u32) -> IoClass {
        let state = &self.lanes[lane as usize];
        if state.is_urgent() {
            return IoClass::Upkeep;
        }
        let arrived = |list| self.pool.first(list).map_or(Stamp::NEVER, |request| request.arrival);
        let (bulk, upkeep) = (arrived(&state.bulk), arrived(&state.upkeep));
        let rest = if upkeep < bulk { IoClass::Upkeep } else { IoClass::Bulk };
        let rest_is_empty = state.bulk.is_empty() && state.upkeep.is_empty();
        let turn_of_rest = state.short.is_empty() || (state.passed + 1 >= BULK_EVERY && !rest_is_empty);
        if turn_of_rest { rest } else { IoClass::Short }
    }

    /// Takes the lane's next request out, to be issued, charges it, and places the lane anew.
    pub(super) fn take(&mut self, turn: Turn, volume: &IoVolume, now: Nanos) -> Waiting<T> {
        let at = Stamp::at(now);
        let (arrival, claims_from) = self.claim(turn.lane);
        let class = self.next_class(turn.lane);
        let state = &mut self.lanes[turn.lane as usize];
        let is_urgent = state.is_urgent();
        let passes = class == IoClass::Short && !(state.bulk.is_empty() && state.upkeep.is_empty());
        state.passed = if passes { state.passed + 1 } else { 0 };
        let request = self.pool.pop_first(state.list(class)).expect("a lane in a heap has a request");
        self.queued -= 1;
        match turn.right {
            Right::Reserved(order) => {
                let due = state.account.due(&state.terms, order, claims_from).min(at);
                volume.note_served(order, due, request.cost, now);
            }
            Right::Spare => volume.note_spare(turn.key, now),
        }
        volume.charge_limit(request.cost, arrival, at);
        let issue = Issue { cost: request.cost, right: turn.right, arrival, claims_from, is_urgent };
        state.account.charge(&state.terms, &issue, volume.floor(), now);
        self.settle(turn.lane, now);
        request
    }

    /// Whose turn it is: the due request of the smallest rank in this order, else in the other one, else the least served by weight;
    /// `None` if all are held by their limits.
    pub(super) fn turn(&mut self, order: Order, now: Nanos) -> Option<Turn> {
        let at = Stamp::at(now);
        while let Some((key, lane)) = self.held.first()
            && Stamp(key) <= at
        {
            self.place(lane, now);
        }
        for order in order.then_other() {
            while let Some((key, lane)) = self.later[order as usize].first()
                && Stamp(key) <= at
            {
                self.place(lane, now);
            }
        }
        loop {
            let (right, first) = self.first(order)?;
            self.place(first.1, now);
            if self.first(order) == Some((right, first)) {
                return Some(Turn { lane: first.1, right, key: Stamp(first.0) });
            }
        }
    }

    /// Whose turn it is by the keys, and its key.
    fn first(&self, order: Order) -> Option<(Right, (u64, u32))> {
        let due = |order: Order| Some((Right::Reserved(order), self.due[order as usize].first()?));
        let [first, second] = order.then_other();
        due(first).or_else(|| due(second)).or_else(|| Some((Right::Spare, self.spare.first()?)))
    }

    /// The rank of the most urgent request that is due in that order, or the one from which the first will be.
    pub(super) fn due_at(&self, order: Order) -> Stamp {
        let due = self.due[order as usize].first().map_or(Stamp::NEVER, |(key, _)| Stamp(key));
        let later = self.later[order as usize].first();
        due.min(later.map_or(Stamp::NEVER, |(key, _)| order.horizon(Stamp(key))))
    }

    /// The virtual time of whose turn it is by weight.
    pub(super) fn spare_at(&self) -> Stamp {
        self.spare.first().map_or(Stamp::NEVER, |(key, _)| Stamp(key))
    }

    /// When the first limit opens.
    pub(super) fn opens_at(&self) -> Option<Stamp> {
        self.held.first().map(|(key, _)| Stamp(key))
    }

    /// Reads all active tenants' terms again, after a change of promises, policy or what others wait for.
    pub(super) fn reread(&mut self, volume: &IoVolume, now: Nanos) {
        let (policy, epoch) = (volume.policy(), volume.epoch());
        for i in 0..self.active.len() {
            let lane = self.active[i];
            self.lanes[lane as usize].read_terms(policy, epoch);
            self.place(lane, now);
        }
    }

    /// Forgets a tenant; false if it still has something queued.
    pub(super) fn forget(&mut self, tenant: TenantId) -> bool {
        let Some(&lane) = self.by_tenant.get(&tenant) else { return true };
        if !self.lanes[lane as usize].is_empty() {
            return false;
        }
        self.by_tenant.remove(&tenant);
        self.free.push(lane);
        true
    }

    /// When the longest queued request arrived, and from when on it claims its turn: not before
    /// the tenant's own limit let it, for what that held was not late. Which of them goes first is the tenant's own affair.
    fn claim(&self, lane: u32) -> (Stamp, Stamp) {
        let state = &self.lanes[lane as usize];
        let firsts = [&state.short, &state.bulk, &state.upkeep].map(|list| self.pool.first(list));
        let oldest = firsts.into_iter().flatten().min_by_key(|request| request.arrival);
        oldest.map_or((Stamp::NEVER, Stamp::NEVER), |request| {
            (request.arrival, request.claims_from.max(state.held_until))
        })
    }

    /// After a request left: the lane stands where it belongs, or nowhere.
    fn settle(&mut self, lane: u32, now: Nanos) {
        if !self.lanes[lane as usize].is_empty() {
            return self.place(lane, now);
        }
        self.heaps().for_each(|heap| heap.remove(lane));
        let position = self.lanes[lane as usize].active_at;
        let left = self.active.swap_remove(position as usize);
        debug_assert_eq!(left, lane, "a lane that had a request is active");
        if let Some(moved) = self.active.get(position as usize) {
            self.lanes[*moved as usize].active_at = position;
        }
    }

    fn place(&mut self, lane: u32, now: Nanos) {
        let at = Stamp::at(now);
        let state = &mut self.lanes[lane as usize];
        let opens = state.account.open_from(&state.terms);
        if opens > at && !state.is_urgent() {
            state.held_until = opens;
            self.heaps().for_each(|heap| heap.remove(lane));
            self.held.set(lane, opens.0);
            return;
        }
        // Sooner than it seemed, where a limit was lifted.
        state.held_until = state.held_until.min(at);
        self.held.remove(lane);
        let state = &self.lanes[lane as usize];
        self.spare.set(lane, state.account.spare().0);
        let claims_from = self.claim(lane).1;
        for order in Order::Spread.then_other() {
            let due = state.account.due(&state.terms, order, claims_from);
            let (when_due, until_then) = (&mut self.due[order as usize], &mut self.later[order as usize]);
            if due <= at {
                until_then.remove(lane);
                when_due.set(lane, state.terms.rank(order, due).0);
            } else {
                when_due.remove(lane);
                match due {
                    Stamp::NEVER => until_then.remove(lane),
                    _ => until_then.set(lane, due.0),
                }
            }
        }
    }

    /// Entries of heaps that were looked at so far.
    #[cfg(test)]
    pub(super) fn looks(&mut self) -> u64 {
        self.heaps().map(|heap| heap.looks).sum()
    }

    fn heaps(&mut self) -> impl Iterator<Item = &mut LaneHeap> {
        [&mut self.held, &mut self.spare].into_iter().chain(&mut self.later).chain(&mut self.due)
    }
}

impl Lane {
    fn read_terms(&mut self, policy: Policy, epoch: u32) {
        self.terms = self.account.terms(policy);
        self.epoch = epoch;
    }
}
