//! ALTER TABLE … ADD GENERATED … AS IDENTITY.

use std::sync::Arc;

use base::{SqlError, SqlState};
use tenant::catalog::{Identity, Table};

use super::column::{self, ColumnSequence};
use super::names::{ALTER_TABLE, Names, altered_table, column_of, split_parts};
use crate::parse::AddIdentity;
use crate::session::{Home, Pause, Reply, Session};

/// Runs the statement that does nothing else; the sequence may be named in it.
pub(crate) fn add_identity(
    session: &mut Session,
    home: &mut Home<'_>,
    statement: &AddIdentity,
    out: &mut dyn Reply,
) -> Result<String, Pause> {
    let Some((names, table)) = altered_table(session, home, &statement.table, out)? else {
        return Ok(ALTER_TABLE.into());
    };
    let position = column_of(&table, &statement.column)?;
    let kind = if statement.always { Identity::Always } else { Identity::ByDefault };
    let mut sequence = column::identity_sequence(table.columns[position].ty, kind, &statement.options)?;
    if let Some(parts) = &statement.sequence {
        let (schema, name) = split_parts(parts.clone())?;
        let schema = match schema {
            Some(schema) => names.creation_schema(session, Some(&schema))?,
            None => table.schema,
        };
        sequence.name = Some((schema, name));
    }
    add(session, home, &names, &table, position, &sequence)?;
    Ok(ALTER_TABLE.into())
}

/// Makes a column an identity column.
///
/// # Errors
/// 55000 unless it is NOT NULL and has no default.
pub(super) fn add(
    session: &mut Session,
    home: &mut Home<'_>,
    names: &Names,
    table: &Arc<Table>,
    position: usize,
    sequence: &ColumnSequence,
) -> Result<(), Pause> {
    let mut column = table.columns[position].clone();
    let of = format!("column \"{}\" of relation \"{}\"", column.name, table.name);
    let state = SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE;
    if column.identity.is_some() {
        return Err(SqlError::new(state, format!("{of} is already an identity column")).into());
    }
    if column.default.is_some() {
        return Err(SqlError::new(state, format!("{of} already has a default value")).into());
    }
    if !column.not_null {
        let message = format!("{of} must be declared NOT NULL before identity can be added");
        return Err(SqlError::new(state, message).into());
    }
    session.ddl(home, |ddl| {
        let made = sequence.create(ddl, names, table.schema, table.owner, &table.name, &mut column)?;
        ddl.set_column_sequence(table.oid, position, Some(made))?;
        ddl.set_identity(table.oid, position, sequence.identity)?;
        let table = ddl.catalog().table(table.oid).cloned().expect("just changed");
        column::own_sequences(ddl, &table);
        Ok(())
    })
}
