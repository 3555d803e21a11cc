//! What every part of an experiment has: cores, a folder for data, progress on the terminal, the report as far as it is.

use std::io::IsTerminal as _;
use std::path::Path;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use tempfile::TempDir;

use super::options::{Options, Part};
use crate::Result;
use crate::report::{Fact, Report, SCHEMA, Section, Status};
use crate::world::machine::Machine;
use crate::world::process::Scheduling;
use crate::world::{Cores, clock, pinning, rowhouse};

/// More of a core used by the load, which is one thread, and clients waited for themselves.
pub(super) const LOAD_BUSY: f64 = 0.9;

/// An experiment that is under way.
pub(super) struct Stage {
    pub(super) options: Options,
    pub(super) server_cores: Cores,
    report: Report,
    bar: ProgressBar,
    part: &'static str,
    part_begun: tokio::time::Instant,
}

impl Stage {
    /// Looks whether everything is there, puts this process on the cores of the load, and writes a first report.
    pub(super) fn ready(options: &Options) -> Result<Stage> {
        let version = rowhouse::version(&options.server_binary)?;
        let (server_cores, load_cores) =
            pinning::split(&Cores::allowed()?, options.server_cores.clone(), options.load_cores.clone())?;
        load_cores.take_this_process()?;
        let data = options.data_dir.clone().unwrap_or_else(std::env::temp_dir);
        let setting = vec![
            Fact::new(
                "Server",
                format!(
                    "{version} ({}), one worker unless a part says otherwise",
                    options.server_binary.display()
                ),
            ),
            Fact::new("Cores", format!("servers on {server_cores}, load on {load_cores}")),
            Fact::new("Durability", "each commit is on the device before its reply, on both servers"),
            Fact::new(
                "Populations",
                format!("{} of the full ones; each part says which", options.population_factor),
            ),
            Fact::new("Seed", options.seed),
            Fact::new("Priority", format!("{} of servers and load", Scheduling::own())),
        ];
        let report = Report {
            schema: SCHEMA.into(),
            experiment: format!("sqlvm {}", options.experiment.name()),
            title: options.experiment.title().into(),
            lead: options.experiment.lead().into(),
            status: Status::Running { part: "the first part".into() },
            quick: options.quick,
            duration_factor: options.duration_factor,
            repetitions: options.repetitions,
            began_us: clock::now_us(),
            written_us: clock::now_us(),
            machine: Machine::of(&data),
            setting,
            sections: Vec::new(),
        };
        report.write(&options.out)?;
        let bar = ProgressBar::new(0);
        bar.set_style(ProgressStyle::with_template("{prefix} [{bar:24}] {pos}/{len} s · {msg}")?);
        bar.enable_steady_tick(Duration::from_secs(1));
        let (part, part_begun) = ("", tokio::time::Instant::now());
        Ok(Stage { options: options.clone(), server_cores, report, bar, part, part_begun })
    }

    /// A folder for a server's data, gone when dropped. Servers of other users may go through it.
    pub(super) fn folder(&self) -> Result<TempDir> {
        use std::os::unix::fs::PermissionsExt as _;
        let mut builder = tempfile::Builder::new();
        builder.prefix("rowhouse-lab-").permissions(std::fs::Permissions::from_mode(0o755));
        let place = self.options.data_dir.clone().unwrap_or_else(std::env::temp_dir);
        builder
            .tempdir_in(&place)
            .map_err(|error| format!("cannot make a folder in {}: {error}", place.display()).into())
    }

    /// Begins a part.
    pub(super) fn begin(&mut self, part: Part) -> Result<()> {
        self.part = part.name();
        self.part_begun = tokio::time::Instant::now();
        self.bar.set_prefix(self.part);
        self.bar.set_length(0);
        self.report.status = Status::Running { part: self.part.into() };
        self.write()
    }

    /// Says how long the measured time of the part will be; loading comes on top.
    pub(super) fn will_take(&self, measured: Duration) {
        self.bar.set_position(0);
        self.bar.set_length(measured.as_secs());
        let minutes = measured.as_secs_f64() / 60.0;
        self.say(&format!("measures for {minutes:.1} minutes, after loading"));
    }

    /// Tells what is going on.
    pub(super) fn say(&self, what: &str) {
        self.bar.set_message(what.to_owned());
        if !std::io::stderr().is_terminal() {
            eprintln!("{:>5.0} s {}: {what}", self.part_begun.elapsed().as_secs_f64(), self.part);
        }
    }

    /// What a load tells of itself.
    pub(super) fn loading(&self, what: &str, sent: u64, total: u64) {
        self.bar.set_message(format!("loading {what}: {} %", sent * 100 / total.max(1)));
    }

    /// Lets measured time pass.
    pub(super) async fn pass(&self, time: Duration) {
        let until = tokio::time::Instant::now() + time;
        loop {
            let left = until.saturating_duration_since(tokio::time::Instant::now());
            if left.is_zero() {
                return;
            }
            let step = left.min(Duration::from_secs(1));
            tokio::time::sleep(step).await;
            self.bar.inc(step.as_millis() as u64 / 1000);
        }
    }

    /// Adds what a part has found; it is on disk then.
    pub(super) fn add(&mut self, section: Section) -> Result<()> {
        for verdict in &section.verdicts {
            self.say(&format!("{}: {} ({})", verdict.outcome, verdict.demand, verdict.measured));
        }
        self.report.sections.push(section);
        self.write()
    }

    /// Adds to what has to be known to do it again.
    pub(super) fn note_setting(&mut self, name: &str, value: impl ToString) {
        if !self.report.setting.iter().any(|fact| fact.name == name) {
            self.report.setting.push(Fact::new(name, value));
        }
    }

    pub(super) fn end_part(&mut self) -> Result<()> {
        self.say("done");
        self.write()
    }

    /// Writes the report for the last time.
    pub(super) fn finish(&mut self, status: Status) -> Result<()> {
        self.bar.finish_and_clear();
        self.report.status = status;
        self.write()?;
        for (section, verdict) in self.report.verdicts() {
            println!(
                "{:<6} {section}: {} – {}",
                verdict.outcome.to_string(),
                verdict.demand,
                verdict.measured
            );
        }
        println!("{}", Report::page_in(&self.options.out).display());
        Ok(())
    }

    fn write(&mut self) -> Result<()> {
        self.report.written_us = clock::now_us();
        self.report.write(Path::new(&self.options.out))
    }
}
