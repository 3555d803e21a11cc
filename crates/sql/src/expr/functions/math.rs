//! Arithmetic and mathematical functions.

use base::{SqlError, SqlState};
use types::{Datum, Numeric, arith};

use super::*;

macro_rules! arithmetic {
    ($symbol:literal, $f:ident) => {
        [
            FunctionDef::new($symbol, &[INT2, INT2], INT2, $f),
            FunctionDef::new($symbol, &[INT4, INT4], INT4, $f),
            FunctionDef::new($symbol, &[INT8, INT8], INT8, $f),
            FunctionDef::new($symbol, &[NUMERIC, NUMERIC], NUMERIC, $f),
            FunctionDef::new($symbol, &[FLOAT4, FLOAT4], FLOAT4, $f),
            FunctionDef::new($symbol, &[FLOAT8, FLOAT8], FLOAT8, $f),
            FunctionDef::new($symbol, &[FLOAT4, FLOAT8], FLOAT8, $f),
            FunctionDef::new($symbol, &[FLOAT8, FLOAT4], FLOAT8, $f),
        ]
    };
}

macro_rules! each_number {
    ($name:literal, $f:ident) => {
        [
            FunctionDef::new($name, &[INT2], INT2, $f),
            FunctionDef::new($name, &[INT4], INT4, $f),
            FunctionDef::new($name, &[INT8], INT8, $f),
            FunctionDef::new($name, &[NUMERIC], NUMERIC, $f),
            FunctionDef::new($name, &[FLOAT4], FLOAT4, $f),
            FunctionDef::new($name, &[FLOAT8], FLOAT8, $f),
        ]
    };
}

/// Joins arrays of definitions at compile time.
macro_rules! join {
    ($($part:expr),* $(,)?) => {{
        const COUNT: usize = 0 $(+ $part.len())*;
        static JOINED: [FunctionDef; COUNT] = {
            const EMPTY: FunctionDef = FunctionDef::new("", &[], VOID, nothing);
            let mut out = [const { EMPTY }; COUNT];
            let mut at = 0;
            $({
                let part = $part;
                let mut i = 0;
                while i < part.len() {
                    out[at] = FunctionDef { ..part[i] };
                    at += 1;
                    i += 1;
                }
            })*
            let _ = at;
            out
        };
        &JOINED
    }};
}

fn nothing(_args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    Ok(Datum::Void)
}

pub(super) static OPERATORS: &[FunctionDef] = join![
    arithmetic!("+", add),
    arithmetic!("-", sub),
    arithmetic!("*", mul),
    arithmetic!("/", div),
    each_number!("-", neg),
    each_number!("+", same),
    each_number!("@", abs),
    [
        FunctionDef::new("%", &[INT2, INT2], INT2, rem),
        FunctionDef::new("%", &[INT4, INT4], INT4, rem),
        FunctionDef::new("%", &[INT8, INT8], INT8, rem),
        FunctionDef::new("%", &[NUMERIC, NUMERIC], NUMERIC, rem),
        FunctionDef::new("^", &[FLOAT8, FLOAT8], FLOAT8, power),
        FunctionDef::new("^", &[NUMERIC, NUMERIC], NUMERIC, power),
        FunctionDef::new("|/", &[FLOAT8], FLOAT8, sqrt),
        FunctionDef::new("||/", &[FLOAT8], FLOAT8, cbrt),
    ],
];

