//! `information_schema`: the standard's views of the user's objects. Each shows what the session's roles own or have a privilege on, by PostgreSQL's rule
//! for that view.

use sql::kept_text;
use sql::system::system_tables;
use tenant::catalog::{
    Deferral, Identity, MatchType, Privileges, ReferentialAction, Relation, Schema, Sequence, Table,
    ViewDefinition,
};
use types::{Datum, PgType, TypeMod};

use super::access::Reader;
use super::{Rows, text, yes};

/// What each column of a table may be granted for.
pub(super) const OF_COLUMNS: Privileges =
    Privileges::SELECT.union(Privileges::INSERT).union(Privileges::UPDATE).union(Privileges::REFERENCES);

/// With these its constraints concern a role: to read it is not enough.
const OF_CONSTRAINTS: Privileges = Privileges::TABLE.without(Privileges::SELECT);

/// Fills the view of that name; false if it is not one of these.
pub(super) fn fill(out: &mut Rows<'_>, view: &str) -> bool {
    match view {
        "schemata" => schemata(out),
        "tables" => tables(out),
        "columns" => columns(out),
        "views" => views(out),
        "sequences" => sequences(out),
        "table_constraints" => table_constraints(out),
        "key_column_usage" => key_columns(out),
        "constraint_column_usage" => constraint_columns(out),
        "constraint_table_usage" => constraint_tables(out),
        "view_table_usage" => view_tables(out),
        "view_column_usage" => view_columns(out),
        "character_sets" => {
            let catalog = database(out);
            out.add(vec![
                ("character_set_name", text("UTF8")),
                ("character_repertoire", text("UCS")),
                ("form_of_use", text("UTF8")),
                ("default_collate_catalog", catalog),
            ]);
        }
        "collations" => {
            for (_, name, _) in super::types_rows::COLLATIONS {
                let catalog = database(out);
                out.add(vec![
                    ("collation_catalog", catalog),
                    ("collation_schema", text("pg_catalog")),
                    ("collation_name", text(name)),
                    ("pad_attribute", text("NO PAD")),
                ]);
            }
        }
        "information_schema_catalog_name" => {
            let name = database(out);
            out.add(vec![("catalog_name", name)]);
        }
        "referential_constraints" => references(out),
        "check_constraints" => checks(out),
        _ => return false,
    }
    true
}

fn database(out: &Rows<'_>) -> Datum {
    text(&out.shared.context.database)
}

/// The tables that the session owns or has some of these privileges on.
fn shown(out: &Rows<'_>, privileges: Privileges) -> Vec<std::sync::Arc<Table>> {
    let reader = Reader::of(out.shared);
    let is_shown = |t: &&std::sync::Arc<Table>| reader.has_any(t.owner, t.acl.as_ref(), privileges);
    let mut all: Vec<_> = out.shared.catalog.tables().filter(is_shown).cloned().collect();
    all.sort_by_key(|t| t.oid);
    all
}

fn sorted(out: &Rows<'_>) -> Vec<std::sync::Arc<Table>> {
    let mut all: Vec<_> = out.shared.catalog.tables().cloned().collect();
    all.sort_by_key(|t| t.oid);
    all
}

fn schema(out: &Rows<'_>, oid: base::Oid) -> Datum {
    text(out.shared.catalog.schema_name(oid))
}

fn schemata(out: &mut Rows<'_>) {
    let (catalog, reader) = (out.shared.catalog.clone(), Reader::of(out.shared));
    let is_shown = |s: &&std::sync::Arc<Schema>| reader.has_any(s.owner, s.acl.as_ref(), Privileges::SCHEMA);
    for schema in catalog.schemas().filter(is_shown) {
        let owner = super::objects::role_name(&catalog, schema.owner);
        out.add(vec![
            ("catalog_name", database(out)),
            ("schema_name", text(&schema.name)),
            ("schema_owner", owner),
        ]);
    }
}

