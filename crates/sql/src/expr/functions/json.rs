//! Functions and operators on json and jsonb.

use base::{SqlError, SqlState};
use rustc_hash::FxHashSet;
use serde_json::Value;
use types::{Datum, json};

use super::*;

pub(super) static OPERATORS: &[FunctionDef] = &[
    FunctionDef::new("->", &[JSONB, TEXT], JSONB, |a, _| Ok(as_jsonb(field(&parse(&a[0])?, text(&a[1])?)))),
    FunctionDef::new("->", &[JSONB, INT4], JSONB, |a, _| Ok(as_jsonb(element(&parse(&a[0])?, int(&a[1])?)))),
    FunctionDef::new("->", &[JSON, TEXT], JSON, |a, _| Ok(as_json(field(&parse(&a[0])?, text(&a[1])?)))),
    FunctionDef::new("->", &[JSON, INT4], JSON, |a, _| Ok(as_json(item(&parse(&a[0])?, int(&a[1])?)))),
    FunctionDef::new("->>", &[JSONB, TEXT], TEXT, |a, _| {
        Ok(as_text(field(&parse(&a[0])?, text(&a[1])?), true))
    }),
    FunctionDef::new("->>", &[JSONB, INT4], TEXT, |a, _| {
        Ok(as_text(element(&parse(&a[0])?, int(&a[1])?), true))
    }),
    FunctionDef::new("->>", &[JSON, TEXT], TEXT, |a, _| {
        Ok(as_text(field(&parse(&a[0])?, text(&a[1])?), false))
    }),
    FunctionDef::new("->>", &[JSON, INT4], TEXT, |a, _| {
        Ok(as_text(item(&parse(&a[0])?, int(&a[1])?), false))
    }),
    FunctionDef::new("#>", &[JSONB, TEXT_ARRAY], JSONB, |a, _| {
        Ok(as_jsonb(at_path(&parse(&a[0])?, &path(&a[1])?)))
    }),
    FunctionDef::new("#>", &[JSON, TEXT_ARRAY], JSON, |a, _| {
        Ok(as_json(at_path(&parse(&a[0])?, &path(&a[1])?)))
    }),
    FunctionDef::new("#>>", &[JSONB, TEXT_ARRAY], TEXT, |a, _| {
        Ok(as_text(at_path(&parse(&a[0])?, &path(&a[1])?), true))
    }),
    FunctionDef::new("#>>", &[JSON, TEXT_ARRAY], TEXT, |a, _| {
        Ok(as_text(at_path(&parse(&a[0])?, &path(&a[1])?), false))
    }),
    FunctionDef::new("@>", &[JSONB, JSONB], BOOL, |a, _| {
        Ok(Datum::Bool(json::contains(&parse(&a[0])?, &parse(&a[1])?)?))
    }),
    FunctionDef::new("<@", &[JSONB, JSONB], BOOL, |a, _| {
        Ok(Datum::Bool(json::contains(&parse(&a[1])?, &parse(&a[0])?)?))
    }),
    FunctionDef::new("?", &[JSONB, TEXT], BOOL, |a, _| {
        Ok(Datum::Bool(has_key(&parse(&a[0])?, text(&a[1])?)))
    }),
    FunctionDef::new("?|", &[JSONB, TEXT_ARRAY], BOOL, |a, _| {
        let value = parse(&a[0])?;
        let keys = path(&a[1])?;
        let own = own_keys(&value);
        Ok(Datum::Bool(keys.iter().flatten().any(|key| own.contains(key.as_str()))))
    }),
    FunctionDef::new("?&", &[JSONB, TEXT_ARRAY], BOOL, |a, _| {
        let value = parse(&a[0])?;
        let keys = path(&a[1])?;
        let own = own_keys(&value);
        Ok(Datum::Bool(keys.iter().flatten().all(|key| own.contains(key.as_str()))))
    }),
    FunctionDef::new("||", &[JSONB, JSONB], JSONB, concat),
    FunctionDef::new("-", &[JSONB, TEXT], JSONB, delete_key),
    FunctionDef::new("-", &[JSONB, INT4], JSONB, delete_index),
    FunctionDef::new("-", &[JSONB, TEXT_ARRAY], JSONB, delete_keys),
];

