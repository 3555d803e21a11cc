//! GROUP BY and aggregates: expressions over a group instead of over a row.

use base::{SqlError, SqlResult, SqlState};

use super::binder::Binder;
use super::level::{Level, RelationSource};
use super::visit::outer_columns;
use crate::expr::{AggregateCall, BoundExpr, ExprKind};

/// Rewrites expressions to the row after grouping: the slots of one row of the group, then keys, then aggregates.
pub(super) struct Grouping<'a> {
    binder: &'a Binder<'a>,
    level: &'a Level,
    keys: Vec<BoundExpr>,
    calls: Vec<AggregateCall>,
    /// Slots with one value for each group.
    fixed: Vec<bool>,
}

impl<'a> Grouping<'a> {
    pub(super) fn new(binder: &'a Binder<'a>, level: &'a Level, keys: Vec<BoundExpr>) -> Grouping<'a> {
        let mut fixed = vec![false; level.width];
        for key in &keys {
            if let Some(slot) = key.as_column() {
                fixed[slot] = true;
            }
        }
        for relation in &level.relations {
            // A whole primary key among the keys determines the other columns of its table.
            if let Some(RelationSource::Table(table)) = &relation.source
                && let Some(primary) = table.primary_index()
                && primary.column_positions().all(|column| fixed[relation.first + column])
            {
                fixed[relation.first..relation.first + relation.columns.len()].fill(true);
            }
        }
        Grouping { binder, level, keys, calls: Vec::new(), fixed }
    }

    /// # Errors
    /// 42803 for a column that is neither grouped by nor aggregated.
    pub(super) fn rewrite(&mut self, expr: &mut BoundExpr) -> SqlResult<()> {
        let width = self.level.width;
        let mut ungrouped: Option<(usize, bool)> = None;
        let (keys, calls, fixed) = (&self.keys, &mut self.calls, &self.fixed);
        let binder = self.binder;
        expr.rewrite(&mut |node| {
            if let Some(key) = keys.iter().position(|key| key == node)
                && node.as_column().is_none()
            {
                return Some(BoundExpr::column(width + key, node.ty, node.typmod));
            }
            match &node.kind {
                ExprKind::Aggregate(call) => {
                    let at = calls.iter().position(|c| c == &**call).unwrap_or_else(|| {
                        calls.push((**call).clone());
                        calls.len() - 1
                    });
                    Some(BoundExpr::column(width + keys.len() + at, node.ty, node.typmod))
                }
                ExprKind::Column(slot) if !fixed[*slot] => {
                    ungrouped.get_or_insert((*slot, false));
                    None
                }
                ExprKind::Subquery(subquery) if subquery.correlated => {
                    let id = subquery.id;
                    binder.with_subquery(id, |plan| {
                        plan.for_each_expr(1, &mut |e, depth| {
                            let look = |id, f: &mut dyn FnMut(&_)| binder.with_subquery(id, |plan| f(plan));
                            outer_columns(e, depth, &look, &mut |slot| {
                                if !fixed[slot] {
                                    ungrouped.get_or_insert((slot, true));
                                }
                            });
                        });
                    });
                    None
                }
                _ => None,
            }
        });
        let Some((slot, in_subquery)) = ungrouped else { return Ok(()) };
        let (relation, column) = self.level.column_of(slot);
        let name = format!("{}.{}", self.level.relations[relation].name, column.name);
        let message = match in_subquery {
            false => format!(
                "column \"{name}\" must appear in the GROUP BY clause or be used in an aggregate function"
            ),
            true => format!("subquery uses ungrouped column \"{name}\" from outer query"),
        };
        Err(SqlError::new(SqlState::GROUPING_ERROR, message))
    }

    pub(super) fn finish(self) -> (Vec<BoundExpr>, Vec<AggregateCall>) {
        (self.keys, self.calls)
    }
}
