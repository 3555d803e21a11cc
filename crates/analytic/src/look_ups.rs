//! Joins of a few rows with a large table, whose rows an index finds.
//!
//! A hash join reads all of both its inputs. Where one of them is a table with an index on the join's key, and its rows are wanted beside others only, the other input is begun with: are its
//! rows few, and few of the table's have their values, the table is asked for these alone. How many they are shows when the query runs: a step of a recursive query has those of the step before.

use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use datafusion::arrow::array::{Array, RecordBatch};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{JoinType, NullEquality, ScalarValue};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, PlanProperties};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt, stream};
use rustc_hash::FxHashSet;
use types::Datum;

use crate::error::external;
use crate::operator::{Node, Operator};
use crate::shared::BATCH_BYTES;
use crate::table::{Sought, seeking};

/// Rows of the other input that are looked at, at most, for the values that they have.
const ROWS_MAX: usize = 65_536;

/// Has joins look rows up. After all rules that look for DataFusion's operators below a join.
#[derive(Debug)]
pub(crate) struct LookUps;

impl PhysicalOptimizerRule for LookUps {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| match look_up(&node)? {
            Some(plan) => Ok(Transformed::yes(plan)),
            None => Ok(Transformed::no(node)),
        })
        .data()
    }
    fn name(&self) -> &'static str {
        "look_ups"
    }
    fn schema_check(&self) -> bool {
        true
    }
}

/// The join that `node` is, looking up the rows of the larger table of those that it may.
fn look_up(node: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    use JoinType as J;
    let any: &dyn Any = node.as_ref();
    let Some(join) = any.downcast_ref::<HashJoinExec>() else { return Ok(None) };
    // To these, rows of the table count that have no partner.
    if join.null_aware || join.null_equality() != NullEquality::NullEqualsNothing {
        return Ok(None);
    }
    let kind = *join.join_type();
    let left_may =
        matches!(kind, J::Inner | J::Right | J::LeftSemi | J::RightSemi | J::RightAnti | J::RightMark);
    let right_may =
        matches!(kind, J::Inner | J::Left | J::LeftSemi | J::RightSemi | J::LeftAnti | J::LeftMark);
    let mut best: Option<(bool, Arc<dyn ExecutionPlan>, Sought, Arc<dyn PhysicalExpr>)> = None;
    for (left, right) in join.on() {
        let sides =
            [(left_may, true, join.left(), left, right), (right_may, false, join.right(), right, left)];
        for (may, is_left, table, key, other) in sides {
            let key: &dyn Any = key.as_ref();
            let Some(column) = key.downcast_ref::<Column>().filter(|_| may) else { continue };
            let Some((table, sought)) = seeking_below(table, column.name())? else { continue };
            if best.as_ref().is_none_or(|(_, _, known, _)| known.rows() < sought.rows()) {
                best = Some((is_left, table, sought, Arc::clone(other)));
            }
        }
    }
    let Some((is_left, table, sought, key)) = best else { return Ok(None) };
    let few = Arc::clone(if is_left { join.right() } else { join.left() });
    let first = Slot::default();
    let again = Node::plan(Again { rows: Arc::clone(&first), properties: Arc::clone(few.properties()) });
    let inputs = if is_left { vec![table, again] } else { vec![again, table] };
    let join = replace_children_if_necessary(Arc::clone(node), inputs)?;
    let properties = Arc::clone(node.properties());
    Ok(Some(Node::plan(LookUpJoin { few, join, key: [key], sought, first, properties })))
}

/// `plan` over a scan that may be asked for values of the column of that name, which the plan hands on.
fn seeking_below(
    plan: &Arc<dyn ExecutionPlan>,
    column: &str,
) -> Result<Option<(Arc<dyn ExecutionPlan>, Sought)>> {
    if let Some(found) = seeking(plan, column) {
        return Ok(Some(found));
    }
    let any: &dyn Any = plan.as_ref();
    let hands_on = any.is::<FilterExec>() || any.is::<ProjectionExec>() || any.is::<CooperativeExec>();
    let children = plan.children();
    let ([input], true, None) = (&children[..], hands_on, plan.fetch()) else { return Ok(None) };
    let Some((input, sought)) = seeking_below(input, column)? else { return Ok(None) };
    let plan = replace_children_if_necessary(Arc::clone(plan), vec![input])?;
    Ok(Some((plan, sought)))
}

