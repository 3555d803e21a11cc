//! Limits that an administrator sets anew again and again, on one worker, while what they are to hold runs and waits: from a tenth of a second after the
//! answer on they hold, and where they are wider they give.
//!
//! One tenant always wants more than its limit of one kind, beside another one that works. The judge is the ledger by the tenth of a second, and of buffer
//! memory what the tenant has there:
//!
//! * *processor*: nobody is given more than the new limit, its burst and a poll, nor less than half of it;
//! * *I/O*: as that; what waits for the old limit in a queue is what is to be let through by the new one;
//! * *memory*: pages beyond the new limit have left.

use std::cell::RefCell;

use base::limits::PAGE_SIZE;
use base::{ByteCount, Nanos, TenantId};
use env::sim::{Latency, Speeds};
use governor::{LedgerRow, Resource};

use super::load::{Load, READ, clients, table_of, work};
use super::{Kept, SECOND, SETTLING, Stage};
use crate::{Dice, Stop, require};

/// So soon an altered limit acts.
const ACTS: Nanos = Nanos::from_millis(100);
/// From when on what the limit before let through at once is no part of what there is.
const SETTLED: Nanos = Nanos::from_millis(300);
const CHANGES: u64 = 4;
/// Between two changes, and as much again by chance.
const APART: Nanos = Nanos::from_millis(600);
/// Of virtual time; each change takes some milliseconds besides.
const WORK: Nanos = Nanos((CHANGES + 1) * 2 * APART.0);
const CLIENTS: u64 = 6;
/// Number of the volume of the data directory, and its limit, I/Os a second: half of it is more than any limit of the tenant's.
const DATA: u32 = 0;
const VOLUME_LIMIT: u64 = 400;
/// Rows of a table: 300 pages.
const ROWS: u64 = 600;
/// For the pages of both tenants: a third of a table, or all.
const MEMORY_SHORT: ByteCount = ByteCount::from_kib(768);
const MEMORY_AMPLE: ByteCount = ByteCount::from_mib(64);
/// What limits let through at once: of processor time two refills, of I/O what they make up for.
const BURST: Nanos = Nanos::from_millis(20);
/// Readings of the processor's counter in one poll at most, and what they take at most.
const TICKS_A_POLL: u64 = 3;
const TICK: Latency = Latency { min: Nanos::from_micros(10), max: Nanos::from_micros(60) };
/// I/Os by which a limit may be exceeded beside its burst.
const UNDER_WAY: u64 = 3;
/// Pages that statements have while they leave memory, and the part of the limit that evictors are behind.
const PAGES_UNDER_WAY: u64 = 2 * CLIENTS;
const BEHIND_PART: u64 = 8;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Processor,
    Io,
    Memory,
}

/// A limit in thousandths of a core, I/Os a second or pages; `None`: none.
type Limit = Option<u64>;

#[derive(Clone, Copy, Debug)]
struct Change {
    limit: Limit,
    /// When it was sent and when it was answered.
    sent: Nanos,
    answered: Nanos,
}

pub(super) struct Run<'a> {
    stage: &'a Stage<'a>,
    dice: Dice,
    kind: Kind,
    limited: TenantId,
    changes: RefCell<Vec<Change>>,
    /// Looks at what the tenant had in memory.
    looks: RefCell<Vec<(Limit, ByteCount)>>,
}

