//! `pg_depend`: what must be there for what, as dump tools and `\d` ask.

use base::Oid;
use sql::kept_text;
use tenant::catalog::{Catalog, Relation, Table};
use types::{Datum, PgType};

use super::objects::{PG_CLASS, PG_CONSTRAINT, PG_TYPE, default_oid, rule_oid};
use super::{Rows, letter, oid};

const PG_ATTRDEF: u32 = 2604;
const PG_REWRITE: u32 = 2618;

/// An object, or a column (from 1) of one, with the oid of the table its kind is listed in.
struct Object(u32, Datum, usize);

pub(super) fn fill(out: &mut Rows<'_>) {
    let catalog = &*out.shared.catalog.clone();
    let mut tables: Vec<&Table> = catalog.tables().map(|table| &**table).collect();
    tables.sort_by_key(|table| table.oid);
    for table in tables {
        columns(out, catalog, table);
        constraints(out, table);
    }
    let mut sequences: Vec<_> = catalog.sequences().collect();
    sequences.sort_by_key(|sequence| sequence.oid);
    for sequence in sequences {
        let Some((table, column)) = sequence.owned_by else { continue };
        let internal = catalog.table(table).is_some_and(|t| t.columns[column].identity.is_some());
        let kind = if internal { b'i' } else { b'a' };
        add(out, relation(sequence.oid, 0), relation(table, column + 1), kind);
    }
    let mut views: Vec<_> = catalog.views().collect();
    views.sort_by_key(|view| view.oid);
    for view in views {
        let rule = || Object(PG_REWRITE, rule_oid(view.oid), 0);
        add(out, rule(), relation(view.oid, 0), b'i');
        add(out, rule(), relation(view.oid, 0), b'n');
        for used in &view.depends_on {
            let on = match catalog.relation(used.object) {
                // A primary key that is grouped by.
                Some(Relation::Index(table, at)) => match &table.indexes[*at].constraint {
                    Some(key) => Object(PG_CONSTRAINT, oid(key.oid), 0),
                    None => relation(used.object, 0),
                },
                None if catalog.enum_type(used.object).is_some() => Object(PG_TYPE, oid(used.object), 0),
                _ => relation(used.object, used.column.map_or(0, |column| column + 1)),
            };
            add(out, rule(), on, b'n');
        }
    }
}

fn relation(object: Oid, column: usize) -> Object {
    Object(PG_CLASS, oid(object), column)
}

fn add(out: &mut Rows<'_>, object: Object, on: Object, kind: u8) {
    out.add(vec![
        ("classid", Datum::Oid(object.0)),
        ("objid", object.1),
        ("objsubid", Datum::Int4(object.2 as i32)),
        ("refclassid", Datum::Oid(on.0)),
        ("refobjid", on.1),
        ("refobjsubid", Datum::Int4(on.2 as i32)),
        ("deptype", letter(kind)),
    ]);
}

/// Columns need their types, defaults their columns and sequences.
fn columns(out: &mut Rows<'_>, catalog: &Catalog, table: &Table) {
    for (position, column) in table.live_columns() {
        let at = position + 1;
        let element = column.ty.element().unwrap_or(column.ty);
        if let PgType::Enum(ty) = element {
            let array = catalog.enum_type(ty).map_or(ty, |found| found.array_oid);
            let ty = if element == column.ty { ty } else { array };
            add(out, relation(table.oid, at), Object(PG_TYPE, oid(ty), 0), b'n');
        }
        if let Some(text) = &column.default {
            let default = || Object(PG_ATTRDEF, default_oid(table.oid, position), 0);
            add(out, default(), relation(table.oid, at), if column.is_generated() { b'i' } else { b'a' });
            for named in column.generated.as_deref().into_iter().flatten() {
                add(out, default(), relation(table.oid, named + 1), b'n');
            }
            for named in kept_text::relations_named(catalog, text) {
                add(out, default(), relation(named, 0), b'n');
            }
        }
    }
}

/// A constraint goes with its columns, an index with its constraint or its columns; a foreign key needs what it refers to.
fn constraints(out: &mut Rows<'_>, table: &Table) {
    let of = |constraint: Oid| Object(PG_CONSTRAINT, oid(constraint), 0);
    for index in &table.indexes {
        match index.constraint {
            Some(constraint) => {
                add(out, relation(index.oid, 0), of(constraint.oid), b'i');
                for position in index.column_positions() {
                    add(out, of(constraint.oid), relation(table.oid, position + 1), b'a');
                }
            }
            None => {
                let of_key = |position: &usize| index.column_positions().any(|column| column == *position);
                let all = (0..table.columns.len()).filter(|position| index.names(*position));
                let others = all.filter(|position| !of_key(position));
                for position in index.column_positions().chain(others) {
                    add(out, relation(index.oid, 0), relation(table.oid, position + 1), b'a');
                }
            }
        }
    }
    for check in &table.checks {
        for position in &check.columns {
            add(out, of(check.oid), relation(table.oid, position + 1), b'a');
        }
    }
    for key in &table.foreign_keys {
        for position in &key.columns {
            add(out, of(key.oid), relation(table.oid, position + 1), b'a');
        }
        for position in &key.referenced_columns {
            add(out, of(key.oid), relation(key.referenced_table, position + 1), b'n');
        }
        add(out, of(key.oid), relation(key.referenced_index, 0), b'n');
    }
}
