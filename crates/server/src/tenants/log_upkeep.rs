//! Keeping the log short: its next segments ready, and the tenants checkpointed, or recovered, that keep it long.
//!
//! The log *waits* for a tenant, once all segments in use are longer than the limit and until they are an eighth shorter, while records of
//! the tenant are in the oldest segments that have to go ([`storage::redo::LogDir::kept_beyond`]). All tenants of a log wait then: so no limit of the
//! tenant's own holds what it takes, replay and checkpoint, and it is charged for that ([`AwaitedFor`]). Nobody is waited for here: a look
//! begins what can be begun, and the next one finds what came of it.
//!
//! A transaction that is open keeps the log too, once a long statement has put parts of it there, and no checkpoint helps. One that is at work is left to it; a
//! session whose client leaves it idle meanwhile is ended. Once the log's volume is full, so is one that queries, or whose change has found nothing to write for long: who
//! writes is refused then.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use base::{ByteCount, Nanos, SqlError, SqlResult, SqlState, TenantId};
use futures::future::select;
use governor::AwaitedFor;
use storage::redo::LogKeepers;

use super::Home;
use super::side_by_side::SideBySide;
use crate::shared::Shared;

/// Between two looks at the log, and between two tries with one tenant.
const TICK: Nanos = Nanos::from_secs(1);

/// Between two tries with a tenant that is damaged, or whose file cannot be read or is not there, at last: each reads its redo as far as it goes, and none
/// helps before somebody sees to it.
const DAMAGED_PAUSE_MAX: Nanos = Nanos::from_secs(60);

/// Whether another try would soon end as this one did. Not what wants space: each second somebody may have made some.
fn is_lasting(outcome: Option<&SqlResult<()>>) -> bool {
    let state = outcome.and_then(|outcome| outcome.as_ref().err()).map(SqlError::state);
    state.is_some_and(|state| [SqlState::DATA_CORRUPTED, SqlState::IO_ERROR].contains(&state))
}

/// Between two tries with a tenant of which the last so many failed so.
fn pause_after(damaged: u32) -> Nanos {
    Nanos(TICK.0 << damaged.min(6)).min(DAMAGED_PAUSE_MAX)
}

/// For how long a client may leave a transaction idle that keeps the log over its limit.
const IDLE_MAX: Nanos = Nanos::from_secs(10);

/// For how long the change of such a transaction may write nothing once the log's volume is full: it finds nothing to change, or waits for what its tenant may read.
const SILENT_MAX: Nanos = Nanos::from_secs(10);

/// Once over its limit, the log is too long until it is shorter than that by one part of so many.
const SLACK_PART: u64 = 8;

/// Keeps the log short and its next segments ready until the worker stops.
pub(crate) async fn keep_log(shared: Arc<Shared>) {
    let mut keeper = LogKeeper::default();
    loop {
        keeper.wait(&shared).await;
        shared.reserves.iter().for_each(|reserve| reserve.restore());
        let prepared = shared.log_dir.prepare_ahead().await;
        // Another volume on the same file system has no more left than the log's.
        if shared.log_reserve().is_running_short()
            && let Err(error) = shared.log_dir.remove_surplus()
        {
            tracing::warn!(%error, "a free log segment could not be removed");
        }
        keeper.look(&shared).await;
        if let Err(error) = prepared {
            if error.is_full_disk() {
                if shared.log_reserve().release() {
                    continue;
                }
                // What the disk has left, for whoever makes room. Of the same failure, if it fails.
                let _ = shared.log_dir.prepare_little().await;
            }
            tracing::warn!(%error, "log segments could not be made ready");
            env::sleep(TICK).await;
        }
    }
}

/// Recovers the tenants that have redo of an earlier start, so that its segments become free.
pub(crate) async fn recover_tails(shared: Arc<Shared>) {
    let mut recoveries = SideBySide::default();
    for (tenant, _) in shared.redo.tenants() {
        if let Some(home) = home_of(&shared, tenant) {
            recoveries.begin(tenant, || recover(home, Arc::default())).await;
        }
    }
    recoveries.all_ended().await;
}

/// A tenant that the log waits for.
struct Awaited {
    home: Arc<Home>,
    tried_at: Option<Nanos>,
    /// How many tries in a row failed so that the next one had time.
    damaged: Arc<AtomicU32>,
}

#[derive(Default)]
struct LogKeeper {
    /// The log was longer than its limit, and is not shorter than it by enough yet.
    is_over: bool,
    awaited: BTreeMap<TenantId, Awaited>,
    recoveries: SideBySide,
}

