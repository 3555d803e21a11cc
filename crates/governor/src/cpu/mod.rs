//! Whose task a worker runs next.
//!
//! A tenant with a reservation of R cores is *due* R nanoseconds of processor time for each nanosecond in which it has a
//! task. It has a deficit while it took less than that. In this order:
//!
//! 1. Of the tenants with a deficit the one whose next slice (100 us of work) has the earliest deadline. The deadline is the
//!    instant at which the slice is due at R: that is the deficit that is hardest to make up, and a number that stands still while the
//!    tenant waits, so a heap is exact. Example: R = 0.1 and 0.5, both wake now; their slices are due in 1 ms and 200 us.
//!    Of the slice after waking, what the tenant took when it was last awake (25 us at least) has a deadline of its own: if the first
//!    took no more then, in 250 us.
//! 2. A tenant with credit: what it left of its reservation before, up to `cpu_burst`.
//! 3. Spare time, least taken / weight first. Example: weights 100 and 300 and no reservations, 1 ms polls: of every
//!    4 ms the first gets 1 ms, the second 3 ms.
//!
//! Background work of a tenant (statements that ran away) shares in 3. as a tenant of weight 1 would.
//!
//! Tenants over their limit are passed over until the refill that pays their debt, but for work that others wait for
//! ([`CpuScheduler::set_awaited`]). Only time taken while there is a deficit is
//! counted against a reservation: spare time costs nothing of it. A tenant that wakes has waited for nothing yet; its first slice is due
//! like any other. While the reservations in demand fit a processor, every deadline is met to within the longest poll
//! (earliest deadline first), and so a tenant that has tasks gets its own to within a slice and R times that poll
//! (`docs/decisions/0010-earliest-deadline-of-a-deficit.md`). Where they do not fit, see [`crate::Overbooking`].
//!
//! One scheduler a worker, used by its thread only. What a tenant took on all workers is one account
//! ([`CpuAccounts`]). Blocked tenants are not looked at: a call costs O(log runnable), amortised.

mod account;
mod bucket;
mod clock;
mod heap;
mod overload;
mod rate;
mod sleepers;
mod standing;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use base::{Nanos, TenantId};
use rustc_hash::FxHashMap;

pub use account::{CpuAccount, CpuAccounts};

use crate::policy::Policy;
use crate::promise::CpuPromise;
use clock::{Step, VirtualClock};
use heap::{Heap, Key};
use overload::{Order, Overload};
use rate::Rate;
use sleepers::{LATELY, Sleepers};
use standing::{SpareTime, Standing};

/// Whose task is to run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pick {
    /// This tenant's. It stays runnable until [`CpuScheduler::blocked`].
    Run(TenantId),
    /// All runnable tenants are over their limits: ask again at this instant, or when another becomes runnable.
    NotBefore(Nanos),
    /// Nobody is runnable.
    Nobody,
}

impl Pick {
    /// The tenant to run.
    pub fn tenant(self) -> Option<TenantId> {
        match self {
            Pick::Run(tenant) => Some(tenant),
            Pick::NotBefore(_) | Pick::Nobody => None,
        }
    }
}

/// What becomes of a tenant's place in `spare`, if it has one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum InSpare {
    Keep,
    /// It took spare time.
    Move,
}

/// In keys of spare time: sorts after everybody with credit.
const NO_CREDIT: SpareTime = 1 << 127;

