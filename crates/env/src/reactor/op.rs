//! The state of one asynchronous operation, shared by the future that waits for it and the driver that runs it.
//!
//! The operation owns its buffers from submission to completion, whoever still waits: that is what makes dropping a
//! future sound. While `phase` is `Submitted` only the driver touches `request`. The lock is never held across a wait
//! and is uncontended while an operation stays on its thread.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Waker;

use super::gate::IoTicket;
use super::{Arrived, IoCharge, with_current};
use base::ByteCount;

use crate::disk::FileOps;
use crate::io_buf::IoBuf;
use crate::net::{ListenerOps, SocketOps};

/// What is to be done, with everything it needs.
#[derive(Default)]
pub(crate) enum Request {
    #[default]
    None,
    /// Append to `buf`, whose length was `base` at the start.
    Recv {
        socket: Arc<dyn SocketOps>,
        buf: Vec<u8>,
        base: usize,
    },
    Send {
        socket: Arc<dyn SocketOps>,
        buf: Vec<u8>,
        sent: usize,
    },
    Accept {
        listener: Arc<dyn ListenerOps>,
        accepted: Option<(Arc<dyn SocketOps>, SocketAddr)>,
    },
    Read {
        file: Arc<dyn FileOps>,
        buf: IoBuf,
        offset: u64,
        done: usize,
    },
    Write {
        file: Arc<dyn FileOps>,
        buf: IoBuf,
        offset: u64,
        done: usize,
        durable: bool,
    },
    Sync {
        file: Arc<dyn FileOps>,
    },
}

