//! A seed's campaign: lives of a server, each with its troubles and ended by a power cut or a kill, each checked by the
//! next.

use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use base::{ByteCount, Nanos, TenantId};
use env::sim::World;
use futures::stream::{FuturesUnordered, StreamExt};

use crate::rot::Rot;
use crate::server::data_file;
use crate::weather::{Ending, Weather};
use crate::{Acknowledge, Dice, Home, Server, Stop, chores, memory, require};

/// What the sessions do, and what must come of it.
pub trait Scenario {
    /// Fills one new tenant; runs beside the log's flush and no sessions.
    fn populate(&mut self, home: Rc<Home>) -> impl Future<Output = Result<(), Stop>>;

    /// Compares a tenant that was just recovered with what must be there, and takes it as the new beginning.
    fn recovered(&mut self, home: &Home) -> Result<(), Stop>;

    /// The sessions of a tenant. They run until the power goes.
    fn sessions(&self, home: &Rc<Home>) -> Vec<Task<'static>>;

    /// What can be judged only when all is over.
    fn finished(&self) -> Result<(), Stop> {
        Ok(())
    }

    /// Transactions committed and acknowledged so far.
    fn acknowledged(&self) -> u64;
}

/// Runs until the power goes or something is wrong.
pub type Task<'a> = Pin<Box<dyn Future<Output = Result<(), Stop>> + 'a>>;

/// Has tasks work beside each other until one of them stops.
pub(crate) async fn work(tasks: Vec<Task<'_>>) -> Result<(), Stop> {
    let mut tasks: FuturesUnordered<Task<'_>> = tasks.into_iter().collect();
    while let Some(ended) = tasks.next().await {
        ended?;
    }
    Ok(())
}

/// How many lives a seed has, and in what world.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Campaign {
    pub seed: u64,
    pub lives: u64,
    pub tenants: u64,
    pub acknowledge: Acknowledge,
    /// For the pages of all tenants; `None` for no limit.
    pub memory: Option<ByteCount>,
    /// Whether tenants are made cold now and then.
    pub chilled: bool,
    /// A canary: pages leave memory that no checkpoint has written. Of debug builds with a budget only.
    pub drops_unwritten: bool,
    /// Whether troubles, ends and disk operations are printed to the standard error.
    pub traced: bool,
}

/// What a campaign went through.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    pub lives: u64,
    /// Lives that ended while a start was recovering.
    pub ended_in_recovery: u64,
    /// Lives in which the disk failed or was full.
    pub with_faults: u64,
    /// Bits flipped in copies of the disk.
    pub rot: u64,
    pub acknowledged: u64,
    /// Recovered tenants that were compared with their model.
    pub tenants_checked: u64,
    pub checkpoints: u64,
    /// Redo records applied by starts.
    pub replayed: u64,
    pub disk_changes: u64,
    /// Pages that left memory while sessions were at work.
    pub evictions: u64,
    /// Moves of tenants from one worker to another.
    pub moves: u64,
    /// Long transactions of [`crate::whole`] that were acknowledged.
    pub bulk: u64,
    /// Answers of analytical queries in [`crate::whole`] that were judged. Progress files do not keep it, nor the next one.
    pub queries: u64,
    /// Analytical queries that put rows aside.
    pub spills: u64,
    /// Of the whole run, as [`World::fingerprint`].
    pub fingerprint: u64,
    /// Of the disk at the end, as [`World::disk_hash`].
    pub disk_hash: u64,
}

/// Counts of a [`Tally`] that progress files keep.
pub(crate) const COUNTS: usize = 12;

impl Tally {
    /// Counts another campaign's too; hashes are left alone.
    pub fn add(&mut self, other: &Tally) {
        let sums: Vec<u64> =
            self.counts().iter().zip(other.counts()).map(|(one, other)| one + other).collect();
        let (fingerprint, disk_hash) = (self.fingerprint, self.disk_hash);
        let sums = Tally::of_counts(sums.try_into().expect("as many as there were"));
        let (queries, spills) = (self.queries + other.queries, self.spills + other.spills);
        *self = Tally { queries, spills, fingerprint, disk_hash, ..sums };
    }

