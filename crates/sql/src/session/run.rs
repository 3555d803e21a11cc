//! Running one statement: its checks, its turn, its undoing when it must wait.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use base::{ByteCount, Nanos, PageNo, SqlError, SqlResult, SqlState};
use compact_str::CompactString;
use sqlparser::ast;
use tenant::{Interrupt, LogWait, Step, Tenant, Txn, WriterWait};
use types::{Datum, PgType, Row, row_memory};

use super::analytic::{AnalyticState, Announce, Deliver};
use super::context::{SessionParts, Sleeps, StatementHost, Stopped};
use super::output_bounds::{OutputBounds, SENT_MAX};
use super::prepared::{Planned, PortalRows};
use super::reply::{Field, Formats, write_value};
use super::row_store::RowStore;
use super::setting::Id;
use super::slices::Slicing;
use super::transaction::{LIMIT_LOOK, Transaction, failed_block};
use super::underway::Progress;
use super::utility::not_in_block;
use super::{Executed, Home, Pause, Reply, Session, SessionHost};
use crate::ddl;
use crate::exec::{self, ExecDone, ExecEnv, ExecError, ExecLimits, ExternalRows, Flow, RowSink, Slice};
use crate::memory_bound::MemoryBound;
use crate::parse::{ParsedStatement, TransactionStatement, Utility};
use crate::plan::{self, Command, PlanKind, RelationAccess};

/// Rows a query may look at on the point path; one that wants more starts over on the analytical path, at the cost of the
/// milliseconds spent so far. At about 0.2 us a row this is some 5 ms of a worker's time.
const ROWS_EXAMINED_MAX: u64 = 25_000;

/// Rows made by the session itself that are sent before others have their turns: some 50 us where they have 45 columns, as those of SHOW TENANTS.
const ROWS_A_LOOK: usize = 16;

/// What the rows of a query may take in the memory of a session that keeps them; those of one that gives more are put aside.
const KEPT_MAX: ByteCount = ByteCount::from_mib(1);

/// How a statement ended that did not pause.
#[derive(Debug)]
pub(super) enum Ran {
    /// With this command tag.
    Tag(CompactString),
    /// `COPY FROM STDIN` has begun.
    CopyIn,
    /// A COMMIT, ROLLBACK or the like: nothing of the script is left to commit.
    Ended(&'static str),
}

/// What a statement is run with.
#[derive(Clone, Copy)]
pub(super) struct Run<'a> {
    pub(super) statement: &'a ParsedStatement,
    pub(super) sql: &'a str,
    pub(super) planned: Option<&'a Arc<Planned>>,
    pub(super) parameters: &'a [Datum],
    pub(super) formats: &'a Formats,
    /// The simple protocol sends a description before the rows.
    pub(super) describe: bool,
    /// Other statements of the same Query share its implicit transaction, if it is in no block.
    pub(super) shared: bool,
    /// Its plan was seen to hold, and the run comes by no place where others could change that.
    pub(super) holds: bool,
}

/// The pause an interrupt of the tenant stands for.
pub(super) fn pause(interrupt: Interrupt, tenant: &mut Tenant, txn: &Txn) -> Pause {
    match interrupt {
        Interrupt::Wait(wait) => {
            // Others may need the memory to let go of the lock.
            tenant.release_pages(txn);
            Pause::Lock(wait)
        }
        // Whoever drives the session finds out why.
        Interrupt::Asked => Pause::Yield,
        Interrupt::Miss(page) => missed(&[page], tenant, txn),
        Interrupt::Error(error) => Pause::Error(error),
    }
}

/// What a statement that missed these pages pauses for.
fn missed(pages: &[PageNo], tenant: &mut Tenant, txn: &Txn) -> Pause {
    match tenant.page_requests(txn, pages) {
        // They have come in meanwhile.
        Ok(requests) if requests.is_empty() => Pause::Yield,
        Ok(requests) => Pause::Pages(requests),
        Err(error) => Pause::Error(error),
    }
}

/// Whether a statement is to end, asked while it runs: its time is up, it took too much, or somebody wants it.
pub(super) struct Asked<'a> {
    host: &'a dyn SessionHost,
    progress: &'a Progress,
    timeout: Option<Nanos>,
    /// What the run has read so far, where there is a plan that counts it.
    pub(super) examined: Cell<u64>,
}

