//! The session as functions within expressions see it: who, which settings, the clock, sequences, advisory locks.

use std::cell::{Cell, RefCell};

use base::{Nanos, Oid, SessionId, SqlError, SqlResult, SqlState};
use rustc_hash::FxHashMap;
use tenant::catalog::{Catalog, OWNER_ROLE, Privileges};
use tenant::locks::{AdvisoryKey as LockKey, WaitPolicy};
use tenant::{Interrupt, Step, View};

use super::SessionStart;
use super::names::qualified_name;
use super::privilege::denied;
use super::setting::{Lasting, SERVER_VERSION, Settings};
use super::signals::{SentSignals, may_act_for, signal_backend};
use crate::expr::{AdvisoryKey, EvalError, EvalResult, SessionContext};

/// What `version()` answers, whichever path asks.
pub fn version_text() -> String {
    format!("PostgreSQL {SERVER_VERSION} {}, 64-bit", env!("CARGO_PKG_VERSION"))
}

/// What `currval` and `lastval` need one of.
const READ: [Privileges; 2] = [Privileges::USAGE, Privileges::SELECT];

/// What `currval` and `lastval` answer.
#[derive(Debug, Default)]
pub(super) struct Sequences {
    last: FxHashMap<u32, i64>,
    newest: Option<u32>,
}

impl Sequences {
    fn note(&mut self, sequence: u32, value: i64) {
        self.last.insert(sequence, value);
        self.newest = Some(sequence);
    }

    /// What `setval` leaves: `lastval` goes by `nextval` alone.
    fn note_set(&mut self, sequence: u32, value: i64) {
        self.last.insert(sequence, value);
    }

    pub(super) fn clear(&mut self) {
        *self = Sequences::default();
    }
}

/// The parts of a session that its functions look at.
#[derive(Clone, Copy)]
pub(super) struct SessionParts<'a> {
    pub(super) start: &'a SessionStart,
    pub(super) settings: &'a RefCell<Settings>,
    pub(super) sequences: &'a RefCell<Sequences>,
    pub(super) sleeps: Sleeps,
    pub(super) signals: &'a RefCell<SentSignals>,
    /// The number of the statement under way.
    pub(super) statement: u64,
}

/// The calls of `pg_sleep` in the statement under way, which begins anew behind each that it waits for.
#[derive(Clone, Copy, Default)]
pub(super) struct Sleeps {
    /// How many of them, from the first one on, are over.
    pub(super) over: u32,
    /// Where the next one ends, once it has begun.
    pub(super) until: Option<Nanos>,
}

/// Calls of `pg_sleep` that a statement waits for one by one. It sleeps for the rest of them together, at its end: to go each time through all rows
/// that it has slept for would take the square of their number.
const SLEEPS_APART: u32 = 64;

impl SessionParts<'_> {
    fn may_act_for(&self, catalog: &Catalog, user: &str) -> bool {
        may_act_for(self.settings.borrow().privileged_role(), catalog, user)
    }
}

/// The session for the length of one statement's turn.
pub(super) struct StatementHost<'a, 'v> {
    parts: SessionParts<'a>,
    view: &'a RefCell<View<'v>>,
    /// Why the statement must stop, while the reason passes through an expression.
    interrupt: RefCell<Option<Interrupt>>,
    asleep: Cell<Option<Nanos>>,
    sleeps: Cell<Sleeps>,
    /// Calls of `pg_sleep` so far, and how long those are that the statement has not waited for.
    slept: Cell<u32>,
    rest: Cell<Nanos>,
    /// Signals to others so far.
    signals: Cell<usize>,
    /// The sequence that the role was last found to have the right to advance: asked once, not for every row.
    advances: Cell<Option<u32>>,
    /// Calls that may have taken long since others had their turns.
    unasked: Cell<u32>,
}

/// Calls of up to a third of a second each between two looks at whether the statement is to end, which take as long as a short call.
const CALLS_UNASKED: u32 = 4;

/// What a stopped statement waits for.
pub(super) enum Stopped {
    Interrupt(Interrupt),
    /// Until this time.
    Sleep(Nanos),
}

impl<'a, 'v> StatementHost<'a, 'v> {
    pub(super) fn new(parts: SessionParts<'a>, view: &'a RefCell<View<'v>>) -> StatementHost<'a, 'v> {
        StatementHost {
            parts,
            view,
            interrupt: RefCell::default(),
            asleep: Cell::default(),
            sleeps: Cell::new(parts.sleeps),
            slept: Cell::default(),
            rest: Cell::new(Nanos(0)),
            signals: Cell::default(),
            advances: Cell::default(),
            unasked: Cell::default(),
        }
    }

