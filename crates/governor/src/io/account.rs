//! A tenant's tags on one volume: what its next request is due, allowed and weighed at.
//!
//! Shared by all workers. Reading decides, [`Account::charge`] records; see [`super::tag`] for what a race costs.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

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
/// Work charged after the fact, and upkeep that others wait for, takes at most so much of what a reservation, or a limit, leaves a tenant in the future.
pub(super) const DEBT_MAX: Stamp = Stamp::at(Nanos::from_secs(1));
/// Virtual time of one I/O at weight 1. At weight 1 and 100,000 I/Os a second the counter lasts for a year.
const SPARE_OF_ONE: u64 = 64;

/// A tenant that was served beyond its weight, because its requests were due, is ahead of the volume's virtual time by so much at
/// most: enough to leave spare service to others, and not held against it when times change.
const LEAD_MAX: u64 = 16 * PARTS;

/// How much later than its due time a request of a tenant without a penalty counts where the dearest go first. A thousandth more
/// of penalty is worth more than the lateness of who gets something, so the dearer goes wholly before. The largest penalty has none.
const HANDICAP_MAX: Stamp = Stamp(64 * 1024 * LAG_MAX.0);

/// In what order due requests go: the two ends of [`crate::Overbooking`]. Each reservation is two, in the dial's proportion, with due
/// times of their own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Order {
    /// The longest due first: equal parts of the promises.
    Spread,
    /// The dearest first, and of those the longest due.
    Price,
}

impl Order {
    /// This one first.
    pub(super) const fn then_other(self) -> [Order; 2] {
        match self {
            Order::Spread => [Order::Spread, Order::Price],
            Order::Price => [Order::Price, Order::Spread],
        }
    }

    /// The rank up to which requests are due.
    pub(super) const fn horizon(self, now: Stamp) -> Stamp {
        match self {
            Order::Spread => now,
            Order::Price => now.plus(HANDICAP_MAX),
        }
    }
}

/// How long a limit remembers work charged after the fact; what is beyond is forgiven, and told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LimitDebt {
    /// A minute: of a worker's turn that reads what it misses. It comes after a request that waited for the limit, so that the limit is kept as long as
    /// what one turn reads is paid for before the next.
    OfTurn,
    /// A second: of what came after no such request.
    OfOther,
}

impl LimitDebt {
    pub(crate) const fn max(self) -> Nanos {
        match self {
            LimitDebt::OfTurn => LIMIT_DEBT_MAX,
            LimitDebt::OfOther => Nanos::from_secs(1),
        }
    }
}

/// The longest debt of a limit, also once the limit has changed.
pub(crate) const LIMIT_DEBT_MAX: Nanos = Nanos::from_secs(60);

/// What others wait for that a tenant's upkeep is to bring about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AwaitedFor {
    /// Room in memory, which its changed pages take.
    Room,
    /// Segments of the log, which its oldest records keep.
    Log,
}

impl AwaitedFor {
    const fn bit(self) -> u8 {
        match self {
            AwaitedFor::Room => 1,
            AwaitedFor::Log => 2,
        }
    }
}

/// What is in force for a tenant: its promise under the volume's policy. A copy a worker keeps.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Terms {
    iops: Rate,
    bandwidth: Rate,
    iops_max: Rate,
    bandwidth_max: Rate,
    weight: u64,
    /// Of the reservation, in thousandths, what is due in [`Order::Price`].
    dial: u16,
    /// How much later than its due time a request counts in that order: the less, the more missing it costs.
    handicap: Stamp,
    /// Others wait for its upkeep: that goes first, and no limit of the tenant's holds it.
    pub(super) is_awaited: bool,
}

/// By what right a request is issued.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Right {
    /// It is due.
    Reserved(Order),
    /// Nothing is due; its weight has it.
    Spare,
}

/// A request that is issued.
pub(super) struct Issue {
    pub(super) cost: IoCost,
    pub(super) right: Right,
    pub(super) arrival: Stamp,
    /// From when on it claimed its turn.
    pub(super) claims_from: Stamp,
    /// No limit held it. It takes at most a second of the tenant's future, as what could not be delayed does.
    pub(super) is_urgent: bool,
}

/// A tenant's due times in one order.
#[derive(Default)]
struct Due {
    /// When the next request is due by the reservation of I/Os, and of bytes.
    ios: Tag,
    bytes: Tag,
    /// When a due request was last issued.
    served_at: AtomicU64,
}

pub(super) struct Account {
    /// By order.
    due: [Due; 2],
    /// When the next request is allowed by the limit of I/Os, and of bytes.
    open: Tag,
    open_bytes: Tag,
    /// Virtual time by weight.
    spare: Tag,
    iops: AtomicU64,
    bandwidth: AtomicU64,
    iops_max: AtomicU64,
    bandwidth_max: AtomicU64,
    weight: AtomicU64,
    penalty: AtomicU64,
    /// A bit for each [`AwaitedFor`].
    awaited_for: AtomicU8,
}

