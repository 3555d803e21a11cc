//! Completion backend on io_uring: one ring a thread, one `io_uring_enter` a turn for everything queued and everything
//! waited for.
//!
//! A submitted operation is known to the kernel by the raw pointer of its `Arc<Op>`; that reference is what keeps the
//! buffers alive until its completion arrives. A small send for which nobody waits is over when it is submitted, and has a
//! completion only if something is left of it: the driver keeps a reference until then.

use std::io;
use std::sync::{Arc, OnceLock};
use std::task::Waker;

use base::Nanos;
use io_uring::types::{CancelBuilder, Fd, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, cqueue, opcode, squeue};

use super::buffer_ring::{self, BufferRing};
use super::event_fd::EventFd;
use super::recorder::Recorder;
use crate::net::{RECV_SPARE_MIN, SocketOps};
use crate::reactor::op::{Completed, Op, OpState, Request};
use crate::reactor::{Driver, Notify, Wait};

const SUBMISSIONS: u32 = 1024;
const COMPLETIONS: u32 = 8192;

/// `IORING_RECVSEND_POLL_FIRST` (5.19): waits for bytes before it tries to receive.
const POLL_FIRST: u16 = 1;

/// `user_data` of requests whose completion means nothing.
const IGNORED: u64 = 0;
/// `user_data` of the read on the wake-up descriptor. No `Arc` lives at this address.
const WAKE: u64 = 1;
/// In `user_data` beside the address of an operation, which is a multiple of eight: the ring tells only of its failure.
const SILENT: u64 = 2;
const _: () = assert!(align_of::<Op>() >= 8);

/// The longest send of which the ring tells only a failure: what is longer seldom goes at once.
const SILENT_LEN_MAX: usize = 64 << 10;

/// The kernel is told a least time of waiting in whole microseconds. Told 0, it would wait for as many completions as there is room for, whatever comes.
const GATHER_MIN: Nanos = Nanos::from_micros(1);

/// When the timeout is due that follows upon a wake-up.
static AT_ONCE: Timespec = Timespec::new().nsec(1);

/// Whether the kernel grants this process a ring, and one with all that the driver needs.
pub(super) fn is_available() -> bool {
    usable_ring().is_ok()
}

/// A ring with timed waits (5.11), whose operations can be ended all at once (5.19).
fn usable_ring() -> io::Result<IoUring> {
    static CAN_CANCEL_ALL: OnceLock<bool> = OnceLock::new();

    let mut ring = build_ring()?;
    let too_old = |what| Err(io::Error::new(io::ErrorKind::Unsupported, what));
    if !ring.params().is_feature_ext_arg() {
        return too_old("io_uring of this kernel has no timed wait");
    }
    let can_cancel_all = match CAN_CANCEL_ALL.get() {
        Some(known) => *known,
        None => {
            let found = knows(&mut ring, &cancel_all())?;
            *CAN_CANCEL_ALL.get_or_init(|| found)
        }
    };
    if can_cancel_all {
        Ok(ring)
    } else {
        too_old("io_uring of this kernel cannot cancel all operations at once")
    }
}

/// Whether the kernel tells of a send that was not to wait how much it has sent, where that is not all: since 6.1, which also has the rings that
/// [`build_ring`] tries first.
fn tells_what_was_sent(ring: &IoUring) -> bool {
    ring.params().is_setup_single_issuer()
}

/// Whether sends for which nobody waits end no wait here.
#[cfg(test)]
pub(super) fn can_be_silent() -> bool {
    usable_ring().is_ok_and(|ring| tells_what_was_sent(&ring))
}

/// Ends all operations of a ring.
fn cancel_all() -> squeue::Entry {
    opcode::AsyncCancel2::new(CancelBuilder::any()).build().user_data(IGNORED)
}

/// Whether the kernel knows what `entry` asks for, which points at nothing: told by having it done on a ring that has nothing else to do.
fn knows(ring: &mut IoUring, entry: &squeue::Entry) -> io::Result<bool> {
    // SAFETY: the entry points at nothing, and the queue is empty.
    unsafe { ring.submission().push(entry) }.expect("a new ring has room");
    loop {
        match ring.submit_and_wait(1) {
            Err(error) if !is_transient(&error) => return Err(error),
            _ => {}
        }
        if let Some(done) = ring.completion().next() {
            return Ok(done.result() != -libc::EINVAL);
        }
    }
}