    /// What a function stopped the statement for.
    pub(super) fn stopped(&self) -> Option<Stopped> {
        match self.interrupt.borrow_mut().take() {
            Some(interrupt) => Some(Stopped::Interrupt(interrupt)),
            None => self.asleep.get().map(Stopped::Sleep),
        }
    }

    /// How far the statement's sleeps have come.
    pub(super) fn sleeps(&self) -> Sleeps {
        self.sleeps.get()
    }

    /// Has the statement, all of whose rows are made, sleep for what it has not yet.
    ///
    /// # Errors
    /// [`EvalError::Interrupted`] until that is over.
    pub(super) fn end_sleeps(&self) -> EvalResult<()> {
        let (until, rest) = (self.sleeps.get().until, self.rest.get());
        if until.is_none() && rest == Nanos(0) {
            return Ok(());
        }
        let now = self.parts.start.host.now();
        let until = until.unwrap_or(Nanos(now.0.saturating_add(rest.0)));
        if now >= until {
            return Ok(());
        }
        self.fall_asleep(Sleeps { over: u32::MAX, until: Some(until) })
    }

    fn fall_asleep(&self, sleeps: Sleeps) -> EvalResult<()> {
        self.asleep.set(sleeps.until);
        self.sleeps.set(sleeps);
        Err(EvalError::Interrupted)
    }

    /// Keeps an interrupt and answers that there is one.
    fn keep<T>(&self, outcome: Step<T>) -> EvalResult<T> {
        outcome.map_err(|interrupt| match interrupt {
            Interrupt::Error(error) => EvalError::Sql(error),
            other => {
                *self.interrupt.borrow_mut() = Some(other);
                EvalError::Interrupted
            }
        })
    }

    /// Whether the session may do what is the owner's of the tenant.
    fn is_owner(&self) -> bool {
        let view = self.view.borrow();
        let owner = view.catalog().role(OWNER_ROLE).map(|role| role.name.to_string());
        owner.is_some_and(|owner| self.parts.may_act_for(view.catalog(), &owner))
    }

    /// Whether the role is that one, a member of it, or a superuser; only a superuser is for another superuser.
    fn acts_for(&self, user: &str) -> bool {
        self.parts.may_act_for(self.view.borrow().catalog(), user)
    }

    fn search_path(&self) -> Vec<String> {
        self.parts.settings.borrow().search_path()
    }

    /// 42501 unless the role has one of the privileges on a sequence, or owns it.
    fn check_sequence(&self, sequence: u32, suffice: &[Privileges]) -> EvalResult<()> {
        let Some(role) = self.parts.settings.borrow().privileged_role() else { return Ok(()) };
        let view = self.view.borrow();
        let catalog = view.catalog();
        // One that is gone has an error of its own.
        let Some(found) = catalog.sequence(Oid(sequence)) else { return Ok(()) };
        let has = |acl, privilege: &Privileges| catalog.has_privileges(role, found.owner, acl, *privilege);
        if has(None, &Privileges::SEQUENCE) || suffice.iter().any(|one| has(found.acl.as_ref(), one)) {
            return Ok(());
        }
        Err(denied("sequence", &found.name).into())
    }
}

fn lock_key(key: AdvisoryKey) -> LockKey {
    match key {
        AdvisoryKey::One(key) => LockKey::Big(key),
        AdvisoryKey::Two(a, b) => LockKey::Pair(a, b),
    }
}

impl SessionContext for StatementHost<'_, '_> {
    fn look(&self) -> EvalResult<()> {
        self.unasked.set((self.unasked.get() + 1) % CALLS_UNASKED);
        match self.view.try_borrow_mut() {
            Ok(mut view) if self.unasked.get() == 0 => self.keep(view.look()),
            // Whoever has it asks soon.
            _ => Ok(()),
        }
    }

    fn current_user(&self) -> String {
        self.parts.settings.borrow().role().name.clone()
    }

    fn session_user(&self) -> String {
        self.parts.settings.borrow().session_role().name.clone()
    }

    fn current_database(&self) -> String {
        self.parts.start.database.clone()
    }

    fn current_schemas(&self, implicit: bool) -> Vec<String> {
        let view = self.view.borrow();
        let catalog = view.catalog();
        let role = self.parts.settings.borrow().role().oid;
        let is_searched = |name: &String| {
            catalog.schema_named(name).is_some_and(|schema| catalog.may_use_schema(role, schema))
        };
        let mut schemas: Vec<String> = self.search_path().into_iter().filter(is_searched).collect();
        if implicit && !schemas.iter().any(|name| name == "pg_catalog") {
            schemas.insert(0, "pg_catalog".into());
        }
        schemas
    }

