//! Values as bytes that are equal when the values are: for grouping, DISTINCT and hash joins.

use types::{Datum, key};

/// Appends a key of `value`; NULLs are equal to each other.
pub(super) fn push_key(value: &Datum, out: &mut Vec<u8>) {
    match value {
        Datum::Json(text) => {
            out.extend_from_slice(&(text.len() as u64).to_be_bytes());
            out.extend_from_slice(text.as_bytes());
        }
        // Numbers of other scales are equal; NULL has no such byte.
        Datum::Jsonb(text) => {
            out.push(1);
            types::json::write_key(text, out);
        }
        Datum::Void => {}
        Datum::Array(array) => {
            out.extend_from_slice(&(array.items.len() as u64).to_be_bytes());
            array.items.iter().for_each(|item| push_key(item, out));
        }
        _ => key::encode(value, false, false, out),
    }
}

/// The key of a whole row.
pub(super) fn row_key(row: &[Datum]) -> Box<[u8]> {
    let mut out = Vec::with_capacity(row.len() * 10);
    row.iter().for_each(|value| push_key(value, &mut out));
    out.into_boxed_slice()
}
