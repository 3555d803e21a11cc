//! What is remembered of tenants, in the system tenant's schema `rowhouse`.
//!
//! The table `rowhouse.tenants`, here, has one row for each tenant, and for each that was dropped until a later start finds nothing of it any more; the row
//! with the last id stays, so that ids are never given out twice. The server's own tenant has a row once it was altered.

mod named;
mod tables;

use std::path::Path;
use std::sync::Arc;

use base::{Nanos, SqlError, SqlResult, SqlState, TenantId};
use futures::channel::oneshot;
use governor::{Promise, PromiseOptions, RunawayScope};
use rustc_hash::{FxHashMap, FxHashSet};

pub(super) use self::named::{Named, drop_named, set_named};
pub(super) use self::tables::table;
use super::internal::{TextRow, literal, query};
use super::registry::TenantRow;
use super::runaway::StoredRule;
use super::{Entry, Home, SYSTEM_TENANT, making, promises};
use crate::data_dir::{DEFAULT_VOLUME, tenant_files};
use crate::placement;
use crate::shared::Shared;

/// Rows of the table read by one statement.
const LOADED_AT_ONCE: usize = 1_000;

/// Rows of dropped tenants removed by one statement.
const FORGOTTEN_AT_ONCE: usize = 250;

/// How long a start waits for what earlier ones left to be removed.
const CLEAR_UP_MAX: Nanos = Nanos::from_secs(5);
/// Until that is tried again.
const CLEAR_UP_PAUSE: Nanos = Nanos::from_secs(2);

/// The home of the server's own tenant.
pub(super) fn system(shared: &Shared) -> SqlResult<Arc<Home>> {
    let entry = shared.tenants.get(TenantId::SYSTEM);
    Ok(entry.ok_or_else(|| SqlError::internal("the system tenant is missing"))?.home.clone())
}

/// Makes the tables at the first start and fills registry and sizes from them.
pub(crate) async fn load(shared: &Arc<Shared>) -> SqlResult<()> {
    let system = system(shared)?;
    tables::complete(shared, &system).await?;
    load_named(shared).await?;
    load_system(shared, &system).await?;
    let (mut last, mut unmade, mut dropped) = (TenantId::SYSTEM, Vec::new(), FxHashMap::default());
    let mut live = Vec::new();
    loop {
        let rows = query(shared, &system, select_after(last)).await?;
        for row in &rows {
            let (id, state, row) = decode(row)?;
            last = id;
            shared.tenants.set_last_id(id.0);
            match state {
                State::Live => {
                    let row = promises::of_loaded(shared, id, row);
                    if row.name == SYSTEM_TENANT {
                        tracing::error!(
                            tenant = id.0,
                            "a tenant is called \"{SYSTEM_TENANT}\", which is the server's own name now: rename it, or the server's own tenant cannot be altered"
                        );
                    }
                    live.push((id, row));
                }
                State::Making => unmade.push((id, row)),
                State::Dropped => {
                    dropped.insert(id, row.volume);
                }
            }
        }
        if rows.len() < LOADED_AT_ONCE {
            break;
        }
    }
    let homes = placement::at_start(shared, &live);
    for ((id, row), worker) in live.into_iter().zip(homes) {
        let home = Home::of(shared, id, &row.volume, worker).map_err(|error| not_given(&row, &error))?;
        shared.tenants.insert(Entry::new(id, home, row));
    }
    let rules = load_runaway_rules(shared).await?;
    let mut left: Vec<Leftover> = rules.into_iter().map(Leftover::Rule).collect();
    for (id, row) in unmade {
        tracing::info!(
            tenant = id.0,
            name = row.name,
            "a tenant's making was cut short: what is left is removed"
        );
        match placement::found(shared, id, &row.volume, &row.promise) {
            Ok(home) => left.push(Leftover::Unmade(home)),
            Err(error) => tracing::error!(tenant = id.0, %error, "what is left of a tenant stays"),
        }
    }
    if !left.is_empty() {
        clear_up(shared, left).await;
    }
    let left = look_through_files(shared, &dropped)?;
    // By its row the next start knows which ids were given.
    dropped.remove(&last);
    let is_here = |volume: &str| shared.volumes.find(volume).is_some_and(|volume| !volume.is_missing());
    dropped.retain(|id, volume| is_here(volume) && !left.contains(id));
    forget_dropped(shared, dropped.into_keys().collect());
    Ok(())
}

/// A start does not go on without a volume that has tenants.
fn not_given(row: &TenantRow, error: &SqlError) -> SqlError {
    let TenantRow { name, volume, .. } = row;
    let what = format!("{}: tenant \"{name}\" is on it; give --volume {volume}=DIR", error.message());
    SqlError::new(error.state(), what)
}

