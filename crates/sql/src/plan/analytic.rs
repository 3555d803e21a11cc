//! Queries for the analytical path: nothing is planned here, but what they touch is noted for the privilege check.

use std::ops::ControlFlow;

use base::{SqlError, SqlResult};
use sqlparser::ast::{self, Visit, Visitor};
use tenant::catalog::Privileges;

use super::binder::{Binder, NamedRelation, object_name};
use super::{BoundPlan, Command, PlanContext, PlanKind, RelationAccess};
use crate::expr::fold_ident;

/// Hands a query to the analytical path.
///
/// # Errors
/// 42P01 for a relation there is none of; 0A000 for data-modifying statements within it.
pub(super) fn plan(query: &ast::Query, reason: String, ctx: &PlanContext<'_>) -> SqlResult<BoundPlan> {
    let binder = Binder::new(*ctx);
    let mut walk = Walk { binder: &binder, common: Vec::new() };
    if let ControlFlow::Break(error) = query.visit(&mut walk) {
        return Err(error);
    }
    Ok(BoundPlan {
        command: Command::Select,
        output: Vec::new(),
        parameters: ctx.params.known(),
        accesses: binder.accesses(),
        read_only: true,
        catalog_version: ctx.catalog.version(),
        kind: PlanKind::Analytic { reason },
    })
}

/// Adds what a statement's query part touches to what the statement touches.
pub(super) fn merge_accesses(into: &mut Vec<RelationAccess>, from: Vec<RelationAccess>) {
    for access in from {
        match into.iter_mut().find(|a| a.relation == access.relation && a.as_role == access.as_role) {
            Some(known) => known.privileges = known.privileges.union(access.privileges),
            None => into.push(access),
        }
    }
}

/// Parameters of a statement, at most: what the protocol's count can say.
const PARAMETERS_MAX: usize = 65_535;

struct Walk<'a> {
    binder: &'a Binder<'a>,
    /// Names of common table expressions met so far; a name that is one anywhere is not looked up.
    common: Vec<String>,
}

impl Walk<'_> {
    fn relation(&self, name: &ast::ObjectName) -> SqlResult<()> {
        let parts = object_name(name)?;
        if parts.len() == 1 && self.common.contains(&parts[0]) {
            return Ok(());
        }
        if let NamedRelation::Found(relation) = self.binder.find_relation(name)? {
            self.binder.note_access(relation.oid(), Privileges::SELECT);
        }
        Ok(())
    }
}

impl Visitor for Walk<'_> {
    type Break = SqlError;

    fn pre_visit_query(&mut self, query: &ast::Query) -> ControlFlow<SqlError> {
        if let Some(with) = &query.with {
            self.common.extend(with.cte_tables.iter().map(|cte| fold_ident(&cte.alias.name)));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &ast::TableFactor) -> ControlFlow<SqlError> {
        match factor {
            ast::TableFactor::Table { name, args: None, .. } => match self.relation(name) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => ControlFlow::Break(error),
            },
            _ => ControlFlow::Continue(()),
        }
    }

    /// Every parameter is known, with or without a type, when the walk ends.
    fn pre_visit_expr(&mut self, expr: &ast::Expr) -> ControlFlow<SqlError> {
        if let ast::Expr::Value(value) = expr
            && let ast::Value::Placeholder(name) = &value.value
            && let Some(number) = name.strip_prefix('$').and_then(|n| n.parse::<usize>().ok())
            && (1..=PARAMETERS_MAX).contains(&number)
            && let Err(error) = self.binder.ctx.params.get(number - 1)
        {
            return ControlFlow::Break(error);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_statement(&mut self, _statement: &ast::Statement) -> ControlFlow<SqlError> {
        ControlFlow::Break(SqlError::unsupported("a data-modifying statement within a query"))
    }
}
