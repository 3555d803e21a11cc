//! The worker loop: poll what the governor picks, start the gathered log flush, turn the ring, and again. The ring is turned between two
//! polls as well where a tenant with a reservation that has just been answered is due soon.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use base::{Nanos, TenantId, VolumeNo, WorkerId};
use env::{Env, Priority, Reactor, Ticks};

use super::duty::Duty;
use super::governing::{Governing, TURN_MAX};
use super::handle::{Account, Arrival, Message, Shared, Work, WorkerHandle};
use super::io_gate::{Gate, WorkerIo};
use super::preempt::{Preemption, suspend};
use super::proxy::{PROXY_QUANTUM, ProxyState, least_quantum};
use super::run_queues::{Held, Place, RunQueues};

/// A call that is suspended has run for so long at least since it began or went on.
const SLICE_MIN: Nanos = Nanos::from_micros(100);
/// Polls that took longer have kept what they gathered waiting long enough: the flush of it does not wait for the end of the next ones.
const LONG_TURN: Nanos = Nanos::from_micros(400);
/// After so much polling the worker looks at the ring within a turn, if somebody with a reservation is due within [`DUE_SOON`].
const LOOK_INTERVAL: Nanos = Nanos::from_micros(50);
/// What a client is to have its answer ahead by, so that its next message is here when its tenant is due.
const DUE_SOON: Nanos = Nanos::from_micros(100);
/// In a poll as long as that others wait unseen for a time that counts.
const UNSEEN_MIN: Nanos = Nanos::from_millis(10);
/// A poll as long as that makes I/O of its own tenant late: the meters hold delays of less for none.
const OWN_POLL_MIN: Nanos = Nanos::from_millis(1);
/// How often charges are held against the thread's own clock.
const RECONCILE_INTERVAL: Nanos = Nanos::from_millis(1);
/// How long after it last raised a proxy a worker keeps its own raised priority.
const RAISED_TIME: Nanos = Nanos::from_millis(10);
/// What one turn did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TurnReport {
    /// Tasks polled and proxies run.
    pub polls: usize,
    /// Operations and timers completed.
    pub completions: usize,
    /// Whether work was ready when the turn ended.
    pub more: bool,
}

/// One worker thread's executor. Made, turned and dropped on its thread.
pub struct Worker {
    env: Env,
    handle: WorkerHandle,
    governing: Governing,
    io: Rc<RefCell<WorkerIo>>,
    system: Account,
    local: Rc<Local>,
    mail: Vec<Message>,
    duty: Option<Duty>,
    /// How long the last turn polled tasks.
    polled: Nanos,
    raised: Option<Arc<ProxyState>>,
    /// Whether the system lets the worker raise itself.
    may_raise_itself: bool,
    /// Whether it let it raise the proxy that it raised last.
    raises_proxies: bool,
    /// While the worker is raised above proxies: when it last raised one.
    raised_itself: Option<Nanos>,
    reconciled_at: Nanos,
    thread_cpu: Nanos,
    /// Dropped tenants of which a task or a query's thread is left.
    to_forget: Vec<TenantId>,
    // Declared last: the ring goes after everything that may still refer to it.
    reactor: Reactor,
}

struct Local {
    shared: Arc<Shared>,
    queues: RefCell<RunQueues>,
    /// When this turn began.
    now: Cell<Nanos>,
    /// Since when this turn polls.
    turn_began: Cell<Ticks>,
    /// See [`Governing::turn_max`].
    turn_max: Nanos,
    /// Whose task is being polled, and since when.
    polling: Cell<Option<(TenantId, Ticks)>>,
    /// Time of the present poll that was charged already, to others.
    charged_to_others: Cell<Nanos>,
    /// I/Os by which the thread was blocked in that time, ever.
    blocked_for_others: Cell<u64>,
    /// Bytes that the present poll gave to sockets.
    sent: Cell<usize>,
    preemption: Preemption,
    /// The thread's own clock when charges were last held against it.
    reconciled_cpu: Cell<Nanos>,
    io: Rc<RefCell<WorkerIo>>,
    env: Env,
}

