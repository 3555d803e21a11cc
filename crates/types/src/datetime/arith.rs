//! Arithmetic of dates and instants with intervals, differences, `age`.

use base::SqlResult;
use jiff::tz::TimeZone;

use super::{
    Civil, DAY_MICROS, check_timestamp, days_in_month, interval_out_of_range, timestamp_out_of_range, zone,
};
use crate::Interval;

fn is_infinite(timestamp: i64) -> bool {
    timestamp == i64::MAX || timestamp == i64::MIN
}

/// Months first (the day clamped to the month's end), then days, then the time. Errors: 22008.
pub fn timestamp_add(timestamp: i64, interval: &Interval) -> SqlResult<i64> {
    if is_infinite(timestamp) {
        return Ok(timestamp);
    }
    let mut timestamp = timestamp;
    if interval.months != 0 {
        let mut civil = Civil::from_timestamp(timestamp);
        let months = i64::from(civil.year) * 12 + i64::from(civil.month) - 1 + i64::from(interval.months);
        civil.year = i32::try_from(months.div_euclid(12)).map_err(|_| timestamp_out_of_range())?;
        civil.month = months.rem_euclid(12) as u32 + 1;
        civil.day = civil.day.min(days_in_month(civil.year, civil.month));
        timestamp = civil.to_timestamp().ok_or_else(timestamp_out_of_range)?;
    }
    let days = i128::from(interval.days) * i128::from(DAY_MICROS);
    let sum = i128::from(timestamp) + days + i128::from(interval.micros);
    i64::try_from(sum).map_err(|_| timestamp_out_of_range()).and_then(check_timestamp)
}

/// As [`timestamp_add`]; months and days count in the zone's local time. Errors: 22008.
pub fn timestamptz_add(instant: i64, interval: &Interval, tz: &TimeZone) -> SqlResult<i64> {
    if is_infinite(instant) {
        return Ok(instant);
    }
    let (mut instant, none) = (instant, Interval::default());
    // One after the other, each from a time that there is: after the months a clock may be set forward.
    for part in [Interval { months: interval.months, ..none }, Interval { days: interval.days, ..none }] {
        if part != none {
            let local = timestamp_add(zone::to_local(tz, instant), &part)?;
            instant = zone::to_instant(tz, local).ok_or_else(timestamp_out_of_range)?;
        }
    }
    instant.checked_add(interval.micros).ok_or_else(timestamp_out_of_range).and_then(check_timestamp)
}

/// `a - b` in days and time, months never. Errors: 22008 for infinities.
pub fn timestamp_diff(a: i64, b: i64) -> SqlResult<Interval> {
    if is_infinite(a) || is_infinite(b) {
        return Err(base::SqlError::new(
            base::SqlState::DATETIME_FIELD_OVERFLOW,
            "cannot subtract infinite timestamps",
        ));
    }
    let micros = a.checked_sub(b).ok_or_else(interval_out_of_range)?;
    Ok(Interval { months: 0, days: (micros / DAY_MICROS) as i32, micros: micros % DAY_MICROS })
}

/// `a - b` in years, months, days and time, as a calendar counts (`age`). Errors: 22008 for infinities.
pub fn age(a: i64, b: i64) -> SqlResult<Interval> {
    if is_infinite(a) || is_infinite(b) {
        return Err(timestamp_out_of_range());
    }
    let (later, earlier, sign) = if a >= b { (a, b, 1) } else { (b, a, -1) };
    let (l, e) = (Civil::from_timestamp(later), Civil::from_timestamp(earlier));
    let mut micros = l.micros - e.micros;
    let mut days = l.day as i32 - e.day as i32;
    let mut months = (l.year - e.year) * 12 + l.month as i32 - e.month as i32;
    if micros < 0 {
        micros += DAY_MICROS;
        days -= 1;
    }
    while days < 0 {
        // A borrowed month has the length of the earlier date's, whichever comes first, as in PostgreSQL.
        days += days_in_month(e.year, e.month) as i32;
        months -= 1;
    }
    Ok(Interval { months: sign * months, days: sign * days, micros: i64::from(sign) * micros })
}
