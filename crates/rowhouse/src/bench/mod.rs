//! `rowhouse bench`: loads a workload's tables into one database a tenant, runs it, prints what came out.

mod common;
mod digest;
mod which;

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use clap::{Parser, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use workloads::Error;
use workloads::load::Live;
use workloads::pgbench::Script;
use workloads::report::{RunReport, write_log};
use workloads::run;
use workloads::target::Target;
use workloads::workload::Workload;

use common::Common;
use which::{CpuioArgs, DvdstoreArgs, PgbenchArgs, TpccArgs, TpchArgs};

#[derive(Parser)]
pub(crate) struct Args {
    #[command(subcommand)]
    which: Which,
}

#[derive(Subcommand)]
enum Which {
    /// TPC-C by wire
    Tpcc(TpccArgs),
    /// pgbench's tpcb-like script
    Pgbench(PgbenchArgs),
    /// pgbench's select-only script
    PgbenchSelect(PgbenchArgs),
    /// CPUIO: computations, range scans and lookups by a second index, in any mix, on one table
    Cpuio(CpuioArgs),
    /// Dell DVD Store 2: visits of an online shop
    Dvdstore(DvdstoreArgs),
    /// TPC-H: streams of its 22 queries, the first client's in the order of the power test
    Tpch(TpchArgs),
}

/// Runs the command to its end.
pub(crate) fn run(args: &Args) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async {
        match &args.which {
            Which::Tpcc(args) => bench(&args.common, &args.workload()?).await,
            Which::Pgbench(args) => bench(&args.common, &args.workload(Script::TpcbLike)).await,
            Which::PgbenchSelect(args) => bench(&args.common, &args.workload(Script::SelectOnly)).await,
            Which::Cpuio(args) => bench(&args.common, &args.workload()?).await,
            Which::Dvdstore(args) => bench(&args.common, &args.workload()?).await,
            Which::Tpch(args) if args.digest => digest::run(args).await,
            Which::Tpch(args) => bench(&args.common, &args.workload()?).await,
        }
    })
}

/// Loads and runs as the options say, and prints the report.
async fn bench<W: Workload>(args: &Common, workload: &W) -> Result<(), Error> {
    let target = args.target()?;
    // Made before what takes long: a run is not lost for want of it.
    let log = args.latency_log.as_deref().map(created).transpose()?;
    prepare(args, &target, workload).await?;
    if args.load_only || args.schema_only {
        return Ok(());
    }
    let live: Vec<Arc<Live>> = target.databases.iter().map(|_| Arc::default()).collect();
    let ticker = watch(args, &live);
    let report = run::run(&target, workload, &args.options(), &live).await?;
    ticker.abort();
    let logged = log.map_or(Ok(()), |log| write_log(&report.log, &mut BufWriter::new(log)));
    print(args, &report)?;
    logged.map_err(|error| format!("the latencies could not be written: {error}").into())
}

fn created(path: &Path) -> Result<File, Error> {
    File::create(path).map_err(|error| format!("{}: {error}", path.display()).into())
}

fn print(args: &Common, report: &RunReport) -> Result<(), Error> {
    if args.json {
        println!("{}", serde_json::to_string_pretty(report)?);
    } else {
        print!("{}", report.to_table());
    }
    if report.violations.is_empty() { Ok(()) } else { Err("the workload's conditions do not hold".into()) }
}

/// Makes the databases and loads them, if that is asked for.
async fn prepare<W: Workload>(args: &Common, target: &Target, workload: &W) -> Result<(), Error> {
    if args.no_load {
        return Ok(());
    }
    if args.tenants.is_some() {
        target.create_databases(&target.product().await?).await?;
    }
    load(args, target, workload).await
}

async fn load<W: Workload>(args: &Common, target: &Target, workload: &W) -> Result<(), Error> {
    let bar = if args.json { ProgressBar::hidden() } else { ProgressBar::new(0) };
    let style = "{msg} [{bar:40}] {human_pos}/{human_len} rows, {eta} left";
    bar.set_style(ProgressStyle::with_template(style)?);
    for (tenant, database) in target.databases.iter().enumerate() {
        bar.set_message(format!("loading {database} ({}/{})", tenant + 1, target.databases.len()));
        bar.set_position(0);
        let client = target.connect(tenant).await?;
        let mut progress = |sent, total| {
            bar.set_length(total);
            bar.set_position(sent);
        };
        if args.schema_only {
            run::create_schema(workload, &client).await?;
        } else {
            run::load(workload, &client, args.seed, &mut progress).await?;
        }
    }
    bar.finish_and_clear();
    Ok(())
}

/// Shows the running throughput on the terminal.
fn watch(args: &Common, live: &[Arc<Live>]) -> tokio::task::JoinHandle<()> {
    let live = live.to_vec();
    let seconds = (args.warm_up + args.seconds).ceil() as u64;
    let bar = if args.json { ProgressBar::hidden() } else { ProgressBar::new(seconds) };
    tokio::task::spawn_local(async move {
        if let Ok(style) = ProgressStyle::with_template("running [{bar:40}] {pos}/{len} s, {msg}") {
            bar.set_style(style);
        }
        let mut before = 0;
        for _ in 0..seconds {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let count = live.iter().map(|l| l.transactions.load(std::sync::atomic::Ordering::Relaxed)).sum();
            bar.inc(1);
            bar.set_message(format!("{} transactions/s", count - before));
            before = count;
        }
        bar.finish_and_clear();
    })
}
