//! The whole server in a simulated world: clients over sockets, reception, workers and executor, sessions, tenants that
//! close and open and move between workers, checkpoints, log, disk, and analytical queries where there is an engine for them; without TLS.
//!
//! Clients of several tenants run the transactions of [`histories`](crate::histories) by the wire protocol, in some lives long work too, hang up and are
//! cut off. A server's life ends at a random disk operation, its start included, or after a fault, or is ended in order amid their work; the next one reads all
//! objects over the wire. At the end the history of each tenant must be one that its level allows: nothing that
//! was acknowledged, or shown by a reply, is lost; every data file verifies after each life; no task panics.

mod bulk;
mod client;
mod copies;
mod governed;
mod indexes;
mod moves;
mod shapes;
mod sums;

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::task::Poll;

use base::limits::PAGE_SIZE;
use base::{ByteCount, Nanos, TenantId};
use env::sim::World;
use futures::future::{Either, select};
use futures::stream::{FuturesUnordered, StreamExt};
use server::executor::TURN_MAX;
use server::{AnalyticRun, Server, ServerConfig, Tls};

use crate::campaign::{Task, caught, file_defects};
use crate::client::{Connection, Fate};
use crate::histories::object::{Object, READ_RANGE, found_in};
use crate::histories::record::{KEYS, Record};
use crate::histories::session;
use crate::histories::{Lists, Registers};
use crate::isolation::Level;
use crate::weather::{Ending, Weather};
use crate::{Dice, Failure, Stop, Tally, require};
use bulk::{Bulk, Share};
use client::{Login, OddWays, WireClient};
use copies::Copies;
use shapes::Shape;
use sums::Sums;

pub use governed::{Governed, Kept, Promised};

const DATA_DIR: &str = "/data";
const ADMIN_PASSWORD: &str = "of the simulation";
const CREATE_TENANT: [&str; 3] = [
    "create tenant t0 owner owner password 'pw'",
    "create tenant t1 owner owner password 'pw'",
    "create tenant t2 owner owner password 'pw'",
];
/// Clients of each tenant.
const CLIENTS: u64 = 3;
/// Memory that is never short.
const MEMORY_AMPLE: ByteCount = ByteCount::from_mib(64);
/// What seeds have, in turn.
const MEMORY: [ByteCount; 4] =
    [MEMORY_AMPLE, ByteCount::from_kib(160), ByteCount::from_kib(192), ByteCount::from_kib(256)];
/// What seeds with analytical queries have: besides what others have to fit, what a query's snapshot alone still holds.
const MEMORY_BESIDE_QUERIES: [ByteCount; 3] =
    [MEMORY_AMPLE, ByteCount::from_kib(384), ByteCount::from_kib(256)];
/// The part of the memory that may always be exceeded.
const OVER_PART: u64 = 20;
/// Pages that one turn may add beyond it: a commit of a few rows and their index entries, or a tenant's root as it opens.
const COMMITS_PAGES: u64 = 16;
/// A life without an end is stuck.
const LIFE_MAX: Nanos = Nanos::from_secs(3600);
/// Of a hundred lives in fair weather, so many are ended in order.
const STOPPED_PERCENT: u64 = 10;
/// Microseconds after which that begins at the latest, in turn.
const STOPPED_AFTER: [u64; 3] = [2_000, 20_000, 100_000];
/// How long it may take: sessions have ten seconds, and what is open is written.
const STOP_MAX: Nanos = Nanos::from_secs(60);
/// In one of so many seeds clients take rows few at a time and have statements cancelled.
const ODD_SEEDS: u64 = 5;

/// A seed's campaign.
#[derive(Clone, Copy, Debug)]
pub struct Whole {
    pub seed: u64,
    pub lives: u64,
    /// A canary: the log's disk says that writes are durable which are not, so replies leave too early.
    pub lying_log: bool,
    /// For the pages of all tenants.
    pub memory: ByteCount,
    /// The engine of analytical queries, which sums are asked of beside the other work; without one they are refused.
    pub analytic: Option<AnalyticRun>,
    /// Of a hundred lives in fair weather, so many are ended in order amid the work.
    pub stopped_percent: u64,
    /// Whether troubles, ends and disk operations are printed to the standard error.
    pub traced: bool,
}

impl Whole {
    /// The campaign of a seed.
    pub fn of(seed: u64) -> Whole {
        let memory = MEMORY[(seed / 3 % MEMORY.len() as u64) as usize];
        let (lives, stopped_percent) = (crate::plan::LIVES, STOPPED_PERCENT);
        Whole { seed, lives, lying_log: false, memory, analytic: None, stopped_percent, traced: false }
    }

