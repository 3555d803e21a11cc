//! What all parts of the server share.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use env::Env;
use storage::redo::{LogDir, LogWriter, RedoIndex};

use crate::ServerConfig;
use crate::analytic_pool::AnalyticPool;
use crate::executor::WorkerHandle;
use crate::reception::ReceptionCounts;
use crate::session::Sessions;
use crate::tenants::Tenants;

/// One worker as the rest of the server sees it.
pub(crate) struct WorkerSeat {
    pub(crate) handle: WorkerHandle,
    pub(crate) log: LogWriter,
    pub(crate) core: Option<usize>,
}

/// One for each server; lives as long as any of its threads.
pub(crate) struct Shared {
    pub(crate) env: Env,
    pub(crate) config: ServerConfig,
    pub(crate) sessions: Sessions,
    pub(crate) tenants: Tenants,
    pub(crate) workers: Vec<WorkerSeat>,
    pub(crate) analytic: AnalyticPool,
    pub(crate) log_dir: LogDir,
    /// What the logs of earlier starts hold.
    pub(crate) redo: RedoIndex,
    pub(crate) reception: Arc<ReceptionCounts>,
    pub(crate) checkpoints: AtomicU64,
}

impl Shared {
    /// The home of a tenant: fixed by its id and the number of workers.
    pub(crate) fn worker_of(&self, tenant: base::TenantId) -> &WorkerSeat {
        // Ids count up, so new tenants spread evenly.
        let index =
            usize::try_from(tenant.0 % self.workers.len() as u64).expect("fewer workers than usize::MAX");
        &self.workers[index]
    }
}
