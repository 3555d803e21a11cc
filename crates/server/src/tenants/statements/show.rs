//! SHOW TENANTS, SHOW SIZES, SHOW RUNAWAY RULES, SHOW SERVER and SHOW VOLUMES.

use base::ByteCount;
use governor::{PromiseKey, RunawayKey, RunawayScope, ServerKey, VolumeKey};
use rustc_hash::FxHashMap;
use sql::session::{Field, HostOutcome, HostStatement};
use types::{Datum, PgType, Row, TypeMod};

use super::super::RuleFigures;
use super::overbooking::Cores;
use crate::calibration::VolumeCalibration;
use crate::executor::yield_now;
use crate::shared::Shared;

/// So many tenants' rows are made in one turn.
const ROWS_A_TURN: usize = 128;

/// What SHOW TENANTS counts of a tenant's pages.
const COUNTED: [&str; 8] = [
    "resident_bytes",
    "page_misses",
    "page_reads",
    "page_evictions",
    "page_writes",
    "ahead_asked",
    "ahead_used",
    "ahead_wasted",
];

/// The columns of a statement's answer; empty for one without rows.
pub(crate) fn fields(statement: &HostStatement) -> Vec<Field> {
    let promised = || PromiseKey::ALL.iter().map(|key| text(key.as_str()));
    match statement {
        HostStatement::ShowTenants => {
            let mut fields = vec![text("name"), field("id", PgType::Int8), text("state"), text("volume")];
            fields.push(field("worker", PgType::Int4));
            fields.push(field("sessions", PgType::Int8));
            fields.push(field("cpu_seconds", PgType::Float8));
            fields.extend(promised());
            fields.push(field("storage_used", PgType::Int8));
            fields.push(field("temp_used", PgType::Int8));
            fields.push(field("work_memory_used", PgType::Int8));
            fields.extend(COUNTED.map(|name| field(name, PgType::Int8)));
            fields.push(text("size"));
            fields
        }
        HostStatement::ShowSizes => {
            [text("name"), field("tenants", PgType::Int8)].into_iter().chain(promised()).collect()
        }
        HostStatement::ShowServer => {
            let mut fields: Vec<_> = ServerKey::ALL.iter().map(|key| text(key.as_str())).collect();
            fields.push(field("workers", PgType::Int4));
            fields.extend(["cpu_reserved", "memory", "memory_reserved"].map(text));
            fields.extend(["work_memory", "work_memory_reserved"].map(text));
            fields
        }
        HostStatement::ShowVolumes => {
            let mut fields = vec![text("name"), text("path")];
            fields.extend(VolumeKey::ALL.iter().map(|key| text(key.as_str())));
            fields.push(field("iops_reserved", PgType::Int8));
            fields.push(text("bandwidth_reserved"));
            fields.push(field("depth", PgType::Int4));
            let measured = ["iops_read", "iops_write", "durable_writes"];
            fields.extend(measured.map(|name| field(name, PgType::Int8)));
            fields.push(field("calibrated", PgType::TimestampTz));
            fields.push(text("stale"));
            fields
        }
        HostStatement::ShowRunawayRules => {
            let mut fields = vec![text("name"), text("tenant")];
            fields.extend(RunawayKey::ALL.iter().map(|key| text(key.as_str())));
            fields.push(field("acted", PgType::Int8));
            fields
        }
        HostStatement::Evict { .. } => vec![field("evict", PgType::Int8)],
        _ => Vec::new(),
    }
}

fn text(name: &str) -> Field {
    field(name, PgType::Text)
}

fn field(name: &str, ty: PgType) -> Field {
    Field { name: name.to_owned(), table_oid: 0, attribute: 0, ty, modifier: TypeMod::NONE }
}

fn text_or_null(value: Option<String>) -> Datum {
    value.map_or(Datum::Null, |value| Datum::Text(value.into()))
}

/// The answer to a statement with rows.
pub(super) fn rows(statement: &HostStatement, rows: Vec<Row>, tag: &'static str) -> HostOutcome {
    HostOutcome::Rows { fields: fields(statement), rows, tag }
}

/// In many turns, since there may be many tenants.
pub(super) async fn tenants(shared: &Shared) -> Vec<Row> {
    let mut rows = Vec::new();
    for (name, entry) in shared.tenants.list() {
        if rows.len() % ROWS_A_TURN == ROWS_A_TURN - 1 {
            yield_now().await;
        }
        let row = entry.row();
        let used = shared.used_by(entry.id);
        let (resident, pages) = entry.home.page_figures();
        let mut values: Row = vec![
            Datum::Text(name.into()),
            Datum::Int8(entry.id.0.cast_signed()),
            Datum::Text(entry.home.phase_name().into()),
            Datum::Text(row.volume.into()),
            Datum::Int4(i32::from(entry.home.worker().id().0)),
            Datum::Int8(shared.sessions.count_of(entry.id) as i64),
            Datum::Float8(used.as_secs_f64()),
        ];
        values.extend(PromiseKey::ALL.iter().map(|&key| Datum::Text(row.promise.get(key).into())));
        let storage_used = entry.home.storage_used();
        values.push(storage_used.map_or(Datum::Null, |used| Datum::Int8(used.0.cast_signed())));
        values.push(Datum::Int8(entry.home.temp_used().0.cast_signed()));
        values.push(Datum::Int8(entry.home.work_memory_used().0.cast_signed()));
        let counted: [u64; COUNTED.len()] = [
            resident.0,
            pages.misses,
            pages.reads,
            pages.evictions,
            pages.write_backs,
            pages.ahead_asked,
            pages.ahead_used,
            pages.ahead_wasted,
        ];
        values.extend(counted.map(|count| Datum::Int8(count.cast_signed())));
        values.push(text_or_null(row.size));
        rows.push(values);
    }
    rows
}

