//! Cores for servers and cores for load, so that neither takes time from the other.
//!
//! `taskset` of util-linux does it: only `env` makes system calls in this house.

use std::collections::BTreeSet;
use std::fmt;
use std::process::Command;
use std::str::FromStr;

use crate::Result;

/// Some of the machine's cores; never none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cores(BTreeSet<usize>);

impl Cores {
    /// The cores that this process may run on.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn allowed() -> Result<Cores> {
        let status = std::fs::read_to_string("/proc/self/status")?;
        let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        Ok(list.ok_or("the system does not say which cores there are")?.trim().parse::<Cores>()?)
    }

    pub fn count(&self) -> usize {
        self.0.len()
    }

    pub fn shares_with(&self, other: &Cores) -> bool {
        !self.0.is_disjoint(&other.0)
    }

    fn has_all_of(&self, other: &Cores) -> bool {
        self.0.is_superset(&other.0)
    }

    /// A command that runs on these cores only. It is to be given the program and its arguments.
    pub fn command(&self) -> Command {
        let mut command = Command::new("taskset");
        command.args(["-c", &self.to_string()]);
        command
    }

    /// Puts this process, all its threads, on these cores only.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn take_this_process(&self) -> Result<()> {
        let pid = std::process::id().to_string();
        let output = Command::new("taskset").args(["-a", "-p", "-c", &self.to_string(), &pid]).output();
        let output = output.map_err(|error| format!("taskset (of util-linux) cannot be run: {error}"))?;
        if output.status.success() {
            Ok(())
        } else {
            Err(format!("cannot run on the cores {self}: {}", String::from_utf8_lossy(&output.stderr)).into())
        }
    }
}

/// Cores for the server and for the load: those that were asked for, else the first one for the server and all others for the load.
///
/// # Errors
/// When there are too few, or both want the same, or one is not there.
pub fn split(allowed: &Cores, server: Option<Cores>, load: Option<Cores>) -> Result<(Cores, Cores)> {
    let first = || Cores(allowed.0.iter().take(1).copied().collect());
    let server = match (&server, &load) {
        (Some(server), _) => server.clone(),
        (None, Some(load)) => Cores(allowed.0.difference(&load.0).take(1).copied().collect()),
        (None, None) => first(),
    };
    let load = load.unwrap_or_else(|| Cores(allowed.0.difference(&server.0).copied().collect()));
    for (cores, whose) in [(&server, "the server"), (&load, "the load")] {
        if cores.0.is_empty() {
            return Err(format!(
                "no core is left for {whose}: server and load need different ones, and {allowed} is all there is"
            )
            .into());
        }
        if !allowed.has_all_of(cores) {
            return Err(format!("of the cores {cores} for {whose} not all are among {allowed}").into());
        }
    }
    if server.shares_with(&load) {
        return Err(
            format!("the cores {server} of the server and {load} of the load have to be different").into()
        );
    }
    Ok((server, load))
}

impl FromStr for Cores {
    type Err = String;

    /// As the kernel writes them: `0-2,5`.
    fn from_str(text: &str) -> std::result::Result<Cores, String> {
        let number =
            |part: &str| {
                part.trim().parse::<usize>().ok().filter(|n| *n < 4096).ok_or_else(|| {
                    format!("\"{text}\" names no cores; write numbers and ranges, as in 0-2,5")
                })
            };
        let mut cores = BTreeSet::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return Err(format!("\"{part}\" is no range of cores"));
            }
            cores.extend(first..=last);
        }
        Ok(Cores(cores))
    }
}

impl fmt::Display for Cores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&names.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cores(text: &str) -> Cores {
        text.parse().expect("cores")
    }

    #[test]
    fn cores_are_read_as_the_kernel_writes_them() {
        assert_eq!(cores("0-2, 5").to_string(), "0,1,2,5");
        for wrong in ["", "a", "3-1", "1,,2", "99999"] {
            assert!(wrong.parse::<Cores>().is_err(), "{wrong}");
        }
        assert!(Cores::allowed().expect("the system says").count() >= 1);
    }

    #[test]
    fn server_and_load_never_share_a_core() {
        let four = cores("0-3");
        let split = |server: Option<&str>, load: Option<&str>| {
            super::split(&four, server.map(cores), load.map(cores))
        };
        assert_eq!(split(None, None).expect("enough"), (cores("0"), cores("1-3")));
        assert_eq!(split(Some("2,3"), None).expect("enough"), (cores("2,3"), cores("0,1")));
        assert_eq!(split(None, Some("0")).expect("enough"), (cores("1"), cores("0")));
        for (server, load) in
            [(Some("1"), Some("1-2")), (Some("0-3"), None), (Some("7"), None), (None, Some("0-3"))]
        {
            assert!(split(server, load).is_err(), "{server:?} {load:?}");
        }
        let error = super::split(&cores("0"), None, None).expect_err("one core is not enough");
        assert!(error.to_string().contains("different ones"), "{error}");
    }
}
