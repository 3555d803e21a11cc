//! Promises of buffer memory, on one worker: tenants that were promised some read at random or go round, beside others that read and
//! change more than there is.
//!
//! The promises fit the memory. Of every interval that was judged from a while after the promise on: what the tenant read beyond a
//! cache of its own is a twentieth at most of what that would have spared it. And memory is full all the while, so that it is short.

use base::{ByteCount, Nanos, TenantId};
use env::sim::{Latency, Speeds};
use futures::future::join_all;
use governor::{LedgerRow, Resource};

use super::load::{Load, client};
use super::{Kept, SETTLING, Stage};
use crate::{Dice, Stop, require};

/// For the pages of all tenants.
const MEMORY: ByteCount = ByteCount::from_mib(3);
/// Of it, what is promised at most.
const PROMISED_MAX: ByteCount = ByteCount::from_kib(2_048);
/// The least that is promised: as much as the smallest simulated cache has.
const PROMISED_MIN: ByteCount = ByteCount::from_kib(512);
/// Of virtual time.
const WORK: Nanos = Nanos::from_secs(6);
/// From a promise until it is kept: prices follow once a second, and pages have to come.
const GRACE: Nanos = Nanos::from_secs(3);
/// Rows on a page.
const ROWS_A_PAGE: u64 = 2;
/// Rows of a table of someone who is promised nothing: more than all memory.
const ROWS_GREEDY: u64 = 1_200;
/// Of what a cache of its own would have spared a tenant.
const EXCESS_PART: u64 = 20;
const READ: &str = "select n from t where n = $1::int4";
const WRITE: &str = "update t set m = m + 1 where n = $1::int4";

/// Which rows a tenant reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Pattern {
    Random,
    /// Nine of ten from the first fifth.
    Skewed,
    RoundAndRound,
}

#[derive(Clone, Debug)]
struct Tenant {
    name: String,
    id: TenantId,
    promised: ByteCount,
    rows: u64,
    pattern: Pattern,
    clients: u64,
    /// Statements of a hundred that write.
    writes: u64,
}

pub(super) struct Run<'a> {
    stage: &'a Stage<'a>,
    dice: Dice,
    tenants: Vec<Tenant>,
}

impl<'a> Run<'a> {
    pub(super) fn new(stage: &'a Stage<'a>) -> Run<'a> {
        let dice = Dice::of(stage.world);
        let pattern = || [Pattern::Random, Pattern::Skewed, Pattern::RoundAndRound][dice.below(3) as usize];
        let mut left = PROMISED_MAX;
        let mut tenants = Vec::new();
        for n in 0..1 + dice.below(2) {
            let more = dice.below((left - PROMISED_MIN).0.min(1 << 20) / 1024);
            let promised = PROMISED_MIN + ByteCount::from_kib(more);
            left = left - promised;
            let pages = promised.0 / base::limits::PAGE_SIZE as u64;
            // From half of what it is promised to twice as much.
            let rows = pages * ROWS_A_PAGE * (50 + dice.below(150)) / 100;
            let clients = 1 + dice.below(3);
            let name = format!("p{n}");
            let (id, pattern) = (TenantId(0), pattern());
            tenants.push(Tenant { name, id, promised, rows, pattern, clients, writes: 0 });
        }
        for n in 0..1 + dice.below(2) {
            let (name, promised) = (format!("g{n}"), ByteCount(0));
            let (pattern, clients) = (pattern(), 2 + dice.below(3));
            let (id, rows) = (TenantId(0), ROWS_GREEDY);
            let writes = if dice.percent(50) { dice.below(60) } else { 0 };
            tenants.push(Tenant { name, id, promised, rows, pattern, clients, writes });
        }
        Run { stage, dice, tenants }
    }

    pub(super) fn run(mut self) -> Result<Kept, Stop> {
        let (stage, world) = (self.stage, self.stage.world);
        let env = world.env();
        let server = stage.start(&env, |config| {
            config.workers = Some(1);
            config.memory = MEMORY;
            config.read_ahead = 0;
        })?;
        env::block_on(&env, self.found())?;
        env::block_on(&env, stage.keep_promises())?;
        // Far clients, so that there are not more statements than it takes.
        let network = Latency { min: Nanos::from_micros(300), max: Nanos::from_micros(900) };
        world.set_speeds(Speeds { network, ..world.speeds() });
        let began = world.now();
        env::block_on(&env, self.work(began + WORK))?;
        let ended = world.now();
        let resident = server.memory().resident();
        env::block_on(&env, env::sleep(SETTLING));
        let rows = server.ledger();
        stage.end(server)?;
        require!(resident.0 * 10 >= MEMORY.0 * 8, "{resident:?} of {MEMORY:?}: memory was never short");
        self.judge(&rows, began + GRACE, ended)
    }

    async fn found(&mut self) -> Result<(), Stop> {
        for tenant in &self.tenants {
            let mut script = vec!["create table t (n int primary key, m int not null, pad text)".to_owned()];
            let numbers: Vec<u64> = (0..tenant.rows).collect();
            script.extend(numbers.chunks(20).map(|some| {
                let rows: Vec<String> = some.iter().map(|n| format!("({n}, 0, repeat('x', 3000))")).collect();
                format!("insert into t values {}", rows.join(", "))
            }));
            self.stage.found(&tenant.name, &format!("memory = {}", tenant.promised.0), &script).await?;
        }
        let shown = self.stage.shown().await?;
        for tenant in &mut self.tenants {
            tenant.id = shown[&tenant.name].0;
        }
        Ok(())
    }

    async fn work(&self, end: Nanos) -> Result<(), Stop> {
        let mut clients = Vec::new();
        for tenant in &self.tenants {
            clients.extend((0..tenant.clients).map(|n| {
                let mut at = tenant.rows * n / tenant.clients;
                let next = move || {
                    at += 1;
                    let row = match tenant.pattern {
                        Pattern::Random => self.dice.below(tenant.rows),
                        Pattern::Skewed if self.dice.percent(90) => self.dice.below(tenant.rows / 5),
                        Pattern::Skewed => self.dice.below(tenant.rows),
                        Pattern::RoundAndRound => at % tenant.rows,
                    };
                    let sql = if self.dice.percent(tenant.writes) { WRITE } else { READ };
                    (sql, row.to_string())
                };
                let busy = Load::Busy(tenant.clients);
                client(self.stage, &self.dice, &tenant.name, busy, end, next)
            }));
        }
        join_all(clients).await.into_iter().collect()
    }

    fn judge(&self, rows: &[LedgerRow], from: Nanos, to: Nanos) -> Result<Kept, Stop> {
        let mut kept = Kept::default();
        for row in rows.iter().filter(|row| row.resource == Resource::Memory) {
            let Some(tenant) = self.tenants.iter().find(|tenant| tenant.id == row.tenant) else { continue };
            let name = &tenant.name;
            require!(tenant.promised.0 > 0, "{name} was promised nothing: {row:?}");
            if row.from < from || row.to > to {
                continue;
            }
            require!(
                row.missed * EXCESS_PART <= row.demanded,
                "{name} of {tenant:?} missed its promise: {row:?}"
            );
            kept.intervals += 1;
            kept.full += u64::from(row.demanded > 0);
            kept.missed_max = kept.missed_max.max(row.missed);
        }
        Ok(kept)
    }
}
