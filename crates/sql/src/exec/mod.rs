//! Runs point plans within one turn of the tenant's home.
//!
//! Rows are pushed: each node of FROM fills its slots of the level's row and calls on. Nothing of the tenant is borrowed
//! while an expression is evaluated, so functions with effects reach the tenant through the session; both share the view
//! in a `RefCell`. What must wait ends the run; the caller takes the statement back, waits, and runs it anew.

mod aggregate;
mod ahead;
mod change;
mod conflict;
mod function;
mod hash_join;
mod insert;
mod keyed;
mod missed;
mod node;
mod parts;
mod path;
mod row_key;
mod select;
mod slice;
mod subquery;
#[cfg(test)]
mod tests;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use base::limits::ROW_LEN_MAX;
use base::{ByteCount, Nanos, Oid, PageNo, SqlError, SqlResult, SqlState};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use tenant::locks::{TableLock, WaitPolicy};
use tenant::{Interrupt, View};
use types::{Datum, FormatContext, PgType, Row};

pub use slice::{Position, Slice};

use self::keyed::Keyed;
use self::missed::Missed;
use self::subquery::Sought;
use crate::expr::{EvalCtx, EvalError, SessionContext, StatementCtx};
use crate::memory_bound::{Held, MemoryBound};
use crate::plan::{LockStrength, NodeId, POINT_ROWS_MAX, PointPlan, PointStatement, SelectPlan, TableUse};

/// What the values of an expression may take in a statement that may run elsewhere: a single call on much longer ones takes longer than a turn, and
/// nobody can cut it short here.
const LEAVING_VALUES_MAX: ByteCount = ByteCount::from_mib(4);

/// What a sink says to a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flow {
    More,
    /// No further rows are wanted.
    Stop,
}

/// Takes the rows of a result.
pub trait RowSink {
    /// One row; the slice is good for this call only.
    ///
    /// # Errors
    /// End the statement.
    fn row(&mut self, row: &[Datum]) -> SqlResult<Flow>;
}

/// The session a statement runs in.
#[derive(Clone, Copy)]
pub struct ExecEnv<'a> {
    /// Settings; its `now` is the transaction's start.
    pub format: &'a FormatContext,
    /// Microseconds since 2000-01-01 UTC.
    pub statement_start: i64,
    pub session: &'a dyn SessionContext,
}

/// Rows from the analytical path for [`PointPlan::external`].
#[derive(Clone, Copy)]
pub struct ExternalRows<'a> {
    pub types: &'a [PgType],
    /// All of them; for a slice, those from its first one on that are in memory, one at least if there is one.
    pub rows: &'a [Row],
    /// How many there are in all.
    pub total: usize,
}

/// What bounds and watches a run.
#[derive(Clone, Copy, Default)]
pub struct ExecLimits<'a> {
    /// Rows of tables it may look at before it ends with [`ExecError::Outgrew`], as it then does where its rows take too much memory; `None` for no
    /// limit. A query that outgrows it is run on the analytical path, a change in slices.
    pub rows_examined_max: Option<u64>,
    /// The part of the statement to run.
    pub slice: Option<&'a Slice<'a>>,
    /// What rows may take that wait for others, such as those that a change finds before it changes any; `None` for no limit.
    pub memory_max: Option<ByteCount>,
    /// Where to count the rows that it looks at, for who wants to know while it runs.
    pub examined: Option<&'a Cell<u64>>,
    /// Measures the nodes, for EXPLAIN ANALYZE.
    pub profile: Option<&'a Profile<'a>>,
}

/// How a run ended that came to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExecDone {
    /// Rows given out by a query, or changed by DML: the number in the command tag.
    pub rows: u64,
    /// Rows of tables and index entries looked at.
    pub examined: u64,
}

/// How a run ended before its end. The caller undoes the statement.
#[derive(Debug)]
pub enum ExecError {
    /// A lock, a page, or an error.
    Interrupt(Interrupt),
    /// Pages are on disk only: all that a query missed which went on past the first to learn what else it will need.
    Missed(Vec<PageNo>),
    /// The [`SessionContext`] raised [`EvalError::Interrupted`] and has kept why.
    Session,
    /// More rows were looked at than [`ExecLimits::rows_examined_max`], or waited in memory than it may hold.
    Outgrew,
}

