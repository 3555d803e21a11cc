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
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ExecutionPlan, PlanProperties};
use futures::stream::BoxStream;

use crate::error::Planned;
use crate::operator::{Node, Operator, one_stream};

/// Whether whoever reads rows may count on their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Hash)]
pub(crate) enum Order {
    /// It stays as it is.
    Kept,
    /// It is nobody's.
    Hidden,
}

/// The rows of `plan`, sorted for whoever reads them.
pub(crate) fn sorted(plan: LogicalPlan, by: Vec<Sort>) -> SqlResult<LogicalPlan> {
    let input = LogicalPlanBuilder::from(plan).sort(by).and_then(LogicalPlanBuilder::build).planned()?;
    Ok(InOrder { input, order: Order::Kept }.into())
}

/// The same plan where its last sort needs no keeping: nothing stands around it but a limit, or nothing at all.
pub(crate) fn outermost(plan: LogicalPlan) -> LogicalPlan {
    match plan {
        LogicalPlan::Projection(mut projection) => {
            projection.input = Arc::new(outermost(Arc::unwrap_or_clone(projection.input)));
            LogicalPlan::Projection(projection)
        }
        LogicalPlan::Extension(Extension { node }) => match node.as_any().downcast_ref::<InOrder>() {
            Some(InOrder { input, order: Order::Kept }) => input.clone(),
            _ => LogicalPlan::Extension(Extension { node }),
        },
        other => other,
    }
}

/// The rows of `plan`, on whose order nobody may count. DataFusion ends a group once the value of an ordered key has passed, also where it goes through the rows for several
/// grouping sets, one after the other.
pub(crate) fn unordered(plan: LogicalPlan) -> LogicalPlan {
    InOrder { input: plan, order: Order::Hidden }.into()
}

/// The logical node, above a sort where the order is kept.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Hash)]
pub(crate) struct InOrder {
    input: LogicalPlan,
    pub(crate) order: Order,
}

impl From<InOrder> for LogicalPlan {
    fn from(node: InOrder) -> LogicalPlan {
        LogicalPlan::Extension(Extension { node: Arc::new(node) })
    }
}

impl UserDefinedLogicalNodeCore for InOrder {
    fn name(&self) -> &'static str {
        match self.order {
            Order::Kept => "InOrder",
            Order::Hidden => "Unordered",
        }
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
        f.write_str(self.name())
    }
    fn with_exprs_and_inputs(&self, _: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<InOrder> {
        let input = inputs.pop().ok_or_else(|| DataFusionError::Internal("InOrder has an input".into()))?;
        Ok(InOrder { input, order: self.order })
    }
    fn necessary_children_exprs(&self, output: &[usize]) -> Option<Vec<Vec<usize>>> {
        Some(vec![output.to_vec()])
    }
    fn supports_limit_pushdown(&self) -> bool {
        self.order == Order::Kept
    }
}

impl Order {
    /// The physical node above `input`. An order to keep is the one that `input` has, if it has any: of a sort all that it sorts by, also what is thought to be the same in all rows.
    pub(crate) fn over(self, input: &Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        let any: &dyn std::any::Any = input.as_ref();
        let sort = any.downcast_ref::<SortExec>().map(SortExec::expr);
        let (order, properties) = match self {
            Order::Kept => match sort.or(input.properties().output_ordering()) {
                None => return Arc::clone(input),
                order => (order.cloned(), Arc::clone(input.properties())),
            },
            Order::Hidden => (None, one_stream(input.schema())),
        };
        Node::plan(InOrderRows { input: Arc::clone(input), order, properties })
    }
}

#[derive(Clone, Debug)]
struct InOrderRows {
    input: Arc<dyn ExecutionPlan>,
    /// The one that is kept; `None` where none is.
    order: Option<LexOrdering>,
    properties: Arc<PlanProperties>,
}

impl Operator for InOrderRows {
    const NAME: &'static str = "InOrderExec";

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }
    fn inputs(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }
    fn over(&self, mut inputs: Vec<Arc<dyn ExecutionPlan>>) -> InOrderRows {
        let input = inputs.remove(0);
        let kept = self.order.as_ref().map(|_| Arc::clone(input.properties()));
        let properties = kept.unwrap_or_else(|| Arc::clone(&self.properties));
        InOrderRows { input, order: self.order.clone(), properties }
    }
    fn label(&self) -> &'static str {
        if self.order.is_some() { "" } else { "none" }
    }
    fn keeps_order(&self) -> bool {
        self.order.is_some()
    }
    fn required_order(&self) -> Option<OrderingRequirements> {
        self.order.clone().map(OrderingRequirements::from)
    }
    fn start(&self, context: Arc<TaskContext>) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        Ok(Box::pin(self.input.execute(0, context)?))
    }
}

/// Takes the nodes out that keep an order. After all rules that may take a sort away.
#[derive(Debug)]
pub(crate) struct OrdersKept;

impl PhysicalOptimizerRule for OrdersKept {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            let any: &dyn std::any::Any = node.as_ref();
            match any.downcast_ref::<Node<InOrderRows>>() {
                Some(Node(rows)) if rows.order.is_some() => Ok(Transformed::yes(Arc::clone(&rows.input))),
                _ => Ok(Transformed::no(node)),
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
