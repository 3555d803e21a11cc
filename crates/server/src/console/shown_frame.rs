//! A frame as a live stream writes it.

use base::TenantId;
use serde_json::{Map, Value, json};

use super::frames::{Bounds, Frame, Rates, TenantSample};
use crate::executor::Wait;
use crate::volumes::Volume;

/// A frame with these tenants by name, and the rest as `others`; and so many lines.
pub(super) fn frame_json(
    frame: &Frame,
    shown: &[&TenantSample],
    lines: usize,
    volumes: &[Volume],
    t_ms: i64,
) -> Value {
    let band = |capacity: Option<f64>, total: f64, of: &dyn Fn(&TenantSample) -> f64| {
        let values: Vec<f64> = shown.iter().map(|sample| of(sample)).collect();
        // The sum of parts that were rounded may be more than the whole.
        let others = (total - values.iter().sum::<f64>()).max(0.0);
        json!({ "capacity": capacity, "total": total, "values": values, "others": others })
    };
    let of_volume = |(at, volume): (usize, &Volume)| {
        let total = frame.sums.io.get(at).copied().unwrap_or_default();
        let capacity = frame.io_capacity.get(at).copied().flatten();
        let mut json = band(capacity, total, &|sample| sample.io.get(at).copied().map_or(0.0, f64::from));
        json["name"] = json!(volume.name);
        json
    };
    let mut throughput =
        band(None, frame.sums.statements_per_s, &|sample| f64::from(sample.statements_per_s));
    throughput.as_object_mut().expect("an object").shift_remove("capacity");
    // A tenth of a statement is as exact as anybody draws it.
    let line = |(id, rate): &(TenantId, f32)| json!([id.0, f64::from((rate * 10.0).round()) / 10.0]);
    let [cpu, io, memory, work_memory] = frame.broken;
    json!({
        "t_ms": t_ms,
        "tenants": shown.iter().map(|sample| json!([sample.id.0, &*sample.name])).collect::<Vec<_>>(),
        "cpu": band(Some(frame.cpu_capacity), frame.sums.cpu, &|sample| f64::from(sample.cpu)),
        "volumes": volumes.iter().enumerate().map(of_volume).collect::<Vec<_>>(),
        "memory": band(Some(frame.memory_capacity), frame.sums.resident, &|sample| sample.resident as f64),
        "throughput": throughput,
        "lines": frame.lines(lines).iter().map(line).collect::<Vec<_>>(),
        "sessions": frame.sessions,
        "broken": { "cpu": cpu, "io": io, "memory": memory, "work_memory": work_memory },
    })
}

/// All of one tenant in a frame.
pub(super) fn tenant_json(sample: &TenantSample, volumes: &[Volume]) -> Value {
    let metered = |of: &Rates| json!({ "demanded": of.demanded, "missed": of.missed, "cause": of.cause.map(governor::Cause::as_str) });
    let with = |bounds: &Bounds, given: f32, of: &Rates| {
        let mut json = metered(of);
        json["promised"] = json!(bounds.promised);
        json["max"] = json!(bounds.max);
        json["given"] = json!(given);
        json
    };
    let of_volume = |(at, volume): (usize, &Volume)| {
        let of = sample.metered_io.get(at).copied().unwrap_or_default();
        let mut json = with(&sample.bounds_io, of.given, &of);
        json["volume"] = json!(volume.name);
        json
    };
    let mut memory = metered(&sample.metered_memory);
    memory["promised_bytes"] = json!(sample.bounds_memory.promised as u64);
    memory["max_bytes"] = json!(sample.bounds_memory.max.map(|max| max as u64));
    memory["resident_bytes"] = json!(sample.resident);
    memory["given"] = json!(sample.metered_memory.given);
    let names = std::iter::once("running").chain(Wait::ALL.into_iter().map(Wait::as_str));
    let waits: Map<String, Value> =
        names.zip(sample.waits).map(|(name, seconds)| (name.to_owned(), json!(seconds))).collect();
    json!({
        "name": &*sample.name,
        "cpu": with(&sample.bounds_cpu, sample.cpu, &sample.metered_cpu),
        "io": volumes.iter().enumerate().map(of_volume).collect::<Vec<_>>(),
        "memory": memory,
        "work_memory": {
            "promised_bytes": sample.work_memory_promised,
            "used_bytes": sample.work_memory_used,
            "missed": sample.metered_work_memory.missed,
            "cause": sample.metered_work_memory.cause.map(governor::Cause::as_str),
        },
        "statements_per_s": sample.statements_per_s,
        "p50_ms": sample.p50_ms,
        "p99_ms": sample.p99_ms,
        "sessions": sample.sessions,
        "waits": waits,
    })
}
