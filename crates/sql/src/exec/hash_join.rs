//! Hash joins: one side in a table by its keys.

use std::ops::Range;

use rustc_hash::FxHashMap;
use types::{Datum, PgType, Row, row_memory};

use super::node::Emit;
use super::row_key::push_key;
use super::{Cx, Flow, Halt, Run};
use crate::expr::{BoundExpr, eval_filter, eval_ref};
use crate::memory_bound::Held;
use crate::plan::Node;

/// The rows of a join's right side (its slots only), by key.
pub(super) struct JoinTable<'m> {
    rows: FxHashMap<Box<[u8]>, Vec<Row>>,
    held: Held<'m>,
}

impl Run<'_, '_> {
    pub(super) fn build(
        &self,
        right: &Node,
        keys: &[BoundExpr],
        slots: &Range<usize>,
        cx: &Cx<'_>,
        row: &mut Vec<Datum>,
    ) -> Halt<JoinTable<'_>> {
        let mut table = JoinTable { rows: FxHashMap::default(), held: self.memory.hold() };
        let mut key = Vec::new();
        self.node(right, cx, row, &mut |row| {
            if self.join_key(keys, cx, row, &mut key)? {
                let right = &row[slots.clone()];
                self.hold(&mut table.held, key.len() + row_memory(right))?;
                table.rows.entry(key.as_slice().into()).or_default().push(right.to_vec());
            }
            Ok(Flow::More)
        })?;
        Ok(table)
    }

    /// Emits the pairs of the current left row: whether there were any, or `None` when no more are wanted.
    #[expect(clippy::too_many_arguments, reason = "one probe of a join")]
    pub(super) fn probe_table(
        &self,
        table: &JoinTable<'_>,
        keys: &[BoundExpr],
        on: Option<&BoundExpr>,
        slots: &Range<usize>,
        cx: &Cx<'_>,
        row: &mut Vec<Datum>,
        emit: Emit<'_>,
    ) -> Halt<Option<bool>> {
        let mut key = Vec::new();
        if !self.join_key(keys, cx, row, &mut key)? {
            return Ok(Some(false));
        }
        let Some(matches) = table.rows.get(key.as_slice()) else { return Ok(Some(false)) };
        let mut matched = false;
        for values in matches {
            self.step()?;
            row[slots.clone()].clone_from_slice(values);
            let holds = match on {
                Some(on) => eval_filter(on, &cx.row(row)).map_err(|error| self.halt(error))?,
                None => true,
            };
            if holds {
                matched = true;
                if emit(row)? == Flow::Stop {
                    return Ok(None);
                }
            }
        }
        Ok(Some(matched))
    }

    /// Writes the key of a row; false if a part is NULL, which joins nothing.
    fn join_key(&self, keys: &[BoundExpr], cx: &Cx<'_>, row: &[Datum], out: &mut Vec<u8>) -> Halt<bool> {
        out.clear();
        let ctx = cx.row(row);
        for expr in keys {
            let value = eval_ref(expr, &ctx).map_err(|error| self.halt(error))?;
            match &*value {
                Datum::Null => return Ok(false),
                Datum::Text(text) if expr.ty == PgType::Bpchar => {
                    push_key(&Datum::text(text.trim_end_matches(' ')), out);
                }
                value => push_key(value, out),
            }
        }
        Ok(true)
    }
}
