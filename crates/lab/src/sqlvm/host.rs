//! A server with tenants: ours or PostgreSQL, told apart here only.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use tempfile::TempDir;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use super::actors::Actor;
use super::stage::Stage;
use crate::Result;
use crate::world::cgroups::{Groups, Limits};
use crate::world::ledger;
use crate::world::metrics::Metrics;
use crate::world::sampler::Sampler;
use crate::world::{Postgres, Rowhouse, process, rowhouse};

/// How long sessions have to end that were told to.
const UNUSED_WAIT: Duration = Duration::from_secs(60);

/// How long a server has to write what it has to, and what it may write while it does nothing.
const QUIET_WAIT: Duration = Duration::from_secs(60);
const QUIET_BYTES: f64 = 65_536.0;
/// The ledger has a row some time after its interval's end.
pub(super) const LEDGER_WAIT: Duration = Duration::from_millis(2500);

/// What a tenant is promised, and its most. `None` is nothing promised, or no limit.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Promise {
    /// Cores.
    pub(super) cpu: Option<f64>,
    pub(super) cpu_max: Option<f64>,
    /// I/Os a second, on each volume.
    pub(super) iops: Option<u32>,
    pub(super) iops_max: Option<u32>,
    pub(super) memory_mib: Option<u64>,
    pub(super) memory_max_mib: Option<u64>,
    pub(super) work_memory_mib: Option<u64>,
    pub(super) work_memory_max_mib: Option<u64>,
}

impl Promise {
    /// The same without limits of the processor and of I/O.
    pub(super) fn at_any_rate(self) -> Promise {
        Promise { cpu_max: None, iops_max: None, ..self }
    }

    /// The options of ALTER TENANT.
    pub(super) fn options(&self) -> String {
        let limit = |value: Option<String>| value.unwrap_or_else(|| "none".into());
        let bytes = |mib: u64| format!("'{mib}MiB'");
        [
            format!("cpu = {}", self.cpu.unwrap_or(0.0)),
            format!("cpu_max = {}", limit(self.cpu_max.map(|cores| cores.to_string()))),
            format!("iops = {}", self.iops.unwrap_or(0)),
            format!("iops_max = {}", limit(self.iops_max.map(|iops| iops.to_string()))),
            format!("memory = {}", bytes(self.memory_mib.unwrap_or(0))),
            format!("memory_max = {}", limit(self.memory_max_mib.map(bytes))),
            format!("work_memory = {}", bytes(self.work_memory_mib.unwrap_or(0))),
            format!("work_memory_max = {}", limit(self.work_memory_max_mib.map(bytes))),
        ]
        .join(", ")
    }
}

/// What is kept of promises: the paper's three configurations, and for PostgreSQL control groups or nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Policy {
    /// The paper's SQLVM.
    Reservations,
    MaxOnly,
    /// The paper's baseline.
    BestEffort,
}

impl Policy {
    pub(super) const ALL: [Policy; 3] = [Policy::Reservations, Policy::MaxOnly, Policy::BestEffort];

    pub(super) fn name(self) -> &'static str {
        match self {
            Policy::Reservations => "reservations",
            Policy::MaxOnly => "limits only",
            Policy::BestEffort => "best effort",
        }
    }

    fn option(self) -> &'static str {
        match self {
            Policy::Reservations => "reservations",
            Policy::MaxOnly => "max_only",
            Policy::BestEffort => "best_effort",
        }
    }
}

/// A server with its data; both go when it is dropped.
pub(super) struct Host {
    server: Kind,
    pub(super) admin: Client,
    /// Whether `rowhouse.ledger` can be read.
    pub(super) has_ledger: bool,
    // Last, so that it goes last.
    _folder: TempDir,
}

enum Kind {
    Rowhouse(Rowhouse),
    // The groups after the server: nobody is in them when they go.
    Postgres(Postgres, Option<Rc<RefCell<Groups>>>),
}

impl Host {
    /// Starts a server of ours of one worker, with further options of `rowhouse serve`.
    pub(super) async fn rowhouse(stage: &Stage, options: &[&str]) -> Result<Host> {
        Host::with_workers(stage, 1, options).await
    }

    /// The same of so many workers.
    pub(super) async fn with_workers(stage: &Stage, workers: usize, options: &[&str]) -> Result<Host> {
        stage.say("starting a server");
        let folder = stage.folder()?;
        let workers = ["--workers".to_owned(), workers.to_string()];
        let options: Vec<String> =
            workers.into_iter().chain(options.iter().map(ToString::to_string)).collect();
        let server =
            Rowhouse::start(&stage.options.server_binary, folder.path(), &stage.server_cores, &options)
                .await?;
        let admin = server.admin().await?;
        let has_ledger = rowhouse::has_ledger(&admin).await?;
        Ok(Host { server: Kind::Rowhouse(server), admin, has_ledger, _folder: folder })
    }

