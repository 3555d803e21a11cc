//! COPY: the statement's beginning, its data, its end.

use compact_str::format_compact;
use std::ops::ControlFlow;
use std::sync::Arc;

use base::{Oid, SqlError, SqlResult, SqlState};
use sqlparser::ast;
use tenant::catalog::{Catalog, Privileges, Table};
use tenant::locks::{TableLock, WaitPolicy};
use types::{Datum, PgType, Row};

use super::analytic::{Announce, Deliver};
use super::counting::Outcome;
use super::output_bounds::{OutputBounds, SENT_MAX};
use super::prepared::Planned;
use super::reply::{CopyShape, Format};
use super::run::Ran;
use super::transaction::Transaction;
use super::{Home, Pause, Reply, Session};
use crate::copy::{CopyColumn, CopyEncoder, CopyReader};
use crate::exec::{self, Flow, RowSink};
use crate::parse::{CopyDirection, CopyOptions, CopySource, CopyStatement, CopyTextFormat, ParsedStatement};
use crate::plan::{self, IdentityValues};

/// A `COPY … FROM STDIN` under way.
pub(super) struct CopyIn {
    reader: CopyReader,
    /// An INSERT of one row, its columns being the parameters.
    insert: Arc<Planned>,
    rows: u64,
    /// The row read and not stored yet, when storing it had to wait.
    waiting: Option<Row>,
    /// The table, if its rows may refer to each other.
    own: Option<Oid>,
    finished: bool,
}

impl CopyIn {
    /// Bytes of data that are not rows yet.
    pub(super) fn kept(&self) -> usize {
        self.reader.kept()
    }

    /// The client is waited for.
    pub(super) fn settle(&mut self) {
        self.reader.settle();
    }
}

/// Rows between two looks whether others are to have their turns.
const ROWS_A_LOOK: u64 = 256;

/// Rows on their way out, in COPY's form.
struct CopyRows<'a> {
    encoder: CopyEncoder,
    context: Arc<types::FormatContext>,
    buffer: Vec<u8>,
    out: &'a mut dyn Reply,
    bounds: OutputBounds,
}

impl RowSink for CopyRows<'_> {
    fn row(&mut self, row: &[Datum]) -> SqlResult<Flow> {
        if self.bounds.look(self.out.buffered())? == Flow::Stop {
            return Ok(Flow::Stop);
        }
        self.encoder.row(row, &self.context, &mut self.buffer);
        self.out.encoded_rows(&self.buffer);
        self.buffer.clear();
        Ok(Flow::More)
    }
}

impl Session {
    pub(super) fn begin_copy(
        &mut self,
        home: &mut Home<'_>,
        statement: &CopyStatement,
        out: &mut dyn Reply,
    ) -> Result<Ran, Pause> {
        match statement.direction {
            CopyDirection::ToClient => self.copy_to_client(home, statement, out),
            CopyDirection::FromClient => self.copy_from_client(home, statement, out),
        }
    }

