//! The server as a session sees it.

use std::sync::Arc;

use base::{Nanos, SqlResult, TenantId};
use sql::session::{
    BackendRow, BackendSignals, Field, HostStatement, LedgerRows, Reach, SessionHost, StatementCounts,
    StatementText, Taken, Underway,
};

use super::control::Control;
use super::long_input::LongInput;
use super::signals::Signals;
use super::watch::Watch;
use crate::executor::{self, TaskUse};
use crate::passwords;
use crate::shared::Shared;
use crate::tenants::{StatementTable, statements};

/// Seconds from 1970 to 2000, where PostgreSQL's time begins.
pub(crate) const POSTGRES_EPOCH_MICROS: i64 = 946_684_800 * 1_000_000;
/// Rows of `pg_stat_activity` that are made at once.
const BACKENDS_A_LOOK: usize = 64;

/// [`SessionHost`] for one session.
pub(crate) struct Host {
    shared: Arc<Shared>,
    control: Arc<Control>,
    watch: Arc<Watch>,
    counted: Option<Counted>,
    kept: Option<Arc<LongInput>>,
}

/// Where what a session's statements take is counted.
pub(crate) struct Counted {
    pub(crate) table: Arc<StatementTable>,
    /// Of the session's task.
    pub(crate) used: Arc<TaskUse>,
}

impl Host {
    /// `counted` and `kept`: `None` for the server's own statements, which are in no statistics and have no client.
    pub(crate) fn new(
        shared: Arc<Shared>,
        control: Arc<Control>,
        watch: Arc<Watch>,
        counted: Option<Counted>,
        kept: Option<Arc<LongInput>>,
    ) -> Host {
        Host { shared, control, watch, counted, kept }
    }

    /// Whose doings this session may see; `None` for all.
    fn visible(&self, reach: Reach) -> Option<TenantId> {
        (!self.reaches_all(reach)).then_some(self.control.tenant)
    }

    fn reaches_all(&self, reach: Reach) -> bool {
        self.control.administrator && reach == Reach::Server
    }
}

/// Seconds since 1970 as PostgreSQL counts time.
pub(crate) fn from_unix_seconds(seconds: i64) -> i64 {
    seconds * 1_000_000 - POSTGRES_EPOCH_MICROS
}

/// Wall-clock time as PostgreSQL counts it.
pub(crate) fn wall_clock(env: &env::Env) -> i64 {
    env.clock.unix_micros() - POSTGRES_EPOCH_MICROS
}

impl SessionHost for Host {
    fn wall_clock(&self) -> i64 {
        wall_clock(&self.shared.env)
    }
    fn now(&self) -> Nanos {
        self.shared.env.now()
    }
    fn server_start(&self) -> i64 {
        self.shared.start
    }
    fn random(&self, bytes: &mut [u8]) {
        self.shared.env.entropy.fill(bytes);
    }
    fn backends(&self, reach: Reach, statement: &Underway) -> Vec<BackendRow> {
        let sessions = self.shared.sessions.list(self.visible(reach));
        let mut rows = Vec::with_capacity(sessions.len());
        for (number, control) in sessions.iter().enumerate() {
            if number % BACKENDS_A_LOOK == BACKENDS_A_LOOK - 1 {
                // Whether it is to end, its query is asked.
                self.is_to_end(statement);
            }
            rows.push(control.activity().clone());
        }
        rows
    }
    fn ledger(&self, reach: Reach) -> Arc<dyn LedgerRows> {
        self.shared.ledger.view(&self.shared, self.visible(reach))
    }
    fn statement_counts(&self, sql: &str) -> Option<Arc<StatementCounts>> {
        Some(self.counted.as_ref()?.table.counts(&sql::normal_text(sql)))
    }
    fn statement_counts_again(&self, dropped: &Arc<StatementCounts>) -> Arc<StatementCounts> {
        let counted = self.counted.as_ref();
        counted.map_or_else(|| dropped.clone(), |counted| counted.table.counts_again(dropped))
    }
    fn shared_plans(&self) -> Option<&sql::session::SharedPlans> {
        Some(&self.shared.plans)
    }
    fn taken(&self) -> Taken {
        let taken = |counted: &Counted| counted.used.taken();
        self.counted.as_ref().map(taken).map(|(cpu, ios)| Taken { cpu, ios }).unwrap_or_default()
    }
    fn reset_statements(&self) {
        if let Some(counted) = &self.counted {
            counted.table.reset(self.wall_clock());
        }
    }
    fn report_activity(&self, state: &'static str, query: Option<&str>, since: i64) {
        self.control.report(state, query, since);
    }
    fn report_statement(&self, text: &Arc<StatementText>, since: i64) {
        self.control.report_statement(text, since);
    }
    fn signals(&self, reach: Reach) -> Arc<dyn BackendSignals> {
        let all_tenants = self.reaches_all(reach);
        Arc::new(Signals { shared: self.shared.clone(), control: self.control.clone(), all_tenants })
    }
    fn is_to_end(&self, statement: &Underway) -> bool {
        // What others do meanwhile is not the statement's.
        let passing = || self.watch.pass_turn(Some(statement), self.now());
        let going_on = || self.watch.begin_turn(|| self.now());
        executor::preemption_point(passing, going_on);
        self.control.is_pending() || self.watch.is_over(statement, || self.now())
    }
    fn give_way(&self) {
        // Nobody judges what an end takes: it is no statement's any more.
        let passing = || self.watch.pass_turn(None, self.now());
        executor::preemption_point(passing, || self.watch.begin_turn(|| self.now()));
    }
    fn keep(&self, bytes: u64) -> SqlResult<()> {
        self.kept.as_ref().map_or(Ok(()), |kept| kept.keep(bytes))
    }
    fn keeps_much(&self) -> bool {
        self.kept.as_ref().is_some_and(|kept| kept.is_much())
    }
    fn report_application(&self, name: &str) {
        self.control.show_application(name);
    }
    fn is_watching(&self) -> bool {
        self.watch.is_watching()
    }
    fn has_taken(&self, statement: &Underway) -> SqlResult<()> {
        self.watch.at_end(statement, || self.now()).map_or(Ok(()), Err)
    }
    fn statement_time_max(&self) -> Option<Nanos> {
        self.watch.time_max()
    }
    fn connections_max(&self) -> u32 {
        self.control.connections_max
    }
    fn has_analytic_path(&self) -> bool {
        self.shared.config.analytic.is_some()
    }
    fn password_verifier(&self, password: &str) -> SqlResult<String> {
        passwords::stored(password.to_owned(), &self.shared.env)
    }
    fn statement_fields(&self, statement: &HostStatement) -> Vec<Field> {
        statements::fields(statement)
    }
    fn snapshot_taken(&self, pause: Nanos) {
        self.shared.snapshot_pauses.record(pause);
    }
    fn databases(&self, reach: Reach) -> Vec<String> {
        // A tenant learns of no other.
        if self.reaches_all(reach) {
            self.shared.tenants.databases()
        } else {
            vec![self.control.activity().database.clone()]
        }
    }
}