/// The leanest ring the kernel knows: completion work runs only when the owner asks (6.1), else cooperatively (5.19),
/// else as it comes.
fn build_ring() -> io::Result<IoUring> {
    let mut deferred = IoUring::builder();
    deferred.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag().setup_coop_taskrun();
    let mut cooperative = IoUring::builder();
    cooperative.setup_coop_taskrun().setup_taskrun_flag();
    let mut plain = IoUring::builder();
    for builder in [&mut deferred, &mut cooperative, &mut plain] {
        builder.setup_cqsize(COMPLETIONS).setup_clamp().dontfork();
        match builder.build(SUBMISSIONS) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
            result => return result,
        }
    }
    IoUring::new(256)
}

pub(super) struct UringDriver {
    ring: IoUring,
    wake: Arc<EventFd>,
    /// Where the kernel puts the wake-up counter; boxed so that its address stays.
    wake_count: Box<u64>,
    wake_armed: bool,
    /// Whether the kernel knows a least time of waiting; found out at the first try.
    can_gather: bool,
    /// Whether it has been waited so.
    gathers: bool,
    /// Operations whose reference the kernel holds.
    in_flight: usize,
    /// For receives without a buffer of their own. Dropped after the ring, which is declared first.
    buffers: Option<BufferRing>,
    /// Whether a send that is over when it is submitted may say nothing but its failure.
    can_be_silent: bool,
    /// Sends of which the ring tells only that they failed, or went in part, and the end of which was not noted yet.
    silent: Vec<Arc<Op>>,
    /// Is told of writes and syncs, which go past a file's methods here.
    recorder: Option<Arc<Recorder>>,
}

impl UringDriver {
    pub(super) fn new(recorder: Option<Arc<Recorder>>) -> io::Result<UringDriver> {
        let ring = usable_ring()?;
        // Saves a descriptor look-up an enter; older kernels do without.
        let _ = ring.submitter().register_ring_fd();
        let wake = Arc::new(EventFd::new()?);
        let buffers = BufferRing::register(&ring);
        let can_be_silent = tells_what_was_sent(&ring);
        Ok(UringDriver {
            ring,
            wake,
            wake_count: Box::new(0),
            wake_armed: false,
            can_gather: true,
            gathers: false,
            in_flight: 0,
            buffers,
            can_be_silent,
            silent: Vec::new(),
            recorder,
        })
    }

    fn push(&mut self, entry: &squeue::Entry) {
        self.push_together(std::slice::from_ref(entry));
    }

    /// Queues entries that are handed over in one piece, as those must be of which one follows upon the other.
    fn push_together(&mut self, entries: &[squeue::Entry]) {
        // SAFETY: what the entries point at is owned by their `Arc<Op>` (or, for the wake-up, by this driver, which
        // outlives the ring's operations: see `drop`; or by the program) until their completion.
        while unsafe { self.ring.submission().push_multiple(entries) }.is_err() {
            // The queue is full: hand it over. The kernel may be short of memory for a moment; completions free some.
            if let Err(error) = self.ring.submit() {
                assert!(is_transient(&error), "io_uring_enter: {error}");
            }
        }
    }

    fn start(&mut self, op: &Arc<Op>, state: &mut OpState) {
        let entry = entry_for(&mut state.request, self.buffers.is_some(), state.left_some)
            .user_data(Arc::into_raw(op.clone()) as u64);
        if let Some(recorder) = &self.recorder {
            recorder.ring_begins(Arc::as_ptr(op) as u64, &state.request);
        }
        self.in_flight += 1;
        self.push(&entry);
    }

    /// Starts a send for which nobody waits. It is over when it is submitted, and the ring tells of it only if something is left of it or it
    /// failed: its end would end the wait of a worker that has answered and has nothing else to do.
    fn start_silent(&mut self, op: &Arc<Op>, state: &OpState) {
        let Request::Send { socket, buf, .. } = &state.request else { unreachable!("a send") };
        let entry = send_entry(socket, buf, libc::MSG_DONTWAIT)
            .flags(squeue::Flags::SKIP_SUCCESS)
            .user_data(silent_data(op));
        self.silent.push(op.clone());
        self.in_flight += 1;
        self.push(&entry);
    }

    /// Takes back a silent send of which the ring has told.
    fn take_silent(&mut self, user_data: u64) -> Arc<Op> {
        let at = self.silent.iter().position(|op| silent_data(op) == user_data);
        self.silent.swap_remove(at.expect("a silent send is kept until its end is noted"))
    }

