//! Joins without equal keys whose left input does not fit the working memory.
//!
//! DataFusion's operator then puts that input aside and goes through it in parts, with all of its right input for each. Which right rows have partners it knows when all parts are
//! through, and forgets it where the last part is empty. It also runs the left input once more, whose operators have the state of the run before. So a join that gives right
//! rows without partners has its inputs the other way round ([`KeptLeft`]): a part of the left one knows its own. And an input is made anew when it is run again
//! ([`MadeAnew`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::arrow::array::RecordBatch;
use datafusion::common::JoinType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::joins::NestedLoopJoinExec;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
};
use futures::StreamExt;
use futures::stream::BoxStream;

use crate::operator::{Node, Operator};

fn nested_loops(node: &dyn ExecutionPlan) -> Option<&NestedLoopJoinExec> {
    let any: &dyn std::any::Any = node;
    any.downcast_ref::<NestedLoopJoinExec>()
}

/// Has joins keep rows of their left input only. Behind the rule that chooses which input that is, and before those that see to the order of rows.
#[derive(Debug)]
pub(crate) struct KeptLeft;

impl PhysicalOptimizerRule for KeptLeft {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        use JoinType::{Right, RightAnti, RightMark, RightSemi};
        plan.transform_up(|node| match nested_loops(node.as_ref()) {
            Some(join) if matches!(join.join_type(), Right | RightSemi | RightAnti | RightMark) => {
                Ok(Transformed::yes(join.swap_inputs()?))
            }
            _ => Ok(Transformed::no(node)),
        })
        .data()
    }
    fn name(&self) -> &'static str {
        "kept_left"
    }
    fn schema_check(&self) -> bool {
        true
    }
}

/// Makes left inputs anew for their second run. After all rules that look for DataFusion's operators.
#[derive(Debug)]
pub(crate) struct MadeAnew;

impl PhysicalOptimizerRule for MadeAnew {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            let Some(join) = nested_loops(node.as_ref()) else { return Ok(Transformed::no(node)) };
            let left = Node::plan(Anew { input: Arc::clone(join.left()), has_run: Arc::default() });
            let inputs = vec![left, Arc::clone(join.right())];
            let keep = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
            Ok(Transformed::yes(node.replace_children(inputs, keep)?))
        })
        .data()
    }
    fn name(&self) -> &'static str {
        "made_anew"
    }
    fn schema_check(&self) -> bool {
        true
    }
}

/// The rows of its input, in each run all of them.
#[derive(Clone, Debug)]
struct Anew {
    input: Arc<dyn ExecutionPlan>,
    has_run: Arc<AtomicBool>,
}

impl Operator for Anew {
    const NAME: &'static str = "AnewExec";

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }
    fn inputs(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }
    fn over(&self, mut inputs: Vec<Arc<dyn ExecutionPlan>>) -> Anew {
        Anew { input: inputs.remove(0), has_run: Arc::default() }
    }
    fn keeps_order(&self) -> bool {
        true
    }
    fn start(&self, context: Arc<TaskContext>) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        let input = Arc::clone(&self.input);
        let input =
            if self.has_run.swap(true, Ordering::Relaxed) { reset_plan_states(input)? } else { input };
        Ok(input.execute(0, context)?.boxed())
    }
}