    fn copy_to_client(
        &mut self,
        home: &mut Home<'_>,
        statement: &CopyStatement,
        out: &mut dyn Reply,
    ) -> Result<Ran, Pause> {
        let copied = match &statement.source {
            CopySource::Query { statement, .. } => statement.clone(),
            CopySource::Table { name, columns } => {
                let shown = self.shown_columns(home, name, columns.as_deref())?;
                Box::new(ast::Statement::Query(Box::new(select_all(name, shown.as_deref())?)))
            }
        };
        if let Some(streamed) = self.streamed() {
            let count = streamed?;
            out.copy_done();
            return Ok(Ran::Tag(format_compact!("COPY {count}")));
        }
        let planned = self.planned(home, &ParsedStatement::Ast(copied), &[], None)?;
        let planned = planned.ok_or_else(|| SqlError::unsupported("this statement in COPY"))?;
        planned.require_parameters(0)?;
        if planned.bound.command.writes().is_some() && planned.bound.output.is_empty() {
            let message = "COPY query must have a RETURNING clause";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).into());
        }
        self.check_access(home, &planned)?;
        let is_point = matches!(planned.bound.kind, plan::PlanKind::Point(_));
        let copied =
            if is_point { self.copy_by_point_plan(home, &planned, &statement.options, out)? } else { None };
        let count = match copied {
            Some(count) => count,
            None => {
                let announce = Announce::Copy(format_of(&statement.options));
                let deliver = Deliver::Copy(statement.options.clone());
                self.stream_analytic(home, &planned, &[], deliver, announce)?
            }
        };
        out.copy_done();
        Ok(Ran::Tag(format_compact!("COPY {count}")))
    }

    /// The columns of a relation that COPY TO shows: those named, or all but generated ones; `None` for a `*`.
    ///
    /// # Errors
    /// 42P10 where a generated one is named.
    fn shown_columns(
        &self,
        home: &Home<'_>,
        name: &[String],
        columns: Option<&[String]>,
    ) -> SqlResult<Option<Vec<String>>> {
        let (catalog, named) = (self.peek_catalog(home), || columns.map(<[String]>::to_vec));
        // What there is to say of another relation, or of none, the query says.
        let Ok((schema, own)) = super::privilege::split_name(name) else { return Ok(named()) };
        let Ok(table) = catalog.resolve_table(schema, own, &self.search_path(catalog)) else {
            return Ok(named());
        };
        if table.generated_columns().next().is_none() {
            return Ok(named());
        }
        let shown = copied_columns(table, columns)?;
        Ok(Some(shown.into_iter().map(|position| table.columns[position].name.to_string()).collect()))
    }

    /// `None` where it turned out to be one for the analytical path; then nothing was written.
    fn copy_by_point_plan(
        &mut self,
        home: &mut Home<'_>,
        planned: &Arc<Planned>,
        options: &CopyOptions,
        out: &mut dyn Reply,
    ) -> Result<Option<u64>, Pause> {
        let mark = out.mark();
        let fields = planned.fields.as_deref().unwrap_or_default();
        let mut buffer = Vec::new();
        let encoder = CopyEncoder::begin(fields, options, &mut buffer)?;
        Announce::Copy(format_of(options)).tell(fields, out);
        out.encoded_rows(&buffer);
        buffer.clear();
        let context = self.format_for(home);
        let limits = self.limits_of_point_path(planned);
        let bounds = OutputBounds::new(out.buffered(), &limits, SENT_MAX, home.tenant.changes_max());
        let mut sink = CopyRows { encoder, context, buffer, out, bounds };
        let done = self.run_point(home, planned, &[], &mut sink, limits)?;
        let CopyRows { encoder, mut buffer, out, bounds, .. } = sink;
        let Some(done) = done.filter(|_| !bounds.is_outgrown()) else {
            out.rewind(mark);
            return Ok(None);
        };
        encoder.end(&mut buffer);
        out.encoded_rows(&buffer);
        Ok(Some(done.rows))
    }

    fn copy_from_client(
        &mut self,
        home: &mut Home<'_>,
        statement: &CopyStatement,
        out: &mut dyn Reply,
    ) -> Result<Ran, Pause> {
        self.require_writable(home, "COPY FROM")?;
        let CopySource::Table { name, columns } = &statement.source else {
            return Err(SqlError::internal("a query was read as the target of a COPY").into());
        };
        let catalog = self.catalog(home);
        let path = self.search_path(&catalog);
        let (schema, name) = super::privilege::split_name(name)?;
        let table = Arc::clone(catalog.resolve_table(schema, name, &path)?);
        self.check_privilege(&catalog, table.oid, Privileges::INSERT)?;
        statement.filter.as_ref().map_or(Ok(()), check_filter)?;
        // From here on the table stays as the rows' INSERT is planned for. Where this waits, all begins anew.
        self.with_view(home, |view| view.lock_table(table.oid, TableLock::RowExclusive, WaitPolicy::Wait))?;
        let positions = copied_columns(&table, columns.as_deref())?;
        let copied: Vec<CopyColumn> = positions
            .iter()
            .map(|position| {
                let column = &table.columns[*position];
                CopyColumn { name: column.name.to_string(), ty: column.ty, modifier: column.typmod }
            })
            .collect();
        let count = copied.len();
        let types: Vec<PgType> = copied.iter().map(|column| column.ty).collect();
        let insert = insert_of_row(&catalog, &table, &copied, statement.filter.as_ref())?;
        let insert = Arc::new(
            self.bind_statement(home, &catalog, &insert, &types, IdentityValues::Taken)
                .map_err(SqlError::without_location)?,
        );
        let reader = CopyReader::new(name, copied, statement.options.clone())?;
        out.copy_in(CopyShape::new(format_of(&statement.options), count));
        let is_own = table.foreign_keys.iter().any(|key| key.referenced_table == table.oid);
        let own = is_own.then_some(table.oid);
        self.copy_in = Some(CopyIn { reader, insert, rows: 0, waiting: None, own, finished: false });
        Ok(Ran::CopyIn)
    }

    /// A piece of a COPY's input; pieces may split rows anywhere. After a pause the same call is made again with no data.
    pub fn copy_data(&mut self, home: &mut Home<'_>, data: &[u8]) -> Result<(), Pause> {
        let Some(copy) = &mut self.copy_in else { return Ok(()) };
        copy.reader.push(data);
        self.store_copied(home)?;
        // What is left is the beginning of a row, which may be long.
        let room = self.keep(0);
        if room.is_err() {
            self.count_end(Outcome::Failed);
            (self.copy_in, self.script) = (None, None);
        }
        self.failing(home, room.map_err(Pause::from))
    }

    /// The end of a COPY's input: CommandComplete. An error aborts the COPY.
    pub fn copy_done(&mut self, home: &mut Home<'_>, out: &mut dyn Reply) -> Result<(), Pause> {
        if let Some(tag) = self.host_copy {
            return self.finish_copy(home, tag, out);
        }
        let Some(copy) = &mut self.copy_in else { return Ok(()) };
        if !copy.finished {
            copy.finished = true;
            if let Err(error) = copy.reader.finish() {
                self.count_end(Outcome::Failed);
                self.copy_in = None;
                self.script = None;
                self.fail_transaction(home);
                return Err(error.into());
            }
        }
        self.store_copied(home)?;
        let ended = self.check_own(home).and_then(|()| Ok(self.check_taken()?));
        if let Err(Pause::Error(_)) = ended {
            self.count_end(Outcome::Failed);
            self.copy_in = None;
            self.script = None;
            self.fail_transaction(home);
        }
        ended?;
        let rows = self.copy_in.as_ref().map_or(0, |copy| copy.rows);
        self.finish_copy(home, &format_compact!("COPY {rows}"), out)
    }

    /// Makes the checks of rows that refer to others of the same COPY.
    ///
    /// # Errors
    /// 23503. A pause for locks and turns of the checks.
    fn check_own(&mut self, home: &mut Home<'_>) -> Result<(), Pause> {
        let has_own = self.copy_in.as_ref().is_some_and(|copy| copy.own.is_some());
        if !has_own || !self.transaction.open().is_some_and(|open| open.txn.has_checks_due()) {
            return Ok(());
        }
        let checked = self.with_view(home, |view| view.check_own());
        if let Some(open) = self.transaction.open() {
            home.tenant.keep_locks(&mut open.txn);
        }
        checked
    }

    /// All data is in: commits, unless more statements or a block follow.
    fn finish_copy(&mut self, home: &mut Home<'_>, tag: &str, out: &mut dyn Reply) -> Result<(), Pause> {
        if !self.script_continues()
            && matches!(self.transaction, Transaction::Implicit(_))
            && self.script.is_some()
        {
            let committed = self.commit_implicit(home);
            if let Err(Pause::Error(_)) = committed {
                self.count_end(Outcome::Failed);
                self.copy_in = None;
                self.host_copy = None;
                self.script = None;
            }
            committed?;
        }
        self.copy_in = None;
        self.host_copy = None;
        self.progress.end();
        self.complete(tag, out);
        Ok(())
    }

    /// The client gave the COPY up with `message`; the error to tell it.
    pub fn copy_fail(&mut self, home: &mut Home<'_>, message: &str) -> SqlError {
        self.count_end(Outcome::Failed);
        self.copy_in = None;
        self.host_copy = None;
        self.script = None;
        self.fail_transaction(home);
        SqlError::new(SqlState::QUERY_CANCELED, format!("COPY from stdin failed: {message}"))
    }

    /// Stores the rows that are whole.
    fn store_copied(&mut self, home: &mut Home<'_>) -> Result<(), Pause> {
        let Some(mut copy) = self.copy_in.take() else { return Ok(()) };
        let outcome = self.store_rows(home, &mut copy);
        if let Err(Pause::Error(_)) = outcome {
            self.count_end(Outcome::Failed);
            self.script = None;
            self.fail_transaction(home);
        } else {
            self.copy_in = Some(copy);
        }
        outcome
    }

    fn store_rows(&mut self, home: &mut Home<'_>, copy: &mut CopyIn) -> Result<(), Pause> {
        let mut read = 0;
        loop {
            self.pour_if_much(home)?;
            read += 1;
            if read % ROWS_A_LOOK == 0 && self.start.host.is_to_end(&self.underway()) {
                return Err(Pause::Yield);
            }
            let row = match copy.waiting.take() {
                Some(row) => row,
                None => match copy.reader.next_row(&self.format)? {
                    Some(row) => row,
                    None => return Ok(()),
                },
            };
            let Some(open) = self.transaction.open() else {
                return Err(SqlError::internal("a COPY lost its transaction").into());
            };
            let mark = open.txn.mark();
            open.txn.look_later(copy.own);
            let stored = self.run_point(home, &copy.insert, &row, &mut Discard, exec::ExecLimits::default());
            self.transaction.open().into_iter().for_each(|open| open.txn.look_later(None));
            match stored {
                Ok(stored) => {
                    if let Some(open) = self.transaction.open() {
                        home.tenant.settle_session_locks(&mut open.txn);
                    }
                    copy.rows += stored.map_or(0, |done| done.rows);
                    // A row that was taken in.
                    self.progress.end_part(1);
                }
                Err(pause) => {
                    self.take_back(home, &mark, &pause);
                    return Err(match pause {
                        Pause::Error(error) if error.context().is_none() => {
                            error.with_context(copy.reader.place()).into()
                        }
                        Pause::Error(error) => error.into(),
                        pause => {
                            copy.waiting = Some(row);
                            pause
                        }
                    });
                }
            }
        }
    }
}

