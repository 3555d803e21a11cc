//! The table `rowhouse.tenants`: one row for each tenant there ever was, so that ids are never given out twice.

use std::path::Path;
use std::sync::Arc;

use base::{Lsn, SessionId, SqlError, SqlResult, SqlState, TenantId};
use governor::Promise;
use rustc_hash::FxHashSet;
use sql::session;
use tenant::catalog::{Catalog, Column, OWNER_ROLE, Relation, Table};
use tenant::ddl::{Ddl, NewTable, NewUnique};
use tenant::{Interrupt, Isolation, Step};
use types::{PgType, TypeMod};

use super::internal::{TextRow, literal, query};
use super::registry::TenantRow;
use super::{Entry, Home, making};
use crate::data_dir::tenant_files;
use crate::shared::Shared;

const SCHEMA: &str = "rowhouse";
const TABLE: &str = "tenants";
/// Rows of the table read by one statement.
const LOADED_AT_ONCE: usize = 1_000;

/// Makes schema and table if they are not there; where the log must be durable for it.
fn create_table(home: &mut session::Home<'_>) -> SqlResult<Option<Lsn>> {
    if home.tenant.catalog().schema_named(SCHEMA).is_some() {
        return Ok(None);
    }
    let mut txn = home.tenant.begin(SessionId(0), Isolation::ReadCommitted, false, true);
    let outcome = home.tenant.view(&mut txn, home.redo).ddl().and_then(|mut ddl| define(&mut ddl));
    match outcome {
        Ok(()) => home.tenant.commit(txn, home.redo).map(|committed| Some(committed.wait_for)),
        Err(interrupt) => {
            home.tenant.abort(txn);
            Err(match interrupt {
                Interrupt::Error(error) => error,
                // A catalog is in memory, and nobody else is there yet.
                _ => SqlError::internal("making the tenants' catalogue had to wait"),
            })
        }
    }
}

fn define(ddl: &mut Ddl<'_>) -> Step<()> {
    let column = |name: &str, ty| Column { not_null: true, ..Column::new(name, ty, TypeMod::NONE) };
    let texts = ["name", "volume", "promise", "state"].map(|name| column(name, PgType::Text));
    let mut columns = vec![column("id", PgType::Int8)];
    columns.extend(texts);
    let schema = ddl.create_schema(SCHEMA, OWNER_ROLE)?;
    let table = ddl.create_table(NewTable { schema, name: TABLE.to_owned(), owner: OWNER_ROLE, columns })?;
    ddl.add_primary_key(table, NewUnique { name: None, columns: vec![0], nulls_not_distinct: false })?;
    Ok(())
}

fn system(shared: &Shared) -> SqlResult<Arc<Home>> {
    let entry = shared.tenants.get(TenantId::SYSTEM);
    Ok(entry.ok_or_else(|| SqlError::internal("the system tenant is missing"))?.home.clone())
}

/// Makes the table at the first start and fills the registry from it.
pub(crate) async fn load(shared: &Arc<Shared>) -> SqlResult<()> {
    let system = system(shared)?;
    let home = system.clone();
    let made = system.worker().spawn(system.id(), async move {
        home.open().await?;
        match home.with(create_table)?? {
            Some(lsn) => home.wait_durable(lsn).await,
            None => Ok(()),
        }
    });
    made.await.unwrap_or_else(|| Err(SqlError::internal("making the tenants' catalogue did not finish")))?;
    let (mut last, mut unmade, mut dropped) = (TenantId(0), Vec::new(), FxHashSet::default());
    loop {
        let rows = query(shared, &system, select_after(last)).await?;
        for row in &rows {
            let (id, state, row) = decode(row)?;
            last = id;
            shared.tenants.set_last_id(id.0);
            match state {
                State::Live => {
                    let home = Home::of(shared, id, &row.volume)?;
                    shared.tenants.insert(Entry::new(id, home, row));
                }
                State::Making => unmade.push((id, row)),
                State::Dropped => {
                    dropped.insert(id);
                }
            }
        }
        if rows.len() < LOADED_AT_ONCE {
            break;
        }
    }
    for (id, row) in unmade {
        tracing::info!(
            tenant = id.0,
            name = row.name,
            "a tenant's making was cut short: what is left is removed"
        );
        making::undo(shared, &Home::of(shared, id, &row.volume)?).await?;
    }
    remove_files_of(shared, &dropped)
}

