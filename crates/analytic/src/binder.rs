//! The state of binding one statement's queries into a plan of DataFusion's.
//!
//! Expressions are bound by the point path's binder; this crate binds what stands around them: FROM, grouping, windows, set
//! operations, WITH. Levels in progress stand on a stack, so that an outer column is found by its depth. Columns of every
//! plan have names made here (`c1`, `c2`, …), unique within the statement, so that no name is ever ambiguous.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use base::{Oid, SqlError, SqlResult};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Column;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::{
    Aggregate, Expr, JoinType, LogicalPlan, LogicalPlanBuilder, ScalarUDF, SkipType, Subquery,
};
use rustc_hash::FxHashSet;
use sql::expr::{
    Aggregates, BindContext, BoundExpr, BoundSubquery, CompareOp, ParamTypes, Scope, SubqueryBinder,
    SubqueryExpr, SubqueryId, SubqueryTest,
};
use sqlparser::ast;
use types::{CastContext, PgType, TypeMod};

use crate::apply::{Apply, ApplyKind, Asked, Cell as OuterCell, ReadCell};
use crate::common_table::CommonRows;
use crate::compare_rows::RowTest;
use crate::error::Planned;
use crate::guarded;
use crate::relation::{Level, RelColumn, Relation};
use crate::row_function::{Apart, Body, RowFunction};
use crate::shared::Shared;
use crate::translate::{Translator, Typed, Use, apply, bare, field};
use crate::with::{CommonTable, calls_volatile};

/// Binds one statement.
pub(crate) struct Binder<'a> {
    pub(crate) shared: Arc<Shared>,
    pub(crate) params: &'a ParamTypes,
    /// Evaluate every subquery row by row, because DataFusion could not turn one of them into a join.
    pub(crate) apply_all: bool,
    pub(crate) ctes: RefCell<Vec<CommonTable>>,
    /// Common tables with plans of their own, those that others read before these.
    pub(crate) common_rows: RefCell<Vec<Arc<CommonRows>>>,
    /// How many recursive terms are being bound: what they see of the step before has no rows to keep.
    pub(crate) recursive_terms: Cell<usize>,
    /// Columns that outer joins make NULL for rows without a partner.
    pub(crate) outer_joined: RefCell<FxHashSet<Column>>,
    /// Expressions that lists were looked through for.
    tested: RefCell<FxHashSet<Expr>>,
    /// The schemas that unqualified names are searched in: the session's, or those of the view being expanded.
    pub(crate) path: RefCell<Vec<Oid>>,
    /// The role whose privileges count; `None` for the administrator.
    pub(crate) role: Cell<Option<Oid>>,
    pub(crate) view_nesting: Cell<usize>,
    /// Bytes of the texts of the views that were expanded.
    pub(crate) views_len: Cell<usize>,
    counter: Cell<usize>,
    functions: RefCell<Vec<Arc<ScalarUDF>>>,
    levels: RefCell<Vec<Arc<Level>>>,
    /// Every use of an outer column: which level of the stack, which column.
    outer_uses: RefCell<Vec<OuterUse>>,
    subqueries: RefCell<Vec<PlannedSubquery>>,
    cells: RefCell<Vec<(Column, Arc<OuterCell>)>>,
    /// Whether a correlated subquery was left to DataFusion.
    pub(crate) decorrelated: Cell<bool>,
}

#[derive(Clone, Debug)]
struct OuterUse {
    level: usize,
    column: RelColumn,
}

#[derive(Clone, Debug)]
struct PlannedSubquery {
    relation: Relation,
    outer: Vec<OuterUse>,
    /// The stack's height where the subquery stands: its immediate outer level is the one below.
    depth: usize,
    /// Yields exactly one row whatever its input, with a NULL where that has no rows: an aggregation without GROUP BY.
    single_row: bool,
}

/// Why a plan must be made again with every subquery evaluated row by row.
pub(crate) const NEEDS_APPLY: &str = "a correlated subquery cannot be turned into a join";

