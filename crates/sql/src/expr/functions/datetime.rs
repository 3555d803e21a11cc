//! Dates, times and intervals.

use base::{SqlError, SqlState};
use types::datetime::{self, DAY_MICROS, arith, fields, interval, zone};
use types::{Datum, Interval, Numeric};

use super::*;

pub(super) static OPERATORS: &[FunctionDef] = &[
    FunctionDef::new("+", &[DATE, INT4], DATE, |a, _| date_add(&a[0], int(&a[1])?)),
    FunctionDef::new("+", &[INT4, DATE], DATE, |a, _| date_add(&a[1], int(&a[0])?)),
    FunctionDef::new("-", &[DATE, INT4], DATE, |a, _| date_add(&a[0], -int(&a[1])?)),
    FunctionDef::new("-", &[DATE, DATE], INT4, date_sub),
    FunctionDef::new("+", &[DATE, INTERVAL], TIMESTAMP, |a, _| date_interval(&a[0], &span(&a[1])?)),
    FunctionDef::new("+", &[INTERVAL, DATE], TIMESTAMP, |a, _| date_interval(&a[1], &span(&a[0])?)),
    FunctionDef::new("-", &[DATE, INTERVAL], TIMESTAMP, |a, _| {
        date_interval(&a[0], &interval::negate(&span(&a[1])?)?)
    }),
    FunctionDef::new("+", &[DATE, TIME], TIMESTAMP, |a, _| date_time(&a[0], &a[1])),
    FunctionDef::new("+", &[TIME, DATE], TIMESTAMP, |a, _| date_time(&a[1], &a[0])),
    FunctionDef::new("+", &[TIMESTAMP, INTERVAL], TIMESTAMP, |a, _| shift(&a[0], &span(&a[1])?)),
    FunctionDef::new("+", &[INTERVAL, TIMESTAMP], TIMESTAMP, |a, _| shift(&a[1], &span(&a[0])?)),
    FunctionDef::new("-", &[TIMESTAMP, INTERVAL], TIMESTAMP, |a, _| {
        shift(&a[0], &interval::negate(&span(&a[1])?)?)
    }),
    FunctionDef::new("+", &[TIMESTAMPTZ, INTERVAL], TIMESTAMPTZ, |a, c| shift_tz(&a[0], &span(&a[1])?, c))
        .stable(),
    FunctionDef::new("+", &[INTERVAL, TIMESTAMPTZ], TIMESTAMPTZ, |a, c| shift_tz(&a[1], &span(&a[0])?, c))
        .stable(),
    FunctionDef::new("-", &[TIMESTAMPTZ, INTERVAL], TIMESTAMPTZ, |a, c| {
        shift_tz(&a[0], &interval::negate(&span(&a[1])?)?, c)
    })
    .stable(),
    FunctionDef::new("-", &[TIMESTAMP, TIMESTAMP], INTERVAL, difference),
    FunctionDef::new("-", &[TIMESTAMPTZ, TIMESTAMPTZ], INTERVAL, difference),
    FunctionDef::new("+", &[TIME, INTERVAL], TIME, |a, _| time_add(&a[0], span(&a[1])?.micros)),
    FunctionDef::new("+", &[INTERVAL, TIME], TIME, |a, _| time_add(&a[1], span(&a[0])?.micros)),
    FunctionDef::new("-", &[TIME, INTERVAL], TIME, |a, _| {
        time_add(&a[0], -(span(&a[1])?.micros % DAY_MICROS))
    }),
    FunctionDef::new("-", &[TIME, TIME], INTERVAL, |a, _| {
        Ok(Datum::Interval(Interval { months: 0, days: 0, micros: micros(&a[0])? - micros(&a[1])? }))
    }),
    FunctionDef::new("+", &[INTERVAL, INTERVAL], INTERVAL, |a, _| {
        Ok(Datum::Interval(interval::add(&span(&a[0])?, &span(&a[1])?)?))
    }),
    FunctionDef::new("-", &[INTERVAL, INTERVAL], INTERVAL, |a, _| {
        Ok(Datum::Interval(interval::sub(&span(&a[0])?, &span(&a[1])?)?))
    }),
    FunctionDef::new("-", &[INTERVAL], INTERVAL, |a, _| {
        Ok(Datum::Interval(interval::negate(&span(&a[0])?)?))
    }),
    FunctionDef::new("*", &[INTERVAL, FLOAT8], INTERVAL, |a, _| {
        Ok(Datum::Interval(interval::mul(&span(&a[0])?, float(&a[1])?)?))
    }),
    FunctionDef::new("*", &[FLOAT8, INTERVAL], INTERVAL, |a, _| {
        Ok(Datum::Interval(interval::mul(&span(&a[1])?, float(&a[0])?)?))
    }),
    FunctionDef::new("/", &[INTERVAL, FLOAT8], INTERVAL, |a, _| {
        Ok(Datum::Interval(interval::div(&span(&a[0])?, float(&a[1])?)?))
    }),
];

