//! The extended protocol: Parse, Bind, Describe, Execute, Close, Sync.

use std::sync::Arc;

use base::{Oid, SqlError, SqlResult, SqlState};
use compact_str::CompactString;
use tenant::catalog::Catalog;
use types::{PgType, row_memory};

use super::analytic::AnalyticState;
use super::counting::{Outcome, StatementText};
use super::kept_rows::{Giving, KeptRows};
use super::planning::{plannable, runs_by_plan};
use super::prepared::{
    COUNTED_MIN, PARAMETER_SIZE, Planned, Portal, PortalRows, Prepared, changed_result, read_parameters,
};
use super::reply::{Field, Formats};
use super::run::{Ran, Run, ends_failed_block};
use super::script::{Called, is_execute, no_statement};
use super::transaction::{Transaction, failed_block};
use super::{Bind, Executed, Home, Pause, Reply, Session};
use crate::parse::{CursorStatement, ParsedStatement, SettingStatement, TransactionStatement};

/// What an empty statement takes, by estimate.
const EMPTY_SIZE: usize = 512;

impl Session {
    /// Parse.
    pub fn parse(
        &mut self,
        home: &mut Home<'_>,
        name: &str,
        sql: &str,
        parameter_oids: &[u32],
        out: &mut dyn Reply,
    ) -> Result<(), Pause> {
        self.begin_statement();
        if name.is_empty() {
            // Whether the one that takes its place is good or not.
            self.statements.remove(name);
        }
        let prepared = self.prepare(home, name, sql, parameter_oids);
        let prepared = self.failing(home, prepared)?;
        self.statements.insert(name, prepared);
        out.parse_complete();
        Ok(())
    }

    fn prepare(
        &mut self,
        home: &mut Home<'_>,
        name: &str,
        sql: &str,
        parameter_oids: &[u32],
    ) -> Result<Prepared, Pause> {
        if !name.is_empty() && self.statements.contains_key(name) {
            let message = format!("prepared statement \"{name}\" already exists");
            return Err(SqlError::new(SqlState::DUPLICATE_PREPARED_STATEMENT, message).into());
        }
        let read = self.read_one(sql)?;
        let size = read.as_ref().map_or(EMPTY_SIZE, |read| read.size) + parameter_oids.len() * PARAMETER_SIZE;
        match name.len() {
            // A small one without a name takes the place of another.
            0 if size < COUNTED_MIN => {}
            0 => self.keep(size)?,
            len => self.require_room_to_keep(len + size)?,
        }
        let statement = read.map(|read| Arc::new(read.statement));
        let catalog = self.catalog(home);
        let declared: Vec<PgType> =
            parameter_oids.iter().map(|oid| declared_type(&catalog, *oid)).collect::<SqlResult<_>>()?;
        self.refuse_in_failed_block(statement.as_deref())?;
        let mut plan = match &statement {
            Some(statement) if !matches!(self.transaction, Transaction::Failed(_)) => {
                self.planned_to_keep(home, name, statement, &declared, None)?
            }
            _ => None,
        };
        if let Some(plan) = &mut plan {
            self.share_plan(home, name, sql, plan);
        }
        let size = self.size_with_plan(name, size, plan.as_deref())?;
        let at = self.statement_start;
        let sql = StatementText::new(sql);
        let (from_sql, was_bound, is_shed, told, used) = Default::default();
        Ok(Prepared { sql, statement, declared, plan, at, from_sql, size, was_bound, is_shed, told, used })
    }

    /// A failed block takes only statements that end it.
    fn refuse_in_failed_block(&self, statement: Option<&ParsedStatement>) -> SqlResult<()> {
        let ends = matches!(statement, None | Some(ParsedStatement::Transaction(_)));
        if matches!(self.transaction, Transaction::Failed(_)) && !ends {
            return Err(failed_block());
        }
        Ok(())
    }

    /// On an error outside of a statement's run, fails the transaction as a statement's error would.
    pub(super) fn failing<T>(&mut self, home: &mut Home<'_>, outcome: Result<T, Pause>) -> Result<T, Pause> {
        if let Err(Pause::Error(_)) = outcome {
            self.fail_transaction(home);
        }
        outcome
    }

