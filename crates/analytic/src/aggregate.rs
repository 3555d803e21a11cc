//! Aggregates: DataFusion's own where they agree with PostgreSQL's, the point path's accumulators otherwise.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use base::SqlResult;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, ListArray};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::functions_aggregate as native;
use datafusion::logical_expr::expr::{AggregateFunction, AggregateFunctionParams};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator as Accumulate, AggregateUDF, AggregateUDFImpl, Expr, GroupsAccumulator, Signature, Volatility,
};
use rustc_hash::FxHashSet;
use sql::expr::{Accumulator, AggregateCall, AggregateKind};
use types::{Datum, PgType, TypeMod};

use crate::error::external;
use crate::float_groups::{self, FloatGroups, for_each_float};
use crate::shared::Shared;
use crate::sliding::SlidingAccumulator;
use crate::translate::{Typed, cast_to, key};
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

/// Chooses how `call` is computed. `args` are its translated arguments, `order` those of its ORDER BY.
pub(crate) fn plan(
    call: &AggregateCall,
    args: Vec<Typed>,
    order: Vec<Typed>,
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
            return simple(native::count::count_udaf(), vec![key(arg, call.args[0].typmod)], DataType::Int64);
        }
        (AggregateKind::Min | AggregateKind::Max, Some(arg))
            if !matches!(arg.ty, PgType::Bool | PgType::Bpchar | PgType::Float4 | PgType::Float8) =>
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
            _ => {}
        },
        _ => {}
    }
    row(call, args, order, number, shared)
}

/// The aggregate by the point path's accumulators.
pub(crate) fn row(
    call: &AggregateCall,
    args: Vec<Typed>,
    order: Vec<Typed>,
    number: usize,
    shared: &Arc<Shared>,
) -> PlannedAggregate {
    let arrow = value::arrow_type(call.ty, TypeMod::NONE);
    let types = args.iter().chain(&order).map(|t| (t.ty, t.arrow.clone())).collect();
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
#[derive(Clone, Debug)]
pub(crate) struct RowAggregate {
    name: String,
    pub(crate) call: AggregateCall,
    /// Of the arguments, then of the ORDER BY.
    types: Vec<(PgType, DataType)>,
    pub(crate) arrow: DataType,
    signature: Signature,
    pub(crate) shared: Arc<Shared>,
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

impl RowAggregate {
    /// Whether an accumulator keeps its rows until it is asked: each once, or in an order.
    fn keeps_rows(&self) -> bool {
        self.call.distinct || !self.call.order_by.is_empty()
    }

    /// Whether [`FloatGroups`] does the same for all groups at once.
    fn is_of_floats(&self) -> bool {
        !self.keeps_rows() && float_groups::computes(&self.call)
    }

    /// Row `row` of arrays of the arguments.
    pub(crate) fn arguments(&self, values: &[ArrayRef], row: usize) -> SqlResult<Vec<Datum>> {
        values.iter().zip(&self.types).map(|(array, (ty, _))| value::datum(array, row, *ty)).collect()
    }

    /// Bytes that are equal for equal arguments.
    fn key(&self, row: &[Datum]) -> Vec<u8> {
        let mut out = Vec::new();
        for (value, (ty, _)) in row.iter().zip(&self.types) {
            match (value.as_str(), ty) {
                (Some(text), PgType::Bpchar) => {
                    value::write_key(&Datum::text(text.trim_end_matches(' ')), &mut out);
                }
                _ => value::write_key(value, &mut out),
            }
        }
        out
    }

    /// How two rows stand in the order that they are accumulated in: PostgreSQL finds duplicates by sorting.
    fn compare(&self, a: &[Datum], b: &[Datum]) -> Ordering {
        let args = self.call.args.len();
        for (k, sort) in self.call.order_by.iter().enumerate() {
            let by = compare(&a[args + k], &b[args + k], sort.descending, sort.nulls_first);
            if by.is_ne() {
                return by;
            }
        }
        if self.call.distinct {
            for (a, b) in a[..args].iter().zip(b) {
                let by = compare(a, b, false, false);
                if by.is_ne() {
                    return by;
                }
            }
        }
        Ordering::Equal
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
            held: 0,
            aggregate: self.clone(),
        }))
    }
    fn groups_accumulator_supported(&self, _: AccumulatorArgs) -> bool {
        self.is_of_floats()
    }
    fn create_groups_accumulator(&self, _: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(FloatGroups::new(&self.call)))
    }
    fn create_sliding_accumulator(&self, _: AccumulatorArgs) -> Result<Box<dyn Accumulate>> {
        Ok(Box::new(SlidingAccumulator::new(self.clone())))
    }
    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let types: Vec<DataType> = if self.keeps_rows() {
            self.types.iter().map(|(_, arrow)| list_of(arrow)).collect()
        } else {
            self.call.part_types().iter().map(|ty| value::arrow_type(*ty, TypeMod::NONE)).collect()
        };
        let fields = types.into_iter().enumerate().map(|(k, arrow)| {
            let name = format!("{}[{k}]", args.name);
            Arc::new(Field::new(name, arrow, true))
        });
        Ok(fields.collect())
    }
}

