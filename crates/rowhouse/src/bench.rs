//! `rowhouse bench`: loads a workload's tables into one database a tenant, runs it, prints what came out.

use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use workloads::load::{Live, Pace, Plan};
use workloads::report::{RunReport, write_log};
use workloads::target::Target;
use workloads::{Error, pgbench, tpcc};

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Workload {
    /// TPC-C by wire
    Tpcc,
    /// pgbench's tpcb-like script
    Pgbench,
    /// pgbench's select-only script
    PgbenchSelect,
}

#[derive(Parser)]
pub(crate) struct Args {
    /// What to run
    #[arg(value_enum)]
    workload: Workload,
    /// The server, as in postgres://user:password@127.0.0.1:5433/rowhouse
    #[arg(long)]
    url: String,
    /// Databases to make (`bench1`, `bench2`, …), one for each tenant; without this the URL's own database is used
    #[arg(long)]
    tenants: Option<usize>,
    /// Prefix of the databases' names
    #[arg(long, default_value = "bench")]
    prefix: String,
    /// Clients for each tenant
    #[arg(long, default_value_t = 1)]
    clients: usize,
    /// TPC-C warehouses for each tenant
    #[arg(long, default_value_t = 1)]
    warehouses: u32,
    /// TPC-C: part of the specification's customers, orders, items and stock (0 < scale ≤ 1); pgbench: its scale factor
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// Seconds measured
    #[arg(long, default_value_t = 30.0)]
    seconds: f64,
    /// Seconds before measuring begins
    #[arg(long, default_value_t = 5.0)]
    warm_up: f64,
    /// Open loop: transactions a second of each client, latency from the intended start
    #[arg(long, conflicts_with = "think")]
    rate: Option<f64>,
    /// Think time after each transaction, in milliseconds
    #[arg(long)]
    think: Option<u64>,
    /// Use the databases as they are; without this they are dropped, made and loaded
    #[arg(long)]
    no_load: bool,
    /// Load only
    #[arg(long, conflicts_with = "no_load")]
    load_only: bool,
    /// TPC-C: make databases with the empty schema only
    #[arg(long, conflicts_with_all = ["no_load", "load_only"])]
    schema_only: bool,
    /// Write each measured transaction into this file, a line `END LATENCY`: microseconds since 1970, microseconds
    #[arg(long, value_name = "FILE")]
    latency_log: Option<PathBuf>,
    /// TPC-C: add the specification's foreign keys
    #[arg(long)]
    foreign_keys: bool,
    /// TPC-C: leave the consistency conditions unchecked
    #[arg(long)]
    no_check: bool,
    /// Seed of everything random
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command to its end.
pub(crate) fn run(args: &Args) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = tokio::task::LocalSet::new();
    let report = local.block_on(&runtime, bench(args))?;
    let Some(report) = report else { return Ok(()) };
    if args.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print!("{}", report.to_table());
    }
    if report.violations.is_empty() { Ok(()) } else { Err("the consistency conditions do not hold".into()) }
}

async fn bench(args: &Args) -> Result<Option<RunReport>, Error> {
    let target = Target::new(&args.url, args.tenants.map(|count| (args.prefix.as_str(), count)))?;
    let product = target.product().await?;
    if !args.no_load {
        if args.tenants.is_some() {
            target.create_databases(&product).await?;
        }
        load(args, &target).await?;
    }
    if args.load_only || args.schema_only {
        return Ok(None);
    }
    let live: Vec<Arc<Live>> = target.databases.iter().map(|_| Arc::default()).collect();
    let plan = Plan {
        pace: match (args.rate, args.think) {
            (Some(per_second), _) => Pace::Open { per_second },
            (None, Some(ms)) => Pace::Think(Duration::from_millis(ms)),
            (None, None) => Pace::Closed,
        },
        warm_up: Duration::from_secs_f64(args.warm_up),
        run: Duration::from_secs_f64(args.seconds),
        log: args.latency_log.is_some(),
    };
    let ticker = watch(args, &live);
    let report = match args.workload {
        Workload::Tpcc => {
            let options = tpcc::Options {
                scale: tpcc::Scale::new(args.warehouses, args.scale)?,
                clients_per_tenant: args.clients,
                plan,
                seed: args.seed,
                check: !args.no_check,
            };
            tpcc::run(&target, &options, &live).await?
        }
        Workload::Pgbench | Workload::PgbenchSelect => {
            let script = if args.workload == Workload::Pgbench {
                pgbench::Script::TpcbLike
            } else {
                pgbench::Script::SelectOnly
            };
            let scale = pgbench_scale(args)?;
            let options =
                pgbench::Options { script, scale, clients_per_tenant: args.clients, plan, seed: args.seed };
            pgbench::run(&target, &options, &live).await?
        }
    };
    ticker.abort();
    if let Some(path) = &args.latency_log {
        write_log(&report.log, &mut BufWriter::new(File::create(path)?))?;
    }
    Ok(Some(report))
}

fn pgbench_scale(args: &Args) -> Result<u32, Error> {
    if args.scale < 1.0 || args.scale.fract() != 0.0 || args.scale > 20_000.0 {
        return Err(format!("pgbench's scale {} is not a whole number from 1 to 20000", args.scale).into());
    }
    Ok(args.scale as u32)
}

async fn load(args: &Args, target: &Target) -> Result<(), Error> {
    let bar = if args.json { ProgressBar::hidden() } else { ProgressBar::new(0) };
    let style = "{msg} [{bar:40}] {human_pos}/{human_len} rows, {eta} left";
    bar.set_style(ProgressStyle::with_template(style)?);
    for (tenant, database) in target.databases.iter().enumerate() {
        bar.set_message(format!("loading {database} ({}/{})", tenant + 1, target.databases.len()));
        bar.set_position(0);
        let mut client = target.connect(tenant).await?;
        let mut progress = |sent, total| {
            bar.set_length(total);
            bar.set_position(sent);
        };
        match args.workload {
            Workload::Tpcc if args.schema_only => {
                tpcc::create_schema(&mut client, args.foreign_keys).await?;
            }
            Workload::Tpcc => {
                let scale = tpcc::Scale::new(args.warehouses, args.scale)?;
                tpcc::load(&mut client, scale, args.seed, args.foreign_keys, &mut progress).await?;
            }
            Workload::Pgbench | Workload::PgbenchSelect => {
                pgbench::load(&mut client, pgbench_scale(args)?, &mut progress).await?;
            }
        }
    }
    bar.finish_and_clear();
    Ok(())
}

/// Shows the running throughput on the terminal.
fn watch(args: &Args, live: &[Arc<Live>]) -> tokio::task::JoinHandle<()> {
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
