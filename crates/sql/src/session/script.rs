//! The simple protocol: a script of statements in one implicit transaction, and SQL's PREPARE and EXECUTE.

use super::reply::Formats;
use std::sync::Arc;

use base::{Lsn, Nanos, SqlError, SqlResult, SqlState};
use sqlparser::ast;
use types::{Datum, PgType};

use super::counting::{Outcome, StatementText};
use super::kept_rows::BUFFERED_MAX;
use super::prepared::{PARAMETER_SIZE, PARAMETERS_MAX, Planned, Prepared, changed_result};
use super::run::{Ran, Run};
use super::transaction::Transaction;
use super::{Executed, Home, Pause, Reply, Session};
use crate::expr::{
    BindContext, EmptyScope, ExprKind, ParamTypes, Volatility, bind_expr, bind_type, coerce_assignment,
};
use crate::parse::{ParsedStatement, ScriptStatement};

/// The wall clock is read again for what begins so long after it was: the two clocks may go apart by a two-thousandth.
const CLOCK_READ_AFTER: Nanos = Nanos::from_millis(10);

/// What the clocks said when the first statement began of the messages that came last.
#[derive(Clone, Copy)]
pub(super) enum ClockRead {
    /// Nobody tells when messages come: the wall clock is read for each statement.
    Never,
    /// None has begun yet.
    Due,
    /// The wall clock, in microseconds since 2000-01-01 UTC, and the monotonic one behind it.
    At(i64, Nanos),
}

/// A Query message under way.
pub(super) struct Script {
    statements: Vec<ScriptStatement>,
    next: usize,
    /// The plan of the statement that runs, kept while it pauses.
    planned: Option<Arc<Planned>>,
    /// The statement ran; its transaction is to be committed before its tag goes out.
    finished: Option<compact_str::CompactString>,
}

/// What an EXECUTE runs.
pub(super) struct Called {
    pub(super) statement: Arc<ParsedStatement>,
    pub(super) sql: Arc<StatementText>,
    pub(super) planned: Arc<Planned>,
    pub(super) parameters: Vec<Datum>,
}

impl Session {
    /// Runs a simple Query message: all its statements, each answered with its rows and CommandComplete. The same `sql` is
    /// passed again after a pause. ReadyForQuery is the caller's.
    pub fn query(&mut self, home: &mut Home<'_>, sql: &str, out: &mut dyn Reply) -> Result<Executed, Pause> {
        if self.script.is_none() {
            self.begin_statement();
            self.report_active(sql);
            // A simple Query destroys the unnamed statement and portal, as PostgreSQL's does.
            self.statements.remove("");
            self.portals.take("");
            let read = self.read_script(sql);
            let statements = self.failing(home, read)?;
            if statements.is_empty() {
                out.empty_query();
                return Ok(Executed::Complete);
            }
            self.script = Some(Script { statements, next: 0, planned: None, finished: None });
        }
        let outcome = self.run_script(home, out);
        if matches!(&outcome, Err(Pause::Error(_))) {
            self.count_end(Outcome::Failed);
        }
        if !matches!(&outcome, Ok(Executed::CopyIn))
            && !matches!(&outcome, Err(p) if !matches!(p, Pause::Error(_)))
        {
            self.script = None;
        }
        outcome
    }

    fn run_script(&mut self, home: &mut Home<'_>, out: &mut dyn Reply) -> Result<Executed, Pause> {
        loop {
            let Some(mut script) = self.script.take() else { return Ok(Executed::Complete) };
            if script.next == script.statements.len() {
                // The last statement was a COPY, which ended by itself.
                return Ok(Executed::Complete);
            }
            let outcome = self.script_step(home, &mut script, out);
            let finished = script.next == script.statements.len();
            if !finished || !matches!(outcome, Ok(Executed::Complete)) {
                self.script = Some(script);
            }
            match outcome? {
                Executed::CopyIn => return Ok(Executed::CopyIn),
                Executed::Complete if finished => return Ok(Executed::Complete),
                // What the statements so far answered is sent before more comes.
                Executed::Complete if out.buffered() > BUFFERED_MAX => {
                    self.pass_turn(home);
                    return Err(Pause::Slice(Lsn(0)));
                }
                // Many short statements are looked at as a long one is: each of them may end before it would be asked by itself.
                Executed::Complete if self.start.host.is_to_end(&self.underway()) => {
                    self.pass_turn(home);
                    return Err(Pause::Yield);
                }
                Executed::Complete => {}
            }
        }
    }

