//! Fallback backend on readiness (`polling`, epoll on Linux) and file threads, for sandboxes that refuse io_uring.
//!
//! Socket operations are tried at once and wait for readiness only if they would block.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::Duration;

use base::Nanos;
use polling::{Event, Events, PollMode, Poller};

use super::file_pool::{self, Report};
use crate::net::RECV_SPARE_MIN;
use crate::reactor::op::{Completed, Op, OpState, Phase, Request};
use crate::reactor::{Driver, Notify, Wait};

/// What waits for one descriptor. In the poller exactly while it is in `EpollDriver::waiting`.
#[derive(Default)]
struct Interest {
    read: Option<Arc<Op>>,
    write: Option<Arc<Op>>,
}

pub(super) struct EpollDriver {
    shared: Arc<Shared>,
    events: Events,
    waiting: BTreeMap<RawFd, Interest>,
}

/// The part file threads and remote wakers reach.
struct Shared {
    poller: Poller,
    finished: Mutex<Vec<(Arc<Op>, io::Result<usize>)>>,
}

impl Notify for Shared {
    fn notify(&self) {
        // It fails only if the descriptor is gone, and then nobody waits.
        let _ = self.poller.notify();
    }
}

impl Report for Shared {
    fn report(&self, op: Arc<Op>, result: io::Result<usize>) {
        self.finished.lock().expect("no panic under this lock").push((op, result));
        self.notify();
    }
}

impl EpollDriver {
    pub(super) fn new() -> io::Result<EpollDriver> {
        let shared = Arc::new(Shared { poller: Poller::new()?, finished: Mutex::default() });
        Ok(EpollDriver { shared, events: Events::new(), waiting: BTreeMap::new() })
    }

    /// Brings the poller in line with who waits for `raw`.
    fn update(&mut self, raw: RawFd, was_known: bool) -> io::Result<()> {
        let poller = &self.shared.poller;
        // SAFETY: an operation in `waiting` keeps its socket, and so the descriptor, open; it is removed from the
        // poller below before the last such operation is let go.
        let source = unsafe { BorrowedFd::borrow_raw(raw) };
        match self.waiting.get(&raw) {
            Some(Interest { read: None, write: None }) | None => {
                self.waiting.remove(&raw);
                if was_known { poller.delete(source) } else { Ok(()) }
            }
            Some(interest) => {
                let event = Event::new(raw as usize, interest.read.is_some(), interest.write.is_some());
                if was_known {
                    poller.modify_with_mode(source, event, PollMode::Oneshot)
                } else {
                    // SAFETY: as above.
                    unsafe { poller.add_with_mode(raw, event, PollMode::Oneshot) }
                }
            }
        }
    }

    fn wait_for(&mut self, raw: RawFd, op: &Arc<Op>, direction: Direction) -> io::Result<()> {
        let was_known = self.waiting.contains_key(&raw);
        let interest = self.waiting.entry(raw).or_default();
        match direction {
            Direction::Read => interest.read = Some(op.clone()),
            Direction::Write => interest.write = Some(op.clone()),
        }
        self.update(raw, was_known)
    }

    /// Tries again what `raw` was waited for; true if an operation completed.
    fn retry(&mut self, raw: RawFd, completed: &mut Completed) -> usize {
        let Some(interest) = self.waiting.get_mut(&raw) else { return 0 };
        let ops = [interest.read.take(), interest.write.take()];
        let mut done = 0;
        for op in ops.iter().flatten() {
            let mut state = op.lock();
            match attempt(&mut state.request) {
                Attempt::Done(result) => {
                    done += 1;
                    state.complete(result, completed);
                }
                Attempt::WouldBlock(_, Direction::Read) => interest.read = Some(op.clone()),
                Attempt::WouldBlock(_, Direction::Write) => interest.write = Some(op.clone()),
                Attempt::Blocking => unreachable!("files are not waited for here"),
            }
        }
        if let Err(error) = self.update(raw, true) {
            done += self.fail(raw, &error, completed);
        }
        done
    }

