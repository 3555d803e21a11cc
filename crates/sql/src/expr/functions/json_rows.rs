//! What set-returning functions of json and jsonb yield, as arrays (`expr::set_function`).

use serde_json::{Map, Value};
use types::{Datum, ElementType};

use super::json::{as_json, as_jsonb, as_text, invalid, parse};
use super::*;

const JSON_ARRAY: ArgType = ArgType::Is(PgType::Array(ElementType::Json));
const JSONB_ARRAY: ArgType = ArgType::Is(PgType::Array(ElementType::Jsonb));

pub(super) static FUNCTIONS: &[FunctionDef] = &[
    FunctionDef::new("elements of json_array_elements", &[JSON], JSON_ARRAY, |a, c| {
        elements(&a[0], "json_array_elements", Form::Json, c)
    }),
    FunctionDef::new("elements of json_array_elements_text", &[JSON], TEXT_ARRAY, |a, c| {
        elements(&a[0], "json_array_elements_text", Form::Text, c)
    }),
    FunctionDef::new("elements of jsonb_array_elements", &[JSONB], JSONB_ARRAY, |a, c| {
        elements(&a[0], "jsonb_array_elements", Form::Json, c)
    }),
    FunctionDef::new("elements of jsonb_array_elements_text", &[JSONB], TEXT_ARRAY, |a, c| {
        elements(&a[0], "jsonb_array_elements_text", Form::Text, c)
    }),
    FunctionDef::new("keys of json_each", &[JSON], TEXT_ARRAY, |a, c| keys(&a[0], "json_each", c)),
    FunctionDef::new("keys of json_each_text", &[JSON], TEXT_ARRAY, |a, c| keys(&a[0], "json_each_text", c)),
    FunctionDef::new("keys of json_object_keys", &[JSON], TEXT_ARRAY, |a, c| {
        keys(&a[0], "json_object_keys", c)
    }),
    FunctionDef::new("keys of jsonb_each", &[JSONB], TEXT_ARRAY, |a, c| keys(&a[0], "jsonb_each", c)),
    FunctionDef::new("keys of jsonb_each_text", &[JSONB], TEXT_ARRAY, |a, c| {
        keys(&a[0], "jsonb_each_text", c)
    }),
    FunctionDef::new("keys of jsonb_object_keys", &[JSONB], TEXT_ARRAY, |a, c| {
        keys(&a[0], "jsonb_object_keys", c)
    }),
    FunctionDef::new("values of json_each", &[JSON], JSON_ARRAY, |a, c| {
        values(&a[0], "json_each", Form::Json, c)
    }),
    FunctionDef::new("values of json_each_text", &[JSON], TEXT_ARRAY, |a, c| {
        values(&a[0], "json_each_text", Form::Text, c)
    }),
    FunctionDef::new("values of jsonb_each", &[JSONB], JSONB_ARRAY, |a, c| {
        values(&a[0], "jsonb_each", Form::Json, c)
    }),
    FunctionDef::new("values of jsonb_each_text", &[JSONB], TEXT_ARRAY, |a, c| {
        values(&a[0], "jsonb_each_text", Form::Text, c)
    }),
    // What the columns of a record are read from.
    FunctionDef::new("record of json_to_record", &[JSON], JSON, |a, _| record(&a[0], "json_to_record")),
    FunctionDef::new("record of json_to_recordset", &[JSON], JSON, |a, _| record(&a[0], "json_to_recordset")),
    FunctionDef::new("record of jsonb_to_record", &[JSONB], JSONB, |a, _| record(&a[0], "jsonb_to_record")),
    FunctionDef::new("record of jsonb_to_recordset", &[JSONB], JSONB, |a, _| {
        record(&a[0], "jsonb_to_recordset")
    }),
];

/// How a part of a value is given: as what the value is, or as text.
#[derive(Clone, Copy)]
enum Form {
    Json,
    Text,
}

fn is_binary(whole: &Datum) -> bool {
    matches!(whole, Datum::Jsonb(_))
}

/// Parts of `whole` as an array.
fn array<'v>(
    parts: impl Iterator<Item = &'v Value>,
    whole: &Datum,
    form: Form,
    ctx: &EvalCtx<'_>,
) -> EvalResult<Datum> {
    let is_binary = is_binary(whole);
    let shown = |part: &Value| match form {
        Form::Text => as_text(Some(part), is_binary),
        Form::Json if is_binary => as_jsonb(Some(part)),
        Form::Json => as_json(Some(part)),
    };
    let element = match form {
        Form::Text => ElementType::Text,
        Form::Json if is_binary => ElementType::Jsonb,
        Form::Json => ElementType::Json,
    };
    Ok(Datum::array(element, items_of(parts.map(shown), ctx)?))
}

fn elements(whole: &Datum, name: &str, form: Form, ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let value = parse(whole)?;
    match &value {
        Value::Array(items) => array(items.iter(), whole, form, ctx),
        other => Err(invalid(&match (is_binary(whole), other.is_object()) {
            (true, true) => "cannot extract elements from an object".to_owned(),
            (true, false) => "cannot extract elements from a scalar".to_owned(),
            (false, true) => format!("cannot call {name} on a non-array"),
            (false, false) => format!("cannot call {name} on a scalar"),
        })),
    }
}

fn keys(whole: &Datum, name: &str, ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let keys = object(whole, name)?;
    Ok(Datum::array(ElementType::Text, items_of(keys.keys().map(Datum::text), ctx)?))
}

fn values(whole: &Datum, name: &str, form: Form, ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    array(object(whole, name)?.values(), whole, form, ctx)
}

/// `whole`, which is to be an object for the function `name`.
fn record(whole: &Datum, name: &str) -> EvalResult<Datum> {
    let value = parse(whole)?;
    if value.is_object() {
        return Ok(whole.clone());
    }
    Err(invalid(&match (name.ends_with("recordset"), value.is_array()) {
        (true, _) => format!("argument of {name} must be an array of objects"),
        (false, true) => format!("cannot call {name} on an array"),
        (false, false) => format!("cannot call {name} on a scalar"),
    }))
}

/// The object that `whole` is to be for the function `name`.
fn object(whole: &Datum, name: &str) -> EvalResult<Map<String, Value>> {
    let is_array = match parse(whole)? {
        Value::Object(object) => return Ok(object),
        other => other.is_array(),
    };
    let message = match (name.ends_with("_object_keys"), is_binary(whole), is_array) {
        (true, _, true) => format!("cannot call {name} on an array"),
        (true, _, false) => format!("cannot call {name} on a scalar"),
        (false, true, _) => format!("cannot call {name} on a non-object"),
        (false, false, true) => "cannot deconstruct an array as an object".to_owned(),
        (false, false, false) => "cannot deconstruct a scalar".to_owned(),
    };
    Err(invalid(&message))
}
