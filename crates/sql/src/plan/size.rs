//! What a plan takes in memory, by estimate. Most of it is foreseen by the length of the statement's text; what a `*`, a view, and a table's checks
//! and defaults stand for is not.

use types::Datum;

use super::point_plan::{
    ChangeSource, ConflictAction, InsertSource, Node, NodeKind, PointPlan, PointStatement, ReturningPlan,
    SelectPlan,
};
use super::{BoundPlan, CheckPlan, OutputColumn, PlanKind};
use crate::expr::{BoundExpr, ExprKind};

/// A column of the result: as it is planned, and as the client is told of it.
const OUTPUT_SIZE: usize = 2 * size_of::<OutputColumn>();

impl BoundPlan {
    /// Bytes, by estimate.
    pub fn size(&self) -> usize {
        let names: usize = self.output.iter().map(|column| 2 * column.name.len()).sum();
        let of_path = match &self.kind {
            PlanKind::Point(plan) => size_of_plan(plan),
            // It keeps the query, which is the statement's.
            PlanKind::Analytic { .. } => 0,
        };
        OUTPUT_SIZE * self.output.len() + names + of_path
    }
}

fn size_of_plan(plan: &PointPlan) -> usize {
    let mut sum = Sum(0);
    sum.statement(&plan.statement);
    plan.parts.iter().for_each(|part| sum.statement(&part.statement));
    plan.subqueries.iter().for_each(|subquery| sum.select(subquery));
    for cascade in &plan.cascades {
        sum.values(&cascade.generated);
        sum.checks(&cascade.checks);
    }
    sum.0
}

struct Sum(usize);

impl Sum {
    fn expr(&mut self, expr: &BoundExpr) {
        expr.walk(&mut |node| {
            self.0 += size_of::<BoundExpr>();
            if let ExprKind::Const(value) = &node.kind {
                self.0 += Datum::heap_bytes(value);
            }
            true
        });
    }

    fn exprs<'e>(&mut self, exprs: impl IntoIterator<Item = &'e BoundExpr>) {
        exprs.into_iter().for_each(|expr| self.expr(expr));
    }

    fn checks(&mut self, checks: &[CheckPlan]) {
        self.exprs(checks.iter().map(|check| &check.condition));
    }

    fn values(&mut self, values: &[(usize, BoundExpr)]) {
        self.exprs(values.iter().map(|(_, value)| value));
    }

    fn names(&mut self, names: &[String]) {
        self.0 += names.iter().map(|name| size_of::<String>() + name.len()).sum::<usize>();
    }

    fn returning(&mut self, returning: Option<&ReturningPlan>) {
        self.exprs(returning.into_iter().flat_map(|returning| &returning.project));
    }

    fn source(&mut self, source: &ChangeSource) {
        if let ChangeSource::Node(node) = source {
            node.for_each_expr(0, &mut |expr, _| self.expr(expr));
            self.derived(node);
        }
    }

    fn statement(&mut self, statement: &PointStatement) {
        match statement {
            PointStatement::Select(select) => self.select(select),
            PointStatement::Insert(insert) => {
                match &insert.source {
                    InsertSource::Values(rows) => self.exprs(rows.iter().flatten()),
                    InsertSource::Select { plan, row } => {
                        self.select(plan);
                        self.exprs(row);
                    }
                    InsertSource::External { row, otherwise, .. } => self.exprs(row.iter().chain(otherwise)),
                }
                self.values(&insert.generated);
                self.checks(&insert.checks);
                if let Some(ConflictAction::Update { assignments, condition, .. }) = &insert.on_conflict {
                    self.exprs(assignments.iter().map(|(_, value)| value).chain(condition));
                }
                self.returning(insert.returning.as_ref());
            }
            PointStatement::Update(update) => {
                self.names(&update.slot_names);
                self.source(&update.source);
                self.values(&update.assignments);
                self.values(&update.generated);
                self.checks(&update.checks);
                self.returning(update.returning.as_ref());
            }
            PointStatement::Delete(delete) => {
                self.names(&delete.slot_names);
                self.source(&delete.source);
                self.returning(delete.returning.as_ref());
            }
        }
    }

    /// A level, with those of its FROM.
    fn select(&mut self, select: &SelectPlan) {
        select.for_each_expr(0, &mut |expr, _| self.expr(expr));
        if let Some(keyed) = &select.keyed {
            self.exprs(keyed.own.iter().chain(&keyed.outer).chain(&keyed.filter));
        }
        self.names_of(select);
    }

    /// The names of a level's slots and those within, whose expressions are counted already.
    fn names_of(&mut self, select: &SelectPlan) {
        self.names(&select.slot_names);
        self.derived(&select.from);
    }

    fn derived(&mut self, node: &Node) {
        match &node.kind {
            NodeKind::Derived { plans, .. } => plans.iter().for_each(|plan| self.names_of(plan)),
            NodeKind::NestedLoop { left, right, .. } | NodeKind::HashJoin { left, right, .. } => {
                self.derived(left);
                self.derived(right);
            }
            _ => {}
        }
    }
}
