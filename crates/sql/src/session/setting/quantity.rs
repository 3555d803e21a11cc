//! Settings that are a time, an amount of memory or a number: as they are written, and as they are shown.

/// The largest number of milliseconds, kilobytes or pages that a setting has.
pub(super) const QUANTITY_MAX: i32 = i32::MAX;

/// Milliseconds; of them is a number without a unit.
pub(super) fn parse_duration_ms(value: &str) -> Option<u64> {
    let units = [
        ("", 1.0),
        ("ms", 1.0),
        ("s", 1_000.0),
        ("min", 60_000.0),
        ("h", 3_600_000.0),
        ("d", 86_400_000.0),
        ("us", 0.001),
    ];
    parse_quantity(value, &units)
}

/// Kilobytes; of them is a number without a unit.
pub(super) fn parse_memory_kb(value: &str) -> Option<u64> {
    let units = [
        ("", 1.0),
        ("kB", 1.0),
        ("MB", 1_024.0),
        ("GB", 1_048_576.0),
        ("TB", 1_073_741_824.0),
        ("B", 1.0 / 1_024.0),
    ];
    parse_quantity(value, &units)
}

/// Kilobytes of a page.
pub(super) const PAGE_KB: u64 = 8;

/// Pages; of them is a number without a unit.
pub(super) fn parse_pages(value: &str) -> Option<u64> {
    let units = [
        ("", 1.0),
        ("kB", 1.0 / 8.0),
        ("MB", 128.0),
        ("GB", 131_072.0),
        ("TB", 134_217_728.0),
        ("B", 1.0 / 8_192.0),
    ];
    parse_quantity(value, &units)
}

/// A number with one of these units; each unit has its factor.
fn parse_quantity(value: &str, units: &[(&str, f64)]) -> Option<u64> {
    let value = value.trim();
    let digits = value.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(value.len());
    let number: f64 = value[..digits].parse().ok()?;
    let unit = value[digits..].trim();
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    let amount = (number * factor).round_ties_even();
    // Digits and a point are never less than nothing.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded right here")]
    (amount <= f64::from(QUANTITY_MAX)).then_some(amount as u64)
}

pub(super) fn show_duration(ms: u64) -> String {
    show_quantity(ms, &[(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s")], "ms")
}

pub(super) fn show_memory(kb: u64) -> String {
    show_quantity(kb, &[(1 << 30, "TB"), (1 << 20, "GB"), (1 << 10, "MB")], "kB")
}

/// A number that need not be whole. Of the largest that there is, PostgreSQL shows six digits.
pub(super) fn show_real(number: f64) -> String {
    if number < f64::MAX { number.to_string() } else { "1.79769e+308".into() }
}

/// The largest unit that keeps the number whole, as PostgreSQL shows it.
fn show_quantity(amount: u64, units: &[(u64, &str)], smallest: &str) -> String {
    if amount == 0 {
        return "0".into();
    }
    match units.iter().find(|(factor, _)| amount.is_multiple_of(*factor)) {
        Some((factor, unit)) => format!("{}{unit}", amount / factor),
        None => format!("{amount}{smallest}"),
    }
}
