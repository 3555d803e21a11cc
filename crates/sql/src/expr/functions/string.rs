//! Functions on strings and bytes.

use base::{SqlError, SqlState};
use rustc_hash::FxHashSet;
use types::{Datum, ElementType, quote_ident};

use super::operators::{cast_to_text, shown};
use super::*;

pub(super) static FUNCTIONS: &[FunctionDef] = &[
    FunctionDef::new("lower", &[TEXT], TEXT, |a, _| Ok(Datum::text(types::lower(text(&a[0])?)))),
    FunctionDef::new("upper", &[TEXT], TEXT, |a, _| Ok(Datum::text(types::upper(text(&a[0])?)))),
    FunctionDef::new("initcap", &[TEXT], TEXT, initcap),
    FunctionDef::new("length", &[TEXT], INT4, char_length),
    FunctionDef::new("length", &[BPCHAR], INT4, bpchar_length),
    FunctionDef::new("length", &[BYTEA], INT4, octet_length),
    FunctionDef::new("char_length", &[TEXT], INT4, char_length),
    FunctionDef::new("char_length", &[BPCHAR], INT4, bpchar_length),
    FunctionDef::new("character_length", &[TEXT], INT4, char_length),
    FunctionDef::new("octet_length", &[TEXT], INT4, octet_length),
    FunctionDef::new("octet_length", &[BYTEA], INT4, octet_length),
    FunctionDef::new("octet_length", &[BPCHAR], INT4, octet_length),
    FunctionDef::new("bit_length", &[TEXT], INT4, bit_length),
    FunctionDef::new("bit_length", &[BYTEA], INT4, bit_length),
    FunctionDef::new("substr", &[TEXT, INT4], TEXT, substring),
    FunctionDef::new("substr", &[TEXT, INT4, INT4], TEXT, substring),
    FunctionDef::new("substring", &[TEXT, INT4], TEXT, substring),
    FunctionDef::new("substring", &[TEXT, INT4, INT4], TEXT, substring),
    FunctionDef::new("substr", &[BYTEA, INT4], BYTEA, substring_bytes),
    FunctionDef::new("substr", &[BYTEA, INT4, INT4], BYTEA, substring_bytes),
    FunctionDef::new("substring", &[BYTEA, INT4], BYTEA, substring_bytes),
    FunctionDef::new("substring", &[BYTEA, INT4, INT4], BYTEA, substring_bytes),
    FunctionDef::new("overlay", &[TEXT, TEXT, INT4], TEXT, overlay),
    FunctionDef::new("overlay", &[TEXT, TEXT, INT4, INT4], TEXT, overlay),
    FunctionDef::new("position", &[TEXT, TEXT], INT4, strpos),
    FunctionDef::new("strpos", &[TEXT, TEXT], INT4, strpos),
    FunctionDef::new("btrim", &[TEXT], TEXT, |a, _| trim(a, true, true)),
    FunctionDef::new("btrim", &[TEXT, TEXT], TEXT, |a, _| trim(a, true, true)),
    FunctionDef::new("trim", &[TEXT], TEXT, |a, _| trim(a, true, true)),
    FunctionDef::new("ltrim", &[TEXT], TEXT, |a, _| trim(a, true, false)),
    FunctionDef::new("ltrim", &[TEXT, TEXT], TEXT, |a, _| trim(a, true, false)),
    FunctionDef::new("rtrim", &[TEXT], TEXT, |a, _| trim(a, false, true)),
    FunctionDef::new("rtrim", &[TEXT, TEXT], TEXT, |a, _| trim(a, false, true)),
    FunctionDef::new("lpad", &[TEXT, INT4], TEXT, |a, ctx| pad(a, true, ctx)),
    FunctionDef::new("lpad", &[TEXT, INT4, TEXT], TEXT, |a, ctx| pad(a, true, ctx)),
    FunctionDef::new("rpad", &[TEXT, INT4], TEXT, |a, ctx| pad(a, false, ctx)),
    FunctionDef::new("rpad", &[TEXT, INT4, TEXT], TEXT, |a, ctx| pad(a, false, ctx)),
    FunctionDef::new("left", &[TEXT, INT4], TEXT, left),
    FunctionDef::new("right", &[TEXT, INT4], TEXT, right),
    FunctionDef::new("repeat", &[TEXT, INT4], TEXT, repeat),
    FunctionDef::new("reverse", &[TEXT], TEXT, |a, _| {
        Ok(Datum::text(text(&a[0])?.chars().rev().collect::<String>()))
    }),
    FunctionDef::new("replace", &[TEXT, TEXT, TEXT], TEXT, replace),
    FunctionDef::new("translate", &[TEXT, TEXT, TEXT], TEXT, translate),
    FunctionDef::new("split_part", &[TEXT, TEXT, INT4], TEXT, split_part),
    FunctionDef::new("string_to_array", &[TEXT, TEXT], TEXT_ARRAY, string_to_array).takes_null(),
    FunctionDef::new("string_to_array", &[TEXT, TEXT, TEXT], TEXT_ARRAY, string_to_array).takes_null(),
    FunctionDef::new("concat", &[ArgType::Any], TEXT, concat).stable().takes_null().variadic(),
    FunctionDef::new("concat_ws", &[TEXT, ArgType::Any], TEXT, concat_ws).stable().takes_null().variadic(),
    FunctionDef::new("format", &[TEXT], TEXT, format).stable().takes_null(),
    FunctionDef::new("format", &[TEXT, ArgType::Any], TEXT, format).stable().takes_null().variadic(),
    FunctionDef::new("quote_ident", &[TEXT], TEXT, |a, _| Ok(Datum::text(quote_ident(text(&a[0])?)))),
    FunctionDef::new("parse_ident", &[TEXT], TEXT_ARRAY, parse_ident),
    FunctionDef::new("parse_ident", &[TEXT, BOOL], TEXT_ARRAY, parse_ident),
    FunctionDef::new("quote_literal", &[ArgType::Any], TEXT, |a, c| {
        Ok(Datum::text(quote_literal(&cast_to_text(&a[0], c), c)?))
    })
    .stable(),
    FunctionDef::new("quote_nullable", &[ArgType::Any], TEXT, |a, c| {
        let quoted = if a[0].is_null() { None } else { Some(quote_literal(&cast_to_text(&a[0], c), c)?) };
        Ok(Datum::text(quoted.as_deref().unwrap_or("NULL")))
    })
    .stable()
    .takes_null(),
    FunctionDef::new("unistr", &[TEXT], TEXT, unistr),
    FunctionDef::new("length", &[BYTEA, NAME], INT4, |a, _| {
        utf8_only(&a[1])?;
        Ok(Datum::Int4(types::check_utf8(bytes(&a[0])?)?.chars().count() as i32))
    }),
    FunctionDef::new("quote_literal", &[TEXT], TEXT, |a, c| Ok(Datum::text(quote_literal(text(&a[0])?, c)?))),
    FunctionDef::new("quote_nullable", &[TEXT], TEXT, |a, c| {
        Ok(Datum::text(if a[0].is_null() { "NULL".to_owned() } else { quote_literal(text(&a[0])?, c)? }))
    })
    .takes_null(),
    FunctionDef::new("ascii", &[TEXT], INT4, |a, _| {
        Ok(Datum::Int4(text(&a[0])?.chars().next().map_or(0, |c| c as i32)))
    }),
    FunctionDef::new("chr", &[INT4], TEXT, chr),
    FunctionDef::new("to_hex", &[INT4], TEXT, |a, _| Ok(Datum::text(format!("{:x}", int(&a[0])? as i32)))),
    FunctionDef::new("to_hex", &[INT8], TEXT, |a, _| Ok(Datum::text(format!("{:x}", int(&a[0])?)))),
    FunctionDef::new("md5", &[TEXT], TEXT, |a, _| md5_text(text(&a[0])?.as_bytes())),
    FunctionDef::new("md5", &[BYTEA], TEXT, |a, _| md5_text(bytes(&a[0])?)),
    FunctionDef::new("sha256", &[BYTEA], BYTEA, |a, _| digest(&ring::digest::SHA256, a)),
    FunctionDef::new("sha384", &[BYTEA], BYTEA, |a, _| digest(&ring::digest::SHA384, a)),
    FunctionDef::new("sha512", &[BYTEA], BYTEA, |a, _| digest(&ring::digest::SHA512, a)),
    FunctionDef::new("encode", &[BYTEA, TEXT], TEXT, encode),
    FunctionDef::new("decode", &[TEXT, TEXT], BYTEA, decode),
    FunctionDef::new("convert_to", &[TEXT, NAME], BYTEA, |a, _| {
        utf8_only(&a[1])?;
        Ok(Datum::Bytea(text(&a[0])?.as_bytes().into()))
    }),
    FunctionDef::new("convert_from", &[BYTEA, NAME], TEXT, |a, _| {
        utf8_only(&a[1])?;
        Ok(Datum::text(types::check_utf8(bytes(&a[0])?)?))
    }),
];

