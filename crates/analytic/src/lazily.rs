//! Expressions of which some parts may not be evaluated for every row.
//!
//! CASE, COALESCE and FILTER keep what fails for a row from that row, and so do AND and OR, whose parts PostgreSQL evaluates from left to right:
//! `x ~ '^\d+$' AND x::int > 5`. Arrow evaluates whole columns, and DataFusion both sides of AND and OR, unless the first decides for most of a batch;
//! of a CASE or COALESCE that gives a condition it makes AND and OR. Where a part may fail that others stand before, the expression is a row function: the
//! point path's evaluator looks at one row after the other, and at no more of it than it must.

use base::{SqlError, SqlResult};
use datafusion::common::TableReference;
use sql::expr::{BoundExpr, CompareOp, ExprKind, Volatility};
use types::PgType;

use crate::binder::NEEDS_APPLY;
use crate::relation::SYNTHETIC;
use crate::row_function::Body;
use crate::translate::{Translator, Typed};

/// Where a column's values come from: its table in the plan, and the name that the query has for it. None of both for a column of an enclosing row.
type Source = (Option<TableReference>, Option<String>);

/// Conditions that one stands behind and is asked with, each of a thousand parts at most.
const OTHERS_MAX: usize = 64;

/// Of [`BoundExpr::check_copies`]: so many of a thousand parts.
const COPIES: usize = 200;

impl Translator<'_, '_> {
    /// `parts[at]`, which rows must fulfil beside the others, for the rows that those before it leave; `None` where it may be asked of any.
    ///
    /// What compares two tables is left to a join, which has its pairs of rows that their own conditions leave.
    pub(crate) fn behind_others(&mut self, parts: &[BoundExpr], at: usize) -> SqlResult<Option<Typed>> {
        let part = &parts[at];
        if at == 0 || at > OTHERS_MAX || !may_fail(part) || !is_simple(part) || self.joins_tables(part) {
            return Ok(None);
        }
        let sources = self.sources(part);
        let goes_before = |other: &&BoundExpr| {
            is_simple(other)
                && other.volatility() != Volatility::Volatile
                && self.sources(other).iter().all(|source| sources.contains(source))
        };
        // For a condition of rows unknown is false, and decides as well.
        let is_true = |other: &BoundExpr| {
            let expr = Box::new(other.clone());
            BoundExpr::boolean(ExprKind::IsBool { expr, value: true, negated: false })
        };
        let mut all: Vec<BoundExpr> = parts[..at].iter().filter(goes_before).map(is_true).collect();
        if all.is_empty() {
            return Ok(None);
        }
        all.push(part.clone());
        self.lazily(&BoundExpr::boolean(ExprKind::And(all))).map(Some)
    }

    /// Whether `e`, of which some parts may fail, can be evaluated [`Translator::lazily`]. What is large is left to Arrow whatever it does.
    ///
    /// # Errors
    /// [`NEEDS_APPLY`] where a subquery of it may have become a join, which is none of its operands.
    pub(crate) fn can_be_lazy(&self, e: &BoundExpr) -> SqlResult<bool> {
        if !is_small(e) {
            return Ok(false);
        }
        let is_joined =
            |node: &BoundExpr| matches!(&node.kind, ExprKind::Subquery(subquery) if subquery.correlated);
        if !self.binder.apply_all && e.any(&mut |node| is_joined(node)) {
            return Err(SqlError::internal(NEEDS_APPLY));
        }
        Ok(true)
    }

    /// `e` evaluated a row at a time, parts of it only where they are asked for.
    pub(crate) fn lazily(&mut self, e: &BoundExpr) -> SqlResult<Typed> {
        let mut args: Vec<(BoundExpr, Typed)> = Vec::new();
        let body = self.keep_lazy(e, &mut args)?;
        let typed = args.into_iter().map(|(_, typed)| typed).collect();
        self.call(Body::Expr(body), typed, e.ty, e.typmod)
    }

    /// `e` over arguments that are evaluated for all rows: what in it cannot fail, and subqueries.
    fn keep_lazy(&mut self, e: &BoundExpr, args: &mut Vec<(BoundExpr, Typed)>) -> SqlResult<BoundExpr> {
        let mut body = e.clone();
        let mut failed = None;
        let mut children = 0;
        body.for_each_child_mut(&mut |child| {
            let place = children;
            children += 1;
            let kept = match &child.kind {
                ExprKind::Const(_) | ExprKind::Param(_) => return,
                ExprKind::Column(_) | ExprKind::Outer { .. } => self.argument(child, args),
                ExprKind::Subquery(_) => self.at_child(e, place, child, |this| this.argument(child, args)),
                _ if may_fail(child) || child.volatility() == Volatility::Volatile => {
                    self.at_child(e, place, child, |this| this.keep_lazy(child, args))
                }
                _ => self.at_child(e, place, child, |this| this.argument(child, args)),
            };
            match kept {
                Ok(kept) => *child = kept,
                Err(error) => failed = failed.take().or(Some(error)),
            }
        });
        failed.map_or(Ok(body), Err)
    }

    /// Whether `e` finds rows of one table by those of another: a join's key.
    fn joins_tables(&self, e: &BoundExpr) -> bool {
        let ExprKind::Compare { op: CompareOp::Eq, left, right, .. } = &e.kind else { return false };
        let (left, right) = (self.sources(left), self.sources(right));
        !left.is_empty() && !right.is_empty() && !left.iter().any(|source| right.contains(source))
    }

