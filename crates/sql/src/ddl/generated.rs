//! Generated columns (`GENERATED ALWAYS AS (…) STORED`): what they are generated from, and what may not be done to them.
//!
//! The expression is kept where a default would stand, beside the columns that it names. Their values are worked out by whoever writes a row
//! ([`crate::plan::InsertPlan::generated`]), and here where a column is added to rows that are there.

use base::{SqlError, SqlResult, SqlState};
use sqlparser::ast;
use tenant::catalog::{Column, Table};
use types::{Datum, FormatContext, PgType, TypeMod};

use super::column::{NewColumn, default_mismatch};
use super::constraint::unqualify;
use super::fixed_literals::fixed;
use super::names::{ALTER_TABLE, Names, altered_table, column_of, notice};
use crate::MemoryBound;
use crate::expr::{
    BindContext, BoundExpr, ParamTypes, TableScope, Volatility, bind_expr, coerce_assignment, eval,
};
use crate::kept_text;
use crate::memory_bound::value_memory;
use crate::parse::DropExpression;
use crate::session::{Home, Pause, Reply, Session};

/// Has a column be generated from an expression, which may name columns that are not known yet.
///
/// # Errors
/// 42601 where it has a default or is an identity column, or has such an expression already.
pub(super) fn note(new: &mut NewColumn, expr: &ast::Expr, table: &str) -> SqlResult<()> {
    let name = &new.column.name;
    if new.generated.is_some() {
        let message =
            format!("multiple generation clauses specified for column \"{name}\" of table \"{table}\"");
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
    }
    let is_identity = new.sequence.as_ref().is_some_and(|sequence| sequence.identity.is_some());
    if is_identity {
        return Err(both("identity", name, table));
    }
    if new.column.default.is_some() || new.sequence.is_some() {
        return Err(both("default", name, table));
    }
    new.generated = Some(expr.clone());
    Ok(())
}

/// 42601 for a column that is said to be generated and something else.
pub(super) fn both(what: &str, column: &str, table: &str) -> SqlError {
    let message = format!(
        "both {what} and generation expression specified for column \"{column}\" of table \"{table}\""
    );
    SqlError::new(SqlState::SYNTAX_ERROR, message)
}

/// Completes the generated ones of the columns of a new table.
///
/// # Errors
/// Those of [`Columns::define`].
pub(super) fn resolve(names: &Names, table: &str, columns: &mut [NewColumn]) -> SqlResult<()> {
    if columns.iter().all(|new| new.generated.is_none()) {
        return Ok(());
    }
    let all: Vec<Column> = columns.iter().map(|new| new.column.clone()).collect();
    let is_generated: Vec<bool> = columns.iter().map(|new| new.generated.is_some()).collect();
    let of = Columns { table, columns: &all, is_generated: &is_generated };
    for new in columns {
        if let Some(expr) = &new.generated {
            of.define(names, &mut new.column, expr)?;
        }
    }
    Ok(())
}

/// Completes a generated column that a table gets; answers its value over the table's row as it is.
///
/// # Errors
/// Those of [`Columns::define`].
pub(super) fn resolve_added(
    names: &Names,
    table: &Table,
    column: &mut Column,
    expr: &ast::Expr,
) -> SqlResult<BoundExpr> {
    let mut all = table.columns.clone();
    all.push(column.clone());
    let own = std::iter::once(true);
    let is_generated: Vec<bool> = table.columns.iter().map(Column::is_generated).chain(own).collect();
    let of = Columns { table: &table.name, columns: &all, is_generated: &is_generated };
    of.define(names, column, expr)
}

/// The values of a new column in all rows of its table, in their order.
///
/// # Errors
/// Those of the expression; 53200 where they take more than changes may.
pub(super) fn of_all_rows(
    session: &mut Session,
    home: &mut Home<'_>,
    table: &Table,
    value: &BoundExpr,
) -> Result<Vec<Datum>, Pause> {
    let memory = MemoryBound::of_rows(home.tenant.changes_max());
    let mut values = Vec::new();
    session.for_each_row(home, table.oid, &mut |row| {
        let value = eval(value, row)?;
        memory.take(value_memory(&value))?;
        values.push(value);
        Ok(())
    })?;
    Ok(values)
}

