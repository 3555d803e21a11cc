//! Input functions.

use base::{SqlError, SqlResult, SqlState};
use compact_str::CompactString;

use crate::array_items::ArrayItems;
use crate::{
    CastContext, CatalogNames, Datum, FormatContext, Numeric, PgType, TypeMod, apply_typmod, array_text,
    datetime, float_text, json,
};

pub(crate) fn invalid_syntax(ty: &str, text: &str) -> SqlError {
    SqlError::new(
        SqlState::INVALID_TEXT_REPRESENTATION,
        format!("invalid input syntax for type {ty}: \"{text}\""),
    )
}

fn int_out_of_range(ty: &str, text: &str) -> SqlError {
    SqlError::new(
        SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
        format!("value \"{text}\" is out of range for type {ty}"),
    )
}

/// Blanks as C's `isspace`.
fn trim(text: &str) -> &str {
    text.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\x0b')
}

/// A whole number in `min..=max`.
fn parse_int(text: &str, ty: &str, min: i64, max: i64) -> SqlResult<i64> {
    let body = trim(text);
    let (negative, digits) = match body.as_bytes().first() {
        Some(b'-') => (true, &body[1..]),
        Some(b'+') => (false, &body[1..]),
        _ => (false, body),
    };
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(invalid_syntax(ty, text));
    }
    let mut value: i64 = 0;
    for b in digits.bytes() {
        // Summed up on the negative side, which has room for the least i64.
        value = value
            .checked_mul(10)
            .and_then(|v| v.checked_sub(i64::from(b - b'0')))
            .ok_or_else(|| int_out_of_range(ty, text))?;
    }
    let value = if negative { Some(value) } else { value.checked_neg() };
    value.filter(|v| (min..=max).contains(v)).ok_or_else(|| int_out_of_range(ty, text))
}

/// Every spelling PostgreSQL takes for a boolean: `true yes on 1`, `false no off 0` and their unique prefixes.
pub fn parse_bool(text: &str) -> Option<bool> {
    let word = trim(text);
    let prefix_of = |full: &str, least: usize| {
        word.len() >= least
            && word.len() <= full.len()
            && full.as_bytes()[..word.len()].eq_ignore_ascii_case(word.as_bytes())
    };
    if prefix_of("true", 1) || prefix_of("yes", 1) || prefix_of("on", 2) || word == "1" {
        Some(true)
    } else if prefix_of("false", 1) || prefix_of("no", 1) || prefix_of("off", 2) || word == "0" {
        Some(false)
    } else {
        None
    }
}

fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let body = text.strip_prefix('{').map_or(Some(text), |rest| rest.strip_suffix('}'))?;
    let mut bytes = [0u8; 16];
    let mut digits = 0usize;
    let mut hyphen_allowed = false;
    for b in body.bytes() {
        if b == b'-' && hyphen_allowed {
            hyphen_allowed = false;
            continue;
        }
        let value = (b as char).to_digit(16)? as u8;
        *bytes.get_mut(digits / 2)? |= if digits.is_multiple_of(2) { value << 4 } else { value };
        digits += 1;
        hyphen_allowed = digits.is_multiple_of(4) && digits < 32;
    }
    (digits == 32).then_some(bytes)
}

/// `\x` and hex digits, or PostgreSQL's escape form.
pub fn parse_bytea(text: &str) -> SqlResult<Box<[u8]>> {
    if let Some(hex) = text.strip_prefix("\\x") {
        return parse_hex(hex);
    }
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        match &bytes[at..] {
            [b'\\', b'\\', ..] => {
                out.push(b'\\');
                at += 2;
            }
            [b'\\', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', ..] => {
                out.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                at += 4;
            }
            [b'\\', ..] => {
                return Err(SqlError::new(
                    SqlState::INVALID_TEXT_REPRESENTATION,
                    "invalid input syntax for type bytea",
                ));
            }
            [b, ..] => {
                out.push(*b);
                at += 1;
            }
            [] => unreachable!("the loop ends at the last byte"),
        }
    }
    Ok(out.into())
}

/// Hex digits, blanks between bytes allowed. Errors: 22023.
pub fn parse_hex(hex: &str) -> SqlResult<Box<[u8]>> {
    let bad = |message: String| SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message);
    let mut out = Vec::with_capacity(hex.len() / 2);
    let mut high: Option<u8> = None;
    for c in hex.chars() {
        if c.is_ascii_whitespace() && high.is_none() {
            continue;
        }
        let digit = c.to_digit(16).ok_or_else(|| bad(format!("invalid hexadecimal digit: \"{c}\"")))? as u8;
        match high.take() {
            None => high = Some(digit),
            Some(h) => out.push(h << 4 | digit),
        }
    }
    if high.is_some() {
        return Err(bad("invalid hexadecimal data: odd number of digits".to_owned()));
    }
    Ok(out.into())
}

