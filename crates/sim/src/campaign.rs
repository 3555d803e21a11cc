//! A seed's campaign: lives of a server, each ended by a power cut, each checked by the next.

use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use base::{Nanos, TenantId};
use env::sim::{PowerCut, World};
use futures::stream::{FuturesUnordered, StreamExt};

use crate::server::data_file;
use crate::{Acknowledge, Dice, Home, Server, Stop, chores, require};

/// What the sessions do, and what must come of it.
pub trait Scenario {
    /// Fills one new tenant; runs beside the log's flush and no sessions.
    fn populate(&mut self, home: Rc<Home>) -> impl Future<Output = Result<(), Stop>>;

    /// Compares a tenant that was just recovered with what must be there, and takes it as the new beginning.
    fn recovered(&mut self, home: &Home) -> Result<(), Stop>;

    /// The sessions of a tenant. They run until the power goes.
    fn sessions(&self, home: &Rc<Home>) -> Vec<Task>;

    /// Transactions committed and acknowledged so far.
    fn acknowledged(&self) -> u64;
}

/// Runs until the power goes or something is wrong.
pub type Task = Pin<Box<dyn Future<Output = Result<(), Stop>>>>;

/// How many lives a seed has, and in what world.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Campaign {
    pub seed: u64,
    pub cuts: u64,
    pub tenants: u64,
    pub acknowledge: Acknowledge,
}

/// What a campaign went through.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    pub cuts: u64,
    /// Cuts that struck while a start was recovering.
    pub cuts_in_recovery: u64,
    pub acknowledged: u64,
    /// Recovered tenants that were compared with their model.
    pub tenants_checked: u64,
    pub checkpoints: u64,
    /// Redo records applied by starts.
    pub replayed: u64,
    pub disk_changes: u64,
    /// Of the whole run, as [`World::fingerprint`].
    pub fingerprint: u64,
    /// Of the disk at the end, as [`World::disk_hash`].
    pub disk_hash: u64,
}

impl Tally {
    /// Counts another campaign's too; hashes are left alone.
    pub fn add(&mut self, other: &Tally) {
        self.cuts += other.cuts;
        self.cuts_in_recovery += other.cuts_in_recovery;
        self.acknowledged += other.acknowledged;
        self.tenants_checked += other.tenants_checked;
        self.checkpoints += other.checkpoints;
        self.replayed += other.replayed;
        self.disk_changes += other.disk_changes;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} power cuts, {} of them during recovery; ", self.cuts, self.cuts_in_recovery)?;
        write!(f, "{} transactions acknowledged, {} checkpoints, ", self.acknowledged, self.checkpoints)?;
        write!(f, "{} disk changes, {} redo records replayed, ", self.disk_changes, self.replayed)?;
        write!(f, "{} recovered tenants compared", self.tenants_checked)
    }
}

/// A broken promise and how to see it again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    pub seed: u64,
    /// Power cuts before it.
    pub cut: u64,
    pub what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {}, after {} power cuts: {}", self.seed, self.cut, self.what)
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
        };
        Err(Failure { seed: self.seed, cut: run.tally.cuts, what })
    }
}

/// Runs `body`; a panic is a violation.
fn caught(body: impl FnOnce() -> Result<(), Stop>) -> Result<(), Stop> {
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
        env::block_on(&self.world.env(), self.found())?;
        while self.tally.cuts < self.campaign.cuts {
            let during_recovery = dice.percent(15);
            if during_recovery {
                self.world.cut_power_after(1 + dice.below(4));
            }
            match self.live_until_cut() {
                Err(Stop::PowerOff) => {}
                Err(violation) => return Err(violation),
                Ok(()) => unreachable!("a life ends with the power"),
            }
            let policy = if dice.percent(60) { PowerCut::DropUnsynced } else { PowerCut::Random };
            self.world.power_cut(policy);
            self.tally.cuts += 1;
            self.verify_files()?;
        }
        env::block_on(&self.world.env(), self.start()).map(drop)?;
        self.tally.acknowledged = self.scenario.acknowledged();
        self.tally.disk_changes = self.world.disk_changes();
        self.tally.fingerprint = self.world.fingerprint();
        self.tally.disk_hash = self.world.disk_hash();
        Ok(())
    }

    /// Makes the tenants and fills them; durable at the end.
    async fn found(&mut self) -> Result<(), Stop> {
        Server::create(&self.world, &self.tenants).await?;
        let server = Server::start(&self.world, &self.tenants, 1, Acknowledge::WhenDurable).await?;
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

    /// Starts the server as after a crash and compares every tenant.
    async fn start(&mut self) -> Result<Server, Stop> {
        let workers = 1 + Dice::of(&self.world).below(2) as usize;
        let server = Server::start(&self.world, &self.tenants, workers, self.campaign.acknowledge).await?;
        self.tally.replayed += server.replayed;
        for home in &server.homes {
            let tenant = |stop| match stop {
                Stop::Violation(what) => Stop::Violation(format!("tenant {}: {what}", home.id)),
                stop => stop,
            };
            self.scenario.recovered(home).map_err(tenant)?;
            let report = home.turn(|home| home.tenant.check());
            require!(report.defects.is_empty(), "tenant {}: {}", home.id, report.defects.join("; "));
            self.tally.tenants_checked += 1;
        }
        Ok(server)
    }

    fn live_until_cut(&mut self) -> Result<(), Stop> {
        let env = self.world.env();
        let world = self.world.clone();
        match caught(|| env::block_on(&env, self.live())) {
            // A process that finds its disk gone may die of it.
            Err(Stop::Violation(what)) if what.starts_with("panicked") && world.is_powered_off() => {
                Err(Stop::PowerOff)
            }
            outcome => outcome,
        }
    }

    async fn live(&mut self) -> Result<(), Stop> {
        let dice = Dice::of(&self.world);
        let server = self.start().await.inspect_err(|_| self.tally.cuts_in_recovery += 1)?;
        let server = Rc::new(server);
        if !self.world.is_powered_off() {
            let bound = [8, 60, 250][dice.below(3) as usize];
            self.world.cut_power_after(1 + dice.below(bound));
        }
        let mut tasks: FuturesUnordered<Task> = FuturesUnordered::new();
        for flusher in server.flushers.borrow_mut().drain(..) {
            let server = server.clone();
            tasks.push(Box::pin(async move { chores::flush(&server, flusher).await }));
        }
        for home in &server.homes {
            tasks.push(Box::pin(chores::checkpoint(home.clone(), server.log_dir.clone())));
            tasks.extend(self.scenario.sessions(home));
        }
        let of_upkeep = server.clone();
        tasks.push(Box::pin(async move { chores::upkeep(&of_upkeep).await }));
        let started = self.world.now();
        let ended = poll_fn(|cx| {
            loop {
                match tasks.poll_next_unpin(cx) {
                    Poll::Ready(Some(Err(violation @ Stop::Violation(_)))) => {
                        return Poll::Ready(Err(violation));
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
        ended
    }

    /// The data files as the cut left them, before anything opens them.
    fn verify_files(&self) -> Result<(), Stop> {
        for id in &self.tenants {
            let verified = tenant::verify::verify(&self.world.env(), &data_file(*id), *id, &mut |_, _| {});
            let (file, report) =
                verified.map_err(|error| Stop::violation(format!("tenant {id}: {error}")))?;
            let defects: Vec<String> =
                file.defects.iter().map(ToString::to_string).chain(report.defects).collect();
            require!(defects.is_empty(), "tenant {id}: {}", defects.join("; "));
        }
        Ok(())
    }
}
