//! What is computed of the rows that a filter leaves is computed of no others.
//!
//! DataFusion moves a projection below a filter where it has fewer columns than it reads, and those of the filter among them: `SELECT b, (a + c) / b … WHERE b <> 0` divided by zero.
//! So while projections move, and one of them calls a function, a node that none of them passes stands above each filter.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::ScalarFunctionExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::{ExecutionPlan, PlanProperties};
use futures::StreamExt;
use futures::stream::BoxStream;

use crate::operator::{Node, Operator};

type Rule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

/// A rule of DataFusion's as it is used here.
pub(crate) fn filters_first(rule: Rule) -> Rule {
    if rule.name() == "ProjectionPushdown" { Arc::new(FiltersFirst(rule)) } else { rule }
}

#[derive(Debug)]
struct FiltersFirst(Rule);

impl PhysicalOptimizerRule for FiltersFirst {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if !plan.exists(calls_functions)? {
            return self.0.optimize(plan, config);
        }
        let held = plan.transform_up(|node| {
            let any: &dyn std::any::Any = node.as_ref();
            if any.is::<FilterExec>() {
                return Ok(Transformed::yes(Node::plan(Filtered { input: node })));
            }
            Ok(Transformed::no(node))
        });
        let moved = self.0.optimize(held.data()?, config)?;
        let free = moved.transform_up(|node| {
            let any: &dyn std::any::Any = node.as_ref();
            match any.downcast_ref::<Node<Filtered>>() {
                Some(Node(filtered)) => Ok(Transformed::yes(Arc::clone(&filtered.input))),
                None => Ok(Transformed::no(node)),
            }
        });
        free.data()
    }
    fn name(&self) -> &str {
        self.0.name()
    }
    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}

/// Whether a node is a projection that does more than to choose columns.
fn calls_functions(node: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    let any: &dyn std::any::Any = node.as_ref();
    let Some(projection) = any.downcast_ref::<ProjectionExec>() else { return Ok(false) };
    for column in projection.expr() {
        if column.expr.exists(|expr| Ok(expr.downcast_ref::<ScalarFunctionExpr>().is_some()))? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The rows of a filter.
#[derive(Clone, Debug)]
struct Filtered {
    input: Arc<dyn ExecutionPlan>,
}

impl Operator for Filtered {
    const NAME: &'static str = "FilteredExec";

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }
    fn inputs(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }
    fn over(&self, mut inputs: Vec<Arc<dyn ExecutionPlan>>) -> Filtered {
        Filtered { input: inputs.remove(0) }
    }
    fn keeps_order(&self) -> bool {
        true
    }
    fn start(&self, context: Arc<TaskContext>) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        Ok(self.input.execute(0, context)?.boxed())
    }
}
