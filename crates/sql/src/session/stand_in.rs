//! A server and a client for sessions that run without either: in tests, simulations and measurements.

use std::sync::{Arc, Mutex, PoisonError};

use base::{Nanos, SqlError, SqlResult};
use env::{Env, Ticks};

use super::{
    BackendRow, CopyShape, Field, Formats, Reach, Reply, SessionHost, StatementCounts, Taken, Underway,
};

/// Microseconds from 1970 to 2000, where PostgreSQL's time begins.
const EPOCH_MICROS: i64 = 946_684_800_000_000;

/// A server that has a clock and chance, and no other session.
pub struct LoneHost(pub Env);

/// The same, counting what statements take; all time is processor time.
pub struct CountingHost {
    lone: LoneHost,
    counts: Mutex<Vec<Arc<StatementCounts>>>,
}

impl CountingHost {
    pub fn new(env: Env) -> CountingHost {
        CountingHost { lone: LoneHost(env), counts: Mutex::default() }
    }

    /// The counts of the statements with this normal text.
    pub fn counts(&self, text: &str) -> Arc<StatementCounts> {
        let mut all = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = all.iter().find(|counts| counts.text() == text) {
            return found.clone();
        }
        let counts = Arc::new(StatementCounts::new(text));
        all.push(counts.clone());
        counts
    }
}

impl SessionHost for CountingHost {
    fn wall_clock(&self) -> i64 {
        self.lone.wall_clock()
    }
    fn now(&self) -> Nanos {
        self.lone.now()
    }
    fn random(&self, bytes: &mut [u8]) {
        self.lone.random(bytes);
    }
    fn backends(&self, reach: Reach, statement: &Underway) -> Vec<BackendRow> {
        self.lone.backends(reach, statement)
    }
    fn statement_counts(&self, sql: &str) -> Option<Arc<StatementCounts>> {
        Some(self.counts(&crate::normal_text(sql)))
    }
    fn taken(&self) -> Taken {
        let clock = &self.lone.0.clock;
        Taken { cpu: clock.ticks_between(Ticks(0), clock.ticks()), ios: 0 }
    }
    fn report_activity(&self, _: &'static str, _: Option<&str>, _: i64) {}
    fn password_verifier(&self, password: &str) -> SqlResult<String> {
        self.lone.password_verifier(password)
    }
    fn databases(&self, reach: Reach) -> Vec<String> {
        self.lone.databases(reach)
    }
}

impl SessionHost for LoneHost {
    fn wall_clock(&self) -> i64 {
        self.0.clock.unix_micros() - EPOCH_MICROS
    }
    fn now(&self) -> Nanos {
        self.0.now()
    }
    fn random(&self, bytes: &mut [u8]) {
        self.0.entropy.fill(bytes);
    }
    fn backends(&self, _: Reach, _: &Underway) -> Vec<BackendRow> {
        Vec::new()
    }
    fn report_activity(&self, _: &'static str, _: Option<&str>, _: i64) {}
    fn password_verifier(&self, password: &str) -> SqlResult<String> {
        Ok(format!("SCRAM-SHA-256${password}"))
    }
    fn databases(&self, _: Reach) -> Vec<String> {
        vec!["app".into()]
    }
}

/// A client of the point path that keeps what it is told of results, in text form.
#[derive(Default, Debug)]
pub struct Answer {
    /// `None` for NULL.
    pub rows: Vec<Vec<Option<String>>>,
    pub fields: Vec<Field>,
    pub tags: Vec<String>,
    pub notices: Vec<SqlError>,
    columns: usize,
    row: Vec<u8>,
}

impl Answer {
    /// Rows with their values joined by `|`, NULL as nothing.
    pub fn lines(&self) -> Vec<String> {
        let line = |row: &Vec<Option<String>>| {
            row.iter().map(|value| value.as_deref().unwrap_or("")).collect::<Vec<_>>().join("|")
        };
        self.rows.iter().map(line).collect()
    }

    /// Each notice's message.
    pub fn notices(&self) -> Vec<&str> {
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
        self.columns = columns;
        self.row.clear();
        &mut self.row
    }
    fn end_row(&mut self) {
        let mut rest = &self.row[..];
        let mut row = Vec::with_capacity(self.columns);
        for _ in 0..self.columns {
            let (len, after) = rest.split_first_chunk::<4>().expect("a value has a length");
            let len = usize::try_from(i32::from_be_bytes(*len)).ok();
            let (value, after) = after.split_at(len.unwrap_or(0));
            row.push(len.map(|_| String::from_utf8_lossy(value).into_owned()));
            rest = after;
        }
        self.rows.push(row);
    }
    fn encoded_rows(&mut self, rows: &[u8]) {
        assert!(
            rows.first().is_none_or(|kind| *kind == b'd'),
            "nothing but a COPY's data is encoded elsewhere"
        );
    }
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
    fn copy_done(&mut self) {}
    fn mark(&self) -> usize {
        self.rows.len()
    }
    fn rewind(&mut self, mark: usize) {
        self.rows.truncate(mark);
    }
    fn buffered(&self) -> usize {
        0
    }
}
