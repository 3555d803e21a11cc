//! EXPLAIN and EXPLAIN ANALYZE: which path a statement takes and why, and what it really did.

use std::sync::Arc;

use base::{Nanos, SqlError, SqlResult};
use sqlparser::ast;
use types::{Datum, PgType, Row};

use super::analytic::{AnalyticState, Deliver};
use super::prepared::Planned;
use super::reply::Field;
use super::run::{Ran, Run};
use super::setting_statement::text_field;
use super::{Home, Pause, Reply, RowStore, Session};
use crate::exec::{ExecLimits, Profile};
use crate::explain::{self, Analyzed, ExplainOptions};
use crate::parse::ParsedStatement;
use crate::plan::PlanKind;

/// An EXPLAIN as read.
pub(super) struct Explain<'a> {
    statement: &'a ast::Statement,
    options: ExplainOptions,
}

impl Explain<'_> {
    /// The one column of its answer.
    pub(super) fn fields(&self) -> Vec<Field> {
        let field = text_field("QUERY PLAN");
        vec![if self.options.as_json { Field { ty: PgType::Json, ..field } } else { field }]
    }
}

/// The EXPLAIN in a statement, if it is one.
///
/// # Errors
/// As [`explain::explain_options`].
pub(super) fn parse(statement: &ast::Statement) -> SqlResult<Option<Explain<'_>>> {
    if !matches!(statement, ast::Statement::Explain { .. }) {
        return Ok(None);
    }
    let (options, statement) = explain::explain_options(statement)?;
    Ok(Some(Explain { statement, options }))
}

impl Session {
    pub(super) fn run_explain(
        &mut self,
        home: &mut Home<'_>,
        explain: &Explain<'_>,
        run: &Run<'_>,
        out: &mut dyn Reply,
    ) -> Result<Ran, Pause> {
        // Of its first run, where it had to wait.
        let began = self.underway().began;
        let planning_began = self.start.host.now();
        let (planned, parameters) = self.explained(home, explain.statement, run)?;
        self.check_access(home, &planned)?;
        let lines = match &planned.bound.kind {
            PlanKind::Point(_) => {
                let planning = self.start.host.now() - planning_began;
                self.explain_point(home, &planned, &parameters, explain.options, began, planning)?
            }
            PlanKind::Analytic { .. } => {
                self.explain_analytic(home, &planned, parameters, explain.options)?
            }
        };
        let rows: Vec<Row> = match explain.options.as_json {
            true => vec![vec![Datum::Json(explain::json(&lines).into())]],
            false => lines.into_iter().map(|line| vec![Datum::text(line)]).collect(),
        };
        self.send_rows(home, &explain.fields(), &rows, run, out)?;
        Ok(Ran::Tag("EXPLAIN".into()))
    }

    /// The plan of the statement that an EXPLAIN is about, and its parameters.
    fn explained(
        &mut self,
        home: &mut Home<'_>,
        statement: &ast::Statement,
        run: &Run<'_>,
    ) -> Result<(Arc<Planned>, Vec<Datum>), Pause> {
        if let Some(execute) = super::script::parse_execute(statement) {
            let called = self.called(home, execute)?;
            return Ok((called.planned, called.parameters));
        }
        let parsed = ParsedStatement::Ast(Box::new(statement.clone()));
        let types = run.planned.map_or(&[][..], |planned| &planned.parameters[..]);
        match self.planned(home, &parsed, types, None)? {
            Some(planned) => Ok((planned, run.parameters.to_vec())),
            None => Err(SqlError::unsupported("EXPLAIN of a statement that is not a query or DML").into()),
        }
    }

    fn explain_point(
        &mut self,
        home: &mut Home<'_>,
        planned: &Arc<Planned>,
        parameters: &[Datum],
        options: ExplainOptions,
        began: Nanos,
        planning: Nanos,
    ) -> Result<Vec<String>, Pause> {
        let plan = planned.bound.point().expect("the caller looked");
        if !options.analyze {
            return Ok(explain::explain(&planned.bound, options, planning, None));
        }
        if planned.query.is_some() && !matches!(self.analytic, AnalyticState::Idle) {
            // It has left the point path before.
            return self.explain_analytic(home, planned, parameters.to_vec(), options);
        }
        let host = Arc::clone(&self.start.host);
        let clock = move || host.now();
        let profile = Profile::new(plan, &clock);
        let limits = ExecLimits { profile: Some(&profile), ..self.limits_of_point_path(planned) };
        let done = self.run_point(home, planned, parameters, &mut super::copying::Discard, limits)?;
        let Some(done) = done else {
            // It would leave the point path, and is measured where it goes.
            return self.explain_analytic(home, planned, parameters.to_vec(), options);
        };
        let execution = self.start.host.now() - began - planning;
        let analyzed = Analyzed { profile: &profile, done, execution };
        Ok(explain::explain(&planned.bound, options, planning, Some(&analyzed)))
    }