    fn sources(&self, e: &BoundExpr) -> Vec<Source> {
        let mut found = Vec::new();
        e.walk(&mut |node| {
            let source = match node.kind {
                ExprKind::Column(index) if index < SYNTHETIC => {
                    let column = &self.level.columns[index];
                    Some((column.column.relation.clone(), column.table.clone()))
                }
                ExprKind::Column(_) => Some((None, None)),
                ExprKind::Outer { .. } => Some((None, None)),
                _ => None,
            };
            found.extend(source.filter(|source| !found.contains(source)));
            true
        });
        found
    }
}

/// Whether what is made of `parts`, evaluated in their order until one decides, is to be evaluated [`Translator::lazily`].
pub(crate) fn may_fail_behind_first(parts: &[BoundExpr]) -> bool {
    parts.iter().skip(1).any(may_fail)
}

/// Whether a CASE of these branches is to be evaluated [`Translator::lazily`].
pub(crate) fn may_fail_in_branch(whens: &[(BoundExpr, BoundExpr)], otherwise: Option<&BoundExpr>) -> bool {
    let results = whens.iter().map(|(_, result)| result).chain(otherwise);
    let conditions = whens.iter().skip(1).map(|(condition, _)| condition);
    results.chain(conditions).any(may_fail)
}

pub(crate) fn is_small(e: &BoundExpr) -> bool {
    e.check_copies(COPIES).is_ok()
}

/// Whether `e` is small, and has no subquery, which a join may answer.
fn is_simple(e: &BoundExpr) -> bool {
    is_small(e) && !e.contains_subquery()
}

/// `argument` of an aggregate, for the rows that its FILTER leaves alone where it may fail for others.
pub(crate) fn where_filtered(argument: &BoundExpr, filter: Option<&BoundExpr>) -> BoundExpr {
    match filter {
        Some(filter) if may_fail(argument) && filter.volatility() != Volatility::Volatile => {
            let whens = vec![(filter.clone(), argument.clone())];
            BoundExpr::new(argument.ty, argument.typmod, ExprKind::Case { whens, otherwise: None })
        }
        _ => argument.clone(),
    }
}

/// Whether evaluating `e` may fail for some values of its columns.
pub(crate) fn may_fail(e: &BoundExpr) -> bool {
    e.any(&mut |node| match &node.kind {
        ExprKind::Call { function, args } => !is_constant(node) && call_may_fail(function.0.name, args),
        ExprKind::CallArray { function, array, .. } => {
            !(is_constant(array) && is_pattern_match(function.0.name))
        }
        ExprKind::Cast { expr, .. } => !is_constant(expr) && cast_may_fail(expr, node),
        _ => false,
    })
}

fn is_constant(e: &BoundExpr) -> bool {
    !e.any(&mut |node| {
        matches!(node.kind, ExprKind::Column(_) | ExprKind::Outer { .. } | ExprKind::Subquery(_))
    })
}

fn is_pattern_match(name: &str) -> bool {
    matches!(name, "~" | "!~" | "~*" | "!~*" | "~~" | "!~~" | "~~*" | "!~~*")
}

fn call_may_fail(name: &str, args: &[BoundExpr]) -> bool {
    let later_are_constant = || args.iter().skip(1).all(is_constant);
    match name {
        name if is_pattern_match(name) => !later_are_constant(),
        "/" | "%" | "div" | "mod" | "substr" | "substring" | "left" | "right" | "split_part" | "to_char"
        | "->" | "->>" | "#>" | "#>>" => !later_are_constant(),
        "date_trunc" | "date_part" | "extract" | "timezone" => !args.first().is_some_and(is_constant),
        // Nothing is taken out of a jsonb that is no array or object.
        "-" if args.first().is_some_and(|arg| arg.ty == PgType::Jsonb) => true,
        // That a sum leaves its type is no reason to look at rows one by one.
        "+" | "-" | "*" => false,
        "lower" | "upper" | "initcap" | "length" | "char_length" | "character_length" | "octet_length"
        | "bit_length" | "btrim" | "ltrim" | "rtrim" | "trim" | "replace" | "position" | "strpos"
        | "starts_with" | "^@" | "||" | "concat" | "concat_ws" | "reverse" | "md5" | "abs" | "sign"
        | "ceil" | "ceiling" | "floor" | "round" | "trunc" | "age" | "array_length" | "cardinality"
        | "@>" | "<@" | "&&" | "?" | "?|" | "?&" | "json_typeof" | "jsonb_typeof" | "num_nulls"
        | "num_nonnulls" | "isfinite" | "random" => false,
        _ => true,
    }
}

fn cast_may_fail(from: &BoundExpr, to: &BoundExpr) -> bool {
    use PgType as T;
    let is_text = |ty| matches!(ty, T::Text | T::Varchar | T::Bpchar | T::Name);
    let is_moment = |ty| matches!(ty, T::Date | T::Timestamp | T::TimestampTz);
    let fits = match (from.ty, to.ty) {
        (_, to) if is_text(to) => true,
        (T::Int2, T::Int4 | T::Int8) | (T::Int4, T::Int8) | (T::Float4, T::Float8) => true,
        (T::Int2 | T::Int4 | T::Int8 | T::Numeric, T::Float4 | T::Float8) => true,
        (T::Int2 | T::Int4 | T::Int8 | T::Numeric, T::Numeric) => to.typmod.is_none(),
        (T::Json, T::Jsonb) | (T::Jsonb, T::Json) => true,
        (from, to) => from == to || is_moment(from) && is_moment(to) || from.is_oid() && to.is_oid(),
    };
    !fits
}
