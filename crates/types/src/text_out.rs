//! Output functions.

use crate::datetime::{self, interval};
use crate::{ByteaOutput, Datum, FormatContext, PgType, TypeMod, array_text, float_text, format_type_in};

/// Appends a whole number.
#[inline]
pub(crate) fn push_i64(v: i64, out: &mut Vec<u8>) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    let mut rest = v.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if v < 0 {
        at -= 1;
        digits[at] = b'-';
    }
    out.extend_from_slice(&digits[at..]);
}

const HEX: &[u8; 16] = b"0123456789abcdef";

/// Appends bytes as hex digits.
pub fn push_hex(bytes: &[u8], out: &mut Vec<u8>) {
    for b in bytes {
        out.extend_from_slice(&[HEX[usize::from(b >> 4)], HEX[usize::from(b & 15)]]);
    }
}

fn push_bytea(bytes: &[u8], style: ByteaOutput, out: &mut Vec<u8>) {
    if style == ByteaOutput::Hex {
        out.extend_from_slice(b"\\x");
        return push_hex(bytes, out);
    }
    for &b in bytes {
        match b {
            b'\\' => out.extend_from_slice(b"\\\\"),
            0x20..=0x7e => out.push(b),
            _ => out.extend_from_slice(&[b'\\', b'0' + (b >> 6), b'0' + (b >> 3 & 7), b'0' + (b & 7)]),
        }
    }
}

/// PostgreSQL's output function: appends the text of `d`, which is of type `ty` and not NULL (NULL appends nothing).
pub fn write_text(d: &Datum, ty: PgType, ctx: &FormatContext, out: &mut Vec<u8>) {
    match d {
        Datum::Null | Datum::Void => {}
        Datum::Int4(v) => push_i64(i64::from(*v), out),
        Datum::Int8(v) => push_i64(*v, out),
        Datum::Int2(v) => push_i64(i64::from(*v), out),
        Datum::Text(s) => out.extend_from_slice(s.as_bytes()),
        Datum::Json(s) | Datum::Jsonb(s) => out.extend_from_slice(s.as_bytes()),
        Datum::Numeric(n) => n.write_text(out),
        Datum::Bool(b) => out.push(if *b { b't' } else { b'f' }),
        Datum::Float4(v) => float_text::write_f32(*v, ctx.extra_float_digits, out),
        Datum::Float8(v) => float_text::write_f64(*v, ctx.extra_float_digits, out),
        Datum::Bytea(bytes) => push_bytea(bytes, ctx.bytea_output, out),
        Datum::Date(days) => datetime::write_date(*days, ctx, out),
        Datum::Time(micros) => datetime::write_time(*micros, out),
        Datum::Timestamp(t) => datetime::write_timestamp(*t, ctx, out),
        Datum::TimestampTz(t) => datetime::write_timestamptz(*t, ctx, out),
        Datum::Interval(i) => interval::write_interval(i, ctx, out),
        Datum::Uuid(bytes) => {
            for (i, range) in [0..4, 4..6, 6..8, 8..10, 10..16].into_iter().enumerate() {
                if i > 0 {
                    out.push(b'-');
                }
                push_hex(&bytes[range], out);
            }
        }
        Datum::Oid(oid) => write_oid(*oid, ty, ctx, out),
        Datum::Enum { type_oid, order } => {
            match ctx.names.as_deref().and_then(|n| n.enum_label(*type_oid, *order)) {
                Some(label) => out.extend_from_slice(label.as_bytes()),
                None => push_i64(i64::from(*order), out),
            }
        }
        Datum::Char(0) => {}
        // What is no character by itself is shown by its number.
        Datum::Char(b) if !b.is_ascii() => out.extend_from_slice(format!("\\{b:03o}").as_bytes()),
        Datum::Char(b) => out.push(*b),
        Datum::Array(array) if ty.vector_element().is_some() => {
            for (i, item) in array.items.iter().enumerate() {
                if i > 0 {
                    out.push(b' ');
                }
                write_text(item, array.element.into(), ctx, out);
            }
        }
        Datum::Array(array) => array_text::write(array, ctx, out),
    }
}

fn write_oid(oid: u32, ty: PgType, ctx: &FormatContext, out: &mut Vec<u8>) {
    let names = ctx.names.as_deref();
    let name = match ty {
        PgType::Regclass => names.and_then(|n| n.relation_name(oid)),
        PgType::Regnamespace => names.and_then(|n| n.namespace_name(oid)),
        PgType::Regproc => names.and_then(|n| n.function_name(oid)),
        PgType::Regrole => names.and_then(|n| n.role_name(oid)),
        PgType::Regtype => match PgType::from_oid(oid) {
            Some(builtin) => Some(format_type_in(builtin, TypeMod::NONE, names)),
            None => names.and_then(|n| n.type_name(oid).or_else(|| n.pseudo_type_name(oid))),
        },
        _ => None,
    };
    match name {
        Some(name) => out.extend_from_slice(name.as_bytes()),
        None if oid == 0 && ty != PgType::Oid => out.push(b'-'),
        None => push_i64(i64::from(oid), out),
    }
}

/// [`write_text`] into a new string.
pub fn to_text(d: &Datum, ty: PgType, ctx: &FormatContext) -> String {
    let mut out = Vec::new();
    write_text(d, ty, ctx, &mut out);
    // Only `"char"` can hold a byte that is no UTF-8.
    String::from_utf8(out).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned())
}
