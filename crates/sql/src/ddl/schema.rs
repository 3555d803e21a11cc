//! CREATE SCHEMA.

use base::{SqlError, SqlResult, SqlState};
use sqlparser::ast::{SchemaName, Statement};

use super::names::{notice, parts};
use crate::expr::fold_ident;
use crate::session::{Home, Pause, Reply, Session};

pub(super) fn create(
    session: &mut Session,
    home: &mut Home<'_>,
    statement: &Statement,
    out: &mut dyn Reply,
) -> Result<(), Pause> {
    let Statement::CreateSchema { schema_name, if_not_exists, with, options, default_collate_spec, clone } =
        statement
    else {
        return Err(SqlError::internal("not a CREATE SCHEMA").into());
    };
    if with.is_some() || options.is_some() || default_collate_spec.is_some() || clone.is_some() {
        return Err(SqlError::unsupported("this clause of CREATE SCHEMA").into());
    }
    let (name, owner) = match schema_name {
        SchemaName::Simple(name) => (schema_part(name)?, None),
        SchemaName::UnnamedAuthorization(role) => (fold_ident(role), Some(fold_ident(role))),
        SchemaName::NamedAuthorization(name, role) => (schema_part(name)?, Some(fold_ident(role))),
    };
    let names = session.names(home);
    let owner = match owner {
        None => session.role(),
        Some(role) => session.role_to_own(&names.catalog, &role)?,
    };
    session.check_create_schema(&names.catalog)?;
    if *if_not_exists && names.catalog.schema_named(&name).is_some() {
        let message = format!("schema \"{name}\" already exists, skipping");
        notice(session, SqlState::DUPLICATE_SCHEMA, message, out);
        return Ok(());
    }
    session.ddl(home, |ddl| Ok(ddl.create_schema(&name, owner)?))?;
    Ok(())
}

fn schema_part(name: &sqlparser::ast::ObjectName) -> SqlResult<String> {
    let mut parts = parts(name)?;
    match (parts.pop(), parts.is_empty()) {
        (Some(name), true) => Ok(name),
        _ => Err(SqlError::new(SqlState::SYNTAX_ERROR, "improper schema name")),
    }
}
