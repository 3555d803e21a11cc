//! Templates of dates and times, taken apart as PostgreSQL's `formatting.c` does, and the calendar that both directions share.

use types::datetime;

/// Which calendar's weeks and years a pattern is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Convention {
    Any,
    Gregorian,
    IsoWeek,
}

#[derive(Debug)]
pub(super) struct Key {
    pub(super) name: &'static str,
    /// Whether its value begins with a digit.
    pub(super) digits: bool,
    pub(super) convention: Convention,
}

const fn key(name: &'static str, digits: bool, convention: Convention) -> Key {
    Key { name, digits, convention }
}

/// The patterns in the order they are looked for.
static KEYS: &[Key] = &[
    key("A.D.", false, Convention::Any),
    key("A.M.", false, Convention::Any),
    key("AD", false, Convention::Any),
    key("AM", false, Convention::Any),
    key("B.C.", false, Convention::Any),
    key("BC", false, Convention::Any),
    key("CC", true, Convention::Any),
    key("DAY", false, Convention::Any),
    key("DDD", true, Convention::Gregorian),
    key("DD", true, Convention::Gregorian),
    key("DY", false, Convention::Any),
    key("Day", false, Convention::Any),
    key("Dy", false, Convention::Any),
    key("D", true, Convention::Gregorian),
    key("FF1", true, Convention::Any),
    key("FF2", true, Convention::Any),
    key("FF3", true, Convention::Any),
    key("FF4", true, Convention::Any),
    key("FF5", true, Convention::Any),
    key("FF6", true, Convention::Any),
    key("FX", false, Convention::Any),
    key("HH24", true, Convention::Any),
    key("HH12", true, Convention::Any),
    key("HH", true, Convention::Any),
    key("IDDD", true, Convention::IsoWeek),
    key("ID", true, Convention::IsoWeek),
    key("IW", true, Convention::IsoWeek),
    key("IYYY", true, Convention::IsoWeek),
    key("IYY", true, Convention::IsoWeek),
    key("IY", true, Convention::IsoWeek),
    key("I", true, Convention::IsoWeek),
    key("J", true, Convention::Any),
    key("MI", true, Convention::Any),
    key("MM", true, Convention::Gregorian),
    key("MONTH", false, Convention::Gregorian),
    key("MON", false, Convention::Gregorian),
    key("MS", true, Convention::Any),
    key("Month", false, Convention::Gregorian),
    key("Mon", false, Convention::Gregorian),
    key("OF", false, Convention::Any),
    key("P.M.", false, Convention::Any),
    key("PM", false, Convention::Any),
    key("Q", true, Convention::Any),
    key("RM", false, Convention::Gregorian),
    key("SSSSS", true, Convention::Any),
    key("SSSS", true, Convention::Any),
    key("SS", true, Convention::Any),
    key("TZH", false, Convention::Any),
    key("TZM", true, Convention::Any),
    key("TZ", false, Convention::Any),
    key("US", true, Convention::Any),
    key("WW", true, Convention::Gregorian),
    key("W", true, Convention::Gregorian),
    key("Y,YYY", true, Convention::Gregorian),
    key("YYYY", true, Convention::Gregorian),
    key("YYY", true, Convention::Gregorian),
    key("YY", true, Convention::Gregorian),
    key("Y", true, Convention::Gregorian),
    key("a.d.", false, Convention::Any),
    key("a.m.", false, Convention::Any),
    key("ad", false, Convention::Any),
    key("am", false, Convention::Any),
    key("b.c.", false, Convention::Any),
    key("bc", false, Convention::Any),
    key("cc", true, Convention::Any),
    key("day", false, Convention::Any),
    key("ddd", true, Convention::Gregorian),
    key("dd", true, Convention::Gregorian),
    key("dy", false, Convention::Any),
    key("d", true, Convention::Gregorian),
    key("ff1", true, Convention::Any),
    key("ff2", true, Convention::Any),
    key("ff3", true, Convention::Any),
    key("ff4", true, Convention::Any),
    key("ff5", true, Convention::Any),
    key("ff6", true, Convention::Any),
    key("fx", false, Convention::Any),
    key("hh24", true, Convention::Any),
    key("hh12", true, Convention::Any),
    key("hh", true, Convention::Any),
    key("iddd", true, Convention::IsoWeek),
    key("id", true, Convention::IsoWeek),
    key("iw", true, Convention::IsoWeek),
    key("iyyy", true, Convention::IsoWeek),
    key("iyy", true, Convention::IsoWeek),
    key("iy", true, Convention::IsoWeek),
    key("i", true, Convention::IsoWeek),
    key("j", true, Convention::Any),
    key("mi", true, Convention::Any),
    key("mm", true, Convention::Gregorian),
    key("month", false, Convention::Gregorian),
    key("mon", false, Convention::Gregorian),
    key("ms", true, Convention::Any),
    key("of", false, Convention::Any),
    key("p.m.", false, Convention::Any),
    key("pm", false, Convention::Any),
    key("q", true, Convention::Any),
    key("rm", false, Convention::Gregorian),
    key("sssss", true, Convention::Any),
    key("ssss", true, Convention::Any),
    key("ss", true, Convention::Any),
    key("tzh", false, Convention::Any),
    key("tzm", true, Convention::Any),
    key("tz", false, Convention::Any),
    key("us", true, Convention::Any),
    key("ww", true, Convention::Gregorian),
    key("w", true, Convention::Gregorian),
    key("y,yyy", true, Convention::Gregorian),
    key("yyyy", true, Convention::Gregorian),
    key("yyy", true, Convention::Gregorian),
    key("yy", true, Convention::Gregorian),
    key("y", true, Convention::Gregorian),
];

