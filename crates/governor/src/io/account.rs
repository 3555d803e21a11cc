//! A tenant's tags on one volume: what its next request is due, allowed and weighed at.
//!
//! Shared by all workers. Reading decides, [`Account::charge`] records; see [`super::tag`] for what a race costs.

use std::sync::atomic::{AtomicU64, Ordering};

use base::Nanos;

use super::cost::{IoCost, PARTS};
use super::tag::{Rate, Stamp, Tag, mul_div};
use crate::policy::Policy;
use crate::promise::IoPromise;

/// A backlogged tenant held up by something else than its limit (a full device, a late timer) makes up for at most so
/// much time under its limit: so in any time `T` it gets at most `iops_max * (T + 10 ms)` and one request a worker.
pub(super) const CATCH_UP: Stamp = Stamp::at(Nanos::from_millis(10));
/// Lateness of a reservation that is made up for in full.
const LAG_KEPT: Stamp = Stamp::at(Nanos::from_millis(100));
/// Time in which lateness beyond that is forgotten; the ledger has it by then. It is what keeps a long shortage from
/// being repaid for as long again, out of others' spare service.
const LAG_FORGOTTEN_IN: Nanos = Nanos::from_millis(400);
/// Lateness of a tenant that gets something stays below this.
pub(super) const LAG_MAX: Stamp = LAG_KEPT.plus(Stamp::at(LAG_FORGOTTEN_IN));
/// Work charged after the fact takes at most so much of a tenant's future; the rest is forgiven, and told.
const DEBT_MAX: Stamp = Stamp::at(Nanos::from_secs(1));
/// Virtual time of one I/O at weight 1. At weight 1 and 100,000 I/Os a second the counter lasts for a year.
const SPARE_OF_ONE: u64 = 64;

/// A tenant that was served beyond its weight, because its requests were due, is ahead of the volume's virtual time by so much at
/// most: enough to leave spare service to others, and not held against it when times change.
const LEAD_MAX: u64 = 16 * PARTS;

/// What is in force for a tenant: its promise under the volume's policy. A copy a worker keeps.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Terms {
    iops: Rate,
    bandwidth: Rate,
    iops_max: Rate,
    bandwidth_max: Rate,
    weight: u64,
    /// How much earlier than its due time a due request counts: the price of missing it.
    head_start: Stamp,
}

/// By what right a request is issued.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Right {
    /// It is due.
    Reserved,
    /// Nothing is due; its weight has it.
    Spare,
}

pub(super) struct Account {
    /// When the next request is due by the reservation of I/Os, and of bytes.
    due: Tag,
    due_bytes: Tag,
    /// When the next request is allowed by the limit of I/Os, and of bytes.
    open: Tag,
    open_bytes: Tag,
    /// Virtual time by weight.
    spare: Tag,
    /// When a due request was last issued.
    served_at: AtomicU64,
    iops: AtomicU64,
    bandwidth: AtomicU64,
    iops_max: AtomicU64,
    bandwidth_max: AtomicU64,
    weight: AtomicU64,
    penalty: AtomicU64,
}

fn rate(promised: &AtomicU64) -> Rate {
    Rate(promised.load(Ordering::Relaxed))
}

impl Account {
    pub(super) fn new() -> Account {
        let account = Account {
            due: Tag::default(),
            due_bytes: Tag::default(),
            open: Tag::default(),
            open_bytes: Tag::default(),
            spare: Tag::default(),
            served_at: AtomicU64::new(0),
            iops: AtomicU64::new(0),
            bandwidth: AtomicU64::new(0),
            iops_max: AtomicU64::new(0),
            bandwidth_max: AtomicU64::new(0),
            weight: AtomicU64::new(0),
            penalty: AtomicU64::new(0),
        };
        account.weight.store(u64::from(IoPromise::default().weight.get()), Ordering::Relaxed);
        account
    }

