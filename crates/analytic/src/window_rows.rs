//! What window functions hold, in their tenant's working memory, and how many rows they see at once.
//!
//! DataFusion has two operators for them, neither of which counts what it keeps. Where a function must see all of a partition, its own keeps all partitions: so
//! [`WindowRows`] takes its place, which keeps one at a time. Where it need not ([`BoundedWindowAggExec`]), the rows are counted that went in ([`Entering`]) until they
//! come out ([`Leaving`]) and no frame sees them any more ([`LookBack`]). The values that the functions of a few rows give are counted as they are made
//! ([`crate::shared::Shared::count_given`]): of an aggregate that gathers, each may be as long as all rows.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use datafusion::arrow::array::{Array, ArrayRef, RecordBatch};
use datafusion::arrow::compute::concat_batches;
use datafusion::common::ScalarValue;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::utils::{evaluate_partition_ranges, get_row_at_idx};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalSortExpr;
use datafusion::physical_expr::window::WindowExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{
    ChildrenPropertiesMode, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
};
use futures::stream::BoxStream;
use futures::{StreamExt, stream};

use crate::error::external;
use crate::look_back::{LookBack, Seen};
use crate::operator::{Node, Operator};
use crate::shared::Shared;

/// Has window functions keep to their tenant's working memory. After all rules that look for DataFusion's operators.
#[derive(Debug)]
pub(crate) struct WindowMemory(pub(crate) Arc<Shared>);

impl PhysicalOptimizerRule for WindowMemory {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            let any: &dyn std::any::Any = node.as_ref();
            if let Some(window) = any.downcast_ref::<WindowAggExec>() {
                return Ok(Transformed::yes(Node::plan(WindowRows {
                    input: Arc::clone(window.input()),
                    functions: window.window_expr().to_vec(),
                    partition_by: window.partition_by_sort_keys()?,
                    properties: Arc::clone(window.properties()),
                    shared: Arc::clone(&self.0),
                })));
            }
            let Some(window) = any.downcast_ref::<BoundedWindowAggExec>() else {
                return Ok(Transformed::no(node));
            };
            let look_back = LookBack::of(window.window_expr(), self.0.rows_looked_back());
            let input = Arc::clone(node.children()[0]);
            let below = Side { input, run: Arc::default(), look_back, shared: Arc::clone(&self.0) };
            let above = below.clone();
            let keep = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
            let window = node.replace_children(vec![Node::plan(Entering(below))], keep)?;
            Ok(Transformed::yes(Node::plan(Leaving(Side { input: window, ..above }))))
        })
        .data()
    }
    fn name(&self) -> &'static str {
        "window_memory"
    }
    fn schema_check(&self) -> bool {
        true
    }
}

/// Bytes of a batch's own rows.
fn len(columns: &[ArrayRef]) -> Result<usize> {
    let lens = columns.iter().map(|column| column.to_data().get_slice_memory_size());
    Ok(lens.sum::<std::result::Result<usize, _>>()?)
}

/// Window functions over one partition after the other, whose rows come together.
#[derive(Clone)]
struct WindowRows {
    input: Arc<dyn ExecutionPlan>,
    functions: Vec<Arc<dyn WindowExpr>>,
    partition_by: Vec<PhysicalSortExpr>,
    properties: Arc<PlanProperties>,
    shared: Arc<Shared>,
}

impl fmt::Debug for WindowRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WindowRows")
    }
}

/// A run of [`WindowRows`].
struct Partitions {
    of: WindowRows,
    /// `None` once it has ended.
    input: Option<SendableRecordBatchStream>,
    batch_rows: usize,
    /// The partition whose rows are coming, by the values that its rows have in common, and what they take and will take joined.
    key: Vec<ScalarValue>,
    rows: Vec<RecordBatch>,
    rows_memory: MemoryReservation,
    /// Partitions that are to be given out, with the functions' values.
    done: VecDeque<RecordBatch>,
    done_memory: MemoryReservation,
}

