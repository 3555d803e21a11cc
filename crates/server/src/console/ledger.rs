//! The ledger: what was promised, wanted, given and missed, by the metering interval for the last hour or by the minute for 62 days.
//!
//! Looked through on a thread aside: an hour is a quarter of a million rows at most, 62 days are files of a gigabyte and more, read some minutes at a
//! time, the newest first. A page of rows is kept of it, or none of it where it goes out as CSV.

use std::ops::Range;
use std::sync::Arc;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use base::SqlResult;
use futures::Stream;
use governor::{Cause, RollUpRow};
use serde_json::{Value, json};
use sql::session::{HistoryEntry, LedgerEntry};
use tokio::sync::mpsc;

use super::Console;
use super::answer::{Answer, Refusal};
use super::query::Query;
use crate::admin::Peer;
use crate::session::POSTGRES_EPOCH_MICROS;
use crate::shared::Shared;

const ROWS_DEFAULT: usize = 100;
const ROWS_MAX: usize = 1000;
/// CSV that is made and not taken: pieces of so many bytes.
const PIECES_MAX: usize = 4;
const PIECE_LEN: usize = 64 << 10;

/// A row of either granularity. Amounts as people are shown them.
#[derive(Clone, Debug)]
struct Row {
    tenant: String,
    resource: &'static str,
    volume: Option<String>,
    began_ms: i64,
    ended_ms: i64,
    active_s: f64,
    promised: f64,
    demanded: f64,
    given: f64,
    missed: f64,
    over: f64,
    /// Of several intervals together: by which most were broken.
    cause: Option<&'static str>,
    delay_p99_s: Option<f64>,
    delay_max_s: Option<f64>,
    owed: f64,
    /// By cause, of several intervals together.
    broken: [u64; RollUpRow::CAUSES.len()],
}

fn unix_ms(postgres_micros: i64) -> i64 {
    (postgres_micros + POSTGRES_EPOCH_MICROS).div_euclid(1000)
}

impl From<LedgerEntry> for Row {
    fn from(of: LedgerEntry) -> Row {
        Row {
            tenant: of.tenant,
            resource: of.resource,
            volume: of.volume,
            began_ms: unix_ms(of.began),
            ended_ms: unix_ms(of.ended),
            active_s: of.active,
            promised: of.promised,
            demanded: of.demanded,
            given: of.given,
            missed: of.missed,
            over: of.over,
            cause: of.cause,
            delay_p99_s: of.delay_p99,
            delay_max_s: of.delay_max,
            owed: of.owed,
            broken: RollUpRow::CAUSES.map(|cause| u64::from(of.cause == Some(cause.as_str()))),
        }
    }
}

impl From<HistoryEntry> for Row {
    fn from(of: HistoryEntry) -> Row {
        let broken = [of.overbooked, of.system, of.neighbour, of.device];
        let began_ms = unix_ms(of.began);
        Row {
            tenant: of.tenant,
            resource: of.resource,
            volume: of.volume,
            began_ms,
            ended_ms: began_ms + i64::from(of.minutes) * 60_000,
            active_s: of.active,
            promised: of.promised,
            demanded: of.demanded,
            given: of.given,
            missed: of.missed,
            over: of.over,
            cause: most(&broken),
            delay_p99_s: of.delay_p99,
            delay_max_s: None,
            owed: of.owed,
            broken,
        }
    }
}

/// The cause by which the most intervals were broken; `None` if none was.
pub(super) fn most(broken: &[u64; RollUpRow::CAUSES.len()]) -> Option<&'static str> {
    let (at, count) = broken.iter().enumerate().rev().max_by_key(|(_, count)| **count)?;
    (*count > 0).then(|| RollUpRow::CAUSES[at].as_str())
}

