//! `/metrics`: the server for Prometheus. Names have their unit last, counters `_total` after it; what a family is labelled by is bounded: tenants by
//! [`super::tenant_figures::TENANTS_MAX`], everything else by what there is of workers, resources, causes and waits.

use std::sync::atomic::Ordering;

use base::{Nanos, TenantId};
use governor::{OwnLimit, Resource, RollUpRow};
use storage::PageTally;

use super::exposition::{Distribution, Exposition, Kind, Labels};
use super::tenant_figures::{Chosen, TenantFigures, gather};
use crate::executor::Wait;
use crate::ledger::{ResourceTotals, STATEMENT_BOUNDS, StatementTotals, Totals};
use crate::shared::{Shared, WorkerSeat};

pub(super) fn render(shared: &Shared, chosen: &mut Chosen) -> String {
    let mut out = Exposition::default();
    let tenants = gather(shared, chosen);
    promises(&tenants, &mut out);
    own_limits(&tenants, &mut out);
    violations(&tenants, &mut out);
    waits(&tenants, &mut out);
    statements(&tenants, &mut out);
    pages(&tenants, &mut out);
    whole_server(shared, &mut out);
    workers(shared, &mut out);
    out.into_text()
}

fn of_tenant(figures: &TenantFigures) -> Labels {
    Labels::default().with("tenant", &figures.name)
}

fn each(
    tenants: &[TenantFigures],
    value: impl Fn(&TenantFigures) -> f64,
) -> impl Iterator<Item = (Labels, f64)> {
    tenants.iter().map(move |figures| (of_tenant(figures), value(figures)))
}

fn seconds(nanos: u64) -> f64 {
    Nanos(nanos).as_secs_f64()
}

/// The ledger's sums.
fn promises(tenants: &[TenantFigures], out: &mut Exposition) {
    out.family(
        "rowhouse_tenant_cpu_seconds_total",
        Kind::Counter,
        "Processor time charged to the tenant.",
        each(tenants, |figures| figures.cpu_seconds),
    );
    type Sum = fn(&Totals) -> f64;
    let sums: [(&str, &str, Sum); 16] = [
        ("cpu_promised_seconds", "Processor time that was promised, in intervals that were metered.", |p| {
            seconds(p.cpu.promised)
        }),
        ("cpu_demanded_seconds", "Of its promised processor time, what the tenant had tasks for.", |p| {
            seconds(p.cpu.demanded)
        }),
        ("cpu_missed_seconds", "Of that, what it did not get.", |p| seconds(p.cpu.missed)),
        ("cpu_over_seconds", "Processor time beyond the tenant's limit.", |p| seconds(p.cpu.over)),
        ("io", "I/Os issued for the tenant, one for each started 64 KiB, all volumes.", |p| {
            p.io.given as f64
        }),
        ("io_bytes", "Bytes read and written for the tenant, all volumes.", |p| p.io_bytes as f64),
        ("io_promised", "I/Os that were promised, in intervals that were metered.", |p| p.io.promised as f64),
        ("io_demanded", "Of its promised I/Os, what the tenant asked for.", |p| p.io.demanded as f64),
        ("io_missed", "Of that, what was not issued in time.", |p| p.io.missed as f64),
        ("io_over", "I/Os beyond the tenant's limit.", |p| p.io.over as f64),
        (
            "memory_demanded",
            "Page I/Os that its promised memory would have spared, of sampled pages, scaled.",
            |p| p.memory.demanded as f64,
        ),
        ("memory_spared", "Page I/Os that memory spared it, of the same pages.", |p| p.memory.given as f64),
        ("memory_missed", "Page I/Os beyond those of its promised memory.", |p| p.memory.missed as f64),
        ("work_memory_demanded", "I/Os that its promised working memory would have spilled.", |p| {
            p.work_memory.demanded as f64
        }),
        ("work_memory_missed", "I/Os spilled beyond those of its promised working memory.", |p| {
            p.work_memory.missed as f64
        }),
        ("owed", "What the tenant is owed for what it missed, by its penalty.", |p| {
            p.owed_micros as f64 / 1e6
        }),
    ];
    for (what, help, value) in sums {
        let name = format!("rowhouse_tenant_{what}_total");
        out.family(&name, Kind::Counter, help, each(tenants, |figures| value(&figures.ledger.totals)));
    }
}

