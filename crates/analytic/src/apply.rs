//! Subqueries evaluated row by row: a plan node that runs a subplan for each row of its input and adds its answer.
//!
//! DataFusion turns the usual correlated subqueries into joins; this takes the rest, LATERAL, and uncorrelated scalar
//! subqueries, which run once. Outer columns reach the subplan through *cells*, which the node sets before each run; answers
//! are remembered by the cells' values, unless the subplan may answer otherwise each time. One query runs on one thread, so a cell has one writer at a time.

use std::any::Any;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use base::{SqlError, SqlResult, SqlState};
use datafusion::arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array};
use datafusion::arrow::compute::{concat_batches, take, take_record_batch};
use datafusion::arrow::datatypes::{DataType, FieldRef, Schema, SchemaRef};
use datafusion::catalog::Session;
use datafusion::common::cast::as_boolean_array;
use datafusion::common::{DFSchema, DFSchemaRef, ScalarValue, TableReference};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{
    ColumnarValue, Expr, Extension, LogicalPlan, ScalarFunctionArgs, ScalarUDFImpl, Signature,
    UserDefinedLogicalNode, UserDefinedLogicalNodeCore, Volatility,
};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::{ExecutionPlan, PlanProperties};
use datafusion::physical_planner::{DefaultPhysicalPlanner, ExtensionPlanner, PhysicalPlanner};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt, stream};
use rustc_hash::FxHashMap;
use types::{Datum, ElementType, PgType};

use crate::common_table::CommonScan;
use crate::compare_rows::{RowTest, SortedRows, SortedValues, compare_rows};
use crate::error::external;
use crate::expand::{Expand, ExpandRows};
use crate::fixed_filter::{FixedFilter, FixedFilterRows};
use crate::fresh_rows::{Fresh, FreshRows};
use crate::in_order::InOrder;
use crate::limit_by::{LimitBy, LimitByRows};
use crate::operator::{Node, Operator, one_stream};
use crate::shared::{BATCH_BYTES, Shared};
use crate::value;

/// The value of an outer column while a subplan runs.
#[derive(Debug)]
pub(crate) struct Cell {
    name: String,
    arrow: DataType,
    value: Mutex<ScalarValue>,
}

impl Cell {
    pub(crate) fn new(name: String, arrow: DataType) -> SqlResult<Arc<Cell>> {
        let value = ScalarValue::try_from(&arrow).map_err(crate::error::sql_error)?;
        Ok(Arc::new(Cell { name, arrow, value: Mutex::new(value) }))
    }

    pub(crate) fn get(&self) -> ScalarValue {
        self.value.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, value: ScalarValue) {
        *self.value.lock().unwrap_or_else(PoisonError::into_inner) = value;
    }
}

/// A function without arguments: the value of a cell.
#[derive(Debug)]
pub(crate) struct ReadCell {
    cell: Arc<Cell>,
    signature: Signature,
}

impl ReadCell {
    pub(crate) fn new(cell: Arc<Cell>) -> ReadCell {
        ReadCell { cell, signature: Signature::nullary(Volatility::Volatile) }
    }
}
/// The cell that `expr` reads, if it does nothing else.
pub(crate) fn cell_of(expr: &Arc<dyn PhysicalExpr>) -> Option<Arc<Cell>> {
    let expr: &dyn Any = expr.as_ref();
    let function: &dyn Any = expr.downcast_ref::<ScalarFunctionExpr>()?.fun().inner().as_ref();
    function.downcast_ref::<ReadCell>().map(|read| Arc::clone(&read.cell))
}

impl PartialEq for ReadCell {
    fn eq(&self, other: &ReadCell) -> bool {
        Arc::ptr_eq(&self.cell, &other.cell)
    }
}
impl Eq for ReadCell {}
impl Hash for ReadCell {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.cell.name.hash(state);
    }
}
impl ScalarUDFImpl for ReadCell {
    fn name(&self) -> &str {
        &self.cell.name
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.cell.arrow.clone())
    }
    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(ColumnarValue::Scalar(self.cell.get()))
    }
}

/// What is made of the subplan's rows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ApplyKind {
    Scalar,
    Exists {
        negated: bool,
    },
    Compare {
        all: bool,
        tests: Vec<RowTest>,
    },
    Array {
        element: ElementType,
    },
    /// All of them beside the input's row; with `left`, a row of NULLs where there are none.
    Lateral {
        left: bool,
    },
}

