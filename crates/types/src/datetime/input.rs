//! Input of dates and times in the many forms PostgreSQL accepts.

use base::{SqlError, SqlResult, SqlState};
use jiff::tz::TimeZone;

use super::{
    Civil, DAY_MICROS, HOUR_MICROS, MINUTE_MICROS, SECOND_MICROS, days_from_civil, days_in_month, zone,
};
use crate::{DateOrder, FormatContext};

/// Why a text is not a date or time.
enum Fault {
    Syntax,
    /// A field's value is impossible; with the hint about `DateStyle` or not.
    Range(bool),
    Zone(String),
}

impl Fault {
    fn into_sql(self, text: &str, ty: &str) -> SqlError {
        match self {
            Fault::Syntax => SqlError::new(
                SqlState::INVALID_DATETIME_FORMAT,
                format!("invalid input syntax for type {ty}: \"{text}\""),
            ),
            Fault::Range(hint) => {
                let error = SqlError::new(
                    SqlState::DATETIME_FIELD_OVERFLOW,
                    format!("date/time field value out of range: \"{text}\""),
                );
                if hint {
                    error.with_hint("Perhaps you need a different \"datestyle\" setting.")
                } else {
                    error
                }
            }
            Fault::Zone(name) => SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("time zone \"{name}\" not recognized"),
            ),
        }
    }
}

/// What a text was found to say.
#[derive(Default)]
struct Parsed {
    date: Option<(i32, u32, u32)>,
    micros: Option<i64>,
    zone: Option<TimeZone>,
    special: Option<Special>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Special {
    Now,
    /// Days from today.
    Day(i64),
    Epoch,
    Infinity,
    NegInfinity,
}

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
const WEEKDAYS: [&str; 7] = ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"];

/// The month a name or its abbreviation of at least three letters stands for.
pub(crate) fn month_by_name(word: &str) -> Option<u32> {
    if word == "sept" {
        return Some(9);
    }
    let found =
        MONTHS.iter().position(|month| *month == word || word.len() == 3 && month.starts_with(word))?;
    Some(found as u32 + 1)
}

fn is_weekday(word: &str) -> bool {
    matches!(word, "tues" | "weds" | "wednes" | "thur" | "thurs")
        || WEEKDAYS.iter().any(|day| *day == word || word.len() == 3 && day.starts_with(word))
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    order: DateOrder,
    parsed: Parsed,
    /// Numbers and month names outside a separated date, in order: (value, digits), month.
    numbers: Vec<(i64, usize)>,
    month: Option<u32>,
    /// Whether numbers came before the month name.
    bc: bool,
    /// A year of two digits as it stands.
    short_year: Option<i32>,
    pm: Option<bool>,
    after_t: bool,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str, order: DateOrder) -> Parser<'a> {
        Parser {
            text,
            at: 0,
            order,
            parsed: Parsed::default(),
            numbers: Vec::new(),
            month: None,
            bc: false,
            short_year: None,
            pm: None,
            after_t: false,
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn take_while(&mut self, f: impl Fn(u8) -> bool) -> &'a str {
        let start = self.at;
        while self.peek().is_some_and(&f) {
            self.at += 1;
        }
        &self.text[start..self.at]
    }

    fn run(mut self) -> Result<Parsed, Fault> {
        let mut any = false;
        while let Some(b) = self.peek() {
            match b {
                b' ' | b'\t' | b'\n' | b'\r' | b',' => {
                    self.at += 1;
                    continue;
                }
                b'0'..=b'9' => self.number()?,
                b'+' | b'-' => self.sign()?,
                b'a'..=b'z' | b'A'..=b'Z' => self.word()?,
                _ => return Err(Fault::Syntax),
            }
            any = true;
        }
        if !any {
            return Err(Fault::Syntax);
        }
        self.finish()
    }

