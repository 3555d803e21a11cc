//! The operating system's own clock, disk, network and threads (Linux).

mod buffer_ring;
mod clock;
mod disk;
mod epoll;
mod event_fd;
mod file_pool;
mod net;
mod supervisor;
mod threads;
mod uring;

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests of the real machine use it from outside too")]
mod tests;

use std::io;
use std::sync::Arc;

pub use supervisor::tell_supervisor_ready;
pub use threads::ignore_hangups;

use crate::reactor::{Driver, DriverFactory};
use crate::{Entropy, Env};

pub(crate) fn env() -> Env {
    fail_beyond_file_limit();
    Env {
        clock: Arc::new(clock::SystemClock::start()),
        entropy: Arc::new(KernelEntropy),
        disk: Arc::new(disk::SystemDisk),
        net: Arc::new(net::SystemNetwork),
        threads: Arc::new(threads::SystemThreads),
        drivers: choose_backend().unwrap_or_else(|why| panic!("{why}")),
    }
}

/// Has what would make a file longer than the process may (RLIMIT_FSIZE) fail with `FileTooLarge`. Else a signal ends the process.
fn fail_beyond_file_limit() {
    // SAFETY: a signal that is ignored runs nothing.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Whether `ROWHOUSE_IO`, where it is set, names a backend.
///
/// # Errors
/// What to tell whoever set it: [`Env::real`] panics with that.
pub fn check_backend_choice() -> Result<(), String> {
    choose_backend().map(drop)
}

/// io_uring if the kernel grants a ring, else epoll; `ROWHOUSE_IO` overrides.
fn choose_backend() -> Result<Arc<dyn DriverFactory>, String> {
    match std::env::var_os("ROWHOUSE_IO") {
        Some(asked) if asked == "uring" => Ok(Arc::new(UringFactory)),
        Some(asked) if asked == "epoll" => Ok(Arc::new(EpollFactory)),
        Some(asked) => Err(format!("ROWHOUSE_IO is {asked:?}; it may be uring or epoll")),
        None if uring::is_available() => Ok(Arc::new(UringFactory)),
        None => Ok(Arc::new(EpollFactory)),
    }
}

pub(crate) fn env_with(backend: &str) -> Env {
    let drivers: Arc<dyn DriverFactory> = match backend {
        "uring" => Arc::new(UringFactory),
        _ => Arc::new(EpollFactory),
    };
    Env { drivers, ..env() }
}

struct UringFactory;

impl DriverFactory for UringFactory {
    fn driver(&self) -> io::Result<Box<dyn Driver>> {
        Ok(Box::new(uring::UringDriver::new()?))
    }
    fn name(&self) -> &'static str {
        "io_uring"
    }
}

struct EpollFactory;

impl DriverFactory for EpollFactory {
    fn driver(&self) -> io::Result<Box<dyn Driver>> {
        Ok(Box::new(epoll::EpollDriver::new()?))
    }
    fn name(&self) -> &'static str {
        "epoll"
    }
}

struct KernelEntropy;

impl Entropy for KernelEntropy {
    fn fill(&self, mut bytes: &mut [u8]) {
        while !bytes.is_empty() {
            // SAFETY: the pointer and length are those of a live, writable slice.
            let n = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
            match usize::try_from(n) {
                Ok(n) => bytes = &mut bytes[n..],
                Err(_) => {
                    let error = io::Error::last_os_error();
                    assert_eq!(error.kind(), io::ErrorKind::Interrupted, "getrandom: {error}");
                }
            }
        }
    }
}

/// The system's result of a call that returns -1 and sets `errno` on failure.
fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