pub(super) static FUNCTIONS: &[FunctionDef] = join![
    each_number!("abs", abs),
    [
        FunctionDef::new("mod", &[INT2, INT2], INT2, rem),
        FunctionDef::new("mod", &[INT4, INT4], INT4, rem),
        FunctionDef::new("mod", &[INT8, INT8], INT8, rem),
        FunctionDef::new("mod", &[NUMERIC, NUMERIC], NUMERIC, rem),
        FunctionDef::new("div", &[NUMERIC, NUMERIC], NUMERIC, div_trunc),
        FunctionDef::new("ceil", &[FLOAT8], FLOAT8, ceil),
        FunctionDef::new("ceil", &[NUMERIC], NUMERIC, ceil),
        FunctionDef::new("ceiling", &[FLOAT8], FLOAT8, ceil),
        FunctionDef::new("ceiling", &[NUMERIC], NUMERIC, ceil),
        FunctionDef::new("floor", &[FLOAT8], FLOAT8, floor),
        FunctionDef::new("floor", &[NUMERIC], NUMERIC, floor),
        FunctionDef::new("round", &[FLOAT8], FLOAT8, round),
        FunctionDef::new("round", &[NUMERIC], NUMERIC, round),
        FunctionDef::new("round", &[NUMERIC, INT4], NUMERIC, round),
        FunctionDef::new("trunc", &[FLOAT8], FLOAT8, trunc),
        FunctionDef::new("trunc", &[NUMERIC], NUMERIC, trunc),
        FunctionDef::new("trunc", &[NUMERIC, INT4], NUMERIC, trunc),
        FunctionDef::new("sign", &[FLOAT8], FLOAT8, sign),
        FunctionDef::new("sign", &[NUMERIC], NUMERIC, sign),
        FunctionDef::new("power", &[FLOAT8, FLOAT8], FLOAT8, power),
        FunctionDef::new("power", &[NUMERIC, NUMERIC], NUMERIC, power),
        FunctionDef::new("pow", &[FLOAT8, FLOAT8], FLOAT8, power),
        FunctionDef::new("pow", &[NUMERIC, NUMERIC], NUMERIC, power),
        FunctionDef::new("sqrt", &[FLOAT8], FLOAT8, sqrt),
        FunctionDef::new("sqrt", &[NUMERIC], NUMERIC, sqrt),
        FunctionDef::new("cbrt", &[FLOAT8], FLOAT8, cbrt),
        FunctionDef::new("exp", &[FLOAT8], FLOAT8, exp),
        FunctionDef::new("exp", &[NUMERIC], NUMERIC, exp),
        FunctionDef::new("ln", &[FLOAT8], FLOAT8, ln),
        FunctionDef::new("ln", &[NUMERIC], NUMERIC, ln),
        FunctionDef::new("log", &[FLOAT8], FLOAT8, log10),
        FunctionDef::new("log", &[NUMERIC], NUMERIC, log10),
        FunctionDef::new("log10", &[FLOAT8], FLOAT8, log10),
        FunctionDef::new("log10", &[NUMERIC], NUMERIC, log10),
        FunctionDef::new("log", &[NUMERIC, NUMERIC], NUMERIC, log),
        FunctionDef::new("sin", &[FLOAT8], FLOAT8, |a, _| trig(a, f64::sin)),
        FunctionDef::new("cos", &[FLOAT8], FLOAT8, |a, _| trig(a, f64::cos)),
        FunctionDef::new("tan", &[FLOAT8], FLOAT8, |a, _| trig(a, f64::tan)),
        FunctionDef::new("asin", &[FLOAT8], FLOAT8, |a, _| trig(a, f64::asin)),
        FunctionDef::new("acos", &[FLOAT8], FLOAT8, |a, _| trig(a, f64::acos)),
        FunctionDef::new("atan", &[FLOAT8], FLOAT8, |a, _| trig(a, f64::atan)),
        FunctionDef::new("atan2", &[FLOAT8, FLOAT8], FLOAT8, |a, _| {
            Ok(Datum::Float8(float(&a[0])?.atan2(float(&a[1])?)))
        }),
        FunctionDef::new("radians", &[FLOAT8], FLOAT8, |a, _| Ok(arith::mul(&a[0], &RADIANS_PER_DEGREE)?)),
        FunctionDef::new("degrees", &[FLOAT8], FLOAT8, |a, _| Ok(arith::div(&a[0], &RADIANS_PER_DEGREE)?)),
        FunctionDef::new("pi", &[], FLOAT8, |_, _| Ok(Datum::Float8(std::f64::consts::PI))),
        FunctionDef::new("random", &[], FLOAT8, random).volatile(),
        FunctionDef::new("scale", &[NUMERIC], INT4, |a, _| Ok(match numeric(&a[0])? {
            n if n.is_finite() => Datum::Int4(i32::from(n.scale())),
            _ => Datum::Null,
        })),
        FunctionDef::new("min_scale", &[NUMERIC], INT4, |a, _| Ok(match numeric(&a[0])? {
            n if n.is_finite() => Datum::Int4(i32::from(n.trimmed().scale())),
            _ => Datum::Null,
        })),
        FunctionDef::new("gcd", &[NUMERIC, NUMERIC], NUMERIC, |a, ctx| Ok(Datum::Numeric(numeric_gcd(
            numeric(&a[0])?,
            numeric(&a[1])?,
            ctx
        )?))),
        FunctionDef::new("lcm", &[INT4, INT4], INT4, lcm),
        FunctionDef::new("lcm", &[INT8, INT8], INT8, lcm),
        FunctionDef::new("lcm", &[NUMERIC, NUMERIC], NUMERIC, numeric_lcm),
        FunctionDef::new("width_bucket", &[NUMERIC, NUMERIC, NUMERIC, INT4], INT4, numeric_width_bucket),
        FunctionDef::new("width_bucket", &[ArgType::AnyElement, ArgType::AnyArray], INT4, place_among),
        FunctionDef::new("trim_scale", &[NUMERIC], NUMERIC, |a, _| Ok(Datum::Numeric(
            numeric(&a[0])?.trimmed()
        ))),
        FunctionDef::new("gcd", &[INT4, INT4], INT4, gcd),
        FunctionDef::new("gcd", &[INT8, INT8], INT8, gcd),
        FunctionDef::new("width_bucket", &[FLOAT8, FLOAT8, FLOAT8, INT4], INT4, width_bucket),
        FunctionDef::new("factorial", &[INT8], NUMERIC, factorial),
    ],
];

