//! Values of PostgreSQL's types: their text and binary forms, comparison, arithmetic, casts and order-preserving keys.
//!
//! Level 1: pure functions over values. Knows no tables, no SQL text, no clock (the current time is an argument).
//! Semantics are PostgreSQL 15's; collation is C over UTF-8 bytes.

mod datum;
pub mod numeric;
mod pg_type;

pub use datum::{Array, Datum, Interval, Row};
pub use pg_type::{PgType, TypeMod, oid};
