//! pgbench's built-in scripts `tpcb-like` and `select-only`, over tables that `pgbench -i` would make.

use std::fmt::Write as _;

use rand::SeedableRng as _;
use rand::rngs::SmallRng;
use tokio_postgres::Client;
use tokio_postgres::types::ToSql;

use crate::Result;
use crate::connection::{Connection, Prepared};
use crate::copy::{Loader, Progress};
use crate::load::{Outcome, Transactor};
use crate::random::Draw as _;
use crate::workload::Workload;

/// Accounts a unit of scale; branches and tellers are 1 and 10.
const ACCOUNTS: u32 = 100_000;
const TELLERS: u32 = 10;

/// The tables as `pgbench -i` makes them.
const CREATE: &str = "
    drop table if exists pgbench_accounts, pgbench_branches, pgbench_history, pgbench_tellers;
    create table pgbench_history (tid int, bid int, aid int, delta int, mtime timestamp, filler char(22));
    create table pgbench_tellers (tid int not null, bid int, tbalance int, filler char(84));
    create table pgbench_accounts (aid int not null, bid int, abalance int, filler char(84));
    create table pgbench_branches (bid int not null, bbalance int, filler char(88))";
/// Their keys, made after the rows.
const KEYS: &str = "
    alter table pgbench_branches add primary key (bid);
    alter table pgbench_tellers add primary key (tid);
    alter table pgbench_accounts add primary key (aid)";

/// Which script runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Script {
    TpcbLike,
    SelectOnly,
}

impl Script {
    fn name(self) -> &'static str {
        match self {
            Script::TpcbLike => "tpcb-like",
            Script::SelectOnly => "select-only",
        }
    }
}

/// pgbench with one of its scripts.
#[derive(Clone, Copy, Debug)]
pub struct Pgbench {
    pub script: Script,
    /// Branches; accounts are 100,000 times as many.
    pub scale: u32,
}

/// A client with the script's statements.
pub struct Teller {
    connection: Connection,
    statements: Vec<Prepared>,
    begin: Prepared,
    commit: Prepared,
    rollback: Prepared,
    script: Script,
    rng: SmallRng,
    scale: u32,
}

/// The statements of tpcb-like in order, with the parameters each takes.
const TPCB: [&str; 5] = [
    "update pgbench_accounts set abalance = abalance + $1 where aid = $2",
    "select abalance from pgbench_accounts where aid = $1",
    "update pgbench_tellers set tbalance = tbalance + $1 where tid = $2",
    "update pgbench_branches set bbalance = bbalance + $1 where bid = $2",
    "insert into pgbench_history (tid, bid, aid, delta, mtime) values ($1, $2, $3, $4, current_timestamp)",
];

/// One statement and its reply.
async fn step(c: &mut Connection, statement: &Prepared, values: &[&(dyn ToSql + Sync)]) -> Result<()> {
    c.add(statement, values)?;
    c.exchange().await?;
    Ok(())
}

impl Teller {
    fn number(&mut self, most: u32) -> i32 {
        i32::try_from(self.rng.uniform(1, most)).expect("pgbench's numbers fit an int")
    }

    async fn tpcb(&mut self, account: i32, teller: i32, branch: i32, delta: i32) -> Result<()> {
        let Teller { connection: c, statements: s, begin, commit, .. } = self;
        step(c, begin, &[]).await?;
        step(c, &s[0], &[&delta, &account]).await?;
        step(c, &s[1], &[&account]).await?;
        step(c, &s[2], &[&delta, &teller]).await?;
        step(c, &s[3], &[&delta, &branch]).await?;
        step(c, &s[4], &[&teller, &branch, &account, &delta]).await?;
        step(c, commit, &[]).await
    }
}

impl Transactor for Teller {
    fn choose(&mut self) -> usize {
        0
    }

    async fn run(&mut self, _kind: usize) -> Result<Outcome> {
        let account = self.number(self.scale * ACCOUNTS);
        if self.script == Script::SelectOnly {
            step(&mut self.connection, &self.statements[0], &[&account]).await?;
            return Ok(Outcome::Committed);
        }
        let (teller, branch) = (self.number(self.scale * TELLERS), self.number(self.scale));
        let delta = self.rng.uniform(-5000, 5000);
        let outcome = self.tpcb(account, teller, branch, delta).await;
        if outcome.is_err() {
            self.connection.clear();
            // If this fails too the connection is gone, and the first error says why.
            let _ = step(&mut self.connection, &self.rollback, &[]).await;
        }
        outcome.map(|()| Outcome::Committed)
    }
}

impl Workload for Pgbench {
    type Client = Teller;

    fn name(&self) -> String {
        format!("pgbench {}", self.script.name())
    }

    fn setting(&self) -> String {
        format!("scale {}", self.scale)
    }

    fn kinds(&self) -> &'static [&'static str] {
        match self.script {
            Script::TpcbLike => &["tpcb-like"],
            Script::SelectOnly => &["select-only"],
        }
    }

    async fn create(&self, client: &Client) -> Result<()> {
        Ok(client.batch_execute(CREATE).await?)
    }

    async fn fill(&self, client: &Client, _seed: u64, progress: Progress<'_>) -> Result<()> {
        let (tellers, accounts) = (self.scale * TELLERS, self.scale * ACCOUNTS);
        let mut loader = Loader::new(client, u64::from(self.scale + tellers + accounts), progress);
        let mut copy = loader.copy("pgbench_branches", "(bid, bbalance)").await?;
        for branch in 1..=self.scale {
            write!(copy.text, "{branch}\t0")?;
            copy.end_row().await?;
        }
        copy.finish().await?;
        let mut copy = loader.copy("pgbench_tellers", "(tid, bid, tbalance)").await?;
        for teller in 1..=tellers {
            write!(copy.text, "{teller}\t{}\t0", (teller - 1) / TELLERS + 1)?;
            copy.end_row().await?;
        }
        copy.finish().await?;
        let mut copy = loader.copy("pgbench_accounts", "").await?;
        for account in 1..=accounts {
            write!(copy.text, "{account}\t{}\t0\t", (account - 1) / ACCOUNTS + 1)?;
            copy.end_row().await?;
        }
        copy.finish().await
    }

    async fn complete(&self, client: &Client) -> Result<()> {
        client.batch_execute(KEYS).await?;
        Ok(client.batch_execute("vacuum analyze").await?)
    }

    async fn client(&self, mut connection: Connection, seed: u64, _number: u32) -> Result<Teller> {
        let texts: &[&str] = if self.script == Script::TpcbLike { &TPCB } else { &TPCB[1..2] };
        let mut statements = Vec::new();
        for text in texts {
            statements.push(connection.prepare(text).await?);
        }
        let begin = connection.prepare("begin").await?;
        let commit = connection.prepare("commit").await?;
        let rollback = connection.prepare("rollback").await?;
        let (script, scale) = (self.script, self.scale);
        let rng = SmallRng::seed_from_u64(seed);
        Ok(Teller { connection, statements, begin, commit, rollback, script, rng, scale })
    }
}
