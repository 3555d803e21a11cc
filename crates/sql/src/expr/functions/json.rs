//! Functions and operators on json and jsonb.

use base::{SqlError, SqlState};
use serde_json::{Map, Value};
use types::{Datum, json};

use super::operators::shown;
use super::*;

pub(super) static OPERATORS: &[FunctionDef] = &[
    FunctionDef::new("->", &[JSONB, TEXT], JSONB, |a, _| Ok(as_jsonb(field(&parse(&a[0])?, text(&a[1])?)))),
    FunctionDef::new("->", &[JSONB, INT4], JSONB, |a, _| Ok(as_jsonb(element(&parse(&a[0])?, int(&a[1])?)))),
    FunctionDef::new("->", &[JSON, TEXT], JSON, |a, _| Ok(as_json(field(&parse(&a[0])?, text(&a[1])?)))),
    FunctionDef::new("->", &[JSON, INT4], JSON, |a, _| Ok(as_json(element(&parse(&a[0])?, int(&a[1])?)))),
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
        Ok(as_text(element(&parse(&a[0])?, int(&a[1])?), false))
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
        Ok(Datum::Bool(json::contains(&parse(&a[0])?, &parse(&a[1])?)))
    }),
    FunctionDef::new("<@", &[JSONB, JSONB], BOOL, |a, _| {
        Ok(Datum::Bool(json::contains(&parse(&a[1])?, &parse(&a[0])?)))
    }),
    FunctionDef::new("?", &[JSONB, TEXT], BOOL, |a, _| {
        Ok(Datum::Bool(has_key(&parse(&a[0])?, text(&a[1])?)))
    }),
    FunctionDef::new("?|", &[JSONB, TEXT_ARRAY], BOOL, |a, _| {
        let value = parse(&a[0])?;
        Ok(Datum::Bool(path(&a[1])?.iter().any(|key| has_key(&value, key))))
    }),
    FunctionDef::new("?&", &[JSONB, TEXT_ARRAY], BOOL, |a, _| {
        let value = parse(&a[0])?;
        Ok(Datum::Bool(path(&a[1])?.iter().all(|key| has_key(&value, key))))
    }),
    FunctionDef::new("||", &[JSONB, JSONB], JSONB, concat),
    FunctionDef::new("-", &[JSONB, TEXT], JSONB, delete_key),
    FunctionDef::new("-", &[JSONB, INT4], JSONB, delete_index),
    FunctionDef::new("-", &[JSONB, TEXT_ARRAY], JSONB, delete_keys),
    FunctionDef::new("#-", &[JSONB, TEXT_ARRAY], JSONB, delete_path),
];

pub(super) static FUNCTIONS: &[FunctionDef] = &[
    FunctionDef::new("jsonb_build_object", &[], JSONB, |_, _| Ok(Datum::Jsonb("{}".into()))),
    FunctionDef::new("jsonb_build_object", &[ArgType::Any], JSONB, |a, c| Ok(jsonb(&build_object(a, c)?)))
        .stable()
        .takes_null()
        .variadic(),
    FunctionDef::new("jsonb_build_array", &[ArgType::Any], JSONB, |a, c| Ok(jsonb(&build_array(a, c)?)))
        .stable()
        .takes_null()
        .variadic(),
    FunctionDef::new("json_build_object", &[ArgType::Any], JSON, json_object)
        .stable()
        .takes_null()
        .variadic(),
    FunctionDef::new("json_build_array", &[ArgType::Any], JSON, json_array).stable().takes_null().variadic(),
    FunctionDef::new("jsonb_typeof", &[JSONB], TEXT, |a, _| Ok(Datum::text(type_name(&parse(&a[0])?)))),
    FunctionDef::new("json_typeof", &[JSON], TEXT, |a, _| Ok(Datum::text(type_name(&parse(&a[0])?)))),
    FunctionDef::new("to_jsonb", &[ArgType::Any], JSONB, |a, c| Ok(jsonb(&to_value(&a[0], c)?))).stable(),
    FunctionDef::new("to_json", &[ArgType::Any], JSON, |a, c| Ok(Datum::Json(to_json(&a[0], c)?.into())))
        .stable(),
    FunctionDef::new("jsonb_set", &[JSONB, TEXT_ARRAY, JSONB], JSONB, set),
    FunctionDef::new("jsonb_set", &[JSONB, TEXT_ARRAY, JSONB, BOOL], JSONB, set),
    FunctionDef::new("jsonb_array_length", &[JSONB], INT4, array_length),
    FunctionDef::new("json_array_length", &[JSON], INT4, array_length),
    FunctionDef::new("jsonb_extract_path", &[JSONB, TEXT], JSONB, |a, _| {
        Ok(as_jsonb(at_path(&parse(&a[0])?, &texts(&a[1..])?)))
    })
    .variadic(),
    FunctionDef::new("jsonb_extract_path_text", &[JSONB, TEXT], TEXT, |a, _| {
        Ok(as_text(at_path(&parse(&a[0])?, &texts(&a[1..])?), true))
    })
    .variadic(),
    FunctionDef::new("jsonb_strip_nulls", &[JSONB], JSONB, |a, _| Ok(jsonb(&strip_nulls(parse(&a[0])?)))),
    FunctionDef::new("jsonb_pretty", &[JSONB], TEXT, |a, ctx| {
        let mut out = String::new();
        pretty(&parse(&a[0])?, 0, &mut out, ctx)?;
        Ok(Datum::text(out))
    }),
];

