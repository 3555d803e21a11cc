//! The shape of a built-in function or operator.

use types::{Datum, PgType};

use super::analysis::Volatility;
use super::eval_context::{EvalCtx, EvalResult};

/// A type in a function's signature.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArgType {
    Is(PgType),
    /// `anycompatible`: all such arguments agree.
    AnyElement,
    /// `anycompatiblearray`: of `AnyElement`'s type.
    AnyArray,
    /// `anyenum`.
    AnyEnum,
    /// `"any"`: each argument on its own.
    Any,
    /// `anynonarray`, each argument on its own.
    AnyNonArray,
}

/// What an implementation looks like: the arguments, none NULL if it is strict.
pub type Implementation = fn(&[Datum], &EvalCtx<'_>) -> EvalResult<Datum>;

/// A function or operator that is implemented here.
pub struct FunctionDef {
    pub name: &'static str,
    pub args: &'static [ArgType],
    /// The last argument may be repeated (once or more).
    pub variadic: bool,
    pub result: ArgType,
    /// A NULL argument makes the result NULL without a call.
    pub strict: bool,
    pub volatility: Volatility,
    pub eval: Implementation,
}

impl FunctionDef {
    /// A strict, immutable function.
    pub(super) const fn new(
        name: &'static str,
        args: &'static [ArgType],
        result: ArgType,
        eval: Implementation,
    ) -> FunctionDef {
        FunctionDef {
            name,
            args,
            variadic: false,
            result,
            strict: true,
            volatility: Volatility::Immutable,
            eval,
        }
    }

    pub(super) const fn stable(mut self) -> FunctionDef {
        self.volatility = Volatility::Stable;
        self
    }

    pub(super) const fn volatile(mut self) -> FunctionDef {
        self.volatility = Volatility::Volatile;
        self
    }

    pub(super) const fn takes_null(mut self) -> FunctionDef {
        self.strict = false;
        self
    }

    pub(super) const fn variadic(mut self) -> FunctionDef {
        self.variadic = true;
        self
    }

    /// The declared type of argument `index`, repeating the last if variadic.
    pub(super) fn arg(&self, index: usize) -> ArgType {
        self.args.get(index).copied().unwrap_or_else(|| *self.args.last().expect("has arguments"))
    }
}
