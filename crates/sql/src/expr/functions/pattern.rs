//! LIKE, its kin, and prefixes.

use base::{SqlError, SqlState};
use types::Datum;

use super::string::lowered;
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
    FunctionDef::new("^@", &[TEXT, TEXT], BOOL, starts_with),
];

pub(super) static FUNCTIONS: &[FunctionDef] = &[
    FunctionDef::new("starts_with", &[TEXT, TEXT], BOOL, starts_with),
    FunctionDef::new("like_escape", &[TEXT, TEXT], TEXT, like_escape),
];

fn like(args: &[Datum], fold_case: bool, negated: bool) -> EvalResult<Datum> {
    let (value, pattern) = (text(&args[0])?, text(&args[1])?);
    let matched = if fold_case {
        like_matches(lowered(value).as_bytes(), lowered(pattern).as_bytes())?
    } else {
        like_matches(value.as_bytes(), pattern.as_bytes())?
    };
    Ok(Datum::Bool(matched != negated))
}

/// Characters that LIKE may look at: some seconds' work. Only patterns of many thousands of characters take so many.
const LIKE_STEPS_MAX: u64 = 1 << 30;

/// LIKE with backslash as the escape. Backtracks only to the last `%`, so the time is at most the product of the lengths.
pub(super) fn like_matches(value: &[u8], pattern: &[u8]) -> EvalResult<bool> {
    let mut steps = 0u64;
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
        steps += 1;
        if steps > LIKE_STEPS_MAX {
            let message = "pattern takes too many steps on this text";
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message).into());
        }
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

pub(super) fn escape_char(text: &str) -> EvalResult<Option<char>> {
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
