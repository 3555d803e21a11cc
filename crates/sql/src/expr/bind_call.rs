//! Function calls: those with a grammar of their own, aggregates, and all others by name.

use base::{SqlError, SqlResult, SqlState};
use sqlparser::ast::{self, Expr, FunctionArg, FunctionArgExpr, FunctionArguments};
use types::{CastContext, ElementType, PgType, TypeMod};

use super::aggregate::{AggregateCall, AggregateKind, Regression, SortKey};
use super::bind::{Binder, fold_ident, unify_all};
use super::bind_context::Aggregates;
use super::bind_operator::{bind_comparison, call_named, unify};
use super::coerce::{coerce, coerce_condition, common_typmod, resolve_unknown, type_name};
use super::functions::{RESET_STATEMENTS, TYPE_OF, extension_of};
use super::scope::at_name;
use super::tree::{BoundExpr, Collate, CompareOp, ExprKind, SubqueryExpr, SubqueryTest};

/// Names that are called without parentheses, with the function they mean.
const BARE: &[&str] = &[
    "current_catalog",
    "current_date",
    "current_role",
    "current_schema",
    "current_timestamp",
    "current_user",
    "localtime",
    "localtimestamp",
    "session_user",
    "user",
];

pub(super) fn bind_function(binder: &Binder<'_>, function: &ast::Function) -> SqlResult<BoundExpr> {
    let parts: Vec<String> =
        function.name.0.iter().filter_map(|part| part.as_ident()).map(fold_ident).collect();
    let name = match &parts[..] {
        [name] => name.as_str(),
        [schema, name] if schema == "pg_catalog" => name.as_str(),
        // Of `pgcrypto` too, before PostgreSQL had it itself.
        [schema, name]
            if (extension_of(name).is_some() || name == "gen_random_uuid") && has_schema(binder, schema) =>
        {
            name.as_str()
        }
        [schema, name] if RESET_STATEMENTS == format!("{schema}.{name}") => RESET_STATEMENTS,
        _ => {
            return Err(SqlError::new(
                SqlState::UNDEFINED_FUNCTION,
                format!("function {} does not exist", function.name),
            ));
        }
    };
    if function.over.is_some() {
        return Err(SqlError::unsupported("a window function on the point path"));
    }
    if !function.within_group.is_empty() || function.null_treatment.is_some() {
        return Err(SqlError::unsupported("WITHIN GROUP or a null treatment"));
    }
    let list = match &function.args {
        FunctionArguments::None => {
            if BARE.contains(&name) {
                return call_named(name, Vec::new(), binder.ctx);
            }
            return Err(SqlError::unsupported(format!("the expression {function}")));
        }
        FunctionArguments::Subquery(query) => {
            if name != "array" {
                return Err(SqlError::unsupported(format!("a subquery as the argument of {name}")));
            }
            return array_subquery(binder, query);
        }
        FunctionArguments::List(list) => list,
    };
    if let Some(kind) = aggregate_kind(name, list) {
        return bind_aggregate(binder, name, kind, function, list);
    }
    if makes_json_elsewhere(name, list, binder)? {
        return Err(SqlError::unsupported(format!("this call of {name}")));
    }
    if function.filter.is_some() || list.duplicate_treatment.is_some() || !list.clauses.is_empty() {
        return Err(SqlError::new(
            SqlState::WRONG_OBJECT_TYPE,
            format!("{name} is not an aggregate function: DISTINCT, FILTER or ORDER BY specified"),
        ));
    }
    if name == "make_interval" {
        return call_named(name, named_args(binder, MAKE_INTERVAL, &list.args)?, binder.ctx);
    }
    if let Some((array, fixed)) = variadic_arg(&list.args) {
        let called = variadic_call(binder, name, fixed, array);
        return called.map_err(|error| at_name(error, &function.name));
    }
    let args = list.args.iter().map(|arg| binder.bind(plain_arg(arg)?)).collect::<SqlResult<Vec<_>>>()?;
    special(binder, name, args).map_err(|error| match error.state() {
        SqlState::UNDEFINED_FUNCTION => at_name(error, &function.name),
        _ => error,
    })
}

fn has_schema(binder: &Binder<'_>, name: &str) -> bool {
    binder.ctx.format.names.as_deref().is_some_and(|names| names.namespace_oid(name).is_some())
}

