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

mod in_part;
pub mod keys;
mod layout;
mod stored;
pub(crate) mod value;

use std::borrow::Cow;
use std::ops::Range;

use base::limits::ROW_LEN_MAX;
use base::{SqlError, SqlResult, SqlState};
use types::Datum;

pub(crate) use in_part::encode_in_part;
use layout::Place;
pub use layout::RowLayout;
pub use stored::{StoredRow, for_each_field, read_numeric, read_value};

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
    finish_row(out, start, ends_at..data_at, &ends)
}

/// Writes the ends of the variable fields, for which there is room of two bytes each in `place`, into the row that begins at `start`.
///
/// Errors: 54000 where the row is longer than [`ROW_LEN_MAX`].
fn finish_row(out: &mut Vec<u8>, start: usize, place: Range<usize>, ends: &[u32]) -> SqlResult<()> {
    if ends.last().is_none_or(|end| *end <= u32::from(u16::MAX)) {
        for (room, end) in out[place].chunks_exact_mut(2).zip(ends) {
            room.copy_from_slice(&(*end as u16).to_le_bytes());
        }
    } else {
        out[start + 1] |= (WIDE >> 8) as u8;
        let bytes: Vec<u8> = ends.iter().flat_map(|end| end.to_le_bytes()).collect();
        out.splice(place, bytes);
    }
    let len = out.len() - start;
    if len as u64 > ROW_LEN_MAX.0 { Err(row_too_long(len)) } else { Ok(()) }
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

    /// The row opened, to read several columns of it. Errors: XX001 where the bytes are not a row of this table.
    #[inline]
    pub fn open(&self) -> SqlResult<StoredRow<'_>> {
        StoredRow::open(self.table, &self.bytes)
    }

    /// Replaces `out` by the values of `columns`, in that order.
    pub fn columns_into(&self, columns: &[usize], out: &mut Vec<Datum>) -> SqlResult<()> {
        let row = self.open()?;
        out.clear();
        out.resize(columns.len(), Datum::Null);
        for (&i, value) in columns.iter().zip(out) {
            row.column_into(i, value)?;
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
    let row = StoredRow::open(table, bytes)?;
    let mut values = vec![Datum::Null; table.columns.len()];
    for (i, value) in values.iter_mut().enumerate() {
        row.column_into(i, value)?;
    }
    Ok(values)
}

/// One column of an encoded row.
#[inline]
pub(crate) fn read_column(table: &Table, bytes: &[u8], i: usize) -> SqlResult<Datum> {
    StoredRow::open(table, bytes)?.column(i)
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
