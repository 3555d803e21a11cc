//! Promises of processor time, on one worker.
//!
//! What code costs is drawn ([`Speeds::tick`]), so a poll takes from microseconds to a millisecond of virtual time. Some tenants always want more, some come and
//! go, and one promise is altered amid the work. The reservations fit, so for every metering interval:
//!
//! * who was promised something and wanted it got it, to within one quantum, the longest polls that can be;
//! * nobody got more than its limit but for the stated burst and debt;
//! * the ledger's sums are what the server's own account says, to within a poll;
//!
//! and the worker was at work all the while, since somebody without a limit always had something to do.
//!
//! So it is where the server's own tenant is flooded with statements, and where a neighbour commits more than a megabyte at a time ([`Beside`]).

use std::cell::Cell;
use std::collections::BTreeMap;
use std::pin::pin;

use base::{Nanos, TenantId};
use env::sim::{Latency, Speeds};
use futures::future::{Either, join_all, select};
use governor::{LedgerRow, Resource};
use server::executor::TURN_MAX;

use super::load::{Load, READ, clients, work};
use super::{ADMIN_PASSWORD, Kept, SECOND, SETTLING, Stage, surely};
use crate::{Dice, Stop, require};

/// What a worker has beside the server's own fifth, in thousandths of a core.
const RESERVABLE: u64 = 780;
/// Of virtual time, before and after the change.
const HALF: Nanos = Nanos::from_millis(3_200);
/// Readings of the processor's counter in one poll of these tasks at most.
const TICKS_A_POLL: u64 = 3;
/// What a limit lets through at once: what it comes to in so long.
const BURST: Nanos = Nanos::from_millis(20);
/// Sessions that flood the server's own tenant. Its part of the time they always want: a tenth of a core at least is what makes it a flood.
const ADMINISTRATORS: u64 = 8;
const FLOOD_PART: u64 = 10;
/// Who commits much at a time: 1.2 MB in so many rows.
const LOADER: &str = "loader";
const LARGE_ROWS: u64 = 300;
const LARGE_ROW_LEN: usize = 4_000;
/// The longest pause between two such commits, in microseconds.
const LARGE_PAUSE: u64 = 800_000;

/// Who else is there, without a reservation that is judged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Beside {
    Nobody,
    /// Administrators that have all tenants shown without end. That is the server's own tenant's work.
    System,
    /// A tenant that commits more than a megabyte at a time.
    LargeCommits,
}

#[derive(Clone, Debug)]
struct Tenant {
    name: String,
    id: TenantId,
    reserved: u64,
    max: Option<u64>,
    load: Load,
    /// Of `reserved` from the middle on.
    altered: Option<u64>,
}

pub(super) struct Run<'a> {
    stage: &'a Stage<'a>,
    dice: Dice,
    tenants: Vec<Tenant>,
    tick: Latency,
    beside: Beside,
    /// Large commits that were acknowledged.
    commits: Cell<u64>,
}

