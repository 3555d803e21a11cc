//! Upkeep beside tenants of small limits, on one or two workers: the log stays short, memory comes free and everybody is recovered, whatever
//! such a tenant may read and write a second.
//!
//! Limited tenants change tables faster than their limits let checkpoints write them. Beside them others fill the log, read more than fits
//! their memory, or all memory, and one was promised I/Os. Amid that the server is killed and started again. Then:
//!
//! * the log's files take no more than its limit, the segments that are ready, and what is logged while the log is looked at and let go;
//! * nobody without a limit waits for one of its statements for long;
//! * after the start whoever has redo and no limit is recovered soon, without being asked for;
//! * who was promised I/Os missed none, the limited tenants' checkpoints that go beyond their limits notwithstanding, and the ledger tells
//!   of these.

use std::cell::Cell;
use std::path::Path;

use base::limits::IO_UNIT;
use base::{ByteCount, Nanos, TenantId};
use env::OpenMode;
use futures::future::{Either, join_all, select};
use governor::{LedgerRow, Resource};

use super::load::{Load, READ, client, table_of};
use super::{DATA_DIR, Kept, SECOND, SETTLING, Stage};
use crate::{Dice, Stop, require};

/// Of virtual time, before and after the server is killed.
const BEFORE: Nanos = Nanos::from_secs(16);
const AFTER: Nanos = Nanos::from_secs(8);
const LOG_LIMIT: ByteCount = ByteCount::from_mib(4);
/// A limit that is not reached: nobody is recovered because the log waits.
const LOG_AMPLE: ByteCount = ByteCount::from_mib(256);
const SEGMENT: ByteCount = ByteCount::from_mib(1);
/// Segments that are ready beyond those of the logs.
const SPARE_SEGMENTS: u64 = 2;
/// From when the log is over its limit until what keeps it is written and let go: it is looked at each second, and so is what became free.
const LET_GO: Nanos = Nanos::from_millis(3_500);
/// From a start on, until the log is short: of what made the tables, or of what is to be replayed of an earlier life.
const SHORT_AGAIN: Nanos = Nanos::from_secs(5);
/// For the pages of all tenants, in worlds where memory is short and where it is not.
const MEMORY: [ByteCount; 2] = [ByteCount::from_mib(6), ByteCount::from_mib(64)];
/// For the pages of who reads.
const MEMORY_MAX: ByteCount = ByteCount::from_mib(1);
/// Rows of a table that others than those who log have.
const ROWS: u64 = 600;
/// Rows of sixty thousand bytes.
const LARGE_ROWS: u64 = 20;
const LARGE: u64 = 60_000;
/// The longest pause of who logs, in microseconds.
const PAUSE: u64 = 200_000;
/// Rows by which who logs may be ahead of its average in [`LET_GO`]: of 35 pauses of any length up to the longest, three times the deviation, which is 0.58
/// sqrt(35).
const ROWS_BY_CHANCE: u64 = 10;
const _: () = assert!(LET_GO.0 / (PAUSE / 2 * 1_000) == 35);
/// What a statement of who has no limit takes at most, with the pause before it.
const STATEMENT_MAX: Nanos = Nanos::from_secs(3);
/// From a start on, until who has no limit is recovered.
const RECOVERED_MAX: Nanos = Nanos::from_secs(3);
/// I/Os that may be due at an interval's end and not issued.
const UNDER_WAY: u64 = 2;
/// Number of the volume of the data directory.
const DATA: u32 = 0;
/// A row of each page.
const CHANGE: &str = "update t set m = m + $1::int4 where n % 2 = 0";
const LOG: &str = "update large set pad = repeat('y', 60000) where n = $1::int4";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    /// Changes all its pages, and may do so few I/Os a second.
    Limited(u64),
    /// Fills the log.
    Logs,
    /// Reads at random, and was promised so many I/Os a second.
    Reads(u64),
}

#[derive(Clone, Debug)]
struct Tenant {
    name: String,
    id: TenantId,
    role: Role,
}

pub(super) struct Run<'a> {
    stage: &'a Stage<'a>,
    dice: Dice,
    tenants: Vec<Tenant>,
    workers: usize,
    memory: ByteCount,
    /// Of the data's volume, I/Os a second.
    limit: u64,
    /// The most that the log's files took since there was to be little of it.
    log_peak: Cell<ByteCount>,
    /// The longest that anybody without a limit waited.
    longest: Cell<Nanos>,
}