    /// Reads a statement that is to be used again if only its text was kept.
    ///
    /// # Errors
    /// 26000. 53200, or a pause, where there is no room for it.
    pub(super) fn read_again(&mut self, name: &str) -> Result<(), Pause> {
        let prepared = self.statements.turn_to(name).ok_or_else(|| no_statement(name))?;
        if prepared.is_shed {
            let sql = Arc::clone(&prepared.sql);
            if let Some(read) = self.read_one(&sql)? {
                self.keep(read.size)?;
                self.statements.take_back(name, read);
            }
        }
        Ok(())
    }

    /// Notes the time outside of a transaction: whoever binds a statement reads its parameters next.
    pub(super) fn begin_if_idle(&mut self) {
        if matches!(self.transaction, Transaction::Idle) {
            self.begin_statement();
        }
    }

    /// The plan of a prepared statement, bound anew if the catalog or search path changed, with parameter types known.
    fn plan_of(&mut self, home: &mut Home<'_>, name: &str, columns: bool) -> Result<(), Pause> {
        self.begin_if_idle();
        self.read_again(name)?;
        let prepared = &self.statements[name];
        if let Some(plan) = &prepared.plan
            && !plan.parameters.contains(&PgType::Unknown)
            && (!columns || plan.fields.is_some())
            && !matches!(self.transaction, Transaction::Failed(_))
            && !plan.is_outgrown()
            && self.plan_holds(home, plan)
        {
            return Ok(());
        }
        let Some(statement) = prepared.statement.clone() else { return Ok(()) };
        self.refuse_in_failed_block(Some(&statement))?;
        if matches!(self.transaction, Transaction::Failed(_)) {
            return Ok(());
        }
        let prepared = &self.statements[name];
        if prepared.plan.is_none() && plannable(&statement).is_none() {
            return Ok(());
        }
        let (types, known) = (prepared.parameters().to_vec(), prepared.plan.clone());
        let told = prepared.fields().cloned();
        let useful = known.as_ref().filter(|known| !known.is_outgrown());
        let Some(mut planned) = self.planned_to_keep(home, name, &statement, &types, useful)? else {
            return Ok(());
        };
        // The columns that a client was told, or could have been, are the statement's for good.
        let known = known.filter(|known| known.fields.is_some());
        let holds = known.as_ref().is_some_and(|known| Arc::ptr_eq(known, &planned));
        let (old, told) = (known.filter(|_| !holds), told.filter(|_| !holds));
        let columns = (columns || told.is_some()) && runs_by_plan(&statement);
        if planned.parameters.contains(&PgType::Unknown) || (columns && planned.fields.is_none()) {
            self.statements.set_plan(name, None);
            let undescribed = Arc::clone(&planned);
            match self.described(home, planned) {
                Ok(described) => planned = described,
                Err(pause) => {
                    self.statements.set_plan(name, old.or(Some(undescribed)));
                    return Err(pause);
                }
            }
        }
        if told.is_some_and(|told| !planned.has_columns(&told)) {
            self.statements.set_plan(name, old);
            return Err(changed_result().into());
        }
        self.keep_plan(home, name, planned)?;
        Ok(())
    }

    /// What a statement takes that is to be prepared, by the estimate of its text and with its plan, for which there is room.
    ///
    /// # Errors
    /// As of [`Session::require_room_to_keep`].
    pub(super) fn size_with_plan(
        &mut self,
        name: &str,
        size: usize,
        plan: Option<&Planned>,
    ) -> SqlResult<usize> {
        let with_plan = size.max(plan.map_or(0, |plan| plan.bound.size()));
        if with_plan > size {
            match name.len() {
                0 => self.keep(with_plan)?,
                len => self.require_room_to_keep(len + with_plan)?,
            }
        }
        Ok(with_plan)
    }

    /// Has a prepared statement run by another plan, which may be larger than the one before.
    ///
    /// # Errors
    /// As of [`Session::require_room_to_keep`].
    pub(super) fn keep_plan(
        &mut self,
        home: &Home<'_>,
        name: &str,
        mut planned: Arc<Planned>,
    ) -> SqlResult<()> {
        let prepared = &self.statements[name];
        if prepared.plan.as_ref().is_some_and(|known| Arc::ptr_eq(known, &planned)) {
            return Ok(());
        }
        self.share_plan(home, name, &prepared.sql, &mut planned);
        let more = planned.bound.size().saturating_sub(prepared.size);
        match name.len() {
            _ if more == 0 => {}
            0 => self.keep(more)?,
            _ => self.require_room_to_keep(more)?,
        }
        self.statements.grow(name, more);
        self.statements.set_plan(name, Some(planned));
        Ok(())
    }

