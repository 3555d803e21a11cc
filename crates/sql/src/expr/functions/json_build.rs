//! json and jsonb made of other values.

use base::{SqlError, SqlState};
use serde_json::{Map, Value};
use types::{Datum, json};

use super::json::jsonb;
use super::operators::shown;
use super::variadic::spread;
use super::*;

const ANY_ARRAY: ArgType = ArgType::AnyArray;

pub(super) static FUNCTIONS: &[FunctionDef] = &[
    FunctionDef::new("jsonb_build_object", &[], JSONB, jsonb_object_of).stable(),
    FunctionDef::new("jsonb_build_object", &[ArgType::Any], JSONB, jsonb_object_of)
        .stable()
        .takes_null()
        .variadic(),
    FunctionDef::new("variadic jsonb_build_object", &[ANY_ARRAY], JSONB, |a, c| {
        spread(a, 0, c, jsonb_object_of)
    })
    .stable(),
    FunctionDef::new("jsonb_build_array", &[], JSONB, jsonb_array_of).stable(),
    FunctionDef::new("jsonb_build_array", &[ArgType::Any], JSONB, jsonb_array_of)
        .stable()
        .takes_null()
        .variadic(),
    FunctionDef::new("variadic jsonb_build_array", &[ANY_ARRAY], JSONB, |a, c| {
        spread(a, 0, c, jsonb_array_of)
    })
    .stable(),
    FunctionDef::new("json_build_object", &[], JSON, json_object_of).stable(),
    FunctionDef::new("json_build_object", &[ArgType::Any], JSON, json_object_of)
        .stable()
        .takes_null()
        .variadic(),
    FunctionDef::new("variadic json_build_object", &[ANY_ARRAY], JSON, |a, c| {
        spread(a, 0, c, json_object_of)
    })
    .stable(),
    FunctionDef::new("json_build_array", &[], JSON, json_array_of).stable(),
    FunctionDef::new("json_build_array", &[ArgType::Any], JSON, json_array_of)
        .stable()
        .takes_null()
        .variadic(),
    FunctionDef::new("variadic json_build_array", &[ANY_ARRAY], JSON, |a, c| spread(a, 0, c, json_array_of))
        .stable(),
    FunctionDef::new("json_object", &[TEXT_ARRAY], JSON, |a, c| Ok(json_text(&text_pairs(a, c)?))),
    FunctionDef::new("json_object", &[TEXT_ARRAY, TEXT_ARRAY], JSON, |a, c| {
        Ok(json_text(&text_pairs(a, c)?))
    }),
    FunctionDef::new("jsonb_object", &[TEXT_ARRAY], JSONB, |a, c| Ok(jsonb_text(text_pairs(a, c)?))),
    FunctionDef::new("jsonb_object", &[TEXT_ARRAY, TEXT_ARRAY], JSONB, |a, c| {
        Ok(jsonb_text(text_pairs(a, c)?))
    }),
    FunctionDef::new("to_jsonb", &[ArgType::Any], JSONB, |a, c| {
        Ok(jsonb(&to_value(&a[0], &mut c.held(), c)?))
    })
    .stable(),
    FunctionDef::new("to_json", &[ArgType::Any], JSON, |a, c| Ok(Datum::Json(to_json(&a[0], c)?.into())))
        .stable(),
    FunctionDef::new("array_to_json", &[ANY_ARRAY], JSON, array_to_json).stable(),
    FunctionDef::new("array_to_json", &[ANY_ARRAY, BOOL], JSON, array_to_json).stable(),
];

fn jsonb_object_of(args: &[Datum], ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    Ok(jsonb(&build_object(args, ctx)?))
}

fn jsonb_array_of(args: &[Datum], ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    Ok(jsonb(&build_array(args, ctx)?))
}

fn array_to_json(args: &[Datum], ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let Datum::Array(array) = &args[0] else { return Err(wrong("an array", &args[0])) };
    let separator = if args.get(1).map_or(Ok(false), boolean)? { ",\n " } else { "," };
    json_array(&array.items, separator, ctx)
}

