//! The bounds of `generate_series`, on both paths.

use std::cmp::Ordering;

use base::{SqlError, SqlResult, SqlState};
use types::{Datum, Interval};

/// Whether a series of whole numbers, numerics or moments counts down.
///
/// # Errors
/// 22023 for a step of nothing, for numerics that are not finite, and for a series that would never leave its infinite start.
pub fn series_counts_down(start: &Datum, stop: &Datum, step: &Datum) -> SqlResult<bool> {
    let refuse = |what: String| Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, what));
    for (value, what) in [(start, "start value"), (stop, "stop value"), (step, "step size")] {
        match value {
            Datum::Numeric(n) if n.is_nan() => return refuse(format!("{what} cannot be NaN")),
            Datum::Numeric(n) if !n.is_finite() => return refuse(format!("{what} cannot be infinity")),
            _ => {}
        }
    }
    let direction = match step {
        Datum::Interval(step) => step.span().cmp(&Interval::default().span()),
        Datum::Numeric(step) => step.signum().cmp(&0),
        step => step.as_i64().unwrap_or(0).cmp(&0),
    };
    if direction.is_eq() {
        return refuse("step size cannot equal zero".to_owned());
    }
    // PostgreSQL goes on for ever.
    if is_infinite_moment(start) && types::compare(start, stop) != direction {
        return refuse("start value cannot be infinity".to_owned());
    }
    Ok(direction == Ordering::Less)
}

fn is_infinite_moment(value: &Datum) -> bool {
    matches!(value, Datum::Timestamp(i64::MIN | i64::MAX) | Datum::TimestampTz(i64::MIN | i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{FormatContext, PgType, TypeMod};

    fn ends(ty: PgType, start: &str, stop: &str, step: &str) -> Result<bool, String> {
        let parse =
            |text: &str, ty| types::parse_text(text, ty, TypeMod::NONE, &FormatContext::default()).unwrap();
        let step_type = if ty == PgType::Numeric { ty } else { PgType::Interval };
        series_counts_down(&parse(start, ty), &parse(stop, ty), &parse(step, step_type))
            .map_err(|error| format!("{} {}", error.state().as_str(), error.message()))
    }

    #[test]
    fn a_series_that_never_ends_is_refused() {
        let numeric = |start, stop, step| ends(PgType::Numeric, start, stop, step);
        assert_eq!(numeric("1", "2", "0.5"), Ok(false));
        assert_eq!(numeric("2", "1", "-0.5"), Ok(true));
        assert_eq!(numeric("0", "Infinity", "1").unwrap_err(), "22023 stop value cannot be infinity");
        assert_eq!(numeric("-Infinity", "0", "1").unwrap_err(), "22023 start value cannot be infinity");
        assert_eq!(numeric("NaN", "0", "1").unwrap_err(), "22023 start value cannot be NaN");
        assert_eq!(numeric("0", "NaN", "1").unwrap_err(), "22023 stop value cannot be NaN");
        assert_eq!(numeric("0", "1", "NaN").unwrap_err(), "22023 step size cannot be NaN");
        assert_eq!(numeric("0", "1", "Infinity").unwrap_err(), "22023 step size cannot be infinity");
        assert_eq!(numeric("0", "1", "0").unwrap_err(), "22023 step size cannot equal zero");
        for ty in [PgType::Timestamp, PgType::TimestampTz] {
            assert_eq!(ends(ty, "2020-01-01", "infinity", "1 day"), Ok(false), "it ends with the calendar");
            assert_eq!(ends(ty, "infinity", "2020-01-01", "1 day"), Ok(false), "it has no value");
            let refused = Err("22023 start value cannot be infinity".to_owned());
            assert_eq!(ends(ty, "-infinity", "2020-01-01", "1 day"), refused);
            assert_eq!(ends(ty, "infinity", "infinity", "1 day"), refused);
            assert_eq!(ends(ty, "infinity", "2020-01-01", "-1 day"), refused);
        }
    }
}
