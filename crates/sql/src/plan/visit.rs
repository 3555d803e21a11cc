//! Walks over all expressions of a plan.

use rustc_hash::FxHashSet;

use super::point_plan::{AccessPath, KeyPart, Node, NodeKind, SelectPlan, TableFunction};
use crate::expr::{BoundExpr, ExprKind, SubqueryId};

impl SelectPlan {
    /// Every expression of this level; those of derived tables are one level further in.
    pub(super) fn for_each_expr<'a>(&'a self, depth: usize, f: &mut dyn FnMut(&'a BoundExpr, usize)) {
        self.from.for_each_expr(depth, f);
        if let Some(aggregate) = &self.aggregate {
            aggregate.keys.iter().for_each(|e| f(e, depth));
            for call in &aggregate.calls {
                call.args.iter().for_each(|e| f(e, depth));
                call.filter.iter().for_each(|e| f(e, depth));
                call.order_by.iter().for_each(|key| f(&key.expr, depth));
            }
            aggregate.having.iter().for_each(|e| f(e, depth));
        }
        self.project.iter().for_each(|e| f(e, depth));
        self.limit.iter().for_each(|e| f(e, depth));
        self.offset.iter().for_each(|e| f(e, depth));
    }
}

impl Node {
    pub(super) fn for_each_expr<'a>(&'a self, depth: usize, f: &mut dyn FnMut(&'a BoundExpr, usize)) {
        self.filter.iter().for_each(|e| f(e, depth));
        match &self.kind {
            NodeKind::OneRow => {}
            NodeKind::Scan(scan) => scan.path.for_each_expr(&mut |e| f(e, depth)),
            NodeKind::Values { rows, .. } => rows.iter().flatten().for_each(|e| f(e, depth)),
            NodeKind::Derived { plans, .. } => plans.iter().for_each(|plan| plan.for_each_expr(depth + 1, f)),
            NodeKind::Common { .. } => {}
            NodeKind::Function { function, .. } => match function {
                TableFunction::Series { start, stop, step, .. } => {
                    f(start, depth);
                    f(stop, depth);
                    step.iter().for_each(|e| f(e, depth));
                }
                TableFunction::Unnest(arrays) => arrays.iter().for_each(|e| f(e, depth)),
                TableFunction::Scalar(expr) => f(expr, depth),
            },
            NodeKind::NestedLoop { left, right, .. } => {
                left.for_each_expr(depth, f);
                right.for_each_expr(depth, f);
            }
            NodeKind::HashJoin { left, right, left_keys, right_keys, on, .. } => {
                left.for_each_expr(depth, f);
                right.for_each_expr(depth, f);
                left_keys.iter().chain(right_keys).chain(on).for_each(|e| f(e, depth));
            }
        }
    }
}

impl AccessPath {
    pub(super) fn for_each_expr<'a>(&'a self, f: &mut dyn FnMut(&'a BoundExpr)) {
        match self {
            AccessPath::Full { .. } => {}
            AccessPath::Index { parts, lower, upper, .. } => {
                for part in parts {
                    match part {
                        KeyPart::Equal(expr, _) | KeyPart::AnyOf(expr, _) => f(expr),
                        KeyPart::OneOf(items, _) => items.iter().for_each(&mut *f),
                        KeyPart::InRows(..) | KeyPart::Null => {}
                    }
                }
                lower.iter().chain(upper).for_each(|bound| f(&bound.value));
            }
            AccessPath::Alternatives(ways) => {
                for way in ways {
                    way.path.for_each_expr(f);
                    f(&way.condition);
                }
            }
        }
    }
}

/// Calls `f` for each column of the row `depth` levels out that `expr`, or a subquery in it, names. `subquery` looks
/// subqueries up.
pub(super) fn outer_columns(
    expr: &BoundExpr,
    depth: usize,
    subquery: &dyn Fn(SubqueryId, &mut dyn FnMut(&SelectPlan)),
    f: &mut dyn FnMut(usize),
) {
    columns_within(expr, depth, subquery, &mut FxHashSet::default(), f);
}

/// `seen`: the subqueries that were looked into, and how deep they are. Operands that are compared several times are several copies of one
/// subquery, and so may those within it be.
fn columns_within(
    expr: &BoundExpr,
    depth: usize,
    subquery: &dyn Fn(SubqueryId, &mut dyn FnMut(&SelectPlan)),
    seen: &mut FxHashSet<(SubqueryId, usize)>,
    f: &mut dyn FnMut(usize),
) {
    expr.walk(&mut |node| {
        match &node.kind {
            ExprKind::Column(index) if depth == 0 => f(*index),
            ExprKind::Outer { depth: out, index } if *out == depth && depth > 0 => f(*index),
            ExprKind::Subquery(inner) if inner.correlated && seen.insert((inner.id, depth)) => {
                subquery(inner.id, &mut |plan| {
                    plan.for_each_expr(depth + 1, &mut |e, at| columns_within(e, at, subquery, seen, f));
                });
            }
            _ => {}
        }
        true
    });
}