/// Most identifiers of a name: those of a database, a schema, a table and a column.
const NAME_PARTS_MAX: usize = 4;

/// Splits `a."B c"` into its identifiers, folding what is not quoted. `None` if malformed, or of more parts than any name has.
pub fn split_qualified_name(text: &str) -> Option<Vec<String>> {
    let mut parts = Vec::new();
    let mut rest = text.trim();
    loop {
        if parts.len() == NAME_PARTS_MAX {
            return None;
        }
        if let Some(body) = rest.strip_prefix('"') {
            let mut name = String::new();
            let mut chars = body.char_indices().peekable();
            let end = loop {
                let (i, c) = chars.next()?;
                if c != '"' {
                    name.push(c);
                } else if chars.peek().is_some_and(|(_, next)| *next == '"') {
                    name.push('"');
                    chars.next();
                } else {
                    break i + 1;
                }
            };
            parts.push(name);
            rest = &body[end..];
        } else {
            let end = rest.find('.').unwrap_or(rest.len());
            let name = rest[..end].trim();
            if name.is_empty() || !name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '$')) {
                return None;
            }
            parts.push(name.to_ascii_lowercase());
            rest = &rest[end..];
        }
        rest = rest.trim_start();
        match rest.strip_prefix('.') {
            Some(after) => rest = after.trim_start(),
            None if rest.is_empty() => return Some(parts),
            None => return None,
        }
    }
}

/// Words of the longest name of a type, with `array` behind it, and one more.
const TYPE_WORDS_MAX: usize = 6;

/// A type as SQL writes it, `numeric(10,2)`, `timestamp (3) with time zone`, `"Mood"[]`: its name with single blanks, the first number of its modifier,
/// and whether it is an array. `None` if malformed.
fn written_type(text: &str) -> Option<(String, Option<u32>, bool)> {
    let (mut rest, mut is_array) = (text.trim_end(), false);
    while let Some(before) = rest.strip_suffix(']') {
        let open = before.rfind('[').filter(|open| before[open + 1..].bytes().all(|b| b.is_ascii_digit()))?;
        rest = before[..open].trim_end();
        is_array = true;
    }
    let quoted = rest.contains('"');
    let (head, modifier, tail) = match rest.find('(').filter(|_| !quoted) {
        Some(open) => {
            let close = open + rest[open..].find(')')?;
            (&rest[..open], &rest[open + 1..close], &rest[close + 1..])
        }
        None => (rest, "", ""),
    };
    if !modifier.bytes().all(|b| b.is_ascii_digit() || matches!(b, b',' | b'-' | b' ')) {
        return None;
    }
    let modifier = modifier.split(',').next().and_then(|first| first.trim().parse().ok());
    if quoted {
        return Some((head.to_owned(), modifier, is_array));
    }
    // However long the text is.
    let words = head.split_ascii_whitespace().chain(tail.split_ascii_whitespace());
    let mut words: Vec<&str> = words.take(TYPE_WORDS_MAX).collect();
    if words.len() > 1 && words.last().is_some_and(|last| last.eq_ignore_ascii_case("array")) {
        words.pop();
        is_array = true;
    }
    Some((words.join(" ").to_ascii_lowercase(), modifier, is_array))
}

/// The system's type that is called so without a schema.
fn built_in(name: &str, modifier: Option<u32>) -> Option<PgType> {
    match name {
        "char" | "nchar" | "national char" | "national character" => Some(PgType::Bpchar),
        "char varying" | "nchar varying" | "national char varying" | "national character varying" => {
            Some(PgType::Varchar)
        }
        "float" if modifier.is_some_and(|bits| bits <= 24) => Some(PgType::Float4),
        name => PgType::from_name(name),
    }
}

/// The oid of a type that only stands in signatures.
fn pseudo_type(name: &str, names: Option<&dyn CatalogNames>) -> Option<u32> {
    let parts = split_qualified_name(name)?;
    match &parts[..] {
        [name] => names?.pseudo_type_oid(name),
        [schema, name] if schema == "pg_catalog" => names?.pseudo_type_oid(name),
        _ => None,
    }
}

