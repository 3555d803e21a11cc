//! One tenant: its promise, its sessions and what they wait for, and what to promise it.

use std::borrow::Cow;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use base::{Nanos, Oid, SessionId, TenantId, TreeId};
use governor::{Promise, PromiseKey};
use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::{Map, Value, json};
use sql::session::{AdviceEntry, BackendRow, StatementFigures, relation_name};
use tenant::Tenant;
use tenant::locks::{LockRecord, LockTag};

use super::Console;
use super::answer::{Answer, Refusal};
use super::name::Name;
use super::query::Query;
use super::tenants::row_of;
use crate::session::POSTGRES_EPOCH_MICROS;
use crate::shared::Shared;
use crate::tenants::{Entry, administer, statements as administration};

/// Whoever allows a statement a day has no goal.
const GOAL_MS_MAX: f64 = 86_400_000.0;

/// The tenant of this name; the server's own is `system`.
fn existing(shared: &Shared, name: &str) -> Answer<Arc<Entry>> {
    Ok(shared.tenants.named(name).ok_or_else(|| administration::missing(name))?)
}

fn unix_ms(postgres_micros: i64) -> i64 {
    (postgres_micros + POSTGRES_EPOCH_MICROS) / 1000
}

pub(super) async fn detail(
    State(console): State<Arc<Console>>,
    Path(Name(name)): Path<Name>,
) -> Answer<Json<Value>> {
    let shared = console.shared()?;
    let entry = existing(&shared, &name)?;
    let mut json = serde_json::to_value(row_of(&console, &shared, &entry)).expect("a row is JSON");
    json["options"] = options(&entry);
    json["cache_curve"] = cache_curve(&shared, entry.id);
    json["waits"] = waits(&shared, entry.id);
    Ok(Json(json))
}

/// Empty without a promise of memory, and until enough was seen of it.
fn cache_curve(shared: &Shared, tenant: TenantId) -> Value {
    let points = shared.memory_meters.curve(tenant);
    // Asked after the curve, which begins when it is first asked for.
    let Some(uses) = shared.memory_meters.references_of_curve(tenant) else { return json!([]) };
    let point = |(bytes, io): (base::ByteCount, governor::PageIo)| {
        // A page that was read is a use that found none.
        let hit_ratio = (1.0 - io.reads as f64 / uses.max(1) as f64).clamp(0.0, 1.0);
        json!({ "bytes": bytes.0, "hit_ratio": hit_ratio, "ios": io.total() })
    };
    points.into_iter().map(point).collect()
}

/// Every option of ALTER TENANT as it is in force, whether from its size or by hand; null where nothing was said.
fn options(entry: &Entry) -> Value {
    let unset = Promise::default();
    entry.with_row(|row| {
        let value = |key: PromiseKey| {
            let is_set = row.options.get(key).is_some() || row.promise.get(key) != unset.get(key);
            if is_set { json!(row.promise.get(key)) } else { Value::Null }
        };
        let mut options: Map<String, Value> =
            PromiseKey::ALL.iter().map(|&key| (key.as_str().to_owned(), value(key))).collect();
        options.insert("size".to_owned(), json!(row.size));
        options.insert("volume".to_owned(), json!(row.volume));
        Value::Object(options)
    })
}

fn waits(shared: &Shared, tenant: TenantId) -> Value {
    let json = |(wait, (time, count)): (&str, (Nanos, u64))| json!({ "wait": wait, "seconds": time.as_secs_f64(), "count": count });
    shared.spent_by(tenant).named().into_iter().map(json).collect()
}

pub(super) async fn sessions(
    State(console): State<Arc<Console>>,
    Path(Name(name)): Path<Name>,
) -> Answer<Json<Value>> {
    let shared = console.shared()?;
    let entry = existing(&shared, &name)?;
    let rows: Vec<Value> =
        shared.sessions.list(Some(entry.id)).iter().map(|control| session(&control.activity())).collect();
    Ok(Json(json!({ "rows": rows })))
}

/// A statement's text as a viewer may see it, who may not see passwords: one that has the word is told without its literals.
fn shown_query(query: &str) -> Cow<'_, str> {
    let word = b"password";
    let has_word = query.as_bytes().windows(word.len()).any(|found| found.eq_ignore_ascii_case(word));
    if has_word { sql::normal_text(query).into() } else { query.into() }
}