impl<'a> Asked<'a> {
    pub(super) fn new(
        host: &'a dyn SessionHost,
        progress: &'a Progress,
        timeout: Option<Nanos>,
    ) -> Asked<'a> {
        Asked { host, progress, timeout, examined: Cell::new(0) }
    }

    /// Of a run that counts what it reads in `examined`.
    pub(super) fn of_plan(&self) -> impl Fn(u32) -> bool {
        |_| self.is_to_end()
    }

    /// Of any other work: each step is a row.
    pub(super) fn of_steps(&self) -> impl Fn(u32) -> bool {
        |steps| {
            self.examined.set(self.examined.get() + u64::from(steps));
            self.is_to_end()
        }
    }

    /// What was read so far is not read again.
    pub(super) fn end_part(&self) {
        self.progress.end_part(self.examined.get());
    }

    fn is_to_end(&self) -> bool {
        self.progress.note_read(self.examined.get());
        self.host.is_to_end(&self.progress.now(self.host, self.timeout))
    }
}

/// Whether a statement may run in a failed block.
pub(super) fn ends_failed_block(statement: &ParsedStatement) -> bool {
    matches!(
        statement,
        ParsedStatement::Transaction(
            TransactionStatement::Commit { .. }
                | TransactionStatement::Rollback { .. }
                | TransactionStatement::RollbackTo(_)
                | TransactionStatement::PrepareTransaction
        )
    )
}

impl Session {
    /// Runs a statement to its end or to a pause. Whatever it wrote to `out` and changed is undone unless it ends well.
    pub(super) fn run_statement(
        &mut self,
        home: &mut Home<'_>,
        run: &Run<'_>,
        out: &mut dyn Reply,
    ) -> Result<Ran, Pause> {
        if matches!(self.transaction, Transaction::Failed(_)) && !ends_failed_block(run.statement) {
            return Err(failed_block().into());
        }
        self.begin_time();
        let mark = out.mark();
        let outcome = match run.statement {
            ParsedStatement::Transaction(statement) => {
                let tag = self.transaction_statement(home, statement, run, out);
                let is_over = matches!(self.transaction, Transaction::Idle);
                tag.map(|tag| if is_over { Ran::Ended(tag) } else { Ran::Tag(tag.into()) })
            }
            _ => self.run_within(home, run, out),
        };
        match outcome {
            Ok(ran) => {
                // A COPY runs on until its data has come.
                if !matches!(ran, Ran::CopyIn) {
                    self.progress.end();
                    // Rows that were gathered and not used are no other statement's.
                    self.analytic = AnalyticState::Idle;
                }
                self.report_settings(out);
                Ok(ran)
            }
            // What an analytical thread, a slice or a cursor has sent is the client's already.
            Err(pause @ (Pause::Analytic(_) | Pause::Slice(_) | Pause::StoredRows(_))) => Err(pause),
            Err(other) => {
                out.rewind(mark);
                if matches!(other, Pause::Error(_)) {
                    self.analytic = AnalyticState::Idle;
                    self.host_outcome = None;
                    self.sleeps = Sleeps::default();
                    self.fail_transaction(home);
                }
                Err(other)
            }
        }
    }

    /// Runs a statement that stands in a transaction, begun for it if there is none.
    fn run_within(&mut self, home: &mut Home<'_>, run: &Run<'_>, out: &mut dyn Reply) -> Result<Ran, Pause> {
        self.begin_implicit(home);
        if self.slicing.is_none() {
            self.pour_if_much(home)?;
        }
        let open = self.transaction.open().expect("a transaction was just begun");
        let mark = open.txn.mark();
        let settings = self.settings.borrow().mark();
        let is_finished =
            self.slicing.is_none() && run.planned.is_some_and(|planned| planned.finishes_itself());
        let outcome = self.dispatch(home, run, out).and_then(|ran| {
            if !is_finished {
                self.finish_statement(home)?;
            }
            // A COPY runs on until its data has come.
            if !matches!(ran, Ran::CopyIn) {
                self.check_taken()?;
            }
            Ok(ran)
        });
        if let Some(open) = self.transaction.open() {
            match &outcome {
                Ok(_) => {
                    open.used |= !matches!(run.statement, ParsedStatement::Setting(_));
                    home.tenant.settle_session_locks(&mut open.txn);
                    let observed = open.txn.observed();
                    self.observe(observed);
                }
                // What a slice did stays: the statement goes on behind it.
                Err(Pause::Slice(_)) => {
                    home.tenant.settle_session_locks(&mut open.txn);
                    home.tenant.keep_locks(&mut open.txn);
                }
                Err(pause) => {
                    self.take_back(home, &mark, pause);
                    self.settings.borrow_mut().roll_back_to(settings);
                }
            }
        }
        outcome
    }

