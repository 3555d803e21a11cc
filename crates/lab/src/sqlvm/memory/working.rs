//! Working memory: what a tenant's sorts and hashes put aside beside eight neighbours that sort, against what they do with their
//! promise to themselves.

use std::time::Duration;

use workloads::cpuio::Cpuio;
use workloads::target::Target;

use crate::Result;
use crate::report::{Section, Table, Verdict, figure};
use crate::sqlvm::actors::Actor;
use crate::sqlvm::careless::{Careless, Ended};
use crate::sqlvm::host::{Host, LEDGER_WAIT, Promise};
use crate::sqlvm::stage::Stage;
use crate::world::{clock, ledger};

const T1: &str = "t1";
const NEIGHBOURS: usize = 8;
/// Promised to T1, and the server's. Every tenant at work is assured 16 MiB, promised or not, so sizes are the same whatever the
/// population: smaller ones would test nothing.
const PROMISED_MIB: u64 = 96;
const SERVER_MEMORY: &str = "192MiB";
/// Rows of 400 bytes of the table, which no operator can hold in what is promised.
const ROWS: u64 = 300_000;
/// Of each statement, at least; and at least so many of them.
const SECONDS: f64 = 30.0;
const STATEMENTS_MIN: u64 = 3;
/// Spilled beyond the baseline, of it, for cutting what is put aside at other places.
const CUT_MAX: f64 = 0.01;
/// Without a promise neighbours have to make T1 spill that much a statement which spills nothing alone, or they are no test.
const HARM_BYTES_MIN: f64 = 1_048_576.0;
/// Until neighbours have taken what there is.
const SETTLE: Duration = Duration::from_secs(5);

/// A statement that needs working memory.
#[derive(Clone, Copy, Debug)]
struct Kind {
    name: &'static str,
    rows: u64,
    /// Whether so many rows fit into what is promised, and not into what everybody has.
    fits: bool,
}

const KINDS: [Kind; 6] = [
    Kind { name: "sort", rows: 75_000, fits: true },
    Kind { name: "aggregate", rows: 130_000, fits: true },
    Kind { name: "join", rows: 90_000, fits: true },
    Kind { name: "sort", rows: ROWS, fits: false },
    Kind { name: "aggregate", rows: ROWS, fits: false },
    Kind { name: "join", rows: ROWS, fits: false },
];

impl Kind {
    fn label(&self) -> String {
        let word = if self.fits { "fits" } else { "does not fit" };
        format!("{} of {} rows, which {word}", self.name, self.rows)
    }

    fn sql(&self) -> String {
        let rows = self.rows;
        match self.name {
            "sort" => sort(rows),
            "aggregate" => format!(
                "select count(*) from (select filler, count(*) c from cpuio where id <= {rows} group by filler) s"
            ),
            _ => format!(
                "select count(*) from cpuio a join cpuio b on a.filler = b.filler where a.id <= {rows} and b.id <= {rows}"
            ),
        }
    }
}

/// A sort of so many rows, all columns of which it has to keep.
fn sort(rows: u64) -> String {
    format!(
        "select max(r) from (select row_number() over (order by filler, id) r from cpuio where id <= {rows}) s"
    )
}

/// Under which T1 works.
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
            Way::Promised => "beside eight sorters, promised",
            Way::Unpromised => "beside eight sorters, nothing promised",
        }
    }

    fn promise(self) -> Promise {
        // Half a core in every case, so that no statement takes an hour.
        let cpu = Promise { cpu: Some(0.5), ..Promise::default() };
        match self {
            Way::Alone => Promise {
                work_memory_mib: Some(PROMISED_MIB),
                work_memory_max_mib: Some(PROMISED_MIB),
                ..cpu
            },
            Way::Promised => Promise { work_memory_mib: Some(PROMISED_MIB), ..cpu },
            Way::Unpromised => cpu,
        }
    }
}

/// What came of one kind of statement.
#[derive(Clone, Copy, Debug, Default)]
struct Spilled {
    statements: u64,
    /// Bytes written and read again, by the account of T1's I/Os, which has nothing else to do.
    bytes: f64,
    /// I/Os spilled beyond the promise, by the ledger.
    missed: f64,
}

impl Spilled {
    fn bytes_per_statement(&self) -> f64 {
        self.bytes / self.statements.max(1) as f64
    }

    fn missed_per_statement(&self) -> f64 {
        self.missed / self.statements.max(1) as f64
    }
}