fn parse_reg(text: &str, ty: PgType, ctx: &FormatContext) -> SqlResult<u32> {
    let body = text.trim();
    if body == "-" {
        return Ok(0);
    }
    if !body.is_empty() && body.bytes().all(|b| b.is_ascii_digit()) {
        return parse_int(text, "oid", 0, i64::from(u32::MAX)).map(|v| v as u32);
    }
    let invalid = || SqlError::new(SqlState::INVALID_NAME, "invalid name syntax");
    let names = ctx.names.as_deref();
    if ty == PgType::Regtype {
        let (name, modifier, is_array) = written_type(body).ok_or_else(invalid)?;
        let found = match built_in(&name, modifier) {
            Some(found) => Some(found),
            None => {
                let parts = split_qualified_name(&name).ok_or_else(invalid)?;
                let (schema, name) = match &parts[..] {
                    [name] => (None, name.as_str()),
                    [schema, name] => (Some(schema.as_str()), name.as_str()),
                    _ => return Err(invalid()),
                };
                let own = matches!(schema, None | Some("pg_catalog"));
                let of_system = PgType::from_name(name).filter(|ty| own && ty.internal_name() == name);
                of_system.or_else(|| names.and_then(|n| n.type_by_name(schema, name)))
            }
        };
        let found = match found {
            Some(ty) if is_array && ty.element().is_none() => ty.array_of(),
            found => found,
        };
        let pseudo = || if is_array { None } else { pseudo_type(&name, names) };
        return found.map(PgType::oid).or_else(pseudo).ok_or_else(|| {
            SqlError::new(SqlState::UNDEFINED_OBJECT, format!("type \"{body}\" does not exist"))
        });
    }
    let parts = split_qualified_name(body).ok_or_else(invalid)?;
    let (schema, name) = match &parts[..] {
        [name] => (None, name.as_str()),
        [schema, name] => (Some(schema.as_str()), name.as_str()),
        [_, schema, name] => (Some(schema.as_str()), name.as_str()),
        _ => return Err(invalid()),
    };
    let (found, state, what) = match ty {
        PgType::Regclass => {
            (names.and_then(|n| n.relation_oid(schema, name)), SqlState::UNDEFINED_TABLE, "relation")
        }
        PgType::Regnamespace => {
            (names.and_then(|n| n.namespace_oid(name)), SqlState::INVALID_SCHEMA_NAME, "schema")
        }
        PgType::Regrole => (names.and_then(|n| n.role_oid(name)), SqlState::UNDEFINED_OBJECT, "role"),
        _ => {
            let system = matches!(schema, None | Some("pg_catalog"));
            let found = names.filter(|_| system).and_then(|n| n.function_oid(name));
            (found, SqlState::UNDEFINED_FUNCTION, "function")
        }
    };
    found.ok_or_else(|| SqlError::new(state, format!("{what} \"{}\" does not exist", parts.join("."))))
}

