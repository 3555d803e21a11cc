//! Dates and times read by a template: to_date, to_timestamp.

use base::{SqlError, SqlState};
use types::Datum;
use types::datetime::{self, DAY_MICROS, HOUR_MICROS, MINUTE_MICROS, SECOND_MICROS, zone};

use super::time_template::{
    Affixes, Convention, DAYS, EPOCH_JULIAN, Key, MONTHS, Node, ROMAN_MONTHS, from_julian, is_space,
    iso_week_start, julian, nodes, nodes_len, separates,
};
use super::*;

pub(super) static FUNCTIONS: &[FunctionDef] = &[
    FunctionDef::new("to_date", &[TEXT, TEXT], DATE, |a, c| {
        let value = text(&a[0])?;
        let moment = moment(value, text(&a[1])?, c)?;
        let days = datetime::check_date(moment.days).map_err(|_| {
            let message = format!("date out of range: \"{value}\"");
            SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, message)
        })?;
        Ok(Datum::Date(days))
    })
    .stable(),
    FunctionDef::new("to_timestamp", &[TEXT, TEXT], TIMESTAMPTZ, |a, c| {
        let moment = moment(text(&a[0])?, text(&a[1])?, c)?;
        let local = moment.days.checked_mul(DAY_MICROS).and_then(|days| days.checked_add(moment.micros));
        let local = datetime::check_timestamp(local.ok_or_else(datetime::timestamp_out_of_range)?)?;
        let instant = match moment.offset {
            Some(seconds) => local.checked_sub(seconds * SECOND_MICROS),
            None => zone::to_instant(&c.stmt.format.time_zone, local),
        };
        let instant = instant.ok_or_else(datetime::timestamp_out_of_range)?;
        let instant = datetime::check_timestamp(instant)?;
        Ok(Datum::TimestampTz(datetime::round_micros(instant, moment.digits.unwrap_or(6))))
    })
    .stable(),
];

struct Moment {
    days: i64,
    micros: i64,
    /// Seconds east of Greenwich, if they were given.
    offset: Option<i64>,
    /// Digits of its second to round it to, if a pattern said them.
    digits: Option<u8>,
}

/// Values as they were read; 0 where there was none, as PostgreSQL has it.
#[derive(Default)]
struct Fields {
    convention: Option<Convention>,
    hour: i64,
    twelve_hours: bool,
    pm: i64,
    minute: i64,
    second: i64,
    second_of_day: i64,
    weekday: i64,
    day: i64,
    day_of_year: i64,
    month: i64,
    millis: i64,
    micros: i64,
    /// Digits that the last pattern of a fraction said.
    fraction_digits: Option<u8>,
    year: i64,
    /// Digits of the year's pattern.
    year_digits: usize,
    bc: i64,
    week: i64,
    week_of_month: i64,
    century: i64,
    julian: i64,
    zone_sign: i64,
    zone_hours: i64,
    zone_minutes: i64,
}

fn bad(message: String) -> EvalError {
    SqlError::new(SqlState::INVALID_DATETIME_FORMAT, message).into()
}

/// Sets a field, which may have been set to the same value only.
fn set(field: &mut i64, value: i64, key: &Key) -> EvalResult<()> {
    if *field != 0 && *field != value {
        let message = format!("conflicting values for \"{}\" field in formatting string", key.name);
        return Err(SqlError::new(SqlState::INVALID_DATETIME_FORMAT, message)
            .with_detail("This value contradicts a previous setting for the same field type.")
            .into());
    }
    *field = value;
    Ok(())
}

/// The text that is read, and the nodes of its template.
struct Reader<'a> {
    text: &'a str,
    at: usize,
    nodes: Vec<Node>,
    /// `FX`: what stands between values counts.
    exact: bool,
    /// Characters passed over more than the template had.
    extra: i64,
}

