//! What statements that change the catalog need of the session: the right to change it, names, evaluation over rows.

use std::cell::RefCell;
use std::sync::Arc;

use base::limits::ROW_LEN_MAX;
use base::{Oid, SqlError};
use sqlparser::ast;
use tenant::row::keys::KeyRange;
use tenant::{Access, Direction, Interrupt, Step, Tenant, Txn, View};
use types::Datum;

use super::analytic::AnalyticState;
use super::context::{SessionParts, StatementHost, Stopped};
use super::run::{Asked, pause};
use super::{Field, Home, Pause, RowStore, Session};
use crate::MemoryBound;
use crate::ddl::{Analysis, Names};
use crate::expr::{BoundExpr, EvalCtx, EvalError, EvalResult, NoSubqueries, StatementCtx, eval};
use crate::memory_bound::value_memory;

/// Why evaluation over rows stopped.
enum Halt {
    Interrupt(Interrupt),
    Expression(EvalError),
}

/// As [`Session::end_part`], of a statement whose transaction keeps what it did. At a miss it goes on holding pages: what it reads ahead grows with
/// the misses of a turn.
fn end_part(asked: &Asked<'_>, is_turn_over: bool, tenant: &mut Tenant, txn: &Txn) {
    asked.end_part();
    if is_turn_over {
        tenant.release_pages(txn);
    }
}

impl Session {
    /// The catalog, the search path and the forms of values, as they are now.
    pub(crate) fn names(&mut self, home: &Home<'_>) -> Names {
        let catalog = self.catalog(home);
        let path = self.search_path(&catalog);
        Names { format: self.format_for(home), catalog, path }
    }

    /// Errors: 25006 in a read-only transaction; `command` is the statement's tag.
    pub(crate) fn require_writable(&mut self, home: &mut Home<'_>, command: &str) -> Result<(), Pause> {
        let open = self.transaction.open().expect("a statement runs in a transaction");
        Ok(home.tenant.view(&mut open.txn, home.redo).require_writable(command)?)
    }

