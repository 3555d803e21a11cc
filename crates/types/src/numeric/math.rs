//! Roots, logarithms, exponentials and powers, at PostgreSQL's result scales.
//!
//! Computed in fixed point on big integers with guard digits, then rounded to the scale.

use base::{SqlError, SqlResult, SqlState};
use num_bigint::{BigInt, BigUint, Sign};

use super::{DISPLAY_SCALE_MAX, Numeric, SIGNIFICANT_DIGITS_MIN, div_round_big, overflow, pow10_big};

/// Digits carried beyond the wanted scale.
const GUARD: u32 = 12;
/// The largest argument of an exponential, as PostgreSQL's: some 2,600 digits, since nothing interrupts the work for more.
const EXP_ARGUMENT_MAX: f64 = 6_000.0;
/// Digits that a logarithm to another base may take, as one to a base of 1 and some thousand zeros behind the point does: half a second's work.
const LOG_DIGITS_MAX: u32 = 6_000;

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

    /// ln n for n > 0, of any size: ln (m * 10^e) = ln m + e ln 10, with m from 0.9 up to 10: what is near 1 has few terms.
    fn ln_of(&self, n: &Numeric) -> BigInt {
        let mut e = i64::from(n.coef_digits()) - 1 - i64::from(n.scale());
        if e == -1 && n.leading_fraction() >= 9.0 {
            e = 0;
        }
        let own = i64::from(n.scale()) + e;
        let coef = n.big_coef();
        let excess = own - i64::from(self.scale);
        let m = match u32::try_from(excess) {
            Ok(excess) => div_round_big(&coef, &pow10_big(excess)),
            Err(_) => coef * pow10_big(excess.unsigned_abs() as u32),
        };
        match e {
            0 => self.ln(&m),
            _ => self.ln(&m) + self.ln(&(&self.unit * 10)) * e,
        }
    }

    /// `v` of another fixed point.
    fn rescaled(&self, v: &BigInt, from: &Fixed) -> BigInt {
        match from.scale.checked_sub(self.scale) {
            Some(excess) => div_round_big(v, &pow10_big(excess)),
            None => v * pow10_big(self.scale - from.scale),
        }
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
        if v.abs() >= EXP_ARGUMENT_MAX {
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
        let fixed = Fixed::new(scale as u32 + 2 * GUARD);
        fixed.round_to(&fixed.ln_of(self), scale)
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
        // A base near 1 has a small logarithm: what is missing in the other one counts the more in the quotient, and what is missing in it twice.
        let small = base.ln_exponent().min(0).unsigned_abs();
        let narrow = Fixed::new(scale as u32 + 2 * GUARD + small + self.ln_exponent().max(0).unsigned_abs());
        if narrow.scale > LOG_DIGITS_MAX {
            return Err(argument(SqlState::PROGRAM_LIMIT_EXCEEDED, "logarithm takes too many digits"));
        }
        let wide = Fixed::new(narrow.scale + small);
        let (num, den) = (wide.rescaled(&narrow.ln_of(self), &narrow), wide.ln_of(base));
        if den == BigInt::ZERO {
            return Err(super::division_by_zero());
        }
        let quotient = num * &wide.unit / den;
        wide.round_to(&quotient, scale)
    }

    /// self^exponent. Errors: 2201F, 22003.
    pub fn power(&self, exponent: &Numeric) -> SqlResult<Numeric> {
        let whole = !exponent.is_finite() || exponent.trunc(0).compare(exponent).is_eq();
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
        if !self.is_finite() || !exponent.is_finite() {
            let v = self.to_f64().powf(exponent.to_f64());
            return Ok(Numeric::from_f64(v));
        }
        let own = i32::from(self.scale().max(exponent.scale()));
        if exponent.is_zero() {
            return Ok(Numeric::ONE.round(own.max(SIGNIFICANT_DIGITS_MIN)));
        }
        if self.is_zero() {
            return Ok(Numeric::ZERO.round(own.max(SIGNIFICANT_DIGITS_MIN)));
        }
        let magnitude = self.abs();
        let log = magnitude.rough_ln().times(Rough::of(exponent));
        let estimate = log * std::f64::consts::LOG10_E;
        if estimate > super::INT_DIGITS_MAX as f64 {
            return Err(overflow());
        }
        if estimate < -f64::from(DISPLAY_SCALE_MAX) * 2.0 {
            return Ok(Numeric::new(0, DISPLAY_SCALE_MAX as u16));
        }
        let scale = (SIGNIFICANT_DIGITS_MIN - estimate as i32).max(own).clamp(0, DISPLAY_SCALE_MAX);
        let int_digits = estimate.max(0.0) as u32;
        if whole && let Some(e) = exponent.to_i64().and_then(|e| i32::try_from(e).ok()) {
            let scale = SIGNIFICANT_DIGITS_MIN.max(i32::from(self.scale())).min(DISPLAY_SCALE_MAX);
            return self.power_whole(e, scale as u32, int_digits);
        }
        if log.abs() > EXP_ARGUMENT_MAX * 1.003 {
            return if log > 0.0 { Err(overflow()) } else { Ok(Numeric::new(0, DISPLAY_SCALE_MAX as u16)) };
        }
        let odd = whole && exponent.rem(&Numeric::from(2))?.signum() != 0;
        let signed = |result: Numeric| if self.signum() < 0 && odd { result.neg() } else { result };
        if magnitude.compare(&Numeric::ONE).is_eq() {
            return Ok(signed(Numeric::ONE.round(scale)));
        }
        // What is missing in the logarithm counts as often as the exponent says; a large one goes with a base that is near 1, whose
        // logarithm has few terms.
        let raised = exponent.exponent().unwrap_or(0).max(0).unsigned_abs();
        let wide = Fixed::new(scale as u32 + int_digits + 2 * GUARD + raised);
        let product = wide.mul(&wide.ln_of(&magnitude), &wide.of(exponent));
        let fixed = Fixed::new(scale as u32 + 2 * int_digits + 2 * GUARD);
        let result = fixed.round_to(&fixed.exp(&fixed.rescaled(&product, &wide)), scale)?;
        Ok(signed(result))
    }

    /// ln self for self > 0; 0 for 1 alone.
    fn rough_ln(&self) -> Rough {
        let (fraction, exponent) = (self.leading_fraction(), self.exponent().unwrap_or(0));
        let is_near_one = exponent == 0 && fraction < 1.1 || exponent == -1 && fraction >= 9.0;
        if !is_near_one {
            let fraction = (f64::from(exponent) + fraction.log10()) * std::f64::consts::LN_10;
            return Rough { fraction, exponent: 0 };
        }
        let off = self.sub(&Numeric::ONE).map_or(Rough::ZERO, |off| Rough::of(&off));
        // Closer to 1 ln (1 + x) is x, to as many digits as matter.
        if off.exponent < -8 { off } else { Rough { fraction: off.times(Rough::ONE).ln_1p(), exponent: 0 } }
    }

    /// The value's digits as a number from 1 up to 10.
    fn leading_fraction(&self) -> f64 {
        let digits = self.big_coef().magnitude().to_string();
        let head = &digits[..digits.len().min(17)];
        head.parse::<f64>().unwrap_or(1.0) / 10f64.powi(head.len() as i32 - 1)
    }

    /// `int_digits`: about how many digits the result has before the point.
    fn power_whole(&self, exponent: i32, scale: u32, int_digits: u32) -> SqlResult<Numeric> {
        let magnitude = exponent.unsigned_abs();
        let coef = self.big_coef();
        let is_negative = coef.sign() == Sign::Minus && magnitude % 2 == 1;
        let digits = int_digits + scale + GUARD;
        let power = |of: &BigUint| Float::power(of, magnitude, digits);
        let (mut num, mut den) =
            (power(coef.magnitude()), power(pow10_big(u32::from(self.scale())).magnitude()));
        if exponent < 0 {
            std::mem::swap(&mut num, &mut den);
        }
        let shift = num.shift - den.shift;
        let num = num.mantissa * pow10_big(scale).magnitude() << shift.max(0);
        let den = den.mantissa << (-shift).max(0);
        let rounded = div_round_big(&BigInt::from(num), &BigInt::from(den));
        Numeric::from_big_checked(if is_negative { -rounded } else { rounded }, scale as u16)
    }
}

