//! 500 tenants with promises, all of them at work: that each promise is kept, and what it costs to keep them.

use std::time::Duration;

use workloads::cpuio::Cpuio;
use workloads::load::{Live, Pace};
use workloads::target::Target;

use super::interleaved::{self, Interleaved};
use crate::Result;
use crate::report::{Plot, Section, Series, Table, Verdict, figure, percent};
use crate::sqlvm::actors::{Actor, Part};
use crate::sqlvm::host::{Host, LEDGER_WAIT, Policy, Promise};
use crate::sqlvm::stage::Stage;
use crate::stats;
use crate::world::{clock, ledger};

const TENANTS: u64 = 500;
const TENANTS_MIN: u64 = 20;
/// Of the server's workers, what is promised to all tenants together at most: a fifth of each is the server's own.
const PROMISED: f64 = 0.8;
/// Memory of each tenant, which its table has room in.
const TENANT_MIB: u64 = 2;
const SERVER_MEMORY: &str = "4GiB";
/// Look-ups find one row each, so that there is as little work and as much deciding as can be.
const ROWS: u64 = 1_000;
/// Of a computation: some 0.15 ms, less than a quarter of a millisecond, after which a call is suspended. Of 500 that are longer, more would be suspended than
/// a worker keeps stacks for; the others would run to their end, for longer than the quantum that may be missed.
const CPU_ROUNDS: u32 = 500;
const SECONDS: f64 = 60.0;
/// Of a client between two look-ups: 500 that do not think want more of the load's one thread than it has.
const THINK: Duration = Duration::from_millis(20);
/// Until all clients are at work.
const SETTLE_SECONDS: f64 = 5.0;
/// Core-seconds that a tenant may miss in an interval: a quantum of a worker.
const MISSED_MAX: f64 = 0.000_5;
/// Of what it was owed over the whole time.
const MISSED_PART_MAX: f64 = 0.01;
/// Less of the server's cores in use, and nothing had to be kept.
const BUSY: f64 = 0.95;
/// Of the least that is promised, less wanted by a tenant, and its promise was hardly tried.
const WANTED_MIN: f64 = 0.9;
/// Seconds that a tenant may have no rows of: intervals that are cut at both ends, and one that is late.
const SILENT_SECONDS_MAX: f64 = 3.0;
const RULES: [&str; 2] = ["policy best_effort", "policy reservations"];

