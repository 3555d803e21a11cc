//! How many of the rows that came out of window functions their frames still see.
//!
//! A frame of ROWS sees so many. What one of RANGE or GROUPS sees the order's values say: so the last row of each batch that came out is noted, and the batch is seen no more once
//! the frame of the row that came out last begins behind it. Whole batches: what is let go of within one is not counted for a moment longer.

use std::collections::VecDeque;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::common::ScalarValue;
use datafusion::common::utils::{evaluate_partition_ranges, get_row_at_idx};
use datafusion::error::Result;
use datafusion::logical_expr::{WindowFrameBound, WindowFrameUnits};
use datafusion::physical_expr::window::WindowExpr;
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr};

/// How far the frames of functions over one window look back.
#[derive(Clone, Debug, Default)]
pub(crate) struct LookBack {
    rows: usize,
    starts: Vec<Start>,
    /// Of the window: the keys of its partitions, and of its order.
    partition_by: Vec<PhysicalSortExpr>,
    order_by: Vec<PhysicalSortExpr>,
}

/// Where the frame of RANGE or GROUPS begins for a row.
#[derive(Clone, Debug)]
enum Start {
    /// Where the order's value is so far from the row's.
    Distance { most: ScalarValue, descending: bool },
    /// So many groups of equal rows before the row's own.
    Groups(u64),
}

impl LookBack {
    /// What `functions`, over one window, see; their values may be those of `rows` before, whatever their frames are.
    pub(crate) fn of(functions: &[Arc<dyn WindowExpr>], rows: usize) -> LookBack {
        let mut all = LookBack { rows, ..LookBack::default() };
        for function in functions {
            let frame = function.get_window_frame();
            match (frame.units, &frame.start_bound) {
                (WindowFrameUnits::Rows, WindowFrameBound::Preceding(ScalarValue::UInt64(Some(rows)))) => {
                    all.rows = all.rows.max(usize::try_from(*rows).unwrap_or(usize::MAX));
                }
                (
                    WindowFrameUnits::Groups,
                    WindowFrameBound::Preceding(ScalarValue::UInt64(Some(groups))),
                ) => {
                    all.starts.push(Start::Groups(*groups));
                }
                (WindowFrameUnits::Range, WindowFrameBound::Preceding(most)) if !most.is_null() => {
                    let descending = function.order_by().first().is_some_and(|key| key.options.descending);
                    all.starts.push(Start::Distance { most: most.clone(), descending });
                }
                (WindowFrameUnits::Range | WindowFrameUnits::Groups, WindowFrameBound::CurrentRow) => {
                    all.starts.push(Start::Groups(0));
                }
                // Of one that begins with the partition only the last rows are kept, and one that begins behind the row sees none before it.
                _ => {}
            }
        }
        if let (Some(first), false) = (functions.first(), all.starts.is_empty()) {
            let key = |expr: &Arc<dyn PhysicalExpr>| PhysicalSortExpr::new_default(Arc::clone(expr));
            all.partition_by = first.partition_by().iter().map(key).collect();
            all.order_by = first.order_by().to_vec();
        }
        all
    }
}

/// Rows that came out and are seen.
pub(crate) struct Seen {
    by: LookBack,
    /// Batches of them, first to last.
    batches: VecDeque<Batch>,
    /// The partition's and the order's values of the row that came out last, and its number among the groups of equal rows.
    last: Option<Vec<ScalarValue>>,
    group: u64,
}

/// A batch that came out, by its last row.
struct Batch {
    rows: usize,
    last: Vec<ScalarValue>,
    group: u64,
}

impl Seen {
    pub(crate) fn new(by: LookBack) -> Seen {
        Seen { by, batches: VecDeque::new(), last: None, group: 0 }
    }

    /// How many of the rows that came out are seen by those to come, `batch` being the last of them.
    pub(crate) fn behind(&mut self, batch: &RecordBatch) -> Result<usize> {
        if self.by.starts.is_empty() {
            return Ok(self.by.rows);
        }
        if batch.num_rows() > 0 {
            self.note(batch)?;
        }
        let seen = self.batches.iter().map(|batch| batch.rows).sum::<usize>();
        Ok(seen.max(self.by.rows))
    }

    fn note(&mut self, batch: &RecordBatch) -> Result<()> {
        let rows = batch.num_rows();
        let keys = self.by.partition_by.iter().chain(&self.by.order_by);
        let keys = keys.map(|key| key.evaluate_to_sort_column(batch)).collect::<Result<Vec<_>>>()?;
        let groups = evaluate_partition_ranges(rows, &keys)?.len() as u64;
        let keys: Vec<ArrayRef> = keys.into_iter().map(|key| key.values).collect();
        let goes_on = self.last == Some(get_row_at_idx(&keys, 0)?);
        self.group += groups - u64::from(goes_on);
        let last = get_row_at_idx(&keys, rows - 1)?;
        self.batches.push_back(Batch { rows, last: last.clone(), group: self.group });
        let is_seen = |batch: &Batch| self.by.sees(batch, &last, self.group);
        let passed = self.batches.iter().take_while(|batch| !is_seen(batch)).count();
        self.batches.drain(..passed);
        self.last = Some(last);
        Ok(())
    }
}

impl LookBack {
    /// Whether a frame of the row with the values `now`, of that group, or of one behind it, begins before the end of `batch`.
    fn sees(&self, batch: &Batch, now: &[ScalarValue], group: u64) -> bool {
        let partition = self.partition_by.len();
        if batch.last[..partition] != now[..partition] {
            return false;
        }
        self.starts.iter().any(|start| match start {
            Start::Groups(groups) => group - batch.group <= *groups,
            Start::Distance { most, descending } => {
                let (then, now) = (&batch.last[partition], &now[partition]);
                if then.is_null() || now.is_null() {
                    return then.is_null() == now.is_null();
                }
                let (low, high) = if *descending { (now, then) } else { (then, now) };
                !is_farther(low, high, most)
            }
        })
    }
}

/// Whether `high` is more than `most` above `low`; not for what cannot be told.
fn is_farther(low: &ScalarValue, high: &ScalarValue, most: &ScalarValue) -> bool {
    if let (
        ScalarValue::Float64(Some(low)),
        ScalarValue::Float64(Some(high)),
        ScalarValue::Float64(Some(most)),
    ) = (low, high, most)
    {
        return high - low > *most;
    }
    let whole = |value: &ScalarValue| match value {
        ScalarValue::Int16(Some(value)) => Some(i128::from(*value)),
        ScalarValue::Int32(Some(value)) => Some(i128::from(*value)),
        ScalarValue::Int64(Some(value)) => Some(i128::from(*value)),
        _ => None,
    };
    matches!((whole(low), whole(high), whole(most)), (Some(low), Some(high), Some(most)) if high - low > most)
}
