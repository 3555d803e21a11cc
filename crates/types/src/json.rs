//! json and jsonb: parsing, jsonb's canonical text, its order.

use std::cmp::Ordering;

use base::{ByteCount, SqlError, SqlResult, SqlState};
use rustc_hash::FxHashSet;
use serde_json::Value;

use crate::Numeric;

/// Memory that a value may take while it is read: memory that cannot be had ends the process.
const PARSED_BYTES_MAX: ByteCount = ByteCount::from_mib(512);

/// What an element of an array or object takes at least, a number of one digit.
const ELEMENT_BYTES: usize = size_of::<Value>() + 40;

/// Digits that exponents in a text may stand for: `1e131071` has as many as PostgreSQL's numbers, and writing them takes milliseconds.
const WRITTEN_OUT_MAX: u64 = 32 << 20;

/// Parses JSON text of at most 127 levels. Errors: 22P02, 54001 for more levels, 54000 for what takes too much memory.
pub fn parse(text: &str) -> SqlResult<Value> {
    if parsed_bytes(text) > PARSED_BYTES_MAX.0 as usize {
        let message = format!("json takes more memory than the maximum of {PARSED_BYTES_MAX}");
        return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
    }
    let Some(marked) = marked(text) else {
        return serde_json::from_str(text).map_err(|error| syntax(&error));
    };
    let mut value = serde_json::from_str(&marked).map_err(|error| syntax(&error))?;
    unmark(&mut value);
    Ok(value)
}

/// Behind a `$`, the keys by which `serde_json` tells itself that an object is a number kept with all of its digits, or text left as it is.
const RESERVED: [&str; 2] = ["serde_json::private::Number", "serde_json::private::RawValue"];

/// The text with one `$` more before each string that is dollars and a reserved name; `None` where there is no such string.
fn marked(text: &str) -> Option<String> {
    if !text.contains("\"$") && !text.contains("\\u0024") {
        return None;
    }
    let bytes = text.as_bytes();
    let (mut out, mut copied, mut at) = (String::new(), 0, 0);
    while let Some(quote) = bytes.get(at..).and_then(|rest| rest.iter().position(|b| *b == b'"')) {
        at += quote + 1;
        if is_reserved(&bytes[at..]) {
            out.push_str(&text[copied..at]);
            out.push('$');
            copied = at;
        }
        while let Some(byte) = bytes.get(at) {
            at += if *byte == b'\\' { 2 } else { 1 };
            if *byte == b'"' {
                break;
            }
        }
    }
    (copied > 0).then(|| out + &text[copied..])
}

/// Whether a string is dollars and a reserved name, of whose characters any may be escaped; `string` begins behind its quote.
fn is_reserved(string: &[u8]) -> bool {
    if !string.starts_with(b"$") && !string.starts_with(b"\\u0024") {
        return false;
    }
    let mut at = 0;
    let characters = std::iter::from_fn(|| match *string.get(at)? {
        b'"' => None,
        b'\\' => {
            let digits = string.get(at + 1..at + 6).and_then(|escape| escape.strip_prefix(b"u"));
            let code = digits.and_then(|digits| u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok());
            at += 6;
            // No name has a zero.
            Some(code.unwrap_or(0))
        }
        byte => {
            at += 1;
            Some(byte)
        }
    });
    let name: Vec<u8> = characters.skip_while(|c| *c == b'$').take(1 + RESERVED[1].len()).collect();
    RESERVED.iter().any(|reserved| reserved.as_bytes() == name)
}

/// Takes the `$` that [`marked`] has put before strings.
fn unmark(value: &mut Value) {
    let unmarked = |text: &mut String| {
        if RESERVED.contains(&text.trim_start_matches('$')) && text.starts_with('$') {
            text.remove(0);
        }
    };
    match value {
        Value::String(text) => unmarked(text),
        Value::Array(items) => items.iter_mut().for_each(unmark),
        Value::Object(map) => {
            let without = std::mem::take(map).into_iter().map(|(mut key, mut item)| {
                unmarked(&mut key);
                unmark(&mut item);
                (key, item)
            });
            *map = without.collect();
        }
        _ => {}
    }
}

fn syntax(error: &serde_json::Error) -> SqlError {
    if error.to_string().starts_with("recursion limit exceeded") {
        return SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded")
            .with_hint("JSON may nest 127 levels deep.");
    }
    SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, "invalid input syntax for type json")
        .with_detail(format!("{error}."))
}

