//! Arithmetic on Arrow arrays that fails as PostgreSQL's does: 22003 out of range, 22012 division by zero.

use std::sync::Arc;

use base::{SqlError, SqlState};
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Datum as ArrowDatum, Float32Array, Float64Array, Scalar,
};
use datafusion::arrow::compute::kernels::numeric;
use datafusion::arrow::datatypes::{DataType, Float32Type, Float64Type};
use datafusion::arrow::error::ArrowError;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};

use crate::error::external;
use crate::value;

/// The operators.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Op {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
}

impl Op {
    pub(crate) fn from_symbol(symbol: &str) -> Option<Op> {
        Some(match symbol {
            "+" => Op::Add,
            "-" => Op::Sub,
            "*" => Op::Mul,
            "/" => Op::Div,
            "%" => Op::Rem,
            _ => return None,
        })
    }

    fn kernel(self, a: &dyn ArrowDatum, b: &dyn ArrowDatum) -> std::result::Result<ArrayRef, ArrowError> {
        match self {
            Op::Add => numeric::add(a, b),
            Op::Sub => numeric::sub(a, b),
            Op::Mul => numeric::mul(a, b),
            Op::Div => numeric::div(a, b),
            Op::Rem => numeric::rem(a, b),
        }
    }
}

/// `left op right` of one Arrow type (decimals may differ in precision and scale).
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Arithmetic {
    op: Op,
    result: DataType,
    signature: Signature,
}

impl Arithmetic {
    pub(crate) fn new(op: Op, result: DataType) -> Arithmetic {
        Arithmetic { op, result, signature: Signature::any(2, Volatility::Immutable) }
    }

    fn out_of_range(&self) -> SqlError {
        let what = match self.result {
            DataType::Int16 => "smallint out of range",
            DataType::Int32 => "integer out of range",
            DataType::Int64 => "bigint out of range",
            DataType::Decimal128(..) => "numeric field overflow",
            _ => "value out of range: overflow",
        };
        SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, what)
    }

    fn check_floats(&self, a: &ArrayRef, b: &ArrayRef, result: &ArrayRef) -> Result<()> {
        let (a_rows, b_rows) = (a.len(), b.len());
        macro_rules! check {
            ($array:ty, $ty:ty) => {{
                let (a, b) = (a.as_primitive::<$ty>(), b.as_primitive::<$ty>());
                let r: &$array = result.as_primitive::<$ty>();
                for i in 0..r.len() {
                    if r.is_null(i) {
                        continue;
                    }
                    let (x, y) =
                        (a.value(if a_rows == 1 { 0 } else { i }), b.value(if b_rows == 1 { 0 } else { i }));
                    if matches!(self.op, Op::Div | Op::Rem) && y == 0.0 && !x.is_nan() {
                        return Err(external(SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero")));
                    }
                    if r.value(i).is_infinite() && x.is_finite() && y.is_finite() {
                        return Err(external(self.out_of_range()));
                    }
                    let vanishes = match self.op {
                        Op::Mul => y != 0.0,
                        Op::Div => !y.is_infinite(),
                        _ => false,
                    };
                    if vanishes && r.value(i) == 0.0 && x != 0.0 {
                        return Err(external(types::arith::float_underflow()));
                    }
                }
            }};
        }
        match self.result {
            DataType::Float32 => check!(Float32Array, Float32Type),
            DataType::Float64 => check!(Float64Array, Float64Type),
            _ => {}
        }
        Ok(())
    }
}

impl Arithmetic {
    /// Whether it fails for a zero.
    pub(crate) fn divides(&self) -> bool {
        matches!(self.op, Op::Div | Op::Rem)
    }
}

impl ScalarUDFImpl for Arithmetic {
    fn name(&self) -> &str {
        match self.op {
            Op::Add => "checked_add",
            Op::Sub => "checked_sub",
            Op::Mul => "checked_mul",
            Op::Div => "checked_div",
            Op::Rem => "checked_rem",
        }
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.result.clone())
    }
    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let both_scalar = args.args.iter().all(|a| matches!(a, ColumnarValue::Scalar(_)));
        let side = |value: &ColumnarValue| -> Result<(ArrayRef, bool)> {
            Ok(match value {
                ColumnarValue::Array(array) => (Arc::clone(array), false),
                ColumnarValue::Scalar(scalar) => (scalar.to_array()?, true),
            })
        };
        let (a, a_scalar) = side(&args.args[0])?;
        let (b, b_scalar) = side(&args.args[1])?;
        let left: Box<dyn ArrowDatum> =
            if a_scalar { Box::new(Scalar::new(Arc::clone(&a))) } else { Box::new(Arc::clone(&a)) };
        let right: Box<dyn ArrowDatum> =
            if b_scalar { Box::new(Scalar::new(Arc::clone(&b))) } else { Box::new(Arc::clone(&b)) };
        let result = self.op.kernel(left.as_ref(), right.as_ref()).map_err(|e| match e {
            ArrowError::DivideByZero => {
                external(SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero"))
            }
            ArrowError::ArithmeticOverflow(_) => external(self.out_of_range()),
            other => other.into(),
        })?;
        self.check_floats(&a, &b, &result)?;
        let result = value::with_one_nan(result);
        let result = if *result.data_type() == self.result {
            result
        } else {
            datafusion::arrow::compute::cast(&result, &self.result)?
        };
        if both_scalar {
            ScalarValue::try_from_array(&result, 0).map(ColumnarValue::Scalar)
        } else {
            Ok(ColumnarValue::Array(result))
        }
    }
}
