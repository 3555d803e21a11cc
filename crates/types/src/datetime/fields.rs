//! Parts of dates and times: `extract`, `date_part`, `date_trunc`.

use base::{SqlError, SqlResult, SqlState};

use super::{Civil, DAY_MICROS, HOUR_MICROS, MINUTE_MICROS, SECOND_MICROS, days_from_civil, zone};
use crate::{FormatContext, Interval, Numeric};

/// A field name of `extract` or `date_trunc`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Field {
    Microseconds,
    Milliseconds,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Quarter,
    Year,
    Decade,
    Century,
    Millennium,
    Dow,
    Isodow,
    Doy,
    Isoyear,
    Julian,
    Epoch,
    Timezone,
    TimezoneHour,
    TimezoneMinute,
}

impl Field {
    /// The field of that name or abbreviation, in any case.
    pub fn parse(name: &str) -> Option<Field> {
        let lower = name.to_ascii_lowercase();
        Some(match lower.as_str() {
            "microsecond" | "microseconds" | "us" | "usec" | "usecs" | "usecond" | "useconds" => {
                Field::Microseconds
            }
            "millisecond" | "milliseconds" | "ms" | "msec" | "msecs" | "msecond" | "mseconds" => {
                Field::Milliseconds
            }
            "second" | "seconds" | "sec" | "secs" | "s" => Field::Second,
            "minute" | "minutes" | "min" | "mins" | "m" => Field::Minute,
            "hour" | "hours" | "hr" | "hrs" | "h" => Field::Hour,
            "day" | "days" | "d" => Field::Day,
            "week" | "weeks" | "w" => Field::Week,
            "month" | "months" | "mon" | "mons" => Field::Month,
            "quarter" | "qtr" => Field::Quarter,
            "year" | "years" | "yr" | "yrs" | "y" => Field::Year,
            "decade" | "decades" | "dec" | "decs" => Field::Decade,
            "century" | "centuries" | "cent" | "c" => Field::Century,
            "millennium" | "millennia" | "millenium" | "mil" | "mils" => Field::Millennium,
            "dow" => Field::Dow,
            "isodow" => Field::Isodow,
            "doy" => Field::Doy,
            "isoyear" => Field::Isoyear,
            "julian" | "jd" | "j" => Field::Julian,
            "epoch" => Field::Epoch,
            "timezone" => Field::Timezone,
            "timezone_h" | "timezone_hour" => Field::TimezoneHour,
            "timezone_m" | "timezone_minute" => Field::TimezoneMinute,
            _ => return None,
        })
    }
}

/// 22023: the name is no field at all.
pub fn unrecognized(name: &str, ty: &str) -> SqlError {
    SqlError::new(
        SqlState::INVALID_PARAMETER_VALUE,
        format!("unit \"{}\" not recognized for type {ty}", name.to_ascii_lowercase()),
    )
}

/// 0A000: the type has no such field.
pub fn unsupported(name: &str, ty: &str) -> SqlError {
    SqlError::new(
        SqlState::FEATURE_NOT_SUPPORTED,
        format!("unit \"{}\" not supported for type {ty}", name.to_ascii_lowercase()),
    )
}

/// ISO year and week of a day.
pub fn iso_week(days: i64) -> (i32, u32) {
    // The week belongs to the year of its Thursday; 2000-01-01 was a Saturday.
    let weekday = (days + 5).rem_euclid(7);
    let thursday = days - weekday + 3;
    let (year, _, _) = super::civil_from_days(thursday);
    let week = (thursday - days_from_civil(year, 1, 1)) / 7 + 1;
    (year, week as u32)
}

fn time_field(field: Field, micros: i64) -> Option<Numeric> {
    Some(match field {
        Field::Microseconds => Numeric::from(micros % MINUTE_MICROS),
        Field::Milliseconds => Numeric::new(micros % MINUTE_MICROS, 3),
        Field::Second => Numeric::new(micros % MINUTE_MICROS, 6),
        Field::Minute => Numeric::from(micros / MINUTE_MICROS % 60),
        Field::Hour => Numeric::from(micros / HOUR_MICROS),
        _ => return None,
    })
}

fn date_field(field: Field, civil: &Civil) -> Option<Numeric> {
    let year = i64::from(civil.year);
    let days = days_from_civil(civil.year, civil.month, civil.day);
    Some(Numeric::from(match field {
        Field::Day => i64::from(civil.day),
        Field::Month => i64::from(civil.month),
        Field::Quarter => i64::from((civil.month - 1) / 3 + 1),
        Field::Week => i64::from(iso_week(days).1),
        Field::Year => {
            if year > 0 {
                year
            } else {
                year - 1
            }
        }
        Field::Decade => year.div_euclid(10),
        Field::Century => {
            if year > 0 {
                (year + 99) / 100
            } else {
                -((99 - (year - 1)) / 100)
            }
        }
        Field::Millennium => {
            if year > 0 {
                (year + 999) / 1000
            } else {
                -((999 - (year - 1)) / 1000)
            }
        }
        Field::Isoyear => {
            let iso = i64::from(iso_week(days).0);
            if iso > 0 { iso } else { iso - 1 }
        }
        Field::Dow => (days + 6).rem_euclid(7),
        Field::Isodow => (days + 5).rem_euclid(7) + 1,
        Field::Doy => days - days_from_civil(civil.year, 1, 1) + 1,
        _ => return None,
    }))
}

