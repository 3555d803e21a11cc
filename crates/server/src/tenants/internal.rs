//! Statements the server itself runs in a tenant, as an ordinary session of the administrator would.

use std::sync::Arc;

use base::{SqlError, SqlResult};
use pgproto::client;
use sql::session::{AnalyticEvent, Pause, Session, SessionStart};

use super::{ADMINISTRATOR, Home, SYSTEM_DATABASE};
use crate::executor::{self, Background};
use crate::session::{Control, Host, Output, Watch};
use crate::shared::Shared;

/// A row as text.
pub(crate) type TextRow = Vec<Option<String>>;

/// Runs `sql` in the tenant at `home` and gives all rows of its results. After `Ok` its changes are durable. May be
/// called from any thread.
pub(crate) async fn query(shared: &Arc<Shared>, home: &Arc<Home>, sql: String) -> SqlResult<Vec<TextRow>> {
    let (task_shared, task_home) = (shared.clone(), home.clone());
    let task = home.spawn(async move { run(&task_shared, &task_home, &sql).await });
    task.await.unwrap_or_else(|| Err(SqlError::internal("an internal statement did not finish")))
}

async fn run(shared: &Arc<Shared>, home: &Arc<Home>, sql: &str) -> SqlResult<Vec<TextRow>> {
    home.open().await?;
    let control = Control::internal(home.id());
    let watch = Arc::new(Watch::new(home.statement_limits(), &shared.runaways, &control));
    let start = SessionStart {
        id: control.id,
        tenant: home.id(),
        database: SYSTEM_DATABASE.to_owned(),
        user: ADMINISTRATOR.to_owned(),
        administrator: true,
        parameters: Vec::new(),
        host: Arc::new(Host::new(shared.clone(), control, watch, None)),
    };
    let mut session = home.with(|home| Session::new(start, home.tenant))??;
    let mut output = Output::default();
    let outcome = drive(shared, home, &mut session, sql, &mut output).await;
    home.with(|home| session.end(home))?;
    outcome?;
    if let Some(observed) = session.observed() {
        home.wait_durable(observed).await?;
    }
    rows(&output.take())
}

async fn drive(
    shared: &Shared,
    home: &Arc<Home>,
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
            Pause::Lock(wait) => wait.await,
            Pause::Pages(requests) => home.load_pages(requests).await?,
            Pause::Memory(wait) => home.await_memory(wait).await?,
            Pause::Sleep(time) => env::sleep(time).await,
            Pause::Yield => executor::yield_now().await,
            Pause::Slice(end) => home.wait_durable(end).await?,
            Pause::Host(_) => return Err(SqlError::unsupported("an administrator's statement here")),
            Pause::Analytic(mut request) => {
                request.limits = home.query_limits();
                let events =
                    shared.analytic.start(&home.worker(), home.id(), *request, Background::default())?;
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

fn rows(mut messages: &[u8]) -> SqlResult<Vec<TextRow>> {
    let mut rows = Vec::new();
    while let Some(message) = client::next(messages)? {
        if message.tag == b'D' {
            let text = |value: Option<&[u8]>| value.map(|value| String::from_utf8_lossy(value).into_owned());
            rows.push(client::data_row(message.body)?.into_iter().map(text).collect());
        }
        messages = &messages[message.wire_len()..];
    }
    Ok(rows)
}

/// `text` as an SQL literal.
pub(crate) fn literal(text: &str) -> String {
    // A backslash needs the escape form whatever standard_conforming_strings says.
    format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}
