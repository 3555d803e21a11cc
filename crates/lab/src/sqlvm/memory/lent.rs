//! Memory that was lent while its tenant was idle: how soon it is back.

use std::time::Duration;

use super::pages::{LOOK_UP_ROWS, Pages, READER, SCANNER};
use crate::Result;
use crate::report::{Level, Mark, Plot, Section, Series, Table, Verdict, figure, percent};
use crate::sqlvm::stage::Stage;
use crate::stats;
use crate::world::clock;
use crate::world::sampler::Samples;

/// The reader's table, of its promised memory: it has room in it whole.
const TABLE: f64 = 0.75;
const WARM_UP_SECONDS: f64 = 60.0;
const IDLE_SECONDS: f64 = 60.0;
const RETURN_SECONDS: f64 = 60.0;
/// Memory that nobody uses is lent within ten seconds, however short the run is made.
const IDLE_SECONDS_MIN: f64 = 20.0;
/// What is measured of the end of the warm-up.
const BEFORE: f64 = 0.5;
/// How soon memory has to be back, and how much of what was there before.
const BACK_SECONDS_MAX: f64 = 10.0;
const BACK: f64 = 0.95;
/// More of it left at the tenant's return, and too little was lent.
const LENT_MIN: f64 = 0.25;
/// Less of its table touched within that time, and it has not asked for its memory.
const TOUCHED_MIN: f64 = 0.98;
/// Reads beyond those before, from then on, of the rows that are looked up.
const EXTRA_MAX: f64 = 0.05;

/// One return. Times are microseconds since 1970.
struct Return {
    began_us: u64,
    idle_us: u64,
    back_us: u64,
    ended_us: u64,
    samples: Samples,
    /// Why somebody's clients were not there all the time, if they were not.
    gone: Option<String>,
}

/// What a return comes to.
#[derive(Clone, Debug, Default)]
struct Found {
    /// Resident before, and at the return.
    before_bytes: f64,
    left_bytes: f64,
    /// From the return until it had enough of it; `None` if it never had.
    seconds: Option<f64>,
    /// Of its table, what was touched within the time that it has: at random, so some of it twice.
    touched: f64,
    /// Pages read a look-up before, and once the time is over.
    reads_before: f64,
    reads_after: f64,
    gone: Option<String>,
}

pub(in crate::sqlvm) async fn part(stage: &mut Stage) -> Result<()> {
    let [warm_up, idle, back] =
        [WARM_UP_SECONDS, IDLE_SECONDS, RETURN_SECONDS].map(|seconds| stage.options.time(seconds));
    let idle = idle.max(Duration::from_secs_f64(IDLE_SECONDS_MIN));
    let back = back.max(Duration::from_secs_f64(BACK_SECONDS_MAX * 1.5));
    let repetitions = stage.options.repetitions;
    stage.will_take((warm_up + idle + back) * repetitions as u32);
    let pages = Pages::ready(stage, TABLE).await?;
    pages.host.promise(READER, pages.promise(), 1).await?;
    let mut returns = Vec::new();
    for _ in 0..repetitions {
        pages.host.quiet(stage).await?;
        let sampler = pages.sampler().await?;
        let began_us = clock::now_us();
        let scanner = pages.scan(stage, &sampler).await?;
        stage.say("both at work");
        let reader = pages.read(stage, &sampler).await?;
        stage.pass(warm_up).await;
        let before = Pages::ended(READER, Some(reader)).await;
        let idle_us = clock::now_us();
        stage.say("T1 is idle");
        stage.pass(idle).await;
        stage.say("T1 is back");
        let back_us = clock::now_us();
        let reader = pages.read(stage, &sampler).await?;
        stage.pass(back).await;
        let ended_us = clock::now_us();
        let samples = sampler.finish();
        let after = [Pages::ended(READER, Some(reader)).await, Pages::ended(SCANNER, Some(scanner)).await];
        let gone = before.into_iter().chain(after.into_iter().flatten()).next();
        returns.push(Return { began_us, idle_us, back_us, ended_us, samples, gone });
    }
    let section = section(&pages, &returns);
    pages.host.stop().await?;
    stage.add(section)
}

