//! Evaluation, a row at a time.

use std::borrow::Cow;

use types::Datum;

use super::eval_context::{EvalCtx, EvalResult};
use super::tree::BoundExpr;

/// The value of `expr`.
pub fn eval(expr: &BoundExpr, ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    eval_ref(expr, ctx).map(Cow::into_owned)
}

/// The value of `expr`, borrowed where it is a column, a parameter or a constant.
pub fn eval_ref<'a>(expr: &'a BoundExpr, ctx: &EvalCtx<'a>) -> EvalResult<Cow<'a, Datum>> {
    let _ = (expr, ctx);
    unimplemented!()
}

/// The value of a condition; `None` for NULL.
pub fn eval_bool(expr: &BoundExpr, ctx: &EvalCtx<'_>) -> EvalResult<Option<bool>> {
    let _ = (expr, ctx);
    unimplemented!()
}

/// Whether a condition is true (neither false nor NULL).
pub fn eval_filter(expr: &BoundExpr, ctx: &EvalCtx<'_>) -> EvalResult<bool> {
    Ok(eval_bool(expr, ctx)? == Some(true))
}
