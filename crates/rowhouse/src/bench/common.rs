//! Options that all workloads of `rowhouse bench` have.

use std::path::PathBuf;
use std::time::Duration;

use base::limits::IDENTIFIER_LEN_MAX;
use workloads::Error;
use workloads::load::{Pace, Plan};
use workloads::run::Options;
use workloads::target::Target;

/// Tenants, or clients of each, at most.
const COUNT_MAX: usize = 100_000;

#[derive(clap::Args)]
pub(super) struct Common {
    /// The server, as in postgres://user:password@127.0.0.1:5433/rowhouse; sslmode and sslrootcert as for psql
    #[arg(long)]
    url: String,
    /// Databases to make (`bench1`, `bench2`, …), one for each tenant; without this the URL's own database is used
    #[arg(long, value_parser = count)]
    pub(super) tenants: Option<usize>,
    /// Prefix of the databases' names
    #[arg(long, default_value = "bench", requires = "tenants", value_parser = prefix)]
    prefix: String,
    /// Clients for each tenant
    #[arg(long, default_value_t = 1, value_parser = count)]
    clients: usize,
    /// Seconds measured
    #[arg(long, default_value_t = 30.0, value_parser = seconds)]
    pub(super) seconds: f64,
    /// Seconds before measuring begins
    #[arg(long, default_value_t = 5.0, value_parser = seconds)]
    pub(super) warm_up: f64,
    /// Measured transactions after which a client ends, if its time is not up before
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    transactions: Option<u64>,
    /// Open loop: transactions a second of each client, latency from the intended start
    #[arg(long, conflicts_with = "think", value_parser = above_zero)]
    rate: Option<f64>,
    /// Think time after each transaction, in milliseconds
    #[arg(long, value_parser = clap::value_parser!(u64).range(..=3_600_000))]
    think: Option<u64>,
    /// Use the databases as they are; without this they are dropped, made and loaded
    #[arg(long)]
    pub(super) no_load: bool,
    /// Load only
    #[arg(long, conflicts_with = "no_load")]
    pub(super) load_only: bool,
    /// Make databases with the empty schema only
    #[arg(long, conflicts_with_all = ["no_load", "load_only"])]
    pub(super) schema_only: bool,
    /// Report the transactions of each interval of so many seconds, too: by tenant and kind in JSON
    #[arg(long, value_name = "SECONDS", value_parser = above_zero)]
    series: Option<f64>,
    /// Write each measured transaction into this file, a line `END LATENCY`: microseconds since 1970, microseconds
    #[arg(long, value_name = "FILE")]
    pub(super) latency_log: Option<PathBuf>,
    /// Leave the workload's conditions unchecked after the run
    #[arg(long)]
    no_check: bool,
    /// Seed of everything random
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
    /// Print the result as JSON
    #[arg(long)]
    pub(super) json: bool,
}

impl Common {
    pub(super) fn target(&self) -> Result<Target, Error> {
        Target::new(&self.url, self.tenants.map(|count| (self.prefix.as_str(), count)))
    }

    pub(super) fn options(&self) -> Options {
        let plan = Plan {
            pace: match (self.rate, self.think) {
                (Some(per_second), _) => Pace::Open { per_second },
                (None, Some(ms)) => Pace::Think(Duration::from_millis(ms)),
                (None, None) => Pace::Closed,
            },
            warm_up: Duration::from_secs_f64(self.warm_up),
            run: Duration::from_secs_f64(self.seconds),
            transactions: self.transactions,
            series: self.series.map(Duration::from_secs_f64),
            log: self.latency_log.is_some(),
        };
        Options { clients_per_tenant: self.clients, plan, seed: self.seed, check: !self.no_check }
    }
}

/// What databases' names begin with. SQL would cut longer names, and mean other databases.
fn prefix(text: &str) -> Result<String, String> {
    const LEN_MAX: usize = IDENTIFIER_LEN_MAX - COUNT_MAX.ilog10() as usize - 1;
    if text.len() <= LEN_MAX { Ok(text.to_owned()) } else { Err(format!("longer than {LEN_MAX} bytes")) }
}

/// Tenants, or clients of each.
fn count(text: &str) -> Result<usize, String> {
    let count: usize = text.parse().map_err(|_| "not a number")?;
    if (1..=COUNT_MAX).contains(&count) { Ok(count) } else { Err(format!("not from 1 to {COUNT_MAX}")) }
}

/// Seconds up to a century: what `Duration` and `Instant` can hold.
fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number")?;
    if (0.0..=3.2e9).contains(&seconds) { Ok(seconds) } else { Err("not from 0 to 3200000000".into()) }
}

/// A rate or an interval: from a thousandth to a million.
fn above_zero(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "not a number")?;
    if (0.001..=1e6).contains(&value) { Ok(value) } else { Err("not from 0.001 to 1000000".into()) }
}
