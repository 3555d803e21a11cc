//! Common tables whose rows are made once, for all who read them.
//!
//! A table of WITH that is read once is a part of the plan around it. One that is read more often, is MATERIALIZED or calls a volatile function has a plan
//! of its own: its first reader starts it, and each takes the rows that are there and asks for the next ones where they end. The rows are held until the
//! query ends, in the tenant's working memory, and where that refuses in its temporary files. One query runs on one thread, so a buffer has one reader
//! at a time.

use std::any::Any;
use std::cmp::Ordering;
use std::fmt;
use std::future::{Future, poll_fn};
use std::hash::{Hash, Hasher};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, ready};

use datafusion::arrow::array::RecordBatch;
use datafusion::common::{DFSchemaRef, ScalarValue};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, SpillFile, TaskContext};
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, UserDefinedLogicalNodeCore};
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, SpillMetrics};
use datafusion::physical_plan::spill::{SpillManager, get_record_batch_memory_size};
use datafusion::physical_plan::{ExecutionPlan, PlanProperties};
use futures::stream::BoxStream;
use futures::{StreamExt, stream};
use tokio::task::unconstrained;

use crate::apply::Cell;
use crate::operator::{Node, Operator, one_stream};
use crate::row_keys::without_keys;

/// A common table with the rows that it has given so far.
pub(crate) struct CommonRows {
    pub(crate) name: String,
    pub(crate) plan: LogicalPlan,
    /// That of the plan, which the optimizer of who reads the rows does not look into.
    schema: DFSchemaRef,
    /// The outer columns that its rows depend on.
    cells: Vec<Arc<Cell>>,
    number: usize,
    physical: OnceLock<Arc<dyn ExecutionPlan>>,
    /// The rows for the present values of the cells.
    buffer: Mutex<Option<(Vec<ScalarValue>, SharedBuffer)>>,
}

type SharedBuffer = Arc<Mutex<Buffer>>;

impl fmt::Debug for CommonRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CommonRows({})", self.name)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl CommonRows {
    pub(crate) fn new(
        name: String,
        plan: LogicalPlan,
        cells: Vec<Arc<Cell>>,
        number: usize,
    ) -> Result<CommonRows> {
        let schema = without_keys(plan.schema())?;
        let (physical, buffer) = (OnceLock::new(), Mutex::default());
        Ok(CommonRows { name, plan, schema, cells, number, physical, buffer })
    }

    /// A plan that reads the rows.
    pub(crate) fn reader(rows: &Arc<CommonRows>) -> LogicalPlan {
        LogicalPlan::Extension(Extension { node: Arc::new(CommonScan(Arc::clone(rows))) })
    }

    /// Says how the rows are made. Before anything that reads them is planned.
    pub(crate) fn set_physical(&self, plan: Arc<dyn ExecutionPlan>) {
        assert!(self.physical.set(plan).is_ok(), "a common table is planned once");
    }

    /// The rows for the cells' present values, begun if they are not there.
    fn open(&self, plan: &Arc<dyn ExecutionPlan>, context: &Arc<TaskContext>) -> Result<SharedBuffer> {
        let key: Vec<ScalarValue> = self.cells.iter().map(|cell| cell.get()).collect();
        let mut known = lock(&self.buffer);
        if let Some((of, buffer)) = &*known
            && *of == key
        {
            return Ok(Arc::clone(buffer));
        }
        let plan = reset_plan_states(Arc::clone(plan))?;
        let consumer = MemoryConsumer::new(CommonRead::NAME).with_can_spill(true);
        let metrics = SpillMetrics::new(&ExecutionPlanMetricsSet::new(), 0);
        let buffer = Arc::new(Mutex::new(Buffer {
            spill: SpillManager::new(context.runtime_env(), metrics, plan.schema()),
            can_spill: context.runtime_env().disk_manager.tmp_files_enabled(),
            source: Some(plan.execute(0, Arc::clone(context))?),
            memory: consumer.register(context.memory_pool()),
            files: Vec::new(),
            filed: 0,
            held: Vec::new(),
        }));
        *known = Some((key, Arc::clone(&buffer)));
        Ok(buffer)
    }
}

/// The logical node. It has no input: what it reads has a plan of its own.
#[derive(Clone, Debug)]
pub(crate) struct CommonScan(Arc<CommonRows>);

impl PartialEq for CommonScan {
    fn eq(&self, other: &CommonScan) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
impl Eq for CommonScan {}
impl Hash for CommonScan {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.number.hash(state);
    }
}
impl PartialOrd for CommonScan {
    fn partial_cmp(&self, other: &CommonScan) -> Option<Ordering> {
        self.0.number.partial_cmp(&other.0.number)
    }
}

impl UserDefinedLogicalNodeCore for CommonScan {
    fn name(&self) -> &'static str {
        "CommonScan"
    }
    fn inputs(&self) -> Vec<&LogicalPlan> {
        Vec::new()
    }
    fn schema(&self) -> &DFSchemaRef {
        &self.0.schema
    }
    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }
    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "CommonScan: {}", self.0.name)
    }
    fn with_exprs_and_inputs(&self, _: Vec<Expr>, _: Vec<LogicalPlan>) -> Result<CommonScan> {
        Ok(self.clone())
    }
}

