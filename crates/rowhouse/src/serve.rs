//! `rowhouse serve`: a server until SIGINT or SIGTERM.

use std::io::IsTerminal;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;

use base::ByteCount;
use env::Env;
use server::{IpNetwork, Server, ServerConfig, Tls, TlsFiles};

use crate::offline;

/// The environment variable with the first start's password of the administrator.
const PASSWORD_VARIABLE: &str = "ROWHOUSE_ADMIN_PASSWORD";

/// Options of `rowhouse serve`.
#[derive(clap::Args)]
#[command(after_help = "\
The first start makes the account `admin` of the database `rowhouse`. Its password is taken from the environment
variable ROWHOUSE_ADMIN_PASSWORD, or generated into DIR/admin-password, which only you can read.

  psql \"postgres://admin@127.0.0.1:5433/rowhouse\"
  rowhouse=# CREATE TENANT acme WITH (cpu = 0.5, memory = '1GB') OWNER acme PASSWORD '...';
  psql \"postgres://acme@127.0.0.1:5433/acme\"

SIGINT or SIGTERM ends the server in order: sessions are told, open tenants are checkpointed.
Systemd is told when clients are served (Type=notify).
ROWHOUSE_IO=uring|epoll forces a way to the disk and the network, RUST_LOG=info|debug makes the log say more.")]
pub(crate) struct Args {
    /// Data directory; made if it is not there. One server at a time can use it
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Directory of the redo logs, best on a device of its own [default: DIR/log]
    #[arg(long, value_name = "DIR")]
    log_dir: Option<PathBuf>,
    /// Address clients connect to; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:5433")]
    listen: SocketAddr,
    /// Directory for a local socket too, as in `psql -h DIR -p PORT`
    #[arg(long, value_name = "DIR")]
    socket_dir: Option<PathBuf>,
    /// Address of the console, /healthz and /metrics, over HTTP and HTTPS
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8433", conflicts_with = "no_admin")]
    admin_listen: SocketAddr,
    /// Proxy before the console, or a network of them such as 10.0.0.0/8, whose X-Forwarded-For and X-Forwarded-Proto are believed; repeatable [default: none]
    #[arg(long, value_name = "ADDRESS", conflicts_with = "no_admin")]
    admin_proxy: Vec<IpNetwork>,
    /// No HTTP at all
    #[arg(long)]
    no_admin: bool,
    /// Worker threads [default: one a core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: Option<u16>,
    /// Memory for the pages of all tenants together, for example 4GiB or 512MB; at least 8MiB and at most 1TiB are used
    #[arg(long, value_name = "SIZE", default_value = "4GiB")]
    memory: ByteCount,
    /// Memory for sorts, hashes and aggregates of all tenants together; what does not fit spills to temporary files
    #[arg(long, value_name = "SIZE", default_value = "2GiB")]
    work_memory: ByteCount,
    /// Pages of 8 KiB that a scan reads at most along with one that is not in memory
    #[arg(long, value_name = "PAGES", default_value = "32", value_parser = clap::value_parser!(u16).range(0..=127))]
    read_ahead: u16,
    /// Redo log kept before tenants are checkpointed to shorten it; a restart reads what is kept
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    log_limit: ByteCount,
    /// Space set aside on each volume, so that DELETE and DROP go on when it is full; 0 for none
    #[arg(long, value_name = "SIZE", default_value = "32MiB")]
    space_reserve: ByteCount,
    /// A further directory for tenants' data files, chosen by `CREATE TENANT ... WITH (volume = NAME)`; repeatable
    #[arg(long, value_name = "NAME=DIR", value_parser = offline::volume)]
    volume: Vec<(String, PathBuf)>,
    /// Sessions of all tenants together, of which 8 are the administrator's alone, and an eighth those of tenants with fewer than 16
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(9..))]
    max_connections: u32,
    /// Seconds a client has from its connection to the end of its authentication
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=600))]
    authentication_timeout: u64,
    /// Seconds after which a tenant without sessions closes
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(..=1_000_000_000))]
    close_tenants_after: u64,
    /// Certificate chain for TLS, PEM [default: a self-signed one in DIR/tls]
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_certificate: Option<PathBuf>,
    /// Key of the certificate, PEM
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
    /// For tests: a new file in which every change of a file is put down, with its bytes
    #[arg(long, value_name = "FILE", hide = true)]
    record_io: Option<PathBuf>,
}

