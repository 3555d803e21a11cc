//! Rows of correlated subqueries by the key that the row around them has ([`KeyedRows`]).
//!
//! The table is made once the subquery has read as many rows without it as it would read for it. Where it finds no memory, the subquery is run for each
//! row as before.

use std::rc::Rc;

use rustc_hash::FxHashMap;
use types::{Datum, Row, row_memory};

use super::select::SEEN_LEN;
use super::{Cx, Flow, Halt, Run};
use crate::expr::{EvalCtx, eval_filter};
use crate::plan::{KeyedRows, NodeKind, SelectPlan};

/// Rows that a subquery reads in any case before a table is made of them.
const PASSED_MIN: u64 = 4096;

/// The rows that each key has.
pub(super) type KeyedTable = FxHashMap<Box<[u8]>, Vec<Row>>;

/// How far it is with the rows of a subquery that have keys.
pub(super) enum Keyed {
    /// So many rows were read for the rows around it.
    Passed(u64),
    /// There is no memory for a table.
    OneByOne,
    Table(Rc<KeyedTable>),
}

impl Run<'_, '_> {
    /// Notes that a subquery has read so many rows of tables for one row around it.
    pub(super) fn note_passed(&self, plan: &SelectPlan, rows: u64) {
        if plan.keyed.is_some()
            && let Keyed::Passed(passed) = self.keyed.borrow_mut().entry(plan.id).or_insert(Keyed::Passed(0))
        {
            // What is kept of a query of FROM is gone through each time.
            let is_kept = matches!(plan.from.kind, NodeKind::Derived { .. });
            *passed += if is_kept { self.rows_of(plan) } else { rows };
        }
    }

    /// How many rows a run of a subquery goes through: of its table, by estimate, or those that are kept of a query of FROM.
    fn rows_of(&self, plan: &SelectPlan) -> u64 {
        match &plan.from.kind {
            NodeKind::Scan(scan) => scan.examined as u64,
            NodeKind::Derived { plans, .. } => {
                let kept = self.kept.borrow();
                plans.iter().filter_map(|plan| kept.get(&plan.id)).map(|rows| rows.len() as u64).sum()
            }
            _ => 0,
        }
    }

    /// The rows of a subquery that go with the row around it are among those that the table has under [`Run::join_key`]; `None` where it is to be run.
    pub(super) fn keyed_table(&self, plan: &SelectPlan, outer: &EvalCtx<'_>) -> Halt<Option<Rc<KeyedTable>>> {
        let Some(keyed) = &plan.keyed else { return Ok(None) };
        match self.keyed.borrow().get(&plan.id) {
            Some(Keyed::Table(table)) => return Ok(Some(Rc::clone(table))),
            Some(Keyed::Passed(passed)) if *passed > PASSED_MIN.max(self.rows_of(plan)) => {}
            _ => return Ok(None),
        }
        let cx = Cx { stmt: outer.stmt, outer: Some(outer) };
        let (mut table, mut held, mut fits) = (KeyedTable::default(), self.memory.hold(), true);
        let (mut key, mut shown) = (Vec::new(), Row::new());
        self.kind(&plan.from, &cx, &mut vec![Datum::Null; plan.width], &mut |row| {
            if !self.is_keyed(keyed, &cx, row, &mut key)? {
                return Ok(Flow::More);
            }
            self.project(&plan.project[..plan.visible], &cx, row, &mut shown)?;
            if held.take(key.len() + SEEN_LEN + row_memory(&shown)).is_err() {
                fits = false;
                return Ok(Flow::Stop);
            }
            table.entry(key.as_slice().into()).or_default().push(std::mem::take(&mut shown));
            Ok(Flow::More)
        })?;
        if self.missed.any() {
            return Ok(None);
        }
        let table = fits.then(|| Rc::new(table));
        if table.is_some() {
            held.keep();
        }
        let known = table.as_ref().map_or(Keyed::OneByOne, |table| Keyed::Table(Rc::clone(table)));
        self.keyed.borrow_mut().insert(plan.id, known);
        Ok(table)
    }

    /// Whether some row around a subquery may go with this one of its rows, by the key that is written then.
    fn is_keyed(&self, keyed: &KeyedRows, cx: &Cx<'_>, row: &[Datum], key: &mut Vec<u8>) -> Halt<bool> {
        if let Some(filter) = &keyed.filter
            && !eval_filter(filter, &cx.row(row)).map_err(|error| self.halt(error))?
        {
            return Ok(false);
        }
        self.join_key(&keyed.own, cx, row, key)
    }
}
