//! Functions of angles in degrees, and hyperbolic ones.

use base::{SqlError, SqlState};
use types::Datum;

use super::*;

macro_rules! of_one {
    ($($name:literal $f:ident),* $(,)?) => {
        &[
            $(FunctionDef::new($name, &[FLOAT8], FLOAT8, |a, _| Ok(Datum::Float8($f(float(&a[0])?)?))),)*
            FunctionDef::new("atan2d", &[FLOAT8, FLOAT8], FLOAT8, |a, _| {
                let angle = float(&a[0])?.atan2(float(&a[1])?);
                Ok(Datum::Float8(angle / 1f64.atan() * 45.0))
            }),
        ]
    };
}

pub(super) static FUNCTIONS: &[FunctionDef] = of_one![
    "sind" sind, "cosd" cosd, "tand" tand, "cotd" cotd, "asind" asind, "acosd" acosd, "atand" atand,
    "sinh" sinh, "cosh" cosh, "tanh" tanh, "asinh" asinh, "acosh" acosh, "atanh" atanh,
];

fn out_of_range() -> EvalError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "input is out of range").into()
}

// As PostgreSQL's `float.c`: scaled so that multiples of 30 degrees come out exact.
fn sine_to_30(x: f64) -> f64 {
    x.to_radians().sin() / 30f64.to_radians().sin() / 2.0
}

fn cosine_to_60(x: f64) -> f64 {
    1.0 - (1.0 - x.to_radians().cos()) / (1.0 - 60f64.to_radians().cos()) / 2.0
}

fn sine_to_90(x: f64) -> f64 {
    if x <= 30.0 { sine_to_30(x) } else { cosine_to_60(90.0 - x) }
}

fn cosine_to_90(x: f64) -> f64 {
    if x <= 60.0 { cosine_to_60(x) } else { sine_to_30(90.0 - x) }
}

/// The angle between 0 and 90 degrees with the same sine, cosine and tangent but for their signs, which follow.
fn folded(x: f64) -> EvalResult<(f64, f64, f64)> {
    if x.is_infinite() {
        return Err(out_of_range());
    }
    let (mut x, mut sine, mut cosine) = (x % 360.0, 1.0, 1.0);
    if x < 0.0 {
        (x, sine) = (-x, -sine);
    }
    if x > 180.0 {
        (x, sine) = (360.0 - x, -sine);
    }
    if x > 90.0 {
        (x, cosine) = (180.0 - x, -cosine);
    }
    Ok((x, sine, cosine))
}

fn sind(x: f64) -> EvalResult<f64> {
    let (x, sign, _) = folded(x)?;
    Ok(sign * sine_to_90(x))
}

fn cosd(x: f64) -> EvalResult<f64> {
    let (x, _, sign) = folded(x)?;
    Ok(sign * cosine_to_90(x))
}

fn tand(x: f64) -> EvalResult<f64> {
    let (x, sine, cosine) = folded(x)?;
    let scale = sine_to_90(45.0) / cosine_to_90(45.0);
    let result = sine * cosine * (sine_to_90(x) / cosine_to_90(x) / scale);
    Ok(if result == 0.0 { 0.0 } else { result })
}

fn cotd(x: f64) -> EvalResult<f64> {
    let (x, sine, cosine) = folded(x)?;
    let scale = cosine_to_90(45.0) / sine_to_90(45.0);
    let result = sine * cosine * (cosine_to_90(x) / sine_to_90(x) / scale);
    Ok(if result == 0.0 { 0.0 } else { result })
}

fn arc_sine(x: f64) -> f64 {
    if x <= 0.5 { x.asin() / 0.5f64.asin() * 30.0 } else { 90.0 - x.acos() / 0.5f64.acos() * 60.0 }
}

fn arc_cosine(x: f64) -> f64 {
    if x <= 0.5 { 90.0 - x.asin() / 0.5f64.asin() * 30.0 } else { x.acos() / 0.5f64.acos() * 60.0 }
}

/// `x` if it is NaN or lies from -1 to 1.
fn unit(x: f64) -> EvalResult<f64> {
    if x.abs() > 1.0 { Err(out_of_range()) } else { Ok(x) }
}

fn asind(x: f64) -> EvalResult<f64> {
    let x = unit(x)?;
    Ok(if x >= 0.0 { arc_sine(x) } else { -arc_sine(-x) })
}

fn acosd(x: f64) -> EvalResult<f64> {
    let x = unit(x)?;
    Ok(if x >= 0.0 { arc_cosine(x) } else { 90.0 + arc_sine(-x) })
}

fn atand(x: f64) -> EvalResult<f64> {
    Ok(x.atan() / 1f64.atan() * 45.0)
}

fn sinh(x: f64) -> EvalResult<f64> {
    Ok(x.sinh())
}

fn cosh(x: f64) -> EvalResult<f64> {
    Ok(x.cosh())
}

fn tanh(x: f64) -> EvalResult<f64> {
    Ok(x.tanh())
}

fn asinh(x: f64) -> EvalResult<f64> {
    Ok(x.asinh())
}

fn acosh(x: f64) -> EvalResult<f64> {
    if x < 1.0 { Err(out_of_range()) } else { Ok(x.acosh()) }
}

fn atanh(x: f64) -> EvalResult<f64> {
    Ok(unit(x)?.atanh())
}
