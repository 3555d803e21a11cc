//! Constant folding: a call of constants that can never change becomes its value.

use base::{ByteCount, SqlError, SqlResult, SqlState};

use super::analysis::Volatility;
use super::bind_context::BindContext;
use super::eval::eval;
use super::eval_context::{
    AdvisoryKey, EvalCtx, EvalError, EvalResult, NoSubqueries, SessionContext, StatementCtx,
};
use super::tree::{BoundExpr, ExprKind};
use crate::memory_bound::MemoryBound;

/// Memory that working out a constant may take: binding is done at once, on the tenant's worker.
pub const FOLDING_BYTES_MAX: ByteCount = ByteCount::from_mib(1);

/// A plan keeps no value that takes more memory than this.
const FOLDED_BYTES_MAX: usize = 64 << 10;

/// A value that takes more memory than this is kept if it is not many times what it is made of: a statement has as many of them as it likes.
const SMALL_BYTES_MAX: usize = 4 << 10;
const GROWTH_MAX: usize = 64;

/// Whether a plan had better keep what the value is made of, so many bytes, and work it out each time.
pub(super) fn outgrows(value: &types::Datum, of: usize) -> bool {
    value.heap_bytes() > SMALL_BYTES_MAX.max(of.saturating_mul(GROWTH_MAX))
}

/// `expr` or its value. An expression whose evaluation fails is left alone: it may never be reached. So is one with a large value.
pub(super) fn fold(expr: BoundExpr, ctx: &BindContext<'_>) -> BoundExpr {
    let mut constant = !matches!(expr.kind, ExprKind::Const(_));
    expr.for_each_child(&mut |child| constant &= matches!(child.kind, ExprKind::Const(_)));
    let foldable_kind = matches!(
        expr.kind,
        ExprKind::Call { .. }
            | ExprKind::Cast { .. }
            | ExprKind::Array { .. }
            | ExprKind::Compare { .. }
            | ExprKind::Not(_)
            | ExprKind::IsNull { .. }
            | ExprKind::InList { .. }
            | ExprKind::CompareArray { .. }
    );
    // Only calls with arguments: `pi()` is as cheap to call as to fold, and `now()` must not freeze.
    let has_children = !matches!(&expr.kind, ExprKind::Call { args, .. } if args.is_empty());
    if !constant
        || !foldable_kind
        || !has_children
        || expr.volatility() > Volatility::Immutable
        || !ctx.params.may_work_out()
    {
        return expr;
    }
    let mut of = 0;
    expr.for_each_child(&mut |child| {
        of += size_of::<types::Datum>() + child.as_const().map_or(0, types::Datum::heap_bytes)
    });
    match eval_constant(&expr, ctx) {
        Ok(value) if value.heap_bytes() <= FOLDED_BYTES_MAX && !outgrows(&value, of) => {
            BoundExpr { kind: ExprKind::Const(value), ..expr }
        }
        _ => expr,
    }
}

fn eval_constant(expr: &BoundExpr, ctx: &BindContext<'_>) -> EvalResult<types::Datum> {
    let stmt = StatementCtx {
        params: &[],
        format: ctx.format,
        statement_start: ctx.format.now,
        session: &NoSession,
        subqueries: &NoSubqueries,
        values: &MemoryBound::of_values(FOLDING_BYTES_MAX),
    };
    eval(expr, &EvalCtx::new(&stmt, &[]))
}

/// A session that knows nothing, for expressions that ask it nothing: folding, and checks outside of any session.
pub struct NoSession;

fn none<T>() -> EvalResult<T> {
    Err(EvalError::Sql(SqlError::new(
        SqlState::FEATURE_NOT_SUPPORTED,
        "a session function is not supported here",
    )))
}

