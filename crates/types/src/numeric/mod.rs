//! PostgreSQL's numeric: exact decimals of any precision with a display scale.
//!
//! Values whose digits fit an `i64` are kept inline and computed in `i128`; others fall back to big integers. Which form a
//! value has depends on its digits only, so `==` is structural equality: same number, same scale.

mod arith;
mod binary;
mod exact;
mod key;
mod math;
mod text;

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use base::{SqlError, SqlResult, SqlState};
use num_bigint::{BigInt, Sign};

/// Most digits after the point of a result, as PostgreSQL's `NUMERIC_MAX_DISPLAY_SCALE` and `NUMERIC_MAX_RESULT_SCALE`.
const DISPLAY_SCALE_MAX: i32 = 1000;
/// Most digits after the point of any value (`NUMERIC_DSCALE_MAX`).
const SCALE_MAX: i32 = 16383;
/// Most digits before the point (`(NUMERIC_WEIGHT_MAX + 1) * DEC_DIGITS`).
const INT_DIGITS_MAX: i64 = 131_072;
/// Significant digits of a quotient, as PostgreSQL's `NUMERIC_MIN_SIG_DIGITS`.
const SIGNIFICANT_DIGITS_MIN: i32 = 16;

/// An exact decimal, NaN or an infinity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Numeric(Repr);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Repr {
    /// coef / 10^scale
    Small {
        coef: i64,
        scale: u16,
    },
    /// The coefficient does not fit an `i64`.
    Big(Box<Big>),
    NaN,
    PosInf,
    NegInf,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Big {
    coef: BigInt,
    scale: u16,
}

const _: () = assert!(std::mem::size_of::<Numeric>() == 16);

fn overflow() -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value overflows numeric format")
}

fn division_by_zero() -> SqlError {
    SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero")
}

/// 10^n; `None` beyond `i128`.
#[inline]
fn pow10_i128(n: u32) -> Option<i128> {
    const TABLE: [i128; 39] = {
        let mut table = [1i128; 39];
        let mut i = 1;
        while i < 39 {
            table[i] = table[i - 1] * 10;
            i += 1;
        }
        table
    };
    TABLE.get(n as usize).copied()
}

fn pow10_big(n: u32) -> BigInt {
    match pow10_i128(n) {
        Some(p) => BigInt::from(p),
        None => BigInt::from(10).pow(n),
    }
}

/// num / den, rounded half away from zero.
fn div_round_i128(num: i128, den: i128) -> i128 {
    debug_assert!(den > 0);
    let (q, r) = (num / den, num % den);
    if r.unsigned_abs() >= den.unsigned_abs().div_ceil(2) { q + num.signum() } else { q }
}

fn div_round_big(num: &BigInt, den: &BigInt) -> BigInt {
    debug_assert!(den.sign() == Sign::Plus);
    let q: BigInt = num / den;
    let r: BigInt = num - &q * den;
    if BigInt::from(r.magnitude() * 2u32) >= *den {
        if num.sign() == Sign::Minus { q - 1 } else { q + 1 }
    } else {
        q
    }
}

fn decimal_digits_i64(v: u64) -> u32 {
    if v == 0 { 0 } else { v.ilog10() + 1 }
}

/// As many digits as a number has, or one more.
fn decimal_digits_max(v: &BigInt) -> u32 {
    (v.bits() as f64 * std::f64::consts::LOG10_2) as u32 + 1
}

fn decimal_digits_big(v: &BigInt) -> u32 {
    if v.sign() == Sign::NoSign {
        return 0;
    }
    // The bit length bounds the count to within one; decide by one comparison.
    let bits = v.bits();
    let guess = ((bits - 1) as f64 * std::f64::consts::LOG10_2) as u32;
    let magnitude = BigInt::from(v.magnitude().clone());
    let mut digits = guess.max(1) - 1;
    while pow10_big(digits) <= magnitude {
        digits += 1;
    }
    digits
}

impl Numeric {
    pub const ZERO: Numeric = Numeric(Repr::Small { coef: 0, scale: 0 });
    pub const ONE: Numeric = Numeric(Repr::Small { coef: 1, scale: 0 });
    pub const NAN: Numeric = Numeric(Repr::NaN);
    pub const INFINITY: Numeric = Numeric(Repr::PosInf);
    pub const NEG_INFINITY: Numeric = Numeric(Repr::NegInf);

    /// `coef / 10^scale`.
    #[inline]
    pub fn new(coef: i64, scale: u16) -> Numeric {
        Numeric(Repr::Small { coef, scale })
    }

