//! SELECT: binding of one level and putting its plan together.

use base::limits::RESULT_COLUMNS_MAX;
use base::{Oid, SqlError, SqlResult, SqlState};
use sqlparser::ast;

use super::analytic;
use super::binder::{Binder, object_name};
use super::cost::{POINT_ROWS_MAX, limit_estimate};
use super::from_clause::FromTree;
use super::grouping::Grouping;
use super::join_order::OrderWish;
use super::level::{Level, LevelScope, Namespace};
use super::open_level::OpenLevel;
use super::ordering::{SortItem, check_comparable};
use super::outer_joins;
use super::point_plan::{AggregatePlan, DistinctPlan, PointPlan, PointStatement, SelectPlan, SortColumn};
use super::refuse::refuse;
use super::row_locks::refuse_optional;
use super::{BoundPlan, Command, OutputColumn, PlanContext, PlanKind};
use crate::expr::{
    AggregateKind, Aggregates, BoundExpr, Scope, bind_condition, bind_expr, fold_ident, output_name,
    resolve_unknown,
};
use crate::parse::{changes_rows, inlined, not_at_top_level};

/// A bound query level with the columns it shows.
pub(super) struct BoundQuery {
    pub(super) plan: SelectPlan,
    pub(super) columns: Vec<OutputColumn>,
}

/// What follows the body of a query.
pub(super) struct Tail<'q> {
    pub(super) order_by: Option<&'q ast::OrderBy>,
    pub(super) limit: Option<&'q ast::Expr>,
    pub(super) offset: Option<&'q ast::Expr>,
    pub(super) locks: &'q [ast::LockClause],
    /// The body is an arm of a set operation, which gives literals and parameters without a type one.
    pub(super) is_arm: bool,
}

pub(super) fn bind_query_statement(query: &ast::Query, ctx: &PlanContext<'_>) -> SqlResult<BoundPlan> {
    let binder = Binder::new(*ctx);
    let bound = match binder.bind_query(query, None) {
        Ok(bound) => bound,
        Err(error) => {
            if !query.locks.is_empty() {
                return Err(error);
            }
            let Some(reason) = binder.reason_for(&error) else { return Err(error) };
            return match changing_settings(query, ctx)? {
                Some(plan) => Ok(plan),
                None => analytic::plan(query, reason, ctx),
            };
        }
    };
    let read_only = !binder.has_effects();
    let cost = bound.plan.cost;
    if cost > POINT_ROWS_MAX && read_only {
        if let Some(plan) = decided_when_run(query, cost, ctx)? {
            return Ok(plan);
        }
        let reason = format!("it would look at about {cost:.0} rows, more than {POINT_ROWS_MAX}");
        return analytic::plan(query, reason, ctx);
    }
    finish(binder, bound, cost, None, ctx)
}

/// A plan for the point path of a query that calls `set_config`, which a session does at home, for rows of `pg_settings`: so pgAdmin and pg_dump set what a server may not
/// have.
fn changing_settings(query: &ast::Query, ctx: &PlanContext<'_>) -> SqlResult<Option<BoundPlan>> {
    if !analytic::names_any(query, &["set_config"]) {
        return Ok(None);
    }
    let binder = Binder::with_settings(*ctx);
    let Ok(bound) = binder.bind_query(query, None) else { return Ok(None) };
    let cost = bound.plan.cost;
    finish(binder, bound, cost, None, ctx).map(Some)
}

/// A plan for the point path of a query that is expected to look at too many rows for it, if how many there are between the ends of a range decides that:
/// those are known when it is run, and an estimate without them sends a query of a few rows away as soon as its table is large.
fn decided_when_run(query: &ast::Query, cost: f64, ctx: &PlanContext<'_>) -> SqlResult<Option<BoundPlan>> {
    let binder = Binder::hopeful(*ctx);
    let Ok(bound) = binder.bind_query(query, None) else { return Ok(None) };
    let Some(scan) = bound.plan.leading_scan() else { return Ok(None) };
    // All else is done for each of its rows, but for subqueries.
    let each = bound.plan.cost / scan.examined.max(1.0);
    if binder.has_subqueries() || each > POINT_ROWS_MAX {
        return Ok(None);
    }
    finish(binder, bound, cost, Some(each), ctx).map(Some)
}

