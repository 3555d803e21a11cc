//! Set-returning functions: a plan node that repeats each row of its input for every element its functions yield.

use std::cmp::Ordering;
#[expect(clippy::disallowed_types, reason = "what DataFusion's trait answers with")]
use std::collections::HashSet;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use base::SqlResult;
use datafusion::arrow::array::{ArrayRef, RecordBatch, UInt32Array};
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::FieldRef;
use datafusion::catalog::Session;
use datafusion::common::{DFSchema, DFSchemaRef, TableReference};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, UserDefinedLogicalNodeCore};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::{ExecutionPlan, PlanProperties};
use datafusion::physical_planner::PhysicalPlanner;
use futures::stream::BoxStream;
use futures::{StreamExt, stream};
use types::{Datum, ElementType, PgType};

use crate::catalog::access::{self, Right};
use crate::error::external;
use crate::operator::{Operator, one_stream};
use crate::shared::{BATCH_BYTES, Shared};
use crate::value;

/// What a function yields from its arguments.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Series {
    /// The elements of an array of the first type.
    Unnest(PgType),
    /// `generate_series` over values of this type; the step is an interval for moments.
    Generate(PgType),
    /// `generate_subscripts(array, 1)`.
    Subscripts(PgType),
    /// `_pg_expandarray(array)`: pairs of element and position, as arrays of two integers.
    ExpandArray(PgType),
    /// `pg_options_to_table(options)`: the names, or the values, of options written `name=value`.
    OptionNames,
    OptionValues,
    /// `regexp_matches`: arrays of texts, from the length of each and all of them one behind the other.
    Matches,
    /// `aclexplode(list)`: of each right in an access list.
    Rights(RightPart),
    /// `pg_partition_ancestors(relation)`: nothing, as no table is a partition.
    PartitionAncestors,
}

/// What `aclexplode` tells of a right.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum RightPart {
    Grantor,
    Grantee,
    Privilege,
    Grantable,
    /// All of these in one value, as their texts.
    All,
}

impl RightPart {
    /// Its columns in FROM.
    pub(crate) const COLUMNS: [RightPart; 4] =
        [RightPart::Grantor, RightPart::Grantee, RightPart::Privilege, RightPart::Grantable];

    pub(crate) fn name(self) -> &'static str {
        match self {
            RightPart::Grantor => "grantor",
            RightPart::Grantee => "grantee",
            RightPart::Privilege => "privilege_type",
            RightPart::Grantable => "is_grantable",
            RightPart::All => "aclexplode",
        }
    }

    fn ty(self) -> PgType {
        match self {
            RightPart::Grantor | RightPart::Grantee => PgType::Oid,
            RightPart::Privilege => PgType::Text,
            RightPart::Grantable => PgType::Bool,
            RightPart::All => PgType::Array(ElementType::Text),
        }
    }

    fn of(self, right: &Right) -> Datum {
        match self {
            RightPart::Grantor => Datum::Oid(right.grantor.0),
            RightPart::Grantee => Datum::Oid(right.grantee.0),
            RightPart::Privilege => Datum::text(right.privilege),
            RightPart::Grantable => Datum::Bool(right.is_grantable),
            RightPart::All => {
                let [grantor, grantee] = [right.grantor, right.grantee].map(|role| role.0.to_string());
                let is_grantable = if right.is_grantable { "t" } else { "f" };
                let texts = [grantor.as_str(), grantee.as_str(), right.privilege, is_grantable];
                Datum::array(ElementType::Text, texts.into_iter().map(Datum::text).collect())
            }
        }
    }
}

impl Series {
    /// The type of its elements.
    pub(crate) fn element(&self) -> PgType {
        match self {
            Series::Unnest(array) => array.element().unwrap_or(PgType::Text),
            Series::ExpandArray(_) => PgType::Array(ElementType::Int4),
            Series::Generate(ty) => *ty,
            Series::Subscripts(_) => PgType::Int4,
            Series::OptionNames | Series::OptionValues => PgType::Text,
            Series::Matches => PgType::Array(ElementType::Text),
            Series::Rights(part) => part.ty(),
            Series::PartitionAncestors => PgType::Regclass,
        }
    }
}

