//! Promises of I/O, on one or two workers and a volume with a limit that the tenants want more of.
//!
//! Tenants read rows at random from tables much larger than the memory, and some write, so checkpoints and the log are theirs too. The
//! reservations fit. For every metering interval and volume:
//!
//! * nobody missed more of its reservation than what may have come due and not been issued as the interval ends;
//! * nobody got more than its limit but for the stated burst and debt, and what makes room for others;
//! * all together got no more than the volume's limit, and next to all of it, since somebody always waits for more.

use std::collections::BTreeMap;

use base::{ByteCount, Nanos, TenantId};
use env::sim::Speeds;
use governor::{LedgerRow, Resource};

use super::load::{Load, READ, WRITE, clients, table_of, work};
use super::{Kept, SECOND, SETTLING, Stage};
use crate::{Dice, Stop, require};

/// Of virtual time, before and after the change.
const HALF: Nanos = Nanos::from_millis(3_200);
/// Rows of a table.
const ROWS: u64 = 600;
/// For the pages of all tenants: a third of one table.
const MEMORY: ByteCount = ByteCount::from_kib(768);
/// Number of the volume of the data directory, and of the log.
const DATA: u32 = 0;
/// Clients of the tenant that always wants more.
const CLIENTS_ALWAYS: u64 = 12;
/// What a limit makes up for at once.
const BURST: Nanos = Nanos::from_millis(10);
/// I/Os by which a limit may be exceeded beside its burst: a request of several is whole or not there at all.
const UNDER_WAY: u64 = 2;
/// I/Os of the largest request there is: 256 KiB of a checkpoint, or of a new segment of the log.
const LARGEST: u64 = 4;

#[derive(Clone, Debug)]
struct Tenant {
    name: String,
    id: TenantId,
    /// I/Os a second.
    reserved: u64,
    max: Option<u64>,
    load: Load,
    /// Statements of a hundred that write.
    writes: u64,
    /// Of `reserved` from the middle on.
    altered: Option<u64>,
}

impl Tenant {
    /// I/Os of its largest request.
    fn largest(&self) -> u64 {
        if self.writes > 0 { LARGEST } else { 1 }
    }
}

pub(super) struct Run<'a> {
    stage: &'a Stage<'a>,
    dice: Dice,
    tenants: Vec<Tenant>,
    workers: usize,
    /// Of the data's volume, I/Os a second.
    limit: u64,
}

