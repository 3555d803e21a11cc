//! The operating system's threads, scheduling classes, limits and signals (Linux).

use std::io;
use std::sync::{Arc, OnceLock};

use base::limits::THREAD_STACK_LEN;
use base::{ByteCount, Nanos};

use super::{check, clock};
use crate::threads::{JoinHandle, Joinable, Priority, ShutdownSignal, ThreadControl, ThreadOps, Threads};

pub(super) struct SystemThreads;

/// The slice a worker asks for: with a short one of its own the kernel lets it preempt a raised proxy at once.
const WORKER_SLICE: Nanos = Nanos::from_micros(100);

impl Joinable for std::thread::JoinHandle<()> {
    fn join(self: Box<Self>) -> std::thread::Result<()> {
        (*self).join()
    }
    fn is_finished(&self) -> bool {
        std::thread::JoinHandle::is_finished(self)
    }
}

impl Threads for SystemThreads {
    fn spawn(
        &self,
        name: &str,
        core: Option<usize>,
        body: Box<dyn FnOnce() + Send + 'static>,
    ) -> io::Result<JoinHandle> {
        let stack_len = usize::try_from(THREAD_STACK_LEN.0).expect("an address space holds a stack");
        let builder = std::thread::Builder::new().name(name.to_owned()).stack_size(stack_len);
        let handle = builder.spawn(move || {
            if let Some(core) = core {
                // A core taken away since start-up leaves the thread unpinned, which is slower but right.
                let _ = pin_current(core);
            }
            body();
        })?;
        Ok(JoinHandle::new(Box::new(handle)))
    }

    fn current(&self) -> ThreadControl {
        // SAFETY: a plain system call.
        let tid = unsafe { libc::gettid() };
        ThreadControl::new(Arc::new(SystemThread { tid }))
    }

    fn pin_current(&self, core: usize) -> io::Result<()> {
        pin_current(core)
    }

    fn cores(&self) -> Vec<usize> {
        // SAFETY: an all-zero CPU set is the empty set.
        let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: `set` is a place of the stated size.
        if unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) } != 0 {
            return vec![0];
        }
        // SAFETY: each index is below the set's size.
        (0..libc::CPU_SETSIZE as usize).filter(|core| unsafe { libc::CPU_ISSET(*core, &set) }).collect()
    }

    fn raise_file_limit(&self) -> io::Result<u64> {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: a valid place for the answer.
        check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) })?;
        limit.rlim_cur = limit.rlim_max;
        // SAFETY: a valid limit, at most the hard one.
        check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) })?;
        Ok(limit.rlim_cur)
    }

    fn resident_memory(&self) -> ByteCount {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
        let pages: u64 = statm.split_whitespace().nth(1).and_then(|field| field.parse().ok()).unwrap_or(0);
        // SAFETY: a plain library call.
        let page_size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        ByteCount(pages * u64::try_from(page_size).unwrap_or(4096))
    }

    fn shutdown_signal(&self) -> ShutdownSignal {
        static SIGNAL: OnceLock<ShutdownSignal> = OnceLock::new();
        SIGNAL.get_or_init(listen_for_signals).clone()
    }
}

fn pin_current(core: usize) -> io::Result<()> {
    if core >= libc::CPU_SETSIZE as usize {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: an all-zero CPU set is the empty set, and the index is below its size.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core, &mut set);
        set
    };
    // SAFETY: a CPU set of the stated size, for the calling thread.
    check(unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) }).map(drop)
}

struct SystemThread {
    tid: libc::pid_t,
}

/// The kernel's `struct sched_attr`, its first version.
#[repr(C)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    /// For `SCHED_OTHER` the thread's slice in ns, 0 for the default (Linux 6.12; ignored before).
    runtime: u64,
    deadline: u64,
    period: u64,
}
const _: () = assert!(size_of::<SchedAttr>() == 48);

impl ThreadOps for SystemThread {
    fn set_priority(&self, priority: Priority) -> io::Result<()> {
        let (policy, nice, slice) = match priority {
            Priority::Worker => (libc::SCHED_OTHER, -20, WORKER_SLICE),
            Priority::Normal => (libc::SCHED_OTHER, 0, Nanos(0)),
            Priority::Low => (libc::SCHED_OTHER, 10, Nanos(0)),
            Priority::ProxyIdle => (libc::SCHED_IDLE, 0, Nanos(0)),
            Priority::ProxyRaised => (libc::SCHED_OTHER, 19, Nanos(0)),
        };
        let attributes = SchedAttr {
            size: size_of::<SchedAttr>() as u32,
            policy: policy as u32,
            flags: 0,
            nice,
            priority: 0,
            runtime: slice.0,
            deadline: 0,
            period: 0,
        };
        // SAFETY: a plain system call.
        if priority == Priority::Worker && unsafe { libc::gettid() } == self.tid {
            // Timers of other threads may be 50 µs late to save wake-ups; a worker's quanta may not.
            // SAFETY: sets a number of the calling thread.
            unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) };
        }
        // SAFETY: the structure's size is in its first field, as the kernel wants it.
        let result = unsafe { libc::syscall(libc::SYS_sched_setattr, self.tid, &raw const attributes, 0) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    fn cpu_time(&self) -> Option<Nanos> {
        clock::thread_cpu_of(self.tid)
    }
}

