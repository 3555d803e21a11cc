//! What a connection owns between its statements: settings, prepared statements, portals, the open transaction.
//!
//! The server drives a session by calling it within turns of the tenant's home worker. A call either finishes or returns a
//! [`Pause`] that says what to await before the same call is made again; the session has then undone the statement (its locks
//! stay). Nothing here blocks.

mod analytic;
#[cfg(test)]
mod analytic_tests;
mod binding;
mod catalog_change;
#[cfg(test)]
mod clock_tests;
mod context;
#[cfg(test)]
mod copy_tests;
mod copying;
mod counting;
mod cursor;
mod date_style;
#[cfg(test)]
mod deep_tests;
mod explain;
mod extended;
#[cfg(test)]
mod hold_tests;
mod host;
#[cfg(test)]
mod keeping_tests;
mod kept_rows;
#[cfg(test)]
mod message_tests;
mod names;
mod notice;
mod output_bounds;
mod planning;
mod portals;
mod prepared;
mod privilege;
#[cfg(test)]
mod privilege_tests;
mod query_control;
mod random_bits;
mod reading;
mod reply;
mod role;
#[cfg(test)]
mod role_tests;
#[cfg(test)]
mod room_tests;
mod row_store;
mod run;
#[cfg(test)]
mod savepoint_tests;
mod script;
mod search_path;
mod setting;
mod setting_statement;
#[cfg(test)]
mod setting_tests;
mod shared_plans;
mod signals;
mod slices;
#[cfg(test)]
mod snapshot_tests;
#[cfg(test)]
mod soon_tests;
pub mod stand_in;
mod start_setting;
mod statement_counts;
mod temp_space;
#[cfg(test)]
pub(crate) mod testing;
mod time_zone;
mod transaction;
mod underway;
mod utility;

use std::cell::RefCell;
use std::sync::Arc;

use base::{Lsn, Nanos, SessionId, Severity, SqlError, SqlResult, TenantId};
use tenant::{RedoSink, Tenant};
use types::FormatContext;

pub use crate::copy::CopyEncoder;
pub use crate::parse::{CopyOptions, HostStatement, OptionChange};
pub use analytic::{AnalyticEvent, AnalyticRequest, Deliver, PreparedRow, QueryContext, QueryLimits};
pub use context::version_text;
pub use counting::StatementText;
pub use host::{
    AdviceEntry, AdviceFound, AdviceShortfall, BackendRow, HistoryEntry, LedgerEntry, LedgerRows, LockRow,
    Reach, SessionHost, StatementRow, TlsRow, UsageEntry, WaitEntry,
};
pub use names::{PathNames, is_visible, qualified_name, relation_name};
pub use query_control::QueryControl;
pub use random_bits::RandomBits;
pub use reading::LONG_TEXT_MIN;
pub(crate) use reply::message;
pub use reply::{CopyShape, Field, Format, Formats, Reply, encode_row, write_value};
pub use role::password_cleared;
pub use row_store::{LoadedRows, RowStore, RowStoreWriter, StoredRowsRead};
pub(crate) use setting::described_settings;
pub use setting::{SERVER_VERSION, SettingFacts, setting_facts};
pub use shared_plans::SharedPlans;
pub use signals::{BackendSignals, may_act_for, signal_backend};
pub use statement_counts::{StatementCounts, StatementFigures, StatementTook, Taken};
pub use temp_space::{TempBytes, TempFile, TempSpace};
pub use underway::Underway;
pub use utility::lock_rows;

use analytic::AnalyticState;
use context::{Sequences, Sleeps};
use copying::CopyIn;
use counting::{Counting, Outcome};
use kept_rows::Giving;
use portals::Portals;
use prepared::Statements;
use script::{ClockRead, Script};
use setting::{Id, Settings};
use signals::SentSignals;
use slices::{FilledTable, Slicing};
use transaction::Transaction;
use underway::Progress;

