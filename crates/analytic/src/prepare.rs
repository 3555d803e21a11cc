//! Makes an expression fit for the point path's binder: spells operators and collations plainly, and takes out what that
//! binder does not know (window functions, set-returning functions, functions over the catalog), leaving identifiers that
//! stand for it.

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::sync::Arc;

use base::{SqlError, SqlResult, SqlState};
use sql::expr::{Aggregates, BoundExpr, Scope, Volatility, bind_expr, coerce, fold_ident, set_function};
use sqlparser::ast::{self, VisitMut, VisitorMut};
use types::{CastContext, ElementType, PgType, TypeMod};

use crate::binder::Binder;
use crate::catalog::functions::CatalogFunction;
use crate::expand::{RightPart, Series, SeriesCall};
use crate::from::function_expr;
use crate::relation::{Level, LevelScope, Synthetic};
use crate::window::WindowCall;

/// Where the expressions of one SELECT are bound.
pub(crate) struct Place<'a> {
    pub(crate) level: Arc<Level>,
    pub(crate) outer: Option<&'a dyn Scope>,
    pub(crate) windows: RefCell<Vec<WindowCall>>,
    pub(crate) named_windows: &'a [ast::NamedWindowDefinition],
    pub(crate) series: RefCell<Vec<(SeriesCall, Vec<BoundExpr>)>>,
}

impl<'a> Place<'a> {
    pub(crate) fn new(level: Arc<Level>, outer: Option<&'a dyn Scope>) -> Place<'a> {
        Place { level, outer, windows: RefCell::default(), named_windows: &[], series: RefCell::default() }
    }

    pub(crate) fn scope(&self) -> LevelScope<'_> {
        LevelScope { level: &self.level, outer: self.outer }
    }
}

impl Binder<'_> {
    /// Binds an expression of `place`.
    pub(crate) fn expr(
        &self,
        expr: &ast::Expr,
        place: &Place<'_>,
        aggregates: Aggregates,
    ) -> SqlResult<BoundExpr> {
        self.within(&place.level, || {
            let mut prepared = expr.clone();
            let mut visitor = Visitor { binder: self, place, aggregates, depth: 0, conditions: Vec::new() };
            if let ControlFlow::Break(error) = prepared.visit(&mut visitor) {
                return Err(error);
            }
            bind_expr(&prepared, &place.scope(), &self.context(aggregates))
        })
    }

    /// Binds a condition of `place` called `what`.
    pub(crate) fn condition(
        &self,
        expr: &ast::Expr,
        place: &Place<'_>,
        aggregates: Aggregates,
        what: &str,
    ) -> SqlResult<BoundExpr> {
        let bound = self.expr(expr, place, aggregates)?;
        sql::expr::coerce_condition(bound, what, &self.context(aggregates))
    }
}

struct Visitor<'v, 'a, 'p> {
    binder: &'v Binder<'a>,
    place: &'v Place<'p>,
    aggregates: Aggregates,
    depth: usize,
    /// The CASE and COALESCE around, innermost last.
    conditions: Vec<&'static str>,
}

impl VisitorMut for Visitor<'_, '_, '_> {
    type Break = SqlError;

    fn pre_visit_query(&mut self, _: &mut ast::Query) -> ControlFlow<SqlError> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut ast::Query) -> ControlFlow<SqlError> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<SqlError> {
        if self.depth == 0 {
            self.conditions.extend(condition(expr));
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<SqlError> {
        if self.depth > 0 {
            return ControlFlow::Continue(());
        }
        if condition(expr).is_some() {
            self.conditions.pop();
        }
        match self.replace(expr) {
            Ok(None) => ControlFlow::Continue(()),
            Ok(Some(new)) => {
                *expr = new;
                ControlFlow::Continue(())
            }
            Err(error) => ControlFlow::Break(error),
        }
    }
}

/// The name of an expression of which some parts may not be evaluated.
fn condition(expr: &ast::Expr) -> Option<&'static str> {
    match expr {
        ast::Expr::Case { .. } => Some("CASE"),
        ast::Expr::Function(function) if function.name.to_string().eq_ignore_ascii_case("coalesce") => {
            Some("COALESCE")
        }
        _ => None,
    }
}

