//! What keeping promises costs one tenant that has the server to itself: its processor time a transaction, against keeping none.

use std::time::Duration;

use workloads::load::Pace;
use workloads::tpcc::{self, Tpcc};

use super::interleaved::{self, Interleaved};
use crate::Result;
use crate::report::{Plot, Section, Table};
use crate::sqlvm::actors::{Actor, Part};
use crate::sqlvm::host::{Host, Policy, Promise};
use crate::sqlvm::stage::Stage;

const T1: &str = "t1";
const SERVER_MEMORY: &str = "8GiB";
/// Clients of TPC-C, in closed loops.
const CLIENTS: usize = 8;
/// Of `pgbench -S`, and what they think: a look-up costs the load, which is one thread, at least as much as the server, so that in closed loops
/// the load would be what is measured.
const READERS: usize = 32;
const READERS_THINK: Duration = Duration::from_millis(1);
/// What is in force: nothing, then what every server has, then all there is to keep.
const RULES: [&str; 3] =
    ["policy best_effort", "policy reservations, nothing promised", "policy reservations, promised"];

fn promised() -> Promise {
    Promise {
        cpu: Some(0.5),
        iops: Some(200),
        memory_mib: Some(2048),
        work_memory_mib: Some(64),
        ..Promise::default()
    }
}

async fn put_in_force(host: &Host, rule: usize) -> Result<()> {
    host.policy(if rule == 0 { Policy::BestEffort } else { Policy::Reservations }).await?;
    host.promise(T1, if rule == 2 { promised() } else { Promise::default() }, 0).await
}

pub(in crate::sqlvm) async fn part(stage: &mut Stage) -> Result<()> {
    let scale = (stage.options.population_factor * 10.0).ceil() as u32;
    let tpcc =
        Tpcc { scale: tpcc::Scale::new(10, stage.options.population_factor.min(1.0))?, foreign_keys: false };
    let actors = [
        (Actor::Tpcc(tpcc), CLIENTS, Pace::Closed),
        (Actor::select_only(scale), READERS, Pace::Think(READERS_THINK)),
    ];
    stage.will_take(interleaved::length(stage, RULES.len()) * actors.len() as u32);
    let mut found = Vec::new();
    for (actor, clients, pace) in actors {
        let host = Host::rowhouse(stage, &["--memory", SERVER_MEMORY]).await?;
        stage.note_setting("Versions", host.label().await?);
        host.create(T1).await?;
        actor.load(stage, &host.url(T1)).await?;
        host.quiet(stage).await?;
        let mut acting = actor.act(&host.url(T1), Part::endless(clients, pace, stage.options.seed))?;
        acting.at_work().await?;
        let measured =
            interleaved::measure(stage, &host, &acting, &RULES, async |rule| put_in_force(&host, rule).await);
        found.push((actor, measured.await?));
        if let Some(why) = acting.failure().await {
            return Err(format!("{}: {why}", actor.name()).into());
        }
        host.stop().await?;
    }
    stage.add(section(&found))
}

fn section(found: &[(Actor, Interleaved)]) -> Section {
    let mut table = Table::new(
        "Medians of the rounds",
        &[
            "",
            "in force",
            "µs of the server's processor a transaction",
            "against best_effort (least to most)",
            "transactions a second",
            "cores",
        ],
    );
    let mut verdicts = Vec::new();
    for (actor, interleaved) in found {
        for (rule, name) in RULES.iter().enumerate() {
            let mut row = vec![actor.name().to_owned(), (*name).to_owned()];
            row.extend(interleaved.cells(rule));
            table.row(row);
        }
        verdicts.extend((1..RULES.len()).map(|rule| interleaved.verdict(rule, actor.name())));
    }
    let settings: Vec<String> =
        found.iter().map(|(actor, _)| format!("{} ({})", actor.name(), actor.setting())).collect();
    Section {
        id: "governor".into(),
        title: "Cost of keeping promises".into(),
        text: format!(
            "One tenant: {}; TPC-C with {CLIENTS} clients in closed loops, pgbench -S with {READERS} that think for a millisecond, so that the load \
             has time left. Under best_effort nothing is promised and nothing kept; under \
             reservations once nothing and once {}. In turn, in short windows while the clients go on; a window is held against \
             the mean of those of best_effort before and after it. Processor time is all of the server's process, so what its own threads do is in it.",
            settings.join(", "),
            promised().options()
        ),
        verdicts,
        plots: found
            .iter()
            .map(|(actor, interleaved)| Plot {
                title: format!("{}: the server's processor time a transaction", actor.name()),
                x_label: "round".into(),
                y_label: "µs".into(),
                series: interleaved.series(),
                smoothed_over: 1,
                ..Plot::default()
            })
            .collect(),
        tables: vec![table],
        notes: vec![
            "best_effort schedules by weights and keeps the ledger as every policy does: what that costs is in all three. The simulated cache \
             of promised memory is in the third only."
                .into(),
        ],
    }
}