    /// Takes back what the statement changed since `mark`, for it has paused or failed. An error tells of what was read as rows do, and waits for that.
    pub(super) fn take_back(&mut self, home: &mut Home<'_>, mark: &tenant::Mark, pause: &Pause) {
        if matches!(self.transaction, Transaction::Failed(_)) {
            // A part of it has failed the block, which is back before the mark.
            return;
        }
        let host = &*self.start.host;
        let Some(open) = self.transaction.open() else { return };
        if !matches!(pause, Pause::Error(_)) {
            home.tenant.rewind_statement_giving_way(&mut open.txn, mark, &|| host.give_way());
            return;
        }
        let observed = open.txn.observed();
        home.tenant.rollback_statement_giving_way(&mut open.txn, mark, &|| host.give_way());
        self.observe(observed);
    }

    /// Has the time of the statement begin, if it had not and somebody wants to know.
    pub(super) fn begin_time(&self) {
        if self.timeouts().statement.is_some() || self.start.host.is_watching() {
            self.underway();
        }
    }

    /// Looks what the statement took, at its end.
    ///
    /// # Errors
    /// 57014 if that was more than it may.
    pub(super) fn check_taken(&self) -> SqlResult<()> {
        if self.start.host.is_watching() { self.start.host.has_taken(&self.underway()) } else { Ok(()) }
    }

    /// Errors: a pause while changed pages take too much memory, for what is about to change more.
    pub(super) fn await_memory(&mut self, home: &mut Home<'_>) -> Result<(), Pause> {
        let wait = self.transaction.open().and_then(|open| home.tenant.writer_wait(&mut open.txn));
        wait.map_or(Ok(()), |wait| Err(Pause::Memory(wait)))
    }

    /// Checks what is due at a statement's end: foreign keys. Where nothing is due nothing is waited for: what a long change has poured is not taken back with
    /// the statement, which would do it a second time.
    pub(super) fn finish_statement(&mut self, home: &mut Home<'_>) -> Result<(), Pause> {
        let Some(open) = self.transaction.open() else { return Ok(()) };
        // One that has read nothing owes nothing, and a snapshot is taken by the first that reads.
        if open.txn.awaits_snapshot() {
            return Ok(());
        }
        if open.txn.owes_checks() {
            return self.with_view(home, |view| view.finish_statement());
        }
        let finished = home.tenant.view(&mut open.txn, home.redo).finish_statement();
        finished.map_err(|interrupt| pause(interrupt, home.tenant, &open.txn))
    }

