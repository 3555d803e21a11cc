//! Dropping objects, and what depends on them.

use std::sync::Arc;

use base::{Oid, SqlError, SqlState};

use super::{Behavior, Ddl, ObjectsNamed};
use crate::catalog::{Acl, Catalog, Database, Dependency, OWNER_ROLE, Relation};
use crate::interrupt::Step;

/// What a DROP took along.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Dropped {
    /// Each as PostgreSQL names it in its notice: `view v`, `constraint c on table t`.
    pub cascaded: Vec<String>,
}

/// Something that cannot stay when what it depends on goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Dependent {
    Relation(Oid),
    Enum(Oid),
    ForeignKey { table: Oid, constraint: Oid },
    Column { table: Oid, column: usize },
    Default { table: Oid, column: usize },
    Check { table: Oid, constraint: Oid },
}

/// One edge: who depends, on what, and whether it goes silently with it.
struct Edge {
    dependent: Dependent,
    on: String,
    silent: bool,
}

impl Ddl<'_> {
    /// Drops tables, views and sequences. Indexes have [`Ddl::drop_index`].
    ///
    /// Errors: 2BP01 under [`Behavior::Restrict`] where something else depends on them, and for the sequence of an identity column; 55006.
    pub fn drop_relations(&mut self, oids: &[Oid], behavior: Behavior) -> Step<Dropped> {
        for oid in oids {
            if let Some(table) = self.catalog().table(*oid).cloned() {
                self.view.require_none_due(&table, "DROP TABLE")?;
            }
            let owner = self.catalog().sequence(*oid).and_then(|sequence| sequence.owned_by);
            let Some((table, column)) = owner.filter(|(table, _)| !oids.contains(table)) else { continue };
            let identity = self.catalog().table(table).is_some_and(|t| t.columns[column].identity.is_some());
            if identity {
                let sequence = describe(self.catalog(), Dependent::Relation(*oid));
                let column = describe(self.catalog(), Dependent::Column { table, column });
                return Err(SqlError::new(
                    SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
                    format!("cannot drop {sequence} because {column} requires it"),
                )
                .with_hint(format!("You can drop {column} instead."))
                .into());
            }
        }
        self.drop_all(oids.iter().map(|oid| Dependent::Relation(*oid)).collect(), behavior)
    }

    /// Drops an enum type. Errors: 2BP01.
    pub fn drop_enum(&mut self, oid: Oid, behavior: Behavior) -> Step<Dropped> {
        self.drop_all(vec![Dependent::Enum(oid)], behavior)
    }

    /// Drops a schema. Errors: 2BP01 where it is not empty.
    pub fn drop_schema(&mut self, oid: Oid, behavior: Behavior) -> Step<Dropped> {
        let catalog = self.catalog();
        let relations =
            catalog.relations().filter(|r| r.schema() == oid && !matches!(r, Relation::Index(..)));
        let mut inside: Vec<Dependent> = relations.map(|r| Dependent::Relation(r.oid())).collect();
        inside.extend(catalog.enums().filter(|e| e.schema == oid).map(|e| Dependent::Enum(e.oid)));
        let schema = format!("schema {}", catalog.schema_name(oid));
        let extensions = catalog.extensions().filter(|extension| extension.schema == oid);
        let names: Vec<String> = inside
            .iter()
            .map(|d| describe(catalog, *d))
            .chain(extensions.map(|extension| format!("extension {}", extension.name)))
            .collect();
        if behavior == Behavior::Restrict && !names.is_empty() {
            let lines: Vec<String> = names.iter().map(|name| format!("{name} depends on {schema}")).collect();
            return Err(still_needed(&schema, &lines).into());
        }
        let mut dropped = self.drop_all(inside, behavior)?;
        dropped.cascaded.splice(0..0, names);
        self.edit().remove_schema(oid);
        Ok(dropped)
    }

    /// Drops what roles own, and takes from them what they were granted.
    ///
    /// Errors: 2BP01, for the tenant's owner too.
    pub fn drop_owned(&mut self, roles: &[Oid], behavior: Behavior) -> Step<Dropped> {
        let catalog = self.catalog();
        if let Some(owner) = catalog.role(OWNER_ROLE).filter(|_| roles.contains(&OWNER_ROLE)) {
            let what = format!("objects owned by role {}", owner.name);
            let message = format!("cannot drop {what} because they are required by the database system");
            return Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message).into());
        }
        let relations = catalog
            .relations()
            .filter(|r| roles.contains(&r.owner()) && !matches!(r, Relation::Index(..)))
            .map(|r| Dependent::Relation(r.oid()));
        let types = catalog.enums().filter(|e| roles.contains(&e.owner)).map(|e| Dependent::Enum(e.oid));
        let owned = relations.chain(types).collect();
        let schemas: Vec<Oid> =
            catalog.schemas().filter(|s| roles.contains(&s.owner) && !s.is_system()).map(|s| s.oid).collect();
        let mut dropped = self.drop_all(owned, behavior)?;
        for schema in schemas {
            dropped.cascaded.extend(self.drop_schema(schema, behavior)?.cascaded);
        }
        let names_one = |acl: &Option<Acl>| {
            acl.iter()
                .flat_map(|acl| &acl.0)
                .any(|i| roles.contains(&i.grantee) || roles.contains(&i.grantor))
        };
        let catalog = self.catalog();
        let relations = catalog.relations().filter_map(|relation| match relation {
            Relation::Table(t) => Some((t.oid, &t.acl)),
            Relation::View(v) => Some((v.oid, &v.acl)),
            Relation::Sequence(s) => Some((s.oid, &s.acl)),
            Relation::Index(..) => None,
        });
        let schemas = catalog.schemas().map(|s| (s.oid, &s.acl));
        let granted = relations.chain(schemas).filter(|(_, acl)| names_one(acl));
        let granted: Vec<(Oid, Acl)> = granted.filter_map(|(oid, acl)| Some((oid, acl.clone()?))).collect();
        for (object, mut acl) in granted {
            acl.0.retain(|i| !roles.contains(&i.grantee) && !roles.contains(&i.grantor));
            self.set_acl(object, acl)?;
        }
        if self.catalog().database() != Database::NOTHING_SAID {
            self.change_database(|database| {
                roles.iter().for_each(|role| database.forget_grants(*role));
                Ok(())
            })?;
        }
        Ok(dropped)
    }

    pub(super) fn drop_column_of(&mut self, table: Oid, column: usize, behavior: Behavior) -> Step<Dropped> {
        self.drop_all(vec![Dependent::Column { table, column }], behavior)
    }

    fn drop_all(&mut self, named: Vec<Dependent>, behavior: Behavior) -> Step<Dropped> {
        let mut doomed = named.clone();
        let mut dropped = Dropped::default();
        let mut lines = Vec::new();
        let mut next = 0;
        while next < doomed.len() {
            // Each looks through the catalog.
            self.view.look()?;
            for edge in dependents_of(self.catalog(), self.named, doomed[next]) {
                if doomed.contains(&edge.dependent) || goes_along(self.catalog(), &doomed, edge.dependent) {
                    continue;
                }
                if !edge.silent {
                    let name = describe(self.catalog(), edge.dependent);
                    lines.push(format!("{name} depends on {}", edge.on));
                    dropped.cascaded.push(name);
                }
                doomed.push(edge.dependent);
            }
            next += 1;
        }
        if behavior == Behavior::Restrict && !lines.is_empty() {
            return Err(match named.as_slice() {
                [one] => still_needed(&describe(self.catalog(), *one), &lines),
                _ => objects_still_needed(&lines),
            }
            .into());
        }
        // What hangs on a table goes before the table does.
        for dependent in doomed.into_iter().rev() {
            self.view.look()?;
            self.drop_one(dependent)?;
        }
        Ok(dropped)
    }

    fn drop_one(&mut self, dependent: Dependent) -> Step<()> {
        match dependent {
            Dependent::Enum(oid) => {
                self.edit().remove_enum(oid);
                self.edit().remove_comments(oid);
            }
            Dependent::ForeignKey { table, constraint } => self.remove_foreign_key(table, constraint)?,
            Dependent::Column { table, column } => {
                self.forget_column(table, column)?;
            }
            Dependent::Default { table, column } => {
                let mut table = self.open_table(table)?;
                table.columns[column].default = None;
                table.columns[column].sequence = None;
                self.edit().put_table(table);
            }
            Dependent::Check { table, constraint } => {
                let mut table = self.open_table(table)?;
                table.checks.retain(|check| check.oid != constraint);
                self.edit().put_table(table);
                self.edit().remove_comments(constraint);
            }
            Dependent::Relation(oid) => {
                if self.catalog().table(oid).is_some() {
                    self.remove_table(oid)?;
                } else {
                    self.disown(oid)?;
                    self.view.txn.sequences.remove(oid);
                    self.edit().remove_relation(oid);
                }
            }
        }
        Ok(())
    }

    /// Has the column that a sequence was made for know it no more.
    fn disown(&mut self, sequence: Oid) -> Step<()> {
        let Some((table, column)) = self.catalog().sequence(sequence).and_then(|s| s.owned_by) else {
            return Ok(());
        };
        if self.catalog().table(table).is_some_and(|t| t.columns[column].sequence == Some(sequence)) {
            let mut table = self.open_table(table)?;
            table.columns[column].sequence = None;
            self.edit().put_table(table);
        }
        Ok(())
    }

    fn remove_table(&mut self, oid: Oid) -> Step<()> {
        let table = self.open_table(oid)?;
        for key in &table.foreign_keys {
            if key.referenced_table != oid {
                self.remove_foreign_key(oid, key.oid)?;
            }
        }
        let trees = table.indexes.iter().map(|i| i.tree).filter(|t| *t != table.tree);
        let trees: Vec<_> = trees.chain([table.tree]).collect();
        self.view.txn.dropped_trees.extend(trees);
        table.indexes.iter().for_each(|index| self.edit().remove_comments(index.oid));
        self.edit().remove_relation(oid);
        Ok(())
    }

    /// Takes a foreign key out of both its tables.
    pub(super) fn remove_foreign_key(&mut self, table: Oid, constraint: Oid) -> Step<()> {
        let mut referencing = self.open_table(table)?;
        let Some(at) = referencing.foreign_keys.iter().position(|k| k.oid == constraint) else {
            return Ok(());
        };
        let key = referencing.foreign_keys.remove(at);
        if key.referenced_table == table {
            referencing.referenced_by.retain(|by| by.constraint != constraint);
        } else if self.catalog().table(key.referenced_table).is_some() {
            let mut referenced = self.open_table(key.referenced_table)?;
            referenced.referenced_by.retain(|by| by.constraint != constraint);
            self.edit().put_table(referenced);
        }
        self.edit().put_table(referencing);
        self.edit().remove_comments(constraint);
        Ok(())
    }
}

