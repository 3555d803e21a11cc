//! A thread's reactor: the one place where it submits operations, waits, and learns of completions and due timers.
//!
//! State: the backend's driver, the timers, the wake-up flag other threads set. A reactor belongs to the thread that
//! made it; futures find it through a thread-local while [`Reactor::enter`] runs.

pub(crate) mod gate;
pub(crate) mod op;
mod remote_waker;
mod timer;

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;

use base::Nanos;

use base::{ByteCount, IoClass, TenantId};
use gate::{GateStep, HeldIo, IoArrival, IoGate, IoPermit, IoPermits, IoTicket};
use op::{Completed, Op, OpState};

use crate::{Clock, Env, IoAccount};
pub(crate) use remote_waker::Notify;
pub use remote_waker::RemoteWaker;
use timer::Timers;
pub use timer::{Elapsed, Sleep, sleep, sleep_until, timeout_at};

/// How a turn waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Wait {
    /// At most so long; `None`: without bound.
    pub(crate) at_most: Option<Nanos>,
    /// A completion within this time does not end the wait before it is over: others may join it. A notification does. A driver that cannot
    /// wait so ends with the first completion.
    pub(crate) gather: Nanos,
}

impl Wait {
    pub(crate) const NOT_AT_ALL: Wait = Wait { at_most: Some(Nanos(0)), gather: Nanos(0) };
}

/// A completion backend of one thread.
pub(crate) trait Driver {
    /// Starts an operation whose state is locked by the caller. True if it completed at once, its outcome in `state`;
    /// else the driver keeps a reference until completion.
    fn submit(&mut self, op: &Arc<op::Op>, state: &mut op::OpState) -> bool;
    /// Asks for an operation's early end; it completes soon, with what it has or with ECANCELED.
    fn cancel(&mut self, op: &Arc<op::Op>);
    /// Submits what is queued and collects completions into `completed`, waiting as `wait` says for the first or for a
    /// notification; that of a send for which nobody waits need not end the wait. Returns the number of completions.
    fn turn(&mut self, wait: Wait, completed: &mut Completed) -> io::Result<usize>;
    /// What another thread uses to end a wait.
    fn notifier(&self) -> Arc<dyn Notify>;
    /// Tells when the reactor's next timer is due, so that a simulation can advance to it.
    fn note_deadline(&mut self, _next: Option<Nanos>) {}
}

/// Makes drivers; part of an [`Env`].
pub(crate) trait DriverFactory: Send + Sync {
    fn driver(&self) -> io::Result<Box<dyn Driver>>;
    fn name(&self) -> &'static str;
}

/// See the module's description. Neither `Send` nor `Sync`.
pub struct Reactor(Rc<Inner>);

struct Inner {
    clock: Arc<dyn Clock>,
    driver: RefCell<Box<dyn Driver>>,
    timers: RefCell<Timers>,
    waker: RemoteWaker,
    /// Of one turn, kept for its capacity.
    completed: RefCell<Completed>,
    gate: RefCell<Option<Box<dyn IoGate>>>,
    spare_ops: RefCell<Vec<Arc<op::Op>>>,
    completions: Cell<u64>,
}

thread_local! {
    static CURRENT: RefCell<Option<Rc<Inner>>> = const { RefCell::new(None) };
}

fn with_current<R>(body: impl FnOnce(&Inner) -> R) -> R {
    CURRENT.with_borrow(|current| {
        body(current.as_deref().expect("asynchronous operations are polled inside Reactor::enter"))
    })
}

/// Makes its reactor the thread's current one; the previous one is back when it is dropped.
#[must_use = "the reactor is current while this lives"]
pub struct Entered(Option<Rc<Inner>>);

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

impl Reactor {
    /// Makes a reactor for the calling thread. Fails where the system refuses descriptors or memory.
    pub fn new(env: &Env) -> io::Result<Reactor> {
        let driver = env.drivers.driver()?;
        let waker = RemoteWaker::new(driver.notifier());
        Ok(Reactor(Rc::new(Inner {
            clock: env.clock.clone(),
            driver: RefCell::new(driver),
            timers: RefCell::default(),
            waker,
            completed: RefCell::default(),
            gate: RefCell::default(),
            spare_ops: RefCell::default(),
            completions: Cell::new(0),
        })))
    }

