//! The form of a point plan: what the executor walks.
//!
//! A SELECT level has one flat row: every relation of its FROM owns a contiguous range of slots, one for each column of the
//! table (dropped ones keep theirs), and only the wanted ones are filled. Expressions name slots. A plan holds no values of
//! parameters and no time, so it may be kept and run again.

use std::ops::Range;
use std::sync::Arc;

use base::Oid;
use sqlparser::ast;
use tenant::catalog::{ReferentialAction, Table};
use types::{PgType, TypeMod};

use super::keyed::KeyedRows;
use crate::expr::{AggregateCall, BoundExpr, SubqueryId};

/// Columns of a query of which it is told whether each is shown once: each is held against those before it.
const SHOWN_MAX: usize = 64;

/// A statement the point path runs.
#[derive(PartialEq, Debug)]
pub struct PointPlan {
    /// The common tables of a WITH that changes rows, in their order; a part names others before it only.
    pub parts: Vec<Part>,
    pub statement: PointStatement,
    /// By [`crate::expr::SubqueryId`].
    pub subqueries: Vec<SelectPlan>,
    /// The tables to lock before anything is read, each once.
    pub tables: Vec<(Oid, TableUse)>,
    /// A table that it changes stands in some FROM of it, too.
    pub reads_what_it_changes: bool,
    /// Nodes in the whole plan; their ids are below this.
    pub nodes: u32,
    /// Rows the statement is estimated to look at.
    pub cost: f64,
    /// If `cost` is too much for the point path, and how many rows the leading scan ([`SelectPlan::leading_scan`]) has with the values of a run decides
    /// whether it is: what there is to look at for each of them.
    pub cost_of_leading_row: Option<f64>,
    /// A query the analytical path must run first.
    pub external: Option<Box<ExternalSource>>,
    /// What rows of other tables have to satisfy that foreign keys change at the statement's end.
    pub cascades: Vec<CascadePlan>,
    /// What foreign keys do to other tables may come back to the table that is changed, or be looked for there.
    pub comes_back: bool,
    /// It changes rows and can be run in parts, each of which changes what it found and forgets it.
    pub runs_in_slices: bool,
    /// It is a query that shows columns of one scan, each once, and looks at none of them behind that: their values can be given as they were read.
    pub gives_slots: bool,
}

/// A common table that stands beside a statement: its rows are those of a query, or what a change returns.
#[derive(PartialEq, Debug)]
pub struct Part {
    pub name: String,
    pub statement: PointStatement,
}

/// What is to be done with rows of a table that foreign keys may change: its generated columns and its CHECK constraints, over its row.
#[derive(Clone, PartialEq, Debug)]
pub struct CascadePlan {
    pub table: Arc<Table>,
    pub generated: Vec<(usize, BoundExpr)>,
    pub checks: Vec<CheckPlan>,
}

/// What a statement does with a table; each takes PostgreSQL's table lock for it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum TableUse {
    Read,
    LockRows,
    Write,
}

#[derive(PartialEq, Debug)]
pub enum PointStatement {
    Select(Box<SelectPlan>),
    Insert(Box<InsertPlan>),
    Update(Box<UpdatePlan>),
    Delete(Box<DeletePlan>),
}

/// The part of a DML statement that is a query the point path does not take.
#[derive(PartialEq, Debug)]
pub struct ExternalSource {
    pub query: Box<ast::Query>,
    pub reason: String,
}

/// Numbers the nodes of a plan, for EXPLAIN ANALYZE.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct NodeId(pub u32);

