//! Roots, logarithms, exponentials and powers, at PostgreSQL's result scales.
//!
//! Computed in fixed point on big integers with guard digits, then rounded to the scale.

use base::{SqlError, SqlResult, SqlState};
use num_bigint::{BigInt, Sign};

use super::{DISPLAY_SCALE_MAX, Numeric, SIGNIFICANT_DIGITS_MIN, div_round_big, overflow, pow10_big};

/// Digits carried beyond the wanted scale.
const GUARD: u32 = 12;

fn argument(state: SqlState, message: &str) -> SqlError {
    SqlError::new(state, message)
}

/// A fixed-point number: value * 10^scale.
struct Fixed {
    scale: u32,
    unit: BigInt,
}

impl Fixed {
    fn new(scale: u32) -> Fixed {
        Fixed { scale, unit: pow10_big(scale) }
    }

    fn of(&self, n: &Numeric) -> BigInt {
        let own = u32::from(n.scale());
        let coef = n.big_coef();
        if self.scale >= own {
            coef * pow10_big(self.scale - own)
        } else {
            div_round_big(&coef, &pow10_big(own - self.scale))
        }
    }

    fn mul(&self, a: &BigInt, b: &BigInt) -> BigInt {
        a * b / &self.unit
    }

    /// e^x by halving the argument and Taylor's series.
    fn exp(&self, x: &BigInt) -> BigInt {
        let mut halvings = 0u32;
        let mut y = x.clone();
        while BigInt::from(y.magnitude().clone()) * 100 > self.unit {
            y /= 2;
            halvings += 1;
        }
        let (mut sum, mut term) = (&self.unit + &y, y.clone());
        let mut k = 2u32;
        loop {
            term = self.mul(&term, &y) / k;
            if term == BigInt::ZERO || (term.sign() == Sign::Minus && term == BigInt::from(-1)) {
                break;
            }
            sum += &term;
            k += 1;
        }
        for _ in 0..halvings {
            sum = self.mul(&sum, &sum);
        }
        sum
    }

    /// ln x for x > 0: take roots until near 1, then the series of artanh.
    fn ln(&self, x: &BigInt) -> BigInt {
        let mut y = x.clone();
        let mut doublings = 0u32;
        loop {
            let off = &y - &self.unit;
            if BigInt::from(off.magnitude().clone()) * 20 < self.unit {
                break;
            }
            y = (&y * &self.unit).sqrt();
            doublings += 1;
        }
        let z = (&y - &self.unit) * &self.unit / (&y + &self.unit);
        let square = self.mul(&z, &z);
        let (mut sum, mut power) = (z.clone(), z);
        let mut k = 3u32;
        loop {
            power = self.mul(&power, &square);
            let term = &power / k;
            if term == BigInt::ZERO {
                break;
            }
            sum += term;
            k += 2;
        }
        sum * 2 * BigInt::from(2).pow(doublings)
    }

    fn round_to(&self, v: &BigInt, scale: i32) -> SqlResult<Numeric> {
        let scale = scale.clamp(0, DISPLAY_SCALE_MAX) as u32;
        debug_assert!(scale <= self.scale);
        Numeric::from_big_checked(div_round_big(v, &pow10_big(self.scale - scale)), scale as u16)
    }
}

impl Numeric {
    /// Errors: 2201F for a negative number.
    pub fn sqrt(&self) -> SqlResult<Numeric> {
        if self.is_nan() || matches!(self.0, super::Repr::PosInf) {
            return Ok(self.clone());
        }
        if self.signum() < 0 {
            return Err(argument(
                SqlState::INVALID_ARGUMENT_FOR_POWER_FUNCTION,
                "cannot take square root of a negative number",
            ));
        }
        let weight = self.exponent().map_or(0, |e| e.div_euclid(4));
        let root_weight = if weight >= 0 { (weight + 1) * 4 / 2 - 1 } else { 1 - (1 - weight * 4) / 2 };
        let scale =
            (SIGNIFICANT_DIGITS_MIN - root_weight).max(i32::from(self.scale())).clamp(0, DISPLAY_SCALE_MAX);
        // One digit more than wanted, so that rounding sees it; the root is cut off, never up.
        let wide = scale as u32 + 1;
        let own = u32::from(self.scale());
        let coef = self.big_coef();
        let root = if 2 * wide >= own {
            (coef * pow10_big(2 * wide - own)).sqrt()
        } else {
            (coef / pow10_big(own - 2 * wide)).sqrt()
        };
        Numeric::from_big_checked(div_round_big(&root, &BigInt::from(10)), scale as u16)
    }

