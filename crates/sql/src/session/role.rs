//! Roles: who the session is, and CREATE, ALTER, DROP ROLE and memberships.

use base::{Oid, SqlError, SqlResult, SqlState};
use tenant::Tenant;
use tenant::catalog::{Membership, OWNER_ROLE, Role, RoleAttributes};

use super::{Home, Pause, Session, SessionStart};
use crate::parse::{RoleOption, RoleStatement};

/// The role a session starts as. The administrator acts as the tenant's owner where the tenant has no role of that name.
pub(super) fn session_role(start: &SessionStart, tenant: &Tenant) -> SqlResult<Oid> {
    match tenant.catalog().role_named(&start.user) {
        Some(role) => Ok(role.oid),
        None if start.administrator => Ok(OWNER_ROLE),
        None => Err(SqlError::fatal(
            SqlState::INVALID_AUTHORIZATION_SPECIFICATION,
            format!("role \"{}\" does not exist", start.user),
        )),
    }
}

/// Settings a session starts with: its role's first, then what the client asks for.
pub(super) fn initial_settings(start: &SessionStart, tenant: &Tenant) -> Vec<(String, String)> {
    let role = tenant.catalog().role_named(&start.user);
    let of_role =
        role.iter().flat_map(|role| role.settings.iter().map(|(n, v)| (n.to_string(), v.to_string())));
    let mut settings: Vec<_> = of_role.collect();
    for (name, value) in &start.parameters {
        match name.as_str() {
            "user" | "database" | "replication" => {}
            "options" => settings.extend(command_line_options(value)),
            name if name.starts_with("_pq_.") => {}
            name => settings.push((name.to_owned(), value.clone())),
        }
    }
    settings
}

/// `-c name=value` and `--name=value` of the start-up packet's `options`.
fn command_line_options(options: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut words = options.split_ascii_whitespace();
    while let Some(word) = words.next() {
        let assignment = match word {
            "-c" => words.next().unwrap_or_default(),
            word => word.trim_start_matches("--").trim_start_matches("-c"),
        };
        if let Some((name, value)) = assignment.split_once('=') {
            found.push((name.replace('-', "_"), value.replace("\\ ", " ")));
        }
    }
    found
}

pub(super) fn is_superuser(tenant: &Tenant, role: Oid) -> bool {
    tenant.catalog().role(role).is_some_and(|role| role.attributes.superuser)
}

impl Session {
    /// SET ROLE; `None` goes back to the session's role.
    pub(super) fn set_role(&mut self, home: &Home<'_>, name: Option<&str>) -> SqlResult<()> {
        let catalog = self.catalog(home);
        let role = match name {
            None => self.session_role,
            Some(name) => catalog.resolve_role(name)?.oid,
        };
        let member = self.start.administrator || {
            let superuser = catalog.role(self.session_role).is_some_and(|r| r.attributes.superuser);
            superuser || catalog.roles_of(self.session_role, false).contains(&role)
        };
        if !member {
            let message = format!("permission denied to set role \"{}\"", name.unwrap_or_default());
            return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
        }
        self.become_role(&catalog, role);
        Ok(())
    }

    /// SET SESSION AUTHORIZATION; `None` goes back to the authenticated role.
    pub(super) fn set_session_authorization(&mut self, home: &Home<'_>, name: Option<&str>) -> SqlResult<()> {
        let catalog = self.catalog(home);
        let own = session_role(&self.start, home.tenant)?;
        let role = match name {
            None => own,
            Some(name) => catalog.resolve_role(name)?.oid,
        };
        let superuser = self.start.administrator || catalog.role(own).is_some_and(|r| r.attributes.superuser);
        if role != own && !superuser {
            let message = "permission denied to set session authorization";
            return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
        }
        self.session_role = role;
        self.become_role(&catalog, role);
        let shown = self.role_name.clone();
        self.settings.borrow_mut().set_by_server(super::setting::Id::session_authorization, &shown);
        Ok(())
    }