/// What was owed and missed while all tenants computed.
struct Kept {
    seconds: f64,
    /// Parts of the server's cores in use.
    busy: f64,
    /// Core-seconds of each tenant: owed, given and missed, and the most it missed in an interval.
    tenants: Vec<Owed>,
    /// Intervals of other resources in which a promise was broken.
    others: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Owed {
    /// That there are rows of.
    seconds: f64,
    demanded: f64,
    given: f64,
    missed: f64,
    missed_most: f64,
}

pub(in crate::sqlvm) async fn part(stage: &mut Stage) -> Result<()> {
    let (time, settle) = (stage.options.time(SECONDS), stage.options.time(SETTLE_SECONDS));
    stage.will_take(time + settle * 2 + interleaved::length(stage, RULES.len()));
    let workers = stage.server_cores.count();
    let count = stage.options.amount(TENANTS, TENANTS_MIN);
    let shares = Shares::of(workers, count);
    let host = Host::with_workers(stage, workers, &["--memory", SERVER_MEMORY]).await?;
    host.need_ledger("a crowd")?;
    stage.note_setting("Versions", host.label().await?);
    let table = Cpuio {
        rows: ROWS,
        scan_rows: ROWS,
        lookup_rows: 1,
        cpu_rounds: CPU_ROUNDS,
        ..Actor::cpuio("cpu=1")?
    };
    let (computing, looking_up) =
        (Actor::Cpuio(table), Actor::Cpuio(Cpuio { mix: "lookup=1".parse()?, ..table }));
    host.load(stage, &computing).await?;
    stage.say(&format!("making {count} tenants"));
    for number in 1..=count {
        let name = format!("t{number}");
        host.copy(&name, computing.template()).await?;
        let promise =
            Promise { cpu: Some(shares.cores(number)), memory_mib: Some(TENANT_MIB), ..Promise::default() };
        host.promise(&name, promise, 0).await?;
    }
    host.quiet(stage).await?;
    let target = Target::new(&host.url("rowhouse"), Some(("t", usize::try_from(count)?)))?;
    let endless = Part::endless(1, Pace::Closed, stage.options.seed);
    let mut acting = computing.act_on(target.clone(), endless, Live::default());
    acting.at_work().await?;
    stage.say(&format!("{count} tenants compute"));
    stage.pass(settle).await;
    let kept = kept(stage, &host, time, workers).await?;
    if let Some(why) = acting.failure().await {
        return Err(format!("clients of the crowd ended early: {why}").into());
    }
    let thinking = Part::endless(1, Pace::Think(THINK), stage.options.seed);
    let mut acting = looking_up.act_on(target, thinking, Live::default());
    acting.at_work().await?;
    stage.pass(settle).await;
    let policies = [Policy::BestEffort, Policy::Reservations];
    let cost =
        interleaved::measure(stage, &host, &acting, &RULES, async |rule| host.policy(policies[rule]).await);
    let cost = cost.await?;
    if let Some(why) = acting.failure().await {
        return Err(format!("clients of the crowd ended early: {why}").into());
    }
    host.stop().await?;
    stage.add(section(&Crowd { workers, tenants: count, shares, computing, looking_up }, &kept, &cost))
}

/// Who was there, with what.
struct Crowd {
    workers: usize,
    tenants: u64,
    shares: Shares,
    computing: Actor,
    looking_up: Actor,
}

/// What is promised to each tenant: whole thousandths of a core, at least one; the first `more` have one more, so that they come to [`PROMISED`].
#[derive(Clone, Copy, PartialEq, Debug)]
struct Shares {
    thousandths: u64,
    more: u64,
}

impl Shares {
    fn of(workers: usize, tenants: u64) -> Shares {
        let all = (PROMISED * 1000.0 * workers as f64).round() as u64;
        if all < tenants {
            return Shares { thousandths: 1, more: 0 };
        }
        Shares { thousandths: all / tenants, more: all % tenants }
    }

    /// Of the tenant of this number, from 1 on.
    fn cores(self, number: u64) -> f64 {
        (self.thousandths + u64::from(number <= self.more)) as f64 / 1000.0
    }

    fn all(self, tenants: u64) -> f64 {
        (self.thousandths * tenants + self.more) as f64 / 1000.0
    }

