//! Intervals: text forms and arithmetic.

use std::borrow::Cow;

use base::{SqlError, SqlResult, SqlState};

use super::interval_fields::IntervalFields;
use super::output::{push_fraction, push_padded};
use super::{DAY_MICROS, HOUR_MICROS, MINUTE_MICROS, SECOND_MICROS, interval_out_of_range};
use crate::{FormatContext, Interval, IntervalStyle};

fn syntax(text: &str) -> SqlError {
    SqlError::new(
        SqlState::INVALID_DATETIME_FORMAT,
        format!("invalid input syntax for type interval: \"{text}\""),
    )
}

fn field_overflow(text: &str) -> SqlError {
    SqlError::new(SqlState::INTERVAL_FIELD_OVERFLOW, format!("interval field value out of range: \"{text}\""))
}

/// Sums up the fields of a text, wider than the result.
#[derive(Default)]
struct Sum {
    months: i64,
    days: i64,
    micros: i128,
}

impl Sum {
    fn add_days(&mut self, days: f64) {
        let whole = days.trunc();
        self.days = self.days.saturating_add(whole as i64);
        self.micros += ((days - whole) * DAY_MICROS as f64).round() as i128;
    }

    /// Adds `whole.fraction` of a unit; the fraction spills to smaller units as in PostgreSQL.
    fn add(&mut self, unit: Unit, whole: i64, fraction: f64) -> Option<()> {
        match unit {
            Unit::Months(n) => {
                self.months = self.months.checked_add(whole.checked_mul(n)?)?;
                if n == 1 {
                    self.add_days(fraction * 30.0);
                } else {
                    let part = (fraction * n as f64).round_ties_even() as i64;
                    self.months = self.months.saturating_add(part);
                }
            }
            Unit::Days(n) => {
                self.days = self.days.checked_add(whole.checked_mul(n)?)?;
                if n == 1 {
                    self.micros += (fraction * DAY_MICROS as f64).round_ties_even() as i128;
                } else {
                    self.add_days(fraction * n as f64);
                }
            }
            Unit::Micros(n) => {
                self.micros +=
                    i128::from(whole) * i128::from(n) + (fraction * n as f64).round_ties_even() as i128;
            }
        }
        Some(())
    }

