//! One volume, as all workers share it: how much may be in flight, its limit, its policy, its tenants' accounts.
//!
//! On the run path only atomics are used. The registry's lock is taken to change a promise, and by a worker for the first request of
//! a tenant it has not met.

use std::num::{NonZeroU32, NonZeroU64};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::{Nanos, TenantId};
use rustc_hash::FxHashMap;

use super::account::{Account, AwaitedFor, CATCH_UP, DEBT_MAX, LAG_MAX, LimitDebt, Order, rebased};
use super::cost::{IoCost, PARTS};
use super::post::{self, PATIENCE, Post, Urgency};
use super::tag::{Rate, Stamp, Tag};
use crate::policy::{Overbooking, Policy};
use crate::promise::IoPromise;

/// What one order of due requests may be ahead of the dial's proportion: where nothing is due in the other one, that is not made up for.
const AHEAD_MAX: i64 = 16 * PARTS as i64;

/// A device behind data files or a log, governed by itself. Shared by the workers' [`super::IoQueue`]s and by whoever
/// changes promises; no call blocks but for the registry's short lock.
///
/// After a change wake all workers, so that each asks its queue again: what sleeps until a tag must look at the new one.
pub struct IoVolume {
    /// Requests in flight at most; 0: no bound, and then nobody counts them.
    depth: AtomicU32,
    in_flight: AtomicU32,
    /// The volume's own limit, I/Os a second; 0: none.
    limit: AtomicU64,
    open: Tag,
    /// Virtual time by weight: of the last request that was issued by its weight. Never falls.
    floor: AtomicU64,
    /// The due time of the last request that was issued because it was due, and when that was.
    served: AtomicU64,
    served_at: AtomicU64,
    /// What due requests should have been served by price and were not, in thousandths of parts of I/Os.
    price_owed: AtomicI64,
    policy: AtomicU32,
    /// Whether a limit or anybody's promise is in force.
    governed: AtomicBool,
    /// Workers with a post.
    posted: AtomicU32,
    posts: Box<[Post]>,
    /// Grows with every change of promises, policy and limits.
    epoch: AtomicU32,
    accounts: Mutex<Accounts>,
}

#[derive(Default)]
struct Accounts {
    by_tenant: FxHashMap<TenantId, Arc<Account>>,
    /// Those of which a limit or a promise is in force.
    governed: usize,
}

/// What became of a request that wants a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Pass {
    /// It has one.
    Go(IoPlace),
    /// All places are taken.
    Full,
    /// Not before then.
    Until(Nanos),
    /// Another worker's request goes first; wake that worker, then ask again.
    Wake(usize),
}

/// A place in flight, to be handed back to [`super::IoQueue::completed`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "a place that is not handed back is lost to the volume"]
pub struct IoPlace {
    counted: bool,
}

impl IoVolume {
    /// A volume for `workers` workers, without bound, limit or promises, under the default [`Policy`].
    pub fn new(workers: usize) -> Arc<IoVolume> {
        Arc::new(IoVolume {
            depth: AtomicU32::new(0),
            in_flight: AtomicU32::new(0),
            limit: AtomicU64::new(0),
            open: Tag::default(),
            floor: AtomicU64::new(0),
            served: AtomicU64::new(0),
            served_at: AtomicU64::new(0),
            price_owed: AtomicI64::new(0),
            policy: AtomicU32::new(Policy::default().to_bits()),
            governed: AtomicBool::new(false),
            posted: AtomicU32::new(0),
            posts: (0..workers).map(|_| Post::new()).collect(),
            epoch: AtomicU32::new(0),
            accounts: Mutex::default(),
        })
    }

    /// At most so many requests in flight, over all workers; `None`: no bound. What was issued while there was none is not
    /// counted when it is still in flight.
    pub fn set_depth(&self, depth: Option<NonZeroU32>) {
        self.depth.store(depth.map_or(0, NonZeroU32::get), Ordering::SeqCst);
        self.changed();
    }

