//! Administration over HTTP: `/healthz` and `/metrics`, on a thread of its own with tokio and axum, never on a worker.

use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak, mpsc};

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use base::{ByteCount, Nanos, TenantId};
use env::{JoinHandle, ShutdownSignal};
use storage::PageTally;

use crate::StartError;
use crate::ledger::Totals;
use crate::shared::Shared;

/// Tenants with series of their own in `/metrics`; those that used the most CPU come first, the rest are summed.
const METRIC_TENANTS_MAX: usize = 1_000;

/// The administrator's HTTP server.
pub(crate) struct AdminServer {
    address: SocketAddr,
    stop: ShutdownSignal,
    thread: JoinHandle,
}

impl AdminServer {
    /// Listens on `address` and serves on a thread of its own.
    ///
    /// # Errors
    /// The address is taken, or no thread can be had.
    pub(crate) fn start(shared: &Arc<Shared>, address: SocketAddr) -> Result<AdminServer, StartError> {
        let stop = ShutdownSignal::default();
        let (stopped, state) = (stop.clone(), Arc::downgrade(shared));
        let (tell, told) = mpsc::sync_channel(1);
        let body = Box::new(move || {
            if let Err(error) = serve(address, state, stopped, &tell) {
                // Told to whoever starts the server if it still listens, else to the log.
                if let Err(mpsc::SendError(Err(error))) = tell.send(Err(error)) {
                    tracing::error!(%error, "the administrator's HTTP server failed");
                }
            }
        });
        let thread = shared.env.threads.spawn("admin", None, body);
        let thread = thread.map_err(|error| StartError::System { what: "start a thread", error })?;
        let ended = |_| io::Error::other("the thread ended before it began");
        let address = told
            .recv()
            .map_err(ended)
            .and_then(|told| told)
            .map_err(|error| StartError::Listen { address, error })?;
        Ok(AdminServer { address, stop, thread })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends the server; blocks until its thread ended.
    pub(crate) fn stop(self) {
        self.stop.request();
        let _ = self.thread.join();
    }
}

type Told = io::Result<SocketAddr>;

fn serve(
    address: SocketAddr,
    shared: Weak<Shared>,
    stop: ShutdownSignal,
    tell: &mpsc::SyncSender<Told>,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind(address).await?;
        let _ = tell.send(listener.local_addr());
        let routes =
            Router::new().route("/healthz", get(health)).route("/metrics", get(metrics)).with_state(shared);
        // Requests in flight are dropped: a scraper that stalls must not hold up the end.
        tokio::select! {
            served = async { axum::serve(listener, routes).await } => served,
            () = stop.wait() => Ok(()),
        }
    })
}

async fn health(State(shared): State<Weak<Shared>>) -> impl IntoResponse {
    let Some(shared) = shared.upgrade() else { return (StatusCode::SERVICE_UNAVAILABLE, "stopping\n") };
    if shared.workers.iter().any(|seat| seat.log.failure().is_some()) {
        return (StatusCode::SERVICE_UNAVAILABLE, "a redo log failed\n");
    }
    (StatusCode::OK, "ok\n")
}

async fn metrics(State(shared): State<Weak<Shared>>) -> impl IntoResponse {
    let text = shared.upgrade().map(|shared| render(&shared)).unwrap_or_default();
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text)
}

struct TenantFigures {
    name: String,
    cpu: f64,
    promises: Totals,
    commits: u64,
    sessions: usize,
    open: bool,
    resident: ByteCount,
    pages: PageTally,
}

