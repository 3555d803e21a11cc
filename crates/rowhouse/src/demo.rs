//! `rowhouse demo`: a server in a temporary directory with tenants at work, a live table of who gets what, and scenarios in its console,
//! until Ctrl-C.

mod desktop;
mod table;

use std::io::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use scenarios::{Ended, GroupView, Running, Scenarios, View};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use workloads::Error;

use table::{Cpu, Table};

#[derive(Parser)]
pub(crate) struct Args {
    /// Address of the console; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    admin_listen: SocketAddr,
    /// Address clients connect to; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Worker threads of the server [default: three quarters of the cores, the others are for the load]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: Option<u16>,
    /// Begin with this story, as `growing` or `noisy`; `none` leaves it to the console to start one
    #[arg(long, value_name = "STORY", default_value = "shops")]
    story: String,
    /// End by itself so many seconds after its tenants were loaded, with a summary and a check of what clients wrote; without it Ctrl-C ends the demo
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<u64>,
    /// Leave it to you to go to the console; without it, it opens in the browser of the desktop that the terminal is on, if there is one
    #[arg(long)]
    no_browser: bool,
}

/// Runs the demo to its end.
pub(crate) fn run(args: &Args) -> Result<(), Error> {
    let env = env::Env::real();
    // From here on Ctrl-C ends the demo in order, and its folder with it.
    let interrupt = env.threads.shutdown_signal();
    let cores = env.threads.cores().len();
    let workers = args.workers.map_or((cores - cores.div_ceil(4)).max(1), usize::from);
    let folder = tempfile::Builder::new().prefix("rowhouse-demo-").tempdir()?;
    let scenarios = Scenarios::new(&env, workers);
    let config = server::ServerConfig {
        listen: args.listen,
        admin_listen: Some(args.admin_listen),
        workers: Some(workers),
        analytic: crate::ANALYTIC,
        console: scenarios.console(),
        ..server::ServerConfig::new(folder.path())
    };
    let server = server::Server::start(&env, config)?;
    let outcome = show(args, scenarios, &server, &env, &interrupt);
    server.stop();
    outcome
}