fn tables(out: &mut Rows<'_>) {
    let mut all = Vec::new();
    all.extend(shown(out, Privileges::TABLE).iter().map(|t| (t.schema, t.name.clone(), "BASE TABLE")));
    all.extend(shown_views(out, Privileges::TABLE).iter().map(|v| (v.schema, v.name.clone(), "VIEW")));
    for (of, name, kind) in all {
        out.add(vec![
            ("table_catalog", database(out)),
            ("table_schema", schema(out, of)),
            ("table_name", text(name)),
            ("table_type", text(kind)),
            ("is_insertable_into", yes(kind == "BASE TABLE")),
            ("is_typed", yes(false)),
        ]);
    }
    for system in system_tables() {
        let kind = if system.kind == b'r' { "BASE TABLE" } else { "VIEW" };
        out.add(vec![
            ("table_catalog", database(out)),
            ("table_schema", text(system.schema)),
            ("table_name", text(system.name)),
            ("table_type", text(kind)),
            ("is_insertable_into", yes(false)),
            ("is_typed", yes(false)),
        ]);
    }
}

/// The columns of `information_schema.columns` that depend on the type.
fn type_facts(ty: PgType, typmod: TypeMod) -> Vec<(&'static str, Datum)> {
    let number = |n: i32| Datum::Int4(n);
    let mut facts = match ty {
        PgType::Int2 => vec![
            ("numeric_precision", number(16)),
            ("numeric_precision_radix", number(2)),
            ("numeric_scale", number(0)),
        ],
        PgType::Int4 => vec![
            ("numeric_precision", number(32)),
            ("numeric_precision_radix", number(2)),
            ("numeric_scale", number(0)),
        ],
        PgType::Int8 => vec![
            ("numeric_precision", number(64)),
            ("numeric_precision_radix", number(2)),
            ("numeric_scale", number(0)),
        ],
        PgType::Float4 => vec![("numeric_precision", number(24)), ("numeric_precision_radix", number(2))],
        PgType::Float8 => vec![("numeric_precision", number(53)), ("numeric_precision_radix", number(2))],
        PgType::Numeric => {
            let mut facts = vec![("numeric_precision_radix", number(10))];
            if let Some((precision, scale)) = typmod.as_numeric() {
                facts.push(("numeric_precision", number(i32::from(precision))));
                facts.push(("numeric_scale", number(i32::from(scale))));
            }
            facts
        }
        PgType::Varchar | PgType::Bpchar => match typmod.as_length() {
            Some(n) => vec![
                ("character_maximum_length", number(n as i32)),
                ("character_octet_length", number(4 * n as i32)),
            ],
            None => vec![("character_octet_length", number(1 << 30))],
        },
        PgType::Text => vec![("character_octet_length", number(1 << 30))],
        PgType::Date => vec![("datetime_precision", number(0))],
        PgType::Time | PgType::Timestamp | PgType::TimestampTz | PgType::Interval => {
            vec![("datetime_precision", number(typmod.as_precision().map_or(6, i32::from)))]
        }
        _ => Vec::new(),
    };
    let shown = match ty {
        PgType::Array(_) => "ARRAY".to_owned(),
        PgType::Enum(_) => "USER-DEFINED".to_owned(),
        ty => ty.name().to_owned(),
    };
    facts.push(("data_type", text(shown)));
    facts
}

fn type_schema_and_name(out: &Rows<'_>, ty: PgType) -> (Datum, Datum) {
    let catalog = &out.shared.catalog;
    let (of, prefix) = match ty {
        PgType::Enum(oid) => (catalog.enum_type(oid), ""),
        PgType::Array(types::ElementType::Enum(oid)) => (catalog.enum_type(oid), "_"),
        _ => (None, ""),
    };
    match of {
        Some(found) => (text(catalog.schema_name(found.schema)), text(format!("{prefix}{}", found.name))),
        None => (text("pg_catalog"), text(ty.internal_name())),
    }
}

