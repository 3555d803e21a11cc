//! What every part of a running query may look at: the session frozen at its start, parameters, the snapshot, the flag that
//! cancels it. The session's effects (`nextval`, advisory locks) are refused here: such a statement runs at home.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use base::limits::ROW_LEN_MAX;
use base::{Oid, SqlError, SqlResult, SqlState};
use datafusion::arrow::datatypes::DataType;
use datafusion::execution::memory_pool::MemoryReservation;
use rustc_hash::{FxHashMap, FxHashSet};
use sql::MemoryBound;
use sql::expr::{
    AdvisoryKey, EvalError, EvalResult, FOLDING_BYTES_MAX, NoSubqueries, SessionContext, StatementCtx,
};
use sql::session::{QueryContext, QueryControl, may_act_for, signal_backend, version_text};
use tenant::SnapshotView;
use tenant::catalog::{Catalog, Table};
use types::{Datum, PgType, TypeMod};

use crate::built_arrays::BuiltArrays;
use crate::catalog::MadeTables;
use crate::value;

/// A constant that is repeated for all rows of a batch takes this at most.
const LITERALS_BYTES_MAX: usize = 64 << 20;

/// Values that a join repeats for the pairs of a batch, so that it can compare them, take this at most.
const PAIRS_BYTES_MAX: usize = 256 << 20;

/// How much longer than the first long value of a join the others are taken to be.
const LONGER_YET: usize = 4;

/// Characters of a short value at most: a batch of the longest rows of a few columns has some tens of megabytes.
const SHORT_LEN_MAX: usize = 1000;

/// Of rows that an operator makes more of than it is given, a batch ends behind the one that takes it so far, however many they are.
pub(crate) const BATCH_BYTES: usize = 4 << 20;

/// The surroundings of one query.
pub(crate) struct Shared {
    pub(crate) context: Arc<QueryContext>,
    pub(crate) params: Vec<Datum>,
    pub(crate) view: Option<SnapshotView>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) search_path: Vec<Oid>,
    pub(crate) control: QueryControl,
    pub(crate) built: BuiltArrays,
    pub(crate) made: MadeTables,
    /// The table of each constraint of the catalog, once somebody asked.
    constraints: OnceLock<FxHashMap<Oid, Oid>>,
    /// Names of plans' columns whose values are short.
    short_columns: Mutex<FxHashSet<String>>,
    /// Of what the window functions under way give, where there are any.
    given: Mutex<Option<MemoryReservation>>,
    values: MemoryBound,
    /// Of constants that are worked out while the query is planned, which happens several times.
    folding: MemoryBound,
    is_planning: AtomicBool,
    /// Nothing of the query was said yet, and there is another plan.
    may_begin_again: AtomicBool,
    /// No numeric is kept as Arrow's decimal: one has a value that decimals lack.
    opaque_numerics: AtomicBool,
    /// The query's own text signals sessions, where it may.
    signals: AtomicBool,
    /// Bytes of the longest constant or parameter that the plan names.
    longest_literal: AtomicUsize,
    /// The most rows that a window function looks back, whatever its frame is.
    rows_looked_back: AtomicUsize,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shared")
    }
}

impl Shared {
    pub(crate) fn new(
        context: Arc<QueryContext>,
        params: Vec<Datum>,
        view: Option<SnapshotView>,
        catalog: Arc<Catalog>,
        control: QueryControl,
    ) -> Shared {
        let search_path = catalog.search_path(context.search_path.iter().map(String::as_str), &context.user);
        let values = MemoryBound::of_values(ROW_LEN_MAX);
        let folding = MemoryBound::of_values(FOLDING_BYTES_MAX);
        let (is_planning, longest_literal) = (AtomicBool::new(false), AtomicUsize::new(0));
        Shared {
            context,
            params,
            view,
            catalog,
            search_path,
            control,
            built: BuiltArrays::default(),
            made: MadeTables::default(),
            constraints: OnceLock::new(),
            short_columns: Mutex::default(),
            given: Mutex::default(),
            values,
            folding,
            is_planning,
            may_begin_again: AtomicBool::new(false),
            opaque_numerics: AtomicBool::new(false),
            signals: AtomicBool::new(false),
            longest_literal,
            rows_looked_back: AtomicUsize::new(0),
        }
    }

    /// The table that has the constraint. A query asks for many as often as for one, and the catalog knows them by their tables.
    pub(crate) fn table_of_constraint(&self, constraint: Oid) -> Option<&Table> {
        let tables = self.constraints.get_or_init(|| {
            let mut tables = FxHashMap::default();
            for table in self.catalog.tables() {
                let of_indexes = table.indexes.iter().filter_map(|index| index.constraint.map(|c| c.oid));
                let of_checks = table.checks.iter().map(|check| check.oid);
                let of_keys = table.foreign_keys.iter().map(|key| key.oid);
                tables.extend(of_indexes.chain(of_checks).chain(of_keys).map(|oid| (oid, table.oid)));
            }
            tables
        });
        self.catalog.table(*tables.get(&constraint)?).map(Arc::as_ref)
    }

