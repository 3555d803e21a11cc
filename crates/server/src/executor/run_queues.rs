//! The worker's own queues: what is ready, whose it is, and what the present accounting interval has cost.
//!
//! Only the worker's thread touches them. The governor picks the tenant; within a tenant it is first come, first
//! served, upkeep that others wait for first, background work last.

use std::collections::VecDeque;

use base::{Nanos, TenantId};
use governor::{CpuFeed, CpuScheduler, Pick, Policy};
use rustc_hash::FxHashMap;

use super::account::Wait;
use super::governing::{CpuGoverning, Terms};
use super::handle::{Account, Rank, Work};

/// So much that is sent is a poll's part of the worker's own work: by reckoning, what the system does for one takes as long as the receiving and sending of a small
/// statement.
const SENT_LEN_PER_POLL: usize = 16 << 10;

/// While upkeep that others wait for stands behind a suspended call of other work, no limit of processor time holds the call for so long, in each
/// [`CALLS_LIFTED_EVERY`]: the upkeep needs what it is in the middle of. More would be a tenant's way around its own limit: it decides how long its
/// statements are, and whether its records keep the log.
const CALLS_LIFTED_MAX: Nanos = Nanos::from_secs(1);
const CALLS_LIFTED_EVERY: Nanos = Nanos::from_secs(60);

struct Queue {
    account: Account,
    /// Upkeep that others wait for.
    awaited: VecDeque<Waiting>,
    /// What goes before background work; a call that was suspended first of all, whatever it is.
    work: VecDeque<Waiting>,
    /// Background work, which waits for all of `work`.
    background: VecDeque<Waiting>,
    /// Proxies among both.
    proxies: u32,
    /// Analytical threads for which it has work, and which others have.
    threads_wanted: u32,
    /// The scheduler knows that all there is is background work.
    is_background: bool,
    /// It knows that what goes next is awaited, so that no limit holds it.
    is_awaited: bool,
    /// What was popped was awaited.
    runs_awaited: bool,
    /// And is a suspended call of other work that goes before awaited upkeep.
    is_call_lifted: bool,
    /// What such calls took since then, when a [`CALLS_LIFTED_EVERY`] began.
    calls_lifted: Nanos,
    lifted_from: Nanos,
    /// Tasks that stand still, in order, while the tenant is held.
    held: Option<VecDeque<Waiting>>,
    /// The tenant is at home elsewhere.
    has_left: bool,
    /// What was popped and is not settled yet.
    running: Option<Running>,
    /// Polls and time charged since the last reconciliation; both zero if the queue is not in `touched`.
    polls: u64,
    polled: Nanos,
}

struct Waiting {
    work: Work,
    /// A call that was suspended goes on by it.
    is_call: bool,
    /// Since when, and for how long its tenant had been over its limit by then.
    since: Nanos,
    over_limit: Nanos,
}

/// Which of the proxies that stand in queues are to stand still.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Held {
    All,
    /// Those of tenants over their limits.
    OverLimit,
}

/// Where work stands among what of its tenant goes in the same order.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) enum Place {
    First,
    #[default]
    Last,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Running {
    Task,
    Proxy,
}

impl Queue {
    fn ready(&self) -> usize {
        self.awaited.len() + self.work.len() + self.background.len()
    }

    fn line(&mut self, rank: Rank) -> &mut VecDeque<Waiting> {
        match rank {
            Rank::Awaited => &mut self.awaited,
            Rank::Ordinary => &mut self.work,
            Rank::Background => &mut self.background,
        }
    }

    /// Whether what goes next is upkeep that others wait for, or what that has to wait for and may be awaited with it.
    fn is_next_awaited(&mut self, now: Nanos) -> bool {
        let is_upkeeps = |call: &Waiting| call.work.rank() == Rank::Awaited;
        if self.awaited.is_empty() {
            return self.work.front().is_some_and(|first| first.is_call && is_upkeeps(first));
        }
        if self.work.iter().find(|waiting| waiting.is_call).is_none_or(is_upkeeps) {
            return true;
        }
        if now - self.lifted_from >= CALLS_LIFTED_EVERY {
            (self.lifted_from, self.calls_lifted) = (now, Nanos(0));
        }
        self.calls_lifted < CALLS_LIFTED_MAX
    }