impl<'a> Run<'a> {
    pub(super) fn new(stage: &'a Stage<'a>) -> Run<'a> {
        let dice = Dice::of(stage.world);
        let limit = 300 + dice.below(300);
        // Limited ones first: those of the smallest numbers are recovered first.
        let limited = (0..1 + dice.below(2)).map(|_| Role::Limited(1 + dice.below(3)));
        let roles: Vec<Role> = limited
            .chain((0..2).map(|_| Role::Logs))
            .chain([Role::Reads(limit / 2 + dice.below(limit / 4)), Role::Reads(0)])
            .collect();
        let tenant = |(n, role)| Tenant { name: format!("g{n}"), id: TenantId(0), role };
        let tenants = roles.into_iter().enumerate().map(tenant).collect();
        let workers = 1 + dice.below(2) as usize;
        let memory = MEMORY[dice.below(2) as usize];
        let (log_peak, longest) = (Cell::new(ByteCount(0)), Cell::new(Nanos(0)));
        Run { stage, dice, tenants, workers, memory, limit, log_peak, longest }
    }

    pub(super) fn run(mut self) -> Result<Kept, Stop> {
        let (stage, world) = (self.stage, self.stage.world);
        let server = self.start(LOG_LIMIT)?;
        env::block_on(&world.env(), self.found())?;
        env::block_on(&world.env(), self.promise())?;
        env::block_on(&world.env(), stage.keep_promises())?;
        let began = world.now();
        env::block_on(&world.env(), self.work(began + SHORT_AGAIN, began + BEFORE))?;
        let mut kept = self.judge(&server.ledger(), began, world.now())?;
        world.kill();
        drop(server);
        let is_short = self.dice.percent(50);
        let server = self.start(if is_short { LOG_LIMIT } else { LOG_AMPLE })?;
        let started = world.now();
        env::block_on(&world.env(), self.recover(started))?;
        let end = world.now() + AFTER;
        env::block_on(&world.env(), self.work(if is_short { started + SHORT_AGAIN } else { end }, end))?;
        let ended = world.now();
        env::block_on(&world.env(), env::sleep(SETTLING));
        let rows = server.ledger();
        stage.end(server)?;
        kept.add(&self.judge(&rows, started + SECOND, ended)?);
        Ok(kept)
    }

    fn start(&self, log_limit: ByteCount) -> Result<server::Server, Stop> {
        self.stage.start(&self.stage.world.env(), |config| {
            config.workers = Some(self.workers);
            config.memory = self.memory;
            config.read_ahead = 0;
            config.log_limit = log_limit;
            config.log_segment_len = SEGMENT;
            config.checkpoint_interval = SECOND;
        })
    }

    async fn found(&mut self) -> Result<(), Stop> {
        let script = |role| match role {
            Role::Logs => {
                let create = "create table large (n int primary key, pad text)".to_owned();
                let row = |n| format!("insert into large values ({n}, repeat('x', {LARGE}))");
                std::iter::once(create).chain((0..LARGE_ROWS).map(row)).collect()
            }
            Role::Limited(_) | Role::Reads(_) => table_of(ROWS),
        };
        let of = |tenant: &'_ Tenant| (tenant.name.clone(), script(tenant.role));
        let founded: Vec<(String, Vec<String>)> = self.tenants.iter().map(of).collect();
        let founded =
            founded.iter().map(|(name, script)| (&**name, "io_weight = 100".to_owned(), script.clone()));
        let ids = self.stage.found(&founded.collect::<Vec<_>>()).await?;
        for (tenant, id) in self.tenants.iter_mut().zip(ids) {
            tenant.id = id;
        }
        Ok(())
    }

    /// Once tables are there: to load them within a limit would take long.
    async fn promise(&self) -> Result<(), Stop> {
        for Tenant { name, role, .. } in &self.tenants {
            let options = match role {
                Role::Limited(max) => format!("iops_max = {max}"),
                Role::Reads(reserved) => format!("iops = {reserved}, memory_max = {}", MEMORY_MAX.0),
                Role::Logs => continue,
            };
            self.stage.administer(&format!("alter tenant {name} set ({options})")).await?;
        }
        let limit = format!("alter volume default set (iops_limit = {})", self.limit);
        self.stage.administer(&limit).await.map(drop)
    }

    /// All clients until `end`, with an eye on the log from `short_from` on.
    async fn work(&self, short_from: Nanos, end: Nanos) -> Result<(), Stop> {
        let mut clients = Vec::new();
        for Tenant { name, role, .. } in &self.tenants {
            let (load, sql, below) = match role {
                Role::Limited(_) => (Load::Busy(1), CHANGE, 2),
                Role::Logs => (Load::Bursts { statements: 1, pause: PAUSE }, LOG, LARGE_ROWS),
                Role::Reads(_) => (Load::Busy(4), READ, ROWS),
            };
            let is_limited = matches!(role, Role::Limited(_));
            clients.extend((0..load.clients()).map(|_| async move {
                let last = Cell::new(self.stage.world.now());
                let waited = || {
                    let now = self.stage.world.now();
                    let took = now - last.replace(now);
                    if !is_limited {
                        self.longest.set(self.longest.get().max(took));
                    }
                };
                let next = || {
                    waited();
                    (sql, self.dice.below(below).to_string())
                };
                client(self.stage, &self.dice, name, load, end, next).await?;
                waited();
                Ok::<_, Stop>(())
            }));
        }
        let (all, watch) = (std::pin::pin!(join_all(clients)), std::pin::pin!(self.watch_log(short_from)));
        match select(all, watch).await {
            Either::Left((clients, _)) => clients.into_iter().collect::<Result<(), Stop>>()?,
            Either::Right((Err(stop), _)) => return Err(stop),
            Either::Right((Ok(never), _)) => match never {},
        }
        let (longest, log) = (self.longest.get(), self.log_peak.get());
        require!(
            longest <= STATEMENT_MAX,
            "{longest:?} for a statement of somebody without a limit; {log:?} of log"
        );
        Ok(())
    }

    async fn watch_log(&self, short_from: Nanos) -> Result<std::convert::Infallible, Stop> {
        // Of each log one is written to, one ready, and one begun by what is logged meanwhile.
        let segments = self.workers as u64 * 3 + SPARE_SEGMENTS;
        let logged: u64 = self.tenants.iter().map(|tenant| logged_meanwhile(tenant.role)).sum();
        let most = LOG_LIMIT.0 + segments * SEGMENT.0 + logged;
        loop {
            env::sleep(Nanos::from_millis(50)).await;
            let now = self.stage.world.now();
            if now < short_from {
                continue;
            }
            let len = self.log_len();
            self.log_peak.set(self.log_peak.get().max(len));
            require!(len.0 <= most, "{len:?} of log at {now:?}, {most} may be: {LOG_LIMIT:?} is the limit");
        }
    }

    fn log_len(&self) -> ByteCount {
        let (disk, dir) = (self.stage.world.env().disk, Path::new(DATA_DIR).join("log"));
        let entries = disk.list(&dir).expect("the server made it");
        // One that has been removed meanwhile has no length.
        let len = |name: String| disk.open(&dir.join(name), OpenMode::Read, false)?.len();
        let segments = entries.into_iter().filter(|entry| entry.name != "redo-id");
        ByteCount(segments.filter_map(|entry| len(entry.name).ok()).sum())
    }

    /// Waits until those are recovered that have redo and no limit. Nobody asks for them.
    async fn recover(&self, started: Nanos) -> Result<(), Stop> {
        loop {
            let shown = self.stage.administer("show tenants").await?;
            let is_closed = |tenant: &&Tenant| {
                let of = |row: &&crate::client::Values| row[0].as_ref() == Some(&tenant.name);
                let row = shown.iter().find(of).expect("each tenant is shown");
                tenant.role == Role::Logs && row[2].as_deref() != Some("open")
            };
            let Some(closed) = self.tenants.iter().find(is_closed) else { return Ok(()) };
            let waited = self.stage.world.now() - started;
            require!(waited <= RECOVERED_MAX, "{closed:?} is not recovered after {waited:?}");
            env::sleep(Nanos::from_millis(100)).await;
        }
    }

    fn judge(&self, rows: &[LedgerRow], from: Nanos, to: Nanos) -> Result<Kept, Stop> {
        let mut kept = Kept::default();
        for row in rows.iter().filter(|row| row.from >= from && row.to <= to) {
            let Some(tenant) = self.tenants.iter().find(|tenant| tenant.id == row.tenant) else { continue };
            match (tenant.role, row.resource) {
                (Role::Reads(reserved), Resource::Io { volume: DATA }) if reserved > 0 => {
                    require!(row.missed <= UNDER_WAY, "{tenant:?} missed its promise: {row:?}");
                    kept.intervals += 1;
                    kept.full += u64::from(row.demanded * 10 >= row.promised * 9);
                    kept.missed_max = kept.missed_max.max(row.missed);
                }
                (Role::Limited(max), Resource::Io { volume: DATA }) => {
                    let most = max * (row.to - row.from).0 / SECOND.0;
                    let beyond = row.given.saturating_sub(most);
                    require!(
                        row.over.abs_diff(beyond) <= 1,
                        "{tenant:?} got {beyond} beyond its limit: {row:?}"
                    );
                    kept.limited += u64::from(beyond > 0);
                }
                _ => {}
            }
        }
        Ok(kept)
    }
}

/// Bytes that a tenant logs at most until what keeps the log is let go.
fn logged_meanwhile(role: Role) -> u64 {
    let of_rate = |bytes: u64| bytes * LET_GO.0 / SECOND.0;
    match role {
        // After each row a pause, half as long as the longest one on average.
        Role::Logs => (LET_GO.0 / (PAUSE / 2 * 1_000) + ROWS_BY_CHANCE) * LARGE,
        // What its limit lets through, and one record beyond that.
        Role::Limited(max) => of_rate(max * IO_UNIT.0) + ROWS / 2 * 3_000,
        Role::Reads(_) => 0,
    }
}
