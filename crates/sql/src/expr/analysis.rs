//! Questions about a bound expression, and changes to all of its nodes.

use base::{SqlError, SqlResult, SqlState};

use super::tree::{BoundExpr, ExprKind, SubqueryTest};

/// Parts that all copies of an operand may have together. An operand of few parts is copied as often as the statement says.
const COPIED_PARTS_MAX: usize = 200_000;
const FEW_PARTS: usize = 4;

/// Whether and when an expression's value can change.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Volatility {
    /// The same for the same arguments, for ever.
    Immutable,
    /// The same for the same arguments within a statement.
    Stable,
    /// May differ at each call, or has an effect.
    Volatile,
}

impl BoundExpr {
    /// The direct operands, in order of evaluation; an aggregate's arguments included, a subquery's inside not.
    pub fn for_each_child<'a>(&'a self, f: &mut dyn FnMut(&'a BoundExpr)) {
        match &self.kind {
            ExprKind::Const(_) | ExprKind::Column(_) | ExprKind::Outer { .. } | ExprKind::Param(_) => {}
            ExprKind::Compare { left, right, .. }
            | ExprKind::IsDistinct { left, right, .. }
            | ExprKind::NullIf { left, right, .. } => {
                f(left);
                f(right);
            }
            ExprKind::And(parts) | ExprKind::Or(parts) | ExprKind::Coalesce(parts) => {
                parts.iter().for_each(f)
            }
            ExprKind::Not(expr)
            | ExprKind::IsNull { expr, .. }
            | ExprKind::IsBool { expr, .. }
            | ExprKind::Cast { expr, .. } => f(expr),
            ExprKind::InList { expr, items, .. } => {
                f(expr);
                items.iter().for_each(f);
            }
            ExprKind::CompareArray { left, array, .. } | ExprKind::CallArray { left, array, .. } => {
                f(left);
                f(array);
            }
            ExprKind::Call { args, .. } | ExprKind::Extreme { args, .. } => args.iter().for_each(f),
            ExprKind::Case { whens, otherwise } => {
                for (condition, result) in whens {
                    f(condition);
                    f(result);
                }
                if let Some(otherwise) = otherwise {
                    f(otherwise);
                }
            }
            ExprKind::Array { items, .. } => items.iter().for_each(f),
            ExprKind::Subscript { array, index } => {
                f(array);
                f(index);
            }
            ExprKind::Slice { array, lower, upper } => {
                f(array);
                lower.iter().for_each(|e| f(e));
                upper.iter().for_each(|e| f(e));
            }
            ExprKind::Aggregate(call) => {
                call.args.iter().for_each(&mut *f);
                call.filter.iter().for_each(&mut *f);
                call.order_by.iter().for_each(|key| f(&key.expr));
            }
            ExprKind::Subquery(subquery) => {
                if let SubqueryTest::Compare { columns, .. } = &subquery.test {
                    columns.iter().for_each(|column| f(&column.left));
                }
            }
        }
    }

    /// As [`BoundExpr::for_each_child`], to change them in place.
    pub fn for_each_child_mut(&mut self, f: &mut dyn FnMut(&mut BoundExpr)) {
        match &mut self.kind {
            ExprKind::Const(_) | ExprKind::Column(_) | ExprKind::Outer { .. } | ExprKind::Param(_) => {}
            ExprKind::Compare { left, right, .. }
            | ExprKind::IsDistinct { left, right, .. }
            | ExprKind::NullIf { left, right, .. } => {
                f(left);
                f(right);
            }
            ExprKind::And(parts) | ExprKind::Or(parts) | ExprKind::Coalesce(parts) => {
                parts.iter_mut().for_each(f);
            }
            ExprKind::Not(expr)
            | ExprKind::IsNull { expr, .. }
            | ExprKind::IsBool { expr, .. }
            | ExprKind::Cast { expr, .. } => f(expr),
            ExprKind::InList { expr, items, .. } => {
                f(expr);
                items.iter_mut().for_each(f);
            }
            ExprKind::CompareArray { left, array, .. } | ExprKind::CallArray { left, array, .. } => {
                f(left);
                f(array);
            }
            ExprKind::Call { args, .. } | ExprKind::Extreme { args, .. } => args.iter_mut().for_each(f),
            ExprKind::Case { whens, otherwise } => {
                for (condition, result) in whens {
                    f(condition);
                    f(result);
                }
                if let Some(otherwise) = otherwise {
                    f(otherwise);
                }
            }
            ExprKind::Array { items, .. } => items.iter_mut().for_each(f),
            ExprKind::Subscript { array, index } => {
                f(array);
                f(index);
            }
            ExprKind::Slice { array, lower, upper } => {
                f(array);
                lower.iter_mut().for_each(|e| f(e));
                upper.iter_mut().for_each(|e| f(e));
            }
            ExprKind::Aggregate(call) => {
                call.args.iter_mut().for_each(&mut *f);
                call.filter.iter_mut().for_each(&mut *f);
                call.order_by.iter_mut().for_each(|key| f(&mut key.expr));
            }
            ExprKind::Subquery(subquery) => {
                if let SubqueryTest::Compare { columns, .. } = &mut subquery.test {
                    columns.iter_mut().for_each(|column| f(&mut column.left));
                }
            }
        }
    }

