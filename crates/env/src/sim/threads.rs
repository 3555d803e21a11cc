//! Threads of a simulated machine: threads of the system of which exactly one runs at a time, so that a seed decides
//! whose turn it is.
//!
//! One thread holds the *baton*. It gives it on where the real one would sleep: while its reactor waits, while it joins
//! another, when it starts one, and where it blocks or takes a step ([`crate::park`], [`crate::take_step`]). The next is drawn
//! from those that can go on; when nobody can, time moves to the next event. What a thread does between two such places is
//! therefore never interleaved with others, and a lock that is not held across them is never waited for.
//!
//! The thread that made the world is its *harness*. When it cuts the power or kills the server, all others unwind from
//! where they wait, as a process that dies lets go of what it held.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Once, PoisonError, Weak};

use base::Nanos;
use base::limits::THREAD_STACK_LEN;
use rand::Rng as _;

use super::{Latency, Machine, lock};
use crate::threads::Joinable;

pub(super) type ThreadNo = u64;

/// The thread that made the world.
pub(super) const HARNESS: ThreadNo = 0;

thread_local! {
    static CURRENT: Cell<ThreadNo> = const { Cell::new(HARNESS) };
    /// Whose thread it is, unless a harness.
    static MACHINE: RefCell<Weak<Machine>> = const { RefCell::new(Weak::new()) };
}

/// From the first simulated thread on, panics on such threads are noted for their harness, caught ones too, and not
/// printed. A process that finds its disk gone may die of it.
fn note_panics() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let others = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let machine = MACHINE.try_with(|machine| machine.borrow().upgrade()).ok().flatten();
            match machine {
                Some(machine) => {
                    let is_off = machine.disk.try_lock().is_ok_and(|disk| disk.powered_off);
                    if !is_off {
                        machine.baton.state().panics.push(panic.to_string());
                    }
                }
                None => others(panic),
            }
        }));
    });
}

/// The calling thread's number in its world.
pub(super) fn current() -> ThreadNo {
    CURRENT.get()
}

/// What a thread waits for besides being woken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Park {
    /// Nothing: it only lets others go first.
    Yield,
    /// An instant, if any, and deliveries if it has sockets.
    Until { deadline: Option<Nanos>, sockets: bool },
    /// A thread's end.
    Join(ThreadNo),
}

/// A thread unwinds with this when its machine is killed.
struct Killed;

/// What a step takes: about as long as a batch of a query, or as the planner between two of its rules.
const STEP: Latency = Latency { min: Nanos::from_micros(1), max: Nanos::from_micros(20) };

/// Whether this is what a thread unwinds with when its machine is killed.
pub(crate) fn is_end(panic: &(dyn Any + Send)) -> bool {
    panic.is::<Killed>()
}

/// The machine that started the calling thread, if one did.
fn machine_of_caller() -> Option<Arc<Machine>> {
    if current() == HARNESS {
        return None;
    }
    MACHINE.with_borrow(Weak::upgrade)
}

/// A thread of a simulated machine, for others to wake.
#[derive(Clone)]
pub(crate) struct ParkedThread {
    machine: Weak<Machine>,
    number: ThreadNo,
}

impl ParkedThread {
    /// The calling thread, if a machine started it.
    pub(crate) fn current() -> Option<ParkedThread> {
        let machine = machine_of_caller()?;
        Some(ParkedThread { machine: Arc::downgrade(&machine), number: current() })
    }

    /// Ends its wait, if it waits.
    pub(crate) fn wake(&self) {
        if let Some(machine) = self.machine.upgrade() {
            machine.baton.wake(self.number);
        }
    }

    pub(crate) fn is_same(&self, other: &ParkedThread) -> bool {
        self.number == other.number && self.machine.ptr_eq(&other.machine)
    }
}

/// Blocks the calling thread until it is woken, so long at most; false, at once, if no machine started it.
pub(crate) fn park_current(at_most: Option<Nanos>) -> bool {
    let machine = machine_of_caller();
    if let Some(machine) = &machine {
        machine.stand_still(at_most);
    }
    machine.is_some()
}

/// See [`crate::take_step`].
pub(crate) fn take_step() {
    if let Some(machine) = machine_of_caller() {
        let took = machine.delay(STEP);
        *lock(&machine.steps).entry(current()).or_default() += took;
        machine.stand_still(Some(took));
    }
}

/// Lets pass what a blocking operation of the calling thread takes, as long as a read of the disk, if a machine started it.
pub(crate) fn take_time_of_wait() {
    if let Some(machine) = machine_of_caller() {
        let speeds = *lock(&machine.speeds);
        machine.stand_still(Some(machine.delay(speeds.read)));
    }
}