    fn finish(self) -> Option<Interval> {
        Some(Interval {
            months: self.months.try_into().ok()?,
            days: self.days.try_into().ok()?,
            micros: self.micros.try_into().ok()?,
        })
    }
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Unit {
    Months(i64),
    Days(i64),
    Micros(i64),
}

fn unit_by_name(word: &str) -> Option<(&'static str, Unit)> {
    // PostgreSQL looks at ten letters.
    Some(match word.get(..10).unwrap_or(word) {
        "us" | "usec" | "usecs" | "usecond" | "useconds" | "microsecond" | "microseconds" | "microsecon" => {
            ("microsecond", Unit::Micros(1))
        }
        "ms" | "msec" | "msecs" | "msecond" | "mseconds" | "millisecond" | "milliseconds" | "millisecon" => {
            ("millisecond", Unit::Micros(1000))
        }
        "s" | "sec" | "secs" | "second" | "seconds" => ("second", Unit::Micros(SECOND_MICROS)),
        "m" | "min" | "mins" | "minute" | "minutes" => ("minute", Unit::Micros(MINUTE_MICROS)),
        "h" | "hr" | "hrs" | "hour" | "hours" => ("hour", Unit::Micros(HOUR_MICROS)),
        "d" | "day" | "days" => ("day", Unit::Days(1)),
        "w" | "week" | "weeks" => ("week", Unit::Days(7)),
        "mon" | "mons" | "month" | "months" => ("month", Unit::Months(1)),
        "qtr" | "quarter" | "quarters" => ("quarter", Unit::Months(3)),
        "y" | "yr" | "yrs" | "year" | "years" => ("year", Unit::Months(12)),
        "dec" | "decs" | "decade" | "decades" => ("decade", Unit::Months(120)),
        "c" | "cent" | "century" | "centuries" => ("century", Unit::Months(1200)),
        "mil" | "mils" | "millennia" | "millennium" => ("millennium", Unit::Months(12000)),
        _ => return None,
    })
}

/// A decimal number: sign, whole part and signed fraction.
fn number(text: &str) -> Option<(bool, i64, f64)> {
    let (negative, body) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (whole, fraction) = body.split_once('.').unwrap_or((body, ""));
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() && fraction.is_empty() || !digits(whole) || !digits(fraction) {
        return None;
    }
    // With its sign, so that the least number is one.
    let sign = if negative { "-" } else { "" };
    let whole: i64 = if whole.is_empty() { 0 } else { format!("{sign}{whole}").parse().ok()? };
    let fraction: f64 = if fraction.is_empty() { 0.0 } else { format!("0.{fraction}").parse().ok()? };
    Some((negative, whole, if negative { -fraction } else { fraction }))
}

/// `[+-]hh:mm[:ss[.f]]`, or `mm:ss.f` where there is a fraction and one colon.
fn clock(text: &str, fields: IntervalFields) -> Option<i128> {
    let (sign, body) = match text.as_bytes().first()? {
        b'-' => (-1, &text[1..]),
        b'+' => (1, &text[1..]),
        _ => (1, text),
    };
    let parts: Vec<&str> = body.splitn(4, ':').collect();
    let whole = |s: &str| -> Option<i128> { s.parse::<u64>().ok().map(i128::from) };
    let seconds = |s: &str| -> Option<i128> {
        let (_, whole, fraction) = number(s)?;
        Some(i128::from(whole) * 1_000_000 + (fraction * 1e6).round_ties_even() as i128)
    };
    let micros = match parts[..] {
        [m, s] if s.contains('.') || fields.is_minute_to_second() => {
            whole(m)? * i128::from(MINUTE_MICROS) + seconds(s)?
        }
        [h, m] => {
            let m = whole(m)?;
            if m > 59 {
                return None;
            }
            whole(h)? * i128::from(HOUR_MICROS) + m * i128::from(MINUTE_MICROS)
        }
        [h, m, s] => {
            let (m, s) = (whole(m)?, seconds(s)?);
            if m > 59 || s > 60_000_000 {
                return None;
            }
            whole(h)? * i128::from(HOUR_MICROS) + m * i128::from(MINUTE_MICROS) + s
        }
        _ => return None,
    };
    Some(sign * micros)
}

/// Reads an interval: PostgreSQL's verbose and short forms, SQL's `1-2 3 4:05:06`, ISO 8601's `P1Y2M3DT4H5M6S`.
/// A number without a unit counts the last of `fields`, and `1:02` minutes and seconds if these are the fields. Each unit may
/// come once. In the SQL standard's style a sign before all of it is everything's, if there is no other one. Errors: 22007, 22008, 22015.
pub fn parse_interval(text: &str, fields: IntervalFields, style: IntervalStyle) -> SqlResult<Interval> {
    let trimmed = text.trim();
    if trimmed.starts_with(['P', 'p']) {
        return parse_iso8601(trimmed).ok_or_else(|| syntax(text));
    }
    let mut sum = Sum::default();
    let mut ago = false;
    let mut any = false;
    let mut pending: Option<(i64, f64)> = None;
    let mut seen: Vec<&str> = Vec::new();
    let overflow = || field_overflow(text);
    let tokens = tokens(trimmed).ok_or_else(|| syntax(text))?;
    let all_negative = style == IntervalStyle::SqlStandard
        && tokens.first().is_some_and(|token| token.starts_with('-'))
        && !tokens.iter().skip(1).any(|token| token.starts_with(['-', '+']));
    // The whole part and the fraction of a number.
    let number = |text: &str| {
        let (_, whole, fraction) = number(text)?;
        Some(if all_negative {
            (if whole > 0 { -whole } else { whole }, -fraction.abs())
        } else {
            (whole, fraction)
        })
    };
    for token in &tokens {
        let token = &**token;
        let first = token.as_bytes()[0];
        if first.is_ascii_alphabetic() {
            let word = token.to_ascii_lowercase();
            if word == "ago" {
                ago = true;
                continue;
            }
            let (whole, fraction) = pending.take().ok_or_else(|| syntax(text))?;
            let (name, unit) = unit_by_name(&word).ok_or_else(|| syntax(text))?;
            // A fraction of a second takes what is smaller.
            let names: &[&str] = match name {
                "second" if fraction != 0.0 => &["second", "millisecond", "microsecond"],
                name => &[name],
            };
            once(&mut seen, names).ok_or_else(|| syntax(text))?;
            sum.add(unit, whole, fraction).ok_or_else(overflow)?;
            any = true;
            continue;
        }
        if let Some((whole, fraction)) = pending.take() {
            // A number before a time or another number counts days ("3 4:05:06").
            let counts_hours = fields.bare_unit() == Unit::Micros(HOUR_MICROS);
            if !token.contains(':') && !counts_hours {
                return Err(syntax(text));
            }
            once(&mut seen, &["day"]).ok_or_else(|| syntax(text))?;
            sum.add(Unit::Days(1), whole, fraction).ok_or_else(overflow)?;
        }
        any = true;
        if token.contains(':') {
            let micros = clock(token, fields).ok_or_else(|| syntax(text))?;
            let micros = if all_negative { -micros.abs() } else { micros };
            once(&mut seen, &["hour", "minute", "second", "millisecond", "microsecond"])
                .ok_or_else(|| syntax(text))?;
            sum.micros += micros;
        } else if let Some(dash) = token[1..].find('-').map(|at| at + 1) {
            // years-months
            once(&mut seen, &["year", "month"]).ok_or_else(|| syntax(text))?;
            let (years, fraction) = number(&token[..dash]).ok_or_else(|| syntax(text))?;
            let months: u32 = token[dash + 1..].parse().map_err(|_| syntax(text))?;
            if fraction != 0.0 || months > 11 {
                return Err(overflow());
            }
            let months = if token.starts_with('-') { -i64::from(months) } else { i64::from(months) };
            sum.add(Unit::Months(12), years, 0.0).ok_or_else(overflow)?;
            sum.add(Unit::Months(1), months, 0.0).ok_or_else(overflow)?;
        } else {
            pending = Some(number(token).ok_or_else(|| {
                if token.bytes().all(|b| b.is_ascii_digit() || b == b'-') { overflow() } else { syntax(text) }
            })?);
        }
    }
    if let Some((whole, fraction)) = pending {
        sum.add(fields.bare_unit(), whole, fraction).ok_or_else(overflow)?;
    }
    if !any {
        return Err(syntax(text));
    }
    if ago {
        // What has no opposite is out of range anyway.
        (sum.months, sum.days) = (sum.months.saturating_neg(), sum.days.saturating_neg());
        sum.micros = -sum.micros;
    }
    // More months than there may be are found later than more days.
    let many_months = i32::try_from(sum.months).is_err() && i32::try_from(sum.months / 12).is_ok();
    sum.finish().ok_or_else(|| if many_months { interval_out_of_range() } else { overflow() })
}

/// Notes that these units came; `None` if one of them had come before.
fn once<'n>(seen: &mut Vec<&'n str>, names: &[&'n str]) -> Option<()> {
    if names.iter().any(|name| seen.contains(name)) {
        return None;
    }
    seen.extend(names);
    Some(())
}

/// Numbers, units and the like that an interval may have, as PostgreSQL's `MAXDATEFIELDS`.
const TOKENS_MAX: usize = 25;

/// Splits at blanks and between a number and its unit. `None` for more than there may be, and for what is in no interval.
fn tokens(text: &str) -> Option<Vec<Cow<'_, str>>> {
    let mut tokens = Vec::new();
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let start = at;
        if tokens.len() > TOKENS_MAX {
            return None;
        }
        match bytes[at] {
            b if b.is_ascii_whitespace() || matches!(b, b',' | b'@') => {
                at += 1;
                continue;
            }
            b if b.is_ascii_alphabetic() => {
                while at < bytes.len() && bytes[at].is_ascii_alphabetic() {
                    at += 1;
                }
            }
            b if b.is_ascii_digit() || matches!(b, b'+' | b'-' | b'.') => {
                at += 1;
                // A sign may stand apart from its number.
                let blanks = bytes[at..].iter().take_while(|b| b.is_ascii_whitespace()).count();
                let apart = matches!(b, b'+' | b'-') && blanks > 0;
                let number = if apart { at + blanks } else { start };
                at = at.max(number);
                while at < bytes.len()
                    && (bytes[at].is_ascii_digit() || matches!(bytes[at], b'.' | b':' | b'-'))
                {
                    at += 1;
                }
                if apart {
                    tokens.push(Cow::Owned(format!("{}{}", char::from(b), &text[number..at])));
                    continue;
                }
            }
            _ => return None,
        }
        tokens.push(Cow::Borrowed(&text[start..at]));
    }
    Some(tokens)
}

