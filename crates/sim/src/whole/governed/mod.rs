//! Promises kept by a whole server: tenants with reservations and limits work over the wire in a simulated world, and the rows of
//! the ledger are held against what the promises mean.
//!
//! A seed draws tenants, promises that fit, loads, how fast the machine is, and one promise that is altered amid the work. The same judge must
//! find that promises are broken where the server's policy keeps none.

mod altered;
mod io;
mod load;
mod memory;
mod processor;
mod room;
mod upkeep;

use std::collections::BTreeMap;
use std::rc::Rc;

use base::{Nanos, TenantId};
use env::Env;
use env::sim::World;
use server::{Server, ServerConfig, Tls};

use super::client::{Login, WireClient};
use super::{ADMIN_PASSWORD, DATA_DIR, address, surely};
use crate::campaign::caught;
use crate::client::Values;
use crate::{Failure, Stop, require};
use processor::Beside;

const SECOND: Nanos = Nanos::from_secs(1);
/// From the end of the work until each interval has ended and is known.
const SETTLING: Nanos = Nanos::from_millis(2_500);

/// What is promised in a world.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Promised {
    Processor,
    /// Processor time while the server's own tenant is flooded.
    Flooded,
    /// Processor time beside a tenant that commits very much at a time.
    LargeCommits,
    Io,
    Memory,
    /// That what a tenant's statements hold is in nobody else's way.
    Room,
    /// That nobody's upkeep waits for another one's limits.
    Upkeep,
    /// That altered limits hold soon.
    Altered,
}

/// A seed's world.
#[derive(Clone, Copy, Debug)]
pub struct Governed {
    pub seed: u64,
    pub promised: Promised,
    /// A canary: the server keeps no promises, which the ledger is to say.
    pub keeps_nothing: bool,
}

/// What became of a seed.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Kept {
    /// Intervals that were judged.
    pub intervals: u64,
    /// Those in which a tenant wanted nine tenths of its reservation or more.
    pub full: u64,
    /// Those in which a limit was reached.
    pub limited: u64,
    /// The most that anybody missed in an interval: nanoseconds, or I/Os.
    pub missed_max: u64,
}

impl Kept {
    /// Adds those of another world.
    pub fn add(&mut self, other: &Kept) {
        self.intervals += other.intervals;
        self.full += other.full;
        self.limited += other.limited;
        self.missed_max = self.missed_max.max(other.missed_max);
    }
}

impl std::fmt::Display for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Kept { intervals, full, limited, missed_max } = self;
        write!(
            f,
            "{intervals} intervals, {full} with full demand, {limited} at a limit, {missed_max} missed at most"
        )
    }
}

impl Governed {
    /// Runs it.
    ///
    /// # Errors
    /// The first violation, panics included.
    pub fn run(&self) -> Result<Kept, Failure> {
        let world = World::new(self.seed);
        let stage = Stage { world: &world, keeps_nothing: self.keeps_nothing };
        let mut kept = Kept::default();
        let outcome = caught(|| {
            kept = match self.promised {
                Promised::Processor => processor::Run::new(&stage, Beside::Nobody).run(),
                Promised::Flooded => processor::Run::new(&stage, Beside::System).run(),
                Promised::LargeCommits => processor::Run::new(&stage, Beside::LargeCommits).run(),
                Promised::Io => io::Run::new(&stage).run(),
                Promised::Memory => memory::Run::new(&stage).run(),
                Promised::Room => room::Run::new(&stage).run(),
                Promised::Upkeep => upkeep::Run::new(&stage).run(),
                Promised::Altered => altered::Run::new(&stage).run(),
            }?;
            Ok(())
        });
        world.kill();
        outcome.map(|()| kept).map_err(|stop| {
            let what = match stop {
                Stop::Violation(what) => what,
                stop => format!("an end that nobody made: {stop:?}"),
            };
            Failure { seed: self.seed, life: 0, what }
        })
    }
}

/// A world with a server.
struct Stage<'a> {
    world: &'a World,
    keeps_nothing: bool,
}

impl Stage<'_> {
    fn start(&self, env: &Env, with: impl FnOnce(&mut ServerConfig)) -> Result<Server, Stop> {
        let mut config = ServerConfig {
            listen: address(),
            admin_listen: None,
            tls: Tls::Off,
            admin_password: Some(ADMIN_PASSWORD.to_owned()),
            ..ServerConfig::new(DATA_DIR)
        };
        with(&mut config);
        Server::start(env, config).map_err(|error| Stop::failed(self.world, "starting the server", error))
    }

    /// Ends a server; nothing in it may have panicked.
    fn end(&self, server: Server) -> Result<(), Stop> {
        server.stop();
        let panics = self.world.take_panics();
        require!(panics.is_empty(), "panicked: {panics:?}");
        Ok(())
    }

    fn client(&self, database: &str, user: &'static str, password: &'static str) -> WireClient {
        let login = Login { address: address(), database: database.to_owned(), user, password };
        WireClient::new(self.world, login, &Rc::default(), false)
    }

    fn owner(&self, tenant: &str) -> WireClient {
        self.client(tenant, "owner", "pw")
    }

    /// Runs a statement of the administrator's.
    async fn administer(&self, sql: &str) -> Result<Vec<Values>, Stop> {
        let mut client = self.client("rowhouse", "admin", ADMIN_PASSWORD);
        client.script(sql, &[]).await.map(|answer| answer.rows).map_err(surely)
    }

    /// Makes tenants by their names and options, each with what its script makes. Returns their ids.
    async fn found(&self, tenants: &[(&str, String, Vec<String>)]) -> Result<Vec<TenantId>, Stop> {
        for (name, options, script) in tenants {
            self.administer(&format!("create tenant {name} with ({options}) owner owner password 'pw'"))
                .await?;
            let mut owner = self.owner(name);
            for sql in script {
                owner.script(sql, &[]).await.map_err(surely)?;
            }
        }
        let shown = self.shown().await?;
        Ok(tenants.iter().map(|(name, ..)| shown[*name].0).collect())
    }

    /// From here on promises count, unless this is the canary's world.
    async fn keep_promises(&self) -> Result<(), Stop> {
        if self.keeps_nothing {
            self.administer("alter server set (policy = best_effort)").await?;
        }
        Ok(())
    }

    /// The id and the processor time in seconds of each tenant, by its name.
    async fn shown(&self) -> Result<BTreeMap<String, (TenantId, f64)>, Stop> {
        let rows = self.administer("show tenants").await?;
        let of = |row: &Values| {
            let text = |at: usize| row[at].clone().expect("not null");
            (text(0), (TenantId(text(1).parse().expect("an id")), text(6).parse().expect("seconds")))
        };
        Ok(rows.iter().map(of).collect())
    }
}