    /// I/Os a second at most, over all tenants; `None`: no limit. Held under every policy. What the volume is ahead it stays ahead, in I/Os,
    /// though a lower limit makes no debt of undelayed work longer than a second.
    pub fn set_iops_limit(&self, limit: Option<NonZeroU64>, now: Nanos) {
        let accounts = self.accounts();
        let limit = limit.map_or(0, NonZeroU64::get);
        let before = self.limit.swap(limit, Ordering::Relaxed);
        if before != limit {
            let (before, after, at) = (Rate(before), Rate(limit), Stamp::at(now));
            self.open.advance(|tag| rebased(tag, before, after, Some(DEBT_MAX), at));
        }
        self.reconsider(&accounts);
    }

    /// Puts a policy in force: service by weight begins anew, and so do reservations that were not kept before.
    pub fn set_policy(&self, policy: Policy, now: Nanos) {
        let mut accounts = self.accounts();
        let before = self.policy();
        self.policy.store(policy.to_bits(), Ordering::Relaxed);
        for account in accounts.by_tenant.values().filter(|_| before != policy) {
            account.rebase_spare(self.floor());
            if !before.reserves() || before.overbooking() != policy.overbooking() {
                account.rebase_due(now);
            }
        }
        accounts.governed = accounts.by_tenant.values().filter(|account| account.is_governed(policy)).count();
        self.reconsider(&accounts);
    }

    /// Puts a tenant's promise in force, for what is queued too, and what a missed I/O of it costs, in millionths.
    pub fn set_promise(&self, tenant: TenantId, promise: &IoPromise, penalty_micros: u64, now: Nanos) {
        let mut guard = self.accounts();
        let (accounts, policy) = (&mut *guard, self.policy());
        let account = accounts.by_tenant.entry(tenant).or_insert_with(|| Arc::new(Account::new()));
        accounts.governed -= usize::from(account.is_governed(policy));
        account.set_promise(promise, penalty_micros, self.floor(), now);
        accounts.governed += usize::from(account.is_governed(policy));
        self.reconsider(accounts);
    }

    /// Says whether others wait for `tenant`'s upkeep, for one thing. While they do for anything, its requests of [`base::IoClass::Upkeep`] go
    /// before its others, and no limit of its own holds them; the volume's holds. They are charged, and the limit holds its other requests the
    /// longer for them, a second at most. In force for what is queued too, on each worker from its next [`super::IoQueue::next`] on.
    /// Returns whether it changed anything: then the workers are to be woken.
    pub fn set_awaited(&self, tenant: TenantId, awaited_for: AwaitedFor, is_awaited: bool) -> bool {
        if !is_awaited && !self.accounts().by_tenant.contains_key(&tenant) {
            return false;
        }
        let has_changed = self.account(tenant).set_awaited(awaited_for, is_awaited);
        if has_changed {
            self.changed();
        }
        has_changed
    }

    /// Forgets a tenant and its promise. Each worker's [`super::IoQueue::forget`] goes before.
    pub fn remove(&self, tenant: TenantId) {
        let mut accounts = self.accounts();
        let removed = accounts.by_tenant.remove(&tenant);
        accounts.governed -= usize::from(removed.is_some_and(|account| account.is_governed(self.policy())));
        self.reconsider(&accounts);
    }

    /// Charges work that was done on any thread and could not be delayed; see [`super::IoQueue::charge_done`].
    pub fn charge_done(&self, tenant: TenantId, cost: IoCost, debt: LimitDebt, now: Nanos) -> IoCost {
        let account = self.account(tenant);
        self.charge_limit_done(cost, now);
        account.charge_done(&account.terms(self.policy()), cost, debt, self.floor(), now)
    }

    /// Requests in flight, as far as they are counted.
    pub fn in_flight(&self) -> u32 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// The policy in force.
    pub fn policy(&self) -> Policy {
        Policy::from_bits(self.policy.load(Ordering::Relaxed))
    }

