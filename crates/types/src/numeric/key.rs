//! Order-preserving byte form of numerics.
//!
//! A class byte; for finite non-zero values the decimal exponent and the significant digits in pairs, each pair plus one,
//! closed by a zero. Negative values are inverted.

use num_bigint::BigInt;

use super::{Numeric, Repr, pow10_big};

const NEG_INF: u8 = 0;
const NEGATIVE: u8 = 1;
const ZERO: u8 = 2;
const POSITIVE: u8 = 3;
const POS_INF: u8 = 4;
const NAN: u8 = 5;

impl Numeric {
    /// Appends the key; equal values have equal keys whatever their scales.
    pub fn write_key(&self, out: &mut Vec<u8>) {
        let class = match &self.0 {
            Repr::NegInf => NEG_INF,
            Repr::PosInf => POS_INF,
            Repr::NaN => NAN,
            _ if self.is_zero() => ZERO,
            _ if self.signum() < 0 => NEGATIVE,
            _ => POSITIVE,
        };
        out.push(class);
        if class != NEGATIVE && class != POSITIVE {
            return;
        }
        let exponent = self.exponent().expect("not zero");
        let start = out.len();
        out.extend_from_slice(&(exponent ^ i32::MIN).to_be_bytes());
        let mut buffer = [0u8; 20];
        let heap;
        let digits: &[u8] = match &self.0 {
            Repr::Small { coef, .. } => {
                let mut at = buffer.len();
                let mut rest = coef.unsigned_abs();
                while rest > 0 {
                    at -= 1;
                    buffer[at] = b'0' + (rest % 10) as u8;
                    rest /= 10;
                }
                &buffer[at..]
            }
            _ => {
                heap = self.big_coef().magnitude().to_string();
                heap.as_bytes()
            }
        };
        let significant = digits.len() - digits.iter().rev().take_while(|b| **b == b'0').count();
        for pair in digits[..significant].chunks(2) {
            let low = pair.get(1).map_or(0, |b| b - b'0');
            out.push((pair[0] - b'0') * 10 + low + 1);
        }
        out.push(0);
        if class == NEGATIVE {
            out[start..].iter_mut().for_each(|b| *b = !*b);
        }
    }

    /// Reads what [`Numeric::write_key`] wrote from a source of bytes; `None` if it is malformed. The scale is the least.
    pub fn read_key(next: &mut dyn FnMut() -> Option<u8>) -> Option<Numeric> {
        let negative = match next()? {
            NEG_INF => return Some(Numeric::NEG_INFINITY),
            POS_INF => return Some(Numeric::INFINITY),
            NAN => return Some(Numeric::NAN),
            ZERO => return Some(Numeric::ZERO),
            NEGATIVE => true,
            POSITIVE => false,
            _ => return None,
        };
        let flip = if negative { 0xff } else { 0 };
        let mut word = [0u8; 4];
        for b in &mut word {
            *b = next()? ^ flip;
        }
        let exponent = i32::from_be_bytes(word) ^ i32::MIN;
        let mut digits = Vec::new();
        loop {
            match next()? ^ flip {
                0 => break,
                pair @ 1..=100 => digits.extend_from_slice(&[b'0' + (pair - 1) / 10, b'0' + (pair - 1) % 10]),
                _ => return None,
            }
        }
        let coef: BigInt = std::str::from_utf8(&digits).ok()?.parse().ok()?;
        let coef = if negative { -coef } else { coef };
        let scale = digits.len() as i32 - 1 - exponent;
        if scale < 0 {
            return Some(Numeric::from_big(coef * pow10_big(scale.unsigned_abs()), 0));
        }
        // The last pair may be filled up with a zero beyond the largest scale.
        Some(match u16::try_from(scale) {
            Ok(scale) => Numeric::from_big(coef, scale).trimmed(),
            Err(_) => return None,
        })
    }
}
