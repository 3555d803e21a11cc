//! Figure 5 and table 1: T1 while neighbours arrive, under the three policies, and the same on PostgreSQL.

use super::actors::Actor;
use super::host::{Host, Policy, Promise};
use super::performance::{Performance, Promises, Script, median_run};
use super::sections::{self, Column};
use super::stage::Stage;
use crate::Result;
use crate::report::{Section, percent};
use crate::stats;

/// From an arrival to the next in figure 5, and in table 1.
const GAP_SECONDS: f64 = 300.0;
const CROWD_GAP_SECONDS: f64 = 60.0;
/// With all neighbours of table 1 there.
const CROWD_MEASURED_SECONDS: f64 = 300.0;
const CROWD: usize = 24;
/// Memory of a tenant, promised or at most.
const TENANT_MIB: u64 = 2048;
/// Of the server: all that four tenants may have.
const SERVER_MEMORY: &str = "8GiB";
const POSTGRES_MEMORY: &str = "4GB";

/// T1's reservation.
fn reserved() -> Promise {
    Promise { cpu: Some(0.5), iops: Some(200), memory_mib: Some(TENANT_MIB), ..Promise::default() }
}

/// What everybody may have at most where there are limits.
fn limited() -> Promise {
    Promise {
        cpu_max: Some(0.5),
        iops_max: Some(250),
        memory_max_mib: Some(TENANT_MIB),
        ..Promise::default()
    }
}

/// T1 by itself with its reservation as its limit.
fn alone() -> Promises {
    let t1 =
        Promise { cpu_max: Some(0.5), iops_max: Some(200), memory_max_mib: Some(TENANT_MIB), ..reserved() };
    Promises { t1, neighbour: Promise::default() }
}

fn promises(policy: Policy) -> Promises {
    match policy {
        Policy::Reservations => Promises { t1: reserved(), neighbour: limited() },
        Policy::MaxOnly => Promises { t1: limited(), neighbour: limited() },
        Policy::BestEffort => Promises { t1: Promise::default(), neighbour: Promise::default() },
    }
}

/// The script of figure 5 with the workload of this number as T1 and the others as they arrive.
fn figure_script(stage: &Stage, suite: &[Actor; 4], t1: usize) -> Script {
    let gap = stage.options.time(GAP_SECONDS);
    let neighbours = (0..suite.len()).filter(|n| *n != t1).map(|n| suite[n]).collect();
    Script { t1: suite[t1], neighbours, gap, measured: gap }
}

/// The script of table 1: the three others in turn.
fn crowd_script(stage: &Stage, suite: &[Actor; 4]) -> Script {
    Script {
        t1: suite[0],
        neighbours: (0..CROWD).map(|number| suite[1 + number % 3]).collect(),
        gap: stage.options.time(CROWD_GAP_SECONDS),
        measured: stage.options.time(CROWD_MEASURED_SECONDS),
    }
}

async fn rowhouse(stage: &mut Stage) -> Result<Host> {
    let host = Host::rowhouse(stage, &["--memory", SERVER_MEMORY]).await?;
    host.need_ledger("isolation")?;
    stage.note_setting("Versions", host.label().await?);
    Ok(host)
}

/// Loads the models of some workloads.
async fn load(stage: &Stage, host: &Host, suite: &[Actor]) -> Result<()> {
    for actor in suite {
        host.load(stage, actor).await?;
    }
    Ok(())
}

/// Runs a script under each policy, and alone, as often as is asked for, in turn.
async fn all_policies(stage: &Stage, host: &Host, script: &Script) -> Result<Vec<Column>> {
    let mut columns: Vec<Column> = Policy::ALL.map(|policy| Column::new(policy.name())).into();
    columns.push(Column::new("alone"));
    for _ in 0..stage.options.repetitions {
        for (column, policy) in columns.iter_mut().zip(Policy::ALL) {
            column.runs.push(script.run(stage, host, policy, promises(policy)).await?);
        }
        let last = columns.last_mut().expect("alone is the last");
        last.runs.push(script.alone().run(stage, host, Policy::Reservations, alone()).await?);
    }
    Ok(columns)
}

fn time_of(stage: &Stage, script: &Script) -> std::time::Duration {
    (script.length() * 3 + script.alone().length()) * stage.options.repetitions as u32
}

pub(super) async fn figure_5(stage: &mut Stage) -> Result<()> {
    let suite = Actor::suite(&stage.options)?;
    let script = figure_script(stage, &suite, 0);
    stage.will_take(time_of(stage, &script));
    let host = rowhouse(stage).await?;
    load(stage, &host, &suite).await?;
    let columns = all_policies(stage, &host, &script).await?;
    host.stop().await?;
    let mut section =
        sections::arrivals(&script, &columns, "figure-5", "Figure 5: TPC-C while three others arrive");
    let of = |index: usize| median_run(&columns[index].runs);
    let loss = |index: usize| percent(1.0 - stats::share(of(index).rate(), of(0).rate()), false);
    section.notes.push(format!(
        "Beside reservations T1 loses {} of its throughput with limits only and {} with best effort once all are there; the paper \
         has about 40 % for both, and 49, 23 and 27 % of the processor for T1.",
        loss(1),
        loss(2)
    ));
    stage.add(section)
}

