//! Extensions: what they bring is built in. They are made for frameworks and dumps, which say that they want them and look whether they are there.

use base::{SqlError, SqlResult, SqlState};
use tenant::catalog::{Catalog, Extension, OWNER_ROLE, PLPGSQL, Privileges};

use super::names::{missing, notice, skip_missing};
use crate::session::{Home, Pause, Reply, Session};
use crate::system::extension_named;

/// The extension of that name, if the database has it.
pub(super) fn find<'c>(catalog: &'c Catalog, name: &str) -> Option<&'c Extension> {
    catalog.extensions().find(|extension| extension.name == name)
}

/// `CREATE EXTENSION`.
///
/// # Errors
/// 42710 for one that the database has, 0A000 for one that there is not; 22023 for another version, 3F000, 42501.
pub(crate) fn create(
    session: &mut Session,
    home: &mut Home<'_>,
    name: &str,
    if_not_exists: bool,
    schema: Option<&str>,
    version: Option<&str>,
    out: &mut dyn Reply,
) -> Result<String, Pause> {
    const TAG: &str = "CREATE EXTENSION";
    session.require_writable(home, TAG)?;
    let names = session.names(home);
    if find(&names.catalog, name).is_some() {
        let message = format!("extension \"{name}\" already exists");
        if !if_not_exists {
            return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message).into());
        }
        notice(session, SqlState::DUPLICATE_OBJECT, format!("{message}, skipping"), out);
        return Ok(TAG.into());
    }
    let known = extension_named(name).ok_or_else(|| {
        let message = format!("extension \"{name}\" is not available");
        SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
            .with_detail("There are plpgsql, pgcrypto and uuid-ossp; what else Rowhouse has is built in.")
    })?;
    if let Some(version) = version.filter(|version| *version != known.version) {
        let message = format!(
            "extension \"{name}\" has no installation script nor update path for version \"{version}\""
        );
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message).into());
    }
    let may = session.is_superuser(&names.catalog)
        || names.catalog.has_database_privileges(session.role(), Privileges::CREATE);
    if !may {
        let message = format!("permission denied to create extension \"{name}\"");
        return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message)
            .with_hint("Must have CREATE privilege on current database to create this extension.")
            .into());
    }
    let schema = names.catalog.creation_schema(schema, &names.path)?;
    session.ddl(home, |ddl| Ok(ddl.create_extension(name, schema)?))?;
    Ok(TAG.into())
}

/// `DROP EXTENSION`. What calls the extension's functions goes on to: they stay.
///
/// # Errors
/// 42704 for one that is not there, 0A000 for the one that every database has.
pub(crate) fn drop_all(
    session: &mut Session,
    home: &mut Home<'_>,
    names: &[String],
    if_exists: bool,
    out: &mut dyn Reply,
) -> Result<String, Pause> {
    const TAG: &str = "DROP EXTENSION";
    session.require_writable(home, TAG)?;
    let catalog = session.names(home).catalog;
    for name in names {
        let Some(extension) = find(&catalog, name) else {
            if !if_exists {
                return Err(missing("extension", name).into());
            }
            skip_missing(session, "extension", name, out);
            continue;
        };
        if extension.oid == PLPGSQL {
            return Err(SqlError::unsupported("DROP EXTENSION plpgsql").into());
        }
        check_owner(session, &catalog, name)?;
        session.ddl(home, |ddl| Ok(ddl.drop_extension(extension.oid)?))?;
    }
    Ok(TAG.into())
}

/// Errors: 42501 for others than the tenant's owner.
pub(super) fn check_owner(session: &Session, catalog: &Catalog, name: &str) -> SqlResult<()> {
    session.check_owner(catalog, OWNER_ROLE, "extension", name)
}
