//! What the experiment ran on.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::report::Fact;

/// The machine, as far as results depend on it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Machine {
    pub processor: String,
    pub cores: usize,
    pub memory_bytes: u64,
    pub kernel: String,
    /// Device and file system of the data.
    pub storage: String,
}

impl Machine {
    /// This machine, with its data in `folder`. What it does not tell is "unknown".
    pub fn of(folder: &Path) -> Machine {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let field = |text: &str, name: &str| {
            text.lines()
                .find(|line| line.starts_with(name))
                .and_then(|line| line.split_once(':').map(|(_, value)| value.trim().to_owned()))
        };
        let unknown = || "unknown".to_owned();
        let memory = field(&read("/proc/meminfo"), "MemTotal").unwrap_or_default();
        let kib: u64 = memory.split(' ').next().and_then(|kib| kib.parse().ok()).unwrap_or(0);
        let cpus = read("/proc/cpuinfo");
        Machine {
            processor: field(&cpus, "model name").unwrap_or_else(unknown),
            cores: cpus.lines().filter(|line| line.starts_with("processor")).count(),
            memory_bytes: kib << 10,
            kernel: format!("Linux {}", read("/proc/sys/kernel/osrelease").trim()),
            storage: folder
                .canonicalize()
                .ok()
                .and_then(|folder| storage_of(&read("/proc/mounts"), &folder))
                .unwrap_or_else(unknown),
        }
    }

    /// As a report lists it.
    pub fn facts(&self) -> Vec<Fact> {
        vec![
            Fact::new("Processor", format!("{}, {} cores", self.processor, self.cores)),
            Fact::new("Memory", format!("{:.1} GiB", self.memory_bytes as f64 / f64::from(1 << 30))),
            Fact::new("Kernel", &self.kernel),
            Fact::new("Storage", &self.storage),
        ]
    }
}

/// Device and file system that a folder is on, by the longest mount point that leads to it.
fn storage_of(mounts: &str, folder: &Path) -> Option<String> {
    let lines = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ');
        Some((words.next()?, words.next()?, words.next()?))
    });
    let leading = lines.filter(|(_, point, _)| folder.starts_with(point));
    let (device, point, kind) = leading.max_by_key(|(_, point, _)| point.len())?;
    Some(format!("{device} ({kind}, mounted at {point})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_system_is_that_of_the_longest_mount_point() {
        let mounts = "/dev/vda / ext4 rw 0 0\n/dev/nvme0 /data xfs rw 0 0\ntmpfs /data/t tmpfs rw 0 0\n";
        let of = |path: &str| storage_of(mounts, Path::new(path)).expect("a mount");
        assert_eq!(of("/data/x"), "/dev/nvme0 (xfs, mounted at /data)");
        assert_eq!(of("/database"), "/dev/vda (ext4, mounted at /)");
        let machine = Machine::of(Path::new("/"));
        assert!(machine.cores > 0 && machine.memory_bytes > 1 << 20, "{machine:?}");
    }
}
