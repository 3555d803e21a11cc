//! Conversions between values and text by a template: to_char, to_date, to_timestamp, to_number.

use base::{SqlError, SqlState};
use types::datetime::{self, Civil, DAY_MICROS, HOUR_MICROS, MINUTE_MICROS, SECOND_MICROS, fields, zone};
use types::{Datum, Numeric};

use super::*;

pub(super) static FUNCTIONS: &[FunctionDef] = &[
    FunctionDef::new("to_char", &[TIMESTAMP, TEXT], TEXT, time_to_char).stable(),
    FunctionDef::new("to_char", &[TIMESTAMPTZ, TEXT], TEXT, time_to_char).stable(),
    FunctionDef::new("to_char", &[INTERVAL, TEXT], TEXT, time_to_char).stable(),
    FunctionDef::new("to_char", &[INT4, TEXT], TEXT, number_to_char).stable(),
    FunctionDef::new("to_char", &[INT8, TEXT], TEXT, number_to_char).stable(),
    FunctionDef::new("to_char", &[NUMERIC, TEXT], TEXT, number_to_char).stable(),
    FunctionDef::new("to_char", &[FLOAT8, TEXT], TEXT, number_to_char).stable(),
    FunctionDef::new("to_date", &[TEXT, TEXT], DATE, |a, _| {
        let civil = parse_time(text(&a[0])?, text(&a[1])?)?;
        let days = datetime::days_from_civil(civil.year, civil.month, civil.day);
        Ok(Datum::Date(datetime::check_date(days)?))
    })
    .stable(),
    FunctionDef::new("to_timestamp", &[TEXT, TEXT], TIMESTAMPTZ, |a, c| {
        let local = parse_time(text(&a[0])?, text(&a[1])?)?.to_timestamp();
        let instant = local.and_then(|local| zone::to_instant(&c.stmt.format.time_zone, local));
        Ok(Datum::TimestampTz(instant.ok_or_else(datetime::timestamp_out_of_range)?))
    })
    .stable(),
    FunctionDef::new("to_number", &[TEXT, TEXT], NUMERIC, to_number).stable(),
];

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// The patterns, longest first where one begins another. Case matters only for those that are words.
const PATTERNS: &[&str] = &[
    "SSSSS", "HH24", "HH12", "YYYY", "IYYY", "Y,YYY", "MONTH", "Month", "month", "IDDD", "SSSS", "YYY",
    "IYY", "DDD", "DAY", "Day", "day", "MON", "Mon", "mon", "A.M.", "P.M.", "a.m.", "p.m.", "B.C.", "A.D.",
    "OF", "TZH", "TZM", "TZ", "tz", "HH", "MI", "SS", "MS", "US", "YY", "IY", "MM", "DD", "DY", "Dy", "dy",
    "ID", "IW", "WW", "CC", "RM", "AM", "PM", "am", "pm", "BC", "AD", "bc", "ad", "Y", "I", "D", "Q", "W",
    "J",
];

enum Token<'a> {
    Pattern { name: &'static str, fill: bool, ordinal: &'a str },
    Literal(char),
}

fn tokens(template: &str) -> Vec<Token<'_>> {
    let mut out = Vec::new();
    let mut rest = template;
    while let Some(c) = rest.chars().next() {
        if let Some(quoted) = rest.strip_prefix('"') {
            let end = quoted.find('"').unwrap_or(quoted.len());
            out.extend(quoted[..end].chars().map(Token::Literal));
            rest = quoted.get(end + 1..).unwrap_or("");
            continue;
        }
        let (fill, body) = match rest.strip_prefix("FM").or_else(|| rest.strip_prefix("fm")) {
            Some(body) => (true, body),
            None => (false, rest),
        };
        let exact = PATTERNS.iter().find(|p| body.starts_with(**p));
        let folded = || {
            PATTERNS.iter().find(|p| {
                p.chars().all(|c| !c.is_ascii_lowercase())
                    && body.get(..p.len()).is_some_and(|head| head.eq_ignore_ascii_case(p))
            })
        };
        match exact.or_else(folded) {
            Some(name) => {
                rest = &body[name.len()..];
                let ordinal = if rest.starts_with("TH") || rest.starts_with("th") { &rest[..2] } else { "" };
                rest = &rest[ordinal.len()..];
                out.push(Token::Pattern { name, fill, ordinal });
            }
            None if fill => rest = body,
            None => {
                out.push(Token::Literal(c));
                rest = &rest[c.len_utf8()..];
            }
        }
    }
    out
}

