//! Binary form of numerics: digits in base 10000, as PostgreSQL's `numeric_send`.

use std::cmp::Ordering;

use base::{SqlError, SqlResult, SqlState};
use num_bigint::BigInt;

use super::{Numeric, Repr, pow10_big};
use crate::binary::{bad_length, too_short};

const NEGATIVE: u16 = 0x4000;
const NAN: u16 = 0xC000;
const POS_INF: u16 = 0xD000;
const NEG_INF: u16 = 0xF000;

impl Numeric {
    /// Appends digit count, weight, sign, display scale and the digits, all 16-bit big-endian.
    pub fn write_binary(&self, out: &mut Vec<u8>) {
        let mut header = |ndigits: u16, weight: i16, sign: u16, scale: u16| {
            out.extend_from_slice(&ndigits.to_be_bytes());
            out.extend_from_slice(&weight.to_be_bytes());
            out.extend_from_slice(&sign.to_be_bytes());
            out.extend_from_slice(&scale.to_be_bytes());
        };
        match self.0 {
            Repr::NaN => return header(0, 0, NAN, 0),
            Repr::PosInf => return header(0, 0, POS_INF, 0),
            Repr::NegInf => return header(0, 0, NEG_INF, 0),
            _ => {}
        }
        let (few, many);
        let (digits, weight) = match self.few_base_10000_digits() {
            Some((digits, len, weight)) => {
                few = digits;
                (&few[..len], weight)
            }
            None => {
                let (digits, weight) = self.base_10000_digits();
                many = digits;
                (&many[..], weight)
            }
        };
        let sign = if self.signum() < 0 { NEGATIVE } else { 0 };
        header(digits.len() as u16, weight, sign, self.scale());
        for digit in digits {
            out.extend_from_slice(&digit.to_be_bytes());
        }
    }

    /// As [`Numeric::base_10000_digits`] of a number whose digits fit a word: the digits are the first so many of those given.
    fn few_base_10000_digits(&self) -> Option<([u16; 5], usize, i16)> {
        let Repr::Small { coef, scale } = self.0 else { return None };
        let groups_behind = scale.div_ceil(4);
        let mut left = coef.unsigned_abs().checked_mul(10u64.pow(u32::from(groups_behind * 4 - scale)))?;
        let (mut digits, mut len) = ([0; 5], 0);
        while left > 0 {
            digits[len] = (left % 10_000) as u16;
            left /= 10_000;
            len += 1;
        }
        let weight = if len == 0 { 0 } else { len as i16 - 1 - groups_behind.cast_signed() };
        digits[..len].reverse();
        while len > 0 && digits[len - 1] == 0 {
            len -= 1;
        }
        Some((digits, len, weight))
    }

    /// The digits without leading or trailing zeros, and the weight of the first.
    fn base_10000_digits(&self) -> (Vec<u16>, i16) {
        let Some(exponent) = self.exponent() else { return (Vec::new(), 0) };
        let weight = exponent.div_euclid(4);
        let text = match &self.0 {
            Repr::Small { coef, .. } => coef.unsigned_abs().to_string(),
            _ => self.big_coef().magnitude().to_string(),
        };
        let mut digits = Vec::with_capacity(text.len() / 4 + 2);
        // The first group has as many digits as the exponent says; the last is filled up with zeros.
        let mut group = 0u16;
        let mut left = exponent.rem_euclid(4) + 1;
        for b in text.bytes() {
            group = group * 10 + u16::from(b - b'0');
            left -= 1;
            if left == 0 {
                digits.push(group);
                (group, left) = (0, 4);
            }
        }
        if left < 4 {
            digits.push(group * 10u16.pow(left as u32));
        }
        while digits.last() == Some(&0) {
            digits.pop();
        }
        (digits, weight as i16)
    }

    /// Reads what [`Numeric::write_binary`] writes. Errors: 08P01 for too few bytes, 22P03 for too many and for what is no number.
    pub fn parse_binary(bytes: &[u8]) -> SqlResult<Numeric> {
        let bad = |what: &str| {
            SqlError::new(
                SqlState::INVALID_BINARY_REPRESENTATION,
                format!("invalid {what} in external \"numeric\" value"),
            )
        };
        if bytes.len() < 8 {
            return Err(too_short());
        }
        let word = |i: usize| u16::from_be_bytes([bytes[2 * i], bytes[2 * i + 1]]);
        let (count, weight, sign, scale) = (usize::from(word(0)), word(1).cast_signed(), word(2), word(3));
        if !matches!(sign, 0 | NEGATIVE | NAN | POS_INF | NEG_INF) {
            return Err(bad("sign"));
        }
        if scale > super::SCALE_MAX as u16 {
            return Err(bad("scale"));
        }
        match bytes.len().cmp(&(8 + 2 * count)) {
            Ordering::Less => return Err(too_short()),
            Ordering::Equal => {}
            Ordering::Greater => return Err(bad_length()),
        }
        match sign {
            NAN => return Ok(Numeric::NAN),
            POS_INF => return Ok(Numeric::INFINITY),
            NEG_INF => return Ok(Numeric::NEG_INFINITY),
            _ => {}
        }
        let negative = sign == NEGATIVE;
        // The places after the point that the digits cover; may be negative.
        let covered = 4 * (count as i32 - 1 - i32::from(weight));
        let mut small: Option<i64> = Some(0);
        for i in 0..count {
            let digit = word(4 + i);
            if digit > 9999 {
                return Err(bad("digit"));
            }
            small = small.and_then(|s| s.checked_mul(10_000)?.checked_add(i64::from(digit)));
        }
        if let Some(coef) = small
            && let Some(number) = of_word(if negative { -coef } else { coef }, covered, scale)
        {
            return Ok(number);
        }
        let coef = match small {
            Some(coef) => BigInt::from(coef),
            None => {
                let mut text = String::with_capacity(4 * count);
                for i in 0..count {
                    use std::fmt::Write;
                    write!(text, "{:04}", word(4 + i)).expect("writing to a string");
                }
                text.parse().expect("digits")
            }
        };
        let coef = if negative { -coef } else { coef };
        let scale_i = i32::from(scale);
        // Nothing, or cut off whole: powers of ten are not made for it, which would take milliseconds.
        if coef == BigInt::ZERO || covered - scale_i > super::decimal_digits_max(&coef) as i32 {
            return Ok(Numeric::new(0, scale));
        }
        // Digits past the display scale are cut off, as PostgreSQL does.
        if covered <= scale_i {
            let shift = (scale_i - covered) as u32;
            Numeric::from_big_checked(coef * pow10_big(shift), scale)
        } else {
            Numeric::from_big_checked(coef / pow10_big((covered - scale_i) as u32), scale)
        }
    }
}