fn parse_iso8601(text: &str) -> Option<Interval> {
    let mut sum = Sum::default();
    let mut rest = &text[1..];
    let mut time = false;
    if rest.is_empty() {
        return None;
    }
    let (date, clock_text) = rest.split_once(['T', 't']).unwrap_or((rest, ""));
    if !rest.bytes().any(|b| b.is_ascii_alphabetic() && !b.eq_ignore_ascii_case(&b't'))
        && (date.bytes().skip(1).any(|b| b == b'-') || clock_text.contains(':'))
    {
        // `P0001-02-03T04:05:06`
        let parts: Vec<&str> = if date.is_empty() { Vec::new() } else { date.splitn(4, '-').collect() };
        for (part, unit) in parts.iter().zip([Unit::Months(12), Unit::Months(1), Unit::Days(1)]) {
            let (_, whole, fraction) = number(part)?;
            sum.add(unit, whole, fraction)?;
        }
        if parts.len() > 3 {
            return None;
        }
        if !clock_text.is_empty() {
            sum.micros += clock(clock_text, IntervalFields::ALL)?;
        }
        return sum.finish();
    }
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix(['T', 't']) {
            time = true;
            rest = after;
            continue;
        }
        let end = rest.find(|c: char| c.is_ascii_alphabetic())?;
        let (_, whole, fraction) = number(&rest[..end])?;
        let unit = match (rest.as_bytes()[end].to_ascii_uppercase(), time) {
            (b'Y', false) => Unit::Months(12),
            (b'M', false) => Unit::Months(1),
            (b'W', false) => Unit::Days(7),
            (b'D', false) => Unit::Days(1),
            (b'H', true) => Unit::Micros(HOUR_MICROS),
            (b'M', true) => Unit::Micros(MINUTE_MICROS),
            (b'S', true) => Unit::Micros(SECOND_MICROS),
            _ => return None,
        };
        sum.add(unit, whole, fraction)?;
        rest = &rest[end + 1..];
    }
    sum.finish()
}