    fn number(&mut self) -> Result<(), Fault> {
        let digits = self.take_while(|b| b.is_ascii_digit());
        match self.peek() {
            Some(b':') => return self.clock(digits),
            Some(sep @ (b'-' | b'/' | b'.')) if self.parsed.date.is_none() && !self.after_t => {
                return self.separated_date(digits, sep);
            }
            _ => {}
        }
        let value: i64 = digits.parse().map_err(|_| Fault::Syntax)?;
        let has_date = self.parsed.date.is_some();
        match digits.len() {
            4 | 6 if (has_date || self.after_t) && self.parsed.micros.is_none() => {
                let (h, m, s) = if digits.len() == 6 {
                    (value / 10000, value / 100 % 100, value % 100)
                } else {
                    (value / 100, value % 100, 0)
                };
                let fraction = self.fraction()?;
                self.set_time(h, m, s, fraction)
            }
            8 if !has_date => self.set_date_digits(value / 10000, value / 100 % 100, value % 100),
            6 if !has_date && self.month.is_none() => {
                let year = value / 10000;
                self.set_date_digits(
                    year + if year < 70 { 2000 } else { 1900 },
                    value / 100 % 100,
                    value % 100,
                )
            }
            // More numbers than a day and a year are in no date.
            _ if self.numbers.len() == 2 => Err(Fault::Syntax),
            n => {
                self.numbers.push((value, n));
                // 1st, 2nd …
                Ok(())
            }
        }
    }

    fn set_date_digits(&mut self, y: i64, m: i64, d: i64) -> Result<(), Fault> {
        self.parsed.date = Some((y as i32, m as u32, d as u32));
        Ok(())
    }

    /// The fraction of a second at the cursor, rounded to microseconds, halves to the even one.
    fn fraction(&mut self) -> Result<i64, Fault> {
        let start = self.at;
        if self.peek() != Some(b'.') {
            return Ok(0);
        }
        self.at += 1;
        let digits = self.take_while(|b| b.is_ascii_digit());
        if digits.is_empty() {
            return Ok(0);
        }
        // As PostgreSQL computes it.
        let fraction: f64 = self.text[start..self.at].parse().map_err(|_| Fault::Syntax)?;
        Ok((fraction * 1e6).round_ties_even() as i64)
    }

    fn clock(&mut self, hours: &str) -> Result<(), Fault> {
        if self.parsed.micros.is_some() {
            return Err(Fault::Syntax);
        }
        let h: i64 = hours.parse().map_err(|_| Fault::Range(false))?;
        self.at += 1;
        let m = self.take_while(|b| b.is_ascii_digit());
        let m: i64 = m.parse().map_err(|_| Fault::Syntax)?;
        let (h, m, s) = match self.peek() {
            Some(b':') => {
                self.at += 1;
                (h, m, self.take_while(|b| b.is_ascii_digit()).parse().map_err(|_| Fault::Syntax)?)
            }
            // Only a second has a fraction: they are minutes and seconds.
            Some(b'.') => (0, h, m),
            _ => (h, m, 0),
        };
        let fraction = self.fraction()?;
        self.set_time(h, m, s, fraction)
    }

    fn set_time(&mut self, h: i64, m: i64, s: i64, fraction: i64) -> Result<(), Fault> {
        if h > 24 || m > 59 || s > 60 {
            return Err(Fault::Range(false));
        }
        let micros = h * HOUR_MICROS + m * MINUTE_MICROS + s * SECOND_MICROS + fraction;
        // The end of the day is one of its times.
        if micros > DAY_MICROS {
            return Err(Fault::Range(false));
        }
        self.parsed.micros = Some(micros);
        self.after_t = false;
        Ok(())
    }

    fn separated_date(&mut self, first: &str, sep: u8) -> Result<(), Fault> {
        self.at += 1;
        let second = self.take_while(|b| b.is_ascii_alphanumeric());
        let third = if self.peek() == Some(sep) {
            self.at += 1;
            self.take_while(|b| b.is_ascii_digit())
        } else {
            ""
        };
        if second.is_empty() {
            return Err(Fault::Syntax);
        }
        if second.bytes().all(|b| b.is_ascii_alphabetic()) {
            let month = month_by_name(&second.to_ascii_lowercase()).ok_or(Fault::Syntax)?;
            let (year, day) =
                if self.is_year_first(first.len(), third.len()) { (first, third) } else { (third, first) };
            return self.set_date(year, i64::from(month), day.parse().map_err(|_| Fault::Syntax)?);
        }
        if !second.bytes().all(|b| b.is_ascii_digit()) {
            return Err(Fault::Syntax);
        }
        let number = |s: &str| s.parse::<i64>().map_err(|_| Fault::Syntax);
        if third.is_empty() {
            // 1999.123 or 1999-123: the day of the year.
            if second.len() == 3 && first.len() >= 4 {
                let year = i32::try_from(number(first)?).map_err(|_| Fault::Range(false))?;
                let day = days_from_civil(year, 1, 1) + number(second)? - 1;
                let (y, m, d) = super::civil_from_days(day);
                self.parsed.date = Some((y, m, d));
                return Ok(());
            }
            return Err(Fault::Syntax);
        }
        if first.len() > 2 {
            return self.set_date(first, number(second)?, number(third)?);
        }
        match self.order {
            DateOrder::Ymd => self.set_date(first, number(second)?, number(third)?),
            DateOrder::Mdy => self.set_date(third, number(first)?, number(second)?),
            DateOrder::Dmy => self.set_date(third, number(second)?, number(first)?),
        }
    }