fn rate(promised: &AtomicU64) -> Rate {
    Rate(promised.load(Ordering::Relaxed))
}

impl Account {
    pub(super) fn new() -> Account {
        let account = Account {
            due: Default::default(),
            open: Tag::default(),
            open_bytes: Tag::default(),
            spare: Tag::default(),
            iops: AtomicU64::new(0),
            bandwidth: AtomicU64::new(0),
            iops_max: AtomicU64::new(0),
            bandwidth_max: AtomicU64::new(0),
            weight: AtomicU64::new(0),
            penalty: AtomicU64::new(0),
            awaited_for: AtomicU8::new(0),
        };
        account.weight.store(u64::from(IoPromise::default().weight.get()), Ordering::Relaxed);
        account
    }

    /// Puts a promise in force: what is queued is due and allowed anew from `now`. What the tenant is ahead (a large request,
    /// a charge after the fact, service beyond its weight) it stays ahead, in I/Os, not in time: a promise that is altered
    /// again and again gains its tenant nothing.
    pub(super) fn set_promise(&self, promise: &IoPromise, penalty_micros: u64, floor: Stamp, now: Nanos) {
        // A limit of nothing would stand for none.
        let limit = |max: Option<u64>| max.map_or(0, |max| max.max(1));
        let [spread, price] = &self.due;
        let bandwidth_max = promise.bandwidth_max.map(|max| max.0);
        let of_limit = Some(Stamp::at(LIMIT_DEBT_MAX));
        let terms: [(_, _, &[&Tag], _); 4] = [
            (&self.iops, promise.iops, &[&spread.ios, &price.ios], None),
            (&self.bandwidth, promise.bandwidth.0, &[&spread.bytes, &price.bytes], None),
            (&self.iops_max, limit(promise.iops_max), &[&self.open], of_limit),
            (&self.bandwidth_max, limit(bandwidth_max), &[&self.open_bytes], of_limit),
        ];
        for (in_force, rate, tags, debt_max) in terms {
            let before = in_force.swap(rate, Ordering::Relaxed);
            if before != rate {
                for tag in tags {
                    tag.advance(|tag| rebased(tag, Rate(before), Rate(rate), debt_max, Stamp::at(now)));
                }
            }
        }
        self.penalty.store(penalty_micros, Ordering::Relaxed);
        let weight = u64::from(promise.weight.get());
        let before = self.weight.swap(weight, Ordering::Relaxed);
        if before != weight {
            self.spare.advance(|spare| match spare.minus(floor) {
                Stamp(0) => spare,
                Stamp(ahead) => floor.plus(Stamp(mul_div(ahead, before, weight))),
            });
        }
    }

    /// Says whether others wait for the tenant's upkeep, for one thing; true if that changes whether they wait at all.
    pub(super) fn set_awaited(&self, awaited_for: AwaitedFor, is_awaited: bool) -> bool {
        let bit = awaited_for.bit();
        let (before, after) = match is_awaited {
            true => {
                let before = self.awaited_for.fetch_or(bit, Ordering::Relaxed);
                (before, before | bit)
            }
            false => {
                let before = self.awaited_for.fetch_and(!bit, Ordering::Relaxed);
                (before, before & !bit)
            }
        };
        (before == 0) != (after == 0)
    }

    /// Whether the promise reserves or limits anything under `policy`.
    pub(super) fn is_governed(&self, policy: Policy) -> bool {
        let terms = self.terms(policy);
        [terms.iops, terms.bandwidth, terms.iops_max, terms.bandwidth_max].iter().any(|rate| rate.is_some())
    }

    pub(super) fn terms(&self, policy: Policy) -> Terms {
        let mut terms = Terms {
            weight: self.weight.load(Ordering::Relaxed).max(1),
            is_awaited: self.awaited_for.load(Ordering::Relaxed) != 0,
            ..Terms::default()
        };
        if policy.reserves() {
            terms.iops = rate(&self.iops);
            terms.bandwidth = rate(&self.bandwidth);
            terms.dial = policy.overbooking().permille();
            let penalty = (self.penalty.load(Ordering::Relaxed) as f64 + 1.0).log2();
            terms.handicap = HANDICAP_MAX.minus(Stamp((penalty / 64.0 * HANDICAP_MAX.0 as f64) as u64));
        }
        if policy.limits() {
            terms.iops_max = rate(&self.iops_max);
            terms.bandwidth_max = rate(&self.bandwidth_max);
        }
        terms
    }

