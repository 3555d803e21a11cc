//! Casts: which are allowed where, and what they do.

use base::{SqlError, SqlResult, SqlState};
use compact_str::CompactString;

use crate::array_items::ArrayItems;
use crate::datetime::{self, DAY_MICROS, round_micros, zone};
use crate::{
    Array, Datum, FormatContext, Interval, Numeric, PgType, TypeMod, arith, float_text, format_type_in, json,
    parse_text, to_text,
};

/// Where a cast is asked for; each also allows what those before it allow.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum CastContext {
    /// In an expression, unasked.
    Implicit,
    /// Storing into a column.
    Assignment,
    /// `CAST` or `::`.
    Explicit,
}

/// The least context that allows a cast from `from` to `to`; `None` if there is none.
pub fn cast_allowed(from: PgType, to: PgType) -> Option<CastContext> {
    use CastContext::{Assignment, Explicit, Implicit};
    use PgType as T;
    if from == to || from == T::Unknown {
        return Some(Implicit);
    }
    if from == T::Void || to == T::Void {
        return None;
    }
    if let Some(element) = from.vector_element().filter(|_| to.element().is_some()) {
        return cast_allowed(T::Array(element), to);
    }
    let rank = |ty| match ty {
        T::Int2 => Some(0),
        T::Int4 => Some(1),
        T::Int8 => Some(2),
        T::Numeric => Some(3),
        T::Float4 => Some(4),
        T::Float8 => Some(5),
        _ => None,
    };
    if let (Some(a), Some(b)) = (rank(from), rank(to)) {
        return Some(if a < b { Implicit } else { Assignment });
    }
    match (from, to) {
        (T::Int4, T::Bool) | (T::Bool, T::Int4) => return Some(Explicit),
        (T::Text, T::Regclass) | (T::Varchar, T::Regclass) => return Some(Implicit),
        (T::Char, _) if to.is_string() && to != T::Name => {
            return Some(if to == T::Text { Implicit } else { Assignment });
        }
        (T::Char, T::Int4) | (T::Int4, T::Char) => return Some(Explicit),
        (T::Name, T::Varchar | T::Bpchar) | (_, T::Char) if from.is_string() => return Some(Assignment),
        (T::Date, T::Timestamp | T::TimestampTz)
        | (T::Timestamp, T::TimestampTz)
        | (T::Time, T::Interval) => {
            return Some(Implicit);
        }
        (T::TimestampTz, T::Timestamp | T::Date | T::Time)
        | (T::Timestamp, T::Date | T::Time)
        | (T::Interval, T::Time) => {
            return Some(Assignment);
        }
        (T::Json, T::Jsonb) | (T::Jsonb, T::Json) => return Some(Assignment),
        (T::Jsonb, T::Bool) => return Some(Explicit),
        (T::Jsonb, _) if to.is_numeric() => return Some(Explicit),
        (T::Array(a), T::Array(b)) => {
            let (a, b) = (PgType::from(a), PgType::from(b));
            return cast_allowed(a, b);
        }
        _ => {}
    }
    if from.is_string() && to.is_string() {
        return Some(Implicit);
    }
    if from.is_oid() && to.is_oid() {
        let plain = from == T::Oid || to == T::Oid;
        return plain.then_some(Implicit);
    }
    if from.is_integer() && to.is_oid() {
        return Some(Implicit);
    }
    if from.is_oid() && matches!(to, T::Int4 | T::Int8) {
        return Some(Assignment);
    }
    // Through the text form.
    if to.is_string() {
        return Some(Assignment);
    }
    if from.is_string() {
        return Some(Explicit);
    }
    None
}

/// 42846.
pub fn cannot_cast(from: PgType, to: PgType, ctx: &FormatContext) -> SqlError {
    let names = ctx.names.as_deref();
    SqlError::new(
        SqlState::CANNOT_COERCE,
        format!(
            "cannot cast type {} to {}",
            format_type_in(from, TypeMod::NONE, names),
            format_type_in(to, TypeMod::NONE, names)
        ),
    )
}

