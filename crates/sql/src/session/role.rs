//! Roles: who the session is, and CREATE, ALTER, DROP ROLE and memberships.

use std::hash::Hash;
use std::sync::Arc;

use base::{Oid, Severity, SqlError, SqlResult, SqlState, TenantId};
use rustc_hash::FxHashSet;
use tenant::catalog::{Catalog, Membership, OWNER_ROLE, PUBLIC, Privileges, Role, RoleAttributes};

use super::setting::{Id, Lasting, Settings, setting_of_role};
use super::{Home, Pause, Reply, Session, SessionStart};
use crate::parse::{RoleOption, RoleStatement};

/// A role as it was when a session came to go by it.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct ChosenRole {
    pub(super) oid: Oid,
    pub(super) name: String,
    pub(super) superuser: bool,
    /// It is the administrator, who may do everything in every tenant. The session that logged in so is it until it acts as a role.
    pub(super) administrator: bool,
}

/// The role of the catalog that a session is. In a tenant's database the administrator is none of the roles there, whatever they are named.
fn own_role<'a>(start: &SessionStart, catalog: &'a Catalog) -> Option<&'a Arc<Role>> {
    let may_be_one = !start.administrator || start.tenant == TenantId::SYSTEM;
    if may_be_one { catalog.role_named(&start.user) } else { None }
}

/// The role a session starts as. The administrator acts as the tenant's owner.
///
/// # Errors
/// 28000 when the role is not there (any more), 42501 when it may not enter the database.
pub(super) fn first_role(start: &SessionStart, catalog: &Catalog) -> SqlResult<ChosenRole> {
    let oid = match own_role(start, catalog) {
        Some(role) => role.oid,
        None if start.administrator => OWNER_ROLE,
        None => {
            return Err(SqlError::fatal(
                SqlState::INVALID_AUTHORIZATION_SPECIFICATION,
                format!("role \"{}\" does not exist", start.user),
            ));
        }
    };
    let administrator = start.administrator;
    if !administrator && !catalog.has_database_privileges(oid, Privileges::CONNECT) {
        let message = format!("permission denied for database \"{}\"", start.database);
        return Err(SqlError::fatal(SqlState::INSUFFICIENT_PRIVILEGE, message)
            .with_detail("User does not have CONNECT privilege."));
    }
    let superuser = administrator || has_superuser(catalog, oid);
    Ok(ChosenRole { oid, name: start.user.clone(), superuser, administrator })
}

/// Settings that the catalog keeps for a session to start with: those of all roles, of the database, of its role, of its role in the database.
pub(super) fn kept_settings<'a>(
    start: &SessionStart,
    catalog: &'a Catalog,
) -> impl Iterator<Item = (&'a str, &'a str)> {
    let role = own_role(start, catalog);
    let of_role = role.map_or(&[][..], |role| &role.settings);
    let database = catalog.database();
    // What is said later goes over what is said before it.
    let all = [
        database.settings_of(PUBLIC, false),
        database.settings_of(PUBLIC, true),
        of_role,
        role.map_or(&[], |role| database.settings_of(role.oid, true)),
    ];
    // No tenant decides what the administrator's sessions do.
    let skipped = if start.administrator { 2 } else { 0 };
    all.into_iter().skip(skipped).flatten().map(|(name, value)| (name.as_str(), &**value))
}

