//! EXPLAIN and EXPLAIN ANALYZE: which path a statement takes and why, and what it really did.

use std::sync::Arc;

use base::{SqlError, SqlResult, SqlState};
use sqlparser::ast;
use types::{Datum, Row};

use super::analytic::{AnalyticState, Deliver};
use super::context::StatementHost;
use super::prepared::Planned;
use super::reply::Field;
use super::run::{Ran, Run, pause};
use super::setting_statement::text_field;
use super::{Home, Pause, Reply, Session};
use crate::exec;
use crate::explain::{self, ExplainOptions};
use crate::parse::ParsedStatement;
use crate::plan::PlanKind;

/// An EXPLAIN as read.
pub(super) struct Explain<'a> {
    statement: &'a ast::Statement,
    options: ExplainOptions,
}

/// The one column of its answer.
pub(super) fn fields() -> Vec<Field> {
    vec![text_field("QUERY PLAN")]
}

/// The EXPLAIN in a statement, if it is one.
///
/// # Errors
/// 0A000 for a format but text; 42601 for an option that PostgreSQL has not.
pub(super) fn parse(statement: &ast::Statement) -> SqlResult<Option<Explain<'_>>> {
    let ast::Statement::Explain { analyze, verbose, statement, format, options, .. } = statement else {
        return Ok(None);
    };
    let mut explain = ExplainOptions { analyze: *analyze, verbose: *verbose, timing: true, costs: true };
    if let Some(format) = format {
        let name = format.to_string();
        if !name.to_uppercase().contains("TEXT") {
            return Err(SqlError::unsupported(format!("EXPLAIN in the format {name}")));
        }
    }
    for option in options.iter().flatten() {
        let on = !matches!(&option.arg, Some(arg) if matches!(arg.to_string().to_lowercase().as_str(), "false" | "off" | "0"));
        match option.name.value.to_lowercase().as_str() {
            "analyze" => explain.analyze = on,
            "verbose" => explain.verbose = on,
            "timing" => explain.timing = on,
            "costs" => explain.costs = on,
            // What they would add is not counted; without it the plan is complete.
            "summary" | "settings" | "buffers" | "wal" if !on => {}
            "format" if option.arg.as_ref().is_some_and(|arg| arg.to_string().eq_ignore_ascii_case("text")) => {}
            other @ ("summary" | "settings" | "buffers" | "wal" | "format") => {
                return Err(SqlError::unsupported(format!("the EXPLAIN option {other}")));
            }
            other => {
                let message = format!("unrecognized EXPLAIN option \"{other}\"");
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
            }
        }
    }
    Ok(Some(Explain { statement, options: explain }))
}

impl Session {
    pub(super) fn run_explain(
        &mut self,
        home: &mut Home<'_>,
        explain: &Explain<'_>,
        run: &Run<'_>,
        out: &mut dyn Reply,
    ) -> Result<Ran, Pause> {
        let parsed = ParsedStatement::Ast(Box::new(explain.statement.clone()));
        let Some(planned) = self.planned(home, &parsed, &[], None)? else {
            return Err(SqlError::unsupported("EXPLAIN of a statement that is not a query or DML").into());
        };
        self.check_access(home, &planned.bound)?;
        let lines = match &planned.bound.kind {
            PlanKind::Point(_) => self.explain_point(home, &planned, explain.options)?,
            PlanKind::Analytic { reason } => {
                let mut lines = vec![format!("Analytical path: {reason}")];
                lines.extend(self.explain_analytic(home, &planned, explain.options)?);
                lines
            }
        };
        let rows: Vec<Row> = lines.into_iter().map(|line| vec![Datum::text(line)]).collect();
        self.send_rows(home, &fields(), &rows, run, out)?;
        Ok(Ran::Tag("EXPLAIN".into()))
    }

    fn explain_point(
        &mut self,
        home: &mut Home<'_>,
        planned: &Arc<Planned>,
        options: ExplainOptions,
    ) -> Result<Vec<String>, Pause> {
        let plan = planned.bound.point().expect("the caller looked");
        if !options.analyze {
            return Ok(explain::describe(plan, options));
        }
        if planned.bound.external_source().is_some() {
            return Err(SqlError::unsupported("EXPLAIN ANALYZE of DML with an analytical source").into());
        }
        let open = self.transaction.open().expect("a statement runs in a transaction");
        let host =
            StatementHost::new(&self.start, &self.settings, &self.role_name, &self.sequences, self.sleep_until);
        let env = exec::ExecEnv {
            session: &host,
            format: &self.format,
            statement_start: self.statement_start,
            source: None,
        };
        let mut view = home.tenant.view(&mut open.txn, home.redo);
        let clock = || self.start.host.now();
        let lines = explain::analyze(plan, &[], &env, &mut view, &clock, options);
        lines.map_err(|interrupt| pause(interrupt, home.tenant, &open.txn))
    }

    fn explain_analytic(
        &mut self,
        home: &mut Home<'_>,
        planned: &Arc<Planned>,
        options: ExplainOptions,
    ) -> Result<Vec<String>, Pause> {
        match std::mem::take(&mut self.analytic) {
            AnalyticState::Gathered { rows, .. } => {
                let text = |row: Row| row.first().and_then(|value| value.as_str().map(str::to_owned));
                Ok(rows.into_iter().filter_map(text).collect())
            }
            AnalyticState::Failed(error) => Err(error.into()),
            _ => {
                let deliver = Deliver::Explain { analyze: options.analyze, verbose: options.verbose };
                let request = self.analytic_request(home, planned, Vec::new(), deliver)?;
                self.analytic = AnalyticState::Gathering { fields: Vec::new(), rows: Vec::new() };
                Err(Pause::Analytic(Box::new(request)))
            }
        }
    }
}