    /// Runs `act` against the tenant as the transaction sees it.
    pub(crate) fn with_view<T>(
        &mut self,
        home: &mut Home<'_>,
        act: impl FnOnce(&mut View<'_>) -> Step<T>,
    ) -> Result<T, Pause> {
        self.catch_up(home)?;
        let asked = Asked::new(&*self.start.host, &self.progress, self.timeouts().statement);
        let is_to_end = asked.of_steps();
        let open = self.transaction.open().expect("a statement runs in a transaction");
        let outcome =
            act(&mut home.tenant.view(&mut open.txn, home.redo).in_session(&self.format, &is_to_end));
        outcome.map_err(|interrupt| {
            if open.txn.keeps_work() {
                end_part(&asked, matches!(interrupt, Interrupt::Asked), home.tenant, &open.txn);
            }
            pause(interrupt, home.tenant, &open.txn)
        })
    }

    /// A part of the statement that read so many rows is done and will not be done again. At its turn's end the pages that it waited for are used.
    pub(crate) fn end_part(&mut self, home: &mut Home<'_>, rows: u64, is_turn_over: bool) {
        self.progress.end_part(rows);
        if is_turn_over && let Some(open) = self.transaction.open() {
            home.tenant.release_pages(&open.txn);
        }
    }

    /// What an earlier run of an ANALYZE has gathered, until [`Session::keep_analysis`].
    pub(crate) fn take_analysis(&mut self) -> Analysis {
        self.analysis.take().unwrap_or_default()
    }

    /// Keeps what an ANALYZE has gathered for its next run.
    pub(crate) fn keep_analysis(&mut self, analysis: Analysis) {
        self.analysis = Some(analysis);
    }

    /// Calls `each` for every row of a table, committed or the transaction's own, in one turn: for what is gathered of them anew whenever the
    /// statement is run again.
    pub(crate) fn for_each_row(
        &mut self,
        home: &mut Home<'_>,
        table: Oid,
        each: &mut dyn FnMut(&EvalCtx<'_>) -> EvalResult<()>,
    ) -> Result<(), Pause> {
        self.evaluating(home, &mut |view, statement| {
            let (table, mut scan) = {
                let mut view = view.borrow_mut();
                let table = view.table(table).map_err(|error| Halt::Interrupt(error.into()))?;
                let scan = view.scan_newest(&table, Access::Table, KeyRange::all(), Direction::Forward);
                (table, scan.map_err(Halt::Interrupt)?)
            };
            let columns: Vec<usize> = (0..table.columns.len()).collect();
            let mut row = Vec::new();
            loop {
                row.clear();
                let next = view.borrow_mut().next_columns(&mut scan, &columns, &mut row);
                if next.map_err(Halt::Interrupt)?.is_none() {
                    return Ok(());
                }
                each(&EvalCtx::new(statement, &row)).map_err(Halt::Expression)?;
            }
        })
    }

    /// Calls `check` for every row of a table that the transaction has locked against changes, in as many turns as that takes: a row that has
    /// passed is not shown again when the statement is run again.
    pub(crate) fn check_each_row(
        &mut self,
        home: &mut Home<'_>,
        table: Oid,
        check: &mut dyn FnMut(&EvalCtx<'_>) -> EvalResult<()>,
    ) -> Result<(), Pause> {
        self.evaluating(home, &mut |view, statement| {
            let mut look = {
                let mut view = view.borrow_mut();
                let table = view.table(table).map_err(|error| Halt::Interrupt(error.into()))?;
                view.look_through(&table)
            };
            let outcome = loop {
                let row = match look.next_row(&mut view.borrow_mut()) {
                    Ok(Some(row)) => row,
                    Ok(None) => break Ok(()),
                    Err(interrupt) => break Err(Halt::Interrupt(interrupt)),
                };
                if let Err(error) = check(&EvalCtx::new(statement, &row)) {
                    break Err(Halt::Expression(error));
                }
            };
            look.stop(&mut view.borrow_mut());
            outcome
        })
    }

    /// The values of an expression without columns, evaluated `count` times: one for each row of a table that is changed.
    ///
    /// # Errors
    /// 53200 where they take more than changes may.
    pub(crate) fn evaluate(
        &mut self,
        home: &mut Home<'_>,
        expr: &BoundExpr,
        count: usize,
    ) -> Result<Vec<Datum>, Pause> {
        let memory = MemoryBound::of_rows(home.tenant.changes_max());
        let mut values = Vec::new();
        self.evaluating(home, &mut |view, statement| {
            for _ in 0..count {
                view.borrow_mut().step().map_err(Halt::Interrupt)?;
                let value = eval(expr, &EvalCtx::new(statement, &[])).map_err(Halt::Expression)?;
                memory.take(value_memory(&value)).map_err(|error| Halt::Expression(error.into()))?;
                values.push(value);
            }
            Ok(())
        })?;
        Ok(values)
    }

    fn evaluating(
        &mut self,
        home: &mut Home<'_>,
        act: &mut dyn FnMut(&RefCell<View<'_>>, &StatementCtx<'_>) -> Result<(), Halt>,
    ) -> Result<(), Pause> {
        self.catch_up(home)?;
        let asked = Asked::new(&*self.start.host, &self.progress, self.timeouts().statement);
        let is_to_end = asked.of_steps();
        let parts = SessionParts {
            start: &self.start,
            settings: &self.settings,
            sequences: &self.sequences,
            sleeps: self.sleeps,
            signals: &self.signals,
            statement: self.underway().serial,
        };
        let open = self.transaction.open().expect("a statement runs in a transaction");
        let (outcome, stopped) = {
            let view = home.tenant.view(&mut open.txn, home.redo).in_session(&self.format, &is_to_end);
            let view = RefCell::new(view);
            let host = StatementHost::new(parts, &view);
            let statement = StatementCtx {
                params: &[],
                format: &self.format,
                statement_start: self.statement_start,
                session: &host,
                subqueries: &NoSubqueries,
                values: &MemoryBound::of_values(ROW_LEN_MAX),
            };
            let outcome = act(&view, &statement);
            (outcome, host.stopped())
        };
        let halt = match outcome {
            Ok(()) => return Ok(()),
            Err(halt) => halt,
        };
        if open.txn.keeps_work() {
            let is_turn_over = matches!(halt, Halt::Interrupt(Interrupt::Asked));
            end_part(&asked, is_turn_over, home.tenant, &open.txn);
        }
        Err(match (halt, stopped) {
            (Halt::Expression(EvalError::Sql(error)), _) => error.into(),
            (Halt::Interrupt(interrupt), _) | (_, Some(Stopped::Interrupt(interrupt))) => {
                pause(interrupt, home.tenant, &open.txn)
            }
            (_, Some(Stopped::Sleep(_))) => SqlError::unsupported("pg_sleep in DDL").into(),
            (_, None) => SqlError::internal("a statement stopped without a reason").into(),
        })
    }

    /// The columns of a query.
    ///
    /// # Errors
    /// A pause where only the analytical planner can tell; what binding says.
    pub(crate) fn query_fields(
        &mut self,
        home: &mut Home<'_>,
        query: &ast::Query,
    ) -> Result<(Arc<[Field]>, Vec<crate::plan::RelationAccess>), Pause> {
        let planned = self.plan_query(home, query)?;
        self.check_names(&self.catalog(home), &planned)?;
        let accesses = planned.bound.accesses.clone();
        let planned = self.described(home, planned)?;
        Ok((planned.fields.clone().unwrap_or_default(), accesses))
    }

    /// All rows of a query. Give them to [`Session::keep_gathered`] if the statement must wait afterwards.
    pub(crate) fn query_rows(
        &mut self,
        home: &mut Home<'_>,
        query: &ast::Query,
    ) -> Result<(Arc<[Field]>, RowStore), Pause> {
        match std::mem::take(&mut self.analytic) {
            // For the run before, which had to wait: a volatile query is not asked twice.
            AnalyticState::Gathered { fields, rows } => return Ok((fields, rows)),
            other => self.analytic = other,
        }
        let planned = self.plan_query(home, query)?;
        let (fields, rows, _) = self.keep_rows(home, &planned, &[])?;
        Ok((fields, rows))
    }

    /// The statement is run again: the rows gathered for it from an analytical thread still hold.
    pub(crate) fn keep_gathered(&mut self, fields: Arc<[Field]>, rows: RowStore) {
        self.analytic = AnalyticState::Gathered { fields, rows };
    }

    fn plan_query(
        &mut self,
        home: &mut Home<'_>,
        query: &ast::Query,
    ) -> Result<Arc<super::prepared::Planned>, Pause> {
        let catalog = self.catalog(home);
        let statement = ast::Statement::Query(Box::new(query.clone()));
        let identity = crate::plan::IdentityValues::Refused;
        let planned = self.bind_statement(home, &catalog, &statement, &[], identity)?;
        planned.require_parameters(0)?;
        Ok(Arc::new(planned))
    }
}
