//! A statement whose WITH changes rows: its parts all read the state in which it begins.
//!
//! As in PostgreSQL a part runs when its rows are first read, to its end. Changes that nobody reads run behind the statement, the last one first;
//! queries that nobody reads do not. What the parts return is kept in memory, within what the statement's rows may take. A row that several
//! of them would change is changed by the one alone that runs first.

use std::rc::Rc;

use base::SqlResult;
use tenant::catalog::Table;
use types::{Datum, Row, row_memory};

use super::select::SEEN_LEN;
use super::{Cx, ExternalRows, Flow, Halt, Key, RowSink, Run};
use crate::memory_bound::MemoryBound;
use crate::plan::PointStatement;

impl Run<'_, '_> {
    /// Runs all parts, and the statement beside them.
    pub(super) fn with_parts(
        &self,
        cx: &Cx<'_>,
        external: Option<ExternalRows<'_>>,
        sink: &mut dyn RowSink,
    ) -> Halt<u64> {
        self.view.borrow_mut().leave_out_changes()?;
        let rows = self.parts_and_last(cx, external, sink);
        self.view.borrow_mut().take_in_changes();
        rows
    }

    fn parts_and_last(
        &self,
        cx: &Cx<'_>,
        external: Option<ExternalRows<'_>>,
        sink: &mut dyn RowSink,
    ) -> Halt<u64> {
        let rows = self.statement(&self.plan.statement, cx, external, sink)?;
        for (number, part) in self.plan.parts.iter().enumerate().rev() {
            if !matches!(part.statement, PointStatement::Select(_)) {
                self.part_rows(number, cx)?;
            }
        }
        Ok(rows)
    }

    /// The rows of a part, which it is run for if it was not.
    pub(super) fn part_rows(&self, number: usize, cx: &Cx<'_>) -> Halt<Rc<Vec<Row>>> {
        if let Some(rows) = &self.parts.borrow()[number] {
            return Ok(Rc::clone(rows));
        }
        let mut sink = PartRows { rows: Vec::new(), memory: &self.memory };
        let cx = Cx { stmt: cx.stmt, outer: None };
        self.statement(&self.plan.parts[number].statement, &cx, None, &mut sink)?;
        let rows = Rc::new(sink.rows);
        self.parts.borrow_mut()[number] = Some(Rc::clone(&rows));
        Ok(rows)
    }

    /// Whether no part has changed the row with this key before; from now on one has.
    pub(super) fn is_first_change(&self, table: &Table, key: &Key) -> Halt<bool> {
        if self.plan.parts.is_empty() {
            return Ok(true);
        }
        self.note_bytes(key.len() + SEEN_LEN)?;
        Ok(self.changed.borrow_mut().insert((table.oid, key.clone())))
    }

    /// Whether some part has changed the row with this key.
    pub(super) fn is_changed(&self, table: &Table, key: &Key) -> bool {
        !self.plan.parts.is_empty() && self.changed.borrow().contains(&(table.oid, key.clone()))
    }
}

/// Keeps what a part returns.
struct PartRows<'m> {
    rows: Vec<Row>,
    memory: &'m MemoryBound,
}

impl RowSink for PartRows<'_> {
    fn row(&mut self, row: &[Datum]) -> SqlResult<Flow> {
        self.memory.take(row_memory(row))?;
        self.rows.push(row.to_vec());
        Ok(Flow::More)
    }
}
