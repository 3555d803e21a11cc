//! Conversions between types while binding: PostgreSQL's rules for unknown literals, parameters and implicit casts.

use base::{SqlError, SqlResult, SqlState};
use types::{CastContext, Datum, ElementType, PgType, TypeMod, cast_allowed, format_type_in, parse_text};

use super::analysis::Volatility;
use super::bind_context::BindContext;
use super::fold::{fold, outgrows};
use super::tree::{BoundExpr, ExprKind};

/// Bytes of a literal from which on it may take a millisecond to read, whatever it is.
const LONG_LITERAL_MIN: usize = 64 << 10;

/// The name of `ty` in messages.
pub(super) fn type_name(ty: PgType, ctx: &BindContext<'_>) -> String {
    format_type_in(ty, TypeMod::NONE, ctx.format.names.as_deref())
}

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
    if expr.ty == PgType::Unknown {
        match expr.kind {
            ExprKind::Param(index) => {
                let ty = ctx.params.infer(index, to);
                let param = BoundExpr::new(ty, TypeMod::NONE, ExprKind::Param(index));
                return if ty == PgType::Unknown { Ok(param) } else { coerce(param, to, typmod, how, ctx) };
            }
            ExprKind::Const(Datum::Null) => {
                return Ok(BoundExpr::new(to, typmod, ExprKind::Const(Datum::Null)));
            }
            ExprKind::Const(Datum::Text(ref text)) => {
                // An explicit cast of a literal cuts a long string off instead of refusing it.
                // The fields of an interval say how its text is read.
                if matches!(to, PgType::Numeric | PgType::Array(_)) || text.len() > LONG_LITERAL_MIN {
                    ctx.params.may_work_out();
                }
                let read_as = if to == PgType::Interval { typmod } else { TypeMod::NONE };
                let value = parse_text(text, to, read_as, ctx.format)?;
                let value = types::apply_typmod(value, to, typmod, how)?;
                if outgrows(&value, text.len()) {
                    let text = Box::new(retype_unknown(expr));
                    return Ok(BoundExpr::new(to, typmod, ExprKind::Cast { expr: text, how }));
                }
                return Ok(BoundExpr::new(to, typmod, ExprKind::Const(value)));
            }
            ExprKind::Array { .. }
            | ExprKind::Subquery(_)
            | ExprKind::Case { .. }
            | ExprKind::Coalesce(_) => {
                return Ok(BoundExpr::new(
                    to,
                    typmod,
                    ExprKind::Cast { expr: Box::new(retype_unknown(expr)), how },
                ));
            }
            _ => {
                return Ok(BoundExpr::new(
                    to,
                    typmod,
                    ExprKind::Cast { expr: Box::new(retype_unknown(expr)), how },
                ));
            }
        }
    }
    if expr.ty == to {
        if typmod.is_none() || typmod == expr.typmod {
            return Ok(expr);
        }
        let cast = BoundExpr::new(to, typmod, ExprKind::Cast { expr: Box::new(expr), how });
        return Ok(fold(cast, ctx));
    }
    match cast_allowed(expr.ty, to) {
        Some(least) if least <= how => {}
        _ => {
            let message = format!("cannot cast type {} to {}", type_name(expr.ty, ctx), type_name(to, ctx));
            return Err(SqlError::new(SqlState::CANNOT_COERCE, message));
        }
    }
    // A cast's type says what it converts to, so it cannot be given another.
    if is_relabel(expr.ty, to) && typmod.is_none() && !matches!(expr.kind, ExprKind::Cast { .. }) {
        // The stored form is the same: keep the node, so that the planner still sees the column.
        return Ok(BoundExpr { ty: to, typmod: TypeMod::NONE, kind: expr.kind });
    }
    // ARRAY[…] and CASE convert their parts, so that literals inside are read as the right type.
    if let (ExprKind::Array { .. }, PgType::Array(element)) = (&expr.kind, to)
        && let ExprKind::Array { items, .. } = expr.kind
    {
        let items = items
            .into_iter()
            .map(|item| coerce(item, element.into(), typmod, how, ctx))
            .collect::<SqlResult<Vec<_>>>()?;
        return Ok(BoundExpr::new(to, typmod, ExprKind::Array { element, items }));
    }
    let cast = BoundExpr::new(to, typmod, ExprKind::Cast { expr: Box::new(expr), how });
    Ok(fold(cast, ctx))
}

/// What cannot stay unknown is text.
fn retype_unknown(mut expr: BoundExpr) -> BoundExpr {
    expr.ty = PgType::Text;
    expr
}