fn parse(d: &Datum) -> EvalResult<Value> {
    Ok(json::parse(text(d)?)?)
}

fn jsonb(value: &Value) -> Datum {
    Datum::Jsonb(json::canonical(value).into())
}

fn as_jsonb(value: Option<&Value>) -> Datum {
    value.map_or(Datum::Null, jsonb)
}

fn as_json(value: Option<&Value>) -> Datum {
    value.map_or(Datum::Null, |v| Datum::Json(v.to_string().into()))
}

/// A string bare, JSON null as NULL, anything else as its text.
fn as_text(value: Option<&Value>, canonical: bool) -> Datum {
    match value {
        None | Some(Value::Null) => Datum::Null,
        Some(Value::String(s)) => Datum::text(s),
        Some(other) => Datum::text(if canonical { json::canonical(other) } else { other.to_string() }),
    }
}

fn field<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
    value.as_object()?.get(key)
}

fn index_of(len: usize, at: i64) -> Option<usize> {
    let at = if at < 0 { at + len as i64 } else { at };
    usize::try_from(at).ok().filter(|i| *i < len)
}

fn element(value: &Value, at: i64) -> Option<&Value> {
    let items = value.as_array()?;
    index_of(items.len(), at).map(|i| &items[i])
}

fn path(d: &Datum) -> EvalResult<Vec<String>> {
    match d {
        Datum::Array(array) => texts(&array.items),
        _ => Err(wrong("an array", d)),
    }
}

fn texts(items: &[Datum]) -> EvalResult<Vec<String>> {
    items.iter().filter(|d| !d.is_null()).map(|d| text(d).map(str::to_owned)).collect()
}

fn at_path<'a>(value: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, key| match value {
        Value::Object(map) => map.get(key),
        Value::Array(_) => element(value, key.parse().ok()?),
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

