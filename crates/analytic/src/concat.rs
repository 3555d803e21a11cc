//! UNION ALL as one stream: DataFusion's union has a partition for each input and spawns a task for each, which would run on
//! the query's only thread out of order and hide its work in tasks.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{ExecutionPlan, PlanProperties};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt, stream};

use crate::operator::{Node, Operator, one_stream};

/// Replaces unions by [`Concat`].
#[derive(Debug)]
pub(crate) struct ConcatUnions;

impl PhysicalOptimizerRule for ConcatUnions {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            let any: &dyn std::any::Any = node.as_ref();
            if !any.is::<UnionExec>() {
                return Ok(Transformed::no(node));
            }
            let inputs = node.children().into_iter().cloned().collect();
            let properties = one_stream(node.schema());
            Ok(Transformed::yes(Node::plan(Concat { inputs, properties })))
        })
        .data()
    }
    fn name(&self) -> &'static str {
        "concat_unions"
    }
    fn schema_check(&self) -> bool {
        true
    }
}

#[derive(Clone, Debug)]
struct Concat {
    inputs: Vec<Arc<dyn ExecutionPlan>>,
    properties: Arc<PlanProperties>,
}

impl Operator for Concat {
    const NAME: &'static str = "ConcatExec";

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }
    fn inputs(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.inputs.iter().collect()
    }
    fn over(&self, inputs: Vec<Arc<dyn ExecutionPlan>>) -> Concat {
        Concat { inputs, properties: Arc::clone(&self.properties) }
    }
    fn start(&self, context: Arc<TaskContext>) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        let schema = self.schema();
        let inputs = stream::iter(self.inputs.clone()).then(move |input| {
            let context = Arc::clone(&context);
            async move { input.execute(0, context) }
        });
        // Inputs may differ in the nullability of their fields.
        let batches = inputs.try_flatten().map(move |batch| Ok(batch?.with_schema(Arc::clone(&schema))?));
        Ok(batches.boxed())
    }
}
