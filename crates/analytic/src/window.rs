//! Window functions.

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
use sql::expr::{
    AggregateCall, BoundExpr, ExprKind, SortKey, bind_expr, coerce, fold_ident, resolve_unknown,
};
use sqlparser::ast;
use types::{CastContext, Datum, PgType, TypeMod};

use crate::binder::Binder;
use crate::error::Planned;
use crate::prepare::{Place, plain_args, system_name};
use crate::translate::{Translator, Typed, bare, cast_to};
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
    frame: Option<WindowFrame>,
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
        let order =
            spec.order_by.iter().map(|key| self.sort_key(key, bind)).collect::<SqlResult<Vec<_>>>()?;
        let frame = spec.window_frame.as_ref().map(|frame| self.frame(frame, &order)).transpose()?;
        let name = system_name(&mut function.name).unwrap_or_default();
        let ctx = self.context(sql::expr::Aggregates::Allowed);
        if let Some(&named) = NAMED.iter().find(|known| **known == name) {
            let args =
                plain_args(function).ok_or_else(|| SqlError::unsupported(format!("this call of {name}")))?;
            let mut args =
                args.iter().map(bind).map(|a| resolve_unknown(a?, &ctx)).collect::<SqlResult<Vec<_>>>()?;
            let undefined = || {
                let types: Vec<_> = args.iter().map(|a| a.ty.name()).collect();
                SqlError::new(
                    SqlState::UNDEFINED_FUNCTION,
                    format!("function {name}({}) does not exist", types.join(", ")),
                )
            };
            let ty = match (named, args.len()) {
                ("row_number" | "rank" | "dense_rank", 0) => PgType::Int8,
                ("percent_rank" | "cume_dist", 0) => PgType::Float8,
                ("ntile", 1) => PgType::Int4,
                ("lag" | "lead", 1..=3) | ("first_value" | "last_value", 1) | ("nth_value", 2) => args[0].ty,
                _ => return Err(undefined()),
            };
            if matches!(named, "lag" | "lead" | "nth_value") && args.len() >= 2 {
                let offset = args.remove(1);
                args.insert(1, coerce(offset, PgType::Int4, TypeMod::NONE, CastContext::Implicit, &ctx)?);
            }
            if args.len() == 3 {
                let default = args.remove(2);
                args.push(coerce(default, ty, TypeMod::NONE, CastContext::Implicit, &ctx)?);
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

    fn frame(&self, frame: &ast::WindowFrame, order: &[SortKey]) -> SqlResult<WindowFrame> {
        let units = match frame.units {
            ast::WindowFrameUnits::Rows => WindowFrameUnits::Rows,
            ast::WindowFrameUnits::Range => WindowFrameUnits::Range,
            ast::WindowFrameUnits::Groups => WindowFrameUnits::Groups,
        };
        let by = order.first().map(|key| key.expr.ty);
        let bound = |bound: &ast::WindowFrameBound| -> SqlResult<WindowFrameBound> {
            Ok(match bound {
                ast::WindowFrameBound::CurrentRow => WindowFrameBound::CurrentRow,
                ast::WindowFrameBound::Preceding(None) => {
                    WindowFrameBound::Preceding(ScalarValue::UInt64(None))
                }
                ast::WindowFrameBound::Following(None) => {
                    WindowFrameBound::Following(ScalarValue::UInt64(None))
                }
                ast::WindowFrameBound::Preceding(Some(e)) => {
                    WindowFrameBound::Preceding(self.offset(e, units, by)?)
                }
                ast::WindowFrameBound::Following(Some(e)) => {
                    WindowFrameBound::Following(self.offset(e, units, by)?)
                }
            })
        };
        let start = bound(&frame.start_bound)?;
        let end = frame.end_bound.as_ref().map(bound).transpose()?.unwrap_or(WindowFrameBound::CurrentRow);
        Ok(WindowFrame::new_bounds(units, start, end))
    }

    fn offset(
        &self,
        expr: &ast::Expr,
        units: WindowFrameUnits,
        by: Option<PgType>,
    ) -> SqlResult<ScalarValue> {
        let value = self.constant_i64(expr, "RANGE")?;
        let value = value.filter(|v| *v >= 0).ok_or_else(|| {
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "frame starting offset must not be negative")
        })?;
        match (units, by) {
            (WindowFrameUnits::Range, Some(PgType::Int2)) => {
                Ok(ScalarValue::Int16(i16::try_from(value).ok()))
            }
            (WindowFrameUnits::Range, Some(PgType::Int4)) => {
                Ok(ScalarValue::Int32(i32::try_from(value).ok()))
            }
            (WindowFrameUnits::Range, Some(PgType::Int8)) => Ok(ScalarValue::Int64(Some(value))),
            (WindowFrameUnits::Range, _) => Err(SqlError::unsupported("RANGE with an offset over this type")),
            _ => Ok(ScalarValue::UInt64(Some(value as u64))),
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
            let (expr, arrow) = self.window_expr(translator, call)?;
            // The plan names its columns by the expressions, and takes no aliases; the same call twice is one column.
            results.push((expr.schema_name().to_string(), arrow));
            if !exprs.contains(&expr) {
                exprs.push(expr);
            }
        }
        let plan = std::mem::replace(&mut translator.plan, crate::binder::empty());
        translator.plan = LogicalPlanBuilder::window_plan(plan, exprs).planned()?;
        let typed = results.into_iter().zip(calls).map(|((name, arrow), call)| {
            let typed = Typed { expr: Expr::Column(bare(name)), ty: call.ty, arrow };
            let wanted = value::arrow_type(call.ty, TypeMod::NONE);
            if typed.arrow == DataType::UInt64 {
                let expr = cast_to(typed.clone(), &wanted);
                return Typed { expr, ty: call.ty, arrow: wanted };
            }
            typed
        });
        Ok(typed.collect())
    }

    fn window_expr(
        &self,
        translator: &mut Translator<'_, '_>,
        call: &WindowCall,
    ) -> SqlResult<(Expr, DataType)> {
        let mut args = Vec::new();
        for arg in &call.args {
            args.push(translator.translate(arg)?);
        }
        let mut partition_by = Vec::new();
        for e in &call.partition {
            let typed = translator.translate(e)?;
            partition_by.push(translator.key(&typed));
        }
        let mut order_by = Vec::new();
        for key in &call.order {
            let typed = translator.translate(&key.expr)?;
            order_by.push(Sort::new(translator.key(&typed), !key.descending, key.nulls_first));
        }
        let filter = match &call.filter {
            Some(filter) => Some(Box::new(translator.translate(filter)?.expr)),
            None => None,
        };
        let (fun, args, arrow) = match &call.function {
            Function::Aggregate(aggregate) => {
                let whole = AggregateCall { args: call.args.clone(), ..aggregate.clone() };
                let key = |t: &Typed| translator.key(t);
                let planned =
                    crate::aggregate::plan(&whole, args, Vec::new(), &key, self.number(), &self.shared);
                (WindowFunctionDefinition::AggregateUDF(planned.udaf), planned.args, planned.arrow)
            }
            Function::Named(name) => {
                let arrow = match *name {
                    "row_number" | "rank" | "dense_rank" | "ntile" => DataType::UInt64,
                    "percent_rank" | "cume_dist" => DataType::Float64,
                    _ => args[0].arrow.clone(),
                };
                (
                    WindowFunctionDefinition::WindowUDF(named(name)),
                    self.named_args(translator, name, args)?,
                    arrow,
                )
            }
        };
        let window_frame = call
            .frame
            .clone()
            .unwrap_or_else(|| WindowFrame::new(if order_by.is_empty() { None } else { Some(false) }));
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
        Ok((Expr::WindowFunction(Box::new(WindowFunction { fun, params })), arrow))
    }

    /// DataFusion wants offsets as 64-bit literals and defaults of the argument's own type.
    fn named_args(
        &self,
        translator: &Translator<'_, '_>,
        name: &str,
        args: Vec<Typed>,
    ) -> SqlResult<Vec<Expr>> {
        let first = args.first().map(|a| a.arrow.clone());
        let mut out = Vec::new();
        for (i, arg) in args.into_iter().enumerate() {
            let offset = (i == 1 && matches!(name, "lag" | "lead" | "nth_value")) || name == "ntile";
            if offset {
                if !matches!(arg.expr, Expr::Literal(..)) {
                    return Err(SqlError::unsupported(format!("an offset of {name} that is not a constant")));
                }
                out.push(cast_to(arg, &DataType::Int64));
            } else if i == 2 {
                out.push(
                    translator.convert(arg, first.as_ref().expect("a third argument has a first"))?.expr,
                );
            } else {
                out.push(arg.expr);
            }
        }
        Ok(out)
    }

    /// A constant whole number of LIMIT, OFFSET or a frame; `None` for NULL.
    pub(crate) fn constant_i64(&self, expr: &ast::Expr, place: &'static str) -> SqlResult<Option<i64>> {
        let ctx = self.context(sql::expr::Aggregates::Forbidden(place));
        let bound = crate::from::bind_constant(self, expr, place)?;
        let bound = coerce(bound, PgType::Int8, TypeMod::NONE, CastContext::Assignment, &ctx)?;
        if bound.contains_subquery() {
            return Err(SqlError::unsupported(format!("a subquery in {place}")));
        }
        let statement = self.shared.statement();
        if self.shared.params.is_empty() && bound.any(&mut |e| matches!(e.kind, ExprKind::Param(_))) {
            return Ok(None);
        }
        match sql::expr::eval(&bound, &sql::expr::EvalCtx::new(&statement, &[]))
            .map_err(crate::shared::eval_error)?
        {
            Datum::Null => Ok(None),
            value => Ok(value.as_i64()),
        }
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
    let window_frame = WindowFrame::new(if order_by.is_empty() { None } else { Some(false) });
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

fn resolve_window(over: &ast::WindowType, place: &Place<'_>) -> SqlResult<ast::WindowSpec> {
    let lookup = |name: &ast::Ident| -> SqlResult<ast::WindowSpec> {
        let wanted = fold_ident(name);
        for ast::NamedWindowDefinition(known, definition) in place.named_windows {
            if fold_ident(known) == wanted {
                return match definition {
                    ast::NamedWindowExpr::WindowSpec(spec) => {
                        resolve_window(&ast::WindowType::WindowSpec(spec.clone()), place)
                    }
                    ast::NamedWindowExpr::NamedWindow(other) => {
                        resolve_window(&ast::WindowType::NamedWindow(other.clone()), place)
                    }
                };
            }
        }
        Err(SqlError::new(SqlState::UNDEFINED_OBJECT, format!("window \"{wanted}\" does not exist")))
    };
    match over {
        ast::WindowType::NamedWindow(name) => lookup(name),
        ast::WindowType::WindowSpec(spec) => match &spec.window_name {
            None => Ok(spec.clone()),
            Some(name) => {
                let base = lookup(name)?;
                Ok(ast::WindowSpec {
                    window_name: None,
                    partition_by: base.partition_by,
                    order_by: if spec.order_by.is_empty() { base.order_by } else { spec.order_by.clone() },
                    window_frame: spec.window_frame.clone().or(base.window_frame),
                })
            }
        },
    }
}
