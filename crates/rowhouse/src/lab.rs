//! `rowhouse lab`: the experiments of the papers, with a report each.

use std::path::PathBuf;

use ::lab::sqlvm::{Experiment, Options};
use ::lab::world::{Cores, clock};
use clap::{Parser, Subcommand};
use workloads::Error;

#[derive(Parser)]
#[command(after_help = "\
Servers are started by the command itself, on free ports, with their data in a temporary directory that is gone afterwards.
Ctrl-C ends them, and the report keeps what was measured until then. docs/lab.md says what is measured, and what the JSON is.")]
pub(crate) struct Args {
    #[command(subcommand)]
    paper: Paper,
}

#[derive(Subcommand)]
enum Paper {
    /// Performance isolation (SQLVM): promises kept, neighbours not noticed, shortfalls on the ledger
    #[command(subcommand)]
    Sqlvm(Sqlvm),
}

#[derive(Subcommand)]
enum Sqlvm {
    /// Figure 4: promised I/Os and processor time are given
    ///
    /// Parts: figure-4 (two tenants, 20 min and as much without a maximum), tenants (2 to 32, 5 min), cpu (half a worker against 24
    /// tenants, 3 min a repetition). Without the analytical path it reads /metrics instead of the ledger.
    Reservations(Common),
    /// Figure 5 and table 1: one tenant beside its neighbours, under three policies
    ///
    /// Parts: figure-5 (TPC-C while three others arrive, 70 min), table-1 (24 neighbours, 93 min), workloads (each other one as
    /// T1, 210 min), postgres (the first two on PostgreSQL, 110 min). Times are for one repetition, without loading. Needs a build
    /// with the analytical path; the postgres part needs PostgreSQL under /usr/lib/postgresql and, for its control groups, root.
    Isolation(Common),
    /// Figures 6 and 7: eight tenants on a volume that was promised twice over, and what the ledger says of it
    ///
    /// Takes 15 min and loading. Needs a build with the analytical path.
    Metering(Common),
    /// Promised memory: pages and working memory beside neighbours that want all, and what comes back after a loan
    ///
    /// Parts: buffer (beside a scanning neighbour, 9 min a repetition), working (beside eight sorting ones, some 15 min), lent (an idle
    /// tenant's return, 3 min a repetition). Needs a build with the analytical path.
    Memory(Common),
    /// What promises cost: to a server with 500 of them, to others where one tenant is hostile, to one that is alone
    ///
    /// Parts: crowd (500 tenants, one worker for each of --server-cores, 6 min), hostile (17 min a repetition; takes some GB of memory and
    /// disk), governor (TPC-C and pgbench -S, 14 min a repetition). The first two need a build with the analytical path.
    Cost(Common),
}

#[derive(clap::Args)]
struct Common {
    /// Folder for report.html and report.json [default: lab-EXPERIMENT-TIME here]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// A part of the experiment only; repeatable
    #[arg(long, value_name = "NAME")]
    part: Vec<String>,
    /// Small populations and short durations: minutes, to see that it works. Not a measurement, and marked so
    #[arg(long)]
    quick: bool,
    /// Part of the paper's durations (0.001 to 10); anything but 1 is marked
    #[arg(long, value_name = "FACTOR", value_parser = factor)]
    duration: Option<f64>,
    /// Part of the full populations (0.001 to 1)
    #[arg(long, value_name = "FACTOR", value_parser = part)]
    population: Option<f64>,
    /// Runs of what is repeated (each policy, each promise, each attack); medians are told, with least and most
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=100))]
    repetitions: u16,
    /// Cores for the server, as in 0-2,5 [default: the first one]
    #[arg(long, value_name = "CORES")]
    server_cores: Option<Cores>,
    /// Cores for the load [default: all that the server has not]
    #[arg(long, value_name = "CORES")]
    load_cores: Option<Cores>,
    /// Another build to measure [default: this one]
    #[arg(long, value_name = "FILE")]
    server_binary: Option<PathBuf>,
    /// Folder for the servers' data, best on the disk that counts [default: the system's for temporary files]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Seed of everything random
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn factor(text: &str) -> Result<f64, String> {
    let factor: f64 = text.parse().map_err(|_| "not a number")?;
    if (0.001..=10.0).contains(&factor) { Ok(factor) } else { Err("not from 0.001 to 10".into()) }
}

fn part(text: &str) -> Result<f64, String> {
    factor(text).ok().filter(|part| *part <= 1.0).ok_or_else(|| "not a number from 0.001 to 1".into())
}

impl Common {
    fn options(&self, experiment: Experiment) -> Result<Options, Error> {
        let name = format!("lab-{}-{}", experiment.name(), clock::stamp(clock::now_us()));
        let or_quick = |given: Option<f64>, quick: f64| given.unwrap_or(if self.quick { quick } else { 1.0 });
        Ok(Options {
            experiment,
            only: self.part.clone(),
            out: self.out.clone().unwrap_or_else(|| PathBuf::from(name)),
            server_binary: self.server_binary.clone().map_or_else(std::env::current_exe, Ok)?,
            data_dir: self.data_dir.clone(),
            server_cores: self.server_cores.clone(),
            load_cores: self.load_cores.clone(),
            quick: self.quick,
            duration_factor: or_quick(self.duration, Options::QUICK_DURATION_FACTOR),
            population_factor: or_quick(self.population, Options::QUICK_POPULATION_FACTOR),
            repetitions: usize::from(self.repetitions),
            seed: self.seed,
        })
    }
}

/// Runs the command to its end.
pub(crate) fn run(args: &Args) -> Result<(), Error> {
    let Paper::Sqlvm(experiment) = &args.paper;
    let (experiment, common) = match experiment {
        Sqlvm::Reservations(common) => (Experiment::Reservations, common),
        Sqlvm::Isolation(common) => (Experiment::Isolation, common),
        Sqlvm::Metering(common) => (Experiment::Metering, common),
        Sqlvm::Memory(common) => (Experiment::Memory, common),
        Sqlvm::Cost(common) => (Experiment::Cost, common),
    };
    ::lab::sqlvm::run(&common.options(experiment)?)
}