/// Memory that JSON text takes when it is read, by estimate: a large one for strings with many commas.
fn parsed_bytes(text: &str) -> usize {
    let most = text.len().saturating_mul(ELEMENT_BYTES);
    if most <= PARSED_BYTES_MAX.0 as usize {
        return most;
    }
    let elements = text.bytes().filter(|byte| matches!(byte, b',' | b':' | b'[' | b'{')).count();
    elements * ELEMENT_BYTES + text.len()
}

/// The canonical text of `value` as jsonb: keys sorted by length then bytes, `", "` and `": "` between.
pub fn canonical(value: &Value) -> String {
    let mut out = String::new();
    write_canonical(value, &mut out);
    out
}

/// Appends [`canonical`].
pub fn write_canonical(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => match number.as_str().parse::<Numeric>() {
            Ok(n) => out.push_str(&n.to_string()),
            Err(_) => out.push_str(number.as_str()),
        },
        Value::String(text) => write_string(text, out),
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                write_canonical(item, out);
            }
            out.push(']');
        }
        Value::Object(map) => {
            out.push('{');
            for (i, (key, item)) in entries(map).into_iter().enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                write_string(key, out);
                out.push_str(": ");
                write_canonical(item, out);
            }
            out.push('}');
        }
    }
}

/// Bytes of `text` as a JSON string: up to six for one.
pub fn string_len(text: &str) -> usize {
    let len = |byte: u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 8 | 12 => 2,
        0..0x20 => 6,
        _ => 1,
    };
    2 + text.bytes().map(len).sum::<usize>()
}

/// Appends `text` as a JSON string.
pub fn write_string(text: &str, out: &mut String) {
    use std::fmt::Write;
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if (c as u32) < 0x20 => write!(out, "\\u{:04x}", c as u32).expect("writing to a string"),
            c => out.push(c),
        }
    }
    out.push('"');
}

/// jsonb's canonical text of JSON text. Errors: as of [`parse_jsonb`].
pub fn to_jsonb(text: &str) -> SqlResult<Box<str>> {
    Ok(canonical(&parse_jsonb(text)?).into_boxed_str())
}

/// Parses JSON text whose value jsonb can hold. Errors: 22P02, 22P05 for `\u0000`, 22003 for numbers that no numeric holds, 54001 for too many
/// levels, 54000 for what takes too much memory, or has too many digits written as exponents.
pub fn parse_jsonb(text: &str) -> SqlResult<Value> {
    let value = parse(text)?;
    if text.contains("\\u0000") && contains_nul(&value) {
        return Err(no_nul());
    }
    if text.contains(['e', 'E']) && written_out(&value) > WRITTEN_OUT_MAX {
        let message = "numbers of a jsonb value have too many digits, written as exponents";
        return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
    }
    if text.contains(['e', 'E']) || text.len() > PLAIN_DIGITS_MAX {
        check_numbers(&value)?;
    }
    Ok(value)
}

fn no_nul() -> SqlError {
    SqlError::new(SqlState::UNTRANSLATABLE_CHARACTER, "unsupported Unicode escape sequence")
        .with_detail("\\u0000 cannot be converted to text.")
}

/// Looks whether JSON text, whose strings functions are about to read, has no `\u0000`. Errors: 22P05.
pub fn check_no_nul(text: &str) -> SqlResult<()> {
    if text.contains("\\u0000") && contains_nul(&parse(text)?) { Err(no_nul()) } else { Ok(()) }
}

/// Digits that every number may have.
const PLAIN_DIGITS_MAX: usize = 100_000;

fn exponent_of(number: &str) -> Option<&str> {
    number.find(['e', 'E']).map(|at| number[at + 1..].trim_start_matches(['+', '-']))
}

/// Digits that the exponents of numbers stand for.
fn written_out(value: &Value) -> u64 {
    match value {
        // Longer ones are no numbers' and refused for that.
        Value::Number(number) => {
            exponent_of(number.as_str()).map_or(0, |digits| digits.parse().map_or(0, |n: u64| n.min(150_000)))
        }
        Value::Array(items) => items.iter().map(written_out).sum(),
        Value::Object(map) => map.values().map(written_out).sum(),
        _ => 0,
    }
}

