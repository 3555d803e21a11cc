//! The shape of a built-in function or operator.

use types::{Datum, PgType};

use super::analysis::Volatility;
use super::eval_context::{EvalCtx, EvalResult};

/// A type in a function's signature.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArgType {
    Is(PgType),
    /// `anyelement` or `anycompatible`: all such arguments agree.
    AnyElement,
    /// `anyarray`: of `AnyElement`'s type.
    AnyArray,
    /// `anyenum`.
    AnyEnum,
    /// `"any"`: each argument on its own.
    Any,
}

/// A function or operator that is implemented here.
pub struct FunctionDef {
    pub name: &'static str,
    pub args: &'static [ArgType],
    /// The last argument may be repeated (once or more).
    pub variadic: bool,
    pub result: ArgType,
    pub strict: bool,
    pub volatility: Volatility,
    pub eval: fn(&[Datum], &EvalCtx<'_>) -> EvalResult<Datum>,
}
