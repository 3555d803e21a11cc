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
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use base::{ByteCount, Nanos, SqlError, SqlResult, SqlState, TenantId};
use futures::future::select;
use governor::AwaitedFor;
use storage::redo::LogKeepers;

use super::Home;
use super::side_by_side::SideBySide;
use crate::complaint::Complaint;
use crate::shared::Shared;

/// Between two looks at the log, and between two tries with one tenant.
const TICK: Nanos = Nanos::from_secs(1);

/// Between two tries with a tenant of which each fails, at last: each reads its redo as far as it goes, and none helps before somebody sees to it.
const FAILING_PAUSE_MAX: Nanos = Nanos::from_secs(60);

/// With what a try fails so that the next one soon would too: damage, a file that is not there or cannot be read, a replay or a checkpoint that panics, a full
/// volume.
const LASTING: [SqlState; 4] =
    [SqlState::DATA_CORRUPTED, SqlState::IO_ERROR, SqlState::INTERNAL_ERROR, SqlState::DISK_FULL];

/// What came of the last tries with a tenant.
#[derive(Default)]
struct Failures {
    /// How many in a row failed so.
    in_a_row: AtomicU32,
    /// The last one for want of space.
    want_space: AtomicBool,
}

impl Failures {
    fn note(&self, outcome: Option<&SqlResult<()>>) {
        let state = outcome.and_then(|outcome| outcome.as_ref().err()).map(SqlError::state);
        let is_lasting = state.is_some_and(|state| LASTING.contains(&state));
        let before = self.in_a_row.load(Ordering::Relaxed);
        self.in_a_row.store(if is_lasting { before.saturating_add(1) } else { 0 }, Ordering::Relaxed);
        self.want_space.store(state == Some(SqlState::DISK_FULL), Ordering::Relaxed);
    }

    /// How long after the last try the next one is. `has_space`: no volume of the tenant's is full, so that who wanted space has not to wait.
    fn pause(&self, has_space: bool) -> Nanos {
        if has_space && self.want_space.load(Ordering::Relaxed) {
            return TICK;
        }
        Nanos(TICK.0 << self.in_a_row.load(Ordering::Relaxed).min(6)).min(FAILING_PAUSE_MAX)
    }
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
    let [mut unready, mut surplus]: [Complaint; 2] = Default::default();
    loop {
        keeper.wait(&shared).await;
        let now = env::now();
        shared.reserves.iter().for_each(|reserve| reserve.restore(now));
        let prepared = shared.log_dir.prepare_ahead().await;
        // Another volume on the same file system has no more left than the log's.
        if shared.log_reserve().is_running_short()
            && let Err(error) = shared.log_dir.remove_surplus()
            && let Some(times) = surplus.met(env::now())
        {
            tracing::warn!(%error, times, "a free log segment could not be removed");
        }
        keeper.look(&shared).await;
        let Err(error) = prepared else {
            if let Some(times) = unready.is_over(env::now()) {
                tracing::info!(times, "log segments can be made ready again");
            }
            continue;
        };
        if error.is_full_disk() {
            if shared.log_reserve().release(env::now()) {
                continue;
            }
            // What the disk has left, for whoever makes room. Of the same failure, if it fails.
            let _ = shared.log_dir.prepare_little().await;
        }
        if let Some(times) = unready.met(env::now()) {
            tracing::warn!(%error, times, "log segments could not be made ready");
        }
        env::sleep(TICK).await;
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
    failures: Arc<Failures>,
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
            let begun = || Awaited { home, tried_at: None, failures: Arc::default() };
            let awaited = self.awaited.entry(tenant).or_insert_with(begun);
            let now = env::now();
            let pause = awaited.failures.pause(awaited.home.check_space().is_ok());
            let is_tried = awaited.tried_at.is_some_and(|at| now - at < pause) || self.recoveries.has(tenant);
            if !is_tried && self.recoveries.has_place() {
                awaited.tried_at = Some(now);
                let (home, failures) = (awaited.home.clone(), awaited.failures.clone());
                self.recoveries.begin(tenant, || recover(home, failures)).await;
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

/// Opens a tenant, which replays its redo, and checkpoints it; notes in `failures` what came of it. From any worker.
async fn recover(home: Arc<Home>, failures: Arc<Failures>) {
    let opened = home.clone();
    let task = home.residence().spawn_upkeep(async move {
        opened.open().await?;
        opened.checkpoint_or_wait().await
    });
    let outcome: Option<SqlResult<()>> = task.await;
    match &outcome {
        // Closed because its file is in doubt, to be opened anew by the next try: that says nothing of how it will end.
        Some(Ok(())) if !home.is_open() => {}
        outcome => failures.note(outcome.as_ref()),
    }
    if let Some(Err(error)) = outcome {
        tracing::error!(tenant = home.id().0, %error, "a tenant could not be recovered");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(state: SqlState) -> SqlResult<()> {
        Err(SqlError::new(state, "it cannot be opened"))
    }

    #[test]
    fn a_tenant_that_cannot_be_recovered_is_tried_less_and_less_often() {
        // A volume that is not mounted or a sector that cannot be read, and a panic, among them.
        for state in LASTING {
            let failures = Failures::default();
            let mut pauses = Vec::new();
            for _ in 0..8 {
                pauses.push(failures.pause(false).0 / 1_000_000_000);
                failures.note(Some(&failed(state)));
            }
            assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60], "{state:?}");
            let has_to_wait = failures.pause(true) > TICK;
            assert_eq!(has_to_wait, state != SqlState::DISK_FULL, "once somebody has made space: {state:?}");
            failures.note(Some(&Ok(())));
            assert_eq!(failures.pause(false), TICK);
        }
    }

    #[test]
    fn what_may_be_otherwise_soon_is_tried_each_second() {
        let failures = Failures::default();
        for outcome in [None, Some(&failed(SqlState::CANNOT_CONNECT_NOW))] {
            failures.note(outcome);
            assert_eq!(failures.pause(false), TICK);
        }
    }
}