/// Converts `d` from type `from` to `to` with `typmod`; NULL stays NULL. Whether the cast may happen at all is the binder's
/// question ([`cast_allowed`]); `how` decides whether a long string is cut off or refused.
///
/// # Errors
/// 22003, 22001, 22P02 and the like for values the type cannot hold; 42846 if there is no such cast.
pub fn cast(
    d: Datum,
    from: PgType,
    to: PgType,
    typmod: TypeMod,
    how: CastContext,
    ctx: &FormatContext,
) -> SqlResult<Datum> {
    if d.is_null() {
        return Ok(Datum::Null);
    }
    if from == to {
        return apply_typmod(d, to, typmod, how);
    }
    let converted = convert(d, from, to, typmod, how, ctx)?;
    apply_typmod(converted, to, typmod, how)
}

fn out_of_range(ty: PgType) -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("{} out of range", ty.name()))
}

fn to_integer(v: i64, to: PgType) -> SqlResult<Datum> {
    match to {
        PgType::Int2 => v.try_into().map(Datum::Int2).map_err(|_| out_of_range(to)),
        PgType::Int4 => v.try_into().map(Datum::Int4).map_err(|_| out_of_range(to)),
        _ => Ok(Datum::Int8(v)),
    }
}

fn convert(
    d: Datum,
    from: PgType,
    to: PgType,
    typmod: TypeMod,
    how: CastContext,
    ctx: &FormatContext,
) -> SqlResult<Datum> {
    let zone = &ctx.time_zone;
    let infinite = |v: i64| v == i64::MAX || v == i64::MIN;
    Ok(match (d, to) {
        (Datum::Text(s), _) if to.is_string() => {
            // A char(n) loses its padding on the way to another string type.
            let s = if from == PgType::Bpchar && to != PgType::Bpchar {
                CompactString::new(s.trim_end_matches(' '))
            } else {
                s
            };
            if to == PgType::Name { parse_text(&s, to, typmod, ctx)? } else { Datum::Text(s) }
        }
        (d, PgType::Int2 | PgType::Int4 | PgType::Int8) if from.is_numeric() || from.is_oid() => match &d {
            Datum::Numeric(n) => {
                if !n.is_finite() {
                    let what = if n.is_nan() { "NaN" } else { "infinity" };
                    return Err(cannot_convert(what, to));
                }
                to_integer(n.to_i64().ok_or_else(|| out_of_range(to))?, to)?
            }
            Datum::Float4(_) | Datum::Float8(_) => {
                let v = arith::to_f64(&d).expect("a float").round_ties_even();
                // 2^63 itself is the first double that does not fit.
                if !(-9.223_372_036_854_775_8e18..9.223_372_036_854_775_8e18).contains(&v) {
                    return Err(out_of_range(to));
                }
                to_integer(v as i64, to)?
            }
            _ => {
                let v = d.as_i64().ok_or_else(|| cannot_cast(from, to, ctx))?;
                if from.is_oid() && to == PgType::Int4 { Datum::Int4(v as i32) } else { to_integer(v, to)? }
            }
        },
        (d, PgType::Numeric) if from.is_numeric() => {
            Datum::Numeric(arith::to_numeric(&d).ok_or_else(|| cannot_cast(from, to, ctx))?)
        }
        (Datum::Numeric(n), PgType::Float8) => {
            let v = n.to_f64();
            // Too large, or too small for a number of this type: reading its text says so.
            if n.is_finite() && (v.is_infinite() || v == 0.0 && !n.is_zero()) {
                return float_text::parse_f64(&n.to_string()).map(Datum::Float8);
            }
            Datum::Float8(v)
        }
        (d, PgType::Float8) if from.is_numeric() => {
            Datum::Float8(arith::to_f64(&d).ok_or_else(|| cannot_cast(from, to, ctx))?)
        }
        // By its text, since a double on the way would be rounded twice.
        (Datum::Numeric(n), PgType::Float4) => Datum::Float4(float_text::parse_f32(&n.to_string())?),
        (d, PgType::Float4) if from.is_numeric() => {
            let wide = arith::to_f64(&d).ok_or_else(|| cannot_cast(from, to, ctx))?;
            let v = wide as f32;
            if v.is_infinite() && wide.is_finite() {
                return Err(arith::float_overflow());
            }
            if v == 0.0 && wide != 0.0 {
                return Err(arith::float_underflow());
            }
            Datum::Float4(v)
        }
        (Datum::Int4(v), PgType::Bool) => Datum::Bool(v != 0),
        (Datum::Bool(b), PgType::Int4) => Datum::Int4(i32::from(b)),
        // To a name by its output, which is a letter.
        (Datum::Bool(b), _) if to.is_string() && to != PgType::Name => {
            Datum::text(if b { "true" } else { "false" })
        }
        (Datum::Oid(v), _) if to.is_oid() => Datum::Oid(v),
        (d, _) if from.is_integer() && to.is_oid() => {
            let v = d.as_i64().expect("an integer");
            let v = if from == PgType::Int8 { v } else { i64::from(v as u32) };
            Datum::Oid(
                u32::try_from(v)
                    .map_err(|_| SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "OID out of range"))?,
            )
        }
        (Datum::Date(days), PgType::Timestamp | PgType::TimestampTz) => {
            let local = match days {
                i32::MAX => i64::MAX,
                i32::MIN => i64::MIN,
                _ => i64::from(days)
                    .checked_mul(DAY_MICROS)
                    .and_then(|t| datetime::check_timestamp(t).ok())
                    .ok_or_else(|| {
                        SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "date out of range for timestamp")
                    })?,
            };
            if to == PgType::Timestamp {
                Datum::Timestamp(local)
            } else {
                Datum::TimestampTz(
                    zone::to_instant(zone, local).ok_or_else(datetime::timestamp_out_of_range)?,
                )
            }
        }
        (Datum::Timestamp(t), PgType::TimestampTz) => {
            Datum::TimestampTz(zone::to_instant(zone, t).ok_or_else(datetime::timestamp_out_of_range)?)
        }
        (Datum::TimestampTz(t), PgType::Timestamp) => Datum::Timestamp(zone::to_local(zone, t)),
        (d @ (Datum::Timestamp(t) | Datum::TimestampTz(t)), PgType::Date) => Datum::Date(match t {
            i64::MAX => i32::MAX,
            i64::MIN => i32::MIN,
            _ => {
                let local = if matches!(d, Datum::Timestamp(_)) { t } else { zone::to_local(zone, t) };
                local.div_euclid(DAY_MICROS) as i32
            }
        }),
        (d @ (Datum::Timestamp(t) | Datum::TimestampTz(t)), PgType::Time) => {
            if infinite(t) {
                return Ok(Datum::Null);
            }
            let local = if matches!(d, Datum::Timestamp(_)) { t } else { zone::to_local(zone, t) };
            Datum::Time(local.rem_euclid(DAY_MICROS))
        }
        (Datum::Time(t), PgType::Interval) => Datum::Interval(Interval { months: 0, days: 0, micros: t }),
        (Datum::Interval(i), PgType::Time) => Datum::Time(i.micros.rem_euclid(DAY_MICROS)),
        (Datum::Json(s), PgType::Jsonb) => Datum::Jsonb(json::to_jsonb(&s)?),
        (Datum::Jsonb(s), PgType::Json) => Datum::Json(s),
        (Datum::Jsonb(s), _) if to == PgType::Bool || to.is_numeric() => return from_jsonb(&s, to, ctx),
        (Datum::Char(b), PgType::Int4) => Datum::Int4(i32::from(b.cast_signed())),
        (Datum::Int4(v), PgType::Char) => Datum::Char(
            i8::try_from(v)
                .map_err(|_| SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "\"char\" out of range"))?
                .cast_unsigned(),
        ),
        (Datum::Array(array), PgType::Array(element)) => {
            let Array { element: own, items } = *array;
            let mut made = ArrayItems::with_capacity(items.len());
            for item in items {
                made.push(cast(item, own.into(), element.into(), typmod, how, ctx)?)?;
            }
            Datum::Array(Box::new(Array { element, items: made.finish() }))
        }
        (d, _) if to.is_string() => Datum::Text(to_text(&d, from, ctx).into()),
        (Datum::Text(s), _) => {
            let s = if from == PgType::Bpchar { s.trim_end_matches(' ') } else { &s };
            return parse_text(s, to, TypeMod::NONE, ctx);
        }
        _ => return Err(cannot_cast(from, to, ctx)),
    })
}