/// Appends an interval in the session's style.
pub fn write_interval(interval: &Interval, ctx: &FormatContext, out: &mut Vec<u8>) {
    match ctx.interval_style {
        IntervalStyle::Postgres => write_postgres(interval, out),
        IntervalStyle::PostgresVerbose => write_verbose(interval, out),
        IntervalStyle::SqlStandard => write_sql_standard(interval, out),
        IntervalStyle::Iso8601 => write_iso8601(interval, out),
    }
}

fn push_str(text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(text.as_bytes());
}

fn push_clock(micros: i64, out: &mut Vec<u8>) {
    let v = micros.unsigned_abs();
    push_padded(v / HOUR_MICROS as u64, 2, out);
    out.push(b':');
    push_padded(v / MINUTE_MICROS as u64 % 60, 2, out);
    out.push(b':');
    push_padded(v / SECOND_MICROS as u64 % 60, 2, out);
    push_fraction(micros, out);
}

fn write_postgres(interval: &Interval, out: &mut Vec<u8>) {
    let start = out.len();
    let mut negative_before = false;
    let mut part = |value: i32, unit: &str, out: &mut Vec<u8>| {
        if value != 0 {
            let gap = if out.len() > start { " " } else { "" };
            let plus = if negative_before && value > 0 { "+" } else { "" };
            let plural = if value == 1 { "" } else { "s" };
            push_str(&format!("{gap}{plus}{value} {unit}{plural}"), out);
            negative_before = value < 0;
        }
    };
    part(interval.months / 12, "year", out);
    part(interval.months % 12, "mon", out);
    part(interval.days, "day", out);
    if interval.micros != 0 || out.len() == start {
        if out.len() > start {
            out.push(b' ');
        }
        if interval.micros < 0 {
            out.push(b'-');
        } else if negative_before {
            out.push(b'+');
        }
        push_clock(interval.micros, out);
    }
}

