//! CREATE INDEX.

use std::sync::Arc;

use base::{SqlError, SqlResult, SqlState};
use sqlparser::ast;
use tenant::catalog::{IndexColumn, KeyFunction, Relation, RowTest, Table};
use tenant::ddl::NewIndex;
use types::PgType;

use super::column::require_collation;
use super::constraint::scope_of;
use super::names::{Names, notice, split};
use super::storage_parameters;
use crate::expr::{
    BindContext, ParamTypes, Volatility, bind_condition, bind_expr, fold_ident, key_function, row_test,
};
use crate::session::{Home, Pause, Reply, Session};

pub(super) fn create(
    session: &mut Session,
    home: &mut Home<'_>,
    create: &ast::CreateIndex,
    out: &mut dyn Reply,
) -> Result<(), Pause> {
    let ast::CreateIndex {
        name,
        table_name,
        using,
        columns,
        unique,
        // It is so with and without.
        concurrently: _,
        if_not_exists,
        include,
        nulls_distinct,
        with,
        predicate,
        index_options,
        alter_options,
    } = create;
    match using {
        None | Some(ast::IndexType::BTree) => {}
        Some(other) => return Err(SqlError::unsupported(format!("the index method {other}")).into()),
    }
    if !index_options.is_empty() || !alter_options.is_empty() {
        return Err(SqlError::unsupported("this index option").into());
    }
    for parameter in with {
        check_parameter(parameter)?;
    }
    let names = session.names(home);
    let (schema, table_part) = split(table_name)?;
    let table = match names.relation(schema.as_deref(), &table_part)? {
        Relation::Table(table) => table.clone(),
        other => {
            let message = format!("cannot create index on relation \"{}\"", other.name());
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
                .with_detail(format!("This operation is not supported for {}s.", other.kind()))
                .into());
        }
    };
    session.check_owner(&names.catalog, table.owner, "table", &table.name)?;
    session.check_create_in(&names.catalog, table.schema)?;
    let name = match name {
        None => None,
        Some(name) => {
            // PostgreSQL's grammar has no schema here: an index lives with its table.
            let (None, name) = split(name)? else {
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error at or near \".\"").into());
            };
            if *if_not_exists && names.catalog.relation_in(table.schema, &name).is_some() {
                let message = format!("relation \"{name}\" already exists, skipping");
                notice(session, SqlState::DUPLICATE_TABLE, message, out);
                return Ok(());
            }
            Some(name)
        }
    };
    let new = NewIndex {
        name,
        columns: columns.iter().map(|column| key_column(&names, &table, column)).collect::<SqlResult<_>>()?,
        unique: *unique,
        nulls_not_distinct: *nulls_distinct == Some(false),
        predicate: predicate
            .as_ref()
            .map(|predicate| self::predicate(&names, &table, predicate).map(Arc::new))
            .transpose()?,
        included: include.iter().map(|name| position(&table, &fold_ident(name))).collect::<SqlResult<_>>()?,
    };
    // What a transaction has changed or locked before, others wait for anyway.
    let goes_beside = session.begins_its_transaction();
    session.ddl(home, |ddl| match goes_beside {
        true => ddl.create_index_beside(table.oid, new),
        false => ddl.create_index(table.oid, new),
    })?;
    Ok(())
}

fn position(table: &Table, name: &str) -> SqlResult<usize> {
    table
        .column(name)
        .map(|(position, _)| position)
        .ok_or_else(|| SqlError::new(SqlState::UNDEFINED_COLUMN, format!("column \"{name}\" does not exist")))
}

/// The predicate of a partial index of `table`.
///
/// # Errors
/// Those of binding; 42804 unless it is boolean; 42P17 where it is not of the row alone; 0A000 for what the tenant does not evaluate.
pub(super) fn predicate(names: &Names, table: &Table, predicate: &ast::Expr) -> SqlResult<RowTest> {
    let params = ParamTypes::none();
    let context = BindContext::simple(&params, &names.format, "index predicates");
    let bound = bind_condition(predicate, &scope_of(table), &context, "WHERE")?;
    if bound.volatility() != Volatility::Immutable {
        let message = "functions in index predicate must be marked IMMUTABLE";
        return Err(SqlError::new(SqlState::INVALID_OBJECT_DEFINITION, message));
    }
    row_test(&bound, &Some).ok_or_else(|| {
        SqlError::unsupported("a partial index on this condition")
            .with_hint("Comparisons of columns with constants, IN lists of these and IS NULL are taken, and AND, OR and NOT of such.")
    })
}

