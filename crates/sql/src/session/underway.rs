//! The statement under way, as it is known to who may end it: when it began, what its session allows it, what it has read.

use std::cell::Cell;

use base::Nanos;

use super::SessionHost;

/// A statement at one instant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Underway {
    /// Another number for each statement of the session.
    pub serial: u64,
    /// When its time began.
    pub began: Nanos,
    /// The session's `statement_timeout` by then; `None` for none.
    pub timeout: Option<Nanos>,
    /// Rows and index entries that its plan has looked at, or a COPY has taken in. Of what was undone and run again, the longest run.
    pub rows: u64,
}

impl Underway {
    /// When the time that its session allows it is up.
    pub fn deadline(&self) -> Option<Nanos> {
        self.timeout.map(|timeout| self.began + timeout)
    }
}

/// What a session knows of its statement under way.
#[derive(Default)]
pub(super) struct Progress {
    serial: Cell<u64>,
    clock: Cell<Option<Clock>>,
    /// Rows of parts that are done: slices, rows of a COPY.
    done: Cell<u64>,
    /// The most that was read so far.
    rows: Cell<u64>,
}

#[derive(Clone, Copy)]
struct Clock {
    began: Nanos,
    timeout: Option<Nanos>,
}

impl Progress {
    /// The statement as it is now. Its time begins when this is first asked of it.
    pub(super) fn now(&self, host: &dyn SessionHost, timeout: Option<Nanos>) -> Underway {
        if self.clock.get().is_none() {
            self.clock.set(Some(Clock { began: host.now(), timeout }));
            self.serial.set(self.serial.get() + 1);
        }
        self.running().expect("its time has begun")
    }

    /// The statement as it is now, if its time has begun.
    pub(super) fn running(&self) -> Option<Underway> {
        let Clock { began, timeout } = self.clock.get()?;
        Some(Underway { serial: self.serial.get(), began, timeout, rows: self.rows.get() })
    }

    /// The part under way has read so many rows.
    pub(super) fn note_read(&self, rows: u64) {
        self.rows.set(self.rows.get().max(self.done.get() + rows));
    }

    /// A part that read so many rows is done, and not undone with what follows.
    pub(super) fn end_part(&self, rows: u64) {
        self.note_read(rows);
        self.done.set(self.done.get() + rows);
    }

    /// The statement has ended.
    pub(super) fn end(&self) {
        self.clock.set(None);
        self.done.set(0);
        self.rows.set(0);
    }
}

#[cfg(test)]
mod tests {
    use env::Env;

    use super::super::stand_in::LoneHost;
    use super::*;

    #[test]
    fn what_is_run_again_counts_once_and_parts_add_up() {
        let (progress, host) = (Progress::default(), LoneHost(Env::real()));
        let rows = || progress.now(&host, None).rows;
        progress.note_read(700);
        progress.note_read(300);
        assert_eq!(rows(), 700);
        progress.end_part(1000);
        progress.note_read(50);
        assert_eq!(rows(), 1050);
        progress.end_part(100);
        assert_eq!(rows(), 1100);
    }

    #[test]
    fn each_statement_has_a_time_and_a_number_of_its_own() {
        let (progress, host) = (Progress::default(), LoneHost(Env::real()));
        let timeout = Some(Nanos::from_secs(5));
        let first = progress.now(&host, timeout);
        assert_eq!(first.deadline(), Some(first.began + Nanos::from_secs(5)));
        // What is set meanwhile is for the next one.
        assert_eq!(progress.now(&host, None), first);
        progress.note_read(9);
        progress.end();
        assert_eq!(progress.running(), None);
        let second = progress.now(&host, None);
        assert_ne!(second.serial, first.serial);
        assert_eq!((second.rows, second.deadline()), (0, None));
    }
}
