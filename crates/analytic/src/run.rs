//! Running a request: bind, plan, execute, and say what comes of it, batch by batch.

use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use base::{SqlError, SqlResult, SqlState};
use datafusion::arrow::array::RecordBatch;
use datafusion::execution::context::SessionState;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionConfig;
use futures::TryStreamExt;
use sql::expr::ParamTypes;
use sql::session::{
    AnalyticEvent, AnalyticRequest, CopyEncoder, CopyOptions, Deliver, Field, Formats, QueryContext,
    QueryControl, QueryLimits, RowStore, RowStoreWriter, TempSpace, encode_row,
};
use sqlparser::ast;
use tenant::catalog::Catalog;
use types::{Datum, PgType, Row};

use crate::apply::Planner;
use crate::binder::{Binder, NEEDS_APPLY};
use crate::cancel::{CancelPoints, Look, check_cancelled};
use crate::common_table::all_read_by;
use crate::concat::ConcatUnions;
use crate::error::{Planned, sql_error};
use crate::in_order::OrdersKept;
use crate::inner_filters;
use crate::look_ups::LookUps;
use crate::nested_loops::{KeptLeft, MadeAnew};
use crate::relation::Relation;
use crate::row_orders::RowOrders;
use crate::shared::Shared;
use crate::signalling::signals;
use crate::spill::runtime_env;
use crate::spilling::{MergeJoins, WholeSorts};
use crate::table::OuterKeys;
use crate::value::{self, NO_DECIMAL};
use crate::wide_rows::WideRows;
use crate::window_rows::WindowMemory;

/// Rows of an [`AnalyticEvent::Encoded`], so that a listener's queue holds bounded memory.
const EVENT_ROWS: usize = 1024;

/// Bytes with which one is full, whatever rows it has.
const EVENT_LEN: usize = 1 << 20;

/// Runs `request` to its end on this thread, which may block. `say` takes every event in order and may block to hold the
/// query back; false from it ends the query.
pub fn run(request: AnalyticRequest, say: &mut dyn FnMut(AnalyticEvent) -> bool) {
    run_controlled(request, &QueryControl::default(), say);
}

/// As [`run`], looking at `control` at each batch of any of its operators that can run for long: once it is cancelled the
/// query ends with 57014, while it is held it stands still.
pub fn run_controlled(
    request: AnalyticRequest,
    control: &QueryControl,
    say: &mut dyn FnMut(AnalyticEvent) -> bool,
) {
    let result = deliver(request, control, say);
    say(AnalyticEvent::Done(result));
}

/// Types of the parameters and columns of the result of `query`. Reads no rows.
///
/// # Errors
/// Those of binding; 42P18 for a parameter that no context gives a type.
pub fn describe(
    query: &ast::Query,
    parameter_types: &[PgType],
    catalog: &Arc<Catalog>,
    context: &Arc<QueryContext>,
) -> SqlResult<(Vec<PgType>, Arc<[Field]>)> {
    let shared = Arc::new(Shared::new(
        Arc::clone(context),
        Vec::new(),
        None,
        Arc::clone(catalog),
        QueryControl::default(),
    ));
    let params = ParamTypes::new(parameter_types);
    shared.keep_numerics_opaque();
    // Row by row evaluation takes every subquery, so that one attempt binds.
    let (relation, _) = Binder::new(shared, &params, true).query(query, None)?;
    Ok((params.finish()?, fields(&relation)))
}

fn fields(relation: &Relation) -> Arc<[Field]> {
    relation
        .star
        .iter()
        .map(|at| {
            let column = &relation.columns[*at];
            Field {
                name: column.name.clone(),
                table_oid: column.origin.0,
                attribute: column.origin.1,
                ty: column.ty,
                modifier: column.typmod,
            }
        })
        .collect()
}

