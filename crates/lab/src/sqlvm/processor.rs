//! Half a worker promised to one tenant, against 24 that are promised nothing.

use std::time::Duration;

use workloads::cpuio::Cpuio;
use workloads::load::Pace;

use super::actors::{Actor, Part};
use super::host::{Host, Promise};
use super::stage::Stage;
use crate::Result;
use crate::report::{Level, Mark, Plot, Section, Series, Table, Verdict, figure, percent};
use crate::stats;
use crate::world::clock;
use crate::world::sampler::{Counts, Samples};

const NEIGHBOURS: usize = 24;
/// Numbers of neighbours that are gone through, one after the other.
const STEPS: [usize; 3] = [1, 6, NEIGHBOURS];
const PROMISED: f64 = 0.5;
/// Of the worker, at least, while half of it is promised and wanted.
const FLOOR: f64 = 0.49;
/// Less of the worker in use, and there was nothing to share.
const BUSY: f64 = 0.95;
const CLIENTS: usize = 2;
/// Of each step.
const SECONDS: f64 = 30.0;
/// From an arrival to what is measured.
const SETTLE: Duration = Duration::from_millis(1500);

/// One step of one round.
struct Measured {
    share: f64,
    /// Of the processor time that it was owed, what it missed by the ledger's sums.
    missed: f64,
    busy: f64,
}

/// A round: all steps, with or without the promise.
struct Round {
    steps: Vec<Measured>,
    /// The tenant's cores, second by second, and when neighbours came.
    series: Vec<f64>,
    marks: Vec<Mark>,
    /// Why clients ended early, if some did.
    failure: Option<String>,
}

pub(super) async fn part(stage: &mut Stage) -> Result<()> {
    let time = stage.options.time(SECONDS);
    let repetitions = stage.options.repetitions;
    stage.will_take((time + SETTLE) * (2 * repetitions * STEPS.len()) as u32);
    let host = Host::rowhouse(stage, &[]).await?;
    stage.note_setting("Versions", host.label().await?);
    let table = Cpuio { rows: 10_000, ..Actor::cpuio("cpu=1")? };
    let actor = Actor::Cpuio(table);
    host.load(stage, &actor).await?;
    let names: Vec<String> = (0..=NEIGHBOURS).map(|number| format!("t{}", number + 1)).collect();
    for name in &names {
        host.copy(name, actor.template()).await?;
    }
    let (mut kept, mut plain) = (Vec::new(), Vec::new());
    for repetition in 1..=repetitions {
        for (promised, rounds) in [(Some(PROMISED), &mut kept), (None, &mut plain)] {
            let word = promised.map_or("nothing".to_owned(), |cores| cores.to_string());
            stage.say(&format!("{word} promised, round {repetition} of {repetitions}"));
            host.promise(&names[0], Promise { cpu: promised, ..Promise::default() }, NEIGHBOURS).await?;
            rounds.push(round(stage, &host, &actor, &names, time).await?);
        }
    }
    host.stop().await?;
    stage.add(section(&actor, &kept, &plain))
}

async fn round(stage: &Stage, host: &Host, actor: &Actor, names: &[String], time: Duration) -> Result<Round> {
    let seed = stage.options.seed;
    let part = |number: usize| Part::endless(CLIENTS, Pace::Closed, seed.wrapping_add(number as u64));
    let sampler = host.sampler(names).await?;
    let began_us = clock::now_us();
    let mut acting = vec![actor.act(&host.url(&names[0]), part(0))?];
    let (mut within, mut marks) = (Vec::new(), Vec::new());
    for step in STEPS {
        while acting.len() <= step {
            let number = acting.len();
            acting.push(actor.act(&host.url(&names[number]), part(number))?);
        }
        for tenant in &mut acting {
            tenant.at_work().await?;
        }
        let x = (clock::now_us() - began_us) as f64 / 1e6;
        marks.push(Mark { x, name: format!("{step} neighbour{}", if step == 1 { "" } else { "s" }) });
        tokio::time::sleep(SETTLE).await;
        let from = clock::now_us();
        stage.pass(time).await;
        within.push((from, clock::now_us()));
    }
    let samples: Samples = sampler.finish();
    let rate =
        |from, to, value: fn(&Counts) -> f64| samples.tenant_rate(&names[0], from, to, value).unwrap_or(0.0);
    let steps = within.iter().map(|(from, to)| Measured {
        share: rate(*from, *to, |counts| counts.cpu_seconds),
        missed: stats::share(
            rate(*from, *to, |counts| counts.cpu_missed_seconds),
            rate(*from, *to, |counts| counts.cpu_demanded_seconds),
        ),
        busy: samples.rate(*from, *to, |sample| sample.server_cpu_seconds).unwrap_or(0.0),
    });
    let (steps, ended_us) = (steps.collect(), clock::now_us());
    let mut failure = None;
    for (name, tenant) in names.iter().zip(acting) {
        let why = tenant.failure().await;
        failure = failure.or(why.map(|why| format!("clients of {name} ended early: {why}")));
    }
    Ok(Round {
        steps,
        series: samples.tenant_series(&names[0], began_us, ended_us, |counts| counts.cpu_seconds),
        marks,
        failure,
    })
}

