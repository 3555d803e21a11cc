//! Utility.
use super::run::{Ran, Run};
use super::*;
pub(super) fn host_fields(_s: &HostStatement) -> Vec<Field> {
    Vec::new()
}
pub(super) fn lock_rows(_t: &Tenant) -> Vec<LockRow> {
    Vec::new()
}
impl Session {
    pub(super) fn host_statement(
        &mut self,
        _s: &HostStatement,
        _r: &Run<'_>,
        _o: &mut dyn Reply,
    ) -> Result<Ran, Pause> {
        Err(SqlError::unsupported("host").into())
    }
    pub(super) fn utility_statement(
        &mut self,
        _h: &mut Home<'_>,
        _s: &crate::parse::Utility,
        _o: &mut dyn Reply,
    ) -> Result<String, Pause> {
        Err(SqlError::unsupported("host").into())
    }
}