fn plain_arg(arg: &FunctionArg) -> SqlResult<&Expr> {
    match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Ok(expr),
        _ => Err(SqlError::unsupported(format!("the argument {arg}"))),
    }
}

/// The names of `make_interval`'s arguments, each 0 if it is left out.
const MAKE_INTERVAL: &[&str] = &["years", "months", "weeks", "days", "hours", "mins", "secs"];

/// Arguments by place and by name, 0 for those left out.
fn named_args(binder: &Binder<'_>, names: &[&str], args: &[FunctionArg]) -> SqlResult<Vec<BoundExpr>> {
    let mut bound: Vec<Option<BoundExpr>> = vec![None; names.len().max(args.len())];
    for (i, arg) in args.iter().enumerate() {
        let (place, expr) = match arg {
            FunctionArg::Named { name, arg: FunctionArgExpr::Expr(expr), .. } => {
                let own = fold_ident(name);
                let place = names.iter().position(|known| *known == own).ok_or_else(|| {
                    SqlError::new(
                        SqlState::UNDEFINED_FUNCTION,
                        format!("there is no argument \"{own}\" of this function"),
                    )
                })?;
                (place, expr)
            }
            arg => (i, plain_arg(arg)?),
        };
        bound[place] = Some(binder.bind(expr)?);
    }
    let zero = || BoundExpr::constant(types::Datum::Int4(0), PgType::Int4);
    Ok(bound.into_iter().map(|arg| arg.unwrap_or_else(zero)).collect())
}

/// The array behind VARIADIC, and the arguments before it.
fn variadic_arg(args: &[FunctionArg]) -> Option<(&Expr, &[FunctionArg])> {
    let (last, fixed) = args.split_last()?;
    match last {
        FunctionArg::Named { name, arg: FunctionArgExpr::Expr(array), .. }
            if crate::parse::is_variadic(name) =>
        {
            Some((array, fixed))
        }
        _ => None,
    }
}

/// A call whose last arguments are the elements of an array.
fn variadic_call(
    binder: &Binder<'_>,
    name: &str,
    fixed: &[FunctionArg],
    array: &Expr,
) -> SqlResult<BoundExpr> {
    let array = binder.bind(array)?;
    let mut args = fixed.iter().map(|arg| binder.bind(plain_arg(arg)?)).collect::<SqlResult<Vec<_>>>()?;
    let own = format!("variadic {name}");
    if super::functions::named(&own).is_empty() {
        if super::functions::named(name).is_empty() {
            args.push(array);
            return call_named(name, args, binder.ctx);
        }
        return Err(SqlError::unsupported(format!("VARIADIC in a call of {name}")));
    }
    if array.ty.element().is_none() {
        return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, "VARIADIC argument must be an array"));
    }
    args.push(array);
    call_named(&own, args, binder.ctx)
}

fn array_subquery(binder: &Binder<'_>, query: &ast::Query) -> SqlResult<BoundExpr> {
    let bound = binder.single_column(query)?;
    let element = ElementType::from_type(bound.columns[0].0)
        .ok_or_else(|| SqlError::unsupported("an array of more than one dimension"))?;
    let subquery =
        SubqueryExpr { id: bound.id, correlated: bound.correlated, test: SubqueryTest::Array { element } };
    Ok(BoundExpr::new(PgType::Array(element), TypeMod::NONE, ExprKind::Subquery(Box::new(subquery))))
}