fn check_numbers(value: &Value) -> SqlResult<()> {
    match value {
        Value::Number(number) => {
            let text = number.as_str();
            if exponent_of(text).is_none() && text.len() <= PLAIN_DIGITS_MAX {
                return Ok(());
            }
            text.parse::<Numeric>().map(drop).map_err(|_| {
                SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value overflows numeric format")
            })
        }
        Value::Array(items) => items.iter().try_for_each(check_numbers),
        Value::Object(map) => map.values().try_for_each(check_numbers),
        _ => Ok(()),
    }
}

fn contains_nul(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(items) => items.iter().any(contains_nul),
        Value::Object(map) => map.iter().any(|(key, item)| key.contains('\0') || contains_nul(item)),
        _ => false,
    }
}

/// Canonical jsonb text parsed again. What functions nested deeper than [`parse`] reads, or takes more memory, is compared as its text: canonical
/// texts are equal if the values are, but for the scale of numbers.
pub fn parse_canonical(text: &str) -> Value {
    parse(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

/// jsonb's btree order: object > array > boolean > number > string > null; longer containers are greater, and an empty array
/// that is the whole value is less than everything.
pub fn compare_jsonb(a: &str, b: &str) -> Ordering {
    if a == b { Ordering::Equal } else { compare(&parse_canonical(a), &parse_canonical(b)) }
}

/// Whether two canonical texts are of equal values, in time linear in what they have alike: all but numbers has one text.
pub fn equal_jsonb(a: &str, b: &str) -> bool {
    if a == b {
        return true;
    }
    let (mut a, mut b) = (a.as_bytes(), b.as_bytes());
    let (mut within_string, mut escaped) = (false, false);
    let begins_number = |byte: u8| byte == b'-' || byte.is_ascii_digit();
    while let ([x, rest_of_a @ ..], [y, rest_of_b @ ..]) = (a, b) {
        if !within_string && begins_number(*x) && begins_number(*y) {
            let [(own, behind_a), (other, behind_b)] = [a, b].map(split_number);
            if own != other && !equal_numbers(own, other) {
                return false;
            }
            (a, b) = (behind_a, behind_b);
            continue;
        }
        if x != y {
            return false;
        }
        match x {
            _ if escaped => escaped = false,
            b'\\' => escaped = within_string,
            b'"' => within_string = !within_string,
            _ => {}
        }
        (a, b) = (rest_of_a, rest_of_b);
    }
    a.is_empty() && b.is_empty()
}

/// The number that a text begins with, and what is behind it.
fn split_number(text: &[u8]) -> (&[u8], &[u8]) {
    let is_part = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E');
    text.split_at(text.iter().take_while(|byte| is_part(**byte)).count())
}

fn equal_numbers(a: &[u8], b: &[u8]) -> bool {
    let [a, b] = [a, b].map(|text| str::from_utf8(text).ok()?.parse::<Numeric>().ok());
    matches!((a, b), (Some(a), Some(b)) if a.compare(&b).is_eq())
}

fn class(value: &Value) -> u8 {
    match value {
        Value::Null => 0,
        Value::String(_) => 1,
        Value::Number(_) => 2,
        Value::Bool(_) => 3,
        Value::Array(_) => 4,
        Value::Object(_) => 5,
    }
}

fn number(value: &serde_json::Number) -> Numeric {
    value.as_str().parse().unwrap_or(Numeric::NAN)
}

/// The entries of an object as jsonb keeps them: shorter keys first.
fn entries(map: &serde_json::Map<String, Value>) -> Vec<(&String, &Value)> {
    let mut entries: Vec<_> = map.iter().collect();
    entries.sort_by(|a, b| a.0.len().cmp(&b.0.len()).then_with(|| a.0.cmp(b.0)));
    entries
}

/// Order of two values; see [`compare_jsonb`].
pub fn compare(a: &Value, b: &Value) -> Ordering {
    let is_none = |value: &Value| matches!(value, Value::Array(items) if items.is_empty());
    is_none(b).cmp(&is_none(a)).then_with(|| compare_inner(a, b))
}

fn compare_inner(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Array(x), Value::Array(y)) => x.len().cmp(&y.len()).then_with(|| {
            x.iter().zip(y).map(|(x, y)| compare_inner(x, y)).find(|o| o.is_ne()).unwrap_or(Ordering::Equal)
        }),
        (Value::Object(x), Value::Object(y)) => x.len().cmp(&y.len()).then_with(|| {
            let pairs = entries(x).into_iter().zip(entries(y));
            let mut orders = pairs.map(|((kx, x), (ky, y))| kx.cmp(ky).then_with(|| compare_inner(x, y)));
            orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
        }),
        (Value::String(x), Value::String(y)) => x.cmp(y),
        (Value::Number(x), Value::Number(y)) => number(x).compare(&number(y)),
        (Value::Bool(x), Value::Bool(y)) => x.cmp(y),
        _ => class(a).cmp(&class(b)),
    }
}

