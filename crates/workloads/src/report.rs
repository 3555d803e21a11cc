//! What a run measured: counts and latencies by transaction, as a table and as JSON.

use std::fmt::Write as _;
use std::io::Write;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::load::Logged;
use crate::series::Series;
use crate::workload::Rates;

/// A moment as reports give it: microseconds since 1970.
pub(crate) fn since_1970_us(moment: SystemTime) -> u64 {
    let since = moment.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// Writes a log as lines `END LATENCY`: the end in microseconds since 1970, the latency in microseconds.
///
/// # Errors
/// Those of `out`.
pub fn write_log(log: &[Logged], out: &mut impl Write) -> std::io::Result<()> {
    let (now, wall) = (Instant::now(), SystemTime::now());
    for transaction in log {
        let finished = since_1970_us(wall - (now - transaction.finished));
        writeln!(out, "{finished} {}", transaction.latency.as_micros())?;
    }
    out.flush()
}

/// Latencies in microseconds up to ten minutes, three significant digits unless they are coarse.
#[derive(Clone, Debug)]
pub struct Latencies(Histogram<u64>);

impl Default for Latencies {
    fn default() -> Latencies {
        Latencies::with_digits(3)
    }
}

impl Latencies {
    fn with_digits(digits: u8) -> Latencies {
        Latencies(Histogram::new_with_bounds(1, 600_000_000, digits).expect("the bounds are valid"))
    }

    /// With two significant digits, in some 25 KB: for one of hundreds that are watched.
    pub fn coarse() -> Latencies {
        Latencies::with_digits(2)
    }

    /// Empties it; what was in it.
    pub fn take(&mut self) -> Latencies {
        let empty = Latencies::with_digits(self.0.sigfig());
        std::mem::replace(self, empty)
    }

    /// Counts all that others counted, as exactly as the coarser of the two.
    pub fn add(&mut self, others: &Latencies) {
        self.0.add(&others.0).expect("all have the same range");
    }

    pub fn record(&mut self, latency: Duration) {
        let us = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        self.0.saturating_record(us.max(1));
    }

    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// In milliseconds; 0 when nothing was recorded.
    pub fn quantile_ms(&self, quantile: f64) -> f64 {
        self.0.value_at_quantile(quantile) as f64 / 1_000.0
    }

    pub fn summary(&self) -> LatencySummary {
        LatencySummary {
            count: self.count(),
            mean_ms: self.0.mean() / 1_000.0,
            deviation_ms: self.0.stdev() / 1_000.0,
            p50_ms: self.quantile_ms(0.50),
            p95_ms: self.quantile_ms(0.95),
            p99_ms: self.quantile_ms(0.99),
            p999_ms: self.quantile_ms(0.999),
            max_ms: self.0.max() as f64 / 1_000.0,
        }
    }
}

/// A histogram in a few numbers.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct LatencySummary {
    /// Of a run's report: of those that ended within the measured time; the others also tell of those that began in it and ended later.
    pub count: u64,
    pub mean_ms: f64,
    /// Standard deviation.
    pub deviation_ms: f64,
    pub p50_ms: f64,
    pub p95_ms: f64,
    pub p99_ms: f64,
    pub p999_ms: f64,
    pub max_ms: f64,
}

/// One kind of transaction in a report.
#[derive(Clone, Debug, Serialize)]
pub struct KindReport {
    pub name: &'static str,
    #[serde(flatten)]
    pub latency: LatencySummary,
    /// Rolled back on purpose (TPC-C's 1 % of New-Order, DVD Store's purchases of what is not in stock).
    pub rolled_back: u64,
    /// Failed and tried again: serialization failures, deadlocks.
    pub retried: u64,
}

