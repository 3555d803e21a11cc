//! Rows as bytes: any column is read without touching the others.
//!
//! | bytes | what |
//! | --- | --- |
//! | 2 | columns stored, and [`WIDE`] where the ends below take four bytes |
//! | ⌈columns / 8⌉ | NULL bits, least significant first |
//! | sum of widths | the fixed-width columns, in order; zeros where NULL |
//! | 2 or 4 for each variable-width column | where its bytes end, counted from the start of the variable part |
//! | rest | the variable part |
//!
//! Columns are only ever added at the end of a table, so the place of a column depends on nothing that comes later: a row
//! stored with fewer columns than the table has is read with the same [`RowLayout`], and the columns it lacks have
//! their `missing` value. All numbers are little-endian.

pub mod keys;
mod layout;
pub(crate) mod value;

use std::borrow::Cow;

use base::limits::ROW_LEN_MAX;
use base::{SqlError, SqlResult, SqlState};
use types::Datum;

use layout::Place;
pub use layout::RowLayout;

use crate::catalog::Table;

/// Bit of the column count: ends of variable columns take four bytes, not two.
const WIDE: u16 = 0x8000;

/// Appends `row`, one value for each column of `table` in attribute order (dropped columns are stored as NULL).
///
/// Errors: 54000 where the row is longer than [`ROW_LEN_MAX`]. Panics if a value is not of its column's type.
pub fn encode_row(table: &Table, row: &[Datum], out: &mut Vec<u8>) -> SqlResult<()> {
    assert_eq!(row.len(), table.columns.len(), "a row has one value for each column of {}", table.name);
    let layout = &table.layout;
    let stored = row.len();
    let start = out.len();
    out.extend_from_slice(&u16::try_from(stored).expect("at most 1600 columns").to_le_bytes());
    let nulls_at = out.len();
    let fixed_at = nulls_at + stored.div_ceil(8);
    let ends_at = fixed_at + layout.fixed_len(stored);
    let variable = layout.variable_count(stored);
    let data_at = ends_at + 2 * variable;
    out.resize(data_at, 0);
    let mut ends: smallvec::SmallVec<[u32; 32]> = smallvec::SmallVec::with_capacity(variable);
    for (i, (datum, column)) in row.iter().zip(&table.columns).enumerate() {
        let null = datum.is_null() || column.dropped;
        if null {
            out[nulls_at + i / 8] |= 1 << (i % 8);
        }
        match layout.place(i) {
            Place::Fixed { offset, width } if !null => {
                let at = fixed_at + usize::from(offset);
                value::write_fixed(datum, &mut out[at..at + usize::from(width)]);
            }
            Place::Fixed { .. } => {}
            Place::Variable { .. } => {
                if !null {
                    value::write_variable(datum, out);
                }
                let end = out.len() - data_at;
                if end as u64 > ROW_LEN_MAX.0 {
                    return Err(row_too_long(end));
                }
                ends.push(end as u32);
            }
        }
    }
    if ends.last().is_none_or(|end| *end <= u32::from(u16::MAX)) {
        for (i, end) in ends.iter().enumerate() {
            out[ends_at + 2 * i..ends_at + 2 * i + 2].copy_from_slice(&(*end as u16).to_le_bytes());
        }
    } else {
        out[start + 1] |= (WIDE >> 8) as u8;
        let bytes: Vec<u8> = ends.iter().flat_map(|end| end.to_le_bytes()).collect();
        out.splice(ends_at..data_at, bytes);
    }
    Ok(())
}

/// A stored row, seen through its table's definition.
#[derive(Clone, Debug)]
pub struct RowRef<'a> {
    table: &'a Table,
    key: Cow<'a, [u8]>,
    bytes: Cow<'a, [u8]>,
}