fn key_column(names: &Names, table: &Table, column: &ast::IndexColumn) -> SqlResult<IndexColumn> {
    let ast::IndexColumn { column, operator_class } = column;
    let ast::OrderByExpr { expr, options: ast::OrderByOptions { asc, nulls_first }, with_fill } = column;
    if with_fill.is_some() {
        return Err(SqlError::unsupported("WITH FILL"));
    }
    let (expr, collation) = match unnested(expr) {
        ast::Expr::Collate { expr, collation } => (unnested(expr), Some(collation)),
        plain => (plain, None),
    };
    let (position, function) = match expr {
        ast::Expr::Identifier(ident) => (position(table, &fold_ident(ident))?, None),
        expr => function_of_column(names, table, expr)?,
    };
    let ty = if function.is_some() { PgType::Text } else { table.columns[position].ty };
    if let Some(collation) = collation {
        require_collation(collation, ty)?;
    }
    if let Some(class) = operator_class {
        check_class(&split(class)?.1, ty)?;
    }
    let descending = *asc == Some(false);
    let nulls_first = nulls_first.unwrap_or(descending);
    Ok(IndexColumn { column: position, function, descending, nulls_first })
}

fn unnested(mut expr: &ast::Expr) -> &ast::Expr {
    while let ast::Expr::Nested(inner) = expr {
        expr = inner;
    }
    expr
}

/// What an expression makes of which column.
///
/// # Errors
/// Those of binding; 42P17 where it is not of the row alone; 0A000 for what the tenant does not evaluate.
fn function_of_column(
    names: &Names,
    table: &Table,
    expr: &ast::Expr,
) -> SqlResult<(usize, Option<KeyFunction>)> {
    let params = ParamTypes::none();
    let context = BindContext::simple(&params, &names.format, "index expressions");
    let bound = bind_expr(expr, &scope_of(table), &context)?;
    if bound.volatility() != Volatility::Immutable {
        let message = "functions in index expression must be marked IMMUTABLE";
        return Err(SqlError::new(SqlState::INVALID_OBJECT_DEFINITION, message));
    }
    let found = key_function(&bound).filter(|(column, function)| function.takes(table.columns[*column].ty));
    let (column, function) = found.ok_or_else(|| {
        let hint = "lower and upper of a column of the type text or varchar are taken.";
        SqlError::unsupported("an index on this expression").with_hint(hint)
    })?;
    Ok((column, Some(function)))
}

/// Whether an operator class orders values as they are ordered without. Text is in the order of its bytes, which is that of patterns too.
///
/// # Errors
/// 42804 for a column of another type, 0A000 for one that is none of these.
fn check_class(class: &str, ty: PgType) -> SqlResult<()> {
    let takes: &[PgType] = match class.strip_suffix("_ops").unwrap_or_default() {
        "text" | "varchar" | "text_pattern" | "varchar_pattern" => &[PgType::Text, PgType::Varchar],
        "bpchar" | "bpchar_pattern" => &[PgType::Bpchar],
        "int2" => &[PgType::Int2],
        "int4" => &[PgType::Int4],
        "int8" => &[PgType::Int8],
        "float4" => &[PgType::Float4],
        "float8" => &[PgType::Float8],
        "numeric" => &[PgType::Numeric],
        "bool" => &[PgType::Bool],
        "bytea" => &[PgType::Bytea],
        "date" => &[PgType::Date],
        "time" => &[PgType::Time],
        "timestamp" => &[PgType::Timestamp],
        "timestamptz" => &[PgType::TimestampTz],
        "interval" => &[PgType::Interval],
        "uuid" => &[PgType::Uuid],
        "jsonb" => &[PgType::Jsonb],
        _ => return Err(SqlError::unsupported(format!("the operator class {class}"))),
    };
    if takes.contains(&ty) {
        return Ok(());
    }
    let message = format!("operator class \"{class}\" does not accept data type {}", ty.name());
    Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message))
}

/// `name = value`, which the parser reads as a comparison.
fn check_parameter(parameter: &ast::Expr) -> SqlResult<()> {
    match parameter {
        ast::Expr::BinaryOp { left, op: ast::BinaryOperator::Eq, right } => match &**left {
            ast::Expr::Identifier(name) => {
                storage_parameters::check_value(&fold_ident(name), &right.to_string())
            }
            _ => Err(SqlError::unsupported("this index option")),
        },
        _ => Err(SqlError::unsupported("this index option")),
    }
}
