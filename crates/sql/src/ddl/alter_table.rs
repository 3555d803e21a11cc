//! ALTER TABLE.
//!
//! The operations of one statement run in PostgreSQL's order, not in the written one: what drops comes first, then types, new
//! columns, their properties, and constraints last.

use std::sync::Arc;

use base::{Oid, SqlError, SqlResult, SqlState};
use sqlparser::ast::{self, AlterColumnOperation, AlterTableOperation as Op};
use tenant::catalog::{Column, Relation, Table};
use tenant::ddl::{Behavior, Ddl, RowsNow};
use types::Datum;

use super::alter_type::{self, TypeChange};
use super::column::{self, NewColumn};
use super::constraint::{self, NewConstraint};
use super::drop::tell_cascade;
use super::names::{Names, column_of, missing, notice, skip_missing, split};
use super::{generated, identity, object, storage_parameters};
use crate::MemoryBound;
use crate::expr::{Volatility, fold_ident};
use crate::parse::parse_expression;
use crate::session::{Home, Pause, Reply, Session};

pub(super) fn run(
    session: &mut Session,
    home: &mut Home<'_>,
    alter: &ast::AlterTable,
    out: &mut dyn Reply,
) -> Result<(), Pause> {
    let ast::AlterTable {
        name,
        if_exists,
        only: _,
        operations,
        location,
        on_cluster,
        table_type,
        end_token: _,
    } = alter;
    if location.is_some() || on_cluster.is_some() || table_type.is_some() {
        return Err(SqlError::unsupported("this form of ALTER TABLE").into());
    }
    let names = session.names(home);
    let (schema, own) = split(name)?;
    if let Err(error) = names.require_schema(schema.as_deref()) {
        if *if_exists {
            skip_missing(session, "relation", &own, out);
            return Ok(());
        }
        return Err(error.into());
    }
    let relation = match names.catalog.find_relation(schema.as_deref(), &own, &names.path) {
        Some(relation) => relation.clone(),
        None if *if_exists => {
            skip_missing(session, "relation", &own, out);
            return Ok(());
        }
        None => {
            let full = schema.map_or(own.clone(), |schema| format!("{schema}.{own}"));
            return Err(missing("relation", &full).into());
        }
    };
    session.check_owner(&names.catalog, relation.owner(), relation.kind(), &own)?;
    let Relation::Table(table) = relation else {
        return other_relation(session, home, &relation, operations);
    };
    session.with_view(home, |view| Ok(view.require_none_due(&table, "ALTER TABLE")?))?;
    let mut ordered: Vec<&Op> = operations.iter().collect();
    ordered.sort_by_key(|operation| pass(operation));
    let (before, ordered) = ordered.split_at(ordered.partition_point(|operation| pass(operation) < TYPES));
    let (types, others) = ordered.split_at(ordered.partition_point(|operation| pass(operation) == TYPES));
    before.iter().try_for_each(|operation| one(session, home, table.oid, operation, out))?;
    if !types.is_empty() {
        retype(session, home, table.oid, types)?;
    }
    others.iter().try_for_each(|operation| one(session, home, table.oid, operation, out))
}

/// Gives columns their new types, all at once: what USING says is about the row as it was.
fn retype(session: &mut Session, home: &mut Home<'_>, oid: Oid, operations: &[&Op]) -> Result<(), Pause> {
    let names = session.names(home);
    let table = table_of(&names, oid)?;
    let mut changes: Vec<TypeChange<'_>> = Vec::with_capacity(operations.len());
    for operation in operations {
        let Op::AlterColumn {
            column_name,
            op: AlterColumnOperation::SetDataType { data_type, using, had_set: _ },
        } = operation
        else {
            return Err(SqlError::internal("a change of a type that is none").into());
        };
        let position = column_of(&table, &fold_ident(column_name))?;
        if changes.iter().any(|change| change.position == position) {
            let message = format!("cannot alter type of column \"{}\" twice", table.columns[position].name);
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).into());
        }
        changes.push(TypeChange { position, data_type, using: using.as_ref() });
    }
    alter_type::run(session, home, &names, &table, &changes)?;
    // Where no row was rewritten, every value is what it was.
    if table_of(&session.names(home), oid)?.tree == table.tree {
        return Ok(());
    }
    let retyped: Vec<usize> = changes.iter().map(|change| change.position).collect();
    session.ddl(home, |ddl| ddl.recheck_foreign_keys(oid, &retyped))
}