    fn version(&self) -> String {
        version_text()
    }

    fn backend_pid(&self) -> i32 {
        i32::try_from(self.parts.start.id.0).unwrap_or(i32::MAX)
    }

    fn setting(&self, name: &str) -> Option<String> {
        let time_max = self.parts.start.host.statement_time_max();
        self.parts.settings.borrow().show(name, time_max).ok().map(|(_, value)| value)
    }

    fn set_setting(&self, name: &str, value: Option<&str>, local: bool) -> EvalResult<String> {
        let lasting = if local { Lasting::Transaction } else { Lasting::Session };
        let mut settings = self.parts.settings.borrow_mut();
        let view = self.view.borrow();
        super::role::set(view.catalog(), &mut settings, name, value, lasting)?;
        // A custom setting that was reset is gone.
        let shown = settings.show(name, self.parts.start.host.statement_time_max());
        Ok(if value.is_none() { shown.map_or_else(|_| String::new(), |(_, value)| value) } else { shown?.1 })
    }

    fn sequence_next(&self, sequence: u32) -> EvalResult<i64> {
        if self.advances.get() != Some(sequence) {
            self.check_sequence(sequence, &[Privileges::USAGE, Privileges::UPDATE])?;
            self.advances.set(Some(sequence));
        }
        self.identity_next(sequence)
    }

    fn identity_next(&self, sequence: u32) -> EvalResult<i64> {
        let value = self.keep(self.view.borrow_mut().nextval(Oid(sequence)))?;
        self.parts.sequences.borrow_mut().note(sequence, value);
        Ok(value)
    }

    fn sequence_current(&self, sequence: u32) -> EvalResult<i64> {
        self.check_sequence(sequence, &READ)?;
        let last = self.parts.sequences.borrow().last.get(&sequence).copied();
        last.ok_or_else(|| {
            let view = self.view.borrow();
            let name = view.catalog().sequence(Oid(sequence)).map_or(String::new(), |s| s.name.to_string());
            let message = format!("currval of sequence \"{name}\" is not yet defined in this session");
            SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message).into()
        })
    }

    fn sequence_last(&self) -> EvalResult<i64> {
        let sequences = self.parts.sequences.borrow();
        let is_there = |sequence: u32| self.view.borrow().catalog().sequence(Oid(sequence)).is_some();
        let newest = sequences.newest.filter(|newest| is_there(*newest));
        let newest = newest.and_then(|newest| sequences.last.get_key_value(&newest));
        let Some((&sequence, &value)) = newest else {
            let message = "lastval is not yet defined in this session";
            return Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message).into());
        };
        self.check_sequence(sequence, &READ)?;
        Ok(value)
    }

    fn sequence_state(&self, sequence: u32) -> EvalResult<(i64, bool)> {
        let value = self.keep(self.view.borrow_mut().sequence_value(Oid(sequence)))?;
        Ok((value.last_value, value.is_called))
    }

    fn sequence_set(&self, sequence: u32, value: i64, called: bool) -> EvalResult<i64> {
        self.check_sequence(sequence, &[Privileges::UPDATE])?;
        self.keep(self.view.borrow_mut().setval(Oid(sequence), value, called))?;
        if called {
            self.parts.sequences.borrow_mut().note_set(sequence, value);
        }
        Ok(value)
    }

    fn serial_sequence(&self, table: &str, column: &str) -> EvalResult<Option<String>> {
        let view = self.view.borrow();
        Ok(serial_sequence(&view, table, column, &self.search_path(), &self.current_user())?)
    }

    fn advisory_lock(
        &self,
        key: AdvisoryKey,
        shared: bool,
        transaction: bool,
        wait: bool,
    ) -> EvalResult<bool> {
        let policy = if wait { WaitPolicy::Wait } else { WaitPolicy::SkipLocked };
        let mut view = self.view.borrow_mut();
        self.keep(if transaction {
            view.lock_advisory(lock_key(key), shared, policy)
        } else {
            view.lock_advisory_for_session(lock_key(key), shared, policy)
        })
    }

    fn advisory_unlock(&self, key: AdvisoryKey, shared: bool) -> EvalResult<bool> {
        Ok(self.view.borrow_mut().unlock_advisory(lock_key(key), shared))
    }

    fn advisory_unlock_all(&self) -> EvalResult<()> {
        self.view.borrow_mut().unlock_advisory_all();
        Ok(())
    }

    fn signal_backend(&self, pid: i32, terminate: bool) -> EvalResult<bool> {
        let at = self.signals.replace(self.signals.get() + 1);
        let again = self.parts.signals.borrow_mut().again(self.parts.statement, at, pid, terminate);
        if let Some(found) = again {
            return Ok(found);
        }
        let reach = self.parts.settings.borrow().reach();
        let signals = self.parts.start.host.signals(reach);
        let found = signal_backend(&*signals, pid, terminate, |user| self.acts_for(user))?;
        self.parts.signals.borrow_mut().note(pid, terminate, found);
        Ok(found)
    }

    fn blocking_pids(&self, pid: i32) -> EvalResult<Vec<i32>> {
        let Ok(pid) = u32::try_from(pid).map(SessionId) else { return Ok(Vec::new()) };
        Ok(self.view.borrow().blocking(pid).into_iter().map(|pid| pid.0 as i32).collect())
    }

    fn reset_statements(&self) -> EvalResult<()> {
        let is_owner = self.is_owner();
        if !is_owner {
            let message = "permission denied for function reset_statements";
            return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message).into());
        }
        self.parts.start.host.reset_statements();
        Ok(())
    }

    fn transaction_id(&self) -> EvalResult<i64> {
        Ok(i64::try_from(self.view.borrow().txn().id().0).unwrap_or(i64::MAX))
    }

    fn export_snapshot(&self) -> EvalResult<String> {
        Ok(self.view.borrow_mut().export_snapshot()?)
    }

    fn sleep(&self, seconds: f64) -> EvalResult<()> {
        if !(seconds <= 1e9) {
            let message = "the time to sleep is out of range";
            return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message).into());
        }
        let number = self.slept.get();
        self.slept.set(number.saturating_add(1));
        let sleeps = self.sleeps.get();
        if number < sleeps.over {
            return Ok(());
        }
        let length = Nanos((seconds.max(0.0) * 1e9) as u64);
        if sleeps.over >= SLEEPS_APART {
            self.rest.set(Nanos(self.rest.get().0.saturating_add(length.0)));
            return Ok(());
        }
        let now = self.parts.start.host.now();
        let until = sleeps.until.unwrap_or(now + length);
        if now < until {
            return self.fall_asleep(Sleeps { until: Some(until), ..sleeps });
        }
        self.sleeps.set(Sleeps { over: sleeps.over + 1, until: None });
        Ok(())
    }

    fn clock(&self) -> i64 {
        self.parts.start.host.wall_clock()
    }

    fn random(&self) -> u64 {
        let mut bytes = [0; 8];
        self.parts.start.host.random(&mut bytes);
        u64::from_le_bytes(bytes)
    }
}

