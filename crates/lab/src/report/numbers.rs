//! Numbers as people read them.

use crate::stats::Summary;

/// A number with three digits or more that say something: 1234, 56.7, 0.123.
pub fn figure(value: f64) -> String {
    // A sum of nothing is minus zero.
    let value = value + 0.0;
    let digits = match value.abs() {
        _ if value == 0.0 || !value.is_finite() => 0,
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        size if size >= 0.001 => 3,
        _ => 6,
    };
    let text = format!("{value:.digits$}");
    let Some((whole, part)) = text.split_once('.') else { return grouped(&text) };
    format!("{}.{part}", grouped(whole))
}

/// 1234567 as 1,234,567.
fn grouped(whole: &str) -> String {
    let (sign, digits) = whole.strip_prefix('-').map_or(("", whole), |digits| ("-", digits));
    if !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return whole.into();
    }
    let mut text = String::from(sign);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A part as percent, with its sign if `signed`: `+2.4 %`.
pub fn percent(part: f64, signed: bool) -> String {
    if part.is_infinite() {
        return "of nothing".into();
    }
    if signed { format!("{:+.1} %", part * 100.0) } else { format!("{:.1} %", part * 100.0) }
}

/// Mean and deviation: `60.0 ± 0.53`.
pub fn spread(summary: &Summary) -> String {
    match summary.count {
        0 => "–".into(),
        _ => format!("{} ± {}", figure(summary.mean), figure(summary.deviation)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats;

    #[test]
    fn numbers_have_the_digits_that_say_something() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "0"),
            (0.0005, "0.000500"),
            (0.12345, "0.123"),
            (1.2345, "1.23"),
            (56.78, "56.8"),
            (-567.8, "-568"),
            (1_234_567.8, "1,234,568"),
        ] {
            assert_eq!(figure(value), text);
        }
        assert_eq!(figure(f64::INFINITY), "inf");
        assert_eq!(percent(0.0244, true), "+2.4 %");
        assert_eq!(percent(0.4, false), "40.0 %");
        assert_eq!(spread(&stats::summary(&[59.0, 61.0])), "60.0 ± 1.00");
        assert_eq!(spread(&stats::summary(&[])), "–");
    }
}