    /// Bind.
    pub fn bind(&mut self, home: &mut Home<'_>, bind: Bind<'_>, out: &mut dyn Reply) -> Result<(), Pause> {
        self.bind_known(home, bind, false, out)
    }

    /// Bind of a statement that [`Session::is_planned`]; false, and nothing was done, for another one.
    pub fn bind_soon(
        &mut self,
        home: &mut Home<'_>,
        bind: Bind<'_>,
        out: &mut dyn Reply,
    ) -> Result<bool, Pause> {
        let bound = self.bind_at_once(home, &bind);
        if self.failing(home, bound)? {
            out.bind_complete();
            return Ok(true);
        }
        let planning = self.planning(home, bind.statement);
        if planning == Some(false) {
            return Ok(false);
        }
        // What there is not, and what a failed block does not take, is said with the plan.
        let is_planned = planning.is_some() && !matches!(self.transaction, Transaction::Failed(_));
        self.bind_known(home, bind, is_planned, out).map(|()| true)
    }

    fn bind_known(
        &mut self,
        home: &mut Home<'_>,
        bind: Bind<'_>,
        is_planned: bool,
        out: &mut dyn Reply,
    ) -> Result<(), Pause> {
        let portal = self.make_portal(home, bind, is_planned);
        if let Some(portal) = self.failing(home, portal)? {
            self.portals.insert(bind.portal, portal);
        }
        self.statements.note_bound(bind.statement);
        out.bind_complete();
        Ok(())
    }

    /// `None` where the portal that is there was bound again. `is_planned`: it is known that the statement is, and that it may be bound.
    fn make_portal(
        &mut self,
        home: &mut Home<'_>,
        bind: Bind<'_>,
        is_planned: bool,
    ) -> Result<Option<Portal>, Pause> {
        if !bind.portal.is_empty() && self.portals.contains(bind.portal) {
            let message = format!("cursor \"{}\" already exists", bind.portal);
            return Err(SqlError::new(SqlState::DUPLICATE_CURSOR, message).into());
        }
        if is_planned {
            self.begin_if_idle();
        } else {
            // Formats one each say something of the columns, which are looked for then.
            self.plan_of(home, bind.statement, bind.result_formats.len() > 1)?;
        }
        if self.is_format_stale() {
            self.format_for(home);
        }
        let formats = Formats::from_codes(bind.result_formats)?;
        if bind.result_formats.len() > 1 {
            // Not cloned, as in [`Session::describe_portal`].
            let known =
                self.statements[bind.statement].running_plan().and_then(|plan| plan.fields.as_deref());
            let known = known.map(<[Field]>::len);
            let columns = known.unwrap_or_else(|| self.columns_of(home, bind.statement).len());
            // A statement without rows takes any.
            if columns > 0 {
                formats.require_columns(columns)?;
            }
        }
        let prepared = match is_planned {
            true => self.statements.turn_to(bind.statement).ok_or_else(|| no_statement(bind.statement))?,
            false => &self.statements[bind.statement],
        };
        let types = prepared.plan.as_ref().map_or(&[][..], |plan| &plan.parameters[..]);
        let (name, values, formats_of) = (bind.statement, bind.parameters, bind.parameter_formats);
        let is_to_end = || self.start.host.is_to_end(&self.underway());
        let parameters = read_parameters(name, values, formats_of, types, &self.format, &is_to_end)?;
        let size = prepared.size;
        let kept = if bind.portal.is_empty() {
            // The one without a name is made for nearly every run: its memory matters where it is much.
            let parameters = if bind.given_len() < COUNTED_MIN { 0 } else { row_memory(&parameters) };
            parameters + if size < COUNTED_MIN { 0 } else { size }
        } else {
            bind.portal.len() + size + row_memory(&parameters) + bind.result_formats.len()
        };
        // Statements are mostly run several times in a row: then all else of the portal is there.
        if kept == 0
            && bind.portal.is_empty()
            && let Some(portal) = self.portals.unnamed_of(prepared)
        {
            portal.bind_again(parameters, formats);
            return Ok(None);
        }
        let portal = prepared.portal_of(parameters, formats, kept);
        match kept {
            0 => {}
            kept if bind.portal.is_empty() => self.keep(kept)?,
            kept => self.require_room_to_keep(kept)?,
        }
        Ok(Some(portal))
    }

    /// Whether a statement has a plan that holds now, or needs none: to bind or describe it takes microseconds.
    pub fn is_planned(&self, home: &Home<'_>, name: &str) -> bool {
        self.planning(home, name).unwrap_or(true)
    }

