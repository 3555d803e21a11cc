//! Bytes of one value. Its column's type says how to read it; [`encode_tagged`] is for values that stand alone.

use base::Oid;
use compact_str::CompactString;
use types::{Array, Datum, ElementType, Interval, Numeric, PgType};

/// Bytes of a value of this type in a row's fixed part; `None` for types of variable width.
pub(crate) fn fixed_width(ty: PgType) -> Option<u8> {
    Some(match ty {
        PgType::Bool | PgType::Char => 1,
        PgType::Int2 => 2,
        PgType::Int4 | PgType::Float4 | PgType::Date | PgType::Enum(_) => 4,
        PgType::Int8 | PgType::Float8 | PgType::Time | PgType::Timestamp | PgType::TimestampTz => 8,
        PgType::Interval | PgType::Uuid => 16,
        ty if ty.is_oid() => 4,
        _ => return None,
    })
}

/// Writes a value of fixed width over `out`, which has that width.
///
/// Panics if the value does not have the width of its column's type: casts come before storing.
pub(crate) fn write_fixed(datum: &Datum, out: &mut [u8]) {
    match datum {
        Datum::Bool(v) => out.copy_from_slice(&[u8::from(*v)]),
        Datum::Char(v) => out.copy_from_slice(&[*v]),
        Datum::Int2(v) => out.copy_from_slice(&v.to_le_bytes()),
        Datum::Int4(v) | Datum::Date(v) => out.copy_from_slice(&v.to_le_bytes()),
        Datum::Int8(v) | Datum::Time(v) | Datum::Timestamp(v) | Datum::TimestampTz(v) => {
            out.copy_from_slice(&v.to_le_bytes());
        }
        Datum::Float4(v) => out.copy_from_slice(&v.to_le_bytes()),
        Datum::Float8(v) => out.copy_from_slice(&v.to_le_bytes()),
        Datum::Oid(v) => out.copy_from_slice(&v.to_le_bytes()),
        Datum::Enum { order, .. } => out.copy_from_slice(&order.to_le_bytes()),
        Datum::Uuid(v) => out.copy_from_slice(&v[..]),
        Datum::Interval(v) => {
            out[..8].copy_from_slice(&v.micros.to_le_bytes());
            out[8..12].copy_from_slice(&v.days.to_le_bytes());
            out[12..].copy_from_slice(&v.months.to_le_bytes());
        }
        other => panic!("{other:?} is not of fixed width"),
    }
}

/// Reads what [`write_fixed`] wrote; `None` where the bytes are no value of the type.
#[inline]
pub(crate) fn read_fixed(ty: PgType, bytes: &[u8]) -> Option<Datum> {
    Some(match ty {
        PgType::Bool => Datum::Bool(match bytes {
            [0] => false,
            [1] => true,
            _ => return None,
        }),
        PgType::Char => Datum::Char(*bytes.first()?),
        PgType::Int2 => Datum::Int2(i16::from_le_bytes(bytes.try_into().ok()?)),
        PgType::Int4 => Datum::Int4(i32::from_le_bytes(bytes.try_into().ok()?)),
        PgType::Int8 => Datum::Int8(i64::from_le_bytes(bytes.try_into().ok()?)),
        PgType::Float4 => Datum::Float4(f32::from_le_bytes(bytes.try_into().ok()?)),
        PgType::Float8 => Datum::Float8(f64::from_le_bytes(bytes.try_into().ok()?)),
        PgType::Date => Datum::Date(i32::from_le_bytes(bytes.try_into().ok()?)),
        PgType::Time => Datum::Time(i64::from_le_bytes(bytes.try_into().ok()?)),
        PgType::Timestamp => Datum::Timestamp(i64::from_le_bytes(bytes.try_into().ok()?)),
        PgType::TimestampTz => Datum::TimestampTz(i64::from_le_bytes(bytes.try_into().ok()?)),
        PgType::Enum(Oid(type_oid)) => {
            Datum::Enum { type_oid, order: u32::from_le_bytes(bytes.try_into().ok()?) }
        }
        PgType::Uuid => Datum::Uuid(bytes.try_into().ok()?),
        PgType::Interval => Datum::Interval(Interval {
            micros: i64::from_le_bytes(bytes.get(..8)?.try_into().ok()?),
            days: i32::from_le_bytes(bytes.get(8..12)?.try_into().ok()?),
            months: i32::from_le_bytes(bytes.get(12..16)?.try_into().ok()?),
        }),
        ty if ty.is_oid() => Datum::Oid(u32::from_le_bytes(bytes.try_into().ok()?)),
        _ => return None,
    })
}