/// One level of SELECT. Runs as: rows of `from`, grouping, projection, sort, distinct, locks, offset and limit.
#[derive(PartialEq, Debug)]
pub struct SelectPlan {
    pub id: NodeId,
    /// Slots of the row.
    pub width: usize,
    /// A name for each slot, for EXPLAIN.
    pub slot_names: Arc<[String]>,
    pub from: Node,
    pub aggregate: Option<AggregatePlan>,
    /// The visible columns, then hidden ones that are only sorted by.
    pub project: Vec<BoundExpr>,
    pub visible: usize,
    pub distinct: DistinctPlan,
    /// Empty when there is no ORDER BY or `from` yields the rows in order.
    pub sort: Vec<SortColumn>,
    pub limit: Option<BoundExpr>,
    pub offset: Option<BoundExpr>,
    pub locks: Vec<LockPlan>,
    /// Uses a row of an enclosing query.
    pub correlated: bool,
    /// How its rows can be found otherwise than by running it, if it is a subquery of an expression.
    pub keyed: Option<Box<KeyedRows>>,
    /// Of a subquery of an expression: it locks rows or calls a volatile function, so that each run may give others.
    pub is_volatile: bool,
    /// Rows looked at, estimated.
    pub cost: f64,
    /// Rows given out, estimated.
    pub rows: f64,
}

/// GROUP BY and aggregates. The row after it: the slots of one row of the group, then the keys, then the aggregates.
#[derive(PartialEq, Debug)]
pub struct AggregatePlan {
    pub id: NodeId,
    pub keys: Vec<BoundExpr>,
    pub calls: Vec<AggregateCall>,
    /// Over the row after grouping.
    pub having: Option<BoundExpr>,
    /// Without GROUP BY there is one group even of no rows.
    pub grouped: bool,
    /// The rows come in an order in which the first one decides (`min` and `max` over an index).
    pub first_row_decides: bool,
}

#[derive(PartialEq, Debug)]
pub enum DistinctPlan {
    No,
    /// Over all visible columns.
    All,
    /// `DISTINCT ON`: these projected columns.
    On(Vec<usize>),
}

/// A projected column to sort by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SortColumn {
    pub column: usize,
    pub descending: bool,
    pub nulls_first: bool,
}

/// `FOR UPDATE` and its kin on one relation.
#[derive(Clone, PartialEq, Debug)]
pub struct LockPlan {
    pub table: Arc<Table>,
    /// What the statement calls it.
    pub name: String,
    /// Place of the relation's key among those remembered with a row.
    pub key: usize,
    pub strength: LockStrength,
    pub wait: LockWaitPolicy,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum LockStrength {
    KeyShare,
    Share,
    NoKeyUpdate,
    Update,
}

/// Where several clauses are on one relation, the last in this order counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum LockWaitPolicy {
    Wait,
    SkipLocked,
    NoWait,
}

/// A source of rows within FROM.
#[derive(PartialEq, Debug)]
pub struct Node {
    pub id: NodeId,
    pub kind: NodeKind,
    /// What its rows must satisfy.
    pub filter: Option<BoundExpr>,
    /// Rows given out, each time it is run, estimated.
    pub rows: f64,
}

#[derive(PartialEq, Debug)]
pub enum NodeKind {
    /// One row without columns.
    OneRow,
    /// No rows: a condition is constantly false.
    Scan(Box<ScanNode>),
    Values {
        first: usize,
        rows: Vec<Vec<BoundExpr>>,
    },
    /// A subquery in FROM, or a view: the rows of one plan, or of each in turn.
    Derived {
        name: String,
        first: usize,
        plans: Vec<SelectPlan>,
        /// Its rows need not be kept: it is gone through once, or is volatile and made for each run of the query that it is in.
        is_once: bool,
    },
    /// The rows of one of the statement's [`Part`]s.
    Common {
        name: String,
        first: usize,
        part: usize,
    },
    Function {
        name: String,
        first: usize,
        function: TableFunction,
        /// A number for each row, in the slot after the function's.
        ordinality: bool,
    },
    /// For each row of `left`, the rows of `right`, which may use what `left` filled.
    NestedLoop {
        left: Box<Node>,
        right: Box<Node>,
        /// Kept with NULLs where `right` has no row.
        left_outer: bool,
        /// The slots `right` fills.
        right_slots: Range<usize>,
    },
    /// `right` is read once into a table by its keys.
    HashJoin {
        left: Box<Node>,
        right: Box<Node>,
        left_keys: Vec<BoundExpr>,
        right_keys: Vec<BoundExpr>,
        /// What pairs must satisfy besides.
        on: Option<BoundExpr>,
        left_outer: bool,
        right_slots: Range<usize>,
    },
}

