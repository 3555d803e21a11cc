//! Column definitions: types, serial and identity, defaults, and the constraints written beside a column.

use base::{Oid, SqlError, SqlResult, SqlState};
use sqlparser::ast::{self, ColumnOption, DataType, GeneratedAs};
use tenant::catalog::{Column, Identity, Table};
use tenant::ddl::{Ddl, MadeUpName};
use types::{FormatContext, PgType, TypeMod};

use super::constraint::{self, NewConstraint};
use super::fixed_literals::fixed;
use super::generated;
use super::names::Names;
use super::sequence::{self, Bounds};
use crate::expr::{
    BindContext, BoundExpr, ColumnRef, ExprKind, ParamTypes, Scope, bind_expr, coerce_assignment, fold_ident,
};
use crate::kept_text;
use crate::parse::SequenceOption;

/// A column as written, checked, with what is to be made around it.
pub(super) struct NewColumn {
    pub(super) column: Column,
    /// The bound default; `None` where there is none, or where it is the next value of `sequence`.
    pub(super) default: Option<BoundExpr>,
    /// What the column is generated from, as it was written; [`generated::resolve`] makes the definition complete.
    pub(super) generated: Option<ast::Expr>,
    /// `serial` and identity columns have one made for them.
    pub(super) sequence: Option<ColumnSequence>,
    pub(super) constraints: Vec<NewConstraint>,
}

impl NewColumn {
    /// One with nothing around it.
    pub(super) fn plain(column: Column) -> NewColumn {
        NewColumn { column, default: None, generated: None, sequence: None, constraints: Vec::new() }
    }
}

/// A sequence to be made for a column.
pub(super) struct ColumnSequence {
    pub(super) ty: PgType,
    pub(super) bounds: Bounds,
    /// `None` for `serial`, whose default calls `nextval`.
    pub(super) identity: Option<Identity>,
    /// `None` for a name made of the table's and the column's.
    pub(super) name: Option<(Oid, String)>,
}

/// Reads a column definition of `table`.
///
/// # Errors
/// 42601 for contradicting clauses, 42704 for its type, those of its default, 0A000.
pub(super) fn define(names: &Names, table: &str, definition: &ast::ColumnDef) -> SqlResult<NewColumn> {
    let ast::ColumnDef { name, data_type, options } = definition;
    let name = fold_ident(name);
    let serial = serial_type(data_type);
    let (ty, typmod) = match serial {
        Some(ty) => (ty, TypeMod::NONE),
        None => names.type_of(data_type)?,
    };
    if matches!(ty, PgType::Unknown) {
        let message = format!("column \"{name}\" has pseudo-type unknown");
        return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message));
    }
    let mut new = NewColumn {
        column: Column::new(name.as_str(), ty, typmod),
        default: None,
        generated: None,
        sequence: serial.map(|ty| ColumnSequence { ty, bounds: Bounds::of(ty), identity: None, name: None }),
        constraints: Vec::new(),
    };
    let mut nullable = None;
    if serial.is_some() {
        nullable = Some(false);
    }
    for ast::ColumnOptionDef { name: constraint, option } in options {
        let constraint = constraint.as_ref().map(fold_ident);
        match option {
            ColumnOption::Null => set_nullable(&mut nullable, true, table, &name)?,
            ColumnOption::NotNull => set_nullable(&mut nullable, false, table, &name)?,
            ColumnOption::Default(expr) => {
                if new.generated.is_some() {
                    return Err(generated::both("default", &name, table));
                }
                if new.column.default.is_some() || new.sequence.is_some() {
                    let message = format!(
                        "multiple default values specified for column \"{name}\" of table \"{table}\""
                    );
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
                }
                let (text, bound) = default(names, expr, &name, ty, typmod)?;
                new.column.default = text.map(Into::into);
                new.default = bound;
            }
            ColumnOption::Generated {
                generated_as,
                sequence_options,
                generation_expr,
                generation_expr_mode,
                generated_keyword,
            } => {
                if let Some(expr) = generation_expr {
                    let is_stored = *generation_expr_mode == Some(ast::GeneratedExpressionMode::Stored);
                    if !is_stored || !generated_keyword {
                        let message = "a generated column is GENERATED ALWAYS AS (expression) STORED";
                        return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
                    }
                    generated::note(&mut new, expr, table)?;
                    continue;
                }
                set_nullable(&mut nullable, false, table, &name)?;
                identity(&mut new, generated_as, sequence_options.as_deref(), table)?;
            }
            ColumnOption::Collation(collation) => require_collation(collation, ty)?,
            other => {
                let Some(found) = constraint::of_column(&name, constraint, other)? else {
                    return Err(SqlError::unsupported(format!("the column clause {other}")));
                };
                new.constraints.push(found);
            }
        }
    }
    new.column.not_null = nullable == Some(false);
    Ok(new)
}