thread_local! {
    static CURRENT: RefCell<Option<Rc<Local>>> = const { RefCell::new(None) };
    static CURRENT_SERIAL: Cell<Option<u64>> = const { Cell::new(None) };
}

struct Restore(Option<Rc<Local>>, Option<u64>);

impl Drop for Restore {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
        CURRENT_SERIAL.set(self.1);
    }
}

/// Serial number of the worker whose turn the caller is in.
pub(super) fn current_serial() -> Option<u64> {
    CURRENT_SERIAL.get()
}

/// Makes `local` the thread's current worker until the guard is dropped.
fn make_current(local: &Rc<Local>) -> Restore {
    let serial = local.shared.serial;
    Restore(CURRENT.replace(Some(local.clone())), CURRENT_SERIAL.replace(Some(serial)))
}

/// The worker whose turn the caller is in.
pub fn current_worker() -> Option<WorkerHandle> {
    CURRENT.with_borrow(|current| current.as_ref().map(|local| WorkerHandle(local.shared.clone())))
}

/// The tenant whose task is being polled.
pub fn current_tenant() -> Option<TenantId> {
    CURRENT.with_borrow(|current| current.as_ref()?.polling.get().map(|(tenant, _)| tenant))
}

/// When a tenant is below its limits of I/O on a volume again; `None` if it is, or outside of a turn.
pub(crate) fn io_opens_at(tenant: TenantId, volume: VolumeNo) -> Option<Nanos> {
    CURRENT.with_borrow(|current| {
        let local = current.as_ref()?;
        local.io.borrow_mut().opens_at(tenant, volume, local.env.now())
    })
}

/// What a poll took.
struct Polled {
    end: Ticks,
    lasted: Nanos,
    /// Without what others were charged for meanwhile.
    used: Nanos,
}

/// What became of a query's quantum.
#[derive(Default)]
pub(super) struct Quantum {
    /// Operations and timers that completed meanwhile.
    pub(super) completed: usize,
    /// What the worker did for it before it waited and after.
    pub(super) around: Nanos,
}

impl Quantum {
    /// What of `took`, which the quantum took of the worker's thread, is the query's: all that was around the wait, and of the rest an equal part for the query
    /// and for each that something came for, which has its part as well.
    pub(super) fn of_query(&self, took: Nanos) -> Nanos {
        let around = self.around.min(took);
        around + Nanos((took - around).0 / (1 + self.completed as u64))
    }
}

impl Local {
    /// Makes one poll in the name of `tenant`. It began at `begin`.
    fn poll_as(&self, tenant: TenantId, begin: Ticks, poll: impl FnOnce()) -> Polled {
        self.polling.set(Some((tenant, begin)));
        self.charged_to_others.set(Nanos(0));
        self.sent.set(0);
        poll();
        self.polling.set(None);
        let end = self.env.clock.ticks();
        let lasted = self.env.clock.ticks_between(begin, end);
        Polled { end, lasted, used: self.ran_of(lasted) - self.charged_to_others.get() }
    }

    /// Of so much time of a poll up to now what the thread ran. One that lasts may have been preempted, or have blocked: of what the thread did not run, a little over
    /// [`RECONCILE_INTERVAL`] at most is in it. A system call where it lasted longer than that.
    fn ran_of(&self, lasted: Nanos) -> Nanos {
        if lasted < RECONCILE_INTERVAL {
            return lasted;
        }
        lasted.min(self.env.clock.thread_cpu() - self.reconciled_cpu.get())
    }

    fn blocking_ios(&self) -> u64 {
        self.io.borrow().blocking() - self.blocked_for_others.get()
    }

    /// Whether a tenant with a reservation that fell asleep lately is due within [`DUE_SOON`].
    fn is_sleeper_due_soon(&self, now: Nanos) -> bool {
        self.queues.borrow_mut().until_sleeper_is_due(now).is_some_and(|due| due <= DUE_SOON)
    }
}

/// I/Os, as `iops` counts them, that the calling worker's thread has done so far by blocking, whoever paid, but for what it did in others' polls to end a
/// call of theirs; 0 elsewhere.
pub(crate) fn blocking_ios() -> u64 {
    CURRENT.with_borrow(|current| current.as_ref().map_or(0, |local| local.blocking_ios()))
}