/// A function in FROM.
#[derive(PartialEq, Debug)]
pub enum TableFunction {
    /// `generate_series(start, stop[, step])`: integers, numerics or timestamps, by the type of the result.
    Series { ty: PgType, start: BoundExpr, stop: BoundExpr, step: Option<BoundExpr> },
    /// `unnest(array, …)`, columns side by side.
    Unnest(Vec<BoundExpr>),
    /// Any other function: one row, one column.
    Scalar(BoundExpr),
}

/// Rows of a table.
#[derive(PartialEq, Debug)]
pub struct ScanNode {
    pub table: Arc<Table>,
    /// What the statement calls it.
    pub name: String,
    /// Slot of the table's column 0.
    pub first: usize,
    /// Columns to decode, ascending.
    pub wanted: Vec<usize>,
    pub path: AccessPath,
    /// How a change that runs in slices finds them instead, if `path` is not one range of keys. What it does not ask of them the filter does.
    pub in_slices: Option<AccessPath>,
    /// Where to remember the key of the current row, for locks and DML.
    pub key: Option<usize>,
    /// Rows found by the path before the filter, each time it is run, estimated.
    pub examined: f64,
}

/// How the rows of a table are found.
#[derive(PartialEq, Debug)]
pub enum AccessPath {
    /// All rows in key order.
    Full { backward: bool },
    /// The entries of an index (or of the table by its primary key) whose first columns have the given values and whose
    /// next column lies in a range.
    Index {
        /// Position in the table's `indexes`.
        index: usize,
        parts: Vec<KeyPart>,
        lower: Option<RangeBound>,
        upper: Option<RangeBound>,
        backward: bool,
    },
    /// The rows of which one of several conditions may be true, by an index for each: `a = 1 OR b = 2`. In no order, each once.
    Alternatives(Vec<Alternative>),
}

/// One of several ways to rows. A row that an earlier one has found, too, is left to that.
#[derive(PartialEq, Debug)]
pub struct Alternative {
    /// Is true of what the path finds, as far as the conditions beside all alternatives are: no more than columns and what the path asks of them.
    pub condition: BoundExpr,
    /// Of an index.
    pub path: AccessPath,
}

/// The values one key column may have. Evaluated without the scanned row; a value that is NULL finds nothing.
#[derive(PartialEq, Debug)]
pub enum KeyPart {
    Equal(BoundExpr, ProbeFit),
    /// `IN (…)`.
    OneOf(Vec<BoundExpr>, ProbeFit),
    /// `= ANY (array)`.
    AnyOf(BoundExpr, ProbeFit),
    /// `IN (subquery)`, uncorrelated.
    InRows(SubqueryId, ProbeFit),
    /// `IS NULL`.
    Null,
}

impl KeyPart {
    /// Whether the column has one value in all that is found.
    pub(crate) fn is_one_value(&self) -> bool {
        matches!(self, KeyPart::Equal(..) | KeyPart::Null)
    }
}

/// One end of a range.
#[derive(PartialEq, Debug)]
pub struct RangeBound {
    pub value: BoundExpr,
    pub inclusive: bool,
    pub fit: ProbeFit,
}

/// What is done to a value before it is looked up among a column's keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProbeFit {
    /// It has the column's form.
    Same,
    /// An integer of another width: brought to the column's, or beyond its range.
    Integer(PgType),
    /// Padded with blanks to `char(n)`'s length.
    Blanks(TypeMod),
    /// The lower end of a range, where it is a moment of another type: the first of this one that may be as late.
    Earliest(PgType),
    /// The upper end, likewise: the last that may be as early.
    Latest(PgType),
}

/// INSERT.
#[derive(PartialEq, Debug)]
pub struct InsertPlan {
    pub id: NodeId,
    pub table: Arc<Table>,
    pub source: InsertSource,
    /// The table's generated columns, over its row.
    pub generated: Vec<(usize, BoundExpr)>,
    pub checks: Vec<CheckPlan>,
    pub on_conflict: Option<ConflictAction>,
    /// Over the new row.
    pub returning: Option<ReturningPlan>,
}

