//! Functions on bytes.

use base::{SqlError, SqlState};
use types::Datum;

use super::*;

pub(super) static FUNCTIONS: &[FunctionDef] = &[
    FunctionDef::new("btrim", &[BYTEA, BYTEA], BYTEA, |a, _| trim(a, true, true)),
    FunctionDef::new("ltrim", &[BYTEA, BYTEA], BYTEA, |a, _| trim(a, true, false)),
    FunctionDef::new("rtrim", &[BYTEA, BYTEA], BYTEA, |a, _| trim(a, false, true)),
    FunctionDef::new("overlay", &[BYTEA, BYTEA, INT4], BYTEA, overlay),
    FunctionDef::new("overlay", &[BYTEA, BYTEA, INT4, INT4], BYTEA, overlay),
    FunctionDef::new("position", &[BYTEA, BYTEA], INT4, position),
    FunctionDef::new("get_byte", &[BYTEA, INT4], INT4, get_byte),
    FunctionDef::new("set_byte", &[BYTEA, INT4, INT4], BYTEA, set_byte),
    FunctionDef::new("get_bit", &[BYTEA, INT8], INT4, get_bit),
    FunctionDef::new("set_bit", &[BYTEA, INT8, INT4], BYTEA, set_bit),
    FunctionDef::new("bit_count", &[BYTEA], INT8, |a, _| {
        Ok(Datum::Int8(bytes(&a[0])?.iter().map(|b| i64::from(b.count_ones())).sum()))
    }),
];

fn trim(args: &[Datum], start: bool, end: bool) -> EvalResult<Datum> {
    let (mut value, set) = (bytes(&args[0])?, bytes(&args[1])?);
    let mut in_set = [false; 256];
    set.iter().for_each(|byte| in_set[usize::from(*byte)] = true);
    while let [first, rest @ ..] = value
        && start
        && in_set[usize::from(*first)]
    {
        value = rest;
    }
    while let [rest @ .., last] = value
        && end
        && in_set[usize::from(*last)]
    {
        value = rest;
    }
    Ok(Datum::Bytea(value.into()))
}

fn overlay(args: &[Datum], ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let (value, with, from) = (bytes(&args[0])?, bytes(&args[1])?, int(&args[2])?);
    let length = args.get(3).map_or(Ok(with.len() as i64), int)?;
    if from <= 0 {
        return Err(SqlError::new(SqlState::SUBSTRING_ERROR, "negative substring length not allowed").into());
    }
    super::string::overlay_end(from, length)?;
    ctx.room(2 * value.len() + with.len())?;
    let place = |at: i64| usize::try_from(at).unwrap_or(0).min(value.len());
    Ok(Datum::Bytea([&value[..place(from - 1)], with, &value[place(from - 1 + length)..]].concat().into()))
}

fn position(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let (value, part) = (bytes(&args[0])?, bytes(&args[1])?);
    if part.is_empty() {
        return Ok(Datum::Int4(1));
    }
    // Byte for byte, a character each: searched as text is, in time that both lengths add up to.
    let as_text = |bytes: &[u8]| bytes.iter().map(|b| char::from(*b)).collect::<String>();
    let (value, part) = (as_text(value), as_text(part));
    Ok(Datum::Int4(value.find(&part).map_or(0, |at| value[..at].chars().count() as i32 + 1)))
}

/// `index`, if it is one of `count`.
fn within(index: i64, count: usize) -> EvalResult<usize> {
    usize::try_from(index).ok().filter(|i| *i < count).ok_or_else(|| {
        let last = count as i64 - 1;
        let message = format!("index {index} out of valid range, 0..{last}");
        SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, message).into()
    })
}

fn get_byte(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let value = bytes(&args[0])?;
    Ok(Datum::Int4(i32::from(value[within(int(&args[1])?, value.len())?])))
}

fn set_byte(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let mut value = bytes(&args[0])?.to_vec();
    let at = within(int(&args[1])?, value.len())?;
    value[at] = int(&args[2])? as u8;
    Ok(Datum::Bytea(value.into()))
}

fn get_bit(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let value = bytes(&args[0])?;
    let at = within(int(&args[1])?, value.len() * 8)?;
    Ok(Datum::Int4(i32::from(value[at / 8] >> (at % 8) & 1)))
}

fn set_bit(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let mut value = bytes(&args[0])?.to_vec();
    let at = within(int(&args[1])?, value.len() * 8)?;
    match int(&args[2])? {
        0 => value[at / 8] &= !(1 << (at % 8)),
        1 => value[at / 8] |= 1 << (at % 8),
        _ => {
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "new bit must be 0 or 1").into());
        }
    }
    Ok(Datum::Bytea(value.into()))
}
