//! Whether the others noticed an attack.

use super::attacks::Attack;
use super::interleaved::ROUNDS_MIN;
use crate::report::{Verdict, percent};
use crate::sqlvm::careless::Ended;
use crate::sqlvm::stage::LOAD_BUSY;
use crate::stats;

/// What an attack may cost the others, of their throughput and of their p99.
const COST_MAX: f64 = 0.05;
/// Less of a core used by a hostile tenant that got nothing done, and there was no attack.
const IDLE_CORES: f64 = 0.01;

/// What one of the others did in a time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Measured {
    pub(super) per_second: f64,
    pub(super) p99_ms: f64,
    /// Of the server's, charged to it.
    pub(super) cores: f64,
    /// Tasks of it that waited for their turns, on the average.
    pub(super) waiting: f64,
}

impl Measured {
    /// So much of what goes on all the time as there is of it for a transaction, in microseconds; 0 without a transaction.
    fn micros_each(&self, of_a_second: f64) -> f64 {
        stats::share(of_a_second * 1e6, self.per_second)
    }

    /// Processor time of the server a transaction.
    pub(super) fn cost_us(&self) -> f64 {
        self.micros_each(self.cores)
    }

    /// Waits of its tasks for their turns a transaction.
    pub(super) fn waits_us(&self) -> f64 {
        self.micros_each(self.waiting)
    }
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

/// A window with an attack between two without one.
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
            cores: f64::midpoint(before.cores, after.cores),
            waiting: f64::midpoint(before.waiting, after.waiting),
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
}

/// The median of what an attack changed for one of the others in its windows, and how far that may be off.
pub(super) fn costs(trials: &[&Trial], other: usize, change: fn(&Trial, usize) -> f64) -> (f64, f64) {
    let changes: Vec<f64> = trials.iter().map(|trial| change(trial, other)).collect();
    let median = stats::median(&changes);
    // In half of the windows nothing was done.
    if median.is_infinite() { (median, 0.0) } else { (median, stats::median_error(&changes)) }
}

/// Why an attack's windows say nothing of what it costs, if they do not.
fn says_nothing(trials: &[&Trial]) -> Option<String> {
    if trials.len() < ROUNDS_MIN {
        return Some(format!("{} windows only", trials.len()));
    }
    if trials
        .iter()
        .all(|trial| trial.during.ended.attempts() == 0 && trial.during.hostile_cores < IDLE_CORES)
    {
        return Some("the hostile tenant did nothing".into());
    }
    let windows = trials.iter().flat_map(|trial| [&trial.before, &trial.during, &trial.after]);
    let busiest = windows.map(|window| window.load_cores).fold(0.0, f64::max);
    (busiest >= LOAD_BUSY).then(|| format!("the load used {} of a core", percent(busiest, false)))
}

