//! What the governor keeps across workers: of processor time here, of I/O in [`IoGoverning`].

use std::num::NonZeroU32;
use std::sync::Arc;

use base::{Nanos, TenantId};
use governor::{CpuAccounts, CpuFeed, CpuMeters, CpuPromise, CpuScheduler, CpuTerms, IoPromise, MilliCores};

use super::io_governing::IoGoverning;

/// What the server's own tasks (log flush, accepting) have reserved for each worker, in thousandths of a core: tenants with
/// reservations wait for them, and would else keep them from running.
const SYSTEM_RESERVED: u32 = 200;
/// Their weight beyond that: they are short and others wait for them, so they go first unless they flood the worker. Tenants
/// have 100 each by default.
const SYSTEM_WEIGHT: NonZeroU32 = NonZeroU32::new(10_000).expect("not zero");

/// [`Governing::turn_max`], unless somebody says otherwise.
pub const TURN_MAX: Nanos = Nanos::from_micros(250);

/// What the server's own tasks have unless they are altered, on so many workers.
pub(crate) fn system_cpu(workers: u32) -> CpuPromise {
    let reserved = MilliCores(SYSTEM_RESERVED * workers);
    CpuPromise { reserved, weight: SYSTEM_WEIGHT, ..CpuPromise::default() }
}

/// One for all workers of a server. Clones are of the same one.
#[derive(Clone)]
pub struct Governing {
    pub cpu: CpuGoverning,
    pub io: IoGoverning,
    /// After so much polling in a turn a long call is suspended, for others to have their turns; with 0 wherever it can be.
    pub turn_max: Nanos,
}

impl Governing {
    /// For so many workers and volumes, the log's counted, none of which knows a tenant yet. `now` is the present.
    pub fn new(workers: usize, volumes: usize, now: Nanos) -> Governing {
        Governing {
            cpu: CpuGoverning::new(workers, now),
            io: IoGoverning::new(volumes, workers),
            turn_max: TURN_MAX,
        }
    }

    /// Puts a tenant's terms in force in the meters, and for I/O in the schedule. `home` is the number of its worker; `None` for a
    /// tenant with tasks on all.
    pub(super) fn set_terms(&self, tenant: TenantId, terms: &Terms, home: Option<u32>, now: Nanos) {
        self.cpu.set_terms(tenant, terms, home, now);
        self.io.set_promise(tenant, &terms.io, terms.penalty_micros, now);
    }
}

/// Of processor time.
#[derive(Clone)]
pub struct CpuGoverning {
    workers: u32,
    accounts: Arc<CpuAccounts>,
    meters: Arc<CpuMeters>,
}

impl CpuGoverning {
    /// For so many workers, none of which knows a tenant yet. `now` is the present.
    fn new(workers: usize, now: Nanos) -> CpuGoverning {
        let workers = u32::try_from(workers).expect("fewer than 2^32 workers");
        let governing = CpuGoverning { workers, accounts: Arc::default(), meters: CpuMeters::new() };
        governing.set_terms(TenantId::SYSTEM, &governing.of_system(), None, now);
        governing
    }

    /// What the server's own tasks have before anybody says otherwise.
    pub(super) fn of_system(&self) -> Terms {
        Terms { promise: system_cpu(self.workers), ..Terms::default() }
    }

    /// What the ledger is made from. Shares nothing with the schedulers.
    pub fn meters(&self) -> &Arc<CpuMeters> {
        &self.meters
    }

    pub(super) fn scheduler(&self) -> CpuScheduler {
        CpuScheduler::sharing(self.accounts.clone())
    }

    pub(super) fn feed(&self, worker: usize) -> CpuFeed {
        CpuFeed::of_worker(self.meters.clone(), worker)
    }

    /// Has the meter hold a tenant's time against this promise from `now` on. `home` is `None` for a tenant with tasks on all workers.
    fn set_terms(&self, tenant: TenantId, terms: &Terms, home: Option<u32>, now: Nanos) {
        let CpuPromise { reserved, max, .. } = terms.promise;
        let terms =
            CpuTerms { reserved, max, penalty_micros: terms.penalty_micros, home, ..CpuTerms::default() };
        self.meters.set_terms(tenant, terms, now);
    }
}

/// What a tenant was promised that the workers keep, and what a core-second or an I/O less costs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Terms {
    pub promise: CpuPromise,
    /// On each volume.
    pub io: IoPromise,
    /// In millionths.
    pub penalty_micros: u64,
}

impl Terms {
    /// Whether its analytical queries may run beside others' homes: it is promised nothing that its own has to keep, or more than one core can.
    pub(crate) fn may_roam(&self) -> bool {
        let MilliCores(reserved) = self.promise.reserved;
        reserved > 1_000 || (reserved == 0 && self.io == IoPromise::default())
    }

    /// Those of a tenant's promise.
    pub fn of(promise: &governor::Promise) -> Terms {
        Terms { promise: promise.cpu, io: promise.io, penalty_micros: promise.penalty_micros }
    }
}
