//! LEFT JOINs of which no row without a match is wanted: inner joins, which may begin with either side.
//!
//! `FROM a LEFT JOIN b ON … WHERE b.n = 5`: where `b` has no match its columns are NULL, the condition is not true, and the row goes. What such
//! conditions want of relations holds for the joins below them.

use rustc_hash::FxHashSet;

use super::from_clause::FromTree;
use super::level::Level;
use crate::expr::{BoundExpr, CompareOp, ExprKind, SubqueryTest};

/// Relations that have a row of their own in each row that is left.
type Wanted = FxHashSet<usize>;

/// Turns the LEFT JOINs of a FROM list into inner joins whose rows without a match the conditions drop.
pub(super) fn reduce(trees: &mut [FromTree], level: &Level, conditions: &[BoundExpr]) {
    let has_left = trees.iter().any(has_left_join);
    if !has_left {
        return;
    }
    let mut wanted = Wanted::default();
    conditions.iter().for_each(|condition| add_wanted(condition, level, &mut wanted));
    trees.iter_mut().for_each(|tree| reduce_tree(tree, level, &wanted));
}

/// The relations that may have no row where others have one.
pub(super) fn optional(trees: &[FromTree]) -> Vec<usize> {
    let mut found = Vec::new();
    trees.iter().for_each(|tree| add_optional(tree, false, &mut found));
    found
}

fn add_optional(tree: &FromTree, is_optional: bool, into: &mut Vec<usize>) {
    match tree {
        FromTree::Relation(index) => into.extend(is_optional.then_some(*index)),
        FromTree::Join { left, right, left_outer, .. } => {
            add_optional(left, is_optional, into);
            add_optional(right, is_optional || *left_outer, into);
        }
    }
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
    if *left_outer && has_wanted(right, wanted) {
        *left_outer = false;
    }
    let mut of_matches = wanted.clone();
    on.iter().for_each(|condition| add_wanted(condition, level, &mut of_matches));
    // Rows of the left side are there without a match, too, so what the join wants is not wanted of them.
    reduce_tree(left, level, if *left_outer { wanted } else { &of_matches });
    reduce_tree(right, level, &of_matches);
}

fn has_wanted(tree: &FromTree, wanted: &Wanted) -> bool {
    match tree {
        FromTree::Relation(index) => wanted.contains(index),
        FromTree::Join { left, right, .. } => has_wanted(left, wanted) || has_wanted(right, wanted),
    }
}

/// Adds the relations of which one without a row keeps a condition from being true.
fn add_wanted(condition: &BoundExpr, level: &Level, wanted: &mut Wanted) {
    match &condition.kind {
        ExprKind::And(parts) => parts.iter().for_each(|part| add_wanted(part, level, wanted)),
        ExprKind::Or(parts) => add_common(parts, level, wanted, add_wanted),
        ExprKind::IsNull { expr, negated: true } => add_strict(expr, level, wanted),
        ExprKind::IsBool { expr, negated: false, .. } => add_strict(expr, level, wanted),
        // A value is among none of an empty array, and all of one are as any value is.
        ExprKind::CompareArray { all: false, left, .. } => add_strict(left, level, wanted),
        ExprKind::CallArray { all: false, left, function, .. } if function.0.strict => {
            add_strict(left, level, wanted);
        }
        ExprKind::Subquery(subquery) => {
            if let SubqueryTest::Compare { all: false, columns } = &subquery.test
                && (columns.len() == 1 || columns.iter().all(|column| column.op == CompareOp::Eq))
            {
                columns.iter().for_each(|column| add_strict(&column.left, level, wanted));
            }
        }
        _ => add_strict(condition, level, wanted),
    }
}

/// Adds the relations of which one without a row, NULL in all its columns, makes a value NULL.
fn add_strict(expr: &BoundExpr, level: &Level, wanted: &mut Wanted) {
    match &expr.kind {
        ExprKind::Column(slot) => {
            wanted.insert(level.column_of(*slot).0);
        }
        ExprKind::Compare { left, right, .. } => {
            add_strict(left, level, wanted);
            add_strict(right, level, wanted);
        }
        ExprKind::Cast { expr, .. } | ExprKind::Not(expr) | ExprKind::InList { expr, .. } => {
            add_strict(expr, level, wanted);
        }
        ExprKind::And(parts) | ExprKind::Or(parts) => add_common(parts, level, wanted, add_strict),
        ExprKind::Call { function, args } if function.0.strict => {
            args.iter().for_each(|arg| add_strict(arg, level, wanted));
        }
        _ => {}
    }
}

/// Adds what `add` adds of each of the parts.
fn add_common(
    parts: &[BoundExpr],
    level: &Level,
    wanted: &mut Wanted,
    add: fn(&BoundExpr, &Level, &mut Wanted),
) {
    let mut common: Option<Wanted> = None;
    for part in parts {
        let mut of_part = Wanted::default();
        add(part, level, &mut of_part);
        match &mut common {
            None => common = Some(of_part),
            Some(common) => common.retain(|relation| of_part.contains(relation)),
        }
        if common.as_ref().is_some_and(Wanted::is_empty) {
            return;
        }
    }
    wanted.extend(common.into_iter().flatten());
}