fn utf8_only(name: &Datum) -> EvalResult<()> {
    let name = text(name)?;
    if name.eq_ignore_ascii_case("utf8") || name.eq_ignore_ascii_case("utf-8") {
        Ok(())
    } else {
        Err(SqlError::unsupported(format!("the encoding \"{name}\"")).into())
    }
}

fn char_length(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    Ok(Datum::Int4(text(&args[0])?.chars().count() as i32))
}

/// Trailing blanks of a char(n) do not count.
fn bpchar_length(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    Ok(Datum::Int4(text(&args[0])?.trim_end_matches(' ').chars().count() as i32))
}

fn octet_length(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    Ok(Datum::Int4(match &args[0] {
        Datum::Bytea(b) => b.len(),
        d => text(d)?.len(),
    } as i32))
}

fn bit_length(args: &[Datum], ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    Ok(types::arith::mul(&octet_length(args, ctx)?, &Datum::Int4(8))?)
}

fn initcap(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let mut out = String::new();
    let mut inside = false;
    for c in text(&args[0])?.chars() {
        out.push(if inside { types::lower_char(c) } else { types::upper_char(c) });
        inside = c.is_alphanumeric();
    }
    Ok(Datum::text(out))
}

/// First position (from 0) and end of a substring that starts at `start` (from 1, maybe below) for `length`.
fn bounds(args: &[Datum]) -> EvalResult<(i64, i64)> {
    let start = int(&args[1])?;
    let end = match args.get(2) {
        None => i64::MAX,
        Some(length) => {
            let length = int(length)?;
            if length < 0 {
                return Err(SqlError::new(
                    SqlState::SUBSTRING_ERROR,
                    "negative substring length not allowed",
                )
                .into());
            }
            start + length - 1
        }
    };
    Ok(((start - 1).max(0), end.max(0)))
}

