//! Dropping objects, and what depends on them.

use base::{Oid, SqlError, SqlState};

use super::{Behavior, Ddl};
use crate::catalog::{Catalog, Relation};
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
    /// Errors: 2BP01 under [`Behavior::Restrict`] where something else depends on them.
    pub fn drop_relations(&mut self, oids: &[Oid], behavior: Behavior) -> Step<Dropped> {
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
        if behavior == Behavior::Restrict && !inside.is_empty() {
            let lines: Vec<String> =
                inside.iter().map(|d| format!("{} depends on {schema}", describe(catalog, *d))).collect();
            return Err(still_needed(&schema, &lines).into());
        }
        let names: Vec<String> = inside.iter().map(|d| describe(catalog, *d)).collect();
        let mut dropped = self.drop_all(inside, behavior)?;
        dropped.cascaded.splice(0..0, names);
        self.edit().remove_schema(oid);
        Ok(dropped)
    }

    fn drop_all(&mut self, named: Vec<Dependent>, behavior: Behavior) -> Step<Dropped> {
        let mut doomed = named.clone();
        let mut dropped = Dropped::default();
        let mut lines = Vec::new();
        let mut next = 0;
        while next < doomed.len() {
            for edge in dependents_of(self.catalog(), doomed[next]) {
                if doomed.contains(&edge.dependent) || self.goes_with_its_table(&doomed, edge.dependent) {
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
            return Err(still_needed(&describe(self.catalog(), named[0]), &lines).into());
        }
        // What hangs on a table goes before the table does.
        for dependent in doomed.into_iter().rev() {
            self.drop_one(dependent)?;
        }
        Ok(dropped)
    }

    fn goes_with_its_table(&self, doomed: &[Dependent], dependent: Dependent) -> bool {
        match dependent {
            Dependent::ForeignKey { table, .. }
            | Dependent::Column { table, .. }
            | Dependent::Default { table, .. } => doomed.contains(&Dependent::Relation(table)),
            Dependent::Relation(_) | Dependent::Enum(_) => false,
        }
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
            Dependent::Relation(oid) => {
                if self.catalog().table(oid).is_some() {
                    self.remove_table(oid)?;
                } else {
                    self.view.txn.sequences.remove(&oid);
                    self.edit().remove_relation(oid);
                }
            }
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

    /// Errors: 2BP01 where a view names the column.
    pub(super) fn views_of_column(&self, table: Oid, column: usize) -> Vec<Oid> {
        let names = |d: &crate::catalog::Dependency| d.object == table && d.column == Some(column);
        self.catalog().views().filter(|v| v.depends_on.iter().any(names)).map(|v| v.oid).collect()
    }
}

fn dependents_of(catalog: &Catalog, object: Dependent) -> Vec<Edge> {
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
            if catalog.sequence(oid).is_some() {
                for table in catalog.tables() {
                    for (column, _) in table.live_columns().filter(|(_, c)| c.sequence == Some(oid)) {
                        push(Dependent::Default { table: table.oid, column }, false);
                    }
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
        }
        Dependent::Column { table, column } => {
            let names = |d: &crate::catalog::Dependency| d.object == table && d.column == Some(column);
            for view in catalog.views().filter(|v| v.depends_on.iter().any(names)) {
                push(Dependent::Relation(view.oid), false);
            }
        }
        Dependent::ForeignKey { .. } | Dependent::Default { .. } => {}
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
        Dependent::Column { table, column } => column_of(table, column),
        Dependent::Default { table, column } => format!("default value for {}", column_of(table, column)),
    }
}

/// 2BP01 for an object that others depend on; a line each.
pub(super) fn still_needed(what: &str, lines: &[String]) -> SqlError {
    SqlError::new(
        SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
        format!("cannot drop {what} because other objects depend on it"),
    )
    .with_detail(lines.join("\n"))
    .with_hint("Use DROP ... CASCADE to drop the dependent objects too.")
}
