//! The server's processor time for a transaction under several rules, in short windows in turn, while the same clients go on.
//!
//! What drifts (a growing table, a busy machine) is in all windows: one of the first rule is before and after each of another, which is held against
//! the mean of the two, and the median of all is told.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::Result;
use crate::report::{Series, Verdict, figure, percent};
use crate::sqlvm::actors::Acting;
use crate::sqlvm::host::Host;
use crate::sqlvm::stage::{LOAD_BUSY, Stage};
use crate::stats;
use crate::world::process;

/// What promises may cost, of the processor time without.
pub(super) const COST_MAX: f64 = 0.02;
/// From a change of the rules to the window: a simulated cache that begins is told every page once.
const SETTLE_SECONDS: f64 = 2.0;
/// Of a window. What a transaction costs on a shared machine drifts by a fifth within a minute: many short ones say more than few long ones.
const SECONDS: f64 = 3.0;
/// How many rounds of a full run; a shorter one has fewer, of shorter windows.
const ROUNDS: f64 = 36.0;
pub(super) const ROUNDS_MIN: usize = 4;

/// One window.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Window {
    pub(super) cpu_seconds: f64,
    pub(super) transactions: u64,
    pub(super) seconds: f64,
    /// Processor time of the load.
    pub(super) load_seconds: f64,
}

impl Window {
    /// Microseconds of the server's processor for a transaction; `None` where there was none.
    fn cost_us(&self) -> Option<f64> {
        (self.transactions > 0).then(|| self.cpu_seconds / self.transactions as f64 * 1e6)
    }
}

/// A window of a rule, between two of the first one.
#[derive(Clone, Copy, Debug)]
struct Trial {
    before: Window,
    during: Window,
    after: Window,
}

impl Trial {
    /// What the rule costs more, of what the first one does; `None` where one of the windows had no transactions.
    fn cost(&self) -> Option<f64> {
        let without = f64::midpoint(self.before.cost_us()?, self.after.cost_us()?);
        Some(stats::off(self.during.cost_us()?, without))
    }
}

/// Windows under several rules. The first is what the others are held against.
pub(super) struct Interleaved {
    names: Vec<String>,
    /// Of the first rule.
    first: Vec<Window>,
    /// Of each other one.
    others: Vec<Vec<Trial>>,
}

/// Rounds that a run has, of `full` in a whole one.
pub(super) fn rounds(stage: &Stage, full: f64) -> usize {
    let of_one = (full * stage.options.duration_factor.min(1.0)).ceil() as usize;
    of_one.max(ROUNDS_MIN) * stage.options.repetitions
}

/// How long they take for so many rules.
pub(super) fn length(stage: &Stage, rules: usize) -> Duration {
    let windows = 2 * (rules - 1) * rounds(stage, ROUNDS) + 1;
    (stage.options.time(SECONDS) + stage.options.time(SETTLE_SECONDS)) * windows as u32
}

/// Measures under each rule in turn; `put_in_force` is told its number.
pub(super) async fn measure(
    stage: &Stage,
    host: &Host,
    acting: &Acting,
    names: &[&str],
    put_in_force: impl AsyncFn(usize) -> Result<()>,
) -> Result<Interleaved> {
    let window = async |rule| {
        put_in_force(rule).await?;
        stage.pass(stage.options.time(SETTLE_SECONDS)).await;
        let count = || acting.live.transactions.load(Ordering::Relaxed);
        let load = || process::cpu_seconds(std::process::id());
        let (began, cpu, done, of_load) = (tokio::time::Instant::now(), host.cpu_seconds(), count(), load());
        stage.pass(stage.options.time(SECONDS)).await;
        Ok::<_, crate::Error>(Window {
            cpu_seconds: host.cpu_seconds() - cpu,
            transactions: count() - done,
            seconds: began.elapsed().as_secs_f64(),
            load_seconds: load() - of_load,
        })
    };
    let mut first = vec![window(0).await?];
    let mut others = vec![Vec::new(); names.len() - 1];
    let rounds = rounds(stage, ROUNDS);
    for round in 0..rounds {
        stage.say(&format!("round {} of {rounds}", round + 1));
        for (other, trials) in others.iter_mut().enumerate() {
            let before = first[first.len() - 1];
            let during = window(1 + other).await?;
            let after = window(0).await?;
            trials.push(Trial { before, during, after });
            first.push(after);
        }
    }
    Ok(Interleaved { names: names.iter().map(ToString::to_string).collect(), first, others })
}

impl Interleaved {
    /// What a rule costs more than the first, of it, wherever both had transactions.
    fn costs(&self, rule: usize) -> Vec<f64> {
        self.others[rule - 1].iter().filter_map(Trial::cost).collect()
    }

    fn windows(&self, rule: usize) -> Vec<Window> {
        match rule {
            0 => self.first.clone(),
            _ => self.others[rule - 1].iter().map(|trial| trial.during).collect(),
        }
    }

    /// Cores that the load used while a rule was in force.
    fn load_cores(&self, rule: usize) -> f64 {
        stats::median(&self.windows(rule).iter().map(|w| w.load_seconds / w.seconds).collect::<Vec<_>>())
    }

