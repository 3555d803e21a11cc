//! What the administrator is told when more is reserved than there is.

use std::fmt;

use base::{ByteCount, Severity, SqlError, SqlState, TenantId};
use governor::{MilliCores, Promise};

use super::super::SYSTEM_TENANT;
use crate::shared::Shared;

/// Of what a statement has reserved more than was before.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Grown {
    cpu: bool,
    memory: bool,
}

impl Grown {
    /// Takes in one tenant's change.
    pub(super) fn note(&mut self, before: &Promise, after: &Promise) {
        self.cpu |= after.cpu.reserved > before.cpu.reserved;
        self.memory |= after.memory.memory > before.memory.memory;
    }

    /// The warnings for what is overbooked and was not, or not as much. Looks at all tenants if anything has grown.
    pub(super) fn warnings(self, shared: &Shared) -> Vec<SqlError> {
        if self == Grown::default() {
            return Vec::new();
        }
        let sums = Reserved::of(shared);
        let cores = u64::from(1000 * shared.workers.len() as u32);
        let mut warnings = Vec::new();
        if self.cpu && sums.cpu > cores {
            let of_system = format!(
                "{} of them {} of tenant \"{SYSTEM_TENANT}\".",
                Cores(sums.system_cpu),
                if sums.system_cpu == 1000 { "is" } else { "are" }
            );
            let (reserved, there) = (Cores(sums.cpu), Cores(cores));
            let message = format!("processor time is overbooked: {reserved} of {there} cores are reserved");
            warnings.push(warning(message).with_detail(of_system));
        }
        let budget = shared.config.memory;
        if self.memory && sums.memory > budget.0 {
            let reserved = ByteCount(sums.memory);
            warnings.push(warning(format!("memory is overbooked: {reserved} of {budget} are reserved")));
        }
        warnings
    }
}

fn warning(message: String) -> SqlError {
    SqlError::new(SqlState::WARNING, message).with_severity(Severity::Warning)
}

/// Thousandths of a core, of any number of them.
struct Cores(u64);

impl fmt::Display for Cores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0 / 1000, (self.0 % 1000) as u32);
        let decimals = MilliCores(rest).to_string();
        write!(f, "{whole}{}", decimals.strip_prefix('0').unwrap_or_default())
    }
}

/// What all tenants have reserved together.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Reserved {
    cpu: u64,
    system_cpu: u64,
    memory: u64,
}

impl Reserved {
    fn of(shared: &Shared) -> Reserved {
        let mut sums = Reserved::default();
        for (_, entry) in shared.tenants.list() {
            entry.with_row(|row| {
                let cpu = u64::from(row.promise.cpu.reserved.0);
                sums.cpu += cpu;
                if entry.id == TenantId::SYSTEM {
                    sums.system_cpu = cpu;
                }
                sums.memory = sums.memory.saturating_add(row.promise.memory.memory.0);
            });
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_shown_as_promises_are() {
        let shown = [0, 1, 500, 2000, 2600, 8_192_125].map(|cores| Cores(cores).to_string());
        assert_eq!(shown, ["0", "0.001", "0.5", "2", "2.6", "8192.125"]);
    }

    #[test]
    fn only_more_is_growth() {
        let promise =
            |text: &str| text.parse::<governor::PromiseOptions>().unwrap().over(&Promise::default());
        let grown = |before: &str, after: &str| {
            let mut grown = Grown::default();
            grown.note(&promise(before), &promise(after));
            (grown.cpu, grown.memory)
        };
        assert_eq!(grown("cpu = 1", "cpu = 1, memory = 1B"), (false, true));
        assert_eq!(grown("cpu = 1, memory = 2B", "cpu = 2, memory = 1B"), (true, false));
        assert_eq!(grown("cpu = 1", "cpu_max = 2, cpu_weight = 7"), (false, false));
    }
}