    /// Coefficient and scale of a finite value whose coefficient fits eight bytes; what [`Numeric::new`] takes.
    #[inline]
    pub fn as_small(&self) -> Option<(i64, u16)> {
        match self.0 {
            Repr::Small { coef, scale } => Some((coef, scale)),
            _ => None,
        }
    }

    pub fn from_i128(coef: i128, scale: u16) -> Numeric {
        match i64::try_from(coef) {
            Ok(coef) => Numeric::new(coef, scale),
            Err(_) => Numeric(Repr::Big(Box::new(Big { coef: BigInt::from(coef), scale }))),
        }
    }

    fn from_big(coef: BigInt, scale: u16) -> Numeric {
        match i64::try_from(&coef) {
            Ok(coef) => Numeric::new(coef, scale),
            Err(_) => Numeric(Repr::Big(Box::new(Big { coef, scale }))),
        }
    }

    /// As [`Numeric::from_big`], refusing what PostgreSQL's format cannot hold.
    fn from_big_checked(coef: BigInt, scale: u16) -> SqlResult<Numeric> {
        // 3.33 bits a digit: only values near the limit pay for counting digits.
        if coef.bits() > 400_000 && i64::from(decimal_digits_big(&coef)) - i64::from(scale) > INT_DIGITS_MAX {
            return Err(overflow());
        }
        Ok(Numeric::from_big(coef, scale))
    }

    /// Digits after the point that are shown; 0 for NaN and the infinities.
    pub fn scale(&self) -> u16 {
        match &self.0 {
            Repr::Small { scale, .. } => *scale,
            Repr::Big(big) => big.scale,
            _ => 0,
        }
    }

    /// The value in units of 10^-`scale`, if it is a whole number of them that fits.
    pub fn to_unscaled(&self, scale: u16) -> Option<i128> {
        let (coef, own) = match &self.0 {
            Repr::Small { coef, scale } => (i128::from(*coef), *scale),
            Repr::Big(big) => (i128::try_from(&big.coef).ok()?, big.scale),
            _ => return None,
        };
        if own <= scale {
            return coef.checked_mul(pow10_i128(u32::from(scale - own))?);
        }
        let unit = pow10_i128(u32::from(own - scale))?;
        (coef % unit == 0).then_some(coef / unit)
    }

    pub fn is_nan(&self) -> bool {
        matches!(self.0, Repr::NaN)
    }

    pub fn is_infinite(&self) -> bool {
        matches!(self.0, Repr::PosInf | Repr::NegInf)
    }

    pub fn is_finite(&self) -> bool {
        matches!(self.0, Repr::Small { .. } | Repr::Big(_))
    }

    pub fn is_zero(&self) -> bool {
        matches!(self.0, Repr::Small { coef: 0, .. })
    }

    /// -1, 0 or 1; NaN counts as positive.
    pub fn signum(&self) -> i32 {
        match &self.0 {
            Repr::Small { coef, .. } => coef.signum() as i32,
            Repr::Big(big) => {
                if big.coef.sign() == Sign::Minus {
                    -1
                } else {
                    1
                }
            }
            Repr::NegInf => -1,
            _ => 1,
        }
    }

    /// Bytes the value holds on the heap.
    #[inline]
    pub fn heap_bytes(&self) -> usize {
        match &self.0 {
            Repr::Big(big) => std::mem::size_of::<Big>() + (big.coef.bits() as usize).div_ceil(8),
            _ => 0,
        }
    }

    fn big_coef(&self) -> BigInt {
        match &self.0 {
            Repr::Small { coef, .. } => BigInt::from(*coef),
            Repr::Big(big) => big.coef.clone(),
            _ => unreachable!("only finite values have a coefficient"),
        }
    }

    /// The coefficient at a scale that is at least the value's own.
    fn big_coef_at(&self, scale: u16) -> BigInt {
        let own = self.scale();
        debug_assert!(scale >= own);
        let coef = self.big_coef();
        if scale == own { coef } else { coef * pow10_big(u32::from(scale - own)) }
    }

    /// Decimal digits of the coefficient; 0 for zero.
    fn coef_digits(&self) -> u32 {
        match &self.0 {
            Repr::Small { coef, .. } => decimal_digits_i64(coef.unsigned_abs()),
            Repr::Big(big) => decimal_digits_big(&big.coef),
            _ => 0,
        }
    }

    /// Decimal exponent of the first non-zero digit: 0 for 1..9.99; `None` for zero.
    fn exponent(&self) -> Option<i32> {
        match self.coef_digits() {
            0 => None,
            digits => Some(digits as i32 - 1 - i32::from(self.scale())),
        }
    }