    /// Runs the next statement of the script and, after the last one, commits.
    fn script_step(
        &mut self,
        home: &mut Home<'_>,
        script: &mut Script,
        out: &mut dyn Reply,
    ) -> Result<Executed, Pause> {
        let last = script.next + 1 == script.statements.len();
        if script.finished.is_none() {
            let ScriptStatement { statement, sql, .. } = &script.statements[script.next];
            if !is_execute(statement) {
                self.count_text(sql);
            }
            // Another session may have changed the catalog while the statement waited: then it is planned anew, unless its rows are on
            // their way.
            let version = self.peek_catalog(home).version();
            if script.planned.as_ref().is_some_and(|planned| planned.catalog_version != version)
                && !self.analytic.is_streaming()
            {
                script.planned = None;
            }
            if script.planned.is_none() && !matches!(self.transaction, Transaction::Failed(_)) {
                match self.planned(home, statement, &[], None) {
                    Ok(planned) => script.planned = planned,
                    Err(error) => {
                        self.fail_transaction(home);
                        return Err(error.into());
                    }
                }
                if let Some(planned) = &script.planned
                    && let Err(error) = planned.require_parameters(0)
                {
                    self.fail_transaction(home);
                    return Err(error.into());
                }
            }
            let run = Run {
                statement,
                sql,
                planned: script.planned.as_ref(),
                parameters: &[],
                formats: &Formats::default(),
                describe: true,
                shared: script.statements.len() > 1,
                holds: false,
            };
            let ran = self.run_statement(home, &run, out)?;
            script.planned = None;
            match ran {
                Ran::CopyIn => {
                    // COPY's own end answers for it.
                    script.next += 1;
                    return Ok(Executed::CopyIn);
                }
                Ran::Ended(tag) => {
                    script.next += 1;
                    self.complete(tag, out);
                    self.begin_statement();
                    return Ok(Executed::Complete);
                }
                Ran::Tag(tag) => script.finished = Some(tag),
            }
        }
        if last {
            self.commit_implicit(home)?;
        }
        script.next += 1;
        let tag = script.finished.take().expect("set just above");
        self.complete(&tag, out);
        self.begin_statement();
        Ok(Executed::Complete)
    }

    /// Tells the client that the statement has ended well, and how.
    pub(super) fn complete(&mut self, tag: &str, out: &mut dyn Reply) {
        out.command_complete(tag);
        self.count_end(Outcome::of_tag(tag));
    }

    /// Whether statements of a script wait behind the COPY that runs.
    pub(super) fn script_continues(&self) -> bool {
        self.script.as_ref().is_some_and(|script| script.next < script.statements.len())
    }

    /// Shows the statement that begins.
    pub(super) fn report_active(&self, sql: &str) {
        self.start.host.report_activity("active", Some(sql), self.statement_start);
    }

    /// Shows that nothing runs and the client may speak. For the one who sends ReadyForQuery.
    pub fn report_idle(&self) {
        let state = match self.transaction {
            Transaction::Idle | Transaction::Implicit(_) => "idle",
            Transaction::Block(_) => "idle in transaction",
            Transaction::Failed(_) => "idle in transaction (aborted)",
        };
        self.start.host.report_activity(state, None, self.start.host.wall_clock());
    }

    /// Notes the time a statement begins. Outside of a transaction it is that of the one which the statement will open, too: its text is bound and its
    /// parameters are read before that, and say `'now'` and `'today'`. Answers the monotonic clock's time, by which that of messages that came together is
    /// told.
    pub(super) fn begin_statement(&mut self) -> Nanos {
        let host = &self.start.host;
        let told = match self.clock_read {
            ClockRead::At(micros, then) => {
                let now = host.now();
                let since = now - then;
                (since < CLOCK_READ_AFTER).then(|| (micros + (since.0 / 1000).cast_signed(), now))
            }
            ClockRead::Never | ClockRead::Due => None,
        };
        let (micros, now) = told.unwrap_or_else(|| {
            // The wall clock first: however long the thread is away between the two, what is told by them is never ahead of it.
            let micros = host.wall_clock();
            (micros, host.now())
        });
        if told.is_none() && !matches!(self.clock_read, ClockRead::Never) {
            self.clock_read = ClockRead::At(micros, now);
        }
        self.statement_start = micros;
        if matches!(self.transaction, Transaction::Idle) {
            self.transaction_start = self.statement_start;
            Arc::make_mut(&mut self.format).now = self.transaction_start;
        }
        now
    }

