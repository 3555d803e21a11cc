//! A tenant in memory that runs SQL text through the planner and the executor, one transaction a statement.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use base::{Nanos, Oid, SessionId, SqlResult, TenantId};
use sql::exec::{self, ExecDone, ExecEnv, ExecError, ExecLimits, ExternalRows, Flow, Profile, RowSink};
use sql::explain::{Analyzed, ExplainOptions, explain};
use sql::expr::ParamTypes;
use sql::parse::{ParsedStatement, parse_one};
use sql::plan::{self, BoundPlan, IdentityValues, OutputColumn, PlanContext, PlanKind, TableRows};
use tenant::catalog::Catalog;
use tenant::{Interrupt, Isolation, Tenant};
use types::{Datum, FormatContext, PgType, Row};

use crate::session::{Log, Names, TestSession};

pub(crate) struct Database {
    pub(crate) tenant: Tenant,
    pub(crate) log: Log,
    last: Cell<Option<i64>>,
}

/// What came of a statement.
#[derive(Debug)]
pub(crate) enum Outcome {
    Rows { columns: Vec<OutputColumn>, rows: Vec<Row>, tag: String },
    Analytic(String),
    Done,
}

#[derive(Default)]
struct Collect(Vec<Row>);

impl RowSink for Collect {
    fn row(&mut self, row: &[Datum]) -> SqlResult<Flow> {
        self.0.push(row.to_vec());
        Ok(Flow::More)
    }
}

struct Counts<'a>(&'a Tenant);

impl TableRows for Counts<'_> {
    fn rows(&self, table: Oid) -> u64 {
        self.0.catalog().table(table).map_or(0, |table| self.0.row_count(table))
    }
}

impl Database {
    pub(crate) fn new() -> Database {
        Database {
            tenant: Tenant::in_memory(TenantId(16), "postgres"),
            log: Log::default(),
            last: Cell::new(None),
        }
    }

    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(self.tenant.catalog())
    }

    pub(crate) fn path(&self) -> Vec<Oid> {
        self.tenant.catalog().search_path(["$user", "public"], "postgres")
    }

    pub(crate) fn format(&self) -> FormatContext {
        let names = Names { catalog: self.catalog(), path: self.path() };
        FormatContext { names: Some(Arc::new(names)), ..FormatContext::default() }
    }

    pub(crate) fn bind(&self, sql: &str, types: &[PgType]) -> SqlResult<BoundPlan> {
        let parsed = parse_one(sql)?.expect("one statement");
        let ParsedStatement::Ast(statement) = parsed.statement else { panic!("not a query: {sql}") };
        let (format, path, params) = (self.format(), self.path(), ParamTypes::new(types));
        let catalog = self.catalog();
        let rows = Counts(&self.tenant);
        let ctx = PlanContext {
            catalog: &catalog,
            search_path: &path,
            params: &params,
            format: &format,
            rows: &rows,
            identity: IdentityValues::Refused,
        };
        plan::bind(&statement, &ctx)
    }

    /// Runs a plan in a transaction of its own.
    pub(crate) fn run_plan(&mut self, plan: &BoundPlan, params: &[Datum]) -> SqlResult<(Vec<Row>, ExecDone)> {
        self.run_with(plan, params, None)
    }

    /// The same with rows computed elsewhere.
    pub(crate) fn run_with(
        &mut self,
        plan: &BoundPlan,
        params: &[Datum],
        external: Option<ExternalRows<'_>>,
    ) -> SqlResult<(Vec<Row>, ExecDone)> {
        self.run_limited(plan, params, external, ExecLimits::default())
    }

    fn run_limited(
        &mut self,
        plan: &BoundPlan,
        params: &[Datum],
        external: Option<ExternalRows<'_>>,
        limits: ExecLimits<'_>,
    ) -> SqlResult<(Vec<Row>, ExecDone)> {
        let format = self.format();
        let mut txn = self.tenant.begin(SessionId(1), Isolation::ReadCommitted, false, true);
        let mut sink = Collect::default();
        let result = {
            let mut log = Log::default();
            let view = RefCell::new(self.tenant.view(&mut txn, &mut log));
            let session = TestSession { view: &view, last: &self.last };
            let env = ExecEnv { format: &format, statement_start: 0, session: &session };
            let point = plan.point().expect("a point plan");
            exec::run(point, params, &env, &view, external, &mut sink, limits)
        };
        match result {
            Ok(done) => {
                self.tenant.commit(txn, &mut self.log)?;
                Ok((sink.0, done))
            }
            Err(error) => {
                self.tenant.abort(txn);
                match error {
                    ExecError::Interrupt(Interrupt::Error(error)) => Err(error),
                    other => panic!("a lone session is interrupted: {other:?}"),
                }
            }
        }
    }

    /// Runs any statement the tests use.
    pub(crate) fn execute(&mut self, sql: &str) -> SqlResult<Outcome> {
        self.execute_with(sql, &[], &[])
    }

    pub(crate) fn execute_with(
        &mut self,
        sql: &str,
        types: &[PgType],
        params: &[Datum],
    ) -> SqlResult<Outcome> {
        if crate::ddl::execute(self, sql)? {
            return Ok(Outcome::Done);
        }
        let plan = self.bind(sql, types)?;
        if let PlanKind::Analytic { reason, .. } = &plan.kind {
            return Ok(Outcome::Analytic(reason.clone()));
        }
        if let Some(external) = plan.external_source() {
            return Ok(Outcome::Analytic(external.reason.clone()));
        }
        let (rows, done) = self.run_plan(&plan, params)?;
        Ok(Outcome::Rows { columns: plan.output.clone(), rows, tag: plan.command.tag(done.rows).into() })
    }

    pub(crate) fn to_text(&self, columns: &[OutputColumn], rows: &[Row]) -> Vec<Vec<Option<String>>> {
        let format = self.format();
        let value = |(d, column): (&Datum, &OutputColumn)| {
            (!d.is_null()).then(|| types::to_text(d, column.ty, &format))
        };
        rows.iter().map(|row| row.iter().zip(columns).map(value).collect()).collect()
    }

    pub(crate) fn explain_analyze(&mut self, sql: &str) -> Vec<String> {
        let plan = self.bind(sql, &[]).expect(sql);
        let clock = || Nanos(0);
        let profile = Profile::new(plan.point().expect("a point plan"), &clock);
        let limits = ExecLimits { profile: Some(&profile), ..ExecLimits::default() };
        let (_, done) = self.run_limited(&plan, &[], None, limits).expect(sql);
        let analyzed = Analyzed { profile: &profile, done, execution: Nanos(0) };
        let options = ExplainOptions { costs_off: true, timing_off: true, ..ExplainOptions::default() };
        explain(&plan, options, Nanos(0), Some(&analyzed))
    }

    pub(crate) fn explain(&self, sql: &str) -> Vec<String> {
        let plan = self.bind(sql, &[]).expect(sql);
        explain(&plan, ExplainOptions { costs_off: true, ..ExplainOptions::default() }, Nanos(0), None)
    }
}