pub(super) static FUNCTIONS: &[FunctionDef] = &[
    FunctionDef::new("now", &[], TIMESTAMPTZ, |_, c| Ok(Datum::TimestampTz(c.stmt.format.now))).stable(),
    FunctionDef::new("transaction_timestamp", &[], TIMESTAMPTZ, |_, c| {
        Ok(Datum::TimestampTz(c.stmt.format.now))
    })
    .stable(),
    FunctionDef::new("current_timestamp", &[], TIMESTAMPTZ, |_, c| Ok(Datum::TimestampTz(c.stmt.format.now)))
        .stable(),
    FunctionDef::new("current_timestamp", &[INT4], TIMESTAMPTZ, |a, c| {
        Ok(Datum::TimestampTz(rounded(c.stmt.format.now, &a[0])?))
    })
    .stable(),
    FunctionDef::new("localtimestamp", &[INT4], TIMESTAMP, |a, c| {
        Ok(Datum::Timestamp(rounded(local_now(c), &a[0])?))
    })
    .stable(),
    FunctionDef::new("localtime", &[INT4], TIME, |a, c| {
        Ok(Datum::Time(rounded(local_now(c).rem_euclid(DAY_MICROS), &a[0])?))
    })
    .stable(),
    FunctionDef::new("statement_timestamp", &[], TIMESTAMPTZ, |_, c| {
        Ok(Datum::TimestampTz(c.stmt.statement_start))
    })
    .stable(),
    FunctionDef::new("clock_timestamp", &[], TIMESTAMPTZ, |_, c| {
        Ok(Datum::TimestampTz(c.stmt.session.clock()))
    })
    .volatile(),
    FunctionDef::new("timeofday", &[], TEXT, |_, c| {
        let now = Datum::TimestampTz(c.stmt.session.clock());
        super::time_format::to_char(&[now, Datum::text("Dy Mon DD HH24:MI:SS.US YYYY TZ")], c)
    })
    .volatile(),
    FunctionDef::new("localtimestamp", &[], TIMESTAMP, |_, c| Ok(Datum::Timestamp(local_now(c)))).stable(),
    FunctionDef::new("localtime", &[], TIME, |_, c| Ok(Datum::Time(local_now(c).rem_euclid(DAY_MICROS))))
        .stable(),
    FunctionDef::new("current_date", &[], DATE, |_, c| {
        Ok(Datum::Date(local_now(c).div_euclid(DAY_MICROS) as i32))
    })
    .stable(),
    FunctionDef::new("extract", &[TEXT, DATE], NUMERIC, |a, c| field(a, c)),
    FunctionDef::new("extract", &[TEXT, TIME], NUMERIC, |a, c| field(a, c)),
    FunctionDef::new("extract", &[TEXT, TIMESTAMP], NUMERIC, |a, c| field(a, c)),
    FunctionDef::new("extract", &[TEXT, TIMESTAMPTZ], NUMERIC, |a, c| field(a, c)).stable(),
    FunctionDef::new("extract", &[TEXT, INTERVAL], NUMERIC, |a, c| field(a, c)),
    FunctionDef::new("date_part", &[TEXT, DATE], FLOAT8, date_part),
    FunctionDef::new("date_part", &[TEXT, TIME], FLOAT8, date_part),
    FunctionDef::new("date_part", &[TEXT, TIMESTAMP], FLOAT8, date_part),
    FunctionDef::new("date_part", &[TEXT, TIMESTAMPTZ], FLOAT8, date_part).stable(),
    FunctionDef::new("date_part", &[TEXT, INTERVAL], FLOAT8, date_part),
    FunctionDef::new("date_trunc", &[TEXT, TIMESTAMP], TIMESTAMP, date_trunc),
    FunctionDef::new("date_trunc", &[TEXT, TIMESTAMPTZ], TIMESTAMPTZ, date_trunc).stable(),
    FunctionDef::new("date_trunc", &[TEXT, TIMESTAMPTZ, TEXT], TIMESTAMPTZ, date_trunc),
    FunctionDef::new("date_trunc", &[TEXT, INTERVAL], INTERVAL, date_trunc),
    FunctionDef::new("age", &[TIMESTAMP, TIMESTAMP], INTERVAL, |a, _| {
        Ok(Datum::Interval(arith::age(micros(&a[0])?, micros(&a[1])?)?))
    }),
    FunctionDef::new("age", &[TIMESTAMPTZ, TIMESTAMPTZ], INTERVAL, |a, c| {
        let local = |d| Ok::<_, EvalError>(zone::to_local(&c.stmt.format.time_zone, micros(d)?));
        Ok(Datum::Interval(arith::age(local(&a[0])?, local(&a[1])?)?))
    })
    .stable(),
    FunctionDef::new("age", &[TIMESTAMP], INTERVAL, |a, c| {
        Ok(Datum::Interval(arith::age(local_now(c).div_euclid(DAY_MICROS) * DAY_MICROS, micros(&a[0])?)?))
    })
    .stable(),
    FunctionDef::new("age", &[TIMESTAMPTZ], INTERVAL, |a, c| {
        let then = zone::to_local(&c.stmt.format.time_zone, micros(&a[0])?);
        Ok(Datum::Interval(arith::age(local_now(c).div_euclid(DAY_MICROS) * DAY_MICROS, then)?))
    })
    .stable(),
    // Of a transaction's number: there are enough of them that none grows old.
    FunctionDef::new("age", &[ArgType::Is(PgType::Oid)], INT4, |_, _| Ok(Datum::Int4(0))).stable(),
    FunctionDef::new("timezone", &[TEXT, TIMESTAMP], TIMESTAMPTZ, |a, _| {
        let zone = zone::parse_zone(text(&a[0])?)?;
        let instant = zone::to_instant(&zone, micros(&a[1])?).ok_or_else(datetime::timestamp_out_of_range)?;
        Ok(Datum::TimestampTz(instant))
    }),
    FunctionDef::new("timezone", &[TEXT, TIMESTAMPTZ], TIMESTAMP, |a, _| {
        let local = zone::to_local(&zone::parse_zone(text(&a[0])?)?, micros(&a[1])?);
        Ok(Datum::Timestamp(if local == micros(&a[1])? { local } else { datetime::check_timestamp(local)? }))
    }),
    FunctionDef::new("timezone", &[INTERVAL, TIMESTAMP], TIMESTAMPTZ, |a, _| {
        Ok(Datum::TimestampTz(displaced(micros(&a[1])?, displacement(&a[0])?.checked_neg())?))
    }),
    FunctionDef::new("timezone", &[INTERVAL, TIMESTAMPTZ], TIMESTAMP, |a, _| {
        Ok(Datum::Timestamp(displaced(micros(&a[1])?, Some(displacement(&a[0])?))?))
    }),
    FunctionDef::new("date_bin", &[INTERVAL, TIMESTAMP, TIMESTAMP], TIMESTAMP, |a, _| {
        Ok(Datum::Timestamp(date_bin(&span(&a[0])?, micros(&a[1])?, micros(&a[2])?)?))
    }),
    FunctionDef::new("date_bin", &[INTERVAL, TIMESTAMPTZ, TIMESTAMPTZ], TIMESTAMPTZ, |a, _| {
        Ok(Datum::TimestampTz(date_bin(&span(&a[0])?, micros(&a[1])?, micros(&a[2])?)?))
    }),
    FunctionDef::new("overlaps", &[TIME, TIME, TIME, TIME], BOOL, overlaps).takes_null(),
    FunctionDef::new("overlaps", &[TIMESTAMP, TIMESTAMP, TIMESTAMP, TIMESTAMP], BOOL, overlaps).takes_null(),
    FunctionDef::new("overlaps", &[TIMESTAMPTZ, TIMESTAMPTZ, TIMESTAMPTZ, TIMESTAMPTZ], BOOL, overlaps)
        .takes_null(),
    FunctionDef::new("make_interval", &[INT4, INT4, INT4, INT4, INT4, INT4, FLOAT8], INTERVAL, make_interval),
    FunctionDef::new(
        "make_timestamptz",
        &[INT4, INT4, INT4, INT4, INT4, FLOAT8, TEXT],
        TIMESTAMPTZ,
        |a, _| {
            let zone = zone_of_moment(text(&a[6])?)?;
            let instant = zone::to_instant(&zone, make_timestamp(a)?);
            Ok(Datum::TimestampTz(instant.ok_or_else(datetime::timestamp_out_of_range)?))
        },
    ),
    FunctionDef::new("make_date", &[INT4, INT4, INT4], DATE, make_date),
    FunctionDef::new("make_time", &[INT4, INT4, FLOAT8], TIME, |a, _| {
        Ok(Datum::Time(clock(&a[0], &a[1], &a[2])?))
    }),
    FunctionDef::new("make_timestamp", &[INT4, INT4, INT4, INT4, INT4, FLOAT8], TIMESTAMP, |a, _| {
        Ok(Datum::Timestamp(make_timestamp(a)?))
    }),
    FunctionDef::new("make_timestamptz", &[INT4, INT4, INT4, INT4, INT4, FLOAT8], TIMESTAMPTZ, |a, c| {
        let instant = zone::to_instant(&c.stmt.format.time_zone, make_timestamp(a)?);
        Ok(Datum::TimestampTz(instant.ok_or_else(datetime::timestamp_out_of_range)?))
    })
    .stable(),
    FunctionDef::new("to_timestamp", &[FLOAT8], TIMESTAMPTZ, to_timestamp),
    FunctionDef::new("justify_hours", &[INTERVAL], INTERVAL, |a, _| {
        Ok(Datum::Interval(interval::justify_hours(&span(&a[0])?)?))
    }),
    FunctionDef::new("justify_days", &[INTERVAL], INTERVAL, |a, _| {
        Ok(Datum::Interval(interval::justify_days(&span(&a[0])?)?))
    }),
    FunctionDef::new("justify_interval", &[INTERVAL], INTERVAL, |a, _| {
        Ok(Datum::Interval(interval::justify_interval(&span(&a[0])?)?))
    }),
    FunctionDef::new("isfinite", &[DATE], BOOL, |a, _| {
        Ok(Datum::Bool(!matches!(a[0], Datum::Date(i32::MAX | i32::MIN))))
    }),
    FunctionDef::new("isfinite", &[TIMESTAMP], BOOL, isfinite),
    FunctionDef::new("isfinite", &[TIMESTAMPTZ], BOOL, isfinite),
    FunctionDef::new("isfinite", &[INTERVAL], BOOL, |_, _| Ok(Datum::Bool(true))),
];

