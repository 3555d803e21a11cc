//! CREATE TENANT … FROM TEMPLATE.

use std::sync::Arc;

use base::{SqlError, SqlResult, SqlState};
use sql::session::HostStatement;

use super::super::restoring::{self, Restoring};
use super::{check_name, skipped};
use crate::shared::Shared;

/// A copy that was begun.
pub(crate) struct TemplateCopy {
    /// The new tenant's.
    pub(crate) name: String,
    /// What makes it, or what is said instead: it is there already, which was asked for.
    pub(crate) making: Result<Restoring, SqlError>,
}

/// Begins to make a tenant from another one.
///
/// # Errors
/// 0A000 for an owner or a password: the template's roles are copied. 42P04 or 42602 for the name, 3D000 for the template, those of the
/// options.
///
/// # Panics
/// `statement` is another one.
pub(crate) fn begin(shared: &Arc<Shared>, statement: HostStatement) -> SqlResult<TemplateCopy> {
    let HostStatement::CreateTenant {
        name,
        template: Some(template),
        options,
        owner,
        password,
        if_not_exists,
    } = statement
    else {
        unreachable!("a template is copied by no other statement")
    };
    if owner.is_some() || password.is_some() {
        return Err(SqlError::unsupported("OWNER or PASSWORD with a template, whose roles are copied,"));
    }
    let making = match check_name(shared, &name) {
        Err(there) if if_not_exists && there.state() == SqlState::DUPLICATE_DATABASE => Err(skipped(&there)),
        _ => Ok(restoring::from_template(shared, name.clone(), &template, options)?),
    };
    Ok(TemplateCopy { name, making })
}