/// Removes the data files of dropped tenants: a crash came between a DROP's row and its file. Blocks.
fn remove_files_of(shared: &Shared, dropped: &FxHashSet<TenantId>) -> SqlResult<()> {
    let (disk, config) = (&shared.env.disk, &shared.config);
    let failed = |path: &Path, error: std::io::Error| {
        SqlError::new(SqlState::IO_ERROR, format!("{}: {error}", path.display()))
    };
    for volume in std::iter::once(&config.data_dir).chain(config.volumes.iter().map(|(_, dir)| dir)) {
        for (id, path) in tenant_files(disk.as_ref(), volume).map_err(|error| failed(volume, error))? {
            if dropped.contains(&id) {
                tracing::info!(tenant = id.0, "a tenant's DROP was cut short: its file is removed");
                disk.remove(&path).map_err(|error| failed(&path, error))?;
            }
        }
    }
    Ok(())
}

/// What a row says of its tenant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// Its data file is not whole yet; nobody was told of it.
    Making,
    Live,
    /// The row is kept so that the id is never given out again.
    Dropped,
}

impl State {
    const ALL: [State; 3] = [State::Making, State::Live, State::Dropped];

    fn as_str(self) -> &'static str {
        match self {
            State::Making => "making",
            State::Live => "live",
            State::Dropped => "dropped",
        }
    }
}

/// Reads the next rows by the primary key: a start needs the point path alone, however many tenants there are.
fn select_after(last: TenantId) -> String {
    format!(
        "SELECT id, name, volume, promise, state FROM rowhouse.tenants WHERE id > {last} ORDER BY id LIMIT {LOADED_AT_ONCE}"
    )
}

/// The table, where a first start has made it.
pub(super) fn table(catalog: &Catalog) -> Option<Arc<Table>> {
    match catalog.relation_in(catalog.schema_named(SCHEMA)?.oid, TABLE)? {
        Relation::Table(table) => Some(table.clone()),
        _ => None,
    }
}

pub(super) fn decode(row: &TextRow) -> SqlResult<(TenantId, State, TenantRow)> {
    let broken = |what: &str| {
        SqlError::new(
            SqlState::DATA_CORRUPTED,
            format!("rowhouse.tenants holds a row with a bad {what}: {row:?}"),
        )
    };
    let [Some(id), Some(name), Some(volume), Some(promise), Some(state)] = &row[..] else {
        return Err(broken("column"));
    };
    let id = TenantId(id.parse().map_err(|_| broken("id"))?);
    let state = State::ALL.into_iter().find(|one| one.as_str() == state).ok_or_else(|| broken("state"))?;
    let promise = parse_promise(promise).map_err(|_| broken("promise"))?;
    Ok((id, state, TenantRow { name: name.clone(), volume: volume.clone(), promise }))
}

/// The reverse of [`Promise`]'s display.
pub(super) fn parse_promise(text: &str) -> Result<Promise, ()> {
    let mut promise = Promise::default();
    for option in text.split(", ").filter(|option| !option.is_empty()) {
        let (key, value) = option.split_once(" = ").ok_or(())?;
        promise.set(key, value).map_err(|_| ())?;
    }
    Ok(promise)
}

/// Remembers that a tenant is being made; durable on return.
pub(super) async fn begin(shared: &Arc<Shared>, id: TenantId, row: &TenantRow) -> SqlResult<()> {
    let sql = format!(
        "INSERT INTO rowhouse.tenants (id, name, volume, promise, state) VALUES ({id}, {}, {}, {}, {})",
        literal(&row.name),
        literal(&row.volume),
        literal(&row.promise.to_string()),
        literal(State::Making.as_str())
    );
    query(shared, &system(shared)?, sql).await.map(drop)
}

async fn set_state(shared: &Arc<Shared>, id: TenantId, state: State) -> SqlResult<()> {
    let state = literal(state.as_str());
    let sql = format!("UPDATE rowhouse.tenants SET state = {state} WHERE id = {id}");
    query(shared, &system(shared)?, sql).await.map(drop)
}

/// Remembers that a tenant is made; durable on return.
pub(super) async fn mark_live(shared: &Arc<Shared>, id: TenantId) -> SqlResult<()> {
    set_state(shared, id, State::Live).await
}

/// Remembers a changed row; durable on return.
pub(super) async fn update(shared: &Arc<Shared>, id: TenantId, row: &TenantRow) -> SqlResult<()> {
    let sql = format!(
        "UPDATE rowhouse.tenants SET name = {}, promise = {} WHERE id = {id}",
        literal(&row.name),
        literal(&row.promise.to_string())
    );
    query(shared, &system(shared)?, sql).await.map(drop)
}

/// Remembers that a tenant is gone; durable on return.
pub(super) async fn mark_dropped(shared: &Arc<Shared>, id: TenantId) -> SqlResult<()> {
    set_state(shared, id, State::Dropped).await
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
