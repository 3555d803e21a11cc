//! Looks at the homes and moves tenants.

use std::pin::pin;
use std::sync::{Arc, Weak};

use base::{Nanos, TenantId};
use futures::future::{Either, select};
use governor::{MoveReason, Occupancy, PlacementPlan, Resident};
use rustc_hash::FxHashMap;

use super::load::{Loads, Used};
use super::policy_of;
use crate::shared::Shared;
use crate::tenants::Entry;

/// Between two looks where no promise changes.
const INTERVAL: Nanos = Nanos::from_secs(2);
/// How long a move is tried before the next pass is left to find a better moment.
const TRIED_FOR: Nanos = Nanos::from_secs(1);

/// Thousandths of a core that all tenants together take on a server at rest: no load of theirs is a reason to move anybody.
const AT_REST: u64 = 50;

/// Goes on until the server is gone. A move that is cut off was none.
pub(crate) async fn pass_on(shared: Weak<Shared>) {
    let mut looked = Looked::default();
    let Some(placement) = shared.upgrade().map(|shared| shared.placement.clone()) else { return };
    loop {
        let asked =
            matches!(select(pin!(placement.asked()), pin!(env::sleep(INTERVAL))).await, Either::Left(_));
        let Some(shared) = shared.upgrade() else { return };
        if asked || looked.is_outdated(shared.tenants.version(), shared.charged_to_all(), env::now()) {
            pass(&shared, &mut looked).await;
        }
    }
}

/// What the last look at all tenants found.
#[derive(Default)]
struct Looked {
    loads: Loads,
    /// When, and what all tenants had been charged by then; `None`: never, or somebody had yet to move.
    settled: Option<(Nanos, Nanos)>,
    /// The set of tenants that was looked at.
    version: u64,
}

impl Looked {
    /// Whether another look may find anything else: not on a server at rest whose tenants are the same and which was at rest before. There each look
    /// would cost as much as there are tenants.
    fn is_outdated(&self, version: u64, charged: Nanos, now: Nanos) -> bool {
        let Some((at, charged_then)) = self.settled else { return true };
        self.version != version || (charged - charged_then).0 * 1000 > (now - at).0 * AT_REST
    }
}

/// Looks at all tenants, and moves those that had better live elsewhere.
async fn pass(shared: &Arc<Shared>, looked: &mut Looked) {
    let now = env::now();
    let charged = shared.charged_to_all();
    looked.version = shared.tenants.version();
    looked.loads.take_in(&used_by_tenant(shared), now);
    let (entries, residents) = residents(shared, &looked.loads, now);
    let load: u64 = residents.iter().map(|resident| u64::from(resident.load.0)).sum();
    looked.settled = (load < AT_REST).then_some((now, charged));
    // One worker has them all.
    if shared.workers.len() == 1 {
        return;
    }
    let plan = PlacementPlan::new(&residents, shared.workers.len(), &policy_of(shared), now);
    if !plan.moves.is_empty() {
        looked.settled = None;
    }
    for (done, step) in plan.moves.iter().enumerate() {
        // Tenants that cannot move now take their time, and a promise that was altered is not to wait for them. The first is tried whatever comes.
        if done > 0 && shared.placement.is_asked() {
            return;
        }
        let at = residents.iter().position(|resident| resident.tenant == step.tenant);
        let home = &entries[at.expect("only residents move")].home;
        let (tenant, from, to) = (step.tenant.0, step.from.0, step.to.0);
        // It was moved by hand since the plan was made.
        if home.worker().id() != step.from || (home.is_kept() && step.reason == MoveReason::Load) {
            continue;
        }
        if home.move_to(shared, step.to, Some(env::now() + TRIED_FOR)).await {
            home.set_kept(false);
            tracing::info!(tenant, from, to, reason = ?step.reason, "a tenant's home has moved");
        } else {
            tracing::debug!(tenant, from, to, "a tenant could not move now");
        }
    }
}

/// What each tenant that has had any processor time has used so far, on all workers.
fn used_by_tenant(shared: &Shared) -> FxHashMap<TenantId, Used> {
    let mut used: FxHashMap<TenantId, Used> = FxHashMap::default();
    for account in shared.workers.iter().flat_map(|seat| seat.handle.accounts()) {
        let of_tenant = used.entry(account.tenant()).or_default();
        let of_queries = account.used_by_queries();
        of_tenant.by_tasks += account.used() - of_queries;
        of_tenant.by_queries += of_queries;
    }
    for (tenant, used) in &mut used {
        used.may_roam = shared.tenants.get(*tenant).is_some_and(|entry| entry.home.may_roam());
    }
    used
}

/// Those of whom the plan has something to say: who reserves or uses something. Notes what is on each worker.
fn residents(shared: &Shared, loads: &Loads, now: Nanos) -> (Vec<Arc<Entry>>, Vec<Resident>) {
    let (mut entries, mut residents) = (Vec::new(), Vec::new());
    let mut occupied = vec![Occupancy::default(); shared.workers.len()];
    for entry in shared.tenants.entries() {
        if entry.id == TenantId::SYSTEM {
            continue;
        }
        let (home, tenant) = (entry.home.worker().id(), entry.id);
        let (reserved, load) = (entry.with_row(|row| row.promise.cpu.reserved), loads.of(tenant));
        let there = &mut occupied[usize::from(home.0)];
        there.reserved += u64::from(reserved.0);
        there.load += u64::from(load.0);
        there.tenants += 1;
        if reserved.0 > 0 || load.0 > 0 {
            // One that was moved by hand has always moved just now, so load does not move it.
            let moved_at = if entry.home.is_kept() { Some(now) } else { entry.home.moved_at() };
            residents.push(Resident { tenant, reserved, load, home: Some(home), moved_at });
            entries.push(entry);
        }
    }
    *shared.placement.occupied() = occupied;
    (entries, residents)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_at_rest_is_looked_at_when_its_tenants_change_or_work() {
        let at = Nanos::from_secs(10);
        let charged = Nanos::from_secs(3);
        let mut looked = Looked::default();
        assert!(looked.is_outdated(0, charged, at), "nobody has looked yet");
        looked.version = 7;
        looked.settled = Some((at, charged));
        let later = at + Nanos::from_secs(2);
        assert!(
            !looked.is_outdated(7, charged + Nanos::from_millis(99), later),
            "a twentieth of a core is rest"
        );
        assert!(looked.is_outdated(7, charged + Nanos::from_millis(101), later));
        assert!(looked.is_outdated(8, charged, later), "a tenant came or went");
    }
}
