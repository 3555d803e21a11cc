//! How a group's load changes over time: a factor of its clients or of its rate, as a pure function of the group's age.

use serde::{Deserialize, Serialize};

/// The factor's greatest value.
pub(crate) const FACTOR_MAX: f64 = 100.0;
/// The longest period in seconds: a day.
const PERIOD_MAX_S: f64 = 86_400.0;
/// The part of a burst's period that is the burst; it comes at the end, so that what is before it is seen first.
const BURST_PART: f64 = 0.2;

/// What the factor does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// 1 always; `low`, `high` and the period mean nothing.
    Steady,
    /// From `low` to `high` in one period in a straight line, then `high`.
    Ramp,
    /// Up from `low` to `high` and down again in each period, as a cosine does.
    Wave,
    /// `low`, but `high` in the last fifth of each period.
    Burst,
    /// `low` for one period, then `high`.
    Step,
}

/// A shape over time.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Shape {
    pub(crate) kind: Kind,
    /// Seconds.
    pub(crate) period_s: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Default for Shape {
    fn default() -> Shape {
        Shape { kind: Kind::Steady, period_s: 60.0, low: 0.0, high: 1.0 }
    }
}

impl Shape {
    /// What the group's clients or rate are to be multiplied by at this age in seconds: from 0 to 100.
    pub(crate) fn factor(&self, age_s: f64) -> f64 {
        debug_assert!(self.validate().is_ok() && age_s >= 0.0);
        let Shape { kind, period_s, low, high } = *self;
        let periods = age_s / period_s;
        match kind {
            Kind::Steady => 1.0,
            Kind::Ramp => low + (high - low) * periods.min(1.0),
            Kind::Wave => low + (high - low) * (1.0 - (std::f64::consts::TAU * periods).cos()) / 2.0,
            Kind::Burst if periods.fract() >= 1.0 - BURST_PART => high,
            Kind::Step if periods >= 1.0 => high,
            Kind::Burst | Kind::Step => low,
        }
    }

    /// The greatest factor that it ever has.
    pub(crate) fn factor_max(&self) -> f64 {
        if self.kind == Kind::Steady { 1.0 } else { self.low.max(self.high) }
    }

    /// Says what is out of range.
    pub(crate) fn validate(&self) -> Result<(), String> {
        if !(1.0..=PERIOD_MAX_S).contains(&self.period_s) {
            return Err(format!(
                "a shape's period is from 1 to {PERIOD_MAX_S} seconds, not {}",
                self.period_s
            ));
        }
        for factor in [self.low, self.high] {
            if !(0.0..=FACTOR_MAX).contains(&factor) {
                return Err(format!("a shape goes from 0 to {FACTOR_MAX} times, not {factor}"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KINDS: [Kind; 5] = [Kind::Steady, Kind::Ramp, Kind::Wave, Kind::Burst, Kind::Step];

    fn factors(kind: Kind, ages: &[f64]) -> Vec<f64> {
        let shape = Shape { kind, period_s: 10.0, low: 1.0, high: 3.0 };
        ages.iter().map(|age| (shape.factor(*age) * 1e6).round() / 1e6).collect()
    }

    #[test]
    fn each_shape_is_at_each_time_what_it_says() {
        assert_eq!(factors(Kind::Steady, &[0.0, 5.0, 99.0]), [1.0, 1.0, 1.0]);
        assert_eq!(factors(Kind::Ramp, &[0.0, 2.5, 5.0, 10.0, 99.0]), [1.0, 1.5, 2.0, 3.0, 3.0]);
        assert_eq!(factors(Kind::Wave, &[0.0, 2.5, 5.0, 7.5, 10.0, 15.0]), [1.0, 2.0, 3.0, 2.0, 1.0, 3.0]);
        assert_eq!(factors(Kind::Burst, &[0.0, 7.9, 8.1, 9.9, 10.0, 18.5]), [1.0, 1.0, 3.0, 3.0, 1.0, 3.0]);
        assert_eq!(factors(Kind::Step, &[0.0, 9.9, 10.0, 99.0]), [1.0, 1.0, 3.0, 3.0]);
    }

    #[test]
    fn a_ramp_goes_down_too() {
        let shape = Shape { kind: Kind::Ramp, period_s: 10.0, low: 2.0, high: 0.0 };
        assert_eq!([shape.factor(0.0), shape.factor(5.0), shape.factor(20.0)], [2.0, 1.0, 0.0]);
    }

    #[test]
    fn what_is_no_shape_is_refused() {
        let shape = |period_s, low, high| Shape { kind: Kind::Wave, period_s, low, high }.validate();
        assert!(shape(1.0, 0.0, 100.0).is_ok());
        for (period_s, low, high) in [
            (0.5, 0.0, 1.0),
            (1e6, 0.0, 1.0),
            (f64::NAN, 0.0, 1.0),
            (9.0, -1.0, 1.0),
            (9.0, 0.0, 101.0),
            (9.0, f64::NAN, 1.0),
        ] {
            assert!(shape(period_s, low, high).is_err(), "{period_s} {low} {high}");
        }
    }

    proptest! {
        #[test]
        fn a_factor_is_between_low_and_high(
            kind in 0usize..5, period_s in 1.0f64..1000.0, low in 0.0f64..100.0, high in 0.0f64..100.0, age_s in 0.0f64..1e5,
        ) {
            let shape = Shape { kind: KINDS[kind], period_s, low, high };
            let factor = shape.factor(age_s);
            prop_assert!(factor <= shape.factor_max() * (1.0 + 1e-9));
            if shape.kind != Kind::Steady {
                prop_assert!(factor >= low.min(high) * (1.0 - 1e-9) && factor <= low.max(high) * (1.0 + 1e-9));
            }
        }
    }
}