fn show(
    args: &Args,
    scenarios: Scenarios,
    server: &server::Server,
    env: &env::Env,
    interrupt: &env::ShutdownSignal,
) -> Result<(), Error> {
    let file = server.admin_password_file().ok_or("the first start generates a password")?;
    let password = std::fs::read_to_string(file)?;
    let password = password.trim();
    let url = format!("postgres://admin:{password}@{}", reached_by(server.address()));
    // What the workers leave, or one at the least.
    let threads = env.threads.cores().len().saturating_sub(server.worker_count()).max(1);
    let running = scenarios.run(&url, threads)?;
    if args.story != "none"
        && let Err(error) = running.start_story(&args.story)
    {
        running.end();
        return Err(error.into());
    }
    let console = server.admin_address().ok_or("the console listens")?;
    say(&format!("the console: http://{console}/ (user admin, password {password})"));
    say(&format!(
        "clients: {url}/rowhouse ({} workers; the data is in a temporary directory)",
        server.worker_count()
    ));
    say(if args.seconds.is_some() { "it ends by itself\n" } else { "Ctrl-C ends it\n" });
    if !args.no_browser {
        desktop::open(&format!("http://{console}/#/scenarios"));
    }
    let mut table = Table::new(env.now());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let was_interrupted = runtime.block_on(async {
        let end = async {
            match args.seconds {
                Some(seconds) => {
                    loaded(&running).await;
                    tokio::time::sleep(Duration::from_secs(seconds)).await;
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = interrupt.wait() => true,
            () = end => false,
            () = watch(&mut table, &running, env, console) => unreachable!("it watches for ever"),
        }
    });
    let view = running.view();
    // The load's connections are closed before the server is told to end.
    let ended = running.end();
    say(&format!("\n{}", table.summary(&view, env.now())));
    let outcome = match was_interrupted {
        true => Ok(()),
        false => runtime.block_on(check(&ended, interrupt)).and_then(|()| require_work(&view)),
    };
    say("the demo ended in order");
    outcome
}

/// Whoever closed the terminal's other end needs no words.
fn say(words: &str) {
    let _ = writeln!(std::io::stdout(), "{words}");
}

/// Waits until no group is being loaded any more.
async fn loaded(running: &Running) {
    while running.is_loading() {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Redraws the table each second.
async fn watch(table: &mut Table, running: &Running, env: &env::Env, console: SocketAddr) {
    let mut second = tokio::time::interval(Duration::from_secs(1));
    second.tick().await;
    loop {
        second.tick().await;
        let cpu = metrics(console).await.map(|text| cpu_by_tenant(&text)).unwrap_or_default();
        table.update(env.now(), running.view(), cpu);
        table.draw();
    }
}

/// Checks what clients wrote; Ctrl-C ends that, too.
async fn check(ended: &Ended, interrupt: &env::ShutdownSignal) -> Result<(), Error> {
    let bar = ProgressBar::new(ended.tenants() as u64);
    bar.set_style(ProgressStyle::with_template("checking {pos}/{len} tenants [{bar:40}]")?);
    let found = tokio::select! {
        found = ended.check(|checked| bar.set_position(checked as u64)) => found,
        () = interrupt.wait() => return Ok(()),
    };
    bar.finish_and_clear();
    match found {
        Ok(found) if found.is_empty() => {
            say(&format!("the tables of all {} tenants are consistent", ended.tenants()));
            Ok(())
        }
        Ok(found) => Err(format!("the tables are not consistent:\n{}", found.join("\n")).into()),
        Err(error) => Err(format!("the tables were not checked: {}", workloads::explain(&error)).into()),
    }
}

/// # Errors
/// Clients fail in every group and nothing is done any more: who left the demo to itself is to know.
fn require_work(view: &View) -> Result<(), Error> {
    let is_idle = |group: &GroupView| group.figures.is_none_or(|figures| figures.per_second <= 0.0);
    let failures = view.groups.iter().map(|group| {
        let error = group.error.as_ref().filter(|_| is_idle(group))?;
        Some(format!("{}: {error}", group.name))
    });
    match failures.collect::<Option<Vec<_>>>() {
        Some(failures) if !failures.is_empty() => {
            Err(format!("no client works any more:\n{}", failures.join("\n")).into())
        }
        _ => Ok(()),
    }
}

/// The server's metrics as text.
async fn metrics(address: SocketAddr) -> std::io::Result<String> {
    let mut stream = tokio::net::TcpStream::connect(address).await?;
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    Ok(text)
}

/// CPU seconds of each tenant in the metrics' text.
fn cpu_by_tenant(metrics: &str) -> Cpu {
    let one = |line: &str| {
        let rest = line.strip_prefix("rowhouse_tenant_cpu_seconds_total{tenant=\"")?;
        let (tenant, seconds) = rest.split_once("\"} ")?;
        Some((tenant.to_owned(), seconds.trim().parse().ok()?))
    };
    metrics.lines().filter_map(one).collect()
}

/// Where the load reaches a server that listens there: by this machine's own address, if it listens on all.
fn reached_by(listens: SocketAddr) -> SocketAddr {
    match listens {
        SocketAddr::V4(at) if at.ip().is_unspecified() => ([127, 0, 0, 1], at.port()).into(),
        SocketAddr::V6(at) if at.ip().is_unspecified() => (std::net::Ipv6Addr::LOCALHOST, at.port()).into(),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use scenarios::Figures;

    use super::*;

    #[test]
    fn a_demo_whose_clients_all_fail_has_failed() {
        let group = |error: Option<&str>, per_second: f64| GroupView {
            name: "the shops".into(),
            state: "running",
            error: error.map(str::to_owned),
            figures: Some(Figures { per_second, ..Figures::default() }),
            tenants: Vec::new(),
        };
        let works = |groups| require_work(&View { story: None, groups }).is_ok();
        assert!(works(Vec::new()) && works(vec![group(None, 0.0)]));
        assert!(works(vec![group(Some("one of them"), 9.0)]));
        assert!(works(vec![group(Some("no room"), 0.0), group(None, 9.0)]));
        let unloaded = GroupView { figures: None, ..group(Some("not loaded"), 0.0) };
        assert!(!works(vec![group(Some("no room"), 0.0), unloaded]));
    }

    #[test]
    fn tenants_cpu_is_read_from_the_metrics() {
        let text = "rowhouse_tenant_cpu_seconds_total{tenant=\"tenant1\"} 1.5\n\
                    rowhouse_tenant_cpu_seconds_total{tenant=\"tenant10\"} 9\n\
                    rowhouse_tenant_cpu_promised_seconds_total{tenant=\"tenant2\"} 9\n";
        let cpu = cpu_by_tenant(text);
        assert_eq!(cpu, Cpu::from([("tenant1".to_owned(), 1.5), ("tenant10".to_owned(), 9.0)]));
    }
}
