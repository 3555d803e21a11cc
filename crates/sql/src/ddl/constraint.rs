//! Constraints: reading them from a column's or a table's clauses, and adding them to a table.

use base::{Oid, SqlError, SqlResult, SqlState};
use sqlparser::ast::{self, ColumnOption, TableConstraint};
use tenant::catalog::{Deferral, MatchType, Privileges, ReferentialAction, Table};
use tenant::ddl::{NewForeignKey, NewUnique, RowsNow};
use types::FormatContext;

use super::fixed_literals::fixed;
use super::names::{ALTER_TABLE, Names, altered_table, fold_all, missing, split, split_parts};
use crate::expr::{
    BindContext, BoundExpr, EvalError, ParamTypes, TableScope, bind_condition, eval_bool, fold_ident,
};
use crate::kept_text;
use crate::parse::{AlterConstraint, parse_expression};
use crate::session::{Home, Pause, Reply, Session};

/// A constraint as written.
pub(super) enum NewConstraint {
    Primary { name: Option<String>, columns: Vec<String> },
    Unique { name: Option<String>, columns: Vec<String>, nulls_not_distinct: bool },
    Check { name: Option<String>, expr: ast::Expr },
    Foreign(Box<NewReference>),
}

/// A foreign key as written.
pub(super) struct NewReference {
    name: Option<String>,
    columns: Vec<String>,
    table: ast::ObjectName,
    /// Empty for the referenced table's primary key.
    referenced: Vec<String>,
    on_delete: ReferentialAction,
    on_update: ReferentialAction,
    match_type: MatchType,
    deferral: Deferral,
}

/// SET CONSTRAINTS of these, or of all where no names are given: puts their checks off, or makes those that wait.
///
/// # Errors
/// 42704, 3F000; 42809 where one that cannot be is to be deferred; 23503.
pub(crate) fn set_constraints(
    session: &mut Session,
    home: &mut Home<'_>,
    constraints: Option<&[Vec<String>]>,
    deferred: bool,
) -> Result<(), Pause> {
    let names = session.names(home);
    let oids = constraints.map(|constraints| named_deferrable(&names, constraints, deferred)).transpose()?;
    session.with_view(home, |view| view.set_constraints(oids.as_deref(), deferred))
}

/// The deferrable ones of the constraints of these names: of each all that the first schema with some has.
fn named_deferrable(names: &Names, constraints: &[Vec<String>], deferred: bool) -> SqlResult<Vec<Oid>> {
    let mut found = Vec::new();
    for parts in constraints {
        let (schema, name) = split_parts(parts.clone())?;
        names.require_schema(schema.as_deref())?;
        let having = |schema: Oid| {
            names
                .catalog
                .tables()
                .filter(|t| t.schema == schema && t.has_constraint(&name))
                .collect::<Vec<_>>()
        };
        let tables = match &schema {
            Some(schema) => names.catalog.schema_named(schema).map(|schema| having(schema.oid)),
            None => names.path.iter().map(|schema| having(*schema)).find(|tables| !tables.is_empty()),
        };
        let tables =
            tables.filter(|tables| !tables.is_empty()).ok_or_else(|| missing("constraint", &name))?;
        for table in tables {
            let key = table.foreign_keys.iter().find(|k| k.name == name && k.deferral.is_deferrable());
            match key {
                Some(key) => found.push(key.oid),
                None if deferred => {
                    let message = format!("constraint \"{name}\" is not deferrable");
                    return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
                }
                None => {}
            }
        }
    }
    Ok(found)
}

