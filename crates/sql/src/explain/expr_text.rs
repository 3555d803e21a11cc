//! Bound expressions as text.

use types::{Datum, FormatContext, TypeMod, format_type};

use crate::expr::{BoundExpr, ExprKind, SubqueryTest};

/// Names of a row's slots.
#[derive(Clone, Debug)]
pub(super) struct Names(pub(super) Vec<String>);

impl Names {
    pub(super) fn new(names: &[String]) -> Names {
        Names(names.to_vec())
    }
}

/// `expr` in SQL, near to what PostgreSQL shows.
pub(super) fn text(expr: &BoundExpr, names: &Names) -> String {
    let of = |e: &BoundExpr| text(e, names);
    let list = |items: &[BoundExpr], between: &str| items.iter().map(of).collect::<Vec<_>>().join(between);
    let not = |negated: bool| if negated { "NOT " } else { "" };
    match &expr.kind {
        ExprKind::Const(value) => constant(value, expr),
        ExprKind::Column(index) => names.0.get(*index).cloned().unwrap_or_else(|| format!("#{index}")),
        ExprKind::Outer { depth, index } => format!("outer{depth}.{index}"),
        ExprKind::Param(index) => format!("${}", index + 1),
        ExprKind::Compare { op, left, right, .. } => format!("({} {} {})", of(left), op.symbol(), of(right)),
        ExprKind::And(parts) => format!("({})", list(parts, " AND ")),
        ExprKind::Or(parts) => format!("({})", list(parts, " OR ")),
        ExprKind::Not(inner) => format!("(NOT {})", of(inner)),
        ExprKind::IsNull { expr, negated } => format!("({} IS {}NULL)", of(expr), not(*negated)),
        ExprKind::IsBool { expr, value, negated } => {
            format!("({} IS {}{})", of(expr), not(*negated), if *value { "TRUE" } else { "FALSE" })
        }
        ExprKind::IsDistinct { left, right, negated, .. } => {
            format!("({} IS {}DISTINCT FROM {})", of(left), not(*negated), of(right))
        }
        ExprKind::InList { expr, items, negated, .. } => {
            format!("({} {}IN ({}))", of(expr), not(*negated), list(items, ", "))
        }
        ExprKind::CompareArray { op, all, left, array, .. } => {
            let word = if *all { "ALL" } else { "ANY" };
            format!("({} {} {word} ({}))", of(left), op.symbol(), of(array))
        }
        ExprKind::CallArray { function, all, left, array } => {
            let word = if *all { "ALL" } else { "ANY" };
            format!("({} {} {word} ({}))", of(left), function.0.name, of(array))
        }
        ExprKind::Call { function, args } => {
            let name = function.0.name;
            let operator = name.chars().all(|c| !c.is_alphanumeric() && c != '_');
            match args.as_slice() {
                [left, right] if operator => format!("({} {name} {})", of(left), of(right)),
                [only] if operator => format!("({name} {})", of(only)),
                args => format!("{name}({})", list(args, ", ")),
            }
        }
        ExprKind::Case { whens, otherwise } => {
            let mut out = String::from("CASE");
            for (condition, result) in whens {
                out.push_str(&format!(" WHEN {} THEN {}", of(condition), of(result)));
            }
            if let Some(otherwise) = otherwise {
                out.push_str(&format!(" ELSE {}", of(otherwise)));
            }
            out + " END"
        }
        ExprKind::Coalesce(args) => format!("COALESCE({})", list(args, ", ")),
        ExprKind::NullIf { left, right, .. } => format!("NULLIF({}, {})", of(left), of(right)),
        ExprKind::Extreme { greatest, args, .. } => {
            format!("{}({})", if *greatest { "GREATEST" } else { "LEAST" }, list(args, ", "))
        }
        ExprKind::Cast { expr: inner, .. } => {
            format!("({})::{}", of(inner), format_type(expr.ty, expr.typmod))
        }
        ExprKind::Array { items, .. } => format!("ARRAY[{}]", list(items, ", ")),
        ExprKind::Subscript { array, index } => format!("{}[{}]", of(array), of(index)),
        ExprKind::Slice { array, lower, upper } => {
            let end = |e: &Option<Box<BoundExpr>>| e.as_ref().map(|e| of(e)).unwrap_or_default();
            format!("{}[{}:{}]", of(array), end(lower), end(upper))
        }
        ExprKind::Aggregate(call) => format!("{:?}(…)", call.kind),
        ExprKind::Subquery(subquery) => {
            let name = format!("SubPlan {}", subquery.id.0 + 1);
            match &subquery.test {
                SubqueryTest::Scalar => format!("({name})"),
                SubqueryTest::Field(column) => format!("({name}).{}", column + 1),
                SubqueryTest::Exists { negated } => format!("({}EXISTS ({name}))", not(*negated)),
                SubqueryTest::Compare { all, .. } => {
                    format!("({} ({name}))", if *all { "ALL" } else { "ANY" })
                }
                SubqueryTest::Array { .. } => format!("ARRAY({name})"),
            }
        }
    }
}

fn constant(value: &Datum, expr: &BoundExpr) -> String {
    let text = |value: &Datum| types::to_text(value, expr.ty, &FormatContext::default());
    match value {
        Datum::Null => "NULL".to_owned(),
        Datum::Bool(_) | Datum::Int2(_) | Datum::Int4(_) | Datum::Int8(_) => text(value),
        Datum::Numeric(_) | Datum::Float4(_) | Datum::Float8(_) => text(value),
        _ => format!("'{}'::{}", text(value).replace('\'', "''"), format_type(expr.ty, TypeMod::NONE)),
    }
}
