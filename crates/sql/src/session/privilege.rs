//! Who may do what: checks before a statement runs, and GRANT and REVOKE.

use std::sync::atomic::Ordering;

use base::{Oid, SqlError, SqlResult, SqlState};
use tenant::catalog::{Acl, Catalog, DATABASE, GrantableKind, OWNER_ROLE, PUBLIC, Privileges, Relation};

use super::prepared::Planned;
use super::role::distinct;
use super::transaction::warning;
use super::{Home, Pause, Reply, Session};
use crate::parse::{DefaultPrivileges, GrantStatement, GrantTarget};
use crate::plan::RelationAccess;

/// What a plan has for the administrator in `allowed_to`, who may more than the role that its objects belong to: no role's oid.
const TO_ADMINISTRATOR: u32 = u32::MAX;

/// `[schema.]name` from its parts.
///
/// # Errors
/// 0A000 for a name with a database in it, 42601 for a longer one.
pub(crate) fn split_name(parts: &[String]) -> SqlResult<(Option<&str>, &str)> {
    match parts {
        [name] => Ok((None, name)),
        [schema, name] => Ok((Some(schema), name)),
        _ => Err(SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            format!("cross-database references are not implemented: \"{}\"", parts.join(".")),
        )),
    }
}

/// 42501 for an object of a kind.
pub(crate) fn denied(kind: &str, name: &str) -> SqlError {
    SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, format!("permission denied for {kind} {name}"))
}

fn acl_of(relation: &Relation) -> Option<&tenant::catalog::Acl> {
    match relation {
        Relation::Table(table) | Relation::Index(table, _) => table.acl.as_ref(),
        Relation::View(view) => view.acl.as_ref(),
        Relation::Sequence(sequence) => sequence.acl.as_ref(),
    }
}

impl Session {
    /// By what a plan knows whom it was found to be allowed to.
    #[inline]
    fn noted_as(&self) -> u32 {
        let settings = self.settings.borrow();
        let role = settings.role();
        if role.administrator { TO_ADMINISTRATOR } else { role.oid.0 }
    }

    /// Whether the role was found to have the privileges that a plan needs. What was found holds as long as the plan does.
    #[inline]
    pub(super) fn is_allowed(&self, planned: &Planned) -> bool {
        // Relaxed: a hint that says what the same check would say again.
        planned.allowed_to.load(Ordering::Relaxed) == self.noted_as()
    }

    /// Checks that the role may do all that a plan does.
    pub(super) fn check_access(&self, home: &Home<'_>, planned: &Planned) -> SqlResult<()> {
        if self.is_allowed(planned) && self.plan_holds(home, planned) {
            return Ok(());
        }
        let own = self.role();
        let catalog = self.catalog(home);
        for access in &planned.bound.accesses {
            self.check_named(&catalog, access)?;
            let role = access.as_role.unwrap_or(own);
            if !self.may(&catalog, role, access.relation, access.privileges) {
                let relation = catalog.relation(access.relation);
                return Err(denied(
                    relation.map_or("relation", Relation::kind),
                    relation.map_or("", Relation::name),
                ));
            }
        }
        if self.plan_holds(home, planned) {
            planned.allowed_to.store(self.noted_as(), Ordering::Relaxed);
        }
        Ok(())
    }

    /// Checks that the role may name all that a plan reads, as it may before it may read it.
    pub(super) fn check_names(&self, catalog: &Catalog, planned: &Planned) -> SqlResult<()> {
        planned.bound.accesses.iter().try_for_each(|access| self.check_named(catalog, access))
    }

    fn check_named(&self, catalog: &Catalog, access: &RelationAccess) -> SqlResult<()> {
        match catalog.relation(access.relation) {
            // What stands in a view was named by who made it.
            Some(relation) if access.as_role.is_none() => self.check_usage(catalog, relation.schema()),
            _ => Ok(()),
        }
    }

    /// The error of a statement, without the values of a row that it shows where the statement changes rows which the role may not read: it could
    /// have any row shown by a change that fails.
    pub(super) fn without_unread(&self, home: &Home<'_>, planned: &Planned, error: SqlError) -> SqlError {
        let shows_row = matches!(
            error.state(),
            SqlState::NOT_NULL_VIOLATION
                | SqlState::FOREIGN_KEY_VIOLATION
                | SqlState::UNIQUE_VIOLATION
                | SqlState::CHECK_VIOLATION
        );
        let catalog = self.peek_catalog(home);
        let is_unread = |access: &RelationAccess| {
            let changed = [Privileges::UPDATE, Privileges::DELETE];
            access.as_role.is_none()
                && changed.iter().any(|one| access.privileges.contains(*one))
                && !self.may(catalog, self.role(), access.relation, Privileges::SELECT)
        };
        match shows_row && planned.bound.accesses.iter().any(is_unread) {
            true => error.without_detail(),
            false => error,
        }
    }

