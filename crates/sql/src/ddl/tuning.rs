//! What ALTER TABLE says of storage, statistics, the order of rows and replication: taken from who may say it, of what is there, and without an effect.

use base::{SqlError, SqlState};

use super::names::{column_of, skip_missing, split_parts};
use crate::parse::{Tuned, Tuning};
use crate::session::{Home, Pause, Reply, Session};

/// # Errors
/// 42P01, 42809, 42501; 42703 and 42704 for a column and an index that are not there; 0A000 for a storage that the column's type does not have.
pub(crate) fn run(
    session: &mut Session,
    home: &mut Home<'_>,
    statement: &Tuning,
    out: &mut dyn Reply,
) -> Result<String, Pause> {
    const TAG: &str = "ALTER TABLE";
    session.require_writable(home, TAG)?;
    let names = session.names(home);
    let (schema, name) = split_parts(statement.table.clone())?;
    if statement.if_exists && names.catalog.find_relation(schema.as_deref(), &name, &names.path).is_none() {
        skip_missing(session, "relation", &name, out);
        return Ok(TAG.into());
    }
    names.require_schema(schema.as_deref())?;
    let table = names.catalog.resolve_table(schema.as_deref(), &name, &names.path)?;
    session.check_owner(&names.catalog, table.owner, "table", &table.name)?;
    match &statement.of {
        Tuned::Table => {}
        Tuned::Index(index) => {
            if !table.indexes.iter().any(|own| own.name == index.as_str()) {
                let message = format!("index \"{index}\" for table \"{}\" does not exist", table.name);
                return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message).into());
            }
        }
        Tuned::Column { name, is_moved } => {
            let ty = table.columns[column_of(table, name)?].ty;
            if *is_moved && ty.type_len() >= 0 {
                let message = format!("column data type {} can only have storage PLAIN", ty.name());
                return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).into());
            }
        }
    }
    Ok(TAG.into())
}
