//! The four operations and the remainder, with PostgreSQL's display scales.

use base::SqlResult;
use num_bigint::{BigInt, Sign};

use super::{
    DISPLAY_SCALE_MAX, Numeric, Repr, SCALE_MAX, SIGNIFICANT_DIGITS_MIN, division_by_zero, pow10_big,
    pow10_i128,
};

impl Numeric {
    /// The scale is the larger one. Errors: 22003.
    #[inline]
    pub fn add(&self, other: &Numeric) -> SqlResult<Numeric> {
        self.add_signed(other, false)
    }

    /// The scale is the larger one. Errors: 22003.
    #[inline]
    pub fn sub(&self, other: &Numeric) -> SqlResult<Numeric> {
        self.add_signed(other, true)
    }

    fn add_signed(&self, other: &Numeric, negate: bool) -> SqlResult<Numeric> {
        if let (Repr::Small { coef: a, scale: sa }, Repr::Small { coef: b, scale: sb }) = (&self.0, &other.0)
        {
            let diff = u32::from(sa.abs_diff(*sb));
            // |i64| * 10^18 < 10^37: the sum of two such stays within i128.
            if diff <= 18 {
                let p = pow10_i128(diff).expect("at most 18");
                let (mut a, mut b) = (i128::from(*a), i128::from(*b));
                if sa < sb {
                    a *= p;
                } else {
                    b *= p;
                }
                let sum = if negate { a - b } else { a + b };
                return Ok(Numeric::from_i128(sum, *sa.max(sb)));
            }
        }
        if !self.is_finite() || !other.is_finite() {
            let other = if negate { other.neg() } else { other.clone() };
            return Ok(match (&self.0, &other.0) {
                (Repr::NaN, _) | (_, Repr::NaN) => Numeric::NAN,
                (Repr::PosInf, Repr::NegInf) | (Repr::NegInf, Repr::PosInf) => Numeric::NAN,
                (Repr::PosInf | Repr::NegInf, _) => self.clone(),
                _ => other,
            });
        }
        let scale = self.scale().max(other.scale());
        let (a, b) = (self.big_coef_at(scale), other.big_coef_at(scale));
        Numeric::from_big_checked(if negate { a - b } else { a + b }, scale)
    }

    #[must_use]
    pub fn neg(&self) -> Numeric {
        match &self.0 {
            Repr::Small { coef, scale } => Numeric::from_i128(-i128::from(*coef), *scale),
            Repr::Big(big) => Numeric::from_big(-&big.coef, big.scale),
            Repr::NaN => Numeric::NAN,
            Repr::PosInf => Numeric::NEG_INFINITY,
            Repr::NegInf => Numeric::INFINITY,
        }
    }

    #[must_use]
    pub fn abs(&self) -> Numeric {
        if self.signum() < 0 { self.neg() } else { self.clone() }
    }

    /// The scale is the sum of the scales. Errors: 22003.
    pub fn mul(&self, other: &Numeric) -> SqlResult<Numeric> {
        if let (Repr::Small { coef: a, scale: sa }, Repr::Small { coef: b, scale: sb }) = (&self.0, &other.0)
        {
            let scale = u32::from(*sa) + u32::from(*sb);
            if scale as i32 <= SCALE_MAX {
                return Ok(Numeric::from_i128(i128::from(*a) * i128::from(*b), scale as u16));
            }
        }
        if !self.is_finite() || !other.is_finite() {
            if self.is_nan() || other.is_nan() || self.is_zero() || other.is_zero() {
                return Ok(Numeric::NAN);
            }
            let positive = self.signum() == other.signum();
            return Ok(if positive { Numeric::INFINITY } else { Numeric::NEG_INFINITY });
        }
        let scale = i32::from(self.scale()) + i32::from(other.scale());
        let product = self.big_coef() * other.big_coef();
        if scale > SCALE_MAX {
            let product = super::div_round_big(&product, &pow10_big((scale - SCALE_MAX) as u32));
            return Numeric::from_big_checked(product, SCALE_MAX as u16);
        }
        Numeric::from_big_checked(product, scale as u16)
    }

    /// PostgreSQL's weight (base 10000) and value of the first non-zero digit; zeros for zero.
    fn leading_digit(&self) -> (i32, u32) {
        let Some(exponent) = self.exponent() else { return (0, 0) };
        let weight = exponent.div_euclid(4);
        let places = (exponent - weight * 4 + 1) as u32;
        let digits = self.coef_digits();
        let leading = match &self.0 {
            Repr::Small { coef, .. } => {
                let coef = u128::from(coef.unsigned_abs());
                if digits >= places {
                    coef / 10u128.pow(digits - places)
                } else {
                    coef * 10u128.pow(places - digits)
                }
            }
            _ => {
                let magnitude = BigInt::from(self.big_coef().magnitude().clone());
                let leading = magnitude / pow10_big(digits.saturating_sub(places));
                u128::try_from(&leading).expect("at most four digits")
            }
        };
        (weight, leading as u32)
    }