    fn may(&self, catalog: &Catalog, role: Oid, relation: Oid, privileges: Privileges) -> bool {
        if self.is_administrator() && role == self.role() {
            return true;
        }
        match catalog.relation(relation) {
            Some(found) => catalog.has_privileges(role, found.owner(), acl_of(found), privileges),
            // Not in the catalog: one of the server's own views, open to all.
            None => true,
        }
    }

    /// 42501 unless the role may name what is in a schema. Of a name without a schema it always may: the search path has no other.
    pub(super) fn check_usage(&self, catalog: &Catalog, schema: Oid) -> SqlResult<()> {
        let Some(found) = catalog.schema(schema) else { return Ok(()) };
        let may = self.is_administrator() || catalog.may_use_schema(self.role(), found);
        if may { Ok(()) } else { Err(denied("schema", &found.name)) }
    }

    /// 42501 unless the role has the privileges on a relation, and may name it.
    pub(crate) fn check_privilege(
        &self,
        catalog: &Catalog,
        relation: Oid,
        privileges: Privileges,
    ) -> SqlResult<()> {
        let found = catalog.relation(relation);
        if let Some(found) = found {
            self.check_usage(catalog, found.schema())?;
        }
        if self.may(catalog, self.role(), relation, privileges) {
            return Ok(());
        }
        Err(denied(found.map_or("relation", Relation::kind), found.map_or("", Relation::name)))
    }