    /// Visits this node and all below, parents first; `f` answers whether to go below the node.
    pub fn walk<'a>(&'a self, f: &mut dyn FnMut(&'a BoundExpr) -> bool) {
        if f(self) {
            self.for_each_child(&mut |child| child.walk(f));
        }
    }

    /// Looks whether the expression may stand in `copies` places. Each level of a statement may copy what is within, so that without
    /// a bound a few dozen levels would fill the memory.
    ///
    /// # Errors
    /// 54001 if the copies have too many parts together.
    pub fn check_copies(&self, copies: usize) -> SqlResult<()> {
        let most = (COPIED_PARTS_MAX / copies.max(1)).max(FEW_PARTS);
        let mut parts = 0;
        self.any(&mut |_| {
            parts += 1;
            parts > most
        });
        if parts <= most {
            return Ok(());
        }
        Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded")
            .with_hint("An operand of BETWEEN, CASE, IN or a row comparison nests too many of these."))
    }

    /// Replaces nodes, parents first: where `f` answers a new node, it takes the old one's place and is not looked into.
    pub fn rewrite(&mut self, f: &mut dyn FnMut(&BoundExpr) -> Option<BoundExpr>) {
        match f(self) {
            Some(new) => *self = new,
            None => self.for_each_child_mut(&mut |child| child.rewrite(f)),
        }
    }

    /// Whether any node satisfies `f`.
    pub fn any(&self, f: &mut dyn FnMut(&BoundExpr) -> bool) -> bool {
        let mut found = false;
        self.walk(&mut |node| {
            found = found || f(node);
            !found
        });
        found
    }

    /// Columns of the current row it uses directly, ascending. A correlated subquery may use others: see
    /// [`BoundExpr::contains_subquery`].
    pub fn columns_used(&self) -> Vec<usize> {
        let mut columns = Vec::new();
        self.walk(&mut |node| {
            columns.extend(node.as_column());
            true
        });
        columns.sort_unstable();
        columns.dedup();
        columns
    }

    /// Adds `offset` to the index of every column of the current row.
    pub fn shift_columns(&mut self, offset: usize) {
        self.map_columns(&mut |index| index + offset);
    }

    /// Replaces the index of every column of the current row.
    pub fn map_columns(&mut self, f: &mut dyn FnMut(usize) -> usize) {
        if let ExprKind::Column(index) = &mut self.kind {
            *index = f(*index);
        }
        self.for_each_child_mut(&mut |child| child.map_columns(f));
    }

    pub fn contains_aggregate(&self) -> bool {
        self.any(&mut |node| matches!(node.kind, ExprKind::Aggregate(_)))
    }

    pub fn contains_subquery(&self) -> bool {
        self.any(&mut |node| matches!(node.kind, ExprKind::Subquery(_)))
    }

    /// Whether it uses a column of an enclosing query's row.
    pub fn uses_outer(&self) -> bool {
        self.any(&mut |node| match &node.kind {
            ExprKind::Outer { .. } => true,
            ExprKind::Subquery(subquery) => subquery.correlated,
            _ => false,
        })
    }

    /// The most volatile of its nodes. A subquery counts as stable.
    pub fn volatility(&self) -> Volatility {
        let mut volatility = Volatility::Immutable;
        self.walk(&mut |node| {
            volatility = volatility.max(match &node.kind {
                ExprKind::Call { function, .. } | ExprKind::CallArray { function, .. } => {
                    function.0.volatility
                }
                ExprKind::Cast { expr, .. } => super::coerce::cast_volatility(expr.ty, node.ty),
                ExprKind::Param(_) | ExprKind::Subquery(_) => Volatility::Stable,
                _ => Volatility::Immutable,
            });
            volatility != Volatility::Volatile
        });
        volatility
    }

    /// Whether it has one value for the whole statement: no column of the current row, no enclosing row, no aggregate,
    /// no correlated subquery, nothing volatile. Parameters are allowed.
    pub fn is_row_independent(&self) -> bool {
        !self.any(&mut |node| match &node.kind {
            ExprKind::Column(_) | ExprKind::Outer { .. } | ExprKind::Aggregate(_) => true,
            ExprKind::Subquery(subquery) => subquery.correlated,
            ExprKind::Call { function, .. } | ExprKind::CallArray { function, .. } => {
                function.0.volatility == Volatility::Volatile
            }
            _ => false,
        })
    }
}
