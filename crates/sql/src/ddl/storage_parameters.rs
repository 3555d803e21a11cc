//! `WITH (fillfactor = …)` and its kin: parameters of PostgreSQL's heap, which have nothing to act on here.

use base::{SqlError, SqlResult, SqlState};
use sqlparser::ast::{CreateTableOptions, SqlOption};

use crate::expr::fold_ident;

/// Parameters that are taken and have no effect (`docs/sql-compat.md` lists them); those that begin with `autovacuum_` and
/// `toast.` too.
const WITHOUT_EFFECT: &[&str] = &[
    "fillfactor",
    "parallel_workers",
    "toast_tuple_target",
    "vacuum_truncate",
    "vacuum_index_cleanup",
    "log_autovacuum_min_duration",
    "deduplicate_items",
];

/// Checks the options of a table.
///
/// # Errors
/// 22023 for a name that PostgreSQL does not have; 0A000 for other forms of options.
pub(super) fn check(options: &CreateTableOptions) -> SqlResult<()> {
    match options {
        CreateTableOptions::None => Ok(()),
        CreateTableOptions::With(options) => options.iter().try_for_each(check_one),
        CreateTableOptions::Options(_)
        | CreateTableOptions::Plain(_)
        | CreateTableOptions::TableProperties(_) => Err(SqlError::unsupported("this table option")),
    }
}

/// Checks one `name = value`.
pub(super) fn check_one(option: &SqlOption) -> SqlResult<()> {
    match option {
        SqlOption::KeyValue { key, value } => check_value(&fold_ident(key), &value.to_string()),
        SqlOption::Ident(key) => check_value(&fold_ident(key), "true"),
        _ => Err(SqlError::unsupported(format!("the table option {option}"))),
    }
}

pub(super) fn check_value(name: &str, value: &str) -> SqlResult<()> {
    if name == "oids" && !matches!(value.trim_matches('\''), "false" | "off" | "0") {
        return Err(SqlError::unsupported("tables declared WITH OIDS"));
    }
    if name == "fillfactor" {
        let factor: i64 = value.trim_matches('\'').parse().map_err(|_| {
            let message = format!("invalid value for integer option \"fillfactor\": {value}");
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
        })?;
        if !(10..=100).contains(&factor) {
            let message = format!("value {factor} out of bounds for option \"fillfactor\"");
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
                .with_detail("Valid values are between \"10\" and \"100\"."));
        }
    }
    if name == "oids"
        || name.starts_with("autovacuum_")
        || name.starts_with("toast.")
        || WITHOUT_EFFECT.contains(&name)
    {
        return Ok(());
    }
    Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("unrecognized parameter \"{name}\"")))
}
