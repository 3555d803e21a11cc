//! DDL.
use crate::session::{Home, Pause, Reply, Session};
pub(crate) fn run(
    _s: &mut Session,
    _h: &mut Home<'_>,
    _st: &sqlparser::ast::Statement,
    _sql: &str,
    _o: &mut dyn Reply,
) -> Result<String, Pause> {
    Err(base::SqlError::unsupported("ddl").into())
}
pub(crate) fn alter_sequence(
    _s: &mut Session,
    _h: &mut Home<'_>,
    _st: &crate::parse::AlterSequence,
) -> Result<String, Pause> {
    Err(base::SqlError::unsupported("ddl").into())
}
