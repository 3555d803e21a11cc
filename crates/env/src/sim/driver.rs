//! A reactor's driver in the simulation. A file operation takes effect at the instant it completes, so operations in
//! flight together may take effect in any order; a socket operation is tried again whenever the reactor turns.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::Nanos;

use super::threads::{Park, ThreadNo, current};
use super::{Machine, lock};
use crate::blocking::perform;
use crate::net::send_rest;
use crate::reactor::op::{Completed, Op, OpState, Request};
use crate::reactor::{Driver, Notify, Wait};

pub(super) struct SimDriver {
    machine: Arc<Machine>,
    number: u64,
    /// File operations by the instant they complete and their order of submission.
    files: BTreeMap<(Nanos, u64), Arc<Op>>,
    /// Socket operations that would block, in order of submission.
    sockets: Vec<Arc<Op>>,
    /// Operations cancelled since the last turn, which completes them.
    cancelled: Vec<Arc<Op>>,
    submitted: u64,
    timer: Option<Nanos>,
    /// When its thread last let others go on without a need to.
    shared_at: Nanos,
}

/// A thread whose code has taken so long lets others go on, whatever it has to do.
const SHARED_AFTER: Nanos = Nanos::from_micros(50);

/// Ends the wait of a driver's thread.
struct WakeThread(Arc<Machine>, ThreadNo);

impl Notify for WakeThread {
    fn notify(&self) {
        self.0.baton.wake(self.1);
    }
}

impl SimDriver {
    pub(super) fn new(machine: Arc<Machine>) -> SimDriver {
        let number = machine.drivers_made.fetch_add(1, Ordering::Relaxed);
        SimDriver {
            machine,
            number,
            files: BTreeMap::new(),
            sockets: Vec::new(),
            cancelled: Vec::new(),
            submitted: 0,
            timer: None,
            shared_at: Nanos(0),
        }
    }

    /// Tells the world when this driver next has something to do.
    fn publish(&self) {
        let file = self.files.first_key_value().map(|((due, _), _)| *due);
        let next = file.into_iter().chain(self.timer).min();
        let mut deadlines = lock(&self.machine.deadlines);
        match next {
            Some(next) => deadlines.insert(self.number, next),
            None => deadlines.remove(&self.number),
        };
    }

    /// Lets time pass, or others go on, until the next event or for `limit`.
    fn wait(&mut self, limit: Option<Nanos>) -> io::Result<()> {
        let machine = &self.machine;
        let alone = machine.baton.is_alone();
        match limit {
            Some(Nanos(0)) if alone => return Ok(()),
            Some(Nanos(0)) => return machine.park(Park::Yield),
            _ => {}
        }
        let limit = limit.map(|limit| machine.now() + limit);
        if alone {
            let next = machine.next_event().into_iter().chain(limit).min();
            let Some(next) = next else {
                return Err(io::Error::other("the simulation is stuck: nothing is ever going to happen"));
            };
            machine.advance_to(next);
            return Ok(());
        }
        let due = self.files.first_key_value().map(|((due, _), _)| *due);
        let deadline = due.into_iter().chain(self.timer).chain(limit).min();
        machine.park(Park::Until { deadline, sockets: !self.sockets.is_empty() })
    }

    fn complete_due(&mut self, completed: &mut Completed) -> usize {
        let now = self.machine.now();
        let mut done = self.cancelled.len();
        for op in self.cancelled.drain(..) {
            op.lock().complete(Err(io::Error::from_raw_os_error(libc::ECANCELED)), completed);
        }
        while let Some(first) = self.files.first_entry()
            && first.key().0 <= now
        {
            let op = first.remove();
            let mut state = op.lock();
            let result = perform(&mut state.request);
            self.machine.note(3, result.as_ref().map_or(u64::MAX, |n| *n as u64));
            state.complete(result, completed);
            done += 1;
        }
        let machine = &self.machine;
        self.sockets.retain(|op| {
            let mut state = op.lock();
            match attempt(&mut state.request) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => true,
                result => {
                    machine.note(4, result.as_ref().map_or(u64::MAX, |n| *n as u64));
                    state.complete(result, completed);
                    done += 1;
                    false
                }
            }
        });
        done
    }
}

fn attempt(request: &mut Request) -> io::Result<usize> {
    match request {
        Request::Recv { socket, buf, .. } => {
            // Most attempts find nothing, so the buffer's own capacity is not made ready for them.
            let mut piece = [0; 4096];
            let received = socket.try_recv(&mut piece)?;
            buf.extend_from_slice(&piece[..received]);
            Ok(received)
        }
        Request::Send { socket, buf, sent } => send_rest(&**socket, buf, sent),
        Request::Accept { listener, accepted } => {
            *accepted = Some(listener.try_accept()?);
            Ok(0)
        }
        _ => unreachable!("only socket requests are tried"),
    }
}

impl Driver for SimDriver {
    fn submit(&mut self, op: &Arc<Op>, state: &mut OpState) -> bool {
        let speeds = *lock(&self.machine.speeds);
        let latency = match &state.request {
            Request::Read { .. } => speeds.read,
            Request::Write { durable: false, .. } => speeds.write,
            Request::Write { durable: true, .. } | Request::Sync { .. } => speeds.sync,
            _ => {
                self.sockets.push(op.clone());
                return false;
            }
        };
        self.submitted += 1;
        let due = self.machine.file_done(self.machine.delay(latency), speeds.disk_parallel);
        self.files.insert((due, self.submitted), op.clone());
        self.publish();
        false
    }

    fn cancel(&mut self, op: &Arc<Op>) {
        // File operations end soon by themselves.
        if let Some(position) = self.sockets.iter().position(|waiting| Arc::ptr_eq(waiting, op)) {
            self.cancelled.push(self.sockets.remove(position));
        }
    }

    fn turn(&mut self, wait: Wait, completed: &mut Completed) -> io::Result<usize> {
        let wait = wait.at_most;
        // What others do takes place beside what this thread did since it last let them go on.
        let now = self.machine.now();
        if now - self.shared_at >= SHARED_AFTER && !self.machine.baton.is_alone() {
            self.machine.park(Park::Yield)?;
            self.shared_at = self.machine.now();
            let done = self.complete_due(completed);
            self.publish();
            // Whoever woke it meanwhile found it at this, so it does not wait for that any more.
            return Ok(done);
        }
        let mut done = self.complete_due(completed);
        if done == 0 {
            self.wait(wait)?;
            self.shared_at = self.machine.now();
            done = self.complete_due(completed);
        }
        self.publish();
        Ok(done)
    }

    fn notifier(&self) -> Arc<dyn Notify> {
        Arc::new(WakeThread(self.machine.clone(), current()))
    }

    fn note_deadline(&mut self, next: Option<Nanos>) {
        self.timer = next;
        self.publish();
    }
}

impl Drop for SimDriver {
    fn drop(&mut self) {
        lock(&self.machine.deadlines).remove(&self.number);
    }
}