    fn dispatch(&mut self, home: &mut Home<'_>, run: &Run<'_>, out: &mut dyn Reply) -> Result<Ran, Pause> {
        if let Some(planned) = run.planned
            && planned.is_run
        {
            return self.run_planned(home, planned, run, out);
        }
        let tag = match run.statement {
            ParsedStatement::Ast(statement) => {
                if let Some(stored) = self.fill_on(home)? {
                    return Ok(Ran::Tag(Command::Select.tag(stored as u64)));
                }
                if let Some(explain) = super::explain::parse(statement)? {
                    return self.run_explain(home, &explain, run, out);
                }
                if let Some(execute) = super::script::parse_execute(statement) {
                    return self.run_execute(home, execute, run, out);
                }
                self.await_memory(home)?;
                if let Some(what) = ddl::stands_alone(statement)
                    && self.in_larger_transaction(run)
                {
                    return Err(not_in_block(what).into());
                }
                ddl::run(self, home, statement, run.sql, out)?
            }
            ParsedStatement::Transaction(_) => unreachable!("transaction statements run outside of one"),
            ParsedStatement::Setting(statement) => return self.setting_statement(home, statement, run, out),
            ParsedStatement::Cursor(statement) => return self.cursor_statement(home, statement, run, out),
            ParsedStatement::Copy(statement) => {
                self.await_memory(home)?;
                return self.begin_copy(home, statement, out);
            }
            ParsedStatement::Role(statement) => {
                self.await_memory(home)?;
                self.role_statement(home, statement, out)?
            }
            ParsedStatement::StartSetting(statement) => {
                self.await_memory(home)?;
                self.start_setting(home, statement)?
            }
            ParsedStatement::Grant(statement) => {
                self.await_memory(home)?;
                self.grant_statement(home, statement, out)?
            }
            ParsedStatement::CreateSequence(statement) => {
                self.await_memory(home)?;
                ddl::create_sequence(self, home, statement, out)?
            }
            ParsedStatement::AlterSequence(statement) => {
                self.await_memory(home)?;
                ddl::alter_sequence(self, home, statement, out)?
            }
            ParsedStatement::AddIdentity(statement) => {
                self.await_memory(home)?;
                ddl::add_identity(self, home, statement, out)?
            }
            ParsedStatement::Host(statement) => return self.host_statement(home, statement, run, out),
            ParsedStatement::Utility(Utility::Deallocate(name)) => self.deallocate(name.as_deref())?,
            ParsedStatement::Utility(statement) => {
                if statement.changes_catalog() {
                    self.await_memory(home)?;
                }
                self.utility_statement(home, statement, run, out)?
            }
            ParsedStatement::Prepare { name, types, statement, sql, size } => {
                self.prepare_by_sql(home, name, types, statement, (sql, *size))?
            }
        };
        Ok(Ran::Tag(tag.into()))
    }

    pub(super) fn run_planned(
        &mut self,
        home: &mut Home<'_>,
        planned: &Arc<Planned>,
        run: &Run<'_>,
        out: &mut dyn Reply,
    ) -> Result<Ran, Pause> {
        if !run.holds || !self.is_allowed(planned) {
            self.check_access(home, planned)?;
        }
        match &planned.bound.kind {
            // Already sent out, because it outgrew the point path.
            PlanKind::Point(_) if self.analytic.is_streaming() => self.stream_rows(home, planned, run),
            PlanKind::Point(_) => {
                let fields = planned.fields.as_deref().unwrap_or_default();
                let mark = out.mark();
                let context = self.format_for(home);
                let described = self.slicing.as_ref().is_some_and(Slicing::has_begun);
                let describe = run.describe && !described;
                let mut sink = ClientRows::new(fields, &Run { describe, ..*run }, &context, out)?;
                let limits = self.limits_of_point_path(planned);
                sink.bounds =
                    OutputBounds::new(sink.out.buffered(), &limits, SENT_MAX, home.tenant.changes_max());
                let done = if self.may_slice(planned) {
                    self.run_in_slices(home, planned, run.parameters, &mut sink).map(Some)
                } else {
                    self.run_point(home, planned, run.parameters, &mut sink, limits)
                };
                let outgrew = sink.bounds.is_outgrown();
                match done.map(|done| done.filter(|_| !outgrew)) {
                    Ok(Some(done)) => Ok(Ran::Tag(planned.bound.command.tag(done.rows))),
                    Ok(None) => {
                        out.rewind(mark);
                        self.stream_rows(home, planned, run)
                    }
                    Err(pause) => {
                        // Nothing was done yet but to describe the rows, which the next run does again.
                        let has_begun = self.slicing.as_ref().is_some_and(Slicing::has_begun);
                        if matches!(pause, Pause::Analytic(_) | Pause::StoredRows(_))
                            || (matches!(pause, Pause::Slice(_)) && !has_begun)
                        {
                            out.rewind(mark);
                        }
                        Err(pause)
                    }
                }
            }
            PlanKind::Analytic { .. } => self.stream_rows(home, planned, run),
        }
    }

