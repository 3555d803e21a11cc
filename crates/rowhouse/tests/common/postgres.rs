//! A PostgreSQL server of the test's own.

use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use super::{check_output, said, tool};

/// A PostgreSQL server on a free port, its data in a temporary directory, gone when dropped.
pub struct Postgres {
    dir: TempDir,
    port: u16,
}

/// A program of PostgreSQL, as its own user where the test runs as root, which PostgreSQL refuses.
fn postgres_tool(name: &str) -> Command {
    let program = tool(name);
    let is_root = check_output(Command::new("id").arg("-u")).trim() == "0";
    if !is_root {
        return program;
    }
    let mut command = Command::new("runuser");
    command.args(["-u", "postgres", "--"]).arg(program.get_program()).current_dir("/");
    command
}

impl Postgres {
    pub fn start() -> Postgres {
        let dir = tempfile::tempdir().expect("a temporary directory");
        check_output(Command::new("chmod").arg("0777").arg(dir.path()));
        // Free a moment ago; who else might take it is another test's server, which the kernel gives other ports.
        let port =
            std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound").port();
        let postgres = Postgres { dir, port };
        let data = postgres.data();
        check_output(postgres_tool("initdb").arg("-D").arg(&data).args([
            "-U",
            "post",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--locale=C",
            "-N",
        ]));
        let options = format!(
            "-p {port} -k {} -c listen_addresses=127.0.0.1 -c fsync=off -c max_connections=30",
            postgres.dir.path().display()
        );
        let log = postgres.dir.path().join("log");
        // Without pipes: the server would keep them open.
        let status = postgres_tool("pg_ctl")
            .arg("-D")
            .arg(&data)
            .args(["-w", "-t", "300", "-l"])
            .arg(&log)
            .args(["-o", &options, "start"])
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .status()
            .expect("pg_ctl can be run");
        assert!(status.success(), "{}", std::fs::read_to_string(&log).unwrap_or_default());
        postgres
    }

    fn data(&self) -> PathBuf {
        self.file("data")
    }

    /// A path beside its data.
    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn url(&self) -> String {
        format!("postgres://post@127.0.0.1:{}/postgres", self.port)
    }

    pub fn psql(&self, args: &[&str]) -> String {
        let mut psql = tool("psql");
        psql.args(["-X", "-q", "-At", "-v", "ON_ERROR_STOP=1", "-d", &self.url()]).args(args);
        check_output(&mut psql)
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let stop = postgres_tool("pg_ctl")
            .arg("-D")
            .arg(self.data())
            .args(["-m", "immediate", "-w", "stop"])
            .output();
        if let Ok(output) = stop
            && !output.status.success()
        {
            eprintln!("{}", said(&output));
        }
    }
}