fn deliver(
    request: AnalyticRequest,
    control: &QueryControl,
    say: &mut dyn FnMut(AnalyticEvent) -> bool,
) -> SqlResult<()> {
    let catalog = Arc::clone(request.view.catalog());
    let shared = Arc::new(Shared::new(
        Arc::clone(&request.context),
        request.parameters,
        (request.deliver != Deliver::DescribeOnly).then_some(request.view),
        catalog,
        control.clone(),
    ));
    shared.set_signals(signals(&request.query)?);
    let limits = request.limits;
    let params = ParamTypes::new(&request.parameter_types);
    if request.deliver == Deliver::DescribeOnly {
        shared.keep_numerics_opaque();
        let (relation, _) = Binder::new(shared, &params, true).query(&request.query, None)?;
        sql::plan::require_few_columns(relation.star.len())?;
        say(AnalyticEvent::Columns { parameters: params.finish()?, fields: fields(&relation) });
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .map_err(|e| SqlError::internal(format!("no runtime for an analytical query: {e}")))?;
    let mut attempt = async |memory, said: &mut Said| {
        let mut state = session_state(&shared, &limits, memory)?;
        shared.built.set_operators(Arc::clone(&state.runtime_env().memory_pool));
        shared.made.set_pool(Arc::clone(&state.runtime_env().memory_pool));
        shared.set_may_begin_again(memory == Memory::AsIsFastest && !said.rows);
        shared.set_planning(true);
        let planned = plan(&request.query, &shared, &params, &state).await;
        shared.set_planning(false);
        let (relation, plan) = planned?;
        let batch_size = state.config().batch_size().min(shared.batch_rows_max());
        *state.config_mut() = state.config().clone().with_batch_size(batch_size);
        let job = Job { shared: Arc::clone(&shared), state, relation, plan, parameters: params.known() };
        let say = &mut |event| {
            let goes_on = said.pass_on(event, say);
            if said.rows {
                shared.set_may_begin_again(false);
            }
            goes_on
        };
        match &request.deliver {
            Deliver::Client(formats) => job.to_client(formats, say).await,
            Deliver::Copy(options) => job.to_copy(options, say).await,
            Deliver::Session => job.to_session(limits.temp.clone(), say).await,
            Deliver::Explain { analyze, verbose } => {
                job.explain(&request.reason, *analyze, *verbose, say).await
            }
            Deliver::DescribeOnly => unreachable!("answered above"),
        }
    };
    let mut work = pin!(async {
        let (mut said, mut memory) = (Said::default(), Memory::AsIsFastest);
        loop {
            let result = attempt(memory, &mut said).await;
            let Err(error) = &result else { return result };
            let is_tried_again = match memory {
                _ if said.rows => false,
                _ if error.message() == NO_DECIMAL => !shared.keep_numerics_opaque(),
                Memory::AsIsFastest => error.state() == SqlState::OUT_OF_MEMORY,
                Memory::Spilling => false,
            };
            if !is_tried_again {
                return result;
            }
            if error.state() == SqlState::OUT_OF_MEMORY {
                memory = Memory::Spilling;
            }
            control.run_again();
        }
    });
    // Operators give way every so many batches, also those that have nothing to say for long.
    let watched = std::future::poll_fn(|cx| match check_cancelled(control) {
        Ok(()) => work.as_mut().poll(cx),
        Err(error) => Poll::Ready(Err(error)),
    });
    runtime.block_on(watched)
}

/// What a plan does with working memory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Memory {
    /// The fastest plan, which fails where a hash table, a top-k sort or a few of its batches do not fit.
    AsIsFastest,
    /// One that spills where it can, in smaller batches: the second attempt.
    Spilling,
}

/// What has been said of a query that may be attempted again.
#[derive(Default)]
struct Said {
    columns: bool,
    rows: bool,
}

impl Said {
    /// Says `event`, but the columns once.
    fn pass_on(&mut self, event: AnalyticEvent, say: &mut dyn FnMut(AnalyticEvent) -> bool) -> bool {
        if matches!(event, AnalyticEvent::Columns { .. }) {
            if std::mem::replace(&mut self.columns, true) {
                return true;
            }
        } else {
            self.rows = true;
        }
        say(event)
    }
}

/// What a plan takes into account of the memory that is there for its operators.
struct Sizes {
    /// Rows of a batch: an operator holds a few batches at least.
    batch: usize,
    /// Bytes that a sort keeps for the merge of what it put aside.
    merge: usize,
}

