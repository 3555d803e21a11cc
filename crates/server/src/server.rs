//! Brings a server up and down.
//!
//! Up: data directory and its lock, logs, workers, the system tenant, the catalogue of tenants, then the doors. Down:
//! doors, sessions, a checkpoint of every open tenant, workers. Both are driven by the thread that calls.

mod first_start;

use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, OnceLock, Weak, mpsc};

use base::{Nanos, TenantId, WorkerId};
use env::{DirLock, Env, JoinHandle, Listener, ShutdownSignal};
use governor::{MemoryMeters, VictimChoice};
use sql::session::SharedPlans;
use storage::MemoryBudget;
use storage::redo::{Flushed, LogDir, LogFailed, LogFlusher, LogOptions, LogWriter, RedoIndex};

use crate::admin;
use crate::administration::AdministeredCounter;
use crate::analytic_pool::AnalyticPool;
use crate::calibration::VolumeCalibration;
use crate::complaint::Complaint;
use crate::config::DATA_VOLUME;
use crate::data_dir::{DEFAULT_VOLUME, DataDir, empty_temp, lock_outside, take_logs, take_volumes};
use crate::executor::{Governing, Worker, WorkerHandle};
use crate::gate::ServerGate;
use crate::io_accounts::IoAccounts;
use crate::ledger::{History, Ledger, LedgerThread};
use crate::overseer::Overseer;
use crate::pauses::Pauses;
use crate::placement::Placement;
use crate::policy::ServerPolicy;
use crate::reception::{Reception, ReceptionCounts};
use crate::session::{Sessions, wall_clock};
use crate::shared::{Shared, WorkerSeat};
use crate::space_reserve::SpaceReserve;
use crate::tenants::{
    self, Claims, Entry, HeadStartRun, HeadStartThread, HeadStarts, Home, SYSTEM_TENANT, Sizes, TenantRow,
    Tenants,
};
use crate::volumes::Volumes;
use crate::work_memory::ServerWorkMemory;
use crate::{ServerConfig, StartError, tls};

/// How long a failed log waits before it tries the disk again.
const LOG_RETRY: Nanos = Nanos::from_secs(1);
/// How long sessions get to end at shutdown before they are cut off.
const SESSIONS_END_MAX: Nanos = Nanos::from_secs(10);

/// A running server. Ends with [`Server::wait`] or [`Server::stop`]; dropped without, its threads go on.
pub struct Server {
    shared: Arc<Shared>,
    stop: ShutdownSignal,
    reception: Option<JoinHandle>,
    admin: Option<admin::AdminServer>,
    workers: Vec<JoinHandle>,
    /// Where clients connect, once they may.
    listening: SocketAddr,
    priority: bool,
    head_start: Option<HeadStartThread>,
    ledger: Option<LedgerThread>,
    overseer: Option<Overseer>,
    certificate: Option<tls::CertificateThread>,
    /// Released last.
    _data_dir: DataDir,
    _outside: Vec<DirLock>,
}

