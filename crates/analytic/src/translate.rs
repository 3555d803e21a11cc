//! From bound expressions to DataFusion's: natively where Arrow's answer is PostgreSQL's, by a row function otherwise.

use std::sync::Arc;

use base::{SqlError, SqlResult};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::{Column, ScalarValue};
use datafusion::logical_expr::expr::{Case, InList, ScalarFunction};
use datafusion::logical_expr::{BinaryExpr, Cast, Expr, LogicalPlan, Operator, ScalarUDF};
use sql::expr::{
    BoundExpr, Collate, CompareOp, ExprKind, SubqueryColumn, SubqueryExpr, SubqueryTest, Volatility,
};
use types::{Datum, PgType, TypeMod};

use crate::arithmetic::{Arithmetic, Op};
use crate::binder::Binder;
use crate::error::Planned;
use crate::guarded::Answer;
use crate::lazily::{may_fail_behind_first, may_fail_in_branch, where_filtered};
use crate::relation::{Level, SYNTHETIC, Synthetic};
use crate::row_function::{Body, JsonKey, Strip};
use crate::value;

/// An expression of DataFusion's with the SQL type it carries.
#[derive(Clone, Debug)]
pub(crate) struct Typed {
    pub(crate) expr: Expr,
    pub(crate) ty: PgType,
    pub(crate) arrow: DataType,
}

/// What becomes of an expression's value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Use {
    /// It is all of a condition that rows must fulfil, or all of what AND joins in it.
    Conjunct,
    /// It is a part of such a condition in which unknown comes to the same as false.
    Condition,
    #[default]
    Value,
}

/// Translates the expressions of one level over a plan, which grows where a subquery must be evaluated first.
pub(crate) struct Translator<'b, 'a> {
    pub(crate) binder: &'b Binder<'a>,
    pub(crate) plan: LogicalPlan,
    pub(crate) level: Arc<Level>,
    /// Values of synthetics that the plan computes by now, by their number.
    pub(crate) computed: Vec<(usize, Typed)>,
    /// What rows fulfil that ask for what is translated now, outermost first ([`crate::guarded`]).
    pub(crate) guards: Vec<BoundExpr>,
    /// Whether a guard is translated.
    pub(crate) is_guard: bool,
    /// Of subqueries, in columns of the plan.
    pub(crate) answers: Vec<Answer>,
    /// Of the expression that is translated next.
    next_use: Use,
}

impl<'b, 'a> Translator<'b, 'a> {
    pub(crate) fn new(binder: &'b Binder<'a>, plan: LogicalPlan, level: Arc<Level>) -> Translator<'b, 'a> {
        Translator {
            binder,
            plan,
            level,
            computed: Vec::new(),
            guards: Vec::new(),
            is_guard: false,
            answers: Vec::new(),
            next_use: Use::Value,
        }
    }

    /// A condition that rows must fulfil.
    ///
    /// # Errors
    /// As [`Translator::translate`].
    pub(crate) fn condition(&mut self, e: &BoundExpr) -> SqlResult<Expr> {
        Ok(self.translate_for(e, Use::Conjunct)?.expr)
    }

    fn translate_for(&mut self, e: &BoundExpr, used: Use) -> SqlResult<Typed> {
        self.next_use = used;
        self.translate(e)
    }