/// C's `strtol`: the number, if it fits, and the length of its text with what stood before; 0 if there is none.
fn number_at(text: &str) -> (Option<i64>, usize) {
    let blanks = text.len() - text.trim_start_matches(is_space).len();
    let sign = usize::from(text[blanks..].starts_with(['+', '-']));
    let digits = text[blanks + sign..].bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 {
        return (Some(0), 0);
    }
    let end = blanks + sign + digits;
    (text[blanks..end].parse().ok(), end)
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn pass(&mut self) {
        self.at += self.rest().chars().next().map_or(0, char::len_utf8);
    }

    /// Passes blanks and says how many.
    fn blanks(&mut self) -> i64 {
        let rest = self.rest();
        let count = rest.len() - rest.trim_start_matches(is_space).len();
        self.at += count;
        count as i64
    }

    /// Whether what follows node `place` cannot begin with a digit.
    fn ends_with_separator(&self, place: usize, affixes: Affixes) -> bool {
        if affixes.ordinal.is_some() {
            return true;
        }
        match self.nodes.get(place + 1) {
            None => true,
            Some(Node::Key(key, _)) => !key.digits,
            Some(Node::Space(c) | Node::Separator(c) | Node::Char(c)) => !c.is_ascii_digit(),
        }
    }

    /// A whole number of `width` digits, or of any where nothing tells them from what follows; and the length of its text.
    fn number(
        &mut self,
        place: usize,
        width: usize,
        key: &Key,
        affixes: Affixes,
    ) -> EvalResult<(i64, usize)> {
        let start = self.at;
        self.blanks();
        let head: String = self.rest().chars().take(width).collect();
        let value;
        if affixes.fill || self.ends_with_separator(place, affixes) {
            let (number, len) = number_at(&self.text[start..]);
            value = number;
            self.at = start + len;
        } else {
            let left = self.rest().len();
            if left < width {
                let message = format!("source string too short for \"{}\" formatting field", key.name);
                return Err(SqlError::new(SqlState::INVALID_DATETIME_FORMAT, message)
                    .with_detail(format!("Field requires {width} characters, but only {left} remain."))
                    .with_hint("If your source string is not fixed-width, try using the \"FM\" modifier.")
                    .into());
            }
            let (number, used) = number_at(&head);
            if used > 0 && used < width {
                return Err(SqlError::new(
                    SqlState::INVALID_DATETIME_FORMAT,
                    format!("invalid value \"{head}\" for \"{}\"", key.name),
                )
                .with_detail(format!("Field requires {width} characters, but only {used} could be parsed."))
                .with_hint("If your source string is not fixed-width, try using the \"FM\" modifier.")
                .into());
            }
            value = number;
            self.at += used;
        }
        if self.at == start {
            return Err(SqlError::new(
                SqlState::INVALID_DATETIME_FORMAT,
                format!("invalid value \"{head}\" for \"{}\"", key.name),
            )
            .with_detail("Value must be an integer.")
            .into());
        }
        let value = value.filter(|value| i32::try_from(*value).is_ok()).ok_or_else(|| {
            SqlError::new(
                SqlState::DATETIME_FIELD_OVERFLOW,
                format!("value for \"{}\" in source string is out of range", key.name),
            )
            .with_detail(format!("Value must be in the range {} to {}.", i32::MIN, i32::MAX))
        })?;
        let len = self.at - start;
        if affixes.ordinal.is_some() {
            self.pass();
            self.pass();
        }
        Ok((value, len))
    }

    /// The place of the first of `words` that the text goes on with.
    fn word(&mut self, words: impl IntoIterator<Item = &'static str>, key: &Key) -> EvalResult<i64> {
        let rest = self.rest();
        let found = words
            .into_iter()
            .enumerate()
            .find(|(_, word)| rest.get(..word.len()).is_some_and(|head| head.eq_ignore_ascii_case(word)));
        match found {
            Some((place, word)) => {
                self.at += word.len();
                Ok(place as i64)
            }
            None => {
                let shown = rest.split(is_space).next().unwrap_or("");
                let message = format!("invalid value \"{shown}\" for \"{}\"", key.name);
                Err(SqlError::new(SqlState::INVALID_DATETIME_FORMAT, message)
                    .with_detail("The given value did not match any of the allowed values for this field.")
                    .into())
            }
        }
    }

    fn read(&mut self) -> EvalResult<Fields> {
        let mut fields = Fields::default();
        for place in 0..self.nodes.len() {
            if self.rest().is_empty() {
                break;
            }
            let node = self.nodes[place];
            let (is_key, is_fx) = match node {
                Node::Key(key, _) => (true, key.name.eq_ignore_ascii_case("FX")),
                _ => (false, false),
            };
            if !self.exact && !is_fx && (is_key || place == 0) {
                self.extra += self.blanks();
            }
            match node {
                Node::Space(_) | Node::Separator(_) => {
                    if self.exact {
                        self.pass();
                    } else {
                        self.extra -= 1;
                        if self.rest().starts_with(separates) {
                            self.pass();
                            self.extra += 1;
                        }
                    }
                }
                Node::Char(_) if !self.exact && self.extra > 0 => self.extra -= 1,
                Node::Char(_) => self.pass(),
                Node::Key(key, affixes) => {
                    if key.convention != Convention::Any {
                        if fields.convention.is_some_and(|known| known != key.convention) {
                            return Err(SqlError::new(
                                SqlState::INVALID_DATETIME_FORMAT,
                                "invalid combination of date conventions",
                            )
                            .with_hint(
                                "Do not mix Gregorian and ISO week date conventions in a formatting template.",
                            )
                            .into());
                        }
                        fields.convention = Some(key.convention);
                    }
                    self.field(place, key, affixes, &mut fields)?;
                    if !self.exact {
                        self.extra = self.blanks();
                    }
                }
            }
        }
        Ok(fields)
    }

    fn field(&mut self, place: usize, key: &Key, affixes: Affixes, fields: &mut Fields) -> EvalResult<()> {
        let upper = key.name.to_ascii_uppercase();
        let len = key.name.len();
        let number = |reader: &mut Self, width: usize| reader.number(place, width, key, affixes);
        match upper.as_str() {
            "FX" => self.exact = true,
            "A.M." | "P.M." => {
                let value = self.word(["a.m.", "p.m."], key)?;
                set(&mut fields.pm, value, key)?;
                fields.twelve_hours = true;
            }
            "AM" | "PM" => {
                let value = self.word(["am", "pm"], key)?;
                set(&mut fields.pm, value, key)?;
                fields.twelve_hours = true;
            }
            "HH" | "HH12" => {
                set(&mut fields.hour, number(self, 2)?.0, key)?;
                fields.twelve_hours = true;
            }
            "HH24" => set(&mut fields.hour, number(self, 2)?.0, key)?,
            "MI" => set(&mut fields.minute, number(self, len)?.0, key)?,
            "SS" => set(&mut fields.second, number(self, len)?.0, key)?,
            "MS" => {
                let (value, digits) = number(self, 3)?;
                set(&mut fields.millis, value, key)?;
                fields.millis *= 10i64.pow(3usize.saturating_sub(digits) as u32);
            }
            "US" | "FF1" | "FF2" | "FF3" | "FF4" | "FF5" | "FF6" => {
                let said: Option<u8> = upper.strip_prefix("FF").and_then(|n| n.parse().ok());
                fields.fraction_digits = said.or(fields.fraction_digits);
                let (value, digits) = number(self, said.map_or(6, usize::from))?;
                set(&mut fields.micros, value, key)?;
                fields.micros *= 10i64.pow(6usize.saturating_sub(digits) as u32);
            }
            "SSSS" | "SSSSS" => set(&mut fields.second_of_day, number(self, len)?.0, key)?,
            "TZ" | "OF" => {
                let message = format!("formatting field \"{}\" is only supported in to_char", key.name);
                return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).into());
            }
            "TZH" => {
                match self.rest().as_bytes().first() {
                    Some(sign @ (b'+' | b'-' | b' ')) => {
                        fields.zone_sign = if *sign == b'-' { -1 } else { 1 };
                        self.pass();
                    }
                    // The sign may have passed for what separates.
                    _ if self.extra > 0 && self.text[..self.at].ends_with('-') => fields.zone_sign = -1,
                    _ => fields.zone_sign = 1,
                }
                set(&mut fields.zone_hours, number(self, 2)?.0, key)?;
            }
            "TZM" => {
                if fields.zone_sign == 0 {
                    fields.zone_sign = 1;
                }
                set(&mut fields.zone_minutes, number(self, 2)?.0, key)?;
            }
            "A.D." | "B.C." => set(&mut fields.bc, self.word(["a.d.", "b.c."], key)?, key)?,
            "AD" | "BC" => set(&mut fields.bc, self.word(["ad", "bc"], key)?, key)?,
            "MONTH" => set(&mut fields.month, self.word(MONTHS, key)? + 1, key)?,
            "MON" => set(&mut fields.month, self.word(MONTHS.map(|name| &name[..3]), key)? + 1, key)?,
            "MM" => set(&mut fields.month, number(self, len)?.0, key)?,
            "DAY" | "DY" => {
                let value = if len == 3 {
                    self.word(DAYS, key)?
                } else {
                    self.word(DAYS.map(|name| &name[..3]), key)?
                };
                set(&mut fields.weekday, value, key)?;
                fields.weekday += 1;
            }
            "DDD" => set(&mut fields.day_of_year, number(self, len)?.0, key)?,
            "IDDD" => set(&mut fields.day_of_year, number(self, 3)?.0, key)?,
            "DD" => set(&mut fields.day, number(self, len)?.0, key)?,
            "D" => set(&mut fields.weekday, number(self, len)?.0, key)?,
            "ID" => {
                set(&mut fields.weekday, number(self, 1)?.0, key)?;
                fields.weekday = if fields.weekday + 1 > 7 { 1 } else { fields.weekday + 1 };
            }
            "WW" | "IW" => set(&mut fields.week, number(self, len)?.0, key)?,
            // Which day of the quarter is meant nobody knows.
            "Q" => drop(number(self, len)?),
            "CC" => set(&mut fields.century, number(self, len)?.0, key)?,
            "Y,YYY" => {
                let invalid = || bad("invalid input string for \"Y,YYY\"".to_owned());
                let (thousands, end) = number_at(self.rest());
                let behind = self.rest()[end..].strip_prefix(',').filter(|_| end > 0).ok_or_else(invalid)?;
                let head: String = behind.chars().take(3).collect();
                let (years, len) = number_at(&head);
                let (Some(thousands), Some(years), 1..) = (thousands, years, len) else {
                    return Err(invalid());
                };
                set(&mut fields.year, years.saturating_add(thousands.saturating_mul(1000)), key)?;
                fields.year_digits = 4;
                self.at += end + 1 + len;
                if affixes.ordinal.is_some() {
                    self.pass();
                    self.pass();
                }
            }
            "YYYY" | "IYYY" => {
                set(&mut fields.year, number(self, len)?.0, key)?;
                fields.year_digits = 4;
            }
            "YYY" | "IYY" | "YY" | "IY" | "Y" | "I" => {
                let (value, digits) = number(self, len)?;
                set(&mut fields.year, value, key)?;
                if digits < 4 {
                    fields.year = near_2020(fields.year);
                }
                fields.year_digits = len;
            }
            "RM" => set(&mut fields.month, 12 - self.word(ROMAN_MONTHS, key)?, key)?,
            "W" => set(&mut fields.week_of_month, number(self, len)?.0, key)?,
            "J" => set(&mut fields.julian, number(self, len)?.0, key)?,
            _ => return Err(SqlError::internal(format!("no such pattern: {}", key.name)).into()),
        }
        Ok(())
    }
}