    pub(crate) fn counts(&self) -> [u64; COUNTS] {
        [
            self.lives,
            self.ended_in_recovery,
            self.with_faults,
            self.rot,
            self.acknowledged,
            self.tenants_checked,
            self.checkpoints,
            self.replayed,
            self.disk_changes,
            self.evictions,
            self.moves,
            self.bulk,
        ]
    }

    pub(crate) fn of_counts(counts: [u64; COUNTS]) -> Tally {
        let [
            lives,
            ended_in_recovery,
            with_faults,
            rot,
            acknowledged,
            tenants_checked,
            checkpoints,
            replayed,
            disk_changes,
            evictions,
            moves,
            bulk,
        ] = counts;
        Tally {
            lives,
            ended_in_recovery,
            with_faults,
            rot,
            acknowledged,
            tenants_checked,
            checkpoints,
            replayed,
            disk_changes,
            evictions,
            moves,
            bulk,
            ..Tally::default()
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} lives, {} of them ended during recovery, ", self.lives, self.ended_in_recovery)?;
        write!(f, "{} with disk faults; {} bits flipped; ", self.with_faults, self.rot)?;
        write!(f, "{} transactions acknowledged, {} checkpoints, ", self.acknowledged, self.checkpoints)?;
        write!(f, "{} disk changes, {} redo records replayed, ", self.disk_changes, self.replayed)?;
        write!(f, "{} recovered tenants compared, {} pages evicted, ", self.tenants_checked, self.evictions)?;
        write!(f, "{} tenants moved, {} long transactions", self.moves, self.bulk)?;
        if self.queries == 0 {
            return Ok(());
        }
        write!(f, ", {} answers of queries judged, {} spilled", self.queries, self.spills)
    }
}

/// A broken promise and how to see it again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    pub seed: u64,
    /// Lives before it.
    pub life: u64,
    pub what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {}, after {} lives: {}", self.seed, self.life, self.what)
    }
}

/// A server that goes on this long without a cut is stuck.
const LIFE_MAX: Nanos = Nanos::from_secs(3600);

impl Campaign {
    /// Runs it. One seed gives one tally, whenever it is run.
    ///
    /// # Errors
    /// The first violation, panics included.
    pub fn run<S: Scenario>(&self, scenario: S) -> Result<Tally, Failure> {
        let mut run = Run {
            campaign: *self,
            world: World::new(self.seed),
            scenario,
            tally: Tally::default(),
            tenants: (1..=self.tenants).map(TenantId).collect(),
        };
        let what = match caught(|| run.run()) {
            Ok(()) => return Ok(run.tally),
            Err(Stop::Violation(what)) => what,
            Err(Stop::PowerOff) => "the power went off when nobody cut it".to_owned(),
            Err(Stop::Fault(what)) => format!("a fault that nobody injected: {what}"),
        };
        Err(Failure { seed: self.seed, life: run.tally.lives, what })
    }
}

/// Runs `body`; a panic is a violation.
pub(crate) fn caught(body: impl FnOnce() -> Result<(), Stop>) -> Result<(), Stop> {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(Stop::violation(format!("panicked: {}", text.unwrap_or("with no message"))))
    })
}

struct Run<S> {
    campaign: Campaign,
    world: World,
    scenario: S,
    tally: Tally,
    tenants: Vec<TenantId>,
}

impl<S: Scenario> Run<S> {
    fn run(&mut self) -> Result<(), Stop> {
        let dice = Dice::of(&self.world);
        if self.campaign.traced {
            self.world.trace_disk();
        }
        env::block_on(&self.world.env(), self.found())?;
        while self.tally.lives < self.campaign.lives {
            let during_recovery = dice.percent(15);
            if during_recovery {
                self.world.cut_power_after(1 + dice.below(4));
            }
            let weather = Weather::draw(&dice);
            self.trace(&format!("life {}: {weather:?}", self.tally.lives));
            weather.begin(&self.world);
            match self.live_until_cut(weather) {
                Err(Stop::PowerOff | Stop::Fault(_)) => {}
                Err(violation) => return Err(violation),
                Ok(()) => unreachable!("a life ends with the power"),
            }
            self.tally.with_faults += u64::from(self.world.faults_struck() > 0);
            let ending = Ending::draw(&dice);
            self.trace(&format!("the life ends: {ending:?}"));
            ending.strike(&self.world);
            Weather::end(&self.world);
            self.tally.lives += 1;
            self.verify_files()?;
            // After a kill the disk has more than is durable, so the copy would promise more than there is.
            if ending != Ending::Kill && dice.percent(15) {
                self.rot(&dice)?;
            }
        }
        let world = self.world.clone();
        env::block_on(&world.env(), self.start(&world)).map(drop)?;
        self.scenario.finished()?;
        self.tally.acknowledged = self.scenario.acknowledged();
        self.tally.disk_changes = self.world.disk_changes();
        self.tally.fingerprint = self.world.fingerprint();
        self.tally.disk_hash = self.world.disk_hash();
        Ok(())
    }

