//! Refusals of clauses that parse but that nothing here honours.

use base::{SqlError, SqlResult};

/// 0A000 unless the clause is absent.
pub(super) fn refuse(present: bool, what: &str) -> SqlResult<()> {
    if present { Err(SqlError::unsupported(what)) } else { Ok(()) }
}
