//! The conditions of an inner query come before those of the query around it.
//!
//! `SELECT … FROM (SELECT … WHERE a <> 0) q WHERE 10 / a > 2`: DataFusion makes one filter of both and asks the outer condition first, of all rows. What may fail
//! stays above what it met.
//!
//! What is asked of rows for which subqueries are looked up one by one (`FROM a, LATERAL (…) s WHERE a.id = 5`, or a view with a subquery in its list) is asked before that: DataFusion
//! leaves it above.
//!
//! And a condition without columns, as `n <> NULL` is, would go below an aggregation without groups, which then counts no rows and still gives one: so it stays above that.

use std::any::Any;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{JoinType, NullEquality, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{BinaryExpr, Expr, Filter, LogicalPlan, Operator, Volatility};
use datafusion::optimizer::eliminate_cross_join::EliminateCrossJoin;
use datafusion::optimizer::extract_equijoin_predicate::ExtractEquijoinPredicate;
use datafusion::optimizer::optimizer::{ApplyOrder, Optimizer};
use datafusion::optimizer::push_down_filter::PushDownFilter;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use crate::apply::{Apply, ReadCell};
use crate::arithmetic::Arithmetic;
use crate::binder::has_group_of_nothing;
use crate::first_rows::FirstRows;
use crate::fixed_filter::FixedFilter;
use crate::row_function::RowFunction;
use crate::row_keys::{LOOK_FOR_KEYS, NoKeys};

/// DataFusion's rules for logical plans, with [`InnerFirst`] in the place of the one that moves filters down, and [`FirstRows`] behind it.
pub(crate) fn rules() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let moves_filters =
        |rule: &Arc<dyn OptimizerRule + Send + Sync>| rule.name() == PushDownFilter::new().name();
    let mut rules: Vec<Arc<dyn OptimizerRule + Send + Sync>> = Vec::new();
    for rule in Optimizer::new().rules {
        if LOOK_FOR_KEYS.contains(&rule.name()) {
            rules.push(Arc::new(NoKeys));
        }
        if moves_filters(&rule) {
            rules.push(Arc::new(InnerFirst(PushDownFilter::new())));
            // Before columns that nobody needs any more are left out, between the two nodes that it looks at.
            rules.push(Arc::new(FirstRows));
        } else if rule.name() == EliminateCrossJoin::new().name() {
            rules.push(Arc::new(OneEquality(EliminateCrossJoin::new())));
        } else if rule.name() == ExtractEquijoinPredicate::new().name() {
            rules.push(Arc::new(OneEquality(ExtractEquijoinPredicate::new())));
        } else if rule.name() == "eliminate_join" {
            rules.push(Arc::new(OncePerRow(rule)));
        } else {
            rules.push(rule);
        }
    }
    rules
}

/// A join on `a IS NOT DISTINCT FROM b` gets no keys of `=` beside that later, for which NULLs would be equal, too: neither of its own conditions, nor where joins
/// are put together anew.
#[derive(Debug)]
struct OneEquality<R>(R);

fn has_equal_nulls(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::Join(join)
        if join.join_type == JoinType::Inner && join.null_equality == NullEquality::NullEqualsNull && !join.on.is_empty())
}

impl OptimizerRule for OneEquality<EliminateCrossJoin> {
    fn name(&self) -> &str {
        self.0.name()
    }
    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }
    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if plan.exists(|node| Ok(has_equal_nulls(node)))? {
            return Ok(Transformed::no(plan));
        }
        self.0.rewrite(plan, config)
    }
}

impl OptimizerRule for OneEquality<ExtractEquijoinPredicate> {
    fn name(&self) -> &str {
        self.0.name()
    }
    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }
    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if has_equal_nulls(&plan) {
            return Ok(Transformed::no(plan));
        }
        self.0.rewrite(plan, config)
    }
}

/// The rule by which a join that only says which rows of one side there are, not how often, as below DISTINCT, has each of them once. A `random()` above it is another for each of the
/// join's rows.
#[derive(Debug)]
struct OncePerRow(Arc<dyn OptimizerRule + Send + Sync>);

impl OptimizerRule for OncePerRow {
    fn name(&self) -> &str {
        self.0.name()
    }
    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }
    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if crate::with::calls_volatile(&plan) {
            return Ok(Transformed::no(plan));
        }
        self.0.rewrite(plan, config)
    }
}