fn substring(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let (from, to) = bounds(args)?;
    let value = text(&args[0])?;
    if value.is_ascii() {
        let to = to.min(value.len() as i64).max(from.min(value.len() as i64));
        return Ok(Datum::text(&value[from.min(to) as usize..to as usize]));
    }
    let count = (to - from).max(0);
    Ok(Datum::text(
        value
            .chars()
            .skip(from as usize)
            .take(usize::try_from(count).unwrap_or(usize::MAX))
            .collect::<String>(),
    ))
}

fn substring_bytes(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let (from, to) = bounds(args)?;
    let value = bytes(&args[0])?;
    let to = to.min(value.len() as i64).max(from.min(value.len() as i64));
    Ok(Datum::Bytea(value[from.min(to) as usize..to as usize].into()))
}

fn overlay(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let (value, with, from) = (text(&args[0])?, text(&args[1])?, int(&args[2])?);
    let length = match args.get(3) {
        Some(length) => int(length)?,
        None => with.chars().count() as i64,
    };
    if from <= 0 {
        return Err(SqlError::new(SqlState::SUBSTRING_ERROR, "negative substring length not allowed").into());
    }
    overlay_end(from, length)?;
    let head: String = value.chars().take(from as usize - 1).collect();
    let tail: String = value.chars().skip((from - 1 + length).max(0) as usize).collect();
    Ok(Datum::text(head + with + &tail))
}