    fn pop(&mut self) -> Option<Waiting> {
        if self.awaited.is_empty() {
            return self.work.pop_front().or_else(|| self.background.pop_front());
        }
        // Upkeep that came to the tenant's state first would run a suspended call to its end.
        let Some(call) = self.work.iter().position(|waiting| waiting.is_call) else {
            return self.awaited.pop_front();
        };
        let call = self.work.remove(call)?;
        self.is_call_lifted = call.work.rank() != Rank::Awaited;
        Some(call)
    }

    /// What could use a core of its own: all tasks together, which one worker runs, each proxy, and what waits for a thread that others have.
    fn demand(&self) -> u32 {
        let waiting = self.ready() as u32 - self.proxies;
        let is_held = self.held.as_ref().is_some_and(|held| !held.is_empty());
        let tasks = u32::from(waiting > 0 || is_held || self.running == Some(Running::Task));
        tasks + self.proxies + u32::from(self.running == Some(Running::Proxy)) + self.threads_wanted
    }
}

pub(super) struct RunQueues {
    scheduler: CpuScheduler,
    /// Tells the meter, which knows nothing of the scheduler.
    feed: CpuFeed,
    /// By the account's queue index; sparse, since accounts are numbered by whoever first asks.
    queues: Vec<Option<Queue>>,
    by_tenant: FxHashMap<TenantId, usize>,
    touched: Vec<usize>,
    /// Time of the worker's thread, since the last reconciliation, that was measured and charged by itself.
    charged_apart: Nanos,
    ready: usize,
    /// Queues in which a proxy stands.
    with_proxies: Vec<usize>,
    /// All that is ready belongs to tenants over their limits, until this instant.
    not_before: Option<Nanos>,
    /// What comes now may have come at any time since then, when a long poll began.
    unseen_since: Option<Nanos>,
}

impl RunQueues {
    pub(super) fn new(governing: &CpuGoverning, worker: usize) -> RunQueues {
        RunQueues {
            scheduler: governing.scheduler(),
            feed: governing.feed(worker),
            queues: Vec::new(),
            by_tenant: FxHashMap::default(),
            touched: Vec::new(),
            charged_apart: Nanos(0),
            ready: 0,
            with_proxies: Vec::new(),
            not_before: None,
            unseen_since: None,
        }
    }

    /// Until the next call, what comes may have come at any time since then: the worker did not look.
    pub(super) fn set_unseen_since(&mut self, since: Option<Nanos>) {
        self.unseen_since = since;
    }

    /// Whether what comes now may have come while the worker did not look.
    pub(super) fn may_be_unseen(&self) -> bool {
        self.unseen_since.is_some()
    }

    /// Tells the meter what there is to do for a tenant once more of it has come.
    fn tell_come(&mut self, tenant: TenantId, demand: u32, now: Nanos) {
        match self.unseen_since {
            Some(since) => self.feed.came_unseen(tenant, demand, since, now),
            None => self.feed.tasks(tenant, demand, now),
        }
    }

    /// Puts a promise in force.
    pub(super) fn set_terms(&mut self, tenant: TenantId, terms: &Terms, now: Nanos) {
        self.scheduler.set_promise(tenant, &terms.promise, now);
        self.scheduler.set_price(tenant, terms.penalty_micros);
        // Who was over a limit may not be any more.
        self.not_before = None;
    }

    /// Changes what of the promises is kept.
    pub(super) fn set_policy(&mut self, policy: Policy, now: Nanos) {
        self.scheduler.set_policy(policy, now);
        // Who was over a limit may not be held to it any more.
        self.not_before = None;
    }