/// Years, weeks and days beyond this are in no date, whatever they are added to.
const FAR_AWAY: i64 = 100_000_000;

/// The year that a short form stands for.
fn near_2020(year: i64) -> i64 {
    match year {
        ..70 => year + 2000,
        70..100 => year + 1900,
        100..520 => year + 2000,
        520..1000 => year + 1000,
        _ => year,
    }
}

fn moment(value: &str, template: &str, ctx: &EvalCtx<'_>) -> EvalResult<Moment> {
    ctx.room(nodes_len(template))?;
    let mut reader = Reader { text: value, at: 0, nodes: nodes(template), exact: false, extra: 0 };
    let fields = reader.read()?;
    let out_of_range = || -> EvalError {
        SqlError::new(
            SqlState::DATETIME_FIELD_OVERFLOW,
            format!("date/time field value out of range: \"{value}\""),
        )
        .into()
    };
    let or = |value: i64, other: i64| if value != 0 { value } else { other };
    let second_of_day = fields.second_of_day;
    let mut hour = or(fields.hour, second_of_day / 3600);
    let minute = or(fields.minute, second_of_day % 3600 / 60);
    let second = or(fields.second, second_of_day % 60);
    if fields.twelve_hours {
        if !(1..=12).contains(&hour) {
            let message = format!("hour \"{hour}\" is invalid for the 12-hour clock");
            return Err(SqlError::new(SqlState::INVALID_DATETIME_FORMAT, message)
                .with_hint("Use the 24-hour clock, or give an hour between 1 and 12.")
                .into());
        }
        hour = hour % 12 + if fields.pm != 0 { 12 } else { 0 };
    }
    let (year, month, day) = date(&fields, value, &out_of_range)?;
    let micros = fields.millis * 1000 + fields.micros;
    let in_range = (0..24).contains(&hour)
        && (0..60).contains(&minute)
        && (0..60).contains(&second)
        && (0..SECOND_MICROS).contains(&micros);
    if !in_range {
        return Err(out_of_range());
    }
    let offset = match fields.zone_sign {
        0 => None,
        sign => {
            if !(0..=15).contains(&fields.zone_hours) || !(0..60).contains(&fields.zone_minutes) {
                let message = format!("time zone displacement out of range: \"{value}\"");
                return Err(SqlError::new(SqlState::INVALID_TIME_ZONE_DISPLACEMENT_VALUE, message).into());
            }
            Some(sign * (fields.zone_hours * 3600 + fields.zone_minutes * 60))
        }
    };
    Ok(Moment {
        days: julian(year, month, day) - EPOCH_JULIAN,
        micros: hour * HOUR_MICROS + minute * MINUTE_MICROS + second * SECOND_MICROS + micros,
        offset,
        digits: fields.fraction_digits,
    })
}

