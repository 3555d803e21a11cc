//! ORDER BY: positions, names of output columns, expressions.

use base::{SqlError, SqlResult, SqlState};
use sqlparser::ast;

use super::OutputColumn;
use super::binder::Binder;
use super::level::LevelScope;
use super::point_plan::SortColumn;
use super::refuse::refuse;
use super::select::check_comparable;
use crate::expr::{Aggregates, BoundExpr, bind_expr, resolve_unknown};

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
        Ok(project.len() - 1)
    }
}
