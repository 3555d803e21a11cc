//! Dates and times as text by a template: to_char. [`time_parse`](super::time_parse) goes the other way.

use base::{SqlError, SqlState};
use types::Datum;
use types::datetime::{Civil, HOUR_MICROS, MINUTE_MICROS, SECOND_MICROS, zone};

use super::time_template::{Affixes, DAYS, MONTHS, Node, ROMAN_MONTHS, iso_parts, julian, nodes, nodes_len};
use super::*;

pub(super) static FUNCTIONS: &[FunctionDef] = &[
    FunctionDef::new("to_char", &[TIMESTAMP, TEXT], TEXT, to_char).stable(),
    FunctionDef::new("to_char", &[TIMESTAMPTZ, TEXT], TEXT, to_char).stable(),
    FunctionDef::new("to_char", &[INTERVAL, TEXT], TEXT, to_char).stable(),
];

/// A moment or a span, in the parts that a template can show. Those of a span have its sign.
struct Parts {
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
    micros: i64,
    day_of_year: i64,
    /// From Sunday, 0.
    weekday: i64,
    /// Seconds east of Greenwich, and the zone's name.
    zone: Option<(i32, String)>,
    span: bool,
}

impl Parts {
    fn of_moment(local: i64, zone: Option<(i32, String)>) -> Parts {
        let civil = Civil::from_timestamp(local);
        let (year, month, day) = (i64::from(civil.year), i64::from(civil.month), i64::from(civil.day));
        let julian_day = julian(year, month, day);
        Parts {
            year,
            month,
            day,
            hour: civil.micros / HOUR_MICROS,
            minute: civil.micros / MINUTE_MICROS % 60,
            second: civil.micros / SECOND_MICROS % 60,
            micros: civil.micros % SECOND_MICROS,
            day_of_year: julian_day - julian(year, 1, 1) + 1,
            weekday: (julian_day + 1).rem_euclid(7),
            zone,
            span: false,
        }
    }

    fn of_span(span: &types::Interval) -> Parts {
        let (months, day) = (i64::from(span.months), i64::from(span.days));
        Parts {
            year: months / 12,
            month: months % 12,
            day,
            hour: span.micros / HOUR_MICROS,
            minute: span.micros / MINUTE_MICROS % 60,
            second: span.micros / SECOND_MICROS % 60,
            micros: span.micros % SECOND_MICROS,
            day_of_year: months * 30 + day,
            weekday: 0,
            zone: None,
            span: true,
        }
    }

    /// A year as people count it, without the year 0.
    fn shown_year(&self, year: i64) -> i64 {
        if self.span || year > 0 { year } else { 1 - year }
    }
}

pub(super) fn to_char(args: &[Datum], ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let template = text(&args[1])?;
    let parts = match &args[0] {
        Datum::Timestamp(i64::MAX | i64::MIN) | Datum::TimestampTz(i64::MAX | i64::MIN) => {
            return Ok(Datum::Null);
        }
        Datum::Timestamp(t) => Parts::of_moment(*t, None),
        Datum::TimestampTz(t) => {
            let tz = &ctx.stmt.format.time_zone;
            let zone = (zone::offset_at(tz, *t), zone::abbreviation_at(tz, *t));
            Parts::of_moment(zone::to_local(tz, *t), Some(zone))
        }
        Datum::Interval(span) => Parts::of_span(span),
        d => return Err(wrong("a date or time", d)),
    };
    if template.is_empty() {
        return Ok(Datum::Null);
    }
    ctx.room(nodes_len(template).saturating_add(template.len().saturating_mul(12)))?;
    let mut out = String::new();
    for node in nodes(template) {
        match node {
            Node::Key(key, affixes) => show(&parts, key.name, affixes, &mut out)?,
            Node::Space(c) | Node::Separator(c) | Node::Char(c) => out.push(c),
        }
    }
    Ok(Datum::text(out))
}