impl Sizes {
    fn new(limits: &QueryLimits, memory: Memory) -> Sizes {
        let Some(work) = &limits.work_memory else { return Sizes { batch: 8192, merge: 10 << 20 } };
        // Bytes of it for a row of a batch: merges and tables hold some batches, and there are several of them.
        let (there, of_row) = match memory {
            Memory::AsIsFastest => (work.max(), 8 << 10),
            Memory::Spilling => (work.assured(), 32 << 10),
        };
        let size = |bytes: u64, min, max| usize::try_from(bytes).map_or(max, |size| size.clamp(min, max));
        Sizes {
            batch: size(there.0 / of_row, 64, 8192),
            merge: size(work.assured().0 / 32, 64 << 10, 10 << 20),
        }
    }
}

fn session_state(shared: &Arc<Shared>, limits: &QueryLimits, memory: Memory) -> SqlResult<SessionState> {
    let sizes = Sizes::new(limits, memory);
    let mut config = SessionConfig::new()
        .with_target_partitions(1)
        .with_batch_size(sizes.batch)
        .with_information_schema(false);
    let options = config.options_mut();
    options.execution.parquet.pushdown_filters = false;
    options.optimizer.repartition_aggregations = false;
    options.optimizer.repartition_joins = false;
    options.optimizer.repartition_windows = false;
    options.optimizer.repartition_sorts = false;
    options.optimizer.enable_round_robin_repartition = false;
    options.execution.sort_spill_reservation_bytes = sizes.merge;
    // Of `CASE WHEN a > b THEN a ELSE 0 END` the logical plan knows that it is never NULL, and the physical one does not: that is no error.
    options.execution.skip_physical_aggregate_schema_check = true;
    // Its heap has a slot for each row of the limit, whatever rows there are, and nobody counts it nor its groups.
    options.optimizer.enable_topk_aggregation = false;
    // Of windows over windows it takes the farthest row that one looks at, where each looks from the farthest row of the one before.
    options.optimizer.enable_window_limits = false;
    let mut rules = vec![Arc::new(ConcatUnions) as _, Arc::new(OuterKeys) as _];
    if memory == Memory::Spilling {
        rules.push(Arc::new(MergeJoins) as _);
    }
    for rule in PhysicalOptimizer::new().rules {
        // Of `WHERE a = 5` it counts one distinct `a`, as of a column that is the same in all rows, also where there may be no row.
        if rule.name() == "aggregate_statistics" {
            continue;
        }
        // A condition on what is called `random() AS r` it asks in a filter below, of another `random()`. The logical plan has moved all conditions that can.
        if rule.name() == "FilterPushdown" {
            continue;
        }
        let chooses_inputs = rule.name() == "join_selection";
        rules.push(crate::filters_first::filters_first(rule));
        if chooses_inputs {
            rules.push(Arc::new(KeptLeft));
            rules.push(Arc::new(RowOrders));
        }
    }
    if memory == Memory::Spilling {
        rules.push(Arc::new(WholeSorts));
    }
    rules.push(Arc::new(OrdersKept));
    rules.push(Arc::new(LookUps));
    rules.push(Arc::new(WideRows(Arc::clone(shared))));
    rules.push(Arc::new(WindowMemory(Arc::clone(shared))));
    rules.push(Arc::new(MadeAnew));
    rules.push(Arc::new(CancelPoints(shared.control.clone())));
    let look = || Arc::new(Look(shared.control.clone()));
    let rules = rules.into_iter().flat_map(|rule| [rule, look() as _]).collect();
    let logical_rules = inner_filters::rules().into_iter().flat_map(|rule| [rule, look() as _]).collect();
    Ok(SessionStateBuilder::new()
        .with_config(config)
        .with_runtime_env(runtime_env(limits).planned()?)
        .with_default_features()
        .with_optimizer_rules(logical_rules)
        .with_query_planner(Arc::new(Planner))
        .with_physical_optimizer_rules(rules)
        .build())
}