    /// PostgreSQL's order: numbers by value, then +infinity, then NaN, which equals itself.
    pub fn compare(&self, other: &Numeric) -> Ordering {
        match (&self.0, &other.0) {
            (Repr::Small { coef: a, scale: sa }, Repr::Small { coef: b, scale: sb }) => {
                if sa == sb || *a == 0 || a.signum() != b.signum() {
                    return a.cmp(b);
                }
                let diff = u32::from(sa.abs_diff(*sb));
                // |i64| < 10^19, so the product stays below 10^38 < 2^127.
                match pow10_i128(diff).filter(|_| diff <= 19) {
                    Some(p) if sa < sb => (i128::from(*a) * p).cmp(&i128::from(*b)),
                    Some(p) => i128::from(*a).cmp(&(i128::from(*b) * p)),
                    // The product would be beyond what the other coefficient can be.
                    None if (sa < sb) == (*a > 0) => Ordering::Greater,
                    None => Ordering::Less,
                }
            }
            (Repr::Big(a), Repr::Big(b)) if a.scale == b.scale => a.coef.cmp(&b.coef),
            _ if self.is_finite() && other.is_finite() => self.compare_big(other),
            _ => self.class().cmp(&other.class()),
        }
    }

    /// The least and the most that [`Numeric::exponent`] may be, without counting digits; of a finite number that is not zero.
    fn exponent_bounds(&self) -> (i32, i32) {
        let (least, most) = match &self.0 {
            Repr::Big(big) => {
                let digits = |bits: u64| (bits as f64 * std::f64::consts::LOG10_2) as i32;
                let bits = big.coef.bits();
                // One more to either side, for the rounding of the product.
                (digits(bits - 1), digits(bits) + 2)
            }
            _ => (self.coef_digits() as i32, self.coef_digits() as i32),
        };
        let scale = i32::from(self.scale());
        (least - 1 - scale, most - 1 - scale)
    }

    fn class(&self) -> u8 {
        match self.0 {
            Repr::NegInf => 0,
            Repr::Small { .. } | Repr::Big(_) => 1,
            Repr::PosInf => 2,
            Repr::NaN => 3,
        }
    }

    /// Powers of ten, which take up to a tenth of a millisecond, are made for numbers alone that have as many digits before the point.
    fn compare_big(&self, other: &Numeric) -> Ordering {
        let signs = self.signum().cmp(&other.signum());
        if signs.is_ne() {
            return signs;
        }
        let ((least, most), (other_least, other_most)) = (self.exponent_bounds(), other.exponent_bounds());
        if least > other_most || most < other_least {
            let larger = if least > other_most { Ordering::Greater } else { Ordering::Less };
            return if self.signum() < 0 { larger.reverse() } else { larger };
        }
        let scale = self.scale().max(other.scale());
        self.big_coef_at(scale).cmp(&other.big_coef_at(scale))
    }

    /// Feeds the value to `state` so that values which compare equal hash alike, whatever their scales.
    pub fn hash_value<H: Hasher>(&self, state: &mut H) {
        match &self.0 {
            Repr::Small { .. } => {
                if let Numeric(Repr::Small { coef, scale }) = self.trimmed() {
                    (1u8, coef, scale).hash(state);
                }
            }
            Repr::Big(_) => match self.trimmed() {
                Numeric(Repr::Big(big)) => (2u8, &big.coef, big.scale).hash(state),
                small => small.hash_value(state),
            },
            Repr::NaN => 3u8.hash(state),
            Repr::PosInf => 4u8.hash(state),
            Repr::NegInf => 5u8.hash(state),
        }
    }

    /// The value without trailing zeros after the point (`trim_scale`).
    #[must_use]
    pub fn trimmed(&self) -> Numeric {
        match &self.0 {
            Repr::Small { coef: 0, .. } => Numeric::ZERO,
            Repr::Small { coef, scale } => {
                let (mut coef, mut scale) = (*coef, *scale);
                while scale > 0 && coef % 10 == 0 {
                    coef /= 10;
                    scale -= 1;
                }
                Numeric::new(coef, scale)
            }
            Repr::Big(big) => {
                let digits = big.coef.to_string();
                let zeros = digits.bytes().rev().take_while(|b| *b == b'0').count();
                let zeros = zeros.min(usize::from(big.scale)) as u16;
                Numeric::from_big(&big.coef / pow10_big(u32::from(zeros)), big.scale - zeros)
            }
            _ => self.clone(),
        }
    }

