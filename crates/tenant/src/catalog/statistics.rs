//! What ANALYZE found out about a table. Only a hint to planners: it may be old, and absent.

use types::Datum;

/// Statistics of one table.
#[derive(Clone, Debug, Default)]
pub struct TableStatistics {
    /// Rows when ANALYZE ran.
    pub rows: u64,
    /// By column position; a column added since has none.
    pub columns: Vec<Option<ColumnStatistics>>,
}

/// Statistics of one column.
#[derive(Clone, Debug)]
pub struct ColumnStatistics {
    /// Part of the rows that are NULL, 0 to 1.
    pub null_fraction: f64,
    /// Distinct values that are not NULL.
    pub distinct: f64,
    /// Mean stored width in bytes.
    pub width: u32,
    /// Smallest and largest value that is not NULL.
    pub bounds: Option<Box<(Datum, Datum)>>,
}