    fn words(self) -> String {
        match self.more {
            0 => format!("{} cores", self.cores(1)),
            more => format!("{} cores (the first {more}) or {}", self.cores(1), self.cores(more + 1)),
        }
    }
}

async fn kept(stage: &Stage, host: &Host, time: Duration, workers: usize) -> Result<Kept> {
    let (from, cpu) = (clock::now_us(), host.cpu_seconds());
    stage.pass(time).await;
    let (to, cpu) = (clock::now_us(), host.cpu_seconds() - cpu);
    let seconds = (to - from) as f64 / 1e6;
    stage.pass(LEDGER_WAIT).await;
    let rows = ledger::rows(&host.admin, "ledger", "cpu", from, to).await?;
    let mut others = 0;
    for resource in ["io", "memory", "work_memory"] {
        others += ledger::rows(&host.admin, "violations", resource, from, to).await?.len();
    }
    Ok(Kept { seconds, busy: cpu / seconds / workers as f64, tenants: owed(&rows), others })
}

/// Each tenant's sums; the server's own work is no tenant.
fn owed(rows: &[ledger::Row]) -> Vec<Owed> {
    let mut tenants: std::collections::BTreeMap<&str, Owed> = std::collections::BTreeMap::new();
    for row in rows.iter().filter(|row| row.tenant.starts_with('t')) {
        let owed = tenants.entry(&row.tenant).or_default();
        owed.seconds += (row.ended_us - row.began_us) as f64 / 1e6;
        owed.demanded += row.demanded;
        owed.given += row.given;
        owed.missed += row.missed;
        owed.missed_most = owed.missed_most.max(row.missed);
    }
    tenants.into_values().collect()
}

/// Why it was no test of promises of which the least is so many cores, if it was none.
fn says_nothing(kept: &Kept, tenants: u64, least: f64) -> Option<String> {
    let told = kept.tenants.iter().filter(|owed| owed.seconds >= kept.seconds - SILENT_SECONDS_MAX).count();
    if (told as u64) < tenants {
        return Some(format!("the ledger has rows of all the time of {told} of {tenants} tenants"));
    }
    let wanted = kept.tenants.iter().map(|owed| stats::share(owed.demanded, owed.seconds));
    let wanted = wanted.fold(f64::INFINITY, f64::min);
    if wanted < WANTED_MIN * least {
        return Some(format!("a tenant wanted {} ms a second only", figure(wanted * 1e3)));
    }
    (kept.busy < BUSY).then(|| format!("the server used {} of its cores", percent(kept.busy, false)))
}

fn verdicts(kept: &Kept, tenants: u64, least: f64) -> Vec<Verdict> {
    let void = says_nothing(kept, tenants, least);
    let most = kept.tenants.iter().map(|owed| owed.missed_most).fold(0.0, f64::max);
    let part = kept.tenants.iter().map(|owed| stats::share(owed.missed, owed.demanded)).fold(0.0, f64::max);
    let verdicts = [
        Verdict::of(
            format!(
                "no tenant missed more than a quantum, {} ms, of processor time in an interval",
                MISSED_MAX * 1e3
            ),
            format!("{} ms at most", figure(most * 1e3)),
            most <= MISSED_MAX,
        ),
        Verdict::of(
            "no tenant missed more than 1 % of the processor time it was owed",
            format!("{} at most", percent(part, false)),
            part <= MISSED_PART_MAX,
        ),
        Verdict::of("no other promise was broken", format!("{} intervals", kept.others), kept.others == 0),
    ];
    verdicts.map(|verdict| verdict.unless(void.as_deref())).into()
}

fn section(crowd: &Crowd, kept: &Kept, cost: &Interleaved) -> Section {
    let tenants = crowd.tenants;
    let mut verdicts = verdicts(kept, tenants, crowd.shares.cores(tenants));
    verdicts.push(cost.verdict(1, &format!("{tenants} tenants")));
    let of = |value: fn(&Owed) -> f64| stats::summary(&kept.tenants.iter().map(value).collect::<Vec<_>>());
    let mut shares = Table::new(
        "While all compute, ms of processor a second",
        &["", "least of a tenant", "median", "most of a tenant"],
    );
    let rows: [(&str, fn(&Owed) -> f64); 3] =
        [("owed", |owed| owed.demanded), ("given", |owed| owed.given), ("missed", |owed| owed.missed)];
    for (name, value) in rows {
        let found = of(value);
        let cell = |value: f64| figure(value / kept.seconds * 1e3);
        shares.row(vec![name.into(), cell(found.least), cell(found.median), cell(found.most)]);
    }
    let mut costs = Table::new(
        "While all look up, medians of the rounds",
        &[
            "in force",
            "µs of the server's processor a transaction",
            "against best_effort (least to most)",
            "transactions a second",
            "cores",
        ],
    );
    for (rule, name) in RULES.iter().enumerate() {
        let mut row = vec![(*name).to_owned()];
        row.extend(cost.cells(rule));
        costs.row(row);
    }
    Section {
        id: "crowd".into(),
        title: format!("{tenants} tenants with promises, all at work"),
        text: format!(
            "{tenants} tenants on a server of {} worker{} on as many cores, {} and {TENANT_MIB} MiB promised to each, {} cores to \
             all together; one client each in a closed loop. First they compute ({}), so that all want more than there is: that \
             is what was kept. Then they look up one row at a time ({}), 20 ms after the last answer, so that the load has time left, under reservations and best_effort in turn, with the same promises: \
             that is what it costs.",
            crowd.workers,
            if crowd.workers == 1 { "" } else { "s" },
            crowd.shares.words(),
            figure(crowd.shares.all(tenants)),
            crowd.computing.setting(),
            crowd.looking_up.setting(),
        ),
        verdicts,
        plots: vec![
            Plot {
                title: "Processor time given to each tenant, beyond what it was owed".into(),
                x_label: "tenant".into(),
                y_label: "ms a second".into(),
                series: vec![Series {
                    name: "beyond".into(),
                    x_first: 1.0,
                    x_step: 1.0,
                    values: kept
                        .tenants
                        .iter()
                        .map(|owed| (owed.given - owed.demanded) / kept.seconds * 1e3)
                        .collect(),
                }],
                smoothed_over: 1,
                ..Plot::default()
            },
            Plot {
                title: "The server's processor time a transaction".into(),
                x_label: "round".into(),
                y_label: "µs".into(),
                series: cost.series(),
                smoothed_over: 1,
                ..Plot::default()
            },
        ],
        tables: vec![shares, costs],
        notes: vec![format!(
            "While all computed, the server used {} of its cores.",
            percent(kept.busy, false)
        )],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Outcome;

    #[test]
    fn promises_are_whole_thousandths_and_leave_the_server_its_own() {
        let of = |workers, tenants| {
            let shares = Shares::of(workers, tenants);
            (shares.cores(1), shares.cores(tenants), shares.all(tenants))
        };
        assert_eq!(of(1, 500), (0.002, 0.001, 0.8));
        assert_eq!(of(2, 500), (0.004, 0.003, 1.6));
        assert_eq!(of(1, 20), (0.04, 0.04, 0.8));
        assert_eq!(of(1, 5000), (0.001, 0.001, 5.0), "none is promised nothing");
        assert_eq!(Shares::of(1, 500).words(), "0.002 cores (the first 300) or 0.001");
    }

    #[test]
    fn a_promise_that_was_broken_once_is_not_kept() {
        use Outcome::{Met, Missed, Void};
        let row = |tenant: &str, missed: f64| ledger::Row {
            tenant: tenant.into(),
            began_us: 0,
            ended_us: ledger::INTERVAL_US,
            active: 1.0,
            promised: 0.01,
            demanded: 0.01,
            given: 0.01 - missed,
            missed,
            cause: String::new(),
        };
        let kept = |missed: [f64; 3], busy: f64, others: usize| {
            let rows = [row("t1", missed[0]), row("t2", missed[1]), row("t1", missed[2]), row("system", 0.5)];
            let kept = Kept { seconds: 2.0, busy, tenants: owed(&rows), others };
            verdicts(&kept, 2, 0.01).iter().map(|verdict| verdict.outcome).collect::<Vec<_>>()
        };
        assert_eq!(kept([0.0; 3], 1.0, 0), [Met; 3]);
        assert_eq!(kept([0.0, 0.0, 0.000_6], 1.0, 1), [Missed; 3]);
        // A little in each interval is within a quantum and more than a percent.
        assert_eq!(kept([0.0, 0.000_4, 0.0], 1.0, 0), [Met, Missed, Met]);
        assert_eq!(kept([0.0; 3], 0.9, 0), [Void; 3]);
        let one = Kept { seconds: 2.0, busy: 1.0, tenants: owed(&[row("t1", 0.0)]), others: 0 };
        assert_eq!(verdicts(&one, 2, 0.01)[0].outcome, Void, "a tenant is missing");
        let rows = [row("t1", 0.0), row("t2", 0.0)];
        let both = |seconds, least| {
            let kept = Kept { seconds, busy: 1.0, tenants: owed(&rows), others: 0 };
            verdicts(&kept, 2, least)[0].outcome
        };
        assert_eq!(both(2.0, 0.01), Met);
        assert_eq!(both(2.0, 0.012), Void, "they wanted less than was promised");
        assert_eq!(both(10.0, 0.01), Void, "nine seconds are missing");
    }
}