    /// As [`Session::is_planned`]; `None` where there is no such statement.
    fn planning(&self, home: &Home<'_>, name: &str) -> Option<bool> {
        self.statements.get(name).map(|prepared| self.needs_no_plan(home, prepared))
    }

    /// Whether a statement has a plan that holds now, or runs by none.
    pub(super) fn needs_no_plan(&self, home: &Home<'_>, prepared: &Prepared) -> bool {
        match (&prepared.plan, prepared.statement.as_deref()) {
            (Some(plan), _) => plan.is_described() && !plan.is_outgrown() && self.plan_holds(home, plan),
            (None, Some(statement)) => plannable(statement).is_none(),
            (None, None) => !prepared.is_shed,
        }
    }

    /// Whether a portal's columns are known, if it has any.
    pub fn is_described(&self, portal: &str) -> bool {
        let plan = self.portals.get(portal).and_then(|portal| portal.plan.as_ref());
        plan.is_none_or(|plan| plan.fields.is_some())
    }

    /// Describe of a prepared statement: ParameterDescription, then RowDescription or NoData.
    pub fn describe_statement(
        &mut self,
        home: &mut Home<'_>,
        name: &str,
        out: &mut dyn Reply,
    ) -> Result<(), Pause> {
        let planned = self.plan_of(home, name, true);
        self.failing(home, planned)?;
        let statement = self.statements[name].statement.clone();
        let executed = self.describe_executed(home, statement.as_deref());
        self.failing(home, executed)?;
        let prepared = &self.statements[name];
        let parameters: Vec<u32> =
            prepared.plan.iter().flat_map(|plan| plan.parameters.iter().map(|ty| ty.oid())).collect();
        out.parameter_description(&parameters);
        let rows = prepared.running_plan().is_some_and(|plan| plan.yields_rows());
        let fields = match statement.as_deref() {
            // Its own text may have been given up for the plan of what it runs.
            Some(statement) if is_execute(statement) => self.own_fields(home, Some(statement)),
            _ => self.columns_of(home, name),
        };
        describe(&fields, &Formats::default(), rows, out);
        Ok(())
    }

    /// The columns of a prepared statement, as far as they are known.
    fn columns_of(&mut self, home: &Home<'_>, name: &str) -> Arc<[Field]> {
        let prepared = &self.statements[name];
        match prepared.running_plan().and_then(|plan| plan.fields.clone()) {
            Some(fields) => fields,
            None => {
                let statement = prepared.statement.clone();
                self.own_fields(home, statement.as_deref())
            }
        }
    }

    /// Describe of a portal: RowDescription or NoData.
    pub fn describe_portal(
        &mut self,
        home: &mut Home<'_>,
        name: &str,
        out: &mut dyn Reply,
    ) -> Result<(), Pause> {
        // Many clients ask before each run. Not cloned: references are counted beside the columns, which the sessions of all workers read.
        if let Some(portal) = self.portals.get(name)
            && portal.rows.is_fresh()
            && let Some(plan) = portal.running_plan()
            && let Some(fields) = plan.fields.as_deref()
            && portal.formats.require_columns(fields.len()).is_ok()
        {
            describe(fields, &portal.formats, plan.yields_rows(), out);
            return Ok(());
        }
        let fields = self.portal_fields(home, name);
        let fields = self.failing(home, fields)?;
        let portal = self.portals.get(name).expect("it has just told its fields");
        let rows = portal.running_plan().is_some_and(|plan| plan.yields_rows());
        describe(&fields, &portal.formats, rows, out);
        Ok(())
    }

    /// The columns of a portal; its formats fit them.
    fn portal_fields(&mut self, home: &mut Home<'_>, name: &str) -> Result<Arc<[Field]>, Pause> {
        let portal = self.portals.get(name).ok_or_else(|| no_portal(name))?;
        let plan = portal.running_plan().cloned();
        let known = match (&portal.rows, &plan) {
            (PortalRows::Kept(kept), _) => Some(Arc::clone(&kept.fields)),
            (_, Some(planned)) => planned.fields.clone(),
            (_, None) => None,
        };
        let fields = match (known, plan) {
            (Some(fields), _) => fields,
            (None, Some(planned)) => {
                let described = self.described(home, planned)?;
                let fields = described.fields.clone().unwrap_or_default();
                self.portals.get_mut(name).expect("looked up above").plan = Some(described);
                fields
            }
            (None, None) => {
                let statement = portal.statement.clone();
                self.describe_executed(home, statement.as_deref())?;
                self.own_fields(home, statement.as_deref())
            }
        };
        let portal = self.portals.get(name).expect("looked up above");
        portal.formats.require_columns(fields.len())?;
        Ok(fields)
    }

