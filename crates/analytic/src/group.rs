//! GROUP BY and aggregates: from the input's columns to one row a group.

use std::cell::RefCell;
use std::sync::Arc;

use base::{SqlError, SqlResult, SqlState};
use datafusion::common::Column;
use datafusion::functions_aggregate::grouping::grouping_udaf;
use datafusion::logical_expr::expr::GroupingSet;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder};
use sql::expr::{
    AggregateCall, AggregateKind, Aggregates, BoundExpr, ExprKind, SubqueryId, TableScope, bind_sql_text,
    fold_ident, resolve_unknown,
};
use sql::plan::{check_comparable, output_position};
use sqlparser::ast;
use types::{CastContext, PgType, TypeMod};

use crate::binder::Binder;
use crate::error::Planned;
use crate::in_order::unordered;
use crate::lazily::where_filtered;
use crate::prepare::Place;
use crate::relation::{Level, RelColumn, SYNTHETIC, Synthetic};
use crate::select::{Exprs, Items, Stage, item_at, items_named};
use crate::translate::{Translator, bare, key_of, not_grouping, stands_for};
use crate::value;

/// A GROUP BY clause: its distinct expressions, and the sets of them to group by.
#[derive(Clone, Debug, Default)]
pub(crate) struct Grouping {
    keys: Vec<BoundExpr>,
    /// Positions in `keys`, each once; one set for a plain GROUP BY.
    sets: Vec<Vec<usize>>,
    /// Whether there will be more than one set.
    are_several: bool,
}

/// Sets of one GROUP BY, as PostgreSQL has them at most.
const SETS_MAX: usize = 4_096;

/// Expressions that they are sets of: each has a bit of a group's number.
const SETS_KEYS_MAX: usize = 64;

/// Elements of a CUBE at most, which has a set for each choice of some.
const CUBE_MAX: usize = 12;
const _: () = assert!(1 << CUBE_MAX <= SETS_MAX);

/// How many sets an element of GROUP BY stands for.
fn sets_of(element: &ast::Expr) -> usize {
    match element {
        ast::Expr::GroupingSets(sets) => sets.len(),
        ast::Expr::Rollup(parts) => parts.len() + 1,
        ast::Expr::Cube(parts) => 1 << parts.len().min(CUBE_MAX),
        _ => 1,
    }
}

/// Adds positions to a set.
fn add(set: &mut Vec<usize>, more: &[usize]) {
    for key in more {
        if !set.contains(key) {
            set.push(*key);
        }
    }
}

fn require_few_sets(sets: usize) -> SqlResult<()> {
    if sets <= SETS_MAX {
        return Ok(());
    }
    let message = format!("too many grouping sets present (maximum {SETS_MAX})");
    Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, message))
}

impl Grouping {
    pub(crate) fn keys(&self) -> &[BoundExpr] {
        &self.keys
    }

    fn key(&mut self, expr: BoundExpr) -> usize {
        match self.keys.iter().position(|known| *known == expr) {
            Some(at) => at,
            None => {
                self.keys.push(expr);
                self.keys.len() - 1
            }
        }
    }

    /// # Errors
    /// 0A000 for more expressions than several sets may be of.
    fn require_few_keys(&self) -> SqlResult<()> {
        if !self.are_several || self.keys.len() <= SETS_KEYS_MAX {
            return Ok(());
        }
        Err(SqlError::unsupported(format!("grouping sets of more than {SETS_KEYS_MAX} expressions")))
    }

    /// Combines with another element of the clause: every set of the one with every set of the other.
    fn cross(&mut self, other: &[Vec<usize>]) {
        let mut sets = Vec::with_capacity(self.sets.len() * other.len());
        for a in &self.sets {
            for b in other {
                let mut set = a.clone();
                add(&mut set, b);
                sets.push(set);
            }
        }
        self.sets = sets;
    }
}