/// A number of any size to some 16 digits: `fraction * 10^exponent`.
#[derive(Clone, Copy)]
struct Rough {
    fraction: f64,
    exponent: i32,
}

impl Rough {
    const ZERO: Rough = Rough { fraction: 0.0, exponent: 0 };
    const ONE: Rough = Rough { fraction: 1.0, exponent: 0 };

    fn of(n: &Numeric) -> Rough {
        match n.exponent() {
            None => Rough::ZERO,
            Some(exponent) => Rough { fraction: n.leading_fraction() * f64::from(n.signum()), exponent },
        }
    }

    /// The product: 0 where it is too small, an infinity where it is too large for a double.
    fn times(self, other: Rough) -> f64 {
        let fraction = self.fraction * other.fraction;
        match self.exponent + other.exponent {
            _ if fraction == 0.0 => 0.0,
            exponent @ -300..=300 => fraction * 10f64.powi(exponent),
            exponent if exponent < 0 => 0.0,
            _ => fraction * f64::INFINITY,
        }
    }
}

/// A number of so many bits as were asked for: `mantissa * 2^shift`.
struct Float {
    mantissa: BigUint,
    shift: i64,
}

impl Float {
    /// `base^exponent`, at most a part in `10^digits` too small.
    fn power(base: &BigUint, exponent: u32, digits: u32) -> Float {
        // Each of at most 64 products cuts off less than a part in 2^bits, which the later ones raise to at most 2^31 times as much.
        let bits = u64::from(digits) * 10 / 3 + 1 + 31 + 7;
        let mut product = Float { mantissa: BigUint::from(1u8), shift: 0 };
        for bit in (0..u32::BITS - exponent.leading_zeros()).rev() {
            product = product.times(&product, bits);
            if exponent >> bit & 1 == 1 {
                product = product.times(&Float { mantissa: base.clone(), shift: 0 }, bits);
            }
        }
        product
    }

