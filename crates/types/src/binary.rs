//! The wire's binary form of values.

use base::{SqlError, SqlResult, SqlState};
use compact_str::CompactString;

use crate::{
    Array, CastContext, Datum, ElementType, FormatContext, Interval, Numeric, PgType, TypeMod, apply_typmod,
    json, parse_text, write_text,
};

fn bad_length() -> SqlError {
    SqlError::new(SqlState::INVALID_BINARY_REPRESENTATION, "incorrect binary data format")
}

fn fixed<const N: usize>(bytes: &[u8]) -> SqlResult<[u8; N]> {
    bytes.try_into().map_err(|_| bad_length())
}

/// `bytes` as text. Errors: 22021.
pub fn check_utf8(bytes: &[u8]) -> SqlResult<&str> {
    let error = |at: usize, len: usize| {
        let shown: Vec<String> =
            bytes[at..(at + len).min(bytes.len())].iter().map(|b| format!("0x{b:02x}")).collect();
        SqlError::new(
            SqlState::CHARACTER_NOT_IN_REPERTOIRE,
            format!("invalid byte sequence for encoding \"UTF8\": {}", shown.join(" ")),
        )
    };
    match std::str::from_utf8(bytes) {
        Ok(text) => match bytes.iter().position(|b| *b == 0) {
            Some(at) => Err(error(at, 1)),
            None => Ok(text),
        },
        Err(e) => Err(error(e.valid_up_to(), e.error_len().unwrap_or(bytes.len()))),
    }
}

/// PostgreSQL's receive function: the value in `bytes` of type `ty`. Errors: 22P03, and those of the value's range.
pub fn parse_binary(bytes: &[u8], ty: PgType, typmod: TypeMod, ctx: &FormatContext) -> SqlResult<Datum> {
    let int = |b: &[u8]| fixed::<8>(b).map(i64::from_be_bytes);
    let datum = match ty {
        PgType::Bool => match bytes {
            [b] => Datum::Bool(*b != 0),
            _ => return Err(bad_length()),
        },
        PgType::Int2 => Datum::Int2(i16::from_be_bytes(fixed(bytes)?)),
        PgType::Int4 => Datum::Int4(i32::from_be_bytes(fixed(bytes)?)),
        PgType::Int8 => Datum::Int8(int(bytes)?),
        PgType::Float4 => Datum::Float4(f32::from_be_bytes(fixed(bytes)?)),
        PgType::Float8 => Datum::Float8(f64::from_be_bytes(fixed(bytes)?)),
        PgType::Numeric => Datum::Numeric(Numeric::parse_binary(bytes)?),
        PgType::Text | PgType::Varchar | PgType::Bpchar | PgType::Name | PgType::Unknown => {
            Datum::Text(CompactString::new(check_utf8(bytes)?))
        }
        PgType::Char => Datum::Char(fixed::<1>(bytes)?[0]),
        PgType::Bytea => Datum::Bytea(bytes.into()),
        PgType::Date => Datum::Date(i32::from_be_bytes(fixed(bytes)?)),
        PgType::Time => Datum::Time(int(bytes)?),
        PgType::Timestamp => Datum::Timestamp(int(bytes)?),
        PgType::TimestampTz => Datum::TimestampTz(int(bytes)?),
        PgType::Interval => {
            let b: [u8; 16] = fixed(bytes)?;
            Datum::Interval(Interval {
                micros: int(&b[..8])?,
                days: i32::from_be_bytes(fixed(&b[8..12])?),
                months: i32::from_be_bytes(fixed(&b[12..])?),
            })
        }
        PgType::Uuid => Datum::Uuid(fixed(bytes)?),
        PgType::Json => parse_text(check_utf8(bytes)?, ty, typmod, ctx)?,
        PgType::Jsonb => match bytes {
            [1, text @ ..] => Datum::Jsonb(json::to_jsonb(check_utf8(text)?)?),
            _ => {
                return Err(SqlError::new(SqlState::INTERNAL_ERROR, "unsupported jsonb version number"));
            }
        },
        PgType::Oid
        | PgType::Regclass
        | PgType::Regtype
        | PgType::Regproc
        | PgType::Regnamespace
        | PgType::Regrole => Datum::Oid(u32::from_be_bytes(fixed(bytes)?)),
        PgType::Enum(_) => parse_text(check_utf8(bytes)?, ty, typmod, ctx)?,
        PgType::Int2Vector => return parse_array(bytes, ElementType::Int2, typmod, ctx),
        PgType::OidVector => return parse_array(bytes, ElementType::Oid, typmod, ctx),
        PgType::Array(element) => return parse_array(bytes, element, typmod, ctx),
        PgType::Void => Datum::Void,
    };
    apply_typmod(datum, ty, typmod, CastContext::Assignment)
}