impl SessionContext for NoSession {
    fn current_user(&self) -> String {
        String::new()
    }
    fn session_user(&self) -> String {
        String::new()
    }
    fn current_database(&self) -> String {
        String::new()
    }
    fn current_schemas(&self, _implicit: bool) -> Vec<String> {
        Vec::new()
    }
    fn version(&self) -> String {
        String::new()
    }
    fn backend_pid(&self) -> i32 {
        0
    }
    fn setting(&self, _name: &str) -> Option<String> {
        None
    }
    fn set_setting(&self, _name: &str, _value: Option<&str>, _local: bool) -> EvalResult<String> {
        none()
    }
    fn sequence_next(&self, _sequence: u32) -> EvalResult<i64> {
        none()
    }
    fn sequence_current(&self, _sequence: u32) -> EvalResult<i64> {
        none()
    }
    fn sequence_last(&self) -> EvalResult<i64> {
        none()
    }
    fn sequence_state(&self, _sequence: u32) -> EvalResult<(i64, bool)> {
        none()
    }
    fn sequence_set(&self, _sequence: u32, _value: i64, _called: bool) -> EvalResult<i64> {
        none()
    }
    fn serial_sequence(&self, _table: &str, _column: &str) -> EvalResult<Option<String>> {
        none()
    }
    fn advisory_lock(
        &self,
        _key: AdvisoryKey,
        _shared: bool,
        _transaction: bool,
        _wait: bool,
    ) -> EvalResult<bool> {
        none()
    }
    fn advisory_unlock(&self, _key: AdvisoryKey, _shared: bool) -> EvalResult<bool> {
        none()
    }
    fn advisory_unlock_all(&self) -> EvalResult<()> {
        none()
    }
    fn signal_backend(&self, _pid: i32, _terminate: bool) -> EvalResult<bool> {
        none()
    }
    fn blocking_pids(&self, _pid: i32) -> EvalResult<Vec<i32>> {
        none()
    }
    fn reset_statements(&self) -> EvalResult<()> {
        none()
    }
    fn transaction_id(&self) -> EvalResult<i64> {
        none()
    }
    fn export_snapshot(&self) -> EvalResult<String> {
        none()
    }
    fn sleep(&self, _seconds: f64) -> EvalResult<()> {
        none()
    }
    fn clock(&self) -> i64 {
        0
    }
    fn random(&self) -> u64 {
        0
    }
}

/// The value of an expression that needs no row, parameter or session (a literal's default, a LIMIT).
///
/// # Errors
/// Those of the evaluation.
pub fn eval_constant_expr(expr: &BoundExpr, ctx: &BindContext<'_>) -> SqlResult<types::Datum> {
    match eval_constant(expr, ctx) {
        Ok(value) => Ok(value),
        Err(EvalError::Sql(error)) => Err(error),
        Err(EvalError::Interrupted) => Err(SqlError::internal("a constant expression waited")),
    }
}

#[cfg(test)]
mod tests {
    use types::FormatContext;

    use super::*;
    use crate::expr::{Aggregates, EmptyScope, ParamTypes, bind_sql_text};

    #[test]
    fn constants_that_outgrow_their_text_are_worked_out_when_they_are_wanted() {
        let (format, params) = (FormatContext::default(), ParamTypes::none());
        let ctx = BindContext {
            params: &params,
            format: &format,
            subqueries: None,
            aggregates: Aggregates::Forbidden("a test"),
        };
        let is_kept = |sql: &str| bind_sql_text(sql, &EmptyScope, &ctx).expect(sql).as_const().is_some();
        let list = (0..1000).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
        for sql in [
            "'a'::char(1000)",
            "repeat('x', 4000)",
            "1e1000",
            &format!("array[{list}]"),
            &format!("'{{{list}}}'::int[]"),
            &format!("'{}'", "x".repeat(100_000)),
        ] {
            assert!(is_kept(sql), "{sql:.40}");
        }
        for sql in ["'a'::char(100000)", "repeat('x', 65000)", "1e131071", "'1e131071'::numeric"] {
            assert!(!is_kept(sql), "{sql}");
        }
    }
}