    /// Has the columns be known of what an EXECUTE runs: nobody may have asked for them yet, and the client is to be told them before its rows.
    fn describe_executed(
        &mut self,
        home: &mut Home<'_>,
        statement: Option<&ParsedStatement>,
    ) -> Result<(), Pause> {
        let Some(ParsedStatement::Ast(statement)) = statement else { return Ok(()) };
        match super::script::parse_execute(statement) {
            Some((name, _)) if self.statements.contains_key(&*name) => self.plan_of(home, &name, true),
            _ => Ok(()),
        }
    }

    /// The columns of a statement that the session answers itself: SHOW, EXPLAIN, FETCH, EXECUTE.
    fn own_fields(&mut self, home: &Home<'_>, statement: Option<&ParsedStatement>) -> Arc<[Field]> {
        match statement {
            Some(ParsedStatement::Setting(statement)) => super::setting_statement::fields(statement).into(),
            Some(ParsedStatement::Cursor(statement)) => self.fetch_fields(statement),
            Some(ParsedStatement::Host(statement)) => self.start.host.statement_fields(statement).into(),
            Some(ParsedStatement::Ast(statement)) => {
                if let Ok(Some(explain)) = super::explain::parse(statement) {
                    return explain.fields().into();
                }
                let name = super::script::parse_execute(statement).map(|(name, _)| name);
                let prepared = name.and_then(|name| self.statements.get(&*name));
                let _ = home;
                prepared.and_then(|prepared| prepared.fields().cloned()).unwrap_or_default()
            }
            _ => Arc::default(),
        }
    }

    /// Tells, before an Execute, whether a Sync has come behind it: then no more rows are looked for than it wants.
    pub fn note_sync_follows(&mut self, follows: bool) {
        self.sync_follows = follows;
    }

    /// Whether an Execute of all rows of a portal is one that [`Session::execute_soon`] may make.
    pub fn runs_soon(&self, name: &str) -> bool {
        let Some(portal) = self.portals.get(name) else { return false };
        let is_short = match &portal.plan {
            Some(plan) => plan.is_run && plan.is_short,
            None => portal.statement.as_deref().is_some_and(|statement| self.begins_or_commits(statement)),
        };
        is_short && portal.rows.is_fresh() && !self.is_executing && !self.ends_at_length()
    }

    /// Whether it is a BEGIN, or a COMMIT of rows alone.
    fn begins_or_commits(&self, statement: &ParsedStatement) -> bool {
        match statement {
            ParsedStatement::Transaction(TransactionStatement::Begin { .. }) => true,
            ParsedStatement::Transaction(TransactionStatement::Commit { chain: false }) => {
                self.transaction.peek().is_none_or(|open| !open.txn.has_ddl())
            }
            _ => false,
        }
    }

    /// Execute of all rows of a portal that [`Session::runs_soon`], which comes by no place where it could be suspended. `None`, and nothing was done, where it
    /// comes to that all the same.
    pub fn execute_soon(
        &mut self,
        home: &mut Home<'_>,
        name: &str,
        out: &mut dyn Reply,
    ) -> Result<Option<Executed>, Pause> {
        let portal = self.portals.get(name);
        let plan = portal.and_then(|portal| portal.plan.as_deref());
        let has_many = self.transaction.peek().is_some_and(|open| home.tenant.has_many_changes(&open.txn));
        if has_many || plan.is_some_and(|plan| !self.plan_holds(home, plan)) {
            return Ok(None);
        }
        self.execute_known(home, name, None, true, out).map(Some)
    }

    /// Execute: up to `rows_max` rows (`None`: all), then PortalSuspended or CommandComplete.
    pub fn execute(
        &mut self,
        home: &mut Home<'_>,
        name: &str,
        rows_max: Option<u32>,
        out: &mut dyn Reply,
    ) -> Result<Executed, Pause> {
        self.execute_known(home, name, rows_max, false, out)
    }