#[derive(PartialEq, Debug)]
pub enum InsertSource {
    /// Rows of expressions, one for each column of the table.
    Values(Vec<Vec<BoundExpr>>),
    /// The query's rows, and over them a value for each column of the table.
    Select { plan: Box<SelectPlan>, row: Vec<BoundExpr> },
    /// Rows computed elsewhere, and over them, once cast, a value for each column of the table. Where they may turn out to have fewer values than
    /// `columns`, what these have otherwise.
    External { columns: Vec<TargetColumn>, row: Vec<BoundExpr>, otherwise: Vec<BoundExpr> },
}

/// A column that a row from elsewhere is cast to.
#[derive(Clone, PartialEq, Debug)]
pub struct TargetColumn {
    pub name: String,
    pub ty: PgType,
    pub typmod: TypeMod,
}

/// A CHECK constraint over the table's row.
#[derive(Clone, PartialEq, Debug)]
pub struct CheckPlan {
    pub name: String,
    pub condition: BoundExpr,
}

/// What decides that rows conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arbiter {
    /// Any unique index.
    Any,
    /// The unique index or primary key with this oid.
    Index(Oid),
}

#[derive(PartialEq, Debug)]
pub enum ConflictAction {
    Nothing(Arbiter),
    /// Over a row of the existing row's columns and then those of the row that was to be inserted.
    Update {
        arbiter: Arbiter,
        assignments: Vec<(usize, BoundExpr)>,
        condition: Option<BoundExpr>,
    },
}

/// RETURNING over the level's row (the target's columns hold the new row, or the deleted one).
#[derive(PartialEq, Debug)]
pub struct ReturningPlan {
    pub project: Vec<BoundExpr>,
}

/// Where the rows to change come from.
#[derive(PartialEq, Debug)]
pub enum ChangeSource {
    Node(Node),
    /// Rows found elsewhere: the target's columns, then the values assigned, which are cast to these columns. The
    /// target is looked up by its primary key and must be as it was found.
    External {
        assigned: Vec<TargetColumn>,
    },
}

/// UPDATE. The target is the first relation of the source: its columns are slots `0..`.
#[derive(PartialEq, Debug)]
pub struct UpdatePlan {
    pub id: NodeId,
    pub table: Arc<Table>,
    /// Where the target's key is remembered.
    pub key: usize,
    pub width: usize,
    pub slot_names: Arc<[String]>,
    pub source: ChangeSource,
    /// The new values, over the level's row (or over the assigned values of an external one).
    pub assignments: Vec<(usize, BoundExpr)>,
    /// The generated columns that come of those, over the new row.
    pub generated: Vec<(usize, BoundExpr)>,
    pub checks: Vec<CheckPlan>,
    /// One target row may meet several rows of FROM; only the first counts.
    pub joined: bool,
    /// The assigned columns alone are stored anew: nothing else has an interest in them. Then only those columns of the target are filled that something names.
    pub in_part: bool,
    /// Over the level's row, the target's slots holding the new row.
    pub returning: Option<ReturningPlan>,
}

/// DELETE, as UPDATE.
#[derive(PartialEq, Debug)]
pub struct DeletePlan {
    pub id: NodeId,
    pub table: Arc<Table>,
    /// Where the target's key is remembered.
    pub key: usize,
    pub width: usize,
    pub slot_names: Arc<[String]>,
    pub source: ChangeSource,
    pub joined: bool,
    /// Over the level's row.
    pub returning: Option<ReturningPlan>,
}

