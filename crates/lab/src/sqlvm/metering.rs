//! Figures 6 and 7: eight tenants on a volume that was promised twice over.

use std::time::Duration;

use workloads::cpuio::Cpuio;
use workloads::dvdstore::{DvdStore, Size, Standard};
use workloads::load::Pace;
use workloads::tpcc::{self, Tpcc};
use workloads::tpch::{self, Tpch};

use super::actors::{Acting, Actor, Part};
use super::host::{Host, Promise};
use super::recompute::{WINDOW_SECONDS, Window, contradictions, windows};
use super::stage::Stage;
use crate::Result;
use crate::report::{Level, Mark, Plot, Section, Series, Table, Verdict, figure, percent, spread};
use crate::stats;
use crate::world::sampler::Samples;
use crate::world::{clock, ledger};

const TENANTS: usize = 8;
const PROMISED: u32 = 80;
const VOLUME_IOPS: u32 = 300;
/// From an arrival to the next, and from the last to the end.
const GAP_SECONDS: f64 = 100.0;
/// How far sums of the ledger may be from those of the kernel and of the storage layer.
const OFF_MAX: f64 = 0.01;
/// How far what the ledger says was missed may be from what is recomputed of means over windows.
const MISSED_OFF_MAX: f64 = 0.1;
/// Of the volume's limit, what is issued at least where it is what holds tenants up.
const BOUND: f64 = 0.9;
/// Fewer reads are too few to be compared.
const READS_MIN: f64 = 200.0;
/// The same of I/Os that were missed: of none the ledger and the recomputation agree whatever either counts.
const MISSED_MIN: f64 = 100.0;
/// Of the windows that the time has room for, those that samples have to be there of.
const WINDOWS_MIN: f64 = 0.8;

/// The four workloads, made to wait for pages: each has more data than all have memory, and as many clients as keep it waiting, but
/// for DVD Store, which wants little.
fn suite(stage: &Stage) -> Result<[(Actor, usize, Pace); 4]> {
    let part = stage.options.population_factor.min(1.0);
    let tpcc = Tpcc { scale: tpcc::Scale::new(5, part)?, foreign_keys: false };
    let store = DvdStore { size: Size::new(Standard::Medium, 0.2 * part)? };
    let tpch = Tpch {
        scale: tpch::Scale::new((0.2 * part).max(0.02))?,
        foreign_keys: false,
        validation: false,
        queries: "1,3-7,10,12,14,15,19".parse()?,
    };
    let cpuio = Cpuio { rows: stage.options.amount(1_000_000, 200_000), ..Actor::cpuio("lookup=1")? };
    Ok([
        (Actor::Tpcc(tpcc), 24, Pace::Closed),
        (Actor::DvdStore(store), 2, Pace::Think(Duration::from_millis(500))),
        (Actor::Tpch(tpch), 4, Pace::Closed),
        (Actor::Cpuio(cpuio), 24, Pace::Closed),
    ])
}

/// Everything that was observed.
struct Observed {
    names: Vec<String>,
    suite: [(Actor, usize, Pace); 4],
    began_us: u64,
    ended_us: u64,
    /// Seconds from the beginning.
    arrivals: Vec<f64>,
    rows: Vec<ledger::Row>,
    violations: Vec<ledger::Row>,
    samples: Samples,
    waits: Samples,
    /// Bytes charged to all tenants, and read and written by the kernel for the server.
    charged_bytes: f64,
    kernel_bytes: f64,
    failures: Vec<String>,
}

pub(super) async fn part(stage: &mut Stage) -> Result<()> {
    let gap = stage.options.time(GAP_SECONDS);
    stage.will_take(gap * (TENANTS + 1) as u32);
    let memory = format!("{}MiB", stage.options.amount(256, 32));
    let host = Host::rowhouse(stage, &["--memory", &memory, "--read-ahead", "0"]).await?;
    host.need_ledger("metering")?;
    stage.note_setting("Versions", host.label().await?);
    let observed = observe(stage, &host, gap).await?;
    host.stop().await?;
    stage.add(section(&observed, &memory, gap))
}

