//! Extensions: there is `plpgsql`, as in every database of PostgreSQL, and there are no others.

use base::{SqlError, SqlResult, SqlState};

use super::names::{notice, skip_missing};
use crate::session::{Reply, Session};

const PLPGSQL: &str = "plpgsql";

/// `CREATE EXTENSION`.
///
/// # Errors
/// 42710 for the one that there is, 0A000 for others.
pub(crate) fn create(
    session: &Session,
    name: &str,
    if_not_exists: bool,
    out: &mut dyn Reply,
) -> SqlResult<()> {
    if name != PLPGSQL {
        let message = format!("extension \"{name}\" is not available");
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
            .with_detail("Rowhouse has no extensions: what it has is built in.")
            .with_hint("gen_random_uuid() is there without an extension."));
    }
    let message = format!("extension \"{name}\" already exists");
    if if_not_exists {
        notice(session, SqlState::DUPLICATE_OBJECT, format!("{message}, skipping"), out);
        return Ok(());
    }
    Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message))
}

/// `DROP EXTENSION`.
///
/// # Errors
/// 42704 for one that is not there, 0A000 for the one that is.
pub(crate) fn drop_all(
    session: &Session,
    names: &[String],
    if_exists: bool,
    out: &mut dyn Reply,
) -> SqlResult<()> {
    for name in names {
        if name == PLPGSQL {
            return Err(SqlError::unsupported("DROP EXTENSION plpgsql"));
        }
        if !if_exists {
            return Err(super::names::missing("extension", name));
        }
        skip_missing(session, "extension", name, out);
    }
    Ok(())
}