fn ordinal_suffix(n: i64) -> &'static str {
    match (n % 100, n % 10) {
        (11..=13, _) => "th",
        (_, 1) => "st",
        (_, 2) => "nd",
        (_, 3) => "rd",
        _ => "th",
    }
}

/// A moment or a span, in the parts a template can show.
struct Parts {
    civil: Civil,
    hour: i64,
    micros: i64,
    offset: Option<(i32, String)>,
    span: bool,
}

fn time_to_char(args: &[Datum], ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let parts = match &args[0] {
        Datum::Timestamp(i64::MAX | i64::MIN) | Datum::TimestampTz(i64::MAX | i64::MIN) => {
            return Ok(Datum::Null);
        }
        Datum::Timestamp(t) => {
            let civil = Civil::from_timestamp(*t);
            Parts { civil, hour: civil.micros / HOUR_MICROS, micros: civil.micros, offset: None, span: false }
        }
        Datum::TimestampTz(t) => {
            let tz = &ctx.stmt.format.time_zone;
            let civil = Civil::from_timestamp(zone::to_local(tz, *t));
            let offset = Some((zone::offset_at(tz, *t), zone::abbreviation_at(tz, *t)));
            Parts { civil, hour: civil.micros / HOUR_MICROS, micros: civil.micros, offset, span: false }
        }
        Datum::Interval(i) => Parts {
            civil: Civil {
                year: i.months / 12,
                month: (i.months % 12).unsigned_abs(),
                day: i.days.unsigned_abs(),
                micros: i.micros.rem_euclid(DAY_MICROS),
            },
            hour: i.micros / HOUR_MICROS,
            micros: i.micros,
            offset: None,
            span: true,
        },
        d => return Err(wrong("a date or time", d)),
    };
    let mut out = String::new();
    for token in tokens(text(&args[1])?) {
        match token {
            Token::Literal(c) => out.push(c),
            Token::Pattern { name, fill, ordinal } => show(&parts, name, fill, ordinal, &mut out)?,
        }
    }
    Ok(Datum::text(out))
}

