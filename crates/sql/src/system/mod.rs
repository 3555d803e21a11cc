//! What the system itself has: the tables of `pg_catalog`, `information_schema` and `rowhouse`, the functions that `pg_proc` lists.
//!
//! Only names, oids and types, the same for every tenant; `analytic` makes the rows. `tables.txt` has the columns as PostgreSQL
//! 15 has them, one table a line.

mod extensions;
mod found;
mod functions;
mod row_functions;

use std::sync::LazyLock;

use rustc_hash::FxHashMap;
use types::{ElementType, PgType};

pub use extensions::{EXTENSIONS, SystemExtension, extension_named};
pub use found::{FoundRelation, find_relation};
pub use functions::{
    SystemFunction, function_by_oid, functions, functions_of_type, only_function_named, pseudo_type,
    pseudo_type_named,
};
pub use row_functions::{Parameter, RowsFunction, rows_function};

/// One of the system's own tables.
#[derive(Debug)]
pub struct SystemTable {
    pub schema: &'static str,
    pub name: &'static str,
    pub oid: u32,
    /// `r` or `v`.
    pub kind: u8,
    pub columns: Vec<(&'static str, PgType)>,
    /// For each column.
    pub not_null: Vec<bool>,
}

impl SystemTable {
    /// Columns that `*` leaves out.
    pub fn is_hidden(&self, column: &str) -> bool {
        self.kind == b'r' && matches!(column, "tableoid" | "xmin")
    }

    /// How many columns `*` has.
    pub fn shown_columns(&self) -> usize {
        self.columns.iter().filter(|(name, _)| !self.is_hidden(name)).count()
    }
}

static TABLES: LazyLock<Vec<SystemTable>> =
    LazyLock::new(|| include_str!("tables.txt").lines().map(parse_table).collect());

static BY_NAME: LazyLock<FxHashMap<(&'static str, &'static str), usize>> =
    LazyLock::new(|| TABLES.iter().enumerate().map(|(i, t)| ((t.schema, t.name), i)).collect());

fn parse_table(line: &'static str) -> SystemTable {
    let mut words = line.split(' ');
    let mut word = || words.next().expect("a table has a name, an oid and a kind");
    let (schema, name) = word().split_once('.').expect("a qualified name");
    let oid = word().parse().expect("an oid");
    let kind = word().as_bytes()[0];
    let mut columns = Vec::new();
    let mut not_null = Vec::new();
    for column in words {
        let (name, ty) = column.split_once(':').expect("a column has a type");
        not_null.push(ty.ends_with('!'));
        columns.push((name, column_type(ty.trim_end_matches('!'))));
    }
    if schema == "pg_catalog" && kind == b'r' {
        columns.extend([("tableoid", PgType::Oid), ("xmin", column_type("xid"))]);
        not_null.extend([true, true]);
    }
    SystemTable { schema, name, oid, kind, columns, not_null }
}

/// The nearest type we have.
fn column_type(name: &str) -> PgType {
    match name {
        "_aclitem" => PgType::Array(ElementType::Text),
        "xid" => PgType::Oid,
        "pg_node_tree" | "pg_lsn" | "inet" | "anyarray" => PgType::Text,
        "sql_identifier" => PgType::Name,
        "character_data" | "yes_or_no" => PgType::Varchar,
        "cardinal_number" => PgType::Int4,
        "time_stamp" => PgType::TimestampTz,
        other => PgType::from_name(other).unwrap_or(PgType::Text),
    }
}

/// All system tables.
pub fn system_tables() -> &'static [SystemTable] {
    &TABLES
}

/// The system table of that name; without a schema, one of `pg_catalog`, which is always searched first.
pub fn system_table(schema: Option<&str>, name: &str) -> Option<&'static SystemTable> {
    let schema = schema.unwrap_or("pg_catalog");
    BY_NAME.get(&(schema, name)).map(|i| &TABLES[*i])
}

/// The system table of that number.
pub fn system_table_by_oid(oid: u32) -> Option<&'static SystemTable> {
    TABLES.iter().find(|table| table.oid == oid)
}
