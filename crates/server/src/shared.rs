//! What all parts of the server share.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use base::{Nanos, TenantId, WorkerId};
use env::Env;
use governor::{CpuMeters, MemoryMeters, VictimChoice};
use rustc_hash::FxHashMap;
use sql::session::SharedPlans;
use storage::MemoryBudget;
use storage::redo::{LogDir, LogWriter, RedoIndex};

use crate::ServerConfig;
use crate::administration::AdministeredCounter;
use crate::analytic_pool::AnalyticPool;
use crate::executor::{Spent, TenantAccount, Wait, WorkerHandle};
use crate::io_accounts::IoAccounts;
use crate::ledger::{History, Ledger};
use crate::pauses::Pauses;
use crate::placement::Placement;
use crate::policy::ServerPolicy;
use crate::reception::ReceptionCounts;
use crate::session::Sessions;
use crate::space_reserve::SpaceReserve;
use crate::tenants::{Claims, HeadStarts, Home, Runaways, Sizes, StatementRoom, Tenants};
use crate::volumes::Volumes;
use crate::work_memory::ServerWorkMemory;

/// One worker as the rest of the server sees it.
pub(crate) struct WorkerSeat {
    pub(crate) handle: WorkerHandle,
    pub(crate) log: LogWriter,
    pub(crate) core: Option<usize>,
    open_homes: Mutex<FxHashMap<TenantId, Arc<Home>>>,
}

impl WorkerSeat {
    pub(crate) fn new(handle: WorkerHandle, log: LogWriter, core: Option<usize>) -> WorkerSeat {
        WorkerSeat { handle, log, core, open_homes: Mutex::default() }
    }

    fn lock_open_homes(&self) -> MutexGuard<'_, FxHashMap<TenantId, Arc<Home>>> {
        self.open_homes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a tenant has been opened.
    pub(crate) fn note_open(&self, home: &Arc<Home>) {
        self.lock_open_homes().insert(home.id(), home.clone());
    }

    /// Notes that a tenant has gone to another worker.
    pub(crate) fn note_left(&self, tenant: TenantId) {
        self.lock_open_homes().remove(&tenant);
    }

    /// The tenants that are open, and perhaps one that is just coming here. Costs nothing for those that are not, however many there are.
    pub(crate) fn open_homes(&self) -> Vec<Arc<Home>> {
        let mut open = self.lock_open_homes();
        open.retain(|_, home| home.is_open());
        open.values().cloned().collect()
    }

    /// Whether a tenant is open and has not gone to another worker.
    pub(crate) fn has_open(&self, tenant: TenantId) -> bool {
        self.lock_open_homes().get(&tenant).is_some_and(|home| home.is_open())
    }

    /// Those of the open tenants that have more pages than their own limits. Costs next to nothing for those without a limit.
    pub(crate) fn homes_over_limits(&self) -> Vec<Arc<Home>> {
        let open = self.lock_open_homes();
        open.values().filter(|home| home.is_open() && home.is_over_limit()).cloned().collect()
    }
}

