//! The one fixtures module of the tests that drive a whole server from outside: processes, tenants, connections, tools.
//!
//! Every test has a server process of its own, on free ports, in a directory of its own; both are gone when the value is
//! dropped. A test fails if its server wrote a warning it did not announce with [`Server::expect_warnings`].

#![allow(dead_code, unreachable_pub, reason = "each test binary uses a part of the fixtures")]

pub mod bench;
pub mod bystander;
pub mod damage;
pub mod ledger;
pub mod postgres;
pub mod raw;

use std::future::Future;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls};

/// Password of `admin` and of every tenant's owner.
pub const PASSWORD: &str = "secret";

/// A running server process.
pub struct Server {
    child: Child,
    address: String,
    data: PathBuf,
    options: Vec<String>,
    log: PathBuf,
    warnings_expected: bool,
    /// Shared with the servers that are later started on the same directory.
    dir: Option<TempDir>,
}

impl Server {
    /// A server on a new directory.
    pub fn start() -> Server {
        Server::start_with(&[])
    }

    /// A server on a new directory with further options of `rowhouse serve`.
    pub fn start_with(options: &[&str]) -> Server {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let data = dir.path().join("data");
        let mut server = Server::on(&data, options);
        server.dir = Some(dir);
        server
    }

    /// A server on a directory the caller keeps.
    pub fn on(data: &Path, options: &[&str]) -> Server {
        Server::launch(data, options).unwrap_or_else(|output| panic!("the server did not start:\n{output}"))
    }

    /// A server, or everything it printed before it ended.
    pub fn launch(data: &Path, options: &[&str]) -> Result<Server, String> {
        Server::launch_with(data, options, &[])
    }

    /// [`Server::launch`] with further environment variables, which [`Server::restart`] does not set again.
    pub fn launch_with(
        data: &Path,
        options: &[&str],
        environment: &[(&str, &str)],
    ) -> Result<Server, String> {
        let log = data.with_extension("log");
        std::fs::create_dir_all(data.parent().expect("a data directory has a parent"))
            .expect("a folder can be made");
        let stderr =
            std::fs::OpenOptions::new().append(true).create(true).open(&log).expect("a log can be opened");
        let own_address = options.iter().any(|option| option.starts_with("--listen"));
        let mut child = Command::new(env!("CARGO_BIN_EXE_rowhouse"))
            .args(["serve", "--no-admin", "--data"])
            .arg(data)
            .args(if own_address { &[][..] } else { &["--listen", "127.0.0.1:0"] })
            .args(options)
            .env("ROWHOUSE_ADMIN_PASSWORD", PASSWORD)
            .envs(environment.iter().copied())
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .expect("the server's binary can be run");
        let mut announced = String::new();
        let mut stdout = BufReader::new(child.stdout.take().expect("stdout is piped"));
        let address = loop {
            let mut line = String::new();
            if stdout.read_line(&mut line).expect("stdout can be read") == 0 {
                let status = child.wait().expect("the server can be waited for");
                let errors = std::fs::read_to_string(&log).unwrap_or_default();
                return Err(format!("{announced}{errors}{status}"));
            }
            announced.push_str(&line);
            if let Some((_, rest)) = line.split_once("postgres://") {
                break rest.split([' ', ',']).next().expect("an address").to_owned();
            }
        };
        // The pipe is read on, or the server could block on it.
        std::thread::spawn(move || std::io::copy(&mut stdout, &mut std::io::sink()));
        let options = options.iter().map(ToString::to_string).collect();
        Ok(Server {
            child,
            address,
            data: data.to_owned(),
            options,
            log,
            warnings_expected: false,
            dir: None,
        })
    }

    /// The test provokes warnings.
    pub fn expect_warnings(&mut self) {
        self.warnings_expected = true;
    }

    pub fn port(&self) -> u16 {
        self.address.rsplit(':').next().and_then(|port| port.parse().ok()).expect("an address with a port")
    }

    pub fn data(&self) -> &Path {
        &self.data
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The most memory that the process has had, in bytes: ever, or since somebody had the kernel count anew.
    pub fn memory_peak(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("its status");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("its peak");
        let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number of KiB");
        kib << 10
    }

    /// What the server wrote to its log so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub fn url(&self, user: &str, database: &str) -> String {
        format!("postgres://{user}:{PASSWORD}@{}/{database}", self.address)
    }

    /// Ends the server without warning, as a crash would.
    pub fn kill(&mut self) {
        self.child.kill().expect("the server can be killed");
        self.child.wait().expect("the server can be waited for");
    }