/// Picks the next tenant of one worker. See the module's description for the rule.
///
/// `now` may step back a little between calls (threads' clocks differ). Should it be set back by more than 100 ms, promises
/// hold from there on.
#[derive(Default)]
pub struct CpuScheduler {
    accounts: Arc<CpuAccounts>,
    standings: Vec<Option<Standing>>,
    free: Vec<u32>,
    by_tenant: FxHashMap<TenantId, u32>,
    /// Whom the last look-up found: most calls are about the one that was picked.
    found: Option<(TenantId, u32)>,
    // Room for all standings is reserved in each heap when they are made, so the run path never allocates. A runnable
    // tenant is in `limited`, or else in `spare` and, with a reservation, in one of `due` and `later`.
    /// With a deficit, by deadline.
    due: Heap,
    /// Without one, by when they will have it.
    later: Heap,
    spare: Heap,
    /// Over their limit, by when that ends.
    limited: Heap,
    sleepers: Sleepers,
    clock: VirtualClock,
    /// Largest key at which a tenant was picked from `spare`, with credit and without; neither ever falls.
    credit_floor: u64,
    spare_floor: SpareTime,
    turns: u64,
    policy: Policy,
    overload: Overload,
}

impl CpuScheduler {
    /// A scheduler that shares its tenants with no other.
    pub fn new() -> CpuScheduler {
        CpuScheduler::default()
    }

    /// A scheduler of a server whose workers share `accounts`.
    pub fn sharing(accounts: Arc<CpuAccounts>) -> CpuScheduler {
        CpuScheduler { accounts, ..CpuScheduler::default() }
    }

    /// Makes a tenant known or changes its promise; in force at once, for queued tasks too. This, the first call that
    /// names a tenant, and [`CpuScheduler::remove`] are the only ones that allocate or take a lock.
    pub fn set_promise(&mut self, tenant: TenantId, promise: &CpuPromise, now: Nanos) {
        self.tell(now);
        let account = self.account(tenant);
        self.standing(account).promise = *promise;
        self.enforce(account);
    }

    /// Sets what a missed core-second of the tenant costs. It decides who goes short under
    /// [`crate::Overbooking::LEAST_PENALTY`]; 0 unless set.
    pub fn set_price(&mut self, tenant: TenantId, price: u64) {
        let account = self.account(tenant);
        self.standing(account).price = price;
        self.enforce(account);
    }

    /// Changes what of the promises is kept, at once and for all tenants.
    pub fn set_policy(&mut self, policy: Policy, now: Nanos) {
        self.tell(now);
        self.policy = policy;
        self.overload.set_dial(policy.overbooking());
        for account in 0..self.standings.len() {
            if self.standings[account].is_some() {
                self.enforce(account as u32);
            }
        }
    }

    /// The tenant has a task to run. Does nothing if it had one. A tenant never seen is made known with the default
    /// promise.
    pub fn runnable(&mut self, tenant: TenantId, now: Nanos) {
        self.tell(now);
        self.settle();
        let account = self.account(tenant);
        if self.standing(account).runnable {
            return;
        }
        let (virtual_now, spare_floor, credit_floor) =
            (self.clock.virtual_now(), self.spare_floor, self.credit_floor);
        let standing = self.standing(account);
        standing.runnable = true;
        standing.count_worker();
        standing.join_spare(spare_floor);
        standing.credit = standing.credit.max(credit_floor);
        if let Some(rate) = standing.rate() {
            standing.sleeps_long = virtual_now.saturating_sub(standing.slept_at) >= LATELY;
            standing.wake(rate, virtual_now);
            self.sleepers.forget(account);
        }
        self.place(account, InSpare::Keep);
    }

    /// All that a tenant has to run is background work, or not all any more. What it has reserved it gets as ever; of spare time such work gets what a
    /// tenant of weight 1 does, on an account of its own. Example: two tenants without reservations and of weight 100 with work for all of a
    /// second; the first one's is background work: it gets 10 ms. Charge what ran before this is called.
    pub fn set_background(&mut self, tenant: TenantId, background: bool, now: Nanos) {
        self.tell(now);
        let account = self.account(tenant);
        let floor = self.spare_floor;
        let standing = self.standing(account);
        if standing.background != background {
            standing.background = background;
            standing.join_spare(floor);
            if standing.runnable {
                self.place(account, InSpare::Move);
            }
        }
    }