fn figures(shared: &Shared) -> Vec<TenantFigures> {
    let mut all: Vec<TenantFigures> = Vec::new();
    let totals = shared.ledger.totals();
    for (name, entry) in shared.tenants.list() {
        let (resident, pages) = entry.home.page_figures();
        all.push(TenantFigures {
            resident,
            pages,
            name,
            cpu: shared.used_by(entry.id).as_secs_f64(),
            promises: totals(entry.id),
            commits: entry.home.commits(),
            sessions: shared.sessions.count_of(entry.id),
            open: entry.home.is_open(),
        });
    }
    if all.len() > METRIC_TENANTS_MAX {
        all.sort_by(|a, b| b.cpu.total_cmp(&a.cpu));
        let rest = all.split_off(METRIC_TENANTS_MAX);
        all.push(TenantFigures {
            name: "(others)".to_owned(),
            cpu: rest.iter().map(|f| f.cpu).sum(),
            promises: rest.iter().fold(Totals::default(), |sum, f| sum + f.promises),
            commits: rest.iter().map(|f| f.commits).sum(),
            sessions: rest.iter().map(|f| f.sessions).sum(),
            resident: ByteCount(rest.iter().map(|f| f.resident.0).sum()),
            pages: rest.iter().fold(PageTally::default(), |sum, f| sum + f.pages),
            open: false,
        });
    }
    all
}

