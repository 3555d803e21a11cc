//! Figure 4: two tenants promised 60 and 20 I/Os a second, exchanged half-way.

use super::actors::Actor;
use super::figure4::{CLIENTS, Got, Readers, Stretch};
use super::host::Host;
use super::stage::Stage;
use crate::Result;
use crate::report::{Level, Mark, Plot, Section, Series, Table, Verdict, figure, percent, spread};
use crate::stats;

/// Of each half, in the paper.
const HALF_SECONDS: f64 = 300.0;
const PROMISED: [u32; 2] = [60, 20];
/// How far a mean may be from its promise.
pub(super) const OFF_MAX: f64 = 0.03;
/// What a mean may lose by being cut at whole intervals.
const CUT_MAX: f64 = 0.005;
/// The volume's limit where tenants have none, so that it is short: what is promised and half as much again.
const VOLUME_IOPS: u32 = 120;
/// The server's memory for pages in MiB; a tenant's table is several times of it.
const MEMORY_MIB: u64 = 32;

fn paper(promised: u32) -> &'static str {
    if promised == 60 { "63 ± 6.9" } else { "20 ± 3.8" }
}

pub(super) async fn figure_4(stage: &mut Stage) -> Result<()> {
    let half = stage.options.time(HALF_SECONDS);
    stage.will_take(half * 4);
    let memory = format!("{}MiB", stage.options.amount(MEMORY_MIB, 8));
    let host = Host::rowhouse(stage, &["--memory", &memory, "--read-ahead", "0"]).await?;
    stage.note_setting("Versions", host.label().await?);
    let table =
        workloads::cpuio::Cpuio { rows: stage.options.amount(700_000, 60_000), ..Actor::cpuio("lookup=1")? };
    let names = ["t1".to_owned(), "t2".to_owned()];
    for name in &names {
        host.create(name).await?;
        Actor::Cpuio(table).load(stage, &host.url(name)).await?;
    }
    let readers = Readers::begin(stage, &host, &names, table).await?;
    let source = if host.has_ledger { "by the ledger" } else { "by the sums of /metrics" };
    let limited = runs(stage, &host, &readers, true).await?;
    let mut section = Section {
        id: "figure-4".into(),
        title: "Figure 4: promised I/Os, exchanged half-way".into(),
        text: format!(
            "Two CPUIO tenants of {}, each with {CLIENTS} clients at random look-ups in closed loops, {memory} of memory for all \
             pages and no read-ahead, so that nearly every row is a read. T1 is promised 60 I/Os a second and T2 20, which is also \
             the most they may have; half-way the promises are exchanged. Given is what was issued in each second, {source}; means \
             are from one second after a change on.",
            Actor::Cpuio(table).setting()
        ),
        ..Section::default()
    };
    describe(&limited, &mut section);
    stage.add(section)?;
    host.admin.batch_execute(&format!("alter volume default set (iops_limit = {VOLUME_IOPS})")).await?;
    let free = runs(stage, &host, &readers, false).await?;
    let mut section = Section {
        id: "figure-4-no-maximum".into(),
        title: "Figure 4 without a maximum".into(),
        text: format!(
            "The same promises of 60 and 20 I/Os a second, without a maximum, on a volume limited to {VOLUME_IOPS}, so that both want \
             more than there is and {} are to be shared beyond what is promised.",
            VOLUME_IOPS - PROMISED[0] - PROMISED[1]
        ),
        ..Section::default()
    };
    describe(&free, &mut section);
    drop(readers);
    host.stop().await?;
    stage.add(section)
}

/// Both halves under the same rules.
struct Run {
    limited: bool,
    series: Vec<Vec<f64>>,
    halves: [Stretch; 2],
    /// Of each half, of each tenant.
    got: Vec<Vec<Got>>,
}

async fn runs(stage: &Stage, host: &Host, readers: &Readers, limited: bool) -> Result<Run> {
    let half = stage.options.time(HALF_SECONDS);
    let with = |promised: [u32; 2]| promised.map(|iops| (iops, limited));
    let how = if limited { "iops = iops_max" } else { "no maximum" };
    stage.say(&format!("60 and 20 I/Os a second promised, {how}"));
    let first = readers.stretch(stage, host, &with(PROMISED), half).await?;
    stage.say(&format!("exchanged, {how}"));
    let second = readers.stretch(stage, host, &with([PROMISED[1], PROMISED[0]]), half).await?;
    let halves = [first, second];
    let (series, got) = readers.results(host, first.began_us, &halves).await?;
    Ok(Run { limited, series, halves, got })
}

fn describe(run: &Run, section: &mut Section) {
    let how = if run.limited { "iops = iops_max" } else { "no maximum" };
    let mut table = Table::new(
        &format!("I/Os a second, {how}"),
        &[
            "stretch",
            "promised",
            "mean ± deviation",
            "off",
            "least to most",
            "asked for, of the promise",
            "missed",
            "the paper",
        ],
    );
    let seconds = |us: u64| (us - run.halves[0].began_us) as f64 / 1e6;
    let mut promised_lines = Vec::new();
    for (half, (stretch, got)) in run.halves.iter().zip(&run.got).enumerate() {
        for (tenant, got) in got.iter().enumerate() {
            let promised = PROMISED[(tenant + half) % 2];
            let (mean, off) = (got.per_second.mean, stats::off(got.per_second.mean, f64::from(promised)));
            let what = format!("T{} {}", tenant + 1, if half == 0 { "before" } else { "after" });
            let (demand, holds) = if run.limited {
                (format!("{what}: mean within 3 % of {promised}"), off.abs() <= OFF_MAX)
            } else {
                (
                    format!("{what}, no maximum: mean at least {promised}"),
                    mean >= f64::from(promised) * (1.0 - CUT_MAX),
                )
            };
            let measured = format!("{} ({})", spread(&got.per_second), percent(off, true));
            let verdict = Verdict::of(demand, measured, holds).unless(got.says_nothing(promised).as_deref());
            let beside = if run.limited { paper(promised) } else { "" };
            section.verdicts.push(verdict.beside(beside));
            table.row(vec![
                what,
                promised.to_string(),
                spread(&got.per_second),
                percent(off, true),
                format!("{} to {}", figure(got.per_second.least), figure(got.per_second.most)),
                figure(got.demanded),
                figure(got.missed),
                if beside.is_empty() { "–".into() } else { beside.into() },
            ]);
            promised_lines.push(Level {
                name: "promised".into(),
                y: f64::from(promised),
                x_from: seconds(stretch.began_us),
                x_to: seconds(stretch.ended_us),
            });
        }
    }
    let named = run.series.iter().zip(["T1", "T2"]);
    section.plots.push(Plot {
        title: format!("I/Os a second of both tenants, {how}"),
        x_label: "seconds".into(),
        y_label: "I/Os a second".into(),
        series: named
            .map(|(values, name)| Series {
                name: name.into(),
                x_first: 1.0,
                x_step: 1.0,
                values: values.clone(),
            })
            .collect(),
        promised: promised_lines,
        marks: vec![Mark { x: seconds(run.halves[1].began_us), name: "promises exchanged".into() }],
        smoothed_over: 1,
    });
    section.tables.push(table);
}