struct ColumnRow<'x> {
    schema: Datum,
    table: &'x str,
    name: &'x str,
    position: i32,
    ty: PgType,
    typmod: TypeMod,
    nullable: bool,
    updatable: bool,
}

fn column(out: &Rows<'_>, row: &ColumnRow<'_>) -> Vec<(&'static str, Datum)> {
    let (udt_schema, udt_name) = type_schema_and_name(out, row.ty);
    let mut values = vec![
        ("table_catalog", database(out)),
        ("table_schema", row.schema.clone()),
        ("table_name", text(row.table)),
        ("column_name", text(row.name)),
        ("ordinal_position", Datum::Int4(row.position)),
        ("is_nullable", yes(row.nullable)),
        ("udt_catalog", database(out)),
        ("udt_schema", udt_schema),
        ("udt_name", udt_name),
        ("dtd_identifier", text(row.position.to_string())),
        ("is_self_referencing", yes(false)),
        ("is_identity", yes(false)),
        ("identity_cycle", yes(false)),
        ("is_generated", text("NEVER")),
        ("is_updatable", yes(row.updatable)),
    ];
    values.extend(type_facts(row.ty, row.typmod));
    values
}

fn columns(out: &mut Rows<'_>) {
    let catalog = out.shared.catalog.clone();
    for table in shown(out, OF_COLUMNS) {
        for (position, c) in table.live_columns() {
            let of = schema(out, table.schema);
            let mut row = column(
                out,
                &ColumnRow {
                    schema: of,
                    table: &table.name,
                    name: &c.name,
                    position: position as i32 + 1,
                    ty: c.ty,
                    typmod: c.typmod,
                    nullable: !c.not_null,
                    updatable: true,
                },
            );
            if let Some(default) = super::definitions::default(&catalog, &out.shared.search_path, c) {
                match c.is_generated() {
                    true => {
                        row.push(("is_generated", text("ALWAYS")));
                        row.push(("generation_expression", text(default)));
                    }
                    false => row.push(("column_default", text(default))),
                }
            }
            if let Some(identity) = c.identity {
                row.push(("is_identity", yes(true)));
                let words = if identity == Identity::Always { "ALWAYS" } else { "BY DEFAULT" };
                row.push(("identity_generation", text(words)));
                if let Some(s) = c.sequence.and_then(|oid| catalog.sequence(oid)) {
                    row.push(("identity_start", text(s.start.to_string())));
                    row.push(("identity_increment", text(s.increment.to_string())));
                    row.push(("identity_maximum", text(s.max.to_string())));
                    row.push(("identity_minimum", text(s.min.to_string())));
                    row.push(("identity_cycle", yes(s.cycle)));
                }
            }
            out.add(row);
        }
    }
    for view in shown_views(out, OF_COLUMNS) {
        for (position, c) in view.columns.iter().enumerate() {
            let of = schema(out, view.schema);
            let row = column(
                out,
                &ColumnRow {
                    schema: of,
                    table: &view.name,
                    name: &c.name,
                    position: position as i32 + 1,
                    ty: c.ty,
                    typmod: c.typmod,
                    nullable: true,
                    updatable: false,
                },
            );
            out.add(row);
        }
    }
    for system in system_tables() {
        for (position, (name, ty)) in
            system.columns.iter().enumerate().filter(|(_, (name, _))| !system.is_hidden(name))
        {
            let row = column(
                out,
                &ColumnRow {
                    schema: text(system.schema),
                    table: system.name,
                    name,
                    position: position as i32 + 1,
                    ty: *ty,
                    typmod: TypeMod::NONE,
                    nullable: !system.not_null[position],
                    updatable: false,
                },
            );
            out.add(row);
        }
    }
}

