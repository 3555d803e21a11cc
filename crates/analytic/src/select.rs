//! One SELECT: its list, WHERE, GROUP BY, HAVING, windows, DISTINCT and ORDER BY.

use std::sync::Arc;

use base::{SqlError, SqlResult, SqlState};
use datafusion::common::DFSchema;
use datafusion::logical_expr::expr::Sort;
use datafusion::logical_expr::expr_rewriter::normalize_sorts;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use sql::expr::{Aggregates, BoundExpr, ExprKind, Scope, Volatility, fold_ident, output_name};
use sql::plan::{check_comparable, output_position};
use sqlparser::ast;
use types::{PgType, TypeMod};

use crate::binder::Binder;
use crate::error::Planned;
use crate::expand::{Expand, SeriesCall};
use crate::first_rows::{FIRST_MAX, looks_up};
use crate::group::Grouping;
use crate::in_order::sorted;
use crate::prepare::Place;
use crate::query::{in_parentheses, sort};
use crate::relation::{Level, RelColumn, Relation, SYNTHETIC};
use crate::translate::{Translator, Typed, bare, field, key};
use crate::value;

/// An output column.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    name: String,
    expr: BoundExpr,
    origin: (u32, i16),
    /// As written, so that ORDER BY may repeat it.
    source: Option<ast::Expr>,
}

/// A key of ORDER BY: an output column, or an expression computed for it.
enum SortBy {
    Output(usize),
    Expr(BoundExpr),
}

impl SortBy {
    fn ty(&self, items: &[Item]) -> PgType {
        match self {
            SortBy::Output(at) => items[*at].expr.ty,
            SortBy::Expr(expr) => expr.ty,
        }
    }
}

/// A SELECT on its way from the input's columns to the output's.
pub(crate) struct Stage<'p> {
    pub(crate) plan: LogicalPlan,
    pub(crate) place: Place<'p>,
}

