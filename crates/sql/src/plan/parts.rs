//! A WITH that changes rows: the statement's parts are bound one after the other, each may name those before it.
//!
//! All of them run on the point path, in one turn: what the analytical path would have to compute would be computed on another
//! state than the one that all parts see.

use base::{SqlError, SqlResult, SqlState};
use sqlparser::ast::{self, SetExpr, Statement};

use super::binder::{Binder, CommonTable};
use super::level::RelationColumn;
use super::point_plan::{Part, PointStatement};
use super::select::BoundQuery;
use super::{BoundPlan, Command, OutputColumn, PlanContext, PlanKind, delete, insert, update};
use crate::expr::fold_ident;

/// A bound change.
pub(super) struct Changed {
    pub(super) statement: PointStatement,
    pub(super) output: Vec<OutputColumn>,
    pub(super) cost: f64,
}

/// A query or a change, one of the statement's parts or its last.
struct Bound {
    command: Command,
    statement: PointStatement,
    output: Vec<OutputColumn>,
    cost: f64,
    rows: f64,
    is_mute: bool,
}

/// Binds a statement in whose WITH some tables change rows.
///
/// # Errors
/// As [`super::bind`]; 0A000 also for what only the analytical path has, and for a recursive query.
pub(super) fn bind(query: &ast::Query, ctx: &PlanContext<'_>) -> SqlResult<BoundPlan> {
    let binder = Binder::new(*ctx);
    bind_parts(&binder, query, ctx).map_err(|error| match binder.reason_elsewhere() {
        Some(reason) if error.state() == SqlState::FEATURE_NOT_SUPPORTED => {
            SqlError::unsupported(format!("{reason} in a statement whose WITH changes rows"))
        }
        _ => error,
    })
}

fn bind_parts(binder: &Binder<'_>, query: &ast::Query, ctx: &PlanContext<'_>) -> SqlResult<BoundPlan> {
    let with = query.with.as_ref();
    let with = with.ok_or_else(|| SqlError::internal("a statement of parts without a WITH"))?;
    binder.begin_parts();
    let mut cost = binder.bind_with(with)?;
    let bound = match change_of(binder, query)? {
        Some(bound) => bound,
        None => of_query(binder.bind_behind_with(query, None)?),
    };
    cost += bound.cost;
    let plan = binder.point_plan(bound.statement, cost);
    Ok(BoundPlan {
        command: bound.command,
        output: bound.output,
        parameters: ctx.params.finish()?,
        accesses: binder.accesses(),
        read_only: false,
        kind: PlanKind::Point(Box::new(plan)),
    })
}

impl Binder<'_> {
    /// Makes parts of the tables of a WITH, which can be named from now on; answers what they cost.
    pub(super) fn bind_with(&self, with: &ast::With) -> SqlResult<f64> {
        let ast::With { with_token: _, recursive, cte_tables } = with;
        let names: Vec<String> = cte_tables.iter().map(|cte| fold_ident(&cte.alias.name)).collect();
        let mut cost = 0.0;
        for (i, (cte, name)) in cte_tables.iter().zip(&names).enumerate() {
            if names[..i].contains(name) {
                let message = format!("WITH query name \"{name}\" specified more than once");
                return Err(SqlError::new(SqlState::DUPLICATE_ALIAS, message));
            }
            if *recursive {
                refuse_recursion(cte, name, &names[i..])?;
            }
            cost += self.bind_common(cte, name)?;
        }
        Ok(cost)
    }

    fn bind_common(&self, cte: &ast::Cte, name: &str) -> SqlResult<f64> {
        if cte.query.with.is_some() && crate::parse::is_change(&cte.query) {
            return Err(SqlError::internal("a change within WITH came with a WITH of its own"));
        }
        let bound = match change_of(self, &cte.query)? {
            Some(bound) => bound,
            None => of_query(self.bind_query(&cte.query, None)?),
        };
        let Bound { command: _, statement, output, cost, rows, is_mute } = bound;
        let mut columns: Vec<RelationColumn> = output.into_iter().map(RelationColumn::from).collect();
        let aliases = &cte.alias.columns;
        if aliases.len() > columns.len() {
            let message = format!(
                "WITH query \"{name}\" has {} columns available but {} columns specified",
                columns.len(),
                aliases.len()
            );
            return Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message));
        }
        for (column, alias) in columns.iter_mut().zip(aliases) {
            column.name = fold_ident(&alias.name);
        }
        let part = self.add_part(Part { name: name.to_owned(), statement });
        self.add_common(CommonTable { name: name.to_owned(), part, rows, columns, is_mute });
        Ok(cost)
    }
}

/// The INSERT, UPDATE or DELETE that a part is; `None` for a query.
fn change_of(binder: &Binder<'_>, query: &ast::Query) -> SqlResult<Option<Bound>> {
    let (command, is_mute, changed) = match &*query.body {
        SetExpr::Insert(Statement::Insert(change)) => {
            (Command::Insert, change.returning.is_none(), insert::bind_change(binder, change, false)?)
        }
        SetExpr::Update(Statement::Update(change)) => {
            (Command::Update, change.returning.is_none(), update::bind_change(binder, change)?)
        }
        SetExpr::Delete(Statement::Delete(change)) => {
            (Command::Delete, change.returning.is_none(), delete::bind_change(binder, change)?)
        }
        SetExpr::Merge(_) => return Err(SqlError::unsupported("MERGE")),
        _ => return Ok(None),
    };
    let Changed { statement, output, cost } = changed;
    Ok(Some(Bound { command, statement, output, cost, rows: cost, is_mute }))
}

fn of_query(bound: BoundQuery) -> Bound {
    let BoundQuery { plan, columns } = bound;
    let (cost, rows) = (plan.cost, plan.rows);
    let statement = PointStatement::Select(Box::new(plan));
    Bound { command: Command::Select, statement, output: columns, cost, rows, is_mute: false }
}

/// Under RECURSIVE a common table may name itself and those behind it, which none does here.
///
/// # Errors
/// 42P19 for a change that names itself; 0A000 for others.
fn refuse_recursion(cte: &ast::Cte, name: &str, not_before: &[String]) -> SqlResult<()> {
    let mut found = None;
    crate::parse::for_each_relation(&cte.query, &mut |named| {
        if found.is_none() && not_before.iter().any(|other| other == named) {
            found = Some(named.to_owned());
        }
    });
    match found {
        None => Ok(()),
        Some(named) if named == name && crate::parse::is_change(&cte.query) => Err(SqlError::new(
            SqlState::INVALID_RECURSION,
            format!("recursive query \"{name}\" must not contain data-modifying statements"),
        )),
        Some(_) => Err(SqlError::unsupported("a recursive query beside a change in WITH")),
    }
}