    /// # Errors
    /// 0A000 for what no path evaluates.
    pub(crate) fn translate(&mut self, e: &BoundExpr) -> SqlResult<Typed> {
        let used = std::mem::take(&mut self.next_use);
        let expr = match &e.kind {
            ExprKind::Const(value) => return self.constant(value, e.ty, e.typmod),
            ExprKind::Param(index) => {
                let value = self.binder.shared.params.get(*index).cloned().unwrap_or(Datum::Null);
                return self.constant(&value, e.ty, TypeMod::NONE);
            }
            ExprKind::Column(index) => return self.column(*index),
            ExprKind::Outer { depth, index } => return self.binder.outer_column(*depth, *index),
            ExprKind::Compare { op, collate, left, right } => {
                let is_equality = matches!(op, CompareOp::Eq | CompareOp::Ne);
                let (left, right) = self.comparable(left, right, *collate, is_equality)?;
                binary(left, operator(*op), right)
            }
            ExprKind::IsDistinct { collate, left, right, negated } => {
                let (left, right) = self.comparable(left, right, *collate, true)?;
                let op = if *negated { Operator::IsNotDistinctFrom } else { Operator::IsDistinctFrom };
                binary(left, op, right)
            }
            ExprKind::And(parts) if used == Use::Conjunct => self.conjuncts(parts)?,
            ExprKind::And(parts) | ExprKind::Or(parts)
                if may_fail_behind_first(parts) && self.can_be_lazy(e)? =>
            {
                return self.lazily(e);
            }
            ExprKind::And(parts) => self.chain(e, parts, Operator::And, used)?,
            ExprKind::Or(parts) if used == Use::Value => self.chain(e, parts, Operator::Or, used)?,
            ExprKind::Or(parts) => self.chain(e, parts, Operator::Or, Use::Condition)?,
            ExprKind::Not(inner) => match other_membership(inner) {
                Some(inner) => return self.translate_for(&inner, used),
                None => Expr::Not(Box::new(self.translate(inner)?.expr)),
            },
            ExprKind::IsNull { expr, negated } => {
                let inner = Box::new(self.translate(expr)?.expr);
                if *negated { Expr::IsNotNull(inner) } else { Expr::IsNull(inner) }
            }
            ExprKind::IsBool { expr, value, negated } => {
                let inner = Box::new(self.translate(expr)?.expr);
                match (value, negated) {
                    (true, false) => Expr::IsTrue(inner),
                    (true, true) => Expr::IsNotTrue(inner),
                    (false, false) => Expr::IsFalse(inner),
                    (false, true) => Expr::IsNotFalse(inner),
                }
            }
            ExprKind::InList { collate, expr, items, negated } => {
                let mut all = vec![self.translate(expr)?];
                for item in items {
                    all.push(self.translate(item)?);
                }
                self.in_list(all, *collate, *negated)?
            }
            ExprKind::CompareArray { op: CompareOp::Eq, all: false, collate, left, array }
                if self.constant_items(array).is_some() =>
            {
                let items = self.constant_items(array).expect("just asked");
                if items.is_empty() {
                    return Ok(Typed {
                        expr: literal_bool(false),
                        ty: PgType::Bool,
                        arrow: DataType::Boolean,
                    });
                }
                let mut all = vec![self.translate(left)?];
                let ty = array.ty.element().unwrap_or(left.ty);
                for item in &items {
                    all.push(self.constant(item, ty, TypeMod::NONE)?);
                }
                self.in_list(all, *collate, false)?
            }
            ExprKind::Case { whens, otherwise } => {
                let is_condition = e.ty == PgType::Bool;
                if is_condition && may_fail_in_branch(whens, otherwise.as_deref()) && self.can_be_lazy(e)? {
                    return self.lazily(e);
                }
                return self.case(e, whens, otherwise.as_deref());
            }
            // What decides is evaluated once more for its value.
            ExprKind::Coalesce(_) if e.volatility() == Volatility::Volatile => return self.lazily(e),
            ExprKind::Coalesce(parts)
                if e.ty == PgType::Bool && may_fail_behind_first(parts) && self.can_be_lazy(e)? =>
            {
                return self.lazily(e);
            }
            ExprKind::Coalesce(parts) => {
                let mut typed = Vec::new();
                for (place, part) in parts.iter().enumerate() {
                    typed.push(self.at_child(e, place, part, |this| this.translate(part))?);
                }
                let (typed, arrow) = self.unify(typed, e.ty)?;
                let expr = datafusion::functions::core::expr_fn::coalesce(typed);
                return Ok(Typed { expr, ty: e.ty, arrow });
            }
            ExprKind::Call { .. } | ExprKind::Cast { .. } => {
                if let Some(native) = self.native(e)? {
                    return Ok(native);
                }
                return self.row_function(e);
            }
            ExprKind::Subquery(subquery) => {
                if let Some(known) = self.known_answer(subquery) {
                    return Ok(known);
                }
                let mut tests = Vec::new();
                if let SubqueryTest::Compare { columns, .. } = &subquery.test {
                    let guard = self.guard();
                    for column in columns {
                        tests.push(self.translate(&where_filtered(&column.left, guard.as_ref()))?);
                    }
                }
                return self.binder.subquery_expr(self, e.ty, subquery, tests, used);
            }
            ExprKind::Aggregate(_) => {
                return Err(SqlError::internal("an aggregate was left in an expression"));
            }
            _ => return self.row_function(e),
        };
        Ok(Typed { expr, ty: PgType::Bool, arrow: DataType::Boolean })
    }