const RADIANS_PER_DEGREE: Datum = Datum::Float8(std::f64::consts::PI / 180.0);

/// Both as doubles if one of them is a float4.
fn widened(args: &[Datum]) -> Option<(Datum, Datum)> {
    match (&args[0], &args[1]) {
        (Datum::Float4(a), Datum::Float8(b)) => Some((Datum::Float8(f64::from(*a)), Datum::Float8(*b))),
        (Datum::Float8(a), Datum::Float4(b)) => Some((Datum::Float8(*a), Datum::Float8(f64::from(*b)))),
        _ => None,
    }
}

macro_rules! binary {
    ($($name:ident),*) => {
        $(fn $name(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
            match widened(args) {
                None => Ok(arith::$name(&args[0], &args[1])?),
                Some((a, b)) => Ok(arith::$name(&a, &b)?),
            }
        })*
    };
}
binary!(add, sub, mul, div);

fn rem(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    Ok(arith::rem(&args[0], &args[1])?)
}

fn neg(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    Ok(arith::neg(&args[0])?)
}

fn same(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    Ok(args[0].clone())
}

fn abs(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    Ok(arith::abs(&args[0])?)
}

fn div_trunc(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    Ok(Datum::Numeric(numeric(&args[0])?.div_trunc(numeric(&args[1])?)?))
}

fn ceil(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    Ok(match &args[0] {
        Datum::Numeric(n) => Datum::Numeric(n.ceil().checked()?),
        d => Datum::Float8(float(d)?.ceil()),
    })
}

fn floor(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    Ok(match &args[0] {
        Datum::Numeric(n) => Datum::Numeric(n.floor().checked()?),
        d => Datum::Float8(float(d)?.floor()),
    })
}