/// Whether a part of a table goes with it, or with another part.
fn goes_along(catalog: &Catalog, doomed: &[Dependent], dependent: Dependent) -> bool {
    let (table, needs) = match dependent {
        Dependent::Relation(_) | Dependent::Enum(_) => return false,
        Dependent::Column { table, .. } => (table, Vec::new()),
        Dependent::Default { table, column } => (table, vec![column]),
        Dependent::Check { table, constraint } => {
            let checks = catalog.table(table).map_or(&[][..], |t| &t.checks);
            let check = checks.iter().find(|check| check.oid == constraint);
            (table, check.map_or_else(Vec::new, |check| check.columns.clone()))
        }
        Dependent::ForeignKey { table, constraint } => {
            let key = catalog.table(table).and_then(|t| t.foreign_key(constraint));
            (table, key.map_or_else(Vec::new, |key| key.columns.clone()))
        }
    };
    doomed.contains(&Dependent::Relation(table))
        || needs.iter().any(|column| doomed.contains(&Dependent::Column { table, column: *column }))
}

/// The defaults and checks whose texts name an object.
fn texts_naming(catalog: &Arc<Catalog>, named: ObjectsNamed, object: Oid, name: &str) -> Vec<Dependent> {
    // Most texts name nothing of the kind, and are not read.
    let is_plain = !name.contains(['"', '\'']);
    let names = |text: &str| (!is_plain || text.contains(name)) && named(catalog, text).contains(&object);
    let mut found = Vec::new();
    for table in catalog.tables() {
        let oid = table.oid;
        let columns = table.live_columns().filter(|(_, c)| c.default.as_deref().is_some_and(names));
        found.extend(columns.map(|(column, of)| match of.is_generated() {
            // There is none without its expression.
            true => Dependent::Column { table: oid, column },
            false => Dependent::Default { table: oid, column },
        }));
        let checks = table.checks.iter().filter(|check| names(&check.expression));
        found.extend(checks.map(|check| Dependent::Check { table: oid, constraint: check.oid }));
    }
    found
}