    /// Whether the first of `all` is one of the others.
    fn in_list(&self, all: Vec<Typed>, collate: Collate, negated: bool) -> SqlResult<Expr> {
        let is_float = |t: &Typed| matches!(t.ty, PgType::Float4 | PgType::Float8);
        // Unlike a comparison, a list has two zeros.
        let all = if all.iter().any(is_float) {
            all.into_iter().map(|t| key_of(t.expr, t.ty)).collect()
        } else {
            self.keys(all, collate)?
        };
        let mut all = all.into_iter();
        let first = Box::new(self.binder.tested_in_list(all.next().expect("the tested expression")));
        Ok(Expr::InList(InList { expr: first, list: all.collect(), negated }))
    }

    /// Conditions all of which rows must fulfil, each by itself.
    fn conjuncts(&mut self, parts: &[BoundExpr]) -> SqlResult<Expr> {
        let mut all = Vec::with_capacity(parts.len());
        for (at, part) in parts.iter().enumerate() {
            all.push(match self.behind_others(parts, at)? {
                Some(typed) => typed.expr,
                None => self.translate_for(part, Use::Conjunct)?.expr,
            });
        }
        Ok(joined_by(Operator::And, all))
    }

    /// The `parts` of `e` joined by AND or OR, each of that use.
    fn chain(&mut self, e: &BoundExpr, parts: &[BoundExpr], op: Operator, used: Use) -> SqlResult<Expr> {
        let mut all = Vec::with_capacity(parts.len());
        for (place, part) in parts.iter().enumerate() {
            all.push(self.at_child(e, place, part, |this| this.translate_for(part, used))?.expr);
        }
        Ok(joined_by(op, all))
    }

    fn column(&mut self, index: usize) -> SqlResult<Typed> {
        if index < SYNTHETIC {
            let column = &self.level.columns[index];
            return Ok(Typed { expr: column.expr(), ty: column.ty, arrow: column.arrow.clone() });
        }
        if let Some((_, typed)) = self.computed.iter().find(|(number, _)| *number == index - SYNTHETIC) {
            return Ok(typed.clone());
        }
        let synthetic = self.level.synthetic(index);
        match synthetic.what {
            Synthetic::Catalog { function, args } => {
                let mut typed = Vec::new();
                for arg in &args {
                    typed.push(self.translate(arg)?);
                }
                self.call(Body::Catalog(function), typed, synthetic.ty, TypeMod::NONE)
            }
            Synthetic::Window(_) => {
                Err(SqlError::new(base::SqlState::WINDOWING_ERROR, "window functions are not allowed here"))
            }
            Synthetic::Grouping(_) => Err(not_grouping()),
            Synthetic::Computed(name) => {
                let arrow = value::arrow_type(synthetic.ty, TypeMod::NONE);
                Ok(Typed { expr: Expr::Column(bare(name)), ty: synthetic.ty, arrow })
            }
            Synthetic::Series(_) => Err(SqlError::unsupported("a set-returning function in this place")),
        }
    }