/// One for each server; lives as long as any of its threads.
pub(crate) struct Shared {
    pub(crate) env: Env,
    /// When it began, as PostgreSQL counts time.
    pub(crate) start: i64,
    pub(crate) config: ServerConfig,
    pub(crate) sessions: Sessions,
    pub(crate) tenants: Tenants,
    pub(crate) sizes: Sizes,
    pub(crate) runaways: Arc<Runaways>,
    pub(crate) claims: Claims,
    pub(crate) administered: AdministeredCounter,
    pub(crate) policy: ServerPolicy,
    pub(crate) volumes: Volumes,
    pub(crate) workers: Vec<WorkerSeat>,
    pub(crate) analytic: AnalyticPool,
    pub(crate) log_dir: LogDir,
    /// What all tenants' pages may take.
    pub(crate) memory: Arc<MemoryBudget>,
    /// What becomes of the promises of it, and of processor time.
    pub(crate) memory_meters: Arc<MemoryMeters>,
    pub(crate) cpu_meters: Arc<CpuMeters>,
    /// What queries sort and hash in.
    pub(crate) work_memory: Arc<ServerWorkMemory>,
    /// Whose pages leave it: each worker's evictor has a clone.
    pub(crate) victims: VictimChoice,
    /// By volume, in the order of the configuration, the data directory's first; then that of the log.
    pub(crate) reserves: Vec<Arc<SpaceReserve>>,
    /// What the logs of earlier starts hold.
    pub(crate) redo: RedoIndex,
    /// Held by the thread that reads the logs for a tenant that is reopened.
    pub(crate) log_reading: Arc<Mutex<()>>,
    pub(crate) head_starts: HeadStarts,
    pub(crate) reception: Arc<ReceptionCounts>,
    pub(crate) checkpoints: AtomicU64,
    /// Of taking snapshots, for analytical queries and checkpoints.
    pub(crate) snapshot_pauses: Pauses,
    /// Of tenants that moved.
    pub(crate) move_pauses: Arc<Pauses>,
    /// Writes of groups of the logs, from taking what was gathered to knowing it durable; where a segment is opened for one, that too.
    pub(crate) log_writes: Arc<Pauses>,
    pub(crate) placement: Arc<Placement>,
    pub(crate) ledger: Ledger,
    pub(crate) history: History,
    pub(crate) io_accounts: IoAccounts,
    /// Of the counts of all tenants' statements.
    pub(crate) statement_room: Arc<StatementRoom>,
    /// What all sessions, of whatever tenants, have in common of their plans.
    pub(crate) plans: SharedPlans,
}

impl Shared {
    /// The reserve of the volume called `name`, which exists.
    pub(crate) fn reserve_of(&self, name: &str) -> &Arc<SpaceReserve> {
        let at = self.config.volumes.iter().position(|(volume, _)| volume == name);
        &self.reserves[at.map_or(0, |at| at + 1)]
    }

    /// The reserve of the volume that the logs are on.
    pub(crate) fn log_reserve(&self) -> &Arc<SpaceReserve> {
        match self.config.log_dir {
            Some(_) => self.reserves.last().expect("the data directory has one"),
            None => &self.reserves[0],
        }
    }

    pub(crate) fn seat(&self, worker: WorkerId) -> &WorkerSeat {
        &self.workers[usize::from(worker.0)]
    }

    /// What the workers have counted of a tenant, each for the time it was there: processor time, polls and waits.
    pub(crate) fn accounts_of(&self, tenant: TenantId) -> impl Iterator<Item = Arc<TenantAccount>> {
        self.workers.iter().filter_map(move |seat| seat.handle.account_if_known(tenant))
    }

    /// How a tenant's tasks spent their time, on all workers. No sum ever falls.
    pub(crate) fn spent_by(&self, tenant: TenantId) -> Spent {
        let mut spent = Spent::default();
        for account in self.accounts_of(tenant) {
            let add = |(time, count): &mut (Nanos, u64), (more, times): (Nanos, u64)| {
                *time += more;
                *count += times;
            };
            add(&mut spent.running, (account.counted(), account.polls()));
            for (sum, wait) in spent.waits.iter_mut().zip(Wait::ALL) {
                add(sum, account.waited(wait));
            }
        }
        spent
    }

    /// Charges the server's own tenant for processor time that a thread took which is no worker.
    pub(crate) fn charge_system(&self, used: Nanos) {
        if used > Nanos(0) {
            self.workers[0].handle.charge(TenantId::SYSTEM, used);
        }
    }

    /// The processor time charged to all tenants together, on all workers, what was taken back later included.
    pub(crate) fn charged_to_all(&self) -> Nanos {
        self.workers.iter().fold(Nanos(0), |sum, seat| sum + seat.handle.charged())
    }

    /// The processor time of one tenant, on all workers.
    pub(crate) fn used_by(&self, tenant: TenantId) -> Nanos {
        self.accounts_of(tenant).fold(Nanos(0), |sum, account| sum + account.used())
    }
}

/// `work`, on a thread that does nothing else: the server's own tenant is charged for what it takes.
pub(crate) async fn charged<T>(shared: Weak<Shared>, env: Env, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    let mut until = env.clock.thread_cpu();
    poll_fn(|context| {
        let outcome = work.as_mut().poll(context);
        if let Some(shared) = shared.upgrade() {
            let used = env.clock.thread_cpu();
            shared.charge_system(used - std::mem::replace(&mut until, used));
        }
        outcome
    })
    .await
}
