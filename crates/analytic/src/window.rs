//! Window functions.

use std::cmp::Ordering;
use std::sync::Arc;

use base::{SqlError, SqlResult, SqlState};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::functions_window as native;
use datafusion::logical_expr::expr::{Sort, WindowFunction, WindowFunctionParams};
use datafusion::logical_expr::{
    Expr, LogicalPlanBuilder, WindowFrame, WindowFrameBound, WindowFrameUnits, WindowFunctionDefinition,
    WindowUDF,
};
use rustc_hash::FxHashSet;
use sql::expr::{
    AggregateCall, BoundExpr, ExprKind, SortKey, bind_expr, coerce, common_type, fold_ident, resolve_unknown,
};
use sql::plan::check_comparable;
use sqlparser::ast;
use types::{CastContext, Datum, Interval, PgType, TypeMod};

use crate::binder::Binder;
use crate::error::Planned;
use crate::lazily::where_filtered;
use crate::prepare::{Place, plain_args, system_name};
use crate::translate::{Translator, Typed, bare, cast_to, is_null_literal, key};
use crate::unordered_aggregate::unordered;
use crate::value;

/// A bound window function.
#[derive(Clone, Debug)]
pub(crate) struct WindowCall {
    pub(crate) ty: PgType,
    function: Function,
    pub(crate) args: Vec<BoundExpr>,
    pub(crate) partition: Vec<BoundExpr>,
    pub(crate) order: Vec<SortKey>,
    pub(crate) filter: Option<BoundExpr>,
    frame: Frame,
}

/// The rows around a row that its function sees.
#[derive(Clone, Debug)]
enum Frame {
    /// None is given: up to the row's last peer.
    Default,
    Of(WindowFrame),
    /// One that ends before it begins.
    Empty,
}