impl Binder<'_> {
    /// Binds a SELECT with the ORDER BY of its query. Answers also whether it yields one row whatever it reads.
    pub(crate) fn select(
        &self,
        select: &ast::Select,
        order: &[ast::OrderByExpr],
        outer: Option<&dyn Scope>,
    ) -> SqlResult<(Relation, bool)> {
        self.first_of_select(select, order, None, outer)
    }

    /// As [`Binder::select`], where nobody wants more than the `first` rows.
    pub(crate) fn first_of_select(
        &self,
        select: &ast::Select,
        order: &[ast::OrderByExpr],
        first: Option<usize>,
        outer: Option<&dyn Scope>,
    ) -> SqlResult<(Relation, bool)> {
        refuse_foreign_clauses(select)?;
        let mut input = self.from_clause(&select.from, outer)?;
        if let Some(condition) = &select.selection {
            input = self.filter(input, condition, outer, "WHERE")?;
        }
        let mut place = Place::new(Level::of(&input), outer);
        crate::window::check_names(&select.named_window)?;
        place.named_windows = &select.named_window;

        let mut items = Vec::new();
        for item in &select.projection {
            self.select_item(item, &place, &mut items)?;
        }
        let mut sorts = Vec::new();
        for key in order {
            let by = self.order_key(key, &items, &place)?;
            check_comparable(by.ty(&items), "ordering")?;
            sorts.push((by, key.options));
        }
        let having = select
            .having
            .as_ref()
            .map(|e| self.condition(e, &place, Aggregates::Allowed, "HAVING"))
            .transpose()?;
        let distinct_on = match &select.distinct {
            Some(ast::Distinct::On(exprs)) => exprs
                .iter()
                .map(|e| {
                    let by = self.order_key(
                        &ast::OrderByExpr {
                            expr: e.clone(),
                            options: ast::OrderByOptions { asc: None, nulls_first: None },
                            with_fill: None,
                        },
                        &items,
                        &place,
                    )?;
                    check_comparable(by.ty(&items), "equality")?;
                    Ok(by)
                })
                .collect::<SqlResult<Vec<_>>>()?,
            _ => Vec::new(),
        };
        let group = self.group_by(&select.group_by, &items, &place)?;

        let mut stage = Stage { plan: input.plan, place };
        if let Some(grouping) = &group {
            self.expand_keys(&mut stage, grouping)?;
        }
        let mut exprs = Exprs { items, sorts, having, distinct_on };
        let grouped = group.is_some()
            || exprs.having.is_some()
            || exprs.any(&mut BoundExpr::contains_aggregate)
            || stage.windows_aggregate()
            || stage.series_aggregate();
        let single_row = grouped
            && group.is_none()
            && exprs.having.is_none()
            && stage.place.series.borrow().is_empty()
            && exprs.is_null_of_nothing(self);
        if grouped {
            stage = self.group(stage, group.unwrap_or_default(), &mut exprs)?;
            if let Some(having) = exprs.having.take() {
                stage.plan = self.filter_bound(stage.plan, &stage.place.level, having)?;
            }
        }
        let distinct = match &select.distinct {
            Some(ast::Distinct::Distinct) => true,
            Some(ast::Distinct::On(_) | ast::Distinct::All) | None => false,
        };
        let relation = self.project(stage, exprs, distinct, first)?;
        Ok((relation, single_row))
    }

    fn select_item(&self, item: &ast::SelectItem, place: &Place<'_>, items: &mut Vec<Item>) -> SqlResult<()> {
        match item {
            ast::SelectItem::UnnamedExpr(expr) => {
                let bound = self.expr(expr, place, Aggregates::Allowed)?;
                items.push(Item {
                    name: item_name(expr),
                    origin: origin(&bound, place),
                    expr: bound,
                    source: Some(expr.clone()),
                });
            }
            ast::SelectItem::ExprWithAlias { expr, alias } => {
                let bound = self.expr(expr, place, Aggregates::Allowed)?;
                items.push(Item {
                    name: fold_ident(alias),
                    origin: origin(&bound, place),
                    expr: bound,
                    source: Some(expr.clone()),
                });
            }
            ast::SelectItem::Wildcard(options) => {
                refuse_wildcard_options(options)?;
                if place.level.columns.is_empty() {
                    return Err(SqlError::new(
                        SqlState::SYNTAX_ERROR,
                        "SELECT * with no tables specified is not valid",
                    ));
                }
                items.extend(place.level.star.iter().map(|i| column_item(&place.level, *i)));
            }
            ast::SelectItem::QualifiedWildcard(
                ast::SelectItemQualifiedWildcardKind::ObjectName(name),
                options,
            ) => {
                refuse_wildcard_options(options)?;
                let parts: Vec<String> =
                    name.0.iter().filter_map(|part| part.as_ident()).map(fold_ident).collect();
                let is_of = |column: &RelColumn| match &parts[..] {
                    [] => false,
                    [table] => column.table.as_ref() == Some(table),
                    [.., schema, table] => {
                        column.table.as_ref() == Some(table) && column.schema.as_ref() == Some(schema)
                    }
                };
                if !place.level.columns.iter().any(is_of) {
                    return Err(sql::expr::missing_from_entry(parts.last().map_or("", String::as_str)));
                }
                for (i, column) in place.level.columns.iter().enumerate() {
                    if is_of(column) && column.starred {
                        items.push(column_item(&place.level, i));
                    }
                }
            }
            other => return Err(SqlError::unsupported(format!("the select item {other}"))),
        }
        Ok(())
    }

    /// A key of ORDER BY or DISTINCT ON: a position, an output column's name, or an expression over the input.
    fn order_key(&self, key: &ast::OrderByExpr, items: &[Item], place: &Place<'_>) -> SqlResult<SortBy> {
        if key.with_fill.is_some() {
            return Err(SqlError::unsupported("WITH FILL"));
        }
        let expr = in_parentheses(&key.expr);
        if let Some(at) = output_position(expr, items.len(), "ORDER BY")? {
            return Ok(SortBy::Output(at));
        }
        if let ast::Expr::Identifier(ident) = expr {
            let name = fold_ident(ident);
            let mut found = items.iter().enumerate().filter(|(_, item)| item.name == name);
            if let Some((at, first)) = found.next() {
                if found.any(|(_, other)| other.expr != first.expr) {
                    return Err(SqlError::new(
                        SqlState::AMBIGUOUS_COLUMN,
                        format!("ORDER BY \"{name}\" is ambiguous"),
                    ));
                }
                return Ok(SortBy::Output(at));
            }
        }
        if let Some(at) = items.iter().position(|item| item.source.as_ref() == Some(&key.expr)) {
            return Ok(SortBy::Output(at));
        }
        let bound = self.expr(&key.expr, place, Aggregates::Allowed)?;
        Ok(match items.iter().position(|item| item.expr == bound) {
            Some(at) => SortBy::Output(at),
            None => SortBy::Expr(bound),
        })
    }

    /// The output: list, DISTINCT, ORDER BY.
    fn project(
        &self,
        stage: Stage<'_>,
        exprs: Exprs,
        distinct: bool,
        first: Option<usize>,
    ) -> SqlResult<Relation> {
        let Stage { plan, place } = stage;
        let Exprs { items, sorts, distinct_on, .. } = exprs;
        let ctx = self.context(Aggregates::Allowed);
        let mut translator = Translator::new(self, plan, Arc::clone(&place.level));
        self.within(&place.level, || {
            self.compute_synthetics(&mut translator, &place)?;
            let is_whole = distinct || !distinct_on.is_empty() || !place.series.borrow().is_empty();
            if let Some(first) = first.filter(|first| *first <= FIRST_MAX && !is_whole) {
                self.keep_first(&mut translator, &items, &sorts, first)?;
            }
            let mut columns = Vec::new();
            let mut outputs = Vec::new();
            for item in &items {
                let typed = translator.translate(&item.expr)?;
                let name = self.fresh();
                outputs.push(typed.expr.clone().alias(&name));
                self.shared.note_column(&name, item.expr.ty, item.expr.typmod);
                columns.push(RelColumn {
                    column: bare(name),
                    arrow: typed.arrow,
                    ty: item.expr.ty,
                    typmod: item.expr.typmod,
                    name: item.name.clone(),
                    table: None,
                    schema: None,
                    bare: true,
                    starred: true,
                    origin: item.origin,
                });
            }
            let visible = columns.len();
            let mut known: Vec<(BoundExpr, RelColumn)> = Vec::new();
            let mut extra = |by: &SortBy, translator: &mut Translator<'_, '_>| -> SqlResult<RelColumn> {
                match by {
                    SortBy::Output(at) => Ok(columns[*at].clone()),
                    SortBy::Expr(expr) => {
                        let expr = sql::expr::resolve_unknown(expr.clone(), &ctx)?;
                        if let Some((_, column)) = known.iter().find(|(known, _)| *known == expr) {
                            return Ok(column.clone());
                        }
                        let typed = translator.translate(&expr)?;
                        let name = self.fresh();
                        outputs.push(typed.expr.alias(&name));
                        let template = RelColumn {
                            column: bare(name),
                            arrow: typed.arrow,
                            ty: expr.ty,
                            typmod: expr.typmod,
                            name: String::new(),
                            table: None,
                            schema: None,
                            bare: false,
                            starred: false,
                            origin: (0, 0),
                        };
                        known.push((expr, template.clone()));
                        Ok(template)
                    }
                }
            };
            let mut keys = Vec::new();
            for (by, options) in &sorts {
                if distinct && matches!(by, SortBy::Expr(_)) {
                    return Err(SqlError::new(
                        SqlState::INVALID_COLUMN_REFERENCE,
                        "for SELECT DISTINCT, ORDER BY expressions must appear in select list",
                    ));
                }
                keys.push((extra(by, &mut translator)?, *options));
            }
            let mut ons = Vec::new();
            for by in &distinct_on {
                ons.push(extra(by, &mut translator)?);
            }
            let below = std::mem::replace(&mut translator.plan, crate::binder::empty());
            let more = outputs.len() > visible;
            let plan = LogicalPlanBuilder::from(below)
                .project(outputs)
                .and_then(LogicalPlanBuilder::build)
                .planned()?;
            let star: Vec<usize> = (0..visible).collect();
            let mut relation = Relation { plan, columns, star };
            let sort_exprs = |relation: &Relation| -> Vec<Sort> {
                keys.iter()
                    .map(|(column, options)| {
                        // DISTINCT may have renamed the output columns.
                        let at = relation.columns.iter().position(|c| c.column == column.column);
                        sort(at.map_or_else(|| column.key(), |i| relation.columns[i].key()), options)
                    })
                    .collect()
            };
            if distinct {
                let before: Vec<_> = relation.columns.iter().map(|c| c.column.clone()).collect();
                relation = self.distinct_rows(relation)?;
                let renamed = |c: &RelColumn| {
                    before
                        .iter()
                        .position(|b| *b == c.column)
                        .map_or_else(|| c.key(), |i| relation.columns[i].key())
                };
                let sorts: Vec<Sort> = keys.iter().map(|(c, options)| sort(renamed(c), options)).collect();
                if !sorts.is_empty() {
                    relation.plan = sorted(relation.plan, sorts)?;
                }
                return Ok(relation);
            }
            if !ons.is_empty() {
                check_distinct_on(&ons, &keys)?;
                relation.plan = self.first_of_each(
                    relation.plan,
                    &ons,
                    sort_exprs(&Relation {
                        plan: crate::binder::empty(),
                        columns: relation.columns.clone(),
                        star: Vec::new(),
                    }),
                )?;
            }
            let sorts = sort_exprs(&relation);
            if !sorts.is_empty() {
                relation.plan = sorted(relation.plan, sorts)?;
            }
            if more || !ons.is_empty() {
                let exprs: Vec<Expr> = relation.columns.iter().map(RelColumn::expr).collect();
                relation.plan = LogicalPlanBuilder::from(relation.plan)
                    .project(exprs)
                    .and_then(LogicalPlanBuilder::build)
                    .planned()?;
            }
            Ok(relation)
        })
    }

    /// Leaves the rows that ORDER BY and LIMIT will leave, where subqueries of the list would be looked up for all, or lateral ones were.
    fn keep_first(
        &self,
        translator: &mut Translator<'_, '_>,
        items: &[Item],
        sorts: &[(SortBy, ast::OrderByOptions)],
        first: usize,
    ) -> SqlResult<()> {
        let ctx = self.context(Aggregates::Allowed);
        let mut keys = Vec::with_capacity(sorts.len());
        for (by, options) in sorts {
            let expr = match by {
                SortBy::Output(at) => &items[*at].expr,
                SortBy::Expr(expr) => expr,
            };
            keys.push((sql::expr::resolve_unknown(expr.clone(), &ctx)?, options));
        }
        let has_subquery = items.iter().any(|item| item.expr.contains_subquery());
        let is_known_later =
            |by: &BoundExpr| by.contains_subquery() || by.volatility() == Volatility::Volatile;
        if !has_subquery && !looks_up(&translator.plan) || keys.iter().any(|(by, _)| is_known_later(by)) {
            return Ok(());
        }
        let mut by = Vec::with_capacity(keys.len());
        for (expr, options) in &keys {
            let typed = translator.translate(expr)?;
            by.push(sort(key(&typed, expr.typmod), options));
        }
        // Constants order nothing.
        by.retain(|by| !matches!(by.expr, Expr::Literal(..)));
        let mut rows = std::mem::replace(&mut translator.plan, crate::binder::empty());
        if !by.is_empty() {
            // Not by the builder, which takes a key for a column of that name where a condition of the plan is the same expression.
            let expr = normalize_sorts(by, &rows).planned()?;
            let input = Arc::new(rows);
            rows = LogicalPlan::Sort(datafusion::logical_expr::Sort { expr, input, fetch: None });
        }
        let first = LogicalPlanBuilder::from(rows).limit(0, Some(first));
        translator.plan = first.and_then(LogicalPlanBuilder::build).planned()?;
        Ok(())
    }

    /// DISTINCT ON: of each group of rows with equal keys the first in `order`.
    fn first_of_each(&self, plan: LogicalPlan, on: &[RelColumn], order: Vec<Sort>) -> SqlResult<LogicalPlan> {
        let keys = on.iter().map(RelColumn::key).collect();
        // The plan names the column by the expression, and takes no alias.
        let number = crate::window::row_number(keys, order);
        let name = number.schema_name().to_string();
        let plan = LogicalPlanBuilder::window_plan(plan, vec![number]).planned()?;
        let one = Expr::Literal(datafusion::common::ScalarValue::UInt64(Some(1)), None);
        LogicalPlanBuilder::from(plan)
            .filter(Expr::Column(bare(name)).eq(one))
            .and_then(LogicalPlanBuilder::build)
            .planned()
    }

    /// Adds window functions, then set-returning functions, to the plan.
    fn compute_synthetics(&self, translator: &mut Translator<'_, '_>, place: &Place<'_>) -> SqlResult<()> {
        use crate::relation::Synthetic;
        let windows = place.windows.borrow();
        if !windows.is_empty() {
            let values = self.windows(translator, &windows)?;
            for (number, synthetic) in place.level.synthetic.borrow().iter().enumerate() {
                if let Synthetic::Window(at) = synthetic.what {
                    translator.computed.push((number, values[at].clone()));
                }
            }
        }
        let series = place.series.borrow();
        let results = self.expand(translator, &series)?;
        for (number, synthetic) in place.level.synthetic.borrow().iter().enumerate() {
            if let Synthetic::Series(at) = synthetic.what {
                translator.computed.push((number, results[at].1.clone()));
            }
        }
        Ok(())
    }

    /// Set-returning functions that are grouped by make the rows that are grouped; all others repeat those of the groups.
    fn expand_keys(&self, stage: &mut Stage<'_>, grouping: &Grouping) -> SqlResult<()> {
        use crate::relation::Synthetic;
        let level = Arc::clone(&stage.place.level);
        let mut wanted = Vec::new();
        for key in grouping.keys() {
            key.walk(&mut |node| {
                if let Some(index) = node.as_column().filter(|index| *index >= SYNTHETIC)
                    && let Synthetic::Series(at) = level.synthetic(index).what
                    && !wanted.contains(&at)
                {
                    wanted.push(at);
                }
                true
            });
        }
        if wanted.is_empty() {
            return Ok(());
        }
        let (mut calls, mut others) = (Vec::new(), Vec::new());
        let mut places = Vec::new();
        for (at, call) in stage.place.series.take().into_iter().enumerate() {
            let list = if wanted.contains(&at) { &mut calls } else { &mut others };
            places.push(list.len());
            list.push(call);
        }
        if calls.iter().any(|(_, args)| args.iter().any(BoundExpr::contains_aggregate)) {
            let message = "aggregate functions are not allowed in GROUP BY";
            return Err(SqlError::new(SqlState::GROUPING_ERROR, message));
        }
        let below = std::mem::replace(&mut stage.plan, crate::binder::empty());
        let mut translator = Translator::new(self, below, Arc::clone(&level));
        let results = self.within(&level, || self.expand(&mut translator, &calls))?;
        stage.plan = translator.plan;
        stage.place.series.replace(others);
        for one in level.synthetic.borrow_mut().iter_mut() {
            if let Synthetic::Series(at) = one.what {
                one.what = match wanted.contains(&at) {
                    true => Synthetic::Computed(results[places[at]].0.clone()),
                    false => Synthetic::Series(places[at]),
                };
            }
        }
        Ok(())
    }

    /// Repeats the rows of `translator`'s plan for what the functions yield; answers the columns of that.
    fn expand(
        &self,
        translator: &mut Translator<'_, '_>,
        series: &[(SeriesCall, Vec<BoundExpr>)],
    ) -> SqlResult<Vec<(String, Typed)>> {
        let mut exprs = Vec::new();
        let mut calls = Vec::new();
        let mut results: Vec<(String, Typed)> = Vec::new();
        if series.is_empty() {
            return Ok(results);
        }
        for (call, args) in series {
            for arg in args {
                exprs.push(translator.translate(arg)?.expr);
            }
            let name = self.fresh();
            let ty = call.series.element();
            let arrow = value::arrow_type(ty, TypeMod::NONE);
            results.push((name.clone(), Typed { expr: Expr::Column(bare(name)), ty, arrow }));
            calls.push(call.clone());
        }
        let input = std::mem::replace(&mut translator.plan, crate::binder::empty());
        let mut fields: Vec<_> =
            input.schema().iter().map(|(table, f)| (table.cloned(), Arc::clone(f))).collect();
        fields.extend(results.iter().map(|(name, typed)| (None, Arc::new(field(name, &typed.arrow)))));
        let schema = DFSchema::new_with_metadata(fields, Default::default()).planned()?;
        let node = Expand {
            input,
            calls,
            exprs,
            ordinality: false,
            schema: Arc::new(schema),
            number: self.number(),
            shared: Arc::clone(&self.shared),
        };
        translator.plan = node.into();
        Ok(results)
    }
}