fn places(args: &[Datum]) -> EvalResult<i32> {
    Ok(match args.get(1) {
        // As PostgreSQL limits them: to the digits that there can be, and one for what is rounded up.
        Some(d) => int(d)?.clamp(-131_073, 16_383) as i32,
        None => 0,
    })
}

fn round(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    Ok(match &args[0] {
        Datum::Numeric(n) => Datum::Numeric(n.round(places(args)?).checked()?),
        d => Datum::Float8(float(d)?.round_ties_even()),
    })
}

fn trunc(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    Ok(match &args[0] {
        Datum::Numeric(n) => Datum::Numeric(n.trunc(places(args)?).checked()?),
        d => Datum::Float8(float(d)?.trunc()),
    })
}

fn sign(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    Ok(match &args[0] {
        Datum::Numeric(n) if n.is_nan() => Datum::Numeric(Numeric::NAN),
        Datum::Numeric(n) => Datum::Numeric(Numeric::from(i64::from(n.signum()))),
        d => {
            let v = float(d)?;
            Datum::Float8(if v > 0.0 {
                1.0
            } else if v < 0.0 {
                -1.0
            } else {
                // Of -0 and NaN, too.
                0.0
            })
        }
    })
}

fn checked(result: f64, finite_in: bool) -> EvalResult<Datum> {
    if result.is_infinite() && finite_in {
        Err(arith::float_overflow().into())
    } else {
        Ok(Datum::Float8(result))
    }
}

fn power(args: &[Datum], ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    if let (Datum::Numeric(a), Datum::Numeric(b)) = (&args[0], &args[1]) {
        ctx.look()?;
        return Ok(Datum::Numeric(a.power(b)?));
    }
    let (a, b) = (float(&args[0])?, float(&args[1])?);
    let bad =
        |message: &str| Err(SqlError::new(SqlState::INVALID_ARGUMENT_FOR_POWER_FUNCTION, message).into());
    if a == 0.0 && b < 0.0 {
        return bad("zero raised to a negative power is undefined");
    }
    if a < 0.0 && b.is_finite() && b.fract() != 0.0 {
        return bad("a negative number raised to a non-integer power yields a complex result");
    }
    let result = a.powf(b);
    if result == 0.0 && a != 0.0 && a.is_finite() && b.is_finite() {
        return Err(arith::float_underflow().into());
    }
    checked(result, a.is_finite() && b.is_finite())
}

fn sqrt(args: &[Datum], ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    if let Datum::Numeric(n) = &args[0] {
        ctx.look()?;
        return Ok(Datum::Numeric(n.sqrt()?));
    }
    let v = float(&args[0])?;
    if v < 0.0 {
        return Err(SqlError::new(
            SqlState::INVALID_ARGUMENT_FOR_POWER_FUNCTION,
            "cannot take square root of a negative number",
        )
        .into());
    }
    Ok(Datum::Float8(v.sqrt()))
}

fn cbrt(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    Ok(Datum::Float8(float(&args[0])?.cbrt()))
}

fn exp(args: &[Datum], ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    if let Datum::Numeric(n) = &args[0] {
        ctx.look()?;
        return Ok(Datum::Numeric(n.exp()?));
    }
    let v = float(&args[0])?;
    let result = v.exp();
    if result == 0.0 && v.is_finite() {
        return Err(arith::float_underflow().into());
    }
    checked(result, v.is_finite())
}

fn check_log(v: f64) -> EvalResult<()> {
    let bad = |message: &str| Err(SqlError::new(SqlState::INVALID_ARGUMENT_FOR_LOG, message).into());
    if v == 0.0 {
        bad("cannot take logarithm of zero")
    } else if v < 0.0 {
        bad("cannot take logarithm of a negative number")
    } else {
        Ok(())
    }
}

