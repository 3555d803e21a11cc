//! Options of each workload of `rowhouse bench`.

use std::path::PathBuf;

use base::ByteCount;
use clap::ValueEnum;
use workloads::cpuio::{Cpuio, Mix};
use workloads::dvdstore::{DvdStore, Size, Standard};
use workloads::pgbench::{Pgbench, Script};
use workloads::{Error, tpcc, tpch};

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

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum StoreSize {
    /// 20,000 customers, 1,000 orders a month, 10,000 titles
    Small,
    /// 2,000,000 customers, 100,000 orders a month, 100,000 titles
    Medium,
    /// 200,000,000 customers, 10,000,000 orders a month, 1,000,000 titles
    Large,
}

#[derive(clap::Args)]
pub(super) struct DvdstoreArgs {
    #[command(flatten)]
    pub(super) common: Common,
    /// The suite's size
    #[arg(long, value_enum, default_value_t = StoreSize::Small)]
    size: StoreSize,
    /// Part of the size's customers, orders and titles (0 < scale ≤ 1)
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
}

impl DvdstoreArgs {
    pub(super) fn workload(&self) -> Result<DvdStore, Error> {
        let standard = match self.size {
            StoreSize::Small => Standard::Small,
            StoreSize::Medium => Standard::Medium,
            StoreSize::Large => Standard::Large,
        };
        Ok(DvdStore { size: Size::new(standard, self.scale)? })
    }
}

#[derive(clap::Args)]
pub(super) struct TpchArgs {
    #[command(flatten)]
    pub(super) common: Common,
    /// Scale factor: 1 are 6 million lines of orders, 1 GB; also below 1, as in 0.01
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// Add the specification's foreign keys
    #[arg(long)]
    foreign_keys: bool,
    /// Run every query with the validation parameters instead of drawn ones
    #[arg(long)]
    validation: bool,
    /// Run these queries only, as in 1,3,5-8
    #[arg(long, value_name = "LIST", default_value_t, hide_default_value = true)]
    queries: tpch::Selection,
    /// Instead of a run: answer each query once, with the validation parameters, and print a digest of its rows
    #[arg(
        long,
        conflicts_with_all = [
            "load_only",
            "schema_only",
            "rate",
            "think",
            "transactions",
            "series",
            "latency_log",
        ]
    )]
    pub(super) digest: bool,
    /// Write the rows of each digest into DIR/q1.txt, DIR/q2.txt, …
    #[arg(long, value_name = "DIR", requires = "digest")]
    pub(super) rows: Option<PathBuf>,
}

impl TpchArgs {
    pub(super) fn workload(&self) -> Result<tpch::Tpch, Error> {
        let scale = tpch::Scale::new(self.scale)?;
        let (foreign_keys, validation) = (self.foreign_keys, self.validation);
        Ok(tpch::Tpch { scale, foreign_keys, validation, queries: self.queries })
    }
}
