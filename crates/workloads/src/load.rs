//! How load is put on a server: closed loop, open loop at a rate, or with think time; counted after a warm-up.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::Result;
use crate::connection::ServerError;
use crate::report::{KindReport, Latencies, LatencySummary};
use crate::series::Series;

/// When a client begins its next transaction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// As soon as the last one ended.
    Closed,
    /// At fixed times, so many a second for each client; latency counts from the intended start.
    Open { per_second: f64 },
    /// This long after the last one ended.
    Think(Duration),
}

impl fmt::Display for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pace::Closed => f.write_str("closed loop, no think time"),
            Pace::Open { per_second } => write!(f, "open loop, {per_second} transactions/s a client"),
            Pace::Think(pause) => write!(f, "think time {} ms", pause.as_millis()),
        }
    }
}

/// Length and pace of a run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub pace: Pace,
    pub warm_up: Duration,
    pub run: Duration,
    /// A client ends after so many transactions that began after the warm-up, should the run's time not end before; `None` for no limit.
    pub transactions: Option<u64>,
    /// Length of the intervals of the report's series; `None` for no series.
    pub series: Option<Duration>,
    /// Keep every transaction's end and latency.
    pub log: bool,
}

/// A transaction in the log of a run.
#[derive(Clone, Copy, Debug)]
pub struct Logged {
    pub finished: Instant,
    pub latency: Duration,
}

/// How one transaction ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    Committed,
    /// Rolled back because the workload wants it.
    RolledBack,
}

/// Counters that others may watch while the run goes on: one set a tenant.
#[derive(Debug, Default)]
pub struct Live {
    pub transactions: AtomicU64,
    /// Since they were last taken; `None` if nobody will.
    latencies: Option<Mutex<Latencies>>,
}

impl Live {
    /// Counters that keep latencies, too.
    pub fn with_latencies() -> Live {
        Live { latencies: Some(Mutex::default()), ..Live::default() }
    }

    /// Counters that keep latencies as [`Latencies::coarse`].
    pub fn with_coarse_latencies() -> Live {
        Live { latencies: Some(Mutex::new(Latencies::coarse())), ..Live::default() }
    }

    /// Counts a transaction.
    pub fn record(&self, latency: Duration) {
        self.transactions.fetch_add(1, Ordering::Relaxed);
        if let Some(latencies) = &self.latencies {
            latencies.lock().unwrap_or_else(PoisonError::into_inner).record(latency);
        }
    }

    /// The latencies recorded since the last call; none unless made by [`Live::with_latencies`].
    pub fn take_latencies(&self) -> Latencies {
        let latencies =
            self.latencies.as_ref().map(|latencies| latencies.lock().unwrap_or_else(PoisonError::into_inner));
        latencies.map(|mut latencies| latencies.take()).unwrap_or_default()
    }
}

/// What the clients of a run measured, all in one place: a histogram each of hundreds of clients would not stay in the caches.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    kinds: Vec<KindTally>,
    tenants: Vec<u64>,
    /// From the end of the warm-up to the last measured transaction's end.
    last: Duration,
    pub(crate) series: Option<Series>,
    /// Empty unless the plan asks for it.
    pub(crate) log: Vec<Logged>,
}

#[derive(Clone, Debug, Default)]
struct KindTally {
    /// Of all that began within the measured time.
    latencies: Latencies,
    /// Those of them that ended within it, which rates are of.
    ended: u64,
    rolled_back: u64,
    retried: u64,
}

/// A transaction that is counted.
struct Measured {
    tenant: usize,
    kind: usize,
    /// Its end, from the end of the warm-up.
    after: Duration,
    latency: Duration,
    outcome: Outcome,
}

impl Tally {
    /// `series` is the length of its intervals, if there is to be one.
    pub fn new(tenants: usize, kinds: usize, series: Option<Duration>) -> Tally {
        Tally {
            kinds: vec![KindTally::default(); kinds],
            tenants: vec![0; tenants],
            last: Duration::ZERO,
            series: series.map(|interval| Series::new(tenants, kinds, interval)),
            log: Vec::new(),
        }
    }