    /// Whether anything ready may be run now.
    pub(super) fn has_work(&self) -> bool {
        self.ready > 0 && self.not_before.is_none()
    }

    /// When to look again, if all that is ready belongs to tenants over their limits.
    pub(super) fn not_before(&self) -> Option<Nanos> {
        self.not_before
    }

    /// Has the threads of proxies that stand in a queue stand still, each until it is picked.
    pub(super) fn hold_proxies(&mut self, which: Held, now: Nanos) {
        for index in &self.with_proxies {
            let queue = self.queues[*index].as_ref().expect("a queue with a proxy exists");
            let is_over_limit = self.scheduler.exceeds_limit(queue.account.tenant, now);
            if which == Held::OverLimit && !is_over_limit {
                continue;
            }
            for waiting in queue.work.iter().chain(&queue.background) {
                match &waiting.work {
                    Work::Proxy(proxy) if is_over_limit => proxy.hold_at_limit(),
                    Work::Proxy(proxy) => proxy.hold(),
                    Work::Task(..) | Work::Resident(..) => {}
                }
            }
        }
    }

    /// See [`CpuScheduler::until_sleeper_is_due`].
    pub(super) fn until_sleeper_is_due(&mut self, now: Nanos) -> Option<Nanos> {
        self.scheduler.until_sleeper_is_due(now)
    }

    /// Whether a tenant is over its limit.
    pub(super) fn is_over_limit(&mut self, tenant: TenantId, now: Nanos) -> bool {
        self.scheduler.exceeds_limit(tenant, now)
    }

    /// A proxy has come to stand in a queue.
    fn proxy_comes(&mut self, index: usize) {
        let queue = self.queues[index].as_mut().expect("a queue with work exists");
        queue.proxies += 1;
        if queue.proxies == 1 {
            self.with_proxies.push(index);
        }
    }

    /// One does so no more.
    fn proxy_goes(&mut self, index: usize) {
        let queue = self.queues[index].as_mut().expect("a queue with work exists");
        queue.proxies -= 1;
        if queue.proxies == 0 {
            self.with_proxies.retain(|with| *with != index);
        }
    }

    /// Whether a proxy stands in a queue.
    pub(super) fn has_proxy(&self) -> bool {
        !self.with_proxies.is_empty()
    }

    /// Queues work.
    pub(super) fn push(&mut self, account: &Account, work: Work, place: Place, now: Nanos) {
        let is_proxy = work.is_proxy();
        let index = account.queue;
        let over_limit = self.scheduler.over_limit(account.tenant);
        let queue = self.queue(account);
        if let Some(held) = queue.held.as_mut().filter(|_| !is_proxy) {
            held.push_back(Waiting { work, is_call: place == Place::First, since: now, over_limit });
            let demand = queue.demand();
            self.tell_come(account.tenant, demand, now);
            return;
        }
        let waiting = Waiting { work, is_call: place == Place::First, since: now, over_limit };
        match place {
            // As background work, too: whoever came to the tenant's state before it would run it to its end.
            Place::First => queue.work.push_front(waiting),
            Place::Last => queue.line(waiting.work.rank()).push_back(waiting),
        }
        let was_empty = queue.ready() == 1;
        if is_proxy {
            self.proxy_comes(index);
        }
        let demand = self.queue(account).demand();
        self.not_before = None;
        self.rank(index, now);
        self.tell_come(account.tenant, demand, now);
        if was_empty {
            self.scheduler.runnable(account.tenant, now);
        }
        debug_assert_eq!(self.by_tenant.get(&account.tenant), Some(&index));
        self.ready += 1;
    }