    /// How many rows a plan may look at here: one that may go to the analytical path does so beyond them.
    pub(super) fn limits_of_point_path(&self, planned: &Planned) -> ExecLimits<'static> {
        let may_leave = planned.query.is_some() && self.start.host.has_analytic_path();
        ExecLimits { rows_examined_max: may_leave.then_some(ROWS_EXAMINED_MAX), ..ExecLimits::default() }
    }

    /// The form of values now.
    pub(super) fn format_for(&mut self, home: &Home<'_>) -> Arc<types::FormatContext> {
        // Mostly it is that of the statement before: the catalog, which all sessions have, is looked at then and not counted.
        if !self.is_format_of(self.peek_catalog(home)) {
            let catalog = self.catalog(home);
            self.refresh_format(&catalog);
        }
        Arc::clone(&self.format)
    }

    /// Runs a point plan, its analytical source first where it has one; `None` when a query turned out to look at more rows than the point path should.
    pub(super) fn run_point(
        &mut self,
        home: &mut Home<'_>,
        planned: &Arc<Planned>,
        parameters: &[Datum],
        sink: &mut dyn RowSink,
        limits: ExecLimits<'_>,
    ) -> Result<Option<ExecDone>, Pause> {
        let plan = planned.bound.point().expect("the caller has a point plan");
        if let Some(command) = planned.bound.writes()
            && let Some(open) = self.transaction.open()
            && open.txn.is_read_only()
        {
            let message = format!("cannot execute {command} in a read-only transaction");
            return Err(SqlError::new(SqlState::READ_ONLY_SQL_TRANSACTION, message).into());
        }
        // First, for it may wait for memory itself: behind a wait that was given up it would begin another one, and so for ever.
        self.catch_up(home)?;
        if planned.bound.writes().is_some() && limits.slice.is_none() {
            self.await_memory(home)?;
        }
        let mut source = match planned.bound.external_source() {
            None => None,
            Some(source) => {
                let query = Arc::new((*source.query).clone());
                let types = planned.parameters.to_vec();
                let reads = &planned.bound.accesses;
                Some(self.gather(home, query, reads, types, parameters, source.reason.clone())?)
            }
        };
        if let Some((fields, mut rows)) = source.take() {
            match self.bring_in(home, &mut rows, &limits) {
                Ok(true) => source = Some((fields, rows)),
                outgrew_or_pause => {
                    self.analytic = AnalyticState::Gathered { fields, rows };
                    return outgrew_or_pause.map(|_| None);
                }
            }
        }
        let types: Vec<PgType> =
            source.iter().flat_map(|(fields, _)| fields.iter().map(|field| field.ty)).collect();
        let external = source.as_mut().map(|(_, rows)| {
            let (total, first) = (rows.len(), limits.slice.map_or(0, Slice::first_row));
            let rows = rows.rows_from(first).expect("brought in above");
            ExternalRows { types: &types, rows, total }
        });
        let asked = Asked::new(&*self.start.host, &self.progress, self.timeouts().statement);
        let (limits, is_to_end) = (
            ExecLimits { examined: Some(&asked.examined), memory_max: home.tenant.changes_max(), ..limits },
            asked.of_plan(),
        );
        let parts = SessionParts {
            start: &self.start,
            settings: &self.settings,
            sequences: &self.sequences,
            sleeps: self.sleeps,
            signals: &self.signals,
            statement: self.underway().serial,
        };
        let open = self.transaction.open().expect("a statement runs in a transaction");
        let (outcome, stopped, sleeps) = {
            let view = home.tenant.view(&mut open.txn, home.redo).in_session(&self.format, &is_to_end);
            let view = RefCell::new(view);
            let host = StatementHost::new(parts, &view);
            let env = ExecEnv { session: &host, format: &self.format, statement_start: self.statement_start };
            let outcome = exec::run(plan, parameters, &env, &view, external, sink, limits)
                .and_then(|done| host.end_sleeps().map(|()| done).map_err(|_| ExecError::Session));
            (outcome, host.stopped(), host.sleeps())
        };
        self.sleeps = if outcome.is_ok() { Sleeps::default() } else { sleeps };
        match &outcome {
            Ok(done) => {
                self.progress.end_part(done.examined);
                self.signals.get_mut().forget();
            }
            Err(_) => self.progress.note_read(asked.examined.get()),
        }
        let outcome = match outcome {
            Ok(done) if limits.slice.is_none_or(|slice| !slice.has_next()) => return Ok(Some(done)),
            other => other,
        };
        if let Some((fields, rows)) = source {
            // The statement is run again: what was gathered for it still holds.
            self.analytic = AnalyticState::Gathered { fields, rows };
        }
        let error = match outcome {
            Ok(done) => return Ok(Some(done)),
            Err(ExecError::Outgrew) => {
                planned.note_outgrown();
                return Ok(None);
            }
            Err(error) => error,
        };
        let pause = match (error, stopped) {
            (ExecError::Interrupt(interrupt), _) | (_, Some(Stopped::Interrupt(interrupt))) => {
                match open.txn.take_log_wait() {
                    None => pause(interrupt, home.tenant, &open.txn),
                    Some(LogWait::Durable(end)) => Pause::Memory(WriterWait::Log(end)),
                    // The limit may be lifted meanwhile.
                    Some(LogWait::Limit(at)) => Pause::OwnCap((at - self.start.host.now()).min(LIMIT_LOOK)),
                }
            }
            (ExecError::Missed(pages), None) => missed(&pages, home.tenant, &open.txn),
            (_, Some(Stopped::Sleep(until))) => Pause::Sleep(until - self.start.host.now()),
            (_, None) => SqlError::internal("a statement stopped without a reason").into(),
        };
        if matches!(pause, Pause::Pages(_))
            && limits.rows_examined_max.is_some()
            && home.tenant.misses_much(&open.txn)
        {
            // A query that misses so much does so on a thread that may block.
            home.tenant.release_pages(&open.txn);
            return Ok(None);
        }
        Err(match pause {
            Pause::Error(error) => self.without_unread(home, planned, error).into(),
            pause => pause,
        })
    }

    /// Sees to it that the rows a change is given are in memory: those from its slice's first one on, else all. False where they are more
    /// than the change may look at.
    ///
    /// # Errors
    /// A pause to read them; 53200 where all of them are wanted and would take more memory than changes may.
    pub(super) fn bring_in(
        &mut self,
        home: &Home<'_>,
        rows: &mut RowStore,
        limits: &ExecLimits<'_>,
    ) -> Result<bool, Pause> {
        if limits.rows_examined_max.is_some_and(|max| rows.len() as u64 > max) {
            return Ok(false);
        }
        if let Some(loaded) = self.loaded_rows.take() {
            rows.load(loaded);
        }
        match limits.slice {
            Some(slice) => rows.rows_from(slice.first_row()).map(drop),
            None => {
                MemoryBound::of_rows(home.tenant.changes_max()).room(rows.bytes().0 as usize)?;
                rows.bring_all_in()
            }
        }
        .map_err(Pause::StoredRows)?;
        Ok(true)
    }

    fn stream_rows(
        &mut self,
        home: &mut Home<'_>,
        planned: &Arc<Planned>,
        run: &Run<'_>,
    ) -> Result<Ran, Pause> {
        let announce = if run.describe { Announce::Rows(run.formats.clone()) } else { Announce::Nothing };
        let deliver = Deliver::Client(run.formats.clone());
        let rows = self.stream_analytic(home, planned, run.parameters, deliver, announce)?;
        Ok(Ran::Tag(Command::Select.tag(rows)))
    }

    /// Sends a query to the analytical path, its rows straight to the client; ends once they have gone, with how many there were.
    pub(super) fn stream_analytic(
        &mut self,
        home: &mut Home<'_>,
        planned: &Arc<Planned>,
        parameters: &[Datum],
        deliver: Deliver,
        announce: Announce,
    ) -> Result<u64, Pause> {
        if let Some(streamed) = self.streamed() {
            return Ok(streamed?);
        }
        let request = self.analytic_request(home, planned, parameters.to_vec(), deliver)?;
        self.analytic = AnalyticState::Streaming { announce, rows: 0 };
        Err(Pause::Analytic(Box::new(request)))
    }

    /// How many rows have gone straight to the client, or why no more come; `None` where no query was sent out for that.
    pub(super) fn streamed(&mut self) -> Option<SqlResult<u64>> {
        match std::mem::take(&mut self.analytic) {
            AnalyticState::Streamed { rows } => Some(Ok(rows)),
            AnalyticState::Failed(error) => Some(Err(error)),
            other => {
                self.analytic = other;
                None
            }
        }
    }

    /// Sends a query to the analytical path and gathers its rows; gives them once they are here.
    pub(super) fn gather(
        &mut self,
        home: &mut Home<'_>,
        query: Arc<sqlparser::ast::Query>,
        reads: &[RelationAccess],
        parameter_types: Vec<types::PgType>,
        parameters: &[Datum],
        reason: String,
    ) -> Result<(Arc<[Field]>, RowStore), Pause> {
        match std::mem::take(&mut self.analytic) {
            AnalyticState::Gathered { fields, rows } => Ok((fields, rows)),
            AnalyticState::Failed(error) => Err(error.into()),
            _ => {
                let request = self.query_request(
                    home,
                    query,
                    reads,
                    parameter_types,
                    parameters.to_vec(),
                    reason,
                    Deliver::Session,
                )?;
                self.analytic =
                    AnalyticState::Gathering { fields: Arc::default(), rows: RowStore::default() };
                Err(Pause::Analytic(Box::new(request)))
            }
        }
    }

    /// All rows of a planned query, with their fields: for cursors and row-limited portals.
    pub(super) fn keep_rows(
        &mut self,
        home: &mut Home<'_>,
        planned: &Arc<Planned>,
        parameters: &[Datum],
    ) -> Result<(Arc<[Field]>, RowStore, CompactString), Pause> {
        self.check_access(home, planned)?;
        // A query that outgrew the point path is not begun there again.
        let is_gathered = planned.query.is_some() && !matches!(self.analytic, AnalyticState::Idle);
        if matches!(planned.bound.kind, PlanKind::Point(_)) && !is_gathered {
            let limits = self.limits_of_point_path(planned);
            // Rows of a change were changed: they can be had nowhere else, and do not leave.
            let bounds = OutputBounds::new(0, &limits, KEPT_MAX, home.tenant.changes_max());
            let mut sink = KeepRows { rows: Vec::new(), bytes: 0, bounds, wanted: self.rows_wanted };
            let done = self.run_point(home, planned, parameters, &mut sink, limits)?;
            if let Some(done) = done.filter(|_| !sink.bounds.is_outgrown()) {
                let fields = planned.fields.clone().unwrap_or_default();
                return Ok((fields, RowStore::of_rows(sink.rows), planned.bound.command.tag(done.rows)));
            }
        }
        let query =
            planned.query.clone().ok_or_else(|| SqlError::internal("an analytical plan has no query"))?;
        let query = match self.rows_wanted {
            Some(wanted) => limited(query, wanted),
            None => query,
        };
        let types = planned.parameters.to_vec();
        let reads = &planned.bound.accesses;
        let (fields, rows) = self.gather(home, query, reads, types, parameters, String::new())?;
        let tag = Command::Select.tag(rows.len() as u64);
        Ok((fields, rows, tag))
    }

    /// Changes the catalog within the statement's transaction.
    ///
    /// # Errors
    /// What `change` says; a pause while another transaction changes the catalog.
    pub(crate) fn ddl<T>(
        &mut self,
        home: &mut Home<'_>,
        change: impl FnOnce(&mut tenant::ddl::Ddl<'_>) -> Step<T>,
    ) -> Result<T, Pause> {
        let named = crate::kept_text::objects_named;
        self.with_view(home, |view| view.ddl().and_then(|ddl| change(&mut ddl.reading(named))))
    }

    /// Tells the client which reported settings changed.
    pub fn report_settings(&mut self, out: &mut dyn Reply) {
        if !self.settings.borrow().has_reports() {
            return;
        }
        for (name, value) in self.settings.borrow_mut().take_reports() {
            if name == Id::application_name.name() {
                self.start.host.report_application(&value);
            }
            out.parameter_status(name, &value);
        }
    }

    /// Sends a result made by the session itself, of a row for each tenant at most.
    pub(super) fn send_rows(
        &mut self,
        home: &Home<'_>,
        fields: &[Field],
        rows: &[Row],
        run: &Run<'_>,
        out: &mut dyn Reply,
    ) -> SqlResult<()> {
        let context = self.format_for(home);
        let mut sink = ClientRows::new(fields, run, &context, out)?;
        for (number, row) in rows.iter().enumerate() {
            if number % ROWS_A_LOOK == ROWS_A_LOOK - 1 {
                // Whatever it says: all rows are there, and others have had their turns.
                self.start.host.is_to_end(&self.underway());
            }
            sink.write(row);
        }
        Ok(())
    }
}

