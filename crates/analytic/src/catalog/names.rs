//! Names and oids of everything a statement may name, the system's own tables included.

use std::sync::Arc;

use base::Oid;
use tenant::catalog::{Catalog, Relation};
use types::{CatalogNames, PgType};

use super::{procs, system_table, system_tables};

/// The catalog as text forms see it (`regclass`, `regtype`, enums).
pub(crate) struct Names {
    catalog: Arc<Catalog>,
    path: Vec<Oid>,
}

impl Names {
    pub(crate) fn new(catalog: Arc<Catalog>, path: Vec<Oid>) -> Names {
        Names { catalog, path }
    }
}

/// `name` as SQL would write it: quoted unless it is a plain lower-case identifier.
pub(crate) fn quoted(name: &str) -> String {
    let mut chars = name.chars();
    let plain = chars.next().is_some_and(|c| c.is_ascii_lowercase() || c == '_')
        && chars.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '$')
        && !RESERVED.contains(&name);
    if plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// PostgreSQL's reserved words, and those reserved except as function or type names.
const RESERVED: &[&str] = &[
    "all",
    "analyse",
    "analyze",
    "and",
    "any",
    "array",
    "as",
    "asc",
    "asymmetric",
    "authorization",
    "between",
    "bigint",
    "binary",
    "bit",
    "boolean",
    "both",
    "case",
    "cast",
    "char",
    "character",
    "check",
    "coalesce",
    "collate",
    "collation",
    "column",
    "concurrently",
    "constraint",
    "create",
    "cross",
    "current_catalog",
    "current_date",
    "current_role",
    "current_schema",
    "current_time",
    "current_timestamp",
    "current_user",
    "dec",
    "decimal",
    "default",
    "deferrable",
    "desc",
    "distinct",
    "do",
    "else",
    "end",
    "except",
    "exists",
    "extract",
    "false",
    "fetch",
    "float",
    "for",
    "foreign",
    "freeze",
    "from",
    "full",
    "grant",
    "greatest",
    "group",
    "grouping",
    "having",
    "ilike",
    "in",
    "initially",
    "inner",
    "inout",
    "int",
    "integer",
    "intersect",
    "interval",
    "into",
    "is",
    "isnull",
    "join",
    "lateral",
    "leading",
    "least",
    "left",
    "like",
    "limit",
    "localtime",
    "localtimestamp",
    "national",
    "natural",
    "nchar",
    "none",
    "not",
    "notnull",
    "null",
    "nullif",
    "numeric",
    "offset",
    "on",
    "only",
    "or",
    "order",
    "out",
    "outer",
    "overlaps",
    "overlay",
    "placing",
    "position",
    "precision",
    "primary",
    "real",
    "references",
    "returning",
    "right",
    "row",
    "select",
    "session_user",
    "setof",
    "similar",
    "smallint",
    "some",
    "substring",
    "symmetric",
    "table",
    "tablesample",
    "then",
    "time",
    "timestamp",
    "to",
    "trailing",
    "treat",
    "trim",
    "true",
    "union",
    "unique",
    "user",
    "using",
    "values",
    "varchar",
    "variadic",
    "verbose",
    "when",
    "where",
    "window",
    "with",
];

/// Whether the search path finds this relation under its bare name.
pub(crate) fn is_visible(catalog: &Catalog, path: &[Oid], relation: &Relation) -> bool {
    let name = relation.name();
    if system_table(None, name).is_some() {
        return false;
    }
    catalog.find_relation(None, name, path).is_some_and(|found| found.oid() == relation.oid())
}

/// The relation's name, qualified where the path does not find it.
pub(crate) fn relation_name(catalog: &Catalog, path: &[Oid], relation: &Relation) -> String {
    if is_visible(catalog, path, relation) {
        return quoted(relation.name());
    }
    qualified(catalog, relation)
}

/// The relation's name with its schema.
pub(crate) fn qualified(catalog: &Catalog, relation: &Relation) -> String {
    format!("{}.{}", quoted(catalog.schema_name(relation.schema())), quoted(relation.name()))
}

impl CatalogNames for Names {
    fn enum_label(&self, type_oid: u32, order: u32) -> Option<&str> {
        self.catalog.enum_type(Oid(type_oid))?.label_of(order)
    }
    fn enum_order(&self, type_oid: u32, label: &str) -> Option<u32> {
        self.catalog.enum_type(Oid(type_oid))?.order_of(label)
    }
    fn enum_labels(&self, type_oid: u32) -> Vec<(u32, String)> {
        let labels = self.catalog.enum_type(Oid(type_oid)).map(|e| &e.labels[..]).unwrap_or_default();
        labels.iter().map(|l| (l.order, l.label.to_string())).collect()
    }
    fn type_name(&self, type_oid: u32) -> Option<String> {
        let (found, suffix) = match self.catalog.enum_type(Oid(type_oid)) {
            Some(found) => (found, ""),
            None => (self.catalog.enum_of_array(Oid(type_oid))?, "[]"),
        };
        let visible =
            self.catalog.find_enum(None, &found.name, &self.path).is_some_and(|e| e.oid == found.oid);
        let name = quoted(&found.name);
        Some(if visible {
            format!("{name}{suffix}")
        } else {
            format!("{}.{name}{suffix}", quoted(self.catalog.schema_name(found.schema)))
        })
    }
    fn type_by_name(&self, schema: Option<&str>, name: &str) -> Option<PgType> {
        if let Some(found) = self.catalog.find_enum(schema, name, &self.path) {
            return Some(PgType::Enum(found.oid));
        }
        let element = name.strip_prefix('_')?;
        self.catalog.find_enum(schema, element, &self.path).and_then(|e| PgType::Enum(e.oid).array_of())
    }
    fn relation_oid(&self, schema: Option<&str>, name: &str) -> Option<u32> {
        if let Some(system) = system_table(schema, name) {
            return Some(system.oid);
        }
        self.catalog.find_relation(schema, name, &self.path).map(|r| r.oid().0)
    }
    fn relation_name(&self, oid: u32) -> Option<String> {
        if let Some(system) = system_tables().iter().find(|t| t.oid == oid) {
            return Some(match system.schema {
                "pg_catalog" => system.name.to_owned(),
                schema => format!("{schema}.{}", system.name),
            });
        }
        self.catalog.relation(Oid(oid)).map(|r| relation_name(&self.catalog, &self.path, r))
    }
    fn namespace_oid(&self, name: &str) -> Option<u32> {
        self.catalog.schema_named(name).map(|s| s.oid.0)
    }
    fn namespace_name(&self, oid: u32) -> Option<String> {
        self.catalog.schema(Oid(oid)).map(|s| quoted(&s.name))
    }
    fn function_oid(&self, name: &str) -> Option<u32> {
        procs::only_named(name).map(|p| p.oid)
    }
    fn function_name(&self, oid: u32) -> Option<String> {
        procs::by_oid(oid).map(|p| p.name.to_owned())
    }
    fn role_oid(&self, name: &str) -> Option<u32> {
        self.catalog.role_named(name).map(|r| r.oid.0)
    }
    fn role_name(&self, oid: u32) -> Option<String> {
        self.catalog.role(Oid(oid)).map(|r| quoted(&r.name))
    }
}
