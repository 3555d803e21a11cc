//! LIKE, its kin, and prefixes.

use std::borrow::Cow;

use base::{SqlError, SqlState};
use types::Datum;

use super::*;

pub(super) static OPERATORS: &[FunctionDef] = &[
    FunctionDef::new("~~", &[TEXT, TEXT], BOOL, |a, c| like(a, c, false, false)),
    FunctionDef::new("~~", &[BPCHAR, TEXT], BOOL, |a, c| like(a, c, false, false)),
    FunctionDef::new("!~~", &[TEXT, TEXT], BOOL, |a, c| like(a, c, false, true)),
    FunctionDef::new("!~~", &[BPCHAR, TEXT], BOOL, |a, c| like(a, c, false, true)),
    FunctionDef::new("~~*", &[TEXT, TEXT], BOOL, |a, c| like(a, c, true, false)),
    FunctionDef::new("~~*", &[BPCHAR, TEXT], BOOL, |a, c| like(a, c, true, false)),
    FunctionDef::new("!~~*", &[TEXT, TEXT], BOOL, |a, c| like(a, c, true, true)),
    FunctionDef::new("!~~*", &[BPCHAR, TEXT], BOOL, |a, c| like(a, c, true, true)),
    FunctionDef::new("^@", &[TEXT, TEXT], BOOL, starts_with),
];

pub(super) static FUNCTIONS: &[FunctionDef] = &[
    FunctionDef::new("starts_with", &[TEXT, TEXT], BOOL, starts_with),
    FunctionDef::new("like_escape", &[TEXT, TEXT], TEXT, like_escape),
];

fn like(args: &[Datum], ctx: &EvalCtx<'_>, fold_case: bool, negated: bool) -> EvalResult<Datum> {
    let (value, pattern) = (text(&args[0])?, text(&args[1])?);
    let matched = if fold_case {
        ctx.room(value.len() + pattern.len())?;
        like_matches(&types::lower(value), &types::lower(pattern))?
    } else {
        like_matches(value, pattern)?
    };
    Ok(Datum::Bool(matched != negated))
}

/// Characters that LIKE may look at beyond four times the text's: half a second's work. Only patterns whose wildcards
/// stand among many thousands of characters take so many.
const LIKE_STEPS_MAX: u64 = 1 << 28;

/// LIKE with backslash as the escape. Backtracks only to the last `%`. What stands between two of them is searched for in
/// time linear in the text unless `_` is in it, when the time is at most the product of the lengths.
pub(super) fn like_matches(text: &str, pattern: &str) -> EvalResult<bool> {
    let (pattern_text, value, pattern) = (pattern, text.as_bytes(), pattern.as_bytes());
    let steps_max = LIKE_STEPS_MAX + 4 * value.len() as u64;
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
                if let Some((literal, end)) = literal(&pattern_text[p..]) {
                    if p + end == pattern.len() {
                        return Ok(text[v..].ends_with(&*literal));
                    }
                    match text[v..].find(&*literal) {
                        Some(at) => v += at + literal.len(),
                        None => return Ok(false),
                    }
                    p += end;
                    continue;
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
        if steps > steps_max {
            let message = "pattern takes too many steps on this text";
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message).into());
        }
        if !step {
            match retry {
                // At the text's end what is left of it from further on is too short as well.
                Some((after, from)) if v < value.len() => {
                    p = after;
                    v = from + char_len(from);
                    retry = Some((after, v));
                }
                _ => return Ok(false),
            }
        }
    }
}

/// What the pattern's characters up to the next `%` or its end stand for and how many bytes of it they are, if none of
/// them is `_` or an escape of nothing.
fn literal(pattern: &str) -> Option<(Cow<'_, str>, usize)> {
    let special = |c: char| matches!(c, '%' | '_' | '\\');
    let mut end = pattern.find(special).unwrap_or(pattern.len());
    let mut out = Cow::Borrowed(&pattern[..end]);
    loop {
        let mut rest = pattern[end..].chars();
        match rest.next() {
            None | Some('%') => return Some((out, end)),
            Some('\\') => {
                let escaped = rest.next()?;
                let plain = &rest.as_str()[..rest.as_str().find(special).unwrap_or(rest.as_str().len())];
                let out = out.to_mut();
                out.push(escaped);
                out.push_str(plain);
                end += 1 + escaped.len_utf8() + plain.len();
            }
            Some(_) => return None,
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
            assert_eq!(like_matches(value, pattern).unwrap(), want, "{value} LIKE {pattern}");
        }
    }

    /// All texts of up to five characters against all patterns of up to four, as plain backtracking answers.
    #[test]
    fn like_answers_as_plain_backtracking_does() {
        fn plain(value: &[char], pattern: &[char]) -> bool {
            match pattern {
                [] => value.is_empty(),
                ['%', rest @ ..] => (0..=value.len()).any(|at| plain(&value[at..], rest)),
                ['_', rest @ ..] => !value.is_empty() && plain(&value[1..], rest),
                ['\\', c, rest @ ..] | [c, rest @ ..] => value.first() == Some(c) && plain(&value[1..], rest),
            }
        }
        fn all(letters: &[char], len: usize) -> Vec<Vec<char>> {
            let mut out = vec![Vec::new()];
            let mut last = out.clone();
            for _ in 0..len {
                last = last
                    .iter()
                    .flat_map(|text| letters.iter().map(move |c| text.iter().copied().chain([*c]).collect()))
                    .collect();
                out.extend_from_slice(&last);
            }
            out
        }
        let texts = all(&['a', 'é', '%'], 5);
        for pattern in all(&['a', 'é', '%', '_', '\\'], 4) {
            if pattern.iter().rev().take_while(|c| **c == '\\').count() % 2 == 1 {
                continue;
            }
            let spelled: String = pattern.iter().collect();
            for text in &texts {
                let value: String = text.iter().collect();
                let got = like_matches(&value, &spelled).unwrap();
                assert_eq!(got, plain(text, &pattern), "{value} LIKE {spelled}");
            }
        }
    }

    #[test]
    fn long_patterns_take_no_seconds() {
        let (text, half) = ("a".repeat(400_000), "a".repeat(200_000));
        assert!(!like_matches(&text, &format!("%{half}b%")).unwrap());
        assert!(like_matches(&text, &format!("%{half}%{half}%")).unwrap());
        assert!(!like_matches(&text, &format!("%{half}%{half}%a")).unwrap());
    }
}
