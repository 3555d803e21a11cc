//! The types a column or expression can have, with PostgreSQL's object identifiers and names.

use base::Oid;

/// A type without its modifier.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PgType {
    /// A literal or parameter whose type is not known yet.
    Unknown,
    Bool,
    Int2,
    Int4,
    Int8,
    Float4,
    Float8,
    Numeric,
    Text,
    Varchar,
    /// `char(n)`.
    Bpchar,
    Name,
    /// `"char"`.
    Char,
    Bytea,
    Date,
    Time,
    Timestamp,
    TimestampTz,
    Interval,
    Uuid,
    Json,
    Jsonb,
    Oid,
    Regclass,
    Regtype,
    Regproc,
    Regnamespace,
    Void,
    /// A user's enum, by the oid of the type.
    Enum(Oid),
    /// An array of a scalar type.
    Array(ElementType),
}

/// The element of an array: any scalar type. Kept apart from [`PgType`] so that both stay `Copy`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ElementType {
    Bool,
    Int2,
    Int4,
    Int8,
    Float4,
    Float8,
    Numeric,
    Text,
    Varchar,
    Bpchar,
    Name,
    Char,
    Bytea,
    Date,
    Time,
    Timestamp,
    TimestampTz,
    Interval,
    Uuid,
    Json,
    Jsonb,
    Oid,
    /// A user's enum, by the oid of the element type.
    Enum(Oid),
}

/// PostgreSQL's `atttypmod`: `-1` for none; varchar and char: length + 4; numeric: `((p << 16) | s) + 4`; time types: digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TypeMod(pub i32);

impl TypeMod {
    pub const NONE: TypeMod = TypeMod(-1);
}

/// PostgreSQL's fixed object identifiers of built-in types.
pub mod oid {
    pub const BOOL: u32 = 16;
    pub const INT8: u32 = 20;
}