/// PostgreSQL's input function: the value `text` stands for, fitted to `typmod` as an assignment would.
///
/// # Errors
/// 22P02, 22003, 22007, 22008, 22001 and those of names, with PostgreSQL's messages.
pub fn parse_text(text: &str, ty: PgType, typmod: TypeMod, ctx: &FormatContext) -> SqlResult<Datum> {
    let datum = match ty {
        PgType::Int4 => {
            return parse_int(text, "integer", i64::from(i32::MIN), i64::from(i32::MAX))
                .map(|v| Datum::Int4(v as i32));
        }
        PgType::Int8 => return parse_int(text, "bigint", i64::MIN, i64::MAX).map(Datum::Int8),
        PgType::Int2 => {
            return parse_int(text, "smallint", i64::from(i16::MIN), i64::from(i16::MAX))
                .map(|v| Datum::Int2(v as i16));
        }
        PgType::Text | PgType::Unknown => return Ok(Datum::Text(CompactString::new(text))),
        PgType::Varchar | PgType::Bpchar => Datum::Text(CompactString::new(text)),
        PgType::Name => {
            let mut end = text.len().min(base::limits::IDENTIFIER_LEN_MAX);
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            return Ok(Datum::Text(CompactString::new(&text[..end])));
        }
        PgType::Char => {
            let byte = match text.as_bytes() {
                [b'\\', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7'] => {
                    ((a - b'0') << 6) + ((b - b'0') << 3) + (c - b'0')
                }
                [first, ..] => *first,
                [] => 0,
            };
            return Ok(Datum::Char(byte));
        }
        PgType::Bool => {
            return parse_bool(text).map(Datum::Bool).ok_or_else(|| invalid_syntax("boolean", text));
        }
        PgType::Float4 => return float_text::parse_f32(text).map(Datum::Float4),
        PgType::Float8 => return float_text::parse_f64(text).map(Datum::Float8),
        PgType::Numeric => Datum::Numeric(Numeric::parse(text)?),
        PgType::Bytea => return parse_bytea(text).map(Datum::Bytea),
        PgType::Date => return datetime::parse_date(text, ctx).map(Datum::Date),
        PgType::Time => Datum::Time(datetime::parse_time(text, ctx)?),
        PgType::Timestamp => Datum::Timestamp(datetime::parse_timestamp(text, ctx)?),
        PgType::TimestampTz => Datum::TimestampTz(datetime::parse_timestamptz(text, ctx)?),
        PgType::Interval => {
            let fields = typmod.as_interval_fields();
            Datum::Interval(datetime::interval::parse_interval(text, fields, ctx.interval_style)?)
        }
        PgType::Uuid => return parse_uuid(text).map(Datum::Uuid).ok_or_else(|| invalid_syntax("uuid", text)),
        PgType::Json => {
            json::parse(text)?;
            return Ok(Datum::Json(text.into()));
        }
        PgType::Jsonb => return json::to_jsonb(text).map(Datum::Jsonb),
        PgType::Oid => {
            return parse_int(text, "oid", -(1 << 31), i64::from(u32::MAX)).map(|v| Datum::Oid(v as u32));
        }
        PgType::Regclass | PgType::Regtype | PgType::Regproc | PgType::Regnamespace | PgType::Regrole => {
            return parse_reg(text, ty, ctx).map(Datum::Oid);
        }
        PgType::Enum(oid) => {
            let names = ctx.names.as_deref();
            return match names.and_then(|n| n.enum_order(oid.0, text)) {
                Some(order) => Ok(Datum::Enum { type_oid: oid.0, order }),
                None => {
                    let name = names.and_then(|n| n.type_name(oid.0)).unwrap_or_else(|| oid.to_string());
                    Err(SqlError::new(
                        SqlState::INVALID_TEXT_REPRESENTATION,
                        format!("invalid input value for enum {name}: \"{text}\""),
                    ))
                }
            };
        }
        PgType::Int2Vector | PgType::OidVector => {
            let element = ty.vector_element().expect("a vector has elements");
            let mut items = ArrayItems::default();
            for word in text.split_ascii_whitespace() {
                items.push(parse_text(word, element.into(), TypeMod::NONE, ctx)?)?;
            }
            return Ok(Datum::array(element, items.finish()));
        }
        PgType::Array(element) => {
            return array_text::parse(text, element, typmod, ctx).map(|array| Datum::Array(Box::new(array)));
        }
        PgType::Void => return Ok(Datum::Void),
    };
    apply_typmod(datum, ty, typmod, CastContext::Assignment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_found_as_sql_writes_them() {
        let found = |text: &str| {
            parse_text(text, PgType::Regtype, TypeMod::NONE, &FormatContext::default())
                .map_err(|error| error.state())
        };
        for (text, ty) in [
            ("decimal(10,2)", PgType::Numeric),
            ("numeric(10, -2)", PgType::Numeric),
            ("character varying(20)", PgType::Varchar),
            ("VARCHAR ( 20 )", PgType::Varchar),
            ("char", PgType::Bpchar),
            ("char(3)", PgType::Bpchar),
            ("\"char\"", PgType::Char),
            ("pg_catalog.char", PgType::Char),
            ("\"pg_catalog\".\"varchar\"", PgType::Varchar),
            ("\"int4\"", PgType::Int4),
            ("timestamp(6)", PgType::Timestamp),
            ("timestamp(6) without time zone", PgType::Timestamp),
            ("timestamp (3)  with time zone", PgType::TimestampTz),
            ("interval(6)", PgType::Interval),
            ("float(24)", PgType::Float4),
            ("float(25)", PgType::Float8),
            ("float", PgType::Float8),
            ("varchar(20)[]", PgType::Array(crate::ElementType::Varchar)),
            ("int [3] []", PgType::Array(crate::ElementType::Int4)),
            ("_int4", PgType::Array(crate::ElementType::Int4)),
            ("double precision array", PgType::Array(crate::ElementType::Float8)),
        ] {
            assert_eq!(found(text), Ok(Datum::Oid(ty.oid())), "{text}");
        }
        assert_eq!(found("\"integer\""), Err(SqlState::UNDEFINED_OBJECT));
        assert_eq!(found("nothing(3)"), Err(SqlState::UNDEFINED_OBJECT));
        for malformed in ["numeric(10", "numeric(x)", "int]", "a b"] {
            assert_eq!(found(malformed), Err(SqlState::INVALID_NAME), "{malformed}");
        }
    }
}
