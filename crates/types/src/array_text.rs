//! Text form of arrays: `{1,NULL,"a b"}`.

use base::{SqlError, SqlResult, SqlState};

use crate::array_items::ArrayItems;
use crate::{Array, Datum, ElementType, FormatContext, PgType, TypeMod, parse_text, write_text};

fn malformed(text: &str, detail: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, format!("malformed array literal: \"{text}\""))
        .with_detail(detail)
}

/// Errors: 22P02, those of the elements, 0A000 for more than one dimension, 54000 for what takes too much memory.
pub(crate) fn parse(
    text: &str,
    element: ElementType,
    typmod: TypeMod,
    ctx: &FormatContext,
) -> SqlResult<Array> {
    let Some(body) = text.trim_matches(is_blank).strip_prefix('{') else {
        return Err(malformed(text, "Array value must start with \"{\" or dimension information."));
    };
    let mut items = ArrayItems::default();
    let bytes = body.as_bytes();
    let mut at = 0;
    let skip_blanks = |at: &mut usize| {
        while bytes.get(*at).is_some_and(|b| is_blank(char::from(*b))) {
            *at += 1;
        }
    };
    let end_of_input = || malformed(text, "Unexpected end of input.");
    skip_blanks(&mut at);
    if bytes.get(at) == Some(&b'}') {
        if at + 1 != bytes.len() {
            return Err(malformed(text, "Junk after closing right brace."));
        }
        return Ok(Array { element, items: items.finish() });
    }
    loop {
        skip_blanks(&mut at);
        let (item, is_plain) = match bytes.get(at).ok_or_else(end_of_input)? {
            b'{' => return Err(SqlError::unsupported("an array of more than one dimension")),
            b'"' => (quoted(body, &mut at).ok_or_else(end_of_input)?, false),
            _ => {
                let (item, is_plain) = bare(body, &mut at).ok_or_else(end_of_input)?;
                match bytes.get(at) {
                    Some(found @ (b'"' | b'{')) => {
                        let element = if *found == b'"' { "array element" } else { "\"{\" character" };
                        return Err(malformed(text, &format!("Unexpected {element}.")));
                    }
                    found if item.is_empty() => {
                        let found = found.map_or(',', |b| *b as char);
                        return Err(malformed(text, &format!("Unexpected \"{found}\" character.")));
                    }
                    _ => (item, is_plain),
                }
            }
        };
        items.push(if is_plain && item.eq_ignore_ascii_case("null") {
            Datum::Null
        } else {
            parse_text(&item, PgType::from(element), typmod, ctx)?
        })?;
        skip_blanks(&mut at);
        match bytes.get(at).ok_or_else(end_of_input)? {
            b',' => at += 1,
            b'}' => {
                if at + 1 != bytes.len() {
                    return Err(malformed(text, "Junk after closing right brace."));
                }
                return Ok(Array { element, items: items.finish() });
            }
            _ => return Err(malformed(text, "Unexpected array element.")),
        }
    }
}

fn quoted(body: &str, at: &mut usize) -> Option<String> {
    let mut item = String::new();
    let mut chars = body[*at + 1..].char_indices();
    let base = *at + 1;
    while let Some((i, c)) = chars.next() {
        match c {
            '"' => {
                *at = base + i + 1;
                return Some(item);
            }
            '\\' => item.push(chars.next()?.1),
            c => item.push(c),
        }
    }
    None
}

/// An item without quotes and without the blanks behind it, and whether nothing in it was escaped: what was stays, be it a blank or NULL. Ends
/// before what ends it, or before what it may not have.
fn bare(body: &str, at: &mut usize) -> Option<(String, bool)> {
    let (mut item, mut kept, mut is_plain) = (String::new(), 0, true);
    let base = *at;
    let mut chars = body[base..].char_indices();
    while let Some((i, c)) = chars.next() {
        match c {
            ',' | '}' | '"' | '{' => {
                *at = base + i;
                item.truncate(kept);
                return Some((item, is_plain));
            }
            '\\' => {
                item.push(chars.next()?.1);
                (kept, is_plain) = (item.len(), false);
            }
            c => {
                item.push(c);
                if !is_blank(c) {
                    kept = item.len();
                }
            }
        }
    }
    None
}

/// What PostgreSQL passes over around items: ASCII's blanks, and no others.
fn is_blank(c: char) -> bool {
    c.is_ascii_whitespace() || c == '\x0b'
}

/// Appends the text form.
pub(crate) fn write(array: &Array, ctx: &FormatContext, out: &mut Vec<u8>) {
    out.push(b'{');
    let ty = PgType::from(array.element);
    for (i, item) in array.items.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        if item.is_null() {
            out.extend_from_slice(b"NULL");
            continue;
        }
        let start = out.len();
        write_text(item, ty, ctx, out);
        if needs_quotes(&out[start..]) {
            let plain = out.split_off(start);
            out.push(b'"');
            for b in plain {
                if matches!(b, b'"' | b'\\') {
                    out.push(b'\\');
                }
                out.push(b);
            }
            out.push(b'"');
        }
    }
    out.push(b'}');
}

fn needs_quotes(item: &[u8]) -> bool {
    item.is_empty()
        || item.eq_ignore_ascii_case(b"null")
        || item.iter().any(|b| {
            matches!(b, b'{' | b'}' | b',' | b'"' | b'\\' | b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
        })
}
