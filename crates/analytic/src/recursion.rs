//! Where a recursive term may read its own table. What PostgreSQL refuses would not end, or mean something else at each step.

use std::ops::ControlFlow;

use base::{SqlError, SqlResult, SqlState};
use sql::expr::{fold_ident, is_aggregate};
use sqlparser::ast::{self, Visit};

use crate::with::mentions;

/// Looks where the terms of the recursive table `name` read it.
///
/// # Errors
/// 42P19 for the first term if it does; for the recursive one where it does so within a subquery of an expression, on a side of an outer join that may have no rows, in EXCEPT or INTERSECT ALL, or
/// where a SELECT that reads it aggregates.
pub(crate) fn check_terms(name: &str, first: &ast::SetExpr, recursive: &ast::SetExpr) -> SqlResult<()> {
    let reads = Reads { name };
    if mentions(first, name) > 0 {
        return Err(reads.refusal("its non-recursive term"));
    }
    reads.set_expr(recursive, None)
}

struct Reads<'n> {
    name: &'n str,
}

impl Reads<'_> {
    fn refusal(&self, place: &str) -> SqlError {
        let message =
            format!("recursive reference to query \"{}\" must not appear within {place}", self.name);
        SqlError::new(SqlState::INVALID_RECURSION, message)
    }

    fn query(&self, query: &ast::Query, within: Option<&'static str>) -> SqlResult<()> {
        let tables = query.with.iter().flat_map(|with| &with.cte_tables);
        let (mut is_hidden, mut in_tables) = (false, 0);
        for table in tables {
            is_hidden |= fold_ident(&table.alias.name) == self.name;
            in_tables += mentions(&*table.query, self.name);
        }
        // What a WITH within makes of it is not looked at.
        if is_hidden || in_tables > 0 { Ok(()) } else { self.set_expr(&query.body, within) }
    }

    /// `within`: what PostgreSQL calls the place, if the table must not be read there.
    fn set_expr(&self, body: &ast::SetExpr, within: Option<&'static str>) -> SqlResult<()> {
        match body {
            ast::SetExpr::Select(select) => self.select(select, within),
            ast::SetExpr::Query(query) => self.query(query, within),
            ast::SetExpr::SetOperation { op, set_quantifier, left, right } => {
                let all = *set_quantifier == ast::SetQuantifier::All;
                let (of_left, of_right) = match op {
                    ast::SetOperator::Except | ast::SetOperator::Minus => {
                        (if all { Some("EXCEPT") } else { within }, Some("EXCEPT"))
                    }
                    ast::SetOperator::Intersect if all => (Some("INTERSECT"), Some("INTERSECT")),
                    _ => (within, within),
                };
                self.set_expr(left, of_left)?;
                self.set_expr(right, of_right)
            }
            _ => Ok(()),
        }
    }

    fn select(&self, select: &ast::Select, within: Option<&'static str>) -> SqlResult<()> {
        let in_expressions = mentions(&select.projection, self.name)
            + mentions(&select.selection, self.name)
            + mentions(&select.group_by, self.name)
            + mentions(&select.having, self.name);
        if in_expressions > 0 {
            return Err(self.refusal("a subquery"));
        }
        if select.from.iter().any(|item| self.is_read_by(item)) && aggregates(select) {
            let message = "aggregate functions are not allowed in a recursive query's recursive term";
            return Err(SqlError::new(SqlState::INVALID_RECURSION, message));
        }
        select.from.iter().try_for_each(|item| self.joined(item, within))
    }

    /// Whether one of the tables of `item` itself is the recursive one.
    fn is_read_by(&self, item: &ast::TableWithJoins) -> bool {
        let mut factors = std::iter::once(&item.relation).chain(item.joins.iter().map(|join| &join.relation));
        factors.any(|factor| match factor {
            ast::TableFactor::Table { name, args: None, .. } => {
                matches!(&name.0[..], [ast::ObjectNamePart::Identifier(own)] if fold_ident(own) == self.name)
            }
            ast::TableFactor::NestedJoin { table_with_joins, .. } => self.is_read_by(table_with_joins),
            _ => false,
        })
    }

    fn joined(&self, item: &ast::TableWithJoins, within: Option<&'static str>) -> SqlResult<()> {
        use ast::JoinOperator as J;
        let is_left = |join: &ast::Join| matches!(join.join_operator, J::Left(_) | J::LeftOuter(_));
        let is_right = |join: &ast::Join| matches!(join.join_operator, J::Right(_) | J::RightOuter(_));
        let is_full = |join: &ast::Join| matches!(join.join_operator, J::FullOuter(_));
        let factors = std::iter::once(&item.relation).chain(item.joins.iter().map(|join| &join.relation));
        for (at, factor) in factors.enumerate() {
            let own = at.checked_sub(1).map(|own| &item.joins[own]);
            let may_lack = own.is_some_and(|join| is_left(join) || is_full(join))
                || item.joins[at..].iter().any(|join| is_right(join) || is_full(join));
            self.factor(factor, if may_lack { Some("an outer join") } else { within })?;
        }
        let in_conditions = item.joins.iter().map(|join| mentions(&join.join_operator, self.name));
        if in_conditions.sum::<usize>() > 0 { Err(self.refusal("a subquery")) } else { Ok(()) }
    }

    fn factor(&self, factor: &ast::TableFactor, within: Option<&'static str>) -> SqlResult<()> {
        match factor {
            ast::TableFactor::Derived { subquery, .. } => self.query(subquery, within),
            ast::TableFactor::NestedJoin { table_with_joins, .. } => self.joined(table_with_joins, within),
            other => match within {
                Some(place) if mentions(other, self.name) > 0 => Err(self.refusal(place)),
                _ => Ok(()),
            },
        }
    }
}

/// Whether a SELECT calls an aggregate for itself, not for a query within.
fn aggregates(select: &ast::Select) -> bool {
    let mut calls = Calls { depth: 0 };
    select.projection.visit(&mut calls).is_break() || select.having.visit(&mut calls).is_break()
}

/// Ends at a call of an aggregate outside of queries.
struct Calls {
    depth: usize,
}

impl ast::Visitor for Calls {
    type Break = ();

    fn pre_visit_query(&mut self, _: &ast::Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &ast::Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &ast::Expr) -> ControlFlow<()> {
        let ast::Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
        let name = function.name.0.last().and_then(|part| part.as_ident()).map(fold_ident);
        let is_call = self.depth == 0 && function.over.is_none();
        if is_call && name.is_some_and(|name| is_aggregate(&name)) {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }
}