/// The query's columns and physical plan. Correlated subqueries are turned into joins where DataFusion can, else
/// evaluated row by row.
async fn plan(
    query: &ast::Query,
    shared: &Arc<Shared>,
    params: &ParamTypes,
    state: &SessionState,
) -> SqlResult<(Relation, Arc<dyn ExecutionPlan>)> {
    let known = params.known();
    let (joined, decorrelated) = {
        let attempt = ParamTypes::new(&known);
        let binder = Binder::new(Arc::clone(shared), &attempt, false);
        match binder.query(query, None) {
            Ok((relation, _)) => {
                let plan = physical(&relation, &binder, state).await;
                (plan.map(|plan| (relation, plan)), binder.decorrelated.get())
            }
            Err(error) if error.message() == NEEDS_APPLY => (Err(error), true),
            Err(error) => return Err(error),
        }
    };
    match joined {
        Err(_) if decorrelated => {
            let binder = Binder::new(Arc::clone(shared), params, true);
            let (relation, _) = binder.query(query, None)?;
            let plan = physical(&relation, &binder, state).await?;
            Ok((relation, plan))
        }
        result => result,
    }
}

async fn physical(
    relation: &Relation,
    binder: &Binder<'_>,
    state: &SessionState,
) -> SqlResult<Arc<dyn ExecutionPlan>> {
    crate::plan_size::check(&relation.plan)?;
    sql::plan::require_few_columns(relation.star.len())?;
    let own = async |plan: &LogicalPlan| {
        let logical: LogicalPlan = state.optimize(plan).planned()?;
        state.query_planner().create_physical_plan(&logical, state).await.planned()
    };
    // Those that others read come before them.
    let tables = binder.common_rows.borrow().clone();
    for table in tables {
        crate::plan_size::check(&table.plan)?;
        table.set_physical(own(&table.plan).await?);
    }
    own(&relation.plan).await
}

struct Job {
    shared: Arc<Shared>,
    state: SessionState,
    relation: Relation,
    plan: Arc<dyn ExecutionPlan>,
    parameters: Vec<PgType>,
}

impl Job {
    /// Runs the plan, giving each batch to `f`, which answers whether to go on.
    async fn each_batch(&self, f: &mut dyn FnMut(&RecordBatch) -> SqlResult<bool>) -> SqlResult<()> {
        let mut stream =
            datafusion::physical_plan::execute_stream(Arc::clone(&self.plan), self.state.task_ctx())
                .map_err(sql_error)?;
        while let Some(batch) = stream.try_next().await.map_err(sql_error)? {
            self.shared.check_cancelled()?;
            if !f(&batch)? {
                self.shared.control.cancel();
                return Ok(());
            }
        }
        Ok(())
    }

    fn row(&self, batch: &RecordBatch, i: usize, row: &mut Row) -> SqlResult<()> {
        row.clear();
        let mut bytes = 0;
        for at in &self.relation.star {
            let value = value::datum(batch.column(*at), i, self.relation.columns[*at].ty)?;
            // Each may be a copy of the same long value.
            bytes += value.heap_bytes();
            sql::require_row_len(bytes)?;
            row.push(value);
        }
        Ok(())
    }

    async fn to_client(
        &self,
        formats: &Formats,
        say: &mut dyn FnMut(AnalyticEvent) -> bool,
    ) -> SqlResult<()> {
        let fields = fields(&self.relation);
        formats.require_columns(fields.len())?;
        let format = &self.shared.context.format;
        let mut encode = |row: &Row, out: &mut Vec<u8>| encode_row(row, &fields, formats, format, out);
        self.to_client_as(fields.clone(), &mut Vec::new(), &mut encode, say).await
    }

    async fn to_copy(
        &self,
        options: &CopyOptions,
        say: &mut dyn FnMut(AnalyticEvent) -> bool,
    ) -> SqlResult<()> {
        let fields = fields(&self.relation);
        let mut bytes = Vec::new();
        let mut encoder = CopyEncoder::begin(&fields, options, &mut bytes)?;
        let format = &self.shared.context.format;
        let mut encode = |row: &Row, out: &mut Vec<u8>| encoder.row(row, format, out);
        self.to_client_as(fields, &mut bytes, &mut encode, say).await?;
        // What stands before the first row is still there if there was none.
        encoder.end(&mut bytes);
        if !bytes.is_empty() {
            say(AnalyticEvent::Encoded { rows: 0, bytes });
        }
        Ok(())
    }