/// Looks whether the place behind what is overlaid is an integer.
pub(super) fn overlay_end(from: i64, length: i64) -> EvalResult<()> {
    match i32::try_from(from + length) {
        Ok(_) => Ok(()),
        Err(_) => Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "integer out of range").into()),
    }
}

fn strpos(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let (value, part) = (text(&args[0])?, text(&args[1])?);
    Ok(Datum::Int4(value.find(part).map_or(0, |at| value[..at].chars().count() as i32 + 1)))
}

fn trim(args: &[Datum], start: bool, end: bool) -> EvalResult<Datum> {
    let mut value = text(&args[0])?;
    let set = args.get(1).map_or(Ok(" "), text)?;
    let in_set = CharLookup::of(set);
    if start {
        value = value.trim_start_matches(|c| in_set.has(c));
    }
    if end {
        value = value.trim_end_matches(|c| in_set.has(c));
    }
    Ok(Datum::text(value))
}

/// The characters of a text: looked through while they are few, since it is asked once for each of another text.
enum CharLookup<'a> {
    Few(&'a str),
    Many(FxHashSet<char>),
}

impl CharLookup<'_> {
    fn of(set: &str) -> CharLookup<'_> {
        if set.len() <= 16 { CharLookup::Few(set) } else { CharLookup::Many(set.chars().collect()) }
    }

    fn has(&self, c: char) -> bool {
        match self {
            CharLookup::Few(set) => set.contains(c),
            CharLookup::Many(set) => set.contains(&c),
        }
    }
}

/// Longest string that PostgreSQL lets a function build, its `MaxAllocSize`.
const BUILT_BYTES_MAX: usize = (1 << 30) - 1;

fn too_large() -> EvalError {
    SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "requested length too large").into()
}

fn pad(args: &[Datum], at_start: bool, ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let (value, length) = (text(&args[0])?, int(&args[1])?.max(0) as usize);
    let fill = args.get(2).map_or(Ok(" "), text)?;
    if length > BUILT_BYTES_MAX / 4 {
        return Err(too_large());
    }
    let own = value.chars().count();
    if own >= length {
        return Ok(Datum::text(value.chars().take(length).collect::<String>()));
    }
    let missing = if fill.is_empty() { 0 } else { length - own };
    ctx.room(value.len() + missing * fill.chars().map(char::len_utf8).max().unwrap_or(0))?;
    let padding: String = fill.chars().cycle().take(missing).collect();
    Ok(Datum::text(if at_start { padding + value } else { value.to_owned() + &padding }))
}

fn left(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let (value, n) = (text(&args[0])?, int(&args[1])?);
    let take = if n >= 0 { n } else { (value.chars().count() as i64 + n).max(0) };
    Ok(Datum::text(value.chars().take(take as usize).collect::<String>()))
}

fn right(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let (value, n) = (text(&args[0])?, int(&args[1])?);
    // The least number has no opposite: PostgreSQL leaves it as it is, and cuts nothing.
    let skip = match n {
        n if n >= 0 => (value.chars().count() as i64 - n).max(0),
        n if n == i64::from(i32::MIN) => 0,
        n => -n,
    };
    Ok(Datum::text(value.chars().skip(skip as usize).collect::<String>()))
}

fn repeat(args: &[Datum], ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let (value, n) = (text(&args[0])?, int(&args[1])?.max(0) as usize);
    match value.len().checked_mul(n) {
        Some(bytes) if bytes <= BUILT_BYTES_MAX => {
            ctx.room(bytes)?;
            Ok(Datum::text(value.repeat(n)))
        }
        _ => Err(too_large()),
    }
}

fn replace(args: &[Datum], ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let (value, from, to) = (text(&args[0])?, text(&args[1])?, text(&args[2])?);
    if from.is_empty() {
        return Ok(args[0].clone());
    }
    joined(value.split(from).map(Cow::Borrowed), to, ctx)
}

