//! Promises of processor time in a whole server: tenants with reservations and limits work over the wire on one worker, and the ledger is held against what
//! the promises mean.
//!
//! What code costs is drawn ([`Speeds::tick`]), so a poll takes from microseconds to a millisecond of virtual time. Some tenants always want more, some come and
//! go, and one promise is altered amid the work. The reservations fit, so for every metering interval:
//!
//! * who was promised something and wanted it got it, to within one quantum, the longest polls that can be;
//! * nobody got more than its limit but for the stated burst and debt;
//! * the ledger's sums are what the server's own account says, to within a poll;
//!
//! and the worker was at work all the while, since somebody without a limit always had something to do.

use std::collections::BTreeMap;
use std::rc::Rc;

use base::{Nanos, TenantId};
use env::sim::{Latency, Speeds, World};
use futures::future::{join_all, select};
use governor::{LedgerRow, Resource};
use server::{Server, ServerConfig, Tls};

use super::client::{Login, WireClient};
use super::{ADMIN_PASSWORD, DATA_DIR, address, surely};
use crate::campaign::caught;
use crate::client::Connection as _;
use crate::{Dice, Failure, Stop, require};

const SECOND: Nanos = Nanos::from_secs(1);
/// What a worker has beside the server's own fifth, in thousandths of a core.
const RESERVABLE: u64 = 780;
/// Of virtual time, before and after the change.
const HALF: Nanos = Nanos::from_millis(3_200);
/// From the end of the work until each interval has ended and is known.
const SETTLING: Nanos = Nanos::from_millis(2_500);
/// Readings of the processor's counter in one poll of these tasks at most.
const TICKS_A_POLL: u64 = 3;
/// What a limit lets through at once: what it comes to in so long.
const BURST: Nanos = Nanos::from_millis(20);
const QUERY: &str = "select n from t where n = $1::int4";

/// How a tenant's clients behave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Load {
    /// As many clients that send one statement after the other.
    Busy(u64),
    /// Some statements, then a pause of up to so many microseconds.
    Bursts { statements: u64, pause: u64 },
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

/// What became of a seed.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Kept {
    pub intervals: u64,
    /// Those in which a tenant wanted its reservation for 90 % of the time or more.
    pub full: u64,
    /// Those in which a limit was reached.
    pub limited: u64,
    /// The most that anybody missed in an interval.
    pub missed_max: Nanos,
}

/// A seed's world.
#[derive(Clone, Copy, Debug)]
pub struct Governed {
    pub seed: u64,
    /// A canary: the scheduler keeps no promises, which the ledger is to say.
    pub keeps_nothing: bool,
}

