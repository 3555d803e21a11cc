//! A hostile tenant, and what it costs two others that have promises.
//!
//! It attacks for some seconds and does nothing for as long, again and again: what a transaction costs on a shared machine drifts within minutes by
//! more than what is looked for.

use std::time::Duration;

use workloads::cpuio::Cpuio;
use workloads::load::{Live, Pace};
use workloads::target::Target;
use workloads::tpcc::{self, Tpcc};

use super::attacks::{Attack, HOSTILE, PASSWORD};
use super::interleaved;
use super::verdicts::{Measured, Trial, Window, costs, verdicts};
use crate::Result;
use crate::report::{Mark, Plot, Section, Series, Table, Verdict, figure, percent};
use crate::sqlvm::actors::{Acting, Actor, Part};
use crate::sqlvm::careless::Ended;
use crate::sqlvm::host::{Host, Promise};
use crate::sqlvm::stage::Stage;
use crate::stats;
use crate::world::process::Scheduling;
use crate::world::sampler::{Sampler, Samples};
use crate::world::{clock, process};

/// Of a window with an attack, and of one without.
const SECONDS: f64 = 8.0;
/// From a window's beginning to what is measured.
const SETTLE_SECONDS: f64 = 2.0;
/// Windows with each attack in a full run.
const ROUNDS: f64 = 6.0;
/// Disk space is promised to nobody: the hostile tenant's is limited, and nothing else of it.
const HOSTILE_LIMITS: &str = "temp_max = '4GiB', storage_max = '4GiB'";
/// How long its sessions have to end once its clients hung up, before its statements are ended by a timeout.
const GONE_WAIT: Duration = Duration::from_secs(10);
const GONE_WAIT_MAX: Duration = Duration::from_secs(120);

/// One that is to notice nothing.
struct Other {
    name: &'static str,
    actor: Actor,
    clients: usize,
    /// Cores promised.
    cpu: f64,
    memory_mib: u64,
}

fn others(stage: &Stage) -> Result<[Other; 2]> {
    let tpcc =
        Tpcc { scale: tpcc::Scale::new(2, stage.options.population_factor.min(1.0))?, foreign_keys: false };
    Ok([
        Other { name: "orders", actor: Actor::Tpcc(tpcc), clients: 8, cpu: 0.4, memory_mib: 1024 },
        Other { name: "reads", actor: Actor::select_only(1), clients: 4, cpu: 0.2, memory_mib: 64 },
    ])
}

impl Other {
    /// By itself it has its reservation of processor time and no more, as T1 has in figure 5 and table 1; beside the hostile tenant it has no limit, as
    /// T1 beside its neighbours.
    fn promise(&self, is_attacked: bool) -> Promise {
        Promise {
            cpu: Some(self.cpu),
            cpu_max: (!is_attacked).then_some(self.cpu),
            iops: Some(1_000),
            memory_mib: Some(self.memory_mib),
            work_memory_mib: Some(16),
            ..Promise::default()
        }
    }
}

/// Core-seconds, and seconds that tasks waited for their turns.
struct Spent {
    used: f64,
    waited: f64,
}

/// Everybody at work.
struct Scene {
    host: Host,
    others: [Other; 2],
    acting: Vec<Acting>,
    sampler: Sampler,
    began_us: u64,
    notes: Vec<String>,
}

pub(in crate::sqlvm) async fn part(stage: &mut Stage) -> Result<()> {
    let (time, settle) = (stage.options.time(SECONDS), stage.options.time(SETTLE_SECONDS));
    let rounds = interleaved::rounds(stage, ROUNDS);
    let windows = 2 * Attack::ALL.len() * rounds + 1;
    stage.will_take((time + settle) * windows as u32);
    let mut scene = Scene::ready(stage).await?;
    let (mut trials, mut marks, mut failure) = (Vec::new(), Vec::new(), None);
    let mut before = scene.window(stage, None).await?;
    for (attack, round) in
        Attack::ALL.into_iter().flat_map(|attack| (0..rounds).map(move |round| (attack, round)))
    {
        if round == 0 {
            marks.push(Mark { x: scene.seconds(), name: String::new() });
        }
        let during = scene.attack(stage, attack).await?;
        failure = scene.failure().await.map(|why| format!("{}: {why}", attack.name()));
        if failure.is_some() {
            break;
        }
        let after = scene.window(stage, None).await?;
        trials.push(Trial { attack, before, during, after: after.clone() });
        before = after;
    }
    let section = section(&scene, &trials, marks, failure);
    drop(scene.acting);
    scene.host.stop().await?;
    stage.add(section)
}