pub(in crate::sqlvm) async fn part(stage: &mut Stage) -> Result<()> {
    let time = stage.options.time(SECONDS);
    stage.will_take((time * KINDS.len() as u32 + SETTLE) * WAYS.len() as u32);
    let host = Host::rowhouse(stage, &["--work-memory", SERVER_MEMORY]).await?;
    host.need_ledger("working memory")?;
    stage.note_setting("Versions", host.label().await?);
    let actor = Actor::Cpuio(Cpuio { rows: ROWS, ..Actor::cpuio("scan=1")? });
    host.load(stage, &actor).await?;
    let neighbours: Vec<String> = (1..=NEIGHBOURS).map(|number| format!("sorter{number}")).collect();
    for name in neighbours.iter().map(String::as_str).chain([T1]) {
        host.copy(name, actor.template()).await?;
    }
    // T1's pages are read into memory, so that nothing but spills is left to be charged to it.
    client(&host).await?.batch_execute("select count(filler) from cpuio").await?;
    let mut found: [Vec<Spilled>; 3] = Default::default();
    let mut sorted = Vec::new();
    for (found, way) in found.iter_mut().zip(WAYS) {
        host.promise(T1, way.promise(), NEIGHBOURS).await?;
        host.quiet(stage).await?;
        let mut sorters: Vec<Careless> = Vec::new();
        if way != Way::Alone {
            for name in &neighbours {
                let mut sorter = Careless::default();
                sorter.add_statements(&host.url(name), &[&sort(ROWS)]);
                sorters.push(sorter);
            }
            stage.say("sorters take what there is");
            stage.pass(SETTLE).await;
        }
        for kind in &KINDS {
            stage.say(&format!("{}: {}", way.name(), kind.label()));
            found.push(measure(stage, &host, kind, time).await?);
        }
        sorted.push(sorters.iter().map(Careless::ended).collect::<Vec<_>>());
    }
    host.stop().await?;
    let mut section = section(&actor, &found);
    for (way, sorted) in WAYS.iter().zip(&sorted).skip(1) {
        let words: Vec<String> = sorted.iter().map(Ended::words).collect();
        section.notes.push(format!("Sorts of the neighbours, {}: {}.", way.name(), words.join("; ")));
    }
    stage.add(section)
}

async fn client(host: &Host) -> Result<tokio_postgres::Client> {
    Target::new(&host.url(T1), None)?.connect(0).await
}

/// Runs a statement again and again, and says what was put aside for it.
async fn measure(stage: &Stage, host: &Host, kind: &Kind, time: Duration) -> Result<Spilled> {
    let client = client(host).await?;
    let sql = kind.sql();
    // What was counted until now has to be on the account, and what is counted now, too.
    tokio::time::sleep(LEDGER_WAIT).await;
    let (before, from) = (host.metrics().await?.of(T1, "io_bytes_total"), clock::now_us());
    let until = tokio::time::Instant::now() + time;
    let mut statements = 0;
    while statements < STATEMENTS_MIN || tokio::time::Instant::now() < until {
        client
            .batch_execute(&sql)
            .await
            .map_err(|error| format!("the {}: {}", kind.label(), crate::explain(&error.into())))?;
        statements += 1;
    }
    stage.pass(LEDGER_WAIT).await;
    let rows = ledger::rows(&host.admin, "ledger", "work_memory", from, clock::now_us()).await?;
    Ok(Spilled {
        statements,
        bytes: host.metrics().await?.of(T1, "io_bytes_total") - before,
        missed: rows.iter().filter(|row| row.tenant == T1).map(|row| row.missed).sum(),
    })
}

/// Why a kind's runs say nothing of the promise, if they do not. Neighbours' harm is looked for in what spills nothing alone: the
/// rest spills all there is in any case.
fn says_nothing(found: &[Vec<Spilled>; 3], kind: usize) -> Option<String> {
    let [alone, _, unpromised] = [0, 1, 2].map(|way: usize| found[way][kind].bytes_per_statement());
    if KINDS[kind].fits && alone > 0.0 {
        return Some("it spills alone: it does not fit".into());
    }
    if !KINDS[kind].fits && alone == 0.0 {
        return Some("it spills nothing alone: it fits".into());
    }
    (KINDS[kind].fits && unpromised < HARM_BYTES_MIN)
        .then(|| "without a promise the sorters did not make it spill: nothing to be kept from".into())
}