#[derive(Clone, Debug)]
enum Function {
    /// One of SQL's own.
    Named(&'static str),
    Aggregate(AggregateCall),
}

const NAMED: &[&str] = &[
    "row_number",
    "rank",
    "dense_rank",
    "percent_rank",
    "cume_dist",
    "ntile",
    "lag",
    "lead",
    "first_value",
    "last_value",
    "nth_value",
];

impl WindowCall {
    /// Of `lag` and `lead` with a default that differs by row, which DataFusion does not take: the value that is found, and true where a row is.
    fn without_default(&self) -> Option<[WindowCall; 2]> {
        let (Function::Named("lag" | "lead"), [value, offset, default]) = (&self.function, &self.args[..])
        else {
            return None;
        };
        if matches!(default.kind, ExprKind::Const(_) | ExprKind::Param(_)) {
            return None;
        }
        let of = |arg: BoundExpr| WindowCall { ty: arg.ty, args: vec![arg, offset.clone()], ..self.clone() };
        Some([of(value.clone()), of(BoundExpr::constant(Datum::Bool(true), PgType::Bool))])
    }
}

/// What is found, or where there is no row the default of `call`, that of the row that it stands at.
fn or_default(
    translator: &mut Translator<'_, '_>,
    call: &WindowCall,
    found: Typed,
    is_there: Typed,
) -> SqlResult<Typed> {
    if is_null_literal(&is_there.expr) {
        // It looks nowhere.
        return Ok(found);
    }
    let default = translator.translate(&call.args[2])?;
    let (mut both, arrow) = translator.unify(vec![found, default], call.ty)?;
    let (default, found) = (both.pop().expect("two"), both.pop().expect("two"));
    let expr = datafusion::logical_expr::when(is_there.expr.is_null(), default).otherwise(found).planned()?;
    Ok(Typed { expr, ty: call.ty, arrow })
}

type Bind<'x> = &'x dyn Fn(&ast::Expr) -> SqlResult<BoundExpr>;

impl Binder<'_> {
    /// Binds `function OVER over`; `bind` binds its arguments.
    pub(crate) fn window_call(
        &self,
        function: &mut ast::Function,
        over: &ast::WindowType,
        place: &Place<'_>,
        bind: Bind<'_>,
    ) -> SqlResult<WindowCall> {
        if function.null_treatment.is_some() {
            return Err(SqlError::unsupported("IGNORE NULLS or RESPECT NULLS"));
        }
        let spec = resolve_window(over, place)?;
        let partition = spec.partition_by.iter().map(bind).collect::<SqlResult<Vec<_>>>()?;
        partition.iter().try_for_each(|key| check_comparable(key.ty, "equality"))?;
        let order =
            spec.order_by.iter().map(|key| self.sort_key(key, bind)).collect::<SqlResult<Vec<_>>>()?;
        order.iter().try_for_each(|key| check_comparable(key.expr.ty, "ordering"))?;
        let frame = match &spec.window_frame {
            Some(frame) => self.frame(frame, &order)?,
            None => Frame::Default,
        };
        let name = system_name(&mut function.name).unwrap_or_default();
        let ctx = self.context(sql::expr::Aggregates::Allowed);
        if let Some(&named) = NAMED.iter().find(|known| **known == name) {
            let args =
                plain_args(function).ok_or_else(|| SqlError::unsupported(format!("this call of {name}")))?;
            let number_at = match named {
                "ntile" => Some(0),
                "lag" | "lead" | "nth_value" => Some(1),
                _ => None,
            };
            let settle = |(at, arg): (usize, &ast::Expr)| {
                let arg = bind(arg)?;
                if number_at == Some(at) {
                    coerce(arg, PgType::Int4, TypeMod::NONE, CastContext::Implicit, &ctx)
                } else if at == 2 {
                    Ok(arg)
                } else {
                    resolve_unknown(arg, &ctx)
                }
            };
            let mut args = args.iter().enumerate().map(settle).collect::<SqlResult<Vec<_>>>()?;
            let undefined = || {
                let types: Vec<_> = args.iter().map(|a| a.ty.name()).collect();
                SqlError::new(
                    SqlState::UNDEFINED_FUNCTION,
                    format!("function {name}({}) does not exist", types.join(", ")),
                )
            };
            let ty = match (named, args.len()) {
                ("lag" | "lead", 3) => {
                    common_type(&[args[0].ty, args[2].ty], named).map_err(|_| undefined())?
                }
                ("row_number" | "rank" | "dense_rank", 0) => PgType::Int8,
                ("percent_rank" | "cume_dist", 0) => PgType::Float8,
                ("ntile", 1) => PgType::Int4,
                ("lag" | "lead", 1 | 2) | ("first_value" | "last_value", 1) | ("nth_value", 2) => args[0].ty,
                _ => return Err(undefined()),
            };
            if args.len() == 3 {
                for at in [2, 0] {
                    let arg = args.swap_remove(at);
                    args.push(coerce(arg, ty, TypeMod::NONE, CastContext::Implicit, &ctx)?);
                    args.swap(at, 2);
                }
            }
            if function.filter.is_some() {
                return Err(SqlError::unsupported("FILTER for non-aggregate window functions"));
            }
            let filter = None;
            return Ok(WindowCall {
                ty,
                function: Function::Named(named),
                args,
                partition,
                order,
                filter,
                frame,
            });
        }
        let expr = ast::Expr::Function(function.clone());
        let bound = bind_expr(&expr, &place.scope(), &self.context(sql::expr::Aggregates::OverWindow))?;
        match bound.kind {
            ExprKind::Aggregate(call) => {
                if call.distinct {
                    return Err(SqlError::unsupported("DISTINCT for window functions"));
                }
                if !call.order_by.is_empty() {
                    return Err(SqlError::unsupported("aggregate ORDER BY for window functions"));
                }
                let mut call = *call;
                let args = std::mem::take(&mut call.args);
                let filter = call.filter.take();
                Ok(WindowCall {
                    ty: bound.ty,
                    function: Function::Aggregate(call),
                    args,
                    partition,
                    order,
                    filter,
                    frame,
                })
            }
            _ => Err(SqlError::new(
                SqlState::WRONG_OBJECT_TYPE,
                format!("OVER specified, but {name} is not a window function nor an aggregate function"),
            )),
        }
    }

