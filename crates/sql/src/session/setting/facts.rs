//! What `pg_settings` says of a setting beside its value: its type, its unit, what it takes, whether it can be set.

use super::definitions::{DEFINITIONS, FIXED, TAKEN};
use super::quantity::{QUANTITY_MAX, parse_duration_ms, parse_memory_kb, parse_pages, show_real};
use super::{Access, Kind};

/// What is known of a setting, in the words of `pg_settings`.
#[derive(Debug)]
pub struct SettingFacts {
    /// `bool`, `integer`, `real`, `enum` or `string`.
    pub vartype: &'static str,
    /// What the value and its bounds are numbers of: `ms`, `kB` or `8kB`.
    pub unit: Option<&'static str>,
    /// `user`, or `internal` for what cannot be set.
    pub context: &'static str,
    /// The least and the most that a number may be.
    pub range: Option<(String, String)>,
    /// The values that an enum has.
    pub words: &'static [&'static str],
    /// The value where nobody has set one, in the setting's unit.
    pub default: String,
}

/// What is known of the setting with that name; `None` for a custom one.
pub fn setting_facts(name: &str) -> Option<SettingFacts> {
    let definition =
        DEFINITIONS.iter().chain(FIXED).chain(TAKEN).find(|definition| definition.name == name)?;
    let (vartype, unit, range) = match definition.kind {
        Kind::Bool => ("bool", None, None),
        Kind::OneOf(words) if words.iter().all(|word| matches!(*word, "on" | "off")) => ("bool", None, None),
        Kind::OneOf(_) | Kind::ReplicationRole => ("enum", None, None),
        Kind::Integer(least, most) => ("integer", None, bounds(least, most)),
        Kind::Real(least, most) => ("real", None, bounds(show_real(least), show_real(most))),
        Kind::Duration => ("integer", Some("ms"), bounds(0, QUANTITY_MAX)),
        Kind::Memory(least) => ("integer", Some("kB"), bounds(least, QUANTITY_MAX)),
        Kind::Pages(least, most) => ("integer", Some("8kB"), bounds(least, most)),
        Kind::Text | Kind::TimeZone | Kind::DateStyle | Kind::SearchPath | Kind::Encoding | Kind::Role => {
            ("string", None, None)
        }
    };
    let words: &[&str] = match definition.kind {
        Kind::OneOf(words) if vartype == "enum" => words,
        Kind::ReplicationRole => &["origin", "replica", "local"],
        _ => &[],
    };
    let context = if definition.access == Access::ReadOnly { "internal" } else { "user" };
    let mut facts = SettingFacts { vartype, unit, context, range, words, default: String::new() };
    facts.default = facts.in_unit(definition.default);
    Some(facts)
}

fn bounds(least: impl ToString, most: impl ToString) -> Option<(String, String)> {
    Some((least.to_string(), most.to_string()))
}

impl SettingFacts {
    /// A value as SHOW has it, `90s`, as the number of the setting's units, `90000`.
    pub fn in_unit(&self, shown: &str) -> String {
        let number = match self.unit {
            Some("ms") => parse_duration_ms(shown),
            Some("kB") => parse_memory_kb(shown),
            Some("8kB") => parse_pages(shown),
            _ => None,
        };
        number.map_or_else(|| shown.to_owned(), |number| number.to_string())
    }
}
