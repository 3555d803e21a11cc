//! Output of dates and times in the styles of the setting `DateStyle`.

use jiff::tz::TimeZone;

use super::{Civil, HOUR_MICROS, MINUTE_MICROS, SECOND_MICROS, zone};
use crate::{DateFormat, DateOrder, FormatContext};

/// Appends `v` with at least `width` digits.
pub(crate) fn push_padded(v: u64, width: usize, out: &mut Vec<u8>) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    let mut rest = v;
    while rest > 0 || digits.len() - at < width {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    out.extend_from_slice(&digits[at..]);
}

/// Appends the point and the fraction of a second without trailing zeros, if there is one.
pub(crate) fn push_fraction(micros: i64, out: &mut Vec<u8>) {
    let mut fraction = micros.unsigned_abs() % 1_000_000;
    if fraction == 0 {
        return;
    }
    let mut width = 6;
    while fraction.is_multiple_of(10) {
        fraction /= 10;
        width -= 1;
    }
    out.push(b'.');
    push_padded(fraction, width, out);
}

fn push_date(civil: &Civil, ctx: &FormatContext, out: &mut Vec<u8>) {
    let year = if civil.year > 0 { civil.year } else { 1 - civil.year } as u64;
    let (month, day) = (u64::from(civil.month), u64::from(civil.day));
    let three = |a: u64, aw, sep: u8, b: u64, bw, c: u64, cw, out: &mut Vec<u8>| {
        push_padded(a, aw, out);
        out.push(sep);
        push_padded(b, bw, out);
        out.push(sep);
        push_padded(c, cw, out);
    };
    match (ctx.date_format, ctx.date_order) {
        (DateFormat::Iso, _) | (DateFormat::Postgres | DateFormat::Sql, DateOrder::Ymd) => {
            three(year, 4, b'-', month, 2, day, 2, out);
        }
        (DateFormat::German, _) => three(day, 2, b'.', month, 2, year, 4, out),
        (DateFormat::Sql, DateOrder::Dmy) => three(day, 2, b'/', month, 2, year, 4, out),
        (DateFormat::Sql, _) => three(month, 2, b'/', day, 2, year, 4, out),
        (DateFormat::Postgres, DateOrder::Dmy) => three(day, 2, b'-', month, 2, year, 4, out),
        (DateFormat::Postgres, _) => three(month, 2, b'-', day, 2, year, 4, out),
    }
}

/// Appends a date (days since 2000-01-01).
pub fn write_date(days: i32, ctx: &FormatContext, out: &mut Vec<u8>) {
    if infinite(days == i32::MAX, days == i32::MIN, out) {
        return;
    }
    let (year, month, day) = super::civil_from_days(i64::from(days));
    push_date(&Civil { year, month, day, micros: 0 }, ctx, out);
    if year <= 0 {
        out.extend_from_slice(b" BC");
    }
}

fn infinite(positive: bool, negative: bool, out: &mut Vec<u8>) -> bool {
    if positive {
        out.extend_from_slice(b"infinity");
    } else if negative {
        out.extend_from_slice(b"-infinity");
    }
    positive || negative
}

/// Appends a time of day (microseconds since midnight).
pub fn write_time(micros: i64, out: &mut Vec<u8>) {
    push_padded((micros / HOUR_MICROS) as u64, 2, out);
    out.push(b':');
    push_padded((micros / MINUTE_MICROS % 60) as u64, 2, out);
    out.push(b':');
    push_padded((micros / SECOND_MICROS % 60) as u64, 2, out);
    push_fraction(micros, out);
}

fn write_civil(civil: &Civil, zone: Option<(&TimeZone, i64)>, ctx: &FormatContext, out: &mut Vec<u8>) {
    if ctx.date_format == DateFormat::Postgres {
        const DAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
        const MONTHS: [&str; 12] =
            ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
        let days = super::days_from_civil(civil.year, civil.month, civil.day);
        // 2000-01-01 was a Saturday.
        out.extend_from_slice(DAYS[(days + 6).rem_euclid(7) as usize].as_bytes());
        let month = MONTHS[civil.month as usize - 1];
        let date = if ctx.date_order == DateOrder::Dmy {
            format!(" {:02} {month} ", civil.day)
        } else {
            format!(" {month} {:02} ", civil.day)
        };
        out.extend_from_slice(date.as_bytes());
        write_time(civil.micros, out);
        out.push(b' ');
        push_padded(if civil.year > 0 { civil.year } else { 1 - civil.year } as u64, 4, out);
    } else {
        push_date(civil, ctx, out);
        out.push(b' ');
        write_time(civil.micros, out);
    }
    if let Some((tz, instant)) = zone {
        if ctx.date_format == DateFormat::Iso {
            write_offset(zone::offset_at(tz, instant), out);
        } else {
            out.push(b' ');
            out.extend_from_slice(zone::abbreviation_at(tz, instant).as_bytes());
        }
    }
    if civil.year <= 0 {
        out.extend_from_slice(b" BC");
    }
}

/// Appends `+02`, `-05:30` or `+05:30:15`.
pub(crate) fn write_offset(seconds: i32, out: &mut Vec<u8>) {
    out.push(if seconds < 0 { b'-' } else { b'+' });
    let seconds = u64::from(seconds.unsigned_abs());
    push_padded(seconds / 3600, 2, out);
    if seconds % 3600 != 0 {
        out.push(b':');
        push_padded(seconds / 60 % 60, 2, out);
        if seconds % 60 != 0 {
            out.push(b':');
            push_padded(seconds % 60, 2, out);
        }
    }
}

/// Appends a timestamp without time zone.
pub fn write_timestamp(timestamp: i64, ctx: &FormatContext, out: &mut Vec<u8>) {
    if !infinite(timestamp == i64::MAX, timestamp == i64::MIN, out) {
        write_civil(&Civil::from_timestamp(timestamp), None, ctx, out);
    }
}

/// Appends an instant in the session's time zone.
pub fn write_timestamptz(instant: i64, ctx: &FormatContext, out: &mut Vec<u8>) {
    if !infinite(instant == i64::MAX, instant == i64::MIN, out) {
        let local = zone::to_local(&ctx.time_zone, instant);
        write_civil(&Civil::from_timestamp(local), Some((&ctx.time_zone, instant)), ctx, out);
    }
}