/// What is asked of a subplan's rows for a row of the input, beside its kind.
#[derive(Default)]
pub(crate) struct Asked {
    /// The left sides of the tests.
    pub(crate) left: Vec<Expr>,
    /// True for the rows that ask; `None` where all do.
    pub(crate) guard: Option<Expr>,
}

/// The logical node. Its expressions are first the outer columns that `cells` take their values from, then the left sides
/// of the tests, then the guard.
#[derive(Clone, Debug)]
pub(crate) struct Apply {
    pub(crate) input: LogicalPlan,
    pub(crate) subplan: LogicalPlan,
    pub(crate) kind: ApplyKind,
    pub(crate) cells: Vec<Arc<Cell>>,
    /// Cells that nodes further out set; part of what an answer depends on.
    pub(crate) outer_cells: Vec<Arc<Cell>>,
    pub(crate) exprs: Vec<Expr>,
    /// Whether the last of these says which rows ask.
    pub(crate) is_guarded: bool,
    pub(crate) schema: DFSchemaRef,
    /// Whether equal values of the cells have one answer.
    pub(crate) remembers: bool,
    /// Distinguishes nodes, which are never equal otherwise.
    pub(crate) number: usize,
    pub(crate) shared: Arc<Shared>,
}

impl PartialEq for Apply {
    fn eq(&self, other: &Apply) -> bool {
        self.number == other.number
            && self.input == other.input
            && self.subplan == other.subplan
            && self.exprs == other.exprs
    }
}
impl Eq for Apply {}
impl Hash for Apply {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.number.hash(state);
    }
}
impl PartialOrd for Apply {
    fn partial_cmp(&self, other: &Apply) -> Option<Ordering> {
        self.number.partial_cmp(&other.number)
    }
}

impl UserDefinedLogicalNodeCore for Apply {
    fn name(&self) -> &'static str {
        "Apply"
    }
    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input, &self.subplan]
    }
    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }
    fn expressions(&self) -> Vec<Expr> {
        self.exprs.clone()
    }
    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "Apply: {}", kind_name(&self.kind))
    }
    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Apply> {
        let subplan = inputs.pop().ok_or_else(|| DataFusionError::Internal("Apply has two inputs".into()))?;
        let input = inputs.pop().ok_or_else(|| DataFusionError::Internal("Apply has two inputs".into()))?;
        let answer = self.schema.iter().last().filter(|_| !self.is_lateral());
        let answer = answer.map(|(table, field)| (table.cloned(), Arc::clone(field)));
        let schema = Apply::schema_over(&input, &subplan, answer)?;
        Ok(Apply { input, subplan, exprs, schema, ..self.clone() })
    }
    fn necessary_children_exprs(&self, output: &[usize]) -> Option<Vec<Vec<usize>>> {
        let columns = self.input.schema().fields().len();
        let (of_input, of_subplan): (Vec<usize>, Vec<usize>) =
            output.iter().copied().partition(|column| *column < columns);
        let of_subplan = if self.is_lateral() {
            of_subplan.into_iter().map(|column| column - columns).collect()
        } else {
            (0..self.subplan.schema().fields().len()).collect()
        };
        Some(vec![of_input, of_subplan])
    }
}

impl Apply {
    fn is_lateral(&self) -> bool {
        matches!(self.kind, ApplyKind::Lateral { .. })
    }

    /// The columns of `input`, then the answer's, or those of `subplan` where there is none.
    pub(crate) fn schema_over(
        input: &LogicalPlan,
        subplan: &LogicalPlan,
        answer: Option<(Option<TableReference>, FieldRef)>,
    ) -> Result<DFSchemaRef> {
        let mut fields: Vec<_> =
            input.schema().iter().map(|(table, field)| (table.cloned(), Arc::clone(field))).collect();
        match answer {
            Some(answer) => fields.push(answer),
            None => fields.extend(
                subplan
                    .schema()
                    .iter()
                    .map(|(table, f)| (table.cloned(), Arc::new(f.as_ref().clone().with_nullable(true)))),
            ),
        }
        DFSchema::new_with_metadata(fields, Default::default()).map(Arc::new)
    }
}

fn kind_name(kind: &ApplyKind) -> &'static str {
    match kind {
        ApplyKind::Scalar => "scalar",
        ApplyKind::Exists { .. } => "exists",
        ApplyKind::Compare { .. } => "compare",
        ApplyKind::Array { .. } => "array",
        ApplyKind::Lateral { .. } => "lateral",
    }
}

impl From<Apply> for LogicalPlan {
    fn from(apply: Apply) -> LogicalPlan {
        LogicalPlan::Extension(Extension { node: Arc::new(apply) })
    }
}