impl Visitor<'_, '_, '_> {
    fn replace(&self, expr: &mut ast::Expr) -> SqlResult<Option<ast::Expr>> {
        match expr {
            ast::Expr::Collate { expr, collation } => {
                check_collation(collation)?;
                Ok(Some(ast::Expr::Nested(expr.clone())))
            }
            ast::Expr::BinaryOp { op, .. } => {
                if let ast::BinaryOperator::PGCustomBinaryOperator(parts) = op {
                    let symbol = parts.last().map(String::as_str).unwrap_or_default();
                    *op = plain_operator(symbol)
                        .ok_or_else(|| SqlError::unsupported(format!("the operator {symbol}")))?;
                }
                Ok(None)
            }
            ast::Expr::CompoundFieldAccess { root, access_chain } => Ok(composite_field(root, access_chain)),
            ast::Expr::Function(function) => self.function(function),
            _ => Ok(None),
        }
    }

    fn function(&self, function: &mut ast::Function) -> SqlResult<Option<ast::Expr>> {
        let name = system_name(&mut function.name);
        if let Some(name) = &name
            && let Some(spelled) = self.binder.spell_json(function, name, self.place)?
        {
            let over = function.over.clone();
            let spelled = spelled.with_aggregate(function, |aggregate| {
                over.as_ref().map(|over| self.window(aggregate, over)).transpose()
            });
            return spelled.map(Some);
        }
        if let Some(over) = function.over.clone() {
            return self.window(function, &over).map(Some);
        }
        let Some(name) = name else { return Ok(None) };
        let Some(args) = plain_args(function) else { return Ok(None) };
        if name == "grouping" && !args.is_empty() {
            let args = args.iter().map(|arg| self.bind(arg)).collect::<SqlResult<_>>()?;
            return Ok(Some(self.stand_in(Synthetic::Grouping(args), PgType::Int4)));
        }
        if let Some(candidate) = CatalogFunction::named(&name, args.len()) {
            let mut bound = Vec::with_capacity(args.len());
            for (i, arg) in args.iter().enumerate() {
                let arg = self.bind(arg)?;
                let ctx = self.binder.context(self.aggregates);
                bound.push(match candidate.argument(i) {
                    Some(ty) => coerce(arg, ty, TypeMod::NONE, CastContext::Explicit, &ctx)?,
                    None => sql::expr::resolve_unknown(arg, &ctx)?,
                });
            }
            let ty = candidate.result();
            return Ok(Some(self.stand_in(Synthetic::Catalog { function: candidate, args: bound }, ty)));
        }
        if SERIES.contains(&name.as_str()) || set_function(&name).is_some() {
            if let Some(place) = self.conditions.last() {
                let message = format!("set-returning functions are not allowed in {place}");
                return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
            }
            let Some((call, bound)) = self.binder.series_call(&name, &args, &|arg| self.bind(arg))? else {
                return Ok(None);
            };
            let ty = call.series.element();
            let mut series = self.place.series.borrow_mut();
            let is_volatile = |arg: &BoundExpr| arg.volatility() == Volatility::Volatile;
            let call = (call, bound);
            let known = series.iter().position(|known| *known == call && !known.1.iter().any(is_volatile));
            let number = known.unwrap_or(series.len());
            if known.is_none() {
                series.push(call);
            }
            return Ok(Some(self.stand_in(Synthetic::Series(number), ty)));
        }
        Ok(None)
    }

    fn bind(&self, expr: &ast::Expr) -> SqlResult<BoundExpr> {
        bind_expr(expr, &self.place.scope(), &self.binder.context(self.aggregates))
    }

    fn window(&self, function: &mut ast::Function, over: &ast::WindowType) -> SqlResult<ast::Expr> {
        if !matches!(self.aggregates, Aggregates::Allowed) {
            return Err(SqlError::new(SqlState::WINDOWING_ERROR, "window functions are not allowed here"));
        }
        function.over = None;
        let bind = |expr: &ast::Expr| self.bind(expr);
        let call = self.binder.window_call(function, over, self.place, &bind)?;
        let ty = call.ty;
        let number = self.place.windows.borrow().len();
        self.place.windows.borrow_mut().push(call);
        Ok(self.stand_in(Synthetic::Window(number), ty))
    }

    fn stand_in(&self, what: Synthetic, ty: PgType) -> ast::Expr {
        ast::Expr::Identifier(ast::Ident::with_quote('"', self.place.level.add(what, ty)))
    }
}