    pub(super) fn account(&self, tenant: TenantId) -> Arc<Account> {
        self.accounts().by_tenant.entry(tenant).or_insert_with(|| Arc::new(Account::new())).clone()
    }

    fn accounts(&self) -> MutexGuard<'_, Accounts> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reconsider(&self, accounts: &Accounts) {
        let limited = self.limit.load(Ordering::Relaxed) != 0;
        self.governed.store(limited || accounts.governed > 0, Ordering::Relaxed);
        self.changed();
    }

    fn changed(&self) {
        self.epoch.fetch_add(1, Ordering::Release);
    }

    pub(super) fn epoch(&self) -> u32 {
        self.epoch.load(Ordering::Acquire)
    }

    pub(super) fn floor(&self) -> Stamp {
        Stamp(self.floor.load(Ordering::Relaxed))
    }

    /// Notes that a request goes by its weight, at that virtual time: nothing that is due waits for it, so nothing is late.
    pub(super) fn note_spare(&self, spare: Stamp, now: Nanos) {
        if spare > self.floor() {
            self.floor.fetch_max(spare.0, Ordering::Relaxed);
        }
        if self.lateness(now) > Stamp(0) {
            self.served.store(Stamp::at(now).0, Ordering::Relaxed);
        }
    }

    /// Notes how late a due request was, and in what order it went. Where the dearest go first for a part only, the other part says how
    /// late the volume is.
    pub(super) fn note_served(&self, order: Order, due: Stamp, cost: IoCost, now: Nanos) {
        let dial = self.policy().overbooking();
        if order == Order::Spread || dial == Overbooking::LEAST_PENALTY {
            self.served.store(due.0, Ordering::Relaxed);
            self.served_at.store(now.0, Ordering::Relaxed);
        }
        if dial != Overbooking::SPREAD && dial != Overbooking::LEAST_PENALTY {
            let whole = i64::from(Overbooking::LEAST_PENALTY.permille());
            let part = i64::from(dial.permille()) - if order == Order::Price { whole } else { 0 };
            let change = i64::try_from(cost.parts).unwrap_or(AHEAD_MAX).min(AHEAD_MAX) * part;
            let clamped = |owed: i64| Some((owed + change).clamp(-AHEAD_MAX * whole, AHEAD_MAX * whole));
            let _ = self.price_owed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, clamped);
        }
    }

    /// In what order due requests go now: each for its part of the dial.
    pub(super) fn order(&self) -> Order {
        match self.policy().overbooking() {
            Overbooking::SPREAD => Order::Spread,
            Overbooking::LEAST_PENALTY => Order::Price,
            _ if self.price_owed.load(Ordering::Relaxed) > 0 => Order::Price,
            _ => Order::Spread,
        }
    }

    /// How late due requests are being issued, by the last one; as time passes without any, less and less. Who comes now
    /// claims its turn from so long ago: else, where reservations do not fit, it would wait behind all that is late already,
    /// again with every request of a client that has one at a time.
    pub(super) fn lateness(&self, now: Nanos) -> Stamp {
        let at = Nanos(self.served_at.load(Ordering::Relaxed));
        let late = Stamp::at(at).minus(Stamp(self.served.load(Ordering::Relaxed))).min(LAG_MAX);
        late.minus(Stamp::at(now - at))
    }

    /// Whether a limit or anybody's promise is in force.
    pub(super) fn is_governed(&self) -> bool {
        self.governed.load(Ordering::Relaxed)
    }

    /// Whether requests go as they come: nothing is promised, limited or bounded.
    pub fn is_open(&self) -> bool {
        !self.is_governed() && self.depth.load(Ordering::Relaxed) == 0
    }

    /// A place for a request that nothing governs and nobody waits before; `None` if it has to queue.
    pub(super) fn pass_ungoverned(&self) -> Option<IoPlace> {
        if self.is_governed() || self.posted.load(Ordering::Relaxed) != 0 {
            return None;
        }
        self.take_place()
    }

    fn take_place(&self) -> Option<IoPlace> {
        let depth = self.depth.load(Ordering::SeqCst);
        if depth == 0 {
            return Some(IoPlace { counted: false });
        }
        let more = |in_flight: u32| (in_flight < depth).then_some(in_flight + 1);
        self.in_flight.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more).ok()?;
        Some(IoPlace { counted: true })
    }

    pub(super) fn give_back(&self, place: IoPlace) {
        if place.counted {
            let before = self.in_flight.fetch_sub(1, Ordering::SeqCst);
            assert!(before > 0, "each place is handed back once");
        }
    }

    fn places_free(&self) -> u32 {
        match self.depth.load(Ordering::SeqCst) {
            0 => u32::MAX,
            depth => depth.saturating_sub(self.in_flight.load(Ordering::SeqCst)),
        }
    }

    /// Asks for a place for worker `me`'s most urgent request.
    pub(super) fn pass(&self, me: usize, mine: Urgency, now: Nanos) -> Pass {
        let limited = self.limit.load(Ordering::Relaxed) != 0;
        let open = self.open.get();
        if limited && open > Stamp::at(now) {
            return Pass::Until(open.nanos());
        }
        if self.posted.load(Ordering::SeqCst) != 0 {
            let others = post::look(&self.posts, me, Some(mine), self.order(), now);
            let free = self.places_free();
            if free == 0 {
                return Pass::Full;
            }
            if let Some(other) = others.untold
                && post::tell(&self.posts, other, now)
            {
                return Pass::Wake(other);
            }
            let beside_mine = if limited { 0 } else { free - 1 };
            if others.more_urgent > beside_mine {
                return Pass::Until(now + PATIENCE);
            }
        }
        self.take_place().map_or(Pass::Full, Pass::Go)
    }

    /// A worker that waits for a place while there is one, and that nobody has woken.
    pub(super) fn who_to_wake(&self, me: usize, now: Nanos) -> Option<usize> {
        if self.posted.load(Ordering::SeqCst) == 0 || self.places_free() == 0 {
            return None;
        }
        let other = post::look(&self.posts, me, None, self.order(), now).untold?;
        post::tell(&self.posts, other, now).then_some(other)
    }

    /// Tells the others what waits here. True if a place came free meanwhile: look again.
    pub(super) fn put_post(&self, me: usize, is_posted: &mut bool, urgency: Urgency) -> bool {
        if !std::mem::replace(is_posted, true) {
            self.posted.fetch_add(1, Ordering::SeqCst);
        }
        self.posts[me].put(urgency);
        self.places_free() > 0
    }

    pub(super) fn clear_post(&self, me: usize, is_posted: &mut bool) {
        if std::mem::replace(is_posted, false) {
            self.posts[me].clear();
            self.posted.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Charges the volume's own limit.
    pub(super) fn charge_limit(&self, cost: IoCost, arrival: Stamp, now: Stamp) {
        let limit = Rate(self.limit.load(Ordering::Relaxed));
        if limit.is_some() {
            let (floor, time) = (arrival.max(now.minus(CATCH_UP)), limit.time_of_parts(cost.parts));
            self.open.advance(|tag| tag.max(floor).plus(time));
        }
    }

    /// Charges the volume's own limit for work that could not be delayed. It is everybody's: what follows waits a second for it at most.
    pub(super) fn charge_limit_done(&self, cost: IoCost, now: Nanos) {
        let limit = Rate(self.limit.load(Ordering::Relaxed));
        if limit.is_some() {
            let (at, time) = (Stamp::at(now), limit.time_of_parts(cost.parts));
            self.open.advance(|tag| tag.max(tag.max(at).plus(time).min(at.plus(DEBT_MAX))));
        }
    }

    pub(super) fn workers(&self) -> usize {
        self.posts.len()
    }
}