const EPOCH_DAYS: i64 = 10_957;
/// Julian day of 2000-01-01.
const JULIAN_DAYS: i64 = 2_451_545;

/// The answer for an infinite timestamp: infinity for ever-growing fields, NULL for the others.
fn infinite(field: Field, positive: bool) -> Option<Numeric> {
    match field {
        Field::Year
        | Field::Decade
        | Field::Century
        | Field::Millennium
        | Field::Julian
        | Field::Isoyear
        | Field::Epoch => Some(if positive { Numeric::INFINITY } else { Numeric::NEG_INFINITY }),
        _ => None,
    }
}

/// A field of a timestamp; `Ok(None)` is NULL.
pub fn of_timestamp(name: &str, timestamp: i64) -> SqlResult<Option<Numeric>> {
    const TYPE: &str = "timestamp without time zone";
    let field = Field::parse(name).ok_or_else(|| unrecognized(name, TYPE))?;
    if timestamp == i64::MAX || timestamp == i64::MIN {
        return Ok(infinite(field, timestamp > 0));
    }
    let civil = Civil::from_timestamp(timestamp);
    if let Some(value) = time_field(field, civil.micros).or_else(|| date_field(field, &civil)) {
        return Ok(Some(value));
    }
    match field {
        Field::Epoch => {
            Ok(Some(Numeric::from_i128(i128::from(timestamp) + i128::from(EPOCH_DAYS * DAY_MICROS), 6)))
        }
        Field::Julian => julian(timestamp).map(Some),
        _ => Err(unsupported(name, TYPE)),
    }
}

fn julian(timestamp: i64) -> SqlResult<Numeric> {
    let day = Numeric::from(timestamp.div_euclid(DAY_MICROS) + JULIAN_DAYS);
    // Of microseconds, whose digits say how many the quotient has.
    let fraction = Numeric::from(timestamp.rem_euclid(DAY_MICROS)).div(&Numeric::from(DAY_MICROS))?;
    day.add(&fraction)
}

/// A field of an instant in the session's zone; `Ok(None)` is NULL.
pub fn of_timestamptz(name: &str, instant: i64, ctx: &FormatContext) -> SqlResult<Option<Numeric>> {
    const TYPE: &str = "timestamp with time zone";
    let field = Field::parse(name).ok_or_else(|| unrecognized(name, TYPE))?;
    if instant == i64::MAX || instant == i64::MIN {
        return Ok(infinite(field, instant > 0));
    }
    let offset = i64::from(zone::offset_at(&ctx.time_zone, instant));
    Ok(Some(match field {
        Field::Epoch => Numeric::from_i128(i128::from(instant) + i128::from(EPOCH_DAYS * DAY_MICROS), 6),
        Field::Timezone => Numeric::from(offset),
        Field::TimezoneHour => Numeric::from(offset / 3600),
        Field::TimezoneMinute => Numeric::from(offset % 3600 / 60),
        _ => return of_timestamp(name, instant + offset * SECOND_MICROS),
    }))
}

/// A field of a date; `Ok(None)` is NULL.
pub fn of_date(name: &str, days: i32) -> SqlResult<Option<Numeric>> {
    let field = Field::parse(name).ok_or_else(|| unrecognized(name, "date"))?;
    if days == i32::MAX || days == i32::MIN {
        return Ok(infinite(field, days > 0));
    }
    let (year, month, day) = super::civil_from_days(i64::from(days));
    let civil = Civil { year, month, day, micros: 0 };
    if let Some(value) = date_field(field, &civil) {
        return Ok(Some(value));
    }
    match field {
        Field::Epoch => Ok(Some(Numeric::from((i64::from(days) + EPOCH_DAYS) * 86_400))),
        Field::Julian => Ok(Some(Numeric::from(i64::from(days) + JULIAN_DAYS))),
        _ => Err(unsupported(name, "date")),
    }
}

/// A field of a time of day.
pub fn of_time(name: &str, micros: i64) -> SqlResult<Option<Numeric>> {
    const TYPE: &str = "time without time zone";
    let field = Field::parse(name).ok_or_else(|| unrecognized(name, TYPE))?;
    match field {
        Field::Epoch => Ok(Some(Numeric::new(micros, 6))),
        _ => time_field(field, micros).map(Some).ok_or_else(|| unsupported(name, TYPE)),
    }
}

