//! Rows written out, `(a, b)` and `ROW(a, b)`: compared column by column, tested for NULLs, OVERLAPS.

use base::{SqlError, SqlResult, SqlState};
use sqlparser::ast::{self, BinaryOperator, Expr};
use types::PgType;

use super::analysis::Volatility;
use super::bind::{Binder, negate, operator_name, unnest};
use super::bind_operator::{self, bind_binary, bind_comparison, call_named};
use super::tree::{BoundExpr, CompareOp, ExprKind};

/// The columns of a row that is written out.
pub(crate) fn row_of(expr: &Expr) -> Option<Vec<&Expr>> {
    match unnest(expr) {
        Expr::Tuple(parts) => Some(parts.iter().collect()),
        Expr::Function(function) => {
            let [part] = &function.name.0[..] else { return None };
            let ident = part.as_ident()?;
            if ident.quote_style.is_some() || !ident.value.eq_ignore_ascii_case("row") {
                return None;
            }
            let ast::FunctionArguments::List(list) = &function.args else { return None };
            let part = |arg| match arg {
                &ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(ref expr)) => Some(expr),
                _ => None,
            };
            list.args.iter().map(part).collect()
        }
        _ => None,
    }
}

/// A list of one row is that row, which an index may be asked for as for any.
fn any_of(mut parts: Vec<BoundExpr>) -> BoundExpr {
    match (parts.len(), parts.pop()) {
        (1, Some(one)) => one,
        (_, last) => {
            parts.extend(last);
            BoundExpr::boolean(ExprKind::Or(parts))
        }
    }
}

fn unequal() -> SqlError {
    SqlError::new(SqlState::SYNTAX_ERROR, "unequal number of entries in row expressions")
}

fn require_same_len(a: usize, b: usize) -> SqlResult<()> {
    if a != b {
        return Err(unequal());
    }
    if a == 0 {
        return Err(SqlError::unsupported("a comparison of rows without columns"));
    }
    Ok(())
}

impl Binder<'_> {
    /// Row comparisons go column by column: `=` all, `<>` any, `<` by the first that differs.
    pub(super) fn row_comparison(
        &self,
        a: &[&Expr],
        op: &BinaryOperator,
        b: &[&Expr],
    ) -> SqlResult<BoundExpr> {
        if *op == BinaryOperator::Overlaps {
            return self.overlaps(a, b);
        }
        require_same_len(a.len(), b.len())?;
        let op = bind_operator::compare_op(&operator_name(op))
            .ok_or_else(|| SqlError::unsupported("this operator on rows"))?;
        self.bound_row_comparison(&self.bind_row(a)?, op, &self.bind_row(b)?)
    }

    fn bind_row(&self, row: &[&Expr]) -> SqlResult<Vec<BoundExpr>> {
        row.iter().map(|part| self.bind(part)).collect()
    }

    /// Of two rows of the same length.
    fn bound_row_comparison(&self, a: &[BoundExpr], op: CompareOp, b: &[BoundExpr]) -> SqlResult<BoundExpr> {
        for part in a.iter().chain(b) {
            part.check_copies(3)?;
        }
        let compare = |op: CompareOp, i: usize| bind_comparison(op, a[i].clone(), b[i].clone(), self.ctx);
        match op {
            CompareOp::Eq | CompareOp::Ne => {
                let parts = (0..a.len()).map(|i| compare(op, i)).collect::<SqlResult<Vec<_>>>()?;
                Ok(BoundExpr::boolean(if op == CompareOp::Eq {
                    ExprKind::And(parts)
                } else {
                    ExprKind::Or(parts)
                }))
            }
            _ => {
                let strict = match op {
                    CompareOp::Le => CompareOp::Lt,
                    CompareOp::Ge => CompareOp::Gt,
                    other => other,
                };
                let last = a.len() - 1;
                let mut result = compare(op, last)?;
                for i in (0..last).rev() {
                    let tie = BoundExpr::boolean(ExprKind::And(vec![compare(CompareOp::Eq, i)?, result]));
                    result = BoundExpr::boolean(ExprKind::Or(vec![compare(strict, i)?, tie]));
                }
                // What it says of the first column alone tells where an index begins. It is true, false or unknown as without it.
                let lax = if strict == CompareOp::Lt { CompareOp::Le } else { CompareOp::Ge };
                let is_one_value =
                    |part: &BoundExpr| part.volatility() != Volatility::Volatile && !part.contains_subquery();
                if last > 0 && is_one_value(&a[0]) && is_one_value(&b[0]) {
                    result = BoundExpr::boolean(ExprKind::And(vec![compare(lax, 0)?, result]));
                }
                Ok(result)
            }
        }
    }

    pub(super) fn row_in_list(&self, left: &[&Expr], list: &[Expr], negated: bool) -> SqlResult<BoundExpr> {
        // Once: what is in it may be bound in as many places as this has rows, and what is in that again.
        let mut left = self.bind_row(left)?;
        left.iter().try_for_each(|part| part.check_copies(list.len()))?;
        let parts = list
            .iter()
            .map(|item| {
                let right = row_of(item).ok_or_else(unequal)?;
                require_same_len(left.len(), right.len())?;
                let right = self.bind_row(&right)?;
                for part in &mut left {
                    // A row before this one may have told what it is.
                    if let (PgType::Unknown, &ExprKind::Param(index)) = (part.ty, &part.kind) {
                        part.ty = self.ctx.params.get(index)?;
                    }
                }
                self.bound_row_comparison(&left, CompareOp::Eq, &right)
            })
            .collect::<SqlResult<Vec<_>>>()?;
        let any = any_of(parts);
        Ok(if negated { negate(any) } else { any })
    }

    /// `(a, b) IS NULL`: both are; IS NOT NULL: neither is.
    pub(super) fn row_is_null(&self, parts: &[&Expr], negated: bool) -> SqlResult<BoundExpr> {
        let parts = parts.iter().map(|part| self.is_null(part, negated)).collect::<SqlResult<Vec<_>>>()?;
        Ok(BoundExpr::boolean(ExprKind::And(parts)))
    }

    pub(super) fn rows_distinct(&self, a: &[&Expr], b: &[&Expr], negated: bool) -> SqlResult<BoundExpr> {
        if a.len() != b.len() {
            return Err(unequal());
        }
        let parts =
            a.iter().zip(b).map(|(a, b)| self.distinct(a, b, false)).collect::<SqlResult<Vec<_>>>()?;
        let any = BoundExpr::boolean(ExprKind::Or(parts));
        Ok(if negated { negate(any) } else { any })
    }

    /// `(start, end) OVERLAPS (start, end)`, where an end may be a length.
    fn overlaps(&self, a: &[&Expr], b: &[&Expr]) -> SqlResult<BoundExpr> {
        let mut args = Vec::with_capacity(4);
        for (side, row) in [("left", a), ("right", b)] {
            let [start, end] = row else {
                let message = format!("wrong number of parameters on {side} side of OVERLAPS expression");
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
            };
            let (start, mut end) = (self.bind(start)?, self.bind(end)?);
            if end.ty == PgType::Interval {
                start.check_copies(2)?;
                end = bind_binary("+", start.clone(), end, self.ctx)?;
            }
            args.extend([start, end]);
        }
        call_named("overlaps", args, self.ctx).map_err(|error| {
            match error.message().strip_prefix("function ") {
                Some(rest) => SqlError::new(error.state(), format!("function pg_catalog.{rest}")),
                None => error,
            }
        })
    }
}
