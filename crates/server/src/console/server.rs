//! The server as a whole, its sizes and its runaway rules.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use base::TenantId;
use governor::ServerKey;
use serde_json::{Map, Value, json};
use sql::session::{HostOutcome, HostStatement};
use types::Datum;

use super::Console;
use super::answer::Answer;
use crate::session::{Control, POSTGRES_EPOCH_MICROS};
use crate::shared::Shared;
use crate::tenants::statements;
use crate::volumes::Volume;

pub(super) async fn server(State(console): State<Arc<Console>>) -> Answer<Json<Value>> {
    let shared = console.shared()?;
    let (options, sums) = (shared.policy.get(), shared.tenants.reserved());
    let volumes: Vec<Value> =
        shared.volumes.list().iter().map(|of| volume(&shared, of, sums.iops(of.number))).collect();
    Ok(Json(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "started_ms": console.wall_ms(console.started),
        "now_ms": console.wall_ms(console.env.now()),
        "workers": shared.workers.len(),
        "cores": shared.env.threads.cores().len(),
        "memory_bytes": shared.memory.limit().0,
        "work_memory_bytes": shared.work_memory.capacity().0,
        // But for the server's own.
        "tenants": shared.tenants.count().saturating_sub(1),
        "sessions": shared.sessions.count(),
        "policy": options.get(ServerKey::Policy),
        "overbooking": options.get(ServerKey::Overbooking),
        "metering_interval_ms": options.metering_interval().0 / 1_000_000,
        "promised": {
            "cpu": sums.cpu() as f64 / 1000.0,
            "memory_bytes": sums.memory(),
            "work_memory_bytes": sums.work_memory(),
        },
        "volumes": volumes,
        "demo": !console.extension.endpoints.is_empty(),
    })))
}

fn volume(shared: &Shared, of: &Volume, promised_iops: u64) -> Value {
    let calibration = match &of.calibration.found {
        Err(_) => "none",
        Ok(_) if of.calibration.staleness(shared.env.clock.unix_micros()).is_some() => "stale",
        Ok(_) => "fresh",
    };
    let measured = of.calibration.found.as_ref().ok().map(|found| found.iops_read.min(found.iops_write));
    json!({
        "name": of.name,
        "iops_limit": of.options().iops_limit,
        "calibrated_iops": measured,
        "calibration": calibration,
        "promised_iops": promised_iops,
    })
}

pub(super) async fn sizes(State(console): State<Arc<Console>>) -> Answer<Json<Value>> {
    shown(&console, HostStatement::ShowSizes).await
}

pub(super) async fn runaway_rules(State(console): State<Arc<Console>>) -> Answer<Json<Value>> {
    shown(&console, HostStatement::ShowRunawayRules).await
}

/// The rows of a SHOW.
pub(super) async fn shown(console: &Console, statement: HostStatement) -> Answer<Json<Value>> {
    let shared = console.shared()?;
    let control = Control::internal(shared.sessions.new_id(), TenantId::SYSTEM);
    let HostOutcome::Rows { fields, rows, .. } = statements::run(&shared, &control, statement).await? else {
        unreachable!("SHOW has rows")
    };
    let row = |values: types::Row| -> Value {
        let named = fields.iter().zip(values).map(|(field, value)| (field.name.clone(), json_of(&value)));
        Value::Object(named.collect::<Map<_, _>>())
    };
    let rows: Vec<Value> = rows.into_iter().map(row).collect();
    Ok(Json(json!({ "rows": rows })))
}

/// A value of a SHOW; times in milliseconds since 1970.
fn json_of(value: &Datum) -> Value {
    match value {
        Datum::Null => Value::Null,
        Datum::Bool(value) => json!(value),
        Datum::Int4(number) => json!(number),
        Datum::Int8(number) => json!(number),
        Datum::Float8(number) => json!(number),
        Datum::TimestampTz(micros) => json!((micros + POSTGRES_EPOCH_MICROS) / 1000),
        Datum::Text(text) => json!(&**text),
        other => unreachable!("SHOW has no {other:?}"),
    }
}