    /// Rounds half away from zero to `scale` digits after the point (negative: before it), which then are the display scale.
    #[must_use]
    pub fn round(&self, scale: i32) -> Numeric {
        self.to_scale(scale, true)
    }

    /// Cuts off to `scale` digits after the point (negative: before it).
    #[must_use]
    pub fn trunc(&self, scale: i32) -> Numeric {
        self.to_scale(scale, false)
    }

    fn to_scale(&self, scale: i32, round: bool) -> Numeric {
        if !self.is_finite() {
            return self.clone();
        }
        let scale = scale.clamp(-SCALE_MAX * 16, SCALE_MAX);
        let own = i32::from(self.scale());
        let shown = scale.max(0) as u16;
        if scale == own {
            return self.clone();
        }
        if scale > own {
            let diff = (scale - own) as u32;
            if let Repr::Small { coef, .. } = &self.0
                && diff <= 19
                && let Some(p) = pow10_i128(diff)
            {
                return Numeric::from_i128(i128::from(*coef) * p, shown);
            }
            return Numeric::from_big(self.big_coef_at(shown), shown);
        }
        let drop = (own - scale) as u32;
        if drop > self.coef_digits() + 1 {
            return Numeric::new(0, shown);
        }
        let up = if scale < 0 { (-scale) as u32 } else { 0 };
        if let Repr::Small { coef, .. } = &self.0
            && let Some(p) = pow10_i128(drop)
            && up <= 18
        {
            let coef = i128::from(*coef);
            let q = if round { div_round_i128(coef, p) } else { coef / p };
            return Numeric::from_i128(q * pow10_i128(up).expect("at most 18"), shown);
        }
        let den = pow10_big(drop);
        let coef = self.big_coef();
        let q = if round { div_round_big(&coef, &den) } else { coef / den };
        Numeric::from_big(if up > 0 { q * pow10_big(up) } else { q }, shown)
    }

    /// Rounds up (`ceil`) to a whole number.
    #[must_use]
    pub fn ceil(&self) -> Numeric {
        let cut = self.trunc(0);
        if self.is_finite() && cut.compare(self).is_lt() {
            Numeric::from_big(cut.big_coef() + 1, 0)
        } else {
            cut
        }
    }

    /// Rounds down (`floor`) to a whole number.
    #[must_use]
    pub fn floor(&self) -> Numeric {
        let cut = self.trunc(0);
        if self.is_finite() && cut.compare(self).is_gt() {
            Numeric::from_big(cut.big_coef() - 1, 0)
        } else {
            cut
        }
    }

    /// The number, unless rounding has made it a digit longer than any may be.
    ///
    /// # Errors
    /// 22003.
    pub fn checked(self) -> SqlResult<Numeric> {
        match self.0 {
            Repr::Big(big) => Numeric::from_big_checked(big.coef, big.scale),
            _ => Ok(self),
        }
    }

    /// Fits the value to `numeric(precision, scale)`: rounds, then checks.
    ///
    /// # Errors
    /// 22003 "numeric field overflow".
    pub fn fit(self, precision: u16, scale: i16) -> SqlResult<Numeric> {
        if self.is_nan() {
            return Ok(self);
        }
        let field_overflow = |detail: String| {
            SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "numeric field overflow").with_detail(detail)
        };
        if self.is_infinite() {
            return Err(field_overflow(format!(
                "A field with precision {precision}, scale {scale} cannot hold an infinite value."
            )));
        }
        let rounded =
            if i32::from(self.scale()) == i32::from(scale) { self } else { self.round(i32::from(scale)) };
        let int_digits_max = i32::from(precision) - i32::from(scale);
        match rounded.exponent() {
            Some(exponent) if exponent >= int_digits_max => Err(field_overflow(format!(
                "A field with precision {precision}, scale {scale} must round to an absolute value less than {}.",
                if int_digits_max == 0 { "1".to_owned() } else { format!("10^{int_digits_max}") }
            ))),
            _ => Ok(rounded),
        }
    }

    /// The nearest whole number, halves away from zero; `None` if it does not fit or is not finite.
    pub fn to_i64(&self) -> Option<i64> {
        match &self.0 {
            Repr::Small { coef, scale: 0 } => Some(*coef),
            Repr::Small { .. } | Repr::Big(_) => match self.round(0).0 {
                Repr::Small { coef, .. } => Some(coef),
                _ => None,
            },
            _ => None,
        }
    }

    /// The nearest double; NaN and the infinities are kept.
    pub fn to_f64(&self) -> f64 {
        match &self.0 {
            Repr::NaN => f64::NAN,
            Repr::PosInf => f64::INFINITY,
            Repr::NegInf => f64::NEG_INFINITY,
            Repr::Small { coef, scale: 0 } => *coef as f64,
            // Both operands are exact up to 2^53 and 10^22, so their quotient is correctly rounded.
            Repr::Small { coef, scale } if coef.unsigned_abs() < 1 << 53 && *scale <= 22 => {
                *coef as f64 / 10f64.powi(i32::from(*scale))
            }
            _ => self.to_string().parse().unwrap_or(f64::NAN),
        }
    }
}