/// `coef / 10^covered`, cut off behind `scale` digits after the point; `None` where a word may not do for it.
fn of_word(coef: i64, covered: i32, scale: u16) -> Option<Numeric> {
    let past = covered - i32::from(scale);
    let places = past.unsigned_abs();
    if past > 0 {
        // Of the 19 digits of a word nothing is left before as many places.
        return Some(Numeric::new(10i64.checked_pow(places).map_or(0, |cut| coef / cut), scale));
    }
    let power = super::pow10_i128(places).filter(|_| places <= 19)?;
    Some(Numeric::from_i128(i128::from(coef) * power, scale))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_digits_are_read_as_many_are() {
        let bytes = |digits: &[u16], weight: i16, sign: u16, scale: u16| -> Vec<u8> {
            let head = [digits.len() as u16, weight.cast_unsigned(), sign, scale];
            head.iter().chain(digits).flat_map(|word| word.to_be_bytes()).collect()
        };
        let numbers: [&[u16]; 8] = [
            &[],
            &[0],
            &[7],
            &[5000],
            &[12, 3456],
            &[1, 0, 9],
            &[9999, 9999, 9999, 9999],
            &[922, 3372, 368, 5477, 5807],
        ];
        for digits in numbers {
            // The zeros behind do not fit a word.
            let many: Vec<u16> = digits.iter().copied().chain([0; 6]).collect();
            for weight in [-7, -2, -1, 0, 1, 3, 6] {
                for scale in [0, 1, 2, 3, 4, 7, 18, 19, 20, 30] {
                    for sign in [0, NEGATIVE] {
                        let few = Numeric::parse_binary(&bytes(digits, weight, sign, scale)).unwrap();
                        let read = Numeric::parse_binary(&bytes(&many, weight, sign, scale)).unwrap();
                        assert_eq!(few, read, "{digits:?} {weight} {scale} {sign}");
                    }
                }
            }
        }
        let price = Numeric::parse_binary(&bytes(&[12, 5000], 0, 0, 2)).unwrap();
        assert_eq!(price.as_small(), Some((1250, 2)));
    }

    #[test]
    fn few_digits_are_those_of_any_number() {
        let coefs = [
            0,
            1,
            5,
            99,
            100,
            1_234,
            10_000,
            99_999_999,
            1_230_000,
            123_456_789_012,
            i64::MAX / 1_000,
            i64::MAX,
        ];
        for scale in [0, 1, 2, 3, 4, 5, 7, 8, 12, 13, 40, 16_383] {
            for coef in coefs.into_iter().flat_map(|coef| [coef, -coef]) {
                let number = Numeric(Repr::Small { coef, scale });
                if let Some((digits, len, weight)) = number.few_base_10000_digits() {
                    assert_eq!(
                        (digits[..len].to_vec(), weight),
                        number.base_10000_digits(),
                        "{coef} {scale}"
                    );
                } else {
                    assert!(coef.abs() > i64::MAX / 1_000);
                }
            }
        }
    }

    #[test]
    fn binary_form_is_read_back_as_written() {
        for text in [
            "0",
            "0.00",
            "1",
            "-1.50",
            "10000",
            "12345678.9",
            "0.0001",
            "0.00001",
            "1000000",
            "NaN",
            "-Infinity",
            "123456789012345678901234567890.000000000000000000001",
            "99999999.99",
            "0.5",
            "100000000000000000000000",
        ] {
            let n: Numeric = text.parse().unwrap();
            let mut bytes = Vec::new();
            n.write_binary(&mut bytes);
            assert_eq!(Numeric::parse_binary(&bytes).unwrap(), n, "{text}");
        }
        let mut bytes = Vec::new();
        "12345.678".parse::<Numeric>().unwrap().write_binary(&mut bytes);
        assert_eq!(bytes, [0, 3, 0, 1, 0, 0, 0, 3, 0, 1, 0x09, 0x29, 0x1a, 0x7c]);
        assert!(Numeric::parse_binary(&[0, 1]).is_err());
        // Some milliseconds' work, and not minutes'.
        for _ in 0..20_000 {
            for (weight, digit) in [([0x7f, 0xff], 0), ([0x80, 0], 9)] {
                let bytes = [0, 1, weight[0], weight[1], 0, 0, 0, 2, 0, digit];
                assert_eq!(Numeric::parse_binary(&bytes).unwrap().to_string(), "0.00");
            }
        }
    }
}