/// ALTER TABLE … ALTER CONSTRAINT.
///
/// # Errors
/// 42704; 42809 unless it is a foreign key; 55006 where checks of the table wait.
pub(crate) fn alter(
    session: &mut Session,
    home: &mut Home<'_>,
    statement: &AlterConstraint,
    out: &mut dyn Reply,
) -> Result<String, Pause> {
    let Some((_, table)) = altered_table(session, home, &statement.table, out)? else {
        return Ok(ALTER_TABLE.into());
    };
    session.with_view(home, |view| Ok(view.require_none_due(&table, ALTER_TABLE)?))?;
    let constraint = &statement.constraint;
    let Some(key) = table.foreign_keys.iter().find(|key| key.name == constraint.as_str()) else {
        if !table.has_constraint(constraint) {
            return Err(missing_of(&table, constraint).into());
        }
        let message = format!(
            "constraint \"{constraint}\" of relation \"{}\" is not a foreign key constraint",
            table.name
        );
        return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message).into());
    };
    let (oid, deferral) = (key.oid, deferral(statement.deferrable, statement.initially_deferred)?);
    session.ddl(home, |ddl| ddl.set_deferral(table.oid, oid, deferral))?;
    Ok(ALTER_TABLE.into())
}

/// ALTER TABLE … VALIDATE CONSTRAINT: has the rows from before it satisfy a constraint too.
///
/// # Errors
/// 42704; 42809 for a constraint that is never without; 23503, 23514.
pub(super) fn validate(
    session: &mut Session,
    home: &mut Home<'_>,
    names: &Names,
    table: &Table,
    name: &str,
) -> Result<(), Pause> {
    if let Some(key) = table.foreign_keys.iter().find(|key| key.name == name) {
        if !key.validated {
            session.ddl(home, |ddl| ddl.validate_foreign_key(table.oid, key.oid))?;
        }
        return Ok(());
    }
    if let Some(check) = table.checks.iter().find(|check| check.name == name) {
        if !check.validated {
            // The lock comes first. Of what comes in behind the look whoever writes it checks the constraint.
            session.ddl(home, |ddl| ddl.set_check_validated(table.oid, check.oid))?;
            let bound = bind_check(names, table, &parse_expression(&check.expression)?)?;
            check_rows(session, home, table, &bound, check.oid)?;
        }
        return Ok(());
    }
    if !table.has_constraint(name) {
        return Err(missing_of(table, name).into());
    }
    let message = format!(
        "constraint \"{name}\" of relation \"{}\" is not a foreign key or check constraint",
        table.name
    );
    Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message).into())
}

fn missing_of(table: &Table, name: &str) -> SqlError {
    let message = format!("constraint \"{name}\" of relation \"{}\" does not exist", table.name);
    SqlError::new(SqlState::UNDEFINED_OBJECT, message)
}

/// Constraints in the order they are added: keys before what may refer to them.
pub(super) fn in_order(mut constraints: Vec<NewConstraint>) -> Vec<NewConstraint> {
    constraints.sort_by_key(|constraint| match constraint {
        NewConstraint::Check { .. } => 0,
        NewConstraint::Primary { .. } => 1,
        NewConstraint::Unique { .. } => 2,
        NewConstraint::Foreign(_) => 3,
    });
    constraints
}

/// The constraint a column clause stands for; `None` if it is not one.
///
/// # Errors
/// 0A000 for clauses we do not have.
pub(super) fn of_column(
    column: &str,
    name: Option<String>,
    option: &ColumnOption,
) -> SqlResult<Option<NewConstraint>> {
    let mut constraint = match option {
        ColumnOption::PrimaryKey(key) => of_primary(key)?,
        ColumnOption::Unique(unique) => of_unique(unique)?,
        ColumnOption::Check(check) => of_check(check)?,
        ColumnOption::ForeignKey(key) => of_foreign(key)?,
        _ => return Ok(None),
    };
    match &mut constraint {
        NewConstraint::Primary { columns, name: own } | NewConstraint::Unique { columns, name: own, .. } => {
            *columns = vec![column.to_owned()];
            *own = name.or(own.take());
        }
        NewConstraint::Check { name: own, .. } => *own = name.or(own.take()),
        NewConstraint::Foreign(key) => {
            key.columns = vec![column.to_owned()];
            key.name = name.or(key.name.take());
        }
    }
    Ok(Some(constraint))
}

