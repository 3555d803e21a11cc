//! The tenants as a table: searched, sorted and a page of it at a time.
//!
//! What the table has is looked at once a second at most, however many ask: of tenants that are open or of which the meters told, some microseconds each. Of
//! the others nothing changes but what administrators change, which has all looked at, and where they will live and what the ledger's last hour has of them,
//! which may be [`WHOLE`] old. A request then takes a search and an order of what it shows.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use base::{Nanos, TenantId};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::Serialize;
use serde_json::{Value, json};

use super::answer::Answer;
use super::frames::Rates;
use super::query::Query;
use super::sampler::{Lately, Sampler, cpu_bounds, io_bounds, memory_bounds};
use super::{Console, lock};
use crate::administration::AdministeredCounts;
use crate::shared::Shared;
use crate::tenants::Entry;

/// How old the table may be of a tenant that does something.
const FRESH: Nanos = Nanos::from_secs(1);
/// And of the others.
const WHOLE: Nanos = Nanos::from_secs(30);
const ROWS_DEFAULT: usize = 100;
const ROWS_MAX: usize = 500;

/// A tenant in the table; `None` where it is not known or there is no limit.
#[derive(Clone, Serialize, Debug)]
pub(super) struct TenantRow {
    id: u64,
    name: String,
    size: Option<String>,
    worker: u16,
    open: bool,
    cpu_promised: f64,
    cpu_max: Option<f64>,
    cpu: f32,
    cpu_demanded: f32,
    iops_promised: f64,
    iops_max: Option<f64>,
    iops: f32,
    iops_demanded: f32,
    memory_promised_bytes: u64,
    memory_max_bytes: Option<u64>,
    memory_bytes: u64,
    broken_hour: u64,
    statements_per_s: f32,
    p50_ms: Option<f32>,
    p99_ms: Option<f32>,
    sessions: usize,
    disk_bytes: Option<u64>,
}

/// What to sort by.
enum SortKey<'r> {
    Text(&'r str),
    Number(f64),
    Unknown,
}

impl SortKey<'_> {
    fn cmp(&self, other: &SortKey<'_>) -> Ordering {
        match (self, other) {
            (SortKey::Text(a), SortKey::Text(b)) => a.cmp(b),
            (SortKey::Number(a), SortKey::Number(b)) => a.total_cmp(b),
            _ => Ordering::Equal,
        }
    }
}

type Column = fn(&TenantRow) -> SortKey<'_>;

fn known(number: Option<f64>) -> SortKey<'static> {
    number.map_or(SortKey::Unknown, SortKey::Number)
}

fn bytes(number: Option<u64>) -> SortKey<'static> {
    known(number.map(|bytes| bytes as f64))
}

/// Every column by its name.
const COLUMNS: [(&str, Column); 22] = [
    ("id", |row| SortKey::Number(row.id as f64)),
    ("name", |row| SortKey::Text(&row.name)),
    ("size", |row| row.size.as_deref().map_or(SortKey::Unknown, SortKey::Text)),
    ("worker", |row| SortKey::Number(row.worker.into())),
    ("open", |row| SortKey::Number(row.open.into())),
    ("cpu_promised", |row| SortKey::Number(row.cpu_promised)),
    ("cpu_max", |row| known(row.cpu_max)),
    ("cpu", |row| SortKey::Number(row.cpu.into())),
    ("cpu_demanded", |row| SortKey::Number(row.cpu_demanded.into())),
    ("iops_promised", |row| SortKey::Number(row.iops_promised)),
    ("iops_max", |row| known(row.iops_max)),
    ("iops", |row| SortKey::Number(row.iops.into())),
    ("iops_demanded", |row| SortKey::Number(row.iops_demanded.into())),
    ("memory_promised_bytes", |row| bytes(Some(row.memory_promised_bytes))),
    ("memory_max_bytes", |row| bytes(row.memory_max_bytes)),
    ("memory_bytes", |row| bytes(Some(row.memory_bytes))),
    ("broken_hour", |row| bytes(Some(row.broken_hour))),
    ("statements_per_s", |row| SortKey::Number(row.statements_per_s.into())),
    ("p50_ms", |row| known(row.p50_ms.map(f64::from))),
    ("p99_ms", |row| known(row.p99_ms.map(f64::from))),
    ("sessions", |row| SortKey::Number(row.sessions as f64)),
    ("disk_bytes", |row| bytes(row.disk_bytes)),
];