/// What stands around a pattern.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Affixes {
    /// `FM`: without blanks and leading zeros.
    pub(super) fill: bool,
    /// `TM`: names in the session's language, which is English, without blanks.
    pub(super) translated: bool,
    /// `th` or `TH`, the latter told by `true`.
    pub(super) ordinal: Option<bool>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Node {
    Key(&'static Key, Affixes),
    Space(char),
    Separator(char),
    Char(char),
}

fn is_separator(c: char) -> bool {
    c.is_ascii_graphic() && !c.is_ascii_alphanumeric()
}

/// Whether a text may have it between two values.
pub(super) fn separates(c: char) -> bool {
    is_space(c) || is_separator(c)
}

/// The C library's `isspace`.
pub(super) fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t'..='\r')
}

/// Bytes that the nodes of a template take at most, while there come to be more of them.
pub(super) fn nodes_len(template: &str) -> usize {
    template.len().saturating_mul(2 * size_of::<Node>())
}

pub(super) fn nodes(template: &str) -> Vec<Node> {
    let mut out = Vec::new();
    let mut rest = template;
    while !rest.is_empty() {
        let mut affixes = Affixes::default();
        if rest.starts_with("FM") || rest.starts_with("fm") {
            affixes.fill = true;
            rest = &rest[2..];
        } else if rest.starts_with("TM") || rest.starts_with("tm") {
            affixes.translated = true;
            rest = &rest[2..];
        }
        if let Some(key) = KEYS.iter().find(|key| rest.starts_with(key.name)) {
            rest = &rest[key.name.len()..];
            for (suffix, ordinal) in [("TH", Some(true)), ("th", Some(false)), ("SP", None)] {
                if let Some(behind) = rest.strip_prefix(suffix) {
                    affixes.ordinal = ordinal;
                    rest = behind;
                    break;
                }
            }
            out.push(Node::Key(key, affixes));
            continue;
        }
        let Some(c) = rest.chars().next() else { break };
        rest = &rest[c.len_utf8()..];
        if c != '"' {
            // Outside of quotes a backslash matters before a quote only.
            let c = match rest.strip_prefix('"').filter(|_| c == '\\') {
                Some(behind) => {
                    rest = behind;
                    '"'
                }
                None => c,
            };
            out.push(match c {
                c if is_separator(c) => Node::Separator(c),
                c if is_space(c) => Node::Space(c),
                c => Node::Char(c),
            });
            continue;
        }
        out.extend(take_quoted(&mut rest).chars().map(Node::Char));
    }
    out
}

/// The text of a template up to the quote that ends it, or to the template's end, which is taken from `rest`. A backslash there
/// stands for what follows it.
pub(super) fn take_quoted(rest: &mut &str) -> String {
    let mut text = String::new();
    let mut chars = rest.chars();
    while let Some(c) = chars.next().filter(|c| *c != '"') {
        text.push(if c == '\\' { chars.next().unwrap_or(c) } else { c });
    }
    *rest = chars.as_str();
    text
}

pub(super) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
pub(super) const DAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
/// Months in Roman numerals, the last first: so the longest of those that begin alike is found first.
pub(super) const ROMAN_MONTHS: [&str; 12] =
    ["XII", "XI", "X", "IX", "VIII", "VII", "VI", "V", "IV", "III", "II", "I"];

/// Julian day of 2000-01-01.
pub(super) const EPOCH_JULIAN: i64 = 2_451_545;

/// The Julian day of a date, also of one that has no month or day.
pub(super) fn julian(year: i64, month: i64, day: i64) -> i64 {
    let (month, year) = if month > 2 { (month + 1, year + 4800) } else { (month + 13, year + 4799) };
    let century = year / 100;
    year * 365 - 32_167 + year / 4 - century + century / 4 + 7834 * month / 256 + day
}

pub(super) fn from_julian(julian: i64) -> (i64, i64, i64) {
    let (year, month, day) = datetime::civil_from_days(julian - EPOCH_JULIAN);
    (i64::from(year), i64::from(month), i64::from(day))
}

/// The Julian day of the Monday of an ISO year's week.
pub(super) fn iso_week_start(year: i64, week: i64) -> i64 {
    let fourth = julian(year, 1, 4);
    // Days since Monday.
    (week - 1) * 7 + fourth - fourth.rem_euclid(7)
}

/// ISO year, week and day of the year of a Julian day in calendar year `year`.
pub(super) fn iso_parts(julian: i64, year: i64) -> (i64, i64, i64) {
    let mut iso_year = year;
    if julian < iso_week_start(year, 1) {
        iso_year -= 1;
    } else if julian >= iso_week_start(year + 1, 1) {
        iso_year += 1;
    }
    let first = iso_week_start(iso_year, 1);
    (iso_year, (julian - first) / 7 + 1, julian - first + 1)
}
