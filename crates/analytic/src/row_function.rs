//! A bound expression as a function of Arrow arrays, evaluated a row at a time by the point path's evaluator, so that both
//! paths answer alike.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use base::{SqlError, SqlResult};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, BinaryBuilder, StringBuilder};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::common::utils::{normalize_float_zero, normalize_float_zero_scalar};
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility as Stability,
};
use sql::expr::{BoundExpr, EvalCtx, Volatility, eval};
use types::{Datum, PgType};

use crate::catalog::functions::CatalogFunction;
use crate::error::external;
use crate::lazily::may_fail;
use crate::shared::{Shared, eval_error};
use crate::value;

/// A plan keeps no constant of a function that takes more memory: each may be repeated for all rows of a batch.
const FOLDED_BYTES_MAX: usize = 8 << 10;

/// A constant of so many bytes is repeated, and counted, by the function itself.
const REPEATED_BYTES_MIN: usize = 4 << 10;

/// What is computed from a row of arguments.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Body {
    /// The columns of the expression are the arguments.
    Expr(BoundExpr),
    Catalog(CatalogFunction),
}

/// The function.
#[derive(Debug)]
pub(crate) struct RowFunction {
    name: String,
    body: Body,
    args: Vec<PgType>,
    result: PgType,
    arrow: DataType,
    signature: Signature,
    shared: Arc<Shared>,
}

impl RowFunction {
    /// `number` makes the name unique within the query.
    pub(crate) fn new(
        body: Body,
        args: Vec<PgType>,
        result: PgType,
        arrow: DataType,
        number: usize,
        shared: Arc<Shared>,
    ) -> RowFunction {
        let volatility = match &body {
            Body::Expr(expr) => match expr.volatility() {
                Volatility::Volatile => Stability::Volatile,
                Volatility::Stable => Stability::Stable,
                Volatility::Immutable => Stability::Immutable,
            },
            Body::Catalog(_) => Stability::Stable,
        };
        let name = match &body {
            Body::Expr(_) => format!("row{number}"),
            Body::Catalog(function) => format!("{}{number}", function.name()),
        };
        let signature = if args.is_empty() {
            Signature::nullary(volatility)
        } else {
            Signature::variadic_any(volatility)
        };
        RowFunction { name, body, args, result, arrow, signature, shared }
    }

    /// Whether it may fail for some arguments.
    pub(crate) fn may_fail(&self) -> bool {
        match &self.body {
            Body::Expr(body) => may_fail(body),
            Body::Catalog(_) => false,
        }
    }

    pub(crate) fn body(&self) -> &Body {
        &self.body
    }

    pub(crate) fn arg_types(&self) -> &[PgType] {
        &self.args
    }

    pub(crate) fn arrow(&self) -> &DataType {
        &self.arrow
    }

    fn eval_row(&self, row: &[Datum]) -> SqlResult<Datum> {
        match &self.body {
            Body::Expr(expr) => {
                let statement = self.shared.statement();
                eval(expr, &EvalCtx::new(&statement, row)).map_err(eval_error)
            }
            Body::Catalog(function) => function.call(row, &self.shared),
        }
    }

    fn eval_rows(&self, args: &[ArrayRef], rows: usize) -> SqlResult<ArrayRef> {
        let mut out = value::Column::new(self.result, &self.arrow, rows);
        let mut building = self.shared.built.begin();
        let mut row = vec![Datum::Null; args.len()];
        for i in 0..rows {
            if i % 1024 == 0 {
                self.shared.check_cancelled()?;
            }
            for (slot, (array, ty)) in row.iter_mut().zip(args.iter().zip(&self.args)) {
                *slot = value::datum(array, i, *ty)?;
            }
            let value = self.eval_row(&row)?;
            building.add(value.heap_bytes())?;
            out.push(&value)?;
        }
        let array = out.finish()?;
        building.finish(&array);
        Ok(array)
    }
}