/// Settings that the client asks for.
pub(super) fn asked_settings(start: &SessionStart) -> Vec<(String, String)> {
    let mut settings = Vec::new();
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

fn has_superuser(catalog: &Catalog, role: Oid) -> bool {
    catalog.role(role).is_some_and(|role| role.attributes.superuser)
}

/// Sets or, with `None`, resets a setting of a session: also those that say who it is, if it may be that.
///
/// # Errors
/// As [`Settings::set`]; 22023 for a role that is not there, 42501 for one that the session may not become.
pub(super) fn set(
    catalog: &Catalog,
    settings: &mut Settings,
    name: &str,
    value: Option<&str>,
    lasting: Lasting,
) -> SqlResult<()> {
    let (Some(id), Some(value)) = (setting_of_role(name), value) else {
        return settings.set(name, value, lasting);
    };
    settings.require_room(name, Some(value))?;
    if id == Id::role && value == "none" {
        settings.choose(id, None, lasting);
        return Ok(());
    }
    let role = catalog.role_named(value).ok_or_else(|| {
        SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("role \"{value}\" does not exist"))
    })?;
    // Whose rights decide, and whether this role is open to who is no superuser.
    let login = settings.login_role();
    let (decides, is_open) = if id == Id::role {
        let own = settings.session_role();
        (own, catalog.roles_of(own.oid, false).contains(&role.oid))
    } else {
        (login, login.oid == role.oid)
    };
    if !is_open && !decides.administrator && !has_superuser(catalog, decides.oid) {
        let what = if id == Id::role { "role" } else { "session authorization" };
        return Err(refused(format!("permission denied to set {what} \"{value}\"")));
    }
    let chosen = if login.administrator && login.name == value {
        login.clone()
    } else {
        let superuser = role.attributes.superuser;
        ChosenRole { oid: role.oid, name: value.to_owned(), superuser, administrator: false }
    };
    settings.choose(id, Some(chosen), lasting);
    Ok(())
}

/// The notice where an empty password was given, which is none, as in PostgreSQL: many clients send none then, and the others would enter.
pub fn password_cleared() -> SqlError {
    let message = "empty string is not a valid password, clearing password";
    SqlError::new(SqlState::SUCCESSFUL_COMPLETION, message).with_severity(Severity::Notice)
}

impl Session {
    /// The role that makes objects now, and whose privileges count.
    pub(crate) fn role(&self) -> Oid {
        self.settings.borrow().role().oid
    }

    /// Whether the session acts as the administrator, and as no role of the tenant.
    pub(super) fn is_administrator(&self) -> bool {
        self.settings.borrow().role().administrator
    }

    /// The role that RESET ROLE goes back to.
    fn session_role(&self) -> Oid {
        self.settings.borrow().session_role().oid
    }

