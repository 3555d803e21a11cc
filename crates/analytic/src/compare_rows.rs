//! What a value is to the rows of a subquery: `op ANY` and `op ALL`, IN and NOT IN among them, in three-valued logic.
//!
//! Values of a single column are sorted, so that each answer looks at a few of them. So are rows of several columns in which others are looked for (IN, NOT IN), where they are the same ones for
//! all who look; those with a NULL in them, and those of other comparisons, are looked at one by one.

use std::cmp::Ordering;

use base::SqlResult;
use datafusion::arrow::array::RecordBatch;
use sql::expr::{Collate, CompareOp};
use types::{CastContext, Datum, PgType, TypeMod};

use crate::shared::Shared;
use crate::value;

/// A comparison with one column of the subquery's rows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RowTest {
    pub(crate) op: CompareOp,
    pub(crate) collate: Collate,
    pub(crate) left: PgType,
    pub(crate) right: PgType,
    /// Conversion of the subquery's value before it is compared.
    pub(crate) cast: Option<(PgType, PgType)>,
}

impl RowTest {
    /// The value of its column in row `i`.
    fn right(&self, rows: &RecordBatch, column: usize, i: usize, shared: &Shared) -> SqlResult<Datum> {
        let right = value::datum(rows.column(column), i, self.right)?;
        let Some((from, to)) = self.cast else { return Ok(right) };
        types::cast(right, from, to, TypeMod::NONE, CastContext::Implicit, &shared.context.format)
    }

    fn compare(&self, a: &Datum, b: &Datum) -> Ordering {
        match (self.collate, a, b) {
            (Collate::Blanks, Datum::Text(a), Datum::Text(b)) => {
                a.trim_end_matches(' ').cmp(b.trim_end_matches(' '))
            }
            _ => types::compare(a, b),
        }
    }
}

/// Values of a single column.
pub(crate) struct SortedValues {
    test: RowTest,
    /// Those that are not NULL, ascending.
    values: Vec<Datum>,
    has_null: bool,
}

impl SortedValues {
    pub(crate) fn new(rows: &RecordBatch, test: &RowTest, shared: &Shared) -> SqlResult<SortedValues> {
        let mut values = Vec::with_capacity(rows.num_rows());
        for i in 0..rows.num_rows() {
            if i % ROWS_UNWATCHED_MAX == 0 {
                shared.check_cancelled()?;
            }
            let value = test.right(rows, 0, i, shared)?;
            if !value.is_null() {
                values.push(value);
            }
        }
        let has_null = values.len() < rows.num_rows();
        values.sort_unstable_by(|a, b| test.compare(a, b));
        Ok(SortedValues { test: test.clone(), values, has_null })
    }

    /// Bytes that it takes.
    pub(crate) fn size(&self) -> usize {
        let heap: usize = self.values.iter().map(Datum::heap_bytes).sum();
        self.values.capacity() * size_of::<Datum>() + heap
    }

    /// `left op ANY (values)`, or ALL.
    pub(crate) fn compare(&self, left: &Datum, all: bool) -> Option<bool> {
        if self.values.is_empty() && !self.has_null {
            return Some(all);
        }
        if left.is_null() {
            return None;
        }
        // One value decides: one for which it holds, or does not.
        if self.any(left, |ordering| self.test.op.holds(ordering) != all) {
            return Some(!all);
        }
        if self.has_null { None } else { Some(all) }
    }

    /// Whether `decides` says yes to the order of `left` and any of the values.
    fn any(&self, left: &Datum, decides: impl Fn(Ordering) -> bool) -> bool {
        let only_equal = decides(Ordering::Equal) && !decides(Ordering::Less) && !decides(Ordering::Greater);
        if only_equal {
            return self.values.binary_search_by(|value| self.test.compare(left, value).reverse()).is_ok();
        }
        // What is not asked for equal values alone is so of the least or of the greatest, if of any.
        let ends = self.values.first().into_iter().chain(self.values.last());
        ends.into_iter().any(|value| decides(self.test.compare(left, value)))
    }
}

/// Values that are looked at before anybody asks whether the query goes on.
const ROWS_UNWATCHED_MAX: usize = 1024;

/// Rows of several columns in which others are looked for.
pub(crate) struct SortedRows {
    /// Those without a NULL, ascending.
    whole: Vec<Vec<Datum>>,
    /// The numbers of those with one.
    others: Vec<usize>,
}

