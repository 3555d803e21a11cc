//! Roles, their attributes and who is a member of whom.

use base::{Oid, SqlError, SqlResult, SqlState};
use compact_str::CompactString;

/// Errors: 42939 for a name that no role may have.
pub fn check_role_name(name: &str) -> SqlResult<()> {
    // Each stands for a role that a statement does not name, in quotes too.
    if matches!(name, "current_role" | "current_user" | "session_user") {
        let message = format!("{} cannot be used as a role name here", name.to_uppercase());
        return Err(SqlError::new(SqlState::RESERVED_NAME, message));
    }
    if name.starts_with("pg_") || name == "public" || name == "none" {
        return Err(SqlError::new(SqlState::RESERVED_NAME, format!("role name \"{name}\" is reserved")));
    }
    Ok(())
}

/// A user or group of one tenant.
#[derive(Clone, Debug)]
pub struct Role {
    pub oid: Oid,
    pub name: CompactString,
    /// `SCRAM-SHA-256$…`, PostgreSQL's stored form; `None` refuses password logins.
    pub scram_verifier: Option<Box<str>>,
    pub attributes: RoleAttributes,
    /// Connections allowed at a time; `None` for no limit.
    pub connection_limit: Option<u32>,
    /// `VALID UNTIL`, microseconds since 2000-01-01 UTC; `None` for ever.
    pub valid_until: Option<i64>,
    pub member_of: Vec<Membership>,
    /// `ALTER ROLE … SET`: settings applied when a session of this role starts.
    pub settings: Vec<(CompactString, Box<str>)>,
}

/// The yes-or-no attributes of a role.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RoleAttributes {
    pub superuser: bool,
    pub inherit: bool,
    pub create_role: bool,
    pub create_db: bool,
    pub login: bool,
    pub replication: bool,
    pub bypass_rls: bool,
}

impl Default for RoleAttributes {
    /// `CREATE ROLE` without options.
    fn default() -> RoleAttributes {
        RoleAttributes {
            superuser: false,
            inherit: true,
            create_role: false,
            create_db: false,
            login: false,
            replication: false,
            bypass_rls: false,
        }
    }
}

/// Membership in another role.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Membership {
    pub role: Oid,
    pub grantor: Oid,
    pub admin_option: bool,
}
