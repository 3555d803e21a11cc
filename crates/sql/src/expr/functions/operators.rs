//! Operators on integers and bits, string concatenation.

use types::{Array, Datum};

use super::*;

pub(super) static OPERATORS: &[FunctionDef] = &[
    FunctionDef::new("&", &[INT2, INT2], INT2, bit_and),
    FunctionDef::new("&", &[INT4, INT4], INT4, bit_and),
    FunctionDef::new("&", &[INT8, INT8], INT8, bit_and),
    FunctionDef::new("|", &[INT2, INT2], INT2, bit_or),
    FunctionDef::new("|", &[INT4, INT4], INT4, bit_or),
    FunctionDef::new("|", &[INT8, INT8], INT8, bit_or),
    FunctionDef::new("#", &[INT2, INT2], INT2, bit_xor),
    FunctionDef::new("#", &[INT4, INT4], INT4, bit_xor),
    FunctionDef::new("#", &[INT8, INT8], INT8, bit_xor),
    FunctionDef::new("~", &[INT2], INT2, bit_not),
    FunctionDef::new("~", &[INT4], INT4, bit_not),
    FunctionDef::new("~", &[INT8], INT8, bit_not),
    FunctionDef::new("<<", &[INT2, INT4], INT2, shift_left),
    FunctionDef::new("<<", &[INT4, INT4], INT4, shift_left),
    FunctionDef::new("<<", &[INT8, INT4], INT8, shift_left),
    FunctionDef::new(">>", &[INT2, INT4], INT2, shift_right),
    FunctionDef::new(">>", &[INT4, INT4], INT4, shift_right),
    FunctionDef::new(">>", &[INT8, INT4], INT8, shift_right),
    FunctionDef::new("||", &[TEXT, TEXT], TEXT, concat_text),
    FunctionDef::new("||", &[TEXT, ArgType::AnyNonArray], TEXT, concat_any).stable(),
    FunctionDef::new("||", &[ArgType::AnyNonArray, TEXT], TEXT, concat_any).stable(),
    FunctionDef::new("||", &[BYTEA, BYTEA], BYTEA, concat_bytes),
    FunctionDef::new("||", &[ArgType::AnyArray, ArgType::AnyArray], ArgType::AnyArray, concat_arrays)
        .takes_null(),
    FunctionDef::new("||", &[ArgType::AnyArray, ArgType::AnyElement], ArgType::AnyArray, append).takes_null(),
    FunctionDef::new("||", &[ArgType::AnyElement, ArgType::AnyArray], ArgType::AnyArray, prepend)
        .takes_null(),
];

/// CASE of its first argument, then what that may be equal to and the result, in pairs, then the result of ELSE. In no table of names.
pub(crate) static CASE_OF: FunctionDef =
    FunctionDef::new("case", &[ArgType::Any], ArgType::Any, |args, _| {
        let [operand, rest @ ..] = args else { return Err(wrong("an operand", &Datum::Void)) };
        let (pairs, otherwise) = rest.as_chunks::<2>();
        let fits = |value: &Datum| !operand.is_null() && !value.is_null() && types::equal(operand, value);
        let found = pairs.iter().find(|[value, _]| fits(value)).map(|[_, result]| result);
        Ok(found.or(otherwise.first()).cloned().unwrap_or_default())
    })
    .takes_null()
    .variadic();

macro_rules! bits {
    ($name:ident, $op:tt) => {
        fn $name(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
            Ok(match (&args[0], &args[1]) {
                (Datum::Int2(a), Datum::Int2(b)) => Datum::Int2(a $op b),
                (Datum::Int4(a), Datum::Int4(b)) => Datum::Int4(a $op b),
                (Datum::Int8(a), Datum::Int8(b)) => Datum::Int8(a $op b),
                (a, _) => return Err(wrong("an integer", a)),
            })
        }
    };
}
bits!(bit_and, &);
bits!(bit_or, |);
bits!(bit_xor, ^);

fn bit_not(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    Ok(match &args[0] {
        Datum::Int2(a) => Datum::Int2(!a),
        Datum::Int4(a) => Datum::Int4(!a),
        Datum::Int8(a) => Datum::Int8(!a),
        a => return Err(wrong("an integer", a)),
    })
}

fn shift_left(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let by = int(&args[1])? as u32;
    Ok(match &args[0] {
        Datum::Int2(a) => Datum::Int2(i32::from(*a).wrapping_shl(by) as i16),
        Datum::Int4(a) => Datum::Int4(a.wrapping_shl(by)),
        Datum::Int8(a) => Datum::Int8(a.wrapping_shl(by)),
        a => return Err(wrong("an integer", a)),
    })
}

fn shift_right(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let by = int(&args[1])? as u32;
    Ok(match &args[0] {
        Datum::Int2(a) => Datum::Int2(i32::from(*a).wrapping_shr(by) as i16),
        Datum::Int4(a) => Datum::Int4(a.wrapping_shr(by)),
        Datum::Int8(a) => Datum::Int8(a.wrapping_shr(by)),
        a => return Err(wrong("an integer", a)),
    })
}

fn concat_text(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let (a, b) = (text(&args[0])?, text(&args[1])?);
    let mut out = compact_str::CompactString::with_capacity(a.len() + b.len());
    out.push_str(a);
    out.push_str(b);
    Ok(Datum::Text(out))
}

/// A value's output, as `concat` and `format` see it.
pub(super) fn shown(d: &Datum, ctx: &EvalCtx<'_>) -> String {
    types::to_text(d, d.natural_type(), ctx.stmt.format)
}

/// A value cast to text: unlike output, that spells booleans out.
pub(super) fn cast_to_text(d: &Datum, ctx: &EvalCtx<'_>) -> String {
    match d {
        Datum::Bool(b) => b.to_string(),
        d => shown(d, ctx),
    }
}

fn concat_any(args: &[Datum], ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    Ok(Datum::text(cast_to_text(&args[0], ctx) + &cast_to_text(&args[1], ctx)))
}

fn concat_bytes(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    Ok(Datum::Bytea([bytes(&args[0])?, bytes(&args[1])?].concat().into()))
}

fn concat_arrays(args: &[Datum], ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    match (&args[0], &args[1]) {
        (Datum::Array(a), Datum::Array(b)) => {
            let items = items_of(a.items.iter().chain(&b.items).cloned(), ctx)?;
            Ok(Datum::Array(Box::new(Array { element: a.element, items })))
        }
        (Datum::Null, other) | (other, _) => Ok(other.clone()),
    }
}

/// `array || element`, `array_append`.
pub(super) fn append(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    with_item(&args[0], &args[1], false)
}

/// `element || array`, `array_prepend`.
pub(super) fn prepend(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    with_item(&args[1], &args[0], true)
}

fn with_item(array: &Datum, item: &Datum, first: bool) -> EvalResult<Datum> {
    let mut array = match array {
        Datum::Array(array) => (**array).clone(),
        _ => match types::ElementType::from_type(item.natural_type()) {
            Some(element) => Array { element, items: Vec::new() },
            None => return Ok(Datum::Null),
        },
    };
    array.items.insert(if first { 0 } else { array.items.len() }, item.clone());
    Ok(Datum::Array(Box::new(array)))
}
