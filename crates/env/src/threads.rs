//! Threads, their priorities and their processor time; limits and signals of the process.

use std::future::Future;
use std::io;
use std::sync::Arc;

use base::{ByteCount, Nanos};

/// How the kernel is to schedule a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Priority {
    /// A worker: nice -20 with a slice of 100 µs of its own, so that it preempts a raised proxy within tens of µs. Set by
    /// a thread on itself it also makes its timers exact.
    Worker,
    /// The default of the operating system.
    Normal,
    /// A thread beside the workers on whose work others decide: nice 10, so that what it is flooded with takes a tenth of a core from a busy one.
    Low,
    /// A proxy nobody picked: `SCHED_IDLE`, runs only when its core has nothing else.
    ProxyIdle,
    /// The proxy that was picked: `SCHED_OTHER` at nice 19.
    ProxyRaised,
}

/// What a platform does for one thread; see [`ThreadControl`].
pub trait ThreadOps: Send + Sync {
    fn set_priority(&self, priority: Priority) -> io::Result<()>;
    fn cpu_time(&self) -> Option<Nanos>;
}

/// A handle on one thread of the process; stays valid (and does nothing) after the thread ended.
#[derive(Clone)]
pub struct ThreadControl(Arc<dyn ThreadOps>);

impl ThreadControl {
    /// Wraps a platform's handle.
    pub fn new(ops: Arc<dyn ThreadOps>) -> ThreadControl {
        ThreadControl(ops)
    }

    /// Changes the thread's scheduling from any thread. `PermissionDenied` where the privilege is missing: for
    /// [`Priority::Worker`] go on at the default and say that tail latencies beside analytical work will be worse.
    pub fn set_priority(&self, priority: Priority) -> io::Result<()> {
        self.0.set_priority(priority)
    }

    /// Processor time the thread has used; `None` once it ended.
    pub fn cpu_time(&self) -> Option<Nanos> {
        self.0.cpu_time()
    }
}

/// A thread whose end can be waited for.
pub(crate) trait Joinable: Send {
    fn join(self: Box<Self>) -> std::thread::Result<()>;
    fn is_finished(&self) -> bool;
}

/// A started thread. Dropping the handle lets it run on by itself.
pub struct JoinHandle(Box<dyn Joinable>);

impl JoinHandle {
    pub(crate) fn new(handle: Box<dyn Joinable>) -> JoinHandle {
        JoinHandle(handle)
    }

    /// Waits for the thread's end. `Err` carries its panic; in a simulation the harness is told of panics instead.
    pub fn join(self) -> std::thread::Result<()> {
        self.0.join()
    }

    /// Whether the thread has ended, so that `join` would not wait.
    pub fn is_finished(&self) -> bool {
        self.0.is_finished()
    }
}

/// Threads and the process they live in.
pub trait Threads: Send + Sync {
    /// Starts a thread, pinned to `core` if given (one of [`Threads::cores`]). In a simulation it runs at once, up to where
    /// its reactor waits; waiting for it, or it for others, by anything but `env` blocks the whole world.
    fn spawn(
        &self,
        name: &str,
        core: Option<usize>,
        body: Box<dyn FnOnce() + Send + 'static>,
    ) -> io::Result<JoinHandle>;

    /// The calling thread.
    fn current(&self) -> ThreadControl;

    /// Pins the calling thread to one core.
    fn pin_current(&self, core: usize) -> io::Result<()>;

    /// The cores this process may use.
    fn cores(&self) -> Vec<usize>;

    /// Raises the limit of open files to the hard limit and returns it.
    fn raise_file_limit(&self) -> io::Result<u64>;

    /// Memory of the process resident in RAM.
    fn resident_memory(&self) -> ByteCount;

    /// Takes over SIGINT, SIGTERM, and SIGHUP if that is not ignored; the first call of the process installs the handlers, later ones share them.
    fn shutdown_signal(&self) -> ShutdownSignal;
}

/// Tells that the operator asked the process to end (by a signal, or [`ShutdownSignal::request`]).
#[derive(Clone, Default)]
pub struct ShutdownSignal(Arc<ShutdownState>);

#[derive(Default)]
struct ShutdownState {
    state: std::sync::Mutex<(u32, Vec<std::task::Waker>)>,
    changed: std::sync::Condvar,
}

impl ShutdownSignal {
    /// Asks for the end as a signal would.
    pub fn request(&self) {
        let wakers = {
            let mut state = self.0.state.lock().expect("no panic under this lock");
            state.0 += 1;
            std::mem::take(&mut state.1)
        };
        self.0.changed.notify_all();
        wakers.into_iter().for_each(std::task::Waker::wake);
    }

    /// How often the end was asked for; a second time usually means "now".
    pub fn count(&self) -> u32 {
        self.0.state.lock().expect("no panic under this lock").0
    }

    /// Whether the end was asked for.
    pub fn is_requested(&self) -> bool {
        self.count() > 0
    }

    /// Blocks the calling thread until the end is asked for, at most `duration_max`; true if it was.
    pub fn wait_blocking(&self, duration_max: Option<Nanos>) -> bool {
        let guard = self.0.state.lock().expect("no panic under this lock");
        match duration_max {
            None => {
                drop(
                    self.0.changed.wait_while(guard, |state| state.0 == 0).expect("no panic under this lock"),
                );
                true
            }
            Some(limit) => {
                let limit = std::time::Duration::from_nanos(limit.0);
                let waited = self.0.changed.wait_timeout_while(guard, limit, |state| state.0 == 0);
                waited.expect("no panic under this lock").0.0 > 0
            }
        }
    }

    /// Completes when the end was asked for.
    pub fn wait(&self) -> impl Future<Output = ()> + Send + 'static + use<> {
        let signal = self.clone();
        std::future::poll_fn(move |cx| {
            let mut state = signal.0.state.lock().expect("no panic under this lock");
            if state.0 > 0 {
                return std::task::Poll::Ready(());
            }
            state.1.retain(|waker| !waker.will_wake(cx.waker()));
            state.1.push(cx.waker().clone());
            std::task::Poll::Pending
        })
    }
}
