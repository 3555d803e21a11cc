//! Text form of floating-point numbers: the shortest digits that read back the same, laid out as C's `%g`.

use base::{SqlError, SqlResult, SqlState};

/// Appends `v` as PostgreSQL does: shortest digits if `extra_digits` is positive, else `15 + extra_digits` of them.
pub(crate) fn write_f64(v: f64, extra_digits: i32, out: &mut Vec<u8>) {
    if special(v, out) {
        return;
    }
    if extra_digits > 0 {
        layout(&shortest_f64(v), 15, out);
    } else {
        let digits = (15 + extra_digits).max(1) as usize;
        layout(&strip(&format!("{v:.*e}", digits - 1)), digits as i32, out);
    }
}

/// As [`write_f64`] for a float4; `6 + extra_digits` digits.
pub(crate) fn write_f32(v: f32, extra_digits: i32, out: &mut Vec<u8>) {
    if special(f64::from(v), out) {
        return;
    }
    if extra_digits > 0 {
        layout(&shortest_f32(v), 6, out);
    } else {
        let digits = (6 + extra_digits).max(1) as usize;
        layout(&strip(&format!("{v:.*e}", digits - 1)), digits as i32, out);
    }
}

/// Where short digits may lie just between two numbers: from where all are whole on, as far as powers of five divide what lies between two.
const BETWEEN_F64: std::ops::Range<f64> = 9e15..1e40;
const BETWEEN_F32: std::ops::Range<f32> = 1.6e7..1e19;

fn shortest_f64(v: f64) -> String {
    let shortest = format!("{v:e}");
    if v.to_bits() % 2 == 1 || !BETWEEN_F64.contains(&v.abs()) {
        return shortest;
    }
    nearer(shortest, |text| text.parse() == Ok(v), |places| format!("{v:.places$e}"))
}

fn shortest_f32(v: f32) -> String {
    let shortest = format!("{v:e}");
    if v.to_bits() % 2 == 1 || !BETWEEN_F32.contains(&v.abs()) {
        return shortest;
    }
    nearer(shortest, |text| text.parse() == Ok(v), |places| format!("{v:.places$e}"))
}

/// The shortest digits that are nearer to a number than to others. Those that lie just between two read back as the even one, so that Rust takes
/// them, and PostgreSQL does not.
fn nearer(
    shortest: String,
    reads_back: impl Fn(&str) -> bool,
    with_places: impl Fn(usize) -> String,
) -> String {
    let is_nearer = |text: &str| nudged(text).iter().all(|text| reads_back(text));
    if is_nearer(&shortest) {
        return shortest;
    }
    let digits = shortest.bytes().take_while(|b| *b != b'e').filter(u8::is_ascii_digit).count();
    (digits..17).map(with_places).find(|text| is_nearer(text)).unwrap_or(shortest)
}

/// Digits in scientific form a little away from zero, and a little towards it: by less than would matter to any number but one just between two.
fn nudged(scientific: &str) -> [String; 2] {
    let (mantissa, exponent) = scientific.split_once('e').expect("scientific form");
    let sign = if mantissa.starts_with('-') { "-" } else { "" };
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let exponent = exponent.parse::<i32>().expect("an exponent") + 1 - digits.len() as i32;
    let below = digits.parse::<u64>().expect("at most 17 digits") - 1;
    [
        format!("{sign}{digits}.{}1e{exponent}", "0".repeat(24)),
        format!("{sign}{below}.{}e{exponent}", "9".repeat(25)),
    ]
}

fn special(v: f64, out: &mut Vec<u8>) -> bool {
    let text: &[u8] = match v {
        _ if v.is_nan() => b"NaN",
        _ if v == f64::INFINITY => b"Infinity",
        _ if v == f64::NEG_INFINITY => b"-Infinity",
        _ if v == 0.0 && v.is_sign_negative() => b"-0",
        _ if v == 0.0 => b"0",
        _ => return false,
    };
    out.extend_from_slice(text);
    true
}

fn strip(scientific: &str) -> String {
    let (mantissa, exponent) = scientific.split_once('e').expect("scientific form");
    let mantissa =
        if mantissa.contains('.') { mantissa.trim_end_matches('0').trim_end_matches('.') } else { mantissa };
    format!("{mantissa}e{exponent}")
}

