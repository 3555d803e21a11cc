//! The command line: one binary for the server and the tools beside it.

mod bench;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// A multi-tenant PostgreSQL-wire database server that keeps promises of CPU, I/O and memory.
#[derive(Parser)]
#[command(name = "rowhouse", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Put a workload on a server (Rowhouse or PostgreSQL) and report throughput and latency
    Bench(bench::Args),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Bench(args) => bench::run(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rowhouse: {error}");
            ExitCode::FAILURE
        }
    }
}
