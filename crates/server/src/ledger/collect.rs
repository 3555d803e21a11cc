//! The thread that collects the ledger's rows and makes them known.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::{Arc, Weak};

use base::{ByteCount, Nanos, TenantId};
use env::{Env, JoinHandle, ShutdownSignal};
use futures::future::{Either, select};
use governor::{CpuAudit, LedgerRow, MemoryAudit, Resource, RollUp, RollUpBlock, Sampled, WallMinute};
use rustc_hash::FxHashMap;

use super::io_audit::IoAudit;
use super::published::{Account, Published};
use super::recent::Judged;
use super::writing::Writing;
use crate::StartError;
use crate::executor::Governing;
use crate::shared::{Shared, charged};
use crate::tenants::Names;
use crate::work_memory::WorkMemoryAudit;

/// How long rows are kept.
const KEPT_FOR: Nanos = Nanos::from_secs(3600);

/// Rows kept at most, some 40 MB: the oldest go first.
const ROWS_MAX: usize = 250_000;

/// Between two collections, at least, as a part of the metering interval: the meters' intervals end at different times, and are that much longer
/// at most.
const PAUSE_MIN_PART: u64 = 10;

/// Between two collections, at most: another metering interval is found in force by then.
const PAUSE_MAX: Nanos = Nanos::from_secs(1);