    /// `holds`: the portal's plan, if it has one, was seen to hold, and the run comes by no place where others could change that.
    fn execute_known(
        &mut self,
        home: &mut Home<'_>,
        name: &str,
        rows_max: Option<u32>,
        holds: bool,
        out: &mut dyn Reply,
    ) -> Result<Executed, Pause> {
        // The portal is taken out for the run, so that the run may change the session; it is put back unless it failed.
        let Some(mut portal) = self.portals.take(name) else {
            let failed = self.failing::<Executed>(home, Err(no_portal(name).into()));
            return failed;
        };
        let goes_on = std::mem::take(&mut self.is_executing);
        let mut now = None;
        if portal.rows.is_fresh() && !goes_on {
            now = Some(self.begin_statement());
            self.start.host.report_statement(&portal.sql, self.statement_start);
        }
        // One that goes on giving out its rows is counted already.
        let is_counted = self.giving.is_some();
        // An EXECUTE has no plan of its own; where there is one the statement need not be looked at.
        let is_other = |statement| !is_execute(statement);
        if !is_counted && (portal.plan.is_some() || portal.statement.as_deref().is_some_and(is_other)) {
            self.count_prepared(&portal.sql, now);
        }
        // One that has begun gives no more rows in a failed block either, and goes on when a savepoint has mended that.
        let refused = matches!(self.transaction, Transaction::Failed(_))
            && portal.statement.as_deref().is_some_and(|statement| !ends_failed_block(statement));
        // Nothing comes back to a portal behind a Sync that ends its transaction.
        let is_asked_once = self.sync_follows && !self.transaction.is_block();
        let is_query = portal.running_plan().is_some_and(|plan| plan.query.is_some() && plan.yields_rows());
        self.rows_wanted = rows_max.filter(|_| is_asked_once && is_query);
        let outcome = if refused {
            Err(failed_block().into())
        } else {
            self.execute_portal(home, name, &mut portal, rows_max, holds, out)
        };
        self.rows_wanted = None;
        match &outcome {
            Err(Pause::Error(_)) => self.count_end(Outcome::Failed),
            Err(_) => self.is_executing = true,
            Ok(_) => {}
        }
        let failed = matches!(&outcome, Err(Pause::Error(_))) && !refused;
        let over = failed || (self.ended_now() && !portal.hold);
        if !over {
            self.portals.put_back(name, portal);
        }
        outcome
    }

    /// Whether the transaction that portals live in has just ended.
    fn ended_now(&self) -> bool {
        matches!(self.transaction, Transaction::Idle)
    }

    fn execute_portal(
        &mut self,
        home: &mut Home<'_>,
        name: &str,
        portal: &mut Portal,
        rows_max: Option<u32>,
        holds: bool,
        out: &mut dyn Reply,
    ) -> Result<Executed, Pause> {
        let Some(statement) = portal.statement.as_deref() else {
            out.empty_query();
            return Ok(Executed::Complete);
        };
        if matches!(portal.rows, PortalRows::Done) {
            let tag = self.tag_at_end(name, portal).map_err(Pause::from);
            out.command_complete(&self.failing(home, tag)?);
            self.count_end(Outcome::Part);
            return Ok(Executed::Complete);
        }
        // A plan bound before the catalog changed is bound again, unless its rows are on their way, or here; the parameters keep their types.
        if !holds
            && let Some(known) = &portal.plan
            && !self.analytic.is_streaming()
            && !matches!(portal.rows, PortalRows::Kept(_))
            && !self.plan_holds(home, known)
        {
            let renewed = self.bound_again(home, statement, known);
            portal.plan = self.failing(home, renewed)?;
        }
        let yields_rows = || portal.running_plan().is_some_and(|plan| plan.yields_rows());
        let is_limited = rows_max.is_some() && (yields_rows() || self.executes_rows(statement));
        if matches!(portal.rows, PortalRows::Kept(_)) || is_limited {
            return self.execute_in_parts(home, name, portal, rows_max, out);
        }
        let run = Run {
            statement,
            sql: &portal.sql,
            planned: portal.plan.as_ref(),
            parameters: &portal.parameters,
            formats: &portal.formats,
            describe: false,
            shared: false,
            holds,
        };
        let ran = self.run_statement(home, &run, out)?;
        let executed = Executed::of(&ran);
        match ran {
            Ran::Tag(tag) => self.complete(&tag, out),
            Ran::Ended(tag) => self.complete(tag, out),
            Ran::CopyIn => {}
        }
        portal.rows = PortalRows::Done;
        Ok(executed)
    }

