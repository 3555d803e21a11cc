//! From a parsed query or DML statement to a plan: names resolved, path chosen, access paths fixed.
//!
//! [`bind`] gives every statement a [`BoundPlan`]. What the *point path* takes carries a [`PointPlan`], which is immutable,
//! `Send + Sync`, and runs any number of times for one version of the catalog. Everything else is [`PlanKind::Analytic`]
//! with a reason. A clause that nobody consumed is an error: the walks destructure every syntax node by all of its fields.
//!
//! Order of reading: `point_plan` (the result), `level` (names), `from_clause`, `open_level`, `select`, `values`, `grouping`, `ordering`, `row_locks` (binding), `path`,
//! `join_order` and `keyed` (access paths), `insert`, `update`, `delete` (DML), `parts` (a WITH that changes rows), `unnamed`, `union`, `settings_rows`, `analytic` (what goes elsewhere),
//! `size` and `short` (what a plan takes, in memory and of its worker).

mod analytic;
mod binder;
mod cost;
mod delete;
mod from_clause;
mod grouping;
mod insert;
mod join_order;
mod keyed;
mod level;
mod open_level;
mod ordering;
mod outer_joins;
mod parts;
mod path;
mod point_plan;
mod refuse;
mod row_locks;
mod select;
mod settings_rows;
mod short;
mod size;
mod target;
mod union;
mod unnamed;
mod update;
mod values;
mod visit;

use base::{Oid, SqlError, SqlResult};
use compact_str::{CompactString, ToCompactString};
use sqlparser::ast;
use tenant::catalog::{Catalog, Privileges};
use types::{FormatContext, PgType, TypeMod};

use crate::expr::ParamTypes;
use crate::parse::{changes_rows, is_change};

pub use analytic::{names_any, text_names_any};
pub use cost::POINT_ROWS_MAX;
pub use keyed::KeyedRows;
pub use ordering::{check_comparable, output_position};
pub use point_plan::{
    AccessPath, AggregatePlan, Alternative, Arbiter, CascadePlan, ChangeSource, CheckPlan, ConflictAction,
    DeletePlan, DistinctPlan, ExternalSource, InsertPlan, InsertSource, KeyPart, LockPlan, LockStrength,
    LockWaitPolicy, Node, NodeId, NodeKind, Part, PointPlan, PointStatement, ProbeFit, RangeBound,
    ReturningPlan, ScanNode, SelectPlan, SortColumn, TableFunction, TableUse, TargetColumn, UpdatePlan,
};
pub use select::require_few_columns;
pub(crate) use target::refuse_generated;

/// Live row counts, for the choice of paths. An estimate will do.
pub trait TableRows {
    /// Rows of the table now.
    fn rows(&self, table: Oid) -> u64;

    /// Entries of one of its indexes now; `None` where nobody knows.
    fn entries(&self, _table: Oid, _index: Oid) -> Option<u64> {
        None
    }
}

/// Everything binding looks at.
#[derive(Clone, Copy)]
pub struct PlanContext<'a> {
    pub catalog: &'a Catalog,
    /// As [`Catalog::search_path`] gives it.
    pub search_path: &'a [Oid],
    pub params: &'a ParamTypes,
    /// Settings for reading literals, and the catalog's type names.
    pub format: &'a FormatContext,
    pub rows: &'a dyn TableRows,
    pub identity: IdentityValues,
}

/// What an INSERT's values for GENERATED ALWAYS columns are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum IdentityValues {
    /// An error (428C9).
    #[default]
    Refused,
    /// Taken as they are: OVERRIDING SYSTEM VALUE, COPY.
    Taken,
    /// Left aside for the sequence's, BY DEFAULT columns' too: OVERRIDING USER VALUE.
    Ignored,
}

/// A column of a result.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputColumn {
    pub name: String,
    pub ty: PgType,
    pub typmod: TypeMod,
    /// The table it comes from unchanged, else `Oid(0)`.
    pub table_oid: Oid,
    /// That table's column, counted from 1, else 0.
    pub attnum: i16,
}

