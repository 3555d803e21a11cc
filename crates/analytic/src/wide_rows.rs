//! Operators whose batches have so many rows, however long these are.
//!
//! A batch of 8,192 rows of a megabyte is 8 GB that no operator counts. Scans end their batches by bytes ([`crate::shared::BATCH_BYTES`]); but a filter gathers the
//! rows that it leaves until there are many, and a join repeats a row for each of its partners. So filters hand on what they have left, and [`Gather`] puts
//! small batches together by rows and bytes. Around joins, columns that may be long are views of their values, which a row more costs 16 bytes ([`AsViews`]); behind
//! them they are values again, in batches that end by bytes ([`AsValues`]). Keys, and columns of conditions, stay values, which a join repeats to look at its pairs: where one is met that is
//! too long for a batch of these, the query begins again with batches of fewer rows ([`LookedInto`]).

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::{cast, concat_batches};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinSide, JoinType};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::{
    ChildrenPropertiesMode, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
};
use futures::stream::BoxStream;
use futures::{StreamExt, stream};
use rustc_hash::FxHashSet;

use crate::error::external;
use crate::operator::{Node, Operator, one_stream};
use crate::shared::{BATCH_BYTES, Shared};

/// Bounds batches of filters and joins by their bytes. After all rules that look for DataFusion's operators.
#[derive(Debug)]
pub(crate) struct WideRows(pub(crate) Arc<Shared>);

impl PhysicalOptimizerRule for WideRows {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            let any: &dyn std::any::Any = node.as_ref();
            if let Some(filter) = any.downcast_ref::<FilterExec>() {
                // One row is enough to hand on.
                let filter: Arc<dyn ExecutionPlan> = Arc::new(filter.with_batch_size(1)?);
                return Ok(Transformed::yes(Node::plan(Gather { input: filter })));
            }
            match joined(node.as_ref()) {
                Some((kept, gives_both)) => self.with_views(node, &kept, gives_both),
                None => Ok(Transformed::no(node)),
            }
        })
        .data()
    }
    fn name(&self) -> &'static str {
        "wide_rows"
    }
    fn schema_check(&self) -> bool {
        true
    }
}

impl WideRows {
    fn with_views(
        &self,
        join: Arc<dyn ExecutionPlan>,
        kept: &Kept,
        gives_both: bool,
    ) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
        let mut inputs: Vec<Arc<dyn ExecutionPlan>> = join.children().into_iter().cloned().collect();
        let (mut looks_into_any, mut has_views) = (false, false);
        for (input, kept) in inputs.iter_mut().zip([&kept.left, &kept.right]) {
            let schema = input.schema();
            let may_be_long = |at: &usize| {
                let field = schema.field(*at);
                view_of(field.data_type()).is_some() && !self.0.is_short(field.name())
            };
            let (looked_into, carried): (Vec<usize>, Vec<usize>) =
                (0..schema.fields().len()).filter(may_be_long).partition(|at| kept.contains(at));
            if !looked_into.is_empty() {
                looks_into_any = true;
                let shared = Arc::clone(&self.0);
                *input = Node::plan(LookedInto { input: Arc::clone(input), columns: looked_into, shared });
            }
            if gives_both && !carried.is_empty() {
                has_views = true;
                let properties = one_stream(with_views(&schema, &carried));
                *input = Node::plan(AsViews { input: Arc::clone(input), properties });
            }
        }
        if !looks_into_any && !has_views {
            return Ok(Transformed::no(join));
        }
        let properties = Arc::clone(join.properties());
        let anew = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        let input = join.replace_children(inputs, anew)?;
        if !has_views {
            return Ok(Transformed::yes(input));
        }
        Ok(Transformed::yes(Node::plan(AsValues { input, properties })))
    }
}

/// Columns of a join's inputs that it looks into.
#[derive(Default)]
struct Kept {
    left: FxHashSet<usize>,
    right: FxHashSet<usize>,
}

impl Kept {
    fn new<'k>(
        keys: impl Iterator<Item = (&'k Arc<dyn PhysicalExpr>, &'k Arc<dyn PhysicalExpr>)>,
        filter: Option<&JoinFilter>,
    ) -> Kept {
        let mut kept = Kept::default();
        for (left, right) in keys {
            kept.left.extend(columns_of(left));
            kept.right.extend(columns_of(right));
        }
        for column in filter.into_iter().flat_map(JoinFilter::column_indices) {
            match column.side {
                JoinSide::Left => kept.left.insert(column.index),
                _ => kept.right.insert(column.index),
            };
        }
        kept
    }
}