/// The pass in which columns get other types.
const TYPES: u8 = 1;

/// PostgreSQL's passes over a statement's operations.
fn pass(operation: &Op) -> u8 {
    match operation {
        Op::DropColumn { .. } | Op::DropConstraint { .. } => 0,
        Op::AlterColumn { op, .. } => match op {
            AlterColumnOperation::SetDataType { .. } => TYPES,
            AlterColumnOperation::DropDefault | AlterColumnOperation::DropNotNull => 0,
            _ => 3,
        },
        Op::AddColumn { .. } => 2,
        Op::AddConstraint { constraint, .. } => match constraint {
            ast::TableConstraint::ForeignKey(_) => 6,
            ast::TableConstraint::Check(_) => 5,
            _ => 4,
        },
        _ => 7,
    }
}

/// ALTER TABLE takes views, sequences and indexes where the operation suits them; what is common to all kinds is read by
/// [`crate::parse::Utility`].
fn other_relation(
    session: &mut Session,
    home: &mut Home<'_>,
    relation: &Relation,
    operations: &[Op],
) -> Result<(), Pause> {
    for operation in operations {
        match operation {
            Op::OwnerTo { new_owner } => change_owner(session, home, relation.oid(), new_owner)?,
            _ => {
                let message = format!("\"{}\" is not a table", relation.name());
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message).into());
            }
        }
    }
    Ok(())
}

fn one(
    session: &mut Session,
    home: &mut Home<'_>,
    oid: Oid,
    operation: &Op,
    out: &mut dyn Reply,
) -> Result<(), Pause> {
    let names = session.names(home);
    let table = table_of(&names, oid)?;
    match operation {
        Op::AddColumn { column_keyword: _, if_not_exists, column_def, column_position } => {
            if column_position.is_some() {
                return Err(SqlError::unsupported("a column's position").into());
            }
            add_column(session, home, &names, &table, *if_not_exists, column_def, out)
        }
        Op::DropColumn { has_column_keyword: _, column_names, if_exists, drop_behavior } => {
            let behavior = behavior(drop_behavior.as_ref());
            for column in column_names {
                let column = fold_ident(column);
                if *if_exists && table.column(&column).is_none() {
                    let message = format!(
                        "column \"{column}\" of relation \"{}\" does not exist, skipping",
                        table.name
                    );
                    notice(session, SqlState::SUCCESSFUL_COMPLETION, message, out);
                    continue;
                }
                let dropped = session.ddl(home, |ddl| ddl.drop_column(oid, &column, behavior))?;
                tell_cascade(session, &dropped, out);
            }
            Ok(())
        }
        Op::RenameColumn { old_column_name, new_column_name } => {
            let (old, new) = (fold_ident(old_column_name), fold_ident(new_column_name));
            object::rename_column(session, home, &names, &table, &old, &new)
        }
        Op::RenameTable { table_name } => {
            let (ast::RenameTableNameKind::As(name) | ast::RenameTableNameKind::To(name)) = table_name;
            let (None, name) = split(name)? else {
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error at or near \".\"").into());
            };
            session.check_create_in(&names.catalog, table.schema)?;
            object::rename_relation(session, home, &names, oid, &name)
        }
        Op::RenameConstraint { old_name, new_name } => {
            let (old, new) = (fold_ident(old_name), fold_ident(new_name));
            session.ddl(home, |ddl| ddl.rename_constraint(oid, &old, &new))
        }
        Op::AddConstraint { constraint, not_valid } => {
            let rows = if *not_valid { RowsNow::NotValid } else { RowsNow::Checked };
            constraint::add(session, home, oid, constraint::of_table(constraint)?, rows)
        }
        Op::DropConstraint { if_exists, name, drop_behavior } => {
            let name = fold_ident(name);
            if *if_exists && !table.has_constraint(&name) {
                let message =
                    format!("constraint \"{name}\" of relation \"{}\" does not exist, skipping", table.name);
                notice(session, SqlState::SUCCESSFUL_COMPLETION, message, out);
                return Ok(());
            }
            let behavior = behavior(drop_behavior.as_ref());
            let dropped = session.ddl(home, |ddl| ddl.drop_constraint(oid, &name, behavior))?;
            tell_cascade(session, &dropped, out);
            Ok(())
        }
        Op::AlterColumn { column_name, op } => {
            let position = column_of(&table, &fold_ident(column_name))?;
            alter_column(session, home, &names, &table, position, op)
        }
        Op::OwnerTo { new_owner } => change_owner(session, home, oid, new_owner),
        Op::SetOptionsParens { options } => {
            options.iter().try_for_each(storage_parameters::check_one)?;
            Ok(())
        }
        Op::ValidateConstraint { name } => {
            constraint::validate(session, home, &names, &table, &fold_ident(name))
        }
        Op::EnableTrigger { name } => trigger(session, home, &table, name, true),
        Op::DisableTrigger { name } => trigger(session, home, &table, name, false),
        other => Err(SqlError::unsupported(format!("ALTER TABLE … {other}")).into()),
    }
}