fn show(parts: &Parts, name: &str, fill: bool, ordinal: &str, out: &mut String) -> EvalResult<()> {
    let civil = &parts.civil;
    let needs_date = [
        "MONTH", "DAY", "MON", "DY", "DDD", "ID", "IW", "WW", "D", "Q", "W", "J", "IYYY", "IYY", "IY", "I",
        "RM",
    ];
    if parts.span && needs_date.contains(&name.to_uppercase().as_str()) {
        return Err(SqlError::new(
            SqlState::INVALID_DATETIME_FORMAT,
            "invalid format specification for an interval value",
        )
        .with_hint("Intervals are not tied to specific calendar dates.")
        .into());
    }
    let days = if parts.span { 0 } else { datetime::days_from_civil(civil.year, civil.month, civil.day) };
    let year = i64::from(if civil.year > 0 || parts.span { civil.year } else { 1 - civil.year });
    let weekday = (days + 6).rem_euclid(7);
    let day_of_year = days - datetime::days_from_civil(civil.year, 1, 1) + 1;
    let minutes = parts.micros / MINUTE_MICROS % 60;
    let seconds = parts.micros / SECOND_MICROS % 60;
    let fraction = (parts.micros % SECOND_MICROS).abs();
    let word = |full: &str, abbreviated: bool, width: usize, out: &mut String| {
        let base: String = if abbreviated { full.chars().take(3).collect() } else { full.to_owned() };
        let cased = if name.chars().all(|c| c.is_ascii_uppercase()) {
            base.to_uppercase()
        } else if name.chars().all(|c| c.is_ascii_lowercase()) {
            base.to_lowercase()
        } else {
            base
        };
        if fill || abbreviated { out.push_str(&cased) } else { out.push_str(&format!("{cased:width$}")) }
    };
    let half = if parts.hour % 24 < 12 { "am" } else { "pm" };
    let hour_12 = if parts.hour % 12 == 0 { 12 } else { parts.hour % 12 };
    let (value, width) = match name {
        "HH24" => (parts.hour, 2),
        "HH12" | "HH" => (hour_12, 2),
        "MI" => (minutes, 2),
        "SS" => (seconds, 2),
        "MS" => (fraction / 1000, 3),
        "US" => (fraction, 6),
        "SSSS" | "SSSSS" => (parts.micros / SECOND_MICROS, 1),
        "YYYY" => (year, 4),
        "YYY" => (year % 1000, 3),
        "YY" => (year % 100, 2),
        "Y" => (year % 10, 1),
        "IYYY" => (i64::from(fields::iso_week(days).0), 4),
        "IYY" => (i64::from(fields::iso_week(days).0) % 1000, 3),
        "IY" => (i64::from(fields::iso_week(days).0) % 100, 2),
        "I" => (i64::from(fields::iso_week(days).0) % 10, 1),
        "MM" => (i64::from(civil.month), 2),
        "DD" => (i64::from(civil.day), 2),
        "DDD" => (day_of_year, 3),
        "D" => (weekday + 1, 1),
        "ID" => ((weekday + 6) % 7 + 1, 1),
        "IW" => (i64::from(fields::iso_week(days).1), 2),
        "WW" => ((day_of_year - 1) / 7 + 1, 2),
        "W" => (i64::from(civil.day - 1) / 7 + 1, 1),
        "Q" => (i64::from(civil.month - 1) / 3 + 1, 1),
        "CC" => ((year + 99) / 100, 2),
        "J" => (days + 2_451_545, 1),
        "Y,YYY" => {
            out.push_str(&format!("{},{:03}", year / 1000, year % 1000));
            return Ok(());
        }
        "MONTH" | "Month" | "month" => {
            word(MONTHS[civil.month as usize - 1], false, 9, out);
            return Ok(());
        }
        "MON" | "Mon" | "mon" => {
            word(MONTHS[civil.month as usize - 1], true, 3, out);
            return Ok(());
        }
        "DAY" | "Day" | "day" => {
            word(DAYS[weekday as usize], false, 9, out);
            return Ok(());
        }
        "DY" | "Dy" | "dy" => {
            word(DAYS[weekday as usize], true, 3, out);
            return Ok(());
        }
        "AM" | "PM" => {
            out.push_str(&half.to_uppercase());
            return Ok(());
        }
        "am" | "pm" => {
            out.push_str(half);
            return Ok(());
        }
        "A.M." | "P.M." | "a.m." | "p.m." => {
            let dotted = if half == "am" { "a.m." } else { "p.m." };
            out.push_str(&if name.starts_with(['A', 'P']) {
                dotted.to_uppercase()
            } else {
                dotted.to_owned()
            });
            return Ok(());
        }
        "BC" | "AD" => {
            out.push_str(if civil.year > 0 { "AD" } else { "BC" });
            return Ok(());
        }
        "bc" | "ad" => {
            out.push_str(if civil.year > 0 { "ad" } else { "bc" });
            return Ok(());
        }
        "TZ" | "tz" => {
            let name_of_zone = parts.offset.as_ref().map_or("", |(_, name)| name.as_str());
            out.push_str(&if name == "TZ" {
                name_of_zone.to_uppercase()
            } else {
                name_of_zone.to_lowercase()
            });
            return Ok(());
        }
        "OF" | "TZH" => {
            let offset = parts.offset.as_ref().map_or(0, |(offset, _)| *offset);
            out.push(if offset < 0 { '-' } else { '+' });
            out.push_str(&format!("{:02}", offset.abs() / 3600));
            if name == "OF" && offset % 3600 != 0 {
                out.push_str(&format!(":{:02}", offset.abs() / 60 % 60));
            }
            return Ok(());
        }
        "TZM" => (i64::from(parts.offset.as_ref().map_or(0, |(offset, _)| offset.abs() / 60 % 60)), 2),
        other => return Err(SqlError::unsupported(format!("the template pattern {other}")).into()),
    };
    if fill {
        out.push_str(&value.to_string());
    } else if value < 0 {
        out.push_str(&format!("-{:0width$}", -value));
    } else {
        out.push_str(&format!("{value:0width$}"));
    }
    if !ordinal.is_empty() {
        let suffix = ordinal_suffix(value);
        out.push_str(&if ordinal == "TH" { suffix.to_uppercase() } else { suffix.to_owned() });
    }
    Ok(())
}

