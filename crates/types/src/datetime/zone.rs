//! Time zones: offsets of instants, instants of local times, and the names zones are given by.

use base::{SqlError, SqlResult, SqlState};
use jiff::Timestamp;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};

use super::{Civil, SECOND_MICROS};
use crate::UNIX_TO_PG_EPOCH_MICROS;

/// Years after which the calendar repeats itself, weekdays and all, and with it what zones do; and their microseconds.
const CYCLE_YEARS: i32 = 400;
const CYCLE_MICROS: i64 = 146_097 * super::DAY_MICROS;

/// The instant as the crate jiff has it. It ends in the year 9999: later ones count as those of the same day so many cycles before, and
/// those before its first as that.
fn stamp_of(instant: i64) -> Timestamp {
    let unix = instant.saturating_add(UNIX_TO_PG_EPOCH_MICROS);
    let in_range = Timestamp::from_microsecond(unix).ok();
    in_range.unwrap_or_else(|| match unix {
        ..0 => Timestamp::MIN,
        late => {
            let cycles = (late - Timestamp::MAX.as_microsecond()) / CYCLE_MICROS + 1;
            Timestamp::from_microsecond(late - cycles * CYCLE_MICROS).unwrap_or(Timestamp::MAX)
        }
    })
}

/// Seconds east of Greenwich that `zone` is at `instant`.
pub fn offset_at(zone: &TimeZone, instant: i64) -> i32 {
    if let Ok(offset) = zone.to_fixed_offset() {
        return offset.seconds();
    }
    zone.to_offset(stamp_of(instant)).seconds()
}

/// The short name of the zone at `instant` (`CET`, `+02`).
pub fn abbreviation_at(zone: &TimeZone, instant: i64) -> String {
    zone.to_offset_info(stamp_of(instant)).abbreviation().to_owned()
}

/// A zone of the time zone database at an instant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamedZone {
    pub name: String,
    pub abbreviation: String,
    /// East of Greenwich.
    pub offset_seconds: i32,
    pub is_dst: bool,
}

/// All zones of the time zone database at `instant`, by their names in order. Reads the files of those that were not asked for yet.
pub fn all_at(instant: i64) -> Vec<NamedZone> {
    let mut names: Vec<String> = jiff::tz::db().available().map(|name| name.as_str().to_owned()).collect();
    names.sort_unstable();
    let at = stamp_of(instant);
    let zone_then = |name: String| {
        let zone = TimeZone::get(&name).ok()?;
        let then = zone.to_offset_info(at);
        let (abbreviation, offset_seconds) = (then.abbreviation().to_owned(), then.offset().seconds());
        Some(NamedZone { name, abbreviation, offset_seconds, is_dst: then.dst().is_dst() })
    };
    names.into_iter().filter_map(zone_then).collect()
}

/// The local time of an instant in `zone`, as a timestamp without time zone.
pub fn to_local(zone: &TimeZone, instant: i64) -> i64 {
    if instant == i64::MAX || instant == i64::MIN {
        return instant;
    }
    instant + i64::from(offset_at(zone, instant)) * SECOND_MICROS
}

/// Seconds east that `zone` is at a local time. In a gap the offset before it counts, in a fold the one after, as in PostgreSQL.
pub fn offset_of_local(zone: &TimeZone, local: i64) -> i32 {
    if let Ok(offset) = zone.to_fixed_offset() {
        return offset.seconds();
    }
    let civil = Civil::from_timestamp(local);
    let year = match civil.year {
        late @ 9999.. => 9999 - CYCLE_YEARS + (late - 9999) % CYCLE_YEARS,
        year => year.max(-9998),
    };
    let day = civil.day.min(super::days_in_month(year, civil.month));
    let seconds = civil.micros / SECOND_MICROS;
    let date_time = jiff::civil::date(year as i16, civil.month as i8, day as i8).at(
        (seconds / 3600) as i8,
        (seconds / 60 % 60) as i8,
        (seconds % 60) as i8,
        0,
    );
    match zone.to_ambiguous_timestamp(date_time).offset() {
        AmbiguousOffset::Unambiguous { offset } => offset.seconds(),
        AmbiguousOffset::Gap { before, .. } => before.seconds(),
        AmbiguousOffset::Fold { after, .. } => after.seconds(),
    }
}

