//! Binding of parsed expressions.

use base::SqlResult;
use sqlparser::ast;
use types::{PgType, TypeMod};

use super::bind_context::BindContext;
use super::scope::Scope;
use super::tree::{BoundExpr, CompareOp};

/// Binds `expr`. Its type may still be `Unknown` (a string literal, NULL, a parameter): coerce it.
///
/// # Errors
/// 42703, 42702, 42P01 for names; 42883 for functions and operators; 0A000 for what the point path lacks.
pub fn bind_expr(expr: &ast::Expr, scope: &dyn Scope, ctx: &BindContext<'_>) -> SqlResult<BoundExpr> {
    let _ = (expr, scope, ctx);
    unimplemented!()
}

/// Binds `expr` as the condition of `place` (`WHERE`).
pub fn bind_condition(
    expr: &ast::Expr,
    scope: &dyn Scope,
    ctx: &BindContext<'_>,
    place: &str,
) -> SqlResult<BoundExpr> {
    super::coerce_condition(bind_expr(expr, scope, ctx)?, place, ctx)
}

/// `left op right` with PostgreSQL's operator resolution.
pub fn bind_comparison(
    op: CompareOp,
    left: BoundExpr,
    right: BoundExpr,
    ctx: &BindContext<'_>,
) -> SqlResult<BoundExpr> {
    let _ = (op, left, right, ctx);
    unimplemented!()
}

/// Parses and binds the text of a DEFAULT or CHECK expression as the catalog keeps it.
pub fn bind_sql_text(sql: &str, scope: &dyn Scope, ctx: &BindContext<'_>) -> SqlResult<BoundExpr> {
    let _ = (sql, scope, ctx);
    unimplemented!()
}

/// The type a parsed type name stands for.
///
/// # Errors
/// 42704 for an unknown type; 22023 for a bad modifier; 0A000 for types there are none of here.
pub fn bind_type(ty: &ast::DataType, ctx: &BindContext<'_>) -> SqlResult<(PgType, TypeMod)> {
    let _ = (ty, ctx);
    unimplemented!()
}

/// The name PostgreSQL gives an output column without an alias.
pub fn output_name(expr: &ast::Expr) -> String {
    let _ = expr;
    unimplemented!()
}

/// An identifier as SQL reads it: folded to lower case unless quoted, cut to 63 bytes.
pub fn fold_ident(ident: &ast::Ident) -> String {
    let _ = ident;
    unimplemented!()
}
