//! What a session asks of the server it runs in.

use std::sync::Arc;

use base::{Nanos, SessionId, SqlResult};

use super::{
    BackendSignals, Field, HostStatement, StatementCounts, StatementFigures, StatementText, Taken, Underway,
};

/// How a connection is encrypted, for `pg_stat_ssl`.
#[derive(Clone, Debug)]
pub struct TlsRow {
    /// `TLSv1.3`
    pub version: String,
    /// `TLS_AES_256_GCM_SHA384`
    pub cipher: String,
    pub bits: u16,
}

/// A row of `pg_stat_activity`.
#[derive(Clone, Debug, Default)]
pub struct BackendRow {
    pub pid: SessionId,
    pub database: String,
    pub user: String,
    pub application_name: String,
    pub client_address: Option<String>,
    pub client_port: Option<u16>,
    /// The protocol and cipher of an encrypted connection.
    pub tls: Option<TlsRow>,
    /// Microseconds since 2000-01-01 UTC, as the three below.
    pub backend_start: i64,
    pub transaction_start: Option<i64>,
    pub query_start: Option<i64>,
    pub state_change: Option<i64>,
    /// `active`, `idle`, `idle in transaction`, …
    pub state: &'static str,
    /// Its type and name, as PostgreSQL's where there is one.
    pub wait_event: Option<(&'static str, &'static str)>,
    pub query: String,
}

impl BackendRow {
    /// What it takes in memory, by estimate.
    pub(super) fn size(&self) -> usize {
        let names = self.database.len() + self.user.len() + self.application_name.len();
        size_of::<BackendRow>() + names + self.query.len()
    }
}

/// A row of `rowhouse.ledger`: one tenant, one resource, one metering interval. Amounts are core-seconds, or numbers of I/Os.
#[derive(Clone, Debug)]
pub struct LedgerEntry {
    pub tenant: String,
    pub resource: &'static str,
    /// Of I/O.
    pub volume: Option<String>,
    /// Microseconds since 2000-01-01 UTC, as below.
    pub began: i64,
    pub ended: i64,
    /// Seconds of the interval in which the tenant wanted anything.
    pub active: f64,
    pub promised: f64,
    /// The part of it that there was demand for.
    pub demanded: f64,
    pub given: f64,
    pub missed: f64,
    /// Of memory, whose shortfall is found by a sample: the most of `missed` that may be chance all the same; `None` where nothing is missed.
    pub by_chance: Option<f64>,
    /// More than the limit.
    pub over: f64,
    /// Of processor time: what of the reservation the tenant's own limit kept from it, for what it had taken beyond it before; what it has taken beyond it
    /// by the interval's end and is yet to be stopped for; what it took beyond it and will not be stopped for; and what of `given` others waited for,
    /// which the limit does not hold. The last of I/O too.
    pub held: Option<f64>,
    pub debt: Option<f64>,
    pub forgiven: Option<f64>,
    pub awaited: Option<f64>,
    /// Why, if something was missed.
    pub cause: Option<&'static str>,
    /// How late requests with a deadline were, in seconds.
    pub delay_p99: Option<f64>,
    pub delay_max: Option<f64>,
    /// The price of what was missed.
    pub owed: f64,
}

/// A row of `rowhouse.tenant_usage`: in the last metering interval, and since the server's start. I/Os of all volumes.
#[derive(Clone, Debug)]
pub struct UsageEntry {
    pub tenant: String,
    /// Cores used, wanted of what was promised, promised, and the limit.
    pub cpu: f64,
    pub cpu_demanded: f64,
    pub cpu_promised: f64,
    pub cpu_max: Option<f64>,
    pub cpu_seconds: f64,
    pub cpu_demanded_seconds: f64,
    pub cpu_missed_seconds: f64,
    pub io: u64,
    pub io_demanded: u64,
    pub io_missed: u64,
    pub io_bytes: u64,
    pub owed: f64,
    pub resident_bytes: u64,
    pub page_reads: u64,
    pub page_writes: u64,
    pub sessions: u64,
}

