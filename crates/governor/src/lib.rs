//! CPU, I/O and memory policy: whose task runs next, and what each tenant was promised.
//!
//! Level 1. Pure logic: never blocks, performs no I/O, reads no clock (time is an argument), names no SQL, and allocates
//! nothing on the run path. Today: the promises themselves, processor time and the I/O of a volume by reservation, limit and
//! weight with the meters that audit them, the ledger by the minute, which
//! worker is whose home, which statements run away, who may hold working memory, what to promise whom, and which pages leave memory.

mod advisor;
mod cpu;
#[cfg(test)]
mod fixture;
mod io;
mod memory;
mod meter;
mod option;
mod placement;
mod policy;
mod promise;
mod runaway;
mod server_options;
mod work_memory;

pub use advisor::{
    Advice, Assessment, CachePoint, DemandRecord, Goal, ShareForGoal, Shortfall, TooLittle, advise,
};
pub use cpu::{CpuAccount, CpuAccounts, CpuScheduler, Pick};
pub use io::{AwaitedFor, IoCost, IoPlace, IoQueue, IoToken, IoVolume, LimitDebt, Next, Submitted};
pub use memory::{
    EvictionTime, HoldPool, MemoryPrice, MemoryPricing, MemoryShare, OLDEST_EVERY, OwnAges, RoomLine,
    RoomStanding, TenantHolds, UseTimes, VictimChoice,
};
pub use meter::{
    CURVE, Cause, CpuAudit, CpuFeed, CpuMeters, CpuTerms, DelayHistogram, Delays, IoCapacity, IoInterval,
    IoMeter, IoMeterVolume, IoRow, IoUsage, LedgerRow, MemoryAudit, MemoryCounts, MemoryMeter, MemoryMeters,
    MemoryReader, MemoryReading, MemoryRow, MemoryTally, MemoryTerms, OperatorWorkMeter, OwnLimit, PageIo,
    PageSample, PageUse, Resource, Retention, RollUp, RollUpBlock, RollUpError, RollUpRow, RollUpSegment,
    RollUpStep, SampleRow, Sampled, SparseHistogram, StatementWorkMeter, WallMinute, WorkMemoryMeter,
    WorkMemoryRow, WorkMemoryTerms, WriteCause,
};
pub use option::{OptionError, duration_text};
pub use placement::{
    Elsewhere, Move, MoveReason, Occupancy, Packing, PlacementPlan, PlacementPolicy, Resident,
};
pub use policy::{Overbooking, Policy};
pub use promise::{
    CpuPromise, IoPromise, IoPromiseKind, MemoryPromise, MilliCores, Promise, PromiseKey, PromiseOptions,
};
pub use runaway::{
    Runaway, RunawayAction, RunawayError, RunawayKey, RunawayMeasure, RunawayRule, RunawayRules,
    RunawayScope, RunawayTerms, RunawayVerdict, StatementUsage, TenantRules,
};
pub use server_options::{ServerKey, ServerOptions, VolumeKey, VolumeOptions};
pub use work_memory::{TenantWorkMemory, WorkMemory, WorkMemoryRefusal, WorkOperator};
