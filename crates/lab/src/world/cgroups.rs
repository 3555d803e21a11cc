//! Control groups, one for each database of a PostgreSQL server: what an operator can do for isolation without a database that
//! knows tenants. Both versions of them are known; they need root and a hierarchy that may be written to.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::Result;

const ROOT: &str = "/sys/fs/cgroup";
/// Of all databases' groups together beside what is in none, with each version: as much as there can be, for otherwise they are worth one process.
const ALL_SHARES: &str = "262144";
const ALL_WEIGHT: &str = "10000";
/// Length of a period of a processor limit: short, so that a limited process does not stand still for long.
const PERIOD_US: u64 = 10_000;

/// What a group may have.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Limits {
    /// Cores at most.
    pub cpu_max: Option<f64>,
    /// Parts of the processor beside other groups; 1 is the usual one.
    pub cpu_weight: u32,
    /// Reads, and writes, a second on the device of the data, at most.
    pub iops_max: Option<u32>,
}

/// A group for each of several databases, removed when dropped. Processes in them have to have ended by then.
pub struct Groups {
    version: Version,
    /// The groups' folders; with version 1 those of processor and of I/O in turn.
    folders: Vec<PathBuf>,
    name: String,
    device: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Version {
    One,
    Two,
}

/// A file to write into and what.
type Setting = (&'static str, String);

impl Groups {
    /// Readies groups for a server with its data in `folder`.
    ///
    /// # Errors
    /// When this machine does not let us make groups: says why.
    pub fn ready(folder: &Path) -> Result<Groups> {
        let version = if Path::new(ROOT).join("cgroup.controllers").exists() {
            Version::Two
        } else if Path::new(ROOT).join("cpu/cpu.shares").exists() {
            Version::One
        } else {
            return Err(format!("no control groups of processor time under {ROOT}").into());
        };
        let name = format!("rowhouse-lab-{}", std::process::id());
        let mut groups = Groups { version, folders: Vec::new(), name, device: device_of(folder) };
        if version == Version::Two {
            write(&Path::new(ROOT).join("cgroup.subtree_control"), "+cpu +io")?;
            let parent = Path::new(ROOT).join(&groups.name);
            groups.make(parent.clone())?;
            write(&parent.join("cpu.weight"), ALL_WEIGHT)?;
            write(&parent.join("cgroup.subtree_control"), "+cpu +io")?;
        } else {
            for controller in groups.controllers() {
                groups.make(Path::new(ROOT).join(controller).join(&groups.name))?;
            }
            write(&Path::new(ROOT).join("cpu").join(&groups.name).join("cpu.shares"), ALL_SHARES)?;
        }
        Ok(groups)
    }

    /// What this is called in reports.
    pub fn label(&self) -> &'static str {
        match self.version {
            Version::One => "control groups, version 1",
            Version::Two => "control groups, version 2",
        }
    }

    fn controllers(&self) -> &'static [&'static str] {
        match self.version {
            Version::One if Path::new(ROOT).join("blkio/blkio.throttle.read_iops_device").exists() => {
                &["cpu", "blkio"]
            }
            Version::One => &["cpu"],
            Version::Two => &[""],
        }
    }

    fn folder_of(&self, controller: &str, database: &str) -> PathBuf {
        Path::new(ROOT).join(controller).join(&self.name).join(database)
    }

    fn make(&mut self, folder: PathBuf) -> Result<()> {
        std::fs::create_dir_all(&folder)
            .map_err(|error| format!("cannot make the control group {}: {error}", folder.display()))?;
        self.folders.push(folder);
        Ok(())
    }

    /// Makes a database's group, or changes it.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn set(&mut self, database: &str, limits: Limits) -> Result<()> {
        for controller in self.controllers() {
            let folder = self.folder_of(controller, database);
            if !self.folders.contains(&folder) {
                self.make(folder.clone())?;
            }
            for (file, value) in settings(self.version, controller, limits, self.device.as_deref()) {
                write(&folder.join(file), &value)?;
            }
        }
        Ok(())
    }

    /// Puts a process into a database's group. One that has ended meanwhile is nobody's.
    pub fn put(&self, database: &str, pid: u32) {
        for controller in self.controllers() {
            let _ =
                std::fs::write(self.folder_of(controller, database).join("cgroup.procs"), pid.to_string());
        }
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        for folder in self.folders.iter().rev() {
            let _ = std::fs::remove_dir(folder);
        }
    }
}