#[derive(Debug)]
struct InnerFirst(PushDownFilter);

impl OptimizerRule for InnerFirst {
    fn name(&self) -> &str {
        self.0.name()
    }
    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }
    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let plan = match above_aggregation(constants_last(plan)?)? {
            (plan, None) => plan,
            (plan, Some(condition)) => return Ok(Transformed::yes(FixedFilter::plan(condition, plan))),
        };
        let LogicalPlan::Filter(filter) = plan else { return self.0.rewrite(plan, config) };
        if let Some(plan) = before_lookups(&filter)? {
            return Ok(Transformed::yes(plan));
        }
        if let Some(plan) = before_computed(&filter)? {
            return Ok(Transformed::yes(plan));
        }
        if !matches!(&*filter.input, LogicalPlan::Filter(_)) {
            return self.0.rewrite(LogicalPlan::Filter(filter), config);
        }
        let conditions = split_conjunction_owned(filter.predicate.clone());
        let (later, sooner): (Vec<_>, Vec<_>) = conditions.into_iter().partition(may_fail);
        let Some(later) = conjunction(later) else {
            return self.0.rewrite(LogicalPlan::Filter(filter), config);
        };
        let input = match conjunction(sooner) {
            Some(sooner) => LogicalPlan::Filter(Filter::try_new(sooner, filter.input)?),
            None => Arc::unwrap_or_clone(filter.input),
        };
        Ok(Transformed::yes(FixedFilter::plan(later, input)))
    }
}

/// A filter with its comparisons of a column and a constant in the form that DataFusion, which makes one of those of one column, takes for granted: the
/// constant on the right, without which `5 = x` is another value than `x = 5` has and both are false, and none with NULL, which would be the least value. The constants
/// of an inner query come to a column as the filter goes down, when conditions have been simplified.
fn constants_last(plan: LogicalPlan) -> Result<LogicalPlan> {
    let LogicalPlan::Filter(filter) = plan else { return Ok(plan) };
    let conditions = split_conjunction_owned(filter.predicate).into_iter().map(constant_last);
    match conjunction(conditions) {
        Some(conditions) => Ok(LogicalPlan::Filter(Filter::try_new(conditions, filter.input)?)),
        None => Ok(Arc::unwrap_or_clone(filter.input)),
    }
}

fn constant_last(condition: Expr) -> Expr {
    use crate::translate::{binary, is_null_literal};

    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = condition else { return condition };
    let constant_first = match (&*left, &*right) {
        (Expr::Column(_), Expr::Literal(..)) => false,
        (Expr::Literal(..), Expr::Column(_)) => true,
        _ => return binary(*left, op, *right),
    };
    let has_null = is_null_literal(&left) || is_null_literal(&right);
    let takes_nulls = matches!(op, Operator::IsDistinctFrom | Operator::IsNotDistinctFrom);
    match op.swap() {
        Some(_) if has_null && !takes_nulls => Expr::Literal(ScalarValue::Boolean(None), None),
        Some(swapped) if constant_first => binary(*right, swapped, *left),
        _ => binary(*left, op, *right),
    }
}

/// The filter with those of its conditions first that are on the rows alone for which subqueries are looked up; `None` where there are none.
fn before_lookups(filter: &Filter) -> Result<Option<LogicalPlan>> {
    let LogicalPlan::Extension(extension) = &*filter.input else { return Ok(None) };
    let node: &dyn Any = extension.node.as_any();
    let Some(apply) = node.downcast_ref::<Apply>() else { return Ok(None) };
    let rows = apply.input.schema();
    let is_on_rows = |condition: &Expr| {
        let columns = condition.column_refs();
        !columns.is_empty()
            && columns.into_iter().all(|column| rows.has_column(column))
            && !may_fail(condition)
            && !is_bound_to_its_place(condition)
    };
    let conditions = split_conjunction_owned(filter.predicate.clone());
    let (sooner, later): (Vec<_>, Vec<_>) = conditions.into_iter().partition(is_on_rows);
    let Some(sooner) = conjunction(sooner) else { return Ok(None) };
    let input = LogicalPlan::Filter(Filter::try_new(sooner, Arc::new(apply.input.clone()))?);
    let plan = LogicalPlan::from(Apply { input, ..apply.clone() });
    Ok(Some(match conjunction(later) {
        Some(later) => LogicalPlan::Filter(Filter::try_new(later, Arc::new(plan))?),
        None => plan,
    }))
}

