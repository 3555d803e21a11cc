//! Aggregates over frames that let rows go.
//!
//! Sums and counts of whole numbers take a row out again. All others keep the frame's rows and are made anew for each frame, as PostgreSQL does for
//! floating point, where what is taken out leaves its rounding, its NaN or its infinity behind.

use std::collections::VecDeque;
use std::fmt;

use base::{SqlError, SqlResult};
use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::Accumulator as Accumulate;
use sql::expr::Accumulator;
use types::Datum;

use crate::aggregate::RowAggregate;
use crate::error::external;
use crate::value;

/// Rows that are accumulated between two looks at whether the query goes on.
const ROWS_BETWEEN_LOOKS: usize = 1024;

pub(crate) struct SlidingAccumulator {
    aggregate: RowAggregate,
    /// Of the frame, where rows can be taken out; of no rows otherwise.
    state: Accumulator,
    /// The frame's rows, first to last, where they cannot.
    rows: VecDeque<Vec<Datum>>,
    held: usize,
    /// Rows accumulated since the last look.
    unseen: usize,
}

impl fmt::Debug for SlidingAccumulator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SlidingAccumulator")
    }
}

fn len(row: &[Datum]) -> usize {
    size_of::<Vec<Datum>>() + row.iter().map(|value| size_of::<Datum>() + value.heap_bytes()).sum::<usize>()
}

impl SlidingAccumulator {
    pub(crate) fn new(aggregate: RowAggregate) -> SlidingAccumulator {
        let state = aggregate.call.start();
        SlidingAccumulator { aggregate, state, rows: VecDeque::new(), held: 0, unseen: 0 }
    }

    fn look(&mut self, rows: usize) -> SqlResult<()> {
        self.unseen += rows;
        if self.unseen >= ROWS_BETWEEN_LOOKS {
            self.unseen = 0;
            self.aggregate.shared.check_cancelled()?;
        }
        Ok(())
    }

    fn add(&mut self, values: &[ArrayRef], row: usize) -> SqlResult<()> {
        self.look(1)?;
        let row = self.aggregate.arguments(values, row)?;
        if self.state.can_remove() {
            return self.state.add(&row);
        }
        self.held += len(&row);
        self.rows.push_back(row);
        Ok(())
    }

    fn remove(&mut self, values: &[ArrayRef], row: usize) -> SqlResult<()> {
        if self.state.can_remove() {
            self.state.remove(&self.aggregate.arguments(values, row)?);
        } else if let Some(row) = self.rows.pop_front() {
            self.held -= len(&row);
        }
        Ok(())
    }

    fn value(&mut self) -> SqlResult<ScalarValue> {
        let mut state = self.state.clone();
        for (i, row) in self.rows.iter().enumerate() {
            if i % ROWS_BETWEEN_LOOKS == 0 {
                self.aggregate.shared.check_cancelled()?;
            }
            state.add(row)?;
        }
        let value = value::scalar(&state.finish()?, self.aggregate.call.ty, &self.aggregate.arrow)?;
        self.aggregate.shared.count_given(value.size())?;
        Ok(value)
    }
}

impl Accumulate for SlidingAccumulator {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let rows = values.first().map_or(0, |v| v.len());
        (0..rows).try_for_each(|row| self.add(values, row)).map_err(external)
    }
    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let rows = values.first().map_or(0, |v| v.len());
        (0..rows).try_for_each(|row| self.remove(values, row)).map_err(external)
    }
    fn supports_retract_batch(&self) -> bool {
        true
    }
    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.value().map_err(external)
    }
    fn size(&self) -> usize {
        size_of::<SlidingAccumulator>() + self.state.heap_bytes() + self.held
    }
    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Err(external(SqlError::internal("a window has no aggregates in parts")))
    }
    fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
        Err(external(SqlError::internal("a window has no aggregates in parts")))
    }
}