    fn times(&self, other: &Float, bits: u64) -> Float {
        let product = &self.mantissa * &other.mantissa;
        let excess = product.bits().saturating_sub(bits);
        Float { mantissa: product >> excess, shift: self.shift + other.shift + excess as i64 }
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
        assert_eq!(n("-2").power(&n("3")).unwrap().to_string(), "-8.0000000000000000");
        assert_eq!(n("1.5").power(&n("-7")).unwrap().to_string(), "0.0585276634659351");

        assert!(n("-1").sqrt().is_err());
        assert!(n("0").ln().is_err());
    }

    #[test]
    fn powers_with_whole_exponents_are_postgresqls_however_large() {
        let n = |s: &str| s.parse::<Numeric>().unwrap();
        let power = |base: &str, exponent: &str| n(base).power(&n(exponent)).unwrap().to_string();
        assert_eq!(power("-3", "5"), "-243.0000000000000000");
        assert_eq!(power("1.5", "-7"), "0.0585276634659351");
        assert_eq!(power("0.5", "17"), "0.0000076293945313");
        assert_eq!(power("2", "-20"), "0.0000009536743164");
        assert_eq!(power("10", "131071"), format!("1{}.{}", "0".repeat(131_071), "0".repeat(16)));
        let large = power("1.0000001", "2147483647");
        assert!(large.starts_with("1836644589403938098389174471618404689695"), "{large}");
        assert!(n("10").power(&n("131072")).is_err());
    }

    #[test]
    fn exponentials_and_logarithms_end_where_postgresqls_do() {
        let n = |s: &str| s.parse::<Numeric>().unwrap();
        assert!(n("6000").exp().is_err() && n("1.5").power(&n("700000.5")).is_err());
        assert_eq!(n("4600").exp().unwrap().to_string().len(), 1_998);
        assert_eq!(n("1.5").power(&n("11000.5")).unwrap().to_string().len(), 1_940);
        let large = n("10").power(&n("131000")).unwrap();
        assert_eq!(large.ln().unwrap().to_string(), "301638.6471822199846064");
        assert_eq!(large.log(&n("10")).unwrap().to_string(), "131000.0000000000000000");
        let near_one = n("1.0000000000000000000001").ln().unwrap();
        assert_eq!(near_one.to_string(), "0.00000000000000000000010000000000000000");
        assert_eq!(
            n("0.00000000000000000000012345").ln().unwrap().to_string(),
            "-50.44620601606590790656190029"
        );
        let quotient = n("10").power(&n("1000")).unwrap().log(&n("1.0001")).unwrap();
        assert_eq!(quotient.to_string(), "23027002.2032997041044353");
    }

    #[test]
    fn digits_that_do_not_matter_take_no_time() {
        let n = |s: &str| s.parse::<Numeric>().unwrap();
        let thirds = n(&format!("0.{}", "3".repeat(16_000)));
        let root = n("2.5").power(&thirds).unwrap();
        assert!(root.to_string().starts_with("1.357208808297453"), "{root:.40}");
        let zeros = "0".repeat(15_999);
        let near_one = n(&format!("1.{zeros}1"));
        let many = n(&format!("1{}.5", "0".repeat(131_000)));
        assert!(near_one.power(&many).is_err());
        assert!(n(&format!("0.{}", "9".repeat(16_000))).power(&many).unwrap().is_zero());
        let e = near_one.power(&n(&format!("1{zeros}0.5"))).unwrap();
        assert!(e.to_string().starts_with("2.718281828459045235360287"), "{e:.40}");
        assert!(n("2.5").log(&near_one).is_err());
        assert_eq!(near_one.log(&n("2.5")).unwrap().round(20).to_string(), "0.00000000000000000000");
    }

    #[test]
    fn powers_of_numbers_near_one_have_all_their_digits() {
        let n = |s: &str| s.parse::<Numeric>().unwrap();
        let power = |base: &str, exponent: &str| n(base).power(&n(exponent)).unwrap().to_string();
        let large = power("1.0000000000000001", "1000000000000000000");
        assert_eq!(large, "26881171418161220078269164709372690275533276.5501104551113001");
        let small = power("0.9999999999999999", "100000000000000000");
        assert_eq!(small, "0.00004539992976248483");
        assert_eq!(power("-1", "10000000000001"), "-1.0000000000000000");
    }
}