/// Whether values of `from` are values of `to` as they are.
fn is_relabel(from: PgType, to: PgType) -> bool {
    let text = |ty| matches!(ty, PgType::Text | PgType::Varchar);
    text(from) && (text(to) || to == PgType::Bpchar)
        || from == PgType::Name && text(to)
        || from.is_oid() && to.is_oid()
        || from.vector_element().is_some_and(|element| to == PgType::Array(element))
        || matches!(
            (from, to),
            (PgType::Array(ElementType::Varchar), PgType::Array(ElementType::Text))
                | (PgType::Array(ElementType::Text), PgType::Array(ElementType::Varchar))
        )
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
    let allowed = cast_allowed(expr.ty, ty).is_some_and(|least| least <= CastContext::Assignment);
    if !allowed {
        return Err(SqlError::new(
            SqlState::DATATYPE_MISMATCH,
            format!(
                "column \"{column}\" is of type {} but expression is of type {}",
                type_name(ty, ctx),
                type_name(expr.ty, ctx)
            ),
        )
        .with_hint("You will need to rewrite or cast the expression."));
    }
    coerce(expr, ty, typmod, CastContext::Assignment, ctx)
}

/// `expr` as the condition of `place` (`WHERE`, `HAVING`, `JOIN/ON`).
///
/// # Errors
/// 42804 "argument of … must be type boolean, not type …".
pub fn coerce_condition(expr: BoundExpr, place: &str, ctx: &BindContext<'_>) -> SqlResult<BoundExpr> {
    if expr.ty != PgType::Bool && expr.ty != PgType::Unknown {
        return Err(SqlError::new(
            SqlState::DATATYPE_MISMATCH,
            format!("argument of {place} must be type boolean, not type {}", type_name(expr.ty, ctx)),
        ));
    }
    coerce(expr, PgType::Bool, TypeMod::NONE, CastContext::Implicit, ctx)
}

/// An output column: what is still of unknown type becomes text.
pub fn resolve_unknown(expr: BoundExpr, ctx: &BindContext<'_>) -> SqlResult<BoundExpr> {
    if expr.ty == PgType::Unknown {
        coerce(expr, PgType::Text, TypeMod::NONE, CastContext::Implicit, ctx)
    } else {
        Ok(expr)
    }
}

/// The type that all of `types` are converted to in `place` (`CASE`, `VALUES`, `UNION`, `COALESCE`).
///
/// # Errors
/// 42804 "… types … and … cannot be matched".
pub fn common_type(types: &[PgType], place: &str) -> SqlResult<PgType> {
    let mut known = types.iter().copied().filter(|ty| *ty != PgType::Unknown);
    let Some(mut common) = known.next() else { return Ok(PgType::Text) };
    for ty in known {
        if ty == common {
            continue;
        }
        let mismatch = || {
            SqlError::new(
                SqlState::DATATYPE_MISMATCH,
                format!("{place} types {} and {} cannot be matched", common.name(), ty.name()),
            )
        };
        if ty.category() != common.category() {
            return Err(mismatch());
        }
        // Take the new type if the old one converts to it and not the other way round.
        let implicit = |a, b| cast_allowed(a, b) == Some(CastContext::Implicit);
        if common.is_preferred() || !implicit(common, ty) || implicit(ty, common) {
            if !common.is_preferred() && !implicit(ty, common) {
                return Err(SqlError::new(
                    SqlState::CANNOT_COERCE,
                    format!("{place} could not convert type {} to {}", ty.name(), common.name()),
                ));
            }
            continue;
        }
        common = ty;
    }
    Ok(common)
}

/// The modifier of an expression that is one of `exprs`, all of one type: theirs, if they have the same.
pub(super) fn common_typmod(exprs: &[BoundExpr]) -> TypeMod {
    match exprs {
        [first, rest @ ..] if rest.iter().all(|expr| expr.typmod == first.typmod) => first.typmod,
        _ => TypeMod::NONE,
    }
}

/// Whether a conversion's outcome depends on settings, the clock or the catalog.
pub(super) fn cast_volatility(from: PgType, to: PgType) -> Volatility {
    let zoned = |ty| {
        matches!(ty, PgType::Date | PgType::Time | PgType::Timestamp | PgType::TimestampTz | PgType::Interval)
    };
    let by_text = from.is_string() || to.is_string() || from == PgType::Unknown;
    let named = |ty: PgType| ty.is_oid() && ty != PgType::Oid || matches!(ty, PgType::Enum(_));
    // Of arrays, what their elements are.
    let [a, b] = [from, to].map(|ty| ty.element().unwrap_or(ty));
    let across_zone = (a == PgType::TimestampTz) != (b == PgType::TimestampTz) && zoned(a) && zoned(b);
    let arrays = (from.element().is_some() || to.element().is_some()) && by_text;
    let output_setting = matches!(from, PgType::Bytea | PgType::Float4 | PgType::Float8) && by_text;
    if by_text && (zoned(from) || zoned(to) || named(from) || named(to))
        || across_zone
        || arrays
        || output_setting
    {
        Volatility::Stable
    } else {
        Volatility::Immutable
    }
}
