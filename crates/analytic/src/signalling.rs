//! Where an analytical query may signal sessions.
//!
//! Engines of arrays evaluate an expression for all rows of a batch: also for those that LIMIT leaves out, and of `a AND b` both sides. To end one session
//! too many cannot be taken back. So a call stands alone in the list of a SELECT that gives out all rows that it computes.

use std::ops::ControlFlow;

use base::{SqlError, SqlResult};
use sqlparser::ast::{self, visit_expressions};

const NAMES: [&str; 2] = ["pg_cancel_backend", "pg_terminate_backend"];

/// Whether `query` signals sessions, by itself.
///
/// # Errors
/// 0A000 where it does so elsewhere than in the list of its outermost SELECT, or if that has DISTINCT, LIMIT or OFFSET.
pub(crate) fn signals(query: &ast::Query) -> SqlResult<bool> {
    let mut calls = 0;
    let _: ControlFlow<()> = visit_expressions(query, |expr| {
        calls += usize::from(is_call(expr));
        ControlFlow::Continue(())
    });
    if calls == 0 {
        return Ok(false);
    }
    let in_list = match &*query.body {
        ast::SetExpr::Select(select)
            if query.limit_clause.is_none() && query.fetch.is_none() && select.distinct.is_none() =>
        {
            let is_item = |item: &&ast::SelectItem| match item {
                ast::SelectItem::UnnamedExpr(expr) | ast::SelectItem::ExprWithAlias { expr, .. } => {
                    is_call(expr)
                }
                _ => false,
            };
            select.projection.iter().filter(is_item).count()
        }
        _ => 0,
    };
    if in_list < calls { Err(elsewhere()) } else { Ok(true) }
}

/// The refusal of a call that stands elsewhere.
pub(crate) fn elsewhere() -> SqlError {
    SqlError::unsupported("signalling a backend within an expression, beside DISTINCT or LIMIT, or in a view, of an analytical query,")
        .with_hint("Choose the sessions in a subquery: SELECT pg_terminate_backend(pid) FROM (SELECT pid FROM pg_stat_activity ...) s.")
}

/// Whether the text of a view has such a call.
pub(crate) fn names_one(sql: &str) -> bool {
    let sql = sql.to_ascii_lowercase();
    NAMES.iter().any(|name| sql.contains(name))
}

fn is_call(expr: &ast::Expr) -> bool {
    let ast::Expr::Function(function) = expr else { return false };
    let last = function.name.0.last().and_then(|part| part.as_ident());
    last.is_some_and(|ident| NAMES.iter().any(|name| ident.value.eq_ignore_ascii_case(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_stand_alone_in_the_list_of_a_whole_result() {
        let asked = |sql: &str| signals(&sql::parse::parse_query(sql).expect(sql));
        assert!(!asked("SELECT pid FROM pg_stat_activity LIMIT 1").unwrap());
        for sql in [
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()",
            "SELECT pid, pg_catalog.PG_CANCEL_BACKEND(pid) AS done FROM pg_stat_activity ORDER BY 1",
            "SELECT pg_cancel_backend(pid) FROM (SELECT pid FROM pg_stat_activity ORDER BY backend_start LIMIT 1) s",
        ] {
            assert!(asked(sql).unwrap(), "{sql}");
        }
        for sql in [
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity ORDER BY pid LIMIT 1",
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity OFFSET 1",
            "SELECT DISTINCT pg_terminate_backend(pid) FROM pg_stat_activity",
            "SELECT pid FROM pg_stat_activity WHERE state = 'idle' AND pg_terminate_backend(pid)",
            "SELECT state = 'idle' AND pg_terminate_backend(pid) FROM pg_stat_activity",
            "SELECT count(pg_terminate_backend(pid)) FILTER (WHERE pid = 5) FROM pg_stat_activity",
            "SELECT * FROM (SELECT pg_terminate_backend(pid) FROM pg_stat_activity) s LIMIT 1",
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity UNION SELECT true",
            "SELECT pg_terminate_backend(1), (SELECT bool_or(pg_cancel_backend(pid)) FROM pg_stat_activity)",
        ] {
            assert_eq!(asked(sql).unwrap_err().state(), base::SqlState::FEATURE_NOT_SUPPORTED, "{sql}");
        }
    }
}
