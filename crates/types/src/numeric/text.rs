//! Text form of numerics, and conversion from floating point, which goes through text.

use std::fmt;
use std::str::FromStr;

use base::{SqlError, SqlResult, SqlState};
use num_bigint::BigInt;

use super::{INT_DIGITS_MAX, Numeric, Repr, SCALE_MAX, overflow, pow10_big};

/// The text is not a number.
#[derive(Debug, PartialEq, Eq)]
pub enum ParseNumericError {
    Syntax,
    Range,
}

impl ParseNumericError {
    /// As PostgreSQL reports it.
    pub fn into_sql(self, text: &str) -> SqlError {
        match self {
            ParseNumericError::Range => overflow(),
            ParseNumericError::Syntax => SqlError::new(
                SqlState::INVALID_TEXT_REPRESENTATION,
                format!("invalid input syntax for type numeric: \"{text}\""),
            ),
        }
    }
}

impl FromStr for Numeric {
    type Err = ParseNumericError;

    fn from_str(text: &str) -> Result<Numeric, ParseNumericError> {
        let text = text.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\x0b');
        let (negative, body) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        if !body.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
            return special(text, negative, body);
        }
        let mut coef: i64 = 0;
        let mut fits = true;
        let mut scale: i64 = 0;
        let (mut digits, mut seen_point, mut end) = (0usize, false, body.len());
        for (i, b) in body.bytes().enumerate() {
            match b {
                b'0'..=b'9' => {
                    digits += 1;
                    scale += i64::from(seen_point);
                    if fits {
                        match coef.checked_mul(10).and_then(|c| c.checked_add(i64::from(b - b'0'))) {
                            Some(c) => coef = c,
                            None => fits = false,
                        }
                    }
                }
                b'.' if !seen_point => seen_point = true,
                b'e' | b'E' => {
                    end = i;
                    break;
                }
                _ => return Err(ParseNumericError::Syntax),
            }
        }
        if digits == 0 {
            return Err(ParseNumericError::Syntax);
        }
        let mut exponent: i64 = 0;
        if end < body.len() {
            let text = &body[end + 1..];
            let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
            if unsigned.is_empty() || !unsigned.bytes().all(|b| b.is_ascii_digit()) {
                return Err(ParseNumericError::Syntax);
            }
            exponent = text.parse().map_err(|_| ParseNumericError::Range)?;
            if exponent.abs() > i64::from(i32::MAX / 2) {
                return Err(ParseNumericError::Range);
            }
        }
        if fits && exponent == 0 && scale <= i64::from(SCALE_MAX) {
            return Ok(Numeric::new(if negative { -coef } else { coef }, scale as u16));
        }
        let scale = scale - exponent;
        if fits {
            return finish(BigInt::from(if negative { -coef } else { coef }), scale);
        }
        let digits: String = body[..end].chars().filter(char::is_ascii_digit).collect();
        many_digits(digits.trim_start_matches('0'), scale, negative)
    }
}

/// `digits / 10^scale`. Reading digits takes the square of their number, so that only those are read which the number keeps.
fn many_digits(digits: &str, scale: i64, negative: bool) -> Result<Numeric, ParseNumericError> {
    if digits.len() as i64 - scale > INT_DIGITS_MAX {
        return Err(ParseNumericError::Range);
    }
    let dropped = usize::try_from(scale - i64::from(SCALE_MAX)).unwrap_or(0);
    if dropped > digits.len() {
        return Ok(Numeric::new(0, SCALE_MAX as u16));
    }
    let (kept, rest) = digits.split_at(digits.len() - dropped);
    let mut coef = match kept {
        "" => BigInt::ZERO,
        kept => kept.parse::<BigInt>().map_err(|_| ParseNumericError::Syntax)?,
    };
    if rest.starts_with(['5', '6', '7', '8', '9']) {
        coef += 1;
    }
    finish(if negative { -coef } else { coef }, scale - dropped as i64)
}

/// `coef / 10^scale` for any scale.
fn finish(coef: BigInt, scale: i64) -> Result<Numeric, ParseNumericError> {
    if scale < 0 {
        if coef == BigInt::ZERO {
            return Ok(Numeric::ZERO);
        }
        if -scale > INT_DIGITS_MAX {
            return Err(ParseNumericError::Range);
        }
        return Numeric::from_big_checked(coef * pow10_big((-scale) as u32), 0)
            .map_err(|_| ParseNumericError::Range);
    }
    if scale > i64::from(SCALE_MAX) {
        let drop = scale - i64::from(SCALE_MAX);
        // Of as many digits as there are at most nothing is left: the power of ten, which would take milliseconds, is not wanted.
        if drop > i64::from(super::decimal_digits_max(&coef)) {
            return Ok(Numeric::new(0, SCALE_MAX as u16));
        }
        let coef = super::div_round_big(&coef, &pow10_big(drop as u32));
        return Numeric::from_big_checked(coef, SCALE_MAX as u16).map_err(|_| ParseNumericError::Range);
    }
    Numeric::from_big_checked(coef, scale as u16).map_err(|_| ParseNumericError::Range)
}

