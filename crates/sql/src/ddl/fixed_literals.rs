//! Literals of dates and times in what the catalog keeps: PostgreSQL reads them once, where they are written. Here the text is read again wherever
//! it is used, so it has to say the same in every time zone, whatever the order of day and month, in all styles of intervals, and at any time.

use std::ops::{ControlFlow, Range};

use base::{SqlError, SqlResult};
use jiff::tz::{Offset, TimeZone};
use sqlparser::ast::{self, Expr, VisitMut, VisitorMut};
use types::{DateOrder, FormatContext, IntervalStyle, PgType, TypeMod};

use crate::expr::BoundExpr;

/// What such a literal may stand for, from what says most to what says least.
const TYPES: [PgType; 4] = [PgType::TimestampTz, PgType::Timestamp, PgType::Date, PgType::Interval];

/// Microseconds behind which all words for a time (`now`, `tomorrow`) mean another one.
const LATER: i64 = 100 * 86_400_000_000;

/// An offset that no zone has.
const NOWHERE: i32 = 13 * 3600 + 17 * 60;

/// So many literals are looked at one by one; more of them together, as long as they are of one kind.
const FEW: usize = 64;

/// Behind so many readings of an expression's literals no more are tried.
const READS_MAX: usize = 1 << 20;

/// The expression with literals that mean the same under all settings; `bind` binds it under the given ones.
///
/// # Errors
/// 0A000 if there are many literals, and of many kinds.
pub(super) fn fixed(
    expr: &Expr,
    format: &FormatContext,
    bind: &dyn Fn(&Expr, &FormatContext) -> SqlResult<BoundExpr>,
) -> SqlResult<Expr> {
    let mut expr = expr.clone();
    let (Ok(meant), Ok(nowhere)) = (bind(&expr, format), Offset::from_seconds(NOWHERE)) else {
        return Ok(expr);
    };
    let elsewhere = |date_order: DateOrder| FormatContext {
        time_zone: TimeZone::fixed(nowhere),
        date_order,
        interval_style: match format.interval_style {
            IntervalStyle::SqlStandard => IntervalStyle::Postgres,
            _ => IntervalStyle::SqlStandard,
        },
        now: format.now.saturating_add(LATER),
        ..format.clone()
    };
    // Where candidates are compared: all literals are some there, while those not yet exchanged may be none in another order.
    let nearby = elsewhere(format.date_order);
    let everywhere = [DateOrder::Mdy, DateOrder::Dmy, DateOrder::Ymd].map(elsewhere);
    let means_it = |expr: &Expr, format: &FormatContext| bind(expr, format).is_ok_and(|bound| bound == meant);
    let is_fixed = |expr: &Expr| everywhere.iter().all(|format| means_it(expr, format));
    let count = strings(&mut expr, &mut |_| ());
    let mut left: Vec<Range<usize>> = match count {
        ..=FEW => (0..count).rev().map(|at| at..at + 1).collect(),
        _ => std::iter::once(0..count).collect(),
    };
    let mut reads = 0;
    while !is_fixed(&expr) {
        let Some(range) = left.pop() else { break };
        if reads > READS_MAX {
            return Err(SqlError::unsupported(
                "so many literals, some of them dates or times, in what is kept",
            ));
        }
        reads += count * (everywhere.len() + 2 * TYPES.len());
        let mut found: Option<(Expr, BoundExpr)> = None;
        let mut changes_any = false;
        for ty in TYPES {
            let mut candidate = expr.clone();
            if !exchange(&mut candidate, &range, ty, format) {
                continue;
            }
            changes_any = true;
            let Ok(bound) = bind(&candidate, &nearby) else { continue };
            // The shortest that is as good as the one that says most.
            if means_it(&candidate, format) && found.as_ref().is_none_or(|(_, best)| *best == bound) {
                found = Some((candidate, bound));
            }
        }
        match found {
            Some((candidate, _)) => expr = candidate,
            None if changes_any && range.len() > 1 => {
                let middle = range.start + range.len() / 2;
                left.push(middle..range.end);
                left.push(range.start..middle);
            }
            None => {}
        }
    }
    Ok(expr)
}

/// Writes those strings of the expression whose numbers are in the range as values of the type; false if none of them is one.
fn exchange(expr: &mut Expr, range: &Range<usize>, ty: PgType, format: &FormatContext) -> bool {
    let (mut at, mut any) = (0, false);
    strings(expr, &mut |text| {
        if range.contains(&at)
            && let Ok(value) = types::parse_text(text, ty, TypeMod::NONE, format)
        {
            *text = types::to_text(&value, ty, &FormatContext::default());
            any = true;
        }
        at += 1;
    });
    any
}

/// Shows all strings of the expression, and tells how many there are.
fn strings(expr: &mut Expr, show: &mut dyn FnMut(&mut String)) -> usize {
    struct Strings<'s> {
        count: usize,
        show: &'s mut dyn FnMut(&mut String),
    }
    impl VisitorMut for Strings<'_> {
        type Break = ();

        fn pre_visit_value(&mut self, value: &mut ast::ValueWithSpan) -> ControlFlow<()> {
            if let ast::Value::SingleQuotedString(text) = &mut value.value {
                self.count += 1;
                (self.show)(text);
            }
            ControlFlow::Continue(())
        }
    }
    let mut visitor = Strings { count: 0, show };
    let _ = expr.visit(&mut visitor);
    visitor.count
}
