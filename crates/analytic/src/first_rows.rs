//! What LIMIT cuts off behind subqueries is cut off before these are looked up.
//!
//! `FROM u LEFT JOIN LATERAL (…) s ON true ORDER BY u.at DESC LIMIT 20`: each row of `u` has a row at least, so that the first 20 are of the first 20 rows of `u`. They are chosen once more
//! behind the look-up, since a row may have several.

use std::any::Any;
use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::{FetchType, LogicalPlan, SkipType, lit};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use crate::apply::{Apply, ApplyKind};
use crate::inner_filters::is_bound_to_its_place;

/// Rows that are chosen before subqueries are looked up for them, at most: more are sorted once only.
pub(crate) const FIRST_MAX: usize = 10_000;

#[derive(Debug)]
pub(crate) struct FirstRows;

/// The look-up that a plan is, if it has a row at least for each row of its input.
fn look_up(plan: &LogicalPlan) -> Option<&Apply> {
    let LogicalPlan::Extension(extension) = plan else { return None };
    let node: &dyn Any = extension.node.as_any();
    node.downcast_ref::<Apply>().filter(|apply| apply.kind != ApplyKind::Lateral { left: false })
}

/// Whether such a look-up stands at the top of a plan, conditions and lists of columns left out.
pub(crate) fn looks_up(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Filter(filter) => looks_up(&filter.input),
        LogicalPlan::Projection(projection) => looks_up(&projection.input),
        plan => look_up(plan).is_some(),
    }
}

/// `apply` over the rows that `input` leaves of its own.
fn over(apply: &Apply, input: LogicalPlan) -> Arc<LogicalPlan> {
    Arc::new(LogicalPlan::from(Apply { input, ..apply.clone() }))
}

impl OptimizerRule for FirstRows {
    fn name(&self) -> &'static str {
        "first_rows"
    }
    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }
    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        match plan {
            LogicalPlan::Sort(mut sort) => {
                let Some(apply) = look_up(&sort.input) else {
                    return Ok(Transformed::no(LogicalPlan::Sort(sort)));
                };
                let rows = apply.input.schema();
                let is_on_rows = sort.expr.iter().all(|by| {
                    let columns = by.expr.column_refs();
                    columns.into_iter().all(|column| rows.has_column(column))
                        && !is_bound_to_its_place(&by.expr)
                });
                let is_cut = matches!(&apply.input, LogicalPlan::Sort(below)
                    if below.expr == sort.expr && below.fetch.is_some() && below.fetch <= sort.fetch);
                if !is_on_rows || is_cut || sort.fetch.is_none_or(|fetch| fetch > FIRST_MAX) {
                    return Ok(Transformed::no(LogicalPlan::Sort(sort)));
                }
                let mut below = sort.clone();
                below.input = Arc::new(apply.input.clone());
                sort.input = over(apply, LogicalPlan::Sort(below));
                Ok(Transformed::yes(LogicalPlan::Sort(sort)))
            }
            LogicalPlan::Limit(mut limit) => {
                let first = match (limit.get_skip_type()?, limit.get_fetch_type()?) {
                    (SkipType::Literal(skip), FetchType::Literal(Some(fetch))) => skip.checked_add(fetch),
                    _ => None,
                };
                let first = first.filter(|first| *first <= FIRST_MAX);
                let (Some(first), Some(apply)) = (first, look_up(&limit.input)) else {
                    return Ok(Transformed::no(LogicalPlan::Limit(limit)));
                };
                if matches!(&apply.input, LogicalPlan::Limit(_)) {
                    return Ok(Transformed::no(LogicalPlan::Limit(limit)));
                }
                let mut below = limit.clone();
                (below.skip, below.fetch) = (None, Some(Box::new(lit(first as i64))));
                below.input = Arc::new(apply.input.clone());
                limit.input = over(apply, LogicalPlan::Limit(below));
                Ok(Transformed::yes(LogicalPlan::Limit(limit)))
            }
            plan => Ok(Transformed::no(plan)),
        }
    }
}
