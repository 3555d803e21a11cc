//! Regular expressions: operators and functions, SIMILAR TO.

use std::rc::Rc;

use base::{SqlError, SqlState};
use types::{Datum, ElementType};

use super::pattern::escape_char;
use super::*;
use crate::expr::regex::{Match, Options, Pattern};

pub(super) static OPERATORS: &[FunctionDef] = &[
    FunctionDef::new("~", &[TEXT, TEXT], BOOL, |a, c| matches(a, c, false, false)),
    FunctionDef::new("~", &[BPCHAR, TEXT], BOOL, |a, c| matches(a, c, false, false)),
    FunctionDef::new("!~", &[TEXT, TEXT], BOOL, |a, c| matches(a, c, false, true)),
    FunctionDef::new("!~", &[BPCHAR, TEXT], BOOL, |a, c| matches(a, c, false, true)),
    FunctionDef::new("~*", &[TEXT, TEXT], BOOL, |a, c| matches(a, c, true, false)),
    FunctionDef::new("~*", &[BPCHAR, TEXT], BOOL, |a, c| matches(a, c, true, false)),
    FunctionDef::new("!~*", &[TEXT, TEXT], BOOL, |a, c| matches(a, c, true, true)),
    FunctionDef::new("!~*", &[BPCHAR, TEXT], BOOL, |a, c| matches(a, c, true, true)),
];

pub(super) static FUNCTIONS: &[FunctionDef] = &[
    FunctionDef::new("similar_to_escape", &[TEXT], TEXT, similar_to_escape),
    FunctionDef::new("similar_to_escape", &[TEXT, TEXT], TEXT, similar_to_escape),
    FunctionDef::new("regexp_replace", &[TEXT, TEXT, TEXT], TEXT, |a, c| replace(a, None, None, "", c)),
    FunctionDef::new("regexp_replace", &[TEXT, TEXT, TEXT, TEXT], TEXT, regexp_replace_flags),
    FunctionDef::new("regexp_replace", &[TEXT, TEXT, TEXT, INT4], TEXT, |a, c| {
        replace(a, a.get(3), None, "", c)
    }),
    FunctionDef::new("regexp_replace", &[TEXT, TEXT, TEXT, INT4, INT4], TEXT, |a, c| {
        replace(a, a.get(3), a.get(4), "", c)
    }),
    FunctionDef::new("regexp_replace", &[TEXT, TEXT, TEXT, INT4, INT4, TEXT], TEXT, |a, c| {
        replace(a, a.get(3), a.get(4), text(&a[5])?, c)
    }),
    FunctionDef::new("regexp_match", &[TEXT, TEXT], TEXT_ARRAY, regexp_match),
    FunctionDef::new("regexp_match", &[TEXT, TEXT, TEXT], TEXT_ARRAY, regexp_match),
    FunctionDef::new("matches of regexp_matches", &[TEXT, TEXT], TEXT_ARRAY, regexp_matches),
    FunctionDef::new("matches of regexp_matches", &[TEXT, TEXT, TEXT], TEXT_ARRAY, regexp_matches),
    FunctionDef::new("regexp_like", &[TEXT, TEXT], BOOL, regexp_like),
    FunctionDef::new("regexp_like", &[TEXT, TEXT, TEXT], BOOL, regexp_like),
    FunctionDef::new("regexp_count", &[TEXT, TEXT], INT4, regexp_count),
    FunctionDef::new("regexp_count", &[TEXT, TEXT, INT4], INT4, regexp_count),
    FunctionDef::new("regexp_count", &[TEXT, TEXT, INT4, TEXT], INT4, regexp_count),
    FunctionDef::new("regexp_instr", &[TEXT, TEXT], INT4, regexp_instr),
    FunctionDef::new("regexp_instr", &[TEXT, TEXT, INT4], INT4, regexp_instr),
    FunctionDef::new("regexp_instr", &[TEXT, TEXT, INT4, INT4], INT4, regexp_instr),
    FunctionDef::new("regexp_instr", &[TEXT, TEXT, INT4, INT4, INT4], INT4, regexp_instr),
    FunctionDef::new("regexp_instr", &[TEXT, TEXT, INT4, INT4, INT4, TEXT], INT4, regexp_instr),
    FunctionDef::new("regexp_instr", &[TEXT, TEXT, INT4, INT4, INT4, TEXT, INT4], INT4, regexp_instr),
    FunctionDef::new("regexp_substr", &[TEXT, TEXT], TEXT, regexp_substr),
    FunctionDef::new("regexp_substr", &[TEXT, TEXT, INT4], TEXT, regexp_substr),
    FunctionDef::new("regexp_substr", &[TEXT, TEXT, INT4, INT4], TEXT, regexp_substr),
    FunctionDef::new("regexp_substr", &[TEXT, TEXT, INT4, INT4, TEXT], TEXT, regexp_substr),
    FunctionDef::new("regexp_substr", &[TEXT, TEXT, INT4, INT4, TEXT, INT4], TEXT, regexp_substr),
    FunctionDef::new("regexp_split_to_array", &[TEXT, TEXT], TEXT_ARRAY, regexp_split),
    FunctionDef::new("regexp_split_to_array", &[TEXT, TEXT, TEXT], TEXT_ARRAY, regexp_split),
    FunctionDef::new("substring", &[TEXT, TEXT], TEXT, |a, c| substring(text(&a[0])?, text(&a[1])?, c)),
    FunctionDef::new("substring", &[TEXT, TEXT, TEXT], TEXT, |a, c| {
        let pattern = similar_to_escape(&a[1..], c)?;
        substring(text(&a[0])?, text(&pattern)?, c)
    }),
];

