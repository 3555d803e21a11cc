//! Storing a row with new values in some of its columns: the rest of it is copied as it is.

use base::SqlResult;
use base::limits::ROW_LEN_MAX;
use smallvec::SmallVec;
use types::Datum;

use super::layout::Place;
use super::stored::{StoredRow, malformed};
use super::{WIDE, decode_row, encode_row, finish_row, row_too_long, value};
use crate::catalog::Table;

/// The row `old` with new values in these columns, each named once and none of them dropped.
///
/// Errors: XX001 where `old` is no row of `table`, 54000 where the new row is too long. Panics if a value is not of its column's type.
pub(crate) fn encode_in_part(table: &Table, old: &[u8], changed: &[(usize, &Datum)]) -> SqlResult<Vec<u8>> {
    let row = StoredRow::open(table, old)?;
    if row.is_whole() {
        return copy_in_part(&row, changed);
    }
    let mut values = decode_row(table, old)?;
    for (column, datum) in changed {
        values[*column] = (*datum).clone();
    }
    let mut bytes = Vec::with_capacity(old.len() + 16);
    encode_row(table, &values, &mut bytes)?;
    Ok(bytes)
}

fn copy_in_part(row: &StoredRow<'_>, changed: &[(usize, &Datum)]) -> SqlResult<Vec<u8>> {
    let (layout, ends_at) = (&row.table.layout, row.ends_at as usize);
    let mut bytes = Vec::with_capacity(row.bytes.len());
    bytes.extend_from_slice(&row.bytes[..ends_at]);
    let mut variable: SmallVec<[(u16, &Datum); 4]> = SmallVec::new();
    for &(column, datum) in changed {
        let bit = 1u8 << (column % 8);
        if datum.is_null() {
            bytes[2 + column / 8] |= bit;
        } else {
            bytes[2 + column / 8] &= !bit;
        }
        match layout.place(column) {
            Place::Fixed { offset, width } => {
                let at = row.fixed_at as usize + usize::from(offset);
                let field = &mut bytes[at..at + usize::from(width)];
                if datum.is_null() { field.fill(0) } else { value::write_fixed(datum, field) }
            }
            Place::Variable { index } => variable.push((index, datum)),
        }
    }
    if variable.is_empty() {
        bytes.extend_from_slice(&row.bytes[ends_at..]);
        return Ok(bytes);
    }
    variable.sort_unstable_by_key(|(index, _)| *index);
    let mut variable = variable.into_iter().peekable();
    bytes[1] &= !((WIDE >> 8) as u8);
    let count = layout.variable_count(row.table.columns.len());
    let data_at = ends_at + 2 * count;
    bytes.resize(data_at, 0);
    let mut ends: SmallVec<[u32; 32]> = SmallVec::with_capacity(count);
    for index in 0..u16::try_from(count).expect("at most 1600 columns") {
        match variable.next_if(|(changed, _)| *changed == index) {
            Some((_, datum)) if datum.is_null() => {}
            Some((_, datum)) => value::write_variable(datum, &mut bytes),
            None => {
                let field = row.field(Place::Variable { index }).ok_or_else(|| malformed(row.table))?;
                bytes.extend_from_slice(field);
            }
        }
        let end = bytes.len() - data_at;
        if end as u64 > ROW_LEN_MAX.0 {
            return Err(row_too_long(end));
        }
        ends.push(end as u32);
    }
    finish_row(&mut bytes, 0, ends_at..data_at, &ends)?;
    Ok(bytes)
}