/// For rows that nobody wants.
pub(super) struct Discard;

impl RowSink for Discard {
    fn row(&mut self, _row: &[Datum]) -> SqlResult<Flow> {
        Ok(Flow::More)
    }
}

/// `INSERT INTO table (columns) VALUES ($1, …)`, or with a WHERE over those values. The condition is put there as it was read: printed it might be read as
/// another one.
fn insert_of_row(
    catalog: &Catalog,
    table: &Table,
    columns: &[CopyColumn],
    filter: Option<&ast::Expr>,
) -> SqlResult<ast::Statement> {
    let schema = quoted(catalog.schema_name(table.schema));
    let name = quoted(&table.name);
    let names = columns.iter().map(|column| quoted(&column.name)).collect::<Vec<_>>().join(", ");
    let parameters = (1..=columns.len()).map(|n| format!("${n}")).collect::<Vec<_>>().join(", ");
    let source = match filter {
        None => format!("values ({parameters})"),
        Some(_) => format!("select * from (values ({parameters})) as {name} ({names})"),
    };
    let sql = match (columns, filter) {
        ([], None) => format!("insert into {schema}.{name} default values"),
        ([], Some(_)) => return Err(SqlError::unsupported("a condition of a COPY without columns")),
        _ => format!("insert into {schema}.{name} ({names}) {source}"),
    };
    let mut statement = match crate::parse::parse_one(&sql)?.map(|script| script.statement) {
        Some(ParsedStatement::Ast(statement)) => *statement,
        _ => return Err(SqlError::internal("a COPY's INSERT cannot be read")),
    };
    if let ast::Statement::Insert(insert) = &mut statement
        && let Some(source) = &mut insert.source
        && let ast::SetExpr::Select(select) = &mut *source.body
    {
        select.selection = filter.cloned();
        return Ok(statement);
    }
    if filter.is_none() { Ok(statement) } else { Err(SqlError::internal("a COPY's condition has no place")) }
}

