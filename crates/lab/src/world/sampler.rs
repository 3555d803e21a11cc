//! What the system and the server count, once a second, beside an experiment.
//!
//! Of a tenant: its processor time (a server of ours tells it; of PostgreSQL it is that of the database's processes), and of ours
//! its I/Os, the pages read and written for it, and how long statements waited for pages. Of the server: all its processor time, and
//! the bytes that the kernel read and wrote for it. Everything is a sum since the start; differences of samples are what was between.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio_postgres::Client;
use workloads::load::Live;

use super::cgroups::Groups;
use super::metrics::Metrics;
use super::{Postgres, Rowhouse, clock, process};
use crate::Result;

const PERIOD: Duration = Duration::from_secs(1);
const PAGE_WAITS: &str = "select tenant, seconds from rowhouse.tenant_waits where wait = 'page read'";

/// Sums of one tenant.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Counts {
    pub cpu_seconds: f64,
    /// Of its promised processor time what it had tasks for, and of that what it did not get, by the ledger's sums.
    pub cpu_demanded_seconds: f64,
    pub cpu_missed_seconds: f64,
    /// I/Os on all volumes, of what was promised those demanded and missed, and bytes, by the ledger's sums.
    pub io: f64,
    pub io_demanded: f64,
    pub io_missed: f64,
    pub io_bytes: f64,
    /// Pages read from and written to the data file, by the storage layer's own count.
    pub pages_read: f64,
    pub pages_written: f64,
    /// Seconds that statements waited for pages, summed over those that waited.
    pub page_wait_seconds: f64,
    /// Memory of its pages at that moment: no sum.
    pub resident_bytes: f64,
    /// Transactions of its clients that are watched ([`Sampler::watch`]).
    pub transactions: f64,
}

/// Sums at one moment.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    pub at_us: u64,
    pub tenants: BTreeMap<String, Counts>,
    pub server_cpu_seconds: f64,
    pub disk_bytes: f64,
}

/// Samples of one server, taken until [`Sampler::finish`].
pub struct Sampler {
    samples: Rc<RefCell<Vec<Sample>>>,
    watched: Rc<RefCell<Vec<(String, Arc<Live>)>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Sampler {
    /// Begins with a server of ours. How long statements waited is left out.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn of_rowhouse(server: &Rowhouse, tenants: &[String]) -> Result<Sampler> {
        let (metrics, pid, tenants) = (server.metrics_address().to_owned(), server.pid(), tenants.to_vec());
        Metrics::fetch(&metrics).await?;
        Ok(Sampler::begin(async move || {
            let metrics = Metrics::fetch(&metrics).await?;
            Ok(Sample {
                at_us: clock::now_us(),
                tenants: tenants.iter().map(|tenant| (tenant.clone(), counts(&metrics, tenant))).collect(),
                server_cpu_seconds: process::cpu_seconds(pid),
                disk_bytes: process::disk_bytes(pid) as f64,
            })
        }))
    }