pub(super) async fn each_workload(stage: &mut Stage) -> Result<()> {
    let suite = Actor::suite(&stage.options)?;
    let scripts: Vec<Script> = (1..suite.len()).map(|t1| figure_script(stage, &suite, t1)).collect();
    stage.will_take(scripts.iter().map(|script| time_of(stage, script)).sum());
    let host = rowhouse(stage).await?;
    load(stage, &host, &suite).await?;
    for script in &scripts {
        let columns = all_policies(stage, &host, script).await?;
        let name = script.t1.name();
        let id = format!("{}-as-t1", name.to_lowercase().replace(' ', "-"));
        stage.add(sections::arrivals(script, &columns, &id, &format!("{name} while three others arrive")))?;
    }
    host.stop().await
}

pub(super) async fn table_1(stage: &mut Stage) -> Result<()> {
    let suite = Actor::suite(&stage.options)?;
    let script = crowd_script(stage, &suite);
    stage.will_take(time_of(stage, &script));
    let host = rowhouse(stage).await?;
    load(stage, &host, &suite).await?;
    let columns = all_policies(stage, &host, &script).await?;
    host.stop().await?;
    stage.add(sections::crowd(&script, &columns))
}

/// Figure 5 and table 1 on PostgreSQL, plain and with a control group for each database.
pub(super) async fn postgres(stage: &mut Stage) -> Result<()> {
    let suite = Actor::suite(&stage.options)?;
    let scripts = [figure_script(stage, &suite, 0), crowd_script(stage, &suite)];
    let one: std::time::Duration = scripts.iter().map(Script::length).sum();
    let alone_time: std::time::Duration = scripts.iter().map(|script| script.alone().length()).sum();
    stage.will_take((one * 2 + alone_time) * stage.options.repetitions as u32);
    let mut found: [Vec<Column>; 2] = [Vec::new(), Vec::new()];
    let mut notes = Vec::new();
    for with_groups in [false, true] {
        let host = match Host::postgres(stage, POSTGRES_MEMORY, with_groups).await {
            Ok(host) => host,
            // A machine without control groups still has the plain server to show.
            Err(error) if with_groups => {
                notes.push(format!("Control groups could not be had, so that part is missing: {error}."));
                break;
            }
            Err(error) => return Err(error),
        };
        let label = host.label().await?;
        stage.note_setting(if with_groups { "PostgreSQL, caged" } else { "PostgreSQL" }, &label);
        load(stage, &host, &suite).await?;
        for (script, columns) in scripts.iter().zip(&mut found) {
            let (policy, given) = if with_groups {
                (Policy::Reservations, promises(Policy::Reservations))
            } else {
                (Policy::BestEffort, promises(Policy::BestEffort))
            };
            let mut runs: Vec<Performance> = Vec::new();
            let mut alone_runs: Vec<Performance> = Vec::new();
            for _ in 0..stage.options.repetitions {
                runs.push(script.run(stage, &host, policy, given).await?);
                if with_groups {
                    alone_runs.push(script.alone().run(stage, &host, policy, alone()).await?);
                }
            }
            let name = if with_groups { "a control group each" } else { "plain" };
            columns.push(Column { name: name.into(), runs });
            if with_groups {
                columns.push(Column { name: "alone in its group".into(), runs: alone_runs });
            }
        }
        host.stop().await?;
    }
    let [arrivals, crowd] = found;
    let mut section = Section {
        id: "postgres".into(),
        title: "PostgreSQL beside it".into(),
        text: format!(
            "The same neighbours in databases of one PostgreSQL server on the same core, {POSTGRES_MEMORY} of shared buffers, durable \
             at commit: plain, and with a control group for each database. There a reservation is a weight that comes to as much \
             of the processor beside all neighbours, a limit is a quota of each 10 ms, and I/O is limited on the \
             device; shared buffers belong to all and have no limit for one. No demand is made of it."
        ),
        notes,
        ..Section::default()
    };
    section.plots.extend(sections::throughput_plot(
        &scripts[0],
        &arrivals,
        "T1's transactions a second as in figure 5",
    ));
    section.tables.push(sections::throughput_table("As figure 5", &arrivals, None));
    section.tables.push(sections::throughput_table("As table 1", &crowd, None));
    section.tables.extend(sections::latency_table(&crowd, false));
    stage.add(section)
}