pub(super) static FUNCTIONS: &[FunctionDef] = &[
    FunctionDef::new("jsonb_typeof", &[JSONB], TEXT, |a, _| Ok(Datum::text(type_name(&parse(&a[0])?)))),
    FunctionDef::new("json_typeof", &[JSON], TEXT, |a, _| {
        Ok(Datum::text(type_name(&json::parse(text(&a[0])?)?)))
    }),
    FunctionDef::new("jsonb_array_length", &[JSONB], INT4, array_length),
    FunctionDef::new("json_array_length", &[JSON], INT4, array_length),
    FunctionDef::new("jsonb_extract_path", &[JSONB, TEXT], JSONB, |a, _| {
        Ok(as_jsonb(at_path(&parse(&a[0])?, &keys(&a[1..])?)))
    })
    .variadic(),
    FunctionDef::new("jsonb_extract_path_text", &[JSONB, TEXT], TEXT, |a, _| {
        Ok(as_text(at_path(&parse(&a[0])?, &keys(&a[1..])?), true))
    })
    .variadic(),
    FunctionDef::new("json_extract_path", &[JSON, TEXT], JSON, |a, _| {
        Ok(as_json(at_path(&parse(&a[0])?, &keys(&a[1..])?)))
    })
    .variadic(),
    FunctionDef::new("json_extract_path_text", &[JSON, TEXT], TEXT, |a, _| {
        Ok(as_text(at_path(&parse(&a[0])?, &keys(&a[1..])?), false))
    })
    .variadic(),
    FunctionDef::new("variadic jsonb_extract_path", &[JSONB, TEXT_ARRAY], JSONB, |a, _| {
        Ok(as_jsonb(at_path(&parse(&a[0])?, &path(&a[1])?)))
    }),
    FunctionDef::new("variadic jsonb_extract_path_text", &[JSONB, TEXT_ARRAY], TEXT, |a, _| {
        Ok(as_text(at_path(&parse(&a[0])?, &path(&a[1])?), true))
    }),
    FunctionDef::new("variadic json_extract_path", &[JSON, TEXT_ARRAY], JSON, |a, _| {
        Ok(as_json(at_path(&parse(&a[0])?, &path(&a[1])?)))
    }),
    FunctionDef::new("variadic json_extract_path_text", &[JSON, TEXT_ARRAY], TEXT, |a, _| {
        Ok(as_text(at_path(&parse(&a[0])?, &path(&a[1])?), false))
    }),
    FunctionDef::new("jsonb_strip_nulls", &[JSONB], JSONB, |a, _| Ok(jsonb(&strip_nulls(parse(&a[0])?)))),
    FunctionDef::new("json_strip_nulls", &[JSON], JSON, |a, _| {
        Ok(as_json(Some(&strip_nulls(parse(&a[0])?))))
    }),
    FunctionDef::new("jsonb_pretty", &[JSONB], TEXT, |a, ctx| {
        let mut out = String::new();
        pretty(&parse(&a[0])?, 0, &mut out, ctx)?;
        Ok(Datum::text(out))
    }),
];

/// # Errors
/// 22P05 where a json value has a character that no text has.
pub(super) fn parse(d: &Datum) -> EvalResult<Value> {
    let text = text(d)?;
    if matches!(d, Datum::Json(_)) {
        json::check_no_nul(text)?;
    }
    Ok(json::parse(text)?)
}

pub(super) fn jsonb(value: &Value) -> Datum {
    Datum::Jsonb(json::canonical(value).into())
}

pub(super) fn as_jsonb(value: Option<&Value>) -> Datum {
    value.map_or(Datum::Null, jsonb)
}

pub(super) fn as_json(value: Option<&Value>) -> Datum {
    value.map_or(Datum::Null, |v| Datum::Json(v.to_string().into()))
}

/// A string bare, JSON null as NULL, anything else as its text.
pub(super) fn as_text(value: Option<&Value>, canonical: bool) -> Datum {
    match value {
        None | Some(Value::Null) => Datum::Null,
        Some(Value::String(s)) => Datum::text(s),
        Some(other) => Datum::text(if canonical { json::canonical(other) } else { other.to_string() }),
    }
}

fn field<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
    value.as_object()?.get(key)
}

pub(super) fn index_of(len: usize, at: i64) -> Option<usize> {
    let at = if at < 0 { at + len as i64 } else { at };
    usize::try_from(at).ok().filter(|i| *i < len)
}

fn item(value: &Value, at: i64) -> Option<&Value> {
    if value.is_array() { element(value, at) } else { None }
}

fn element(value: &Value, at: i64) -> Option<&Value> {
    match value {
        Value::Array(items) => index_of(items.len(), at).map(|i| &items[i]),
        // A scalar is kept as an array of one.
        Value::Object(_) => None,
        scalar => index_of(1, at).map(|_| scalar),
    }
}

/// The keys of a path, `None` for NULL.
pub(super) fn path(d: &Datum) -> EvalResult<Vec<Option<String>>> {
    match d {
        Datum::Array(array) => keys(&array.items),
        _ => Err(wrong("an array", d)),
    }
}