    /// A value as a literal.
    pub(crate) fn constant(&self, value: &Datum, ty: PgType, typmod: TypeMod) -> SqlResult<Typed> {
        let mut arrow = self.binder.shared.arrow_type(ty, typmod);
        if let (PgType::Numeric, Datum::Numeric(n)) = (ty, value)
            && let Some((digits, scale)) = value::decimal_shape(n)
        {
            arrow = DataType::Decimal128(digits, scale);
        }
        let scalar = value::scalar(value, ty, &arrow)?;
        self.binder.shared.note_literal(scalar.size());
        Ok(Typed { expr: Expr::Literal(scalar, None), ty, arrow })
    }

    /// The elements of an array known now.
    fn constant_items(&self, array: &BoundExpr) -> Option<Vec<Datum>> {
        let value = match &array.kind {
            ExprKind::Const(value) => value,
            ExprKind::Param(index) => self.binder.shared.params.get(*index)?,
            _ => return None,
        };
        match value {
            Datum::Array(items) if items.items.len() <= 10_000 => Some(items.items.clone()),
            _ => None,
        }
    }

    fn comparable(
        &mut self,
        left: &BoundExpr,
        right: &BoundExpr,
        collate: Collate,
        is_equality: bool,
    ) -> SqlResult<(Expr, Expr)> {
        // Texts of one width are equal as they stand. They have another order: some characters come before the blank.
        if let (Collate::Blanks, ExprKind::Column(_), ExprKind::Const(Datum::Text(text)), Some(width)) =
            (collate, &left.kind, &right.kind, left.typmod.as_length())
            && is_equality
            && width <= PADDED_MAX
        {
            let text = text.trim_end_matches(' ');
            if text.chars().count() <= width {
                let padded = format!("{text:width$}");
                return Ok((
                    self.translate(left)?.expr,
                    Expr::Literal(ScalarValue::Utf8(Some(padded)), None),
                ));
            }
        }
        let same_width = is_equality && left.typmod == right.typmod && left.typmod.as_length().is_some();
        let both_columns = left.as_column().is_some() && right.as_column().is_some();
        let collate = if same_width && both_columns { Collate::Plain } else { collate };
        let both = vec![self.translate(left)?, self.translate(right)?];
        let mut keys = self.keys(both, collate)?.into_iter();
        Ok((keys.next().expect("two"), keys.next().expect("two")))
    }

    /// Expressions whose Arrow values compare as the SQL values do, with each other.
    pub(crate) fn keys(&self, typed: Vec<Typed>, collate: Collate) -> SqlResult<Vec<Expr>> {
        if typed.iter().all(|t| matches!(t.arrow, DataType::Decimal128(..))) {
            let shapes = typed.iter().map(|t| decimal(&t.arrow));
            let scale = shapes.clone().map(|(_, s)| s).max().unwrap_or(0);
            let whole = shapes.map(|(p, s)| i16::from(p) - i16::from(s)).max().unwrap_or(0);
            let digits = whole + i16::from(scale);
            if digits <= 38 {
                let target = DataType::Decimal128(digits as u8, scale);
                return Ok(typed.into_iter().map(|t| cast_to(t, &target)).collect());
            }
        }
        let opaque = typed.iter().any(|t| value::is_opaque(t.ty, &t.arrow));
        let mut out = Vec::with_capacity(typed.len());
        for t in typed {
            let blank = collate == Collate::Blanks && t.arrow == DataType::Utf8;
            let decimal = matches!(t.arrow, DataType::Decimal128(..));
            out.push(if opaque || decimal {
                strip(self.opaque(t)?.expr)
            } else if blank || t.ty == PgType::Jsonb {
                key_of(t.expr, t.ty)
            } else {
                t.expr
            });
        }
        Ok(out)
    }

    /// A numeric kept as decimal in its opaque form.
    pub(crate) fn opaque(&self, t: Typed) -> SqlResult<Typed> {
        if t.arrow == DataType::Binary || t.ty != PgType::Numeric {
            return Ok(t);
        }
        self.convert(t, &DataType::Binary)
    }

