//! Pattern matching: LIKE, SIMILAR TO, regular expressions.

use std::cell::RefCell;

use base::{SqlError, SqlState};
use regex::{Regex, RegexBuilder};
use rustc_hash::FxHashMap;
use types::{Datum, ElementType};

use super::*;

pub(super) static OPERATORS: &[FunctionDef] = &[
    FunctionDef::new("~~", &[TEXT, TEXT], BOOL, |a, _| like(a, false, false)),
    FunctionDef::new("~~", &[BPCHAR, TEXT], BOOL, |a, _| like(a, false, false)),
    FunctionDef::new("!~~", &[TEXT, TEXT], BOOL, |a, _| like(a, false, true)),
    FunctionDef::new("!~~", &[BPCHAR, TEXT], BOOL, |a, _| like(a, false, true)),
    FunctionDef::new("~~*", &[TEXT, TEXT], BOOL, |a, _| like(a, true, false)),
    FunctionDef::new("~~*", &[BPCHAR, TEXT], BOOL, |a, _| like(a, true, false)),
    FunctionDef::new("!~~*", &[TEXT, TEXT], BOOL, |a, _| like(a, true, true)),
    FunctionDef::new("!~~*", &[BPCHAR, TEXT], BOOL, |a, _| like(a, true, true)),
    FunctionDef::new("~", &[TEXT, TEXT], BOOL, |a, _| matches(a, "", false)),
    FunctionDef::new("~", &[BPCHAR, TEXT], BOOL, |a, _| matches(a, "", false)),
    FunctionDef::new("!~", &[TEXT, TEXT], BOOL, |a, _| matches(a, "", true)),
    FunctionDef::new("!~", &[BPCHAR, TEXT], BOOL, |a, _| matches(a, "", true)),
    FunctionDef::new("~*", &[TEXT, TEXT], BOOL, |a, _| matches(a, "i", false)),
    FunctionDef::new("~*", &[BPCHAR, TEXT], BOOL, |a, _| matches(a, "i", false)),
    FunctionDef::new("!~*", &[TEXT, TEXT], BOOL, |a, _| matches(a, "i", true)),
    FunctionDef::new("!~*", &[BPCHAR, TEXT], BOOL, |a, _| matches(a, "i", true)),
    FunctionDef::new("^@", &[TEXT, TEXT], BOOL, starts_with),
];

pub(super) static FUNCTIONS: &[FunctionDef] = &[
    FunctionDef::new("starts_with", &[TEXT, TEXT], BOOL, starts_with),
    FunctionDef::new("like_escape", &[TEXT, TEXT], TEXT, like_escape),
    FunctionDef::new("similar_to_escape", &[TEXT], TEXT, similar_to_escape),
    FunctionDef::new("similar_to_escape", &[TEXT, TEXT], TEXT, similar_to_escape),
    FunctionDef::new("regexp_replace", &[TEXT, TEXT, TEXT], TEXT, regexp_replace),
    FunctionDef::new("regexp_replace", &[TEXT, TEXT, TEXT, TEXT], TEXT, regexp_replace),
    FunctionDef::new("regexp_match", &[TEXT, TEXT], TEXT_ARRAY, regexp_match),
    FunctionDef::new("regexp_match", &[TEXT, TEXT, TEXT], TEXT_ARRAY, regexp_match),
    FunctionDef::new("regexp_like", &[TEXT, TEXT], BOOL, regexp_like),
    FunctionDef::new("regexp_like", &[TEXT, TEXT, TEXT], BOOL, regexp_like),
    FunctionDef::new("regexp_count", &[TEXT, TEXT], INT4, regexp_count),
    FunctionDef::new("regexp_substr", &[TEXT, TEXT], TEXT, regexp_substr),
    FunctionDef::new("regexp_split_to_array", &[TEXT, TEXT], TEXT_ARRAY, regexp_split),
    FunctionDef::new("substring", &[TEXT, TEXT], TEXT, regexp_substring),
];

fn like(args: &[Datum], fold_case: bool, negated: bool) -> EvalResult<Datum> {
    let (value, pattern) = (text(&args[0])?, text(&args[1])?);
    let matched = if fold_case {
        like_matches(value.to_lowercase().as_bytes(), pattern.to_lowercase().as_bytes())?
    } else {
        like_matches(value.as_bytes(), pattern.as_bytes())?
    };
    Ok(Datum::Bool(matched != negated))
}