impl<'a> Run<'a> {
    pub(super) fn new(stage: &'a Stage<'a>) -> Run<'a> {
        let dice = Dice::of(stage.world);
        let limit = 100 + dice.below(900);
        let count = 2 + dice.below(4);
        // A tenth is for the server's own.
        let mut left = limit * 9 / 10;
        let tenants = (0..count).map(|n| {
            let reserved = 1 + dice.below((left / 2).max(1));
            left = left.saturating_sub(reserved);
            let max = (n > 0 && dice.percent(40)).then(|| reserved + dice.below(limit / 4));
            let load = match dice.below(4) {
                // The first one always wants more, and has no limit.
                _ if n == 0 => Load::Busy(CLIENTS_ALWAYS),
                0 | 1 => Load::Busy(1 + dice.below(8)),
                _ => Load::Bursts { statements: 1 + dice.below(40), pause: 1_000 << dice.below(8) },
            };
            let writes = if n > 0 && dice.percent(40) { dice.below(60) } else { 0 };
            Tenant { name: format!("g{n}"), id: TenantId(0), reserved, max, load, writes, altered: None }
        });
        let mut tenants: Vec<Tenant> = tenants.collect();
        let one = dice.below(count) as usize;
        let room = tenants[one].reserved + left;
        tenants[one].altered = Some(1 + dice.below(room.min(tenants[one].max.unwrap_or(room))));
        let workers = 1 + dice.below(2) as usize;
        Run { stage, dice, tenants, workers, limit }
    }

    pub(super) fn run(mut self) -> Result<Kept, Stop> {
        let (stage, world) = (self.stage, self.stage.world);
        let env = world.env();
        let server = stage.start(&env, |config| {
            config.workers = Some(self.workers);
            config.memory = MEMORY;
            config.read_ahead = 0;
        })?;
        env::block_on(&env, self.found())?;
        env::block_on(&env, self.promise())?;
        env::block_on(&env, stage.keep_promises())?;
        let parallel = std::num::NonZeroUsize::new(1 + self.dice.below(8) as usize);
        world.set_speeds(Speeds { disk_parallel: parallel, ..world.speeds() });
        let began = world.now();
        env::block_on(&env, self.work(began))?;
        let ended = world.now();
        env::block_on(&env, env::sleep(SETTLING));
        let rows = server.ledger();
        stage.end(server)?;
        self.judge(&rows, began, ended)
    }

    async fn found(&mut self) -> Result<(), Stop> {
        let found: Vec<_> = self
            .tenants
            .iter()
            .map(|tenant| (&*tenant.name, "io_weight = 100".to_owned(), table_of(ROWS)))
            .collect();
        let ids = self.stage.found(&found).await?;
        self.tenants.iter_mut().zip(ids).for_each(|(tenant, id)| tenant.id = id);
        Ok(())
    }

    /// Once tables are there: to load them within a limit would take long.
    async fn promise(&self) -> Result<(), Stop> {
        for Tenant { name, reserved, max, .. } in &self.tenants {
            let max = max.map(|max| format!(", iops_max = {max}")).unwrap_or_default();
            self.stage.administer(&format!("alter tenant {name} set (iops = {reserved}{max})")).await?;
        }
        let limit = format!("alter volume default set (iops_limit = {})", self.limit);
        self.stage.administer(&limit).await.map(drop)
    }

    /// All clients, and the change in the middle.
    async fn work(&self, began: Nanos) -> Result<(), Stop> {
        let clients = self.tenants.iter().flat_map(|tenant| {
            let next = move |_| {
                move || {
                    let sql = if self.dice.percent(tenant.writes) { WRITE } else { READ };
                    (sql, self.dice.below(ROWS).to_string())
                }
            };
            clients(self.stage, &self.dice, &tenant.name, tenant.load, began + HALF + HALF, next)
        });
        let alter = |tenant: &Tenant| {
            let reserved = tenant.altered?;
            Some((HALF, format!("alter tenant {} set (iops = {reserved})", tenant.name)))
        };
        work(self.stage, clients.collect(), self.tenants.iter().find_map(alter)).await
    }

    /// The most of a reservation that may have come due by an interval's end and not been issued: what comes due while the last request
    /// waits, and a whole request. It waits for the largest request of all, one of each other tenant and a log group of each worker, which the volume's
    /// limit spaces (`docs/decisions/0011-io-tags-at-issue.md`).
    fn missed_max(&self, tenant: &Tenant, reserved: u64) -> u64 {
        let others =
            self.tenants.iter().filter(|other| other.id != tenant.id).map(Tenant::largest).sum::<u64>();
        let ahead = LARGEST + others + self.workers as u64;
        tenant.largest() + (reserved * ahead).div_ceil(self.limit)
    }

    fn judge(&self, rows: &[LedgerRow], began: Nanos, ended: Nanos) -> Result<Kept, Stop> {
        let mut kept = Kept::default();
        let changed = began + HALF;
        // What the data's volume gave, by interval.
        let mut given: BTreeMap<(Nanos, Nanos), u64> = BTreeMap::new();
        for row in rows.iter().filter(|row| row.from >= began && row.to <= ended) {
            let Resource::Io { volume } = row.resource else { continue };
            if volume == DATA {
                *given.entry((row.from, row.to)).or_default() += row.given;
            }
            let Some(tenant) = self.tenants.iter().find(|tenant| tenant.id == row.tenant) else { continue };
            let name = &tenant.name;
            // The change is somewhere within it.
            if tenant.altered.is_some() && row.from <= changed + SECOND && row.to >= changed {
                continue;
            }
            let time = row.to - row.from;
            let reserved = tenant.altered.filter(|_| row.from > changed).unwrap_or(tenant.reserved);
            require!(row.promised.abs_diff(amount(reserved, time)) <= 1, "{name}: {row:?}");
            let most = self.missed_max(tenant, reserved);
            require!(
                row.missed <= most,
                "{name} of {tenant:?} missed its promise by more than {most}: {row:?}"
            );
            kept.intervals += 1;
            kept.full += u64::from(row.demanded * 10 >= row.promised * 9);
            kept.missed_max = kept.missed_max.max(row.missed);
            if let Some(max) = tenant.max {
                let most = amount(max, time + BURST) + self.workers as u64 + UNDER_WAY;
                // Checkpoints that make room for others are not held, and the ledger says so.
                let may_pass = tenant.writes > 0 && volume == DATA;
                let over = row.given.saturating_sub(amount(max, time));
                require!(
                    row.given <= most || (may_pass && row.over.abs_diff(over) <= 1),
                    "{name} got more than its limit of {max}, {most}: {row:?}"
                );
                kept.limited += u64::from(row.given * 10 >= amount(max, time) * 9);
            }
        }
        for ((from, to), given) in given {
            let time = to - from;
            let most = amount(self.limit, time + BURST) + self.workers as u64 + UNDER_WAY;
            require!(given <= most, "{given} I/Os of a volume limited to {}: {from:?} to {to:?}", self.limit);
            // Until the first client has gone.
            let is_wanted = to <= began + HALF + HALF && !self.stage.keeps_nothing;
            require!(
                !is_wanted || given * 10 >= amount(self.limit, time) * 9,
                "{given} I/Os of a volume limited to {} that was asked for more: {from:?} to {to:?}",
                self.limit
            );
        }
        Ok(kept)
    }
}

/// I/Os of so many a second in so long.
fn amount(per_second: u64, time: Nanos) -> u64 {
    per_second * time.0 / SECOND.0
}