fn list_of(arrow: &DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(arrow.clone(), true)))
}

struct RowAccumulator {
    aggregate: RowAggregate,
    state: Accumulator,
    /// Arguments taken so far, of a DISTINCT aggregate.
    seen: FxHashSet<Vec<u8>>,
    /// Rows waiting until all are there.
    rows: Vec<Vec<Datum>>,
    held: usize,
}

impl fmt::Debug for RowAccumulator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RowAccumulator")
    }
}

impl RowAccumulator {
    fn take(&mut self, row: Vec<Datum>) -> SqlResult<()> {
        let args = self.aggregate.call.args.len();
        if !self.aggregate.keeps_rows() {
            return self.state.add(&row[..args]);
        }
        if self.aggregate.call.distinct {
            let key = self.aggregate.key(&row[..args]);
            let len = key.len();
            if !self.seen.insert(key) {
                return Ok(());
            }
            self.held += SEEN_LEN + len;
        }
        self.held += size_of::<Vec<Datum>>();
        self.held += row.iter().map(|d| size_of::<Datum>() + d.heap_bytes()).sum::<usize>();
        self.rows.push(row);
        Ok(())
    }

    fn value(&mut self) -> SqlResult<ScalarValue> {
        let mut state = self.state.clone();
        let RowAggregate { call, arrow, .. } = &self.aggregate;
        if self.aggregate.keeps_rows() {
            if call.kind.gathers() || !call.order_by.is_empty() {
                self.rows.sort_by(|a, b| self.aggregate.compare(a, b));
            }
            for row in &self.rows {
                state.add(&row[..call.args.len()])?;
            }
        }
        let value = value::scalar(&state.finish()?, call.ty, arrow)?;
        self.aggregate.shared.count_given(value.size())?;
        Ok(value)
    }

    /// The state as what [`RowAccumulator::merge`] takes: the kept rows, a list for each column, or the parts of the sum.
    fn parts(&self) -> SqlResult<Vec<ScalarValue>> {
        if !self.aggregate.keeps_rows() {
            let types = self.aggregate.call.part_types();
            let scalars = self.state.parts();
            return scalars
                .iter()
                .zip(types)
                .map(|(part, ty)| value::scalar(part, ty, &value::arrow_type(ty, TypeMod::NONE)))
                .collect();
        }
        let mut columns = Vec::new();
        for (k, (ty, arrow)) in self.aggregate.types.iter().enumerate() {
            let mut column = value::Column::new(*ty, arrow, self.rows.len());
            self.rows.iter().try_for_each(|row| column.push(&row[k]))?;
            let field = Arc::new(Field::new_list_field(arrow.clone(), true));
            let offsets = OffsetBuffer::from_lengths([self.rows.len()]);
            let list = ListArray::try_new(field, offsets, column.finish()?, None);
            columns.push(ScalarValue::List(Arc::new(list.map_err(crate::error::arrow_error)?)));
        }
        Ok(columns)
    }
}

/// What the key of a row seen takes beside its bytes.
const SEEN_LEN: usize = 48;

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
        if self.aggregate.is_of_floats() {
            let narrow = self.aggregate.types[0].0 == PgType::Float4;
            self.aggregate.shared.check_cancelled().map_err(external)?;
            return for_each_float(&values[0], |_, v| {
                self.state.add(&[if narrow { Datum::Float4(v as f32) } else { Datum::Float8(v) }])
            });
        }
        let rows = values.first().map_or(0, |v| v.len());
        for i in 0..rows {
            if i % 1024 == 0 {
                self.aggregate.shared.check_cancelled().map_err(external)?;
            }
            let row = self.aggregate.arguments(values, i).and_then(|row| self.take(row));
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
        self.parts().map_err(external)
    }
    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let groups = states.first().map_or(0, |state| state.len());
        for i in 0..groups {
            if self.aggregate.keeps_rows() {
                let columns: Vec<ArrayRef> = states.iter().map(|s| s.as_list::<i32>().value(i)).collect();
                self.update_batch(&columns)?;
                continue;
            }
            let types = self.aggregate.call.part_types();
            let parts = states.iter().zip(types).map(|(state, ty)| value::datum(state, i, ty));
            let merged = parts.collect::<SqlResult<Vec<_>>>().and_then(|parts| self.state.merge(&parts));
            merged.map_err(external)?;
        }
        Ok(())
    }
}
