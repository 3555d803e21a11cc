//! Conditions on rows: WHERE, HAVING, and ON of joins.

use std::sync::Arc;

use base::{SqlError, SqlResult};
use datafusion::logical_expr::{JoinType, LogicalPlan, LogicalPlanBuilder};
use sql::expr::{Aggregates, BoundExpr, ExprKind, Scope, Volatility};
use sqlparser::ast;

use crate::apply::{ApplyKind, Asked};
use crate::binder::{Binder, groups_of_nothing};
use crate::error::Planned;
use crate::fixed_filter::FixedFilter;
use crate::from::concat;
use crate::prepare::Place;
use crate::relation::{Level, LevelScope, Relation};
use crate::translate::Translator;

impl Binder<'_> {
    /// The rows of `relation` for which `condition` is true.
    pub(crate) fn filter(
        &self,
        relation: Relation,
        condition: &ast::Expr,
        outer: Option<&dyn Scope>,
        what: &'static str,
    ) -> SqlResult<Relation> {
        let place = Place::new(Level::of(&relation), outer);
        let bound = self.condition(condition, &place, Aggregates::Forbidden(what), what)?;
        let plan = self.filter_bound(relation.plan, &place.level, bound)?;
        Ok(Relation { plan, ..relation })
    }

    /// Conditions without subqueries first: what they drop need not be looked up.
    pub(crate) fn filter_bound(
        &self,
        plan: LogicalPlan,
        level: &Arc<Level>,
        condition: BoundExpr,
    ) -> SqlResult<LogicalPlan> {
        let (later, first): (Vec<_>, Vec<_>) =
            condition.into_conjuncts().into_iter().partition(BoundExpr::contains_subquery);
        let mut plan = plan;
        for part in [first, later] {
            let (fixed, free): (Vec<_>, Vec<_>) =
                part.into_iter().partition(|condition| self.is_fixed(condition, &plan));
            for (part, is_fixed) in [(free, false), (fixed, true)] {
                let Some(condition) = BoundExpr::conjunction(part) else { continue };
                plan = self.within(level, || {
                    let mut translator = Translator::new(self, plan.clone(), Arc::clone(level));
                    let expr = translator.condition(&condition)?;
                    if is_fixed {
                        return Ok(FixedFilter::plan(expr, translator.plan));
                    }
                    LogicalPlanBuilder::from(translator.plan)
                        .filter(expr)
                        .and_then(LogicalPlanBuilder::build)
                        .planned()
                })?;
            }
        }
        Ok(plan)
    }

    /// Whether `condition` on rows of `plan` must not be asked of the rows below.
    fn is_fixed(&self, condition: &BoundExpr, plan: &LogicalPlan) -> bool {
        // Where no cell is read a column of an enclosing row becomes one of a join.
        let reads_cells =
            self.apply_all && condition.any(&mut |node| matches!(node.kind, ExprKind::Outer { .. }));
        condition.volatility() == Volatility::Volatile || reads_cells && groups_of_nothing(plan) > 0
    }

    pub(crate) fn join_on(
        &self,
        left: Relation,
        right: Relation,
        kind: JoinType,
        condition: &ast::Expr,
        outer: Option<&dyn Scope>,
    ) -> SqlResult<Relation> {
        let both = concat(crate::binder::empty(), left.clone(), right.clone());
        let place = Place::new(Level::of(&both), outer);
        let bound = self.condition(condition, &place, Aggregates::Forbidden("JOIN conditions"), "JOIN/ON")?;
        let by_row = bound.contains_subquery()
            || self.is_fixed(&bound, &left.plan)
            || self.is_fixed(&bound, &right.plan);
        let plan = match kind {
            JoinType::Inner if by_row => {
                let pairs = LogicalPlanBuilder::from(left.plan)
                    .cross_join(right.plan)
                    .and_then(LogicalPlanBuilder::build)
                    .planned()?;
                self.filter_bound(pairs, &place.level, bound)?
            }
            JoinType::Left if by_row => self.left_join_by_row(left, right, condition, outer)?,
            JoinType::Right if by_row => self.left_join_by_row(right, left, condition, outer)?,
            _ if bound.contains_subquery() => {
                return Err(SqlError::unsupported("a subquery in the condition of a full join"));
            }
            _ => {
                let expr = self.within(&place.level, || {
                    Translator::new(self, crate::binder::empty(), Arc::clone(&place.level)).condition(&bound)
                })?;
                LogicalPlanBuilder::from(left.plan)
                    .join_on(right.plan, kind, vec![expr])
                    .and_then(LogicalPlanBuilder::build)
                    .planned()?
            }
        };
        Ok(Relation { plan, ..both })
    }

    /// For each row of `left` the rows of `right` for which `condition`, which was bound to both, is true.
    fn left_join_by_row(
        &self,
        left: Relation,
        right: Relation,
        condition: &ast::Expr,
        outer: Option<&dyn Scope>,
    ) -> SqlResult<LogicalPlan> {
        let level = Level::of(&left);
        let scope = LevelScope { level: &level, outer };
        self.within(&level, || {
            let (partners, uses) =
                self.noting_uses(|| self.filter(right, condition, Some(&scope), "JOIN/ON"))?;
            let kind = ApplyKind::Lateral { left: true };
            self.apply_node(left.plan, partners.plan, kind, &uses, Asked::default(), None)
        })
    }
}
