//! A filter that stays where it is written.
//!
//! DataFusion evaluates a condition as far down as its columns are known: one without columns at the very bottom. Elsewhere a volatile
//! condition, as `random() < 0.5`, is asked other rows; and below an aggregation without groups one that is false for
//! all rows, as one on columns of an enclosing row may be, leaves the row that there is for no rows.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::filter_record_batch;
use datafusion::common::DFSchemaRef;
use datafusion::common::cast::as_boolean_array;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, UserDefinedLogicalNodeCore};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::{ExecutionPlan, PlanProperties};
use futures::stream::BoxStream;
use futures::{StreamExt, future};

use crate::operator::Operator;

/// The logical node. What columns a filter above it looks at does not let it pass.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Hash)]
pub(crate) struct FixedFilter {
    input: LogicalPlan,
    pub(crate) condition: Expr,
}

impl FixedFilter {
    /// The rows of `input` for which `condition` is true.
    pub(crate) fn plan(condition: Expr, input: LogicalPlan) -> LogicalPlan {
        LogicalPlan::Extension(Extension { node: Arc::new(FixedFilter { input, condition }) })
    }
}

impl UserDefinedLogicalNodeCore for FixedFilter {
    fn name(&self) -> &'static str {
        "FixedFilter"
    }
    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }
    fn schema(&self) -> &DFSchemaRef {
        self.input.schema()
    }
    fn expressions(&self) -> Vec<Expr> {
        vec![self.condition.clone()]
    }
    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "FixedFilter: {}", self.condition)
    }
    fn with_exprs_and_inputs(
        &self,
        mut exprs: Vec<Expr>,
        mut inputs: Vec<LogicalPlan>,
    ) -> Result<FixedFilter> {
        match (exprs.pop(), inputs.pop()) {
            (Some(condition), Some(input)) => Ok(FixedFilter { input, condition }),
            _ => Err(DataFusionError::Internal("FixedFilter has a condition and an input".into())),
        }
    }
    fn necessary_children_exprs(&self, output: &[usize]) -> Option<Vec<Vec<usize>>> {
        Some(vec![output.to_vec()])
    }
}

#[derive(Clone, Debug)]
pub(crate) struct FixedFilterRows {
    input: Arc<dyn ExecutionPlan>,
    condition: [Arc<dyn PhysicalExpr>; 1],
}

impl FixedFilterRows {
    pub(crate) fn new(condition: Arc<dyn PhysicalExpr>, input: Arc<dyn ExecutionPlan>) -> FixedFilterRows {
        FixedFilterRows { input, condition: [condition] }
    }
}

impl Operator for FixedFilterRows {
    const NAME: &'static str = "FixedFilterExec";

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }
    fn inputs(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }
    fn over(&self, mut inputs: Vec<Arc<dyn ExecutionPlan>>) -> FixedFilterRows {
        FixedFilterRows { input: inputs.remove(0), condition: self.condition.clone() }
    }
    fn exprs(&self) -> &[Arc<dyn PhysicalExpr>] {
        &self.condition
    }
    fn keeps_order(&self) -> bool {
        true
    }
    fn start(&self, context: Arc<TaskContext>) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        let [condition] = self.condition.clone();
        let rows = self.input.execute(0, context)?.map(move |batch| {
            let batch = batch?;
            let holds = condition.evaluate(&batch)?.into_array(batch.num_rows())?;
            Ok(filter_record_batch(&batch, as_boolean_array(&holds)?)?)
        });
        let some = |batch: &Result<RecordBatch>| batch.as_ref().map_or(true, |batch| batch.num_rows() > 0);
        Ok(rows.filter(move |batch| future::ready(some(batch))).boxed())
    }
}
