//! Ending a query that nobody waits for any more.
//!
//! A query's flag is set from outside, once. Scans and the run itself look at it; joins, which make many rows of few and
//! may keep them all to themselves, get a look at it in front of each of their inputs.

use std::sync::Arc;

use base::{SqlError, SqlResult, SqlState};
use datafusion::arrow::array::RecordBatch;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
};
use futures::StreamExt;
use futures::stream::BoxStream;
use sql::session::QueryControl;

use crate::error::external;
use crate::operator::{Node, Operator};

/// Stands still while the query is held.
///
/// # Errors
/// 57014 once it is cancelled.
pub(crate) fn check_cancelled(control: &QueryControl) -> SqlResult<()> {
    control.wait_while_held();
    if control.is_cancelled() {
        return Err(SqlError::new(SqlState::QUERY_CANCELED, "canceling statement due to user request"));
    }
    Ok(())
}

/// Puts a [`CancelPoint`] in front of every input of an operator with several. To come last.
#[derive(Debug)]
pub(crate) struct CancelPoints(pub(crate) QueryControl);

impl PhysicalOptimizerRule for CancelPoints {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            if node.children().len() < 2 {
                return Ok(Transformed::no(node));
            }
            let watched = |input: &Arc<dyn ExecutionPlan>| {
                let control = self.0.clone();
                Node::plan(CancelPoint { input: Arc::clone(input), control })
            };
            let inputs = node.children().into_iter().map(watched).collect();
            let anew = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
            Ok(Transformed::yes(node.replace_children(inputs, anew)?))
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
#[derive(Clone, Debug)]
struct CancelPoint {
    input: Arc<dyn ExecutionPlan>,
    control: QueryControl,
}

impl Operator for CancelPoint {
    const NAME: &'static str = "CancelPoint";

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }
    fn inputs(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }
    fn over(&self, mut inputs: Vec<Arc<dyn ExecutionPlan>>) -> CancelPoint {
        CancelPoint { input: inputs.remove(0), control: self.control.clone() }
    }
    fn keeps_order(&self) -> bool {
        true
    }
    fn start(&self, context: Arc<TaskContext>) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        let batches = self.input.execute(0, context)?;
        let control = self.control.clone();
        let watched = batches.map(move |batch| {
            check_cancelled(&control).map_err(external)?;
            batch
        });
        Ok(watched.boxed())
    }
}
