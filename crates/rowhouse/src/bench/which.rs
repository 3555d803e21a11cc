//! Options of each workload of `rowhouse bench`.

use base::ByteCount;
use workloads::cpuio::{Cpuio, Mix};
use workloads::pgbench::{Pgbench, Script};
use workloads::{Error, tpcc};

use super::common::Common;

#[derive(clap::Args)]
pub(super) struct TpccArgs {
    #[command(flatten)]
    pub(super) common: Common,
    /// Warehouses for each tenant
    #[arg(long, default_value_t = 1)]
    warehouses: u32,
    /// Part of the specification's customers, orders, items and stock (0 < scale ≤ 1)
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// Add the specification's foreign keys
    #[arg(long)]
    foreign_keys: bool,
}

impl TpccArgs {
    pub(super) fn workload(&self) -> Result<tpcc::Tpcc, Error> {
        let scale = tpcc::Scale::new(self.warehouses, self.scale)?;
        Ok(tpcc::Tpcc { scale, foreign_keys: self.foreign_keys })
    }
}

#[derive(clap::Args)]
pub(super) struct PgbenchArgs {
    #[command(flatten)]
    pub(super) common: Common,
    /// Branches; 100,000 accounts each
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    scale: u32,
}

impl PgbenchArgs {
    pub(super) fn workload(&self, script: Script) -> Pgbench {
        Pgbench { script, scale: self.scale }
    }
}

#[derive(clap::Args)]
pub(super) struct CpuioArgs {
    #[command(flatten)]
    pub(super) common: Common,
    /// Rows of the table
    #[arg(long, default_value_t = 1_000_000)]
    rows: u64,
    /// Size of all rows' values, as in 2GiB, instead of their number
    #[arg(long, conflicts_with = "rows")]
    size: Option<ByteCount>,
    /// Bytes of a row's values
    #[arg(long, default_value_t = 400)]
    row_bytes: u32,
    /// How often each kind of query runs, as in cpu=1,scan=2,lookup=7; a kind that is not named never does
    #[arg(long, default_value_t)]
    mix: Mix,
    /// Numbers that a computation is on
    #[arg(long, default_value_t = 1_000)]
    cpu_rounds: u32,
    /// Rows that a scan reads
    #[arg(long, default_value_t = 1_000)]
    scan_rows: u64,
    /// Rows that a lookup reads; the load and its runs have to agree on it
    #[arg(long, default_value_t = 10)]
    lookup_rows: u64,
}

impl CpuioArgs {
    pub(super) fn workload(&self) -> Result<Cpuio, Error> {
        let rows = self.size.map_or(self.rows, |size| size.0 / u64::from(self.row_bytes.max(1)));
        let cpuio = Cpuio {
            rows,
            row_bytes: self.row_bytes,
            mix: self.mix,
            cpu_rounds: self.cpu_rounds,
            scan_rows: self.scan_rows,
            lookup_rows: self.lookup_rows,
        };
        cpuio.validate()?;
        Ok(cpuio)
    }
}
