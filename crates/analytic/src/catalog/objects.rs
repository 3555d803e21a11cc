//! System tables about relations: what `\d` and reflection read.

use base::Oid;
use rustc_hash::FxHashMap;
use sql::system::{extension_named, system_tables};
use sql::{kept_text, predicate_text};
use tenant::catalog::{Catalog, Identity, Index, IndexColumn, Privileges, Relation, Table};
use types::{Datum, PgType, TypeMod};

use super::access::{Reader, acl};
use super::definitions::{self, action_letter};
use super::{Rows, letter, oid, oids, smallints, text};

/// Oid of the access method `btree`.
pub(super) const BTREE: u32 = 403;
/// Oid of the access method `heap`.
const HEAP: u32 = 2;
/// Oid of the collation `default`.
pub(super) const DEFAULT_COLLATION: u32 = 100;
/// Oid of `pg_class`, as `classoid` of comments and dependencies.
pub(super) const PG_CLASS: u32 = 1259;
/// Oid of `pg_extension`, as `classoid` of comments.
const PG_EXTENSION: u32 = 3079;
/// Oid of `pg_type`, as `classoid` of comments and dependencies.
pub(super) const PG_TYPE: u32 = 1247;
/// Oid of `pg_constraint`, as `classoid` of comments and dependencies.
pub(super) const PG_CONSTRAINT: u32 = 2606;
/// The bit that makes the oid of a view's rule.
pub(super) const RULE: u32 = 0x4000_0000;

/// Fills the table of that name; false if it is not one of these.
pub(super) fn fill(out: &mut Rows<'_>, table: &str) -> bool {
    match table {
        "pg_class" => classes(out),
        "pg_attribute" => attributes(out),
        "pg_attrdef" => defaults(out),
        "pg_index" => indexes(out),
        "pg_constraint" => constraints(out),
        "pg_sequence" | "pg_sequences" => sequences(out, table),
        "pg_tables" => tables(out),
        "pg_views" => views(out),
        "pg_indexes" => index_definitions(out),
        "pg_description" => descriptions(out),
        "pg_depend" => super::dependencies::fill(out),
        "pg_rewrite" => rewrites(out),
        "pg_stat_user_tables" | "pg_stat_all_tables" => table_statistics(out),
        "pg_statio_user_tables" | "pg_statio_all_tables" => table_input(out),
        "pg_stat_user_indexes"
        | "pg_stat_all_indexes"
        | "pg_statio_user_indexes"
        | "pg_statio_all_indexes" => index_statistics(out),
        _ => return false,
    }
    true
}

fn sorted_relations(catalog: &Catalog) -> Vec<&Relation> {
    let mut all: Vec<&Relation> = catalog.relations().collect();
    all.sort_by_key(|r| r.oid());
    all
}

fn sorted_tables(catalog: &Catalog) -> Vec<&Table> {
    let mut all: Vec<&Table> = catalog.tables().map(|t| &**t).collect();
    all.sort_by_key(|t| t.oid);
    all
}

