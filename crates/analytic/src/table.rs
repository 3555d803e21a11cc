//! A table of the snapshot as DataFusion reads it: leaf by leaf into batches, only the columns asked for, only the keys that a
//! filter on an index's columns allows. What a subquery asks of an outer column it looks up anew for each row of that ([`OuterKeys`]), and what a join asks of few rows, these alone ([`Sought`]).

use std::any::Any;
use std::fmt;
use std::ops::Bound;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use base::{SqlError, SqlResult};
use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::catalog::Session;
use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{ScalarValue, Statistics};
use datafusion::datasource::{TableProvider, TableType};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, Operator, TableProviderFilterPushDown};
use datafusion::physical_expr::expressions::{BinaryExpr, Column};
use datafusion::physical_expr::{PhysicalExpr, split_conjunction};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
    ReplaceChildrenOptions,
};
use futures::stream;
use tenant::catalog::{Index, Table};
use tenant::row::keys::{ColumnRange, KeyRange};
use tenant::{SnapshotScan, SnapshotView};
use types::{Datum, PgType};

use crate::apply::{Cell, cell_of};
use crate::error::external;
use crate::operator::one_stream;
use crate::shared::{BATCH_BYTES, Shared};
use crate::value;

/// A use of a table in a query.
#[derive(Debug)]
pub(crate) struct TableScan {
    table: Arc<Table>,
    /// Name in the plan and position in the table of each column.
    columns: Vec<(String, usize)>,
    schema: SchemaRef,
    shared: Arc<Shared>,
}

impl TableScan {
    pub(crate) fn new(table: Arc<Table>, columns: Vec<(String, usize)>, shared: Arc<Shared>) -> TableScan {
        let fields = columns.iter().map(|(name, position)| {
            let column = &table.columns[*position];
            Field::new(name, shared.arrow_type(column.ty, column.typmod), true)
        });
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        TableScan { table, columns, schema, shared }
    }

    /// `column op constant`, the column by its position in the table.
    fn bound(&self, filter: &Expr) -> Option<ColumnBound> {
        let Expr::BinaryExpr(e) = filter else { return None };
        let (name, op, literal) = match (&*e.left, &*e.right) {
            (Expr::Column(c), Expr::Literal(v, _)) => (&c.name, e.op, v),
            (Expr::Literal(v, _), Expr::Column(c)) => (&c.name, e.op.swap()?, v),
            _ => return None,
        };
        if !matches!(op, Operator::Eq | Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq) {
            return None;
        }
        let position = self.columns.iter().find(|(known, _)| known == name)?.1;
        let datum = key_value(&self.table, &self.shared, position, literal)?;
        Some((position, op, datum))
    }
}

/// Position of a column in its table, and what its values are to the one beside it.
type ColumnBound = (usize, Operator, Datum);

/// A literal as a value of the column, if it can be one exactly.
fn key_value(table: &Table, shared: &Shared, position: usize, literal: &ScalarValue) -> Option<Datum> {
    let column = &table.columns[position];
    let arrow = shared.arrow_type(column.ty, column.typmod);
    if literal.is_null() || literal.data_type() != arrow || value::is_opaque(column.ty, &arrow) {
        return None;
    }
    if matches!(column.ty, PgType::Float4 | PgType::Float8) {
        return None;
    }
    let array = literal.to_array().ok()?;
    value::datum(&array, 0, column.ty).ok()
}

