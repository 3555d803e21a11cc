//! The values of the setting `DateStyle`. Each says one thing of two, or both.

use types::{DateFormat, DateOrder};

/// Form of dates, and order of their fields where they are read.
pub(super) type DateStyle = (DateFormat, DateOrder);

/// Bytes of one, at most: it could say the same thing very often.
const LEN_MAX: usize = 1 << 10;

/// A `DateStyle` as it is given: what it says nothing of stays as it is `now`, and DEFAULT is the `initial` one. `None` for one that says two
/// things, or is too long.
pub(super) fn parse(value: &str, now: DateStyle, initial: DateStyle) -> Option<DateStyle> {
    if value.len() > LEN_MAX {
        return None;
    }
    let (mut format, mut order, mut implied) = (None, None, None);
    let mut fallback = now;
    let words = if value.trim().is_empty() { None } else { Some(value.split(',')) };
    for word in words.into_iter().flatten().map(|word| word.trim().to_ascii_lowercase()) {
        let (format_said, order_said) = match word.as_str() {
            "iso" => (Some(DateFormat::Iso), None),
            "sql" => (Some(DateFormat::Sql), None),
            word if word.starts_with("postgres") => (Some(DateFormat::Postgres), None),
            "german" => (Some(DateFormat::German), None),
            "ymd" => (None, Some(DateOrder::Ymd)),
            "dmy" => (None, Some(DateOrder::Dmy)),
            word if word.starts_with("euro") => (None, Some(DateOrder::Dmy)),
            "mdy" | "us" => (None, Some(DateOrder::Mdy)),
            word if word.starts_with("noneuro") => (None, Some(DateOrder::Mdy)),
            "default" => {
                fallback = initial;
                continue;
            }
            _ => return None,
        };
        if format_said == Some(DateFormat::German) {
            implied = Some(DateOrder::Dmy);
        }
        if format_said.is_some_and(|said| *format.get_or_insert(said) != said)
            || order_said.is_some_and(|said| *order.get_or_insert(said) != said)
        {
            return None;
        }
    }
    Some((format.unwrap_or(fallback.0), order.or(implied).unwrap_or(fallback.1)))
}

/// A `DateStyle` in the form that [`text_of`] gives it.
pub(super) fn kept(text: &str) -> DateStyle {
    let default = (DateFormat::Iso, DateOrder::Mdy);
    parse(text, default, default).expect("checked when set")
}

pub(super) fn text_of((format, order): DateStyle) -> String {
    let format = match format {
        DateFormat::Iso => "ISO",
        DateFormat::Sql => "SQL",
        DateFormat::Postgres => "Postgres",
        DateFormat::German => "German",
    };
    let order = match order {
        DateOrder::Mdy => "MDY",
        DateOrder::Dmy => "DMY",
        DateOrder::Ymd => "YMD",
    };
    format!("{format}, {order}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_said_stays_as_it_was() {
        let initial = kept("ISO, MDY");
        // As PostgreSQL 15 shows them, one after the other.
        let mut now = initial;
        for (value, shown) in [
            ("SQL, DMY", "SQL, DMY"),
            ("ISO", "ISO, DMY"),
            ("postgresql", "Postgres, DMY"),
            ("MDY, German", "German, MDY"),
            ("sql, SQL", "SQL, MDY"),
            ("German", "German, DMY"),
            ("us", "German, MDY"),
            ("european", "German, DMY"),
            ("default, SQL", "SQL, MDY"),
            ("ymd", "SQL, YMD"),
            ("", "SQL, YMD"),
            ("default", "ISO, MDY"),
        ] {
            now = parse(value, now, initial).unwrap_or_else(|| panic!("{value}"));
            assert_eq!(text_of(now), shown, "{value}");
            assert_eq!(kept(shown), now, "{value}");
        }
        let long = "ISO, ".repeat(1_000) + "ISO";
        for value in ["ISO, SQL", "us, euro", "ISO, us, DMY", "ISO,", "nonsense", &*long] {
            assert_eq!(parse(value, now, initial), None, "{value}");
        }
    }
}