fn classes(out: &mut Rows<'_>) {
    let catalog = &*out.shared.catalog.clone();
    for system in system_tables() {
        let Some(schema) = catalog.schema_named(system.schema) else { continue };
        out.add(vec![
            ("oid", Datum::Oid(system.oid)),
            ("relname", text(system.name)),
            ("relnamespace", oid(schema.oid)),
            ("relowner", oid(tenant::catalog::OWNER_ROLE)),
            ("relam", Datum::Oid(if system.kind == b'r' { HEAP } else { 0 })),
            ("relkind", letter(system.kind)),
            ("relnatts", Datum::Int2(system.shown_columns() as i16)),
            ("relpersistence", letter(b'p')),
            ("relispopulated", Datum::Bool(true)),
            ("relreplident", letter(b'n')),
            ("reltuples", Datum::Float4(-1.0)),
        ]);
    }
    for relation in sorted_relations(catalog) {
        let mut row = vec![
            ("oid", oid(relation.oid())),
            ("relname", text(relation.name())),
            ("relnamespace", oid(relation.schema())),
            ("relowner", oid(relation.owner())),
            ("relfilenode", oid(relation.oid())),
            ("relpersistence", letter(b'p')),
            ("relispopulated", Datum::Bool(true)),
            ("reltuples", Datum::Float4(-1.0)),
        ];
        match relation {
            Relation::Table(table) => {
                let rows = match (&out.shared.view, catalog.statistics(table.oid)) {
                    (Some(view), Some(_)) => view.row_count(table) as f32,
                    _ => -1.0,
                };
                row.extend([
                    ("relkind", letter(b'r')),
                    ("reltype", row_type(table.oid)),
                    ("relam", Datum::Oid(HEAP)),
                    ("reltuples", Datum::Float4(rows)),
                    ("relnatts", Datum::Int2(table.columns.len() as i16)),
                    ("relchecks", Datum::Int2(table.checks.len() as i16)),
                    ("relhasindex", Datum::Bool(!table.indexes.is_empty())),
                    (
                        "relhastriggers",
                        Datum::Bool(!table.foreign_keys.is_empty() || !table.referenced_by.is_empty()),
                    ),
                    ("relreplident", letter(b'd')),
                    ("relacl", acl(catalog, table.acl.as_ref())),
                ]);
            }
            Relation::Index(table, at) => row.extend([
                ("relkind", letter(b'i')),
                ("relam", Datum::Oid(BTREE)),
                ("relnatts", Datum::Int2(width(&table.indexes[*at]))),
                ("relreplident", letter(b'n')),
            ]),
            Relation::View(view) => row.extend([
                ("relkind", letter(b'v')),
                ("reltype", row_type(view.oid)),
                ("relnatts", Datum::Int2(view.columns.len() as i16)),
                ("relhasrules", Datum::Bool(true)),
                ("relreplident", letter(b'n')),
                ("relacl", acl(catalog, view.acl.as_ref())),
            ]),
            Relation::Sequence(sequence) => row.extend([
                ("relkind", letter(b'S')),
                ("relnatts", Datum::Int2(3)),
                ("relreplident", letter(b'n')),
                ("relacl", acl(catalog, sequence.acl.as_ref())),
            ]),
        }
        out.add(row);
    }
}

/// The oid of the type that a table's or view's rows have, made of its own.
pub(super) fn row_type(relation: Oid) -> Datum {
    Datum::Oid(relation.0 | 0x2000_0000)
}

/// What `pg_attribute` says of a type.
fn attribute(
    relation: Oid,
    number: i16,
    name: &str,
    ty: PgType,
    typmod: TypeMod,
) -> Vec<(&'static str, Datum)> {
    let collated = ty.is_string() || ty.element().is_some_and(PgType::is_string);
    let collation = match ty {
        PgType::Name => 950,
        _ if collated => DEFAULT_COLLATION,
        _ => 0,
    };
    vec![
        ("attrelid", oid(relation)),
        ("attname", text(name)),
        ("atttypid", Datum::Oid(ty.oid())),
        ("attnum", Datum::Int2(number)),
        ("attlen", Datum::Int2(ty.type_len())),
        ("atttypmod", Datum::Int4(typmod.0)),
        ("attstattarget", Datum::Int4(-1)),
        ("attcacheoff", Datum::Int4(-1)),
        ("attndims", Datum::Int4(i32::from(ty.element().is_some()))),
        ("attstorage", letter(definitions::storage(ty))),
        ("attalign", letter(b'i')),
        ("attislocal", Datum::Bool(true)),
        ("attcollation", Datum::Oid(collation)),
    ]
}