    /// Others wait for what the tenant has to run next. No limit holds it while they do. It takes its turn by the tenant's reservation and weight as
    /// ever, and is charged: what is over the limit is paid for once nobody waits, by up to a second in which the tenant is stopped, and forgiven
    /// beyond that. Example: a limit of 0.01 and 100 ms of work that is awaited take 100 ms on a worker with nothing else to do, not 10 s; then the
    /// tenant is stopped for a second. Who says so hands out that work alone.
    pub fn set_awaited(&mut self, tenant: TenantId, is_awaited: bool, now: Nanos) {
        self.tell(now);
        let account = self.account(tenant);
        let floor = self.spare_floor;
        let standing = self.standing(account);
        if standing.is_awaited != is_awaited {
            standing.is_awaited = is_awaited;
            // What its limit has kept from it others owe it nothing for.
            standing.join_spare(floor);
            if standing.runnable {
                self.place(account, InSpare::Move);
            }
        }
    }

    /// The tenant has no task left to run. Does nothing if it had none.
    pub fn blocked(&mut self, tenant: TenantId, now: Nanos) {
        self.tell(now);
        if let Some(account) = self.find(tenant) {
            self.leave(account);
        }
    }

    /// Whose task is to run next. Work conserving: a tenant that is runnable and below its limit is always found.
    pub fn pick(&mut self, now: Nanos) -> Pick {
        self.tell(now);
        while let Some((until, account)) = self.limited.top()
            && until.value <= u128::from(self.clock.now())
        {
            self.place(account, InSpare::Keep);
        }
        loop {
            self.settle();
            let due = self.due.top();
            let Some((key, account)) = due.or_else(|| self.spare.top()) else { break };
            let now = self.clock.now();
            if self.standing(account).is_held(now) {
                // By what another worker gave it.
                self.place(account, InSpare::Keep);
                continue;
            }
            if due.is_none() {
                match key.value.checked_sub(NO_CREDIT) {
                    Some(spare) => self.spare_floor = self.spare_floor.max(spare),
                    None => self.credit_floor = self.credit_floor.max(key.value as u64),
                }
            }
            let tenant = self.standing(account).tenant;
            self.found = Some((tenant, account));
            return Pick::Run(tenant);
        }
        match self.limited.top() {
            Some((until, _)) => Pick::NotBefore(Nanos(until.value as u64)),
            None => Pick::Nobody,
        }
    }

    /// Whether the tenant that has been running for `ran`, not charged yet, must give way now: another one's deficit goes
    /// before it, or it has reached its limit. For checks within a quantum; true at most until the next pick.
    pub fn must_yield(&mut self, running: TenantId, ran: Nanos, now: Nanos) -> bool {
        self.tell(now);
        self.settle();
        let Some(account) = self.find(running) else { return false };
        let standing = self.standings[account as usize].as_ref().expect("a known tenant has a standing");
        if standing.limit.is_some_and(|limit| {
            !standing.shared.limit.allows(self.clock.now(), limit.time_for_at_least(ran.0))
        }) {
            return true;
        }
        let Some((_, first)) = self.due.top() else { return false };
        if first != account {
            return true;
        }
        let ran = standing.rate().map_or(0, |rate| rate.time_for(ran.0));
        standing.position.saturating_add(ran) >= standing.deadline && self.due.len() > 1
    }

    /// How long it takes until one of the tenants that fell asleep within the last millisecond would have a deficit if it had a task: zero if one would by now,
    /// `None` if none of them has a reservation; the server's own does not count, nor who slept for a millisecond and more before it last woke. Of more than four those are looked at that are
    /// due first. Who makes messages wait longer than that takes from a reservation, though the tenant is idle meanwhile: it has its next task only once the last was answered.
    pub fn until_sleeper_is_due(&mut self, now: Nanos) -> Option<Nanos> {
        self.tell(now);
        let now = self.clock.virtual_now();
        self.sleepers.first_due_at(now).map(|due_at| Nanos(due_at.saturating_sub(now)))
    }

