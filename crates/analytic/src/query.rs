//! Queries: WITH, set operations, VALUES, ORDER BY, LIMIT.

use std::sync::Arc;

use base::{SqlError, SqlResult, SqlState};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{Column, NullEquality};
use datafusion::logical_expr::expr::Sort;
use datafusion::logical_expr::{Distinct, Expr, JoinType, LogicalPlan, LogicalPlanBuilder, Union};
use sql::expr::{Aggregates, BoundExpr, ExprKind, Scope, common_type, fold_ident};
use sql::plan::{check_comparable, output_position};
use sqlparser::ast;
use types::{CastContext, PgType, TypeMod};

use crate::apply::ReadCell;
use crate::binder::Binder;
use crate::error::Planned;
use crate::from::names_something;
use crate::in_order::{outermost, sorted};
use crate::prepare::Place;
use crate::relation::{Level, RelColumn, Relation};
use crate::translate::{Translator, Typed, bare, common_arrow, stands_for};

impl Binder<'_> {
    /// Binds a whole query. Answers also whether it is an aggregation that yields one row whatever it reads.
    ///
    /// # Errors
    /// 0A000 for a clause that nothing here honours.
    pub(crate) fn query(&self, query: &ast::Query, outer: Option<&dyn Scope>) -> SqlResult<(Relation, bool)> {
        let (relation, single) = self.term(query, outer)?;
        Ok((self.finish_unknown(relation)?, single))
    }

    /// As [`Binder::query`], of a query in parentheses that may be a term of a set operation: columns may still be of unknown type.
    fn term(&self, query: &ast::Query, outer: Option<&dyn Scope>) -> SqlResult<(Relation, bool)> {
        if !query.locks.is_empty() {
            return Err(SqlError::unsupported("a locking clause in an analytical query"));
        }
        if query.for_clause.is_some()
            || query.settings.is_some()
            || query.format_clause.is_some()
            || !query.pipe_operators.is_empty()
        {
            return Err(SqlError::unsupported("this clause of a query"));
        }
        let ctes = match &query.with {
            Some(with) => self.bind_with(query, with, outer)?,
            None => 0,
        };
        let result = self.ordered(query, outer);
        self.forget_ctes(ctes);
        result
    }

    fn ordered(&self, query: &ast::Query, outer: Option<&dyn Scope>) -> SqlResult<(Relation, bool)> {
        let order: &[ast::OrderByExpr] = match &query.order_by {
            None => &[],
            Some(ast::OrderBy { kind: ast::OrderByKind::Expressions(keys), interpolate: None }) => keys,
            Some(_) => return Err(SqlError::unsupported("this form of ORDER BY")),
        };
        if order.iter().any(|key| key.with_fill.is_some()) {
            return Err(SqlError::unsupported("WITH FILL"));
        }
        let (offset, limit) = self.offset_and_limit(query)?;
        let is_computed = [&offset, &limit].into_iter().flatten().any(names_something);
        // Where no rows are wanted parameters have the types that they are given first, as they are read.
        let first = if is_computed || self.shared.view.is_none() {
            None
        } else {
            let (skip, fetch) = self.limits(offset.as_ref(), limit.as_ref())?;
            fetch.and_then(|fetch| fetch.checked_add(skip))
        };
        let (relation, single) = match &*query.body {
            ast::SetExpr::Select(select) => self.first_of_select(select, order, first, outer)?,
            body => {
                let (relation, single) = self.set_expr(body, outer)?;
                (self.order_by_output(relation, order)?, single)
            }
        };
        if is_computed {
            let plan = self.limited_by(relation.plan, offset.as_ref(), limit.as_ref(), outer)?;
            return Ok((Relation { plan, ..relation }, false));
        }
        let (skip, fetch) = self.limits(offset.as_ref(), limit.as_ref())?;
        if skip == 0 && fetch.is_none() {
            return Ok((relation, single));
        }
        // A sort whose rows are only passed over is kept as any other one.
        let rows = if fetch.is_some() { outermost(relation.plan) } else { relation.plan };
        let plan = LogicalPlanBuilder::from(rows)
            .limit(skip, fetch)
            .and_then(LogicalPlanBuilder::build)
            .planned()?;
        Ok((Relation { plan, ..relation }, false))
    }

    /// How many rows are passed over, and how many are given.
    fn offset_and_limit(&self, query: &ast::Query) -> SqlResult<(Option<ast::Expr>, Option<ast::Expr>)> {
        let (mut limit, mut offset) = (None, None);
        match &query.limit_clause {
            None => {}
            Some(ast::LimitClause::LimitOffset { limit: l, offset: o, limit_by }) if limit_by.is_empty() => {
                limit.clone_from(l);
                offset = o.as_ref().map(|o| o.value.clone());
            }
            Some(_) => return Err(SqlError::unsupported("this form of LIMIT")),
        }
        if let Some(fetch) = &query.fetch {
            if fetch.with_ties || fetch.percent {
                return Err(SqlError::unsupported("FETCH WITH TIES or PERCENT"));
            }
            let one = || ast::Expr::value(ast::Value::Number("1".to_owned(), false));
            limit = Some(fetch.quantity.clone().unwrap_or_else(one));
        }
        Ok((offset, limit))
    }

    /// The numbers of OFFSET and LIMIT, which are constants.
    fn limits(
        &self,
        offset: Option<&ast::Expr>,
        limit: Option<&ast::Expr>,
    ) -> SqlResult<(usize, Option<usize>)> {
        let number = |expr: Option<&ast::Expr>, place, state, name: &str| -> SqlResult<Option<usize>> {
            let Some(value) = expr.map(|e| self.constant_i64(e, place)).transpose()?.flatten() else {
                return Ok(None);
            };
            usize::try_from(value)
                .map(Some)
                .map_err(|_| SqlError::new(state, format!("{name} must not be negative")))
        };
        let fetch = number(limit, "LIMIT", SqlState::INVALID_ROW_COUNT_IN_LIMIT_CLAUSE, "LIMIT")?;
        let skip = number(offset, "OFFSET", SqlState::INVALID_ROW_COUNT_IN_RESULT_OFFSET_CLAUSE, "OFFSET")?;
        Ok((skip.unwrap_or(0), fetch))
    }

    /// The body of a query. Columns may still be of unknown type.
    pub(crate) fn set_expr(
        &self,
        body: &ast::SetExpr,
        outer: Option<&dyn Scope>,
    ) -> SqlResult<(Relation, bool)> {
        match body {
            ast::SetExpr::Select(select) => self.select(select, &[], outer),
            ast::SetExpr::Query(query) => self.term(query, outer),
            ast::SetExpr::Values(values) => Ok((self.values(values, outer)?, false)),
            ast::SetExpr::SetOperation { left, op, set_quantifier, right } => {
                Ok((self.set_operation(left, *op, *set_quantifier, right, outer)?, false))
            }
            _ => Err(SqlError::unsupported("a data-modifying statement in WITH of an analytical query")),
        }
    }

    fn set_operation(
        &self,
        left: &ast::SetExpr,
        op: ast::SetOperator,
        quantifier: ast::SetQuantifier,
        right: &ast::SetExpr,
        outer: Option<&dyn Scope>,
    ) -> SqlResult<Relation> {
        let all = match quantifier {
            ast::SetQuantifier::All => true,
            ast::SetQuantifier::Distinct | ast::SetQuantifier::None => false,
            _ => return Err(SqlError::unsupported("BY NAME")),
        };
        let left = self.set_expr(left, outer)?.0;
        let right = self.set_expr(right, outer)?.0;
        let word = match op {
            ast::SetOperator::Union => "UNION",
            ast::SetOperator::Intersect => "INTERSECT",
            ast::SetOperator::Except | ast::SetOperator::Minus => "EXCEPT",
        };
        let (left, right) = (self.visible(left)?, self.visible(right)?);
        if left.columns.len() != right.columns.len() {
            return Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                format!("each {word} query must have the same number of columns"),
            ));
        }
        let mut types = Vec::new();
        for (l, r) in left.columns.iter().zip(&right.columns) {
            types.push(common_type(&[l.ty, r.ty], word)?);
        }
        let left = self.cast_columns(left, &types)?;
        let right = self.cast_columns(right, &types)?;
        let arrows: Vec<DataType> = left
            .columns
            .iter()
            .zip(&right.columns)
            .map(|(l, r)| common_arrow(l.ty, [(&l.arrow, false), (&r.arrow, false)].into_iter()))
            .collect();
        let left = self.reshape(left, &arrows)?;
        let right = self.reshape(right, &arrows)?;
        self.combine(left, right, op, all)
    }

    fn combine(
        &self,
        mut left: Relation,
        right: Relation,
        op: ast::SetOperator,
        all: bool,
    ) -> SqlResult<Relation> {
        if left.columns.is_empty() {
            return Err(SqlError::unsupported("a set operation of queries without columns"));
        }
        for (l, r) in left.columns.iter_mut().zip(&right.columns) {
            if !all || op != ast::SetOperator::Union {
                check_comparable(l.ty, "equality")?;
            }
            if l.typmod != r.typmod {
                l.typmod = TypeMod::NONE;
            }
            l.origin = (0, 0);
        }
        if op == ast::SetOperator::Union {
            let union = self.union(left, right, all)?;
            return if all { Ok(union) } else { self.distinct_rows(union) };
        }
        let left = self.rename_columns(if all { left } else { self.distinct_rows(left)? })?;
        let mut right = self.rename_columns(right)?;
        for (l, r) in left.columns.iter().zip(&mut right.columns) {
            r.typmod = l.typmod;
        }
        let (left_plan, left_keys) = self.keyed(&left, all)?;
        let (right_plan, right_keys) = self.keyed(&right, all)?;
        let join = match op {
            ast::SetOperator::Intersect => JoinType::LeftSemi,
            _ => JoinType::LeftAnti,
        };
        let exprs: Vec<Expr> = left.columns.iter().map(RelColumn::expr).collect();
        let keys = (left_keys, right_keys);
        let plan = LogicalPlanBuilder::from(left_plan)
            .join_detailed(right_plan, join, keys, None, NullEquality::NullEqualsNull)
            .and_then(|b| b.project(exprs))
            .and_then(LogicalPlanBuilder::build)
            .planned()?;
        Ok(Relation { plan, ..left })
    }

    /// The rows of both. The terms of a chain stand side by side: programs write longer ones than plans may nest.
    fn union(&self, left: Relation, right: Relation, all: bool) -> SqlResult<Relation> {
        let chain = chain(&left, all).cloned();
        // Both sides under the same names, which the union takes over.
        let left = if chain.is_some() { left } else { self.rename_columns(left)? };
        let pairs = right.columns.iter().zip(&left.columns);
        let exprs: Vec<Expr> = pairs.map(|(r, l)| r.expr().alias(&l.column.name)).collect();
        let right = LogicalPlanBuilder::from(right.plan)
            .project(exprs)
            .and_then(LogicalPlanBuilder::build)
            .planned()?;
        let union = match chain {
            Some(mut union) => {
                let fields = union.schema.fields().iter().zip(right.schema().fields());
                let fits = fields.clone().all(|(u, r)| u.is_nullable() || !r.is_nullable());
                union.inputs.push(Arc::new(right));
                // Telling the schema from all inputs at each of them would take a second for a thousand.
                if fits { union } else { Union::try_new(union.inputs).planned()? }
            }
            None => Union::try_new(vec![Arc::new(left.plan), Arc::new(right)]).planned()?,
        };
        Ok(Relation { plan: LogicalPlan::Union(union), ..left })
    }

    /// The rows of `relation`, and the columns by which they are equal. The number of each among its equals is one of them if
    /// `numbered`: then the n-th of equal rows on one side answers the n-th on the other.
    fn keyed(&self, relation: &Relation, numbered: bool) -> SqlResult<(LogicalPlan, Vec<Column>)> {
        let mut exprs: Vec<Expr> = relation.columns.iter().map(RelColumn::expr).collect();
        let mut keys = Vec::new();
        for column in &relation.columns {
            if column.needs_key() {
                let name = self.fresh();
                exprs.push(column.key().alias(&name));
                keys.push(bare(name));
            } else {
                keys.push(column.column.clone());
            }
        }
        let mut plan = LogicalPlanBuilder::from(relation.plan.clone())
            .project(exprs)
            .and_then(LogicalPlanBuilder::build)
            .planned()?;
        if numbered {
            let by = keys.iter().cloned().map(Expr::Column).collect();
            // The plan names the column by the expression, and takes no alias.
            let number = crate::window::row_number(by, Vec::new());
            keys.push(bare(number.schema_name().to_string()));
            plan = LogicalPlanBuilder::window_plan(plan, vec![number]).planned()?;
        }
        Ok((plan, keys))
    }

    /// Only the columns `*` shows, in its order.
    pub(crate) fn visible(&self, relation: Relation) -> SqlResult<Relation> {
        let in_order = relation.star.iter().copied().eq(0..relation.columns.len());
        if in_order {
            return Ok(relation);
        }
        let columns: Vec<RelColumn> = relation.star.iter().map(|i| relation.columns[*i].clone()).collect();
        let exprs: Vec<Expr> = columns.iter().map(RelColumn::expr).collect();
        let plan = LogicalPlanBuilder::from(relation.plan)
            .project(exprs)
            .and_then(LogicalPlanBuilder::build)
            .planned()?;
        let star = (0..columns.len()).collect();
        Ok(Relation { plan, columns, star })
    }

    /// Converts columns to `types` where they differ.
    pub(crate) fn cast_columns(&self, relation: Relation, types: &[PgType]) -> SqlResult<Relation> {
        let bind = |i: usize, c: &RelColumn, to: PgType| {
            if c.ty == to {
                return BoundExpr::column(i, c.ty, c.typmod);
            }
            let from = if c.ty == PgType::Unknown { PgType::Text } else { c.ty };
            let how = if c.ty == PgType::Unknown { CastContext::Explicit } else { CastContext::Implicit };
            let expr = Box::new(BoundExpr::column(i, from, TypeMod::NONE));
            BoundExpr::new(to, TypeMod::NONE, ExprKind::Cast { expr, how })
        };
        if relation.columns.iter().zip(types).all(|(c, ty)| c.ty == *ty) {
            return Ok(relation);
        }
        let level = Level::of(&relation);
        let mut translator = Translator::new(self, relation.plan, level);
        let mut columns = relation.columns;
        let mut exprs = Vec::new();
        for (i, (column, ty)) in columns.iter_mut().zip(types).enumerate() {
            let typed = translator.translate(&bind(i, column, *ty))?;
            let name = self.fresh();
            exprs.push(typed.expr.alias(&name));
            if column.ty != *ty {
                column.typmod = TypeMod::NONE;
                column.origin = (0, 0);
            }
            *column = RelColumn { column: bare(name), arrow: typed.arrow, ty: *ty, ..column.clone() };
        }
        let plan = LogicalPlanBuilder::from(translator.plan)
            .project(exprs)
            .and_then(LogicalPlanBuilder::build)
            .planned()?;
        Ok(Relation { plan, columns, star: relation.star })
    }

    /// The same rows, each column in that Arrow form of its type.
    pub(crate) fn reshape(&self, relation: Relation, arrows: &[DataType]) -> SqlResult<Relation> {
        if relation.columns.iter().zip(arrows).all(|(c, arrow)| c.arrow == *arrow) {
            return Ok(relation);
        }
        let translator = Translator::new(self, relation.plan.clone(), Level::of(&relation));
        let mut columns = relation.columns;
        let mut exprs = Vec::new();
        for (column, arrow) in columns.iter_mut().zip(arrows) {
            let typed = Typed { expr: column.expr(), ty: column.ty, arrow: column.arrow.clone() };
            let typed = translator.convert(typed, arrow)?;
            let name = self.fresh();
            exprs.push(typed.expr.alias(&name));
            column.column = bare(name);
            column.arrow = arrow.clone();
        }
        let plan = LogicalPlanBuilder::from(relation.plan)
            .project(exprs)
            .and_then(LogicalPlanBuilder::build)
            .planned()?;
        Ok(Relation { plan, columns, star: relation.star })
    }

    /// What is still of unknown type becomes text.
    pub(crate) fn finish_unknown(&self, relation: Relation) -> SqlResult<Relation> {
        let types: Vec<PgType> = relation
            .columns
            .iter()
            .map(|c| if c.ty == PgType::Unknown { PgType::Text } else { c.ty })
            .collect();
        self.cast_columns(relation, &types)
    }

    /// Each row once. Of equal values of several spellings the least one is kept.
    pub(crate) fn distinct_rows(&self, relation: Relation) -> SqlResult<Relation> {
        relation.columns.iter().try_for_each(|column| check_comparable(column.ty, "equality"))?;
        if !relation.columns.iter().any(RelColumn::needs_key) {
            let plan = LogicalPlanBuilder::from(relation.plan)
                .distinct()
                .and_then(LogicalPlanBuilder::build)
                .planned()?;
            return Ok(Relation { plan, ..relation });
        }
        let mut columns = relation.columns;
        let (mut below, mut keys, mut least, mut after) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for column in &mut columns {
            let name = self.fresh();
            if column.needs_key() {
                let (key, whole, smallest) = (self.fresh(), self.fresh(), self.fresh());
                below.push(column.key().alias(&key));
                below.push(column.expr().alias(&whole));
                let key = Expr::Column(bare(key));
                keys.push(key.clone());
                let min = datafusion::functions_aggregate::expr_fn::min(Expr::Column(bare(whole)));
                least.push(min.alias(&smallest));
                after.push(stands_for(key, Expr::Column(bare(smallest)), column.ty)?.alias(&name));
            } else {
                below.push(column.expr().alias(&name));
                keys.push(Expr::Column(bare(name.clone())));
                after.push(Expr::Column(bare(name.clone())));
            }
            column.column = bare(name);
        }
        let plan = LogicalPlanBuilder::from(relation.plan)
            .project(below)
            .and_then(|b| b.aggregate(keys, least))
            .and_then(|b| b.project(after))
            .and_then(LogicalPlanBuilder::build)
            .planned()?;
        Ok(Relation { plan, columns, star: relation.star })
    }

    fn values(&self, values: &ast::Values, outer: Option<&dyn Scope>) -> SqlResult<Relation> {
        let none = Relation {
            plan: LogicalPlanBuilder::empty(true).build().planned()?,
            columns: Vec::new(),
            star: Vec::new(),
        };
        let place = Place::new(Level::of(&none), outer);
        let mut rows: Vec<Vec<BoundExpr>> = Vec::new();
        for row in &values.rows {
            let row = row
                .content
                .iter()
                .map(|e| self.expr(e, &place, Aggregates::Forbidden("VALUES")))
                .collect::<SqlResult<Vec<_>>>()?;
            if rows.first().is_some_and(|first| first.len() != row.len()) {
                return Err(SqlError::new(
                    SqlState::SYNTAX_ERROR,
                    "VALUES lists must all be the same length",
                ));
            }
            rows.push(row);
        }
        let width = rows.first().map_or(0, Vec::len);
        let ctx = self.context(Aggregates::Forbidden("VALUES"));
        let mut columns: Vec<(PgType, Vec<Typed>)> = Vec::new();
        let mut plan = none.plan;
        for i in 0..width {
            let types: Vec<PgType> = rows.iter().map(|row| row[i].ty).collect();
            let ty = if rows.len() == 1 { types[0] } else { common_type(&types, "VALUES")? };
            let ty = if ty == PgType::Unknown { PgType::Text } else { ty };
            let mut typed = Vec::new();
            for row in &mut rows {
                let expr = std::mem::replace(&mut row[i], BoundExpr::constant(types::Datum::Null, ty));
                let expr = sql::expr::coerce(expr, ty, TypeMod::NONE, CastContext::Implicit, &ctx)?;
                typed.push(self.within(&place.level, || {
                    let mut translator = Translator::new(self, plan.clone(), Arc::clone(&place.level));
                    let typed = translator.translate(&expr)?;
                    plan = translator.plan;
                    Ok(typed)
                })?);
            }
            columns.push((ty, typed));
        }
        if !matches!(plan, LogicalPlan::EmptyRelation(_)) && rows.len() > COMPUTED_ROWS_MAX {
            let message = format!("subqueries in VALUES of more than {COMPUTED_ROWS_MAX} rows");
            return Err(SqlError::unsupported(message));
        }
        self.values_plan(plan, columns, rows.len())
    }

    fn values_plan(
        &self,
        plan: LogicalPlan,
        columns: Vec<(PgType, Vec<Typed>)>,
        rows: usize,
    ) -> SqlResult<Relation> {
        let translator = Translator::new(
            self,
            crate::binder::empty(),
            Level::of(&Relation { plan: crate::binder::empty(), columns: Vec::new(), star: Vec::new() }),
        );
        let mut out_columns = Vec::new();
        let mut exprs: Vec<Vec<Expr>> = vec![Vec::new(); rows];
        for (i, (ty, typed)) in columns.into_iter().enumerate() {
            let (unified, arrow) = translator.unify(typed, ty)?;
            for (row, expr) in exprs.iter_mut().zip(unified) {
                row.push(expr);
            }
            out_columns.push(RelColumn {
                column: bare(format!("column{}", i + 1)),
                arrow,
                ty,
                typmod: TypeMod::NONE,
                name: format!("column{}", i + 1),
                table: Some("*VALUES*".to_owned()),
                schema: None,
                bare: true,
                starred: true,
                origin: (0, 0),
            });
        }
        let star = (0..out_columns.len()).collect();
        if rows == 1 {
            let exprs: Vec<Expr> =
                exprs.remove(0).into_iter().zip(&out_columns).map(|(e, c)| e.alias(&c.column.name)).collect();
            let plan = LogicalPlanBuilder::from(plan)
                .project(exprs)
                .and_then(LogicalPlanBuilder::build)
                .planned()?;
            return self.rename_columns(Relation { plan, columns: out_columns, star });
        }
        let is_literal = |row: &Vec<Expr>| row.iter().all(|expr| matches!(expr, Expr::Literal(..)));
        let is_computed_later = exprs.iter().flatten().any(looks_out);
        let plan = if is_computed_later || rows <= COMPUTED_ROWS_MAX && !exprs.iter().all(is_literal) {
            union_of_rows(&plan, exprs, &out_columns)?
        } else {
            LogicalPlanBuilder::values(exprs).and_then(LogicalPlanBuilder::build).planned()?
        };
        self.rename_columns(Relation { plan, columns: out_columns, star })
    }

    /// ORDER BY of a set operation or VALUES: by output columns only.
    fn order_by_output(&self, relation: Relation, order: &[ast::OrderByExpr]) -> SqlResult<Relation> {
        if order.is_empty() {
            return Ok(relation);
        }
        let mut sorts = Vec::new();
        for key in order {
            let at = match output_position(&key.expr, relation.star.len(), "ORDER BY")? {
                Some(at) => Some(at),
                None => match in_parentheses(&key.expr) {
                    ast::Expr::Identifier(ident) => {
                        let name = fold_ident(ident);
                        let is_named = |at: &usize| relation.columns[relation.star[*at]].name == name;
                        let mut named = (0..relation.star.len()).filter(is_named);
                        let position = named.next();
                        if named.next().is_some() {
                            let message = format!("ORDER BY \"{name}\" is ambiguous");
                            return Err(SqlError::new(SqlState::AMBIGUOUS_COLUMN, message));
                        }
                        Some(position.ok_or_else(|| sql::expr::undefined_column(&[], &name))?)
                    }
                    _ => None,
                },
            };
            let at = at.ok_or_else(|| {
                SqlError::new(
                    SqlState::FEATURE_NOT_SUPPORTED,
                    "invalid UNION/INTERSECT/EXCEPT ORDER BY clause",
                )
                .with_detail("Only result column names can be used, not expressions or functions.")
            })?;
            let column = &relation.columns[relation.star[at]];
            check_comparable(column.ty, "ordering")?;
            sorts.push(sort(column.key(), &key.options));
        }
        let plan = sorted(relation.plan, sorts)?;
        Ok(Relation { plan, ..relation })
    }
}