    fn trace(&self, what: &str) {
        if self.campaign.traced {
            eprintln!("{} {what}", self.world.now().0);
        }
    }

    /// Makes the tenants and fills them; durable at the end.
    async fn found(&mut self) -> Result<(), Stop> {
        Server::create(&self.world, &self.tenants).await?;
        let server = Server::start(&self.world, &self.tenants, 1, Acknowledge::WhenDurable, None).await?;
        let flusher = server.flushers.borrow_mut().pop().expect("one worker");
        let scenario = &mut self.scenario;
        let populate = async {
            for home in &server.homes {
                scenario.populate(home.clone()).await?;
                home.durable(home.log().appended()).await?;
            }
            Ok(())
        };
        let flush = chores::flush(&server, flusher);
        futures::pin_mut!(populate, flush);
        match futures::future::select(populate, flush).await {
            futures::future::Either::Left((done, _)) | futures::future::Either::Right((done, _)) => done,
        }
    }

    /// Starts the server as after a crash, in this world or a copy of it, and compares every tenant.
    async fn start(&mut self, world: &World) -> Result<Server, Stop> {
        let workers = 1 + Dice::of(world).below(2) as usize;
        let Campaign { acknowledge, memory, .. } = self.campaign;
        let server = Server::start(world, &self.tenants, workers, acknowledge, memory).await?;
        self.tally.replayed += server.replayed;
        for home in &server.homes {
            self.compare(home).map_err(|stop| stop.of_tenant(home.id))?;
            self.tally.tenants_checked += 1;
        }
        Ok(server)
    }

    fn compare(&mut self, home: &Home) -> Result<(), Stop> {
        self.scenario.recovered(home)?;
        let report = home.blocking(|| home.turn(|home| home.tenant.check()));
        if report.defects.is_empty() {
            return Ok(());
        }
        Err(Stop::failed(home.world(), "the tenant's own check", report.defects.join("; ")))
    }

    fn live_until_cut(&mut self, weather: Weather) -> Result<(), Stop> {
        let env = self.world.env();
        let world = self.world.clone();
        match caught(|| env::block_on(&env, self.live(weather))) {
            // A process that finds its disk gone may die of it.
            Err(Stop::Violation(what)) if what.starts_with("panicked") && world.is_powered_off() => {
                Err(Stop::PowerOff)
            }
            // A commit cannot stop: where the disk does not give it a page, its turn panics, and a server opens the tenant again.
            Err(Stop::Violation(what))
                if what.starts_with("panicked: tenant")
                    && what.contains("reading a page: Input/output error")
                    && world.faults_struck() > 0 =>
            {
                Err(Stop::Fault(what))
            }
            outcome => outcome,
        }
    }