fn columns_of(expr: &Arc<dyn PhysicalExpr>) -> Vec<usize> {
    let mut found = Vec::new();
    let _ = expr.apply(|node| {
        let any: &dyn std::any::Any = node.as_ref();
        found.extend(any.downcast_ref::<Column>().map(Column::index));
        Ok(TreeNodeRecursion::Continue)
    });
    found
}

/// What `node` looks into, if it is a join, and whether it gives the columns of both its inputs.
fn joined(node: &dyn ExecutionPlan) -> Option<(Kept, bool)> {
    let any: &dyn std::any::Any = node;
    let gives_both =
        |join: &JoinType| matches!(join, JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full);
    if let Some(join) = any.downcast_ref::<HashJoinExec>() {
        let keys = join.on().iter().map(|(left, right)| (left, right));
        return Some((Kept::new(keys, join.filter()), gives_both(join.join_type())));
    }
    if let Some(join) = any.downcast_ref::<SortMergeJoinExec>() {
        let keys = join.on().iter().map(|(left, right)| (left, right));
        return Some((Kept::new(keys, join.filter().as_ref()), gives_both(&join.join_type())));
    }
    if let Some(join) = any.downcast_ref::<NestedLoopJoinExec>() {
        return Some((Kept::new(std::iter::empty(), join.filter()), gives_both(join.join_type())));
    }
    any.is::<CrossJoinExec>().then(|| (Kept::default(), true))
}

fn view_of(ty: &DataType) -> Option<DataType> {
    match ty {
        DataType::Utf8 => Some(DataType::Utf8View),
        DataType::Binary => Some(DataType::BinaryView),
        _ => None,
    }
}

fn with_views(schema: &SchemaRef, columns: &[usize]) -> SchemaRef {
    let fields = schema.fields().iter().enumerate().map(|(at, field)| {
        match view_of(field.data_type()).filter(|_| columns.contains(&at)) {
            Some(view) => Arc::new(Field::new(field.name(), view, field.is_nullable())),
            None => Arc::clone(field),
        }
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// Columns that a join looks into, which it repeats for the pairs of a batch.
#[derive(Clone)]
struct LookedInto {
    input: Arc<dyn ExecutionPlan>,
    columns: Vec<usize>,
    shared: Arc<Shared>,
}

impl fmt::Debug for LookedInto {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(LookedInto::NAME)
    }
}

impl Operator for LookedInto {
    const NAME: &'static str = "LookedIntoExec";

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }
    fn inputs(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }
    fn over(&self, mut inputs: Vec<Arc<dyn ExecutionPlan>>) -> LookedInto {
        LookedInto { input: inputs.remove(0), ..self.clone() }
    }
    fn keeps_order(&self) -> bool {
        true
    }
    fn start(&self, context: Arc<TaskContext>) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        let batch_rows = context.session_config().batch_size();
        let (columns, shared) = (self.columns.clone(), Arc::clone(&self.shared));
        let batches = self.input.execute(0, context)?.map(move |batch| {
            let batch = batch?;
            let longest = columns.iter().map(|at| longest(batch.column(*at))).sum::<usize>();
            shared.require_short_rows(longest, batch_rows).map_err(external)?;
            Ok(batch)
        });
        Ok(batches.boxed())
    }
}

/// Bytes of the longest value of a column of texts or bytes.
fn longest(column: &ArrayRef) -> usize {
    let offsets = match column.data_type() {
        DataType::Utf8 => column.as_string::<i32>().offsets(),
        DataType::Binary => column.as_binary::<i32>().offsets(),
        _ => return 0,
    };
    offsets.windows(2).map(|ends| (ends[1] - ends[0]) as usize).max().unwrap_or(0)
}

/// Makes views of columns, which refer to the values of the batch that they come from.
#[derive(Clone, Debug)]
struct AsViews {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl Operator for AsViews {
    const NAME: &'static str = "ViewsExec";

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }
    fn inputs(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }
    fn over(&self, mut inputs: Vec<Arc<dyn ExecutionPlan>>) -> AsViews {
        AsViews { input: inputs.remove(0), ..self.clone() }
    }
    fn keeps_order(&self) -> bool {
        true
    }
    fn start(&self, context: Arc<TaskContext>) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        let schema = self.schema();
        let batches = self.input.execute(0, context)?.map(move |batch| as_types(&batch?, &schema));
        Ok(batches.boxed())
    }
}

