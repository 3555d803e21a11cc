//! INSERT.

use std::borrow::Cow;
use std::cmp::Ordering;

use base::{SqlError, SqlState};
use rustc_hash::FxHashSet;
use types::{CastContext, Datum, PgType, Row, row_memory};

use super::{Cx, ExternalRows, Flow, Halt, Key, Position, RowSink, Run, Slice};
use crate::memory_bound::require_row_len;
use crate::plan::{InsertPlan, InsertSource, TargetColumn, refuse_generated};

/// An INSERT under way.
pub(super) struct Inserting<'p> {
    pub(super) plan: &'p InsertPlan,
    /// Keys of rows it made or changed, when it may meet them again.
    pub(super) met: FxHashSet<Key>,
    pub(super) rows: u64,
}

impl Run<'_, '_> {
    /// Runs an INSERT; answers how many rows were inserted or updated.
    pub(super) fn insert(
        &self,
        plan: &InsertPlan,
        cx: &Cx<'_>,
        external: Option<ExternalRows<'_>>,
        sink: &mut dyn RowSink,
    ) -> Halt<u64> {
        let mut state = Inserting { plan, met: FxHashSet::default(), rows: 0 };
        let mut new = Row::with_capacity(plan.table.columns.len());
        match &plan.source {
            InsertSource::Values(rows) => {
                let first = self.limits.slice.map_or(0, Slice::first_row);
                self.given(&rows[first..], rows.len(), |exprs| {
                    self.project(exprs, cx, &[], &mut new)?;
                    self.insert_row(&mut state, &mut new, cx, sink)
                })?;
            }
            InsertSource::Select { plan: select, row } => {
                // Read whole before the first row is inserted: the query may read the target.
                let mut found = Vec::new();
                self.select(select, cx, &mut |values| {
                    self.note_changed(row_memory(values))?;
                    found.push(values.to_vec());
                    Ok(Flow::More)
                })?;
                for values in &found {
                    self.project(row, cx, values, &mut new)?;
                    self.insert_row(&mut state, &mut new, cx, sink)?;
                }
            }
            InsertSource::External { columns, row, otherwise } => {
                let Some(external) = external else {
                    return Err(SqlError::internal("an INSERT's source was not computed").into());
                };
                let width = external.types.len();
                require_width(width, columns.len(), !otherwise.is_empty())?;
                if !otherwise.is_empty() {
                    let mut given = plan.table.live_columns().take(width);
                    given.try_for_each(|(_, column)| refuse_generated(column, true))?;
                }
                let mut row = Cow::Borrowed(row);
                for ((position, _), value) in plan.table.live_columns().zip(otherwise).skip(width) {
                    row.to_mut()[position] = value.clone();
                }
                self.given(external.rows, external.total, |values| {
                    let values = cast_row(values, external.types, columns, cx)?;
                    self.project(&row, cx, &values, &mut new)?;
                    self.insert_row(&mut state, &mut new, cx, sink)
                })?;
            }
        }
        Ok(state.rows)
    }

    /// Goes through the rows that are given, `total` in all. For a slice they are those from its first one on, as many as are at hand; it
    /// takes its part of them.
    fn given<T>(&self, rows: &[T], total: usize, mut insert: impl FnMut(&T) -> Halt<()>) -> Halt<()> {
        self.examine_given(total)?;
        let Some(slice) = self.limits.slice else {
            assert_eq!(rows.len(), total, "all rows are there where they are not taken in slices");
            return rows.iter().try_for_each(insert);
        };
        let mut next = slice.first_row();
        for row in rows {
            insert(row)?;
            next += 1;
            slice.note_changed();
            if slice.is_full() {
                break;
            }
        }
        if next < total {
            slice.end_at(Position::Row(next));
        }
        Ok(())
    }

    fn insert_row(
        &self,
        state: &mut Inserting<'_>,
        new: &mut [Datum],
        cx: &Cx<'_>,
        sink: &mut dyn RowSink,
    ) -> Halt<()> {
        self.step()?;
        let plan = state.plan;
        self.generate(&plan.generated, cx, new)?;
        let new = &*new;
        if let Some(slice) = self.limits.slice {
            slice.note_bytes(row_memory(new));
        }
        self.check(&plan.table, &plan.checks, cx, new)?;
        if let Some(action) = &plan.on_conflict {
            return self.insert_or(state, action, new, cx, sink);
        }
        let key = self.view.borrow_mut().insert(&plan.table, new)?;
        self.is_first_change(&plan.table, &key)?;
        self.inserted(state, new, cx, sink)
    }

    /// Counts a row and returns it.
    pub(super) fn inserted(
        &self,
        state: &mut Inserting<'_>,
        row: &[Datum],
        cx: &Cx<'_>,
        sink: &mut dyn RowSink,
    ) -> Halt<()> {
        state.rows += 1;
        match &state.plan.returning {
            Some(returning) => self.give_returning(returning, cx, row, sink),
            None => Ok(()),
        }
    }
}

/// Errors: 42601 for more values than columns, or for fewer unless that `is_open`.
fn require_width(given: usize, wanted: usize, is_open: bool) -> Halt<()> {
    let message = match given.cmp(&wanted) {
        Ordering::Equal => return Ok(()),
        Ordering::Less if is_open => return Ok(()),
        Ordering::Greater => "INSERT has more expressions than target columns",
        Ordering::Less => "INSERT has more target columns than expressions",
    };
    Err(SqlError::new(SqlState::SYNTAX_ERROR, message).into())
}

pub(super) fn cast_row(values: &[Datum], from: &[PgType], to: &[TargetColumn], cx: &Cx<'_>) -> Halt<Row> {
    let (mut row, mut bytes) = (Row::with_capacity(values.len()), 0);
    for ((value, from), column) in values.iter().zip(from).zip(to) {
        let allowed = *from == column.ty
            || *from == PgType::Unknown
            || types::cast_allowed(*from, column.ty).is_some_and(|how| how != CastContext::Explicit);
        if !allowed {
            let message = format!(
                "column \"{}\" is of type {} but expression is of type {}",
                column.name,
                column.ty.name(),
                from.name()
            );
            return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message)
                .with_hint("You will need to rewrite or cast the expression.")
                .into());
        }
        let how = CastContext::Assignment;
        let value = types::cast(value.clone(), *from, column.ty, column.typmod, how, cx.stmt.format)?;
        bytes += value.heap_bytes();
        require_row_len(bytes)?;
        row.push(value);
    }
    Ok(row)
}