/// Why a call could not finish in this turn. All but `Error` mean: await it, then make the same call again.
pub enum Pause {
    /// Another transaction holds a lock.
    Lock(tenant::locks::LockWait),
    /// Pages are on disk only: read them, all at a time, and hand them to [`Tenant::page_loaded`]. At least one.
    Pages(Vec<tenant::PageRequest>),
    /// Changed pages take too much of the memory for the statement or the commit to begin.
    Memory(tenant::WriterWait),
    /// Run this on an analytical thread and feed its events to [`Session::analytic_event`].
    Analytic(Box<AnalyticRequest>),
    /// `pg_sleep`: await this long.
    Sleep(Nanos),
    /// The tenant is over a limit of its own: await this long.
    OwnCap(Nanos),
    /// Rows that the session has put aside are in a temporary file: read them, and hand them to [`Session::stored_rows_loaded`].
    StoredRows(StoredRowsRead),
    /// Run this for the session at the server (tenants' administration), then give its outcome to
    /// [`Session::host_done`].
    Host(HostStatement),
    /// Send what is buffered, give other tasks their turn, and see whether the statement is to go on: its time may be up
    /// ([`Session::underway`]), its end asked for ([`SessionHost::is_to_end`]).
    Yield,
    /// A long statement has come a step further: as [`Pause::Yield`], and wait until the log is durable through this position,
    /// so that it does not run away from the disk.
    Slice(Lsn),
    /// The call failed. The session has noted it (an open transaction is failed); tell the client.
    Error(SqlError),
}

impl std::fmt::Debug for Pause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Pause::Lock(wait) => f.debug_tuple("Lock").field(wait).finish(),
            Pause::Pages(requests) => write!(f, "Pages({})", requests.len()),
            Pause::Memory(wait) => f.debug_tuple("Memory").field(wait).finish(),
            Pause::Analytic(request) => f.debug_tuple("Analytic").field(request).finish(),
            Pause::Sleep(time) => f.debug_tuple("Sleep").field(time).finish(),
            Pause::OwnCap(time) => f.debug_tuple("OwnCap").field(time).finish(),
            Pause::StoredRows(read) => f.debug_tuple("StoredRows").field(read).finish(),
            Pause::Host(statement) => f.debug_tuple("Host").field(statement).finish(),
            Pause::Yield => f.write_str("Yield"),
            Pause::Slice(end) => f.debug_tuple("Slice").field(end).finish(),
            Pause::Error(error) => f.debug_tuple("Error").field(error).finish(),
        }
    }
}

impl From<SqlError> for Pause {
    fn from(error: SqlError) -> Pause {
        Pause::Error(error)
    }
}

/// What the server answers to a [`HostStatement`].
#[derive(Clone, Debug)]
pub enum HostOutcome {
    /// The command tag, and what the client is told beside it.
    Done {
        tag: &'static str,
        notices: Vec<SqlError>,
    },
    Rows {
        fields: Vec<Field>,
        rows: Vec<types::Row>,
        tag: &'static str,
    },
    /// The server takes in what the client sends as the data of a COPY, and makes [`Session::copy_done`] when it has it all;
    /// then the command tag.
    CopyIn(&'static str),
}

/// How a call ended that did not pause.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Executed {
    /// The message is answered.
    Complete,
    /// `COPY … FROM STDIN` has begun: feed [`Session::copy_data`], then [`Session::copy_done`] or [`Session::copy_fail`], and
    /// only after that go on with the message that began it.
    CopyIn,
}

/// What a new session is told about itself.
pub struct SessionStart {
    pub id: SessionId,
    pub tenant: TenantId,
    pub database: String,
    /// The authenticated role; it exists in the tenant's catalog, or is the administrator.
    pub user: String,
    /// True for the administrator's account, who may do everything in every tenant.
    pub administrator: bool,
    /// `client_encoding`, `DateStyle`, `application_name`, `options` and the like, as the client sent them.
    pub parameters: Vec<(String, String)>,
    pub host: Arc<dyn SessionHost>,
}

/// Time limits in force for the session now; `None` for no limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Timeouts {
    pub statement: Option<Nanos>,
    pub lock: Option<Nanos>,
    pub idle_in_transaction: Option<Nanos>,
    pub idle: Option<Nanos>,
}

/// A Bind message.
#[derive(Clone, Copy, Debug)]
pub struct Bind<'a> {
    pub portal: &'a str,
    pub statement: &'a str,
    /// None, one for all, or one each.
    pub parameter_formats: &'a [i16],
    pub parameters: &'a [Option<&'a [u8]>],
    /// None, one for all, or one each.
    pub result_formats: &'a [i16],
}