fn ln(args: &[Datum], ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    if let Datum::Numeric(n) = &args[0] {
        ctx.look()?;
        return Ok(Datum::Numeric(n.ln()?));
    }
    let v = float(&args[0])?;
    check_log(v)?;
    Ok(Datum::Float8(v.ln()))
}

fn log10(args: &[Datum], ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    if let Datum::Numeric(n) = &args[0] {
        ctx.look()?;
        return Ok(Datum::Numeric(n.log(&Numeric::from(10))?));
    }
    let v = float(&args[0])?;
    check_log(v)?;
    Ok(Datum::Float8(v.log10()))
}

/// `log(base, number)`.
fn log(args: &[Datum], ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    ctx.look()?;
    Ok(Datum::Numeric(numeric(&args[1])?.log(numeric(&args[0])?)?))
}

fn trig(args: &[Datum], f: fn(f64) -> f64) -> EvalResult<Datum> {
    let v = float(&args[0])?;
    let result = f(v);
    if result.is_nan() && !v.is_nan() {
        return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "input is out of range").into());
    }
    Ok(Datum::Float8(result))
}

fn random(_args: &[Datum], ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    // 53 bits: every double of [0, 1) of that spacing is equally likely.
    Ok(Datum::Float8((ctx.stmt.session.random() >> 11) as f64 / (1u64 << 53) as f64))
}

fn gcd(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let (mut a, mut b) = (int(&args[0])?.unsigned_abs(), int(&args[1])?.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    let range = |ty: &str| SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("{ty} out of range"));
    Ok(match &args[0] {
        Datum::Int4(_) => Datum::Int4(i32::try_from(a).map_err(|_| range("integer"))?),
        _ => Datum::Int8(i64::try_from(a).map_err(|_| range("bigint"))?),
    })
}

fn lcm(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let (first, second) = (int(&args[0])?, int(&args[1])?);
    let (mut a, mut b) = (first.unsigned_abs(), second.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    let range = |ty: &str| SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("{ty} out of range"));
    let multiple = match a {
        0 => Some(0),
        a => (first.unsigned_abs() / a).checked_mul(second.unsigned_abs()),
    };
    Ok(match &args[0] {
        Datum::Int4(_) => {
            Datum::Int4(multiple.and_then(|m| i32::try_from(m).ok()).ok_or_else(|| range("integer"))?)
        }
        _ => Datum::Int8(multiple.and_then(|m| i64::try_from(m).ok()).ok_or_else(|| range("bigint"))?),
    })
}

/// Most digits of numbers whose greatest common divisor is looked for: the time grows with the cube of them.
const GCD_DIGITS_MAX: usize = 2_000;

fn numeric_gcd(a: &Numeric, b: &Numeric, ctx: &EvalCtx<'_>) -> EvalResult<Numeric> {
    ctx.look()?;
    if !a.is_finite() || !b.is_finite() {
        return Ok(Numeric::NAN);
    }
    if a.to_string().len().max(b.to_string().len()) > GCD_DIGITS_MAX {
        let message = format!("gcd and lcm take numbers of up to {GCD_DIGITS_MAX} digits");
        return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message).into());
    }
    let scale = i32::from(a.scale().max(b.scale()));
    let (mut a, mut b) = (a.abs(), b.abs());
    while !b.is_zero() {
        (a, b) = (b.clone(), a.rem(&b)?);
    }
    Ok(a.round(scale))
}

fn numeric_lcm(args: &[Datum], ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let (a, b) = (numeric(&args[0])?, numeric(&args[1])?);
    let scale = i32::from(a.scale().max(b.scale()));
    let divisor = numeric_gcd(a, b, ctx)?;
    if divisor.is_nan() {
        return Ok(Datum::Numeric(divisor));
    }
    if a.is_zero() || b.is_zero() {
        return Ok(Datum::Numeric(Numeric::from(0i64).round(scale)));
    }
    Ok(Datum::Numeric(a.div_trunc(&divisor)?.mul(b)?.abs().round(scale)))
}