impl<'a> Binder<'a> {
    pub(crate) fn new(shared: Arc<Shared>, params: &'a ParamTypes, apply_all: bool) -> Binder<'a> {
        let path = shared.search_path.clone();
        let role = shared.context.role;
        Binder {
            shared,
            params,
            apply_all,
            ctes: RefCell::default(),
            common_rows: RefCell::default(),
            recursive_terms: Cell::new(0),
            outer_joined: RefCell::default(),
            tested: RefCell::default(),
            path: RefCell::new(path),
            role: Cell::new(role),
            view_nesting: Cell::new(0),
            views_len: Cell::new(0),
            counter: Cell::new(0),
            functions: RefCell::default(),
            levels: RefCell::default(),
            outer_uses: RefCell::default(),
            subqueries: RefCell::default(),
            cells: RefCell::default(),
            decorrelated: Cell::new(false),
        }
    }

    /// A number not used before in this statement.
    pub(crate) fn number(&self) -> usize {
        self.counter.set(self.counter.get() + 1);
        self.counter.get()
    }

    /// What a list is looked through for. DataFusion makes one list of those of one expression, and takes an empty one for false or true, whatever is NULL: so each has an
    /// expression of its own.
    pub(crate) fn tested_in_list(&self, expr: Expr) -> Expr {
        if self.tested.borrow_mut().insert(expr.clone()) {
            return expr;
        }
        apply(Arc::new(ScalarUDF::from(Apart::new(self.number()))), vec![expr])
    }

    /// A column name not used before in this statement.
    pub(crate) fn fresh(&self) -> String {
        format!("c{}", self.number())
    }

    /// An outer join may make the columns of `relation` NULL.
    pub(crate) fn note_outer_joined(&self, relation: &Relation) {
        let columns = relation.columns.iter().map(|column| column.column.clone());
        self.outer_joined.borrow_mut().extend(columns);
    }

    /// What the point path's binder needs.
    pub(crate) fn context(&self, aggregates: Aggregates) -> BindContext<'_> {
        BindContext {
            params: self.params,
            format: &self.shared.context.format,
            subqueries: Some(self),
            aggregates,
        }
    }

    /// Runs `f` with `level` as the innermost one.
    pub(crate) fn within<T>(&self, level: &Arc<Level>, f: impl FnOnce() -> SqlResult<T>) -> SqlResult<T> {
        self.levels.borrow_mut().push(Arc::clone(level));
        let result = f();
        self.levels.borrow_mut().pop();
        result
    }

    /// The function with that body; the same one for equal bodies.
    pub(crate) fn function(
        &self,
        body: Body,
        args: Vec<PgType>,
        result: PgType,
        arrow: DataType,
    ) -> Arc<ScalarUDF> {
        let mut functions = self.functions.borrow_mut();
        for known in functions.iter() {
            let inner: &dyn std::any::Any = known.inner().as_ref();
            if let Some(f) = inner.downcast_ref::<RowFunction>()
                && *f.body() == body
                && f.arg_types() == args
                && *f.arrow() == arrow
            {
                return Arc::clone(known);
            }
        }
        let number = functions.len();
        let function = RowFunction::new(body, args, result, arrow, number, Arc::clone(&self.shared));
        let udf = Arc::new(ScalarUDF::from(function));
        functions.push(Arc::clone(&udf));
        udf
    }

    /// An outer column as the innermost level sees it.
    pub(crate) fn outer_column(&self, depth: usize, index: usize) -> SqlResult<Typed> {
        let levels = self.levels.borrow();
        let at = levels
            .len()
            .checked_sub(1 + depth)
            .ok_or_else(|| SqlError::internal("an outer column without its query"))?;
        let column = levels[at]
            .columns
            .get(index)
            .cloned()
            .ok_or_else(|| SqlError::unsupported("this use of an enclosing query's expression"))?;
        self.outer_uses.borrow_mut().push(OuterUse { level: at, column: column.clone() });
        let expr = if self.apply_all {
            let cell = self.cell(&column)?;
            apply(Arc::new(ScalarUDF::from(ReadCell::new(cell))), Vec::new())
        } else {
            Expr::OuterReferenceColumn(
                Arc::new(field(&column.column.name, &column.arrow)),
                column.column.clone(),
            )
        };
        Ok(Typed { expr, ty: column.ty, arrow: column.arrow })
    }

    fn cell(&self, column: &RelColumn) -> SqlResult<Arc<OuterCell>> {
        let mut cells = self.cells.borrow_mut();
        if let Some((_, cell)) = cells.iter().find(|(known, _)| *known == column.column) {
            return Ok(Arc::clone(cell));
        }
        let cell = OuterCell::new(column.column.name.clone(), column.arrow.clone())?;
        cells.push((column.column.clone(), Arc::clone(&cell)));
        Ok(cell)
    }