/// The instant of a local time in `zone`; `None` out of range.
pub fn to_instant(zone: &TimeZone, local: i64) -> Option<i64> {
    if local == i64::MAX || local == i64::MIN {
        return Some(local);
    }
    super::check_timestamp(local - i64::from(offset_of_local(zone, local)) * SECOND_MICROS).ok()
}

/// Abbreviations PostgreSQL knows by default that zone files do not name, with hours east. The common ones.
const ABBREVIATIONS: &[(&str, i32)] = &[
    ("utc", 0),
    ("gmt", 0),
    ("z", 0),
    ("zulu", 0),
    ("ut", 0),
    ("uct", 0),
    ("wet", 0),
    ("west", 1),
    ("bst", 1),
    ("cet", 1),
    ("cest", 2),
    ("met", 1),
    ("mest", 2),
    ("eet", 2),
    ("eest", 3),
    ("msk", 3),
    ("ist", 2),
    ("jst", 9),
    ("kst", 9),
    ("hkt", 8),
    ("sgt", 8),
    ("aest", 10),
    ("aedt", 11),
    ("nzst", 12),
    ("nzdt", 13),
    ("ast", -4),
    ("adt", -3),
    ("est", -5),
    ("edt", -4),
    ("cst", -6),
    ("cdt", -5),
    ("mst", -7),
    ("mdt", -6),
    ("pst", -8),
    ("pdt", -7),
    ("akst", -9),
    ("akdt", -8),
    ("hst", -10),
];

/// The offset of a zone's abbreviation in seconds east.
pub fn abbreviation(name: &str) -> Option<i32> {
    ABBREVIATIONS.iter().find(|(known, _)| name.eq_ignore_ascii_case(known)).map(|(_, hours)| hours * 3600)
}

/// A fixed offset in seconds east.
pub fn fixed(seconds: i32) -> Option<TimeZone> {
    Offset::from_seconds(seconds).ok().map(TimeZone::fixed)
}

/// `+2`, `-05:30`, `+0530`, `+05:30:15`: seconds, with the sign as written.
pub fn parse_offset(text: &str) -> Option<i32> {
    let (sign, body) = match text.as_bytes().first()? {
        b'+' => (1, &text[1..]),
        b'-' => (-1, &text[1..]),
        _ => return None,
    };
    let number = |s: &str| -> Option<i32> {
        if s.is_empty() || s.len() > 2 || !s.bytes().all(|b| b.is_ascii_digit()) {
            None
        } else {
            s.parse().ok()
        }
    };
    let (h, m, s) = if body.contains(':') {
        let mut parts = body.split(':');
        let h = number(parts.next()?)?;
        let m = number(parts.next()?)?;
        let s = parts.next().map_or(Some(0), number)?;
        if parts.next().is_some() {
            return None;
        }
        (h, m, s)
    } else {
        // Digits alone can be cut anywhere.
        if !body.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        match body.len() {
            1 | 2 => (number(body)?, 0, 0),
            3 => (number(&body[..1])?, number(&body[1..])?, 0),
            4 => (number(&body[..2])?, number(&body[2..])?, 0),
            6 => (number(&body[..2])?, number(&body[2..4])?, number(&body[4..])?),
            _ => return None,
        }
    };
    if h > 15 || m > 59 || s > 59 {
        return None;
    }
    Some(sign * (h * 3600 + m * 60 + s))
}

/// The zone of that name, as `SET TimeZone` and `AT TIME ZONE` accept it: a name of the time zone database, an abbreviation,
/// or an offset. In a bare offset and in POSIX forms like `UTC+3` positive is west, as POSIX has it.
///
/// # Errors
/// 22023 "time zone … not recognized".
pub fn parse_zone(name: &str) -> SqlResult<TimeZone> {
    let trimmed = name.trim();
    if let Some(seconds) = abbreviation(trimmed) {
        return Ok(if seconds == 0 { TimeZone::UTC } else { fixed(seconds).expect("within a day") });
    }
    if let Some(zone) = parse_offset(trimmed).and_then(|seconds| fixed(-seconds)) {
        return Ok(zone);
    }
    if let Ok(zone) = TimeZone::get(trimmed) {
        return Ok(zone);
    }
    if let Some(at) = trimmed.find(['+', '-'])
        && trimmed[..at].bytes().all(|b| b.is_ascii_alphabetic())
        && at >= 3
        && let Some(zone) = parse_offset(&trimmed[at..]).and_then(|seconds| fixed(-seconds))
    {
        return Ok(zone);
    }
    Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("time zone \"{name}\" not recognized")))
}
