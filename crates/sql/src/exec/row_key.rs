//! Values as bytes that are equal when the values are: for grouping, DISTINCT and hash joins.

use types::{Datum, PgType, key};

use crate::expr::BoundExpr;

/// Appends a key of `value`; NULLs are equal to each other.
fn push_key(value: &Datum, out: &mut Vec<u8>) {
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

/// Appends a key of a value of that type: behind a char(n) blanks do not count, and of two in one column n may differ.
pub(super) fn push_key_of(ty: PgType, value: &Datum, out: &mut Vec<u8>) {
    match value {
        Datum::Text(text) if ty == PgType::Bpchar => {
            push_key(&Datum::text(text.trim_end_matches(' ')), out);
        }
        value => push_key(value, out),
    }
}

/// The key of a row of values of these expressions.
pub(super) fn row_key<'e>(row: &[Datum], of: impl IntoIterator<Item = &'e BoundExpr>) -> Box<[u8]> {
    let mut out = Vec::with_capacity(row.len() * 10);
    row.iter().zip(of).for_each(|(value, expr)| push_key_of(expr.ty, value, &mut out));
    out.into_boxed_slice()
}
