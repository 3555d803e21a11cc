//! INSERT.

use std::sync::Arc;

use base::{SqlError, SqlResult, SqlState};
use sqlparser::ast;
use tenant::catalog::{Column, Index, KeyFunction, Privileges, RowTest, Table};
use types::{PgType, TypeMod};

use super::IdentityValues;
use super::binder::Binder;
use super::cost::POINT_ROWS_MAX;
use super::from_clause::table_columns;
use super::level::{Level, LevelScope, Namespace, RelationSource};
use super::parts::Changed;
use super::point_plan::{
    Arbiter, ConflictAction, ExternalSource, InsertPlan, InsertSource, PointStatement, ReturningPlan,
    TargetColumn,
};
use super::refuse::refuse;
use super::target::{given, is_untyped, refuse_generated, refuse_identity};
use super::update::{finish, finish_external};
use super::{BoundPlan, Command, PlanContext, PlanKind};
use crate::expr::{
    Aggregates, BoundExpr, EmptyScope, bind_condition, coerce_assignment, fold_ident, follows, row_test,
};
use crate::parse::{Overriding, TargetCondition, overriding, target_condition, target_function};

pub(super) fn bind_insert(insert: &ast::Insert, ctx: &PlanContext<'_>) -> SqlResult<BoundPlan> {
    let binder = Binder::new(*ctx);
    match bind_with(&binder, insert, false) {
        Err(error) => match (binder.reason_for(&error), &insert.source) {
            // The reason may lie in the source: then it is computed elsewhere, and what else is wrong shows again.
            (Some(reason), Some(source)) if !matches!(*source.body, ast::SetExpr::Values(_)) => {
                let probe = Binder::new(*ctx);
                if probe.bind_query(source, None).is_ok() && reason != TOO_MUCH {
                    return Err(error);
                }
                let again = Binder::new(*ctx);
                let mut plan = bind_with(&again, insert, true)?;
                if let PlanKind::Point(point) = &mut plan.kind {
                    point.external = Some(Box::new(ExternalSource { query: source.clone(), reason }));
                }
                // What types its parameters have, its common tables may tell by themselves.
                for cte in source.with.iter().flat_map(|with| &with.cte_tables) {
                    let _ = Binder::new(*ctx).bind_query(&cte.query, None);
                }
                let source = super::analytic::plan(source, String::new(), ctx)?;
                super::analytic::merge_accesses(&mut plan.accesses, source.accesses);
                plan.parameters = ctx.params.finish()?;
                Ok(plan)
            }
            _ => Err(error),
        },
        bound => bound,
    }
}

const TOO_MUCH: &str = "it would look at too many rows";

fn bind_with(binder: &Binder<'_>, insert: &ast::Insert, external: bool) -> SqlResult<BoundPlan> {
    let Changed { statement, output, cost } = bind_change(binder, insert, external)?;
    match external {
        true => Ok(finish_external(binder, Command::Insert, statement, output)),
        false => finish(binder, Command::Insert, statement, output, cost),
    }
}