/// Plans this crate's nodes, and everything else as DataFusion does.
#[derive(Debug)]
pub(crate) struct Planner;

#[async_trait]
impl QueryPlanner for Planner {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        state: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(NodePlanner)])
            .create_physical_plan(plan, state)
            .await
    }
}

struct NodePlanner;

#[async_trait]
impl ExtensionPlanner for NodePlanner {
    async fn plan_extension(
        &self,
        planner: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        logical: &[&LogicalPlan],
        physical: &[Arc<dyn ExecutionPlan>],
        state: &dyn Session,
        planning: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let node: &dyn Any = node.as_any();
        if let Some(apply) = node.downcast_ref::<Apply>() {
            let input_schema = logical[0].schema();
            let exprs = apply
                .exprs
                .iter()
                .map(|e| planner.create_physical_expr(e, input_schema, state, planning))
                .collect::<Result<Vec<_>>>()?;
            let (input, subplan) = (Arc::clone(&physical[0]), Arc::clone(&physical[1]));
            return Ok(Some(Node::plan(ApplyRows::new(apply, exprs, input, subplan))));
        }
        if let Some(expand) = node.downcast_ref::<Expand>() {
            let input = Arc::clone(&physical[0]);
            let rows = ExpandRows::plan(expand, planner, logical[0], input, state, planning)?;
            return Ok(Some(Node::plan(rows)));
        }
        if let Some(filter) = node.downcast_ref::<FixedFilter>() {
            let condition =
                planner.create_physical_expr(&filter.condition, logical[0].schema(), state, planning)?;
            return Ok(Some(Node::plan(FixedFilterRows::new(condition, Arc::clone(&physical[0])))));
        }
        if let Some(fresh) = node.downcast_ref::<Fresh>() {
            let schema = logical[0].schema();
            let keys =
                fresh.keys.iter().map(|key| planner.create_physical_expr(key, schema, state, planning));
            let keys = keys.collect::<Result<Vec<_>>>()?;
            return Ok(Some(Node::plan(FreshRows::new(fresh, keys, Arc::clone(&physical[0])))));
        }
        if let Some(scan) = node.downcast_ref::<CommonScan>() {
            return scan.physical().map(Some);
        }
        if node.is::<LimitBy>() {
            return Ok(Some(Node::plan(LimitByRows::new(&physical[0], &physical[1]))));
        }
        Ok(node.downcast_ref::<InOrder>().map(|node| node.order.over(&physical[0])))
    }
}

#[derive(Clone, Debug)]
struct ApplyRows {
    input: Arc<dyn ExecutionPlan>,
    subplan: Arc<dyn ExecutionPlan>,
    kind: ApplyKind,
    cells: Vec<Arc<Cell>>,
    outer_cells: Vec<Arc<Cell>>,
    exprs: Vec<Arc<dyn PhysicalExpr>>,
    is_guarded: bool,
    remembers: bool,
    properties: Arc<PlanProperties>,
    shared: Arc<Shared>,
}

impl ApplyRows {
    fn new(
        apply: &Apply,
        exprs: Vec<Arc<dyn PhysicalExpr>>,
        input: Arc<dyn ExecutionPlan>,
        subplan: Arc<dyn ExecutionPlan>,
    ) -> ApplyRows {
        ApplyRows {
            input,
            subplan,
            kind: apply.kind.clone(),
            cells: apply.cells.clone(),
            outer_cells: apply.outer_cells.clone(),
            exprs,
            is_guarded: apply.is_guarded,
            remembers: apply.remembers,
            properties: one_stream(Arc::clone(apply.schema.inner())),
            shared: Arc::clone(&apply.shared),
        }
    }

    fn result_type(&self) -> DataType {
        self.schema().fields().last().expect("the answer's column").data_type().clone()
    }

    /// The subplan's rows for the cells' present values, which `memory` holds.
    async fn run(&self, context: &Arc<TaskContext>, memory: &MemoryReservation) -> Result<RecordBatch> {
        self.shared.check_cancelled().map_err(external)?;
        let plan = reset_plan_states(Arc::clone(&self.subplan))?;
        let mut stream = plan.execute(0, Arc::clone(context))?;
        let enough = match self.kind {
            ApplyKind::Scalar => 2,
            ApplyKind::Exists { .. } => 1,
            _ => usize::MAX,
        };
        let mut batches = Vec::new();
        let mut rows = 0;
        let parts = memory.new_empty();
        while rows < enough {
            let Some(batch) = stream.try_next().await? else { break };
            rows += batch.num_rows();
            parts.try_grow(batch.get_array_memory_size())?;
            batches.push(batch);
        }
        let rows = compact(concat_batches(&plan.schema(), &batches)?)?;
        memory.try_grow(rows.get_array_memory_size())?;
        Ok(rows)
    }