    /// Puts a promise in force: what is queued is due and allowed anew from `now`. What the tenant is ahead (a large request,
    /// a charge after the fact) it stays ahead, in I/Os, not in time.
    pub(super) fn set_promise(&self, promise: &IoPromise, penalty_micros: u64, floor: Stamp, now: Nanos) {
        // A limit of nothing would stand for none.
        let limit = |max: Option<u64>| max.map_or(0, |max| max.max(1));
        let terms = [
            (&self.iops, promise.iops, &self.due, true),
            (&self.bandwidth, promise.bandwidth.0, &self.due_bytes, true),
            (&self.iops_max, limit(promise.iops_max), &self.open, false),
            (&self.bandwidth_max, limit(promise.bandwidth_max.map(|max| max.0)), &self.open_bytes, false),
        ];
        for (in_force, rate, tag, is_reservation) in terms {
            let before = in_force.swap(rate, Ordering::Relaxed);
            if before != rate {
                tag.advance(|tag| rebased(tag, Rate(before), Rate(rate), is_reservation, Stamp::at(now)));
            }
        }
        self.penalty.store(penalty_micros, Ordering::Relaxed);
        self.weight.store(u64::from(promise.weight.get()), Ordering::Relaxed);
        self.rebase_spare(floor);
    }

    /// Whether the promise reserves or limits anything under `policy`.
    pub(super) fn is_governed(&self, policy: Policy) -> bool {
        let terms = self.terms(policy);
        [terms.iops, terms.bandwidth, terms.iops_max, terms.bandwidth_max].iter().any(|rate| rate.is_some())
    }

    pub(super) fn terms(&self, policy: Policy) -> Terms {
        let mut terms = Terms { weight: self.weight.load(Ordering::Relaxed).max(1), ..Terms::default() };
        if policy.reserves() {
            terms.iops = rate(&self.iops);
            terms.bandwidth = rate(&self.bandwidth);
            let dial = f64::from(policy.overbooking().permille()) / 1000.0;
            let penalty = (self.penalty.load(Ordering::Relaxed) as f64 + 1.0).log2();
            terms.head_start = Stamp((dial * penalty * LAG_MAX.0 as f64) as u64);
        }
        if policy.limits() {
            terms.iops_max = rate(&self.iops_max);
            terms.bandwidth_max = rate(&self.bandwidth_max);
        }
        terms
    }

    /// When the tenant's next request, which claims its turn from `claims_from` on, is due; `NEVER` if nothing is reserved.
    /// Of two reservations the one that is due first counts.
    pub(super) fn due(&self, terms: &Terms, claims_from: Stamp) -> Stamp {
        let by_ios = if terms.iops.is_some() { self.due.get().max(claims_from) } else { Stamp::NEVER };
        if terms.bandwidth.is_some() { by_ios.min(self.due_bytes.get().max(claims_from)) } else { by_ios }
    }

    /// From when on the tenant is below its limits.
    pub(super) fn open_from(&self, terms: &Terms) -> Stamp {
        let by_ios = if terms.iops_max.is_some() { self.open.get() } else { Stamp(0) };
        if terms.bandwidth_max.is_some() { by_ios.max(self.open_bytes.get()) } else { by_ios }
    }

    /// Its virtual time by weight.
    pub(super) fn spare(&self) -> Stamp {
        self.spare.get()
    }

    /// The tenant has a request again: time it was idle is not caught up on.
    pub(super) fn wake(&self, floor: Stamp) {
        self.spare.raise_to(floor);
    }

    /// Records the issue of a request that arrived at `arrival` and claims its turn from `claims_from`, when the volume's
    /// virtual time is `floor`.
    pub(super) fn charge(
        &self,
        terms: &Terms,
        cost: IoCost,
        right: Right,
        (arrival, claims_from): (Stamp, Stamp),
        floor: Stamp,
        now: Nanos,
    ) {
        let at = Stamp::at(now);
        if right == Right::Reserved {
            let since = now - Nanos(self.served_at.swap(now.0, Ordering::Relaxed));
            for (tag, rate, time) in reserved(self, terms, cost) {
                if rate.is_some() {
                    tag.advance(|tag| {
                        // Served before it was due by this reservation, by right of the other one: it is not a debt.
                        let due = tag.max(claims_from).min(at);
                        due.plus(forgotten(at.minus(due), since)).plus(time)
                    });
                }
            }
        }
        let opened = arrival.max(at.minus(CATCH_UP));
        for (tag, rate, time) in limited(self, terms, cost) {
            if rate.is_some() {
                tag.advance(|tag| tag.max(opened).plus(time));
            }
        }
        self.charge_spare(terms, cost, floor);
    }