    pub(super) fn role_statement(
        &mut self,
        home: &mut Home<'_>,
        statement: &RoleStatement,
        out: &mut dyn Reply,
    ) -> Result<String, Pause> {
        let command = match statement {
            RoleStatement::Create { .. } => "CREATE ROLE",
            RoleStatement::Alter { .. } | RoleStatement::Rename { .. } => "ALTER ROLE",
            RoleStatement::Drop { .. } => "DROP ROLE",
            RoleStatement::GrantMembership { .. } => "GRANT ROLE",
            RoleStatement::RevokeMembership { .. } => "REVOKE ROLE",
        };
        self.require_writable(home, command)?;
        let catalog = self.catalog(home);
        match statement {
            RoleStatement::Create { name, options, if_not_exists } => {
                self.check_create(&catalog, options)?;
                if *if_not_exists && catalog.role_named(name).is_some() {
                    return Ok(command.into());
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
                self.tell_of_empty_password(options, out);
                let grantor = self.role();
                self.ddl(home, |ddl| {
                    let oid = ddl.create_role(role)?;
                    for (member, admin_option) in members {
                        ddl.grant_membership(member, Membership { role: oid, grantor, admin_option })?;
                    }
                    Ok(())
                })?;
                Ok(command.into())
            }
            RoleStatement::Alter { name, options } => {
                let mut role = (**self.named(&catalog, name)?).clone();
                self.check_alter(&catalog, &role, options)?;
                self.apply_options(&catalog, &mut role, options)?;
                self.tell_of_empty_password(options, out);
                self.ddl(home, |ddl| ddl.alter_role(role).map_err(Into::into))?;
                Ok(command.into())
            }
            RoleStatement::Rename { name, to } => {
                let mut role = (**catalog.resolve_role(name)?).clone();
                // A session goes by its role's name.
                for (own, what) in [(self.session_role(), "session"), (self.role(), "current")] {
                    if role.oid == own {
                        let message = format!("{what} user cannot be renamed");
                        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).into());
                    }
                }
                if role.attributes.superuser {
                    self.need_superuser(&catalog, "must be superuser to rename superusers")?;
                }
                self.need_create_role(&catalog, "permission denied to rename role")?;
                role.name = to.as_str().into();
                self.ddl(home, |ddl| ddl.alter_role(role).map_err(Into::into))?;
                Ok(command.into())
            }
            RoleStatement::Drop { names, if_exists } => {
                self.need_create_role(&catalog, "permission denied to drop role")?;
                for name in names {
                    let Some(role) = catalog.role_named(name) else {
                        if *if_exists {
                            let message = format!("role \"{name}\" does not exist, skipping");
                            let notice = SqlError::new(SqlState::SUCCESSFUL_COMPLETION, message);
                            self.notice(&notice.with_severity(Severity::Notice), out);
                            continue;
                        }
                        return Err(catalog.resolve_role(name).map(|_| ()).unwrap_err().into());
                    };
                    for (own, what) in [(self.role(), "current"), (self.session_role(), "session")] {
                        if role.oid == own {
                            let message = format!("{what} user cannot be dropped");
                            return Err(SqlError::new(SqlState::OBJECT_IN_USE, message).into());
                        }
                    }
                    if role.attributes.superuser {
                        self.need_superuser(&catalog, "must be superuser to drop superusers")?;
                    }
                    let oid = role.oid;
                    self.ddl(home, |ddl| ddl.drop_role(oid).map_err(Into::into))?;
                }
                Ok(command.into())
            }
            RoleStatement::GrantMembership { roles, members, admin_option, granted_by } => {
                let grantor = self.grantor(&catalog, granted_by.as_deref())?;
                let members = distinct(members);
                for role in distinct(roles) {
                    let role = catalog.resolve_role(role)?;
                    self.check_administers(&catalog, role)?;
                    if grantor != self.role() {
                        self.need_superuser(&catalog, "must be superuser to set grantor")?;
                    }
                    for member in &members {
                        self.look()?;
                        let member = self.named(&catalog, member)?;
                        if catalog.roles_of(role.oid, false).contains(&member.oid) {
                            let message =
                                format!("role \"{}\" is a member of role \"{}\"", role.name, member.name);
                            return Err(SqlError::new(SqlState(*b"0LP01"), message).into());
                        }
                        let known = member.member_of.iter().find(|known| known.role == role.oid);
                        if known.is_some_and(|known| known.admin_option || !*admin_option) {
                            // It has as much already.
                            continue;
                        }
                        let membership = Membership { role: role.oid, grantor, admin_option: *admin_option };
                        let member = member.oid;
                        self.ddl(home, |ddl| ddl.grant_membership(member, membership).map_err(Into::into))?;
                    }
                }
                Ok(command.into())
            }
            RoleStatement::RevokeMembership { roles, members, only_admin_option, granted_by } => {
                // A membership is one, whoever granted it: as in PostgreSQL 15 the clause must only name a role.
                self.grantor(&catalog, granted_by.as_deref())?;
                let members = distinct(members);
                for role in distinct(roles) {
                    let role = catalog.resolve_role(role)?;
                    self.check_administers(&catalog, role)?;
                    for member in &members {
                        self.look()?;
                        let (role, member) = (role.oid, self.named_role(&catalog, member)?);
                        let only = *only_admin_option;
                        self.ddl(home, |ddl| Ok(ddl.revoke_membership(member, role, only)?))?;
                    }
                }
                Ok(command.into())
            }
        }
    }

    /// Errors: a pause where the statement is to end. Others may have had their turns.
    pub(super) fn look(&self) -> Result<(), Pause> {
        if self.start.host.is_to_end(&self.underway()) { Err(Pause::Yield) } else { Ok(()) }
    }

    /// Whether the role may do everything, to other superusers too.
    pub(crate) fn is_superuser(&self, catalog: &Catalog) -> bool {
        self.is_administrator() || has_superuser(catalog, self.role())
    }

    /// 42501 with `message` for others than superusers.
    fn need_superuser(&self, catalog: &Catalog, message: &str) -> SqlResult<()> {
        if self.is_superuser(catalog) { Ok(()) } else { Err(refused(message)) }
    }

    fn has_create_role(&self, catalog: &Catalog) -> bool {
        self.is_superuser(catalog)
            || catalog.role(self.role()).is_some_and(|role| role.attributes.create_role)
    }

    /// 42501 with `message` for roles without CREATEROLE.
    fn need_create_role(&self, catalog: &Catalog, message: &str) -> SqlResult<()> {
        if self.has_create_role(catalog) { Ok(()) } else { Err(refused(message)) }
    }

    /// 42501 unless the role may make one with these options.
    fn check_create(&self, catalog: &Catalog, options: &[RoleOption]) -> SqlResult<()> {
        for (option, message) in [
            (RoleOption::Superuser(true), "must be superuser to create superusers"),
            (RoleOption::Replication(true), "must be superuser to create replication users"),
            (RoleOption::BypassRls(true), "must be superuser to create bypassrls users"),
        ] {
            if options.contains(&option) {
                return self.need_superuser(catalog, message);
            }
        }
        self.need_create_role(catalog, "permission denied to create role")
    }

    /// 42501 unless the role may give that one these options. Everybody may change its own password, but for PostgreSQL's roles for
    /// replication.
    fn check_alter(&self, catalog: &Catalog, role: &Role, options: &[RoleOption]) -> SqlResult<()> {
        use RoleOption::{BypassRls, Password, Replication, Superuser};
        if self.is_superuser(catalog) {
            return Ok(());
        }
        let attributes = role.attributes;
        if attributes.superuser || options.iter().any(|option| matches!(option, Superuser(_))) {
            let message = "must be superuser to alter superuser roles or change superuser attribute";
            return Err(refused(message));
        }
        if attributes.replication || options.iter().any(|option| matches!(option, Replication(_))) {
            let message = "must be superuser to alter replication roles or change replication attribute";
            return Err(refused(message));
        }
        if options.iter().any(|option| matches!(option, BypassRls(_))) {
            return Err(refused("must be superuser to change bypassrls attribute"));
        }
        if role.oid == self.role() && matches!(options, [Password(_)]) {
            return Ok(());
        }
        self.need_create_role(catalog, "permission denied")
    }

    /// 42501 unless the role may change the settings that sessions of that one start with. Everybody may change its own.
    pub(super) fn check_set(&self, catalog: &Catalog, role: &Role) -> SqlResult<()> {
        if role.attributes.superuser {
            return self.need_superuser(catalog, "must be superuser to alter superusers");
        }
        if role.oid == self.role() {
            return Ok(());
        }
        self.need_create_role(catalog, "permission denied")
    }

    /// 42501 unless the role may comment on that one: as PostgreSQL has it, by CREATEROLE, and on a superuser by being one.
    pub(crate) fn check_comment_on(&self, catalog: &Catalog, role: &Role) -> SqlResult<()> {
        if role.attributes.superuser {
            return self.need_superuser(catalog, "must be superuser");
        }
        self.need_create_role(catalog, "must have CREATEROLE privilege")
    }

    /// 42501 unless the role may make others members of that one and end memberships in it.
    fn check_administers(&self, catalog: &Catalog, role: &Role) -> SqlResult<()> {
        if role.attributes.superuser {
            return self.need_superuser(catalog, "must be superuser to alter superusers");
        }
        let administers = |own: &Oid| {
            let member_of = catalog.role(*own).map_or(&[][..], |own| &own.member_of);
            member_of.iter().any(|membership| membership.role == role.oid && membership.admin_option)
        };
        if self.has_create_role(catalog) || catalog.roles_of(self.role(), false).iter().any(administers) {
            return Ok(());
        }
        Err(refused(format!("must have admin option on role \"{}\"", role.name)))
    }

    /// The role that a statement names, by `current_user` and its kin too.
    ///
    /// # Errors
    /// 42704.
    pub(crate) fn named_role(&self, catalog: &Catalog, name: &str) -> SqlResult<Oid> {
        match name {
            "current_user" | "current_role" => Ok(self.role()),
            "session_user" => Ok(self.session_role()),
            name => Ok(catalog.resolve_role(name)?.oid),
        }
    }

    /// As [`Session::named_role`], with what it is.
    pub(super) fn named<'c>(&self, catalog: &'c Catalog, name: &str) -> SqlResult<&'c Arc<Role>> {
        let oid = self.named_role(catalog, name)?;
        catalog.role(oid).ok_or_else(|| {
            SqlError::new(SqlState::UNDEFINED_OBJECT, format!("role with OID {oid} does not exist"))
        })
    }

    /// The role of GRANTED BY; the current one where nothing is said.
    ///
    /// # Errors
    /// 42704.
    pub(super) fn grantor(&self, catalog: &Catalog, named: Option<&str>) -> SqlResult<Oid> {
        named.map_or_else(|| Ok(self.role()), |name| self.named_role(catalog, name))
    }

    fn tell_of_empty_password(&self, options: &[RoleOption], out: &mut dyn Reply) {
        let is_empty =
            |option: &RoleOption| matches!(option, RoleOption::Password(Some(text)) if text.is_empty());
        if options.iter().any(is_empty) {
            self.notice(&password_cleared(), out);
        }
    }

    /// Applies options that the role may use; the roles that become members, and whether they may pass membership on.
    fn apply_options(
        &self,
        catalog: &Catalog,
        role: &mut Role,
        options: &[RoleOption],
    ) -> SqlResult<Vec<(Oid, bool)>> {
        let mut members = Vec::new();
        for option in options {
            match option {
                RoleOption::Superuser(on) => role.attributes.superuser = *on,
                RoleOption::CreateDb(on) => role.attributes.create_db = *on,
                RoleOption::CreateRole(on) => role.attributes.create_role = *on,
                RoleOption::Inherit(on) => role.attributes.inherit = *on,
                RoleOption::Login(on) => role.attributes.login = *on,
                RoleOption::Replication(on) => role.attributes.replication = *on,
                RoleOption::BypassRls(on) => role.attributes.bypass_rls = *on,
                RoleOption::ConnectionLimit(-1) => role.connection_limit = None,
                RoleOption::ConnectionLimit(limit) if *limit < -1 => {
                    let message = format!("invalid connection limit: {limit}");
                    return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
                }
                RoleOption::ConnectionLimit(_) => {
                    return Err(SqlError::unsupported("CONNECTION LIMIT of a role")
                        .with_hint("A tenant's option connections_max limits its sessions."));
                }
                RoleOption::Password(None) => role.scram_verifier = None,
                RoleOption::Password(Some(password)) if password.is_empty() => role.scram_verifier = None,
                RoleOption::Password(Some(password)) => {
                    role.scram_verifier = Some(self.start.host.password_verifier(password)?.into());
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
                        let of = catalog.resolve_role(name)?;
                        self.check_administers(catalog, of)?;
                        if role.member_of.iter().any(|known| known.role == of.oid) {
                            continue;
                        }
                        let membership =
                            Membership { role: of.oid, grantor: self.role(), admin_option: false };
                        role.member_of.push(membership);
                    }
                }
                RoleOption::Members(names) => {
                    for name in names {
                        members.push((catalog.resolve_role(name)?.oid, false));
                    }
                }
                RoleOption::Admins(names) => {
                    for name in names {
                        members.push((catalog.resolve_role(name)?.oid, true));
                    }
                }
            }
        }
        // Who is named as both may pass it on: what is granted last counts.
        members.sort_by_key(|(_, admin_option)| *admin_option);
        Ok(members)
    }
}

/// Each of them once, in their order: who is named again and again is looked at once.
pub(super) fn distinct<T: Eq + Hash>(named: &[T]) -> Vec<&T> {
    let mut seen = FxHashSet::default();
    named.iter().filter(|one| seen.insert(*one)).collect()
}

/// 42501 with PostgreSQL's words for it.
fn refused(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message)
}
