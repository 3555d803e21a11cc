//! Values of PostgreSQL's types: their text and binary forms, comparison, arithmetic, casts and order-preserving keys.
//!
//! Level 1: pure functions over values. Knows no tables, no SQL text, no clock (the current time is an argument).
//! Semantics are PostgreSQL 15's; collation is C over UTF-8 bytes.

pub mod arith;
mod array_items;
mod array_text;
mod binary;
mod cast;
mod compare;
pub mod datetime;
mod datum;
mod datum_bytes;
mod float_text;
mod format_context;
mod identifier;
pub mod json;
pub mod key;
mod letter_case;
pub mod numeric;
mod pg_type;
mod text_in;
mod text_out;

pub use binary::{check_utf8, parse_binary, parse_binary_into, write_binary};
pub use cast::{CastContext, apply_typmod, cannot_cast, cast, cast_allowed};
pub use compare::{compare, equal, hash};
pub use datum::{Array, Datum, Interval, Row, row_memory};
pub use datum_bytes::{read_datum, write_datum};
pub use format_context::{
    ByteaOutput, CatalogNames, DateFormat, DateOrder, FormatContext, IntervalStyle, UNIX_TO_PG_EPOCH_MICROS,
};
pub use identifier::{KeywordKind, keywords, quote_ident};
pub use letter_case::{lower, lower_char, upper, upper_char};
pub use numeric::Numeric;
pub use pg_type::{ElementType, PgType, TypeMod, format_type, format_type_in};
pub use text_in::{parse_bool, parse_bytea, parse_hex, parse_text, split_qualified_name};
pub use text_out::{push_hex, to_text, write_text};
