//! What statements hold in memory, on one worker: one tenant with a limit of a few I/Os a second and more statements that wait for pages than all
//! together may hold, beside one that was promised memory and one that was not.
//!
//! Whatever waits for the slow one's limit, no statement of the other two takes longer than it takes to read its pages, some of them in line
//! for room.

use std::cell::Cell;

use base::{ByteCount, Nanos};
use env::sim::{Latency, Speeds};
use futures::future::{LocalBoxFuture, join_all};

use super::load::{READ, table_of};
use super::{Kept, SECOND, Stage, surely};
use crate::client::Connection as _;
use crate::{Dice, Stop, require};

/// For the pages of all tenants.
const MEMORY: ByteCount = ByteCount::from_mib(2);
/// What the one with a promise has of it.
const PROMISED: ByteCount = ByteCount::from_kib(256);
/// Pages that all statements together may hold: a quarter.
const HELD_MAX: u64 = MEMORY.0 / 4 / base::limits::PAGE_SIZE as u64;
/// Of virtual time.
const WORK: Nanos = Nanos::from_secs(3);
/// Until the slow one's statements hold what they may.
const GRACE: Nanos = Nanos::from_secs(1);
/// A statement reads three pages at most, each in some hundred microseconds; the rest is waiting, for what evictors do among others: they look
/// again after up to 64 ms where they find nothing.
const PATIENCE: Nanos = Nanos::from_millis(200);
/// Rows on a page.
const ROWS_A_PAGE: u64 = 2;

#[derive(Clone, Debug)]
struct Tenant {
    name: &'static str,
    options: String,
    rows: u64,
    clients: u64,
    /// Its statements wait for its own limit.
    is_slow: bool,
}

pub(super) struct Run<'a> {
    stage: &'a Stage<'a>,
    dice: Dice,
    tenants: [Tenant; 3],
}

impl<'a> Run<'a> {
    pub(super) fn new(stage: &'a Stage<'a>) -> Run<'a> {
        let dice = Dice::of(stage.world);
        let all = MEMORY.0 / base::limits::PAGE_SIZE as u64 * ROWS_A_PAGE;
        let slow = Tenant {
            name: "slow",
            options: "io_weight = 100".to_owned(),
            rows: 2 * all,
            clients: HELD_MAX + 1 + dice.below(16),
            is_slow: true,
        };
        let promised = Tenant {
            name: "promised",
            options: format!("memory = {}", PROMISED.0),
            rows: all / 8 + dice.below(all / 4),
            clients: 1 + dice.below(4),
            is_slow: false,
        };
        let other = Tenant {
            name: "other",
            options: "io_weight = 100".to_owned(),
            rows: all + dice.below(all),
            clients: 1 + dice.below(4),
            is_slow: false,
        };
        Run { stage, dice, tenants: [slow, promised, other] }
    }

    pub(super) fn run(self) -> Result<Kept, Stop> {
        let (stage, world) = (self.stage, self.stage.world);
        let env = world.env();
        let server = stage.start(&env, |config| {
            config.workers = Some(1);
            config.memory = MEMORY;
            config.read_ahead = 0;
        })?;
        env::block_on(&env, self.found())?;
        #[cfg(debug_assertions)]
        if stage.keeps_nothing {
            server.memory().share_nothing();
        }
        let network = Latency { min: Nanos::from_micros(300), max: Nanos::from_micros(900) };
        world.set_speeds(Speeds { network, ..world.speeds() });
        let kept = env::block_on(&env, self.work(world.now()))?;
        stage.end(server)?;
        require!(kept.intervals > 100, "{} statements in {WORK:?}", kept.intervals);
        Ok(kept)
    }

    async fn found(&self) -> Result<(), Stop> {
        let founded = self.tenants.iter().map(|of| (of.name, of.options.clone(), table_of(of.rows)));
        self.stage.found(&founded.collect::<Vec<_>>()).await?;
        // Once its table is there. What is left of loading them is written, so that all that is short is what statements keep.
        for tenant in &self.tenants {
            self.stage.administer(&format!("select rowhouse.evict('{}')", tenant.name)).await?;
        }
        let iops = 1 + self.dice.below(4);
        self.stage.administer(&format!("alter tenant slow set (iops_max = {iops})")).await.map(drop)
    }

    /// All clients, until those of the quick ones are through; those of the slow one are left where they are.
    async fn work(&self, began: Nanos) -> Result<Kept, Stop> {
        let kept = Cell::new(Kept::default());
        let mut slow = Vec::new();
        let mut quick: Vec<LocalBoxFuture<'_, Result<(), Stop>>> = Vec::new();
        for tenant in &self.tenants {
            for _ in 0..tenant.clients {
                let client = Box::pin(self.client(tenant, began, &kept));
                if tenant.is_slow { slow.push(client) } else { quick.push(client) }
            }
        }
        let (slow, quick) = (join_all(slow), join_all(quick));
        match futures::future::select(Box::pin(quick), Box::pin(slow)).await {
            futures::future::Either::Left((outcomes, _)) => {
                outcomes.into_iter().collect::<Result<(), _>>()?
            }
            futures::future::Either::Right((outcomes, quick)) => {
                outcomes.into_iter().collect::<Result<(), _>>()?;
                quick.await.into_iter().collect::<Result<(), _>>()?;
            }
        }
        Ok(kept.get())
    }

    async fn client(&self, tenant: &Tenant, began: Nanos, kept: &Cell<Kept>) -> Result<(), Stop> {
        let (world, name) = (self.stage.world, tenant.name);
        let mut client = self.stage.owner(name);
        while world.now() < began + WORK {
            let sent = world.now();
            client.run(READ, &[self.dice.below(tenant.rows).to_string()]).await.map_err(surely)?;
            let took = world.now() - sent;
            if tenant.is_slow || sent < began + GRACE {
                continue;
            }
            require!(took <= PATIENCE, "a statement of {name} took {took:?} after {:?}", sent - began);
            let mut seen = kept.get();
            seen.intervals += 1;
            seen.full += u64::from(name == "promised");
            seen.missed_max = seen.missed_max.max(took.0);
            kept.set(seen);
            self.dice.pause(SECOND.0 / 100_000).await;
        }
        Ok(())
    }
}
