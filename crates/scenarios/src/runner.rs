//! What makes the board so: on a thread of its own it holds what there is against what is wanted, several times a second.
//!
//! Two tasks. One does the administrator's work, which may take long (`stage`); the other one starts, stops and steers clients (`crew`),
//! lets the story's time pass, and tells the page how everything is.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use env::Env;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_postgres::Client;

use crate::Shared;
use crate::board::{Board, Group, GroupState};
use crate::crew::{Crew, Job, Working};
use crate::figures::Counters;
use crate::stage::{Door, Stage};

/// Between two looks at what is wanted.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// What a group's figures are of.
const FIGURES_EVERY: Duration = Duration::from_secs(2);
/// Between two events to the page, when nothing changed.
const TELL_EVERY: Duration = Duration::from_secs(1);
/// What the administrator's connection waits before it is opened again.
const CONNECT_AGAIN: Duration = Duration::from_secs(1);

/// The clients of a group.
struct Engaged {
    /// What they are of; another one takes other clients.
    of: String,
    /// By tenant and number.
    clients: BTreeMap<(u32, u32), Working>,
    rate: watch::Sender<Option<f64>>,
    counters: Counters,
    read_at: Instant,
}

/// Runs until the scenarios are ended. All clients have hung up then.
pub(crate) fn run(env: &Env, shared: &Arc<Shared>, door: &Door, crew: Crew) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime can be made");
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async {
        let stage = Rc::new(RefCell::new(Stage::default()));
        tokio::select! {
            () = shared.ended() => {}
            () = administer(shared, &stage, door) => {}
            () = steer(env, shared, &stage, door, &crew) => {}
        }
    });
    crew.join();
}

async fn administer(shared: &Shared, stage: &RefCell<Stage>, door: &Door) {
    let mut admin: Option<Client> = None;
    loop {
        let client = match admin.take().filter(|client| !client.is_closed()) {
            Some(client) => client,
            None => match connect(door).await {
                Ok(client) => client,
                Err(error) => {
                    tracing::warn!("the scenarios' administrator: {}", workloads::explain(&error));
                    tokio::time::sleep(CONNECT_AGAIN).await;
                    continue;
                }
            },
        };
        let client = admin.insert(client);
        let sql = shared.board().sql.pop_front();
        if let Some(sql) = sql {
            if let Err(error) = client.batch_execute(&sql).await {
                tracing::warn!("{sql}: {}", workloads::explain(&error.into()));
            }
            continue;
        }
        let wanted = shared.board().tenants();
        if !Stage::work(stage, door, client, &wanted).await {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

async fn connect(door: &Door) -> workloads::Result<Client> {
    door.to("rowhouse")?.connect_admin().await
}

async fn steer(env: &Env, shared: &Shared, stage: &RefCell<Stage>, door: &Door, crew: &Crew) {
    let mut engaged: BTreeMap<u64, Engaged> = BTreeMap::new();
    let mut told = Instant::now();
    let mut look = tokio::time::interval(LOOK_EVERY);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let was_asked = tokio::select! {
            _ = look.tick() => false,
            () = shared.changed.notified() => true,
        };
        let json = {
            let mut board = shared.board();
            board.tick(env.now().0 as f64 / 1e9);
            reconcile(&mut board, &mut engaged, &stage.borrow(), door, crew);
            (was_asked || told.elapsed() >= TELL_EVERY).then(|| board.json())
        };
        if let Some(json) = json {
            told = Instant::now();
            shared.events.publish("demo", &json);
        }
    }
}

fn reconcile(
    board: &mut Board,
    engaged: &mut BTreeMap<u64, Engaged>,
    stage: &Stage,
    door: &Door,
    crew: &Crew,
) {
    // Clients of groups that went hang up.
    engaged.retain(|id, _| board.groups.iter().any(|group| group.id == *id));
    for group in &mut board.groups {
        let of = format!("{} {:?}", group.spec.tenant_prefix, group.load);
        let with = engaged.entry(group.id).or_insert_with(|| Engaged::new(of.clone()));
        if with.of != of {
            *with = Engaged::new(of);
        }
        with.bring(group, stage, door, crew);
    }
}

impl Engaged {
    fn new(of: String) -> Engaged {
        Engaged {
            of,
            clients: BTreeMap::new(),
            rate: watch::channel(None).0,
            counters: Counters::default(),
            read_at: Instant::now(),
        }
    }

    /// Starts, stops and steers the clients of a group, and writes down how it is.
    fn bring(&mut self, group: &mut Group, stage: &Stage, door: &Door, crew: &Crew) {
        let is_there: Vec<bool> =
            group.spec.tenant_names().map(|name| stage.has(&name, &group.load)).collect();
        let is_loaded = is_there.iter().all(|is| *is);
        group.has_begun |= is_loaded;
        let (clients, rate) = group.spec.wanted(group.spec.shape.factor(group.age_s));
        self.rate.send_if_modified(|now| std::mem::replace(now, rate) != rate);
        let is_wanted = |tenant: u32, number: u32| {
            group.has_begun && number < clients && is_there.get(tenant as usize - 1) == Some(&true)
        };
        self.clients.retain(|(tenant, number), _| is_wanted(*tenant, *number));
        self.counters.resize(group.spec.tenants as usize);
        for tenant in 1..=group.spec.tenants {
            for number in 0..clients {
                if !is_wanted(tenant, number) || self.clients.contains_key(&(tenant, number)) {
                    continue;
                }
                let target = door.to(&group.spec.tenant(tenant)).expect("a tenant's name fits a URL");
                let job = Job {
                    load: group.load,
                    target,
                    number,
                    seed: group.id << 40 | u64::from(tenant) << 20 | u64::from(number),
                    rate: self.rate.subscribe(),
                    counted: self.counters.of(tenant as usize - 1),
                };
                self.clients.insert((tenant, number), crew.engage(tenant, job));
            }
        }
        let of_stage = group.spec.tenant_names().find_map(|name| stage.error(&name).map(str::to_owned));
        group.error = of_stage.or_else(|| self.counters.error());
        group.state = match (&group.error, is_loaded) {
            (Some(_), _) => GroupState::Failed,
            (None, false) => GroupState::Loading,
            (None, true) if clients == 0 || rate == Some(0.0) => GroupState::Stopped,
            (None, true) => GroupState::Running,
        };
        self.count(group);
    }

    fn count(&mut self, group: &mut Group) {
        self.counters.count(&mut group.of_tenants);
        let passed = self.read_at.elapsed();
        if passed < FIGURES_EVERY {
            return;
        }
        let (all, each) = self.counters.read(passed);
        (group.figures, group.of_tenants) = (Some(all), each);
        self.read_at = Instant::now();
    }
}