fn write_verbose(interval: &Interval, out: &mut Vec<u8>) {
    push_str("@", out);
    let start = out.len();
    let parts = [
        (i64::from(interval.months / 12), "year"),
        (i64::from(interval.months % 12), "mon"),
        (i64::from(interval.days), "day"),
        (interval.micros / HOUR_MICROS, "hour"),
        (interval.micros / MINUTE_MICROS % 60, "min"),
    ];
    let mut ago: Option<bool> = None;
    for (value, unit) in parts {
        if value != 0 {
            let negative = *ago.get_or_insert(value < 0);
            let shown = if negative { -value } else { value };
            push_str(&format!(" {shown} {unit}{}", if shown == 1 { "" } else { "s" }), out);
        }
    }
    let seconds = interval.micros % MINUTE_MICROS;
    if seconds != 0 {
        let negative = *ago.get_or_insert(seconds < 0);
        let shown = if negative { -seconds } else { seconds };
        push_str(&format!(" {}{}", if shown < 0 { "-" } else { "" }, shown.unsigned_abs() / 1_000_000), out);
        push_fraction(seconds, out);
        push_str(if shown == SECOND_MICROS { " sec" } else { " secs" }, out);
    }
    if out.len() == start {
        push_str(" 0", out);
    }
    if ago == Some(true) {
        push_str(" ago", out);
    }
}

fn write_sql_standard(interval: &Interval, out: &mut Vec<u8>) {
    let (months, days, micros) = (interval.months, interval.days, interval.micros);
    let negative = months < 0 || days < 0 || micros < 0;
    let positive = months > 0 || days > 0 || micros > 0;
    let has_day_time = days != 0 || micros != 0;
    if !negative && !positive {
        return push_str("0", out);
    }
    if negative && positive || months != 0 && has_day_time {
        let sign = |v: bool| if v { '-' } else { '+' };
        let text = format!(
            "{}{}-{} {}{} {}",
            sign(months < 0),
            (months / 12).abs(),
            (months % 12).abs(),
            sign(days < 0),
            days.unsigned_abs(),
            sign(micros < 0)
        );
        push_str(&text, out);
        let start = out.len();
        push_clock(micros, out);
        strip_hour_padding(start, out);
        return;
    }
    if negative {
        out.push(b'-');
    }
    if months != 0 {
        return push_str(&format!("{}-{}", (months / 12).abs(), (months % 12).abs()), out);
    }
    if days != 0 {
        push_str(&format!("{} ", days.unsigned_abs()), out);
    }
    let start = out.len();
    push_clock(micros, out);
    strip_hour_padding(start, out);
}

fn strip_hour_padding(start: usize, out: &mut Vec<u8>) {
    if out[start] == b'0' && out[start + 1] != b':' {
        out.remove(start);
    }
}

fn write_iso8601(interval: &Interval, out: &mut Vec<u8>) {
    if *interval == Interval::default() {
        return push_str("PT0S", out);
    }
    out.push(b'P');
    let part = |value: i64, unit: char, out: &mut Vec<u8>| {
        if value != 0 {
            push_str(&format!("{value}{unit}"), out);
        }
    };
    part(i64::from(interval.months / 12), 'Y', out);
    part(i64::from(interval.months % 12), 'M', out);
    part(i64::from(interval.days), 'D', out);
    if interval.micros != 0 {
        out.push(b'T');
        part(interval.micros / HOUR_MICROS, 'H', out);
        part(interval.micros / MINUTE_MICROS % 60, 'M', out);
        let seconds = interval.micros % MINUTE_MICROS;
        if seconds != 0 {
            push_str(
                &format!("{}{}", if seconds < 0 { "-" } else { "" }, seconds.unsigned_abs() / 1_000_000),
                out,
            );
            push_fraction(seconds, out);
            out.push(b'S');
        }
    }
}

