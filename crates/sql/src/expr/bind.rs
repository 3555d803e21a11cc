//! Binding of parsed expressions.

use base::{SqlError, SqlResult, SqlState};
use compact_str::CompactString;
use sqlparser::ast::{self, BinaryOperator, Expr, UnaryOperator, Value};
use types::{CastContext, Datum, ElementType, Numeric, PgType, TypeMod};

use super::analysis::Volatility;
use super::bind_context::BindContext;
use super::bind_operator::{
    bind_array_comparison, bind_binary, bind_in, bind_like, bind_operator, call_named,
};
use super::bind_row::row_of;
use super::bind_type::{bind_cast_type, bind_type, interval_typmod};
use super::coerce::{coerce, coerce_condition, common_type, common_typmod};
use super::fold::{fold, outgrows};
use super::functions::CASE_OF;
use super::scope::{Scope, at_ident, undefined_column};
use super::tree::{
    BoundExpr, Collate, CompareOp, ExprKind, FunctionRef, SubqueryColumn, SubqueryExpr, SubqueryTest,
};
use super::{bind_call, bind_operator};

/// Binds `expr`. Its type may still be `Unknown` (a string literal, NULL, a parameter): coerce it.
///
/// # Errors
/// 42703, 42702, 42P01 for names; 42883 for functions and operators; 0A000 for what the point path lacks.
pub fn bind_expr(expr: &Expr, scope: &dyn Scope, ctx: &BindContext<'_>) -> SqlResult<BoundExpr> {
    Binder { scope, ctx }.bind(expr)
}

/// Binds `expr` as the condition of `place` (`WHERE`).
pub fn bind_condition(
    expr: &Expr,
    scope: &dyn Scope,
    ctx: &BindContext<'_>,
    place: &str,
) -> SqlResult<BoundExpr> {
    coerce_condition(bind_expr(expr, scope, ctx)?, place, ctx)
}

/// `left op right` with PostgreSQL's operator resolution.
pub fn bind_comparison(
    op: CompareOp,
    left: BoundExpr,
    right: BoundExpr,
    ctx: &BindContext<'_>,
) -> SqlResult<BoundExpr> {
    bind_operator::bind_comparison(op, left, right, ctx)
}

/// Parses and binds the text of a DEFAULT or CHECK expression as the catalog keeps it.
pub fn bind_sql_text(sql: &str, scope: &dyn Scope, ctx: &BindContext<'_>) -> SqlResult<BoundExpr> {
    crate::parse::parse_expression(sql)
        .and_then(|parsed| bind_expr(&parsed, scope, ctx))
        .map_err(SqlError::without_location)
}

/// An identifier as SQL reads it: its ASCII letters folded to lower case unless quoted, cut to 63 bytes.
pub fn fold_ident(ident: &ast::Ident) -> String {
    let mut name =
        if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_ascii_lowercase() };
    if name.len() > base::limits::IDENTIFIER_LEN_MAX {
        let mut end = base::limits::IDENTIFIER_LEN_MAX;
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        name.truncate(end);
    }
    name
}

/// A scope, and what its expressions are bound with.
#[derive(Clone, Copy)]
pub(super) struct Binder<'a> {
    pub(super) scope: &'a dyn Scope,
    pub(super) ctx: &'a BindContext<'a>,
}