    /// The outer columns used since `since` that belong to levels below `depth`.
    fn uses_since(&self, since: usize, depth: usize) -> Vec<OuterUse> {
        self.outer_uses.borrow()[since..].iter().filter(|used| used.level < depth).cloned().collect()
    }

    /// Runs `bind`; with the outer columns that it used, of levels around the innermost.
    pub(crate) fn noting_uses<T>(
        &self,
        bind: impl FnOnce() -> SqlResult<T>,
    ) -> SqlResult<(T, Vec<(usize, RelColumn)>)> {
        let depth = self.levels.borrow().len();
        let since = self.outer_uses.borrow().len();
        let bound = bind()?;
        let uses = self.uses_since(since, depth).into_iter().map(|used| (used.level, used.column)).collect();
        Ok((bound, uses))
    }

    /// The plan as a common table of that name whose rows are made once for all its readers.
    pub(crate) fn made_once(
        &self,
        name: &str,
        plan: LogicalPlan,
        uses: &[(usize, RelColumn)],
    ) -> SqlResult<LogicalPlan> {
        if !uses.is_empty() && !self.apply_all {
            return Err(SqlError::internal(NEEDS_APPLY));
        }
        let mut cells: Vec<Arc<OuterCell>> = Vec::new();
        for (_, column) in uses {
            let cell = self.cell(column)?;
            if !cells.iter().any(|known| Arc::ptr_eq(known, &cell)) {
                cells.push(cell);
            }
        }
        let rows = CommonRows::new(name.to_owned(), plan, cells, self.number()).planned()?;
        let rows = Arc::new(rows);
        self.common_rows.borrow_mut().push(Arc::clone(&rows));
        Ok(CommonRows::reader(&rows))
    }

    /// A node that runs `subplan` for each row of `input`. The column of its answer is the last.
    pub(crate) fn apply_node(
        &self,
        input: LogicalPlan,
        subplan: LogicalPlan,
        kind: ApplyKind,
        outer: &[(usize, RelColumn)],
        asked: Asked,
        answer: Option<(&str, &DataType)>,
    ) -> SqlResult<LogicalPlan> {
        if !outer.is_empty() && !self.apply_all {
            return Err(SqlError::internal(NEEDS_APPLY));
        }
        let here = self.levels.borrow().len();
        let mut cells: Vec<Arc<OuterCell>> = Vec::new();
        let mut outer_cells: Vec<Arc<OuterCell>> = Vec::new();
        let mut exprs = Vec::new();
        for (level, column) in outer {
            let cell = self.cell(column)?;
            if cells.iter().chain(&outer_cells).any(|known| Arc::ptr_eq(known, &cell)) {
                continue;
            }
            if level + 1 == here {
                cells.push(cell);
                exprs.push(column.expr());
            } else {
                outer_cells.push(cell);
            }
        }
        let is_guarded = asked.guard.is_some();
        exprs.extend(asked.left.into_iter().chain(asked.guard));
        let answer = answer.map(|(name, arrow)| (None, Arc::new(field(name, arrow))));
        let schema = Apply::schema_over(&input, &subplan, answer).planned()?;
        let node = Apply {
            // As PostgreSQL, which finds what depends on no row before all others.
            remembers: cells.is_empty() && !matches!(kind, ApplyKind::Lateral { .. })
                || !calls_volatile(&subplan),
            input,
            subplan,
            kind,
            cells,
            outer_cells,
            exprs,
            is_guarded,
            schema,
            number: self.number(),
            shared: Arc::clone(&self.shared),
        };
        Ok(node.into())
    }

    /// The columns of the level that a subquery stands in which it looks at.
    pub(crate) fn columns_used_by(&self, subquery: SubqueryId) -> Vec<RelColumn> {
        let subqueries = self.subqueries.borrow();
        let planned = &subqueries[subquery.0 as usize];
        let near = planned.outer.iter().filter(|used| used.level + 1 == planned.depth);
        near.map(|used| used.column.clone()).collect()
    }