fn translate(args: &[Datum], ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let mut to = text(&args[2])?.chars();
    // Characters may become longer ones.
    let widest = to.clone().map(char::len_utf8).max().unwrap_or(0);
    ctx.room(text(&args[0])?.chars().map(|c| c.len_utf8().max(widest)).sum())?;
    // The first of a character that comes twice counts.
    let mut map: FxHashMap<char, Option<char>> = FxHashMap::default();
    for from in text(&args[1])?.chars() {
        let to = to.next();
        map.entry(from).or_insert(to);
    }
    let mapped = text(&args[0])?.chars().filter_map(|c| map.get(&c).copied().unwrap_or(Some(c)));
    Ok(Datum::text(mapped.collect::<String>()))
}

fn split_part(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let (value, delimiter, n) = (text(&args[0])?, text(&args[1])?, int(&args[2])?);
    if n == 0 {
        return Err(
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "field position must not be zero").into()
        );
    }
    let count = || if delimiter.is_empty() { 1 } else { value.split(delimiter).count() };
    let index = if n > 0 { n - 1 } else { count() as i64 + n };
    let part = usize::try_from(index).ok().and_then(|index| match delimiter {
        "" => [value].get(index).copied(),
        _ => value.split(delimiter).nth(index),
    });
    Ok(Datum::text(part.unwrap_or("")))
}

fn string_to_array(args: &[Datum], ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    if args[0].is_null() {
        return Ok(Datum::Null);
    }
    let value = text(&args[0])?;
    let null = args.get(2).filter(|d| !d.is_null()).map(text).transpose()?;
    let item = |s: &str| if Some(s) == null { Datum::Null } else { Datum::text(s) };
    let items = if value.is_empty() {
        Vec::new()
    } else if args[1].is_null() {
        items_of(value.chars().map(|c| item(c.encode_utf8(&mut [0; 4]))), ctx)?
    } else {
        match text(&args[1])? {
            "" => vec![item(value)],
            delimiter => items_of(value.split(delimiter).map(item), ctx)?,
        }
    };
    Ok(Datum::array(ElementType::Text, items))
}

/// The parts of a name as SQL writes it, those without quotes in lower case.
fn parse_ident(args: &[Datum], ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let whole = text(&args[0])?;
    let is_strict = !matches!(args.get(1), Some(Datum::Bool(false)));
    let refused = |detail: &str| {
        let message = format!("string is not a valid identifier: \"{whole}\"");
        let error = SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message);
        if detail.is_empty() { error } else { error.with_detail(detail) }
    };
    let is_space = |c: char| matches!(c, ' ' | '\t' | '\n' | '\r' | '\u{c}');
    let begins = |c: char| c == '_' || c.is_ascii_alphabetic() || !c.is_ascii();
    let ends = |c: char| !begins(c) && !c.is_ascii_digit() && c != '$';
    let (mut held, mut parts) = (ctx.held(), Vec::new());
    let (mut rest, mut is_behind_dot) = (whole.trim_start_matches(is_space), false);
    loop {
        let part = if let Some(quoted) = rest.strip_prefix('"') {
            let unclosed = || refused("String has unclosed double quotes.");
            let (name, behind) = quoted_name(quoted).ok_or_else(unclosed)?;
            if name.is_empty() {
                return Err(refused("Quoted identifier must not be empty.").into());
            }
            rest = behind;
            name
        } else if rest.starts_with(begins) {
            let (name, behind) = rest.split_at(rest.find(ends).unwrap_or(rest.len()));
            rest = behind;
            name.to_ascii_lowercase()
        } else {
            let detail = match (rest.starts_with('.'), is_behind_dot) {
                (true, _) => "No valid identifier before \".\".",
                (false, true) => "No valid identifier after \".\".",
                (false, false) => "",
            };
            return Err(refused(detail).into());
        };
        let part = Datum::text(part);
        held.item(&part)?;
        parts.push(part);
        rest = rest.trim_start_matches(is_space);
        match rest.strip_prefix('.') {
            Some(behind) => (rest, is_behind_dot) = (behind.trim_start_matches(is_space), true),
            None if is_strict && !rest.is_empty() => return Err(refused("").into()),
            None => return Ok(Datum::array(ElementType::Text, parts)),
        }
    }
}

