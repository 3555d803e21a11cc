//! One start of a small server between two power cuts: the workers' logs, and the tenants, opened and replayed.
//!
//! As in the real server a tenant's state is touched in turns only, a checkpoint is published when the log is durable
//! through what it covers, and a reply leaves when the log is durable through what it could have read.

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::rc::Rc;

use base::{ByteCount, Lsn, Nanos, SqlError, SqlState, TenantId};
use env::sim::World;
use futures::future::{Either, select};
use sql::session;
use storage::redo::{LogDir, LogFlusher, LogOptions, LogWriter};
use tenant::locks::LockWait;
use tenant::{PageRequest, Tenant, WriterWait};

use crate::memory::Memory;
use crate::{Stop, memory, require};

pub(crate) const LOG_DIR: &str = "/data/log";
const TENANT_DIR: &str = "/data/tenants";

/// No lock is waited for longer by sessions that all go on.
const LOCK_WAIT_MAX: Nanos = Nanos::from_secs(60);

/// What one start replays ends far sooner, on the slowest disk.
const REPLAY_MAX: Nanos = Nanos::from_secs(3600);

/// The log's segments at their smallest, so that they are freed and used again.
const LOG_OPTIONS: LogOptions = LogOptions { segment_len: ByteCount::from_mib(1), spare_segments_max: 1 };

/// When a reply leaves. All but the first are mistakes that the checks must find.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Acknowledge {
    #[default]
    WhenDurable,
    /// Commits are acknowledged before their record is synced.
    CommitsAtOnce,
    /// What a read shows is told before it is durable.
    ReadsAtOnce,
}

/// A reply's kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reply {
    OfCommit,
    OfRead,
}

/// An open tenant.
pub struct Home {
    pub id: TenantId,
    world: World,
    log: LogWriter,
    tenant: RefCell<Tenant>,
    acknowledge: Acknowledge,
    pub(crate) log_dir: LogDir,
    /// Whether a checkpoint is under way.
    pub(crate) checkpointing: Cell<bool>,
    /// Published since the start.
    pub(crate) checkpoints: Cell<u64>,
    /// Bytes by which beginning one made its pages in memory more, at most.
    pub(crate) begun_max: Cell<u64>,
    /// What its pages are charged to; `None` for no limit.
    pub(crate) memory: Option<Rc<Memory>>,
}

/// A started server. Dropped as a whole when the power goes.
pub struct Server {
    pub world: World,
    pub homes: Vec<Rc<Home>>,
    pub(crate) log_dir: LogDir,
    pub(crate) flushers: RefCell<Vec<LogFlusher>>,
    pub(crate) memory: Option<Rc<Memory>>,
    /// Redo records that the start applied.
    pub(crate) replayed: u64,
}

pub(crate) fn data_file(tenant: TenantId) -> PathBuf {
    Path::new(TENANT_DIR).join(format!("{tenant}.rowhouse"))
}

impl Server {
    /// Makes the tenants' data files on an empty disk.
    pub(crate) async fn create(world: &World, tenants: &[TenantId]) -> Result<(), Stop> {
        let env = world.env();
        env.disk
            .create_dir_all(Path::new(TENANT_DIR))
            .map_err(|e| Stop::failed(world, "making a directory", e))?;
        for id in tenants {
            let made = Tenant::create(&env, &data_file(*id), *id, "owner", None).await;
            made.map_err(|error| Stop::failed(world, "creating a tenant", error))?;
        }
        Ok(())
    }

    /// Opens the logs, then each tenant at its root, and replays. The number of workers may differ from the start before.
    pub(crate) async fn start(
        world: &World,
        tenants: &[TenantId],
        workers: usize,
        acknowledge: Acknowledge,
        memory: Option<ByteCount>,
    ) -> Result<Server, Stop> {
        let env = world.env();
        let (log_dir, index) = LogDir::open(&env, Path::new(LOG_DIR), LOG_OPTIONS)
            .map_err(|error| Stop::failed(world, "opening the logs", error))?;
        let (logs, flushers): (Vec<LogWriter>, Vec<LogFlusher>) =
            (0..workers).map(|_| log_dir.writer()).unzip();
        let memory = memory.map(Memory::new);
        let (mut homes, mut replayed) = (Vec::new(), 0);
        for id in tenants {
            let opened = Tenant::open(&env, &data_file(*id), *id).await;
            let mut tenant = opened.map_err(|error| Stop::failed(world, "opening a tenant", error))?;
            if let Some(memory) = &memory {
                tenant.charge_to(&memory.budget);
            }
            let applied = {
                let replay = pin!(tenant.replay(&index));
                match select(replay, pin!(env::sleep(REPLAY_MAX))).await {
                    Either::Left((applied, _)) => applied,
                    Either::Right(_) => {
                        return Err(Stop::violation(format!("{id}: replaying redo does not end")));
                    }
                }
            };
            replayed += applied.map_err(|error| Stop::failed(world, "replaying redo", error))?.commits;
            let log = logs[usize::try_from(id.0).expect("a small id") % workers].clone();
            let home = Rc::new(Home {
                id: *id,
                world: world.clone(),
                log,
                tenant: RefCell::new(tenant),
                acknowledge,
                log_dir: log_dir.clone(),
                checkpointing: Cell::default(),
                checkpoints: Cell::default(),
                begun_max: Cell::default(),
                memory: memory.clone(),
            });
            memory.iter().for_each(|memory| memory.add(&home));
            homes.push(home);
        }
        let flushers = RefCell::new(flushers);
        Ok(Server { world: world.clone(), homes, log_dir, flushers, memory, replayed })
    }
}