/// Only what occurred: a tenant that takes nothing beyond its limit has none of its three series.
fn own_limits(tenants: &[TenantFigures], out: &mut Exposition) {
    let mut series = Vec::new();
    for figures in tenants {
        let OwnLimit { held, forgiven, awaited, .. } = figures.ledger.totals.own_limit;
        for (what, time) in [("held", held), ("forgiven", forgiven), ("awaited", awaited)] {
            if time > 0 {
                series.push((of_tenant(figures).with("what", what), seconds(time)));
            }
        }
    }
    let help = "Promised processor time that the tenant's own limit kept from it; time beyond it that is forgiven, and that others waited for.";
    out.family("rowhouse_tenant_cpu_limit_seconds_total", Kind::Counter, help, series);
}

/// Only what occurred, so that a tenant whose promises are kept has none of its sixteen series.
fn violations(tenants: &[TenantFigures], out: &mut Exposition) {
    type Of = fn(&Totals) -> &ResourceTotals;
    let resources: [(Resource, Of); 4] = [
        (Resource::Cpu, |totals| &totals.cpu),
        (Resource::Io { volume: 0 }, |totals| &totals.io),
        (Resource::Memory, |totals| &totals.memory),
        (Resource::WorkMemory, |totals| &totals.work_memory),
    ];
    let mut series = Vec::new();
    for figures in tenants {
        for (resource, of) in resources {
            for (cause, count) in RollUpRow::CAUSES.iter().zip(of(&figures.ledger.totals).broken) {
                if count > 0 {
                    let labels = of_tenant(figures).with("resource", resource.as_str());
                    series.push((labels.with("cause", cause.as_str()), count as f64));
                }
            }
        }
    }
    let help = "Metering intervals in which a promise was broken, by what broke it.";
    out.family("rowhouse_tenant_violations_total", Kind::Counter, help, series);
}

fn waits(tenants: &[TenantFigures], out: &mut Exposition) {
    let series = |value: &dyn Fn((Nanos, u64)) -> f64| -> Vec<(Labels, f64)> {
        let of = |figures| {
            Wait::ALL
                .iter()
                .zip(TenantFigures::waits(figures))
                .map(move |(wait, waited)| (of_tenant(figures).with("wait", wait.as_str()), waited))
        };
        tenants.iter().flat_map(of).map(|(labels, waited)| (labels, value(waited))).collect()
    };
    out.family(
        "rowhouse_tenant_wait_seconds_total",
        Kind::Counter,
        "What the tenant's tasks waited for, summed over them, once a wait has ended.",
        series(&|(time, _)| time.as_secs_f64()),
    );
    out.family(
        "rowhouse_tenant_waits_total",
        Kind::Counter,
        "Waits of the tenant's tasks that have ended.",
        series(&|(_, count)| count as f64),
    );
}

fn statements(tenants: &[TenantFigures], out: &mut Exposition) {
    let of = |figures| {
        let StatementTotals { counts, time } = &TenantFigures::totals(figures).statements;
        (of_tenant(figures), Distribution { bounds: &STATEMENT_BOUNDS, counts, sum: *time })
    };
    out.histograms(
        "rowhouse_tenant_statement_seconds",
        "How long clients waited for the answers to statements, to a sixteenth of it.",
        tenants.iter().map(of),
    );
}

fn pages(tenants: &[TenantFigures], out: &mut Exposition) {
    let counter = Kind::Counter;
    let commits = each(tenants, |figures| figures.commits as f64);
    out.family("rowhouse_tenant_commits_total", counter, "Commits with changes.", commits);
    let gauges: [(&str, &str, fn(&TenantFigures) -> f64); 4] = [
        ("sessions", "Sessions now.", |figures| figures.sessions as f64),
        ("open", "1 if the tenant is in memory; of several together, how many are.", |figures| {
            figures.open as f64
        }),
        (
            "resident_bytes",
            "Memory of the tenant's pages and what leads to them, those that only snapshots hold included.",
            |figures| figures.resident.0 as f64,
        ),
        ("memory_promised_bytes", "Buffer memory that is promised to the tenant.", |figures| {
            figures.memory_promised.0 as f64
        }),
    ];
    for (what, help, value) in gauges {
        out.family(&format!("rowhouse_tenant_{what}"), Kind::Gauge, help, each(tenants, value));
    }
    let counts: [(&str, &str, fn(&PageTally) -> u64); 7] = [
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
        out.family(&name, counter, help, each(tenants, |figures| count(&figures.pages) as f64));
    }
}