impl TenantRow {
    /// A tenant as it is. `broken_hour`: of the ledger; `lately`: what it did last.
    pub(super) fn of(shared: &Shared, entry: &Entry, broken_hour: u64, lately: Option<Lately>) -> TenantRow {
        let (name, size, promise) =
            entry.with_row(|row| (row.name.clone(), row.size.clone(), row.promise.clone()));
        let (cpu, io, memory) = (cpu_bounds(&promise), io_bounds(&promise), memory_bounds(&promise));
        let lately = lately.unwrap_or_default();
        let metered = &lately.metered;
        TenantRow {
            id: entry.id.0,
            name,
            size,
            worker: entry.home.worker().id().0,
            open: entry.home.is_open(),
            cpu_promised: cpu.promised,
            cpu_max: cpu.max,
            cpu: lately.cpu,
            cpu_demanded: metered.cpu.demanded,
            iops_promised: io.promised,
            iops_max: io.max,
            iops: most(&metered.io, |of| of.given),
            iops_demanded: most(&metered.io, |of| of.demanded),
            memory_promised_bytes: memory.promised as u64,
            memory_max_bytes: memory.max.map(|max| max as u64),
            memory_bytes: entry.home.page_figures().0.0,
            broken_hour,
            statements_per_s: metered.statements_per_s,
            p50_ms: metered.p50_ms,
            p99_ms: metered.p99_ms,
            sessions: shared.sessions.count_of(entry.id),
            disk_bytes: entry.home.storage_used().map(|used| used.0),
        }
    }
}

/// Of the volume where it was most: what is promised, and the limit, are on each.
fn most(volumes: &[Rates], rate: fn(&Rates) -> f32) -> f32 {
    volumes.iter().map(rate).fold(0.0, f32::max)
}

/// All tenants as they were a moment ago.
#[derive(Default)]
pub(super) struct TenantTable {
    rows: Vec<TenantRow>,
    /// Where each is among the rows.
    places: FxHashMap<TenantId, usize>,
    /// When all were looked at, and what had been changed by then.
    gathered: Option<(Nanos, AdministeredCounts)>,
    /// When those that may have done something were.
    looked: Nanos,
    /// Which those were: what they stopped doing is seen at the next look.
    active: FxHashSet<TenantId>,
}

impl TenantTable {
    fn rows(&mut self, console: &Console, shared: &Shared) -> &[TenantRow] {
        let (now, counts) = (console.env.now(), shared.administered.counts());
        // What was just changed is seen by whoever asks next.
        let is_whole = |(at, then): &(Nanos, AdministeredCounts)| now - *at < WHOLE && *then == counts;
        if !self.gathered.as_ref().is_some_and(is_whole) {
            let (sampler, broken_hour) = (lock(&console.live.sampler), shared.ledger.broken_hour());
            let row = |entry: Arc<Entry>| {
                TenantRow::of(shared, &entry, broken_hour(entry.id), sampler.lately(entry.id))
            };
            self.rows = shared.tenants.entries().into_iter().map(row).collect();
            let places = self.rows.iter().enumerate();
            self.places = places.map(|(place, row)| (TenantId(row.id), place)).collect();
            self.active = sampler.active(shared);
            (self.gathered, self.looked) = (Some((now, counts)), now);
        } else if now - self.looked >= FRESH {
            self.look(&lock(&console.live.sampler), shared);
            self.looked = now;
        }
        &self.rows
    }

    /// Looks at the tenants that may have done something since the last look.
    fn look(&mut self, sampler: &Sampler, shared: &Shared) {
        let broken_hour = shared.ledger.broken_hour();
        let active = sampler.active(shared);
        let before = std::mem::take(&mut self.active);
        for id in before.union(&active) {
            // One that was just made or dropped is seen with all: its making or dropping is counted.
            let (Some(place), Some(entry)) = (self.places.get(id), shared.tenants.get(*id)) else { continue };
            self.rows[*place] = TenantRow::of(shared, &entry, broken_hour(*id), sampler.lately(*id));
        }
        self.active = active;
    }
}

pub(super) async fn list(State(console): State<Arc<Console>>, query: Query) -> Answer<Json<Value>> {
    let shared = console.shared()?;
    let column = query.one_of("sort", &COLUMNS)?.unwrap_or(COLUMNS[1].1);
    let is_descending = query.one_of("order", &[("asc", false), ("desc", true)])?.unwrap_or(false);
    let offset = query.number("offset", 0, usize::MAX)?;
    let limit = query.number("limit", ROWS_DEFAULT, ROWS_MAX)?;
    let mut table = lock(&console.tenants);
    let rows = table.rows(&console, &shared);
    let (matched, page) =
        sorted(rows, query.text("search"), column, is_descending, offset..offset.saturating_add(limit));
    Ok(Json(json!({ "total": rows.len(), "matched": matched, "offset": offset, "rows": page })))
}