fn span(d: &Datum) -> EvalResult<Interval> {
    match d {
        Datum::Interval(i) => Ok(*i),
        _ => Err(wrong("an interval", d)),
    }
}

/// The count of a time or timestamp of either kind.
fn micros(d: &Datum) -> EvalResult<i64> {
    match d {
        Datum::Time(t) | Datum::Timestamp(t) | Datum::TimestampTz(t) => Ok(*t),
        _ => Err(wrong("a time", d)),
    }
}

/// The zone of `make_timestamptz`, where a number counts eastwards, as in a timestamp's text, and not as in POSIX's zones.
fn zone_of_moment(name: &str) -> EvalResult<jiff::tz::TimeZone> {
    let name = name.trim();
    if name.starts_with(|c: char| c.is_ascii_digit()) {
        let message = format!("invalid input syntax for type numeric time zone: \"{name}\"");
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
            .with_hint("Numeric time zones must have \"-\" or \"+\" as first character.")
            .into());
    }
    let turned = match (name.strip_prefix('+'), name.strip_prefix('-')) {
        (Some(east), _) => Some(format!("-{east}")),
        (_, Some(west)) => Some(format!("+{west}")),
        _ => None,
    };
    let unknown = || {
        let message = format!("time zone \"{name}\" not recognized");
        SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
    };
    Ok(zone::parse_zone(turned.as_deref().unwrap_or(name)).map_err(|_| unknown())?)
}

