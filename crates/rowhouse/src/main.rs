//! The command line: one binary for the server and the tools beside it.

mod backup;
mod bench;
mod calibrate;
mod demo;
mod import;
mod lab;
mod offline;
mod repair;
mod scratch;
mod serve;
mod verify;

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser, Subcommand};

/// Heaps of their own for each thread: analytical threads must share no lock with the workers they run beside.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The engine of analytical queries, in builds that have one.
#[cfg(feature = "analytic")]
const ANALYTIC: Option<server::AnalyticRun> = Some(analytic::run_controlled);
#[cfg(not(feature = "analytic"))]
const ANALYTIC: Option<server::AnalyticRun> = None;

/// A multi-tenant PostgreSQL-wire database server that keeps promises of CPU, I/O and memory.
#[derive(Parser)]
#[command(name = "rowhouse", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve tenants until SIGINT or SIGTERM
    Serve(serve::Args),
    /// Start a server in a temporary directory whose console has stories of tenants at work
    Demo(demo::Args),
    /// Put a workload on a server (Rowhouse or PostgreSQL) and report throughput and latency
    Bench(bench::Args),
    /// Run the experiments of the papers and write a report
    Lab(lab::Args),
    /// Write a tenant of a running server into a file, while it goes on working
    Backup(backup::BackupArgs),
    /// Make a tenant of a backup, on a running server
    Restore(backup::RestoreArgs),
    /// Load a PostgreSQL database into an empty tenant of a running server
    Import(import::Args),
    /// Measure what the volumes of a server that is not running can do, and keep it for the server
    Calibrate(calibrate::Args),
    /// Check the data directory of a server that is not running
    Verify(verify::Args),
    /// Check a backup
    VerifyBackup(verify::BackupArgs),
    /// Get a tenant with a damaged index back, in the data directory of a server that is not running
    Repair(repair::Args),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let checked = match &cli.command {
        Command::Serve(args) => args.check(),
        _ => Ok(()),
    };
    if let Err(why) = env::check_backend_choice().and(checked) {
        // With the status of any other wrong option: it will be as wrong at the next start.
        Cli::command().error(ErrorKind::ValueValidation, why).exit();
    }
    let outcome = match cli.command {
        Command::Serve(args) => serve::run(&args).map_err(|error| error.to_string()),
        Command::Demo(args) => demo::run(&args).map_err(|error| workloads::explain(&error)),
        Command::Bench(args) => bench::run(&args).map_err(|error| workloads::explain(&error)),
        Command::Lab(args) => lab::run(&args).map_err(|error| workloads::explain(&error)),
        Command::Backup(args) => backup::run_backup(&args).map_err(|error| workloads::explain(&error)),
        Command::Restore(args) => backup::run_restore(&args).map_err(|error| workloads::explain(&error)),
        Command::Import(args) => import::run(&args).map_err(|error| workloads::explain(&error)),
        Command::Calibrate(args) => calibrate::run(&args).map_err(|error| error.to_string()),
        Command::Verify(args) => verify::run(&args).map_err(|error| error.to_string()),
        Command::VerifyBackup(args) => verify::run_backup(&args).map_err(|error| error.to_string()),
        Command::Repair(args) => repair::run(&args).map_err(|error| error.to_string()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rowhouse: {error}");
            ExitCode::FAILURE
        }
    }
}