fn set_nullable(nullable: &mut Option<bool>, value: bool, table: &str, column: &str) -> SqlResult<()> {
    if nullable.is_some_and(|known| known != value) {
        let message =
            format!("conflicting NULL/NOT NULL declarations for column \"{column}\" of table \"{table}\"");
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
    }
    *nullable = Some(value);
    Ok(())
}

/// `smallserial` and its kin.
fn serial_type(ty: &DataType) -> Option<PgType> {
    let DataType::Custom(name, modifiers) = ty else { return None };
    let [part] = name.0.as_slice() else { return None };
    let name = fold_ident(part.as_ident()?);
    if !modifiers.is_empty() {
        return None;
    }
    match name.as_str() {
        "smallserial" | "serial2" => Some(PgType::Int2),
        "serial" | "serial4" => Some(PgType::Int4),
        "bigserial" | "serial8" => Some(PgType::Int8),
        _ => None,
    }
}

/// Only the collations that are the tenant's own order are there.
///
/// # Errors
/// 0A000 for others, 42804 for a type whose values are in no collation's order.
pub(super) fn require_collation(collation: &ast::ObjectName, ty: PgType) -> SqlResult<()> {
    let parts = super::names::parts(collation)?;
    let name = parts.last().map_or("", String::as_str);
    if !matches!(name, "default" | "C" | "POSIX" | "ucs_basic" | "C.UTF-8" | "C.utf8") {
        return Err(
            SqlError::unsupported(format!("the collation \"{name}\"")).with_hint("The collation is C.UTF-8.")
        );
    }
    if ty.element().unwrap_or(ty).is_string() {
        return Ok(());
    }
    let message = format!("collations are not supported by type {}", ty.name());
    Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message))
}

fn identity(
    new: &mut NewColumn,
    generated: &GeneratedAs,
    options: Option<&[ast::SequenceOptions]>,
    table: &str,
) -> SqlResult<()> {
    let kind = identity_of(generated)?;
    let name = &new.column.name;
    if new.generated.is_some() {
        return Err(generated::both("identity", name, table));
    }
    if new.column.default.is_some() || new.sequence.is_some() {
        let what = if new.sequence.as_ref().is_some_and(|s| s.identity.is_some()) {
            format!("multiple identity specifications for column \"{name}\" of table \"{table}\"")
        } else {
            format!("both default and identity specified for column \"{name}\" of table \"{table}\"")
        };
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, what));
    }
    new.sequence = Some(identity_sequence(new.column.ty, kind, &sequence::options_of(options)?)?);
    Ok(())
}

/// The sequence of an identity column.
///
/// # Errors
/// 22023 unless the type is an integer, or for bad options.
pub(super) fn identity_sequence(
    ty: PgType,
    kind: Identity,
    options: &[SequenceOption],
) -> SqlResult<ColumnSequence> {
    require_identity_type(ty)?;
    Ok(ColumnSequence { ty, bounds: Bounds::with(ty, options)?, identity: Some(kind), name: None })
}