impl Server {
    /// Starts a server; blocks until it accepts connections. Needs no privilege, but without that of raising its
    /// priority it is late beside analytical work ([`Server::has_priority`]).
    ///
    /// # Errors
    /// See [`StartError`]; nothing is left running.
    pub fn start(env: &Env, config: ServerConfig) -> Result<Server, StartError> {
        if let Err(error) = env.threads.raise_file_limit() {
            tracing::warn!(%error, "the limit of open files could not be raised");
        }
        let data_dir = DataDir::open(env, &config.data_dir)?;
        let logs = config.log_dir();
        if !data_dir.is_fresh() && !env.disk.exists(&logs) {
            // What only they have would be missing without a word, and the numbers of those commits be given again.
            return Err(StartError::Data(format!(
                "the directory of the redo logs, {}, is not there: give it with --log-dir",
                logs.display()
            )));
        }
        let outside = lock_outside(env, &config, data_dir.is_fresh())?;
        take_volumes(env, &config)?;
        take_logs(env, &config.data_dir, &logs, data_dir.is_fresh())?;
        empty_temp(env, &config.data_dir)?;
        let tls = tls::acceptor(env, &config.tls, &config.data_dir, data_dir.is_fresh())?;
        // To find out, and no longer: who comes before the logs are read is refused, as any client knows what to do with, rather than left to wait.
        let doors = listen(env, &config)?;
        let console = config
            .admin_listen
            .map(|address| env.net.listen(address).map_err(|error| StartError::Listen { address, error }));
        drop((doors, console.transpose()?));
        let listening = config.listen;
        let options = LogOptions { segment_len: config.log_segment_len, ..LogOptions::default() };
        let workers = config.workers.unwrap_or_else(|| env.threads.cores().len()).max(1);
        let memory = MemoryBudget::new(config.memory, config.read_ahead, workers);
        let volumes = config.volumes.iter().map(|(_, dir)| dir);
        let (redo, head_starts) = (RedoIndex::default(), HeadStarts::default());
        let io_accounts = IoAccounts::default();
        let head_start = head_starts
            .begin(HeadStartRun {
                env: env.clone(),
                io_accounts: io_accounts.clone(),
                redo: redo.clone(),
                memory: memory.clone(),
                volumes: std::iter::once(&config.data_dir).chain(volumes).cloned().collect(),
                len_min: config.head_start_min,
            })
            .map_err(|error| StartError::System { what: "start a thread", error })?;
        let log_env = env.charging(&io_accounts.of(TenantId::SYSTEM, config.log_volume()));
        let log_dir = LogDir::open_into(&log_env, &config.log_dir(), options, &redo)
            .map_err(|error| StartError::Data(format!("the redo log cannot be used: {error}")))?;

        // What the workers' flushers need once it is there.
        let later = Arc::new(OnceLock::new());
        let governing = Governing::new(workers, config.volume_names().count(), env.now());
        let governing = Governing { turn_max: config.turn_max, ..governing };
        let log_writes = Arc::new(Pauses::default());
        let started = start_workers(env, workers, &governing, || {
            let (log, flusher) = log_dir.writer();
            (log, Flushing { flusher, writes: log_writes.clone(), shared: later.clone() })
        })?;
        let seat = |s: &Started| (s.seat.handle.clone(), s.seat.core);
        let work_memory = Arc::new(ServerWorkMemory::new(config.work_memory));
        let workers_of_it = started.iter().map(seat).collect();
        let analytic = AnalyticPool::new(env, &governing.io, &work_memory, workers_of_it, config.analytic);
        let priority = started.iter().all(|s| s.priority);
        let (mut seats, mut workers) = (Vec::new(), Vec::new());
        for one in started {
            seats.push(one.seat);
            workers.push(one.thread);
        }
        let volumes = config.volumes.iter().map(|(_, dir)| dir);
        let dirs = std::iter::once(&config.data_dir).chain(volumes).chain(&config.log_dir);
        let reserves = SpaceReserve::of_volumes(&env.disk, dirs, config.space_reserve);
        let of_history = env.charging(&io_accounts.of(TenantId::SYSTEM, DATA_VOLUME));
        let history = History::new(of_history.disk, &config.data_dir).with_volumes(config.volume_names());
        let volumes =
            Volumes::new(&config, VolumeCalibration::look_at_all(env, &config), governing.io.clone());
        let shared = Arc::new(Shared {
            env: env.clone(),
            start: wall_clock(env),
            reserves,
            sessions: Sessions::new(env, &config),
            config,
            tenants: Tenants::default(),
            sizes: Sizes::default(),
            runaways: Arc::default(),
            claims: Claims::default(),
            administered: AdministeredCounter::default(),
            policy: ServerPolicy::default(),
            volumes,
            workers: seats,
            analytic,
            log_dir,
            memory,
            memory_meters: MemoryMeters::new(),
            work_memory,
            cpu_meters: governing.cpu.meters().clone(),
            victims: VictimChoice::default(),
            redo,
            log_reading: Arc::default(),
            head_starts,
            reception: Arc::new(ReceptionCounts::default()),
            checkpoints: AtomicU64::new(0),
            snapshot_pauses: Pauses::default(),
            move_pauses: Arc::default(),
            log_writes,
            placement: Arc::new(Placement::new(workers.len())),
            ledger: Ledger::default(),
            history,
            io_accounts,
            statement_room: Arc::default(),
            plans: SharedPlans::default(),
        });
        let _ = later.set(Arc::downgrade(&shared));
        let stop = ShutdownSignal::default();
        let mut server = Server {
            shared,
            stop,
            reception: None,
            admin: None,
            workers,
            listening,
            priority,
            head_start: Some(head_start),
            ledger: None,
            overseer: None,
            certificate: None,
            _data_dir: data_dir,
            _outside: outside,
        };
        match server.open_doors(tls, &governing) {
            Ok(()) => Ok(server),
            Err(error) => {
                server.stop();
                Err(error)
            }
        }
    }

