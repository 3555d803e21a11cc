//! Rows of a recursive query that were not there in any of its steps: UNION without ALL.
//!
//! DataFusion tells such rows apart by their bytes, and `1.0` from `1.00`: a query that only adds zeros would go on for ever. Where columns have values of several spellings
//! this node, above both of the query's terms, goes by their keys. A run begins with the first term, whose node begins what was seen.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use datafusion::arrow::array::{ArrayRef, BooleanArray, RecordBatch};
use datafusion::arrow::compute::filter_record_batch;
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::common::DFSchemaRef;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, UserDefinedLogicalNodeCore};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::{ExecutionPlan, PlanProperties};
use futures::StreamExt;
use futures::stream::BoxStream;
use rustc_hash::FxHashSet;

use crate::operator::Operator;

/// What a row seen takes beside its key.
const SEEN_LEN: usize = 48;

/// What was seen in a run.
struct Seen {
    keys: FxHashSet<Box<[u8]>>,
    memory: MemoryReservation,
}

/// The run under way of one recursive query.
#[derive(Default)]
pub(crate) struct Runs(Mutex<Option<Arc<Mutex<Seen>>>>);

impl fmt::Debug for Runs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Runs")
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The logical node.
#[derive(Clone, Debug)]
pub(crate) struct Fresh {
    input: LogicalPlan,
    /// By which rows are equal.
    pub(crate) keys: Vec<Expr>,
    runs: Arc<Runs>,
    is_first_term: bool,
}

impl Fresh {
    /// The rows of a term that were not there before.
    pub(crate) fn plan(
        input: LogicalPlan,
        keys: Vec<Expr>,
        runs: &Arc<Runs>,
        is_first_term: bool,
    ) -> LogicalPlan {
        let node = Fresh { input, keys, runs: Arc::clone(runs), is_first_term };
        LogicalPlan::Extension(Extension { node: Arc::new(node) })
    }
}

impl PartialEq for Fresh {
    fn eq(&self, other: &Fresh) -> bool {
        Arc::ptr_eq(&self.runs, &other.runs)
            && self.is_first_term == other.is_first_term
            && self.input == other.input
            && self.keys == other.keys
    }
}
impl Eq for Fresh {}
impl Hash for Fresh {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.keys.hash(state);
    }
}
impl PartialOrd for Fresh {
    fn partial_cmp(&self, other: &Fresh) -> Option<Ordering> {
        self.keys.partial_cmp(&other.keys)
    }
}

impl UserDefinedLogicalNodeCore for Fresh {
    fn name(&self) -> &'static str {
        "Fresh"
    }
    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }
    fn schema(&self) -> &DFSchemaRef {
        self.input.schema()
    }
    fn expressions(&self) -> Vec<Expr> {
        self.keys.clone()
    }
    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("Fresh")
    }
    fn with_exprs_and_inputs(&self, keys: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Fresh> {
        let input = inputs.pop().ok_or_else(|| DataFusionError::Internal("Fresh has an input".into()))?;
        Ok(Fresh { input, keys, ..self.clone() })
    }
}

#[derive(Clone, Debug)]
pub(crate) struct FreshRows {
    input: Arc<dyn ExecutionPlan>,
    keys: Vec<Arc<dyn PhysicalExpr>>,
    runs: Arc<Runs>,
    is_first_term: bool,
}

impl FreshRows {
    pub(crate) fn new(
        of: &Fresh,
        keys: Vec<Arc<dyn PhysicalExpr>>,
        input: Arc<dyn ExecutionPlan>,
    ) -> FreshRows {
        FreshRows { input, keys, runs: Arc::clone(&of.runs), is_first_term: of.is_first_term }
    }
}

/// The rows of `batch` whose keys were not seen, each once.
fn fresh(
    batch: &RecordBatch,
    keys: &[Arc<dyn PhysicalExpr>],
    converter: &RowConverter,
    seen: &mut Seen,
) -> Result<RecordBatch> {
    let keys = keys.iter().map(|key| key.evaluate(batch)?.into_array(batch.num_rows()));
    let keys = keys.collect::<Result<Vec<ArrayRef>>>()?;
    let rows = converter.convert_columns(&keys)?;
    let mut is_fresh = Vec::with_capacity(batch.num_rows());
    for row in &rows {
        let is_new = !seen.keys.contains(row.as_ref());
        if is_new {
            seen.memory.try_grow(row.as_ref().len() + SEEN_LEN)?;
            seen.keys.insert(row.as_ref().into());
        }
        is_fresh.push(is_new);
    }
    Ok(filter_record_batch(batch, &BooleanArray::from(is_fresh))?)
}

impl Operator for FreshRows {
    const NAME: &'static str = "FreshRowsExec";

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }
    fn inputs(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }
    fn over(&self, mut inputs: Vec<Arc<dyn ExecutionPlan>>) -> FreshRows {
        FreshRows { input: inputs.remove(0), ..self.clone() }
    }
    fn exprs(&self) -> &[Arc<dyn PhysicalExpr>] {
        &self.keys
    }
    fn start(&self, context: Arc<TaskContext>) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        if self.is_first_term {
            let memory = MemoryConsumer::new(FreshRows::NAME).register(context.memory_pool());
            let seen = Seen { keys: FxHashSet::default(), memory };
            *lock(&self.runs.0) = Some(Arc::new(Mutex::new(seen)));
        }
        let seen = lock(&self.runs.0).clone();
        let seen = seen.ok_or_else(|| DataFusionError::Internal("a step before the first term".into()))?;
        let schema = self.input.schema();
        let fields = self.keys.iter().map(|key| Ok(SortField::new(key.data_type(&schema)?)));
        let converter = RowConverter::new(fields.collect::<Result<Vec<_>>>()?)?;
        let keys = self.keys.clone();
        let rows = self.input.execute(0, context)?;
        Ok(rows.map(move |batch| fresh(&batch?, &keys, &converter, &mut lock(&seen))).boxed())
    }
}
