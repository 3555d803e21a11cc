//! What belongs to the tenant's database as a whole, and to no object in it: who may enter it, the settings that its sessions start
//! with, the privileges that new objects begin with, which foreign keys are not watched, and its extensions.

use base::Oid;
use compact_str::CompactString;

use super::{Acl, Catalog, OWNER_ROLE, PG_CATALOG, PLPGSQL, PUBLIC, Privileges};

/// The oid of the tenant's database.
pub const DATABASE: Oid = Oid(5);

/// What is said of a tenant's database; of most nothing is.
#[derive(Clone, PartialEq, Debug)]
pub struct Database {
    /// `None` for [`Acl::of_database`].
    pub acl: Option<Acl>,
    pub start_settings: Vec<StartSettings>,
    pub default_acls: Vec<DefaultAcl>,
    pub unwatched: Vec<Unwatched>,
    /// Those that were made.
    pub extensions: Vec<Extension>,
}

/// An extension. The tenant's owner is its owner, and what it brings is built in.
#[derive(Clone, PartialEq, Debug)]
pub struct Extension {
    pub oid: Oid,
    pub name: CompactString,
    pub schema: Oid,
}

/// Those that every database has.
static BUILT_IN: [Extension; 1] =
    [Extension { oid: PLPGSQL, name: CompactString::const_new("plpgsql"), schema: PG_CATALOG }];

/// Settings that sessions start with. Those of a role wherever it goes stand with the role.
#[derive(Clone, PartialEq, Debug)]
pub struct StartSettings {
    /// [`PUBLIC`] for sessions of every role.
    pub role: Oid,
    /// Said of the database; else of `PUBLIC` in every one, by `ALTER ROLE ALL`.
    pub in_database: bool,
    pub values: Vec<(CompactString, Box<str>)>,
}

/// `ALTER DEFAULT PRIVILEGES`: the access list of objects that a role makes.
#[derive(Clone, PartialEq, Debug)]
pub struct DefaultAcl {
    pub oid: Oid,
    pub role: Oid,
    /// `None`: in any schema, instead of the built-in list. Else what is added to that one.
    pub schema: Option<Oid>,
    pub kind: GrantableKind,
    pub acl: Acl,
}

/// Kinds of objects that have privileges.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GrantableKind {
    /// Tables and views.
    Table,
    Sequence,
    Schema,
}

impl GrantableKind {
    /// All privileges on objects of the kind.
    pub fn privileges(self) -> Privileges {
        match self {
            GrantableKind::Table => Privileges::TABLE,
            GrantableKind::Sequence => Privileges::SEQUENCE,
            GrantableKind::Schema => Privileges::SCHEMA,
        }
    }
}

/// A foreign key that one of its tables does not watch, since `DISABLE TRIGGER ALL`: as the referencing table it takes any row, as the
/// referenced one it lets any go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unwatched {
    pub table: Oid,
    pub constraint: Oid,
}

impl Database {
    pub(crate) const NOTHING_SAID: &Database = &Database {
        acl: None,
        start_settings: Vec::new(),
        default_acls: Vec::new(),
        unwatched: Vec::new(),
        extensions: Vec::new(),
    };

    /// The settings of sessions of `role`, or of all; empty where nothing is set.
    pub fn settings_of(&self, role: Oid, in_database: bool) -> &[(CompactString, Box<str>)] {
        let found = self.start_settings.iter().find(|s| s.role == role && s.in_database == in_database);
        found.map_or(&[], |settings| &settings.values)
    }

    /// The default list of a role's objects of a kind: in that schema, or in any.
    pub fn default_acl(&self, role: Oid, schema: Option<Oid>, kind: GrantableKind) -> Option<&Acl> {
        let is_it = |d: &&DefaultAcl| d.role == role && d.schema == schema && d.kind == kind;
        self.default_acls.iter().find(is_it).map(|d| &d.acl)
    }

    /// Nothing is left of what a role grants of new objects, nor of what was granted to it.
    pub(crate) fn forget_grants(&mut self, role: Oid) {
        self.default_acls.retain(|default| default.role != role);
        let lists = self.default_acls.iter_mut().map(|default| &mut default.acl).chain(&mut self.acl);
        lists.for_each(|acl| acl.0.retain(|item| item.grantee != role && item.grantor != role));
        self.default_acls.retain(|default| default.schema.is_none() || !default.acl.0.is_empty());
    }
}

