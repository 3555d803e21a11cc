//! The session as functions within expressions see it: who, which settings, the clock.
//!
//! What needs the tenant (sequences, advisory locks, transaction ids) is answered by the executor, which has the tenant in
//! hand; it asks here for the rest, and notes here what a sequence last gave.

use std::cell::{Cell, RefCell};

use base::{Nanos, SessionId, SqlError, SqlState};
use rustc_hash::FxHashMap;

use super::setting::{Lasting, SERVER_VERSION, Settings};
use super::{Pause, SessionStart};
use crate::expr::{EvalError, EvalResult};

/// What `currval` and `lastval` answer.
#[derive(Debug, Default)]
pub struct Sequences {
    last: FxHashMap<u32, i64>,
    newest: Option<u32>,
}

impl Sequences {
    /// Notes what `nextval` gave, or `setval` set.
    pub fn note(&mut self, sequence: u32, value: i64) {
        self.last.insert(sequence, value);
        self.newest = Some(sequence);
    }

    /// What the session last got from this sequence.
    pub fn current(&self, sequence: u32) -> Option<i64> {
        self.last.get(&sequence).copied()
    }

    /// What the session last got from any sequence.
    pub fn newest(&self) -> Option<i64> {
        self.newest.and_then(|sequence| self.current(sequence))
    }

    pub(super) fn clear(&mut self) {
        *self = Sequences::default();
    }
}

/// The session for the length of one statement's turn.
pub struct StatementHost<'a> {
    start: &'a SessionStart,
    settings: &'a RefCell<Settings>,
    role: &'a str,
    /// What sequences last gave this session.
    pub sequences: &'a RefCell<Sequences>,
    /// Where the statement's `pg_sleep` ends, once it has begun.
    sleep_until: Option<Nanos>,
    asleep: Cell<Option<Nanos>>,
}

impl<'a> StatementHost<'a> {
    pub(super) fn new(
        start: &'a SessionStart,
        settings: &'a RefCell<Settings>,
        role: &'a str,
        sequences: &'a RefCell<Sequences>,
        sleep_until: Option<Nanos>,
    ) -> StatementHost<'a> {
        StatementHost { start, settings, role, sequences, sleep_until, asleep: Cell::new(None) }
    }

    /// The pause that a function asked for, with the time it ends.
    pub(super) fn into_pause(self) -> Option<Pause> {
        self.asleep.get().map(Pause::Sleep)
    }

    pub fn session(&self) -> SessionId {
        self.start.id
    }

    pub fn current_user(&self) -> String {
        self.role.to_owned()
    }

    pub fn session_user(&self) -> String {
        self.setting("session_authorization").unwrap_or_default()
    }

    pub fn current_database(&self) -> String {
        self.start.database.clone()
    }

    /// The names of the search path, whether they exist or not.
    pub fn search_path(&self) -> Vec<String> {
        self.settings.borrow().search_path(self.role)
    }

    pub fn version(&self) -> String {
        format!("PostgreSQL {SERVER_VERSION} {}, 64-bit", env!("CARGO_PKG_VERSION"))
    }

    pub fn setting(&self, name: &str) -> Option<String> {
        self.settings.borrow().show(name).ok().map(|(_, value)| value)
    }

    /// Changes a setting, for the transaction if `local`; its new value.
    ///
    /// # Errors
    /// As SET.
    pub fn set_setting(&self, name: &str, value: &str, local: bool) -> EvalResult<String> {
        let lasting = if local { Lasting::Transaction } else { Lasting::Session };
        let mut settings = self.settings.borrow_mut();
        settings.set(name, Some(value), lasting)?;
        Ok(settings.show(name)?.1)
    }

    /// Cancels or ends another session.
    ///
    /// # Errors
    /// None now; a role without the right to signal gets 42501.
    pub fn signal_backend(&self, pid: i32, terminate: bool) -> EvalResult<bool> {
        let Ok(pid) = u32::try_from(pid).map(SessionId) else { return Ok(false) };
        Ok(if terminate { self.start.host.terminate_backend(pid) } else { self.start.host.cancel_backend(pid) })
    }

    /// Returns once `seconds` have passed since the statement began to sleep.
    ///
    /// # Errors
    /// [`EvalError::Interrupted`] until then; 22003 for a time out of range.
    pub fn sleep(&self, seconds: f64) -> EvalResult<()> {
        if !(seconds <= 1e9) {
            let message = "the time to sleep is out of range";
            return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message).into());
        }
        let now = self.start.host.now();
        match self.sleep_until {
            Some(until) if now >= until => Ok(()),
            Some(until) => {
                self.asleep.set(Some(until));
                Err(EvalError::Interrupted)
            }
            None if seconds <= 0.0 => Ok(()),
            None => {
                self.asleep.set(Some(now + Nanos((seconds * 1e9) as u64)));
                Err(EvalError::Interrupted)
            }
        }
    }

    /// Microseconds since 2000-01-01 UTC.
    pub fn clock(&self) -> i64 {
        self.start.host.wall_clock()
    }

    pub fn random(&self) -> u64 {
        let mut bytes = [0; 8];
        self.start.host.random(&mut bytes);
        u64::from_le_bytes(bytes)
    }
}
