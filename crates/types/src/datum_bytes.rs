//! Bytes of a value that stands alone: they say themselves how they are read, and give back the very value.
//!
//! A tag, then what the variant holds: numbers little-endian, what has no fixed length behind its length in four bytes.
//! For files that do not outlive the server: the form may change with any version. Stored rows have a shorter one, which
//! needs their columns.

use base::Oid;
use compact_str::CompactString;

use crate::{Array, Datum, ElementType, Interval, Numeric, PgType};

/// Arrays within each other that are read. Values have two at most: an element is of a scalar type, some of which are arrays themselves
/// (int2vector). Malformed bytes could have as many as fit, and each takes stack.
const ARRAY_DEPTH_MAX: u32 = 6;

/// The first byte of a value.
mod tag {
    pub(super) const NULL: u8 = 0;
    pub(super) const FALSE: u8 = 1;
    pub(super) const TRUE: u8 = 2;
    pub(super) const INT2: u8 = 3;
    pub(super) const INT4: u8 = 4;
    pub(super) const INT8: u8 = 5;
    pub(super) const FLOAT4: u8 = 6;
    pub(super) const FLOAT8: u8 = 7;
    pub(super) const NUMERIC: u8 = 8;
    pub(super) const TEXT: u8 = 9;
    pub(super) const BYTEA: u8 = 10;
    pub(super) const DATE: u8 = 11;
    pub(super) const TIME: u8 = 12;
    pub(super) const TIMESTAMP: u8 = 13;
    pub(super) const TIMESTAMPTZ: u8 = 14;
    pub(super) const INTERVAL: u8 = 15;
    pub(super) const UUID: u8 = 16;
    pub(super) const JSON: u8 = 17;
    pub(super) const JSONB: u8 = 18;
    pub(super) const OID: u8 = 19;
    pub(super) const ENUM: u8 = 20;
    pub(super) const CHAR: u8 = 21;
    pub(super) const ARRAY: u8 = 22;
    pub(super) const VOID: u8 = 23;
}

/// Appends a value, for [`read_datum`].
///
/// # Panics
/// If a string, a bytea, or an array's count of items is 4 GiB or more.
pub fn write_datum(datum: &Datum, out: &mut Vec<u8>) {
    match datum {
        Datum::Null => out.push(tag::NULL),
        Datum::Bool(false) => out.push(tag::FALSE),
        Datum::Bool(true) => out.push(tag::TRUE),
        Datum::Int2(v) => write_fixed(tag::INT2, v.to_le_bytes(), out),
        Datum::Int4(v) => write_fixed(tag::INT4, v.to_le_bytes(), out),
        Datum::Int8(v) => write_fixed(tag::INT8, v.to_le_bytes(), out),
        Datum::Float4(v) => write_fixed(tag::FLOAT4, v.to_le_bytes(), out),
        Datum::Float8(v) => write_fixed(tag::FLOAT8, v.to_le_bytes(), out),
        Datum::Numeric(v) => {
            out.push(tag::NUMERIC);
            v.write_exact(out);
        }
        Datum::Text(v) => write_variable(tag::TEXT, v.as_bytes(), out),
        Datum::Bytea(v) => write_variable(tag::BYTEA, v, out),
        Datum::Date(v) => write_fixed(tag::DATE, v.to_le_bytes(), out),
        Datum::Time(v) => write_fixed(tag::TIME, v.to_le_bytes(), out),
        Datum::Timestamp(v) => write_fixed(tag::TIMESTAMP, v.to_le_bytes(), out),
        Datum::TimestampTz(v) => write_fixed(tag::TIMESTAMPTZ, v.to_le_bytes(), out),
        Datum::Interval(v) => write_interval(v, out),
        Datum::Uuid(v) => write_fixed(tag::UUID, *v, out),
        Datum::Json(v) => write_variable(tag::JSON, v.as_bytes(), out),
        Datum::Jsonb(v) => write_variable(tag::JSONB, v.as_bytes(), out),
        Datum::Oid(v) => write_fixed(tag::OID, v.to_le_bytes(), out),
        Datum::Enum { type_oid, order } => {
            write_fixed(tag::ENUM, type_oid.to_le_bytes(), out);
            out.extend_from_slice(&order.to_le_bytes());
        }
        Datum::Char(v) => write_fixed(tag::CHAR, [*v], out),
        Datum::Array(v) => write_array(v, out),
        Datum::Void => out.push(tag::VOID),
    }
}

