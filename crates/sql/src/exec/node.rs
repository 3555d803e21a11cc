//! The nodes of FROM.

use std::ops::Range;
use std::rc::Rc;

use base::SqlResult;
use types::{Datum, Row, row_memory};

use super::{Cx, Flow, Halt, Key, Run};
use crate::expr::eval_filter;
use crate::memory_bound::{Held, require_row_len};
use crate::plan::{Node, NodeKind, SelectPlan};

/// Takes a row of a level and says whether more are wanted.
pub(super) type Emit<'e> = &'e mut dyn FnMut(&mut Vec<Datum>) -> Halt<Flow>;

impl Run<'_, '_> {
    /// Calls `emit` for each row of `node` that satisfies its filter.
    pub(super) fn node(&self, node: &Node, cx: &Cx<'_>, row: &mut Vec<Datum>, emit: Emit<'_>) -> Halt<Flow> {
        if let Some(profile) = self.limits.profile {
            let start = (profile.clock)();
            let mut away = base::Nanos(0);
            let (mut rows, mut filtered) = (0, 0);
            let flow = self.kind(node, cx, row, &mut |row| {
                if !self.passes(node, cx, row)? {
                    filtered += 1;
                    return Ok(Flow::More);
                }
                rows += 1;
                let left = (profile.clock)();
                let flow = emit(row);
                away += (profile.clock)() - left;
                flow
            });
            let spent = (profile.clock)() - start - away;
            profile.update(node.id, |n| {
                n.loops += 1;
                n.rows += rows;
                n.filtered += filtered;
                n.time += spent;
            });
            return flow;
        }
        if node.filter.is_none() {
            return self.kind(node, cx, row, emit);
        }
        self.kind(node, cx, row, &mut |row| match self.passes(node, cx, row)? {
            true => emit(row),
            false => Ok(Flow::More),
        })
    }

    #[inline]
    pub(super) fn passes(&self, node: &Node, cx: &Cx<'_>, row: &[Datum]) -> Halt<bool> {
        match &node.filter {
            Some(filter) => eval_filter(filter, &cx.row(row)).map_err(|error| self.halt(error)),
            None => Ok(true),
        }
    }

    /// Calls `emit` for each row of `node`, its filter left aside.
    pub(super) fn kind(&self, node: &Node, cx: &Cx<'_>, row: &mut Vec<Datum>, emit: Emit<'_>) -> Halt<Flow> {
        match &node.kind {
            NodeKind::OneRow => emit(row),
            NodeKind::Scan(scan) => self.scan(scan, cx, row, emit),
            NodeKind::Values { first, rows } => {
                for exprs in rows {
                    let (ctx, mut bytes) = (cx.row(&[]), 0);
                    for (i, expr) in exprs.iter().enumerate() {
                        row[first + i] = self.part(expr, &ctx, &mut bytes)?;
                    }
                    self.note_filled(bytes, cx, row)?;
                    if emit(row)? == Flow::Stop {
                        return Ok(Flow::Stop);
                    }
                }
                Ok(Flow::More)
            }
            NodeKind::Derived { first, plans, is_once, .. } => {
                for plan in plans {
                    let flow = if *is_once && !plan.correlated {
                        self.each_made(plan, *first, cx, row, emit)?
                    } else {
                        let (rows, _held) = self.derived(plan, cx, row)?;
                        self.each_kept(&rows, *first, cx, row, emit)?
                    };
                    if flow == Flow::Stop {
                        return Ok(Flow::Stop);
                    }
                }
                Ok(Flow::More)
            }
            NodeKind::Common { first, part, .. } => {
                let rows = self.part_rows(*part, cx)?;
                self.each_kept(&rows, *first, cx, row, emit)
            }
            NodeKind::Function { first, function, ordinality, .. } => {
                self.function(function, *first, *ordinality, cx, row, emit)
            }
            NodeKind::NestedLoop { left, right, left_outer, right_slots } => {
                self.node(left, cx, row, &mut |row| {
                    let mut matched = false;
                    let found = self.node(right, cx, row, &mut |row| {
                        matched = true;
                        emit(row)
                    });
                    let flow = self.past_miss(found)?;
                    if *left_outer && !matched && flow == Flow::More {
                        self.clear(right, right_slots, row);
                        return emit(row);
                    }
                    Ok(flow)
                })
            }
            NodeKind::HashJoin { left, right, left_keys, right_keys, on, left_outer, right_slots } => {
                let table = self.build(right, right_keys, right_slots, cx, row)?;
                self.node(left, cx, row, &mut |row| {
                    let matched =
                        self.probe_table(&table, left_keys, on.as_ref(), right_slots, cx, row, emit)?;
                    match matched {
                        None => Ok(Flow::Stop),
                        Some(false) if *left_outer => {
                            self.clear(right, right_slots, row);
                            emit(row)
                        }
                        Some(_) => Ok(Flow::More),
                    }
                })
            }
        }
    }

