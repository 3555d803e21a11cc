//! Whether the others noticed an attack.

use super::attacks::Attack;
use crate::report::{Verdict, percent};
use crate::sqlvm::careless::Ended;
use crate::stats;

/// What an attack may cost the others, of their throughput and of their p99.
const COST_MAX: f64 = 0.05;
/// Times without an attack that differ more say nothing of what is between them.
const UNSTEADY: f64 = 0.05;
/// More of a core used by the load, which is one thread, and clients waited for themselves.
const LOAD_BUSY: f64 = 0.9;
/// Less of a core used by a hostile tenant that got nothing done, and there was no attack.
const IDLE_CORES: f64 = 0.01;

/// What one of the others did in a time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Measured {
    pub(super) per_second: f64,
    pub(super) p99_ms: f64,
}

/// What everybody did in a time.
#[derive(Clone, Debug, Default)]
pub(super) struct Window {
    pub(super) others: Vec<Measured>,
    pub(super) server_cores: f64,
    pub(super) load_cores: f64,
    pub(super) hostile_cores: f64,
    /// Read and written a second.
    pub(super) hostile_bytes: f64,
    /// How its attempts ended, since the attack's beginning.
    pub(super) ended: Ended,
}

/// An attack between two times without one.
#[derive(Clone, Debug)]
pub(super) struct Trial {
    pub(super) attack: Attack,
    pub(super) before: Window,
    pub(super) during: Window,
    pub(super) after: Window,
}

impl Trial {
    /// One of the others without the attack.
    pub(super) fn without(&self, other: usize) -> Measured {
        let (before, after) = (self.before.others[other], self.after.others[other]);
        Measured {
            per_second: f64::midpoint(before.per_second, after.per_second),
            p99_ms: f64::midpoint(before.p99_ms, after.p99_ms),
        }
    }

    pub(super) fn throughput_change(&self, other: usize) -> f64 {
        stats::off(self.during.others[other].per_second, self.without(other).per_second)
    }

    /// Of one that got nothing done it is without bound.
    pub(super) fn p99_change(&self, other: usize) -> f64 {
        if self.during.others[other].per_second == 0.0 {
            return f64::INFINITY;
        }
        stats::off(self.during.others[other].p99_ms, self.without(other).p99_ms)
    }

    /// Why it says nothing of what the attack costs, by any measure or by this one, if it does not.
    fn says_nothing(&self, value: fn(&Measured) -> f64) -> Option<String> {
        if self.during.ended.attempts() == 0 && self.during.hostile_cores < IDLE_CORES {
            return Some("the hostile tenant did nothing".into());
        }
        let busiest = [&self.before, &self.during, &self.after].map(|window| window.load_cores);
        let busiest = busiest.into_iter().fold(0.0, f64::max);
        if busiest >= LOAD_BUSY {
            return Some(format!("the load used {} of a core", percent(busiest, false)));
        }
        let apart = |(before, after): (&Measured, &Measured)| stats::off(value(after), value(before)).abs();
        let unsteady = self.before.others.iter().zip(&self.after.others).map(apart).fold(0.0, f64::max);
        (unsteady > UNSTEADY)
            .then(|| format!("before and after it the others differ by {}", percent(unsteady, false)))
    }
}

/// Two for each attack. Of repetitions the median counts, of the others the one that lost most. All are void if `why` says so.
pub(super) fn verdicts(trials: &[Trial], names: &[&str], why: Option<&str>) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for attack in Attack::ALL {
        let of: Vec<&Trial> = trials.iter().filter(|trial| trial.attack == attack).collect();
        if of.is_empty() {
            continue;
        }
        type Value = fn(&Measured) -> f64;
        type Change = fn(&Trial, usize) -> f64;
        let measures: [(&str, Value, Change); 2] = [
            (
                "throughput at most 5 % less",
                |other| other.per_second,
                |trial, other| -trial.throughput_change(other),
            ),
            ("p99 at most 5 % more", |other| other.p99_ms, Trial::p99_change),
        ];
        for (demand, value, change) in measures {
            let cost = |other: usize| {
                stats::median(&of.iter().map(|trial| change(trial, other)).collect::<Vec<_>>())
            };
            let costs: Vec<f64> = (0..names.len()).map(cost).collect();
            let most = costs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let words: Vec<String> = names
                .iter()
                .zip(&costs)
                .map(|(name, cost)| {
                    let change =
                        if cost.is_infinite() { "nothing done".into() } else { percent(*cost, true) };
                    format!("{name} {change}")
                })
                .collect();
            let void = of.iter().find_map(|trial| trial.says_nothing(value));
            verdicts.push(
                Verdict::of(
                    format!("{}: {demand} for the others", attack.name()),
                    format!("cost: {}", words.join(", ")),
                    most <= COST_MAX,
                )
                .unless(why.or(void.as_deref())),
            );
        }
    }
    verdicts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Outcome;

    fn window(per_second: f64, p99_ms: f64) -> Window {
        let steady = Measured { per_second: 50.0, p99_ms: 1.0 };
        Window {
            others: vec![steady, Measured { per_second, p99_ms }],
            ended: Ended { done: 1, ..Ended::default() },
            ..Window::default()
        }
    }

    fn trial(during: Window) -> Trial {
        Trial { attack: Attack::Sorts, before: window(100.0, 10.0), during, after: window(102.0, 10.2) }
    }

    fn outcomes(trials: &[Trial]) -> [Outcome; 2] {
        let verdicts = verdicts(trials, &["orders", "reads"], None);
        assert_eq!(verdicts.len(), 2, "attacks that were not tried are not told");
        [verdicts[0].outcome, verdicts[1].outcome]
    }

    #[test]
    fn the_one_that_loses_most_counts() {
        use Outcome::{Met, Missed};
        assert_eq!(outcomes(&[trial(window(97.0, 10.5))]), [Met, Met]);
        assert_eq!(outcomes(&[trial(window(95.0, 10.5))]), [Missed, Met]);
        assert_eq!(outcomes(&[trial(window(97.0, 10.8))]), [Met, Missed]);
        assert_eq!(outcomes(&[trial(window(0.0, 0.0))]), [Missed, Missed], "nothing done is not fast");
        // One of three repetitions was disturbed.
        let all = [97.0, 80.0, 98.0].map(|rate| trial(window(rate, 10.0)));
        assert_eq!(outcomes(&all), [Met, Met]);
    }

    #[test]
    fn a_time_that_says_nothing_is_void() {
        let void = [Outcome::Void; 2];
        let busy = Window { load_cores: 0.95, ..window(100.0, 10.0) };
        assert_eq!(outcomes(&[trial(busy)]), void);
        let idle = Window { ended: Ended::default(), ..window(100.0, 10.0) };
        assert_eq!(outcomes(&[trial(idle.clone())]), void);
        let endless = Window { hostile_cores: 0.4, ..idle };
        assert_eq!(outcomes(&[trial(endless)]), [Outcome::Met; 2], "it runs, though nothing of it ends");
        let drifting = Trial { after: window(102.0, 11.0), ..trial(window(101.0, 10.0)) };
        assert_eq!(outcomes(&[drifting]), [Outcome::Met, Outcome::Void], "p99 only");
        let steady = verdicts(&[trial(window(100.0, 10.0))], &["orders", "reads"], Some("idle priority"));
        assert!(steady.iter().all(|verdict| verdict.outcome == Outcome::Void));
    }
}
