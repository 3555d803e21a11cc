//! DELETE.

use std::sync::Arc;

use base::{SqlError, SqlResult};
use sqlparser::ast;
use tenant::catalog::Privileges;

use super::binder::Binder;
use super::point_plan::{ChangeSource, DeletePlan, PointStatement};
use super::refuse::refuse;
use super::update::{ChangedLevel, External, finish, finish_external};
use super::{BoundPlan, Command, PlanContext};

pub(super) fn bind_delete(delete: &ast::Delete, ctx: &PlanContext<'_>) -> SqlResult<BoundPlan> {
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
    let [target] = targets.as_slice() else {
        return Err(SqlError::unsupported("DELETE from several tables"));
    };
    let using = using.as_deref().unwrap_or(&[]);
    let binder = Binder::new(*ctx);
    let local = || {
        let target = ChangedLevel::bind(&binder, target, Privileges::DELETE, "DELETE from", using)?;
        let conditions = target.with_scope(|scope| binder.bind_where(selection.as_ref(), scope))?;
        let (returning, output) = target.bind_returning(&binder, returning.as_deref())?;
        target.note_reads(&binder, &conditions);
        let (table, width, joined) = (Arc::clone(&target.table), target.level.width, !using.is_empty());
        let slot_names = target.level.slot_names();
        let (from, cost) = target.plan(&binder, conditions)?;
        let id = binder.next_node();
        let source = ChangeSource::Node(from);
        let plan = DeletePlan { id, table, width, slot_names, source, joined, returning };
        finish(&binder, Command::Delete, PointStatement::Delete(Box::new(plan)), output, cost)
    };
    let error = match local() {
        Ok(plan) => return Ok(plan),
        Err(error) => error,
    };
    let Some(reason) = binder.reason_for(&error) else { return Err(error) };
    let parts = External {
        table: target,
        from: using,
        selection: selection.as_ref(),
        returning: returning.as_deref(),
    };
    bind_external_delete(&parts, reason, ctx)
}

fn bind_external_delete(parts: &External<'_>, reason: String, ctx: &PlanContext<'_>) -> SqlResult<BoundPlan> {
    let binder = Binder::new(*ctx);
    let target = ChangedLevel::bind(&binder, parts.table, Privileges::DELETE, "DELETE from", &[])?;
    let (returning, output) = target.bind_returning(&binder, parts.returning)?;
    let query = parts.query(&target, Vec::new())?;
    let plan = DeletePlan {
        id: binder.next_node(),
        table: Arc::clone(&target.table),
        width: target.level.width,
        slot_names: target.level.slot_names(),
        source: ChangeSource::External { assigned: Vec::new() },
        joined: false,
        returning,
    };
    let plan = finish_external(&binder, Command::Delete, PointStatement::Delete(Box::new(plan)), output);
    External::attach(plan, query, reason, ctx)
}