    /// Fills the slots of an outer join's missing side with NULL.
    fn clear(&self, node: &Node, slots: &Range<usize>, row: &mut [Datum]) {
        row[slots.clone()].fill(Datum::Null);
        self.forget_keys(node);
    }

    /// Looks at the rows under way once a relation's, of so many bytes, is among them: those of all relations and of the levels around are there at a
    /// time, and each may have what a whole row may.
    ///
    /// # Errors
    /// 54000 where they take more than one may.
    #[inline]
    pub(super) fn note_filled(&self, bytes: usize, cx: &Cx<'_>, row: &[Datum]) -> Halt<()> {
        if bytes < LONG_LEN { Ok(()) } else { Ok(require_rows_under_way(cx, row)?) }
    }

    fn forget_keys(&self, node: &Node) {
        let mut places = Vec::new();
        node.key_places(&mut places);
        places.into_iter().for_each(|place| self.remember_key(place, Key::new()));
    }

    /// Calls `emit` with each of some rows, put where the slots from `first` on are.
    fn each_kept(
        &self,
        rows: &[Row],
        first: usize,
        cx: &Cx<'_>,
        row: &mut Vec<Datum>,
        emit: Emit<'_>,
    ) -> Halt<Flow> {
        for values in rows {
            self.step()?;
            row[first..first + values.len()].clone_from_slice(values);
            self.note_filled(heap_len(values), cx, row)?;
            if emit(row)? == Flow::Stop {
                return Ok(Flow::Stop);
            }
        }
        Ok(Flow::More)
    }

    /// Calls `emit` with each row of a subquery in FROM when it is made. It depends on no other rows.
    fn each_made(
        &self,
        plan: &SelectPlan,
        first: usize,
        cx: &Cx<'_>,
        row: &mut Vec<Datum>,
        emit: Emit<'_>,
    ) -> Halt<Flow> {
        let outer = cx.row(&[]);
        let inner = Cx { stmt: cx.stmt, outer: Some(&outer) };
        let mut flow = Flow::More;
        self.select(plan, &inner, &mut |values| {
            row[first..first + values.len()].clone_from_slice(values);
            self.note_filled(heap_len(values), cx, row)?;
            flow = emit(row)?;
            Ok(flow)
        })?;
        Ok(flow)
    }

    /// The rows of a subquery in FROM; kept for the statement unless they depend on other rows.
    fn derived(&self, plan: &SelectPlan, cx: &Cx<'_>, row: &[Datum]) -> Halt<(Rc<Vec<Row>>, Held<'_>)> {
        let mut held = self.memory.hold();
        if !plan.correlated
            && let Some(rows) = self.kept.borrow().get(&plan.id)
        {
            return Ok((Rc::clone(rows), held));
        }
        let outer = cx.row(row);
        let inner = Cx { stmt: cx.stmt, outer: Some(&outer) };
        let mut rows = Vec::new();
        self.select(plan, &inner, &mut |row| {
            self.hold(&mut held, row_memory(row))?;
            rows.push(row.to_vec());
            Ok(Flow::More)
        })?;
        let rows = Rc::new(rows);
        if !plan.correlated {
            self.kept.borrow_mut().insert(plan.id, Rc::clone(&rows));
            held.keep();
        }
        Ok((rows, held))
    }
}

/// Rows of fewer bytes are not looked at: as many as a FROM may have are no more than a long one.
const LONG_LEN: usize = 1 << 20;

fn heap_len(row: &[Datum]) -> usize {
    row.iter().map(Datum::heap_bytes).sum()
}

#[cold]
fn require_rows_under_way(cx: &Cx<'_>, row: &[Datum]) -> SqlResult<()> {
    let mut bytes = heap_len(row);
    let mut around = cx.outer;
    while let Some(level) = around {
        bytes += heap_len(level.row);
        around = level.outer;
    }
    require_row_len(bytes)
}