fn json_array(items: &[Datum], separator: &str, ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let mut out = Text::new(ctx);
    push_array(items, separator, &mut out, ctx)?;
    Ok(Datum::Json(out.text.into()))
}

type Pairs<'a> = Vec<(&'a str, Option<&'a str>)>;

/// Keys and values of one array in turn, or of two, that there is room for as JSON.
fn text_pairs<'d>(args: &'d [Datum], ctx: &EvalCtx<'_>) -> EvalResult<Pairs<'d>> {
    let items = |i: usize| match &args[i] {
        Datum::Array(array) => Ok(&array.items),
        d => Err(wrong("an array", d)),
    };
    let bad = |message: &str| -> EvalError { SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, message).into() };
    let pairs: Vec<(&Datum, &Datum)> = if args.len() == 1 {
        let items = items(0)?;
        if items.len() % 2 != 0 {
            return Err(bad("array must have even number of elements"));
        }
        items.chunks_exact(2).map(|pair| (&pair[0], &pair[1])).collect()
    } else {
        let (keys, values) = (items(0)?, items(1)?);
        if keys.len() != values.len() {
            return Err(bad("mismatched array dimensions"));
        }
        keys.iter().zip(values).collect()
    };
    let len = |d: &Datum| d.as_str().map_or(4, json::string_len) + 4;
    ctx.room(pairs.iter().map(|(key, value)| len(key) + len(value)).sum())?;
    pairs
        .into_iter()
        .map(|(key, value)| {
            let key = key.as_str().ok_or_else(|| {
                SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, "null value not allowed for object key")
            })?;
            Ok((key, value.as_str()))
        })
        .collect()
}

fn json_text(pairs: &Pairs<'_>) -> Datum {
    let mut out = String::from("{");
    for (i, (key, value)) in pairs.iter().enumerate() {
        if i > 0 {
            out.push_str(", ");
        }
        json::write_string(key, &mut out);
        out.push_str(" : ");
        match value {
            Some(value) => json::write_string(value, &mut out),
            None => out.push_str("null"),
        }
    }
    out.push('}');
    Datum::Json(out.into())
}

fn jsonb_text(pairs: Pairs<'_>) -> Datum {
    let value = |value: Option<&str>| value.map_or(Value::Null, Value::from);
    let map: Map<String, Value> = pairs.into_iter().map(|(key, v)| (key.to_owned(), value(v))).collect();
    jsonb(&Value::Object(map))
}

fn to_json(d: &Datum, ctx: &EvalCtx<'_>) -> EvalResult<String> {
    let mut out = Text::new(ctx);
    push_json(d, &mut out, ctx)?;
    Ok(out.text)
}

/// Dates and times as ISO 8601, numbers and booleans as such, everything else as a string of its text.
fn push_json(d: &Datum, out: &mut Text<'_>, ctx: &EvalCtx<'_>) -> EvalResult<()> {
    match d {
        Datum::Null => out.push("null"),
        Datum::Bool(b) => out.push(if *b { "true" } else { "false" }),
        Datum::Int2(_) | Datum::Int4(_) | Datum::Int8(_) => out.push(&shown(d, ctx)),
        Datum::Numeric(n) if n.is_finite() => out.push(&shown(d, ctx)),
        Datum::Float4(v) if v.is_finite() => out.push(&shown(d, ctx)),
        Datum::Float8(v) if v.is_finite() => out.push(&shown(d, ctx)),
        Datum::Json(s) | Datum::Jsonb(s) => out.push(s),
        Datum::Array(array) => push_array(&array.items, ",", out, ctx),
        Datum::Date(_) | Datum::Timestamp(_) | Datum::TimestampTz(_) => {
            out.push(&format!("\"{}\"", moment(d, ctx)))
        }
        Datum::Text(text) => push_string(text, out),
        d => push_string(&shown(d, ctx), out),
    }
}

