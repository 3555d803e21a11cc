//! A log group on its way to a place: one request that many tenants share.
//!
//! It stands beside the lanes with the earliest due time and the least virtual time of its members. No limit holds it: a
//! member over its own was not let into it ([`super::IoQueue::opens_at`]), so it holds nobody up.

use base::Nanos;

use super::account::{Issue, Order, Right};
use super::cost::IoCost;
use super::lanes::{Lanes, Turn};
use super::tag::Stamp;
use super::volume::IoVolume;

/// Stands for the group where lanes are named.
pub(super) const GROUP: u32 = u32::MAX;

pub(super) struct Group<T> {
    payload: Option<T>,
    /// Kept from group to group for its room.
    members: Vec<(u32, IoCost)>,
    arrival: Stamp,
    claims_from: Stamp,
    /// By order, as `rank`.
    due: [Stamp; 2],
    rank: [Stamp; 2],
    spare: Stamp,
}

impl<T> Group<T> {
    pub(super) fn new() -> Group<T> {
        Group {
            payload: None,
            members: Vec::new(),
            arrival: Stamp::NEVER,
            claims_from: Stamp::NEVER,
            due: [Stamp::NEVER; 2],
            rank: [Stamp::NEVER; 2],
            spare: Stamp::NEVER,
        }
    }

    pub(super) fn is_queued(&self) -> bool {
        self.payload.is_some()
    }

    /// Queues the group of the members collected by [`Group::add`].
    ///
    /// # Panics
    /// If one is queued: a log flushes one group after the other.
    pub(super) fn put(&mut self, payload: T, lanes: &Lanes<T>, volume: &IoVolume, now: Nanos) {
        assert!(!self.is_queued(), "a log has one group on its way at a time");
        self.payload = Some(payload);
        self.arrival = Stamp::at(now);
        self.claims_from = self.arrival.minus(volume.lateness(now));
        self.weigh(lanes, volume);
    }

    pub(super) fn begin(&mut self) {
        assert!(!self.is_queued(), "a log has one group on its way at a time");
        self.members.clear();
    }

    pub(super) fn add(&mut self, lane: u32, share: IoCost) {
        self.members.push((lane, share));
    }

    /// Reads the members' tags: when the group comes, and when promises have changed.
    pub(super) fn weigh(&mut self, lanes: &Lanes<T>, volume: &IoVolume) {
        (self.due, self.rank, self.spare) = ([Stamp::NEVER; 2], [Stamp::NEVER; 2], Stamp::NEVER);
        for (lane, _) in &self.members {
            let lane = lanes.lane(*lane);
            for order in Order::Spread.then_other() {
                let (due, rank) = (&mut self.due[order as usize], &mut self.rank[order as usize]);
                let of_member = lane.account.due(&lane.terms, order, self.claims_from);
                *due = of_member.min(*due);
                *rank = lane.terms.rank(order, of_member).min(*rank);
            }
            self.spare = self.spare.min(lane.account.spare().max(volume.floor()));
        }
    }

    /// The group's turn, if it goes before `lanes_turn` where due requests go in this order.
    pub(super) fn turn(&self, lanes_turn: Option<Turn>, order: Order, now: Nanos) -> Option<Turn> {
        if !self.is_queued() {
            return lanes_turn;
        }
        let [first, second] = order.then_other();
        let is_due = |order: &Order| self.due[*order as usize] <= Stamp::at(now);
        let mine = match [first, second].into_iter().find(is_due) {
            Some(order) => {
                Turn { lane: GROUP, right: Right::Reserved(order), key: self.rank[order as usize] }
            }
            None => Turn { lane: GROUP, right: Right::Spare, key: self.spare },
        };
        let rights = [Right::Reserved(first), Right::Reserved(second), Right::Spare];
        let standing = |turn: &Turn| (rights.iter().position(|right| *right == turn.right), turn.key);
        match lanes_turn {
            Some(other) if standing(&other) < standing(&mine) => Some(other),
            _ => Some(mine),
        }
    }

    pub(super) fn due_at(&self, order: Order) -> Stamp {
        if self.is_queued() { self.rank[order as usize] } else { Stamp::NEVER }
    }

    pub(super) fn spare_at(&self) -> Stamp {
        if self.is_queued() { self.spare } else { Stamp::NEVER }
    }

    /// Takes the group out, to be issued, and charges its members their shares.
    pub(super) fn take(&mut self, turn: Turn, lanes: &Lanes<T>, volume: &IoVolume, now: Nanos) -> T {
        let at = Stamp::at(now);
        let cost = self.members.iter().map(|(_, share)| *share).sum();
        match turn.right {
            Right::Reserved(order) => volume.note_served(order, self.due[order as usize], cost, now),
            Right::Spare => volume.note_spare(turn.key, now),
        }
        volume.charge_limit(cost, self.arrival, at);
        for (lane, share) in &self.members {
            let lane = lanes.lane(*lane);
            lane.account.wake(volume.floor());
            let first = if let Right::Reserved(order) = turn.right { order } else { Order::Spread };
            let is_due = |order: &Order| lane.account.due(&lane.terms, *order, self.claims_from) <= at;
            let right = first.then_other().into_iter().find(is_due).map_or(Right::Spare, Right::Reserved);
            let (arrival, claims_from) = (self.arrival, self.claims_from);
            let issue = Issue { cost: *share, right, arrival, claims_from, is_urgent: false };
            lane.account.charge(&lane.terms, &issue, volume.floor(), now);
        }
        self.payload.take().expect("a group has its turn while it is queued")
    }

    pub(super) fn cancel(&mut self) -> Option<T> {
        self.payload.take()
    }
}