/// Errors: 22023 unless the type is an integer.
pub(super) fn require_identity_type(ty: PgType) -> SqlResult<()> {
    if matches!(ty, PgType::Int2 | PgType::Int4 | PgType::Int8) {
        return Ok(());
    }
    let message = "identity column type must be smallint, integer, or bigint";
    Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
}

pub(super) fn identity_of(generated: &GeneratedAs) -> SqlResult<Identity> {
    match generated {
        GeneratedAs::Always => Ok(Identity::Always),
        GeneratedAs::ByDefault => Ok(Identity::ByDefault),
        GeneratedAs::ExpStored => Err(SqlError::internal("an identity column with an expression")),
    }
}

/// A default sees no columns.
struct DefaultScope;

impl Scope for DefaultScope {
    fn resolve(&self, _qualifier: &[&str], _name: &str) -> SqlResult<Option<ColumnRef>> {
        Err(SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            "cannot use column reference in DEFAULT expression",
        ))
    }
}

/// The text a default is kept as, and the default bound to its column's type. A NULL is no default.
///
/// # Errors
/// 42804 where its type does not fit; those of binding.
pub(super) fn default(
    names: &Names,
    expr: &ast::Expr,
    column: &str,
    ty: PgType,
    typmod: TypeMod,
) -> SqlResult<(Option<String>, Option<BoundExpr>)> {
    let bind = |expr: &ast::Expr, format: &FormatContext| {
        let params = ParamTypes::none();
        let context = BindContext::simple(&params, format, "DEFAULT expressions");
        let bound = bind_expr(expr, &DefaultScope, &context)?;
        coerce_assignment(bound, column, ty, typmod, &context).map_err(default_mismatch)
    };
    let bound = bind(expr, &names.format)?;
    if matches!(&bound.kind, ExprKind::Const(value) if value.is_null()) {
        return Ok((None, None));
    }
    let expr = fixed(expr, &names.format, &bind)?;
    Ok((Some(kept_text::kept(&names.catalog, &names.path, &expr)), Some(bound)))
}

pub(super) fn default_mismatch(error: SqlError) -> SqlError {
    if error.state() != SqlState::DATATYPE_MISMATCH {
        return error;
    }
    let message = error.message().replacen("but expression is", "but default expression is", 1);
    SqlError::new(SqlState::DATATYPE_MISMATCH, message)
        .with_hint("You will need to rewrite or cast the expression.")
}

impl ColumnSequence {
    /// Makes the sequence for a column and gives the column what refers to it.
    pub(super) fn create(
        &self,
        ddl: &mut Ddl<'_>,
        names: &Names,
        schema: Oid,
        owner: Oid,
        table: &str,
        column: &mut Column,
    ) -> SqlResult<Oid> {
        let (schema, name) = match &self.name {
            Some(named) => named.clone(),
            None => {
                let default = MadeUpName { table, columns: &[&column.name], label: "seq" };
                (schema, ddl.free_relation_name(schema, &default))
            }
        };
        let oid = ddl.create_sequence(self.bounds.sequence(schema, &name, owner, self.ty))?;
        column.sequence = Some(oid);
        column.identity = self.identity;
        if self.identity.is_none() {
            column.default = Some(next_value_of(&names.qualified(schema, &name)).into());
        }
        Ok(oid)
    }
}

/// The default of a `serial` column.
fn next_value_of(qualified: &str) -> String {
    format!("nextval('{}'::regclass)", qualified.replace('\'', "''"))
}

/// Ties sequences to the columns they were made for.
pub(super) fn own_sequences(ddl: &mut Ddl<'_>, table: &Table) {
    for (position, column) in table.live_columns() {
        let sequence = column.sequence.and_then(|oid| ddl.catalog().sequence(oid).cloned());
        if let Some(sequence) = sequence
            && sequence.owned_by.is_none()
        {
            let mut owned = (*sequence).clone();
            owned.owned_by = Some((table.oid, position));
            ddl.alter_sequence(owned);
        }
    }
}