    /// The campaign of a seed with analytical queries. Tenants are made cold before some of them, and in two seeds of three memory is short.
    pub fn with_queries(seed: u64, engine: AnalyticRun) -> Whole {
        let memory = MEMORY_BESIDE_QUERIES[(seed % MEMORY_BESIDE_QUERIES.len() as u64) as usize];
        Whole { memory, analytic: Some(engine), ..Whole::of(seed) }
    }

    /// Runs it. One seed gives one tally, whenever it is run.
    ///
    /// # Errors
    /// The first violation, panics included.
    pub fn run(&self) -> Result<Tally, Failure> {
        match self.seed % 2 {
            0 => Run::<Lists>::new(*self).run(),
            _ => Run::<Registers>::new(*self).run(),
        }
    }
}

struct Run<O: Object> {
    whole: Whole,
    world: World,
    level: Level,
    /// Of each tenant, by its place.
    records: Vec<Rc<RefCell<Record<O>>>>,
    copies: RefCell<Copies>,
    /// Of each tenant, by its place.
    bulk: Vec<Bulk>,
    /// What long work the present life has.
    bulk_share: Share,
    /// Of each tenant, by its place.
    shapes: Vec<Shape>,
    /// Of each tenant, by its place.
    sums: Vec<Sums>,
    /// Of the present life.
    server: Option<Server>,
    breaks: Rc<Cell<u64>>,
    /// Of all lives.
    odd: Rc<OddWays>,
    tally: Tally,
}

impl<O: Object> Run<O> {
    fn new(whole: Whole) -> Run<O> {
        let level =
            [Level::ReadCommitted, Level::RepeatableRead, Level::Serializable][(whole.seed / 2 % 3) as usize];
        let tenants = 1 + whole.seed / 6 % CREATE_TENANT.len() as u64;
        Run {
            whole,
            world: World::new(whole.seed),
            level,
            records: (0..tenants).map(|_| Rc::default()).collect(),
            copies: RefCell::default(),
            bulk: (0..tenants).map(|_| Bulk::default()).collect(),
            bulk_share: Share::None,
            shapes: (0..tenants).map(|_| Shape::default()).collect(),
            sums: (0..tenants).map(|_| Sums::default()).collect(),
            server: None,
            breaks: Rc::default(),
            odd: Rc::default(),
            tally: Tally::default(),
        }
    }

    fn run(mut self) -> Result<Tally, Failure> {
        let outcome = caught(|| self.lives());
        self.world.kill();
        self.server = None;
        let what = match outcome {
            Ok(()) => return Ok(self.tally),
            Err(Stop::Violation(what)) => what,
            Err(stop) => format!("an end that nobody made: {stop:?}"),
        };
        Err(Failure { seed: self.whole.seed, life: self.tally.lives, what })
    }

    fn lives(&mut self) -> Result<(), Stop> {
        let dice = Dice::of(&self.world);
        if self.whole.traced {
            self.world.trace_disk();
        }
        self.start()?;
        self.attend(Run::found)?;
        self.attend(Run::found_sums)?;
        self.stop()?;
        if self.whole.lying_log {
            self.world.lie_about(".redo");
        }
        while self.tally.lives < self.whole.lives {
            let weather = Weather::draw(&dice);
            self.trace(&format!("life {}: {weather:?}", self.tally.lives));
            match caught(|| self.live(&dice, weather)) {
                Ok(()) => {
                    self.ended_in_order()?;
                    continue;
                }
                Err(Stop::PowerOff | Stop::Fault(_)) => {}
                // A process that finds its disk gone may die of it.
                Err(Stop::Violation(what)) if what.starts_with("panicked") && self.world.is_powered_off() => {
                }
                Err(violation) => return Err(violation),
            }
            self.end(&dice)?;
        }
        self.start()?;
        self.attend(Run::read_all)?;
        self.attend(Run::read_bulk)?;
        self.attend(Run::use_shapes)?;
        self.attend(Run::sum_all_up)?;
        self.attend(Run::settle_copies)?;
        self.stop()?;
        for (place, record) in self.records.iter().enumerate() {
            record.borrow().judge(self.level).map_err(|stop| stop.after(&name(place)))?;
        }
        self.take_stock();
        Ok(())
    }