/// Reads a moment by a template; parts that are not given are those of 0001-01-01 00:00.
fn parse_time(value: &str, template: &str) -> EvalResult<Civil> {
    let mut rest = value;
    let (mut year, mut month, mut day, mut day_of_year) = (None::<i64>, 1i64, 1i64, None);
    let (mut hour, mut minute, mut second, mut micros, mut pm) = (0i64, 0i64, 0i64, 0i64, None);
    let mut bc = false;
    let invalid = |what: &str, name: &str| -> EvalError {
        SqlError::new(SqlState::INVALID_DATETIME_FORMAT, format!("invalid value \"{what}\" for \"{name}\""))
            .into()
    };
    let tokens = tokens(template);
    for (i, token) in tokens.iter().enumerate() {
        let Token::Pattern { name, .. } = token else {
            if let Token::Literal(c) = token {
                // Any separator stands for any other; blanks are free.
                let mut chars = rest.chars();
                match chars.next() {
                    Some(next) if next == *c || !next.is_alphanumeric() && !c.is_alphanumeric() => {
                        rest = chars.as_str()
                    }
                    Some(_) if c.is_alphanumeric() => rest = chars.as_str(),
                    _ => {}
                }
            }
            continue;
        };
        rest = rest.trim_start();
        if rest.is_empty() {
            break;
        }
        let word_end = rest.find(|c: char| !c.is_alphabetic()).unwrap_or(rest.len());
        let word = &rest[..word_end];
        let named = |names: &[&str], abbreviated: bool| {
            names.iter().enumerate().find_map(|(i, full)| {
                let full = if abbreviated { &full[..3] } else { full };
                rest.get(..full.len())
                    .is_some_and(|head| head.eq_ignore_ascii_case(full))
                    .then_some((i, full.len()))
            })
        };
        match *name {
            "MONTH" | "Month" | "month" | "MON" | "Mon" | "mon" => {
                let (index, len) = named(&MONTHS, name.len() == 3).ok_or_else(|| invalid(word, name))?;
                month = index as i64 + 1;
                rest = &rest[len..];
                continue;
            }
            "DAY" | "Day" | "day" | "DY" | "Dy" | "dy" => {
                let (_, len) = named(&DAYS, name.len() == 2).ok_or_else(|| invalid(word, name))?;
                rest = &rest[len..];
                continue;
            }
            "AM" | "PM" | "am" | "pm" => {
                pm = Some(match word.to_ascii_lowercase().as_str() {
                    "am" => false,
                    "pm" => true,
                    _ => return Err(invalid(word, name)),
                });
                rest = &rest[word_end..];
                continue;
            }
            "BC" | "AD" | "bc" | "ad" => {
                bc = word.eq_ignore_ascii_case("bc");
                rest = &rest[word_end..];
                continue;
            }
            _ => {}
        }
        let width = match *name {
            "YYYY" | "IYYY" => 4,
            "YYY" | "MS" | "DDD" => 3,
            "US" => 6,
            "Y" | "D" | "Q" | "W" => 1,
            "SSSS" | "SSSSS" | "J" => 7,
            _ => 2,
        };
        // The width binds only if the next pattern follows at once.
        let adjacent = matches!(tokens.get(i + 1), Some(Token::Pattern { .. }));
        let most = if adjacent || width != 4 { width } else { rest.len() };
        let end = rest.bytes().take(most).take_while(u8::is_ascii_digit).count();
        if end == 0 {
            return Err(invalid(&rest.chars().take(width).collect::<String>(), name));
        }
        let digits = &rest[..end];
        let number: i64 = digits.parse().map_err(|_| invalid(digits, name))?;
        rest = &rest[end..];
        match *name {
            "YYYY" => year = Some(number),
            "YYY" => year = Some(if number < 100 { 2000 + number } else { 1000 + number }),
            "YY" | "Y" => year = Some(if number < 70 { 2000 + number } else { 1900 + number }),
            "MM" => month = number,
            "DD" => day = number,
            "DDD" => day_of_year = Some(number),
            "HH24" => hour = number,
            "HH12" | "HH" => {
                if !(1..=12).contains(&number) {
                    return Err(SqlError::new(
                        SqlState::INVALID_DATETIME_FORMAT,
                        format!("hour \"{number}\" is invalid for the 12-hour clock"),
                    )
                    .with_hint("Use the 24-hour clock, or give an hour between 1 and 12.")
                    .into());
                }
                hour = number;
                pm = pm.or(Some(false));
            }
            "MI" => minute = number,
            "SS" => second = number,
            "MS" => micros = number * 10i64.pow(3 - digits.len() as u32) * 1000,
            "US" => micros = number * 10i64.pow(6 - digits.len() as u32),
            "SSSS" | "SSSSS" => (hour, minute, second) = (number / 3600, number / 60 % 60, number % 60),
            _ => return Err(SqlError::unsupported(format!("reading the template pattern {name}")).into()),
        }
    }
    let out_of_range = || -> EvalError {
        SqlError::new(
            SqlState::DATETIME_FIELD_OVERFLOW,
            format!("date/time field value out of range: \"{value}\""),
        )
        .into()
    };
    if let Some(pm) = pm {
        hour = hour % 12 + if pm { 12 } else { 0 };
    }
    let year = year.unwrap_or(if bc { 1 } else { 0 });
    // Without a year PostgreSQL answers 1 BC.
    let year = i32::try_from(if bc { 1 - year } else { year }).map_err(|_| out_of_range())?;
    let day_of_month_max =
        if (1..=12).contains(&month) { datetime::days_in_month(year, month as u32) } else { 0 };
    if day < 1 || day > i64::from(day_of_month_max) || hour > 24 || minute > 59 || second > 60 {
        return Err(out_of_range());
    }
    let (mut month, mut day) = (month as u32, day as u32);
    let mut civil_year = year;
    if let Some(n) = day_of_year {
        (civil_year, month, day) = datetime::civil_from_days(datetime::days_from_civil(year, 1, 1) + n - 1);
    }
    let micros = hour * HOUR_MICROS + minute * MINUTE_MICROS + second * SECOND_MICROS + micros;
    Ok(Civil { year: civil_year, month, day, micros })
}

