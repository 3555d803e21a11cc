//! INSERT … ON CONFLICT.

use base::{SqlError, SqlState};
use tenant::catalog::Table;
use tenant::locks::{RowLock, WaitPolicy};
use tenant::{Inserted, RowLocked, Updated};
use types::{Datum, Row};

use super::insert::Inserting;
use super::{Cx, Halt, Key, RowSink, Run};
use crate::expr::eval_filter;
use crate::plan::{Arbiter, ConflictAction};

impl Run<'_, '_> {
    pub(super) fn insert_or(
        &self,
        state: &mut Inserting<'_>,
        action: &ConflictAction,
        new: &[Datum],
        cx: &Cx<'_>,
        sink: &mut dyn RowSink,
    ) -> Halt<()> {
        let (ConflictAction::Nothing(arbiter) | ConflictAction::Update { arbiter, .. }) = action;
        let arbiter = match arbiter {
            Arbiter::Any => tenant::Arbiter::Any,
            Arbiter::Index(oid) => tenant::Arbiter::Index(*oid),
        };
        let inserted = self.view.borrow_mut().insert_or_conflict(&state.plan.table, new, arbiter)?;
        let key = match inserted {
            Inserted::Row(key) => {
                self.is_first_change(&state.plan.table, &key)?;
                if matches!(action, ConflictAction::Update { .. }) {
                    state.met.insert(key);
                }
                return self.inserted(state, new, cx, sink);
            }
            Inserted::Conflict(key) => key,
        };
        let ConflictAction::Update { assignments, condition, .. } = action else { return Ok(()) };
        self.update_conflicting(state, key, new, assignments, condition.as_ref(), cx, sink)
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one DO UPDATE")]
    fn update_conflicting(
        &self,
        state: &mut Inserting<'_>,
        key: Key,
        new: &[Datum],
        assignments: &[(usize, crate::expr::BoundExpr)],
        condition: Option<&crate::expr::BoundExpr>,
        cx: &Cx<'_>,
        sink: &mut dyn RowSink,
    ) -> Halt<()> {
        let table = &state.plan.table;
        if state.met.contains(&key) || self.is_changed(table, &key) || self.was_put(table, &key)? {
            return Err(SqlError::new(
                SqlState::CARDINALITY_VIOLATION,
                "ON CONFLICT DO UPDATE command cannot affect row a second time",
            )
            .with_hint(
                "Ensure that no rows proposed for insertion within the same command have duplicate constrained values.",
            )
            .into());
        }
        let mut row: Row = {
            let mut view = self.view.borrow_mut();
            let locked = view.lock_row(table, &key, RowLock::NoKeyUpdate, WaitPolicy::Wait)?;
            if !matches!(locked, RowLocked::Locked) {
                return Err(SqlError::internal("a conflicting row went away within a turn").into());
            }
            // A slice may come to a row that others have made or changed since the statement began.
            view.read_newest(self.limits.slice.is_some());
            let existing = view.get(table, &key).map(|row| row.map(|row| row.to_row()));
            view.read_newest(false);
            match existing? {
                Some(existing) => existing?,
                None => return Err(SqlError::internal("a conflicting row cannot be read").into()),
            }
        };
        let columns = row.len();
        row.extend_from_slice(new);
        let ctx = cx.row(&row);
        if let Some(condition) = condition
            && !eval_filter(condition, &ctx).map_err(|error| self.halt(error))?
        {
            return Ok(());
        }
        let mut updated = row[..columns].to_vec();
        let mut bytes = 0;
        for (column, value) in assignments {
            updated[*column] = self.part(value, &ctx, &mut bytes)?;
        }
        self.generate(&state.plan.generated, cx, &mut updated)?;
        self.check(table, &state.plan.checks, cx, &updated)?;
        self.is_first_change(table, &key)?;
        let outcome = self.view.borrow_mut().update(table, &key, &updated)?;
        let key = match outcome {
            Updated::Row(key) => key,
            Updated::Gone => key,
        };
        self.is_first_change(table, &key)?;
        state.met.insert(key);
        self.inserted(state, &updated, cx, sink)
    }

    /// Whether a slice of the statement before this one has made or changed the row with this key.
    fn was_put(&self, table: &Table, key: &Key) -> Halt<bool> {
        match self.limits.slice {
            Some(_) => Ok(self.view.borrow().has_put(table, key)?),
            None => Ok(false),
        }
    }
}
