//! Correlated subqueries over one table, or one query of FROM, whose rows are told by a key of the row around them, without an index that has it:
//! `EXISTS (SELECT 1 FROM u WHERE u.a = t.a)`. Run for each row they read the table as often as there are rows.

use super::join_order::hash_pair;
use super::point_plan::{AccessPath, KeyPart, NodeKind, SelectPlan};
use crate::expr::{BoundExpr, CompareOp, ExprKind, Volatility};

/// How the rows of a subquery are put into a table, once for the statement, and found there for each row around it.
#[derive(PartialEq, Debug)]
pub struct KeyedRows {
    /// The key over the subquery's own row.
    pub own: Vec<BoundExpr>,
    /// The same key over the rows around it.
    pub outer: Vec<BoundExpr>,
    /// What its rows must satisfy whatever is around them.
    pub filter: Option<BoundExpr>,
}

impl SelectPlan {
    /// The key that tells the rows of a correlated subquery, if there is one. Nothing is worked out then for rows that have another key than any row
    /// around them but what cannot fail.
    pub(super) fn keyed_rows(&self) -> Option<KeyedRows> {
        let is_alone = match &self.from.kind {
            NodeKind::Scan(scan) => !depends_on_others(&scan.path),
            NodeKind::Derived { plans, is_once, .. } => !is_once && plans.iter().all(|plan| !plan.correlated),
            _ => false,
        };
        let shows_values = |expr: &BoundExpr| matches!(expr.kind, ExprKind::Column(_) | ExprKind::Const(_));
        let is_plain =
            self.correlated && self.takes_rows_as_they_come() && self.project.iter().all(shows_values);
        if !is_plain || !is_alone {
            return None;
        }
        let (mut own, mut outer, mut rest) = (Vec::new(), Vec::new(), Vec::new());
        for conjunct in self.from.filter.clone()?.into_conjuncts() {
            match key_in(&conjunct) {
                Some((of_own, of_outer)) => {
                    own.push(of_own);
                    outer.push(of_outer);
                }
                None if is_safe(&conjunct) => rest.push(conjunct),
                None => return None,
            }
        }
        (!own.is_empty()).then(|| KeyedRows { own, outer, filter: BoundExpr::conjunction(rest) })
    }
}

fn depends_on_others(path: &AccessPath) -> bool {
    let mut depends = match path {
        AccessPath::Full { .. } => false,
        AccessPath::Index { parts, .. } => parts.iter().any(|part| matches!(part, KeyPart::InRows(..))),
        AccessPath::Alternatives(ways) => ways.iter().any(|way| depends_on_others(&way.path)),
    };
    path.for_each_expr(&mut |expr| depends |= expr.uses_outer() || expr.contains_subquery());
    depends
}

/// Both sides of an equality of something of the row with something of the rows around it, in one form.
fn key_in(conjunct: &BoundExpr) -> Option<(BoundExpr, BoundExpr)> {
    let ExprKind::Compare { op: CompareOp::Eq, left, right, .. } = &conjunct.kind else { return None };
    let is_own = |expr: &BoundExpr| is_safe(expr) && !expr.columns_used().is_empty();
    let is_outer = |expr: &BoundExpr| {
        expr.uses_outer()
            && expr.columns_used().is_empty()
            && !expr.contains_subquery()
            && expr.volatility() != Volatility::Volatile
    };
    [(left, right), (right, left)]
        .into_iter()
        .find(|(own, outer)| is_own(own) && is_outer(outer))
        .and_then(|(own, outer)| hash_pair(own, outer))
}

/// Whether it is worked out of the row alone, and cannot fail.
fn is_safe(expr: &BoundExpr) -> bool {
    !expr.uses_outer() && cannot_fail(expr)
}

/// Whether it has a value for all rows, of which nothing but columns is looked at.
pub(super) fn cannot_fail(expr: &BoundExpr) -> bool {
    !expr.any(&mut |node| match &node.kind {
        ExprKind::Column(_)
        | ExprKind::Outer { .. }
        | ExprKind::Const(_)
        | ExprKind::Param(_)
        | ExprKind::Compare { .. }
        | ExprKind::IsDistinct { .. }
        | ExprKind::And(_)
        | ExprKind::Or(_)
        | ExprKind::Not(_)
        | ExprKind::IsNull { .. }
        | ExprKind::IsBool { .. }
        | ExprKind::InList { .. } => false,
        ExprKind::Cast { expr, .. } => {
            let is_as_wide = !node.ty.is_integer() || expr.ty.type_len() <= node.ty.type_len();
            let is_number = expr.ty.is_integer() && node.ty.is_numeric() && is_as_wide;
            let is_text = expr.ty.is_string() && node.ty.is_string();
            !(node.typmod.is_none() && (is_number || is_text))
        }
        _ => true,
    })
}
