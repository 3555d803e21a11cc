//! Ending a query that nobody waits for any more.
//!
//! A query's flag is set from outside, once. Scans and the run itself look at it; joins, which make many rows of few and
//! may keep them all to themselves, get a look at it in front of each of their inputs, and each time that they ask their condition of some of these rows.

use std::any::Any;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use base::{SqlError, SqlResult, SqlState};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{ColumnarValue, LogicalPlan};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{
    HashJoinExec, NestedLoopJoinExec, NestedLoopJoinExecBuilder, SortMergeJoinExec,
};
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

/// Looks at the flag between two steps of planning, which takes long for a large query.
#[derive(Debug)]
pub(crate) struct Look(pub(crate) QueryControl);

impl OptimizerRule for Look {
    fn name(&self) -> &'static str {
        "look"
    }
    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        check_cancelled(&self.0).map_err(external)?;
        Ok(Transformed::no(plan))
    }
}

impl PhysicalOptimizerRule for Look {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        check_cancelled(&self.0).map_err(external)?;
        Ok(plan)
    }
    fn name(&self) -> &'static str {
        "look"
    }
    fn schema_check(&self) -> bool {
        true
    }
}

/// Puts a [`CancelPoint`] in front of every input of an operator with several, and has joins' conditions [`Watched`]. To come last.
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
            with_watched_condition(node.replace_children(inputs, anew)?, &self.0).map(Transformed::yes)
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

/// The same plan; if it is a join, its condition is watched.
fn with_watched_condition(
    plan: Arc<dyn ExecutionPlan>,
    control: &QueryControl,
) -> Result<Arc<dyn ExecutionPlan>> {
    let watched = |filter: &JoinFilter| {
        let condition =
            Arc::new(Watched { condition: Arc::clone(filter.expression()), control: control.clone() });
        JoinFilter::new(condition, filter.column_indices().to_vec(), Arc::clone(filter.schema()))
    };
    let any: &dyn Any = plan.as_ref();
    if let Some(join) = any.downcast_ref::<NestedLoopJoinExec>()
        && let Some(filter) = join.filter()
    {
        let join = NestedLoopJoinExecBuilder::from(join).with_filter(Some(watched(filter))).build()?;
        return Ok(Arc::new(join));
    }
    if let Some(join) = any.downcast_ref::<HashJoinExec>()
        && let Some(filter) = join.filter()
    {
        return join.builder().with_filter(Some(watched(filter))).build_exec();
    }
    if let Some(join) = any.downcast_ref::<SortMergeJoinExec>()
        && let Some(filter) = join.filter()
    {
        let (left, right) = (Arc::clone(join.left()), Arc::clone(join.right()));
        let (on, sorts) = (join.on().to_vec(), join.sort_options().to_vec());
        let (ty, nulls) = (join.join_type(), join.null_equality());
        let join = SortMergeJoinExec::try_new(left, right, on, Some(watched(filter)), ty, sorts, nulls)?;
        return Ok(Arc::new(join));
    }
    Ok(plan)
}

/// A condition that is asked of pairs of rows until the query is cancelled: where few of very many fulfil it, a join yields no batch for long.
#[derive(Debug)]
struct Watched {
    condition: Arc<dyn PhysicalExpr>,
    control: QueryControl,
}

impl PartialEq for Watched {
    fn eq(&self, other: &Watched) -> bool {
        self.condition.eq(&other.condition)
    }
}
impl Eq for Watched {}
impl Hash for Watched {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.condition.hash(state);
    }
}
impl fmt::Display for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.condition.fmt(f)
    }
}

impl PhysicalExpr for Watched {
    fn data_type(&self, schema: &Schema) -> Result<DataType> {
        self.condition.data_type(schema)
    }
    fn nullable(&self, schema: &Schema) -> Result<bool> {
        self.condition.nullable(schema)
    }
    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        check_cancelled(&self.control).map_err(external)?;
        self.condition.evaluate(batch)
    }
    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.condition]
    }
    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(Arc::new(Watched { condition: children.remove(0), control: self.control.clone() }))
    }
    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.condition.fmt_sql(f)
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

#[cfg(test)]
mod tests {
    use datafusion::logical_expr::LogicalPlanBuilder;
    use datafusion::optimizer::{Optimizer, OptimizerContext};
    use datafusion::physical_plan::expressions::lit;

    use super::*;

    #[test]
    fn a_watched_condition_is_asked_until_the_query_is_cancelled() {
        let control = QueryControl::default();
        let watched = Watched { condition: lit(true), control: control.clone() };
        let batch = RecordBatch::new_empty(Arc::new(Schema::empty()));
        assert!(watched.evaluate(&batch).is_ok());
        control.cancel();
        let error = watched.evaluate(&batch).map(|_| ()).expect_err("it is cancelled");
        assert_eq!(crate::error::sql_error(error).state(), SqlState::QUERY_CANCELED);
    }

    #[test]
    fn planning_ends_between_two_steps() {
        let control = QueryControl::default();
        let plan = || LogicalPlanBuilder::empty(true).build().unwrap();
        let optimizer = Optimizer::with_rules(vec![Arc::new(Look(control.clone()))]);
        let plan = |rules: &Optimizer| rules.optimize(plan(), &OptimizerContext::new(), |_, _| {});
        assert!(plan(&optimizer).is_ok());
        control.cancel();
        let error = plan(&optimizer).expect_err("it is cancelled");
        assert_eq!(crate::error::sql_error(error).state(), SqlState::QUERY_CANCELED);
    }
}
