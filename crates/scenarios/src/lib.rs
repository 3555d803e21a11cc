//! Scenarios: client groups and stories that put real workloads on a server, steered from its console.
//!
//! Level 8. The board has what is wanted (`board`, `group`, `shape`, `story`), and is all that the page's requests touch (`routes`); a thread
//! makes it so (`runner`): tenants by the administrator's SQL over the wire (`stage`), clients on threads of their own (`crew`). Nothing of it
//! is in the server: the load comes over sockets like anybody's. What is here lasts as long as the process; `file` keeps groups for later.

mod board;
mod crew;
mod figures;
mod file;
mod group;
mod load;
mod routes;
mod runner;
mod shape;
mod stage;
mod stories;
mod story;

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use env::{Env, JoinHandle};
use server::{ConsoleEvents, ConsoleExtension};
use tokio::sync::{Notify, watch};

use crate::board::Board;
use crate::crew::Crew;
pub use crate::figures::Figures;
use crate::load::Load;
use crate::stage::Door;

/// Scenarios of one server: first its console's part, then, when the server is there, their threads.
pub struct Scenarios(Arc<Shared>);

struct Shared {
    env: Env,
    board: Mutex<Board>,
    /// The board was changed by a request.
    changed: Notify,
    events: ConsoleEvents,
    has_ended: watch::Sender<bool>,
}

impl Shared {
    /// Held for as long as something is looked up or changed; nothing under it waits.
    fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn ended(&self) {
        // Its sender is here.
        let _ = self.has_ended.subscribe().wait_for(|has_ended| *has_ended).await;
    }
}

impl Scenarios {
    /// The stories are told in proportion to a server of so many workers.
    pub fn new(env: &Env, workers: usize) -> Scenarios {
        Scenarios(Arc::new(Shared {
            env: env.clone(),
            board: Mutex::new(Board::new(stories::all(workers))),
            changed: Notify::new(),
            events: ConsoleEvents::default(),
            has_ended: watch::channel(false).0,
        }))
    }

    /// What the server's console is to have beside its own: `/api/demo`, and the event `demo` of its live stream.
    pub fn console(&self) -> ConsoleExtension {
        let (endpoints, schemas) = (routes::endpoints(&self.0), routes::schemas());
        ConsoleExtension { endpoints, schemas, events: self.0.events.clone() }
    }

    /// Begins to make what is wanted, on the server that `url` names (`postgres://admin:password@address`, without a database), with so
    /// many threads for clients.
    ///
    /// # Errors
    /// When a thread cannot be started.
    pub fn run(self, url: &str, threads: usize) -> io::Result<Running> {
        let Scenarios(shared) = self;
        let crew = Crew::start(&shared.env, threads)?;
        let door = Door { url: url.to_owned() };
        let (of_thread, its_door) = (shared.clone(), door.clone());
        let body = move || runner::run(&of_thread.env, &of_thread, &its_door, crew);
        let thread = shared.env.threads.spawn("scenarios", None, Box::new(body))?;
        Ok(Running { shared, door, thread })
    }
}

/// Scenarios at work.
pub struct Running {
    shared: Arc<Shared>,
    door: Door,
    thread: JoinHandle,
}

/// How the scenarios are at a moment.
#[derive(Clone, Debug)]
pub struct View {
    /// The story that runs, by its title, and its last step in words.
    pub story: Option<(&'static str, &'static str)>,
    pub groups: Vec<GroupView>,
}

/// How a client group is.
#[derive(Clone, Debug)]
pub struct GroupView {
    pub name: String,
    /// `loading`, `running`, `stopped` or `failed`.
    pub state: &'static str,
    pub error: Option<String>,
    /// Of all its tenants; `None` before it has worked for a moment.
    pub figures: Option<Figures>,
    /// Its tenants by name, as many as have figures.
    pub tenants: Vec<(String, Figures)>,
}

impl Running {
    /// Begins a story, as the page does.
    ///
    /// # Errors
    /// When there is none of that name.
    pub fn start_story(&self, id: &str) -> Result<(), String> {
        let now_ms = self.shared.env.clock.unix_micros() / 1000;
        self.shared.board().start(id, now_ms).map_err(|problem| problem.to_string())?;
        self.shared.changed.notify_one();
        Ok(())
    }

    /// Whether there are still tenants to be made for what is wanted at the moment.
    pub fn is_loading(&self) -> bool {
        let board = self.shared.board();
        board.is_about_to_begin()
            || board.groups.iter().any(|group| group.state == board::GroupState::Loading)
    }

    /// How everything is at the moment. Figures are as old as two seconds.
    pub fn view(&self) -> View {
        let board = self.shared.board();
        let groups = board.groups.iter().map(|group| GroupView {
            name: group.spec.name.clone(),
            state: group.state.name(),
            error: group.error.clone(),
            figures: group.figures,
            tenants: group.spec.tenant_names().zip(group.of_tenants.iter().copied()).collect(),
        });
        View { story: board.told(), groups: groups.collect() }
    }

    /// Ends all clients and threads, and waits for that; the server may be ended afterwards. Tenants stay.
    pub fn end(self) -> Ended {
        let worked = |group: &board::Group| {
            let names = group.spec.tenant_names().zip(&group.of_tenants);
            let worked = names.filter(|(_, figures)| figures.transactions > 0);
            worked.map(|(name, _)| (name, group.load)).collect::<Vec<_>>()
        };
        let tenants = self.shared.board().groups.iter().flat_map(worked).collect();
        self.shared.has_ended.send_replace(true);
        if self.thread.join().is_err() {
            tracing::error!("the thread of the scenarios panicked");
        }
        Ended { door: self.door, tenants }
    }
}

/// Scenarios that have ended, with the tenants on which clients worked to the end.
pub struct Ended {
    door: Door,
    tenants: Vec<(String, Load)>,
}

impl Ended {
    /// How many tenants there are to check.
    pub fn tenants(&self) -> usize {
        self.tenants.len()
    }

    /// Checks of each tenant what its workload demands of its tables, as TPC-C its consistency conditions; what is contradicted, in words.
    /// `progress` is told how many tenants were checked.
    ///
    /// # Errors
    /// When the server refuses.
    pub async fn check(&self, mut progress: impl FnMut(usize)) -> workloads::Result<Vec<String>> {
        let mut found = Vec::new();
        for (checked, (tenant, load)) in self.tenants.iter().enumerate() {
            let client = self.door.to(tenant)?.connect(0).await?;
            let violations = load.check(&client).await?;
            found.extend(violations.into_iter().map(|violation| format!("{tenant}: {violation}")));
            progress(checked + 1);
        }
        Ok(found)
    }
}