impl Catalog {
    pub fn database(&self) -> &Database {
        self.database.as_deref().unwrap_or(Database::NOTHING_SAID)
    }

    /// All extensions that the database has.
    pub fn extensions(&self) -> impl Iterator<Item = &Extension> {
        BUILT_IN.iter().chain(&self.database().extensions)
    }

    /// Whether a role has privileges on the database.
    pub fn has_database_privileges(&self, role: Oid, wanted: Privileges) -> bool {
        let initial = Acl::of_database();
        self.has_privileges(role, OWNER_ROLE, Some(self.database().acl.as_ref().unwrap_or(&initial)), wanted)
    }

    /// The access list that a new object of `owner` begins with; `None` for its owner's alone.
    pub(crate) fn initial_acl(&self, owner: Oid, schema: Option<Oid>, kind: GrantableKind) -> Option<Acl> {
        let database = self.database();
        let built_in = Acl::owner_default(owner, kind.privileges());
        let mut acl = database.default_acl(owner, None, kind).unwrap_or(&built_in).clone();
        let added = schema.and_then(|schema| database.default_acl(owner, Some(schema), kind));
        for item in added.iter().flat_map(|added| &added.0) {
            acl.grant(item.grantee, item.grantor, item.privileges, false);
        }
        (acl != built_in).then_some(acl)
    }

    /// Whether a table watches a foreign key of its own, or one that references it.
    pub(crate) fn watches(&self, table: Oid, constraint: Oid) -> bool {
        !self.database().unwatched.contains(&Unwatched { table, constraint })
    }
}

impl Acl {
    /// Of a database where nothing was granted or revoked: everybody may enter it.
    pub fn of_database() -> Acl {
        let mut acl = Acl::default();
        acl.grant(PUBLIC, OWNER_ROLE, Privileges::CONNECT.union(Privileges::TEMPORARY), false);
        acl.grant(OWNER_ROLE, OWNER_ROLE, Privileges::DATABASE, false);
        acl
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_object_begins_with_the_lists_of_its_role_and_its_schema() {
        let (maker, reader, schema) = (Oid(20), Oid(30), Oid(40));
        let mut catalog = Catalog::default();
        assert_eq!(catalog.initial_acl(maker, Some(schema), GrantableKind::Table), None);
        let mut added = Acl::default();
        added.grant(reader, maker, Privileges::SELECT, false);
        let of_schema = DefaultAcl {
            oid: Oid(50),
            role: maker,
            schema: Some(schema),
            kind: GrantableKind::Table,
            acl: added,
        };
        let of_role = DefaultAcl { oid: Oid(51), schema: None, acl: Acl::default(), ..of_schema.clone() };
        catalog.put_database(Database {
            default_acls: vec![of_schema.clone()],
            ..Database::NOTHING_SAID.clone()
        });
        let acl = catalog.initial_acl(maker, Some(schema), GrantableKind::Table).expect("one is said");
        assert_eq!((acl.of(&[maker]), acl.of(&[reader])), (Privileges::TABLE, Privileges::SELECT));
        assert_eq!(catalog.initial_acl(maker, Some(PUBLIC), GrantableKind::Table), None);
        assert_eq!(catalog.initial_acl(reader, Some(schema), GrantableKind::Table), None);
        assert_eq!(catalog.initial_acl(maker, Some(schema), GrantableKind::Sequence), None);

        // What a role takes from itself everywhere a schema does not give back.
        let both = vec![of_schema, of_role];
        catalog.put_database(Database { default_acls: both, ..Database::NOTHING_SAID.clone() });
        let acl = catalog.initial_acl(maker, Some(schema), GrantableKind::Table).expect("two are said");
        assert_eq!((acl.of(&[maker]), acl.of(&[reader])), (Privileges::NONE, Privileges::SELECT));
    }

    #[test]
    fn everybody_may_enter_a_database_of_which_nothing_is_said() {
        let acl = Acl::of_database();
        assert!(acl.of(&[Oid(99)]).contains(Privileges::CONNECT));
        assert!(!acl.of(&[Oid(99)]).contains(Privileges::CREATE));
        assert!(acl.of(&[OWNER_ROLE]).contains(Privileges::DATABASE));
    }
}