async fn observe(stage: &Stage, host: &Host, gap: Duration) -> Result<Observed> {
    let suite = suite(stage)?;
    let names: Vec<String> = (1..=TENANTS).map(|number| format!("t{number}")).collect();
    for (actor, ..) in &suite {
        host.load(stage, actor).await?;
    }
    stage.say("making copies of the models");
    for (index, name) in names.iter().enumerate() {
        host.copy(name, suite[index % 4].0.template()).await?;
        host.promise(name, Promise { iops: Some(PROMISED), ..Promise::default() }, TENANTS).await?;
        host.evict(name).await?;
    }
    host.admin.batch_execute(&format!("alter volume default set (iops_limit = {VOLUME_IOPS})")).await?;
    let sampler = host.sampler(&names).await?;
    let wait_sampler = host.wait_sampler().await?;
    // Pages of the server's program that are read when their code first runs are the kernel's: in memory they are not read.
    drop(std::fs::read(&stage.options.server_binary)?);
    host.quiet(stage).await?;
    let (charged_before, kernel_before) = bytes(host).await?;
    let began_us = clock::now_us();
    let (mut acting, mut arrivals): (Vec<(String, Acting)>, Vec<f64>) = Default::default();
    for (index, name) in names.iter().enumerate() {
        let (actor, clients, pace) = suite[index % 4];
        stage.say(&format!("{} of {TENANTS} tenants: {} arrives", index + 1, actor.name()));
        arrivals.push((clock::now_us() - began_us) as f64 / 1e6);
        let part = Part::endless(clients, pace, stage.options.seed.wrapping_add(index as u64));
        acting.push((name.clone(), actor.act(&host.url(name), part)?));
        stage.pass(gap).await;
    }
    stage.pass(gap).await;
    let ended_us = clock::now_us();
    let (samples, waits) = (sampler.finish(), wait_sampler.finish());
    // Their clients hang up: what is asked now has the server to itself.
    let mut failures = Vec::new();
    for (name, tenant) in acting {
        failures.extend(tenant.failure().await.map(|why| format!("{name}: {why}")));
    }
    host.admin.batch_execute("alter volume default reset (iops_limit)").await?;
    host.quiet(stage).await?;
    let (charged, kernel) = bytes(host).await?;
    Ok(Observed {
        names,
        suite,
        began_us,
        ended_us,
        arrivals,
        rows: ledger::rows(&host.admin, "ledger", "io", began_us, ended_us).await?,
        violations: ledger::rows(&host.admin, "violations", "io", began_us, ended_us).await?,
        samples,
        waits,
        charged_bytes: charged - charged_before,
        kernel_bytes: kernel - kernel_before,
        failures,
    })
}

/// Bytes charged to all tenants so far, the server's own work included, and the kernel's count of them.
async fn bytes(host: &Host) -> Result<(f64, f64)> {
    let sum = "select coalesce(sum(io_bytes), 0)::int8 from rowhouse.tenant_usage";
    let charged: i64 = host.admin.query_one(sum, &[]).await?.get(0);
    Ok((charged as f64, host.disk_bytes()))
}

impl Observed {
    fn series(&self, tenant: usize, value: fn(&ledger::Row) -> f64) -> Vec<f64> {
        ledger::series(&self.rows, &self.names[tenant], self.began_us, self.ended_us, value)
    }

    /// When all tenants are there.
    fn all_us(&self) -> u64 {
        self.began_us + (self.arrivals[TENANTS - 1] * 1e6) as u64
    }

    fn sum(&self, tenant: usize, from_us: u64, value: fn(&ledger::Row) -> f64) -> f64 {
        ledger::series(&self.rows, &self.names[tenant], from_us, self.ended_us, value).iter().sum()
    }

