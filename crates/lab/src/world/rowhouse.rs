//! A Rowhouse server as a child process, on cores of its own, its data in a folder that goes with it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls};

use super::pinning::Cores;
use super::process::Process;
use crate::Result;

/// Of the account `admin` of servers that last as long as an experiment and listen on loopback only.
const PASSWORD: &str = "lab";
/// How long a server has to start.
const START_WAIT: Duration = Duration::from_secs(60);

/// A running server.
pub struct Rowhouse {
    process: Process,
    address: String,
    metrics: String,
    log: PathBuf,
}

impl Rowhouse {
    /// Starts a server on `cores`, with options of `rowhouse serve`, its data in `folder`. Waits until it listens.
    ///
    /// # Errors
    /// When the binary cannot be run or the server does not start: with what it printed.
    pub async fn start(binary: &Path, folder: &Path, cores: &Cores, options: &[String]) -> Result<Rowhouse> {
        let log = folder.join("rowhouse.log");
        let mut command = cores.command();
        command
            .arg(binary)
            .args(["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--data"])
            .arg(folder.join("rowhouse"))
            .args(options)
            .env("ROWHOUSE_ADMIN_PASSWORD", PASSWORD)
            .env_remove("RUST_LOG");
        let mut process = Process::spawn("taskset (of util-linux)", &mut command, &log)?;
        let until = tokio::time::Instant::now() + START_WAIT;
        loop {
            let said = std::fs::read_to_string(&log).unwrap_or_default();
            if let Some((address, metrics)) = announced(&said) {
                return Ok(Rowhouse { process, address, metrics, log });
            }
            if !process.runs() || tokio::time::Instant::now() > until {
                return Err(
                    format!("the server {} did not start:\n{}", binary.display(), said.trim_end()).into()
                );
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Where clients connect to, by URL; `database` is the one that it names.
    pub fn url(&self, database: &str) -> String {
        self.url_of("admin", PASSWORD, database)
    }

    /// The same for another role than the administrator.
    pub fn url_of(&self, role: &str, password: &str, database: &str) -> String {
        format!("postgres://{role}:{password}@{}/{database}", self.address)
    }

    /// Where it listens: `127.0.0.1:45678`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Address of `/metrics`.
    pub fn metrics_address(&self) -> &str {
        &self.metrics
    }

    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Connects the administrator.
    ///
    /// # Errors
    /// When the server does not answer: with the end of its log.
    pub async fn admin(&self) -> Result<Client> {
        match connect(&self.url("rowhouse")).await {
            Ok(client) => Ok(client),
            Err(error) => Err(format!("{error}\n{}", self.log_end()).into()),
        }
    }

    /// The last lines of what it wrote.
    pub fn log_end(&self) -> String {
        let said = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = said.lines().collect();
        lines[lines.len().saturating_sub(8)..].join("\n")
    }

    /// Ends it in order.
    ///
    /// # Errors
    /// When it had to be killed.
    pub async fn stop(self) -> Result<()> {
        self.process.end("TERM").await
    }
}

/// The addresses for clients and for `/metrics`, of what a server prints when it listens.
fn announced(said: &str) -> Option<(String, String)> {
    let line = said.lines().find(|line| line.contains(" serves ") && line.contains("postgres://"))?;
    let address = line.split_once("postgres://")?.1.split([',', ' ']).next()?;
    let metrics = line.split_once("http://")?.1.split_once("/metrics")?.0;
    Some((address.to_owned(), metrics.to_owned()))
}

/// Connects to a server, without TLS.
///
/// # Errors
/// When it cannot be reached or refuses.
pub(super) async fn connect(url: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(async move {
        // An error here reaches whoever uses the client next.
        let _ = connection.await;
    });
    Ok(client)
}

/// The version that a binary says it has.
///
/// # Errors
/// When it cannot be run.
pub fn version(binary: &Path) -> Result<String> {
    let output = Command::new(binary).arg("--version").output();
    let output =
        output.map_err(|error| format!("the server's binary {} cannot be run: {error}", binary.display()))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Whether this build has the analytical path, and so `rowhouse.ledger`.
///
/// # Errors
/// When it cannot be asked.
pub async fn has_ledger(admin: &Client) -> Result<bool> {
    match admin.simple_query("select count(*) from rowhouse.ledger").await {
        Ok(_) => Ok(true),
        Err(error) if error.code() == Some(&SqlState::FEATURE_NOT_SUPPORTED) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_that_the_server_prints() {
        let said = "a warning\nrowhouse 0.1.0 serves 0 tenants on postgres://127.0.0.1:45678, http://127.0.0.1:8433/metrics \
                    (1 workers, io_uring)\n";
        assert_eq!(announced(said), Some(("127.0.0.1:45678".into(), "127.0.0.1:8433".into())));
        assert_eq!(announced("rowhouse 0.1.0 serves"), None);
    }
}
