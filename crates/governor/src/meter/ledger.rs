//! The rows of the ledger.

use base::{Nanos, TenantId};

/// What a row is about, and in which unit its amounts are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Resource {
    /// Processor time, in nanoseconds; priced by the core-second.
    Cpu,
    /// I/O on a volume, in requests; priced by the request.
    Io { volume: u32 },
    /// Buffer memory, in reads and write-backs; priced by the excess one, once it is found ([`LedgerRow::missed`]).
    Memory,
    /// Working memory, in I/Os spilled; priced by the excess one. `promised` and `demanded` are what would have been spilled with the
    /// promise to itself.
    WorkMemory,
}

impl Resource {
    /// How much of the row's unit a tenant's `penalty` is the price of.
    pub const fn priced_unit(self) -> u64 {
        match self {
            Resource::Cpu => 1_000_000_000,
            Resource::Io { .. } | Resource::Memory | Resource::WorkMemory => 1,
        }
    }

    /// As people are shown it; all volumes alike.
    pub const fn as_str(self) -> &'static str {
        match self {
            Resource::Cpu => "cpu",
            Resource::Io { .. } => "io",
            Resource::Memory => "memory",
            Resource::WorkMemory => "work_memory",
        }
    }
}

/// Why something was missed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Cause {
    /// The reservations in demand were more than there is, by calibration or by the operator's limit.
    Overbooked,
    /// The server's own work went beyond its own promise.
    System,
    /// Others got what was this tenant's.
    Neighbour,
    /// The device was at its full depth and completed less than it was calibrated to.
    Device,
}

impl Cause {
    /// As people are shown it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Cause::Overbooked => "overbooked",
            Cause::System => "system",
            Cause::Neighbour => "neighbour",
            Cause::Device => "device",
        }
    }
}

/// How late a tenant's requests were, over one metering interval.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Delays {
    pub mean: Nanos,
    pub p50: Nanos,
    pub p95: Nanos,
    pub p99: Nanos,
    pub max: Nanos,
}

/// What a tenant's own limit did in an interval and is still to do. Of processor time; of I/O `awaited` alone, and of memory nothing.
///
/// What is beyond the limit in an interval ([`LedgerRow::over`]) is added to the debt or forgiven. Example: a limit of 0.25, and a call that cannot be
/// stopped takes all of a second: 0.75 s are beyond; of these 0.2525 are debt (a second's, and what a bucket holds) and 0.4975 are forgiven. In the next
/// second the tenant is stopped: of a reservation of 0.25 that it has demand for, 0.25 are held.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct OwnLimit {
    /// What it kept of the reservation though there was demand, for what the tenant had taken beyond it before: the part that is not `demanded` for that.
    pub held: u64,
    /// What had been taken beyond it by the interval's end and was not paid for by then: for so much it stops the tenant.
    pub debt: u64,
    /// What was taken beyond it and will not be paid for, since the tenant would be stopped for more than a second.
    pub forgiven: u64,
    /// The part of `given` that others waited for, so that the limit did not hold it.
    pub awaited: u64,
}

impl OwnLimit {
    /// Of two stretches of time together: sums, and the larger debt.
    pub fn and(self, other: OwnLimit) -> OwnLimit {
        OwnLimit {
            held: self.held.saturating_add(other.held),
            debt: self.debt.max(other.debt),
            forgiven: self.forgiven.saturating_add(other.forgiven),
            awaited: self.awaited.saturating_add(other.awaited),
        }
    }
}

/// One tenant, one resource, one metering interval. Amounts are in the resource's unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LedgerRow {
    pub tenant: TenantId,
    pub resource: Resource,
    /// The interval, longer than asked for if the server stood still.
    pub from: Nanos,
    pub to: Nanos,
    /// What the reservation comes to over the interval. A reservation of bytes is counted in I/Os as many as the interval's requests
    /// took for so many bytes.
    pub promised: u64,
    /// The part of it that there was demand for. Of processor time less what the tenant's own limit may have kept from it.
    pub demanded: u64,
    /// Of processor time with what was taken before the tenant's home was there; none of that is in `missed` and `over`.
    pub given: u64,
    /// `demanded` less `given`, if that is above zero. Of I/O: what was due in the interval and not issued in it. Of buffer memory, whose baseline
    /// is a simulation of some of the pages: that of this interval and of those before it that left it open, once it is more than chance; else 0.
    pub missed: u64,
    /// The most of `missed` that may be chance: of buffer memory. What else is missed was counted.
    pub by_chance: u64,
    /// `given` less what the limit comes to over the interval, if that is above zero: what a burst and debt let through. Of I/O 0
    /// where the limit changed within the interval: its meter knows the last one only.
    pub over: u64,
    pub own_limit: OwnLimit,
    /// Time in the interval in which there was demand; `given / active` is the effective share.
    pub active: Nanos,
    /// Present if and only if the promise was broken: something was missed, or, where each I/O was promised, was late.
    pub cause: Option<Cause>,
    /// Where requests have deadlines: I/O of a tenant with a reservation of it.
    pub delays: Option<Delays>,
    /// What the tenant is owed for it, in millionths of its `penalty`'s currency, rounded down.
    pub owed_micros: u64,
}

impl LedgerRow {
    /// Whether the promise was kept.
    pub fn is_kept(&self) -> bool {
        self.cause.is_none()
    }

    /// Whether it says more than how much was used: something of a promise was wanted or broken, or a limit was passed or kept something of a reservation.
    pub fn is_telling(&self) -> bool {
        self.demanded > 0 || self.over > 0 || self.own_limit.held > 0 || !self.is_kept()
    }

    /// The price of what was missed at `penalty_micros` each priced unit. Example: 40 ms of processor time missed at a
    /// penalty of 2 a core-second: 0.08.
    pub fn price(resource: Resource, missed: u64, penalty_micros: u64) -> u64 {
        let price = u128::from(missed) * u128::from(penalty_micros) / u128::from(resource.priced_unit());
        u64::try_from(price).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missed_processor_time_is_priced_by_the_core_second() {
        assert_eq!(LedgerRow::price(Resource::Cpu, 40_000_000, 2_000_000), 80_000);
        assert_eq!(LedgerRow::price(Resource::Io { volume: 0 }, 7, 2_000_000), 14_000_000);
        assert_eq!(LedgerRow::price(Resource::Cpu, u64::MAX, u64::MAX), u64::MAX);
    }
}