    /// A transaction that ends after the measured time is slow, or waited for one that was: its latency counts, and nothing else of it.
    fn record(&mut self, transaction: &Measured, is_in_time: bool) {
        let kind = &mut self.kinds[transaction.kind];
        kind.latencies.record(transaction.latency);
        if !is_in_time {
            return;
        }
        kind.ended += 1;
        kind.rolled_back += u64::from(transaction.outcome == Outcome::RolledBack);
        self.tenants[transaction.tenant] += 1;
        self.last = self.last.max(transaction.after);
        if let Some(series) = &mut self.series {
            series.record(transaction.tenant, transaction.kind, transaction.after);
        }
    }

    /// Ends the count; how long was measured: the plan's time, or less if it limits transactions and they ended earlier.
    pub(crate) fn finish(&mut self, plan: &Plan) -> Duration {
        let measured = if plan.transactions.is_some() { self.last.min(plan.run) } else { plan.run };
        if let Some(series) = &mut self.series {
            series.finish(measured);
        }
        measured
    }

    /// Transactions of all kinds.
    pub fn count(&self) -> u64 {
        self.tenants.iter().sum()
    }

    /// Transactions of each tenant.
    pub fn tenant_counts(&self) -> impl Iterator<Item = u64> {
        self.tenants.iter().copied()
    }

    pub fn kind_count(&self, kind: usize) -> u64 {
        self.kinds[kind].ended
    }