    /// Of the numbers beside a month's name, which have so many digits.
    fn is_year_first(&self, first: usize, second: usize) -> bool {
        first > 2 || self.order == DateOrder::Ymd && second <= 2
    }

    fn set_date(&mut self, year: &str, month: i64, day: i64) -> Result<(), Fault> {
        let value: i32 =
            year.parse().map_err(|_| if year.is_empty() { Fault::Syntax } else { Fault::Range(false) })?;
        let year = if year.len() <= 2 {
            self.short_year = Some(value);
            value + if value < 70 { 2000 } else { 1900 }
        } else {
            value
        };
        if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
            return Err(Fault::Range(true));
        }
        self.parsed.date = Some((year, month as u32, day as u32));
        Ok(())
    }

    fn sign(&mut self) -> Result<(), Fault> {
        let start = self.at;
        self.at += 1;
        if self.peek().is_some_and(|b| b.is_ascii_alphabetic()) && self.parsed.date.is_none() {
            let negative = self.text.as_bytes()[start] == b'-';
            let word = self.take_while(|b| b.is_ascii_alphabetic()).to_ascii_lowercase();
            if word != "infinity" && word != "inf" {
                return Err(Fault::Syntax);
            }
            self.parsed.special = Some(if negative { Special::NegInfinity } else { Special::Infinity });
            return Ok(());
        }
        self.take_while(|b| b.is_ascii_digit() || b == b':');
        let text = &self.text[start..self.at];
        let seconds = zone::parse_offset(text).ok_or(Fault::Syntax)?;
        // An ISO offset after a POSIX-like name (`UTC+3`) is not combined here: names are read whole by `word`.
        self.parsed.zone = zone::fixed(seconds);
        Ok(())
    }

    fn word(&mut self) -> Result<(), Fault> {
        let start = self.at;
        let letters = self.take_while(|b| b.is_ascii_alphabetic());
        let word = letters.to_ascii_lowercase();
        if let Some(month) = month_by_name(&word) {
            if self.month.is_some() {
                return Err(Fault::Syntax);
            }
            self.month = Some(month);
            // Jan-08-1999, 08-Jan-1999 in separate tokens
            if matches!(self.peek(), Some(b'-' | b'/' | b'.')) {
                self.at += 1;
                let day = self.take_while(|b| b.is_ascii_digit());
                self.numbers.push((day.parse().map_err(|_| Fault::Syntax)?, day.len()));
                if matches!(self.peek(), Some(b'-' | b'/' | b'.')) {
                    self.at += 1;
                    let year = self.take_while(|b| b.is_ascii_digit());
                    self.numbers.push((year.parse().map_err(|_| Fault::Syntax)?, year.len()));
                }
            }
            return Ok(());
        }
        if is_weekday(&word) {
            return Ok(());
        }
        match word.as_str() {
            "t" => self.after_t = true,
            "am" => self.pm = Some(false),
            "pm" => self.pm = Some(true),
            "bc" => self.bc = true,
            "ad" | "at" | "on" => {}
            "st" | "nd" | "rd" | "th" if !self.numbers.is_empty() => {}
            "now" => self.parsed.special = Some(Special::Now),
            "today" => self.parsed.special = Some(Special::Day(0)),
            "tomorrow" => self.parsed.special = Some(Special::Day(1)),
            "yesterday" => self.parsed.special = Some(Special::Day(-1)),
            "epoch" => self.parsed.special = Some(Special::Epoch),
            "infinity" | "inf" => self.parsed.special = Some(Special::Infinity),
            "allballs" => {
                self.parsed.micros = Some(0);
                self.parsed.zone = Some(TimeZone::UTC);
            }
            _ => {
                let has_time = self.parsed.micros.is_some();
                if let Some(seconds) = zone::abbreviation(&word)
                    && !matches!(self.peek(), Some(b'/' | b'_'))
                {
                    if matches!(self.peek(), Some(b'+' | b'-')) {
                        self.take_while(|b| b.is_ascii_digit() || matches!(b, b'+' | b'-' | b':'));
                        let whole = &self.text[start..self.at];
                        self.parsed.zone =
                            Some(zone::parse_zone(whole).map_err(|_| Fault::Zone(whole.to_owned()))?);
                    } else {
                        self.parsed.zone = zone::fixed(seconds);
                    }
                    return Ok(());
                }
                self.take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'/' | b'_' | b'+' | b'-'));
                let whole = &self.text[start..self.at];
                match zone::parse_zone(whole) {
                    Ok(found) => self.parsed.zone = Some(found),
                    Err(_) if whole.contains('/') || has_time && whole.len() > 4 => {
                        return Err(Fault::Zone(whole.to_owned()));
                    }
                    Err(_) => return Err(Fault::Syntax),
                }
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Parsed, Fault> {
        if let Some(month) = self.month {
            if self.parsed.date.is_some() {
                return Err(Fault::Syntax);
            }
            let (day, year) = match self.numbers[..] {
                [year, (day, digits)] if self.is_year_first(year.1, digits) => (day, year),
                [(day, _), year] => (day, year),
                _ => return Err(Fault::Syntax),
            };
            // Beyond four digits it matters no more how many there are.
            let year_text = format!("{:0width$}", year.0, width = year.1.min(4));
            self.set_date(&year_text, i64::from(month), day)?;
        } else if !self.numbers.is_empty() {
            match (&self.numbers[..], self.pm) {
                // 3 pm
                ([(hour, digits)], Some(_)) if *digits <= 2 && self.parsed.micros.is_none() => {
                    let hour = *hour;
                    self.set_time(hour, 0, 0, 0)?;
                }
                _ => return Err(Fault::Syntax),
            }
        }
        if let Some(pm) = self.pm {
            let micros = self.parsed.micros.as_mut().ok_or(Fault::Syntax)?;
            if *micros >= 13 * HOUR_MICROS {
                return Err(Fault::Range(false));
            }
            match (pm, *micros >= 12 * HOUR_MICROS) {
                (true, false) => *micros += 12 * HOUR_MICROS,
                (false, true) => *micros -= 12 * HOUR_MICROS,
                _ => {}
            }
        }
        if let Some((year, month, day)) = &mut self.parsed.date {
            if self.bc {
                // Years before Christ are not short for others.
                *year = self.short_year.unwrap_or(*year);
                if *year <= 0 {
                    return Err(Fault::Range(false));
                }
                *year = 1 - *year;
            } else if *year == 0 {
                return Err(Fault::Range(false));
            }
            if !(1..=12).contains(month) || *day < 1 || *day > 31 {
                return Err(Fault::Range(true));
            }
            if *day > days_in_month(*year, *month) {
                return Err(Fault::Range(false));
            }
        }
        Ok(self.parsed)
    }
}

