//! Calls whose last arguments are the elements of an array: `concat(VARIADIC a)`. They are functions of their own, by names that no
//! statement has.

use types::Datum;

use super::string::{concat, concat_ws, format};
use super::*;

const ARRAY: ArgType = ArgType::AnyArray;

pub(super) static FUNCTIONS: &[FunctionDef] = &[
    FunctionDef::new("variadic concat", &[ARRAY], TEXT, |a, c| spread(a, 0, c, concat)).stable(),
    FunctionDef::new("variadic concat_ws", &[TEXT, ARRAY], TEXT, |a, c| spread(a, 1, c, concat_ws)).stable(),
    FunctionDef::new("variadic format", &[TEXT, ARRAY], TEXT, |a, c| match &a[1] {
        Datum::Null => format(&a[..1], c),
        _ => spread(a, 1, c, format),
    })
    .stable()
    .takes_null(),
    FunctionDef::new("variadic num_nulls", &[ARRAY], INT4, |a, c| spread(a, 0, c, num_nulls)),
    FunctionDef::new("variadic num_nonnulls", &[ARRAY], INT4, |a, c| spread(a, 0, c, num_nonnulls)),
    FunctionDef::new("num_nulls", &[ArgType::Any], INT4, num_nulls).takes_null().variadic(),
    FunctionDef::new("num_nonnulls", &[ArgType::Any], INT4, num_nonnulls).takes_null().variadic(),
];

/// Calls `eval` with the first arguments, `fixed` of them, and the elements of the array behind them.
pub(super) fn spread(
    args: &[Datum],
    fixed: usize,
    ctx: &EvalCtx<'_>,
    eval: crate::expr::Implementation,
) -> EvalResult<Datum> {
    let (fixed, array) = args.split_at(fixed);
    match array {
        [Datum::Array(array)] => eval(&items_of(fixed.iter().chain(&array.items).cloned(), ctx)?, ctx),
        [d, ..] => Err(wrong("an array", d)),
        [] => Err(wrong("an array", &Datum::Null)),
    }
}

fn num_nulls(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    Ok(Datum::Int4(args.iter().filter(|d| d.is_null()).count() as i32))
}

fn num_nonnulls(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    Ok(Datum::Int4(args.iter().filter(|d| !d.is_null()).count() as i32))
}