/// The expressions of a SELECT above its input.
pub(crate) struct Exprs {
    items: Vec<Item>,
    sorts: Vec<(SortBy, ast::OrderByOptions)>,
    having: Option<BoundExpr>,
    distinct_on: Vec<SortBy>,
}

impl Exprs {
    pub(crate) fn for_each_mut(
        &mut self,
        f: &mut dyn FnMut(&mut BoundExpr) -> SqlResult<()>,
    ) -> SqlResult<()> {
        for item in &mut self.items {
            f(&mut item.expr)?;
        }
        for by in self.sorts.iter_mut().map(|(by, _)| by).chain(&mut self.distinct_on) {
            if let SortBy::Expr(expr) = by {
                f(expr)?;
            }
        }
        self.having.iter_mut().try_for_each(f)
    }

    /// Has the first output column that is a constant which is grouped by show the group's: NULL where a set does not have it. No other equal constant is
    /// meant by GROUP BY, and none within an expression.
    pub(crate) fn show_constant_keys(&mut self, keys: &[BoundExpr]) {
        for (at, key) in keys.iter().enumerate().filter(|(_, key)| key.as_const().is_some()) {
            if let Some(item) = self.items.iter_mut().find(|item| item.expr == *key) {
                item.expr = BoundExpr::column(at, key.ty, key.typmod);
            }
        }
    }