/// The index whose columns are bound best, and the range of its keys that this leaves.
fn access(table: &Table, bounds: &[ColumnBound]) -> Option<(Index, KeyRange)> {
    let mut best: Option<(usize, Index, KeyRange)> = None;
    // Each has a value in all rows that are looked for.
    let bounded: Vec<usize> = bounds.iter().map(|(position, ..)| *position).collect();
    for index in table.indexes.iter().filter(|index| index.has_all_with_values_in(&bounded)) {
        let mut equal = Vec::new();
        for key in &index.columns {
            match bounds.iter().find(|b| Some(b.0) == key.plain() && b.1 == Operator::Eq) {
                Some((_, _, value)) => equal.push(value.clone()),
                None => break,
            }
        }
        let (mut from, mut to) = (Bound::Unbounded, Bound::Unbounded);
        if let Some(next) = index.columns.get(equal.len()) {
            for (_, op, value) in bounds.iter().filter(|b| Some(b.0) == next.plain()) {
                match op {
                    Operator::Gt => from = Bound::Excluded(value),
                    Operator::GtEq => from = Bound::Included(value),
                    Operator::Lt => to = Bound::Excluded(value),
                    Operator::LtEq => to = Bound::Included(value),
                    _ => {}
                }
            }
        }
        let ranged = usize::from(from != Bound::Unbounded) + usize::from(to != Bound::Unbounded);
        let score = equal.len() * 4 + ranged + usize::from(table.is_primary(index));
        if equal.is_empty() && ranged == 0 {
            continue;
        }
        // A secondary index costs a look-up a row: only worth it when it is narrow.
        if !table.is_primary(index) && equal.is_empty() && ranged < 2 {
            continue;
        }
        if best.as_ref().is_none_or(|(known, ..)| score > *known) {
            let range = ColumnRange { equal: &equal, from, to }.key_range(&index.columns);
            best = Some((score, index.clone(), range));
        }
    }
    best.map(|(_, index, range)| (index, range))
}

/// An index, or the table itself, and the range of its keys that is read.
type Place = (Option<Index>, KeyRange);

fn open(view: &SnapshotView, table: &Arc<Table>, place: Place) -> SnapshotScan {
    match place {
        (Some(index), range) => view.index_scan(table, &index, range),
        (None, range) => view.scan(table, range),
    }
}

/// As [`access`], or all keys of the table.
fn keys(table: &Table, bounds: &[ColumnBound]) -> Place {
    match access(table, bounds) {
        Some((index, range)) => (Some(index), range),
        None => (None, KeyRange::all()),
    }
}

#[async_trait]
impl TableProvider for TableScan {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
    fn table_type(&self) -> TableType {
        TableType::Base
    }
    fn statistics(&self) -> Option<Statistics> {
        let view = self.shared.view.as_ref()?;
        let mut statistics = Statistics::new_unknown(&self.schema);
        statistics.num_rows = Precision::Inexact(usize::try_from(view.row_count(&self.table)).ok()?);
        Some(statistics)
    }
    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(filters
            .iter()
            .map(|filter| match self.bound(filter) {
                Some(_) => TableProviderFilterPushDown::Inexact,
                None => TableProviderFilterPushDown::Unsupported,
            })
            .collect())
    }
    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let chosen: Vec<usize> = projection.map_or_else(|| (0..self.columns.len()).collect(), Clone::clone);
        let schema = Arc::new(self.schema.project(&chosen)?);
        let positions = chosen.iter().map(|i| self.columns[*i].1).collect();
        let bounds = filters.iter().filter_map(|filter| self.bound(filter)).collect::<Vec<_>>();
        let (index, range) = keys(&self.table, &bounds);
        Ok(Arc::new(ScanExec {
            table: Arc::clone(&self.table),
            positions,
            bounds,
            outer: Vec::new(),
            sought: None,
            index,
            range,
            limit: if filters.is_empty() { limit } else { None },
            rows: self.statistics().map(|s| s.num_rows),
            properties: one_stream(schema),
            shared: Arc::clone(&self.shared),
        }))
    }
}

#[derive(Clone, Debug)]
struct ScanExec {
    table: Arc<Table>,
    positions: Vec<usize>,
    /// What is known of the columns when the plan is made.
    bounds: Vec<ColumnBound>,
    /// Columns that are equal to outer ones in all rows that anybody wants.
    outer: Vec<(usize, Arc<Cell>)>,
    /// A column of which only some values may be wanted.
    sought: Option<Sought>,
    /// Those for `bounds` alone.
    index: Option<Index>,
    range: KeyRange,
    limit: Option<usize>,
    rows: Option<Precision<usize>>,
    properties: Arc<PlanProperties>,
    shared: Arc<Shared>,
}