    /// What is looked up for each input row in `rows`, which `memory` holds.
    fn looked_up(&self, rows: RecordBatch, memory: &MemoryReservation) -> Result<Found> {
        let sorted = match &self.kind {
            ApplyKind::Compare { tests, .. } if tests.len() == 1 => {
                let sorted = SortedValues::new(&rows, &tests[0], &self.shared).map_err(external)?;
                memory.try_grow(sorted.size())?;
                Some(Arc::new(sorted))
            }
            _ => None,
        };
        let whole = match &self.kind {
            // Others are looked at by one row of the input.
            ApplyKind::Compare { all, tests } if tests.len() > 1 && self.cells.is_empty() => {
                let whole = SortedRows::new(&rows, tests, *all, &self.shared).map_err(external)?;
                // Where there is no room for them they are looked at one by one.
                whole.filter(|whole| memory.try_grow(whole.size()).is_ok()).map(Arc::new)
            }
            _ => None,
        };
        Ok(Found { rows, sorted, whole })
    }

    /// The answer for one input row; `left` are the left sides of its tests.
    fn answer(&self, found: &Found, left: &[Datum]) -> SqlResult<ScalarValue> {
        let rows = &found.rows;
        match &self.kind {
            ApplyKind::Scalar => match rows.num_rows() {
                0 => ScalarValue::try_from(&self.result_type()).map_err(crate::error::sql_error),
                1 => ScalarValue::try_from_array(rows.column(0), 0).map_err(crate::error::sql_error),
                _ => Err(SqlError::new(
                    SqlState::CARDINALITY_VIOLATION,
                    "more than one row returned by a subquery used as an expression",
                )),
            },
            ApplyKind::Exists { negated } => {
                Ok(ScalarValue::Boolean(Some((rows.num_rows() > 0) != *negated)))
            }
            ApplyKind::Compare { all, tests } => {
                let holds = match (&found.sorted, &found.whole) {
                    (Some(sorted), _) => sorted.compare(&left[0], *all),
                    (_, Some(whole)) => whole.compare(rows, left, tests, *all, &self.shared)?,
                    _ => compare_rows(rows, left, tests, *all, &self.shared)?,
                };
                Ok(ScalarValue::Boolean(holds))
            }
            ApplyKind::Array { element } => {
                let ty = PgType::Array(*element);
                let items = (0..rows.num_rows())
                    .map(|i| value::datum(rows.column(0), i, (*element).into()))
                    .collect::<SqlResult<Vec<_>>>()?;
                value::scalar(&Datum::array(*element, items), ty, &DataType::Binary)
            }
            ApplyKind::Lateral { .. } => unreachable!("a lateral join has rows, not an answer"),
        }
    }

    /// What the subplan has for row `i` of the input, by the values of the cells there.
    async fn look_up(
        &self,
        cells: &[ArrayRef],
        i: usize,
        memo: &mut Memo,
        forgotten: &MemoryReservation,
        context: &Arc<TaskContext>,
    ) -> Result<Found> {
        let mut key = Vec::with_capacity(self.cells.len() + self.outer_cells.len());
        for column in cells {
            key.push(ScalarValue::try_from_array(column, i)?);
        }
        key.extend(self.outer_cells.iter().map(|cell| cell.get()));
        if let Some(known) = memo.rows.get(&key) {
            return Ok(known.clone());
        }
        for (cell, value) in self.cells.iter().zip(&key) {
            cell.set(value.clone());
        }
        if !self.remembers {
            let rows = self.run(context, forgotten).await?;
            return self.looked_up(rows, forgotten);
        }
        if memo.memory.size() > MEMO_BYTES_MAX {
            memo.forget();
        }
        let found = match self.remember(&key, memo, context).await {
            // What is remembered may have the room that is wanted, and can be looked up again.
            Err(error) if is_refusal(&error) && memo.forget() => self.remember(&key, memo, context).await?,
            found => found?,
        };
        memo.rows.insert(key, found.clone());
        Ok(found)
    }