/// What stands before the quote that closes a name, two of them for one within it, and what is behind; `None` where none closes it.
fn quoted_name(text: &str) -> Option<(String, &str)> {
    let (mut name, mut rest) = (String::new(), text);
    loop {
        let (part, behind) = rest.split_once('"')?;
        name.push_str(part);
        let Some(more) = behind.strip_prefix('"') else { return Some((name, behind)) };
        name.push('"');
        rest = more;
    }
}

pub(super) fn concat(args: &[Datum], ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    joined(args.iter().filter(|d| !d.is_null()).map(|d| Cow::Owned(shown(d, ctx))), "", ctx)
}

pub(super) fn concat_ws(args: &[Datum], ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    if args[0].is_null() {
        return Ok(Datum::Null);
    }
    let parts = args[1..].iter().filter(|d| !d.is_null()).map(|d| Cow::Owned(shown(d, ctx)));
    joined(parts, text(&args[0])?, ctx)
}

/// A string literal, with quotes and backslashes doubled.
fn quote_literal(value: &str, ctx: &EvalCtx<'_>) -> EvalResult<String> {
    let is_doubled = |c: &char| matches!(c, '\'' | '\\');
    let len = value.len() + value.chars().filter(is_doubled).count() + 3;
    ctx.room(len)?;
    let mut out = String::with_capacity(len);
    out.push_str(if value.contains('\\') { "E'" } else { "'" });
    for c in value.chars() {
        out.extend(std::iter::repeat_n(c, if is_doubled(&c) { 2 } else { 1 }));
    }
    out.push('\'');
    Ok(out)
}

pub(super) fn format(args: &[Datum], ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    if args[0].is_null() {
        return Ok(Datum::Null);
    }
    let bad =
        |message: String| -> EvalError { SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message).into() };
    let mut out = Text::new(ctx);
    let mut chars = text(&args[0])?.chars().peekable();
    let mut next = 1;
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c.encode_utf8(&mut [0; 4]))?;
            continue;
        }
        if chars.peek() == Some(&'%') {
            chars.next();
            out.push("%")?;
            continue;
        }
        let mut number = String::new();
        let mut left_align = false;
        let mut at = None;
        // The number of the argument that is the width; without one, the next.
        let mut width_at = None;
        loop {
            match chars.peek() {
                Some('-') if number.is_empty() => {
                    left_align = true;
                    chars.next();
                }
                Some(d) if d.is_ascii_digit() => {
                    number.push(*d);
                    chars.next();
                }
                Some('$') if at.is_none() => {
                    at = number.parse::<usize>().ok();
                    number.clear();
                    chars.next();
                }
                Some('*') if width_at.is_none() && number.is_empty() => {
                    chars.next();
                    let mut digits = String::new();
                    while let Some(d) = chars.peek().copied().filter(char::is_ascii_digit) {
                        digits.push(d);
                        chars.next();
                    }
                    width_at = Some(if digits.is_empty() {
                        next += 1;
                        next - 1
                    } else if chars.next_if_eq(&'$').is_some() {
                        let place = digits.parse().unwrap_or(usize::MAX);
                        next = place.saturating_add(1);
                        place
                    } else {
                        return Err(bad("width argument position must be ended by \"$\"".to_owned()));
                    });
                }
                _ => break,
            }
        }
        if let Some(place) = width_at {
            let value = args.get(place).filter(|_| place > 0);
            let value = value.ok_or_else(|| bad("too few arguments for format()".to_owned()))?;
            let width = match value {
                Datum::Null => 0,
                value => match value.as_i64() {
                    Some(width) => width,
                    None => types::parse_text(
                        &shown(value, ctx),
                        types::PgType::Int4,
                        types::TypeMod::NONE,
                        ctx.stmt.format,
                    )?
                    .as_i64()
                    .unwrap_or(0),
                },
            };
            left_align |= width < 0;
            number = width.unsigned_abs().to_string();
        }
        if at == Some(0) {
            return Err(bad("format specifies argument 0, but arguments are numbered from 1".to_owned()));
        }
        let kind = chars.next().ok_or_else(|| bad("unterminated format() type specifier".to_owned()))?;
        let index = at.unwrap_or(next);
        let value = args.get(index).filter(|_| index > 0);
        let value = value.ok_or_else(|| bad("too few arguments for format()".to_owned()))?;
        next = index + 1;
        let piece = match kind {
            's' => {
                if value.is_null() {
                    String::new()
                } else {
                    shown(value, ctx)
                }
            }
            'I' if value.is_null() => {
                return Err(SqlError::new(
                    SqlState::NULL_VALUE_NOT_ALLOWED,
                    "null values cannot be formatted as an SQL identifier",
                )
                .into());
            }
            'I' => quote_ident(&shown(value, ctx)),
            'L' => {
                if value.is_null() {
                    "NULL".to_owned()
                } else {
                    quote_literal(&shown(value, ctx), ctx)?
                }
            }
            other => return Err(bad(format!("unrecognized format() type specifier \"{other}\""))),
        };
        let width: usize = number.parse().unwrap_or(0).min(BUILT_BYTES_MAX / 4);
        let missing = width.saturating_sub(piece.chars().count());
        ctx.room(missing)?;
        let blanks = " ".repeat(missing);
        let (first, second) = if left_align { (piece, blanks) } else { (blanks, piece) };
        out.push(&first)?;
        out.push(&second)?;
    }
    Ok(out.finish())
}