impl Row {
    fn json(&self) -> Value {
        json!({
            "tenant": self.tenant,
            "resource": self.resource,
            "volume": self.volume,
            "began_ms": self.began_ms,
            "ended_ms": self.ended_ms,
            "active_s": self.active_s,
            "promised": self.promised,
            "demanded": self.demanded,
            "given": self.given,
            "missed": self.missed,
            "over": self.over,
            "cause": self.cause,
            "delay_p99_s": self.delay_p99_s,
            "delay_max_s": self.delay_max_s,
            "owed": self.owed,
        })
    }

    fn csv(&self) -> String {
        let number = |number: Option<f64>| number.map(|number| number.to_string()).unwrap_or_default();
        let fields = [
            field(&self.tenant),
            self.resource.to_owned(),
            field(self.volume.as_deref().unwrap_or_default()),
            self.began_ms.to_string(),
            self.ended_ms.to_string(),
            self.active_s.to_string(),
            self.promised.to_string(),
            self.demanded.to_string(),
            self.given.to_string(),
            self.missed.to_string(),
            self.over.to_string(),
            self.cause.unwrap_or_default().to_owned(),
            number(self.delay_p99_s),
            number(self.delay_max_s),
            self.owed.to_string(),
        ];
        fields.join(",") + "\r\n"
    }
}

const CSV_HEAD: &str = "tenant,resource,volume,began_ms,ended_ms,active_s,promised,demanded,given,missed,over,cause,delay_p99_s,delay_max_s,owed\r\n";

/// A text in CSV (RFC 4180). One that a spreadsheet would take for a formula is written as a text.
fn field(text: &str) -> String {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r', '\n']);
    if !is_formula && !text.contains(['"', ',', '\n', '\r']) {
        return text.to_owned();
    }
    format!("\"{}{}\"", if is_formula { "'" } else { "" }, text.replace('"', "\"\""))
}

/// Which rows are wanted.
#[derive(Clone, Debug, Default)]
struct Filter {
    tenant: Option<String>,
    resource: Option<&'static str>,
    cause: Option<Cause>,
    broken: Option<bool>,
    /// That began in it.
    began_ms: Range<i64>,
    by_minute: bool,
}

impl Filter {
    fn of(query: &Query) -> Answer<Filter> {
        let resources = ["cpu", "io", "memory", "work_memory"].map(|name| (name, name));
        let causes = RollUpRow::CAUSES.map(|cause| (cause.as_str(), cause));
        let from = query.value("from_ms")?.unwrap_or(i64::MIN);
        Ok(Filter {
            tenant: query.text("tenant").map(str::to_owned),
            resource: query.one_of("resource", &resources)?,
            cause: query.one_of("cause", &causes)?,
            broken: query.value("broken")?,
            began_ms: from..query.value("to_ms")?.unwrap_or(i64::MAX),
            by_minute: query
                .one_of("granularity", &[("interval", false), ("minute", true)])?
                .unwrap_or(false),
        })
    }

    fn wants(&self, row: &Row) -> bool {
        let at = |cause: Cause| RollUpRow::CAUSES.iter().position(|one| *one == cause).expect("one of all");
        let is_broken = row.broken.iter().any(|count| *count > 0);
        self.tenant.as_ref().is_none_or(|tenant| *tenant == row.tenant)
            && self.resource.is_none_or(|resource| resource == row.resource)
            && self.cause.is_none_or(|cause| row.broken[at(cause)] > 0)
            && self.broken.is_none_or(|broken| broken == is_broken)
            && self.began_ms.contains(&row.began_ms)
    }
}

