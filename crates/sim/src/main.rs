//! Long campaigns of power cuts from the command line.

use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use sim::exchange::Exchange;
use sim::tpcc::Tpcc;
use sim::{Acknowledge, Campaign, Failure, Tally};

/// What the sessions do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Work {
    /// TPC-C through SQL sessions
    Tpcc,
    /// Bank and order book, straight on the tenant
    Exchange,
    /// Even seeds TPC-C, odd ones the exchange
    Both,
}

/// Runs simulated servers through power cuts and checks what is left after each.
///
/// A failure names its seed; `--seed N` with the same other options runs it again, exactly.
#[derive(Parser)]
struct Args {
    /// What the sessions do
    #[arg(long, value_enum, default_value_t = Work::Both)]
    work: Work,
    /// Power cuts in all
    #[arg(long, default_value_t = 200)]
    cuts: u64,
    /// Only this seed
    #[arg(long)]
    seed: Option<u64>,
    /// The first seed
    #[arg(long, default_value_t = 1)]
    first_seed: u64,
    /// Power cuts of each seed, one after the other on the same disk
    #[arg(long, default_value_t = 20)]
    cuts_per_seed: u64,
    /// Tenants of each world
    #[arg(long, default_value_t = 2)]
    tenants: u64,
}

impl Args {
    fn run(&self, seed: u64, cuts: u64) -> Result<Tally, Failure> {
        let campaign = Campaign { seed, cuts, tenants: self.tenants, acknowledge: Acknowledge::WhenDurable };
        match self.work {
            Work::Tpcc => campaign.run(Tpcc::default()),
            Work::Exchange => campaign.run(Exchange::default()),
            Work::Both if seed.is_multiple_of(2) => campaign.run(Tpcc::default()),
            Work::Both => campaign.run(Exchange::default()),
        }
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    let mut total = Tally::default();
    let mut failures = 0;
    let (mut seed, mut left) = (args.seed.unwrap_or(args.first_seed), args.cuts);
    while left > 0 {
        let cuts = if args.seed.is_some() { args.cuts } else { left.min(args.cuts_per_seed) };
        match args.run(seed, cuts) {
            Ok(tally) => {
                total.add(&tally);
                println!(
                    "seed {seed}: {} cuts, {} acknowledged, disk {:016x}",
                    tally.cuts, tally.acknowledged, tally.disk_hash
                );
            }
            Err(failure) => {
                failures += 1;
                eprintln!("FAILED {failure}");
            }
        }
        left -= cuts;
        seed += 1;
    }
    println!("{total}\n{failures} failure(s)");
    if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