/// The zone that an interval names, as microseconds east of Greenwich.
fn displacement(d: &Datum) -> EvalResult<i64> {
    let span = span(d)?;
    if span.months != 0 || span.days != 0 {
        let mut shown = Vec::new();
        interval::write_interval(&span, &types::FormatContext::default(), &mut shown);
        let shown = String::from_utf8_lossy(&shown);
        let message = format!("interval time zone \"{shown}\" must not include months or days");
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message).into());
    }
    // Zones are whole seconds off.
    Ok(span.micros / datetime::SECOND_MICROS * datetime::SECOND_MICROS)
}

/// A moment so much later, `None` being more than there can be; the infinities stay.
fn displaced(moment: i64, by: Option<i64>) -> EvalResult<i64> {
    if moment == i64::MAX || moment == i64::MIN {
        return Ok(moment);
    }
    let moved = by.and_then(|by| moment.checked_add(by)).ok_or_else(datetime::timestamp_out_of_range)?;
    Ok(datetime::check_timestamp(moved)?)
}

/// The start of the stretch of length `stride` that `timestamp` lies in, where one begins at `origin`.
fn date_bin(stride: &Interval, timestamp: i64, origin: i64) -> EvalResult<i64> {
    let infinite = |t: i64| t == i64::MAX || t == i64::MIN;
    if infinite(timestamp) {
        return Ok(timestamp);
    }
    if infinite(origin) {
        return Err(out_of_range("origin out of range".to_owned()));
    }
    if stride.months != 0 {
        let message = "timestamps cannot be binned into intervals containing months or years";
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).into());
    }
    let range = || out_of_range("interval out of range".to_owned());
    let stride = i64::from(stride.days)
        .checked_mul(DAY_MICROS)
        .and_then(|days| days.checked_add(stride.micros))
        .ok_or_else(range)?;
    if stride <= 0 {
        return Err(out_of_range("stride must be greater than zero".to_owned()));
    }
    let behind = timestamp.checked_sub(origin).ok_or_else(range)?;
    let start = i128::from(origin) + i128::from(behind.div_euclid(stride)) * i128::from(stride);
    let start = i64::try_from(start).map_err(|_| datetime::timestamp_out_of_range())?;
    Ok(datetime::check_timestamp(start)?)
}

