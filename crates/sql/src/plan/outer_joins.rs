//! LEFT JOINs of which no row without a match is wanted: inner joins, which may begin with either side.
//!
//! `FROM a LEFT JOIN b ON … WHERE b.n = 5`: where `b` has no match its columns are NULL, the condition is not true, and the row goes. What such
//! conditions want of columns holds for the joins below them.

use rustc_hash::FxHashSet;

use super::from_clause::FromTree;
use super::level::Level;
use crate::expr::{BoundExpr, ExprKind};

/// Slots that are not NULL in any row that is left.
type Wanted = FxHashSet<usize>;

/// Turns the LEFT JOINs of a FROM list into inner joins whose rows without a match the conditions drop.
pub(super) fn reduce(trees: &mut [FromTree], level: &Level, conditions: &[BoundExpr]) {
    let has_left = trees.iter().any(has_left_join);
    if !has_left {
        return;
    }
    let mut wanted = Wanted::default();
    conditions.iter().for_each(|condition| add_wanted(condition, &mut wanted));
    trees.iter_mut().for_each(|tree| reduce_tree(tree, level, &wanted));
}

fn has_left_join(tree: &FromTree) -> bool {
    match tree {
        FromTree::Relation(_) => false,
        FromTree::Join { left, right, left_outer, .. } => {
            *left_outer || has_left_join(left) || has_left_join(right)
        }
    }
}

fn reduce_tree(tree: &mut FromTree, level: &Level, wanted: &Wanted) {
    let FromTree::Join { left, right, left_outer, on } = tree else { return };
    if *left_outer && has_wanted(right, level, wanted) {
        *left_outer = false;
    }
    let mut of_matches = wanted.clone();
    on.iter().for_each(|condition| add_wanted(condition, &mut of_matches));
    // Rows of the left side are there without a match, too, so what the join wants is not wanted of them.
    reduce_tree(left, level, if *left_outer { wanted } else { &of_matches });
    reduce_tree(right, level, &of_matches);
}

fn has_wanted(tree: &FromTree, level: &Level, wanted: &Wanted) -> bool {
    match tree {
        FromTree::Relation(index) => {
            let relation = &level.relations[*index];
            (relation.first..relation.first + relation.columns.len()).any(|slot| wanted.contains(&slot))
        }
        FromTree::Join { left, right, .. } => {
            has_wanted(left, level, wanted) || has_wanted(right, level, wanted)
        }
    }
}

/// Adds the slots of which one that is NULL keeps a condition from being true.
fn add_wanted(condition: &BoundExpr, wanted: &mut Wanted) {
    match &condition.kind {
        ExprKind::And(parts) => parts.iter().for_each(|part| add_wanted(part, wanted)),
        ExprKind::IsNull { expr, negated: true } => add_strict(expr, wanted),
        ExprKind::IsBool { expr, negated: false, .. } => add_strict(expr, wanted),
        // A value is among none of an empty array, and all of one are as any value is.
        ExprKind::CompareArray { all: false, left, .. } => add_strict(left, wanted),
        _ => add_strict(condition, wanted),
    }
}

/// Adds the slots of which one that is NULL makes a value NULL.
fn add_strict(expr: &BoundExpr, wanted: &mut Wanted) {
    match &expr.kind {
        ExprKind::Column(slot) => {
            wanted.insert(*slot);
        }
        ExprKind::Compare { left, right, .. } => {
            add_strict(left, wanted);
            add_strict(right, wanted);
        }
        ExprKind::Cast { expr, .. } | ExprKind::Not(expr) | ExprKind::InList { expr, .. } => {
            add_strict(expr, wanted)
        }
        ExprKind::Call { function, args } if function.0.strict => {
            args.iter().for_each(|arg| add_strict(arg, wanted));
        }
        _ => {}
    }
}
