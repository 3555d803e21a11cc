//! The operating system's own clock, disk, network and threads (Linux).

mod buffer_ring;
mod clock;
mod disk;
mod epoll;
mod event_fd;
mod file_pool;
mod net;
mod recorder;
mod supervisor;
mod threads;
mod uring;

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests of the real machine use it from outside too")]
mod tests;

use std::io;
use std::path::Path;
use std::sync::Arc;

pub use supervisor::tell_supervisor_ready;
pub use threads::ignore_hangups;

use crate::reactor::{Driver, DriverFactory};
use crate::{Disk, Entropy, Env};
use recorder::{Recorder, RecordingDisk};

/// How operations are handed to the kernel.
#[derive(Clone, Copy)]
enum Backend {
    Uring,
    Epoll,
}

pub(crate) fn env() -> Env {
    machine(chosen_backend(), None)
}

/// [`env()`] on the backend of this name.
pub(crate) fn env_with(backend: &str) -> Env {
    machine(backend_of(backend), None)
}

/// [`env()`] with a recording of all changes of files in a new file.
pub(crate) fn env_recorded(recording: &Path) -> io::Result<Env> {
    Ok(machine(chosen_backend(), Some(Arc::new(Recorder::create(recording)?))))
}

/// [`env_recorded`] on the backend of this name.
#[cfg(test)]
pub(crate) fn env_recorded_with(backend: &str, recording: &Path) -> io::Result<Env> {
    Ok(machine(backend_of(backend), Some(Arc::new(Recorder::create(recording)?))))
}

/// Whether there is an io_uring here.
#[cfg(test)]
pub(crate) fn has_ring() -> bool {
    uring::is_available()
}

fn backend_of(name: &str) -> Backend {
    if name == "uring" { Backend::Uring } else { Backend::Epoll }
}

fn machine(backend: Backend, recorder: Option<Arc<Recorder>>) -> Env {
    fail_beyond_file_limit();
    let drivers: Arc<dyn DriverFactory> = match backend {
        Backend::Uring => Arc::new(UringFactory { recorder: recorder.clone() }),
        Backend::Epoll => Arc::new(EpollFactory),
    };
    let disk: Arc<dyn Disk> = match recorder {
        Some(recorder) => Arc::new(RecordingDisk(recorder)),
        None => Arc::new(disk::SystemDisk),
    };
    Env {
        clock: Arc::new(clock::SystemClock::start()),
        entropy: Arc::new(KernelEntropy),
        disk,
        net: Arc::new(net::SystemNetwork),
        threads: Arc::new(threads::SystemThreads),
        drivers,
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
fn choose_backend() -> Result<Backend, String> {
    match std::env::var_os("ROWHOUSE_IO") {
        Some(asked) if asked == "uring" => Ok(Backend::Uring),
        Some(asked) if asked == "epoll" => Ok(Backend::Epoll),
        Some(asked) => Err(format!("ROWHOUSE_IO is {asked:?}; it may be uring or epoll")),
        None if uring::is_available() => Ok(Backend::Uring),
        None => Ok(Backend::Epoll),
    }
}

fn chosen_backend() -> Backend {
    choose_backend().unwrap_or_else(|why| panic!("{why}"))
}

struct UringFactory {
    recorder: Option<Arc<Recorder>>,
}

impl DriverFactory for UringFactory {
    fn driver(&self) -> io::Result<Box<dyn Driver>> {
        Ok(Box::new(uring::UringDriver::new(self.recorder.clone())?))
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
