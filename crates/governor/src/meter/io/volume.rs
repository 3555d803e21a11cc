//! One volume as the meters of all workers share it.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::{Nanos, TenantId};
use rustc_hash::FxHashMap;

use super::deadline::{Opening, Standing};
use super::occupancy::Occupancy;
use crate::io::AwaitedFor;
use crate::meter::Resource;
use crate::promise::IoPromise;

/// What a volume is known to do. The meter is told by whoever calibrates, not by the scheduler.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct IoCapacity {
    /// I/Os a second at full depth; 0: not calibrated.
    pub iops: u64,
    /// Requests in flight at full depth; 0: not calibrated.
    pub depth: u32,
    /// I/Os a second that the operator allows; `None`: no limit.
    pub iops_limit: Option<u64>,
}

/// The part of a volume's meter that all workers share: promises in force, deadlines, and for how long requests were
/// pending and the device was at its full depth. Everything else each worker's [`super::IoMeter`] has for itself until the interval's end.
#[derive(Debug)]
pub struct IoMeterVolume {
    number: u32,
    tick: Nanos,
    iops: AtomicU64,
    depth: AtomicU32,
    iops_limit: AtomicU64,
    /// Whether tenants' limits hold anything up.
    limits_held: AtomicBool,
    pub(super) in_flight: Occupancy,
    tenants: Mutex<FxHashMap<TenantId, Arc<Standing>>>,
}

impl IoMeterVolume {
    /// A meter of volume `number` that holds delays of up to `tick` for none: how often a worker looks at its queues.
    pub fn new(number: u32, tick: Nanos) -> Arc<IoMeterVolume> {
        Arc::new(IoMeterVolume {
            number,
            tick,
            iops: AtomicU64::new(0),
            depth: AtomicU32::new(0),
            iops_limit: AtomicU64::new(0),
            limits_held: AtomicBool::new(true),
            in_flight: Occupancy::default(),
            tenants: Mutex::default(),
        })
    }

    /// What the device can do, from now on. Change it while nothing is in flight, or one interval's cause may be wrong.
    pub fn set_capacity(&self, capacity: IoCapacity) {
        self.iops.store(capacity.iops, Ordering::Relaxed);
        self.depth.store(capacity.depth, Ordering::Relaxed);
        self.iops_limit.store(capacity.iops_limit.unwrap_or(0), Ordering::Relaxed);
    }

    /// Whether tenants' limits are held, as they are unless this says otherwise: one that is not is no excuse for what a tenant misses.
    pub fn set_limits_held(&self, are_held: bool) {
        self.limits_held.store(are_held, Ordering::Relaxed);
    }

    /// From when on a tenant's own limits let its next requests through, as it stands.
    pub(super) fn opening_of(&self, standing: &Standing) -> Opening {
        if self.limits_held.load(Ordering::Relaxed) { standing.opening() } else { Opening::default() }
    }

    /// The promise by which `tenant` is metered from `now` on, and what a missed I/O of it costs, in millionths. Tell the scheduler
    /// the same.
    pub fn set_promise(&self, tenant: TenantId, promise: &IoPromise, penalty_micros: u64, now: Nanos) {
        self.standing(tenant).set_promise(promise, penalty_micros, now);
    }

    /// Says whether others wait for a tenant's upkeep for one thing. Tell the scheduler the same.
    pub fn set_awaited(&self, tenant: TenantId, awaited_for: AwaitedFor, is_awaited: bool) {
        if is_awaited {
            self.standing(tenant).set_awaited(awaited_for, true);
        } else {
            self.standing_if_known(tenant).set_awaited(awaited_for, false);
        }
    }

    /// Forgets a tenant, after the interval in which its last request was issued.
    pub fn remove(&self, tenant: TenantId) {
        self.tenants().remove(&tenant);
    }

    pub(super) fn standing(&self, tenant: TenantId) -> Arc<Standing> {
        self.tenants().entry(tenant).or_default().clone()
    }

    /// That of a tenant that may be forgotten by now: then nothing is promised it.
    pub(super) fn standing_if_known(&self, tenant: TenantId) -> Arc<Standing> {
        self.tenants().get(&tenant).cloned().unwrap_or_default()
    }

    /// Tenants that are known.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.tenants().len()
    }

    fn tenants(&self) -> MutexGuard<'_, FxHashMap<TenantId, Arc<Standing>>> {
        self.tenants.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the volume's rows are about.
    pub(super) fn resource(&self) -> Resource {
        Resource::Io { volume: self.number }
    }

    pub(super) fn tick(&self) -> Nanos {
        self.tick
    }

    pub(super) fn calibrated_iops(&self) -> u64 {
        self.iops.load(Ordering::Relaxed)
    }

    /// The count of requests in flight from which on the device is at its full depth.
    pub(super) fn depth(&self) -> u64 {
        match self.depth.load(Ordering::Relaxed) {
            0 => u64::MAX,
            depth => u64::from(depth),
        }
    }

    /// I/Os a second that can be given out; `None` if nobody knows.
    pub(super) fn capacity(&self) -> Option<u64> {
        let known = [self.calibrated_iops(), self.iops_limit.load(Ordering::Relaxed)];
        known.into_iter().filter(|iops| *iops > 0).min()
    }
}