fn table_of(names: &Names, oid: Oid) -> SqlResult<Arc<Table>> {
    names.catalog.table(oid).cloned().ok_or_else(|| SqlError::internal("the altered table is gone"))
}

pub(super) fn behavior(written: Option<&ast::DropBehavior>) -> Behavior {
    match written {
        Some(ast::DropBehavior::Cascade) => Behavior::Cascade,
        Some(ast::DropBehavior::Restrict) | None => Behavior::Restrict,
    }
}

/// `ENABLE` and `DISABLE TRIGGER`. The triggers that there are watch foreign keys; a user has none.
fn trigger(
    session: &mut Session,
    home: &mut Home<'_>,
    table: &Table,
    name: &ast::Ident,
    enable: bool,
) -> Result<(), Pause> {
    let is_word = |word: &str| name.quote_style.is_none() && name.value.eq_ignore_ascii_case(word);
    if is_word("USER") {
        return Ok(());
    }
    if !is_word("ALL") {
        let name = fold_ident(name);
        let message = format!("trigger \"{name}\" for table \"{}\" does not exist", table.name);
        return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message).into());
    }
    if table.foreign_keys.is_empty() && table.referenced_by.is_empty() {
        return Ok(());
    }
    let names = session.names(home);
    if !session.is_superuser(&names.catalog) {
        let message = "permission denied: foreign keys are watched by system triggers";
        return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message).into());
    }
    session.ddl(home, |ddl| ddl.watch_foreign_keys(table.oid, enable))
}

fn change_owner(
    session: &mut Session,
    home: &mut Home<'_>,
    oid: Oid,
    owner: &ast::Owner,
) -> Result<(), Pause> {
    let owner = match owner {
        ast::Owner::Ident(ident) => fold_ident(ident),
        ast::Owner::CurrentRole | ast::Owner::CurrentUser => "current_user".into(),
        ast::Owner::SessionUser => "session_user".into(),
    };
    let names = session.names(home);
    let owner = session.role_to_own(&names.catalog, &owner)?;
    if let Some(relation) = names.catalog.relation(oid).filter(|relation| relation.owner() != owner) {
        session.check_takes_over(&names.catalog, relation.schema(), owner)?;
    }
    session.ddl(home, |ddl| Ok(ddl.set_owner(oid, owner)?))
}

