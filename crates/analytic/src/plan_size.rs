//! Bounds on what DataFusion's planner is given: it walks plans by recursion, and a common table that is a part of two plans twice.
//!
//! Plans share their inputs, so a short WITH list can stand for more nodes than there is memory. They are counted once each
//! here, without recursion, before anything else walks them.

use base::limits::NESTING_MAX;
use base::{SqlError, SqlResult, SqlState};
use datafusion::logical_expr::LogicalPlan;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::common_table::{CommonRows, read_by};

/// Nodes of a plan, shared ones counted at each use, those of a common table with a plan of its own once.
const NODES_MAX: u64 = 50_000;

#[derive(Clone, Copy)]
struct Size {
    nodes: u64,
    depth: usize,
}

/// # Errors
/// 54001 for a plan too deep or too large.
pub(crate) fn check(plan: &LogicalPlan) -> SqlResult<()> {
    let mut known: FxHashMap<*const LogicalPlan, Size> = FxHashMap::default();
    let mut counted: FxHashSet<*const CommonRows> = FxHashSet::default();
    let mut waiting = vec![plan];
    while let Some(&node) = waiting.last() {
        let common = read_by(node);
        let inputs = common.map_or_else(|| node.inputs(), |common| vec![&common.plan]);
        let before = waiting.len();
        waiting.extend(inputs.iter().filter(|input| !known.contains_key(&std::ptr::from_ref(**input))));
        if waiting.len() > before {
            continue;
        }
        waiting.pop();
        let mut size = Size { nodes: 1, depth: 1 };
        for input in inputs {
            let input = known[&std::ptr::from_ref(input)];
            if common.is_none_or(|common| counted.insert(std::ptr::from_ref(common))) {
                size.nodes = size.nodes.saturating_add(input.nodes);
            }
            size.depth = size.depth.max(input.depth + 1);
        }
        if size.depth > NESTING_MAX {
            return Err(sql::parse::too_deep());
        }
        if size.nodes > NODES_MAX {
            return Err(SqlError::new(
                SqlState::STATEMENT_TOO_COMPLEX,
                format!("the query's plan has more than {NODES_MAX} nodes"),
            )
            .with_hint("Each use of a common table is planned for itself."));
        }
        known.insert(std::ptr::from_ref(node), size);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use datafusion::logical_expr::LogicalPlanBuilder;

    use super::*;

    fn state(plan: LogicalPlanBuilder) -> Option<SqlState> {
        check(&plan.build().unwrap()).err().map(|error| error.state())
    }

    #[test]
    fn plans_that_double_or_pile_up_are_refused() {
        let one = || LogicalPlanBuilder::empty(true);
        let pile = |levels| (0..levels).try_fold(one(), |plan, _| plan.limit(0, Some(1))).unwrap();
        assert_eq!(state(pile(1000)), None);
        assert_eq!(state(pile(NESTING_MAX)), Some(SqlState::STATEMENT_TOO_COMPLEX));
        let double = |levels| {
            (0..levels).fold(one(), |plan, _| {
                let twice = plan.clone().build().unwrap();
                plan.union(twice).unwrap()
            })
        };
        assert_eq!(state(double(10)), None);
        assert_eq!(state(double(60)), Some(SqlState::STATEMENT_TOO_COMPLEX));
    }
}