/// The change itself; `external`: its source is computed elsewhere.
pub(super) fn bind_change(binder: &Binder<'_>, insert: &ast::Insert, external: bool) -> SqlResult<Changed> {
    let ast::Insert {
        insert_token: _,
        optimizer_hints: _,
        or,
        ignore,
        into: _,
        table,
        table_alias,
        columns,
        overwrite,
        source,
        assignments,
        // Read by `overriding`.
        partitioned: _,
        after_columns,
        has_table_keyword,
        on,
        returning,
        output,
        replace_into,
        priority,
        insert_alias,
        settings,
        format_clause,
        multi_table_insert_type,
        multi_table_into_clauses,
        multi_table_when_clauses,
        multi_table_else_clause,
    } = insert;
    refuse(or.is_some(), "INSERT OR")?;
    refuse(*ignore, "INSERT IGNORE")?;
    refuse(*overwrite || *has_table_keyword, "INSERT OVERWRITE or INSERT TABLE")?;
    refuse(!assignments.is_empty(), "INSERT … SET")?;
    refuse(!after_columns.is_empty(), "columns behind PARTITION")?;
    refuse(output.is_some(), "OUTPUT")?;
    refuse(
        *replace_into || priority.is_some() || insert_alias.is_some(),
        "REPLACE, a priority or a row alias",
    )?;
    refuse(settings.is_some() || format_clause.is_some(), "SETTINGS or FORMAT")?;
    refuse(
        multi_table_insert_type.is_some()
            || !multi_table_into_clauses.is_empty()
            || !multi_table_when_clauses.is_empty()
            || multi_table_else_clause.is_some(),
        "INSERT into several tables",
    )?;
    let name = match table {
        ast::TableObject::TableName(name) => name,
        ast::TableObject::TableFunction(_) | ast::TableObject::TableQuery(_) => {
            return Err(SqlError::unsupported("INSERT into something that is not a table"));
        }
    };
    let identity = match overriding(insert)? {
        None => binder.ctx.identity,
        Some(Overriding::System) => IdentityValues::Taken,
        Some(Overriding::User) => IdentityValues::Ignored,
    };
    let table = binder.bind_target(name, Privileges::INSERT, "INSERT into")?;
    let shown = match table_alias {
        Some(ast::TableAliasWithoutColumns { explicit: _, alias }) => (fold_ident(alias), None),
        None => {
            let schema = binder.ctx.catalog.schema_name(table.schema).to_owned();
            (table.name.to_string(), Some(schema))
        }
    };
    let explicit = !columns.is_empty();
    let targets: Vec<usize> = if explicit {
        let mut targets = Vec::with_capacity(columns.len());
        for name in columns {
            let (position, column) = binder.target_column(&table, name)?;
            if targets.contains(&position) {
                let message = format!("column \"{}\" specified more than once", column.name);
                return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
            }
            targets.push(position);
        }
        targets
    } else {
        table.live_columns().map(|(position, _)| position).collect()
    };
    let source = match source {
        None => InsertSource::Values(vec![bind_row(binder, &table, &[], &[], identity)?]),
        Some(query) => bind_source(binder, &table, &targets, explicit, query, external, identity)?,
    };
    let generated = binder.bind_generated(&table, &|_| true)?;
    let checks = binder.bind_checks(&table, &|_| true)?;
    let on_conflict = match on {
        None => None,
        Some(ast::OnInsert::OnConflict(conflict)) => Some(bind_conflict(binder, &table, &shown, conflict)?),
        Some(_) => return Err(SqlError::unsupported("ON DUPLICATE KEY UPDATE")),
    };
    let (returning, output) = match returning {
        None => (None, Vec::new()),
        Some(items) => {
            let (level, namespace) = target_level(&table, &shown, &[]);
            let scope = LevelScope { level: &level, namespace: &namespace, outer: None };
            let (project, output) = binder.bind_returning(items, &scope)?;
            if (0..level.width).any(|slot| level.is_used(slot)) {
                binder.note_access(table.oid, Privileges::SELECT);
            }
            (Some(ReturningPlan { project }), output)
        }
    };
    let id = binder.next_node();
    let cost = match &source {
        InsertSource::Values(rows) => rows.len() as f64,
        InsertSource::Select { plan, .. } => plan.cost,
        InsertSource::External { .. } => 1.0,
    };
    let plan = InsertPlan { id, table, source, generated, checks, on_conflict, returning };
    Ok(Changed { statement: PointStatement::Insert(Box::new(plan)), output, cost })
}

/// What a target is called: by its alias alone, else by its name, behind its schema's too.
type Shown = (String, Option<String>);

/// A level of the target and, after it, relations of the same columns.
fn target_level(table: &Arc<Table>, (name, schema): &Shown, more: &[&str]) -> (Level, Namespace) {
    let mut level = Level::default();
    let mut namespace = Namespace::default();
    let others = more.iter().map(|name| ((*name).to_owned(), None));
    for (name, schema) in std::iter::once((name.clone(), schema.clone())).chain(others) {
        let source = RelationSource::Table(Arc::clone(table));
        let index = level.add(name, schema, table_columns(table), source);
        let own = level.namespace_of(index);
        namespace.relations.extend(own.relations);
        namespace.columns.extend(own.columns);
    }
    (level, namespace)
}