impl Args {
    /// # Errors
    /// Options contradict each other.
    pub(crate) fn check(&self) -> Result<(), String> {
        offline::check_volumes(&self.volume)
    }

    fn config(&self) -> ServerConfig {
        let tls = self.tls_certificate.clone().zip(self.tls_key.clone());
        ServerConfig {
            log_dir: self.log_dir.clone(),
            listen: self.listen,
            socket_dir: self.socket_dir.clone(),
            admin_listen: (!self.no_admin).then_some(self.admin_listen),
            admin_proxies: self.admin_proxy.clone(),
            workers: self.workers.map(usize::from),
            memory: self.memory.clamp(storage::MEMORY_MIN, storage::MEMORY_MAX),
            work_memory: self.work_memory,
            read_ahead: self.read_ahead.into(),
            log_limit: self.log_limit,
            space_reserve: self.space_reserve,
            volumes: self.volume.clone(),
            tls: tls.map_or(Tls::SelfSigned, |(certificate, key)| Tls::Files(TlsFiles { certificate, key })),
            analytic: crate::ANALYTIC,
            connections_max: self.max_connections as usize,
            authentication_timeout: base::Nanos::from_secs(self.authentication_timeout),
            tenant_close_after: base::Nanos::from_secs(self.close_tenants_after),
            admin_password: std::env::var(PASSWORD_VARIABLE).ok().filter(|password| !password.is_empty()),
            ..ServerConfig::new(&self.data)
        }
    }
}

/// Serves until told to end.
///
/// # Errors
/// What keeps the server from starting, in words for the operator.
pub(crate) fn run(args: &Args) -> Result<(), Box<dyn std::error::Error>> {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn"));
    // A log that cannot be written, on a full disk perhaps, must not end what it tells of.
    let colours = std::io::stderr().is_terminal();
    let subscriber =
        tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colours).with_writer(std::io::stderr);
    subscriber.log_internal_errors(false).init();
    let env = match &args.record_io {
        Some(file) => Env::real_recorded(file).map_err(|error| format!("{}: {error}", file.display()))?,
        None => Env::real(),
    };
    // Asked for now, so that a signal during the start is not lost.
    let _ = env.threads.shutdown_signal();
    env::ignore_hangups();
    // Lives as long as the process, and owns nothing that has to be put away.
    drop(env.threads.spawn("frame-stock", None, Box::new(|| storage::keep_frames_in_stock()))?);
    let server = Server::start(&env, args.config())?;
    announce(&env, &server);
    if let Err(error) = env::tell_supervisor_ready() {
        tracing::warn!(%error, "who started the server cannot be told that it is ready");
    }
    server.wait();
    let _ = writeln!(std::io::stdout(), "rowhouse ended in order");
    Ok(())
}

/// Says on standard output where clients connect. What cannot be said there (a full volume, a reader that has left) is no reason to end.
fn announce(env: &Env, server: &Server) {
    let admin =
        server.admin_address().map(|address| format!(", http://{address}/metrics")).unwrap_or_default();
    let mut told = format!(
        "rowhouse {} serves {} tenants on postgres://{}{admin} ({} workers, {})\n",
        std::env!("CARGO_PKG_VERSION"),
        server.tenant_count(),
        server.address(),
        server.worker_count(),
        env.io_backend()
    );
    if let Some(address) = server.admin_address() {
        told += &format!("the console is on http://{address}/\n");
    }
    if let Some(file) = server.admin_password_file() {
        told += &format!("the password of admin is in {}\n", file.display());
    }
    if !server.has_priority() {
        told += "workers run without raised priority (no CAP_SYS_NICE): expect latencies of milliseconds beside \
                 analytical queries\n";
    }
    let mut out = std::io::stdout();
    let _ = out.write_all(told.as_bytes()).and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Command {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn memory_for_pages_is_what_a_server_can_have() {
        let memory = |size| {
            let command = Command::try_parse_from(["serve", "--data", "d", "--memory", size]);
            command.expect("good options").args.config().memory
        };
        assert_eq!(memory("300GiB"), ByteCount::from_mib(300 << 10));
        assert_eq!(memory("2TiB"), storage::MEMORY_MAX);
        assert_eq!(memory("1MiB"), storage::MEMORY_MIN);
    }
}
