//! The machine behind traits: clock, randomness, disk, network and threads, one real and one simulated.
//!
//! Level 1, and the only crate that makes system calls or names the operating system's clocks, files, sockets and
//! threads. Everything above takes an [`Env`] and runs unchanged under [`sim::World`], where time is virtual, a seed
//! decides every draw, and the disk can tear, drop and fail.
//!
//! Asynchronous operations go through the calling thread's [`Reactor`]; their futures are `Send` and own their
//! buffers until completion, so dropping one is always sound.

mod block_on;
mod blocked;
mod blocking;
mod clock;
mod disk;
mod entropy;
mod io_account;
mod io_buf;
mod memory;
mod net;
mod opening;
pub mod reactor;
mod real;
mod recording;
pub mod sim;
mod standing;
mod threads;

use std::io;
use std::path::Path;
use std::sync::Arc;

pub use block_on::block_on;
pub use blocked::{AroundWait, AroundWaits, around_waits, blocked};
pub use clock::{Clock, Ticks};
pub use disk::{
    Device, DirEntry, DirLock, Disk, File, FileFuture, FileOps, OpenMode, is_short_of_descriptors,
};
pub use entropy::Entropy;
pub use io_account::IoAccount;
pub use io_buf::{IO_ALIGN, IoBuf};
pub use memory::{HUGE_PAGE_LEN, StackMemory, reserve_huge};
pub use net::{KeepAlive, LOCAL_PEER, Listener, ListenerOps, Network, RECV_SPARE_MIN, Socket, SocketOps};
pub use reactor::gate::{GateStep, HeldIo, IoArrival, IoGate, IoPermit, IoPermits, IoTicket};
pub use reactor::{
    AskedPermits, Elapsed, Reactor, RemoteWaker, Sleep, ask_permits, now, sleep, sleep_until, timeout_at,
};
pub use real::{check_backend_choice, ignore_hangups, tell_supervisor_ready};
pub use standing::{Condition, ThreadWaker, caught, park, take_step, thread_waker};
pub use threads::{JoinHandle, Priority, ShutdownSignal, ThreadControl, ThreadOps, Threads};

/// The machine a server runs on. Cloning is cheap and shares everything.
#[derive(Clone)]
pub struct Env {
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
    pub disk: Arc<dyn Disk>,
    pub net: Arc<dyn Network>,
    pub threads: Arc<dyn Threads>,
    pub(crate) drivers: Arc<dyn reactor::DriverFactory>,
}

impl Env {
    /// This process's own machine. The completion backend is io_uring where the kernel grants it, else epoll with file
    /// threads; the environment variable `ROWHOUSE_IO=uring|epoll` forces one.
    ///
    /// # Panics
    /// The variable says something else: see [`check_backend_choice`].
    pub fn real() -> Env {
        real::env()
    }

    /// [`Env::real`], on which every change of a file is put down in `recording`, a new file, for [`sim::Replay`]: twice as much is written, and
    /// one thread at a time. The process ends at once where that cannot be.
    ///
    /// # Errors
    /// The file is there, or cannot be made.
    pub fn real_recorded(recording: &Path) -> io::Result<Env> {
        real::env_recorded(recording)
    }

    /// [`Env::real`] on the epoll backend, whose file threads also serve files that have no descriptor: a test can put
    /// a disk of its own in [`Env::disk`].
    pub fn real_on_epoll() -> Env {
        real::env_with("epoll")
    }

    /// Monotonic time, shorthand for `clock.now()`.
    pub fn now(&self) -> base::Nanos {
        self.clock.now()
    }

    /// The completion backend in use: `io_uring`, `epoll` or `simulated`.
    pub fn io_backend(&self) -> &'static str {
        self.drivers.name()
    }
}