struct Parked {
    park: Park,
    woken: bool,
}

#[derive(Default)]
struct State {
    /// Who waits for the baton, the holder not among them.
    parked: BTreeMap<ThreadNo, Parked>,
    holder: ThreadNo,
    /// By which each is told that it holds the baton, from when it first waited for it: of ten threads that sleep, one is woken.
    turns: BTreeMap<ThreadNo, Arc<Condvar>>,
    started: ThreadNo,
    alive: usize,
    /// What panicked on its threads.
    panics: Vec<String>,
    /// Set while all but the harness unwind.
    dying: bool,
    /// See [`Baton::stir`].
    stirred: bool,
    /// What had been delivered by then, threads with sockets were told of.
    told_until: Nanos,
}

impl State {
    /// Wakes who holds the baton now, if it waits for it.
    fn tell_holder(&self) {
        if let Some(turn) = self.turns.get(&self.holder) {
            turn.notify_one();
        }
    }
}

/// Whose turn it is.
#[derive(Default)]
pub(super) struct Baton {
    state: Mutex<State>,
}

impl Baton {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the calling thread is the only one.
    pub(super) fn is_alone(&self) -> bool {
        self.state().alive == 0
    }

    /// Lets `thread` go on at the next occasion.
    pub(super) fn wake(&self, thread: ThreadNo) {
        if let Some(parked) = self.state().parked.get_mut(&thread) {
            parked.woken = true;
        }
    }

    /// A receiver made room: threads with sockets are to have a look at them before time goes on.
    pub(super) fn stir(&self) {
        self.state().stirred = true;
    }

    /// Panics of threads since the last call.
    pub(super) fn take_panics(&self) -> Vec<String> {
        std::mem::take(&mut self.state().panics)
    }

    /// Waits until `me`, the calling thread, holds the baton.
    fn await_baton<'s>(&self, mut state: MutexGuard<'s, State>, me: ThreadNo) -> MutexGuard<'s, State> {
        let turn = Arc::clone(state.turns.entry(me).or_default());
        while state.holder != me {
            state = turn.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state
    }

    /// As [`Baton::await_baton`]. Unwinds if the world has ended meanwhile.
    fn await_turn(&self, state: MutexGuard<'_, State>, me: ThreadNo) {
        let state = self.await_baton(state, me);
        let dying = state.dying && me != HARNESS;
        drop(state);
        if dying {
            resume_unwind(Box::new(Killed));
        }
    }

    fn has_ended(&self, thread: ThreadNo) -> bool {
        let state = self.state();
        state.holder != thread && !state.parked.contains_key(&thread)
    }
}

impl Machine {
    /// Gives the baton on until there is something to do for the calling thread.
    ///
    /// # Errors
    /// On the harness: nothing is ever going to happen.
    pub(super) fn park(&self, park: Park) -> io::Result<()> {
        let me = current();
        let mut state = self.baton.state();
        debug_assert_eq!(state.holder, me, "who runs holds the baton");
        state.parked.insert(me, Parked { park, woken: false });
        let found = self.pass_on(&mut state);
        state.tell_holder();
        self.baton.await_turn(state, me);
        // Others are not told: the harness is about to find out by itself.
        if me == HARNESS { found } else { Ok(()) }
    }

    /// Has the calling thread, which the machine started, give the baton on until it is woken, so long at most.
    fn stand_still(&self, at_most: Option<Nanos>) {
        let deadline = at_most.map(|at_most| self.now() + at_most);
        self.park(Park::Until { deadline, sockets: false })
            .expect("only a harness is told that nothing happens");
    }

    /// Chooses the next holder among the parked.
    fn pass_on(&self, state: &mut State) -> io::Result<()> {
        loop {
            let now = self.now();
            self.tell_deliveries(state, now);
            let ready: Vec<ThreadNo> = state
                .parked
                .iter()
                .filter(|(_, parked)| self.can_go_on(state, parked, now))
                .map(|(no, _)| *no)
                .collect();
            if !ready.is_empty() {
                let next = ready[self.draw(|random| random.random_range(0..ready.len()))];
                state.parked.remove(&next);
                state.holder = next;
                return Ok(());
            }
            if std::mem::take(&mut state.stirred) {
                wake_sockets(state);
                continue;
            }
            let deadline = |parked: &Parked| match parked.park {
                Park::Until { deadline, .. } => deadline,
                Park::Yield | Park::Join(_) => None,
            };
            let next = state.parked.values().filter_map(deadline).chain(self.next_event()).min();
            let next = next.filter(|next| next.0 <= self.time_limit.load(Ordering::Relaxed));
            match next {
                Some(next) => {
                    self.advance_to(next);
                    wake_sockets(state);
                }
                None => {
                    state.parked.remove(&HARNESS);
                    state.holder = HARNESS;
                    return Err(io::Error::other("the simulation is stuck: nothing is ever going to happen"));
                }
            }
        }
    }

