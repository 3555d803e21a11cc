//! CPU, I/O and memory policy: whose task runs next, and what each tenant was promised.
//!
//! Level 1. Pure logic: never blocks, performs no I/O, reads no clock (time is an argument), names no SQL, and allocates
//! nothing on the run path. Today: the promises themselves, processor time by reservation, limit and weight with the
//! meter that audits it, and which pages leave memory.

mod cpu;
mod memory;
mod meter;
mod promise;

pub use cpu::{CpuAccount, CpuAccounts, CpuScheduler, Overbooking, Pick, Policy};
pub use memory::{EvictionTime, UseTimes, VictimChoice};
pub use meter::{Cause, CpuAudit, CpuFeed, CpuMeters, CpuTerms, Delays, LedgerRow, Resource};
pub use promise::{
    CpuPromise, IoPromise, IoPromiseKind, MemoryPromise, MilliCores, Promise, PromiseError, PromiseKey,
};