/// # Errors
/// 42601 for a column that others are generated from; 0A000 for a generated one.
pub(super) fn refuse_new_type(table: &Table, position: usize) -> SqlResult<()> {
    let column = &table.columns[position];
    if column.is_generated() {
        return Err(SqlError::unsupported("another type of a generated column"));
    }
    let Some(generated) = table.generated_from(position) else { return Ok(()) };
    let message = "cannot alter type of a column used by a generated column";
    Err(SqlError::new(SqlState::SYNTAX_ERROR, message).with_detail(format!(
        "Column \"{}\" is used by generated column \"{}\".",
        column.name, generated.name
    )))
}

/// # Errors
/// 42601 for a generated column, which has no default to set or `drop`.
pub(super) fn refuse_new_default(table: &Table, position: usize, drop: bool) -> SqlResult<()> {
    let column = &table.columns[position];
    if !column.is_generated() {
        return Ok(());
    }
    let message = format!("column \"{}\" of relation \"{}\" is a generated column", column.name, table.name);
    let error = SqlError::new(SqlState::SYNTAX_ERROR, message);
    Err(match drop {
        true => error.with_hint("Use ALTER TABLE ... ALTER COLUMN ... DROP EXPRESSION instead."),
        false => error,
    })
}

/// ALTER TABLE … DROP EXPRESSION: the column keeps its values and is one like any other.
///
/// # Errors
/// 42P01, 42809, 42501, 42703; 55000 for a column that is not generated.
pub(crate) fn drop_expression(
    session: &mut Session,
    home: &mut Home<'_>,
    statement: &DropExpression,
    out: &mut dyn Reply,
) -> Result<String, Pause> {
    let Some((_, table)) = altered_table(session, home, &statement.table, out)? else {
        return Ok(ALTER_TABLE.into());
    };
    let position = column_of(&table, &statement.column)?;
    if table.columns[position].is_generated() {
        session.ddl(home, |ddl| ddl.drop_expression(table.oid, position))?;
        return Ok(ALTER_TABLE.into());
    }
    let message = format!(
        "column \"{}\" of relation \"{}\" is not a stored generated column",
        statement.column, table.name
    );
    if !statement.if_generated {
        return Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message).into());
    }
    notice(session, SqlState::SUCCESSFUL_COMPLETION, format!("{message}, skipping"), out);
    Ok(ALTER_TABLE.into())
}

/// The columns that an expression may name.
struct Columns<'a> {
    table: &'a str,
    columns: &'a [Column],
    is_generated: &'a [bool],
}

impl Columns<'_> {
    /// Has `column` be generated from `expr`; answers its value over a row of these columns.
    ///
    /// # Errors
    /// Those of binding, 42804 where its type does not fit; 42P17 for what is not immutable, or names a generated column.
    fn define(&self, names: &Names, column: &mut Column, expr: &ast::Expr) -> SqlResult<BoundExpr> {
        let mut expr = expr.clone();
        unqualify(&mut expr, self.table);
        let (name, ty, typmod) = (column.name.clone(), column.ty, column.typmod);
        let bind =
            |expr: &ast::Expr, format: &FormatContext| self.bind(expr, format, (name.as_str(), ty, typmod));
        let bound = bind(&expr, &names.format)?;
        let of = bound.columns_used();
        let invalid = |message: &str| SqlError::new(SqlState::INVALID_OBJECT_DEFINITION, message);
        if let Some(other) = of.iter().find(|named| self.is_generated[**named]) {
            let message = format!(
                "cannot use generated column \"{}\" in column generation expression",
                self.columns[*other].name
            );
            return Err(invalid(&message)
                .with_detail("A generated column cannot reference another generated column."));
        }
        if bound.volatility() != Volatility::Immutable {
            return Err(invalid("generation expression is not immutable"));
        }
        let expr = fixed(&expr, &names.format, &bind)?;
        column.default = Some(kept_text::kept(&names.catalog, &names.path, &expr).into());
        column.generated = Some(of.into());
        Ok(bound)
    }

    fn bind(
        &self,
        expr: &ast::Expr,
        format: &FormatContext,
        (name, ty, typmod): (&str, PgType, TypeMod),
    ) -> SqlResult<BoundExpr> {
        let columns = self.columns.iter().map(|column| {
            let name = if column.dropped { "" } else { column.name.as_str() };
            (name, column.ty, column.typmod)
        });
        let scope = TableScope { table: self.table, columns: columns.collect() };
        let params = ParamTypes::none();
        let context = BindContext::simple(&params, format, "column generation expressions");
        let bound = bind_expr(expr, &scope, &context)?;
        coerce_assignment(bound, name, ty, typmod, &context).map_err(default_mismatch)
    }
}