/// A field of an interval.
pub fn of_interval(name: &str, interval: &Interval) -> SqlResult<Option<Numeric>> {
    let field = Field::parse(name).ok_or_else(|| unrecognized(name, "interval"))?;
    if let Some(value) = time_field(field, interval.micros) {
        return Ok(Some(value));
    }
    let (years, months) = (i64::from(interval.months / 12), i64::from(interval.months % 12));
    Ok(Some(match field {
        Field::Day => Numeric::from(i64::from(interval.days)),
        Field::Month => Numeric::from(months),
        Field::Quarter => Numeric::from(months / 3 + 1),
        Field::Year => Numeric::from(years),
        Field::Decade => Numeric::from(years / 10),
        Field::Century => Numeric::from(years / 100),
        Field::Millennium => Numeric::from(years / 1000),
        Field::Epoch => {
            // A year counts 365.25 days, a month 30.
            let days = i128::from(years) * 1461 / 4 * 4 + i128::from(years) * 1461 % 4;
            let quarter_days = days + i128::from(months) * 120 + i128::from(interval.days) * 4;
            Numeric::from_i128(quarter_days * i128::from(DAY_MICROS / 4) + i128::from(interval.micros), 6)
        }
        _ => return Err(unsupported(name, "interval")),
    }))
}

/// `date_trunc` of a timestamp without time zone.
pub fn trunc_timestamp(name: &str, timestamp: i64, ty: &str) -> SqlResult<i64> {
    let field = Field::parse(name).ok_or_else(|| unrecognized(name, ty))?;
    if timestamp == i64::MAX || timestamp == i64::MIN {
        return Ok(timestamp);
    }
    let unit = match field {
        Field::Microseconds => Some(1),
        Field::Milliseconds => Some(1000),
        Field::Second => Some(SECOND_MICROS),
        Field::Minute => Some(MINUTE_MICROS),
        Field::Hour => Some(HOUR_MICROS),
        Field::Day => Some(DAY_MICROS),
        _ => None,
    };
    if let Some(unit) = unit {
        return Ok(timestamp.div_euclid(unit) * unit);
    }
    let civil = Civil::from_timestamp(timestamp);
    let (year, month) = match field {
        Field::Week => {
            let days = timestamp.div_euclid(DAY_MICROS);
            return Ok((days - (days + 5).rem_euclid(7)) * DAY_MICROS);
        }
        Field::Month => (civil.year, civil.month),
        Field::Quarter => (civil.year, (civil.month - 1) / 3 * 3 + 1),
        Field::Year => (civil.year, 1),
        Field::Decade => (civil.year.div_euclid(10) * 10, 1),
        Field::Century => ((civil.year - 1).div_euclid(100) * 100 + 1, 1),
        Field::Millennium => ((civil.year - 1).div_euclid(1000) * 1000 + 1, 1),
        _ => return Err(unsupported(name, ty)),
    };
    Civil { year, month, day: 1, micros: 0 }.to_timestamp().ok_or_else(super::timestamp_out_of_range)
}

/// Whether a field is of an hour or less, which `date_trunc` cuts a moment to without another look at its zone's offset: of
/// the two hours that are one where clocks go back, each is its own.
pub fn is_within_hour(name: &str) -> bool {
    use Field as F;
    matches!(Field::parse(name), Some(F::Microseconds | F::Milliseconds | F::Second | F::Minute | F::Hour))
}

/// `date_trunc` of an interval.
pub fn trunc_interval(name: &str, interval: &Interval) -> SqlResult<Interval> {
    let field = Field::parse(name).ok_or_else(|| unrecognized(name, "interval"))?;
    let cut = |unit: i64| Interval { micros: interval.micros / unit * unit, ..*interval };
    let months = |unit: i32| Interval { months: interval.months / unit * unit, days: 0, micros: 0 };
    Ok(match field {
        Field::Microseconds => *interval,
        Field::Milliseconds => cut(1000),
        Field::Second => cut(SECOND_MICROS),
        Field::Minute => cut(MINUTE_MICROS),
        Field::Hour => cut(HOUR_MICROS),
        Field::Day => Interval { micros: 0, ..*interval },
        Field::Month => months(1),
        Field::Quarter => months(3),
        Field::Year => months(12),
        Field::Decade => months(120),
        Field::Century => months(1200),
        Field::Millennium => months(12000),
        _ => return Err(unsupported(name, "interval")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_julian_day_has_as_many_digits_as_postgresqls() {
        for (micros, shown) in [
            (0, "2451545.0000000000000000000000000000"),
            (SECOND_MICROS, "2451545.000011574074074074074074"),
            (8_700_000, "2451545.00010069444444444444"),
            (DAY_MICROS / 2, "2451545.50000000000000000000"),
        ] {
            let found = of_timestamp("julian", micros).unwrap().expect("it is not NULL");
            assert_eq!(found.to_string(), shown, "{micros}");
        }
    }
}