/// Appends bytes in the order of [`compare_jsonb`], equal exactly for equal values, no key the beginning of another one.
pub fn write_key(text: &str, out: &mut Vec<u8>) {
    match parse_canonical(text) {
        Value::Array(items) if items.is_empty() => out.push(0),
        value => write_key_inner(&value, out),
    }
}

fn write_key_inner(value: &Value, out: &mut Vec<u8>) {
    out.push(class(value) + 1);
    let len = |len: usize| u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes();
    match value {
        Value::Null => {}
        Value::Bool(value) => out.push(u8::from(*value)),
        Value::Number(value) => number(value).write_key(out),
        Value::String(text) => crate::key::bytes_payload(text.as_bytes(), out),
        Value::Array(items) => {
            out.extend_from_slice(&len(items.len()));
            items.iter().for_each(|item| write_key_inner(item, out));
        }
        Value::Object(map) => {
            out.extend_from_slice(&len(map.len()));
            for (key, item) in entries(map) {
                crate::key::bytes_payload(key.as_bytes(), out);
                write_key_inner(item, out);
            }
        }
    }
}

/// Comparisons that one containment may take: a second's work. Only arrays of many thousand arrays or objects take so many.
const CONTAINMENT_STEPS_MAX: u64 = 1 << 23;

/// Arrays of which the one has so many times as many elements as the other are looked through one by one.
const LOOKED_THROUGH_MAX: usize = 4096;

/// jsonb's `@>`.
///
/// # Errors
/// 54000 if that takes too long.
pub fn contains(outer: &Value, inner: &Value) -> SqlResult<bool> {
    contains_whole(outer, inner, &mut 0)
}

fn contains_whole(outer: &Value, inner: &Value, steps: &mut u64) -> SqlResult<bool> {
    Ok(match (outer, inner) {
        (Value::Object(x), Value::Object(y)) => {
            for (key, value) in y {
                let Some(own) = x.get(key) else { return Ok(false) };
                if !contains_inner(own, value, steps)? {
                    return Ok(false);
                }
            }
            true
        }
        (Value::Array(x), Value::Array(y)) => array_contains(x, y, steps)?,
        (Value::Array(x), scalar) if !scalar.is_object() => x.iter().any(|own| compare(own, scalar).is_eq()),
        _ => class(outer) == class(inner) && compare(outer, inner).is_eq(),
    })
}

fn array_contains(outer: &[Value], inner: &[Value], steps: &mut u64) -> SqlResult<bool> {
    let is_scalar = |value: &&Value| !value.is_array() && !value.is_object();
    let key = |value: &Value| {
        let mut key = Vec::new();
        write_key_inner(value, &mut key);
        key
    };
    let many = outer.len().saturating_mul(inner.len()) > LOOKED_THROUGH_MAX;
    let scalars: Option<FxHashSet<Vec<u8>>> = many.then(|| outer.iter().filter(is_scalar).map(key).collect());
    'inner: for value in inner {
        if let Some(scalars) = &scalars
            && is_scalar(&value)
        {
            if scalars.contains(&key(value)) {
                continue;
            }
            return Ok(false);
        }
        for own in outer {
            if contains_inner(own, value, steps)? {
                continue 'inner;
            }
        }
        return Ok(false);
    }
    Ok(true)
}

