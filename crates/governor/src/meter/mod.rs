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

pub use cpu::{CpuAudit, CpuFeed, CpuMeters, CpuTerms};
pub use io::{DelayHistogram, IoCapacity, IoInterval, IoMeter, IoMeterVolume, IoRow, IoUsage};
pub use ledger::{Cause, Delays, LedgerRow, Resource};
pub(crate) use memory::EVIDENCE_MIN;
pub use memory::{
    CURVE, MemoryAudit, MemoryCounts, MemoryMeter, MemoryMeters, MemoryRow, MemoryTally, MemoryTerms, PageIo,
    PageSample, PageUse, WriteCause,
};
pub use rollup::{
    Retention, RollUp, RollUpBlock, RollUpError, RollUpRow, RollUpSegment, RollUpStep, SampleRow, Sampled,
    SparseHistogram, WallMinute,
};
pub use work_memory::{
    OperatorWorkMeter, StatementWorkMeter, WorkMemoryMeter, WorkMemoryRow, WorkMemoryTerms,
};
