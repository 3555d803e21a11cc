//! Ending a query that nobody waits for any more.
//!
//! A query's flag is set from outside, once. Scans and the run itself look at it; joins, which make many rows of few and
//! may keep them all to themselves, get a look at it in front of each of their inputs.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base::{SqlError, SqlResult, SqlState};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::StreamExt;

use crate::error::external;

/// # Errors
/// 57014 once the flag is set.
pub(crate) fn check_cancelled(cancelled: &AtomicBool) -> SqlResult<()> {
    if cancelled.load(Ordering::Relaxed) {
        return Err(SqlError::new(SqlState::QUERY_CANCELED, "canceling statement due to user request"));
    }
    Ok(())
}

/// Puts a [`CancelPoint`] in front of every input of an operator with several. To come last.
#[derive(Debug)]
pub(crate) struct CancelPoints(pub(crate) Arc<AtomicBool>);

impl PhysicalOptimizerRule for CancelPoints {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            if node.children().len() < 2 {
                return Ok(Transformed::no(node));
            }
            let watched = |input: &Arc<dyn ExecutionPlan>| {
                let cancelled = Arc::clone(&self.0);
                Arc::new(CancelPoint { input: Arc::clone(input), cancelled }) as Arc<dyn ExecutionPlan>
            };
            let inputs = node.children().into_iter().map(watched).collect();
            Ok(Transformed::yes(node.with_new_children(inputs)?))
        })
        .data()
    }
    fn name(&self) -> &'static str {
        "cancel_points"
    }
    fn schema_check(&self) -> bool {
        true
    }
}

/// Passes batches on until the query is cancelled.
#[derive(Debug)]
struct CancelPoint {
    input: Arc<dyn ExecutionPlan>,
    cancelled: Arc<AtomicBool>,
}

impl DisplayAs for CancelPoint {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("CancelPoint")
    }
}

impl ExecutionPlan for CancelPoint {
    fn name(&self) -> &'static str {
        "CancelPoint"
    }
    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }
    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }
    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }
    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }
    fn with_new_children(
        self: Arc<Self>,
        mut inputs: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let input = inputs.pop().expect("it has one input");
        Ok(Arc::new(CancelPoint { input, cancelled: Arc::clone(&self.cancelled) }))
    }
    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let batches = self.input.execute(partition, context)?;
        let cancelled = Arc::clone(&self.cancelled);
        let watched = batches.map(move |batch| {
            check_cancelled(&cancelled).map_err(external)?;
            batch
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), watched)))
    }
}