/// Has the rows of these dropped tenants removed, of which nothing else is left: where tenants come and go each start would read more of them.
fn forget_dropped(shared: &Arc<Shared>, mut ids: Vec<TenantId>) {
    if ids.is_empty() {
        return;
    }
    ids.sort_unstable();
    let task_shared = shared.clone();
    let task = async move {
        for some in ids.chunks(FORGOTTEN_AT_ONCE) {
            let list = some.iter().map(TenantId::to_string).collect::<Vec<_>>().join(", ");
            let sql = format!("DELETE FROM rowhouse.tenants WHERE id IN ({list}) AND state = 'dropped'");
            let forgotten = match system(&task_shared) {
                Ok(system) => query(&task_shared, &system, sql).await.map(drop),
                Err(error) => Err(error),
            };
            if let Err(error) = forgotten {
                tracing::info!(%error, "rows of dropped tenants stay; the next start tries again");
                return;
            }
        }
    };
    shared.workers[0].handle.spawn(TenantId::SYSTEM, task).detach();
}

/// What an earlier start left to be removed.
enum Leftover {
    /// Of a tenant whose making was cut short.
    Unmade(Arc<Home>),
    /// The rule about a tenant that is gone.
    Rule(String),
}

impl Leftover {
    async fn remove(&self, shared: &Arc<Shared>) -> SqlResult<()> {
        match self {
            Leftover::Unmade(home) => making::undo(shared, home).await,
            Leftover::Rule(name) => drop_named(shared, Named::RunawayRules, name).await,
        }
    }
}

/// Removes what earlier starts left. Where that cannot be written down, on a full disk for one, the server starts with it, and it is tried again.
async fn clear_up(shared: &Arc<Shared>, mut left: Vec<Leftover>) {
    let (tell, told) = oneshot::channel();
    let task_shared = shared.clone();
    let task = async move {
        let mut tell = Some(tell);
        while !left.is_empty() {
            let mut again = Vec::new();
            for one in left {
                if let Err(error) = one.remove(&task_shared).await {
                    tracing::error!(%error, "what an earlier start left cannot be removed yet");
                    again.push(one);
                }
            }
            left = again;
            if let Some(tell) = tell.take() {
                // Nobody may wait any more.
                let _ = tell.send(());
            }
            if !left.is_empty() {
                env::sleep(CLEAR_UP_PAUSE).await;
            }
        }
    };
    shared.workers[0].handle.spawn(TenantId::SYSTEM, task).detach();
    let deadline = Some(shared.env.now() + CLEAR_UP_MAX);
    if env::timeout_at(deadline, told).await.is_err() {
        tracing::error!("the server starts before what earlier starts left is removed");
    }
}

/// Takes over sizes, and what the server and its volumes were altered to.
async fn load_named(shared: &Arc<Shared>) -> SqlResult<()> {
    for (name, options) in named::load(shared, Named::Sizes).await? {
        shared.sizes.set(name, options);
    }
    for (name, options) in named::load(shared, Named::Volumes).await? {
        match shared.volumes.find(&name) {
            Some(volume) => shared.volumes.set_options(volume, options),
            // Its options are kept for when it comes back.
            None => tracing::info!(volume = name, "this start has not the volume that was altered"),
        }
    }
    for (_, options) in named::load(shared, Named::Server).await? {
        shared.policy.set(shared, options);
    }
    Ok(())
}

/// Takes over the rules about statements that run away, and says which are about a tenant that is gone, by a crash in the midst of its DROP.
async fn load_runaway_rules(shared: &Arc<Shared>) -> SqlResult<Vec<String>> {
    let mut rules = named::load::<StoredRule>(shared, Named::RunawayRules).await?;
    rules.sort_by_key(|(_, rule)| rule.number);
    let mut gone = Vec::new();
    for (name, rule) in rules {
        if let RunawayScope::Tenant(tenant) = rule.scope
            && shared.tenants.get(tenant).is_none()
        {
            gone.push(name);
        } else if let Err(error) = shared.runaways.set(&name, &rule) {
            // Somebody has written to the table itself.
            tracing::error!(name, %error, "a runaway rule cannot be kept");
        }
    }
    Ok(gone)
}

/// Takes over what the server's own tenant was altered to.
async fn load_system(shared: &Arc<Shared>, system: &Arc<Home>) -> SqlResult<()> {
    let sql = format!("SELECT {COLUMNS} FROM rowhouse.tenants WHERE id = {}", TenantId::SYSTEM);
    let rows = query(shared, system, sql).await?;
    let (Some(row), Some(entry)) = (rows.first(), shared.tenants.get(TenantId::SYSTEM)) else {
        return Ok(());
    };
    let row = promises::of_loaded(shared, TenantId::SYSTEM, decode(row)?.2);
    entry.change_row(|there| *there = row);
    Ok(())
}