    /// When the tenant's next request, which claims its turn from `claims_from` on, is due in that order; `NEVER` if nothing is
    /// reserved in it. Of two reservations the one that is due first counts.
    pub(super) fn due(&self, terms: &Terms, order: Order, claims_from: Stamp) -> Stamp {
        if terms.part(order) == 0 {
            return Stamp::NEVER;
        }
        let due = &self.due[order as usize];
        let by_ios = if terms.iops.is_some() { due.ios.get().max(claims_from) } else { Stamp::NEVER };
        if terms.bandwidth.is_some() { by_ios.min(due.bytes.get().max(claims_from)) } else { by_ios }
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

    /// Records the issue of a request when the volume's virtual time is `floor`.
    pub(super) fn charge(&self, terms: &Terms, issue: &Issue, floor: Stamp, now: Nanos) {
        let Issue { cost, right, arrival, claims_from, is_urgent } = *issue;
        let at = Stamp::at(now);
        if let Right::Reserved(order) = right {
            let since = now - Nanos(self.due[order as usize].served_at.swap(now.0, Ordering::Relaxed));
            for (tag, rate, time) in reserved(self, terms, order, cost) {
                if rate.is_some() {
                    let time = terms.time_of_part(order, time);
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
                let end = if is_urgent { at.plus(DEBT_MAX) } else { Stamp::NEVER };
                tag.advance(|tag| tag.max(tag.max(opened).plus(time).min(end)));
            }
        }
        self.charge_spare(terms, cost, floor);
    }

    /// Records work that was done for the tenant and could not be delayed: it counts against its reservation, its limit
    /// and its weight. Returns what of it is forgiven because the limit's debt is as long as it may be.
    pub(super) fn charge_done(
        &self,
        terms: &Terms,
        cost: IoCost,
        debt: LimitDebt,
        floor: Stamp,
        now: Nanos,
    ) -> IoCost {
        let at = Stamp::at(now);
        let (end, limit_end) = (at.plus(DEBT_MAX), at.plus(Stamp::at(debt.max())));
        // Each order's part of the work takes what the whole takes of the whole.
        for (tag, rate, time) in
            Order::Spread.then_other().into_iter().flat_map(|order| reserved(self, terms, order, cost))
        {
            if rate.is_some() {
                tag.advance(|tag| tag.max(tag.max(at).plus(time).min(end)));
            }
        }
        let mut forgiven_part = 0.0f64;
        for (tag, rate, time) in limited(self, terms, cost) {
            if rate.is_some() {
                let before = tag.advance(|tag| tag.max(tag.max(at).plus(time).min(limit_end)));
                let over = before.max(at).plus(time).minus(limit_end.max(before));
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
        for due in &self.due {
            due.ios.raise_to(Stamp::at(now));
            due.bytes.raise_to(Stamp::at(now));
        }
    }

    /// Forgets what the tenant had in other times.
    pub(super) fn rebase_spare(&self, floor: Stamp) {
        self.spare.advance(|_| floor);
    }
}

impl Terms {
    /// In thousandths, what of the reservation is due in that order.
    const fn part(&self, order: Order) -> u16 {
        match order {
            Order::Spread => 1000 - self.dial,
            Order::Price => self.dial,
        }
    }

    /// What takes `time` of the whole reservation, of the part of it that is due in that order.
    fn time_of_part(&self, order: Order, time: Stamp) -> Stamp {
        match self.part(order) {
            0 | 1000 => time,
            part => Stamp(mul_div(time.0, 1000, u64::from(part))),
        }
    }

    /// What due requests are ordered by.
    pub(super) fn rank(&self, order: Order, due: Stamp) -> Stamp {
        match order {
            Order::Spread => due,
            Order::Price => due.plus(self.handicap),
        }
    }
}

type Charges<'a> = [(&'a Tag, Rate, Stamp); 2];

fn reserved<'a>(account: &'a Account, terms: &Terms, order: Order, cost: IoCost) -> Charges<'a> {
    let due = &account.due[order as usize];
    [
        (&due.ios, terms.iops, time_of_parts(terms.iops, cost)),
        (&due.bytes, terms.bandwidth, time_of_bytes(terms.bandwidth, cost)),
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

/// A tag under another rate. `debt_max` is how long what a limit remembers may last; `None` of a reservation, of which debts take [`DEBT_MAX`].
pub(super) fn rebased(tag: Stamp, before: Rate, after: Rate, debt_max: Option<Stamp>, now: Stamp) -> Stamp {
    let ahead = if before.is_some() && after.is_some() {
        Stamp(mul_div(tag.minus(now).0, before.0, after.0))
    } else {
        Stamp(0)
    };
    // A lower rate makes no debt longer than a debt may be; what was longer already, one large request, stays as long.
    let ahead = ahead.min(debt_max.unwrap_or(DEBT_MAX).max(tag.minus(now)));
    if ahead > Stamp(0) || debt_max.is_none() { now.plus(ahead) } else { tag.min(now) }
}

// The virtual time of one I/O at the largest weight is at least four.
const _: () = assert!(PARTS * SPARE_OF_ONE / 1_000_000 >= 4);