    /// e^self. Errors: 22003.
    pub fn exp(&self) -> SqlResult<Numeric> {
        match self.0 {
            super::Repr::NaN | super::Repr::PosInf => return Ok(self.clone()),
            super::Repr::NegInf => return Ok(Numeric::ZERO),
            _ => {}
        }
        let v = self.to_f64();
        if v.abs() >= 302_000.0 {
            return if v > 0.0 { Err(overflow()) } else { Ok(Numeric::new(0, DISPLAY_SCALE_MAX as u16)) };
        }
        let digits = (v * std::f64::consts::LOG10_E) as i32;
        let scale =
            (SIGNIFICANT_DIGITS_MIN - digits).max(i32::from(self.scale())).clamp(0, DISPLAY_SCALE_MAX);
        // Squaring loses about a digit for each three halvings, and the integer part needs its digits too.
        let fixed = Fixed::new(scale as u32 + digits.max(0) as u32 * 2 + GUARD + 8);
        fixed.round_to(&fixed.exp(&fixed.of(self)), scale)
    }

    fn check_log(&self) -> SqlResult<()> {
        if self.is_zero() {
            return Err(argument(SqlState::INVALID_ARGUMENT_FOR_LOG, "cannot take logarithm of zero"));
        }
        if self.signum() < 0 {
            return Err(argument(
                SqlState::INVALID_ARGUMENT_FOR_LOG,
                "cannot take logarithm of a negative number",
            ));
        }
        Ok(())
    }

    /// The decimal exponent of ln(self), roughly: PostgreSQL's `estimate_ln_dweight`.
    fn ln_exponent(&self) -> i32 {
        let v = self.to_f64();
        if v > 0.9 && v < 1.1 {
            let off = self.sub(&Numeric::ONE).ok().and_then(|d| d.exponent());
            return off.unwrap_or(0);
        }
        let ln = match self.exponent() {
            Some(e) if !(-300..=300).contains(&e) => f64::from(e) * std::f64::consts::LN_10,
            _ => v.ln(),
        };
        if ln == 0.0 { 0 } else { ln.abs().log10() as i32 }
    }

    /// Errors: 2201E for zero or less.
    pub fn ln(&self) -> SqlResult<Numeric> {
        self.check_log()?;
        if !self.is_finite() {
            return Ok(self.clone());
        }
        let scale = (SIGNIFICANT_DIGITS_MIN - self.ln_exponent())
            .max(i32::from(self.scale()))
            .clamp(0, DISPLAY_SCALE_MAX);
        let fixed = Fixed::new(scale as u32 + GUARD + u32::from(self.scale()) + self.coef_digits());
        fixed.round_to(&fixed.ln(&fixed.of(self)), scale)
    }

    /// Logarithm of self to `base`. Errors: 2201E, 22012 for base 1.
    pub fn log(&self, base: &Numeric) -> SqlResult<Numeric> {
        base.check_log()?;
        self.check_log()?;
        if !self.is_finite() || !base.is_finite() {
            return Ok(if self.is_nan() || base.is_nan() || !self.is_finite() && !base.is_finite() {
                Numeric::NAN
            } else if self.is_finite() {
                Numeric::ZERO
            } else {
                Numeric::INFINITY
            });
        }
        let scale = (SIGNIFICANT_DIGITS_MIN - (self.ln_exponent() - base.ln_exponent()))
            .max(i32::from(self.scale()))
            .max(i32::from(base.scale()))
            .clamp(0, DISPLAY_SCALE_MAX);
        let fixed = Fixed::new(
            scale as u32 + 2 * GUARD + self.coef_digits() + base.coef_digits() + u32::from(self.scale()),
        );
        let (num, den) = (fixed.ln(&fixed.of(self)), fixed.ln(&fixed.of(base)));
        if den == BigInt::ZERO {
            return Err(super::division_by_zero());
        }
        let quotient = num * &fixed.unit / den;
        fixed.round_to(&quotient, scale)
    }

