//! CPUIO's table, and the workload it belongs to.

use std::fmt::Write as _;

use rand::SeedableRng as _;
use rand::rngs::SmallRng;
use tokio_postgres::Client;

use super::client::Querier;
use super::mix::{KINDS, Mix};
use super::spread::Spread;
use crate::Result;
use crate::connection::Connection;
use crate::copy::{Loader, Progress};
use crate::random::Draw as _;
use crate::workload::Workload;

/// The table. In PostgreSQL, whose tables have no order of their own, rows lie in the order of the key because they are loaded
/// in it. The second index is made before the rows, so that no build of it has to hold a table larger than memory.
const CREATE: &str = "
    create table cpuio (id bigint not null, spread bigint not null, amount int not null, filler varchar(2000) not null,
        primary key (id));
    create index cpuio_by_spread on cpuio (spread)";

/// Bytes of a row's columns but the filler: two bigint and an int.
const FIXED_BYTES: u32 = 8 + 8 + 4;
/// The least that `row_bytes` may be.
pub const ROW_BYTES_MIN: u32 = FIXED_BYTES + 1;
/// The most that `row_bytes` may be: neither PostgreSQL nor Rowhouse stores such a row out of line.
pub const ROW_BYTES_MAX: u32 = 1_900;

/// CPUIO of a size.
#[derive(Clone, Copy, Debug)]
pub struct Cpuio {
    pub rows: u64,
    /// Bytes of a row's values; what a server adds to a row is its own.
    pub row_bytes: u32,
    /// How often each kind of query runs.
    pub mix: Mix,
    /// Numbers that a CPU-intensive query computes on.
    pub cpu_rounds: u32,
    /// Rows that a scan reads, one after the other by primary key.
    pub scan_rows: u64,
    /// Rows that have the same value in the second index: what a lookup reads.
    pub lookup_rows: u64,
}

impl Cpuio {
    /// Says what is out of range.
    ///
    /// # Errors
    /// When a scan or a lookup reads nothing or more than there is, or a row has no possible size.
    pub fn validate(&self) -> Result<()> {
        let within = 1..=self.rows;
        if !(ROW_BYTES_MIN..=ROW_BYTES_MAX).contains(&self.row_bytes) {
            return Err(format!(
                "a row of {} bytes is not one of {ROW_BYTES_MIN} to {ROW_BYTES_MAX}",
                self.row_bytes
            )
            .into());
        }
        if !within.contains(&self.scan_rows) || !within.contains(&self.lookup_rows) {
            return Err(format!(
                "scans of {} and lookups of {} rows do not read at least one and at most all {} rows",
                self.scan_rows, self.lookup_rows, self.rows
            )
            .into());
        }
        if self.cpu_rounds == 0
            || i32::try_from(self.cpu_rounds).is_err()
            || i64::try_from(self.rows).is_err()
        {
            return Err("a computation is on 1 to 2147483647 numbers".into());
        }
        Ok(())
    }

    /// Values of the second index, from 0 on.
    pub(super) fn values(&self) -> u64 {
        self.rows.div_ceil(self.lookup_rows)
    }
}

impl Workload for Cpuio {
    type Client = Querier;

    fn name(&self) -> String {
        "CPUIO".into()
    }

    fn setting(&self) -> String {
        format!(
            "{} rows of {} bytes; {}; {} rounds, {} rows a scan, {} rows a lookup",
            self.rows, self.row_bytes, self.mix, self.cpu_rounds, self.scan_rows, self.lookup_rows
        )
    }

    fn kinds(&self) -> &'static [&'static str] {
        &KINDS
    }

    async fn create(&self, client: &Client) -> Result<()> {
        Ok(client.batch_execute(CREATE).await?)
    }

    async fn fill(&self, client: &Client, seed: u64, progress: Progress<'_>) -> Result<()> {
        let mut rng = SmallRng::seed_from_u64(seed);
        let spread = Spread::new(self.rows);
        let filler = self.row_bytes - FIXED_BYTES;
        let mut loader = Loader::new(client, self.rows, progress);
        let mut copy = loader.copy("cpuio", "").await?;
        for id in 1..=self.rows {
            let amount = rng.uniform(0, 999);
            let value = spread.place(id) / self.lookup_rows;
            write!(copy.text, "{id}\t{value}\t{amount}\t{}", rng.text(filler, filler))?;
            copy.end_row().await?;
        }
        copy.finish().await
    }

    async fn complete(&self, client: &Client) -> Result<()> {
        Ok(client.batch_execute("vacuum analyze cpuio").await?)
    }

    async fn client(&self, connection: Connection, seed: u64, _number: u32) -> Result<Querier> {
        Querier::new(connection, *self, SmallRng::seed_from_u64(seed)).await
    }
}
