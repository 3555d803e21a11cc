//! What is said of the tenant's database as a whole.

use base::{Oid, SqlResult};

use super::Ddl;
use crate::catalog::{Acl, Catalog, Database, DefaultAcl, GrantableKind, Unwatched};
use crate::interrupt::Step;

impl Ddl<'_> {
    /// Changes what is said of the database. Names, roles and values are the caller's to judge. Errors: those of `change`, and nothing changes.
    pub fn change_database(&mut self, change: impl FnOnce(&mut Database) -> SqlResult<()>) -> SqlResult<()> {
        let mut database = self.catalog().database().clone();
        change(&mut database)?;
        self.edit().put_database(database);
        Ok(())
    }

    /// What objects that a role makes begin with, instead of the built-in list or added to it in one schema.
    pub fn set_default_acl(
        &mut self,
        role: Oid,
        schema: Option<Oid>,
        kind: GrantableKind,
        acl: Acl,
    ) -> SqlResult<()> {
        let says_nothing = match schema {
            None => acl == Acl::owner_default(role, kind.privileges()),
            Some(_) => acl.0.is_empty(),
        };
        let is_it = |d: &DefaultAcl| d.role == role && d.schema == schema && d.kind == kind;
        let known = self.catalog().database().default_acls.iter().find(|d| is_it(d)).map(|d| d.oid);
        let oid = known.unwrap_or_else(|| self.new_oid());
        self.change_database(|database| {
            database.default_acls.retain(|d| !is_it(d));
            if !says_nothing {
                database.default_acls.push(DefaultAcl { oid, role, schema, kind, acl });
            }
            Ok(())
        })
    }

    /// Has a table watch its foreign keys and those that reference it, or not: `ENABLE` and `DISABLE TRIGGER ALL`. Of those that are made later
    /// it says nothing.
    pub fn watch_foreign_keys(&mut self, oid: Oid, watch: bool) -> Step<()> {
        let table = self.open_table(oid)?;
        let own = table.foreign_keys.iter().map(|key| key.oid);
        let constraints: Vec<Oid> = own.chain(table.referenced_by.iter().map(|by| by.constraint)).collect();
        let catalog = self.catalog().clone();
        self.change_database(|database| {
            database.unwatched.retain(|known| known.table != oid && is_there(&catalog, *known));
            if !watch {
                database
                    .unwatched
                    .extend(constraints.iter().map(|c| Unwatched { table: oid, constraint: *c }));
            }
            Ok(())
        })?;
        Ok(())
    }
}

/// Whether the constraint is still one of the table's.
fn is_there(catalog: &Catalog, of: Unwatched) -> bool {
    catalog.table(of.table).is_some_and(|table| {
        table.foreign_key(of.constraint).is_some()
            || table.referenced_by.iter().any(|by| by.constraint == of.constraint)
    })
}