impl Governed {
    /// Runs it.
    ///
    /// # Errors
    /// The first violation, panics included.
    pub fn run(&self) -> Result<Kept, Failure> {
        let world = World::new(self.seed);
        let mut kept = Kept::default();
        let outcome = caught(|| {
            kept = Run::new(&world).run(self.keeps_nothing)?;
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

struct Run<'a> {
    world: &'a World,
    dice: Dice,
    tenants: Vec<Tenant>,
    tick: Latency,
}

impl<'a> Run<'a> {
    fn new(world: &'a World) -> Run<'a> {
        let dice = Dice::of(world);
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
        Run { world, dice, tenants, tick }
    }

    fn run(mut self, keeps_nothing: bool) -> Result<Kept, Stop> {
        let config = ServerConfig {
            listen: address(),
            admin_listen: None,
            // Of several, one at a time would have the world's time.
            workers: Some(1),
            tls: Tls::Off,
            admin_password: Some(ADMIN_PASSWORD.to_owned()),
            ..ServerConfig::new(DATA_DIR)
        };
        let env = self.world.env();
        let server = Server::start(&env, config);
        let server = server.map_err(|error| Stop::failed(self.world, "starting the server", error))?;
        env::block_on(&env, self.found())?;
        if keeps_nothing {
            let policy = async |mut admin: WireClient| {
                admin.script("alter server set (policy = best_effort)", &[]).await
            };
            env::block_on(&env, policy(self.administrator())).map_err(surely)?;
        }
        let calm = self.world.speeds();
        self.world.set_speeds(Speeds { tick: self.tick, ..calm });
        let (began, before) = (self.world.now(), env::block_on(&env, self.used())?);
        env::block_on(&env, self.work(began))?;
        self.world.set_speeds(calm);
        let (ended, after) = (self.world.now(), env::block_on(&env, self.used())?);
        env::block_on(&env, env::sleep(SETTLING));
        let rows = server.ledger();
        let used = env::block_on(&env, self.used())?;
        server.stop();
        let panics = self.world.take_panics();
        require!(panics.is_empty(), "panicked: {panics:?}");
        let all: f64 = after.values().sum::<f64>() - before.values().sum::<f64>();
        let elapsed = (ended - began).as_secs_f64();
        require!(all > 0.9 * elapsed, "the worker was at work for {all} s of {elapsed} s");
        self.judge(&rows, &used, began, ended)
    }

    fn client(&self, database: &str, user: &'static str, password: &'static str) -> WireClient {
        let login = Login { address: address(), database: database.to_owned(), user, password };
        WireClient::new(self.world, login, &Rc::default(), false)
    }

    fn administrator(&self) -> WireClient {
        self.client("rowhouse", "admin", ADMIN_PASSWORD)
    }

    async fn found(&mut self) -> Result<(), Stop> {
        let mut admin = self.administrator();
        for tenant in &self.tenants {
            let Tenant { name, reserved, max, .. } = tenant;
            let max = max.map_or(String::new(), |max| format!(", cpu_max = '0.{max:03}'"));
            let max = if tenant.max.is_some_and(|max| max >= 1_000) { String::new() } else { max };
            let create =
                format!("create tenant {name} with (cpu = '0.{reserved:03}'{max}) owner owner password 'pw'");
            admin.script(&create, &[]).await.map_err(surely)?;
            let mut owner = self.client(name, "owner", "pw");
            owner
                .script("create table t (n int primary key); insert into t values (1)", &[])
                .await
                .map_err(surely)?;
        }
        let shown = self.shown(&mut admin).await?;
        for tenant in &mut self.tenants {
            tenant.id = shown[&tenant.name].0;
        }
        Ok(())
    }

    /// The id and the processor time of each tenant, by its name.
    async fn shown(&self, admin: &mut WireClient) -> Result<BTreeMap<String, (TenantId, f64)>, Stop> {
        let rows = admin.script("show tenants", &[]).await.map_err(surely)?.rows;
        let of = |row: &crate::client::Values| {
            let text = |at: usize| row[at].clone().expect("not null");
            (text(0), (TenantId(text(1).parse().expect("an id")), text(6).parse().expect("seconds")))
        };
        Ok(rows.iter().map(of).collect())
    }

    async fn used(&self) -> Result<BTreeMap<TenantId, f64>, Stop> {
        let shown = self.shown(&mut self.administrator()).await?;
        Ok(shown.into_values().collect())
    }

    /// All clients, and the change in the middle.
    async fn work(&self, began: Nanos) -> Result<(), Stop> {
        let end = began + HALF + HALF;
        let mut clients = Vec::new();
        for tenant in &self.tenants {
            let (count, load) = match tenant.load {
                Load::Busy(count) => (count, None),
                Load::Bursts { statements, pause } => (1, Some((statements, pause))),
            };
            clients.extend((0..count).map(|_| self.client_of(tenant, load, end)));
        }
        let alter = async {
            env::sleep(HALF).await;
            for tenant in &self.tenants {
                let Some(reserved) = tenant.altered else { continue };
                let alter = format!("alter tenant {} set (cpu = '0.{reserved:03}')", tenant.name);
                self.administrator().script(&alter, &[]).await.map_err(surely)?;
            }
            Ok::<_, Stop>(())
        };
        let (clients, altered) = futures::join!(join_all(clients), alter);
        altered?;
        clients.into_iter().collect()
    }

    async fn client_of(&self, tenant: &Tenant, load: Option<(u64, u64)>, end: Nanos) -> Result<(), Stop> {
        let mut client = self.client(&tenant.name, "owner", "pw");
        let (mut sent, one) = (0, ["1".to_owned()]);
        while self.world.now() < end {
            let statement = std::pin::pin!(client.run(QUERY, &one));
            // One that a limit holds up is left where it is.
            match select(statement, std::pin::pin!(env::sleep_until(end + SECOND))).await {
                futures::future::Either::Left((done, _)) => drop(done.map_err(surely)?),
                futures::future::Either::Right(_) => return Ok(()),
            }
            sent += 1;
            if let Some((statements, pause)) = load
                && sent % statements == 0
            {
                self.dice.pause(pause).await;
            }
        }
        Ok(())
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
        let quantum = Nanos(self.tick.max.0 * TICKS_A_POLL);
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
                kept.missed_max = kept.missed_max.max(Nanos(row.missed));
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