    /// Runs `body` with this as the thread's reactor: futures polled inside submit to it. Nests.
    pub fn enter<R>(&self, body: impl FnOnce() -> R) -> R {
        let _entered = self.entered();
        body()
    }

    /// [`Reactor::enter`] as a guard. Guards of several reactors are dropped in reverse order.
    pub fn entered(&self) -> Entered {
        Entered(CURRENT.replace(Some(self.0.clone())))
    }

    /// One round: fires due timers, submits what was queued, waits for the first completion, timer or remote wake-up
    /// at most `wait_max` (`None`: without bound, zero: not at all), and wakes the tasks concerned. The end of a send for
    /// which nobody waits need not end the wait. Returns how many operations and timers completed. An error is one of the
    /// ring itself, never of an operation.
    pub fn turn(&self, wait_max: Option<Nanos>) -> io::Result<usize> {
        self.turn_gathering(wait_max, Nanos(0))
    }

    /// [`Reactor::turn`] for one that has better uses for its core than to wake for each completion: where the system
    /// can (io_uring since Linux 6.12), it waits for `gather` whole, and only after that ends with the first completion. A remote
    /// wake-up ends it at any time.
    pub fn turn_gathering(&self, wait_max: Option<Nanos>, gather: Nanos) -> io::Result<usize> {
        let inner = &*self.0;
        let mut completed = inner.completed.take();
        // One reading of the clock for all that comes before the wait.
        let now = inner.clock.now();
        let mut done = inner.fire_timers(|| now, &mut completed.wakers);
        let wait = if done > 0 { Wait::NOT_AT_ALL } else { Wait { at_most: wait_max, gather } };
        let result = inner.drive(wait, now, &mut completed);
        done += result.as_ref().copied().unwrap_or(0);
        done += inner.fire_timers(|| inner.clock.now(), &mut completed.wakers);
        inner.completions.set(inner.completions.get() + done as u64);
        completed.wakers.drain(..).for_each(Waker::wake);
        inner.completed.replace(completed);
        result.map(|_| done)
    }

    /// Has charged operations pass `gate` from now on. Without one they start at once, and their accounts count them.
    pub fn set_gate(&self, gate: Box<dyn IoGate>) {
        *self.0.gate.borrow_mut() = Some(gate);
    }

    /// A handle by which other threads end this reactor's wait.
    pub fn remote_waker(&self) -> RemoteWaker {
        self.0.waker.clone()
    }

    /// When the next timer is due.
    pub fn next_deadline(&self) -> Option<Nanos> {
        self.0.timers.borrow_mut().next_deadline()
    }

    /// Operations and timers completed so far.
    pub fn completions(&self) -> u64 {
        self.0.completions.get()
    }
}

impl Inner {
    fn fire_timers(&self, now: impl FnOnce() -> Nanos, woken: &mut Vec<Waker>) -> usize {
        let mut timers = self.timers.borrow_mut();
        if timers.is_empty() { 0 } else { timers.fire(now(), woken) }
    }

    /// An operation comes to the gate.
    fn arrive(&self, charge: &IoCharge, len: ByteCount, op: &Arc<Op>) -> Arrived {
        let mut gate = self.gate.borrow_mut();
        let Some(gate) = gate.as_mut() else {
            charge.account.note_done(len);
            return Arrived::Started(None);
        };
        let members = charge.members.as_deref();
        let arrival = IoArrival { account: &charge.account, class: charge.class, len, members };
        match gate.arrive(arrival, HeldIo(op.clone()), self.clock.now()) {
            Some(ticket) => Arrived::Started(Some(ticket)),
            None => Arrived::Held,
        }
    }

    fn start_held(&self, op: &Arc<Op>, state: &mut OpState, ticket: Option<IoTicket>) {
        state.leave_gate(ticket);
        let completed = self.driver.borrow_mut().submit(op, state);
        assert!(!completed, "an operation on a file is never complete at once");
    }

