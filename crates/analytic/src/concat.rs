//! UNION ALL as one stream: DataFusion's union has a partition for each input and spawns a task for each, which would run on
//! the query's only thread out of order and hide its work in tasks.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, PlanProperties};
use futures::{StreamExt, TryStreamExt, stream};

use crate::apply::one_stream;

/// Replaces unions by [`ConcatExec`].
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
            Ok(Transformed::yes(Arc::new(ConcatExec { inputs, properties }) as Arc<dyn ExecutionPlan>))
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

#[derive(Debug)]
struct ConcatExec {
    inputs: Vec<Arc<dyn ExecutionPlan>>,
    properties: Arc<PlanProperties>,
}

impl DisplayAs for ConcatExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("ConcatExec")
    }
}

impl ExecutionPlan for ConcatExec {
    fn name(&self) -> &'static str {
        "ConcatExec"
    }
    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }
    fn required_input_distribution(&self) -> Vec<Distribution> {
        vec![Distribution::SinglePartition; self.inputs.len()]
    }
    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.inputs.iter().collect()
    }
    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }
    fn with_new_children(
        self: Arc<Self>,
        inputs: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(ConcatExec { inputs, properties: Arc::clone(&self.properties) }))
    }
    fn execute(&self, _: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let schema: SchemaRef = self.schema();
        let with_schema = Arc::clone(&schema);
        let inputs = stream::iter(self.inputs.clone()).then(move |input| {
            let context = Arc::clone(&context);
            async move { input.execute(0, context) }
        });
        // Inputs may differ in the nullability of their fields.
        let batches =
            inputs.try_flatten().map(move |batch| Ok(batch?.with_schema(Arc::clone(&with_schema))?));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }
}