/// The views that the session owns or has some of these privileges on.
fn shown_views(out: &Rows<'_>, privileges: Privileges) -> Vec<std::sync::Arc<ViewDefinition>> {
    let reader = Reader::of(out.shared);
    let is_shown = |v: &&std::sync::Arc<ViewDefinition>| reader.has_any(v.owner, v.acl.as_ref(), privileges);
    out.shared.catalog.views().filter(is_shown).cloned().collect()
}

fn views(out: &mut Rows<'_>) {
    let (catalog, reader) = (out.shared.catalog.clone(), Reader::of(out.shared));
    for view in shown_views(out, Privileges::TABLE) {
        out.add(vec![
            ("table_catalog", database(out)),
            ("table_schema", schema(out, view.schema)),
            ("table_name", text(&view.name)),
            (
                "view_definition",
                super::definitions::view(&catalog, &out.shared.search_path, view.oid)
                    .filter(|_| reader.owns(view.owner))
                    .map_or(Datum::Null, text),
            ),
            ("check_option", text("NONE")),
            ("is_updatable", yes(false)),
            ("is_insertable_into", yes(false)),
            ("is_trigger_updatable", yes(false)),
            ("is_trigger_deletable", yes(false)),
            ("is_trigger_insertable_into", yes(false)),
        ]);
    }
}

fn sequences(out: &mut Rows<'_>) {
    let catalog = out.shared.catalog.clone();
    let is_identity = |s: &Sequence| {
        s.owned_by.and_then(|(table, column)| Some(catalog.table(table)?.columns[column].identity.is_some()))
    };
    let reader = Reader::of(out.shared);
    let is_shown = |s: &Sequence| reader.has_any(s.owner, s.acl.as_ref(), Privileges::SEQUENCE);
    for s in catalog.sequences().filter(|s| is_identity(s) != Some(true) && is_shown(s)) {
        let precision = match s.ty {
            PgType::Int2 => 16,
            PgType::Int4 => 32,
            _ => 64,
        };
        out.add(vec![
            ("sequence_catalog", database(out)),
            ("sequence_schema", schema(out, s.schema)),
            ("sequence_name", text(&s.name)),
            ("data_type", text(s.ty.name())),
            ("numeric_precision", Datum::Int4(precision)),
            ("numeric_precision_radix", Datum::Int4(2)),
            ("numeric_scale", Datum::Int4(0)),
            ("start_value", text(s.start.to_string())),
            ("minimum_value", text(s.min.to_string())),
            ("maximum_value", text(s.max.to_string())),
            ("increment", text(s.increment.to_string())),
            ("cycle_option", yes(s.cycle)),
        ]);
    }
}

/// The name of a constraint with its table, as all of these views begin.
fn constraint(out: &Rows<'_>, table: &Table, name: &str, with_table: bool) -> Vec<(&'static str, Datum)> {
    let of = schema(out, table.schema);
    let mut row = vec![
        ("constraint_catalog", database(out)),
        ("constraint_schema", of.clone()),
        ("constraint_name", text(name)),
    ];
    if with_table {
        row.extend([
            ("table_catalog", database(out)),
            ("table_schema", of),
            ("table_name", text(&table.name)),
        ]);
    }
    row
}

/// The table of a key, or the one that a foreign key refers to.
fn constraint_tables(out: &mut Rows<'_>) {
    let (catalog, reader) = (out.shared.catalog.clone(), Reader::of(out.shared));
    for table in sorted(out) {
        let keys = table.indexes.iter().filter(|i| i.constraint.is_some()).map(|i| (&i.name, table.oid));
        let foreign = table.foreign_keys.iter().map(|key| (&key.name, key.referenced_table));
        for (name, of) in keys.chain(foreign) {
            let Some(of) = catalog.table(of).filter(|of| reader.owns(of.owner)) else { continue };
            out.add(vec![
                ("table_catalog", database(out)),
                ("table_schema", schema(out, of.schema)),
                ("table_name", text(&of.name)),
                ("constraint_catalog", database(out)),
                ("constraint_schema", schema(out, table.schema)),
                ("constraint_name", text(name)),
            ]);
        }
    }
}

