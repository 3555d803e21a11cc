//! Rows as they are stored, opened once and then read field by field: one row's columns, and one column of many rows.

use base::{SqlError, SqlResult, SqlState};
use types::{Datum, PgType};

use super::layout::Place;
use super::{WIDE, value};
use crate::catalog::Table;

/// The bytes of a row and where their parts begin. Borrows the row.
#[derive(Clone, Copy, Debug)]
pub struct StoredRow<'a> {
    pub(super) table: &'a Table,
    pub(super) bytes: &'a [u8],
    /// Columns the row has; its table may have got more since.
    stored: u16,
    wide: bool,
    pub(super) fixed_at: u32,
    pub(super) ends_at: u32,
    data_at: u32,
}

impl<'a> StoredRow<'a> {
    /// Errors: XX001 where the bytes are no row of `table`.
    #[inline]
    pub fn open(table: &'a Table, bytes: &'a [u8]) -> SqlResult<StoredRow<'a>> {
        StoredRow::find_parts(table, bytes).ok_or_else(|| malformed(table))
    }

    #[inline]
    fn find_parts(table: &'a Table, bytes: &'a [u8]) -> Option<StoredRow<'a>> {
        let layout = &table.layout;
        let count = u16::from_le_bytes(*bytes.first_chunk()?);
        let (stored, wide) = (count & !WIDE, count & WIDE != 0);
        let columns = usize::from(stored);
        if columns > layout.len() {
            return None;
        }
        let fixed_at = 2 + columns.div_ceil(8);
        let ends_at = fixed_at + layout.fixed_len(columns);
        let data_at = ends_at + if wide { 4 } else { 2 } * layout.variable_count(columns);
        if data_at > bytes.len() {
            return None;
        }
        let [fixed_at, ends_at, data_at] = [fixed_at as u32, ends_at as u32, data_at as u32];
        Some(StoredRow { table, bytes, stored, wide, fixed_at, ends_at, data_at })
    }

    /// The value of column `i`; NULL of a dropped one. Errors: XX001 where the bytes are no value of its type.
    #[inline]
    pub fn column(&self, i: usize) -> SqlResult<Datum> {
        let mut value = Datum::Null;
        self.column_into(i, &mut value).map(|()| value)
    }

    /// [`StoredRow::column`] in the place of what is in `out`; on an error that stays.
    #[inline]
    pub fn column_into(&self, i: usize, out: &mut Datum) -> SqlResult<()> {
        let of = self.table.layout.field(i);
        if of.is_dropped {
            *out = Datum::Null;
            return Ok(());
        }
        if !self.has(i) {
            *out = self.table.columns[i].missing.as_deref().cloned().unwrap_or(Datum::Null);
            return Ok(());
        }
        if self.is_null(i) {
            *out = Datum::Null;
            return Ok(());
        }
        self.field(of.place)
            .and_then(|bytes| match of.place {
                Place::Fixed { .. } => value::read_fixed_into(of.ty, bytes, out),
                Place::Variable { .. } => value::read_variable_into(of.ty, bytes, out),
            })
            .ok_or_else(|| malformed(self.table))
    }

    /// Whether it has all columns that its table has now, one at least.
    pub(super) fn is_whole(&self) -> bool {
        self.has(self.table.columns.len() - 1)
    }

    /// Whether the row was stored with column `i`.
    #[inline]
    fn has(&self, i: usize) -> bool {
        i < usize::from(self.stored)
    }

    /// Whether column `i`, which the row has, is NULL.
    #[inline]
    fn is_null(&self, i: usize) -> bool {
        debug_assert!(self.has(i));
        self.bytes[2 + i / 8] & (1 << (i % 8)) != 0
    }

    /// The bytes at `place`, of a column that the row has and that is not NULL; `None` where they end early.
    #[inline]
    pub(super) fn field(&self, place: Place) -> Option<&'a [u8]> {
        match place {
            Place::Fixed { offset, width } => {
                let at = self.fixed_at as usize + usize::from(offset);
                self.bytes.get(at..at + usize::from(width))
            }
            Place::Variable { index } => {
                let index = usize::from(index);
                let from = if index == 0 { 0 } else { self.end(index - 1)? };
                let to = self.end(index)?;
                self.bytes[self.data_at as usize..].get(from..to)
            }
        }
    }

    /// Where the `index`th variable field ends, counted from the start of the variable part.
    #[inline]
    fn end(&self, index: usize) -> Option<usize> {
        let ends = &self.bytes[self.ends_at as usize..self.data_at as usize];
        Some(if self.wide {
            u32::from_le_bytes(ends.get(4 * index..4 * index + 4)?.try_into().ok()?) as usize
        } else {
            usize::from(u16::from_le_bytes(ends.get(2 * index..2 * index + 2)?.try_into().ok()?))
        })
    }
}

/// Calls `each` with the stored bytes of column `i` of every row, in order; with `None` for NULL. [`read_value`] makes them a
/// value. All rows are of one table, and the column is not a dropped one.
///
/// Errors: XX001 where a row's bytes end early or `each` finds its bytes to be no value (`None`); else what `each` says.
#[inline]
pub fn for_each_field(
    rows: &[StoredRow<'_>],
    i: usize,
    mut each: impl FnMut(Option<&[u8]>) -> Option<SqlResult<()>>,
) -> SqlResult<()> {
    let Some(table) = rows.first().map(|row| row.table) else { return Ok(()) };
    let column = &table.columns[i];
    debug_assert!(!column.dropped && rows.iter().all(|row| std::ptr::eq(row.table, table)));
    let place = table.layout.place(i);
    // What rows stored before the column was added have, as bytes like the others'.
    let mut missing = None;
    if let Some(value) = column.missing.as_deref().filter(|value| !value.is_null()) {
        missing = Some(value::to_bytes(value, column.ty));
    }
    for row in rows {
        let taken = match row.has(i) {
            false => each(missing.as_deref()),
            true if row.is_null(i) => each(None),
            true => row.field(place).and_then(|bytes| each(Some(bytes))),
        };
        taken.unwrap_or_else(|| Err(malformed(table)))?;
    }
    Ok(())
}

/// The value of type `ty` that a field's bytes are; `None` where they are none.
#[inline]
pub fn read_value(ty: PgType, bytes: &[u8]) -> Option<Datum> {
    if value::fixed_width(ty).is_some() {
        value::read_fixed(ty, bytes)
    } else {
        value::read_variable(ty, bytes)
    }
}

/// The numeric that a field's bytes are; `None` where they are none.
#[inline]
pub fn read_numeric(bytes: &[u8]) -> Option<types::Numeric> {
    value::read_numeric(bytes)
}

#[cold]
pub(super) fn malformed(table: &Table) -> SqlError {
    SqlError::new(
        SqlState::DATA_CORRUPTED,
        format!("a stored row of table \"{}\" cannot be read", table.name),
    )
}