/// Calls `each` for the rows wanted, newest first, until it says to stop, or nobody waits for them (`is_awaited`), however few they are. Blocks.
fn for_each(
    shared: &Arc<Shared>,
    filter: &Filter,
    is_awaited: &dyn Fn() -> bool,
    each: &mut dyn FnMut(Row) -> bool,
) -> SqlResult<()> {
    let of = match &filter.tenant {
        Some(name) => match shared.tenants.named(name) {
            Some(entry) => Some(entry.id),
            // One that is gone has no rows.
            None => return Ok(()),
        },
        None => None,
    };
    let view = shared.ledger.history_view(shared, of);
    let mut give = |mut rows: Vec<Row>| {
        rows.retain(|row| filter.wants(row));
        rows.sort_by_key(|row| std::cmp::Reverse(row.began_ms));
        is_awaited() && rows.into_iter().all(&mut *each)
    };
    if !filter.by_minute {
        give(view.ledger_rows().into_iter().map(Row::from).collect());
        return Ok(());
    }
    view.history_by_day(&filter.began_ms, &mut |rows| give(rows.into_iter().map(Row::from).collect()))
}

pub(super) async fn ledger(State(console): State<Arc<Console>>, query: Query) -> Answer<Json<Value>> {
    let filter = Filter::of(&query)?;
    let offset = query.number("offset", 0, usize::MAX)?;
    let limit = query.number("limit", ROWS_DEFAULT, ROWS_MAX)?;
    let page = offset..offset.saturating_add(limit);
    let (total, rows) = console
        .aside(move |shared, is_awaited| {
            let (mut total, mut rows) = (0, Vec::new());
            for_each(shared, &filter, is_awaited, &mut |row| {
                if page.contains(&total) {
                    rows.push(row.json());
                }
                total += 1;
                true
            })?;
            Ok((total, rows))
        })
        .await?;
    Ok(Json(json!({ "total": total, "rows": rows })))
}

pub(super) async fn csv(
    State(console): State<Arc<Console>>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    query: Query,
) -> Answer<Response> {
    let filter = Filter::of(&query)?;
    let (to, from) = mpsc::channel::<std::io::Result<Bytes>>(PIECES_MAX);
    let place = console.place_for_download().await;
    console.start_aside(place, move |shared| {
        let mut piece = CSV_HEAD.to_owned();
        let outcome = for_each(shared, &filter, &|| !to.is_closed(), &mut |row| {
            piece += &row.csv();
            // A client that is gone wants no more.
            piece.len() < PIECE_LEN || to.blocking_send(Ok(std::mem::take(&mut piece).into())).is_ok()
        });
        // A file that breaks off says so: the connection is cut.
        let last = outcome.map(|()| Bytes::from(piece)).map_err(std::io::Error::other);
        let _ = to.blocking_send(last);
    })?;
    let kind = [
        (header::CONTENT_TYPE, "text/csv; charset=utf-8; header=present"),
        (header::CONTENT_DISPOSITION, "attachment; filename=\"ledger.csv\""),
    ];
    let pieces = pieces(from, move || peer.answering());
    Ok((kind, Body::from_stream(pieces)).into_response())
}

/// What comes of a file. While somebody waits for more of it there is what `working` gives: files of which little is wanted are read for minutes, and a
/// connection over which nothing goes meanwhile is none of a client that does not read.
fn pieces<W>(
    from: mpsc::Receiver<std::io::Result<Bytes>>,
    working: impl Fn() -> W,
) -> impl Stream<Item = std::io::Result<Bytes>> {
    futures::stream::unfold((from, working), |(mut from, working)| async move {
        let at_work = working();
        let piece = from.recv().await;
        drop(at_work);
        Some((piece?, (from, working)))
    })
}

/// Rows of a tenant by the minute that began in a range of time, newest first, as long as somebody waits for them. Blocks.
pub(super) fn minutes_of(
    shared: &Arc<Shared>,
    tenant: &str,
    began_ms: Range<i64>,
    is_awaited: &dyn Fn() -> bool,
    each: &mut dyn FnMut(&HistoryEntry),
) -> SqlResult<()> {
    let Some(entry) = shared.tenants.named(tenant) else { return Ok(()) };
    let view = shared.ledger.history_view(shared, Some(entry.id));
    view.history_by_day(&began_ms, &mut |rows| {
        rows.iter().filter(|row| began_ms.contains(&unix_ms(row.began))).for_each(&mut *each);
        is_awaited()
    })
}