    fn queue(&mut self, account: &Account) -> &mut Queue {
        let index = account.queue;
        if index >= self.queues.len() {
            self.queues.resize_with(index + 1, || None);
        }
        let by_tenant = &mut self.by_tenant;
        self.queues[index].get_or_insert_with(|| {
            by_tenant.insert(account.tenant, index);
            Queue {
                account: account.clone(),
                awaited: VecDeque::new(),
                work: VecDeque::new(),
                background: VecDeque::new(),
                proxies: 0,
                threads_wanted: 0,
                is_background: false,
                is_awaited: false,
                runs_awaited: false,
                is_call_lifted: false,
                calls_lifted: Nanos(0),
                lifted_from: Nanos(0),
                held: None,
                has_left: false,
                running: None,
                polls: 0,
                polled: Nanos(0),
            }
        })
    }

    /// So many more analytical threads would work for the tenant, if others had not theirs.
    pub(super) fn set_threads_wanted(&mut self, account: &Account, threads: u32, now: Nanos) {
        let queue = self.queue(account);
        queue.threads_wanted = threads;
        let demand = queue.demand();
        self.feed.tasks(account.tenant, demand, now);
    }

    /// The next piece of work by the governor's choice. Its tenant counts as runnable until [`RunQueues::settle`]: a
    /// tenant whose only task yields is not one that slept.
    pub(super) fn pop(&mut self, now: Nanos) -> Option<(usize, Work)> {
        let pick = self.scheduler.pick(now);
        self.not_before = if let Pick::NotBefore(until) = pick { Some(until) } else { None };
        let tenant = pick.tenant()?;
        let index = self.by_tenant[&tenant];
        let queue = self.queues[index].as_mut().expect("a runnable tenant has a queue");
        queue.runs_awaited = queue.is_awaited;
        let Waiting { work, since, over_limit, .. } = queue.pop().expect("a runnable tenant has work");
        let (waited, over) = (now - since, self.scheduler.over_limit(tenant) - over_limit);
        if over > Nanos(0) {
            queue.account.add_wait(Wait::OwnCap, over.min(waited));
        }
        queue.account.add_wait(Wait::Runnable, waited - over);
        queue.running = Some(if work.is_proxy() { Running::Proxy } else { Running::Task });
        self.ready -= 1;
        if work.is_proxy() {
            self.proxy_goes(index);
        }
        Some((index, work))
    }

    /// Puts back what was popped and not run; it is first in its queue again.
    pub(super) fn put_back(&mut self, index: usize, work: Work, now: Nanos) {
        let tenant = self.tenant_of(index);
        let over_limit = self.scheduler.over_limit(tenant);
        let queue = self.queues[index].as_mut().expect("a popped queue exists");
        queue.running = None;
        (queue.runs_awaited, queue.is_call_lifted) = (false, false);
        let is_proxy = work.is_proxy();
        let waiting = Waiting { work, is_call: false, since: now, over_limit };
        queue.line(waiting.work.rank()).push_front(waiting);
        self.ready += 1;
        if is_proxy {
            self.proxy_comes(index);
        }
    }

    /// Ends the running of what was popped: its tenant is blocked if nothing of it is ready.
    pub(super) fn settle(&mut self, index: usize, now: Nanos) {
        let queue = self.queues[index].as_mut().expect("a popped queue exists");
        queue.running = None;
        (queue.runs_awaited, queue.is_call_lifted) = (false, false);
        let tenant = queue.account.tenant;
        self.feed.tasks(tenant, queue.demand(), now);
        match queue.ready() {
            0 => self.scheduler.blocked(tenant, now),
            _ => self.rank(index, now),
        }
    }

    /// Tells the scheduler whether others wait for what of a tenant goes next, and whether all that is ready is background work. The latter not while
    /// some of it runs: that is charged as what it was picked as.
    fn rank(&mut self, index: usize, now: Nanos) {
        let queue = self.queues[index].as_mut().expect("a queue with work exists");
        // What is background work stands first there alone, and others behind it have it go on as theirs.
        let is_background = match queue.work.front() {
            None => queue.awaited.is_empty(),
            Some(first) => queue.awaited.is_empty() && queue.work.len() == 1 && first.work.is_background(),
        };
        let is_awaited = queue.is_next_awaited(now);
        if queue.is_awaited != is_awaited {
            queue.is_awaited = is_awaited;
            self.scheduler.set_awaited(queue.account.tenant, is_awaited, now);
        }
        if queue.is_background != is_background && queue.running.is_none() {
            queue.is_background = is_background;
            self.scheduler.set_background(queue.account.tenant, is_background, now);
        }
    }