fn finish(
    binder: Binder<'_>,
    bound: BoundQuery,
    cost: f64,
    cost_of_leading_row: Option<f64>,
    ctx: &PlanContext<'_>,
) -> SqlResult<BoundPlan> {
    let plan = binder.point_plan(PointStatement::Select(Box::new(bound.plan)), cost);
    Ok(BoundPlan {
        command: Command::Select,
        output: bound.columns,
        parameters: ctx.params.finish()?,
        accesses: binder.accesses(),
        read_only: !binder.has_effects(),
        kind: PlanKind::Point(Box::new(PointPlan { cost_of_leading_row, ..plan })),
    })
}

/// A select item, bound.
pub(super) struct Item {
    pub(super) expr: BoundExpr,
    pub(super) column: OutputColumn,
}

impl Binder<'_> {
    /// Binds a query whose names may also come from `outer`.
    pub(super) fn bind_query(&self, query: &ast::Query, outer: Option<&dyn Scope>) -> SqlResult<BoundQuery> {
        let Some(with) = &query.with else { return self.bind_behind_with(query, outer) };
        if changes_rows(query) {
            return Err(not_at_top_level());
        }
        if !self.takes_with() {
            let elsewhere = || self.not_here("a common table expression");
            let inlined = self.inlined(query).ok_or_else(elsewhere)?;
            return self.bind_behind_with(&inlined, outer).map_err(|_| elsewhere());
        }
        let before = self.commons();
        let bound = self.bind_with(with).and_then(|_| self.bind_behind_with(query, outer));
        self.forget_common(before);
        bound
    }

    /// A query without its WITH, if that can be had here.
    pub(super) fn inlined(&self, query: &ast::Query) -> Option<ast::Query> {
        let may_be = query.with.is_some() && !self.takes_with() && !self.is_deep_in_views();
        may_be.then(|| inlined(query)).flatten()
    }

    /// Binds a query whose WITH is the caller's.
    pub(super) fn bind_behind_with(
        &self,
        query: &ast::Query,
        outer: Option<&dyn Scope>,
    ) -> SqlResult<BoundQuery> {
        let ast::Query {
            with: _,
            body,
            order_by,
            limit_clause,
            fetch,
            locks,
            for_clause,
            settings,
            format_clause,
            pipe_operators,
        } = query;
        refuse(for_clause.is_some(), "FOR XML or JSON")?;
        refuse(settings.is_some(), "SETTINGS")?;
        refuse(format_clause.is_some(), "FORMAT")?;
        refuse(!pipe_operators.is_empty(), "a pipe operator")?;
        let (mut limit, offset) = match limit_clause {
            None => (None, None),
            Some(ast::LimitClause::LimitOffset { limit, offset, limit_by }) => {
                refuse(!limit_by.is_empty(), "LIMIT BY")?;
                let offset = offset.as_ref().map(|ast::Offset { value, rows: _ }| value);
                (limit.as_ref(), offset)
            }
            Some(ast::LimitClause::OffsetCommaLimit { offset: _, limit: _ }) => {
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, "LIMIT #,# syntax is not supported")
                    .with_hint("Use separate LIMIT and OFFSET clauses."));
            }
        };
        let one = ast::Expr::value(ast::Value::Number("1".into(), false));
        if let Some(ast::Fetch { with_ties, percent, quantity }) = fetch {
            refuse(*percent, "FETCH … PERCENT")?;
            if *with_ties {
                return Err(self.not_here("WITH TIES"));
            }
            limit = Some(quantity.as_ref().unwrap_or(&one));
        }
        let tail = Tail { order_by: order_by.as_ref(), limit, offset, locks, is_arm: false };
        self.bind_body(body, &tail, outer)
    }

    pub(super) fn bind_body(
        &self,
        body: &ast::SetExpr,
        tail: &Tail<'_>,
        outer: Option<&dyn Scope>,
    ) -> SqlResult<BoundQuery> {
        match body {
            ast::SetExpr::Select(select) => self.bind_select(select, tail, outer),
            ast::SetExpr::Values(values) => self.bind_values(values, tail, outer),
            ast::SetExpr::Query(inner) => {
                if tail.order_by.is_some()
                    || tail.limit.is_some()
                    || tail.offset.is_some()
                    || !tail.locks.is_empty()
                {
                    return Err(self.not_here("clauses around a query in parentheses"));
                }
                self.bind_query(inner, outer)
            }
            ast::SetExpr::SetOperation { left, op: ast::SetOperator::Union, set_quantifier, right }
                if self.has_parts() =>
            {
                self.bind_union([left, right], *set_quantifier, tail, outer)
            }
            ast::SetExpr::SetOperation { left: _, op, set_quantifier: _, right: _ } => {
                Err(self.not_here(format!("{op}")))
            }
            ast::SetExpr::Table(_) => Err(SqlError::unsupported("a TABLE command in this place")),
            ast::SetExpr::Insert(_)
            | ast::SetExpr::Update(_)
            | ast::SetExpr::Delete(_)
            | ast::SetExpr::Merge(_) => Err(not_at_top_level()),
        }
    }

    fn bind_select(
        &self,
        select: &ast::Select,
        tail: &Tail<'_>,
        outer: Option<&dyn Scope>,
    ) -> SqlResult<BoundQuery> {
        let (OpenLevel { level, trees, parts }, columns) = self.bind_level(select, tail, outer)?;
        Ok(BoundQuery { plan: self.finish_level(level, trees, parts, tail)?, columns })
    }

    /// A SELECT, and the columns it shows, without the paths to its rows.
    pub(super) fn bind_level(
        &self,
        select: &ast::Select,
        tail: &Tail<'_>,
        outer: Option<&dyn Scope>,
    ) -> SqlResult<(OpenLevel, Vec<OutputColumn>)> {
        let ast::Select {
            select_token: _,
            optimizer_hints,
            distinct,
            select_modifiers,
            top,
            top_before_distinct: _,
            projection,
            exclude,
            into,
            from,
            lateral_views,
            prewhere,
            selection,
            connect_by,
            group_by,
            cluster_by,
            distribute_by,
            sort_by,
            having,
            named_window,
            qualify,
            window_before_qualify: _,
            value_table_mode,
            flavor,
        } = select;
        let _ = optimizer_hints; // Comments to PostgreSQL.
        refuse(select_modifiers.is_some(), "a modifier of SELECT")?;
        refuse(top.is_some(), "TOP")?;
        refuse(exclude.is_some(), "EXCLUDE")?;
        refuse(into.is_some(), "SELECT INTO")?;
        refuse(!lateral_views.is_empty(), "LATERAL VIEW")?;
        refuse(prewhere.is_some(), "PREWHERE")?;
        refuse(!connect_by.is_empty(), "CONNECT BY")?;
        refuse(!cluster_by.is_empty(), "CLUSTER BY")?;
        refuse(!distribute_by.is_empty(), "DISTRIBUTE BY")?;
        refuse(!sort_by.is_empty(), "SORT BY")?;
        refuse(qualify.is_some(), "QUALIFY")?;
        refuse(value_table_mode.is_some(), "SELECT AS")?;
        refuse(!matches!(flavor, ast::SelectFlavor::Standard), "FROM before SELECT")?;
        if !named_window.is_empty() {
            return Err(self.not_here("a window function"));
        }

        let mut level = Level::default();
        let mut namespace = Namespace::default();
        let trees = self.bind_from(&mut level, from, outer, &mut namespace)?;
        let scope = LevelScope { level: &level, namespace: &namespace, outer };
        let conditions = self.bind_where(selection.as_ref(), &scope)?;
        // What is compared within the arm has a type of its own.
        let is_plain = distinct.is_none()
            && matches!(group_by, ast::GroupByExpr::Expressions(keys, _) if keys.is_empty());
        let mut items = self.bind_items(projection, &scope, Aggregates::Allowed, tail.is_arm && is_plain)?;
        let keys = self.bind_group_by(group_by, &items, &scope)?;
        let ctx = self.expressions(Aggregates::Allowed);
        let mut having =
            having.as_ref().map(|having| bind_condition(having, &scope, &ctx, "HAVING")).transpose()?;
        let mut project: Vec<BoundExpr> = items.iter().map(|item| item.expr.clone()).collect();
        let outputs: Vec<OutputColumn> = items.drain(..).map(|item| item.column).collect();
        let visible = project.len();
        let sort = self.bind_order_by(tail.order_by, &mut project, &outputs, &scope)?;
        let distinct = self.bind_distinct(distinct.as_ref(), &mut project, &outputs, &sort, &scope)?;
        if matches!(distinct, DistinctPlan::All) && project.len() > visible {
            return Err(SqlError::new(
                SqlState::INVALID_COLUMN_REFERENCE,
                "for SELECT DISTINCT, ORDER BY expressions must appear in select list",
            ));
        }

        keys.iter().chain(&having).for_each(|expr| self.note_effects(expr));
        let aggregates = project.iter().chain(&having).any(BoundExpr::contains_aggregate);
        let aggregate = if aggregates || !keys.is_empty() || having.is_some() {
            let grouped = !keys.is_empty();
            let mut grouping = Grouping::new(self, &level, keys);
            for expr in project.iter_mut().chain(&mut having) {
                grouping.rewrite(expr)?;
            }
            let (keys, calls) = grouping.finish();
            Some(AggregatePlan {
                id: self.next_node(),
                keys,
                calls,
                having,
                grouped,
                first_row_decides: false,
            })
        } else {
            None
        };
        let parts = Parts { conditions, aggregate, project, visible, distinct, sort };
        Ok((OpenLevel { level, trees, parts }, outputs))
    }

    pub(super) fn bind_where(
        &self,
        selection: Option<&ast::Expr>,
        scope: &dyn Scope,
    ) -> SqlResult<Vec<BoundExpr>> {
        let ctx = self.expressions(Aggregates::Forbidden("WHERE"));
        match selection {
            Some(condition) => Ok(bind_condition(condition, scope, &ctx, "WHERE")?.into_conjuncts()),
            None => Ok(Vec::new()),
        }
    }

    /// The select list, or RETURNING, as expressions and columns.
    pub(super) fn bind_returning(
        &self,
        items: &[ast::SelectItem],
        scope: &LevelScope<'_>,
    ) -> SqlResult<(Vec<BoundExpr>, Vec<OutputColumn>)> {
        let items = self.bind_items(items, scope, Aggregates::Forbidden("RETURNING"), false)?;
        Ok(items.into_iter().map(|item| (item.expr, item.column)).unzip())
    }

    fn bind_items(
        &self,
        projection: &[ast::SelectItem],
        scope: &LevelScope<'_>,
        aggregates: Aggregates,
        keeps_unknown: bool,
    ) -> SqlResult<Vec<Item>> {
        let ctx = self.expressions(aggregates);
        let mut items = Vec::with_capacity(projection.len());
        for item in projection {
            let (expr, name) = match item {
                ast::SelectItem::UnnamedExpr(expr) => {
                    if let ast::Expr::QualifiedWildcard(name, _) = expr {
                        self.expand_qualified(name, scope, &mut items)?;
                        continue;
                    }
                    (expr, output_name(expr))
                }
                ast::SelectItem::ExprWithAlias { expr, alias } => (expr, fold_ident(alias)),
                ast::SelectItem::ExprWithAliases { expr: _, aliases: _ } => {
                    return Err(SqlError::unsupported("several aliases of one expression"));
                }
                ast::SelectItem::QualifiedWildcard(kind, options) => {
                    refuse_wildcard_options(options)?;
                    match kind {
                        ast::SelectItemQualifiedWildcardKind::ObjectName(name) => {
                            self.expand_qualified(name, scope, &mut items)?;
                        }
                        ast::SelectItemQualifiedWildcardKind::Expr(_) => {
                            return Err(SqlError::unsupported("(expression).*"));
                        }
                    }
                    continue;
                }
                ast::SelectItem::Wildcard(options) => {
                    refuse_wildcard_options(options)?;
                    if scope.namespace.relations.is_empty() {
                        return Err(SqlError::new(
                            SqlState::SYNTAX_ERROR,
                            "SELECT * with no tables specified is not valid",
                        ));
                    }
                    for column in &scope.namespace.columns {
                        items.push(star_item(scope.level, column.slot, column.name.clone()));
                    }
                    continue;
                }
            };
            let mut expr = bind_expr(expr, scope, &ctx)?;
            if !keeps_unknown {
                expr = resolve_unknown(expr, &ctx)?;
            }
            self.note_effects(&expr);
            let (table_oid, attnum) = match expr.as_column() {
                Some(slot) => {
                    let column = scope.level.column_of(slot).1;
                    (column.table_oid, column.attnum)
                }
                None => (Oid(0), 0),
            };
            let column = OutputColumn { name, ty: expr.ty, typmod: expr.typmod, table_oid, attnum };
            items.push(Item { expr, column });
        }
        require_few_columns(items.len())?;
        Ok(items)
    }

    fn expand_qualified(
        &self,
        name: &ast::ObjectName,
        scope: &LevelScope<'_>,
        items: &mut Vec<Item>,
    ) -> SqlResult<()> {
        let parts = object_name(name)?;
        let qualifier: Vec<&str> = parts.iter().map(String::as_str).collect();
        let Some(index) = scope.relation_named(&qualifier)? else {
            return Err(crate::expr::missing_from_entry(qualifier.last().unwrap_or(&"")));
        };
        let relation = &scope.level.relations[index];
        for (i, column) in relation.columns.iter().enumerate().filter(|(_, c)| !c.name.is_empty()) {
            items.push(star_item(scope.level, relation.first + i, column.name.clone()));
        }
        Ok(())
    }

    fn bind_group_by(
        &self,
        group_by: &ast::GroupByExpr,
        items: &[Item],
        scope: &LevelScope<'_>,
    ) -> SqlResult<Vec<BoundExpr>> {
        let exprs = match group_by {
            ast::GroupByExpr::All(_) => return Err(SqlError::unsupported("GROUP BY ALL")),
            ast::GroupByExpr::Expressions(exprs, modifiers) => {
                refuse(!modifiers.is_empty(), "a modifier of GROUP BY")?;
                exprs
            }
        };
        let ctx = self.expressions(Aggregates::Forbidden("GROUP BY"));
        let mut keys: Vec<BoundExpr> = Vec::with_capacity(exprs.len());
        for expr in exprs {
            if matches!(expr, ast::Expr::Rollup(_) | ast::Expr::Cube(_) | ast::Expr::GroupingSets(_)) {
                return Err(self.not_here("grouping sets"));
            }
            let key = match self.output_reference(expr, items.len(), "GROUP BY", &|name| {
                if scope.namespace.columns.iter().any(|column| column.name == name) {
                    return Vec::new();
                }
                (0..items.len()).filter(|i| items[*i].column.name == name).collect()
            })? {
                Some(index) => items[index].expr.clone(),
                None => resolve_unknown(bind_expr(expr, scope, &ctx)?, &ctx)?,
            };
            if key.contains_aggregate() {
                return Err(SqlError::new(
                    SqlState::GROUPING_ERROR,
                    "aggregate functions are not allowed in GROUP BY",
                ));
            }
            check_comparable(key.ty, "equality")?;
            if !keys.contains(&key) {
                keys.push(key);
                require_few_columns(keys.len())?;
            }
        }
        Ok(keys)
    }

    fn bind_distinct(
        &self,
        distinct: Option<&ast::Distinct>,
        project: &mut Vec<BoundExpr>,
        outputs: &[OutputColumn],
        sort: &[SortColumn],
        scope: &LevelScope<'_>,
    ) -> SqlResult<DistinctPlan> {
        let on = match distinct {
            None | Some(ast::Distinct::All) => return Ok(DistinctPlan::No),
            Some(ast::Distinct::Distinct) => {
                for column in outputs {
                    check_comparable(column.ty, "equality")?;
                }
                return Ok(DistinctPlan::All);
            }
            Some(ast::Distinct::On(exprs)) => exprs,
        };
        let mut columns = Vec::with_capacity(on.len());
        for expr in on {
            let column = self.bind_sort_expr(expr, project, outputs, scope, "SELECT DISTINCT ON")?;
            if !columns.contains(&column) {
                columns.push(column);
            }
        }
        let leading = &sort[..columns.len().min(sort.len())];
        if !leading.iter().all(|s| columns.contains(&s.column)) {
            return Err(SqlError::new(
                SqlState::INVALID_COLUMN_REFERENCE,
                "SELECT DISTINCT ON expressions must match initial ORDER BY expressions",
            ));
        }
        Ok(DistinctPlan::On(columns))
    }

    /// Chooses the access paths and puts the level's plan together.
    pub(super) fn finish_level(
        &self,
        level: Level,
        trees: Vec<FromTree>,
        parts: Parts,
        tail: &Tail<'_>,
    ) -> SqlResult<SelectPlan> {
        self.finish_in_order(level, trees, parts, tail, None).map(|(plan, _)| plan)
    }

    /// The same, and whether the rows come in the order that `asked` wishes for of a level which has none itself.
    pub(super) fn finish_in_order(
        &self,
        mut level: Level,
        mut trees: Vec<FromTree>,
        parts: Parts,
        tail: &Tail<'_>,
        asked: Option<&OrderWish>,
    ) -> SqlResult<(SelectPlan, bool)> {
        let Parts { conditions, mut aggregate, project, visible, distinct, mut sort } = parts;
        let limit = self.bind_count(tail.limit, "LIMIT")?;
        let offset = self.bind_count(tail.offset, "OFFSET")?;
        let locks = self.bind_locks(tail.locks, &mut level, &aggregate, &distinct)?;
        if !locks.is_empty() {
            outer_joins::reduce(&mut trees, &level, &conditions);
            refuse_optional(&level, &trees, &locks)?;
        }
        for expr in &conditions {
            self.note_effects(expr);
        }

        let width = level.width;
        let slot_names = level.slot_names();
        let correlated = level.correlated();
        let limit_rows = limit_estimate(limit.as_ref(), offset.as_ref());
        let (wish, decides) = match &aggregate {
            Some(aggregate) => (min_max_wish(aggregate), true),
            None => (sort_wish(&project, &sort, limit_rows), false),
        };
        let sub_costs = SubCosts::of(self, &project, aggregate.as_ref());
        let is_open = aggregate.is_none() && sort.is_empty() && matches!(distinct, DistinctPlan::No);
        let asked = asked.filter(|_| is_open);
        let chosen = self.plan_from(&mut level, trees, conditions, wish.as_ref().or(asked))?;
        let in_order = asked.is_some() && chosen.ordered;
        let mut cost = chosen.cost;
        let mut rows = chosen.node.rows;
        if decides {
            let aggregate = aggregate.as_mut().expect("only aggregates decide by the first row");
            aggregate.first_row_decides = wish.is_some() && chosen.ordered;
            if aggregate.first_row_decides {
                cost = cost.min(1.0);
            }
            rows = if aggregate.grouped { (rows / 4.0).max(1.0) } else { 1.0 };
        } else if chosen.ordered {
            sort.clear();
        }
        cost += sub_costs.once + sub_costs.each * rows;
        if let Some(limit) = limit_rows {
            let unsorted = sort.is_empty() && aggregate.is_none() && locks.is_empty();
            if unsorted && rows > limit {
                cost *= (limit / rows).max(0.0);
                cost = cost.max(1.0);
            }
            rows = rows.min(limit);
        }
        let plan = SelectPlan {
            id: self.next_node(),
            width,
            slot_names,
            from: chosen.node,
            aggregate,
            project,
            visible,
            distinct,
            sort,
            limit,
            offset,
            locks,
            correlated,
            keyed: None,
            is_volatile: false,
            cost,
            rows,
        };
        Ok((plan, in_order))
    }
}

