//! ORDER BY: positions, names of output columns, expressions; and LIMIT and OFFSET behind it.

use base::{SqlError, SqlResult, SqlState};
use sqlparser::ast;

use super::OutputColumn;
use super::binder::Binder;
use super::level::LevelScope;
use super::point_plan::SortColumn;
use super::refuse::refuse;
use super::select::require_few_columns;
use crate::expr::{
    Aggregates, BoundExpr, EmptyScope, ExprKind, bind_expr, coerce, fold_ident, resolve_unknown,
};
use types::{CastContext, PgType, TypeMod};

/// A slot to sort by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SortItem {
    pub(super) slot: usize,
    pub(super) descending: bool,
    pub(super) nulls_first: bool,
}

impl Binder<'_> {
    /// Binds ORDER BY; expressions that are not in the select list are appended to `project`.
    pub(super) fn bind_order_by(
        &self,
        order_by: Option<&ast::OrderBy>,
        project: &mut Vec<BoundExpr>,
        outputs: &[OutputColumn],
        scope: &LevelScope<'_>,
    ) -> SqlResult<Vec<SortColumn>> {
        let Some(ast::OrderBy { kind, interpolate }) = order_by else { return Ok(Vec::new()) };
        refuse(interpolate.is_some(), "INTERPOLATE")?;
        let exprs = match kind {
            ast::OrderByKind::All(_) => return Err(SqlError::unsupported("ORDER BY ALL")),
            ast::OrderByKind::Expressions(exprs) => exprs,
        };
        let mut sort: Vec<SortColumn> = Vec::with_capacity(exprs.len());
        for ast::OrderByExpr { expr, options, with_fill } in exprs {
            refuse(with_fill.is_some(), "WITH FILL")?;
            let ast::OrderByOptions { asc, nulls_first } = options;
            let column = self.bind_sort_expr(expr, project, outputs, scope, "ORDER BY")?;
            check_comparable(project[column].ty, "ordering")?;
            let descending = *asc == Some(false);
            let nulls_first = nulls_first.unwrap_or(descending);
            if !sort.iter().any(|s| s.column == column) {
                sort.push(SortColumn { column, descending, nulls_first });
            }
        }
        Ok(sort)
    }

    /// The projected column that `expr` stands for, appended if there is none yet.
    pub(super) fn bind_sort_expr(
        &self,
        expr: &ast::Expr,
        project: &mut Vec<BoundExpr>,
        outputs: &[OutputColumn],
        scope: &LevelScope<'_>,
        place: &str,
    ) -> SqlResult<usize> {
        let expr = in_parentheses(expr);
        let named =
            |name: &str| -> Vec<usize> { (0..outputs.len()).filter(|i| outputs[*i].name == name).collect() };
        if let ast::Expr::Identifier(ident) = expr {
            let name = crate::expr::fold_ident(ident);
            let matching = named(&name);
            if matching.windows(2).any(|pair| project[pair[0]] != project[pair[1]]) {
                return Err(SqlError::new(
                    SqlState::AMBIGUOUS_COLUMN,
                    format!("{place} \"{name}\" is ambiguous"),
                ));
            }
        }
        if let Some(column) = self.output_reference(expr, outputs.len(), place, &named)? {
            return Ok(column);
        }
        let ctx = self.expressions(Aggregates::Allowed);
        let bound = resolve_unknown(bind_expr(expr, scope, &ctx)?, &ctx)?;
        self.note_effects(&bound);
        if let Some(column) = project.iter().position(|p| *p == bound) {
            return Ok(column);
        }
        project.push(bound);
        require_few_columns(project.len())?;
        Ok(project.len() - 1)
    }

    /// The place in the select list that a bare number or name stands for.
    pub(super) fn output_reference(
        &self,
        expr: &ast::Expr,
        columns: usize,
        place: &str,
        named: &dyn Fn(&str) -> Vec<usize>,
    ) -> SqlResult<Option<usize>> {
        if let Some(column) = output_position(expr, columns, place)? {
            return Ok(Some(column));
        }
        match in_parentheses(expr) {
            ast::Expr::Identifier(ident) => {
                let name = fold_ident(ident);
                Ok(named(&name).first().copied())
            }
            _ => Ok(None),
        }
    }

    /// LIMIT or OFFSET; `None` for no limit.
    pub(super) fn bind_count(
        &self,
        expr: Option<&ast::Expr>,
        place: &'static str,
    ) -> SqlResult<Option<BoundExpr>> {
        let Some(expr) = expr else { return Ok(None) };
        if let ast::Expr::Identifier(ident) = expr
            && ident.quote_style.is_none()
            && ident.value.eq_ignore_ascii_case("all")
        {
            return Ok(None);
        }
        let ctx = self.expressions(Aggregates::Forbidden(place));
        let bound = bind_expr(expr, &EmptyScope, &ctx).map_err(|error| {
            if error.state() == SqlState::UNDEFINED_COLUMN {
                let message = format!("argument of {place} must not contain variables");
                return SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message);
            }
            error
        })?;
        self.note_effects(&bound);
        let from = bound.ty;
        let count =
            coerce(bound, PgType::Int8, TypeMod::NONE, CastContext::Assignment, &ctx).map_err(|error| {
                if error.state() != SqlState::CANNOT_COERCE {
                    return error;
                }
                let message = format!("argument of {place} must be type bigint, not type {}", from.name());
                SqlError::new(SqlState::DATATYPE_MISMATCH, message)
            })?;
        let null = matches!(count.kind, ExprKind::Const(types::Datum::Null));
        Ok((!null).then_some(count))
    }
}