/// A numeric template, taken apart.
struct NumberTemplate {
    fill: bool,
    /// Digit positions before the point: true for `0`.
    before: Vec<(bool, bool)>,
    after: Vec<bool>,
    sign: Sign,
    prefix: String,
    suffix: String,
    point: bool,
}

#[derive(PartialEq, Eq)]
enum Sign {
    Default,
    /// `MI`, `S` in front, `S` behind, `PR`.
    Minus,
    Leading,
    Trailing,
    Brackets,
}

fn number_template(template: &str) -> EvalResult<NumberTemplate> {
    let mut out = NumberTemplate {
        fill: false,
        before: Vec::new(),
        after: Vec::new(),
        sign: Sign::Default,
        prefix: String::new(),
        suffix: String::new(),
        point: false,
    };
    let mut rest = template;
    let mut group = false;
    while let Some(c) = rest.chars().next() {
        let upper: String = rest.chars().take(2).collect::<String>().to_uppercase();
        let mut len = c.len_utf8();
        let seen_digit = !out.before.is_empty() || out.point;
        match (c.to_ascii_uppercase(), upper.as_str()) {
            (_, "FM") => {
                out.fill = true;
                len = 2;
            }
            (_, "MI") => {
                out.sign = Sign::Minus;
                len = 2;
            }
            (_, "PR") => {
                out.sign = Sign::Brackets;
                len = 2;
            }
            (_, "EE" | "RN" | "TH" | "PL" | "SG") => {
                return Err(SqlError::unsupported(format!("the template pattern {upper}")).into());
            }
            ('0' | '9', _) if out.point => out.after.push(c == '0'),
            ('0' | '9', _) => {
                out.before.push((c == '0', group));
                group = false;
            }
            ('.' | 'D', _) => out.point = true,
            (',' | 'G', _) => group = true,
            ('S', _) => out.sign = if seen_digit { Sign::Trailing } else { Sign::Leading },
            ('"', _) => {
                let end = rest[1..].find('"').map_or(rest.len(), |at| at + 2);
                let literal = rest[1..end].trim_end_matches('"');
                if seen_digit {
                    out.suffix.push_str(literal)
                } else {
                    out.prefix.push_str(literal)
                }
                len = end;
            }
            ('L', _) => {
                if seen_digit {
                    out.suffix.push('$')
                } else {
                    out.prefix.push('$')
                }
            }
            ('V', _) => return Err(SqlError::unsupported("the template pattern V").into()),
            _ => {
                if seen_digit {
                    out.suffix.push(c)
                } else {
                    out.prefix.push(c)
                }
            }
        }
        rest = &rest[len..];
    }
    Ok(out)
}