/// # Errors
/// 54011 for a query whose rows would have more columns than there can be.
pub fn require_few_columns(columns: usize) -> SqlResult<()> {
    if columns <= RESULT_COLUMNS_MAX {
        return Ok(());
    }
    let message = format!("target lists can have at most {RESULT_COLUMNS_MAX} entries");
    Err(SqlError::new(SqlState::TOO_MANY_COLUMNS, message))
}

/// The bound clauses of a level, before its paths are chosen.
pub(super) struct Parts {
    pub(super) conditions: Vec<BoundExpr>,
    pub(super) aggregate: Option<AggregatePlan>,
    pub(super) project: Vec<BoundExpr>,
    pub(super) visible: usize,
    pub(super) distinct: DistinctPlan,
    pub(super) sort: Vec<SortColumn>,
}

pub(super) fn star_item(level: &Level, slot: usize, name: String) -> Item {
    level.mark_used(slot);
    let column = level.column_of(slot).1;
    let output = OutputColumn {
        name,
        ty: column.ty,
        typmod: column.typmod,
        table_oid: column.table_oid,
        attnum: column.attnum,
    };
    Item { expr: BoundExpr::column(slot, column.ty, column.typmod), column: output }
}

fn refuse_wildcard_options(options: &ast::WildcardAdditionalOptions) -> SqlResult<()> {
    let ast::WildcardAdditionalOptions {
        wildcard_token: _,
        opt_ilike,
        opt_exclude,
        opt_except,
        opt_replace,
        opt_rename,
        opt_alias,
    } = options;
    let any = opt_ilike.is_some()
        || opt_exclude.is_some()
        || opt_except.is_some()
        || opt_replace.is_some()
        || opt_rename.is_some()
        || opt_alias.is_some();
    refuse(any, "an option of *")
}