impl Binder<'_> {
    pub(super) fn bind(&self, expr: &Expr) -> SqlResult<BoundExpr> {
        let ctx = self.ctx;
        match expr {
            Expr::Nested(inner) => self.bind(inner),
            Expr::Identifier(ident) => self.column(std::slice::from_ref(ident)),
            Expr::CompoundIdentifier(parts) => self.column(parts),
            Expr::Value(value) => self.literal(&value.value),
            Expr::BinaryOp { left, op, right } => self.binary(left, op, right),
            Expr::UnaryOp { op, expr } => self.unary(*op, expr),
            Expr::IsNull(e) => self.is_null(e, false),
            Expr::IsNotNull(e) => self.is_null(e, true),
            Expr::IsTrue(e) => self.is_bool(e, true, false, "IS TRUE"),
            Expr::IsNotTrue(e) => self.is_bool(e, true, true, "IS NOT TRUE"),
            Expr::IsFalse(e) => self.is_bool(e, false, false, "IS FALSE"),
            Expr::IsNotFalse(e) => self.is_bool(e, false, true, "IS NOT FALSE"),
            Expr::IsUnknown(e) => self.is_unknown(e, false),
            Expr::IsNotUnknown(e) => self.is_unknown(e, true),
            Expr::IsDistinctFrom(a, b) => self.distinct(a, b, false),
            Expr::IsNotDistinctFrom(a, b) => self.distinct(a, b, true),
            Expr::InList { expr, list, negated } => {
                if let Some(row) = row_of(expr) {
                    return self.row_in_list(&row, list, *negated);
                }
                let value = self.bind(expr)?;
                let items = list.iter().map(|item| self.bind(item)).collect::<SqlResult<Vec<_>>>()?;
                bind_in(value, items, *negated, ctx)
            }
            Expr::InSubquery { expr, subquery, negated } => {
                let any = self.quantified_subquery(expr, CompareOp::Eq, subquery, false)?;
                Ok(if *negated { negate(any) } else { any })
            }
            Expr::Between { expr, negated, low, high } => {
                let symmetric = crate::parse::symmetric(low);
                let low = symmetric.unwrap_or(low);
                let (value, low, high) = (self.bind(expr)?, self.bind(low)?, self.bind(high)?);
                for part in [&value, &low, &high] {
                    part.check_copies(4)?;
                }
                let mut ways = vec![between(value.clone(), low.clone(), high.clone(), *negated, ctx)?];
                if symmetric.is_some() {
                    ways.push(between(value, high, low, *negated, ctx)?);
                }
                Ok(match ways.len() {
                    1 => ways.remove(0),
                    _ => BoundExpr::boolean(if *negated { ExprKind::And(ways) } else { ExprKind::Or(ways) }),
                })
            }
            Expr::Like { negated, any: false, expr, pattern, escape_char } => {
                self.like(if *negated { "!~~" } else { "~~" }, expr, pattern, escape_char.as_ref())
            }
            Expr::ILike { negated, any: false, expr, pattern, escape_char } => {
                self.like(if *negated { "!~~*" } else { "~~*" }, expr, pattern, escape_char.as_ref())
            }
            Expr::Like { negated, any: true, expr, pattern, escape_char: None } => {
                let name = if *negated { "!~~" } else { "~~" };
                bind_array_comparison(name, self.bind(expr)?, self.bind(pattern)?, false, ctx)
            }
            Expr::ILike { negated, any: true, expr, pattern, escape_char: None } => {
                let name = if *negated { "!~~*" } else { "~~*" };
                bind_array_comparison(name, self.bind(expr)?, self.bind(pattern)?, false, ctx)
            }
            Expr::SimilarTo { negated, expr, pattern, escape_char } => {
                let mut args = vec![self.bind(pattern)?];
                args.extend(escape_char.as_ref().map(|e| self.literal(&e.value)).transpose()?);
                let pattern = call_named("similar_to_escape", args, ctx)?;
                let matched = bind_operator("~", vec![self.bind(expr)?, pattern], ctx)?;
                Ok(if *negated { negate(matched) } else { matched })
            }
            Expr::AnyOp { left, compare_op, right, .. } => self.quantified(left, compare_op, right, false),
            Expr::AllOp { left, compare_op, right } => self.quantified(left, compare_op, right, true),
            Expr::Cast { kind, expr, data_type, format: None, array: false }
                if matches!(kind, ast::CastKind::Cast | ast::CastKind::DoubleColon) =>
            {
                let (ty, typmod) = bind_cast_type(data_type, ctx)?;
                self.explicit_cast(expr, ty, typmod)
            }
            Expr::TypedString(typed) => {
                let (ty, typmod) = bind_type(&typed.data_type, ctx)?;
                let text = string_value(&typed.value.value).ok_or_else(|| {
                    SqlError::new(SqlState::SYNTAX_ERROR, "a typed literal must be a string")
                })?;
                coerce(unknown(&text), ty, typmod, CastContext::Explicit, ctx)
            }
            Expr::Interval(interval) => self.interval(interval),
            Expr::Case { operand, conditions, else_result, .. } => {
                self.case(operand.as_deref(), conditions, else_result.as_deref())
            }
            Expr::Exists { subquery, negated } => {
                let bound = self.subquery(subquery)?;
                Ok(BoundExpr::boolean(ExprKind::Subquery(Box::new(SubqueryExpr {
                    id: bound.id,
                    correlated: bound.correlated,
                    test: SubqueryTest::Exists { negated: *negated },
                }))))
            }
            Expr::Subquery(query) => {
                let bound = self.single_column(query)?;
                let (ty, typmod, _) = bound.columns[0];
                let subquery =
                    SubqueryExpr { id: bound.id, correlated: bound.correlated, test: SubqueryTest::Scalar };
                Ok(BoundExpr::new(ty, typmod, ExprKind::Subquery(Box::new(subquery))))
            }
            Expr::Array(array) => self.array(&array.elem),
            Expr::CompoundFieldAccess { root, access_chain } => self.access(root, access_chain),
            row if row_of(row).is_some() => Err(SqlError::unsupported("a row expression here")),
            Expr::Function(function) => bind_call::bind_function(self, function),
            Expr::AtTimeZone { timestamp, time_zone } => {
                call_named("timezone", vec![self.bind(time_zone)?, self.bind(timestamp)?], ctx)
            }
            Expr::Extract { field, expr, .. } => {
                call_named("extract", vec![unknown(&field_name(field)), self.bind(expr)?], ctx)
            }
            Expr::Ceil { expr, field } => self.rounding("ceil", expr, field),
            Expr::Floor { expr, field } => self.rounding("floor", expr, field),
            Expr::Position { expr, r#in } => {
                call_named("position", vec![self.bind(r#in)?, self.bind(expr)?], ctx)
            }
            Expr::Substring { expr, substring_from, substring_for, .. } => {
                let mut args = vec![self.bind(expr)?];
                match (substring_from, substring_for) {
                    (Some(from), _) => args.push(self.bind(from)?),
                    (None, Some(_)) => args.push(BoundExpr::constant(Datum::Int4(1), PgType::Int4)),
                    (None, None) => {}
                }
                if let Some(length) = substring_for {
                    args.push(self.bind(length)?);
                }
                call_named("substring", args, ctx)
            }
            Expr::Trim { trim_where, trim_what, expr, trim_characters } => {
                let name = match trim_where {
                    None | Some(ast::TrimWhereField::Both) => "btrim",
                    Some(ast::TrimWhereField::Leading) => "ltrim",
                    Some(ast::TrimWhereField::Trailing) => "rtrim",
                };
                let mut args = vec![self.bind(expr)?];
                if let Some(what) = trim_what {
                    args.push(self.bind(what)?);
                }
                for what in trim_characters.iter().flatten() {
                    args.push(self.bind(what)?);
                }
                call_named(name, args, ctx)
            }
            Expr::Overlay { expr, overlay_what, overlay_from, overlay_for } => {
                let mut args = vec![self.bind(expr)?, self.bind(overlay_what)?, self.bind(overlay_from)?];
                if let Some(length) = overlay_for {
                    args.push(self.bind(length)?);
                }
                call_named("overlay", args, ctx)
            }
            Expr::Collate { expr, collation } => {
                let parts: Vec<String> =
                    collation.0.iter().filter_map(|part| part.as_ident()).map(fold_ident).collect();
                let name = parts.join(".");
                let known = ["c", "posix", "default", "c.utf-8", "c.utf8", "ucs_basic"];
                if known.contains(&name.trim_start_matches("pg_catalog.").to_lowercase().as_str()) {
                    let expr = self.bind(expr)?;
                    let plain = expr.ty.element().unwrap_or(expr.ty);
                    if plain.is_string() || plain == PgType::Unknown || plain == PgType::Name {
                        return Ok(expr);
                    }
                    Err(SqlError::new(
                        SqlState::DATATYPE_MISMATCH,
                        format!(
                            "collations are not supported by type {}",
                            super::coerce::type_name(expr.ty, ctx)
                        ),
                    ))
                } else {
                    Err(SqlError::new(
                        SqlState::UNDEFINED_OBJECT,
                        format!("collation \"{name}\" for encoding \"UTF8\" does not exist"),
                    ))
                }
            }
            other => Err(SqlError::unsupported(format!("the expression {other}"))),
        }
    }

    fn column(&self, parts: &[ast::Ident]) -> SqlResult<BoundExpr> {
        let names: Vec<String> = parts.iter().map(fold_ident).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let (name, qualifier) = names.split_last().expect("an identifier has a part");
        let column = self
            .scope
            .resolve(qualifier, name)
            .and_then(|found| found.ok_or_else(|| undefined_column(qualifier, name)))
            .map_err(|error| at_ident(error, &parts[0]))?;
        let kind = match column.depth {
            0 => ExprKind::Column(column.index),
            depth => ExprKind::Outer { depth, index: column.index },
        };
        Ok(BoundExpr::new(column.ty, column.typmod, kind))
    }

    pub(super) fn literal(&self, value: &Value) -> SqlResult<BoundExpr> {
        Ok(match value {
            Value::Number(text, _) => number(text, self.ctx)?,
            Value::Boolean(b) => BoundExpr::constant(Datum::Bool(*b), PgType::Bool),
            Value::Null => BoundExpr::constant(Datum::Null, PgType::Unknown),
            Value::Placeholder(name) => {
                let number: Option<usize> = name.strip_prefix('$').and_then(|n| n.parse().ok());
                let index =
                    number.and_then(|n| n.checked_sub(1)).filter(|n| *n < 65_535).ok_or_else(|| {
                        SqlError::new(SqlState::UNDEFINED_PARAMETER, format!("there is no parameter {name}"))
                    })?;
                let ty = self.ctx.params.get(index)?;
                BoundExpr::new(ty, TypeMod::NONE, ExprKind::Param(index))
            }
            other => match string_value(other) {
                // U&'\0000'
                Some(text) if text.contains('\0') => {
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, "invalid Unicode escape value"));
                }
                Some(text) => unknown(&text),
                None => return Err(SqlError::unsupported(format!("the literal {other}"))),
            },
        })
    }

    fn binary(&self, left: &Expr, op: &BinaryOperator, right: &Expr) -> SqlResult<BoundExpr> {
        match op {
            BinaryOperator::And | BinaryOperator::Or => {
                // Chains are balanced trees: their terms, from the left.
                let mut parts = Vec::new();
                let mut rest = vec![right, left];
                while let Some(next) = rest.pop() {
                    match next {
                        Expr::BinaryOp { left, op: inner, right } if inner == op => {
                            rest.extend([&**right, &**left]);
                        }
                        term => parts.push(term),
                    }
                }
                let word = if *op == BinaryOperator::And { "AND" } else { "OR" };
                let parts = parts
                    .into_iter()
                    .map(|part| coerce_condition(self.bind(part)?, word, self.ctx))
                    .collect::<SqlResult<Vec<_>>>()?;
                Ok(BoundExpr::boolean(if word == "AND" { ExprKind::And(parts) } else { ExprKind::Or(parts) }))
            }
            _ => {
                if let (Some(a), Some(b)) = (row_of(left), row_of(right)) {
                    return self.row_comparison(&a, op, &b);
                }
                let name = operator_name(op);
                bind_binary(&name, self.bind(left)?, self.bind(right)?, self.ctx)
            }
        }
    }

    fn unary(&self, op: UnaryOperator, expr: &Expr) -> SqlResult<BoundExpr> {
        let name = match op {
            UnaryOperator::Not => {
                return Ok(negate(coerce_condition(self.bind(expr)?, "NOT", self.ctx)?));
            }
            UnaryOperator::Minus => {
                if let Some(negated) = negated_number(expr) {
                    return number(&negated, self.ctx);
                }
                "-"
            }
            UnaryOperator::Plus => "+",
            UnaryOperator::BitwiseNot => "~",
            UnaryOperator::PGAbs => "@",
            UnaryOperator::PGSquareRoot => "|/",
            UnaryOperator::PGCubeRoot => "||/",
            other => return Err(SqlError::unsupported(format!("the operator {other}"))),
        };
        bind_operator(name, vec![self.bind(expr)?], self.ctx)
    }

    pub(super) fn is_null(&self, expr: &Expr, negated: bool) -> SqlResult<BoundExpr> {
        if let Some(row) = row_of(expr) {
            return self.row_is_null(&row, negated);
        }
        let expr = super::coerce::resolve_unknown(self.bind(expr)?, self.ctx)?;
        Ok(fold(BoundExpr::boolean(ExprKind::IsNull { expr: Box::new(expr), negated }), self.ctx))
    }

    fn is_unknown(&self, expr: &Expr, negated: bool) -> SqlResult<BoundExpr> {
        let expr = coerce_condition(self.bind(expr)?, "IS UNKNOWN", self.ctx)?;
        Ok(BoundExpr::boolean(ExprKind::IsNull { expr: Box::new(expr), negated }))
    }

    fn is_bool(&self, expr: &Expr, value: bool, negated: bool, place: &str) -> SqlResult<BoundExpr> {
        let expr = coerce_condition(self.bind(expr)?, place, self.ctx)?;
        Ok(BoundExpr::boolean(ExprKind::IsBool { expr: Box::new(expr), value, negated }))
    }

    pub(super) fn distinct(&self, a: &Expr, b: &Expr, negated: bool) -> SqlResult<BoundExpr> {
        if let (Some(a), Some(b)) = (row_of(a), row_of(b)) {
            return self.rows_distinct(&a, &b, negated);
        }
        let (left, right, collate) = bind_operator::unify(self.bind(a)?, self.bind(b)?, "=", self.ctx)?;
        let (left, right) = (Box::new(left), Box::new(right));
        Ok(BoundExpr::boolean(ExprKind::IsDistinct { collate, left, right, negated }))
    }

    fn like(
        &self,
        operator: &str,
        expr: &Expr,
        pattern: &Expr,
        escape: Option<&ast::ValueWithSpan>,
    ) -> SqlResult<BoundExpr> {
        // `LIKE ALL (array)` looks like a call.
        if let (Expr::Function(function), None) = (pattern, escape)
            && function.name.to_string().eq_ignore_ascii_case("all")
            && let ast::FunctionArguments::List(list) = &function.args
            && let [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(array))] = &list.args[..]
        {
            return bind_array_comparison(operator, self.bind(expr)?, self.bind(array)?, true, self.ctx);
        }
        let mut pattern = self.bind(pattern)?;
        if let Some(escape) = escape {
            pattern = call_named("like_escape", vec![pattern, self.literal(&escape.value)?], self.ctx)?;
        }
        bind_like(operator, self.bind(expr)?, pattern, self.ctx)
    }

    fn quantified(&self, left: &Expr, op: &BinaryOperator, right: &Expr, all: bool) -> SqlResult<BoundExpr> {
        let name = operator_name(op);
        if let Expr::Subquery(query) = unnest(right) {
            let op = bind_operator::compare_op(&name)
                .ok_or_else(|| SqlError::unsupported(format!("{name} ANY/ALL (subquery)")))?;
            return self.quantified_subquery(left, op, query, all);
        }
        bind_array_comparison(&name, self.bind(left)?, self.bind(right)?, all, self.ctx)
    }

    fn subquery(&self, query: &ast::Query) -> SqlResult<super::BoundSubquery> {
        match self.ctx.subqueries {
            Some(binder) => binder.bind_subquery(query, self.scope, self.ctx),
            None => {
                let place = match self.ctx.aggregates {
                    super::Aggregates::Forbidden(place) => place,
                    super::Aggregates::Allowed | super::Aggregates::OverWindow => "this expression",
                };
                Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, format!("cannot use subquery in {place}")))
            }
        }
    }

    pub(super) fn single_column(&self, query: &ast::Query) -> SqlResult<super::BoundSubquery> {
        let bound = self.subquery(query)?;
        if bound.columns.len() == 1 {
            Ok(bound)
        } else {
            Err(SqlError::new(SqlState::SYNTAX_ERROR, "subquery must return only one column"))
        }
    }

    fn quantified_subquery(
        &self,
        left: &Expr,
        op: CompareOp,
        query: &ast::Query,
        all: bool,
    ) -> SqlResult<BoundExpr> {
        let bound = self.subquery(query)?;
        let lefts = row_of(left).unwrap_or_else(|| vec![left]);
        if lefts.len() != bound.columns.len() {
            let what = if bound.columns.len() > lefts.len() { "many" } else { "few" };
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("subquery has too {what} columns")));
        }
        if lefts.len() > 1 && op != CompareOp::Eq {
            return Err(SqlError::unsupported("a row comparison with a subquery other than ="));
        }
        let mut columns = Vec::with_capacity(lefts.len());
        for (left, (ty, typmod, _)) in lefts.into_iter().zip(&bound.columns) {
            let left = self.bind(left)?;
            // A stand-in column tells which conversion the subquery's side needs.
            let stand_in = BoundExpr::column(0, *ty, *typmod);
            let (left, right, collate) = bind_operator::unify(left, stand_in, op.symbol(), self.ctx)?;
            let cast = matches!(right.kind, ExprKind::Cast { .. }).then_some((*ty, right.ty));
            columns.push(SubqueryColumn { op, collate, left, cast });
        }
        Ok(BoundExpr::boolean(ExprKind::Subquery(Box::new(SubqueryExpr {
            id: bound.id,
            correlated: bound.correlated,
            test: SubqueryTest::Compare { all, columns },
        }))))
    }

    fn explicit_cast(&self, expr: &Expr, ty: PgType, typmod: TypeMod) -> SqlResult<BoundExpr> {
        // `ARRAY[]::int[]` needs the type to be bound at all.
        if let (Expr::Array(array), PgType::Array(element)) = (unnest(expr), ty)
            && array.elem.is_empty()
        {
            return Ok(BoundExpr::constant(Datum::array(element, Vec::new()), ty));
        }
        let bound = self.bind(expr)?;
        let bound = coerce(bound, ty, typmod, CastContext::Explicit, self.ctx)?;
        if !typmod.is_none() || bound.typmod.is_none() {
            return Ok(bound);
        }
        // A type without a modifier takes the one away that its values had; a cast goes on by its own.
        Ok(if matches!(bound.kind, ExprKind::Cast { .. }) {
            let kind = ExprKind::Cast { expr: Box::new(bound), how: CastContext::Explicit };
            BoundExpr::new(ty, typmod, kind)
        } else {
            BoundExpr { typmod, ..bound }
        })
    }

    fn interval(&self, interval: &ast::Interval) -> SqlResult<BoundExpr> {
        let value = self.bind(&interval.value)?;
        let Some(Datum::Text(text)) = value.as_const() else {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "an interval literal must be a string"));
        };
        let first = interval.leading_field.as_ref().map(field_name);
        let last = interval.last_field.as_ref().map(field_name);
        // The digits of SECOND alone stand where those of other leading fields would.
        let digits = match (interval.fractional_seconds_precision, &interval.last_field) {
            (None, None) => interval.leading_precision,
            (digits, _) => digits,
        };
        let typmod = interval_typmod(first.as_deref(), last.as_deref(), digits)?;
        coerce(unknown(text), PgType::Interval, typmod, CastContext::Explicit, self.ctx)
    }

    fn case(
        &self,
        operand: Option<&Expr>,
        conditions: &[ast::CaseWhen],
        otherwise: Option<&Expr>,
    ) -> SqlResult<BoundExpr> {
        let operand = operand.map(|e| self.bind(e)).transpose()?;
        if let Some(operand) = &operand {
            operand.check_copies(conditions.len())?;
            if conditions.len() > 1 && operand.volatility() == Volatility::Volatile {
                return self.case_of_volatile(operand, conditions, otherwise);
            }
        }
        let mut tests = Vec::with_capacity(conditions.len());
        let mut results = Vec::with_capacity(conditions.len() + 1);
        for when in conditions {
            let condition = self.bind(&when.condition)?;
            tests.push(match &operand {
                Some(operand) => bind_comparison(CompareOp::Eq, operand.clone(), condition, self.ctx)?,
                None => coerce_condition(condition, "CASE/WHEN", self.ctx)?,
            });
            results.push(self.bind(&when.result)?);
        }
        // PostgreSQL looks at the type of ELSE first.
        let has_else = otherwise.is_some();
        if let Some(otherwise) = otherwise {
            results.insert(0, self.bind(otherwise)?);
        }
        let (mut results, ty) = unify_all(results, "CASE", self.ctx)?;
        let typmod = if has_else { common_typmod(&results) } else { TypeMod::NONE };
        let otherwise = has_else.then(|| Box::new(results.remove(0)));
        let whens = tests.into_iter().zip(results).collect();
        Ok(BoundExpr::new(ty, typmod, ExprKind::Case { whens, otherwise }))
    }

    /// CASE of an operand that is not the same each time, and so has to be worked out once: as the argument of a call.
    fn case_of_volatile(
        &self,
        operand: &BoundExpr,
        conditions: &[ast::CaseWhen],
        otherwise: Option<&Expr>,
    ) -> SqlResult<BoundExpr> {
        let refused = || SqlError::unsupported("CASE of a volatile operand with results that are worked out");
        // A call works all of its arguments out, so that they may be nothing that fails or has an effect.
        let is_bare = |expr: &BoundExpr| {
            use ExprKind::{Column, Const, Outer, Param};
            matches!(expr.kind, Const(_) | Param(_) | Column(_) | Outer { .. })
        };
        let (mut values, mut results) = (Vec::new(), Vec::new());
        for when in conditions {
            let value = self.bind(&when.condition)?;
            let (left, value, collate) = bind_operator::unify(operand.clone(), value, "=", self.ctx)?;
            if left != *operand || collate != Collate::Plain || !is_bare(&value) {
                return Err(refused());
            }
            values.push(value);
            results.push(self.bind(&when.result)?);
        }
        let null = || Ok(BoundExpr::constant(Datum::Null, PgType::Unknown));
        results.push(otherwise.map_or_else(null, |expr| self.bind(expr))?);
        let (mut results, ty) = unify_all(results, "CASE", self.ctx)?;
        if !results.iter().all(is_bare) {
            return Err(refused());
        }
        let last = results.pop();
        let pairs = values.into_iter().zip(results).flat_map(|(value, result)| [value, result]);
        let args = [operand.clone()].into_iter().chain(pairs).chain(last).collect();
        Ok(BoundExpr::new(ty, TypeMod::NONE, ExprKind::Call { function: FunctionRef(&CASE_OF), args }))
    }

    fn array(&self, items: &[Expr]) -> SqlResult<BoundExpr> {
        if items.is_empty() {
            return Err(SqlError::new(
                SqlState::INDETERMINATE_DATATYPE,
                "cannot determine type of empty array",
            )
            .with_hint("Explicitly cast to the desired type, for example ARRAY[]::integer[]."));
        }
        let items = items.iter().map(|item| self.bind(item)).collect::<SqlResult<Vec<_>>>()?;
        let (items, ty) = unify_all(items, "ARRAY", self.ctx)?;
        let element = ElementType::from_type(ty)
            .ok_or_else(|| SqlError::unsupported("an array of more than one dimension"))?;
        Ok(fold(
            BoundExpr::new(PgType::Array(element), TypeMod::NONE, ExprKind::Array { element, items }),
            self.ctx,
        ))
    }

    fn access(&self, root: &Expr, chain: &[ast::AccessExpr]) -> SqlResult<BoundExpr> {
        let (mut value, chain) = match root {
            Expr::Identifier(first) => self.subscripted_column(first, chain)?,
            root => (self.bind(root)?, chain),
        };
        // With a slice among them all subscripts are slices, each of another dimension.
        let is_slice = |access: &ast::AccessExpr| {
            matches!(access, ast::AccessExpr::Subscript(ast::Subscript::Slice { .. }))
        };
        if value.ty.element().is_some() && chain.len() > 1 && chain.iter().any(is_slice) {
            return Err(SqlError::unsupported("an array of more than one dimension"));
        }
        for access in chain {
            let ast::AccessExpr::Subscript(subscript) = access else {
                return Err(SqlError::unsupported("a field of a composite value"));
            };
            let index = |e: &Expr| {
                coerce(self.bind(e)?, PgType::Int4, TypeMod::NONE, CastContext::Assignment, self.ctx)
            };
            if value.ty == PgType::Jsonb
                && let ast::Subscript::Index { index } = subscript
            {
                let index = self.bind(index)?;
                // A key, or an array's subscript, as it is in a path.
                let is_key = index.ty == PgType::Unknown || index.ty.is_string();
                if !is_key && !matches!(index.ty, PgType::Int2 | PgType::Int4) {
                    let ty = super::coerce::type_name(index.ty, self.ctx);
                    let message = format!("subscript type {ty} is not supported");
                    return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message));
                }
                let key = coerce(index, PgType::Text, TypeMod::NONE, CastContext::Explicit, self.ctx)?;
                let path = ExprKind::Array { element: ElementType::Text, items: vec![key] };
                let path = BoundExpr::new(PgType::Array(ElementType::Text), TypeMod::NONE, path);
                value = bind_binary("#>", value, fold(path, self.ctx), self.ctx)?;
                continue;
            }
            if value.ty == PgType::Name
                && let ast::Subscript::Index { index: at } = subscript
            {
                // A name is an array of bytes, counted from 0.
                let one = BoundExpr::constant(Datum::Int4(1), PgType::Int4);
                let at = bind_binary("+", index(at)?, one.clone(), self.ctx)?;
                let text = coerce(value, PgType::Text, TypeMod::NONE, CastContext::Explicit, self.ctx)?;
                let byte = call_named("substr", vec![text, at, one], self.ctx)?;
                value = coerce(byte, PgType::Char, TypeMod::NONE, CastContext::Explicit, self.ctx)?;
                continue;
            }
            let Some(element) = value.ty.element() else {
                return Err(SqlError::new(
                    SqlState::DATATYPE_MISMATCH,
                    format!(
                        "cannot subscript type {} because it does not support subscripting",
                        super::coerce::type_name(value.ty, self.ctx)
                    ),
                ));
            };
            value = match subscript {
                ast::Subscript::Index { index: at } => {
                    let mut index = index(at)?;
                    if value.ty.vector_element().is_some() {
                        // A vector's first subscript is 0, an array's 1.
                        let one = BoundExpr::constant(Datum::Int4(1), PgType::Int4);
                        index = bind_binary("+", index, one, self.ctx)?;
                    }
                    let index = Box::new(index);
                    let kind = ExprKind::Subscript { array: Box::new(value), index };
                    BoundExpr::new(element, TypeMod::NONE, kind)
                }
                ast::Subscript::Slice { lower_bound, upper_bound, stride: None } => {
                    let lower = lower_bound.as_ref().map(&index).transpose()?.map(Box::new);
                    let upper = upper_bound.as_ref().map(&index).transpose()?.map(Box::new);
                    let (ty, typmod) = (value.ty, value.typmod);
                    BoundExpr::new(ty, typmod, ExprKind::Slice { array: Box::new(value), lower, upper })
                }
                _ => return Err(SqlError::unsupported("a slice with a stride")),
            };
        }
        Ok(value)
    }

    /// `t.column[…]`, which is parsed as accesses to a column `t`: the column, and the accesses after its name.
    fn subscripted_column<'c>(
        &self,
        first: &ast::Ident,
        chain: &'c [ast::AccessExpr],
    ) -> SqlResult<(BoundExpr, &'c [ast::AccessExpr])> {
        let mut parts = vec![first.clone()];
        parts.extend(chain.iter().map_while(|access| match access {
            ast::AccessExpr::Dot(Expr::Identifier(ident)) => Some(ident.clone()),
            _ => None,
        }));
        let rest = &chain[parts.len() - 1..];
        Ok((self.column(&parts)?, rest))
    }

    fn rounding(&self, name: &str, expr: &Expr, field: &ast::CeilFloorKind) -> SqlResult<BoundExpr> {
        if !matches!(field, ast::CeilFloorKind::DateTimeField(ast::DateTimeField::NoDateTime)) {
            return Err(SqlError::unsupported(format!("{name} to a field")));
        }
        call_named(name, vec![self.bind(expr)?], self.ctx)
    }
}

