//! What a session's statement may take: looked at while it runs, by its session, and while it waits, by the session's task.
//!
//! A promise's `statement_timeout` bounds what a session can set for itself. Both are counted from the statement's beginning, and the
//! promise's is read anew at each look, so a changed one is in force for what runs already. The administrator's sessions are held to
//! their own setting alone.

use std::fmt;
use std::sync::Arc;

use base::Nanos;
use sql::session::Underway;

use super::control::{Interruption, Patience};
use crate::tenants::StatementLimits;

/// How long a statement may run, and who says so.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TimeLimit {
    time: Nanos,
    of: LimitOf,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum LimitOf {
    Session,
    Tenant,
}

impl fmt::Display for TimeLimit {
    /// For an error's detail.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = governor::duration_text(self.time);
        match self.of {
            LimitOf::Session => write!(f, "The session's statement_timeout is {time}."),
            LimitOf::Tenant => write!(f, "The tenant's statement_timeout is {time}."),
        }
    }
}

/// What one session's statements are held to.
pub(crate) struct Watch {
    /// Of its tenant; `None` for the administrator.
    limits: Option<Arc<StatementLimits>>,
}

impl Watch {
    pub(crate) fn new(limits: &Arc<StatementLimits>, administrator: bool) -> Watch {
        Watch { limits: (!administrator).then(|| limits.clone()) }
    }

    /// How long the tenant lets any statement run.
    pub(super) fn time_max(&self) -> Option<Nanos> {
        self.limits.as_ref()?.time_max()
    }

    /// Whether a statement is held to anything but its session's own setting.
    pub(super) fn is_watching(&self) -> bool {
        self.time_max().is_some()
    }

    fn time_limit(&self, statement: &Underway) -> Option<TimeLimit> {
        let own = statement.timeout.map(|time| TimeLimit { time, of: LimitOf::Session });
        let of_tenant = self.time_max().map(|time| TimeLimit { time, of: LimitOf::Tenant });
        // Of two that are the same it is the session's: that is what its user knows.
        own.into_iter().chain(of_tenant).min_by_key(|limit| limit.time)
    }

    /// Whether a statement that runs is to end.
    pub(super) fn is_over(&self, statement: &Underway, now: impl FnOnce() -> Nanos) -> bool {
        self.time_limit(statement).is_some_and(|limit| now() >= statement.began + limit.time)
    }

    /// When to look at the statement again while it waits.
    fn next_look(&self, statement: &Underway) -> Option<Nanos> {
        self.time_limit(statement).map(|limit| statement.began + limit.time)
    }

    /// Why the statement is to end, if it is.
    pub(super) fn look(&self, statement: &Underway, now: Nanos) -> Option<Interruption> {
        let limit = self.time_limit(statement)?;
        (now >= statement.began + limit.time).then_some(Interruption::StatementTimeout(limit))
    }
}

/// Of a statement that waits.
#[derive(Clone)]
pub(super) struct StatementPatience {
    pub(super) watch: Arc<Watch>,
    pub(super) statement: Underway,
    /// When its wait for a lock has lasted as long as its session's `lock_timeout`.
    pub(super) lock_until: Option<Nanos>,
}

impl Patience for StatementPatience {
    fn next_look(&self) -> Option<Nanos> {
        self.watch.next_look(&self.statement).into_iter().chain(self.lock_until).min()
    }

    fn look(&self, now: Nanos) -> Option<Interruption> {
        let of_lock = || self.lock_until.filter(|until| now >= *until).map(|_| Interruption::LockTimeout);
        self.watch.look(&self.statement, now).or_else(of_lock)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statement(timeout: Option<u64>) -> Underway {
        Underway { serial: 1, began: Nanos(1000), timeout: timeout.map(Nanos), rows: 0 }
    }

    /// Whose limit ends it, and when.
    fn ended(watch: &Watch, timeout: Option<u64>) -> Option<(u64, TimeLimit)> {
        let statement = statement(timeout);
        let at = watch.next_look(&statement)?;
        assert_eq!(watch.look(&statement, at - Nanos(1)), None, "not before its time is up");
        match watch.look(&statement, at) {
            Some(Interruption::StatementTimeout(limit)) => Some((at.0, limit)),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_session_may_lower_what_its_tenant_allows_and_not_raise_it() {
        let limits = Arc::new(StatementLimits::default());
        let watch = Watch::new(&limits, false);
        let session = |time| TimeLimit { time: Nanos(time), of: LimitOf::Session };
        let tenant = |time| TimeLimit { time: Nanos(time), of: LimitOf::Tenant };
        assert_eq!(ended(&watch, None), None);
        assert_eq!(ended(&watch, Some(50)), Some((1050, session(50))));
        assert!(!watch.is_watching());
        assert!(limits.set_time_max(Some(Nanos(30))) && !limits.set_time_max(Some(Nanos(30))));
        assert_eq!(ended(&watch, None), Some((1030, tenant(30))));
        assert_eq!(ended(&watch, Some(50)), Some((1030, tenant(30))));
        assert_eq!(ended(&watch, Some(30)), Some((1030, session(30))));
        assert_eq!(ended(&watch, Some(20)), Some((1020, session(20))));
        assert!(limits.set_time_max(None));
        assert_eq!(ended(&watch, Some(50)), Some((1050, session(50))));
    }

    #[test]
    fn the_administrator_is_held_to_no_tenants_limit() {
        let limits = Arc::new(StatementLimits::default());
        limits.set_time_max(Some(Nanos(30)));
        let watch = Watch::new(&limits, true);
        assert_eq!((watch.time_max(), ended(&watch, None)), (None, None));
        assert_eq!(ended(&watch, Some(50)).map(|(at, _)| at), Some(1050));
    }

    #[test]
    fn a_wait_for_a_lock_ends_by_what_is_first() {
        let watch = Arc::new(Watch::new(&Arc::default(), false));
        let lock_until = Some(Nanos(1020));
        let patience =
            |timeout| StatementPatience { watch: watch.clone(), statement: statement(timeout), lock_until };
        for (timeout, first) in [(None, 1020), (Some(30), 1020), (Some(10), 1010)] {
            assert_eq!(patience(timeout).next_look(), Some(Nanos(first)));
        }
        assert_eq!(patience(Some(30)).look(Nanos(1019)), None);
        assert_eq!(patience(Some(30)).look(Nanos(1020)), Some(Interruption::LockTimeout));
        assert!(matches!(patience(Some(20)).look(Nanos(1020)), Some(Interruption::StatementTimeout(_))));
    }
}