impl Scene {
    async fn ready(stage: &mut Stage) -> Result<Scene> {
        let host = Host::rowhouse(stage, &[]).await?;
        host.need_ledger("a hostile tenant, whose statements are analytical,")?;
        stage.note_setting("Versions", host.label().await?);
        let others = others(stage)?;
        for other in &others {
            host.create(other.name).await?;
            other.actor.load(stage, &host.url(other.name)).await?;
            host.promise(other.name, other.promise(false), 1).await?;
        }
        let create =
            format!("create tenant {HOSTILE} with ({HOSTILE_LIMITS}) owner {HOSTILE} password '{PASSWORD}'");
        host.admin.batch_execute(&create).await?;
        let table = Cpuio { rows: stage.options.amount(100_000, 20_000), ..Actor::cpuio("scan=1")? };
        Actor::Cpuio(table).load(stage, &host.ours()?.url_of(HOSTILE, PASSWORD, HOSTILE)).await?;
        host.quiet(stage).await?;
        let names: Vec<String> = others.iter().map(|other| other.name.to_owned()).collect();
        let sampler = host.sampler(&names).await?;
        let mut acting = Vec::new();
        for other in &others {
            let target = Target::new(&host.url(other.name), None)?;
            let part = Part::endless(other.clients, Pace::Closed, stage.options.seed);
            let mut clients = other.actor.act_on(target, part, Live::with_latencies());
            clients.at_work().await?;
            sampler.watch(other.name, &clients.live);
            acting.push(clients);
        }
        Ok(Scene { host, others, acting, sampler, began_us: clock::now_us(), notes: Vec::new() })
    }

    fn seconds(&self) -> f64 {
        (clock::now_us() - self.began_us) as f64 / 1e6
    }

    /// What the others do for a time, beside an attack or without.
    async fn window(&self, stage: &Stage, attack: Option<Attack>) -> Result<Window> {
        stage.say(attack.map_or("nobody attacks", Attack::name));
        for other in &self.others {
            self.host.promise(other.name, other.promise(attack.is_some()), 1).await?;
        }
        let (began, (cpu_before, bytes_before)) = (tokio::time::Instant::now(), self.hostile().await?);
        let attacking = match attack {
            Some(attack) => Some(attack.begin(&self.host)?),
            None => None,
        };
        stage.pass(stage.options.time(SETTLE_SECONDS)).await;
        let load_cpu = || process::cpu_seconds(std::process::id());
        let (spent_from, spent_before) = self.spent_by_others().await?;
        self.acting.iter().for_each(|clients| drop(clients.live.take_latencies()));
        let (from, server, load) = (clock::now_us(), self.host.cpu_seconds(), load_cpu());
        stage.pass(stage.options.time(SECONDS)).await;
        let to = clock::now_us();
        let seconds = (to - from) as f64 / 1e6;
        let measured = self.acting.iter().map(|clients| {
            let latencies = clients.live.take_latencies();
            Measured {
                per_second: latencies.count() as f64 / seconds,
                p99_ms: latencies.quantile_ms(0.99),
                ..Measured::default()
            }
        });
        let mut window = Window {
            others: measured.collect(),
            server_cores: (self.host.cpu_seconds() - server) / seconds,
            load_cores: (load_cpu() - load) / seconds,
            ..Window::default()
        };
        // Asked last: a busy server may take its time to answer.
        let (spent_to, spent) = self.spent_by_others().await?;
        let spent_for = (spent_to - spent_from).as_secs_f64();
        for (of, (spent, before)) in window.others.iter_mut().zip(spent.iter().zip(spent_before)) {
            of.cores = (spent.used - before.used) / spent_for;
            of.waiting = (spent.waited - before.waited) / spent_for;
        }
        let (cpu, bytes) = self.hostile().await?;
        let seconds = began.elapsed().as_secs_f64();
        window.hostile_cores = (cpu - cpu_before) / seconds;
        window.hostile_bytes = (bytes - bytes_before) / seconds;
        window.ended = attacking.map(|attacking| attacking.ended()).unwrap_or_default();
        Ok(window)
    }