/// The output column, counted from 0, that a constant means in a clause where whole numbers are positions; `None` where `expr` is no constant. A number with a
/// sign is one, and no column's; a parameter is none.
///
/// # Errors
/// 42P10 for a position that no column has, 42601 for any other constant.
pub fn output_position(expr: &ast::Expr, columns: usize, place: &str) -> SqlResult<Option<usize>> {
    let (mut constant, mut signs) = (in_parentheses(expr), 0_u32);
    while let ast::Expr::UnaryOp { op: ast::UnaryOperator::Minus, expr: inner } = constant {
        (constant, signs) = (in_parentheses(inner), signs + 1);
    }
    let ast::Expr::Value(value) = constant else { return Ok(None) };
    let number = match &value.value {
        ast::Value::Number(text, _) => text.parse::<i32>().ok(),
        ast::Value::Placeholder(_) | ast::Value::NationalStringLiteral(_) => return Ok(None),
        // What it is of is no number.
        _ if signs > 0 => return Ok(None),
        _ => None,
    };
    let Some(number) = number else {
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("non-integer constant in {place}")));
    };
    let position = if signs % 2 == 1 { -number } else { number };
    match usize::try_from(position) {
        Ok(position) if (1..=columns).contains(&position) => Ok(Some(position - 1)),
        _ => Err(SqlError::new(
            SqlState::INVALID_COLUMN_REFERENCE,
            format!("{place} position {position} is not in select list"),
        )),
    }
}

/// `expr` without the parentheses around it, in which a name or a position means the same.
fn in_parentheses(mut expr: &ast::Expr) -> &ast::Expr {
    while let ast::Expr::Nested(inner) = expr {
        expr = inner;
    }
    expr
}

/// Types without equality or order cannot be grouped or sorted by.
///
/// # Errors
/// 42883 for those.
pub fn check_comparable(ty: PgType, operator: &str) -> SqlResult<()> {
    let json = |ty: PgType| ty == PgType::Json || ty.element() == Some(PgType::Json);
    if !json(ty) {
        return Ok(());
    }
    let error = SqlError::new(
        SqlState::UNDEFINED_FUNCTION,
        format!("could not identify an {operator} operator for type {}", ty.name()),
    );
    if operator == "ordering" {
        return Err(error.with_hint("Use an explicit ordering operator or modify the query."));
    }
    Err(error)
}

#[cfg(test)]
mod tests {
    use base::SqlState;

    use crate::session::testing::Bench;

    #[test]
    fn names_and_positions_mean_the_same_in_parentheses() {
        let mut bench = Bench::new();
        let mut session = bench.session();
        bench.run(
            &mut session,
            "CREATE TABLE t (a int PRIMARY KEY, b int); INSERT INTO t VALUES (1, 30), (2, 10), (3, 20)",
        );
        for (sql, rows) in [
            ("SELECT a, b FROM t ORDER BY (2)", &["2|10", "3|20", "1|30"][..]),
            ("SELECT a, b FROM t ORDER BY ((2)) DESC LIMIT 1", &["1|30"][..]),
            ("SELECT -a AS a FROM t ORDER BY ((a))", &["-3", "-2", "-1"][..]),
            ("SELECT b % 20, count(*) FROM t GROUP BY (1) ORDER BY (1)", &["0|1", "10|2"][..]),
            ("SELECT DISTINCT ON ((1)) b / 20, a FROM t ORDER BY 1, a", &["0|2", "1|1"][..]),
        ] {
            assert_eq!(bench.run(&mut session, sql).lines(), rows, "{sql}");
        }
        for (sql, state) in [
            ("SELECT a FROM t ORDER BY (7)", SqlState::INVALID_COLUMN_REFERENCE),
            ("SELECT a FROM t ORDER BY ('a')", SqlState::SYNTAX_ERROR),
            ("SELECT a AS x, b AS x FROM t ORDER BY (x)", SqlState::AMBIGUOUS_COLUMN),
        ] {
            assert_eq!(bench.fail(&mut session, sql).state(), state, "{sql}");
        }
    }

    #[test]
    fn a_constant_is_a_position_or_an_error() {
        let mut bench = Bench::new();
        let mut session = bench.session();
        bench.run(
            &mut session,
            "CREATE TABLE t (a int PRIMARY KEY, b int); INSERT INTO t VALUES (1, 30), (2, 10)",
        );
        for (sql, rows) in [
            ("SELECT a, b FROM t ORDER BY - -2", &["2|10", "1|30"][..]),
            ("SELECT a FROM t ORDER BY +7, a DESC", &["2", "1"][..]),
            ("SELECT a FROM t ORDER BY -a", &["2", "1"][..]),
            ("SELECT a FROM t ORDER BY 7::int, - 7::int, a", &["1", "2"][..]),
        ] {
            assert_eq!(bench.run(&mut session, sql).lines(), rows, "{sql}");
        }
        for (place, state) in [
            ("ORDER BY -1", SqlState::INVALID_COLUMN_REFERENCE),
            ("ORDER BY (-(1))", SqlState::INVALID_COLUMN_REFERENCE),
            ("GROUP BY a, -1", SqlState::INVALID_COLUMN_REFERENCE),
            ("ORDER BY -1.5", SqlState::SYNTAX_ERROR),
            ("ORDER BY 3000000000", SqlState::SYNTAX_ERROR),
            ("ORDER BY NULL", SqlState::SYNTAX_ERROR),
            ("GROUP BY a, NULL", SqlState::SYNTAX_ERROR),
            ("ORDER BY E'a'", SqlState::SYNTAX_ERROR),
        ] {
            let sql = format!("SELECT a FROM t {place}");
            assert_eq!(bench.fail(&mut session, &sql).state(), state, "{sql}");
        }
    }
}