impl From<Interrupt> for ExecError {
    fn from(interrupt: Interrupt) -> ExecError {
        ExecError::Interrupt(interrupt)
    }
}

impl From<SqlError> for ExecError {
    fn from(error: SqlError) -> ExecError {
        ExecError::Interrupt(Interrupt::Error(error))
    }
}

/// Counts and times of a plan's nodes, by [`NodeId`].
pub struct Profile<'a> {
    pub clock: &'a dyn Fn() -> Nanos,
    nodes: RefCell<Vec<NodeProfile>>,
}

/// What one node did.
#[derive(Clone, Copy, Default, Debug)]
pub struct NodeProfile {
    /// Times it was started.
    pub loops: u64,
    /// Rows it gave out, over all loops.
    pub rows: u64,
    /// Rows its filter took out, over all loops.
    pub filtered: u64,
    /// Time spent in it, its children and not in what it fed.
    pub time: Nanos,
}

impl<'a> Profile<'a> {
    pub fn new(plan: &PointPlan, clock: &'a dyn Fn() -> Nanos) -> Profile<'a> {
        Profile { clock, nodes: RefCell::new(vec![NodeProfile::default(); plan.nodes as usize]) }
    }

    pub fn node(&self, id: NodeId) -> NodeProfile {
        self.nodes.borrow()[id.0 as usize]
    }

    fn update(&self, id: NodeId, f: impl FnOnce(&mut NodeProfile)) {
        f(&mut self.nodes.borrow_mut()[id.0 as usize]);
    }
}

type Halt<T> = Result<T, ExecError>;
/// The key of a table's row.
pub type Key = SmallVec<[u8; 24]>;

/// Runs a plan. `params` are of the plan's parameter types.
///
/// Deferred to the statement's end and checked here: foreign keys. Row locks and changes go into the view's transaction;
/// after an error the caller rolls the statement back.
///
/// # Errors
/// See [`ExecError`]; 25006 for row locks in a read-only transaction.
pub fn run(
    plan: &PointPlan,
    params: &[Datum],
    env: &ExecEnv<'_>,
    view: &RefCell<View<'_>>,
    external: Option<ExternalRows<'_>>,
    sink: &mut dyn RowSink,
    limits: ExecLimits<'_>,
) -> Result<ExecDone, ExecError> {
    {
        let mut view = view.borrow_mut();
        for (table, what) in &plan.tables {
            let mode = match what {
                TableUse::Read => TableLock::AccessShare,
                TableUse::LockRows => {
                    view.require_writable(locking_tag(plan))?;
                    TableLock::RowShare
                }
                TableUse::Write => TableLock::RowExclusive,
            };
            view.lock_table(*table, mode, WaitPolicy::Wait)?;
        }
    }
    let values_max = if limits.rows_examined_max.is_some() { LEAVING_VALUES_MAX } else { ROW_LEN_MAX };
    let examined = Cell::new(0);
    let run = Run {
        plan,
        view,
        examined: limits.examined.unwrap_or(&examined),
        limits,
        only: RefCell::default(),
        keys: RefCell::default(),
        found_len: Cell::default(),
        kept: RefCell::default(),
        sought: RefCell::default(),
        keyed: RefCell::default(),
        memory: MemoryBound::of_rows(limits.memory_max),
        interrupt: RefCell::default(),
        missed: Missed::for_plan(plan),
        parts: RefCell::new(vec![None; plan.parts.len()]),
        changed: RefCell::default(),
    };
    let stmt = StatementCtx {
        params,
        format: env.format,
        statement_start: env.statement_start,
        session: env.session,
        subqueries: &run,
        values: &MemoryBound::of_values(values_max),
    };
    let cx = Cx { stmt: &stmt, outer: None };
    // What reads beside the change reads the state in which the statement began: other parts, and subqueries. For those that read none of what is
    // changed there is no other, and the transaction's changes so far need not be had twice.
    let is_change = !matches!(plan.statement, PointStatement::Select(_));
    let reads_changed = is_change && !plan.subqueries.is_empty() && plan.reads_what_it_changes;
    let rows = if limits.slice.is_some() && view.borrow().txn().carries_checks() {
        // What the slice before has left comes first.
        0
    } else if !plan.parts.is_empty() || reads_changed {
        run.with_parts(&cx, external, sink)?
    } else {
        run.statement(&plan.statement, &cx, external, sink)?
    };
    if is_change || !plan.parts.is_empty() {
        run.finish(&cx)?;
    }
    Ok(ExecDone { rows, examined: run.examined.get() })
}

/// What PostgreSQL calls a query that locks rows where it refuses it.
fn locking_tag(plan: &PointPlan) -> &'static str {
    let strength = match &plan.statement {
        PointStatement::Select(select) => select.locks.first().map(|lock| lock.strength),
        _ => None,
    };
    match strength {
        Some(LockStrength::KeyShare) => "SELECT FOR KEY SHARE",
        Some(LockStrength::Share) => "SELECT FOR SHARE",
        Some(LockStrength::NoKeyUpdate) => "SELECT FOR NO KEY UPDATE",
        Some(LockStrength::Update) | None => "SELECT FOR UPDATE",
    }
}