/// A row of `rowhouse.ledger_history`: one tenant, one resource, one minute or longer. Sums, in the units of [`LedgerEntry`].
#[derive(Clone, Debug)]
pub struct HistoryEntry {
    pub tenant: String,
    pub resource: &'static str,
    /// Of I/O.
    pub volume: Option<String>,
    /// Microseconds since 2000-01-01 UTC.
    pub began: i64,
    pub minutes: u32,
    /// Metering intervals with anything in them, and those in which the promise was broken, by cause.
    pub intervals: u64,
    pub overbooked: u64,
    pub system: u64,
    pub neighbour: u64,
    pub device: u64,
    /// Seconds.
    pub active: f64,
    pub promised: f64,
    pub demanded: f64,
    pub given: f64,
    pub missed: f64,
    pub over: f64,
    /// As in [`LedgerEntry`]; of its debts the largest.
    pub held: Option<f64>,
    pub debt: Option<f64>,
    pub forgiven: Option<f64>,
    pub awaited: Option<f64>,
    /// The worst interval's, in seconds.
    pub delay_p99: Option<f64>,
    pub owed: f64,
}

/// A row of `rowhouse.tenant_waits`: since the server's start, waits that have ended.
#[derive(Clone, Debug)]
pub struct WaitEntry {
    pub tenant: String,
    /// `running` for the processor time itself.
    pub wait: &'static str,
    /// Of all its tasks together.
    pub seconds: f64,
    pub count: u64,
}

/// A row of `rowhouse.statements`: what statements of one text took.
#[derive(Clone, Debug)]
pub struct StatementRow {
    pub tenant: String,
    /// [`crate::normal_text`]; `None` for those whose own counts were dropped.
    pub query: Option<String>,
    pub figures: StatementFigures,
    /// Texts whose counts were dropped, where there is no query.
    pub dropped: Option<u64>,
    /// Since when the tenant's statements are counted, in microseconds since 2000-01-01 UTC.
    pub since: Option<i64>,
}

/// A row of `rowhouse.advise`: a promise that a tenant could have, and what of what is on record it would have been too little for.
#[derive(Clone, Debug, Default)]
pub struct AdviceEntry {
    /// `proposed`, `present`, `proposed size` or `size`.
    pub candidate: &'static str,
    pub size: Option<String>,
    /// Cores.
    pub cpu: f64,
    pub iops: u64,
    /// As ALTER TENANT takes it.
    pub memory: String,
    pub work_memory: String,
    /// `None` if nothing is on record.
    pub found: Option<AdviceFound>,
    pub note: Option<String>,
}

/// What is on record, held against a promise.
#[derive(Clone, Debug)]
pub struct AdviceFound {
    /// The options that are too little, as `cpu, iops`; `None` if it is enough.
    pub too_little: Option<String>,
    /// In core-seconds.
    pub cpu: AdviceShortfall,
    /// Of the volume where it is the largest, by the volume's name, in I/Os.
    pub io: Option<(String, AdviceShortfall)>,
    /// Page I/Os more than with the largest cache that was simulated.
    pub cache_excess: Option<u64>,
    /// Statements that would have spilled, and those that needed working memory.
    pub spills: (u64, u64),
    pub keeps_p99: Option<bool>,
    /// The first minute on record, in microseconds since 2000-01-01 UTC.
    pub since: i64,
}

/// Metering intervals in which it would have been too little, between two bounds, and how much was missing in them together.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AdviceShortfall {
    /// Intervals on record.
    pub intervals: u64,
    pub broken: (u64, u64),
    pub missed: (f64, f64),
}