/// A SIMILAR TO pattern as a regular expression. Two escaped double quotes cut it in three, of which SUBSTRING takes the second;
/// the first is to match as little as it can.
fn similar_to_escape(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let pattern = text(&args[0])?;
    let escape = match args.get(1) {
        Some(escape) => escape_char(text(escape)?)?,
        None => Some('\\'),
    };
    let mut out = String::from("^(?:");
    let (mut escaped, mut quotes, mut brackets) = (false, 0, 0);
    // Within brackets: 1 behind the first one, 2 behind its caret, else more.
    let mut in_brackets = 0;
    for c in pattern.chars() {
        if escaped {
            if c == '"' && brackets == 0 {
                out.push_str(match quotes {
                    0 => "){1,1}?(",
                    1 => "){1,1}(?:",
                    _ => {
                        return Err(SqlError::new(
                            SqlState::INVALID_USE_OF_ESCAPE_CHARACTER,
                            "SQL regular expression may not contain more than two escape-double-quote separators",
                        )
                        .into());
                    }
                });
                quotes += 1;
            } else {
                out.extend(['\\', c]);
                in_brackets = 3;
            }
            escaped = false;
        } else if Some(c) == escape {
            escaped = true;
        } else if brackets > 0 {
            if c == '\\' {
                out.push('\\');
            }
            out.push(c);
            match c {
                ']' if in_brackets > 2 => brackets -= 1,
                '[' => {
                    brackets += 1;
                    in_brackets = 3;
                }
                '^' => in_brackets += 1,
                _ => in_brackets = 3,
            }
        } else {
            match c {
                '[' => {
                    out.push(c);
                    (brackets, in_brackets) = (1, 1);
                }
                '%' => out.push_str(".*"),
                '_' => out.push('.'),
                '(' => out.push_str("(?:"),
                '\\' | '.' | '^' | '$' => out.extend(['\\', c]),
                c => out.push(c),
            }
        }
    }
    out.push_str(")$");
    Ok(Datum::text(out))
}

/// How a pattern is to be read, and whether all matches are meant.
fn options(flags: &str) -> EvalResult<(Options, bool)> {
    let (mut options, mut all) = (Options::default(), false);
    for flag in flags.chars() {
        if flag == 'g' {
            all = true;
        } else if !options.set(flag) {
            return Err(SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("invalid regular expression option: \"{flag}\""),
            )
            .into());
        }
    }
    Ok((options, all))
}

/// As [`options`] for the function `name`, which has no use for all matches.
fn options_of_one(flags: Option<&Datum>, name: &str) -> EvalResult<Options> {
    match options(flags.map_or(Ok(""), text)?)? {
        (options, false) => Ok(options),
        (_, true) => {
            let error = SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("{name}() does not support the \"global\" option"),
            );
            let hint = "Use the regexp_matches function instead.";
            Err(if name == "regexp_match" { error.with_hint(hint) } else { error }.into())
        }
    }
}

/// An argument that may be left out, not less than `least`.
fn number(arg: Option<&Datum>, name: &str, default: i64, least: i64) -> EvalResult<usize> {
    let value = arg.map_or(Ok(default), int)?;
    if value < least {
        return Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("invalid value for parameter \"{name}\": {value}"),
        )
        .into());
    }
    Ok(value as usize)
}

/// Where the character counted from 1 begins; `None` behind the text's end.
fn byte_of(value: &str, start: usize) -> Option<usize> {
    match value.char_indices().nth(start - 1) {
        Some((at, _)) => Some(at),
        None => (value.chars().count() == start - 1).then_some(value.len()),
    }
}