/// Reads Unicode escapes: a backslash with four digits, or with `+` and six, `u` and four, `U` and eight; a doubled backslash is one.
fn unistr(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let bad = |message: &str| -> EvalError { SqlError::new(SqlState::SYNTAX_ERROR, message).into() };
    let mut out = String::new();
    let mut rest = text(&args[0])?;
    // The first half of a character that UTF-16 writes as two.
    let mut high: Option<u32> = None;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        if c != '\\' || rest.starts_with('\\') {
            if high.is_some() {
                return Err(bad("invalid Unicode surrogate pair"));
            }
            out.push(c);
            rest = rest.strip_prefix('\\').filter(|_| c == '\\').unwrap_or(rest);
            continue;
        }
        let (mark, digits) = match rest.as_bytes().first() {
            Some(b'+') => (1, 6),
            Some(b'u') => (1, 4),
            Some(b'U') => (1, 8),
            _ => (0, 4),
        };
        let code = rest
            .get(mark..mark + digits)
            .filter(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()))
            .and_then(|hex| u32::from_str_radix(hex, 16).ok())
            .ok_or_else(|| bad("invalid Unicode escape"))?;
        rest = &rest[mark + digits..];
        let code = match (high.take(), code) {
            (Some(first), 0xdc00..0xe000) => 0x10000 + ((first - 0xd800) << 10) + (code - 0xdc00),
            (Some(_), _) | (None, 0xdc00..0xe000) => return Err(bad("invalid Unicode surrogate pair")),
            (None, 0xd800..0xdc00) => {
                high = Some(code);
                continue;
            }
            (None, code) => code,
        };
        let c = char::from_u32(code).filter(|c| *c != '\0').ok_or_else(|| {
            let message = format!("invalid Unicode code point: {code:04X}");
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
        })?;
        out.push(c);
    }
    if high.is_some() {
        return Err(bad("invalid Unicode surrogate pair"));
    }
    Ok(Datum::text(out))
}

fn chr(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let code = int(&args[0])?;
    let error =
        |message: &str| -> EvalError { SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message).into() };
    if code == 0 {
        return Err(error("null character not permitted"));
    }
    if code < 0 {
        let message = "character number must be positive";
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message).into());
    }
    if (0xd800..0xe000).contains(&code) {
        return Err(error(&format!("requested character not valid for encoding: {code}")));
    }
    let c = u32::try_from(code).ok().and_then(char::from_u32);
    c.map(|c| Datum::text(c.encode_utf8(&mut [0; 4])))
        .ok_or_else(|| error(&format!("requested character too large for encoding: {code}")))
}

fn hex(bytes: &[u8]) -> String {
    let mut out = Vec::with_capacity(bytes.len() * 2);
    types::push_hex(bytes, &mut out);
    String::from_utf8(out).expect("hex digits")
}

