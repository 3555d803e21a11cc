//! CREATE TABLE.

use std::sync::Arc;

use base::{Oid, SqlError, SqlResult, SqlState};
use sqlparser::ast;
use sqlparser::ast::helpers::stmt_create_table::CreateTableBuilder;
use tenant::catalog::Table;
use tenant::ddl::{NewTable, RowsNow};

use super::column::{self, ColumnSequence, NewColumn, own_sequences};
use super::constraint::{self, NewConstraint};
use super::names::{Names, notice, split};
use super::{create_table_as, generated, like, storage_parameters};
use crate::parse::like_clause;
use crate::session::{Home, Pause, Reply, Session};

/// Runs a CREATE TABLE; its command tag.
pub(super) fn run(
    session: &mut Session,
    home: &mut Home<'_>,
    create: &ast::CreateTable,
    out: &mut dyn Reply,
) -> Result<String, Pause> {
    refuse_clauses(create)?;
    let names = session.names(home);
    let (schema, name) = split(&create.name)?;
    let schema = names.creation_schema(session, schema.as_deref())?;
    if create.if_not_exists && names.catalog.relation_in(schema, &name).is_some() {
        let message = format!("relation \"{name}\" already exists, skipping");
        notice(session, SqlState::DUPLICATE_TABLE, message, out);
        return Ok(if create.query.is_some() { "CREATE TABLE AS" } else { "CREATE TABLE" }.into());
    }
    if let Some(query) = &create.query {
        return create_table_as::run(session, home, create, query, schema, &name);
    }
    let mut columns = Vec::with_capacity(create.columns.len());
    let mut constraints = Vec::new();
    let mut likes = Vec::new();
    for definition in &create.columns {
        if let Some(clause) = like_clause(definition) {
            likes.push(like::add_columns(session, &names, &clause, &mut columns, &mut constraints)?);
            continue;
        }
        let mut new = column::define(&names, &name, definition)?;
        constraints.append(&mut new.constraints);
        columns.push(new);
    }
    generated::resolve(&names, &name, &mut columns)?;
    for constraint in &create.constraints {
        constraints.push(constraint::of_table(constraint)?);
    }
    if constraints.iter().filter(|c| matches!(c, NewConstraint::Primary { .. })).count() > 1 {
        let message = format!("multiple primary keys for table \"{name}\" are not allowed");
        return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message).into());
    }
    let oid = make(session, home, &names, schema, &name, columns)?;
    for constraint in constraint::in_order(constraints) {
        constraint::add(session, home, oid, constraint, RowsNow::Absent)?;
    }
    for like in &likes {
        like.finish(session, home, oid)?;
    }
    Ok("CREATE TABLE".into())
}

/// Makes the table with its columns and their sequences.
pub(super) fn make(
    session: &mut Session,
    home: &mut Home<'_>,
    names: &Names,
    schema: Oid,
    name: &str,
    columns: Vec<NewColumn>,
) -> Result<Oid, Pause> {
    let owner = session.role();
    let (mut columns, sequences): (Vec<_>, Vec<Option<ColumnSequence>>) =
        columns.into_iter().map(|new| (new.column, new.sequence)).unzip();
    session.ddl(home, |ddl| {
        if ddl.catalog().relation_in(schema, name).is_some() {
            let message = format!("relation \"{name}\" already exists");
            return Err(SqlError::new(SqlState::DUPLICATE_TABLE, message).into());
        }
        for (column, sequence) in columns.iter_mut().zip(&sequences) {
            if let Some(sequence) = sequence {
                sequence.create(ddl, names, schema, owner, name, column)?;
            }
        }
        let oid = ddl.create_table(NewTable { schema, name: name.to_owned(), owner, columns })?;
        let table: Arc<Table> = ddl.catalog().table(oid).cloned().expect("just made");
        own_sequences(ddl, &table);
        Ok(oid)
    })
}

/// Every clause but those [`run`] reads must be absent.
fn refuse_clauses(create: &ast::CreateTable) -> SqlResult<()> {
    let named = [
        (create.or_replace, "CREATE OR REPLACE TABLE"),
        (create.temporary, "a temporary table"),
        (create.global.is_some(), "a temporary table"),
        (create.external, "an external table"),
        (create.inherits.is_some(), "INHERITS"),
        (create.partition_by.is_some(), "PARTITION BY"),
        (create.partition_of.is_some(), "PARTITION OF"),
        (create.like.is_some(), "CREATE TABLE … LIKE"),
        (create.on_commit.is_some(), "ON COMMIT"),
    ];
    if let Some((_, what)) = named.iter().find(|(present, _)| *present) {
        return Err(SqlError::unsupported(what));
    }
    storage_parameters::check(&create.table_options)?;
    // Whatever else the syntax node can hold belongs to other databases: nothing of it may be set.
    let plain = CreateTableBuilder::new(create.name.clone())
        .columns(create.columns.clone())
        .constraints(create.constraints.clone())
        .if_not_exists(create.if_not_exists)
        .table_options(create.table_options.clone())
        .query(create.query.clone())
        .hive_formats(create.hive_formats.clone().filter(is_empty_hive_format))
        .build();
    if plain != *create {
        return Err(SqlError::unsupported("this clause of CREATE TABLE"));
    }
    Ok(())
}

/// The parser leaves an empty one where nothing was written.
fn is_empty_hive_format(format: &ast::HiveFormat) -> bool {
    *format == ast::HiveFormat::default()
}