    /// Says the rows as `encode` appends them. What `before` has goes out with the first ones, since a query of which rows were said is not tried again.
    async fn to_client_as(
        &self,
        fields: Arc<[Field]>,
        before: &mut Vec<u8>,
        encode: &mut dyn FnMut(&Row, &mut Vec<u8>),
        say: &mut dyn FnMut(AnalyticEvent) -> bool,
    ) -> SqlResult<()> {
        if !say(AnalyticEvent::Columns { parameters: self.parameters.clone(), fields }) {
            return Ok(());
        }
        let mut row = Row::new();
        self.each_batch(&mut |batch| {
            let mut next = 0;
            while next < batch.num_rows() {
                let (start, mut bytes) = (next, std::mem::take(before));
                while next < batch.num_rows().min(start + EVENT_ROWS) && bytes.len() < EVENT_LEN {
                    self.row(batch, next, &mut row)?;
                    encode(&row, &mut bytes);
                    next += 1;
                }
                if !say(AnalyticEvent::Encoded { rows: (next - start) as u64, bytes }) {
                    return Ok(false);
                }
            }
            Ok(true)
        })
        .await
    }

    /// Says all rows at the end: those of an attempt that fails before are gone with it, and another one may follow.
    async fn to_session(
        &self,
        temp: Option<Arc<TempSpace>>,
        say: &mut dyn FnMut(AnalyticEvent) -> bool,
    ) -> SqlResult<()> {
        let fields = fields(&self.relation);
        if !say(AnalyticEvent::Columns { parameters: self.parameters.clone(), fields }) {
            return Ok(());
        }
        let mut rows = RowStoreWriter::new(temp);
        self.each_batch(&mut |batch| {
            for i in 0..batch.num_rows() {
                let mut row = Row::with_capacity(self.relation.star.len());
                self.row(batch, i, &mut row)?;
                rows.push(row)?;
            }
            Ok(true)
        })
        .await?;
        say(AnalyticEvent::Stored(rows.finish()?));
        Ok(())
    }

    async fn explain(
        &self,
        reason: &str,
        analyze: bool,
        verbose: bool,
        say: &mut dyn FnMut(AnalyticEvent) -> bool,
    ) -> SqlResult<()> {
        let mut rows = 0;
        if analyze {
            self.each_batch(&mut |batch| {
                rows += batch.num_rows();
                Ok(true)
            })
            .await?;
        }
        let text = |plan: &Arc<dyn ExecutionPlan>| {
            let plan = plan.as_ref();
            if analyze {
                let displayed =
                    datafusion::physical_plan::display::DisplayableExecutionPlan::with_metrics(plan);
                displayed.indent(verbose).to_string()
            } else {
                datafusion::physical_plan::displayable(plan).indent(verbose).to_string()
            }
        };
        let field = Field {
            name: "QUERY PLAN".to_owned(),
            table_oid: 0,
            attribute: 0,
            ty: PgType::Text,
            modifier: types::TypeMod::NONE,
        };
        if !say(AnalyticEvent::Columns { parameters: self.parameters.clone(), fields: Arc::new([field]) }) {
            return Ok(());
        }
        let mut lines = vec![format!("Analytical path: {reason}")];
        lines.extend(text(&self.plan).lines().map(|line| format!("  {line}")));
        for (name, plan) in all_read_by(&self.plan) {
            lines.push(format!("CTE {name}"));
            lines.extend(text(&plan).lines().map(|line| format!("  {line}")));
        }
        if analyze {
            lines.push(format!("Rows: {rows}"));
        }
        let lines = lines.into_iter().map(|line| vec![Datum::text(line)]).collect();
        say(AnalyticEvent::Stored(RowStore::of_rows(lines)));
        Ok(())
    }
}
