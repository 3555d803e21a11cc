//! A counter descriptor by which one thread interrupts another's wait.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use super::check;
use crate::reactor::Notify;

pub(super) struct EventFd(OwnedFd);

impl EventFd {
    pub(super) fn new() -> io::Result<EventFd> {
        // SAFETY: a plain system call; the descriptor it returns is new and owned by nobody else.
        let fd = unsafe { OwnedFd::from_raw_fd(check(libc::eventfd(0, libc::EFD_CLOEXEC))?) };
        Ok(EventFd(fd))
    }

    pub(super) fn raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl Notify for EventFd {
    fn notify(&self) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: eight readable bytes, as an eventfd takes. It can only fail when the counter is full, and a full
        // counter wakes the reader as well.
        unsafe { libc::write(self.raw_fd(), one.as_ptr().cast(), one.len()) };
    }
}
