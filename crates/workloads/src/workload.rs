//! What every workload has: a population, clients that run transactions over it, perhaps conditions that hold afterwards.

use serde::Serialize;
use tokio_postgres::Client;

use crate::Result;
use crate::connection::Connection;
use crate::copy::Progress;
use crate::load::{Tally, Transactor};

/// A workload with its size and options.
pub trait Workload {
    /// What runs its transactions.
    type Client: Transactor + 'static;

    /// As reports call it.
    fn name(&self) -> String;

    /// Size and options in words; printed with every result.
    fn setting(&self) -> String;

    /// Names of the kinds of transactions, in the order of their numbers.
    fn kinds(&self) -> &'static [&'static str];

    /// Makes the tables, without rows, in a database that has none of them.
    fn create(&self, client: &Client) -> impl Future<Output = Result<()>>;

    /// Fills the tables. Equal seeds give equal rows.
    fn fill(&self, client: &Client, seed: u64, progress: Progress<'_>) -> impl Future<Output = Result<()>>;

    /// Makes what comes after the rows: indexes, keys, statistics. Ends with VACUUM, so that on PostgreSQL no page is changed by its first reader
    /// (hint bits): that would be the load's work in the time that is measured.
    fn complete(&self, client: &Client) -> impl Future<Output = Result<()>>;

    /// A client on a connection of its own; a tenant's clients are numbered from 0.
    fn client(
        &self,
        connection: Connection,
        seed: u64,
        number: u32,
    ) -> impl Future<Output = Result<Self::Client>>;

    /// What is wrong in a database that nobody is changing, a line each; nothing for workloads without conditions.
    fn check(&self, client: &Client) -> impl Future<Output = Result<Vec<String>>> {
        let _ = client;
        async { Ok(Vec::new()) }
    }

    /// The rate that the workload's definition reports.
    fn rates(&self, tally: &Tally, minutes: f64) -> Rates {
        let _ = (tally, minutes);
        Rates::default()
    }
}

/// Rates by the names that the definitions of workloads give them; `None` for other workloads.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Rates {
    /// TPC-C: New-Order transactions a minute.
    pub tpmc: Option<f64>,
    /// DVD Store: orders a minute, those for which there was too little in stock included.
    pub opm: Option<f64>,
}