impl DisplayAs for ScanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "SnapshotScan: {}", self.table.name)?;
        if let Some(index) = &self.index {
            write!(f, ", index={}", index.name)?;
        }
        for (position, _) in &self.outer {
            write!(f, ", {} of an outer row", self.table.columns[*position].name)?;
        }
        if let Some(sought) = &self.sought {
            write!(f, ", {} of few rows", self.table.columns[sought.position].name)?;
        }
        if let Some(limit) = self.limit {
            write!(f, ", limit={limit}")?;
        }
        Ok(())
    }
}

/// Tells scans which of their columns a filter right above them has equal to outer columns. The filter stays. Before DataFusion's
/// rules, which put nodes between the two.
#[derive(Debug)]
pub(crate) struct OuterKeys;

impl PhysicalOptimizerRule for OuterKeys {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            let any: &dyn Any = node.as_ref();
            let Some(filter) = any.downcast_ref::<FilterExec>() else { return Ok(Transformed::no(node)) };
            let input: &dyn Any = filter.input().as_ref();
            let scan = input.downcast_ref::<ScanExec>().and_then(|scan| scan.below(filter.predicate()));
            let Some(scan) = scan else { return Ok(Transformed::no(node)) };
            let scan: Arc<dyn ExecutionPlan> = Arc::new(scan);
            let keep = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
            Ok(Transformed::yes(node.replace_children(vec![scan], keep)?))
        })
        .data()
    }
    fn name(&self) -> &'static str {
        "outer_keys"
    }
    fn schema_check(&self) -> bool {
        true
    }
}

/// Rows that are read one after the other while one value is looked up.
const ROWS_A_LOOK_UP: u64 = 64;
/// The same for each row that a secondary index finds. An index on a column of few values finds very many by each of them, on pages here and there.
const ROWS_A_ROW_FOUND: u64 = 16;

/// The values of a column that a scan is asked for, told before it starts.
#[derive(Clone, Debug)]
pub(crate) struct Sought {
    table: Arc<Table>,
    position: usize,
    /// `None` for all rows.
    values: Arc<Mutex<Option<Vec<Datum>>>>,
    shared: Arc<Shared>,
}

impl Sought {
    /// Rows of the table.
    pub(crate) fn rows(&self) -> u64 {
        self.shared.view.as_ref().map_or(0, |view| view.row_count(&self.table))
    }

    /// As many values as are worth looking up.
    pub(crate) fn values_max(&self) -> usize {
        usize::try_from(self.rows() / ROWS_A_LOOK_UP).unwrap_or(usize::MAX)
    }

    /// A value as the column has it, if an index can be asked for that.
    pub(crate) fn value(&self, value: &ScalarValue) -> Option<Datum> {
        key_value(&self.table, &self.shared, self.position, value)
    }

