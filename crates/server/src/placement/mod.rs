//! Which worker is whose home. `governor::PlacementPlan` says; this asks it and carries out what it says.
//!
//! A new tenant gets the worker on which its reservation fits and that has least to do. The [`crate::overseer`]'s thread looks at all tenants every
//! [`pass::INTERVAL`], and at once when a promise changes, and moves them one after the other (`tenants::moving`). Homes are not remembered: a start packs anew.
//! Who was moved by hand stays until reservations fit nowhere else.

mod load;
mod pass;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use base::{Nanos, SqlResult, TenantId, WorkerId};
use futures::task::AtomicWaker;
use governor::{MilliCores, Occupancy, PlacementPlan, PlacementPolicy, Promise, Resident};

pub(crate) use self::pass::pass_on;
use crate::shared::Shared;
use crate::tenants::{Home, TenantRow};

/// What the server knows of its workers' tenants.
pub(crate) struct Placement {
    /// By worker: as the last pass found it, and who came since.
    occupied: Mutex<Vec<Occupancy>>,
    is_asked: AtomicBool,
    waker: AtomicWaker,
}

impl Placement {
    /// Of so many workers without tenants.
    pub(crate) fn new(workers: usize) -> Placement {
        Placement {
            occupied: Mutex::new(vec![Occupancy::default(); workers]),
            is_asked: AtomicBool::new(false),
            waker: AtomicWaker::new(),
        }
    }

    fn occupied(&self) -> MutexGuard<'_, Vec<Occupancy>> {
        self.occupied.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the tenants' homes looked at now: a promise has changed. From any thread.
    pub(crate) fn ask(&self) {
        self.is_asked.store(true, Ordering::Release);
        self.waker.wake();
    }

    /// Ends when [`Placement::ask`] was called. One waiter at a time.
    async fn asked(&self) {
        std::future::poll_fn(|cx| {
            self.waker.register(cx.waker());
            if self.is_asked.swap(false, Ordering::AcqRel) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Whether [`Placement::ask`] was called, and nobody was told of it yet.
    fn is_asked(&self) -> bool {
        self.is_asked.load(Ordering::Acquire)
    }

    /// The worker that a tenant with this reservation is to begin on; it counts there from now on.
    fn home_for(&self, reserved: MilliCores, policy: &PlacementPolicy) -> WorkerId {
        let mut occupied = self.occupied();
        let worker = PlacementPlan::home_for(reserved, &occupied, policy);
        let there = &mut occupied[usize::from(worker.0)];
        there.reserved += u64::from(reserved.0);
        there.tenants += 1;
        worker
    }
}

/// Of a worker tenants have what is left of it by the server's own reservation, which is spread over all, and something in any case.
fn policy_of(shared: &Shared) -> PlacementPolicy {
    const LEFT_MIN: u32 = 100;
    let system = shared.tenants.get(TenantId::SYSTEM);
    let of_system = system.map_or(0, |entry| entry.with_row(|row| row.promise.cpu.reserved.0));
    let workers = u32::try_from(shared.workers.len()).expect("at most 65,536 workers");
    let policy = PlacementPolicy::default();
    let left = policy.capacity.0.saturating_sub(of_system / workers);
    PlacementPolicy { capacity: MilliCores(left.max(LEFT_MIN)), ..policy }
}

/// The home of a tenant to be made.
///
/// # Errors
/// 42704 for an unknown volume.
pub(crate) fn found(
    shared: &Arc<Shared>,
    id: TenantId,
    volume: &str,
    promise: &Promise,
) -> SqlResult<Arc<Home>> {
    let worker = shared.placement.home_for(promise.cpu.reserved, &policy_of(shared));
    Home::of(shared, id, volume, worker)
}

/// The homes of all tenants at the server's start, in their order.
pub(crate) fn at_start(shared: &Shared, tenants: &[(TenantId, TenantRow)]) -> Vec<WorkerId> {
    let resident = |(tenant, row): &(TenantId, TenantRow)| Resident {
        tenant: *tenant,
        reserved: row.promise.cpu.reserved,
        load: MilliCores(0),
        home: None,
        moved_at: None,
    };
    let residents: Vec<Resident> = tenants.iter().map(resident).collect();
    let plan = PlacementPlan::new(&residents, shared.workers.len(), &policy_of(shared), Nanos(0));
    let mut occupied = shared.placement.occupied();
    for (resident, home) in residents.iter().zip(&plan.homes) {
        let there = &mut occupied[usize::from(home.0)];
        there.reserved += u64::from(resident.reserved.0);
        there.tenants += 1;
    }
    plan.homes
}
