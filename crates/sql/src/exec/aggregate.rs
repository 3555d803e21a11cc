//! GROUP BY and aggregates, by a hash table of groups in order of their first rows.

use rustc_hash::{FxHashMap, FxHashSet};
use types::{Datum, Row, row_memory};

use super::node::Emit;
use super::row_key::{push_key_of, row_key};
use super::select::{SEEN_LEN, compare_nullable};
use super::{Cx, Flow, Halt, Run};
use crate::expr::{Accumulator, AggregateCall, eval_filter};
use crate::memory_bound::Held;
use crate::plan::{AggregatePlan, Node};

/// One group: a row of it, its keys, the states of its aggregates.
struct Group {
    row: Row,
    keys: Row,
    states: Vec<State>,
}

/// One aggregate over one group.
struct State {
    accumulator: Accumulator,
    /// Most bytes of a value that it kept.
    bytes: usize,
    /// The arguments met, for DISTINCT.
    seen: Option<FxHashSet<Box<[u8]>>>,
    /// Sort keys and arguments, for ORDER BY within the aggregate, and for DISTINCT where an order shows.
    waiting: Vec<(Row, Row)>,
}

impl State {
    fn new(call: &AggregateCall) -> State {
        let seen = call.distinct.then(FxHashSet::default);
        State { accumulator: call.start(), bytes: 0, seen, waiting: Vec::new() }
    }
}

impl Run<'_, '_> {
    /// Emits a row for each group: the slots of one of its rows, then its keys, then its aggregates.
    pub(super) fn aggregate(
        &self,
        plan: &AggregatePlan,
        from: &Node,
        cx: &Cx<'_>,
        row: &mut Vec<Datum>,
        emit: Emit<'_>,
    ) -> Halt<Flow> {
        let (mut groups, mut held): (Vec<Group>, _) = (Vec::new(), self.memory.hold());
        let mut by_key: FxHashMap<Box<[u8]>, usize> = FxHashMap::default();
        let start = |row: &[Datum], keys: Row| Group {
            row: row.to_vec(),
            keys,
            states: plan.calls.iter().map(State::new).collect(),
        };
        if !plan.grouped {
            groups.push(start(row, Row::new()));
        }
        let mut keys = Row::with_capacity(plan.keys.len());
        let mut key = Vec::new();
        let mut args = Row::new();
        let mut first = true;
        self.node_to_end(from, !plan.first_row_decides, cx, row, &mut |row| {
            let at = if plan.grouped {
                self.project(&plan.keys, cx, row, &mut keys)?;
                key.clear();
                plan.keys.iter().zip(&keys).for_each(|(expr, value)| push_key_of(expr.ty, value, &mut key));
                match by_key.get(key.as_slice()) {
                    Some(at) => *at,
                    None => {
                        let rows = row_memory(row) + row_memory(&keys);
                        let states = plan.calls.len() * size_of::<State>();
                        self.hold(&mut held, 2 * key.len() + rows + states)?;
                        by_key.insert(key.as_slice().into(), groups.len());
                        groups.push(start(row, std::mem::take(&mut keys)));
                        groups.len() - 1
                    }
                }
            } else {
                if std::mem::take(&mut first) {
                    groups[0].row.clone_from_slice(row);
                }
                0
            };
            let mut decided = plan.first_row_decides;
            for (call, state) in plan.calls.iter().zip(&mut groups[at].states) {
                decided &= self.accumulate(call, state, cx, row, &mut args, &mut held)?;
            }
            Ok(if decided { Flow::Stop } else { Flow::More })
        })?;
        let mut out = Row::new();
        for group in groups {
            self.step()?;
            out.clear();
            out.extend(group.row);
            out.extend(group.keys);
            for (call, state) in plan.calls.iter().zip(group.states) {
                out.push(finish(call, state)?);
            }
            if let Some(having) = &plan.having
                && !eval_filter(having, &cx.row(&out)).map_err(|error| self.halt(error))?
            {
                continue;
            }
            if emit(&mut out)? == Flow::Stop {
                return Ok(Flow::Stop);
            }
        }
        Ok(Flow::More)
    }

    /// Gives a row to an aggregate; answers whether its first argument had a value.
    fn accumulate(
        &self,
        call: &AggregateCall,
        state: &mut State,
        cx: &Cx<'_>,
        row: &[Datum],
        args: &mut Row,
        held: &mut Held<'_>,
    ) -> Halt<bool> {
        let ctx = cx.row(row);
        if let Some(filter) = &call.filter
            && !eval_filter(filter, &ctx).map_err(|error| self.halt(error))?
        {
            return Ok(false);
        }
        self.project(&call.args, cx, row, args)?;
        let valued = args.first().is_some_and(|value| !value.is_null());
        if let Some(seen) = &mut state.seen {
            let key = row_key(args, &call.args);
            let bytes = key.len() + SEEN_LEN;
            if !seen.insert(key) {
                return Ok(valued);
            }
            self.hold(held, bytes)?;
        }
        let sorted = is_sorted(call);
        if call.order_by.is_empty() && !sorted {
            if call.kind.gathers() {
                self.hold(held, row_memory(args))?;
            }
            state.accumulator.add(args)?;
            let bytes = if call.kind.gathers() { 0 } else { state.accumulator.heap_bytes() };
            if bytes > state.bytes {
                self.hold(held, bytes - state.bytes)?;
                state.bytes = bytes;
            }
            return Ok(valued);
        }
        let (mut keys, mut bytes) = (Row::with_capacity(call.order_by.len() + args.len()), 0);
        for key in &call.order_by {
            keys.push(self.part(&key.expr, &ctx, &mut bytes)?);
        }
        if sorted {
            keys.extend(args.iter().cloned());
        }
        self.hold(held, row_memory(&keys) + row_memory(args))?;
        state.waiting.push((keys, args.clone()));
        Ok(valued)
    }
}

/// Whether the arguments come in their own order, behind what ORDER BY says: DISTINCT sorts them, and it shows.
fn is_sorted(call: &AggregateCall) -> bool {
    call.distinct && call.kind.gathers()
}

fn finish(call: &AggregateCall, mut state: State) -> Halt<Datum> {
    state.waiting.sort_by(|(a, _), (b, _)| {
        call.order_by
            .iter()
            .map(|key| (key.descending, key.nulls_first))
            .chain(std::iter::repeat((false, false)))
            .zip(a.iter().zip(b))
            .map(|((descending, nulls_first), (a, b))| compare_nullable(a, b, descending, nulls_first))
            .find(|order| order.is_ne())
            .unwrap_or(std::cmp::Ordering::Equal)
    });
    for (_, args) in &state.waiting {
        state.accumulator.add(args)?;
    }
    Ok(state.accumulator.finish()?)
}