/// Calls `each` with the matches from byte `from` on, in order, until it says that it has enough.
fn each_match(
    pattern: &Pattern,
    value: &str,
    from: Option<usize>,
    with_groups: bool,
    mut each: impl FnMut(&Match) -> EvalResult<bool>,
) -> EvalResult<()> {
    let (search, mut from) = (pattern.search(value), from);
    while let Some(at) = from {
        let Some(found) = search.find(at, with_groups)? else { break };
        if !each(&found)? {
            break;
        }
        let whole = found[0].clone().expect("a match matches");
        from = if whole.is_empty() {
            value[whole.end..].chars().next().map(|c| whole.end + c.len_utf8())
        } else {
            Some(whole.end)
        };
    }
    Ok(())
}

/// A pattern to search for once, which may take a third of a second.
fn compiled(pattern: &str, options: Options, ctx: &EvalCtx<'_>) -> EvalResult<Rc<Pattern>> {
    ctx.look()?;
    Ok(Pattern::compile(pattern, options)?)
}

fn matches(args: &[Datum], ctx: &EvalCtx<'_>, fold_case: bool, negated: bool) -> EvalResult<Datum> {
    let pattern = compiled(text(&args[1])?, Options { fold_case, ..Options::default() }, ctx)?;
    Ok(Datum::Bool(pattern.is_match(text(&args[0])?)? != negated))
}

/// Expands `\1` and `\&` of a replacement.
fn expand(replacement: &str, value: &str, found: &Match, out: &mut Text<'_>) -> EvalResult<()> {
    let group = |i: usize| found.get(i).cloned().flatten().map_or("", |range| &value[range]);
    let mut rest = replacement;
    while let Some(at) = rest.find('\\') {
        out.push(&rest[..at])?;
        let mut chars = rest[at + 1..].chars();
        match chars.next() {
            Some('&') => out.push(group(0))?,
            Some(d @ '1'..='9') => out.push(group(d as usize - '0' as usize))?,
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

fn regexp_replace_flags(args: &[Datum], ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let flags = text(&args[3])?;
    if let Some(digit) = flags.chars().next().filter(char::is_ascii_digit) {
        return Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("invalid regular expression option: \"{digit}\""),
        )
        .with_hint(
            "If you meant to use regexp_replace() with a start parameter, cast the fourth argument to integer explicitly.",
        )
        .into());
    }
    replace(args, None, None, flags, ctx)
}

fn replace(
    args: &[Datum],
    start: Option<&Datum>,
    nth: Option<&Datum>,
    flags: &str,
    ctx: &EvalCtx<'_>,
) -> EvalResult<Datum> {
    let (value, replacement) = (text(&args[0])?, text(&args[2])?);
    let start = number(start, "start", 1, 1)?;
    let (options, all) = options(flags)?;
    let nth = number(nth, "n", if all { 0 } else { 1 }, 0)?;
    let pattern = compiled(text(&args[1])?, options, ctx)?;
    let (mut out, mut end, mut count) = (Text::new(ctx), 0, 0);
    each_match(&pattern, value, byte_of(value, start), replacement.contains('\\'), |found| {
        count += 1;
        if nth > 0 && count != nth {
            return Ok(true);
        }
        let whole = found[0].clone().expect("a match matches");
        out.push(&value[end..whole.start])?;
        expand(replacement, value, found, &mut out)?;
        end = whole.end;
        Ok(nth == 0)
    })?;
    out.push(&value[end..])?;
    Ok(out.finish())
}

fn regexp_match(args: &[Datum], ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let options = options_of_one(args.get(2), "regexp_match")?;
    let pattern = compiled(text(&args[1])?, options, ctx)?;
    let value = text(&args[0])?;
    let Some(found) = pattern.search(value).find(0, true)? else { return Ok(Datum::Null) };
    let groups = if pattern.groups() == 0 { &found[..] } else { &found[1..] };
    let groups = groups.iter().map(|group| part(value, group.clone()));
    Ok(Datum::array(ElementType::Text, items_of(groups, ctx)?))
}

/// What `regexp_matches` yields, one array behind the other: first the length of each, then the groups of the first match, or with the flag `g` of all.
fn regexp_matches(args: &[Datum], ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let (options, all) = options(args.get(2).map_or(Ok(""), text)?)?;
    let pattern = compiled(text(&args[1])?, options, ctx)?;
    let value = text(&args[0])?;
    let first = usize::from(pattern.groups() > 0);
    let (mut held, mut items) = (ctx.held(), vec![Datum::text(pattern.groups().max(1).to_string())]);
    each_match(&pattern, value, Some(0), true, |found| {
        for group in &found[first..] {
            let item = part(value, group.clone());
            held.item(&item)?;
            items.push(item);
        }
        Ok(all)
    })?;
    Ok(Datum::array(ElementType::Text, items))
}

fn part(value: &str, range: Option<std::ops::Range<usize>>) -> Datum {
    range.map_or(Datum::Null, |range| Datum::text(&value[range]))
}

fn regexp_like(args: &[Datum], ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let pattern = compiled(text(&args[1])?, options_of_one(args.get(2), "regexp_like")?, ctx)?;
    Ok(Datum::Bool(pattern.is_match(text(&args[0])?)?))
}

fn regexp_count(args: &[Datum], ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let value = text(&args[0])?;
    let start = number(args.get(2), "start", 1, 1)?;
    let pattern = compiled(text(&args[1])?, options_of_one(args.get(3), "regexp_count")?, ctx)?;
    let mut count = 0;
    each_match(&pattern, value, byte_of(value, start), false, |_| {
        count += 1;
        Ok(true)
    })?;
    Ok(Datum::Int4(count))
}

/// The group `group` of match `nth` from character `start` on.
fn nth_match(
    value: &str,
    pattern: &Pattern,
    start: usize,
    nth: usize,
    group: usize,
) -> EvalResult<Option<std::ops::Range<usize>>> {
    // The whole is the first group of a pattern that has none.
    let group = if group == 1 && pattern.groups() == 0 { 0 } else { group };
    let (mut count, mut wanted) = (0, None);
    each_match(pattern, value, byte_of(value, start), group > 0, |found| {
        count += 1;
        if count == nth {
            wanted = found.get(group).cloned().flatten();
        }
        Ok(count < nth)
    })?;
    Ok(wanted)
}

fn regexp_instr(args: &[Datum], ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let value = text(&args[0])?;
    let start = number(args.get(2), "start", 1, 1)?;
    let nth = number(args.get(3), "n", 1, 1)?;
    let end = args.get(4).map_or(Ok(0), int)?;
    if !(0..=1).contains(&end) {
        return Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("invalid value for parameter \"endoption\": {end}"),
        )
        .into());
    }
    let options = options_of_one(args.get(5), "regexp_instr")?;
    let group = number(args.get(6), "subexpr", 0, 0)?;
    let pattern = compiled(text(&args[1])?, options, ctx)?;
    let found = nth_match(value, &pattern, start, nth, group)?;
    let at = found.map(|range| if end == 1 { range.end } else { range.start });
    Ok(Datum::Int4(at.map_or(0, |at| value[..at].chars().count() as i32 + 1)))
}

