//! What figure 5 and table 1 come to, as sections of the report.

use super::performance::{Performance, Script, median_run, rates};
use super::stage::LOAD_BUSY;
use crate::report::{Level, Mark, Plot, Section, Series, Table, Verdict, figure, percent};
use crate::stats;

/// Points of a plot of throughput, as in figure 5.
const BUCKET_SECONDS: usize = 30;
/// Of what T1 has alone in its reservation, at least: throughput, and processor.
const KEPT: f64 = 0.95;
/// Of p99 alone, at most.
const P99_MAX: f64 = 1.25;
/// Less of the server's processor in use, and there was nothing to be isolated from.
const BUSY: f64 = 0.95;

/// Runs under one policy.
pub(super) struct Column {
    pub(super) name: String,
    pub(super) runs: Vec<Performance>,
}

impl Column {
    pub(super) fn new(name: &str) -> Column {
        Column { name: name.into(), runs: Vec::new() }
    }

    fn median(&self) -> &Performance {
        median_run(&self.runs)
    }
}

/// The paper's table 1: p99 and deviation in ms under reservations, limits only and best effort.
const TABLE_1: [(&str, [(u32, u32); 3]); 5] = [
    ("Delivery", [(935, 181), (4416, 953), (4056, 1532)]),
    ("New-Order", [(619, 202), (2762, 672), (2589, 761)]),
    ("Order-Status", [(113, 3327), (421, 6392), (390, 4989)]),
    ("Payment", [(327, 246), (1042, 358), (1170, 235)]),
    ("Stock-Level", [(2437, 2812), (22580, 5675), (5897, 2056)]),
];

/// Figure 5 for any T1. Columns: the three policies, then alone.
pub(super) fn arrivals(script: &Script, columns: &[Column], id: &str, title: &str) -> Section {
    let names: Vec<&str> = script.neighbours.iter().map(super::actors::Actor::name).collect();
    let mut section = Section {
        id: id.into(),
        title: title.into(),
        text: format!(
            "T1 runs {} ({}) with {} clients in closed loops, is promised half of the one worker, 200 I/Os a second and 2 GiB; {} \
             arrive one after the other, every {:.0} s, with at most half a worker, 250 I/Os a second and 2 GiB each. With limits \
             only, T1 has those limits, too, and no reservation; with best effort nobody has either. Alone is T1 by itself with its \
             reservation as its limit, once it has worked for {:.0} s without limits of the processor and of I/O, so that its pages are in memory \
             as they are after the others' arrival. Numbers are of the last {:.0} s, with all there.",
            script.t1.name(),
            script.t1.setting(),
            script.t1.clients(),
            names.join(", "),
            script.gap.as_secs_f64(),
            script.gap.as_secs_f64(),
            script.measured.as_secs_f64(),
        ),
        ..Section::default()
    };
    let paper = (id == "figure-5").then_some(["49 % of the processor", "23 %", "27 %", ""].as_slice());
    let void = ended(&columns[0]).or(waited(columns));
    isolation_verdicts(columns, &mut section, paper.is_some(), void.as_deref());
    section.plots.extend(throughput_plot(script, columns, "T1's transactions a second"));
    section.plots.extend(cpu_plot(script, columns));
    section.tables.push(throughput_table("With all there", columns, paper));
    section.notes = failures(columns);
    section
        .notes
        .extend(idle(&columns[0]).map(|idle| format!("There was little to be isolated from: {idle}.")));
    section
}

