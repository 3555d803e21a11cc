//! Buffer memory: a tenant's reads beside a neighbour that scans, against those with what it was promised to itself.

use super::pages::{LOOK_UP_ROWS, Pages, READER, SCANNER};
use crate::Result;
use crate::report::{Plot, Section, Series, Table, Verdict, figure, percent};
use crate::sqlvm::host::{LEDGER_WAIT, Promise};
use crate::sqlvm::stage::Stage;
use crate::stats;
use crate::world::{clock, ledger};

/// The reader's table, of its promised memory: so much that it reads even with all of that to itself.
const TABLE: f64 = 1.5;
const WARM_UP_SECONDS: f64 = 60.0;
const SECONDS: f64 = 120.0;
/// Reads beyond the baseline, of it.
const EXTRA_MAX: f64 = 0.05;
/// Fewer are too few to be compared.
const READS_MIN: f64 = 1_000.0;
/// Without a promise the scanner has to cost the reader that much, of the baseline, or it is no test of the promise.
const HARM_MIN: f64 = 0.2;

/// Under which the reader works.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    /// By itself, with its promise as its limit: the baseline.
    Alone,
    Promised,
    Unpromised,
}

const WAYS: [Way; 3] = [Way::Alone, Way::Promised, Way::Unpromised];

impl Way {
    fn name(self) -> &'static str {
        match self {
            Way::Alone => "alone, its promise as its limit",
            Way::Promised => "beside the scanner, promised",
            Way::Unpromised => "beside the scanner, nothing promised",
        }
    }

    fn promise(self, pages: &Pages) -> Promise {
        match self {
            Way::Alone => Promise { memory_max_mib: Some(pages.promised_mib), ..pages.promise() },
            Way::Promised => pages.promise(),
            Way::Unpromised => Promise::default(),
        }
    }
}

/// What came of a run.
#[derive(Clone, Debug, Default)]
struct Run {
    look_ups: f64,
    reads: f64,
    /// Page I/Os beyond the baseline, by the ledger; `None` without a row of it.
    missed: Option<f64>,
    resident_mib: f64,
    /// Pages a second that the scanner read.
    scanned: f64,
    /// Reads a look-up, second by second.
    per_second: Vec<f64>,
    /// Why it was not what it is called, if clients ended early.
    ended: Option<String>,
}

impl Run {
    fn reads_per_look_up(&self) -> f64 {
        stats::share(self.reads, self.look_ups)
    }
}

pub(in crate::sqlvm) async fn part(stage: &mut Stage) -> Result<()> {
    let (warm_up, time) = (stage.options.time(WARM_UP_SECONDS), stage.options.time(SECONDS));
    let repetitions = stage.options.repetitions;
    stage.will_take((warm_up + time) * (WAYS.len() * repetitions) as u32);
    let pages = Pages::ready(stage, TABLE).await?;
    let mut runs: [Vec<Run>; 3] = Default::default();
    for _ in 0..repetitions {
        for (runs, way) in runs.iter_mut().zip(WAYS) {
            runs.push(run(stage, &pages, way).await?);
        }
    }
    let section = section(&pages, time.as_secs_f64(), &runs);
    pages.host.stop().await?;
    stage.add(section)
}