/// The quoted, qualified name of the sequence behind a serial or identity column.
fn serial_sequence(
    view: &View<'_>,
    table: &str,
    column: &str,
    path: &[String],
    role: &str,
) -> SqlResult<Option<String>> {
    let catalog = view.catalog();
    let parts = super::setting::split_name(table);
    let (schema, name) = super::privilege::split_name(&parts)?;
    let path = catalog.search_path(path.iter().map(String::as_str), role);
    let table = catalog.resolve_table(schema, name, &path)?;
    let (position, _) = table.column(column).ok_or_else(|| {
        let message = format!("column \"{column}\" of relation \"{}\" does not exist", table.name);
        SqlError::new(SqlState::UNDEFINED_COLUMN, message)
    })?;
    let sequence = catalog.sequences().find(|sequence| sequence.owned_by == Some((table.oid, position)));
    Ok(sequence.map(|sequence| qualified_name(catalog, sequence.schema, &sequence.name)))
}

#[cfg(test)]
mod tests {
    use crate::session::testing::Bench;

    #[test]
    fn lastval_goes_by_nextval_alone() {
        let mut bench = Bench::new();
        let mut session = bench.session();
        bench.run(&mut session, "CREATE SEQUENCE a; CREATE SEQUENCE b");
        bench.run(&mut session, "SELECT setval('b', 50)");
        let undefined = bench.fail(&mut session, "SELECT lastval()");
        assert_eq!(undefined.message(), "lastval is not yet defined in this session");
        bench.run(&mut session, "SELECT nextval('a')");
        bench.run(&mut session, "SELECT setval('b', 60)");
        assert_eq!(bench.run(&mut session, "SELECT lastval()").lines(), ["1"]);
        assert_eq!(bench.run(&mut session, "SELECT currval('b')").lines(), ["60"]);
        bench.run(&mut session, "SELECT setval('a', 7)");
        assert_eq!(bench.run(&mut session, "SELECT lastval()").lines(), ["7"]);
        bench.run(&mut session, "DROP SEQUENCE a");
        let gone = bench.fail(&mut session, "SELECT lastval()");
        assert_eq!(gone.message(), "lastval is not yet defined in this session");
    }
}