impl Binder<'_> {
    /// The GROUP BY clause; `None` if there is none.
    pub(crate) fn group_by(
        &self,
        clause: &ast::GroupByExpr,
        items: &Items,
        place: &Place<'_>,
    ) -> SqlResult<Option<Grouping>> {
        let exprs = match clause {
            ast::GroupByExpr::Expressions(exprs, modifiers) if modifiers.is_empty() => exprs,
            _ => return Err(SqlError::unsupported("this form of GROUP BY")),
        };
        if exprs.is_empty() {
            return Ok(None);
        }
        // Before any of them is made: each may be long.
        let mut sets = 1_usize;
        for expr in exprs {
            sets = sets.saturating_mul(sets_of(expr));
            require_few_sets(sets)?;
        }
        let mut grouping = Grouping { keys: Vec::new(), sets: vec![Vec::new()], are_several: sets > 1 };
        for expr in exprs {
            let sets = self.grouping_sets(expr, items, place, &mut grouping)?;
            grouping.cross(&sets);
        }
        if grouping.are_several {
            // Beside the rows of a batch stands the number of each set.
            self.shared.note_literal(grouping.sets.len() * size_of::<u64>());
        }
        Ok(Some(grouping))
    }

    fn grouping_sets(
        &self,
        expr: &ast::Expr,
        items: &Items,
        place: &Place<'_>,
        grouping: &mut Grouping,
    ) -> SqlResult<Vec<Vec<usize>>> {
        let set = |list: &[ast::Expr], grouping: &mut Grouping| -> SqlResult<Vec<usize>> {
            let mut set = Vec::new();
            for e in list {
                let key = grouping.key(self.group_key(e, items, place)?);
                grouping.require_few_keys()?;
                add(&mut set, &[key]);
            }
            Ok(set)
        };
        let lists = |lists: &[Vec<ast::Expr>], grouping: &mut Grouping| -> SqlResult<Vec<Vec<usize>>> {
            lists.iter().map(|list| set(list, grouping)).collect()
        };
        Ok(match expr {
            ast::Expr::GroupingSets(sets) => lists(sets, grouping)?,
            ast::Expr::Rollup(parts) => {
                let mut sets = vec![Vec::new()];
                let mut all = Vec::new();
                for part in lists(parts, grouping)? {
                    add(&mut all, &part);
                    sets.push(all.clone());
                }
                sets.reverse();
                sets
            }
            ast::Expr::Cube(parts) => {
                if parts.len() > CUBE_MAX {
                    let message = format!("CUBE is limited to {CUBE_MAX} elements");
                    return Err(SqlError::new(SqlState::TOO_MANY_COLUMNS, message));
                }
                let parts = lists(parts, grouping)?;
                let chosen = |mask: usize| {
                    let mut set = Vec::new();
                    let parts = parts.iter().enumerate().filter(|(i, _)| mask & (1 << i) != 0);
                    parts.for_each(|(_, part)| add(&mut set, part));
                    set
                };
                (0..1usize << parts.len()).rev().map(chosen).collect()
            }
            ast::Expr::Tuple(parts) => vec![set(parts, grouping)?],
            expr => vec![set(std::slice::from_ref(expr), grouping)?],
        })
    }

    /// One expression of GROUP BY: a position, an input column, an output column's name, or any expression.
    fn group_key(&self, expr: &ast::Expr, items: &Items, place: &Place<'_>) -> SqlResult<BoundExpr> {
        let key = self.any_group_key(expr, items, place)?;
        check_comparable(key.ty, "equality")?;
        Ok(key)
    }

    fn any_group_key(&self, expr: &ast::Expr, items: &Items, place: &Place<'_>) -> SqlResult<BoundExpr> {
        if let ast::Expr::Nested(inner) = expr {
            return self.any_group_key(inner, items, place);
        }
        let ctx = self.context(Aggregates::Forbidden("GROUP BY"));
        if let Some(at) = output_position(expr, items.len(), "GROUP BY")? {
            return no_aggregate(item_at(items, at));
        }
        if let ast::Expr::Identifier(ident) = expr {
            let name = fold_ident(ident);
            let input = place.level.columns.iter().any(|c| c.bare && c.name == name);
            if !input && let Some(item) = items_named(items, &name) {
                return no_aggregate(item);
            }
        }
        resolve_unknown(self.expr(expr, place, Aggregates::Forbidden("GROUP BY"))?, &ctx)
    }

    /// Groups: the stage after it has the keys and the aggregates as columns, and `exprs` name those.
    pub(crate) fn group<'p>(
        &self,
        stage: Stage<'p>,
        mut grouping: Grouping,
        exprs: &mut Exprs,
    ) -> SqlResult<Stage<'p>> {
        if grouping.sets.is_empty() {
            grouping.sets.push(Vec::new());
        }
        let level = Arc::clone(&stage.place.level);
        let mut calls: Vec<AggregateCall> = Vec::new();
        let windows = stage.place.windows.take();
        let series = stage.place.series.take();
        if grouping.sets.len() == 1 {
            self.add_dependent_keys(&level, &mut grouping);
        }
        let mut after = Regroup {
            binder: self,
            level: &level,
            keys: &grouping.keys,
            calls: &mut calls,
            synthetic: Vec::new(),
            ungrouped: Vec::new(),
        };
        exprs.for_each_mut(&mut |e| after.rewrite(e))?;
        let mut new_windows = windows;
        for call in &mut new_windows {
            let order = call.order.iter_mut().map(|key| &mut key.expr);
            for e in call.args.iter_mut().chain(&mut call.partition).chain(&mut call.filter).chain(order) {
                after.rewrite(e)?;
            }
        }
        let mut new_series = series;
        for (_, args) in &mut new_series {
            for e in args {
                after.rewrite(e)?;
            }
        }
        let mut synthetic = after.synthetic;
        exprs.show_constant_keys(&grouping.keys);
        let mut groupings = Vec::new();
        for one in &mut synthetic {
            if let Synthetic::Grouping(args) = &one.what {
                let key = |arg| grouping.keys.iter().position(|key| key == arg).ok_or_else(not_grouping);
                let name = self.fresh();
                groupings.push((name.clone(), args.iter().map(key).collect::<SqlResult<Vec<usize>>>()?));
                one.what = Synthetic::Computed(name);
            }
        }

        let (plan, mut columns) =
            self.within(&level, || self.aggregate_plan(stage.plan, &level, &grouping, &calls, &groupings))?;
        for column in &mut columns {
            column.bare = false;
        }
        let star = Vec::new();
        let new_level = Arc::new(Level { columns, star, synthetic: RefCell::new(synthetic) });
        let place = Place {
            level: new_level,
            outer: stage.place.outer,
            windows: RefCell::new(new_windows),
            named_windows: stage.place.named_windows,
            series: RefCell::new(new_series),
        };
        Ok(Stage { plan, place })
    }

    /// Where a table's primary key is grouped by, its other columns are as good as grouped: those of a table that stands in this FROM itself, since
    /// a subquery may have columns of several of its rows side by side.
    fn add_dependent_keys(&self, level: &Level, grouping: &mut Grouping) {
        let grouped: Vec<usize> =
            grouping.keys.iter().filter_map(BoundExpr::as_column).filter(|i| *i < SYNTHETIC).collect();
        let mut more = Vec::new();
        for (index, column) in level.columns.iter().enumerate() {
            if grouped.contains(&index) || column.origin.0 == 0 || column.column.relation.is_none() {
                continue;
            }
            let Some(table) = self.shared.catalog.table(base::Oid(column.origin.0)) else { continue };
            let Some(primary) = table.primary_index() else { continue };
            let same_table = |other: &RelColumn| {
                other.column.relation == column.column.relation && other.table == column.table
            };
            let covered = primary.column_positions().all(|position| {
                grouped.iter().any(|g| {
                    let key = &level.columns[*g];
                    same_table(key) && key.origin == (column.origin.0, position as i16 + 1)
                })
            });
            if covered {
                more.push(BoundExpr::column(index, column.ty, column.typmod));
            }
        }
        for expr in more {
            let key = grouping.key(expr);
            grouping.sets[0].push(key);
        }
    }

    fn aggregate_plan(
        &self,
        plan: datafusion::logical_expr::LogicalPlan,
        level: &Arc<Level>,
        grouping: &Grouping,
        calls: &[AggregateCall],
        groupings: &[(String, Vec<usize>)],
    ) -> SqlResult<(datafusion::logical_expr::LogicalPlan, Vec<RelColumn>)> {
        let mut translator = Translator::new(self, plan, Arc::clone(level));
        // Below: the input's columns and the computed keys. Above: keys and aggregates under their final names.
        let mut below: Vec<Expr> = level.columns.iter().map(RelColumn::expr).collect();
        let mut keys = Vec::new();
        let mut aggregates = Vec::new();
        let mut above = Vec::new();
        let mut columns = Vec::new();
        for key in &grouping.keys {
            let typed = translator.translate(key)?;
            let source = key.as_column().filter(|i| *i < SYNTHETIC).map(|i| level.columns[i].clone());
            let column = match &source {
                Some(source) => source.column.clone(),
                None => bare(self.fresh()),
            };
            if source.is_none() {
                below.push(typed.expr.clone().alias(&column.name));
            }
            if value::needs_key(typed.ty, key.typmod, &typed.arrow) {
                let (stripped, least) = (self.fresh(), self.fresh());
                below.push(key_of(typed.expr.clone(), typed.ty).alias(&stripped));
                keys.push(Expr::Column(bare(stripped.clone())));
                aggregates.push(
                    datafusion::functions_aggregate::expr_fn::min(Expr::Column(column.clone())).alias(&least),
                );
                let stripped = Expr::Column(bare(stripped));
                let value = stands_for(stripped.clone(), Expr::Column(bare(least)), typed.ty)?;
                let value = datafusion::logical_expr::when(stripped.is_not_null(), value).end().planned()?;
                above.push(named_as(value, &column));
            } else {
                keys.push(Expr::Column(column.clone()));
                above.push(Expr::Column(column.clone()));
            }
            let template = source.unwrap_or_else(|| computed(column.clone()));
            columns.push(RelColumn {
                column,
                arrow: typed.arrow,
                ty: key.ty,
                typmod: key.typmod,
                ..template
            });
        }
        for call in calls {
            let value = self.aggregate(&mut translator, call, &mut aggregates)?;
            let name = self.fresh();
            above.push(value.expr.alias(&name));
            columns.push(RelColumn { arrow: value.arrow, ty: call.ty, ..computed(bare(name)) });
        }
        for (name, of) in groupings {
            let args = of.iter().map(|key| keys[*key].clone()).collect();
            aggregates.push(grouping_udaf().call(args).alias(name));
            above.push(Expr::Column(bare(name.clone())));
        }
        let group = if grouping.sets.len() == 1 {
            keys
        } else {
            let sets =
                grouping.sets.iter().map(|set| set.iter().map(|k| keys[*k].clone()).collect()).collect();
            vec![Expr::GroupingSet(GroupingSet::GroupingSets(sets))]
        };
        let below_plan = std::mem::replace(&mut translator.plan, crate::binder::empty());
        // Subqueries evaluated on the way added columns that the aggregates' arguments may name.
        for (table, f) in below_plan.schema().iter() {
            let column = Expr::Column(Column::new(table.cloned(), f.name()));
            if !below.contains(&column) {
                below.push(column);
            }
        }
        let mut builder = LogicalPlanBuilder::from(below_plan);
        if !below.is_empty() {
            builder = builder.project(below).planned()?;
        }
        if grouping.sets.len() > 1 {
            builder = LogicalPlanBuilder::from(unordered(builder.build().planned()?));
        }
        if group.is_empty() && aggregates.is_empty() {
            // HAVING without aggregates: one group.
            aggregates.push(
                datafusion::functions_aggregate::expr_fn::count(datafusion::logical_expr::lit(1i64))
                    .alias(self.fresh()),
            );
        }
        builder = builder.aggregate(group, aggregates).planned()?;
        if !above.is_empty() {
            builder = builder.project(above).planned()?;
        }
        Ok((builder.build().planned()?, columns))
    }

    /// Adds what computes `call` to `aggregates`; answers its value above them.
    fn aggregate(
        &self,
        translator: &mut Translator<'_, '_>,
        call: &AggregateCall,
        aggregates: &mut Vec<Expr>,
    ) -> SqlResult<crate::translate::Typed> {
        if let Some(value) = self.exact_average(translator, call, aggregates)? {
            return Ok(value);
        }
        let (mut args, mut order) = (Vec::new(), Vec::new());
        for arg in &call.args {
            args.push(translator.translate(&where_filtered(arg, call.filter.as_ref()))?);
        }
        for key in &call.order_by {
            order.push(translator.translate(&where_filtered(&key.expr, call.filter.as_ref()))?);
        }
        let filter = match &call.filter {
            Some(filter) => Some(translator.translate(filter)?.expr),
            None => None,
        };
        let planned = crate::aggregate::plan(call, args, order, self.number(), &self.shared);
        let name = self.fresh();
        let arrow = planned.arrow.clone();
        aggregates.push(planned.expr(filter).alias(&name));
        Ok(crate::translate::Typed { expr: Expr::Column(bare(name)), ty: call.ty, arrow })
    }

    /// avg over exact numbers is their sum divided by their count, as numeric.
    fn exact_average(
        &self,
        translator: &mut Translator<'_, '_>,
        call: &AggregateCall,
        aggregates: &mut Vec<Expr>,
    ) -> SqlResult<Option<crate::translate::Typed>> {
        if call.kind != AggregateKind::Avg
            || call.ty != PgType::Numeric
            || call.distinct
            || !call.order_by.is_empty()
        {
            return Ok(None);
        }
        let arg = &call.args[0];
        let sum_type =
            if matches!(arg.ty, PgType::Int2 | PgType::Int4) { PgType::Int8 } else { PgType::Numeric };
        let part = |kind, ty| AggregateCall { kind, ty, ..call.clone() };
        let sum = self.aggregate(translator, &part(AggregateKind::Sum, sum_type), aggregates)?;
        let count = self.aggregate(translator, &part(AggregateKind::Count, PgType::Int8), aggregates)?;
        let params = sql::expr::ParamTypes::none();
        let ctx = sql::expr::BindContext::simple(&params, &self.shared.context.format, "aggregates");
        let scope = TableScope {
            table: "a",
            columns: vec![("s", PgType::Numeric, TypeMod::NONE), ("n", PgType::Numeric, TypeMod::NONE)],
        };
        let division = bind_sql_text("s / nullif(n, 0)", &scope, &ctx)?;
        let columns = vec![
            RelColumn { arrow: sum.arrow.clone(), ty: sum_type, ..computed(column_of(&sum.expr)) },
            RelColumn { arrow: count.arrow.clone(), ty: PgType::Int8, ..computed(column_of(&count.expr)) },
        ];
        let types = [sum_type, PgType::Int8];
        let level = Arc::new(Level { columns, star: vec![0, 1], synthetic: RefCell::default() });
        let mut above = Translator::new(self, crate::binder::empty(), level);
        let mut expr = division;
        expr.rewrite(&mut |node| {
            let index = node.as_column()?;
            let column = BoundExpr::column(index, types[index], TypeMod::NONE);
            if types[index] == PgType::Numeric {
                return Some(column);
            }
            let kind = ExprKind::Cast { expr: Box::new(column), how: CastContext::Implicit };
            Some(BoundExpr::new(PgType::Numeric, TypeMod::NONE, kind))
        });
        above.translate(&expr).map(Some)
    }
}