    /// One key of an ORDER BY within a function or window: NULLs last unless descending.
    pub(crate) fn sort_key(&self, key: &ast::OrderByExpr, bind: Bind<'_>) -> SqlResult<SortKey> {
        let descending = key.options.asc == Some(false);
        let expr = resolve_unknown(bind(&key.expr)?, &self.context(sql::expr::Aggregates::Allowed))?;
        Ok(SortKey { expr, descending, nulls_first: key.options.nulls_first.unwrap_or(descending) })
    }

    fn frame(&self, frame: &ast::WindowFrame, order: &[SortKey]) -> SqlResult<Frame> {
        use ast::WindowFrameBound as B;
        let units = match frame.units {
            ast::WindowFrameUnits::Rows => WindowFrameUnits::Rows,
            ast::WindowFrameUnits::Range => WindowFrameUnits::Range,
            ast::WindowFrameUnits::Groups => WindowFrameUnits::Groups,
        };
        let end_bound = frame.end_bound.as_ref().unwrap_or(&B::CurrentRow);
        let refusal = match (&frame.start_bound, end_bound) {
            (B::Following(None), _) => Some("frame start cannot be UNBOUNDED FOLLOWING"),
            (_, B::Preceding(None)) => Some("frame end cannot be UNBOUNDED PRECEDING"),
            (B::Following(_), B::CurrentRow) if frame.end_bound.is_none() => {
                Some("frame starting from following row cannot end with current row")
            }
            (B::CurrentRow, B::Preceding(_)) => {
                Some("frame starting from current row cannot have preceding rows")
            }
            (B::Following(_), B::Preceding(_) | B::CurrentRow) => {
                Some("frame starting from following row cannot have preceding rows")
            }
            _ if units == WindowFrameUnits::Groups && order.is_empty() => {
                Some("GROUPS mode requires an ORDER BY clause")
            }
            _ => None,
        };
        if let Some(refusal) = refusal {
            return Err(SqlError::new(SqlState::WINDOWING_ERROR, refusal));
        }
        let by = order.first().map(|key| key.expr.ty);
        if units == WindowFrameUnits::Range && order.len() != 1 {
            let has_offset = |bound: &B| matches!(bound, B::Preceding(Some(_)) | B::Following(Some(_)));
            if has_offset(&frame.start_bound) || has_offset(end_bound) {
                let refusal = "RANGE with offset PRECEDING/FOLLOWING requires exactly one ORDER BY column";
                return Err(SqlError::new(SqlState::WINDOWING_ERROR, refusal));
            }
        }
        let bound = |bound: &B, side: &str| -> SqlResult<WindowFrameBound> {
            let offset = |e: &Option<Box<ast::Expr>>| match e {
                None => Ok(ScalarValue::UInt64(None)),
                Some(e) => self.offset(e, units, by, side),
            };
            Ok(match bound {
                B::CurrentRow => WindowFrameBound::CurrentRow,
                B::Preceding(e) => WindowFrameBound::Preceding(offset(e)?),
                B::Following(e) => WindowFrameBound::Following(offset(e)?),
            })
        };
        let (start, end) = (bound(&frame.start_bound, "starting")?, bound(end_bound, "ending")?);
        let ends_before_it_begins = match (&start, &end) {
            (WindowFrameBound::Preceding(from), WindowFrameBound::Preceding(to)) => {
                !from.is_null() && from.partial_cmp(to).is_none_or(Ordering::is_lt)
            }
            (WindowFrameBound::Following(from), WindowFrameBound::Following(to)) => {
                !to.is_null() && from.partial_cmp(to).is_none_or(Ordering::is_gt)
            }
            _ => false,
        };
        if !ends_before_it_begins {
            return Ok(Frame::Of(WindowFrame::new_bounds(units, start, end)));
        }
        if units == WindowFrameUnits::Range {
            // It is not empty for NULLs.
            return Err(SqlError::unsupported(
                "RANGE between offsets of which the first lies behind the second",
            ));
        }
        Ok(Frame::Empty)
    }