/// Whether two stretches of time, each from one moment to another, have one in common. A NULL may leave that open.
fn overlaps(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    // The moments of a stretch in order; of one that is NULL nothing is known but that it is behind the other.
    let stretch = |start: &Datum, end: &Datum| -> Option<(Datum, Option<Datum>)> {
        match (start.is_null(), end.is_null()) {
            (true, true) => None,
            (true, false) => Some((end.clone(), None)),
            (false, true) => Some((start.clone(), None)),
            (false, false) if types::compare(start, end).is_gt() => Some((end.clone(), Some(start.clone()))),
            (false, false) => Some((start.clone(), Some(end.clone()))),
        }
    };
    let (Some((a, a_end)), Some((b, b_end))) = (stretch(&args[0], &args[1]), stretch(&args[2], &args[3]))
    else {
        return Ok(Datum::Null);
    };
    // Whether the later one begins before the other ends.
    let within = |later: &Datum, later_end: &Option<Datum>, end: &Option<Datum>| match end {
        None => Datum::Null,
        Some(end) if types::compare(later, end).is_lt() => Datum::Bool(true),
        Some(_) if later_end.is_none() => Datum::Null,
        Some(_) => Datum::Bool(false),
    };
    Ok(match types::compare(&a, &b) {
        std::cmp::Ordering::Greater => within(&a, &a_end, &b_end),
        std::cmp::Ordering::Less => within(&b, &b_end, &a_end),
        std::cmp::Ordering::Equal if a_end.is_none() || b_end.is_none() => Datum::Null,
        std::cmp::Ordering::Equal => Datum::Bool(true),
    })
}

fn make_interval(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let part = |i: usize| int(&args[i]);
    let seconds = float(&args[6])?;
    let range = || out_of_range("interval out of range".to_owned());
    if !seconds.is_finite() {
        return Err(range());
    }
    let micros = f64::round_ties_even(seconds * 1e6);
    if micros.abs() >= 9.2e18 {
        return Err(range());
    }
    let whole = part(4)? * datetime::HOUR_MICROS + part(5)? * datetime::MINUTE_MICROS;
    Ok(Datum::Interval(Interval {
        months: i32::try_from(part(0)? * 12 + part(1)?).map_err(|_| range())?,
        days: i32::try_from(part(2)? * 7 + part(3)?).map_err(|_| range())?,
        micros: whole.checked_add(micros as i64).ok_or_else(range)?,
    }))
}

