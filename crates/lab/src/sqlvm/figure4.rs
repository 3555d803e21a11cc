//! Tenants with promises of I/O on one server, and what each of them got in each second.

use std::time::Duration;

use workloads::cpuio::Cpuio;
use workloads::load::Pace;

use super::actors::{Acting, Actor, Part};
use super::host::{Host, LEDGER_WAIT, Promise};
use super::stage::Stage;
use crate::Result;
use crate::report::figure;
use crate::stats::{Summary, summary};
use crate::world::sampler::Sampler;
use crate::world::{clock, ledger};

/// Clients of each tenant: enough to want more than what is promised here, whatever the device.
pub(super) const CLIENTS: usize = 4;
/// From a change of promises to the first second that counts: the paper's switch is "almost instantaneous".
const SETTLE: Duration = Duration::from_secs(1);

/// Tenants at random look-ups, and everything that is needed to say what they got.
pub(super) struct Readers {
    pub(super) names: Vec<String>,
    sampler: Sampler,
    // Held for their clients.
    _acting: Vec<Acting>,
}

/// A time under one set of promises.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stretch {
    pub(super) began_us: u64,
    pub(super) ended_us: u64,
}

/// What a tenant got in a stretch, from a second after its beginning on.
pub(super) struct Got {
    pub(super) per_second: Summary,
    /// I/Os a second that it asked for, up to what it was promised, and those of them that it missed.
    pub(super) demanded: f64,
    pub(super) missed: f64,
}

impl Got {
    /// Why it says nothing of the promise, if it does not: nothing was counted, or the tenant asked for less than 97 % of what it
    /// was promised (the device was too slow, or its clients).
    pub(super) fn says_nothing(&self, promised: u32) -> Option<String> {
        if self.per_second.count == 0 {
            return Some("no whole second was counted".into());
        }
        (self.demanded < 0.97 * f64::from(promised))
            .then(|| format!("it asked for {} I/Os a second only", figure(self.demanded)))
    }
}

impl Readers {
    /// Puts clients to work on tenants that have CPUIO's table.
    pub(super) async fn begin(stage: &Stage, host: &Host, names: &[String], table: Cpuio) -> Result<Readers> {
        host.quiet(stage).await?;
        let mut acting = Vec::new();
        for (number, name) in (0..).zip(names) {
            let part = Part::endless(CLIENTS, Pace::Closed, stage.options.seed.wrapping_add(number));
            acting.push(Actor::Cpuio(table).act(&host.url(name), part)?);
        }
        for tenant in &mut acting {
            tenant.at_work().await?;
        }
        let sampler = host.sampler(names).await?;
        Ok(Readers { names: names.to_vec(), sampler, _acting: acting })
    }

    /// Puts promises in force and lets time pass under them.
    pub(super) async fn stretch(
        &self,
        stage: &Stage,
        host: &Host,
        promised: &[(u32, bool)],
        time: Duration,
    ) -> Result<Stretch> {
        for (name, (iops, limited)) in self.names.iter().zip(promised) {
            let promise =
                Promise { iops: Some(*iops), iops_max: limited.then_some(*iops), ..Promise::default() };
            host.promise(name, promise, 0).await?;
        }
        let began_us = clock::now_us();
        stage.pass(time + SETTLE).await;
        Ok(Stretch { began_us, ended_us: clock::now_us() })
    }

    /// The raw series of each tenant from `from_us` on, and what each got in each stretch. Of a build without the ledger it is what
    /// the sums of `/metrics` grew by, from second to second.
    pub(super) async fn results(
        &self,
        host: &Host,
        from_us: u64,
        stretches: &[Stretch],
    ) -> Result<(Vec<Vec<f64>>, Vec<Vec<Got>>)> {
        tokio::time::sleep(LEDGER_WAIT).await;
        let to_us = stretches.last().map_or(from_us, |stretch| stretch.ended_us);
        let samples = self.sampler.so_far();
        let rows = match host.has_ledger {
            true => Some(ledger::rows(&host.admin, "ledger", "io", from_us, to_us).await?),
            false => None,
        };
        let given = |name: &str, from: u64, to: u64| match &rows {
            Some(rows) => ledger::series(rows, name, from, to, |row| row.given),
            None => samples.tenant_series(name, from, to, |counts| counts.io),
        };
        let mean = |values: Vec<f64>| summary(&values).mean;
        let wanted = |name: &str, from: u64, to: u64| match &rows {
            Some(rows) => (
                mean(ledger::series(rows, name, from, to, |row| row.demanded)),
                mean(ledger::series(rows, name, from, to, |row| row.missed)),
            ),
            None => (
                mean(samples.tenant_series(name, from, to, |counts| counts.io_demanded)),
                mean(samples.tenant_series(name, from, to, |counts| counts.io_missed)),
            ),
        };
        let series = self.names.iter().map(|name| given(name, from_us, to_us)).collect();
        let settle = SETTLE.as_micros() as u64;
        let of_stretch = |stretch: &Stretch| {
            let (from, to) = (stretch.began_us + settle, stretch.ended_us);
            let got = |name: &String| {
                let (demanded, missed) = wanted(name, from, to);
                Got { per_second: summary(&given(name, from, to)), demanded, missed }
            };
            self.names.iter().map(got).collect()
        };
        Ok((series, stretches.iter().map(of_stretch).collect()))
    }
}