    /// The offset of a frame's `side`, in the form that its order's column has.
    fn offset(
        &self,
        expr: &ast::Expr,
        units: WindowFrameUnits,
        by: Option<PgType>,
        side: &str,
    ) -> SqlResult<ScalarValue> {
        let (ty, clause) = match (units, by) {
            (WindowFrameUnits::Rows, _) => (PgType::Int8, "ROWS"),
            (WindowFrameUnits::Groups, _) => (PgType::Int8, "GROUPS"),
            (_, Some(PgType::Timestamp | PgType::TimestampTz | PgType::Date)) => (PgType::Interval, "RANGE"),
            (_, Some(PgType::Float8)) => (PgType::Float8, "RANGE"),
            _ => (PgType::Int8, "RANGE"),
        };
        let negative = || {
            let state = SqlState::INVALID_PRECEDING_OR_FOLLOWING_SIZE;
            SqlError::new(state, format!("frame {side} offset must not be negative"))
        };
        let unsupported = || SqlError::unsupported("RANGE with this offset over this type");
        let zero = match ty {
            PgType::Interval => Datum::Interval(Interval::default()),
            PgType::Float8 => Datum::Float8(0.0),
            _ => Datum::Int8(0),
        };
        match (self.constant(expr, ty, clause)?.unwrap_or(zero), by) {
            (Datum::Null, _) => {
                let error = format!("frame {side} offset must not be null");
                Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, error))
            }
            (Datum::Interval(offset), by) => {
                if offset.span() < 0 {
                    return Err(negative());
                }
                // A month has no fixed length, nor has a day where clocks change.
                let by_days = by == Some(PgType::Date) && offset.micros == 0;
                let fits = offset.months == 0 && (by != Some(PgType::TimestampTz) || offset.days == 0);
                let span = i64::try_from(offset.span()).ok().filter(|_| fits).ok_or_else(unsupported)?;
                match by {
                    Some(PgType::Date) if by_days => Ok(ScalarValue::Int32(Some(offset.days))),
                    Some(PgType::Date) => Err(unsupported()),
                    _ => Ok(ScalarValue::Int64(Some(span))),
                }
            }
            (Datum::Float8(offset), _) => {
                if offset.is_nan() || offset < 0.0 {
                    return Err(negative());
                }
                Ok(ScalarValue::Float64(Some(offset)))
            }
            (offset, by) => {
                let offset = offset.as_i64().filter(|offset| *offset >= 0).ok_or_else(negative)?;
                if units != WindowFrameUnits::Range {
                    return Ok(ScalarValue::UInt64(Some(offset as u64)));
                }
                match by {
                    Some(PgType::Int2) => i16::try_from(offset).map(|n| ScalarValue::Int16(Some(n))).ok(),
                    Some(PgType::Int4) => i32::try_from(offset).map(|n| ScalarValue::Int32(Some(n))).ok(),
                    Some(PgType::Int8) => Some(ScalarValue::Int64(Some(offset))),
                    _ => None,
                }
                .ok_or_else(unsupported)
            }
        }
    }

    /// Adds the values of `calls` to the translator's plan.
    pub(crate) fn windows(
        &self,
        translator: &mut Translator<'_, '_>,
        calls: &[WindowCall],
    ) -> SqlResult<Vec<Typed>> {
        let mut exprs = Vec::new();
        let mut results = Vec::new();
        for call in calls {
            results.push(match call.without_default() {
                Some([found, is_there]) => {
                    let found = self.window_value(translator, &found, &mut exprs)?;
                    let is_there = self.window_value(translator, &is_there, &mut exprs)?;
                    or_default(translator, call, found, is_there)?
                }
                None => self.window_value(translator, call, &mut exprs)?,
            });
        }
        if !exprs.is_empty() {
            let plan = std::mem::replace(&mut translator.plan, crate::binder::empty());
            translator.plan = LogicalPlanBuilder::window_plan(plan, exprs).planned()?;
        }
        Ok(results)
    }

    /// The value of `call` in a plan that computes `exprs`, among which it is put.
    fn window_value(
        &self,
        translator: &mut Translator<'_, '_>,
        call: &WindowCall,
        exprs: &mut Vec<Expr>,
    ) -> SqlResult<Typed> {
        let wanted = value::arrow_type(call.ty, TypeMod::NONE);
        let Some((expr, arrow)) = self.window_expr(translator, call)? else {
            let null = ScalarValue::try_from(&wanted).map_err(crate::error::sql_error)?;
            return Ok(Typed { expr: Expr::Literal(null, None), ty: call.ty, arrow: wanted });
        };
        // The plan names its columns by the expressions, and takes no aliases; the same call twice is one column.
        let typed = Typed { expr: Expr::Column(bare(expr.schema_name().to_string())), ty: call.ty, arrow };
        if !exprs.contains(&expr) {
            exprs.push(expr);
        }
        Ok(if typed.arrow == DataType::UInt64 {
            Typed { expr: cast_to(typed, &wanted), ty: call.ty, arrow: wanted }
        } else {
            typed
        })
    }

    /// The function over its window; `None` if it is NULL for every row.
    fn window_expr(
        &self,
        translator: &mut Translator<'_, '_>,
        call: &WindowCall,
    ) -> SqlResult<Option<(Expr, DataType)>> {
        let mut args = Vec::new();
        for arg in &call.args {
            args.push(translator.translate(&where_filtered(arg, call.filter.as_ref()))?);
        }
        let mut partition_by = Vec::new();
        for e in &call.partition {
            let typed = translator.translate(e)?;
            partition_by.push(key(&typed, e.typmod));
        }
        let mut order_by = Vec::new();
        let mut by_bytes = false;
        for by in &call.order {
            let typed = translator.translate(&by.expr)?;
            by_bytes |= order_by.is_empty() && (typed.arrow == DataType::Binary || typed.ty == PgType::Jsonb);
            order_by.push(Sort::new(key(&typed, by.expr.typmod), !by.descending, by.nulls_first));
        }
        let mut filter = match &call.filter {
            Some(filter) => Some(Box::new(translator.translate(filter)?.expr)),
            None => None,
        };
        let frame = match &call.frame {
            Frame::Of(frame) => Some(frame.clone()),
            Frame::Default => None,
            Frame::Empty => {
                // No row of any frame counts.
                filter = Some(Box::new(crate::translate::literal_bool(false)));
                None
            }
        };
        let (fun, args, arrow) = match &call.function {
            Function::Aggregate(aggregate) => {
                let whole = AggregateCall { args: call.args.clone(), ..aggregate.clone() };
                let planned = crate::aggregate::plan(&whole, args, Vec::new(), self.number(), &self.shared);
                let function = unordered(planned.udaf, &planned.arrow);
                (WindowFunctionDefinition::AggregateUDF(function), planned.args, planned.arrow)
            }
            Function::Named(name) => {
                let reads_frame = matches!(*name, "first_value" | "last_value" | "nth_value");
                if reads_frame && matches!(call.frame, Frame::Empty) || without_value(name, &args)? {
                    return Ok(None);
                }
                // Only a function that reads its frame may have one that does not fit it.
                filter = None;
                if let [first, _, default] = &mut args[..] {
                    let (both, arrow) = translator.unify(vec![first.clone(), default.clone()], call.ty)?;
                    for (arg, expr) in [first, default].into_iter().zip(both) {
                        *arg = Typed { expr, ty: call.ty, arrow: arrow.clone() };
                    }
                }
                let arrow = match *name {
                    "row_number" | "rank" | "dense_rank" | "ntile" => DataType::UInt64,
                    "percent_rank" | "cume_dist" => DataType::Float64,
                    _ => args[0].arrow.clone(),
                };
                let args = named_args(name, args)?;
                if let (
                    "lag" | "lead" | "nth_value",
                    Some(Expr::Literal(ScalarValue::Int64(Some(rows)), _)),
                ) = (*name, args.get(1))
                {
                    self.shared.note_look_back(usize::try_from(rows.unsigned_abs()).unwrap_or(usize::MAX));
                }
                (WindowFunctionDefinition::WindowUDF(named(name)), args, arrow)
            }
        };
        let mut window_frame =
            frame.unwrap_or_else(|| WindowFrame::new(if order_by.is_empty() { None } else { Some(false) }));
        if by_bytes && window_frame.units == WindowFrameUnits::Range {
            // DataFusion has no ranges of bytes. Without an offset, which these types do not take, they are those of groups.
            let WindowFrame { start_bound, end_bound, .. } = window_frame;
            window_frame = WindowFrame::new_bounds(WindowFrameUnits::Groups, start_bound, end_bound);
        }
        let mut order_by = order_by;
        window_frame.regularize_order_bys(&mut order_by).planned()?;
        let params = WindowFunctionParams {
            args,
            partition_by,
            order_by,
            window_frame,
            filter,
            null_treatment: None,
            distinct: false,
        };
        Ok(Some((Expr::WindowFunction(Box::new(WindowFunction { fun, params })), arrow)))
    }

    /// A constant whole number of LIMIT or OFFSET; `None` for NULL.
    pub(crate) fn constant_i64(&self, expr: &ast::Expr, place: &'static str) -> SqlResult<Option<i64>> {
        Ok(self.constant(expr, PgType::Int8, place)?.and_then(|value| value.as_i64()))
    }

    /// A constant of LIMIT, OFFSET or a frame; `None` while its parameters are not known.
    fn constant(&self, expr: &ast::Expr, ty: PgType, place: &'static str) -> SqlResult<Option<Datum>> {
        let ctx = self.context(sql::expr::Aggregates::Forbidden(place));
        let bound = crate::from::bind_constant(self, expr, place)?;
        let bound = coerce(bound, ty, TypeMod::NONE, CastContext::Assignment, &ctx)?;
        if bound.contains_subquery() {
            return Err(SqlError::unsupported(format!("a subquery in {place}")));
        }
        let statement = self.shared.statement();
        if self.shared.params.is_empty() && bound.any(&mut |e| matches!(e.kind, ExprKind::Param(_))) {
            return Ok(None);
        }
        sql::expr::eval(&bound, &sql::expr::EvalCtx::new(&statement, &[]))
            .map(Some)
            .map_err(crate::shared::eval_error)
    }
}