    /// Whether the rows that have these values, each once, are few enough to be found by an index.
    pub(crate) fn finds_few(&self, values: &[Datum]) -> SqlResult<bool> {
        let Some(view) = &self.shared.view else { return Ok(false) };
        let mut left = self.rows() / ROWS_A_ROW_FOUND;
        let look = || self.shared.check_cancelled();
        for value in values {
            let (Some(index), range) = self.place(value.clone()) else { return Ok(false) };
            if self.table.is_primary(&index) {
                // Its rows lie beside each other, as where all are read. The index is the same one for all values.
                return Ok(true);
            }
            match left.checked_sub(view.entries_within(&index, &range, left + 1, &look)?) {
                Some(rest) => left = rest,
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Where the rows with a value are: by this column alone, whatever is known of others, so that no row is met twice.
    fn place(&self, value: Datum) -> Place {
        keys(&self.table, &[(self.position, Operator::Eq, value)])
    }

    /// Says which values, each once, the next run of the scan is asked for.
    pub(crate) fn set(&self, values: Option<Vec<Datum>>) {
        *self.values.lock().unwrap_or_else(PoisonError::into_inner) = values;
    }

    fn take(&self) -> Option<Vec<Datum>> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The scan of a table that `plan` is, so that it may be asked for values of the column of that name in the plan; `None` where no index finds them.
pub(crate) fn seeking(
    plan: &Arc<dyn ExecutionPlan>,
    column: &str,
) -> Option<(Arc<dyn ExecutionPlan>, Sought)> {
    let any: &dyn Any = plan.as_ref();
    let scan = any.downcast_ref::<ScanExec>()?;
    let position = *scan.positions.get(scan.schema().index_of(column).ok()?)?;
    // The blanks of a `char(n)` are as many as its own type says.
    let is_found = scan.table.columns[position].ty != PgType::Bpchar
        && scan.table.indexes.iter().any(|index| {
            let first = index.columns.first().and_then(|key| key.plain());
            first == Some(position) && index.has_all_with_values_in(&[position])
        });
    let is_narrow = scan.index.is_some() || scan.limit.is_some() || !scan.outer.is_empty();
    if !is_found || is_narrow {
        return None;
    }
    let sought = Sought {
        table: Arc::clone(&scan.table),
        position,
        values: Arc::default(),
        shared: Arc::clone(&scan.shared),
    };
    let scan = ScanExec { sought: Some(sought.clone()), ..scan.clone() };
    Some((Arc::new(scan), sought))
}

/// A scan under way.
struct Progress {
    scan: SnapshotScan,
    table: Arc<Table>,
    /// What is read behind it.
    rest: std::vec::IntoIter<Place>,
    columns: Vec<value::Column>,
    /// Rows of a batch, if they are short: a leaf more or less.
    batch_rows: usize,
    left: usize,
    over: bool,
}

impl ScanExec {
    fn start(&self, batch_rows: usize) -> SqlResult<Progress> {
        let view = self
            .shared
            .view
            .as_ref()
            .ok_or_else(|| SqlError::internal("a plan without a snapshot was run"))?;
        let mut places = self.places().into_iter();
        let first = places.next();
        let over = first.is_none();
        let scan = open(view, &self.table, first.unwrap_or_default());
        let schema = self.schema();
        let columns = self
            .positions
            .iter()
            .zip(schema.fields())
            .map(|(position, f)| {
                value::Column::new(self.table.columns[*position].ty, f.data_type(), batch_rows)
            })
            .collect();
        let (table, left) = (Arc::clone(&self.table), self.limit.unwrap_or(usize::MAX));
        Ok(Progress { scan, table, rest: places, columns, batch_rows, left, over })
    }

    /// What is read, one after the other.
    fn places(&self) -> Vec<Place> {
        match self.sought.as_ref().and_then(|sought| Some((sought, sought.take()?))) {
            Some((sought, values)) => values.into_iter().map(|value| sought.place(value)).collect(),
            None => self.keys().into_iter().collect(),
        }
    }

    /// The index and the range of its keys to read for the present values of the outer columns; `None` where one of these is
    /// NULL, which nothing is equal to.
    fn keys(&self) -> Option<Place> {
        if self.outer.is_empty() {
            return Some((self.index.clone(), self.range.clone()));
        }
        let mut bounds = self.bounds.clone();
        for (position, cell) in &self.outer {
            let value = cell.get();
            if value.is_null() {
                return None;
            }
            let datum = key_value(&self.table, &self.shared, *position, &value);
            bounds.extend(datum.map(|datum| (*position, Operator::Eq, datum)));
        }
        Some(keys(&self.table, &bounds))
    }

    /// The same below a filter by `condition`, if an index may find what this asks of outer columns.
    fn below(&self, condition: &Arc<dyn PhysicalExpr>) -> Option<ScanExec> {
        let conditions = split_conjunction(condition).into_iter();
        let outer: Vec<_> = conditions.filter_map(|condition| self.outer_key(condition)).collect();
        let is_key = |position: usize| outer.iter().any(|(known, _)| *known == position);
        let helps = self.table.indexes.iter().any(|index| index.column_positions().any(is_key));
        if !helps || self.limit.is_some() {
            return None;
        }
        Some(ScanExec { outer, ..self.clone() })
    }

    /// `column = outer column`, the column by its position in the table. The blanks of a `char(n)` are as many as its own
    /// type says.
    fn outer_key(&self, condition: &Arc<dyn PhysicalExpr>) -> Option<(usize, Arc<Cell>)> {
        let condition: &dyn Any = condition.as_ref();
        let equal = condition.downcast_ref::<BinaryExpr>().filter(|e| *e.op() == Operator::Eq)?;
        let column = |expr: &Arc<dyn PhysicalExpr>| {
            let expr: &dyn Any = expr.as_ref();
            expr.downcast_ref::<Column>().map(Column::index)
        };
        let (at, cell) = match (column(equal.left()), column(equal.right())) {
            (Some(at), None) => (at, cell_of(equal.right())?),
            (None, Some(at)) => (at, cell_of(equal.left())?),
            _ => return None,
        };
        let position = *self.positions.get(at)?;
        (self.table.columns[position].ty != PgType::Bpchar).then_some((position, cell))
    }
}

impl Progress {
    /// Begins with what is read next; false if there is nothing.
    fn goes_on(&mut self, shared: &Shared) -> bool {
        let (Some(place), Some(view)) = (self.rest.next(), &shared.view) else { return false };
        self.scan = open(view, &self.table, place);
        true
    }
}

/// The next batch of a scan; `None` at its end.
fn batch(
    progress: &mut Progress,
    positions: &[usize],
    schema: &SchemaRef,
    shared: &Shared,
) -> SqlResult<Option<RecordBatch>> {
    let mut rows = 0;
    let gathered = |columns: &[value::Column]| columns.iter().map(value::Column::gathered).sum::<usize>();
    while rows < progress.batch_rows && gathered(&progress.columns) < BATCH_BYTES && !progress.over {
        shared.check_cancelled()?;
        let columns = &mut progress.columns;
        let left = &mut progress.left;
        let mut take = |len: usize| {
            let taken = len.min(*left);
            *left -= taken;
            rows += taken;
            taken
        };
        let more = if columns.is_empty() {
            progress.scan.next_leaf_len()?.map(&mut take).is_some()
        } else {
            progress.scan.next_leaf_stored(&mut |leaf| {
                let leaf = &leaf[..take(leaf.len())];
                columns
                    .iter_mut()
                    .zip(positions)
                    .try_for_each(|(column, position)| column.extend(leaf, *position))
            })?
        };
        let ends = !more && !progress.goes_on(shared);
        progress.over = ends || progress.left == 0;
    }
    shared.control.add_rows_read(rows as u64);
    if rows == 0 {
        return Ok(None);
    }
    let arrays = progress.columns.iter_mut().map(value::Column::finish).collect::<SqlResult<_>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options)
        .map(Some)
        .map_err(crate::error::arrow_error)
}

impl ExecutionPlan for ScanExec {
    fn name(&self) -> &'static str {
        "SnapshotScan"
    }
    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }
    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }
    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }
    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }
    fn partition_statistics(&self, _: Option<usize>) -> Result<Arc<Statistics>> {
        let mut statistics = Statistics::new_unknown(&self.schema());
        if let Some(rows) = self.rows {
            statistics.num_rows = match (rows, &self.index) {
                (Precision::Inexact(n), index) if index.is_some() || !self.outer.is_empty() => {
                    Precision::Inexact((n / 10).max(1))
                }
                (rows, _) => rows,
            };
        }
        Ok(Arc::new(statistics))
    }
    fn execute(&self, _: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let progress = self.start(context.session_config().batch_size()).map_err(external)?;
        let (positions, schema, shared) = (self.positions.clone(), self.schema(), Arc::clone(&self.shared));
        let batches = stream::try_unfold(
            (progress, positions, schema, shared),
            |(mut progress, positions, schema, shared)| async move {
                let batch = batch(&mut progress, &positions, &schema, &shared).map_err(external)?;
                Ok(batch.map(|batch| (batch, (progress, positions, schema, shared))))
            },
        );
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches)))
    }
}