    pub(crate) fn any(&self, f: &mut dyn FnMut(&BoundExpr) -> bool) -> bool {
        let by = |by: &SortBy, f: &mut dyn FnMut(&BoundExpr) -> bool| matches!(by, SortBy::Expr(e) if f(e));
        self.items.iter().any(|item| f(&item.expr))
            || self.sorts.iter().any(|(s, _)| by(s, f))
            || self.distinct_on.iter().any(|s| by(s, f))
            || self.having.as_ref().is_some_and(f)
    }

    /// Whether the only output column is NULL for an aggregation of no rows, as where a join finds no partner.
    fn is_null_of_nothing(&self, binder: &Binder<'_>) -> bool {
        let [item] = &self.items[..] else { return false };
        if item.expr.contains_subquery() {
            return false;
        }
        let mut value = item.expr.clone();
        value.rewrite(&mut |node| match &node.kind {
            ExprKind::Aggregate(call) => {
                Some(BoundExpr::constant(call.start().finish().unwrap_or_default(), node.ty))
            }
            _ => None,
        });
        let is_known = |index: &usize| *index < binder.shared.params.len();
        let unknown = |node: &BoundExpr| matches!(&node.kind, ExprKind::Param(index) if !is_known(index));
        if !value.is_row_independent() || value.any(&mut |node| unknown(node)) {
            return false;
        }
        let statement = binder.shared.statement();
        let value = sql::expr::eval(&value, &sql::expr::EvalCtx::new(&statement, &[]));
        value.is_ok_and(|value| value.is_null())
    }
}

