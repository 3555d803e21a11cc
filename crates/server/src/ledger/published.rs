//! What the ledger's thread made known last, and how a session sees it.

use std::ops::Range;
use std::sync::{Arc, Weak};

use base::{Nanos, SqlError, SqlResult, SqlState, TenantId};
use governor::{Cause, LedgerRow, OwnLimit, Resource, RollUpBlock, RollUpRow};
use rustc_hash::FxHashMap;
use sql::session::{
    AdviceEntry, HistoryEntry, LedgerEntry, LedgerRows, StatementFigures, StatementRow, UsageEntry, WaitEntry,
};

use super::advice::Candidates;
use super::{History, Totals};
use crate::config::DATA_VOLUME;
use crate::shared::Shared;
use crate::tenants::{Entry, Names};

/// A tenant of which nothing was heard for so many metering intervals uses nothing now.
const USAGE_AGE_MAX: u64 = 2;

/// Rows of all tenants by the minute that are told at once, unless a minute has more: some 20 MB.
const TOLD_ROWS_MAX: usize = 20_000;

/// What the ledger remembers of a tenant that did anything.
#[derive(Clone, Default)]
pub(super) struct Account {
    /// Its last row of processor time.
    pub(super) cpu: Option<LedgerRow>,
    pub(super) totals: Totals,
    /// Of its rows that are kept, those in which a promise was broken.
    pub(super) broken_hour: u64,
}

/// Never changed once it is made known.
#[derive(Clone, Default)]
pub(super) struct Published {
    /// Oldest first; rows that one collection brought are together.
    pub(super) rows: Vec<Arc<[LedgerRow]>>,
    /// Every tenant that did anything and is there.
    pub(super) tenants: FxHashMap<TenantId, Arc<Account>>,
    /// The volumes' names, by number.
    pub(super) volumes: Arc<[String]>,
    /// Of all tenants there are.
    pub(super) names: Arc<Names>,
}

/// From the server's monotonic time to the wall's.
struct WallClock {
    now: Nanos,
    /// Microseconds since 2000-01-01 UTC.
    wall: i64,
}

impl WallClock {
    fn at(&self, at: Nanos) -> i64 {
        self.wall - (self.now - at).0 as i64 / 1000
    }
}

/// The ledger as one session may see it, taken at one instant. What is not the ledger's, as a tenant's memory and its waits, is looked up when it is asked for, and by who asks: to
/// keep it ready for all tenants would cost as many look-ups each second.
pub(crate) struct View {
    published: Arc<Published>,
    history: History,
    clock: WallClock,
    /// For what is promised now.
    shared: Weak<Shared>,
    /// Whose rows; `None` for all.
    of: Option<TenantId>,
    /// What is older is of no use now.
    usage_age_max: Nanos,
}

impl View {
    pub(super) fn new(published: Arc<Published>, shared: &Arc<Shared>, of: Option<TenantId>) -> View {
        let clock = WallClock { now: shared.env.now(), wall: crate::session::wall_clock(&shared.env) };
        let usage_age_max = Nanos(USAGE_AGE_MAX * shared.policy.get().metering_interval().0);
        let (history, weak) = (shared.history.clone(), Arc::downgrade(shared));
        View { published, history, clock, shared: weak, of, usage_age_max }
    }

    /// The history, its reading charged to the tenant that sees its own.
    fn own_history(&self) -> History {
        match (self.of, self.shared.upgrade()) {
            (Some(tenant), Some(shared)) => {
                self.history.charged_to(&shared.env, &shared.io_accounts.of(tenant, DATA_VOLUME))
            }
            _ => self.history.clone(),
        }
    }

    fn shows(&self, tenant: TenantId) -> bool {
        self.of.is_none_or(|of| tenant == of)
    }

    /// The tenants that are shown, did anything and are there, by name.
    fn known(&self, shared: &Shared) -> Vec<(Arc<Entry>, &Account)> {
        let shown = self.published.tenants.iter().filter(|(tenant, _)| self.shows(**tenant));
        let mut known: Vec<_> = shown
            .filter_map(|(tenant, account)| {
                let entry = shared.tenants.get(*tenant)?;
                Some((entry.row().name, entry, &**account))
            })
            .collect();
        known.sort_by(|(a, ..), (b, ..)| a.cmp(b));
        known.into_iter().map(|(_, entry, account)| (entry, account)).collect()
    }