fn view_tables(out: &mut Rows<'_>) {
    let (catalog, reader) = (out.shared.catalog.clone(), Reader::of(out.shared));
    for view in catalog.views() {
        let whole = view.depends_on.iter().filter(|used| used.column.is_none());
        let relations = whole.filter_map(|used| catalog.relation(used.object));
        let is_shown = |used: &&Relation| !matches!(used, Relation::Index(..)) && reader.owns(used.owner());
        for used in relations.filter(is_shown) {
            out.add(vec![
                ("view_catalog", database(out)),
                ("view_schema", schema(out, view.schema)),
                ("view_name", text(&view.name)),
                ("table_catalog", database(out)),
                ("table_schema", schema(out, used.schema())),
                ("table_name", text(used.name())),
            ]);
        }
    }
}

/// The columns that a view names.
fn view_columns(out: &mut Rows<'_>) {
    let (catalog, reader) = (out.shared.catalog.clone(), Reader::of(out.shared));
    for view in catalog.views() {
        for used in &view.depends_on {
            let found = catalog.relation(used.object).filter(|used| reader.owns(used.owner()));
            let (Some(found), Some(position)) = (found, used.column) else { continue };
            let name = match found {
                Relation::Table(table) => &*table.columns[position].name,
                Relation::View(of) => &*of.columns[position].name,
                Relation::Index(..) | Relation::Sequence(_) => continue,
            };
            out.add(vec![
                ("view_catalog", database(out)),
                ("view_schema", schema(out, view.schema)),
                ("view_name", text(&view.name)),
                ("table_catalog", database(out)),
                ("table_schema", schema(out, found.schema())),
                ("table_name", text(found.name())),
                ("column_name", text(name)),
            ]);
        }
    }
}

fn table_constraints(out: &mut Rows<'_>) {
    for table in shown(out, OF_CONSTRAINTS) {
        let mut all: Vec<(String, &str, Deferral)> = Vec::new();
        let at_once = Deferral::NotDeferrable;
        for index in table.indexes.iter().filter(|i| i.constraint.is_some()) {
            let kind = if index.is_primary() { "PRIMARY KEY" } else { "UNIQUE" };
            all.push((index.name.to_string(), kind, at_once));
        }
        all.extend(table.foreign_keys.iter().map(|k| (k.name.to_string(), "FOREIGN KEY", k.deferral)));
        all.extend(table.checks.iter().map(|c| (c.name.to_string(), "CHECK", at_once)));
        for (position, _) in table.live_columns().filter(|(_, c)| c.not_null) {
            let name = format!("{}_{}_{}_not_null", table.schema, table.oid, position + 1);
            all.push((name, "CHECK", at_once));
        }
        for (name, kind, deferral) in all {
            let mut row = constraint(out, &table, &name, true);
            row.extend([
                ("constraint_type", text(kind)),
                ("is_deferrable", yes(deferral.is_deferrable())),
                ("initially_deferred", yes(deferral.is_initially_deferred())),
                ("enforced", yes(true)),
            ]);
            out.add(row);
        }
    }
}

fn key_columns(out: &mut Rows<'_>) {
    let catalog = out.shared.catalog.clone();
    for table in shown(out, OF_COLUMNS) {
        for index in table.indexes.iter().filter(|i| i.constraint.is_some()) {
            for (i, position) in index.column_positions().enumerate() {
                let mut row = constraint(out, &table, &index.name, true);
                row.push(("column_name", text(&table.columns[position].name)));
                row.push(("ordinal_position", Datum::Int4(i as i32 + 1)));
                out.add(row);
            }
        }
        for key in &table.foreign_keys {
            let parent = catalog.table(key.referenced_table);
            let unique = parent.and_then(|p| p.index(key.referenced_index));
            for (i, position) in key.columns.iter().enumerate() {
                let mut row = constraint(out, &table, &key.name, true);
                row.push(("column_name", text(&table.columns[*position].name)));
                row.push(("ordinal_position", Datum::Int4(i as i32 + 1)));
                let referenced = key.referenced_columns[i];
                if let Some(at) = unique.and_then(|u| u.column_positions().position(|p| p == referenced)) {
                    row.push(("position_in_unique_constraint", Datum::Int4(at as i32 + 1)));
                }
                out.add(row);
            }
        }
    }
}