/// What is written for a group's limits.
fn settings(version: Version, controller: &str, limits: Limits, device: Option<&str>) -> Vec<Setting> {
    let quota = limits.cpu_max.map(|cores| (cores * PERIOD_US as f64).round() as u64);
    let weight = u64::from(limits.cpu_weight.max(1));
    // Without a device there is nothing to limit; 0 takes a limit of version 1 back.
    let iops = device.map(|device| (device, limits.iops_max));
    match (version, controller) {
        (Version::One, "cpu") => vec![
            ("cpu.cfs_period_us", PERIOD_US.to_string()),
            ("cpu.cfs_quota_us", quota.map_or("-1".into(), |quota| quota.to_string())),
            ("cpu.shares", (1024 * weight).min(262_144).to_string()),
        ],
        (Version::One, _) => iops.map_or_else(Vec::new, |(device, iops)| {
            let value = format!("{device} {}", iops.unwrap_or(0));
            vec![
                ("blkio.throttle.read_iops_device", value.clone()),
                ("blkio.throttle.write_iops_device", value),
            ]
        }),
        (Version::Two, _) => {
            let quota = quota.map_or("max".into(), |quota| quota.to_string());
            let mut made = vec![
                ("cpu.max", format!("{quota} {PERIOD_US}")),
                ("cpu.weight", (100 * weight).min(10_000).to_string()),
            ];
            made.extend(iops.map(|(device, iops)| {
                let iops = iops.map_or("max".into(), |iops| iops.to_string());
                ("io.max", format!("{device} riops={iops} wiops={iops}"))
            }));
            made
        }
    }
}

fn write(file: &Path, value: &str) -> Result<()> {
    std::fs::write(file, value)
        .map_err(|error| format!("cannot write \"{value}\" to {}: {error}", file.display()).into())
}

/// `major:minor` of the whole device that a folder is on, which limits of I/O are for; `None` if it is on no device.
fn device_of(folder: &Path) -> Option<String> {
    let number = std::fs::metadata(folder).ok()?.dev();
    // As the kernel packs them.
    let major = (number >> 8 & 0xfff) | (number >> 32 & !0xfff);
    let minor = (number & 0xff) | (number >> 12 & 0xffff_ff00);
    let own = PathBuf::from(format!("/sys/dev/block/{major}:{minor}")).canonicalize().ok()?;
    let whole = if own.join("partition").exists() { own.parent()? } else { &own };
    let text = std::fs::read_to_string(whole.join("dev")).ok()?;
    Some(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { cpu_max: Some(0.5), cpu_weight: 3, iops_max: Some(250) };

    #[test]
    fn limits_are_written_as_each_version_wants_them() {
        assert_eq!(
            settings(Version::One, "cpu", LIMITS, None),
            [
                ("cpu.cfs_period_us", "10000".to_owned()),
                ("cpu.cfs_quota_us", "5000".to_owned()),
                ("cpu.shares", "3072".to_owned())
            ]
        );
        assert_eq!(settings(Version::One, "blkio", LIMITS, Some("254:0"))[0].1, "254:0 250");
        assert!(settings(Version::One, "blkio", LIMITS, None).is_empty());
        let two = settings(Version::Two, "", LIMITS, Some("254:0"));
        assert_eq!(two[0].1, "5000 10000");
        assert_eq!(two[2], ("io.max", "254:0 riops=250 wiops=250".to_owned()));
        let none = Limits { cpu_max: None, cpu_weight: 1, iops_max: None };
        assert_eq!(settings(Version::One, "cpu", none, None)[1].1, "-1");
        assert_eq!(settings(Version::Two, "", none, Some("254:0"))[2].1, "254:0 riops=max wiops=max");
    }
}