/// DataFusion wants offsets as 64-bit literals.
fn named_args(name: &str, args: Vec<Typed>) -> SqlResult<Vec<Expr>> {
    let mut out = Vec::new();
    for (i, arg) in args.into_iter().enumerate() {
        let offset = (i == 1 && matches!(name, "lag" | "lead" | "nth_value")) || name == "ntile";
        if !offset {
            out.push(arg.expr);
        } else if matches!(arg.expr, Expr::Literal(..)) {
            out.push(cast_to(arg, &DataType::Int64));
        } else {
            return Err(SqlError::unsupported(format!("an offset of {name} that is not a constant")));
        }
    }
    Ok(out)
}

/// Whether the function is NULL for every row, because the number it counts with is.
///
/// # Errors
/// 22014 or 22016 for one that is not positive where it must be.
fn without_value(name: &str, args: &[Typed]) -> SqlResult<bool> {
    let (at, state) = match name {
        "ntile" => (0, Some(SqlState::INVALID_ARGUMENT_FOR_NTILE_FUNCTION)),
        "nth_value" => (1, Some(SqlState::INVALID_ARGUMENT_FOR_NTH_VALUE_FUNCTION)),
        "lag" | "lead" => (1, None),
        _ => return Ok(false),
    };
    let Some(Expr::Literal(number, _)) = args.get(at).map(|arg| &arg.expr) else { return Ok(false) };
    match (state, number) {
        (_, number) if number.is_null() => Ok(true),
        (Some(state), ScalarValue::Int32(Some(..=0))) => {
            Err(SqlError::new(state, format!("argument of {name} must be greater than zero")))
        }
        _ => Ok(false),
    }
}

