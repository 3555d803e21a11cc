//! `pg_size_pretty`: numbers of bytes as people read them.

use types::{Datum, Numeric};

use super::*;

pub(super) static FUNCTIONS: &[FunctionDef] = &[
    FunctionDef::new("pg_size_pretty", &[INT8], TEXT, pretty_whole),
    FunctionDef::new("pg_size_pretty", &[NUMERIC], TEXT, pretty_numeric),
];

/// A unit, and the least number of it that is shown in the next larger one.
struct Unit {
    name: &'static str,
    limit: i64,
    /// Numbers come in halves of the unit and are rounded.
    halves: bool,
}

const UNITS: [Unit; 6] = [
    Unit { name: "bytes", limit: 10 * 1024, halves: false },
    Unit { name: "kB", limit: 20 * 1024 - 1, halves: true },
    Unit { name: "MB", limit: 20 * 1024 - 1, halves: true },
    Unit { name: "GB", limit: 20 * 1024 - 1, halves: true },
    Unit { name: "TB", limit: 20 * 1024 - 1, halves: true },
    Unit { name: "PB", limit: 20 * 1024 - 1, halves: true },
];

/// What a number is divided by to go from a unit to the next: one bit less where the next one counts halves and this one does not.
fn step(unit: &Unit) -> i64 {
    if unit.halves { 1 << 10 } else { 1 << 9 }
}

fn pretty_whole(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let mut size = int(&args[0])?;
    for (at, unit) in UNITS.iter().enumerate() {
        if at + 1 == UNITS.len() || size.unsigned_abs() < unit.limit.unsigned_abs() {
            if unit.halves {
                size = (size + if size < 0 { -1 } else { 1 }) / 2;
            }
            return Ok(Datum::text(format!("{size} {}", unit.name)));
        }
        size /= step(unit);
    }
    unreachable!("the last unit takes every size")
}

fn pretty_numeric(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let mut size = numeric(&args[0])?.clone();
    for (at, unit) in UNITS.iter().enumerate() {
        if at + 1 == UNITS.len() || size.abs().compare(&Numeric::new(unit.limit, 0)).is_lt() {
            if unit.halves {
                let half = Numeric::new(if size.signum() < 0 { -1 } else { 1 }, 0);
                size = size.add(&half)?.div_trunc(&Numeric::new(2, 0))?;
            }
            let mut text = Vec::new();
            size.write_text(&mut text);
            return Ok(Datum::text(format!("{} {}", String::from_utf8_lossy(&text), unit.name)));
        }
        size = size.div_trunc(&Numeric::new(step(unit), 0))?;
    }
    unreachable!("the last unit takes every size")
}