fn special(binder: &Binder<'_>, name: &str, args: Vec<BoundExpr>) -> SqlResult<BoundExpr> {
    let ctx = binder.ctx;
    let some_args = |least: usize| {
        if args.len() >= least {
            Ok(())
        } else {
            Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("{} needs an argument", name.to_uppercase())))
        }
    };
    match name {
        "coalesce" => {
            some_args(1)?;
            let (args, ty) = unify_all(args, "COALESCE", ctx)?;
            Ok(BoundExpr::new(ty, common_typmod(&args), ExprKind::Coalesce(args)))
        }
        "greatest" | "least" => {
            some_args(1)?;
            let (args, ty) = unify_all(args, &name.to_uppercase(), ctx)?;
            let collate = if ty == PgType::Bpchar { Collate::Blanks } else { Collate::Plain };
            Ok(BoundExpr::new(
                ty,
                common_typmod(&args),
                ExprKind::Extreme { greatest: name == "greatest", collate, args },
            ))
        }
        "nullif" => {
            let [left, right] = <[BoundExpr; 2]>::try_from(args)
                .map_err(|_| SqlError::new(SqlState::SYNTAX_ERROR, "NULLIF needs two arguments"))?;
            let own = left.ty;
            bind_comparison(CompareOp::Eq, left.clone(), right.clone(), ctx)?;
            let (left, right, collate) = unify(left, right, "=", ctx)?;
            // The answer is of the type that the first one is compared in, where there is no operator for its own.
            let ty = match own {
                PgType::Unknown | PgType::Varchar | PgType::Bpchar | PgType::Char | PgType::Time => left.ty,
                own if own.is_numeric() => left.ty,
                own => own,
            };
            let node = BoundExpr::new(
                left.ty,
                left.typmod,
                ExprKind::NullIf { collate, left: Box::new(left), right: Box::new(right) },
            );
            if node.ty == ty { Ok(node) } else { coerce(node, ty, TypeMod::NONE, CastContext::Explicit, ctx) }
        }
        "pg_typeof" if args.len() == 1 => {
            let ty = types::Datum::Oid(args[0].ty.oid());
            call_named(TYPE_OF, [args, vec![BoundExpr::constant(ty, PgType::Regtype)]].concat(), ctx)
        }
        _ => {
            // A type's name called with one argument is a cast, where there is no function of that name.
            if let [arg] = &args[..]
                && super::functions::named(name).is_empty()
                && let Some(ty) = PgType::from_name(name)
                && name != "unknown"
                && types::cast_allowed(arg.ty, ty).is_some()
            {
                let arg = args.into_iter().next().expect("one argument");
                return coerce(arg, ty, TypeMod::NONE, CastContext::Explicit, ctx);
            }
            call_named(name, args, ctx)
        }
    }
}