/// As [`read_fixed`], in the place of what is in `out`; where that is `None` it stays. The frequent types are written where they are to be: a value that
/// was just written in parts is waited for by who moves it.
#[inline]
pub(crate) fn read_fixed_into(ty: PgType, bytes: &[u8], out: &mut Datum) -> Option<()> {
    match ty {
        PgType::Int2 => *out = Datum::Int2(i16::from_le_bytes(bytes.try_into().ok()?)),
        PgType::Int4 => *out = Datum::Int4(i32::from_le_bytes(bytes.try_into().ok()?)),
        PgType::Int8 => *out = Datum::Int8(i64::from_le_bytes(bytes.try_into().ok()?)),
        PgType::Float8 => *out = Datum::Float8(f64::from_le_bytes(bytes.try_into().ok()?)),
        PgType::Timestamp => *out = Datum::Timestamp(i64::from_le_bytes(bytes.try_into().ok()?)),
        PgType::TimestampTz => *out = Datum::TimestampTz(i64::from_le_bytes(bytes.try_into().ok()?)),
        _ => *out = read_fixed(ty, bytes)?,
    }
    Some(())
}

/// Appends a value of variable width.
pub(crate) fn write_variable(datum: &Datum, out: &mut Vec<u8>) {
    match datum {
        Datum::Text(v) => out.extend_from_slice(v.as_bytes()),
        Datum::Json(v) | Datum::Jsonb(v) => out.extend_from_slice(v.as_bytes()),
        Datum::Bytea(v) => out.extend_from_slice(v),
        Datum::Numeric(v) => write_numeric(v, out),
        Datum::Array(v) => write_array(v, out),
        other => panic!("{other:?} is not of variable width"),
    }
}

/// The stored bytes of a value that is not NULL, of its column's type `ty`.
pub(super) fn to_bytes(datum: &Datum, ty: PgType) -> Vec<u8> {
    let mut bytes = vec![0; fixed_width(ty).map_or(0, usize::from)];
    if bytes.is_empty() {
        write_variable(datum, &mut bytes)
    } else {
        write_fixed(datum, &mut bytes)
    }
    bytes
}

/// Reads what [`write_variable`] wrote; `None` where the bytes are no value of the type.
#[inline]
pub(crate) fn read_variable(ty: PgType, bytes: &[u8]) -> Option<Datum> {
    let text = || std::str::from_utf8(bytes).ok();
    Some(match ty {
        PgType::Text | PgType::Varchar | PgType::Bpchar | PgType::Name => {
            Datum::Text(CompactString::new(text()?))
        }
        PgType::Json => Datum::Json(text()?.into()),
        PgType::Jsonb => Datum::Jsonb(text()?.into()),
        PgType::Bytea => Datum::Bytea(bytes.into()),
        PgType::Numeric => Datum::Numeric(read_numeric(bytes)?),
        PgType::Array(element) => Datum::Array(Box::new(read_array(element, bytes)?)),
        other => Datum::Array(Box::new(read_array(other.vector_element()?, bytes)?)),
    })
}

/// As [`read_variable`], in the place of what is in `out`; where that is `None` it stays.
#[inline]
pub(crate) fn read_variable_into(ty: PgType, bytes: &[u8], out: &mut Datum) -> Option<()> {
    match ty {
        PgType::Text | PgType::Varchar | PgType::Bpchar => {
            *out = Datum::Text(CompactString::new(std::str::from_utf8(bytes).ok()?));
        }
        PgType::Numeric => *out = Datum::Numeric(read_numeric(bytes)?),
        _ => *out = read_variable(ty, bytes)?,
    }
    Some(())
}

/// First byte of a numeric that is not a small one; a small one's first byte is its scale.
const NUMERIC_LONG: u8 = 255;

/// A small numeric is its scale and the coefficient's significant bytes, little-endian; others are in the wire's form.
fn write_numeric(numeric: &Numeric, out: &mut Vec<u8>) {
    match numeric.as_small() {
        Some((coefficient, scale)) if scale < u16::from(NUMERIC_LONG) => {
            out.push(scale as u8);
            let bytes = coefficient.to_le_bytes();
            let sign_bits =
                if coefficient < 0 { coefficient.leading_ones() } else { coefficient.leading_zeros() };
            // One sign bit stays, so that reading can extend it.
            let len = if coefficient == 0 { 0 } else { 8 - (sign_bits as usize - 1) / 8 };
            out.extend_from_slice(&bytes[..len]);
        }
        _ => {
            out.push(NUMERIC_LONG);
            numeric.write_binary(out);
        }
    }
}

