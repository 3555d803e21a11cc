//! What ALTER TABLE says of storage, statistics, the order of rows and replication: taken from who may say it, of what is there, and without an effect.

use base::{SqlError, SqlState};

use super::names::{ALTER_TABLE, altered_table, column_of};
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
    let Some((_, table)) = altered_table(session, home, &statement.table, out)? else {
        return Ok(ALTER_TABLE.into());
    };
    match &statement.of {
        Tuned::Table => {}
        Tuned::Index(index) => {
            if !table.indexes.iter().any(|own| own.name == index.as_str()) {
                let message = format!("index \"{index}\" for table \"{}\" does not exist", table.name);
                return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message).into());
            }
        }
        Tuned::Column { name, is_moved } => {
            let ty = table.columns[column_of(&table, name)?].ty;
            if *is_moved && ty.type_len() >= 0 {
                let message = format!("column data type {} can only have storage PLAIN", ty.name());
                return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).into());
            }
        }
    }
    Ok(ALTER_TABLE.into())
}