    fn take_stock(&mut self) {
        let committed = |record: &Rc<RefCell<Record<O>>>| record.borrow().committed_count();
        self.tally.acknowledged = self.records.iter().map(committed).sum();
        self.tally.disk_changes = self.world.disk_changes();
        self.tally.bulk = self.bulk.iter().map(Bulk::generations).sum();
        self.tally.queries = self.sums.iter().map(Sums::judged).sum();
        self.tally.spills = self.sums.iter().map(Sums::spilled).sum();
        self.tally.fingerprint = self.world.fingerprint();
        self.tally.disk_hash = self.world.disk_hash();
    }

    fn trace(&self, what: &str) {
        if self.whole.traced {
            eprintln!("{} {what}", self.world.now().0);
        }
    }

    fn config(&self) -> ServerConfig {
        ServerConfig {
            listen: address(),
            admin_listen: None,
            workers: Some(1 + Dice::of(&self.world).below(2) as usize),
            tls: Tls::Off,
            admin_password: Some(ADMIN_PASSWORD.to_owned()),
            tenant_close_after: Nanos::from_millis(300),
            checkpoint_interval: Nanos::from_secs(1),
            log_limit: ByteCount::from_mib(4),
            log_segment_len: ByteCount::from_mib(1),
            // Small and large tenants in one world.
            head_start_min: ByteCount(20_000),
            memory: self.whole.memory,
            analytic: self.whole.analytic,
            // Polls take no time here: a long call is suspended wherever it can be, or never.
            turn_max: if Dice::of(&self.world).below(2) == 0 { Nanos(0) } else { TURN_MAX },
            ..ServerConfig::new(DATA_DIR)
        }
    }

    fn start(&mut self) -> Result<(), Stop> {
        self.world.set_time_limit(self.world.now() + LIFE_MAX);
        let server = Server::start(&self.world.env(), self.config());
        self.server = Some(server.map_err(|error| Stop::failed(&self.world, "starting the server", error))?);
        Ok(())
    }

    /// Ends the server in order.
    fn stop(&mut self) -> Result<(), Stop> {
        let server = self.server.take().expect("it runs");
        self.check_memory(&server)?;
        server.stop();
        self.check_panics()?;
        self.verify_files()
    }

    /// Runs work of clients to its end.
    fn attend(&self, work: impl AsyncFn(&Run<O>) -> Result<(), Stop>) -> Result<(), Stop> {
        env::block_on(&self.world.env(), work(self))
    }

    fn client(&self, database: String, user: &'static str, password: &'static str) -> WireClient {
        let login = Login { address: address(), database, user, password };
        let refuses_queries = self.whole.memory < MEMORY_AMPLE && self.whole.analytic.is_none();
        WireClient::new(&self.world, login, &self.breaks, refuses_queries)
    }

    fn administrator(&self) -> WireClient {
        self.client("rowhouse".to_owned(), "admin", ADMIN_PASSWORD)
    }

    fn client_of(&self, place: usize) -> WireClient {
        self.client(name(place), "owner", "pw")
    }

    /// As [`Run::client_of`], in some seeds with odd ways.
    fn odd_client_of(&self, place: usize) -> WireClient {
        let is_odd = self.whole.seed % ODD_SEEDS == ODD_SEEDS - 1;
        self.client_of(place).with(is_odd.then(|| self.odd.clone()))
    }

    /// Makes the tenants and their tables.
    async fn found(&self) -> Result<(), Stop> {
        let mut admin = self.administrator();
        for place in 0..self.records.len() {
            admin.run(CREATE_TENANT[place], &[]).await.map_err(surely)?;
            self.client_of(place).run(O::TABLE, &[]).await.map_err(surely)?;
        }
        Ok(())
    }

    /// Reads every object of every tenant, each as one transaction of its history.
    async fn read_all(&self) -> Result<(), Stop> {
        for (place, record) in self.records.iter().enumerate() {
            let mut client = self.client_of(place);
            while let Err(fate) = read_history(&mut client, record).await {
                client.recover(fate).await?;
                Dice::of(&self.world).pause(50_000).await;
            }
        }
        Ok(())
    }

    /// A life. It ends with the power or by a fault, which is an error here, or in order.
    fn live(&mut self, dice: &Dice, weather: Weather) -> Result<(), Stop> {
        if weather == Weather::Fair && !self.whole.lying_log && dice.percent(self.whole.stopped_percent) {
            return self.live_until_stopped(dice);
        }
        let full = matches!(weather, Weather::NoRoom(..));
        if !full {
            weather.begin(&self.world);
        }
        if dice.percent(15) {
            self.world.cut_power_after(1 + dice.below(25));
        }
        self.start().inspect_err(|_| self.tally.ended_in_recovery += 1)?;
        if full {
            weather.begin(&self.world);
        }
        self.bulk_share = self.draw_bulk(dice);
        if !self.world.is_powered_off() {
            let bound = match self.bulk_share {
                Share::None => [20, 80, 250][dice.below(3) as usize],
                Share::Alone | Share::BesideOthers => bulk::DISK_CHANGES_MAX,
            };
            self.world.cut_power_after(1 + dice.below(bound));
        }
        env::block_on(&self.world.env(), self.serve(weather))
    }