fn contains_inner(outer: &Value, inner: &Value, steps: &mut u64) -> SqlResult<bool> {
    *steps += 1;
    if *steps > CONTAINMENT_STEPS_MAX {
        let message = "containment takes too many steps on these values";
        return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
    }
    match (outer, inner) {
        (Value::Object(_), Value::Object(_)) | (Value::Array(_), Value::Array(_)) => {
            contains_whole(outer, inner, steps)
        }
        _ => Ok(class(outer) == class(inner) && compare(outer, inner).is_eq()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_told_from_their_texts() {
        let texts = [
            "1",
            "1.0",
            "1.00",
            "10",
            "-1",
            "\"1\"",
            "\"1.0\"",
            "[1, 2]",
            "[1.0, 2.00]",
            "[1, 20]",
            "[1, 2, 3]",
            "[12]",
            "[]",
            "{}",
            "null",
            "true",
            "{\"a\": 1}",
            "{\"a\": 1.0}",
            "{\"a1\": 1}",
            "{\"a\": \"\\\"1\"}",
            "{\"a\": \"\\\"1.0\"}",
            "\"\\\\\"",
            "[\"\\\\\", 1]",
            "[\"\\\\\", 1.0]",
            "\"é\"",
            "\"è\"",
            "\"éa\"",
            "0",
            "0.00",
            "\"日\"",
            "\"本\"",
        ];
        for a in texts {
            for b in texts {
                let [value, other] = [a, b].map(|text| parse(text).expect(text));
                assert_eq!(canonical(&value), a);
                assert_eq!(equal_jsonb(a, b), compare(&value, &other).is_eq(), "{a} {b}");
            }
        }
    }

    #[test]
    fn jsonb_is_ordered_as_in_postgresql_and_its_keys_are_too() {
        let ascending = [
            "[]",
            "null",
            "\"\"",
            "\"\\u0001\"",
            "\"a\"",
            "\"a\\u0001\"",
            "\"ab\"",
            "\"b\"",
            "-1.5",
            "0",
            "1",
            "9",
            "10",
            "false",
            "true",
            "[null]",
            "[1]",
            "[3]",
            "[[]]",
            "[[0]]",
            "[{}]",
            "[1, 2]",
            "{}",
            r#"{"a": 1}"#,
            r#"{"a": 2}"#,
            r#"{"aa": 0}"#,
            r#"{"b": 0}"#,
            r#"{"a": 1, "b": 2}"#,
            r#"{"a": 1, "bb": 2}"#,
        ];
        let key = |text: &str| {
            let mut key = Vec::new();
            write_key(text, &mut key);
            key
        };
        for (i, a) in ascending.iter().enumerate() {
            for (j, b) in ascending.iter().enumerate() {
                assert_eq!(compare_jsonb(a, b), i.cmp(&j), "{a} {b}");
                assert_eq!(key(a).cmp(&key(b)), i.cmp(&j), "{a} {b}");
            }
        }
        assert_eq!(key(r#"{"a": [1.0, "x"]}"#), key(r#"{"a": [1.00, "x"]}"#));
    }

    #[test]
    fn jsonb_is_canonical() {
        let got = to_jsonb(r#" {"bb":1, "a" : [1.50,1e2, null], "c":"x\ny", "a":2} "#).unwrap();
        assert_eq!(&*got, r#"{"a": 2, "c": "x\ny", "bb": 1}"#);
        assert_eq!(&*to_jsonb("[1.50, 1e2,true]").unwrap(), "[1.50, 100, true]");
        assert!(to_jsonb("{").is_err());
        assert!(to_jsonb(&("[".repeat(127) + &"]".repeat(127))).is_ok());
        let deep = "[".repeat(100_000);
        assert_eq!(to_jsonb(&deep).unwrap_err().state(), SqlState::STATEMENT_TOO_COMPLEX);
        assert!(compare_jsonb(&("[".repeat(200) + &"]".repeat(200)), "null").is_ne());
        assert!(compare_jsonb("1.0", "1.00").is_eq());
        let text: String = ('\0'..'\u{100}').collect();
        let mut shown = String::new();
        write_string(&text, &mut shown);
        assert_eq!(string_len(&text), shown.len());
        // `serde_json` has a number so while it reads.
        for text in [
            r#"{"$serde_json::private::Number": "1"}"#,
            r#"{"$serde_json::private::Number": "x"}"#,
            r#"[{"$serde_json::private::RawValue": "$$serde_json::private::Number"}]"#,
            r#"{"$serde_json::private::Numbers": "$serde_json::private::RawValue", "$$$serde_json::private::Number": "$"}"#,
            r#"["\"$serde_json::private::Number", "\\", "$serde_json::private::Number", {"$set": "serde_json::private::Number"}]"#,
        ] {
            assert_eq!(&*to_jsonb(text).unwrap(), text);
            for (plain, escaped) in
                [("$", "\\u0024"), ("n::", "\\u006e::"), ("_j", "\\u005Fj"), ("::", "\\u003a:")]
            {
                let written = text.replace(plain, escaped);
                assert_eq!(&*to_jsonb(&written).unwrap(), text, "{written}");
            }
        }
        assert!(to_jsonb(r#"{"$serde_json::private::Number"#).is_err());
        assert!(to_jsonb(r#"["$serde_json::private::Number\"#).is_err());
    }
}