/// The fast path of `YYYY-MM-DD[ HH:MM:SS[.ffffff]]`: the local timestamp.
fn parse_iso(text: &str) -> Option<Civil> {
    let b = text.as_bytes();
    if b.len() < 10 || b[4] != b'-' || b[7] != b'-' {
        return None;
    }
    let two = |i: usize| -> Option<u32> {
        let (h, l) = (b[i].wrapping_sub(b'0'), b[i + 1].wrapping_sub(b'0'));
        (h < 10 && l < 10).then(|| u32::from(h) * 10 + u32::from(l))
    };
    let year = (two(0)? * 100 + two(2)?) as i32;
    let (month, day) = (two(5)?, two(8)?);
    if year == 0 || !(1..=12).contains(&month) || day == 0 || day > days_in_month(year, month) {
        return None;
    }
    let mut micros = 0;
    if b.len() > 10 {
        if b.len() < 19 || !matches!(b[10], b' ' | b'T') || b[13] != b':' || b[16] != b':' {
            return None;
        }
        let (h, m, s) = (two(11)?, two(14)?, two(17)?);
        if h > 23 || m > 59 || s > 59 {
            return None;
        }
        micros = i64::from(h * 3600 + m * 60 + s) * SECOND_MICROS;
        if b.len() > 19 {
            if b[19] != b'.' || b.len() > 26 || b.len() == 20 {
                return None;
            }
            let mut fraction = 0;
            for i in 20..26 {
                let d = b.get(i).map_or(0, |b| b.wrapping_sub(b'0'));
                if d > 9 {
                    return None;
                }
                fraction = fraction * 10 + i64::from(d);
            }
            micros += fraction;
        }
    }
    Some(Civil { year, month, day, micros })
}