    fn live_until_stopped(&mut self, dice: &Dice) -> Result<(), Stop> {
        self.start()?;
        self.bulk_share = self.draw_bulk(dice);
        let server = self.server.take().expect("just started");
        env::block_on(&self.world.env(), self.serve_until_stopped(server, dice))
    }

    /// Clients at work until the server is ended in order. From then on they stand still, amid whatever they were at, with their connections
    /// open, and what they were not told of by then is not known to them.
    async fn serve_until_stopped(&self, server: Server, dice: &Dice) -> Result<(), Stop> {
        let latest = STOPPED_AFTER[dice.below(STOPPED_AFTER.len() as u64) as usize];
        let time = Nanos::from_micros(dice.below(latest));
        let serving = std::pin::pin!(self.serve(Weather::Fair));
        let waiting = std::pin::pin!(env::sleep(time));
        let _silent = match select(serving, waiting).await {
            Either::Left((ended, _)) => return ended,
            Either::Right(((), serving)) => serving,
        };
        self.trace("the operator ends the server");
        let began = self.world.now();
        let body = Box::new(move || server.stop());
        let operator = self.world.env().threads.spawn("operator", None, body);
        let operator = operator.map_err(|error| Stop::failed(&self.world, "starting a thread", error))?;
        while !operator.is_finished() {
            env::sleep(Nanos::from_millis(10)).await;
            let took = self.world.now() - began;
            require!(
                took <= STOP_MAX,
                "the server has not ended {} s after it was told to",
                took.0 / 1_000_000_000
            );
        }
        Ok(())
    }

    /// Clients at work until the power goes or the server is ended.
    async fn serve(&self, weather: Weather) -> Result<(), Stop> {
        let mut tasks: FuturesUnordered<Task<'_>> = FuturesUnordered::new();
        match self.bulk_share {
            Share::Alone => tasks.push(Box::pin(self.read_all())),
            Share::None | Share::BesideOthers => {
                tasks.push(Box::pin(self.read_all_and_work()));
                tasks.push(Box::pin(self.keep_copies()));
            }
        }
        tasks.push(Box::pin(weather.pass(self.world.clone())));
        tasks.push(Box::pin(self.watch_power()));
        tasks.push(Box::pin(self.break_connections()));
        tasks.push(Box::pin(self.move_about()));
        tasks.push(Box::pin(self.work_in_bulk()));
        tasks.push(Box::pin(self.alter_shapes()));
        tasks.push(Box::pin(self.transfer_and_sum_up()));
        tasks.push(Box::pin(self.index_beside_writers()));
        poll_fn(|cx| {
            loop {
                match tasks.poll_next_unpin(cx) {
                    Poll::Ready(Some(Err(stop))) => return Poll::Ready(Err(stop)),
                    Poll::Ready(Some(Ok(()))) => {}
                    Poll::Ready(None) | Poll::Pending => return Poll::Pending,
                }
            }
        })
        .await
    }

    async fn read_all_and_work(&self) -> Result<(), Stop> {
        self.read_all().await?;
        let mut sessions: FuturesUnordered<Task<'_>> = FuturesUnordered::new();
        for (place, record) in self.records.iter().enumerate() {
            for _ in 0..CLIENTS {
                let (client, dice) = (self.odd_client_of(place), Dice::of(&self.world));
                let task = session::run(client, record.clone(), dice, self.level, 3);
                sessions.push(Box::pin(task));
            }
        }
        while let Some(ended) = sessions.next().await {
            ended?;
        }
        Ok(())
    }

    /// The harness is not woken when the power goes while every client waits.
    async fn watch_power(&self) -> Result<(), Stop> {
        while !self.world.is_powered_off() {
            env::sleep(Nanos::from_millis(5)).await;
        }
        Err(Stop::PowerOff)
    }

    async fn break_connections(&self) -> Result<(), Stop> {
        let dice = Dice::of(&self.world);
        // Long work alone takes its time.
        let pause_max = if self.bulk_share == Share::Alone { 20_000_000 } else { 3_000_000 };
        loop {
            dice.pause(pause_max).await;
            self.breaks.set(self.breaks.get() + 1);
            self.world.disconnect_all();
        }
    }