fn regexp_substr(args: &[Datum], ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let value = text(&args[0])?;
    let start = number(args.get(2), "start", 1, 1)?;
    let nth = number(args.get(3), "n", 1, 1)?;
    let options = options_of_one(args.get(4), "regexp_substr")?;
    let group = number(args.get(5), "subexpr", 0, 0)?;
    let pattern = compiled(text(&args[1])?, options, ctx)?;
    Ok(part(value, nth_match(value, &pattern, start, nth, group)?))
}

/// `substring(text from pattern)`: the first group, or all that matched.
fn substring(value: &str, pattern: &str, ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let pattern = compiled(pattern, Options::default(), ctx)?;
    let Some(found) = pattern.search(value).find(0, true)? else { return Ok(Datum::Null) };
    Ok(part(value, found[usize::from(pattern.groups() > 0)].clone()))
}

fn regexp_split(args: &[Datum], ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let options = options_of_one(args.get(2), "regexp_split_to_array")?;
    let pattern = compiled(text(&args[1])?, options, ctx)?;
    let value = text(&args[0])?;
    let (mut held, mut items) = (ctx.held(), Vec::new());
    let mut add = |part: &str| {
        let item = Datum::text(part);
        held.item(&item)?;
        items.push(item);
        EvalResult::Ok(())
    };
    let (mut from, mut last_end) = (0, 0);
    each_match(&pattern, value, Some(0), false, |found| {
        let whole = found[0].clone().expect("a match matches");
        // Nothing between two characters is a place to cut, but not at the ends or right behind another match.
        if whole.start < value.len() && whole.end > last_end {
            add(&value[from..whole.start])?;
            from = whole.end;
        }
        last_end = whole.end;
        Ok(true)
    })?;
    add(&value[from..])?;
    Ok(Datum::array(ElementType::Text, items))
}