/// Errors: 0A000 for a condition with a query in it, since nobody has looked at what that may read; 42P02 for one with a parameter.
fn check_filter(filter: &ast::Expr) -> SqlResult<()> {
    struct Parts;
    impl ast::Visitor for Parts {
        type Break = SqlError;

        fn pre_visit_query(&mut self, _query: &ast::Query) -> ControlFlow<SqlError> {
            let message = "cannot use subquery in COPY FROM WHERE condition";
            ControlFlow::Break(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message))
        }

        fn pre_visit_value(&mut self, value: &ast::ValueWithSpan) -> ControlFlow<SqlError> {
            let ast::Value::Placeholder(name) = &value.value else { return ControlFlow::Continue(()) };
            let message = format!("there is no parameter {name}");
            ControlFlow::Break(SqlError::new(SqlState::UNDEFINED_PARAMETER, message))
        }
    }
    match ast::Visit::visit(filter, &mut Parts) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn format_of(options: &CopyOptions) -> Format {
    if options.format == CopyTextFormat::Binary { Format::Binary } else { Format::Text }
}

/// Positions of the columns copied: those named, or all but generated ones.
///
/// # Errors
/// 42703, 42701; 42P10 for a generated one.
fn copied_columns(table: &Table, names: Option<&[String]>) -> SqlResult<Vec<usize>> {
    let Some(names) = names else {
        let given = table.live_columns().filter(|(_, column)| !column.is_generated());
        return Ok(given.map(|(position, _)| position).collect());
    };
    let mut positions = Vec::new();
    for name in names {
        let (position, column) = table.column(name).ok_or_else(|| {
            let message = format!("column \"{name}\" of relation \"{}\" does not exist", table.name);
            SqlError::new(SqlState::UNDEFINED_COLUMN, message)
        })?;
        if column.is_generated() {
            let message = format!("column \"{name}\" is a generated column");
            return Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message)
                .with_detail("Generated columns cannot be used in COPY."));
        }
        if positions.contains(&position) {
            let message = format!("column \"{name}\" specified more than once");
            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
        }
        positions.push(position);
    }
    Ok(positions)
}

/// `SELECT columns FROM name`, for a COPY of a table.
fn select_all(name: &[String], columns: Option<&[String]>) -> SqlResult<ast::Query> {
    let relation = name.iter().map(|part| quoted(part)).collect::<Vec<_>>().join(".");
    let columns =
        columns.map_or("*".to_owned(), |c| c.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(", "));
    crate::parse::parse_query(&format!("select {columns} from {relation}"))
}
