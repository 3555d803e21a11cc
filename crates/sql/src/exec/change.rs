//! UPDATE and DELETE, and what all changes share: new rows, CHECK, RETURNING.

use base::{SqlError, SqlState};
use rustc_hash::FxHashSet;
use tenant::Updated;
use tenant::catalog::Table;
use types::{Datum, Row};

use super::{Cx, Flow, Halt, Key, RowSink, Run};
use crate::expr::{eval, eval_bool};
use crate::plan::{CheckPlan, DeletePlan, Node, ReturningPlan, UpdatePlan};

/// Longest value shown of a row that violates a constraint, in bytes.
const SHOWN_VALUE_LEN_MAX: usize = 64;

/// A row to change and the level's row it was found with.
struct Target {
    key: Key,
    row: Row,
}

impl Run<'_, '_> {
    /// Runs an UPDATE; answers how many rows were changed.
    pub(super) fn update(&self, plan: &UpdatePlan, cx: &Cx<'_>, sink: &mut dyn RowSink) -> Halt<u64> {
        // New rows are all made before the first change, so that no expression sees one.
        let columns = plan.table.columns.len();
        let mut changes: Vec<(Target, Row)> = Vec::new();
        self.targets(&plan.from, plan.width, plan.joined, cx, &mut |target| {
            let mut new = target.row[..columns].to_vec();
            let ctx = cx.row(&target.row);
            for (column, value) in &plan.assignments {
                new[*column] = eval(value, &ctx).map_err(|error| self.halt(error))?;
            }
            changes.push((target, new));
            Ok(())
        })?;
        let mut changed = 0;
        for (target, new) in changes {
            self.check(&plan.table, &plan.checks, cx, &new)?;
            let updated = self.view.borrow_mut().update(&plan.table, &target.key, &new)?;
            if updated == Updated::Gone {
                continue;
            }
            changed += 1;
            if let Some(returning) = &plan.returning {
                let mut row = target.row;
                row[..columns].clone_from_slice(&new);
                self.give_returning(returning, cx, &row, sink)?;
            }
        }
        Ok(changed)
    }

    /// Runs a DELETE; answers how many rows were deleted.
    pub(super) fn delete(&self, plan: &DeletePlan, cx: &Cx<'_>, sink: &mut dyn RowSink) -> Halt<u64> {
        let mut targets: Vec<Target> = Vec::new();
        self.targets(&plan.from, plan.width, plan.joined, cx, &mut |target| {
            targets.push(target);
            Ok(())
        })?;
        let mut deleted = 0;
        for target in targets {
            if !self.view.borrow_mut().delete(&plan.table, &target.key)? {
                continue;
            }
            deleted += 1;
            if let Some(returning) = &plan.returning {
                self.give_returning(returning, cx, &target.row, sink)?;
            }
        }
        Ok(deleted)
    }

    /// Each target row once, with the first row of FROM it meets.
    fn targets(
        &self,
        from: &Node,
        width: usize,
        joined: bool,
        cx: &Cx<'_>,
        take: &mut dyn FnMut(Target) -> Halt<()>,
    ) -> Halt<()> {
        let mut row = vec![Datum::Null; width];
        let mut met: FxHashSet<Key> = FxHashSet::default();
        self.node(from, cx, &mut row, &mut |row| {
            let key = self.remembered_key(0);
            if joined && !met.insert(key.clone()) {
                return Ok(Flow::More);
            }
            take(Target { key, row: row.clone() })?;
            Ok(Flow::More)
        })?;
        Ok(())
    }

    pub(super) fn give_returning(
        &self,
        returning: &ReturningPlan,
        cx: &Cx<'_>,
        row: &[Datum],
        sink: &mut dyn RowSink,
    ) -> Halt<()> {
        let mut out = Row::with_capacity(returning.project.len());
        self.project(&returning.project, cx, row, &mut out)?;
        // Every row is changed whether or not the client wants to see more of them.
        sink.row(&out)?;
        Ok(())
    }

    /// # Errors
    /// 23514.
    pub(super) fn check(&self, table: &Table, checks: &[CheckPlan], cx: &Cx<'_>, row: &[Datum]) -> Halt<()> {
        for check in checks {
            let holds = eval_bool(&check.condition, &cx.row(row)).map_err(|error| self.halt(error))?;
            if holds == Some(false) {
                let message = format!(
                    "new row for relation \"{}\" violates check constraint \"{}\"",
                    table.name, check.name
                );
                let error = SqlError::new(SqlState::CHECK_VIOLATION, message)
                    .with_detail(failing_row(table, row, cx))
                    .with_schema(self.view.borrow().catalog().schema_name(table.schema))
                    .with_table(table.name.as_str())
                    .with_constraint(check.name.as_str());
                return Err(error.into());
            }
        }
        Ok(())
    }
}

/// PostgreSQL's picture of a row: `Failing row contains (1, null, some text...).`
fn failing_row(table: &Table, row: &[Datum], cx: &Cx<'_>) -> String {
    let values: Vec<String> = table
        .live_columns()
        .map(|(i, column)| {
            if row[i].is_null() {
                return "null".to_owned();
            }
            let mut text = types::to_text(&row[i], column.ty, cx.stmt.format);
            if text.len() > SHOWN_VALUE_LEN_MAX {
                let mut end = SHOWN_VALUE_LEN_MAX;
                while !text.is_char_boundary(end) {
                    end -= 1;
                }
                text.truncate(end);
                text.push_str("...");
            }
            text
        })
        .collect();
    format!("Failing row contains ({}).", values.join(", "))
}
