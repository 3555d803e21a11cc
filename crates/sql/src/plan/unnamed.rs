//! Common tables of a change that nothing in it names. PostgreSQL reads them as it does others, with the parameters in them, and runs them never: they are bound here, and
//! that is all.

use base::{SqlError, SqlResult};
use sqlparser::ast::{self, SetExpr};

use super::binder::Binder;
use super::{BoundPlan, PlanContext, analytic};
use crate::expr::fold_ident;
use crate::parse::{for_each_relation, parse_query};

/// Binds a change behind a WITH whose tables stand already where the change names them.
///
/// # Errors
/// As [`super::bind`] of the change, and what is wrong with the tables.
pub(super) fn bind(query: &ast::Query, ctx: &PlanContext<'_>) -> SqlResult<BoundPlan> {
    if let Some(with) = &query.with {
        check(with, ctx)?;
    }
    match &*query.body {
        SetExpr::Insert(change) | SetExpr::Update(change) | SetExpr::Delete(change) => {
            super::bind(change, ctx)
        }
        SetExpr::Merge(_) => Err(SqlError::unsupported("MERGE")),
        _ => Err(SqlError::internal("a change of rows that is none")),
    }
}

fn check(with: &ast::With, ctx: &PlanContext<'_>) -> SqlResult<()> {
    let names: Vec<String> = with.cte_tables.iter().map(|cte| fold_ident(&cte.alias.name)).collect();
    for cte in &with.cte_tables {
        let mut is_alone = true;
        for_each_relation(&cte.query, &mut |name| is_alone &= !names.iter().any(|other| other == name));
        let binder = Binder::new(*ctx);
        if is_alone
            && let Err(error) = binder.bind_query(&cte.query, None)
            && binder.reason_for(&error).is_none()
        {
            return Err(error);
        }
    }
    // Of what names another one, or is the analytical path's, the relations and casts.
    let mut all = parse_query("SELECT 1")?;
    all.with = Some(with.clone());
    analytic::plan(&all, String::new(), ctx).map(drop)
}
