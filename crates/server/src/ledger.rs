//! The ledger: what each tenant was promised, wanted and got, interval by interval.
//!
//! Rows come from the meters, which share nothing with the schedulers they audit (`isolation.md`, "The ledger"; what is metered,
//! `governor::CpuMeters` says). One task collects them at the end of each metering interval. Rows of intervals in which a tenant
//! wanted something of what it was promised, or got more than its limit, are kept for an hour; of every tenant that did anything the
//! last row is. Nothing of it is on disk yet: a restart begins a new ledger.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::{Nanos, TenantId};
use governor::{Cause, CpuAudit, CpuMeters, CpuTerms, LedgerRow, Resource};
use rustc_hash::FxHashMap;
use sql::session::{LedgerEntry, UsageEntry};

use crate::shared::Shared;

/// How long rows are kept.
const KEPT_FOR: Nanos = Nanos::from_secs(3600);

/// Rows kept at most, some 40 MB: the oldest go first.
const ROWS_MAX: usize = 250_000;

/// Between two collections, at least.
const PAUSE_MIN: Nanos = Nanos::from_millis(1);

/// A tenant of which nothing was heard for this long uses nothing now.
const USAGE_AGE_MAX: Nanos = Nanos(2 * CpuTerms::INTERVAL_DEFAULT.0);

/// Sums of a tenant's rows since the server's start.
#[derive(Clone, Copy, Default)]
pub(crate) struct CpuTotals {
    pub(crate) given: Nanos,
    pub(crate) demanded: Nanos,
    pub(crate) missed: Nanos,
    pub(crate) owed_micros: u64,
}

impl std::ops::Add for CpuTotals {
    type Output = CpuTotals;

    fn add(self, other: CpuTotals) -> CpuTotals {
        CpuTotals {
            given: self.given + other.given,
            demanded: self.demanded + other.demanded,
            missed: self.missed + other.missed,
            owed_micros: self.owed_micros.saturating_add(other.owed_micros),
        }
    }
}

#[derive(Default)]
struct Kept {
    rows: VecDeque<LedgerRow>,
    last: FxHashMap<TenantId, (LedgerRow, CpuTotals)>,
}

/// All of it. Readable from any thread.
pub(crate) struct Ledger {
    /// Used by the task that collects.
    audit: Mutex<CpuAudit>,
    kept: Mutex<Kept>,
}

impl Ledger {
    /// An empty ledger of a server with so many workers.
    pub(crate) fn new(meters: Arc<CpuMeters>, workers: usize, now: Nanos) -> Ledger {
        let cores = u32::try_from(workers).expect("fewer than 2^32 workers");
        Ledger { audit: Mutex::new(CpuAudit::new(meters, cores, now)), kept: Mutex::default() }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in the rows of the intervals that have ended, but for those of tenants that were dropped. Returns when the next one
    /// does.
    fn collect(&self, shared: &Shared, now: Nanos) -> Nanos {
        let mut audit = self.audit.lock().unwrap_or_else(PoisonError::into_inner);
        let mut ended = Vec::new();
        audit.collect(now, |row| ended.push(row));
        ended.retain(|row| shared.tenants.get(row.tenant).is_some());
        let mut kept = self.kept();
        ended.into_iter().for_each(|row| kept.add(row));
        kept.forget_old(now);
        audit.next_end().unwrap_or(now + CpuTerms::INTERVAL_DEFAULT)
    }

    /// A tenant's sums, for `/metrics`.
    pub(crate) fn totals(&self, tenant: TenantId) -> CpuTotals {
        self.kept().last.get(&tenant).map_or(CpuTotals::default(), |(_, totals)| *totals)
    }

    /// The rows of `rowhouse.ledger`, oldest first; of one tenant or of all. Tenants that were dropped are left out.
    pub(crate) fn entries(&self, shared: &Shared, of: Option<TenantId>) -> Vec<LedgerEntry> {
        let rows: Vec<LedgerRow> = {
            let kept = self.kept();
            kept.rows.iter().filter(|row| of.is_none_or(|of| row.tenant == of)).copied().collect()
        };
        let clock = WallClock::of(shared);
        let mut names = Names::default();
        rows.iter().filter_map(|row| Some(entry_of(row, names.of(shared, row.tenant)?, &clock))).collect()
    }

    /// The rows of `rowhouse.tenant_usage`; of one tenant or of all that did anything lately.
    pub(crate) fn usage(&self, shared: &Shared, of: Option<TenantId>) -> Vec<UsageEntry> {
        let now = shared.env.now();
        let last: Vec<(LedgerRow, CpuTotals)> = {
            let kept = self.kept();
            kept.last.values().filter(|(row, _)| of.is_none_or(|of| row.tenant == of)).copied().collect()
        };
        let mut entries: Vec<UsageEntry> =
            last.iter().filter_map(|(row, totals)| usage_of(shared, row, totals, now)).collect();
        entries.sort_by(|a, b| a.tenant.cmp(&b.tenant));
        entries
    }
}

impl Kept {
    fn add(&mut self, row: LedgerRow) {
        let before = self.last.get(&row.tenant).map_or(CpuTotals::default(), |(_, totals)| *totals);
        let of_row = CpuTotals {
            given: Nanos(row.given),
            demanded: Nanos(row.demanded),
            missed: Nanos(row.missed),
            owed_micros: row.owed_micros,
        };
        self.last.insert(row.tenant, (row, before + of_row));
        if row.demanded > 0 || row.over > 0 {
            if self.rows.len() == ROWS_MAX {
                self.rows.pop_front();
            }
            self.rows.push_back(row);
        }
    }

