//! Joins of FROM: their conditions, and the columns that USING and NATURAL make one.

use std::sync::Arc;

use base::{SqlError, SqlResult, SqlState};
use datafusion::logical_expr::{Expr, JoinType, LogicalPlanBuilder};
use sql::expr::{Aggregates, BoundExpr, CompareOp, ExprKind, Scope, fold_ident};
use sqlparser::ast;
use types::PgType;

use crate::binder::Binder;
use crate::error::Planned;
use crate::from::{check_alias, concat, may_look_left};
use crate::prepare::Place;
use crate::relation::{Level, RelColumn, Relation};
use crate::translate::{Translator, Typed};

impl Binder<'_> {
    /// A join of an item of FROM whose columns begin at `own`: those before are of items before it.
    pub(crate) fn join(
        &self,
        left: Relation,
        own: usize,
        join: &ast::Join,
        outer: Option<&dyn Scope>,
    ) -> SqlResult<Relation> {
        use ast::JoinOperator as J;
        let (kind, constraint) = match &join.join_operator {
            J::Join(c) | J::Inner(c) => (JoinType::Inner, c),
            J::Left(c) | J::LeftOuter(c) => (JoinType::Left, c),
            J::Right(c) | J::RightOuter(c) => (JoinType::Right, c),
            J::FullOuter(c) => (JoinType::Full, c),
            J::CrossJoin(_) => return self.beside(Some(left), &join.relation, outer),
            other => return Err(SqlError::unsupported(format!("the join {other:?}"))),
        };
        if may_look_left(&join.relation) {
            return self.lateral_join(left, join, kind, constraint, outer);
        }
        if own > 0 && matches!(kind, JoinType::Right | JoinType::Full) {
            return Err(SqlError::unsupported("RIGHT or FULL JOIN in an item of FROM with a lateral one"));
        }
        let right = self.factor(&join.relation, outer)?;
        check_alias(&left, &right)?;
        if matches!(kind, JoinType::Left | JoinType::Full) {
            self.note_outer_joined(&right);
        }
        if matches!(kind, JoinType::Right | JoinType::Full) {
            self.note_outer_joined(&left);
        }
        match constraint {
            ast::JoinConstraint::On(condition) => {
                // A name alone is one of the two sides'.
                let mut left = left;
                let before: Vec<bool> = left.columns[..own].iter().map(|column| column.bare).collect();
                left.columns[..own].iter_mut().for_each(|column| column.bare = false);
                let mut both = self.join_on(left, right, kind, condition, outer)?;
                both.columns.iter_mut().zip(before).for_each(|(column, bare)| column.bare = bare);
                Ok(both)
            }
            ast::JoinConstraint::Using(names) => {
                let names: Vec<String> = names
                    .iter()
                    .filter_map(|n| n.0.last().and_then(|part| part.as_ident()).map(fold_ident))
                    .collect();
                self.join_using(left, own, right, kind, &names)
            }
            ast::JoinConstraint::Natural => {
                let shared: Vec<String> = left
                    .star
                    .iter()
                    .filter(|i| **i >= own)
                    .map(|i| left.columns[*i].name.clone())
                    .filter(|name| right.star.iter().any(|i| right.columns[*i].name == *name))
                    .collect();
                self.join_using(left, own, right, kind, &shared)
            }
            ast::JoinConstraint::None => {
                Err(SqlError::new(SqlState::SYNTAX_ERROR, "a join needs ON or USING"))
            }
        }
    }

    fn lateral_join(
        &self,
        left: Relation,
        join: &ast::Join,
        kind: JoinType,
        constraint: &ast::JoinConstraint,
        outer: Option<&dyn Scope>,
    ) -> SqlResult<Relation> {
        let ast::JoinConstraint::On(condition) = constraint else {
            return Err(SqlError::unsupported("USING with a lateral join"));
        };
        let always = matches!(condition, ast::Expr::Value(v) if v.value == ast::Value::Boolean(true));
        match kind {
            JoinType::Left => {
                self.lateral(left, &join.relation, outer, true, Some(condition).filter(|_| !always))
            }
            JoinType::Inner => {
                let relation = self.lateral(left, &join.relation, outer, false, None)?;
                if always { Ok(relation) } else { self.filter(relation, condition, outer, "JOIN/ON") }
            }
            _ => Err(SqlError::unsupported("this kind of lateral join")),
        }
    }

    fn join_using(
        &self,
        left: Relation,
        own: usize,
        right: Relation,
        kind: JoinType,
        names: &[String],
    ) -> SqlResult<Relation> {
        if names.is_empty() {
            let on = ast::Expr::value(ast::Value::Boolean(true));
            return self.join_on(left, right, kind, &on, None);
        }
        let offset = left.columns.len();
        let (left_plan, right_plan) = (left.plan.clone(), right.plan.clone());
        let mut pairs = Vec::new();
        for name in names {
            let l = own + using_column(&left.columns[own..], name, "left")?;
            let r = using_column(&right.columns, name, "right")?;
            pairs.push((l, offset + r));
        }
        let mut both = concat(crate::binder::empty(), left, right);
        let place = Place::new(Level::of(&both), None);
        let ctx = self.context(Aggregates::Forbidden("JOIN/USING"));
        let mut conditions = Vec::new();
        for (l, r) in &pairs {
            let side = |i: usize| BoundExpr::column(i, both.columns[i].ty, both.columns[i].typmod);
            conditions.push(sql::expr::bind_comparison(CompareOp::Eq, side(*l), side(*r), &ctx)?);
        }
        let condition = BoundExpr::conjunction(conditions).expect("at least one column");
        let mut translator = Translator::new(self, crate::binder::empty(), Arc::clone(&place.level));
        let on = translator.condition(&condition)?;
        let mut plan = LogicalPlanBuilder::from(left_plan)
            .join_on(right_plan, kind, vec![on])
            .and_then(LogicalPlanBuilder::build)
            .planned()?;
        let mut merged = Vec::new();
        let mut computed = Vec::new();
        for (l, r) in &pairs {
            both.columns[*l].bare = false;
            both.columns[*r].bare = false;
            let (lc, rc) = (both.columns[*l].clone(), both.columns[*r].clone());
            let ty = sql::expr::common_type(&[lc.ty, rc.ty], "JOIN/USING")?;
            // A side that has the common type is the column; any where both are equal.
            let of_type = |i: &usize, c: &RelColumn| (c.ty == ty).then_some(*i);
            let side = match kind {
                JoinType::Full => None,
                JoinType::Right => of_type(r, &rc),
                JoinType::Left => of_type(l, &lc),
                _ => of_type(l, &lc).or_else(|| of_type(r, &rc)),
            };
            if let Some(side) = side {
                both.columns[side].bare = true;
                merged.push(side);
                continue;
            }
            let cast = |i: usize, c: &RelColumn| cast_if(BoundExpr::column(i, c.ty, c.typmod), ty);
            let value = match kind {
                JoinType::Full => {
                    let sides = vec![cast(*l, &lc), cast(*r, &rc)];
                    BoundExpr::new(ty, types::TypeMod::NONE, ExprKind::Coalesce(sides))
                }
                JoinType::Right => cast(*r, &rc),
                _ => cast(*l, &lc),
            };
            let typed: Typed = translator.translate(&value)?;
            let mut column = self.function_column(&lc.name, ty, typed.arrow.clone());
            column.table = None;
            computed.push(typed.expr.alias(&column.column.name));
            both.columns.push(column);
            merged.push(both.columns.len() - 1);
        }
        if !computed.is_empty() {
            let mut exprs: Vec<Expr> =
                both.columns[..both.columns.len() - computed.len()].iter().map(RelColumn::expr).collect();
            exprs.extend(computed);
            plan = LogicalPlanBuilder::from(plan)
                .project(exprs)
                .and_then(LogicalPlanBuilder::build)
                .planned()?;
        }
        let paired = |i: &usize| pairs.iter().any(|(l, r)| l == i || r == i);
        let (before, rest): (Vec<usize>, Vec<usize>) =
            both.star.iter().copied().filter(|i| !paired(i)).partition(|i| *i < own);
        both.star = before.into_iter().chain(merged).chain(rest).collect();
        both.plan = plan;
        Ok(both)
    }
}

fn cast_if(expr: BoundExpr, ty: PgType) -> BoundExpr {
    if expr.ty == ty {
        return expr;
    }
    let kind = ExprKind::Cast { expr: Box::new(expr), how: types::CastContext::Implicit };
    BoundExpr::new(ty, types::TypeMod::NONE, kind)
}

fn using_column(columns: &[RelColumn], name: &str, side: &str) -> SqlResult<usize> {
    let mut found = columns.iter().enumerate().filter(|(_, c)| c.bare && c.name == name).map(|(i, _)| i);
    let first = found.next().ok_or_else(|| {
        let message = format!("column \"{name}\" specified in USING clause does not exist in {side} table");
        SqlError::new(SqlState::UNDEFINED_COLUMN, message)
    })?;
    if found.next().is_some() {
        let message = format!("common column name \"{name}\" appears more than once in {side} table");
        return Err(SqlError::new(SqlState::AMBIGUOUS_COLUMN, message));
    }
    Ok(first)
}