fn parse_array(bytes: &[u8], element: ElementType, typmod: TypeMod, ctx: &FormatContext) -> SqlResult<Datum> {
    let mut rest = bytes;
    let word = |rest: &mut &[u8]| -> SqlResult<i32> {
        let (head, tail) = rest.split_at_checked(4).ok_or_else(bad_length)?;
        *rest = tail;
        Ok(i32::from_be_bytes(fixed(head)?))
    };
    let dimensions = word(&mut rest)?;
    let _has_nulls = word(&mut rest)?;
    let oid = word(&mut rest)? as u32;
    let ty = PgType::from(element);
    let compatible =
        oid == ty.oid() || PgType::from_oid(oid).is_some_and(|sent| sent.is_string() && ty.is_string());
    if !compatible {
        return Err(SqlError::new(
            SqlState::DATATYPE_MISMATCH,
            format!("binary data has array element type {oid} instead of expected {}", ty.oid()),
        ));
    }
    let mut items = Vec::new();
    match dimensions {
        0 => {}
        1 => {
            let count = word(&mut rest)?;
            let _lower_bound = word(&mut rest)?;
            // Each element takes at least its length word, so a count beyond that is a lie.
            if count < 0 || count as usize > rest.len() / 4 {
                return Err(bad_length());
            }
            items.reserve_exact(count as usize);
            for _ in 0..count {
                let len = word(&mut rest)?;
                if len < 0 {
                    items.push(Datum::Null);
                    continue;
                }
                let (item, tail) = rest.split_at_checked(len as usize).ok_or_else(bad_length)?;
                rest = tail;
                items.push(parse_binary(item, ty, typmod, ctx)?);
            }
        }
        _ => return Err(SqlError::unsupported("an array of more than one dimension")),
    }
    if !rest.is_empty() {
        return Err(bad_length());
    }
    Ok(Datum::Array(Box::new(Array { element, items })))
}

/// PostgreSQL's send function: appends the binary form of `d`, which is of type `ty` and not NULL, without a length word.
pub fn write_binary(d: &Datum, ty: PgType, ctx: &FormatContext, out: &mut Vec<u8>) {
    match d {
        Datum::Null | Datum::Void => {}
        Datum::Bool(b) => out.push(u8::from(*b)),
        Datum::Int2(v) => out.extend_from_slice(&v.to_be_bytes()),
        Datum::Int4(v) | Datum::Date(v) => out.extend_from_slice(&v.to_be_bytes()),
        Datum::Int8(v) | Datum::Time(v) | Datum::Timestamp(v) | Datum::TimestampTz(v) => {
            out.extend_from_slice(&v.to_be_bytes());
        }
        Datum::Float4(v) => out.extend_from_slice(&v.to_be_bytes()),
        Datum::Float8(v) => out.extend_from_slice(&v.to_be_bytes()),
        Datum::Numeric(n) => n.write_binary(out),
        Datum::Text(s) => out.extend_from_slice(s.as_bytes()),
        Datum::Json(s) => out.extend_from_slice(s.as_bytes()),
        Datum::Jsonb(s) => {
            out.push(1);
            out.extend_from_slice(s.as_bytes());
        }
        Datum::Bytea(bytes) => out.extend_from_slice(bytes),
        Datum::Interval(i) => {
            out.extend_from_slice(&i.micros.to_be_bytes());
            out.extend_from_slice(&i.days.to_be_bytes());
            out.extend_from_slice(&i.months.to_be_bytes());
        }
        Datum::Uuid(bytes) => out.extend_from_slice(bytes),
        Datum::Oid(v) => out.extend_from_slice(&v.to_be_bytes()),
        Datum::Enum { .. } => write_text(d, ty, ctx, out),
        Datum::Char(b) => out.push(*b),
        Datum::Array(array) => {
            let mut word = |v: i32| out.extend_from_slice(&v.to_be_bytes());
            let element = PgType::from(array.element);
            word(i32::from(!array.items.is_empty()));
            word(i32::from(array.items.iter().any(Datum::is_null)));
            word(element.oid().cast_signed());
            if array.items.is_empty() {
                return;
            }
            word(array.items.len() as i32);
            word(i32::from(ty.vector_element().is_none()));
            for item in &array.items {
                if item.is_null() {
                    out.extend_from_slice(&(-1i32).to_be_bytes());
                    continue;
                }
                let at = out.len();
                out.extend_from_slice(&[0; 4]);
                write_binary(item, element, ctx, out);
                let len = (out.len() - at - 4) as i32;
                out[at..at + 4].copy_from_slice(&len.to_be_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binary_forms_are_read_back_as_written() {
        let ctx = FormatContext::default();
        let all = [
            ("42", PgType::Int4),
            ("-9223372036854775808", PgType::Int8),
            ("1.5", PgType::Float8),
            ("12345.6789", PgType::Numeric),
            ("héllo", PgType::Text),
            ("\\x00ff", PgType::Bytea),
            ("2020-02-29", PgType::Date),
            ("2020-02-29 12:34:56.789", PgType::TimestampTz),
            ("1 mon 2 days 03:04:05", PgType::Interval),
            ("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", PgType::Uuid),
            ("{\"a\": 1}", PgType::Jsonb),
            ("{1,NULL,3}", PgType::Array(ElementType::Int4)),
            ("{}", PgType::Array(ElementType::Text)),
            ("1 -2", PgType::Int2Vector),
            ("", PgType::OidVector),
        ];
        for (text, ty) in all {
            let d = parse_text(text, ty, TypeMod::NONE, &ctx).unwrap();
            let mut bytes = Vec::new();
            write_binary(&d, ty, &ctx, &mut bytes);
            assert_eq!(parse_binary(&bytes, ty, TypeMod::NONE, &ctx).unwrap(), d, "{text}");
        }
        assert!(parse_binary(&[0, 0], PgType::Int4, TypeMod::NONE, &ctx).is_err());
        assert!(check_utf8(&[b'a', 0xff]).is_err());
    }
}
