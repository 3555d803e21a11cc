//! What evaluation needs: rows, parameters, and the session behind a trait.

use std::ops::ControlFlow;

use base::SqlError;
use types::{Datum, FormatContext};

use super::tree::{SubqueryColumn, SubqueryId};
use crate::memory_bound::{Held, MemoryBound};

/// Why an expression has no value.
#[derive(Clone, Debug)]
pub enum EvalError {
    Sql(SqlError),
    /// The session or a subquery must wait (a lock, a page, a sleep) and has kept why. The statement is undone and run
    /// again by whoever supplied the trait object that raised this.
    Interrupted,
}

/// The outcome of an evaluation.
pub type EvalResult<T> = Result<T, EvalError>;

impl From<SqlError> for EvalError {
    fn from(error: SqlError) -> EvalError {
        EvalError::Sql(error)
    }
}

/// What functions ask of the session and its tenant. Calls that may wait answer [`EvalError::Interrupted`] and keep why.
pub trait SessionContext {
    fn current_user(&self) -> String;
    fn session_user(&self) -> String;
    fn current_database(&self) -> String;
    /// The schemas of the search path that exist, in order; with the implicit `pg_catalog` if asked.
    fn current_schemas(&self, implicit: bool) -> Vec<String>;
    /// The answer to `version()`.
    fn version(&self) -> String;
    fn backend_pid(&self) -> i32;
    /// The value of a setting as SHOW prints it; `None` if there is none of that name.
    fn setting(&self, name: &str) -> Option<String>;
    /// Changes a setting, for the transaction if `local`; answers its new value.
    fn set_setting(&self, name: &str, value: Option<&str>, local: bool) -> EvalResult<String>;
    /// Advances a sequence; 42501 if the role may not.
    fn sequence_next(&self, sequence: u32) -> EvalResult<i64>;
    /// Advances the sequence of an identity column, which whoever inserts a row may.
    fn identity_next(&self, sequence: u32) -> EvalResult<i64> {
        self.sequence_next(sequence)
    }
    /// The value this session last got from a sequence; 55000 if none.
    fn sequence_current(&self, sequence: u32) -> EvalResult<i64>;
    /// The value this session last got from any sequence; 55000 if none.
    fn sequence_last(&self) -> EvalResult<i64>;
    /// The sequence's last value, and whether `nextval` has given it out.
    fn sequence_state(&self, sequence: u32) -> EvalResult<(i64, bool)>;
    /// `setval(sequence, value, called)`.
    fn sequence_set(&self, sequence: u32, value: i64, called: bool) -> EvalResult<i64>;
    /// `pg_get_serial_sequence`: the sequence's quoted, qualified name.
    fn serial_sequence(&self, table: &str, column: &str) -> EvalResult<Option<String>>;
    /// Takes an advisory lock; answers false only if `wait` is false and another session holds it.
    fn advisory_lock(
        &self,
        key: AdvisoryKey,
        shared: bool,
        transaction: bool,
        wait: bool,
    ) -> EvalResult<bool>;
    /// Releases one; false (with a warning) if this session does not hold it.
    fn advisory_unlock(&self, key: AdvisoryKey, shared: bool) -> EvalResult<bool>;
    fn advisory_unlock_all(&self) -> EvalResult<()>;
    /// `pg_cancel_backend` / `pg_terminate_backend`.
    fn signal_backend(&self, pid: i32, terminate: bool) -> EvalResult<bool>;
    /// `pg_blocking_pids`: the sessions that this one waits for a lock of.
    fn blocking_pids(&self, pid: i32) -> EvalResult<Vec<i32>>;
    /// Has what is counted of the tenant's statements begin anew.
    fn reset_statements(&self) -> EvalResult<()>;
    /// The transaction's id, assigning one if it has none.
    fn transaction_id(&self) -> EvalResult<i64>;
    /// `pg_export_snapshot`.
    fn export_snapshot(&self) -> EvalResult<String>;
    /// Returns once `seconds` have passed since the statement began to sleep.
    fn sleep(&self, seconds: f64) -> EvalResult<()>;
    /// A call is about to be made that may take milliseconds, whatever it is given: now and then others have their turns, and the statement
    /// may have to end.
    fn look(&self) -> EvalResult<()> {
        Ok(())
    }
    /// The time now, in microseconds since 2000-01-01 UTC.
    fn clock(&self) -> i64;
    /// 64 random bits.
    fn random(&self) -> u64;
}