fn keys(items: &[Datum]) -> EvalResult<Vec<Option<String>>> {
    let key = |d: &Datum| if d.is_null() { Ok(None) } else { text(d).map(|key| Some(key.to_owned())) };
    items.iter().map(key).collect()
}

/// An array's subscript within a path, as the C library reads numbers.
pub(super) fn subscript(key: &str) -> Option<i64> {
    let number = key.trim_start_matches([' ', '\t', '\n', '\u{b}', '\u{c}', '\r']);
    number.parse::<i32>().ok().map(i64::from)
}

/// What `path` leads to; nothing if it has a NULL.
fn at_path<'a>(value: &'a Value, path: &[Option<String>]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, key| match (value, key.as_deref()?) {
        (Value::Object(map), key) => map.get(key),
        (Value::Array(_), key) => element(value, subscript(key)?),
        _ => None,
    })
}

fn has_key(value: &Value, key: &str) -> bool {
    match value {
        Value::Object(map) => map.contains_key(key),
        Value::Array(items) => items.iter().any(|item| item.as_str() == Some(key)),
        Value::String(s) => s == key,
        _ => false,
    }
}

/// What [`has_key`] finds, for many questions.
fn own_keys(value: &Value) -> FxHashSet<&str> {
    match value {
        Value::Object(map) => map.keys().map(String::as_str).collect(),
        Value::Array(items) => items.iter().filter_map(Value::as_str).collect(),
        Value::String(text) => [text.as_str()].into_iter().collect(),
        _ => FxHashSet::default(),
    }
}

fn concat(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let into_items = |value: Value| match value {
        Value::Array(items) => items,
        other => vec![other],
    };
    Ok(jsonb(&match (parse(&args[0])?, parse(&args[1])?) {
        (Value::Object(mut a), Value::Object(b)) => {
            a.extend(b);
            Value::Object(a)
        }
        (a, b) => Value::Array(into_items(a).into_iter().chain(into_items(b)).collect()),
    }))
}

pub(super) fn invalid(message: &str) -> EvalError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message).into()
}

fn delete_key(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let mut value = parse(&args[0])?;
    remove_key(&mut value, text(&args[1])?)?;
    Ok(jsonb(&value))
}

fn remove_key(value: &mut Value, key: &str) -> EvalResult<()> {
    match value {
        Value::Object(map) => {
            map.shift_remove(key);
        }
        Value::Array(items) => items.retain(|item| item.as_str() != Some(key)),
        _ => return Err(invalid("cannot delete from scalar")),
    }
    Ok(())
}

fn delete_keys(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let mut value = parse(&args[0])?;
    let keys: FxHashSet<String> = path(&args[1])?.into_iter().flatten().collect();
    match &mut value {
        Value::Object(map) => map.retain(|key, _| !keys.contains(key)),
        Value::Array(items) => items.retain(|item| !item.as_str().is_some_and(|text| keys.contains(text))),
        _ => return Err(invalid("cannot delete from scalar")),
    }
    Ok(jsonb(&value))
}

fn delete_index(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let mut value = parse(&args[0])?;
    match &mut value {
        Value::Array(items) => {
            if let Some(i) = index_of(items.len(), int(&args[1])?) {
                items.remove(i);
            }
        }
        Value::Object(_) => return Err(invalid("cannot delete from object using integer index")),
        _ => return Err(invalid("cannot delete from scalar")),
    }
    Ok(jsonb(&value))
}

fn array_length(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    match json::parse(text(&args[0])?)? {
        Value::Array(items) => Ok(Datum::Int4(items.len() as i32)),
        Value::Object(_) => Err(invalid("cannot get array length of a non-array")),
        _ => Err(invalid("cannot get array length of a scalar")),
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn strip_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.into_iter().filter(|(_, v)| !v.is_null()).map(|(k, v)| (k, strip_nulls(v)));
            Value::Object(kept.collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(strip_nulls).collect()),
        other => other,
    }
}

fn pretty(value: &Value, depth: usize, out: &mut String, ctx: &EvalCtx<'_>) -> EvalResult<()> {
    ctx.room(out.len() + 4 * depth)?;
    let indent = |depth: usize, out: &mut String| {
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', 4 * depth));
    };
    match value {
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                indent(depth + 1, out);
                pretty(item, depth + 1, out, ctx)?;
            }
            indent(depth, out);
            out.push(']');
        }
        Value::Object(map) => {
            out.push('{');
            for (i, (key, item)) in map.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                indent(depth + 1, out);
                json::write_string(key, out);
                out.push_str(": ");
                pretty(item, depth + 1, out, ctx)?;
            }
            indent(depth, out);
            out.push('}');
        }
        scalar => json::write_canonical(scalar, out),
    }
    Ok(())
}