    /// Asks the server to end in order and waits for it.
    pub fn terminate(&mut self) -> ExitStatus {
        let status = Command::new("kill").arg(self.pid().to_string()).status().expect("kill can be run");
        assert!(status.success());
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            if let Some(status) = self.child.try_wait().expect("the server can be waited for") {
                return status;
            }
            assert!(Instant::now() < deadline, "the server did not end within 30 s of SIGTERM");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Starts the server again on its directory, after [`Server::kill`] or [`Server::terminate`].
    pub fn restart(&mut self) {
        let options: Vec<&str> = self.options.iter().map(String::as_str).collect();
        let mut next = Server::on(&self.data, &options);
        std::mem::swap(&mut self.child, &mut next.child);
        std::mem::swap(&mut self.address, &mut next.address);
        // What is dropped now is the ended process.
        next.warnings_expected = true;
    }

    /// Connects as `user` to `database`.
    pub async fn connect_as(&self, user: &str, database: &str) -> Result<Client, tokio_postgres::Error> {
        connect(&self.url(user, database)).await
    }

    /// Connects as the administrator to the database `rowhouse`.
    pub async fn admin(&self) -> Client {
        self.connect_as("admin", "rowhouse").await.expect("the administrator can connect")
    }

    /// Makes a tenant whose owner has its name.
    pub async fn create_tenant(&self, name: &str) {
        let statement = format!("CREATE TENANT {name} OWNER {name} PASSWORD '{PASSWORD}'");
        self.admin().await.batch_execute(&statement).await.expect("a tenant can be made");
    }

    /// Connects to a tenant as its owner.
    pub async fn owner(&self, tenant: &str) -> Client {
        self.connect_as(tenant, tenant).await.expect("the owner can connect")
    }

    /// A server with one tenant, `acme`.
    pub fn with_acme() -> Server {
        let server = Server::start();
        run(server.create_tenant("acme"));
        server
    }

    /// A tool with the environment libpq takes its connection from: the owner of `tenant`.
    pub fn client_tool(&self, name: &str, tenant: &str) -> Command {
        let mut command = tool(name);
        command
            .env("PGHOST", "127.0.0.1")
            .env("PGPORT", self.port().to_string())
            .env("PGUSER", tenant)
            .env("PGPASSWORD", PASSWORD)
            .env("PGDATABASE", tenant)
            .env("PGCONNECT_TIMEOUT", "20");
        command
    }

    /// Runs a script of `tests/clients` with the owner's URL of `tenant` as its argument; fails with what it printed.
    pub fn run_python(&self, script: &str, tenant: &str) {
        let path = clients_folder().join(script);
        let mut command = tool("python3");
        let output = command.arg(&path).arg(self.url(tenant, tenant)).output().expect("python3 can be run");
        let said = said(&output);
        assert!(
            !said.contains("ModuleNotFoundError"),
            "a Python package is missing: run `python3 -m pip install -r tests/clients/requirements.txt`\n{said}"
        );
        assert!(output.status.success(), "{script} failed:\n{said}\nserver's log:\n{}", self.log());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("the server's log:\n{}", self.log());
        } else if !self.warnings_expected {
            let log = self.log();
            let unexpected = log.lines().find(|line| {
                // New directories never are.
                !line.contains("it was never calibrated") && line.contains(" WARN ")
                    || line.contains(" ERROR ")
                    || line.contains("panicked")
            });
            assert!(unexpected.is_none(), "the server warned unexpectedly:\n{log}");
        }
    }
}

/// Runs a test's future; connections are tasks of the same runtime.
pub fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(future)
}

/// Connects with tokio-postgres.
pub async fn connect(url: &str) -> Result<Client, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    // Its error reaches whoever uses the client next.
    tokio::spawn(connection);
    Ok(client)
}

/// The SQLSTATE of a failed call.
pub fn state<T>(result: Result<T, tokio_postgres::Error>) -> SqlState {
    match result {
        Ok(_) => panic!("the call should have failed"),
        Err(error) => error.code().unwrap_or_else(|| panic!("not the server's error: {error}")).clone(),
    }
}

/// A value of the first row as text, by the simple protocol.
pub async fn text(client: &Client, query: &str) -> String {
    for message in client.simple_query(query).await.unwrap_or_else(|error| panic!("{query}: {error:?}")) {
        if let tokio_postgres::SimpleQueryMessage::Row(row) = message {
            return row.get(0).unwrap_or("NULL").to_owned();
        }
    }
    panic!("{query}: no row")
}

/// A program of the machine.
///
/// # Panics
/// It is not installed: says what to install.
pub fn tool(name: &str) -> Command {
    let package = match name {
        "psql" => "postgresql-client",
        "pgbench" => "postgresql-contrib (or postgresql)",
        "script" => "bsdutils",
        other => other,
    };
    let mut folders: Vec<PathBuf> =
        std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect();
    folders.push("/usr/lib/postgresql/15/bin".into());
    match folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file()) {
        Some(path) => Command::new(path),
        None => panic!(
            "`{name}` is not installed: `apt-get install {package}`; .ci/run installs all that tests need"
        ),
    }
}

/// Standard output and error of a program, one after the other.
pub fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Runs `rowhouse verify` with these options and gives whether it ended well and all it said.
pub fn verify(options: &[&str]) -> (bool, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_rowhouse")).arg("verify").args(options).output();
    let output = output.expect("the binary can be run");
    (output.status.success(), said(&output))
}

/// Runs a program to its end; its standard output. Panics with all it printed if it failed.
pub fn check_output(command: &mut Command) -> String {
    let output = command.output().expect("the program can be run");
    assert!(output.status.success(), "{command:?} failed with {}:\n{}", output.status, said(&output));
    String::from_utf8(output.stdout).expect("output is UTF-8")
}

/// Where the client scripts and expectations are.
pub fn clients_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/clients")
}
