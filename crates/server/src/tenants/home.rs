//! Where a tenant lives: its state on its home worker, from a closed stub to an open database and back.
//!
//! Phases: closed → opening → open → closing → closed; opening replays the redo log, closing checkpoints. The state is
//! touched by the home worker alone, in turns; whoever needs the tenant open waits for the phase to change. Data that
//! cannot be read fail the open with file and offset, and the next attempt reads again.
//!
//! A panic while a transaction ends leaves live pages nobody can vouch for, or locks that nobody gives back: the tenant is then dropped
//! from memory, its sessions end with 57P02, and it reopens from its root and the durable log.

mod checkpointing;
mod leaving;
mod reclaiming;
mod room;
mod turns;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Poll, Waker};

use base::{ByteCount, Lsn, Nanos, SlotNo, SqlError, SqlResult, SqlState, TenantId, VolumeNo, WorkerId};
use env::Env;
use futures::future::{BoxFuture, FutureExt, Shared as SharedFuture};
use governor::{MemoryShare, Promise, TenantWorkMemory};
use rustc_hash::FxHashMap;
use sql::session::{QueryLimits, TempSpace};
use storage::redo::RedoIndex;
use storage::{Hurry, PageCounters, PageTally};
use tenant::{OpenError, PageRequest, Tenant};

use crate::analytic_pool::AnalyticPool;
use crate::config::DATA_VOLUME;
use crate::data_dir::{DEFAULT_VOLUME, TEMP_DIR, tenant_file};
use crate::executor::{Background, HomeCell, Residence, TaskHandle, Terms, Wait, WorkerHandle};
use crate::shared::Shared;
use crate::space_reserve::SpaceReserve;
use crate::tenants::checkpoints::Pace;
use crate::tenants::home_log::HomeLog;
use crate::tenants::maintenance::{aside, read_logs_for};
use crate::tenants::moving::MoveState;
use crate::tenants::statement_times::StatementTimes;
use crate::tenants::{StatementLimits, StatementTable};
pub(super) use room::Visit;

const CLOSED: u8 = 0;
const OPENING: u8 = 1;
const OPEN: u8 = 2;
const CLOSING: u8 = 3;
const DROPPED: u8 = 4;

/// One tenant on its home worker. A closed one costs a few hundred bytes.
pub(crate) struct Home {
    id: TenantId,
    /// On which what is read and written is charged to it.
    env: Env,
    path: PathBuf,
    residence: Arc<Residence>,
    data_volume: VolumeNo,
    log_volume: VolumeNo,
    shared: Weak<Shared>,
    cell: HomeCell<State>,
    /// The phase, for readers on other threads.
    phase: AtomicU8,
    /// When a session last ended or the tenant was opened.
    last_used: AtomicU64,
    commits: AtomicU64,
    statement_times: StatementTimes,
    statements: Arc<StatementTable>,
    figures: Mutex<PageFigures>,
    /// Copies of the tenant under way.
    copies: AtomicUsize,
    /// What its data may take on disk; [`NO_LIMIT`] for no limit.
    storage_max: AtomicU64,
    /// What they took when last looked at; [`NO_LIMIT`] before that.
    storage_used: AtomicU64,
    temp: Arc<TempSpace>,
    /// Of the volumes of its data file and of its log.
    reserves: [Arc<SpaceReserve>; 2],
    work_memory: Arc<TenantWorkMemory>,
    memory_share: Arc<MemoryShare>,
    statement_limits: Arc<StatementLimits>,
    /// As the worker was last told.
    terms: Mutex<Terms>,
    pub(super) moving: MoveState,
}

const NO_LIMIT: u64 = u64::MAX;

/// Reads of pages that nobody waits for any more, since their statements were cancelled, that a tenant may have under way.
/// Where its own limit holds them each is in memory, which is counted by nobody, and before what its next statements read.
const LEFT_LOADS_MAX: usize = 256;
/// How long whoever would read one more page looks away.
const LEFT_LOADS_WAIT: Nanos = Nanos::from_millis(10);

/// Whether as many reads as there may be were left, and `key` is not one that is under way.
fn has_left_many(loads: &FxHashMap<SlotNo, Load>, key: SlotNo) -> bool {
    let is_left = |load: &&Load| load.strong_count() == Some(1);
    loads.len() > LEFT_LOADS_MAX
        && !loads.contains_key(&key)
        && loads.values().filter(is_left).count() > LEFT_LOADS_MAX
}

