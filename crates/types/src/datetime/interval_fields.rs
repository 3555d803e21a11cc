//! The fields that an interval type keeps: `interval day to second`.

use super::interval::Unit;
use super::{DAY_MICROS, HOUR_MICROS, MINUTE_MICROS, SECOND_MICROS};
use crate::Interval;

/// Which fields: a bit for each, as PostgreSQL's `atttypmod` has them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IntervalFields(pub u16);

const NAMES: [(&str, u16); 6] = [
    ("year", 1 << 2),
    ("month", 1 << 1),
    ("day", 1 << 3),
    ("hour", 1 << 10),
    ("minute", 1 << 11),
    ("second", 1 << 12),
];

impl IntervalFields {
    /// All of them.
    pub const ALL: IntervalFields = IntervalFields(0x7fff);

    /// From one field to another, or one only; `None` where SQL has no such type.
    pub fn between(first: &str, last: Option<&str>) -> Option<IntervalFields> {
        let place = |name: &str| NAMES.iter().position(|(known, _)| known.eq_ignore_ascii_case(name));
        let first = place(first)?;
        let last = last.map_or(Some(first), place)?;
        let months = |place: usize| place < 2;
        if first > last || months(first) != months(last) {
            return None;
        }
        Some(IntervalFields(NAMES[first..=last].iter().fold(0, |bits, (_, bit)| bits | bit)))
    }

    /// ` day to second`; nothing for all fields.
    pub fn suffix(self) -> String {
        let mut own = NAMES.iter().filter(|(_, bit)| self.0 & bit != 0).map(|(name, _)| *name);
        match (self == IntervalFields::ALL, own.next(), own.next_back()) {
            (false, Some(only), None) => format!(" {only}"),
            (false, Some(first), Some(last)) => format!(" {first} to {last}"),
            _ => String::new(),
        }
    }

    fn has(self, name: &str) -> bool {
        NAMES.iter().any(|(known, bit)| *known == name && self.0 & bit != 0)
    }

    /// What a number without a unit counts.
    pub(super) fn bare_unit(self) -> Unit {
        match () {
            () if self == IntervalFields::ALL || self.has("second") => Unit::Micros(SECOND_MICROS),
            () if self.has("minute") => Unit::Micros(MINUTE_MICROS),
            () if self.has("hour") => Unit::Micros(HOUR_MICROS),
            () if self.has("day") => Unit::Days(1),
            () if self.has("month") => Unit::Months(1),
            () => Unit::Months(12),
        }
    }

    /// Whether `1:02` is a minute and two seconds.
    pub(super) fn is_minute_to_second(self) -> bool {
        self != IntervalFields::ALL && self.has("minute") && self.has("second") && !self.has("hour")
    }

    /// `interval` without what is smaller than the last field.
    pub fn cut(self, interval: Interval) -> Interval {
        let Interval { months, days, micros } = interval;
        if self == IntervalFields::ALL || self.0 == 0 || self.has("second") {
            return interval;
        }
        let time = |unit: i64| Interval { months, days, micros: micros / unit * unit };
        match () {
            () if self.has("minute") => time(MINUTE_MICROS),
            () if self.has("hour") => time(HOUR_MICROS),
            () if self.has("day") => Interval { micros: 0, ..interval },
            () if self.has("month") => Interval { days: 0, micros: 0, ..interval },
            () => Interval { months: months / 12 * 12, days: 0, micros: 0 },
        }
    }
}

const _: () = assert!(DAY_MICROS % HOUR_MICROS == 0);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_named_and_cut() {
        let fields = |first, last| IntervalFields::between(first, last).expect("a type");
        assert_eq!(fields("DAY", Some("second")).suffix(), " day to second");
        assert_eq!(fields("year", None).suffix(), " year");
        assert_eq!(IntervalFields::between("month", Some("day")), None);
        assert_eq!(IntervalFields::between("second", Some("day")), None);
        let interval = Interval { months: 14, days: 3, micros: 3_723_000_000 };
        assert_eq!(fields("day", Some("hour")).cut(interval).micros, HOUR_MICROS);
        assert_eq!(fields("year", None).cut(interval), Interval { months: 12, days: 0, micros: 0 });
        assert_eq!(IntervalFields::ALL.cut(interval), interval);
    }
}
