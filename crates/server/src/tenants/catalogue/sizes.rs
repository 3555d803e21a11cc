//! The table `rowhouse.sizes`.

use std::sync::Arc;

use base::{SqlError, SqlResult, SqlState};
use governor::PromiseOptions;

use super::super::internal::{TextRow, literal, query};
use super::system;
use crate::shared::Shared;

/// Reads all sizes into `shared`.
pub(super) async fn load(shared: &Arc<Shared>) -> SqlResult<()> {
    let sql = "SELECT name, promise FROM rowhouse.sizes".to_owned();
    for row in query(shared, &system(shared)?, sql).await? {
        let (name, options) = decode(&row)?;
        shared.sizes.set(name, options);
    }
    Ok(())
}

fn decode(row: &TextRow) -> SqlResult<(String, PromiseOptions)> {
    if let [Some(name), Some(options)] = &row[..]
        && let Ok(options) = options.parse()
    {
        return Ok((name.clone(), options));
    }
    Err(SqlError::new(SqlState::DATA_CORRUPTED, format!("rowhouse.sizes holds a bad row: {row:?}")))
}

/// Remembers what a size says, new or not; durable on return.
pub(in super::super) async fn set_size(
    shared: &Arc<Shared>,
    name: &str,
    options: &PromiseOptions,
) -> SqlResult<()> {
    let (name, options) = (literal(name), literal(&options.to_string()));
    let sql = format!(
        "INSERT INTO rowhouse.sizes VALUES ({name}, {options}) ON CONFLICT (name) DO UPDATE SET promise = {options}"
    );
    query(shared, &system(shared)?, sql).await.map(drop)
}

/// Remembers that a size is gone; durable on return.
pub(in super::super) async fn drop_size(shared: &Arc<Shared>, name: &str) -> SqlResult<()> {
    let sql = format!("DELETE FROM rowhouse.sizes WHERE name = {}", literal(name));
    query(shared, &system(shared)?, sql).await.map(drop)
}
