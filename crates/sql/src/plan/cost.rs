//! Estimates: how many rows a path looks at. Deliberately simple; the executor stops what outgrows its estimate.
//!
//! Without statistics, an index of `n` columns (one more if it is not unique) spreads a table's `r` rows evenly over its
//! columns, so that `k` fixed columns leave `r^((n - k) / n)` rows: 300,000 order lines with a key of four columns, two of
//! them given, are estimated at 548 rows. A range on the next column counts as half a column, an open one as a quarter.
//! ANALYZE's distinct counts replace the guess for the columns that have them.
//!
//! None of this knows the values that a statement is run with. A query that would be too much for the point path because of a range or of a skewed value is
//! planned once more as if there were few such rows, and when it is run the index is asked how many there are.

use tenant::catalog::{Index, Table};
use types::Datum;

use super::binder::Binder;
use super::point_plan::KeyPart;
use crate::expr::{BoundExpr, ExprKind};

/// Rows a query may be expected to look at on the point path. At some 200 ns a row it is a millisecond, which is what
/// the analytical path costs before its first row.
pub const POINT_ROWS_MAX: f64 = 5_000.0;

/// Rows assumed for a LIMIT that is a parameter.
const LIMIT_UNKNOWN: f64 = 50.0;
/// Rows a table is taken to have at least when paths are compared, so that plans made over an empty table stay good.
const TABLE_ROWS_MIN: f64 = 1_000.0;
/// Part of the rows that a range with one end is taken to leave, as PostgreSQL does without a histogram.
const OPEN_RANGE: f64 = 0.33;
/// Part that a range with two ends leaves: who writes both means few rows (PostgreSQL says 0.005).
const CLOSED_RANGE: f64 = 0.01;
/// Elements assumed in an array parameter.
pub(super) const ARRAY_ITEMS: f64 = 10.0;

/// Rows that LIMIT and OFFSET let be read; `None` without LIMIT.
pub(super) fn limit_estimate(limit: Option<&BoundExpr>, offset: Option<&BoundExpr>) -> Option<f64> {
    let value = |expr: &BoundExpr, unknown: f64| match expr.as_const().and_then(Datum::as_i64) {
        Some(n) => n.max(0) as f64,
        None => unknown,
    };
    let limit = value(limit?, LIMIT_UNKNOWN);
    Some(limit + offset.map_or(0.0, |offset| value(offset, 0.0)))
}

/// How a conjunct that no path consumed thins rows out.
pub(super) fn selectivity(condition: &BoundExpr) -> f64 {
    match &condition.kind {
        ExprKind::Compare { op: crate::expr::CompareOp::Eq, .. } => 0.1,
        ExprKind::Const(Datum::Bool(true)) => 1.0,
        _ => 0.33,
    }
}

impl Binder<'_> {
    /// Rows of a table, as paths are compared by.
    pub(super) fn table_rows(&self, table: &Table) -> f64 {
        (self.ctx.rows.rows(table.oid) as f64).max(TABLE_ROWS_MIN)
    }

    /// Rows of a table as they are.
    pub(super) fn table_rows_now(&self, table: &Table) -> f64 {
        (self.ctx.rows.rows(table.oid) as f64).max(1.0)
    }

    /// Rows of an index whose first columns are given and whose next one has a range closed at `ends` ends.
    pub(super) fn index_rows(&self, table: &Table, index: &Index, parts: &[KeyPart], ends: usize) -> f64 {
        let rows = self.table_rows(table);
        let (width, fixed) = (index.columns.len(), parts.len());
        // Of rows with a NULL there may be many in a unique index.
        let unique = index.unique && !parts.iter().any(|part| matches!(part, KeyPart::Null));
        if fixed >= width && unique {
            return 1.0;
        }
        let spread = if unique { width } else { width + 1 } as f64;
        let mut guess = rows.powf(((spread - fixed as f64 - ends as f64 * 0.25) / spread).max(0.0));
        if let Some(statistics) = self.ctx.catalog.statistics(table.oid) {
            let mut known = rows;
            let mut all_known = fixed > 0;
            for (column, part) in index.column_positions().zip(parts) {
                match statistics.columns.get(column).and_then(Option::as_ref) {
                    Some(column) if matches!(part, KeyPart::Null) => known *= column.null_fraction,
                    Some(column) if column.distinct >= 1.0 => known /= column.distinct,
                    _ => all_known = false,
                }
            }
            if all_known {
                guess = known.max(1.0)
                    * match ends {
                        0 => 1.0,
                        1 => OPEN_RANGE,
                        _ => CLOSED_RANGE,
                    };
            }
        }
        // The root keeps the paths' order.
        if self.hopeful { guess.max(1.0).sqrt() } else { guess.max(1.0) }
    }

    /// What the subqueries in `expr` cost: once for the statement, and once for each row.
    pub(super) fn subquery_costs(&self, expr: &BoundExpr) -> (f64, f64) {
        let (mut once, mut each) = (0.0, 0.0);
        expr.walk(&mut |node| {
            if let ExprKind::Subquery(subquery) = &node.kind {
                let (cost, is_keyed) =
                    self.with_subquery(subquery.id, |plan| (plan.cost, plan.keyed.is_some()));
                match (subquery.correlated, is_keyed) {
                    (false, _) => once += cost,
                    (true, false) => each += cost,
                    (true, true) => (once, each) = (once + cost, each + 1.0),
                }
            }
            true
        });
        (once, each)
    }
}