    /// What the subplan has for the cells' present values, which are `key`, in memory of `memo`.
    async fn remember(&self, key: &[ScalarValue], memo: &Memo, context: &Arc<TaskContext>) -> Result<Found> {
        let keys: usize = key.iter().map(ScalarValue::size).sum();
        memo.memory.try_grow(keys + MEMO_ENTRY_LEN)?;
        let rows = self.run(context, &memo.memory).await?;
        self.looked_up(rows, &memo.memory)
    }

    /// The node's expressions over a batch.
    fn evaluate(&self, batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
        let rows = batch.num_rows();
        self.exprs.iter().map(|e| e.evaluate(batch)?.into_array(rows)).collect()
    }

    /// The input's rows with their answers.
    async fn answered(
        &self,
        batch: RecordBatch,
        memo: &mut Memo,
        context: &Arc<TaskContext>,
    ) -> Result<RecordBatch> {
        let built = memo.memory.new_empty();
        let columns = self.evaluate(&batch)?;
        let (cells, left_columns) = columns.split_at(self.cells.len());
        let guard = left_columns.last().filter(|_| self.is_guarded);
        let guard = guard.map(|guard| as_boolean_array(guard)).transpose()?;
        let mut answers = Vec::with_capacity(batch.num_rows());
        for i in 0..batch.num_rows() {
            if guard.is_some_and(|asks| asks.is_null(i) || !asks.value(i)) {
                answers.push(ScalarValue::try_from(&self.result_type())?);
                continue;
            }
            let forgotten = memo.memory.new_empty();
            let found = self.look_up(cells, i, memo, &forgotten, context).await?;
            let mut left = Vec::new();
            if let ApplyKind::Compare { tests, .. } = &self.kind {
                for (test, column) in tests.iter().zip(left_columns) {
                    left.push(value::datum(column, i, test.left).map_err(external)?);
                }
            }
            if matches!(self.kind, ApplyKind::Array { .. }) {
                // Its items, until they are joined.
                memo.grow(&built, found.rows.get_array_memory_size())?;
            }
            let answer = self.answer(&found, &left).map_err(external)?;
            memo.grow(&built, answer.size())?;
            answers.push(answer);
        }
        let mut out = batch.columns().to_vec();
        out.push(if answers.is_empty() {
            value::nulls(&self.result_type(), 0)
        } else {
            ScalarValue::iter_to_array(answers)?
        });
        Ok(RecordBatch::try_new(self.schema(), out)?)
    }

    /// The next of the input's rows with the subplan's beside them, so many or [`BATCH_BYTES`] of them; `None` behind the last.
    async fn joined(
        &self,
        work: &mut Lateral,
        memo: &mut Memo,
        batch_rows: usize,
        context: &Arc<TaskContext>,
    ) -> Result<Option<RecordBatch>> {
        let columns = work.batch.num_columns();
        // Where there may be rows of NULLs, all columns may be NULL.
        let right = Arc::new(Schema::new(self.schema().fields()[columns..].to_vec()));
        let (mut from, mut found, mut bytes) = (Vec::new(), Vec::new(), 0);
        while from.len() < batch_rows && bytes < BATCH_BYTES && work.row < work.batch.num_rows() {
            let (rows, given) = match work.partners.take() {
                Some(partners) => partners,
                None => {
                    work.memory.free();
                    let rows = self.look_up(&work.cells, work.row, memo, &work.memory, context).await?.rows;
                    let alone =
                        rows.num_rows() == 0 && matches!(self.kind, ApplyKind::Lateral { left: true });
                    (if alone { row_of_nulls(&right)? } else { rows }, 0)
                }
            };
            let left = rows.num_rows() - given;
            let len = value::row_len(work.batch.columns(), work.row)
                + rows.get_array_memory_size() / rows.num_rows().max(1);
            let taken = left.min(batch_rows - from.len()).min((BATCH_BYTES - bytes) / len.max(1) + 1);
            bytes += taken * len;
            from.extend(std::iter::repeat_n(work.row as u32, taken));
            if taken > 0 {
                found.push(rows.slice(given, taken));
            }
            if taken < left {
                work.partners = Some((rows, given + taken));
            } else {
                work.row += 1;
            }
        }
        if from.is_empty() {
            return Ok(None);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(from.len()));
        let indices = UInt32Array::from(from);
        let taken = work.batch.columns().iter().map(|column| take(column, &indices, None));
        let mut out = taken.collect::<std::result::Result<Vec<_>, _>>()?;
        out.extend(concat_batches(&right, &found)?.columns().iter().cloned());
        Ok(Some(RecordBatch::try_new_with_options(self.schema(), out, &options)?))
    }
}

