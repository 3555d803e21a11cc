//! Signals to other sessions: `pg_cancel_backend` and `pg_terminate_backend`, at home and on analytical threads alike.

use base::{Oid, SessionId, SqlError, SqlResult, SqlState};
use tenant::catalog::Catalog;

/// The sessions that one may act upon: those within its [`super::Reach`].
pub trait BackendSignals: Send + Sync {
    /// The role that a session logged in as; `None` when there is none.
    fn user(&self, pid: SessionId) -> Option<String>;
    /// Cancels the statement of a session; false when there is none.
    fn cancel(&self, pid: SessionId) -> bool;
    /// Ends a session; false when there is none.
    fn terminate(&self, pid: SessionId) -> bool;
}

/// Calls that are remembered for a statement's next run, 8 bytes each.
const SENT_MAX: usize = 1 << 10;

/// The calls of the statement under way. One that is taken back and run again has made them all the same: as long as the next run makes the same ones it is
/// answered as the one before it was. Who was cancelled for it may be at another statement by then.
#[derive(Default)]
pub(super) struct SentSignals {
    /// Its number.
    statement: u64,
    calls: Vec<Sent>,
}

struct Sent {
    pid: i32,
    terminate: bool,
    found: bool,
}

impl SentSignals {
    /// What came of a statement's call with this number, if the run before has made the same one.
    pub(super) fn again(&mut self, statement: u64, at: usize, pid: i32, terminate: bool) -> Option<bool> {
        if self.statement != statement {
            *self = SentSignals { statement, calls: Vec::new() };
        }
        let sent = self.calls.get(at)?;
        if (sent.pid, sent.terminate) != (pid, terminate) {
            // This run goes another way.
            self.calls.truncate(at);
            return None;
        }
        Some(sent.found)
    }

    pub(super) fn note(&mut self, pid: i32, terminate: bool, found: bool) {
        if self.calls.len() < SENT_MAX {
            self.calls.push(Sent { pid, terminate, found });
        }
    }

    /// There will be no other run of what was done so far.
    pub(super) fn forget(&mut self) {
        self.calls.clear();
    }
}

/// Of a session that is alone.
impl BackendSignals for () {
    fn user(&self, _: SessionId) -> Option<String> {
        None
    }
    fn cancel(&self, _: SessionId) -> bool {
        false
    }
    fn terminate(&self, _: SessionId) -> bool {
        false
    }
}

/// Cancels the statement of a session, or ends it if `terminate`. False when there is none. `acts_for` says whether who asks may act for a role.
///
/// # Errors
/// 42501 where it may not act for the one that the session logged in as.
pub fn signal_backend(
    signals: &dyn BackendSignals,
    pid: i32,
    terminate: bool,
    acts_for: impl FnOnce(&str) -> bool,
) -> SqlResult<bool> {
    let Ok(pid) = u32::try_from(pid).map(SessionId) else { return Ok(false) };
    let Some(user) = signals.user(pid) else { return Ok(false) };
    if !acts_for(&user) {
        let (whose, what) = if terminate { ("process", "terminated") } else { ("query", "canceled") };
        let message = format!("must be a member of the role whose {whose} is being {what}");
        return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
    }
    Ok(if terminate { signals.terminate(pid) } else { signals.cancel(pid) })
}

/// Whether a role may act for `user`, one that somebody logged in as; the administrator, for `None`, for everybody.
pub fn may_act_for(role: Option<Oid>, catalog: &Catalog, user: &str) -> bool {
    let Some(role) = role else { return true };
    let Some(own) = catalog.role(role) else { return false };
    let Some(other) = catalog.role_named(user) else { return own.attributes.superuser };
    own.attributes.superuser
        || (!other.attributes.superuser && catalog.roles_of(own.oid, false).contains(&other.oid))
        || own.oid == other.oid
}