    fn usage_of(&self, shared: &Shared, entry: &Entry, account: &Account) -> UsageEntry {
        let rate = |of: fn(&LedgerRow) -> u64| match &account.cpu {
            Some(row) if self.clock.now - row.to <= self.usage_age_max => {
                Nanos(of(row)).as_secs_f64() / (row.to - row.from).as_secs_f64()
            }
            _ => 0.0,
        };
        let (row, totals) = (entry.row(), &account.totals);
        let (resident, pages) = entry.home.page_figures();
        UsageEntry {
            tenant: row.name,
            cpu: rate(|row| row.given),
            cpu_demanded: rate(|row| row.demanded),
            cpu_promised: f64::from(row.promise.cpu.reserved.0) / 1000.0,
            cpu_max: row.promise.cpu.max.map(|max| f64::from(max.0) / 1000.0),
            cpu_seconds: Nanos(totals.cpu.given).as_secs_f64(),
            cpu_demanded_seconds: Nanos(totals.cpu.demanded).as_secs_f64(),
            cpu_missed_seconds: Nanos(totals.cpu.missed).as_secs_f64(),
            io: totals.io.given,
            io_demanded: totals.io.demanded,
            io_missed: totals.io.missed,
            io_bytes: totals.io_bytes,
            owed: totals.owed_micros as f64 / 1e6,
            resident_bytes: resident.0,
            page_reads: pages.reads,
            page_writes: pages.write_backs,
            sessions: shared.sessions.count_of(entry.id) as u64,
        }
    }

    /// The rows of the last hour, oldest first.
    pub(crate) fn ledger_rows(&self) -> Vec<LedgerEntry> {
        LedgerRows::ledger(self)
    }

    /// Calls `each` with rows by the minute of one day after the other, the newest first, as far as a day has any of the range (in milliseconds since 1970), until it says to stop. Has a
    /// day of one tenant in memory at a time, of all some minutes: with a thousand that are never idle a day has more than there is memory for. Blocks.
    ///
    /// # Errors
    /// 58030: a file cannot be read.
    pub(crate) fn history_by_day(
        &self,
        range_ms: &Range<i64>,
        each: &mut dyn FnMut(Vec<HistoryEntry>) -> bool,
    ) -> SqlResult<()> {
        for day in self.history.days_within(range_ms).map_err(unreadable)?.into_iter().rev() {
            let entry = |row: &RollUpRow| {
                let name = self.published.names.get(row.tenant)?;
                Some(history_of(row, name, self.history.volume_names()))
            };
            let mut give = |block: RollUpBlock| each(block.rows.iter().filter_map(entry).collect());
            let goes_on = match self.of {
                Some(_) => self.history.read_day(day, self.of).map(give),
                None => self.history.each_part_of_day(day, TOLD_ROWS_MAX, &mut give),
            };
            if !goes_on.map_err(unreadable)? {
                break;
            }
        }
        Ok(())
    }
}

impl LedgerRows for View {
    fn ledger(&self) -> Vec<LedgerEntry> {
        let rows = self.published.rows.iter().flat_map(|rows| rows.iter());
        let entry = |row: &LedgerRow| {
            self.published.tenants.get(&row.tenant)?;
            let name = self.published.names.get(row.tenant)?;
            Some(entry_of(row, name, &self.published.volumes, &self.clock))
        };
        rows.filter(|row| self.shows(row.tenant)).filter_map(entry).collect()
    }

    fn tenant_usage(&self) -> Vec<UsageEntry> {
        let Some(shared) = self.shared.upgrade() else { return Vec::new() };
        let known = self.known(&shared).into_iter();
        known.map(|(entry, account)| self.usage_of(&shared, &entry, account)).collect()
    }

    fn history(&self, each: &mut dyn FnMut(HistoryEntry) -> bool) -> SqlResult<()> {
        let history = self.own_history();
        let mut give = |row: &RollUpRow| {
            let name = self.published.names.get(row.tenant);
            name.is_none_or(|name| each(history_of(row, name, history.volume_names())))
        };
        history.each_row(self.of, &mut give).map_err(unreadable)
    }

    fn advice(&self, tenant: &str, p99: Option<Nanos>) -> SqlResult<Vec<AdviceEntry>> {
        let Some(shared) = self.shared.upgrade() else { return Ok(Vec::new()) };
        let candidates = Candidates::of(&shared, self.of, tenant)?;
        let _place = self.of.map(|of| shared.ledger.place_to_advise(of)).transpose()?;
        let history = self.own_history();
        let recorded = history.read(candidates.tenant).map_err(unreadable)?;
        let curve = shared.memory_meters.curve(candidates.tenant);
        Ok(candidates.advise(&recorded, &curve, p99, history.volume_names()))
    }