/// Lays out `d.ddde±x`: plainly for exponents from -4 up to below `plain_below`, else with a two-digit exponent.
fn layout(scientific: &str, plain_below: i32, out: &mut Vec<u8>) {
    let (mantissa, exponent) = scientific.split_once('e').expect("scientific form");
    let exponent: i32 = exponent.parse().expect("an exponent");
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    out.extend_from_slice(sign.as_bytes());
    if !(-4..plain_below).contains(&exponent) {
        out.extend_from_slice(mantissa.as_bytes());
        out.extend_from_slice(
            format!("e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs()).as_bytes(),
        );
        return;
    }
    let digits: Vec<u8> = mantissa.bytes().filter(u8::is_ascii_digit).collect();
    if exponent < 0 {
        out.extend_from_slice(b"0.");
        out.resize(out.len() + (-exponent - 1) as usize, b'0');
        out.extend_from_slice(&digits);
        return;
    }
    let int = exponent as usize + 1;
    if digits.len() <= int {
        out.extend_from_slice(&digits);
        out.resize(out.len() + int - digits.len(), b'0');
    } else {
        out.extend_from_slice(&digits[..int]);
        out.push(b'.');
        out.extend_from_slice(&digits[int..]);
    }
}

fn is_number(text: &str) -> bool {
    let body = text.strip_prefix(['-', '+']).unwrap_or(text);
    body.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'+' | b'-'))
        || body.eq_ignore_ascii_case("nan")
        || body.eq_ignore_ascii_case("inf")
        || body.eq_ignore_ascii_case("infinity")
}

fn syntax(text: &str, ty: &str) -> SqlError {
    SqlError::new(
        SqlState::INVALID_TEXT_REPRESENTATION,
        format!("invalid input syntax for type {ty}: \"{text}\""),
    )
}

fn out_of_range(text: &str, ty: &str) -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("\"{text}\" is out of range for type {ty}"))
}

/// Whether a text that was read as zero has a non-zero digit before its exponent.
fn underflowed(text: &str) -> bool {
    text.bytes().take_while(|b| !matches!(b, b'e' | b'E')).any(|b| (b'1'..=b'9').contains(&b))
}

/// Errors: 22P02, 22003.
pub(crate) fn parse_f64(text: &str) -> SqlResult<f64> {
    const TYPE: &str = "double precision";
    let trimmed = text.trim();
    let v: f64 = if is_number(trimmed) {
        trimmed.parse().map_err(|_| syntax(text, TYPE))?
    } else {
        return Err(syntax(text, TYPE));
    };
    let lost =
        v.is_infinite() && trimmed.bytes().any(|b| b.is_ascii_digit()) || v == 0.0 && underflowed(trimmed);
    if lost { Err(out_of_range(trimmed, TYPE)) } else { Ok(v) }
}

/// Errors: 22P02, 22003.
pub(crate) fn parse_f32(text: &str) -> SqlResult<f32> {
    const TYPE: &str = "real";
    let trimmed = text.trim();
    let v: f32 = if is_number(trimmed) {
        trimmed.parse().map_err(|_| syntax(text, TYPE))?
    } else {
        return Err(syntax(text, TYPE));
    };
    let lost =
        v.is_infinite() && trimmed.bytes().any(|b| b.is_ascii_digit()) || v == 0.0 && underflowed(trimmed);
    if lost { Err(out_of_range(trimmed, TYPE)) } else { Ok(v) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout_changes_where_postgresqls_does() {
        let d = |v: f64| {
            let mut out = Vec::new();
            write_f64(v, 1, &mut out);
            String::from_utf8(out).unwrap()
        };
        for (v, want) in [
            (0.1, "0.1"),
            (1e14, "100000000000000"),
            (1e15, "1e+15"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (-1234.5, "-1234.5"),
            (1.7976931348623157e308, "1.7976931348623157e+308"),
            (123456789012345.0, "123456789012345"),
        ] {
            assert_eq!(d(v), want);
        }
        let f = |v: f32| {
            let mut out = Vec::new();
            write_f32(v, 1, &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(f(16777216.0), "1.6777216e+07");
        // What lies just between two numbers is neither's.
        for (v, want) in [
            (1e23, "9.999999999999999e+22"),
            (-5e22, "-4.9999999999999996e+22"),
            (7.6e22, "7.600000000000001e+22"),
            (1.581875e20, "1.5818750000000002e+20"),
            (2e22, "2e+22"),
            (9.5e15, "9.5e+15"),
        ] {
            assert_eq!(d(v), want);
        }
        for (v, want) in [
            (9e9, "8.999999e+09"),
            (-3e10, "-3.0000001e+10"),
            (5.312e11, "5.3120002e+11"),
            (1.14e10, "1.1399999e+10"),
            (1e10, "1e+10"),
        ] {
            assert_eq!(f(v), want);
        }
        assert!(parse_f64("1e400").is_err());
        assert!(parse_f64("1e-400").is_err());
        assert!(parse_f64("x").is_err());
    }
}