fn invalid(message: &str) -> EvalError {
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
    for key in path(&args[1])? {
        remove_key(&mut value, &key)?;
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

fn delete_path(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    fn delete(value: &mut Value, path: &[String]) {
        let [key, rest @ ..] = path else { return };
        match value {
            Value::Object(map) if rest.is_empty() => {
                map.shift_remove(key);
            }
            Value::Object(map) => map.get_mut(key).into_iter().for_each(|inner| delete(inner, rest)),
            Value::Array(items) => {
                let Some(i) = key.parse().ok().and_then(|at| index_of(items.len(), at)) else { return };
                if rest.is_empty() {
                    items.remove(i);
                } else {
                    delete(&mut items[i], rest);
                }
            }
            _ => {}
        }
    }
    let mut value = parse(&args[0])?;
    delete(&mut value, &path(&args[1])?);
    Ok(jsonb(&value))
}

fn set(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    fn put(value: &mut Value, path: &[String], new: Value, create: bool) {
        let [key, rest @ ..] = path else { return };
        match value {
            Value::Object(map) => match map.get_mut(key) {
                Some(inner) if !rest.is_empty() => put(inner, rest, new, create),
                Some(inner) => *inner = new,
                None if rest.is_empty() && create => {
                    map.insert(key.clone(), new);
                }
                None => {}
            },
            Value::Array(items) => {
                let Ok(at) = key.parse::<i64>() else { return };
                match index_of(items.len(), at) {
                    Some(i) if !rest.is_empty() => put(&mut items[i], rest, new, create),
                    Some(i) => items[i] = new,
                    None if rest.is_empty() && create && at < 0 => items.insert(0, new),
                    None if rest.is_empty() && create => items.push(new),
                    None => {}
                }
            }
            _ => {}
        }
    }
    let mut value = parse(&args[0])?;
    if !value.is_object() && !value.is_array() {
        return Err(invalid("cannot set path in scalar"));
    }
    let create = args.get(3).map_or(Ok(true), boolean)?;
    put(&mut value, &path(&args[1])?, parse(&args[2])?, create);
    Ok(jsonb(&value))
}

fn array_length(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    match parse(&args[0])? {
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

/// Dates and times as ISO 8601, numbers and booleans as such, everything else as a string of its text.
fn to_json(d: &Datum, ctx: &EvalCtx<'_>) -> EvalResult<String> {
    Ok(match d {
        Datum::Null => "null".to_owned(),
        Datum::Bool(b) => b.to_string(),
        Datum::Int2(_) | Datum::Int4(_) | Datum::Int8(_) => shown(d, ctx),
        Datum::Numeric(n) if n.is_finite() => shown(d, ctx),
        Datum::Float4(v) if v.is_finite() => shown(d, ctx),
        Datum::Float8(v) if v.is_finite() => shown(d, ctx),
        Datum::Json(s) | Datum::Jsonb(s) => s.to_string(),
        Datum::Array(array) => {
            let items = array.items.iter().map(|item| to_json(item, ctx)).collect::<EvalResult<Vec<_>>>()?;
            format!("[{}]", items.join(","))
        }
        Datum::Timestamp(_) | Datum::TimestampTz(_) => {
            let format = types::FormatContext {
                date_format: types::DateFormat::Iso,
                time_zone: ctx.stmt.format.time_zone.clone(),
                ..types::FormatContext::default()
            };
            let mut text = types::to_text(d, d.natural_type(), &format).replacen(' ', "T", 1);
            // ISO 8601 wants minutes in an offset.
            if matches!(d, Datum::TimestampTz(t) if *t != i64::MAX && *t != i64::MIN)
                && !text[text.len() - 3..].starts_with(':')
            {
                text.push_str(":00");
            }
            format!("\"{text}\"")
        }
        d => {
            let mut out = String::new();
            json::write_string(&shown(d, ctx), &mut out);
            out
        }
    })
}

fn to_value(d: &Datum, ctx: &EvalCtx<'_>) -> EvalResult<Value> {
    Ok(json::parse(&to_json(d, ctx)?)?)
}

fn pairs(args: &[Datum]) -> EvalResult<std::slice::ChunksExact<'_, Datum>> {
    if !args.len().is_multiple_of(2) {
        return Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            "argument list must have even number of elements",
        )
        .with_hint("The arguments of jsonb_build_object() must consist of alternating keys and values.")
        .into());
    }
    Ok(args.chunks_exact(2))
}

fn key_of(d: &Datum, ctx: &EvalCtx<'_>) -> EvalResult<String> {
    if d.is_null() {
        return Err(
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "argument 1: key must not be null").into()
        );
    }
    Ok(shown(d, ctx))
}

fn build_object(args: &[Datum], ctx: &EvalCtx<'_>) -> EvalResult<Value> {
    let mut map = Map::new();
    for pair in pairs(args)? {
        map.insert(key_of(&pair[0], ctx)?, to_value(&pair[1], ctx)?);
    }
    Ok(Value::Object(map))
}

fn build_array(args: &[Datum], ctx: &EvalCtx<'_>) -> EvalResult<Value> {
    Ok(Value::Array(args.iter().map(|d| to_value(d, ctx)).collect::<EvalResult<Vec<_>>>()?))
}

fn json_object(args: &[Datum], ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let mut parts = Vec::new();
    for pair in pairs(args)? {
        let mut part = String::new();
        json::write_string(&key_of(&pair[0], ctx)?, &mut part);
        parts.push(format!("{part} : {}", to_json(&pair[1], ctx)?));
    }
    Ok(Datum::Json(format!("{{{}}}", parts.join(", ")).into()))
}

fn json_array(args: &[Datum], ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let parts = args.iter().map(|d| to_json(d, ctx)).collect::<EvalResult<Vec<_>>>()?;
    Ok(Datum::Json(format!("[{}]", parts.join(", ")).into()))
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