    pub fn reports(&self, names: &[&'static str]) -> Vec<KindReport> {
        let kinds = names.iter().zip(&self.kinds);
        kinds
            .map(|(name, kind)| KindReport {
                name,
                latency: LatencySummary { count: kind.ended, ..kind.latencies.summary() },
                rolled_back: kind.rolled_back,
                retried: kind.retried,
            })
            .collect()
    }
}

/// Something that runs one transaction after another over a connection of its own.
pub trait Transactor {
    /// The kind of the next transaction, by number.
    fn choose(&mut self) -> usize;
    /// Runs a transaction of that kind. An `Err` that [`is_retryable`] is tried again with the same choice.
    fn run(&mut self, kind: usize) -> impl Future<Output = Result<Outcome>>;
    /// The next transaction belongs to the last one's visit: it begins at once, whatever the pace.
    fn follows_on(&self) -> bool {
        false
    }
}

/// A serialization failure or a deadlock: the transaction may succeed when run again.
pub fn is_retryable(error: &crate::Error) -> bool {
    let said = error.downcast_ref::<ServerError>();
    said.is_some_and(|said| matches!(said.code.as_str(), "40001" | "40P01"))
}

/// Runs one client to the plan's end, which is counted from `start`.
///
/// # Errors
/// The first error that is not [`is_retryable`].
pub async fn run_client(
    mut client: impl Transactor,
    tenant: usize,
    plan: Plan,
    start: Instant,
    live: Arc<Live>,
    tally: Rc<RefCell<Tally>>,
) -> Result<()> {
    let counted_from = start + plan.warm_up;
    let end = counted_from + plan.run;
    let mut left = plan.transactions.unwrap_or(u64::MAX);
    let mut intended = Instant::now();
    let mut follows_on = false;
    while left > 0 && intended < end {
        let mut began = Instant::now();
        if let (Pace::Open { per_second }, false) = (plan.pace, follows_on) {
            intended += Duration::from_secs_f64(1.0 / per_second);
            if intended >= end {
                break;
            }
            tokio::time::sleep_until(intended.into()).await;
            began = intended;
        }
        let is_warm = began >= counted_from;
        left -= u64::from(is_warm);
        let kind = client.choose();
        let outcome = loop {
            match client.run(kind).await {
                Ok(outcome) => break outcome,
                Err(error) if is_retryable(&error) => {
                    tally.borrow_mut().kinds[kind].retried += u64::from(is_warm);
                }
                Err(error) => return Err(error),
            }
        };
        let finished = Instant::now();
        let latency = finished - began;
        live.record(latency);
        if is_warm {
            let mut tally = tally.borrow_mut();
            let transaction = Measured { tenant, kind, after: finished - counted_from, latency, outcome };
            tally.record(&transaction, finished <= end);
            if plan.log {
                tally.log.push(Logged { finished, latency });
            }
        }
        follows_on = client.follows_on();
        match plan.pace {
            Pace::Closed => intended = finished,
            Pace::Open { .. } => {}
            Pace::Think(_) if follows_on => intended = finished,
            Pace::Think(pause) => {
                intended = finished + pause;
                if left > 0 && intended < end {
                    tokio::time::sleep_until(intended.into()).await;
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kinds 0 and 1 in turn, the latter following on; what is in `fails` fails as often before it succeeds.
    struct Scripted {
        next: usize,
        fails: u32,
        code: &'static str,
    }

    impl Transactor for Scripted {
        fn choose(&mut self) -> usize {
            self.next += 1;
            (self.next - 1) % 2
        }

        async fn run(&mut self, kind: usize) -> Result<Outcome> {
            if self.fails > 0 {
                self.fails -= 1;
                return Err(ServerError { code: self.code.into(), message: "scripted".into() }.into());
            }
            Ok(if kind == 1 { Outcome::RolledBack } else { Outcome::Committed })
        }

        fn follows_on(&self) -> bool {
            !self.next.is_multiple_of(2)
        }
    }

    /// The first transaction takes as long as is said, the others nothing.
    struct SlowFirst(Duration);

    impl Transactor for SlowFirst {
        fn choose(&mut self) -> usize {
            0
        }

        async fn run(&mut self, _kind: usize) -> Result<Outcome> {
            tokio::time::sleep(std::mem::take(&mut self.0)).await;
            Ok(Outcome::Committed)
        }
    }

    /// What would have shown a server that stands still as the run ends.
    #[test]
    fn what_ends_after_the_run_has_its_latency_and_no_part_in_the_rate() {
        let plan = Plan {
            pace: Pace::Open { per_second: 20.0 },
            warm_up: Duration::ZERO,
            run: Duration::from_millis(200),
            transactions: None,
            series: None,
            log: true,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        let tally = Rc::new(RefCell::new(Tally::new(1, 1, None)));
        let client = SlowFirst(Duration::from_millis(400));
        let running = run_client(client, 0, plan, Instant::now(), Arc::default(), Rc::clone(&tally));
        runtime.block_on(running).expect("nothing fails");
        let tally = tally.take();
        let told = tally.reports(&["one"])[0].latency;
        assert_eq!((tally.count(), tally.kind_count(0), told.count), (0, 0, 0));
        // Three were to begin: after 50, 100 and 150 ms.
        assert_eq!(tally.log.len(), 3);
        assert!(told.p50_ms >= 340.0 && told.max_ms >= 399.0, "{told:?}");
    }

    const HOUR: Duration = Duration::from_secs(3600);

    fn run(pace: Pace, transactions: u64, client: impl Transactor) -> (Result<()>, Tally, u64) {
        let series = Some(HOUR);
        let plan = Plan {
            pace,
            warm_up: Duration::ZERO,
            run: HOUR,
            transactions: Some(transactions),
            series,
            log: true,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        let tally = Rc::new(RefCell::new(Tally::new(3, 2, series)));
        let live = Arc::new(Live::default());
        let running = run_client(client, 1, plan, Instant::now(), Arc::clone(&live), Rc::clone(&tally));
        let outcome = runtime.block_on(running);
        let mut tally = tally.take();
        let measured = tally.finish(&plan);
        assert!(measured < HOUR, "the transactions end the run, not its time");
        (outcome, tally, live.transactions.load(Ordering::Relaxed))
    }

    #[test]
    fn each_transaction_is_counted_once_wherever_it_is_told() {
        let (outcome, tally, live) = run(Pace::Closed, 5, Scripted { next: 0, fails: 0, code: "" });
        outcome.expect("nothing fails");
        assert_eq!((tally.count(), tally.kind_count(0), tally.kind_count(1), live), (5, 3, 2, 5));
        assert_eq!(tally.tenant_counts().collect::<Vec<_>>(), [0, 5, 0]);
        let reports = tally.reports(&["one", "other"]);
        assert_eq!((reports[0].rolled_back, reports[1].rolled_back), (0, 2));
        assert_eq!(tally.log.len(), 5);
        let series = tally.series.expect("it was asked for");
        assert_eq!(series.counts, [[[0], [0]], [[3], [2]], [[0], [0]]]);
    }

    #[test]
    fn a_conflict_is_tried_again_and_told_another_error_ends_the_client() {
        let (outcome, tally, _) = run(Pace::Closed, 2, Scripted { next: 0, fails: 3, code: "40001" });
        outcome.expect("conflicts go away");
        let reports = tally.reports(&["one", "other"]);
        assert_eq!((tally.count(), reports[0].retried, reports[1].retried), (2, 3, 0));
        let (outcome, tally, _) = run(Pace::Closed, 2, Scripted { next: 0, fails: 1, code: "23505" });
        let error = outcome.expect_err("a client does not go on after another error");
        assert!(error.to_string().contains("23505"), "{error}");
        assert_eq!(tally.count(), 0);
    }

    /// Each takes a millisecond, and fails once before.
    struct Contended(bool);

    impl Transactor for Contended {
        fn choose(&mut self) -> usize {
            0
        }

        async fn run(&mut self, _kind: usize) -> Result<Outcome> {
            self.0 = !self.0;
            tokio::time::sleep(Duration::from_millis(1)).await;
            match self.0 {
                true => Err(ServerError { code: "40001".into(), message: "scripted".into() }.into()),
                false => Ok(Outcome::Committed),
            }
        }
    }

    #[test]
    fn the_warm_up_takes_none_of_the_transactions() {
        let plan = Plan {
            pace: Pace::Closed,
            warm_up: Duration::from_millis(100),
            run: HOUR,
            transactions: Some(3),
            series: None,
            log: false,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        let tally = Rc::new(RefCell::new(Tally::new(1, 1, None)));
        let client = run_client(Contended(false), 0, plan, Instant::now(), Arc::default(), Rc::clone(&tally));
        runtime.block_on(client).expect("conflicts go away");
        let tally = tally.take();
        assert_eq!((tally.count(), tally.reports(&["one"])[0].retried), (3, 3));
    }

    #[test]
    fn what_follows_on_does_not_wait_and_nobody_waits_for_nothing() {
        // Half an hour of thinking after a visit of two transactions, the last of this run.
        let think = Pace::Think(HOUR / 2);
        let (outcome, tally, _) = run(think, 2, Scripted { next: 0, fails: 0, code: "" });
        outcome.expect("nothing fails");
        assert_eq!(tally.count(), 2);
        // A visit begins at its time, an hour from now, which is the end.
        let rarely = Pace::Open { per_second: 1.0 / HOUR.as_secs_f64() };
        let (outcome, tally, _) = run(rarely, 2, Scripted { next: 0, fails: 0, code: "" });
        outcome.expect("nothing fails");
        assert_eq!(tally.count(), 0);
    }

    /// 50 ms apart, while the first takes 400: the second begins 350 ms late, the third 300, and so on. A pause of the machine
    /// makes all of it longer.
    #[test]
    fn the_latency_of_an_open_loop_counts_from_the_intended_start() {
        let (apart, first) = (Duration::from_millis(50), Duration::from_millis(400));
        let pace = Pace::Open { per_second: 1.0 / apart.as_secs_f64() };
        let (outcome, tally, _) = run(pace, 6, SlowFirst(first));
        outcome.expect("nothing fails");
        let latencies: Vec<Duration> = tally.log.iter().map(|logged| logged.latency).collect();
        assert_eq!(latencies.len(), 6);
        for (late, latency) in (0..).zip(&latencies) {
            assert!(*latency >= first - apart * late, "transaction {late} of {latencies:?}");
        }
        let reports = tally.reports(&["one", "other"]);
        // The report tells the same: 275 ms on average. Three digits are kept.
        assert!(reports[0].latency.mean_ms >= 274.0, "{:?}", reports[0].latency);

        // In a closed loop only the first is slow: nobody intended to begin the others earlier.
        let (outcome, tally, _) = run(Pace::Closed, 6, SlowFirst(first));
        outcome.expect("nothing fails");
        assert!(tally.log[0].latency >= first);
        let others: Duration = tally.log[1..].iter().map(|logged| logged.latency).sum();
        let ended = tally.log[5].finished - tally.log[0].finished;
        assert!(others <= ended, "{others:?} of transactions within {ended:?}");
    }
}