fn attributes(out: &mut Rows<'_>) {
    let catalog = &*out.shared.catalog.clone();
    for system in system_tables() {
        for (i, (name, ty)) in
            system.columns.iter().enumerate().filter(|(_, (name, _))| !system.is_hidden(name))
        {
            let mut row = attribute(Oid(system.oid), i as i16 + 1, name, *ty, TypeMod::NONE);
            row.push(("attnotnull", Datum::Bool(system.not_null[i])));
            out.add(row);
        }
    }
    for relation in sorted_relations(catalog) {
        match relation {
            Relation::Table(table) => {
                for (i, column) in table.columns.iter().enumerate() {
                    let dropped = format!("........pg.dropped.{}........", i + 1);
                    let name = if column.dropped { dropped.as_str() } else { column.name.as_str() };
                    let mut row = attribute(table.oid, i as i16 + 1, name, column.ty, column.typmod);
                    row.extend([
                        ("attnotnull", Datum::Bool(column.not_null)),
                        ("atthasdef", Datum::Bool(column.default.is_some())),
                        ("atthasmissing", Datum::Bool(column.missing.is_some())),
                        ("attisdropped", Datum::Bool(column.dropped)),
                        ("attidentity", identity(column.identity)),
                    ]);
                    if column.is_generated() {
                        row.push(("attgenerated", letter(b's')));
                    }
                    if column.dropped {
                        row.push(("atttypid", Datum::Oid(0)));
                    }
                    out.add(row);
                }
            }
            Relation::Index(table, at) => {
                let index = &table.indexes[*at];
                let own = |position: usize| {
                    let column = &table.columns[position];
                    (column.name.as_str(), column.ty, column.typmod)
                };
                let key = |key: &IndexColumn| match key.function {
                    Some(function) => (function.name(), PgType::Text, TypeMod::NONE),
                    None => own(key.column),
                };
                let keys = index.columns.iter().map(key);
                let all = keys.chain(index.included.iter().map(|position| own(*position)));
                for (i, (name, ty, typmod)) in all.enumerate() {
                    out.add(attribute(index.oid, i as i16 + 1, name, ty, typmod));
                }
            }
            Relation::View(view) => {
                for (i, column) in view.columns.iter().enumerate() {
                    out.add(attribute(view.oid, i as i16 + 1, &column.name, column.ty, column.typmod));
                }
            }
            Relation::Sequence(sequence) => {
                let columns =
                    [("last_value", PgType::Int8), ("log_cnt", PgType::Int8), ("is_called", PgType::Bool)];
                for (i, (name, ty)) in columns.into_iter().enumerate() {
                    out.add(attribute(sequence.oid, i as i16 + 1, name, ty, TypeMod::NONE));
                }
            }
        }
    }
}

/// `pg_attribute.attidentity`.
fn identity(identity: Option<Identity>) -> Datum {
    letter(match identity {
        None => 0,
        Some(Identity::Always) => b'a',
        Some(Identity::ByDefault) => b'd',
    })
}

/// The oid of a column's default, which has none of its own: made of the table's and the column's, above all others.
pub(super) fn default_oid(table: Oid, position: usize) -> Datum {
    Datum::Oid(0x8000_0000 | (table.0 << 11) & 0x7fff_ffff | position as u32)
}

fn defaults(out: &mut Rows<'_>) {
    let catalog = &out.shared.catalog.clone();
    let path = out.shared.search_path.clone();
    for table in sorted_tables(catalog) {
        for (position, column) in table.live_columns() {
            if let Some(default) = definitions::default(catalog, &path, column) {
                out.add(vec![
                    ("oid", default_oid(table.oid, position)),
                    ("adrelid", oid(table.oid)),
                    ("adnum", Datum::Int2(position as i16 + 1)),
                    ("adbin", text(default)),
                ]);
            }
        }
    }
}

/// How many columns an index has, those that it includes among them.
fn width(index: &Index) -> i16 {
    (index.columns.len() + index.included.len()) as i16
}

/// The type of an index's keys.
fn key_type(table: &Table, key: &IndexColumn) -> PgType {
    if key.function.is_some() { PgType::Text } else { table.columns[key.column].ty }
}