/// All of `exprs` as their common type, which is the second answer.
pub(super) fn unify_all(
    exprs: Vec<BoundExpr>,
    place: &str,
    ctx: &BindContext<'_>,
) -> SqlResult<(Vec<BoundExpr>, PgType)> {
    let types: Vec<PgType> = exprs.iter().map(|e| e.ty).collect();
    let ty = common_type(&types, place)?;
    let exprs = exprs
        .into_iter()
        .map(|e| coerce(e, ty, TypeMod::NONE, CastContext::Implicit, ctx))
        .collect::<SqlResult<Vec<_>>>()?;
    Ok((exprs, ty))
}

pub(super) fn negate(expr: BoundExpr) -> BoundExpr {
    match expr.kind {
        ExprKind::InList { collate, expr, items, negated } => {
            BoundExpr::boolean(ExprKind::InList { collate, expr, items, negated: !negated })
        }
        _ => BoundExpr::boolean(ExprKind::Not(Box::new(expr))),
    }
}

/// `value [NOT] BETWEEN low AND high`.
fn between(
    value: BoundExpr,
    low: BoundExpr,
    high: BoundExpr,
    negated: bool,
    ctx: &BindContext<'_>,
) -> SqlResult<BoundExpr> {
    let (from, to) = if negated { (CompareOp::Lt, CompareOp::Gt) } else { (CompareOp::Ge, CompareOp::Le) };
    let parts = vec![bind_comparison(from, value.clone(), low, ctx)?, bind_comparison(to, value, high, ctx)?];
    Ok(BoundExpr::boolean(if negated { ExprKind::Or(parts) } else { ExprKind::And(parts) }))
}