pub(super) fn sizes(shared: &Shared) -> Vec<Row> {
    let mut having: FxHashMap<String, i64> = FxHashMap::default();
    for (_, entry) in shared.tenants.list() {
        if let Some(size) = entry.with_row(|row| row.size.clone()) {
            *having.entry(size).or_default() += 1;
        }
    }
    let mut rows = Vec::new();
    for (name, options) in shared.sizes.list() {
        let count = having.get(&name).copied().unwrap_or(0);
        let mut values: Row = vec![Datum::Text(name.as_str().into()), Datum::Int8(count)];
        values.extend(PromiseKey::ALL.iter().map(|&key| text_or_null(options.get(key))));
        rows.push(values);
    }
    rows
}

/// In the order they were made; NULL for a threshold that a rule has not, and for the tenant of one about all.
pub(super) fn runaway_rules(shared: &Shared) -> Vec<Row> {
    let row = |figures: RuleFigures| {
        let RunawayScope::Tenant(tenant) = figures.rule.scope else {
            return rule_row(&figures, Datum::Null);
        };
        let name = shared.tenants.get(tenant).map(|entry| entry.row().name);
        rule_row(&figures, text_or_null(name))
    };
    shared.runaways.list().into_iter().map(row).collect()
}

fn rule_row(figures: &RuleFigures, tenant: Datum) -> Row {
    let rule = &figures.rule;
    let mut row: Row = vec![Datum::Text((&*rule.name).into()), tenant];
    row.extend(RunawayKey::ALL.iter().map(|&key| {
        let value = Some(rule.terms.get(key)).filter(|value| value != "none");
        text_or_null(value)
    }));
    row.push(Datum::Int8(figures.acted.cast_signed()));
    row
}

pub(super) fn server(shared: &Shared) -> Vec<Row> {
    let (options, sums) = (shared.policy.get(), shared.tenants.reserved());
    let mut row: Row = ServerKey::ALL.iter().map(|&key| Datum::Text(options.get(key).into())).collect();
    row.push(Datum::Int4(shared.workers.len() as i32));
    row.push(Datum::Text(Cores(sums.cpu()).to_string().into()));
    row.push(Datum::Text(shared.config.memory.to_string().into()));
    row.push(Datum::Text(ByteCount(sums.memory()).to_string().into()));
    row.push(Datum::Text(shared.work_memory.capacity().to_string().into()));
    row.push(Datum::Text(ByteCount(sums.work_memory()).to_string().into()));
    vec![row]
}

/// What a volume was measured to do; NULL where it was not, and the reason in the last column.
fn calibration_of(volume: &VolumeCalibration, now: i64) -> Vec<Datum> {
    let found = match &volume.found {
        Ok(found) => found,
        Err(reason) => {
            let mut row = vec![Datum::Null; 5];
            row.push(Datum::Text(reason.to_string().into()));
            return row;
        }
    };
    let count = |n: u64| Datum::Int8(i64::try_from(n).unwrap_or(i64::MAX));
    vec![
        Datum::Int4(i32::try_from(found.depth).unwrap_or(i32::MAX)),
        count(found.iops_read),
        count(found.iops_write),
        count(found.durable_writes_per_second),
        Datum::TimestampTz(crate::session::from_unix_seconds(0) + found.measured_at),
        volume.staleness(now).map_or(Datum::Null, |stale| Datum::Text(stale.to_string().into())),
    ]
}

pub(super) fn volumes(shared: &Shared) -> Vec<Row> {
    let sums = shared.tenants.reserved();
    let mut rows = Vec::new();
    for volume in shared.volumes.list() {
        let options = volume.options();
        let mut row: Row = vec![
            Datum::Text(volume.name.as_str().into()),
            Datum::Text(volume.path.display().to_string().into()),
        ];
        row.extend(VolumeKey::ALL.iter().map(|&key| Datum::Text(options.get(key).into())));
        row.push(Datum::Int8(i64::try_from(sums.iops(volume.number)).unwrap_or(i64::MAX)));
        row.push(Datum::Text(ByteCount(sums.bandwidth(volume.number)).to_string().into()));
        row.extend(calibration_of(&volume.calibration, shared.env.clock.unix_micros()));
        rows.push(row);
    }
    rows
}