fn render(shared: &Shared) -> String {
    let mut out = String::new();
    let mut series = |name: &str, kind: &str, help: &str, values: Vec<(String, String)>| {
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (labels, value) in values {
            let _ = writeln!(out, "{name}{labels} {value}");
        }
    };
    let one = |value: String| vec![(String::new(), value)];
    let tenants = figures(shared);
    let each = |value: &dyn Fn(&TenantFigures) -> String| -> Vec<(String, String)> {
        tenants.iter().map(|f| (format!("{{tenant=\"{}\"}}", escape(&f.name)), value(f))).collect()
    };
    series(
        "rowhouse_tenant_cpu_seconds_total",
        "counter",
        "Processor time charged to the tenant.",
        each(&|f| f.cpu.to_string()),
    );
    type Promised = fn(&Totals) -> f64;
    let promised: [(&str, &str, Promised); 10] = [
        ("cpu_demanded_seconds", "Of its promised processor time, what the tenant had tasks for.", |p| {
            Nanos(p.cpu.demanded).as_secs_f64()
        }),
        ("cpu_missed_seconds", "Of that, what it did not get.", |p| Nanos(p.cpu.missed).as_secs_f64()),
        ("io", "I/Os issued for the tenant, one for each started 64 KiB, all volumes.", |p| {
            p.io.given as f64
        }),
        ("io_bytes", "Bytes read and written for the tenant, all volumes.", |p| p.io_bytes as f64),
        ("io_demanded", "Of its promised I/Os, what the tenant asked for.", |p| p.io.demanded as f64),
        ("io_missed", "Of that, what was not issued in time.", |p| p.io.missed as f64),
        (
            "memory_demanded",
            "Page I/Os that its promised memory would have spared, of sampled pages, scaled.",
            |p| p.memory.demanded as f64,
        ),
        ("memory_spared", "Page I/Os that memory spared it, of the same pages.", |p| p.memory.given as f64),
        ("memory_missed", "Page I/Os beyond those of its promised memory.", |p| p.memory.missed as f64),
        ("owed", "What the tenant is owed for what it missed, by its penalty.", |p| {
            p.owed_micros as f64 / 1e6
        }),
    ];
    for (what, help, value) in promised {
        let name = format!("rowhouse_tenant_{what}_total");
        series(&name, "counter", help, each(&|f| value(&f.promises).to_string()));
    }
    series(
        "rowhouse_tenant_commits_total",
        "counter",
        "Commits with changes.",
        each(&|f| f.commits.to_string()),
    );
    series("rowhouse_tenant_sessions", "gauge", "Sessions now.", each(&|f| f.sessions.to_string()));
    series(
        "rowhouse_tenant_open",
        "gauge",
        "1 if the tenant is in memory.",
        each(&|f| u8::from(f.open).to_string()),
    );
    series(
        "rowhouse_tenant_resident_bytes",
        "gauge",
        "Memory of the tenant's pages and what leads to them, those that only snapshots hold included.",
        each(&|f| f.resident.0.to_string()),
    );
    type Count = fn(&PageTally) -> u64;
    let counts: [(&str, &str, Count); 7] = [
        ("misses", "Times a statement had to wait for a page.", |p| p.misses),
        ("reads", "Pages read from the data file.", |p| p.reads),
        ("evictions", "Pages dropped from memory.", |p| p.evictions),
        ("writes", "Pages written by checkpoints.", |p| p.write_backs),
        ("ahead_asked", "Pages read before a scan asked for them.", |p| p.ahead_asked),
        ("ahead_used", "Of the pages read ahead, those that were used.", |p| p.ahead_used),
        ("ahead_wasted", "Of the pages read ahead, those evicted unused.", |p| p.ahead_wasted),
    ];
    for (what, help, count) in counts {
        let name = format!("rowhouse_tenant_page_{what}_total");
        series(&name, "counter", help, each(&|f| count(&f.pages).to_string()));
    }
    let memory = &shared.memory;
    let budget = [("limit", memory.limit().0), ("resident", memory.resident().0), ("peak", memory.peak().0)];
    let budget =
        budget.iter().map(|(what, bytes)| (format!("{{what=\"{what}\"}}"), bytes.to_string())).collect();
    series("rowhouse_page_memory_bytes", "gauge", "Memory for pages of all tenants together.", budget);
    series(
        "rowhouse_page_memory_overdrafts_total",
        "counter",
        "Pages loaded over the limit because nothing could be evicted.",
        one(memory.overdrafts().to_string()),
    );
    series(
        "rowhouse_tenants",
        "gauge",
        "Tenants.",
        one(shared.tenants.count().saturating_sub(1).to_string()),
    );
    series(
        "rowhouse_sessions",
        "gauge",
        "Sessions of all tenants.",
        one(shared.sessions.count().to_string()),
    );
    let rules = shared.runaways.list().into_iter().map(|figures| {
        let (rule, action) = (escape(&figures.rule.name), figures.rule.terms.action.as_str());
        (format!("{{rule=\"{rule}\",action=\"{action}\"}}"), figures.acted.to_string())
    });
    series(
        "rowhouse_runaway_rule_acted_total",
        "counter",
        "Statements that a runaway rule acted on, each once a rule.",
        rules.collect(),
    );
    series(
        "rowhouse_checkpoints_total",
        "counter",
        "Checkpoints published.",
        one(shared.checkpoints.load(Ordering::Relaxed).to_string()),
    );
    let counts = &shared.reception;
    let connections = [
        ("accepted", &counts.accepted),
        ("authenticated", &counts.authenticated),
        ("failed", &counts.failed),
        ("timed_out", &counts.timed_out),
    ];
    let connections = connections
        .iter()
        .map(|(what, count)| (format!("{{outcome=\"{what}\"}}"), count.load(Ordering::Relaxed).to_string()))
        .collect();
    series("rowhouse_connections_total", "counter", "Connections by what became of them.", connections);
    let per_worker = |value: &dyn Fn(&crate::shared::WorkerSeat) -> String| -> Vec<(String, String)> {
        let label = |seat: &crate::shared::WorkerSeat| format!("{{worker=\"{}\"}}", seat.handle.id());
        shared.workers.iter().map(|seat| (label(seat), value(seat))).collect()
    };
    series(
        "rowhouse_log_durable_bytes",
        "counter",
        "End of what is durable in the worker's log.",
        per_worker(&|seat| seat.log.durable().0.to_string()),
    );
    let system = |seat: &crate::shared::WorkerSeat| {
        seat.handle.account(TenantId::SYSTEM).used().as_secs_f64().to_string()
    };
    series(
        "rowhouse_worker_system_cpu_seconds_total",
        "counter",
        "Processor time of the server's own work.",
        per_worker(&system),
    );
    series(
        "rowhouse_resident_memory_bytes",
        "gauge",
        "Memory of the process.",
        one(shared.env.threads.resident_memory().0.to_string()),
    );
    shared.snapshot_pauses.render(
        "rowhouse_snapshot_pause_seconds",
        "Time a worker stood still to take a snapshot for an analytical query or a checkpoint.",
        &mut out,
    );
    shared.move_pauses.render(
        "rowhouse_move_pause_seconds",
        "Time a tenant's tasks stood still to move to another worker.",
        &mut out,
    );
    out
}

/// A label's value: tenants' names may hold anything.
fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
