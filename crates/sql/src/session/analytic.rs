//! The seam to the analytical path: what a session hands out and what comes back.

use std::sync::Arc;

use base::{Oid, SqlError, SqlResult};
use governor::{StatementWorkMeter, TenantWorkMemory};
use sqlparser::ast;
use tenant::SnapshotView;
use types::{Datum, FormatContext, PgType};

use super::{
    BackendRow, BackendSignals, CopyShape, Field, Format, Formats, LedgerRows, LockRow, RandomBits, RowStore,
    TempSpace,
};
use crate::parse::CopyOptions;

/// Where the rows of a request go.
#[derive(Clone, Debug, PartialEq)]
pub enum Deliver {
    /// To the client, encoded on the analytical thread in these formats.
    Client(Formats),
    /// To the client, as the data of a COPY with these options.
    Copy(CopyOptions),
    /// Back to the session as values: cursors, row-limited portals, sources of INSERT, UPDATE and DELETE.
    Session,
    /// Only the columns and parameter types are wanted; nothing runs.
    DescribeOnly,
    /// The plan as text rows; `analyze` runs it and gives counts and times.
    Explain { analyze: bool, verbose: bool },
}

/// A query for an analytical thread, with everything it may look at.
pub struct AnalyticRequest {
    /// A query, never DML.
    pub query: Arc<ast::Query>,
    /// Declared or inferred so far; [`PgType::Unknown`] where the planner shall infer.
    pub parameter_types: Vec<PgType>,
    pub parameters: Vec<Datum>,
    /// The snapshot with this transaction's own writes frozen over it.
    pub view: SnapshotView,
    pub context: Arc<QueryContext>,
    pub deliver: Deliver,
    /// Why the point path did not take it; shown by EXPLAIN.
    pub reason: String,
    /// It reads some of the server's own tables, and no others.
    pub reads_system_only: bool,
    /// Set by whoever runs it.
    pub limits: QueryLimits,
}

/// What a query may use of its tenant's.
#[derive(Clone, Default)]
pub struct QueryLimits {
    /// Where operators put what does not fit their memory, and rows for [`Deliver::Session`] go that are many; `None` where nothing may be
    /// put aside.
    pub temp: Option<Arc<TempSpace>>,
    /// The memory of its sorts, hashes and aggregates: those that can put rows aside where it refuses, others fail with 53200. `None` for no limit.
    pub work_memory: Option<Arc<TenantWorkMemory>>,
    /// Who hears what they ask, get and put aside.
    pub work_meter: Option<Arc<StatementWorkMeter>>,
}

impl std::fmt::Debug for AnalyticRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AnalyticRequest({})", self.query)
    }
}

/// The session as a query sees it; frozen for the query's duration.
#[derive(Clone)]
pub struct QueryContext {
    pub database: String,
    pub user: String,
    pub session_user: String,
    pub pid: u32,
    pub search_path: Vec<String>,
    /// `now()`, microseconds since 2000-01-01 UTC.
    pub transaction_start: i64,
    pub statement_start: i64,
    pub server_start: i64,
    pub format: Arc<FormatContext>,
    /// Name, value, description of every setting. None for a query that does not name what shows them, as below.
    pub settings: Vec<(String, String, String)>,
    /// None for a query that does not name them, as below.
    pub backends: Vec<BackendRow>,
    /// The role whose privileges count; `None` for the administrator, who has all.
    pub role: Option<Oid>,
    pub signals: Arc<dyn BackendSignals>,
    pub ledger: Arc<dyn LedgerRows>,
    pub locks: Vec<LockRow>,
    pub databases: Vec<String>,
    pub prepared: Vec<PreparedRow>,
    /// The last values of sequences that have given one out.
    pub sequences: Vec<(Oid, i64)>,
    pub random: Arc<RandomBits>,
}

/// A row of `pg_prepared_statements`.
#[derive(Clone, Debug)]
pub struct PreparedRow {
    pub name: String,
    pub statement: String,
    /// Microseconds since 2000-01-01 UTC.
    pub prepared: i64,
    pub parameters: Vec<PgType>,
    pub from_sql: bool,
}

impl PreparedRow {
    /// What it takes in memory, by estimate.
    pub(super) fn size(&self) -> usize {
        let parameters = self.parameters.len() * size_of::<PgType>();
        size_of::<PreparedRow>() + self.name.len() + self.statement.len() + parameters
    }
}

