//! The table a DML statement changes: its name, defaults, constraints and the columns assigned to.

use std::sync::Arc;

use base::{SqlError, SqlResult, SqlState};
use rustc_hash::FxHashSet;
use sqlparser::ast;
use tenant::catalog::{Column, Identity, Privileges, ReferentialAction, Relation, Table};
use types::{Datum, TypeMod};

use super::binder::{Binder, NamedRelation, object_name};
use super::point_plan::{CascadePlan, CheckPlan, SelectPlan, TableUse};
use crate::expr::{
    Aggregates, BindContext, BoundExpr, EmptyScope, ExprKind, Scope, SubqueryBinder, SubqueryExpr,
    SubqueryId, SubqueryTest, TableScope, Volatility, bind_expr, bind_sql_text, coerce_assignment,
    coerce_condition, identity_value, row_of,
};

impl Binder<'_> {
    /// The table that is changed.
    ///
    /// # Errors
    /// 42P01; 42809 for an index or a sequence; 0A000 for a view; 42501 for a system catalog.
    pub(super) fn bind_target(
        &self,
        name: &ast::ObjectName,
        privilege: Privileges,
        verb: &str,
    ) -> SqlResult<Arc<Table>> {
        let relation = match self.find_relation(name)? {
            NamedRelation::Found(relation) => relation,
            NamedRelation::System => {
                let message = format!("permission denied: \"{name}\" is a system catalog");
                return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
            }
        };
        match relation {
            Relation::Table(table) => {
                self.note_access(table.oid, privilege);
                self.note_table(table.oid, TableUse::Write);
                self.set_effects();
                self.bind_cascades(table, privilege == Privileges::DELETE)?;
                Ok(Arc::clone(table))
            }
            Relation::View(view) => Err(SqlError::unsupported(format!("{verb} view \"{}\"", view.name))),
            Relation::Sequence(s) => Err(SqlError::new(
                SqlState::WRONG_OBJECT_TYPE,
                format!("cannot change sequence \"{}\"", s.name),
            )),
            Relation::Index(..) => {
                let name = relation.name();
                Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{name}\" is an index")))
            }
        }
    }

    /// Position and definition of a column that is assigned to.
    ///
    /// # Errors
    /// 42703.
    pub(super) fn target_column<'t>(
        &self,
        table: &'t Table,
        name: &ast::ObjectName,
    ) -> SqlResult<(usize, &'t Column)> {
        let parts = object_name(name)?;
        if parts.len() > 1 && table.column(&parts[0]).is_some() {
            return Err(SqlError::unsupported("assignment to a field of a column"));
        }
        table.column(&parts[0]).ok_or_else(|| {
            SqlError::new(
                SqlState::UNDEFINED_COLUMN,
                format!("column \"{}\" of relation \"{}\" does not exist", parts[0], table.name),
            )
        })
    }

    /// What a column gets when nothing is said; a generated one NULL for the time being.
    pub(super) fn bind_default(&self, column: &Column) -> SqlResult<BoundExpr> {
        if column.dropped {
            return Ok(BoundExpr::constant(Datum::Null, column.ty));
        }
        // What it has is worked out when the others have theirs.
        if column.is_generated() {
            return Ok(BoundExpr::new(column.ty, TypeMod::NONE, ExprKind::Const(Datum::Null)));
        }
        let ctx = BindContext::simple(self.ctx.params, self.ctx.format, "DEFAULT expressions");
        let bound = match (&column.default, column.identity, column.sequence) {
            (Some(text), _, _) => bind_sql_text(text, &EmptyScope, &ctx)?,
            (None, Some(_), Some(sequence)) => identity_value(sequence.0),
            _ => return Ok(BoundExpr::new(column.ty, TypeMod::NONE, ExprKind::Const(Datum::Null))),
        };
        coerce_assignment(bound, &column.name, column.ty, column.typmod, &ctx)
    }

    /// The value assigned to a column; `None` stands for DEFAULT.
    pub(super) fn bind_assigned(
        &self,
        value: Option<&ast::Expr>,
        column: &Column,
        scope: &dyn Scope,
        place: &'static str,
    ) -> SqlResult<BoundExpr> {
        let Some(value) = value else { return self.bind_default(column) };
        let ctx = self.expressions(Aggregates::Forbidden(place));
        let bound = bind_expr(value, scope, &ctx)?;
        coerce_assignment(bound, &column.name, column.ty, column.typmod, &ctx)
    }

    /// The CHECK constraints of a table that name any of the columns for which `changed` holds, over its row.
    pub(super) fn bind_checks(
        &self,
        table: &Table,
        changed: &dyn Fn(usize) -> bool,
    ) -> SqlResult<Vec<CheckPlan>> {
        let scope = row_scope(table);
        let ctx = BindContext::simple(self.ctx.params, self.ctx.format, "CHECK constraints");
        let mut checks: Vec<CheckPlan> = Vec::with_capacity(table.checks.len());
        for check in &table.checks {
            let is_named = check.columns.is_empty() || check.columns.iter().any(|c| changed(*c));
            let condition = bind_sql_text(&check.expression, &scope, &ctx)?;
            let condition = coerce_condition(condition, "CHECK", &ctx)?;
            // A row from before a constraint that is not valid yet may break it, whatever is changed of that row; and what holds by the clock or a
            // setting may hold no longer.
            if check.validated && !is_named && condition.volatility() == Volatility::Immutable {
                continue;
            }
            checks.push(CheckPlan { name: check.name.to_string(), condition });
        }
        // PostgreSQL checks them in the order of their names.
        checks.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(checks)
    }

    /// The generated columns of a table that are to be worked out, over its row, where those columns have new values for which `changed` holds.
    pub(super) fn bind_generated(
        &self,
        table: &Table,
        changed: &dyn Fn(usize) -> bool,
    ) -> SqlResult<Vec<(usize, BoundExpr)>> {
        let mut values = Vec::new();
        for (position, column) in table.generated_columns() {
            let (Some(of), Some(text)) = (&column.generated, &column.default) else { continue };
            if !changed(position) && !of.iter().any(|named| changed(*named)) {
                continue;
            }
            let ctx = BindContext::simple(self.ctx.params, self.ctx.format, "column generation expressions");
            let value = bind_sql_text(text, &row_scope(table), &ctx)?;
            let value = coerce_assignment(value, &column.name, column.ty, column.typmod, &ctx)?;
            values.push((position, value));
        }
        Ok(values)
    }

    /// Notes the generated columns and CHECK constraints of all tables whose rows foreign keys may change behind a change of `target`, which
    /// `deletes` rows or not.
    fn bind_cascades(&self, target: &Arc<Table>, deletes: bool) -> SqlResult<()> {
        let mut reached = vec![Arc::clone(target)];
        let (mut next, mut comes_back) = (0, false);
        while let Some(table) = reached.get(next).cloned() {
            next += 1;
            for by in &table.referenced_by {
                let Some(of) = self.ctx.catalog.table(by.table) else { continue };
                let acts = |action| matches!(action, ReferentialAction::Cascade | ReferentialAction::SetNull);
                let key = of.foreign_key(by.constraint);
                let is_changed = key.is_some_and(|key| acts(key.on_delete) || acts(key.on_update));
                // Rows that go with others of the target may be referred to by such as are to go later.
                comes_back |= (is_changed || deletes) && of.oid == target.oid && table.oid != target.oid;
                if is_changed && reached.iter().all(|known| known.oid != of.oid) {
                    reached.push(Arc::clone(of));
                }
            }
        }
        // A table that refers to itself is the first and reached again.
        let has_work =
            |table: &Arc<Table>| !table.checks.is_empty() || table.generated_columns().next().is_some();
        let cascades = reached
            .into_iter()
            .filter(has_work)
            .map(|table| {
                let generated = self.bind_generated(&table, &|_| true)?;
                Ok(CascadePlan { generated, checks: self.bind_checks(&table, &|_| true)?, table })
            })
            .collect::<SqlResult<_>>()?;
        self.note_cascades(cascades, comes_back);
        Ok(())
    }

    /// SET: columns and their new values.
    pub(super) fn bind_assignments(
        &self,
        table: &Table,
        assignments: &[ast::Assignment],
        scope: &dyn Scope,
    ) -> SqlResult<Vec<(usize, BoundExpr)>> {
        let mut bound: Vec<(usize, BoundExpr)> = Vec::with_capacity(assignments.len());
        for ast::Assignment { target, value } in assignments {
            match target {
                ast::AssignmentTarget::ColumnName(name) => {
                    let (position, column) = self.target_column(table, name)?;
                    let value = given(value);
                    refuse_new_value(column, value.is_some())?;
                    add(&mut bound, position, self.bind_assigned(value, column, scope, "UPDATE")?, column)?;
                }
                ast::AssignmentTarget::Tuple(names) => {
                    let columns: Vec<(usize, &Column)> =
                        names.iter().map(|name| self.target_column(table, name)).collect::<SqlResult<_>>()?;
                    for (i, value) in self.tuple_values(value, &columns, scope)?.into_iter().enumerate() {
                        add(&mut bound, columns[i].0, value, columns[i].1)?;
                    }
                }
            }
        }
        Ok(bound)
    }

    /// The values of `(a, b) = …`: a row, or the columns of a subquery.
    fn tuple_values(
        &self,
        value: &ast::Expr,
        columns: &[(usize, &Column)],
        scope: &dyn Scope,
    ) -> SqlResult<Vec<BoundExpr>> {
        let items: Vec<&ast::Expr> = match value {
            ast::Expr::Nested(inner) if columns.len() == 1 => vec![inner],
            ast::Expr::Subquery(query) => return self.tuple_of_query(query, columns, scope),
            value => row_of(value).ok_or_else(|| {
                SqlError::new(
                    SqlState::FEATURE_NOT_SUPPORTED,
                    "source for a multiple-column UPDATE item must be a sub-SELECT or ROW() expression",
                )
            })?,
        };
        if items.len() != columns.len() {
            return Err(wrong_count());
        }
        let mut values = Vec::with_capacity(items.len());
        for (item, (_, column)) in items.iter().zip(columns) {
            let value = given(item);
            refuse_new_value(column, value.is_some())?;
            values.push(self.bind_assigned(value, column, scope, "UPDATE")?);
        }
        Ok(values)
    }

    fn tuple_of_query(
        &self,
        query: &ast::Query,
        columns: &[(usize, &Column)],
        scope: &dyn Scope,
    ) -> SqlResult<Vec<BoundExpr>> {
        let ctx = self.expressions(Aggregates::Forbidden("UPDATE"));
        let bound = self.bind_subquery(query, scope, &ctx)?;
        if bound.columns.len() != columns.len() {
            return Err(wrong_count());
        }
        // A row for all of the statement is kept; one for each row that is changed is asked for again for each column.
        if bound.correlated && columns.len() > 1 && self.is_volatile(bound.id, &mut FxHashSet::default()) {
            return Err(SqlError::unsupported(
                "several columns of a correlated query with a volatile function",
            ));
        }
        let mut values = Vec::with_capacity(columns.len());
        for (i, ((_, column), (ty, typmod, _))) in columns.iter().zip(&bound.columns).enumerate() {
            refuse_new_value(column, true)?;
            let test = SubqueryTest::Field(i);
            let subquery = SubqueryExpr { id: bound.id, correlated: bound.correlated, test };
            let expr = BoundExpr::new(*ty, *typmod, ExprKind::Subquery(Box::new(subquery)));
            values.push(coerce_assignment(expr, &column.name, column.ty, column.typmod, &ctx)?);
        }
        Ok(values)
    }

    /// Whether two runs of a query may differ: it locks rows, of which it may leave some out, or calls a volatile function.
    pub(super) fn is_changeable(&self, plan: &SelectPlan) -> bool {
        let mut found = !plan.locks.is_empty();
        plan.for_each_expr(0, &mut |expr, _| {
            found |= expr.volatility() == Volatility::Volatile;
            expr.walk(&mut |node| {
                if let ExprKind::Subquery(inner) = &node.kind {
                    found |= self.with_subquery(inner.id, |plan| plan.is_volatile);
                }
                !found
            });
        });
        found
    }

    /// Whether a subquery, or one within that was not `seen` yet, calls a volatile function.
    fn is_volatile(&self, id: SubqueryId, seen: &mut FxHashSet<SubqueryId>) -> bool {
        self.with_subquery(id, |plan| {
            let mut found = false;
            plan.for_each_expr(0, &mut |expr, _| {
                found |= expr.volatility() == Volatility::Volatile;
                expr.walk(&mut |node| {
                    if let ExprKind::Subquery(inner) = &node.kind
                        && seen.insert(inner.id)
                    {
                        found |= self.is_volatile(inner.id, seen);
                    }
                    !found
                });
            });
            found
        })
    }
}