    fn forget_old(&mut self, now: Nanos) {
        while self.rows.front().is_some_and(|row| now - row.to > KEPT_FOR) {
            self.rows.pop_front();
        }
    }

    fn forget(&mut self, tenant: TenantId) {
        self.last.remove(&tenant);
        self.rows.retain(|row| row.tenant != tenant);
    }
}

impl Ledger {
    /// Drops what there is of a tenant that was dropped.
    pub(crate) fn forget(&self, tenant: TenantId) {
        self.kept().forget(tenant);
    }
}

/// Collects rows until the worker stops.
pub(crate) async fn keep(shared: Arc<Shared>) {
    loop {
        let next = shared.ledger.collect(&shared, env::now());
        // A tenant in the middle of a change is asked again soon.
        env::sleep((next - env::now()).max(PAUSE_MIN)).await;
    }
}

/// From the server's monotonic time to the wall's.
struct WallClock {
    now: Nanos,
    /// Microseconds since 2000-01-01 UTC.
    wall: i64,
}

impl WallClock {
    fn of(shared: &Shared) -> WallClock {
        WallClock { now: shared.env.now(), wall: crate::session::wall_clock(&shared.env) }
    }

    fn at(&self, at: Nanos) -> i64 {
        self.wall - (self.now - at).0 as i64 / 1000
    }
}

#[derive(Default)]
struct Names(FxHashMap<TenantId, Option<String>>);

impl Names {
    fn of(&mut self, shared: &Shared, tenant: TenantId) -> Option<String> {
        self.0.entry(tenant).or_insert_with(|| Some(shared.tenants.get(tenant)?.row().name)).clone()
    }
}

/// In the unit that people are shown: core-seconds of processor time, numbers of I/Os.
fn amount(resource: Resource, amount: u64) -> f64 {
    amount as f64 / resource.priced_unit() as f64
}

fn entry_of(row: &LedgerRow, tenant: String, clock: &WallClock) -> LedgerEntry {
    let amount = |n| amount(row.resource, n);
    LedgerEntry {
        tenant,
        resource: match row.resource {
            Resource::Cpu => "cpu",
            Resource::Io { .. } => "io",
            Resource::Memory => "memory",
            Resource::WorkMemory => "work_memory",
        },
        began: clock.at(row.from),
        ended: clock.at(row.to),
        active: row.active.as_secs_f64(),
        promised: amount(row.promised),
        demanded: amount(row.demanded),
        given: amount(row.given),
        missed: amount(row.missed),
        over: amount(row.over),
        cause: row.cause.map(|cause| match cause {
            Cause::Overbooked => "overbooked",
            Cause::System => "system",
            Cause::Neighbour => "neighbour",
            Cause::Device => "device",
        }),
        owed: row.owed_micros as f64 / 1e6,
    }
}

fn usage_of(shared: &Shared, row: &LedgerRow, totals: &CpuTotals, now: Nanos) -> Option<UsageEntry> {
    let entry = shared.tenants.get(row.tenant)?;
    let promise = entry.row();
    let is_present = now - row.to <= USAGE_AGE_MAX;
    let time = (row.to - row.from).as_secs_f64();
    let cores = |n: u64| if is_present { Nanos(n).as_secs_f64() / time } else { 0.0 };
    let (resident, pages) = entry.home.page_figures();
    Some(UsageEntry {
        tenant: promise.name,
        cpu: cores(row.given),
        cpu_demanded: cores(row.demanded),
        cpu_promised: f64::from(promise.promise.cpu.reserved.0) / 1000.0,
        cpu_max: promise.promise.cpu.max.map(|max| f64::from(max.0) / 1000.0),
        cpu_seconds: totals.given.as_secs_f64(),
        cpu_demanded_seconds: totals.demanded.as_secs_f64(),
        cpu_missed_seconds: totals.missed.as_secs_f64(),
        owed: totals.owed_micros as f64 / 1e6,
        resident_bytes: resident.0,
        page_reads: pages.reads,
        page_writes: pages.write_backs,
        sessions: shared.sessions.count_of(row.tenant) as u64,
    })
}