/// The order in which the first row answers a lone `min` or `max` of a column.
fn min_max_wish(aggregate: &AggregatePlan) -> Option<OrderWish> {
    let [call] = aggregate.calls.as_slice() else { return None };
    let descending = match call.kind {
        AggregateKind::Min => false,
        AggregateKind::Max => true,
        _ => return None,
    };
    if aggregate.grouped || call.filter.is_some() {
        return None;
    }
    let [arg] = call.args.as_slice() else { return None };
    let slot = arg.as_column()?;
    Some(OrderWish {
        keys: vec![SortItem { slot, descending, nulls_first: false }],
        rows: Some(1.0),
        nulls_excluded: true,
    })
}

fn sort_wish(project: &[BoundExpr], sort: &[SortColumn], rows: Option<f64>) -> Option<OrderWish> {
    if sort.is_empty() {
        return None;
    }
    let keys = sort
        .iter()
        .map(|s| {
            project[s.column].as_column().map(|slot| SortItem {
                slot,
                descending: s.descending,
                nulls_first: s.nulls_first,
            })
        })
        .collect::<Option<Vec<_>>>()?;
    Some(OrderWish { keys, rows, nulls_excluded: false })
}

/// What the subqueries of the select list cost.
struct SubCosts {
    once: f64,
    each: f64,
}

impl SubCosts {
    fn of(binder: &Binder<'_>, project: &[BoundExpr], aggregate: Option<&AggregatePlan>) -> SubCosts {
        let mut costs = SubCosts { once: 0.0, each: 0.0 };
        for expr in project.iter().chain(aggregate.and_then(|a| a.having.as_ref())) {
            let (once, each) = binder.subquery_costs(expr);
            costs.once += once;
            costs.each += each;
        }
        costs
    }
}
