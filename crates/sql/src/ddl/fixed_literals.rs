//! Literals of dates and times in what the catalog keeps: PostgreSQL reads them once, where they are written. Here the text is read again wherever
//! it is used, so it has to say the same in every time zone, whatever the order of day and month, and at any time.

use std::ops::ControlFlow;

use base::SqlResult;
use jiff::tz::{Offset, TimeZone};
use sqlparser::ast::{self, Expr, VisitMut, VisitorMut};
use types::{DateOrder, FormatContext, PgType, TypeMod};

use crate::expr::BoundExpr;

/// What such a literal may stand for, from what says most to what says least.
const TYPES: [PgType; 3] = [PgType::TimestampTz, PgType::Timestamp, PgType::Date];

/// Microseconds behind which all words for a time (`now`, `tomorrow`) mean another one.
const LATER: i64 = 100 * 86_400_000_000;

/// An offset that no zone has.
const NOWHERE: i32 = 13 * 3600 + 17 * 60;

/// The expression with literals that mean the same under all settings; `bind` binds it under the given ones.
pub(super) fn fixed(
    expr: &Expr,
    format: &FormatContext,
    bind: &dyn Fn(&Expr, &FormatContext) -> SqlResult<BoundExpr>,
) -> Expr {
    let mut expr = expr.clone();
    let (Ok(meant), Ok(nowhere)) = (bind(&expr, format), Offset::from_seconds(NOWHERE)) else { return expr };
    let elsewhere = FormatContext {
        time_zone: TimeZone::fixed(nowhere),
        date_order: if format.date_order == DateOrder::Dmy { DateOrder::Mdy } else { DateOrder::Dmy },
        now: format.now.saturating_add(LATER),
        ..format.clone()
    };
    let means_it = |expr: &Expr, format: &FormatContext| bind(expr, format).is_ok_and(|bound| bound == meant);
    let mut at = 0;
    while !means_it(&expr, &elsewhere) {
        let Some(written) = exchange(&mut expr, at, None) else { break };
        let mut found: Option<(Expr, BoundExpr)> = None;
        for ty in TYPES {
            let Ok(value) = types::parse_text(&written, ty, TypeMod::NONE, format) else { continue };
            let mut candidate = expr.clone();
            exchange(&mut candidate, at, Some(types::to_text(&value, ty, &FormatContext::default())));
            let Ok(bound) = bind(&candidate, &elsewhere) else { continue };
            // The shortest that is as good as the one that says most.
            if means_it(&candidate, format) && found.as_ref().is_none_or(|(_, best)| *best == bound) {
                found = Some((candidate, bound));
            }
        }
        expr = found.map_or(expr, |(candidate, _)| candidate);
        at += 1;
    }
    expr
}

/// The string that is number `at` in the expression; `new` takes its place.
fn exchange(expr: &mut Expr, at: usize, new: Option<String>) -> Option<String> {
    struct Strings {
        left: usize,
        new: Option<String>,
    }
    impl VisitorMut for Strings {
        type Break = String;

        fn pre_visit_value(&mut self, value: &mut ast::ValueWithSpan) -> ControlFlow<String> {
            let ast::Value::SingleQuotedString(text) = &mut value.value else {
                return ControlFlow::Continue(());
            };
            if self.left > 0 {
                self.left -= 1;
                return ControlFlow::Continue(());
            }
            let found = text.clone();
            if let Some(new) = self.new.take() {
                *text = new;
            }
            ControlFlow::Break(found)
        }
    }
    expr.visit(&mut Strings { left: at, new }).break_value()
}
