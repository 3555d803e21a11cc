//! Functions of the server that give rows, in FROM: `rowhouse.advise`, `pg_get_keywords`, `pg_show_all_settings`. What they are called with is worked out
//! when the query is planned, so it may name parameters and no columns.

use base::{SqlError, SqlResult, SqlState};
use datafusion::arrow::datatypes::Field;
use datafusion::common::{Column, TableReference};
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::LogicalPlanBuilder;
use sql::expr::{Aggregates, BoundExpr, EmptyScope, EvalCtx, bind_expr, coerce, eval, fold_ident};
use sql::system::RowsFunction;
use sqlparser::ast;
use types::{CastContext, Datum, TypeMod};

use crate::binder::Binder;
use crate::error::Planned;
use crate::relation::{RelColumn, Relation};
use crate::shared::eval_error;
use crate::translate::field;
use crate::value;
use crate::with::rename;

/// A call of one of them.
struct Call<'f> {
    function: &'static RowsFunction,
    name: &'f ast::ObjectName,
    args: &'f [ast::FunctionArg],
    alias: Option<&'f ast::TableAlias>,
    ordinality: bool,
}

impl Binder<'_> {
    /// The rows of a function of the server; `None` if `factor` calls none.
    pub(crate) fn host_function(&self, factor: &ast::TableFactor) -> SqlResult<Option<Relation>> {
        let Some(call) = call_of(factor) else { return Ok(None) };
        if call.ordinality {
            return Err(SqlError::unsupported(format!("WITH ORDINALITY on {}", call.name)));
        }
        let arguments = self.arguments(&call)?;
        let table = &call.function.result;
        let reference = TableReference::bare(format!("t{}", self.number()));
        let (mut columns, mut fields): (Vec<RelColumn>, Vec<Field>) = Default::default();
        for (name, ty) in &table.columns {
            let (arrow, fresh) = (value::arrow_type(*ty, TypeMod::NONE), self.fresh());
            fields.push(field(&fresh, &arrow));
            columns.push(RelColumn {
                column: Column::new(Some(reference.clone()), fresh),
                arrow,
                ty: *ty,
                typmod: TypeMod::NONE,
                name: (*name).to_owned(),
                table: Some(table.name.to_owned()),
                schema: None,
                bare: true,
                starred: true,
                origin: (0, 0),
            });
        }
        let rows = match self.argument_values(&arguments)? {
            Some(values) => crate::catalog::function_rows(table, &values, &self.shared)?,
            None => Vec::new(),
        };
        let provider = crate::catalog::table_of_rows(table, fields, &rows)?;
        let plan = LogicalPlanBuilder::scan(reference, provider_as_source(provider), None)
            .and_then(LogicalPlanBuilder::build)
            .planned()?;
        let star = (0..columns.len()).collect();
        let mut relation = Relation { plan, columns, star };
        if let Some(alias) = call.alias {
            let names: Vec<String> = alias.columns.iter().map(|column| fold_ident(&column.name)).collect();
            rename(&mut relation, &fold_ident(&alias.name), &names)?;
        }
        Ok(Some(relation))
    }

    /// An argument for each parameter, as PostgreSQL matches them: by place first, then by name.
    fn arguments(&self, call: &Call<'_>) -> SqlResult<Vec<BoundExpr>> {
        let ctx = self.context(Aggregates::Forbidden("functions in FROM"));
        let parameters = &call.function.parameters;
        let mut given: Vec<Option<BoundExpr>> = parameters.iter().map(|_| None).collect();
        // As the error shows them.
        let mut shown = Vec::new();
        let (mut names, mut is_known): (Vec<String>, bool) = (Vec::new(), true);
        for (place, arg) in call.args.iter().enumerate() {
            let (name, expr) = named(arg)?;
            let bound = bind_expr(expr, &EmptyScope, &ctx)?;
            let ty = types::format_type(bound.ty, TypeMod::NONE);
            let at = match name {
                None if !names.is_empty() => {
                    let message = "positional argument cannot follow named argument";
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
                }
                None => {
                    shown.push(ty);
                    Some(place).filter(|place| *place < parameters.len())
                }
                Some(name) => {
                    if names.contains(&name) {
                        let message = format!("argument name \"{name}\" used more than once");
                        return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
                    }
                    shown.push(format!("{name} => {ty}"));
                    let at = parameters.iter().position(|parameter| parameter.name == name);
                    names.push(name);
                    at
                }
            };
            match at {
                Some(at) if given[at].is_none() => given[at] = Some(bound),
                _ => is_known = false,
            }
        }
        let undefined = || {
            let message = format!("function {}({}) does not exist", call.name, shown.join(", "));
            sql::expr::at_name(SqlError::new(SqlState::UNDEFINED_FUNCTION, message), call.name)
        };
        if !is_known {
            return Err(undefined());
        }
        let settle = |(given, parameter): (Option<BoundExpr>, &sql::system::Parameter)| match given {
            Some(bound) => {
                let coerced = coerce(bound, parameter.ty, TypeMod::NONE, CastContext::Implicit, &ctx);
                coerced.map_err(|error| match error.state() {
                    SqlState::CANNOT_COERCE | SqlState::DATATYPE_MISMATCH => undefined(),
                    _ => error,
                })
            }
            None if parameter.is_optional => Ok(BoundExpr::constant(Datum::Null, parameter.ty)),
            None => Err(undefined()),
        };
        given.into_iter().zip(parameters).map(settle).collect()
    }

    /// What the arguments are; `None` where only the columns are wanted.
    fn argument_values(&self, arguments: &[BoundExpr]) -> SqlResult<Option<Vec<Datum>>> {
        let is_run = self.shared.view.is_some() && self.params.known().len() <= self.shared.params.len();
        if !is_run {
            return Ok(None);
        }
        let statement = self.shared.statement();
        let value = |bound: &BoundExpr| eval(bound, &EvalCtx::new(&statement, &[])).map_err(eval_error);
        arguments.iter().map(value).collect::<SqlResult<Vec<_>>>().map(Some)
    }
}

fn call_of(factor: &ast::TableFactor) -> Option<Call<'_>> {
    let (name, args, alias, ordinality) = match factor {
        ast::TableFactor::Table { name, args: Some(args), alias, with_ordinality, .. } => {
            (name, &args.args[..], alias.as_ref(), *with_ordinality)
        }
        ast::TableFactor::Function { name, args, alias, with_ordinality, .. } => {
            (name, &args[..], alias.as_ref(), *with_ordinality)
        }
        _ => return None,
    };
    let ident = |part: &ast::ObjectNamePart| part.as_ident().map(fold_ident);
    let (schema, called) = match &name.0[..] {
        [called] => ("pg_catalog".to_owned(), ident(called)?),
        [schema, called] => (ident(schema)?, ident(called)?),
        _ => return None,
    };
    let function = sql::system::rows_function(&schema, &called)?;
    Some(Call { function, name, args, alias, ordinality })
}

/// The name that an argument is given by, if it is, and its expression.
fn named(arg: &ast::FunctionArg) -> SqlResult<(Option<String>, &ast::Expr)> {
    use ast::{FunctionArg, FunctionArgExpr};
    match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Ok((None, expr)),
        FunctionArg::Named { name, arg: FunctionArgExpr::Expr(expr), .. } => {
            Ok((Some(fold_ident(name)), expr))
        }
        FunctionArg::ExprNamed {
            name: ast::Expr::Identifier(name),
            arg: FunctionArgExpr::Expr(expr),
            ..
        } => Ok((Some(fold_ident(name)), expr)),
        other => Err(SqlError::unsupported(format!("the argument {other} in FROM"))),
    }
}