/// The constraint a table clause stands for.
///
/// # Errors
/// 0A000 for clauses we do not have.
pub(super) fn of_table(constraint: &TableConstraint) -> SqlResult<NewConstraint> {
    match constraint {
        TableConstraint::PrimaryKey(key) => of_primary(key),
        TableConstraint::Unique(unique) => of_unique(unique),
        TableConstraint::Check(check) => of_check(check),
        TableConstraint::ForeignKey(key) => of_foreign(key),
        TableConstraint::PrimaryKeyUsingIndex(_) | TableConstraint::UniqueUsingIndex(_) => {
            Err(SqlError::unsupported("a constraint USING INDEX"))
        }
        TableConstraint::Index(_) | TableConstraint::FulltextOrSpatial(_) => {
            Err(SqlError::unsupported(format!("the table clause {constraint}")))
        }
    }
}

fn of_primary(key: &ast::PrimaryKeyConstraint) -> SqlResult<NewConstraint> {
    let ast::PrimaryKeyConstraint { name, index_name, index_type, columns, index_options, characteristics } =
        key;
    refuse_index_clauses(index_name.is_some(), index_type.is_some(), index_options)?;
    refuse_deferrable(characteristics.as_ref())?;
    Ok(NewConstraint::Primary { name: name.as_ref().map(fold_ident), columns: key_columns(columns)? })
}

fn of_unique(unique: &ast::UniqueConstraint) -> SqlResult<NewConstraint> {
    let ast::UniqueConstraint {
        name,
        index_name,
        index_type_display: _,
        index_type,
        columns,
        index_options,
        characteristics,
        nulls_distinct,
    } = unique;
    refuse_index_clauses(index_name.is_some(), index_type.is_some(), index_options)?;
    refuse_deferrable(characteristics.as_ref())?;
    Ok(NewConstraint::Unique {
        name: name.as_ref().map(fold_ident),
        columns: key_columns(columns)?,
        nulls_not_distinct: matches!(nulls_distinct, ast::NullsDistinctOption::NotDistinct),
    })
}

fn of_check(check: &ast::CheckConstraint) -> SqlResult<NewConstraint> {
    let ast::CheckConstraint { name, expr, enforced } = check;
    if *enforced == Some(false) {
        return Err(SqlError::unsupported("NOT ENFORCED"));
    }
    Ok(NewConstraint::Check { name: name.as_ref().map(fold_ident), expr: (**expr).clone() })
}

fn of_foreign(key: &ast::ForeignKeyConstraint) -> SqlResult<NewConstraint> {
    let ast::ForeignKeyConstraint {
        name,
        index_name,
        columns,
        foreign_table,
        referred_columns,
        on_delete,
        on_update,
        match_kind,
        characteristics,
    } = key;
    refuse_index_clauses(index_name.is_some(), false, &[])?;
    let (deferrable, initially_deferred) = as_written(characteristics.as_ref())?;
    let match_type = match match_kind {
        None | Some(ast::ConstraintReferenceMatchKind::Simple) => MatchType::Simple,
        Some(ast::ConstraintReferenceMatchKind::Full) => MatchType::Full,
        Some(ast::ConstraintReferenceMatchKind::Partial) => {
            return Err(SqlError::unsupported("MATCH PARTIAL"));
        }
    };
    Ok(NewConstraint::Foreign(Box::new(NewReference {
        name: name.as_ref().map(fold_ident),
        columns: fold_all(columns),
        table: foreign_table.clone(),
        referenced: fold_all(referred_columns),
        on_delete: action(on_delete.as_ref()),
        on_update: action(on_update.as_ref()),
        match_type,
        deferral: deferral(deferrable, initially_deferred)?,
    })))
}