    /// That a rule costs at most [`COST_MAX`]. Void where rounds differ so much that they do not say on which side of it the cost is.
    pub(super) fn verdict(&self, rule: usize, what: &str) -> Verdict {
        let costs = self.costs(rule);
        let (cost, error) = (stats::median(&costs), stats::median_error(&costs));
        let too_few =
            (costs.len() < ROUNDS_MIN).then(|| format!("{} rounds only had transactions", costs.len()));
        // Then a server that is slower may be one that is given less.
        let load = self.load_cores(0).max(self.load_cores(rule));
        let waited = (load > LOAD_BUSY).then(|| {
            format!("the load used {} of its core: clients waited for themselves", percent(load, false))
        });
        let unclear = ((cost - COST_MAX).abs() < 2.0 * error).then(|| {
            format!(
                "rounds differ too much to say more than {} ± {}",
                percent(cost, true),
                percent(2.0 * error, false)
            )
        });
        Verdict::of(
            format!("{what}: {} costs at most 2 % more processor time a transaction", self.names[rule]),
            format!("{} ± {}, {} rounds", percent(cost, true), percent(error, false), costs.len()),
            cost <= COST_MAX,
        )
        .unless(too_few.or(waited).or(unclear).as_deref())
    }

    /// Cells of a table's row for a rule: microseconds, cost, transactions a second, cores.
    pub(super) fn cells(&self, rule: usize) -> [String; 4] {
        let of = |value: fn(&Window) -> Option<f64>| {
            stats::median(&self.windows(rule).iter().filter_map(value).collect::<Vec<_>>())
        };
        let cost = if rule == 0 {
            "–".into()
        } else {
            let costs = stats::summary(&self.costs(rule));
            format!(
                "{} ({} to {})",
                percent(costs.median, true),
                percent(costs.least, true),
                percent(costs.most, true)
            )
        };
        [
            figure(of(Window::cost_us)),
            cost,
            figure(of(|window| Some(window.transactions as f64 / window.seconds))),
            figure(of(|window| Some(window.cpu_seconds / window.seconds))),
        ]
    }

    /// Microseconds a transaction of each rule, round by round; nothing where there were no transactions.
    pub(super) fn series(&self) -> Vec<Series> {
        let values = |rule| self.windows(rule).iter().map(|w| w.cost_us().unwrap_or(0.0)).collect();
        let of = |(rule, name): (usize, &String)| {
            // Between two others of a rule there are as many of the first as there are rules beside it.
            let step = if rule == 0 { 1.0 / self.others.len() as f64 } else { 1.0 };
            Series { name: name.clone(), x_first: 1.0, x_step: step, values: values(rule) }
        };
        self.names.iter().enumerate().map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Outcome;

    fn window(us: f64) -> Window {
        Window { cpu_seconds: us / 1e6 * 1000.0, transactions: 1000, seconds: 10.0, load_seconds: 5.0 }
    }

    /// `first` has one more than `other`.
    fn interleaved(first: &[f64], other: &[f64]) -> Interleaved {
        let trials = other.iter().enumerate().map(|(at, us)| Trial {
            before: window(first[at]),
            during: window(*us),
            after: window(first[at + 1]),
        });
        let others = vec![trials.collect()];
        Interleaved {
            names: vec!["off".into(), "on".into()],
            first: first.iter().map(|us| window(*us)).collect(),
            others,
        }
    }

    #[test]
    fn the_rule_that_others_are_held_against_has_no_cost() {
        let measured = interleaved(&[100.0; 6], &[101.0; 5]);
        assert_eq!(measured.cells(0)[1], "–");
        assert!(measured.cells(1)[1].contains('1'), "{:?}", measured.cells(1));
    }

    fn outcome(first: &[f64], other: &[f64]) -> Outcome {
        interleaved(first, other).verdict(1, "it").outcome
    }

    #[test]
    fn a_window_is_held_against_its_neighbours() {
        // It drifts by half; the second costs a percent more than what is between.
        let first = [10.0, 11.0, 12.0, 13.0, 15.0, 14.0];
        let between = |more: f64| -> Vec<f64> {
            first.windows(2).map(|pair| f64::midpoint(pair[0], pair[1]) * more).collect()
        };
        assert_eq!(outcome(&first, &between(1.01)), Outcome::Met);
        assert_eq!(outcome(&first, &between(1.03)), Outcome::Missed);
        let costs = interleaved(&first, &between(1.01)).costs(1);
        assert!(costs.iter().all(|cost| (cost - 0.01).abs() < 1e-9), "{costs:?}");
    }

    #[test]
    fn what_cannot_be_told_is_void() {
        let first = [10.0; 7];
        assert_eq!(outcome(&first, &[9.5, 10.0, 10.2, 10.3, 10.8, 11.0]), Outcome::Void, "1 to 3 %, perhaps");
        // As scattered, and far from the limit all the same.
        assert_eq!(outcome(&first, &[14.5, 15.0, 15.2, 15.3, 15.8, 16.0]), Outcome::Missed);
        assert_eq!(outcome(&first, &first[..3]), Outcome::Void, "three rounds");
        let mut idle = interleaved(&first, &first[..6]);
        idle.others[0].iter_mut().for_each(|trial| trial.during.transactions = 0);
        assert_eq!(idle.verdict(1, "it").outcome, Outcome::Void, "nothing was done");
        let mut waited = interleaved(&first, &first[..6]);
        assert_eq!(waited.verdict(1, "it").outcome, Outcome::Met);
        waited.others[0].iter_mut().for_each(|trial| trial.during.load_seconds = 9.5);
        assert_eq!(waited.verdict(1, "it").outcome, Outcome::Void, "the load was the limit");
    }

    #[test]
    fn all_windows_are_shown() {
        let found = interleaved(&[1.0, 2.0, 3.0], &[4.0, 5.0]);
        let values: Vec<Vec<f64>> = found.series().into_iter().map(|series| series.values).collect();
        assert_eq!(values.len(), 2);
        assert_eq!(values.iter().map(Vec::len).collect::<Vec<_>>(), [3, 2]);
    }
}
