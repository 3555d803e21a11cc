//! What a connection owns between its statements: settings, prepared statements, portals, the open transaction.
//!
//! The server drives a session by calling it within turns of the tenant's home worker. A call either finishes or returns a
//! [`Pause`] that says what to await before the same call is made again; the session has then undone the statement (its locks
//! stay). Nothing here blocks.

mod analytic;
mod host;
mod reply;

use std::sync::Arc;

use base::{Lsn, Nanos, PageNo, SessionId, SqlError, SqlResult, TenantId};
use tenant::Tenant;

pub use crate::parse::HostStatement;
pub use analytic::{AnalyticEvent, AnalyticRequest, Deliver};
pub use host::{BackendRow, LockRow, SessionHost};
pub use reply::{CopyShape, Field, Format, Reply, encode_row, write_value};

/// Why a call could not finish in this turn. All but `Error` mean: await it, then make the same call again.
#[derive(Debug)]
pub enum Pause {
    /// Another transaction holds a lock.
    Lock(tenant::LockWait),
    /// A page is not resident: load it.
    Miss(PageNo),
    /// Run this on an analytical thread and feed its events to [`Session::analytic_event`].
    Analytic(Box<AnalyticRequest>),
    /// `pg_sleep`: await this long.
    Sleep(Nanos),
    /// Run this for the session at the server (tenants' administration), then give its outcome to
    /// [`Session::host_done`].
    Host(HostStatement),
    /// Send what is buffered and give other tasks their turn.
    Yield,
    /// The call failed. The session has noted it (an open transaction is failed); tell the client.
    Error(SqlError),
}

impl From<SqlError> for Pause {
    fn from(error: SqlError) -> Pause {
        Pause::Error(error)
    }
}

/// What the server answers to a [`HostStatement`].
#[derive(Clone, Debug)]
pub enum HostOutcome {
    /// The command tag.
    Done(&'static str),
    Rows {
        fields: Vec<Field>,
        rows: Vec<types::Row>,
        tag: &'static str,
    },
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

/// A session of one tenant.
pub struct Session {
    start: SessionStart,
}

impl Session {
    /// # Errors
    /// 22023 or 42704 for a start-up parameter that is not a setting or has a bad value (the session must end).
    pub fn new(start: SessionStart) -> SqlResult<Session> {
        Ok(Session { start })
    }

    /// The settings a client is told at start-up (`server_version`, `TimeZone`, …) in order.
    pub fn parameter_statuses(&self) -> Vec<(&'static str, String)> {
        unimplemented!()
    }

    /// Runs a simple Query message: all its statements, each answered with its rows and CommandComplete. The same `sql` is
    /// passed again after a pause. ReadyForQuery is the caller's.
    pub fn query(&mut self, tenant: &mut Tenant, sql: &str, out: &mut dyn Reply) -> Result<Executed, Pause> {
        let _ = (tenant, sql, out);
        unimplemented!()
    }

    /// Parse.
    pub fn parse(
        &mut self,
        tenant: &mut Tenant,
        name: &str,
        sql: &str,
        parameter_oids: &[u32],
        out: &mut dyn Reply,
    ) -> Result<(), Pause> {
        let _ = (tenant, name, sql, parameter_oids, out);
        unimplemented!()
    }

    /// Bind.
    pub fn bind(&mut self, tenant: &mut Tenant, bind: Bind<'_>, out: &mut dyn Reply) -> Result<(), Pause> {
        let _ = (tenant, bind, out);
        unimplemented!()
    }

    /// Describe of a prepared statement: ParameterDescription, then RowDescription or NoData.
    pub fn describe_statement(&mut self, tenant: &mut Tenant, name: &str, out: &mut dyn Reply) -> Result<(), Pause> {
        let _ = (tenant, name, out);
        unimplemented!()
    }

    /// Describe of a portal: RowDescription or NoData.
    pub fn describe_portal(&mut self, tenant: &mut Tenant, name: &str, out: &mut dyn Reply) -> Result<(), Pause> {
        let _ = (tenant, name, out);
        unimplemented!()
    }

    /// Execute: up to `rows_max` rows (`None`: all), then PortalSuspended or CommandComplete.
    pub fn execute(
        &mut self,
        tenant: &mut Tenant,
        portal: &str,
        rows_max: Option<u32>,
        out: &mut dyn Reply,
    ) -> Result<Executed, Pause> {
        let _ = (tenant, portal, rows_max, out);
        unimplemented!()
    }

    /// Close of a prepared statement; not an error when there is none of that name.
    pub fn close_statement(&mut self, name: &str, out: &mut dyn Reply) {
        let _ = (name, out);
        unimplemented!()
    }

    /// Close of a portal; not an error when there is none of that name.
    pub fn close_portal(&mut self, name: &str, out: &mut dyn Reply) {
        let _ = (name, out);
        unimplemented!()
    }

    /// Sync: ends the implicit transaction of the messages since the last one. ReadyForQuery is the caller's.
    pub fn sync(&mut self, tenant: &mut Tenant, out: &mut dyn Reply) -> Result<(), Pause> {
        let _ = (tenant, out);
        unimplemented!()
    }

    /// A piece of a COPY's input; pieces may split rows anywhere.
    pub fn copy_data(&mut self, tenant: &mut Tenant, data: &[u8]) -> Result<(), Pause> {
        let _ = (tenant, data);
        unimplemented!()
    }

    /// The end of a COPY's input: CommandComplete. An error aborts the COPY.
    pub fn copy_done(&mut self, tenant: &mut Tenant, out: &mut dyn Reply) -> Result<(), Pause> {
        let _ = (tenant, out);
        unimplemented!()
    }

    /// The client gave the COPY up with `message`; the error to tell it.
    pub fn copy_fail(&mut self, tenant: &mut Tenant, message: &str) -> SqlError {
        let _ = (tenant, message);
        unimplemented!()
    }

    /// An event of the analytical request this session paused for. After [`AnalyticEvent::Done`], make the paused call again.
    pub fn analytic_event(&mut self, event: AnalyticEvent, out: &mut dyn Reply) {
        let _ = (event, out);
        unimplemented!()
    }

    /// The outcome of the host statement this session paused for; then make the paused call again.
    pub fn host_done(&mut self, outcome: SqlResult<HostOutcome>) {
        let _ = outcome;
        unimplemented!()
    }

    /// A pause ended with an error instead of what was awaited (cancelled, timed out, a page that cannot be read): undoes the
    /// statement, fails an open transaction. The caller tells the client.
    pub fn fail(&mut self, tenant: &mut Tenant, error: &SqlError) {
        let _ = (tenant, error);
        unimplemented!()
    }

    /// `I` idle, `T` in a transaction, `E` in a failed one.
    pub fn transaction_status(&self) -> u8 {
        unimplemented!()
    }

    /// The newest commit that a reply since the last [`Session::reset_observed`] could have read or made: replies leave only
    /// when the log is durable through it. `None` when there is nothing to wait for (`synchronous_commit = off` included).
    pub fn observed(&self) -> Option<Lsn> {
        unimplemented!()
    }

    /// Forgets what was observed, once the replies have left.
    pub fn reset_observed(&mut self) {
        unimplemented!()
    }

    /// Time limits in force now.
    pub fn timeouts(&self) -> Timeouts {
        unimplemented!()
    }

    /// The connection is gone: rolls back and gives every lock back.
    pub fn end(&mut self, tenant: &mut Tenant) {
        let _ = tenant;
        unimplemented!()
    }

    /// Who and where the session is.
    pub fn start(&self) -> &SessionStart {
        &self.start
    }
}