/// Whether the call is one that the analytical path spells otherwise before it binds it: an aggregate that builds JSON, or one that takes a whole row, by
/// the name of its table.
fn makes_json_elsewhere(
    name: &str,
    list: &ast::FunctionArgumentList,
    binder: &Binder<'_>,
) -> SqlResult<bool> {
    if matches!(name, "json_agg" | "jsonb_agg" | "json_object_agg" | "jsonb_object_agg") {
        return Ok(true);
    }
    let takes_rows = name == "row_to_json"
        || name.strip_prefix("to_json").is_some_and(|rest| matches!(rest, "" | "b"))
        || matches!(
            name,
            "json_build_object" | "json_build_array" | "jsonb_build_object" | "jsonb_build_array"
        );
    if !takes_rows {
        return Ok(false);
    }
    for arg in &list.args {
        if let FunctionArg::Unnamed(FunctionArgExpr::Expr(ast::Expr::Identifier(ident))) = arg
            && binder.scope.resolve(&[], &super::fold_ident(ident))?.is_none()
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether an aggregate has this name, be it one of the analytical path's.
pub fn is_aggregate(name: &str) -> bool {
    let nothing =
        ast::FunctionArgumentList { duplicate_treatment: None, args: Vec::new(), clauses: Vec::new() };
    aggregate_kind(name, &nothing).is_some()
        || ["json_", "jsonb_"].iter().any(|json| name.starts_with(json) && name.ends_with("_agg"))
        || name.starts_with("percentile_")
}

fn aggregate_kind(name: &str, list: &ast::FunctionArgumentList) -> Option<AggregateKind> {
    Some(match name {
        "count" => match &list.args[..] {
            [FunctionArg::Unnamed(FunctionArgExpr::Wildcard)] => AggregateKind::CountRows,
            _ => AggregateKind::Count,
        },
        "sum" => AggregateKind::Sum,
        "avg" => AggregateKind::Avg,
        "min" => AggregateKind::Min,
        "max" => AggregateKind::Max,
        "bool_and" | "every" => AggregateKind::BoolAnd,
        "bool_or" => AggregateKind::BoolOr,
        "bit_and" => AggregateKind::BitAnd,
        "bit_or" => AggregateKind::BitOr,
        "bit_xor" => AggregateKind::BitXor,
        "string_agg" => AggregateKind::StringAgg,
        "array_agg" => AggregateKind::ArrayAgg,
        "stddev" | "stddev_samp" => AggregateKind::StddevSamp,
        "stddev_pop" => AggregateKind::StddevPop,
        "variance" | "var_samp" => AggregateKind::VarSamp,
        "var_pop" => AggregateKind::VarPop,
        _ => AggregateKind::Regression(regression(name)?),
    })
}

fn regression(name: &str) -> Option<Regression> {
    Some(match name {
        "regr_count" => Regression::Count,
        "regr_avgx" => Regression::AverageX,
        "regr_avgy" => Regression::AverageY,
        "regr_sxx" => Regression::SquaresX,
        "regr_syy" => Regression::SquaresY,
        "regr_sxy" => Regression::Products,
        "covar_pop" => Regression::CovariancePop,
        "covar_samp" => Regression::CovarianceSamp,
        "corr" => Regression::Correlation,
        "regr_r2" => Regression::Determination,
        "regr_slope" => Regression::Slope,
        "regr_intercept" => Regression::Intercept,
        _ => return None,
    })
}

fn bind_aggregate(
    binder: &Binder<'_>,
    name: &str,
    kind: AggregateKind,
    function: &ast::Function,
    list: &ast::FunctionArgumentList,
) -> SqlResult<BoundExpr> {
    if let Aggregates::Forbidden(place) = binder.ctx.aggregates {
        return Err(SqlError::new(
            SqlState::GROUPING_ERROR,
            format!("aggregate functions are not allowed in {place}"),
        ));
    }
    let aggregates = match binder.ctx.aggregates {
        Aggregates::OverWindow => Aggregates::Allowed,
        _ => Aggregates::Forbidden("an aggregate"),
    };
    let inner_ctx = super::BindContext { aggregates, ..*binder.ctx };
    let inner = Binder { scope: binder.scope, ctx: &inner_ctx };
    let nested = |error: SqlError| {
        if error.message() == "aggregate functions are not allowed in an aggregate" {
            SqlError::new(SqlState::GROUPING_ERROR, "aggregate function calls cannot be nested")
        } else {
            error
        }
    };
    let mut args = Vec::with_capacity(list.args.len());
    if kind != AggregateKind::CountRows {
        for arg in &list.args {
            args.push(inner.bind(plain_arg(arg)?).map_err(nested)?);
        }
    }
    let distinct = list.duplicate_treatment == Some(ast::DuplicateTreatment::Distinct);
    let names = |what: fn(&ExprKind) -> bool| args.iter().any(|arg| arg.any(&mut |e| what(&e.kind)));
    if names(|kind| matches!(kind, ExprKind::Outer { .. }))
        && !names(|kind| matches!(kind, ExprKind::Column(_)))
    {
        // It is the enclosing query's own.
        return Err(SqlError::unsupported("an aggregate of an enclosing query's columns in a subquery"));
    }
    let written = args.clone();
    let (args, ty) = settle_aggregate(name, kind, args, binder)?;
    let mut order_by = Vec::new();
    for clause in &list.clauses {
        let ast::FunctionArgumentClause::OrderBy(keys) = clause else {
            return Err(SqlError::unsupported(format!("the clause {clause} of an aggregate")));
        };
        for key in keys {
            let expr = inner.bind(&key.expr).map_err(nested)?;
            if distinct && !written.contains(&expr) {
                return Err(SqlError::new(
                    SqlState::INVALID_COLUMN_REFERENCE,
                    "in an aggregate with DISTINCT, ORDER BY expressions must appear in argument list",
                ));
            }
            let expr = resolve_unknown(expr, binder.ctx)?;
            let descending = key.options.asc == Some(false);
            let nulls_first = key.options.nulls_first.unwrap_or(descending);
            order_by.push(SortKey { expr, descending, nulls_first });
        }
    }
    let filter = match &function.filter {
        Some(filter) => Some(coerce_condition(inner.bind(filter).map_err(nested)?, "FILTER", binder.ctx)?),
        None => None,
    };
    let call = AggregateCall { kind, args, distinct, filter, order_by, ty };
    Ok(BoundExpr::new(ty, TypeMod::NONE, ExprKind::Aggregate(Box::new(call))))
}

/// Converts an aggregate's arguments to the types it takes, and says the type it answers.
fn settle_aggregate(
    name: &str,
    kind: AggregateKind,
    args: Vec<BoundExpr>,
    binder: &Binder<'_>,
) -> SqlResult<(Vec<BoundExpr>, PgType)> {
    use AggregateKind as K;
    use PgType as T;
    let ctx = binder.ctx;
    let types: Vec<PgType> = args.iter().map(|arg| arg.ty).collect();
    let undefined = || {
        let shown: Vec<String> = types.iter().map(|ty| type_name(*ty, ctx)).collect();
        SqlError::new(SqlState::UNDEFINED_FUNCTION, format!("function {name}({}) does not exist", shown.join(", ")))
            .with_hint(
                "No function matches the given name and argument types. You might need to add explicit type casts.",
            )
    };
    let wanted = match kind {
        K::CountRows => 0,
        K::StringAgg | K::Regression(_) => 2,
        _ => 1,
    };
    if args.len() != wanted {
        if kind == K::Count && args.is_empty() {
            return Err(SqlError::new(
                SqlState::WRONG_OBJECT_TYPE,
                "count(*) must be used to call a parameterless aggregate function",
            ));
        }
        return Err(undefined());
    }
    let to = |args: Vec<BoundExpr>, ty: PgType| {
        args.into_iter()
            .map(|arg| coerce(arg, ty, TypeMod::NONE, CastContext::Implicit, ctx))
            .collect::<SqlResult<Vec<_>>>()
    };
    let Some(&ty) = types.first() else { return Ok((args, T::Int8)) };
    Ok(match kind {
        K::CountRows | K::Count => {
            (args.into_iter().map(|arg| resolve_unknown(arg, ctx)).collect::<SqlResult<Vec<_>>>()?, T::Int8)
        }
        K::Sum => match ty {
            T::Int2 | T::Int4 => (args, T::Int8),
            T::Int8 | T::Numeric => (args, T::Numeric),
            T::Float4 | T::Float8 | T::Interval => (args, ty),
            T::Unknown => (to(args, T::Float8)?, T::Float8),
            T::Time => (to(args, T::Interval)?, T::Interval),
            _ => return Err(undefined()),
        },
        K::Avg => match ty {
            T::Int2 | T::Int4 | T::Int8 | T::Numeric => (args, T::Numeric),
            T::Float4 | T::Float8 => (to(args, T::Float8)?, T::Float8),
            T::Interval => (args, ty),
            _ => return Err(undefined()),
        },
        K::StddevSamp | K::StddevPop | K::VarSamp | K::VarPop => match ty {
            T::Int2 | T::Int4 | T::Int8 | T::Numeric => (args, T::Numeric),
            T::Float4 | T::Float8 => (to(args, T::Float8)?, T::Float8),
            _ => return Err(undefined()),
        },
        K::Min | K::Max => match ty {
            T::Unknown | T::Varchar | T::Name => (to(args, T::Text)?, T::Text),
            T::Bool | T::Uuid | T::Json | T::Jsonb | T::Bytea => return Err(undefined()),
            _ => (args, ty),
        },
        K::BoolAnd | K::BoolOr => (to(args, T::Bool).map_err(|_| undefined())?, T::Bool),
        K::Regression(what) => {
            let ty = if what == Regression::Count { T::Int8 } else { T::Float8 };
            (to(args, T::Float8).map_err(|_| undefined())?, ty)
        }
        K::BitAnd | K::BitOr | K::BitXor => {
            if !ty.is_integer() {
                return Err(undefined());
            }
            (args, ty)
        }
        K::StringAgg => {
            let result = if ty == T::Bytea { T::Bytea } else { T::Text };
            (to(args, result).map_err(|_| undefined())?, result)
        }
        K::ArrayAgg => {
            let args =
                args.into_iter().map(|arg| resolve_unknown(arg, ctx)).collect::<SqlResult<Vec<_>>>()?;
            let array = args[0]
                .ty
                .array_of()
                .ok_or_else(|| SqlError::unsupported("an array of more than one dimension"))?;
            (args, array)
        }
    })
}