fn number_to_char(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let value = types::arith::to_numeric(&args[0]).ok_or_else(|| wrong("a number", &args[0]))?;
    let template = number_template(text(&args[1])?)?;
    if !value.is_finite() {
        return Err(SqlError::unsupported("to_char of NaN or infinity").into());
    }
    let rounded = value.round(template.after.len() as i32);
    let negative = rounded.signum() < 0;
    let digits = rounded.abs().to_string();
    let (int, fraction) = digits.split_once('.').unwrap_or((&digits, ""));
    let int = if int == "0" { "" } else { int };
    let overflow = int.len() > template.before.len();
    let places = template.before.len();
    let first_zero = template.before.iter().position(|(zero, _)| *zero).unwrap_or(places);
    let mut number = String::new();
    let mut started = false;
    let mut blanks = 0;
    for (i, (_, group)) in template.before.iter().enumerate() {
        let from_right = places - i;
        let digit = if overflow {
            Some('#')
        } else if int.len() >= from_right {
            int.chars().nth(int.len() - from_right)
        } else {
            (i >= first_zero).then_some('0')
        };
        // A lone 0 before the point is shown when nothing else would be.
        let digit = digit.or_else(|| (from_right == 1 && int.is_empty() && !template.point).then_some('0'));
        if *group {
            if started { number.push(',') } else { blanks += 1 }
        }
        match digit {
            Some(d) => {
                number.push(d);
                started = true;
            }
            None => blanks += 1,
        }
    }
    if template.point {
        number.push('.');
        let shown: String = if overflow { "#".repeat(template.after.len()) } else { fraction.to_owned() };
        if template.fill {
            let last_zero = template.after.iter().rposition(|zero| *zero).map_or(0, |at| at + 1);
            let significant = shown.trim_end_matches('0').len().max(last_zero);
            number.push_str(&shown[..significant.min(shown.len())]);
        } else {
            number.push_str(&shown);
        }
    }
    let pad = if template.fill { String::new() } else { " ".repeat(blanks) };
    let (lead, trail) = match template.sign {
        Sign::Default => (
            if negative {
                "-"
            } else if template.fill {
                ""
            } else {
                " "
            },
            "",
        ),
        Sign::Minus => (
            "",
            if negative {
                "-"
            } else if template.fill {
                ""
            } else {
                " "
            },
        ),
        Sign::Leading => (if negative { "-" } else { "+" }, ""),
        Sign::Trailing => ("", if negative { "-" } else { "+" }),
        Sign::Brackets if negative => ("<", ">"),
        Sign::Brackets if template.fill => ("", ""),
        Sign::Brackets => (" ", " "),
    };
    Ok(Datum::text(format!("{}{pad}{lead}{number}{trail}{}", template.prefix, template.suffix)))
}

/// Takes the digits, sign and point out of a text; separators of the template are dropped.
fn to_number(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let value = text(&args[0])?;
    let template = number_template(text(&args[1])?)?;
    let mut kept = String::new();
    for c in value.chars() {
        match c {
            '0'..='9' => kept.push(c),
            '.' if template.point && !kept.contains('.') => kept.push(c),
            '-' | '<' if !kept.contains('-') => kept.insert(0, '-'),
            _ => {}
        }
    }
    Ok(Datum::Numeric(Numeric::parse(&kept).map_err(|_| {
        SqlError::new(
            SqlState::INVALID_TEXT_REPRESENTATION,
            format!("invalid input syntax for type numeric: \"{value}\""),
        )
    })?))
}