/// Whether a value given to the column makes room for the next of its sequence.
fn is_left_aside(column: &Column, identity: IdentityValues) -> bool {
    identity == IdentityValues::Ignored && column.identity.is_some()
}

/// The row of one VALUES list: `values` for `targets`, defaults for the rest.
fn bind_row(
    binder: &Binder<'_>,
    table: &Table,
    targets: &[usize],
    values: &[ast::Expr],
    identity: IdentityValues,
) -> SqlResult<Vec<BoundExpr>> {
    let mut row: Vec<Option<BoundExpr>> = vec![None; table.columns.len()];
    for (position, value) in targets.iter().zip(values) {
        let column = &table.columns[*position];
        let value = given(value);
        refuse_generated(column, value.is_some())?;
        if identity == IdentityValues::Refused {
            refuse_identity(column, value.is_some())?;
        }
        let value = value.filter(|_| !is_left_aside(column, identity));
        row[*position] = Some(binder.bind_assigned(value, column, &EmptyScope, "VALUES")?);
    }
    row.into_iter()
        .zip(&table.columns)
        .map(|(value, column)| value.map_or_else(|| binder.bind_default(column), Ok))
        .collect()
}

fn bind_source(
    binder: &Binder<'_>,
    table: &Arc<Table>,
    targets: &[usize],
    explicit: bool,
    query: &ast::Query,
    external: bool,
    identity: IdentityValues,
) -> SqlResult<InsertSource> {
    if let Some(values) = plain_values(query) {
        let ast::Values { explicit_row: _, value_keyword: _, rows } = values;
        let mut bound = Vec::with_capacity(rows.len());
        let width = rows.first().map_or(0, |row| row.content.len());
        for row in rows {
            if row.content.len() != width {
                return Err(SqlError::new(
                    SqlState::SYNTAX_ERROR,
                    "VALUES lists must all be the same length",
                ));
            }
            check_width(width, targets.len(), explicit)?;
            bound.push(bind_row(binder, table, targets, &row.content, identity)?);
        }
        return Ok(InsertSource::Values(bound));
    }
    let mut row: Vec<Option<BoundExpr>> = vec![None; table.columns.len()];
    let ctx = binder.expressions(Aggregates::Forbidden("INSERT"));
    // Before the query, which would take them for text.
    let untyped = untyped_items(query);
    for (position, value) in targets.iter().zip(&untyped) {
        let column = &table.columns[*position];
        if is_left_aside(column, identity) {
            continue;
        }
        row[*position] = value
            .map(|value| binder.bind_assigned(Some(value), column, &EmptyScope, "INSERT"))
            .transpose()?;
    }
    // Of a query of fewer columns the rest of the table's have their defaults.
    let width = if external && !explicit { written_width(&query.body) } else { None };
    let is_open = external && !explicit && width.is_none();
    let targets = &targets[..width.unwrap_or(targets.len()).min(targets.len())];
    let source = if external {
        for (i, position) in targets.iter().enumerate() {
            let column = &table.columns[*position];
            // Whether there is a value for it only the query's rows tell where that is open.
            refuse_generated(column, !is_open)?;
            if identity == IdentityValues::Refused {
                refuse_identity(column, true)?;
            }
            if is_left_aside(column, identity) {
                continue;
            }
            row[*position].get_or_insert_with(|| BoundExpr::column(i, column.ty, column.typmod));
        }
        None
    } else {
        let bound = binder.bind_query(query, None)?;
        let is_much = bound.plan.cost > POINT_ROWS_MAX && bound.plan.locks.is_empty();
        if is_much && !bound.plan.gives_rows_as_found() && !binder.has_parts() {
            return Err(binder.not_here(TOO_MUCH));
        }
        check_width(bound.columns.len(), targets.len(), explicit)?;
        for (i, shown) in bound.columns.iter().enumerate() {
            let column = &table.columns[targets[i]];
            refuse_generated(column, true)?;
            if identity == IdentityValues::Refused {
                refuse_identity(column, true)?;
            }
            if is_left_aside(column, identity) || row[targets[i]].is_some() {
                continue;
            }
            let value = BoundExpr::column(i, shown.ty, shown.typmod);
            row[targets[i]] = Some(coerce_assignment(value, &column.name, column.ty, column.typmod, &ctx)?);
        }
        Some(bound.plan)
    };
    let row = row
        .into_iter()
        .zip(&table.columns)
        .map(|(value, column)| value.map_or_else(|| binder.bind_default(column), Ok))
        .collect::<SqlResult<_>>()?;
    Ok(match source {
        Some(plan) => InsertSource::Select { plan: Box::new(plan), row },
        None => {
            let columns = targets
                .iter()
                .enumerate()
                .map(|(i, position)| {
                    let column = &table.columns[*position];
                    let (ty, typmod) = match untyped.get(i) {
                        Some(Some(_)) => (PgType::Text, TypeMod::NONE),
                        _ => (column.ty, column.typmod),
                    };
                    TargetColumn { name: column.name.to_string(), ty, typmod }
                })
                .collect();
            let defaults =
                targets.iter().filter(|_| is_open).map(|at| binder.bind_default(&table.columns[*at]));
            InsertSource::External { columns, row, otherwise: defaults.collect::<SqlResult<_>>()? }
        }
    })
}