/// The expression a column is given; `None` for the word DEFAULT.
pub(super) fn given(expr: &ast::Expr) -> Option<&ast::Expr> {
    match expr {
        ast::Expr::Identifier(ident)
            if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("default") =>
        {
            None
        }
        _ => Some(expr),
    }
}

/// Whether an expression is a literal without a type of its own: it has that of the column it is for.
pub(super) fn is_untyped(expr: &ast::Expr) -> bool {
    use ast::Value::{Boolean, Number, Placeholder};
    match expr {
        ast::Expr::Nested(inner) => is_untyped(inner),
        ast::Expr::Value(value) => !matches!(value.value, Number(..) | Boolean(_) | Placeholder(_)),
        _ => false,
    }
}

/// # Errors
/// 428C9 for a value given by an UPDATE to a generated column, or to one GENERATED ALWAYS AS IDENTITY.
pub(super) fn refuse_new_value(column: &Column, has_value: bool) -> SqlResult<()> {
    let is_identity = column.identity == Some(Identity::Always);
    if !has_value || !is_identity && !column.is_generated() {
        return Ok(());
    }
    let name = &column.name;
    let message = format!("column \"{name}\" can only be updated to DEFAULT");
    Err(SqlError::new(SqlState::GENERATED_ALWAYS, message).with_detail(match is_identity {
        true => always_identity(name),
        false => format!("Column \"{name}\" is a generated column."),
    }))
}

