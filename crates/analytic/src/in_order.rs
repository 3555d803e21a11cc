//! The order of a subquery's rows, kept for what stands around it.
//!
//! SQL promises no order to a query around a sorted one, and DataFusion takes out sorts that nobody asks for. PostgreSQL hands the rows on as they were
//! sorted, and programs gather them so: `ARRAY(SELECT … ORDER BY …)`, `array_agg` over a sorted subquery. So a node above each sort of a subquery asks
//! for its order until the physical plan is made, and goes then.

#[expect(clippy::disallowed_types, reason = "what DataFusion's trait answers with")]
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use base::SqlResult;
use datafusion::arrow::array::RecordBatch;
use datafusion::common::DFSchemaRef;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::expr::Sort;
use datafusion::logical_expr::{
    Expr, Extension, LogicalPlan, LogicalPlanBuilder, UserDefinedLogicalNodeCore,
};
use datafusion::physical_expr::{LexOrdering, OrderingRequirements};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::{ExecutionPlan, PlanProperties};
use futures::stream::BoxStream;

use crate::error::Planned;
use crate::operator::{Node, Operator, one_stream};

/// The rows of `plan`, sorted for whoever reads them.
pub(crate) fn sorted(plan: LogicalPlan, by: Vec<Sort>) -> SqlResult<LogicalPlan> {
    let input = LogicalPlanBuilder::from(plan).sort(by).and_then(LogicalPlanBuilder::build).planned()?;
    Ok(LogicalPlan::Extension(Extension { node: Arc::new(InOrder { input }) }))
}

/// The same plan where its last sort needs no keeping: nothing stands around it but a limit, or nothing at all.
pub(crate) fn outermost(plan: LogicalPlan) -> LogicalPlan {
    match plan {
        LogicalPlan::Projection(mut projection) => {
            projection.input = Arc::new(outermost(Arc::unwrap_or_clone(projection.input)));
            LogicalPlan::Projection(projection)
        }
        LogicalPlan::Extension(Extension { node }) => match node.as_any().downcast_ref::<InOrder>() {
            Some(kept) => kept.input.clone(),
            None => LogicalPlan::Extension(Extension { node }),
        },
        other => other,
    }
}

/// The rows of `plan`, on whose order nobody may count. DataFusion ends a group once the value of an ordered key has passed, also where it goes through the rows for several
/// grouping sets, one after the other.
pub(crate) fn unordered(plan: LogicalPlan) -> LogicalPlan {
    LogicalPlan::Extension(Extension { node: Arc::new(Unordered { input: plan }) })
}

/// The logical node, above a sort.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Hash)]
pub(crate) struct InOrder {
    input: LogicalPlan,
}

impl UserDefinedLogicalNodeCore for InOrder {
    fn name(&self) -> &'static str {
        "InOrder"
    }
    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }
    fn schema(&self) -> &DFSchemaRef {
        self.input.schema()
    }
    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }
    fn prevent_predicate_push_down_columns(&self) -> HashSet<String> {
        HashSet::new()
    }
    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("InOrder")
    }
    fn with_exprs_and_inputs(&self, _: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<InOrder> {
        let input = inputs.pop().ok_or_else(|| DataFusionError::Internal("InOrder has an input".into()))?;
        Ok(InOrder { input })
    }
    fn necessary_children_exprs(&self, output: &[usize]) -> Option<Vec<Vec<usize>>> {
        Some(vec![output.to_vec()])
    }
    fn supports_limit_pushdown(&self) -> bool {
        true
    }
}

impl InOrder {
    /// The physical node above `input`, whose order is the one to keep.
    pub(crate) fn over(input: &Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        match input.properties().output_ordering() {
            Some(order) => Node::plan(InOrderRows { input: Arc::clone(input), order: order.clone() }),
            None => Arc::clone(input),
        }
    }
}

#[derive(Clone, Debug)]
struct InOrderRows {
    input: Arc<dyn ExecutionPlan>,
    order: LexOrdering,
}

impl Operator for InOrderRows {
    const NAME: &'static str = "InOrderExec";

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }
    fn inputs(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }
    fn over(&self, mut inputs: Vec<Arc<dyn ExecutionPlan>>) -> InOrderRows {
        InOrderRows { input: inputs.remove(0), order: self.order.clone() }
    }
    fn keeps_order(&self) -> bool {
        true
    }
    fn required_order(&self) -> Option<OrderingRequirements> {
        Some(self.order.clone().into())
    }
    fn start(&self, context: Arc<TaskContext>) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        Ok(Box::pin(self.input.execute(0, context)?))
    }
}

/// Takes the nodes out. After all rules that may take a sort away.
#[derive(Debug)]
pub(crate) struct OrdersKept;

impl PhysicalOptimizerRule for OrdersKept {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            let any: &dyn std::any::Any = node.as_ref();
            match any.downcast_ref::<Node<InOrderRows>>() {
                Some(kept) => Ok(Transformed::yes(Arc::clone(&kept.0.input))),
                None => Ok(Transformed::no(node)),
            }
        })
        .data()
    }
    fn name(&self) -> &'static str {
        "orders_kept"
    }
    fn schema_check(&self) -> bool {
        true
    }
}

/// The logical node of [`unordered`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Hash)]
pub(crate) struct Unordered {
    input: LogicalPlan,
}

impl UserDefinedLogicalNodeCore for Unordered {
    fn name(&self) -> &'static str {
        "Unordered"
    }
    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }
    fn schema(&self) -> &DFSchemaRef {
        self.input.schema()
    }
    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }
    fn prevent_predicate_push_down_columns(&self) -> HashSet<String> {
        HashSet::new()
    }
    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("Unordered")
    }
    fn with_exprs_and_inputs(&self, _: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Unordered> {
        let input = inputs.pop().ok_or_else(|| DataFusionError::Internal("Unordered has an input".into()))?;
        Ok(Unordered { input })
    }
    fn necessary_children_exprs(&self, output: &[usize]) -> Option<Vec<Vec<usize>>> {
        Some(vec![output.to_vec()])
    }
}

impl Unordered {
    pub(crate) fn over(input: &Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        Node::plan(UnorderedRows { input: Arc::clone(input), properties: one_stream(input.schema()) })
    }
}

#[derive(Clone, Debug)]
struct UnorderedRows {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl Operator for UnorderedRows {
    const NAME: &'static str = "UnorderedExec";

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }
    fn inputs(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }
    fn over(&self, mut inputs: Vec<Arc<dyn ExecutionPlan>>) -> UnorderedRows {
        UnorderedRows { input: inputs.remove(0), ..self.clone() }
    }
    fn start(&self, context: Arc<TaskContext>) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        Ok(Box::pin(self.input.execute(0, context)?))
    }
}