/// `word` in the case that `pattern` is written in.
fn cased(word: &str, pattern: &str) -> String {
    match () {
        () if !pattern.contains(|c: char| c.is_ascii_lowercase()) => word.to_uppercase(),
        () if !pattern.contains(|c: char| c.is_ascii_uppercase()) => word.to_lowercase(),
        () => word.to_owned(),
    }
}

/// `st`, `nd`, `rd` or `th` for a number's digits.
fn ordinal(digits: &str) -> &'static str {
    let teen = digits.len() > 1 && digits.as_bytes()[digits.len() - 2] == b'1';
    match digits.as_bytes().last() {
        Some(b'1') if !teen => "st",
        Some(b'2') if !teen => "nd",
        Some(b'3') if !teen => "rd",
        _ => "th",
    }
}

fn show(parts: &Parts, name: &'static str, affixes: Affixes, out: &mut String) -> EvalResult<()> {
    let upper = name.to_ascii_uppercase();
    let dated =
        ["A.D.", "B.C.", "AD", "BC", "MONTH", "MON", "DAY", "DY", "D", "ID", "TZ", "TZH", "TZM", "OF"];
    if parts.span && dated.contains(&upper.as_str()) {
        return Err(SqlError::new(
            SqlState::INVALID_DATETIME_FORMAT,
            "invalid format specification for an interval value",
        )
        .with_hint("Intervals are not tied to specific calendar dates.")
        .into());
    }
    let word = |word: &str, width: usize, out: &mut String| {
        let width = if affixes.fill || affixes.translated { 0 } else { width };
        out.push_str(&format!("{:width$}", cased(word, name)));
    };
    match upper.as_str() {
        "A.M." | "P.M." => {
            out.push_str(&cased(if parts.hour % 24 >= 12 { "p.m." } else { "a.m." }, name));
            return Ok(());
        }
        "AM" | "PM" => {
            out.push_str(&cased(if parts.hour % 24 >= 12 { "pm" } else { "am" }, name));
            return Ok(());
        }
        "A.D." | "B.C." => {
            out.push_str(&cased(if parts.year <= 0 { "b.c." } else { "a.d." }, name));
            return Ok(());
        }
        "AD" | "BC" => {
            out.push_str(&cased(if parts.year <= 0 { "bc" } else { "ad" }, name));
            return Ok(());
        }
        "MONTH" => {
            word(MONTHS[parts.month as usize - 1], 9, out);
            return Ok(());
        }
        "MON" => {
            word(&MONTHS[parts.month as usize - 1][..3], 0, out);
            return Ok(());
        }
        "DAY" => {
            word(DAYS[parts.weekday as usize], 9, out);
            return Ok(());
        }
        "DY" => {
            word(&DAYS[parts.weekday as usize][..3], 0, out);
            return Ok(());
        }
        "TZ" => {
            let zone = parts.zone.as_ref().map_or("", |(_, zone)| zone);
            out.push_str(&if name == "tz" { zone.to_lowercase() } else { zone.to_owned() });
            return Ok(());
        }
        "TZH" | "TZM" | "OF" => {
            let offset = parts.zone.as_ref().map_or(0, |(offset, _)| *offset);
            let (hours, minutes) = (offset.abs() / 3600, offset.abs() % 3600 / 60);
            let sign = if offset >= 0 { '+' } else { '-' };
            match upper.as_str() {
                "TZH" => out.push_str(&format!("{sign}{hours:02}")),
                "TZM" => out.push_str(&format!("{minutes:02}")),
                _ => {
                    let width = if affixes.fill { 0 } else { 2 };
                    out.push_str(&format!("{sign}{hours:0width$}"));
                    if offset % 3600 != 0 {
                        out.push_str(&format!(":{minutes:02}"));
                    }
                }
            }
            return Ok(());
        }
        "RM" => {
            // A span of whole years has a month too; months of the past count back from December.
            let place = match parts.month {
                0 if parts.year == 0 => return Ok(()),
                0 => {
                    if parts.year >= 0 {
                        0
                    } else {
                        11
                    }
                }
                month if month < 0 => -(month + 1),
                month => 12 - month,
            };
            // No other words are for these: they are padded whether translated or not.
            let width = if affixes.fill { 0 } else { 4 };
            out.push_str(&format!("{:width$}", cased(ROMAN_MONTHS[place as usize], name)));
            return Ok(());
        }
        "FX" => return Ok(()),
        "Y,YYY" => {
            let year = parts.shown_year(parts.year);
            let shown = format!("{},{:03}", year / 1000, year % 1000);
            out.push_str(&shown);
            with_ordinal(&shown, affixes, out);
            return Ok(());
        }
        "Q" if parts.month == 0 => return Ok(()),
        _ => {}
    }
    let julian_day = julian(parts.year, parts.month, parts.day);
    let iso = || iso_parts(julian_day, parts.year);
    let year = parts.shown_year(parts.year);
    let iso_year = || parts.shown_year(iso().0);
    // A sign takes a place of its own, as C's `%0*d` counts it.
    let signed = |value: i64, width: usize| (value, if value < 0 { width + 1 } else { width });
    // The year's sign decides, also where its last digits are shown.
    let of_year = |value: i64, width: usize| (value, if year < 0 { width + 1 } else { width });
    let (value, width) = match upper.as_str() {
        "HH" | "HH12" => {
            let hour = if parts.hour % 12 == 0 { 12 } else { parts.hour % 12 };
            (hour, if parts.hour >= 0 { 2 } else { 3 })
        }
        "HH24" => signed(parts.hour, 2),
        "MI" => signed(parts.minute, 2),
        "SS" => signed(parts.second, 2),
        "FF1" => (parts.micros / 100_000, 1),
        "FF2" => (parts.micros / 10_000, 2),
        "FF3" | "MS" => (parts.micros / 1000, 3),
        "FF4" => (parts.micros / 100, 4),
        "FF5" => (parts.micros / 10, 5),
        "FF6" | "US" => (parts.micros, 6),
        "SSSS" | "SSSSS" => (parts.hour * 3600 + parts.minute * 60 + parts.second, 0),
        "MM" => signed(parts.month, 2),
        "DDD" => (parts.day_of_year, 3),
        "IDDD" => (iso().2, 3),
        "DD" => (parts.day, 2),
        "D" => (parts.weekday + 1, 0),
        "ID" => (if parts.weekday == 0 { 7 } else { parts.weekday }, 0),
        "WW" => ((parts.day_of_year - 1) / 7 + 1, 2),
        "IW" => (iso().1, 2),
        "Q" => ((parts.month - 1) / 3 + 1, 0),
        "CC" => signed(
            match () {
                () if parts.span => parts.year / 100,
                () if parts.year > 0 => (parts.year - 1) / 100 + 1,
                () => parts.year / 100 - 1,
            },
            2,
        ),
        "YYYY" => of_year(year, 4),
        "IYYY" => of_year(iso_year(), 4),
        "YYY" => of_year(year % 1000, 3),
        "IYY" => of_year(iso_year() % 1000, 3),
        "YY" => of_year(year % 100, 2),
        "IY" => of_year(iso_year() % 100, 2),
        "Y" => (year % 10, 0),
        "I" => (iso_year() % 10, 0),
        "W" => ((parts.day - 1) / 7 + 1, 0),
        "J" => (julian_day, 0),
        _ => return Err(SqlError::internal(format!("no such pattern: {name}")).into()),
    };
    // Fractions keep their zeros.
    let keeps = matches!(upper.as_str(), "MS" | "US") || upper.starts_with("FF");
    let width = if affixes.fill && !keeps { 0 } else { width };
    let shown = format!("{value:0width$}");
    out.push_str(&shown);
    with_ordinal(&shown, affixes, out);
    Ok(())
}

fn with_ordinal(shown: &str, affixes: Affixes, out: &mut String) {
    if let Some(capital) = affixes.ordinal {
        let suffix = ordinal(shown);
        out.push_str(&if capital { suffix.to_uppercase() } else { suffix.to_owned() });
    }
}