    async fn live(&mut self, weather: Weather) -> Result<(), Stop> {
        let dice = Dice::of(&self.world);
        let server =
            self.start(&self.world.clone()).await.inspect_err(|_| self.tally.ended_in_recovery += 1)?;
        let server = Rc::new(server);
        if !self.world.is_powered_off() {
            let bound = [8, 60, 250][dice.below(3) as usize];
            self.world.cut_power_after(1 + dice.below(bound));
        }
        let mut tasks: FuturesUnordered<Task<'_>> = FuturesUnordered::new();
        for flusher in server.flushers.borrow_mut().drain(..) {
            let server = server.clone();
            tasks.push(Box::pin(async move { chores::flush(&server, flusher).await }));
        }
        for home in &server.homes {
            tasks.push(Box::pin(chores::checkpoint(home.clone())));
            if self.campaign.chilled {
                tasks.push(Box::pin(chores::chill(home.clone())));
            }
            tasks.extend(self.scenario.sessions(home));
        }
        if let Some(memory) = &server.memory {
            memory.watch();
            #[cfg(debug_assertions)]
            if self.campaign.drops_unwritten {
                memory.budget.drop_unwritten();
            }
            tasks.push(Box::pin(memory::evict(memory.clone())));
        }
        tasks.push(Box::pin(weather.pass(self.world.clone())));
        let of_upkeep = server.clone();
        tasks.push(Box::pin(async move { chores::upkeep(&of_upkeep).await }));
        let started = self.world.now();
        let ended = poll_fn(|cx| {
            loop {
                match tasks.poll_next_unpin(cx) {
                    Poll::Ready(Some(Err(stop @ (Stop::Violation(_) | Stop::Fault(_))))) => {
                        return Poll::Ready(Err(stop));
                    }
                    Poll::Ready(Some(_)) => {}
                    Poll::Ready(None) | Poll::Pending if self.world.is_powered_off() => {
                        return Poll::Ready(Err(Stop::PowerOff));
                    }
                    Poll::Ready(None) | Poll::Pending if self.world.now() - started > LIFE_MAX => {
                        return Poll::Ready(Err(Stop::violation("the server does nothing any more")));
                    }
                    Poll::Ready(None) | Poll::Pending => return Poll::Pending,
                }
            }
        })
        .await;
        self.tally.checkpoints += server.homes.iter().map(|home| home.checkpoints.get()).sum::<u64>();
        self.tally.evictions += server.homes.iter().map(|home| home.evictions()).sum::<u64>();
        if let Some(memory) = &server.memory {
            memory.check()?;
        }
        ended
    }

    /// The data files as the cut left them, before anything opens them.
    fn verify_files(&self) -> Result<(), Stop> {
        for id in &self.tenants {
            let defects = defects(&self.world, *id)?;
            require!(defects.is_empty(), "tenant {id}: {}", defects.join("; "));
        }
        Ok(())
    }

    /// Flips a bit in a copy of the disk and starts there. Damage that is met is also told at rest, and nothing wrong is
    /// shown; in the log's end it may look as if the power had gone off before what is damaged was written.
    fn rot(&mut self, dice: &Dice) -> Result<(), Stop> {
        let mut world = self.world.with_copied_disk(self.world.random());
        // Recovered first, so that what must be there is known.
        let recovered = env::block_on(&world.env(), self.start(&world)).map(drop);
        recovered?;
        world = world.with_copied_disk(world.random());
        let rot = Rot::draw(&world, dice, &self.tenants);
        world.flip_bit(&rot.file, rot.offset, rot.bit);
        let told = match rot.tenant {
            Some(tenant) => defects(&world, tenant)?,
            None => Vec::new(),
        };
        let started = caught(|| env::block_on(&world.env(), self.start(&world)).map(drop));
        self.tally.rot += 1;
        match started {
            Ok(()) => Ok(()),
            Err(Stop::Fault(_)) if rot.tenant.is_none() || !told.is_empty() => Ok(()),
            Err(Stop::Fault(what)) => Err(Stop::violation(format!("{rot:?} met, but not verified: {what}"))),
            Err(Stop::Violation(what)) if rot.tenant.is_none() && what.contains(": recovered at commit") => {
                Ok(())
            }
            Err(stop) => Err(stop.after(&format!("{rot:?}"))),
        }
    }
}

/// What the check of a data file at rest tells.
fn defects(world: &World, id: TenantId) -> Result<Vec<String>, Stop> {
    file_defects(world, &data_file(id), id)
}

/// As [`defects`], of a file anywhere.
pub(crate) fn file_defects(world: &World, file: &Path, id: TenantId) -> Result<Vec<String>, Stop> {
    match tenant::verify::verify(&world.env(), file, id, &mut |_, _| {}) {
        Ok((file, report)) => {
            Ok(file.defects.iter().map(ToString::to_string).chain(report.defects).collect())
        }
        Err(error) if world.faults_struck() > 0 => Ok(vec![error.to_string()]),
        Err(error) => Err(Stop::violation(format!("tenant {id}: {error}"))),
    }
}
