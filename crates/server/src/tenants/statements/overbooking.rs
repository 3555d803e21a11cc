//! What the administrator is told when more is reserved than there is.

use std::collections::BTreeSet;
use std::fmt;

use base::{ByteCount, Severity, SqlError, SqlState, VolumeNo};
use governor::{MilliCores, Promise};

use super::super::SYSTEM_TENANT;
use crate::shared::Shared;

/// Of what a statement has reserved more than was before, or left less.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Grown {
    cpu: bool,
    memory: bool,
    work_memory: bool,
    /// I/Os on these volumes.
    io: BTreeSet<VolumeNo>,
}

impl Grown {
    /// Takes in the change of one tenant, whose data file is on `volume`.
    pub(super) fn note(&mut self, shared: &Shared, volume: &str, before: &Promise, after: &Promise) {
        self.cpu |= after.cpu.reserved > before.cpu.reserved;
        self.memory |= after.memory.memory > before.memory.memory;
        self.work_memory |= after.memory.work_memory > before.memory.work_memory;
        if after.io.iops > before.io.iops {
            self.io.extend(volumes_of(shared, volume));
        }
    }

    /// Takes in that a volume gives less.
    pub(super) fn note_volume(&mut self, volume: VolumeNo) {
        self.io.insert(volume);
    }

    /// The warnings for what is overbooked and was not, or not as much.
    pub(super) fn warnings(&self, shared: &Shared) -> Vec<SqlError> {
        if *self == Grown::default() {
            return Vec::new();
        }
        let sums = shared.tenants.reserved();
        let cores = u64::from(1000 * shared.workers.len() as u32);
        let mut warnings = Vec::new();
        if self.cpu && sums.cpu() > cores {
            let of_system = format!(
                "{} of them {} of tenant \"{SYSTEM_TENANT}\".",
                Cores(sums.system_cpu()),
                if sums.system_cpu() == 1000 { "is" } else { "are" }
            );
            let (reserved, there) = (Cores(sums.cpu()), Cores(cores));
            let message = format!("processor time is overbooked: {reserved} of {there} cores are reserved");
            warnings.push(warning(message).with_detail(of_system));
        }
        let there = shared.memory.promisable();
        if self.memory && sums.memory() > there.0 {
            let reserved = ByteCount(sums.memory());
            let message = format!("memory is overbooked: {reserved} of {there} are reserved");
            let of_evictors =
                format!("The rest of the server's {} is kept free for what comes in.", shared.config.memory);
            warnings.push(warning(message).with_detail(of_evictors));
        }
        let capacity = shared.work_memory.capacity();
        if self.work_memory && sums.work_memory() > capacity.0 {
            let reserved = ByteCount(sums.work_memory());
            let message = format!("working memory is overbooked: {reserved} of {capacity} are reserved");
            warnings.push(warning(message));
        }
        for volume in shared.volumes.list().iter().filter(|volume| self.io.contains(&volume.number)) {
            let reserved = sums.iops(volume.number);
            if let Some(there) = volume.capacity().filter(|there| reserved > *there) {
                let name = &volume.name;
                let message = format!(
                    "volume \"{name}\" is overbooked: {reserved} of {there} I/Os a second are reserved"
                );
                warnings.push(warning(message));
            }
        }
        warnings
    }
}

fn warning(message: String) -> SqlError {
    SqlError::new(SqlState::WARNING, message).with_severity(Severity::Warning)
}

/// Thousandths of a core, of any number of them.
pub(super) struct Cores(pub(super) u64);

impl fmt::Display for Cores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0 / 1000, (self.0 % 1000) as u32);
        let decimals = MilliCores(rest).to_string();
        write!(f, "{whole}{}", decimals.strip_prefix('0').unwrap_or_default())
    }
}

/// The volumes that a tenant's promise of I/O is for: that of its data file, and the logs'.
fn volumes_of(shared: &Shared, volume: &str) -> [VolumeNo; 2] {
    let of_log = shared.config.log_volume();
    [shared.config.volume_no(volume).unwrap_or(of_log), of_log]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_shown_as_promises_are() {
        let shown = [0, 1, 500, 2000, 2600, 8_192_125].map(|cores| Cores(cores).to_string());
        assert_eq!(shown, ["0", "0.001", "0.5", "2", "2.6", "8192.125"]);
    }
}
