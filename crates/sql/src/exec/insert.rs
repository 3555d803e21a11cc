//! INSERT.

use base::{SqlError, SqlState};
use rustc_hash::FxHashSet;
use types::{CastContext, Datum, PgType, Row};

use super::{Cx, ExternalRows, Flow, Halt, Key, Position, RowSink, Run, Slice};
use crate::plan::{InsertPlan, InsertSource, TargetColumn};

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
                self.given(rows, |exprs| {
                    self.project(exprs, cx, &[], &mut new)?;
                    self.insert_row(&mut state, &new, cx, sink)
                })?;
            }
            InsertSource::Select { plan: select, row } => {
                // Read whole before the first row is inserted: the query may read the target.
                let mut found = Vec::new();
                self.select(select, cx, &mut |values| {
                    found.push(values.to_vec());
                    self.note_changed();
                    Ok(Flow::More)
                })?;
                for values in &found {
                    self.project(row, cx, values, &mut new)?;
                    self.insert_row(&mut state, &new, cx, sink)?;
                }
            }
            InsertSource::External { columns, row } => {
                let Some(external) = external else {
                    return Err(SqlError::internal("an INSERT's source was not computed").into());
                };
                require_width(external.types.len(), columns.len())?;
                self.given(external.rows, |values| {
                    let values = cast_row(values, external.types, columns, cx)?;
                    self.project(row, cx, &values, &mut new)?;
                    self.insert_row(&mut state, &new, cx, sink)
                })?;
            }
        }
        Ok(state.rows)
    }

    /// Goes through rows that are given, or the part of them that belongs to the slice.
    fn given<T>(&self, rows: &[T], mut insert: impl FnMut(&T) -> Halt<()>) -> Halt<()> {
        self.examine_given(rows.len())?;
        let slice = self.limits.slice;
        let first = match slice.and_then(Slice::from) {
            Some(Position::Row(first)) => *first,
            _ => 0,
        };
        for (i, row) in rows.iter().enumerate().skip(first) {
            insert(row)?;
            if let Some(slice) = slice {
                slice.note_changed();
                if slice.is_full() && i + 1 < rows.len() {
                    slice.end_at(Position::Row(i + 1));
                    break;
                }
            }
        }
        Ok(())
    }

    fn insert_row(
        &self,
        state: &mut Inserting<'_>,
        new: &[Datum],
        cx: &Cx<'_>,
        sink: &mut dyn RowSink,
    ) -> Halt<()> {
        self.step()?;
        let plan = state.plan;
        self.check(&plan.table, &plan.checks, cx, new)?;
        if let Some(action) = &plan.on_conflict {
            return self.insert_or(state, action, new, cx, sink);
        }
        self.view.borrow_mut().insert(&plan.table, new)?;
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

fn require_width(given: usize, wanted: usize) -> Halt<()> {
    let message = match given.cmp(&wanted) {
        std::cmp::Ordering::Equal => return Ok(()),
        std::cmp::Ordering::Greater => "INSERT has more expressions than target columns",
        std::cmp::Ordering::Less => "INSERT has more target columns than expressions",
    };
    Err(SqlError::new(SqlState::SYNTAX_ERROR, message).into())
}

pub(super) fn cast_row(values: &[Datum], from: &[PgType], to: &[TargetColumn], cx: &Cx<'_>) -> Halt<Row> {
    let mut row = Row::with_capacity(values.len());
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
        row.push(types::cast(value.clone(), *from, column.ty, column.typmod, how, cx.stmt.format)?);
    }
    Ok(row)
}
