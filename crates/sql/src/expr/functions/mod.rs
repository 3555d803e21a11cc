//! The built-in functions and operators, by name.

mod array;
mod bytes;
mod datetime;
mod extension;
mod hash;
mod json;
mod json_build;
mod json_path;
mod json_rows;
mod math;
mod md5;
mod number_format;
mod operators;
mod pattern;
mod regexp;
mod session;
mod size;
mod string;
mod time_format;
mod time_parse;
mod time_template;
mod trigonometry;
mod variadic;

use std::borrow::Cow;
use std::sync::LazyLock;

use base::SqlError;
use rustc_hash::FxHashMap;
use types::{Datum, Numeric, PgType};

use super::eval_context::{EvalCtx, EvalError, EvalResult};
use super::function::{ArgType, FunctionDef};
use crate::memory_bound::Held;

pub(crate) use extension::{extension_of, hint_for_missing};
pub(crate) use operators::CASE_OF;
pub(crate) use session::{IS_CALLED, LAST_VALUE, RESET_STATEMENTS, TYPE_OF, identity_value};

type Index = FxHashMap<&'static str, Vec<&'static FunctionDef>>;

static FUNCTIONS: LazyLock<Index> = LazyLock::new(|| {
    index(&[
        array::FUNCTIONS,
        bytes::FUNCTIONS,
        datetime::FUNCTIONS,
        extension::FUNCTIONS,
        hash::FUNCTIONS,
        json::FUNCTIONS,
        json_build::FUNCTIONS,
        json_path::FUNCTIONS,
        json_rows::FUNCTIONS,
        math::FUNCTIONS,
        pattern::FUNCTIONS,
        regexp::FUNCTIONS,
        number_format::FUNCTIONS,
        session::FUNCTIONS,
        size::FUNCTIONS,
        string::FUNCTIONS,
        time_format::FUNCTIONS,
        time_parse::FUNCTIONS,
        trigonometry::FUNCTIONS,
        variadic::FUNCTIONS,
    ])
});

static OPERATORS: LazyLock<Index> = LazyLock::new(|| {
    index(&[
        array::OPERATORS,
        datetime::OPERATORS,
        json::OPERATORS,
        json_path::OPERATORS,
        math::OPERATORS,
        operators::OPERATORS,
        pattern::OPERATORS,
        regexp::OPERATORS,
    ])
});

fn index(tables: &[&'static [FunctionDef]]) -> Index {
    let mut index = Index::default();
    for def in tables.iter().copied().flatten() {
        index.entry(def.name).or_default().push(def);
    }
    index
}

/// All functions of that name.
pub(super) fn named(name: &str) -> &'static [&'static FunctionDef] {
    FUNCTIONS.get(name).map_or(&[], Vec::as_slice)
}

/// All operators of that name.
pub(super) fn operators(name: &str) -> &'static [&'static FunctionDef] {
    OPERATORS.get(name).map_or(&[], Vec::as_slice)
}

const BOOL: ArgType = ArgType::Is(PgType::Bool);
const INT2: ArgType = ArgType::Is(PgType::Int2);
const INT4: ArgType = ArgType::Is(PgType::Int4);
const INT8: ArgType = ArgType::Is(PgType::Int8);
const FLOAT4: ArgType = ArgType::Is(PgType::Float4);
const FLOAT8: ArgType = ArgType::Is(PgType::Float8);
const NUMERIC: ArgType = ArgType::Is(PgType::Numeric);
const TEXT: ArgType = ArgType::Is(PgType::Text);
const NAME: ArgType = ArgType::Is(PgType::Name);
const BPCHAR: ArgType = ArgType::Is(PgType::Bpchar);
const BYTEA: ArgType = ArgType::Is(PgType::Bytea);
const DATE: ArgType = ArgType::Is(PgType::Date);
const TIME: ArgType = ArgType::Is(PgType::Time);
const TIMESTAMP: ArgType = ArgType::Is(PgType::Timestamp);
const TIMESTAMPTZ: ArgType = ArgType::Is(PgType::TimestampTz);
const INTERVAL: ArgType = ArgType::Is(PgType::Interval);
const UUID: ArgType = ArgType::Is(PgType::Uuid);
const JSON: ArgType = ArgType::Is(PgType::Json);
const JSONB: ArgType = ArgType::Is(PgType::Jsonb);

const REGCLASS: ArgType = ArgType::Is(PgType::Regclass);
const REGTYPE: ArgType = ArgType::Is(PgType::Regtype);
const VOID: ArgType = ArgType::Is(PgType::Void);
const TEXT_ARRAY: ArgType = ArgType::Is(PgType::Array(types::ElementType::Text));
const INT4_ARRAY: ArgType = ArgType::Is(PgType::Array(types::ElementType::Int4));
const NAME_ARRAY: ArgType = ArgType::Is(PgType::Array(types::ElementType::Name));

/// A value of another type than its signature says: a defect of the binder.
#[cold]
fn wrong(what: &str, got: &Datum) -> EvalError {
    SqlError::internal(format!("expected {what}, got {}", got.natural_type().name())).into()
}

fn text(d: &Datum) -> EvalResult<&str> {
    d.as_str().ok_or_else(|| wrong("text", d))
}

fn int(d: &Datum) -> EvalResult<i64> {
    d.as_i64().ok_or_else(|| wrong("an integer", d))
}

fn float(d: &Datum) -> EvalResult<f64> {
    match d {
        Datum::Float8(v) => Ok(*v),
        Datum::Float4(v) => Ok(f64::from(*v)),
        _ => Err(wrong("a float", d)),
    }
}

fn numeric(d: &Datum) -> EvalResult<&Numeric> {
    match d {
        Datum::Numeric(n) => Ok(n),
        _ => Err(wrong("a numeric", d)),
    }
}

fn bytes(d: &Datum) -> EvalResult<&[u8]> {
    match d {
        Datum::Bytea(b) => Ok(b),
        _ => Err(wrong("bytea", d)),
    }
}

/// The items of an array that a function builds.
///
/// # Errors
/// 53200 where they take too much memory.
fn items_of(values: impl Iterator<Item = Datum>, ctx: &EvalCtx<'_>) -> EvalResult<Vec<Datum>> {
    let mut held = ctx.held();
    let mut items = Vec::new();
    for value in values {
        held.item(&value)?;
        items.push(value);
    }
    Ok(items)
}

/// Parts of a text that a function builds, one behind the other.
struct Text<'a> {
    text: String,
    held: Held<'a>,
}

impl<'a> Text<'a> {
    fn new(ctx: &EvalCtx<'a>) -> Text<'a> {
        Text { text: String::new(), held: ctx.held() }
    }

    /// # Errors
    /// 53200 where the text takes too much memory.
    fn push(&mut self, part: &str) -> EvalResult<()> {
        self.held.take(part.len())?;
        self.text.push_str(part);
        Ok(())
    }

    fn finish(self) -> Datum {
        Datum::text(self.text)
    }
}

/// `parts` with `separator` between them.
fn joined<'p>(
    parts: impl Iterator<Item = Cow<'p, str>>,
    separator: &str,
    ctx: &EvalCtx<'_>,
) -> EvalResult<Datum> {
    let mut out = Text::new(ctx);
    for (at, part) in parts.enumerate() {
        if at > 0 {
            out.push(separator)?;
        }
        out.push(&part)?;
    }
    Ok(out.finish())
}

fn boolean(d: &Datum) -> EvalResult<bool> {
    d.as_bool().ok_or_else(|| wrong("a boolean", d))
}