    /// SQL's PREPARE.
    pub(super) fn prepare_by_sql(
        &mut self,
        home: &mut Home<'_>,
        name: &str,
        types: &[ast::DataType],
        statement: &ParsedStatement,
        (sql, size): (&str, usize),
    ) -> Result<String, Pause> {
        if self.statements.contains_key(name) {
            let message = format!("prepared statement \"{name}\" already exists");
            return Err(SqlError::new(SqlState::DUPLICATE_PREPARED_STATEMENT, message).into());
        }
        if types.len() > PARAMETERS_MAX {
            let message = format!("a statement may have {PARAMETERS_MAX} parameters");
            return Err(SqlError::new(SqlState::TOO_MANY_ARGUMENTS, message).into());
        }
        let size = size + types.len() * PARAMETER_SIZE;
        self.require_room_to_keep(name.len() + size)?;
        let catalog = self.catalog(home);
        self.refresh_format(&catalog);
        let params = ParamTypes::none();
        let context = BindContext::simple(&params, &self.format, "PREPARE");
        let declared: Vec<PgType> =
            types.iter().map(|ty| bind_type(ty, &context).map(|(ty, _)| ty)).collect::<SqlResult<_>>()?;
        let Some(mut plan) = self.planned_to_keep(home, name, statement, &declared, None)? else {
            return Err(SqlError::unsupported("PREPARE of a statement that is not a query or DML").into());
        };
        self.share_plan(home, name, sql, &mut plan);
        let size = self.size_with_plan(name, size, Some(&*plan))?;
        let prepared = Prepared {
            sql: StatementText::new(sql),
            statement: Some(Arc::new(statement.clone())),
            declared,
            plan: Some(plan),
            at: self.statement_start,
            from_sql: true,
            size,
            was_bound: false,
            is_shed: false,
            told: None,
            used: Default::default(),
        };
        self.statements.insert(name, prepared);
        Ok("PREPARE".into())
    }

    /// SQL's EXECUTE.
    pub(super) fn run_execute(
        &mut self,
        home: &mut Home<'_>,
        execute: (String, &[ast::Expr]),
        run: &Run<'_>,
        out: &mut dyn Reply,
    ) -> Result<Ran, Pause> {
        let Called { statement, sql, planned, parameters } = self.called(home, execute)?;
        // What is counted is what was prepared.
        self.count_prepared(&sql, None);
        let inner = Run {
            statement: &statement,
            sql: &sql,
            planned: Some(&planned),
            parameters: &parameters,
            formats: run.formats,
            describe: run.describe,
            shared: run.shared,
            holds: false,
        };
        self.run_planned(home, &planned, &inner, out)
    }

    /// What an EXECUTE runs: the prepared statement with a plan that holds now, and its arguments.
    pub(super) fn called(
        &mut self,
        home: &mut Home<'_>,
        (name, arguments): (String, &[ast::Expr]),
    ) -> Result<Called, Pause> {
        self.read_again(&name)?;
        let prepared = &self.statements[&*name];
        let (statement, types) = (prepared.statement.clone(), prepared.parameters().to_vec());
        let known = prepared.plan.clone();
        let before = prepared.fields().cloned();
        let sql = Arc::clone(&prepared.sql);
        let statement = statement.ok_or_else(|| no_statement(&name))?;
        // While its rows are on their way the statement keeps the plan they come from, whatever the catalog is now.
        let planned = match known {
            Some(known) if self.analytic.is_streaming() => Some(known),
            known => self.planned_to_keep(home, &name, &statement, &types, known.as_ref())?,
        };
        let Some(planned) = planned else {
            return Err(SqlError::unsupported("EXECUTE of a statement that is not a query or DML").into());
        };
        let planned = self.described(home, planned)?;
        if before.is_some_and(|before| !planned.has_columns(&before)) {
            return Err(changed_result().into());
        }
        let parameters = self.evaluate_arguments(home, &name, arguments, &planned.parameters)?;
        self.keep_plan(home, &name, Arc::clone(&planned))?;
        Ok(Called { statement, sql, planned, parameters })
    }