/// The items of a plain SELECT, from its first to a `*`, where they are bare literals or parameters: those have the types of
/// the columns they are for.
fn untyped_items(query: &ast::Query) -> Vec<Option<&ast::Expr>> {
    let ast::SetExpr::Select(select) = &*query.body else { return Vec::new() };
    let is_parameter = |expr: &ast::Expr| match expr {
        ast::Expr::Value(value) => matches!(value.value, ast::Value::Placeholder(_)),
        _ => false,
    };
    let item = |item| match item {
        &ast::SelectItem::UnnamedExpr(ref expr) | &ast::SelectItem::ExprWithAlias { ref expr, .. } => {
            Some((is_untyped(expr) || is_parameter(expr)).then_some(expr))
        }
        _ => None,
    };
    select.projection.iter().map_while(item).collect()
}

/// How many columns a query has, if it says so itself.
fn written_width(body: &ast::SetExpr) -> Option<usize> {
    match body {
        ast::SetExpr::Select(select) => {
            let is_one = |item: &ast::SelectItem| {
                matches!(item, ast::SelectItem::UnnamedExpr(_) | ast::SelectItem::ExprWithAlias { .. })
            };
            select.projection.iter().all(is_one).then_some(select.projection.len())
        }
        ast::SetExpr::SetOperation { left, .. } => written_width(left),
        ast::SetExpr::Query(query) => written_width(&query.body),
        ast::SetExpr::Values(values) => values.rows.first().map(|row| row.content.len()),
        _ => None,
    }
}

/// The lists of a VALUES source without any other clause.
fn plain_values(query: &ast::Query) -> Option<&ast::Values> {
    let bare = query.with.is_none()
        && query.order_by.is_none()
        && query.limit_clause.is_none()
        && query.fetch.is_none()
        && query.locks.is_empty()
        && query.for_clause.is_none()
        && query.settings.is_none()
        && query.format_clause.is_none()
        && query.pipe_operators.is_empty();
    match &*query.body {
        ast::SetExpr::Values(values) if bare => Some(values),
        _ => None,
    }
}

fn check_width(given: usize, wanted: usize, explicit: bool) -> SqlResult<()> {
    if given > wanted {
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, "INSERT has more expressions than target columns"));
    }
    if given < wanted && explicit {
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, "INSERT has more target columns than expressions"));
    }
    Ok(())
}