/// The query for so many of its rows, unless it has a limit of its own, or calls what is refused beside one.
fn limited(query: Arc<ast::Query>, rows: u32) -> Arc<ast::Query> {
    const SIGNALS: &[&str] = &["pg_cancel_backend", "pg_terminate_backend"];
    if query.limit_clause.is_some() || query.fetch.is_some() || plan::names_any(&query, SIGNALS) {
        return query;
    }
    let limit = Some(ast::Expr::value(ast::Value::Number(rows.to_string(), false)));
    let limit = ast::LimitClause::LimitOffset { limit, offset: None, limit_by: Vec::new() };
    Arc::new(ast::Query { limit_clause: Some(limit), ..(*query).clone() })
}

/// Rows on their way to the client.
struct ClientRows<'a> {
    fields: &'a [Field],
    formats: &'a Formats,
    context: &'a types::FormatContext,
    out: &'a mut dyn Reply,
    bounds: OutputBounds,
}

impl<'a> ClientRows<'a> {
    fn new(
        fields: &'a [Field],
        run: &Run<'a>,
        context: &'a types::FormatContext,
        out: &'a mut dyn Reply,
    ) -> SqlResult<ClientRows<'a>> {
        run.formats.require_columns(fields.len())?;
        let rows = || run.planned.is_some_and(|planned| planned.yields_rows());
        if run.describe && (!fields.is_empty() || rows()) {
            out.row_description(fields, run.formats);
        }
        let bounds = OutputBounds::new(out.buffered(), &ExecLimits::default(), SENT_MAX, None);
        Ok(ClientRows { fields, formats: run.formats, context, out, bounds })
    }

    fn write(&mut self, row: &[Datum]) {
        write_row(row, self.fields, self.formats, self.context, self.out);
    }
}

