//! LIMIT and OFFSET whose numbers are there only when the query runs: those of subqueries, and columns of rows around it.

use std::fmt;
use std::sync::Arc;

use base::{SqlError, SqlResult, SqlState};
use datafusion::arrow::array::{Array, AsArray, RecordBatch};
use datafusion::arrow::datatypes::Int64Type;
use datafusion::common::DFSchemaRef;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{
    Expr, Extension, LogicalPlan, LogicalPlanBuilder, UserDefinedLogicalNodeCore,
};
use datafusion::physical_plan::{ExecutionPlan, PlanProperties};
use futures::stream::BoxStream;
use futures::{StreamExt, stream};
use sql::expr::{Aggregates, Scope};
use sqlparser::ast;
use types::{CastContext, Datum, PgType, TypeMod};

use crate::binder::Binder;
use crate::error::{Planned, external};
use crate::operator::{Operator, one_stream};
use crate::prepare::Place;
use crate::relation::{Level, Relation};
use crate::translate::Translator;

impl Binder<'_> {
    /// The rows of `input` that OFFSET and LIMIT leave.
    pub(crate) fn limited_by(
        &self,
        input: LogicalPlan,
        offset: Option<&ast::Expr>,
        limit: Option<&ast::Expr>,
        outer: Option<&dyn Scope>,
    ) -> SqlResult<LogicalPlan> {
        let one_row = LogicalPlanBuilder::empty(true).build().planned()?;
        let none = Relation { plan: crate::binder::empty(), columns: Vec::new(), star: Vec::new() };
        let place = Place::new(Level::of(&none), outer);
        let mut translator = Translator::new(self, one_row, Arc::clone(&place.level));
        let mut numbers = Vec::new();
        for (expr, clause) in [(offset, "OFFSET"), (limit, "LIMIT")] {
            let number = match expr {
                Some(expr) => self.expr(expr, &place, Aggregates::Forbidden(clause))?,
                None => sql::expr::BoundExpr::constant(Datum::Null, PgType::Int8),
            };
            let ctx = self.context(Aggregates::Forbidden(clause));
            let number =
                sql::expr::coerce(number, PgType::Int8, TypeMod::NONE, CastContext::Assignment, &ctx)?;
            let number = self.within(&place.level, || translator.translate(&number))?;
            numbers.push(number.expr.alias(self.fresh()));
        }
        let numbers =
            LogicalPlanBuilder::from(translator.plan).project(numbers).and_then(LogicalPlanBuilder::build);
        let node = LimitBy { input, numbers: numbers.planned()? };
        Ok(LogicalPlan::Extension(Extension { node: Arc::new(node) }))
    }
}

/// The logical node: rows, and a row of how many of them are passed over and how many are given, NULL where that has no limit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Hash)]
pub(crate) struct LimitBy {
    input: LogicalPlan,
    numbers: LogicalPlan,
}

impl UserDefinedLogicalNodeCore for LimitBy {
    fn name(&self) -> &'static str {
        "LimitBy"
    }
    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input, &self.numbers]
    }
    fn schema(&self) -> &DFSchemaRef {
        self.input.schema()
    }
    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }
    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("LimitBy")
    }
    fn with_exprs_and_inputs(&self, _: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<LimitBy> {
        match (inputs.pop(), inputs.pop()) {
            (Some(numbers), Some(input)) => Ok(LimitBy { input, numbers }),
            _ => Err(DataFusionError::Internal("LimitBy has two inputs".into())),
        }
    }
    fn necessary_children_exprs(&self, output: &[usize]) -> Option<Vec<Vec<usize>>> {
        Some(vec![output.to_vec(), vec![0, 1]])
    }
}

#[derive(Clone, Debug)]
pub(crate) struct LimitByRows {
    input: Arc<dyn ExecutionPlan>,
    numbers: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl LimitByRows {
    pub(crate) fn new(input: &Arc<dyn ExecutionPlan>, numbers: &Arc<dyn ExecutionPlan>) -> LimitByRows {
        // A sort that is asked of it is not made below it.
        let properties = one_stream(input.schema());
        LimitByRows { input: Arc::clone(input), numbers: Arc::clone(numbers), properties }
    }
}

/// Rows that are passed over yet, and that are given yet.
#[derive(Default)]
struct Left {
    skip: usize,
    fetch: Option<usize>,
}

impl Left {
    /// # Errors
    /// 2201X and 2201W for what is negative.
    async fn read(mut numbers: SendableRecordBatchStream) -> Result<Left> {
        let number = |batch: &RecordBatch, at: usize, clause: &str, state| {
            let column = batch.column(at);
            if column.is_null(0) {
                return Ok(None);
            }
            let negative = |_| external(SqlError::new(state, format!("{clause} must not be negative")));
            usize::try_from(column.as_primitive::<Int64Type>().value(0)).map(Some).map_err(negative)
        };
        while let Some(batch) = numbers.next().await.transpose()? {
            if batch.num_rows() > 0 {
                let skip = SqlState::INVALID_ROW_COUNT_IN_RESULT_OFFSET_CLAUSE;
                let skip = number(&batch, 0, "OFFSET", skip)?;
                let fetch = SqlState::INVALID_ROW_COUNT_IN_LIMIT_CLAUSE;
                let fetch = number(&batch, 1, "LIMIT", fetch)?;
                return Ok(Left { skip: skip.unwrap_or(0), fetch });
            }
        }
        Ok(Left { skip: 0, fetch: Some(0) })
    }

    /// The part of a batch that is given.
    fn of(&mut self, batch: &RecordBatch) -> RecordBatch {
        let skipped = self.skip.min(batch.num_rows());
        let rows = batch.num_rows() - skipped;
        let given = self.fetch.map_or(rows, |fetch| fetch.min(rows));
        self.skip -= skipped;
        self.fetch = self.fetch.map(|fetch| fetch - given);
        batch.slice(skipped, given)
    }
}

impl Operator for LimitByRows {
    const NAME: &'static str = "LimitByExec";

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }
    fn inputs(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input, &self.numbers]
    }
    fn over(&self, inputs: Vec<Arc<dyn ExecutionPlan>>) -> LimitByRows {
        LimitByRows::new(&inputs[0], &inputs[1])
    }
    fn start(&self, context: Arc<TaskContext>) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        let numbers = self.numbers.execute(0, Arc::clone(&context))?;
        let input = self.input.execute(0, context)?;
        let state = (Some(numbers), input, Left::default());
        let rows = stream::try_unfold(state, |(numbers, mut input, mut left)| async move {
            if let Some(numbers) = numbers {
                left = Left::read(numbers).await?;
            }
            while left.fetch != Some(0) {
                let Some(batch) = input.next().await.transpose()? else { break };
                let given = left.of(&batch);
                if given.num_rows() > 0 {
                    return Ok(Some((given, (None, input, left))));
                }
            }
            Ok(None)
        });
        Ok(rows.boxed())
    }
}