    /// # Errors
    /// 57014 once the query is cancelled.
    pub(crate) fn check_cancelled(&self) -> SqlResult<()> {
        crate::cancel::check_cancelled(&self.control)
    }

    /// Says whether the query is being planned from now on.
    pub(crate) fn set_planning(&self, is_planning: bool) {
        self.is_planning.store(is_planning, Ordering::Relaxed);
    }

    /// Says whether the query may begin again where something does not fit.
    pub(crate) fn set_may_begin_again(&self, may: bool) {
        self.may_begin_again.store(may, Ordering::Relaxed);
    }

    /// Whether what is evaluated now is a constant of the plan.
    pub(crate) fn is_planning(&self) -> bool {
        self.is_planning.load(Ordering::Relaxed)
    }

    /// From now on plans keep numerics as they are, which is slower; answers whether they did before.
    pub(crate) fn keep_numerics_opaque(&self) -> bool {
        self.opaque_numerics.swap(true, Ordering::Relaxed)
    }

    /// The Arrow type of a column or expression.
    pub(crate) fn arrow_type(&self, ty: PgType, typmod: TypeMod) -> DataType {
        let opaque = ty == PgType::Numeric && self.opaque_numerics.load(Ordering::Relaxed);
        value::arrow_type(ty, if opaque { TypeMod::NONE } else { typmod })
    }

    /// Says whether the query may signal sessions.
    pub(crate) fn set_signals(&self, signals: bool) {
        self.signals.store(signals, Ordering::Relaxed);
    }

    /// The plan names a constant of so many bytes.
    pub(crate) fn note_literal(&self, bytes: usize) {
        self.longest_literal.fetch_max(bytes, Ordering::Relaxed);
    }

    /// A window function takes a value so many rows before the one that it is at.
    pub(crate) fn note_look_back(&self, rows: usize) {
        self.rows_looked_back.fetch_max(rows, Ordering::Relaxed);
    }

    pub(crate) fn rows_looked_back(&self) -> usize {
        self.rows_looked_back.load(Ordering::Relaxed)
    }

    /// A column of the plan has that name, and values of that type.
    pub(crate) fn note_column(&self, name: &str, ty: PgType, typmod: TypeMod) {
        let is_short = typmod.as_length().is_some_and(|len| len <= SHORT_LEN_MAX)
            || matches!(ty, PgType::Uuid | PgType::Name | PgType::Interval);
        if is_short {
            self.short_columns.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned());
        }
    }

    /// Whether values of the plan's column of that name are known to be short.
    pub(crate) fn is_short(&self, name: &str) -> bool {
        self.short_columns.lock().unwrap_or_else(PoisonError::into_inner).contains(name)
    }

    /// Looks whether rows of batches of so many may have so many bytes of what is repeated.
    ///
    /// # Errors
    /// 53200 where they may not and the query may begin again, in batches of fewer rows.
    pub(crate) fn require_short_rows(&self, bytes: usize, batch_rows: usize) -> SqlResult<()> {
        let are_short = bytes.saturating_mul(batch_rows) <= PAIRS_BYTES_MAX || batch_rows == 1;
        if are_short || !self.may_begin_again.load(Ordering::Relaxed) {
            return Ok(());
        }
        // There may be longer ones.
        self.note_literal(bytes.saturating_mul(LONGER_YET));
        let message = "out of memory for the values that a join compares";
        Err(SqlError::new(SqlState::OUT_OF_MEMORY, message)
            .with_detail(format!("Some have {bytes} bytes, in batches of {batch_rows} rows.")))
    }

    /// How many rows a batch may have, as each may hold the longest constant of the plan.
    pub(crate) fn batch_rows_max(&self) -> usize {
        (LITERALS_BYTES_MAX / self.longest_literal.load(Ordering::Relaxed).max(1)).max(1)
    }

    fn given(&self) -> MutexGuard<'_, Option<MemoryReservation>> {
        self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `f`, in which what window functions give is `memory`'s until its end.
    pub(crate) fn counting_given<T>(&self, memory: Option<MemoryReservation>, f: impl FnOnce() -> T) -> T {
        let around = std::mem::replace(&mut *self.given(), memory);
        let result = f();
        *self.given() = around;
        result
    }

    /// A function gives a value of so many bytes.
    ///
    /// # Errors
    /// 53200 where it is a window's and there is no room for it.
    pub(crate) fn count_given(&self, bytes: usize) -> SqlResult<()> {
        match &*self.given() {
            Some(memory) => memory.try_grow(bytes).map_err(crate::error::sql_error),
            None => Ok(()),
        }
    }

    /// What row-at-a-time evaluation needs.
    pub(crate) fn statement(&self) -> StatementCtx<'_> {
        StatementCtx {
            params: &self.params,
            format: &self.context.format,
            statement_start: self.context.statement_start,
            session: self,
            subqueries: &NoSubqueries,
            values: if self.is_planning() { &self.folding } else { &self.values },
        }
    }
}