    fn evaluate_arguments(
        &mut self,
        home: &mut Home<'_>,
        name: &str,
        arguments: &[ast::Expr],
        types: &[PgType],
    ) -> Result<Vec<Datum>, Pause> {
        if arguments.len() != types.len() {
            return Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                format!("wrong number of parameters for prepared statement \"{name}\""),
            )
            .with_detail(format!("Expected {} parameters but got {}.", types.len(), arguments.len()))
            .into());
        }
        let catalog = self.catalog(home);
        self.refresh_format(&catalog);
        let params = ParamTypes::none();
        let context = BindContext::simple(&params, &self.format, "EXECUTE parameters");
        let mut bound = Vec::with_capacity(arguments.len());
        for (argument, ty) in arguments.iter().zip(types) {
            let argument = bind_expr(argument, &EmptyScope, &context)?;
            bound.push(coerce_assignment(argument, "parameter", *ty, types::TypeMod::NONE, &context)?);
        }
        let mut values = Vec::with_capacity(bound.len());
        for argument in bound {
            if argument.volatility() > Volatility::Stable {
                // The statement comes here in each of its turns, and would go on with another value.
                return Err(SqlError::unsupported("an EXECUTE parameter with a volatile function").into());
            }
            match argument.kind {
                ExprKind::Const(value) => values.push(value),
                _ => values.append(&mut self.evaluate(home, &argument, 1)?),
            }
        }
        Ok(values)
    }

    /// DEALLOCATE.
    pub(super) fn deallocate(&mut self, name: Option<&str>) -> SqlResult<String> {
        let Some(name) = name else {
            self.statements.clear();
            return Ok("DEALLOCATE ALL".into());
        };
        self.statements.remove(name).ok_or_else(|| no_statement(name))?;
        Ok("DEALLOCATE".into())
    }
}

/// Whether it is SQL's EXECUTE.
pub(super) fn is_execute(statement: &ParsedStatement) -> bool {
    matches!(statement, ParsedStatement::Ast(statement) if matches!(**statement, ast::Statement::Execute { .. }))
}

/// The name and arguments of an EXECUTE.
pub(super) fn parse_execute(statement: &ast::Statement) -> Option<(String, &[ast::Expr])> {
    match statement {
        ast::Statement::Execute { name: Some(name), parameters, .. } => {
            let name = name.0.last()?.as_ident().map(crate::expr::fold_ident)?;
            Some((name, parameters))
        }
        _ => None,
    }
}

/// 26000.
pub(super) fn no_statement(name: &str) -> SqlError {
    let message = if name.is_empty() {
        "unnamed prepared statement does not exist".to_owned()
    } else {
        format!("prepared statement \"{name}\" does not exist")
    };
    SqlError::new(SqlState::INVALID_SQL_STATEMENT_NAME, message)
}

#[cfg(test)]
mod tests {
    use crate::session::testing::Bench;

    #[test]
    fn an_argument_of_execute_may_ask_the_session() {
        let mut bench = Bench::new();
        let mut session = bench.session();
        bench.run(&mut session, "PREPARE at(timestamptz) AS SELECT $1 = now()");
        bench.run(&mut session, "PREPARE who(text) AS SELECT $1");
        bench.run(&mut session, "PREPARE n(int) AS SELECT $1 + 1");
        bench.run(&mut session, "SET app.tenant = '7'");
        for (execute, row) in [
            // It was asked of no session, which knows of no setting: NULL.
            ("EXECUTE who(current_setting('app.tenant', true))", "7"),
            ("EXECUTE at(now())", "t"),
            ("EXECUTE who(current_user)", "owner"),
            ("EXECUTE who(upper(current_user))", "OWNER"),
            ("EXECUTE n(coalesce(NULL, 4))", "5"),
            ("BEGIN; EXECUTE at(now()); COMMIT", "t"),
        ] {
            assert_eq!(bench.run(&mut session, execute).lines(), [row], "{execute}");
        }
        assert_eq!(bench.fail(&mut session, "EXECUTE n(1 / 0)").message(), "division by zero");
        let volatile = bench.fail(&mut session, "EXECUTE n(random()::int)");
        assert_eq!(volatile.state(), base::SqlState::FEATURE_NOT_SUPPORTED);
    }
}
