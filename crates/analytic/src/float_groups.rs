//! sum, avg, min and max of floating point by group, with PostgreSQL's NaN, infinities and overflow.
//!
//! The states are those of the point path's accumulators ([`sql::expr::Accumulator::parts`]), so that either takes what the
//! other made.

use std::sync::Arc;

use base::SqlResult;
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Float32Array, Float64Array, Int64Array,
};
use datafusion::arrow::datatypes::{DataType, Float32Type, Float64Type, Int64Type};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};
use sql::expr::{AggregateCall, AggregateKind};
use types::PgType;

use crate::error::external;

/// Whether [`FloatGroups`] computes `call`.
pub(crate) fn computes(call: &AggregateCall) -> bool {
    use AggregateKind as K;
    let is_float = |ty| matches!(ty, PgType::Float4 | PgType::Float8);
    matches!(call.kind, K::Sum | K::Avg | K::Min | K::Max)
        && call.args.first().is_some_and(|arg| is_float(arg.ty))
        && is_float(call.ty)
}

/// A sum or an extreme for each group, kept in double precision, which holds each value of the narrower type.
pub(crate) struct FloatGroups {
    kind: AggregateKind,
    /// The type of the result.
    ty: PgType,
    values: Vec<f64>,
    /// Of the values that each group has taken; one of 0 is NULL.
    counts: Vec<i64>,
}

impl FloatGroups {
    pub(crate) fn new(call: &AggregateCall) -> FloatGroups {
        FloatGroups { kind: call.kind, ty: call.ty, values: Vec::new(), counts: Vec::new() }
    }

    fn keeps_count(&self) -> bool {
        matches!(self.kind, AggregateKind::Sum | AggregateKind::Avg)
    }

    /// Takes `value`, which stands for `count` of them.
    fn add(&mut self, group: usize, value: f64, count: i64) -> SqlResult<()> {
        let known = &mut self.values[group];
        let is_first = self.counts[group] == 0;
        self.counts[group] += count;
        match self.kind {
            _ if is_first => *known = value,
            AggregateKind::Min if less(value, *known) => *known = value,
            AggregateKind::Max if less(*known, value) => *known = value,
            AggregateKind::Min | AggregateKind::Max => {}
            _ => {
                let sum = if self.ty == PgType::Float4 {
                    f64::from(*known as f32 + value as f32)
                } else {
                    *known + value
                };
                if sum.is_infinite() && known.is_finite() && value.is_finite() {
                    return Err(types::arith::float_overflow());
                }
                *known = sum;
            }
        }
        Ok(())
    }

    fn resize(&mut self, groups: usize) {
        self.values.resize(groups, 0.0);
        self.counts.resize(groups, 0);
    }

    /// An array of type `ty`, NULL where a group has taken nothing.
    fn array(ty: PgType, values: Vec<f64>, counts: &[i64]) -> ArrayRef {
        let values = values.into_iter().zip(counts).map(|(value, count)| (*count > 0).then_some(value));
        match ty {
            PgType::Float4 => Arc::new(values.map(|value| value.map(|v| v as f32)).collect::<Float32Array>()),
            _ => Arc::new(values.collect::<Float64Array>()),
        }
    }

    fn emit_state(&self, values: Vec<f64>, counts: Vec<i64>) -> Vec<ArrayRef> {
        if self.keeps_count() {
            return vec![Arc::new(Float64Array::from(values)), Arc::new(Int64Array::from(counts))];
        }
        vec![FloatGroups::array(self.ty, values, &counts)]
    }
}

/// PostgreSQL's order: NaN is greatest, whatever its sign.
fn less(a: f64, b: f64) -> bool {
    a < b || b.is_nan() && !a.is_nan()
}

/// Calls `f` with each value of an array of floats that is not NULL, and its row.
///
/// # Errors
/// Those of `f`; XX000 for an array of something else.
pub(crate) fn for_each_float(array: &ArrayRef, mut f: impl FnMut(usize, f64) -> SqlResult<()>) -> Result<()> {
    macro_rules! each {
        ($ty:ty) => {
            for (row, value) in array.as_primitive::<$ty>().iter().enumerate() {
                if let Some(value) = value {
                    f(row, f64::from(value)).map_err(external)?;
                }
            }
        };
    }
    match array.data_type() {
        DataType::Float32 => each!(Float32Type),
        DataType::Float64 => each!(Float64Type),
        other => return Err(DataFusionError::Internal(format!("{other} is no floating point"))),
    }
    Ok(())
}

impl GroupsAccumulator for FloatGroups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        opt_filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        self.resize(total_num_groups);
        for_each_float(&values[0], |row, value| match opt_filter {
            Some(filter) if filter.is_null(row) || !filter.value(row) => Ok(()),
            _ => self.add(group_indices[row], value, 1),
        })
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let mut values = emit_to.take_needed(&mut self.values);
        let counts = emit_to.take_needed(&mut self.counts);
        if self.kind == AggregateKind::Avg {
            values.iter_mut().zip(&counts).for_each(|(value, count)| *value /= *count as f64);
        }
        Ok(FloatGroups::array(self.ty, values, &counts))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let values = emit_to.take_needed(&mut self.values);
        let counts = emit_to.take_needed(&mut self.counts);
        Ok(self.emit_state(values, counts))
    }

    fn merge_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        total_num_groups: usize,
    ) -> Result<()> {
        if !self.keeps_count() {
            return self.update_batch(values, group_indices, None, total_num_groups);
        }
        self.resize(total_num_groups);
        let counts = values[1].as_primitive::<Int64Type>();
        for_each_float(&values[0], |row, value| match counts.value(row) {
            0 => Ok(()),
            count => self.add(group_indices[row], value, count),
        })
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        opt_filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let rows: Vec<usize> = (0..values[0].len()).collect();
        let mut each = FloatGroups { values: Vec::new(), counts: Vec::new(), ..*self };
        each.update_batch(values, &rows, opt_filter, rows.len())?;
        each.state(EmitTo::All)
    }

    fn size(&self) -> usize {
        self.values.capacity() * size_of::<f64>() + self.counts.capacity() * size_of::<i64>()
    }
}