fn days(d: &Datum) -> EvalResult<i32> {
    match d {
        Datum::Date(days) => Ok(*days),
        _ => Err(wrong("a date", d)),
    }
}

fn local_now(ctx: &EvalCtx<'_>) -> i64 {
    zone::to_local(&ctx.stmt.format.time_zone, ctx.stmt.format.now)
}

/// Microseconds rounded to so many digits after the second: six for more.
fn rounded(micros: i64, digits: &Datum) -> EvalResult<i64> {
    Ok(datetime::round_micros(micros, int(digits)?.clamp(0, 6) as u8))
}

fn date_add(date: &Datum, by: i64) -> EvalResult<Datum> {
    let days = days(date)?;
    if days == i32::MAX || days == i32::MIN {
        return Ok(Datum::Date(days));
    }
    Ok(Datum::Date(datetime::check_date(i64::from(days) + by)?))
}

fn date_sub(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let (a, b) = (days(&args[0])?, days(&args[1])?);
    let infinite = |d| d == i32::MAX || d == i32::MIN;
    if infinite(a) || infinite(b) {
        return Err(SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "cannot subtract infinite dates").into());
    }
    Ok(Datum::Int4(a - b))
}

fn midnight(date: &Datum) -> EvalResult<i64> {
    Ok(match days(date)? {
        i32::MAX => i64::MAX,
        i32::MIN => i64::MIN,
        days => datetime::check_timestamp(i64::from(days).saturating_mul(DAY_MICROS))?,
    })
}

fn date_interval(date: &Datum, by: &Interval) -> EvalResult<Datum> {
    Ok(Datum::Timestamp(arith::timestamp_add(midnight(date)?, by)?))
}

fn date_time(date: &Datum, time: &Datum) -> EvalResult<Datum> {
    let day = midnight(date)?;
    Ok(Datum::Timestamp(match day {
        i64::MAX | i64::MIN => day,
        day => datetime::check_timestamp(day + micros(time)?)?,
    }))
}

fn shift(timestamp: &Datum, by: &Interval) -> EvalResult<Datum> {
    Ok(Datum::Timestamp(arith::timestamp_add(micros(timestamp)?, by)?))
}

fn shift_tz(instant: &Datum, by: &Interval, ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    Ok(Datum::TimestampTz(arith::timestamptz_add(micros(instant)?, by, &ctx.stmt.format.time_zone)?))
}

fn difference(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    Ok(Datum::Interval(arith::timestamp_diff(micros(&args[0])?, micros(&args[1])?)?))
}

fn time_add(time: &Datum, by: i64) -> EvalResult<Datum> {
    Ok(Datum::Time((micros(time)? + by % DAY_MICROS).rem_euclid(DAY_MICROS)))
}

fn isfinite(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let t = micros(&args[0])?;
    Ok(Datum::Bool(t != i64::MAX && t != i64::MIN))
}

fn field_value(args: &[Datum], ctx: &EvalCtx<'_>) -> EvalResult<Option<Numeric>> {
    let name = text(&args[0])?;
    Ok(match &args[1] {
        Datum::Date(days) => fields::of_date(name, *days)?,
        Datum::Time(t) => fields::of_time(name, *t)?,
        Datum::Timestamp(t) => fields::of_timestamp(name, *t)?,
        Datum::TimestampTz(t) => fields::of_timestamptz(name, *t, ctx.stmt.format)?,
        Datum::Interval(i) => fields::of_interval(name, i)?,
        d => return Err(wrong("a date or time", d)),
    })
}

fn field(args: &[Datum], ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    Ok(field_value(args, ctx)?.map_or(Datum::Null, Datum::Numeric))
}

fn date_part(args: &[Datum], ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    // A date counts as its midnight here, so that it has hours.
    let widened;
    let args = if let Datum::Date(_) = args[1] {
        widened = [args[0].clone(), Datum::Timestamp(midnight(&args[1])?)];
        &widened
    } else {
        args
    };
    Ok(field_value(args, ctx)?.map_or(Datum::Null, |n| Datum::Float8(n.to_f64())))
}

