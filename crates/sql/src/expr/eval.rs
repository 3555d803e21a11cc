//! Evaluation, a row at a time.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::ControlFlow;

use base::{SqlError, SqlState};
use smallvec::SmallVec;
use types::{CastContext, Datum, PgType, TypeMod};

use super::eval_context::{Among, EvalCtx, EvalResult};
use super::tree::{BoundExpr, Collate, CompareOp, ExprKind, FunctionRef, SubqueryExpr, SubqueryTest};
use crate::memory_bound::Held;

const NULL: Cow<'static, Datum> = Cow::Owned(Datum::Null);

/// The value of `expr`.
pub fn eval(expr: &BoundExpr, ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    eval_ref(expr, ctx).map(Cow::into_owned)
}

/// The value of `expr`, borrowed where it is a column, a parameter or a constant.
pub fn eval_ref<'a>(expr: &'a BoundExpr, ctx: &EvalCtx<'a>) -> EvalResult<Cow<'a, Datum>> {
    match &expr.kind {
        ExprKind::Const(value) => Ok(Cow::Borrowed(value)),
        ExprKind::Column(index) => Ok(Cow::Borrowed(&ctx.row[*index])),
        ExprKind::Param(index) => Ok(Cow::Borrowed(&ctx.stmt.params[*index])),
        ExprKind::Outer { depth, index } => {
            let mut at = ctx;
            for _ in 0..*depth {
                at = at.outer.ok_or_else(|| SqlError::internal("an enclosing row is missing"))?;
            }
            Ok(Cow::Borrowed(&at.row[*index]))
        }
        ExprKind::Call { function, args } => call(*function, args, ctx).map(Cow::Owned),
        ExprKind::Cast { expr: inner, how } => {
            let value = eval(inner, ctx)?;
            if let (Datum::Text(_), PgType::Numeric) = (&value, expr.ty) {
                // `1e131071`
                ctx.look()?;
            }
            let _held = held_by_cast(&value, expr.ty, ctx)?;
            Ok(Cow::Owned(types::cast(value, inner.ty, expr.ty, expr.typmod, *how, ctx.stmt.format)?))
        }
        ExprKind::Case { whens, otherwise } => {
            for (condition, result) in whens {
                if eval_filter(condition, ctx)? {
                    return eval_ref(result, ctx);
                }
            }
            otherwise.as_ref().map_or(Ok(NULL), |e| eval_ref(e, ctx))
        }
        ExprKind::Coalesce(args) => {
            for arg in args {
                let value = eval_ref(arg, ctx)?;
                if !value.is_null() {
                    return Ok(value);
                }
            }
            Ok(NULL)
        }
        ExprKind::NullIf { collate, left, right } => {
            let a = eval_ref(left, ctx)?;
            let _held = held_by(&a, ctx)?;
            let b = eval_ref(right, ctx)?;
            let same = !a.is_null() && !b.is_null() && order(*collate, &a, &b).is_eq();
            Ok(if same { NULL } else { a })
        }
        ExprKind::Extreme { greatest, collate, args } => {
            let (mut best, mut _held): (Option<Cow<'a, Datum>>, _) = (None, None);
            for arg in args {
                let value = eval_ref(arg, ctx)?;
                let better = match &best {
                    _ if value.is_null() => false,
                    None => true,
                    Some(b) => {
                        order(*collate, &value, b)
                            == if *greatest { Ordering::Greater } else { Ordering::Less }
                    }
                };
                if better {
                    _held = None;
                    _held = held_by(&value, ctx)?;
                    best = Some(value);
                }
            }
            Ok(best.unwrap_or(NULL))
        }
        ExprKind::Array { element, items } => {
            let mut held = ctx.held();
            let items = items.iter().map(|item| {
                let item = eval(item, ctx)?;
                held.item(&item)?;
                Ok(item)
            });
            let items = items.collect::<EvalResult<Vec<_>>>()?;
            Ok(Cow::Owned(Datum::array(*element, items)))
        }
        ExprKind::Subscript { array, index } => {
            let array = eval_ref(array, ctx)?;
            let _held = held_by(&array, ctx)?;
            let index = eval_ref(index, ctx)?;
            let (Datum::Array(array), Some(index)) = (&*array, index.as_i64()) else { return Ok(NULL) };
            let item = usize::try_from(index - 1).ok().and_then(|i| array.items.get(i));
            Ok(Cow::Owned(item.cloned().unwrap_or_default()))
        }
        ExprKind::Slice { array, lower, upper } => {
            slice(array, lower.as_deref(), upper.as_deref(), ctx).map(Cow::Owned)
        }
        ExprKind::Subquery(subquery) => eval_subquery(subquery, ctx).map(Cow::Owned),
        ExprKind::Aggregate(_) => {
            Err(SqlError::internal("an aggregate was evaluated as an expression").into())
        }
        _ => Ok(Cow::Owned(eval_bool(expr, ctx)?.map_or(Datum::Null, Datum::Bool))),
    }
}

fn slice(
    array: &BoundExpr,
    lower: Option<&BoundExpr>,
    upper: Option<&BoundExpr>,
    ctx: &EvalCtx<'_>,
) -> EvalResult<Datum> {
    let array = eval_ref(array, ctx)?;
    let _held = held_by(&array, ctx)?;
    let Datum::Array(array) = &*array else { return Ok(Datum::Null) };
    let len = array.items.len() as i64;
    let mut bounds = [1, len];
    for (bound, expr) in bounds.iter_mut().zip([lower, upper]) {
        if let Some(expr) = expr {
            match eval_ref(expr, ctx)?.as_i64() {
                Some(v) => *bound = v,
                None => return Ok(Datum::Null),
            }
        }
    }
    let (from, to) = (bounds[0].max(1), bounds[1].min(len));
    let items = if from > to { Vec::new() } else { array.items[from as usize - 1..to as usize].to_vec() };
    Ok(Datum::array(array.element, items))
}

/// Bytes of arguments, made by other calls, from which on a call may take a millisecond.
const LONG_ARGUMENTS_MIN: usize = 256 << 10;

fn call(function: FunctionRef, args: &[BoundExpr], ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let def = function.0;
    let mut values: SmallVec<[Datum; 3]> = SmallVec::with_capacity(args.len());
    let (mut held, mut computed) = (ctx.held(), 0);
    for arg in args {
        let value = eval(arg, ctx)?;
        if def.strict && value.is_null() {
            return Ok(Datum::Null);
        }
        if hold(arg, &value, &mut held)? {
            computed += value.heap_bytes();
        }
        values.push(value);
    }
    if computed > LONG_ARGUMENTS_MIN {
        ctx.look()?;
    }
    (def.eval)(&values, ctx)
}

/// Holds the value of an operand; answers whether it was worked out for it. The row, the statement and the plan hold theirs anyway.
#[inline]
fn hold(operand: &BoundExpr, value: &Datum, held: &mut Held<'_>) -> EvalResult<bool> {
    if let ExprKind::Column(_) | ExprKind::Param(_) | ExprKind::Const(_) | ExprKind::Outer { .. } =
        operand.kind
    {
        held.copy(value)?;
        return Ok(false);
    }
    held.argument(value)?;
    Ok(true)
}

/// What an operand that was worked out holds while others are.
#[inline]
fn held_by<'c>(value: &Cow<'_, Datum>, ctx: &EvalCtx<'c>) -> EvalResult<Option<Held<'c>>> {
    let Cow::Owned(value) = value else { return Ok(None) };
    let mut held = ctx.held();
    held.argument(value)?;
    Ok(Some(held))
}

/// The memory that a cast of `value` takes while it works: an array has an item for each comma of its text at most.
fn held_by_cast<'a>(value: &Datum, to: PgType, ctx: &EvalCtx<'a>) -> EvalResult<Held<'a>> {
    let mut held = ctx.held();
    held.argument(value)?;
    match (value, to) {
        (Datum::Text(text), PgType::Array(_)) => {
            let items = 1 + text.bytes().filter(|byte| *byte == b',').count();
            held.take(items * size_of::<Datum>() + text.len())?;
        }
        // Two digits a byte, or up to four characters.
        (Datum::Bytea(bytes), to) if to.is_string() => {
            let escaped = ctx.stmt.format.bytea_output == types::ByteaOutput::Escape;
            held.take(bytes.len() * if escaped { 4 } else { 2 })?;
        }
        _ => {}
    }
    Ok(held)
}