fn bad_bucket(message: &str) -> EvalError {
    SqlError::new(SqlState::INVALID_ARGUMENT_FOR_WIDTH_BUCKET_FUNCTION, message).into()
}

/// Looks at what both forms of `width_bucket` ask of their arguments.
fn check_bucket(count: i64, nan: bool, infinite: bool, same: bool) -> EvalResult<()> {
    match () {
        () if count <= 0 => Err(bad_bucket("count must be greater than zero")),
        () if nan => Err(bad_bucket("operand, lower bound, and upper bound cannot be NaN")),
        () if infinite => Err(bad_bucket("lower and upper bounds must be finite")),
        () if same => Err(bad_bucket("lower bound cannot equal upper bound")),
        () => Ok(()),
    }
}

/// The bucket behind the last one.
fn last_bucket(count: i64) -> EvalResult<Datum> {
    match i32::try_from(count + 1) {
        Ok(bucket) => Ok(Datum::Int4(bucket)),
        Err(_) => Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "integer out of range").into()),
    }
}

fn width_bucket(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let (v, low, high, count) = (float(&args[0])?, float(&args[1])?, float(&args[2])?, int(&args[3])?);
    let nan = v.is_nan() || low.is_nan() || high.is_nan();
    check_bucket(count, nan, low.is_infinite() || high.is_infinite(), low == high)?;
    let (from_low, width) = if low < high { (v - low, high - low) } else { (low - v, low - high) };
    if from_low < 0.0 {
        return Ok(Datum::Int4(0));
    }
    if (low < high && v >= high) || (low > high && v <= high) {
        return last_bucket(count);
    }
    // Halves, where the width itself is no number.
    let share =
        if width.is_infinite() { (v / 2.0 - low / 2.0) / (high / 2.0 - low / 2.0) } else { from_low / width };
    let bucket = ((count as f64 * share) as i64).min(count - 1);
    Ok(Datum::Int4(bucket as i32 + 1))
}

fn numeric_width_bucket(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let (v, low, high) = (numeric(&args[0])?, numeric(&args[1])?, numeric(&args[2])?);
    let count = int(&args[3])?;
    let nan = v.is_nan() || low.is_nan() || high.is_nan();
    check_bucket(count, nan, low.is_infinite() || high.is_infinite(), low.compare(high).is_eq())?;
    let ascends = low.compare(high).is_lt();
    let behind = |bound: &Numeric| if ascends { v.compare(bound) } else { bound.compare(v) };
    if behind(low).is_lt() {
        return Ok(Datum::Int4(0));
    }
    if behind(high).is_ge() {
        return last_bucket(count);
    }
    let share = v.sub(low)?.mul(&Numeric::from(count))?.div_trunc(&high.sub(low)?)?;
    let bucket = share.to_i64().unwrap_or(count).min(count - 1);
    Ok(Datum::Int4(bucket as i32 + 1))
}

/// How many of an array's elements, which ascend, are not greater than a value.
fn place_among(args: &[Datum], _ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let Datum::Array(array) = &args[1] else { return Err(wrong("an array", &args[1])) };
    if array.items.iter().any(Datum::is_null) {
        let message = "thresholds array must not contain NULLs";
        return Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, message).into());
    }
    Ok(Datum::Int4(array.items.partition_point(|item| types::compare(item, &args[0]).is_le()) as i32))
}

fn factorial(args: &[Datum], ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let n = int(&args[0])?;
    if n < 0 {
        return Err(SqlError::new(
            SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
            "factorial of a negative number is undefined",
        )
        .into());
    }
    if n > 5000 {
        return Err(
            SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value overflows numeric format").into()
        );
    }
    ctx.look()?;
    let mut product = Numeric::ONE;
    for i in 2..=n {
        product = product.mul(&Numeric::from(i))?;
    }
    Ok(Datum::Numeric(product))
}