/// Table 1. Columns as in [`arrivals`].
pub(super) fn crowd(script: &Script, columns: &[Column]) -> Section {
    let count = script.neighbours.len();
    let mut section = Section {
        id: "table-1".into(),
        title: format!("Table 1: TPC-C beside {count} neighbours"),
        text: format!(
            "T1 as in figure 5; {count} neighbours arrive, one every {:.0} s: DVD Store, TPC-H and CPUIO in turn, limits as there. \
             Latencies and throughput are of the {:.0} s with all of them. A run in which the server used less than 95 % of its \
             core then is void.",
            script.gap.as_secs_f64(),
            script.measured.as_secs_f64()
        ),
        ..Section::default()
    };
    let void = ended(&columns[0]).or(idle(&columns[0])).or(waited(columns));
    isolation_verdicts(columns, &mut section, false, void.as_deref());
    let [kept, max_only, best_effort, alone] = [0, 1, 2, 3].map(|index| columns[index].median());
    for (kind, paper) in TABLE_1 {
        let (Some((p99, _)), Some((by_itself, _))) = (kept.latency(kind), alone.latency(kind)) else {
            let verdict = Verdict::of(format!("{kind}: p99 at most 1.25 of alone"), "none ran", false);
            section.verdicts.push(verdict.unless(Some("too few transactions")));
            continue;
        };
        let measured =
            format!("{} ms, {:.2} of {} ms", figure(p99), stats::share(p99, by_itself), figure(by_itself));
        section.verdicts.push(
            Verdict::of(format!("{kind}: p99 at most 1.25 of alone"), measured, p99 <= P99_MAX * by_itself)
                .unless(void.as_deref())
                .beside(&format!("{} ms", paper[0].0)),
        );
    }
    section.plots.extend(throughput_plot(script, columns, "T1's transactions a second"));
    section.tables.push(throughput_table("With all there", columns, None));
    section.tables.extend(latency_table(columns, true));
    let times = |other: &Performance| figure(stats::share(kept.rate(), other.rate()));
    section.notes = failures(columns);
    for column in &columns[1..3] {
        let why = ended(column).or(idle(column));
        section.notes.extend(why.map(|why| format!("The run under {} is void: {why}.", column.name)));
    }
    section.notes.push(format!(
        "With reservations T1's throughput is {} times that with limits only and {} times that with best effort; the paper has 6 \
         times both.",
        times(max_only),
        times(best_effort)
    ));
    section
}

/// Why a run says nothing of isolation, if it does not.
fn idle(column: &Column) -> Option<String> {
    let busy = column.median().server_cpu;
    (busy < BUSY).then(|| format!("the server used {} of its core", percent(busy, false)))
}

/// Why a run was not beside all its neighbours, if it was not.
fn ended(column: &Column) -> Option<String> {
    let why = column.median().failures.first()?;
    Some(format!("a neighbour's clients ended early: {why}"))
}

/// Why T1 may have waited for the load instead of the server, with its neighbours there or alone, if it may.
fn waited(columns: &[Column]) -> Option<String> {
    let of = [&columns[0], &columns[columns.len() - 1]];
    let most = of.into_iter().map(|column| column.median().load_cpu).fold(0.0, f64::max);
    (most >= LOAD_BUSY)
        .then(|| format!("the load used {} of its core: clients waited for themselves", percent(most, false)))
}

/// That T1 keeps its throughput and its processor; `void` is why the run says nothing of it.
fn isolation_verdicts(columns: &[Column], section: &mut Section, with_share: bool, void: Option<&str>) {
    let (kept, alone) = (columns[0].median(), columns[columns.len() - 1].median());
    let t1_failed = (alone.rate() == 0.0).then_some("T1 did nothing while alone");
    let part = stats::share(kept.rate(), alone.rate());
    let measured = format!("{:.2} of {} a second", part, figure(alone.rate()));
    section.verdicts.push(
        Verdict::of("T1's throughput with reservations at least 0.95 of alone", measured, part >= KEPT)
            .unless(t1_failed.or(void))
            .beside(if with_share { "others 40 % less" } else { "" }),
    );
    let share = stats::share(kept.share, alone.share);
    let measured = format!("{} of the worker, {:.2} of alone", percent(kept.share, false), share);
    section.verdicts.push(
        Verdict::of("T1's processor with reservations at least 0.95 of alone", measured, share >= KEPT)
            .unless(t1_failed.or(void))
            .beside(if with_share { "49 % of 50 %" } else { "" }),
    );
    let missed = kept.missed[0];
    let silent = missed.is_none().then_some("the ledger says nothing of T1");
    section.verdicts.push(
        Verdict::of(
            "With reservations T1 missed at most 0.05 of the processor that it was owed, by the ledger",
            missed.map_or("no row".into(), |missed| percent(missed, false)),
            missed.is_some_and(|missed| missed <= 1.0 - KEPT),
        )
        .unless(void.or(silent)),
    );
}