impl LogKeeper {
    /// Until there is something to look at.
    async fn wait(&mut self, shared: &Shared) {
        let short = pin!(env::timeout_at(Some(env::now() + TICK), shared.log_dir.running_short()));
        select(short, pin!(self.recoveries.ended())).await;
    }

    /// Has those checkpointed that the log waits for, as far as it can be begun now.
    async fn look(&mut self, shared: &Arc<Shared>) {
        let LogKeepers { records: keepers, transactions } = self.keepers(shared);
        for tenant in transactions {
            let ended = shared.sessions.end_idle_branches(tenant, IDLE_MAX);
            if ended > 0 {
                tracing::info!(tenant = tenant.0, ended, "idle transactions kept the log over its limit");
            }
            if shared.log_reserve().is_spent() {
                let ended = shared.sessions.end_silent_branches(tenant, SILENT_MAX);
                if ended > 0 {
                    tracing::warn!(
                        tenant = tenant.0,
                        ended,
                        "transactions that wrote nothing kept the log, whose volume is full"
                    );
                }
            }
        }
        self.awaited.retain(|tenant, awaited| {
            let is_awaited = keepers.contains(tenant);
            if !is_awaited {
                awaited.home.set_awaited(AwaitedFor::Log, false);
            }
            is_awaited
        });
        for tenant in keepers {
            let Some(home) = home_of(shared, tenant) else { continue };
            // Again where the end of a checkpoint that came too early for these records has taken it back.
            home.set_awaited(AwaitedFor::Log, true);
            let begun = || Awaited { home, tried_at: None, damaged: Arc::default() };
            let awaited = self.awaited.entry(tenant).or_insert_with(begun);
            let now = env::now();
            let pause = pause_after(awaited.damaged.load(Ordering::Relaxed));
            let is_tried = awaited.tried_at.is_some_and(|at| now - at < pause) || self.recoveries.has(tenant);
            if !is_tried && self.recoveries.has_place() {
                awaited.tried_at = Some(now);
                let (home, damaged) = (awaited.home.clone(), awaited.damaged.clone());
                self.recoveries.begin(tenant, || recover(home, damaged)).await;
            }
        }
    }

    fn keepers(&mut self, shared: &Shared) -> LogKeepers {
        let limit = shared.config.log_limit;
        let short = ByteCount(limit.0 - limit.0 / SLACK_PART);
        let live = shared.log_dir.usage().live;
        self.is_over = live > if self.is_over { short } else { limit };
        if self.is_over { shared.log_dir.kept_beyond(short) } else { LogKeepers::default() }
    }
}

/// Whose records are in a log. `None` of a CREATE cut short, or a DROP whose records are still there: they are forgotten.
fn home_of(shared: &Shared, tenant: TenantId) -> Option<Arc<Home>> {
    let entry = shared.tenants.get(tenant);
    if entry.is_none() {
        shared.log_dir.forget(tenant);
        shared.head_starts.forget(tenant);
    }
    entry.map(|entry| entry.home.clone())
}

/// Opens a tenant, which replays its redo, and checkpoints it; counts in `damaged` what [`is_lasting`]. From any worker.
async fn recover(home: Arc<Home>, damaged: Arc<AtomicU32>) {
    let opened = home.clone();
    let task = home.spawn(async move {
        opened.open().await?;
        opened.checkpoint_or_wait().await
    });
    let outcome: Option<SqlResult<()>> = task.await;
    let before = damaged.load(Ordering::Relaxed);
    let is_lasting = is_lasting(outcome.as_ref());
    damaged.store(if is_lasting { before.saturating_add(1) } else { 0 }, Ordering::Relaxed);
    if let Some(Err(error)) = outcome {
        tracing::error!(tenant = home.id().0, %error, "a tenant could not be recovered");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_tenant_is_tried_less_and_less_often() {
        let seconds = [0, 1, 2, 5, 6, 1000].map(|damaged| pause_after(damaged).0 / 1_000_000_000);
        assert_eq!(seconds, [1, 2, 4, 32, 60, 60]);
    }

    #[test]
    fn what_waits_for_space_is_tried_each_second_and_what_waits_for_an_operator_is_not() {
        let failed = |state| Err(SqlError::new(state, "it cannot be opened"));
        for (state, lasts) in [
            (SqlState::DATA_CORRUPTED, true),
            // A volume that is not mounted, a sector that cannot be read.
            (SqlState::IO_ERROR, true),
            (SqlState::DISK_FULL, false),
        ] {
            assert_eq!(is_lasting(Some(&failed(state))), lasts, "{state:?}");
        }
        assert!(!is_lasting(Some(&Ok(()))) && !is_lasting(None));
    }
}
