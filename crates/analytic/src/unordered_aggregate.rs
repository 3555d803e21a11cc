//! Aggregates over windows, of whose order nothing is told.
//!
//! DataFusion says of `count`, `min` and `max` that they only grow, or only fall, while a frame takes rows in, and takes their values for sorted. They are not where a frame lets rows go, or
//! FILTER counts some only: `count(*) OVER (PARTITION BY k ORDER BY id ROWS 2 PRECEDING)` begins anew with each `k`. And an extreme is NULL before its first value, which ORDER BY has behind
//! all others. Whoever sorts, groups or joins by such a value would leave a sort out.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, ReversedUDAF, SetMonotonicity, Signature,
};

/// `function`, as one of a window.
pub(crate) fn unordered(function: Arc<AggregateUDF>, result: &DataType) -> Arc<AggregateUDF> {
    match function.inner().set_monotonicity(result) {
        SetMonotonicity::NotMonotonic => function,
        _ => Arc::new(AggregateUDF::from(Unordered(function))),
    }
}

/// Does what the other does, and tells nothing of the order of what comes of it.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Unordered(Arc<AggregateUDF>);

impl AggregateUDFImpl for Unordered {
    fn name(&self) -> &str {
        self.0.name()
    }
    fn signature(&self) -> &Signature {
        self.0.signature()
    }
    fn return_type(&self, args: &[DataType]) -> Result<DataType> {
        self.0.return_type(args)
    }
    fn return_field(&self, args: &[FieldRef]) -> Result<FieldRef> {
        self.0.return_field(args)
    }
    fn is_nullable(&self) -> bool {
        self.0.is_nullable()
    }
    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.0.accumulator(args)
    }
    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.0.state_fields(args)
    }
    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.0.create_sliding_accumulator(args)
    }
    fn reverse_expr(&self) -> ReversedUDAF {
        self.0.reverse_udf()
    }
    fn coerce_types(&self, args: &[DataType]) -> Result<Vec<DataType>> {
        self.0.coerce_types(args)
    }
    fn default_value(&self, result: &DataType) -> Result<ScalarValue> {
        self.0.default_value(result)
    }
}