    fn open_doors(&mut self, tls: Option<tls::Acceptor>, governing: &Governing) -> Result<(), StartError> {
        let shared = &self.shared;
        let env = &shared.env;
        for index in 0..shared.workers.len() {
            let task = tenants::evict(shared.clone(), index);
            shared.workers[index].handle.spawn(TenantId::SYSTEM, task).detach();
        }
        // Where the fewest tenants go at first, so that the administrator is not kept waiting by the first of them.
        let last = shared.workers.last().expect("a server has workers").handle.id();
        let system = Home::of(shared, TenantId::SYSTEM, DEFAULT_VOLUME, last);
        let system = system.expect("the default volume exists");
        first_start::run(env, &self._data_dir, &shared.config, &system)?;
        let row = TenantRow {
            name: SYSTEM_TENANT.to_owned(),
            volume: DEFAULT_VOLUME.to_owned(),
            size: None,
            options: governor::PromiseOptions::default(),
            promise: tenants::system_default(shared.workers.len()),
        };
        shared.tenants.insert(Entry::new(TenantId::SYSTEM, system, row));
        env::block_on(env, tenants::load_catalogue(shared))
            .map_err(|error| StartError::Data(format!("the tenants' catalogue cannot be read: {error}")))?;
        for index in 0..shared.workers.len() {
            let task = tenants::maintain(shared.clone(), index);
            shared.workers[index].handle.spawn(TenantId::SYSTEM, task).detach();
        }
        shared.workers[0].handle.spawn(TenantId::SYSTEM, tenants::keep_log(shared.clone())).detach();
        shared.workers[0].handle.spawn(TenantId::SYSTEM, tenants::recover_tails(shared.clone())).detach();
        self.ledger = Some(LedgerThread::start(shared, governing)?);
        self.overseer = Some(Overseer::start(shared)?);
        if let Some(tls) = &tls {
            self.certificate = Some(tls::CertificateThread::start(env, tls.certificate.clone())?);
        }
        let tls = tls.map(|tls| tls.config);
        let reception = Reception {
            env: env.clone(),
            gate: Arc::new(ServerGate::new(shared.clone())),
            tls: tls.clone(),
            authentication_timeout: shared.config.authentication_timeout,
            mock_secret: self._data_dir.login_secret(),
            counts: shared.reception.clone(),
        };
        let (listening, listeners) = listen(env, &shared.config)?;
        self.listening = listening;
        let (stop, system) = (self.stop.clone(), Arc::downgrade(shared));
        let body = Box::new(move || reception.run(system, &listeners, &stop));
        let thread = env.threads.spawn("reception", None, body);
        let refused = |error| StartError::System { what: "start a thread", error };
        self.reception = Some(thread.map_err(refused)?);
        if let Some(address) = shared.config.admin_listen {
            self.admin = Some(admin::AdminServer::start(shared, address, tls)?);
        }
        Ok(())
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.listening
    }