/// Order of two values that are not NULL.
#[inline]
pub(super) fn order(collate: Collate, a: &Datum, b: &Datum) -> Ordering {
    if collate == Collate::Blanks
        && let (Datum::Text(a), Datum::Text(b)) = (a, b)
    {
        let trim = |s: &str| s.trim_end_matches(' ').len();
        return a.as_bytes()[..trim(a)].cmp(&b.as_bytes()[..trim(b)]);
    }
    types::compare(a, b)
}

#[inline]
fn holds(op: CompareOp, collate: Collate, a: &Datum, b: &Datum) -> bool {
    match (op, collate) {
        (CompareOp::Eq, Collate::Plain) => types::equal(a, b),
        (CompareOp::Ne, Collate::Plain) => !types::equal(a, b),
        _ => op.holds(order(collate, a, b)),
    }
}

/// The value of a condition; `None` for NULL.
pub fn eval_bool(expr: &BoundExpr, ctx: &EvalCtx<'_>) -> EvalResult<Option<bool>> {
    match &expr.kind {
        ExprKind::Compare { op, collate, left, right } => {
            let a = eval_ref(left, ctx)?;
            if a.is_null() {
                return Ok(None);
            }
            let _held = held_by(&a, ctx)?;
            let b = eval_ref(right, ctx)?;
            if b.is_null() {
                return Ok(None);
            }
            Ok(Some(holds(*op, *collate, &a, &b)))
        }
        ExprKind::And(parts) => {
            let mut result = Some(true);
            for part in parts {
                match eval_bool(part, ctx)? {
                    Some(false) => return Ok(Some(false)),
                    None => result = None,
                    Some(true) => {}
                }
            }
            Ok(result)
        }
        ExprKind::Or(parts) => {
            let mut result = Some(false);
            for part in parts {
                match eval_bool(part, ctx)? {
                    Some(true) => return Ok(Some(true)),
                    None => result = None,
                    Some(false) => {}
                }
            }
            Ok(result)
        }
        ExprKind::Not(inner) => Ok(eval_bool(inner, ctx)?.map(|b| !b)),
        ExprKind::IsNull { expr, negated } => Ok(Some(eval_ref(expr, ctx)?.is_null() != *negated)),
        ExprKind::IsBool { expr, value, negated } => {
            Ok(Some((eval_bool(expr, ctx)? == Some(*value)) != *negated))
        }
        ExprKind::IsDistinct { collate, left, right, negated } => {
            let a = eval_ref(left, ctx)?;
            let _held = held_by(&a, ctx)?;
            let b = eval_ref(right, ctx)?;
            let distinct = match (a.is_null(), b.is_null()) {
                (true, true) => false,
                (false, false) => order(*collate, &a, &b).is_ne(),
                _ => true,
            };
            Ok(Some(distinct != *negated))
        }
        ExprKind::InList { collate, expr, items, negated } => {
            let value = eval_ref(expr, ctx)?;
            if value.is_null() {
                return Ok(None);
            }
            let _held = held_by(&value, ctx)?;
            let is_long = value.heap_bytes() > LONG_ARGUMENTS_MIN;
            let mut found = Some(false);
            for item in items {
                let item = eval_ref(item, ctx)?;
                if is_long {
                    ctx.look()?;
                }
                if item.is_null() {
                    found = None;
                } else if holds(CompareOp::Eq, *collate, &value, &item) {
                    found = Some(true);
                    break;
                }
            }
            Ok(found.map(|f| f != *negated))
        }
        ExprKind::CompareArray { op, collate, all, left, array } => {
            let array = eval_ref(array, ctx)?;
            let _held = held_by(&array, ctx)?;
            let Datum::Array(array) = &*array else { return Ok(None) };
            let value = eval_ref(left, ctx)?;
            let is_long = value.heap_bytes() > LONG_ARGUMENTS_MIN;
            quantified(
                *all,
                array.items.iter().map(|item| {
                    if is_long {
                        ctx.look()?;
                    }
                    Ok((!value.is_null() && !item.is_null()).then(|| holds(*op, *collate, &value, item)))
                }),
            )
        }
        ExprKind::CallArray { function, all, left, array } => {
            let array = eval_ref(array, ctx)?;
            let _held = held_by(&array, ctx)?;
            let Datum::Array(array) = &*array else { return Ok(None) };
            let mut args = [eval(left, ctx)?, Datum::Null];
            let is_long = args[0].heap_bytes() > LONG_ARGUMENTS_MIN;
            quantified(
                *all,
                array.items.iter().map(|item| {
                    if args[0].is_null() || item.is_null() {
                        return Ok(None);
                    }
                    if is_long {
                        ctx.look()?;
                    }
                    args[1] = item.clone();
                    Ok((function.0.eval)(&args, ctx)?.as_bool())
                }),
            )
        }
        _ => match &*eval_ref(expr, ctx)? {
            Datum::Bool(b) => Ok(Some(*b)),
            Datum::Null => Ok(None),
            other => {
                Err(SqlError::internal(format!("a condition is of type {}", other.natural_type().name()))
                    .into())
            }
        },
    }
}