fn dependents_of(catalog: &Arc<Catalog>, named: ObjectsNamed, object: Dependent) -> Vec<Edge> {
    let on = describe(catalog, object);
    let mut edges = Vec::new();
    let mut push = |dependent, silent| edges.push(Edge { dependent, on: on.clone(), silent });
    match object {
        Dependent::Relation(oid) => {
            for view in
                catalog.views().filter(|v| v.oid != oid && v.depends_on.iter().any(|d| d.object == oid))
            {
                push(Dependent::Relation(view.oid), false);
            }
            if let Some(table) = catalog.table(oid) {
                for by in table.referenced_by.iter().filter(|by| by.table != oid) {
                    push(Dependent::ForeignKey { table: by.table, constraint: by.constraint }, false);
                }
                for sequence in catalog.sequences().filter(|s| s.owned_by.is_some_and(|(t, _)| t == oid)) {
                    push(Dependent::Relation(sequence.oid), true);
                }
            }
            if let Some(sequence) = catalog.sequence(oid) {
                for dependent in texts_naming(catalog, named, oid, &sequence.name) {
                    push(dependent, false);
                }
            }
        }
        Dependent::Enum(oid) => {
            for table in catalog.tables() {
                let uses = |ty| match ty {
                    types::PgType::Enum(e) | types::PgType::Array(types::ElementType::Enum(e)) => e == oid,
                    _ => false,
                };
                for (column, _) in table.live_columns().filter(|(_, c)| uses(c.ty)) {
                    push(Dependent::Column { table: table.oid, column }, false);
                }
            }
            for view in catalog.views().filter(|v| v.depends_on.iter().any(|d| d.object == oid)) {
                push(Dependent::Relation(view.oid), false);
            }
            let name = catalog.enum_type(oid).map_or("", |e| e.name.as_str());
            for dependent in texts_naming(catalog, named, oid, name) {
                push(dependent, false);
            }
        }
        Dependent::Column { table, column } => {
            let names = |d: &Dependency| d.object == table && d.column == Some(column);
            for view in catalog.views().filter(|v| v.depends_on.iter().any(names)) {
                push(Dependent::Relation(view.oid), false);
            }
            let Some(found) = catalog.table(table) else { return edges };
            for (position, other) in found.generated_columns() {
                if other.generated.as_ref().is_some_and(|columns| columns.contains(&column)) {
                    push(Dependent::Column { table, column: position }, false);
                }
            }
            let broken = |index: Oid| found.index(index).is_some_and(|i| i.names(column));
            for by in &found.referenced_by {
                let key = catalog.table(by.table).and_then(|other| other.foreign_key(by.constraint));
                if key.is_some_and(|key| broken(key.referenced_index)) {
                    push(Dependent::ForeignKey { table: by.table, constraint: by.constraint }, false);
                }
            }
            for sequence in catalog.sequences().filter(|s| s.owned_by == Some((table, column))) {
                push(Dependent::Relation(sequence.oid), true);
            }
        }
        Dependent::ForeignKey { .. } | Dependent::Default { .. } | Dependent::Check { .. } => {}
    }
    edges
}