/// The key of an advisory lock: one number, or two small ones, in separate spaces.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AdvisoryKey {
    One(i64),
    Two(i32, i32),
}

/// Runs the subqueries within expressions; the executor's part.
pub trait SubqueryEval {
    /// Runs subquery `id` with `outer` as its enclosing row and gives its rows to `sink` until that breaks off. An
    /// uncorrelated subquery's rows may be kept for the statement.
    fn run(
        &self,
        id: SubqueryId,
        outer: &EvalCtx<'_>,
        sink: &mut dyn FnMut(&[Datum]) -> EvalResult<ControlFlow<()>>,
    ) -> EvalResult<()>;

    /// Looks a value up among those of subquery `id`'s only column, which `column` compares it with; `None` where its rows are to be gone through.
    fn find(
        &self,
        _id: SubqueryId,
        _column: &SubqueryColumn,
        _value: &Datum,
        _outer: &EvalCtx<'_>,
    ) -> EvalResult<Option<Among>> {
        Ok(None)
    }
}

/// Whether a value is among others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Among {
    Found,
    Missing,
    /// It is NULL, or one of them is and none is equal to it.
    Unknown,
}

/// For statements whose expressions have no subqueries.
pub struct NoSubqueries;

impl SubqueryEval for NoSubqueries {
    fn run(
        &self,
        _id: SubqueryId,
        _outer: &EvalCtx<'_>,
        _sink: &mut dyn FnMut(&[Datum]) -> EvalResult<ControlFlow<()>>,
    ) -> EvalResult<()> {
        Err(SqlError::internal("a subquery was evaluated where none is allowed").into())
    }
}

/// What stays the same while a statement runs.
#[derive(Clone, Copy)]
pub struct StatementCtx<'a> {
    pub params: &'a [Datum],
    /// Settings; its `now` is the transaction's start.
    pub format: &'a FormatContext,
    /// The statement's start, in microseconds since 2000-01-01 UTC.
    pub statement_start: i64,
    pub session: &'a dyn SessionContext,
    pub subqueries: &'a dyn SubqueryEval,
    pub values: &'a MemoryBound,
}

/// What an expression is evaluated against. Made anew for each row; two pointers and a slice.
#[derive(Clone, Copy)]
pub struct EvalCtx<'a> {
    pub row: &'a [Datum],
    /// The enclosing query's row, when this expression stands in a subquery.
    pub outer: Option<&'a EvalCtx<'a>>,
    pub stmt: &'a StatementCtx<'a>,
}

impl<'a> EvalCtx<'a> {
    pub fn new(stmt: &'a StatementCtx<'a>, row: &'a [Datum]) -> EvalCtx<'a> {
        EvalCtx { row, outer: None, stmt }
    }

    /// Looks whether a value of so many bytes may be built.
    ///
    /// # Errors
    /// 53200 if not.
    pub(super) fn room(&self, bytes: usize) -> EvalResult<()> {
        Ok(self.stmt.values.room(bytes)?)
    }

    /// To be said before what may take milliseconds: a row, or a list, may have thousands of it.
    ///
    /// # Errors
    /// [`EvalError::Interrupted`] where the statement is to end.
    pub(super) fn look(&self) -> EvalResult<()> {
        self.stmt.session.look()
    }

    /// What an evaluation holds, none yet.
    pub(super) fn held(&self) -> Held<'a> {
        self.stmt.values.hold()
    }

    /// The same with another row.
    #[must_use]
    pub fn with_row<'b>(&self, row: &'b [Datum]) -> EvalCtx<'b>
    where
        'a: 'b,
    {
        EvalCtx { row, outer: self.outer, stmt: self.stmt }
    }
}