    /// Looks at what a life left that was ended in order.
    fn ended_in_order(&mut self) -> Result<(), Stop> {
        self.tally.lives += 1;
        self.check_panics()?;
        self.verify_files()
    }

    /// Ends a life, and looks at what it left.
    fn end(&mut self, dice: &Dice) -> Result<(), Stop> {
        let faults = self.world.faults_struck() > 0;
        let ending = Ending::draw(dice);
        self.trace(&format!("the life ends: {ending:?}"));
        ending.strike(&self.world);
        if let Some(server) = self.server.take() {
            self.check_memory(&server)?;
        }
        Weather::end(&self.world);
        self.tally.lives += 1;
        self.tally.with_faults += u64::from(faults);
        self.check_panics()?;
        if self.whole.lying_log {
            return Ok(());
        }
        self.verify_files()
    }

    /// No more pages were in memory than may be.
    fn check_memory(&mut self, server: &Server) -> Result<(), Stop> {
        let memory = server.memory();
        self.tally.evictions += u64::from(memory.eviction_time().0);
        self.tally.moves += server.tenant_moves();
        let (limit, peak) = (memory.limit().0, memory.peak().0);
        let overdrafts = memory.overdrafts() * PAGE_SIZE as u64;
        let allowed = limit + limit / OVER_PART + overdrafts + COMMITS_PAGES * PAGE_SIZE as u64;
        require!(
            peak <= allowed,
            "{peak} bytes of pages were in memory, {allowed} may be: {limit} are the limit"
        );
        Ok(())
    }

    fn check_panics(&self) -> Result<(), Stop> {
        let panics = self.world.take_panics();
        require!(panics.is_empty(), "panicked: {panics:?}");
        Ok(())
    }

    fn verify_files(&mut self) -> Result<(), Stop> {
        let dir = Path::new(DATA_DIR).join("tenants");
        for entry in self.world.env().disk.list(&dir).expect("the server made it") {
            let id = entry.name.strip_suffix(".rowhouse").and_then(|id| id.parse().ok());
            let Some(id) = id.map(TenantId) else { continue };
            let defects = match file_defects(&self.world, &dir.join(&entry.name), id) {
                // Of a tenant whose making the power cut short, before or amid its first root.
                Err(Stop::Violation(what))
                    if self.may_be_no_tenant(id)
                        && ["not a data file", "superblock checksum"].iter().any(|w| what.contains(w)) =>
                {
                    continue;
                }
                defects => defects?,
            };
            require!(defects.is_empty(), "tenant {id}: {}", defects.join("; "));
            self.tally.tenants_checked += 1;
        }
        Ok(())
    }
}

fn address() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 5433))
}

fn name(place: usize) -> String {
    format!("t{place}")
}

/// Of a statement that nothing disturbs.
fn surely(fate: Fate) -> Stop {
    match fate {
        Fate::Refused(error) => Stop::violation(format!("{}: {error}", error.state().as_str())),
        Fate::Stop(stop) => stop,
    }
}

async fn read_history<O: Object>(
    client: &mut WireClient,
    record: &Rc<RefCell<Record<O>>>,
) -> Result<(), Fate> {
    let (place, last) = {
        let mut record = record.borrow_mut();
        (record.begin(), record.first_key() + KEYS)
    };
    let rows = client.run(READ_RANGE[0], &["1".to_owned(), last.to_string()]).await?;
    let operations = found_in::<O>(1..=last, &rows).map_err(Stop::violation)?;
    let mut record = record.borrow_mut();
    record.history[place].operations = operations;
    record.committed(place);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_cancelled_and_rows_taken_few_at_a_time_in_one_seed_of_five() {
        let odd_of = |seed: u64| {
            let run = Run::<Lists>::new(Whole::of(seed));
            let odd = run.odd.clone();
            run.run().unwrap_or_else(|failure| panic!("{failure}"));
            (odd.cancelled.get(), odd.suspended.get())
        };
        let odd: Vec<(u64, u64)> = (1..=10).map(|n| odd_of(10 * n + 4)).collect();
        assert!(odd.iter().map(|(cancelled, _)| cancelled).sum::<u64>() > 5, "{odd:?}");
        assert!(odd.iter().map(|(_, suspended)| suspended).sum::<u64>() > 50, "{odd:?}");
        assert_eq!(odd_of(2), (0, 0));
    }
}