impl From<i64> for Numeric {
    #[inline]
    fn from(v: i64) -> Numeric {
        Numeric::new(v, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn n(s: &str) -> Numeric {
        s.parse().unwrap()
    }

    #[test]
    fn rounding_is_half_away_from_zero_at_any_place() {
        for (value, scale, want) in [
            ("2.5", 0, "3"),
            ("-2.5", 0, "-3"),
            ("2.45", 1, "2.5"),
            ("1234.5", -2, "1200"),
            ("1250", -2, "1300"),
            ("49", -2, "0"),
            ("50", -2, "100"),
            ("0.5", -3, "0"),
            ("1", 3, "1.000"),
            ("99999999999999999999.5", 0, "100000000000000000000"),
        ] {
            assert_eq!(n(value).round(scale).to_string(), want, "round({value}, {scale})");
        }
        assert_eq!(n("-1.5").ceil().to_string(), "-1");
        assert_eq!(n("-1.5").floor().to_string(), "-2");
    }

    #[test]
    fn what_is_rounded_to_more_digits_than_there_may_be_is_refused() {
        let most = n(&("9".repeat(131_072) + ".5"));
        assert!(most.ceil().checked().is_err() && most.neg().floor().checked().is_err());
        assert!(most.round(0).checked().is_err() && most.round(-1).checked().is_err());
        assert_eq!(most.floor().checked().unwrap().coef_digits(), 131_072);
        assert_eq!(most.trunc(-1).checked().unwrap().coef_digits(), 131_072);
    }

    #[test]
    fn numbers_of_very_different_scales_are_compared_in_no_time() {
        let long = format!("0.{}", "3".repeat(16_383));
        let ascending = [
            "-Infinity",
            "-1e100",
            "-1e99",
            "-12345678901234567890.5",
            "-1e19",
            "-1",
            "-0.5",
            "-1e-30",
            "-1e-16383",
            "0",
            "1e-16383",
            "1e-30",
            long.as_str(),
            "0.5",
            "1",
            "9223372036854775807",
            "9223372036854775807.1",
            "1e19",
            "1e99",
            "9e99",
            "1e100",
            "1e131071",
            "Infinity",
            "NaN",
        ]
        .map(n);
        for (i, a) in ascending.iter().enumerate() {
            for (j, b) in ascending.iter().enumerate() {
                assert_eq!(a.compare(b), i.cmp(&j), "{i} {j}");
            }
        }
        assert_eq!(n("0").compare(&n("0e-16383")), Ordering::Equal);
        // Seconds' work, and not minutes'.
        let (one, tiny, large, zero) = (n("1"), n("1e-16383"), n("1e40"), n("0e-16383"));
        for _ in 0..1_000_000 {
            assert_eq!(one.compare(&tiny), Ordering::Greater);
            assert_eq!(tiny.compare(&large), Ordering::Less);
            assert!(zero.trimmed().scale() == 0);
        }
    }

    #[test]
    fn equal_values_of_different_scales_compare_and_hash_alike() {
        use std::hash::BuildHasher;
        let hasher = rustc_hash::FxBuildHasher;
        let hash = |v: &Numeric| {
            let mut h = hasher.build_hasher();
            v.hash_value(&mut h);
            std::hash::Hasher::finish(&h)
        };
        for (a, b) in [
            ("1", "1.000"),
            ("0", "0.00"),
            ("12345678901234567890", "12345678901234567890.000"),
            ("-5.50", "-5.5"),
        ] {
            assert_eq!(n(a).compare(&n(b)), Ordering::Equal);
            assert_eq!(hash(&n(a)), hash(&n(b)), "{a} {b}");
        }
        assert_eq!(n("NaN").compare(&n("Infinity")), Ordering::Greater);
        assert_eq!(n("-Infinity").compare(&n("-1e100")), Ordering::Less);
    }
}