    /// While all are there.
    fn windows(&self, tenant: usize) -> Vec<Window> {
        windows(&self.samples, &self.waits, &self.names[tenant], self.all_us(), self.ended_us)
    }

    /// Why the volume's limit was not what held the tenants up while all were there, if it was not: then promises were not broken
    /// for it, and who waited may have waited for the device.
    fn unbound(&self) -> Option<String> {
        let seconds = (self.ended_us - self.all_us()) as f64 / 1e6;
        let given: f64 = (0..TENANTS).map(|tenant| self.sum(tenant, self.all_us(), |row| row.given)).sum();
        let rate = given / seconds.max(1.0);
        (rate < BOUND * f64::from(VOLUME_IOPS)).then(|| {
            format!(
                "all together got {} of {VOLUME_IOPS} I/Os a second: something else was short",
                figure(rate)
            )
        })
    }

    fn actor(&self, tenant: usize) -> &Actor {
        &self.suite[tenant % 4].0
    }

    fn label(&self, tenant: usize) -> String {
        format!("T{} ({})", tenant + 1, self.actor(tenant).name())
    }
}

fn section(observed: &Observed, memory: &str, gap: Duration) -> Section {
    let mut section = Section {
        id: "metering".into(),
        title: "Figures 6 and 7: a volume promised twice over".into(),
        text: format!(
            "Each of four workloads twice, one more every {:.0} s, {PROMISED} I/Os a second promised to each, on a volume limited to \
             {VOLUME_IOPS}, {memory} of memory for all pages, no read-ahead: {}. All but DVD Store always wait for pages; its visitors \
             think for half a second, so it wants little.",
            gap.as_secs_f64(),
            observed
                .suite
                .iter()
                .map(|(actor, ..)| format!("{}: {}", actor.name(), actor.setting()))
                .collect::<Vec<_>>()
                .join("; ")
        ),
        ..Section::default()
    };
    let marks: Vec<Mark> = observed.arrivals.iter().map(|x| Mark { x: *x, name: String::new() }).collect();
    let seconds = (observed.ended_us - observed.began_us) / 1_000_000;
    let plot = |title: &str, value: fn(&ledger::Row) -> f64| Plot {
        title: title.into(),
        x_label: "seconds; a tenant arrives at each dotted line".into(),
        y_label: "I/Os a second".into(),
        series: (0..TENANTS)
            .map(|tenant| Series {
                name: observed.label(tenant),
                x_first: 1.0,
                x_step: 1.0,
                values: observed.series(tenant, value),
            })
            .collect(),
        promised: vec![Level {
            name: "promised to each".into(),
            y: f64::from(PROMISED),
            x_from: 0.0,
            x_to: seconds as f64,
        }],
        marks: marks.clone(),
        smoothed_over: (seconds as usize / 150).clamp(1, 10),
    };
    let mut violated = plot("Figure 7: of what was promised, missed", |row| row.missed);
    violated.promised.clear();
    section.plots = vec![plot("Figure 6: I/Os given", |row| row.given), violated];
    verdicts(observed, &mut section);
    section.tables = vec![tenants(observed), stages(observed), causes(observed)];
    section.notes = observed.failures.iter().map(|why| format!("Clients ended early: {why}")).collect();
    section.notes.push(format!(
        "Recomputed: of {PROMISED} promised and g pages read a second by the storage layer's count, max(0, {PROMISED} - g), but no \
         more than the statements that waited for a page, over windows of {WINDOW_SECONDS} s. It knows no writes of checkpoints and \
         no reads of analytical threads, so it is held against the ledger where there are neither: CPUIO."
    ));
    section
}