    /// What each of the others took so far, and when that was.
    async fn spent_by_others(&self) -> Result<(tokio::time::Instant, Vec<Spent>)> {
        let metrics = self.host.metrics().await?;
        let of = |other: &Other| Spent {
            used: metrics.of(other.name, "cpu_seconds_total"),
            waited: metrics.waited(other.name, "runnable"),
        };
        Ok((tokio::time::Instant::now(), self.others.iter().map(of).collect()))
    }

    /// Core-seconds and bytes of the hostile tenant so far.
    async fn hostile(&self) -> Result<(f64, f64)> {
        let metrics = self.host.metrics().await?;
        Ok((metrics.of(HOSTILE, "cpu_seconds_total"), metrics.of(HOSTILE, "io_bytes_total")))
    }

    /// An attack, from its beginning until the last of its sessions has ended.
    async fn attack(&mut self, stage: &Stage, attack: Attack) -> Result<Window> {
        let window = self.window(stage, Some(attack)).await?;
        let hung_up = tokio::time::Instant::now();
        let set = async |timeout: &str| {
            let sql = format!("alter tenant {HOSTILE} set (statement_timeout = {timeout})");
            self.host.admin.batch_execute(&sql).await
        };
        let mut is_timed_out = false;
        while self.host.metrics().await?.of(HOSTILE, "sessions") > 0.0 {
            if hung_up.elapsed() > GONE_WAIT_MAX {
                return Err(format!("after {}, sessions did not end", attack.name()).into());
            }
            if hung_up.elapsed() > GONE_WAIT && !is_timed_out {
                is_timed_out = true;
                set("'1ms'").await?;
                self.notes.push(format!(
                    "{}: {} s after its clients had hung up the hostile tenant still had sessions; they were ended by a timeout.",
                    attack.name(),
                    GONE_WAIT.as_secs()
                ));
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        if is_timed_out {
            set("none").await?;
        }
        Ok(window)
    }

    /// Why clients of the others ended, if any did; theirs is not to notice anything.
    async fn failure(&mut self) -> Option<String> {
        for (number, other) in self.others.iter().enumerate() {
            if self.acting[number].has_ended() {
                let why = self.acting.remove(number).failure().await;
                return Some(format!("{}: {}", other.name, why.unwrap_or_else(|| "ended".into())));
            }
        }
        None
    }
}

fn section(scene: &Scene, trials: &[Trial], marks: Vec<Mark>, failure: Option<String>) -> Section {
    let names: Vec<&str> = scene.others.iter().map(|other| other.name).collect();
    let idle = Scheduling::own().is_idle();
    let why = idle.then_some("at idle priority a server's threads for queries go before its workers");
    let mut all = verdicts(trials, &names, why);
    all.push(Verdict::of(
        "no client of the others lost its connection or a statement",
        failure.clone().unwrap_or_else(|| "none".into()),
        failure.is_none(),
    ));
    let described: Vec<String> = scene
        .others
        .iter()
        .map(|other| {
            format!(
                "{} ({}, {}, {} clients, {} of the worker)",
                other.name,
                other.actor.name(),
                other.actor.setting(),
                other.clients,
                other.cpu
            )
        })
        .collect();
    let mut notes = scene.notes.clone();
    notes.push(
        "Windows in which the load's process used nine tenths of a core or more say nothing: then clients waited for themselves. Nor do those of \
         an attack that differ by so much that they do not say on which side of 5 % their median is."
            .into(),
    );
    notes.push(
        "A task is in line from when its worker has seen that it is ready until its turn. What a message waits before that, and an answer until it leaves, is \
         in no column."
            .into(),
    );
    Section {
        id: "hostile".into(),
        title: "A hostile tenant".into(),
        text: format!(
            "{}, each with a reservation of processor time, 1,000 I/Os a second and memory for its data promised, in closed \
             loops all the time. While nobody attacks, their reservation of processor time is their limit, as it is for T1 alone in figure 5; \
             beside an attack they have no limit. A third tenant, which is promised nothing and has no limits but {HOSTILE_LIMITS}, attacks in one way after \
             the other, each in several short windows; between two of them it does nothing, and a window is held against the mean of the one \
             before and the one after it. Medians of the windows are told.",
            described.join(" and ")
        ),
        verdicts: all,
        plots: vec![plot(scene, &scene.sampler.so_far(), marks)],
        tables: vec![costs_table(trials, &names), deeds(trials)],
        notes,
    }
}

fn costs_table(trials: &[Trial], names: &[&str]) -> Table {
    let mut table = Table::new(
        "The others, without and with each attack",
        &[
            "attack",
            "tenant",
            "transactions a second",
            "with it",
            "change",
            "p99 ms",
            "with it",
            "change",
            "its cores",
            "with it",
            "µs of them a transaction",
            "with it",
            "µs in line a transaction",
            "with it",
        ],
    );
    for (attack, of) in by_attack(trials) {
        let median_of = |value: &dyn Fn(&Trial) -> f64| {
            figure(stats::median(&of.iter().map(|trial| value(trial)).collect::<Vec<_>>()))
        };
        for (other, name) in names.iter().enumerate() {
            let changed = |change: fn(&Trial, usize) -> f64| {
                let (median, error) = costs(&of, other, change);
                format!("{} ± {}", percent(median, true), percent(error, false))
            };
            table.row(vec![
                attack.name().into(),
                (*name).into(),
                median_of(&|trial| trial.without(other).per_second),
                median_of(&|trial| trial.during.others[other].per_second),
                changed(Trial::throughput_change),
                median_of(&|trial| trial.without(other).p99_ms),
                median_of(&|trial| trial.during.others[other].p99_ms),
                changed(Trial::p99_change),
                median_of(&|trial| trial.without(other).cores),
                median_of(&|trial| trial.during.others[other].cores),
                median_of(&|trial| trial.without(other).cost_us()),
                median_of(&|trial| trial.during.others[other].cost_us()),
                median_of(&|trial| trial.without(other).waits_us()),
                median_of(&|trial| trial.during.others[other].waits_us()),
            ]);
        }
    }
    table
}

/// The attacks that were tried, each with its windows.
fn by_attack(trials: &[Trial]) -> impl Iterator<Item = (Attack, Vec<&Trial>)> {
    let of = |attack| trials.iter().filter(|trial| trial.attack == attack).collect::<Vec<_>>();
    Attack::ALL.into_iter().map(move |attack| (attack, of(attack))).filter(|(_, of)| !of.is_empty())
}

fn deeds(trials: &[Trial]) -> Table {
    let mut table = Table::new(
        "What the hostile tenant did, together and in the median window",
        &[
            "attack",
            "statements or logins",
            "its cores",
            "its MB a second",
            "the server's cores",
            "the load's cores",
        ],
    );
    for (attack, of) in by_attack(trials) {
        let median_of = |value: fn(&Window) -> f64| {
            figure(stats::median(&of.iter().map(|trial| value(&trial.during)).collect::<Vec<_>>()))
        };
        let mut ended = Ended::default();
        of.iter().for_each(|trial| ended.add(&trial.during.ended));
        table.row(vec![
            attack.name().into(),
            ended.words(),
            median_of(|window| window.hostile_cores),
            median_of(|window| window.hostile_bytes / 1e6),
            median_of(|window| window.server_cores),
            median_of(|window| window.load_cores),
        ]);
    }
    table
}

fn plot(scene: &Scene, samples: &Samples, marks: Vec<Mark>) -> Plot {
    let of = |name: &str| samples.tenant_series(name, scene.began_us, u64::MAX, |counts| counts.transactions);
    let series =
        |other: &Other| Series { name: other.name.into(), x_first: 1.0, x_step: 1.0, values: of(other.name) };
    Plot {
        title: "Transactions of the others".into(),
        x_label: "seconds; another attack begins at each dotted line".into(),
        y_label: "a second".into(),
        series: scene.others.iter().map(series).collect(),
        marks,
        smoothed_over: 1,
        ..Plot::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alone_is_alone_with_the_reservation_as_its_limit() {
        let other =
            Other { name: "reads", actor: Actor::select_only(1), clients: 4, cpu: 0.2, memory_mib: 64 };
        let (alone, attacked) = (other.promise(false), other.promise(true));
        assert_eq!((alone.cpu, alone.cpu_max), (Some(0.2), Some(0.2)));
        assert_eq!(attacked, Promise { cpu_max: None, ..alone });
    }
}
