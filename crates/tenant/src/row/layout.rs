//! Where each column of a table stands in its rows.

use types::PgType;

use super::value;
use crate::catalog::Column;

/// Where a column's bytes are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// In the fixed part.
    Fixed { offset: u16, width: u8 },
    /// The `index`th of the variable part.
    Variable { index: u16 },
}

/// What is looked at of a column for each value that is read: side by side, where the columns themselves take two cache lines each.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Field {
    pub(super) place: Place,
    pub(super) ty: PgType,
    pub(super) is_dropped: bool,
    /// Length of the fixed part of a row that ends with this column.
    fixed_end: u16,
    /// Variable-width columns of a row that ends with this column.
    variable_end: u16,
}

/// The places of a table's columns. Derived from the columns, dropped ones included.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct RowLayout {
    fields: Box<[Field]>,
}

// The widest fixed column has 16 bytes.
const _: () = assert!(base::limits::TABLE_COLUMNS_MAX * 16 <= u16::MAX as usize);

impl RowLayout {
    pub(crate) fn of(columns: &[Column]) -> RowLayout {
        let (mut fixed_end, mut variable_end) = (0, 0);
        let place_next = |column: &Column| {
            let place = match value::fixed_width(column.ty) {
                Some(width) => {
                    fixed_end += u16::from(width);
                    Place::Fixed { offset: fixed_end - u16::from(width), width }
                }
                None => {
                    variable_end += 1;
                    Place::Variable { index: variable_end - 1 }
                }
            };
            let (ty, is_dropped) = (column.ty, column.dropped);
            Field { place, ty, is_dropped, fixed_end, variable_end }
        };
        RowLayout { fields: columns.iter().map(place_next).collect() }
    }

    pub(super) fn len(&self) -> usize {
        self.fields.len()
    }

    #[inline]
    pub(super) fn field(&self, column: usize) -> &Field {
        &self.fields[column]
    }

    #[inline]
    pub(super) fn place(&self, column: usize) -> Place {
        self.fields[column].place
    }

    /// Length of the fixed part of a row with `stored` columns.
    #[inline]
    pub(super) fn fixed_len(&self, stored: usize) -> usize {
        if stored == 0 { 0 } else { usize::from(self.fields[stored - 1].fixed_end) }
    }

    /// Variable-width columns of a row with `stored` columns.
    #[inline]
    pub(super) fn variable_count(&self, stored: usize) -> usize {
        if stored == 0 { 0 } else { usize::from(self.fields[stored - 1].variable_end) }
    }
}
