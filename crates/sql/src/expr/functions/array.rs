//! Functions and operators on arrays.

use base::{SqlError, SqlState};
use types::{Array, Datum, PgType};

use super::operators::{append, prepend};
use super::*;

const ARRAY: ArgType = ArgType::AnyArray;
const ELEMENT: ArgType = ArgType::AnyElement;

pub(super) static OPERATORS: &[FunctionDef] = &[
    FunctionDef::new("@>", &[ARRAY, ARRAY], BOOL, |a, c| {
        Ok(Datum::Bool(contains(array(&a[0])?, array(&a[1])?, c)?))
    }),
    FunctionDef::new("<@", &[ARRAY, ARRAY], BOOL, |a, c| {
        Ok(Datum::Bool(contains(array(&a[1])?, array(&a[0])?, c)?))
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
    FunctionDef::new("array_dims", &[ARRAY], TEXT, |a, _| {
        Ok(match array(&a[0])?.items.len() {
            0 => Datum::Null,
            length => Datum::text(format!("[1:{length}]")),
        })
    }),
    FunctionDef::new("array_fill", &[ELEMENT, INT4_ARRAY], ARRAY, fill).takes_null(),
    FunctionDef::new("trim_array", &[ARRAY, INT4], ARRAY, trim),
    FunctionDef::new("array_position", &[ARRAY, ELEMENT, INT4], INT4, position).takes_null(),
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

/// The elements of an array that are not NULL, ready to be asked for many others.
enum Lookup<'a> {
    Few(&'a [Datum]),
    Sorted(Vec<&'a Datum>),
    /// Of jsonb, which is read to be compared.
    Keys(Vec<Vec<u8>>),
}

/// Bytes that are a jsonb's alone; `None` for other values.
fn json_key(item: &Datum) -> Option<Vec<u8>> {
    let Datum::Jsonb(text) = item else { return None };
    let mut key = Vec::new();
    types::json::write_key(text, &mut key);
    Some(key)
}

impl<'a> Lookup<'a> {
    /// For `asked` questions.
    fn of(items: &'a [Datum], asked: usize, ctx: &EvalCtx<'_>) -> EvalResult<Lookup<'a>> {
        if items.len().saturating_mul(asked) <= 4096 {
            return Ok(Lookup::Few(items));
        }
        if items.iter().any(|item| matches!(item, Datum::Jsonb(_))) {
            ctx.room(items.iter().map(|item| size_of::<Vec<u8>>() + 2 * item.heap_bytes()).sum())?;
            let mut keys: Vec<Vec<u8>> = items.iter().filter_map(json_key).collect();
            keys.sort_unstable();
            return Ok(Lookup::Keys(keys));
        }
        let mut sorted: Vec<&Datum> = items.iter().filter(|item| !item.is_null()).collect();
        sorted.sort_unstable_by(|a, b| types::compare(a, b));
        Ok(Lookup::Sorted(sorted))
    }

    fn has(&self, item: &Datum) -> bool {
        match self {
            _ if item.is_null() => false,
            Lookup::Few(items) => items.iter().any(|own| same(own, item)),
            Lookup::Sorted(sorted) => sorted.binary_search_by(|own| types::compare(own, item)).is_ok(),
            Lookup::Keys(keys) => json_key(item).is_some_and(|key| keys.binary_search(&key).is_ok()),
        }
    }
}

fn contains(outer: &Array, inner: &Array, ctx: &EvalCtx<'_>) -> EvalResult<bool> {
    let own = Lookup::of(&outer.items, inner.items.len(), ctx)?;
    Ok(inner.items.iter().all(|item| own.has(item)))
}

fn overlaps(args: &[Datum], ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let (a, b) = (array(&args[0])?, array(&args[1])?);
    let own = Lookup::of(&b.items, a.items.len(), ctx)?;
    Ok(Datum::Bool(a.items.iter().any(|item| own.has(item))))
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
    let from = match args.get(2) {
        None => 0,
        Some(Datum::Null) => {
            let message = "initial position must not be null";
            return Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, message).into());
        }
        Some(from) => usize::try_from(int(from)? - 1).unwrap_or(0),
    };
    let found = array(&args[0])?.items.iter().enumerate().skip(from).find(|(_, item)| same(item, &args[1]));
    Ok(found.map_or(Datum::Null, |(i, _)| Datum::Int4(i as i32 + 1)))
}

/// Most elements of an array in PostgreSQL.
const ELEMENTS_MAX: i64 = 134_217_727;

fn fill(args: &[Datum], ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let Datum::Array(lengths) = &args[1] else {
        let message = "dimension array or low bound array cannot be null";
        return Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, message).into());
    };
    let element = types::ElementType::from_type(args[0].natural_type());
    let count = match &lengths.items[..] {
        [] => 0,
        [Datum::Null] => {
            let message = "dimension values cannot be null";
            return Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, message).into());
        }
        [count] => int(count)?,
        _ => return Err(SqlError::unsupported("an array of more than one dimension").into()),
    };
    let Some(element) = element else {
        return Err(SqlError::unsupported("array_fill with a NULL").into());
    };
    if !(0..=ELEMENTS_MAX).contains(&count) {
        let message = format!("array size exceeds the maximum allowed ({ELEMENTS_MAX})");
        return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message).into());
    }
    let items = items_of(std::iter::repeat_n(args[0].clone(), count as usize), ctx)?;
    Ok(Datum::array(element, items))
}

fn trim(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let (array, by) = (array(&args[0])?, int(&args[1])?);
    let kept =
        usize::try_from(by).ok().and_then(|by| array.items.len().checked_sub(by)).ok_or_else(|| {
            let message = format!("number of elements to trim must be between 0 and {}", array.items.len());
            SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, message)
        })?;
    Ok(Datum::array(array.element, array.items[..kept].to_vec()))
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