impl<'a> RowRef<'a> {
    pub(crate) fn new(table: &'a Table, key: Cow<'a, [u8]>, bytes: Cow<'a, [u8]>) -> RowRef<'a> {
        RowRef { table, key, bytes }
    }

    /// The row's key in its table's tree; what `lock_row`, `update` and `delete` take.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// The encoded row.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The value of column `i`. Errors: XX001 where the bytes are not a row of this table.
    #[inline]
    pub fn column(&self, i: usize) -> SqlResult<Datum> {
        read_column(self.table, &self.bytes, i)
    }

    /// Replaces `out` by the values of `columns`, in that order.
    pub fn columns_into(&self, columns: &[usize], out: &mut Vec<Datum>) -> SqlResult<()> {
        out.clear();
        for &i in columns {
            out.push(self.column(i)?);
        }
        Ok(())
    }

    /// All columns, dropped ones as NULL.
    pub fn to_row(&self) -> SqlResult<types::Row> {
        decode_row(self.table, &self.bytes)
    }
}

/// All columns of an encoded row, dropped ones as NULL.
pub(crate) fn decode_row(table: &Table, bytes: &[u8]) -> SqlResult<types::Row> {
    (0..table.columns.len()).map(|i| read_column(table, bytes, i)).collect()
}

/// One column of an encoded row.
#[inline]
pub(crate) fn read_column(table: &Table, bytes: &[u8], i: usize) -> SqlResult<Datum> {
    read_stored(table, bytes, i).ok_or_else(|| malformed(table))
}

fn read_stored(table: &Table, bytes: &[u8], i: usize) -> Option<Datum> {
    let column = &table.columns[i];
    if column.dropped {
        return Some(Datum::Null);
    }
    let count = u16::from_le_bytes(bytes.get(..2)?.try_into().ok()?);
    let stored = usize::from(count & !WIDE);
    if i >= stored {
        return Some(column.missing.as_deref().cloned().unwrap_or(Datum::Null));
    }
    if bytes.get(2 + i / 8)? & (1 << (i % 8)) != 0 {
        return Some(Datum::Null);
    }
    let layout = &table.layout;
    if stored > layout.len() {
        return None;
    }
    let fixed_at = 2 + stored.div_ceil(8);
    match layout.place(i) {
        Place::Fixed { offset, width } => {
            let at = fixed_at + usize::from(offset);
            value::read_fixed(column.ty, bytes.get(at..at + usize::from(width))?)
        }
        Place::Variable { index } => {
            let ends_at = fixed_at + layout.fixed_len(stored);
            let variable = layout.variable_count(stored);
            let (ends, data) = if count & WIDE == 0 {
                (Ends::Narrow(bytes.get(ends_at..)?), ends_at + 2 * variable)
            } else {
                (Ends::Wide(bytes.get(ends_at..)?), ends_at + 4 * variable)
            };
            let index = usize::from(index);
            let from = if index == 0 { 0 } else { ends.at(index - 1)? };
            let to = ends.at(index)?;
            value::read_variable(column.ty, bytes.get(data + from..data + to)?)
        }
    }
}

/// The ends of the variable-width columns, from their table's first byte on.
enum Ends<'a> {
    Narrow(&'a [u8]),
    Wide(&'a [u8]),
}

impl Ends<'_> {
    fn at(&self, i: usize) -> Option<usize> {
        match self {
            Ends::Narrow(b) => {
                Some(usize::from(u16::from_le_bytes(b.get(2 * i..2 * i + 2)?.try_into().ok()?)))
            }
            Ends::Wide(b) => Some(u32::from_le_bytes(b.get(4 * i..4 * i + 4)?.try_into().ok()?) as usize),
        }
    }
}

#[cold]
fn malformed(table: &Table) -> SqlError {
    SqlError::new(
        SqlState::DATA_CORRUPTED,
        format!("a stored row of table \"{}\" cannot be read", table.name),
    )
}

#[cold]
fn row_too_long(len: usize) -> SqlError {
    SqlError::new(
        SqlState::PROGRAM_LIMIT_EXCEEDED,
        format!("row is too big: size {len}, maximum size {}", ROW_LEN_MAX.0),
    )
}

#[cfg(test)]
mod tests;
