//! pgbench's built-in scripts `tpcb-like` and `select-only`, over tables that `pgbench -i` would make.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use futures::SinkExt as _;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tokio_postgres::Client;
use tokio_postgres::types::ToSql;

use crate::Result;
use crate::connection::{Connection, Prepared};
use crate::load::{self, Live, Outcome, Plan, Tally, Transactor};
use crate::report::{RunReport, since_1970_us};
use crate::target::Target;

/// Accounts a unit of scale; branches and tellers are 1 and 10.
const ACCOUNTS: u32 = 100_000;
const TELLERS: u32 = 10;

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

/// What a run is.
#[derive(Clone, Debug)]
pub struct Options {
    pub script: Script,
    pub scale: u32,
    pub clients_per_tenant: usize,
    pub plan: Plan,
    pub seed: u64,
}

/// Makes and fills pgbench's four tables.
///
/// # Errors
/// When the server refuses.
pub async fn load(
    client: &mut Client,
    scale: u32,
    progress: &mut (dyn FnMut(u64, u64) + Send),
) -> Result<()> {
    client
        .batch_execute(
            "drop table if exists pgbench_accounts, pgbench_branches, pgbench_history, pgbench_tellers;
             create table pgbench_history (tid int, bid int, aid int, delta int, mtime timestamp, filler char(22));
             create table pgbench_tellers (tid int not null, bid int, tbalance int, filler char(84));
             create table pgbench_accounts (aid int not null, bid int, abalance int, filler char(84));
             create table pgbench_branches (bid int not null, bbalance int, filler char(88))",
        )
        .await?;
    for branch in 1..=scale {
        let insert = format!("insert into pgbench_branches (bid, bbalance) values ({branch}, 0)");
        client.batch_execute(&insert).await?;
        for teller in (branch - 1) * TELLERS + 1..=branch * TELLERS {
            let insert =
                format!("insert into pgbench_tellers (tid, bid, tbalance) values ({teller}, {branch}, 0)");
            client.batch_execute(&insert).await?;
        }
    }
    let total = scale * ACCOUNTS;
    let mut sink = Box::pin(client.copy_in::<_, bytes::Bytes>("copy pgbench_accounts from stdin").await?);
    let mut text = String::new();
    for account in 1..=total {
        writeln!(text, "{account}\t{}\t0\t", (account - 1) / ACCOUNTS + 1)?;
        if text.len() > 256 << 10 || account == total {
            sink.send(std::mem::take(&mut text).into()).await?;
            progress(u64::from(account), u64::from(total));
        }
    }
    sink.as_mut().finish().await?;
    client
        .batch_execute(
            "alter table pgbench_branches add primary key (bid);
             alter table pgbench_tellers add primary key (tid);
             alter table pgbench_accounts add primary key (aid);
             analyze",
        )
        .await?;
    Ok(())
}

struct Teller {
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
        i32::try_from(self.rng.random_range(1..=most)).expect("pgbench's numbers fit an int")
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
        let delta = self.rng.random_range(-5000..=5000i32);
        let outcome = self.tpcb(account, teller, branch, delta).await;
        if outcome.is_err() {
            self.connection.clear();
            // If this fails too the connection is gone, and the first error says why.
            let _ = step(&mut self.connection, &self.rollback, &[]).await;
        }
        outcome.map(|()| Outcome::Committed)
    }
}

/// Runs a script on databases that [`load`] has filled. Must run within a `tokio::task::LocalSet`.
///
/// # Errors
/// When a client fails for another reason than a conflict.
pub async fn run(target: &Target, options: &Options, live: &[Arc<Live>]) -> Result<RunReport> {
    let product = target.product().await?;
    let mut tellers = Vec::new();
    for tenant in 0..target.databases.len() {
        for number in 0..options.clients_per_tenant {
            let mut connection = target.open(tenant).await?;
            let texts: &[&str] = if options.script == Script::TpcbLike { &TPCB } else { &TPCB[1..2] };
            let mut statements = Vec::new();
            for text in texts {
                statements.push(connection.prepare(text).await?);
            }
            let seed = options.seed ^ ((tenant as u64) << 32 | number as u64);
            let rng = SmallRng::seed_from_u64(seed);
            let begin = connection.prepare("begin").await?;
            let commit = connection.prepare("commit").await?;
            let rollback = connection.prepare("rollback").await?;
            let (script, scale) = (options.script, options.scale);
            let teller = Teller { connection, statements, begin, commit, rollback, script, rng, scale };
            tellers.push((tenant, teller));
        }
    }
    let total = Rc::new(RefCell::new(Tally::new(1)));
    let start = Instant::now();
    let measured_from = SystemTime::now() + options.plan.warm_up;
    let running: Vec<_> = tellers
        .into_iter()
        .map(|(tenant, teller)| {
            let live = Arc::clone(&live[tenant]);
            (
                tenant,
                tokio::task::spawn_local(load::run_client(
                    teller,
                    options.plan,
                    start,
                    live,
                    Rc::clone(&total),
                )),
            )
        })
        .collect();
    let mut tenant_counts = vec![0u64; target.databases.len()];
    for (tenant, client) in running {
        tenant_counts[tenant] += client.await??;
    }
    let total = total.take();
    let seconds = options.plan.run.as_secs_f64();
    Ok(RunReport {
        workload: format!("pgbench {}", options.script.name()),
        server: product.label(),
        tenants: target.databases.len(),
        clients_per_tenant: options.clients_per_tenant,
        setting: format!("scale {}; {}", options.scale, crate::tpcc::pace_in_words(options.plan.pace)),
        measured_from_us: since_1970_us(measured_from),
        seconds,
        transactions: total.count(),
        transactions_per_second: total.count() as f64 / seconds,
        tpmc: None,
        tenant_tps: tenant_counts.iter().map(|count| *count as f64 / seconds).collect(),
        kinds: total.reports(&[options.script.name()]),
        log: total.log,
        violations: Vec::new(),
    })
}