/// Rows of VALUES that may each be a plan of its own although they need not.
const COMPUTED_ROWS_MAX: usize = 64;

/// Rows of which some values are computed when the query runs, each over `one_row`: those of a VALUES plan are worked out with the plan.
fn union_of_rows(
    one_row: &LogicalPlan,
    rows: Vec<Vec<Expr>>,
    columns: &[RelColumn],
) -> SqlResult<LogicalPlan> {
    let plan = |row: Vec<Expr>| {
        let named = row.into_iter().zip(columns).map(|(expr, column)| expr.alias(&column.column.name));
        LogicalPlanBuilder::from(one_row.clone()).project(named).and_then(LogicalPlanBuilder::build)
    };
    let rows = rows.into_iter().map(|row| plan(row).map(Arc::new));
    let rows = rows.collect::<Result<Vec<_>, _>>().planned()?;
    Union::try_new(rows).map(LogicalPlan::Union).planned()
}

/// Whether `expr` has a column of an enclosing row, whose value is not there while a plan is made.
fn looks_out(expr: &Expr) -> bool {
    let found = expr.exists(|node| {
        Ok(match node {
            Expr::OuterReferenceColumn(..) => true,
            Expr::ScalarFunction(call) => {
                let function: &dyn std::any::Any = call.func.inner().as_ref();
                function.is::<ReadCell>()
            }
            _ => false,
        })
    });
    found.unwrap_or(true)
}

/// A sort key with PostgreSQL's defaults: NULLs last, or first when descending.
pub(crate) fn sort(expr: Expr, options: &ast::OrderByOptions) -> Sort {
    let ascending = options.asc != Some(false);
    Sort::new(expr, ascending, options.nulls_first.unwrap_or(!ascending))
}

/// `expr` without the parentheses around it, which a name or a position means the same in.
pub(crate) fn in_parentheses(mut expr: &ast::Expr) -> &ast::Expr {
    while let ast::Expr::Nested(inner) = expr {
        expr = inner;
    }
    expr
}

/// The union that a relation is, if its terms may go on in another one. A union without ALL takes those of any: rows that
/// are equal go in the end.
fn chain(relation: &Relation, all: bool) -> Option<&Union> {
    let plan = match &relation.plan {
        LogicalPlan::Distinct(Distinct::All(below)) if !all => below,
        plan => plan,
    };
    let LogicalPlan::Union(union) = plan else { return None };
    let named = relation.columns.iter().map(|column| &column.column);
    union.schema.columns().iter().eq(named).then_some(union)
}