/// How long the server's end waits for workers that have not told of their last I/O yet.
const LAST_WAIT_MAX: Nanos = Nanos::from_secs(1);

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
        let of = Arc::downgrade(shared);
        let body = move || {
            let collected = charged(of, env.clone(), async move {
                let mut stopped = pin!(stopped.wait());
                collector.begin_writing();
                while let Some(next) = collector.collect(env::now()) {
                    let pause = (next - env::now()).clamp(collector.pause_min, PAUSE_MAX);
                    if let Either::Left(_) = select(&mut stopped, pin!(env::sleep(pause))).await {
                        break;
                    }
                }
                collector.finish().await;
            });
            env::block_on(&env, collected);
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

/// The minute of an instant of the server's clock, which is not later than now.
fn minute_of(env: &Env, at: Nanos) -> WallMinute {
    let unix = env.clock.unix_micros() - (env.now() - at).0 as i64 / 1000;
    WallMinute::of_unix_seconds(u64::try_from(unix / 1_000_000).unwrap_or(0))
}

/// How long the wall's clock has gone with the server's before it says how old what is kept of the ledger is: one that is wrong for a while, at the machine's start or by a slip,
/// drops nothing.
const STEADY_AFTER: Nanos = Nanos::from_secs(3600);

/// By how much more or less the two may go between two looks.
const STEP_MAX: Nanos = Nanos::from_secs(60);

/// The wall's clock against the server's.
#[derive(Default)]
struct Steadiness {
    /// Microseconds of the wall's clock and the time of the server's at the last look.
    last: Option<(i64, Nanos)>,
    since: Nanos,
}

impl Steadiness {
    /// Whether the wall's clock has gone with the server's for long enough by `now`.
    fn look(&mut self, wall_micros: i64, now: Nanos) -> bool {
        let before = self.last.replace((wall_micros, now));
        let is_step = before.is_none_or(|(wall, at)| {
            let went = i128::from(wall_micros) - i128::from(wall);
            (went * 1000 - i128::from((now - at).0)).unsigned_abs() > u128::from(STEP_MAX.0)
        });
        if is_step {
            self.since = now;
        }
        now - self.since >= STEADY_AFTER
    }
}

struct Collector {
    shared: Weak<Shared>,
    cpu: CpuAudit,
    io: IoAudit,
    memory: MemoryAudit,
    work_memory: WorkMemoryAudit,
    judged: Judged,
    rows: VecDeque<Arc<[LedgerRow]>>,
    row_count: usize,
    /// Of each tenant that did anything and is there. Shared with what was published: one that changes is copied first.
    tenants: FxHashMap<TenantId, Arc<Account>>,
    rollup: RollUp,
    /// `None` before it begins, and if it cannot: the operator was told.
    writing: Option<Writing>,
    steadiness: Steadiness,
    is_clock_steady: bool,
    env: Env,
    pause_min: Nanos,
    names: Arc<Names>,
    volumes: Arc<[String]>,
}

/// Bytes of pages that the server's own tenant has beyond its promise.
fn system_over(shared: &Shared) -> ByteCount {
    let Some(system) = shared.tenants.get(TenantId::SYSTEM) else { return ByteCount(0) };
    let (resident, _) = system.home.page_figures();
    ByteCount(resident.0.saturating_sub(system.row().promise.memory.memory.0))
}

impl Collector {
    fn new(shared: &Arc<Shared>, governing: &Governing) -> Collector {
        let (meters, promisable) = (shared.memory_meters.clone(), shared.memory.promisable());
        let cores = u32::try_from(shared.workers.len()).expect("fewer than 2^32 workers");
        Collector {
            shared: Arc::downgrade(shared),
            cpu: CpuAudit::new(governing.cpu.meters().clone(), cores, shared.env.now()),
            io: IoAudit::new(&governing.io, &shared.io_accounts, shared.env.now()),
            memory: MemoryAudit::new(meters, promisable, shared.env.now()),
            work_memory: WorkMemoryAudit::new(shared.env.now()),
            judged: Judged::default(),
            rows: VecDeque::new(),
            row_count: 0,
            tenants: FxHashMap::default(),
            rollup: RollUp::default(),
            writing: None,
            steadiness: Steadiness::default(),
            is_clock_steady: false,
            env: shared.env.clone(),
            pause_min: PAUSE_MAX,
            names: Arc::default(),
            volumes: shared.config.volume_names().map(str::to_owned).collect(),
        }
    }

    fn begin_writing(&mut self) {
        let Some(shared) = self.shared.upgrade() else { return };
        match Writing::start(shared.history.clone(), &self.env, self.shared.clone()) {
            Ok(writing) => self.writing = Some(writing),
            Err(error) => {
                tracing::warn!(%error, "the ledger's history is not written; it is kept for an hour only");
            }
        }
    }

    /// Takes in the rows of the intervals that have ended, and makes them known. Returns when the next one does; `None` once the server is
    /// gone.
    fn collect(&mut self, now: Nanos) -> Option<Nanos> {
        let shared = self.shared.upgrade()?;
        let interval = shared.policy.get().metering_interval();
        self.pause_min = Nanos(interval.0 / PAUSE_MIN_PART).min(PAUSE_MAX);
        let names = shared.tenants.names_by_id(&self.names);
        let are_names_new = !Arc::ptr_eq(&names, &self.names);
        if are_names_new {
            self.tenants.retain(|tenant, _| names.get(*tenant).is_some());
            self.io.forget_gone(|tenant| names.get(tenant).is_some());
            self.names = names;
        }
        let mut ended = Vec::new();
        if self.cpu.next_end().is_none_or(|end| end <= now) {
            self.cpu.collect(now, |row| ended.push(row));
            self.judged.cpu = now;
        }
        self.collect_io(&shared, now, &mut ended);
        if self.memory.next_end().is_none_or(|end| end <= now) {
            self.memory.collect(now, system_over(&shared), |row| ended.push(row.ledger));
        }
        self.collect_work_memory(&shared, interval, now, &mut ended);
        let mut is_news = !ended.is_empty() || are_names_new;
        self.add(&shared, ended);
        is_news |= self.forget_old(now);
        let minute = minute_of(&self.env, now);
        let over = self.rollup.take_ended(minute);
        self.is_clock_steady = self.steadiness.look(self.env.clock.unix_micros(), now);
        // What was not written before is tried again when a minute ends.
        if !over.is_empty() {
            self.write(over, minute);
        }
        if is_news {
            shared.ledger.publish(Published {
                rows: self.rows.iter().cloned().collect(),
                tenants: self.tenants.clone(),
                volumes: self.volumes.clone(),
                names: self.names.clone(),
            });
        }
        let cpu_end = self.cpu.next_end().unwrap_or(now + interval);
        let memory_end = self.memory.next_end().unwrap_or(cpu_end);
        Some(cpu_end.min(memory_end).min(self.io.next_end(now)).min(self.work_memory.next_end(interval)))
    }

    fn collect_io(&mut self, shared: &Shared, now: Nanos, ended: &mut Vec<LedgerRow>) {
        let mut of_io = Vec::new();
        self.io.collect(&shared.io_accounts, now, &mut of_io);
        self.judged.io = self.io.judged_through();
        for row in of_io {
            if let Some(account) = self.account(row.ledger.tenant) {
                account.totals.io_bytes += row.usage.given.bytes().0;
            }
            ended.push(row.ledger);
        }
    }

    fn collect_work_memory(
        &mut self,
        shared: &Shared,
        interval: Nanos,
        now: Nanos,
        ended: &mut Vec<LedgerRow>,
    ) {
        for row in self.work_memory.collect(&shared.work_memory, interval, now) {
            let minute = minute_of(&self.env, now);
            self.rollup.add_samples(row.ledger.tenant, Sampled::WorkMemory, &row.needs, minute);
            ended.push(row.ledger);
        }
    }

    /// What is remembered of a tenant, to be changed; `None` of one that is gone.
    fn account(&mut self, tenant: TenantId) -> Option<&mut Account> {
        self.names.get(tenant)?;
        Some(Arc::make_mut(self.tenants.entry(tenant).or_default()))
    }

    fn write(&mut self, ended: RollUpBlock, now: WallMinute) {
        if let Some(writing) = &mut self.writing {
            writing.push(ended, now, self.is_clock_steady);
        }
    }

    /// Takes in what there is of the intervals under way, which end now: the server does, and its workers are there yet.
    async fn end_intervals(&mut self) {
        let Some(shared) = self.shared.upgrade() else { return };
        let mut ended = Vec::new();
        let began = env::now();
        let end = self.io.end_intervals(began);
        loop {
            let now = env::now();
            self.collect_io(&shared, now, &mut ended);
            if self.io.judged_through() >= end || now - began >= LAST_WAIT_MAX {
                break;
            }
            env::sleep(self.io.next_end(now) - now).await;
        }
        let now = env::now();
        self.cpu.finish(now, |row| ended.push(row));
        self.memory.finish(now, system_over(&shared), |row| ended.push(row.ledger));
        self.collect_work_memory(&shared, Nanos(0), now, &mut ended);
        self.add(&shared, ended);
    }

    /// Writes what there is of the present minute: the server ends.
    async fn finish(&mut self) {
        self.end_intervals().await;
        let rest = self.rollup.take_all();
        let minute = minute_of(&self.env, self.env.now());
        self.write(rest, minute);
        // Waits for what is written.
        self.writing = None;
    }

    fn add(&mut self, shared: &Shared, ended: Vec<LedgerRow>) {
        shared.ledger.recent().add(&ended, self.judged);
        for row in &ended {
            let minute = minute_of(&self.env, row.to);
            self.rollup.add(row, minute);
            let Some(account) = self.account(row.tenant) else { continue };
            account.totals.count(row);
            account.broken_hour += u64::from(!row.is_kept());
            if row.resource == Resource::Cpu {
                account.cpu = Some(*row);
                // Who ran a statement used processor time.
                if let Some(entry) = shared.tenants.get(row.tenant) {
                    let (times, time) = entry.home.statement_times().take();
                    account.totals.statements.count(&times, time);
                    self.rollup.add_samples(row.tenant, Sampled::StatementTime, &times, minute);
                    shared.ledger.recent().add_statements(row.tenant, &times);
                }
            }
        }
        let telling: Arc<[LedgerRow]> = ended.into_iter().filter(LedgerRow::is_telling).collect();
        if !telling.is_empty() {
            self.row_count += telling.len();
            self.rows.push_back(telling);
        }
    }

    /// Forgets what is too old or too much; whether there was any.
    fn forget_old(&mut self, now: Nanos) -> bool {
        let before = self.row_count;
        let is_old = |rows: &Arc<[LedgerRow]>| rows.iter().all(|row| now - row.to > KEPT_FOR);
        while self.row_count > ROWS_MAX || self.rows.front().is_some_and(is_old) {
            let Some(gone) = self.rows.pop_front() else { break };
            self.row_count -= gone.len();
            for row in gone.iter().filter(|row| !row.is_kept()) {
                // A tenant that was dropped is not remembered.
                if let Some(account) = self.tenants.get_mut(&row.tenant) {
                    let account = Arc::make_mut(account);
                    account.broken_hour = account.broken_hour.saturating_sub(1);
                }
            }
        }
        self.row_count < before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_was_set_is_steady_after_an_hour() {
        let second = |n: u64| Nanos::from_secs(n);
        let mut steadiness = Steadiness::default();
        let look =
            |steadiness: &mut Steadiness, wall: i64, now: u64| steadiness.look(wall * 1_000_000, second(now));
        assert!(!look(&mut steadiness, 1_000, 5));
        assert!(!look(&mut steadiness, 1_000 + 3_590, 5 + 3_599), "it may go a little apart");
        assert!(look(&mut steadiness, 1_000 + 3_591, 5 + 3_600));
        // Ahead by 70 days, and back.
        let days = 70 * 86_400;
        assert!(!look(&mut steadiness, 1_000 + 3_592 + days, 5 + 3_601));
        assert!(!look(&mut steadiness, 1_000 + 3_652 + days, 5 + 3_661));
        assert!(!look(&mut steadiness, 1_000 + 3_653, 5 + 3_662));
        assert!(!look(&mut steadiness, 1_000 + 3_653 + 3_599, 5 + 3_662 + 3_599));
        assert!(look(&mut steadiness, 1_000 + 3_653 + 3_600, 5 + 3_662 + 3_600));
    }
}