fn verdicts(observed: &Observed, section: &mut Section) {
    let off = stats::off(observed.charged_bytes, observed.kernel_bytes);
    section.verdicts.push(Verdict::of(
        "bytes on the ledger within 1 % of the kernel's",
        format!("{} of {:.0} MB", percent(off, true), observed.kernel_bytes / 1e6),
        off.abs() <= OFF_MAX,
    ));
    let wrong = contradictions(&observed.rows).len();
    section.verdicts.push(Verdict::of(
        "each row: demanded is what was given and missed, up to the promise",
        format!("{wrong} of {} rows are not so", observed.rows.len()),
        wrong == 0 && !observed.rows.is_empty(),
    ));
    let broken = observed.rows.iter().filter(|row| !row.cause.is_empty()).count();
    let none = (broken == 0 && observed.violations.is_empty()).then_some("no promise was broken");
    section.verdicts.push(
        Verdict::of(
            "rowhouse.violations is the rows of broken promises",
            format!("{} and {broken} rows", observed.violations.len()),
            observed.violations.len() == broken
                && observed.violations.iter().all(|row| !row.cause.is_empty()),
        )
        .unless(none),
    );
    let all = observed.all_us();
    let unbound = observed.unbound();
    for tenant in [3, 7] {
        let found = observed.windows(tenant);
        let seconds = (found.len() as u64 * WINDOW_SECONDS) as f64;
        let until = all + found.len() as u64 * WINDOW_SECONDS * 1_000_000;
        let of_ledger = |value: fn(&ledger::Row) -> f64| -> f64 {
            ledger::series(&observed.rows, &observed.names[tenant], all, until, value).iter().sum()
        };
        let read: f64 = found.iter().map(|window| window.issued).sum::<f64>() * WINDOW_SECONDS as f64;
        let given = of_ledger(|row| row.given);
        let off = stats::off(given, read);
        let few = too_few(found.len(), (observed.ended_us - all) / (WINDOW_SECONDS * 1_000_000), read);
        // Windows and intervals begin at different moments: some two seconds of either may be missing.
        let slack = 2.0 * stats::share(read, seconds);
        section.verdicts.push(
            Verdict::of(
                format!("{}: given within 1 % of the pages read", observed.label(tenant)),
                format!("{} and {} I/Os ({})", figure(given), figure(read), percent(off, true)),
                (given - read).abs() <= OFF_MAX * read + slack,
            )
            .unless(few.as_deref()),
        );
        let recomputed: f64 = found.iter().map(|window| window.missed(f64::from(PROMISED))).sum::<f64>()
            * WINDOW_SECONDS as f64;
        let missed = of_ledger(|row| row.missed);
        let off = stats::off(missed, recomputed);
        section.verdicts.push(
            Verdict::of(
                format!("{}: missed within 10 % of the recomputation", observed.label(tenant)),
                format!("{} and {} I/Os ({})", figure(missed), figure(recomputed), percent(off, true)),
                off.abs() <= MISSED_OFF_MAX,
            )
            .unless(few.as_deref().or(unbound.as_deref()).or(too_little(recomputed.max(missed)).as_deref())),
        );
    }
    let of = |tenant, value| observed.sum(tenant, all, value);
    let (given, missed): (fn(&ledger::Row) -> f64, fn(&ledger::Row) -> f64) =
        (|row| row.given, |row| row.missed);
    section.verdicts.push(
        Verdict::of(
            "a tenant with little demand (T2) got less than T1 and missed less",
            format!(
                "given {} and {}, missed {} and {}",
                figure(of(1, given)),
                figure(of(0, given)),
                figure(of(1, missed)),
                figure(of(0, missed))
            ),
            of(1, given) < of(0, given) && of(1, missed) < of(0, missed),
        )
        .unless(observed.failures.first().map(String::as_str).or(unbound.as_deref()))
        .beside("the same of T2 and T1"),
    );
}

/// Why windows say nothing, if they do not: `there` of `all` that the time has room for, with so many reads. They end with the first that a sample is
/// missing of, as where the server was too busy to answer: what came after would be told by nobody.
fn too_few(there: usize, all: u64, read: f64) -> Option<String> {
    if (there as f64) < WINDOWS_MIN * all as f64 {
        return Some(format!("{there} of {all} windows only have samples"));
    }
    (read < READS_MIN).then(|| format!("fewer than {READS_MIN} reads in whole windows"))
}