/// # Errors
/// 428C9 for a value given by an INSERT to a column GENERATED ALWAYS AS IDENTITY.
pub(super) fn refuse_identity(column: &Column, has_value: bool) -> SqlResult<()> {
    if !has_value || column.identity != Some(Identity::Always) {
        return Ok(());
    }
    let name = &column.name;
    let message = format!("cannot insert a non-DEFAULT value into column \"{name}\"");
    Err(SqlError::new(SqlState::GENERATED_ALWAYS, message)
        .with_detail(always_identity(name))
        .with_hint("Use OVERRIDING SYSTEM VALUE to override."))
}

fn always_identity(name: &str) -> String {
    format!("Column \"{name}\" is an identity column defined as GENERATED ALWAYS.")
}

/// # Errors
/// 428C9 for a value given by an INSERT to a generated column, whatever OVERRIDING says.
pub(crate) fn refuse_generated(column: &Column, has_value: bool) -> SqlResult<()> {
    if !has_value || !column.is_generated() {
        return Ok(());
    }
    let name = &column.name;
    let message = format!("cannot insert a non-DEFAULT value into column \"{name}\"");
    Err(SqlError::new(SqlState::GENERATED_ALWAYS, message)
        .with_detail(format!("Column \"{name}\" is a generated column.")))
}

/// The columns of a table, in row order.
fn row_scope(table: &Table) -> TableScope<'_> {
    let columns =
        table.columns.iter().map(|c| (if c.dropped { "" } else { c.name.as_str() }, c.ty, c.typmod));
    TableScope { table: &table.name, columns: columns.collect() }
}

/// # Errors
/// 42601 for a column that is assigned to twice.
pub(super) fn add(
    bound: &mut Vec<(usize, BoundExpr)>,
    position: usize,
    value: BoundExpr,
    column: &Column,
) -> SqlResult<()> {
    if bound.iter().any(|(p, _)| *p == position) {
        let message = format!("multiple assignments to same column \"{}\"", column.name);
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
    }
    bound.push((position, value));
    Ok(())
}

fn wrong_count() -> SqlError {
    SqlError::new(SqlState::SYNTAX_ERROR, "number of columns does not match number of values")
}