    /// The value of a subquery within an expression of `translator`'s level.
    pub(crate) fn subquery_expr(
        &self,
        translator: &mut Translator<'_, '_>,
        ty: PgType,
        subquery: &SubqueryExpr,
        tests: Vec<Typed>,
        used: Use,
    ) -> SqlResult<Typed> {
        let planned = self.subqueries.borrow()[subquery.id.0 as usize].clone();
        let correlated = !planned.outer.is_empty();
        let near = planned.outer.iter().all(|used| used.level + 1 == planned.depth);
        // An aggregation without groups has a row also where no row has the outer value, which a join has not: a scalar subquery's own one only may be NULL
        // then.
        let rows_of_nothing = groups_of_nothing(&planned.relation.plan);
        let scalar = matches!(subquery.test, SubqueryTest::Scalar);
        let exists = matches!(subquery.test, SubqueryTest::Exists { .. });
        let joins = || {
            rows_of_nothing <= usize::from(scalar) && !needs_conditions_within(&planned.relation.plan, exists)
        };
        // A join looks all rows up.
        let is_guarded =
            !translator.guards.is_empty() && guarded::may_fail(&planned.relation.plan, &subquery.test);
        let native = !self.apply_all && near && !is_guarded && (!correlated || joins());
        let first = planned.relation.columns.first().cloned();
        let plan = planned.relation.plan.clone();
        let wrap = |plan: LogicalPlan| Subquery {
            subquery: Arc::new(plan),
            outer_ref_columns: planned
                .outer
                .iter()
                .map(|used| {
                    let f = Arc::new(field(&used.column.column.name, &used.column.arrow));
                    Expr::OuterReferenceColumn(f, used.column.column.clone())
                })
                .collect(),
            spans: Default::default(),
        };
        let (kind, arrow) = match &subquery.test {
            SubqueryTest::Scalar => {
                let column = first.ok_or_else(|| {
                    SqlError::new(base::SqlState::SYNTAX_ERROR, "subquery must return only one column")
                })?;
                if native && correlated && planned.single_row {
                    self.decorrelated.set(true);
                    let expr = Expr::ScalarSubquery(wrap(plan));
                    return Ok(Typed { expr, ty, arrow: column.arrow });
                }
                (ApplyKind::Scalar, column.arrow)
            }
            SubqueryTest::Exists { negated } => {
                if native && correlated {
                    self.decorrelated.set(true);
                    let expr = Expr::Exists(Exists::new(wrap(plan), *negated));
                    return Ok(Typed { expr, ty, arrow: DataType::Boolean });
                }
                (ApplyKind::Exists { negated: *negated }, DataType::Boolean)
            }
            SubqueryTest::Compare { all, columns } => {
                // To a join, unknown is false. Only the one of a whole NOT IN knows NULLs, where they are the same ones for all
                // rows and it has a key.
                let joins = |op: CompareOp, left: &Expr| match (op, all) {
                    (CompareOp::Eq, false) => used != Use::Value,
                    (CompareOp::Ne, true) => used == Use::Conjunct && !correlated && left.any_column_refs(),
                    _ => false,
                };
                if let ([column], [test], true) = (&columns[..], &tests[..], native)
                    && joins(column.op, &test.expr)
                {
                    let right = first.ok_or_else(|| SqlError::internal("a subquery without columns"))?;
                    let (left, plan) =
                        self.in_sides(test.clone(), &right, column.collate, column.cast, plan)?;
                    self.decorrelated.set(true);
                    let expr = Expr::InSubquery(InSubquery::new(Box::new(left), wrap(plan), *all));
                    return Ok(Typed { expr, ty, arrow: DataType::Boolean });
                }
                let tests = columns
                    .iter()
                    .zip(&planned.relation.columns)
                    .map(|(column, right)| RowTest {
                        op: column.op,
                        collate: column.collate,
                        left: column.left.ty,
                        right: right.ty,
                        cast: column.cast,
                    })
                    .collect();
                (ApplyKind::Compare { all: *all, tests }, DataType::Boolean)
            }
            SubqueryTest::Array { element } => (ApplyKind::Array { element: *element }, DataType::Binary),
            // Only the point path assigns.
            SubqueryTest::Field(_) => {
                return Err(SqlError::internal("a column of an assigned row in a query"));
            }
        };
        let guard = if is_guarded { translator.translated_guard()? } else { None };
        let name = self.fresh();
        let input = std::mem::replace(&mut translator.plan, empty());
        let outer: Vec<(usize, RelColumn)> =
            planned.outer.iter().map(|used| (used.level, used.column.clone())).collect();
        let asked = Asked { left: tests.into_iter().map(|t| t.expr).collect(), guard };
        translator.plan = self.apply_node(input, plan, kind, &outer, asked, Some((&name, &arrow)))?;
        let answer = Typed { expr: Expr::Column(bare(name)), ty, arrow };
        translator.note_answer(subquery, is_guarded, &answer);
        Ok(answer)
    }