/// Reads what [`write_numeric`] wrote.
#[inline]
pub(super) fn read_numeric(bytes: &[u8]) -> Option<Numeric> {
    let (&scale, rest) = bytes.split_first()?;
    if scale == NUMERIC_LONG {
        return Numeric::parse_binary(rest).ok();
    }
    if rest.len() > 8 {
        return None;
    }
    // The bytes come in at the top, so that the shift down extends the sign.
    let coefficient = rest.iter().fold(0, |word: u64, byte| word >> 8 | u64::from(*byte) << 56);
    let coefficient = if rest.is_empty() { 0 } else { coefficient as i64 >> (64 - 8 * rest.len()) };
    Some(Numeric::new(coefficient, scale.into()))
}

fn write_array(array: &Array, out: &mut Vec<u8>) {
    out.extend_from_slice(&u32::try_from(array.items.len()).expect("an array fits its row").to_le_bytes());
    let nulls_at = out.len();
    out.resize(nulls_at + array.items.len().div_ceil(8), 0);
    let ty = PgType::from(array.element);
    for (i, item) in array.items.iter().enumerate() {
        if item.is_null() {
            out[nulls_at + i / 8] |= 1 << (i % 8);
        } else if let Some(width) = fixed_width(ty) {
            let at = out.len();
            out.resize(at + usize::from(width), 0);
            write_fixed(item, &mut out[at..]);
        } else {
            let at = out.len();
            out.extend_from_slice(&[0; 4]);
            write_variable(item, out);
            let len = u32::try_from(out.len() - at - 4).expect("an item fits its row");
            out[at..at + 4].copy_from_slice(&len.to_le_bytes());
        }
    }
}

fn read_array(element: ElementType, bytes: &[u8]) -> Option<Array> {
    let count = u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
    let nulls = bytes.get(4..4 + count.div_ceil(8))?;
    let mut rest = &bytes[4 + nulls.len()..];
    let ty = PgType::from(element);
    let mut items = Vec::with_capacity(count);
    for i in 0..count {
        if nulls[i / 8] & (1 << (i % 8)) != 0 {
            items.push(Datum::Null);
        } else if let Some(width) = fixed_width(ty) {
            let (item, tail) = rest.split_at_checked(usize::from(width))?;
            items.push(read_fixed(ty, item)?);
            rest = tail;
        } else {
            let (len, tail) = rest.split_at_checked(4)?;
            let (item, tail) = tail.split_at_checked(u32::from_le_bytes(len.try_into().ok()?) as usize)?;
            items.push(read_variable(ty, item)?);
            rest = tail;
        }
    }
    Some(Array { element, items })
}

/// The type whose stored form a value has; `None` for NULL and void, which have none.
fn stored_type(datum: &Datum) -> Option<PgType> {
    Some(match datum {
        Datum::Null | Datum::Void => return None,
        Datum::Bool(_) => PgType::Bool,
        Datum::Char(_) => PgType::Char,
        Datum::Int2(_) => PgType::Int2,
        Datum::Int4(_) => PgType::Int4,
        Datum::Int8(_) => PgType::Int8,
        Datum::Float4(_) => PgType::Float4,
        Datum::Float8(_) => PgType::Float8,
        Datum::Numeric(_) => PgType::Numeric,
        Datum::Text(_) => PgType::Text,
        Datum::Bytea(_) => PgType::Bytea,
        Datum::Date(_) => PgType::Date,
        Datum::Time(_) => PgType::Time,
        Datum::Timestamp(_) => PgType::Timestamp,
        Datum::TimestampTz(_) => PgType::TimestampTz,
        Datum::Interval(_) => PgType::Interval,
        Datum::Uuid(_) => PgType::Uuid,
        Datum::Json(_) => PgType::Json,
        Datum::Jsonb(_) => PgType::Jsonb,
        Datum::Oid(_) => PgType::Oid,
        Datum::Enum { type_oid, .. } => PgType::Enum(Oid(*type_oid)),
        Datum::Array(array) => PgType::Array(array.element),
    })
}

/// Appends a value with the type it has to be read as, for values outside rows.
pub(crate) fn encode_tagged(datum: &Datum, out: &mut Vec<u8>) {
    use crate::catalog::Encode;
    let ty = stored_type(datum);
    ty.encode(out);
    if let Some(ty) = ty {
        match fixed_width(ty) {
            Some(width) => {
                let at = out.len();
                out.resize(at + usize::from(width), 0);
                write_fixed(datum, &mut out[at..]);
            }
            None => write_variable(datum, out),
        }
    }
}

/// Reads what [`encode_tagged`] wrote; `None` where it is no value.
pub(crate) fn decode_tagged(mut bytes: &[u8]) -> Option<Datum> {
    use crate::catalog::Decode;
    match Option::<PgType>::decode(&mut bytes).ok()? {
        None => Some(Datum::Null),
        Some(ty) if fixed_width(ty).is_some() => read_fixed(ty, bytes),
        Some(ty) => read_variable(ty, bytes),
    }
}
