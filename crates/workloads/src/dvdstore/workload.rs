//! DVD Store as a workload.

use rand::SeedableRng as _;
use rand::rngs::SmallRng;
use tokio_postgres::Client;

use super::shopper::{KINDS, PURCHASE, Shopper};
use super::size::Size;
use super::{check, population, schema};
use crate::Result;
use crate::connection::Connection;
use crate::copy::Progress;
use crate::load::Tally;
use crate::workload::{Rates, Workload};

/// DVD Store 2 of a size.
#[derive(Clone, Copy, Debug)]
pub struct DvdStore {
    pub size: Size,
}

impl Workload for DvdStore {
    type Client = Shopper;

    fn name(&self) -> String {
        "DVD Store 2 by wire".into()
    }

    fn setting(&self) -> String {
        self.size.to_string()
    }

    fn kinds(&self) -> &'static [&'static str] {
        &KINDS
    }

    async fn create(&self, client: &Client) -> Result<()> {
        let first = |loaded: u32| (u64::from(loaded) + 1).to_string();
        let sql = schema::CREATE
            .replace("CUSTOMERS", &first(self.size.customers))
            .replace("ORDERS", &first(self.size.orders()));
        Ok(client.batch_execute(&sql).await?)
    }

    async fn fill(&self, client: &Client, seed: u64, progress: Progress<'_>) -> Result<()> {
        population::fill(client, &self.size, seed, progress).await
    }

    async fn complete(&self, client: &Client) -> Result<()> {
        for statement in schema::AFTER_LOAD {
            client.batch_execute(statement).await?;
        }
        Ok(())
    }

    async fn client(&self, connection: Connection, seed: u64, _number: u32) -> Result<Shopper> {
        Shopper::new(connection, self.size, SmallRng::seed_from_u64(seed)).await
    }

    async fn check(&self, client: &Client) -> Result<Vec<String>> {
        check::check(client).await
    }

    fn rates(&self, tally: &Tally, minutes: f64) -> Rates {
        Rates { opm: Some(tally.kind_count(PURCHASE) as f64 / minutes), ..Rates::default() }
    }
}