fn session(of: &BackendRow) -> Value {
    let client = of.client_address.as_ref().map(|address| match of.client_port {
        Some(port) if address.contains(':') => format!("[{address}]:{port}"),
        Some(port) => format!("{address}:{port}"),
        None => address.clone(),
    });
    json!({
        "pid": of.pid.0,
        "user": of.user,
        "application_name": of.application_name,
        "client": client,
        "state": of.state,
        "wait_event": of.wait_event.map(|(kind, name)| format!("{kind}: {name}")),
        "query": shown_query(&of.query),
        "query_start_ms": of.query_start.map(unix_ms),
        "transaction_start_ms": of.transaction_start.map(unix_ms),
    })
}

pub(super) async fn cancel(
    State(console): State<Arc<Console>>,
    Path((Name(name), pid)): Path<(Name, u32)>,
) -> Answer<Json<Value>> {
    signal(&console, &name, pid, "pg_cancel_backend").await
}

pub(super) async fn terminate(
    State(console): State<Arc<Console>>,
    Path((Name(name), pid)): Path<(Name, u32)>,
) -> Answer<Json<Value>> {
    signal(&console, &name, pid, "pg_terminate_backend").await
}

async fn signal(console: &Console, name: &str, pid: u32, function: &str) -> Answer<Json<Value>> {
    let shared = console.shared()?;
    let entry = existing(&shared, name)?;
    let is_its = shared.sessions.get(SessionId(pid)).is_some_and(|control| control.tenant == entry.id);
    if !is_its {
        return Err(Refusal::missing(format!("tenant \"{name}\" has no session {pid}")));
    }
    let sql = format!("SELECT {function}({pid})");
    let answered = administer(&shared, sql.clone()).await?;
    let done = answered.rows.first().and_then(|row| row.first()?.as_deref().map(|done| done == "t"));
    Ok(Json(json!({ "sql": sql, "done": done.unwrap_or(false) })))
}

/// What statements may be ordered by, the most first.
const STATEMENTS_BY: [(&str, fn(&StatementFigures) -> u64); 3] = [
    ("cpu", |figures| figures.taken.cpu.0),
    ("io", |figures| figures.taken.ios),
    ("calls", |figures| figures.calls),
];
const STATEMENTS_DEFAULT: usize = 20;
/// As many texts as are counted of a tenant.
const STATEMENTS_MAX: usize = 500;

pub(super) async fn statements(
    State(console): State<Arc<Console>>,
    Path(Name(name)): Path<Name>,
    query: Query,
) -> Answer<Json<Value>> {
    let by = query.one_of("by", &STATEMENTS_BY)?.unwrap_or(STATEMENTS_BY[0].1);
    let limit = query.number("limit", STATEMENTS_DEFAULT, STATEMENTS_MAX)?;
    let entry = existing(&*console.shared()?, &name)?;
    let shown = entry.home.statements().show();
    let mut texts: Vec<_> = shown.texts.iter().map(|text| (text.text(), &text.figures)).collect();
    texts.sort_by_key(|(text, figures)| (std::cmp::Reverse(by(figures)), *text));
    let rows: Vec<Value> =
        texts.into_iter().take(limit).map(|(text, figures)| statement(text, figures)).collect();
    Ok(Json(json!({ "rows": rows, "since_ms": shown.since.map(unix_ms) })))
}

fn statement(text: &str, of: &StatementFigures) -> Value {
    let ms = |time: Nanos| time.0 as f64 / 1e6;
    json!({
        "query": text,
        "calls": of.calls,
        "cpu_seconds": of.taken.cpu.as_secs_f64(),
        "ios": of.taken.ios,
        "rows": of.rows,
        "mean_ms": ms(of.time) / of.calls.max(1) as f64,
        "max_ms": ms(of.time_max),
    })
}

pub(super) async fn locks(
    State(console): State<Arc<Console>>,
    Path(Name(name)): Path<Name>,
) -> Answer<Json<Value>> {
    let shared = console.shared()?;
    let entry = existing(&shared, &name)?;
    // Of one that is closed nobody holds any, and it is not opened to find that out.
    let mut rows = Vec::new();
    if entry.home.is_open() {
        let home = entry.home.clone();
        let look = entry.home.spawn(async move { home.with(|home| lock_rows(home.tenant)) });
        // It may have closed meanwhile.
        if let Some(Ok(found)) = look.await {
            rows = found;
        }
    }
    Ok(Json(json!({ "rows": rows })))
}