impl PointPlan {
    /// Whether it can be run in parts: its rows come from one scan of a table or an index, from a series, or are given, or it is one that others refer to, none of
    /// them depends on another one, and foreign keys can be checked after each part, or behind the last one ([`PointPlan::refers_to_itself`]).
    pub(super) fn can_run_in_slices(&self) -> bool {
        // What is to be done to rows of the same table would come before the statement finds them.
        let is_alone = |table: &Table| {
            let acts = |action| !matches!(action, ReferentialAction::NoAction);
            let mut own = table.foreign_keys.iter().filter(|key| key.referenced_table == table.oid);
            own.all(|key| !acts(key.on_delete) && !acts(key.on_update))
        };
        let is_found = |source: &ChangeSource, joined: bool| match source {
            ChangeSource::Node(node) => !joined && node.is_one_scan(),
            ChangeSource::External { .. } => false,
        };
        self.parts.is_empty()
            && self.subqueries.is_empty()
            && !self.comes_back
            && match &self.statement {
                PointStatement::Select(_) => false,
                PointStatement::Insert(insert) => {
                    let reads = match &insert.source {
                        InsertSource::Values(_) | InsertSource::External { .. } => true,
                        InsertSource::Select { plan, .. } => plan.gives_rows_as_found(),
                    };
                    let moves = match &insert.on_conflict {
                        Some(ConflictAction::Update { assignments, .. }) => {
                            may_move_references(&insert.table, assignments, &insert.generated)
                        }
                        Some(ConflictAction::Nothing(_)) | None => false,
                    };
                    reads && !moves && is_alone(&insert.table)
                }
                PointStatement::Update(update) => {
                    is_found(&update.source, update.joined)
                        && is_alone(&update.table)
                        && !may_move_references(&update.table, &update.assignments, &update.generated)
                }
                PointStatement::Delete(delete) => {
                    // One row is found at once; what is to be done to those that refer to it may be very much.
                    let is_one_row = match &delete.source {
                        ChangeSource::Node(node) => !delete.joined && node.finds_one_row(),
                        ChangeSource::External { .. } => false,
                    };
                    let asks = is_one_row && !delete.table.referenced_by.is_empty();
                    (asks || is_found(&delete.source, delete.joined))
                        && is_alone(&delete.table)
                        // Its own rows go.
                        && !self.cascades.iter().any(|of| of.table.oid != delete.table.oid && of.generates())
                }
            }
    }
}

impl CascadePlan {
    /// Whether a deletion may have generated columns be worked out, which then other foreign keys may have an interest in.
    fn generates(&self) -> bool {
        let assigns = |action| matches!(action, ReferentialAction::SetNull | ReferentialAction::SetDefault);
        !self.generated.is_empty() && self.table.foreign_keys.iter().any(|key| assigns(key.on_delete))
    }
}

impl PointPlan {
    /// The table that is changed, if its rows refer to each other: what a part of the statement leaves in want of another row may have it in the end.
    pub(crate) fn refers_to_itself(&self) -> Option<Oid> {
        let table = match &self.statement {
            PointStatement::Select(_) => return None,
            PointStatement::Insert(insert) => &insert.table,
            PointStatement::Update(update) => &update.table,
            PointStatement::Delete(delete) => &delete.table,
        };
        table.foreign_keys.iter().any(|key| key.referenced_table == table.oid).then_some(table.oid)
    }

    /// The table of an INSERT that may come to a row which it has made or changed itself, and has to be told that it did.
    pub(crate) fn table_met_again(&self) -> Option<&Arc<Table>> {
        match &self.statement {
            PointStatement::Insert(insert)
                if matches!(insert.on_conflict, Some(ConflictAction::Update { .. })) =>
            {
                Some(&insert.table)
            }
            _ => None,
        }
    }

    /// See [`PointPlan::gives_slots`]. The scan fills what is shown anew for each row.
    pub(super) fn can_give_slots(&self) -> bool {
        let PointStatement::Select(select) = &self.statement else { return false };
        let shown = |expr: &BoundExpr| expr.as_column();
        let is_once = |(number, expr): (usize, &BoundExpr)| {
            let slot = shown(expr);
            slot.is_some() && select.project[..number].iter().all(|before| shown(before) != slot)
        };
        self.parts.is_empty()
            && self.subqueries.is_empty()
            && matches!(select.from.kind, NodeKind::Scan(_))
            && select.aggregate.is_none()
            && select.sort.is_empty()
            && select.project.len() <= SHOWN_MAX
            && select.project.iter().enumerate().all(is_once)
    }
}

/// Whether assignments may give rows of a table values that others reference: another row of the statement may take the place of one that is gone.
fn may_move_references(
    table: &Table,
    assignments: &[(usize, BoundExpr)],
    generated: &[(usize, BoundExpr)],
) -> bool {
    let is_assigned =
        |column: usize| assignments.iter().chain(generated).any(|(assigned, _)| *assigned == column);
    let referable = table.indexes.iter().filter(|index| index.is_referable());
    !table.referenced_by.is_empty() && referable.flat_map(|index| index.column_positions()).any(is_assigned)
}

