//! Where DataFusion counts on an order of rows that there is not, or sorts where that changes what the rows are.

use std::sync::Arc;

use datafusion::common::JoinType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::output_requirements::OutputRequirementExec;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::limit::GlobalLimitExec;

use crate::in_order::Order;

/// Corrects both. Before the rules that see to orders.
///
/// A join's rows are said to be sorted as those of the input that is gone through, and among equal ones as those that were gathered: but two rows of the first may be equal in that, and
/// each has its own partners. So what is gathered has no order there. And a sort that somebody asks for is made below an OFFSET, which then passes over other rows, and its LIMIT over too
/// many: so what stands above asks for the order that there is, or for none.
///
/// And what is known of the values of an outer join's input, as that `c` is 'B' behind `LEFT JOIN r ON … AND r.c = 'B'`, DataFusion takes for known of the join's rows, where NULLs stand
/// beside it, and sorts by no such column: so nothing is known of that input there.
///
/// And what is the same in all rows of the input that is gone through, as `c.kind` behind `WHERE c.kind = 'x'`, DataFusion does not know of the join's rows. But a sort by it, for a window above, it makes
/// below the join, where there is nothing left to sort by, and then misses the order: so it is known there neither.
#[derive(Debug)]
pub(crate) struct RowOrders;

impl PhysicalOptimizerRule for RowOrders {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let is_asked = is_order_asked(&plan)?;
        plan.transform_up(|node| {
            let any: &dyn std::any::Any = node.as_ref();
            if any.is::<SortMergeJoinExec>() {
                return Ok(Transformed::yes(Order::Hidden.over(&node)));
            }
            if any.downcast_ref::<GlobalLimitExec>().is_some_and(|limit| limit.skip() > 0) {
                let is_sorted = node.properties().output_ordering().is_some();
                let order = if is_sorted { Order::Kept } else { Order::Hidden };
                return Ok(Transformed::yes(order.over(&node)));
            }
            let hash = any.downcast_ref::<HashJoinExec>();
            let loops = any.downcast_ref::<NestedLoopJoinExec>();
            let (left, right, kind) = match (hash, loops) {
                (Some(join), _) => (join.left(), join.right(), *join.join_type()),
                (_, Some(join)) => (join.left(), join.right(), *join.join_type()),
                _ => return Ok(Transformed::no(node)),
            };
            let left_is_hidden = (hash.is_some() && may_be_sorted(left)?)
                || (matches!(kind, JoinType::Right | JoinType::Full) && is_told_values(left));
            let right_is_hidden = match kind {
                JoinType::Left | JoinType::Full => is_told_values(right),
                JoinType::Inner | JoinType::Right => is_asked && hash.is_some() && has_constants(right),
                _ => false,
            };
            if !left_is_hidden && !right_is_hidden {
                return Ok(Transformed::no(node));
            }
            let input = |plan: &Arc<dyn ExecutionPlan>, is_hidden: bool| match is_hidden {
                true => Order::Hidden.over(plan),
                false => Arc::clone(plan),
            };
            let inputs = vec![input(left, left_is_hidden), input(right, right_is_hidden)];
            Ok(Transformed::yes(replace_children_if_necessary(node, inputs)?))
        })
        .data()
    }
    fn name(&self) -> &'static str {
        "row_orders"
    }
    fn schema_check(&self) -> bool {
        true
    }
}

/// Whether something in the plan must have its rows in an order, but for whoever reads all of it.
fn is_order_asked(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    plan.exists(|node| {
        let any: &dyn std::any::Any = node.as_ref();
        let asks = node.required_input_ordering().iter().any(Option::is_some);
        Ok(asks && !any.is::<OutputRequirementExec>())
    })
}

/// Whether something in the plan has an order, or will have asked for one.
fn may_be_sorted(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    plan.exists(|node| {
        let asks = node.required_input_ordering().iter().any(Option::is_some);
        Ok(asks || node.properties().output_ordering().is_some())
    })
}

/// Whether some columns are known to be the same in all rows, or equal to each other.
fn is_told_values(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.properties().equivalence_properties().eq_group().iter().next().is_some()
}

/// Whether some columns are known to be the same in all rows.
fn has_constants(plan: &Arc<dyn ExecutionPlan>) -> bool {
    !plan.properties().equivalence_properties().constants().is_empty()
}