/// Write end of the pipe from the signal handler; -1 until it is made.
static SIGNAL_PIPE: std::sync::atomic::AtomicI32 = std::sync::atomic::AtomicI32::new(-1);

extern "C" fn on_signal(_signal: libc::c_int) {
    let pipe = SIGNAL_PIPE.load(std::sync::atomic::Ordering::Relaxed);
    // SAFETY: `write` may be called in a signal handler. Its errno is the interrupted code's, so it is put back.
    unsafe {
        let errno = *libc::__errno_location();
        libc::write(pipe, [1u8].as_ptr().cast(), 1);
        *libc::__errno_location() = errno;
    }
}

/// Routes the signals that ask for the end through a pipe to a thread, since a handler itself may do next to nothing.
fn listen_for_signals() -> ShutdownSignal {
    let signal = ShutdownSignal::default();
    let mut ends = [0; 2];
    // SAFETY: a place for two descriptors.
    check(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) }).expect("a pipe for signals");
    SIGNAL_PIPE.store(ends[1], std::sync::atomic::Ordering::Relaxed);
    let requested = signal.clone();
    let forward = move || {
        let mut byte = [0u8; 1];
        loop {
            // SAFETY: one writable byte; the pipe is never closed.
            if unsafe { libc::read(ends[0], byte.as_mut_ptr().cast(), 1) } == 1 {
                requested.request();
            }
        }
    };
    SystemThreads.spawn("signals", None, Box::new(forward)).expect("a thread for signals");
    // The last is that of a terminal that is gone, unless the program was started to outlive it (`nohup`).
    let hangup = (!is_ignored(libc::SIGHUP)).then_some(libc::SIGHUP);
    for number in [libc::SIGINT, libc::SIGTERM].into_iter().chain(hangup) {
        // SAFETY: the handler only makes calls that are safe in one, and the zeroed rest of the structure is valid.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_signal as extern "C" fn(libc::c_int) as usize;
            action.sa_flags = libc::SA_RESTART;
            libc::sigemptyset(&mut action.sa_mask);
            check(libc::sigaction(number, &action, std::ptr::null_mut())).expect("a handler for signals");
        }
    }
    signal
}

fn is_ignored(number: libc::c_int) -> bool {
    // SAFETY: a zeroed action is a valid place for the answer.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: without a new action the signal stays as it is.
    let asked = check(unsafe { libc::sigaction(number, std::ptr::null(), &mut action) });
    asked.is_ok() && action.sa_sigaction == libc::SIG_IGN
}

/// Has SIGHUP change nothing from now on. It tells other servers to read their configuration anew, and is sent to all that a pattern of log rotation finds; to systemd a
/// service that it ended has ended in order, and is not started again.
pub fn ignore_hangups() {
    // SAFETY: a signal that is ignored runs nothing.
    unsafe { libc::signal(libc::SIGHUP, libc::SIG_IGN) };
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests of the real machine use it from outside too")]
mod tests {
    use super::*;

    #[test]
    fn thread_is_pinned_and_its_clock_read_from_outside() {
        let core = SystemThreads.cores()[0];
        let (control_to, control_from) = std::sync::mpsc::channel();
        let (stop_to, stop_from) = std::sync::mpsc::channel::<()>();
        let body = move || {
            assert_eq!(SystemThreads.cores(), vec![core]);
            let until = std::time::Instant::now() + std::time::Duration::from_millis(30);
            while std::time::Instant::now() < until {}
            control_to.send(SystemThreads.current()).expect("the test waits");
            let _ = stop_from.recv();
        };
        let handle = SystemThreads.spawn("spinner", Some(core), Box::new(body)).expect("a thread");
        let control: ThreadControl = control_from.recv().expect("the thread lives");
        assert!(control.cpu_time().expect("the thread lives") > Nanos::from_millis(5));
        control.set_priority(Priority::ProxyIdle).expect("anyone may lower a thread");
        drop(stop_to);
        handle.join().expect("no panic");
        // The kernel may reap the thread a moment after the join.
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert_eq!(control.cpu_time(), None);
    }

    #[test]
    fn a_terminal_that_is_gone_asks_for_the_end_unless_that_is_ignored() {
        let _ = SystemThreads.shutdown_signal();
        let status = std::fs::read_to_string("/proc/self/status").expect("its status");
        let has = |mask: &str| {
            let signals = status.lines().find_map(|line| line.strip_prefix(mask)).expect("a mask of signals");
            let signals = u64::from_str_radix(signals.trim(), 16).expect("a number");
            signals >> (libc::SIGHUP - 1) & 1 == 1
        };
        assert!(has("SigCgt:") != has("SigIgn:"), "{status}");
    }

    #[test]
    fn resident_memory_is_plausible() {
        let resident = SystemThreads.resident_memory();
        assert!(resident > ByteCount::from_mib(1) && resident < ByteCount::from_mib(100_000), "{resident}");
    }
}