/// At home.
fn lock_rows(tenant: &Tenant) -> Vec<Value> {
    let records = tenant.lock_records();
    let of_rows = names_of_trees(tenant, &records);
    let row = |record: &LockRecord| {
        json!({
            "pid": record.session.0,
            "relation": locked(tenant, &record.tag, &of_rows),
            "mode": record.mode.name(),
            "granted": record.granted,
            "blocked_by": record.blocked_by.iter().map(|pid| pid.0).collect::<Vec<_>>(),
        })
    };
    records.iter().map(row).collect()
}

fn name_of(tenant: &Tenant, oid: Oid) -> Option<String> {
    let catalog = tenant.catalog();
    catalog.relation(oid).map(|relation| relation_name(catalog, &[], relation))
}

/// The tables that locked rows are of, by the trees that they are locked in. Looks through the tables once, however many rows are locked.
fn names_of_trees(tenant: &Tenant, records: &[LockRecord]) -> FxHashMap<TreeId, String> {
    let tree_of = |record: &LockRecord| match record.tag {
        LockTag::Row(tree, _) => Some(tree),
        _ => None,
    };
    let trees: FxHashSet<TreeId> = records.iter().filter_map(tree_of).collect();
    let mut names = FxHashMap::default();
    if trees.is_empty() {
        return names;
    }
    for table in tenant.catalog().tables() {
        let of_table = std::iter::once(table.tree).chain(table.indexes.iter().map(|index| index.tree));
        for tree in of_table.filter(|tree| trees.contains(tree)) {
            names.extend(name_of(tenant, table.oid).map(|name| (tree, name)));
        }
    }
    names
}

/// What a lock is on.
fn locked(tenant: &Tenant, tag: &LockTag, of_rows: &FxHashMap<TreeId, String>) -> String {
    match tag {
        LockTag::Table(oid) => name_of(tenant, *oid).unwrap_or_else(|| oid.0.to_string()),
        LockTag::Row(tree, _) => {
            format!("row of {}", of_rows.get(tree).map_or("a table that is gone", String::as_str))
        }
        LockTag::Advisory(_) => "advisory".to_owned(),
        LockTag::Ddl => "catalog".to_owned(),
        LockTag::Branch => "branch".to_owned(),
    }
}

pub(super) async fn advise(
    State(console): State<Arc<Console>>,
    Path(Name(name)): Path<Name>,
    query: Query,
) -> Answer<Json<Value>> {
    let p99 = match query.value::<f64>("p99_ms")? {
        Some(ms) if ms > 0.0 && ms <= GOAL_MS_MAX => Some(Nanos((ms * 1e6) as u64)),
        Some(_) => {
            return Err(Refusal::bad_input(format!("\"p99_ms\" is above 0 and at most {GOAL_MS_MAX}")));
        }
        None => None,
    };
    let entries = console.aside(move |shared, _| shared.ledger.view(shared, None).advice(&name, p99)).await?;
    let rows: Vec<Value> = entries.into_iter().map(advice).collect();
    Ok(Json(json!({ "rows": rows })))
}

/// As the columns of `rowhouse.advise`.
fn advice(entry: AdviceEntry) -> Value {
    let found = entry.found.as_ref();
    let cpu = found.map(|found| found.cpu);
    let io = found.and_then(|found| found.io.as_ref());
    json!({
        "candidate": entry.candidate,
        "size": entry.size,
        "cpu": entry.cpu,
        "iops": entry.iops,
        "memory": entry.memory,
        "work_memory": entry.work_memory,
        "enough": found.map(|found| found.too_little.is_none()),
        "too_little": found.and_then(|found| found.too_little.as_ref()),
        "cpu_intervals": cpu.map(|cpu| cpu.intervals),
        "cpu_broken_min": cpu.map(|cpu| cpu.broken.0),
        "cpu_broken_max": cpu.map(|cpu| cpu.broken.1),
        "cpu_missed_min": cpu.map(|cpu| cpu.missed.0),
        "cpu_missed_max": cpu.map(|cpu| cpu.missed.1),
        "io_volume": io.map(|(volume, _)| volume),
        "io_intervals": io.map(|(_, io)| io.intervals),
        "io_broken_min": io.map(|(_, io)| io.broken.0),
        "io_broken_max": io.map(|(_, io)| io.broken.1),
        "io_missed_min": io.map(|(_, io)| io.missed.0),
        "io_missed_max": io.map(|(_, io)| io.missed.1),
        "cache_excess": found.and_then(|found| found.cache_excess),
        "spills": found.map(|found| found.spills.0),
        "spills_of": found.map(|found| found.spills.1),
        "keeps_p99": found.and_then(|found| found.keeps_p99),
        "since_ms": found.map(|found| unix_ms(found.since)),
        "note": entry.note,
    })
}