    /// The plan of a portal's statement as the catalog is now.
    ///
    /// # Errors
    /// 0A000 where its columns are others than those that its client was told, or could have been. A pause to have them told.
    fn bound_again(
        &mut self,
        home: &mut Home<'_>,
        statement: &ParsedStatement,
        known: &Arc<Planned>,
    ) -> Result<Option<Arc<Planned>>, Pause> {
        let Some(mut renewed) = self.planned(home, statement, &known.parameters, Some(known))? else {
            return Ok(None);
        };
        // Rows that are here already came by a plan whose columns were compared, and their tables have been locked since.
        if known.fields.is_some()
            && runs_by_plan(statement)
            && !matches!(self.analytic, AnalyticState::Gathered { .. })
        {
            renewed = self.described(home, renewed)?;
            if !known.has_columns_of(&renewed) {
                return Err(changed_result().into());
            }
        }
        Ok(Some(renewed))
    }

    /// The command tag of an Execute of a portal that has run to its end: it yields no more rows, as often as it is asked.
    ///
    /// # Errors
    /// 55000 of a statement that yields no rows.
    fn tag_at_end(&self, name: &str, portal: &Portal) -> SqlResult<CompactString> {
        let statement = portal.statement.as_deref();
        let plan = portal.running_plan().or_else(|| self.executed_plan(statement?));
        if let Some(plan) = plan.filter(|plan| plan.yields_rows()) {
            return Ok(plan.bound.command.tag(0));
        }
        match statement {
            Some(ParsedStatement::Setting(SettingStatement::Show(_))) => Ok("SHOW".into()),
            Some(ParsedStatement::Cursor(CursorStatement::Fetch { only_move: false, .. })) => {
                Ok("FETCH 0".into())
            }
            Some(ParsedStatement::Ast(statement))
                if matches!(super::explain::parse(statement), Ok(Some(_))) =>
            {
                Ok("EXPLAIN".into())
            }
            _ => {
                let message = format!("portal \"{name}\" cannot be run");
                Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message))
            }
        }
    }

    /// Runs a portal to its end the first time, its rows kept, and gives out the next part of it each time.
    fn execute_in_parts(
        &mut self,
        home: &mut Home<'_>,
        name: &str,
        portal: &mut Portal,
        rows_max: Option<u32>,
        out: &mut dyn Reply,
    ) -> Result<Executed, Pause> {
        let is_first = portal.rows.is_fresh();
        if is_first {
            let kept = match portal.plan.clone() {
                Some(planned) => self.keep_in_statement(home, &planned, &portal.parameters)?,
                None => self.keep_executed(home, portal)?,
            };
            let rows = kept.rows.in_memory();
            if !name.is_empty() || rows > COUNTED_MIN {
                let wanted = portal.kept + rows;
                let room =
                    if name.is_empty() { self.keep(wanted) } else { self.require_room_to_keep(wanted) };
                self.failing(home, room.map_err(Pause::from))?;
                portal.kept = wanted;
            }
            portal.rows = PortalRows::Kept(kept);
        }
        let PortalRows::Kept(kept) = &mut portal.rows else { unreachable!("kept just above") };
        let mut giving = match self.giving.take() {
            Some(giving) => giving,
            None => {
                self.count_end(if is_first { Outcome::Rows(kept.rows.len() as u64) } else { Outcome::Part });
                let fits = portal.formats.require_columns(kept.fields.len());
                self.failing(home, fits.map_err(Pause::from))?;
                let left = kept.rows.len() - kept.position.min(kept.rows.len());
                Giving::new(kept.position, rows_max.map_or(left, |max| left.min(max as usize)), false)
            }
        };
        let format = self.format_for(home);
        let given = kept.give(&mut giving, &mut self.loaded_rows, &portal.formats, &format, out);
        if let Err(pause) = given {
            self.giving = Some(giving);
            return Err(pause);
        }
        self.progress.end();
        let count = giving.count;
        kept.position += count;
        if rows_max.is_some_and(|max| count == max as usize) {
            out.portal_suspended();
        } else {
            if portal.cursor {
                out.command_complete(&format!("SELECT {count}"));
                kept.position = kept.rows.len() + 1;
                return Ok(Executed::Complete);
            }
            out.command_complete(&format!("{} {count}", kept.tag_word));
            // At its end a portal yields no more rows, as often as it is asked.
            *kept =
                KeptRows { fields: Arc::clone(&kept.fields), tag_word: kept.tag_word, ..KeptRows::default() };
        }
        Ok(Executed::Complete)
    }

    /// Whether it is an EXECUTE of what yields rows.
    fn executes_rows(&self, statement: &ParsedStatement) -> bool {
        self.executed_plan(statement).is_some_and(|plan| plan.yields_rows())
    }

    /// The plan of what an EXECUTE runs, as far as it is known.
    fn executed_plan(&self, statement: &ParsedStatement) -> Option<&Arc<Planned>> {
        let ParsedStatement::Ast(statement) = statement else { return None };
        let (name, _) = super::script::parse_execute(statement)?;
        self.statements.get(&*name)?.running_plan()
    }

    /// As [`Session::keep_in_statement`], of what the portal's EXECUTE runs.
    fn keep_executed(&mut self, home: &mut Home<'_>, portal: &Portal) -> Result<KeptRows, Pause> {
        let statement = portal.statement.clone();
        let execute = match statement.as_deref() {
            Some(ParsedStatement::Ast(statement)) => super::script::parse_execute(statement),
            _ => None,
        };
        // Its arguments are worked out within the transaction.
        self.begin_implicit(home);
        let called = self.called(home, execute.expect("the caller looked"));
        let Called { planned, parameters, sql, .. } = self.failing(home, called)?;
        self.count_prepared(&sql, None);
        self.keep_in_statement(home, &planned, &parameters)
    }

    fn keep_in_statement(
        &mut self,
        home: &mut Home<'_>,
        planned: &Arc<Planned>,
        parameters: &[types::Datum],
    ) -> Result<KeptRows, Pause> {
        self.begin_time();
        self.begin_implicit(home);
        let open = self.transaction.open().expect("a transaction was just begun");
        let mark = open.txn.mark();
        let outcome = self
            .keep_rows(home, planned, parameters)
            .and_then(|kept| self.check_taken().map(|()| kept).map_err(Pause::from));
        if let Err(pause) = &outcome {
            self.take_back(home, &mark, pause);
        } else if let Some(open) = self.transaction.open() {
            open.used = true;
            home.tenant.settle_session_locks(&mut open.txn);
            let observed = open.txn.observed();
            self.observe(observed);
            self.progress.end();
            self.analytic = AnalyticState::Idle;
        }
        let (fields, rows, tag) = self.failing(home, outcome)?;
        let tag_word = match tag.split(' ').next() {
            Some("INSERT") => "INSERT 0",
            Some("UPDATE") => "UPDATE",
            Some("DELETE") => "DELETE",
            _ => "SELECT",
        };
        Ok(KeptRows { fields, rows, position: 0, tag_word })
    }

    /// Close of a prepared statement; not an error when there is none of that name.
    pub fn close_statement(&mut self, name: &str, out: &mut dyn Reply) {
        self.statements.remove(name);
        out.close_complete();
    }

    /// Close of a portal; not an error when there is none of that name.
    pub fn close_portal(&mut self, name: &str, out: &mut dyn Reply) {
        self.portals.take(name);
        out.close_complete();
    }

    /// Sync: ends the implicit transaction of the messages since the last one. ReadyForQuery is the caller's.
    pub fn sync(&mut self, home: &mut Home<'_>, out: &mut dyn Reply) -> Result<(), Pause> {
        let committed = self.commit_implicit(home);
        if matches!(committed, Ok(()) | Err(Pause::Error(_))) {
            if self.ended_now() {
                // Also portals of messages that began no transaction: they were bound, and not run.
                self.portals.retain(|portal| portal.hold);
            }
            self.progress.end();
            self.report_settings(out);
        }
        committed
    }
}

/// `rows`: rows come even if they have no columns.
fn describe(fields: &[Field], formats: &Formats, rows: bool, out: &mut dyn Reply) {
    if fields.is_empty() && !rows {
        out.no_data();
    } else {
        out.row_description(fields, formats);
    }
}

/// The type a client declared for a parameter; 0 and `unknown` leave it to us.
fn declared_type(catalog: &Catalog, oid: u32) -> SqlResult<PgType> {
    if oid == 0 {
        return Ok(PgType::Unknown);
    }
    let of_enum = || catalog.enum_type(Oid(oid)).map(|found| PgType::Enum(found.oid));
    let of_array = || catalog.enum_of_array(Oid(oid)).and_then(|found| PgType::Enum(found.oid).array_of());
    PgType::from_oid(oid).or_else(of_enum).or_else(of_array).ok_or_else(|| {
        SqlError::new(SqlState::UNDEFINED_OBJECT, format!("type with OID {oid} does not exist"))
    })
}

/// 34000.
pub(super) fn no_portal(name: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_CURSOR_NAME, format!("portal \"{name}\" does not exist"))
}
