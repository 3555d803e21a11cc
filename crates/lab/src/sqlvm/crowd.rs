//! Figure 4 with more tenants: 2, 4, … 32 of them, each with a promise of its own.

use workloads::cpuio::Cpuio;

use super::actors::Actor;
use super::figure4::{CLIENTS, Readers};
use super::host::Host;
use super::reservations::OFF_MAX;
use super::stage::Stage;
use crate::Result;
use crate::report::{Plot, Section, Series, Table, Verdict, figure, percent};
use crate::stats;

const COUNTS: [usize; 5] = [2, 4, 8, 16, 32];
const PROMISED: u32 = 10;
/// Of each number of tenants.
const SECONDS: f64 = 60.0;

pub(super) async fn part(stage: &mut Stage) -> Result<()> {
    let time = stage.options.time(SECONDS);
    stage.will_take(time * COUNTS.len() as u32);
    let memory = format!("{}MiB", stage.options.amount(16, 8));
    let host = Host::rowhouse(stage, &["--memory", &memory, "--read-ahead", "0"]).await?;
    stage.note_setting("Versions", host.label().await?);
    let table = Cpuio { rows: stage.options.amount(80_000, 20_000), ..Actor::cpuio("lookup=1")? };
    let actor = Actor::Cpuio(table);
    host.load(stage, &actor).await?;
    let mut rows = Table::new(
        &format!("{PROMISED} I/Os a second promised to each, which is also the most"),
        &[
            "tenants",
            "mean of all",
            "least mean",
            "most mean",
            "farthest off",
            "deviation within a tenant",
            "missed a second at most",
        ],
    );
    let (mut verdicts, mut means) = (Vec::new(), Vec::new());
    for count in COUNTS {
        stage.say(&format!("{count} tenants"));
        let names: Vec<String> = (1..=count).map(|number| format!("t{number}")).collect();
        for name in &names {
            host.copy(name, actor.template()).await?;
        }
        let readers = Readers::begin(stage, &host, &names, table).await?;
        let stretch = readers.stretch(stage, &host, &vec![(PROMISED, true); count], time).await?;
        let (_, got) = readers.results(&host, stretch.began_us, &[stretch]).await?;
        let got = &got[0];
        let all = stats::summary(&got.iter().map(|got| got.per_second.mean).collect::<Vec<_>>());
        let off = |mean| stats::off(mean, f64::from(PROMISED));
        let farthest =
            if off(all.most).abs() > off(all.least).abs() { off(all.most) } else { off(all.least) };
        let deviation = got.iter().map(|got| got.per_second.deviation).fold(0.0, f64::max);
        let missed = got.iter().map(|got| got.missed).fold(0.0, f64::max);
        rows.row(vec![
            count.to_string(),
            figure(all.mean),
            figure(all.least),
            figure(all.most),
            percent(farthest, true),
            format!("at most {}", figure(deviation)),
            figure(missed),
        ]);
        let silent = got.iter().find_map(|got| got.says_nothing(PROMISED));
        let measured = format!("{} to {}", figure(all.least), figure(all.most));
        let demand = format!("{count} tenants: each mean within 3 % of {PROMISED}");
        verdicts.push(Verdict::of(demand, measured, farthest.abs() <= OFF_MAX).unless(silent.as_deref()));
        means.push(Series {
            name: format!("{count} tenants"),
            x_first: 1.0,
            x_step: 1.0,
            values: got.iter().map(|got| got.per_second.mean).collect(),
        });
    }
    host.stop().await?;
    stage.add(Section {
        id: "tenants".into(),
        title: "2 to 32 tenants".into(),
        text: format!(
            "As figure 4, with more tenants on one worker: each reads in a table of its own ({}), {CLIENTS} clients each, {memory} of memory for \
             all. The paper \
             says that promises are met with more tenants too, without numbers.",
            actor.setting()
        ),
        verdicts,
        plots: vec![Plot {
            title: "Mean I/Os a second of each tenant".into(),
            x_label: "tenant".into(),
            y_label: "I/Os a second".into(),
            series: means,
            promised: vec![crate::report::Level {
                name: "promised".into(),
                y: f64::from(PROMISED),
                x_from: 0.0,
                x_to: COUNTS[COUNTS.len() - 1] as f64,
            }],
            ..Plot::default()
        }],
        tables: vec![rows],
        notes: Vec::new(),
    })
}
