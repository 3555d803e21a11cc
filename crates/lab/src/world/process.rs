//! A child process that ends when the value that stands for it does, and what the system counts of it.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::Result;

/// What the kernel's clock of processor time in `/proc` ticks at, on every architecture that this runs on.
const TICKS_PER_SECOND: f64 = 100.0;
/// How long a child has to end in order before it is killed.
const END_WAIT: Duration = Duration::from_secs(60);

/// A running child. Dropped, it is killed; [`Process::end`] lets it end in order.
pub struct Process {
    child: Child,
    name: String,
}

impl Process {
    /// Starts a program with its output in a file, in a process group of its own.
    ///
    /// # Errors
    /// When it cannot be started: says which program.
    pub fn spawn(name: &str, command: &mut Command, output: &Path) -> Result<Process> {
        use std::os::unix::process::CommandExt as _;
        let cannot = |error: std::io::Error| format!("cannot start {name}: {error}");
        let file = std::fs::File::options().create(true).append(true).open(output).map_err(cannot)?;
        let errors = file.try_clone().map_err(cannot)?;
        let child = command.stdin(Stdio::null()).stdout(file).stderr(errors).process_group(0).spawn();
        Ok(Process { child: child.map_err(cannot)?, name: name.into() })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has not ended.
    pub fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Asks it to end, by this signal, and waits until it has; after a minute it is killed.
    ///
    /// # Errors
    /// When it had to be killed.
    pub async fn end(self, signal: &str) -> Result<()> {
        signal_to(self.pid(), signal);
        self.ended().await
    }

    /// Waits until it has ended, having been told to; after a minute it is killed.
    ///
    /// # Errors
    /// When it had to be killed.
    pub async fn ended(mut self) -> Result<()> {
        let until = tokio::time::Instant::now() + END_WAIT;
        while self.runs() {
            if tokio::time::Instant::now() > until {
                return Err(format!("{} did not end within {} s", self.name, END_WAIT.as_secs()).into());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.runs() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Sends a process a signal, by name: `TERM`, `INT`. One that is gone is told nothing.
pub fn signal_to(pid: u32, signal: &str) {
    let _ = Command::new("kill").args(["-s", signal, &pid.to_string()]).stderr(Stdio::null()).status();
}

/// The fields of a `stat` file of `/proc` behind the name, which may have anything in it.
fn stat_fields(text: &str) -> Vec<&str> {
    text.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().collect()).unwrap_or_default()
}

/// Processor time of a process so far, in seconds, its ended children not counted; 0 if it is gone.
pub fn cpu_seconds(pid: u32) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = stat_fields(&text);
    let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / TICKS_PER_SECOND
}

/// How the kernel schedules a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scheduling {
    /// As `sched(7)` numbers them: 0 is the usual one, 5 is `SCHED_IDLE`.
    policy: u32,
    nice: i32,
}

impl Scheduling {
    /// Of this process, which those that it starts inherit; the usual one if the system does not say.
    pub fn own() -> Scheduling {
        Scheduling::read(&std::fs::read_to_string("/proc/self/stat").unwrap_or_default())
    }

    fn read(text: &str) -> Scheduling {
        let fields = stat_fields(text);
        let field = |index: usize| fields.get(index).copied().unwrap_or_default();
        Scheduling { policy: field(38).parse().unwrap_or(0), nice: field(16).parse().unwrap_or(0) }
    }

    /// Whether everybody else goes first; and with that a server's threads for queries, which it raises above that when it is their
    /// turn, before its workers.
    pub fn is_idle(self) -> bool {
        const SCHED_IDLE: u32 = 5;
        self.policy == SCHED_IDLE
    }
}

impl std::fmt::Display for Scheduling {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const NAMES: [&str; 7] =
            ["SCHED_OTHER", "SCHED_FIFO", "SCHED_RR", "SCHED_BATCH", "4", "SCHED_IDLE", "SCHED_DEADLINE"];
        let name = NAMES.get(self.policy as usize).copied().unwrap_or("an unknown policy");
        write!(f, "{name}, nice {}", self.nice)
    }
}

/// The processes that a process has started and that are there.
pub fn children(pid: u32) -> Vec<u32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_whitespace().filter_map(|child| child.parse().ok()).collect()
}

/// Bytes that a process had read from and written to block devices; 0 if it is gone or nobody may know.
pub fn disk_bytes(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|value| value.trim().parse::<u64>().ok()).unwrap_or(0)
    };
    field("read_bytes:") + field("write_bytes:")
}

/// Whether this process is root.
pub fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_an_odd_name_is_read() {
        let text = "7 (a) b) S 1 7 7 0 -1 4194304 1 0 0 0 150 50 0 0 20 0 1 0 1 1 1";
        let fields = stat_fields(text);
        assert_eq!((fields[0], fields[11], fields[12]), ("S", "150", "50"));
        assert_eq!(cpu_seconds(u32::MAX), 0.0);
    }

    #[test]
    fn idle_priority_is_told_from_the_usual_one() {
        let stat = |nice: i32, policy: u32| {
            format!("7 (a b) S {} {nice} {} 0 {policy} 0", "1 ".repeat(15).trim(), "1 ".repeat(20).trim())
        };
        let usual = Scheduling::read(&stat(-5, 0));
        assert_eq!((usual.to_string().as_str(), usual.is_idle()), ("SCHED_OTHER, nice -5", false));
        let idle = Scheduling::read(&stat(0, 5));
        assert_eq!((idle.to_string().as_str(), idle.is_idle()), ("SCHED_IDLE, nice 0", true));
        assert_eq!(Scheduling::read(""), Scheduling { policy: 0, nice: 0 });
    }

    #[test]
    fn a_dropped_process_is_gone_and_another_ends_in_order() {
        let folder = tempfile::tempdir().expect("a folder");
        let output = folder.path().join("output");
        let start = || Process::spawn("sleep", Command::new("sleep").arg("600"), &output).expect("started");
        let is_there = |pid: u32| Path::new(&format!("/proc/{pid}")).exists();
        let mut dropped = start();
        let pid = dropped.pid();
        assert!(dropped.runs() && is_there(pid));
        drop(dropped);
        assert!(!is_there(pid));
        let ended = start();
        let pid = ended.pid();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(ended.end("TERM")).expect("it ends");
        assert!(!is_there(pid));
        let error =
            Process::spawn("it", &mut Command::new("/no/such/program"), &output).err().expect("an error");
        assert!(error.to_string().contains("cannot start it"), "{error}");
    }
}