impl Request {
    /// Bytes to be read or written; zero for a sync.
    fn len(&self) -> ByteCount {
        match self {
            Request::Read { buf, .. } | Request::Write { buf, .. } => ByteCount(buf.len() as u64),
            _ => ByteCount(0),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    Idle,
    /// With the reactor's gate, not yet with the driver.
    Held,
    Submitted,
    Done,
}

pub(crate) struct OpState {
    pub(crate) phase: Phase,
    pub(crate) request: Request,
    /// Valid when `Done`.
    pub(crate) result: io::Result<usize>,
    waker: Option<Waker>,
    /// Of a charged operation in flight.
    ticket: Option<IoTicket>,
    /// Asked when it is about to start.
    pub(crate) condition: Option<Condition>,
    /// It was started for nobody to wait for it.
    unwatched: bool,
    /// It received less than its socket had, as the driver was told.
    pub(crate) left_some: bool,
}

/// Whether an operation may start after all, asked once, on its reactor's thread. Must neither submit operations nor wait.
pub(crate) type Condition = Box<dyn FnOnce() -> bool + Send>;

/// The outcome of an operation whose condition did not hold.
pub(crate) fn not_started() -> io::Error {
    io::ErrorKind::ResourceBusy.into()
}

/// What one turn of a driver completed.
#[derive(Default)]
pub(crate) struct Completed {
    /// Run after every lock and borrow is released, since waking may submit.
    pub(crate) wakers: Vec<Waker>,
    /// For the gate.
    pub(crate) tickets: Vec<IoTicket>,
}

impl OpState {
    /// Goes from the gate to the driver; `None` where nobody is told of the end.
    pub(crate) fn leave_gate(&mut self, ticket: Option<IoTicket>) {
        assert_eq!(self.phase, Phase::Held, "an operation starts once");
        self.phase = Phase::Submitted;
        self.ticket = ticket;
    }

    /// Whether it may start after all. If not, it is over, and its waker is to be told.
    pub(crate) fn may_start(&mut self) -> bool {
        assert_eq!(self.phase, Phase::Held, "asked before it starts");
        let may = self.condition.take().is_none_or(|condition| condition());
        if !may {
            self.phase = Phase::Done;
            self.result = Err(not_started());
        }
        may
    }

    pub(crate) fn take_waker(&mut self) -> Option<Waker> {
        self.waker.take()
    }

    /// Whether somebody is to be told of the end.
    pub(crate) fn is_watched(&self) -> bool {
        self.waker.is_some()
    }

    /// Bytes of a send that was started for nobody to wait for it, if it is one.
    pub(crate) fn unwatched_len(&self) -> Option<usize> {
        match &self.request {
            Request::Send { buf, .. } if self.unwatched => Some(buf.len()),
            _ => None,
        }
    }

    /// Records the outcome.
    pub(crate) fn complete(&mut self, result: io::Result<usize>, completed: &mut Completed) {
        debug_assert_eq!(self.phase, Phase::Submitted);
        self.phase = Phase::Done;
        self.result = result;
        self.let_go_of_long_buffer();
        completed.wakers.extend(self.waker.take());
        completed.tickets.extend(self.ticket.take());
    }

    /// Records the outcome of an operation while it is being submitted. Operations on files are never that fast.
    pub(crate) fn complete_at_once(&mut self, result: io::Result<usize>) {
        assert!(
            self.waker.is_none() && self.ticket.is_none(),
            "nobody waits yet for what is being submitted"
        );
        self.phase = Phase::Done;
        self.result = result;
        self.let_go_of_long_buffer();
    }

    /// What was sent and waited for by nobody keeps no long buffer until something is sent next.
    fn let_go_of_long_buffer(&mut self) {
        if self.unwatched
            && let Request::Send { buf, .. } = &mut self.request
            && buf.capacity() > UNWATCHED_KEPT_MAX
        {
            *buf = Vec::new();
        }
    }
}

pub(crate) struct Op(Mutex<OpState>);

impl Op {
    fn idle() -> Op {
        Op(Mutex::new(OpState {
            phase: Phase::Idle,
            request: Request::None,
            result: Ok(0),
            waker: None,
            ticket: None,
            condition: None,
            unwatched: false,
            left_some: false,
        }))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, OpState> {
        self.0.lock().expect("no panic under an operation's lock")
    }
}

/// Capacity of its buffer that an unwatched send keeps when it has ended.
const UNWATCHED_KEPT_MAX: usize = 1 << 10;

/// Operations a thread keeps for reuse.
const SPARE_OPS_MAX: usize = 256;

/// A future's side of an operation.
pub(crate) struct OpHandle(Arc<Op>);

impl OpHandle {
    /// An operation not yet started.
    pub(crate) fn idle() -> OpHandle {
        OpHandle(Arc::new(Op::idle()))
    }

    /// Starts an operation of its own on the current reactor.
    pub(crate) fn start(request: Request, waker: &Waker) -> OpHandle {
        let spare = with_current(|inner| inner.spare_ops.borrow_mut().pop());
        let handle = OpHandle(spare.unwrap_or_else(|| Arc::new(Op::idle())));
        let started = handle.start_if_idle(waker, || request);
        debug_assert!(started);
        handle
    }

    /// As [`OpHandle::start`], for an operation that is charged: it starts when the reactor's gate lets it.
    pub(crate) fn start_charged(
        request: Request,
        charge: &IoCharge,
        condition: Option<Condition>,
        waker: &Waker,
    ) -> OpHandle {
        with_current(|inner| {
            let spare = inner.spare_ops.borrow_mut().pop();
            let op = spare.unwrap_or_else(|| Arc::new(Op::idle()));
            let mut state = op.lock();
            debug_assert_eq!(state.phase, Phase::Idle);
            let len = request.len();
            state.phase = Phase::Held;
            state.request = request;
            state.condition = condition;
            state.waker = Some(waker.clone());
            match inner.arrive(charge, len, &op) {
                Arrived::Started(ticket) if state.may_start() => inner.start_held(&op, &mut state, ticket),
                // Whoever polls finds out at once.
                Arrived::Started(ticket) => inner.give_back(ticket),
                Arrived::Held => {}
            }
            drop(state);
            OpHandle(op)
        })
    }

    /// Starts the operation on the current reactor unless one is in flight or finished; true if it started.
    pub(crate) fn start_if_idle(&self, waker: &Waker, request: impl FnOnce() -> Request) -> bool {
        let mut state = self.0.lock();
        if state.phase != Phase::Idle {
            return false;
        }
        state.phase = Phase::Submitted;
        state.unwatched = false;
        state.request = request();
        let completed = with_current(|inner| inner.driver.borrow_mut().submit(&self.0, &mut state));
        debug_assert_eq!(completed, state.phase == Phase::Done);
        if !completed {
            state.waker = Some(waker.clone());
        }
        true
    }

    /// Starts the operation on the current reactor, its end told to nobody, and gives the outcome of the one before: if
    /// that failed, nothing is started. `None` while that one is in flight. `request` is made from the request before.
    pub(crate) fn start_unwatched(&self, request: impl FnOnce(Request) -> Request) -> Option<io::Result<()>> {
        let mut state = self.0.lock();
        if state.phase == Phase::Submitted {
            return None;
        }
        let finished = state.phase == Phase::Done;
        state.phase = Phase::Idle;
        let before = std::mem::take(&mut state.request);
        if finished && let Err(error) = std::mem::replace(&mut state.result, Ok(0)) {
            return Some(Err(error));
        }
        state.phase = Phase::Submitted;
        state.request = request(before);
        state.unwatched = true;
        state.waker = None;
        with_current(|inner| inner.driver.borrow_mut().submit(&self.0, &mut state));
        Some(Ok(()))
    }

    /// The outcome, once; leaves the operation idle. Until then registers `waker`.
    pub(crate) fn poll(&self, waker: &Waker) -> Option<(io::Result<usize>, Request)> {
        let mut state = self.0.lock();
        match state.phase {
            Phase::Done => {
                state.phase = Phase::Idle;
                let result = std::mem::replace(&mut state.result, Ok(0));
                Some((result, std::mem::take(&mut state.request)))
            }
            Phase::Held | Phase::Submitted => {
                if !state.waker.as_ref().is_some_and(|registered| registered.will_wake(waker)) {
                    state.waker = Some(waker.clone());
                }
                None
            }
            Phase::Idle => None,
        }
    }

    /// Gives a finished operation to the thread's pool, unless the driver still refers to it.
    pub(crate) fn recycle(self) {
        let op = self.0;
        if Arc::strong_count(&op) == 1 {
            with_current(|inner| {
                let mut spare = inner.spare_ops.borrow_mut();
                if spare.len() < SPARE_OPS_MAX {
                    spare.push(op);
                }
            });
        }
    }

    /// Asks the current reactor to end the operation early, if it is in flight.
    pub(crate) fn cancel(&self) {
        if self.is_submitted() {
            with_current(|inner| inner.driver.borrow_mut().cancel(&self.0));
        }
    }

    pub(crate) fn is_submitted(&self) -> bool {
        self.0.lock().phase == Phase::Submitted
    }

    /// Like [`OpHandle::is_submitted`], and has `waker` told of the completion.
    pub(crate) fn is_in_flight(&self, waker: &Waker) -> bool {
        let mut state = self.0.lock();
        let in_flight = state.phase == Phase::Submitted;
        if in_flight {
            state.waker = Some(waker.clone());
        }
        in_flight
    }
}