    /// `t` in another Arrow form of its type.
    pub(crate) fn convert(&self, t: Typed, arrow: &DataType) -> SqlResult<Typed> {
        if t.arrow == *arrow {
            return Ok(t);
        }
        let ty = t.ty;
        if matches!((&t.arrow, arrow), (DataType::Decimal128(..), DataType::Decimal128(..)))
            || t.arrow == DataType::Null
        {
            return Ok(Typed { expr: cast_to(t, arrow), ty, arrow: arrow.clone() });
        }
        if let Expr::Literal(scalar, _) = &t.expr {
            let array = scalar.to_array().map_err(crate::error::sql_error)?;
            let scalar = value::scalar(&value::datum(&array, 0, ty)?, ty, arrow)?;
            return Ok(Typed { expr: Expr::Literal(scalar, None), ty, arrow: arrow.clone() });
        }
        let identity = BoundExpr::column(0, ty, TypeMod::NONE);
        let udf = self.binder.function(Body::Expr(identity), vec![ty], ty, arrow.clone());
        Ok(Typed { expr: apply(udf, vec![t.expr]), ty, arrow: arrow.clone() })
    }

    /// All in one Arrow form, fit to stand in one column without losing a digit or a trailing zero.
    pub(crate) fn unify(&self, typed: Vec<Typed>, ty: PgType) -> SqlResult<(Vec<Expr>, DataType)> {
        let arrow = common_arrow(ty, typed.iter().map(|t| (&t.arrow, is_null_literal(&t.expr))));
        let mut out = Vec::with_capacity(typed.len());
        for t in typed {
            if is_null_literal(&t.expr) {
                let null = ScalarValue::try_from(&arrow).map_err(crate::error::sql_error)?;
                out.push(Expr::Literal(null, None));
            } else {
                out.push(self.convert(t, &arrow)?.expr);
            }
        }
        Ok((out, arrow))
    }

    fn case(
        &mut self,
        e: &BoundExpr,
        whens: &[(BoundExpr, BoundExpr)],
        otherwise: Option<&BoundExpr>,
    ) -> SqlResult<Typed> {
        let mut conditions = Vec::new();
        let mut results = Vec::new();
        for (at, (condition, result)) in whens.iter().enumerate() {
            conditions.push(self.at_child(e, 2 * at, condition, |this| this.translate(condition))?.expr);
            results.push(self.at_child(e, 2 * at + 1, result, |this| this.translate(result))?);
        }
        if let Some(otherwise) = otherwise {
            results.push(self.at_child(e, 2 * whens.len(), otherwise, |this| this.translate(otherwise))?);
        }
        let (mut results, arrow) = self.unify(results, e.ty)?;
        let else_expr = otherwise.and_then(|_| results.pop()).map(Box::new);
        let when_then_expr =
            conditions.into_iter().zip(results).map(|(c, r)| (Box::new(c), Box::new(r))).collect();
        let expr = Expr::Case(Case { expr: None, when_then_expr, else_expr });
        Ok(Typed { expr, ty: e.ty, arrow })
    }

    /// Calls and casts that Arrow computes as PostgreSQL does.
    fn native(&mut self, e: &BoundExpr) -> SqlResult<Option<Typed>> {
        match &e.kind {
            ExprKind::Call { function, args } if args.len() == 2 => {
                let Some(op) = Op::from_symbol(function.0.name) else { return Ok(None) };
                if args[0].ty != args[1].ty || args[0].ty != e.ty {
                    return Ok(None);
                }
                let whole = e.ty.is_integer() || matches!(e.ty, PgType::Float4 | PgType::Float8);
                let exact = e.ty == PgType::Numeric && matches!(op, Op::Add | Op::Sub | Op::Mul);
                if !whole && !exact {
                    return Ok(None);
                }
                let (left, right) = (self.translate(&args[0])?, self.translate(&args[1])?);
                let arrow = match (&left.arrow, &right.arrow) {
                    (DataType::Decimal128(p1, s1), DataType::Decimal128(p2, s2)) => {
                        match decimal_result(op, (*p1, *s1), (*p2, *s2)) {
                            Some(arrow) => arrow,
                            None => return Ok(None),
                        }
                    }
                    (a, b) if whole && a == b => a.clone(),
                    _ => return Ok(None),
                };
                let udf = Arc::new(ScalarUDF::from(Arithmetic::new(op, arrow.clone())));
                Ok(Some(Typed { expr: apply(udf, vec![left.expr, right.expr]), ty: e.ty, arrow }))
            }
            ExprKind::Cast { expr: inner, .. } => self.native_cast(inner, e.ty, e.typmod),
            _ => Ok(None),
        }
    }

