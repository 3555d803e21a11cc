//! The audit of the promises: what each tenant was promised, wanted, got and missed in each metering interval.
//!
//! It shares no state with the schedulers it audits. The executor tells both what happens, and a scheduler that ignores,
//! delays or overcharges a tenant is found out here. Rows go to whoever keeps the ledger.

mod cpu;
mod io;
mod ledger;
mod memory;
mod rollup;
mod work_memory;

use base::Nanos;
pub use cpu::{CpuAudit, CpuFeed, CpuMeters, CpuTerms};
pub use io::{DelayHistogram, IoCapacity, IoInterval, IoMeter, IoMeterVolume, IoRow, IoUsage};
pub use ledger::{Cause, Delays, LedgerRow, OwnLimit, Resource};
pub(crate) use memory::EVIDENCE_MIN;
pub use memory::{
    CURVE, MemoryAudit, MemoryCounts, MemoryMeter, MemoryMeters, MemoryReader, MemoryReading, MemoryRow,
    MemoryTally, MemoryTerms, PageIo, PageSample, PageUse, WriteCause,
};
pub use rollup::{
    Retention, RollUp, RollUpBlock, RollUpError, RollUpRow, RollUpSegment, RollUpStep, SampleRow, Sampled,
    SparseHistogram, WallMinute,
};
pub use work_memory::{
    OperatorWorkMeter, StatementWorkMeter, WorkMemoryMeter, WorkMemoryRow, WorkMemoryTerms,
};

/// When an interval that began at `from` is over: at a multiple of its length, the first that leaves it half of that at least. So the intervals of all tenants with
/// the same length end together, whenever the tenants were made.
///
/// Example: a length of 1 s. From 3.0 s or (a late collection) from 3.02 s: at 4 s. From 3.6 s: at 5 s.
pub(crate) fn end_of_interval(from: Nanos, interval: Nanos) -> Nanos {
    Nanos((from.0 + interval.0 / 2).div_ceil(interval.0).max(1) * interval.0)
}
