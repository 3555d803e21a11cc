//! Roles and their memberships.

use base::{Oid, SqlError, SqlResult, SqlState};

use super::Ddl;
use crate::catalog::{Acl, GrantableKind, Membership, OWNER_ROLE, Relation, Role, check_role_name};

impl Ddl<'_> {
    /// Makes a role; its oid is given here, the one in `role` is ignored. Errors: 42710, 42939 for a reserved name.
    pub fn create_role(&mut self, role: Role) -> SqlResult<Oid> {
        self.require_free_role(&role.name)?;
        let oid = self.new_oid();
        self.edit().put_role(Role { oid, ..role });
        Ok(oid)
    }

    /// Replaces a role. Errors: 42710 where its new name is another's, 42939 where that is reserved.
    pub fn alter_role(&mut self, role: Role) -> SqlResult<()> {
        if self.catalog().role(role.oid).is_none_or(|before| before.name != role.name) {
            self.require_free_role(&role.name)?;
        }
        self.edit().put_role(role);
        Ok(())
    }

    /// Errors: 42710, 42939.
    fn require_free_role(&self, name: &str) -> SqlResult<()> {
        check_role_name(name)?;
        match self.catalog().role_named(name) {
            Some(_) => {
                Err(SqlError::new(SqlState::DUPLICATE_OBJECT, format!("role \"{name}\" already exists")))
            }
            None => Ok(()),
        }
    }

    /// Drops a role with its memberships. Errors: 2BP01 where it owns something or was granted something.
    pub fn drop_role(&mut self, oid: Oid) -> SqlResult<()> {
        let catalog = self.catalog();
        let Some(role) = catalog.role(oid).cloned() else {
            return Err(SqlError::new(
                SqlState::UNDEFINED_OBJECT,
                format!("role with OID {oid} does not exist"),
            ));
        };
        let mut lines = Vec::new();
        if oid == OWNER_ROLE {
            lines.push("owner of the tenant".to_owned());
        }
        for relation in catalog.relations().filter(|r| !matches!(r, Relation::Index(..))) {
            let (owner, acl) = match relation {
                Relation::Table(t) | Relation::Index(t, _) => (t.owner, &t.acl),
                Relation::View(v) => (v.owner, &v.acl),
                Relation::Sequence(s) => (s.owner, &s.acl),
            };
            let name = format!("{} {}", relation.kind(), relation.name());
            if owner == oid {
                lines.push(format!("owner of {name}"));
            } else if acl
                .as_ref()
                .is_some_and(|acl| acl.0.iter().any(|i| i.grantee == oid || i.grantor == oid))
            {
                lines.push(format!("privileges for {name}"));
            }
        }
        for schema in catalog.schemas() {
            if schema.owner == oid {
                lines.push(format!("owner of schema {}", schema.name));
            } else if schema.acl.as_ref().is_some_and(|acl| acl.0.iter().any(|i| i.grantee == oid)) {
                lines.push(format!("privileges for schema {}", schema.name));
            }
        }
        let database = catalog.database();
        let names_it = |acl: &Acl| acl.0.iter().any(|i| i.grantee == oid || i.grantor == oid);
        if database.acl.as_ref().is_some_and(names_it) {
            lines.push("privileges for the database".to_owned());
        }
        for default in &database.default_acls {
            let name = catalog.role(default.role).map_or("", |role| role.name.as_str());
            let kind = match default.kind {
                GrantableKind::Table => "relations",
                GrantableKind::Sequence => "sequences",
                GrantableKind::Schema => "schemas",
            };
            let place = default.schema.map(|s| format!(" in schema {}", catalog.schema_name(s)));
            let which = format!("new {kind} belonging to role {name}{}", place.unwrap_or_default());
            if default.role == oid {
                lines.push(format!("owner of default privileges on {which}"));
            } else if names_it(&default.acl) {
                lines.push(format!("privileges for default privileges on {which}"));
            }
        }
        lines.extend(catalog.enums().filter(|e| e.owner == oid).map(|e| format!("owner of type {}", e.name)));
        if !lines.is_empty() {
            return Err(SqlError::new(
                SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
                format!("role \"{}\" cannot be dropped because some objects depend on it", role.name),
            )
            .with_detail(lines.join("\n")));
        }
        let members: Vec<Role> = catalog
            .roles()
            .filter(|r| r.member_of.iter().any(|m| m.role == oid))
            .map(|r| (**r).clone())
            .collect();
        for mut member in members {
            member.member_of.retain(|m| m.role != oid);
            self.edit().put_role(member);
        }
        if self.catalog().database().start_settings.iter().any(|settings| settings.role == oid) {
            self.change_database(|database| {
                database.start_settings.retain(|settings| settings.role != oid);
                Ok(())
            })?;
        }
        self.edit().remove_role(oid);
        self.edit().remove_comments(oid);
        Ok(())
    }

    /// Makes `member` a member of `membership.role`. Errors: 0LP01's kin as 42P17 where that would be a circle.
    pub fn grant_membership(&mut self, member: Oid, membership: Membership) -> SqlResult<()> {
        if self.catalog().roles_of(membership.role, false).contains(&member) {
            let name = |oid| self.catalog().role(oid).map_or_else(String::new, |r| r.name.to_string());
            return Err(SqlError::new(
                SqlState::INVALID_OBJECT_DEFINITION,
                format!("role \"{}\" is a member of role \"{}\"", name(membership.role), name(member)),
            ));
        }
        let mut role = self.role(member)?;
        role.member_of.retain(|m| m.role != membership.role);
        role.member_of.push(membership);
        self.edit().put_role(role);
        Ok(())
    }

    /// Ends a membership, or only the right to pass it on; false if there was none.
    pub fn revoke_membership(&mut self, member: Oid, role: Oid, only_admin_option: bool) -> SqlResult<bool> {
        let mut changed = self.role(member)?;
        let Some(at) = changed.member_of.iter().position(|m| m.role == role) else { return Ok(false) };
        if only_admin_option {
            changed.member_of[at].admin_option = false;
        } else {
            changed.member_of.remove(at);
        }
        self.edit().put_role(changed);
        Ok(true)
    }

    fn role(&self, oid: Oid) -> SqlResult<Role> {
        self.catalog().role(oid).map(|role| (**role).clone()).ok_or_else(|| {
            SqlError::new(SqlState::UNDEFINED_OBJECT, format!("role with OID {oid} does not exist"))
        })
    }
}