    fn fail(&mut self, raw: RawFd, error: &io::Error, completed: &mut Completed) -> usize {
        let Some(interest) = self.waiting.remove(&raw) else { return 0 };
        let mut done = 0;
        for op in [interest.read, interest.write].into_iter().flatten() {
            done += 1;
            op.lock().complete(Err(io::Error::new(error.kind(), error.to_string())), completed);
        }
        done
    }
}

#[derive(Clone, Copy)]
enum Direction {
    Read,
    Write,
}

enum Attempt {
    Done(io::Result<usize>),
    WouldBlock(RawFd, Direction),
    /// A file operation, for the pool.
    Blocking,
}

fn attempt(request: &mut Request) -> Attempt {
    let (result, raw, direction) = match request {
        Request::Recv { socket, buf, .. } => {
            (crate::net::recv_into(&**socket, buf, RECV_SPARE_MIN), socket.raw_fd(), Direction::Read)
        }
        Request::Send { socket, buf, sent } => {
            (crate::net::send_rest(&**socket, buf, sent), socket.raw_fd(), Direction::Write)
        }
        Request::Accept { listener, accepted } => {
            let result = listener.try_accept().map(|connection| {
                *accepted = Some(connection);
                0
            });
            (result, listener.raw_fd(), Direction::Read)
        }
        Request::Read { .. } | Request::Write { .. } | Request::Sync { .. } => return Attempt::Blocking,
        Request::None => unreachable!("an operation is started with a request"),
    };
    match result {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            Attempt::WouldBlock(raw.expect("only real objects meet a real reactor"), direction)
        }
        result => Attempt::Done(result),
    }
}

impl Driver for EpollDriver {
    fn submit(&mut self, op: &Arc<Op>, state: &mut OpState) -> bool {
        let result = match attempt(&mut state.request) {
            Attempt::Done(result) => result,
            Attempt::WouldBlock(raw, direction) => match self.wait_for(raw, op, direction) {
                Ok(()) => return false,
                Err(error) => {
                    self.waiting.remove(&raw);
                    Err(error)
                }
            },
            Attempt::Blocking => {
                file_pool::run(op.clone(), self.shared.clone());
                return false;
            }
        };
        state.complete_at_once(result);
        true
    }

    fn cancel(&mut self, op: &Arc<Op>) {
        let holds = |held: &Option<Arc<Op>>| held.as_ref().is_some_and(|held| Arc::ptr_eq(held, op));
        let found =
            self.waiting.iter_mut().find(|(_, interest)| holds(&interest.read) || holds(&interest.write));
        let Some((&raw, interest)) = found else { return };
        if holds(&interest.read) {
            interest.read = None;
        } else {
            interest.write = None;
        }
        let _ = self.update(raw, true);
        let cancelled = io::Error::from_raw_os_error(libc::ECANCELED);
        self.shared.finished.lock().expect("no panic under this lock").push((op.clone(), Err(cancelled)));
    }

    fn turn(&mut self, wait: Wait, completed: &mut Completed) -> io::Result<usize> {
        let has_finished = !self.shared.finished.lock().expect("no panic under this lock").is_empty();
        let wait = if has_finished { Some(Nanos(0)) } else { wait.at_most };
        self.events.clear();
        match self.shared.poller.wait(&mut self.events, wait.map(|wait| Duration::from_nanos(wait.0))) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        let ready: Vec<RawFd> = self.events.iter().map(|event| event.key as RawFd).collect();
        let mut done = 0;
        for raw in ready {
            done += self.retry(raw, completed);
        }
        let finished = std::mem::take(&mut *self.shared.finished.lock().expect("no panic under this lock"));
        for (op, result) in finished {
            let mut state = op.lock();
            if state.phase == Phase::Submitted {
                done += 1;
                state.complete(result, completed);
            }
        }
        Ok(done)
    }

    fn notifier(&self) -> Arc<dyn Notify> {
        self.shared.clone()
    }
}

impl Drop for EpollDriver {
    fn drop(&mut self) {
        let mut completed = Completed::default();
        let cancelled = io::Error::from_raw_os_error(libc::ECANCELED);
        for raw in self.waiting.keys().copied().collect::<Vec<_>>() {
            self.fail(raw, &cancelled, &mut completed);
        }
        completed.wakers.into_iter().for_each(Waker::wake);
    }
}