fn whole_server(shared: &Shared, out: &mut Exposition) {
    let (counter, gauge) = (Kind::Counter, Kind::Gauge);
    let memory = &shared.memory;
    let bytes = [
        ("limit", "Memory that pages of all tenants together may take.", memory.limit()),
        ("resident", "Memory that they take.", memory.resident()),
        ("peak", "The most they took.", memory.peak()),
    ];
    for (what, help, bytes) in bytes {
        out.one(&format!("rowhouse_page_memory_{what}_bytes"), gauge, help, bytes.0 as f64);
    }
    let help = "Pages loaded over the limit because nothing could be evicted.";
    out.one("rowhouse_page_memory_overdrafts_total", counter, help, memory.overdrafts() as f64);
    let help = "Times that a transaction changed or read pages over the limit because waiting made no room.";
    out.one("rowhouse_page_memory_turns_over_total", counter, help, memory.turns_over() as f64);
    // But for the server's own.
    let tenants = shared.tenants.count().saturating_sub(1);
    out.one("rowhouse_tenants", gauge, "Tenants.", tenants as f64);
    out.one("rowhouse_sessions", gauge, "Sessions of all tenants.", shared.sessions.count() as f64);
    let rules = shared.runaways.list().into_iter().map(|figures| {
        let (rule, action) = (&figures.rule.name, figures.rule.terms.action.as_str());
        (Labels::default().with("rule", rule).with("action", action), figures.acted as f64)
    });
    let help = "Statements that a runaway rule acted on, each once a rule.";
    out.family("rowhouse_runaway_rule_acted_total", counter, help, rules);
    let checkpoints = shared.checkpoints.load(Ordering::Relaxed);
    out.one("rowhouse_checkpoints_total", counter, "Checkpoints published.", checkpoints as f64);
    let log = shared.log_dir.usage();
    let help = "Log segments that somebody's records are kept in, or that are written to.";
    out.one("rowhouse_log_live_bytes", gauge, help, log.live.0 as f64);
    let help = "Log segments that are free, to be used again.";
    out.one("rowhouse_log_free_bytes", gauge, help, log.free.0 as f64);
    let counts = &shared.reception;
    let connections = [
        ("accepted", &counts.accepted),
        ("authenticated", &counts.authenticated),
        ("failed", &counts.failed),
        ("timed_out", &counts.timed_out),
    ];
    let connections = connections.map(|(outcome, count)| {
        (Labels::default().with("outcome", outcome), count.load(Ordering::Relaxed) as f64)
    });
    let help = "Connections by what became of them.";
    out.family("rowhouse_connections_total", counter, help, connections);
    let resident = shared.env.threads.resident_memory().0 as f64;
    out.one("rowhouse_resident_memory_bytes", gauge, "Memory of the process.", resident);
    shared.snapshot_pauses.render(
        "rowhouse_snapshot_pause_seconds",
        "Time a worker stood still to take a snapshot for an analytical query or a checkpoint.",
        out,
    );
    shared.move_pauses.render(
        "rowhouse_move_pause_seconds",
        "Time a tenant's tasks stood still to move to another worker.",
        out,
    );
    shared.log_writes.render(
        "rowhouse_log_write_seconds",
        "Time from the beginning of a log write, a new segment opened for it included, until its worker knew it durable.",
        out,
    );
}

fn workers(shared: &Shared, out: &mut Exposition) {
    let each = |value: fn(&WorkerSeat) -> f64| {
        let labels = |seat: &WorkerSeat| Labels::default().with("worker", &seat.handle.id().to_string());
        shared.workers.iter().map(move |seat| (labels(seat), value(seat)))
    };
    out.family(
        "rowhouse_log_durable_bytes_total",
        Kind::Counter,
        "End of what is durable in the worker's log.",
        each(|seat| seat.log.durable().0 as f64),
    );
    out.family(
        "rowhouse_worker_system_cpu_seconds_total",
        Kind::Counter,
        "Processor time of the server's own work.",
        each(|seat| seat.handle.account(TenantId::SYSTEM).counted().as_secs_f64()),
    );
}

impl TenantFigures {
    fn waits(&self) -> [(Nanos, u64); Wait::ALL.len()] {
        self.ledger.waits
    }

    fn totals(&self) -> &Totals {
        &self.ledger.totals
    }
}