/// The outcome of a run.
#[derive(Clone, Debug, Serialize)]
pub struct RunReport {
    pub workload: String,
    pub server: String,
    pub tenants: usize,
    /// One for each tenant.
    pub databases: Vec<String>,
    pub clients_per_tenant: usize,
    /// Population and options, in words; printed with every result.
    pub setting: String,
    /// When the warm-up was over, in microseconds since 1970.
    pub measured_from_us: u64,
    pub seconds: f64,
    pub transactions: u64,
    pub transactions_per_second: f64,
    #[serde(flatten)]
    pub rates: Rates,
    /// Transactions a second of each tenant.
    pub tenant_tps: Vec<f64>,
    pub kinds: Vec<KindReport>,
    /// If the plan asks for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub series: Option<Series>,
    /// Each measured transaction, if the plan asks for it; a file of its own, not part of the report.
    #[serde(skip)]
    pub log: Vec<Logged>,
    /// What the checks after the run found wrong; empty when all is well.
    pub violations: Vec<String>,
}

impl RunReport {
    /// A table for people.
    pub fn to_table(&self) -> String {
        let mut text = String::new();
        let _ = writeln!(text, "{} on {}", self.workload, self.server);
        let _ = writeln!(
            text,
            "{} tenant(s) x {} client(s), {:.1} s; {}",
            self.tenants, self.clients_per_tenant, self.seconds, self.setting
        );
        let _ = writeln!(
            text,
            "{:<18} {:>10} {:>9} {:>9} {:>9} {:>9} {:>9} {:>8} {:>8}",
            "transaction", "count", "mean ms", "p50 ms", "p95 ms", "p99 ms", "max ms", "rolled", "retried"
        );
        for kind in &self.kinds {
            let l = &kind.latency;
            let _ = writeln!(
                text,
                "{:<18} {:>10} {:>9.3} {:>9.3} {:>9.3} {:>9.3} {:>9.3} {:>8} {:>8}",
                kind.name,
                l.count,
                l.mean_ms,
                l.p50_ms,
                l.p95_ms,
                l.p99_ms,
                l.max_ms,
                kind.rolled_back,
                kind.retried
            );
        }
        let _ = write!(text, "{:.1} transactions/s", self.transactions_per_second);
        for (rate, name) in [(self.rates.tpmc, "tpmC"), (self.rates.opm, "orders/min")] {
            if let Some(rate) = rate {
                let _ = write!(text, ", {rate:.0} {name}");
            }
        }
        if self.tenants > 1 {
            let least = self.tenant_tps.iter().copied().fold(f64::INFINITY, f64::min);
            let most = self.tenant_tps.iter().copied().fold(0.0, f64::max);
            let _ = write!(text, "; a tenant: least {least:.1}/s, most {most:.1}/s");
        }
        text.push('\n');
        if let Some(series) = &self.series {
            self.write_series(series, &mut text);
        }
        for violation in &self.violations {
            let _ = writeln!(text, "VIOLATION: {violation}");
        }
        text
    }

    /// A line for each interval: the second it began in, transactions of each kind in it.
    fn write_series(&self, series: &Series, text: &mut String) {
        let _ = write!(text, "{:>10}", "second");
        for kind in &self.kinds {
            let _ = write!(text, " {:>18}", kind.name);
        }
        text.push('\n');
        let by_kind = series.by_kind();
        for interval in 0..by_kind.first().map_or(0, Vec::len) {
            let _ = write!(text, "{:>10.1}", interval as f64 * series.interval_seconds);
            for counts in &by_kind {
                let _ = write!(text, " {:>18}", counts[interval]);
            }
            text.push('\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_told_in_milliseconds() {
        let mut latencies = Latencies::default();
        latencies.record(Duration::from_millis(1));
        latencies.record(Duration::from_millis(3));
        assert_eq!(latencies.count(), 2);
        assert!((latencies.quantile_ms(1.0) - 3.0).abs() < 0.01);
    }

    #[test]
    fn population_and_options_are_told_with_every_result() {
        let report = RunReport {
            workload: "TPC-C by wire".into(),
            server: "PostgreSQL".into(),
            tenants: 1,
            databases: vec!["acme".into()],
            clients_per_tenant: 2,
            setting: "1 warehouse(s) at scale 0.01; open loop".into(),
            measured_from_us: 0,
            seconds: 1.0,
            transactions: 0,
            transactions_per_second: 0.0,
            rates: Rates::default(),
            tenant_tps: vec![0.0],
            kinds: Vec::new(),
            series: None,
            log: Vec::new(),
            violations: Vec::new(),
        };
        assert!(report.to_table().contains(&report.setting), "{}", report.to_table());
    }
}
