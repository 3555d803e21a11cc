//! What a session's statement may take: looked at while it runs, by its session, and while it waits, by the session's task.
//!
//! A promise's `statement_timeout` bounds what a session can set for itself. Both are counted from the statement's beginning, and the
//! promise's is read anew at each look, so a changed one is in force for what runs already. Runaway rules are judged at the same looks, and at a
//! statement's end, so that what takes more than it may in one short turn is found too. The administrator's sessions are held to their own
//! setting alone.
//!
//! Where no rule is about the tenant, that is two words to compare; where there are, the session's own lock, the clock and a few comparisons a look.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::{Nanos, SqlError, SqlState};
use env::Env;
use governor::{RunawayAction, RunawayVerdict};
use sql::session::{Session, Underway};

use super::control::{Control, Interruption, Patience};
use super::judged::Judged;
use crate::analytic_pool::QueryMeter;
use crate::executor::blocking_ios;
use crate::tenants::{Runaways, StatementLimits};

/// How often a waiting session's analytical query is looked at, where what it takes is limited. It takes at most so much more.
const QUERY_LOOK: Nanos = Nanos::from_millis(10);
/// Bytes of a statement that the server's log shows.
const LOGGED_LEN_MAX: usize = 200;

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
    control: Arc<Control>,
    /// Of its tenant.
    limits: Arc<StatementLimits>,
    runaways: Arc<Runaways>,
    /// The version of the rules of which none is about the tenant.
    without_rules: AtomicU64,
    judged: Mutex<Judged>,
}

impl Watch {
    pub(crate) fn new(
        limits: &Arc<StatementLimits>,
        runaways: &Arc<Runaways>,
        control: &Arc<Control>,
    ) -> Watch {
        Watch {
            control: control.clone(),
            limits: limits.clone(),
            runaways: runaways.clone(),
            without_rules: AtomicU64::new(0),
            judged: Mutex::default(),
        }
    }

    fn judged(&self) -> MutexGuard<'_, Judged> {
        self.judged.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long the tenant lets any statement run.
    pub(super) fn time_max(&self) -> Option<Nanos> {
        if self.control.administrator { None } else { self.limits.time_max() }
    }

    /// Whether rules may be about the session's statements.
    #[inline]
    fn has_rules(&self) -> bool {
        self.runaways.version() != self.without_rules.load(Ordering::Relaxed) && !self.control.administrator
    }

    /// Whether a statement is held to anything but its session's own setting.
    pub(super) fn is_watching(&self) -> bool {
        self.has_rules() || self.time_max().is_some()
    }

    fn time_limit(&self, statement: &Underway) -> Option<TimeLimit> {
        let own = statement.timeout.map(|time| TimeLimit { time, of: LimitOf::Session });
        let of_tenant = self.time_max().map(|time| TimeLimit { time, of: LimitOf::Tenant });
        // Of two that are the same it is the session's: that is what its user knows.
        own.into_iter().chain(of_tenant).min_by_key(|limit| limit.time)
    }

    /// Whether a statement that runs is to end.
    pub(super) fn is_over(&self, statement: &Underway, now: impl FnOnce() -> Nanos) -> bool {
        let limit = self.time_limit(statement);
        if limit.is_none() && !self.has_rules() {
            return false;
        }
        let now = now();
        limit.is_some_and(|limit| now >= statement.began + limit.time) || self.judge(statement, now).is_some()
    }

    /// When to look at the statement again while it waits.
    fn next_look(&self, statement: &Underway) -> Option<Nanos> {
        let limit = self.time_limit(statement).map(|limit| statement.began + limit.time);
        if !self.has_rules() {
            return limit;
        }
        let mut judged = self.judged();
        self.renew(&mut judged, statement);
        let nearest = judged.nearest();
        // Exactly its threshold does not exceed it.
        let elapsed = nearest.map(|nearest| nearest.elapsed.0).filter(|elapsed| *elapsed < u64::MAX);
        let elapsed = elapsed.map(|elapsed| statement.began + Nanos(elapsed + 1));
        let grows = nearest.is_some_and(|nearest| {
            nearest.cpu.0 < u64::MAX || nearest.rows < u64::MAX || nearest.io < u64::MAX
        });
        let query = (grows && judged.has_query()).then(|| judged.looked + QUERY_LOOK);
        limit.into_iter().chain(elapsed).chain(query).min()
    }

    /// Why the statement is to end, if it is.
    pub(super) fn look(&self, statement: &Underway, now: Nanos) -> Option<Interruption> {
        match self.time_limit(statement) {
            Some(limit) if now >= statement.began + limit.time => Some(Interruption::StatementTimeout(limit)),
            _ => self.judge(statement, now).map(|verdict| Interruption::Runaway(Box::new(verdict))),
        }
    }

    /// Has the rules judge the statement, and does what they say; what is to end it, if anything.
    pub(super) fn judge(&self, statement: &Underway, now: Nanos) -> Option<RunawayVerdict> {
        if !self.has_rules() {
            return None;
        }
        let mut judged = self.judged();
        self.renew(&mut judged, statement);
        if let Some(verdict) = judged.ended_by() {
            return Some(verdict.clone());
        }
        while let Some(verdict) = judged.judge(statement, now, blocking_ios()) {
            self.note(&verdict);
            match verdict.action {
                RunawayAction::Log => {}
                RunawayAction::Deprioritise => self.control.background.set(true),
                RunawayAction::Cancel => {
                    judged.end_by(verdict.clone());
                    return Some(verdict);
                }
            }
        }
        None
    }

