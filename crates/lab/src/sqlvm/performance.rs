//! How T1 does while neighbours arrive one after the other: one run of figure 5 or table 1, under one policy, on one server.

use std::time::Duration;

use workloads::load::Pace;
use workloads::report::RunReport;

use super::actors::{Acting, Actor, Part};
use super::host::{Host, Policy, Promise};
use super::stage::Stage;
use crate::Result;
use crate::stats;
use crate::world::{clock, process};

/// The tenant that is looked at.
pub(super) const T1: &str = "t1";

/// Who runs what, and when.
#[derive(Clone, Debug)]
pub(super) struct Script {
    pub(super) t1: Actor,
    /// In the order of their arrival.
    pub(super) neighbours: Vec<Actor>,
    /// From the beginning to the first arrival, and from each to the next.
    pub(super) gap: Duration,
    /// From the last arrival to the end: what is measured.
    pub(super) measured: Duration,
}

/// What T1 and its neighbours are promised.
#[derive(Clone, Copy, Debug)]
pub(super) struct Promises {
    pub(super) t1: Promise,
    pub(super) neighbour: Promise,
}

/// What came of a run.
pub(super) struct Performance {
    /// T1's over the measured time.
    pub(super) report: RunReport,
    /// Transactions of T1 in each second from the beginning.
    pub(super) per_second: Vec<f64>,
    /// T1's cores in each second from the beginning, about.
    pub(super) cpu: Vec<f64>,
    /// T1's cores over the measured time.
    pub(super) share: f64,
    /// What T1 missed over the measured time of the processor and of the I/O that it was owed, by the ledger, as parts of that.
    pub(super) missed: [Option<f64>; 2],
    /// Cores that the server used over the measured time.
    pub(super) server_cpu: f64,
    /// Of its one core, what the load of all tenants used over the measured time.
    pub(super) load_cpu: f64,
    /// Seconds from the beginning at which neighbours arrived.
    pub(super) arrivals: Vec<f64>,
    /// Neighbours whose clients failed, with why.
    pub(super) failures: Vec<String>,
}

impl Script {
    /// T1 by itself.
    pub(super) fn alone(&self) -> Script {
        Script { neighbours: Vec::new(), ..self.clone() }
    }

    /// How long it takes.
    pub(super) fn length(&self) -> Duration {
        // By itself T1 gets going for two gaps: see `warm_up`.
        let gaps = if self.neighbours.is_empty() { 2 } else { self.neighbours.len() as u32 };
        self.gap * gaps + self.measured
    }

    /// Lets T1, which has nobody to wait for, read what it works with as fast as it can, and then get used to what it is promised. Its copy begins
    /// without a page in memory, and at 200 I/Os a second would still be reading at the end.
    async fn warm_up(&self, stage: &Stage, host: &Host, promise: Promise) -> Result<()> {
        host.promise(T1, promise.at_any_rate(), 0).await?;
        stage.pass(self.gap).await;
        host.promise(T1, promise, 0).await?;
        stage.pass(self.gap).await;
        Ok(())
    }