impl Binder<'_> {
    /// A call of a set-returning function; `None` if `name` is not one that is known here.
    pub(crate) fn series_call(
        &self,
        name: &str,
        args: &[ast::Expr],
        bind: &dyn Fn(&ast::Expr) -> SqlResult<BoundExpr>,
    ) -> SqlResult<Option<(SeriesCall, Vec<BoundExpr>)>> {
        let ctx = self.context(Aggregates::Forbidden("functions in FROM"));
        let undefined = || {
            SqlError::new(
                SqlState::UNDEFINED_FUNCTION,
                format!("function {name} does not exist with these arguments"),
            )
        };
        if let Some(set) = set_function(name) {
            let arrays = set.arrays(args);
            let [array] = &arrays[..] else {
                return Err(SqlError::unsupported(format!("rows of {name} as values")));
            };
            return bind(array).map(|array| Some(elements_of(array)));
        }
        let mut bound = args.iter().map(bind).collect::<SqlResult<Vec<_>>>()?;
        let series = match (name, &bound[..]) {
            ("regexp_matches", [_, _] | [_, _, _]) => {
                let called = ast::Ident::with_quote('"', "matches of regexp_matches");
                let called = ast::ObjectName(vec![ast::ObjectNamePart::Identifier(called)]);
                let call = bind(&function_expr(&called, args)).map_err(|error| match error.state() {
                    SqlState::UNDEFINED_FUNCTION => undefined(),
                    _ => error,
                });
                bound = vec![call?];
                Series::Matches
            }
            ("unnest", [array]) if array.ty.element().is_some() => Series::Unnest(array.ty),
            ("_pg_expandarray", [array]) if array.ty.element().is_some() => Series::ExpandArray(array.ty),
            ("generate_subscripts", [array, _]) if array.ty.element().is_some() => {
                let array = array.ty;
                let dimension = bound.pop().expect("two arguments");
                bound.push(coerce(dimension, PgType::Int4, TypeMod::NONE, CastContext::Implicit, &ctx)?);
                Series::Subscripts(array)
            }
            ("generate_series", [_, _] | [_, _, _]) => {
                let ty = series_type(&bound).ok_or_else(undefined)?;
                let moment = matches!(ty, PgType::Timestamp | PgType::TimestampTz);
                if moment && bound.len() == 2 {
                    return Err(undefined());
                }
                let mut coerced = Vec::new();
                for (i, arg) in bound.into_iter().enumerate() {
                    let to = if i == 2 && moment { PgType::Interval } else { ty };
                    coerced.push(coerce(arg, to, TypeMod::NONE, CastContext::Implicit, &ctx)?);
                }
                bound = coerced;
                Series::Generate(ty)
            }
            ("pg_options_to_table", [_]) => {
                let options = bound.pop().expect("one argument");
                let list = PgType::Array(ElementType::Text);
                bound.push(coerce(options, list, TypeMod::NONE, CastContext::Implicit, &ctx)?);
                Series::OptionNames
            }
            ("aclexplode", [_]) => {
                let list = bound.pop().expect("one argument");
                let texts = PgType::Array(ElementType::Text);
                bound.push(coerce(list, texts, TypeMod::NONE, CastContext::Implicit, &ctx)?);
                Series::Rights(RightPart::All)
            }
            ("pg_partition_ancestors", [_]) => {
                let relation = bound.pop().expect("one argument");
                bound.push(coerce(relation, PgType::Regclass, TypeMod::NONE, CastContext::Implicit, &ctx)?);
                Series::PartitionAncestors
            }
            (name, _) if SERIES.contains(&name) => return Err(undefined()),
            _ => return Ok(None),
        };
        let args = bound.iter().map(|b| b.ty).collect();
        Ok(Some((SeriesCall { series, args }, bound)))
    }
}

/// The elements of an array, as a call.
pub(crate) fn elements_of(array: BoundExpr) -> (SeriesCall, Vec<BoundExpr>) {
    let call = SeriesCall { series: Series::Unnest(array.ty), args: vec![array.ty] };
    (call, vec![array])
}

/// The set-returning functions, but for those that are elements of arrays.
const SERIES: &[&str] = &[
    "unnest",
    "generate_series",
    "generate_subscripts",
    "_pg_expandarray",
    "aclexplode",
    "pg_options_to_table",
    "pg_partition_ancestors",
    "regexp_matches",
];

/// The type `generate_series` counts in.
fn series_type(args: &[BoundExpr]) -> Option<PgType> {
    let known = |ty| args.iter().take(2).any(|a| a.ty == ty);
    if known(PgType::TimestampTz) {
        Some(PgType::TimestampTz)
    } else if known(PgType::Timestamp) {
        Some(PgType::Timestamp)
    } else if known(PgType::Date) {
        Some(PgType::TimestampTz)
    } else if args.iter().any(|a| a.ty == PgType::Numeric) {
        Some(PgType::Numeric)
    } else if args.iter().any(|a| a.ty == PgType::Int8) {
        Some(PgType::Int8)
    } else if args.iter().all(|a| matches!(a.ty, PgType::Int2 | PgType::Int4 | PgType::Unknown)) {
        Some(PgType::Int4)
    } else {
        None
    }
}

