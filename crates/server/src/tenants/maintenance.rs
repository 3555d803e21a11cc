//! What each worker does for its tenants by itself: checkpoints when enough was logged or time passed, closing what is
//! unused, letting log segments go, and at the end a checkpoint of everything.
//!
//! One task a worker, once a second; it looks at open tenants only, so closed ones cost nothing.

use std::sync::Arc;

use base::{ByteCount, Nanos, TenantId};
use storage::redo::RedoError;

use super::Home;
use crate::shared::Shared;

const TICK: Nanos = Nanos::from_secs(1);
/// The part of the log's limit that one tenant may have logged since its last checkpoint.
const TENANT_LOG_PART: u64 = 4;

/// Looks after the tenants of worker `index` until the worker stops.
pub(crate) async fn maintain(shared: Arc<Shared>, index: usize) {
    loop {
        env::sleep(TICK).await;
        let now = env::now();
        for home in shared.workers[index].open_homes() {
            tend(&shared, &home, now).await;
        }
    }
}

/// Keeps the log short and its next segments ready until the worker stops.
pub(crate) async fn keep_log(shared: Arc<Shared>) {
    loop {
        let _ = env::timeout_at(Some(env::now() + TICK), shared.log_dir.running_short()).await;
        if let Err(error) = trim_log(&shared).await {
            tracing::warn!(%error, "log segments could not be made ready");
            env::sleep(TICK).await;
        }
    }
}

async fn tend(shared: &Shared, home: &Arc<Home>, now: Nanos) {
    home.reclaim().await;
    let config = &shared.config;
    let Some((logged, checkpointed_at)) = home.since_checkpoint() else { return };
    let old = logged > ByteCount(0) && now - checkpointed_at >= config.checkpoint_interval;
    if logged.0 >= config.log_limit.0 / TENANT_LOG_PART || old {
        // Failures are logged where they happen; the next tick tries again.
        let _ = home.checkpoint().await;
    }
    if home.id() != TenantId::SYSTEM {
        home.close_if_unused(now - config.tenant_close_after).await;
    }
}

/// Has the tenants that keep the oldest segments checkpointed, and the next segments made ready.
async fn trim_log(shared: &Arc<Shared>) -> Result<(), RedoError> {
    let usage = shared.log_dir.usage();
    if usage.live > shared.config.log_limit {
        for (tenant, _) in usage.pinned_oldest {
            recover_one(shared, tenant).await;
        }
    }
    shared.log_dir.prepare_ahead().await
}

/// Opens a tenant, which replays its redo, and checkpoints it. From any worker.
async fn recover_one(shared: &Arc<Shared>, tenant: TenantId) {
    let Some(entry) = shared.tenants.get(tenant) else {
        // A CREATE cut short, or a DROP whose records are still there.
        shared.log_dir.forget(tenant);
        return;
    };
    let home = entry.home.clone();
    let task = home.worker().clone().spawn(tenant, async move {
        home.open().await?;
        home.checkpoint().await
    });
    if let Some(Err(error)) = task.await {
        tracing::error!(tenant = tenant.0, %error, "a tenant could not be recovered");
    }
}

/// Recovers the tenants that have redo of an earlier start, one after the other, so that its segments become free.
pub(crate) async fn recover_tails(shared: Arc<Shared>) {
    let tails: Vec<TenantId> = shared.redo.tenants().map(|(tenant, _)| tenant).collect();
    for tenant in tails {
        recover_one(&shared, tenant).await;
    }
}

/// Checkpoints every open tenant of worker `index`.
pub(crate) async fn shut_down(shared: Arc<Shared>, index: usize) {
    for home in shared.workers[index].open_homes() {
        while home.since_checkpoint().is_none() && home.is_open() {
            env::sleep(Nanos::from_millis(1)).await;
        }
        let _ = home.checkpoint().await;
    }
}