    /// 42501 unless the role owns an object, itself or as a member of its owner.
    pub(crate) fn check_owner(&self, catalog: &Catalog, owner: Oid, kind: &str, name: &str) -> SqlResult<()> {
        if self.acts_for(catalog, owner) {
            return Ok(());
        }
        Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, format!("must be owner of {kind} {name}")))
    }

    /// Whether the role is that one, has its privileges as a member of it, or is a superuser.
    pub(crate) fn acts_for(&self, catalog: &Catalog, owner: Oid) -> bool {
        self.is_superuser(catalog) || catalog.roles_of(self.role(), true).contains(&owner)
    }

    /// Whether the role is that one, a member of it, whatever it inherits, or a superuser.
    pub(super) fn may_become(&self, catalog: &Catalog, role: Oid) -> bool {
        self.is_superuser(catalog) || catalog.roles_of(self.role(), false).contains(&role)
    }

    /// 42501 unless the role may make objects in a schema.
    pub(crate) fn check_create_in(&self, catalog: &Catalog, schema: Oid) -> SqlResult<()> {
        if self.is_superuser(catalog) { Ok(()) } else { check_may_create(catalog, schema, self.role()) }
    }

    /// 42501 unless that role may come to own what is in a schema: it is as if it had made it there.
    pub(crate) fn check_takes_over(&self, catalog: &Catalog, schema: Oid, owner: Oid) -> SqlResult<()> {
        if self.is_superuser(catalog) { Ok(()) } else { check_may_create(catalog, schema, owner) }
    }

    pub(super) fn grant_statement(
        &mut self,
        home: &mut Home<'_>,
        statement: &GrantStatement,
        out: &mut dyn Reply,
    ) -> Result<String, Pause> {
        let (grant, privileges, target, grantees, grant_option, granted_by) = match statement {
            GrantStatement::Membership(membership) => return self.role_statement(home, membership, out),
            GrantStatement::Default(defaults) => return self.default_privileges(home, defaults),
            // CASCADE has nothing to do: nothing depends on a privilege that nobody can pass on.
            GrantStatement::Privileges {
                grant,
                privileges,
                target,
                grantees,
                grant_option,
                granted_by,
                cascade: _,
            } => (*grant, privileges, target, grantees, *grant_option, granted_by),
        };
        if grant && grant_option {
            return Err(SqlError::unsupported("WITH GRANT OPTION")
                .with_hint("An object's owner and the members of that role grant privileges on it.")
                .into());
        }
        self.require_writable(home, if grant { "GRANT" } else { "REVOKE" })?;
        let catalog = self.catalog(home);
        if self.grantor(&catalog, granted_by.as_deref())? != self.role() {
            let message = "grantor must be current user";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).into());
        }
        let grantees = self.grantees(&catalog, grantees)?;
        for (object, kind, name, all) in self.targets(&catalog, target)? {
            self.look()?;
            let is_among_tables = kind == "sequence" && matches!(target, GrantTarget::Tables(_));
            let named = if is_among_tables { all.union(Privileges::TABLE) } else { all };
            let word = if is_among_tables { "relation" } else { kind };
            let mut wanted = named_privileges(privileges, named, word)?;
            self.check_owner(&catalog, owner_of(&catalog, object), kind, &name)?;
            if !all.contains(wanted) {
                if !privileges.is_empty() {
                    let message =
                        format!("sequence \"{name}\" only supports USAGE, SELECT, and UPDATE privileges");
                    self.notice(&warning(SqlState(*b"0LP01"), &message), out);
                }
                wanted = wanted.without(wanted.without(all));
            }
            let grantor = owner_of(&catalog, object);
            let mut acl = acl_in(&catalog, object).unwrap_or_else(|| initial_acl(object, grantor, all));
            for grantee in &grantees {
                if grant {
                    acl.grant(*grantee, grantor, wanted, grant_option);
                } else {
                    acl.revoke(*grantee, wanted, grant_option);
                }
            }
            self.ddl(home, |ddl| ddl.set_acl(object, acl).map_err(Into::into))?;
        }
        Ok(if grant { "GRANT" } else { "REVOKE" }.into())
    }

    /// ALTER DEFAULT PRIVILEGES. Of functions and types there is nothing to say: nobody makes functions, and types have no privileges.
    fn default_privileges(
        &mut self,
        home: &mut Home<'_>,
        defaults: &DefaultPrivileges,
    ) -> Result<String, Pause> {
        const TAG: &str = "ALTER DEFAULT PRIVILEGES";
        let DefaultPrivileges { roles, schemas, grant, privileges, kind, grantees, grant_option } = defaults;
        if *grant && *grant_option {
            return Err(SqlError::unsupported("WITH GRANT OPTION").into());
        }
        self.require_writable(home, TAG)?;
        let catalog = self.catalog(home);
        let makers = match roles.as_slice() {
            [] => vec![self.role()],
            roles => roles.iter().map(|role| self.role_to_own(&catalog, role)).collect::<SqlResult<_>>()?,
        };
        let schemas = schemas.iter().map(|name| schema_oid(&catalog, name).map(Some));
        let mut places = schemas.collect::<SqlResult<Vec<_>>>()?;
        let grantees = self.grantees(&catalog, grantees)?;
        let kind = match *kind {
            "tables" => GrantableKind::Table,
            "sequences" => GrantableKind::Sequence,
            "schemas" if places.is_empty() => GrantableKind::Schema,
            "schemas" => {
                let message = "cannot use IN SCHEMA clause when using GRANT/REVOKE ON SCHEMAS";
                return Err(SqlError::new(SqlState(*b"0LP01"), message).into());
            }
            "functions" => return Ok(TAG.into()),
            _ => return Err(SqlError::unsupported("a privilege on a type").into()),
        };
        if places.is_empty() {
            places.push(None);
        }
        let all = kind.privileges();
        let word = match kind {
            GrantableKind::Table => "relation",
            GrantableKind::Sequence => "sequence",
            GrantableKind::Schema => "schema",
        };
        let wanted = named_privileges(privileges, all, word)?;
        for maker in makers {
            for place in &places {
                self.look()?;
                let known = catalog.database().default_acl(maker, *place, kind).cloned();
                let built_in =
                    || if place.is_none() { Acl::owner_default(maker, all) } else { Acl::default() };
                let mut acl = known.unwrap_or_else(built_in);
                for grantee in &grantees {
                    if *grant {
                        acl.grant(*grantee, maker, wanted, false);
                    } else {
                        acl.revoke(*grantee, wanted, *grant_option);
                    }
                }
                self.ddl(home, |ddl| Ok(ddl.set_default_acl(maker, *place, kind, acl)?))?;
            }
        }
        Ok(TAG.into())
    }

    fn grantees(&self, catalog: &Catalog, names: &[String]) -> SqlResult<Vec<Oid>> {
        let grantee =
            |name: &String| if name == "public" { Ok(PUBLIC) } else { self.named_role(catalog, name) };
        distinct(names).into_iter().map(grantee).collect()
    }

    /// Oid, kind, name and full set of privileges of each object named.
    fn targets(
        &self,
        catalog: &Catalog,
        target: &GrantTarget,
    ) -> SqlResult<Vec<(Oid, &'static str, String, Privileges)>> {
        let path = self.search_path(catalog);
        let relations = |names: &[Vec<String>], all: Privileges| {
            names
                .iter()
                .map(|parts| {
                    let (schema, name) = split_name(parts)?;
                    let found = catalog.resolve_relation(schema, name, &path)?;
                    // GRANT ON TABLE takes sequences too, as PostgreSQL's does, and gives what they have of what it names.
                    let all = if matches!(found, Relation::Sequence(_)) { Privileges::SEQUENCE } else { all };
                    Ok((found.oid(), found.kind(), name.to_owned(), all))
                })
                .collect::<SqlResult<Vec<_>>>()
        };
        let schema_oid = |name: &String| schema_oid(catalog, name);
        let all_in = |schemas: &[String], sequences: bool| {
            let mut found = Vec::new();
            for name in schemas {
                let schema = schema_oid(name)?;
                for relation in catalog.relations().filter(|relation| relation.schema() == schema) {
                    match relation {
                        Relation::Sequence(s) if sequences => {
                            found.push((s.oid, "sequence", s.name.to_string(), Privileges::SEQUENCE));
                        }
                        Relation::Table(_) | Relation::View(_) if !sequences => {
                            let name = relation.name().to_owned();
                            found.push((relation.oid(), relation.kind(), name, Privileges::TABLE));
                        }
                        _ => {}
                    }
                }
            }
            Ok(found)
        };
        match target {
            GrantTarget::Tables(names) => relations(names, Privileges::TABLE),
            GrantTarget::Sequences(names) => relations(names, Privileges::SEQUENCE),
            GrantTarget::AllTables(schemas) => all_in(schemas, false),
            GrantTarget::AllSequences(schemas) => all_in(schemas, true),
            GrantTarget::AllFunctions(schemas) => {
                schemas.iter().try_for_each(|name| schema_oid(name).map(drop))?;
                Ok(Vec::new())
            }
            GrantTarget::Schemas(names) => names
                .iter()
                .map(|name| Ok((schema_oid(name)?, "schema", name.clone(), Privileges::SCHEMA)))
                .collect(),
            GrantTarget::Databases(names) => names
                .iter()
                .map(|name| {
                    self.require_own_database(name)?;
                    Ok((DATABASE, "database", name.clone(), Privileges::DATABASE))
                })
                .collect(),
            GrantTarget::Types(_) => Err(SqlError::unsupported("a privilege on a type")),
        }
    }
}

