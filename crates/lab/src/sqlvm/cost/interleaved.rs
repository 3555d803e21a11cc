//! The server's processor time for a transaction under several rules, in short windows in turn, while the same clients go on.
//!
//! Windows of a round are next to each other, so what drifts (a growing table, a busy machine) is in all of them; a round is held
//! against itself, and the median of the rounds is told.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::Result;
use crate::report::{Series, Verdict, figure, percent};
use crate::sqlvm::actors::Acting;
use crate::sqlvm::host::Host;
use crate::sqlvm::stage::Stage;
use crate::stats;

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
}

impl Window {
    /// Microseconds of the server's processor for a transaction; `None` where there was none.
    fn cost_us(&self) -> Option<f64> {
        (self.transactions > 0).then(|| self.cpu_seconds / self.transactions as f64 * 1e6)
    }
}

/// Windows of each rule, by round. The first rule is what the others are held against.
pub(super) struct Interleaved {
    pub(super) names: Vec<String>,
    pub(super) windows: Vec<Vec<Window>>,
}

/// Rounds that a run has, of `full` in a whole one.
pub(super) fn rounds(stage: &Stage, full: f64) -> usize {
    let of_one = (full * stage.options.duration_factor.min(1.0)).ceil() as usize;
    of_one.max(ROUNDS_MIN) * stage.options.repetitions
}

/// How long they take for so many rules.
pub(super) fn length(stage: &Stage, rules: usize) -> Duration {
    (stage.options.time(SECONDS) + stage.options.time(SETTLE_SECONDS))
        * (rounds(stage, ROUNDS) * rules) as u32
}

/// The order of the rules in a round: there and back, so that none always follows the same one.
fn order(round: usize, rules: usize) -> Vec<usize> {
    if round.is_multiple_of(2) { (0..rules).collect() } else { (0..rules).rev().collect() }
}

/// Measures under each rule in turn; `put_in_force` is told its number.
pub(super) async fn measure(
    stage: &Stage,
    host: &Host,
    acting: &Acting,
    names: &[&str],
    put_in_force: impl AsyncFn(usize) -> Result<()>,
) -> Result<Interleaved> {
    let time = stage.options.time(SECONDS);
    let mut windows = vec![Vec::new(); names.len()];
    let rounds = rounds(stage, ROUNDS);
    for round in 0..rounds {
        stage.say(&format!("round {} of {rounds}", round + 1));
        for rule in order(round, names.len()) {
            put_in_force(rule).await?;
            stage.pass(stage.options.time(SETTLE_SECONDS)).await;
            let count = || acting.live.transactions.load(Ordering::Relaxed);
            let (began, cpu, done) = (tokio::time::Instant::now(), host.cpu_seconds(), count());
            stage.pass(time).await;
            windows[rule].push(Window {
                cpu_seconds: host.cpu_seconds() - cpu,
                transactions: count() - done,
                seconds: began.elapsed().as_secs_f64(),
            });
        }
    }
    Ok(Interleaved { names: names.iter().map(ToString::to_string).collect(), windows })
}

impl Interleaved {
    /// What a rule costs more than the first, of it, in each round in which both had transactions.
    fn costs(&self, rule: usize) -> Vec<f64> {
        let of_round =
            |(first, other): (&Window, &Window)| Some(stats::off(other.cost_us()?, first.cost_us()?));
        self.windows[0].iter().zip(&self.windows[rule]).filter_map(of_round).collect()
    }

    /// That a rule costs at most [`COST_MAX`]. Void where rounds differ so much that they do not say on which side of it the cost is.
    pub(super) fn verdict(&self, rule: usize, what: &str) -> Verdict {
        let costs = self.costs(rule);
        let (cost, error) = (stats::median(&costs), stats::median_error(&costs));
        let too_few =
            (costs.len() < ROUNDS_MIN).then(|| format!("{} rounds only had transactions", costs.len()));
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
        .unless(too_few.or(unclear).as_deref())
    }

    /// Cells of a table's row for a rule: microseconds, cost, transactions a second, cores.
    pub(super) fn cells(&self, rule: usize) -> [String; 4] {
        let of = |value: fn(&Window) -> Option<f64>| {
            stats::median(&self.windows[rule].iter().filter_map(value).collect::<Vec<_>>())
        };
        let costs = stats::summary(&self.costs(rule));
        let cost = if rule == 0 {
            "–".into()
        } else {
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
        let values =
            |windows: &[Window]| windows.iter().map(|window| window.cost_us().unwrap_or(0.0)).collect();
        let named = self.names.iter().zip(&self.windows);
        named
            .map(|(name, windows)| Series {
                name: name.clone(),
                x_first: 1.0,
                x_step: 1.0,
                values: values(windows),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Outcome;

    fn interleaved(first: &[f64], other: &[f64]) -> Interleaved {
        let windows = |costs: &[f64]| {
            let of = |us: &f64| Window { cpu_seconds: us / 1e6 * 1000.0, transactions: 1000, seconds: 10.0 };
            costs.iter().map(of).collect()
        };
        Interleaved { names: vec!["off".into(), "on".into()], windows: vec![windows(first), windows(other)] }
    }

    fn outcome(first: &[f64], other: &[f64]) -> Outcome {
        interleaved(first, other).verdict(1, "it").outcome
    }

    #[test]
    fn a_round_is_held_against_itself() {
        // It drifts by half; in each round the second costs a percent more.
        let first = [10.0, 11.0, 12.0, 13.0, 15.0];
        assert_eq!(outcome(&first, &first.map(|us| us * 1.01)), Outcome::Met);
        assert_eq!(outcome(&first, &first.map(|us| us * 1.03)), Outcome::Missed);
        let costs = interleaved(&first, &first.map(|us| us * 1.01)).costs(1);
        assert!(costs.iter().all(|cost| (cost - 0.01).abs() < 1e-9), "{costs:?}");
    }

    #[test]
    fn what_cannot_be_told_is_void() {
        let first = [10.0; 6];
        assert_eq!(outcome(&first, &[9.5, 10.0, 10.2, 10.3, 10.8, 11.0]), Outcome::Void, "1 to 3 %, perhaps");
        // As scattered, and far from the limit all the same.
        assert_eq!(outcome(&first, &[14.5, 15.0, 15.2, 15.3, 15.8, 16.0]), Outcome::Missed);
        assert_eq!(outcome(&first[..3], &first[..3]), Outcome::Void, "three rounds");
        let mut idle = interleaved(&first, &first);
        idle.windows[1].iter_mut().for_each(|window| window.transactions = 0);
        assert_eq!(idle.verdict(1, "it").outcome, Outcome::Void, "nothing was done");
    }

    #[test]
    fn rules_go_there_and_back() {
        assert_eq!((order(0, 3), order(1, 3), order(2, 2)), (vec![0, 1, 2], vec![2, 1, 0], vec![0, 1]));
    }
}