fn describe(catalog: &Catalog, object: Dependent) -> String {
    let relation = |oid: Oid| {
        catalog
            .relation(oid)
            .map_or_else(|| format!("relation {oid}"), |r| format!("{} {}", r.kind(), r.name()))
    };
    let column_of = |table: Oid, column: usize| {
        let name = catalog.table(table).map_or("", |t| t.columns[column].name.as_str());
        format!("column {name} of {}", relation(table))
    };
    match object {
        Dependent::Relation(oid) => relation(oid),
        Dependent::Enum(oid) => {
            format!("type {}", catalog.enum_type(oid).map_or("", |e| e.name.as_str()))
        }
        Dependent::ForeignKey { table, constraint } => {
            let key = catalog.table(table).and_then(|t| t.foreign_key(constraint));
            format!("constraint {} on {}", key.map_or("", |k| k.name.as_str()), relation(table))
        }
        Dependent::Check { table, constraint } => {
            let checks = catalog.table(table).map_or(&[][..], |t| &t.checks);
            let name = checks.iter().find(|c| c.oid == constraint).map_or("", |c| c.name.as_str());
            format!("constraint {name} on {}", relation(table))
        }
        Dependent::Column { table, column } => column_of(table, column),
        Dependent::Default { table, column } => format!("default value for {}", column_of(table, column)),
    }
}

/// 2BP01 for an object that others depend on; a line each.
pub(super) fn still_needed(what: &str, lines: &[String]) -> SqlError {
    needed(format!("cannot drop {what} because other objects depend on it"), lines)
}

/// The same for several that one statement names.
fn objects_still_needed(lines: &[String]) -> SqlError {
    needed("cannot drop desired object(s) because other objects depend on them".to_owned(), lines)
}

fn needed(message: String, lines: &[String]) -> SqlError {
    SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message)
        .with_detail(lines.join("\n"))
        .with_hint("Use DROP ... CASCADE to drop the dependent objects too.")
}