    /// Runs it. T1 and its neighbours are new copies of their models, which have to be there.
    pub(super) async fn run(
        &self,
        stage: &Stage,
        host: &Host,
        policy: Policy,
        promises: Promises,
    ) -> Result<Performance> {
        host.policy(policy).await?;
        let names: Vec<String> = (1..=self.neighbours.len()).map(|number| format!("n{number}")).collect();
        stage.say("making copies of the models");
        host.copy(T1, self.t1.template()).await?;
        host.promise(T1, promises.t1, names.len()).await?;
        for (name, actor) in names.iter().zip(&self.neighbours) {
            host.copy(name, actor.template()).await?;
            host.promise(name, promises.neighbour, names.len()).await?;
        }
        host.quiet(stage).await?;
        let all: Vec<String> = [T1.to_owned()].into_iter().chain(names.iter().cloned()).collect();
        let sampler = host.sampler(&all).await?;
        let ramp = self.length() - self.measured;
        let part = |actor: &Actor, seed: u64, before: Duration| Part {
            clients: actor.clients(),
            pace: Pace::Closed,
            warm_up: ramp.saturating_sub(before),
            run: self.measured,
            seed: stage.options.seed.wrapping_add(seed),
        };
        let began_us = clock::now_us();
        let t1 = self.t1.act(&host.url(T1), part(&self.t1, 0, Duration::ZERO))?;
        let watched = watch(&t1);
        let (mut acting, mut arrivals) = (Vec::new(), Vec::new());
        stage.say(&format!("{} as T1, {}", self.t1.name(), policy.name()));
        let mut passed = Duration::ZERO;
        for (number, (name, actor)) in (1..).zip(names.iter().zip(&self.neighbours)) {
            stage.pass(self.gap).await;
            passed += self.gap;
            stage.say(&format!(
                "{} as T1, {}: {number} of {} neighbours",
                self.t1.name(),
                policy.name(),
                names.len()
            ));
            arrivals.push((clock::now_us() - began_us) as f64 / 1e6);
            acting.push((name.clone(), actor.act(&host.url(name), part(actor, number, passed))?));
        }
        if names.is_empty() {
            self.warm_up(stage, host, promises.t1).await?;
        }
        let load = || process::cpu_seconds(std::process::id());
        let (measuring, load_before) = (tokio::time::Instant::now(), load());
        stage.pass(self.measured).await;
        let load_cpu = (load() - load_before) / measuring.elapsed().as_secs_f64();
        let ended_us = clock::now_us();
        let measured_us = self.measured.as_micros() as u64;
        let samples = sampler.finish();
        let report = t1.report().await?;
        let mut failures = Vec::new();
        for (name, neighbour) in acting {
            failures.extend(neighbour.failure().await.map(|why| format!("{name}: {why}")));
        }
        let from_us = ended_us - measured_us;
        let per_second = watched.await?;
        let missed = host.missed(T1, from_us, ended_us).await?;
        Ok(Performance {
            report,
            per_second,
            cpu: samples.tenant_series(T1, began_us, ended_us, |counts| counts.cpu_seconds),
            share: samples.tenant_rate(T1, from_us, ended_us, |counts| counts.cpu_seconds).unwrap_or(0.0),
            missed,
            server_cpu: samples.rate(from_us, ended_us, |sample| sample.server_cpu_seconds).unwrap_or(0.0),
            load_cpu,
            arrivals,
            failures,
        })
    }
}

/// Counts a workload's transactions second by second until it ends.
fn watch(acting: &Acting) -> tokio::task::JoinHandle<Vec<f64>> {
    let live = std::sync::Arc::downgrade(&acting.live);
    tokio::task::spawn_local(async move {
        let mut tick = tokio::time::interval(Duration::from_secs(1));
        tick.tick().await;
        let (mut counts, mut before) = (Vec::new(), 0);
        loop {
            tick.tick().await;
            let Some(live) = live.upgrade() else { return counts };
            let count = live.transactions.load(std::sync::atomic::Ordering::Relaxed);
            counts.push((count - before) as f64);
            before = count;
        }
    })
}

impl Performance {
    /// T1's transactions a second over the measured time.
    pub(super) fn rate(&self) -> f64 {
        self.report.transactions_per_second
    }

    /// p99 and deviation of a kind of transaction in milliseconds; `None` if it never ran.
    pub(super) fn latency(&self, kind: &str) -> Option<(f64, f64)> {
        let found = self.report.kinds.iter().find(|found| found.name == kind)?;
        (found.latency.count > 0).then_some((found.latency.p99_ms, found.latency.deviation_ms))
    }
}

/// The run with the median throughput.
pub(super) fn median_run(runs: &[Performance]) -> &Performance {
    let mut order: Vec<&Performance> = runs.iter().collect();
    order.sort_by(|a, b| a.rate().total_cmp(&b.rate()));
    order[(order.len() - 1) / 2]
}

/// Throughput of all repetitions, in words.
pub(super) fn rates(runs: &[Performance]) -> String {
    let rates = stats::summary(&runs.iter().map(Performance::rate).collect::<Vec<_>>());
    let median = crate::report::figure(rates.median);
    if rates.count > 1 {
        format!("{median} ({} to {})", crate::report::figure(rates.least), crate::report::figure(rates.most))
    } else {
        median
    }
}
