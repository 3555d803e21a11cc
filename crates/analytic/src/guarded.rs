//! Subqueries within CASE, COALESCE, AND and OR: which rows ask for them.
//!
//! PostgreSQL looks a subquery up where the expression around it does, and not where what stands before it decides. Here it is looked up below the expression, for all rows of a batch.
//! So one that may fail is told its *guards*, what a row fulfils that asks for it, and the others have NULL. One that cannot fail has none, and may be a join.

use std::any::Any;

use base::SqlResult;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::{Expr, FetchType, LogicalPlan};
use sql::expr::{BoundExpr, ExprKind, SubqueryExpr, SubqueryTest, Volatility};

use crate::apply::{Apply, ApplyKind};
use crate::common_table::read_by;
use crate::inner_filters;
use crate::lazily::is_small;
use crate::translate::{Translator, Typed};

/// Guards of one expression; what stands behind more is looked up for all rows.
const GUARDS_MAX: usize = 64;

/// A subquery whose answers are in a plan.
pub(crate) struct Answer {
    subquery: SubqueryExpr,
    /// Of the rows that have one.
    guards: Vec<BoundExpr>,
    value: Typed,
}

impl Translator<'_, '_> {
    /// Runs `f`, which translates `child`, the one of `e` at that place.
    pub(crate) fn at_child<T>(
        &mut self,
        e: &BoundExpr,
        place: usize,
        child: &BoundExpr,
        f: impl FnOnce(&mut Self) -> SqlResult<T>,
    ) -> SqlResult<T> {
        let before = self.guards.len();
        if place > 0 && before + place <= GUARDS_MAX && child.contains_subquery() {
            let guards = guards_of(e, place);
            let can_be_asked =
                |guard: &BoundExpr| is_small(guard) && guard.volatility() != Volatility::Volatile;
            if guards.iter().all(can_be_asked) {
                self.guards.extend(guards);
                if self.guard().is_some_and(|all| !is_small(&all)) {
                    self.guards.truncate(before);
                }
            }
        }
        let result = f(self);
        self.guards.truncate(before);
        result
    }

    /// The answers of `subquery`, if the plan has them for all rows that ask now.
    pub(crate) fn known_answer(&self, subquery: &SubqueryExpr) -> Option<Typed> {
        // What a guard asks for was looked up when the guard was an operand.
        let is_for_these = |answer: &&Answer| self.is_guard || self.guards.starts_with(&answer.guards);
        let known = self.answers.iter().filter(|answer| answer.subquery == *subquery).find(is_for_these);
        known.map(|answer| answer.value.clone())
    }

    /// The plan has the answers of `subquery`: of all rows, or of those only that fulfil the guards.
    pub(crate) fn note_answer(&mut self, subquery: &SubqueryExpr, is_guarded: bool, value: &Typed) {
        let guards = if is_guarded { self.guards.clone() } else { Vec::new() };
        self.answers.push(Answer { subquery: subquery.clone(), guards, value: value.clone() });
    }

    /// All guards together, which are true for the rows that ask; `None` where all do.
    pub(crate) fn guard(&self) -> Option<BoundExpr> {
        BoundExpr::conjunction(self.guards.clone())
    }

    /// [`Translator::guard`] over the plan.
    pub(crate) fn translated_guard(&mut self) -> SqlResult<Option<Expr>> {
        let Some(guard) = self.guard() else { return Ok(None) };
        let guards = std::mem::take(&mut self.guards);
        let is_guard = std::mem::replace(&mut self.is_guard, true);
        let translated = self.translate(&guard);
        (self.guards, self.is_guard) = (guards, is_guard);
        Ok(Some(translated?.expr))
    }
}

/// What a row fulfils for which the child of `e` at that place is evaluated, where `e` is.
fn guards_of(e: &BoundExpr, place: usize) -> Vec<BoundExpr> {
    let is = |part: &BoundExpr, value, negated| {
        BoundExpr::boolean(ExprKind::IsBool { expr: Box::new(part.clone()), value, negated })
    };
    let is_null = |part: &BoundExpr| {
        BoundExpr::boolean(ExprKind::IsNull { expr: Box::new(part.clone()), negated: false })
    };
    match &e.kind {
        ExprKind::And(parts) => parts[..place].iter().map(|part| is(part, false, true)).collect(),
        ExprKind::Or(parts) => parts[..place].iter().map(|part| is(part, true, true)).collect(),
        ExprKind::Coalesce(parts) => parts[..place].iter().map(is_null).collect(),
        // Each condition stands before its result, and ELSE behind all.
        ExprKind::Case { whens, .. } => {
            let (before, is_result) = (place / 2, place % 2 == 1);
            let mut guards: Vec<_> = whens[..before].iter().map(|(when, _)| is(when, true, true)).collect();
            if is_result {
                guards.push(is(&whens[before].0, true, false));
            }
            guards
        }
        _ => Vec::new(),
    }
}

/// Whether looking a subquery of that plan up may fail for some rows.
pub(crate) fn may_fail(plan: &LogicalPlan, test: &SubqueryTest) -> bool {
    matches!(test, SubqueryTest::Scalar) && !has_one_row(plan) || plan_may_fail(plan)
}

fn plan_may_fail(plan: &LogicalPlan) -> bool {
    let mut found = false;
    let walked = plan.apply_with_subqueries(|node| {
        let several = match node {
            LogicalPlan::Extension(extension) => {
                let node: &dyn Any = extension.node.as_any();
                node.downcast_ref::<Apply>()
                    .is_some_and(|apply| apply.kind == ApplyKind::Scalar && !has_one_row(&apply.subplan))
            }
            _ => false,
        };
        let common = read_by(node).is_some_and(|rows| plan_may_fail(&rows.plan));
        found |= several || common || node.expressions().iter().any(inner_filters::may_fail);
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    found || walked.is_err()
}

/// Whether the plan has one row at most, whatever it reads.
fn has_one_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::EmptyRelation(_) => true,
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::Limit(limit) => {
            matches!(limit.get_fetch_type(), Ok(FetchType::Literal(Some(0 | 1)))) || has_one_row(&limit.input)
        }
        LogicalPlan::Projection(projection) => has_one_row(&projection.input),
        LogicalPlan::Filter(filter) => has_one_row(&filter.input),
        LogicalPlan::Sort(sort) => has_one_row(&sort.input),
        _ => false,
    }
}