fn date_trunc(args: &[Datum], ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let name = text(&args[0])?;
    Ok(match &args[1] {
        Datum::Timestamp(t) => {
            Datum::Timestamp(fields::trunc_timestamp(name, *t, "timestamp without time zone")?)
        }
        Datum::TimestampTz(t) => {
            let named = args.get(2).map(|z| Ok::<_, EvalError>(zone::parse_zone(text(z)?)?)).transpose()?;
            let tz = named.as_ref().unwrap_or(&ctx.stmt.format.time_zone);
            let local = zone::to_local(tz, *t);
            let cut = fields::trunc_timestamp(name, local, "timestamp with time zone")?;
            let instant = if fields::is_within_hour(name) && !matches!(*t, i64::MIN | i64::MAX) {
                datetime::check_timestamp(*t - (local - cut))?
            } else {
                zone::to_instant(tz, cut).ok_or_else(datetime::timestamp_out_of_range)?
            };
            Datum::TimestampTz(instant)
        }
        Datum::Interval(i) => Datum::Interval(fields::trunc_interval(name, i)?),
        d => return Err(wrong("a date or time", d)),
    })
}

fn out_of_range(what: String) -> EvalError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, what).into()
}

fn civil_days(year: i64, month: i64, day: i64) -> Option<i64> {
    // A negative year is BC; there is no year 0.
    let astronomical = if year < 0 { year + 1 } else { year };
    let (y, m, d) = (i32::try_from(astronomical).ok()?, u32::try_from(month).ok()?, u32::try_from(day).ok()?);
    let valid = year != 0 && (1..=12).contains(&m) && d >= 1 && d <= datetime::days_in_month(y, m);
    valid.then(|| datetime::days_from_civil(y, m, d))
}

fn make_date(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let (y, m, d) = (int(&args[0])?, int(&args[1])?, int(&args[2])?);
    let days = civil_days(y, m, d)
        .and_then(|days| datetime::check_date(days).ok())
        .ok_or_else(|| out_of_range(format!("date field value out of range: {y}-{m:02}-{d:02}")))?;
    Ok(Datum::Date(days))
}

fn clock(h: &Datum, m: &Datum, s: &Datum) -> EvalResult<i64> {
    let (h, m, s) = (int(h)?, int(m)?, float(s)?);
    let micros = (s * 1e6).round_ties_even();
    let total = ((h * 3600 + m * 60) * 1_000_000).saturating_add(micros as i64);
    if !(0..=24).contains(&h) || !(0..=59).contains(&m) || !(0.0..=60.0).contains(&s) || total > DAY_MICROS {
        return Err(out_of_range(format!("time field value out of range: {h}:{m:02}:{s:02}")));
    }
    Ok(total)
}

fn make_timestamp(args: &[Datum]) -> EvalResult<i64> {
    let (y, m, d) = (int(&args[0])?, int(&args[1])?, int(&args[2])?);
    let days = civil_days(y, m, d)
        .ok_or_else(|| out_of_range(format!("date field value out of range: {y}-{m:02}-{d:02}")))?;
    let time = clock(&args[3], &args[4], &args[5])?;
    let total = days.checked_mul(DAY_MICROS).and_then(|t| t.checked_add(time));
    Ok(datetime::check_timestamp(total.ok_or_else(datetime::timestamp_out_of_range)?)?)
}

fn to_timestamp(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let seconds = float(&args[0])?;
    if seconds.is_nan() {
        return Err(out_of_range("timestamp cannot be NaN".to_owned()));
    }
    if seconds.is_infinite() {
        return Ok(Datum::TimestampTz(if seconds > 0.0 { i64::MAX } else { i64::MIN }));
    }
    // Seconds from the Unix epoch to 2000-01-01.
    let micros = ((seconds - 946_684_800.0) * 1e6).round_ties_even();
    if micros.abs() > 9.2e18 {
        return Err(out_of_range("timestamp out of range".to_owned()));
    }
    Ok(Datum::TimestampTz(datetime::check_timestamp(micros as i64)?))
}

#[cfg(test)]
mod tests {
    use crate::session::testing::Bench;

    #[test]
    fn the_time_of_day_is_written_as_unix_writes_it() {
        let mut bench = Bench::new();
        let mut session = bench.session();
        bench.run(&mut session, "SET TIME ZONE 'UTC'");
        let like =
            "^[A-Z][a-z]{2} [A-Z][a-z]{2} [0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}[.][0-9]{6} [0-9]{4} UTC$";
        assert_eq!(bench.run(&mut session, &format!("SELECT timeofday() ~ '{like}'")).lines(), ["t"]);
    }
}