/// The tenant of a session and the log its commits go to, for the length of one call.
pub struct Home<'a> {
    pub tenant: &'a mut Tenant,
    pub redo: &'a mut dyn RedoSink,
}

/// A session of one tenant.
pub struct Session {
    start: SessionStart,
    /// The role that it acts as is one of them.
    settings: RefCell<Settings>,
    transaction: Transaction,
    statements: Statements,
    portals: Portals,
    script: Option<Script>,
    /// What the statements of `script` take in memory, by estimate.
    script_size: usize,
    /// What was told last of what the session keeps of its client's messages.
    told: u64,
    /// Since when a text waits for room to be read.
    waits_for_room: Option<Nanos>,
    analytic: AnalyticState,
    host_outcome: Option<SqlResult<HostOutcome>>,
    copy_in: Option<CopyIn>,
    /// The statement under way, if it runs in slices.
    slicing: Option<Slicing>,
    /// The CREATE TABLE AS under way, once its table is made and while that is filled.
    filling: Option<FilledTable>,
    /// What the FETCH or Execute under way has still to give out.
    giving: Option<Giving>,
    /// What was read last of rows put aside, until it is taken in.
    loaded_rows: Option<LoadedRows>,
    /// What the ANALYZE under way has gathered.
    analysis: Option<crate::ddl::Analysis>,
    /// A COPY whose data the server takes in itself: the command tag at its end.
    host_copy: Option<&'static str>,
    observed: Option<Lsn>,
    sequences: RefCell<Sequences>,
    /// Whether the Execute that is called next is one that paused.
    is_executing: bool,
    /// Whether a Sync has come behind the Execute that is called next.
    sync_follows: bool,
    /// The rows that the portal under way will ever give; `None` where it may be asked for all.
    rows_wanted: Option<u32>,
    /// Of the running statement.
    sleeps: Sleeps,
    signals: RefCell<SentSignals>,
    progress: Progress,
    counting: Counting,
    /// Microseconds since 2000-01-01 UTC.
    transaction_start: i64,
    statement_start: i64,
    clock_read: ClockRead,
    /// Built from the settings; renewed when one of them changes.
    format: Arc<FormatContext>,
    /// [`Settings::epoch`] when `format` was built.
    format_epoch: u64,
    names: Option<Arc<PathNames>>,
    /// What the client is still to be told of its start.
    start_warnings: Vec<SqlError>,
}

impl Session {
    /// Opens a session for an authenticated role.
    ///
    /// # Errors
    /// 28000 when the role is not there (any more); 22023 or 42704 for a start-up parameter that is not a setting or has a
    /// bad value. The session must end.
    pub fn new(start: SessionStart, tenant: &Tenant) -> SqlResult<Session> {
        let mut settings = Settings::new(role::first_role(&start, tenant.catalog())?);
        settings.connections_max = start.host.connections_max();
        let mut start_warnings = Vec::new();
        for (name, value) in role::kept_settings(&start, tenant.catalog()) {
            // Nobody could enter any more to take it back.
            if let Err(error) = settings.set_initial(name, value) {
                start_warnings.push(error.with_severity(Severity::Warning));
            }
        }
        for (name, value) in role::asked_settings(&start) {
            settings.set_initial(&name, &value)?;
        }
        let now = start.host.wall_clock();
        let counting = Counting::begun(start.host.taken(), start.host.now());
        Ok(Session {
            format: Arc::new(settings.format_context(now)),
            format_epoch: settings.epoch(),
            settings: RefCell::new(settings),
            transaction: Transaction::Idle,
            statements: Statements::default(),
            portals: Portals::default(),
            script: None,
            script_size: 0,
            told: 0,
            waits_for_room: None,
            is_executing: false,
            sync_follows: false,
            rows_wanted: None,
            analytic: AnalyticState::Idle,
            host_outcome: None,
            copy_in: None,
            slicing: None,
            filling: None,
            giving: None,
            loaded_rows: None,
            analysis: None,
            host_copy: None,
            observed: None,
            sequences: RefCell::default(),
            sleeps: Sleeps::default(),
            signals: RefCell::default(),
            progress: Progress::default(),
            counting,
            transaction_start: now,
            statement_start: now,
            clock_read: ClockRead::Never,
            names: None,
            start_warnings,
            start,
        })
    }