/// The filter with those of its conditions first that are on nothing that may fail to be computed, as in `(SELECT a, b, a / b AS q …) s WHERE b <> 0 AND q > 2`: below the projection they would be
/// one condition, asked of all rows. Where tables are joined below, the others may be what joins them.
fn before_computed(filter: &Filter) -> Result<Option<LogicalPlan>> {
    let LogicalPlan::Projection(projection) = &*filter.input else { return Ok(None) };
    let columns = projection.schema.columns().into_iter().zip(&projection.expr);
    let failing: Vec<_> = columns.filter(|(_, expr)| may_fail(expr)).map(|(column, _)| column).collect();
    if failing.is_empty() || !is_of_one_table(&projection.input) {
        return Ok(None);
    }
    let is_on_failing =
        |condition: &Expr| condition.column_refs().into_iter().any(|column| failing.contains(column));
    let conditions = split_conjunction_owned(filter.predicate.clone());
    let (later, sooner): (Vec<_>, Vec<_>) = conditions.into_iter().partition(is_on_failing);
    let (Some(later), Some(sooner)) = (conjunction(later), conjunction(sooner)) else { return Ok(None) };
    let sooner = LogicalPlan::Filter(Filter::try_new(sooner, Arc::clone(&filter.input))?);
    Ok(Some(FixedFilter::plan(later, sooner)))
}

fn is_of_one_table(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::TableScan(_) | LogicalPlan::Values(_) | LogicalPlan::Aggregate(_) => true,
        LogicalPlan::Projection(node) => is_of_one_table(&node.input),
        LogicalPlan::SubqueryAlias(node) => is_of_one_table(&node.input),
        LogicalPlan::Filter(node) => is_of_one_table(&node.input),
        _ => false,
    }
}

/// Whether a condition has another value each time that it is asked, or a query within. A cell has one while the rows come.
pub(crate) fn is_bound_to_its_place(condition: &Expr) -> bool {
    let found = condition.exists(|node| {
        Ok(match node {
            Expr::ScalarFunction(call) => {
                let function: &dyn Any = call.func.inner().as_ref();
                call.func.signature().volatility == Volatility::Volatile && !function.is::<ReadCell>()
            }
            Expr::OuterReferenceColumn(..)
            | Expr::Exists(_)
            | Expr::InSubquery(_)
            | Expr::ScalarSubquery(_) => true,
            _ => false,
        })
    });
    found.unwrap_or(true)
}

/// Takes the conditions without columns out of filters right above an aggregation that has a row for no rows.
fn above_aggregation(plan: LogicalPlan) -> Result<(LogicalPlan, Option<Expr>)> {
    let mut below = &plan;
    while let LogicalPlan::Filter(filter) = below {
        below = &filter.input;
    }
    if !matches!(below, LogicalPlan::Aggregate(node) if has_group_of_nothing(node)) {
        return Ok((plan, None));
    }
    let mut taken = Vec::new();
    let plan = without_constants(plan, &mut taken)?;
    Ok((plan, conjunction(taken)))
}

fn without_constants(plan: LogicalPlan, taken: &mut Vec<Expr>) -> Result<LogicalPlan> {
    let LogicalPlan::Filter(filter) = plan else { return Ok(plan) };
    let conditions = split_conjunction_owned(filter.predicate);
    let is_constant = |condition: &Expr| !condition.any_column_refs() && !condition.contains_outer();
    let (constant, others): (Vec<_>, Vec<_>) = conditions.into_iter().partition(is_constant);
    taken.extend(constant);
    let input = without_constants(Arc::unwrap_or_clone(filter.input), taken)?;
    match conjunction(others) {
        Some(others) => Ok(LogicalPlan::Filter(Filter::try_new(others, Arc::new(input))?)),
        None => Ok(input),
    }
}

/// Whether evaluating `e` may fail for some rows.
pub(crate) fn may_fail(e: &Expr) -> bool {
    let found = e.exists(|node| {
        let Expr::ScalarFunction(call) = node else { return Ok(false) };
        let function: &dyn Any = call.func.inner().as_ref();
        Ok(function.downcast_ref::<RowFunction>().is_some_and(RowFunction::may_fail)
            || function.downcast_ref::<Arithmetic>().is_some_and(Arithmetic::divides))
    });
    found.unwrap_or(true)
}