/// A row of `pg_locks`.
#[derive(Clone, Debug, Default)]
pub struct LockRow {
    pub lock_type: &'static str,
    pub relation: Option<u32>,
    /// `classid`, `objid` and `objsubid` of an advisory lock.
    pub key: Option<(u32, u32, i16)>,
    pub pid: SessionId,
    pub mode: &'static str,
    pub granted: bool,
    /// The sessions that one that waits waits for.
    pub blocked_by: Vec<SessionId>,
}

/// The ledger as one session may see it, as it was at one instant. Its calls take no lock and cost as much as there are rows, and the
/// history reads files: an analytical thread makes them.
pub trait LedgerRows: Send + Sync {
    /// Oldest rows first: of the session's tenant (of all, for the administrator).
    fn ledger(&self) -> Vec<LedgerEntry>;
    /// What the session's tenant uses (every one that did anything, for the administrator).
    fn tenant_usage(&self) -> Vec<UsageEntry>;
    /// Calls `each` for the rows of the ledger by the minute of the last 62 days, the oldest first, until it says to stop. What is read for it is the session's tenant's. Blocks.
    ///
    /// # Errors
    /// 58030: it cannot be read.
    fn history(&self, each: &mut dyn FnMut(HistoryEntry) -> bool) -> SqlResult<()>;
    /// What the tasks of the session's tenant waited for (of every one that did anything, for the administrator).
    fn tenant_waits(&self) -> Vec<WaitEntry>;
    /// What the statements of the session's tenant took (of every one, for the administrator), those that took the most processor time first.
    fn statements(&self) -> Vec<StatementRow>;
    /// What to promise a tenant, so that 99 of 100 statements take no longer than `p99` if there is one: what is proposed, what it has,
    /// then the named sizes from small to large. Blocks.
    ///
    /// # Errors
    /// 42501 for another tenant than the session's (but for the administrator), 3D000 for one that does not exist, 58030: what is on record
    /// cannot be read.
    fn advice(&self, tenant: &str, p99: Option<Nanos>) -> SqlResult<Vec<AdviceEntry>>;
}

/// No rows.
impl LedgerRows for () {
    fn ledger(&self) -> Vec<LedgerEntry> {
        Vec::new()
    }
    fn tenant_usage(&self) -> Vec<UsageEntry> {
        Vec::new()
    }
    fn history(&self, _: &mut dyn FnMut(HistoryEntry) -> bool) -> SqlResult<()> {
        Ok(())
    }
    fn tenant_waits(&self) -> Vec<WaitEntry> {
        Vec::new()
    }
    fn statements(&self) -> Vec<StatementRow> {
        Vec::new()
    }
    fn advice(&self, _: &str, _: Option<Nanos>) -> SqlResult<Vec<AdviceEntry>> {
        Ok(Vec::new())
    }
}

/// Whose doings a session is shown, and whose sessions it may act upon.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// Its own tenant's.
    Tenant,
    /// Every tenant's: while it acts as the administrator.
    Server,
}

