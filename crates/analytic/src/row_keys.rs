//! Where DataFusion counts on keys that rows have not.
//!
//! What is grouped by `k` has each `k` once, and behind a join, which may repeat its rows, `k` still tells the columns beside it. Of rows of that join that are grouped by `k` and something
//! of the other side (`GROUP BY g.k, c.x`) DataFusion takes `k` alone for a key: then ORDER BY k, x sorts by `k`, GROUP BY k, x groups by it, DISTINCT k is left out, and a join is
//! taken to find one row for each `k`. So where rows are grouped whose keys a join may have repeated, nothing is known of keys in all of the plan.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{DFSchemaRef, Dependency, FunctionalDependencies};
use datafusion::error::Result;
use datafusion::logical_expr::{Distinct, LogicalPlan};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

/// The rules that look for keys.
pub(crate) const LOOK_FOR_KEYS: [&str; 4] =
    ["replace_distinct_aggregate", "eliminate_join", "eliminate_duplicated_expr", "optimize_projections"];

/// Comes before each of these, since others tell of keys anew.
#[derive(Debug)]
pub(crate) struct NoKeys;

impl OptimizerRule for NoKeys {
    fn name(&self) -> &'static str {
        "no_keys"
    }
    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let mut misleads = false;
        plan.apply_with_subqueries(|node| {
            misleads |= groups_repeated_keys(node);
            Ok(if misleads { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        if !misleads {
            return Ok(Transformed::no(plan));
        }
        plan.transform_up_with_subqueries(|mut node| {
            let schema = match &mut node {
                LogicalPlan::Projection(node) => &mut node.schema,
                LogicalPlan::Aggregate(node) => &mut node.schema,
                LogicalPlan::Window(node) => &mut node.schema,
                LogicalPlan::Join(node) => &mut node.schema,
                LogicalPlan::SubqueryAlias(node) => &mut node.schema,
                // Those of others are their inputs', or have none.
                _ => return Ok(Transformed::no(node)),
            };
            if schema.functional_dependencies().is_empty() {
                return Ok(Transformed::no(node));
            }
            *schema = without_keys(schema)?;
            Ok(Transformed::yes(node))
        })
    }
}

/// Whether the node groups rows of which some columns tell others, but no longer the row.
fn groups_repeated_keys(node: &LogicalPlan) -> bool {
    let input = match node {
        LogicalPlan::Aggregate(node) => &node.input,
        LogicalPlan::Distinct(Distinct::All(input)) => input,
        _ => return false,
    };
    input.schema().functional_dependencies().iter().any(|known| known.mode == Dependency::Multi)
}

/// The same schema, in which nothing is known of keys.
pub(crate) fn without_keys(schema: &DFSchemaRef) -> Result<DFSchemaRef> {
    let schema = schema.as_ref().clone();
    schema.with_functional_dependencies(FunctionalDependencies::empty()).map(Arc::new)
}
