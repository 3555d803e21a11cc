//! Which plans come by no place where a run of them could be suspended: they look rows up by whole keys, one of each table at most, and work out
//! little of them. To give such a run a stack of its own is of no use.
//!
//! A run looks whether it is to end after some hundred rows, in functions that may take long, and where foreign keys reach for many rows. A plan
//! that is not told to be short here may be so all the same.

use types::PgType;

use super::point_plan::{
    AccessPath, ChangeSource, CheckPlan, DeletePlan, DistinctPlan, InsertPlan, InsertSource, KeyPart, Node,
    NodeKind, PointPlan, PointStatement, ReturningPlan, ScanNode, SelectPlan, UpdatePlan,
};
use crate::expr::{BoundExpr, ExprKind};

/// Operators that look at nothing between their operands and their value, where these are numbers.
const ARITHMETIC: &[&str] = &["+", "-", "*", "/", "%"];

/// Functions without arguments that know their value.
const CLOCKS: &[&str] = &["current_timestamp", "now", "statement_timestamp", "transaction_timestamp"];

impl PointPlan {
    /// Whether no run of it can be suspended, whatever its parameters and the rows.
    pub(crate) fn is_short(&self) -> bool {
        let is_alone = self.parts.is_empty()
            && self.subqueries.is_empty()
            && self.external.is_none()
            && self.cascades.is_empty()
            && self.cost_of_leading_row.is_none();
        is_alone
            && match &self.statement {
                PointStatement::Select(select) => is_short_select(select),
                PointStatement::Insert(insert) => is_short_insert(insert),
                PointStatement::Update(update) => is_short_update(update),
                PointStatement::Delete(delete) => is_short_delete(delete),
            }
    }
}

fn is_short_select(select: &SelectPlan) -> bool {
    select.aggregate.is_none()
        && matches!(select.distinct, DistinctPlan::No)
        && select.sort.is_empty()
        && select.limit.is_none()
        && select.offset.is_none()
        && is_short_node(&select.from)
        && select.project.iter().all(is_short)
}

fn is_short_insert(insert: &InsertPlan) -> bool {
    let InsertSource::Values(rows) = &insert.source else { return false };
    rows.len() == 1
        && rows[0].iter().all(is_short)
        && insert.on_conflict.is_none()
        && insert.generated.iter().all(|(_, value)| is_short(value))
        && are_short(&insert.checks, insert.returning.as_ref())
}

fn is_short_update(update: &UpdatePlan) -> bool {
    let ChangeSource::Node(from) = &update.source else { return false };
    // One of columns that foreign keys have an interest in may change many rows.
    update.in_part
        && !update.joined
        && is_short_node(from)
        && update.assignments.iter().all(|(_, value)| is_short(value))
        && are_short(&update.checks, update.returning.as_ref())
}

fn is_short_delete(delete: &DeletePlan) -> bool {
    let ChangeSource::Node(from) = &delete.source else { return false };
    delete.table.referenced_by.is_empty()
        && !delete.joined
        && is_short_node(from)
        && are_short(&[], delete.returning.as_ref())
}

fn are_short(checks: &[CheckPlan], returning: Option<&ReturningPlan>) -> bool {
    checks.iter().all(|check| is_short(&check.condition))
        && returning.is_none_or(|returning| returning.project.iter().all(is_short))
}

fn is_short_node(node: &Node) -> bool {
    let finds_little = match &node.kind {
        NodeKind::OneRow => true,
        NodeKind::Scan(scan) => node.finds_one_row() && has_short_key(scan),
        NodeKind::NestedLoop { left, right, .. } => is_short_node(left) && is_short_node(right),
        _ => false,
    };
    finds_little && node.filter.iter().all(is_short)
}

fn has_short_key(scan: &ScanNode) -> bool {
    let AccessPath::Index { parts, .. } = &scan.path else { return false };
    parts.iter().all(|part| match part {
        KeyPart::Equal(value, _) => is_short(value),
        KeyPart::Null => true,
        _ => false,
    })
}

/// Whether nothing is looked at while an expression is worked out.
fn is_short(expr: &BoundExpr) -> bool {
    match &expr.kind {
        ExprKind::Const(_) | ExprKind::Column(_) | ExprKind::Param(_) => true,
        ExprKind::Compare { left, right, .. } => is_short(left) && is_short(right),
        ExprKind::And(parts) | ExprKind::Or(parts) | ExprKind::Coalesce(parts) => parts.iter().all(is_short),
        ExprKind::Not(inner) | ExprKind::IsNull { expr: inner, .. } => is_short(inner),
        ExprKind::Cast { expr: inner, .. } => is_short_cast(inner.ty, expr.ty) && is_short(inner),
        ExprKind::Call { function, args } if args.is_empty() => CLOCKS.contains(&function.0.name),
        ExprKind::Call { function, args } => {
            ARITHMETIC.contains(&function.0.name)
                && args.iter().all(|arg| arg.ty.is_numeric() && is_short(arg))
        }
        _ => false,
    }
}

fn is_short_cast(from: PgType, to: PgType) -> bool {
    let is_moment = |ty| matches!(ty, PgType::Date | PgType::Timestamp | PgType::TimestampTz);
    from == to
        || (from.is_numeric() && to.is_numeric())
        || (from.is_string() && to.is_string())
        || (is_moment(from) && is_moment(to))
}