    /// Where health and metrics are.
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin.as_ref().map(admin::AdminServer::address)
    }

    /// Tenants, the administrator's database not counted.
    pub fn tenant_count(&self) -> usize {
        self.shared.tenants.count().saturating_sub(1)
    }

    /// Worker threads.
    pub fn worker_count(&self) -> usize {
        self.shared.workers.len()
    }

    /// What the pages of all tenants take and may take.
    pub fn memory(&self) -> &MemoryBudget {
        &self.shared.memory
    }

    /// The ledger's rows of the last hour, oldest first, as far as they are known: what `rowhouse.ledger` shows.
    pub fn ledger(&self) -> Vec<governor::LedgerRow> {
        self.shared.ledger.rows()
    }

    /// How often a tenant has moved from one worker to another.
    pub fn tenant_moves(&self) -> u64 {
        self.shared.move_pauses.count()
    }

    /// Whether the workers may raise themselves above analytical threads.
    pub fn has_priority(&self) -> bool {
        self.priority
    }

    /// What is known of the speed of each volume: the data directory's first, then those of the configuration, the logs' last.
    pub fn calibrations(&self) -> impl Iterator<Item = &VolumeCalibration> {
        self.shared.volumes.list().iter().map(|volume| &volume.calibration)
    }

    /// The file with the administrator's generated password, if there is one.
    pub fn admin_password_file(&self) -> Option<std::path::PathBuf> {
        let file = self._data_dir.admin_password_file();
        self.shared.env.disk.exists(&file).then_some(file)
    }

    /// Serves until the process is told to end (SIGINT, SIGTERM), then ends in order.
    pub fn wait(self) {
        self.shared.env.threads.shutdown_signal().wait_blocking(None);
        tracing::info!("shutting down");
        self.stop();
    }

    /// Ends in order: no new clients, sessions told and ended, open tenants checkpointed, threads joined.
    pub fn stop(mut self) {
        let shared = self.shared.clone();
        self.stop.request();
        self.head_start = None;
        self.overseer = None;
        self.certificate = None;
        shared.sessions.shut_down();
        // Before anybody is waited for whom a limit holds.
        shared.policy.lift(&shared);
        if let Some(thread) = self.reception.take() {
            let _ = thread.join();
        }
        env::block_on(&shared.env, end_sessions(&shared));
        shared.analytic.shut_down();
        shared.log_dir.stop_waiting_for_space();
        env::block_on(&shared.env, checkpoint_all(&shared));
        if let Some(admin) = self.admin.take() {
            admin.stop();
        }
        self.ledger = None;
        for seat in &shared.workers {
            seat.handle.stop();
        }
        for thread in self.workers.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Listens where clients connect; and where that is.
fn listen(env: &Env, config: &ServerConfig) -> Result<(SocketAddr, Vec<Listener>), StartError> {
    let refused = |error| StartError::Listen { address: config.listen, error };
    let listener = env.net.listen(config.listen).map_err(refused)?;
    let listening = listener.local_addr().map_err(refused)?;
    let mut listeners = vec![listener];
    if let Some(dir) = &config.socket_dir {
        let path = dir.join(format!(".s.PGSQL.{}", listening.port()));
        let local = env.net.listen_local(&path).map_err(StartError::io("listen on", &path))?;
        listeners.push(local);
    }
    Ok((listening, listeners))
}

async fn end_sessions(shared: &Shared) {
    let deadline = env::now() + SESSIONS_END_MAX;
    while shared.sessions.count() > 0 && env::now() < deadline {
        env::sleep(Nanos::from_millis(2)).await;
    }
}

async fn checkpoint_all(shared: &Arc<Shared>) {
    let mut tasks = Vec::new();
    for (index, seat) in shared.workers.iter().enumerate() {
        let task = tenants::shut_down(shared.clone(), index);
        tasks.push(seat.handle.spawn(TenantId::SYSTEM, task));
    }
    for task in tasks {
        task.await;
    }
}

struct Started {
    seat: WorkerSeat,
    thread: JoinHandle,
    priority: bool,
}

fn start_workers(
    env: &Env,
    count: usize,
    governing: &Governing,
    log: impl Fn() -> (LogWriter, Flushing),
) -> Result<Vec<Started>, StartError> {
    let cores = env.threads.cores();
    let mut started = Vec::with_capacity(count);
    for index in 0..count {
        // More workers than cores share them; pinning them would only take the choice from the system.
        let core = (count <= cores.len()).then(|| cores[index]);
        let id = WorkerId(u16::try_from(index).expect("fewer than 65,536 workers"));
        started.push(start_worker(env, id, core, governing, log())?);
    }
    Ok(started)
}

fn start_worker(
    env: &Env,
    id: WorkerId,
    core: Option<usize>,
    governing: &Governing,
    (log, flushing): (LogWriter, Flushing),
) -> Result<Started, StartError> {
    let (tell, told) = mpsc::sync_channel(1);
    let worker_env = env.clone();
    let governing = governing.clone();
    let worker_log = log.clone();
    let flushing = Mutex::new(Some(flushing));
    let body = Box::new(move || {
        let flushing = flushing.lock().ok().and_then(|mut flushing| flushing.take()).expect("started once");
        run_worker(&worker_env, id, &governing, &worker_log, flushing, &tell);
    });
    let refused = |error| StartError::System { what: "start a worker", error };
    let thread = env.threads.spawn(&format!("worker-{id}"), core, body).map_err(refused)?;
    let ended = |_| std::io::Error::other("the worker ended before it began");
    let (handle, priority) = told.recv().map_err(ended).and_then(|told| told).map_err(refused)?;
    Ok(Started { seat: WorkerSeat::new(handle, log, core), thread, priority })
}

type Told = std::io::Result<(WorkerHandle, bool)>;

/// How a worker's log becomes durable.
struct Flushing {
    flusher: LogFlusher,
    /// How long the writes took.
    writes: Arc<Pauses>,
    shared: Arc<OnceLock<Weak<Shared>>>,
}

impl Flushing {
    /// Flushes for good. After a failure the worker's tenants only read, until the disk writes again; then they are
    /// forgotten, to be opened again as their roots and what of the log is durable have them, and the log goes on.
    async fn run(mut self, worker: WorkerId) {
        let mut complaint = Complaint::default();
        loop {
            let failed = self.flush().await;
            // On a disk that is full it may do so each second, and can be written in between.
            if let Some(times) = complaint.met(env::now()) {
                tracing::error!(
                    worker = worker.0, error = %failed, times,
                    "the redo log failed: this worker's tenants commit nothing until it can be written again"
                );
            }
            loop {
                env::sleep(LOG_RETRY).await;
                let Some(shared) = self.shared.get().and_then(Weak::upgrade) else { return };
                let forgotten = match self.flusher.seal().await {
                    Ok(()) => tenants::forget_lost(&shared, worker).await,
                    Err(error) => Err(error),
                };
                match forgotten {
                    // No turn has passed to others since.
                    Ok(()) => self.flusher.resume(),
                    Err(error) => {
                        tracing::debug!(worker = worker.0, %error, "the redo log still fails");
                        // Nothing may have been told of this time, and the last that was is that it can be written.
                        if let Some(times) = complaint.lasts(env::now()) {
                            tracing::error!(
                                worker = worker.0, %error, times,
                                "the redo log still fails: this worker's tenants commit nothing until it can be written again"
                            );
                        }
                        continue;
                    }
                }
                if complaint.has_told() {
                    tracing::warn!(worker = worker.0, "the redo log can be written again");
                }
                break;
            }
        }
    }

    /// Flushes whatever is appended, until the log fails.
    async fn flush(&mut self) -> LogFailed {
        loop {
            self.flusher.gathered().await;
            let began = env::now();
            match self.flusher.flush_once().await {
                Ok(Flushed::Nothing) => {}
                Ok(Flushed::Group(_)) => self.writes.record(env::now() - began),
                Err(failed) => return failed,
            }
        }
    }
}

/// Body of a worker's thread.
fn run_worker(
    env: &Env,
    id: WorkerId,
    governing: &Governing,
    log: &LogWriter,
    flushing: Flushing,
    tell: &mpsc::SyncSender<Told>,
) {
    let mut worker = match Worker::new(env, id, governing) {
        Ok(worker) => worker,
        Err(error) => {
            let _ = tell.send(Err(error));
            return;
        }
    };
    let priority = worker.claim_priority().is_ok();
    let handle = worker.handle();
    log.gather_by_turns();
    let log = log.clone();
    worker.set_flusher(move || log.end_turn(), flushing.run(id));
    let _ = tell.send(Ok((handle, priority)));
    match catch_unwind(AssertUnwindSafe(|| worker.run())) {
        Ok(Ok(())) => return,
        Ok(Err(error)) => tracing::error!(worker = id.0, %error, "a worker's completion ring failed"),
        // A simulation reports it.
        Err(panic) if env.io_backend() == "simulated" => resume_unwind(panic),
        Err(_) => tracing::error!(worker = id.0, "a worker panicked outside of its tasks"),
    }
    // Its sockets and files are of no use any more, and what its tenants wait for there will never end.
    std::process::abort();
}