/// One execution of one plan.
struct Run<'a, 'v> {
    plan: &'a PointPlan,
    view: &'a RefCell<View<'v>>,
    examined: &'a Cell<u64>,
    limits: ExecLimits<'a>,
    /// The one row of the scanned table to look at, while it is looked at again.
    only: RefCell<Option<Key>>,
    /// Keys of the current rows of the relations that are locked or changed.
    keys: RefCell<SmallVec<[Key; 2]>>,
    /// Bytes of the row that a scan of a table came by last, as it is stored.
    found_len: Cell<usize>,
    /// Rows of uncorrelated subqueries and derived tables.
    kept: RefCell<FxHashMap<NodeId, Rc<Vec<Row>>>>,
    /// Of uncorrelated subqueries in whose rows values are looked for.
    sought: RefCell<FxHashMap<NodeId, Sought>>,
    /// Of correlated ones whose rows have keys.
    keyed: RefCell<FxHashMap<NodeId, Keyed>>,
    /// What rows take that wait for others: those that a change has found, that are sorted, grouped, joined or kept.
    memory: MemoryBound,
    /// Why a subquery stopped, while the reason passes through an expression.
    interrupt: RefCell<Option<ExecError>>,
    missed: Missed,
    /// The rows of the statement's parts that were computed.
    parts: RefCell<Vec<Option<Rc<Vec<Row>>>>>,
    /// Rows that a statement of several parts has changed: each is changed once.
    changed: RefCell<FxHashSet<(Oid, Key)>>,
}

/// What expressions of one level are evaluated in, but for the row.
#[derive(Clone, Copy)]
struct Cx<'a> {
    stmt: &'a StatementCtx<'a>,
    /// The enclosing level's row.
    outer: Option<&'a EvalCtx<'a>>,
}

impl<'a> Cx<'a> {
    #[inline]
    fn row<'b>(&self, row: &'b [Datum]) -> EvalCtx<'b>
    where
        'a: 'b,
    {
        EvalCtx { row, outer: self.outer, stmt: self.stmt }
    }
}

impl Run<'_, '_> {
    /// Runs a statement, or one of its parts; answers how many rows it gave out or changed.
    fn statement(
        &self,
        statement: &PointStatement,
        cx: &Cx<'_>,
        external: Option<ExternalRows<'_>>,
        sink: &mut dyn RowSink,
    ) -> Halt<u64> {
        match statement {
            PointStatement::Select(select) => {
                if self.is_for_elsewhere(select, cx)? {
                    return Err(ExecError::Outgrew);
                }
                let mut given = 0;
                let outcome = self.select(select, cx, &mut |row| {
                    given += 1;
                    Ok(sink.row(row)?)
                });
                self.missed.outcome(outcome)?;
                Ok(given)
            }
            PointStatement::Insert(insert) => self.insert(insert, cx, external, sink),
            PointStatement::Update(update) => self.update(update, cx, external, sink),
            PointStatement::Delete(delete) => self.delete(delete, cx, external, sink),
        }
    }

