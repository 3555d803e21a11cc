//! The thread that collects the ledger's rows and makes them known.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::{Arc, Weak};

use base::{Nanos, TenantId};
use env::{JoinHandle, ShutdownSignal};
use futures::future::{Either, select};
use governor::{CpuAudit, CpuTerms, LedgerRow, Resource};
use rustc_hash::FxHashMap;

use super::Totals;
use super::io_audit::IoAudit;
use super::published::{Known, Published};
use crate::StartError;
use crate::executor::{Governing, Wait};
use crate::shared::Shared;

/// How long rows are kept.
const KEPT_FOR: Nanos = Nanos::from_secs(3600);

/// Rows kept at most, some 40 MB: the oldest go first.
const ROWS_MAX: usize = 250_000;

/// Between two collections, at least. A tenant in the middle of a change is asked again so soon.
const PAUSE_MIN: Nanos = Nanos::from_millis(1);

/// The ledger's thread. Its own, since with thousands of tenants a collection takes milliseconds, which no worker has.
pub(crate) struct LedgerThread {
    stop: ShutdownSignal,
    thread: Option<JoinHandle>,
}

impl LedgerThread {
    /// # Errors
    /// No thread can be had.
    pub(crate) fn start(shared: &Arc<Shared>, governing: &Governing) -> Result<LedgerThread, StartError> {
        let stop = ShutdownSignal::default();
        let (env, stopped) = (shared.env.clone(), stop.clone());
        let mut collector = Collector::new(shared, governing);
        let body = move || {
            env::block_on(&env, async move {
                let mut stopped = pin!(stopped.wait());
                while let Some(next) = collector.collect(env::now()) {
                    let pause = (next - env::now()).max(PAUSE_MIN);
                    if let Either::Left(_) = select(&mut stopped, pin!(env::sleep(pause))).await {
                        return;
                    }
                }
            });
        };
        let thread = shared.env.threads.spawn("ledger", None, Box::new(body));
        let thread = thread.map_err(|error| StartError::System { what: "start a thread", error })?;
        Ok(LedgerThread { stop, thread: Some(thread) })
    }
}

impl Drop for LedgerThread {
    fn drop(&mut self) {
        self.stop.request();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Collector {
    shared: Weak<Shared>,
    cpu: CpuAudit,
    io: IoAudit,
    rows: VecDeque<Arc<[LedgerRow]>>,
    row_count: usize,
    tenants: FxHashMap<TenantId, Account>,
    volumes: Arc<[String]>,
}

/// What is remembered of a tenant that did anything.
#[derive(Clone, Copy, Default)]
struct Account {
    /// Its last row of processor time.
    cpu: Option<LedgerRow>,
    totals: Totals,
}

impl Collector {
    fn new(shared: &Arc<Shared>, governing: &Governing) -> Collector {
        let cores = u32::try_from(shared.workers.len()).expect("fewer than 2^32 workers");
        Collector {
            shared: Arc::downgrade(shared),
            cpu: CpuAudit::new(governing.cpu.meters().clone(), cores, shared.env.now()),
            io: IoAudit::new(&governing.io, shared.env.now()),
            rows: VecDeque::new(),
            row_count: 0,
            tenants: FxHashMap::default(),
            volumes: shared.config.volume_names().map(str::to_owned).collect(),
        }
    }

    /// Takes in the rows of the intervals that have ended, and makes them known. Returns when the next one does; `None` once the server is
    /// gone.
    fn collect(&mut self, now: Nanos) -> Option<Nanos> {
        let shared = self.shared.upgrade()?;
        let mut ended = Vec::new();
        self.cpu.collect(now, |row| ended.push(row));
        let mut of_io = Vec::new();
        self.io.collect(&shared, now, &mut of_io);
        for row in of_io {
            self.tenants.entry(row.ledger.tenant).or_default().totals.io_bytes += row.usage.given.bytes().0;
            ended.push(row.ledger);
        }
        self.add(ended);
        self.forget_old(now);
        let known = self.known(&shared);
        // Whose rows came after its drop is forgotten here.
        self.tenants.retain(|tenant, _| known.contains_key(tenant));
        shared.ledger.publish(Published {
            rows: self.rows.iter().cloned().collect(),
            tenants: known,
            volumes: self.volumes.clone(),
        });
        let cpu_end = self.cpu.next_end().unwrap_or(now + CpuTerms::INTERVAL_DEFAULT);
        Some(cpu_end.min(self.io.next_end(now)))
    }

    fn add(&mut self, ended: Vec<LedgerRow>) {
        for row in &ended {
            let account = self.tenants.entry(row.tenant).or_default();
            account.totals.count(row);
            if row.resource == Resource::Cpu {
                account.cpu = Some(*row);
            }
        }
        let telling: Arc<[LedgerRow]> =
            ended.into_iter().filter(|row| row.demanded > 0 || row.over > 0 || row.cause.is_some()).collect();
        if !telling.is_empty() {
            self.row_count += telling.len();
            self.rows.push_back(telling);
        }
    }

    fn forget_old(&mut self, now: Nanos) {
        let is_old = |rows: &Arc<[LedgerRow]>| rows.iter().all(|row| now - row.to > KEPT_FOR);
        while self.row_count > ROWS_MAX || self.rows.front().is_some_and(is_old) {
            let Some(gone) = self.rows.pop_front() else { break };
            self.row_count -= gone.len();
        }
    }

    /// The tenants that did anything and are still there.
    fn known(&self, shared: &Shared) -> FxHashMap<TenantId, Arc<Known>> {
        let known = |(tenant, account): (&TenantId, &Account)| {
            let entry = shared.tenants.get(*tenant)?;
            let row = entry.row();
            let (resident, pages) = entry.home.page_figures();
            let on_worker = entry.home.worker().account(*tenant);
            let known = Known {
                name: row.name,
                promise: row.promise,
                cpu: account.cpu,
                totals: account.totals,
                resident: resident.0,
                page_reads: pages.reads,
                page_writes: pages.write_backs,
                sessions: shared.sessions.count_of(*tenant) as u64,
                running: (on_worker.used(), on_worker.polls()),
                waits: Wait::ALL.map(|wait| on_worker.waited(wait)),
            };
            Some((*tenant, Arc::new(known)))
        };
        self.tenants.iter().filter_map(known).collect()
    }
}