impl PartialEq for RowFunction {
    fn eq(&self, other: &RowFunction) -> bool {
        self.name == other.name && self.body == other.body && Arc::ptr_eq(&self.shared, &other.shared)
    }
}
impl Eq for RowFunction {}
impl Hash for RowFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for RowFunction {
    fn name(&self) -> &str {
        &self.name
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.arrow.clone())
    }
    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let constant = args.args.iter().all(|a| matches!(a, ColumnarValue::Scalar(_)))
            && self.signature.volatility != Stability::Volatile;
        let rows = if constant { 1 } else { args.number_rows };
        let arrays = args.args.iter().map(|a| a.to_array(rows)).collect::<Result<Vec<_>>>()?;
        let result = self.eval_rows(&arrays, rows).map_err(external)?;
        if self.shared.is_planning() && result.get_array_memory_size() > FOLDED_BYTES_MAX {
            // A plan keeps its constants, and names columns by their texts. What cannot be worked out now is left for the run.
            return Err(external(SqlError::internal("a constant is too large for a plan")));
        }
        if !constant {
            return Ok(ColumnarValue::Array(result));
        }
        let scalar = ScalarValue::try_from_array(&result, 0)?;
        let bytes = scalar.size().saturating_mul(args.number_rows);
        if self.shared.is_planning() || scalar.size() < REPEATED_BYTES_MIN {
            return Ok(ColumnarValue::Scalar(scalar));
        }
        // Whoever wants an array of it would make one that nobody counts.
        let mut building = self.shared.built.begin();
        building.add(bytes).map_err(external)?;
        let array = scalar.to_array_of_size(args.number_rows)?;
        building.finish(&array);
        Ok(ColumnarValue::Array(array))
    }
}

/// The comparable part of a value: the key of an opaque one, a `char(n)` without its trailing blanks, the one zero of floats.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Strip {
    signature: Signature,
}

impl Strip {
    pub(crate) fn new() -> Strip {
        Strip { signature: Signature::any(1, Stability::Immutable) }
    }
}

/// A value itself, by a function that is equal to none but its own.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Apart {
    number: usize,
    signature: Signature,
}

impl Apart {
    pub(crate) fn new(number: usize) -> Apart {
        Apart { number, signature: Signature::any(1, Stability::Immutable) }
    }
}

impl ScalarUDFImpl for Apart {
    fn name(&self) -> &'static str {
        "apart"
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, args: &[DataType]) -> Result<DataType> {
        Ok(args[0].clone())
    }
    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(args.args[0].clone())
    }
}

/// The key of a jsonb.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct JsonKey {
    signature: Signature,
}

impl JsonKey {
    pub(crate) fn new() -> JsonKey {
        JsonKey { signature: Signature::any(1, Stability::Immutable) }
    }
}

impl ScalarUDFImpl for JsonKey {
    fn name(&self) -> &'static str {
        "comparable_json"
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Binary)
    }
    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (rows, is_scalar) = match &args.args[0] {
            ColumnarValue::Array(array) => (Arc::clone(array), false),
            ColumnarValue::Scalar(scalar) => (scalar.to_array()?, true),
        };
        let mut out = BinaryBuilder::with_capacity(rows.len(), rows.len() * 12);
        let mut key = Vec::new();
        // Nothing but NULLs may have no other type.
        let rows = datafusion::arrow::compute::cast(&rows, &DataType::Utf8)?;
        for text in rows.as_string::<i32>() {
            key.clear();
            if let Some(text) = text {
                types::json::write_key(text, &mut key);
            }
            out.append_option(text.map(|_| &key));
        }
        let keys: ArrayRef = Arc::new(out.finish());
        Ok(if is_scalar {
            ColumnarValue::Scalar(ScalarValue::try_from_array(&keys, 0)?)
        } else {
            ColumnarValue::Array(keys)
        })
    }
}

impl ScalarUDFImpl for Strip {
    fn name(&self) -> &'static str {
        "comparable"
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, args: &[DataType]) -> Result<DataType> {
        Ok(args[0].clone())
    }
    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(match &args.args[0] {
            ColumnarValue::Scalar(ScalarValue::Binary(v)) => {
                ColumnarValue::Scalar(ScalarValue::Binary(v.as_deref().map(|b| value::strip(b).to_vec())))
            }
            ColumnarValue::Scalar(ScalarValue::Utf8(v)) => ColumnarValue::Scalar(ScalarValue::Utf8(
                v.as_deref().map(|s| s.trim_end_matches(' ').to_owned()),
            )),
            ColumnarValue::Scalar(other) => ColumnarValue::Scalar(normalize_float_zero_scalar(other.clone())),
            ColumnarValue::Array(array) => ColumnarValue::Array(strip_array(array)),
        })
    }
}

fn strip_array(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Binary => {
            let mut out = BinaryBuilder::with_capacity(array.len(), array.len() * 12);
            for v in array.as_binary::<i32>() {
                out.append_option(v.map(value::strip));
            }
            Arc::new(out.finish())
        }
        DataType::Utf8 => {
            let mut out = StringBuilder::with_capacity(array.len(), array.len() * 12);
            for v in array.as_string::<i32>() {
                out.append_option(v.map(|s| s.trim_end_matches(' ')));
            }
            Arc::new(out.finish())
        }
        _ => normalize_float_zero(array),
    }
}