async fn run(stage: &Stage, pages: &Pages, way: Way) -> Result<Run> {
    let host = &pages.host;
    host.promise(READER, way.promise(pages), 1).await?;
    for name in [READER, SCANNER] {
        host.evict(name).await?;
    }
    host.quiet(stage).await?;
    stage.say(way.name());
    let sampler = pages.sampler().await?;
    let scanner = if way == Way::Alone { None } else { Some(pages.scan(stage, &sampler).await?) };
    let reader = pages.read(stage, &sampler).await?;
    stage.pass(stage.options.time(WARM_UP_SECONDS)).await;
    let from = clock::now_us();
    stage.pass(stage.options.time(SECONDS)).await;
    let to = clock::now_us();
    tokio::time::sleep(LEDGER_WAIT).await;
    let rows = ledger::rows(&host.admin, "ledger", "memory", from, to).await?;
    let samples = sampler.finish();
    let ended = [Pages::ended(READER, Some(reader)).await, Pages::ended(SCANNER, scanner).await];
    let seconds = (to - from) as f64 / 1e6;
    let of = |tenant: &str, value: fn(&crate::world::sampler::Counts) -> f64| {
        samples.tenant_rate(tenant, from, to, value).unwrap_or(0.0) * seconds
    };
    let (reads, look_ups) = (
        samples.tenant_series(READER, from, to, |counts| counts.pages_read),
        samples.tenant_series(READER, from, to, |counts| counts.transactions),
    );
    let mut of_reader = rows.iter().filter(|row| row.tenant == READER).peekable();
    let has_rows = of_reader.peek().is_some();
    let missed: f64 = of_reader.map(|row| row.missed).sum();
    Ok(Run {
        look_ups: of(READER, |counts| counts.transactions),
        reads: of(READER, |counts| counts.pages_read),
        missed: has_rows.then_some(missed),
        resident_mib: samples
            .tenant_values(READER, from, to, |counts| counts.resident_bytes)
            .last()
            .map_or(0.0, |(_, bytes)| bytes / 1_048_576.0),
        scanned: of(SCANNER, |counts| counts.pages_read) / seconds,
        per_second: reads
            .iter()
            .zip(&look_ups)
            .map(|(reads, look_ups)| stats::share(*reads, *look_ups))
            .collect(),
        ended: ended.into_iter().flatten().next(),
    })
}

/// Medians over the repetitions.
fn median(runs: &[Run], value: impl Fn(&Run) -> f64) -> f64 {
    stats::median(&runs.iter().map(value).collect::<Vec<_>>())
}

/// Why the runs say nothing of the promise, if they do not.
fn says_nothing(runs: &[Vec<Run>; 3]) -> Option<String> {
    let [alone, promised, unpromised] = runs;
    if let Some(why) = runs.iter().flatten().find_map(|run| run.ended.clone()) {
        return Some(why);
    }
    if alone.iter().any(|run| run.reads < READS_MIN) {
        return Some(format!("alone it read fewer than {READS_MIN} pages"));
    }
    if promised.iter().any(|run| run.look_ups == 0.0 || run.scanned == 0.0) {
        return Some("one of the two did nothing".into());
    }
    let harm = stats::off(median(unpromised, Run::reads_per_look_up), median(alone, Run::reads_per_look_up));
    (harm < HARM_MIN).then(|| {
        format!(
            "without a promise the scanner made it {} reads a look-up: nothing to be kept from",
            percent(harm, true)
        )
    })
}

/// What the ledger says was missed, of the reads that the baseline has for as many look-ups; `None` without a row of it.
fn told(runs: &[Run], baseline: f64) -> Option<f64> {
    let of_run = |run: &Run| run.missed.map(|missed| stats::share(missed, baseline * run.look_ups));
    runs.iter().map(of_run).collect::<Option<Vec<f64>>>().map(|told| stats::median(&told))
}

fn verdicts(runs: &[Vec<Run>; 3]) -> Vec<Verdict> {
    let void = says_nothing(runs);
    let [baseline, promised] = [0, 1].map(|way: usize| median(&runs[way], Run::reads_per_look_up));
    let extra = stats::off(promised, baseline);
    let told = told(&runs[1], baseline);
    let few = told.is_none().then_some("the ledger has too little evidence");
    vec![
        Verdict::of(
            "reads a look-up beside the scanner at most 5 % more than alone",
            format!("{} and {} ({})", figure(promised), figure(baseline), percent(extra, true)),
            extra <= EXTRA_MAX,
        )
        .unless(void.as_deref()),
        Verdict::of(
            "the ledger says so too: missed at most 5 % of the reads alone",
            told.map_or("no row".into(), |told| percent(told, false)),
            told.is_some_and(|told| told <= EXTRA_MAX),
        )
        .unless(void.as_deref().or(few)),
    ]
}