/// Removes the data files of dropped tenants, each from the volume that it was on: a crash came between a DROP's row and its file. On another volume a
/// file of that id is another server's. The ids of all others are not given again, those that the catalogue does not know among them: of a catalogue
/// that was lost or is older, or another server's. The ids of the files that are left. Notes volumes that have tenants and none of their files. Blocks.
fn look_through_files(
    shared: &Shared,
    dropped: &FxHashMap<TenantId, String>,
) -> SqlResult<FxHashSet<TenantId>> {
    let mut left = FxHashSet::default();
    let volume_of = |entry: &Arc<Entry>| entry.with_row(|row| row.volume.clone());
    let lived_on: FxHashSet<String> = shared.tenants.entries().iter().map(volume_of).collect();
    let (disk, config) = (&shared.env.disk, &shared.config);
    let failed = |path: &Path, error: std::io::Error| {
        SqlError::new(SqlState::IO_ERROR, format!("{}: {error}", path.display()))
    };
    let others = config.volumes.iter().map(|(name, dir)| (name.as_str(), dir));
    for (volume, dir) in std::iter::once((DEFAULT_VOLUME, &config.data_dir)).chain(others) {
        let mut has_live = false;
        for (id, path) in tenant_files(disk.as_ref(), dir).map_err(|error| failed(dir, error))? {
            shared.tenants.set_last_id(id.0);
            has_live |= shared.tenants.get(id).is_some_and(|entry| volume_of(&entry) == volume);
            // Also one that is removed now: that may not last.
            left.insert(id);
            if dropped.get(&id).is_some_and(|was_on| was_on == volume) {
                tracing::info!(tenant = id.0, "a tenant's DROP was cut short: its file is removed");
                if let Err(error) = disk.remove(&path) {
                    tracing::error!(tenant = id.0, %error, "the file of a dropped tenant cannot be removed; the next start tries again");
                }
            }
        }
        if !has_live && lived_on.contains(volume) {
            tracing::error!(volume, directory = %dir.display(), "none of the volume's tenants has its file there: a device may not be mounted; until a start finds one nobody is made on it");
            shared.volumes.find(volume).expect("it is of the configuration").note_missing();
        }
    }
    Ok(left)
}

/// What a row says of its tenant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// Its data file is not whole yet; nobody was told of it.
    Making,
    Live,
    /// The row is kept until nothing else is left of the tenant, and longer if its id is the last.
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

/// As [`decode`] wants them, and as they are in the table.
const COLUMNS: &str = "id, name, volume, promise, state, size";

/// Reads the next rows by the primary key: a start needs the point path alone, however many tenants there are.
fn select_after(last: TenantId) -> String {
    format!("SELECT {COLUMNS} FROM rowhouse.tenants WHERE id > {last} ORDER BY id LIMIT {LOADED_AT_ONCE}")
}

/// Reads a row of the table, whose last columns an earlier version's has not. What is promised is that of the tenant's own options
/// alone: its size is not looked up.
pub(super) fn decode(row: &TextRow) -> SqlResult<(TenantId, State, TenantRow)> {
    let broken = |what: &str| {
        SqlError::new(
            SqlState::DATA_CORRUPTED,
            format!("rowhouse.tenants holds a row with a bad {what}: {row:?}"),
        )
    };
    let [Some(id), Some(name), Some(volume), Some(options), Some(state), added @ ..] = &row[..] else {
        return Err(broken("column"));
    };
    let id = TenantId(id.parse().map_err(|_| broken("id"))?);
    let state = State::ALL.into_iter().find(|one| one.as_str() == state).ok_or_else(|| broken("state"))?;
    let options: PromiseOptions = options.parse().map_err(|_| broken("promise"))?;
    let size = added.first().cloned().flatten();
    let promise = options.over(&Promise::default());
    Ok((id, state, TenantRow { name: name.clone(), volume: volume.clone(), size, options, promise }))
}

/// Remembers that a tenant is being made; durable on return.
pub(super) async fn begin(shared: &Arc<Shared>, id: TenantId, row: &TenantRow) -> SqlResult<()> {
    let sql = format!("INSERT INTO rowhouse.tenants ({COLUMNS}) VALUES {}", values(id, row, State::Making));
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
        "INSERT INTO rowhouse.tenants ({COLUMNS}) VALUES {} ON CONFLICT (id) DO UPDATE SET name = excluded.name, promise = excluded.promise, size = excluded.size",
        values(id, row, State::Live)
    );
    query(shared, &system(shared)?, sql).await.map(drop)
}

/// A row in the order of [`COLUMNS`].
fn values(id: TenantId, row: &TenantRow, state: State) -> String {
    format!(
        "({id}, {}, {}, {}, {}, {})",
        literal(&row.name),
        literal(&row.volume),
        literal(&row.options.to_string()),
        literal(state.as_str()),
        row.size.as_deref().map_or("NULL".to_owned(), literal)
    )
}

/// Remembers that a tenant is gone; durable on return.
pub(super) async fn mark_dropped(shared: &Arc<Shared>, id: TenantId) -> SqlResult<()> {
    set_state(shared, id, State::Dropped).await
}
