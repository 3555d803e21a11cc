//! A plan that spills where DataFusion's own would fail: its hash join holds one input in memory, and its top-k sort all rows it may have to give. A sort-merge join's
//! sorts, and a whole sort, put theirs aside.

use std::sync::Arc;

use datafusion::arrow::compute::SortOptions;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::joins::{HashJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties as _};

fn top_sort(node: &dyn ExecutionPlan) -> Option<&SortExec> {
    let any: &dyn std::any::Any = node;
    any.downcast_ref::<SortExec>().filter(|sort| sort.fetch().is_some())
}

fn hash_join(node: &dyn ExecutionPlan) -> Option<&HashJoinExec> {
    let any: &dyn std::any::Any = node;
    let join = any.downcast_ref::<HashJoinExec>()?;
    // Sorts put -0 before 0 and the join takes them for equal, and a NaN may stop it.
    let has_float = join
        .on()
        .iter()
        .any(|(key, _)| key.data_type(&join.left().schema()).map_or(true, |key| key.is_floating()));
    // NOT IN with NULLs is what only the hash join knows.
    (!join.null_aware && !has_float).then_some(join)
}

/// Replaces hash joins. Before the rules that see to the order of inputs, which add the sorts.
#[derive(Debug)]
pub(crate) struct MergeJoins;

impl PhysicalOptimizerRule for MergeJoins {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            let Some(join) = hash_join(node.as_ref()) else { return Ok(Transformed::no(node)) };
            assert!(join.projection.is_none(), "projections are pushed down later");
            let merge = SortMergeJoinExec::try_new(
                Arc::clone(join.left()),
                Arc::clone(join.right()),
                join.on().to_vec(),
                join.filter().cloned(),
                *join.join_type(),
                vec![SortOptions::default(); join.on().len()],
                join.null_equality(),
            )?;
            Ok(Transformed::yes(Arc::new(merge) as _))
        })
        .data()
    }
    fn name(&self) -> &'static str {
        "merge_joins"
    }
    fn schema_check(&self) -> bool {
        true
    }
}

/// Replaces sorts that give only their first rows by whole ones and a limit. After the rules that push limits down.
#[derive(Debug)]
pub(crate) struct WholeSorts;

impl PhysicalOptimizerRule for WholeSorts {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            let Some(sort) = top_sort(node.as_ref()) else { return Ok(Transformed::no(node)) };
            assert_eq!(node.output_partitioning().partition_count(), 1, "a query has one thread");
            let whole = SortExec::new(sort.expr().clone(), Arc::clone(sort.input()));
            Ok(Transformed::yes(Arc::new(GlobalLimitExec::new(Arc::new(whole), 0, sort.fetch())) as _))
        })
        .data()
    }
    fn name(&self) -> &'static str {
        "whole_sorts"
    }
    fn schema_check(&self) -> bool {
        true
    }
}
