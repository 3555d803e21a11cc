//! Byte strings whose order is that of the values.
//!
//! A key is a marker byte (NULL or not) and a payload that ends itself; descending payloads are inverted bit by bit. Equal
//! values have equal keys, so a numeric's key forgets its display scale and an interval's its split into months, days and time:
//! such a value is decoded equal to, but not always spelled as, the one encoded. A char(n) is encoded as it is stored, padded.

use base::{SqlError, SqlResult, SqlState};
use compact_str::CompactString;

use crate::{Array, Datum, Interval, Numeric, PgType};

const NULL_FIRST: u8 = 0x00;
const VALUE: u8 = 0x80;
const NULL_LAST: u8 = 0xff;

/// Appends the key of `d`: self-delimiting, ordered as [`crate::compare`] (reversed if `desc`), NULL where told. Integers
/// must be of the column's own width.
pub fn encode(d: &Datum, desc: bool, nulls_first: bool, out: &mut Vec<u8>) {
    if d.is_null() {
        out.push(if nulls_first { NULL_FIRST } else { NULL_LAST });
        return;
    }
    out.push(VALUE);
    let start = out.len();
    payload(d, out);
    if desc {
        out[start..].iter_mut().for_each(|b| *b = !*b);
    }
}

/// What [`encode`] appends for an integer, a date or a moment: so many of the first bytes. `None` for any other value, NULL among them.
#[inline]
pub fn of_word(d: &Datum, desc: bool) -> Option<([u8; 9], usize)> {
    let (word, len) = match d {
        Datum::Int4(v) | Datum::Date(v) => (u64::from((v ^ i32::MIN).cast_unsigned()) << 32, 4),
        Datum::Int8(v) | Datum::Time(v) | Datum::Timestamp(v) | Datum::TimestampTz(v) => {
            ((v ^ i64::MIN).cast_unsigned(), 8)
        }
        Datum::Int2(v) => (u64::from((v ^ i16::MIN).cast_unsigned()) << 48, 2),
        _ => return None,
    };
    let mut key = [VALUE; 9];
    key[1..].copy_from_slice(&(if desc { !word } else { word }).to_be_bytes());
    Some((key, 1 + len))
}

fn payload(d: &Datum, out: &mut Vec<u8>) {
    match d {
        Datum::Int4(v) | Datum::Date(v) => out.extend_from_slice(&(v ^ i32::MIN).to_be_bytes()),
        Datum::Int8(v) | Datum::Time(v) | Datum::Timestamp(v) | Datum::TimestampTz(v) => {
            out.extend_from_slice(&(v ^ i64::MIN).to_be_bytes());
        }
        Datum::Int2(v) => out.extend_from_slice(&(v ^ i16::MIN).to_be_bytes()),
        Datum::Text(s) => bytes_payload(s.as_bytes(), out),
        Datum::Bool(b) => out.push(u8::from(*b)),
        Datum::Float4(v) => {
            let v = if *v == 0.0 {
                0.0
            } else if v.is_nan() {
                f32::NAN
            } else {
                *v
            };
            let bits = v.to_bits();
            let ordered = if bits >> 31 == 1 { !bits } else { bits | 1 << 31 };
            out.extend_from_slice(&ordered.to_be_bytes());
        }
        Datum::Float8(v) => {
            let v = if *v == 0.0 {
                0.0
            } else if v.is_nan() {
                f64::NAN
            } else {
                *v
            };
            let bits = v.to_bits();
            let ordered = if bits >> 63 == 1 { !bits } else { bits | 1 << 63 };
            out.extend_from_slice(&ordered.to_be_bytes());
        }
        Datum::Numeric(n) => n.write_key(out),
        Datum::Bytea(b) => bytes_payload(b, out),
        Datum::Json(s) | Datum::Jsonb(s) => bytes_payload(s.as_bytes(), out),
        Datum::Interval(i) => out.extend_from_slice(&(i.span() ^ i128::MIN).to_be_bytes()),
        Datum::Uuid(b) => out.extend_from_slice(b),
        Datum::Oid(v) | Datum::Enum { order: v, .. } => out.extend_from_slice(&v.to_be_bytes()),
        Datum::Char(b) => out.push(*b),
        Datum::Array(a) => {
            for item in &a.items {
                out.push(1);
                encode(item, false, false, out);
            }
            out.push(0);
        }
        Datum::Void | Datum::Null => {}
    }
}

/// Zero bytes are escaped, so that the terminator sorts before any continuation.
pub(crate) fn bytes_payload(bytes: &[u8], out: &mut Vec<u8>) {
    out.reserve(bytes.len() + 2);
    for &b in bytes {
        out.push(b);
        if b == 0 {
            out.push(0xff);
        }
    }
    out.extend_from_slice(&[0, 1]);
}