fn section(pages: &Pages, seconds: f64, runs: &[Vec<Run>; 3]) -> Section {
    let baseline = median(&runs[0], Run::reads_per_look_up);
    let mut table = Table::new(
        "T1's reads",
        &[
            "",
            "reads a look-up",
            "look-ups a second",
            "of the baseline",
            "missed, by the ledger",
            "resident MiB",
            "scanned pages a second",
        ],
    );
    for (way, runs) in WAYS.iter().zip(runs) {
        let reads = median(runs, Run::reads_per_look_up);
        table.row(vec![
            way.name().into(),
            figure(reads),
            figure(median(runs, |run| run.look_ups / seconds)),
            percent(stats::off(reads, baseline), true),
            told(runs, baseline).map_or("–".into(), |told| percent(told, false)),
            figure(median(runs, |run| run.resident_mib)),
            figure(median(runs, |run| run.scanned)),
        ]);
    }
    Section {
        id: "buffer".into(),
        title: "Buffer memory beside a scanning neighbour".into(),
        text: format!(
            "T1 looks up {LOOK_UP_ROWS} rows at a time, each on a page of its own, in a table of {TABLE} of its promised {} MiB ({}). Its \
             neighbour, which is promised nothing, scans ranges of a table of four times the server's {} MiB ({}). The baseline is T1 \
             alone with its promise as its limit. Every run begins with empty memory and a warm-up. Medians of the repetitions.",
            pages.promised_mib,
            crate::sqlvm::actors::Actor::Cpuio(pages.reader).setting(),
            pages.server_mib,
            crate::sqlvm::actors::Actor::Cpuio(pages.scanner).setting(),
        ),
        verdicts: verdicts(runs),
        plots: vec![Plot {
            title: "Pages read a look-up, first repetition".into(),
            x_label: "seconds".into(),
            y_label: "pages".into(),
            series: WAYS
                .iter()
                .zip(runs)
                .map(|(way, runs)| Series {
                    name: way.name().into(),
                    x_first: 1.0,
                    x_step: 1.0,
                    values: runs.first().map(|run| run.per_second.clone()).unwrap_or_default(),
                })
                .collect(),
            smoothed_over: 1,
            ..Plot::default()
        }],
        tables: vec![table],
        notes: vec![
            "A read is one from the data file by the storage layer's count, whatever it was for; the ledger's baseline is a simulated \
             cache, which has no part in that count."
                .into(),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Outcome;

    fn runs(alone: f64, promised: f64, unpromised: f64, missed: Option<f64>) -> [Vec<Run>; 3] {
        [alone, promised, unpromised].map(|reads| {
            vec![Run { look_ups: 1000.0, reads: reads * 1000.0, missed, scanned: 1.0, ..Run::default() }]
        })
    }

    fn outcomes(runs: &[Vec<Run>; 3]) -> Vec<Outcome> {
        verdicts(runs).iter().map(|verdict| verdict.outcome).collect()
    }

    #[test]
    fn extra_reads_are_held_against_those_alone() {
        use Outcome::{Met, Missed, Void};
        assert_eq!(outcomes(&runs(3.0, 3.15, 6.0, Some(100.0))), [Met, Met]);
        assert_eq!(outcomes(&runs(3.0, 3.2, 6.0, Some(200.0))), [Missed, Missed]);
        assert_eq!(outcomes(&runs(3.0, 2.0, 6.0, None)), [Met, Void]);
    }

    #[test]
    fn a_scanner_that_harms_nobody_proves_nothing() {
        let void = [Outcome::Void; 2];
        assert_eq!(outcomes(&runs(3.0, 3.0, 3.5, Some(0.0))), void, "17 % are no harm");
        assert_eq!(outcomes(&runs(0.5, 0.5, 6.0, Some(0.0))), void, "500 reads are too few");
        let mut idle = runs(3.0, 3.0, 6.0, Some(0.0));
        idle[1][0].scanned = 0.0;
        assert_eq!(outcomes(&idle), void);
        for way in 0..3 {
            let mut gone = runs(3.0, 3.0, 6.0, Some(0.0));
            gone[way][0].ended = Some("the connection broke".into());
            assert_eq!(outcomes(&gone), void, "the scanner was there for a part of the run");
        }
    }
}