    /// Starts what the gate lets through. Returns when it wants to be asked again.
    fn pass_gate(&self, now: Nanos) -> Option<Nanos> {
        // Woken after every borrow is released, since waking may submit.
        let mut not_started = Vec::new();
        let until = {
            let mut gate = self.gate.borrow_mut();
            let gate = gate.as_mut()?;
            loop {
                let (op, ticket) = match gate.step(now) {
                    GateStep::Start(HeldIo(op), ticket) => (op, ticket),
                    GateStep::Wait(until) => break until,
                };
                let mut state = op.lock();
                if state.may_start() {
                    self.start_held(&op, &mut state, Some(ticket));
                } else {
                    gate.completed(ticket, now);
                    not_started.extend(state.take_waker());
                }
            }
        };
        not_started.into_iter().for_each(Waker::wake);
        until
    }

    /// What the gate let through does not start: its place is free again.
    fn give_back(&self, ticket: Option<IoTicket>) {
        if let (Some(ticket), Some(gate)) = (ticket, self.gate.borrow_mut().as_mut()) {
            gate.completed(ticket, self.clock.now());
        }
    }

    fn tell_gate(&self, completed: &mut Completed) {
        if completed.tickets.is_empty() {
            return;
        }
        if let Some(gate) = self.gate.borrow_mut().as_mut() {
            let now = self.clock.now();
            completed.tickets.iter().for_each(|ticket| gate.completed(*ticket, now));
        }
        completed.tickets.clear();
    }

    fn drive(&self, mut wait: Wait, now: Nanos, completed: &mut Completed) -> io::Result<usize> {
        let gate_opens = self.pass_gate(now);
        let timer = self.timers.borrow_mut().next_deadline();
        let deadline = timer.into_iter().chain(gate_opens).min();
        if wait.at_most != Some(Nanos(0))
            && let Some(deadline) = deadline
        {
            let left = deadline - now;
            wait.at_most = Some(wait.at_most.map_or(left, |at_most| at_most.min(left)));
        }
        if wait.at_most != Some(Nanos(0)) && !self.waker.fall_asleep() {
            wait.at_most = Some(Nanos(0));
        }
        let mut driver = self.driver.borrow_mut();
        driver.note_deadline(deadline);
        let result = driver.turn(wait, completed);
        drop(driver);
        self.waker.stay_awake();
        self.tell_gate(completed);
        result
    }
}

/// How an operation is charged.
#[derive(Clone)]
pub(crate) struct IoCharge {
    pub(crate) account: Arc<IoAccount>,
    pub(crate) class: IoClass,
    /// Where it is not the account's tenant alone that pays.
    pub(crate) members: Option<Box<[(TenantId, ByteCount)]>>,
}

pub(crate) enum Arrived {
    /// It may start; the ticket is the gate's, if there is one.
    Started(Option<IoTicket>),
    Held,
}

thread_local! {
    static PERMITS: RefCell<Option<Rc<dyn IoPermits>>> = const { RefCell::new(None) };
}

/// Until it is dropped, blocking operations of this thread ask what was given to [`ask_permits`].
pub struct AskedPermits(());

impl Drop for AskedPermits {
    fn drop(&mut self) {
        PERMITS.set(None);
    }
}

/// Has charged operations of the calling thread that block ask `permits` before they start.
pub fn ask_permits(permits: Rc<dyn IoPermits>) -> AskedPermits {
    PERMITS.set(Some(permits));
    AskedPermits(())
}

/// Charges an operation that blocks. A reactor's thread cannot wait for leave; one of [`ask_permits`] does; others only count.
pub(crate) fn charge_blocking(account: &IoAccount, len: ByteCount) -> Option<IoPermit> {
    let is_charged = CURRENT.with_borrow(|current| {
        let Some(inner) = current.as_deref() else { return false };
        let mut gate = inner.gate.borrow_mut();
        let gate = gate.as_mut();
        gate.map(|gate| gate.done(account, len, inner.clock.now())).is_some()
    });
    if is_charged {
        return None;
    }
    match PERMITS.with_borrow(Clone::clone) {
        Some(permits) => permits.wait(account, len),
        None => {
            account.note_done(len);
            None
        }
    }
}

/// Monotonic time of the current reactor's clock.
///
/// # Panics
/// Outside [`Reactor::enter`].
pub fn now() -> Nanos {
    with_current(|inner| inner.clock.now())
}

/// Tells the current thread's reactors apart; 0 outside any. Only the simulation needs it.
pub(crate) fn current_key() -> usize {
    CURRENT.with_borrow(|current| current.as_ref().map_or(0, |inner| Rc::as_ptr(inner) as usize))
}
