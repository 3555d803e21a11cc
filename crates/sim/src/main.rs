//! Long campaigns from the command line.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use sim::progress::Progress;
use sim::whole::{Governed, Kept, Promised, Whole};
use sim::{Campaign, Failure, Tally, plan};

/// Runs simulated servers through faults and power cuts and checks what is left after each.
///
/// A failure names its seed; `--seed N` runs it again, exactly.
#[derive(Parser)]
struct Args {
    /// Whole servers, over the wire, instead of storage and tenants
    #[arg(long)]
    whole: bool,
    /// Beside their other work sums are asked of the analytical path
    #[arg(long, requires = "whole")]
    analytic: bool,
    /// Whole servers whose promises of this are judged
    #[arg(long, conflicts_with_all = ["whole", "progress", "trace"])]
    governed: Option<Promised>,
    /// They keep no promises, which is to be found
    #[arg(long, requires = "governed")]
    keep_nothing: bool,
    /// Only this seed
    #[arg(long, conflicts_with_all = ["seeds", "progress"])]
    seed: Option<u64>,
    /// Print troubles, ends and disk operations of the seed
    #[arg(long, requires = "seed")]
    trace: bool,
    /// Seeds in all; those that the progress file has done are not run again
    #[arg(long, default_value_t = 1000)]
    seeds: u64,
    /// Where to note what is done, to go on from there the next time
    #[arg(long)]
    progress: Option<PathBuf>,
    /// Lives of a server in each seed, one after the other on the same disk
    #[arg(long, default_value_t = plan::LIVES)]
    lives: u64,
    /// Every so many seeds one is run twice, and must end in the same disk
    #[arg(long, default_value_t = 25)]
    twice_every: u64,
}

/// The engine of analytical queries, in builds that have one.
#[cfg(feature = "analytic")]
const ANALYTIC: Option<server::AnalyticRun> = Some(analytic::run_controlled);
#[cfg(not(feature = "analytic"))]
const ANALYTIC: Option<server::AnalyticRun> = None;

/// How often the progress file is written, in seeds.
const NOTED_EVERY: u64 = 100;

fn main() -> ExitCode {
    let args = Args::parse();
    if args.analytic && ANALYTIC.is_none() {
        eprintln!("this build has no analytical path");
        return ExitCode::FAILURE;
    }
    if let Some(promised) = args.governed {
        return governed(&args, promised);
    }
    if let Some(seed) = args.seed {
        return replay(&args, seed);
    }
    match campaign(&args) {
        Ok(progress) => {
            println!("{progress}");
            if progress.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("the progress cannot be kept: {error}");
            ExitCode::FAILURE
        }
    }
}

impl Args {
    fn run(&self, seed: u64) -> Result<Tally, Failure> {
        let (lives, traced) = (self.lives, self.trace);
        if self.whole {
            let whole = match ANALYTIC.filter(|_| self.analytic) {
                Some(engine) => Whole::with_queries(seed, engine),
                None => Whole::of(seed),
            };
            return Whole { lives, traced, ..whole }.run();
        }
        plan::run(Campaign { lives, traced, ..plan::campaign(seed) })
    }
}

fn governed(args: &Args, promised: Promised) -> ExitCode {
    let (mut total, mut failed) = (Kept::default(), 0);
    let (first, last) = args.seed.map_or((1, args.seeds), |seed| (seed, seed));
    let bar = bar(last + 1 - first);
    for seed in first..=last {
        match (Governed { seed, promised, keeps_nothing: args.keep_nothing }).run() {
            Ok(kept) => total.add(&kept),
            Err(failure) => {
                failed += 1;
                bar.suspend(|| eprintln!("FAILED {failure}"));
            }
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    println!("{} seeds, {failed} failed; {total}", last + 1 - first);
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn replay(args: &Args, seed: u64) -> ExitCode {
    match args.run(seed) {
        Ok(tally) => {
            println!("seed {seed}: {tally}; disk {:016x}", tally.disk_hash);
            ExitCode::SUCCESS
        }
        Err(failure) => {
            eprintln!("FAILED {failure}");
            ExitCode::FAILURE
        }
    }
}

fn campaign(args: &Args) -> std::io::Result<Progress> {
    let disk = env::Env::real().disk;
    let mut progress = match &args.progress {
        Some(file) => Progress::read(&*disk, file)?,
        None => Progress::default(),
    };
    let bar = bar(args.seeds);
    while progress.seeds < args.seeds {
        let seed = progress.seeds + 1;
        let twice = seed.is_multiple_of(args.twice_every.max(1));
        progress.run(seed, twice, || args.run(seed));
        if let Some(failure) = progress.failures.last().filter(|failure| failure.seed == seed) {
            bar.suspend(|| eprintln!("FAILED {failure}"));
        }
        bar.set_position(progress.seeds);
        bar.set_message(format!("{} failed", progress.failures.len()));
        if progress.seeds.is_multiple_of(NOTED_EVERY) || progress.seeds == args.seeds {
            args.progress.as_ref().map_or(Ok(()), |file| progress.write(&*disk, file))?;
        }
    }
    bar.finish_and_clear();
    Ok(progress)
}

fn bar(seeds: u64) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} seeds, {per_sec}, {eta} left, {msg}");
    ProgressBar::new(seeds).with_style(style.expect("a valid template"))
}