    fn become_role(&mut self, catalog: &tenant::catalog::Catalog, role: Oid) {
        self.role = role;
        if let Some(found) = catalog.role(role) {
            self.role_name = found.name.to_string();
            self.note_superuser(found.attributes.superuser);
        }
        // Whose schema `$user` is may have changed with the role.
        self.format_stale = true;
        self.statements.values_mut().for_each(|statement| statement.plan = None);
    }

    pub(super) fn role_statement(
        &mut self,
        home: &mut Home<'_>,
        statement: &RoleStatement,
    ) -> Result<String, Pause> {
        let catalog = self.catalog(home);
        match statement {
            RoleStatement::Create { name, options, if_not_exists } => {
                self.need_create_role(&catalog, "create role")?;
                if *if_not_exists && catalog.role_named(name).is_some() {
                    return Ok("CREATE ROLE".into());
                }
                let mut role = Role {
                    oid: Oid(0),
                    name: name.as_str().into(),
                    scram_verifier: None,
                    attributes: RoleAttributes::default(),
                    connection_limit: None,
                    valid_until: None,
                    member_of: Vec::new(),
                    settings: Vec::new(),
                };
                let members = self.apply_options(&catalog, &mut role, options)?;
                let grantor = self.role;
                self.ddl(home, |ddl| {
                    let oid = ddl.create_role(role)?;
                    for member in members {
                        ddl.grant_membership(member, Membership { role: oid, grantor, admin_option: false })?;
                    }
                    Ok(())
                })?;
                Ok("CREATE ROLE".into())
            }
            RoleStatement::Alter { name, options } => {
                let mut role = (**catalog.resolve_role(name)?).clone();
                let own_password =
                    role.oid == self.role && options.iter().all(|o| matches!(o, RoleOption::Password(_)));
                if !own_password {
                    self.need_create_role(&catalog, "alter role")?;
                }
                self.apply_options(&catalog, &mut role, options)?;
                self.ddl(home, |ddl| ddl.alter_role(role).map_err(Into::into))?;
                Ok("ALTER ROLE".into())
            }
            RoleStatement::Rename { name, to } => {
                self.need_create_role(&catalog, "rename role")?;
                let mut role = (**catalog.resolve_role(name)?).clone();
                role.name = to.as_str().into();
                self.ddl(home, |ddl| ddl.alter_role(role).map_err(Into::into))?;
                Ok("ALTER ROLE".into())
            }
            RoleStatement::Set { name, setting, value } => {
                let mut role = (**catalog.resolve_role(name)?).clone();
                if role.oid != self.role {
                    self.need_create_role(&catalog, "alter role")?;
                }
                // Refuses what no session could start with.
                if let Some(value) = value {
                    super::Settings::new().set_initial(setting, value)?;
                }
                role.settings.retain(|(known, _)| known != setting);
                if let Some(value) = value {
                    role.settings.push((setting.as_str().into(), value.as_str().into()));
                }
                self.ddl(home, |ddl| ddl.alter_role(role).map_err(Into::into))?;
                Ok("ALTER ROLE".into())
            }
            RoleStatement::Drop { names, if_exists } => {
                self.need_create_role(&catalog, "drop role")?;
                for name in names {
                    let Some(role) = catalog.role_named(name) else {
                        if *if_exists {
                            continue;
                        }
                        return Err(catalog.resolve_role(name).map(|_| ()).unwrap_err().into());
                    };
                    if role.oid == self.session_role || role.oid == self.role {
                        let message = "current user cannot be dropped";
                        return Err(SqlError::new(SqlState::OBJECT_IN_USE, message).into());
                    }
                    let oid = role.oid;
                    self.ddl(home, |ddl| ddl.drop_role(oid).map_err(Into::into))?;
                }
                Ok("DROP ROLE".into())
            }
            RoleStatement::GrantMembership { roles, members, admin_option } => {
                self.need_create_role(&catalog, "grant role")?;
                let grantor = self.role;
                for role in roles {
                    let role = catalog.resolve_role(role)?.oid;
                    for member in members {
                        let member = catalog.resolve_role(member)?;
                        if catalog.roles_of(role, false).contains(&member.oid) {
                            let message = format!(
                                "role \"{}\" is a member of role \"{}\"",
                                catalog.role(role).map_or("", |r| &r.name),
                                member.name
                            );
                            return Err(SqlError::new(SqlState(*b"0LP01"), message).into());
                        }
                        let (member, admin_option) = (member.oid, *admin_option);
                        self.ddl(home, |ddl| {
                            let membership = Membership { role, grantor, admin_option };
                            ddl.grant_membership(member, membership).map_err(Into::into)
                        })?;
                    }
                }
                Ok("GRANT ROLE".into())
            }
            RoleStatement::RevokeMembership { roles, members, only_admin_option } => {
                self.need_create_role(&catalog, "revoke role")?;
                for role in roles {
                    let role = catalog.resolve_role(role)?.oid;
                    for member in members {
                        let member = catalog.resolve_role(member)?.oid;
                        let only = *only_admin_option;
                        self.ddl(home, |ddl| Ok(ddl.revoke_membership(member, role, only)?))?;
                    }
                }
                Ok("REVOKE ROLE".into())
            }
        }
    }

