//! Sums of a tenant's rows since the server's start.

use std::ops::Add;

use governor::{LedgerRow, Resource};

/// Of one kind of resource, in its unit: nanoseconds of processor time, I/Os.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct ResourceTotals {
    pub(crate) given: u64,
    pub(crate) demanded: u64,
    pub(crate) missed: u64,
}

/// Of all resources; I/O of all volumes together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) cpu: ResourceTotals,
    pub(crate) io: ResourceTotals,
    /// Read and written.
    pub(crate) io_bytes: u64,
    pub(crate) memory: ResourceTotals,
    pub(crate) work_memory: ResourceTotals,
    pub(crate) owed_micros: u64,
}

impl Add for ResourceTotals {
    type Output = ResourceTotals;

    fn add(self, other: ResourceTotals) -> ResourceTotals {
        ResourceTotals {
            given: self.given + other.given,
            demanded: self.demanded + other.demanded,
            missed: self.missed + other.missed,
        }
    }
}

impl Add for Totals {
    type Output = Totals;

    fn add(self, other: Totals) -> Totals {
        Totals {
            cpu: self.cpu + other.cpu,
            io: self.io + other.io,
            io_bytes: self.io_bytes + other.io_bytes,
            memory: self.memory + other.memory,
            work_memory: self.work_memory + other.work_memory,
            owed_micros: self.owed_micros.saturating_add(other.owed_micros),
        }
    }
}

impl Totals {
    pub(super) fn count(&mut self, row: &LedgerRow) {
        let of_resource = match row.resource {
            Resource::Cpu => &mut self.cpu,
            Resource::Io { .. } => &mut self.io,
            Resource::Memory => &mut self.memory,
            Resource::WorkMemory => &mut self.work_memory,
        };
        let of_row = ResourceTotals { given: row.given, demanded: row.demanded, missed: row.missed };
        *of_resource = *of_resource + of_row;
        self.owed_micros = self.owed_micros.saturating_add(row.owed_micros);
    }
}

#[cfg(test)]
mod tests {
    use base::{Nanos, TenantId};

    use super::*;

    #[test]
    fn resources_are_summed_apart_and_owed_together() {
        let row = |resource, given| LedgerRow {
            tenant: TenantId(16),
            resource,
            from: Nanos(0),
            to: Nanos(1),
            promised: 10,
            demanded: 9,
            given,
            missed: 9 - given,
            over: 0,
            active: Nanos(1),
            cause: None,
            delays: None,
            owed_micros: 5,
        };
        let mut totals = Totals::default();
        totals.count(&row(Resource::Cpu, 7));
        totals.count(&row(Resource::Io { volume: 0 }, 2));
        totals.count(&row(Resource::Io { volume: 1 }, 3));
        assert_eq!(totals.cpu, ResourceTotals { given: 7, demanded: 9, missed: 2 });
        assert_eq!(totals.io, ResourceTotals { given: 5, demanded: 18, missed: 13 });
        assert_eq!((totals + totals).owed_micros, 30);
    }
}