/// Takes the value that [`write_datum`] put at the beginning of `bytes`; `None` where there is none, and `bytes` are then of no use.
/// Allocates memory in proportion to the bytes it takes, whatever they say.
pub fn read_datum(bytes: &mut &[u8]) -> Option<Datum> {
    read_within(ARRAY_DEPTH_MAX, bytes)
}

/// The same where only so many `arrays` may be within each other.
fn read_within(arrays: u32, bytes: &mut &[u8]) -> Option<Datum> {
    let [tag] = take::<1>(bytes)?;
    Some(match tag {
        tag::NULL => Datum::Null,
        tag::FALSE => Datum::Bool(false),
        tag::TRUE => Datum::Bool(true),
        tag::INT2 => Datum::Int2(i16::from_le_bytes(take(bytes)?)),
        tag::INT4 => Datum::Int4(i32::from_le_bytes(take(bytes)?)),
        tag::INT8 => Datum::Int8(i64::from_le_bytes(take(bytes)?)),
        tag::FLOAT4 => Datum::Float4(f32::from_le_bytes(take(bytes)?)),
        tag::FLOAT8 => Datum::Float8(f64::from_le_bytes(take(bytes)?)),
        tag::NUMERIC => Datum::Numeric(Numeric::read_exact(bytes)?),
        tag::TEXT => Datum::Text(CompactString::new(take_text(bytes)?)),
        tag::BYTEA => Datum::Bytea(take_variable(bytes)?.into()),
        tag::DATE => Datum::Date(i32::from_le_bytes(take(bytes)?)),
        tag::TIME => Datum::Time(i64::from_le_bytes(take(bytes)?)),
        tag::TIMESTAMP => Datum::Timestamp(i64::from_le_bytes(take(bytes)?)),
        tag::TIMESTAMPTZ => Datum::TimestampTz(i64::from_le_bytes(take(bytes)?)),
        tag::INTERVAL => Datum::Interval(read_interval(bytes)?),
        tag::UUID => Datum::Uuid(take(bytes)?),
        tag::JSON => Datum::Json(take_text(bytes)?.into()),
        tag::JSONB => Datum::Jsonb(take_text(bytes)?.into()),
        tag::OID => Datum::Oid(u32::from_le_bytes(take(bytes)?)),
        tag::ENUM => {
            let type_oid = u32::from_le_bytes(take(bytes)?);
            Datum::Enum { type_oid, order: u32::from_le_bytes(take(bytes)?) }
        }
        tag::CHAR => {
            let [value] = take::<1>(bytes)?;
            Datum::Char(value)
        }
        tag::ARRAY => Datum::Array(Box::new(read_array(arrays.checked_sub(1)?, bytes)?)),
        tag::VOID => Datum::Void,
        _ => return None,
    })
}

fn write_interval(interval: &Interval, out: &mut Vec<u8>) {
    write_fixed(tag::INTERVAL, interval.months.to_le_bytes(), out);
    out.extend_from_slice(&interval.days.to_le_bytes());
    out.extend_from_slice(&interval.micros.to_le_bytes());
}

fn read_interval(bytes: &mut &[u8]) -> Option<Interval> {
    let months = i32::from_le_bytes(take(bytes)?);
    let days = i32::from_le_bytes(take(bytes)?);
    Some(Interval { months, days, micros: i64::from_le_bytes(take(bytes)?) })
}

/// Whether the element is a user's enum, its oid, the count of items, the items.
fn write_array(array: &Array, out: &mut Vec<u8>) {
    out.push(tag::ARRAY);
    out.push(u8::from(matches!(array.element, ElementType::Enum(_))));
    out.extend_from_slice(&PgType::from(array.element).oid().to_le_bytes());
    write_len(array.items.len(), out);
    for item in &array.items {
        write_datum(item, out);
    }
}

fn read_array(arrays: u32, bytes: &mut &[u8]) -> Option<Array> {
    let [is_enum] = take::<1>(bytes)?;
    let oid = u32::from_le_bytes(take(bytes)?);
    let element = match is_enum {
        0 => ElementType::from_type(PgType::from_oid(oid)?)?,
        1 => ElementType::Enum(Oid(oid)),
        _ => return None,
    };
    let count = u32::from_le_bytes(take(bytes)?) as usize;
    // An item has a byte at least.
    let mut items = Vec::with_capacity(count.min(bytes.len()));
    for _ in 0..count {
        items.push(read_within(arrays, bytes)?);
    }
    Some(Array { element, items })
}

