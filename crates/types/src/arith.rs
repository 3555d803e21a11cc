//! Arithmetic of numbers of one type, with PostgreSQL's overflow errors.
//!
//! Both operands are of the same type and not NULL; the binder sees to it. Dates and intervals: [`crate::datetime`].

use base::{SqlError, SqlResult, SqlState};

use crate::{Datum, Numeric};

fn int_overflow(ty: &str) -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("{ty} out of range"))
}

/// 22012.
pub fn division_by_zero() -> SqlError {
    SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero")
}

/// 22003 for floats.
pub fn float_overflow() -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: overflow")
}

/// 22003 for floats.
pub fn float_underflow() -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: underflow")
}

#[cold]
fn mismatch(a: &Datum, b: &Datum) -> SqlError {
    SqlError::internal(format!("arithmetic on {} and {}", a.natural_type().name(), b.natural_type().name()))
}

/// Checks a float result: infinite from finite operands is an overflow, zero where it must not be an underflow.
fn check_float(result: f64, infinite_in: bool, zero_ok: bool) -> SqlResult<f64> {
    if result.is_infinite() && !infinite_in {
        Err(float_overflow())
    } else if result == 0.0 && !zero_ok {
        Err(float_underflow())
    } else {
        Ok(result)
    }
}

fn float4(result: f32, infinite_in: bool, zero_ok: bool) -> SqlResult<Datum> {
    check_float(f64::from(result), infinite_in, zero_ok).map(|_| Datum::Float4(result))
}

fn float8(result: f64, infinite_in: bool, zero_ok: bool) -> SqlResult<Datum> {
    check_float(result, infinite_in, zero_ok).map(Datum::Float8)
}

macro_rules! int_op {
    ($a:expr, $b:expr, $method:ident) => {
        match ($a, $b) {
            (Datum::Int4(x), Datum::Int4(y)) => {
                return x.$method(*y).map(Datum::Int4).ok_or_else(|| int_overflow("integer"))
            }
            (Datum::Int8(x), Datum::Int8(y)) => {
                return x.$method(*y).map(Datum::Int8).ok_or_else(|| int_overflow("bigint"))
            }
            (Datum::Int2(x), Datum::Int2(y)) => {
                return x.$method(*y).map(Datum::Int2).ok_or_else(|| int_overflow("smallint"))
            }
            _ => {}
        }
    };
}

/// Errors: 22003.
#[inline]
pub fn add(a: &Datum, b: &Datum) -> SqlResult<Datum> {
    int_op!(a, b, checked_add);
    match (a, b) {
        (Datum::Numeric(x), Datum::Numeric(y)) => x.add(y).map(Datum::Numeric),
        (Datum::Float8(x), Datum::Float8(y)) => float8(x + y, x.is_infinite() || y.is_infinite(), true),
        (Datum::Float4(x), Datum::Float4(y)) => float4(x + y, x.is_infinite() || y.is_infinite(), true),
        _ => Err(mismatch(a, b)),
    }
}

/// Errors: 22003.
#[inline]
pub fn sub(a: &Datum, b: &Datum) -> SqlResult<Datum> {
    int_op!(a, b, checked_sub);
    match (a, b) {
        (Datum::Numeric(x), Datum::Numeric(y)) => x.sub(y).map(Datum::Numeric),
        (Datum::Float8(x), Datum::Float8(y)) => float8(x - y, x.is_infinite() || y.is_infinite(), true),
        (Datum::Float4(x), Datum::Float4(y)) => float4(x - y, x.is_infinite() || y.is_infinite(), true),
        _ => Err(mismatch(a, b)),
    }
}

/// Errors: 22003.
#[inline]
pub fn mul(a: &Datum, b: &Datum) -> SqlResult<Datum> {
    int_op!(a, b, checked_mul);
    match (a, b) {
        (Datum::Numeric(x), Datum::Numeric(y)) => x.mul(y).map(Datum::Numeric),
        (Datum::Float8(x), Datum::Float8(y)) => {
            float8(x * y, x.is_infinite() || y.is_infinite(), *x == 0.0 || *y == 0.0)
        }
        (Datum::Float4(x), Datum::Float4(y)) => {
            float4(x * y, x.is_infinite() || y.is_infinite(), *x == 0.0 || *y == 0.0)
        }
        _ => Err(mismatch(a, b)),
    }
}