/// T1's throughput over time under each policy; nothing where there are no runs.
pub(super) fn throughput_plot(script: &Script, columns: &[Column], title: &str) -> Option<Plot> {
    let shown: Vec<&Column> = columns.iter().filter(|column| !column.median().arrivals.is_empty()).collect();
    let first = shown.first()?;
    let alone = columns.iter().find(|column| column.name.starts_with("alone"));
    let end = script.length().as_secs_f64();
    Some(Plot {
        title: title.into(),
        x_label: "seconds".into(),
        y_label: "transactions a second".into(),
        series: shown.iter().map(|column| series(&column.name, &column.median().per_second)).collect(),
        promised: alone
            .map(|alone| Level {
                name: "alone with the reservation as its limit".into(),
                y: alone.median().rate(),
                x_from: 0.0,
                x_to: end,
            })
            .into_iter()
            .collect(),
        marks: marks(script, first.median()),
        // Short runs keep some points.
        smoothed_over: (end as usize / 20).clamp(1, BUCKET_SECONDS),
    })
}

fn cpu_plot(script: &Script, columns: &[Column]) -> Option<Plot> {
    let shown: Vec<&Column> = columns.iter().filter(|column| !column.median().arrivals.is_empty()).collect();
    let first = shown.first()?;
    let end = script.length().as_secs_f64();
    Some(Plot {
        title: "T1's part of the worker".into(),
        x_label: "seconds".into(),
        y_label: "cores".into(),
        series: shown.iter().map(|column| series(&column.name, &column.median().cpu)).collect(),
        promised: vec![Level { name: "promised".into(), y: 0.5, x_from: 0.0, x_to: end }],
        marks: marks(script, first.median()),
        smoothed_over: (end as usize / 60).clamp(1, BUCKET_SECONDS),
    })
}

fn series(name: &str, values: &[f64]) -> Series {
    Series { name: name.into(), x_first: 1.0, x_step: 1.0, values: values.to_vec() }
}

/// A line for each arrival; many of them have no room for a word.
fn marks(script: &Script, run: &Performance) -> Vec<Mark> {
    let few = run.arrivals.len() <= 4;
    let arrivals = run.arrivals.iter().zip(&script.neighbours);
    arrivals
        .map(|(x, actor)| Mark { x: *x, name: if few { actor.name().into() } else { String::new() } })
        .collect()
}

/// Throughput and processor under each policy.
pub(super) fn throughput_table(title: &str, columns: &[Column], paper: Option<&[&str]>) -> Table {
    let head = [
        "",
        "T1's transactions/s",
        "± of seconds",
        "T1's processor",
        "T1 missed of what it was owed: processor",
        "I/O",
        "the server's processor",
        "the load's",
        "the paper's T1",
    ];
    let mut table = Table::new(title, &head);
    for (index, column) in columns.iter().enumerate() {
        let run = column.median();
        let measured = run.per_second.len().saturating_sub(run.report.seconds as usize);
        let last = stats::summary(&run.per_second[measured..]);
        let missed = |of: usize| run.missed[of].map_or("–".into(), |missed| percent(missed, false));
        table.row(vec![
            column.name.clone(),
            rates(&column.runs),
            figure(last.deviation),
            percent(run.share, false),
            missed(0),
            missed(1),
            percent(run.server_cpu, false),
            percent(run.load_cpu, false),
            paper
                .and_then(|paper| paper.get(index))
                .filter(|text| !text.is_empty())
                .unwrap_or(&"–")
                .to_string(),
        ]);
    }
    table
}

