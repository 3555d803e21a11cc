//! Conversions between types while binding: PostgreSQL's rules for unknown literals, parameters and implicit casts.

use base::SqlResult;
use types::{CastContext, PgType, TypeMod};

use super::analysis::Volatility;
use super::bind_context::BindContext;
use super::tree::BoundExpr;

/// `expr` as a value of type `to`. An unknown literal is read, an unknown parameter takes the type.
///
/// # Errors
/// 42846 if there is no such cast in this context; the literal's error.
pub fn coerce(
    expr: BoundExpr,
    to: PgType,
    typmod: TypeMod,
    how: CastContext,
    ctx: &BindContext<'_>,
) -> SqlResult<BoundExpr> {
    let _ = (expr, to, typmod, how, ctx);
    unimplemented!()
}

/// `expr` as the new value of column `column`.
///
/// # Errors
/// 42804 "column … is of type … but expression is of type …".
pub fn coerce_assignment(
    expr: BoundExpr,
    column: &str,
    ty: PgType,
    typmod: TypeMod,
    ctx: &BindContext<'_>,
) -> SqlResult<BoundExpr> {
    let _ = (expr, column, ty, typmod, ctx);
    unimplemented!()
}

/// `expr` as the condition of `place` (`WHERE`, `HAVING`, `JOIN/ON`).
///
/// # Errors
/// 42804 "argument of … must be type boolean, not type …".
pub fn coerce_condition(expr: BoundExpr, place: &str, ctx: &BindContext<'_>) -> SqlResult<BoundExpr> {
    let _ = (expr, place, ctx);
    unimplemented!()
}

/// An output column: what is still of unknown type becomes text.
pub fn resolve_unknown(expr: BoundExpr, ctx: &BindContext<'_>) -> SqlResult<BoundExpr> {
    let _ = (expr, ctx);
    unimplemented!()
}

/// The type that all of `types` are converted to in `place` (`CASE`, `VALUES`, `UNION`, `COALESCE`).
///
/// # Errors
/// 42804 "… types … and … cannot be matched".
pub fn common_type(types: &[PgType], place: &str) -> SqlResult<PgType> {
    let _ = (types, place);
    unimplemented!()
}

pub(super) fn cast_volatility(_from: PgType, _to: PgType) -> Volatility {
    Volatility::Immutable
}