/// The server as a session sees it. Calls return at once and are made from the tenant's home worker.
pub trait SessionHost: Send + Sync {
    /// Microseconds since 2000-01-01 UTC.
    fn wall_clock(&self) -> i64;
    /// Monotonic time.
    fn now(&self) -> Nanos;
    /// When the server began, as [`SessionHost::wall_clock`] counts time; the same for as long as it runs.
    fn server_start(&self) -> i64 {
        0
    }
    /// Fills with unpredictable bytes.
    fn random(&self, bytes: &mut [u8]);
    /// The sessions within reach, for a statement that shows them. They may be many: as [`SessionHost::is_to_end`] it has others have their turns.
    fn backends(&self, reach: Reach, statement: &Underway) -> Vec<BackendRow>;
    /// The ledger as it is now.
    fn ledger(&self, reach: Reach) -> Arc<dyn LedgerRows> {
        let _ = reach;
        Arc::new(())
    }
    /// What is counted of the tenant's statements that have the normal text of `sql`; `None` if nothing is.
    fn statement_counts(&self, sql: &str) -> Option<Arc<StatementCounts>> {
        let _ = sql;
        None
    }
    /// What is counted from now on of statements whose counts were dropped.
    fn statement_counts_again(&self, dropped: &Arc<StatementCounts>) -> Arc<StatementCounts> {
        dropped.clone()
    }
    /// What plans its sessions have in common with others; `None` where each has its own.
    fn shared_plans(&self) -> Option<&super::SharedPlans> {
        None
    }
    /// What the session's task took since its beginning, queries on other threads left out until they end or are given up.
    fn taken(&self) -> Taken {
        Taken::default()
    }
    /// Has the tenant's statements be counted from nothing again.
    fn reset_statements(&self) {}
    /// Tells what this session does since `since`, for `pg_stat_activity`: a statement's text when it begins, `None` when it
    /// has ended.
    fn report_activity(&self, state: &'static str, query: Option<&str>, since: i64);
    /// As [`SessionHost::report_activity`] of a prepared statement that begins: its text may be kept until somebody wants to see it.
    fn report_statement(&self, text: &Arc<StatementText>, since: i64) {
        self.report_activity("active", Some(&text[..]), since);
    }
    /// The sessions that this one may act upon.
    fn signals(&self, reach: Reach) -> Arc<dyn BackendSignals> {
        let _ = reach;
        Arc::new(())
    }
    /// Whether the statement is to end, since its time is up, it took too much, or somebody asked for its or the session's end: why is
    /// to be looked at at [`super::Pause::Yield`]. Asked every few hundred rows.
    fn is_to_end(&self, statement: &Underway) -> bool {
        statement.deadline().is_some_and(|deadline| self.now() >= deadline)
    }
    /// The end of a large transaction is under way, and others may have their turns before it goes on. Called every few changes.
    fn give_way(&self) {}
    /// The session keeps so many bytes of its client's messages from now on, parsed or not, in place of what it kept before.
    ///
    /// # Errors
    /// 53200 where that is more than its tenant may have together; the session keeps what it kept.
    fn keep(&self, bytes: u64) -> SqlResult<()> {
        let _ = bytes;
        Ok(())
    }
    /// Whether the tenant's sessions keep so much that others of them may soon be refused.
    fn keeps_much(&self) -> bool {
        false
    }
    /// `application_name` is this now.
    fn report_application(&self, name: &str) {
        let _ = name;
    }
    /// Whether anything is held against what statements take. Asked at the beginning and the end of each.
    fn is_watching(&self) -> bool {
        false
    }
    /// The statement has run to its end, and nothing of it is committed: whether it took too much.
    ///
    /// # Errors
    /// 57014 if so.
    fn has_taken(&self, statement: &Underway) -> SqlResult<()> {
        let _ = statement;
        Ok(())
    }
    /// How long any statement of the session may run, whatever its `statement_timeout`; `None` for no limit.
    fn statement_time_max(&self) -> Option<Nanos> {
        None
    }
    /// How many sessions like this one there may be at a time.
    fn connections_max(&self) -> u32 {
        100
    }
    /// Whether [`super::Pause::Analytic`] is answered: without, a query that examines or misses much stays on the point path.
    fn has_analytic_path(&self) -> bool {
        true
    }
    /// A password as it is stored: PostgreSQL's `SCRAM-SHA-256$…` form. One that has this form already is kept.
    ///
    /// # Errors
    /// 0A000 for an MD5 digest.
    fn password_verifier(&self, password: &str) -> SqlResult<String>;
    /// The columns of what [`super::Pause::Host`] will answer; empty for a statement without rows.
    fn statement_fields(&self, statement: &HostStatement) -> Vec<Field> {
        let _ = statement;
        Vec::new()
    }
    /// A snapshot was taken for an analytical query: how long its making, with all that goes with it, held the worker.
    fn snapshot_taken(&self, pause: Nanos) {
        let _ = pause;
    }
    /// Names of the databases within reach, for `\l`.
    fn databases(&self, reach: Reach) -> Vec<String>;
}
