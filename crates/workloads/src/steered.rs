//! A client whose pace is changed while it works.

use std::time::{Duration, Instant};

use rand::SeedableRng as _;
use rand::rngs::SmallRng;
use tokio::sync::watch;

use crate::Result;
use crate::load::{Transactor, is_retryable};
use crate::random::Draw as _;

/// What is due is done late at most so much later; what was due before that is left out. Without a bound a client that was held up for a
/// minute would be behind for minutes after.
pub const BEHIND_MAX: Duration = Duration::from_secs(5);

/// Runs one transaction after another for as long as `rate` has a sender: without a rate each as soon as the last one ended, else so many a
/// second (0 for none) at the times of a Poisson process, with latencies from the intended start. `done` is told the latency of each.
///
/// A new rate holds at once. The time to the next transaction is drawn anew then, which changes nothing of how the times are distributed:
/// a Poisson process has no memory.
///
/// # Errors
/// The first error of the workload that is not [`is_retryable`].
pub async fn run(
    client: &mut impl Transactor,
    mut rate: watch::Receiver<Option<f64>>,
    seed: u64,
    mut done: impl FnMut(Duration),
) -> Result<()> {
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut intended = Instant::now();
    let mut follows_on = false;
    while rate.has_changed().is_ok() {
        let now = Instant::now();
        let per_second = *rate.borrow_and_update();
        let began = match per_second.filter(|_| !follows_on) {
            None => {
                intended = now;
                now
            }
            Some(per_second) => {
                let due = next(intended, now, per_second, gap(&mut rng));
                tokio::select! {
                    () = until(due) => {}
                    _ = rate.changed() => {
                        intended = Instant::now().min(due.unwrap_or_else(Instant::now));
                        continue;
                    }
                }
                intended = due.expect("what is never due is never waited to the end for");
                intended
            }
        };
        let kind = client.choose();
        while let Err(error) = client.run(kind).await {
            if !is_retryable(&error) {
                return Err(error);
            }
        }
        done(began.elapsed());
        follows_on = client.follows_on();
    }
    Ok(())
}

/// The time between two events of a Poisson process of one a second.
fn gap(rng: &mut SmallRng) -> f64 {
    // 1 - u is never 0, so that the logarithm is finite.
    let u: f64 = 1.0 - f64::from(rng.uniform(0u32, u32::MAX - 1)) / f64::from(u32::MAX);
    -u.ln()
}

/// When the next transaction is due after the one that was at `intended`; `None` for never.
fn next(intended: Instant, now: Instant, per_second: f64, gap: f64) -> Option<Instant> {
    let since = now.checked_sub(BEHIND_MAX).map_or(intended, |earliest| intended.max(earliest));
    let wait = gap / per_second;
    // What is more than a day away is not waited for: the rate will have changed.
    (per_second > 0.0 && wait < 86_400.0).then(|| since + Duration::from_secs_f64(wait))
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due.into()).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;
    use crate::connection::ServerError;
    use crate::load::Outcome;

    /// Counts what it runs; the first is a conflict, and the one after `left` fails.
    struct Counted {
        ran: Rc<Cell<u32>>,
        conflicts: u32,
        left: u32,
    }

    impl Transactor for Counted {
        fn choose(&mut self) -> usize {
            0
        }

        async fn run(&mut self, _kind: usize) -> Result<Outcome> {
            tokio::task::yield_now().await;
            if self.conflicts > 0 {
                self.conflicts -= 1;
                return Err(ServerError { code: "40001".into(), message: "scripted".into() }.into());
            }
            if self.left == 0 {
                return Err("enough".into());
            }
            self.left -= 1;
            self.ran.set(self.ran.get() + 1);
            Ok(Outcome::Committed)
        }
    }

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime")
    }

    #[test]
    fn without_a_rate_it_runs_on_until_it_fails_or_nobody_steers() {
        let (sender, rate) = watch::channel(None);
        let ran = Rc::new(Cell::new(0));
        let mut client = Counted { ran: ran.clone(), conflicts: 1, left: 50 };
        let mut latencies = 0;
        let outcome = runtime().block_on(run(&mut client, rate.clone(), 1, |_| latencies += 1));
        assert_eq!(outcome.expect_err("the 51st fails").to_string(), "enough");
        assert_eq!((ran.get(), latencies), (50, 50), "a conflict is run again and counts once");
        drop(sender);
        client.left = 50;
        runtime().block_on(run(&mut client, rate, 1, |_| {})).expect("nobody steers");
        assert_eq!(ran.get(), 50);
    }

    #[test]
    fn a_rate_of_nothing_waits_for_another_one() {
        let (sender, rate) = watch::channel(Some(0.0));
        let ran = Rc::new(Cell::new(0));
        let mut client = Counted { ran: ran.clone(), conflicts: 0, left: 5 };
        let outcome = runtime().block_on(async {
            let running = run(&mut client, rate, 1, |_| {});
            let steering = async {
                for _ in 0..100 {
                    tokio::task::yield_now().await;
                }
                assert_eq!(ran.get(), 0, "none at a rate of 0");
                sender.send(Some(1e6)).expect("it listens");
                std::future::pending::<()>().await;
            };
            tokio::select! { outcome = running => outcome, () = steering => unreachable!("it is pending") }
        });
        assert!(outcome.is_err() && ran.get() == 5);
    }

    #[test]
    fn the_times_are_those_of_the_rate() {
        let start = Instant::now();
        let mut rng = SmallRng::seed_from_u64(7);
        let mut at = start;
        for _ in 0..20_000 {
            at = next(at, at, 100.0, gap(&mut rng)).expect("due");
        }
        let seconds = (at - start).as_secs_f64();
        assert!((190.0..210.0).contains(&seconds), "20,000 at 100 a second took {seconds} s");
        assert_eq!(next(start, start, 0.0, 1.0), None);
        assert_eq!(next(start, start, 1e-9, 1.0), None);
        let late = start + Duration::from_secs(60);
        assert_eq!(next(start, late, 1.0, 1.0), Some(late - BEHIND_MAX + Duration::from_secs(1)));
    }
}