    /// The tenant used processor time until `now`, in a poll or on its behalf; it may be blocked by now.
    pub fn charge(&mut self, tenant: TenantId, used: Nanos, now: Nanos) {
        self.tell(now);
        let account = self.account(tenant);
        let has_deficit = self.due.contains(account);
        let (real_now, virtual_now) = (self.clock.now(), self.clock.virtual_now());
        let standing = self.standing(account);
        standing.shared.used.fetch_add(used.0, Relaxed);
        standing.charged += used.0;
        if let Some(limit) = standing.limit {
            let time = limit.time_for_at_least(used.0);
            let forgiven = standing.shared.limit.take(real_now, used.0, time);
            if forgiven > 0 {
                standing.shared.forgiven.fetch_add(limit.work_in(forgiven), Relaxed);
            }
        }
        let mut spare = used.0;
        if let Some(rate) = standing.rate() {
            standing.fold();
            // Without a deficit when it began: from where it had one.
            let due =
                if has_deficit { used.0 } else { used.0.min(virtual_now.saturating_sub(standing.position)) };
            let excess = standing.take_due(rate, due, virtual_now);
            spare = used.0 - due + excess;
            if standing.promise.burst.0 > 0 {
                let depth = rate.time_for(standing.promise.burst.0);
                standing.shared.credit.use_up(real_now, depth, rate.time_for(due - excess));
            }
        }
        if spare > 0 {
            standing.take_spare(spare, real_now);
        }
        if standing.runnable {
            self.place(account, if spare > 0 { InSpare::Move } else { InSpare::Keep });
        }
        self.settle();
    }

    /// Takes back time that was charged and not used (the thread was preempted during the poll).
    pub fn refund(&mut self, tenant: TenantId, unused: Nanos, now: Nanos) {
        self.tell(now);
        let Some(account) = self.find(tenant) else { return };
        let standing = self.standing(account);
        standing.give_back(unused.0);
        if standing.runnable {
            self.place(account, InSpare::Move);
        }
    }

    /// Forgets a tenant, and what it used unless another worker knows it.
    pub fn remove(&mut self, tenant: TenantId) {
        let Some(account) = self.by_tenant.remove(&tenant) else { return };
        self.found = None;
        self.leave(account);
        self.sleepers.forget(account);
        let standing = self.standings[account as usize].take().expect("a known tenant has a standing");
        let shared = standing.shared.clone();
        drop(standing);
        self.accounts.release(tenant, shared);
        self.free.push(account);
    }

    /// Processor time charged to a tenant so far, by all workers that share its account.
    pub fn used(&self, tenant: TenantId) -> Nanos {
        let standing =
            self.by_tenant.get(&tenant).and_then(|account| self.standings[*account as usize].as_ref());
        standing.map_or(Nanos(0), |standing| standing.shared.used())
    }

    /// For how long a tenant was runnable here and over its limit, until the last call that told the time.
    pub fn over_limit(&mut self, tenant: TenantId) -> Nanos {
        let now = self.clock.now();
        self.find(tenant).map_or(Nanos(0), |account| self.standing(account).over(now))
    }

    /// Whether a tenant is over its limit, held by it or not.
    pub fn exceeds_limit(&mut self, tenant: TenantId, now: Nanos) -> bool {
        self.tell(now);
        let now = self.clock.now();
        self.find(tenant).is_some_and(|account| self.standing(account).is_over_limit(now))
    }

    /// Tenants that are runnable, those over their limit included.
    pub fn runnable_count(&self) -> usize {
        self.spare.len() + self.limited.len()
    }

    fn standing(&mut self, account: u32) -> &mut Standing {
        self.standings[account as usize].as_mut().expect("a known tenant has a standing")
    }

