//! What plan nodes of ours have in common before DataFusion: each yields one stream, made of its inputs' streams.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, OrderingRequirements, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, Partitioning, PlanProperties,
};
use futures::stream::BoxStream;

/// A node of a physical plan.
pub(crate) trait Operator: Clone + fmt::Debug + Send + Sync + 'static {
    const NAME: &'static str;

    fn properties(&self) -> &Arc<PlanProperties>;
    fn schema(&self) -> SchemaRef {
        Arc::clone(self.properties().eq_properties.schema())
    }
    fn inputs(&self) -> Vec<&Arc<dyn ExecutionPlan>>;
    /// The same over other inputs, as many as before.
    fn over(&self, inputs: Vec<Arc<dyn ExecutionPlan>>) -> Self;
    fn exprs(&self) -> &[Arc<dyn PhysicalExpr>] {
        &[]
    }
    /// Whether rows come in the order of the input's.
    fn keeps_order(&self) -> bool {
        false
    }
    /// What EXPLAIN shows behind its name.
    fn label(&self) -> &str {
        ""
    }
    /// The order that its first input's rows must come in.
    fn required_order(&self) -> Option<OrderingRequirements> {
        None
    }
    /// Starts it: batches of the schema of its properties.
    fn start(&self, context: Arc<TaskContext>) -> Result<BoxStream<'static, Result<RecordBatch>>>;
}

/// An operator as DataFusion takes it.
#[derive(Clone, Debug)]
pub(crate) struct Node<O>(pub(crate) O);

impl<O: Operator> Node<O> {
    pub(crate) fn plan(operator: O) -> Arc<dyn ExecutionPlan> {
        Arc::new(Node(operator))
    }
}

impl<O: Operator> DisplayAs for Node<O> {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(O::NAME)?;
        match self.0.label() {
            "" => Ok(()),
            label => write!(f, ": {label}"),
        }
    }
}

impl<O: Operator> ExecutionPlan for Node<O> {
    fn name(&self) -> &'static str {
        O::NAME
    }
    fn properties(&self) -> &Arc<PlanProperties> {
        self.0.properties()
    }
    fn required_input_distribution(&self) -> Vec<Distribution> {
        vec![Distribution::SinglePartition; self.0.inputs().len()]
    }
    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        let mut orders = vec![None; self.0.inputs().len()];
        if let Some(first) = orders.first_mut() {
            *first = self.0.required_order();
        }
        orders
    }
    fn maintains_input_order(&self) -> Vec<bool> {
        vec![self.0.keeps_order(); self.0.inputs().len()]
    }
    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.0.inputs()
    }
    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        for expr in self.0.exprs() {
            if f(expr)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }
    fn with_new_children(
        self: Arc<Self>,
        inputs: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if inputs.len() != self.0.inputs().len() {
            return Err(DataFusionError::Internal(format!("{} over other inputs", O::NAME)));
        }
        Ok(Node::plan(self.0.over(inputs)))
    }
    fn execute(&self, _: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let batches = self.0.start(context)?;
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches)))
    }
}

/// Properties of an operator that yields one stream of its schema.
pub(crate) fn one_stream(schema: SchemaRef) -> Arc<PlanProperties> {
    Arc::new(PlanProperties::new(
        EquivalenceProperties::new(schema),
        Partitioning::UnknownPartitioning(1),
        EmissionType::Incremental,
        Boundedness::Bounded,
    ))
}
