//! Promises of buffer memory, on one worker: tenants that were promised some read at random or go round, beside others that read and
//! change more than there is.
//!
//! The promises fit the memory. Of every interval that was judged from a while after the promise on, and of all of a tenant's together: what the tenant
//! read beyond a cache of its own is a twentieth at most of what that would have spared it, and what is by chance: of an interval by its row of the ledger, of
//! all together by [`by_chance`]. And memory is short: as many pages have to leave it meanwhile as are promised at least.

use std::collections::BTreeMap;

use base::{ByteCount, Nanos, TenantId};
use env::sim::{Latency, Speeds};
use governor::{LedgerRow, Resource};

use super::load::{Load, READ, WRITE, clients, table_of, work};
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
/// Pages that a ghost has at least where only some of the pages are looked at.
const GHOST_MIN: u64 = 64;
/// Of the largest promise one page in four is.
const _: () = assert!(PROMISED_MAX.0 / base::limits::PAGE_SIZE as u64 / GHOST_MIN == 4);

/// How many pages one of the sample stands for.
fn sample_unit(promised: ByteCount) -> u64 {
    1 << (promised.0 / base::limits::PAGE_SIZE as u64 / GHOST_MIN).max(1).ilog2()
}

/// What of an excess over `demanded` may be by chance. A use that one of two caches of a size spares and the other does not says no more than that they
/// have not the same pages. Where there is nothing else to it, the difference of what they spare, d each, has a deviation of sqrt(2 d) at most. Three
/// deviations, of uses each of which stands for `unit`. Of one interval the ledger says it itself; it has no word for the sum of those in which nothing is missed.
fn by_chance(demanded: u64, unit: u64) -> u64 {
    (3.0 * (2.0 * demanded as f64 * unit as f64).sqrt()) as u64
}

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
        let (began, evicted_before) = (world.now(), server.memory().eviction_time());
        env::block_on(&env, self.work(began + WORK))?;
        let (ended, evicted) =
            (world.now(), server.memory().eviction_time().0.wrapping_sub(evicted_before.0));
        env::block_on(&env, env::sleep(SETTLING));
        let rows = server.ledger();
        stage.end(server)?;
        let least = PROMISED_MIN.0 / base::limits::PAGE_SIZE as u64;
        require!(
            u64::from(evicted) >= least,
            "{evicted} pages left memory: it was never short of {:?}",
            self.tenants
        );
        self.judge(&rows, began + GRACE, ended)
    }

    async fn found(&mut self) -> Result<(), Stop> {
        let promise = |tenant: &Tenant| format!("memory = {}", tenant.promised.0);
        let found = self.tenants.iter().map(|tenant| (&*tenant.name, promise(tenant), table_of(tenant.rows)));
        let found: Vec<_> = found.collect();
        let ids = self.stage.found(&found).await?;
        self.tenants.iter_mut().zip(ids).for_each(|(tenant, id)| tenant.id = id);
        Ok(())
    }

    async fn work(&self, end: Nanos) -> Result<(), Stop> {
        let clients = self.tenants.iter().flat_map(|tenant| {
            let next = move |n| {
                let mut at = tenant.rows * n / tenant.clients;
                move || {
                    at += 1;
                    let row = match tenant.pattern {
                        Pattern::Random => self.dice.below(tenant.rows),
                        Pattern::Skewed if self.dice.percent(90) => self.dice.below(tenant.rows / 5),
                        Pattern::Skewed => self.dice.below(tenant.rows),
                        Pattern::RoundAndRound => at % tenant.rows,
                    };
                    let sql = if self.dice.percent(tenant.writes) { WRITE } else { READ };
                    (sql, row.to_string())
                }
            };
            clients(self.stage, &self.dice, &tenant.name, Load::Busy(tenant.clients), end, next)
        });
        work(self.stage, clients.collect(), None).await
    }

    fn judge(&self, rows: &[LedgerRow], from: Nanos, to: Nanos) -> Result<Kept, Stop> {
        let mut kept = Kept::default();
        // Of all intervals until then: what the promised memory would have spared, and what was.
        let mut sums: BTreeMap<TenantId, (u64, u64)> = BTreeMap::new();
        for row in rows.iter().filter(|row| row.resource == Resource::Memory) {
            let Some(tenant) = self.tenants.iter().find(|tenant| tenant.id == row.tenant) else { continue };
            let name = &tenant.name;
            require!(tenant.promised.0 > 0, "{name} was promised nothing: {row:?}");
            if row.from < from || row.to > to {
                continue;
            }
            let allowed =
                |demanded: u64| demanded / EXCESS_PART + by_chance(demanded, sample_unit(tenant.promised));
            let (demanded, given) = sums.entry(tenant.id).or_insert((0, 0));
            (*demanded, *given) = (*demanded + row.demanded, *given + row.given);
            // What the ledger calls missed may be of several intervals, and of what may be chance it says how much.
            let certain = row.missed - row.by_chance;
            require!(
                certain <= row.demanded / EXCESS_PART
                    && demanded.saturating_sub(*given) <= allowed(*demanded),
                "{name} of {tenant:?} missed its promise, {given} were spared of {demanded} so far: {row:?}"
            );
            kept.intervals += 1;
            kept.full += u64::from(row.demanded > 0);
            kept.missed_max = kept.missed_max.max(row.missed);
        }
        Ok(kept)
    }
}
