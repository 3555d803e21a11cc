//! The table `rowhouse.tenants`: one row for each tenant there ever was, so that ids are never given out twice.

use std::sync::Arc;

use base::{SqlError, SqlResult, SqlState, TenantId};
use governor::Promise;

use super::internal::{TextRow, literal, query};
use super::registry::TenantRow;
use super::{Entry, Home};
use crate::shared::Shared;

const CREATE: &str = "
    CREATE SCHEMA IF NOT EXISTS rowhouse;
    CREATE TABLE IF NOT EXISTS rowhouse.tenants (
        id bigint PRIMARY KEY,
        name text NOT NULL,
        volume text NOT NULL,
        promise text NOT NULL,
        state text NOT NULL
    )";

fn system(shared: &Shared) -> SqlResult<Arc<Home>> {
    let entry = shared.tenants.get(TenantId::SYSTEM);
    Ok(entry.ok_or_else(|| SqlError::internal("the system tenant is missing"))?.home.clone())
}

/// Makes the table at the first start and fills the registry from it.
pub(crate) async fn load(shared: &Arc<Shared>) -> SqlResult<()> {
    let system = system(shared)?;
    query(shared, &system, CREATE.to_owned()).await?;
    let sql = "SELECT id, name, volume, promise, state FROM rowhouse.tenants ORDER BY id";
    for row in query(shared, &system, sql.to_owned()).await? {
        let (id, row) = decode(&row)?;
        shared.tenants.set_last_id(id.0);
        if let Some(row) = row {
            let home = Home::of(shared, id, &row.volume)?;
            home.worker().set_promise(id, row.promise.cpu);
            shared.tenants.insert(Entry::new(id, home, row));
        }
    }
    Ok(())
}

/// Id, and the row unless the tenant was dropped.
fn decode(row: &TextRow) -> SqlResult<(TenantId, Option<TenantRow>)> {
    let broken = |what: &str| {
        SqlError::new(SqlState::DATA_CORRUPTED, format!("rowhouse.tenants holds a row with a bad {what}: {row:?}"))
    };
    let [Some(id), Some(name), Some(volume), Some(promise), Some(state)] = &row[..] else {
        return Err(broken("column"));
    };
    let id = TenantId(id.parse().map_err(|_| broken("id"))?);
    if state == "dropped" {
        return Ok((id, None));
    }
    let promise = parse_promise(promise).map_err(|_| broken("promise"))?;
    Ok((id, Some(TenantRow { name: name.clone(), volume: volume.clone(), promise })))
}

/// The reverse of [`Promise`]'s display.
fn parse_promise(text: &str) -> Result<Promise, ()> {
    let mut promise = Promise::default();
    for option in text.split(", ").filter(|option| !option.is_empty()) {
        let (key, value) = option.split_once(" = ").ok_or(())?;
        promise.set(key, value).map_err(|_| ())?;
    }
    Ok(promise)
}

/// Remembers a new tenant; durable on return.
pub(crate) async fn insert(shared: &Arc<Shared>, id: TenantId, row: &TenantRow) -> SqlResult<()> {
    let sql = format!(
        "INSERT INTO rowhouse.tenants (id, name, volume, promise, state) VALUES ({id}, {}, {}, {}, 'live')",
        literal(&row.name),
        literal(&row.volume),
        literal(&row.promise.to_string())
    );
    query(shared, &system(shared)?, sql).await.map(drop)
}

/// Remembers a changed row; durable on return.
pub(crate) async fn update(shared: &Arc<Shared>, id: TenantId, row: &TenantRow) -> SqlResult<()> {
    let sql = format!(
        "UPDATE rowhouse.tenants SET name = {}, promise = {} WHERE id = {id}",
        literal(&row.name),
        literal(&row.promise.to_string())
    );
    query(shared, &system(shared)?, sql).await.map(drop)
}

/// Remembers that a tenant is gone; durable on return.
pub(crate) async fn mark_dropped(shared: &Arc<Shared>, id: TenantId) -> SqlResult<()> {
    let sql = format!("UPDATE rowhouse.tenants SET state = 'dropped' WHERE id = {id}");
    query(shared, &system(shared)?, sql).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_survives_its_text() {
        let mut promise = Promise::default();
        for (key, value) in [("cpu", "0.5"), ("memory", "2GB"), ("iops_max", "1000"), ("cpu_burst", "50ms")] {
            promise.set(key, value).unwrap();
        }
        assert_eq!(parse_promise(&promise.to_string()), Ok(promise));
        assert_eq!(parse_promise(""), Ok(Promise::default()));
        assert!(parse_promise("cpu").is_err());
    }
}