fn named(name: &str) -> Arc<WindowUDF> {
    match name {
        "row_number" => native::row_number::row_number_udwf(),
        "rank" => native::rank::rank_udwf(),
        "dense_rank" => native::rank::dense_rank_udwf(),
        "percent_rank" => native::rank::percent_rank_udwf(),
        "cume_dist" => native::cume_dist::cume_dist_udwf(),
        "ntile" => native::ntile::ntile_udwf(),
        "lag" => native::lead_lag::lag_udwf(),
        "lead" => native::lead_lag::lead_udwf(),
        "first_value" => native::nth_value::first_value_udwf(),
        "last_value" => native::nth_value::last_value_udwf(),
        _ => native::nth_value::nth_value_udwf(),
    }
}

/// `row_number() OVER (PARTITION BY … ORDER BY …)`.
pub(crate) fn row_number(partition_by: Vec<Expr>, order_by: Vec<Sort>) -> Expr {
    let window_frame = WindowFrame::new(if order_by.is_empty() { None } else { Some(true) });
    let params = WindowFunctionParams {
        args: Vec::new(),
        partition_by,
        order_by,
        window_frame,
        filter: None,
        null_treatment: None,
        distinct: false,
    };
    let fun = WindowFunctionDefinition::WindowUDF(native::row_number::row_number_udwf());
    Expr::WindowFunction(Box::new(WindowFunction { fun, params }))
}

