//! The wire's binary form of values.

use base::{SqlError, SqlResult, SqlState};
use compact_str::CompactString;

use crate::array_items::ArrayItems;
use crate::{
    CastContext, Datum, ElementType, FormatContext, Interval, Numeric, PgType, TypeMod, apply_typmod,
    datetime, json, parse_text, write_text,
};

fn bad(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::INVALID_BINARY_REPRESENTATION, message)
}

/// More bytes than the value has.
pub(crate) fn bad_length() -> SqlError {
    bad("incorrect binary data format")
}

/// Fewer bytes than the value has: to PostgreSQL the message is wrong.
pub(crate) fn too_short() -> SqlError {
    SqlError::new(SqlState::PROTOCOL_VIOLATION, "insufficient data left in message")
}

fn fixed<const N: usize>(bytes: &[u8]) -> SqlResult<[u8; N]> {
    bytes.try_into().map_err(|_| match bytes.len() {
        0 if N == 1 => SqlError::new(SqlState::PROTOCOL_VIOLATION, "no data left in message"),
        len if len < N => too_short(),
        _ => bad_length(),
    })
}

/// A timestamp that has a text form: finite within range, or one of the infinities.
fn timestamp(micros: i64) -> SqlResult<i64> {
    if matches!(micros, i64::MIN | i64::MAX) { Ok(micros) } else { datetime::check_timestamp(micros) }
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

/// PostgreSQL's receive function: the value in `bytes` of type `ty`. Errors: 08P01 for too few bytes, 22P03 for too many and for what
/// means nothing, and those of the value's range.
pub fn parse_binary(bytes: &[u8], ty: PgType, typmod: TypeMod, ctx: &FormatContext) -> SqlResult<Datum> {
    let int = |b: &[u8]| fixed::<8>(b).map(i64::from_be_bytes);
    let datum = match ty {
        PgType::Bool => Datum::Bool(fixed::<1>(bytes)?[0] != 0),
        PgType::Int2 => Datum::Int2(i16::from_be_bytes(fixed(bytes)?)),
        PgType::Int4 => Datum::Int4(i32::from_be_bytes(fixed(bytes)?)),
        PgType::Int8 => Datum::Int8(int(bytes)?),
        PgType::Float4 => Datum::Float4(f32::from_be_bytes(fixed(bytes)?)),
        PgType::Float8 => Datum::Float8(f64::from_be_bytes(fixed(bytes)?)),
        PgType::Numeric => Datum::Numeric(Numeric::parse_binary(bytes)?),
        PgType::Name if bytes.len() > base::limits::IDENTIFIER_LEN_MAX => {
            let most = base::limits::IDENTIFIER_LEN_MAX;
            let error = SqlError::new(SqlState::NAME_TOO_LONG, "identifier too long");
            return Err(error.with_detail(format!("Identifier must be less than {} characters.", most + 1)));
        }
        PgType::Text | PgType::Varchar | PgType::Bpchar | PgType::Name | PgType::Unknown => {
            Datum::Text(CompactString::new(check_utf8(bytes)?))
        }
        PgType::Char => Datum::Char(fixed::<1>(bytes)?[0]),
        PgType::Bytea => Datum::Bytea(bytes.into()),
        PgType::Date => Datum::Date(match i32::from_be_bytes(fixed(bytes)?) {
            infinite @ (i32::MIN | i32::MAX) => infinite,
            days => datetime::check_date(i64::from(days))?,
        }),
        PgType::Time => Datum::Time(match int(bytes)? {
            micros @ 0..=datetime::DAY_MICROS => micros,
            _ => return Err(SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "time out of range")),
        }),
        PgType::Timestamp => Datum::Timestamp(timestamp(int(bytes)?)?),
        PgType::TimestampTz => Datum::TimestampTz(timestamp(int(bytes)?)?),
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
            [] => return Err(too_short()),
            [1, text @ ..] => Datum::Jsonb(json::to_jsonb(check_utf8(text)?)?),
            [version, ..] => {
                let message = format!("unsupported jsonb version number {version}");
                return Err(SqlError::new(SqlState::INTERNAL_ERROR, message));
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

/// As [`parse_binary`] of a value without a modifier, which takes the place of what is in `out`; on an error that stays. The frequent types are
/// written where they are to be: a value that was just written in parts is waited for by who moves it.
#[inline]
pub fn parse_binary_into(bytes: &[u8], ty: PgType, ctx: &FormatContext, out: &mut Datum) -> SqlResult<()> {
    match ty {
        PgType::Int2 => *out = Datum::Int2(i16::from_be_bytes(fixed(bytes)?)),
        PgType::Int4 => *out = Datum::Int4(i32::from_be_bytes(fixed(bytes)?)),
        PgType::Int8 => *out = Datum::Int8(i64::from_be_bytes(fixed(bytes)?)),
        PgType::Float8 => *out = Datum::Float8(f64::from_be_bytes(fixed(bytes)?)),
        PgType::Numeric => *out = Datum::Numeric(Numeric::parse_binary(bytes)?),
        PgType::Text | PgType::Varchar | PgType::Bpchar => {
            *out = Datum::Text(CompactString::new(check_utf8(bytes)?));
        }
        PgType::Timestamp => *out = Datum::Timestamp(timestamp(i64::from_be_bytes(fixed(bytes)?))?),
        PgType::TimestampTz => *out = Datum::TimestampTz(timestamp(i64::from_be_bytes(fixed(bytes)?))?),
        _ => *out = parse_binary(bytes, ty, TypeMod::NONE, ctx)?,
    }
    Ok(())
}

fn parse_array(bytes: &[u8], element: ElementType, typmod: TypeMod, ctx: &FormatContext) -> SqlResult<Datum> {
    let mut rest = bytes;
    let word = |rest: &mut &[u8]| -> SqlResult<i32> {
        let (head, tail) = rest.split_at_checked(4).ok_or_else(too_short)?;
        *rest = tail;
        Ok(i32::from_be_bytes(fixed(head)?))
    };
    let dimensions = word(&mut rest)?;
    if dimensions < 0 {
        return Err(bad(format!("invalid number of dimensions: {dimensions}")));
    }
    if !matches!(word(&mut rest)?, 0 | 1) {
        return Err(bad("invalid array flags"));
    }
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
    let mut items = ArrayItems::default();
    match dimensions {
        0 => {}
        1 => {
            let count = word(&mut rest)?;
            let _lower_bound = word(&mut rest)?;
            // Each element takes at least its length word, so a count beyond that is a lie.
            let count = usize::try_from(count)
                .map_err(|_| SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, "array size is negative"))?;
            if count > rest.len() / 4 {
                return Err(too_short());
            }
            items = ArrayItems::with_capacity(count);
            for number in 1..=count {
                let len = word(&mut rest)?;
                if len == -1 {
                    items.push(Datum::Null)?;
                    continue;
                }
                let split = usize::try_from(len).ok().and_then(|len| rest.split_at_checked(len));
                let (item, tail) = split.ok_or_else(|| bad("insufficient data left in message"))?;
                rest = tail;
                items.push(parse_binary(item, ty, typmod, ctx).map_err(|error| {
                    if error == bad_length() {
                        return bad(format!("improper binary format in array element {number}"));
                    }
                    error
                })?)?;
            }
        }
        _ => return Err(SqlError::unsupported("an array of more than one dimension")),
    }
    if !rest.is_empty() {
        return Err(bad_length());
    }
    Ok(Datum::array(element, items.finish()))
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
            let mut out = Datum::text("a longer text than a value has room for");
            parse_binary_into(&bytes, ty, &ctx, &mut out).unwrap();
            assert_eq!(out, d, "{text}");
        }
        assert!(check_utf8(&[b'a', 0xff]).is_err());
    }

    #[test]
    fn what_is_no_value_has_postgresqls_sqlstate() {
        let ints = PgType::Array(ElementType::Int4);
        let (one, long): (&[u8], &[u8]) = (&[0, 0, 0, 1], &[0; 40]);
        let array = |flags: i32, count: i32, len: i32, item: &[u8]| {
            let words = [1, flags, 23, count, 1, len].map(i32::to_be_bytes).concat();
            [&words, item].concat()
        };
        let cases: &[(&[u8], PgType, &str)] = &[
            (&[], PgType::Bool, "08P01 no data left in message"),
            (&[0, 0], PgType::Bool, "22P03 incorrect binary data format"),
            (&[], PgType::Char, "08P01 no data left in message"),
            (&one[1..], PgType::Int4, "08P01 insufficient data left in message"),
            (&long[..5], PgType::Int4, "22P03 incorrect binary data format"),
            (one, PgType::Int8, "08P01 insufficient data left in message"),
            (&long[..9], PgType::Float8, "22P03 incorrect binary data format"),
            (&long[..15], PgType::Interval, "08P01 insufficient data left in message"),
            (&long[..17], PgType::Interval, "22P03 incorrect binary data format"),
            (&long[..15], PgType::Uuid, "08P01 insufficient data left in message"),
            (&long[..7], PgType::Numeric, "08P01 insufficient data left in message"),
            (&[0, 1, 0, 0, 0, 0, 0, 0], PgType::Numeric, "08P01 insufficient data left in message"),
            (&long[..9], PgType::Numeric, "22P03 incorrect binary data format"),
            (&[0, 0, 0, 0, 1, 0, 0, 0], PgType::Numeric, "22P03 invalid sign in external \"numeric\" value"),
            (&[], PgType::Jsonb, "08P01 insufficient data left in message"),
            (b"\x02{}", PgType::Jsonb, "XX000 unsupported jsonb version number 2"),
            (&(i32::MAX - 1).to_be_bytes(), PgType::Date, "22008 date out of range"),
            (&(i64::MAX - 1).to_be_bytes(), PgType::Timestamp, "22008 timestamp out of range"),
            (&(i64::MIN + 1).to_be_bytes(), PgType::TimestampTz, "22008 timestamp out of range"),
            (&(-1i64).to_be_bytes(), PgType::Time, "22008 time out of range"),
            (&long[..8], ints, "08P01 insufficient data left in message"),
            (&[255; 12], ints, "22P03 invalid number of dimensions: -1"),
            (&array(2, 1, 4, one), ints, "22P03 invalid array flags"),
            (&array(0, 9, 4, one), ints, "08P01 insufficient data left in message"),
            (&array(0, 1, 5, one), ints, "22P03 insufficient data left in message"),
            (&array(0, 1, -2, one), ints, "22P03 insufficient data left in message"),
            (&array(0, 1, 3, &one[1..]), ints, "08P01 insufficient data left in message"),
            (&array(0, 1, 5, &long[..5]), ints, "22P03 improper binary format in array element 1"),
        ];
        for (bytes, ty, expected) in cases {
            let error = parse_binary(bytes, *ty, TypeMod::NONE, &FormatContext::default()).unwrap_err();
            let mut out = Datum::Int2(7);
            let same = parse_binary_into(bytes, *ty, &FormatContext::default(), &mut out).unwrap_err();
            assert_eq!((same.message(), out), (error.message(), Datum::Int2(7)));
            assert_eq!(format!("{} {}", error.state(), error.message()), *expected, "{bytes:?} as {ty:?}");
        }
        for infinite in [i64::MIN, i64::MAX] {
            let ctx = FormatContext::default();
            let read = parse_binary(&infinite.to_be_bytes(), PgType::Timestamp, TypeMod::NONE, &ctx);
            assert_eq!(read, Ok(Datum::Timestamp(infinite)));
        }
    }
}
