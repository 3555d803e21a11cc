//! `ALTER COLUMN … TYPE`: a type that stores all the values alike, as a longer `varchar`, only changes the definition; any other rewrites the table.
//! All columns of a statement get their types in one go, so that each new value is made of the row as it was. What that does to foreign keys is
//! checked behind it. Predicates of indexes are read anew from their texts, as PostgreSQL does.

use std::sync::Arc;

use base::{Oid, SqlError, SqlResult, SqlState};
use sqlparser::ast;
use tenant::catalog::{Column, RowTest, Sequence, Table};
use types::{CastContext, Datum, ElementType, PgType, TypeMod, quote_ident};

use super::column;
use super::constraint::{bind_check, scope_of, violated};
use super::generated;
use super::index;
use super::names::Names;
use crate::MemoryBound;
use crate::expr::{
    BindContext, BoundExpr, EvalCtx, ParamTypes, bind_expr, coerce, eval, eval_bool, fold_ident,
};
use crate::memory_bound::value_memory;
use crate::parse::parse_expression;
use crate::predicate_text;
use crate::session::{Home, Pause, Session};

/// A column's new type as written.
pub(super) struct TypeChange<'s> {
    pub(super) position: usize,
    pub(super) data_type: &'s ast::DataType,
    pub(super) using: Option<&'s ast::Expr>,
}

/// What the rows of a table become.
#[derive(Default)]
struct Conversion {
    /// New values of columns, over the row as it is.
    columns: Vec<(usize, BoundExpr)>,
    /// CHECK constraints that name some of these columns, over the row as it will be.
    checks: Vec<(String, BoundExpr)>,
}