    /// Sees to it that the statement is judged by the rules in force.
    fn renew(&self, judged: &mut Judged, statement: &Underway) {
        let version = self.runaways.version();
        if judged.version != version {
            let rules = self.runaways.of_tenant(self.control.tenant);
            if rules.is_none() {
                self.without_rules.store(version, Ordering::Relaxed);
                self.control.background.set(false);
            }
            judged.set_rules(rules, version);
        }
        judged.turn_to(statement);
    }

    /// Counts that a rule acts, and writes it to the server's log.
    #[cold]
    fn note(&self, verdict: &RunawayVerdict) {
        self.runaways.note_acted(&verdict.rule);
        let activity = self.control.activity();
        let query = &activity.query[..activity.query.floor_char_boundary(LOGGED_LEN_MAX)];
        tracing::warn!(
            tenant = self.control.tenant.0,
            name = activity.database,
            session = self.control.id.0,
            rule = &*verdict.rule,
            action = verdict.action.as_str(),
            figures = verdict.figures(),
            query,
            "a statement ran away"
        );
    }

    /// The statement has run to its end: what is to become of it all the same, if anything.
    pub(super) fn at_end(&self, statement: &Underway, now: impl FnOnce() -> Nanos) -> Option<SqlError> {
        if !self.has_rules() {
            return None;
        }
        let verdict = self.judge(statement, now());
        self.statement_over();
        verdict.map(|verdict| canceled_by(&verdict))
    }

    /// What comes next is not the statement's that ran away.
    pub(super) fn statement_over(&self) {
        if self.control.background.is_set() {
            self.control.background.set(false);
        }
    }

    /// Runs a call of the session, at its home, as a turn of it.
    #[inline]
    pub(super) fn turn<T>(
        &self,
        env: &Env,
        session: &mut Session,
        call: impl FnOnce(&mut Session) -> T,
    ) -> T {
        self.begin_turn(|| env.now());
        let outcome = call(session);
        // The rules may be younger than the turn.
        if self.has_rules() {
            self.end_turn(session.running().as_ref(), env.now());
        }
        outcome
    }

    /// A turn of the session begins, or the rest of one that was suspended.
    #[inline]
    pub(super) fn begin_turn(&self, now: impl FnOnce() -> Nanos) {
        if self.has_rules() {
            self.judged().begin_turn(now(), blocking_ios());
        }
    }

    #[cold]
    fn end_turn(&self, statement: Option<&Underway>, now: Nanos) {
        self.judged().end_turn(statement, now, blocking_ios());
    }

    /// The turn ends in the middle of a statement, or of the end of a transaction; the next one begins as any other.
    pub(super) fn pass_turn(&self, statement: Option<&Underway>, now: Nanos) {
        if self.has_rules() {
            self.end_turn(statement, now);
        }
    }

    /// The statement waits for so many I/Os.
    pub(super) fn add_ios(&self, statement: &Underway, ios: u64) {
        if self.has_rules() {
            let mut judged = self.judged();
            judged.turn_to(statement);
            judged.add_ios(ios);
        }
    }

    /// The statement has a query on an analytical thread, until what is returned is dropped.
    pub(super) fn begin_query(self: &Arc<Watch>, statement: &Underway, meter: QueryMeter) -> WatchedQuery {
        let mut judged = self.judged();
        judged.turn_to(statement);
        judged.begin_query(meter);
        drop(judged);
        WatchedQuery(self.clone())
    }
}

/// A query whose statement is judged by what it takes.
pub(super) struct WatchedQuery(Arc<Watch>);

impl Drop for WatchedQuery {
    fn drop(&mut self) {
        self.0.judged().end_query();
    }
}

/// What a client is told whose statement a rule ended.
pub(super) fn canceled_by(verdict: &RunawayVerdict) -> SqlError {
    let message = format!("canceling statement due to runaway rule \"{}\"", verdict.rule);
    let figures = verdict.figures();
    SqlError::new(SqlState::QUERY_CANCELED, message).with_detail(format!("It took {figures}."))
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
    use base::TenantId;
    use sql::session::BackendRow;

    use super::super::control::Sessions;
    use super::*;

    /// Of a session of tenant 20, or of the administrator.
    fn watch(limits: &Arc<StatementLimits>, runaways: &Arc<Runaways>, administrator: bool) -> Arc<Watch> {
        let config = crate::ServerConfig::new("unused");
        let sessions = Sessions::new(&env::Env::real(), &config);
        let control =
            sessions.begin(TenantId(20), administrator, None, BackendRow::default()).expect("a place");
        Arc::new(Watch::new(limits, runaways, &control))
    }

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
        let watch = watch(&limits, &Arc::default(), false);
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
        let watch = watch(&limits, &Arc::default(), true);
        assert_eq!((watch.time_max(), ended(&watch, None)), (None, None));
        assert_eq!(ended(&watch, Some(50)).map(|(at, _)| at), Some(1050));
    }

    #[test]
    fn a_wait_for_a_lock_ends_by_what_is_first() {
        let watch = watch(&Arc::default(), &Arc::default(), false);
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