/// The date that the fields stand for together.
fn date(fields: &Fields, value: &str, out_of_range: &dyn Fn() -> EvalError) -> EvalResult<(i64, i64, i64)> {
    let bc = fields.bc != 0;
    let century = if bc { -fields.century } else { fields.century };
    let (mut year, mut month, mut day) = (0, 1, 1);
    let (mut has_year, mut has_month, mut has_day) = (fields.year != 0 || fields.century != 0, false, false);
    if fields.year != 0 {
        if fields.century != 0 && fields.year_digits <= 2 {
            year = match fields.year % 100 {
                0 => century * 100 + i64::from(century < 0),
                short if century >= 0 => short + (century - 1) * 100,
                short => (century + 1) * 100 - short + 1,
            };
        } else {
            year = if bc { -fields.year } else { fields.year };
            // There is no year 0.
            year += i64::from(year < 0);
        }
    } else if fields.century != 0 {
        year = if century >= 0 { (century - 1) * 100 + 1 } else { century * 100 + 1 };
    }
    let iso = fields.convention == Some(Convention::IsoWeek);
    let far = |part: i64| part.abs() > FAR_AWAY;
    if far(year) || far(fields.week) || iso && far(fields.day_of_year) {
        let message = format!("date out of range: \"{value}\"");
        return Err(SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, message).into());
    }
    if fields.julian != 0 {
        (year, month, day) = from_julian(fields.julian);
        (has_year, has_month, has_day) = (true, true, true);
    }
    let mut day_of_year = fields.day_of_year;
    if fields.week != 0 {
        if iso {
            let start = iso_week_start(year, fields.week);
            let behind = match fields.weekday {
                0 => 0,
                // From Sunday, 1, which ends the week.
                weekday if weekday > 1 => weekday - 2,
                _ => 6,
            };
            (year, month, day) = from_julian(start + behind);
            (has_year, has_month, has_day) = (true, true, true);
        } else {
            day_of_year = (fields.week - 1) * 7 + 1;
        }
    }
    let of_month = if fields.week_of_month != 0 { (fields.week_of_month - 1) * 7 + 1 } else { fields.day };
    if of_month != 0 {
        (day, has_day) = (of_month, true);
    }
    if fields.month != 0 {
        (month, has_month) = (fields.month, true);
    }
    if day_of_year != 0 && (month <= 1 || day <= 1) {
        if year == 0 && !bc {
            return Err(bad("cannot calculate day of year without year information".to_owned()));
        }
        if iso {
            (year, month, day) = from_julian(iso_week_start(year, 1) - 1 + day_of_year);
            (has_year, has_month, has_day) = (true, true, true);
        } else {
            let leap = i32::try_from(year).is_ok_and(datetime::is_leap);
            let lengths = [31, if leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
            let (mut before, mut place) = (0, 1);
            for length in lengths {
                if day_of_year <= before + length {
                    break;
                }
                before += length;
                place += 1;
            }
            if month <= 1 {
                month = place;
            }
            if day <= 1 {
                day = day_of_year - before;
            }
            (has_month, has_day) = (true, true);
        }
    }
    let month_fits = (1..=12).contains(&month);
    if has_month && !month_fits || has_day && !(1..=31).contains(&day) {
        return Err(out_of_range());
    }
    if has_year && has_month && has_day {
        let in_calendar = i32::try_from(year).map_err(|_| out_of_range())?;
        if day > i64::from(datetime::days_in_month(in_calendar, month as u32)) {
            return Err(out_of_range());
        }
    }
    Ok((year, month, day))
}