    /// Notes the end of the silent sends, all of which were submitted: what the ring has told of was taken out before.
    fn end_silent(&mut self, completed: &mut Completed) -> usize {
        if self.silent.is_empty() || self.ring.submission().cq_overflow() {
            // What it had no room for is told next.
            return 0;
        }
        let done = self.silent.len();
        self.in_flight -= done;
        for op in self.silent.drain(..) {
            let mut state = op.lock();
            let len = match &state.request {
                Request::Send { buf, .. } => buf.len(),
                _ => unreachable!("a send"),
            };
            state.complete(Ok(len), completed);
        }
        done
    }

    /// Enters the ring and takes in what is over.
    fn go_round(&mut self, wait: Wait, completed: &mut Completed) -> io::Result<usize> {
        // Somebody may have come to wait for the end of a silent send, of which the ring does not tell.
        let is_awaited = self.silent.iter().any(|op| op.lock().is_watched());
        self.enter(if is_awaited { Wait::NOT_AT_ALL } else { wait })?;
        // What `collect` starts again is no silent send.
        let all_submitted = self.ring.submission().is_empty();
        let done = self.collect(completed);
        Ok(done + if all_submitted { self.end_silent(completed) } else { 0 })
    }

    /// A completion ends no wait that gathers, but the end of a timeout ends any: so one follows upon the wake-up where there are such waits.
    /// It comes too late for a wait of another kind, which the wake-up itself has ended, and ends the next one for nothing: a turn too many
    /// for each wake-up from such a wait.
    fn arm_wake(&mut self) {
        if self.wake_armed {
            return;
        }
        let place = (&raw mut *self.wake_count).cast();
        let read = opcode::Read::new(Fd(self.wake.raw_fd()), place, 8).build().user_data(WAKE);
        if self.gathers && self.can_gather {
            let timeout = opcode::Timeout::new(&raw const AT_ONCE).build().user_data(IGNORED);
            self.push_together(&[read.flags(squeue::Flags::IO_LINK), timeout]);
        } else {
            self.push(&read);
        }
        self.wake_armed = true;
    }

    /// One system call at most: submits, and waits if told to.
    fn enter(&mut self, wait: Wait) -> io::Result<()> {
        let result = match wait.at_most {
            Some(Nanos(0)) => {
                let submission = self.ring.submission();
                if submission.is_empty() && !submission.taskrun() && !submission.cq_overflow() {
                    return Ok(());
                }
                drop(submission);
                self.ring.submit_and_wait(0)
            }
            None => self.ring.submit_and_wait(1),
            Some(limit) if wait.gather >= GATHER_MIN && self.can_gather => {
                let result = self.submit_and_gather(limit, wait.gather);
                // Before Linux 6.12 the field for it had to be zero.
                self.can_gather =
                    !result.as_ref().is_err_and(|error| error.raw_os_error() == Some(libc::EINVAL));
                if self.can_gather { result } else { return self.enter(wait) }
            }
            Some(limit) => {
                self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&timespec(limit)))
            }
        };
        match result {
            Err(error) if !is_transient(&error) => Err(error),
            _ => Ok(()),
        }
    }

    /// Submits, and waits at most `limit` for a completion, but for `gather` if one comes before.
    fn submit_and_gather(&mut self, limit: Nanos, gather: Nanos) -> io::Result<usize> {
        /// The kernel's `struct io_uring_getevents_arg`.
        #[repr(C)]
        struct GetEvents {
            signal_mask: u64,
            signal_mask_len: u32,
            wait_min_us: u32,
            timeout: u64,
        }
        let timeout = timespec(limit);
        let argument = GetEvents {
            signal_mask: 0,
            signal_mask_len: 0,
            wait_min_us: (gather.min(limit).0 / 1_000) as u32,
            timeout: (&raw const timeout) as u64,
        };
        let flags = EnterFlags::GETEVENTS | EnterFlags::EXT_ARG;
        let queued = self.ring.submission().len() as u32;
        // SAFETY: the argument has the form that `EXT_ARG` announces, and it and the timeout live until the call returns.
        unsafe { self.ring.submitter().enter(queued, COMPLETIONS, flags.bits(), Some(&argument)) }
    }

    /// Makes room for a received piece and copies it from its provided buffer; `progress` then counts it.
    fn take_out(&mut self, id: u16, request: &mut Request, result: i32) {
        let buffers = self.buffers.as_mut().expect("the kernel names a buffer we provided");
        if let (Request::Recv { buf, .. }, Ok(len)) = (request, usize::try_from(result)) {
            let before = buf.len();
            buf.extend_from_slice(buffers.bytes(id, len));
            buf.truncate(before);
        }
        buffers.provide(id);
    }

    fn collect(&mut self, completed: &mut Completed) -> usize {
        let mut done = 0;
        loop {
            let Some(entry) = self.ring.completion().next() else { return done };
            match entry.user_data() {
                IGNORED => {}
                WAKE => self.wake_armed = false,
                pointer => {
                    self.in_flight -= 1;
                    let op = if pointer & SILENT == 0 {
                        // SAFETY: `start` made the pointer from an `Arc<Op>`, and each submission completes once.
                        unsafe { Arc::from_raw(pointer as *const Op) }
                    } else {
                        self.take_silent(pointer)
                    };
                    let mut state = op.lock();
                    state.left_some = cqueue::sock_nonempty(entry.flags());
                    if let Some(id) = cqueue::buffer_select(entry.flags()) {
                        self.take_out(id, &mut state.request, entry.result());
                    }
                    if let Some(recorder) = &self.recorder {
                        recorder.ring_ended(pointer, &state.request, entry.result());
                    }
                    match progress(&mut state.request, entry.result()) {
                        Some(result) => {
                            done += 1;
                            state.complete(result, completed);
                        }
                        None => self.start(&op, &mut state),
                    }
                }
            }
        }
    }
}