    /// Has threads with sockets look at what was delivered while somebody ran, since the running of code takes time.
    fn tell_deliveries(&self, state: &mut State, now: Nanos) {
        if now > state.told_until {
            let since = std::mem::replace(&mut state.told_until, now);
            if lock(&self.net).next_delivery(since).is_some_and(|due| due <= now) {
                wake_sockets(state);
            }
        }
    }

    fn can_go_on(&self, state: &State, parked: &Parked, now: Nanos) -> bool {
        parked.woken
            || match parked.park {
                Park::Yield => true,
                Park::Until { deadline, .. } => deadline.is_some_and(|deadline| deadline <= now),
                Park::Join(thread) => state.holder != thread && !state.parked.contains_key(&thread),
            }
    }

    /// Starts a thread; it has the next turn.
    pub(super) fn start(
        self: &Arc<Machine>,
        name: &str,
        body: Box<dyn FnOnce() + Send + 'static>,
    ) -> io::Result<Box<dyn Joinable>> {
        note_panics();
        let machine = self.clone();
        let stack_len = usize::try_from(THREAD_STACK_LEN.0).expect("an address space holds a stack");
        let number = {
            let mut state = self.baton.state();
            state.started += 1;
            state.started
        };
        let builder = std::thread::Builder::new().name(format!("sim {name}")).stack_size(stack_len);
        let of_thread = machine.clone();
        builder.spawn(move || of_thread.run_thread(number, body))?;
        let me = current();
        let mut state = self.baton.state();
        state.alive += 1;
        state.parked.insert(me, Parked { park: Park::Yield, woken: true });
        state.holder = number;
        state.tell_holder();
        self.baton.await_turn(state, me);
        Ok(Box::new(SimThread { machine, number }))
    }

    /// Body of a simulated thread.
    fn run_thread(self: &Arc<Machine>, number: ThreadNo, body: Box<dyn FnOnce() + Send>) {
        CURRENT.set(number);
        MACHINE.set(Arc::downgrade(self));
        drop(self.baton.await_baton(self.baton.state(), number));
        // The hook has noted what it was.
        let _ = catch_unwind(AssertUnwindSafe(body));
        let mut state = self.baton.state();
        state.alive -= 1;
        state.turns.remove(&number);
        if state.dying {
            // The harness names the next to die.
            state.parked.remove(&HARNESS);
            state.holder = HARNESS;
        } else {
            let _ = self.pass_on(&mut state);
        }
        state.tell_holder();
    }

    /// Has every thread but the harness unwind from where it waits, one after the other.
    ///
    /// # Panics
    /// If called by another than the harness.
    pub(super) fn end_threads(&self) {
        assert_eq!(current(), HARNESS, "only the harness ends the machine");
        loop {
            let mut state = self.baton.state();
            let Some(next) = state.parked.keys().next().copied() else {
                state.dying = false;
                assert_eq!(state.alive, 0, "every thread waits for the baton");
                return;
            };
            state.dying = true;
            state.parked.remove(&next);
            state.parked.insert(HARNESS, Parked { park: Park::Join(next), woken: false });
            state.holder = next;
            state.tell_holder();
            drop(self.baton.await_baton(state, HARNESS));
        }
    }
}

fn wake_sockets(state: &mut State) {
    for parked in state.parked.values_mut() {
        parked.woken |= matches!(parked.park, Park::Until { sockets: true, .. });
    }
}

struct SimThread {
    machine: Arc<Machine>,
    number: ThreadNo,
}

impl Joinable for SimThread {
    fn join(self: Box<Self>) -> std::thread::Result<()> {
        while !self.is_finished() {
            // Who is unwound as the world ends may own threads that it waits for in a drop: they end after it.
            if std::thread::panicking() && self.machine.baton.state().dying {
                return Ok(());
            }
            self.machine.park(Park::Join(self.number)).map_err(|stuck| Box::new(stuck) as Box<_>)?;
        }
        Ok(())
    }

    fn is_finished(&self) -> bool {
        self.machine.baton.has_ended(self.number)
    }
}