/// A function with the types of its arguments, taken from the node's expressions in order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SeriesCall {
    pub(crate) series: Series,
    pub(crate) args: Vec<PgType>,
}

/// The logical node: the input's columns that somebody wants, then one for each function, then the ordinality if asked for.
#[derive(Clone, Debug)]
pub(crate) struct Expand {
    pub(crate) input: LogicalPlan,
    pub(crate) calls: Vec<SeriesCall>,
    pub(crate) exprs: Vec<Expr>,
    pub(crate) ordinality: bool,
    pub(crate) schema: DFSchemaRef,
    pub(crate) number: usize,
    pub(crate) shared: Arc<Shared>,
}

impl PartialEq for Expand {
    fn eq(&self, other: &Expand) -> bool {
        self.number == other.number && self.input == other.input && self.exprs == other.exprs
    }
}
impl Eq for Expand {}
impl Hash for Expand {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.number.hash(state);
    }
}
impl PartialOrd for Expand {
    fn partial_cmp(&self, other: &Expand) -> Option<Ordering> {
        self.number.partial_cmp(&other.number)
    }
}

impl UserDefinedLogicalNodeCore for Expand {
    fn name(&self) -> &'static str {
        "Expand"
    }
    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }
    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }
    fn expressions(&self) -> Vec<Expr> {
        self.exprs.clone()
    }
    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("Expand")
    }
    fn prevent_predicate_push_down_columns(&self) -> HashSet<String> {
        self.schema.fields()[self.input_columns()..].iter().map(|field| field.name().clone()).collect()
    }
    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Expand> {
        let input = inputs.pop().ok_or_else(|| DataFusionError::Internal("Expand has an input".into()))?;
        let field =
            |(table, field): (Option<&TableReference>, &FieldRef)| (table.cloned(), Arc::clone(field));
        let results = self.schema.iter().skip(self.input_columns()).map(field);
        let fields = input.schema().iter().map(field).chain(results).collect();
        let schema = Arc::new(DFSchema::new_with_metadata(fields, Default::default())?);
        Ok(Expand { input, exprs, schema, ..self.clone() })
    }
    fn necessary_children_exprs(&self, output: &[usize]) -> Option<Vec<Vec<usize>>> {
        Some(vec![output.iter().copied().filter(|column| *column < self.input_columns()).collect()])
    }
}

impl Expand {
    fn input_columns(&self) -> usize {
        self.schema.fields().len() - self.calls.len() - usize::from(self.ordinality)
    }
}

impl From<Expand> for LogicalPlan {
    fn from(expand: Expand) -> LogicalPlan {
        LogicalPlan::Extension(Extension { node: Arc::new(expand) })
    }
}

#[derive(Clone, Debug)]
pub(crate) struct ExpandRows {
    input: Arc<dyn ExecutionPlan>,
    calls: Vec<SeriesCall>,
    exprs: Vec<Arc<dyn PhysicalExpr>>,
    ordinality: bool,
    properties: Arc<PlanProperties>,
    shared: Arc<Shared>,
}

/// The elements a call still has to yield.
enum Elements {
    Items(std::vec::IntoIter<Datum>),
    Step { next: Option<Datum>, stop: Datum, step: Datum, ascending: bool, ty: PgType },
}

impl Elements {
    fn next(&mut self, shared: &Shared) -> SqlResult<Option<Datum>> {
        match self {
            Elements::Items(items) => Ok(items.next()),
            Elements::Step { next, stop, step, ascending, ty } => {
                let Some(value) = next.take() else { return Ok(None) };
                let order = types::compare(&value, stop);
                if (*ascending && order.is_gt()) || (!*ascending && order.is_lt()) {
                    return Ok(None);
                }
                *next = advance(&value, step, *ty, shared)?;
                Ok(Some(value))
            }
        }
    }
}

/// The value after `value`; `None` at the end of the type's range.
fn advance(value: &Datum, step: &Datum, ty: PgType, shared: &Shared) -> SqlResult<Option<Datum>> {
    Ok(match (value, step) {
        (Datum::Int4(v), Datum::Int4(s)) => v.checked_add(*s).map(Datum::Int4),
        (Datum::Int8(v), Datum::Int8(s)) => v.checked_add(*s).map(Datum::Int8),
        (Datum::Numeric(v), Datum::Numeric(s)) => Some(Datum::Numeric(v.add(s)?)),
        (value, step) => Some(crate::moments::add_interval(value, step, ty, shared)?),
    })
}

