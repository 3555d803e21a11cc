//! The rows of `rowhouse.advise`.

use base::{Nanos, SqlError, SqlResult, SqlState};
use sql::session::{AdviceEntry, AdviceFound};
use types::Datum;

use super::{Rows, text};

/// For the arguments `tenant` and `p99_ms`; none for a tenant that is NULL.
///
/// # Errors
/// 22023 for a goal that is no time; those of [`sql::session::LedgerRows::advice`].
pub(super) fn fill(out: &mut Rows<'_>, arguments: &[Datum]) -> SqlResult<()> {
    let [tenant, p99_ms] = arguments else { unreachable!("advise has two parameters") };
    let Some(tenant) = tenant.as_str() else { return Ok(()) };
    let p99 = match p99_ms {
        Datum::Float8(ms) => Some(goal_of(*ms)?),
        _ => None,
    };
    for entry in out.shared.context.ledger.advice(tenant, p99)? {
        out.add(row(entry));
    }
    Ok(())
}

/// Whoever allows a statement a day has no goal.
const GOAL_MS_MAX: f64 = 86_400_000.0;

fn goal_of(ms: f64) -> SqlResult<Nanos> {
    if !(ms > 0.0 && ms <= GOAL_MS_MAX) {
        let message = format!("\"p99_ms\" must be above 0 and at most {GOAL_MS_MAX}");
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    }
    Ok(Nanos((ms * 1e6) as u64))
}

fn count(number: u64) -> Datum {
    Datum::Int8(i64::try_from(number).unwrap_or(i64::MAX))
}

fn row(entry: AdviceEntry) -> Vec<(&'static str, Datum)> {
    let mut row = vec![
        ("candidate", text(entry.candidate)),
        ("size", entry.size.map_or(Datum::Null, text)),
        ("cpu", Datum::Float8(entry.cpu)),
        ("iops", count(entry.iops)),
        ("memory", text(entry.memory)),
        ("work_memory", text(entry.work_memory)),
        ("note", entry.note.map_or(Datum::Null, text)),
    ];
    if let Some(found) = entry.found {
        add_found(found, &mut row);
    }
    row
}

fn add_found(found: AdviceFound, row: &mut Vec<(&'static str, Datum)>) {
    let cpu = found.cpu;
    row.extend([
        ("enough", Datum::Bool(found.too_little.is_none())),
        ("too_little", found.too_little.map_or(Datum::Null, text)),
        ("cpu_intervals", count(cpu.intervals)),
        ("cpu_broken_min", count(cpu.broken.0)),
        ("cpu_broken_max", count(cpu.broken.1)),
        ("cpu_missed_min", Datum::Float8(cpu.missed.0)),
        ("cpu_missed_max", Datum::Float8(cpu.missed.1)),
        ("cache_excess", found.cache_excess.map_or(Datum::Null, count)),
        ("spills", count(found.spills.0)),
        ("spills_of", count(found.spills.1)),
        ("keeps_p99", found.keeps_p99.map_or(Datum::Null, Datum::Bool)),
        ("since", Datum::TimestampTz(found.since)),
    ]);
    if let Some((volume, io)) = found.io {
        row.extend([
            ("io_volume", text(volume)),
            ("io_intervals", count(io.intervals)),
            ("io_broken_min", count(io.broken.0)),
            ("io_broken_max", count(io.broken.1)),
            ("io_missed_min", count(io.missed.0 as u64)),
            ("io_missed_max", count(io.missed.1 as u64)),
        ]);
    }
}
