//! The tables of the schema `rowhouse`: made at the first start, and completed where an earlier version of the server made
//! fewer of them.
//!
//! What is missing is made in one transaction, its first rows included: a crash leaves all of it or none.

use std::fmt::Write as _;
use std::sync::Arc;

use base::SqlResult;
use tenant::catalog::{Catalog, Relation, Table};

use super::super::Home;
use super::super::internal::{literal, query};
use super::super::sizes::SHIPPED;
use super::named::Named;
use crate::shared::Shared;

pub(super) const SCHEMA: &str = "rowhouse";
pub(super) const TENANTS: &str = "tenants";

/// A table of the schema, and the columns that its first version had not.
struct Wanted {
    name: &'static str,
    columns: &'static str,
    added: &'static [(&'static str, &'static str)],
    /// Its first rows, as VALUES; empty for none.
    rows: fn() -> String,
}

const NAMED: &str = "name text PRIMARY KEY, options text NOT NULL";

const WANTED: &[Wanted] = &[
    Wanted {
        name: TENANTS,
        columns: "id bigint PRIMARY KEY, name text NOT NULL, volume text NOT NULL, promise text NOT NULL, state text NOT NULL",
        added: &[("size", "text")],
        rows: String::new,
    },
    Wanted { name: Named::Sizes.table(), columns: NAMED, added: &[], rows: shipped_sizes },
    Wanted { name: Named::Volumes.table(), columns: NAMED, added: &[], rows: String::new },
    Wanted { name: Named::Server.table(), columns: NAMED, added: &[], rows: String::new },
    Wanted { name: Named::RunawayRules.table(), columns: NAMED, added: &[], rows: String::new },
];

fn shipped_sizes() -> String {
    let row = |(name, options): &(&str, &str)| format!("({}, {})", literal(name), literal(options));
    SHIPPED.iter().map(row).collect::<Vec<_>>().join(", ")
}

/// The table of tenants, where a first start has made it.
pub(in super::super) fn table(catalog: &Catalog) -> Option<Arc<Table>> {
    find(catalog, TENANTS)
}

fn find(catalog: &Catalog, name: &str) -> Option<Arc<Table>> {
    match catalog.relation_in(catalog.schema_named(SCHEMA)?.oid, name)? {
        Relation::Table(table) => Some(table.clone()),
        _ => None,
    }
}

/// The statements that make what `catalog` has not; empty if it has everything.
fn missing(catalog: &Catalog) -> String {
    let mut sql = String::new();
    if catalog.schema_named(SCHEMA).is_none() {
        let _ = write!(sql, "CREATE SCHEMA {SCHEMA};");
    }
    for wanted in WANTED {
        let name = wanted.name;
        let there = find(catalog, name);
        if there.is_none() {
            let _ = write!(sql, "CREATE TABLE {SCHEMA}.{name} ({});", wanted.columns);
            let rows = (wanted.rows)();
            if !rows.is_empty() {
                let _ = write!(sql, "INSERT INTO {SCHEMA}.{name} VALUES {rows};");
            }
        }
        for (column, ty) in wanted.added {
            let has_it = |table: &Arc<Table>| table.columns.iter().any(|one| one.name == **column);
            if !there.as_ref().is_some_and(has_it) {
                let _ = write!(sql, "ALTER TABLE {SCHEMA}.{name} ADD COLUMN {column} {ty};");
            }
        }
    }
    sql
}

/// Makes what is missing; durable on return.
///
/// # Errors
/// The system tenant cannot be opened or written.
pub(super) async fn complete(shared: &Arc<Shared>, system: &Arc<Home>) -> SqlResult<()> {
    let home = system.clone();
    let opened = system.spawn(async move {
        home.open().await?;
        home.with(|home| missing(home.tenant.catalog()))
    });
    let gone = || base::SqlError::internal("opening the tenants' catalogue did not finish");
    let sql = opened.await.unwrap_or_else(|| Err(gone()))?;
    if sql.is_empty() {
        return Ok(());
    }
    query(shared, system, sql).await.map(drop)
}