/// LIKE with backslash as the escape. Backtracks only to the last `%`, so the time is at most the product of the lengths.
pub(super) fn like_matches(value: &[u8], pattern: &[u8]) -> EvalResult<bool> {
    let (mut v, mut p) = (0, 0);
    // Where to go on after the last `%`: pattern position behind it, value position to try next.
    let mut retry: Option<(usize, usize)> = None;
    let char_len = |at: usize| 1 + value[at + 1..].iter().take_while(|b| **b & 0xc0 == 0x80).count();
    loop {
        let step = match pattern.get(p) {
            Some(b'%') => {
                p += 1;
                if p == pattern.len() {
                    return Ok(true);
                }
                retry = Some((p, v));
                continue;
            }
            Some(b'_') if v < value.len() => {
                v += char_len(v);
                p += 1;
                true
            }
            Some(b'\\') if v < value.len() => {
                let Some(&literal) = pattern.get(p + 1) else {
                    return Err(SqlError::new(
                        SqlState::INVALID_ESCAPE_SEQUENCE,
                        "LIKE pattern must not end with escape character",
                    )
                    .into());
                };
                let same = value.get(v) == Some(&literal);
                if same {
                    v += 1;
                    p += 2;
                }
                same
            }
            Some(b) if value.get(v) == Some(b) && !matches!(b, b'_' | b'\\') => {
                v += 1;
                p += 1;
                true
            }
            None if v == value.len() => return Ok(true),
            _ => false,
        };
        if !step {
            match retry {
                Some((after, from)) if from < value.len() => {
                    p = after;
                    v = from + char_len(from);
                    retry = Some((after, v));
                }
                _ => return Ok(false),
            }
        }
    }
}

fn starts_with(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    Ok(Datum::Bool(text(&args[0])?.starts_with(text(&args[1])?)))
}

fn escape_char(text: &str) -> EvalResult<Option<char>> {
    let mut chars = text.chars();
    let escape = chars.next();
    if chars.next().is_some() {
        return Err(SqlError::new(SqlState::INVALID_ESCAPE_SEQUENCE, "invalid escape string")
            .with_hint("Escape string must be empty or one character.")
            .into());
    }
    Ok(escape)
}

/// Rewrites a LIKE pattern with another escape to one with backslash.
fn like_escape(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let (pattern, escape) = (text(&args[0])?, escape_char(text(&args[1])?)?);
    let mut out = String::with_capacity(pattern.len() + 4);
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        if Some(c) == escape {
            match chars.next() {
                Some(next) => out.extend(['\\', next]),
                None => out.push('\\'),
            }
        } else if c == '\\' {
            out.push_str("\\\\");
        } else {
            out.push(c);
        }
    }
    Ok(Datum::text(out))
}