/// The common table that a node reads, if it reads one.
pub(crate) fn read_by(plan: &LogicalPlan) -> Option<&CommonRows> {
    let LogicalPlan::Extension(Extension { node }) = plan else { return None };
    node.as_any().downcast_ref::<CommonScan>().map(|scan| &*scan.0)
}

impl CommonScan {
    /// # Errors
    /// Internal if the rows' own plan is not there.
    pub(crate) fn physical(&self) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(plan) = self.0.physical.get() else {
            return Err(DataFusionError::Internal(format!("{} is read before it is planned", self.0.name)));
        };
        let properties = one_stream(Arc::clone(self.0.plan.schema().inner()));
        Ok(Node::plan(CommonRead { rows: Arc::clone(&self.0), plan: Arc::clone(plan), properties }))
    }
}

/// The common tables that `plan` reads, with their plans, and those that they read.
pub(crate) fn all_read_by(plan: &Arc<dyn ExecutionPlan>) -> Vec<(String, Arc<dyn ExecutionPlan>)> {
    let mut found: Vec<(String, Arc<dyn ExecutionPlan>)> = Vec::new();
    let mut waiting = vec![Arc::clone(plan)];
    while let Some(node) = waiting.pop() {
        waiting.extend(node.children().into_iter().cloned());
        let any: &dyn Any = node.as_ref();
        let Some(Node(read)) = any.downcast_ref::<Node<CommonRead>>() else { continue };
        if !found.iter().any(|(_, known)| Arc::ptr_eq(known, &read.plan)) {
            waiting.push(Arc::clone(&read.plan));
            found.push((read.rows.name.clone(), Arc::clone(&read.plan)));
        }
    }
    found
}

#[derive(Clone, Debug)]
struct CommonRead {
    rows: Arc<CommonRows>,
    plan: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl Operator for CommonRead {
    const NAME: &'static str = "CommonTableExec";

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }
    fn inputs(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }
    fn over(&self, _: Vec<Arc<dyn ExecutionPlan>>) -> CommonRead {
        self.clone()
    }
    fn label(&self) -> &str {
        &self.rows.name
    }
    fn start(&self, context: Arc<TaskContext>) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        let mut reader = Reader { buffer: self.rows.open(&self.plan, &context)?, next: 0, file: None };
        Ok(stream::poll_fn(move |cx| reader.poll(cx)).boxed())
    }
}

/// The batches of a common table, counted from 0: the first ones in files, then those in memory, then those to come.
struct Buffer {
    source: Option<SendableRecordBatchStream>,
    memory: MemoryReservation,
    spill: SpillManager,
    can_spill: bool,
    /// Each with the number of the batch behind its last.
    files: Vec<(usize, Arc<dyn SpillFile>)>,
    /// How many batches are in files.
    filed: usize,
    held: Vec<RecordBatch>,
}

impl Buffer {
    fn keep(&mut self, batch: RecordBatch) -> Result<()> {
        let refused = self.memory.try_grow(get_record_batch_memory_size(&batch)).err();
        self.held.push(batch);
        let Some(refused) = refused else { return Ok(()) };
        if !self.can_spill {
            return Err(refused);
        }
        if let Some(file) = self.spill.spill_record_batch_and_finish(&self.held, CommonRead::NAME)? {
            self.filed += self.held.len();
            self.files.push((self.filed, file));
        }
        self.held.clear();
        self.memory.free();
        Ok(())
    }
}

/// One who reads the rows.
struct Reader {
    buffer: SharedBuffer,
    /// The number of the next batch.
    next: usize,
    /// The file that it reads, from the next batch on.
    file: Option<BoxStream<'static, Result<RecordBatch>>>,
}

impl Reader {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        loop {
            if let Some(file) = &mut self.file {
                if let Some(batch) = ready!(file.poll_next_unpin(cx)) {
                    self.next += 1;
                    return Poll::Ready(Some(batch));
                }
                self.file = None;
            }
            let buffer = &mut *lock(&self.buffer);
            if let Some(batch) = self.next.checked_sub(buffer.filed).and_then(|at| buffer.held.get(at)) {
                self.next += 1;
                return Poll::Ready(Some(Ok(batch.clone())));
            }
            if self.next < buffer.filed {
                let at = buffer.files.partition_point(|(end, _)| *end <= self.next);
                let first = at.checked_sub(1).map_or(0, |before| buffer.files[before].0);
                let file = Arc::clone(&buffer.files[at].1);
                match buffer.spill.read_spill_as_stream_unbuffered(file, None) {
                    Ok(batches) => self.file = Some(batches.skip(self.next - first).boxed()),
                    Err(error) => return Poll::Ready(Some(Err(error))),
                }
                continue;
            }
            let Some(source) = &mut buffer.source else { return Poll::Ready(None) };
            // Each operator on the way takes of the budget that its task has before it gives way, and a chain of common tables would never get to its first:
            // what gives way is this reader's own operator. Scans, and joins, look whether the query was cancelled.
            let next = pin!(unconstrained(poll_fn(|cx| source.poll_next_unpin(cx))));
            match ready!(next.poll(cx)) {
                None => buffer.source = None,
                Some(Ok(batch)) if batch.num_rows() == 0 => {}
                Some(Ok(batch)) => {
                    if let Err(error) = buffer.keep(batch) {
                        return Poll::Ready(Some(Err(error)));
                    }
                }
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
            }
        }
    }
}
