//! Dates, times and intervals: calendar, time zones, text forms, arithmetic.
//!
//! Instants are microseconds since 2000-01-01, dates days since then; the proleptic Gregorian calendar throughout.

pub mod arith;
pub mod fields;
mod input;
pub mod interval;
pub mod interval_fields;
mod output;
pub mod zone;

use base::{SqlError, SqlResult, SqlState};

pub use input::{parse_date, parse_time, parse_timestamp, parse_timestamptz};
pub use output::{write_date, write_time, write_timestamp, write_timestamptz};

pub const DAY_MICROS: i64 = 86_400_000_000;
pub const HOUR_MICROS: i64 = 3_600_000_000;
pub const MINUTE_MICROS: i64 = 60_000_000;
pub const SECOND_MICROS: i64 = 1_000_000;

/// First and last timestamp: 4713-01-01 BC and the last microsecond of 294276.
const TIMESTAMP_MIN: i64 = -211_813_488_000_000_000;
const TIMESTAMP_END: i64 = 9_223_371_331_200_000_000;
/// 4714-11-24 BC and one past 5874897-12-31.
const DATE_MIN: i32 = -2_451_545;
const DATE_END: i32 = 2_145_031_949;

/// Days from 2000-01-01 to a date of the Gregorian calendar; year 0 is 1 BC.
pub fn days_from_civil(year: i32, month: u32, day: u32) -> i64 {
    let y = i64::from(year) - i64::from(month <= 2);
    let era = y.div_euclid(400);
    let year_of_era = y.rem_euclid(400);
    let day_of_year = (153 * ((i64::from(month) + 9) % 12) + 2) / 5 + i64::from(day) - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    // 730425 days from 0000-03-01 to 2000-01-01.
    era * 146_097 + day_of_era - 730_425
}

/// Year, month and day of a day number.
pub fn civil_from_days(days: i64) -> (i32, u32, u32) {
    let z = days + 730_425;
    let era = z.div_euclid(146_097);
    let day_of_era = z.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let mp = (5 * day_of_year + 2) / 153;
    let day = (day_of_year - (153 * mp + 2) / 5 + 1) as u32;
    let month = if mp < 10 { mp + 3 } else { mp - 9 } as u32;
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year as i32, month, day)
}

pub fn is_leap(year: i32) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

pub fn days_in_month(year: i32, month: u32) -> u32 {
    match month {
        2 => 28 + u32::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// A point in local time, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Civil {
    pub year: i32,
    pub month: u32,
    pub day: u32,
    /// Microseconds since midnight.
    pub micros: i64,
}

impl Civil {
    /// Of a finite timestamp without time zone.
    pub fn from_timestamp(timestamp: i64) -> Civil {
        let (year, month, day) = civil_from_days(timestamp.div_euclid(DAY_MICROS));
        Civil { year, month, day, micros: timestamp.rem_euclid(DAY_MICROS) }
    }

    /// The timestamp without time zone; `None` out of range.
    pub fn to_timestamp(self) -> Option<i64> {
        days_from_civil(self.year, self.month, self.day)
            .checked_mul(DAY_MICROS)
            .and_then(|t| t.checked_add(self.micros))
            .filter(|t| (TIMESTAMP_MIN..TIMESTAMP_END).contains(t))
    }
}

pub fn timestamp_out_of_range() -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "timestamp out of range")
}

pub fn date_out_of_range() -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "date out of range")
}

pub fn interval_out_of_range() -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "interval out of range")
}

/// Checks a finite timestamp's range.
pub fn check_timestamp(timestamp: i64) -> SqlResult<i64> {
    if (TIMESTAMP_MIN..TIMESTAMP_END).contains(&timestamp) {
        Ok(timestamp)
    } else {
        Err(timestamp_out_of_range())
    }
}

/// Checks a finite date's range.
pub fn check_date(days: i64) -> SqlResult<i32> {
    if (i64::from(DATE_MIN)..i64::from(DATE_END)).contains(&days) {
        Ok(days as i32)
    } else {
        Err(date_out_of_range())
    }
}

/// Rounds microseconds to `digits` after the second, halves away from zero; the infinities stay. What would leave the range is cut off instead.
pub fn round_micros(micros: i64, digits: u8) -> i64 {
    if digits >= 6 || micros == i64::MAX || micros == i64::MIN {
        return micros;
    }
    let unit = 10i64.pow(6 - u32::from(digits));
    let half = unit / 2;
    let moved = if micros >= 0 { micros.saturating_add(half) } else { micros.saturating_sub(half) };
    moved / unit * unit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calendar_agrees_in_both_directions() {
        assert_eq!(days_from_civil(2000, 1, 1), 0);
        assert_eq!(days_from_civil(1970, 1, 1), -10957);
        assert_eq!(civil_from_days(-10957), (1970, 1, 1));
        for days in (-2_451_545..3_000_000).step_by(97) {
            let (y, m, d) = civil_from_days(days);
            assert_eq!(days_from_civil(y, m, d), days);
        }
    }

    #[test]
    fn what_rounding_would_lead_out_of_range_is_cut_off() {
        assert_eq!(round_micros(i64::MAX - 1, 0), 9_223_372_036_854_000_000);
        assert_eq!(round_micros(i64::MIN + 1, 3), -9_223_372_036_854_775_000);
        assert_eq!(round_micros(1_500_000, 0), 2_000_000);
    }
}