fn action(action: Option<&ast::ReferentialAction>) -> ReferentialAction {
    match action {
        None | Some(ast::ReferentialAction::NoAction) => ReferentialAction::NoAction,
        Some(ast::ReferentialAction::Restrict) => ReferentialAction::Restrict,
        Some(ast::ReferentialAction::Cascade) => ReferentialAction::Cascade,
        Some(ast::ReferentialAction::SetNull) => ReferentialAction::SetNull,
        Some(ast::ReferentialAction::SetDefault) => ReferentialAction::SetDefault,
    }
}

fn refuse_index_clauses(name: bool, ty: bool, options: &[ast::IndexOption]) -> SqlResult<()> {
    match (name, ty, options) {
        (false, false, []) => Ok(()),
        _ => Err(SqlError::unsupported("an index name, type or option in a constraint")),
    }
}

/// DEFERRABLE and INITIALLY DEFERRED, as far as they are said.
fn as_written(
    characteristics: Option<&ast::ConstraintCharacteristics>,
) -> SqlResult<(Option<bool>, Option<bool>)> {
    let Some(ast::ConstraintCharacteristics { deferrable, initially, enforced }) = characteristics else {
        return Ok((None, None));
    };
    if *enforced == Some(false) {
        return Err(SqlError::unsupported("NOT ENFORCED"));
    }
    let deferred = initially.as_ref().map(|initially| matches!(initially, ast::DeferrableInitial::Deferred));
    Ok((*deferrable, deferred))
}

/// When a constraint is checked of which this is said.
///
/// # Errors
/// 42601 where the two contradict each other.
fn deferral(deferrable: Option<bool>, initially_deferred: Option<bool>) -> SqlResult<Deferral> {
    match (deferrable, initially_deferred.unwrap_or(false)) {
        (Some(false), true) => Err(SqlError::new(
            SqlState::SYNTAX_ERROR,
            "constraint declared INITIALLY DEFERRED must be DEFERRABLE",
        )),
        (_, true) => Ok(Deferral::InitiallyDeferred),
        (Some(true), false) => Ok(Deferral::InitiallyImmediate),
        (Some(false) | None, false) => Ok(Deferral::NotDeferrable),
    }
}

/// Unique constraints are checked at once; saying so is fine.
fn refuse_deferrable(characteristics: Option<&ast::ConstraintCharacteristics>) -> SqlResult<()> {
    let (deferrable, initially_deferred) = as_written(characteristics)?;
    match deferral(deferrable, initially_deferred)? {
        Deferral::NotDeferrable => Ok(()),
        _ => Err(SqlError::unsupported("a deferrable unique constraint")),
    }
}

fn key_columns(columns: &[ast::IndexColumn]) -> SqlResult<Vec<String>> {
    columns
        .iter()
        .map(|column| {
            let ast::IndexColumn { column, operator_class } = column;
            let ast::OrderByExpr { expr, options, with_fill } = column;
            match expr {
                ast::Expr::Identifier(ident)
                    if operator_class.is_none()
                        && with_fill.is_none()
                        && options.asc.is_none()
                        && options.nulls_first.is_none() =>
                {
                    Ok(fold_ident(ident))
                }
                _ => {
                    Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("syntax error at or near \"{expr}\"")))
                }
            }
        })
        .collect()
}

