//! Functions and operators on arrays.

use types::{Array, Datum, PgType};

use super::operators::{append, prepend};
use super::*;

const ARRAY: ArgType = ArgType::AnyArray;
const ELEMENT: ArgType = ArgType::AnyElement;

pub(super) static OPERATORS: &[FunctionDef] = &[
    FunctionDef::new("@>", &[ARRAY, ARRAY], BOOL, |a, _| {
        Ok(Datum::Bool(contains(array(&a[0])?, array(&a[1])?)))
    }),
    FunctionDef::new("<@", &[ARRAY, ARRAY], BOOL, |a, _| {
        Ok(Datum::Bool(contains(array(&a[1])?, array(&a[0])?)))
    }),
    FunctionDef::new("&&", &[ARRAY, ARRAY], BOOL, overlaps),
];

pub(super) static FUNCTIONS: &[FunctionDef] = &[
    FunctionDef::new("array_length", &[ARRAY, INT4], INT4, length),
    FunctionDef::new("array_upper", &[ARRAY, INT4], INT4, length),
    FunctionDef::new("array_lower", &[ARRAY, INT4], INT4, |a, c| {
        Ok(if length(a, c)?.is_null() { Datum::Null } else { Datum::Int4(1) })
    }),
    FunctionDef::new("array_ndims", &[ARRAY], INT4, |a, _| {
        Ok(if array(&a[0])?.items.is_empty() { Datum::Null } else { Datum::Int4(1) })
    }),
    FunctionDef::new("cardinality", &[ARRAY], INT4, |a, _| Ok(Datum::Int4(array(&a[0])?.items.len() as i32))),
    FunctionDef::new("array_position", &[ARRAY, ELEMENT], INT4, position).takes_null(),
    FunctionDef::new(
        "array_positions",
        &[ARRAY, ELEMENT],
        ArgType::Is(PgType::Array(types::ElementType::Int4)),
        positions,
    )
    .takes_null(),
    FunctionDef::new("array_append", &[ARRAY, ELEMENT], ARRAY, append).takes_null(),
    FunctionDef::new("array_prepend", &[ELEMENT, ARRAY], ARRAY, prepend).takes_null(),
    FunctionDef::new("array_cat", &[ARRAY, ARRAY], ARRAY, cat).takes_null(),
    FunctionDef::new("array_remove", &[ARRAY, ELEMENT], ARRAY, remove).takes_null(),
    FunctionDef::new("array_replace", &[ARRAY, ELEMENT, ELEMENT], ARRAY, replace).takes_null(),
    FunctionDef::new("array_to_string", &[ARRAY, TEXT], TEXT, to_string).stable(),
    FunctionDef::new("array_to_string", &[ARRAY, TEXT, TEXT], TEXT, to_string).stable().takes_null(),
];

fn array(d: &Datum) -> EvalResult<&Array> {
    match d {
        Datum::Array(array) => Ok(array),
        _ => Err(wrong("an array", d)),
    }
}

/// Equality of elements that also finds NULLs.
fn same(a: &Datum, b: &Datum) -> bool {
    match (a.is_null(), b.is_null()) {
        (false, false) => types::equal(a, b),
        (x, y) => x && y,
    }
}

fn contains(outer: &Array, inner: &Array) -> bool {
    inner.items.iter().all(|item| !item.is_null() && outer.items.iter().any(|own| same(own, item)))
}

fn overlaps(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let (a, b) = (array(&args[0])?, array(&args[1])?);
    let shared = a.items.iter().any(|x| !x.is_null() && b.items.iter().any(|y| same(x, y)));
    Ok(Datum::Bool(shared))
}

fn length(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let array = array(&args[0])?;
    let first_dimension = int(&args[1])? == 1 && !array.items.is_empty();
    Ok(if first_dimension { Datum::Int4(array.items.len() as i32) } else { Datum::Null })
}

fn position(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    if args[0].is_null() {
        return Ok(Datum::Null);
    }
    let found = array(&args[0])?.items.iter().position(|item| same(item, &args[1]));
    Ok(found.map_or(Datum::Null, |i| Datum::Int4(i as i32 + 1)))
}

fn positions(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    if args[0].is_null() {
        return Ok(Datum::Null);
    }
    let items = array(&args[0])?.items.iter().enumerate().filter(|(_, item)| same(item, &args[1]));
    Ok(Datum::array(types::ElementType::Int4, items.map(|(i, _)| Datum::Int4(i as i32 + 1)).collect()))
}

fn cat(args: &[Datum], ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    match (&args[0], &args[1]) {
        (Datum::Null, other) | (other, Datum::Null) => Ok(other.clone()),
        (a, b) => {
            let (a, b) = (array(a)?, array(b)?);
            Ok(Datum::array(a.element, items_of(a.items.iter().chain(&b.items).cloned(), ctx)?))
        }
    }
}

fn remove(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    if args[0].is_null() {
        return Ok(Datum::Null);
    }
    let array = array(&args[0])?;
    Ok(Datum::array(
        array.element,
        array.items.iter().filter(|item| !same(item, &args[1])).cloned().collect(),
    ))
}

fn replace(args: &[Datum], ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    if args[0].is_null() {
        return Ok(Datum::Null);
    }
    let array = array(&args[0])?;
    let items = array.items.iter().map(|item| if same(item, &args[1]) { &args[2] } else { item });
    Ok(Datum::array(array.element, items_of(items.cloned(), ctx)?))
}

fn to_string(args: &[Datum], ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    if args[0].is_null() || args[1].is_null() {
        return Ok(Datum::Null);
    }
    let array = array(&args[0])?;
    let null = args.get(2).filter(|d| !d.is_null()).map(text).transpose()?;
    let parts = array.items.iter().filter_map(|item| match item {
        Datum::Null => null.map(Cow::Borrowed),
        item => Some(Cow::Owned(types::to_text(item, array.element.into(), ctx.stmt.format))),
    });
    joined(parts, text(&args[1])?, ctx)
}