impl<'a> Run<'a> {
    pub(super) fn new(stage: &'a Stage<'a>, beside: Beside) -> Run<'a> {
        let dice = Dice::of(stage.world);
        let most = [60, 200, 600][dice.below(3) as usize];
        let tick = Latency { min: Nanos::from_micros(10), max: Nanos::from_micros(most) };
        let count = 2 + dice.below(4);
        let mut left = RESERVABLE;
        let tenants = (0..count).map(|n| {
            let reserved = if dice.percent(20) { 0 } else { dice.below(left.min(500) + 1) };
            left -= reserved;
            // The first one always wants more, and has no limit.
            let max = (n > 0 && dice.percent(40)).then(|| (reserved + dice.below(300)).max(20));
            let load = match dice.below(4) {
                _ if n == 0 => Load::Busy(10),
                0 | 1 => Load::Busy(1 + dice.below(10)),
                _ => Load::Bursts { statements: 1 + dice.below(40), pause: 1_000 << dice.below(8) },
            };
            Tenant { name: format!("g{n}"), id: TenantId(0), reserved, max, load, altered: None }
        });
        let mut tenants: Vec<Tenant> = tenants.collect();
        let one = dice.below(count) as usize;
        let room = tenants[one].reserved + left;
        tenants[one].altered = Some(dice.below(room.min(tenants[one].max.unwrap_or(1_000)) + 1));
        Run { stage, dice, tenants, tick, beside, commits: Cell::new(0) }
    }

    pub(super) fn run(mut self) -> Result<Kept, Stop> {
        let (stage, world) = (self.stage, self.stage.world);
        let env = world.env();
        // Of several workers, one at a time would have the world's time.
        let server = stage.start(&env, |config| config.workers = Some(1))?;
        env::block_on(&env, self.found())?;
        env::block_on(&env, stage.keep_promises())?;
        let calm = world.speeds();
        world.set_speeds(Speeds { tick: self.tick, ..calm });
        let (began, before) = (world.now(), env::block_on(&env, self.used())?);
        env::block_on(&env, self.work(began))?;
        world.set_speeds(calm);
        let (ended, after) = (world.now(), env::block_on(&env, self.used())?);
        env::block_on(&env, env::sleep(SETTLING));
        let rows = server.ledger();
        let used = env::block_on(&env, self.used())?;
        stage.end(server)?;
        let all: f64 = after.values().sum::<f64>() - before.values().sum::<f64>();
        let elapsed = (ended - began).as_secs_f64();
        require!(all > 0.9 * elapsed, "the worker was at work for {all} s of {elapsed} s");
        require!(
            self.beside != Beside::LargeCommits || self.commits.get() > 0,
            "no large commit was acknowledged"
        );
        self.judge(&rows, &used, began, ended)
    }

    async fn found(&mut self) -> Result<(), Stop> {
        let table = "create table t (n int primary key); insert into t values (1)";
        let options = |Tenant { reserved, max, .. }: &Tenant| {
            let max = max.filter(|max| *max < 1_000).map(|max| format!(", cpu_max = '0.{max:03}'"));
            format!("cpu = '0.{reserved:03}'{}", max.unwrap_or_default())
        };
        let found =
            self.tenants.iter().map(|tenant| (&*tenant.name, options(tenant), vec![table.to_owned()]));
        let found: Vec<_> = found.collect();
        let ids = self.stage.found(&found).await?;
        self.tenants.iter_mut().zip(ids).for_each(|(tenant, id)| tenant.id = id);
        if self.beside == Beside::LargeCommits {
            let table = "create table large (n int primary key, pad text)".to_owned();
            self.stage.found(&[(LOADER, "cpu_weight = 100".to_owned(), vec![table])]).await?;
        }
        Ok(())
    }

    async fn used(&self) -> Result<BTreeMap<TenantId, f64>, Stop> {
        Ok(self.stage.shown().await?.into_values().collect())
    }

    /// All clients, and the change in the middle.
    async fn work(&self, began: Nanos) -> Result<(), Stop> {
        let clients = self.tenants.iter().flat_map(|tenant| {
            let next = |_| || (READ, "1".to_owned());
            clients(self.stage, &self.dice, &tenant.name, tenant.load, began + HALF + HALF, next)
        });
        let alter = |tenant: &Tenant| {
            let reserved = tenant.altered?;
            Some((HALF, format!("alter tenant {} set (cpu = '0.{reserved:03}')", tenant.name)))
        };
        let tenants = work(self.stage, clients.collect(), self.tenants.iter().find_map(alter));
        let (tenants, beside) = futures::join!(tenants, self.work_beside(began + HALF + HALF));
        tenants.and(beside)
    }

    async fn work_beside(&self, end: Nanos) -> Result<(), Stop> {
        match self.beside {
            Beside::Nobody => Ok(()),
            Beside::System => {
                let administrators = join_all((0..ADMINISTRATORS).map(|_| self.look_on(end))).await;
                administrators.into_iter().collect()
            }
            Beside::LargeCommits => self.load(end).await,
        }
    }

    /// An administrator that has all tenants shown again and again.
    async fn look_on(&self, end: Nanos) -> Result<(), Stop> {
        let mut admin = self.stage.client("rowhouse", "admin", ADMIN_PASSWORD);
        while self.stage.world.now() < end {
            admin.script("show tenants", &[]).await.map_err(surely)?;
        }
        Ok(())
    }

    /// Commits more than a megabyte now and then.
    async fn load(&self, end: Nanos) -> Result<(), Stop> {
        let mut owner = self.stage.owner(LOADER);
        let pad = "x".repeat(LARGE_ROW_LEN);
        while self.stage.world.now() < end {
            let first = self.commits.get() * LARGE_ROWS;
            let data: String = (first..first + LARGE_ROWS).map(|n| format!("{n}\t{pad}\n")).collect();
            let copy = pin!(owner.script("copy large from stdin", data.as_bytes()));
            // What is left of the time of others may be little.
            match select(copy, pin!(env::sleep_until(end + SECOND))).await {
                Either::Left((copied, _)) => drop(copied.map_err(surely)?),
                Either::Right(_) => return Ok(()),
            }
            self.commits.set(self.commits.get() + 1);
            self.dice.pause(LARGE_PAUSE).await;
        }
        Ok(())
    }

    /// The longest poll: the readings of the counter in one of these tasks, and where calls are long their turn before that.
    fn quantum(&self) -> Nanos {
        let readings = Nanos(self.tick.max.0 * TICKS_A_POLL);
        if self.beside == Beside::Nobody { readings } else { TURN_MAX + readings }
    }

    fn judge(
        &self,
        rows: &[LedgerRow],
        used: &BTreeMap<TenantId, f64>,
        began: Nanos,
        ended: Nanos,
    ) -> Result<Kept, Stop> {
        let mut kept = Kept::default();
        let changed = began + HALF;
        let quantum = self.quantum();
        if self.beside == Beside::System && !self.stage.keeps_nothing {
            let is_systems =
                |row: &&LedgerRow| row.tenant == TenantId::SYSTEM && row.resource == Resource::Cpu;
            let meanwhile = |row: &&LedgerRow| row.from >= began && row.to <= ended;
            let given: u64 = rows.iter().filter(is_systems).filter(meanwhile).map(|row| row.given).sum();
            require!(
                given >= (ended - began).0 / FLOOD_PART,
                "the server's own tenant had {given} ns: no flood"
            );
        }
        for tenant in &self.tenants {
            let name = &tenant.name;
            let of_it: Vec<&LedgerRow> =
                rows.iter().filter(|row| row.tenant == tenant.id && row.resource == Resource::Cpu).collect();
            for row in &of_it {
                require!(
                    row.to > row.from && row.given <= (row.to - row.from).0 + quantum.0,
                    "{name}: {row:?}"
                );
                require!(row.missed == row.demanded.saturating_sub(row.given), "{name}: {row:?}");
                // The change is somewhere within it, or it is of before or after the work.
                let spans_change = row.from <= changed + SECOND && row.to >= changed;
                if row.from < began || row.to > ended || (spans_change && tenant.altered.is_some()) {
                    continue;
                }
                let reserved = tenant.altered.filter(|_| row.from > changed).unwrap_or(tenant.reserved);
                let time = (row.to - row.from).0;
                require!(row.promised.abs_diff(reserved * time / 1000) <= 1_000, "{name}: {row:?}");
                require!(
                    row.missed <= 2 * quantum.0,
                    "{name} of {tenant:?} missed its promise, a quantum is {quantum:?}: {row:?}"
                );
                kept.intervals += 1;
                kept.full += u64::from(reserved > 0 && row.demanded * 100 >= row.promised * 90);
                kept.missed_max = kept.missed_max.max(row.missed);
                if let Some(max) = tenant.max.filter(|max| *max < 1_000) {
                    let most = max * (time + BURST.0) / 1000 + quantum.0;
                    require!(row.given <= most, "{name} got more than its limit of {max}, {most}: {row:?}");
                    kept.limited += u64::from(row.given * 10_000 >= max * time * 9);
                }
            }
            if tenant.reserved > 0 && tenant.altered.is_none() {
                let (sum, account) =
                    (of_it.iter().map(|row| row.given).sum::<u64>() as f64 / 1e9, used[&tenant.id]);
                require!(
                    (sum - account).abs() <= quantum.as_secs_f64() + 0.001 * account,
                    "{name} got {sum} s by the ledger, {account} s by its account"
                );
            }
        }
        Ok(kept)
    }
}