impl Partitions {
    /// Takes rows in, and computes the functions over the partitions that they show to be whole.
    fn take(&mut self, batch: &RecordBatch) -> Result<()> {
        let keys = self.of.partition_by.iter().map(|key| key.evaluate_to_sort_column(batch));
        let keys = keys.collect::<Result<Vec<_>>>()?;
        let ranges = evaluate_partition_ranges(batch.num_rows(), &keys)?;
        let keys: Vec<ArrayRef> = keys.into_iter().map(|key| key.values).collect();
        for range in ranges {
            let key = get_row_at_idx(&keys, range.start)?;
            if key != self.key {
                self.compute()?;
                self.key = key;
            }
            let rows = batch.slice(range.start, range.len());
            self.rows_memory.try_grow(2 * len(rows.columns())?)?;
            self.rows.push(rows);
        }
        Ok(())
    }

    /// The functions over the partition whose rows are all there.
    fn compute(&mut self) -> Result<()> {
        let rows = match &self.rows[..] {
            [] => return Ok(()),
            [one] => one.clone(),
            many => concat_batches(&self.of.input.schema(), many)?,
        };
        self.rows.clear();
        self.of.shared.check_cancelled().map_err(external)?;
        let mut columns = rows.columns().to_vec();
        for function in &self.of.functions {
            // Its values, before they are an array.
            let given = self.rows_memory.new_empty();
            given.try_grow(rows.num_rows() * size_of::<ScalarValue>())?;
            columns.push(self.of.shared.counting_given(Some(given), || function.evaluate(&rows))?);
        }
        self.done_memory.try_grow(len(&columns)?)?;
        self.rows_memory.free();
        self.done.push_back(RecordBatch::try_new(self.of.schema(), columns)?);
        Ok(())
    }

    /// The next rows to be given out, small partitions together; `None` if there are none.
    fn give(&mut self) -> Result<Option<RecordBatch>> {
        let Some(first) = self.done.front_mut() else { return Ok(None) };
        if first.num_rows() > self.batch_rows {
            let rows = first.slice(0, self.batch_rows);
            *first = first.slice(self.batch_rows, first.num_rows() - self.batch_rows);
            return Ok(Some(rows));
        }
        let mut rows = 0;
        let together = self.done.iter().take_while(|part| {
            rows += part.num_rows();
            rows <= self.batch_rows
        });
        let together = together.count();
        let parts: Vec<RecordBatch> = self.done.drain(..together).collect();
        let given =
            if let [one] = &parts[..] { one.clone() } else { concat_batches(&self.of.schema(), &parts)? };
        if self.done.is_empty() {
            self.done_memory.free();
        }
        Ok(Some(given))
    }

    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(rows) = self.give()? {
                return Ok(Some(rows));
            }
            let Some(input) = &mut self.input else { return Ok(None) };
            match input.next().await {
                Some(batch) => self.take(&batch?)?,
                None => {
                    self.input = None;
                    self.compute()?;
                }
            }
        }
    }
}

impl Operator for WindowRows {
    const NAME: &'static str = "WindowExec";

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }
    fn inputs(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }
    fn over(&self, mut inputs: Vec<Arc<dyn ExecutionPlan>>) -> WindowRows {
        WindowRows { input: inputs.remove(0), ..self.clone() }
    }
    fn keeps_order(&self) -> bool {
        true
    }
    fn start(&self, context: Arc<TaskContext>) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        let memory = MemoryConsumer::new(WindowRows::NAME).register(context.memory_pool());
        let partitions = Partitions {
            of: self.clone(),
            batch_rows: context.session_config().batch_size(),
            key: Vec::new(),
            rows: Vec::new(),
            rows_memory: memory.new_empty(),
            done: VecDeque::new(),
            done_memory: memory,
            input: Some(self.input.execute(0, context)?),
        };
        let batches = stream::try_unfold(partitions, |mut partitions| async move {
            let rows = partitions.next().await?;
            Ok(rows.map(|rows| (rows, partitions)))
        });
        Ok(batches.boxed())
    }
}

/// Rows within an operator, and their bytes.
struct Held {
    memory: MemoryReservation,
    rows: usize,
    /// Of those, how many came out, and which of these frames still see.
    came_out: usize,
    seen: Seen,
}

