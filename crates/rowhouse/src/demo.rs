//! `rowhouse demo`: a server in a temporary directory, several tenants under TPC-C over the wire, a live table of who gets what.

mod table;

use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use workloads::load::{Live, Pace, Plan};
use workloads::run::Options;
use workloads::target::Target;
use workloads::{Error, run, tpcc};

use table::{Row, Table};

const PASSWORD: &str = "demo";

#[derive(Parser)]
pub(crate) struct Args {
    /// Tenants, each with one TPC-C warehouse
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=200))]
    tenants: u16,
    /// Clients for each tenant
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    clients: u16,
    /// Part of the specification's population (0 < scale ≤ 1)
    #[arg(long, default_value_t = 0.1)]
    scale: f64,
    /// End by itself after this many seconds; without it Ctrl-C ends the demo
    #[arg(long)]
    seconds: Option<u64>,
}

/// Runs the demo to its end.
pub(crate) fn run(args: &Args) -> Result<(), Error> {
    let scale = tpcc::Scale::new(1, args.scale)?;
    let folder = tempfile::Builder::new().prefix("rowhouse-demo-").tempdir()?;
    let mut config = server::ServerConfig::new(folder.path());
    config.analytic = crate::ANALYTIC;
    config.listen = ([127, 0, 0, 1], 0).into();
    config.admin_listen = Some(([127, 0, 0, 1], 0).into());
    config.admin_password = Some(PASSWORD.to_owned());
    let env = env::Env::real();
    // From here on Ctrl-C ends the demo in order, and its folder with it.
    let interrupt = env.threads.shutdown_signal();
    let server = server::Server::start(&env, config)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = tokio::task::LocalSet::new();
    let outcome = local.block_on(&runtime, show(args, scale, &server, &interrupt));
    // The load's connections are closed before the server is told to end.
    drop(local);
    drop(runtime);
    server.stop();
    outcome
}

async fn show(
    args: &Args,
    scale: tpcc::Scale,
    server: &server::Server,
    interrupt: &env::ShutdownSignal,
) -> Result<(), Error> {
    let url = format!("postgres://admin:{PASSWORD}@{}/rowhouse", server.address());
    let target = Target::new(&url, Some(("tenant", usize::from(args.tenants))))?;
    println!(
        "Rowhouse on {} (user admin, password {PASSWORD}); its data is in a temporary directory",
        server.address()
    );
    let product = target.product().await?;
    let interrupted = tokio::select! {
        made = target.create_databases(&product) => { made?; false }
        () = interrupt.wait() => true,
    };
    let interrupted = interrupted
        || tokio::select! {
            loaded = load(&target, scale) => { loaded?; false }
            () = interrupt.wait() => true,
        };
    if interrupted {
        println!("\ninterrupted");
        return Ok(());
    }
    let live: Vec<Arc<Live>> = target.databases.iter().map(|_| Arc::new(Live::with_latencies())).collect();
    let plan = Plan {
        pace: Pace::Closed,
        warm_up: Duration::ZERO,
        // Ctrl-C ends what has no end of its own.
        run: Duration::from_secs(args.seconds.unwrap_or(365 * 86_400)),
        transactions: None,
        series: None,
        log: false,
    };
    let options = Options {
        clients_per_tenant: usize::from(args.clients),
        plan,
        seed: 1,
        check: args.seconds.is_some(),
    };
    println!(
        "TPC-C by wire: {} tenants x {} clients, {scale}; {}\n",
        args.tenants,
        args.clients,
        if args.seconds.is_some() { "ends by itself" } else { "Ctrl-C ends it" }
    );
    let mut table = Table::new(&target.databases);
    let watch = watch(&mut table, &live, server.admin_address());
    let workload = workload(scale);
    let report = tokio::select! {
        report = run::run(&target, &workload, &options, &live) => Some(report?),
        () = interrupt.wait() => None,
        () = watch => unreachable!("the table is shown for ever"),
    };
    println!();
    match report {
        Some(report) => {
            print!("{}", report.to_table());
            if report.violations.is_empty() {
                println!("all twelve consistency conditions hold for every tenant");
                Ok(())
            } else {
                Err("the consistency conditions do not hold".into())
            }
        }
        None => {
            println!("{}", table.summary());
            Ok(())
        }
    }
}

fn workload(scale: tpcc::Scale) -> tpcc::Tpcc {
    tpcc::Tpcc { scale, foreign_keys: false }
}

async fn load(target: &Target, scale: tpcc::Scale) -> Result<(), Error> {
    let bar = ProgressBar::new(0);
    bar.set_style(ProgressStyle::with_template("{msg} [{bar:40}] {human_pos}/{human_len} rows, {eta} left")?);
    for (tenant, database) in target.databases.iter().enumerate() {
        bar.set_message(format!("loading {database} ({}/{})", tenant + 1, target.databases.len()));
        let client = target.connect(tenant).await?;
        let mut progress = |sent, total| {
            bar.set_length(total);
            bar.set_position(sent);
        };
        run::load(&workload(scale), &client, 1 + tenant as u64, &mut progress).await?;
    }
    bar.finish_and_clear();
    Ok(())
}

/// Redraws the table each second.
async fn watch(table: &mut Table, live: &[Arc<Live>], admin: Option<std::net::SocketAddr>) {
    let mut second = tokio::time::interval(Duration::from_secs(1));
    second.tick().await;
    loop {
        second.tick().await;
        let cpu = match admin {
            Some(address) => metrics(address).await.unwrap_or_default(),
            None => String::new(),
        };
        let rows: Vec<Row> =
            live.iter().zip(table.names()).map(|(live, name)| Row::read(live, cpu_of(&cpu, name))).collect();
        table.update(rows);
        table.draw();
    }
}

/// The server's metrics as text.
async fn metrics(address: std::net::SocketAddr) -> std::io::Result<String> {
    let mut stream = tokio::net::TcpStream::connect(address).await?;
    stream
        .write_all(
            format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").as_bytes(),
        )
        .await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    Ok(text)
}

/// CPU seconds of a tenant in the metrics' text.
fn cpu_of(metrics: &str, tenant: &str) -> Option<f64> {
    let start = format!("rowhouse_tenant_cpu_seconds_total{{tenant=\"{tenant}\"}} ");
    metrics.lines().find_map(|line| line.strip_prefix(&start)?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenants_cpu_is_read_from_the_metrics() {
        let text = "rowhouse_tenant_cpu_seconds_total{tenant=\"tenant1\"} 1.5\n\
                    rowhouse_tenant_cpu_seconds_total{tenant=\"tenant10\"} 9\n";
        assert_eq!(cpu_of(text, "tenant1"), Some(1.5));
        assert_eq!(cpu_of(text, "tenant10"), Some(9.0));
        assert_eq!(cpu_of(text, "tenant2"), None);
    }
}