fn column_of(expr: &Expr) -> Column {
    match expr {
        Expr::Column(column) => column.clone(),
        other => unreachable!("{other} stands for an aggregate"),
    }
}

fn named_as(expr: Expr, column: &Column) -> Expr {
    expr.alias_qualified(column.relation.clone(), column.name.clone())
}

fn computed(column: Column) -> RelColumn {
    RelColumn {
        column,
        arrow: datafusion::arrow::datatypes::DataType::Null,
        ty: PgType::Unknown,
        typmod: TypeMod::NONE,
        name: String::new(),
        table: None,
        schema: None,
        bare: false,
        starred: false,
        origin: (0, 0),
    }
}

fn no_aggregate(expr: BoundExpr) -> SqlResult<BoundExpr> {
    if expr.contains_aggregate() {
        return Err(SqlError::new(
            SqlState::GROUPING_ERROR,
            "aggregate functions are not allowed in GROUP BY",
        ));
    }
    Ok(expr)
}

/// Rewrites expressions over the input into ones over the groups.
struct Regroup<'x> {
    binder: &'x Binder<'x>,
    level: &'x Level,
    keys: &'x [BoundExpr],
    calls: &'x mut Vec<AggregateCall>,
    /// The synthetics of the new level: the old ones' numbers stay theirs.
    synthetic: Vec<crate::relation::SyntheticColumn>,
    /// Those of them that only arguments of aggregates may name, and why.
    ungrouped: Vec<(usize, SqlError)>,
}