fn corrupt() -> SqlError {
    SqlError::new(SqlState::DATA_CORRUPTED, "index key cannot be decoded")
}

struct Input<'a, 'b> {
    rest: &'a mut &'b [u8],
    flip: u8,
}

impl Input<'_, '_> {
    fn byte(&mut self) -> SqlResult<u8> {
        let (first, tail) = self.rest.split_first().ok_or_else(corrupt)?;
        *self.rest = tail;
        Ok(first ^ self.flip)
    }

    fn array<const N: usize>(&mut self) -> SqlResult<[u8; N]> {
        let (head, tail) = self.rest.split_first_chunk::<N>().ok_or_else(corrupt)?;
        *self.rest = tail;
        Ok(head.map(|b| b ^ self.flip))
    }

    fn bytes(&mut self) -> SqlResult<Vec<u8>> {
        let mut out = Vec::new();
        loop {
            match self.byte()? {
                0 => match self.byte()? {
                    1 => return Ok(out),
                    0xff => out.push(0),
                    _ => return Err(corrupt()),
                },
                b => out.push(b),
            }
        }
    }

    fn text(&mut self) -> SqlResult<String> {
        String::from_utf8(self.bytes()?).map_err(|_| corrupt())
    }
}

/// Takes one value of type `ty` off the front of `bytes`; the options must be those of `encode`.
///
/// # Errors
/// XX001 if the bytes are no key of that type.
pub fn decode(ty: PgType, desc: bool, nulls_first: bool, bytes: &mut &[u8]) -> SqlResult<Datum> {
    let (marker, tail) = bytes.split_first().ok_or_else(corrupt)?;
    *bytes = tail;
    if *marker == if nulls_first { NULL_FIRST } else { NULL_LAST } {
        return Ok(Datum::Null);
    }
    if *marker != VALUE {
        return Err(corrupt());
    }
    let mut input = Input { rest: bytes, flip: if desc { 0xff } else { 0 } };
    decode_payload(ty, &mut input)
}

fn decode_payload(ty: PgType, input: &mut Input<'_, '_>) -> SqlResult<Datum> {
    let int8 = |input: &mut Input<'_, '_>| Ok::<i64, SqlError>(i64::from_be_bytes(input.array()?) ^ i64::MIN);
    Ok(match ty {
        PgType::Int4 => Datum::Int4(i32::from_be_bytes(input.array()?) ^ i32::MIN),
        PgType::Date => Datum::Date(i32::from_be_bytes(input.array()?) ^ i32::MIN),
        PgType::Int8 => Datum::Int8(int8(input)?),
        PgType::Time => Datum::Time(int8(input)?),
        PgType::Timestamp => Datum::Timestamp(int8(input)?),
        PgType::TimestampTz => Datum::TimestampTz(int8(input)?),
        PgType::Int2 => Datum::Int2(i16::from_be_bytes(input.array()?) ^ i16::MIN),
        PgType::Text | PgType::Varchar | PgType::Bpchar | PgType::Name | PgType::Unknown => {
            Datum::Text(CompactString::from(input.text()?))
        }
        PgType::Bool => Datum::Bool(input.byte()? != 0),
        PgType::Float4 => {
            let bits = u32::from_be_bytes(input.array()?);
            Datum::Float4(f32::from_bits(if bits >> 31 == 1 { bits ^ 1 << 31 } else { !bits }))
        }
        PgType::Float8 => {
            let bits = u64::from_be_bytes(input.array()?);
            Datum::Float8(f64::from_bits(if bits >> 63 == 1 { bits ^ 1 << 63 } else { !bits }))
        }
        PgType::Numeric => Datum::Numeric(decode_numeric(input)?),
        PgType::Bytea => Datum::Bytea(input.bytes()?.into()),
        PgType::Json => Datum::Json(input.text()?.into()),
        PgType::Jsonb => Datum::Jsonb(input.text()?.into()),
        PgType::Interval => {
            let span = i128::from_be_bytes(input.array()?) ^ i128::MIN;
            let day = i128::from(crate::datetime::DAY_MICROS);
            let days = (span / day).clamp(i128::from(i32::MIN), i128::from(i32::MAX));
            let micros = i64::try_from(span - days * day).map_err(|_| corrupt())?;
            Datum::Interval(Interval { months: 0, days: days as i32, micros })
        }
        PgType::Uuid => Datum::Uuid(input.array()?),
        PgType::Oid
        | PgType::Regclass
        | PgType::Regtype
        | PgType::Regproc
        | PgType::Regnamespace
        | PgType::Regrole => Datum::Oid(u32::from_be_bytes(input.array()?)),
        PgType::Enum(oid) => Datum::Enum { type_oid: oid.0, order: u32::from_be_bytes(input.array()?) },
        PgType::Char => Datum::Char(input.byte()?),
        PgType::Array(_) | PgType::Int2Vector | PgType::OidVector => {
            let element =
                ty.element().and_then(crate::ElementType::from_type).expect("an array has elements");
            let mut items = Vec::new();
            while input.byte()? == 1 {
                let marker = input.byte()?;
                items.push(match marker {
                    NULL_LAST => Datum::Null,
                    VALUE => decode_payload(element.into(), input)?,
                    _ => return Err(corrupt()),
                });
            }
            Datum::Array(Box::new(Array { element, items }))
        }
        PgType::Void => Datum::Void,
    })
}