impl<'a> Run<'a> {
    pub(super) fn new(stage: &'a Stage<'a>) -> Run<'a> {
        let dice = Dice::of(stage.world);
        let kind = [Kind::Processor, Kind::Io, Kind::Memory][dice.below(3) as usize];
        Run {
            stage,
            dice,
            kind,
            limited: TenantId(0),
            changes: RefCell::default(),
            looks: RefCell::default(),
        }
    }

    pub(super) fn run(mut self) -> Result<Kept, Stop> {
        let (stage, world) = (self.stage, self.stage.world);
        let env = world.env();
        let server = stage.start(&env, |config| {
            config.workers = Some(1);
            config.memory = if self.kind == Kind::Io { MEMORY_SHORT } else { MEMORY_AMPLE };
            config.read_ahead = 0;
        })?;
        self.limited = env::block_on(&env, self.found())?;
        env::block_on(&env, stage.keep_promises())?;
        let calm = world.speeds();
        if self.kind == Kind::Processor {
            world.set_speeds(Speeds { tick: TICK, ..calm });
        }
        env::block_on(&env, self.work(world.now() + WORK))?;
        world.set_speeds(calm);
        env::block_on(&env, env::sleep(SETTLING));
        let rows = server.ledger();
        stage.end(server)?;
        self.judge(&rows)
    }

    /// Makes the tenants. Of which rows there are some is promised a little: else the ledger has nothing to say of it.
    async fn found(&self) -> Result<TenantId, Stop> {
        self.stage.administer("alter server set (metering_interval = '100ms')").await?;
        let tenant = |name| (name, "cpu = '0.01', iops = 1".to_owned(), table_of(ROWS));
        let ids = self.stage.found(&[tenant("limited"), tenant("other")]).await?;
        if self.kind == Kind::Io {
            let limit = format!("alter volume default set (iops_limit = {VOLUME_LIMIT})");
            self.stage.administer(&limit).await?;
        }
        Ok(ids[0])
    }

    async fn work(&self, end: Nanos) -> Result<(), Stop> {
        let clients = ["limited", "other"].into_iter().flat_map(|tenant| {
            let next = move |_| move || (READ, self.dice.below(ROWS).to_string());
            clients(self.stage, &self.dice, tenant, Load::Busy(CLIENTS), end, next)
        });
        let clients = work(self.stage, clients.collect(), None);
        let (clients, altered) = futures::join!(clients, self.alter());
        clients.and(altered)
    }

    fn draw(&self, change: u64) -> Limit {
        let (least, most) = match self.kind {
            Kind::Processor => (20, 400),
            Kind::Io => (5, 150),
            Kind::Memory => (64, 200),
        };
        // One by one narrow and wide, and once there is none.
        let middle = (least + most) / 2;
        match change % 3 {
            0 => Some(least + self.dice.below(middle - least)),
            1 => Some(middle + self.dice.below(most - middle)),
            _ if self.dice.percent(50) => None,
            _ => Some(least + self.dice.below(most - least)),
        }
    }

    async fn alter(&self) -> Result<(), Stop> {
        let now = || self.stage.world.now();
        for change in 0..CHANGES {
            env::sleep(APART).await;
            self.dice.pause(APART.0 / 1_000).await;
            let limit = self.draw(change);
            let option = match (self.kind, limit) {
                (Kind::Processor, Some(max)) => format!("cpu_max = '0.{max:03}'"),
                (Kind::Processor, None) => "cpu_max = none".to_owned(),
                (Kind::Io, Some(max)) => format!("iops_max = {max}"),
                (Kind::Io, None) => "iops_max = none".to_owned(),
                (Kind::Memory, Some(max)) => format!("memory_max = {}", max * PAGE_SIZE as u64),
                (Kind::Memory, None) => "memory_max = none".to_owned(),
            };
            let sent = now();
            self.stage.administer(&format!("alter tenant limited set ({option})")).await?;
            self.changes.borrow_mut().push(Change { limit, sent, answered: now() });
            if self.kind == Kind::Memory {
                env::sleep(ACTS).await;
                let resident = self.resident().await?;
                self.looks.borrow_mut().push((limit, resident));
            }
        }
        Ok(())
    }

    /// What the tenant has in memory.
    async fn resident(&self) -> Result<ByteCount, Stop> {
        let rows = self.stage.administer("show tenants").await?;
        let row = rows.iter().find(|row| row[0].as_deref() == Some("limited")).expect("it is shown");
        // The first of eight counts before the size, which is the last.
        let resident = row[row.len() - 9].as_deref().expect("not null");
        Ok(ByteCount(resident.parse().expect("bytes")))
    }

    fn judge(&self, rows: &[LedgerRow]) -> Result<Kept, Stop> {
        let mut kept = Kept::default();
        let changes = self.changes.borrow();
        for (limit, resident) in self.looks.borrow().iter() {
            kept.intervals += 1;
            let Some(max) = *limit else { continue };
            let most = (max + max / BEHIND_PART + PAGES_UNDER_WAY) * PAGE_SIZE as u64;
            require!(resident.0 <= most, "{resident:?} in memory {ACTS:?} after a limit of {max} pages");
            kept.limited += u64::from(resident.0 >= max * PAGE_SIZE as u64 * 9 / 10);
        }
        for (n, change) in changes.iter().enumerate() {
            let until = changes.get(n + 1).map_or(change.answered + APART, |next| next.sent);
            let is_of_it = |row: &&LedgerRow| {
                let is_kind = match row.resource {
                    Resource::Cpu => self.kind == Kind::Processor,
                    Resource::Io { volume } => self.kind == Kind::Io && volume == DATA,
                    _ => false,
                };
                is_kind && row.tenant == self.limited && row.from >= change.answered + ACTS && row.to <= until
            };
            for row in rows.iter().filter(is_of_it) {
                kept.intervals += 1;
                let Some(max) = change.limit else { continue };
                let time = row.to - row.from;
                let (most, least) = match self.kind {
                    Kind::Processor => {
                        let of_limit = |time: Nanos| max * time.0 / 1000;
                        (of_limit(time + BURST) + TICK.max.0 * TICKS_A_POLL, of_limit(time) / 2)
                    }
                    _ => {
                        let of_limit = |time: Nanos| max * time.0 / SECOND.0;
                        (of_limit(time + BURST) + UNDER_WAY, (of_limit(time) / 2).saturating_sub(1))
                    }
                };
                require!(
                    row.given <= most,
                    "more than a limit of {max} as altered, {most}: {row:?} after {change:?}"
                );
                let is_settled = row.from >= change.answered + SETTLED;
                require!(
                    row.given >= least || !is_settled,
                    "less than half of a limit of {max} as altered: {row:?} after {change:?}"
                );
                kept.limited += 1;
                kept.full += u64::from(is_settled);
            }
        }
        Ok(kept)
    }
}