/// Two for each attack. Of its windows the median counts, of the others the one that lost most. All are void if `why` says so.
pub(super) fn verdicts(trials: &[Trial], names: &[&str], why: Option<&str>) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for attack in Attack::ALL {
        let of: Vec<&Trial> = trials.iter().filter(|trial| trial.attack == attack).collect();
        if of.is_empty() {
            continue;
        }
        type Change = fn(&Trial, usize) -> f64;
        let measures: [(&str, Change); 2] = [
            ("throughput at most 5 % less", |trial, other| -trial.throughput_change(other)),
            ("p99 at most 5 % more", Trial::p99_change),
        ];
        for (demand, change) in measures {
            let costs: Vec<(f64, f64)> = (0..names.len()).map(|other| costs(&of, other, change)).collect();
            let words: Vec<String> = names
                .iter()
                .zip(&costs)
                .map(|(name, (cost, error))| match cost.is_infinite() {
                    true => format!("{name} nothing done"),
                    false => format!("{name} {} ± {}", percent(*cost, true), percent(*error, false)),
                })
                .collect();
            let is_surely_more = costs.iter().any(|(cost, error)| cost - 2.0 * error > COST_MAX);
            let is_surely_less = costs.iter().all(|(cost, error)| cost + 2.0 * error <= COST_MAX);
            let unclear = (!is_surely_more && !is_surely_less)
                .then(|| "windows differ too much to say on which side of 5 % it is".to_owned());
            let void = says_nothing(&of).or(unclear);
            verdicts.push(
                Verdict::of(
                    format!("{}: {demand} for the others", attack.name()),
                    format!("cost: {}, {} windows", words.join(", "), of.len()),
                    is_surely_less,
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
        let steady = Measured { per_second: 50.0, p99_ms: 1.0, cores: 0.4, waiting: 0.1 };
        let waiting = per_second / 1000.0;
        Window {
            others: vec![steady, Measured { per_second, p99_ms, cores: per_second / 500.0, waiting }],
            ended: Ended { done: 1, ..Ended::default() },
            ..Window::default()
        }
    }

    /// Four windows of an attack with such rates and p99, each between a time of 100 a second and one of 102.
    fn trials(during: [Window; 4]) -> Vec<Trial> {
        let of = |during| Trial {
            attack: Attack::Sorts,
            before: window(100.0, 10.0),
            during,
            after: window(102.0, 10.2),
        };
        during.map(of).into()
    }

    fn outcomes(trials: &[Trial]) -> [Outcome; 2] {
        let verdicts = verdicts(trials, &["orders", "reads"], None);
        assert_eq!(verdicts.len(), 2, "attacks that were not tried are not told");
        [verdicts[0].outcome, verdicts[1].outcome]
    }

    fn of_rates(rates: [f64; 4]) -> [Outcome; 2] {
        outcomes(&trials(rates.map(|rate| window(rate, 10.1))))
    }

    fn of_p99(p99: [f64; 4]) -> [Outcome; 2] {
        outcomes(&trials(p99.map(|p99| window(101.0, p99))))
    }

    #[test]
    fn the_one_that_loses_most_counts() {
        use Outcome::{Met, Missed};
        assert_eq!(of_rates([98.0, 98.1, 97.9, 98.0]), [Met, Met]);
        assert_eq!(of_rates([95.0, 95.1, 94.9, 95.0]), [Missed, Met]);
        assert_eq!(of_p99([10.3, 10.3, 10.4, 10.4]), [Met, Met]);
        assert_eq!(of_p99([10.8, 10.8, 10.9, 10.9]), [Met, Missed]);
        assert_eq!(
            outcomes(&trials([0.0; 4].map(|none| window(none, none)))),
            [Missed, Missed],
            "nothing done is not fast"
        );
        // One of the windows was disturbed.
        assert_eq!(of_rates([98.0, 98.1, 80.0, 98.0]), [Met, Met]);
    }

    #[test]
    fn without_an_attack_they_are_as_before_and_after_it() {
        let without = trials([0.0; 4].map(|none| window(none, none)))[0].without(1);
        assert_eq!((without.per_second, without.p99_ms), (101.0, 10.1));
        assert!((without.cores - 0.202).abs() < 1e-9, "{without:?}");
        let (cost, waits) = (without.cost_us(), without.waits_us());
        assert!((cost - 2000.0).abs() < 1e-6 && (waits - 1000.0).abs() < 1e-6, "{cost} {waits}");
        assert_eq!(Measured { cores: 1.0, ..Measured::default() }.cost_us(), 0.0);
    }

    #[test]
    fn what_says_nothing_is_void() {
        let void = [Outcome::Void; 2];
        let same = |window: Window| outcomes(&trials([(); 4].map(|()| window.clone())));
        assert_eq!(same(Window { load_cores: 0.95, ..window(100.0, 10.0) }), void);
        let idle = Window { ended: Ended::default(), ..window(100.0, 10.0) };
        assert_eq!(same(idle.clone()), void);
        let endless = Window { hostile_cores: 0.4, ..idle };
        assert_eq!(same(endless), [Outcome::Met; 2], "it runs, though nothing of it ends");
        assert_eq!(of_rates([92.0, 95.0, 98.0, 101.0]), [Outcome::Void, Outcome::Met], "4.5 %, perhaps");
        let few = trials([(); 4].map(|()| window(100.0, 10.0)));
        assert_eq!(outcomes(&few[..3]), void);
        let steady = verdicts(&few, &["orders", "reads"], Some("idle priority"));
        assert!(steady.iter().all(|verdict| verdict.outcome == Outcome::Void));
    }
}