fn indexes(out: &mut Rows<'_>) {
    let catalog = &out.shared.catalog.clone();
    let path = out.shared.search_path.clone();
    for table in sorted_tables(catalog) {
        for index in &table.indexes {
            let types = || index.columns.iter().map(|key| key_type(table, key));
            let number = |position: usize| position as i16 + 1;
            let keys = index.columns.iter().map(|key| key.plain().map_or(0, number));
            let numbers = keys.chain(index.included.iter().map(|position| number(*position)));
            let of_functions = index.columns.iter().filter(|key| key.function.is_some());
            let expressions: Vec<String> =
                of_functions.map(|key| definitions::key(table, key, false)).collect();
            let expressions = if expressions.is_empty() { Datum::Null } else { text(expressions.join(", ")) };
            let option =
                |c: &tenant::catalog::IndexColumn| i16::from(c.descending) | (i16::from(c.nulls_first) << 1);
            let predicate = index.predicate.as_ref().map_or(Datum::Null, |predicate| {
                text(predicate_text::shown(catalog, &path, table, predicate, false))
            });
            out.add(vec![
                ("indexrelid", oid(index.oid)),
                ("indrelid", oid(table.oid)),
                ("indexprs", expressions),
                ("indpred", predicate),
                ("indnatts", Datum::Int2(width(index))),
                ("indnkeyatts", Datum::Int2(index.columns.len() as i16)),
                ("indisunique", Datum::Bool(index.unique)),
                ("indnullsnotdistinct", Datum::Bool(index.nulls_not_distinct)),
                ("indisprimary", Datum::Bool(index.is_primary())),
                ("indimmediate", Datum::Bool(true)),
                ("indisvalid", Datum::Bool(true)),
                ("indisready", Datum::Bool(true)),
                ("indislive", Datum::Bool(true)),
                ("indkey", smallints(numbers)),
                ("indcollation", oids(types().map(|ty| if ty.is_string() { DEFAULT_COLLATION } else { 0 }))),
                ("indclass", oids(types().map(super::types_rows::operator_class))),
                ("indoption", smallints(index.columns.iter().map(option))),
            ]);
        }
    }
}

fn constraints(out: &mut Rows<'_>) {
    let catalog = &out.shared.catalog.clone();
    let path = out.shared.search_path.clone();
    let numbers = |positions: &mut dyn Iterator<Item = usize>| smallints(positions.map(|i| i as i16 + 1));
    for table in sorted_tables(catalog) {
        let common = |id: Oid, name: &str, kind: u8| {
            vec![
                ("oid", oid(id)),
                ("conname", text(name)),
                ("connamespace", oid(table.schema)),
                ("contype", letter(kind)),
                ("conrelid", oid(table.oid)),
                ("conislocal", Datum::Bool(true)),
                ("connoinherit", Datum::Bool(kind != b'c')),
                ("confupdtype", letter(b' ')),
                ("confdeltype", letter(b' ')),
                ("confmatchtype", letter(b' ')),
            ]
        };
        for index in &table.indexes {
            if let Some(constraint) = index.constraint {
                let mut row =
                    common(constraint.oid, &index.name, if constraint.primary { b'p' } else { b'u' });
                row.push(("conindid", oid(index.oid)));
                row.push(("convalidated", Datum::Bool(true)));
                row.push(("conkey", numbers(&mut index.column_positions())));
                out.add(row);
            }
        }
        for check in &table.checks {
            let mut row = common(check.oid, &check.name, b'c');
            row.push(("convalidated", Datum::Bool(check.validated)));
            row.push(("conkey", numbers(&mut check.columns.iter().copied())));
            let condition = kept_text::shown(catalog, &path, &check.expression);
            row.push(("conbin", text(format!("({condition})"))));
            out.add(row);
        }
        for key in &table.foreign_keys {
            let mut row = common(key.oid, &key.name, b'f');
            row.extend([
                ("condeferrable", Datum::Bool(key.deferral.is_deferrable())),
                ("condeferred", Datum::Bool(key.deferral.is_initially_deferred())),
                ("convalidated", Datum::Bool(key.validated)),
                ("conindid", oid(key.referenced_index)),
                ("confrelid", oid(key.referenced_table)),
                ("confupdtype", letter(action_letter(key.on_update))),
                ("confdeltype", letter(action_letter(key.on_delete))),
                (
                    "confmatchtype",
                    letter(if key.match_type == tenant::catalog::MatchType::Full { b'f' } else { b's' }),
                ),
                ("conkey", numbers(&mut key.columns.iter().copied())),
                ("confkey", numbers(&mut key.referenced_columns.iter().copied())),
            ]);
            out.add(row);
        }
    }
}