impl SortedRows {
    /// `None` where the tests do not ask for a row that is the same in all columns.
    pub(crate) fn new(
        rows: &RecordBatch,
        tests: &[RowTest],
        all: bool,
        shared: &Shared,
    ) -> SqlResult<Option<SortedRows>> {
        let op = if all { CompareOp::Ne } else { CompareOp::Eq };
        if tests.iter().any(|test| test.op != op) {
            return Ok(None);
        }
        let (mut whole, mut others) = (Vec::with_capacity(rows.num_rows()), Vec::new());
        for i in 0..rows.num_rows() {
            if i % ROWS_UNWATCHED_MAX == 0 {
                shared.check_cancelled()?;
            }
            let row = tests.iter().enumerate().map(|(k, test)| test.right(rows, k, i, shared));
            let row = row.collect::<SqlResult<Vec<Datum>>>()?;
            if row.iter().any(Datum::is_null) {
                others.push(i);
            } else {
                whole.push(row);
            }
        }
        whole.sort_unstable_by(|a, b| compare_columns(tests, a, b));
        Ok(Some(SortedRows { whole, others }))
    }

    /// Bytes that it takes.
    pub(crate) fn size(&self) -> usize {
        let row = |row: &Vec<Datum>| {
            let heap: usize = row.iter().map(Datum::heap_bytes).sum();
            size_of::<Vec<Datum>>() + row.capacity() * size_of::<Datum>() + heap
        };
        self.whole.iter().map(row).sum::<usize>() + self.others.capacity() * size_of::<usize>()
    }

    /// As [`compare_rows`] with the rows that these were made of.
    pub(crate) fn compare(
        &self,
        rows: &RecordBatch,
        left: &[Datum],
        tests: &[RowTest],
        all: bool,
        shared: &Shared,
    ) -> SqlResult<Option<bool>> {
        if left.iter().any(Datum::is_null) {
            return compare_rows(rows, left, tests, all, shared);
        }
        if self.whole.binary_search_by(|row| compare_columns(tests, row, left)).is_ok() {
            return Ok(Some(!all));
        }
        compare_some(rows, self.others.iter().copied(), left, tests, all, shared)
    }
}

/// How two rows stand by the first column in which they differ.
fn compare_columns(tests: &[RowTest], a: &[Datum], b: &[Datum]) -> Ordering {
    let mut columns = tests.iter().zip(a.iter().zip(b)).map(|(test, (a, b))| test.compare(a, b));
    columns.find(|by| by.is_ne()).unwrap_or(Ordering::Equal)
}

/// `left op ANY/ALL (rows)`, column by column.
pub(crate) fn compare_rows(
    rows: &RecordBatch,
    left: &[Datum],
    tests: &[RowTest],
    all: bool,
    shared: &Shared,
) -> SqlResult<Option<bool>> {
    compare_some(rows, 0..rows.num_rows(), left, tests, all, shared)
}

/// The same with those of the rows that have these numbers.
fn compare_some(
    rows: &RecordBatch,
    numbers: impl Iterator<Item = usize>,
    left: &[Datum],
    tests: &[RowTest],
    all: bool,
    shared: &Shared,
) -> SqlResult<Option<bool>> {
    let mut unknown = false;
    for (seen, i) in numbers.enumerate() {
        if seen % ROWS_UNWATCHED_MAX == 0 {
            shared.check_cancelled()?;
        }
        let any_column = tests[0].op == CompareOp::Ne;
        let mut row = Some(!any_column);
        for (k, test) in tests.iter().enumerate() {
            let right = test.right(rows, k, i, shared)?;
            let holds = if left[k].is_null() || right.is_null() {
                None
            } else {
                Some(test.op.holds(test.compare(&left[k], &right)))
            };
            row = if any_column { or(row, holds) } else { and(row, holds) };
        }
        match (row, all) {
            (Some(true), false) => return Ok(Some(true)),
            (Some(false), true) => return Ok(Some(false)),
            (None, _) => unknown = true,
            _ => {}
        }
    }
    Ok(if unknown { None } else { Some(all) })
}

fn and(a: Option<bool>, b: Option<bool>) -> Option<bool> {
    match (a, b) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    }
}

fn or(a: Option<bool>, b: Option<bool>) -> Option<bool> {
    match (a, b) {
        (Some(true), _) | (_, Some(true)) => Some(true),
        (Some(false), Some(false)) => Some(false),
        _ => None,
    }
}
