//! Binding statements, and keeping what was bound while catalog and search path stay the same.

use std::sync::Arc;

use base::{Oid, SqlError, SqlResult, SqlState};
use compact_str::CompactString;
use smallvec::SmallVec;
use sqlparser::ast;
use tenant::Tenant;
use tenant::catalog::{Catalog, Privileges, ViewDefinition};
use tenant::locks::{TableLock, WaitPolicy};
use types::PgType;

use super::analytic::{AnalyticRequest, AnalyticState, Deliver, PreparedRow, QueryContext};
use super::names::{IDLE_NAMES_MAX, PathNames};
use super::prepared::{Planned, Prepared, fields_of};
use super::{BackendRow, Home, LockRow, Pause, RandomBits, Reach, Session};
use crate::expr::ParamTypes;
use crate::parse::{CursorStatement, ParsedStatement};
use crate::plan::{self, IdentityValues, PlanContext, PlanKind, RelationAccess, TableRows};

/// What shows so many rows, or long ones, that a query has them with it only where it names it.
const OF_LOCKS: &[&str] = &["pg_locks", "pg_blocking_pids"];
const OF_BACKENDS: &[&str] = &["pg_stat_activity", "pg_stat_ssl", "pg_stat_gssapi", "pg_stat_database"];
const OF_PREPARED: &[&str] = &["pg_prepared_statements"];
const OF_SEQUENCES: &[&str] = &["pg_sequences"];
const OF_SETTINGS: &[&str] = &["pg_settings", "pg_show_all_settings", "current_setting", "version"];

/// Which numbers of rows a plan is made by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RowCounts {
    AsTheyAre,
    /// Of a plan that is kept: so tenants with tables of about one size have it in common ([`super::shared_plans`]).
    InSteps,
}

/// The first so many bits of a number of rows count: eight steps between a power of two and the next.
const COUNTED_BITS: u32 = 4;

/// The step that a number of rows is on: less than an eighth below it.
fn in_steps(rows: u64) -> u64 {
    let left_out = (u64::BITS - rows.leading_zeros()).saturating_sub(COUNTED_BITS);
    (rows >> left_out) << left_out
}

/// The tenant's row counts, for the choice of paths.
struct LiveRows<'a> {
    tenant: &'a Tenant,
    catalog: &'a Catalog,
    counts: RowCounts,
}

impl TableRows for LiveRows<'_> {
    fn rows(&self, table: Oid) -> u64 {
        self.counted(self.catalog.table(table).map_or(0, |table| self.tenant.row_count(table)))
    }

    fn entries(&self, table: Oid, index: Oid) -> Option<u64> {
        let index = self.catalog.table(table)?.index(index)?;
        Some(self.counted(self.tenant.entry_count(index)))
    }
}

impl LiveRows<'_> {
    fn counted(&self, rows: u64) -> u64 {
        match self.counts {
            RowCounts::AsTheyAre => rows,
            RowCounts::InSteps => in_steps(rows),
        }
    }
}

/// The query, INSERT, UPDATE or DELETE that a statement is, or that a DECLARE or EXPLAIN is about.
pub(super) fn plannable(statement: &ParsedStatement) -> Option<&ast::Statement> {
    match statement {
        ParsedStatement::Ast(statement) => match &**statement {
            ast::Statement::Explain { statement, .. } => is_plannable(statement).then_some(&**statement),
            statement => is_plannable(statement).then_some(statement),
        },
        ParsedStatement::Cursor(CursorStatement::Declare { statement, .. }) => Some(statement),
        _ => None,
    }
}

/// Whether a statement's plan is what runs. DECLARE and EXPLAIN run by themselves: theirs is their query's, which has their
/// parameters.
pub(super) fn runs_by_plan(statement: &ParsedStatement) -> bool {
    matches!(statement, ParsedStatement::Ast(statement) if is_plannable(statement))
}

fn is_plannable(statement: &ast::Statement) -> bool {
    matches!(
        statement,
        ast::Statement::Query(_)
            | ast::Statement::Insert(_)
            | ast::Statement::Update(_)
            | ast::Statement::Delete(_)
            | ast::Statement::Merge(_)
    )
}

impl Session {
    /// The catalog this session sees: with its own transaction's DDL.
    pub(super) fn catalog(&self, home: &Home<'_>) -> Arc<Catalog> {
        Arc::clone(self.peek_catalog(home))
    }