/// Integers are cut off toward zero. Errors: 22012, 22003.
#[inline]
pub fn div(a: &Datum, b: &Datum) -> SqlResult<Datum> {
    if matches!(b, Datum::Int4(0) | Datum::Int8(0) | Datum::Int2(0)) {
        return Err(division_by_zero());
    }
    int_op!(a, b, checked_div);
    match (a, b) {
        (Datum::Numeric(x), Datum::Numeric(y)) => x.div(y).map(Datum::Numeric),
        (Datum::Float8(x), Datum::Float8(y)) => {
            if *y == 0.0 && !x.is_nan() {
                return Err(division_by_zero());
            }
            float8(x / y, x.is_infinite(), *x == 0.0 || y.is_infinite())
        }
        (Datum::Float4(x), Datum::Float4(y)) => {
            if *y == 0.0 && !x.is_nan() {
                return Err(division_by_zero());
            }
            float4(x / y, x.is_infinite(), *x == 0.0 || y.is_infinite())
        }
        _ => Err(mismatch(a, b)),
    }
}

/// The sign is the dividend's. Errors: 22012.
#[inline]
pub fn rem(a: &Datum, b: &Datum) -> SqlResult<Datum> {
    match (a, b) {
        (_, Datum::Int4(0) | Datum::Int8(0) | Datum::Int2(0)) => Err(division_by_zero()),
        // The least integer modulo -1 is 0, without overflow.
        (Datum::Int4(x), Datum::Int4(y)) => Ok(Datum::Int4(x.wrapping_rem(*y))),
        (Datum::Int8(x), Datum::Int8(y)) => Ok(Datum::Int8(x.wrapping_rem(*y))),
        (Datum::Int2(x), Datum::Int2(y)) => Ok(Datum::Int2(x.wrapping_rem(*y))),
        (Datum::Numeric(x), Datum::Numeric(y)) => x.rem(y).map(Datum::Numeric),
        _ => Err(mismatch(a, b)),
    }
}

/// Errors: 22003 for the least integer.
pub fn neg(a: &Datum) -> SqlResult<Datum> {
    Ok(match a {
        Datum::Int4(x) => Datum::Int4(x.checked_neg().ok_or_else(|| int_overflow("integer"))?),
        Datum::Int8(x) => Datum::Int8(x.checked_neg().ok_or_else(|| int_overflow("bigint"))?),
        Datum::Int2(x) => Datum::Int2(x.checked_neg().ok_or_else(|| int_overflow("smallint"))?),
        Datum::Numeric(x) => Datum::Numeric(x.neg()),
        Datum::Float8(x) => Datum::Float8(-x),
        Datum::Float4(x) => Datum::Float4(-x),
        _ => return Err(mismatch(a, a)),
    })
}

/// Errors: 22003 for the least integer.
pub fn abs(a: &Datum) -> SqlResult<Datum> {
    let negative = match a {
        Datum::Int2(_) | Datum::Int4(_) | Datum::Int8(_) => a.as_i64().is_some_and(|v| v < 0),
        Datum::Float4(x) => return Ok(Datum::Float4(x.abs())),
        Datum::Float8(x) => return Ok(Datum::Float8(x.abs())),
        Datum::Numeric(x) => return Ok(Datum::Numeric(x.abs())),
        _ => return Err(mismatch(a, a)),
    };
    if negative { neg(a) } else { Ok(a.clone()) }
}

/// A number of any type as a numeric; floats as PostgreSQL's cast does.
pub fn to_numeric(a: &Datum) -> Option<Numeric> {
    Some(match a {
        Datum::Numeric(n) => n.clone(),
        Datum::Float4(v) => Numeric::from_f32(*v),
        Datum::Float8(v) => Numeric::from_f64(*v),
        Datum::Int2(_) | Datum::Int4(_) | Datum::Int8(_) => Numeric::from(a.as_i64()?),
        _ => return None,
    })
}

/// A number of any type as a double.
pub fn to_f64(a: &Datum) -> Option<f64> {
    Some(match a {
        Datum::Numeric(n) => n.to_f64(),
        Datum::Float4(v) => f64::from(*v),
        Datum::Float8(v) => *v,
        Datum::Int2(_) | Datum::Int4(_) | Datum::Int8(_) => a.as_i64()? as f64,
        _ => return None,
    })
}