    pub(super) fn tenant_of(&self, index: usize) -> TenantId {
        self.queues[index].as_ref().expect("a popped queue exists").account.tenant
    }

    /// Charges a poll that ended at `now`.
    pub(super) fn charge_poll(&mut self, index: usize, used: Nanos, now: Nanos) {
        let queue = self.queues[index].as_mut().expect("a popped queue exists");
        if queue.polls == 0 && queue.polled == Nanos(0) {
            self.touched.push(index);
        }
        queue.polls += 1;
        queue.polled += used;
        if queue.is_call_lifted {
            queue.calls_lifted += used;
        }
        queue.account.add_poll(used);
        self.feed.used(queue.account.tenant, used, now);
        if queue.runs_awaited {
            self.feed.was_awaited(queue.account.tenant, used, now);
        }
        self.scheduler.charge(queue.account.tenant, used, now);
    }

    /// Counts what a poll that was charged gave to sockets: the system copies it and carries it to the client outside of polls, in what these share.
    pub(super) fn count_sent(&mut self, index: usize, len: usize) {
        let queue = self.queues[index].as_mut().expect("a popped queue exists");
        queue.polls += (len / SENT_LEN_PER_POLL) as u64;
    }

    /// Charges `system` a poll of the worker's duty, which has no part in the worker's own work: system calls for sockets and disks, most of that, are made
    /// for those whose tasks are polled.
    pub(super) fn charge_duty(&mut self, system: &Account, used: Nanos, now: Nanos) {
        let index = system.queue;
        let queue = self.queue(system);
        let is_touched = queue.polls > 0 || queue.polled > Nanos(0);
        queue.polled += used;
        if !is_touched && used > Nanos(0) {
            self.touched.push(index);
        }
        self.charge_exact(system, used, now);
    }

    /// Charges time of the worker's thread that was no poll of what was popped.
    pub(super) fn charge_beside(&mut self, account: &Account, used: Nanos, now: Nanos) {
        self.queue(account);
        self.charge_poll(account.queue, used, now);
    }

    /// Counts the running of a proxy among the polls that share the worker's own work, and charges its tenant what the quantum took of the worker's
    /// thread.
    pub(super) fn charge_quantum(&mut self, account: &Account, took: Nanos, now: Nanos) {
        let index = account.queue;
        let queue = self.queue(account);
        let is_touched = queue.polls > 0 || queue.polled > Nanos(0);
        queue.polls += 1;
        if !is_touched {
            self.touched.push(index);
        }
        self.charged_apart += took;
        self.charge_exact(account, took, now);
    }

    /// Charges what a message of a query's thread had the worker do. It came by the worker's own work as a poll does, and has as large a part of that.
    pub(super) fn charge_message(&mut self, account: &Account, used: Nanos, now: Nanos) {
        let index = account.queue;
        let queue = self.queue(account);
        let is_touched = queue.polls > 0 || queue.polled > Nanos(0);
        queue.polls += 1;
        queue.polled += used;
        if !is_touched {
            self.touched.push(index);
        }
        self.charge_exact(account, used, now);
    }

    /// Charges processor time measured exactly, on another thread's clock.
    pub(super) fn charge_exact(&mut self, account: &Account, used: Nanos, now: Nanos) {
        account.add(used);
        self.feed.used(account.tenant, used, now);
        self.scheduler.charge(account.tenant, used, now);
    }