fn timespec(time: Nanos) -> Timespec {
    Timespec::new().sec(time.0 / 1_000_000_000).nsec((time.0 % 1_000_000_000) as u32)
}

/// Interrupted, timed out, or short of memory for a moment: what is queued stays queued for the next turn.
fn is_transient(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINTR | libc::ETIME | libc::EBUSY | libc::EAGAIN))
}

fn fd(raw: Option<std::os::fd::RawFd>) -> Fd {
    Fd(raw.expect("only objects of the real environment meet a real reactor"))
}

/// The `user_data` of a silent send.
fn silent_data(op: &Arc<Op>) -> u64 {
    Arc::as_ptr(op) as u64 | SILENT
}

fn len_u32(len: usize) -> u32 {
    // A longer transfer comes back short and is continued.
    u32::try_from(len).unwrap_or(1 << 30).min(1 << 30)
}

/// The ring entry for what is left of a request. `left_some`: the receive before it left bytes in the socket.
fn entry_for(request: &mut Request, can_select: bool, left_some: bool) -> squeue::Entry {
    match request {
        Request::None => unreachable!("an operation is started with a request"),
        Request::Recv { socket, buf, .. } => {
            let room = buf.capacity() - buf.len();
            if can_select && room < RECV_SPARE_MIN {
                // Else a buffer that is kept for short messages would take in many of them piece by piece.
                let recv = opcode::Recv::new(fd(socket.raw_fd()), std::ptr::null_mut(), 0);
                // Who has part of a message most likely finds the rest of it there; and what is there is received at once, not when the ring is turned next.
                let recv = if buf.is_empty() && !left_some { recv.ioprio(POLL_FIRST) } else { recv };
                return recv.buf_group(buffer_ring::GROUP).build().flags(squeue::Flags::BUFFER_SELECT);
            }
            if room == 0 {
                buf.reserve(RECV_SPARE_MIN);
            }
            let spare = buf.spare_capacity_mut();
            opcode::Recv::new(fd(socket.raw_fd()), spare.as_mut_ptr().cast(), len_u32(spare.len())).build()
        }
        Request::Send { socket, buf, sent } => send_entry(socket, &buf[*sent..], 0),
        Request::Accept { listener, .. } => {
            opcode::PollAdd::new(fd(listener.raw_fd()), libc::POLLIN as u32).build()
        }
        Request::Read { file, buf, offset, done } => {
            let rest = &mut buf[*done..];
            opcode::Read::new(fd(file.raw_fd()), rest.as_mut_ptr(), len_u32(rest.len()))
                .offset(*offset + *done as u64)
                .build()
        }
        Request::Write { file, buf, offset, done, durable } => {
            let rest = &buf[*done..];
            opcode::Write::new(fd(file.raw_fd()), rest.as_ptr(), len_u32(rest.len()))
                .offset(*offset + *done as u64)
                .rw_flags(if *durable { libc::RWF_DSYNC } else { 0 })
                .build()
        }
        Request::Sync { file } => opcode::Fsync::new(fd(file.raw_fd())).flags(FsyncFlags::DATASYNC).build(),
    }
}