fn limit_of(stored: &AtomicU64) -> Option<ByteCount> {
    let value = stored.load(Ordering::Relaxed);
    (value != NO_LIMIT).then_some(ByteCount(value))
}

/// A copy of a tenant under way: the tenant is neither closed nor dropped until this is dropped. Closed and opened again,
/// it would give slots to others that only the copy's snapshot still needs.
pub(crate) struct Copying(Arc<Home>);

impl Drop for Copying {
    fn drop(&mut self) {
        self.0.copies.fetch_sub(1, Ordering::AcqRel);
        self.0.session_ended();
    }
}

struct State {
    tenant: Option<Box<Tenant>>,
    log: HomeLog,
    /// Counts openings, so that a session of an earlier one is not taken for one of this.
    incarnation: u64,
    /// Woken at every change of phase, and at the end of a checkpoint.
    waiters: Vec<Waker>,
    /// Reads of pages under way: whoever misses the same page waits for the same read.
    loads: FxHashMap<SlotNo, Load>,
    /// Why the last opening failed.
    failure: Option<SqlError>,
    logged: ByteCount,
    checkpointed_at: Nanos,
    /// A checkpoint is under way, or what branches replaced is being let go of.
    checkpointing: bool,
    /// It is the latter, which ends soon.
    settling: bool,
    /// A checkpoint is about to begin, and how soon it is wanted: what that needs is being read.
    beginning: Option<Pace>,
    /// Of the checkpoint under way.
    hurry: Option<Hurry>,
    /// The redo to replay at the next opening.
    redo: Redo,
    /// Why its data file takes no checkpoint: commits are refused with it until one succeeds.
    refusal: Option<SqlError>,
    /// Because its data file was in doubt.
    reopenings: checkpointing::Reopenings,
}

/// A read of one page that several may wait for.
type Load = SharedFuture<BoxFuture<'static, SqlResult<()>>>;

/// The tenant's pages as the rest of the server sees them.
#[derive(Default)]
struct PageFigures {
    /// Of the openings before the present one.
    before: PageTally,
    counters: Option<PageCounters>,
}

/// Where the redo behind a tenant's root is found.
enum Redo {
    /// In the logs of earlier starts.
    OfEarlierStarts,
    /// In this start's log too, as it is at the next opening: what is in memory was lost.
    Newest,
    /// In these logs: this start's failed.
    Sealed(RedoIndex),
}

fn crashed() -> SqlError {
    SqlError::fatal(
        SqlState::CRASH_SHUTDOWN,
        "terminating connection because the tenant was closed after an internal error",
    )
}

fn unreadable(error: &OpenError) -> SqlError {
    SqlError::fatal(error.state(), format!("the tenant cannot be opened: {error}"))
}

impl Home {
    /// The home of a tenant whose data file is on `volume`, at first on `worker`; touches no file.
    ///
    /// # Errors
    /// 42704 for an unknown volume.
    pub(crate) fn of(
        shared: &Arc<Shared>,
        id: TenantId,
        volume: &str,
        worker: WorkerId,
    ) -> SqlResult<Arc<Home>> {
        let config = &shared.config;
        let dir = if volume == DEFAULT_VOLUME {
            &config.data_dir
        } else {
            let found = config.volumes.iter().find(|(name, _)| name == volume);
            let unknown =
                || SqlError::new(SqlState::UNDEFINED_OBJECT, format!("volume \"{volume}\" does not exist"));
            &found.ok_or_else(unknown)?.1
        };
        let seat = shared.seat(worker);
        let residence = Residence::new(id, &seat.handle);
        let temp = config.data_dir.join(TEMP_DIR).join(id.to_string());
        let volume_no = config.volume_no(volume).expect("its directory was found");
        let spill = shared.io_accounts.of(id, DATA_VOLUME);
        let temp = Arc::new(TempSpace::new(shared.env.charging(&spill), temp));
        let reserves = [shared.reserve_of(volume).clone(), shared.log_reserve().clone()];
        let state = State {
            tenant: None,
            log: HomeLog::new(seat.log.clone()),
            incarnation: 0,
            waiters: Vec::new(),
            loads: FxHashMap::default(),
            failure: None,
            logged: ByteCount(0),
            checkpointed_at: Nanos(0),
            checkpointing: false,
            settling: false,
            beginning: None,
            hurry: None,
            redo: Redo::OfEarlierStarts,
            refusal: None,
            reopenings: checkpointing::Reopenings::default(),
        };
        Ok(Arc::new(Home {
            id,
            env: shared.env.charging(&shared.io_accounts.of(id, volume_no)),
            path: tenant_file(dir, id),
            cell: HomeCell::new(&residence, state),
            residence,
            data_volume: volume_no,
            log_volume: config.log_volume(),
            shared: Arc::downgrade(shared),
            phase: AtomicU8::new(CLOSED),
            last_used: AtomicU64::new(0),
            commits: AtomicU64::new(0),
            statement_times: StatementTimes::default(),
            statements: StatementTable::new(&shared.statement_room),
            copies: AtomicUsize::new(0),
            figures: Mutex::default(),
            storage_max: AtomicU64::new(NO_LIMIT),
            storage_used: AtomicU64::new(NO_LIMIT),
            temp,
            reserves,
            work_memory: shared.work_memory.tenant(id),
            memory_share: Arc::default(),
            statement_limits: Arc::default(),
            terms: Mutex::default(),
            moving: MoveState::default(),
        }))
    }