    /// Charges processor time of a thread that stands in no queue and is kept to no worker's core.
    pub(super) fn charge_elsewhere(&mut self, account: &Account, used: Nanos, now: Nanos) {
        account.add(used);
        self.feed.used_elsewhere(account.tenant, used, now);
        self.scheduler.charge(account.tenant, used, now);
    }

    /// Has the meter alone count processor time.
    pub(super) fn meter_past(&mut self, tenant: TenantId, used: Nanos, now: Nanos) {
        self.feed.used_before(tenant, used, now);
    }

    /// Ends an accounting interval in which the worker's thread used `thread_cpu` by its own clock. What polls were
    /// charged beyond that (the thread was preempted) goes back in proportion to the time; what is missing (system
    /// calls for sockets and disk, the executor itself) is charged in proportion to the polls. So the charges add up to
    /// the thread's time, together with what proxies' quanta took of it. Without a poll the interval is the server's own, charged to `system`.
    pub(super) fn reconcile(&mut self, thread_cpu: Nanos, system: &Account, now: Nanos) {
        let thread_cpu = thread_cpu - std::mem::take(&mut self.charged_apart);
        let mut polls = 0;
        let mut polled = 0;
        for index in &self.touched {
            let queue = self.queues[*index].as_ref().expect("a touched queue stays until it is reconciled");
            polls += queue.polls;
            polled += queue.polled.0;
        }
        let missing = thread_cpu.0.saturating_sub(polled);
        let excess = polled.saturating_sub(thread_cpu.0);
        if polls == 0 && missing > 0 {
            self.queue(system);
            self.charge_exact(system, Nanos(missing), now);
        }
        for index in self.touched.drain(..) {
            let queue = self.queues[index].as_mut().expect("checked above");
            let tenant = queue.account.tenant;
            if missing > 0 {
                let share = share_of(missing, queue.polls, polls);
                queue.account.add(share);
                self.feed.used(tenant, share, now);
                self.scheduler.charge(tenant, share, now);
            } else if excess > 0 {
                let share = share_of(excess, queue.polled.0, polled);
                queue.account.take_back(share);
                self.feed.take_back(tenant, share, now);
                self.scheduler.refund(tenant, share, now);
            }
            queue.polls = 0;
            queue.polled = Nanos(0);
        }
    }

    /// Whether the tenant has, or had, work here.
    pub(super) fn has_queue(&self, tenant: TenantId) -> bool {
        self.by_tenant.contains_key(&tenant)
    }

    /// Whether no work of the tenant is ready or held.
    pub(super) fn is_idle(&self, tenant: TenantId) -> bool {
        let index = self.by_tenant.get(&tenant);
        let queue = index.and_then(|index| self.queues[*index].as_ref());
        queue.is_none_or(|queue| queue.ready() == 0 && queue.held.is_none())
    }

    /// Forgets a tenant whose account nobody else holds, so that no work of it is left.
    pub(super) fn forget(&mut self, tenant: TenantId, now: Nanos) {
        if let Some(index) = self.by_tenant.remove(&tenant) {
            let queue = self.queues[index].take().expect("a known tenant has a queue");
            assert!(queue.ready() == 0 && queue.held.is_none(), "work holds its account");
            self.touched.retain(|touched| *touched != index);
        }
        self.feed.remove(tenant, now);
        self.scheduler.remove(tenant);
    }

    /// Has the tenant's tasks stand still. The meter goes on counting that they want to run.
    pub(super) fn hold(&mut self, account: &Account, now: Nanos) {
        let queue = self.queue(account);
        assert!(queue.held.is_none() && queue.running.is_none(), "a tenant is held once, and not by itself");
        let was_ready = queue.ready() > 0;
        let mut held = VecDeque::new();
        for line in [&mut queue.work, &mut queue.awaited, &mut queue.background] {
            let (proxies, tasks): (VecDeque<_>, VecDeque<_>) =
                line.drain(..).partition(|waiting| waiting.work.is_proxy());
            *line = proxies;
            held.extend(tasks);
        }
        let (left, count) = (queue.ready(), held.len());
        queue.held = Some(held);
        self.ready -= count;
        match left {
            0 if was_ready => self.scheduler.blocked(account.tenant, now),
            0 => {}
            _ => self.rank(account.queue, now),
        }
    }