    fn native_cast(&mut self, inner: &BoundExpr, to: PgType, typmod: TypeMod) -> SqlResult<Option<Typed>> {
        let from = inner.ty;
        let arrow = match (from, to) {
            (PgType::Int2, PgType::Int4 | PgType::Int8)
            | (PgType::Int4, PgType::Int8)
            | (PgType::Int2 | PgType::Int4 | PgType::Int8 | PgType::Float4, PgType::Float8) => {
                value::arrow_type(to, TypeMod::NONE)
            }
            (PgType::Int2, PgType::Numeric) if typmod.is_none() => DataType::Decimal128(5, 0),
            (PgType::Int4, PgType::Numeric) if typmod.is_none() => DataType::Decimal128(10, 0),
            (PgType::Int8, PgType::Numeric) if typmod.is_none() => DataType::Decimal128(19, 0),
            _ => {
                let text = |ty| matches!(ty, PgType::Text | PgType::Varchar);
                let plain = from == to
                    || (text(from) && text(to))
                    || (from == PgType::Name && text(to))
                    || (from.is_oid() && to.is_oid());
                let refits = !typmod.is_none() && typmod != inner.typmod;
                if !plain || refits {
                    return Ok(None);
                }
                let inner = self.translate(inner)?;
                return Ok(Some(Typed { ty: to, ..inner }));
            }
        };
        let inner = self.translate(inner)?;
        Ok(Some(Typed { expr: cast_to(inner, &arrow), ty: to, arrow }))
    }

    /// `e` evaluated a row at a time, over the values of what is computed natively below it.
    fn row_function(&mut self, e: &BoundExpr) -> SqlResult<Typed> {
        let mut args: Vec<(BoundExpr, Typed)> = Vec::new();
        let body = self.fuse_children(e, &mut args)?;
        let typed = args.into_iter().map(|(_, typed)| typed).collect();
        self.call(Body::Expr(body), typed, e.ty, e.typmod)
    }

    fn fuse(&mut self, e: &BoundExpr, args: &mut Vec<(BoundExpr, Typed)>) -> SqlResult<BoundExpr> {
        let fused = match &e.kind {
            ExprKind::Const(_) | ExprKind::Param(_) => return Ok(e.clone()),
            ExprKind::Call { .. } | ExprKind::Cast { .. } => self.native(e)?.is_none(),
            ExprKind::Array { .. }
            | ExprKind::Subscript { .. }
            | ExprKind::Slice { .. }
            | ExprKind::CallArray { .. }
            | ExprKind::Extreme { .. } => true,
            _ => false,
        };
        if fused {
            return self.fuse_children(e, args);
        }
        self.argument(e, args)
    }

    /// `e` as an argument, which is evaluated for all rows.
    pub(crate) fn argument(
        &mut self,
        e: &BoundExpr,
        args: &mut Vec<(BoundExpr, Typed)>,
    ) -> SqlResult<BoundExpr> {
        let known = args.iter().take(KNOWN_ARGUMENTS_MAX).position(|(known, _)| known == e);
        let at = match known.filter(|_| e.volatility() != Volatility::Volatile) {
            Some(at) => at,
            None => {
                let typed = self.translate(e)?;
                args.push((e.clone(), typed));
                args.len() - 1
            }
        };
        Ok(BoundExpr::column(at, e.ty, e.typmod))
    }