/// A SIMILAR TO pattern as a regular expression.
fn similar_to_escape(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let pattern = text(&args[0])?;
    let escape = match args.get(1) {
        Some(escape) => escape_char(text(escape)?)?,
        None => Some('\\'),
    };
    let mut out = String::from("^(?:");
    let mut chars = pattern.chars();
    let mut in_class = false;
    while let Some(c) = chars.next() {
        match c {
            c if Some(c) == escape => {
                if let Some(next) = chars.next() {
                    out.push_str(&regex::escape(&next.to_string()));
                }
            }
            '[' => {
                in_class = true;
                out.push(c);
            }
            ']' => {
                in_class = false;
                out.push(c);
            }
            '%' if !in_class => out.push_str(".*"),
            '_' if !in_class => out.push('.'),
            '.' | '^' | '$' | '\\' if !in_class => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
    out.push_str(")$");
    Ok(Datum::text(out))
}

/// Compiled patterns kept for each thread; cleared when full.
const CACHE_PATTERNS_MAX: usize = 64;

thread_local! {
    static CACHE: RefCell<FxHashMap<String, Regex>> = RefCell::default();
}

/// The compiled form of a PostgreSQL regular expression with its flags (`i`, `n`, `s`, `x`, `g` is the caller's).
fn compile(pattern: &str, flags: &str) -> EvalResult<Regex> {
    let key = format!("{flags}/{pattern}");
    if let Some(found) = CACHE.with_borrow(|cache| cache.get(&key).cloned()) {
        return Ok(found);
    }
    let mut source = pattern.strip_prefix("***:").unwrap_or(pattern).to_owned();
    // PostgreSQL's word boundaries.
    for (theirs, ours) in
        [("\\m", "\\b{start}"), ("\\M", "\\b{end}"), ("\\y", "\\b"), ("\\Y", "\\B"), ("\\Z", "\\z")]
    {
        if source.contains(theirs) {
            source = source.replace(theirs, ours);
        }
    }
    let mut builder = RegexBuilder::new(&source);
    builder.dot_matches_new_line(true).size_limit(4 << 20);
    for flag in flags.chars() {
        match flag {
            'i' => builder.case_insensitive(true),
            'c' => builder.case_insensitive(false),
            'n' | 'm' => builder.multi_line(true).dot_matches_new_line(false),
            'x' => builder.ignore_whitespace(true),
            's' | 'g' => &mut builder,
            other => {
                return Err(SqlError::new(
                    SqlState::INVALID_PARAMETER_VALUE,
                    format!("invalid regular expression option: \"{other}\""),
                )
                .into());
            }
        };
    }
    let compiled = builder.build().map_err(|e| {
        let reason = e.to_string();
        let reason = reason.lines().last().unwrap_or("invalid").trim_start_matches("error: ").to_owned();
        SqlError::new(SqlState::INVALID_REGULAR_EXPRESSION, format!("invalid regular expression: {reason}"))
    })?;
    CACHE.with_borrow_mut(|cache| {
        if cache.len() >= CACHE_PATTERNS_MAX {
            cache.clear();
        }
        cache.insert(key, compiled.clone());
    });
    Ok(compiled)
}

fn matches(args: &[Datum], flags: &str, negated: bool) -> EvalResult<Datum> {
    let regex = compile(text(&args[1])?, flags)?;
    Ok(Datum::Bool(regex.is_match(text(&args[0])?) != negated))
}

fn flags(args: &[Datum], at: usize) -> EvalResult<&str> {
    args.get(at).map_or(Ok(""), text)
}

/// Expands `\1` and `\&` of a replacement.
fn expand(replacement: &str, captures: &regex::Captures<'_>, out: &mut Text<'_>) -> EvalResult<()> {
    let mut rest = replacement;
    while let Some(at) = rest.find('\\') {
        out.push(&rest[..at])?;
        let mut chars = rest[at + 1..].chars();
        match chars.next() {
            Some('&') => out.push(&captures[0])?,
            Some(d) if d.is_ascii_digit() && d != '0' => {
                let group = d as usize - '0' as usize;
                out.push(captures.get(group).map_or("", |m| m.as_str()))?;
            }
            Some('\\') | None => out.push("\\")?,
            Some(_) => {
                out.push("\\")?;
                rest = &rest[at + 1..];
                continue;
            }
        }
        rest = chars.as_str();
    }
    out.push(rest)
}

fn regexp_replace(args: &[Datum], ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let (value, replacement, flags) = (text(&args[0])?, text(&args[2])?, flags(args, 3)?);
    let regex = compile(text(&args[1])?, flags)?;
    let most = if flags.contains('g') { usize::MAX } else { 1 };
    let (mut out, mut end) = (Text::new(ctx), 0);
    for captures in regex.captures_iter(value).take(most) {
        let matched = captures.get(0).expect("group 0 is the match");
        out.push(&value[end..matched.start()])?;
        expand(replacement, &captures, &mut out)?;
        end = matched.end();
    }
    out.push(&value[end..])?;
    Ok(out.finish())
}

fn regexp_match(args: &[Datum], ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let regex = compile(text(&args[1])?, flags(args, 2)?)?;
    let Some(captures) = regex.captures(text(&args[0])?) else { return Ok(Datum::Null) };
    let group = |i: usize| captures.get(i).map_or(Datum::Null, |m| Datum::text(m.as_str()));
    let groups = if captures.len() == 1 { 0..1 } else { 1..captures.len() };
    let items = items_of(groups.map(group), ctx)?;
    Ok(Datum::array(ElementType::Text, items))
}

fn regexp_like(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    Ok(Datum::Bool(compile(text(&args[1])?, flags(args, 2)?)?.is_match(text(&args[0])?)))
}

fn regexp_count(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    Ok(Datum::Int4(compile(text(&args[1])?, "")?.find_iter(text(&args[0])?).count() as i32))
}

fn regexp_substr(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let found = compile(text(&args[1])?, "")?;
    Ok(found.find(text(&args[0])?).map_or(Datum::Null, |m| Datum::text(m.as_str())))
}

/// `substring(text from pattern)`: the first group, or all that matched.
fn regexp_substring(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let regex = compile(text(&args[1])?, "")?;
    let Some(captures) = regex.captures(text(&args[0])?) else { return Ok(Datum::Null) };
    let group = if captures.len() > 1 { 1 } else { 0 };
    Ok(captures.get(group).map_or(Datum::Null, |m| Datum::text(m.as_str())))
}

fn regexp_split(args: &[Datum], ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let regex = compile(text(&args[1])?, "")?;
    let value = text(&args[0])?;
    Ok(Datum::array(ElementType::Text, items_of(regex.split(value).map(Datum::text), ctx)?))
}

#[cfg(test)]
mod tests {
    use super::like_matches;

    #[test]
    fn like_follows_wildcards_and_escapes() {
        for (value, pattern, want) in [
            ("abc", "abc", true),
            ("abc", "a%", true),
            ("abc", "%c", true),
            ("abc", "a_c", true),
            ("abc", "_b_", true),
            ("abc", "%d%", false),
            ("aXbXc", "a%X%c", true),
            ("a%c", "a\\%c", true),
            ("abc", "a\\%c", false),
            ("é", "_", true),
            ("éa", "_a", true),
            ("", "%", true),
            ("", "", true),
            ("a", "", false),
            ("mississippi", "%iss%ip%", true),
        ] {
            assert_eq!(
                like_matches(value.as_bytes(), pattern.as_bytes()).unwrap(),
                want,
                "{value} LIKE {pattern}"
            );
        }
    }
}