fn elements(call: &SeriesCall, args: &[Datum], shared: &Shared) -> SqlResult<Elements> {
    let none = || Ok(Elements::Items(Vec::new().into_iter()));
    if args.iter().any(Datum::is_null) {
        return none();
    }
    match (&call.series, args) {
        (Series::Unnest(_), [Datum::Array(array)]) => Ok(Elements::Items(array.items.clone().into_iter())),
        (Series::ExpandArray(_), [Datum::Array(array)]) => {
            let pair = |(i, item): (usize, &Datum)| {
                let x = Datum::Int4(item.as_i64().unwrap_or(0) as i32);
                Datum::array(ElementType::Int4, vec![x, Datum::Int4(i as i32 + 1)])
            };
            Ok(Elements::Items(array.items.iter().enumerate().map(pair).collect::<Vec<_>>().into_iter()))
        }
        (Series::OptionNames | Series::OptionValues, [Datum::Array(array)]) => {
            let part = |item: &Datum| {
                let (name, value) = item.as_str()?.split_once('=')?;
                Some(Datum::text(if call.series == Series::OptionNames { name } else { value }))
            };
            let parts = array.items.iter().map(|item| part(item).unwrap_or_default());
            Ok(Elements::Items(parts.collect::<Vec<_>>().into_iter()))
        }
        (Series::Matches, [Datum::Array(array)]) => {
            let Some((len, groups)) = array.items.split_first() else { return none() };
            let len = len.as_str().and_then(|len| len.parse().ok()).unwrap_or(1);
            let matches = groups.chunks(len).map(|groups| Datum::array(ElementType::Text, groups.to_vec()));
            Ok(Elements::Items(matches.collect::<Vec<_>>().into_iter()))
        }
        (Series::Rights(part), [Datum::Array(array)]) => {
            let rights = access::rights(&shared.catalog, &array.items);
            Ok(Elements::Items(rights.iter().map(|right| part.of(right)).collect::<Vec<_>>().into_iter()))
        }
        (Series::Subscripts(ty), [Datum::Array(array), dimension]) => {
            let len = if dimension.as_i64() == Some(1) { array.items.len() as i32 } else { 0 };
            let first = i32::from(ty.vector_element().is_none());
            Ok(Elements::Items((first..first + len).map(Datum::Int4).collect::<Vec<_>>().into_iter()))
        }
        (Series::Generate(ty), [start, stop, step @ ..]) => {
            let step = match step.first() {
                Some(step) => step.clone(),
                None if *ty == PgType::Int8 => Datum::Int8(1),
                None if *ty == PgType::Numeric => Datum::Numeric(types::Numeric::ONE),
                None => Datum::Int4(1),
            };
            let ascending = !sql::expr::series_counts_down(start, stop, &step)?;
            let (next, stop) = (Some(start.clone()), stop.clone());
            Ok(Elements::Step { next, stop, step, ascending, ty: *ty })
        }
        _ => none(),
    }
}

/// A batch of input being expanded.
struct Work {
    batch: RecordBatch,
    args: Vec<ArrayRef>,
    row: usize,
    /// Of that row: what is still to be yielded, how many were, and the bytes that it takes each time.
    current: Option<(Vec<Elements>, i64, usize)>,
}

impl ExpandRows {
    pub(crate) fn plan(
        expand: &Expand,
        planner: &dyn PhysicalPlanner,
        logical: &LogicalPlan,
        input: Arc<dyn ExecutionPlan>,
        state: &dyn Session,
        planning: &PhysicalPlanningContext,
    ) -> Result<ExpandRows> {
        let schema = logical.schema();
        let exprs = expand
            .exprs
            .iter()
            .map(|e| planner.create_physical_expr(e, schema, state, planning))
            .collect::<Result<Vec<_>>>()?;
        Ok(ExpandRows {
            input,
            calls: expand.calls.clone(),
            exprs,
            ordinality: expand.ordinality,
            properties: one_stream(Arc::clone(expand.schema.inner())),
            shared: Arc::clone(&expand.shared),
        })
    }