    /// self^exponent. Errors: 2201F, 22003.
    pub fn power(&self, exponent: &Numeric) -> SqlResult<Numeric> {
        if !self.is_finite() || !exponent.is_finite() {
            let v = self.to_f64().powf(exponent.to_f64());
            return Ok(Numeric::from_f64(v));
        }
        let whole = exponent.trunc(0).compare(exponent).is_eq();
        if self.is_zero() && exponent.signum() < 0 {
            return Err(argument(
                SqlState::INVALID_ARGUMENT_FOR_POWER_FUNCTION,
                "zero raised to a negative power is undefined",
            ));
        }
        if self.signum() < 0 && !whole {
            return Err(argument(
                SqlState::INVALID_ARGUMENT_FOR_POWER_FUNCTION,
                "a negative number raised to a non-integer power yields a complex result",
            ));
        }
        let own = i32::from(self.scale().max(exponent.scale()));
        if exponent.is_zero() {
            return Ok(Numeric::ONE.round(own.max(SIGNIFICANT_DIGITS_MIN)));
        }
        if self.is_zero() {
            return Ok(Numeric::ZERO.round(own.max(SIGNIFICANT_DIGITS_MIN)));
        }
        let magnitude = self.abs();
        let ln10 = if magnitude.coef_digits() > 15 || self.scale() > 15 {
            magnitude.exponent().map_or(0.0, f64::from) + magnitude.leading_fraction().log10()
        } else {
            magnitude.to_f64().log10()
        };
        let estimate = ln10 * exponent.to_f64();
        if estimate > super::INT_DIGITS_MAX as f64 {
            return Err(overflow());
        }
        if estimate < -f64::from(DISPLAY_SCALE_MAX) * 2.0 {
            return Ok(Numeric::new(0, DISPLAY_SCALE_MAX as u16));
        }
        let scale = (SIGNIFICANT_DIGITS_MIN - estimate as i32).max(own).clamp(0, DISPLAY_SCALE_MAX);
        if whole && let Some(e) = exponent.to_i64().filter(|e| e.unsigned_abs() <= 20_000) {
            let scale = SIGNIFICANT_DIGITS_MIN.max(i32::from(self.scale())).min(DISPLAY_SCALE_MAX);
            return self.power_whole(e, scale);
        }
        let int_digits = estimate.max(0.0) as u32;
        let fixed = Fixed::new(
            scale as u32 + 2 * int_digits + 2 * GUARD + exponent.coef_digits() + self.coef_digits(),
        );
        let product = fixed.mul(&fixed.ln(&fixed.of(&magnitude)), &fixed.of(exponent));
        let result = fixed.round_to(&fixed.exp(&product), scale)?;
        let odd = whole && exponent.rem(&Numeric::from(2))?.signum() != 0;
        Ok(if self.signum() < 0 && odd { result.neg() } else { result })
    }

    /// The value's digits as a number from 1 up to 10.
    fn leading_fraction(&self) -> f64 {
        let digits = self.big_coef().magnitude().to_string();
        let head = &digits[..digits.len().min(17)];
        head.parse::<f64>().unwrap_or(1.0) / 10f64.powi(head.len() as i32 - 1)
    }

    fn power_whole(&self, exponent: i64, scale: i32) -> SqlResult<Numeric> {
        let power = self.big_coef().pow(exponent.unsigned_abs() as u32);
        let own = u64::from(self.scale()) * exponent.unsigned_abs();
        let own = u32::try_from(own).map_err(|_| overflow())?;
        let scale = scale as u32;
        let coef = if exponent >= 0 {
            if scale >= own {
                power * pow10_big(scale - own)
            } else {
                div_round_big(&power, &pow10_big(own - scale))
            }
        } else {
            let (num, den) = (pow10_big(own + scale), power);
            let (num, den) = if den.sign() == Sign::Minus { (-num, -den) } else { (num, den) };
            div_round_big(&num, &den)
        };
        Numeric::from_big_checked(coef, scale as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_postgresqls_digit_for_digit() {
        let n = |s: &str| s.parse::<Numeric>().unwrap();
        assert_eq!(n("2").sqrt().unwrap().to_string(), "1.414213562373095");
        assert_eq!(n("2.0").ln().unwrap().to_string(), "0.6931471805599453");
        assert_eq!(n("1.0").exp().unwrap().to_string(), "2.7182818284590452");
        assert_eq!(n("2").power(&n("10")).unwrap().to_string(), "1024.0000000000000000");
        assert_eq!(n("100").log(&n("10")).unwrap().to_string(), "2.0000000000000000");
        assert!(n("-1").sqrt().is_err());
        assert!(n("0").ln().is_err());
    }
}