    fn statements(&self) -> Vec<StatementRow> {
        let Some(shared) = self.shared.upgrade() else { return Vec::new() };
        let shown = shared.tenants.list().into_iter().filter(|(_, entry)| self.shows(entry.id));
        let mut rows: Vec<StatementRow> =
            shown.flat_map(|(name, entry)| statements_of(&name, &entry)).collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.figures.taken.cpu));
        rows
    }

    fn tenant_waits(&self) -> Vec<WaitEntry> {
        let Some(shared) = self.shared.upgrade() else { return Vec::new() };
        let known = self.known(&shared).into_iter();
        known.flat_map(|(entry, _)| waits_of(&shared, &entry)).collect()
    }
}

fn statements_of(tenant: &str, entry: &Entry) -> Vec<StatementRow> {
    let shown = entry.home.statements().show();
    let row = |query: Option<&str>, figures: StatementFigures, dropped| StatementRow {
        tenant: tenant.to_owned(),
        query: query.map(str::to_owned),
        figures,
        dropped,
        since: shown.since,
    };
    let texts = shown.texts.iter().map(|text| row(Some(text.text()), text.figures, None));
    let others = (shown.dropped > 0).then(|| row(None, shown.others, Some(shown.dropped)));
    texts.chain(others).collect()
}

fn unreadable(error: std::io::Error) -> SqlError {
    SqlError::new(SqlState::IO_ERROR, format!("the ledger's history cannot be read: {error}"))
}

fn waits_of(shared: &Shared, entry: &Entry) -> impl Iterator<Item = WaitEntry> + use<> {
    let name = entry.row().name;
    shared.spent_by(entry.id).named().into_iter().map(move |(wait, (time, count))| WaitEntry {
        tenant: name.clone(),
        wait,
        seconds: time.as_secs_f64(),
        count,
    })
}

/// In the unit that people are shown: core-seconds of processor time, numbers of I/Os.
fn shown(resource: Resource, amount: u64) -> f64 {
    amount as f64 / resource.priced_unit() as f64
}

/// What there is to say of a tenant's own limit: of processor time all, of I/O what others waited for.
fn shown_limit(resource: Resource, of: OwnLimit) -> [Option<f64>; 4] {
    let is_told = match resource {
        Resource::Cpu => [true; 4],
        Resource::Io { .. } => [false, false, false, true],
        Resource::Memory | Resource::WorkMemory => [false; 4],
    };
    let parts = [of.held, of.debt, of.forgiven, of.awaited];
    std::array::from_fn(|part| is_told[part].then(|| shown(resource, parts[part])))
}

fn volume_of(resource: Resource, volumes: &[String]) -> Option<String> {
    match resource {
        Resource::Io { volume } => volumes.get(volume as usize).cloned(),
        _ => None,
    }
}

fn history_of(row: &RollUpRow, tenant: &str, volumes: &[String]) -> HistoryEntry {
    let amount = |amount| shown(row.resource, amount);
    let [overbooked, system, neighbour, device] = row.broken;
    let [held, debt, forgiven, awaited] = shown_limit(row.resource, row.own_limit);
    HistoryEntry {
        tenant: tenant.to_owned(),
        resource: row.resource.as_str(),
        volume: volume_of(row.resource, volumes),
        began: crate::session::from_unix_seconds(i64::from(row.from.0) * 60),
        minutes: row.minutes,
        intervals: row.intervals,
        overbooked,
        system,
        neighbour,
        device,
        active: row.active.as_secs_f64(),
        promised: amount(row.promised),
        demanded: amount(row.demanded),
        given: amount(row.given),
        missed: amount(row.missed),
        over: amount(row.over),
        held,
        debt,
        forgiven,
        awaited,
        delay_p99: row.delays_worst.map(|delays| delays.p99.as_secs_f64()),
        owed: row.owed_micros as f64 / 1e6,
    }
}

fn entry_of(row: &LedgerRow, tenant: &str, volumes: &[String], clock: &WallClock) -> LedgerEntry {
    let amount = |amount| shown(row.resource, amount);
    let [held, debt, forgiven, awaited] = shown_limit(row.resource, row.own_limit);
    LedgerEntry {
        tenant: tenant.to_owned(),
        resource: row.resource.as_str(),
        volume: volume_of(row.resource, volumes),
        began: clock.at(row.from),
        ended: clock.at(row.to),
        active: row.active.as_secs_f64(),
        promised: amount(row.promised),
        demanded: amount(row.demanded),
        given: amount(row.given),
        missed: amount(row.missed),
        by_chance: (row.resource == Resource::Memory && !row.is_kept()).then(|| amount(row.by_chance)),
        over: amount(row.over),
        held,
        debt,
        forgiven,
        awaited,
        cause: row.cause.map(Cause::as_str),
        delay_p99: row.delays.map(|delays| delays.p99.as_secs_f64()),
        delay_max: row.delays.map(|delays| delays.max.as_secs_f64()),
        owed: row.owed_micros as f64 / 1e6,
    }
}