fn sequences(out: &mut Rows<'_>, name: &str) {
    let catalog = &*out.shared.catalog.clone();
    let reader = Reader::of(out.shared);
    let values: FxHashMap<Oid, i64> = out.shared.context.sequences.iter().copied().collect();
    let mut all: Vec<_> = catalog.sequences().collect();
    all.sort_by_key(|s| s.oid);
    for s in all {
        if name == "pg_sequence" {
            out.add(vec![
                ("seqrelid", oid(s.oid)),
                ("seqtypid", Datum::Oid(s.ty.oid())),
                ("seqstart", Datum::Int8(s.start)),
                ("seqincrement", Datum::Int8(s.increment)),
                ("seqmax", Datum::Int8(s.max)),
                ("seqmin", Datum::Int8(s.min)),
                ("seqcache", Datum::Int8(s.cache)),
                ("seqcycle", Datum::Bool(s.cycle)),
            ]);
        } else {
            let may_read =
                reader.has_any(s.owner, s.acl.as_ref(), Privileges::SELECT.union(Privileges::USAGE));
            let last_value = values.get(&s.oid).filter(|_| may_read);
            out.add(vec![
                ("schemaname", text(catalog.schema_name(s.schema))),
                ("sequencename", text(&s.name)),
                ("sequenceowner", role_name(catalog, s.owner)),
                ("data_type", Datum::Oid(s.ty.oid())),
                ("start_value", Datum::Int8(s.start)),
                ("min_value", Datum::Int8(s.min)),
                ("max_value", Datum::Int8(s.max)),
                ("increment_by", Datum::Int8(s.increment)),
                ("cycle", Datum::Bool(s.cycle)),
                ("cache_size", Datum::Int8(s.cache)),
                ("last_value", last_value.map_or(Datum::Null, |value| Datum::Int8(*value))),
            ]);
        }
    }
}

/// A role's name, as `pg_get_userbyid` gives it.
pub(super) fn role_name(catalog: &Catalog, role: Oid) -> Datum {
    catalog.role(role).map_or_else(|| text(format!("unknown (OID={role})")), |r| text(&r.name))
}

fn tables(out: &mut Rows<'_>) {
    let catalog = &*out.shared.catalog.clone();
    for table in sorted_tables(catalog) {
        out.add(vec![
            ("schemaname", text(catalog.schema_name(table.schema))),
            ("tablename", text(&table.name)),
            ("tableowner", role_name(catalog, table.owner)),
            ("hasindexes", Datum::Bool(!table.indexes.is_empty())),
            ("hasrules", Datum::Bool(false)),
            ("hastriggers", Datum::Bool(!table.foreign_keys.is_empty() || !table.referenced_by.is_empty())),
            ("rowsecurity", Datum::Bool(false)),
        ]);
    }
    for system in system_tables().iter().filter(|t| t.kind == b'r') {
        out.add(vec![
            ("schemaname", text(system.schema)),
            ("tablename", text(system.name)),
            ("tableowner", role_name(catalog, tenant::catalog::OWNER_ROLE)),
        ]);
    }
}

fn views(out: &mut Rows<'_>) {
    let catalog = &out.shared.catalog.clone();
    let path = out.shared.search_path.clone();
    let mut all: Vec<_> = catalog.views().collect();
    all.sort_by_key(|v| v.oid);
    for view in all {
        out.add(vec![
            ("schemaname", text(catalog.schema_name(view.schema))),
            ("viewname", text(&view.name)),
            ("viewowner", role_name(catalog, view.owner)),
            ("definition", definitions::view(catalog, &path, view.oid).map_or(Datum::Null, text)),
        ]);
    }
}

fn index_definitions(out: &mut Rows<'_>) {
    let catalog = &out.shared.catalog.clone();
    let path = out.shared.search_path.clone();
    for table in sorted_tables(catalog) {
        for index in &table.indexes {
            out.add(vec![
                ("schemaname", text(catalog.schema_name(table.schema))),
                ("tablename", text(&table.name)),
                ("indexname", text(&index.name)),
                (
                    "indexdef",
                    definitions::index(catalog, &path, index.oid, 0, false).map_or(Datum::Null, text),
                ),
            ]);
        }
    }
}