/// Adds a constraint to a table.
///
/// # Errors
/// 42703 for an unknown column, 42701 for one named twice, those of the tenant, and of rows that break it.
pub(super) fn add(
    session: &mut Session,
    home: &mut Home<'_>,
    oid: Oid,
    constraint: NewConstraint,
    rows: RowsNow,
) -> Result<(), Pause> {
    let names = session.names(home);
    let table = names.catalog.table(oid).cloned().ok_or_else(|| SqlError::internal("the table is gone"))?;
    if rows == RowsNow::NotValid
        && let Some(kind) = match &constraint {
            NewConstraint::Primary { .. } => Some("PRIMARY KEY"),
            NewConstraint::Unique { .. } => Some("UNIQUE"),
            NewConstraint::Check { .. } | NewConstraint::Foreign(_) => None,
        }
    {
        let message = format!("{kind} constraints cannot be marked NOT VALID");
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).into());
    }
    match constraint {
        NewConstraint::Primary { name, columns } => {
            let columns = positions(&table, &columns, "primary key")?;
            let new = NewUnique { name, columns, nulls_not_distinct: false };
            session.ddl(home, |ddl| ddl.add_primary_key(oid, new))?;
        }
        NewConstraint::Unique { name, columns, nulls_not_distinct } => {
            let columns = positions(&table, &columns, "unique constraint")?;
            let new = NewUnique { name, columns, nulls_not_distinct };
            session.ddl(home, |ddl| ddl.add_unique(oid, new))?;
        }
        NewConstraint::Check { name, expr } => add_check(session, home, &names, &table, name, expr, rows)?,
        NewConstraint::Foreign(key) => {
            let new = resolve_reference(session, &names, &table, &key, rows)?;
            session.ddl(home, |ddl| ddl.add_foreign_key(oid, new))?;
        }
    }
    Ok(())
}

fn positions(table: &Table, columns: &[String], what: &str) -> SqlResult<Vec<usize>> {
    let mut found = Vec::with_capacity(columns.len());
    for name in columns {
        let Some((position, _)) = table.column(name) else {
            let message = format!("column \"{name}\" named in key does not exist");
            return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message));
        };
        if found.contains(&position) {
            let message = format!("column \"{name}\" appears twice in {what}");
            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
        }
        found.push(position);
    }
    Ok(found)
}

fn resolve_reference(
    session: &Session,
    names: &Names,
    table: &Table,
    key: &NewReference,
    rows: RowsNow,
) -> SqlResult<NewForeignKey> {
    let column = |table: &Table, name: &String| {
        table.column(name).map(|(position, _)| position).ok_or_else(|| {
            let message = format!("column \"{name}\" referenced in foreign key constraint does not exist");
            SqlError::new(SqlState::UNDEFINED_COLUMN, message)
        })
    };
    let (schema, name) = split(&key.table)?;
    names.relation(schema.as_deref(), &name)?;
    let referenced = names.catalog.resolve_table(schema.as_deref(), &name, &names.path).map_err(|_| {
        SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("referenced relation \"{name}\" is not a table"))
    })?;
    session.check_privilege(&names.catalog, referenced.oid, Privileges::REFERENCES)?;
    let columns = key.columns.iter().map(|name| column(table, name)).collect::<SqlResult<_>>()?;
    let referenced_columns: Vec<usize> =
        key.referenced.iter().map(|name| column(referenced, name)).collect::<SqlResult<_>>()?;
    Ok(NewForeignKey {
        name: key.name.clone(),
        columns,
        referenced_table: referenced.oid,
        referenced_columns: (!key.referenced.is_empty()).then_some(referenced_columns),
        on_delete: key.on_delete,
        on_update: key.on_update,
        match_type: key.match_type,
        deferral: key.deferral,
        rows,
    })
}

fn add_check(
    session: &mut Session,
    home: &mut Home<'_>,
    names: &Names,
    table: &Table,
    name: Option<String>,
    mut expr: ast::Expr,
    rows: RowsNow,
) -> Result<(), Pause> {
    unqualify(&mut expr, &table.name);
    let bound = bind_check(names, table, &expr)?;
    let columns = bound.columns_used();
    let bind = |expr: &ast::Expr, format: &FormatContext| bind_check_under(format, table, expr);
    let expr = fixed(&expr, &names.format, &bind)?;
    let text = kept_text::kept(&names.catalog, &names.path, &expr);
    let validated = rows != RowsNow::NotValid;
    let oid = session.ddl(home, |ddl| ddl.add_check(table.oid, name, &text, columns, validated))?;
    if rows == RowsNow::Checked { check_rows(session, home, table, &bound, oid) } else { Ok(()) }
}