    /// Records work that was done for the tenant and could not be delayed: it counts against its reservation, its limit
    /// and its weight. Returns what of it is forgiven because its debt is a second long.
    pub(super) fn charge_done(&self, terms: &Terms, cost: IoCost, floor: Stamp, now: Nanos) -> IoCost {
        let at = Stamp::at(now);
        let end = at.plus(DEBT_MAX);
        for (tag, rate, time) in reserved(self, terms, cost) {
            if rate.is_some() {
                tag.advance(|tag| tag.max(tag.max(at).plus(time).min(end)));
            }
        }
        let mut forgiven_part = 0.0f64;
        for (tag, rate, time) in limited(self, terms, cost) {
            if rate.is_some() {
                let before = tag.advance(|tag| tag.max(tag.max(at).plus(time).min(end)));
                let over = before.max(at).plus(time).minus(end.max(before));
                forgiven_part = forgiven_part.max(over.0 as f64 / time.0.max(1) as f64);
            }
        }
        self.charge_spare(terms, cost, floor);
        let part = |whole: u64| (whole as f64 * forgiven_part) as u64;
        IoCost { parts: part(cost.parts), bytes: part(cost.bytes) }
    }

    fn charge_spare(&self, terms: &Terms, cost: IoCost, floor: Stamp) {
        let time_of = |parts: u64| Stamp(mul_div(parts, SPARE_OF_ONE, terms.weight));
        let (time, lead_max) = (time_of(cost.parts), time_of(cost.parts.max(LEAD_MAX)));
        self.spare.advance(|tag| tag.max(tag.plus(time).min(floor.plus(lead_max))));
    }

    /// Reservations count from `now` on.
    pub(super) fn rebase_due(&self, now: Nanos) {
        self.due.raise_to(Stamp::at(now));
        self.due_bytes.raise_to(Stamp::at(now));
    }

    /// Forgets what the tenant had in other times.
    pub(super) fn rebase_spare(&self, floor: Stamp) {
        self.spare.advance(|_| floor);
    }
}

impl Terms {
    pub(super) fn reserves(&self) -> bool {
        self.iops.is_some() || self.bandwidth.is_some()
    }

    /// What due requests are ordered by.
    pub(super) fn rank(&self, due: Stamp) -> Stamp {
        due.minus(self.head_start)
    }
}

type Charges<'a> = [(&'a Tag, Rate, Stamp); 2];

fn reserved<'a>(account: &'a Account, terms: &Terms, cost: IoCost) -> Charges<'a> {
    [
        (&account.due, terms.iops, time_of_parts(terms.iops, cost)),
        (&account.due_bytes, terms.bandwidth, time_of_bytes(terms.bandwidth, cost)),
    ]
}

fn limited<'a>(account: &'a Account, terms: &Terms, cost: IoCost) -> Charges<'a> {
    [
        (&account.open, terms.iops_max, time_of_parts(terms.iops_max, cost)),
        (&account.open_bytes, terms.bandwidth_max, time_of_bytes(terms.bandwidth_max, cost)),
    ]
}

fn time_of_parts(rate: Rate, cost: IoCost) -> Stamp {
    if rate.is_some() { rate.time_of_parts(cost.parts) } else { Stamp(0) }
}

fn time_of_bytes(rate: Rate, cost: IoCost) -> Stamp {
    if rate.is_some() { rate.time_of_bytes(cost.bytes) } else { Stamp(0) }
}

/// Of a lateness of `lag`, what is forgotten at an issue `since` after the one before.
fn forgotten(lag: Stamp, since: Nanos) -> Stamp {
    let beyond = lag.minus(LAG_KEPT);
    if beyond == Stamp(0) {
        return beyond;
    }
    Stamp(mul_div(beyond.0, since.0.min(LAG_FORGOTTEN_IN.0), LAG_FORGOTTEN_IN.0))
}

/// A tag under another rate.
fn rebased(tag: Stamp, before: Rate, after: Rate, is_reservation: bool, now: Stamp) -> Stamp {
    let ahead = if before.is_some() && after.is_some() {
        Stamp(mul_div(tag.minus(now).0, before.0, after.0))
    } else {
        Stamp(0)
    };
    if ahead > Stamp(0) || is_reservation { now.plus(ahead) } else { tag.min(now) }
}

// The virtual time of one I/O at the largest weight is at least four.
const _: () = assert!(PARTS * SPARE_OF_ONE / 1_000_000 >= 4);