fn row_of_nulls(schema: &SchemaRef) -> Result<RecordBatch> {
    let nulls = schema.fields().iter().map(|field| value::nulls(field.data_type(), 1)).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), nulls, &options)?)
}

/// A batch of input whose rows are being joined to the subplan's.
struct Lateral {
    batch: RecordBatch,
    cells: Vec<ArrayRef>,
    /// The row whose partners are being given.
    row: usize,
    /// Its partners, if they were looked up, and how many of them were given.
    partners: Option<(RecordBatch, usize)>,
    /// What those take that are not remembered.
    memory: MemoryReservation,
}

/// The same rows in arrays that have room for no more: operators may give a few rows of a batch in buffers for all of it.
fn compact(rows: RecordBatch) -> Result<RecordBatch> {
    let used: usize = rows
        .columns()
        .iter()
        .map(|column| column.to_data().get_slice_memory_size())
        .sum::<std::result::Result<usize, _>>()?;
    if rows.get_array_memory_size() <= 2 * used + COMPACT_ENOUGH {
        return Ok(rows);
    }
    let all = UInt32Array::from_iter_values(0..rows.num_rows() as u32);
    Ok(take_record_batch(&rows, &all)?)
}

/// Bytes of arrays without values, and a few.
const COMPACT_ENOUGH: usize = 4 << 10;

/// Rows of the subplan by the values it depends on.
struct Memo {
    rows: FxHashMap<Vec<ScalarValue>, Found>,
    memory: MemoryReservation,
}

impl Memo {
    /// Whether there was anything.
    fn forget(&mut self) -> bool {
        let had_any = !self.rows.is_empty();
        self.rows.clear();
        self.memory.free();
        had_any
    }

    /// Takes so many bytes more for `other`, in the place of what is remembered where there are no others.
    fn grow(&mut self, other: &MemoryReservation, bytes: usize) -> Result<()> {
        match other.try_grow(bytes) {
            Err(error) if is_refusal(&error) && self.forget() => other.try_grow(bytes),
            grown => grown,
        }
    }
}

/// Whether there was no memory.
fn is_refusal(error: &DataFusionError) -> bool {
    matches!(error.find_root(), DataFusionError::ResourcesExhausted(_))
}

/// Rows of the subplan, and their values for comparisons with a single column, or with several.
#[derive(Clone)]
struct Found {
    rows: RecordBatch,
    sorted: Option<Arc<SortedValues>>,
    whole: Option<Arc<SortedRows>>,
}

/// What a remembered answer takes beside its key and its rows.
const MEMO_ENTRY_LEN: usize = 256;

/// Remembered rows that take more are forgotten.
const MEMO_BYTES_MAX: usize = 16 << 20;

impl Operator for ApplyRows {
    const NAME: &'static str = "ApplyExec";

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }
    fn inputs(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input, &self.subplan]
    }
    fn over(&self, mut inputs: Vec<Arc<dyn ExecutionPlan>>) -> ApplyRows {
        let subplan = inputs.remove(1);
        ApplyRows { input: inputs.remove(0), subplan, ..self.clone() }
    }
    fn exprs(&self) -> &[Arc<dyn PhysicalExpr>] {
        &self.exprs
    }
    fn start(&self, context: Arc<TaskContext>) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        let input = self.input.execute(0, Arc::clone(&context))?;
        let memory = MemoryConsumer::new(ApplyRows::NAME).register(context.memory_pool());
        let batch_rows = context.session_config().batch_size();
        let is_lateral = matches!(self.kind, ApplyKind::Lateral { .. });
        let memo = Memo { rows: FxHashMap::default(), memory };
        let state = (input, self.clone(), memo, None::<Lateral>, context);
        let batches =
            stream::try_unfold(state, move |(mut input, this, mut memo, mut work, context)| async move {
                loop {
                    if let Some(current) = &mut work
                        && let Some(out) = this.joined(current, &mut memo, batch_rows, &context).await?
                    {
                        return Ok(Some((out, (input, this, memo, work, context))));
                    }
                    let Some(batch) = input.next().await.transpose()? else { return Ok(None) };
                    if !is_lateral {
                        let out = this.answered(batch, &mut memo, &context).await?;
                        return Ok(Some((out, (input, this, memo, work, context))));
                    }
                    let cells = this.evaluate(&batch)?;
                    let memory = memo.memory.new_empty();
                    work = Some(Lateral { batch, cells, row: 0, partners: None, memory });
                }
            });
        Ok(batches.boxed())
    }
}