    fn explain_analytic(
        &mut self,
        home: &mut Home<'_>,
        planned: &Arc<Planned>,
        parameters: Vec<Datum>,
        options: ExplainOptions,
    ) -> Result<Vec<String>, Pause> {
        match std::mem::take(&mut self.analytic) {
            AnalyticState::Gathered { mut rows, .. } => {
                let text = |row: &Row| row.first().and_then(|value| value.as_str().map(str::to_owned));
                match rows.rows_from(0) {
                    Ok(lines) => Ok(lines.iter().filter_map(text).collect()),
                    Err(_) => Err(SqlError::internal("the lines of a plan were put aside").into()),
                }
            }
            AnalyticState::Failed(error) => Err(error.into()),
            _ => {
                let deliver = Deliver::Explain { analyze: options.analyze, verbose: options.verbose };
                let request = self.analytic_request(home, planned, parameters, deliver)?;
                self.analytic =
                    AnalyticState::Gathering { fields: Arc::default(), rows: RowStore::default() };
                Err(Pause::Analytic(Box::new(request)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::session::testing::Bench;

    #[test]
    fn each_option_is_honoured_or_refused() {
        let mut bench = Bench::new();
        let mut session = bench.session();
        let mut lines =
            |options: &str| bench.run(&mut session, &format!("EXPLAIN {options} SELECT 1")).lines();
        let has = |lines: &[String], what: &str| lines.iter().any(|line| line.contains(what));
        for (options, planning, execution, time, rows) in [
            ("", false, false, false, true),
            ("(SUMMARY)", true, false, false, true),
            ("(SUMMARY off, TIMING off, COSTS 'off')", false, false, false, false),
            ("ANALYZE", true, true, true, true),
            ("(ANALYZE, SUMMARY off)", false, false, true, true),
            ("(ANALYZE, TIMING off)", false, false, false, true),
            ("(ANALYZE, TIMING off, SUMMARY on)", true, true, false, true),
            ("(ANALYZE, VERBOSE 1, COSTS off, COSTS on, FORMAT text)", true, true, true, true),
            ("(BUFFERS off, WAL 0, SETTINGS false, ANALYSE off)", false, false, false, true),
        ] {
            let lines = lines(options);
            let told = ["Planning Time: ", "Execution Time: ", "(actual time=", "  (rows="];
            assert_eq!(
                told.map(|what| has(&lines, what)),
                [planning, execution, time, rows],
                "{options}: {lines:?}"
            );
            assert_eq!(has(&lines, "Output: 1"), options.contains("VERBOSE"), "{options}");
        }
        for (options, error) in [
            ("(nonsense)", "42601 unrecognized EXPLAIN option \"nonsense\""),
            ("(GENERIC_PLAN)", "42601 unrecognized EXPLAIN option \"generic_plan\""),
            ("(ANALYZE yes)", "42601 analyze requires a Boolean value"),
            ("(SUMMARY 2)", "42601 summary requires a Boolean value"),
            ("(BUFFERS maybe)", "42601 buffers requires a Boolean value"),
            ("(TIMING)", "22023 EXPLAIN option TIMING requires ANALYZE"),
            ("(FORMAT nonsense)", "22023 unrecognized value for EXPLAIN option \"format\": \"nonsense\""),
            ("(FORMAT)", "42601 format requires a parameter"),
            ("(FORMAT xml)", "0A000 EXPLAIN format xml is not supported"),
            ("(ANALYZE, BUFFERS)", "0A000 EXPLAIN option buffers is not supported"),
            ("FORMAT TEXT", "0A000 this form of EXPLAIN is not supported"),
        ] {
            let refused = bench.fail(&mut session, &format!("EXPLAIN {options} SELECT 1"));
            assert_eq!(format!("{} {}", refused.state(), refused.message()), error, "{options}");
        }
    }

    #[test]
    fn a_plan_in_json_is_one_value() {
        let mut bench = Bench::new();
        let mut session = bench.session();
        bench.run(
            &mut session,
            "CREATE TABLE t (a int PRIMARY KEY); INSERT INTO t SELECT n FROM generate_series(1, 100) AS s(n)",
        );
        bench.run(&mut session, "PREPARE p AS SELECT a FROM t WHERE a = $1");
        // As sqlx asks of what it has prepared, and pgAdmin.
        for sql in [
            "EXPLAIN (VERBOSE, FORMAT JSON) EXECUTE p(NULL)",
            "EXPLAIN (FORMAT JSON, ANALYZE OFF, VERBOSE OFF, COSTS OFF, BUFFERS OFF, TIMING OFF, SUMMARY OFF, SETTINGS OFF, WAL OFF) \
             SELECT a FROM t WHERE a = 1",
            "EXPLAIN (ANALYZE, FORMAT json) SELECT a FROM t WHERE a = 1",
        ] {
            let lines = bench.run(&mut session, sql).lines();
            assert_eq!(lines.len(), 1, "{sql}");
            let plan: serde_json::Value = serde_json::from_str(&lines[0]).unwrap();
            assert_eq!(plan[0]["Plan"]["Node Type"], "Index Scan", "{sql}: {plan}");
            assert_eq!(plan[0]["Plan"]["Index Name"], "t_pkey", "{sql}: {plan}");
        }
    }
}
