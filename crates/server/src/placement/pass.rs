//! Looks at the homes and moves tenants.

use std::pin::pin;
use std::sync::{Arc, Weak};

use base::{Nanos, TenantId};
use futures::future::select;
use governor::{MoveReason, Occupancy, PlacementPlan, PlacementPolicy, Resident};

use super::load::Loads;
use crate::shared::Shared;
use crate::tenants::Entry;

/// Between two looks where no promise changes.
const INTERVAL: Nanos = Nanos::from_secs(2);
/// How long a move is tried before the next pass is left to find a better moment.
const TRIED_FOR: Nanos = Nanos::from_secs(1);

/// Goes on until the server is gone. A move that is cut off was none.
pub(crate) async fn pass_on(shared: Weak<Shared>) {
    let mut loads = Loads::default();
    let Some(placement) = shared.upgrade().map(|shared| shared.placement.clone()) else { return };
    loop {
        select(pin!(placement.asked()), pin!(env::sleep(INTERVAL))).await;
        let Some(shared) = shared.upgrade() else { return };
        pass(&shared, &mut loads).await;
    }
}

/// Looks at all tenants, and moves those that had better live elsewhere.
async fn pass(shared: &Arc<Shared>, loads: &mut Loads) {
    let now = env::now();
    loads.take_in(&shared.used_by_tenant(), now);
    let (entries, residents) = residents(shared, loads, now);
    // One worker has them all.
    if shared.workers.len() == 1 {
        return;
    }
    let plan = PlacementPlan::new(&residents, shared.workers.len(), &PlacementPolicy::default(), now);
    for step in &plan.moves {
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