/// Looks whether all rows satisfy a CHECK of their table, which is locked against changes.
///
/// # Errors
/// 23514.
fn check_rows(
    session: &mut Session,
    home: &mut Home<'_>,
    table: &Table,
    bound: &BoundExpr,
    oid: Oid,
) -> Result<(), Pause> {
    let mut broken = false;
    session
        .check_each_row(home, table.oid, &mut |row| {
            broken = eval_bool(bound, row)? == Some(false);
            // The scan is over as soon as one row breaks it.
            if broken { Err(EvalError::Sql(violated(table, ""))) } else { Ok(()) }
        })
        .map_err(|pause| {
            if broken { violated(table, &check_name(session, home, table.oid, oid)).into() } else { pause }
        })
}

fn check_name(session: &mut Session, home: &Home<'_>, table: Oid, check: Oid) -> String {
    let names = session.names(home);
    let checks = names.catalog.table(table).map(|table| table.checks.as_slice()).unwrap_or_default();
    checks.iter().find(|c| c.oid == check).map_or_else(String::new, |c| c.name.to_string())
}

pub(super) fn violated(table: &Table, name: &str) -> SqlError {
    let message =
        format!("check constraint \"{name}\" of relation \"{}\" is violated by some row", table.name);
    SqlError::new(SqlState::CHECK_VIOLATION, message).with_table(table.name.as_str()).with_constraint(name)
}

/// Binds a CHECK's condition to its table.
///
/// # Errors
/// Those of binding; 42804 unless it is boolean.
pub(super) fn bind_check(names: &Names, table: &Table, expr: &ast::Expr) -> SqlResult<BoundExpr> {
    bind_check_under(&names.format, table, expr)
}

fn bind_check_under(format: &FormatContext, table: &Table, expr: &ast::Expr) -> SqlResult<BoundExpr> {
    let params = ParamTypes::none();
    let context = BindContext::simple(&params, format, "check constraints");
    bind_condition(expr, &scope_of(table), &context, "CHECK")
}

/// A table's columns, in row order.
pub(super) fn scope_of(table: &Table) -> TableScope<'_> {
    let columns = table.columns.iter().map(|column| {
        let name = if column.dropped { "" } else { column.name.as_str() };
        (name, column.ty, column.typmod)
    });
    TableScope { table: &table.name, columns: columns.collect() }
}

/// Takes the table's own name off its columns, and its schema's, so that the text outlives a renaming of the table.
pub(super) fn unqualify(expr: &mut ast::Expr, table: &str) {
    let column_of = |names: &[ast::Ident]| match names {
        [.., qualifier, column] if fold_ident(qualifier) == table => Some(column.clone()),
        _ => None,
    };
    let _ = ast::visit_expressions_mut(expr, |expr| {
        match expr {
            ast::Expr::CompoundIdentifier(names) => {
                if let Some(column) = column_of(names) {
                    *expr = ast::Expr::Identifier(column);
                }
            }
            // The names before the first subscript: `t.a[1]`.
            ast::Expr::CompoundFieldAccess { root, access_chain } => {
                let mut names = Vec::new();
                if let ast::Expr::Identifier(first) = &**root {
                    names.push(first.clone());
                    names.extend(access_chain.iter().map_while(|access| match access {
                        ast::AccessExpr::Dot(ast::Expr::Identifier(name)) => Some(name.clone()),
                        _ => None,
                    }));
                }
                if let Some(column) = column_of(&names) {
                    access_chain.drain(..names.len() - 1);
                    **root = ast::Expr::Identifier(column);
                }
            }
            _ => {}
        }
        std::ops::ControlFlow::<()>::Continue(())
    });
}