impl SelectPlan {
    /// The scan for whose rows everything else of FROM is done, if it goes through a part of an index that can be told without looking at any row.
    pub(crate) fn leading_scan(&self) -> Option<&ScanNode> {
        let mut node = &self.from;
        while let NodeKind::NestedLoop { left, .. } = &node.kind {
            node = left;
        }
        match &node.kind {
            NodeKind::Scan(scan) => (scan.path.is_told_part() && !self.correlated).then_some(scan),
            // What the view or subquery begins with.
            NodeKind::Derived { plans, .. } => match plans.as_slice() {
                [plan] => plan.leading_scan(),
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether each row goes out when it is found, and they are found by one scan of a table or an index, or by a series.
    pub(crate) fn gives_rows_as_found(&self) -> bool {
        let is_series = matches!(
            &self.from.kind,
            NodeKind::Function { function: TableFunction::Series { .. }, ordinality: false, .. }
        );
        (is_series || self.from.is_one_scan()) && self.takes_rows_as_they_come()
    }

    /// Whether it does nothing with the rows of its FROM but to show what is asked of each.
    pub(super) fn takes_rows_as_they_come(&self) -> bool {
        self.aggregate.is_none()
            && matches!(self.distinct, DistinctPlan::No)
            && self.sort.is_empty()
            && self.limit.is_none()
            && self.offset.is_none()
            && self.locks.is_empty()
    }
}

impl AccessPath {
    /// Whether it goes through parts of indexes that can be told without looking at any row.
    fn is_told_part(&self) -> bool {
        match self {
            AccessPath::Full { .. } => false,
            AccessPath::Index { parts, lower, upper, .. } => {
                let is_part = !parts.is_empty() || lower.is_some() || upper.is_some();
                is_part && !parts.iter().any(|part| matches!(part, KeyPart::InRows(..)))
            }
            AccessPath::Alternatives(ways) => ways.iter().all(|way| way.path.is_told_part()),
        }
    }
}

impl Node {
    /// Adds where it remembers keys.
    pub(crate) fn key_places(&self, into: &mut Vec<usize>) {
        match &self.kind {
            NodeKind::Scan(scan) => into.extend(scan.key),
            NodeKind::NestedLoop { left, right, .. } | NodeKind::HashJoin { left, right, .. } => {
                left.key_places(into);
                right.key_places(into);
            }
            NodeKind::OneRow
            | NodeKind::Values { .. }
            | NodeKind::Derived { .. }
            | NodeKind::Common { .. }
            | NodeKind::Function { .. } => {}
        }
    }

    /// Whether it looks for one row at most, by the whole of its primary key, where it does not run in slices.
    pub(crate) fn finds_one_row(&self) -> bool {
        let NodeKind::Scan(scan) = &self.kind else { return false };
        let AccessPath::Index { index, parts, .. } = &scan.path else { return false };
        let index = &scan.table.indexes[*index];
        scan.table.is_primary(index)
            && parts.len() == index.columns.len()
            && parts.iter().all(KeyPart::is_one_value)
    }

    /// Whether its rows are those of one range of keys of a table or an index, or of one for each of some values, in their order.
    fn is_one_scan(&self) -> bool {
        let NodeKind::Scan(scan) = &self.kind else { return false };
        match scan.in_slices.as_ref().unwrap_or(&scan.path) {
            AccessPath::Full { backward } => !backward,
            AccessPath::Alternatives(_) => false,
            AccessPath::Index { index, parts, backward, .. } => {
                let index = &scan.table.indexes[*index];
                let is_list = parts.iter().any(|part| !part.is_one_value());
                let is_point = scan.table.is_primary(index) && parts.len() == index.columns.len();
                let is_told = parts.iter().all(|part| !matches!(part, KeyPart::InRows(..)));
                !backward && is_told && (is_list || !is_point)
            }
        }
    }
}