    /// Both sides of an IN as comparable expressions: the left one, and the subplan with its column converted.
    fn in_sides(
        &self,
        left: Typed,
        right: &RelColumn,
        collate: sql::expr::Collate,
        cast: Option<(PgType, PgType)>,
        plan: LogicalPlan,
    ) -> SqlResult<(Expr, LogicalPlan)> {
        let level =
            Arc::new(Level { columns: vec![right.clone()], star: vec![0], synthetic: RefCell::default() });
        let mut translator = Translator::new(self, plan, level);
        let mut bound = BoundExpr::column(0, right.ty, right.typmod);
        if let Some((_, to)) = cast {
            let kind = sql::expr::ExprKind::Cast { expr: Box::new(bound), how: CastContext::Implicit };
            bound = BoundExpr::new(to, TypeMod::NONE, kind);
        }
        let right = translator.translate(&bound)?;
        let mut keys = translator.keys(vec![left, right], collate)?;
        let right = keys.pop().expect("two keys");
        let left = keys.pop().expect("two keys");
        let plan = LogicalPlanBuilder::from(translator.plan)
            .project(vec![right.alias(self.fresh())])
            .and_then(LogicalPlanBuilder::build)
            .planned()?;
        Ok((left, plan))
    }
}

impl SubqueryBinder for Binder<'_> {
    fn bind_subquery(
        &self,
        query: &ast::Query,
        outer: &dyn Scope,
        _: &BindContext<'_>,
    ) -> SqlResult<BoundSubquery> {
        let depth = self.levels.borrow().len();
        let since = self.outer_uses.borrow().len();
        let (relation, single_row) = self.query(query, Some(outer))?;
        let uses = self.uses_since(since, depth);
        let columns = relation.columns.iter().map(|c| (c.ty, c.typmod, c.name.clone())).collect();
        let correlated = !uses.is_empty();
        let mut subqueries = self.subqueries.borrow_mut();
        subqueries.push(PlannedSubquery { relation, outer: uses, depth, single_row });
        Ok(BoundSubquery { id: SubqueryId((subqueries.len() - 1) as u32), columns, correlated })
    }
}

/// How many aggregations of the plan have a row for no rows.
pub(crate) fn groups_of_nothing(plan: &LogicalPlan) -> usize {
    let mut found = 0;
    let walked = plan.apply(|node| {
        found += usize::from(matches!(node, LogicalPlan::Aggregate(node) if has_group_of_nothing(node)));
        Ok(TreeNodeRecursion::Continue)
    });
    walked.map_or(usize::MAX, |_| found)
}

/// Whether an aggregation has a row for no rows.
pub(crate) fn has_group_of_nothing(node: &Aggregate) -> bool {
    matches!(&node.group_expr[..], [] | [Expr::GroupingSet(_)])
}

/// Whether conditions on outer columns must be fulfilled where they stand. A join in the subquery's place has them at its top,
/// out of what numbers rows or adds some for those without a partner; and an EXISTS that becomes one loses all its limits.
fn needs_conditions_within(plan: &LogicalPlan, exists: bool) -> bool {
    let mut outermost = plan;
    while let LogicalPlan::Projection(projection) = outermost {
        outermost = &projection.input;
    }
    let holds_outer = |plan: &LogicalPlan| !plan.all_out_ref_exprs().is_empty();
    let found = plan.exists(|node| {
        Ok(match node {
            LogicalPlan::Window(window) => holds_outer(&window.input),
            LogicalPlan::RecursiveQuery(_) => holds_outer(node),
            LogicalPlan::Join(join) => match join.join_type {
                JoinType::Inner => false,
                JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => {
                    holds_outer(&join.right)
                }
                JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => {
                    holds_outer(&join.left)
                }
                JoinType::Full => holds_outer(node),
            },
            LogicalPlan::Limit(limit) => {
                let skips = !matches!(limit.get_skip_type()?, SkipType::Literal(0));
                exists && (skips || !std::ptr::eq(node, outermost))
            }
            _ => false,
        })
    });
    found.unwrap_or(true)
}

/// A plan without rows, to stand in for one that is moved.
pub(crate) fn empty() -> LogicalPlan {
    LogicalPlanBuilder::empty(false).build().expect("an empty relation always builds")
}