pub(super) fn run(
    session: &mut Session,
    home: &mut Home<'_>,
    names: &Names,
    table: &Arc<Table>,
    changes: &[TypeChange<'_>],
) -> Result<(), Pause> {
    let mut altered = (**table).clone();
    let (mut conversion, mut sequences) = (Conversion::default(), Vec::new());
    for TypeChange { position, data_type, using } in changes {
        let (ty, typmod) = names.type_of(data_type)?;
        let old = &table.columns[*position];
        generated::refuse_new_type(table, *position)?;
        sequences.extend(identity_sequence(session, home, names, old, ty)?);
        refuse_views(names, table, *position)?;
        let new = &mut altered.columns[*position];
        (new.ty, new.typmod) = (ty, typmod);
        let says_nothing = using.is_none_or(|using| is_cast_of(names, using, old, ty, typmod));
        if says_nothing && keeps_values(old, ty, typmod) {
            continue;
        }
        conversion.columns.push((*position, converted(names, table, *position, *using, ty, typmod)?));
        if let Some(text) = &old.default {
            new.default = Some(new_default(names, table, *position, text, ty, typmod)?.into());
        }
    }
    let oid = table.oid;
    if conversion.columns.is_empty() {
        return session.ddl(home, |ddl| {
            for TypeChange { position, .. } in changes {
                let Column { ty, typmod, .. } = altered.columns[*position];
                ddl.set_column_type(oid, *position, ty, typmod)?;
            }
            Ok(())
        });
    }
    for check in &table.checks {
        let bound = bind_check(names, &altered, &parse_expression(&check.expression)?)?;
        let is_named = |(position, _): &(usize, BoundExpr)| check.columns.contains(position);
        // Of one that is not valid the older rows need not hold.
        if check.validated && conversion.columns.iter().any(is_named) {
            conversion.checks.push((check.name.to_string(), bound));
        }
    }
    refuse_functions(table, &altered, &conversion)?;
    let predicates = new_predicates(names, table, &altered, &conversion)?;
    session.ddl(home, |ddl| {
        conversion.columns.iter().try_for_each(|(position, _)| ddl.lock_for_new_values(oid, *position))
    })?;
    let values = conversion.values(session, home, table)?;
    let mut values = values.into_iter();
    session.ddl(home, |ddl| {
        sequences.into_iter().for_each(|sequence| ddl.alter_sequence(sequence));
        ddl.rewrite_table(
            oid,
            |table| {
                for TypeChange { position, .. } in changes {
                    table.columns[*position] = altered.columns[*position].clone();
                }
                for index in &mut table.indexes {
                    if let Some((_, predicate)) = predicates.iter().find(|(oid, _)| *oid == index.oid) {
                        index.predicate = Some(Arc::clone(predicate));
                    }
                }
                Ok(())
            },
            &mut |mut row| {
                for (position, _) in &conversion.columns {
                    row[*position] = values
                        .next()
                        .ok_or_else(|| SqlError::internal("a row came in while a column changed"))?;
                }
                Ok(row)
            },
        )
    })
}

impl Conversion {
    /// The new values of all rows, one row's after the other's.
    ///
    /// # Errors
    /// 23514 where a row would break a CHECK; 53200 where they take more than changes may.
    fn values(&self, session: &mut Session, home: &mut Home<'_>, table: &Table) -> Result<Vec<Datum>, Pause> {
        let memory = MemoryBound::of_rows(home.tenant.changes_max());
        let mut values = Vec::new();
        session.for_each_row(home, table.oid, &mut |now| {
            let first = values.len();
            for (_, column) in &self.columns {
                let value = eval(column, now)?;
                memory.take(value_memory(&value))?;
                values.push(value);
            }
            if self.checks.is_empty() {
                return Ok(());
            }
            let mut row = now.row.to_vec();
            for ((position, _), value) in self.columns.iter().zip(&values[first..]) {
                row[*position] = value.clone();
            }
            for (name, check) in &self.checks {
                if eval_bool(check, &EvalCtx::new(now.stmt, &row))? == Some(false) {
                    return Err(violated(table, name).into());
                }
            }
            Ok(())
        })?;
        Ok(values)
    }
}

/// Keys of indexes are functions of columns as they are stored.
///
/// # Errors
/// 0A000 where a converted column would be of a type that the function does not take.
fn refuse_functions(table: &Table, altered: &Table, conversion: &Conversion) -> SqlResult<()> {
    for index in &table.indexes {
        for key in &index.columns {
            let ty = altered.columns[key.column].ty;
            let is_converted = conversion.columns.iter().any(|(position, _)| *position == key.column);
            if let Some(function) = key.function.filter(|function| is_converted && !function.takes(ty)) {
                let what = format!(
                    "such a type of a column of which index \"{}\" has {}",
                    index.name,
                    function.name()
                );
                return Err(SqlError::unsupported(what)
                    .with_hint("Drop the index first and make it again afterwards."));
            }
        }
    }
    Ok(())
}

/// The predicates of indexes that name converted columns, over the row as it will be: each by its index.
///
/// # Errors
/// Those of [`index::predicate`].
fn new_predicates(
    names: &Names,
    table: &Table,
    altered: &Table,
    conversion: &Conversion,
) -> SqlResult<Vec<(Oid, Arc<RowTest>)>> {
    let mut predicates = Vec::new();
    for index in &table.indexes {
        let Some(predicate) = &index.predicate else { continue };
        if conversion.columns.iter().any(|(position, _)| predicate.names(*position)) {
            let text = predicate_text::shown(&names.catalog, &names.path, table, predicate, false);
            let anew = index::predicate(names, altered, &parse_expression(&text)?)?;
            predicates.push((index.oid, Arc::new(anew)));
        }
    }
    Ok(predicates)
}

/// The sequence of an identity column, which counts in its column's type.
///
/// # Errors
/// 22023 for another type than an integer, or where the sequence is past its end.
fn identity_sequence(
    session: &mut Session,
    home: &mut Home<'_>,
    names: &Names,
    column: &Column,
    ty: PgType,
) -> Result<Option<Sequence>, Pause> {
    let sequence = column.sequence.filter(|_| column.identity.is_some() && column.ty != ty);
    let Some(sequence) = sequence.and_then(|oid| names.catalog.sequence(oid)) else { return Ok(None) };
    column::require_identity_type(ty)?;
    Ok(Some(super::sequence::altered(session, home, sequence, Some(ty), &[])?))
}

/// Whether every value of the column is one of the type, and is stored alike in both.
fn keeps_values(column: &Column, ty: PgType, typmod: TypeMod) -> bool {
    let old = column.typmod;
    if (column.ty, old) == (ty, typmod) {
        return true;
    }
    match (column.ty, ty) {
        (PgType::Text | PgType::Varchar, PgType::Text | PgType::Varchar) => {
            typmod.is_none() || matches!((old.as_length(), typmod.as_length()), (Some(a), Some(b)) if a <= b)
        }
        (PgType::Numeric, PgType::Numeric) => match (old.as_numeric(), typmod.as_numeric()) {
            (_, None) => true,
            (Some((a, scale)), Some((b, new_scale))) => scale == new_scale && a <= b,
            (None, Some(_)) => false,
        },
        _ => false,
    }
}

/// Whether USING says what is done without it: the column, or a cast of it to its new type.
fn is_cast_of(names: &Names, using: &ast::Expr, column: &Column, ty: PgType, typmod: TypeMod) -> bool {
    let mut expr = using;
    loop {
        match expr {
            ast::Expr::Nested(inner) => expr = inner,
            ast::Expr::Cast {
                kind: ast::CastKind::Cast | ast::CastKind::DoubleColon,
                expr: inner,
                data_type,
                array: false,
                format: None,
            } if names.type_of(data_type).is_ok_and(|found| found == (ty, typmod)) => expr = inner,
            ast::Expr::Identifier(ident) => return column.name == fold_ident(ident).as_str(),
            _ => return false,
        }
    }
}

/// Views keep their columns' types.
fn refuse_views(names: &Names, table: &Table, position: usize) -> SqlResult<()> {
    let column = &table.columns[position];
    let uses = |d: &tenant::catalog::Dependency| d.object == table.oid && d.column == Some(position);
    let mut views: Vec<&str> =
        names.catalog.views().filter(|v| v.depends_on.iter().any(uses)).map(|v| v.name.as_str()).collect();
    views.sort_unstable();
    if let Some(view) = views.first() {
        let message = "cannot alter type of a column used by a view or rule";
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
            .with_detail(format!("rule _RETURN on view {view} depends on column \"{}\"", column.name)));
    }
    Ok(())
}

