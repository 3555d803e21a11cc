//! What is said of the tenant's database as a whole.

use base::{ByteCount, Oid, SqlError, SqlResult, SqlState};

use super::Ddl;
use crate::catalog::{
    Acl, Catalog, Database, DefaultAcl, Extension, GrantableKind, Unwatched, encode_record,
};
use crate::interrupt::Step;

/// What the record of a database takes at most. It is written anew with every change of it, so that so many bytes of small changes write
/// some thousands of them.
const DATABASE_SIZE_MAX: ByteCount = ByteCount::from_kib(256);

impl Ddl<'_> {
    /// Changes what is said of the database. Names, roles and values are the caller's to judge. Errors: those of `change`; 54000 where its record
    /// would grow beyond what one may be. Nothing changes then.
    pub fn change_database(&mut self, change: impl FnOnce(&mut Database) -> SqlResult<()>) -> SqlResult<()> {
        let mut database = self.catalog().database().clone();
        change(&mut database)?;
        let size = size_of_record(&database);
        if size > DATABASE_SIZE_MAX && size > size_of_record(self.catalog().database()) {
            return Err(SqlError::new(
                SqlState::PROGRAM_LIMIT_EXCEEDED,
                "too much is said of the database as a whole",
            )
            .with_detail(format!(
                "Settings of the database and of roles in it, privileges on it, default privileges, and foreign keys that are not watched take at most {} bytes together.",
                DATABASE_SIZE_MAX.0
            )));
        }
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

    /// CREATE EXTENSION of one that the database has not. Errors: 54000.
    pub fn create_extension(&mut self, name: &str, schema: Oid) -> SqlResult<()> {
        let oid = self.new_oid();
        self.change_database(|database| {
            database.extensions.push(Extension { oid, name: name.into(), schema });
            Ok(())
        })
    }

    /// DROP EXTENSION of one that was made.
    pub fn drop_extension(&mut self, oid: Oid) -> SqlResult<()> {
        self.edit().remove_comments(oid);
        self.change_database(|database| {
            database.extensions.retain(|extension| extension.oid != oid);
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

fn size_of_record(database: &Database) -> ByteCount {
    ByteCount(encode_record(database).len() as u64)
}

/// Whether the constraint is still one of the table's.
fn is_there(catalog: &Catalog, of: Unwatched) -> bool {
    catalog.table(of.table).is_some_and(|table| {
        table.foreign_key(of.constraint).is_some()
            || table.referenced_by.iter().any(|by| by.constraint == of.constraint)
    })
}