impl Held {
    fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        self.rows += batch.num_rows();
        // Once as they came, and once by partition.
        self.memory.try_grow(2 * len(batch.columns())?)
    }

    fn take(&mut self, batch: &RecordBatch) -> Result<()> {
        self.came_out += batch.num_rows();
        let gone = self.came_out.saturating_sub(self.seen.behind(batch)?);
        let left = self.rows.saturating_sub(gone);
        let bytes = self.memory.size();
        self.memory.shrink(bytes - bytes / self.rows.max(1) * left);
        (self.rows, self.came_out) = (left, self.came_out - gone);
        Ok(())
    }
}

/// What both sides of a run know.
type Run = Arc<Mutex<Held>>;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A side of an operator: below it what goes in is counted, and above it what comes out no more.
#[derive(Clone)]
struct Side {
    input: Arc<dyn ExecutionPlan>,
    /// From the side above, which begins a run, to the one below, which is begun within that.
    run: Arc<Mutex<Option<Run>>>,
    look_back: LookBack,
    shared: Arc<Shared>,
}

#[derive(Clone)]
struct Entering(Side);

#[derive(Clone)]
struct Leaving(Side);

impl fmt::Debug for Entering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Entering::NAME)
    }
}
impl fmt::Debug for Leaving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Leaving::NAME)
    }
}

impl Operator for Entering {
    const NAME: &'static str = "WindowInput";

    fn properties(&self) -> &Arc<PlanProperties> {
        self.0.input.properties()
    }
    fn inputs(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.0.input]
    }
    fn over(&self, mut inputs: Vec<Arc<dyn ExecutionPlan>>) -> Entering {
        Entering(Side { input: inputs.remove(0), ..self.0.clone() })
    }
    fn keeps_order(&self) -> bool {
        true
    }
    fn start(&self, context: Arc<TaskContext>) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        let Side { input, run, shared, .. } = self.clone().0;
        let run = lock(&run).take();
        let run =
            run.ok_or_else(|| DataFusionError::Internal("a window's input without its output".into()))?;
        let mut input = input.execute(0, context)?;
        let batches = stream::poll_fn(move |cx| {
            let next = shared.counting_given(None, || input.poll_next_unpin(cx));
            next.map_ok_some(|batch| lock(&run).add(&batch).map(|()| batch))
        });
        Ok(batches.boxed())
    }
}

impl Operator for Leaving {
    const NAME: &'static str = "WindowOutput";

    fn properties(&self) -> &Arc<PlanProperties> {
        self.0.input.properties()
    }
    fn inputs(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.0.input]
    }
    fn over(&self, mut inputs: Vec<Arc<dyn ExecutionPlan>>) -> Leaving {
        Leaving(Side { input: inputs.remove(0), ..self.0.clone() })
    }
    fn keeps_order(&self) -> bool {
        true
    }
    fn start(&self, context: Arc<TaskContext>) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        let Side { input, run: to_below, look_back, shared } = self.clone().0;
        let memory = MemoryConsumer::new(Leaving::NAME).register(context.memory_pool());
        let given = memory.new_empty();
        let seen = Seen::new(look_back);
        let run = Arc::new(Mutex::new(Held { memory, rows: 0, came_out: 0, seen }));
        *lock(&to_below) = Some(Arc::clone(&run));
        let mut input = input.execute(0, context)?;
        let batches = stream::poll_fn(move |cx| {
            let next = shared.counting_given(Some(given.new_empty()), || input.poll_next_unpin(cx));
            next.map_ok_some(|batch| lock(&run).take(&batch).map(|()| batch))
        });
        Ok(batches.boxed())
    }
}

/// What a stream yields next, where that is a batch.
trait NextBatch {
    fn map_ok_some(self, f: impl FnOnce(RecordBatch) -> Result<RecordBatch>) -> Self;
}

impl NextBatch for Poll<Option<Result<RecordBatch>>> {
    fn map_ok_some(self, f: impl FnOnce(RecordBatch) -> Result<RecordBatch>) -> Self {
        self.map(|next| next.map(|batch| batch.and_then(f)))
    }
}
