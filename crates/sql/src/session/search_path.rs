//! How long a `search_path` may be: all of it is looked up anew whenever a setting or the catalog has changed, and by each call of `current_schema`, without
//! a turn for others in between.

use base::{SqlError, SqlResult, SqlState};

use super::setting::split_identifiers;

const NAMES_MAX: usize = 256;
/// Of the text as it is set.
const LEN_MAX: usize = 32 << 10;

/// # Errors
/// 54000 for one that is longer.
pub(super) fn check(path: &str) -> SqlResult<()> {
    if path.len() <= LEN_MAX && split_identifiers(path).len() <= NAMES_MAX {
        return Ok(());
    }
    Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "the search path is too long")
        .with_detail(format!("It has at most {NAMES_MAX} names, and at most {LEN_MAX} bytes.")))
}