impl Return {
    fn found(&self, rows: u64) -> Found {
        let resident =
            |from, to| self.samples.tenant_values(READER, from, to, |counts| counts.resident_bytes);
        let last = |values: Vec<(u64, f64)>| values.last().map_or(0.0, |(_, bytes)| *bytes);
        let before_bytes = last(resident(self.began_us, self.idle_us));
        let enough = BACK * before_bytes;
        let found = resident(self.back_us, self.ended_us).into_iter().find(|(_, bytes)| *bytes >= enough);
        let due_us = self.back_us + (BACK_SECONDS_MAX * 1e6) as u64;
        let measured_us = self.idle_us - ((self.idle_us - self.began_us) as f64 * BEFORE) as u64;
        let reads = |from, to| {
            let of = |value: fn(&crate::world::sampler::Counts) -> f64| {
                self.samples.tenant_rate(READER, from, to, value).unwrap_or(0.0)
            };
            stats::share(of(|counts| counts.pages_read), of(|counts| counts.transactions))
        };
        let asked = self
            .samples
            .tenant_rate(READER, self.back_us, due_us, |counts| counts.transactions)
            .unwrap_or(0.0);
        Found {
            before_bytes,
            left_bytes: last(resident(self.idle_us, self.back_us)),
            seconds: found.map(|(at, _)| (at - self.back_us) as f64 / 1e6),
            touched: touched(asked * BACK_SECONDS_MAX * LOOK_UP_ROWS as f64, rows_a_page(), rows),
            reads_before: reads(measured_us, self.idle_us),
            reads_after: reads(due_us, self.ended_us),
            gone: self.gone.clone(),
        }
    }
}

/// Rows of CPUIO on a page.
fn rows_a_page() -> f64 {
    8192.0 / super::pages::STORED_ROW_BYTES as f64
}

/// Of a table of so many rows, the pages that so many rows drawn at random lie on.
fn touched(drawn: f64, rows_a_page: f64, rows: u64) -> f64 {
    1.0 - (-drawn * rows_a_page / rows as f64).exp()
}

impl Found {
    /// Why it says nothing of a return, if it does not.
    fn says_nothing(&self) -> Option<String> {
        if self.gone.is_some() {
            return self.gone.clone();
        }
        let lent = 1.0 - stats::share(self.left_bytes, self.before_bytes);
        if self.before_bytes == 0.0 || lent < LENT_MIN {
            return Some(format!("{} of its memory was lent", percent(lent, false)));
        }
        (self.touched < TOUCHED_MIN).then(|| {
            format!("it touched {} of its pages in {BACK_SECONDS_MAX} s", percent(self.touched, false))
        })
    }
}

/// Of several returns the slowest is told, and none may be void.
fn verdicts(found: &[Found]) -> Vec<Verdict> {
    let void = found.iter().find_map(Found::says_nothing);
    let slowest = found.iter().map(|found| found.seconds.unwrap_or(f64::INFINITY)).fold(0.0, f64::max);
    let measured = if slowest.is_finite() { format!("{slowest:.1} s") } else { "never".into() };
    let extra = |found: &Found| (found.reads_after - found.reads_before) / LOOK_UP_ROWS as f64;
    let most = found.iter().map(extra).fold(f64::NEG_INFINITY, f64::max);
    vec![
        Verdict::of(
            format!(
                "{} of the memory it had is back within {BACK_SECONDS_MAX} s of its return",
                percent(BACK, false)
            ),
            measured,
            slowest <= BACK_SECONDS_MAX,
        )
        .unless(void.as_deref()),
        Verdict::of(
            format!("from {BACK_SECONDS_MAX} s on, reads at most as before and 5 % of the rows it looks up"),
            percent(most, true),
            most <= EXTRA_MAX,
        )
        .unless(void.as_deref()),
    ]
}

