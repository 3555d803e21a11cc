//! TPC-C as a workload.

use tokio_postgres::Client;

use super::input::Inputs;
use super::random::{NuRand, TpccRandom};
use super::statements::Statements;
use super::transaction::{KINDS, NEW_ORDER, Terminal};
use super::{Scale, check, population, schema};
use crate::Result;
use crate::connection::Connection;
use crate::copy::Progress;
use crate::load::{Outcome, Tally, Transactor};
use crate::workload::{Rates, Workload};

/// TPC-C of a size.
#[derive(Clone, Copy, Debug)]
pub struct Tpcc {
    pub scale: Scale,
    /// Add the foreign keys of clause 1.4.
    pub foreign_keys: bool,
}

impl Transactor for Terminal {
    fn choose(&mut self) -> usize {
        Terminal::choose(self)
    }

    async fn run(&mut self, _kind: usize) -> Result<Outcome> {
        Terminal::run(self).await
    }
}

impl Workload for Tpcc {
    type Client = Terminal;

    fn name(&self) -> String {
        "TPC-C by wire".into()
    }

    fn setting(&self) -> String {
        self.scale.to_string()
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
        population::fill(client, self.scale, seed, progress).await
    }

    async fn complete(&self, client: &Client) -> Result<()> {
        let keys = if self.foreign_keys { schema::FOREIGN_KEYS } else { &[] };
        for statement in schema::AFTER_LOAD.iter().chain(keys) {
            client.batch_execute(statement).await?;
        }
        Ok(client.batch_execute("vacuum analyze").await?)
    }

    async fn client(&self, mut connection: Connection, seed: u64, number: u32) -> Result<Terminal> {
        let statements = Statements::prepare(&mut connection).await?;
        let random = TpccRandom::new(seed, NuRand::RUN);
        Ok(Terminal::new(connection, statements, Inputs::new(random, self.scale, number)))
    }

    async fn check(&self, client: &Client) -> Result<Vec<String>> {
        check::check(client, self.scale.first_undelivered() - 1).await
    }

    fn rates(&self, tally: &Tally, minutes: f64) -> Rates {
        Rates { tpmc: Some(tally.kind_count(NEW_ORDER) as f64 / minutes), ..Rates::default() }
    }
}