impl Home {
    pub fn world(&self) -> &World {
        &self.world
    }

    pub(crate) fn log(&self) -> &LogWriter {
        &self.log
    }

    /// Runs `body` in one turn.
    pub fn turn<R>(&self, body: impl FnOnce(&mut session::Home<'_>) -> R) -> R {
        let mut log = self.log.clone();
        let turn = || body(&mut session::Home { tenant: &mut self.tenant.borrow_mut(), redo: &mut log });
        match &self.memory {
            Some(memory) => memory.of_turn(turn),
            None => turn(),
        }
    }

    /// Bytes of its pages in memory.
    pub(crate) fn resident(&self) -> u64 {
        self.tenant.borrow().memory().pages.0
    }

    /// Runs what reads snapshots as threads do that may block.
    pub(crate) fn blocking<R>(&self, body: impl FnOnce() -> R) -> R {
        let _served = self.memory.as_ref().map(Memory::serve_blocked);
        body()
    }

    /// Pages that left memory since the start.
    pub(crate) fn evictions(&self) -> u64 {
        self.tenant.borrow().page_tally().evictions
    }

    /// Evicts what can be evicted; nothing within a turn.
    pub(crate) fn evict_all_if_idle(&self) {
        if let Ok(mut tenant) = self.tenant.try_borrow_mut() {
            tenant.evict_all();
        }
    }

    /// Waits until a reply may leave that depends on the log through `wait_for`.
    pub async fn before_reply(&self, wait_for: Lsn, reply: Reply) -> Result<(), Stop> {
        match (self.acknowledge, reply) {
            (Acknowledge::CommitsAtOnce, Reply::OfCommit) | (Acknowledge::ReadsAtOnce, Reply::OfRead) => {
                Ok(())
            }
            _ => self.durable(wait_for).await,
        }
    }

    /// Waits until the log is durable through `lsn`.
    pub(crate) async fn durable(&self, lsn: Lsn) -> Result<(), Stop> {
        if lsn > self.log.durable() {
            let durable = self.log.wait_durable(lsn).await;
            durable.map_err(|error| Stop::failed(&self.world, "waiting for the log", error))?;
        }
        let durable = self.log.durable();
        self.turn(|home| home.tenant.durable(durable));
        Ok(())
    }

    /// Reads a page that a statement missed. The inner error is the statement's.
    pub async fn load_page(&self, request: PageRequest) -> Result<Result<(), SqlError>, Stop> {
        match request.read().await {
            Ok(loaded) => Ok(Ok(self.turn(|home| home.tenant.page_loaded(loaded)))),
            Err(error) => match Stop::failed(&self.world, "reading a page", error) {
                Stop::Fault(what) => Ok(Err(SqlError::new(SqlState::IO_ERROR, what))),
                stop => Err(stop),
            },
        }
    }

    /// Waits once for what a statement or commit is told to wait for. The inner error is the statement's.
    pub(crate) async fn await_memory(&self, wait: WriterWait) -> Result<Result<(), SqlError>, Stop> {
        match memory::await_memory(self, wait).await {
            Err(Stop::Fault(what)) => Ok(Err(SqlError::new(SqlState::IO_ERROR, what))),
            outcome => outcome.map(Ok),
        }
    }

    /// Waits for a lock, which somebody must let go of some time.
    pub async fn lock(&self, wait: LockWait) -> Result<(), Stop> {
        let granted = env::timeout_at(Some(self.world.now() + LOCK_WAIT_MAX), wait).await;
        require!(granted.is_ok(), "tenant {}: a lock is waited for without end", self.id);
        Ok(())
    }
}
