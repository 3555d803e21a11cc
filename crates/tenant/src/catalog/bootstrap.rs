//! What a new tenant starts with.

use base::Oid;

use super::*;

/// The schema of PostgreSQL's system views; nothing of the user's can be made in it.
pub const PG_CATALOG: Oid = Oid(11);
/// The schema `public`.
pub const PUBLIC_SCHEMA: Oid = Oid(2200);
/// The schema `information_schema`.
pub const INFORMATION_SCHEMA: Oid = Oid(13178);
/// The role that owns the tenant; PostgreSQL's bootstrap superuser has this oid.
pub const OWNER_ROLE: Oid = Oid(10);
/// The extension `plpgsql`, which is there from the start and stays.
pub const PLPGSQL: Oid = Oid(13569);

impl Catalog {
    /// The catalog of a new tenant: the owner (a superuser inside its tenant) and the built-in schemas.
    pub(crate) fn bootstrap(owner: &str, scram_verifier: Option<Box<str>>) -> Catalog {
        let mut catalog = Catalog::default();
        let attributes =
            RoleAttributes { superuser: true, create_role: true, login: true, ..RoleAttributes::default() };
        catalog.put_role(Role {
            oid: OWNER_ROLE,
            name: owner.into(),
            scram_verifier,
            attributes,
            connection_limit: None,
            valid_until: None,
            member_of: Vec::new(),
            settings: Vec::new(),
        });
        let mut usage = Acl::owner_default(OWNER_ROLE, Privileges::SCHEMA);
        usage.grant(PUBLIC, OWNER_ROLE, Privileges::USAGE, false);
        for (oid, name) in [
            (PG_CATALOG, "pg_catalog"),
            (PUBLIC_SCHEMA, "public"),
            (INFORMATION_SCHEMA, "information_schema"),
        ] {
            catalog.put_schema(Schema {
                oid,
                name: name.into(),
                owner: OWNER_ROLE,
                acl: Some(usage.clone()),
            });
        }
        catalog
    }
}
