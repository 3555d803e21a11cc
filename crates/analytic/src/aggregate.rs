//! Aggregates: DataFusion's own where they agree with PostgreSQL's, the point path's accumulators otherwise.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use base::{SqlError, SqlResult};
use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::functions_aggregate as native;
use datafusion::logical_expr::expr::{AggregateFunction, AggregateFunctionParams};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator as Accumulate, AggregateUDF, AggregateUDFImpl, Expr, Signature, Volatility,
};
use rustc_hash::FxHashSet;
use sql::expr::{Accumulator, AggregateCall, AggregateKind};
use types::{Datum, PgType, TypeMod};

use crate::error::external;
use crate::shared::Shared;
use crate::translate::{Typed, cast_to};
use crate::value;

/// An aggregate as DataFusion calls it: the function, its arguments, DISTINCT, and the type of its result.
pub(crate) struct PlannedAggregate {
    pub(crate) udaf: Arc<AggregateUDF>,
    pub(crate) args: Vec<Expr>,
    pub(crate) distinct: bool,
    pub(crate) arrow: DataType,
}

impl PlannedAggregate {
    pub(crate) fn expr(self, filter: Option<Expr>) -> Expr {
        let params = AggregateFunctionParams {
            args: self.args,
            distinct: self.distinct,
            filter: filter.map(Box::new),
            order_by: Vec::new(),
            null_treatment: None,
        };
        Expr::AggregateFunction(AggregateFunction { func: self.udaf, params })
    }
}

/// Chooses how `call` is computed. `args` are its translated arguments, `order` those of its ORDER BY; `key` makes an
/// expression comparable.
pub(crate) fn plan(
    call: &AggregateCall,
    args: Vec<Typed>,
    order: Vec<Typed>,
    key: &dyn Fn(&Typed) -> Expr,
    number: usize,
    shared: &Arc<Shared>,
) -> PlannedAggregate {
    let simple = |udaf: Arc<AggregateUDF>, args: Vec<Expr>, arrow: DataType| PlannedAggregate {
        udaf,
        args,
        distinct: call.distinct,
        arrow,
    };
    let first = args.first();
    match (call.kind, first) {
        (AggregateKind::CountRows, _) => {
            let one = Expr::Literal(ScalarValue::Int64(Some(1)), None);
            return PlannedAggregate {
                distinct: false,
                ..simple(native::count::count_udaf(), vec![one], DataType::Int64)
            };
        }
        (AggregateKind::Count, Some(arg)) => {
            return simple(native::count::count_udaf(), vec![key(arg)], DataType::Int64);
        }
        (AggregateKind::Min | AggregateKind::Max, Some(arg))
            if !matches!(arg.ty, PgType::Bool | PgType::Bpchar) =>
        {
            let udaf = if call.kind == AggregateKind::Min {
                native::min_max::min_udaf()
            } else {
                native::min_max::max_udaf()
            };
            let arrow = arg.arrow.clone();
            return PlannedAggregate { distinct: false, ..simple(udaf, vec![arg.expr.clone()], arrow) };
        }
        (AggregateKind::Sum, Some(arg)) if !call.distinct => match (&arg.arrow, arg.ty) {
            (DataType::Int16 | DataType::Int32, _) => {
                let expr = cast_to(arg.clone(), &DataType::Int64);
                return simple(native::sum::sum_udaf(), vec![expr], DataType::Int64);
            }
            (DataType::Int64, PgType::Int8) => {
                let expr = cast_to(arg.clone(), &DataType::Decimal128(19, 0));
                return simple(native::sum::sum_udaf(), vec![expr], DataType::Decimal128(29, 0));
            }
            (DataType::Decimal128(p, s), _) if *p <= 28 => {
                return simple(
                    native::sum::sum_udaf(),
                    vec![arg.expr.clone()],
                    DataType::Decimal128(p + 10, *s),
                );
            }
            (DataType::Float64, _) => {
                return simple(native::sum::sum_udaf(), vec![arg.expr.clone()], DataType::Float64);
            }
            _ => {}
        },
        (AggregateKind::Avg, Some(arg)) if !call.distinct && arg.arrow == DataType::Float64 => {
            return simple(native::average::avg_udaf(), vec![arg.expr.clone()], DataType::Float64);
        }
        _ => {}
    }
    let arrow = value::arrow_type(call.ty, TypeMod::NONE);
    let types = args.iter().chain(&order).map(|t| t.ty).collect();
    let exprs: Vec<Expr> = args.into_iter().chain(order).map(|t| t.expr).collect();
    let exprs = if exprs.is_empty() { vec![Expr::Literal(ScalarValue::Int64(Some(1)), None)] } else { exprs };
    let row = RowAggregate {
        name: format!("aggregate{number}"),
        call: call.clone(),
        types,
        arrow: arrow.clone(),
        signature: Signature::variadic_any(Volatility::Immutable),
        shared: Arc::clone(shared),
    };
    PlannedAggregate { udaf: Arc::new(AggregateUDF::from(row)), args: exprs, distinct: false, arrow }
}

