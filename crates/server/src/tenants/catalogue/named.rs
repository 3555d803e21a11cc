//! The tables of what has a name and options, the options as text: sizes, volumes, the server itself, runaway rules.

use std::fmt::Display;
use std::str::FromStr;
use std::sync::Arc;

use base::{SqlError, SqlResult, SqlState};

use super::super::internal::{literal, query};
use super::system;
use crate::shared::Shared;

/// One of the tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) enum Named {
    Sizes,
    Volumes,
    /// One row, of this name too.
    Server,
    RunawayRules,
}

impl Named {
    pub(super) const fn table(self) -> &'static str {
        match self {
            Named::Sizes => "sizes",
            Named::Volumes => "volumes",
            Named::Server => "server",
            Named::RunawayRules => "runaway_rules",
        }
    }
}

/// Everything in a table.
pub(super) async fn load<T: FromStr>(shared: &Arc<Shared>, named: Named) -> SqlResult<Vec<(String, T)>> {
    let table = named.table();
    let rows = query(shared, &system(shared)?, format!("SELECT name, options FROM rowhouse.{table}")).await?;
    let decode = |row: &Vec<Option<String>>| match &row[..] {
        [Some(name), Some(options)] => options.parse().ok().map(|options| (name.clone(), options)),
        _ => None,
    };
    let broken =
        |row| SqlError::new(SqlState::DATA_CORRUPTED, format!("rowhouse.{table} holds a bad row: {row:?}"));
    rows.iter().map(|row| decode(row).ok_or_else(|| broken(row))).collect()
}

/// Remembers the options of something, new or not; durable on return.
pub(in super::super) async fn set_named(
    shared: &Arc<Shared>,
    named: Named,
    name: &str,
    options: &impl Display,
) -> SqlResult<()> {
    let (table, name, options) = (named.table(), literal(name), literal(&options.to_string()));
    let sql = format!(
        "INSERT INTO rowhouse.{table} (name, options) VALUES ({name}, {options}) ON CONFLICT (name) DO UPDATE SET options = excluded.options"
    );
    query(shared, &system(shared)?, sql).await.map(drop)
}

/// Remembers that something is gone; durable on return.
pub(in super::super) async fn drop_named(shared: &Arc<Shared>, named: Named, name: &str) -> SqlResult<()> {
    let sql = format!("DELETE FROM rowhouse.{} WHERE name = {}", named.table(), literal(name));
    query(shared, &system(shared)?, sql).await.map(drop)
}