fn constraint_columns(out: &mut Rows<'_>) {
    let (catalog, reader) = (out.shared.catalog.clone(), Reader::of(out.shared));
    for table in sorted(out) {
        let mut all: Vec<(String, std::sync::Arc<Table>, Vec<usize>)> = Vec::new();
        for index in table.indexes.iter().filter(|i| i.constraint.is_some()) {
            all.push((index.name.to_string(), table.clone(), index.column_positions().collect()));
        }
        for check in &table.checks {
            all.push((check.name.to_string(), table.clone(), check.columns.clone()));
        }
        for key in &table.foreign_keys {
            if let Some(parent) = catalog.table(key.referenced_table) {
                all.push((key.name.to_string(), parent.clone(), key.referenced_columns.clone()));
            }
        }
        for (name, of, positions) in all.into_iter().filter(|(_, of, _)| reader.owns(of.owner)) {
            for position in positions {
                let mut row = constraint(out, &table, &name, false);
                row.extend([
                    ("table_catalog", database(out)),
                    ("table_schema", schema(out, of.schema)),
                    ("table_name", text(&of.name)),
                    ("column_name", text(&of.columns[position].name)),
                ]);
                out.add(row);
            }
        }
    }
}

fn rule(action: ReferentialAction) -> Datum {
    text(match action {
        ReferentialAction::NoAction => "NO ACTION",
        ReferentialAction::Restrict => "RESTRICT",
        ReferentialAction::Cascade => "CASCADE",
        ReferentialAction::SetNull => "SET NULL",
        ReferentialAction::SetDefault => "SET DEFAULT",
    })
}

fn references(out: &mut Rows<'_>) {
    let catalog = out.shared.catalog.clone();
    for table in shown(out, OF_CONSTRAINTS) {
        for key in &table.foreign_keys {
            let mut row = constraint(out, &table, &key.name, false);
            if let Some(parent) = catalog.table(key.referenced_table)
                && let Some(unique) = parent.index(key.referenced_index)
            {
                row.extend([
                    ("unique_constraint_catalog", database(out)),
                    ("unique_constraint_schema", schema(out, parent.schema)),
                    ("unique_constraint_name", text(&unique.name)),
                ]);
            }
            let matching = if key.match_type == MatchType::Full { "FULL" } else { "NONE" };
            row.extend([
                ("match_option", text(matching)),
                ("update_rule", rule(key.on_update)),
                ("delete_rule", rule(key.on_delete)),
            ]);
            out.add(row);
        }
    }
}

fn checks(out: &mut Rows<'_>) {
    let (catalog, path) = (out.shared.catalog.clone(), out.shared.search_path.clone());
    for table in shown(out, Privileges::NONE) {
        for check in &table.checks {
            let mut row = constraint(out, &table, &check.name, false);
            row.push((
                "check_clause",
                text(format!("(({}))", kept_text::shown(&catalog, &path, &check.expression))),
            ));
            out.add(row);
        }
        for (position, column) in table.live_columns().filter(|(_, c)| c.not_null) {
            let name = format!("{}_{}_{}_not_null", table.schema, table.oid, position + 1);
            let mut row = constraint(out, &table, &name, false);
            row.push(("check_clause", text(format!("{} IS NOT NULL", column.name))));
            out.add(row);
        }
    }
}