/// The name of a function of `pg_catalog` or `information_schema`, whose qualifier is taken off.
pub(crate) fn system_name(name: &mut ast::ObjectName) -> Option<String> {
    let ident = |part: &ast::ObjectNamePart| match part {
        ast::ObjectNamePart::Identifier(ident) => Some(fold_ident(ident)),
        ast::ObjectNamePart::Function(_) => None,
    };
    match &name.0[..] {
        [one] => ident(one),
        [schema, one] if ident(schema).is_some_and(|s| s == "pg_catalog" || s == "information_schema") => {
            let found = ident(one);
            name.0.remove(0);
            found
        }
        _ => None,
    }
}

/// The arguments of a plain call: no names, no DISTINCT, no ORDER BY.
pub(crate) fn plain_args(function: &ast::Function) -> Option<Vec<ast::Expr>> {
    match &function.args {
        ast::FunctionArguments::None => Some(Vec::new()),
        ast::FunctionArguments::List(list)
            if list.clauses.is_empty() && list.duplicate_treatment.is_none() =>
        {
            list.args
                .iter()
                .map(|arg| match arg {
                    ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
                    _ => None,
                })
                .collect()
        }
        _ => None,
    }
}

/// `(pair).x` and `(pair).n` of what `_pg_expandarray` yields, which is kept as an array of the two, and the fields of what `aclexplode` does, an array of
/// their texts.
fn composite_field(root: &ast::Expr, chain: &[ast::AccessExpr]) -> Option<ast::Expr> {
    let [ast::AccessExpr::Dot(ast::Expr::Identifier(field))] = chain else { return None };
    let (index, ty) = match fold_ident(field).as_str() {
        "x" => (1, None),
        "n" => (2, None),
        "grantor" => (1, Some("oid")),
        "grantee" => (2, Some("oid")),
        "privilege_type" => (3, None),
        "is_grantable" => (4, Some("bool")),
        _ => return None,
    };
    let index = ast::Expr::value(ast::Value::Number(index.to_string(), false));
    let field = ast::Expr::CompoundFieldAccess {
        root: Box::new(root.clone()),
        access_chain: vec![ast::AccessExpr::Subscript(ast::Subscript::Index { index })],
    };
    let Some(ty) = ty else { return Some(field) };
    let name = ast::ObjectName(vec![ast::ObjectNamePart::Identifier(ast::Ident::new(ty))]);
    Some(ast::Expr::Cast {
        kind: ast::CastKind::DoubleColon,
        expr: Box::new(field),
        data_type: ast::DataType::Custom(name, Vec::new()),
        array: false,
        format: None,
    })
}

fn check_collation(name: &ast::ObjectName) -> SqlResult<()> {
    let last =
        name.0.last().and_then(|part| part.as_ident()).map(|ident| ident.value.clone()).unwrap_or_default();
    if matches!(last.as_str(), "default" | "C" | "POSIX" | "C.UTF-8" | "C.utf8" | "ucs_basic") {
        return Ok(());
    }
    Err(SqlError::new(
        SqlState::UNDEFINED_OBJECT,
        format!("collation \"{last}\" for encoding \"UTF8\" does not exist"),
    ))
}

fn plain_operator(symbol: &str) -> Option<ast::BinaryOperator> {
    use ast::BinaryOperator as B;
    Some(match symbol {
        "=" => B::Eq,
        "<>" | "!=" => B::NotEq,
        "<" => B::Lt,
        "<=" => B::LtEq,
        ">" => B::Gt,
        ">=" => B::GtEq,
        "+" => B::Plus,
        "-" => B::Minus,
        "*" => B::Multiply,
        "/" => B::Divide,
        "%" => B::Modulo,
        "||" => B::StringConcat,
        "~" => B::PGRegexMatch,
        "~*" => B::PGRegexIMatch,
        "!~" => B::PGRegexNotMatch,
        "!~*" => B::PGRegexNotIMatch,
        "~~" => B::PGLikeMatch,
        "~~*" => B::PGILikeMatch,
        "!~~" => B::PGNotLikeMatch,
        "!~~*" => B::PGNotILikeMatch,
        "@>" => B::AtArrow,
        "<@" => B::ArrowAt,
        "&&" => B::PGOverlap,
        _ => return None,
    })
}