    fn fuse_children(&mut self, e: &BoundExpr, args: &mut Vec<(BoundExpr, Typed)>) -> SqlResult<BoundExpr> {
        let mut body = e.clone();
        let mut failed = None;
        body.for_each_child_mut(&mut |child| match self.fuse(child, args) {
            Ok(new) => *child = new,
            Err(error) => failed = failed.take().or(Some(error)),
        });
        failed.map_or(Ok(body), Err)
    }

    pub(crate) fn call(&self, body: Body, args: Vec<Typed>, ty: PgType, typmod: TypeMod) -> SqlResult<Typed> {
        let arrow = self.binder.shared.arrow_type(ty, typmod);
        let types = args.iter().map(|a| a.ty).collect();
        let udf = self.binder.function(body, types, ty, arrow.clone());
        let expr = apply(udf, args.into_iter().map(|a| a.expr).collect());
        Ok(Typed { expr, ty, arrow })
    }
}

/// Characters that a literal is padded to at most, to be compared with a column as it stands.
const PADDED_MAX: usize = 1000;

/// Arguments of a row function among which an equal one is looked for.
const KNOWN_ARGUMENTS_MAX: usize = 256;

/// `a NOT IN (…)` for `a IN (…)`, and the other way round: what NOT makes of either.
fn other_membership(e: &BoundExpr) -> Option<BoundExpr> {
    let ExprKind::Subquery(subquery) = &e.kind else { return None };
    let SubqueryTest::Compare { all, columns } = &subquery.test else { return None };
    let [column] = &columns[..] else { return None };
    let op = match (all, column.op) {
        (false, CompareOp::Eq) => CompareOp::Ne,
        (true, CompareOp::Ne) => CompareOp::Eq,
        _ => return None,
    };
    let test = SubqueryTest::Compare { all: !all, columns: vec![SubqueryColumn { op, ..column.clone() }] };
    let kind = ExprKind::Subquery(Box::new(SubqueryExpr { test, ..(**subquery).clone() }));
    Some(BoundExpr { kind, ..e.clone() })
}

/// The Arrow form that holds all of `arrows` (with whether each is only a NULL) exactly.
pub(crate) fn common_arrow<'x>(ty: PgType, arrows: impl Iterator<Item = (&'x DataType, bool)>) -> DataType {
    let mut common: Option<DataType> = None;
    for (arrow, null) in arrows {
        if null {
            continue;
        }
        common = Some(match (common, arrow) {
            (None, arrow) => arrow.clone(),
            (Some(DataType::Decimal128(p1, s1)), DataType::Decimal128(p2, s2)) if s1 == *s2 => {
                DataType::Decimal128(p1.max(*p2), s1)
            }
            (Some(DataType::Decimal128(..)), DataType::Decimal128(..)) => DataType::Binary,
            (Some(a), b) if a == *b => a,
            (Some(_), _) => value::arrow_type(ty, TypeMod::NONE),
        });
    }
    common.unwrap_or_else(|| value::arrow_type(ty, TypeMod::NONE))
}

pub(crate) fn is_null_literal(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(scalar, _) if scalar.is_null())
}

fn decimal(arrow: &DataType) -> (u8, i8) {
    match arrow {
        DataType::Decimal128(p, s) => (*p, *s),
        other => unreachable!("{other} is no decimal"),
    }
}

/// Precision and scale of a result, if 38 digits hold it.
fn decimal_result(op: Op, (p1, s1): (u8, i8), (p2, s2): (u8, i8)) -> Option<DataType> {
    let (digits, scale) = match op {
        Op::Mul => (i16::from(p1) + i16::from(p2) + 1, s1 + s2),
        _ => {
            let scale = s1.max(s2);
            let whole = (i16::from(p1) - i16::from(s1)).max(i16::from(p2) - i16::from(s2));
            (whole + i16::from(scale) + 1, scale)
        }
    };
    (digits <= 38).then_some(DataType::Decimal128(digits as u8, scale))
}