/// How long the present poll has run; zero outside one. About 20 ns: check it every few rows, not each.
pub fn poll_elapsed() -> Nanos {
    CURRENT.with_borrow(|current| {
        let Some(local) = current.as_ref() else { return Nanos(0) };
        let Some((_, since)) = local.polling.get() else { return Nanos(0) };
        local.env.clock.ticks_between(since, local.env.clock.ticks())
    })
}

/// The present poll, if there is one, gives so many bytes to a socket.
pub(crate) fn note_sent(len: usize) {
    CURRENT.with_borrow(|current| {
        if let Some(local) = current.as_ref() {
            local.sent.set(local.sent.get() + len);
        }
    });
}

/// Processor time of the present poll so far, zero outside one; and what [`blocking_ios`] says. A poll that lasts may have been preempted: of what
/// the thread did not run, a little over [`RECONCILE_INTERVAL`] at most is in it. Costs as [`poll_elapsed`], and a system call once the poll lasts
/// longer than that.
pub(super) fn poll_use() -> (Nanos, u64) {
    CURRENT.with_borrow(|current| {
        let Some(local) = current.as_ref() else { return (Nanos(0), 0) };
        let clock = &local.env.clock;
        let elapsed =
            local.polling.get().map_or(Nanos(0), |(_, since)| clock.ticks_between(since, clock.ticks()));
        (local.ran_of(elapsed) - local.charged_to_others.get(), local.blocking_ios())
    })
}