fn section(pages: &Pages, returns: &[Return]) -> Section {
    let found: Vec<Found> = returns.iter().map(|one| one.found(pages.reader.rows)).collect();
    let mut table = Table::new(
        "Each return",
        &[
            "return",
            "MiB before",
            "left at the return",
            "seconds until 95 % were back",
            "touched in 10 s",
            "reads a look-up before",
            "from 10 s on",
        ],
    );
    let mib = |bytes: f64| figure(bytes / 1_048_576.0);
    for (number, found) in found.iter().enumerate() {
        table.row(vec![
            (number + 1).to_string(),
            mib(found.before_bytes),
            mib(found.left_bytes),
            found.seconds.map_or("never".into(), |seconds| format!("{seconds:.1}")),
            percent(found.touched, false),
            figure(found.reads_before),
            figure(found.reads_after),
        ]);
    }
    let plots = returns.first().map(|first| plot(pages, first));
    Section {
        id: "lent".into(),
        title: "Memory lent by an idle tenant".into(),
        text: format!(
            "T1 looks up rows at random in a table that has room in its promised {} MiB ({}), beside a neighbour that scans four times \
             the server's {} MiB all the time. T1's clients leave, its memory is lent, and they come back. Resident is what the \
             server says of T1 once a second.",
            pages.promised_mib,
            crate::sqlvm::actors::Actor::Cpuio(pages.reader).setting(),
            pages.server_mib,
        ),
        verdicts: verdicts(&found),
        plots: plots.into_iter().collect(),
        tables: vec![table],
        notes: vec![format!(
            "A run says nothing where less than {} of T1's memory was lent, or where T1 came to touch less than {} of its pages in {BACK_SECONDS_MAX} s: \
             it cannot have back what it did not ask for. What was touched is reckoned from its look-ups, which are at random.",
            percent(LENT_MIN, false),
            percent(TOUCHED_MIN, false)
        )],
    }
}

fn plot(pages: &Pages, shown: &Return) -> Plot {
    let seconds = |us: u64| (us - shown.began_us) as f64 / 1e6;
    let of = |tenant: &str| -> Vec<f64> {
        let values = shown
            .samples
            .tenant_values(tenant, shown.began_us, shown.ended_us, |counts| counts.resident_bytes);
        values.into_iter().map(|(_, bytes)| bytes / 1_048_576.0).collect()
    };
    let series = |name: &str, values| Series { name: name.into(), x_first: 1.0, x_step: 1.0, values };
    Plot {
        title: "Memory of both tenants' pages, first return".into(),
        x_label: "seconds".into(),
        y_label: "MiB".into(),
        series: vec![series("T1", of(READER)), series("the scanner", of(SCANNER))],
        promised: vec![Level {
            name: "promised to T1".into(),
            y: pages.promised_mib as f64,
            x_from: 0.0,
            x_to: seconds(shown.ended_us),
        }],
        marks: vec![
            Mark { x: seconds(shown.idle_us), name: "idle".into() },
            Mark { x: seconds(shown.back_us), name: "back".into() },
        ],
        smoothed_over: 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Outcome;

    fn found(seconds: Option<f64>) -> Found {
        Found {
            before_bytes: 100.0,
            left_bytes: 10.0,
            seconds,
            touched: 0.99,
            reads_before: 0.1,
            reads_after: 0.2,
            gone: None,
        }
    }

    fn outcomes(found: &[Found]) -> Vec<Outcome> {
        verdicts(found).iter().map(|verdict| verdict.outcome).collect()
    }

    #[test]
    fn the_slowest_return_counts() {
        use Outcome::{Met, Missed, Void};
        assert_eq!(outcomes(&[found(Some(3.0)), found(Some(9.0))]), [Met, Met]);
        assert_eq!(outcomes(&[found(Some(3.0)), found(Some(10.5))]), [Missed, Met]);
        assert_eq!(outcomes(&[found(None), found(Some(1.0))]), [Missed, Met]);
        let reads = Found { reads_after: 0.7, ..found(Some(1.0)) };
        assert_eq!(outcomes(&[reads]), [Met, Missed], "half a row more of ten is 5 %, six tenths are not");
        let kept = Found { left_bytes: 90.0, ..found(Some(0.0)) };
        assert_eq!(outcomes(&[found(Some(1.0)), kept]), [Void, Void], "nothing was lent");
        let idle = Found { touched: 0.5, ..found(None) };
        assert_eq!(outcomes(&[idle]), [Void, Void], "it did not ask");
        let gone = Found { gone: Some("the connection broke".into()), ..found(Some(1.0)) };
        assert_eq!(outcomes(&[found(Some(1.0)), gone]), [Void, Void], "nobody kept its memory from it");
    }

    #[test]
    fn what_is_touched_at_random_is_less_than_what_is_drawn() {
        assert_eq!(touched(0.0, 20.0, 1000), 0.0);
        // As many draws as there are pages leave one in e.
        assert!((touched(50.0, 20.0, 1000) - (1.0 - (-1f64).exp())).abs() < 1e-12);
    }
}