/// The rows that a join has been begun with, from who looked at them to the join.
type Slot = Arc<Mutex<Option<SendableRecordBatchStream>>>;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A join with a table that is told which values it is asked for.
#[derive(Clone)]
struct LookUpJoin {
    few: Arc<dyn ExecutionPlan>,
    /// Reads the rows of `few` once more, by way of `first`.
    join: Arc<dyn ExecutionPlan>,
    /// What the table's column is equal to, over `few`.
    key: [Arc<dyn PhysicalExpr>; 1],
    sought: Sought,
    first: Slot,
    properties: Arc<PlanProperties>,
}

impl std::fmt::Debug for LookUpJoin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(LookUpJoin::NAME)
    }
}

/// Values of the few rows, each once.
#[derive(Default)]
struct Values {
    seen: FxHashSet<ScalarValue>,
    all: Vec<Datum>,
}

impl LookUpJoin {
    /// Takes the first of the few rows. If they are all, and are few, the table is told their values. The join has them first.
    async fn begin(&self, mut rows: SendableRecordBatchStream) -> Result<()> {
        let (mut batches, mut values) = (Vec::new(), Some(Values::default()));
        let (mut rows_seen, mut bytes) = (0, 0);
        while let Some(known) = &mut values {
            let Some(batch) = rows.next().await.transpose()? else { break };
            rows_seen += batch.num_rows();
            bytes += batch.get_array_memory_size();
            let goes_on = self.take_values(&batch, known)?;
            batches.push(batch);
            if !goes_on || rows_seen > ROWS_MAX || bytes > BATCH_BYTES {
                values = None;
            }
        }
        let values = match values {
            Some(values) if self.sought.finds_few(&values.all).map_err(external)? => Some(values.all),
            _ => None,
        };
        self.sought.set(values);
        let rows = stream::iter(batches.into_iter().map(Ok)).chain(rows);
        *lock(&self.first) = Some(Box::pin(RecordBatchStreamAdapter::new(self.few.schema(), rows)));
        Ok(())
    }

    /// Adds the values of a batch; false where they are too many, or no index has them.
    fn take_values(&self, batch: &RecordBatch, known: &mut Values) -> Result<bool> {
        let keys = self.key[0].evaluate(batch)?.into_array(batch.num_rows())?;
        for row in 0..keys.len() {
            if keys.is_null(row) {
                continue;
            }
            let value = ScalarValue::try_from_array(&keys, row)?;
            if known.seen.contains(&value) {
                continue;
            }
            let Some(datum) = self.sought.value(&value) else { return Ok(false) };
            if known.all.len() == self.sought.values_max() {
                return Ok(false);
            }
            known.seen.insert(value);
            known.all.push(datum);
        }
        Ok(true)
    }
}

impl Operator for LookUpJoin {
    const NAME: &'static str = "LookUpJoinExec";

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }
    fn inputs(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.few, &self.join]
    }
    fn over(&self, mut inputs: Vec<Arc<dyn ExecutionPlan>>) -> LookUpJoin {
        let join = inputs.remove(1);
        LookUpJoin { few: inputs.remove(0), join, ..self.clone() }
    }
    fn exprs(&self) -> &[Arc<dyn PhysicalExpr>] {
        &self.key
    }
    fn start(&self, context: Arc<TaskContext>) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        let few = self.few.execute(0, Arc::clone(&context))?;
        let this = self.clone();
        let joined = async move {
            this.begin(few).await?;
            // Takes what was begun with, and the values, before anybody else runs.
            this.join.execute(0, context)
        };
        Ok(stream::once(joined).try_flatten().boxed())
    }
}

/// The few rows, as the join reads them.
#[derive(Clone)]
struct Again {
    rows: Slot,
    properties: Arc<PlanProperties>,
}

impl std::fmt::Debug for Again {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(Again::NAME)
    }
}

impl Operator for Again {
    const NAME: &'static str = "AgainExec";

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }
    fn inputs(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }
    fn over(&self, _: Vec<Arc<dyn ExecutionPlan>>) -> Again {
        self.clone()
    }
    fn start(&self, _: Arc<TaskContext>) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        let rows = lock(&self.rows).take();
        let rows = rows.ok_or_else(|| DataFusionError::Internal("a join without its first rows".into()))?;
        Ok(rows.boxed())
    }
}
