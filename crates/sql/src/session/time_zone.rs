//! The values of the setting `TimeZone`: names, hours east of UTC, intervals, and offsets as POSIX writes them, which count to the west.

use jiff::tz::{Offset, TimeZone};
use types::{Datum, FormatContext, PgType, TypeMod};

/// The form that a value is kept in and shown; `None` for one that names no zone.
pub(super) fn canonical(value: &str) -> Option<String> {
    if let Some(seconds) = east_of_utc(value) {
        offset(seconds)?;
        return Some(posix_text(seconds));
    }
    let zone = named(value).or_else(|| posix(value))?;
    Some(zone.iana_name().map_or_else(|| shown_name(value), str::to_owned))
}

/// The zone of a value that [`canonical`] made.
pub(super) fn parse(value: &str) -> Option<TimeZone> {
    named(value).or_else(|| posix(value))
}

/// Zones that are UTC have names of their own.
fn shown_name(value: &str) -> String {
    let known = ["UTC", "Etc/UTC", "GMT"].into_iter().find(|name| name.eq_ignore_ascii_case(value));
    known.map_or_else(|| value.to_owned(), str::to_owned)
}

fn named(value: &str) -> Option<TimeZone> {
    if ["utc", "etc/utc", "gmt"].iter().any(|name| value.eq_ignore_ascii_case(name)) {
        return Some(TimeZone::UTC);
    }
    TimeZone::get(value).ok()
}

fn offset(seconds: i64) -> Option<TimeZone> {
    Offset::from_seconds(i32::try_from(seconds).ok()?).ok().map(TimeZone::fixed)
}

/// Seconds of a number of hours, or of `INTERVAL 'text'`.
fn east_of_utc(value: &str) -> Option<i64> {
    if let Some((word, rest)) = value.split_at_checked("interval".len())
        && word.eq_ignore_ascii_case("interval")
    {
        let text = rest.trim().strip_prefix('\'')?.strip_suffix('\'')?;
        let read = types::parse_text(text, PgType::Interval, TypeMod::NONE, &FormatContext::default());
        return match read {
            Ok(Datum::Interval(interval)) if interval.months == 0 && interval.days == 0 => {
                Some(interval.micros / 1_000_000)
            }
            _ => None,
        };
    }
    let hours: f64 = value.trim().parse().ok()?;
    // Far beyond any zone's, and what is no number is not less either.
    if !(hours.abs() < 1_000.0) {
        return None;
    }
    #[expect(clippy::cast_possible_truncation, reason = "bounded just above")]
    Some((hours * 3_600.0) as i64)
}

/// `<+05:30>-05:30` for five and a half hours to the east.
fn posix_text(seconds: i64) -> String {
    let (east, west) = if seconds < 0 { ('-', '+') } else { ('+', '-') };
    let all = seconds.unsigned_abs();
    let mut text = format!("{:02}", all / 3_600);
    if !all.is_multiple_of(3_600) {
        text.push_str(&format!(":{:02}", all / 60 % 60));
    }
    if !all.is_multiple_of(60) {
        text.push_str(&format!(":{:02}", all % 60));
    }
    format!("<{east}{text}>{west}{text}")
}

/// An offset with a name, or without, before it: `UTC+3`, `<+02>-02`, `+02:00`. Zones with a summer time are found by their names alone.
fn posix(value: &str) -> Option<TimeZone> {
    let rest = match value.strip_prefix('<') {
        Some(named) => named.split_once('>')?.1,
        None => value.trim_start_matches(|c: char| c.is_ascii_alphabetic()),
    };
    let (sign, digits) = match rest.as_bytes().first()? {
        b'-' => (1, &rest[1..]),
        b'+' => (-1, &rest[1..]),
        _ => (-1, rest),
    };
    let mut seconds = 0;
    let mut parts = digits.split(':');
    for unit in [3_600, 60, 1] {
        let Some(part) = parts.next() else { break };
        let is_number = (1..=3).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
        let number = part.parse::<i64>().ok().filter(|n| is_number && (unit == 3_600 || *n < 60))?;
        seconds += unit * number;
    }
    if parts.next().is_some() {
        return None;
    }
    offset(sign * seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How a value is shown, and what 2024-01-01 12:00 UTC is there.
    #[track_caller]
    fn check(value: &str, shown: &str, noon: &str) {
        let kept = canonical(value).unwrap_or_else(|| panic!("{value} is a zone"));
        assert_eq!(kept, shown, "{value}");
        assert_eq!(canonical(&kept).as_deref(), Some(shown), "{value}");
        let time_zone = parse(&kept).expect("it was checked");
        let context = FormatContext { time_zone, ..FormatContext::default() };
        let read = types::parse_text("2024-01-01 12:00+00", PgType::TimestampTz, TypeMod::NONE, &context);
        let mut text = Vec::new();
        types::write_text(&read.expect("a time"), PgType::TimestampTz, &context, &mut text);
        assert_eq!(String::from_utf8_lossy(&text), noon, "{value}");
    }

    #[test]
    fn values_mean_what_they_mean_to_postgresql() {
        check("5", "<+05>-05", "2024-01-01 17:00:00+05");
        check("-07", "<-07>+07", "2024-01-01 05:00:00-07");
        check("5.5", "<+05:30>-05:30", "2024-01-01 17:30:00+05:30");
        check("-3.5", "<-03:30>+03:30", "2024-01-01 08:30:00-03:30");
        check("INTERVAL '-08:00'", "<-08>+08", "2024-01-01 04:00:00-08");
        check("interval '+02:30'", "<+02:30>-02:30", "2024-01-01 14:30:00+02:30");
        check("+02:00", "+02:00", "2024-01-01 10:00:00-02");
        check("+05:30", "+05:30", "2024-01-01 06:30:00-05:30");
        check("UTC+3", "UTC+3", "2024-01-01 09:00:00-03");
        check("<+02>-02", "<+02>-02", "2024-01-01 14:00:00+02");
        check("utc", "UTC", "2024-01-01 12:00:00+00");
        check("europe/berlin", "Europe/Berlin", "2024-01-01 13:00:00+01");
        check("zulu", "Zulu", "2024-01-01 12:00:00+00");
        for none in
            ["nowhere", "", "+", "1:2:3:4", "99999", "INTERVAL '1 month'", "INTERVAL 1", "NaN", "<a", "+1:99"]
        {
            assert_eq!(canonical(none), None, "{none}");
        }
    }
}