/// p99 and deviation of each kind of transaction; nothing where there are no runs.
pub(super) fn latency_table(columns: &[Column], with_paper: bool) -> Option<Table> {
    columns.first()?;
    let mut head = vec!["p99 ± deviation, ms".to_owned()];
    head.extend(columns.iter().map(|column| column.name.clone()));
    if with_paper {
        head.extend(["reservations", "limits only", "best effort"].map(|name| format!("paper: {name}")));
    }
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    let mut table = Table::new("Response times of T1", &head);
    for (kind, paper) in TABLE_1 {
        let mut row = vec![kind.to_owned()];
        row.extend(columns.iter().map(|column| {
            let found = column.median().latency(kind);
            found.map_or("–".into(), |(p99, deviation)| format!("{} ± {}", figure(p99), figure(deviation)))
        }));
        if with_paper {
            row.extend(paper.map(|(p99, deviation)| format!("{p99} ± {deviation}")));
        }
        table.row(row);
    }
    Some(table)
}

fn failures(columns: &[Column]) -> Vec<String> {
    let of_column = |column: &Column| {
        let failed = column.runs.iter().flat_map(|run| &run.failures);
        failed
            .map(|why| format!("Under {}, a neighbour's clients ended early: {why}", column.name))
            .collect::<Vec<_>>()
    };
    columns.iter().flat_map(of_column).collect()
}

#[cfg(test)]
mod tests {
    use workloads::report::RunReport;

    use super::*;
    use crate::report::Outcome;

    fn run(failures: &[&str]) -> Column {
        let report = RunReport {
            workload: String::new(),
            server: String::new(),
            tenants: 1,
            databases: Vec::new(),
            clients_per_tenant: 1,
            setting: String::new(),
            measured_from_us: 0,
            seconds: 1.0,
            transactions: 100,
            transactions_per_second: 100.0,
            rates: Default::default(),
            tenant_tps: vec![100.0],
            kinds: Vec::new(),
            series: None,
            log: Vec::new(),
            violations: Vec::new(),
        };
        let run = Performance {
            report,
            per_second: Vec::new(),
            cpu: Vec::new(),
            share: 0.5,
            missed: [Some(0.0); 2],
            server_cpu: 1.0,
            load_cpu: 0.5,
            arrivals: Vec::new(),
            failures: failures.iter().map(|why| (*why).to_owned()).collect(),
        };
        Column { name: String::new(), runs: vec![run] }
    }

    #[test]
    fn a_run_whose_neighbours_ended_early_shows_nothing() {
        let outcomes = |failures: &[&str]| {
            let (columns, mut section) = ([run(failures), run(&[])], Section::default());
            isolation_verdicts(&columns, &mut section, false, ended(&columns[0]).as_deref());
            section.verdicts.iter().map(|verdict| verdict.outcome).collect::<Vec<_>>()
        };
        assert_eq!(outcomes(&[]), [Outcome::Met; 3]);
        assert_eq!(outcomes(&["n2: the connection broke"]), [Outcome::Void; 3]);
    }

    #[test]
    fn a_load_that_is_busy_and_a_ledger_that_is_silent_show_nothing() {
        let outcomes = |change: fn(&mut Performance), changed: usize| {
            let (mut columns, mut section) = ([run(&[]), run(&[])], Section::default());
            change(&mut columns[changed].runs[0]);
            isolation_verdicts(&columns, &mut section, false, waited(&columns).as_deref());
            section.verdicts.iter().map(|verdict| verdict.outcome).collect::<Vec<_>>()
        };
        use Outcome::{Met, Void};
        for with in 0..2 {
            assert_eq!(outcomes(|run| run.load_cpu = 0.95, with), [Void; 3]);
        }
        assert_eq!(outcomes(|run| run.missed = [None; 2], 0), [Met, Met, Void]);
    }
}
