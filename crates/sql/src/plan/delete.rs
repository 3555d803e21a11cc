//! DELETE.

use std::sync::Arc;

use base::{SqlError, SqlResult};
use sqlparser::ast;
use tenant::catalog::Privileges;

use super::binder::Binder;
use super::parts::Changed;
use super::point_plan::{ChangeSource, DeletePlan, PointStatement};
use super::refuse::refuse;
use super::update::{ChangedLevel, External, finish, finish_external};
use super::{BoundPlan, Command, PlanContext};

pub(super) fn bind_delete(delete: &ast::Delete, ctx: &PlanContext<'_>) -> SqlResult<BoundPlan> {
    let parts = clauses(delete)?;
    let binder = Binder::new(*ctx);
    let bound = change(&binder, &parts).and_then(|Changed { statement, output, cost }| {
        finish(&binder, Command::Delete, statement, output, cost)
    });
    let error = match bound {
        Ok(plan) => return Ok(plan),
        Err(error) => error,
    };
    let Some(reason) = binder.reason_for(&error) else { return Err(error) };
    bind_external_delete(&parts, reason, ctx)
}

/// The change itself, its rows found here.
pub(super) fn bind_change(binder: &Binder<'_>, delete: &ast::Delete) -> SqlResult<Changed> {
    change(binder, &clauses(delete)?)
}

fn change(binder: &Binder<'_>, parts: &External<'_>) -> SqlResult<Changed> {
    let target = ChangedLevel::bind(binder, parts.table, Privileges::DELETE, "DELETE from", parts.from)?;
    let conditions = target.with_scope(|scope| binder.bind_where(parts.selection, scope))?;
    let (returning, output) = target.bind_returning(binder, parts.returning)?;
    target.note_reads(binder, &conditions);
    let (table, width, joined) = (Arc::clone(&target.table), target.level.width, !parts.from.is_empty());
    let (key, slot_names) = (target.key, target.level.slot_names());
    let (from, cost) = target.plan(binder, conditions)?;
    let id = binder.next_node();
    let source = ChangeSource::Node(from);
    let plan = DeletePlan { id, table, key, width, slot_names, source, joined, returning };
    Ok(Changed { statement: PointStatement::Delete(Box::new(plan)), output, cost })
}

fn clauses(delete: &ast::Delete) -> SqlResult<External<'_>> {
    let ast::Delete {
        delete_token: _,
        optimizer_hints: _,
        tables,
        from,
        using,
        selection,
        returning,
        output,
        order_by,
        limit,
    } = delete;
    refuse(!tables.is_empty(), "DELETE from several tables")?;
    refuse(output.is_some(), "OUTPUT")?;
    refuse(!order_by.is_empty() || limit.is_some(), "ORDER BY or LIMIT of DELETE")?;
    let ast::FromTable::WithFromKeyword(targets) = from else {
        return Err(SqlError::unsupported("DELETE without FROM"));
    };
    let [table] = targets.as_slice() else {
        return Err(SqlError::unsupported("DELETE from several tables"));
    };
    let from = using.as_deref().unwrap_or(&[]);
    Ok(External { table, from, selection: selection.as_ref(), returning: returning.as_deref() })
}

fn bind_external_delete(parts: &External<'_>, reason: String, ctx: &PlanContext<'_>) -> SqlResult<BoundPlan> {
    let binder = Binder::new(*ctx);
    let target = ChangedLevel::bind(&binder, parts.table, Privileges::DELETE, "DELETE from", &[])?;
    let (returning, output) = parts.bind_returning(&target, &binder)?;
    let query = parts.query(&target, Vec::new())?;
    let plan = DeletePlan {
        id: binder.next_node(),
        table: Arc::clone(&target.table),
        key: target.key,
        width: target.level.width,
        slot_names: target.level.slot_names(),
        source: ChangeSource::External { assigned: Vec::new() },
        joined: false,
        returning,
    };
    let plan = finish_external(&binder, Command::Delete, PointStatement::Delete(Box::new(plan)), output);
    parts.attach(plan, query, reason, &target, &[], ctx)
}