/// 404 unless there is such a tenant.
pub(super) fn check_tenant(shared: &Shared, name: &str) -> Answer<()> {
    let missing = || Refusal::from(crate::tenants::statements::missing(name));
    shared.tenants.named(name).map(drop).ok_or_else(missing)
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt as _, StreamExt as _};

    use super::*;

    fn row(tenant: &str, began_ms: i64, broken: [u64; 4]) -> Row {
        Row {
            tenant: tenant.to_owned(),
            resource: "io",
            volume: Some("log".to_owned()),
            began_ms,
            ended_ms: began_ms + 1000,
            active_s: 0.5,
            promised: 10.0,
            demanded: 9.0,
            given: 8.0,
            missed: 1.0,
            over: 0.0,
            cause: most(&broken),
            delay_p99_s: Some(0.25),
            delay_max_s: None,
            owed: 0.0,
            broken,
        }
    }

    #[test]
    fn rows_are_filtered_by_everything_that_is_said() {
        let acme = row("acme", 5000, [0, 0, 3, 1]);
        let kept = row("acme", 5000, [0; 4]);
        let all = Filter { began_ms: i64::MIN..i64::MAX, ..Filter::default() };
        let only = |change: fn(&mut Filter)| {
            let mut filter = all.clone();
            change(&mut filter);
            (filter.wants(&acme), filter.wants(&kept))
        };
        assert_eq!(only(|_| {}), (true, true));
        assert_eq!(only(|filter| filter.tenant = Some("other".to_owned())), (false, false));
        assert_eq!(only(|filter| filter.resource = Some("io")), (true, true));
        assert_eq!(only(|filter| filter.resource = Some("cpu")), (false, false));
        assert_eq!(only(|filter| filter.cause = Some(Cause::Device)), (true, false));
        assert_eq!(only(|filter| filter.cause = Some(Cause::System)), (false, false));
        assert_eq!(only(|filter| filter.broken = Some(false)), (false, true));
        assert_eq!(only(|filter| filter.began_ms = 5000..5001), (true, true));
        assert_eq!(only(|filter| filter.began_ms = 5001..6000), (false, false));
        assert_eq!(acme.cause, Some("neighbour"));
    }

    #[test]
    fn while_a_piece_is_waited_for_the_connection_is_kept() {
        let (to, from) = mpsc::channel(1);
        let kept = Arc::new(());
        let of_stream = kept.clone();
        let mut pieces = Box::pin(pieces(from, move || of_stream.clone()));
        let count = || Arc::strong_count(&kept);
        assert_eq!(count(), 2, "nobody has asked yet");
        assert!(pieces.next().now_or_never().is_none());
        assert_eq!(count(), 3, "there is nothing yet");
        to.try_send(Ok(Bytes::from_static(b"a"))).expect("there is room");
        let piece = pieces.next().now_or_never().flatten().expect("there is one");
        assert_eq!((piece.expect("a piece"), count()), (Bytes::from_static(b"a"), 2));
        drop(to);
        assert!(pieces.next().now_or_never().is_some_and(|end| end.is_none()));
    }

    #[test]
    fn csv_has_a_row_a_line_whatever_a_tenant_is_called() {
        assert_eq!(CSV_HEAD.matches(',').count(), row("a", 0, [0; 4]).csv().matches(',').count());
        let line = row("a,\"b\"\n", 1, [1, 0, 0, 0]).csv();
        assert_eq!(line, "\"a,\"\"b\"\"\n\",io,log,1,1001,0.5,10,9,8,1,0,overbooked,0.25,,0\r\n");
        for formula in ["=1+1", "+1", "-1", "@sum", "\t=1", "\r=1", "\n=1"] {
            assert_eq!(field(formula), format!("\"'{formula}\""));
        }
        assert_eq!(field("plain"), "plain");
    }
}