fn section(actor: &Actor, kept: &[Round], plain: &[Round]) -> Section {
    let mut table = Table::new(
        "The tenant's part of the worker",
        &[
            "neighbours",
            "with 0.5 promised",
            "missed of what was owed",
            "with nothing promised",
            "the server's processor",
            "the paper",
        ],
    );
    let failure = kept.iter().find_map(|round| round.failure.as_deref());
    let mut verdicts = Vec::new();
    for (index, step) in STEPS.iter().enumerate() {
        let of = |rounds: &[Round]| rounds.iter().map(|round| round.steps[index].share).collect::<Vec<_>>();
        let (with, without) = (stats::summary(&of(kept)), stats::summary(&of(plain)));
        let busy = kept.iter().map(|round| round.steps[index].busy).fold(f64::INFINITY, f64::min);
        let paper = if *step == NEIGHBOURS { "0.495" } else { "" };
        let range = |found: &stats::Summary| match found.count {
            1 => figure(found.median),
            _ => format!("{} ({} to {})", figure(found.median), figure(found.least), figure(found.most)),
        };
        let idle = format!("the server used {} of its core", percent(busy, false));
        verdicts.push(
            Verdict::of(
                format!("{step} neighbours: at least {FLOOR} of the worker with {PROMISED} promised"),
                range(&with),
                with.median >= FLOOR,
            )
            .unless(failure.or((busy < BUSY).then_some(&idle)))
            .beside(paper),
        );
        let beside = if paper.is_empty() { "–" } else { paper };
        let missed = kept.iter().map(|round| round.steps[index].missed).fold(0.0, f64::max);
        table.row(vec![
            step.to_string(),
            range(&with),
            percent(missed, false),
            range(&without),
            percent(busy, false),
            beside.into(),
        ]);
    }
    let series = |name: &str, rounds: &[Round]| Series {
        name: name.into(),
        x_first: 1.0,
        x_step: 1.0,
        values: rounds.first().map(|round| round.series.clone()).unwrap_or_default(),
    };
    let longest = kept.first().map_or(0, |round| round.series.len());
    Section {
        id: "cpu".into(),
        title: "Half a worker against 24 tenants".into(),
        text: format!(
            "CPUIO's computations only ({}), {CLIENTS} clients a tenant in closed loops. One tenant is promised half of the one \
             worker, up to {NEIGHBOURS} others nothing. What is spare is shared by all, the promised tenant included, so it may have \
             more than its half. Medians of the repetitions.",
            actor.setting()
        ),
        verdicts,
        plots: vec![Plot {
            title: "The tenant's part of the worker, first repetition".into(),
            x_label: "seconds".into(),
            y_label: "cores".into(),
            series: vec![series("0.5 promised", kept), series("nothing promised", plain)],
            promised: vec![Level { name: "promised".into(), y: PROMISED, x_from: 0.0, x_to: longest as f64 }],
            marks: kept.first().map(|round| round.marks.clone()).unwrap_or_default(),
            smoothed_over: 1,
        }],
        tables: vec![table],
        notes: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Outcome;

    #[test]
    fn a_round_whose_clients_ended_early_shows_nothing() {
        let round = |failure: Option<&str>| Round {
            steps: STEPS.iter().map(|_| Measured { share: 0.5, missed: 0.0, busy: 1.0 }).collect(),
            series: Vec::new(),
            marks: Vec::new(),
            failure: failure.map(str::to_owned),
        };
        let actor = Actor::Cpuio(Actor::cpuio("cpu=1").expect("a mix"));
        let outcomes = |kept: &[Round]| {
            let section = section(&actor, kept, &[round(None)]);
            section.verdicts.iter().map(|verdict| verdict.outcome).collect::<Vec<_>>()
        };
        assert_eq!(outcomes(&[round(None), round(None)]), [Outcome::Met; 3]);
        assert_eq!(outcomes(&[round(None), round(Some("clients of t9 ended early"))]), [Outcome::Void; 3]);
    }
}