/// Lets other tasks run: completes when the scheduler comes back to this one.
pub fn yield_now() -> impl Future<Output = ()> + Send {
    let mut yielded = false;
    std::future::poll_fn(move |cx| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
}

/// Runs `body` with the queues of the worker whose turn the caller is in, between two of their own steps.
pub(super) fn with_queues<R>(body: impl FnOnce(&mut RunQueues) -> R) -> R {
    CURRENT.with_borrow(|current| {
        let local = current.as_ref().expect("the caller is in a worker's turn");
        body(&mut local.queues.borrow_mut())
    })
}

fn current() -> Option<Rc<Local>> {
    // While a thread ends its locals may be gone.
    CURRENT.try_with(|current| current.borrow().clone()).ok().flatten()
}

/// Runs `body` with what the worker whose turn the caller is in keeps of preemption, if it is in one.
pub(super) fn try_with_preemption<R>(body: impl FnOnce(&Preemption) -> R) -> Option<R> {
    current().map(|local| body(&local.preemption))
}

/// As [`try_with_preemption`] within a turn.
pub(super) fn with_preemption<R>(body: impl FnOnce(&Preemption) -> R) -> R {
    try_with_preemption(body).expect("the caller is in a worker's turn")
}

/// Differs between two points of a call if it was suspended between them.
pub(crate) fn suspensions() -> u64 {
    CURRENT.with_borrow(|current| current.as_ref().map_or(0, |local| local.preemption.suspensions()))
}

/// Runs the suspended call of `tenant` to its end, charged to it and not to whoever is polled.
pub(super) fn finish_suspended(tenant: TenantId, account: &Account) {
    let local = current().expect("the caller is in a worker's turn");
    let clock = &local.env.clock;
    let begin = clock.ticks();
    let (polled, ios) = (local.polling.replace(Some((tenant, begin))), local.blocking_ios());
    let before = local.charged_to_others.replace(Nanos(0));
    local.preemption.finish(tenant);
    local.polling.set(polled);
    let lasted = clock.ticks_between(begin, clock.ticks());
    let used = lasted - local.charged_to_others.get();
    local.charged_to_others.set(before + lasted);
    local.blocked_for_others.set(local.blocked_for_others.get() + local.blocking_ios() - ios);
    local.queues.borrow_mut().charge_beside(account, used, local.env.now());
}

/// Whether the call that runs can be suspended and has had its turn while others may wait. Two readings of the clock, and three once it has had its least.
fn is_turn_over(local: &Local) -> bool {
    let Some((_, since)) = local.polling.get().filter(|_| local.preemption.can_suspend()) else {
        return false;
    };
    let clock = &local.env.clock;
    let (now, turn_max) = (clock.ticks(), local.turn_max);
    clock.ticks_between(since, now) >= turn_max.min(SLICE_MIN)
        && (clock.ticks_between(local.turn_began.get(), now) >= turn_max
            || local.is_sleeper_due_soon(local.env.now()))
}

/// A point at which a [`super::Preemptible`] call may be suspended: there it has nothing locked that tasks of other tenants may want. `passing` is
/// called before it is and `going_on` after, in the poll in which it goes on. Not within a use of another tenant's state.
pub(crate) fn preemption_point(passing: impl FnOnce(), going_on: impl FnOnce()) {
    if CURRENT.with_borrow(|current| current.as_deref().is_some_and(is_turn_over)) {
        passing();
        suspend();
        going_on();
    }
}

/// Queues work directly if the caller is its worker's thread, else by the inbox.
pub(super) fn schedule_at_home(account: &Account, work: Work) {
    // While a thread ends its locals may be gone; then the inbox takes it.
    let mut work = Some(work);
    let _ = CURRENT.try_with(|current| {
        if let Ok(current) = current.try_borrow()
            && let Some(local) = current.as_ref()
            && Arc::ptr_eq(&local.shared, &account.worker)
            && let Ok(mut queues) = local.queues.try_borrow_mut()
            && let Some(work) = work.take()
        {
            let place = local.preemption.take_place();
            // Not the turn's beginning: the turn may have waited since.
            queues.push(account, work, place, local.env.now());
        }
    });
    if let Some(work) = work {
        account.worker.send(Message::Ready(account.clone(), work));
    }
}

impl Worker {
    /// A worker for the calling thread. Ids are unique among the live workers of a process.
    pub fn new(env: &Env, id: WorkerId, governing: &Governing) -> io::Result<Worker> {
        let reactor = Reactor::new(env)?;
        let seat = usize::from(id.0);
        governing.io.take_seat(seat, reactor.remote_waker());
        let io = Rc::new(RefCell::new(WorkerIo::new(&governing.io, seat, env.now())));
        reactor.set_gate(Box::new(Gate(io.clone())));
        let shared = Arc::new(Shared::new(id, reactor.remote_waker()));
        let handle = WorkerHandle(shared.clone());
        let mut queues = RunQueues::new(&governing.cpu, seat);
        queues.set_terms(TenantId::SYSTEM, &governing.cpu.of_system(), env.now());
        let local = Local {
            shared: shared.clone(),
            queues: RefCell::new(queues),
            now: Cell::new(env.now()),
            turn_began: Cell::new(env.clock.ticks()),
            turn_max: governing.turn_max,
            polling: Cell::new(None),
            charged_to_others: Cell::new(Nanos(0)),
            blocked_for_others: Cell::new(0),
            sent: Cell::new(0),
            preemption: Preemption::new(),
            reconciled_cpu: Cell::new(reactor.enter(|| env.clock.thread_cpu())),
            io: io.clone(),
            env: env.clone(),
        };
        Ok(Worker {
            governing: governing.clone(),
            io,
            system: shared.account(TenantId::SYSTEM),
            handle,
            local: Rc::new(local),
            mail: Vec::new(),
            duty: None,
            polled: Nanos(0),
            raised: None,
            may_raise_itself: false,
            raises_proxies: true,
            raised_itself: None,
            reconciled_at: env.now(),
            thread_cpu: reactor.enter(|| env.clock.thread_cpu()),
            to_forget: Vec::new(),
            env: env.clone(),
            reactor,
        })
    }

    /// The handle for other threads.
    pub fn handle(&self) -> WorkerHandle {
        self.handle.clone()
    }

    /// Lets the worker raise itself while several proxies want to run, so that it preempts the one it raises at once. An
    /// error where that privilege is missing: tell the operator and go on.
    ///
    /// Else it stays at the ordinary priority: raised it would preempt, at each message, the very client or kernel thread
    /// on its core that has more messages for it.
    pub fn claim_priority(&mut self) -> io::Result<()> {
        let thread = self.env.threads.current();
        thread.set_priority(Priority::Worker)?;
        self.may_raise_itself = true;
        thread.set_priority(Priority::Normal)
    }

    /// Gives the worker a duty to all of its tenants: `flush`, which stands in no queue and is charged to `system`. `end_turn` is called in each turn
    /// between polling and looking at the ring: the time to start the flush of what the polls gathered; and again before the next polls if those were long.
    /// It may wake `flush`, and must be cheap when there is nothing to do.
    pub fn set_flusher(
        &mut self,
        end_turn: impl FnMut() + 'static,
        flush: impl Future<Output = ()> + 'static,
    ) {
        let shared = &self.local.shared;
        self.duty = Some(Duty::new(shared.serial, shared.waker.clone(), end_turn, flush));
    }

    /// Runs `body` as if inside a turn: tasks may be spawned, operations started, home cells used.
    pub fn enter<R>(&self, body: impl FnOnce() -> R) -> R {
        let _current = make_current(&self.local);
        self.reactor.enter(body)
    }

    /// Turns until [`WorkerHandle::stop`]. An error is one of the ring: the worker cannot go on.
    pub fn run(&mut self) -> io::Result<()> {
        while !self.handle.0.is_stopping() {
            self.turn(None)?;
        }
        Ok(())
    }

    /// One round: takes in the inbox, polls what is ready for at most 250 µs, flushes what it gathered, and looks at the ring,
    /// waiting there at most `wait_max` (`None`: without bound) if nothing is ready. Between two polls it looks there as well, without a
    /// wait, where a tenant with a reservation that fell asleep lately is due soon: so its answers leave, and its next messages are seen.
    pub fn turn(&mut self, wait_max: Option<Nanos>) -> io::Result<TurnReport> {
        let local = self.local.clone();
        let _current = make_current(&local);
        let _entered = self.reactor.entered();
        let mut report = TurnReport::default();
        local.now.set(self.env.now());
        self.io.borrow_mut().keep_time(local.now.get());
        self.read_mail();
        report.completions += self.see_to_duty(&local)?;
        report.polls = self.poll_ready(&local, &mut report.completions)?;
        self.flush_gathered(&local);
        let ready = |worker: &Worker| {
            let is_woken = worker.duty.as_ref().is_some_and(Duty::is_woken);
            is_woken || local.queues.borrow().has_work() || local.shared.has_mail()
        };
        let not_before = local.queues.borrow().not_before();
        // What came in a long poll is looked for first: who comes while the worker sleeps has waited for nothing.
        let looks_first = local.queues.borrow().may_be_unseen();
        let wait = match not_before {
            _ if ready(self) || looks_first || local.shared.is_stopping() => Some(Nanos(0)),
            // Tenants over their limits wait for the refill.
            Some(until) => {
                let now = self.env.now();
                local.queues.borrow_mut().hold_proxies(Held::All, now);
                let wait = until - now;
                Some(wait_max.map_or(wait, |wait_max| wait.min(wait_max)))
            }
            None => wait_max,
        };
        if wait != Some(Nanos(0)) {
            self.lower();
        }
        report.completions += self.reactor.turn(wait)?;
        self.reconcile(&local);
        report.more = ready(self);
        Ok(report)
    }

    /// What the duty was woken for, before anybody else is polled. After long polls the next flush starts at once, else with what this turn will gather.
    /// Returns how many operations completed.
    fn see_to_duty(&mut self, local: &Local) -> io::Result<usize> {
        if !self.duty.as_ref().is_some_and(Duty::is_woken) {
            return Ok(0);
        }
        if self.polled < LONG_TURN {
            self.poll_duty(local);
            return Ok(0);
        }
        self.flush_gathered(local);
        self.reactor.turn(Some(Nanos(0)))
    }

    /// Starts the flush of what the polls gathered; the look at the ring submits it.
    fn flush_gathered(&mut self, local: &Local) {
        // The flush before may have ended meanwhile.
        self.poll_duty(local);
        if let Some(duty) = &mut self.duty {
            duty.end_turn();
        }
        self.poll_duty(local);
    }

    /// Polls the duty if it was woken.
    fn poll_duty(&mut self, local: &Local) {
        let Some(duty) = self.duty.as_mut().filter(|duty| duty.is_woken()) else { return };
        let polled = local.poll_as(self.system.tenant, self.env.clock.ticks(), || duty.poll());
        local.queues.borrow_mut().charge_duty(&self.system, polled.used, self.env.now());
    }

    /// When the next timer is due.
    pub fn next_deadline(&self) -> Option<Nanos> {
        self.reactor.next_deadline()
    }

    fn read_mail(&mut self) {
        let mut mail = std::mem::take(&mut self.mail);
        self.local.shared.receive(&mut mail);
        for message in mail.drain(..) {
            let mut queues = self.local.queues.borrow_mut();
            match message {
                // Sent here by who had looked for the tenant before it left.
                Message::Ready(account, work @ Work::Resident(..)) if queues.has_left(&account) => {
                    drop(queues);
                    work.reschedule();
                }
                Message::Ready(account, work) => {
                    queues.push(&account, work, Place::Last, self.local.now.get())
                }
                Message::Arrive(arrival) => {
                    let Arrival { account, terms, held_since, on_its_way, pauses } = *arrival;
                    // Not the turn's beginning: the tenant may have been held after it.
                    let now = self.env.now();
                    queues.set_terms(account.tenant, &terms, now);
                    queues.arrive(&account, on_its_way, now);
                    let home = Some(u32::from(self.local.shared.id.0));
                    self.governing.set_terms(account.tenant, &terms, home, now);
                    pauses.record(now - held_since);
                }
                Message::SetTermsOfGuest(tenant, terms) => {
                    queues.set_terms(tenant, &terms, self.local.now.get());
                }
                Message::SetTerms(tenant, terms) => {
                    queues.set_terms(tenant, &terms, self.local.now.get());
                    // Of one that has left meanwhile, its new home was told.
                    if !queues.has_left_by_name(tenant) {
                        // The server's own tasks are on every worker.
                        let home = (tenant != TenantId::SYSTEM).then(|| u32::from(self.local.shared.id.0));
                        self.governing.set_terms(tenant, &terms, home, self.local.now.get());
                    }
                }
                Message::ThreadsWanted(account, threads) => {
                    queues.set_threads_wanted(&account, threads, self.local.now.get());
                }
                Message::AskIo(asked) => {
                    let account = asked.account();
                    self.see_to_io(account, &mut queues, |io, now| io.ask(asked, now));
                }
                Message::IoEnded(ticket, account) => {
                    self.see_to_io(account, &mut queues, |io, now| io.completed(ticket, now));
                }
                Message::SetPolicy(policy) => queues.set_policy(policy, self.local.now.get()),
                Message::Charge(tenant, used) => {
                    let account = self.local.shared.account(tenant);
                    queues.charge_elsewhere(&account, used, self.local.now.get());
                }
                Message::MeterPast(tenant, used) => queues.meter_past(tenant, used, self.local.now.get()),
                Message::ChargeProxy(account, used) => {
                    queues.charge_exact(&account, used, self.local.now.get());
                    account.count_of_query(used);
                }
                Message::Forget(tenant) => {
                    let now = self.local.now.get();
                    if !self.try_forget(tenant, &mut queues, now) {
                        self.to_forget.push(tenant);
                    }
                    self.io.borrow_mut().forget(tenant, now);
                }
            }
        }
        self.mail = mail;
    }

    /// Does something about I/O that a thread asked for, charged to whose query that is.
    fn see_to_io(
        &self,
        account: Option<Account>,
        queues: &mut RunQueues,
        body: impl FnOnce(&mut WorkerIo, Nanos),
    ) {
        let (clock, now) = (&self.env.clock, self.local.now.get());
        let begin = clock.ticks();
        body(&mut self.io.borrow_mut(), now);
        if let Some(account) = account {
            queues.charge_message(&account, clock.ticks_between(begin, clock.ticks()), now);
        }
    }

    /// Forgets a dropped tenant unless something of it is left here; whether nothing is.
    fn try_forget(&self, tenant: TenantId, queues: &mut RunQueues, now: Nanos) -> bool {
        let shared = &self.local.shared;
        if !queues.is_idle(tenant) || !shared.retire(tenant, queues.has_queue(tenant)) {
            return self.handle.account_if_known(tenant).is_none();
        }
        queues.forget(tenant, now);
        self.governing.cpu.meters().forget(tenant);
        true
    }

    fn poll_ready(&mut self, local: &Local, completions: &mut usize) -> io::Result<usize> {
        let mut polls = 0;
        let start = local.now.get();
        let begin = self.env.clock.ticks();
        local.turn_began.set(begin);
        local.queues.borrow_mut().set_unseen_since(None);
        let (mut mark, mut looked_at) = (begin, begin);
        loop {
            self.polled = self.env.clock.ticks_between(begin, mark);
            let now = start + self.polled;
            if now - start >= TURN_MAX {
                return Ok(polls);
            }
            let Some((index, work)) = local.queues.borrow_mut().pop(now) else { return Ok(polls) };
            polls += 1;
            match work {
                Work::Task(runnable, _) | Work::Resident(runnable, _) => {
                    let tenant = local.queues.borrow().tenant_of(index);
                    // The end of one poll is the beginning of the next: picking is charged to whom it picks.
                    let polled = local.poll_as(tenant, mark, || {
                        runnable.run();
                    });
                    // A task that was cancelled meanwhile is not woken any more.
                    local.preemption.take_place();
                    let unseen_since = (polled.lasted >= UNSEEN_MIN).then_some(now);
                    if polled.lasted >= OWN_POLL_MIN {
                        let ended = self.env.now();
                        local.io.borrow_mut().held_by_itself(tenant, ended - polled.lasted, ended);
                    }
                    let now = now + polled.lasted;
                    mark = polled.end;
                    let mut queues = local.queues.borrow_mut();
                    queues.charge_poll(index, polled.used, now);
                    queues.count_sent(index, local.sent.get());
                    queues.settle(index, now);
                    queues.set_unseen_since(unseen_since);
                    drop(queues);
                    if now - start < TURN_MAX && self.is_to_look(local, looked_at, mark, now) {
                        *completions += self.reactor.turn(Some(Nanos(0)))?;
                        // The look is no poll's: all have part in it by what is reconciled.
                        mark = self.env.clock.ticks();
                        looked_at = mark;
                    }
                }
                // A proxy's quantum waits on the ring, so what the polls before it gathered is flushed and submitted first.
                Work::Proxy(proxy) if polls > 1 => {
                    local.queues.borrow_mut().put_back(index, Work::Proxy(proxy), now);
                    return Ok(polls - 1);
                }
                Work::Proxy(proxy) => {
                    let before = self.env.clock.thread_cpu();
                    let quantum = self.run_proxy(&proxy, now)?;
                    *completions += quantum.completed;
                    let took = quantum.of_query(self.env.clock.thread_cpu() - before);
                    let mut queues = local.queues.borrow_mut();
                    queues.charge_quantum(&proxy.account, took, now);
                    if proxy.wants_to_run() || proxy.leave_queue() {
                        let account = proxy.account.clone();
                        queues.push(&account, Work::Proxy(proxy), Place::Last, now);
                    }
                    queues.settle(index, now);
                    // The wait for a proxy is long enough to have brought work.
                    return Ok(polls);
                }
            }
        }
    }

    /// Whether the worker, which looked at the ring at `looked_at` and has polled since, looks again before the turn is over. Not if nobody is
    /// to be polled next: then the turn ends, and with a look.
    fn is_to_look(&self, local: &Local, looked_at: Ticks, mark: Ticks, now: Nanos) -> bool {
        self.env.clock.ticks_between(looked_at, mark) >= LOOK_INTERVAL
            && local.queues.borrow().has_work()
            && local.is_sleeper_due_soon(now)
    }

    /// Gives a proxy one quantum; completions, its end and its blocking cut it short, though not below its least. Its least ends a little before a tenant that has just
    /// been answered would be due again.
    fn run_proxy(&mut self, proxy: &Arc<ProxyState>, now: Nanos) -> io::Result<Quantum> {
        let begin = self.env.clock.ticks();
        proxy.release();
        if !proxy.wants_to_run() {
            return Ok(Quantum::default());
        }
        // Alone, a proxy runs where it is: nothing else of ours at `SCHED_IDLE` competes with it, and the worker preempts it
        // without being raised.
        let contested = self.local.queues.borrow().has_proxy();
        if !contested || !self.raised.as_ref().is_some_and(|raised| Arc::ptr_eq(raised, proxy)) {
            self.lower();
        }
        if contested {
            if self.may_raise_itself && self.raised_itself.replace(now).is_none() {
                let _ = self.env.threads.current().set_priority(Priority::Worker);
            }
            self.raises_proxies = proxy.set_raised(true).is_ok();
            self.raised.get_or_insert_with(|| proxy.clone());
            // Beside a raised one the others have little, but those over their limits may have nothing. Without the privilege all would share the quantum.
            let held = if self.raises_proxies { Held::OverLimit } else { Held::All };
            self.local.queues.borrow_mut().hold_proxies(held, now);
        }
        let until_due = self.local.queues.borrow_mut().until_sleeper_is_due(self.env.now());
        let waits_from = self.env.clock.ticks();
        let completed = self.reactor.turn_gathering(Some(PROXY_QUANTUM), least_quantum(until_due))?;
        let waited_until = self.env.clock.ticks();
        self.charge_proxy(proxy, now);
        self.hold_if_over_limit(proxy);
        if !proxy.wants_to_run() {
            self.lower();
        }
        let clock = &self.env.clock;
        let before = clock.ticks_between(begin, waits_from);
        let around = before + clock.ticks_between(waited_until, clock.ticks());
        Ok(Quantum { completed, around })
    }

    /// Has the proxies of a tenant that is over its limit stand still until they are picked: where threads are not kept to their worker's core another one
    /// may have nothing else to do.
    fn hold_if_over_limit(&self, proxy: &ProxyState) {
        let (mut queues, now) = (self.local.queues.borrow_mut(), self.env.now());
        if queues.is_over_limit(proxy.account.tenant, now) {
            proxy.hold_at_limit();
            queues.hold_proxies(Held::OverLimit, now);
        }
    }

    fn lower(&mut self) {
        if let Some(proxy) = self.raised.take() {
            // One that waits too: else it would go on beside the next ones when it has waited.
            let _ = proxy.set_raised(false);
            self.charge_proxy(&proxy, self.local.now.get());
        }
    }

    /// Charges a proxy what its thread has used since `since`, or before: one that cannot stand still goes on while its worker sleeps.
    fn charge_proxy(&self, proxy: &ProxyState, since: Nanos) {
        let used = proxy.take_uncharged();
        let now = (since + used).min(self.env.now());
        self.local.queues.borrow_mut().charge_exact(&proxy.account, used, now);
        proxy.account.count_of_query(used);
    }

    fn reconcile(&mut self, local: &Local) {
        // Not the turn's beginning: a poll may have been preempted for long, and that is to be found at once.
        let now = self.env.now();
        if now - self.reconciled_at >= RECONCILE_INTERVAL {
            let thread_cpu = self.env.clock.thread_cpu();
            local.queues.borrow_mut().reconcile(thread_cpu - self.thread_cpu, &self.system, now);
            self.thread_cpu = thread_cpu;
            local.reconciled_cpu.set(thread_cpu);
            self.reconciled_at = now;
            if !self.to_forget.is_empty() {
                let mut left = std::mem::take(&mut self.to_forget);
                left.retain(|tenant| !self.try_forget(*tenant, &mut local.queues.borrow_mut(), now));
                self.to_forget = left;
            }
            if self.raised_itself.is_some_and(|at| now - at >= RAISED_TIME) {
                self.raised_itself = None;
                let _ = self.env.threads.current().set_priority(Priority::Normal);
            }
        }
    }
}

impl Drop for Worker {
    /// Drops every task of this worker, finished or not.
    fn drop(&mut self) {
        self.lower();
        let (local, duty) = (self.local.clone(), self.duty.take());
        self.enter(|| {
            drop(duty);
            // Dropping a task may wake another; the round that finds nothing is the last.
            loop {
                local.shared.wake_unfinished();
                let mut mail = Vec::new();
                local.shared.receive(&mut mail);
                let work = local.queues.borrow_mut().take_all(local.now.get());
                if mail.is_empty() && work.is_empty() {
                    break;
                }
                drop(mail);
                drop(work);
            }
        });
        drop(local.shared.close());
    }
}