impl Regroup<'_> {
    fn rewrite(&mut self, expr: &mut BoundExpr) -> SqlResult<()> {
        if self.synthetic.is_empty() {
            self.synthetic = self.level.synthetic.borrow().clone();
            for number in 0..self.synthetic.len() {
                if let Synthetic::Catalog { function, args } = self.synthetic[number].what.clone() {
                    let mut args = args;
                    let mut outside = Ok(());
                    for arg in &mut args {
                        // A call inside an aggregate's argument is over the input and stays so.
                        outside = outside.and(self.replace(arg));
                    }
                    match outside {
                        Ok(()) => self.synthetic[number].what = Synthetic::Catalog { function, args },
                        Err(error) => self.ungrouped.push((number, error)),
                    }
                }
            }
        }
        self.replace(expr)
    }

    /// Constants stay what they are, also those that are grouped by ([`Exprs::show_constant_keys`]).
    fn replace(&mut self, expr: &mut BoundExpr) -> SqlResult<()> {
        // A column that is read as a type of the same form, `name` or varchar as text, is the key all the same.
        let is_same =
            |key: &BoundExpr| key == expr || matches!(key.kind, ExprKind::Column(_)) && key.kind == expr.kind;
        let is_key = |key: &BoundExpr| is_same(key) && key.as_const().is_none();
        if let Some(at) = self.keys.iter().position(is_key) {
            *expr = BoundExpr::column(at, expr.ty, expr.typmod);
            return Ok(());
        }
        match &expr.kind {
            ExprKind::Aggregate(call) => {
                let at = match self.calls.iter().position(|known| *known == **call) {
                    Some(at) => at,
                    None => {
                        self.calls.push((**call).clone());
                        self.calls.len() - 1
                    }
                };
                *expr = BoundExpr::column(self.keys.len() + at, expr.ty, expr.typmod);
                Ok(())
            }
            ExprKind::Column(index) if *index >= SYNTHETIC => {
                let ungrouped = self.ungrouped.iter().find(|(number, _)| SYNTHETIC + number == *index);
                ungrouped.map_or(Ok(()), |(_, error)| Err(error.clone()))
            }
            ExprKind::Column(index) => {
                let name = shown(&self.level.columns[*index]);
                Err(SqlError::new(
                    SqlState::GROUPING_ERROR,
                    format!(
                        "column \"{name}\" must appear in the GROUP BY clause or be used in an aggregate function"
                    ),
                ))
            }
            kind => {
                let mut result = match kind {
                    ExprKind::Subquery(subquery) => self.require_grouped(subquery.id),
                    _ => Ok(()),
                };
                expr.for_each_child_mut(&mut |child| {
                    if result.is_ok() {
                        result = self.replace(child);
                    }
                });
                result
            }
        }
    }

    /// # Errors
    /// 42803 where a subquery looks at a column that is not grouped by.
    fn require_grouped(&self, subquery: SubqueryId) -> SqlResult<()> {
        let keys = self.keys.iter().filter_map(BoundExpr::as_column).filter(|at| *at < SYNTHETIC);
        let grouped: Vec<&Column> = keys.map(|at| &self.level.columns[at].column).collect();
        match self.binder.columns_used_by(subquery).iter().find(|used| !grouped.contains(&&used.column)) {
            None => Ok(()),
            Some(column) => {
                let name = shown(column);
                let message = format!("subquery uses ungrouped column \"{name}\" from outer query");
                Err(SqlError::new(SqlState::GROUPING_ERROR, message))
            }
        }
    }
}

fn shown(column: &RelColumn) -> String {
    match &column.table {
        Some(table) => format!("{table}.{}", column.name),
        None => column.name.clone(),
    }
}
