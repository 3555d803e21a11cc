//! A tenant in memory and sessions on it, for tests: statements in, rows, tags, notices and errors out.

use std::sync::Arc;

use base::{CommitNo, Lsn, Nanos, SessionId, SqlError, TenantId};
use tenant::{RedoSink, Tenant};

use super::{
    BackendRow, CopyShape, Executed, Field, Formats, Home, Pause, Reply, Session, SessionHost, SessionStart,
};

/// A log that forgets its records.
#[derive(Default)]
struct Log(u64);

impl RedoSink for Log {
    fn append(&mut self, _: TenantId, _: CommitNo, _: &[u8]) -> Lsn {
        self.0 += 1;
        Lsn(self.0)
    }
}

/// A server that has nothing but the time, which stands still.
struct Host;

impl SessionHost for Host {
    fn wall_clock(&self) -> i64 {
        800_000_000_000_000
    }
    fn now(&self) -> Nanos {
        Nanos(0)
    }
    fn random(&self, bytes: &mut [u8]) {
        bytes.fill(7);
    }
    fn backends(&self) -> Vec<BackendRow> {
        Vec::new()
    }
    fn report_activity(&self, _: &'static str, _: Option<&str>, _: i64) {}
    fn cancel_backend(&self, _: SessionId) -> bool {
        false
    }
    fn terminate_backend(&self, _: SessionId) -> bool {
        false
    }
    fn password_verifier(&self, password: &str) -> String {
        format!("SCRAM-SHA-256${password}")
    }
    fn databases(&self) -> Vec<String> {
        vec!["app".into()]
    }
}

/// What a client was told, without what it was told of the row's types.
#[derive(Default, Debug)]
pub(crate) struct Answer {
    /// Rows in text form; `None` for NULL.
    pub(crate) rows: Vec<Vec<Option<String>>>,
    pub(crate) fields: Vec<Field>,
    pub(crate) tags: Vec<String>,
    pub(crate) notices: Vec<SqlError>,
    row: Option<(usize, Vec<u8>)>,
    written: usize,
}

impl Answer {
    /// Rows with their values joined by `|`, NULL as nothing.
    pub(crate) fn lines(&self) -> Vec<String> {
        let line = |row: &Vec<Option<String>>| {
            row.iter().map(|value| value.as_deref().unwrap_or("")).collect::<Vec<_>>().join("|")
        };
        self.rows.iter().map(line).collect()
    }

    /// Each notice's message.
    pub(crate) fn notices(&self) -> Vec<&str> {
        self.notices.iter().map(SqlError::message).collect()
    }
}

impl Reply for Answer {
    fn row_description(&mut self, fields: &[Field], _: &Formats) {
        self.fields = fields.to_vec();
    }
    fn no_data(&mut self) {}
    fn parameter_description(&mut self, _: &[u32]) {}
    fn parse_complete(&mut self) {}
    fn bind_complete(&mut self) {}
    fn close_complete(&mut self) {}
    fn begin_row(&mut self, columns: usize) -> &mut Vec<u8> {
        &mut self.row.insert((columns, Vec::new())).1
    }
    fn end_row(&mut self) {
        let (columns, bytes) = self.row.take().expect("a row was begun");
        let mut rest = &bytes[..];
        let mut row = Vec::new();
        for _ in 0..columns {
            let (len, tail) = rest.split_at(4);
            let len = i32::from_be_bytes(len.try_into().expect("four bytes"));
            rest = tail;
            row.push(usize::try_from(len).ok().map(|len| {
                let (value, tail) = rest.split_at(len);
                rest = tail;
                String::from_utf8_lossy(value).into_owned()
            }));
        }
        self.rows.push(row);
    }
    fn encoded_rows(&mut self, _: &[u8]) {}
    fn command_complete(&mut self, tag: &str) {
        self.tags.push(tag.to_owned());
    }
    fn empty_query(&mut self) {}
    fn portal_suspended(&mut self) {}
    fn notice(&mut self, notice: &SqlError) {
        self.notices.push(notice.clone());
    }
    fn parameter_status(&mut self, _: &str, _: &str) {}
    fn copy_in(&mut self, _: CopyShape) {}
    fn copy_out(&mut self, _: CopyShape) {}
    fn copy_data(&mut self, _: &[u8]) {}
    fn copy_done(&mut self) {}
    fn mark(&self) -> usize {
        self.written
    }
    fn rewind(&mut self, _: usize) {}
    fn buffered(&self) -> usize {
        0
    }
}

/// The tenant of a test.
pub(crate) struct Bench {
    tenant: Tenant,
    log: Log,
    next: u32,
}

impl Bench {
    /// A tenant with its owner alone.
    pub(crate) fn new() -> Bench {
        Bench { tenant: Tenant::in_memory(TenantId(77), "owner"), log: Log::default(), next: 1 }
    }

    /// A session of the owner.
    pub(crate) fn session(&mut self) -> Session {
        self.session_of("owner")
    }

    pub(crate) fn session_of(&mut self, user: &str) -> Session {
        self.next += 1;
        let start = SessionStart {
            id: SessionId(self.next),
            tenant: TenantId(77),
            database: "app".into(),
            user: user.into(),
            administrator: false,
            parameters: Vec::new(),
            host: Arc::new(Host),
        };
        Session::new(start, &self.tenant).expect("the role exists")
    }

    /// Runs a script; the pause it came to, if it did.
    pub(crate) fn try_run(&mut self, session: &mut Session, sql: &str) -> Result<Answer, Pause> {
        let mut answer = Answer::default();
        let mut home = Home { tenant: &mut self.tenant, redo: &mut self.log };
        let executed = session.query(&mut home, sql, &mut answer)?;
        assert_eq!(executed, Executed::Complete, "COPY is not for this harness");
        Ok(answer)
    }

    /// Runs a script that must succeed.
    pub(crate) fn run(&mut self, session: &mut Session, sql: &str) -> Answer {
        match self.try_run(session, sql) {
            Ok(answer) => answer,
            Err(Pause::Error(error)) => {
                panic!("{sql}\n{} {} {:?}", error.state(), error.message(), error.detail())
            }
            Err(pause) => panic!("{sql}\n{pause:?}"),
        }
    }

    /// Runs a script that must fail.
    pub(crate) fn fail(&mut self, session: &mut Session, sql: &str) -> SqlError {
        match self.try_run(session, sql) {
            Err(Pause::Error(error)) => error,
            Ok(answer) => panic!("{sql}\nended well: {:?}", answer.tags),
            Err(pause) => panic!("{sql}\n{pause:?}"),
        }
    }

    /// The catalog as committed.
    pub(crate) fn catalog(&self) -> &tenant::catalog::Catalog {
        self.tenant.catalog()
    }

    pub(crate) fn tenant(&self) -> &Tenant {
        &self.tenant
    }
}

/// Table locks as `pg_locks` shows them, granted ones first.
pub(crate) fn locks_of(tenant: &Tenant) -> Vec<String> {
    let mut rows = super::utility::lock_rows(tenant);
    rows.retain(|row| row.lock_type == "relation");
    rows.sort_by_key(|row| !row.granted);
    rows.iter()
        .map(|row| format!("{} {}", row.mode, if row.granted { "granted" } else { "waiting" }))
        .collect()
}