/// What an analytical thread tells the session, in order: `Columns`, then rows, then `Done`.
#[derive(Debug)]
pub enum AnalyticEvent {
    /// Parameter types as inferred, and the columns of the result.
    Columns { parameters: Vec<PgType>, fields: Arc<[Field]> },
    /// Whole DataRow messages (for [`Deliver::Client`]) or CopyData (for [`Deliver::Copy`]).
    Encoded { rows: u64, bytes: Vec<u8> },
    /// All rows as values (for [`Deliver::Session`] and [`Deliver::Explain`]), said once.
    Stored(RowStore),
    /// The end.
    Done(SqlResult<()>),
}

/// Where the session stands with a request it sent out.
#[derive(Debug, Default)]
pub(super) enum AnalyticState {
    #[default]
    Idle,
    /// A description is awaited, of what this version of the catalog has.
    Describing {
        version: u64,
    },
    Described {
        version: u64,
        parameters: Vec<PgType>,
        fields: Arc<[Field]>,
    },
    /// Rows go to the client as they come.
    Streaming {
        announce: Announce,
        rows: u64,
    },
    /// Rows are gathered: none are here before all of them.
    Gathering {
        fields: Arc<[Field]>,
        rows: RowStore,
    },
    /// All rows have gone to the client.
    Streamed {
        rows: u64,
    },
    /// All rows are here.
    Gathered {
        fields: Arc<[Field]>,
        rows: RowStore,
    },
    Failed(SqlError),
}

/// What the client is told before the first row.
#[derive(Debug, Default)]
pub(super) enum Announce {
    #[default]
    Nothing,
    /// The columns of a query, in these formats.
    Rows(Formats),
    /// That data of a COPY come, and in which format.
    Copy(Format),
}

impl Announce {
    pub(super) fn tell(&self, fields: &[Field], out: &mut dyn super::Reply) {
        match self {
            Announce::Nothing => {}
            Announce::Rows(formats) => out.row_description(fields, formats),
            Announce::Copy(format) => out.copy_out(CopyShape::new(*format, fields.len())),
        }
    }
}

impl AnalyticState {
    /// Whether rows are on their way to the client, or have all gone.
    pub(super) fn is_streaming(&self) -> bool {
        matches!(
            self,
            AnalyticState::Streaming { .. } | AnalyticState::Streamed { .. } | AnalyticState::Failed(_)
        )
    }
}

impl super::Session {
    /// An event of the analytical request this session paused for. After [`AnalyticEvent::Done`], make the paused call again.
    pub fn analytic_event(&mut self, event: AnalyticEvent, out: &mut dyn super::Reply) {
        let state = std::mem::take(&mut self.analytic);
        self.analytic = match (state, event) {
            (AnalyticState::Describing { version }, AnalyticEvent::Columns { parameters, fields }) => {
                AnalyticState::Described { version, parameters, fields }
            }
            (AnalyticState::Streaming { announce, rows }, AnalyticEvent::Columns { fields, .. }) => {
                announce.tell(&fields, out);
                AnalyticState::Streaming { announce: Announce::Nothing, rows }
            }
            (AnalyticState::Gathering { rows, .. }, AnalyticEvent::Columns { fields, .. }) => {
                AnalyticState::Gathering { fields, rows }
            }
            (AnalyticState::Streaming { announce, rows }, AnalyticEvent::Encoded { rows: more, bytes }) => {
                out.encoded_rows(&bytes);
                AnalyticState::Streaming { announce, rows: rows + more }
            }
            (AnalyticState::Gathering { fields, .. }, AnalyticEvent::Stored(rows)) => {
                AnalyticState::Gathering { fields, rows }
            }
            (_, AnalyticEvent::Done(Err(error))) => AnalyticState::Failed(error),
            (AnalyticState::Streaming { rows, .. }, AnalyticEvent::Done(Ok(()))) => {
                AnalyticState::Streamed { rows }
            }
            (AnalyticState::Gathering { fields, rows }, AnalyticEvent::Done(Ok(()))) => {
                AnalyticState::Gathered { fields, rows }
            }
            (state, _) => state,
        };
    }
}