fn md5_text(input: &[u8]) -> EvalResult<Datum> {
    Ok(Datum::text(hex(&super::md5::digest(input))))
}

fn digest(algorithm: &'static ring::digest::Algorithm, args: &[Datum]) -> EvalResult<Datum> {
    Ok(Datum::Bytea(ring::digest::digest(algorithm, bytes(&args[0])?).as_ref().into()))
}

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The place of a letter in [`BASE64`].
fn base64_digit(c: char) -> Option<u32> {
    let place = |first: char, at: u32| Some(c as u32 - first as u32 + at);
    match c {
        'A'..='Z' => place('A', 0),
        'a'..='z' => place('a', 26),
        '0'..='9' => place('0', 52),
        '+' => Some(62),
        '/' => Some(63),
        _ => None,
    }
}

fn unknown_encoding(name: &str) -> EvalError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("unrecognized encoding: \"{name}\"")).into()
}

fn encode(args: &[Datum], ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let (value, name) = (bytes(&args[0])?, text(&args[1])?);
    Ok(Datum::text(match name.to_ascii_lowercase().as_str() {
        "hex" => {
            ctx.room(2 * value.len())?;
            hex(value)
        }
        "base64" => {
            ctx.room(value.len() / 3 * 4 + value.len() / 57 + 4)?;
            let mut out = String::new();
            let mut column = 0;
            for chunk in value.chunks(3) {
                // Lines of 76 characters, as PostgreSQL breaks them.
                if column == 76 {
                    out.push('\n');
                    column = 0;
                }
                let word = chunk.iter().fold(0u32, |w, b| w << 8 | u32::from(*b)) << (8 * (3 - chunk.len()));
                for i in 0..4 {
                    let digit = BASE64[(word >> (18 - 6 * i) & 63) as usize] as char;
                    out.push(if i <= chunk.len() { digit } else { '=' });
                }
                column += 4;
            }
            out
        }
        "escape" => {
            let len = |b: &u8| match b {
                b'\\' => 2,
                0 | 0x80.. => 4,
                _ => 1,
            };
            let len = value.iter().map(len).sum();
            ctx.room(len)?;
            let mut out = String::with_capacity(len);
            for &b in value {
                match b {
                    b'\\' => out.push_str("\\\\"),
                    0 | 0x80.. => {
                        let digits = [b >> 6, b >> 3 & 7, b & 7].map(|digit| char::from(b'0' + digit));
                        out.extend(std::iter::once('\\').chain(digits));
                    }
                    _ => out.push(b as char),
                }
            }
            out
        }
        _ => return Err(unknown_encoding(name)),
    }))
}

fn decode(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let (value, name) = (text(&args[0])?, text(&args[1])?);
    Ok(Datum::Bytea(match name.to_ascii_lowercase().as_str() {
        "hex" => types::parse_hex(value)?,
        "escape" => types::parse_bytea(value)?,
        "base64" => {
            let bad = |message: String| -> EvalError {
                SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message).into()
            };
            let mut out = Vec::new();
            let (mut word, mut count, mut padding) = (0u32, 0u32, 0u32);
            for c in value.chars().filter(|c| !c.is_ascii_whitespace()) {
                let digit = match base64_digit(c) {
                    Some(_) if padding > 0 => {
                        return Err(bad("unexpected \"=\" while decoding base64 sequence".to_owned()));
                    }
                    Some(digit) => digit,
                    None if c == '=' && count >= 2 => {
                        padding += 1;
                        0
                    }
                    None if c == '=' => {
                        return Err(bad("unexpected \"=\" while decoding base64 sequence".to_owned()));
                    }
                    None => {
                        return Err(bad(format!(
                            "invalid symbol \"{c}\" found while decoding base64 sequence"
                        )));
                    }
                };
                word = word << 6 | digit;
                count += 1;
                if count == 4 {
                    let three = word.to_be_bytes();
                    out.extend_from_slice(&three[1..4 - padding as usize]);
                    (word, count) = (0, 0);
                }
            }
            if count != 0 {
                return Err(bad("invalid base64 end sequence".to_owned()));
            }
            out.into()
        }
        _ => return Err(unknown_encoding(name)),
    }))
}