fn write_fixed<const N: usize>(tag: u8, bytes: [u8; N], out: &mut Vec<u8>) {
    out.push(tag);
    out.extend_from_slice(&bytes);
}

fn write_variable(tag: u8, bytes: &[u8], out: &mut Vec<u8>) {
    out.push(tag);
    write_with_len(bytes, out);
}

/// Appends bytes behind their length, for [`take_variable`].
pub(crate) fn write_with_len(bytes: &[u8], out: &mut Vec<u8>) {
    write_len(bytes.len(), out);
    out.extend_from_slice(bytes);
}

fn write_len(len: usize, out: &mut Vec<u8>) {
    let len = u32::try_from(len).expect("a value is shorter than 4 GiB");
    out.extend_from_slice(&len.to_le_bytes());
}

/// Takes the first `N` bytes; `None` where there are fewer.
pub(crate) fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (head, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*head)
}

/// Takes what [`write_with_len`] wrote; `None` where there are fewer bytes than it says.
pub(crate) fn take_variable<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = u32::from_le_bytes(take(bytes)?) as usize;
    let (head, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    Some(head)
}

fn take_text<'a>(bytes: &mut &'a [u8]) -> Option<&'a str> {
    std::str::from_utf8(take_variable(bytes)?).ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn written(datum: &Datum) -> Vec<u8> {
        let mut bytes = Vec::new();
        write_datum(datum, &mut bytes);
        bytes
    }

    /// Reads `bytes`, which are one value and no more.
    fn read(mut bytes: &[u8]) -> Option<Datum> {
        let datum = read_datum(&mut bytes)?;
        assert!(bytes.is_empty(), "{} bytes are left behind {datum:?}", bytes.len());
        Some(datum)
    }

    /// The text of a value, which tells apart what `==` does not (-0 and 0) and has NaN equal to itself.
    fn shown(datum: &Datum) -> String {
        format!("{datum:?}")
    }

    fn numbers() -> Vec<Datum> {
        let numeric = |text: &str| Datum::Numeric(text.parse().unwrap());
        vec![
            Datum::Int2(i16::MIN),
            Datum::Int4(i32::MAX),
            Datum::Int8(i64::MIN),
            Datum::Float4(-0.0),
            Datum::Float4(f32::NAN),
            Datum::Float4(f32::MIN_POSITIVE),
            Datum::Float8(0.1),
            Datum::Float8(-f64::NAN),
            Datum::Float8(f64::NEG_INFINITY),
            numeric("0"),
            numeric("0.00"),
            numeric("-12345.6700"),
            numeric("9223372036854775807"),
            numeric("-9223372036854775808.0"),
            numeric("9223372036854775808"),
            numeric("-170141183460469231731687303715884105729.50"),
            numeric(&format!("-{}.{}", "7".repeat(5000), "3".repeat(300))),
            Datum::Numeric(Numeric::new(1, u16::MAX)),
            Datum::Numeric(Numeric::NAN),
            Datum::Numeric(Numeric::INFINITY),
            Datum::Numeric(Numeric::NEG_INFINITY),
        ]
    }

    fn others() -> Vec<Datum> {
        let vector = Datum::array(ElementType::Int2, vec![Datum::Int2(1), Datum::Int2(-2)]);
        let mood = |order| Datum::Enum { type_oid: 16_400, order };
        vec![
            Datum::Null,
            Datum::Void,
            Datum::Bool(false),
            Datum::Bool(true),
            Datum::text(""),
            Datum::text("héllo"),
            Datum::text("long enough for the heap, nul \0 and all"),
            Datum::Bytea(Box::default()),
            Datum::Bytea([0, 255, 7].into()),
            Datum::Date(i32::MIN),
            Datum::Time(86_400_000_000),
            Datum::Timestamp(i64::MAX),
            Datum::TimestampTz(-1),
            Datum::Interval(Interval { months: -1, days: i32::MAX, micros: i64::MIN }),
            Datum::Uuid(*b"sixteen bytes it"),
            Datum::Json("{ \"a\":1 }".into()),
            Datum::Jsonb("{\"a\": 1}".into()),
            Datum::Oid(u32::MAX),
            mood(3),
            Datum::Char(200),
            Datum::array(ElementType::Text, Vec::new()),
            Datum::array(ElementType::Numeric, vec![Datum::Null, Datum::Numeric(Numeric::NAN)]),
            // An enum whose oid is a built-in type's is one all the same.
            Datum::array(ElementType::Enum(Oid(23)), vec![mood(1), Datum::Null]),
            Datum::array(ElementType::Int2Vector, vec![vector.clone(), Datum::Null, vector]),
        ]
    }

    #[test]
    fn every_variant_is_read_back_as_written() {
        let mut tags = BTreeSet::new();
        for datum in numbers().into_iter().chain(others()) {
            let bytes = written(&datum);
            tags.insert(bytes[0]);
            assert_eq!(read(&bytes).map(|read| shown(&read)), Some(shown(&datum)));
        }
        assert_eq!(tags, (tag::NULL..=tag::VOID).collect::<BTreeSet<u8>>(), "every tag was written");
        for scalar in PgType::SCALARS {
            let empty = Datum::array(ElementType::from_type(*scalar).unwrap(), Vec::new());
            assert_eq!(read(&written(&empty)), Some(empty));
        }
    }

    #[test]
    fn values_behind_each_other_are_read_in_order() {
        let mut bytes = Vec::new();
        for datum in &others() {
            write_datum(datum, &mut bytes);
        }
        let mut rest = &bytes[..];
        for datum in others() {
            assert_eq!(read_datum(&mut rest), Some(datum));
        }
        assert_eq!(read_datum(&mut rest), None);
    }

    #[test]
    fn bytes_that_end_early_are_no_value() {
        for datum in numbers().into_iter().chain(others()) {
            let bytes = written(&datum);
            for len in 0..bytes.len() {
                assert_eq!(read_datum(&mut &bytes[..len]), None, "{len} bytes of {datum:?}");
            }
        }
    }

    #[test]
    fn malformed_bytes_are_no_value() {
        let text = |bytes: &[u8]| [&[tag::TEXT, 2, 0, 0, 0][..], bytes].concat();
        assert!(read(&text(b"ab")).is_some());
        assert_eq!(read(&text(&[b'a', 0xff])), None);
        assert_eq!(read(&[tag::VOID + 1]), None);
        assert_eq!(read(&[tag::NUMERIC, 99]), None);
        assert_eq!(read(&[tag::BYTEA, 255, 255, 255, 255, 1]), None);
        let array =
            |is_enum, oid: u8, count: [u8; 4]| [&[tag::ARRAY, is_enum, oid, 0, 0, 0][..], &count].concat();
        assert!(read(&array(0, 23, [0; 4])).is_some());
        assert_eq!(read(&array(0, 23, [255; 4])), None, "more items than there are bytes");
        assert_eq!(read(&array(2, 23, [0; 4])), None);
        assert_eq!(read(&array(0, 2, [0; 4])), None, "no type has this oid");
        let deep = array(0, 22, [1, 0, 0, 0]).repeat(100_000);
        assert_eq!(read(&deep), None, "arrays within arrays without end");
    }

    fn values() -> impl Strategy<Value = Datum> {
        let numeric = |(coef, scale)| Datum::Numeric(Numeric::from_i128(coef, scale));
        let scalar = prop_oneof![
            Just(Datum::Null),
            any::<i64>().prop_map(Datum::Int8),
            any::<u64>().prop_map(|bits| Datum::Float8(f64::from_bits(bits))),
            any::<String>().prop_map(Datum::text),
            prop::collection::vec(any::<u8>(), 0..40).prop_map(|bytes| Datum::Bytea(bytes.into())),
            (any::<i128>(), 0..1000u16).prop_map(numeric),
        ];
        scalar.prop_recursive(2, 16, 8, |item| {
            prop::collection::vec(item, 0..8).prop_map(|items| Datum::array(ElementType::Text, items))
        })
    }

    proptest! {
        #[test]
        fn any_value_is_read_back_and_any_bytes_are_harmless(
            value in values(),
            noise in prop::collection::vec(any::<u8>(), 0..200),
            at in any::<prop::sample::Index>(),
        ) {
            let mut bytes = written(&value);
            let back = read(&bytes).map(|read| shown(&read));
            prop_assert_eq!(back, Some(shown(&value)));
            let at = at.index(bytes.len());
            bytes.truncate(at);
            bytes.extend_from_slice(&noise);
            let _ = read_datum(&mut &bytes[..]);
            let _ = read_datum(&mut &noise[..]);
        }
    }
}