/// A relation the statement touches, and what the role needs on it.
#[derive(Clone, Debug, PartialEq)]
pub struct RelationAccess {
    pub relation: Oid,
    pub privileges: Privileges,
    /// Whose privileges count: `None` for the current role, a view's owner for what stands in the view.
    pub as_role: Option<Oid>,
}

/// Which command tag and counting rule a statement has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command {
    Select,
    Insert,
    Update,
    Delete,
}

impl Command {
    /// Its name, if it changes rows.
    pub fn writes(self) -> Option<&'static str> {
        match self {
            Command::Select => None,
            Command::Insert => Some("INSERT"),
            Command::Update => Some("UPDATE"),
            Command::Delete => Some("DELETE"),
        }
    }

    /// The command tag for `rows` rows.
    pub fn tag(self, rows: u64) -> CompactString {
        let of_one = match self {
            Command::Select => "SELECT 1",
            Command::Insert => "INSERT 0 1",
            Command::Update => "UPDATE 1",
            Command::Delete => "DELETE 1",
        };
        // Most statements of transactions are of one row.
        if rows == 1 {
            return CompactString::const_new(of_one);
        }
        let mut tag = CompactString::const_new(&of_one[..of_one.len() - 1]);
        tag.push_str(&rows.to_compact_string());
        tag
    }
}

/// A bound statement.
#[derive(PartialEq, Debug)]
pub struct BoundPlan {
    pub command: Command,
    /// The columns of the result; empty for DML without RETURNING. For [`PlanKind::Analytic`] they are unknown here and
    /// this is empty: the analytical planner describes them.
    pub output: Vec<OutputColumn>,
    /// Types of the parameters; for [`PlanKind::Analytic`] `Unknown` where only the analytical planner can tell.
    pub parameters: Vec<PgType>,
    /// Each relation once for each role it is checked as.
    pub accesses: Vec<RelationAccess>,
    /// Neither changes rows nor locks them.
    pub read_only: bool,
    pub kind: PlanKind,
}

/// Who runs a statement.
#[derive(PartialEq, Debug)]
pub enum PlanKind {
    Point(Box<PointPlan>),
    /// The analytical path; never DML, never a query that locks rows.
    Analytic {
        reason: String,
        /// It names some of the server's own tables.
        names_system: bool,
    },
}

impl BoundPlan {
    /// The point plan, if it is one.
    pub fn point(&self) -> Option<&PointPlan> {
        match &self.kind {
            PlanKind::Point(plan) => Some(plan),
            PlanKind::Analytic { .. } => None,
        }
    }

    /// Whether it reads some of the server's own tables, and no others.
    pub fn reads_system_only(&self) -> bool {
        matches!(self.kind, PlanKind::Analytic { names_system: true, .. }) && self.accesses.is_empty()
    }

    /// What PostgreSQL calls the statement where it refuses it in a read-only transaction; `None` if it changes no rows.
    pub fn writes(&self) -> Option<&'static str> {
        let parts_write = || self.point().is_some_and(|plan| !plan.parts.is_empty());
        self.command.writes().or_else(|| parts_write().then_some("SELECT"))
    }

    /// A query that must run on the analytical path first; its rows are given to [`crate::exec::run`].
    pub fn external_source(&self) -> Option<&ExternalSource> {
        self.point()?.external.as_deref()
    }
}

/// Binds a query, INSERT, UPDATE or DELETE.
///
/// # Errors
/// PostgreSQL's, for the client; 0A000 for a clause neither path has; XX000 for any other kind of statement.
pub fn bind(statement: &ast::Statement, ctx: &PlanContext<'_>) -> SqlResult<BoundPlan> {
    match statement {
        ast::Statement::Query(query) if changes_rows(query) => parts::bind(query, ctx),
        ast::Statement::Query(query) if query.with.is_some() && is_change(query) => unnamed::bind(query, ctx),
        ast::Statement::Query(query) => select::bind_query_statement(query, ctx),
        ast::Statement::Insert(insert) => insert::bind_insert(insert, ctx),
        ast::Statement::Update(update) => update::bind_update(update, ctx),
        ast::Statement::Delete(delete) => delete::bind_delete(delete, ctx),
        ast::Statement::Merge { .. } => Err(SqlError::unsupported("MERGE")),
        _ => Err(SqlError::internal("a statement without rows reached the planner")),
    }
}