fn cannot_convert(what: &str, to: PgType) -> SqlError {
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, format!("cannot convert {what} to {}", to.name()))
}

fn from_jsonb(text: &str, to: PgType, ctx: &FormatContext) -> SqlResult<Datum> {
    use serde_json::Value;
    let value = json::parse_canonical(text);
    match (&value, to) {
        (Value::Bool(b), PgType::Bool) => Ok(Datum::Bool(*b)),
        (Value::Number(n), _) if to.is_numeric() => {
            let n = Numeric::parse(n.as_str())?;
            cast(Datum::Numeric(n), PgType::Numeric, to, TypeMod::NONE, CastContext::Explicit, ctx)
        }
        _ => {
            let what = match value {
                Value::Null => "null",
                Value::Bool(_) => "boolean",
                Value::Number(_) => "numeric",
                Value::String(_) => "string",
                Value::Array(_) => "array",
                Value::Object(_) => "object",
            };
            Err(SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("cannot cast jsonb {what} to type {}", to.name()),
            ))
        }
    }
}

/// Fits a value that already is of type `ty` to its modifier: pads or cuts strings, rounds numbers and times.
///
/// # Errors
/// 22001 for a string that is too long and not cut off (only an explicit cast cuts), 22003 for a numeric, 54000 for an array that
/// takes too much memory so.
pub fn apply_typmod(d: Datum, ty: PgType, typmod: TypeMod, how: CastContext) -> SqlResult<Datum> {
    if typmod.is_none() || d.is_null() {
        return Ok(d);
    }
    match (d, ty) {
        (Datum::Text(s), PgType::Varchar | PgType::Bpchar) => fit_string(s, ty, typmod, how).map(Datum::Text),
        (Datum::Numeric(n), PgType::Numeric) => match typmod.as_numeric() {
            Some((precision, scale)) => n.fit(precision, scale).map(Datum::Numeric),
            None => Ok(Datum::Numeric(n)),
        },
        (Datum::Array(array), PgType::Array(element)) => {
            let mut fitted = ArrayItems::with_capacity(array.items.len());
            for item in array.items {
                fitted.push(apply_typmod(item, element.into(), typmod, how)?)?;
            }
            Ok(Datum::array(array.element, fitted.finish()))
        }
        (d, _) => {
            let d = match d {
                Datum::Interval(i) => Datum::Interval(typmod.as_interval_fields().cut(i)),
                other => other,
            };
            let Some(digits) = typmod.as_precision() else { return Ok(d) };
            Ok(match d {
                Datum::Time(t) => Datum::Time(round_micros(t, digits)),
                Datum::Timestamp(t) => Datum::Timestamp(round_micros(t, digits)),
                Datum::TimestampTz(t) => Datum::TimestampTz(round_micros(t, digits)),
                Datum::Interval(i) => {
                    Datum::Interval(Interval { micros: round_micros(i.micros, digits), ..i })
                }
                other => other,
            })
        }
    }
}

fn fit_string(
    mut s: CompactString,
    ty: PgType,
    typmod: TypeMod,
    how: CastContext,
) -> SqlResult<CompactString> {
    let Some(max) = typmod.as_length() else { return Ok(s) };
    let chars = if s.is_ascii() { s.len() } else { s.chars().count() };
    if chars > max {
        let cut = s.char_indices().nth(max).map_or(s.len(), |(at, _)| at);
        if how != CastContext::Explicit && s[cut..].bytes().any(|b| b != b' ') {
            return Err(SqlError::new(
                SqlState::STRING_DATA_RIGHT_TRUNCATION,
                format!("value too long for type {}({max})", ty.name()),
            ));
        }
        s.truncate(cut);
    } else if ty == PgType::Bpchar && chars < max {
        const BLANKS: &str = "                                                                ";
        let mut missing = max - chars;
        s.reserve(missing);
        while missing > 0 {
            let some = missing.min(BLANKS.len());
            s.push_str(&BLANKS[..some]);
            missing -= some;
        }
    }
    Ok(s)
}