    fn need_create_role(&self, catalog: &tenant::catalog::Catalog, what: &str) -> SqlResult<()> {
        let attributes = catalog.role(self.role).map(|role| role.attributes).unwrap_or_default();
        if self.start.administrator || attributes.superuser || attributes.create_role {
            return Ok(());
        }
        Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, format!("permission denied to {what}")))
    }

    /// Applies options to a role; the roles that become members of it.
    fn apply_options(
        &self,
        catalog: &tenant::catalog::Catalog,
        role: &mut Role,
        options: &[RoleOption],
    ) -> SqlResult<Vec<Oid>> {
        let mut members = Vec::new();
        let superuser =
            self.start.administrator || catalog.role(self.role).is_some_and(|role| role.attributes.superuser);
        for option in options {
            match option {
                RoleOption::Superuser(on) => {
                    if *on && !superuser {
                        let message = "must be superuser to create superusers";
                        return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
                    }
                    role.attributes.superuser = *on;
                }
                RoleOption::CreateDb(on) => role.attributes.create_db = *on,
                RoleOption::CreateRole(on) => role.attributes.create_role = *on,
                RoleOption::Inherit(on) => role.attributes.inherit = *on,
                RoleOption::Login(on) => role.attributes.login = *on,
                RoleOption::Replication(on) => role.attributes.replication = *on,
                RoleOption::BypassRls(on) => role.attributes.bypass_rls = *on,
                RoleOption::ConnectionLimit(limit) => role.connection_limit = u32::try_from(*limit).ok(),
                RoleOption::Password(None) => role.scram_verifier = None,
                RoleOption::Password(Some(password)) => {
                    role.scram_verifier = Some(self.start.host.password_verifier(password).into());
                }
                RoleOption::ValidUntil(text) => {
                    let until = types::parse_text(
                        text,
                        types::PgType::TimestampTz,
                        types::TypeMod::NONE,
                        &self.format,
                    )?;
                    role.valid_until = match until {
                        types::Datum::TimestampTz(micros) => Some(micros),
                        _ => None,
                    };
                }
                RoleOption::InRole(names) => {
                    for name in names {
                        let of = catalog.resolve_role(name)?.oid;
                        role.member_of.push(Membership { role: of, grantor: self.role, admin_option: false });
                    }
                }
                RoleOption::Members(names) => {
                    for name in names {
                        members.push(catalog.resolve_role(name)?.oid);
                    }
                }
            }
        }
        Ok(members)
    }
}
