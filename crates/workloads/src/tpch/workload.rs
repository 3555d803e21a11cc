//! TPC-H as a workload.

use rand::SeedableRng as _;
use rand::rngs::SmallRng;
use tokio_postgres::Client;

use super::parameters::Parameters;
use super::scale::Scale;
use super::stream::{KINDS, Stream};
use super::{Selection, rows, schema};
use crate::Result;
use crate::connection::Connection;
use crate::copy::Progress;
use crate::workload::Workload;

/// TPC-H of a size.
#[derive(Clone, Copy, Debug)]
pub struct Tpch {
    pub scale: Scale,
    /// Add the foreign keys of clause 1.4.2.3.
    pub foreign_keys: bool,
    /// Run every query with the validation parameters instead of drawn ones.
    pub validation: bool,
    /// What streams run.
    pub queries: Selection,
}

impl Workload for Tpch {
    type Client = Stream;

    fn name(&self) -> String {
        "TPC-H by wire".into()
    }

    fn setting(&self) -> String {
        let parameters = if self.validation { "validation" } else { "random" };
        if self.queries == Selection::default() {
            format!("{}, {parameters} parameters", self.scale)
        } else {
            format!("{}, {parameters} parameters, queries {} only", self.scale, self.queries)
        }
    }

    fn kinds(&self) -> &'static [&'static str] {
        &KINDS
    }

    async fn create(&self, client: &Client) -> Result<()> {
        for statement in schema::CREATE {
            client.batch_execute(statement).await?;
        }
        Ok(())
    }

    async fn fill(&self, client: &Client, seed: u64, progress: Progress<'_>) -> Result<()> {
        rows::fill(client, self.scale, seed, progress).await
    }

    async fn complete(&self, client: &Client) -> Result<()> {
        let keys = if self.foreign_keys { schema::FOREIGN_KEYS } else { &[] };
        for statement in schema::AFTER_LOAD.iter().chain(keys) {
            client.batch_execute(statement).await?;
        }
        Ok(client.batch_execute("vacuum analyze").await?)
    }

    async fn client(&self, connection: Connection, seed: u64, number: u32) -> Result<Stream> {
        let drawn = |salt| SmallRng::seed_from_u64(seed ^ salt);
        let parameters =
            Parameters { scale: self.scale, rng: if self.validation { None } else { Some(drawn(1)) } };
        // The first stream is the power test's.
        let order = if number == 0 { None } else { Some(drawn(2)) };
        Ok(Stream::new(connection, parameters, self.queries, order))
    }
}
