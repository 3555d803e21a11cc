//! Statements the server itself runs in a tenant, as an ordinary session of the administrator would; those of the administrator's database
//! ([`super::administering`]) among them.

use std::sync::Arc;

use base::{Nanos, SqlError, SqlResult, SqlState};
use futures::future::BoxFuture;
use pgproto::client;
use sql::session::{AnalyticEvent, HostOutcome, HostStatement, Pause, Session, SessionStart};

use super::{ADMINISTRATOR, Home, SYSTEM_DATABASE};
use crate::executor::{self, Background};
use crate::session::{Control, Host, Output, Watch};
use crate::shared::Shared;

/// What the server's own statements run with whatever sessions of the administrator's role begin with: nobody could take that back where a statement
/// of the start fails by it, and what the catalogue is told is to be durable.
const OWN_SETTINGS: [(&str, &str); 5] = [
    ("default_transaction_isolation", "read committed"),
    ("default_transaction_read_only", "off"),
    ("lock_timeout", "0"),
    ("statement_timeout", "0"),
    ("synchronous_commit", "on"),
];

/// How long what the catalogue is told waits for a lock: others of the server's own have theirs for milliseconds, and an administrator's session may have
/// one for as long as it likes, while nobody can end this wait.
const LOCK_WAIT_MAX: Nanos = Nanos::from_secs(10);

fn is_locked() -> SqlError {
    SqlError::new(
        SqlState::LOCK_NOT_AVAILABLE,
        "the tables of the schema \"rowhouse\" are locked by another session",
    )
    .with_hint("End its transaction: pg_locks and pg_stat_activity say whose it is.")
}

/// A row as text.
pub(crate) type TextRow = Vec<Option<String>>;

/// Carries out a statement of the administrator's.
pub(super) type CarryOut<'c> =
    &'c (dyn Fn(HostStatement) -> BoxFuture<'static, SqlResult<HostOutcome>> + Send + Sync);

/// Where the administrator's statements have no place: what carries them out runs statements here.
fn refuse(_: HostStatement) -> BoxFuture<'static, SqlResult<HostOutcome>> {
    Box::pin(async { Err(SqlError::unsupported("an administrator's statement here")) })
}

/// What is told beside a result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Notice {
    /// `WARNING`, `NOTICE` and the like.
    pub(crate) severity: String,
    pub(crate) message: String,
    pub(crate) detail: Option<String>,
}

/// What statements were answered with.
#[derive(Default, Debug)]
pub(crate) struct Answered {
    /// Of all results.
    pub(crate) rows: Vec<TextRow>,
    pub(crate) notices: Vec<Notice>,
}

/// Runs `sql` in the tenant at `home` and gives all rows of its results. After `Ok` its changes are durable. May be
/// called from any thread.
///
/// # Errors
/// Those of the statement; 55P03 where what it wants is locked for long.
pub(crate) async fn query(shared: &Arc<Shared>, home: &Arc<Home>, sql: String) -> SqlResult<Vec<TextRow>> {
    let (task_shared, task_home) = (shared.clone(), home.clone());
    let wait_max = Some(LOCK_WAIT_MAX);
    let task = home
        .spawn(async move { run(&task_shared, &task_home, &sql, &OWN_SETTINGS, wait_max, &refuse).await });
    let answered =
        task.await.unwrap_or_else(|| Err(SqlError::internal("an internal statement did not finish")));
    Ok(answered?.rows)
}

/// Runs `sql` in the tenant at `home`, where the caller is, with `settings`, the administrator's statements by `carry_out`, and waits so long for a lock
/// at most. After `Ok` its changes are durable, unless sessions of the administrator's role begin without.
pub(super) async fn run(
    shared: &Arc<Shared>,
    home: &Arc<Home>,
    sql: &str,
    settings: &[(&str, &str)],
    lock_wait_max: Option<Nanos>,
    carry_out: CarryOut<'_>,
) -> SqlResult<Answered> {
    home.open().await?;
    let control = Control::internal(shared.sessions.new_id(), home.id());
    let watch = Arc::new(Watch::new(home.statement_limits(), &shared.runaways, &control));
    let start = SessionStart {
        id: control.id,
        tenant: home.id(),
        database: SYSTEM_DATABASE.to_owned(),
        user: ADMINISTRATOR.to_owned(),
        administrator: true,
        parameters: settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        host: Arc::new(Host::new(shared.clone(), control, watch, None, None)),
    };
    let mut session = home.with(|home| Session::new(start, home.tenant))??;
    let mut output = Output::default();
    let outcome = drive(shared, home, lock_wait_max, carry_out, &mut session, sql, &mut output).await;
    home.with(|home| session.end(home))?;
    outcome?;
    if let Some(observed) = session.observed() {
        home.wait_durable(observed).await?;
    }
    answered(&output.take())
}

async fn drive(
    shared: &Shared,
    home: &Arc<Home>,
    lock_wait_max: Option<Nanos>,
    carry_out: CarryOut<'_>,
    session: &mut Session,
    sql: &str,
    output: &mut Output,
) -> SqlResult<()> {
    loop {
        let pause = match home.with(|home| session.query(home, sql, output))? {
            Ok(_) => return Ok(()),
            Err(pause) => pause,
        };
        match pause {
            Pause::Error(error) => return Err(error),
            Pause::Lock(wait) => {
                let until = lock_wait_max.map(|most| env::now() + most);
                env::timeout_at(until, wait).await.map_err(|env::Elapsed| is_locked())?;
            }
            Pause::Pages(requests) => home.load_pages(requests).await?,
            Pause::StoredRows(read) => session.stored_rows_loaded(read.read().await?),
            Pause::Memory(wait) => home.await_memory(wait).await?,
            Pause::Sleep(time) | Pause::OwnCap(time) => env::sleep(time).await,
            Pause::Yield => executor::yield_now().await,
            Pause::Slice(end) => home.wait_durable(end).await?,
            Pause::Host(statement) => session.host_done(carry_out(statement).await),
            Pause::Analytic(mut request) => {
                request.limits = home.query_limits();
                let (worker, is_promised) = (home.worker_for_query(&shared.analytic), home.has_cpu_promise());
                let background = Background::default();
                let events = shared.analytic.start(&worker, home.id(), is_promised, *request, background)?;
                loop {
                    let event = events.next().await;
                    let done = matches!(event, AnalyticEvent::Done(_));
                    session.analytic_event(event, output);
                    if done {
                        break;
                    }
                }
            }
        }
    }
}

fn answered(mut messages: &[u8]) -> SqlResult<Answered> {
    let mut answered = Answered::default();
    while let Some(message) = client::next(messages)? {
        match message.tag {
            b'D' => {
                let text =
                    |value: Option<&[u8]>| value.map(|value| String::from_utf8_lossy(value).into_owned());
                answered.rows.push(client::data_row(message.body)?.into_iter().map(text).collect());
            }
            b'N' => answered.notices.push(notice(message.body)?),
            _ => {}
        }
        messages = &messages[message.wire_len()..];
    }
    Ok(answered)
}

fn notice(body: &[u8]) -> SqlResult<Notice> {
    let fields = client::report_fields(body)?;
    let field =
        |wanted: u8| fields.iter().find(|(code, _)| *code == wanted).map(|(_, text)| (*text).to_owned());
    let severity = field(b'V').or_else(|| field(b'S')).unwrap_or_default();
    Ok(Notice { severity, message: field(b'M').unwrap_or_default(), detail: field(b'D') })
}

/// `text` as an SQL literal.
pub(crate) fn literal(text: &str) -> String {
    // A backslash needs the escape form whatever standard_conforming_strings says.
    format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}