    fn evaluate(&self, batch: RecordBatch) -> Result<Work> {
        let rows = batch.num_rows();
        let args =
            self.exprs.iter().map(|e| e.evaluate(&batch)?.into_array(rows)).collect::<Result<Vec<_>>>()?;
        Ok(Work { batch, args, row: 0, current: None })
    }

    fn open(&self, work: &Work) -> SqlResult<Vec<Elements>> {
        let mut at = 0;
        let mut all = Vec::with_capacity(self.calls.len());
        for call in &self.calls {
            let args = call
                .args
                .iter()
                .enumerate()
                .map(|(k, ty)| value::datum(&work.args[at + k], work.row, *ty))
                .collect::<SqlResult<Vec<_>>>()?;
            at += call.args.len();
            all.push(elements(call, &args, &self.shared)?);
        }
        Ok(all)
    }

    /// The next batch of output; `None` when `work` is used up.
    fn fill(&self, work: &mut Work, batch_rows: usize) -> SqlResult<Option<RecordBatch>> {
        self.shared.check_cancelled()?;
        let schema = self.schema();
        let input_columns = work.batch.num_columns();
        let mut from = Vec::new();
        let mut columns: Vec<value::Column> = self
            .calls
            .iter()
            .enumerate()
            .map(|(k, call)| {
                value::Column::new(call.series.element(), schema.field(input_columns + k).data_type(), 1024)
            })
            .collect();
        let mut ordinals = Vec::new();
        let mut bytes = 0;
        while from.len() < batch_rows && bytes < BATCH_BYTES {
            if work.current.is_none() {
                if work.row >= work.batch.num_rows() {
                    break;
                }
                work.current = Some((self.open(work)?, 0, value::row_len(work.batch.columns(), work.row)));
            }
            let (elements, ordinal, len) = work.current.as_mut().expect("just opened");
            let mut row = Vec::with_capacity(elements.len());
            for e in elements.iter_mut() {
                row.push(e.next(&self.shared)?);
            }
            if row.iter().all(Option::is_none) {
                work.current = None;
                work.row += 1;
                continue;
            }
            *ordinal += 1;
            ordinals.push(*ordinal);
            from.push(work.row as u32);
            bytes += *len;
            for (column, value) in columns.iter_mut().zip(row) {
                let value = value.unwrap_or(Datum::Null);
                bytes += value.heap_bytes();
                column.push(&value)?;
            }
        }
        if from.is_empty() {
            return Ok(None);
        }
        let indices = UInt32Array::from(from);
        let mut out = work
            .batch
            .columns()
            .iter()
            .map(|c| take(c, &indices, None))
            .collect::<std::result::Result<Vec<_>, _>>()
            .map_err(crate::error::arrow_error)?;
        for column in &mut columns {
            out.push(column.finish()?);
        }
        if self.ordinality {
            out.push(Arc::new(datafusion::arrow::array::Int64Array::from(ordinals)));
        }
        RecordBatch::try_new(schema, out).map(Some).map_err(crate::error::arrow_error)
    }
}

impl Operator for ExpandRows {
    const NAME: &'static str = "ExpandExec";

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }
    fn inputs(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }
    fn over(&self, mut inputs: Vec<Arc<dyn ExecutionPlan>>) -> ExpandRows {
        ExpandRows { input: inputs.remove(0), ..self.clone() }
    }
    fn exprs(&self) -> &[Arc<dyn PhysicalExpr>] {
        &self.exprs
    }
    fn start(&self, context: Arc<TaskContext>) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        let batch_rows = context.session_config().batch_size();
        let input = self.input.execute(0, context)?;
        let state = (input, self.clone(), None::<Work>);
        let batches = stream::try_unfold(state, move |(mut input, this, mut work)| async move {
            loop {
                if let Some(current) = &mut work
                    && let Some(batch) = this.fill(current, batch_rows).map_err(external)?
                {
                    return Ok(Some((batch, (input, this, work))));
                }
                match input.next().await {
                    None => return Ok(None),
                    Some(batch) => work = Some(this.evaluate(batch?)?),
                }
            }
        });
        Ok(batches.boxed())
    }
}