    fn find(&mut self, tenant: TenantId) -> Option<u32> {
        if let Some((found, account)) = self.found
            && found == tenant
        {
            return Some(account);
        }
        let account = *self.by_tenant.get(&tenant)?;
        self.found = Some((tenant, account));
        Some(account)
    }

    fn account(&mut self, tenant: TenantId) -> u32 {
        match self.find(tenant) {
            Some(account) => account,
            None => self.admit(tenant),
        }
    }

    #[cold]
    fn admit(&mut self, tenant: TenantId) -> u32 {
        let mut fresh = Standing::new(tenant, self.accounts.account(tenant));
        fresh.spare = self.spare_floor;
        let account = match self.free.pop() {
            Some(account) => {
                self.standings[account as usize] = Some(fresh);
                account
            }
            None => {
                self.standings.push(Some(fresh));
                let count = self.standings.len();
                for heap in [&mut self.due, &mut self.later, &mut self.spare, &mut self.limited] {
                    heap.reserve(count);
                }
                u32::try_from(count - 1).expect("fewer than 2^32 tenants on a worker")
            }
        };
        self.by_tenant.insert(tenant, account);
        account
    }

    /// Puts a promise in force.
    fn enforce(&mut self, account: u32) {
        let (policy, now, virtual_now) = (self.policy, self.clock.now(), self.clock.virtual_now());
        let floor = self.spare_floor;
        let standing = self.standing(account);
        let promise = standing.promise;
        let reserved = policy.reserves().then(|| Rate::new(promise.reserved)).flatten();
        if reserved != standing.reserved {
            standing.set_reserved(reserved, virtual_now);
        }
        standing.limit = promise.max.filter(|_| policy.limits()).and_then(Rate::new);
        standing.shared.set_limit(promise.max, now);
        standing.shared.set_burst(promise.burst, now);
        if standing.runnable {
            standing.join_spare(floor);
            for heap in [&mut self.due, &mut self.later, &mut self.spare, &mut self.limited] {
                heap.remove(account);
            }
            self.place(account, InSpare::Keep);
        }
    }

    fn tell(&mut self, now: Nanos) {
        if self.clock.tell(now.0) == Step::SetBack {
            self.set_back();
        }
    }

    #[cold]
    fn set_back(&mut self) {
        let now = self.clock.now();
        self.overload.restart_tick();
        for standing in self.standings.iter().flatten() {
            standing.shared.limit.clamp(now);
            standing.shared.credit.restart(now);
        }
        let standings = &self.standings;
        self.limited.rekey(|account, key| {
            let standing = standings[account as usize].as_ref().expect("a runnable tenant has a standing");
            Key { value: u128::from(standing.shared.limit.allowed_at()), ..key }
        });
    }

    /// Brings `due` up to the present: who has a deficit by now is in it, its first entry is what it seems, and virtual time
    /// is not further past that than it may.
    fn settle(&mut self) {
        if self.overload.is_tick(self.clock.now()) {
            self.tick();
        }
        while let Some((key, account)) = self.later.top()
            && key.value <= u128::from(self.clock.virtual_now())
        {
            self.standing(account).fold();
            self.place(account, InSpare::Keep);
        }
        // What other workers gave a tenant moves its deadline on, never back: so an entry comes to the top too early
        // rather than too late, and is put right there.
        while let Some((_, account)) = self.due.top()
            && self.standing(account).fold()
        {
            self.place(account, InSpare::Keep);
        }
        if let Some((key, _)) = self.due.top()
            && self.overload.order() == Order::Deadline
            && self.clock.hold((key.value as u64).saturating_add(self.overload.late_max()))
        {
            self.overload.note_held();
        }
    }

