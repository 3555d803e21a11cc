//! One SQL value.

use compact_str::CompactString;

use crate::numeric::Numeric;
use crate::{ElementType, PgType};

/// A SQL value together with which family of types it belongs to. Casts to a column's exact type (`varchar(n)`,
/// `numeric(p,s)`) happen before a value is stored, so a stored value never needs its type modifier to be read.
///
/// `==` is structural and for tests and plan comparison (`1.0` and `1.00` differ); SQL equality is [`crate::compare`].
#[derive(Clone, Debug, PartialEq, Default)]
pub enum Datum {
    #[default]
    Null,
    Bool(bool),
    Int2(i16),
    Int4(i32),
    Int8(i64),
    Float4(f32),
    Float8(f64),
    Numeric(Numeric),
    /// text, varchar, char(n) (blank-padded to its length), name, unknown literals.
    Text(CompactString),
    Bytea(Box<[u8]>),
    /// Days since 2000-01-01; `i32::MIN` and `i32::MAX` are the infinities.
    Date(i32),
    /// Microseconds since midnight, up to and including 24:00:00.
    Time(i64),
    /// Microseconds since 2000-01-01 00:00:00; `i64::MIN` and `i64::MAX` are the infinities.
    Timestamp(i64),
    /// Microseconds since 2000-01-01 00:00:00 UTC; `i64::MIN` and `i64::MAX` are the infinities.
    TimestampTz(i64),
    Interval(Interval),
    Uuid([u8; 16]),
    /// The text as given.
    Json(Box<str>),
    /// The canonical text: keys sorted by length then bytes, last duplicate kept, PostgreSQL's spacing.
    Jsonb(Box<str>),
    /// oid, regclass, regtype and their kin.
    Oid(u32),
    /// A value of a user's enum: the type's oid, and the label's sort order within it.
    Enum {
        type_oid: u32,
        order: u32,
    },
    /// PostgreSQL's one-byte `"char"`.
    Char(u8),
    Array(Box<Array>),
    Void,
}

const _: () = assert!(std::mem::size_of::<Datum>() == 24);

/// A row of values, in column order.
pub type Row = Vec<Datum>;

/// Memory that a row takes, by estimate: bytes.
pub fn row_memory(row: &[Datum]) -> usize {
    size_of::<Row>() + row.iter().map(|value| size_of::<Datum>() + value.heap_bytes()).sum::<usize>()
}

/// PostgreSQL's interval: three fields that are never normalised into each other. `==` is field by field; SQL's
/// equality counts a month as 30 days and a day as 24 hours ([`Interval::span`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Interval {
    pub months: i32,
    pub days: i32,
    pub micros: i64,
}

impl Interval {
    /// The length that comparison uses: microseconds, with 30 days a month and 24 hours a day.
    pub fn span(&self) -> i128 {
        const DAY: i128 = 86_400_000_000;
        i128::from(self.micros) + (i128::from(self.months) * 30 + i128::from(self.days)) * DAY
    }
}

/// A one-dimensional array with lower bound 1; empty arrays have no dimension.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    pub element: ElementType,
    pub items: Vec<Datum>,
}

impl Datum {
    pub fn is_null(&self) -> bool {
        matches!(self, Datum::Null)
    }

    /// A text value.
    pub fn text(s: impl AsRef<str>) -> Datum {
        Datum::Text(CompactString::new(s.as_ref()))
    }

    /// An array of `element`s.
    pub fn array(element: ElementType, items: Vec<Datum>) -> Datum {
        Datum::Array(Box::new(Array { element, items }))
    }

    /// The string of a text-like value (text, json, jsonb).
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Datum::Text(s) => Some(s),
            Datum::Json(s) | Datum::Jsonb(s) => Some(s),
            _ => None,
        }
    }

    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Datum::Bool(b) => Some(*b),
            _ => None,
        }
    }

    /// The value of any of the three integer types or an oid.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Datum::Int2(v) => Some(i64::from(*v)),
            Datum::Int4(v) => Some(i64::from(*v)),
            Datum::Int8(v) => Some(*v),
            Datum::Oid(v) => Some(i64::from(*v)),
            _ => None,
        }
    }

    /// The type the value would have on its own: text for all string types, oid for its kin. `Unknown` for NULL.
    pub fn natural_type(&self) -> PgType {
        match self {
            Datum::Null => PgType::Unknown,
            Datum::Bool(_) => PgType::Bool,
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
            Datum::Enum { type_oid, .. } => PgType::Enum(base::Oid(*type_oid)),
            Datum::Char(_) => PgType::Char,
            Datum::Array(a) => PgType::Array(a.element),
            Datum::Void => PgType::Void,
        }
    }

    /// Bytes the value holds on the heap, for memory accounting.
    #[inline]
    pub fn heap_bytes(&self) -> usize {
        match self {
            Datum::Text(s) if s.is_heap_allocated() => s.capacity(),
            Datum::Numeric(n) => n.heap_bytes(),
            Datum::Bytea(_) | Datum::Json(_) | Datum::Jsonb(_) | Datum::Array(_) => self.boxed_bytes(),
            _ => 0,
        }
    }

    /// [`Datum::heap_bytes`] of what is in a box.
    fn boxed_bytes(&self) -> usize {
        match self {
            Datum::Bytea(b) => b.len(),
            Datum::Json(s) | Datum::Jsonb(s) => s.len(),
            Datum::Array(a) => {
                std::mem::size_of::<Array>()
                    + a.items.iter().map(|d| std::mem::size_of::<Datum>() + d.heap_bytes()).sum::<usize>()
            }
            _ => 0,
        }
    }
}