fn add_column(
    session: &mut Session,
    home: &mut Home<'_>,
    names: &Names,
    table: &Arc<Table>,
    if_not_exists: bool,
    definition: &ast::ColumnDef,
    out: &mut dyn Reply,
) -> Result<(), Pause> {
    let oid = table.oid;
    let exists = |name: &str| {
        let is_there = table.column(name).is_some();
        is_there.then(|| format!("column \"{name}\" of relation \"{}\" already exists", table.name))
    };
    // What else is said of the column does not matter then.
    if let Some(message) = exists(&fold_ident(&definition.name)).filter(|_| if_not_exists) {
        notice(session, SqlState::DUPLICATE_COLUMN, format!("{message}, skipping"), out);
        return Ok(());
    }
    let NewColumn { mut column, default, generated, sequence, constraints } =
        column::define(names, &table.name, definition)?;
    if let Some(message) = exists(&column.name) {
        return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message).into());
    }
    if let Some(expr) = generated {
        let value = generated::resolve_added(names, table, &mut column, &expr)?;
        let values = generated::of_all_rows(session, home, table, &value)?;
        session.ddl(home, |ddl| match values.is_empty() {
            true => add_one(ddl, oid, column),
            false => add_with_values(ddl, oid, column, values),
        })?;
        return add_constraints(session, home, oid, constraints);
    }
    let mut rows = 0;
    let differs = default.as_ref().is_some_and(|default| default.volatility() == Volatility::Volatile);
    if differs || sequence.is_some() {
        session.for_each_row(home, oid, &mut |_| {
            rows += 1;
            Ok(())
        })?;
    }
    let sequence_oid = match &sequence {
        None => None,
        Some(sequence) => Some(session.ddl(home, |ddl| {
            Ok(sequence.create(ddl, names, table.schema, table.owner, &table.name, &mut column)?)
        })?),
    };
    match (&default, sequence_oid) {
        // One value fits all rows: they need not be touched.
        (Some(default), _) if default.volatility() < Volatility::Volatile => {
            let mut values = session.evaluate(home, default, 1)?;
            column.missing = values.pop().filter(|value| !value.is_null()).map(Box::new);
            session.ddl(home, |ddl| add_one(ddl, oid, column))?;
        }
        (Some(default), _) if rows > 0 => {
            let values = session.evaluate(home, default, rows)?;
            session.ddl(home, |ddl| add_with_values(ddl, oid, column, values))?;
        }
        (_, Some(sequence)) if rows > 0 => {
            let wide = column.ty;
            MemoryBound::of_rows(home.tenant.changes_max()).room(rows * size_of::<Datum>())?;
            let values = session.with_view(home, |view| {
                (0..rows)
                    .map(|_| {
                        view.step()?;
                        let next = view.nextval(sequence)?;
                        Ok(super::alter_type::integer(next, wide)?)
                    })
                    .collect::<tenant::Step<Vec<_>>>()
            })?;
            session.ddl(home, |ddl| add_with_values(ddl, oid, column, values))?;
        }
        _ => session.ddl(home, |ddl| add_one(ddl, oid, column))?,
    }
    add_constraints(session, home, oid, constraints)
}

/// Adds what stands beside a new column.
fn add_constraints(
    session: &mut Session,
    home: &mut Home<'_>,
    oid: Oid,
    constraints: Vec<NewConstraint>,
) -> Result<(), Pause> {
    constraint::in_order(constraints)
        .into_iter()
        .try_for_each(|constraint| constraint::add(session, home, oid, constraint, RowsNow::Checked))
}