    /// Ends a tick of the overload policy.
    #[cold]
    fn tick(&mut self) {
        let mut late = false;
        let now = self.clock.virtual_now();
        let kept_since = now.saturating_sub(self.overload.kept());
        if self.overload.is_overloaded() {
            // Nobody keeps a claim to what went to others.
            for account in self.due.accounts() {
                let standing =
                    self.standings[account as usize].as_mut().expect("a runnable tenant has a standing");
                late |= standing.deadline.saturating_add(self.overload.late_max()) < now;
                let lost = kept_since.saturating_sub(standing.deadline);
                standing.deadline += lost;
                standing.slice_end += lost;
                standing.position += lost;
            }
        }
        let (was_overloaded, before) = (self.overload.is_overloaded(), self.overload.order());
        self.overload.tick(self.clock.now(), late);
        let order = self.overload.order();
        if was_overloaded || order != before {
            let standings = &self.standings;
            self.due.rekey(|account, key| {
                let standing =
                    standings[account as usize].as_ref().expect("a runnable tenant has a standing");
                Key { value: due_key(order, standing), ..key }
            });
        }
    }

    /// Puts a runnable tenant where it belongs.
    fn place(&mut self, account: u32, in_spare: InSpare) {
        self.turns += 1;
        let turn = self.turns;
        let (now, virtual_now) = (self.clock.now(), self.clock.virtual_now());
        let standing = self.standings[account as usize].as_mut().expect("a runnable tenant has a standing");
        debug_assert!(standing.runnable);
        let is_over = standing.is_over_limit(now);
        standing.note_over(is_over, now);
        if is_over && !standing.is_awaited {
            for heap in [&mut self.due, &mut self.later, &mut self.spare] {
                heap.remove(account);
            }
            let until = u128::from(standing.shared.limit.allowed_at());
            self.limited.put(account, Key { value: until, turn });
            return;
        }
        if self.limited.remove(account) {
            standing.come_from_limit(self.spare_floor);
        }
        if let Some(rate) = standing.rate() {
            let has_deficit = self.due.contains(account);
            let at_deadline = standing.position >= standing.deadline;
            let slice_over = at_deadline && standing.pass_deadline(rate);
            // A slice that was begun may be ended.
            if (has_deficit && !slice_over) || standing.position <= virtual_now {
                self.later.remove(account);
                if at_deadline || !has_deficit {
                    self.due.put(account, Key { value: due_key(self.overload.order(), standing), turn });
                }
            } else {
                self.due.remove(account);
                self.later.put(account, Key { value: u128::from(standing.position), turn });
            }
        }
        if in_spare == InSpare::Move || !self.spare.contains(account) {
            let has_credit = standing.reserved.is_some()
                && standing.promise.burst.0 > 0
                && standing.shared.credit.has_credit(now);
            let value =
                if has_credit { u128::from(standing.credit) } else { NO_CREDIT | standing.spare_taken() };
            self.spare.put(account, Key { value, turn });
        }
    }

    /// Makes a tenant blocked.
    fn leave(&mut self, account: u32) {
        let (now, virtual_now) = (self.clock.now(), self.clock.virtual_now());
        let standing = self.standing(account);
        if !standing.runnable {
            return;
        }
        standing.runnable = false;
        standing.note_over(false, now);
        standing.count_worker();
        standing.sleep(virtual_now);
        // The server's own tasks have no next one for being answered.
        if standing.reserved.is_some() && standing.tenant != TenantId::SYSTEM {
            let due_at = standing.position;
            // Who thinks for long is not back at once.
            if !standing.sleeps_long {
                self.sleepers.note(account, virtual_now, due_at);
            }
        }
        for heap in [&mut self.due, &mut self.later, &mut self.spare, &mut self.limited] {
            heap.remove(account);
        }
    }
}

/// The order among tenants with a deficit; the deadline is in its lower half.
fn due_key(order: Order, standing: &Standing) -> u128 {
    let rank = match order {
        Order::Deadline => 0,
        Order::Price => u64::MAX - standing.price,
    };
    u128::from(rank) << 64 | u128::from(standing.deadline)
}

#[cfg(test)]
mod tests;
