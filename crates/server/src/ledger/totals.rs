//! What the ledger knows of a tenant since the server's start.

use std::ops::Add;

use base::Nanos;
use governor::{LedgerRow, OwnLimit, Resource, RollUpRow};

use super::StatementTotals;
use crate::executor::Wait;

/// Of one kind of resource, in its unit: nanoseconds of processor time, I/Os.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct ResourceTotals {
    pub(crate) promised: u64,
    pub(crate) demanded: u64,
    pub(crate) given: u64,
    pub(crate) missed: u64,
    pub(crate) over: u64,
    /// Rows in which the promise was broken, by cause: in the order of [`RollUpRow::CAUSES`].
    pub(crate) broken: [u64; RollUpRow::CAUSES.len()],
}

/// Sums of a tenant's rows, of all resources; I/O of all volumes together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) cpu: ResourceTotals,
    /// Of processor time; of its debts the largest.
    pub(crate) own_limit: OwnLimit,
    pub(crate) io: ResourceTotals,
    /// Read and written.
    pub(crate) io_bytes: u64,
    pub(crate) memory: ResourceTotals,
    pub(crate) work_memory: ResourceTotals,
    pub(crate) owed_micros: u64,
    pub(crate) statements: StatementTotals,
}

/// With what its tasks waited for, by [`Wait`]: time and number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct LedgerFigures {
    pub(crate) totals: Totals,
    pub(crate) waits: [(Nanos, u64); Wait::ALL.len()],
}

impl Add for ResourceTotals {
    type Output = ResourceTotals;

    fn add(self, other: ResourceTotals) -> ResourceTotals {
        ResourceTotals {
            promised: self.promised.saturating_add(other.promised),
            demanded: self.demanded.saturating_add(other.demanded),
            given: self.given.saturating_add(other.given),
            missed: self.missed.saturating_add(other.missed),
            over: self.over.saturating_add(other.over),
            broken: std::array::from_fn(|cause| self.broken[cause] + other.broken[cause]),
        }
    }
}

impl Add for Totals {
    type Output = Totals;

    fn add(self, other: Totals) -> Totals {
        Totals {
            cpu: self.cpu + other.cpu,
            own_limit: self.own_limit.and(other.own_limit),
            io: self.io + other.io,
            io_bytes: self.io_bytes + other.io_bytes,
            memory: self.memory + other.memory,
            work_memory: self.work_memory + other.work_memory,
            owed_micros: self.owed_micros.saturating_add(other.owed_micros),
            statements: self.statements + other.statements,
        }
    }
}

impl Add for LedgerFigures {
    type Output = LedgerFigures;

    fn add(self, other: LedgerFigures) -> LedgerFigures {
        let both = |wait: usize| {
            let ((time, count), (more, times)) = (self.waits[wait], other.waits[wait]);
            (time + more, count + times)
        };
        LedgerFigures { totals: self.totals + other.totals, waits: std::array::from_fn(both) }
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
        let of_row = ResourceTotals {
            promised: row.promised,
            demanded: row.demanded,
            given: row.given,
            missed: row.missed,
            over: row.over,
            broken: RollUpRow::CAUSES.map(|cause| u64::from(row.cause == Some(cause))),
        };
        *of_resource = *of_resource + of_row;
        if row.resource == Resource::Cpu {
            self.own_limit = self.own_limit.and(row.own_limit);
        }
        self.owed_micros = self.owed_micros.saturating_add(row.owed_micros);
    }
}

#[cfg(test)]
mod tests {
    use base::TenantId;
    use governor::Cause;

    use super::*;

    #[test]
    fn resources_are_summed_apart_and_owed_together() {
        let row = |resource, given, cause| LedgerRow {
            tenant: TenantId(16),
            resource,
            from: Nanos(0),
            to: Nanos(1),
            promised: 10,
            demanded: 9,
            given,
            missed: 9 - given,
            by_chance: 0,
            over: 2,
            own_limit: OwnLimit::default(),
            active: Nanos(1),
            cause,
            delays: None,
            owed_micros: 5,
        };
        let mut totals = Totals::default();
        totals.count(&row(Resource::Cpu, 7, Some(Cause::System)));
        totals.count(&row(Resource::Io { volume: 0 }, 2, Some(Cause::Device)));
        totals.count(&row(Resource::Io { volume: 1 }, 3, None));
        let cpu =
            ResourceTotals { promised: 10, demanded: 9, given: 7, missed: 2, over: 2, broken: [0, 1, 0, 0] };
        assert_eq!(totals.cpu, cpu);
        let io = ResourceTotals {
            promised: 20,
            demanded: 18,
            given: 5,
            missed: 13,
            over: 4,
            broken: [0, 0, 0, 1],
        };
        assert_eq!(totals.io, io);
        assert_eq!((totals + totals).owed_micros, 30);
        let own_limit = OwnLimit { held: 1, debt: 2, forgiven: 3, awaited: 4 };
        totals.count(&LedgerRow { own_limit, ..row(Resource::Cpu, 7, None) });
        let twice = OwnLimit { held: 2, debt: 2, forgiven: 6, awaited: 8 };
        assert_eq!((totals + totals).own_limit, twice);
        // A reservation of all the bytes there are is as many I/Os in some hours.
        let most = LedgerRow { promised: u64::MAX / 2, ..row(Resource::Io { volume: 0 }, 2, None) };
        let mut of_most = Totals::default();
        (0..3).for_each(|_| of_most.count(&most));
        assert_eq!((of_most.io.promised, of_most.io.given), (u64::MAX, 6));
        let mut waits = [(Nanos(0), 0); Wait::ALL.len()];
        waits[Wait::Lock as usize] = (Nanos(3), 1);
        let figures = LedgerFigures { totals, waits };
        assert_eq!((figures + figures).waits[Wait::Lock as usize], (Nanos(6), 2));
    }
}
