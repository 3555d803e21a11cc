//! Changes to what a path within a jsonb value leads to.

use base::{SqlError, SqlState};
use serde_json::Value;
use types::Datum;

use super::json::{index_of, invalid, jsonb, parse, path, subscript};
use super::*;

pub(super) static OPERATORS: &[FunctionDef] =
    &[FunctionDef::new("#-", &[JSONB, TEXT_ARRAY], JSONB, |a, _| delete(&a[0], &a[1]))];

pub(super) static FUNCTIONS: &[FunctionDef] = &[
    FunctionDef::new("jsonb_set", &[JSONB, TEXT_ARRAY, JSONB], JSONB, set),
    FunctionDef::new("jsonb_set", &[JSONB, TEXT_ARRAY, JSONB, BOOL], JSONB, set),
    FunctionDef::new("jsonb_set_lax", &[JSONB, TEXT_ARRAY, JSONB], JSONB, set_lax).takes_null(),
    FunctionDef::new("jsonb_set_lax", &[JSONB, TEXT_ARRAY, JSONB, BOOL], JSONB, set_lax).takes_null(),
    FunctionDef::new("jsonb_set_lax", &[JSONB, TEXT_ARRAY, JSONB, BOOL, TEXT], JSONB, set_lax).takes_null(),
    FunctionDef::new("jsonb_insert", &[JSONB, TEXT_ARRAY, JSONB], JSONB, insert),
    FunctionDef::new("jsonb_insert", &[JSONB, TEXT_ARRAY, JSONB, BOOL], JSONB, insert),
];

/// What becomes of the place that a path leads to.
enum Change {
    Delete,
    /// Another value; where there is none, only if it is to be created.
    Set {
        new: Value,
        create: bool,
    },
    /// A value before or behind an array's element, or of a key that there is not.
    Insert {
        new: Value,
        after: bool,
    },
}

impl Change {
    /// The value that an array or object without the place takes.
    fn created(self) -> Option<Value> {
        match self {
            Change::Set { new, create: true } | Change::Insert { new, .. } => Some(new),
            Change::Delete | Change::Set { .. } => None,
        }
    }
}

/// Carries out `change` where `path` leads to from `value`, which is `level` keys down already.
fn apply(value: &mut Value, path: &[Option<String>], level: usize, change: Change) -> EvalResult<()> {
    let [key, rest @ ..] = path else { return Ok(()) };
    let place = level + 1;
    let key = key.as_ref().ok_or_else(|| {
        SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, format!("path element at position {place} is null"))
    })?;
    match value {
        Value::Object(map) => {
            if !rest.is_empty() {
                return map.get_mut(key).map_or(Ok(()), |inner| apply(inner, rest, place, change));
            }
            if let (Change::Insert { .. }, true) = (&change, map.contains_key(key)) {
                return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "cannot replace existing key")
                    .with_hint("Try using the function jsonb_set to replace key value.")
                    .into());
            }
            match (map.get_mut(key), change) {
                (Some(_), Change::Delete) => {
                    map.shift_remove(key);
                }
                (Some(old), Change::Set { new, .. }) => *old = new,
                (_, change) => {
                    if let Some(new) = change.created() {
                        map.insert(key.clone(), new);
                    }
                }
            }
        }
        Value::Array(items) => {
            let at = subscript(key).ok_or_else(|| {
                SqlError::new(
                    SqlState::INVALID_TEXT_REPRESENTATION,
                    format!("path element at position {place} is not an integer: \"{key}\""),
                )
            })?;
            match (index_of(items.len(), at), change) {
                (Some(i), change) if !rest.is_empty() => return apply(&mut items[i], rest, place, change),
                (None, _) if !rest.is_empty() => {}
                (Some(i), Change::Delete) => {
                    items.remove(i);
                }
                (Some(i), Change::Set { new, .. }) => items[i] = new,
                (Some(i), Change::Insert { new, after }) => items.insert(i + usize::from(after), new),
                (None, change) => {
                    if let Some(new) = change.created() {
                        items.insert(if at < 0 { 0 } else { items.len() }, new);
                    }
                }
            }
        }
        _ => {}
    }
    Ok(())
}

fn changed(value: &Datum, at: &Datum, what: &str, change: Change) -> EvalResult<Datum> {
    let mut value = parse(value)?;
    if !value.is_array() && !value.is_object() {
        return Err(invalid(&format!("cannot {what} path in scalar")));
    }
    let empty = match &value {
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    };
    // PostgreSQL looks at no path where there is nothing to change.
    if !(empty && matches!(change, Change::Delete | Change::Set { create: false, .. })) {
        apply(&mut value, &path(at)?, 0, change)?;
    }
    Ok(jsonb(&value))
}

fn delete(value: &Datum, path: &Datum) -> EvalResult<Datum> {
    changed(value, path, "delete", Change::Delete)
}

fn set(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let create = args.get(3).map_or(Ok(true), boolean)?;
    changed(&args[0], &args[1], "set", Change::Set { new: parse(&args[2])?, create })
}

fn insert(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let after = args.get(3).map_or(Ok(false), boolean)?;
    changed(&args[0], &args[1], "set", Change::Insert { new: parse(&args[2])?, after })
}

/// As `jsonb_set`, and what is to be done where the new value is NULL.
fn set_lax(args: &[Datum], ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    if args[0].is_null() || args[1].is_null() || args.get(3).is_some_and(Datum::is_null) {
        return Ok(Datum::Null);
    }
    let treatment = match args.get(4) {
        None => "use_json_null",
        Some(Datum::Null) => "",
        Some(treatment) => text(treatment)?,
    };
    if !treatment.is_empty() && !args[2].is_null() {
        return set(&args[..args.len().min(4)], ctx);
    }
    match treatment {
        "raise_exception" => Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, "JSON value must not be null")
            .with_detail("Exception was raised because null_value_treatment is \"raise_exception\".")
            .with_hint("To avoid, either change the null_value_treatment argument or ensure that an SQL NULL is not passed.")
            .into()),
        "use_json_null" => {
            let create = args.get(3).map_or(Ok(true), boolean)?;
            changed(&args[0], &args[1], "set", Change::Set { new: Value::Null, create })
        }
        "delete_key" => delete(&args[0], &args[1]),
        "return_target" => Ok(args[0].clone()),
        _ => Err(invalid(
            "null_value_treatment must be \"delete_key\", \"return_target\", \"use_json_null\", or \"raise_exception\"",
        )),
    }
}