fn verdicts(found: &[Vec<Spilled>; 3]) -> Vec<Verdict> {
    let of_kind = |(number, kind): (usize, &Kind)| {
        let [alone, promised] = [0, 1].map(|way: usize| found[way][number].bytes_per_statement());
        let void = says_nothing(found, number);
        let spill = Verdict::of(
            format!("{}: spilled beside the sorters at most what it spills alone", kind.label()),
            format!("{} and {} MB a statement", figure(promised / 1e6), figure(alone / 1e6)),
            promised <= alone * (1.0 + CUT_MAX),
        );
        spill.unless(void.as_deref())
    };
    let mut verdicts: Vec<Verdict> = KINDS.iter().enumerate().map(of_kind).collect();
    let beyond = |kind: usize| found[1][kind].missed_per_statement() - found[0][kind].missed_per_statement();
    let missed: Vec<String> = (0..KINDS.len())
        .filter(|kind| beyond(*kind) > 0.0)
        .map(|kind| format!("{} of the {}", figure(beyond(kind)), KINDS[kind].label()))
        .collect();
    let void = (0..KINDS.len()).find_map(|kind| says_nothing(found, kind));
    let ledger = Verdict::of(
        "the ledger says so too: missed no more I/Os a statement than alone",
        if missed.is_empty() { "none more".into() } else { missed.join(", ") },
        missed.is_empty(),
    );
    verdicts.push(ledger.unless(void.as_deref()));
    verdicts
}

fn section(actor: &Actor, found: &[Vec<Spilled>; 3]) -> Section {
    let head: Vec<&str> = [""].into_iter().chain(WAYS.map(Way::name)).collect();
    let mut table = Table::new(
        "MB put aside a statement, written and read again; I/Os missed a statement, by the ledger; statements",
        &head,
    );
    for (number, kind) in KINDS.iter().enumerate() {
        let cell = |way: usize| {
            let spilled = &found[way][number];
            let (bytes, missed) = (spilled.bytes_per_statement() / 1e6, spilled.missed_per_statement());
            format!("{}; {}; {}", figure(bytes), figure(missed), spilled.statements)
        };
        table.row(vec![kind.label(), cell(0), cell(1), cell(2)]);
    }
    Section {
        id: "working".into(),
        title: "Working memory beside eight sorting neighbours".into(),
        text: format!(
            "T1 is promised {PROMISED_MIB} of the {SERVER_MEMORY} of working memory and half of the worker. One client of it sorts, \
             aggregates and joins as many rows of its table as fit, and all of them ({}), which do not. Eight \
             neighbours, which are promised nothing, sort all of theirs all the time. The baseline is T1 alone with its promise as its limit; \
             a statement that does not fit spills the same everywhere.",
            actor.setting()
        ),
        verdicts: verdicts(found),
        tables: vec![table],
        notes: vec![
            "Spilled bytes are those of the account of T1's I/Os: its tables are in memory and it changes nothing, so it has no others. The ledger's \
             baseline is by another count, of what each operator would have spilled with the promise to itself."
                .into(),
        ],
        ..Section::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Outcome;

    /// Bytes a statement: of what fits, and of what does not, in each way.
    fn found(bytes: [(f64, f64); 3], missed_beside: f64) -> [Vec<Spilled>; 3] {
        let mut missed = [0.0, missed_beside, 0.0].into_iter();
        bytes.map(|(fitting, large)| {
            let missed = missed.next().expect("three ways");
            let of = |kind: &Kind| if kind.fits { fitting } else { large };
            KINDS.iter().map(|kind| Spilled { statements: 2, bytes: 2.0 * of(kind), missed }).collect()
        })
    }

    fn outcomes(found: &[Vec<Spilled>; 3]) -> [Outcome; 3] {
        let verdicts = verdicts(found);
        [0, 3, 6].map(|number: usize| verdicts[number].outcome)
    }

    #[test]
    fn spills_are_held_against_those_alone() {
        use Outcome::{Met, Missed, Void};
        assert_eq!(outcomes(&found([(0.0, 1e8), (0.0, 1e8), (1e7, 1e8)], 0.0)), [Met, Met, Met]);
        assert_eq!(outcomes(&found([(0.0, 1e8), (1.0, 1.02e8), (1e7, 1e8)], 1.0)), [Missed, Missed, Missed]);
        // Lent memory may spare it some.
        assert_eq!(outcomes(&found([(0.0, 1e8), (0.0, 0.0), (1e7, 1e8)], 0.0)), [Met, Met, Met]);
        assert_eq!(
            outcomes(&found([(0.0, 1e8), (0.0, 1e8), (0.0, 1e8)], 0.0)),
            [Void, Met, Void],
            "harmless"
        );
        assert_eq!(outcomes(&found([(5.0, 0.0), (0.0, 0.0), (1e7, 1e8)], 0.0)), [Void; 3], "sizes");
    }
}