    /// Begins to ask a server of ours how long statements waited for pages, and nothing else: that is asked by SQL, on the analytical
    /// path, which is slow to answer where the worker is busy.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn of_waits(server: &Rowhouse) -> Result<Sampler> {
        let admin = server.admin().await?;
        Ok(Sampler::begin(async move || {
            let mut sample = Sample::default();
            for row in admin.query(PAGE_WAITS, &[]).await? {
                let counts = Counts { page_wait_seconds: row.get(1), ..Counts::default() };
                sample.tenants.insert(row.get(0), counts);
            }
            sample.at_us = clock::now_us();
            Ok(sample)
        }))
    }

    /// Begins with a PostgreSQL server. Where there are control groups, its databases' processes are put into them.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn of_postgres(server: &Postgres, groups: Option<Rc<RefCell<Groups>>>) -> Result<Sampler> {
        let (admin, pid) = (server.admin().await?, server.pid());
        let seen = RefCell::new(Processes::default());
        Ok(Sampler::begin(async move || {
            let sql = "select pid, datname from pg_stat_activity where backend_type = 'client backend'";
            let found = databases(&admin, sql).await?;
            let mut seen = seen.borrow_mut();
            for (backend, database) in &found {
                if let Some(groups) = &groups
                    && !seen.is_placed(*backend)
                {
                    groups.borrow().put(database, *backend);
                }
            }
            Ok(seen.sample(pid, &found))
        }))
    }

    fn begin(take: impl AsyncFn() -> Result<Sample> + 'static) -> Sampler {
        let samples: Rc<RefCell<Vec<Sample>>> = Rc::default();
        let watched: Rc<RefCell<Vec<(String, Arc<Live>)>>> = Rc::default();
        let (kept, clients) = (Rc::clone(&samples), Rc::clone(&watched));
        let task = tokio::task::spawn_local(async move {
            let mut tick = tokio::time::interval(PERIOD);
            tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
            loop {
                tick.tick().await;
                // A server that is too busy to answer has one sample less; one that is gone is found out by its clients.
                if let Ok(mut sample) = take().await {
                    for (tenant, live) in clients.borrow().iter() {
                        let done = live.transactions.load(Ordering::Relaxed) as f64;
                        sample.tenants.entry(tenant.clone()).or_default().transactions += done;
                    }
                    kept.borrow_mut().push(sample);
                }
            }
        });
        Sampler { samples, watched, task }
    }

    /// Counts the transactions of some clients as the tenant's from now on, beside those of others that are watched.
    pub fn watch(&self, tenant: &str, live: &Arc<Live>) {
        self.watched.borrow_mut().push((tenant.into(), Arc::clone(live)));
    }

    /// The samples so far.
    pub fn so_far(&self) -> Samples {
        Samples(self.samples.borrow().clone())
    }

    /// Ends with all samples.
    pub fn finish(self) -> Samples {
        self.task.abort();
        Samples(self.samples.take())
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn counts(metrics: &Metrics, tenant: &str) -> Counts {
    Counts {
        cpu_seconds: metrics.of(tenant, "cpu_seconds_total"),
        cpu_demanded_seconds: metrics.of(tenant, "cpu_demanded_seconds_total"),
        cpu_missed_seconds: metrics.of(tenant, "cpu_missed_seconds_total"),
        io: metrics.of(tenant, "io_total"),
        io_demanded: metrics.of(tenant, "io_demanded_total"),
        io_missed: metrics.of(tenant, "io_missed_total"),
        io_bytes: metrics.of(tenant, "io_bytes_total"),
        pages_read: metrics.of(tenant, "page_reads_total"),
        pages_written: metrics.of(tenant, "page_writes_total"),
        page_wait_seconds: 0.0,
        resident_bytes: metrics.of(tenant, "resident_bytes"),
        transactions: 0.0,
    }
}

async fn databases(admin: &Client, sql: &str) -> Result<Vec<(u32, String)>> {
    let rows = admin.query(sql, &[]).await?;
    Ok(rows.iter().map(|row| (row.get::<_, i32>(0).cast_unsigned(), row.get(1))).collect())
}

/// PostgreSQL's processes, ended ones included, each with the processor time it was last seen with.
#[derive(Default)]
struct Processes(BTreeMap<u32, (Option<String>, f64)>);

impl Processes {
    /// Whether it is known whose it is: a backend that is still starting is a child of the server, and in no database yet.
    fn is_placed(&self, pid: u32) -> bool {
        self.0.get(&pid).is_some_and(|(database, _)| database.is_some())
    }

    fn sample(&mut self, server: u32, backends: &[(u32, String)]) -> Sample {
        for pid in process::children(server).into_iter().chain([server]) {
            self.0.entry(pid).or_default().1 = process::cpu_seconds(pid);
        }
        for (pid, database) in backends {
            self.0.entry(*pid).or_default().0 = Some(database.clone());
        }
        let mut sample = Sample { at_us: clock::now_us(), ..Sample::default() };
        for (database, cpu) in self.0.values() {
            sample.server_cpu_seconds += cpu;
            if let Some(database) = database {
                sample.tenants.entry(database.clone()).or_default().cpu_seconds += cpu;
            }
        }
        sample
    }
}

/// Samples in their order.
#[derive(Clone, Debug, Default)]
pub struct Samples(Vec<Sample>);

impl Samples {
    /// The first and last sample within two moments, if they are two.
    fn ends(&self, from_us: u64, to_us: u64) -> Option<(&Sample, &Sample)> {
        let mut within = self.0.iter().filter(|sample| (from_us..=to_us).contains(&sample.at_us));
        let first = within.next()?;
        Some((first, within.next_back()?))
    }

    /// What a sum grew by in a second, between two moments; `None` without two samples there.
    pub fn rate(&self, from_us: u64, to_us: u64, value: impl Fn(&Sample) -> f64) -> Option<f64> {
        let (first, last) = self.ends(from_us, to_us)?;
        Some((value(last) - value(first)) / ((last.at_us - first.at_us) as f64 / 1e6))
    }

    /// The same of a tenant's sum.
    pub fn tenant_rate(
        &self,
        tenant: &str,
        from_us: u64,
        to_us: u64,
        value: impl Fn(&Counts) -> f64,
    ) -> Option<f64> {
        self.rate(from_us, to_us, |sample| sample.tenants.get(tenant).map_or(0.0, &value))
    }

    /// A tenant's value in each sample, with its moment.
    pub fn tenant_values(
        &self,
        tenant: &str,
        from_us: u64,
        to_us: u64,
        value: impl Fn(&Counts) -> f64,
    ) -> Vec<(u64, f64)> {
        let within = self.0.iter().filter(|sample| (from_us..=to_us).contains(&sample.at_us));
        within.map(|sample| (sample.at_us, sample.tenants.get(tenant).map_or(0.0, &value))).collect()
    }

    /// What a tenant's sum grew by in each second after the first sample; of seconds without a sample all have what they have together.
    pub fn tenant_series(
        &self,
        tenant: &str,
        from_us: u64,
        to_us: u64,
        value: impl Fn(&Counts) -> f64,
    ) -> Vec<f64> {
        let within: Vec<_> = self.0.iter().filter(|s| (from_us..=to_us).contains(&s.at_us)).collect();
        let of = |sample: &Sample| sample.tenants.get(tenant).map_or(0.0, &value);
        let seconds = |from: &Sample, to: &Sample| (to.at_us - from.at_us) as f64 / 1e6;
        let mut series = Vec::new();
        for pair in within.windows(2) {
            let rate = (of(pair[1]) - of(pair[0])) / seconds(pair[0], pair[1]);
            let second = seconds(within[0], pair[1]).round() as usize;
            series.resize(second.max(series.len()), rate);
        }
        series
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples() -> Samples {
        let sample = |second: u64, cpu: f64| Sample {
            at_us: second * 1_000_000,
            tenants: [("t1".to_owned(), Counts { cpu_seconds: cpu, ..Counts::default() })].into(),
            server_cpu_seconds: cpu * 2.0,
            disk_bytes: 0.0,
        };
        Samples(vec![sample(10, 1.0), sample(11, 1.5), sample(13, 2.0)])
    }

    #[test]
    fn a_rate_is_between_the_samples_within() {
        let samples = samples();
        let cpu = |counts: &Counts| counts.cpu_seconds;
        assert_eq!(samples.tenant_rate("t1", 10_000_000, 12_000_000, cpu), Some(0.5));
        assert_eq!(samples.rate(0, 99_000_000, |sample| sample.server_cpu_seconds), Some(2.0 / 3.0));
        assert_eq!(samples.tenant_rate("t1", 11_500_000, 99_000_000, cpu), None, "one sample is no rate");
        assert_eq!(samples.tenant_series("t1", 0, 99_000_000, cpu), [0.5, 0.25, 0.25]);
        assert_eq!(samples.tenant_series("t2", 0, 99_000_000, cpu), [0.0, 0.0, 0.0]);
        assert_eq!(
            samples.tenant_values("t1", 11_000_000, 13_000_000, cpu),
            [(11_000_000, 1.5), (13_000_000, 2.0)]
        );
    }

    #[test]
    fn an_ended_process_keeps_what_it_used() {
        let mut processes = Processes::default();
        processes.0.insert(u32::MAX, (Some("t1".into()), 2.0));
        let sample = processes.sample(std::process::id(), &[]);
        assert_eq!(sample.tenants["t1"].cpu_seconds, 2.0);
        assert!(sample.server_cpu_seconds >= 2.0);
    }
}