/// Sends one row.
pub(super) fn write_row(
    row: &[Datum],
    fields: &[Field],
    formats: &Formats,
    context: &types::FormatContext,
    out: &mut dyn Reply,
) {
    let buffer = out.begin_row(row.len());
    for (i, (value, field)) in row.iter().zip(fields).enumerate() {
        write_value(value, field.ty, formats.of(i), context, buffer);
    }
    out.end_row();
}

impl RowSink for ClientRows<'_> {
    fn row(&mut self, row: &[Datum]) -> SqlResult<Flow> {
        let flow = self.bounds.look(self.out.buffered())?;
        if flow == Flow::More {
            self.write(row);
        }
        Ok(flow)
    }
}

/// Rows of a change, or of a query of the point path, that stay with the session.
struct KeepRows {
    rows: Vec<Row>,
    bytes: usize,
    bounds: OutputBounds,
    /// So many are enough.
    wanted: Option<u32>,
}

impl RowSink for KeepRows {
    fn row(&mut self, row: &[Datum]) -> SqlResult<Flow> {
        self.bytes += row_memory(row);
        let flow = self.bounds.look(self.bytes)?;
        if flow == Flow::More {
            self.rows.push(row.to_vec());
        }
        let has_all = self.wanted.is_some_and(|wanted| self.rows.len() >= wanted as usize);
        Ok(if has_all { Flow::Stop } else { flow })
    }
}

impl Executed {
    pub(super) fn of(ran: &Ran) -> Executed {
        if matches!(ran, Ran::CopyIn) { Executed::CopyIn } else { Executed::Complete }
    }
}

impl PortalRows {
    pub(super) fn is_fresh(&self) -> bool {
        matches!(self, PortalRows::Fresh)
    }
}