pub(super) fn unnest(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) => unnest(inner),
        other => other,
    }
}

/// A literal whose type is not known yet.
pub(super) fn unknown(text: &str) -> BoundExpr {
    BoundExpr::constant(Datum::Text(CompactString::new(text)), PgType::Unknown)
}

/// The text of a number behind a minus sign: a constant with the sign, so that the least bigint is one, and another sign takes it away.
fn negated_number(mut expr: &Expr) -> Option<String> {
    let mut is_negative = true;
    loop {
        expr = match unnest(expr) {
            Expr::UnaryOp { op: UnaryOperator::Minus, expr } => {
                is_negative = !is_negative;
                expr
            }
            Expr::Value(value) => {
                let Value::Number(text, _) = &value.value else { return None };
                return Some(if is_negative { format!("-{text}") } else { text.to_string() });
            }
            _ => return None,
        }
    }
}

fn number(text: &str, ctx: &BindContext<'_>) -> SqlResult<BoundExpr> {
    if text.bytes().all(|b| b.is_ascii_digit() || b == b'-')
        && let Ok(v) = text.parse::<i64>()
    {
        return Ok(match i32::try_from(v) {
            Ok(v) => BoundExpr::constant(Datum::Int4(v), PgType::Int4),
            Err(_) => BoundExpr::constant(Datum::Int8(v), PgType::Int8),
        });
    }
    ctx.params.may_work_out();
    let value = Datum::Numeric(Numeric::parse(text)?);
    if outgrows(&value, text.len()) {
        // `1e131071`
        let text = Box::new(BoundExpr::constant(Datum::text(text), PgType::Text));
        let cast = ExprKind::Cast { expr: text, how: CastContext::Explicit };
        return Ok(BoundExpr::new(PgType::Numeric, TypeMod::NONE, cast));
    }
    Ok(BoundExpr::constant(value, PgType::Numeric))
}

fn string_value(value: &Value) -> Option<String> {
    match value {
        Value::SingleQuotedString(s)
        | Value::EscapedStringLiteral(s)
        | Value::UnicodeStringLiteral(s)
        | Value::NationalStringLiteral(s) => Some(s.clone()),
        Value::DollarQuotedString(s) => Some(s.value.clone()),
        _ => None,
    }
}

/// The name of an operator as PostgreSQL's catalog has it.
pub(super) fn operator_name(op: &BinaryOperator) -> String {
    match op {
        BinaryOperator::PGCustomBinaryOperator(parts) => parts.last().cloned().unwrap_or_default(),
        BinaryOperator::NotEq => "<>".to_owned(),
        other => other.to_string(),
    }
}

/// The name of a date field as `date_part` takes it.
fn field_name(field: &ast::DateTimeField) -> String {
    match field {
        ast::DateTimeField::Custom(ident) => ident.value.clone(),
        ast::DateTimeField::TimezoneHour => "timezone_hour".to_owned(),
        ast::DateTimeField::TimezoneMinute => "timezone_minute".to_owned(),
        other => other.to_string().to_lowercase(),
    }
}
