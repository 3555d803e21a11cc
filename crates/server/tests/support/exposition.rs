//! A strict reader of Prometheus' text format, version 0.0.4: what a scraper would take, and what its conventions ask for.

use std::collections::{BTreeMap, BTreeSet};

pub type Labels = BTreeMap<String, String>;

/// Everything between one HELP and the next.
#[derive(Debug)]
pub struct Family {
    pub kind: String,
    /// By name (a histogram has three) and labels.
    pub series: BTreeMap<(String, Labels), f64>,
}

impl Family {
    /// The value of the series with these labels.
    pub fn value(&self, labels: &[(&str, &str)]) -> Option<f64> {
        let wanted: Labels =
            labels.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        self.series.iter().find(|((_, labels), _)| *labels == wanted).map(|(_, value)| *value)
    }

    /// The values that a label has.
    pub fn values_of(&self, label: &str) -> BTreeSet<&str> {
        self.series.keys().filter_map(|(_, labels)| labels.get(label).map(String::as_str)).collect()
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(|c: char| c.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

/// All families by name.
///
/// # Panics
///
/// At the first line that is not of the format, or that breaks a convention.
pub fn parse(text: &str) -> BTreeMap<String, Family> {
    assert!(text.ends_with('\n'), "the last line ends");
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut current = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, help) = help.split_once(' ').unwrap_or_else(|| panic!("{line}"));
            assert!(is_name(name) && name.starts_with("rowhouse_") && !help.trim().is_empty(), "{line}");
            let kind = lines.next().and_then(|line| line.strip_prefix(&format!("# TYPE {name} ")));
            let kind = kind.unwrap_or_else(|| panic!("no TYPE after {line}")).to_owned();
            assert!(["counter", "gauge", "histogram"].contains(&kind.as_str()), "{name} is a {kind}");
            assert_eq!(name.ends_with("_total"), kind == "counter", "{name} is a {kind}");
            current = name.to_owned();
            let family = Family { kind, series: BTreeMap::new() };
            assert!(families.insert(current.clone(), family).is_none(), "{name} is in two parts");
            continue;
        }
        let (name, labels, value) = series_of(line);
        let family = families.get_mut(&current).unwrap_or_else(|| panic!("{line} before any HELP"));
        let of_it = match name.strip_prefix(&current) {
            Some("") => family.kind != "histogram",
            Some("_bucket" | "_sum" | "_count") => family.kind == "histogram",
            _ => false,
        };
        assert!(of_it, "{line} is not of {current}");
        assert!(value.is_finite() && (family.kind == "gauge" || value >= 0.0), "{line}");
        let before = family.series.insert((name, labels), value);
        assert!(before.is_none(), "{line} is there twice");
    }
    for (name, family) in &families {
        assert!(!family.series.is_empty(), "{name} has no series");
        if family.kind == "histogram" {
            check_histograms(name, family);
        }
    }
    families
}

/// `name{label="value",…} number`
fn series_of(line: &str) -> (String, Labels, f64) {
    let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
    let value = value.parse().unwrap_or_else(|_| panic!("{line}"));
    let (name, mut rest) = match series.split_once('{') {
        None => (series, ""),
        Some((name, rest)) => (name, rest.strip_suffix('}').unwrap_or_else(|| panic!("{line}"))),
    };
    assert!(is_name(name), "{line}");
    let mut labels = Labels::new();
    while !rest.is_empty() {
        let (label, after) = rest.split_once("=\"").unwrap_or_else(|| panic!("{line}"));
        assert!(is_name(label) && !label.starts_with("__"), "{line}");
        let (mut text, mut chars) = (String::new(), after.char_indices());
        let end = loop {
            match chars.next().unwrap_or_else(|| panic!("{line}")) {
                (at, '"') => break at + 1,
                (_, '\\') => text.push(match chars.next() {
                    Some((_, 'n')) => '\n',
                    Some((_, escaped @ ('\\' | '"'))) => escaped,
                    _ => panic!("{line}"),
                }),
                (_, c) => text.push(c),
            }
        };
        assert!(labels.insert(label.to_owned(), text).is_none(), "{line}");
        rest = match &after[end..] {
            "" => "",
            more => more.strip_prefix(',').unwrap_or_else(|| panic!("{line}")),
        };
    }
    (name.to_owned(), labels, value)
}

/// Buckets grow up to the one without a bound, which has the count.
fn check_histograms(name: &str, family: &Family) {
    let mut buckets: BTreeMap<Labels, Vec<(f64, f64)>> = BTreeMap::new();
    for ((of, labels), value) in &family.series {
        if *of == format!("{name}_bucket") {
            let mut labels = labels.clone();
            let bound =
                labels.remove("le").expect("a bucket has a bound").parse().expect("a bound is a number");
            buckets.entry(labels).or_default().push((bound, *value));
        }
    }
    assert!(!buckets.is_empty(), "{name} has no buckets");
    for (labels, mut buckets) in buckets {
        buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
        assert!(buckets.is_sorted_by_key(|(_, count)| *count), "{name} {labels:?} {buckets:?}");
        let (bound, all) = *buckets.last().expect("there is one");
        assert!(bound.is_infinite(), "{name} {labels:?}");
        let whole = |what: &str| family.series.get(&(format!("{name}_{what}"), labels.clone()));
        assert_eq!(whole("count"), Some(&all), "{name} {labels:?}");
        assert!(whole("sum").is_some(), "{name} {labels:?}");
    }
}