fn push_array(items: &[Datum], separator: &str, out: &mut Text<'_>, ctx: &EvalCtx<'_>) -> EvalResult<()> {
    out.push("[")?;
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            out.push(separator)?;
        }
        push_json(item, out, ctx)?;
    }
    out.push("]")
}

/// What is escaped takes up to six times the room of the text.
fn push_string(text: &str, out: &mut Text<'_>) -> EvalResult<()> {
    out.held.take(json::string_len(text))?;
    json::write_string(text, &mut out.text);
    Ok(())
}

/// A date or moment as ISO 8601, whatever the setting `DateStyle`.
fn moment(d: &Datum, ctx: &EvalCtx<'_>) -> String {
    let format = types::FormatContext {
        date_format: types::DateFormat::Iso,
        time_zone: ctx.stmt.format.time_zone.clone(),
        ..types::FormatContext::default()
    };
    let text = types::to_text(d, d.natural_type(), &format);
    if matches!(d, Datum::Date(_)) {
        return text;
    }
    let text = text.replacen(' ', "T", 1);
    let (moment, era) = text.split_once(' ').map_or((text.as_str(), ""), |(moment, _)| (moment, " BC"));
    // ISO 8601 wants minutes in an offset.
    let bare_hours = matches!(d, Datum::TimestampTz(t) if *t != i64::MAX && *t != i64::MIN)
        && !moment[moment.len() - 3..].starts_with(':');
    format!("{moment}{}{era}", if bare_hours { ":00" } else { "" })
}

/// A part of what is built, which `held` has room for until all of it is.
fn to_value(d: &Datum, held: &mut Held<'_>, ctx: &EvalCtx<'_>) -> EvalResult<Value> {
    if let Datum::Text(text) = d {
        held.take(json::string_len(text))?;
        return Ok(Value::from(text.as_str()));
    }
    let text = to_json(d, ctx)?;
    held.take(text.len())?;
    Ok(json::parse_jsonb(&text)?)
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

/// A key's text; `place` is the argument's, counted from 1.
fn key_of(d: &Datum, place: usize, null: &str, ctx: &EvalCtx<'_>) -> EvalResult<String> {
    let bad =
        |message: String| -> EvalError { SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message).into() };
    match d {
        Datum::Null => Err(bad(format!("argument {place}{null}"))),
        Datum::Array(_) | Datum::Json(_) | Datum::Jsonb(_) => {
            Err(bad("key value must be scalar, not array, composite, or json".to_owned()))
        }
        Datum::Bool(b) => Ok(b.to_string()),
        Datum::Date(_) | Datum::Timestamp(_) | Datum::TimestampTz(_) => Ok(moment(d, ctx)),
        d => Ok(shown(d, ctx)),
    }
}

fn build_object(args: &[Datum], ctx: &EvalCtx<'_>) -> EvalResult<Value> {
    let (mut map, mut held) = (Map::new(), ctx.held());
    for (i, pair) in pairs(args)?.enumerate() {
        let key = key_of(&pair[0], 2 * i + 1, ": key must not be null", ctx)?;
        held.take(json::string_len(&key))?;
        map.insert(key, to_value(&pair[1], &mut held, ctx)?);
    }
    Ok(Value::Object(map))
}

fn build_array(args: &[Datum], ctx: &EvalCtx<'_>) -> EvalResult<Value> {
    let mut held = ctx.held();
    let items = args.iter().map(|d| to_value(d, &mut held, ctx)).collect::<EvalResult<Vec<_>>>()?;
    Ok(Value::Array(items))
}

fn json_object_of(args: &[Datum], ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let mut out = Text::new(ctx);
    out.push("{")?;
    for (i, pair) in pairs(args)?.enumerate() {
        if i > 0 {
            out.push(", ")?;
        }
        push_string(&key_of(&pair[0], 2 * i + 1, " cannot be null", ctx)?, &mut out)?;
        out.push(" : ")?;
        push_json(&pair[1], &mut out, ctx)?;
    }
    out.push("}")?;
    Ok(Datum::Json(out.text.into()))
}

fn json_array_of(args: &[Datum], ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    json_array(args, ", ", ctx)
}