/// An evaluation's error; waiting is impossible here.
pub(crate) fn eval_error(error: EvalError) -> SqlError {
    match error {
        EvalError::Sql(error) => error,
        EvalError::Interrupted => SqlError::internal("an analytical expression asked to wait"),
    }
}

fn at_home<T>(what: &str) -> EvalResult<T> {
    Err(SqlError::unsupported(format!("{what} in an analytical query")).into())
}

impl SessionContext for Shared {
    fn look(&self) -> EvalResult<()> {
        Ok(self.check_cancelled()?)
    }
    fn current_user(&self) -> String {
        self.context.user.clone()
    }
    fn session_user(&self) -> String {
        self.context.session_user.clone()
    }
    fn current_database(&self) -> String {
        self.context.database.clone()
    }
    fn current_schemas(&self, implicit: bool) -> Vec<String> {
        let named = |name: &str| self.context.search_path.iter().any(|s| s == name);
        self.search_path
            .iter()
            .map(|oid| self.catalog.schema_name(*oid).to_owned())
            .filter(|name| implicit || name != "pg_catalog" || named(name))
            .collect()
    }
    fn version(&self) -> String {
        version_text()
    }
    fn backend_pid(&self) -> i32 {
        self.context.pid as i32
    }
    fn setting(&self, name: &str) -> Option<String> {
        self.context.settings.iter().find(|s| s.0.eq_ignore_ascii_case(name)).map(|s| s.1.clone())
    }
    fn set_setting(&self, _: &str, _: Option<&str>, _: bool) -> EvalResult<String> {
        at_home("set_config")
    }
    fn sequence_next(&self, _: u32) -> EvalResult<i64> {
        at_home("nextval")
    }
    fn sequence_current(&self, _: u32) -> EvalResult<i64> {
        at_home("currval")
    }
    fn sequence_last(&self) -> EvalResult<i64> {
        at_home("lastval")
    }
    fn sequence_state(&self, _: u32) -> EvalResult<(i64, bool)> {
        at_home("the state of a sequence")
    }
    fn sequence_set(&self, _: u32, _: i64, _: bool) -> EvalResult<i64> {
        at_home("setval")
    }
    fn serial_sequence(&self, table: &str, column: &str) -> EvalResult<Option<String>> {
        Ok(crate::catalog::functions::serial_sequence(self, table, column)?)
    }
    fn advisory_lock(&self, _: AdvisoryKey, _: bool, _: bool, _: bool) -> EvalResult<bool> {
        at_home("an advisory lock")
    }
    fn advisory_unlock(&self, _: AdvisoryKey, _: bool) -> EvalResult<bool> {
        at_home("an advisory lock")
    }
    fn advisory_unlock_all(&self) -> EvalResult<()> {
        at_home("an advisory lock")
    }
    fn signal_backend(&self, pid: i32, terminate: bool) -> EvalResult<bool> {
        if !self.signals.load(Ordering::Relaxed) {
            return Err(crate::signalling::elsewhere().into());
        }
        let QueryContext { role, signals, .. } = &*self.context;
        let acts_for = |user: &str| may_act_for(*role, &self.catalog, user);
        Ok(signal_backend(&**signals, pid, terminate, acts_for)?)
    }
    fn blocking_pids(&self, pid: i32) -> EvalResult<Vec<i32>> {
        let waits = self.context.locks.iter().find(|lock| !lock.granted && lock.pid.0 as i32 == pid);
        let mut pids: Vec<i32> =
            waits.iter().flat_map(|lock| &lock.blocked_by).map(|pid| pid.0 as i32).collect();
        pids.sort_unstable();
        pids.dedup();
        Ok(pids)
    }
    fn reset_statements(&self) -> EvalResult<()> {
        at_home("rowhouse.reset_statements")
    }
    fn transaction_id(&self) -> EvalResult<i64> {
        at_home("txid_current")
    }
    fn export_snapshot(&self) -> EvalResult<String> {
        at_home("pg_export_snapshot")
    }
    fn sleep(&self, _: f64) -> EvalResult<()> {
        at_home("pg_sleep")
    }
    fn clock(&self) -> i64 {
        self.context.statement_start
    }
    fn random(&self) -> u64 {
        self.context.random.draw()
    }
}