/// Why what was missed, by the larger of the two counts, cannot be compared, if it cannot.
fn too_little(missed: f64) -> Option<String> {
    (missed < MISSED_MIN).then(|| format!("fewer than {MISSED_MIN} I/Os were missed"))
}

/// Each tenant while all are there.
fn tenants(observed: &Observed) -> Table {
    let mut table = Table::new(
        "While all are there, a second",
        &[
            "tenant",
            "promised",
            "given ± deviation",
            "demanded",
            "missed ± deviation",
            "missed, recomputed",
            "pages read",
        ],
    );
    let all = observed.all_us();
    for tenant in 0..TENANTS {
        let name = &observed.names[tenant];
        let of = |value: fn(&ledger::Row) -> f64| {
            stats::summary(&ledger::series(&observed.rows, name, all, observed.ended_us, value))
        };
        let found = observed.windows(tenant);
        let mean = |values: Vec<f64>| {
            if values.is_empty() { "–".into() } else { figure(stats::summary(&values).mean) }
        };
        table.row(vec![
            observed.label(tenant),
            PROMISED.to_string(),
            spread(&of(|row| row.given)),
            figure(of(|row| row.demanded).mean),
            spread(&of(|row| row.missed)),
            mean(found.iter().map(|window| window.missed(f64::from(PROMISED))).collect()),
            mean(found.iter().map(|window| window.issued).collect()),
        ]);
    }
    table
}

/// Each tenant from one arrival to the next, the server's own work beside them.
fn stages(observed: &Observed) -> Table {
    let system = "system";
    let mut head = vec!["tenants there".to_owned(), "all: given, missed".to_owned()];
    head.extend((0..TENANTS).map(|tenant| observed.label(tenant)));
    head.push(system.into());
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    let mut table = Table::new("From each arrival to the next, a second: given, missed", &head);
    let names = observed.names.iter().map(String::as_str).chain([system]);
    for there in 1..=TENANTS {
        let at_us = |index: usize| {
            let arrival = observed.arrivals.get(index).map(|at| observed.began_us + (at * 1e6) as u64);
            arrival.unwrap_or(observed.ended_us)
        };
        let (from_us, to_us) = (at_us(there - 1), at_us(there));
        let mean = |name: &str, value: fn(&ledger::Row) -> f64| {
            stats::summary(&ledger::series(&observed.rows, name, from_us, to_us, value)).mean
        };
        let found: Vec<(f64, f64)> =
            names.clone().map(|name| (mean(name, |row| row.given), mean(name, |row| row.missed))).collect();
        let all = found.iter().fold((0.0, 0.0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
        let cell = |(given, missed): &(f64, f64)| format!("{}, {}", figure(*given), figure(*missed));
        table.row([there.to_string(), cell(&all)].into_iter().chain(found.iter().map(cell)).collect());
    }
    table
}

/// Why promises were broken, by the ledger.
fn causes(observed: &Observed) -> Table {
    let mut table = Table::new("Broken intervals by cause", &["cause", "tenant-seconds", "I/Os missed"]);
    for cause in ["overbooked", "device", "system", "neighbour"] {
        let of_cause: Vec<_> = observed.violations.iter().filter(|row| row.cause == cause).collect();
        let missed: f64 = of_cause.iter().map(|row| row.missed).sum();
        table.row(vec![cause.into(), of_cause.len().to_string(), figure(missed)]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_that_end_early_or_have_few_reads_say_nothing() {
        assert_eq!(too_few(10, 10, 3_000.0), None);
        assert_eq!(too_few(8, 10, 3_000.0), None);
        let one = too_few(1, 10, 300.0).expect("a tenth of the time");
        assert!(one.contains("1 of 10 windows"), "{one}");
        assert!(too_few(10, 10, 199.0).is_some() && too_few(0, 1, 0.0).is_some());
        assert!(too_little(0.0).is_some() && too_little(2_300.0).is_none());
    }
}
