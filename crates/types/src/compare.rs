//! Order, equality and hash of values.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use crate::{Datum, Numeric, json};

/// PostgreSQL's order of floats: NaN equals itself and is greatest; -0 equals 0.
fn compare_f64(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

/// PostgreSQL's btree order of two values of one family: integers of any width among themselves, floats likewise,
/// numerics, strings by their bytes, and so on. NULL is greater than everything else (callers treat it apart).
/// Values of different families have an arbitrary but total order.
pub fn compare(a: &Datum, b: &Datum) -> Ordering {
    match (a, b) {
        (Datum::Int4(x), Datum::Int4(y)) => x.cmp(y),
        (Datum::Int8(x), Datum::Int8(y)) => x.cmp(y),
        (Datum::Text(x), Datum::Text(y)) => x.as_bytes().cmp(y.as_bytes()),
        (Datum::Numeric(x), Datum::Numeric(y)) => x.compare(y),
        (Datum::Int2(x), Datum::Int2(y)) => x.cmp(y),
        (Datum::Bool(x), Datum::Bool(y)) => x.cmp(y),
        (Datum::Float8(x), Datum::Float8(y)) => compare_f64(*x, *y),
        (Datum::Float4(x), Datum::Float4(y)) => compare_f64(f64::from(*x), f64::from(*y)),
        (Datum::Float4(x), Datum::Float8(y)) => compare_f64(f64::from(*x), *y),
        (Datum::Float8(x), Datum::Float4(y)) => compare_f64(*x, f64::from(*y)),
        (Datum::Date(x), Datum::Date(y)) => x.cmp(y),
        (Datum::Time(x), Datum::Time(y))
        | (Datum::Timestamp(x), Datum::Timestamp(y))
        | (Datum::TimestampTz(x), Datum::TimestampTz(y)) => x.cmp(y),
        (Datum::Interval(x), Datum::Interval(y)) => x.span().cmp(&y.span()),
        (Datum::Uuid(x), Datum::Uuid(y)) => x.cmp(y),
        (Datum::Bytea(x), Datum::Bytea(y)) => x.cmp(y),
        (Datum::Jsonb(x), Datum::Jsonb(y)) => json::compare_jsonb(x, y),
        (Datum::Json(x), Datum::Json(y)) => x.cmp(y),
        (Datum::Oid(x), Datum::Oid(y)) => x.cmp(y),
        (Datum::Enum { order: x, .. }, Datum::Enum { order: y, .. }) => x.cmp(y),
        (Datum::Char(x), Datum::Char(y)) => x.cmp(y),
        (Datum::Array(x), Datum::Array(y)) => x
            .items
            .iter()
            .zip(&y.items)
            .map(|(x, y)| compare(x, y))
            .find(|order| order.is_ne())
            .unwrap_or_else(|| x.items.len().cmp(&y.items.len())),
        (Datum::Null, Datum::Null) => Ordering::Equal,
        (Datum::Null, _) => Ordering::Greater,
        (_, Datum::Null) => Ordering::Less,
        _ => compare_mixed(a, b),
    }
}

fn compare_mixed(a: &Datum, b: &Datum) -> Ordering {
    match (a.as_i64(), b.as_i64(), a, b) {
        (Some(x), Some(y), _, _) => x.cmp(&y),
        (Some(x), _, _, Datum::Numeric(y)) => Numeric::from(x).compare(y),
        (_, Some(y), Datum::Numeric(x), _) => x.compare(&Numeric::from(y)),
        (Some(x), _, _, Datum::Float8(y)) => compare_f64(x as f64, *y),
        (_, Some(y), Datum::Float8(x), _) => compare_f64(*x, y as f64),
        _ => family(a).cmp(&family(b)),
    }
}

fn family(d: &Datum) -> u8 {
    match d {
        Datum::Bool(_) => 0,
        Datum::Int2(_) | Datum::Int4(_) | Datum::Int8(_) | Datum::Oid(_) => 1,
        Datum::Float4(_) | Datum::Float8(_) => 2,
        Datum::Numeric(_) => 3,
        Datum::Text(_) | Datum::Char(_) => 4,
        Datum::Bytea(_) => 5,
        Datum::Date(_) => 6,
        Datum::Time(_) => 7,
        Datum::Timestamp(_) => 8,
        Datum::TimestampTz(_) => 9,
        Datum::Interval(_) => 10,
        Datum::Uuid(_) => 11,
        Datum::Json(_) => 12,
        Datum::Jsonb(_) => 13,
        Datum::Enum { .. } => 14,
        Datum::Array(_) => 15,
        Datum::Void => 16,
        Datum::Null => 17,
    }
}

/// Whether `compare` would answer `Equal`, faster.
#[inline]
pub fn equal(a: &Datum, b: &Datum) -> bool {
    match (a, b) {
        (Datum::Int4(x), Datum::Int4(y)) => x == y,
        (Datum::Int8(x), Datum::Int8(y)) => x == y,
        (Datum::Text(x), Datum::Text(y)) => x == y,
        (Datum::Uuid(x), Datum::Uuid(y)) => x == y,
        (Datum::Jsonb(x), Datum::Jsonb(y)) => json::equal_jsonb(x, y),
        (Datum::Array(x), Datum::Array(y)) => {
            x.items.len() == y.items.len() && x.items.iter().zip(&y.items).all(|(x, y)| equal(x, y))
        }
        _ => compare(a, b).is_eq(),
    }
}

/// Feeds `d` to `state` such that equal values hash alike: integers of all widths, floats of both, numerics whatever their
/// scale. NULLs hash alike.
pub fn hash<H: Hasher>(d: &Datum, state: &mut H) {
    let float = |v: f64, state: &mut H| {
        let v = if v == 0.0 {
            0.0
        } else if v.is_nan() {
            f64::NAN
        } else {
            v
        };
        v.to_bits().hash(state);
    };
    match d {
        Datum::Null | Datum::Void => 0u8.hash(state),
        Datum::Bool(v) => v.hash(state),
        Datum::Int2(_) | Datum::Int4(_) | Datum::Int8(_) | Datum::Oid(_) => {
            d.as_i64().expect("an integer").hash(state);
        }
        Datum::Float4(v) => float(f64::from(*v), state),
        Datum::Float8(v) => float(*v, state),
        Datum::Numeric(n) => n.hash_value(state),
        Datum::Text(s) => s.as_bytes().hash(state),
        Datum::Bytea(b) => b.hash(state),
        Datum::Date(v) => v.hash(state),
        Datum::Time(v) | Datum::Timestamp(v) | Datum::TimestampTz(v) => v.hash(state),
        Datum::Interval(i) => i.span().hash(state),
        Datum::Uuid(b) => b.hash(state),
        Datum::Json(s) => s.hash(state),
        Datum::Jsonb(s) => hash_json(&json::parse_canonical(s), state),
        Datum::Enum { order, .. } => order.hash(state),
        Datum::Char(b) => b.hash(state),
        Datum::Array(a) => {
            a.items.len().hash(state);
            a.items.iter().for_each(|item| hash(item, state));
        }
    }
}

fn hash_json<H: Hasher>(value: &serde_json::Value, state: &mut H) {
    use serde_json::Value;
    match value {
        Value::Null => 0u8.hash(state),
        Value::Bool(b) => b.hash(state),
        Value::Number(n) => n.as_str().parse().unwrap_or(Numeric::NAN).hash_value(state),
        Value::String(s) => s.hash(state),
        Value::Array(items) => items.iter().for_each(|item| hash_json(item, state)),
        // Keys come in one order, since the text is canonical.
        Value::Object(map) => map.iter().for_each(|(key, item)| {
            key.hash(state);
            hash_json(item, state);
        }),
    }
}