    /// Tells the client of the settings kept for its start that this server does not take, and which it goes without.
    pub fn send_start_warnings(&mut self, out: &mut dyn Reply) {
        for warning in std::mem::take(&mut self.start_warnings) {
            self.notice(&warning, out);
        }
    }

    /// The settings a client is told at start-up (`server_version`, `TimeZone`, …) in order.
    pub fn parameter_statuses(&self) -> Vec<(&'static str, String)> {
        self.settings.borrow().reported()
    }

    /// Whether the open transaction has parts of a long statement in the log.
    pub fn has_branch(&self) -> bool {
        self.transaction.peek().is_some_and(|open| open.txn.has_branch())
    }

    /// `I` idle, `T` in a transaction, `E` in a failed one.
    pub fn transaction_status(&self) -> u8 {
        match &self.transaction {
            Transaction::Idle | Transaction::Implicit(_) => b'I',
            Transaction::Block(_) => b'T',
            Transaction::Failed(_) => b'E',
        }
    }

    /// The newest commit that a reply since the last [`Session::reset_observed`] could have read or made: replies leave only
    /// when the log is durable through it. `None` when there is nothing to wait for.
    pub fn observed(&self) -> Option<Lsn> {
        self.observed
    }

    /// Forgets what was observed, once the replies have left.
    pub fn reset_observed(&mut self) {
        self.observed = None;
    }

    fn observe(&mut self, lsn: Lsn) {
        if lsn > Lsn(0) && self.observed.is_none_or(|seen| seen < lsn) {
            self.observed = Some(lsn);
        }
    }

    /// Time limits in force now.
    pub fn timeouts(&self) -> Timeouts {
        self.settings.borrow().digest().timeouts
    }

    /// The running statement as it is now. Its time begins when this is first asked of it: when it runs, or must wait before.
    pub fn underway(&self) -> Underway {
        self.progress.now(&*self.start.host, self.timeouts().statement)
    }

    /// The running statement, if there is one whose time has begun.
    pub fn running(&self) -> Option<Underway> {
        self.progress.running()
    }

    /// `application_name` now, for `pg_stat_activity`.
    pub fn application_name(&self) -> String {
        self.settings.borrow().get(Id::application_name).to_owned()
    }

    /// The outcome of the host statement this session paused for; then make the paused call again.
    pub fn host_done(&mut self, outcome: SqlResult<HostOutcome>) {
        self.host_outcome = Some(outcome);
    }

    /// The rows of a [`Pause::StoredRows`]; then make the paused call again.
    pub fn stored_rows_loaded(&mut self, rows: LoadedRows) {
        self.loaded_rows = Some(rows);
    }

    /// A pause ended with an error instead of what was awaited (cancelled, timed out, a page that cannot be read): gives up
    /// what was under way and fails an open transaction. The caller tells the client.
    pub fn fail(&mut self, home: &mut Home<'_>, _error: &SqlError) {
        self.count_end(Outcome::Failed);
        self.analytic = AnalyticState::Idle;
        self.host_outcome = None;
        self.sleeps = Sleeps::default();
        self.copy_in = None;
        self.host_copy = None;
        self.script = None;
        self.waits_for_room = None;
        self.is_executing = false;
        if let Some(open) = self.transaction.open() {
            home.tenant.cancel_wait(&mut open.txn);
        }
        self.fail_transaction(home);
    }

    /// The connection is gone: rolls back and gives every lock back.
    pub fn end(&mut self, home: &mut Home<'_>) {
        self.count_end(Outcome::Failed);
        self.count_ended(self.start.host.now());
        self.copy_in = None;
        self.host_copy = None;
        self.script = None;
        self.abort(home);
        home.tenant.end_session(self.start.id);
    }

    /// Asks for what a message comes by of the session from memory at once.
    pub fn prefetch(&self) {
        base::prefetch_value(self);
        base::prefetch_value(&*self.format);
        if let Some(open) = self.transaction.peek() {
            base::prefetch_value(open);
        }
    }

    /// As [`Session::prefetch`] for Binds of these prepared statements.
    pub fn prefetch_statements<'n>(&self, names: impl Iterator<Item = &'n str>) {
        self.statements.prefetch(names);
    }

    /// Who and where the session is.
    pub fn start(&self) -> &SessionStart {
        &self.start
    }
}