fn descriptions(out: &mut Rows<'_>) {
    let catalog = &*out.shared.catalog.clone();
    for relation in sorted_relations(catalog) {
        let columns = match relation {
            Relation::Table(table) => table.columns.len(),
            Relation::View(view) => view.columns.len(),
            _ => 0,
        };
        for position in std::iter::once(None).chain((0..columns).map(Some)) {
            if let Some(comment) = catalog.comment(relation.oid(), position) {
                out.add(vec![
                    ("objoid", oid(relation.oid())),
                    ("classoid", Datum::Oid(PG_CLASS)),
                    ("objsubid", Datum::Int4(position.map_or(0, |p| p as i32 + 1))),
                    ("description", text(comment)),
                ]);
            }
        }
    }
    let constraints = sorted_tables(catalog).into_iter().flat_map(|table| {
        let keys = table.indexes.iter().filter_map(|index| index.constraint).map(|key| key.oid);
        let checks = table.checks.iter().map(|check| check.oid);
        let own: Vec<Oid> = keys.chain(checks).chain(table.foreign_keys.iter().map(|key| key.oid)).collect();
        own
    });
    let types = catalog.enums().map(|ty| (ty.oid, PG_TYPE));
    for (object, class) in constraints.map(|constraint| (constraint, PG_CONSTRAINT)).chain(types) {
        if let Some(comment) = catalog.comment(object, None) {
            out.add(vec![
                ("objoid", oid(object)),
                ("classoid", Datum::Oid(class)),
                ("description", text(comment)),
            ]);
        }
    }
    for extension in catalog.extensions() {
        let initial = extension_named(&extension.name).map_or("", |known| known.comment);
        out.add(vec![
            ("objoid", oid(extension.oid)),
            ("classoid", Datum::Oid(PG_EXTENSION)),
            ("description", text(catalog.comment(extension.oid, None).unwrap_or(initial))),
        ]);
    }
    for schema in catalog.schemas() {
        if let Some(comment) = catalog.comment(schema.oid, None) {
            out.add(vec![
                ("objoid", oid(schema.oid)),
                ("classoid", Datum::Oid(2615)),
                ("description", text(comment)),
            ]);
        }
    }
}

/// The oid of a view's rule, made of the view's own.
pub(super) fn rule_oid(view: Oid) -> Datum {
    Datum::Oid(view.0 | RULE)
}

/// Each view has the rule `_RETURN`, as in PostgreSQL.
fn rewrites(out: &mut Rows<'_>) {
    let catalog = &*out.shared.catalog.clone();
    for view in catalog.views() {
        out.add(vec![
            ("oid", rule_oid(view.oid)),
            ("rulename", text("_RETURN")),
            ("ev_class", oid(view.oid)),
            ("ev_type", letter(b'1')),
            ("ev_enabled", letter(b'O')),
            ("is_instead", Datum::Bool(true)),
        ]);
    }
}

fn table_statistics(out: &mut Rows<'_>) {
    let catalog = &*out.shared.catalog.clone();
    for table in sorted_tables(catalog) {
        let rows = out.shared.view.as_ref().map_or(0, |view| view.row_count(table));
        out.add(vec![
            ("relid", oid(table.oid)),
            ("schemaname", text(catalog.schema_name(table.schema))),
            ("relname", text(&table.name)),
            ("n_live_tup", Datum::Int8(rows as i64)),
            ("n_dead_tup", Datum::Int8(0)),
        ]);
    }
}

/// Pages are not counted by table.
fn table_input(out: &mut Rows<'_>) {
    let catalog = &*out.shared.catalog.clone();
    for table in sorted_tables(catalog) {
        out.add(vec![
            ("relid", oid(table.oid)),
            ("schemaname", text(catalog.schema_name(table.schema))),
            ("relname", text(&table.name)),
        ]);
    }
}

/// Nor are uses by index, nor its pages.
fn index_statistics(out: &mut Rows<'_>) {
    let catalog = &*out.shared.catalog.clone();
    for table in sorted_tables(catalog) {
        for index in &table.indexes {
            out.add(vec![
                ("relid", oid(table.oid)),
                ("indexrelid", oid(index.oid)),
                ("schemaname", text(catalog.schema_name(table.schema))),
                ("relname", text(&table.name)),
                ("indexrelname", text(&index.name)),
            ]);
        }
    }
}
