//! `pg_size_pretty` and `pg_size_bytes`: numbers of bytes as people read them.

use base::{SqlError, SqlState};
use types::{Datum, Numeric};

use super::*;

pub(super) static FUNCTIONS: &[FunctionDef] = &[
    FunctionDef::new("pg_size_pretty", &[INT8], TEXT, pretty_whole),
    FunctionDef::new("pg_size_pretty", &[NUMERIC], TEXT, pretty_numeric),
    FunctionDef::new("pg_size_bytes", &[TEXT], INT8, size_bytes),
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

/// Reads a number with a unit, bytes if there is none.
fn size_bytes(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let whole = text(&args[0])?;
    let invalid = || SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("invalid size: \"{whole}\""));
    let value = whole.trim_start();
    let end = number_len(value).ok_or_else(invalid)?;
    let (number, unit) = (&value[..end], value[end..].trim());
    let number = Numeric::parse(number)?;
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" | "bytes" => 0,
        "kb" => 10,
        "mb" => 20,
        "gb" => 30,
        "tb" => 40,
        "pb" => 50,
        _ => {
            return Err(invalid()
                .with_detail(format!("Invalid size unit: \"{unit}\"."))
                .with_hint("Valid units are \"bytes\", \"kB\", \"MB\", \"GB\", \"TB\", and \"PB\".")
                .into());
        }
    };
    let bytes = number.mul(&Numeric::from(1i64 << shift))?.round(0).to_i64();
    Ok(Datum::Int8(
        bytes.ok_or_else(|| SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "bigint out of range"))?,
    ))
}

/// Length of the number that a text begins with.
fn number_len(text: &str) -> Option<usize> {
    let digits = |from: usize| text[from..].bytes().take_while(u8::is_ascii_digit).count();
    let mut at = usize::from(text.starts_with(['+', '-']));
    let mut count = digits(at);
    at += count;
    if text[at..].starts_with('.') {
        let fraction = digits(at + 1);
        count += fraction;
        at += 1 + fraction;
    }
    if count == 0 {
        return None;
    }
    if text[at..].starts_with(['e', 'E']) {
        let sign = usize::from(text[at + 1..].starts_with(['+', '-']));
        let exponent = digits(at + 1 + sign);
        if exponent > 0 {
            at += 1 + sign + exponent;
        }
    }
    Some(at)
}