    /// The scale of a quotient: at least 16 significant digits, and no less than either operand's scale.
    pub(super) fn quotient_scale(&self, divisor: &Numeric) -> u16 {
        let (weight1, first1) = self.leading_digit();
        let (weight2, first2) = divisor.leading_digit();
        let mut weight = weight1 - weight2;
        if first1 <= first2 {
            weight -= 1;
        }
        let scale = SIGNIFICANT_DIGITS_MIN - weight * 4;
        let own = i32::from(self.scale().max(divisor.scale()));
        scale.max(own).clamp(0, DISPLAY_SCALE_MAX) as u16
    }

    /// Rounded half away from zero at PostgreSQL's scale for the quotient. Errors: 22012, 22003.
    pub fn div(&self, other: &Numeric) -> SqlResult<Numeric> {
        if let Some(special) = self.div_special(other)? {
            return Ok(special);
        }
        self.div_at(other, self.quotient_scale(other), true)
    }

    /// The quotient cut off to a whole number (`div(a, b)`). Errors: 22012, 22003.
    pub fn div_trunc(&self, other: &Numeric) -> SqlResult<Numeric> {
        if let Some(special) = self.div_special(other)? {
            return Ok(special);
        }
        self.div_at(other, 0, false)
    }

    fn div_special(&self, other: &Numeric) -> SqlResult<Option<Numeric>> {
        if self.is_nan() || other.is_nan() {
            return Ok(Some(Numeric::NAN));
        }
        if other.is_zero() {
            return Err(division_by_zero());
        }
        Ok(match (self.is_infinite(), other.is_infinite()) {
            (true, true) => Some(Numeric::NAN),
            (true, false) => {
                Some(if self.signum() == other.signum() { Numeric::INFINITY } else { Numeric::NEG_INFINITY })
            }
            (false, true) => Some(Numeric::ZERO),
            (false, false) => None,
        })
    }

    /// `self / other` at exactly `scale` digits after the point.
    pub(super) fn div_at(&self, other: &Numeric, scale: u16, round: bool) -> SqlResult<Numeric> {
        // coef1 / 10^s1 / (coef2 / 10^s2) * 10^scale = coef1 * 10^(scale + s2 - s1) / coef2
        let shift = i32::from(scale) + i32::from(other.scale()) - i32::from(self.scale());
        if let (Repr::Small { coef: a, .. }, Repr::Small { coef: b, .. }) = (&self.0, &other.0)
            && (0..=38).contains(&shift)
            && let Some(num) = i128::from(*a).checked_mul(pow10_i128(shift as u32).expect("at most 38"))
        {
            let (num, den) = if *b < 0 { (-num, -i128::from(*b)) } else { (num, i128::from(*b)) };
            let q = if round { super::div_round_i128(num, den) } else { num / den };
            return Ok(Numeric::from_i128(q, scale));
        }
        let (mut num, mut den) = (self.big_coef(), other.big_coef());
        if shift >= 0 {
            num *= pow10_big(shift as u32);
        } else {
            den *= pow10_big((-shift) as u32);
        }
        if den.sign() == Sign::Minus {
            num = -num;
            den = -den;
        }
        let q = if round { super::div_round_big(&num, &den) } else { num / den };
        Numeric::from_big_checked(q, scale)
    }

    /// The remainder with the sign of the dividend; the scale is the larger one. Errors: 22012.
    pub fn rem(&self, other: &Numeric) -> SqlResult<Numeric> {
        if self.is_nan() || other.is_nan() {
            return Ok(Numeric::NAN);
        }
        if other.is_zero() {
            return Err(division_by_zero());
        }
        if self.is_infinite() {
            return Ok(Numeric::NAN);
        }
        if other.is_infinite() {
            return Ok(self.clone());
        }
        let scale = self.scale().max(other.scale());
        if let (Repr::Small { coef: a, scale: sa }, Repr::Small { coef: b, scale: sb }) = (&self.0, &other.0)
            && sa.abs_diff(*sb) <= 18
        {
            let p = |own: u16| pow10_i128(u32::from(scale - own)).expect("at most 18");
            return Ok(Numeric::from_i128((i128::from(*a) * p(*sa)) % (i128::from(*b) * p(*sb)), scale));
        }
        Ok(Numeric::from_big(self.big_coef_at(scale) % other.big_coef_at(scale), scale))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_of_results_are_postgresqls() {
        let n = |s: &str| s.parse::<Numeric>().unwrap();
        for (a, op, b, want) in [
            ("1.10", '+', "2.345", "3.445"),
            ("1.10", '*', "2.345", "2.57950"),
            ("1", '/', "3", "0.33333333333333333333"),
            ("10", '/', "3", "3.3333333333333333"),
            ("2", '/', "1", "2.0000000000000000"),
            ("1", '/', "3.000000000000000000000000", "0.333333333333333333333333"),
            ("123456789012345678901234567890", '/', "7", "17636684144620811271604938270"),
            ("-7.5", '%', "2", "-1.5"),
            ("99999999999999999999", '*', "99999999999999999999", "9999999999999999999800000000000000000001"),
            ("Infinity", '-', "Infinity", "NaN"),
        ] {
            let (x, y) = (n(a), n(b));
            let got = match op {
                '+' => x.add(&y),
                '-' => x.sub(&y),
                '*' => x.mul(&y),
                '/' => x.div(&y),
                _ => x.rem(&y),
            };
            assert_eq!(got.unwrap().to_string(), want, "{a} {op} {b}");
        }
        assert!(n("1").div(&n("0.00")).is_err());
    }
}