fn converted(
    names: &Names,
    table: &Table,
    position: usize,
    using: Option<&ast::Expr>,
    ty: PgType,
    typmod: TypeMod,
) -> SqlResult<BoundExpr> {
    let column = &table.columns[position];
    let params = ParamTypes::none();
    let context = BindContext::simple(&params, &names.format, "transform expressions");
    let expr = match using {
        Some(using) => using.clone(),
        None => ast::Expr::Identifier(ast::Ident::with_quote('"', column.name.as_str())),
    };
    let bound = bind_expr(&expr, &scope_of(table), &context)?;
    let kind = if using.is_some() {
        format!("result of USING clause for column \"{}\"", column.name)
    } else {
        format!("column \"{}\"", column.name)
    };
    coerce(bound, ty, typmod, CastContext::Assignment, &context).map_err(|error| {
        if !matches!(error.state(), SqlState::CANNOT_COERCE | SqlState::DATATYPE_MISMATCH) {
            return error;
        }
        let target = types::format_type(ty, typmod);
        let message = format!("{kind} cannot be cast automatically to type {target}");
        let hint = if using.is_some() {
            "You might need to add an explicit cast.".to_owned()
        } else {
            format!("You might need to specify \"USING {}::{target}\".", quote_ident(&column.name))
        };
        SqlError::new(SqlState::DATATYPE_MISMATCH, message).with_hint(hint)
    })
}

/// The default, which must fit the new type too. What was read as the old one stays a value of that: `int DEFAULT '05'` is '5' as text.
fn new_default(
    names: &Names,
    table: &Table,
    position: usize,
    text: &str,
    ty: PgType,
    typmod: TypeMod,
) -> SqlResult<String> {
    let column = &table.columns[position];
    let expr = parse_expression(text)?;
    let is_read_alike = column.ty == ty || column.ty.is_string() && ty.is_string();
    let of_old = is_untyped(&expr) && !is_read_alike;
    let expr = if of_old { as_old_type(names, column, text)? } else { expr };
    match column::default(names, &expr, &column.name, ty, typmod) {
        Ok((Some(kept), _)) if of_old => Ok(kept),
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err(SqlError::new(
            SqlState::DATATYPE_MISMATCH,
            format!(
                "default for column \"{}\" cannot be cast automatically to type {}",
                column.name,
                types::format_type(ty, typmod)
            ),
        )),
    }
}

/// Whether an expression is a literal whose type its place alone says.
fn is_untyped(expr: &ast::Expr) -> bool {
    let ast::Expr::Value(value) = expr else { return false };
    !matches!(value.value, ast::Value::Number(..) | ast::Value::Boolean(_))
}

/// The literal `text` as a value of the type that its column had.
fn as_old_type(names: &Names, column: &Column, text: &str) -> SqlResult<ast::Expr> {
    let old = match column.ty {
        // By its other name it would be cut to one character.
        PgType::Bpchar => "bpchar".to_owned(),
        PgType::Array(ElementType::Bpchar) => "bpchar[]".to_owned(),
        ty => types::format_type_in(ty, TypeMod::NONE, names.format.names.as_deref()),
    };
    parse_expression(&format!("CAST({text} AS {old})"))
}

/// A sequence's value as one of its column's type.
///
/// # Errors
/// 22003.
pub(super) fn integer(value: i64, ty: PgType) -> SqlResult<Datum> {
    types::cast(
        Datum::Int8(value),
        PgType::Int8,
        ty,
        TypeMod::NONE,
        CastContext::Assignment,
        &types::FormatContext::default(),
    )
}