/// Whether no row that satisfies the condition of a CHECK has NULL in the column.
fn rules_out_null(condition: &ast::Expr, column: &str) -> bool {
    // A chain of ANDs is as deep as it is long.
    let mut parts = vec![condition];
    while let Some(part) = parts.pop() {
        match part {
            ast::Expr::Nested(inner) => parts.push(inner),
            ast::Expr::BinaryOp { left, op: ast::BinaryOperator::And, right } => {
                parts.extend([&**left, &**right])
            }
            ast::Expr::IsNotNull(inner) => {
                if let ast::Expr::Identifier(ident) = &**inner
                    && fold_ident(ident) == column
                {
                    return true;
                }
            }
            _ => {}
        }
    }
    false
}

fn add_one(ddl: &mut Ddl<'_>, oid: Oid, column: Column) -> tenant::Step<()> {
    ddl.add_column(oid, column)?;
    let table = ddl.catalog().table(oid).cloned().expect("just changed");
    column::own_sequences(ddl, &table);
    Ok(())
}

/// Adds a column whose value differs from row to row; the table is rewritten.
fn add_with_values(ddl: &mut Ddl<'_>, oid: Oid, column: Column, values: Vec<Datum>) -> tenant::Step<()> {
    let mut values = values.into_iter();
    ddl.rewrite_table(
        oid,
        |table| {
            table.columns.push(column);
            Ok(())
        },
        &mut |mut row| {
            row.push(
                values.next().ok_or_else(|| SqlError::internal("a row came in while a column was added"))?,
            );
            Ok(row)
        },
    )?;
    let table = ddl.catalog().table(oid).cloned().expect("just changed");
    column::own_sequences(ddl, &table);
    Ok(())
}

fn alter_column(
    session: &mut Session,
    home: &mut Home<'_>,
    names: &Names,
    table: &Arc<Table>,
    position: usize,
    operation: &AlterColumnOperation,
) -> Result<(), Pause> {
    let oid = table.oid;
    let column = &table.columns[position];
    let refuse_identity = || {
        let message =
            format!("column \"{}\" of relation \"{}\" is an identity column", column.name, table.name);
        if column.identity.is_some() { Err(SqlError::new(SqlState::SYNTAX_ERROR, message)) } else { Ok(()) }
    };
    match operation {
        AlterColumnOperation::SetNotNull => {
            let valid =
                table.checks.iter().filter(|check| check.validated && check.columns.contains(&position));
            let mut conditions = valid.map(|check| parse_expression(&check.expression));
            let is_known =
                conditions.any(|check| check.is_ok_and(|check| rules_out_null(&check, &column.name)));
            session.ddl(home, |ddl| match is_known {
                true => ddl.set_known_not_null(oid, position),
                false => ddl.set_not_null(oid, position),
            })
        }
        AlterColumnOperation::DropNotNull => {
            refuse_identity()?;
            session.ddl(home, |ddl| ddl.drop_not_null(oid, position))
        }
        AlterColumnOperation::SetDefault { value } => {
            refuse_identity()?;
            generated::refuse_new_default(table, position, false)?;
            let (text, _) = column::default(names, value, &column.name, column.ty, column.typmod)?;
            session.ddl(home, |ddl| ddl.set_default(oid, position, text.as_deref()))
        }
        AlterColumnOperation::DropDefault => {
            refuse_identity()?;
            generated::refuse_new_default(table, position, true)?;
            session.ddl(home, |ddl| ddl.set_default(oid, position, None))
        }
        AlterColumnOperation::SetDataType { .. } => {
            Err(SqlError::internal("types are changed together").into())
        }
        AlterColumnOperation::AddGenerated { generated_as, sequence_options } => {
            let generated =
                generated_as.as_ref().ok_or_else(|| SqlError::unsupported("this form of ADD GENERATED"))?;
            let kind = column::identity_of(generated)?;
            let sequence = column::identity_sequence(
                column.ty,
                kind,
                &super::sequence::options_of(sequence_options.as_deref())?,
            )?;
            identity::add(session, home, names, table, position, &sequence)
        }
    }
}