impl Stage<'_> {
    fn series_aggregate(&self) -> bool {
        let series = self.place.series.borrow();
        series.iter().any(|(_, args)| args.iter().any(BoundExpr::contains_aggregate))
    }

    fn windows_aggregate(&self) -> bool {
        self.place.windows.borrow().iter().any(|call| {
            let order = call.order.iter().map(|key| &key.expr);
            let all = call.args.iter().chain(&call.partition).chain(&call.filter).chain(order);
            all.into_iter().any(BoundExpr::contains_aggregate)
        })
    }
}

/// The expressions of DISTINCT ON must be the first of ORDER BY.
fn check_distinct_on(on: &[RelColumn], keys: &[(RelColumn, ast::OrderByOptions)]) -> SqlResult<()> {
    // What is written twice counts once.
    let (mut wanted, mut leading): (Vec<&RelColumn>, Vec<&RelColumn>) = Default::default();
    let is_new = |known: &[&RelColumn], column: &RelColumn| known.iter().all(|k| k.column != column.column);
    for column in on {
        if is_new(&wanted, column) {
            wanted.push(column);
        }
    }
    for (column, _) in keys {
        if is_new(&leading, column) {
            leading.push(column);
        }
    }
    leading.truncate(wanted.len());
    if !leading.iter().any(|key| is_new(&wanted, key)) {
        return Ok(());
    }
    Err(SqlError::new(
        SqlState::INVALID_COLUMN_REFERENCE,
        "SELECT DISTINCT ON expressions must match initial ORDER BY expressions",
    ))
}