fn parse(text: &str, ctx: &FormatContext, ty: &str) -> SqlResult<Parsed> {
    Parser::new(text, ctx.date_order).run().map_err(|fault| fault.into_sql(text, ty))
}

/// The local timestamp of a parsed text, without regard to its zone.
fn local(parsed: &Parsed, text: &str, ctx: &FormatContext, ty: &str) -> SqlResult<i64> {
    let syntax = || Fault::Syntax.into_sql(text, ty);
    let today = || zone::to_local(&ctx.time_zone, ctx.now).div_euclid(DAY_MICROS);
    match parsed.special {
        Some(Special::Infinity) => return Ok(i64::MAX),
        Some(Special::NegInfinity) => return Ok(i64::MIN),
        Some(Special::Now) => return Ok(zone::to_local(&ctx.time_zone, ctx.now)),
        Some(Special::Epoch) => return Ok(days_from_civil(1970, 1, 1) * DAY_MICROS),
        Some(Special::Day(offset)) => return Ok((today() + offset) * DAY_MICROS + parsed.micros.unwrap_or(0)),
        None => {}
    }
    let (year, month, day) = parsed.date.ok_or_else(syntax)?;
    Civil { year, month, day, micros: parsed.micros.unwrap_or(0) }.to_timestamp().ok_or_else(|| {
        SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, format!("timestamp out of range: \"{text}\""))
    })
}

/// Reads a timestamp without time zone; a zone in the text is ignored. Errors: 22007, 22008, 22023.
pub fn parse_timestamp(text: &str, ctx: &FormatContext) -> SqlResult<i64> {
    if let Some(timestamp) = parse_iso(text).and_then(Civil::to_timestamp) {
        return Ok(timestamp);
    }
    let parsed = parse(text, ctx, "timestamp")?;
    local(&parsed, text, ctx, "timestamp")
}

/// Reads an instant; a text without zone is in the session's. Errors: 22007, 22008, 22023.
pub fn parse_timestamptz(text: &str, ctx: &FormatContext) -> SqlResult<i64> {
    const TYPE: &str = "timestamp with time zone";
    let out_of_range =
        || SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, format!("timestamp out of range: \"{text}\""));
    if let Some(timestamp) = parse_iso(text).and_then(Civil::to_timestamp) {
        return zone::to_instant(&ctx.time_zone, timestamp).ok_or_else(out_of_range);
    }
    let parsed = parse(text, ctx, TYPE)?;
    match parsed.special {
        Some(Special::Now) => return Ok(ctx.now),
        Some(Special::Epoch) => return Ok(days_from_civil(1970, 1, 1) * DAY_MICROS),
        _ => {}
    }
    let timestamp = local(&parsed, text, ctx, TYPE)?;
    zone::to_instant(parsed.zone.as_ref().unwrap_or(&ctx.time_zone), timestamp).ok_or_else(out_of_range)
}

/// Reads a date; a time in the text is ignored. Errors: 22007, 22008.
pub fn parse_date(text: &str, ctx: &FormatContext) -> SqlResult<i32> {
    if let Some(civil) = parse_iso(text) {
        return Ok(days_from_civil(civil.year, civil.month, civil.day) as i32);
    }
    let parsed = parse(text, ctx, "date")?;
    match parsed.special {
        Some(Special::Infinity) => return Ok(i32::MAX),
        Some(Special::NegInfinity) => return Ok(i32::MIN),
        _ => {}
    }
    let days = match parsed.date {
        Some((year, month, day)) => days_from_civil(year, month, day),
        None => local(&parsed, text, ctx, "date")?.div_euclid(DAY_MICROS),
    };
    super::check_date(days).map_err(|_| {
        SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, format!("date out of range: \"{text}\""))
    })
}