    /// As [`Session::catalog`], to look at.
    #[inline]
    pub(super) fn peek_catalog<'a>(&'a self, home: &'a Home<'_>) -> &'a Arc<Catalog> {
        self.transaction.peek().and_then(|open| open.txn.catalog()).unwrap_or(home.tenant.catalog())
    }

    /// Whether a plan was bound against the catalog and search path that hold now.
    #[inline]
    pub(super) fn plan_holds(&self, home: &Home<'_>, plan: &Planned) -> bool {
        let catalog = self.peek_catalog(home);
        !self.is_format_stale()
            && self
                .names
                .as_ref()
                .is_some_and(|names| names.shows(catalog) && names.search_path() == &plan.search_path[..])
            && plan.catalog_version == catalog.version()
    }

    /// The schemas that unqualified names are looked up in.
    pub(super) fn search_path(&self, catalog: &Catalog) -> Vec<Oid> {
        if !self.is_format_stale()
            && let Some(names) = self.names.as_ref().filter(|names| names.is_of(catalog))
        {
            return names.search_path().to_vec();
        }
        let settings = self.settings.borrow();
        catalog.search_path(settings.search_path().iter().map(String::as_str), &settings.role().name)
    }

    /// Renews the form of values after a setting or the catalog changed.
    pub(super) fn refresh_format(&mut self, catalog: &Arc<Catalog>) {
        if self.is_format_of(catalog) {
            return;
        }
        let stale = self.is_format_stale();
        let epoch = self.settings.borrow().epoch();
        if stale && self.format_epoch != epoch {
            self.format = Arc::new(self.settings.borrow().format_context(self.transaction_start));
            self.names = None;
            self.format_epoch = epoch;
        }
        let names = Arc::new(PathNames::new(Arc::clone(catalog), self.search_path(catalog)));
        self.names = Some(Arc::clone(&names));
        Arc::make_mut(&mut self.format).names = Some(names);
    }

    /// Whether the form of values is that of this catalog and of the settings as they are.
    #[inline]
    pub(super) fn is_format_of(&self, catalog: &Arc<Catalog>) -> bool {
        !self.is_format_stale() && self.names.as_ref().is_some_and(|names| names.shows(catalog))
    }

    /// The client is waited for: a large catalog, which others may change meanwhile, is not kept for that long. The next statement finds its names again.
    pub(super) fn let_go_of_names(&mut self) {
        if self.names.as_ref().is_some_and(|names| names.kept() > IDLE_NAMES_MAX) {
            self.names = None;
            Arc::make_mut(&mut self.format).names = None;
        }
    }

    /// Whether the form of values is still to be made up, or a setting changed since it was, the role among them.
    #[inline]
    pub(super) fn is_format_stale(&self) -> bool {
        self.names.is_none() || self.format_epoch != self.settings.borrow().epoch()
    }

    /// A plan for the statement that holds now: `known` if it still does, else a new one.
    ///
    /// # Errors
    /// What binding says: unknown names, wrong types, unsupported clauses.
    pub(super) fn planned(
        &mut self,
        home: &mut Home<'_>,
        statement: &ParsedStatement,
        declared: &[PgType],
        known: Option<&Arc<Planned>>,
    ) -> SqlResult<Option<Arc<Planned>>> {
        self.planned_by(home, statement, declared, known, RowCounts::AsTheyAre)
    }

    /// As [`Session::planned`] of a prepared statement of that name.
    pub(super) fn planned_to_keep(
        &mut self,
        home: &mut Home<'_>,
        name: &str,
        statement: &ParsedStatement,
        declared: &[PgType],
        known: Option<&Arc<Planned>>,
    ) -> SqlResult<Option<Arc<Planned>>> {
        let counts = if name.is_empty() { RowCounts::AsTheyAre } else { RowCounts::InSteps };
        self.planned_by(home, statement, declared, known, counts)
    }

    fn planned_by(
        &mut self,
        home: &mut Home<'_>,
        statement: &ParsedStatement,
        declared: &[PgType],
        known: Option<&Arc<Planned>>,
        counts: RowCounts,
    ) -> SqlResult<Option<Arc<Planned>>> {
        let is_run = runs_by_plan(statement);
        let Some(statement) = plannable(statement) else { return Ok(None) };
        let catalog = self.catalog(home);
        self.refresh_format(&catalog);
        if let Some(known) = known
            && self.plan_holds(home, known)
        {
            return Ok(Some(Arc::clone(known)));
        }
        self.bind_by(home, &catalog, statement, declared, IdentityValues::Refused, counts)
            .map(|planned| Some(Arc::new(Planned { is_run, ..planned })))
    }

    pub(super) fn bind_statement(
        &mut self,
        home: &mut Home<'_>,
        catalog: &Arc<Catalog>,
        statement: &ast::Statement,
        declared: &[PgType],
        identity: IdentityValues,
    ) -> SqlResult<Planned> {
        self.bind_by(home, catalog, statement, declared, identity, RowCounts::AsTheyAre)
    }

    fn bind_by(
        &mut self,
        home: &mut Home<'_>,
        catalog: &Arc<Catalog>,
        statement: &ast::Statement,
        declared: &[PgType],
        identity: IdentityValues,
        counts: RowCounts,
    ) -> SqlResult<Planned> {
        self.observe(home.tenant.definitions_pending());
        self.refresh_format(catalog);
        let search_path = self.search_path(catalog);
        let params = ParamTypes::new(declared).at_length(self.asked());
        let rows = LiveRows { tenant: home.tenant, catalog, counts };
        let context = PlanContext {
            catalog,
            search_path: &search_path,
            params: &params,
            format: &self.format,
            rows: &rows,
            identity,
        };
        let bound = plan::bind(statement, &context)?;
        let analytic = matches!(bound.kind, PlanKind::Analytic { .. });
        let query = match statement {
            // Kept for the point path too: a query that outgrows it starts over on the analytical path.
            ast::Statement::Query(query) if bound.read_only => Some(Arc::new((**query).clone())),
            _ => None,
        };
        let fields = (!analytic).then(|| fields_of(&bound.output));
        let parameters = Arc::from(&bound.parameters[..]);
        let search_path = SmallVec::from_slice(&search_path);
        Ok(Planned::new(Arc::new(bound), catalog.version(), search_path, parameters, fields, query))
    }

    /// Has the analytical planner tell the parameters and columns that binding could not.
    ///
    /// # Errors
    /// A pause the first time; what the planner says.
    pub(super) fn described(
        &mut self,
        home: &mut Home<'_>,
        planned: Arc<Planned>,
    ) -> Result<Arc<Planned>, Pause> {
        if planned.is_described() {
            if matches!(self.analytic, AnalyticState::Described { .. }) {
                // It was described before the catalog changed.
                self.analytic = AnalyticState::Idle;
            }
            return Ok(planned);
        }
        let state = std::mem::take(&mut self.analytic);
        if let AnalyticState::Failed(error) = state {
            return Err(error.into());
        }
        let (wanted, is_run) = (planned.catalog_version, planned.is_run);
        if let AnalyticState::Described { version, parameters, fields } = state
            && version == wanted
        {
            let Planned { bound, catalog_version, search_path, query, .. } = match Arc::try_unwrap(planned) {
                Ok(planned) => planned,
                Err(shared) => {
                    // Someone else holds the undescribed plan: bind once more rather than copy it.
                    let query = shared.query.clone().expect("only a query is described elsewhere");
                    let catalog = self.catalog(home);
                    let statement = ast::Statement::Query(Box::new((*query).clone()));
                    self.bind_statement(
                        home,
                        &catalog,
                        &statement,
                        &shared.parameters,
                        IdentityValues::Refused,
                    )?
                }
            };
            if let Some(index) = parameters.iter().position(|ty| *ty == PgType::Unknown) {
                let message = format!("could not determine data type of parameter ${}", index + 1);
                return Err(SqlError::new(SqlState::INDETERMINATE_DATATYPE, message).into());
            }
            let fields = Some(fields);
            let parameters = parameters.into();
            let planned = Planned::new(bound, catalog_version, search_path, parameters, fields, query);
            return Ok(Arc::new(Planned { is_run, ..planned }));
        }
        let request = self.analytic_request(home, &planned, Vec::new(), Deliver::DescribeOnly)?;
        self.analytic = AnalyticState::Describing { version: wanted };
        Err(Pause::Analytic(Box::new(request)))
    }

    /// A request for the analytical path, with everything it may look at frozen now.
    pub(super) fn analytic_request(
        &mut self,
        home: &mut Home<'_>,
        planned: &Planned,
        parameters: Vec<types::Datum>,
        deliver: Deliver,
    ) -> Result<AnalyticRequest, Pause> {
        let query =
            planned.query.clone().ok_or_else(|| SqlError::internal("a plan without a query was sent out"))?;
        let reason = match &planned.bound.kind {
            PlanKind::Analytic { reason, .. } => reason.clone(),
            PlanKind::Point(_) => String::new(),
        };
        let reads = match deliver {
            Deliver::DescribeOnly => &[][..],
            _ => &planned.bound.accesses,
        };
        let types = planned.parameters.to_vec();
        let mut request = self.query_request(home, query, reads, types, parameters, reason, deliver)?;
        request.reads_system_only = planned.bound.reads_system_only();
        Ok(request)
    }

    /// `reads`: the relations that the query may read, others among them. Their tables are locked to the transaction's end, as the point path
    /// locks what it reads.
    #[expect(clippy::too_many_arguments, reason = "the parts of a request")]
    pub(super) fn query_request(
        &mut self,
        home: &mut Home<'_>,
        query: Arc<ast::Query>,
        reads: &[RelationAccess],
        parameter_types: Vec<PgType>,
        parameters: Vec<types::Datum>,
        reason: String,
        deliver: Deliver,
    ) -> Result<AnalyticRequest, Pause> {
        let began = self.start.host.now();
        let catalog = self.catalog(home);
        self.refresh_format(&catalog);
        self.begin_implicit(home);
        let names = |of: &[&str]| {
            let is_of = |view: &ViewDefinition| plan::text_names_any(&view.sql, of);
            plan::names_any(&query, of)
                || reads.iter().any(|access| catalog.view(access.relation).is_some_and(|view| is_of(view)))
        };
        // Most name none of them.
        let shown = [OF_LOCKS, OF_BACKENDS, OF_PREPARED, OF_SEQUENCES, OF_SETTINGS];
        let is_looked_at = names(&shown.concat());
        let [shows_locks, shows_backends, shows_prepared, shows_sequences, shows_settings] =
            shown.map(|of| is_looked_at && names(of));
        let reads = reads.iter().filter(|access| access.privileges.contains(Privileges::SELECT));
        let reads = reads.map(|access| access.relation).filter(|oid| catalog.table(*oid).is_some());
        self.with_view(home, |view| {
            let lock = |table| view.lock_table(table, TableLock::AccessShare, WaitPolicy::Wait);
            reads.clone().try_for_each(lock)
        })?;
        let locks = if shows_locks { super::utility::lock_rows(home.tenant) } else { Vec::new() };
        let backends = if shows_backends {
            self.start.host.backends(self.reach(), &self.underway())
        } else {
            Vec::new()
        };
        let prepared = if shows_prepared { self.prepared_rows() } else { Vec::new() };
        // Of what is only described the views are not looked through.
        let settings = if shows_settings || deliver == Deliver::DescribeOnly {
            self.settings.borrow().all(self.start.host.statement_time_max())
        } else {
            Vec::new()
        };
        // As many as there are sessions, in each of which such a query may wait for its place.
        let rows = backends.iter().map(BackendRow::size).chain(prepared.iter().map(PreparedRow::size));
        let of_settings = settings.iter().map(|(name, value, about)| name.len() + value.len() + about.len());
        self.keep(rows.chain(of_settings).sum())?;
        let sequences = if shows_sequences { self.sequence_values(home, &catalog)? } else { Vec::new() };
        let context = Arc::new(self.query_context(locks, backends, prepared, sequences, settings));
        let open = self.transaction.open().expect("a transaction was just begun");
        let view = home.tenant.snapshot_view(&mut open.txn)?;
        home.tenant.note_tables_read(&mut open.txn, reads);
        let observed = open.txn.observed();
        self.observe(observed);
        self.start.host.snapshot_taken(self.start.host.now() - began);
        let limits = super::QueryLimits::default();
        Ok(AnalyticRequest {
            query,
            parameter_types,
            parameters,
            view,
            context,
            deliver,
            reason,
            reads_system_only: false,
            limits,
        })
    }

    fn reach(&self) -> Reach {
        self.settings.borrow().reach()
    }

    fn query_context(
        &mut self,
        locks: Vec<LockRow>,
        backends: Vec<BackendRow>,
        prepared: Vec<PreparedRow>,
        sequences: Vec<(Oid, i64)>,
        shown_settings: Vec<(String, String, String)>,
    ) -> QueryContext {
        let settings = self.settings.borrow();
        let reach = settings.reach();
        let mut key = [0; 32];
        self.start.host.random(&mut key);
        QueryContext {
            database: self.start.database.clone(),
            user: settings.role().name.clone(),
            session_user: settings.session_role().name.clone(),
            pid: self.start.id.0,
            search_path: settings.search_path(),
            transaction_start: self.transaction_start,
            statement_start: self.statement_start,
            server_start: self.start.host.server_start(),
            format: Arc::clone(&self.format),
            settings: shown_settings,
            backends,
            role: settings.privileged_role(),
            signals: self.start.host.signals(reach),
            ledger: self.start.host.ledger(reach),
            locks,
            databases: self.start.host.databases(reach),
            prepared,
            sequences,
            random: Arc::new(RandomBits::new(key)),
        }
    }

    /// The last value of each sequence that has given one out, for `pg_sequences`.
    fn sequence_values(&mut self, home: &mut Home<'_>, catalog: &Catalog) -> Result<Vec<(Oid, i64)>, Pause> {
        self.with_view(home, |view| {
            let mut values = Vec::new();
            for sequence in catalog.sequences() {
                view.step()?;
                let value = view.sequence_value(sequence.oid)?;
                if value.is_called {
                    values.push((sequence.oid, value.last_value));
                }
            }
            Ok(values)
        })
    }

    /// The named prepared statements, for `pg_prepared_statements`.
    fn prepared_rows(&self) -> Vec<PreparedRow> {
        let named = self.statements.iter().filter(|(name, _)| !name.is_empty());
        let row = |(name, prepared): (&CompactString, &Prepared)| PreparedRow {
            name: name.to_string(),
            statement: prepared.sql.to_string(),
            prepared: prepared.at,
            parameters: prepared.parameters().to_vec(),
            from_sql: prepared.from_sql,
        };
        named.map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use base::{SqlError, SqlState};

    use crate::session::stand_in::Answer;
    use crate::session::testing::Bench;
    use crate::session::{Bind, Executed, Pause, Session};

    const RUN: Bind<'_> =
        Bind { portal: "", statement: "s", parameter_formats: &[], parameters: &[], result_formats: &[] };

    fn run(bench: &mut Bench, session: &mut Session) -> Result<Executed, Pause> {
        let mut out = Answer::default();
        bench.turn(|home| {
            session.bind(home, RUN, &mut out)?;
            session.execute(home, "", None, &mut out)
        })
    }

    #[test]
    fn a_plan_of_a_small_table_is_not_begun_again_and_again_when_it_has_grown() {
        let mut bench = Bench::new();
        let mut session = bench.session();
        bench.run(&mut session, "CREATE TABLE t (id int PRIMARY KEY, v int)");
        let mut out = Answer::default();
        bench.turn(|home| session.parse(home, "s", "SELECT id FROM t WHERE v = 0", &[], &mut out)).unwrap();
        assert!(matches!(run(&mut bench, &mut session), Ok(Executed::Complete)));
        bench.turn(|home| session.sync(home, &mut out)).unwrap();
        bench.run(&mut session, "INSERT INTO t SELECT g, g FROM generate_series(1, 30000) g");
        // It outgrows what it was expected to be, and is sent out in its middle; the next time at once.
        for begins_here in [true, false] {
            let Err(Pause::Analytic(request)) = run(&mut bench, &mut session) else {
                panic!("it is sent out")
            };
            assert_eq!(request.reason.is_empty(), begins_here, "{}", request.reason);
            let failed = SqlError::new(SqlState::QUERY_CANCELED, "by the test");
            bench.turn(|home| session.fail(home, &failed));
            bench.turn(|home| session.sync(home, &mut out)).unwrap();
        }
    }

    #[test]
    fn what_is_about_another_statement_does_not_run_by_its_plan() {
        let mut bench = Bench::new();
        let mut session = bench.session();
        bench.run(&mut session, "CREATE TABLE t (id int PRIMARY KEY)");
        for (name, sql, runs) in [
            ("query", "SELECT id FROM t", true),
            ("change", "DELETE FROM t WHERE id = $1", true),
            ("explain", "EXPLAIN SELECT id FROM t", false),
            ("declare", "DECLARE c CURSOR FOR SELECT id FROM t", false),
        ] {
            bench.turn(|home| session.parse(home, name, sql, &[], &mut Answer::default())).unwrap();
            let prepared = &session.statements[name];
            assert!(prepared.plan.is_some(), "{sql}");
            assert_eq!(prepared.running_plan().is_some(), runs, "{sql}");
        }
    }
}
