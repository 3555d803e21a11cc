//! Who the tenants of a data directory are, for tools that look at it while no server runs.

use std::path::{Path, PathBuf};

use base::{SessionId, SqlError, SqlResult, SqlState, TenantId};
use env::Env;
use storage::redo::RedoIndex;
use tenant::row::keys::KeyRange;
use tenant::{Isolation, Tenant};
use types::Datum;

use super::catalogue::{self, State};
use crate::data_dir::tenant_file;

/// A tenant as the catalogue has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KnownTenant {
    pub id: TenantId,
    pub name: String,
    /// The volume its data file is on; `default` is the data directory.
    pub volume: String,
    /// Its making was cut short: the next start removes what there is of it.
    pub unmade: bool,
}

/// The tenants of the data directory `data`, dropped ones left out, in order of their ids. Blocks; the caller holds the
/// directory's lock.
///
/// # Errors
/// The system tenant or its redo cannot be read.
pub fn known_tenants(env: &Env, data: &Path, redo: &RedoIndex) -> SqlResult<Vec<KnownTenant>> {
    let path = tenant_file(data, TenantId::SYSTEM);
    let mut system = env::block_on(env, opened(env, path, redo))?;
    let Some(table) = catalogue::table(system.catalog()) else { return Ok(Vec::new()) };
    let mut txn = system.begin(SessionId(0), Isolation::ReadCommitted, true, true);
    let view = system.snapshot_view(&mut txn)?;
    let mut found = Vec::new();
    let mut scan = view.scan(&table, KeyRange::all());
    while scan.next_leaf(&mut |row| {
        let texts = (0..table.columns.len()).map(|i| row.column(i).map(|value| text_of(&value)));
        let (id, state, row) = catalogue::decode(&texts.collect::<SqlResult<Vec<_>>>()?)?;
        let unmade = state == State::Making;
        if id != TenantId::SYSTEM && (unmade || state == State::Live) {
            found.push(KnownTenant { id, name: row.name, volume: row.volume, unmade });
        }
        Ok(())
    })? {}
    system.abort(txn);
    Ok(found)
}

async fn opened(env: &Env, path: PathBuf, redo: &RedoIndex) -> SqlResult<Tenant> {
    let failed = |error: &dyn std::fmt::Display| {
        SqlError::new(SqlState::DATA_CORRUPTED, format!("the tenants' catalogue cannot be read: {error}"))
    };
    let opened = Tenant::open_to_read(env, &path, TenantId::SYSTEM).await;
    let mut system = opened.map_err(|error| failed(&error))?;
    system.replay(redo).await.map_err(|error| failed(&error))?;
    Ok(system)
}

fn text_of(value: &Datum) -> Option<String> {
    match value {
        Datum::Int8(number) => Some(number.to_string()),
        Datum::Text(text) => Some(text.to_string()),
        _ => None,
    }
}