fn column_item(level: &Level, index: usize) -> Item {
    let column = &level.columns[index];
    Item {
        name: column.name.clone(),
        expr: BoundExpr::column(index, column.ty, column.typmod),
        origin: column.origin,
        source: None,
    }
}

fn origin(expr: &BoundExpr, place: &Place<'_>) -> (u32, i16) {
    match expr.as_column() {
        Some(index) if index < SYNTHETIC => place.level.columns[index].origin,
        _ => (0, 0),
    }
}

/// PostgreSQL's name for an output column without AS.
fn item_name(expr: &ast::Expr) -> String {
    match expr {
        ast::Expr::Nested(inner) | ast::Expr::Collate { expr: inner, .. } => item_name(inner),
        _ => output_name(expr),
    }
}

fn refuse_wildcard_options(options: &ast::WildcardAdditionalOptions) -> SqlResult<()> {
    if options.opt_ilike.is_some()
        || options.opt_exclude.is_some()
        || options.opt_except.is_some()
        || options.opt_replace.is_some()
        || options.opt_rename.is_some()
    {
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, "* takes no options"));
    }
    Ok(())
}

/// Clauses of other dialects that the parser reads.
fn refuse_foreign_clauses(select: &ast::Select) -> SqlResult<()> {
    let foreign = select.top.is_some()
        || select.exclude.is_some()
        || !select.lateral_views.is_empty()
        || select.prewhere.is_some()
        || !select.connect_by.is_empty()
        || !select.cluster_by.is_empty()
        || !select.distribute_by.is_empty()
        || !select.sort_by.is_empty()
        || select.qualify.is_some()
        || select.value_table_mode.is_some()
        || select.select_modifiers.is_some();
    if foreign {
        return Err(SqlError::new(
            SqlState::SYNTAX_ERROR,
            "a clause of SELECT that PostgreSQL does not have",
        ));
    }
    if select.into.is_some() {
        return Err(SqlError::unsupported("SELECT INTO in an analytical query"));
    }
    Ok(())
}

impl Item {
    pub(crate) fn as_key(&self) -> BoundExpr {
        self.expr.clone()
    }
}

/// What GROUP BY needs of an output column: its name and expression.
pub(crate) fn items_named(items: &[Item], name: &str) -> Option<BoundExpr> {
    items.iter().find(|item| item.name == name).map(Item::as_key)
}

/// What GROUP BY needs of an output column: its expression by position.
pub(crate) fn item_at(items: &[Item], at: usize) -> BoundExpr {
    items[at].as_key()
}

pub(crate) type Items = [Item];