/// Errors: 3F000.
fn schema_oid(catalog: &Catalog, name: &str) -> SqlResult<Oid> {
    catalog.schema_named(name).map(|schema| schema.oid).ok_or_else(|| {
        SqlError::new(SqlState::INVALID_SCHEMA_NAME, format!("schema \"{name}\" does not exist"))
    })
}

/// 42501 unless the role may make objects in a schema, by what was granted or as one that owns it.
fn check_may_create(catalog: &Catalog, schema: Oid, role: Oid) -> SqlResult<()> {
    let Some(found) = catalog.schema(schema) else { return Ok(()) };
    let may = catalog.has_privileges(role, found.owner, None, Privileges::CREATE)
        || catalog.has_privileges(role, found.owner, found.acl.as_ref(), Privileges::CREATE);
    if may { Ok(()) } else { Err(denied("schema", &found.name)) }
}

/// The access list an object has now; `None` for its owner's defaults.
fn acl_in(catalog: &Catalog, object: Oid) -> Option<Acl> {
    if object == DATABASE {
        return catalog.database().acl.clone();
    }
    match catalog.relation(object) {
        Some(relation) => acl_of(relation).cloned(),
        None => catalog.schema(object).and_then(|schema| schema.acl.clone()),
    }
}

/// The access list of an object of which nothing was said.
fn initial_acl(object: Oid, owner: Oid, all: Privileges) -> Acl {
    if object == DATABASE { Acl::of_database() } else { Acl::owner_default(owner, all) }
}

fn owner_of(catalog: &Catalog, object: Oid) -> Oid {
    if object == DATABASE {
        return OWNER_ROLE;
    }
    match (catalog.relation(object), catalog.schema(object)) {
        (Some(relation), _) => relation.owner(),
        (_, Some(schema)) => schema.owner,
        _ => PUBLIC,
    }
}

fn named_privileges(words: &[String], all: Privileges, kind: &str) -> SqlResult<Privileges> {
    let mut wanted = Privileges::NONE;
    for word in words {
        let word = if word == "TEMP" { "TEMPORARY" } else { word };
        let named = Privileges::NAMED.iter().find(|(_, _, name)| *name == word);
        let (privilege, _, _) = named.ok_or_else(|| {
            SqlError::new(
                SqlState::SYNTAX_ERROR,
                format!("unrecognized privilege type \"{}\"", word.to_lowercase()),
            )
        })?;
        if !all.contains(*privilege) {
            let message = format!("invalid privilege type {word} for {kind}");
            return Err(SqlError::new(SqlState(*b"0LP01"), message));
        }
        wanted = wanted.union(*privilege);
    }
    Ok(if words.is_empty() { all } else { wanted })
}
