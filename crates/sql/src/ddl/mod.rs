//! Statements that change the catalog.
//!
//! Each reads its syntax node to the last clause (one that nothing honours is an error), looks names up, checks what the role
//! may do, and puts the change together from the tenant's primitives. A statement that must wait is taken back as a whole by
//! the session and run again, so nothing here keeps state between steps.

mod alter_table;
mod alter_type;
mod column;
mod constraint;
mod create_table;
mod create_table_as;
mod drop;
mod enum_type;
mod extension;
mod fixed_literals;
mod generated;
mod grouped_key;
mod identity;
mod index;
mod like;
mod names;
mod object;
mod schema;
mod sequence;
mod statistics;
mod storage_parameters;
#[cfg(test)]
mod tests;
mod truncate;
mod tuning;
mod view;
mod view_columns;

use base::SqlError;
use sqlparser::ast::{ObjectType, Statement};

use crate::parse::is_concurrent;
use crate::session::{Home, Pause, Reply, Session};

pub(crate) use constraint::{alter as alter_constraint, set_constraints};
pub(crate) use drop::run_owned as drop_owned;
pub(crate) use extension::{create as create_extension, drop_all as drop_extensions};
pub(crate) use generated::drop_expression;
pub(crate) use identity::add_identity;
pub(crate) use names::Names;
pub(crate) use object::{comment, reassign_owned, rename, set_owner, set_schema};
pub(crate) use sequence::{alter_sequence, create_sequence};
pub(crate) use statistics::{Analysis, analyze};
pub(crate) use tuning::run as tune;

/// Runs a statement that is neither a query nor DML; its command tag.
///
/// # Errors
/// 0A000 for a statement we do not have; each statement's own.
pub(crate) fn run(
    session: &mut Session,
    home: &mut Home<'_>,
    statement: &Statement,
    sql: &str,
    out: &mut dyn Reply,
) -> Result<String, Pause> {
    let tag = match statement {
        Statement::CreateTable(_) => "CREATE TABLE",
        Statement::AlterTable(_) => "ALTER TABLE",
        Statement::CreateIndex(_) => "CREATE INDEX",
        Statement::CreateView(_) => "CREATE VIEW",
        Statement::CreateType { .. } => "CREATE TYPE",
        Statement::AlterType(_) => "ALTER TYPE",
        Statement::CreateSchema { .. } => "CREATE SCHEMA",
        Statement::Truncate(_) => "TRUNCATE TABLE",
        Statement::Drop { object_type, .. } => drop::tag(object_type)?,
        _ => return Err(SqlError::unsupported(first_words(sql)).into()),
    };
    session.require_writable(home, tag)?;
    match statement {
        Statement::CreateTable(create) => return create_table::run(session, home, create, out),
        Statement::AlterTable(alter) => alter_table::run(session, home, alter, out)?,
        Statement::CreateIndex(create) => index::create(session, home, create, out)?,
        Statement::CreateView(create) => view::create(session, home, create, out)?,
        Statement::CreateType { name, representation } => {
            enum_type::create(session, home, name, representation.as_ref())?;
        }
        Statement::AlterType(alter) => enum_type::alter(session, home, alter, out)?,
        Statement::CreateSchema { .. } => schema::create(session, home, statement, out)?,
        Statement::Truncate(truncate) => truncate::run(session, home, truncate, out)?,
        Statement::Drop { .. } => drop::run(session, home, statement, out)?,
        _ => unreachable!("the statements are those matched above"),
    }
    Ok(tag.into())
}

/// What a statement is called that runs in no transaction block, since PostgreSQL's takes several transactions.
pub(crate) fn stands_alone(statement: &Statement) -> Option<&'static str> {
    match statement {
        Statement::CreateIndex(create) if create.concurrently => Some("CREATE INDEX CONCURRENTLY"),
        Statement::Drop { object_type: ObjectType::Index, table: Some(mark), .. } if is_concurrent(mark) => {
            Some("DROP INDEX CONCURRENTLY")
        }
        _ => None,
    }
}

/// What a statement calls itself: its first two words.
fn first_words(sql: &str) -> String {
    let words: Vec<&str> =
        sql.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|w| !w.is_empty()).take(2).collect();
    words.join(" ").to_uppercase()
}