fn special(text: &str, negative: bool, body: &str) -> Result<Numeric, ParseNumericError> {
    if body.eq_ignore_ascii_case("nan") && text.len() == 3 {
        return Ok(Numeric::NAN);
    }
    if body.eq_ignore_ascii_case("infinity") || body.eq_ignore_ascii_case("inf") {
        return Ok(if negative { Numeric::NEG_INFINITY } else { Numeric::INFINITY });
    }
    Err(ParseNumericError::Syntax)
}

impl Numeric {
    /// Reads PostgreSQL's text form. Errors: 22P02, 22003.
    pub fn parse(text: &str) -> SqlResult<Numeric> {
        text.parse().map_err(|e: ParseNumericError| e.into_sql(text))
    }

    /// Appends the text form.
    pub fn write_text(&self, out: &mut Vec<u8>) {
        match &self.0 {
            Repr::Small { coef, scale } => {
                // 20 digits are enough for the coefficient; zeros before it are written apart.
                let mut digits = [0u8; 20];
                let mut at = digits.len();
                let mut rest = coef.unsigned_abs();
                while rest > 0 {
                    at -= 1;
                    digits[at] = b'0' + (rest % 10) as u8;
                    rest /= 10;
                }
                push_decimal(*coef < 0, &digits[at..], usize::from(*scale), out);
            }
            Repr::Big(big) => {
                let digits = big.coef.magnitude().to_string();
                push_decimal(self.signum() < 0, digits.as_bytes(), usize::from(big.scale), out);
            }
            Repr::NaN => out.extend_from_slice(b"NaN"),
            Repr::PosInf => out.extend_from_slice(b"Infinity"),
            Repr::NegInf => out.extend_from_slice(b"-Infinity"),
        }
    }

    /// The value of a double, to 15 significant digits as PostgreSQL's cast.
    pub fn from_f64(v: f64) -> Numeric {
        Numeric::from_float(v, 15)
    }

    /// The value of a float, to 6 significant digits as PostgreSQL's cast.
    pub fn from_f32(v: f32) -> Numeric {
        Numeric::from_float(f64::from(v), 6)
    }

    fn from_float(v: f64, digits: usize) -> Numeric {
        if v.is_nan() {
            return Numeric::NAN;
        }
        if v.is_infinite() {
            return if v > 0.0 { Numeric::INFINITY } else { Numeric::NEG_INFINITY };
        }
        if v == 0.0 {
            return Numeric::ZERO;
        }
        // As printf's %.{digits}g: trailing zeros of the mantissa do not count.
        let text = format!("{v:.*e}", digits - 1);
        let (mantissa, exponent) = text.split_once('e').expect("scientific form");
        let mantissa = if mantissa.contains('.') {
            mantissa.trim_end_matches('0').trim_end_matches('.')
        } else {
            mantissa
        };
        format!("{mantissa}e{exponent}").parse().expect("a float's digits are a number")
    }
}

fn push_decimal(negative: bool, digits: &[u8], scale: usize, out: &mut Vec<u8>) {
    if negative {
        out.push(b'-');
    }
    if digits.len() > scale {
        let (int, fraction) = digits.split_at(digits.len() - scale);
        out.extend_from_slice(int);
        if scale > 0 {
            out.push(b'.');
            out.extend_from_slice(fraction);
        }
        return;
    }
    out.push(b'0');
    if scale > 0 {
        out.push(b'.');
        out.resize(out.len() + scale - digits.len(), b'0');
        out.extend_from_slice(digits);
    }
}

impl fmt::Display for Numeric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = Vec::with_capacity(24);
        self.write_text(&mut out);
        f.write_str(std::str::from_utf8(&out).expect("ASCII"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_kept_with_its_scale() {
        for (text, want) in [
            ("1", "1"),
            (" -1.50 ", "-1.50"),
            (".5", "0.5"),
            ("5.", "5"),
            ("0.000", "0.000"),
            ("-0.0", "0.0"),
            ("1e3", "1000"),
            ("1.5e-3", "0.0015"),
            ("12345678901234567890.12345", "12345678901234567890.12345"),
            ("-0.00000000000000000001", "-0.00000000000000000001"),
            ("nan", "NaN"),
            ("-inf", "-Infinity"),
        ] {
            assert_eq!(text.parse::<Numeric>().unwrap().to_string(), want);
        }
        let least = "0.".to_owned() + &"0".repeat(16_382) + "1";
        for (text, want) in
            [("5e-16384", least.as_str()), ("9.9e-16384", &least), ("4e-16384", &least[..16_384])]
        {
            let shown = text.parse::<Numeric>().unwrap().to_string();
            assert!(shown.starts_with(want) && shown.len() == 16_385, "{text}");
        }
        // Some milliseconds' work, and not minutes'.
        for exponent in 0..20_000 {
            assert!(format!("9e-{}", 131_072 + exponent).parse::<Numeric>().unwrap().is_zero());
        }
        for bad in ["", ".", "1.2.3", "abc", "1e", "--1", "1 2", "-nan"] {
            assert!(bad.parse::<Numeric>().is_err(), "{bad}");
        }
        assert_eq!(Numeric::from_f64(0.1).to_string(), "0.1");
        assert_eq!(Numeric::from_f64(1e20).to_string(), "100000000000000000000");
        assert_eq!(Numeric::from_f32(1.1).to_string(), "1.1");
    }
}