/// Reads a time of day; a date and zone in the text are ignored. Errors: 22007, 22008.
pub fn parse_time(text: &str, ctx: &FormatContext) -> SqlResult<i64> {
    let mut parser = Parser::new(text, ctx.date_order);
    parser.after_t = !text.contains([':', '-', '/']);
    let parsed = parser.run().map_err(|fault| fault.into_sql(text, "time"))?;
    match (parsed.micros, parsed.special) {
        (Some(micros), _) => Ok(micros),
        (None, Some(Special::Now)) => Ok(zone::to_local(&ctx.time_zone, ctx.now).rem_euclid(DAY_MICROS)),
        _ => Err(Fault::Syntax.into_sql(text, "time")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datetime::{write_date, write_timestamp, write_timestamptz};

    fn show(f: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        f(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn many_forms_of_a_date_are_one() {
        let ctx = FormatContext::default();
        for text in [
            "1999-01-08",
            "January 8, 1999",
            "1/8/1999",
            "1999-Jan-08",
            "Jan-08-1999",
            "08-Jan-1999",
            "19990108",
            "990108",
            "1999.008",
            "8 Jan 1999",
            "Fri Jan 8 1999",
        ] {
            assert_eq!(
                show(|out| write_date(parse_date(text, &ctx).unwrap(), &ctx, out)),
                "1999-01-08",
                "{text}"
            );
        }
        let zeros = "0".repeat(100_000);
        assert_eq!(
            parse_date(&format!("Jan 8 {zeros}1999"), &ctx).unwrap(),
            parse_date("1999-01-08", &ctx).unwrap()
        );
        for bad in ["1999-13-01", "1999-02-29", "abc", "", "1999", "2020-01-01x", "4294969295.123"] {
            assert!(parse_date(bad, &ctx).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_short_year_before_a_months_name_is_one_where_years_come_first() {
        let ymd = FormatContext { date_order: DateOrder::Ymd, ..FormatContext::default() };
        let dmy = FormatContext { date_order: DateOrder::Dmy, ..FormatContext::default() };
        for (text, ctx, date) in [
            ("99-Jan-08", &ymd, "1999-01-08"),
            ("08-Jan-07", &ymd, "2008-01-07"),
            ("99 Jan 08", &ymd, "1999-01-08"),
            ("08-Jan-1999", &ymd, "1999-01-08"),
            ("8 Jan 1999", &ymd, "1999-01-08"),
            ("1999-Jan-08", &ymd, "1999-01-08"),
            ("08-Jan-07", &dmy, "2007-01-08"),
        ] {
            let found = parse_date(text, ctx).ok();
            assert_eq!(found, parse_date(date, &FormatContext::default()).ok(), "{text}");
        }
        assert!(parse_date("Jan 8 99", &ymd).is_err());
    }

    #[test]
    fn a_fraction_is_of_the_second() {
        let ctx = FormatContext::default();
        for (text, time) in [
            ("12:30.5", "00:12:30.5"),
            ("12:30", "12:30:00"),
            ("01:12:30.5", "01:12:30.5"),
            ("12:00:60.5", "12:01:00.5"),
            ("23:59:60", "24:00:00"),
        ] {
            let found = parse_time(text, &ctx).unwrap();
            assert_eq!(show(|out| crate::datetime::write_time(found, out)), time, "{text}");
        }
        assert_eq!(
            parse_timestamp("2020-01-01 12:30.5", &ctx).unwrap(),
            parse_timestamp("2020-01-01 00:12:30.5", &ctx).unwrap()
        );
        for bad in ["60:30.5", "23:59:60.01", "24:00:00.5", "24:01", "25:00", "12:60"] {
            assert!(parse_time(bad, &ctx).is_err(), "{bad}");
        }
    }

    #[test]
    fn instants_respect_zones() {
        let mut ctx = FormatContext::default();
        let show_tz = |text: &str, ctx: &FormatContext| {
            show(|out| write_timestamptz(parse_timestamptz(text, ctx).unwrap(), ctx, out))
        };
        assert_eq!(show_tz("2020-06-01 12:00:00+02", &ctx), "2020-06-01 10:00:00+00");
        assert_eq!(show_tz("2020-06-01T12:00:00Z", &ctx), "2020-06-01 12:00:00+00");
        assert_eq!(show_tz("2020-06-01 12:00:00 America/New_York", &ctx), "2020-06-01 16:00:00+00");
        ctx.time_zone = zone::parse_zone("America/New_York").unwrap();
        assert_eq!(show_tz("2020-06-01 12:00:00.5", &ctx), "2020-06-01 12:00:00.5-04");
        assert_eq!(show_tz("2020-12-01 12:00:00 UTC", &ctx), "2020-12-01 07:00:00-05");
        let ts = parse_timestamp("2020-01-02 3:04 PM", &ctx).unwrap();
        assert_eq!(show(|out| write_timestamp(ts, &ctx, out)), "2020-01-02 15:04:00");
    }
}