/// `ANY` or `ALL` of some truth values.
fn quantified(all: bool, truths: impl Iterator<Item = EvalResult<Option<bool>>>) -> EvalResult<Option<bool>> {
    let mut result = Some(all);
    for truth in truths {
        match truth? {
            Some(t) if t != all => return Ok(Some(t)),
            Some(_) => {}
            None => result = None,
        }
    }
    Ok(result)
}

/// Whether a condition is true (neither false nor NULL).
pub fn eval_filter(expr: &BoundExpr, ctx: &EvalCtx<'_>) -> EvalResult<bool> {
    Ok(eval_bool(expr, ctx)? == Some(true))
}

fn eval_subquery(subquery: &SubqueryExpr, ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let run = |sink: &mut dyn FnMut(&[Datum]) -> EvalResult<ControlFlow<()>>| {
        ctx.stmt.subqueries.run(subquery.id, ctx, sink)
    };
    match &subquery.test {
        SubqueryTest::Exists { negated } => {
            let mut found = false;
            run(&mut |_| {
                found = true;
                Ok(ControlFlow::Break(()))
            })?;
            Ok(Datum::Bool(found != *negated))
        }
        SubqueryTest::Scalar | SubqueryTest::Field(_) => {
            let column = if let SubqueryTest::Field(column) = subquery.test { column } else { 0 };
            let mut value: Option<Datum> = None;
            run(&mut |row| {
                if value.is_some() {
                    return Err(SqlError::new(
                        SqlState::CARDINALITY_VIOLATION,
                        "more than one row returned by a subquery used as an expression",
                    )
                    .into());
                }
                value = Some(row[column].clone());
                Ok(ControlFlow::Continue(()))
            })?;
            Ok(value.unwrap_or_default())
        }
        SubqueryTest::Array { element } => {
            let mut items = Vec::new();
            let mut held = ctx.held();
            run(&mut |row| {
                held.item(&row[0])?;
                items.push(row[0].clone());
                Ok(ControlFlow::Continue(()))
            })?;
            Ok(Datum::array(*element, items))
        }
        SubqueryTest::Compare { all, columns } => {
            let mut held = ctx.held();
            let mut left = Vec::with_capacity(columns.len());
            for column in columns {
                let value = eval(&column.left, ctx)?;
                hold(&column.left, &value, &mut held)?;
                left.push(value);
            }
            if let ([column], [value]) = (columns.as_slice(), left.as_slice())
                && column.op == if *all { CompareOp::Ne } else { CompareOp::Eq }
                && let Some(among) = ctx.stmt.subqueries.find(subquery.id, column, value, ctx)?
            {
                return Ok(match among {
                    Among::Found => Datum::Bool(!*all),
                    Among::Missing => Datum::Bool(*all),
                    Among::Unknown => Datum::Null,
                });
            }
            let mut result = Some(*all);
            run(&mut |row| {
                let mut truth = Some(true);
                for ((column, a), b) in columns.iter().zip(&left).zip(row) {
                    let b = match column.cast {
                        Some((from, to)) => cast_value(b.clone(), from, to, ctx)?,
                        None => b.clone(),
                    };
                    if a.is_null() || b.is_null() {
                        truth = truth.and_then(|t| if t { None } else { Some(false) });
                    } else if !holds(column.op, column.collate, a, &b) {
                        truth = Some(false);
                        break;
                    }
                }
                // `<> ALL` of rows differs in any column: with one column that is the operator itself.
                match truth {
                    Some(t) if t != *all => {
                        result = Some(t);
                        return Ok(ControlFlow::Break(()));
                    }
                    Some(_) => {}
                    None => result = None,
                }
                Ok(ControlFlow::Continue(()))
            })?;
            Ok(result.map_or(Datum::Null, Datum::Bool))
        }
    }
}

fn cast_value(d: Datum, from: PgType, to: PgType, ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    Ok(types::cast(d, from, to, TypeMod::NONE, CastContext::Implicit, ctx.stmt.format)?)
}