    pub(super) fn shared(&self) -> SqlResult<Arc<Shared>> {
        let gone = || SqlError::fatal(SqlState::CANNOT_CONNECT_NOW, "the database system is shutting down");
        self.shared.upgrade().ok_or_else(gone)
    }

    pub(crate) fn shared_if_running(&self) -> Option<Arc<Shared>> {
        self.shared().ok()
    }

    /// The volumes that a promise of I/O is for: that of the data file, and the logs'.
    pub(super) fn volumes(&self) -> [VolumeNo; 2] {
        [self.data_volume, self.log_volume]
    }

    pub(crate) fn id(&self) -> TenantId {
        self.id
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The machine, on which what is read and written is charged to the tenant.
    pub(super) fn env(&self) -> &Env {
        &self.env
    }

    /// The worker that is its home at the moment.
    pub(crate) fn worker(&self) -> WorkerHandle {
        self.residence.worker()
    }

    pub(super) fn residence(&self) -> &Arc<Residence> {
        &self.residence
    }

    /// Starts a task of the tenant at its home, with which it moves. From any thread.
    pub(crate) fn spawn<F>(&self, task: F) -> TaskHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.residence.spawn(task)
    }

    /// As [`Home::spawn`] for a task that is background work while `background` says so.
    pub(crate) fn spawn_with<F>(&self, background: Background, task: F) -> TaskHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.residence.spawn_with(background, task)
    }

    /// Whether the caller runs on the home worker.
    pub(crate) fn is_here(&self) -> bool {
        self.residence.is_here()
    }

    /// Counts a wait of one of the tenant's tasks that has ended. At home only.
    pub(crate) fn add_wait(&self, wait: Wait, time: Nanos) {
        self.residence.add_wait(wait, time);
    }

    /// Puts a promise in force: what the governor keeps from the worker's next turn on, for what is queued too, the rest from the
    /// tenant's next statement on. Who was promised nothing costs nothing here until its first task.
    pub(super) fn set_promise(self: &Arc<Home>, promise: &Promise) {
        let mut terms = self.terms.lock().unwrap_or_else(PoisonError::into_inner);
        let next = Terms::of(promise);
        // Sent under the lock: of two changes the later one's terms arrive last.
        if std::mem::replace(&mut *terms, next) != next {
            match self.shared_if_running().filter(|_| self.id == TenantId::SYSTEM) {
                // Its tasks are on all of them.
                Some(shared) => {
                    shared.workers.iter().for_each(|seat| seat.handle.set_terms(self.id, next));
                }
                None => self.tell_terms(next),
            }
        }
        drop(terms);
        let stored = |max: Option<ByteCount>| max.map_or(NO_LIMIT, |max| max.0);
        self.storage_max.store(stored(promise.storage_max), Ordering::Relaxed);
        self.temp.set_max(promise.temp_max);
        let time_max_changed = self.statement_limits.set_time_max(promise.statement_timeout);
        if let Some(shared) = self.shared_if_running() {
            shared.work_memory.set_promise(self.id, &self.work_memory, promise);
            if time_max_changed {
                shared.sessions.look_again(Some(self.id));
            }
        }
        self.set_memory_promise(promise);
    }

    /// Whether it is promised processor time.
    pub(crate) fn has_cpu_promise(&self) -> bool {
        let terms = self.terms.lock().unwrap_or_else(PoisonError::into_inner);
        terms.promise.reserved.0 > 0
    }

    /// Whether its analytical queries may run beside others' homes.
    pub(crate) fn may_roam(&self) -> bool {
        self.id != TenantId::SYSTEM && self.terms.lock().unwrap_or_else(PoisonError::into_inner).may_roam()
    }

    /// The worker on whose core its next analytical query is to run. With a promise that a core can keep that is its home, where what is promised
    /// fits; else the one with the most to spare.
    pub(crate) fn worker_for_query(&self, pool: &AnalyticPool) -> WorkerHandle {
        let home = self.worker();
        let terms = self.terms.lock().unwrap_or_else(PoisonError::into_inner);
        if self.id == TenantId::SYSTEM || !terms.may_roam() {
            return home;
        }
        let worker = pool.idlest(&home);
        if worker.id() != home.id() && worker.account_if_known(self.id).is_none() {
            // Under the lock on the terms: whoever changes them finds the account.
            worker.account(self.id);
            worker.set_terms_of_guest(self.id, *terms);
        }
        worker
    }

    /// What its statements are held to.
    pub(crate) fn statement_limits(&self) -> &Arc<StatementLimits> {
        &self.statement_limits
    }

    /// Its part of the memory for pages.
    pub(super) fn memory_share(&self) -> &Arc<MemoryShare> {
        &self.memory_share
    }

    /// What an analytical query of the tenant may use; the thread that runs it adds the meter.
    pub(crate) fn query_limits(&self) -> QueryLimits {
        let (temp, work_memory) = (Some(self.temp.clone()), Some(self.work_memory.clone()));
        QueryLimits { temp, work_memory, work_meter: None }
    }

    /// Bytes in its temporary files.
    pub(crate) fn temp_used(&self) -> ByteCount {
        self.temp.used()
    }

    /// What its queries' sorts and hashes hold.
    pub(crate) fn work_memory_used(&self) -> ByteCount {
        self.work_memory.held()
    }

    pub(super) fn storage_max(&self) -> Option<ByteCount> {
        limit_of(&self.storage_max)
    }

    /// What its data took on disk when last looked at, a second ago at most while it is open; `None` if it was not open yet.
    pub(crate) fn storage_used(&self) -> Option<ByteCount> {
        limit_of(&self.storage_used)
    }

    /// Looks at what its data take, and has the oldest snapshots fail that take it over its limit. At home only.
    pub(super) fn look_at_space(&self) {
        self.cell.with(|state| {
            let Some(tenant) = &mut state.tenant else { return };
            tenant.set_storage_max(self.storage_max());
            let before = tenant.snapshots_revoked();
            tenant.enforce_storage_max();
            let revoked = tenant.snapshots_revoked() - before;
            if revoked > 0 {
                tracing::warn!(
                    tenant = self.id.0,
                    revoked,
                    "storage_max is reached: the oldest snapshots fail"
                );
            }
            self.storage_used.store(tenant.space_used().total().0, Ordering::Relaxed);
        });
    }

    /// Commits with changes since the server started.
    pub(crate) fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    /// How long its statements took.
    pub(crate) fn statement_times(&self) -> &StatementTimes {
        &self.statement_times
    }

    /// What its statements took, by their texts.
    pub(crate) fn statements(&self) -> &Arc<StatementTable> {
        &self.statements
    }

    /// Notes that a copy begins. The caller holds the tenant's name, which keeps DROP away meanwhile.
    pub(super) fn begin_copying(self: &Arc<Home>) -> Copying {
        self.copies.fetch_add(1, Ordering::AcqRel);
        Copying(self.clone())
    }

    pub(super) fn is_being_copied(&self) -> bool {
        self.copies.load(Ordering::Acquire) > 0
    }

    /// The phase as SHOW TENANTS says it.
    pub(crate) fn phase_name(&self) -> &'static str {
        match self.phase.load(Ordering::Relaxed) {
            CLOSED => "closed",
            OPENING => "opening",
            OPEN => "open",
            CLOSING => "closing",
            _ => "dropped",
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.phase.load(Ordering::Relaxed) == OPEN
    }

    fn lock_figures(&self) -> MutexGuard<'_, PageFigures> {
        self.figures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes of its pages in memory, and what became of its pages since the server started. From any thread.
    pub(crate) fn page_figures(&self) -> (ByteCount, PageTally) {
        let figures = self.lock_figures();
        match &figures.counters {
            Some(counters) => (counters.resident_bytes(), figures.before + counters.tally()),
            None => (ByteCount(0), figures.before),
        }
    }

    /// Whether it has more pages in memory than its `memory_max`.
    pub(crate) fn is_over_limit(&self) -> bool {
        self.memory_share.max().is_some()
            && self.lock_figures().counters.as_ref().is_some_and(PageCounters::is_over_limit)
    }

    /// Opened for somebody who may turn out to be nobody: unless a session begins it is closed when `wait` is over.
    pub(crate) fn close_after_all(&self, wait: Nanos) {
        if let Ok(shared) = self.shared() {
            let used = (shared.env.now() + wait).0.saturating_sub(shared.config.tenant_close_after.0);
            self.last_used.fetch_min(used, Ordering::Relaxed);
        }
    }

    /// Marks the present as a time of use.
    pub(crate) fn session_ended(&self) {
        if let Ok(shared) = self.shared() {
            self.last_used.store(shared.env.now().0, Ordering::Relaxed);
        }
    }

    /// Which opening of the tenant this is.
    pub(crate) fn incarnation(&self) -> u64 {
        self.cell.with(|state| state.incarnation)
    }

    fn set_phase(&self, state: &mut State, phase: u8) {
        self.phase.store(phase, Ordering::Relaxed);
        state.waiters.drain(..).for_each(Waker::wake);
    }

    /// Waits until the phase is another than `phase`. At home only.
    async fn phase_changed(&self, phase: u8) {
        std::future::poll_fn(|cx| {
            self.cell.with(|state| {
                if self.phase.load(Ordering::Relaxed) != phase {
                    return Poll::Ready(());
                }
                state.waiters.push(cx.waker().clone());
                Poll::Pending
            })
        })
        .await;
    }

    /// Waits until all of the log through `lsn` is durable.
    ///
    /// # Errors
    /// Fatal, 58030 or 53100: the log failed, and what was to be told must not be.
    pub(crate) async fn wait_durable(&self, lsn: Lsn) -> SqlResult<()> {
        let log = self.cell.with(|state| state.log.clone());
        log.wait_durable(lsn).await.map_err(|error| {
            let message = format!("changes could not be made durable: {error}");
            SqlError::fatal(tenant::state_of_log_failure(&error), message)
        })?;
        self.cell.with(|state| {
            // Moved meanwhile, it knows already that all of the log before is durable.
            if let Some(tenant) = state.tenant.as_mut().filter(|_| state.log.is_same(&log)) {
                tenant.durable(log.durable());
            }
        });
        Ok(())
    }

    /// Runs `body` with the tenant, if it is open, for what is no session's: sweeps, checkpoints.
    pub(super) fn with_tenant<R>(&self, body: impl FnOnce(&mut Tenant) -> R) -> Option<R> {
        self.cell.with(|state| state.tenant.as_deref_mut().map(body))
    }

    /// Reads a page into the tenant, or waits for whoever reads it already.
    ///
    /// # Errors
    /// XX001 for a damaged page, with file and offset; 58030 for a disk that cannot be read.
    pub(crate) async fn load_page(self: &Arc<Home>, request: PageRequest) -> SqlResult<()> {
        let Some(key) = request.key() else { return self.do_load_page(request).await };
        while self.cell.with(|state| has_left_many(&state.loads, key)) {
            env::sleep(LEFT_LOADS_WAIT).await;
        }
        let home = self.clone();
        let load = self.cell.with(|state| {
            let load = state.loads.entry(key).or_insert_with(|| {
                // A task of its own: whoever asked may go away while others wait.
                let task = self.spawn(async move {
                    let outcome = home.do_load_page(request).await;
                    home.cell.with(|state| state.loads.remove(&key));
                    outcome
                });
                let unfinished = || Err(SqlError::internal("reading a page did not finish"));
                task.map(move |outcome| outcome.unwrap_or_else(unfinished)).boxed().shared()
            });
            load.clone()
        });
        load.await
    }

    /// As [`Home::load_page`] for several pages, all at a time.
    ///
    /// # Errors
    /// The first that [`Home::load_page`] has; what else was asked for is read nevertheless.
    pub(crate) async fn load_pages(self: &Arc<Home>, requests: Vec<PageRequest>) -> SqlResult<()> {
        futures::future::try_join_all(requests.into_iter().map(|request| self.load_page(request)))
            .await
            .map(drop)
    }

    /// As [`Home::load_page`], shared with nobody.
    pub(super) async fn do_load_page(&self, request: PageRequest) -> SqlResult<()> {
        let loaded = request.read().await.map_err(|error| {
            tracing::error!(tenant = self.id.0, %error, "a page cannot be read");
            SqlError::new(tenant::state_of_file_error(&error), error.to_string())
        })?;
        self.with_tenant(|tenant| tenant.page_loaded(loaded));
        Ok(())
    }

    // ---- life ----

    /// # Errors
    /// 53100: one of the tenant's volumes is full. What was set aside there is for those who make room.
    pub(super) fn check_space(&self) -> SqlResult<()> {
        match self.reserves.iter().find(|reserve| reserve.is_spent()) {
            Some(spent) => Err(spent.refusal()),
            None => Ok(()),
        }
    }

    /// Makes the tenant's data file; the tenant stays closed. Callable from any thread; after `Ok` it survives power
    /// loss.
    ///
    /// # Errors
    /// 53100, 58030 and the like: no file is left.
    pub(crate) async fn create(self: &Arc<Home>, owner: String, verifier: Option<String>) -> SqlResult<()> {
        self.check_space()?;
        let home = self.clone();
        let task = self.spawn(async move {
            let (env, path) = (home.env.clone(), home.path.clone());
            let made = Tenant::create(&env, &path, home.id, &owner, verifier.as_deref()).await;
            made.map(drop).map_err(|error| {
                let _ = env.disk.remove(&path);
                let state = if error.is_full_disk() { SqlState::DISK_FULL } else { SqlState::IO_ERROR };
                SqlError::new(state, format!("cannot create the tenant: {error}"))
            })
        });
        task.await.unwrap_or_else(|| Err(SqlError::internal("creating the tenant did not finish")))
    }

    fn opened(&self, state: &mut State, mut tenant: Tenant) {
        let now = env::now();
        self.keep_memory_promise(&mut tenant);
        let mut figures = self.lock_figures();
        if let Some(counters) = figures.counters.replace(tenant.page_counters()) {
            figures.before = figures.before + counters.tally();
        }
        drop(figures);
        state.tenant = Some(Box::new(tenant));
        state.incarnation += 1;
        state.failure = None;
        state.redo = Redo::OfEarlierStarts;
        state.refusal = state.refusal.take().filter(|_| state.reopenings.are_many());
        state.checkpointed_at = now;
        self.last_used.store(now.0, Ordering::Relaxed);
        self.set_phase(state, OPEN);
    }

    /// Opens the tenant if it is closed, and waits until it is open. At home only.
    ///
    /// # Errors
    /// Fatal: 3D000 for a dropped tenant, XX001 for damaged data, 53100 and 58030 for a disk that has no space or fails.
    pub(crate) async fn open(self: &Arc<Home>) -> SqlResult<()> {
        loop {
            match self.phase.load(Ordering::Relaxed) {
                OPEN => return Ok(()),
                DROPPED => {
                    return Err(SqlError::fatal(SqlState::INVALID_CATALOG_NAME, "the tenant was dropped"));
                }
                // A checkpoint of the opening before still writes to the file.
                CLOSED if self.cell.with(|state| state.checkpointing) => {
                    env::sleep(Nanos::from_millis(1)).await;
                }
                CLOSED => {
                    self.cell.with(|state| {
                        state.failure = None;
                        self.set_phase(state, OPENING);
                    });
                    let home = self.clone();
                    // A task of its own: whoever asked may go away meanwhile.
                    self.residence.spawn_upkeep(async move { home.do_open().await }).detach();
                }
                phase => {
                    self.phase_changed(phase).await;
                    if let Some(error) = self.cell.with(|state| state.failure.clone()) {
                        return Err(error);
                    }
                }
            }
        }
    }

    async fn do_open(self: Arc<Home>) {
        // A panic on the way must not leave everybody waiting.
        struct Reset<'a>(&'a Home);
        impl Drop for Reset<'_> {
            fn drop(&mut self) {
                if self.0.cell.is_home() && self.0.phase.load(Ordering::Relaxed) == OPENING {
                    self.0.cell.with(|state| {
                        let gave_up =
                            || SqlError::fatal(SqlState::INTERNAL_ERROR, "opening the tenant failed");
                        state.failure.get_or_insert_with(gave_up);
                        self.0.set_phase(state, CLOSED);
                    });
                }
            }
        }
        let reset = Reset(&self);
        let mut read = self.read().await;
        // A long replay writes to the data file.
        if read.as_ref().is_err_and(|error| error.state() == SqlState::DISK_FULL) && self.release_reserve() {
            read = self.read().await;
        }
        match read {
            Ok(tenant) => {
                self.cell.with(|state| self.opened(state, tenant));
                // Open before it is noted: whoever reads the list drops what is not open.
                if let Ok(shared) = self.shared() {
                    shared.seat(self.worker().id()).note_open(&self);
                }
            }
            Err(error) => {
                tracing::error!(tenant = self.id.0, %error, "a tenant cannot be opened");
                self.cell.with(|state| state.failure = Some(error));
            }
        }
        drop(reset);
    }

    /// Reads root and redo log.
    async fn read(&self) -> SqlResult<Tenant> {
        let shared = self.shared()?;
        let earlier = self.cell.with(|state| matches!(state.redo, Redo::OfEarlierStarts));
        let begun = if earlier { shared.head_starts.take(self.id, &self.path).await } else { None };
        let took = shared.head_starts.take_time(self.id);
        if took > Nanos(0) {
            self.worker().meter_past(self.id, took);
        }
        let mut tenant = match begun {
            Some(begun) => {
                self.cell.with(|state| state.logged += ByteCount(1));
                *begun
            }
            None => {
                let opened = Tenant::open(&self.env, &self.path, self.id).await;
                let mut tenant = opened.map_err(|error| unreadable(&error))?;
                tenant.charge_to(&shared.memory);
                tenant
            }
        };
        tenant.limit_memory(self.memory_share());
        if let Some(damage) = tenant.mended() {
            tracing::error!(tenant = self.id.0, %damage, "the free set of a data file was damaged and is made anew");
        }
        let redo = self.cell.with(|state| match &state.redo {
            Redo::OfEarlierStarts => Some(shared.redo.clone()),
            Redo::Sealed(redo) => Some(redo.clone()),
            Redo::Newest => None,
        });
        let redo = match redo {
            Some(redo) => redo,
            None => {
                let appended = self.cell.with(|state| state.log.appended());
                self.wait_durable(appended).await?;
                let read = read_logs_for(&shared, self.id).await;
                read.map_err(|error| unreadable(&error.into()))?
            }
        };
        self.replay(&redo, &mut tenant).await?;
        Ok(tenant)
    }

    async fn replay(&self, redo: &RedoIndex, tenant: &mut Tenant) -> SqlResult<()> {
        let root = tenant.committed();
        let replayed = tenant.replay(redo).await.map_err(|error| unreadable(&error))?;
        if replayed.commits == 0 {
            return Ok(());
        }
        let (commits, changes) = (replayed.commits, replayed.changes);
        tracing::info!(tenant = self.id.0, root = root.0, commits, changes, "redo log replayed");
        self.cell.with(|state| state.logged += ByteCount(1));
        Ok(())
    }

    /// Whether it is open and nobody has used it since `idle_since`.
    pub(super) fn is_unused(&self, shared: &Shared, idle_since: Nanos) -> bool {
        shared.sessions.count_of(self.id) == 0
            && !self.is_being_copied()
            && self.last_used.load(Ordering::Relaxed) <= idle_since.0
            && self.is_open()
    }

    /// Closes the tenant if nobody uses it and it was idle since `idle_since`; true if it is closed then. At home only.
    pub(crate) async fn close_if_unused(self: &Arc<Home>, idle_since: Nanos) -> bool {
        let Ok(shared) = self.shared() else { return false };
        let unused = || self.is_unused(&shared, idle_since);
        if !unused() || self.checkpoint(Pace::Spread).await.is_err() {
            return false;
        }
        // Between the checkpoint's end and here no turn passed to others but by the awaits above, so look again.
        self.cell.with(|state| {
            let clean = state.logged == ByteCount(0) && !state.checkpointing;
            if !unused() || !clean {
                return false;
            }
            let busy = |tenant: &Tenant| tenant.open_transactions() > 0 || !tenant.is_root_newest();
            if state.tenant.as_deref().is_some_and(busy) {
                return false;
            }
            self.forget(state);
            self.set_phase(state, CLOSED);
            true
        })
    }

    /// Bytes logged since the last checkpoint and when that was, if the tenant is open and none is under way or about to begin. At home
    /// only.
    pub(crate) fn since_checkpoint(&self) -> Option<(ByteCount, Nanos)> {
        self.cell.with(|state| {
            let is_free = state.beginning.is_none() && (!state.checkpointing || state.settling);
            (state.tenant.is_some() && is_free).then_some((state.logged, state.checkpointed_at))
        })
    }

    /// Drops the tenant's memory and its file. Callable from any thread.
    ///
    /// # Errors
    /// 58030 if the file cannot be removed; the tenant is gone all the same.
    pub(crate) async fn remove(self: &Arc<Home>) -> SqlResult<()> {
        let home = self.clone();
        let task = self.spawn(async move {
            home.hurry_checkpoint();
            while home.cell.with(|state| state.checkpointing) || home.phase.load(Ordering::Relaxed) == OPENING
            {
                env::sleep(Nanos::from_millis(1)).await;
            }
            let tenant = home.cell.with(|state| {
                home.set_phase(state, DROPPED);
                state.tenant.take()
            });
            if let Some(tenant) = tenant {
                tenant.free().await;
            }
            let shared = home.shared()?;
            let (disk, path) = (shared.env.disk.clone(), home.path.clone());
            // Giving back the blocks of a large file takes the kernel a while, and the worker has others to serve.
            let remove = move || match disk.remove(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
                _ => path.parent().map_or(Ok(()), |dir| disk.sync_dir(dir)),
            };
            let removed = aside(&shared.env, &shared.workers[0].handle, "remove-file", remove).await;
            // No await follows, which would have the tenant known again.
            home.residence.vacate();
            removed.and_then(|removed| removed).map_err(|error| {
                let what = format!("cannot remove {}: {error}", home.path.display());
                SqlError::new(SqlState::IO_ERROR, what)
            })
        });
        task.await.unwrap_or_else(|| Err(SqlError::internal("dropping the tenant did not finish")))
    }

    /// Closes the tenant if its data file failed in a way that leaves in doubt what of it is durable, so that it is opened at the
    /// root that is, with the redo after it. Does nothing while the file still fails, nor too soon after the last time.
    ///
    /// Sessions end with 57P02 at their next statement.
    pub(super) fn close_if_in_doubt(&self) {
        self.cell.with(|state| {
            let Some(tenant) = state.tenant.as_mut().filter(|_| !state.checkpointing) else { return };
            if !tenant.is_file_in_doubt() || !state.reopenings.may_be(env::now()) {
                return;
            }
            match tenant.make_root_durable() {
                Ok(()) => {
                    state.reopenings.add(env::now());
                    tracing::warn!(tenant = self.id.0, "the tenant is reopened from its root and its redo");
                    self.lose(state, Redo::Newest);
                }
                Err(error) => tracing::debug!(tenant = self.id.0, %error, "the data file still fails"),
            }
        });
    }

    /// Leaves what is in memory to a task that drops it.
    fn forget(&self, state: &mut State) {
        if let Some(tenant) = state.tenant.take() {
            self.spawn(tenant.free()).detach();
        }
    }

    /// Forgets what is in memory: the next opening reads root and durable redo.
    fn lose(&self, state: &mut State, redo: Redo) {
        self.forget(state);
        state.redo = redo;
        // A checkpoint under way must not publish what this opening knew; the next opening waits for its end.
        state.incarnation += 1;
        self.set_phase(state, CLOSED);
    }

    /// Forgets what is in memory after the worker's log failed, if the tenant is open; `redo` has what is durable.
    ///
    /// Sessions end with 57P02 at their next statement.
    pub(super) fn forget_lost(&self, redo: RedoIndex) {
        self.cell.with(|state| {
            if self.is_open() {
                self.lose(state, Redo::Sealed(redo));
            }
        });
    }

    /// The log of its home. At home only.
    pub(super) fn log(&self) -> HomeLog {
        self.cell.with(|state| state.log.clone())
    }
}