/// All of them joined by AND or OR: a balanced tree, so that thousands of terms nest only a few levels deep.
fn joined_by(op: Operator, mut all: Vec<Expr>) -> Expr {
    while all.len() > 1 {
        let mut paired = Vec::with_capacity(all.len().div_ceil(2));
        let mut singles = all.into_iter();
        while let Some(left) = singles.next() {
            paired.push(match singles.next() {
                Some(right) => binary(left, op, right),
                None => left,
            });
        }
        all = paired;
    }
    all.pop().unwrap_or_else(|| literal_bool(op == Operator::And))
}

fn operator(op: CompareOp) -> Operator {
    match op {
        CompareOp::Eq => Operator::Eq,
        CompareOp::Ne => Operator::NotEq,
        CompareOp::Lt => Operator::Lt,
        CompareOp::Le => Operator::LtEq,
        CompareOp::Gt => Operator::Gt,
        CompareOp::Ge => Operator::GtEq,
    }
}

pub(crate) fn binary(left: Expr, op: Operator, right: Expr) -> Expr {
    Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)))
}

pub(crate) fn literal_bool(value: bool) -> Expr {
    Expr::Literal(ScalarValue::Boolean(Some(value)), None)
}

pub(crate) fn apply(udf: Arc<ScalarUDF>, args: Vec<Expr>) -> Expr {
    Expr::ScalarFunction(ScalarFunction::new_udf(udf, args))
}

fn strip(expr: Expr) -> Expr {
    apply(Arc::new(ScalarUDF::from(Strip::new())), vec![expr])
}

/// What Arrow compares as SQL does the values of `expr`, of type `ty`, where they need it ([`value::needs_key`]).
pub(crate) fn key_of(expr: Expr, ty: PgType) -> Expr {
    if ty == PgType::Jsonb {
        apply(Arc::new(ScalarUDF::from(JsonKey::new())), vec![expr])
    } else {
        strip(expr)
    }
}

/// What stands for the values of type `ty` that have one `key`: the `least` of them. DataFusion's of floats is finite.
pub(crate) fn stands_for(key: Expr, least: Expr, ty: PgType) -> SqlResult<Expr> {
    let infinity = match ty {
        PgType::Float4 => ScalarValue::Float32(Some(f32::INFINITY)),
        PgType::Float8 => ScalarValue::Float64(Some(f64::INFINITY)),
        _ => return Ok(least),
    };
    let infinite = binary(key.clone(), Operator::Eq, Expr::Literal(infinity, None));
    datafusion::logical_expr::when(infinite, key).otherwise(least).planned()
}

/// An expression to group, sort or hash the values of `typed` by.
pub(crate) fn key(typed: &Typed, typmod: TypeMod) -> Expr {
    let Typed { expr, ty, arrow } = typed.clone();
    if value::needs_key(ty, typmod, &arrow) { key_of(expr, ty) } else { expr }
}

pub(crate) fn cast_to(typed: Typed, arrow: &DataType) -> Expr {
    if typed.arrow == *arrow {
        return typed.expr;
    }
    if let Expr::Literal(scalar, _) = &typed.expr
        && let Ok(cast) = scalar.cast_to(arrow)
    {
        return Expr::Literal(cast, None);
    }
    Expr::Cast(Cast::new(Box::new(typed.expr), arrow.clone()))
}

/// A field of a plan we make: always nullable, because outer joins and casts make everything so.
pub(crate) fn field(name: &str, arrow: &DataType) -> Field {
    Field::new(name, arrow.clone(), true)
}

pub(crate) fn not_grouping() -> SqlError {
    SqlError::new(
        base::SqlState::GROUPING_ERROR,
        "arguments to GROUPING must be grouping expressions of the associated query level",
    )
}

/// The column of that bare name.
pub(crate) fn bare(name: impl Into<String>) -> Column {
    Column::new_unqualified(name)
}