    /// Has the tenant's tasks go on after [`RunQueues::hold`] at `since`.
    pub(super) fn release(&mut self, account: &Account, since: Nanos, now: Nanos) {
        self.feed.held_up(account.tenant, now - since, now);
        let queue = self.queue(account);
        let held = queue.held.take().expect("a tenant that is held");
        if held.is_empty() {
            return;
        }
        let was_empty = queue.ready() == 0;
        let count = held.len();
        for waiting in held {
            // A call is the first of what was held.
            let line = if waiting.is_call { &mut queue.work } else { queue.line(waiting.work.rank()) };
            line.push_back(waiting);
        }
        self.ready += count;
        self.not_before = None;
        self.rank(account.queue, now);
        if was_empty {
            self.scheduler.runnable(account.tenant, now);
        }
    }

    /// Whether tasks of a tenant that is held stand still.
    pub(super) fn has_held(&mut self, account: &Account) -> bool {
        self.queue(account).held.as_ref().is_some_and(|held| !held.is_empty())
    }

    /// Takes out the tasks of a tenant that is held since `since`: it is at home elsewhere from now on. Its analytical threads stay.
    pub(super) fn depart(&mut self, account: &Account, since: Nanos, now: Nanos) -> Vec<Work> {
        self.feed.held_up(account.tenant, now - since, now);
        let queue = self.queue(account);
        let held = queue.held.take().expect("a tenant is held before it leaves");
        queue.has_left = true;
        for waiting in &held {
            account.add_wait(Wait::Runnable, now - waiting.since);
        }
        let demand = queue.demand();
        self.feed.tasks(account.tenant, demand, now);
        held.into_iter().map(|waiting| waiting.work).collect()
    }

    /// The tenant is at home here from now on. `on_its_way`: since when tasks of it were, if there are any.
    pub(super) fn arrive(&mut self, account: &Account, on_its_way: Option<Nanos>, now: Nanos) {
        self.queue(account).has_left = false;
        if let Some(since) = on_its_way {
            self.feed.was_on_its_way(account.tenant, since, now);
        }
    }

    /// Whether the tenant was at home here and is elsewhere now.
    pub(super) fn has_left(&self, account: &Account) -> bool {
        self.queues.get(account.queue).and_then(Option::as_ref).is_some_and(|queue| queue.has_left)
    }

    /// As [`RunQueues::has_left`].
    pub(super) fn has_left_by_name(&self, tenant: TenantId) -> bool {
        let index = self.by_tenant.get(&tenant);
        index.and_then(|index| self.queues[*index].as_ref()).is_some_and(|queue| queue.has_left)
    }

    /// Takes all work out, of tenants over their limits too, for the worker's end.
    pub(super) fn take_all(&mut self, now: Nanos) -> Vec<Work> {
        let mut all = Vec::new();
        for queue in self.queues.iter_mut().flatten() {
            let held = queue.held.iter_mut().flat_map(|held| held.drain(..));
            let ready = queue.awaited.drain(..).chain(queue.work.drain(..)).chain(queue.background.drain(..));
            all.extend(ready.chain(held).map(|waiting| waiting.work));
            (queue.proxies, queue.running) = (0, None);
            self.feed.tasks(queue.account.tenant, 0, now);
            self.scheduler.blocked(queue.account.tenant, now);
        }
        self.with_proxies.clear();
        (self.ready, self.not_before) = (0, None);
        all
    }
}

fn share_of(total: u64, part: u64, whole: u64) -> Nanos {
    Nanos((u128::from(total) * u128::from(part) / u128::from(whole.max(1))) as u64)
}