/// # Errors
/// 42P20 for a name that stands for two windows; 42704 for a window that begins with none before it.
pub(crate) fn check_names(windows: &[ast::NamedWindowDefinition]) -> SqlResult<()> {
    let mut names = FxHashSet::default();
    for ast::NamedWindowDefinition(name, definition) in windows {
        let name = fold_ident(name);
        if names.contains(&name) {
            let message = format!("window \"{name}\" is already defined");
            return Err(SqlError::new(SqlState::WINDOWING_ERROR, message));
        }
        let base = match definition {
            ast::NamedWindowExpr::NamedWindow(base) => Some(base),
            ast::NamedWindowExpr::WindowSpec(spec) => spec.window_name.as_ref(),
        };
        if let Some(base) = base.map(fold_ident)
            && !names.contains(&base)
        {
            return Err(no_window(&base));
        }
        names.insert(name);
    }
    Ok(())
}

fn no_window(name: &str) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_OBJECT, format!("window \"{name}\" does not exist"))
}

/// The window of a call. What it begins with is looked for among the windows with names, and what one of these begins with among those before it: so
/// none leads back to itself, and each is looked at once.
fn resolve_window(over: &ast::WindowType, place: &Place<'_>) -> SqlResult<ast::WindowSpec> {
    let mut known = place.named_windows;
    let mut specs = Vec::new();
    let mut base = match over {
        ast::WindowType::NamedWindow(name) => Some(name),
        ast::WindowType::WindowSpec(spec) => {
            specs.push(spec);
            spec.window_name.as_ref()
        }
    };
    while let Some(name) = base {
        let wanted = fold_ident(name);
        let is_wanted = |window: &ast::NamedWindowDefinition| fold_ident(&window.0) == wanted;
        let at = known.iter().rposition(is_wanted).ok_or_else(|| no_window(&wanted))?;
        base = match &known[at].1 {
            ast::NamedWindowExpr::NamedWindow(other) => Some(other),
            ast::NamedWindowExpr::WindowSpec(spec) => {
                specs.push(spec);
                spec.window_name.as_ref()
            }
        };
        known = &known[..at];
    }
    let mut resolved = specs.pop().expect("names end at a window").clone();
    while let Some(spec) = specs.pop() {
        resolved = upon(spec, resolved)?;
    }
    Ok(resolved)
}

/// A window that begins with the name of `base`.
///
/// # Errors
/// 42P20 where it may not say what it says.
fn upon(spec: &ast::WindowSpec, base: ast::WindowSpec) -> SqlResult<ast::WindowSpec> {
    let refuse = |what: &str, why: &str| {
        let name = spec.window_name.as_ref().map(fold_ident).unwrap_or_default();
        let message = format!("cannot {what} window \"{name}\"{why}");
        Err(SqlError::new(SqlState::WINDOWING_ERROR, message))
    };
    if !spec.partition_by.is_empty() {
        return refuse("override PARTITION BY clause of", "");
    }
    if !spec.order_by.is_empty() && !base.order_by.is_empty() {
        return refuse("override ORDER BY clause of", "");
    }
    if base.window_frame.is_some() {
        return refuse("copy", " because it has a frame clause");
    }
    Ok(ast::WindowSpec {
        window_name: None,
        partition_by: base.partition_by,
        order_by: if spec.order_by.is_empty() { base.order_by } else { spec.order_by.clone() },
        window_frame: spec.window_frame.clone(),
    })
}
