//! A PostgreSQL server beside ours: a child process on the same cores, its data in a folder that goes with it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tokio_postgres::Client;

use super::pinning::Cores;
use super::process::{self, Process};
use super::rowhouse::connect;
use crate::Result;

/// How long it has to start.
const START_WAIT: Duration = Duration::from_secs(60);

/// A running server.
pub struct Postgres {
    process: Process,
    port: u16,
}

/// Programs of the newest PostgreSQL of this machine.
///
/// # Errors
/// When there is none.
pub fn programs() -> Result<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let numbered = versions.filter_map(|entry| {
        let number: u32 = entry.file_name().to_str()?.parse().ok()?;
        let programs = entry.path().join("bin");
        programs.join("initdb").is_file().then_some((number, programs))
    });
    let newest = numbered.max_by_key(|(number, _)| *number).map(|(_, programs)| programs);
    newest
        .ok_or_else(|| "there is no PostgreSQL under /usr/lib/postgresql; install it or leave it out".into())
}

/// A command as the user `postgres`, where this is root, which PostgreSQL's programs refuse to run as.
fn as_postgres() -> Command {
    if !process::is_root() {
        return Command::new("env");
    }
    let mut command = Command::new("runuser");
    command.args(["-u", "postgres", "--"]).current_dir("/");
    command
}

impl Postgres {
    /// Makes a cluster in `folder` and starts a server of it on `cores`. Durable at commit; `memory` for its shared buffers, as in
    /// `2GB`. Queries have one process each, so that a database's processes are those of its clients.
    ///
    /// # Errors
    /// When there is no PostgreSQL or it does not start: with what it printed.
    pub async fn start(folder: &Path, cores: &Cores, memory: &str) -> Result<Postgres> {
        let (programs, data) = (programs()?, folder.join("postgres"));
        if process::is_root() {
            let own = Command::new("install").args(["-d", "-o", "postgres"]).arg(&data).status();
            if !own.is_ok_and(|status| status.success()) {
                return Err("cannot make a folder that is PostgreSQL's own".into());
            }
        }
        let made = as_postgres()
            .arg(programs.join("initdb"))
            .arg("-D")
            .arg(&data)
            .args(["-U", "admin", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8"])
            .output()
            .map_err(|error| format!("initdb cannot be run: {error}"))?;
        if !made.status.success() {
            return Err(format!("initdb failed:\n{}", String::from_utf8_lossy(&made.stderr)).into());
        }
        // Free a moment ago: the server says so if somebody else was faster.
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let log = folder.join("postgres.log");
        let mut command = cores.command();
        let inner = as_postgres();
        command.arg(inner.get_program()).args(inner.get_args());
        command.arg(programs.join("postgres")).arg("-D").arg(&data).current_dir("/");
        let memory = format!("shared_buffers={memory}");
        let settings = [
            "listen_addresses=127.0.0.1",
            "unix_socket_directories=",
            "max_connections=500",
            "max_wal_size=4GB",
            "fsync=on",
            "synchronous_commit=on",
            "wal_sync_method=fdatasync",
            "max_parallel_workers_per_gather=0",
            &memory,
        ];
        command.args(["-p", &port.to_string()]).args(settings.iter().flat_map(|setting| ["-c", setting]));
        let process = Process::spawn("PostgreSQL", &mut command, &log)?;
        let mut server = Postgres { process, port };
        let until = tokio::time::Instant::now() + START_WAIT;
        loop {
            if connect(&server.url("postgres")).await.is_ok() {
                return Ok(server);
            }
            if !server.process.runs() || tokio::time::Instant::now() > until {
                let said = std::fs::read_to_string(&log).unwrap_or_default();
                return Err(format!("PostgreSQL did not start:\n{}", said.trim_end()).into());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    pub fn url(&self, database: &str) -> String {
        format!("postgres://admin@127.0.0.1:{}/{database}", self.port)
    }

    /// Connects the administrator.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn admin(&self) -> Result<Client> {
        connect(&self.url("postgres")).await
    }

    /// The server's first process.
    pub fn pid(&self) -> u32 {
        let own = self.process.pid();
        match process::children(own).as_slice() {
            // `runuser`, which stands between at times, has one child; a server has many.
            [only] => *only,
            _ => own,
        }
    }

    /// Ends it in order, without waiting for its clients.
    ///
    /// # Errors
    /// None, now; as those of [`super::Rowhouse::stop`].
    pub async fn stop(mut self) -> Result<()> {
        process::signal_to(self.pid(), "INT");
        while self.process.runs() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // Killing what stands between would leave the server: it is told itself, and ends at once.
        if self.process.runs() {
            process::signal_to(self.pid(), "QUIT");
            for _ in 0..500 {
                if !self.process.runs() {
                    return;
                }
                #[expect(
                    clippy::disallowed_methods,
                    reason = "this is no simulated world, and nothing else goes on"
                )]
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}