fn decode_numeric(input: &mut Input<'_, '_>) -> SqlResult<Numeric> {
    Numeric::read_key(&mut || input.byte().ok()).ok_or_else(corrupt)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ElementType, FormatContext, TypeMod, compare, parse_text};

    #[test]
    fn keys_are_ordered_as_values_and_decode_to_equals() {
        let ctx = FormatContext::default();
        let array = PgType::Array(ElementType::Int4);
        let families: &[(PgType, &[&str])] = &[
            (PgType::Int2, &["-32768", "-1", "0", "1", "32767"]),
            (PgType::Int4, &["-2147483648", "-1", "0", "1", "2147483647"]),
            (PgType::Int8, &["-9223372036854775808", "-1", "0", "1", "9223372036854775807"]),
            (PgType::Float8, &["-Infinity", "-1.5", "-1e-300", "0", "-0", "1e-300", "2", "Infinity", "NaN"]),
            (PgType::Float4, &["-Infinity", "-1.5", "0", "1.5", "NaN"]),
            (
                PgType::Numeric,
                &[
                    "-Infinity",
                    "-1e30",
                    "-100.5",
                    "-100",
                    "-99.99",
                    "-0.001",
                    "0.00",
                    "0",
                    "0.0001",
                    "0.001",
                    "0.1",
                    "0.10",
                    "1",
                    "1.0",
                    "1.01",
                    "9.99",
                    "10",
                    "99",
                    "100",
                    "12345678901234567890123.5",
                    "1e40",
                    "Infinity",
                    "NaN",
                ],
            ),
            (PgType::Text, &["", "a", "a b", "aa", "b", "é"]),
            (PgType::Bytea, &["\\x", "\\x00", "\\x0000", "\\x0001", "\\x01", "\\xff"]),
            (PgType::Date, &["-infinity", "1900-01-01", "2020-02-29", "infinity"]),
            (PgType::Time, &["00:00:00", "00:00:00.000001", "12:34:56", "24:00:00"]),
            (PgType::Timestamp, &["-infinity", "1900-01-01 00:00:00", "2020-02-29 12:34:56", "infinity"]),
            (PgType::TimestampTz, &["-infinity", "1900-01-01 00:00+00", "2020-02-29 12:34+00", "infinity"]),
            (
                PgType::Interval,
                &["-1 mons", "-1 days", "0", "23:00:00", "1 day", "24:00:00", "30 days", "1 mon", "31 days"],
            ),
            (PgType::Uuid, &["00000000-0000-0000-0000-000000000001", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"]),
            (array, &["{}", "{1}", "{1,2}", "{2}", "{NULL}"]),
        ];
        for (ty, texts) in families {
            let values: Vec<Datum> =
                texts.iter().map(|t| parse_text(t, *ty, TypeMod::NONE, &ctx).unwrap()).collect();
            for desc in [false, true] {
                let keys: Vec<Vec<u8>> = values
                    .iter()
                    .map(|d| {
                        let mut key = Vec::new();
                        encode(d, desc, false, &mut key);
                        let mut rest = &key[..];
                        let back = decode(*ty, desc, false, &mut rest).unwrap();
                        assert!(rest.is_empty() && compare(&back, d).is_eq(), "{d:?} {back:?}");
                        if let Some((word, len)) = of_word(d, desc) {
                            assert_eq!(&word[..len], key, "{d:?}");
                        }
                        key
                    })
                    .collect();
                for i in 0..values.len() {
                    for j in 0..values.len() {
                        let want = compare(&values[i], &values[j]);
                        let want = if desc { want.reverse() } else { want };
                        assert_eq!(keys[i].cmp(&keys[j]), want, "{} {} {desc}", texts[i], texts[j]);
                    }
                }
            }
        }
    }
}