    /// Starts PostgreSQL, plain or with a control group for each database.
    pub(super) async fn postgres(stage: &Stage, memory: &str, with_groups: bool) -> Result<Host> {
        stage.say("starting PostgreSQL");
        let folder = stage.folder()?;
        let groups =
            if with_groups { Some(Rc::new(RefCell::new(Groups::ready(folder.path())?))) } else { None };
        let server = Postgres::start(folder.path(), &stage.server_cores, memory).await?;
        let admin = server.admin().await?;
        Ok(Host { server: Kind::Postgres(server, groups), admin, has_ledger: false, _folder: folder })
    }

    /// Says in words why an experiment cannot do without the ledger, if this build has none.
    pub(super) fn need_ledger(&self, what: &str) -> Result<()> {
        if self.has_ledger {
            return Ok(());
        }
        Err(format!(
            "{what} needs the analytical path, which rowhouse.ledger and TPC-H are read by and this build does not have (0A000): \
             build with it, or name another binary by --server-binary"
        )
        .into())
    }

    pub(super) fn url(&self, database: &str) -> String {
        match &self.server {
            Kind::Rowhouse(server) => server.url(database),
            Kind::Postgres(server, _) => server.url(database),
        }
    }

    fn kind(&self) -> &'static str {
        match &self.server {
            Kind::Rowhouse(_) => "tenant",
            Kind::Postgres(..) => "database",
        }
    }

    /// Name and version.
    pub(super) async fn label(&self) -> Result<String> {
        let version: String = self.admin.query_one("show server_version", &[]).await?.get(0);
        Ok(match &self.server {
            Kind::Rowhouse(_) => format!("Rowhouse ({version})"),
            Kind::Postgres(_, None) => format!("PostgreSQL {version}"),
            Kind::Postgres(_, Some(groups)) => format!("PostgreSQL {version}, {}", groups.borrow().label()),
        })
    }

    /// Makes an empty tenant.
    pub(super) async fn create(&self, name: &str) -> Result<()> {
        Ok(self.admin.batch_execute(&format!("create {} {name}", self.kind())).await?)
    }

    /// Makes the database that copies are made of, and loads it.
    pub(super) async fn load(&self, stage: &Stage, actor: &Actor) -> Result<()> {
        self.create(actor.template()).await?;
        actor.load(stage, &self.url(actor.template())).await
    }

    /// Makes a tenant as a copy, in the place of one of that name.
    pub(super) async fn copy(&self, name: &str, template: &str) -> Result<()> {
        self.drop(name).await?;
        let sql = match &self.server {
            Kind::Rowhouse(_) => format!("create tenant {name} from template {template}"),
            Kind::Postgres(..) => format!("create database {name} template {template}"),
        };
        self.when_unused(&sql).await
    }

    /// Drops a tenant if it is there.
    pub(super) async fn drop(&self, name: &str) -> Result<()> {
        self.when_unused(&format!("drop {} if exists {name}", self.kind())).await
    }

    /// Runs a statement on a database that must not be in use, once the sessions that were told to end have ended.
    async fn when_unused(&self, sql: &str) -> Result<()> {
        let until = tokio::time::Instant::now() + UNUSED_WAIT;
        loop {
            match self.admin.batch_execute(sql).await {
                Err(error)
                    if error.code() == Some(&SqlState::OBJECT_IN_USE)
                        && tokio::time::Instant::now() < until =>
                {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                done => return Ok(done?),
            }
        }
    }

    /// Promises something to a tenant; of PostgreSQL, writes it to the tenant's control group, if there are any. A reservation there
    /// is as many parts of the processor as `neighbours` have together, times what it has of the rest.
    pub(super) async fn promise(&self, name: &str, promise: Promise, neighbours: usize) -> Result<()> {
        match &self.server {
            Kind::Rowhouse(_) => {
                // A limit below a reservation is refused, so limits go first.
                let free = "cpu_max = none, iops_max = none, memory_max = none, work_memory_max = none";
                self.admin.batch_execute(&format!("alter tenant {name} set ({free})")).await?;
                let sql = format!("alter tenant {name} set ({})", promise.options());
                Ok(self.admin.batch_execute(&sql).await?)
            }
            Kind::Postgres(_, None) => Ok(()),
            Kind::Postgres(_, Some(groups)) => {
                let weight =
                    promise.cpu.map_or(1.0, |cpu| neighbours.max(1) as f64 * cpu / (1.0 - cpu).max(0.01));
                let limits = Limits {
                    cpu_max: promise.cpu_max,
                    cpu_weight: weight.ceil() as u32,
                    iops_max: promise.iops_max,
                };
                groups.borrow_mut().set(name, limits)
            }
        }
    }

    /// Switches what is kept of promises. PostgreSQL has nothing of the kind.
    pub(super) async fn policy(&self, policy: Policy) -> Result<()> {
        match &self.server {
            Kind::Rowhouse(_) => {
                let sql = format!("alter server set (policy = '{}')", policy.option());
                Ok(self.admin.batch_execute(&sql).await?)
            }
            Kind::Postgres(..) => Ok(()),
        }
    }

    /// Begins to count how long statements wait for pages. PostgreSQL does not tell.
    pub(super) async fn wait_sampler(&self) -> Result<Sampler> {
        match &self.server {
            Kind::Rowhouse(server) => Sampler::of_waits(server).await,
            Kind::Postgres(..) => Err("PostgreSQL does not tell how long statements wait for pages".into()),
        }
    }

    /// Begins to count.
    pub(super) async fn sampler(&self, tenants: &[String]) -> Result<Sampler> {
        match &self.server {
            Kind::Rowhouse(server) => Sampler::of_rowhouse(server, tenants).await,
            Kind::Postgres(server, groups) => Sampler::of_postgres(server, groups.clone()).await,
        }
    }

    fn pid(&self) -> u32 {
        match &self.server {
            Kind::Rowhouse(server) => server.pid(),
            Kind::Postgres(server, _) => server.pid(),
        }
    }

    /// Bytes that the kernel read and wrote for the server so far.
    pub(super) fn disk_bytes(&self) -> f64 {
        process::disk_bytes(self.pid()) as f64
    }

    /// Processor time of the server's (first) process so far, to a hundredth of a second.
    pub(super) fn cpu_seconds(&self) -> f64 {
        process::cpu_seconds(self.pid())
    }

    /// What a server of ours counts, now.
    pub(super) async fn metrics(&self) -> Result<Metrics> {
        Metrics::fetch(self.ours()?.metrics_address()).await
    }

    /// A server of ours.
    pub(super) fn ours(&self) -> Result<&Rowhouse> {
        match &self.server {
            Kind::Rowhouse(server) => Ok(server),
            Kind::Postgres(..) => Err("PostgreSQL has nothing of the kind".into()),
        }
    }

    /// What a tenant missed of the processor and of the I/O that it was owed between two moments, by the ledger, as parts of
    /// that; waits until the ledger has it. `None` of what it was owed nothing of; PostgreSQL owes nobody anything.
    pub(super) async fn missed(&self, name: &str, from_us: u64, to_us: u64) -> Result<[Option<f64>; 2]> {
        let mut missed = [None; 2];
        let Kind::Rowhouse(_) = &self.server else { return Ok(missed) };
        tokio::time::sleep(LEDGER_WAIT).await;
        for (part, resource) in missed.iter_mut().zip(["cpu", "io"]) {
            let rows = ledger::rows(&self.admin, "ledger", resource, from_us, to_us).await?;
            *part = ledger::missed_part(&rows, name);
        }
        Ok(missed)
    }

    /// Drops a tenant's pages from memory.
    pub(super) async fn evict(&self, name: &str) -> Result<()> {
        Ok(self.admin.batch_execute(&format!("select rowhouse.evict('{name}')")).await?)
    }

    /// Waits until what was loaded or copied is written: until nothing is read or written for longer than the ledger takes, or a
    /// minute has passed. Else it would be charged to tenants while they are measured.
    pub(super) async fn quiet(&self, stage: &Stage) -> Result<()> {
        stage.say("waiting until the server is quiet");
        if let Kind::Postgres(..) = &self.server {
            return Ok(self.admin.batch_execute("checkpoint").await?);
        }
        let until = tokio::time::Instant::now() + QUIET_WAIT;
        loop {
            let before = self.disk_bytes();
            tokio::time::sleep(LEDGER_WAIT).await;
            if self.disk_bytes() - before <= QUIET_BYTES || tokio::time::Instant::now() > until {
                return Ok(());
            }
        }
    }

    /// Ends the server in order.
    pub(super) async fn stop(self) -> Result<()> {
        match self.server {
            Kind::Rowhouse(server) => server.stop().await,
            Kind::Postgres(server, groups) => {
                let ended = server.stop().await;
                drop(groups);
                ended
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_says_every_option() {
        let promise =
            Promise { cpu: Some(0.5), iops: Some(200), memory_mib: Some(2048), ..Promise::default() };
        assert_eq!(
            promise.options(),
            "cpu = 0.5, cpu_max = none, iops = 200, iops_max = none, memory = '2048MiB', memory_max = none, \
             work_memory = '0MiB', work_memory_max = none"
        );
        let limits = Promise { cpu_max: Some(0.5), memory_max_mib: Some(64), ..Promise::default() };
        assert!(
            limits.options().starts_with("cpu = 0, cpu_max = 0.5")
                && limits.options().contains("memory_max = '64MiB'")
        );
    }
}