/// How many tenants have this in their name, and of those, by a column and then by name, the ones in `wanted`; those of which it is not known last,
/// whichever way. What comes behind them is not put in order.
fn sorted<'r>(
    rows: &'r [TenantRow],
    search: Option<&str>,
    column: Column,
    is_descending: bool,
    wanted: Range<usize>,
) -> (usize, Vec<&'r TenantRow>) {
    let search = search.map(str::to_lowercase);
    let is_found =
        |row: &&TenantRow| search.as_ref().is_none_or(|search| row.name.to_lowercase().contains(search));
    let mut found: Vec<&TenantRow> = rows.iter().filter(is_found).collect();
    let order = |a: &&TenantRow, b: &&TenantRow| {
        let (of_a, of_b) = (column(a), column(b));
        let is_unknown = |key: &SortKey<'_>| matches!(key, SortKey::Unknown);
        let order = if is_descending { of_b.cmp(&of_a) } else { of_a.cmp(&of_b) };
        is_unknown(&of_a).cmp(&is_unknown(&of_b)).then(order).then_with(|| a.name.cmp(&b.name))
    };
    let count = found.len();
    let wanted = wanted.start.min(count)..wanted.end.min(count);
    if wanted.end < count {
        found.select_nth_unstable_by(wanted.end, order);
        found.truncate(wanted.end);
    }
    found.sort_unstable_by(order);
    (count, found.split_off(wanted.start))
}

/// The row of one tenant as it is now.
pub(super) fn row_of(console: &Console, shared: &Shared, entry: &Entry) -> TenantRow {
    let lately = lock(&console.live.sampler).lately(entry.id);
    TenantRow::of(shared, entry, shared.ledger.broken_hour()(entry.id), lately)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: u64, name: &str, p99_ms: Option<f32>) -> TenantRow {
        TenantRow {
            id,
            name: name.to_owned(),
            size: None,
            worker: 0,
            open: true,
            cpu_promised: 0.0,
            cpu_max: None,
            cpu: id as f32,
            cpu_demanded: 0.0,
            iops_promised: 0.0,
            iops_max: None,
            iops: 0.0,
            iops_demanded: 0.0,
            memory_promised_bytes: 0,
            memory_max_bytes: None,
            memory_bytes: 0,
            broken_hour: 0,
            statements_per_s: 0.0,
            p50_ms: None,
            p99_ms,
            sessions: 0,
            disk_bytes: None,
        }
    }

    fn names(rows: &[TenantRow], search: Option<&str>, column: &str, is_descending: bool) -> Vec<String> {
        let column = COLUMNS.iter().find(|(name, _)| *name == column).expect("a column").1;
        let page = |wanted: Range<usize>| -> Vec<String> {
            let (count, page) = sorted(rows, search, column, is_descending, wanted);
            assert!(count <= rows.len());
            page.into_iter().map(|row| row.name.clone()).collect()
        };
        let all = page(0..usize::MAX);
        for start in 0..=all.len() + 1 {
            for end in start..=all.len() + 2 {
                let end_in = end.min(all.len());
                assert_eq!(page(start..end), all[start.min(end_in)..end_in], "a page is a part of the whole");
            }
        }
        all
    }

    #[test]
    fn tenants_are_sorted_by_any_column_and_the_unknown_come_last() {
        let rows =
            [row(3, "b", Some(2.0)), row(1, "C", None), row(2, "a", Some(9.0)), row(4, "d", Some(2.0))];
        assert_eq!(names(&rows, None, "name", false), ["C", "a", "b", "d"]);
        assert_eq!(names(&rows, None, "cpu", true), ["d", "b", "a", "C"]);
        assert_eq!(names(&rows, None, "p99_ms", false), ["b", "d", "a", "C"]);
        assert_eq!(names(&rows, None, "p99_ms", true), ["a", "b", "d", "C"], "the same last");
        assert_eq!(names(&rows, Some("c"), "id", false), ["C"], "however it is written");
    }

    #[test]
    fn ios_are_those_of_the_volume_where_they_were_most() {
        let of = |demanded, given| Rates { demanded, given, ..Rates::default() };
        let volumes = [of(90.0, 80.0), of(100.0, 70.0), of(0.0, 0.0)];
        assert_eq!((most(&volumes, |of| of.given), most(&volumes, |of| of.demanded)), (80.0, 100.0));
        assert_eq!(most(&[], |of| of.given), 0.0);
    }

    #[test]
    fn every_value_of_a_row_can_be_sorted_by() {
        let json = serde_json::to_value(row(1, "a", None)).unwrap();
        let mut keys: Vec<&str> = json.as_object().unwrap().keys().map(String::as_str).collect();
        let mut columns: Vec<&str> = COLUMNS.iter().map(|(name, _)| *name).collect();
        keys.sort_unstable();
        columns.sort_unstable();
        assert_eq!(keys, columns);
    }
}