/// The same rows, each column of the schema's type.
fn as_types(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let columns = batch.columns().iter().zip(schema.fields());
    let converted = |(column, field): (&ArrayRef, &Arc<Field>)| {
        if column.data_type() == field.data_type() {
            Ok(Arc::clone(column))
        } else {
            cast(column, field.data_type())
        }
    };
    let columns = columns.map(converted).collect::<std::result::Result<Vec<_>, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}

/// Makes values of views again, in batches that end by their bytes.
#[derive(Clone, Debug)]
struct AsValues {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl Operator for AsValues {
    const NAME: &'static str = "ValuesOfViewsExec";

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }
    fn inputs(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }
    fn over(&self, mut inputs: Vec<Arc<dyn ExecutionPlan>>) -> AsValues {
        AsValues { input: inputs.remove(0), ..self.clone() }
    }
    fn keeps_order(&self) -> bool {
        true
    }
    fn start(&self, context: Arc<TaskContext>) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        let schema = self.schema();
        let state = (self.input.execute(0, context)?, None::<RecordBatch>);
        let batches = stream::try_unfold(state, move |(mut input, mut rest)| {
            let schema = Arc::clone(&schema);
            async move {
                let batch = match rest.take() {
                    Some(batch) => batch,
                    None => match input.next().await.transpose()? {
                        Some(batch) => batch,
                        None => return Ok(None),
                    },
                };
                let rows = rows_of_bytes(&batch, BATCH_BYTES);
                if rows < batch.num_rows() {
                    rest = Some(batch.slice(rows, batch.num_rows() - rows));
                }
                let values = as_types(&batch.slice(0, rows), &schema)?;
                Ok(Some((values, (input, rest))))
            }
        });
        Ok(batches.boxed())
    }
}

/// How many of the first rows have so many bytes in views, the row that they end with counted in; all of them if they have fewer.
fn rows_of_bytes(batch: &RecordBatch, bytes: usize) -> usize {
    let views: Vec<&[u128]> = batch
        .columns()
        .iter()
        .filter_map(|column| match column.data_type() {
            DataType::Utf8View => Some(&**column.as_string_view().views()),
            DataType::BinaryView => Some(&**column.as_binary_view().views()),
            _ => None,
        })
        .collect();
    // The length is a view's first part.
    let len = |view: &u128| *view as u32 as usize;
    let mut all = 0;
    for row in 0..batch.num_rows() {
        all += views.iter().map(|column| len(&column[row])).sum::<usize>();
        if all >= bytes {
            return row + 1;
        }
    }
    batch.num_rows()
}

/// Puts small batches together.
#[derive(Clone)]
struct Gather {
    input: Arc<dyn ExecutionPlan>,
}

impl fmt::Debug for Gather {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Gather::NAME)
    }
}

/// What was gathered so far.
struct Gathered {
    input: Option<SendableRecordBatchStream>,
    schema: SchemaRef,
    batch_rows: usize,
    batches: Vec<RecordBatch>,
    rows: usize,
    bytes: usize,
}

impl Gathered {
    fn is_enough(&self) -> bool {
        // Half of a batch is no more worth a copy than all of it.
        2 * self.rows >= self.batch_rows || self.bytes >= BATCH_BYTES / 2
    }

    fn give(&mut self) -> Result<Option<RecordBatch>> {
        (self.rows, self.bytes) = (0, 0);
        match &std::mem::take(&mut self.batches)[..] {
            [] => Ok(None),
            [one] => Ok(Some(one.clone())),
            many => Ok(Some(concat_batches(&self.schema, many)?)),
        }
    }

    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        while let Some(input) = &mut self.input {
            match input.next().await.transpose()? {
                None => self.input = None,
                Some(batch) => {
                    self.rows += batch.num_rows();
                    self.bytes += batch.get_array_memory_size();
                    self.batches.push(batch);
                    if self.is_enough() {
                        break;
                    }
                }
            }
        }
        self.give()
    }
}

impl Operator for Gather {
    const NAME: &'static str = "GatherExec";

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }
    fn inputs(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }
    fn over(&self, mut inputs: Vec<Arc<dyn ExecutionPlan>>) -> Gather {
        Gather { input: inputs.remove(0) }
    }
    fn keeps_order(&self) -> bool {
        true
    }
    fn start(&self, context: Arc<TaskContext>) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        let gathered = Gathered {
            schema: self.schema(),
            batch_rows: context.session_config().batch_size(),
            batches: Vec::new(),
            rows: 0,
            bytes: 0,
            input: Some(self.input.execute(0, context)?),
        };
        let batches = stream::try_unfold(gathered, |mut gathered| async move {
            let batch = gathered.next().await?;
            Ok(batch.map(|batch| (batch, gathered)))
        });
        Ok(batches.boxed())
    }
}