/// An aggregate of the point path.
#[derive(Debug)]
struct RowAggregate {
    name: String,
    call: AggregateCall,
    /// Of the arguments, then of the ORDER BY.
    types: Vec<PgType>,
    arrow: DataType,
    signature: Signature,
    shared: Arc<Shared>,
}

impl PartialEq for RowAggregate {
    fn eq(&self, other: &RowAggregate) -> bool {
        self.name == other.name && self.call == other.call
    }
}
impl Eq for RowAggregate {}
impl Hash for RowAggregate {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl AggregateUDFImpl for RowAggregate {
    fn name(&self) -> &str {
        &self.name
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.arrow.clone())
    }
    fn accumulator(&self, _: AccumulatorArgs) -> Result<Box<dyn Accumulate>> {
        Ok(Box::new(RowAccumulator {
            state: self.call.start(),
            seen: FxHashSet::default(),
            rows: Vec::new(),
            call: self.call.clone(),
            types: self.types.clone(),
            arrow: self.arrow.clone(),
            held: 0,
            shared: Arc::clone(&self.shared),
        }))
    }
    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        Ok(vec![Arc::new(args.return_field.as_ref().clone().with_name(format!("{}[state]", args.name)))])
    }
}

struct RowAccumulator {
    state: Accumulator,
    /// Arguments taken so far, of a DISTINCT aggregate.
    seen: FxHashSet<Vec<u8>>,
    /// Rows waiting to be sorted, of one with ORDER BY.
    rows: Vec<Vec<Datum>>,
    call: AggregateCall,
    types: Vec<PgType>,
    arrow: DataType,
    held: usize,
    shared: Arc<Shared>,
}

impl fmt::Debug for RowAccumulator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RowAccumulator")
    }
}

impl RowAccumulator {
    fn take(&mut self, row: Vec<Datum>) -> SqlResult<()> {
        if self.call.distinct && !self.seen.insert(key(&row[..self.call.args.len()])) {
            return Ok(());
        }
        self.held += row.iter().map(|d| 24 + d.heap_bytes()).sum::<usize>();
        if self.call.order_by.is_empty() {
            self.state.add(&row[..self.call.args.len()])
        } else {
            self.rows.push(row);
            Ok(())
        }
    }

    fn value(&mut self) -> SqlResult<ScalarValue> {
        let mut state = self.state.clone();
        if !self.call.order_by.is_empty() {
            let args = self.call.args.len();
            let order = &self.call.order_by;
            self.rows.sort_by(|a, b| {
                for (k, sort) in order.iter().enumerate() {
                    let by = compare(&a[args + k], &b[args + k], sort.descending, sort.nulls_first);
                    if by.is_ne() {
                        return by;
                    }
                }
                Ordering::Equal
            });
            for row in &self.rows {
                state.add(&row[..args])?;
            }
        }
        value::scalar(&state.finish()?, self.call.ty, &self.arrow)
    }
}

fn key(row: &[Datum]) -> Vec<u8> {
    let mut out = Vec::new();
    for value in row {
        value::write_key(value, &mut out);
    }
    out
}

fn compare(a: &Datum, b: &Datum, descending: bool, nulls_first: bool) -> Ordering {
    match (a.is_null(), b.is_null()) {
        (true, true) => Ordering::Equal,
        (true, false) => {
            if nulls_first {
                Ordering::Less
            } else {
                Ordering::Greater
            }
        }
        (false, true) => {
            if nulls_first {
                Ordering::Greater
            } else {
                Ordering::Less
            }
        }
        (false, false) => {
            let by = types::compare(a, b);
            if descending { by.reverse() } else { by }
        }
    }
}

impl Accumulate for RowAccumulator {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let rows = values.first().map_or(0, |v| v.len());
        for i in 0..rows {
            if i % 1024 == 0 {
                self.shared.check_cancelled().map_err(external)?;
            }
            let row = values
                .iter()
                .zip(&self.types)
                .map(|(array, ty)| value::datum(array, i, *ty))
                .collect::<SqlResult<Vec<_>>>()
                .and_then(|row| self.take(row));
            row.map_err(external)?;
        }
        Ok(())
    }
    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.value().map_err(external)
    }
    fn size(&self) -> usize {
        size_of::<RowAccumulator>() + self.state.heap_bytes() + self.held
    }
    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Err(external(SqlError::internal("an aggregate was asked for its state")))
    }
    fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
        Err(DataFusionError::Internal("aggregates run in one phase".into()))
    }
}