/// A send of all these bytes: the kernel goes on when the socket has room again, unless the flags have it end there.
fn send_entry(socket: &Arc<dyn SocketOps>, bytes: &[u8], flags: libc::c_int) -> squeue::Entry {
    opcode::Send::new(fd(socket.raw_fd()), bytes.as_ptr(), len_u32(bytes.len()))
        .flags(libc::MSG_NOSIGNAL | libc::MSG_WAITALL | flags)
        .build()
}

/// Takes a completion's result in; the operation's outcome, or `None` to submit what is left of it.
fn progress(request: &mut Request, result: i32) -> Option<io::Result<usize>> {
    let Ok(n) = usize::try_from(result) else {
        if matches!(-result, libc::EINTR | libc::EAGAIN) {
            return None;
        }
        if let Request::Recv { buf, .. } = request
            && -result == libc::ENOBUFS
        {
            // No provided buffer was free: go on with one of its own.
            buf.reserve(RECV_SPARE_MIN);
            return None;
        }
        return Some(Err(io::Error::from_raw_os_error(-result)));
    };
    match request {
        Request::Recv { buf, .. } => {
            assert!(n <= buf.capacity() - buf.len());
            // SAFETY: `n` bytes were written into the spare capacity: by the kernel, to which `entry_for` gave it, or by
            // `take_out`.
            unsafe { buf.set_len(buf.len() + n) };
            Some(Ok(n))
        }
        Request::Send { buf, sent, .. } => {
            *sent += n;
            (*sent == buf.len()).then_some(Ok(*sent))
        }
        Request::Accept { listener, accepted } => match listener.try_accept() {
            Ok(connection) => {
                *accepted = Some(connection);
                Some(Ok(0))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            Err(error) => Some(Err(error)),
        },
        Request::Read { buf, done, .. } => {
            *done += n;
            // A transfer that stops inside a sector has met the end of the file.
            let ended = n == 0 || !n.is_multiple_of(512);
            (ended || *done == buf.len()).then_some(Ok(*done))
        }
        Request::Write { buf, done, .. } => {
            *done += n;
            (n == 0 || *done == buf.len()).then_some(Ok(*done))
        }
        Request::Sync { .. } | Request::None => Some(Ok(n)),
    }
}

impl Driver for UringDriver {
    fn submit(&mut self, op: &Arc<Op>, state: &mut OpState) -> bool {
        if self.can_be_silent && state.unwatched_len().is_some_and(|len| len <= SILENT_LEN_MAX) {
            self.start_silent(op, state);
        } else {
            self.start(op, state);
        }
        false
    }

    fn cancel(&mut self, op: &Arc<Op>) {
        let entry = opcode::AsyncCancel::new(Arc::as_ptr(op) as u64).build().user_data(IGNORED);
        self.push(&entry);
    }

    fn turn(&mut self, wait: Wait, completed: &mut Completed) -> io::Result<usize> {
        self.gathers |= wait.gather >= GATHER_MIN;
        self.arm_wake();
        self.go_round(wait, completed)
    }

    fn notifier(&self) -> Arc<dyn Notify> {
        self.wake.clone()
    }
}

impl Drop for UringDriver {
    /// Ends what is in flight before the ring and the wake-up place go away.
    fn drop(&mut self) {
        let cancel = cancel_all();
        self.push(&cancel);
        let mut completed = Completed::default();
        while self.in_flight > 0 || self.wake_armed {
            let before = self.in_flight;
            let wait = Wait { at_most: Some(Nanos::from_millis(100)), gather: Nanos(0) };
            if self.go_round(wait, &mut completed).is_err() {
                // The ring is unusable: leak rather than free memory the kernel may still write to.
                std::mem::forget(std::mem::take(&mut self.wake_count));
                std::mem::forget(self.buffers.take());
                std::mem::forget(std::mem::take(&mut self.silent));
                break;
            }
            if before == self.in_flight && self.in_flight > 0 {
                self.push(&cancel);
            }
        }
        completed.wakers.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_kernel_does_not_know_is_found_out() {
        let Ok(mut ring) = build_ring() else {
            println!("skipped: this machine grants no ring");
            return;
        };
        let flags = FsyncFlags::from_bits_retain(1 << 30);
        assert!(!knows(&mut ring, &opcode::Fsync::new(Fd(0)).flags(flags).build()).expect("it answers"));
        assert!(knows(&mut ring, &opcode::Nop::new().build()).expect("it answers"));
    }
}