/// Errors: 22008.
pub fn add(a: &Interval, b: &Interval) -> SqlResult<Interval> {
    let sum = || {
        Some(Interval {
            months: a.months.checked_add(b.months)?,
            days: a.days.checked_add(b.days)?,
            micros: a.micros.checked_add(b.micros)?,
        })
    };
    sum().ok_or_else(interval_out_of_range)
}

/// Errors: 22008.
pub fn negate(a: &Interval) -> SqlResult<Interval> {
    let negated = || {
        Some(Interval {
            months: a.months.checked_neg()?,
            days: a.days.checked_neg()?,
            micros: a.micros.checked_neg()?,
        })
    };
    negated().ok_or_else(interval_out_of_range)
}

/// Errors: 22008.
pub fn sub(a: &Interval, b: &Interval) -> SqlResult<Interval> {
    add(a, &negate(b)?)
}

/// Each field times `factor`; fractions of months spill to days, those of days to the time. Errors: 22008.
pub fn mul(a: &Interval, factor: f64) -> SqlResult<Interval> {
    let (months, days) = (f64::from(a.months) * factor, f64::from(a.days) * factor);
    scaled(months, days, a.micros as f64 * factor)
}

/// Errors: 22012, 22008.
pub fn div(a: &Interval, divisor: f64) -> SqlResult<Interval> {
    if divisor == 0.0 {
        return Err(SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero"));
    }
    let (months, days) = (f64::from(a.months) / divisor, f64::from(a.days) / divisor);
    scaled(months, days, a.micros as f64 / divisor)
}

fn scaled(months: f64, days: f64, micros: f64) -> SqlResult<Interval> {
    let round_6 = |v: f64| (v * 1e6).round_ties_even() / 1e6;
    let fits = |v: f64| v.is_finite() && v.abs() <= f64::from(i32::MAX);
    if !fits(months) || !fits(days) {
        return Err(interval_out_of_range());
    }
    let month_days = round_6((months - months.trunc()) * 30.0);
    let mut seconds = round_6((days - days.trunc() + month_days - month_days.trunc()) * 86_400.0);
    let mut whole_days = days as i64 + month_days as i64;
    if seconds.abs() >= 86_400.0 {
        let whole = (seconds / 86_400.0).trunc();
        whole_days += whole as i64;
        seconds -= whole * 86_400.0;
    }
    let micros = (micros + seconds * 1e6).round_ties_even();
    if !micros.is_finite() || micros.abs() >= 9.223_372_036_854_775e18 {
        return Err(interval_out_of_range());
    }
    let days = i32::try_from(whole_days).map_err(|_| interval_out_of_range())?;
    Ok(Interval { months: months as i32, days, micros: micros as i64 })
}

/// Whole days out of the time (`justify_hours`).
pub fn justify_hours(a: &Interval) -> SqlResult<Interval> {
    let mut days = i64::from(a.days) + a.micros / DAY_MICROS;
    let mut micros = a.micros % DAY_MICROS;
    if days > 0 && micros < 0 {
        micros += DAY_MICROS;
        days -= 1;
    } else if days < 0 && micros > 0 {
        micros -= DAY_MICROS;
        days += 1;
    }
    Ok(Interval { months: a.months, days: days.try_into().map_err(|_| interval_out_of_range())?, micros })
}

/// Whole months of 30 days out of the days (`justify_days`).
pub fn justify_days(a: &Interval) -> SqlResult<Interval> {
    let mut months = i64::from(a.months) + i64::from(a.days / 30);
    let mut days = a.days % 30;
    if months > 0 && days < 0 {
        days += 30;
        months -= 1;
    } else if months < 0 && days > 0 {
        days -= 30;
        months += 1;
    }
    Ok(Interval { months: months.try_into().map_err(|_| interval_out_of_range())?, days, micros: a.micros })
}

/// Both, with all signs alike (`justify_interval`).
pub fn justify_interval(a: &Interval) -> SqlResult<Interval> {
    // Days that whole hours add may be more than there can be, until they are months.
    let days = i64::from(a.days) + a.micros / DAY_MICROS;
    let months = i64::from(a.months) + days / 30;
    let mut r = Interval {
        months: months.try_into().map_err(|_| interval_out_of_range())?,
        days: (days % 30) as i32,
        micros: a.micros % DAY_MICROS,
    };
    if r.months > 0 && (r.days < 0 || r.days == 0 && r.micros < 0) {
        r.days += 30;
        r.months -= 1;
    } else if r.months < 0 && (r.days > 0 || r.days == 0 && r.micros > 0) {
        r.days -= 30;
        r.months += 1;
    }
    if r.days > 0 && r.micros < 0 {
        r.micros += DAY_MICROS;
        r.days -= 1;
    } else if r.days < 0 && r.micros > 0 {
        r.micros -= DAY_MICROS;
        r.days += 1;
    }
    Ok(r)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> SqlResult<Interval> {
        parse_interval(text, IntervalFields::ALL, IntervalStyle::Postgres)
    }

    /// Values are PostgreSQL's, and each is what it was when it is read again in the style that it was written in.
    #[test]
    fn a_sign_before_all_is_everythings_in_the_standards_style() {
        let style = IntervalStyle::SqlStandard;
        let ctx = FormatContext { interval_style: style, ..FormatContext::default() };
        for (text, want) in [
            ("-1 2:03:04", "-1 2:03:04"),
            ("-1-2 3 4:05:06", "-1-2 -3 -4:05:06"),
            ("- 1 year 2 mons 3.5 days", "-1-2 -3 -12:00:00"),
            ("1 -2:03", "+0-0 +1 -2:03:00"),
            ("-1 days +2:03:04", "+0-0 -1 +2:03:04"),
            ("-1 day ago", "1 0:00:00"),
            ("-1 day 2:00 ago", "1 2:00:00"),
            ("1-2", "1-2"),
        ] {
            let shown = |interval: &Interval| {
                let mut out = Vec::new();
                write_interval(interval, &ctx, &mut out);
                String::from_utf8(out).unwrap()
            };
            let read = parse_interval(text, IntervalFields::ALL, style).unwrap();
            assert_eq!(shown(&read), want, "{text}");
            assert_eq!(parse_interval(want, IntervalFields::ALL, style).unwrap(), read, "{text}");
        }
    }

    #[test]
    fn text_forms_are_read_and_written() {
        let ctx = FormatContext::default();
        for (text, want) in [
            ("1 year 2 mons 3 days 04:05:06.789", "1 year 2 mons 3 days 04:05:06.789"),
            ("1 day ago", "-1 days"),
            ("@ 1 minute", "00:01:00"),
            ("P1Y2M3DT4H5M6S", "1 year 2 mons 3 days 04:05:06"),
            ("1-2", "1 year 2 mons"),
            ("3 4:05:06", "3 days 04:05:06"),
            ("1.5 days", "1 day 12:00:00"),
            ("-1 days +02:03:00", "-1 days +02:03:00"),
            ("1.5 months", "1 mon 15 days"),
            ("90", "00:01:30"),
            ("2h30m", "02:30:00"),
            ("0", "00:00:00"),
            ("1 week", "7 days"),
            ("-1-2", "-1 years -2 mons"),
        ] {
            let mut out = Vec::new();
            write_interval(&parse(text).unwrap(), &ctx, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), want, "{text}");
        }
        assert!(parse("abc").is_err());
        assert!(parse("").is_err());
        assert!(parse("@").is_err());
        assert!(parse("1 parsec").is_err());
        assert!(parse(&"1 day ".repeat(1_000_000)).is_err());
        for text in [
            "9223372036854775807-1",
            "1537228672809129302-1",
            "1--5",
            "P€1",
            "P€-1T1:2",
            "-9223372036854775808 mons ago",
            "768614336404564650.9 years",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