    /// Whether a query that may be sent elsewhere is to be, before it begins: with the values it has it would look at too many rows.
    fn is_for_elsewhere(&self, select: &SelectPlan, cx: &Cx<'_>) -> Halt<bool> {
        // Most plans have no such cost, and their scans are not looked for.
        let Some(each) = self.plan.cost_of_leading_row else { return Ok(false) };
        let Some(scan) = select.leading_scan() else { return Ok(false) };
        let max = POINT_ROWS_MAX / each;
        let may_leave = self.limits.rows_examined_max.is_some();
        Ok(may_leave && self.estimate(scan, &scan.path, cx, select.width, max)? > max)
    }

    /// What an expression's failure means for the run.
    #[cold]
    fn halt(&self, error: EvalError) -> ExecError {
        match error {
            EvalError::Sql(error) if error.state() == SqlState::OUT_OF_MEMORY => self.outgrown(error),
            EvalError::Sql(error) => error.into(),
            EvalError::Interrupted => self.interrupt.borrow_mut().take().unwrap_or(ExecError::Session),
        }
    }

    /// One step of a loop that may be long and does not go through [`View::next`].
    #[inline]
    fn step(&self) -> Halt<()> {
        Ok(self.view.borrow_mut().step()?)
    }

    /// Counts a row looked at.
    #[inline]
    fn examine(&self) -> Halt<()> {
        let examined = self.examined.get() + 1;
        self.examined.set(examined);
        match self.limits.rows_examined_max {
            Some(max) if examined > max => Err(ExecError::Outgrew),
            _ => Ok(()),
        }
    }

    /// Looks whether `rows` rows that are given may be gone through.
    fn examine_given(&self, rows: usize) -> Halt<()> {
        match self.limits.rows_examined_max {
            Some(max) if rows as u64 > max => Err(ExecError::Outgrew),
            _ => Ok(()),
        }
    }

    /// Counts a row that is to be changed and takes so many bytes.
    ///
    /// # Errors
    /// 53200 where all of them take more than they may; [`ExecError::Outgrew`] where the statement may run elsewhere.
    fn note_changed(&self, bytes: usize) -> Halt<()> {
        if let Some(slice) = self.limits.slice {
            slice.note_changed();
        }
        self.note_bytes(bytes)
    }

    /// Counts bytes that a change has found or made.
    ///
    /// # Errors
    /// As [`Run::note_changed`].
    fn note_bytes(&self, bytes: usize) -> Halt<()> {
        if let Some(slice) = self.limits.slice {
            slice.note_bytes(bytes);
        }
        self.memory.take(bytes).map_err(|error| self.outgrown(error))
    }

    /// Counts the row that a change has found last, of which it copies what nobody names: as much is stored anew as if all of it were filled.
    ///
    /// # Errors
    /// [`ExecError::Outgrew`] where all of them are more than may be held and the statement may run in slices; else they are refused as changes are.
    fn note_copied(&self) -> Halt<()> {
        let bytes = self.found_len.get();
        if let Some(slice) = self.limits.slice {
            slice.note_bytes(bytes);
        }
        match self.limits.rows_examined_max {
            Some(_) => self.memory.take(bytes).map_err(|error| self.outgrown(error)),
            None => Ok(()),
        }
    }

    /// Holds rows of so many bytes that wait for others.
    ///
    /// # Errors
    /// As [`Run::note_changed`].
    fn hold(&self, held: &mut Held<'_>, bytes: usize) -> Halt<()> {
        held.take(bytes).map_err(|error| self.outgrown(error))
    }

    /// What it means that memory is refused: where the statement may run elsewhere it is to do so.
    #[cold]
    fn outgrown(&self, error: SqlError) -> ExecError {
        if self.limits.rows_examined_max.is_some() { ExecError::Outgrew } else { error.into() }
    }

    fn remember_key(&self, place: usize, key: Key) {
        let mut keys = self.keys.borrow_mut();
        if keys.len() <= place {
            keys.resize(place + 1, Key::new());
        }
        keys[place] = key;
    }

    fn remembered_key(&self, place: usize) -> Key {
        self.keys.borrow().get(place).map(tenant::row::keys::copied).unwrap_or_default()
    }
}