fn bind_conflict(
    binder: &Binder<'_>,
    table: &Arc<Table>,
    shown: &Shown,
    conflict: &ast::OnConflict,
) -> SqlResult<ConflictAction> {
    let ast::OnConflict { conflict_target, action } = conflict;
    let target = target_condition(action);
    if conflict_target.is_some() {
        // The columns that arbitrate are read.
        binder.note_access(table.oid, Privileges::SELECT);
    }
    let arbiter = match conflict_target {
        None => Arbiter::Any,
        Some(ast::ConflictTarget::Columns(columns)) => {
            let no_index = || {
                SqlError::new(
                    SqlState::INVALID_COLUMN_REFERENCE,
                    "there is no unique or exclusion constraint matching the ON CONFLICT specification",
                )
            };
            let mut keys = Vec::with_capacity(columns.len());
            for column in columns {
                let (function, name) = match target_function(column) {
                    Some((function, name)) => {
                        (Some(KeyFunction::named(function).ok_or_else(no_index)?), name.to_owned())
                    }
                    None => (None, fold_ident(column)),
                };
                let (position, _) = table.column(&name).ok_or_else(|| {
                    SqlError::new(SqlState::UNDEFINED_COLUMN, format!("column \"{name}\" does not exist"))
                })?;
                keys.push((position, function));
            }
            let condition = target.as_ref().map(|target| {
                let (level, namespace) = target_level(table, shown, &[]);
                let scope = LevelScope { level: &level, namespace: &namespace, outer: None };
                let ctx = binder.expressions(Aggregates::Forbidden("ON CONFLICT predicate"));
                bind_condition(target.condition, &scope, &ctx, "WHERE")
            });
            let conditions = condition.transpose()?.map_or_else(Vec::new, BoundExpr::into_conjuncts);
            let tests: Vec<RowTest> = conditions.iter().filter_map(|test| row_test(test, &Some)).collect();
            let known: Vec<&RowTest> = tests.iter().collect();
            let is_told = |index: &Index| match &index.predicate {
                Some(predicate) => follows(predicate, &known, &|column| table.columns[column].not_null),
                None => true,
            };
            let matches = |index: &Index| {
                let own = || index.columns.iter().map(|key| (key.column, key.function));
                index.unique
                    && keys.iter().all(|key| own().any(|own| own == *key))
                    && own().all(|own| keys.contains(&own))
                    && is_told(index)
            };
            // One of all rows comes first.
            let whole = table.indexes.iter().position(|index| index.predicate.is_none() && matches(index));
            let Some(matching) = whole.or_else(|| table.indexes.iter().position(matches)) else {
                return Err(no_index());
            };
            Arbiter::Index(table.indexes[matching].oid)
        }
        Some(ast::ConflictTarget::OnConstraint(name)) => {
            let parts = super::binder::object_name(name)?;
            let wanted = parts.last().expect("a name has a part");
            let found =
                table.indexes.iter().position(|i| i.constraint.is_some() && i.name == wanted.as_str());
            match found {
                Some(index) => Arbiter::Index(table.indexes[index].oid),
                None => {
                    return Err(SqlError::new(
                        SqlState::UNDEFINED_OBJECT,
                        format!("constraint \"{wanted}\" for table \"{}\" does not exist", table.name),
                    ));
                }
            }
        }
    };
    let (assignments, selection) = match (action, &target) {
        (ast::OnConflictAction::DoNothing, _) | (_, Some(TargetCondition { assignments: None, .. })) => {
            return Ok(ConflictAction::Nothing(arbiter));
        }
        (ast::OnConflictAction::DoUpdate(update), Some(TargetCondition { assignments: Some(rest), .. })) => {
            (*rest, &update.selection)
        }
        (ast::OnConflictAction::DoUpdate(update), None) => (&update.assignments[..], &update.selection),
    };
    if arbiter == Arbiter::Any {
        return Err(SqlError::new(
            SqlState::SYNTAX_ERROR,
            "ON CONFLICT DO UPDATE requires inference specification or constraint name",
        )
        .with_hint("For example, ON CONFLICT (column_name)."));
    }
    let (level, namespace) = target_level(table, shown, &["excluded"]);
    let scope = LevelScope { level: &level, namespace: &namespace, outer: None };
    let assignments = binder.bind_assignments(table, assignments, &scope)?;
    let ctx = binder.expressions(Aggregates::Forbidden("WHERE"));
    let condition = selection.as_ref().map(|e| bind_condition(e, &scope, &ctx, "WHERE")).transpose()?;
    binder.note_access(table.oid, Privileges::UPDATE);
    binder.note_access(table.oid, Privileges::SELECT);
    Ok(ConflictAction::Update { arbiter, assignments, condition })
}
