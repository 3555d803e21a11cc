//! One SQL value.

use compact_str::CompactString;

use crate::PgType;

/// A SQL value together with which family of types it belongs to. Casts to a column's exact type (`varchar(n)`,
/// `numeric(p,s)`) happen before a value is stored, so a stored value never needs its type modifier to be read.
#[derive(Clone, Debug, PartialEq)]
pub enum Datum {
    Null,
    Bool(bool),
    Int2(i16),
    Int4(i32),
    Int8(i64),
    Float4(f32),
    Float8(f64),
    Numeric(Box<crate::numeric::Numeric>),
    /// text, varchar, char(n) (blank-padded to its length), name, unknown literals.
    Text(CompactString),
    Bytea(Box<[u8]>),
    /// Days since 2000-01-01; `i32::MIN` and `i32::MAX` are the infinities.
    Date(i32),
    /// Microseconds since midnight.
    Time(i64),
    /// Microseconds since 2000-01-01 00:00:00; `i64::MIN` and `i64::MAX` are the infinities.
    Timestamp(i64),
    /// Microseconds since 2000-01-01 00:00:00 UTC; `i64::MIN` and `i64::MAX` are the infinities.
    TimestampTz(i64),
    Interval(Box<Interval>),
    Uuid(Box<[u8; 16]>),
    /// The text as given.
    Json(CompactString),
    /// The canonical text: keys sorted by length then bytes, last duplicate kept, PostgreSQL's spacing.
    Jsonb(CompactString),
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

const _: () = assert!(std::mem::size_of::<Datum>() <= 32);

/// A row of values, in column order.
pub type Row = Vec<Datum>;

/// PostgreSQL's interval: three fields that are never normalised into each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Interval {
    pub months: i32,
    pub days: i32,
    pub micros: i64,
}

/// A one-dimensional array with lower bound 1; empty arrays have no dimension.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    pub element: PgType,
    pub items: Vec<Datum>,
}

impl Datum {
    pub fn is_null(&self) -> bool {
        matches!(self, Datum::Null)
    }
}
